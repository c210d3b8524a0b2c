//! MutexRule: defaults filled in, and its status.

use super::conditions::Conditions;
use crate::runners::{
    cel, prometheus,
    wasm::{self, Examined},
};
use jiff::Timestamp;
use numo_api::{
    MutexRule, MutexRuleSpec, MutexRuleStatus, Phase, Reason, RuleType, SeenVersion, WasmStatus,
    conditions::types::{COMPILED, DOWNGRADED, FETCHED, VALID_CONFIG, VERIFIED},
};
use numo_core::{
    names,
    observed::{Key, RuleView, RunConfigView, Validity},
    rules,
};
use std::collections::BTreeSet;

/// Defaults of the optional fields.
const TIMEOUT_SECONDS: i64 = 3600;
const LOG_TAIL_BYTES: i32 = 2048;
/// Phases that a rule may name, as its schema has it.
const PHASES: usize = 8;

/// Hex digits of what stands for a generation: as many as every reader of JSON can count.
const GENERATION_DIGITS: usize = 13;

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
        job_accounts: [&spec.job_spec, &spec.clean_up_job_spec]
            .into_iter()
            .flatten()
            .flat_map(accounts)
            .collect(),
        has_job: !is_evaluated(rule) && spec.job_spec.is_some(),
        has_clean_up_job: !is_evaluated(rule) && spec.clean_up_job_spec.is_some(),
        is_evaluated: is_evaluated(rule),
        timeout_seconds: spec.timeout_seconds.unwrap_or(TIMEOUT_SECONDS).max(1),
        pass_seconds: spec.pass_seconds.map_or_else(
            || {
                if is_evaluated(rule) {
                    rules::EVALUATED_PASS_SECONDS
                } else {
                    rules::JOB_PASS_SECONDS
                }
            },
            |seconds| seconds.max(1),
        ),
        retries: spec.retries.unwrap_or(0).max(0),
        failure_policy: spec.failure_policy.unwrap_or_default(),
        phases: spec.phases.clone().unwrap_or_else(|| vec![Phase::Pre]),
        placement: spec.placement.unwrap_or_default(),
        log_tail_bytes: usize::try_from(spec.log_tail_bytes.unwrap_or(LOG_TAIL_BYTES)).unwrap_or(0),
        validity: of_itself(rule).map_or(validity, |(reason, message)| Validity::Invalid(reason, message)),
        key,
        unseen: None,
    }
}

/// The rules that stand in a run, each as the MutexRule that it would be. An edition is told by what a rule says, since the generation of
/// the run counts every edit of it.
pub fn inline(run: &RunConfigView) -> Vec<MutexRule> {
    let given = run.spec.rules.iter().flatten().take(rules::inline::MOST);
    let mut known = BTreeSet::new();
    // What the run is refused for is no rule.
    let named =
        given.filter(|one| rules::own::wrong_name(&one.name).is_none() && known.insert(one.name.as_str()));
    let rules = named.map(|one| {
        let key = rules::inline::key(&run.key, &one.name);
        let mut spec = one.rule.clone();
        let is_given = |name: &String| !name.is_empty();
        let job_name = spec.job_name.take().filter(is_given);
        spec.job_name = job_name.or_else(|| Some(format!("{}-{}", run.key.name, one.name)));
        let mut rule = MutexRule::new(&key.name, spec);
        // In the order of names: no numo has another edition because it has its fields in another order.
        let said = serde_json::to_value(&rule.spec).unwrap_or_default().to_string();
        rule.metadata.namespace = Some(key.namespace);
        rule.metadata.uid = Some(names::hash(&["inline", &run.uid, &one.name], 32));
        rule.metadata.generation =
            i64::from_str_radix(&names::hash(&["inline", &said], GENERATION_DIGITS), 16).ok();
        rule
    });
    rules.collect()
}

