//! The check that comes with numo: the workloads that left a node are ready again. It is asked like any rule, in Pre,
//! where it remembers, and in Post, where it compares; here is only what the core knows of it.

use crate::observed::{Key, RuleView, Validity};
use numo_api::{FailurePolicy, Phase, Placement};

/// Its name, in no namespace: no MutexRule can have it.
pub const NAME: &str = "workloads-ready";
/// How long it may make a node wait before the node is held (seconds), as for any rule.
const TIMEOUT_SECONDS: i64 = 3600;

/// Its key among the rules.
pub fn key() -> Key {
    Key::new("", NAME)
}

/// What it is, seen as a rule.
pub fn rule() -> RuleView {
    RuleView {
        key: key(),
        uid: NAME.to_owned(),
        generation: 1,
        job_name: NAME.to_owned(),
        job_namespace: String::new(),
        has_job: false,
        has_clean_up_job: false,
        is_asked: true,
        timeout_seconds: TIMEOUT_SECONDS,
        pass_seconds: crate::rules::EVALUATED_PASS_SECONDS,
        retries: 0,
        failure_policy: FailurePolicy::Hold,
        phases: vec![Phase::Pre, Phase::Post],
        placement: Placement::Anywhere,
        log_tail_bytes: 0,
        validity: Validity::Valid,
    }
}
