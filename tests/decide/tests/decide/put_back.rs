//! What somebody takes off a node in its turn, and a mark that nobody can read: of every owner. It is put back, a few times at once and then
//! seldom, and people hear of it; what cannot be read is written over by nobody.

use crate::{
    capabilities::KINDS,
    chaos,
    cluster::{Cluster, at},
    words::{decision, decision_at, words},
};
use jiff::SignedDuration;
use numo_api::{NodeChangeStatus, PutBack, Reason, Step, marks};
use numo_core::{
    Decision,
    action::{Action, NodePatch},
    observed::{ChangeView, Key, NodeView},
};

/// A cluster in which node a has its turn with an owner of this kind, whose rule of phase Pre waits.
fn turn(kind: &str) -> Cluster {
    let binding = format!(
        "rule wait Pre wasm timeout:90000\n binding x spec {{\"ownerSelector\":{{\"kind\":\"{kind}\"}},\"rules\":[{{\"name\":\"wait\"}}]}}"
    );
    Cluster::parse(&match kind {
        "MutexRunConfig" => "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             rule wait Pre wasm timeout:90000
             run {} finalizer
             change a PreRules pin:4.17.0
             evaluation wait/Pre/1 of a Wait:Full/30 said:-1"
            .to_owned(),
        "Plan" => format!(
            "node a worker v0\n plan concurrency:1 cordon finalizer\n {binding}\n begun a PreRules\n keeps a"
        ),
        "NodeVersion" => format!(
            "node a worker v0\n version img2 finalizer\n host a img1\n group w image:img2\n groups w\n {binding}\n replacing a PreRules\n pods a"
        ),
        _ => format!(
            "node a worker 4.16.0\n maintenance a finalizer\n {binding}\n kept a\n turn a PreRules\n pods a"
        ),
    })
}

/// Gives node a the Machine that it has in the other cluster, with what sees that.
fn with_machines(cluster: &mut Cluster, around: Cluster) {
    let seen = around.observed.nodes["a"].annotations[marks::OPENSHIFT_MACHINE].clone();
    let annotations = &mut node(cluster).annotations;
    annotations.insert(marks::OPENSHIFT_MACHINE.to_owned(), seen);
    cluster.observed.machines = around.observed.machines;
    cluster.observed.health_checks = around.observed.health_checks;
}

fn node(cluster: &mut Cluster) -> &mut NodeView {
    cluster.observed.nodes.get_mut("a").expect("node a")
}

fn patches(found: &Decision) -> Vec<&NodePatch> {
    let patches = found.actions.iter().filter_map(|planned| match &planned.action {
        Action::PatchNode(patch) => Some(patch),
        _ => None,
    });
    patches.collect()
}

/// Carries out the patches of nodes and the journals.
fn carry_out(cluster: &mut Cluster, found: Decision) -> Vec<String> {
    let mut events = Vec::new();
    for planned in found.actions {
        match planned.action {
            Action::WriteJournal { key, status, .. } => {
                cluster.observed.changes.get_mut(&key).expect("it").status = *status;
            }
            Action::PatchNode(patch) => {
                let node = cluster.observed.nodes.get_mut(&patch.node).expect("it");
                for change in patch.labels {
                    match change.to {
                        Some(to) => drop(node.labels.insert(change.key, to)),
                        None => drop(node.labels.remove(&change.key)),
                    }
                }
                for change in patch.annotations {
                    match change.to {
                        Some(to) => drop(node.annotations.insert(change.key, to)),
                        None => drop(node.annotations.remove(&change.key)),
                    }
                }
                node.taints = patch.taints.map_or(node.taints.clone(), |(_, to)| to);
                node.unschedulable = patch.unschedulable.unwrap_or(node.unschedulable);
            }
            _ => continue,
        }
        events.extend(
            planned
                .event
                .map(|event| format!("{} {}", event.reason, event.note)),
        );
    }
    events
}

/// As a controller does that knows nothing of what others wrote.
fn strip(node: &mut NodeView) {
    for key in [
        marks::SHIELDED_BY,
        marks::CORDONED_BY,
        marks::SCALE_DOWN_DISABLED,
        marks::DO_NOT_DISRUPT,
    ] {
        node.annotations.remove(key);
    }
    node.labels.remove(marks::EXCLUDE_FROM_REMEDIATION);
}

