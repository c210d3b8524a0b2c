//! The rules that stand in a run (`spec.rules`), and what is wrong with them. Nothing here reads or writes anything.

use super::{
    inline::{MOST, key},
    wrong::unusable,
};
use crate::{
    key::Key,
    names::is_dns_label,
    observed::{Observed, RuleView, RunConfigView},
    text::clip,
    why::Why,
};
use numo_api::{Reason, RuleType};

/// Longest namespace and name of a rule in a journal (characters), as its schema has it.
const LONGEST: usize = 317;

/// A rule of a run, and the field that it stands in or is referred to by.
pub(crate) type Field<'a> = (String, (Key, Option<&'a RuleView>));

/// The rules of a run's spec in order, and what is wrong with them.
pub(crate) fn of_run<'a>(
    run: &RunConfigView,
    observed: &'a Observed,
    problems: &mut Vec<Why>,
) -> Vec<Field<'a>> {
    let given = run.spec.rules.as_deref().unwrap_or_default();
    if given.len() > MOST {
        let found = given.len();
        let message = format!("spec.rules: found {found} rules, wanted {MOST} at most");
        problems.push(Why::new(Reason::InvalidField, message));
    }
    let mut rules: Vec<Field<'_>> = Vec::new();
    for (index, one) in given.iter().take(MOST).enumerate() {
        let field = format!("spec.rules[{index}]");
        let key = key(&run.key, &one.name);
        let length = key.to_string().chars().count();
        let problem = if let Some(problem) = wrong_name(&one.name) {
            Some(format!(".name: {problem}"))
        } else if length > LONGEST {
            Some(format!(
                ".name: found {length} characters with the namespace and the name of the run, wanted {LONGEST} at most: journals hold no more"
            ))
        } else if rules.iter().any(|(_, (known, _))| *known == key) {
            Some(format!(".name: found {} twice, wanted each name once", one.name))
        } else if one.rule.rule_type == Some(RuleType::Wasm) || one.rule.wasm.is_some() {
            let wanted = "wanted kubernetes, cel or prometheus: a component has a MutexRule of its own";
            Some(format!(".type: found wasm, {wanted}"))
        } else {
            None
        };
        if let Some(problem) = problem {
            problems.push(Why::new(Reason::InvalidField, format!("{field}{problem}")));
            continue;
        }
        let rule = observed.rules.get(&key);
        problems.extend(unusable(&field, &key, rule));
        rules.push((field, (key, rule)));
    }
    rules
}

/// What is wrong with the name of such a rule, if something is.
pub fn wrong_name(name: &str) -> Option<String> {
    (!is_dns_label(name)).then(|| {
        format!(
            "found {:?}, wanted at most 63 lower-case letters, digits and '-', letters or digits at its ends",
            clip(name, 100)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