/// What of a rule's spec is small and tells when it runs, with empty Jobs: what is kept of a rule for which there is no room. It is never
/// run.
pub fn outline(spec: &MutexRuleSpec) -> MutexRuleSpec {
    let empty = |given: &Option<serde_json::Value>| {
        let given = given.as_ref();
        given.map(|_| serde_json::Value::Object(serde_json::Map::new()))
    };
    MutexRuleSpec {
        rule_type: spec.rule_type,
        job_namespace: spec.job_namespace.clone().filter(|name| is_namespace(name)),
        job_spec: empty(&spec.job_spec),
        clean_up_job_spec: empty(&spec.clean_up_job_spec),
        phases: spec
            .phases
            .as_ref()
            .map(|phases| phases.iter().take(PHASES).copied().collect()),
        timeout_seconds: spec.timeout_seconds,
        pass_seconds: spec.pass_seconds,
        retries: spec.retries,
        failure_policy: spec.failure_policy,
        placement: spec.placement,
        log_tail_bytes: spec.log_tail_bytes,
        ..MutexRuleSpec::default()
    }
}

/// The ServiceAccounts that a Job's pod may run as: what its template names, by the field and by the older name that the API
/// server takes for it where the field is empty; an empty one if it names none.
fn accounts(job: &serde_json::Value) -> Vec<String> {
    let spec = &job["template"]["spec"];
    let named =
        ["serviceAccountName", "serviceAccount"].map(|field| spec[field].as_str().unwrap_or_default());
    let mut all: Vec<String> = named
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| (*name).to_owned())
        .collect();
    if all.is_empty() {
        all.push(String::new());
    }
    all
}

/// Whether the text can name a namespace: it becomes part of a request's path.
pub fn is_namespace(text: &str) -> bool {
    names::is_dns_label(text)
}

/// Whether the rule is asked, and runs no Jobs.
pub fn is_evaluated(rule: &MutexRule) -> bool {
    rule.spec.rule_type.unwrap_or_default() != RuleType::Kubernetes
}

/// A rule's type, as it is written.
const fn type_name(of: RuleType) -> &'static str {
    match of {
        RuleType::Kubernetes => "kubernetes",
        RuleType::Wasm => "wasm",
        RuleType::Cel => "cel",
        RuleType::Prometheus => "prometheus",
    }
}

/// What of a spec is of another type than the rule.
fn of_other_type(rule: &MutexRule) -> Option<(Reason, String)> {
    let spec = &rule.spec;
    let own = spec.rule_type.unwrap_or_default();
    let parts = [
        (RuleType::Kubernetes, "jobSpec", spec.job_spec.is_some()),
        (
            RuleType::Kubernetes,
            "cleanUpJobSpec",
            spec.clean_up_job_spec.is_some(),
        ),
        (RuleType::Wasm, "wasm", spec.wasm.is_some()),
        (RuleType::Cel, "cel", spec.cel.is_some()),
        (RuleType::Prometheus, "prometheus", spec.prometheus.is_some()),
    ];
    let (of, field, _) = parts.iter().find(|(of, _, given)| *given && *of != own)?;
    let message = format!(
        "spec.{field}: found it beside type {}, wanted spec.type: {} with it",
        type_name(own),
        type_name(*of)
    );
    Some((Reason::InvalidConfig, message))
}

/// What is wrong with a rule of type cel before its expressions are read.
fn of_expressions(rule: &MutexRule) -> Option<(Reason, String)> {
    let Some(expressions) = &rule.spec.cel else {
        let message = "spec.cel: found nothing, wanted validations (type cel)";
        return Some((Reason::InvalidConfig, message.to_owned()));
    };
    cel::shape(expressions).err()
}

/// What is wrong with a rule of type prometheus.
fn of_query(rule: &MutexRule) -> Option<(Reason, String)> {
    let Some(query) = &rule.spec.prometheus else {
        let message = "spec.prometheus: found nothing, wanted a query or alerts (type prometheus)";
        return Some((Reason::InvalidConfig, message.to_owned()));
    };
    let timeout = rule.spec.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
    let wanted = i64::from(query.for_seconds.unwrap_or(0));
    if wanted >= timeout {
        let message = format!(
            "spec.prometheus.forSeconds: found {wanted}, wanted less than timeoutSeconds, which is {timeout}"
        );
        return Some((Reason::InvalidConfig, message));
    }
    prometheus::shape(query).err()
}

