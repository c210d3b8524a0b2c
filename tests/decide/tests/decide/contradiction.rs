//! A journal that contradicts itself: the node is held with a reason that names object, field, found and wanted. Nothing is let go,
//! cordoned, evicted or uncordoned on its word, whatever it says.

use crate::{
    cluster::{Cluster, at, job_of},
    words::{check, check_cluster, decision},
};
use numo_api::{
    Entry, NodeChangeStatus, Outcome, Phase, Pin, Reason, Step, VerdictRecord, conditions::Actor,
    machines::Goal, marks,
};
use numo_core::{
    Decision,
    action::{Action, FleetAction, NodePurpose, PoolPurpose},
    observed::ChangeView,
    turn::journal::Journal,
};

/// The journal that is written.
fn written(found: Decision) -> NodeChangeStatus {
    let mut actions = found.actions.into_iter();
    let written = actions.find_map(|planned| match planned.action {
        Action::WriteJournal { status, .. } => Some(*status),
        _ => None,
    });
    written.expect("a journal")
}

/// A node of each kind of owner whose rules have passed: the next step lets it go.
pub(crate) const OWNERS: [(&str, &str); 4] = [
    (
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         rule before Pre
         run finalizer {drainProbe: false}
         change a PreRules pin:4.17.0 verdict:before/Pre/1/Pass",
        "> release a rendered-worker-4170",
    ),
    (
        "node a worker 4.16.0
         binding all spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"rules\":[{\"name\":\"before\"}]}
         plan concurrency:1 finalizer applying:a
         rule before Pre
         begun a PreRules verdict:before/Pre/1/Pass
         keeps a in-service",
        "> job a",
    ),
    (
        "node a worker 4.16.0
         maintenance a finalizer rule:before phase:Running
         rule before Pre
         kept a
         turn a PreRules verdict:before/Pre/1/Pass
         pods a",
        "> cordon a with 2 taints",
    ),
    (
        "node a worker v0
         node b worker v0
         version img2 finalizer
         host a img1 heir:b
         host b img2 donor:a
         group w image:img2
         groups w
         binding all spec {\"ownerSelector\":{\"kind\":\"NodeVersion\"},\"rules\":[{\"name\":\"before\"}]}
         rule before Pre
         replacing a PreRules verdict:before/Pre/1/Pass
         pods a",
        "> cordon a with the same taints",
    ),
];

fn journal(cluster: &mut Cluster) -> &mut ChangeView {
    cluster.observed.changes.values_mut().next().expect("a journal")
}

fn entry(step: Step, attempt: i32, seconds: i64) -> Entry {
    Entry {
        at: at(seconds).to_string(),
        step,
        attempt,
        reason: None,
    }
}

/// What lets a node go, disrupts it, or opens it.
fn is_disruptive(action: &Action) -> bool {
    match action {
        Action::PatchNode(patch) => matches!(
            patch.purpose,
            NodePurpose::Release | NodePurpose::Cordon | NodePurpose::Uncordon | NodePurpose::BringHome
        ),
        Action::Evict { .. } | Action::CreatePlanJob(_) | Action::StartPlanJob { .. } => true,
        Action::Fleet(action) => action.disrupts(),
        _ => false,
    }
}

/// What has a machine deleted.
fn lets_machine_go(action: &Action) -> bool {
    match action {
        Action::Fleet(FleetAction::DeleteMachine { .. }) => true,
        Action::Fleet(
            FleetAction::CreatePendingNode { spec, .. } | FleetAction::WritePendingNode { spec, .. },
        ) => spec.goal == Some(Goal::Leave),
        _ => false,
    }
}

/// Holds for each kind of owner that this contradiction holds the node, in these words.
fn holds(contradict: impl Fn(&mut ChangeView), words: &str) {
    for (text, goes_on) in OWNERS {
        check(text, goes_on);
        let mut cluster = Cluster::parse(text);
        contradict(journal(&mut cluster));
        let found = decision(&cluster);
        assert!(
            !found.actions.iter().any(|planned| is_disruptive(&planned.action)),
            "{words}: {:#?}",
            found.actions
        );
        check_cluster(
            &cluster,
            &format!("node a Held JournalContradicts ~ {words}\n > nothing"),
        );
    }
}

#[test]
fn a_journal_of_a_later_numo_is_not_read_nor_written() {
    holds(
        |change| change.status.journal_version = 2,
        "status.journalVersion: found 2, wanted at most 1: a later numo wrote it",
    );
}

#[test]
fn a_journal_of_another_owner_is_no_word_of_this_one() {
    holds(
        |change| change.spec.owner_ref.kind = "NodePool".to_owned(),
        "spec.ownerRef: found NodePool",
    );
    holds(
        |change| change.spec.owner_ref.name = "someone".to_owned(),
        "spec.ownerRef: found",
    );
    // Budgets and other owners count no turn of an owner elsewhere.
    holds(
        |change| change.spec.owner_ref.namespace = Some("elsewhere".to_owned()),
        "spec.ownerRef: found",
    );
}

#[test]
fn an_attempt_that_has_not_begun_is_a_contradiction() {
    holds(
        |change| change.status.entries.push(entry(Step::PreRules, 3, -50)),
        "status.entries: found attempt 3, wanted at most 1",
    );
    holds(
        |change| change.status.verdicts[0].round = 2,
        "status.verdicts: found attempt 2, wanted at most 1",
    );
}

#[test]
fn times_that_cannot_be_read_or_are_out_of_order_are_a_contradiction() {
    holds(
        |change| change.status.entries.push(entry(Step::PreRelease, 1, 3600)),
        "status.entries: found 2027-01-15T09:00:00Z, wanted a time that has come",
    );
    holds(
        |change| {
            change.status.entries.push(entry(Step::PreRules, 1, -10));
            change.status.entries.push(entry(Step::PreRelease, 1, -400));
        },
        "status.entries: found PreRelease at 2027-01-15T07:53:20Z, wanted it after PreRules",
    );
    holds(
        |change| change.status.since = Some("yesterday".to_owned()),
        "status.since: found \"yesterday\", wanted a time",
    );
    // Clocks of API servers are a little apart.
    for (text, goes_on) in OWNERS {
        let mut cluster = Cluster::parse(text);
        let status = &mut journal(&mut cluster).status;
        status.entries.push(entry(Step::PreRules, 1, 5));
        status.entries.push(entry(Step::PreRelease, 1, -5));
        check_cluster(&cluster, goes_on);
    }
}

#[test]
fn two_verdicts_of_one_attempt_are_a_contradiction() {
    holds(
        |change| {
            let mut failed = change.status.verdicts[0].clone();
            failed.outcome = Outcome::Failure;
            change.status.verdicts.insert(0, failed);
        },
        "status.verdicts: found Failure and Pass of MutexRule numo/before in phase Pre, attempt 1, wanted one",
    );
}

/// The rules of another node have passed, and not this one's.
#[test]
fn the_status_of_another_node_lets_nothing_go() {
    holds(
        |change| change.status.node_change_uid = Some("another".to_owned()),
        "status.nodeChangeUID: found \"another\", wanted its own uid change-a",
    );
    // An earlier numo did not write whose status it is. Its verdicts name their Jobs.
    holds(
        |change| change.status.verdicts[0].job = Some("numo/before-0123456789".to_owned()),
        "status.verdicts: found Job numo/before-0123456789 of MutexRule numo/before in phase Pre, wanted one that ran for this turn",
    );
    for (text, goes_on) in OWNERS {
        let mut cluster = Cluster::parse(text);
        let change = journal(&mut cluster);
        change.status.node_change_uid = Some(change.uid.clone());
        let (spec, verdict) = (&change.spec, &change.status.verdicts[0]);
        // Whatever the Jobs of the rule were called at that time.
        let job = job_of("earlier", spec, verdict);
        change.status.verdicts[0].job = Some(format!("numo/{job}"));
        check_cluster(&cluster, goes_on);
        // After the release the node that has its place is asked about, where there is one.
        let change = journal(&mut cluster);
        let mut of_heir = change.status.verdicts[0].clone();
        (of_heir.phase, of_heir.job) = (Phase::Post, Some("numo/before-0123456789".to_owned()));
        change.status.verdicts.push(of_heir);
        check_cluster(
            &cluster,
            "node a Held JournalContradicts ~ of MutexRule numo/before in phase Post, wanted one that ran for this turn",
        );
        // The node that had its place may be lost since: its machine is the one that was replaced.
        for is_lost in [false, true] {
            let mut replaced = cluster.clone();
            let pin = journal(&mut replaced).status.pin.get_or_insert_default();
            pin.heir = (!is_lost).then(|| "b".to_owned());
            pin.provider_id = is_lost.then(|| "m-a".to_owned());
            let why = &decision(&replaced).report.nodes["a"].why;
            assert_ne!(why.reason, Reason::JournalContradicts, "{}", why.message);
        }
        journal(&mut cluster).status.verdicts.pop();
        // Of an attempt before it is history.
        let change = journal(&mut cluster);
        change.status.verdicts[0].round = 0;
        change.status.verdicts[0].job = Some("numo/another".to_owned());
        let why = &decision(&cluster).report.nodes["a"].why;
        assert_ne!(why.reason, Reason::JournalContradicts, "{}", why.message);
    }
}

/// One that has lost the name of its Job may be another node's.
#[test]
fn a_pass_that_names_no_job_lets_nothing_go() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        journal(&mut cluster).status.verdicts[0].job = None;
        check_cluster(&cluster, "> job before/Pre/2 of a");
    }
}

