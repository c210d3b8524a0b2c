//! From the Constellation node operator and back to it: each object that it leaves has its next step, as the page of the move has it
//! (`operator/docs/migration/constellation-node-operator.md`). Whole replacements that were broken off are in `replacing.rs`.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster, decision, words},
};
use numo_core::observed::{ForeignController, Key, Rival};

/// Two outdated workers of a group that gets the image.
const TWO: &str = "node a worker v0
     node b worker v0
     version img2 finalizer
     host a img1
     host b img1
     group w image:img2
     groups w";

/// The same cluster, where the new node of the operator has joined.
const THREE: &str = "node a worker v0
     node b worker v0
     node new worker v0
     version img2 finalizer
     host a img1 HEIR
     host b img1
     host new img2 DONOR
     group w image:img2
     groups w";

/// The same, where no node is begun.
fn paused(text: &str) -> String {
    text.replace(" finalizer", " finalizer paused")
}

fn with_new(heir: &str, donor: &str, rest: &str) -> String {
    format!("{}\n{rest}", THREE.replace("HEIR", heir).replace("DONOR", donor))
}

/// The rows of the page, in their order.
#[test]
fn each_object_that_the_operator_leaves_has_its_next_step() {
    let of = |rest: &str| format!("{TWO}\n{rest}");
    // A pair: a turn begins for the old node, and no other machine is made for it.
    check(&with_new("heir:new", "donor:a", ""), "> admit a");
    check(
        &with_new("heir:new", "donor:a", "replacing a Admitted\n pods a"),
        "> cordon a with the same taints",
    );
    // Half a pair, or one whose other node is gone.
    check(&paused(&with_new("heir:gone", "", "")), "> note a -heir");
    check(&paused(&with_new("", "donor:a", "")), "> note new -donor");
    // A machine boots; a turn of its group takes it.
    check(&of("pending new node:new machine:m-new Creating"), "> admit a");
    check(
        &of("replacing a Admitted\n pending new node:new machine:m-new Creating"),
        "> claim new",
    );
    // It does not come.
    check(
        &paused(&of("pending new node:new machine:m-new Creating late:1")),
        "> rewrite new Leave m-new",
    );
    // Its Node is there, and it takes the place of an old one; where there is none it goes.
    let joined = "pending new node:new machine:m-new Ready reached";
    check(&with_new("", "", joined), "> admit a");
    let nobody = with_new("", "", joined).replace("img1", "img2");
    check(
        &nobody,
        "> note new obsolete=true
         > forget new",
    );
    // Its Node was deleted, and the machine is there.
    check(
        &of("pending old leave node:old machine:m-old Ready"),
        "> delete machine m-old",
    );
    // To go, and nothing takes its place.
    check(
        &of("")
            .replace("host b img1", "host b img2 obsolete")
            .replace("host a img1", "host a img2"),
        "> admit b",
    );
    // The join service has written down with which components nodes come.
    check(
        &paused(&of("joining j node:a components:c2")),
        "> note a kubernetes-components=c2
         > forget joining j",
    );
    check(
        &paused(&of("joining j node:lost components:c2 late:1")),
        "> forget joining j",
    );
}

/// The operator scaled the cluster autoscaler down before it began. It rests while nodes are replaced, and runs again after the last one.
#[test]
fn a_cluster_autoscaler_that_the_operator_has_stopped_rests_on_and_runs_in_the_end() {
    check(&format!("{TWO}\n strategy"), "> admit a");
    let done = TWO.replace("img1", "img2");
    check(
        &format!("{done}\n strategy"),
        "> autoscaler on
         > autoscaler 1 of 0 with ./cluster-autoscaler",
    );
    // The finalizer stays until it does.
    check(&format!("{done}\n strategy on"), "> finalizer 0 off");
}

/// It drained by NodeMaintenances: a node that still has its turn with one of numo's is not begun, and another one goes first.
#[test]
fn a_node_that_the_operator_has_in_maintenance_waits_until_that_is_deleted() {
    let leased = TWO.replace("node a worker v0", "node a worker v0 lease:other");
    let cluster = Cluster::parse(&leased);
    check_cluster(
        &cluster,
        "node a Selected NodeLeaseHeld
         > admit b",
    );
}

/// While the operator runs nothing begins. What has begun by then is brought to its end: nobody else would.
#[test]
fn beside_the_live_operator_nothing_is_begun_and_what_is_in_hand_is_finished() {
    let beside = |text: &str| {
        let mut cluster = Cluster::parse(text);
        let runs = Rival {
            what: ForeignController::NodeVersion,
            lingers: None,
        };
        let key = Key::new("kube-system", "constellation-operator-controller-manager");
        cluster.observed.foreign_controllers.insert(key, runs);
        cluster
    };
    let fresh = TWO.replace(" finalizer", "");
    check_cluster(
        &beside(&fresh),
        "hold ForeignController ~ constellation-operator-controller-manager
         > nothing",
    );
    let begun = format!("{TWO}\n replacing a Released cordoned machine:m-a");
    let cluster = beside(&begun);
    let found = words(&cluster, &decision(&cluster));
    assert!(found.iter().any(|line| line == "> leave a m-a"), "{found:#?}");
    assert!(
        !found.iter().any(|line| line.starts_with("> admit")),
        "{found:#?}"
    );
}