/// What is wrong with the phases that a rule of any type asks for.
fn of_phases(rule: &MutexRule) -> Option<(Reason, String)> {
    let kind = rule.spec.rule_type.unwrap_or_default();
    let mut phases = rule.spec.phases.iter().flatten();
    // A Job would do its work for a node that may go much later.
    let unserved = phases.find(|phase| **phase == Phase::Admit && kind == RuleType::Kubernetes)?;
    let message = format!(
        "spec.phases: found {}, wanted PreRun, Pre, PreRelease, BeforeUncordon, Post, OnFailure or PostRun for a rule of type {}",
        unserved.name(),
        type_name(kind)
    );
    Some((Reason::FieldNotServed, message))
}

/// What is wrong with a rule of type wasm before its component is looked at.
fn of_component(rule: &MutexRule) -> Option<(Reason, String)> {
    let spec = &rule.spec;
    let invalid = |message: &str| Some((Reason::InvalidConfig, message.to_owned()));
    let Some(component) = &spec.wasm else {
        return invalid("spec.wasm: found nothing, wanted a component (type wasm)");
    };
    match (&component.image, &component.config_map) {
        (Some(_), Some(_)) => return invalid("spec.wasm: found image and configMap, wanted one of them"),
        (None, None) => return invalid("spec.wasm: found neither image nor configMap, wanted one of them"),
        (None, Some(_)) if component.pull_secret_name.is_some() || component.signature.is_some() => {
            return invalid(
                "spec.wasm: found pullSecretName or signature beside configMap, wanted them with image only",
            );
        }
        (None, Some(_)) => {}
        (Some(_), None) => {
            let wrong = wasm::reference(component).err().or_else(|| {
                component
                    .signature
                    .as_ref()
                    .and_then(|asked| wasm::policy(asked).err())
            });
            if wrong.is_some() {
                return wrong;
            }
        }
    }
    wasm::terms(component, "").err()
}

/// Why a rule that asks for Secrets is refused by an operator that lends none.
pub fn asks_for_secrets(rule: &MutexRule) -> Option<(Reason, String)> {
    let secrets = |kind: &str, version: &str| kind == "Secret" && version == "v1";
    let wasm = rule.spec.wasm.iter().flat_map(|component| &component.grants);
    let grants = wasm.flat_map(|grants| &grants.kubernetes).flatten();
    let granted = grants.map(|grant| ("spec.wasm.grants.kubernetes", &grant.kind, &grant.api_version));
    let objects = rule.spec.cel.iter().flat_map(|cel| &cel.objects).flatten();
    let read = objects.map(|of| ("spec.cel.objects", &of.kind, &of.api_version));
    let (field, ..) = granted
        .chain(read)
        .find(|(_, kind, version)| secrets(kind, version))?;
    let message =
        format!("{field}: found Secret, wanted another kind: numo runs without --rules-read-secrets");
    Some((Reason::FieldNotServed, message))
}

/// What is wrong with the rule whatever the API server says.
fn of_itself(rule: &MutexRule) -> Option<(Reason, String)> {
    let spec = &rule.spec;
    let of_type = of_other_type(rule).or_else(|| match spec.rule_type.unwrap_or_default() {
        RuleType::Kubernetes => of_jobs(rule),
        RuleType::Wasm => of_component(rule),
        RuleType::Cel => of_expressions(rule),
        RuleType::Prometheus => of_query(rule),
    });
    of_type.or_else(|| of_phases(rule))
}

/// What is wrong with a rule of type kubernetes whatever the API server says.
fn of_jobs(rule: &MutexRule) -> Option<(Reason, String)> {
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
    let both = spec.phases.iter().flatten().any(|phase| *phase == Phase::Post);
    if both && spec.clean_up_job_spec.is_some() && spec.job_spec.is_some() {
        let message = "spec.phases: found Post beside spec.cleanUpJobSpec, wanted only one of them to say what runs in Post";
        return Some((Reason::InvalidField, message.to_owned()));
    }
    None
}

/// The status, with the messages of the replaced operator.
pub fn status(
    rule: &MutexRule,
    view: &RuleView,
    examined: Option<&Examined>,
    now: Timestamp,
) -> MutexRuleStatus {
    if is_evaluated(rule) {
        return status_of_asked(rule, view, examined, now);
    }
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
    without_component(&mut conditions);
    MutexRuleStatus {
        observed_generation: Some(generation),
        conditions: conditions.done(),
        wasm: None,
        ..effective(rule, view)
    }
}

