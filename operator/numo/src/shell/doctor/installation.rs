//! Checks that numo is installed once, has ready pods, and has them where nobody else takes over their node.

use super::{
    deployment::OWN_PODS,
    finding::{Findings, counted},
};
use crate::shell::client::Connection;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Node, Pod},
};
use kube::{Api, ResourceExt, api::ListParams};
use numo_api::marks;
use std::collections::BTreeSet;

/// What a control-plane node has.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

pub(super) async fn installation(connection: &Connection, namespace: &str, found: &mut Findings) {
    let api: Api<Deployment> = Api::all(connection.read.clone());
    let params = ListParams::default().labels(OWN_PODS);
    match api.list(&params).await {
        Err(error) => found.unknown("Deployments of numo", &error),
        Ok(list) => {
            let is_here = |one: &&Deployment| one.namespace().as_deref() == Some(namespace);
            let (here, elsewhere): (Vec<_>, Vec<_>) = list.items.iter().partition(is_here);
            match here.first() {
                None => found.note(
                    format!("there is no Deployment of numo in namespace {namespace}"),
                    "install it, name its namespace with --operator-namespace, or run it out of the cluster",
                ),
                Some(one) => own(one, namespace, found),
            }
            for other in elsewhere {
                let place = other.namespace().unwrap_or_default();
                found.wrong(
                    format!(
                        "a second numo is installed: Deployment {place}/{}",
                        other.name_any()
                    ),
                    format!(
                        "remove one of them: kubectl -n {place} delete deployment {}",
                        other.name_any()
                    ),
                );
            }
        }
    }
    let namespaces: Api<Namespace> = Api::all(connection.read.clone());
    match namespaces.get_opt(marks::LEASE_NAMESPACE).await {
        Err(error) => found.unknown("the namespace of node leases", &error),
        Ok(None) => found.wrong(
            format!(
                "Namespace {} is not there: no node can be leased, and none is taken",
                marks::LEASE_NAMESPACE
            ),
            format!("kubectl create namespace {}", marks::LEASE_NAMESPACE),
        ),
        Ok(Some(_)) => {}
    }
}

/// Whether the Deployment of the namespace has a pod that is ready.
fn own(one: &Deployment, namespace: &str, found: &mut Findings) {
    let wanted = one.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let ready = one
        .status
        .as_ref()
        .and_then(|status| status.ready_replicas)
        .unwrap_or(0);
    let name = format!("Deployment {namespace}/{}", one.name_any());
    if wanted == 0 {
        found.wrong(
            format!("{name} is scaled to 0"),
            format!(
                "kubectl -n {namespace} scale deployment {} --replicas 2",
                one.name_any()
            ),
        );
    } else if ready == 0 {
        found.wrong(
            format!("{name} has no ready pod of {wanted}"),
            format!("kubectl -n {namespace} describe pods -l app.kubernetes.io/name=numo"),
        );
    } else {
        found.ok(format!("{name}: {ready} of {wanted} pods are ready"));
    }
}

/// Where there are control-plane nodes, numo belongs on them: whoever takes over the node of one of its pods has its token.
pub(super) async fn placement(connection: &Connection, namespace: &str, found: &mut Findings) {
    let nodes: Api<Node> = Api::all(connection.read.clone());
    let control_plane = match nodes.list(&ListParams::default().labels(CONTROL_PLANE)).await {
        Err(error) => return found.unknown("control-plane nodes", &error),
        Ok(list) => list.items,
    };
    let pods: Api<Pod> = Api::namespaced(connection.read.clone(), namespace);
    let elsewhere = match pods.list(&ListParams::default().labels(OWN_PODS)).await {
        Err(error) => return found.unknown("pods of numo", &error),
        Ok(list) => elsewhere(&list.items, &control_plane),
    };
    if !elsewhere.is_empty() {
        found.wrong(
            format!(
                "{} of numo on nodes that are no control plane ({}): who takes over such a node has numo's token",
                counted(elsewhere.len(), "pod"),
                elsewhere.join(", ")
            ),
            "require the control plane: kubectl apply -k deploy/kustomize/all/self-managed, or controlPlanePlacement=required with Helm (and tolerations, if its nodes have taints of their own)",
        );
    }
}

/// The nodes of pods that are on none of these; none where there are none of these.
fn elsewhere(pods: &[Pod], control_plane: &[Node]) -> Vec<String> {
    let names: BTreeSet<String> = control_plane.iter().map(ResourceExt::name_any).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let placed = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
    placed.filter(|node| !names.contains(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numo_is_elsewhere_only_where_there_is_a_control_plane() {
        let pod = |node: &str| {
            let pod = serde_json::json!({"metadata": {"name": "numo"}, "spec": {"nodeName": node, "containers": []}});
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        let node = |name: &str| {
            serde_json::from_value::<Node>(serde_json::json!({"metadata": {"name": name}})).unwrap()
        };
        let pods = [pod("master-0"), pod("worker-0"), Pod::default()];
        assert_eq!(elsewhere(&pods, &[node("master-0")]), ["worker-0"]);
        assert_eq!(elsewhere(&pods, &[]), Vec::<String>::new());
    }
}
