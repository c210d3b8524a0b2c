//! What waits for a MutexApproval, as the status of an owner has it. Pure.

use super::conditions::seconds;
use jiff::Timestamp;
use numo_api::ApprovalStatus;
use numo_core::{report::Report, rules::clip};

/// Longest words of what waits (characters).
const WORDS_MAX: usize = 253;

/// Since when what waits for approval does, so that people are told once more when an approval of it was withdrawn. It is what the
/// status stores of it; where that is yet to be written, nobody knows. The definition of another operator may store nothing: there it is
/// the last approval of it that this process knew to hold (`withdrawn`), if any.
pub fn since<'a>(
    report: &Report,
    stored: Option<&'a ApprovalStatus>,
    is_written: bool,
    withdrawn: &'a str,
) -> Option<&'a str> {
    let waits = report.approval.as_ref()?;
    let stored = stored.filter(|stored| stored.digest == waits.digest);
    match stored {
        Some(stored) => Some(stored.since.as_str()),
        None => is_written.then_some(withdrawn),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::Reason;
    use numo_core::{
        report::{ApprovalReport, Point},
        why::Why,
    };

    /// One rule for every kind of owner: a definition that stores nothing is no reason to tell of a withdrawn approval nowhere.
    #[test]
    fn what_waits_again_waits_since_another_time() {
        let mut report = Report::default();
        assert_eq!(since(&report, None, true, ""), None, "nothing waits");
        report.approval = Some(ApprovalReport {
            point: Point::Begin,
            digest: "d".to_owned(),
            why: Why::new(Reason::WaitsForApproval, "it waits"),
        });
        let stored = |digest: &str| ApprovalStatus {
            digest: digest.to_owned(),
            since: "then".to_owned(),
            ..ApprovalStatus::default()
        };
        for (stored, is_written, withdrawn, wanted) in [
            (Some(stored("d")), true, "", Some("then")),
            // It was withdrawn, and the status says since when it waits again.
            (Some(stored("d")), false, "a", Some("then")),
            // That is yet to be written.
            (Some(stored("before")), false, "a", None),
            (None, false, "a", None),
            // Nothing of it is stored.
            (None, true, "", Some("")),
            (None, true, "a", Some("a")),
        ] {
            assert_eq!(
                since(&report, stored.as_ref(), is_written, withdrawn),
                wanted,
                "{stored:?} {is_written} {withdrawn}"
            );
        }
    }
}
