//! `numo release` where machines are replaced: what NodeVersions have put on the cluster is taken back, no machine is made or deleted by
//! it, and what nobody goes on with is told.

use crate::{
    cluster::{Cluster, now},
    replaced,
};
use jiff::Timestamp;
use numo_api::{conditions::types, marks};
use numo_core::{
    Owner, Snapshot,
    action::{Action, FleetAction},
    decide, invariant,
    left::{self, Left},
    model::Imagined,
    observed::{ForeignController, Key, Observed, Rival},
    release,
    verdict::Answers,
};

/// An outdated worker and its group, in the middle of a replacement.
const ONE: &str = "node a worker v0
     version img2 finalizer
     host a img1
     group w image:img2
     groups w";

fn one(rest: &str) -> Cluster {
    Cluster::parse(&format!("{ONE}\n{rest}"))
}

/// What is given back of an owner next, checked as `numo release` checks it.
fn due(observed: &Observed, owner: &Owner, at: Timestamp) -> Vec<Action> {
    let snapshot = Snapshot {
        now: at,
        observed,
        owner,
        asked: None,
    };
    let mut decision = decide(&snapshot, &Answers::default());
    release::only_restore(&mut decision, !observed.changes.is_empty());
    let breaches = invariant::lint(&snapshot, &mut decision);
    assert!(breaches.is_empty(), "{breaches:#?}");
    let planned = decision.actions.into_iter();
    planned.map(|planned| planned.action).collect()
}

/// As if the API server had taken it.
fn take(observed: &mut Observed, action: &Action, at: Timestamp) {
    match action {
        Action::RemoveFinalizer { owner, finalizer, .. } => {
            let versions = &mut observed.fleet.versions;
            if let Some(view) = versions.get_mut(&owner.key.name) {
                view.finalizers.retain(|one| one != finalizer);
            }
        }
        Action::Fleet(FleetAction::EnableAutoscaler {
            strategy, enabled, ..
        }) => {
            let strategy = observed.fleet.strategies.get_mut(strategy).expect("it is there");
            strategy.spec.enabled = *enabled;
        }
        Action::Fleet(FleetAction::SetAutoscaler {
            deployment,
            replicas,
            annotations,
            command,
            ..
        }) => {
            let found = observed
                .fleet
                .autoscalers
                .get_mut(deployment)
                .expect("it is there");
            for change in annotations {
                match &change.to {
                    Some(to) => found.annotations.insert(change.key.clone(), to.clone()),
                    None => found.annotations.remove(&change.key),
                };
            }
            found.replicas = replicas.1;
            found.command.clone_from(&command.1);
        }
        other => {
            let mut imagined = Imagined::new(std::mem::take(observed), at);
            imagined.apply(other);
            *observed = imagined.observed;
        }
    }
}

/// Everything that `numo release` writes, in words, and what is left.
fn released(cluster: &Cluster) -> (Vec<String>, Vec<Left>) {
    restore(&mut cluster.observed.clone(), now())
}

/// The same at a time, carried out on what was seen.
pub(crate) fn restore(seen: &mut Observed, at: Timestamp) -> (Vec<String>, Vec<Left>) {
    let mut written = Vec::new();
    for _ in 0..20 {
        let mut observed = seen.clone();
        let before = written.len();
        for owner in release::abandon(&mut observed, at) {
            for _ in 0..20 {
                release::take_for_deleted(&mut observed);
                let due = due(&observed, &owner, at);
                if due.is_empty() {
                    break;
                }
                for action in due {
                    // What stands in for an owner that is gone has nothing that could be written.
                    let is_gone = matches!(action, Action::RemoveFinalizer { .. })
                        && !seen.fleet.versions.contains_key(&owner.key.name);
                    if is_gone {
                        take(&mut observed, &action, at);
                        continue;
                    }
                    written.push(format!("{owner}: {}", said(&action)));
                    take(&mut observed, &action, at);
                    take(seen, &action, at);
                }
            }
        }
        if written.len() == before {
            return (written, left::all(seen));
        }
    }
    panic!("it never ends: {written:#?}");
}

/// A write in words.
fn said(action: &Action) -> String {
    match action {
        Action::PatchNode(patch) => format!(
            "node {} {:?} cordon:{:?} labels:{} annotations:{}",
            patch.node,
            patch.purpose,
            patch.unschedulable,
            patch.labels.len(),
            patch.annotations.len()
        ),
        Action::ReleaseLease { node, .. } => format!("lease {node}"),
        Action::DeleteMaintenance { name, .. } => format!("maintenance {name}"),
        Action::RemoveFinalizer { finalizer, .. } => {
            assert_eq!(*finalizer, marks::FINALIZER);
            "finalizer".to_owned()
        }
        Action::Fleet(action) => replaced::done(action),
        other => panic!("not to be written: {other:?}"),
    }
}

