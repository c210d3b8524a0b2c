//! Whether a MutexRule or a MutexTarget is valid, as its status says.

use super::explanation::Explanation;
use crate::{
    cli::{live, named::Named, remedy},
    shell::project::Kind,
};
use numo_api::{Condition, Reason, conditions::types};
use numo_core::observed::Key;

/// The conditions that say the same as `Ready` does, for tools.
const ONCE: [&str; 4] = [
    types::VALID_CONFIG,
    types::READY,
    types::RECONCILING,
    types::STALLED,
];

pub(super) fn verdict_of(kind: Kind, key: &Key, conditions: &[Condition]) -> Explanation {
    let find = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    let object = Named::of(kind, key);
    let Some(valid) = find(types::VALID_CONFIG) else {
        return Explanation {
            phase: Some("not judged yet; is numo running?".to_owned()),
            ..Explanation::of(object, (None, "it has no condition ValidConfig".to_owned()))
        };
    };
    let is_valid = valid.status == "True";
    // ValidConfig has the words of the replaced operator before the cause; Ready has the cause alone.
    let told = find(types::READY).unwrap_or(valid);
    let reason = told.reason.as_deref().and_then(Reason::named);
    let message = match (is_valid, reason) {
        (true, Some(reason)) => reason.meaning().to_owned(),
        _ => told.message.clone().unwrap_or_default(),
    };
    let mut one = Explanation {
        phase: Some(if is_valid { "valid" } else { "not valid" }.to_owned()),
        ..Explanation::of(object, (reason, message))
    };
    if !is_valid {
        one.commands = mend(one.object.kind, key, reason, &one.message);
    }
    for other in conditions
        .iter()
        .filter(|other| !ONCE.contains(&other.type_.as_str()))
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

/// What makes it valid: the right that the message names, or an edit.
fn mend(kind: &str, key: &Key, reason: Option<Reason>, message: &str) -> Vec<String> {
    let namespace = message.strip_prefix("spec.jobNamespace ");
    let namespace = namespace
        .and_then(|rest| rest.split_once(':'))
        .map(|(name, _)| name);
    let own = live::settings().namespace;
    let invite = namespace
        .filter(|_| reason == Some(Reason::JobsForbidden) && message.contains("numo-rule-jobs"))
        .map(|place| remedy::invite("numo-rule-jobs", place, &own));
    let edit = format!(
        "kubectl -n {} edit {} {}",
        key.namespace,
        kind.to_lowercase(),
        key.name
    );
    invite.into_iter().chain([edit]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(message: &str, reason: Reason, is_valid: bool) -> Explanation {
        let condition = |type_: &str, status: bool, message: &str| Condition {
            type_: type_.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: Some(reason.name().to_owned()),
            message: Some(message.to_owned()),
            ..Condition::default()
        };
        let whole = format!("The Host/Token/Job combination is not valid. {message}");
        let all = [
            condition(types::VALID_CONFIG, is_valid, &whole),
            condition(types::READY, is_valid, message),
            condition(types::STALLED, !is_valid, message),
            condition(types::FETCHED, true, "The component was fetched."),
        ];
        verdict_of(Kind::MutexRule, &Key::new("team", "check"), &all)
    }

    #[test]
    fn one_cause_is_told_once_with_what_mends_it() {
        let message = "spec.jobNamespace shop: numo may not create Jobs there, wanted a RoleBinding to ClusterRole numo-rule-jobs: forbidden";
        let one = told(message, Reason::JobsForbidden, false);
        assert_eq!(one.message, message);
        assert_eq!(one.chain.len(), 1, "{:?}", one.chain);
        assert_eq!(
            one.commands,
            [
                "kubectl create rolebinding numo-rule-jobs -n shop --clusterrole numo-rule-jobs --serviceaccount \
                 node-upgrade-mutex-operator:numo",
                "kubectl -n team edit mutexrule check"
            ]
        );
        let one = told("spec.jobSpec: found nothing", Reason::InvalidConfig, false);
        assert_eq!(one.commands, ["kubectl -n team edit mutexrule check"]);
        let one = told(
            "The Host/Token/Job combination is valid.",
            Reason::ValidConfig,
            true,
        );
        assert_eq!(one.message, "The object is valid.");
        assert_eq!(one.commands, Vec::<String>::new());
    }
}
