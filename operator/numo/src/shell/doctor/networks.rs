//! Checks that it is known which addresses are the cluster's, as rules are kept from those.

use super::{
    deployment::own_deployment,
    finding::{Findings, State},
};
use crate::shell::{
    client::Connection,
    services::{self, Said},
    told::{self, Told},
};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::ListParams};

/// Nodes that are asked for the range of their pods: all say it, or none does.
const NODES_LOOKED_AT: u32 = 100;

/// Whether it is known which addresses are the cluster's: rules are kept from those. Private ones are closed whatever is known.
pub(super) async fn networks(connection: &Connection, namespace: &str, found: &mut Findings) {
    let deployment = match own_deployment(connection, namespace).await {
        Ok(Some(deployment)) => deployment,
        // What it runs with elsewhere cannot be seen.
        Ok(None) => return,
        Err(error) => return found.unknown("whether numo was told the addresses of the cluster", &error),
    };
    if told::told(&deployment, "--cluster-networks", "NUMO_CLUSTER_NETWORKS") != Told::Nothing {
        return found.ok("numo was told the addresses of pods, Services and nodes (--cluster-networks)");
    }
    let nodes: Api<Node> = Api::all(connection.read.clone());
    let has_pods = match nodes.list(&ListParams::default().limit(NODES_LOOKED_AT)).await {
        Ok(list) => list.items.iter().any(has_pod_range),
        Err(error) => return found.unknown("the pod ranges of Nodes", &error),
    };
    let (services, network) = tokio::join!(
        services::service_cidrs(&connection.read),
        services::network(&connection.read)
    );
    let mut says = [false; 2];
    for (said, says) in [services, network].into_iter().zip(&mut says) {
        *says = match said {
            Ok(Said::Ranges(ranges)) => !ranges.is_empty(),
            Ok(Said::NotServed) => false,
            Ok(Said::Forbidden(words)) | Err(words) => {
                let cure = "run it as somebody who may read that, for example as cluster-admin".to_owned();
                return found.say(
                    State::Unknown,
                    format!("ranges of the cluster: {words}"),
                    Some(cure),
                );
            }
        };
    }
    let [has_services, has_network] = says;
    let missing = unknown_ranges(has_pods, has_services, has_network);
    if missing.is_empty() {
        return found.ok("the addresses of pods and Services are known, and closed to rules");
    }
    found.note(
        format!(
            "nothing says the addresses of {}: of them rules are kept from private ones only",
            missing.join(" and ")
        ),
        "name the ranges of pods, Services and nodes by --cluster-networks (NUMO_CLUSTER_NETWORKS), unless they are private",
    );
}

/// Whether a Node says the range of its pods.
fn has_pod_range(node: &Node) -> bool {
    let ranges = node.spec.as_ref().and_then(|spec| spec.pod_cidrs.as_ref());
    ranges.is_some_and(|ranges| !ranges.is_empty())
}

/// Whose addresses nothing says: neither Nodes (of pods), nor ServiceCIDRs (of Services), nor OpenShift's Network (of both).
fn unknown_ranges(nodes: bool, services: bool, network: bool) -> Vec<&'static str> {
    let all = [("pods", nodes), ("Services", services)];
    let missing = all.into_iter().filter(|(_, known)| !known && !network);
    missing.map(|(what, _)| what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn ranges_that_nothing_says_are_named() {
        for (nodes, services, network, wanted) in [
            (true, true, false, &[][..]),
            (false, false, true, &[]),
            (true, false, false, &["Services"]),
            (false, true, false, &["pods"]),
            (false, false, false, &["pods", "Services"]),
        ] {
            assert_eq!(unknown_ranges(nodes, services, network), wanted);
        }
        let node = |spec: Value| {
            serde_json::from_value::<Node>(serde_json::json!({"metadata": {}, "spec": spec})).unwrap()
        };
        assert!(has_pod_range(&node(
            serde_json::json!({"podCIDRs": ["10.0.0.0/24"]})
        )));
        assert!(
            !has_pod_range(&node(serde_json::json!({"podCIDRs": []}))) && !has_pod_range(&Node::default())
        );
    }
}
