//! Nodes. Of 7,500 of them a heartbeat each ten seconds compares equal, and what nobody reads is not kept.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched},
    object::{Object, OfNode},
};
use crate::shell::{
    project::{created, slim_meta},
    store::{Store, replace},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use numo_core::observed::{EtcdVoter, HostView, Key, Leaving, NodeView};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// Nodes that a watch asks for at once: pages bound the memory of its first list, 100 Nodes of 17 KB each.
pub const PAGE: u32 = 100;

/// How Nodes are watched.
pub const NODE: Watched = Watched {
    resource: ("", "v1", "Node", "nodes"),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Awaited,
    reading: Reading::Whole,
    project,
    kept: Kept::All,
    remove,
};

fn project(object: &DynamicObject) -> Option<Object> {
    let slim = serde_json::from_value(serde_json::to_value(object).ok()?).ok()?;
    Some(node_object(slim))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, node: NodeView, rest: OfNode) -> bool {
    let OfNode {
        volumes,
        networks,
        host,
    } = rest;
    let name = node.name.clone();
    let has_moved = store.put_host(&name, host);
    store.put_networks(&name, networks);
    let known = store.observed.volumes.get(&name).map_or(&[][..], Vec::as_slice);
    if *known != *volumes {
        store.touch_if_drained(&name);
        if volumes.is_empty() {
            store.observed.volumes.remove(&name);
        } else {
            store.observed.volumes.insert(name.clone(), volumes);
        }
    }
    replace(&mut store.observed.nodes, name, node) || has_moved
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.volumes.remove(&key.name);
    store.forget_networks(&key.name);
    store.observed.fleet.hosts.remove(&key.name);
    store.observed.nodes.remove(&key.name).is_some()
}

/// A Node without what nobody here reads: images, managed fields, addresses.
#[derive(Clone, Debug, Deserialize)]
pub struct SlimNode {
    #[serde(deserialize_with = "slim_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: SlimNodeSpec,
    #[serde(default)]
    status: SlimNodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct SlimNodeSpec {
    #[serde(default)]
    unschedulable: bool,
    /// As given: the list is tested and replaced whole.
    #[serde(default)]
    taints: Value,
    /// None in a snapshot, which says nobody's cloud.
    #[serde(rename = "providerID", default)]
    provider_id: Option<String>,
    #[serde(rename = "podCIDRs", default)]
    pod_networks: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct SlimNodeStatus {
    #[serde(default)]
    conditions: Vec<SlimCondition>,
    #[serde(rename = "volumesAttached", default)]
    volumes_attached: Vec<SlimVolume>,
    #[serde(rename = "nodeInfo", default)]
    node_info: SlimNodeInfo,
    #[serde(default)]
    addresses: Vec<SlimAddress>,
}

#[derive(Clone, Debug, Deserialize)]
struct SlimAddress {
    #[serde(rename = "type", default)]
    type_: String,
    #[serde(default)]
    address: String,
}

/// Ranges of the pods of one Node, and addresses of its own, that are believed, at most: neither takes the place of the other.
const POD_NETWORKS: usize = 16;
const ADDRESSES: usize = 32;

#[derive(Clone, Debug, Default, Deserialize)]
struct SlimNodeInfo {
    #[serde(rename = "bootID", default)]
    boot_id: String,
    #[serde(rename = "kubeletVersion", default)]
    kubelet_version: String,
}

#[derive(Clone, Debug, Deserialize)]
struct SlimVolume {
    name: String,
}

#[derive(Clone, Debug, Deserialize)]
struct SlimCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    /// As text: what cannot be read as a time says nothing, and costs no node.
    #[serde(rename = "lastTransitionTime", default)]
    last_transition_time: Option<String>,
}

/// Since when a node is not Ready: the earliest of its failing conditions.
fn failing_since(conditions: &[SlimCondition]) -> Option<jiff::Timestamp> {
    let fails = |condition: &&SlimCondition| match condition.type_.as_str() {
        "Ready" => condition.status != "True",
        "DiskPressure" | "NetworkUnavailable" => condition.status != "False",
        _ => false,
    };
    let failing = conditions.iter().filter(fails);
    failing
        .filter_map(|condition| condition.last_transition_time.as_deref()?.parse().ok())
        .min()
}

impl kube::Resource for SlimNode {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Taints by which autoscalers say that a node is about to be deleted.
const LEAVING_TAINTS: [&str; 2] = ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"];

/// How the node is taken away, if its deletion or an autoscaler's taint tells of it. The value of the taint of Cluster
/// Autoscaler is when it put the taint there (Unix time in seconds); Karpenter's has no time.
fn leaving(node: &SlimNode) -> Option<Leaving> {
    if let Some(at) = &node.metadata.deletion_timestamp {
        return Some(Leaving {
            why: "it is being deleted".to_owned(),
            since: Some(at.0),
        });
    }
    let taints = node.spec.taints.as_array().into_iter().flatten();
    let mut keys = taints.filter_map(|taint| Some((taint.get("key")?.as_str()?, taint)));
    let (key, taint) = keys.find(|(key, _)| LEAVING_TAINTS.contains(key))?;
    let since = taint.get("value").and_then(|value| value.as_str()?.parse().ok());
    Some(Leaving {
        why: format!("taint {key}"),
        since: since.and_then(|seconds| Timestamp::from_second(seconds).ok()),
    })
}

/// The view of a Node.
pub fn node(node: SlimNode) -> (NodeView, OfNode) {
    let condition = |wanted: &str| {
        node.status
            .conditions
            .iter()
            .find(|c| c.type_ == wanted)
            .map(|c| c.status.as_str())
    };
    let ready = condition("Ready") == Some("True")
        && condition("DiskPressure").is_none_or(|status| status == "False")
        && condition("NetworkUnavailable").is_none_or(|status| status == "False");
    let leaving = leaving(&node);
    let volumes = &node.status.volumes_attached;
    let volumes = volumes.iter().map(|volume| volume.name.clone()).collect();
    // A kubelet writes them: each is one address, or a name.
    let addresses = node.status.addresses.iter().map(|one| &one.address);
    let addresses = addresses.filter(|address| !address.contains('/'));
    let addresses = addresses.filter_map(|text| text.parse().ok());
    let pods = node.spec.pod_networks.iter().filter_map(|text| text.parse().ok());
    let internal = node.status.addresses.iter().find(|one| one.type_ == "InternalIP");
    let host = HostView {
        provider_id: node.spec.provider_id.unwrap_or_default(),
        address: internal.map(|one| one.address.clone()).unwrap_or_default(),
    };
    let networks = pods.take(POD_NETWORKS).chain(addresses.take(ADDRESSES)).collect();
    let view = NodeView {
        etcd_voter: condition("EtcdIsVoter").map(|status| match status {
            "True" => EtcdVoter::Yes,
            "False" => EtcdVoter::No,
            _ => EtcdVoter::Unknown,
        }),
        boot_id: node.status.node_info.boot_id,
        kubelet_version: node.status.node_info.kubelet_version,
        created: created(&node.metadata),
        unschedulable: node.spec.unschedulable,
        taints: node.spec.taints,
        not_ready_since: (!ready).then(|| failing_since(&node.status.conditions)).flatten(),
        ready,
        leaving,
        name: node.metadata.name.unwrap_or_default(),
        uid: node.metadata.uid.unwrap_or_default(),
        labels: node.metadata.labels.unwrap_or_default().into(),
        has_annotations: node.metadata.annotations.is_some(),
        annotations: node.metadata.annotations.unwrap_or_default().into(),
    };
    let rest = OfNode {
        volumes,
        networks,
        host,
    };
    (view, rest)
}

/// The view of a Node with its place in the store.
pub fn node_object(slim: SlimNode) -> Object {
    let (view, rest) = node(slim);
    Object::Node(Box::new(view), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_etcd_that_nobody_knows_of_is_not_taken_for_none() {
        let voter = |conditions: Value| {
            let object = serde_json::json!({
                "metadata": {"name": "cp-0"},
                "status": {"conditions": conditions},
            });
            node(serde_json::from_value(object).unwrap()).0.etcd_voter
        };
        let with = |status: &str| voter(serde_json::json!([{"type": "EtcdIsVoter", "status": status}]));
        assert_eq!(voter(serde_json::json!([])), None);
        assert_eq!(with("True"), Some(EtcdVoter::Yes));
        assert_eq!(with("False"), Some(EtcdVoter::No));
        assert_eq!(with("Unknown"), Some(EtcdVoter::Unknown));
        assert_eq!(with(""), Some(EtcdVoter::Unknown));
    }

    #[test]
    fn a_kubelet_that_writes_many_addresses_keeps_none_of_its_pods_range_out() {
        let addresses: Vec<Value> = (0..40)
            .map(|last| serde_json::json!({"type": "InternalIP", "address": format!("192.0.2.{last}")}))
            .chain([serde_json::json!({"type": "Hostname", "address": "worker-0"})])
            .collect();
        let object = serde_json::json!({
            "metadata": {"name": "worker-0"},
            "spec": {"podCIDRs": ["198.51.100.0/24", "2001:db8::/64"]},
            "status": {"addresses": addresses},
        });
        let (_, OfNode { networks, .. }) = node(serde_json::from_value(object).unwrap());
        let wanted = ["198.51.100.0/24", "2001:db8::/64"].map(|text| text.parse().unwrap());
        assert_eq!(networks[..2], wanted);
        assert_eq!(networks.len(), 2 + ADDRESSES);
    }
}
