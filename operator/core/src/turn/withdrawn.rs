//! A rule that was asked for a node, and is asked no more: its MutexBinding, or the field that named it, was taken away in mid-turn, or its
//! phase was taken out of it. What it would have said is not known, so nothing is let go on its silence. Nothing here writes.

use crate::{
    key::Key,
    names,
    observed::{ChangeView, NodeView, RuleView},
    rules::{self, BEFORE_RELEASE},
    turn::phases::Phases,
    why::Why,
};
use numo_api::{Outcome, Phase, Reason};
use std::collections::BTreeMap;

/// The rules that are named now.
type Named<'a> = BTreeMap<&'a Key, Option<&'a RuleView>>;

/// Why the node is not let go: a rule that it was asked of in this attempt has not passed, and is not asked any more.
pub(crate) fn withdrawn(phases: &Phases<'_>, (node, change): (&NodeView, &ChangeView)) -> Option<Why> {
    let named: Named<'_> = phases.rules.iter().map(|(key, rule)| (key, *rule)).collect();
    let (rule, phase) = journaled(phases, change, &named).or_else(|| runs(phases, (node, change), &named))?;
    let (name, phase) = (&node.name, phase.name());
    let what = if named.contains_key(&rule) {
        format!("its spec.phases has {phase} no more: put that back")
    } else {
        "no owner or MutexBinding names it for the node any more: name it again".to_owned()
    };
    let message = format!(
        "MutexRule {rule} was evaluated for Node {name} in phase {phase}, has not passed, and {what}, or `numo retry {name}` evaluates the \
         rules that are named now, `numo skip {name}` leaves the node out"
    );
    Some(Why::new(Reason::RuleWithdrawn, message))
}

/// Whether a rule is asked in this phase now. One that is gone is waited for.
fn is_asked(named: &Named<'_>, rule: &Key, phase: Phase) -> bool {
    let found = named.get(rule);
    found.is_some_and(|rule| rule.is_none_or(|rule| rule.runs_in(phase)))
}

/// A rule that the journal tells of.
fn journaled(phases: &Phases<'_>, change: &ChangeView, named: &Named<'_>) -> Option<(Key, Phase)> {
    let status = &change.status;
    let attempt = status.attempt.max(1);
    let verdicts = status.verdicts.iter();
    let verdicts = verdicts.map(|verdict| (&verdict.rule, verdict.phase, verdict.round));
    let waits = status.rule_waits.iter();
    let mut asked = verdicts.chain(waits.map(|wait| (&wait.rule, wait.phase, wait.round)));
    asked.find_map(|(rule, phase, round)| {
        let (namespace, name) = rule.split_once('/')?;
        let key = Key::new(namespace, name);
        if round != attempt || !BEFORE_RELEASE.contains(&phase) || is_asked(named, &key, phase) {
            return None;
        }
        let passed = |phase| {
            let last = rules::last_word(&status.verdicts, &key, phase, attempt);
            last.is_some_and(|verdict| verdict.outcome != Outcome::Failure)
        };
        // Of a rule that is gone nobody knows whether it had more to say; of one that is named its other phases are asked.
        let is_whole = |rule: &RuleView| {
            let mut phases = BEFORE_RELEASE.into_iter();
            named.contains_key(&key) || phases.all(|phase| !rule.runs_in(phase) || passed(phase))
        };
        let is_done = passed(phase) && phases.observed.rules.get(&key).is_some_and(is_whole);
        (!is_done).then_some((key, phase))
    })
}

/// A rule whose Job runs, or has failed, and that has no verdict yet.
fn runs(
    phases: &Phases<'_>,
    (node, change): (&NodeView, &ChangeView),
    named: &Named<'_>,
) -> Option<(Key, Phase)> {
    let (observed, status) = (phases.observed, &change.status);
    if observed.jobs.are_complete() {
        return None;
    }
    let run = &change.spec.target.run_id;
    let is_judged = |job: &Key| {
        let (job, mut verdicts) = (job.to_string(), status.verdicts.iter());
        verdicts.any(|verdict| verdict.job.as_deref() == Some(job.as_str()))
    };
    let subject = phases.subject(node, change);
    let rules = observed.rules.values();
    let mut asked = rules.flat_map(|rule| BEFORE_RELEASE.into_iter().map(move |phase| (rule, phase)));
    asked.find_map(|(rule, phase)| {
        if is_asked(named, &rule.key, phase) {
            return None;
        }
        let job = rules::next_job(rule, phase, &status.verdicts, &subject);
        let mut jobs = observed.jobs.of_attempt(names::attempt_of(&job.name)?);
        jobs.any(|(key, job)| job.run == *run && !is_judged(key))
            .then(|| (rule.key.clone(), phase))
    })
}