#[test]
fn what_is_taken_off_again_and_again_is_put_back_seldom_and_told() {
    for kind in KINDS {
        let mut cluster = turn(kind);
        let (mut shields, mut told, mut named) = (0, Vec::new(), 0);
        let mut restored = false;
        for second in 0..600 {
            strip(node(&mut cluster));
            let found = decision_at(&cluster, second);
            shields += patches(&found).len();
            let report = &found.report.nodes["a"];
            if report.why.reason == Reason::ForeignWriter {
                named += 1;
                assert!(report.why.who().is_person(), "{kind}");
            }
            told.extend(carry_out(&mut cluster, found));
            let step = cluster
                .observed
                .changes
                .values()
                .next()
                .and_then(|change| change.status.step);
            if step == Some(Step::Selected) {
                restored = true;
                break;
            }
        }
        assert!(shields <= 6, "{kind}: {shields} times");
        let is_told = |told: &&String| told.starts_with("ForeignWriter Node a: ");
        assert_eq!(told.iter().filter(is_told).count(), 1, "{kind}: {told:?}");
        assert!(named > 30, "{kind}: said {named} times");
        // Nobody waits behind a turn in which nothing may be done.
        assert!(restored, "{kind}");
    }
}

#[test]
fn a_part_of_the_shield_that_is_taken_off_is_put_back() {
    for kind in KINDS {
        for key in [
            marks::EXCLUDE_FROM_REMEDIATION,
            marks::SCALE_DOWN_DISABLED,
            marks::DO_NOT_DISRUPT,
        ] {
            let mut cluster = turn(kind);
            let before = node(&mut cluster).clone();
            node(&mut cluster).labels.remove(key);
            node(&mut cluster).annotations.remove(key);
            let found = decision_at(&cluster, 0);
            carry_out(&mut cluster, found);
            let after = node(&mut cluster);
            assert_eq!(after.annotations, before.annotations, "{kind} {key}");
            assert_eq!(after.labels, before.labels, "{kind} {key}");
            // What somebody else has set there is theirs.
            let mut cluster = turn(kind);
            let of = node(&mut cluster);
            if of.annotations.contains_key(key) {
                of.annotations.insert(key.to_owned(), "false".to_owned());
            } else {
                of.labels.insert(key.to_owned(), "false".to_owned());
            }
            assert!(patches(&decision_at(&cluster, 0)).is_empty(), "{kind} {key}");
        }
    }
}

/// A count that somebody has written into the future, or that is old, is none.
#[test]
fn who_leaves_it_alone_is_not_told_of() {
    for (times, ago) in [(9, 601), (9, -90_000), (-5, 1), (2, 1)] {
        for kind in KINDS {
            let mut cluster = turn(kind);
            strip(node(&mut cluster));
            let change = cluster.observed.changes.values_mut().next().expect("it");
            let last = at(0) - SignedDuration::from_secs(ago);
            change.status.put_back = Some(PutBack {
                times,
                at: last.to_string(),
            });
            let found = decision_at(&cluster, 0);
            let reason = found.report.nodes["a"].why.reason;
            assert_ne!(reason, Reason::ForeignWriter, "{kind} {times} {ago}");
            assert!(!patches(&found).is_empty(), "{kind} {times} {ago}");
        }
    }
}

/// The cordon and its mark go together: the mark, which counts, is gone too.
#[test]
fn a_cordon_that_is_taken_off_with_its_mark_is_not_put_back_for_ever() {
    let plan = "node a worker v0
         plan concurrency:1 drain finalizer
         binding x spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"drainBy\":\"Numo\"}
         begun a Cordoned
         keeps a cordoned done
         pods a
         pod web on a of:ReplicaSet/web
         pdb web allows:0";
    let version = "node a worker v0
         node x worker v0
         version img2 finalizer
         host a img1 heir:x
         host x img2 donor:a
         group w image:img2
         groups w
         replacing a Cordoned cordoned
         pods a
         pod web on a of:ReplicaSet/web
         pdb web allows:0";
    let maintenance = "node a worker 4.16.0
         maintenance a finalizer phase:Running counted:9
         kept a cordoned
         turn a Cordoned
         pods a
         pod web on a of:ReplicaSet/web
         pdb web allows:0";
    for text in [plan, version, maintenance] {
        let mut cluster = Cluster::parse(text);
        let (mut cordons, mut named) = (0, 0);
        for second in 0..120 {
            let of = node(&mut cluster);
            of.annotations.remove(marks::CORDONED_BY);
            of.unschedulable = false;
            let found = decision_at(&cluster, second);
            let closes = |patch: &&NodePatch| patch.unschedulable == Some(true);
            cordons += patches(&found).into_iter().filter(closes).count();
            named += usize::from(found.report.nodes["a"].why.reason == Reason::ForeignWriter);
            carry_out(&mut cluster, found);
        }
        assert!(cordons <= 4, "{cordons} times\n{text}");
        assert!(named > 60, "said {named} times\n{text}");
    }
}

