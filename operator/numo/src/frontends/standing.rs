//! How an owner stands: the one reason that says best what it is doing, and whether a person is needed. Its conditions Ready,
//! Reconciling and Stalled, and the command line, say this one value.

use numo_api::{Reason, conditions::Actor};
use numo_core::report::{Report, RunPhase, Why};

/// How an owner stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The reason.
    pub reason: Reason,
    /// The reason in a sentence.
    pub message: String,
    /// Who can end it here, which may be somebody else than who ends the reason as a rule.
    pub who: Actor,
    /// Whether it goes on only if a person does something.
    pub stalled: bool,
}

impl Standing {
    /// An owner none of whose nodes goes on without a person: no node in flight ends what this one, of this name, waits for.
    fn wedged(name: &str, why: &Why) -> Self {
        let who = match why.who() {
            Actor::OtherNode => Actor::ClusterAdmin,
            who => who,
        };
        Self {
            reason: why.reason,
            message: named(name, &why.message),
            who,
            stalled: true,
        }
    }

    /// How an owner stands of whose nodes none goes on without a person; none if one does. A hold that ends by itself ends
    /// nothing for a node that is stuck in its turn, and neither does a deletion.
    pub fn of_stuck(report: &Report) -> Option<Self> {
        let may_be_stuck = match report.phase {
            RunPhase::Active => report.hold.is_none() || report.in_flight() > 0,
            RunPhase::Leaving => report.in_flight() > 0,
            RunPhase::Refused | RunPhase::Idle | RunPhase::Held => false,
        };
        let (name, node) = report.wedged().filter(|_| may_be_stuck)?;
        Some(Self::wedged(name, &node.why))
    }

    /// How an owner stands that has no node in flight, and each of whose nodes that are left waits for its hours; none if one does not.
    /// It says what the node says that begins first.
    pub fn of_hours(report: &Report) -> Option<Self> {
        if report.phase != RunPhase::Active || report.hold.is_some() {
            return None;
        }
        let left = || report.nodes.iter().filter(|(_, node)| !node.step.is_terminal());
        let waits = |reason: Reason| reason.is_of_hours() || reason.is_of_order();
        if left().any(|(_, node)| node.in_flight() || !waits(node.why.reason)) {
            return None;
        }
        let closed = left().filter(|(_, node)| node.why.reason.is_of_hours());
        let (name, node) = closed.min_by_key(|(_, node)| (node.why.until.is_none(), node.why.until))?;
        Some(Self {
            reason: node.why.reason,
            message: named(name, &node.why.message),
            who: node.why.who(),
            stalled: node.why.who().is_person(),
        })
    }

    /// Whether all is as it should be: nothing is open, and nothing is wrong.
    pub const fn is_good(&self) -> bool {
        matches!(
            self.reason,
            Reason::UpToDate | Reason::Succeeded | Reason::NoNodes
        )
    }

    /// Reason and sentence.
    pub fn said(self) -> (Reason, String) {
        (self.reason, self.message)
    }
}