/// The objects and marks that are left, each with whether a person has to end it.
fn left_of(left: &[Left]) -> Vec<(&str, &str, bool)> {
    let each = left.iter();
    each.map(|one| (one.object.as_str(), one.mark.as_str(), one.held))
        .collect()
}

const RESTORED: [&str; 3] = [
    "NodeVersion nv: node a Uncordon cordon:Some(false) labels:1 annotations:4",
    "NodeVersion nv: lease a",
    "NodeVersion nv: finalizer",
];

#[test]
fn a_node_that_was_not_released_gets_everything_back_and_then_the_finalizer_goes() {
    for step in ["Cordoned", "Drained", "PreRelease", "Held", "Failed"] {
        let (written, left) = released(&one(&format!("replacing a {step} cordoned")));
        assert_eq!(written, RESTORED, "{step}");
        assert_eq!(left, Vec::new(), "{step}");
    }
}

/// A node that another operator drains for numo: its object goes, and that operator opens the node. Of a node that was released it stays.
#[test]
fn the_object_by_which_another_operator_drains_goes_unless_its_node_was_released() {
    let made = "maintenance a name:a drains:1 phase:Succeeded\n foreign";
    let goes = |written: &[String]| written.iter().any(|one| one.ends_with(": maintenance a"));
    let mut drained = one(&format!("replacing a Drained lent\n {made}"));
    let (written, left) = released(&drained);
    assert!(goes(&written), "{written:#?}");
    assert_eq!(left, Vec::new());
    // Its owner is gone, and its journal.
    drained.observed.fleet.versions.clear();
    drained.observed.changes.clear();
    let (written, left) = released(&drained);
    assert!(goes(&written), "{written:#?}");
    assert_eq!(left, Vec::new());
    let (written, left) = released(&one(&format!("replacing a Released machine:m-a lent\n {made}")));
    assert_eq!(written, ["NodeVersion nv: finalizer"]);
    assert!(
        left_of(&left).contains(&("NodeMaintenance a", marks::DRAINS_FOR, true)),
        "{left:#?}"
    );
}

#[test]
fn a_cordon_that_was_there_before_stays() {
    let (written, left) = released(&one("replacing a Drained cordoned prior"));
    assert_eq!(
        written[0],
        "NodeVersion nv: node a Uncordon cordon:None labels:1 annotations:4"
    );
    assert_eq!((written.len(), left), (3, Vec::new()));
}

#[test]
fn a_node_that_was_released_stays_as_it_is_and_is_told() {
    let (written, left) = released(&one("replacing a Released machine:m-a cordoned"));
    assert_eq!(written, ["NodeVersion nv: finalizer"]);
    assert_eq!(
        left_of(&left),
        [
            ("Node a", marks::CORDONED_BY, true),
            ("Node a", marks::SHIELDED_BY, true),
            ("Lease node-a", left::LEASE_MARK, true),
        ]
    );
    for one in &left {
        for wanted in [
            "Node a was released by its NodeVersion",
            "machine m-a is to be deleted",
            "delete the machine at its provider and then the Node, or put back what was there: kubectl",
        ] {
            assert!(one.message.contains(wanted), "{wanted}: {}", one.message);
        }
    }
}

/// The commands that take it back are those of any node, and nothing keeps it.
#[test]
fn a_mark_of_another_owner_on_a_released_node_is_not_told_as_the_node_versions() {
    let mut cluster = one("replacing a Released machine:m-a cordoned");
    let node = cluster.observed.nodes.get_mut("a").expect("it is there");
    let other = r#"{"owner":"uid-plan","prior":false}"#.to_owned();
    node.annotations.insert(marks::CORDONED_BY.to_owned(), other);
    cluster.observed.leases.get_mut("a").expect("one").holder = "numo/Plan/uid-plan".to_owned();
    let left = left::all(&cluster.observed);
    let of = |mark: &str| left.iter().find(|one| one.mark == mark).expect("a mark");
    for mark in [marks::CORDONED_BY, left::LEASE_MARK] {
        let one = of(mark);
        let is_of_version = one.held || one.message.contains("NodeVersion");
        assert!(!is_of_version, "{one:#?}");
        assert_eq!(one.owner, "uid-plan");
    }
    assert!(of(marks::SHIELDED_BY).held, "{left:#?}");
}

