//! Rules that stand in the run that they gate (`spec.rules`): how they are named, and what is wrong with them. Decisions see each as a
//! MutexRule in the run's namespace, `RUN_RULE`: no object has an underscore in its name, so none is taken for another. Nothing here
//! reads or writes anything.

use crate::{
    key::Key,
    observed::{Observed, RuleView, RunConfigView, Validity},
    rules::wrong::unusable,
    text::clip,
    why::Why,
};
use numo_api::{InlineRuleStatus, Reason, RuleType};

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

/// The rules of a run's spec in order, and what is wrong with them.
pub(crate) fn of_run<'a>(
    run: &RunConfigView,
    observed: &'a Observed,
    problems: &mut Vec<Why>,
) -> Vec<(Key, Option<&'a RuleView>)> {
    let given = run.spec.rules.as_deref().unwrap_or_default();
    if given.len() > MOST {
        let found = given.len();
        let message = format!("spec.rules: found {found} rules, wanted {MOST} at most");
        problems.push(Why::new(Reason::InvalidField, message));
    }
    let mut rules: Vec<(Key, Option<&RuleView>)> = Vec::new();
    for (index, one) in given.iter().take(MOST).enumerate() {
        let field = format!("spec.rules[{index}]");
        let key = key(&run.key, &one.name);
        if let Some(problem) = wrong_name(&one.name) {
            problems.push(Why::new(Reason::InvalidField, format!("{field}.name: {problem}")));
            continue;
        }
        if rules.iter().any(|(known, _)| *known == key) {
            let message = format!("{field}.name: found {} twice, wanted each name once", one.name);
            problems.push(Why::new(Reason::InvalidField, message));
            continue;
        }
        if one.rule.rule_type == Some(RuleType::Wasm) || one.rule.wasm.is_some() {
            let message = format!(
                "{field}.type: found wasm, wanted kubernetes, cel or prometheus: a component has a MutexRule of its own"
            );
            problems.push(Why::new(Reason::InvalidField, message));
            continue;
        }
        let rule = observed.rules.get(&key);
        problems.extend(unusable(&field, &key, rule));
        rules.push((key, rule));
    }
    rules
}

/// What is wrong with the name of such a rule, if something is.
fn wrong_name(name: &str) -> Option<String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-');
    (!is_name).then(|| {
        format!(
            "found {:?}, wanted at most 63 lower-case letters, digits and '-', letters or digits at its ends",
            clip(name, 100)
        )
    })
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

    #[test]
    fn a_name_is_one_that_a_job_can_be_named_after() {
        let long = "x".repeat(64);
        for (name, is_name) in [
            ("backup", true),
            ("a", true),
            ("7-days", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a_b", false),
            ("a.b", false),
            ("A", false),
            ("a/b", false),
            (long.as_str(), false),
        ] {
            assert_eq!(wrong_name(name).is_none(), is_name, "{name}");
        }
    }
}
