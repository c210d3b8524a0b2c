//! Which Jobs of rules are waited for before anything begins on a node, or for a run: those that run from before, and that numo may have
//! made.

use super::{
    attempt::{DEADLINE_GRACE_SECONDS, next_job},
    inquiry::Inquiry,
    job::being_deleted,
    verdicts::failed_for_good,
};
use crate::{
    key::Key,
    names::{self, JobIdentity},
    observed::{ChangeView, JobView, RuleView},
    place,
    time::{STUCK_SECONDS, later},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Phase, Reason, VerdictRecord, conditions::Actor};

/// With how many attempts of a node, the last ones, and with how many Jobs of a rule in each, a Job's name is compared.
const COMPARED: i32 = 16;

/// Why nothing begins beside a Job of a rule that runs on the node, or for the run, and is none that is to run now, and when that is looked
/// at again: it is of an earlier attempt or another turn, of a rule as it was before an edit, or of an attempt that did not end in its time.
/// How it ends says nothing. A node that was released is brought to its end beside the Jobs of other runs.
pub fn earlier(inquiry: &Inquiry<'_>, is_released: bool) -> Option<(Why, Option<Timestamp>)> {
    let (of, now) = (inquiry.subject.node, inquiry.now);
    let jobs = &inquiry.observed.jobs;
    if !jobs.any_runs() {
        return None;
    }
    let node = names::node_hash(of);
    let mut running = jobs.running(&node);
    let (key, job) = running.find(|one| is_earlier(inquiry, *one, is_released))?;
    let of = if of.is_empty() {
        String::new()
    } else {
        format!(" of Node {of}")
    };
    let what = format!("Job {key}, which began before this attempt{of}, or before its rule was edited,");
    if let Some(since) = job.deleting {
        return Some(being_deleted(
            format!("{what} is being deleted, or a pod of it still runs"),
            since,
            now,
        ));
    }
    let limit = limit_seconds(inquiry, (key, job));
    let deadline = later(job.created, limit.saturating_add(DEADLINE_GRACE_SECONDS));
    if now < deadline {
        let why = Why::new(Reason::RuleRunning, format!("{what} comes to its end first"));
        return Some((why, Some(deadline)));
    }
    // It is suspended, or its pod does not end: nobody else ends it.
    let message = format!("{what} did not end within {limit} s: delete it");
    Some((
        Why::new(Reason::RuleRunning, message).ended_by(Actor::ClusterAdmin),
        None,
    ))
}

/// How long a Job may run (seconds). Of one that numo surely made it is what that says, as its rule said when it was made; what another says
/// of its own time anybody may have written.
fn limit_seconds(inquiry: &Inquiry<'_>, (key, job): (&Key, &JobView)) -> i64 {
    let by_rule = rule_of(inquiry, job).map_or(STUCK_SECONDS, |rule| rule.timeout_seconds);
    match job.deadline_seconds {
        Some(own) if is_named(inquiry, (key, job)) => own,
        _ => by_rule,
    }
}

/// Whether a Job of the node, of whatever owner, is waited for. Those of runs may stand beside one another.
fn is_earlier(inquiry: &Inquiry<'_>, (key, job): (&Key, &JobView), is_released: bool) -> bool {
    let subject = &inquiry.subject;
    if job.run == subject.run {
        return !is_due(inquiry, key) && is_of_numo(inquiry, (key, job));
    }
    !subject.node.is_empty() && !is_released && is_of_numo(inquiry, (key, job))
}

/// Whether a Job of the own run is one that is to run now. Of a rule that has passed or failed for good none is waited for.
fn is_due(inquiry: &Inquiry<'_>, key: &Key) -> bool {
    let (subject, name) = (&inquiry.subject, key.to_string());
    let rules = || inquiry.observed.rules.values().filter(|rule| !rule.is_evaluated);
    let is_over = |one: &VerdictRecord| {
        let mut rules =
            rules().filter(|rule| one.job.as_ref() == Some(&name) && rule.key.to_string() == one.rule);
        let has_failed = |rule| failed_for_good(rule, one.phase, inquiry.verdicts, one.round).is_some();
        one.round == subject.round
            && rules.any(|rule| one.outcome != numo_api::Outcome::Failure || has_failed(rule))
    };
    let is_next = |(rule, phase): (&RuleView, Phase)| {
        rule.runs_in(phase) && next_job(rule, phase, inquiry.verdicts, subject) == *key
    };
    let mut due = rules().flat_map(|rule| Phase::ALL.map(|phase| (rule, phase)));
    inquiry.verdicts.iter().any(is_over) || due.any(is_next)
}

/// Whether numo may have made a Job. Labels and annotations say nothing by themselves: whoever may create Jobs in a namespace that is
/// watched can give them to one, and would hold every node. Where numo runs Jobs of rules, they are believed if its rule may run there or a
/// turn of the node has its run; elsewhere it must have the name of an attempt.
fn is_of_numo(inquiry: &Inquiry<'_>, (key, job): (&Key, &JobView)) -> bool {
    let (subject, observed, to) = (&inquiry.subject, inquiry.observed, key.namespace.as_str());
    let from = job.rule.split_once('/').map_or("", |(from, _)| from);
    if place::runs_jobs(observed, to) {
        return job.run == subject.run
            || rule_of(inquiry, job).is_some_and(|_| place::takes_jobs(observed, from, to))
            || turns(inquiry, job).next().is_some();
    }
    place::takes_jobs(observed, from, to) && is_named(inquiry, (key, job))
}

/// The turns of the node in the run of a Job, of whatever owner. A stranger can write none.
fn turns<'a>(inquiry: &Inquiry<'a>, job: &JobView) -> impl Iterator<Item = &'a ChangeView> {
    let (node, run) = (inquiry.subject.node, job.run.as_str());
    let journals = inquiry.observed.journals();
    journals.filter(move |change| {
        change.spec.node_name == node && change.spec.target.run_id == run && !change.is_word()
    })
}

/// Whether a Job has the name of an attempt of this run, or of a turn of the node: nobody knows that who does not know the uids of owner and
/// node.
fn is_named(inquiry: &Inquiry<'_>, (key, job): (&Key, &JobView)) -> bool {
    let subject = &inquiry.subject;
    let own = (subject.owner_uid, subject.node_uid, subject.round);
    let own = (job.run == subject.run).then_some(own);
    let of_turns = turns(inquiry, job).map(|change| {
        let spec = &change.spec;
        (
            spec.owner_ref.uid.as_str(),
            spec.node_uid.as_str(),
            change.status.attempt,
        )
    });
    own.into_iter()
        .chain(of_turns)
        .any(|(owner_uid, node_uid, last)| {
            let rounds = last.saturating_sub(COMPARED).max(1)..=last.max(1);
            let mut attempts = rounds.flat_map(|round| (1..=COMPARED).map(move |one| (round, one)));
            attempts.any(|(round, attempt)| {
                Phase::ALL.iter().any(|phase| {
                    let identity = JobIdentity {
                        owner_uid,
                        node_uid,
                        run: &job.run,
                        rule: &job.rule,
                        phase: *phase,
                        round,
                        attempt,
                    };
                    names::is_job_of(&key.name, &identity)
                })
            })
        })
}

/// The rule that a Job names, if there is one.
fn rule_of<'a>(inquiry: &Inquiry<'a>, job: &JobView) -> Option<&'a RuleView> {
    let (namespace, name) = job.rule.split_once('/')?;
    inquiry.observed.rules.get(&Key::new(namespace, name))
}