/// What holds where the spec says nothing.
fn effective(rule: &MutexRule, view: &RuleView) -> MutexRuleStatus {
    let phases = Phase::ALL.into_iter().filter(|phase| view.runs_in(*phase));
    let phases: Vec<Phase> = phases.collect();
    let names: Vec<&str> = phases.iter().map(|phase| phase.name()).collect();
    MutexRuleStatus {
        rule_type: Some(rule.spec.rule_type.unwrap_or_default()),
        phases_summary: Some(names.join(", ")).filter(|names| !names.is_empty()),
        phases,
        ..MutexRuleStatus::default()
    }
}

/// The status of a rule that is asked.
fn status_of_asked(
    rule: &MutexRule,
    view: &RuleView,
    examined: Option<&Examined>,
    now: Timestamp,
) -> MutexRuleStatus {
    let empty = MutexRuleStatus::default();
    let old = rule.status.as_ref().unwrap_or(&empty);
    let generation = rule.metadata.generation.unwrap_or(0);
    let mut conditions = Conditions::over(&old.conditions, generation, now);
    if view.validity != Validity::Unknown {
        let fetched = examined.map(|examined| &examined.fetched);
        let verified = examined.and_then(|examined| examined.verified.as_ref());
        let compiled = examined.and_then(|examined| examined.compiled.as_ref());
        let steps = [
            (FETCHED, fetched, Reason::Fetched),
            (VERIFIED, verified, Reason::Verified),
            (COMPILED, compiled, Reason::Compiled),
        ];
        for (type_, outcome, reason) in steps {
            match outcome {
                None => conditions.unset(type_),
                Some(Ok(())) => conditions.set(type_, true, reason.name(), reason.meaning()),
                Some(Err((reason, message))) => conditions.set(type_, false, reason.name(), message),
            }
        }
    }
    // What this generation's tag was resolved to stays, whatever fails later.
    let same = old.observed_generation == Some(generation);
    let mut component = examined
        .and_then(|examined| examined.status.clone())
        .or_else(|| old.wasm.clone().filter(|_| same));
    match &view.validity {
        Validity::Valid => {
            let message = "The rule can be evaluated.";
            conditions.set(VALID_CONFIG, true, Reason::ValidConfig.name(), message);
            conditions.kstatus(true, false, false, Reason::ValidConfig.name(), message);
        }
        Validity::Unknown => {
            component = old.wasm.clone().filter(|_| same);
            let message = "the rule has not been looked at yet";
            conditions.kstatus(false, true, false, Reason::Validating.name(), message);
        }
        Validity::Invalid(reason, why) => {
            conditions.set(VALID_CONFIG, false, reason.name(), why);
            conditions.kstatus(false, false, true, reason.name(), why);
        }
    }
    if rule.spec.rule_type == Some(RuleType::Wasm) {
        component = versioned(component, old.wasm.as_ref(), &mut conditions);
    } else {
        without_component(&mut conditions);
    }
    MutexRuleStatus {
        observed_generation: Some(generation),
        conditions: conditions.done(),
        wasm: component,
        ..effective(rule, view)
    }
}

/// Takes away the conditions that only a component has.
fn without_component(conditions: &mut Conditions<'_>) {
    for type_ in [FETCHED, VERIFIED, COMPILED, DOWNGRADED] {
        conditions.unset(type_);
    }
}

/// The component with the highest version that the rule had, whatever its generation; that it is a lower one now is said.
fn versioned(
    component: Option<WasmStatus>,
    old: Option<&WasmStatus>,
    conditions: &mut Conditions<'_>,
) -> Option<WasmStatus> {
    let before = old.and_then(|old| old.highest.as_ref());
    let now = component.as_ref().and_then(|component| {
        let (repository, _) = component.image.as_deref()?.split_once('@')?;
        Some((repository, component.version.as_deref()))
    });
    let (highest, is_lower) = highest(before, now);
    match (&highest, now) {
        (Some(highest), Some((_, found))) if is_lower => {
            let SeenVersion { repository, version } = highest;
            let is = match found {
                Some(found) if parsed(found).is_some() => format!("is version {found} of {repository}"),
                Some(found) => format!("of {repository} names no version (found {found:?})"),
                None => format!("of {repository} names no version"),
            };
            let message = format!("the component {is}, and was {version} before; it runs anyway");
            conditions.set(DOWNGRADED, true, Reason::Downgraded.name(), message);
        }
        _ => conditions.unset(DOWNGRADED),
    }
    if component.is_none() && highest.is_none() {
        return None;
    }
    Some(WasmStatus {
        highest,
        ..component.unwrap_or_default()
    })
}

