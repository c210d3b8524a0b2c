//! Faults that came out of odd snapshots, each as small as it can be.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster},
};

/// The lease of a node in maintenance is with another operator, and the status says how often it was found so.
fn lost(errors: &str) -> String {
    format!(
        "node a worker 4.16.0
         maintenance a finalizer phase:Succeeded lease-errors:{errors} updated:-100
         kept a cordoned holder:remediation
         turn a Drained
         pods a"
    )
}

#[test]
fn a_count_of_lost_leases_that_numo_never_wrote_is_counted_on_from() {
    // Fewer than none are none.
    for errors in ["-1", "-70", "-9223372036854775808"] {
        check(
            &lost(errors),
            "hold NodeLeaseLost ~ it is held by different owner: remediation
             > nothing",
        );
    }
    // More than any are too many.
    check(
        &lost("9223372036854775807"),
        "maintenance Failed
         > uncordon a Some(false) with no taints",
    );
}

#[test]
fn a_count_of_corrections_as_large_as_can_be_is_too_many() {
    check(
        "node a worker 4.16.0
         maintenance a finalizer phase:Running
         turn a Drained
         kept a uncordoned corrections:4294967295
         pods a",
        "maintenance Failed ~ someone uncordoned it, 4294967295 times in all",
    );
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours unpaused by:argocd corrections:4294967295
         node a worker 4.16.0
         run {}",
        "hold ForeignWriter",
    );
}

#[test]
fn an_answer_of_a_time_that_has_not_come_is_no_pass() {
    let asked = |phase: &str, said: i64| {
        let change = if phase == "Pre" {
            "change a PreRules pin:4.17.0"
        } else {
            ""
        };
        let turn = if phase == "Pre" { "turn" } else { "" };
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 {turn}
             rule disk {phase} wasm
             run finalizer {{}}
             {change}
             evaluation disk/{phase}/1 of a Pass:Fine first:-10 asked:-10 said:{said}"
        )
    };
    // The clocks of two API servers may differ by so much.
    check(
        &asked("Pre", 60),
        "> journal a verdict disk/Pre/1 Pass PreRelease",
    );
    check(&asked("Admit", 60), "> admit a");
    // The clock went back by hours: nobody knows how old the answer is.
    check(&asked("Pre", 3600), "? evaluate disk/Pre/1 of a\n > nothing");
    check(&asked("Admit", 3600), "? evaluate disk/Admit/1 of a\n > nothing");
}

#[test]
fn a_journal_that_has_lost_its_words_is_told_by_its_reason() {
    check(
        "node a worker v0
         plan finalizer
         begun a Skipped",
        "node a Skipped SkippedByPerson ~ A directive on the NodeChange leaves the node out",
    );
    check(
        "node a worker v0
         maintenance a finalizer
         turn a Skipped",
        "node a Skipped SkippedByPerson ~ A directive on the NodeChange leaves the node out",
    );
}

#[test]
fn a_node_waits_while_something_else_has_the_name_of_its_turn() {
    let with = |edit: fn(&mut numo_core::observed::ChangeView)| {
        let mut cluster = Cluster::parse(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             node b worker 4.16.0
             run {order: Name} finalizer
             change a PreRules pin:4.17.0",
        );
        cluster.observed.changes.values_mut().for_each(edit);
        cluster
    };
    // Somebody deleted it, and made it again for something else. The next node has its turn meanwhile.
    check_cluster(
        &with(|view| {
            "other".clone_into(&mut view.spec.owner_ref.uid);
            "gone".clone_into(&mut view.spec.node_uid);
        }),
        "node a Selected JournalContradicts ~ has the name of the turn of Node a: found spec.nodeName a with uid gone
         > admit b",
    );
    // It is being deleted, and something keeps it.
    check_cluster(
        &with(|view| view.deleting = true),
        "node a Selected Admitting ~ is being deleted: its turn begins once that is gone
         > admit b",
    );
}

#[test]
fn a_cordon_on_a_node_that_the_spec_names_no_more_is_taken_back() {
    // The CRD of another operator lets spec.nodeName be edited, and a person has deleted the journal.
    let cluster = |node_b: &str| {
        format!(
            "node a worker 4.16.0
             node b worker 4.16.0 {node_b}
             maintenance b deleting finalizer
             kept a cordoned"
        )
    };
    check(
        &cluster(""),
        "node a Uncordoned Restoring
         > uncordon a Some(false) with no taints",
    );
    check(&cluster("cordoned"), "> uncordon a Some(false) with no taints");
}
