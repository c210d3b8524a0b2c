//! The wasm runner: from a MutexRule to what its component is asked with, and from what came of it to an answer.
//! It reads and writes nothing, and asks nobody.

use numo_api::{MutexRule, Phase, Reason, SignatureMode, SignaturePolicy, Want, WasmRule, WasmStatus};
use numo_core::{
    action::{Earlier, EarlierWord, EvaluationRequest},
    observed::{RuleAnswer, RuleWords},
    rules::clip,
};
use numo_plugin::{
    Input, ObjectRef, Refused, Rule, Terms, Verdict,
    oci::Reference,
    services::HistoryEntry,
    signature::{Identity, Mode, Policy, PublicKey},
    spec::{self, phase},
    verdict::{Node, Report, Severity},
};
use std::sync::Arc;

pub use numo_plugin::spec::config_json;

/// What is wrong, by its reason.
pub type Fault = (Reason, String);

/// What was found out about a rule's component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// Whether it could be fetched.
    pub fetched: Result<(), Fault>,
    /// Whether somebody whom the policies name has signed it; none where nobody asks.
    pub verified: Option<Result<(), Fault>>,
    /// Whether it could be compiled and is a rule, once it was fetched.
    pub compiled: Option<Result<(), Fault>>,
    /// What it is.
    pub status: Option<WasmStatus>,
}

impl Examined {
    /// It could not be fetched.
    pub fn unfetched(fault: Fault) -> Self {
        Self {
            fetched: Err(fault),
            verified: None,
            compiled: None,
            status: None,
        }
    }

    /// It was fetched from this image, and may not be compiled.
    pub fn unverified(image: &str, fault: Fault) -> Self {
        Self {
            fetched: Ok(()),
            verified: Some(Err(fault)),
            compiled: None,
            status: Some(WasmStatus {
                image: Some(image.to_owned()),
                ..WasmStatus::default()
            }),
        }
    }
}

/// What one MutexRule says about how its component is asked. `tenant` is the rule's namespace.
///
/// Errors: a grant or limit has a value that cannot be; the text names the field.
pub fn terms(wasm: &WasmRule, tenant: &str) -> Result<Terms, Fault> {
    spec::terms(wasm, tenant).map_err(|message| (Reason::InvalidConfig, message))
}

/// `spec.wasm.image`, read.
pub fn reference(spec: &WasmRule) -> Result<Reference, Fault> {
    let text = spec.image.as_deref().unwrap_or_default();
    text.parse::<Reference>()
        .map_err(|error| (Reason::InvalidReference, format!("spec.wasm.image: {error}")))
}

/// `spec.wasm.signature`, read.
pub fn policy(asked: &SignaturePolicy) -> Result<Policy, Fault> {
    let invalid = |message: String| (Reason::InvalidConfig, format!("spec.wasm.signature{message}"));
    let keys = asked.keys.iter().flatten().enumerate().map(|(index, pem)| {
        PublicKey::from_pem(pem).map_err(|error| invalid(format!(".keys[{index}]: {error}")))
    });
    let identities = asked.identities.iter().flatten().map(|identity| Identity {
        issuer: identity.issuer.clone(),
        subject: identity.subject.clone(),
    });
    let policy = Policy {
        keys: keys.collect::<Result<_, _>>()?,
        identities: identities.collect(),
        repository: asked.repository.clone().filter(|name| !name.is_empty()),
        annotations: asked.annotations.clone().unwrap_or_default(),
        mode: match asked.mode.unwrap_or_default() {
            SignatureMode::Enforce => Mode::Enforce,
            SignatureMode::Warn => Mode::Warn,
        },
    };
    if policy.keys.is_empty() && policy.identities.is_empty() {
        return Err(invalid(
            ": found neither keys nor identities, wanted one at least".to_owned(),
        ));
    }
    Ok(policy)
}

/// What a loaded component is.
pub fn describe(rule: &Rule, terms: &Terms) -> WasmStatus {
    let inspection = rule.inspection();
    let imports = inspection.imports.iter().map(|interface| {
        let text = format!("{}/{}@{}", interface.package, interface.name, interface.version);
        text.chars().take(256).collect::<String>()
    });
    let wants = rule.description().wants.iter().map(|want| Want {
        capability: want.capability.clone(),
        target: want.target.clone(),
        purpose: want.purpose.clone(),
        optional: want.optional,
    });
    let missing = rule.missing_grants(&terms.grants);
    let missing = missing.iter().map(|missing| Want {
        capability: missing.capability.clone(),
        target: missing.target.clone(),
        purpose: missing.purpose.clone(),
        optional: missing.optional,
    });
    WasmStatus {
        image: None,
        version: None,
        highest: None,
        signer: None,
        digest: Some(rule.digest().to_owned()),
        size: i64::try_from(inspection.size).ok(),
        contract_version: Some(clip(&inspection.contract.to_string(), 64)),
        imports: imports.take(64).collect(),
        wants: wants.take(64).collect(),
        missing_grants: missing.take(64).collect(),
    }
}