/// The status is of another NodeChange, which has seen more than this one.
fn copied(text: &str) -> Cluster {
    let mut cluster = Cluster::parse(text);
    let status = &mut journal(&mut cluster).status;
    status.node_change_uid = Some("another".to_owned());
    status.observed_generation = Some(9);
    cluster
}

/// The node may be in mid-change: no other operator is to take it meanwhile.
#[test]
fn the_lease_of_a_node_whose_journal_is_not_gone_by_is_kept() {
    let is_renewed = |cluster: &Cluster| {
        let planned = decision(cluster).actions;
        let mut actions = planned.iter().map(|planned| &planned.action);
        actions.any(|action| matches!(action, Action::RenewLease { node, .. } if node == "a"))
    };
    for (text, _) in OWNERS {
        let mut cluster = copied(text);
        let Some(lease) = cluster.observed.leases.get_mut("a") else {
            continue;
        };
        lease.renewed = Some(at(-2000));
        assert!(is_renewed(&cluster), "copied: {text}");
        journal(&mut cluster).status.node_change_uid = None;
        let mut later = cluster.clone();
        journal(&mut later).status.journal_version = 2;
        assert!(is_renewed(&later), "of a later numo: {text}");
        let mut twice = cluster.clone();
        let mut other = journal(&mut twice).clone();
        other.key.name.push_str("-b");
        twice.observed.changes.insert(other.key.clone(), other);
        assert!(is_renewed(&twice), "twice: {text}");
        "gone".clone_into(&mut journal(&mut cluster).spec.node_name);
        assert!(is_renewed(&cluster), "misnamed: {text}");
    }
    // A Plan whose nodes stay in service has no lease: here is one that cordons.
    let closed = Cluster::parse(
        "node a worker 4.16.0
         plan concurrency:1 cordon finalizer applying:a
         begun a Released boot:b1 entered:Cordoned
         keeps a cordoned done
         planjob a running",
    );
    for contradict in [
        (|cluster| {
            let mut other = journal(cluster).clone();
            other.key.name.push_str("-b");
            cluster.observed.changes.insert(other.key.clone(), other);
        }) as fn(&mut Cluster),
        |cluster| "gone".clone_into(&mut journal(cluster).spec.node_name),
    ] {
        let mut cluster = closed.clone();
        contradict(&mut cluster);
        let lease = cluster.observed.leases.get_mut("a").expect("a lease");
        lease.renewed = Some(at(-2000));
        let planned = decision(&cluster).actions;
        let renewals = planned
            .iter()
            .filter(|planned| matches!(planned.action, Action::RenewLease { .. }));
        assert_eq!(renewals.count(), 1, "{planned:#?}");
    }
}

