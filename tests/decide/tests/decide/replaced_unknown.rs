//! Nodes of which nobody can say any more, in their turn, whether they need another machine: the turn stands still, and keeps what it has.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster, decision, words},
};
use numo_api::machines::annotations;

/// An old node in its turn, and the new one that takes its place.
fn pair(turn: &str) -> Cluster {
    Cluster::parse(&format!(
        "node a worker v0\n node b worker v0
         version img2 finalizer
         host a img1 heir:b\n host b img2 donor:a
         group w image:img2\n groups w
         replacing a {turn}
         pods a"
    ))
}

/// The same, without what an annotation of a node says.
fn without(turn: &str, node: &str, key: &str) -> Cluster {
    let mut cluster = pair(turn);
    let node = cluster.observed.nodes.get_mut(node).expect("a node");
    node.annotations.remove(key);
    cluster
}

/// The same, without the id of the machine of a node.
fn without_machine(turn: &str, node: &str) -> Cluster {
    let mut cluster = pair(turn);
    let host = cluster.observed.fleet.hosts.get_mut(node).expect("a host");
    host.provider_id.clear();
    cluster
}

const STEPS: [&str; 4] = [
    "PreRules",
    "Cordoned cordoned",
    "Drained cordoned",
    "PreRelease cordoned",
];

/// Somebody has taken the annotation off: the pair stays one, the old node stays cordoned and is not let go.
#[test]
fn a_node_whose_image_is_not_known_any_more_keeps_its_turn_and_its_new_node() {
    for turn in STEPS {
        for node in ["a", "b"] {
            let unknown = [
                without(turn, node, annotations::NODE_IMAGE),
                without_machine(turn, node),
            ];
            for cluster in unknown {
                let found = words(&cluster, &decision(&cluster)).join("\n");
                // It is said that the turn is closed, or that no pod is left.
                let is_noted = |line: &str| matches!(line, "> journal a closed" | "> journal a Drained");
                let writes = found.lines().filter(|line| line.starts_with('>'));
                let others: Vec<&str> = writes.filter(|line| !is_noted(line)).collect();
                assert!(others.is_empty(), "{turn}, {node}: {found}");
            }
        }
    }
}

#[test]
fn what_is_not_known_of_a_node_in_its_turn_is_said() {
    let drained = "Drained cordoned";
    check_cluster(
        &without(drained, "a", annotations::NODE_IMAGE),
        "node a PreRelease AwaitingAnnotation ~ Node a has no annotation constellation.edgeless.systems/node-image yet
         ? facts m-a
         > nothing",
    );
    check_cluster(
        &without(drained, "b", annotations::NODE_IMAGE),
        "node a PreRelease AwaitingAnnotation ~ Node b has no annotation constellation.edgeless.systems/node-image yet
         > nothing",
    );
    check_cluster(
        &without_machine(drained, "a"),
        "node a PreRelease MachineUnknown ~ Node a spec.providerID: found none, wanted the id of its machine
         ends a ClusterAdmin
         > nothing",
    );
    check_cluster(&pair(drained), "> journal a Released MachineLeaving");
}

/// What has disrupted nothing lets others go first.
#[test]
fn a_turn_that_has_disrupted_nothing_is_restored_while_its_node_is_not_known() {
    check_cluster(
        &without("PreRules closed:60", "a", annotations::NODE_IMAGE),
        "> journal a Selected AwaitingAnnotation attempt 2",
    );
}

/// A node that is known not to need another machine is given back.
#[test]
fn a_node_that_is_at_the_version_ends_its_turn() {
    check(
        "node a worker v0\n version img2 finalizer\n host a img2\n group w image:img2\n groups w
         replacing a Cordoned cordoned",
        "> restore a uncordoned
         > journal a Failed Superseded
         > release lease a",
    );
}
