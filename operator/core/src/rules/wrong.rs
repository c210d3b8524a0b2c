//! What is wrong with a rule that an owner names.

use super::inline;
use crate::{
    key::Key,
    observed::{RuleView, Validity},
    why::Why,
};
use numo_api::{Phase, Reason};

/// Phases in which a rule can still keep a node from being disrupted.
const BEFORE_DISRUPTION: [Phase; 4] = [Phase::Admit, Phase::PreRun, Phase::Pre, Phase::PreRelease];

/// What is wrong with a rule that a field names, whatever phases it is to run in.
pub fn unusable(field: &str, key: &Key, rule: Option<&RuleView>) -> Option<Why> {
    Some(match rule.map(|rule| &rule.validity) {
        None => {
            let message = format!("{field}: {}", inline::missing(key));
            Why::new(Reason::RuleNotFound, message)
        }
        Some(Validity::Invalid(_, message)) => {
            let message = format!("{field}: {} is not valid: {message}", inline::named(key));
            Why::new(Reason::RuleInvalid, message)
        }
        Some(Validity::Unknown) => {
            let unseen = rule.and_then(|rule| rule.unseen.as_ref());
            let message = format!(
                "{field}: {} has not been judged by the API server yet{}",
                inline::named(key),
                unseen.map_or_else(String::new, |words| format!(": {words}"))
            );
            Why::new(Reason::Validating, message)
        }
        Some(Validity::Valid) => return None,
    })
}

/// The same, for an owner of a kind that asks rules in these phases.
pub fn wrong(
    field: &str,
    key: &Key,
    rule: Option<&RuleView>,
    (phases, kind): (&[Phase], &str),
) -> Option<Why> {
    if let Some(why) = unusable(field, key, rule) {
        return Some(why);
    }
    let runs_in = |phase: &Phase| rule.is_some_and(|rule| rule.runs_in(*phase));
    // A gate that only looks back once the node was disrupted is none.
    let gates = BEFORE_DISRUPTION.iter().any(runs_in);
    let mut served = phases
        .iter()
        .filter(|phase| !gates || BEFORE_DISRUPTION.contains(phase));
    if served.any(runs_in) {
        return None;
    }
    let which = if gates {
        "none before the disruption"
    } else {
        "none"
    };
    let message = format!(
        "{field}: MutexRule {key} spec.phases: found {which} that a {kind} evaluates, wanted one such as Pre"
    );
    Some(Why::new(Reason::FieldNotServed, message))
}
