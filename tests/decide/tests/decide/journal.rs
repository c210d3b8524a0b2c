//! Journals are bounded, and forget nothing that matters.

use crate::{
    cluster::{Cluster, job_key},
    words::{check_cluster, decision},
};
use numo_api::NodeChangeStatus;
use numo_core::action::Action;

fn written(cluster: &Cluster) -> NodeChangeStatus {
    let decision = decision(cluster);
    let journal = decision.actions.iter().find_map(|planned| match &planned.action {
        Action::WriteJournal { status, .. } => Some((**status).clone()),
        _ => None,
    });
    journal.unwrap_or_else(|| panic!("no journal in {:#?}", decision.actions))
}

#[test]
fn entries_are_bounded_and_the_release_is_remembered() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         rule after Post
         run finalizer {}
         change a Held pin:4.17.0 entries:Admitted,PreRules,Released,PostRules reason:RuleFailed verdict:after/Post/1/Failure",
    );
    // A person asks for the Post rules again and again.
    for generation in 2..80 {
        let change = cluster.observed.changes.values_mut().next().expect("a change");
        change.generation = generation;
        change.spec.directive = Some(numo_api::Directive {
            action: numo_api::DirectiveAction::Retry,
            reason: None,
            by: None,
        });
        let status = written(&cluster);
        assert!(status.entries.len() <= 64);
        assert_eq!(status.attempt, i32::try_from(generation).expect("small"));
        let change = cluster.observed.changes.values_mut().next().expect("a change");
        change.status = status;
    }
    let change = cluster.observed.changes.values().next().expect("a change");
    assert!(
        change
            .status
            .entries
            .iter()
            .any(|entry| entry.step == numo_api::Step::Released)
    );
    check_cluster(&cluster, "> job after/Post/2 of a");
}

#[test]
fn verdicts_are_bounded_and_attempts_keep_their_numbers() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         rule backup Pre retries:10
         rule check Pre
         run finalizer {mutexRules: [{name: check}, {name: backup}]}
         change a PreRules pin:4.17.0 verdict:check/Pre/1/Pass",
    );
    let mut attempt = 0;
    for round in 1..9 {
        for _ in 0..11 {
            attempt += 1;
            let what = format!("backup/Pre/{attempt}");
            check_cluster(&cluster, &format!("> job {what} of a"));
            let job = job_key(&cluster.observed, &what, "a", None, round);
            let text = format!(
                "cluster 4.17.0\n pool worker 4.17.0\n node a worker 4.16.0\n rule backup Pre\n job {what} of a Failed read round:{round}"
            );
            let with_job = Cluster::parse(&text);
            cluster.observed.jobs = with_job.observed.jobs;
            cluster.answers.evidence = with_job.answers.evidence;
            assert!(cluster.observed.jobs.contains_key(&job));
            let status = written(&cluster);
            assert!(status.verdicts.len() <= 32);
            cluster
                .observed
                .changes
                .values_mut()
                .next()
                .expect("a change")
                .status = status;
            cluster.observed.jobs.clear();
        }
        // Eleven failures in this round: that is enough.
        check_cluster(&cluster, "node a Held RuleFailed");
        let change = cluster.observed.changes.values_mut().next().expect("a change");
        change.status.attempt = round + 1;
        change.status.step = Some(numo_api::Step::PreRules);
        let mut again = change.status.verdicts[0].clone();
        again.rule = "numo/check".to_owned();
        again.round = round + 1;
        again.attempt = round + 1;
        again.outcome = numo_api::Outcome::Pass;
        again.job = None;
        change.status.verdicts.push(again);
        let surplus = change.status.verdicts.len().saturating_sub(32);
        change.status.verdicts.drain(..surplus);
    }
}

#[test]
fn messages_fit_the_schema() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         rule backup Pre
         run finalizer {}
         change a PreRules pin:4.17.0
         job backup/Pre/1 of a Failed read",
    );
    let evidence = cluster.answers.evidence.values_mut().next().expect("evidence");
    evidence.log_tail = Some("é".repeat(1024));
    let job = cluster.observed.jobs.values_mut().next().expect("a Job");
    job.ended = Some(numo_core::observed::JobEnd::Failed(
        "R".repeat(200),
        "é\n".repeat(3000),
    ));
    let decision = decision(&cluster);
    let planned = decision
        .actions
        .iter()
        .find(|planned| matches!(planned.action, Action::WriteJournal { .. }))
        .expect("a journal");
    let Action::WriteJournal { status, .. } = &planned.action else {
        unreachable!()
    };
    let verdict = status.verdicts.last().expect("a verdict");
    assert!(verdict.reason.chars().count() <= 64);
    let message = verdict.message.as_deref().expect("a message");
    assert!(message.chars().count() <= 512 && !message.contains('\n'));
    let note = &planned.event.as_ref().expect("an event").note;
    assert!(note.len() <= 1024, "{} bytes", note.len());
}