/// A node in mid-change, of each kind of owner.
const IN_MID_CHANGE: [&str; 4] = [
    "cluster 4.17.0
     pool worker 4.17.0 ours
     node a worker 4.16.0 desired:4.17.0 turn
     run finalizer {drainProbe: false}
     change a Admitted",
    "node a worker 4.16.0
     plan concurrency:1 cordon finalizer applying:a
     begun a Admitted
     keeps a cordoned
     planjob a running",
    "node a worker 4.16.0
     maintenance a finalizer phase:Running
     kept a cordoned
     turn a Admitted
     pods a",
    "node a worker v0
     node b worker v0
     version img2 finalizer
     host a img1 heir:b
     host b img2 donor:a
     group w image:img2
     groups w
     replacing a Admitted cordoned
     pods a",
];

/// What a person wants of the node whose journal this is.
fn said(change: &mut ChangeView, action: numo_api::DirectiveAction) {
    change.generation = 2;
    change.spec.directive = Some(numo_api::Directive {
        action,
        reason: None,
        by: None,
    });
}

/// What takes from a node, or frees, what numo has put on it, or ends its turn.
fn restores(action: &Action) -> bool {
    match action {
        Action::PatchNode(patch) => !matches!(patch.purpose, NodePurpose::Shield | NodePurpose::Replace),
        Action::PatchPool(patch) => patch.purpose == PoolPurpose::Unpause,
        Action::ReleaseLease { .. } | Action::RemoveFinalizer { .. } => true,
        Action::WriteJournal { status, .. } => status.step.is_some_and(Step::is_terminal),
        _ => is_disruptive(action),
    }
}

/// Nobody knows what was done to it.
#[test]
fn nobody_skips_or_aborts_a_node_whose_status_was_copied() {
    use numo_api::DirectiveAction::{Abort, Skip};
    for text in IN_MID_CHANGE.into_iter().chain(OWNERS.map(|(text, _)| text)) {
        for action in [Skip, Abort] {
            let mut cluster = copied(text);
            said(journal(&mut cluster), action);
            let found = decision(&cluster);
            let restored = found.actions.iter().find(|planned| restores(&planned.action));
            assert_eq!(restored, None, "{action:?}: {text}");
            let words = format!("spec.directive {action:?} is not carried out before that");
            check_cluster(&cluster, &format!("node a Held JournalContradicts ~ {words}"));
            let message = &found.report.nodes["a"].why.message;
            assert!(
                message.contains("`numo retry a` starts its turn over"),
                "{message}"
            );
        }
    }
}

/// The operator that numo replaces is gone, and turns that stood still beside it go on: not those whose journal is not gone by.
#[test]
fn a_journal_that_is_not_gone_by_is_not_written_once_the_rival_is_gone() {
    for text in OWNERS.map(|(text, _)| text) {
        let later = |cluster: &mut Cluster| journal(cluster).status.journal_version = 2;
        let copied = |cluster: &mut Cluster| {
            journal(cluster).status.node_change_uid = Some("another".to_owned());
        };
        for contradict in [later as fn(&mut Cluster), copied] {
            let mut cluster = Cluster::parse(text);
            contradict(&mut cluster);
            journal(&mut cluster).status.reason = Some(Reason::ForeignController.name().to_owned());
            check_cluster(&cluster, "node a Held JournalContradicts\n > nothing");
        }
    }
}

/// It stood back, and a later numo wrote so.
#[test]
fn no_turn_begins_in_a_journal_that_a_later_numo_wrote() {
    for text in OWNERS.map(|(text, _)| text) {
        let mut cluster = Cluster::parse(text);
        let status = &mut journal(&mut cluster).status;
        (status.step, status.journal_version) = (Some(Step::Selected), 2);
        let found = decision(&cluster);
        let writes = |action: &Action| matches!(action, Action::WriteJournal { .. });
        let written = found.actions.iter().find(|planned| writes(&planned.action));
        assert_eq!(written, None, "{text}");
        journal(&mut cluster).status.journal_version = 1;
        let written = decision(&cluster).actions;
        assert!(written.iter().any(|planned| writes(&planned.action)), "{text}");
    }
}

/// Nothing is written to it either where the Node is gone.
#[test]
fn the_journal_of_a_later_numo_is_not_ended_with_its_node() {
    for text in OWNERS.map(|(text, _)| text) {
        let mut cluster = Cluster::parse(text);
        cluster.observed.nodes.remove("a");
        let writes = |cluster: &Cluster| {
            let planned = decision(cluster).actions;
            let mut actions = planned.iter().map(|planned| &planned.action);
            actions.any(|action| matches!(action, Action::WriteJournal { .. }))
        };
        assert!(writes(&cluster), "{text}");
        journal(&mut cluster).status.journal_version = 2;
        assert!(!writes(&cluster), "{text}");
    }
}