const UNREADABLE: [(&str, &str); 4] = [
    (marks::SHIELDED_BY, "{\"owner\":\"a\",\"prior\":true}"),
    (marks::SHIELDED_BY, "a later form"),
    (marks::CORDONED_BY, "{\"owner\":7}"),
    (marks::CORDONED_BY, ""),
];

#[test]
fn a_mark_that_cannot_be_read_is_written_over_by_nobody() {
    for kind in KINDS {
        for (key, value) in UNREADABLE {
            for mut cluster in [turn(kind), {
                let mut waits = turn(kind);
                waits.observed.changes.clear();
                waits.observed.leases.clear();
                strip(node(&mut waits));
                waits
            }] {
                node(&mut cluster)
                    .annotations
                    .insert(key.to_owned(), value.to_owned());
                let found = decision_at(&cluster, 0);
                let why = &found.report.nodes["a"].why;
                let said = words(&cluster, &found).join("\n");
                assert_eq!(why.reason, Reason::MarkUnreadable, "{kind} {key} {value}\n{said}");
                assert!(
                    why.message.contains(key) && why.who().is_person(),
                    "{}",
                    why.message
                );
                assert!(patches(&found).is_empty(), "{kind} {key} {value}\n{said}");
                let admits = |planned: &&numo_core::action::Planned| {
                    matches!(
                        planned.action,
                        Action::CreateChange { .. } | Action::AcquireLease { .. }
                    )
                };
                assert!(!found.actions.iter().any(|one| admits(&one)), "{said}");
            }
        }
    }
}

/// Its Job runs: its end is seen, and what comes after it waits for a person.
#[test]
fn a_plan_sees_the_end_of_its_job_under_a_mark_that_cannot_be_read() {
    for (key, value) in UNREADABLE {
        let of = |job: &str, step: &str| {
            let mut cluster = Cluster::parse(&format!(
                "node a worker v0
                 plan concurrency:1 cordon finalizer applying:a
                 begun a {step} boot:b1 entered:Released
                 keeps a cordoned
                 planjob a {job}"
            ));
            node(&mut cluster)
                .annotations
                .insert(key.to_owned(), value.to_owned());
            cluster
        };
        let runs = decision(&of("running", "Released"));
        assert!(patches(&runs).is_empty());
        assert_eq!(runs.report.nodes["a"].why.reason, Reason::UpgradeStarting);
        let ended = of("complete", "Changed");
        let found = decision(&ended);
        let said = words(&ended, &found).join("\n");
        assert_eq!(
            found.report.nodes["a"].why.reason,
            Reason::MarkUnreadable,
            "{said}"
        );
        assert!(patches(&found).is_empty(), "{said}");
    }
}

