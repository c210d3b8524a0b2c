//! What a wait comes of is told beside its sentence, so that the command which ends it need not be read out of words.

use crate::{cluster::Cluster, words::decision};
use numo_api::Reason;
use numo_core::report::{Cause, Why};

/// What a person is to end of this cluster: of the owner, or of node a.
fn cause(cluster: &str, reason: Reason) -> Cause {
    let report = decision(&Cluster::parse(cluster)).report;
    let of_node = report.nodes.get("a").map(|node| &node.why);
    let mut all = report.hold.iter().chain(of_node);
    let why: Option<&Why> = all.find(|why| why.reason == reason);
    let cause = why.and_then(|why| why.cause.as_deref()).cloned();
    cause.unwrap_or_else(|| panic!("nothing is told of it: {report:?}"))
}

#[test]
fn a_spent_failure_budget_names_its_node_and_its_field() {
    let cluster = |change: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             node b worker 4.16.0 turn
             run finalizer {{failureBudget: 1, maxUnavailable: 4}}
             {change}"
        )
    };
    let failures = |node: &str, is_gone, field: &str| Cause::Failures {
        node: node.to_owned(),
        is_gone,
        field: field.to_owned(),
    };
    let gone = "change x Failed reason:NodeGone pin:4.17.0 entries:PreRules,Released,Failed";
    let held = "change b Held pin:4.17.0 reason:RuleFailed verdict:before/Pre/1/Failure";
    for (change, wanted) in [
        (gone, failures("x", true, "spec.failureBudget")),
        (held, failures("b", false, "spec.failureBudget")),
    ] {
        assert_eq!(cause(&cluster(change), Reason::FailureBudgetSpent), wanted);
    }
    let bound = r#"node a worker 4.16.0
                   maintenance a finalizer
                   binding all spec {"ownerSelector":{"kind":"NodeMaintenance"},"failureBudget":1}
                   pods a
                   node b worker 4.16.0
                   maintenance b name:other finalizer
                   turn b Held reason:RuleFailed of:other"#;
    assert_eq!(
        cause(bound, Reason::FailureBudgetSpent),
        failures("b", false, "MutexBinding all spec.failureBudget")
    );
}

/// The field manager is a name that whoever writes has chosen.
#[test]
fn what_somebody_keeps_changing_is_told_whatever_their_name_is() {
    let cluster = "cluster 4.17.0
                   pool worker 4.17.0 ours unpaused by:master corrections:3
                   node a worker 4.16.0
                   run finalizer {}";
    assert_eq!(
        cause(cluster, Reason::ForeignWriter),
        Cause::Unpaused("worker".to_owned())
    );
}