/// It has our uid, and names somebody else.
#[test]
fn no_turn_begins_in_a_journal_of_another_owner() {
    for text in OWNERS.map(|(text, _)| text) {
        let mut cluster = Cluster::parse(text);
        let change = journal(&mut cluster);
        change.status.step = Some(Step::Selected);
        "other".clone_into(&mut change.spec.owner_ref.name);
        let found = decision(&cluster);
        let writes = |action: &Action| matches!(action, Action::WriteJournal { .. });
        let written = found.actions.iter().find(|planned| writes(&planned.action));
        assert_eq!(written, None, "{text}");
        check_cluster(&cluster, "node a Selected JournalContradicts ~ whose uid it has");
    }
}

/// Whatever it says of the turn: as long as the owner has something of the node, nobody knows how that stands.
#[test]
fn a_status_that_was_copied_ends_no_turn() {
    for text in OWNERS.map(|(text, _)| text) {
        for step in [Step::Selected, Step::Done, Step::Failed, Step::Skipped] {
            let mut cluster = copied(text);
            let is_kept = {
                let observed = &cluster.observed;
                let node = &observed.nodes["a"];
                observed.leases.contains_key("a") || node.annotations.contains_key(marks::SHIELDED_BY)
            };
            assert!(is_kept, "{text}");
            journal(&mut cluster).status.step = Some(step);
            check_cluster(&cluster, "node a Held JournalContradicts ~ status.nodeChangeUID");
            let found = decision(&cluster);
            let restored = found.actions.iter().find(|planned| restores(&planned.action));
            assert_eq!(restored, None, "{step:?}: {text}");
            // A person knows, and says so.
            said(journal(&mut cluster), numo_api::DirectiveAction::Retry);
            let written = written(decision(&cluster));
            assert_eq!(
                (written.attempt, written.step),
                (2, Some(Step::Admitted)),
                "{text}"
            );
        }
    }
}

/// The next journal of the node tells how it stands.
#[test]
fn a_status_that_was_copied_holds_no_node_of_which_a_later_journal_tells() {
    for text in OWNERS.map(|(text, _)| text) {
        let mut cluster = Cluster::parse(text);
        let mut old = journal(&mut cluster).clone();
        old.key.name.push_str("-old");
        "old".clone_into(&mut old.spec.target.run_id);
        old.created = at(-1_000_000);
        old.status.step = Some(Step::Done);
        old.status.node_change_uid = Some("another".to_owned());
        let before = decision(&cluster).actions;
        cluster.observed.changes.insert(old.key.clone(), old);
        assert_eq!(decision(&cluster).actions, before, "{text}");
    }
}

/// A turn that was started over tells nothing of the machine that goes.
#[test]
fn a_node_whose_machine_goes_is_not_left_out_by_a_turn_that_was_started_over() {
    use numo_api::DirectiveAction::{Abort, Skip};
    let text = format!("{}\n pending a leave node:a machine:m-a for:a", IN_MID_CHANGE[3]);
    for action in [None, Some(Skip), Some(Abort)] {
        let mut cluster = Cluster::parse(&text);
        let change = journal(&mut cluster);
        change.status.attempt = 2;
        if let Some(action) = action {
            said(change, action);
            check_cluster(
                &cluster,
                "node a Held MachineLeaving ~ machine m-a of Node a is to be deleted",
            );
            let who = decision(&cluster).report.nodes["a"].why.who();
            assert_eq!(who, Actor::ClusterAdmin);
        }
        let found = decision(&cluster);
        let restored = found.actions.iter().find(|planned| restores(&planned.action));
        assert_eq!(restored, None, "{action:?}");
    }
}

/// A person left the node out before its turn, or wants it left out: the numo that wrote the journal is to hear of it.
#[test]
fn what_a_person_says_of_a_node_that_waits_is_not_written_for_a_later_numo() {
    use numo_api::DirectiveAction::{Retry, Skip};
    for text in OWNERS.map(|(text, _)| text) {
        for (step, action) in [(Step::Skipped, Retry), (Step::Selected, Skip)] {
            let mut cluster = Cluster::parse(text);
            let change = journal(&mut cluster);
            said(change, action);
            change.annotations.clear();
            change.status.entries.clear();
            (change.status.step, change.status.journal_version) = (Some(step), 2);
            let found = decision(&cluster);
            let writes = |action: &Action| matches!(action, Action::WriteJournal { .. });
            let written = found.actions.iter().find(|planned| writes(&planned.action));
            assert_eq!(written, None, "{action:?}: {text}");
        }
    }
}

/// An owner that is deleted must not wait for a person for ever.
#[test]
fn an_owner_that_is_deleted_waits_for_no_status_that_was_copied() {
    for text in OWNERS.map(|(text, _)| text) {
        let mut cluster = copied(text);
        let observed = &mut cluster.observed;
        observed.runs.values_mut().for_each(|run| run.deleting = true);
        observed.plans.values_mut().for_each(|plan| plan.deleting = true);
        let maintenances = observed.maintenances.values_mut();
        maintenances.for_each(|one| one.deleting = true);
        let versions = observed.fleet.versions.values_mut();
        versions.for_each(|one| one.deleting = true);
        let found = decision(&cluster);
        assert!(!found.actions.is_empty(), "{text}");
        assert_ne!(
            found.report.nodes["a"].why.reason,
            Reason::JournalContradicts,
            "{text}"
        );
    }
}

/// Its journal tells nothing of what was done to the node, as a person had its turn started over: what is seen of the node does.
#[test]
fn a_node_in_mid_change_that_has_lost_its_journal_is_not_restored() {
    use numo_api::DirectiveAction::{Abort, Skip};
    for text in [IN_MID_CHANGE[0], IN_MID_CHANGE[1]] {
        for action in [Skip, Abort] {
            let mut cluster = Cluster::parse(text);
            let change = journal(&mut cluster);
            change.status.attempt = 2;
            said(change, action);
            let found = decision(&cluster);
            let restored = found.actions.iter().find(|planned| restores(&planned.action));
            assert_eq!(restored, None, "{action:?}: {text}");
        }
    }
}