/// The same of a node that is drained each time before somebody opens it again.
#[test]
fn a_drained_node_that_is_opened_with_its_mark_is_not_closed_for_ever() {
    let binding = |kind: &str, more: &str| {
        format!(
            "rule wait PreRelease wasm timeout:90000
             binding x spec {{\"ownerSelector\":{{\"kind\":\"{kind}\"}},\"rules\":[{{\"name\":\"wait\"}}]{more}}}"
        )
    };
    let plan = format!(
        "node a worker v0
         plan concurrency:1 drain finalizer
         {}
         begun a Cordoned
         keeps a cordoned done
         pods a",
        binding("Plan", ",\"drainBy\":\"Numo\"")
    );
    let version = format!(
        "node a worker v0
         node x worker v0
         version img2 finalizer
         host a img1 heir:x
         host x img2 donor:a
         group w image:img2
         groups w
         {}
         replacing a Cordoned cordoned
         pods a",
        binding("NodeVersion", "")
    );
    for text in [plan, version] {
        let mut cluster = Cluster::parse(&text);
        let (mut cordons, mut named, mut drained) = (0, 0, 0);
        for second in 0..300 {
            if second % 5 == 4 {
                let of = node(&mut cluster);
                of.annotations.remove(marks::CORDONED_BY);
                of.unschedulable = false;
            }
            let found = decision_at(&cluster, second);
            let closes = |patch: &&NodePatch| patch.unschedulable == Some(true);
            cordons += patches(&found).into_iter().filter(closes).count();
            let report = &found.report.nodes["a"];
            named += usize::from(report.why.reason == Reason::ForeignWriter);
            drained += usize::from(report.step == Step::Drained);
            carry_out(&mut cluster, found);
        }
        assert!(drained > 0, "it is never drained\n{text}");
        assert!(cordons <= 4, "{cordons} times\n{text}");
        assert!(named > 200, "said {named} times\n{text}");
    }
}

/// What a run has on pools, and on nodes that wait, counts how often it is put back: that goes too.
#[test]
fn what_is_taken_off_pools_and_waiting_nodes_with_its_mark_is_put_back_seldom_and_told() {
    let rule = format!("label:{}backup.numo", marks::RULE_LABEL_PREFIX);
    let by_config = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 NotReady
         rule backup Pre
         run finalizer {}
         status 4.17.0"
        .to_owned();
    let by_canary = format!(
        "cluster 4.17.0
         pool canary 4.17.0 selected
         pool infra 4.17.0 ours selected
         node a infra 4.16.0 NotReady {rule} labelled:run-uid
         rule backup Pre
         run finalizer {{canary: {{name: canary}}}}
         status 4.17.0"
    );
    for text in [by_config, by_canary] {
        let bare = Cluster::parse(
            &text
                .replace(" ours", "")
                .replace(" selected", "")
                .replace(" labelled:run-uid", ""),
        );
        let mut cluster = Cluster::parse(&text);
        let (mut written, mut named, mut told) = (0, 0, 0);
        for second in 0..1300 {
            // After ten minutes and more nobody does so any longer.
            if second < 620 {
                for (name, pool) in &mut cluster.observed.pools {
                    let was = &bare.observed.pools[name];
                    pool.annotations.clear();
                    (pool.paused, pool.selector) = (was.paused, was.selector.clone());
                }
                node(&mut cluster).annotations.remove(marks::LABELLED_BY);
                node(&mut cluster)
                    .labels
                    .retain(|key, _| !key.starts_with(marks::RULE_LABEL_PREFIX));
            }
            let found = decision_at(&cluster, second);
            let is_put_back = |action: &Action| matches!(action, Action::PatchPool(_) | Action::PatchNode(_));
            written += usize::from(found.actions.iter().any(|one| is_put_back(&one.action)));
            let hold = found.report.hold.as_ref();
            if hold.is_some_and(|why| why.reason == Reason::ForeignWriter) {
                named += 1;
                assert!(hold.is_some_and(|why| why.who().is_person()));
            }
            for planned in &found.actions {
                let number = second.to_string();
                let taken =
                    chaos::carry::carry_out(&mut cluster.observed, &planned.action, at(second), &number);
                taken.expect("it is taken");
                told += usize::from(
                    planned
                        .event
                        .as_ref()
                        .is_some_and(|event| event.reason == "ForeignWriter"),
                );
            }
        }
        assert!(written <= 30, "{written} times\n{text}");
        assert!(named > 500, "said {named} times\n{text}");
        assert_eq!(told, 1, "{text}");
        let after = decision_at(&cluster, 1300);
        let hold = after.report.hold.map(|why| why.reason);
        assert_ne!(hold, Some(Reason::ForeignWriter), "{text}");
        assert!(cluster.observed.pools.values().any(|pool| pool.paused), "{text}");
    }
}

/// A drain that cannot be looked at waits for whoever mends the right to see pods, and says so.
#[test]
fn a_drain_whose_pods_cannot_be_listed_names_the_words_for_it() {
    for text in [
        "node a worker v0\n plan concurrency:1 drain finalizer\n binding x spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"drainBy\":\"Numo\"}\n begun a Cordoned\n keeps a cordoned done",
        "node a worker 4.16.0\n maintenance a finalizer phase:Running\n kept a cordoned\n turn a Cordoned",
        "node a worker v0\n node x worker v0\n version img2 finalizer\n host a img1 heir:x\n host x img2 donor:a\n group w image:img2\n groups w\n replacing a Cordoned cordoned",
    ] {
        let mut cluster = Cluster::parse(text);
        cluster.observed.pods.clear();
        assert_eq!(
            decision_at(&cluster, 0).report.nodes["a"].why.reason,
            Reason::Draining,
            "{text}"
        );
        cluster
            .observed
            .unlisted
            .insert("pods", "pods is forbidden".to_owned());
        let found = decision_at(&cluster, 0);
        let why = &found.report.nodes["a"].why;
        assert_eq!(why.reason, Reason::ListFailed, "{text}");
        assert!(why.message.contains("pods is forbidden") && why.who().is_person());
    }
}

/// Who is deleted waits for nobody.
#[test]
fn an_owner_that_is_deleted_leaves_a_mark_that_it_cannot_read() {
    let mut cluster = Cluster::parse(
        "node a worker 4.16.0\n maintenance a finalizer deleting phase:Running\n kept a cordoned\n turn a Cordoned",
    );
    node(&mut cluster)
        .annotations
        .insert(marks::SHIELDED_BY.to_owned(), "a later form".to_owned());
    for second in 0..9 {
        let found = decision_at(&cluster, second);
        assert_ne!(
            found.report.nodes.get("a").map(|node| node.why.reason),
            Some(Reason::MarkUnreadable)
        );
        carry_out(&mut cluster, found);
    }
    let key = Key::new("numo", "change-nm");
    let of = cluster.observed.changes.values().next();
    assert!(
        of.is_none_or(|change| change.status.step == Some(Step::Done)),
        "{key}"
    );
}

/// A cluster in which node a waits for its turn with an owner of this kind, which has its finalizer.
fn waiting(kind: &str) -> Cluster {
    let mut cluster = turn(kind);
    cluster.observed.changes.clear();
    cluster.observed.leases.clear();
    strip(node(&mut cluster));
    cluster
}

/// The same of a node that had its turn before: it begins in the journal that is there.
fn again(kind: &str) -> Cluster {
    let mut cluster = turn(kind);
    for change in cluster.observed.changes.values_mut() {
        change.status = NodeChangeStatus::default();
        change.status.step = Some(Step::Selected);
    }
    cluster.observed.leases.clear();
    strip(node(&mut cluster));
    cluster
}

/// What somebody takes off an owner each second: how often numo puts it on, begins a node without it, says so, and tells people.
fn fought(cluster: &mut Cluster) -> (usize, usize, usize, Vec<String>) {
    let owner = cluster.owner();
    let (mut added, mut begun, mut named, mut told) = (0, 0, 0, Vec::new());
    for second in 0..600 {
        chaos::strip_owner(&mut cluster.observed, &owner);
        let found = decision_at(cluster, second);
        let says = |why: &numo_core::why::Why| {
            why.reason == Reason::ForeignWriter && why.message.contains("finalizer") && why.who().is_person()
        };
        let is_held = found.report.hold.as_ref().is_some_and(says);
        named += usize::from(is_held);
        let flies = cluster.observed.changes.values().any(ChangeView::in_flight);
        for planned in found.actions {
            let number = second.to_string();
            let action = &planned.action;
            let begins = match action {
                Action::CreateChange { .. } => true,
                Action::WriteJournal { status, .. } => !flies && status.step == Some(Step::Admitted),
                _ => false,
            };
            let is_added = matches!(action, Action::AddFinalizer { .. });
            let taken = chaos::carry::carry_out(&mut cluster.observed, action, at(second), &number);
            assert!(taken.is_ok() || !is_added, "{taken:?}");
            added += usize::from(is_added);
            begun += usize::from(is_held && begins);
            let event = planned.event.filter(|event| event.reason == "ForeignWriter");
            told.extend(event.map(|event| event.note));
        }
    }
    (added, begun, named, told)
}

#[test]
fn a_finalizer_that_is_taken_off_again_and_again_is_put_back_seldom_and_told() {
    for kind in KINDS {
        for mut cluster in [turn(kind), waiting(kind), again(kind)] {
            let owner = cluster.owner();
            let (added, begun, named, told) = fought(&mut cluster);
            assert!((4..=14).contains(&added), "{kind}: {added} times");
            assert_eq!(begun, 0, "{kind}");
            assert!(named > 500, "{kind}: said {named} times");
            assert_eq!(told.len(), 1, "{kind}: {told:?}");
            assert!(told[0].contains(&owner.kubectl("get")), "{told:?}");
            // Once nobody does so any more it is on again within a minute, and all goes on.
            for second in 600..670 {
                for planned in decision_at(&cluster, second).actions {
                    let number = second.to_string();
                    let _ =
                        chaos::carry::carry_out(&mut cluster.observed, &planned.action, at(second), &number);
                }
            }
            let found = decision_at(&cluster, 670);
            let hold = found.report.hold.as_ref().map(|why| why.reason);
            assert_ne!(hold, Some(Reason::ForeignWriter), "{kind}");
            let view = cluster.observed.owner(&owner).expect("the owner");
            assert_eq!(view.finalizers.len(), 1, "{kind}: {:?}", view.finalizers);
        }
    }
}

/// A node that is changed and whose turn was over takes its turn again where its last rules are asked again.
#[test]
fn no_rule_after_the_change_is_asked_again_without_the_finalizer() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0
         rule after Post policy:Skip
         run bare {}
         change a Skipped reason:SkippedByPolicy pin:4.17.0 entries:PreRules,Released verdict:after/Post/1/Failure generation:2 obeyed:1 directive:Retry",
    );
    let begins = |found: &Decision| {
        let journal = |action: &Action| matches!(action, Action::WriteJournal { .. });
        found.actions.iter().any(|planned| journal(&planned.action))
    };
    let adds = |found: &Decision| {
        let finalizer = |action: &Action| matches!(action, Action::AddFinalizer { .. });
        found.actions.iter().any(|planned| finalizer(&planned.action))
    };
    let found = decision_at(&cluster, 0);
    assert!(begins(&found) && adds(&found), "{:#?}", found.actions);
    let owner = cluster.owner();
    let uid = cluster.observed.owner(&owner).expect("the owner").uid.to_owned();
    let often = PutBack {
        times: 9,
        at: at(-10).to_string(),
    };
    cluster.observed.finalizers.insert(uid, often);
    let found = decision_at(&cluster, 0);
    assert!(!begins(&found) && !adds(&found), "{:#?}", found.actions);
    let node = &found.report.nodes["a"];
    assert_eq!(
        (node.step, node.why.reason),
        (Step::Selected, Reason::ForeignWriter)
    );
}

