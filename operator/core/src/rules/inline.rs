//! Rules that stand in the run that they gate (`spec.rules`): how they are named, and what is said of them. Decisions see each as a
//! MutexRule in the run's namespace, `RUN_RULE`: no object has an underscore in its name, so none is taken for another. Nothing here
//! reads or writes anything.

use crate::{
    key::Key,
    observed::{RuleView, Validity},
    text::clip,
};
use numo_api::InlineRuleStatus;

/// What parts the name of the run from that of the rule.
const PART: char = '_';
/// Rules that one run may have in its spec.
pub const MOST: usize = 16;
/// Longest message of a status (characters), as its schema has it.
const WORDS: usize = 1024;

/// The key of a rule of this run.
pub fn key(run: &Key, name: &str) -> Key {
    Key::new(run.namespace.clone(), format!("{}{PART}{name}", run.name))
}

/// Whether this is the key of a rule that stands in a run, which no MutexRule has.
pub fn is_inline(key: &Key) -> bool {
    key.name.contains(PART)
}

/// The run of a rule that stands in one, and the rule's own name.
pub fn parts(rule: &Key) -> Option<(Key, &str)> {
    let (run, name) = rule.name.split_once(PART)?;
    Some((Key::new(rule.namespace.clone(), run), name))
}

/// How people find a rule: a MutexRule by its key, another by its run.
pub fn named(rule: &Key) -> String {
    parts(rule).map_or_else(
        || format!("MutexRule {rule}"),
        |(run, name)| format!("rule {name} of MutexRunConfig {run}"),
    )
}

/// What a rule that is not there lacks.
pub fn missing(rule: &Key) -> String {
    parts(rule).map_or_else(
        || format!("there is no MutexRule {rule}"),
        |(run, name)| format!("spec.rules of MutexRunConfig {run} has no rule {name}"),
    )
}

/// What is known of the rules that stand in a run, for its status. One that has not been judged yet is not among them.
pub(crate) fn statuses<'a>(rules: impl Iterator<Item = &'a RuleView>) -> Vec<InlineRuleStatus> {
    let judged = rules.filter_map(|rule| {
        let (_, name) = parts(&rule.key)?;
        let wrong = match &rule.validity {
            Validity::Unknown => return None,
            Validity::Valid => None,
            Validity::Invalid(reason, message) => Some((reason.name(), clip(message, WORDS))),
        };
        Some(InlineRuleStatus {
            name: name.to_owned(),
            edition: rule.edition(),
            ready: wrong.is_none(),
            reason: wrong.as_ref().map(|(reason, _)| (*reason).to_owned()),
            message: wrong.map(|(_, message)| message),
        })
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mutex_rule_has_the_key_of_a_rule_in_a_run() {
        let run = Key::new("numo", "upgrade.of-workers");
        let rule = key(&run, "backup");
        assert_eq!(parts(&rule), Some((run, "backup")));
        assert_eq!(
            named(&rule),
            "rule backup of MutexRunConfig numo/upgrade.of-workers"
        );
        let other = Key::new("numo", "upgrade.of-workers-backup");
        assert!(is_inline(&rule) && !is_inline(&other));
        assert_eq!(named(&other), "MutexRule numo/upgrade.of-workers-backup");
        // numo's own check of workloads is none of either.
        assert!(!is_inline(&crate::ready::key()));
    }
}