#[test]
fn a_retry_begins_anew_with_nothing_of_a_status_that_was_copied() {
    for (text, _) in OWNERS {
        let mut cluster = copied(text);
        let change = journal(&mut cluster);
        change.generation = 2;
        change.spec.directive = Some(numo_api::Directive {
            action: numo_api::DirectiveAction::Retry,
            reason: None,
            by: None,
        });
        let uid = change.uid.clone();
        let found = decision(&cluster);
        assert!(
            !found.actions.iter().any(|planned| is_disruptive(&planned.action)),
            "{:#?}",
            found.actions
        );
        let written = written(found);
        assert_eq!(written.node_change_uid, Some(uid), "{text}");
        assert_eq!(
            (written.attempt, written.step),
            (2, Some(Step::Admitted)),
            "{text}"
        );
        assert_eq!((written.pin, written.verdicts), (None, Vec::new()), "{text}");
        assert_eq!(written.observed_generation, Some(2), "{text}");
    }
}

/// Its Job has cordoned the node, and no journal tells so any more.
#[test]
fn a_turn_that_starts_over_takes_the_cordon_of_a_job_for_no_persons() {
    let mut cluster = copied(IN_MID_CHANGE[1]);
    said(journal(&mut cluster), numo_api::DirectiveAction::Retry);
    let planned = decision(&cluster).actions;
    let marks: Vec<&str> = planned
        .iter()
        .filter_map(|planned| match &planned.action {
            Action::PatchNode(patch) => Some(&patch.annotations),
            _ => None,
        })
        .flatten()
        .filter(|change| change.key == numo_api::marks::CORDONED_BY)
        .filter_map(|change| change.to.as_deref())
        .collect();
    assert_eq!(marks.len(), 1, "{planned:#?}");
    assert!(
        marks[0].contains("\"prior\":false") && marks[0].contains("\"done\":true"),
        "{marks:?}"
    );
    assert_eq!(written(decision(&cluster)).step, Some(Step::Admitted));
}

/// What was said of another node leaves none out.
#[test]
fn a_node_is_not_left_out_by_a_status_that_was_copied() {
    for text in [
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         run finalizer {}
         change a Skipped reason:SkippedByPerson",
        "node a worker 4.16.0
         plan concurrency:1 finalizer
         begun a Skipped reason:SkippedByPerson",
    ] {
        check(text, "node a Skipped SkippedByPerson");
        check_cluster(&copied(text), "not node a Skipped");
        let planned = decision(&copied(text)).actions;
        let written = planned.into_iter().find_map(|planned| match planned.action {
            Action::WriteJournal { status, .. } => Some(*status),
            _ => None,
        });
        if let Some(written) = written {
            let steps: Vec<Step> = written.entries.iter().map(|entry| entry.step).collect();
            assert_eq!(steps, [Step::Admitted], "{text}");
        }
    }
}

/// A node that is gone frees its place, unless a machine or a member of etcd is named for it.
#[test]
fn a_node_that_is_gone_needs_no_person_for_a_status_that_was_copied() {
    let gone = |more: &str| {
        let mut cluster = copied(&format!(
            "node a worker v0
             node b worker v0
             version img2 finalizer
             host a img1
             host b img1
             group w image:img2
             groups w
             replacing a PreRules {more}"
        ));
        cluster.observed.nodes.remove("a");
        cluster
    };
    let planned = decision(&gone("")).actions;
    let ended = planned.iter().any(|planned| match &planned.action {
        Action::WriteJournal { status, .. } => status.step == Some(Step::Failed),
        _ => false,
    });
    assert!(ended, "{planned:#?}");
    let mut names_one = gone("machine:m-b");
    check_cluster(&names_one, "node a Held JournalContradicts");
    // A person goes on without that machine.
    said(journal(&mut names_one), numo_api::DirectiveAction::Retry);
    let journaled = written(decision(&names_one));
    assert_eq!((journaled.step, &journaled.pin), (Some(Step::Failed), &None));
}

/// Others wait for the node, and for a person with it.
#[test]
fn who_waits_for_a_node_whose_status_was_copied_is_told_to_wait_for_a_person() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 desired:4.17.0 turn
         node b worker 4.16.0
         run finalizer {maxUnavailable: 1}
         change a Released pin:4.17.0 entries:PreRules,Released",
    );
    let who = |cluster: &Cluster| decision(cluster).report.nodes["b"].why.who();
    assert_eq!(who(&cluster), Actor::OtherNode);
    journal(&mut cluster).status.node_change_uid = Some("another".to_owned());
    assert_eq!(who(&cluster), Actor::ClusterAdmin);
}

#[test]
fn a_journal_says_whose_it_is_with_each_write() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        let change = journal(&mut cluster);
        change.status.journal_version = 1;
        let change = &*change;
        let written = |edit: fn(&mut Journal<'_>)| {
            let mut journal = Journal::open(change, at(0));
            edit(&mut journal);
            match journal.planned(None)?.action {
                Action::WriteJournal { status, .. } => status.node_change_uid,
                _ => None,
            }
        };
        // Where the API server drops it, each pass would write it again.
        assert_eq!(written(|_| ()), None, "{text}");
        let noted = written(|journal| journal.status.log_tail = Some("a".to_owned()));
        assert_eq!(noted.as_ref(), Some(&change.uid), "{text}");
    }
}

#[test]
fn a_journal_says_whose_it_is_with_each_step() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        // Begins anew, as a person wants it.
        let change = journal(&mut cluster);
        (change.generation, change.spec.directive) = (
            2,
            Some(numo_api::Directive {
                action: numo_api::DirectiveAction::Retry,
                reason: None,
                by: None,
            }),
        );
        let uid = change.uid.clone();
        let planned = decision(&cluster).actions;
        let written = planned.into_iter().find_map(|planned| match planned.action {
            Action::WriteJournal { status, .. } => Some(*status),
            _ => None,
        });
        assert_eq!(written.expect("a journal").node_change_uid, Some(uid), "{text}");
    }
}

