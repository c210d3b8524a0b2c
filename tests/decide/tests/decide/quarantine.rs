//! `quarantine: Taint`: who is kept free of new pods, and until when.

use crate::{
    cluster::Cluster,
    words::{check, decision},
};
use numo_core::action::{Action, NodePurpose};

fn cluster(node: &str, change: &str, run: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker {node}
         node b worker 4.16.0
         rule backup Pre,Post
         run {run}
         change a {change}"
    )
}

const TAINT: &str = "{quarantine: Taint}";
const LATE: &str =
    "Held reason:ChangeTimeout pin:4.17.0 entries:Admitted,Released,Held verdict:backup/Pre/1/Pass";

#[test]
fn a_node_that_did_not_come_back_is_tainted_beside_others_taints() {
    let node = "4.16.0 desired:4.17.0 Working turn tainted";
    check(&cluster(node, LATE, TAINT), "> quarantine a to 2 taints");
    check(&cluster(node, LATE, "{}"), "> nothing");
    check(&cluster(&format!("{node} quarantined"), LATE, TAINT), "> nothing");
}

#[test]
fn a_node_that_failed_before_it_was_let_go_is_as_it_was() {
    let change =
        "Held reason:RuleFailed pin:4.17.0 entries:Admitted,PreRules,Held verdict:backup/Pre/1/Failure";
    check(
        &cluster("4.16.0 turn", change, TAINT),
        "node a Held RuleFailed\n > nothing",
    );
}

#[test]
fn the_taint_goes_when_the_node_is_mended_or_the_run_is_left() {
    let released = "Released pin:4.17.0 entries:Admitted,Released verdict:backup/Pre/1/Pass";
    let node = "4.16.0 desired:4.17.0 Working turn tainted quarantined";
    check(&cluster(node, released, TAINT), "> unquarantine a to 1 taints");
    let alone = "4.16.0 desired:4.17.0 Working turn quarantined";
    check(&cluster(alone, released, TAINT), "> unquarantine a to no taints");
    // No longer asked for.
    check(&cluster(node, LATE, "{}"), "> unquarantine a to 1 taints");
    // A node that is in the run no more.
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         pool infra 4.17.0 foreign
         node a infra 4.17.0 quarantined
         node b worker 4.17.0
         target t worker
         run {quarantine: Taint} finalizer",
        "> unquarantine a to no taints",
    );
}

#[test]
fn a_quarantine_stays_while_nobody_knows_the_version() {
    let ends = |run: &str| {
        let node = "4.16.0 desired:4.17.0 Working turn tainted quarantined";
        let unknown = cluster(node, LATE, run).replace("cluster 4.17.0", "cluster nonsense");
        let actions = decision(&Cluster::parse(&unknown)).actions;
        actions.iter().any(
            |planned| matches!(&planned.action, Action::PatchNode(patch) if patch.purpose == NodePurpose::Unquarantine),
        )
    };
    assert!(!ends(TAINT));
    assert!(ends("{}"), "it is not asked for any more");
    assert!(ends("{quarantine: Taint} finalizer deleting"), "the run is left");
}
