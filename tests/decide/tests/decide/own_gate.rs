//! The gate of an owner's own spec, and its loss. What no edit has taken away, the definition of another operator or of an older numo has
//! dropped; an edit may take away a part. One meaning for every kind of owner.

use crate::{
    cluster::Cluster,
    words::{check_cluster, decision_of},
};
use numo_api::{MutexSettings, Reason, conditions::Actor, marks};
use numo_core::{Decision, Owner, OwnerKind, action::Action, observed::Map};

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
                mutex_keys: Some(vec!["zone".to_owned()]),
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

/// Something of each owner is another.
fn each(cluster: &mut Cluster, mut change: impl FnMut(&mut i64, &mut String, &mut Option<&'static str>)) {
    let observed = &mut cluster.observed;
    for one in observed.runs.values_mut() {
        change(&mut one.generation, &mut one.uid, &mut one.pruned);
    }
    for one in observed.plans.values_mut() {
        change(&mut one.generation, &mut one.uid, &mut one.pruned);
    }
    for one in observed.maintenances.values_mut() {
        change(&mut one.generation, &mut one.uid, &mut one.pruned);
    }
    for one in observed.fleet.versions.values_mut() {
        change(&mut one.generation, &mut one.uid, &mut one.pruned);
    }
}

/// Somebody edits its spec.
fn edit(cluster: &mut Cluster) {
    each(cluster, |generation, _, _| *generation += 1);
}

/// `kubectl apply` remembers a field that the object lacks.
fn prune(cluster: &mut Cluster) {
    let field = match cluster.owner().kind {
        OwnerKind::MutexRunConfig => "waves",
        OwnerKind::NodeMaintenance(_) => "mutexRules",
        OwnerKind::Plan | OwnerKind::NodeVersion => "mutex",
    };
    each(cluster, |_, _, pruned| *pruned = Some(field));
}

/// Whether anything is begun, and what is said.
fn held(decision: &Decision) -> (Option<Reason>, String) {
    let begun = decision.actions.iter().find(|planned| planned.action.disrupts());
    assert_eq!(begun, None);
    let hold = decision.report.hold.as_ref();
    let why = hold.or_else(|| decision.report.nodes.get("a").map(|node| &node.why));
    let why = why.expect("a reason");
    (Some(why.reason), why.message.to_string())
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

/// The same of `spec.mutex`, of which an empty one is left.
#[test]
fn hours_that_people_take_out_of_the_settings_are_no_gate_that_is_lost() {
    let plan = |mutex: &str| {
        Cluster::parse(&format!(
            "node a worker v0\n plan concurrency:1 cordon finalizer spec {{\"mutex\":{mutex}}}"
        ))
    };
    let mut cluster = plan(r#"{"soakSeconds":5,"startAfter":"2020-01-01T00:00:00Z"}"#);
    remember(&mut cluster);
    let owner = cluster.owner();
    let mark = annotations(&mut cluster, &owner).clone();
    let mut taken = plan("{}");
    *annotations(&mut taken, &owner) = mark;
    assert_eq!(
        hold(&decided(&taken)),
        Some(Reason::GateLost),
        "nobody has edited it"
    );
    edit(&mut taken);
    assert_ne!(hold(&decided(&taken)), Some(Reason::GateLost));
}

/// The first one that did marked Plans, by a hash. It may be back for a while, and writes that hash again.
#[test]
fn the_mark_of_an_earlier_numo_counts_and_is_left_to_it() {
    let text =
        |rest: &str| format!("node a worker v0\n plan concurrency:1 cordon finalizer gate:0123456789 {rest}");
    let mut gated = Cluster::parse(&text(r#"spec {"mutex":{"retries":1,"soakSeconds":5}}"#));
    let found = decided(&gated);
    assert_ne!(hold(&found), Some(Reason::GateLost));
    let (mark, _) = written(&found);
    assert!(
        mark.as_deref()
            .is_some_and(|mark| mark.ends_with(" 1 mutex,mutex.retries,mutex.soakSeconds")),
        "{mark:?}"
    );
    remember(&mut gated);
    drop_fields(&mut gated, false);
    assert_eq!(hold(&decided(&gated)), Some(Reason::GateLost), "a part of it");
    let lost = decided(&Cluster::parse(&text("")));
    let (reason, message) = held(&lost);
    assert_eq!((reason, written(&lost).0), (Some(Reason::GateLost), None));
    assert!(
        message.contains(&format!("{}-`", marks::EARLIER_GATE)),
        "{message}"
    );
    // Nobody has marked a run by a hash.
    let mut run =
        Cluster::parse("cluster 4.17.0\n pool worker 4.17.0 ours\n node a worker 4.16.0\n run finalizer");
    let owner = run.owner();
    annotations(&mut run, &owner).insert(marks::EARLIER_GATE.to_owned(), "0123456789".to_owned());
    check_cluster(&run, "> admit a");
}

/// The last one wrote the fields where the first one wrote its hash.
#[test]
fn fields_that_an_earlier_numo_remembered_are_missed() {
    for mut cluster in owners() {
        let owner = cluster.owner();
        let (mark, _) = written(&decided(&cluster));
        let mark = mark.expect("a mark");
        let (_, fields) = mark.split_once(' ').expect("whose, and what");
        annotations(&mut cluster, &owner).insert(marks::EARLIER_GATE.to_owned(), fields.to_owned());
        drop_fields(&mut cluster, true);
        let (reason, message) = held(&decided(&cluster));
        assert_eq!(reason, Some(Reason::GateLost), "{owner}");
        assert!(
            message.contains(&format!("{}-`", marks::EARLIER_GATE)),
            "{message}"
        );
        remember(&mut cluster);
        edit(&mut cluster);
        let (reason, message) = held(&decided(&cluster));
        assert_eq!(
            reason,
            Some(Reason::GateLost),
            "after an edit of something else: {owner}"
        );
        let both = format!("{}- {}-`", marks::GATE, marks::EARLIER_GATE);
        assert!(message.contains(&both), "{message}");
    }
}

/// Its manifest, as `kubectl apply` remembers it, has a field that the object lacks.
#[test]
fn what_was_applied_and_is_not_there_holds_every_owner() {
    for all in [false, true] {
        for mut cluster in owners() {
            let owner = cluster.owner();
            drop_fields(&mut cluster, all);
            prune(&mut cluster);
            let lost = decided(&cluster);
            let (reason, message) = held(&lost);
            assert_eq!(reason, Some(Reason::GateLost), "{owner}");
            assert_eq!(
                written(&lost).0,
                None,
                "a mark would say that nothing is missed: {owner}"
            );
            // Who wrote the object since by other means cannot apply it again.
            let way_out = format!("`{} {}-`", owner.kubectl("annotate"), marks::LAST_APPLIED);
            assert!(message.contains(&way_out), "{message}");
        }
    }
}

/// A person applies it beside others that the older definition has, or numo has seen before.
#[test]
fn a_field_that_an_apply_has_lost_is_missed_beside_a_mark() {
    for mut cluster in owners().filter(|cluster| cluster.owner().kind == OwnerKind::MutexRunConfig) {
        remember(&mut cluster);
        prune(&mut cluster);
        edit(&mut cluster);
        let (reason, message) = held(&decided(&cluster));
        assert_eq!(reason, Some(Reason::GateLost));
        assert!(message.contains("spec.waves is in the manifest"), "{message}");
    }
}

/// It is no less one than an edit that takes all of it away.
#[test]
fn an_edit_that_leaves_an_empty_gate_takes_all_of_it_away() {
    for mut cluster in owners() {
        remember(&mut cluster);
        let observed = &mut cluster.observed;
        let of_plans = observed.plans.values_mut().map(|plan| &mut plan.spec.mutex);
        let of_versions = observed.fleet.versions.values_mut();
        let of_versions = of_versions.map(|version| &mut version.spec.mutex);
        let of_all: Vec<_> = of_plans.chain(of_versions).collect();
        if of_all.is_empty() {
            continue;
        }
        for mutex in of_all {
            *mutex = Some(MutexSettings::default());
        }
        edit(&mut cluster);
        let (reason, _) = held(&decided(&cluster));
        assert_eq!(reason, Some(Reason::GateLost), "{}", cluster.owner());
        // One that was always empty is there, or not.
        let owner = cluster.owner();
        annotations(&mut cluster, &owner).remove(marks::GATE);
        remember(&mut cluster);
        edit(&mut cluster);
        assert_ne!(hold(&decided(&cluster)), Some(Reason::GateLost), "{owner}");
        drop_fields(&mut cluster, true);
        assert_eq!(hold(&decided(&cluster)), Some(Reason::GateLost), "{owner}");
    }
}

/// Somebody made it of the other's YAML.
#[test]
fn the_mark_of_another_object_is_none() {
    for mut cluster in owners() {
        let owner = cluster.owner();
        remember(&mut cluster);
        each(&mut cluster, |_, uid, _| uid.push_str("-of-the-copy"));
        let copy = decided(&cluster);
        let kept = annotations(&mut cluster, &owner).get(marks::GATE).cloned();
        let (mark, _) = written(&copy);
        assert!(mark.is_some() && mark != kept, "it has its own: {owner}");
        // That nothing is left of the gate is asked about: it may have been restored where the definition is an older one.
        drop_fields(&mut cluster, true);
        assert_eq!(hold(&decided(&cluster)), Some(Reason::GateLost), "{owner}");
    }
}

/// It is the one write of a dry run: an older definition drops `dryRun` like any other field, and the run would go live.
#[test]
fn a_dry_run_that_is_dropped_without_an_edit_does_not_go_live() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0\n pool worker 4.17.0 ours\n node a worker 4.16.0\n run finalizer {\"dryRun\":true}",
    );
    let dry = decided(&cluster);
    let (mark, others) = written(&dry);
    assert!(mark.is_some_and(|mark| mark.ends_with(" 1 dryRun")) && others == 0);
    assert_eq!(hold(&dry), Some(Reason::DryRun));
    remember(&mut cluster);
    assert_eq!(written(&decided(&cluster)), (None, 0), "once");
    for run in cluster.observed.runs.values_mut() {
        run.spec.dry_run = None;
    }
    let (reason, _) = held(&decided(&cluster));
    assert_eq!(reason, Some(Reason::GateLost));
    // A person takes it away to have the run go live.
    edit(&mut cluster);
    check_cluster(&cluster, "> admit a");
}

/// What is wrong may be dropped with the gate.
#[test]
fn an_owner_that_is_refused_remembers_its_gate_and_nothing_else_is_written() {
    let wrong = r#""maxUnavailable":"many""#;
    for (text, dropped) in [
        (
            format!("run {{{wrong},\"mutexKeys\":[\"zone\"]}}"),
            "run {}".to_owned(),
        ),
        (
            format!("plan concurrency:1 cordon spec {{\"mutex\":{{{wrong}}}}}"),
            "plan concurrency:1 cordon".to_owned(),
        ),
    ] {
        let version = if text.starts_with("run") { "4.16.0" } else { "v0" };
        let parse = |owner: &str| {
            Cluster::parse(&format!(
                "cluster 4.17.0\n pool worker 4.17.0 ours\n node a worker {version}\n {owner}"
            ))
        };
        let refused = decided(&parse(&text));
        let (mark, _) = written(&refused);
        let mark = mark.unwrap_or_else(|| panic!("{text}: no mark"));
        assert_eq!(held(&refused).0, Some(Reason::InvalidField), "{text}");
        let mut valid = parse(&dropped);
        let owner = valid.owner();
        annotations(&mut valid, &owner).insert(marks::GATE.to_owned(), mark);
        assert_eq!(held(&decided(&valid)).0, Some(Reason::GateLost), "{text}");
    }
}

/// A later numo wrote a field that this one cannot read: it is not missed, and the rest is not remembered without it.
#[test]
fn nobody_knows_the_gate_of_what_cannot_be_read() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0\n pool worker 4.17.0 ours\n node a worker 4.16.0\n run finalizer {\"failureBudget\":5,\"mutexKeys\":[\"zone\"]}",
    );
    remember(&mut cluster);
    for run in cluster.observed.runs.values_mut() {
        run.spec.mutex_keys = None;
        run.misread = Some("spec.mutexKeys: found 5".to_owned());
    }
    let misread = decided(&cluster);
    assert_eq!(held(&misread).0, Some(Reason::InvalidField));
    assert_eq!(written(&misread).0, None);
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
