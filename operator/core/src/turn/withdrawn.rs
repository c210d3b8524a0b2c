//! A rule that was asked for a node, and that nobody names any more: its MutexBinding, or the field that named it, was taken away in
//! mid-turn. What it would have said is not known, so nothing is let go on its silence. Nothing here writes.

use crate::{
    key::Key,
    observed::{ChangeView, NodeView, RuleView},
    rules::{self, BEFORE_RELEASE},
    turn::phases::Phases,
    why::Why,
};
use numo_api::{Outcome, Phase, Reason};
use std::collections::BTreeSet;

/// Why the node is not let go: a rule that it was asked of in this attempt has not passed, and is named no more.
pub(crate) fn withdrawn(phases: &Phases<'_>, (node, change): (&NodeView, &ChangeView)) -> Option<Why> {
    let named: BTreeSet<&Key> = phases.rules.iter().map(|(key, _)| key).collect();
    let (rule, phase) = journaled(phases, change, &named).or_else(|| runs(phases, (node, change), &named))?;
    let message = format!(
        "MutexRule {rule} was evaluated for Node {} in phase {}, has not passed, and no owner or MutexBinding names it for the node any more: \
         name it again, or `numo retry {0}` evaluates the rules that are named now, `numo skip {0}` leaves the node out",
        node.name,
        phase.name()
    );
    Some(Why::new(Reason::RuleWithdrawn, message))
}

/// A rule that the journal tells of.
fn journaled(phases: &Phases<'_>, change: &ChangeView, named: &BTreeSet<&Key>) -> Option<(Key, Phase)> {
    let status = &change.status;
    let attempt = status.attempt.max(1);
    let verdicts = status.verdicts.iter();
    let verdicts = verdicts.map(|verdict| (&verdict.rule, verdict.phase, verdict.round));
    let waits = status.rule_waits.iter();
    let mut asked = verdicts.chain(waits.map(|wait| (&wait.rule, wait.phase, wait.round)));
    asked.find_map(|(rule, phase, round)| {
        let (namespace, name) = rule.split_once('/')?;
        let key = Key::new(namespace, name);
        if round != attempt || !BEFORE_RELEASE.contains(&phase) || named.contains(&key) {
            return None;
        }
        // Of a rule that is gone nobody knows whether it had more to say.
        let seen = phases.observed.rules.get(&key);
        let is_done = seen.is_some_and(|rule| has_passed(rule, change, attempt));
        (!is_done).then_some((key, phase))
    })
}

/// Whether a rule has said all that it has to say before the release.
fn has_passed(rule: &RuleView, change: &ChangeView, attempt: i32) -> bool {
    let mut phases = BEFORE_RELEASE.into_iter().filter(|phase| rule.runs_in(*phase));
    phases.all(|phase| {
        let last = rules::last_word(&change.status.verdicts, &rule.key, phase, attempt);
        last.is_some_and(|verdict| verdict.outcome != Outcome::Failure)
    })
}

/// A rule whose Job runs, and that has no verdict yet.
fn runs(
    phases: &Phases<'_>,
    (node, change): (&NodeView, &ChangeView),
    named: &BTreeSet<&Key>,
) -> Option<(Key, Phase)> {
    let observed = phases.observed;
    let run = &change.spec.target.run_id;
    let mut jobs = observed.jobs.values();
    if !jobs.any(|job| job.run == *run && job.ended.is_none() && job.deleting.is_none()) {
        return None;
    }
    let subject = phases.subject(node, change);
    let others = observed.rules.values().filter(|rule| !named.contains(&rule.key));
    let mut asked = others.flat_map(|rule| BEFORE_RELEASE.into_iter().map(move |phase| (rule, phase)));
    asked.find_map(|(rule, phase)| {
        if rule.is_asked || !rule.runs_in(phase) {
            return None;
        }
        let job = rules::next_job(rule, phase, &change.status.verdicts, &subject);
        let view = observed.jobs.get(&job)?;
        (view.ended.is_none() && view.deleting.is_none()).then(|| (rule.key.clone(), phase))
    })
}
