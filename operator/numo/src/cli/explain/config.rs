//! Whether a MutexRule or a MutexTarget is valid, as its status says.

use super::explanation::Explanation;
use numo_api::{Reason, conditions::types};
use numo_core::observed::Key;

pub(super) fn verdict_of(kind: &str, key: &Key, conditions: &[numo_api::Condition]) -> Explanation {
    let valid = conditions
        .iter()
        .find(|condition| condition.type_ == types::VALID_CONFIG);
    let object = format!("{kind} {key}");
    let Some(condition) = valid else {
        return Explanation {
            phase: Some("not judged yet; is numo running?".to_owned()),
            ..Explanation::of(object, (None, "it has no condition ValidConfig".to_owned()))
        };
    };
    let is_valid = condition.status == "True";
    let reason = condition.reason.as_deref().and_then(Reason::named);
    let mut one = Explanation {
        phase: Some(if is_valid { "valid" } else { "not valid" }.to_owned()),
        ..Explanation::of(object, (reason, condition.message.clone().unwrap_or_default()))
    };
    for other in conditions
        .iter()
        .filter(|other| other.type_ != types::VALID_CONFIG)
    {
        let message = format!(
            "{} {}: {}",
            other.type_,
            other.status,
            other.message.as_deref().unwrap_or_default()
        );
        one.link("also", message);
    }
    one
}