/// What is wrong between a MutexRule and its component, as far as it can be known without asking it.
pub fn mismatch(rule: &MutexRule, component: &Rule, terms: &Terms) -> Result<(), Fault> {
    component
        .limits(&terms.limits)
        .map_err(|error| (Reason::InvalidConfig, format!("spec.wasm.limits: {error}")))?;
    let knows = &component.description().phases;
    for asked in rule.spec.phases.as_deref().unwrap_or(&[Phase::Pre]) {
        if !knows.iter().any(|known| known == phase(*asked)) {
            let message = format!(
                "spec.phases: found {}, wanted one that the rule {} knows: {}",
                asked.name(),
                component.description().name,
                knows.join(", ")
            );
            return Err((Reason::PhaseUnsupported, message));
        }
    }
    let missing = component.missing_grants(&terms.grants);
    let required: Vec<String> = missing
        .iter()
        .filter(|missing| !missing.optional)
        .map(ToString::to_string)
        .collect();
    if required.is_empty() {
        return Ok(());
    }
    let message = format!("the rule needs spec.wasm.{}", required.join("; spec.wasm."));
    Err((Reason::GrantMissing, message))
}

/// What the component is asked.
pub fn input(request: &EvaluationRequest, wasm: &WasmRule, node_json: Option<String>) -> Input {
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    Input {
        run: request.run.clone(),
        owner: ObjectRef {
            api_version: request.owner.kind.api_version(),
            kind: request.owner.kind.name().to_owned(),
            namespace: given(&request.owner.key.namespace),
            name: request.owner.key.name.clone(),
        },
        phase: phase(request.phase).to_owned(),
        attempt: u32::try_from(request.attempt).unwrap_or(1),
        node: node_json.map(|object_json| Node {
            name: request.node.clone(),
            uid: request.node_uid.clone(),
            object_json,
        }),
        pool: given(&request.pool),
        from_version: given(&request.from_version),
        to_version: given(&request.to_version),
        config_json: config_json(wasm),
        attributes: Vec::new(),
    }
}

/// What the rule said before, as it reads it back.
pub fn history(request: &EvaluationRequest) -> Arc<[HistoryEntry]> {
    let entries = request.history.iter().filter_map(|earlier| {
        Some(HistoryEntry {
            run: request.run.clone(),
            phase: phase(earlier.phase).to_owned(),
            attempt: u32::try_from(earlier.attempt).unwrap_or(1),
            at: earlier.at.parse().ok()?,
            verdict: word(earlier).to_owned(),
            reason: earlier.reason.clone(),
            summary: earlier.summary.clone(),
            data_json: earlier.data.clone(),
        })
    });
    entries.collect()
}

/// `pass`, `wait`, `block`, or `error` where it came to no verdict.
pub(super) fn word(earlier: &Earlier) -> &'static str {
    let of_evaluation = |reason: &&Reason| reason.name() == earlier.reason && reason.is_of_evaluation();
    match earlier.word {
        EarlierWord::Pass => "pass",
        EarlierWord::Wait => "wait",
        EarlierWord::Block if Reason::ALL.iter().any(|reason| of_evaluation(&reason)) => "error",
        EarlierWord::Block => "block",
    }
}

/// What a verdict means for the node.
pub fn answer(outcome: Result<Verdict, Refused>) -> RuleAnswer {
    let words = |report: &Report| RuleWords {
        reason: report.reason.clone(),
        summary: report.summary.clone(),
        data: report.data_json.clone(),
        found: found(report),
    };
    match outcome {
        Ok(Verdict::Pass(report)) => RuleAnswer::Pass(words(&report)),
        Ok(Verdict::Block(report)) => RuleAnswer::Block(words(&report)),
        Ok(Verdict::Wait {
            report,
            retry_after,
            progress,
        }) => {
            let mut words = words(&report);
            if let Some(percent) = progress {
                let gap = if words.found.is_empty() { "" } else { "; " };
                words.found = format!("{percent} % done{gap}{}", words.found);
            }
            RuleAnswer::Wait(words, i64::from(retry_after))
        }
        Err(refused) => RuleAnswer::NoVerdict(reason(&refused), refused.message),
    }
}

