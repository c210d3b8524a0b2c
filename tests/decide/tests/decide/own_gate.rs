//! The gate of an owner's own spec, and its loss. What no edit has taken away, the definition of another operator or of an older numo has
//! dropped; an edit may take away a part. One meaning for every kind of owner.

use crate::{
    cluster::Cluster,
    words::{check_cluster, decision_of},
};
use numo_api::{MutexSettings, Reason, conditions::Actor, marks};
use numo_core::{Decision, Owner, action::Action, observed::Map};

/// An owner of each kind that could begin its node, and has a gate of its own.
const OWNERS: [&str; 4] = [
    r#"cluster 4.17.0
       pool worker 4.17.0 ours
       node a worker 4.16.0
       run finalizer {"failureBudget":5,"mutexKeys":["zone"]}"#,
    r#"node a worker v0
       plan concurrency:1 cordon finalizer spec {"mutex":{"retries":1,"soakSeconds":5}}"#,
    "node a worker 4.16.0
     maintenance a finalizer rule:before
     rule before Pre",
    "node a worker v0
     version img2 finalizer
     host a img1
     group w image:img2
     groups w",
];

/// Each of them, as it is seen first.
fn owners() -> impl Iterator<Item = Cluster> {
    OWNERS.into_iter().map(|text| {
        let mut cluster = Cluster::parse(text);
        for version in cluster.observed.fleet.versions.values_mut() {
            version.spec.mutex = Some(MutexSettings {
                soak_seconds: Some(5),
                ..MutexSettings::default()
            });
        }
        cluster
    })
}

/// What is decided, whatever the owner remembers by now.
fn decided(cluster: &Cluster) -> Decision {
    decision_of(cluster, &cluster.observed, 0)
}

fn annotations<'c>(cluster: &'c mut Cluster, owner: &Owner) -> &'c mut Map {
    cluster.observed.annotations_mut(owner).expect("an owner")
}

/// The mark that is written, and what else is.
fn written(decision: &Decision) -> (Option<String>, usize) {
    let mut mark = None;
    let actions = decision.actions.iter();
    let others = actions.filter(|planned| match &planned.action {
        Action::MarkGate { change, .. } => {
            mark.clone_from(&change.to);
            false
        }
        _ => true,
    });
    let others = others.count();
    (mark, others)
}

/// It remembers its gate, as the answer to the write says.
fn remember(cluster: &mut Cluster) {
    let (mark, _) = written(&decided(cluster));
    let owner = cluster.owner();
    annotations(cluster, &owner).insert(marks::GATE.to_owned(), mark.expect("a mark"));
}

/// Fields of its spec are gone: `all` of those that gate it, or one of several.
fn drop_fields(cluster: &mut Cluster, all: bool) {
    let observed = &mut cluster.observed;
    for run in observed.runs.values_mut() {
        run.spec.mutex_keys = None;
        run.spec.failure_budget = run.spec.failure_budget.take().filter(|_| !all);
    }
    let settings = observed.plans.values_mut().map(|plan| &mut plan.spec.mutex);
    let of_versions = observed.fleet.versions.values_mut();
    for mutex in settings.chain(of_versions.map(|version| &mut version.spec.mutex)) {
        if all {
            *mutex = None;
        } else if let Some(mutex) = mutex {
            mutex.soak_seconds = None;
        }
    }
    for view in observed.maintenances.values_mut() {
        view.spec.mutex_rules = None;
    }
}

/// Somebody edits its spec.
fn edit(cluster: &mut Cluster) {
    let observed = &mut cluster.observed;
    observed.runs.values_mut().for_each(|one| one.generation += 1);
    observed.plans.values_mut().for_each(|one| one.generation += 1);
    observed
        .maintenances
        .values_mut()
        .for_each(|one| one.generation += 1);
    observed
        .fleet
        .versions
        .values_mut()
        .for_each(|one| one.generation += 1);
}

fn hold(decision: &Decision) -> Option<Reason> {
    // A NodeMaintenance says it of its node.
    let hold = decision.report.hold.as_ref();
    let of_node = || decision.report.nodes.get("a").map(|node| &node.why);
    hold.or_else(of_node).map(|why| why.reason)
}

/// Such as one that was made before this version: it is not held for that.
#[test]
fn an_owner_remembers_its_gate_in_the_pass_that_first_sees_it_and_once() {
    for mut cluster in owners() {
        let first = decided(&cluster);
        let (mark, others) = written(&first);
        assert!(mark.is_some() && others > 0, "{:#?}", first.actions);
        assert!(
            matches!(first.actions[0].action, Action::MarkGate { .. }),
            "before all else"
        );
        remember(&mut cluster);
        let second = decided(&cluster);
        assert_eq!(written(&second), (None, others), "once");
        // An edit is remembered too, once.
        edit(&mut cluster);
        let (edited, _) = written(&decided(&cluster));
        assert!(edited.is_some() && edited != mark);
        remember(&mut cluster);
        assert_eq!(written(&decided(&cluster)), (None, others));
    }
}