#[test]
fn a_step_that_no_node_of_the_owner_goes_through_is_a_contradiction() {
    for (index, step) in [
        (0, Step::Drained),
        (1, Step::Uncordoned),
        (2, Step::Released),
        (3, Step::Ready),
    ] {
        let mut cluster = Cluster::parse(OWNERS[index].0);
        journal(&mut cluster).status.step = Some(step);
        let words = format!("found step {}, wanted one that a ", step.name());
        check_cluster(
            &cluster,
            &format!("node a Held JournalContradicts ~ {words}\n > nothing"),
        );
    }
    holds(
        |change| {
            change.status.step = None;
            change.status.entries.push(entry(Step::PreRules, 1, -50));
        },
        "status.step: found none, wanted one",
    );
}

#[test]
fn a_node_that_was_released_and_never_admitted_is_held() {
    let with = |change: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             rule after Post
             run finalizer {{}}
             change a {change}"
        )
    };
    check(
        &with("Released pin:4.17.0 entries:Released"),
        "node a Held JournalContradicts ~ found step Released, wanted PreRules before it\n > nothing",
    );
    for step in ["PostRules", "Soaked"] {
        check(
            &with(&format!("{step} pin:4.17.0 entries:PreRules,{step}")),
            &format!(
                "node a Held JournalContradicts ~ found step {step}, wanted Released before it\n > nothing"
            ),
        );
    }
}

#[test]
fn a_node_with_two_turns_of_one_owner_is_held() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        let mut other = journal(&mut cluster).clone();
        other.key.name.push_str("-b");
        let name = other.key.to_string();
        cluster.observed.changes.insert(other.key.clone(), other);
        check_cluster(
            &cluster,
            &format!(
                "node a Held JournalContradicts ~ {}\n > nothing",
                name.trim_end_matches("-b")
            ),
        );
    }
}

#[test]
fn a_turn_that_names_another_node_than_its_uid_keeps_what_it_has() {
    for text in [
        "node a worker 4.16.0
         node b worker 4.16.0
         plan concurrency:2 cordon finalizer spec {\"mutex\":{\"drainBy\":\"Numo\"}}
         begun a Drained entered:Cordoned
         keeps a cordoned done
         pods a",
        "node a worker 4.16.0
         node b worker 4.16.0
         maintenance a finalizer phase:Running
         kept a cordoned
         turn a Drained
         pods a",
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 desired:4.17.0 turn
         node b worker 4.16.0
         run finalizer {maxUnavailable: 2}
         change a Released pin:4.17.0 entries:PreRules,Released",
        "node a worker v0
         node b worker v0
         node c worker v0
         version img2 surge:3 finalizer
         host a img1 heir:c
         host b img1
         host c img2 donor:a
         group w image:img2
         groups w
         replacing a Drained machine:m-c heir:c cordoned
         pods a",
    ] {
        for name in ["b", "gone"] {
            let mut cluster = Cluster::parse(text);
            name.clone_into(&mut journal(&mut cluster).spec.node_name);
            let words = format!("node a Held JournalContradicts ~ spec.nodeName: found {name}, wanted a");
            check_cluster(&cluster, &words);
            let found = decision(&cluster);
            assert!(
                !found.actions.iter().any(|planned| is_disruptive(&planned.action)),
                "{:#?}",
                found.actions
            );
        }
    }
}

#[test]
fn a_pass_of_a_time_that_has_not_come_lets_nothing_go() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        journal(&mut cluster).status.verdicts[0].at = at(86_400).to_string();
        check_cluster(&cluster, "> job before/Pre/2 of a");
        // One that ended after it was written down did not.
        let verdict = &mut journal(&mut cluster).status.verdicts[0];
        verdict.at = at(-3600).to_string();
        verdict.ended_at = Some(at(-1).to_string());
        check_cluster(&cluster, "> job before/Pre/2 of a");
    }
}

/// The API server's own time of the object says that its clock was put back: nothing is wrong with the journal, and its rules are asked anew.
#[test]
fn a_turn_that_was_made_at_a_time_that_has_not_come_begins_anew() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        let change = journal(&mut cluster);
        change.created = at(7200);
        change.status.since = Some(at(7210).to_string());
        for entry in &mut change.status.entries {
            entry.at = at(7210).to_string();
        }
        change.status.entries.push(entry(Step::PreRules, 1, 7210));
        change.status.verdicts[0].at = at(7220).to_string();
        let found = decision(&cluster);
        let why = &found.report.nodes["a"].why;
        assert_eq!(why.reason, Reason::Admitting, "{text}");
        assert!(why.message.contains("the clock was put back"), "{}", why.message);
        let written = written(found);
        assert_eq!(
            (written.attempt, written.step),
            (2, Some(Step::Admitted)),
            "{text}"
        );
        journal(&mut cluster).status = written;
        // Once it is journaled the turn goes on, and lets nothing go before its rules have passed once more.
        let mut asked = false;
        for _ in 0..4 {
            let found = decision(&cluster);
            let why = &found.report.nodes["a"].why;
            assert_ne!(why.reason, Reason::JournalContradicts, "{text}: {}", why.message);
            for planned in found.actions {
                assert!(!is_disruptive(&planned.action), "{:#?}", planned.action);
                match planned.action {
                    Action::WriteJournal { status, .. } => journal(&mut cluster).status = *status,
                    Action::CreateJob(request) => asked |= request.attempt == 2,
                    _ => {}
                }
            }
        }
        assert!(asked, "{text}");
        // The lease that numo has renewed tells it as well, of a turn that began before.
        let mut cluster = Cluster::parse(text);
        journal(&mut cluster)
            .status
            .entries
            .push(entry(Step::PreRules, 1, 7210));
        if let Some(lease) = cluster.observed.leases.get_mut("a") {
            lease.renewed = Some(at(7200));
            let why = &decision(&cluster).report.nodes["a"].why;
            assert!(why.message.contains("the clock was put back"), "{}", why.message);
        }
        // A journal that says more than that cannot be gone by.
        let mut cluster = Cluster::parse(text);
        journal(&mut cluster).created = at(7200);
        let change = journal(&mut cluster);
        change.status.entries.push(entry(Step::PreRules, 9, 7210));
        let why = &decision(&cluster).report.nodes["a"].why;
        assert_eq!(why.reason, Reason::JournalContradicts, "{text}");
    }
}