/// Its node has its turn all the same: what is let go goes on, and what is drained is kept so.
#[test]
fn a_turn_goes_on_without_the_finalizer_of_its_owner() {
    for kind in KINDS {
        let mut cluster = turn(kind);
        let owner = cluster.owner();
        let before = words(&cluster, &decision_at(&cluster, 0));
        chaos::strip_owner(&mut cluster.observed, &owner);
        let found = decision_at(&cluster, 0);
        let after = words(&cluster, &found);
        let others: Vec<&String> = after.iter().filter(|line| !line.contains("finalizer")).collect();
        let before: Vec<&String> = before.iter().collect();
        assert_eq!(others, before, "{kind}");
    }
}

/// What numo takes off itself, and puts on again for the next version, nobody fights about.
#[test]
fn an_owner_that_is_done_often_is_fought_about_by_nobody() {
    let mut observed = numo_core::observed::Observed::default();
    for second in 0..9 {
        numo_core::finalizer::note(&mut observed.finalizers, "uid", at(second));
    }
    assert_eq!(observed.finalizers["uid"].times, 9);
    // What is old is forgotten, and so is what is of a clock that was put back.
    numo_core::finalizer::note(&mut observed.finalizers, "other", at(700));
    assert_eq!(observed.finalizers.keys().collect::<Vec<_>>(), ["other"]);
    numo_core::finalizer::note(&mut observed.finalizers, "other", at(0));
    assert_eq!(observed.finalizers["other"].times, 1);
}