/// What a report found that is no mere information, each with its object.
fn found(report: &Report) -> String {
    let grave = report
        .findings
        .iter()
        .filter(|finding| finding.severity != Severity::Info);
    let words = grave.map(|finding| {
        let about = finding.object.as_ref().map_or_else(String::new, |object| {
            let namespace = object.namespace.as_ref().map(|name| format!("{name}/"));
            format!(
                " {} {}{}",
                object.kind,
                namespace.unwrap_or_default(),
                object.name
            )
        });
        format!("{}{about}: {}", finding.code, finding.message)
    });
    words.collect::<Vec<_>>().join("; ")
}

/// The reason of a refusal, as users see it.
pub fn reason(refused: &Refused) -> Reason {
    let name = refused.reason.as_str();
    let found = Reason::ALL.iter().find(|reason| reason.name() == name);
    found.copied().unwrap_or(Reason::RuleError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: serde_json::Value) -> WasmRule {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_a_component_found_is_shown_with_its_wait() {
        let report: Report = serde_json::from_value(json!({
            "reason": "BudgetExhausted",
            "summary": "2 budgets",
            "findings": [
                {"code": "BudgetExhausted", "severity": "error", "message": "allows 0", "object":
                    {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "namespace": "shop", "name": "db"}},
                {"code": "Seen", "severity": "info", "message": "no matter"},
                {"code": "Late", "severity": "warning", "message": "soon", "object":
                    {"apiVersion": "v1", "kind": "Node", "name": "w1"}},
            ],
        }))
        .unwrap();
        let said = answer(Ok(Verdict::Wait {
            report,
            retry_after: 30,
            progress: Some(40),
        }));
        let RuleAnswer::Wait(words, 30) = said else {
            panic!("{said:?}")
        };
        assert_eq!(
            words.shown(),
            "BudgetExhausted: 2 budgets [40 % done; BudgetExhausted PodDisruptionBudget shop/db: allows 0; Late Node w1: soon]"
        );
    }

    #[test]
    fn every_reason_of_the_host_is_one_that_users_can_see() {
        for host in numo_plugin::Reason::ALL {
            let found = Reason::ALL.iter().find(|reason| reason.name() == host.as_str());
            let own = found.unwrap_or_else(|| panic!("{} is not declared", host.as_str()));
            assert!(*own == Reason::InvalidConfig || own.is_of_evaluation(), "{own}");
        }
    }

    #[test]
    fn what_a_signature_must_say_is_handed_on() {
        let asked = |value: serde_json::Value| policy(&serde_json::from_value(value).unwrap()).unwrap();
        let identities = json!([{"issuer": "https://issuer.example", "subject": "a@example.com"}]);
        let bound = asked(json!({
            "identities": identities, "repository": "registry.example.com/team/rule", "annotations": {"stage": "released"},
        }));
        assert_eq!(
            bound.repository.as_deref(),
            Some("registry.example.com/team/rule")
        );
        assert_eq!(
            bound.annotations.get("stage").map(String::as_str),
            Some("released")
        );
        let free = asked(json!({"identities": identities}));
        assert_eq!((free.repository, free.annotations.len()), (None, 0));
    }

    #[test]
    fn grants_and_limits_are_read_as_the_host_has_them() {
        let wasm = of(json!({
            "grants": {
                "kubernetes": [{"apiVersion": "v1", "kind": "Pod", "namespaces": ["shop"]}],
                "http": [{"host": "status.example.com", "port": 8443, "addresses": ["10.0.0.0/8"]}],
                "prometheus": {},
            },
            "limits": {"evaluationSeconds": 10, "memory": "32Mi", "hostBytes": "1024"},
        }));
        let terms = terms(&wasm, "team").unwrap();
        assert_eq!(terms.grants.kubernetes[0].namespaces, ["shop"]);
        assert_eq!(terms.grants.http[0].effective_port(), 8443);
        assert!(terms.grants.prometheus.is_some());
        assert_eq!(terms.limits.memory_bytes, Some(32 << 20));
        assert_eq!(terms.limits.host_bytes, Some(1024));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_field() {
        for (value, field) in [
            (json!({"limits": {"memory": "much"}}), "spec.wasm.limits: memory"),
            (
                json!({"grants": {"http": [{"host": "a", "addresses": ["nowhere"]}]}}),
                "spec.wasm.grants:",
            ),
        ] {
            let (reason, message) = terms(&of(value), "team").unwrap_err();
            assert_eq!(reason, Reason::InvalidConfig);
            assert!(message.starts_with(field), "{message}");
        }
    }
}