#[test]
fn a_node_that_was_released_stays_wherever_its_journal_is() {
    let mut elsewhere = one("replacing a Released machine:m-a cordoned");
    // The command line does not know where the operator's are.
    elsewhere.observed.settings.only_looks = true;
    let changes = std::mem::take(&mut elsewhere.observed.changes);
    for (mut key, mut change) in changes {
        "elsewhere".clone_into(&mut key.namespace);
        change.key = key.clone();
        elsewhere.observed.changes.insert(key, change);
    }
    assert_eq!(released(&elsewhere).0, ["NodeVersion nv: finalizer"]);
    // Or is nowhere: the PendingNode says so.
    let mut gone =
        one("replacing a Released machine:m-a cordoned\n pending p leave node:a machine:m-a for:a");
    gone.observed.changes.clear();
    let (written, left) = released(&gone);
    assert_eq!(written, ["NodeVersion nv: finalizer"]);
    assert_eq!(left.len(), 4, "{left:#?}");
    assert!(left.iter().all(|one| one.held), "{left:#?}");
}

#[test]
fn a_node_whose_release_is_over_gets_the_rest_back() {
    // Another Node has its name.
    let mut cluster = one("replacing a Released machine:m-a cordoned");
    let node = cluster.observed.nodes.get_mut("a").expect("it is there");
    "uid-other".clone_into(&mut node.uid);
    let (written, left) = released(&cluster);
    assert_eq!(written, RESTORED);
    assert_eq!(left, Vec::new());
}

#[test]
fn marks_of_a_node_version_that_is_gone_are_restored() {
    let gone = |rest: &str, changes: bool| {
        let mut cluster = one(rest);
        cluster.observed.fleet.versions.clear();
        if !changes {
            cluster.observed.changes.clear();
        }
        released(&cluster)
    };
    for changes in [true, false] {
        let (written, left) = gone("replacing a Drained cordoned", changes);
        assert_eq!((written.len(), left), (2, Vec::new()), "{written:#?}");
    }
    // The marks alone do not say which kind of owner has put them there: whoever stands in for it gives them back.
    let mut marks_alone = one("replacing a Drained cordoned unleased\n holds a cordoned");
    marks_alone.observed.fleet.versions.clear();
    marks_alone.observed.changes.clear();
    marks_alone.observed.leases.clear();
    assert_eq!(released(&marks_alone).1, Vec::new());
    // Nobody else would switch the autoscaler on.
    let (written, _) = gone("replacing a Drained cordoned\n strategy", true);
    assert_eq!(written.len(), 4, "{written:#?}");
    // Its journal alone tells of it: no mark is left.
    let (written, _) = gone("replacing a Done machine:m-a unleased\n strategy", true);
    assert_eq!(written.len(), 2, "{written:#?}");
    // A journal tells that the node was released, with its lease or without.
    let (written, left) = gone("replacing a Released machine:m-a cordoned", true);
    assert_eq!((written, left.len()), (Vec::new(), 3));
    let mut unleased = one("replacing a Released machine:m-a cordoned");
    unleased.observed.fleet.versions.clear();
    unleased.observed.leases.clear();
    let (written, left) = released(&unleased);
    assert_eq!((written, left.len()), (Vec::new(), 2));
}

#[test]
fn machines_that_nobody_goes_on_with_are_told_and_hold_no_finalizer() {
    let table = [
        ("pending p for:a", Some("a machine of group G-w was asked for")),
        (
            "pending p for:a machine:m-p node:new Creating",
            Some("machine m-p was made and has not joined"),
        ),
        (
            "pending p leave for:a machine:m-p node:new Terminating",
            Some("machine m-p was to be deleted"),
        ),
        ("pending p leave for:a machine:m-p node:new Terminated", None),
        ("pending p for:a machine:m-p node:a Ready", None),
        // It joined after it had been given up, and pods may run there.
        (
            "pending p leave for:a machine:m-a node:a Ready",
            Some("Node a has joined by it since"),
        ),
        // One that another operator has made.
        ("pending p leave machine:m-p node:new", None),
    ];
    for (line, wanted) in table {
        let (written, left) = released(&one(&format!("replacing a PreRules\n {line}")));
        assert_eq!(
            written.last().map(String::as_str),
            Some("NodeVersion nv: finalizer")
        );
        assert_eq!(written.len(), 3, "{line}: {written:#?}");
        let told: Vec<&str> = left.iter().map(|one| one.message.as_str()).collect();
        let is_told = told
            .iter()
            .any(|said| wanted.is_some_and(|wanted| said.contains(wanted)));
        assert_eq!(
            (told.len(), is_told),
            (usize::from(wanted.is_some()), wanted.is_some()),
            "{line}: {told:#?}"
        );
        assert!(left.iter().all(|one| one.held && one.mark == left::PENDING_MARK));
    }
}

