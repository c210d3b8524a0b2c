//! MutexRule: defaults filled in, and its status.

use super::conditions::Conditions;
use jiff::Timestamp;
use numo_api::{MutexRule, MutexRuleStatus, Phase, Reason, conditions::types::VALID_CONFIG};
use numo_core::observed::{Key, RuleView, Validity};

/// Defaults of the optional fields.
const TIMEOUT_SECONDS: i64 = 3600;
const LOG_TAIL_BYTES: i32 = 2048;

/// The rule with every default filled in.
pub fn parse(rule: &MutexRule, validity: Validity) -> RuleView {
    let spec = &rule.spec;
    let meta = &rule.metadata;
    let key = Key::new(
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    );
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    RuleView {
        uid: meta.uid.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or(0),
        job_name: given(&spec.job_name).unwrap_or_else(|| key.name.clone()),
        job_namespace: given(&spec.job_namespace).unwrap_or_else(|| key.namespace.clone()),
        has_job: spec.job_spec.is_some(),
        has_clean_up_job: spec.clean_up_job_spec.is_some(),
        timeout_seconds: spec.timeout_seconds.unwrap_or(TIMEOUT_SECONDS).max(1),
        retries: spec.retries.unwrap_or(0).max(0),
        failure_policy: spec.failure_policy.unwrap_or_default(),
        phases: spec.phases.clone().unwrap_or_else(|| vec![Phase::Pre]),
        placement: spec.placement.unwrap_or_default(),
        log_tail_bytes: usize::try_from(spec.log_tail_bytes.unwrap_or(LOG_TAIL_BYTES)).unwrap_or(0),
        validity: of_itself(rule).map_or(validity, |(reason, message)| Validity::Invalid(reason, message)),
        key,
    }
}

/// Whether the text can name a namespace: it becomes part of a request's path.
pub fn is_namespace(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// What is wrong with the rule whatever the API server says.
fn of_itself(rule: &MutexRule) -> Option<(Reason, String)> {
    let spec = &rule.spec;
    if spec.job_spec.is_none() && spec.clean_up_job_spec.is_none() {
        let message = "spec.jobSpec: found nothing, wanted a batch/v1 JobSpec";
        return Some((Reason::InvalidConfig, message.to_owned()));
    }
    if let Some(namespace) = spec
        .job_namespace
        .as_ref()
        .filter(|given| !given.is_empty() && !is_namespace(given))
    {
        let message = format!(
            "field spec.jobNamespace: found {namespace:?}, wanted the name of a namespace: lower-case letters, digits and '-'"
        );
        return Some((Reason::InvalidConfig, message));
    }
    for phase in spec.phases.iter().flatten() {
        if matches!(phase, Phase::Admit | Phase::BeforeUncordon) {
            let message = format!(
                "spec.phases: found {}, wanted PreRun, Pre, PreRelease, Post, OnFailure or PostRun for a rule of type kubernetes",
                phase.name()
            );
            return Some((Reason::FieldNotServed, message));
        }
    }
    let both = spec.phases.iter().flatten().any(|phase| *phase == Phase::Post);
    if both && spec.clean_up_job_spec.is_some() && spec.job_spec.is_some() {
        let message = "spec.phases: found Post beside spec.cleanUpJobSpec, wanted only one of them to say what runs in Post";
        return Some((Reason::InvalidField, message.to_owned()));
    }
    None
}

/// The status, with the messages of the replaced operator.
pub fn status(rule: &MutexRule, view: &RuleView, now: Timestamp) -> MutexRuleStatus {
    let empty = MutexRuleStatus::default();
    let old = rule.status.as_ref().unwrap_or(&empty);
    let generation = rule.metadata.generation.unwrap_or(0);
    let mut conditions = Conditions::over(&old.conditions, generation, now);
    match &view.validity {
        Validity::Valid => {
            let message = "The Host/Token/Job combination is valid.";
            conditions.set(VALID_CONFIG, true, "ValidConfig", message);
            conditions.kstatus(true, false, false, Reason::ValidConfig.name(), message);
        }
        Validity::Unknown => {
            let message = "the API server has not judged the Job yet";
            conditions.kstatus(false, true, false, Reason::Validating.name(), message);
        }
        Validity::Invalid(reason, why) => {
            let message = format!("The Host/Token/Job combination is not valid. {why}");
            conditions.set(VALID_CONFIG, false, "InvalidConfig", message);
            conditions.kstatus(false, false, true, reason.name(), why);
        }
    }
    MutexRuleStatus {
        observed_generation: Some(generation),
        conditions: conditions.done(),
    }
}