#[test]
fn a_node_whose_journal_says_changed_waits_for_the_job_that_runs() {
    check(
        "node a worker 4.16.0
         plan concurrency:1 cordon finalizer
         begun a Changed boot:b1 entered:Released
         keeps a cordoned
         planjob a running",
        "node a Released UpgradeStarting\n > nothing",
    );
}

#[test]
fn a_retry_begins_anew_without_what_claimed_to_be_of_the_next_attempt() {
    for (text, _) in OWNERS {
        let mut cluster = Cluster::parse(text);
        let change = journal(&mut cluster);
        change.generation = 2;
        change.spec.directive = Some(numo_api::Directive {
            action: numo_api::DirectiveAction::Retry,
            reason: None,
            by: None,
        });
        let mut forged = change.status.verdicts[0].clone();
        (forged.round, forged.attempt) = (2, 2);
        change.status.verdicts.push(forged);
        change.status.entries.push(entry(Step::PreRules, 2, -50));
        let planned = decision(&cluster).actions;
        let written = planned.into_iter().find_map(|planned| match planned.action {
            Action::WriteJournal { status, .. } => Some(*status),
            _ => None,
        });
        let written = written.expect("a journal");
        assert_eq!(written.attempt, 2);
        assert!(
            written.verdicts.iter().all(|verdict| verdict.round == 1),
            "{written:#?}"
        );
        let change = journal(&mut cluster);
        (change.status, change.spec.directive) = (written, None);
        let found = decision(&cluster);
        assert!(
            !found.actions.iter().any(|planned| is_disruptive(&planned.action)),
            "{:#?}",
            found.actions
        );
    }
}

#[test]
fn an_owner_that_is_deleted_restores_whatever_the_journal_says() {
    check(
        "node a worker 4.16.0
         maintenance a finalizer deleting phase:Succeeded
         kept a cordoned
         turn a Released entries:Released",
        "> uncordon a Some(false) with no taints",
    );
}

/// Its machine is not looked for, nor told to go, on the word of a journal that is not to be gone by.
#[test]
fn a_machine_whose_node_is_gone_is_left_alone_if_its_journal_contradicts_itself() {
    let gone = |contradict: fn(&mut ChangeView)| {
        let mut cluster = Cluster::parse(
            "node a worker v0
             node b worker v0
             version img2 finalizer
             host a img1 heir:b
             host b img2 donor:a
             group w image:img2
             groups w
             replacing a Released machine:m-a entries:Cordoned",
        );
        cluster.observed.nodes.remove("a");
        contradict(journal(&mut cluster));
        cluster
    };
    check_cluster(&gone(|_| {}), "> leave a m-a\n > note b -donor");
    let held = "node a Held JournalContradicts\n > note b -donor";
    check_cluster(&gone(|change| change.status.journal_version = 2), held);
    check_cluster(&gone(|change| change.spec.owner_ref.name = "b".to_owned()), held);
    check_cluster(&gone(|change| change.status.entries[0].attempt = 9), held);
}

/// Which machine goes is written down when its node is let go: none goes on the word of a journal that has lost that, or has another one's.
#[test]
fn no_machine_goes_on_the_word_of_a_journal_that_has_lost_it_or_names_another() {
    let released = "node a worker v0
         node b worker v0
         node x worker v0
         version img2 surge:2 finalizer
         host a img1 heir:x
         host b img2
         host x img2 donor:a
         group w image:img2
         groups w
         replacing a Released machine:m-a heir:x cordoned";
    check(released, "> leave a m-a");
    for (found, words) in [
        (
            None,
            "status.pin.providerID: found \"\", wanted its machine \"m-a\"",
        ),
        (
            Some("m-b"),
            "status.pin.providerID: found \"m-b\", wanted its machine \"m-a\"",
        ),
    ] {
        let mut cluster = Cluster::parse(released);
        let pin = journal(&mut cluster).status.pin.as_mut().expect("a pin");
        pin.provider_id = found.map(str::to_owned);
        let held = format!("node a Held JournalContradicts ~ {words}\n > nothing");
        check_cluster(&cluster, &held);
        // The Node is gone by now, and with it what told its machine: no other one goes in its place.
        cluster.observed.nodes.remove("a");
        if found.is_none() {
            check_cluster(&cluster, "node a Held JournalContradicts");
        }
        let planned = decision(&cluster).actions;
        assert!(
            !planned.iter().any(|planned| lets_machine_go(&planned.action)),
            "{found:?}: {planned:#?}"
        );
    }
    // Nor that of a node that was never cordoned.
    let mut cluster = Cluster::parse(released);
    journal(&mut cluster)
        .status
        .entries
        .retain(|entry| entry.step == Step::Released);
    check_cluster(
        &cluster,
        "node a Held JournalContradicts ~ found step Released, wanted Cordoned before it\n > nothing",
    );
}

