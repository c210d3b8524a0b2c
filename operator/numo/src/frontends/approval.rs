//! What waits for a MutexApproval, as the status of an owner has it. Pure.

use super::conditions::seconds;
use jiff::Timestamp;
use numo_api::ApprovalStatus;
use numo_core::{report::Report, rules::clip};

/// Longest words of what waits (characters).
const WORDS_MAX: usize = 253;

/// `status.approval`; `before` is what it was: the same thing waits since then.
pub fn status(report: &Report, before: Option<&ApprovalStatus>, now: Timestamp) -> Option<ApprovalStatus> {
    let waits = report.approval.as_ref()?;
    let same = before.filter(|before| before.digest == waits.digest);
    Some(ApprovalStatus {
        waits: clip(&waits.point.to_string(), WORDS_MAX),
        reason: waits.why.reason.name().to_owned(),
        digest: waits.digest.clone(),
        since: same.map_or_else(|| seconds(now), |before| before.since.clone()),
    })
}