/// The Machine of the node, and the MachineHealthCheck that sees it, have marks too.
#[test]
fn a_mark_of_a_machine_that_cannot_be_read_is_written_over_by_nobody() {
    for kind in KINDS {
        for (of_check, value) in [
            (false, "a later form"),
            (false, "{\"owner\":7}"),
            (true, "a later form"),
        ] {
            for mut cluster in [turn(kind), waiting(kind)] {
                let around =
                    Cluster::parse("node a worker v0\n machine m of a openshift label:x\n healthcheck h");
                with_machines(&mut cluster, around);
                let mut goes = cluster.clone();
                let mark = (marks::SHIELDED_BY.to_owned(), value.to_owned());
                let mut machines = cluster.observed.machines.values_mut();
                let mut checks = cluster.observed.health_checks.values_mut();
                let object = if of_check {
                    checks.next().expect("a check")
                } else {
                    &mut machines.next().expect("a machine").object
                };
                object.annotations.extend([mark]);
                let found = decision_at(&cluster, 0);
                let said = words(&cluster, &found).join("\n");
                let why = &found.report.nodes["a"].why;
                assert_eq!(why.reason, Reason::MarkUnreadable, "{kind} {value}\n{said}");
                let named = if of_check {
                    "machinehealthchecks.machine.openshift.io h"
                } else {
                    "machines.machine.openshift.io m"
                };
                assert!(why.message.contains(named), "{}", why.message);
                let writes = |action: &Action| match action {
                    Action::PatchMachine(patch) => patch.key.name == if of_check { "h" } else { "m" },
                    Action::CreateChange { .. } => true,
                    _ => false,
                };
                assert!(
                    !found.actions.iter().any(|one| writes(&one.action)),
                    "{kind}\n{said}"
                );
                // One that can be read stands in nobody's way.
                let found = decision_at(&goes, 0);
                assert_ne!(
                    found.report.nodes["a"].why.reason,
                    Reason::MarkUnreadable,
                    "{kind}"
                );
                goes.observed.machines.clear();
            }
        }
    }
}