/// The highest version of what a rule had before and has now, by repository and version, and whether it is lower now. Another repository
/// begins anew; one that names no version is lower than any that it had: whoever goes back could else do so unseen.
fn highest(before: Option<&SeenVersion>, now: Option<(&str, Option<&str>)>) -> (Option<SeenVersion>, bool) {
    let Some((repository, version)) = now else {
        return (before.cloned(), false);
    };
    let here = before.filter(|seen| seen.repository == repository);
    let named = version.and_then(|version| Some((version, parsed(version)?)));
    let Some((version, found)) = named else {
        return (before.cloned(), here.is_some());
    };
    let is_lower = here
        .and_then(|seen| parsed(&seen.version))
        .is_some_and(|highest| found.cmp_precedence(&highest).is_lt());
    if is_lower {
        return (before.cloned(), true);
    }
    let seen = SeenVersion {
        repository: repository.to_owned(),
        version: version.to_owned(),
    };
    (Some(seen), false)
}

/// A version, with or without `v` and its last parts.
fn parsed(version: &str) -> Option<semver::Version> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let whole = [
        version.to_owned(),
        format!("{version}.0"),
        format!("{version}.0.0"),
    ];
    whole.iter().find_map(|text| semver::Version::parse(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lower_version_of_the_same_repository_is_said_and_the_highest_is_kept() {
        let seen = |version: &str| SeenVersion {
            repository: "r/a".to_owned(),
            version: version.to_owned(),
        };
        for (before, now, kept, is_lower) in [
            (None, None, None, false),
            (None, Some(("r/a", None)), None, false),
            (None, Some(("r/a", Some("newest"))), None, false),
            (None, Some(("r/a", Some("1.0.0"))), Some("1.0.0"), false),
            (
                Some("1.9.0"),
                Some(("r/a", Some("1.10.0"))),
                Some("1.10.0"),
                false,
            ),
            (Some("1.10.0"), Some(("r/a", Some("v1.9"))), Some("1.10.0"), true),
            (
                Some("1.10.0"),
                Some(("r/a", Some("1.10.0-rc.1"))),
                Some("1.10.0"),
                true,
            ),
            (
                Some("1.10.0"),
                Some(("r/a", Some("1.10.0+other"))),
                Some("1.10.0+other"),
                false,
            ),
            (
                Some("1.10.0"),
                Some(("r/a", Some("newest"))),
                Some("1.10.0"),
                true,
            ),
            (Some("1.10.0"), Some(("r/a", None)), Some("1.10.0"), true),
            (Some("1.10.0"), Some(("r/b", None)), Some("1.10.0"), false),
            (Some("1.10.0"), None, Some("1.10.0"), false),
        ] {
            let (highest, lower) = highest(before.map(seen).as_ref(), now);
            assert_eq!((highest, lower), (kept.map(seen), is_lower), "{before:?} {now:?}");
        }
        // Another rule's component begins anew.
        let (of_other, lower) = highest(Some(&seen("2.0.0")), Some(("r/b", Some("1.0.0"))));
        assert_eq!(
            (of_other.map(|of| of.repository).as_deref(), lower),
            (Some("r/b"), false)
        );
    }

    #[test]
    fn an_image_that_names_no_version_after_one_that_did_is_said_so() {
        let spec = json!({"type": "wasm", "wasm": {"image": "r.example/a:1"}});
        let mut rule = MutexRule::new("rule", serde_json::from_value(spec).unwrap());
        for (version, wanted) in [
            (Some("2.0.0"), None),
            (
                None,
                Some("the component of r.example/a names no version, and was 2.0.0 before"),
            ),
            (
                Some("newest"),
                Some("names no version (found \"newest\"), and was 2.0.0 before"),
            ),
            (
                Some("1.0.0"),
                Some("the component is version 1.0.0 of r.example/a, and was 2.0.0 before"),
            ),
            (Some("2.0.0"), None),
        ] {
            let examined = Examined {
                fetched: Ok(()),
                verified: None,
                compiled: Some(Ok(())),
                status: Some(WasmStatus {
                    image: Some("r.example/a@sha256:00".to_owned()),
                    version: version.map(ToOwned::to_owned),
                    ..WasmStatus::default()
                }),
            };
            let view = parse(&rule, Validity::Valid);
            let status = status(&rule, &view, Some(&examined), Timestamp::UNIX_EPOCH);
            let said = status.conditions.iter().find(|one| one.type_ == DOWNGRADED);
            let said = said.and_then(|one| one.message.as_deref());
            assert_eq!(said.is_some(), wanted.is_some(), "{version:?}: {said:?}");
            assert!(
                said.unwrap_or_default().contains(wanted.unwrap_or_default()),
                "{said:?}"
            );
            rule.status = Some(status);
        }
    }

    #[test]
    fn what_was_highest_stays_when_the_next_component_cannot_be_had() {
        let spec = json!({"type": "wasm", "wasm": {"image": "r.example/a:1"}});
        let mut rule = MutexRule::new("rule", serde_json::from_value(spec).unwrap());
        let look = |rule: &MutexRule, version: Option<&str>| {
            let fault = (Reason::ImageNotFound, "gone".to_owned());
            let examined = match version {
                None => Examined::unfetched(fault.clone()),
                Some(version) => Examined {
                    fetched: Ok(()),
                    verified: None,
                    compiled: Some(Ok(())),
                    status: Some(WasmStatus {
                        image: Some("r.example/a@sha256:00".to_owned()),
                        version: Some(version.to_owned()),
                        ..WasmStatus::default()
                    }),
                },
            };
            let validity = version.map_or(Validity::Invalid(fault.0, fault.1), |_| Validity::Valid);
            let view = parse(rule, validity);
            status(rule, &view, Some(&examined), Timestamp::UNIX_EPOCH)
        };
        for (generation, version, is_lower) in [
            (1, Some("2.0.0"), false),
            (2, None, false),
            (3, Some("1.0.0"), true),
            (4, Some("2.0.1"), false),
        ] {
            rule.metadata.generation = Some(generation);
            let status = look(&rule, version);
            let says = status.conditions.iter().any(|one| one.type_ == DOWNGRADED);
            assert_eq!(says, is_lower, "{version:?}: {status:?}");
            let wasm = status.wasm.clone().unwrap();
            let highest = wasm.highest.map(|seen| seen.version);
            let wanted = if generation == 4 { "2.0.1" } else { "2.0.0" };
            assert_eq!(highest.as_deref(), Some(wanted), "{version:?}");
            // What was resolved for another generation is not taken over with it.
            assert_eq!(wasm.image.is_some(), version.is_some());
            rule.status = Some(status);
        }
    }

    #[test]
    fn who_asks_for_secrets_is_found_by_its_field() {
        for (spec, field) in [
            (
                json!({"type": "wasm", "wasm": {"grants": {"kubernetes": [
                    {"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "v1", "kind": "Secret"},
                ]}}}),
                Some("spec.wasm.grants.kubernetes"),
            ),
            (
                json!({"type": "cel", "cel": {"validations": [], "objects": [
                    {"name": "s", "apiVersion": "v1", "kind": "Secret"},
                ]}}),
                Some("spec.cel.objects"),
            ),
            // Somebody else's kind of that name.
            (
                json!({"type": "wasm", "wasm": {"grants": {"kubernetes": [{"apiVersion": "example.com/v1", "kind": "Secret"}]}}}),
                None,
            ),
            (json!({"jobSpec": {}}), None),
        ] {
            let rule = MutexRule::new("rule", serde_json::from_value(spec.clone()).unwrap());
            let found = asks_for_secrets(&rule);
            match (found, field) {
                (Some((Reason::FieldNotServed, message)), Some(field)) => {
                    assert!(message.starts_with(field), "{message}");
                }
                (None, None) => {}
                (found, _) => panic!("{spec}: {found:?}"),
            }
        }
    }
}
