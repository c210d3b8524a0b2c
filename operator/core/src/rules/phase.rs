//! How the rules of one phase come along, one after the other.

use super::{
    attempt::Attempt,
    evaluation, inline,
    inquiry::{Inquiry, Progress},
    job,
    verdicts::{failed_for_good, last_word},
};
use crate::{key::Key, observed::RuleView, why::Why};
use numo_api::{Outcome, Phase, Reason};

/// The phases that a node passes before its release.
pub const BEFORE_RELEASE: [Phase; 2] = [Phase::Pre, Phase::PreRelease];

/// Whether one of these rules runs in the phase.
pub fn any_runs_in(rules: &[(Key, Option<&RuleView>)], phase: Phase) -> bool {
    let mut known = rules.iter().filter_map(|(_, rule)| *rule);
    known.any(|rule| rule.runs_in(phase))
}

/// The rules of a turn. An owner that is left waits for none that is gone: nobody may ever make it again.
pub fn of_turn<'a>(
    rules: impl IntoIterator<Item = (Key, Option<&'a RuleView>)>,
    is_left: bool,
) -> Vec<(Key, Option<&'a RuleView>)> {
    let rules = rules.into_iter();
    rules.filter(|(_, rule)| rule.is_some() || !is_left).collect()
}

/// How the rules of one phase come along.
pub fn progress(rules: &[(Key, Option<&RuleView>)], phase: Phase, inquiry: &Inquiry<'_>) -> Progress {
    for (key, rule) in rules {
        let Some(rule) = rule else {
            let message = format!("{}, which the run refers to", inline::missing(key));
            return Progress::Wait(Why::new(Reason::RuleNotFound, message), None);
        };
        if !rule.runs_in(phase) {
            continue;
        }
        match one(rule, phase, inquiry) {
            Progress::Passed => {}
            other => return other,
        }
    }
    Progress::Passed
}

fn one(rule: &RuleView, phase: Phase, inquiry: &Inquiry<'_>) -> Progress {
    let (verdicts, round) = (inquiry.verdicts, inquiry.subject.round);
    let last = last_word(verdicts, &rule.key, phase, round);
    if last.is_some_and(|verdict| verdict.outcome != Outcome::Failure) {
        return Progress::Passed;
    }
    if let Some((policy, why)) = failed_for_good(rule, phase, verdicts, round) {
        return Progress::Failed(policy, why);
    }
    next(rule, phase, inquiry)
}

/// How the attempt comes along whose verdict is next.
pub(super) fn next(rule: &RuleView, phase: Phase, inquiry: &Inquiry<'_>) -> Progress {
    let attempt = Attempt::next(rule, phase, inquiry.verdicts, &inquiry.subject);
    if rule.is_evaluated {
        evaluation::progress(&attempt, inquiry)
    } else {
        job::progress(&attempt, inquiry)
    }
}