/// A run may pause checks that see none of its nodes, and none at all: it heeds the marks of those that it writes to.
#[test]
fn a_run_heeds_the_marks_of_the_health_checks_that_it_pauses_and_no_others() {
    for (pauses, selects, is_heeded) in [
        (Some(true), "y", true),
        (Some(true), "x", true),
        (Some(false), "x", false),
        (None, "x", true),
        (None, "y", false),
    ] {
        for mut cluster in [turn("MutexRunConfig"), waiting("MutexRunConfig")] {
            let around = Cluster::parse(&format!(
                "node a worker v0\n machine m of a openshift label:x\n healthcheck h selects:{selects}"
            ));
            with_machines(&mut cluster, around);
            let run = cluster.observed.runs.values_mut().next().expect("a run");
            run.spec.pause_health_checks = pauses;
            let check = cluster.observed.health_checks.values_mut().next();
            let mark = (marks::SHIELDED_BY.to_owned(), "a later form".to_owned());
            check.expect("a check").annotations.extend([mark]);
            let found = decision_at(&cluster, 0);
            let why = &found.report.nodes["a"].why;
            let heeds = why.reason == Reason::MarkUnreadable;
            assert_eq!(heeds, is_heeded, "{pauses:?} {selects}: {}", why.message);
        }
    }
}

/// What somebody takes off is on pools and nodes: the run itself tells nothing of who does.
#[test]
fn who_takes_off_the_marks_of_a_run_is_looked_for_on_its_pools_and_nodes() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         run {} finalizer
         status 4.17.0",
    );
    let run = cluster.observed.runs.values_mut().next().expect("a run");
    let status = run.status.run.as_mut().expect("a status");
    status.put_back = Some(numo_api::PutBack {
        times: 99,
        at: at(-5).to_string(),
    });
    let hold = decision(&cluster).report.hold.expect("a hold");
    assert_eq!(hold.reason, Reason::ForeignWriter, "{}", hold.message);
    let command = "kubectl get machineconfigpools,nodes -o yaml --show-managed-fields";
    assert!(hold.message.contains(command), "{}", hold.message);
    assert_eq!(
        hold.cause.as_deref(),
        Some(&numo_core::why::Cause::Command(command.to_owned()))
    );
}