/// Numbers that look like chance, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        let bound = u64::try_from(all.len()).expect("small");
        all[usize::try_from(self.below(bound)).expect("small")]
    }
}

const STEPS: [Step; 16] = [
    Step::Selected,
    Step::Admitted,
    Step::PreRules,
    Step::Cordoned,
    Step::Drained,
    Step::PreRelease,
    Step::Released,
    Step::Changed,
    Step::Ready,
    Step::Uncordoned,
    Step::PostRules,
    Step::Soaked,
    Step::Done,
    Step::Held,
    Step::Failed,
    Step::Skipped,
];

fn any_time(chance: &mut Chance) -> String {
    let texts = [
        "",
        "yesterday",
        "9999-12-30T22:00:00Z",
        "-009999-01-02T01:59:59Z",
        "1970-01-01T00:00:00Z",
    ];
    match chance.below(4) {
        0 => chance.one(&texts).to_owned(),
        _ => at(i64::try_from(chance.below(8000)).expect("small") - 6000).to_string(),
    }
}

/// Any journal; without a Pass, so that no rule lets anything go.
fn any_status(chance: &mut Chance) -> NodeChangeStatus {
    let numbers = [i32::MIN, -1, 0, 1, 1, 1, 2, 3, i32::MAX];
    let reasons = [
        Reason::RuleFailed,
        Reason::Ungated,
        Reason::ChangeTimeout,
        Reason::Superseded,
        Reason::JobFailed,
        Reason::JobLost,
        Reason::Rebooted,
        Reason::Prepared,
        Reason::ForeignWriter,
        Reason::NodeGone,
        Reason::Aborted,
        Reason::DrainBlocked,
    ];
    let reason = |chance: &mut Chance| match chance.below(3) {
        0 => Some(chance.one(&reasons).name().to_owned()),
        1 => Some("NoSuchReason".to_owned()),
        _ => None,
    };
    let mut status = NodeChangeStatus {
        journal_version: chance.one(&[0, 1, 1, 1, 2]),
        observed_generation: chance.one(&[None, Some(1), Some(i64::MAX)]),
        step: chance.one(&[true, true, true, false]).then(|| chance.one(&STEPS)),
        attempt: chance.one(&numbers),
        ..NodeChangeStatus::default()
    };
    status.reason = reason(chance);
    status.since = chance.one(&[true, false]).then(|| any_time(chance));
    status.closed_since = chance.one(&[true, false, false]).then(|| any_time(chance));
    for _ in 0..chance.below(6) {
        status.entries.push(Entry {
            at: any_time(chance),
            step: chance.one(&STEPS),
            attempt: chance.one(&numbers),
            reason: reason(chance),
        });
    }
    for _ in 0..chance.below(4) {
        status.verdicts.push(VerdictRecord {
            rule: chance.one(&["numo/before", "before", "", "a/b/c"]).to_owned(),
            phase: chance.one(&[Phase::Pre, Phase::PreRelease, Phase::Post, Phase::OnFailure]),
            attempt: chance.one(&numbers),
            round: chance.one(&numbers),
            outcome: Outcome::Failure,
            policy: None,
            reason: String::new(),
            message: None,
            job: None,
            exit_code: None,
            data: None,
            started_at: None,
            at: any_time(chance),
            ended_at: chance.one(&[true, false]).then(|| any_time(chance)),
            edition: None,
        });
    }
    status.pin = chance.one(&[true, false]).then(|| Pin {
        rendered_config: chance
            .one(&["", "rendered-worker-4170", "rendered-worker-4160"])
            .to_owned(),
        from_config: chance.one(&["", "rendered-worker-4160"]).to_owned(),
        from_version: chance.one(&["", "4.16.0"]).to_owned(),
        boot_id: chance.one(&[None, Some("b1"), Some("b0")]).map(str::to_owned),
        generation: chance.one(&[None, Some(1), Some(-1)]),
        ..Pin::default()
    });
    status
}

#[test]
fn no_journal_makes_a_decision_panic_or_let_a_node_go() {
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    // A node that is kept closed must not be opened either; nobody has let it go.
    let cordoned = "node a worker 4.16.0
         maintenance a finalizer rule:before phase:Running
         rule before Pre
         kept a cordoned
         turn a Drained
         pods a";
    let by_numo = "node a worker 4.16.0
         plan concurrency:1 cordon finalizer spec {\"mutex\":{\"drainBy\":\"Numo\",\"rules\":[{\"name\":\"before\",\"namespace\":\"numo\"}]}}
         rule before Pre
         begun a Cordoned
         keeps a cordoned done
         pods a";
    let texts = OWNERS
        .map(|(text, _)| text)
        .into_iter()
        .chain([cordoned, by_numo]);
    let clusters: Vec<Cluster> = texts.map(Cluster::parse).collect();
    for round in 0..400 {
        for cluster in &clusters {
            let mut cluster = cluster.clone();
            journal(&mut cluster).status = any_status(&mut chance);
            let status = journal(&mut cluster).status.clone();
            let found = decision(&cluster);
            let bad = found.actions.iter().find(|planned| match &planned.action {
                Action::PatchNode(patch) => {
                    matches!(patch.purpose, NodePurpose::Release)
                        || opens_in_mid_turn(&cluster, patch.purpose)
                }
                Action::CreatePlanJob(_) | Action::StartPlanJob { .. } => true,
                _ => false,
            });
            assert!(bad.is_none(), "round {round}: {bad:#?}\n{status:#?}");
        }
    }
}

/// Whether a write opens a node whose turn goes on.
fn opens_in_mid_turn(cluster: &Cluster, purpose: NodePurpose) -> bool {
    let change = cluster.observed.changes.values().next().expect("a journal");
    purpose == NodePurpose::Uncordon && change.in_flight() && !cluster.observed.maintenances.is_empty()
}