#[test]
fn an_owner_whose_gate_is_gone_begins_nothing() {
    for edited in [false, true] {
        for mut cluster in owners() {
            let (_, begins) = written(&decided(&cluster));
            remember(&mut cluster);
            drop_fields(&mut cluster, true);
            if edited {
                edit(&mut cluster);
            }
            let lost = decided(&cluster);
            assert_eq!(hold(&lost), Some(Reason::GateLost), "{}", cluster.owner());
            let begun = lost.actions.iter().find(|planned| planned.action.disrupts());
            assert_eq!(begun, None, "{}", cluster.owner());
            let why = lost
                .report
                .hold
                .as_ref()
                .or_else(|| Some(&lost.report.nodes["a"].why));
            assert_eq!(why.map(numo_core::why::Why::who), Some(Actor::ClusterAdmin));
            // A person says that it was meant.
            let owner = cluster.owner();
            annotations(&mut cluster, &owner).remove(marks::GATE);
            let meant = decided(&cluster);
            assert_ne!(hold(&meant), Some(Reason::GateLost), "{owner}");
            assert_eq!(written(&meant).0, None, "it has none");
            assert!(written(&meant).1 > 0 || begins == 0, "{owner}");
        }
    }
}

/// Nobody has edited the spec, and the definition has dropped a field of it. Others may be edited meanwhile.
#[test]
fn a_part_of_a_gate_that_went_without_an_edit_is_missed() {
    for mut cluster in owners() {
        let owner = cluster.owner();
        remember(&mut cluster);
        let mut by_edit = cluster.clone();
        drop_fields(&mut cluster, false);
        let lost = decided(&cluster);
        assert_eq!(hold(&lost), Some(Reason::GateLost), "{owner}");
        remember(&mut cluster);
        edit(&mut cluster);
        let lost = decided(&cluster);
        assert_eq!(
            hold(&lost),
            Some(Reason::GateLost),
            "after an edit of something else: {owner}"
        );
        assert_eq!(written(&lost).0, None);
        // A person took it away: the rest is remembered. A NodeMaintenance has no rest.
        drop_fields(&mut by_edit, false);
        edit(&mut by_edit);
        let edited = decided(&by_edit);
        let has_rest = by_edit.observed.maintenances.is_empty();
        assert_eq!(hold(&edited) == Some(Reason::GateLost), !has_rest, "{owner}");
        assert_eq!(written(&edited).0.is_some(), has_rest, "{owner}");
    }
}

#[test]
fn a_field_that_people_take_away_to_go_on_is_no_gate_that_is_lost() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0\n pool worker 4.17.0 ours\n node a worker 4.16.0\n run finalizer {\"suspend\":true}",
    );
    remember(&mut cluster);
    let suspend = |cluster: &mut Cluster, to| {
        for run in cluster.observed.runs.values_mut() {
            run.spec.suspend = to;
        }
    };
    suspend(&mut cluster, None);
    assert_eq!(
        hold(&decided(&cluster)),
        Some(Reason::GateLost),
        "nobody has edited it"
    );
    edit(&mut cluster);
    check_cluster(&cluster, "> admit a");
}

/// An earlier numo marked Plans by a hash.
#[test]
fn the_mark_of_an_earlier_numo_counts_and_is_replaced() {
    let text =
        |rest: &str| format!("node a worker v0\n plan concurrency:1 cordon finalizer gate:0123456789 {rest}");
    let gated = Cluster::parse(&text(r#"spec {"mutex":{"retries":1}}"#));
    let found = decided(&gated);
    assert_ne!(hold(&found), Some(Reason::GateLost));
    assert_eq!(written(&found).0.as_deref(), Some("1 mutex,mutex.retries"));
    let lost = decided(&Cluster::parse(&text("")));
    assert_eq!((hold(&lost), written(&lost).0), (Some(Reason::GateLost), None));
}

/// Its manifest, as `kubectl apply` remembers it, has a field that the object lacks.
#[test]
fn what_was_applied_and_is_not_there_holds_every_owner() {
    for mut cluster in owners() {
        drop_fields(&mut cluster, true);
        let observed = &mut cluster.observed;
        observed
            .runs
            .values_mut()
            .for_each(|one| one.pruned = Some("waves"));
        observed
            .plans
            .values_mut()
            .for_each(|one| one.pruned = Some("mutex"));
        observed
            .maintenances
            .values_mut()
            .for_each(|one| one.pruned = Some("mutexRules"));
        observed
            .fleet
            .versions
            .values_mut()
            .for_each(|one| one.pruned = Some("mutex"));
        let lost = decided(&cluster);
        assert_eq!(hold(&lost), Some(Reason::GateLost), "{}", cluster.owner());
        let begun = lost.actions.iter().find(|planned| planned.action.disrupts());
        assert_eq!(begun, None, "{}", cluster.owner());
    }
}

/// The wish that they stay paused was dropped as well: the next configuration would roll without rules.
#[test]
fn the_pools_of_a_run_whose_gate_is_lost_stay_paused() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0
         run {trigger: AnyConfig, hold: Always} finalizer",
    );
    remember(&mut cluster);
    for run in cluster.observed.runs.values_mut() {
        (run.spec.hold, run.spec.trigger) = (None, None);
    }
    let lost = decided(&cluster);
    assert_eq!(hold(&lost), Some(Reason::GateLost));
    let others: Vec<_> = lost
        .actions
        .iter()
        .filter(|planned| !matches!(planned.action, Action::MarkGate { .. }))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}