/// A message that names its node.
fn named(name: &str, message: &str) -> String {
    let is_named =
        message.starts_with(&format!("Node {name} ")) || message.starts_with(&format!("Node {name}:"));
    if is_named {
        message.to_owned()
    } else {
        format!("Node {name}: {message}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontends::{mutex_run_config, node_version, plan};
    use numo_api::Step;
    use numo_core::report::NodeReport;

    fn waits(why: Why) -> Report {
        let mut report = Report {
            phase: RunPhase::Active,
            ..Report::default()
        };
        let node = NodeReport {
            pool: "worker".into(),
            step: Step::Selected,
            why,
            since: None,
            change: None,
        };
        report.nodes.insert("a".to_owned(), node);
        report
    }

    #[test]
    fn no_node_in_flight_is_named_where_none_ends_it() {
        let full = || Why::new(Reason::BudgetExhausted, "full");
        for why in [
            full().ended_by(Actor::ClusterAdmin),
            Why::new(Reason::MutexKeyBusy, "busy"),
            Why::new(Reason::WaitingForTurn, "waits"),
        ] {
            let reason = why.reason;
            let report = waits(why);
            for standing in [mutex_run_config::standing(&report), plan::standing(&report)] {
                assert_eq!(standing.reason, reason, "{standing:?}");
                assert_eq!(standing.who, Actor::ClusterAdmin, "{standing:?}");
            }
        }
        // The nodes of another owner make room when they are done.
        let report = waits(full());
        assert_eq!(mutex_run_config::standing(&report).reason, Reason::Progressing);
        assert_eq!(plan::standing(&report).who, Actor::OtherNode);
    }

    /// Whoever looks in a freeze is not to look for what hangs.
    #[test]
    fn an_owner_whose_nodes_all_wait_for_their_hours_says_so() {
        let frozen = Why::new(Reason::Frozen, "frozen").until(jiff::Timestamp::UNIX_EPOCH);
        let mut report = waits(frozen);
        for standing in [
            mutex_run_config::standing(&report),
            node_version::standing(&report),
        ] {
            assert_eq!(standing.reason, Reason::Frozen, "{standing:?}");
            assert_eq!(standing.message, "Node a: frozen");
            assert!(!standing.stalled, "{standing:?}");
        }
        let mut other = report.nodes["a"].clone();
        other.why = Why::new(Reason::WaitsForWave, "after a");
        report.nodes.insert("b".to_owned(), other.clone());
        assert_eq!(mutex_run_config::standing(&report).reason, Reason::Frozen);
        other.why = Why::new(Reason::WaitingForTurn, "waits");
        other.step = Step::PreRules;
        report.nodes.insert("c".to_owned(), other);
        assert_eq!(mutex_run_config::standing(&report).reason, Reason::Progressing);
    }

    #[test]
    fn a_stuck_node_of_a_plan_is_told_of_outside_the_window() {
        let opens = || Why::new(Reason::OutsideWindow, "outside").until(jiff::Timestamp::UNIX_EPOCH);
        let mut report = waits(opens());
        report.hold = Some(opens());
        assert!(!plan::standing(&report).stalled);
        let node = NodeReport {
            pool: "worker".into(),
            step: Step::Released,
            why: Why::new(Reason::NodeNotReady, "it is not Ready"),
            since: None,
            change: None,
        };
        report.nodes.insert("b".to_owned(), node);
        let standing = plan::standing(&report);
        assert!(standing.stalled, "{standing:?}");
        assert_eq!(standing.reason, Reason::NodeNotReady);
        assert_eq!(standing.message, "Node b: it is not Ready");
    }

    #[test]
    fn a_stuck_node_keeps_what_is_being_deleted_and_is_told_of() {
        let deleting = || Why::new(Reason::Deleting, "it is being deleted");
        let mut report = waits(deleting());
        report.phase = RunPhase::Leaving;
        report.hold = Some(deleting());
        for standing in [mutex_run_config::standing(&report), plan::standing(&report)] {
            assert!(!standing.stalled, "{standing:?}");
        }
        let away = Why::new(Reason::NodeNotReady, "it is not Ready");
        let node = NodeReport {
            step: Step::Released,
            why: away,
            ..report.nodes["a"].clone()
        };
        report.nodes.insert("b".to_owned(), node);
        for standing in [mutex_run_config::standing(&report), plan::standing(&report)] {
            assert!(standing.stalled, "{standing:?}");
            assert_eq!(standing.reason, Reason::NodeNotReady);
        }
    }

    #[test]
    fn a_hold_is_ended_by_whom_it_names() {
        let mut report = Report::default();
        let hold = Why::new(Reason::ControlPlaneUpdating, "refused");
        report.hold = Some(hold.ended_by(Actor::ClusterAdmin));
        for standing in [mutex_run_config::standing(&report), plan::standing(&report)] {
            assert!(standing.stalled, "{standing:?}");
            assert_eq!(standing.who, Actor::ClusterAdmin, "{standing:?}");
        }
    }
}
