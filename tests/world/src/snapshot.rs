//! What is in the API server at one time, of all that an upgrade must leave as it was.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Api, Client, ResourceExt};

use crate::membership::{Membership, primary_pool, tidy};
use crate::openshift::{
    CURRENT_CONFIG, DESIRED_CONFIG, EXCLUDE_FROM_REMEDIATION, MachineConfig, MachineConfigPool,
    SCALE_DOWN_DISABLED, STATE, annotation, is_ready, is_unschedulable, release_version,
};
use crate::record::{MARK_PREFIXES, marks};

/// Keys that shield a node; they too must be as before.
const SHIELDS: [&str; 3] = [
    EXCLUDE_FROM_REMEDIATION,
    SCALE_DOWN_DISABLED,
    "karpenter.sh/do-not-disrupt",
];

/// What must be the same afterwards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Primary pool, marks and cordon of each node.
    pub nodes: BTreeMap<String, NodeFacts>,
    pub pools: BTreeMap<String, PoolFacts>,
    pub leases: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeFacts {
    pub membership: Membership,
    pub marks: BTreeSet<String>,
    pub desired: String,
    pub version: String,
    pub settled: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PoolFacts {
    pub selector: Option<LabelSelector>,
    pub paused: bool,
    pub marks: BTreeSet<String>,
    pub config: String,
}

impl Snapshot {
    /// Reads it from the API server.
    pub(crate) async fn take(client: &Client) -> Result<Self> {
        let params = kube::api::ListParams::default();
        let pools = Api::<MachineConfigPool>::all(client.clone())
            .list(&params)
            .await?
            .items;
        let nodes = Api::<Node>::all(client.clone()).list(&params).await?.items;
        let configs = Api::<MachineConfig>::all(client.clone())
            .list(&params)
            .await?
            .items;
        let leases = Api::<Lease>::namespaced(client.clone(), "medik8s-leases")
            .list(&params)
            .await?
            .items;
        let versions: BTreeMap<String, String> = configs
            .iter()
            .map(|c| (c.name_any(), release_version(c)))
            .collect();
        let facts = |n: &Node| node_facts(n, &pools, &versions);
        Ok(Self {
            nodes: nodes.iter().map(|n| (n.name_any(), facts(n))).collect(),
            pools: pools.iter().map(|p| (p.name_any(), pool_facts(p))).collect(),
            leases: leases.iter().map(ResourceExt::name_any).collect(),
        })
    }
}

fn node_facts(node: &Node, pools: &[MachineConfigPool], versions: &BTreeMap<String, String>) -> NodeFacts {
    let mut marks = marks(&node.metadata);
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
    let has_prefix = |key: &str| MARK_PREFIXES.iter().any(|p| key.starts_with(p));
    marks.extend(
        taints
            .into_iter()
            .flatten()
            .map(|t| t.key.clone())
            .filter(|k| has_prefix(k)),
    );
    let keys = node.labels().iter().chain(node.annotations());
    marks.extend(
        keys.filter(|(k, _)| SHIELDS.contains(&k.as_str()))
            .map(|(k, v)| format!("{k}={v}")),
    );
    let (current, desired) = (annotation(node, CURRENT_CONFIG), annotation(node, DESIRED_CONFIG));
    NodeFacts {
        membership: primary_pool(node.labels(), pools),
        marks,
        desired: desired.to_owned(),
        version: versions.get(current).cloned().unwrap_or_default(),
        settled: current == desired
            && annotation(node, STATE) == "Done"
            && is_ready(node)
            && !is_unschedulable(node),
    }
}

fn pool_facts(pool: &MachineConfigPool) -> PoolFacts {
    PoolFacts {
        selector: pool.spec.node_selector.as_ref().map(|s| tidy(Some(s))),
        paused: pool.spec.paused,
        marks: marks(&pool.metadata),
        config: pool.spec.configuration.name.clone(),
    }
}
