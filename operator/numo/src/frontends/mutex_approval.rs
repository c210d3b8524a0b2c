//! MutexApproval: its status. How an approval stands is worked out in the core; here it becomes a condition. Pure.

use super::conditions::Conditions;
use jiff::Timestamp;
use numo_api::{MutexApprovalStatus, conditions::types};
use numo_core::{observed::ApprovalView, unheard::Standing};

/// The status.
pub fn status(view: &ApprovalView, standing: &Standing, now: Timestamp) -> MutexApprovalStatus {
    let mut conditions = Conditions::over(&view.status.conditions, view.generation, now);
    let reason = standing.reason.name();
    conditions.set(types::HOLDS, standing.holds, reason, standing.message.as_str());
    MutexApprovalStatus {
        observed_generation: Some(view.generation),
        conditions: conditions.done(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::{MutexApprovalSpec, Reason};

    #[test]
    fn the_status_says_how_the_approval_stands_and_what_it_says_is_read_back() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let mut view = ApprovalView {
            name: "a".to_owned(),
            uid: "a-uid".to_owned(),
            created: at("2027-01-15T08:00:00Z"),
            deleting: false,
            spec: MutexApprovalSpec::default(),
            generation: 1,
            status: MutexApprovalStatus::default(),
        };
        assert_eq!(Standing::told(&view), None);
        let mut standing = Standing {
            holds: true,
            reason: Reason::ApprovalHolds,
            message: "it holds".to_owned(),
        };
        view.status = status(&view, &standing, at("2027-01-15T08:00:01Z"));
        let condition = view.status.conditions[0].clone();
        assert_eq!(
            (
                condition.type_.as_str(),
                condition.status.as_str(),
                condition.reason.as_deref()
            ),
            ("Holds", "True", Some("ApprovalHolds"))
        );
        assert_eq!(
            (view.status.observed_generation, condition.observed_generation),
            (Some(1), Some(1))
        );
        assert_eq!(Standing::told(&view), Some(standing.clone()));
        // What does not differ is not written, whatever the time is.
        assert_eq!(status(&view, &standing, at("2027-01-15T09:00:00Z")), view.status);
        standing.reason = Reason::ApprovalOver;
        let later = status(&view, &standing, at("2027-01-15T09:00:00Z"));
        assert_eq!(
            later.conditions[0].last_transition_time,
            condition.last_transition_time
        );
        // One of a version to come says nothing that this one knows.
        view.status.conditions[0].reason = Some("Whatever".to_owned());
        assert_eq!(Standing::told(&view), None);
    }
}
