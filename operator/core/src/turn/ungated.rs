//! Whether a node was begun before its rules had passed. Nothing here decides what follows.

use crate::{key::Key, observed::RuleView, rules::inline};
use numo_api::{NodeChangeStatus, Outcome, Phase, VerdictRecord};

/// The first rule, as it is now, that has not passed, of those that must pass before the release. How old a Pass is says
/// nothing: numo's own release may be journaled late, after a crash. A Pass that a journal of an earlier numo has no edition
/// of counts.
pub(crate) fn not_passed<'r>(
    rules: &'r [(Key, Option<&RuleView>)],
    status: &NodeChangeStatus,
) -> Option<(&'r Key, Phase)> {
    let is_of = |verdict: &VerdictRecord, rule: Option<&RuleView>| {
        let editions = verdict.edition.as_deref().zip(rule);
        editions.is_none_or(|(edition, rule)| edition == rule.edition())
    };
    let has_passed = |key: &Key, rule: Option<&RuleView>, phase: Phase| {
        status.verdicts.iter().any(|verdict| {
            verdict.rule == key.to_string()
                && verdict.phase == phase
                && verdict.round == status.attempt
                && verdict.outcome == Outcome::Pass
                && is_of(verdict, rule)
        })
    };
    rules.iter().find_map(|(key, rule)| {
        let phases = [Phase::Pre, Phase::PreRelease];
        let mut asked = phases
            .into_iter()
            .filter(|phase| rule.is_none_or(|rule| rule.runs_in(*phase)));
        Some((key, asked.find(|phase| !has_passed(key, *rule, *phase))?))
    })
}

/// Why a node that had its turn and was not begun by numo changes without its rules, in words.
pub(crate) fn released_by_other(rules: &[(Key, Option<&RuleView>)], status: &NodeChangeStatus) -> String {
    match not_passed(rules, status) {
        Some((rule, phase)) => {
            format!(
                "someone else released it before {} had passed in phase {}",
                inline::named(rule),
                phase.name()
            )
        }
        None => "someone else released it before its rules had passed".to_owned(),
    }
}