#[test]
fn a_cluster_autoscaler_that_rests_is_switched_on_before_the_finalizer_goes() {
    let (written, left) = released(&one("replacing a Drained cordoned\n strategy"));
    let command = "./cluster-autoscaler";
    let wanted = [
        RESTORED[0],
        RESTORED[1],
        "NodeVersion nv: autoscaler on",
        &format!("NodeVersion nv: autoscaler 1 of 0 with {command}"),
        "NodeVersion nv: finalizer",
    ];
    assert_eq!(written, wanted);
    assert_eq!(left, Vec::new());
    // Although a node goes that was released: nobody would switch it on later.
    let (written, _) = released(&one("replacing a Released machine:m-a cordoned\n strategy"));
    assert_eq!(written, wanted[2..]);
    // One that runs is left alone, whatever its command is.
    let (written, _) = released(&one("replacing a Drained cordoned\n strategy on drifted"));
    assert_eq!(written, RESTORED);
}

/// The strategy was deleted while nodes were replaced: only what is noted on the Deployment says that it is to run.
#[test]
fn a_cluster_autoscaler_whose_strategy_is_gone_is_switched_on_before_the_finalizer_goes() {
    let (written, left) = released(&one("replacing a Drained cordoned\n strategy prior:2 forgotten"));
    let wanted = [
        RESTORED[0],
        RESTORED[1],
        "NodeVersion nv: autoscaler 2 of 0 with ./cluster-autoscaler",
        "NodeVersion nv: finalizer",
    ];
    assert_eq!(written, wanted);
    assert_eq!(left, Vec::new());
}

#[test]
fn a_cluster_autoscaler_that_numo_has_not_switched_off_is_left_alone() {
    let resting = one("strategy");
    assert!(!released(&resting).0.is_empty());
    // numo has not worked on the NodeVersion.
    let mut others = resting.clone();
    for view in others.observed.fleet.versions.values_mut() {
        view.finalizers.clear();
    }
    assert_eq!(released(&others), (Vec::new(), Vec::new()));
    // It said something of it, and was yet to begin.
    let mut said = others.clone();
    for view in said.observed.fleet.versions.values_mut() {
        view.status.conditions.push(numo_api::conditions::Condition {
            type_: types::READY.to_owned(),
            ..numo_api::conditions::Condition::default()
        });
    }
    assert_eq!(
        released(&said).0,
        [
            "NodeVersion nv: autoscaler on",
            "NodeVersion nv: autoscaler 1 of 0 with ./cluster-autoscaler",
        ]
    );
    // The operator that numo replaces runs: it is that one's.
    let mut rival = one("strategy");
    let key = Key::new("kube-system", "constellation-operator-controller-manager");
    let runs = Rival {
        what: ForeignController::NodeVersion,
        lingers: None,
    };
    rival.observed.foreign_controllers.insert(key, runs);
    assert_eq!(released(&rival).0, ["NodeVersion nv: finalizer"]);
}

/// The same for an operator: nobody would be left to do it.
#[test]
fn the_finalizer_of_a_node_version_that_is_deleted_waits_for_the_autoscaler() {
    let deleted = |rest: &str| ONE.replace(" finalizer", " finalizer deleting") + "\n" + rest;
    crate::words::check(&deleted("strategy on"), "> finalizer 0 off");
    crate::words::check(
        &deleted("strategy"),
        "> autoscaler on
         > autoscaler 1 of 0 with ./cluster-autoscaler",
    );
}

#[test]
fn a_node_version_that_is_there_is_named_with_its_finalizer_until_that_is_off() {
    let left = left::all(&one("").observed);
    assert_eq!(left_of(&left), [("NodeVersion nv", marks::FINALIZER, false)]);
    assert_eq!(left[0].message, "its deletion waits for numo");
}

#[test]
fn whether_numo_has_replaced_anything_is_told_by_journals_and_leases() {
    let begun = one("replacing a Drained");
    assert!(release::has_replaced(&begun.observed));
    let mut leased = begun.clone();
    leased.observed.changes.clear();
    assert!(release::has_replaced(&leased.observed));
    let mut journaled = begun;
    journaled.observed.leases.clear();
    assert!(release::has_replaced(&journaled.observed));
    assert!(!release::has_replaced(&one("").observed));
    let of_a_run = Cluster::parse("cluster 4.17.0\n pool worker 4.17.0 ours\n node a worker 4.17.0 turn");
    assert!(!release::has_replaced(&of_a_run.observed));
}
