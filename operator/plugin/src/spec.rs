//! What `spec.wasm` of a MutexRule says, as the host takes it. It reads and writes nothing: the operator and the rule
//! author's toolkit ask a component under the same terms because both take them from here.

use crate::{grants::Grants, limits::RuleLimits};
use numo_api::{Phase, WasmRule};
use std::{collections::BTreeSet, sync::Arc};

/// What one MutexRule says about how its rule is asked.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Whose rule it is, usually its namespace: rules of one never keep those of others from being asked.
    pub tenant: String,
    /// What it lends.
    pub grants: Arc<Grants>,
    /// What it asks of limits.
    pub limits: RuleLimits,
}

/// What one MutexRule says about how its component is asked. `tenant` is the rule's namespace.
///
/// Errors: a grant or limit has a value that cannot be; the text names the field.
pub fn terms(wasm: &WasmRule, tenant: &str) -> Result<Terms, String> {
    let wrong = |field: &str, error: &dyn std::fmt::Display| format!("spec.wasm.{field}: {error}");
    // Both sides are the same on the wire; the schema bounds one, the host reads the other.
    let grants = serde_json::to_value(wasm.grants.clone().unwrap_or_default())
        .and_then(serde_json::from_value::<Grants>)
        .map_err(|error| wrong("grants", &error))?;
    let mut servers = BTreeSet::new();
    for (index, grant) in grants.http.iter().enumerate() {
        // The first would count alone, and say nothing of what the second was for.
        let server = (
            grant.scheme.as_str(),
            grant.host.to_lowercase(),
            grant.effective_port(),
        );
        if !servers.insert(server) {
            let field = format!("grants.http[{index}]");
            return Err(wrong(
                &field,
                &"found a server twice, wanted addresses and credentials in one grant",
            ));
        }
    }
    let asked = wasm.limits.clone().unwrap_or_default();
    Ok(Terms {
        tenant: tenant.to_owned(),
        grants: Arc::new(grants),
        limits: limits(&asked).map_err(|error| wrong("limits", &error))?,
    })
}

/// What a MutexRule asks of limits, as the host has them.
///
/// Errors: a size that is none; the text names the field.
pub fn limits(asked: &numo_api::RuleLimits) -> Result<RuleLimits, String> {
    let number = |given: Option<i32>| given.map(|number| u64::try_from(number).unwrap_or(0));
    let size = |name: &str, given: &Option<String>| {
        given
            .as_deref()
            .map(|text| bytes(text).ok_or(format!("{name}: found {text:?}, wanted a size such as 64Mi")))
            .transpose()
    };
    Ok(RuleLimits {
        evaluation_seconds: number(asked.evaluation_seconds),
        memory_bytes: size("memory", &asked.memory)?,
        host_calls: number(asked.host_calls),
        host_bytes: size("hostBytes", &asked.host_bytes)?,
    })
}

/// `64Mi`, `1Gi`, or plain bytes.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// The configuration as the component gets it.
pub fn config_json(wasm: &WasmRule) -> String {
    let given = wasm.config.as_ref().filter(|config| !config.is_null());
    given.map_or_else(|| "{}".to_owned(), ToString::to_string)
}

/// A phase as the contract names it.
pub const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::PreRun => "pre-run",
        Phase::Admit => "admit",
        Phase::Pre => "pre",
        Phase::PreRelease => "pre-release",
        Phase::BeforeUncordon => "before-uncordon",
        Phase::Post => "post",
        Phase::OnFailure => "on-failure",
        Phase::PostRun => "post-run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: serde_json::Value) -> WasmRule {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_server_has_one_grant() {
        let with = |second: &str| {
            of(
                json!({"grants": {"http": [{"host": "a.example", "credentials": ["door"]}, {"host": second, "port": 443}]}}),
            )
        };
        assert!(terms(&with("b.example"), "team").is_ok());
        let message = terms(&with("A.example"), "team").unwrap_err();
        assert!(
            message.starts_with("spec.wasm.grants.http[1]: found a server twice"),
            "{message}"
        );
    }
}
