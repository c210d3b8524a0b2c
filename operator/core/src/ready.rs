//! The check that comes with numo: the workloads that left a node are ready again. It is asked like any rule, in Pre,
//! where it remembers, and in Post, where it compares; here is only what the core knows of it.
//!
//! Tenants decide whether their workloads become ready, and an upgrade is not theirs to stop: by default a node waits for
//! a short time, and the run goes on with a warning.

use crate::{
    key::Key,
    observed::{EVALUATED_PASS_SECONDS, RuleView, Validity},
    selector,
};
use numo_api::{AwaitedWorkloads, FailurePolicy, Phase, Placement};

/// Its name, in no namespace: no MutexRule can have it.
pub const NAME: &str = "workloads-ready";
/// Default of `spec.awaitedWorkloads.timeoutSeconds`.
const TIMEOUT_SECONDS: i64 = 600;

/// Its key among the rules.
pub fn key() -> Key {
    Key::new("", NAME)
}

/// What it is for a run that selects these workloads, seen as a rule.
pub fn rule(awaited: Option<&AwaitedWorkloads>) -> RuleView {
    RuleView {
        key: key(),
        uid: NAME.to_owned(),
        generation: 1,
        job_name: NAME.to_owned(),
        job_namespace: String::new(),
        job_accounts: Vec::new(),
        has_job: false,
        has_clean_up_job: false,
        is_evaluated: true,
        timeout_seconds: awaited
            .and_then(|awaited| awaited.timeout_seconds)
            .unwrap_or(TIMEOUT_SECONDS)
            .max(1),
        pass_seconds: EVALUATED_PASS_SECONDS,
        retries: 0,
        failure_policy: awaited
            .and_then(|awaited| awaited.failure_policy)
            .unwrap_or(FailurePolicy::Continue),
        phases: vec![Phase::Pre, Phase::Post],
        placement: Placement::Anywhere,
        log_tail_bytes: 0,
        validity: Validity::Valid,
        unseen: None,
    }
}

/// What keeps a selection of workloads from being understood: field, found, wanted.
pub(crate) fn problem(awaited: &AwaitedWorkloads) -> Option<String> {
    let selectors = [
        ("namespaceSelector", &awaited.namespace_selector),
        ("podSelector", &awaited.pod_selector),
    ];
    let mut selectors = selectors.into_iter();
    selectors.find_map(|(field, selector)| {
        selector::problem(&format!("spec.awaitedWorkloads.{field}"), selector.as_ref())
    })
}
