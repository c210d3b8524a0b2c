//! Rules that have passed too long ago to let a node go on it.

use super::{
    attempt::next_job,
    inquiry::{Inquiry, Progress},
    phase::next,
    verdicts::{is_fresh, last_word, took_seconds},
};
use crate::{
    key::Key,
    observed::RuleView,
    time::{later, wake_by},
};
use jiff::Timestamp;
use numo_api::{Outcome, Phase};

/// The rules whose Pass of these phases is too old to let the node go on it: each is asked once more, as its next attempt.
/// None if every Pass is fresh. For the moment before a release, when all rules have passed.
///
/// Rules are asked beside one another and their new Pass is written only once nobody waits: were one asked after the
/// other, two that each take longer than a Pass stays fresh would wait for each other for ever. For the same reason Jobs
/// whose Pass would be too old by the time the slowest has ended run again beside that one. What is evaluated comes before
/// the Jobs, so that no Job runs again while a rule says Wait, and after them once more, which takes moments.
pub fn stale(
    rules: &[(Key, Option<&RuleView>)],
    phases: &[Phase],
    inquiry: &Inquiry<'_>,
) -> Option<(Phase, Progress)> {
    let mut first: Option<(Phase, Progress)> = None;
    let mut wake = None;
    for (rule, phase) in due(rules, phases, inquiry) {
        let progress = next(rule, phase, inquiry);
        if let Progress::Wait(_, Some(at)) = progress {
            wake_by(&mut wake, at);
        }
        let known = first.as_ref();
        if known.is_none_or(|(_, known)| urgency(&progress) < urgency(known)) {
            first = Some((phase, progress));
        }
    }
    if let Some((_, Progress::Wait(_, at))) = &mut first {
        *at = wake;
    }
    first
}

/// Those that are asked again now.
fn due<'r>(
    rules: &[(Key, Option<&'r RuleView>)],
    phases: &[Phase],
    inquiry: &Inquiry<'_>,
) -> Vec<(&'r RuleView, Phase)> {
    let (verdicts, subject, now) = (inquiry.verdicts, &inquiry.subject, inquiry.now);
    let all = rules.iter().filter_map(|(_, rule)| *rule);
    let all = all.flat_map(|rule| phases.iter().map(move |phase| (rule, *phase)));
    let all: Vec<(&RuleView, Phase)> = all.filter(|(rule, phase)| rule.runs_in(*phase)).collect();
    let last = |rule: &RuleView, phase| last_word(verdicts, &rule.key, phase, subject.round);
    let old = |at: Timestamp, is_evaluated: bool| -> Vec<_> {
        let of_type = all
            .iter()
            .copied()
            .filter(|(rule, _)| rule.is_evaluated == is_evaluated);
        let is_old = |(rule, phase): &(&RuleView, Phase)| {
            last(rule, *phase).is_none_or(|verdict| !is_fresh(rule, verdict, at))
        };
        of_type.filter(is_old).collect()
    };
    let (asked, jobs) = (old(now, true), old(now, false));
    let job = |rule: &RuleView, phase| {
        inquiry
            .observed
            .jobs
            .get(&next_job(rule, phase, verdicts, subject))
    };
    let runs =
        |(rule, phase): &(&RuleView, Phase)| job(rule, *phase).is_some_and(|view| view.deleting.is_none());
    if !asked.is_empty() && !jobs.iter().any(runs) {
        return asked;
    }
    let ends = jobs.iter().map(|(rule, phase)| {
        let begun = job(rule, *phase).map_or(now, |view| view.created);
        later(begun, last(rule, *phase).and_then(took_seconds).unwrap_or(0)).max(now)
    });
    ends.max().map_or_else(Vec::new, |end| old(end, false))
}

/// What is done first of what several rules come to: a failure, then questions, then waiting, then a Pass.
fn urgency(progress: &Progress) -> u8 {
    match progress {
        Progress::Failed(..) => 0,
        Progress::Record(verdict, _) if verdict.outcome != Outcome::Pass => 1,
        Progress::Evaluate(_) | Progress::Ask(_) | Progress::Start(_) | Progress::Note(..) => 2,
        Progress::Wait(..) => 3,
        Progress::Record(..) => 4,
        Progress::Passed => 5,
    }
}
