//! Commands of waits of which it is decided what they come of: no sentence is read for them, which may have words of people, of rules or of
//! whoever writes against numo in it.

use super::name::mentioned;
use super::wait::Wait;
use numo_api::Step;
use numo_core::report::{Cause, Report, Why};

impl Wait<'_> {
    /// What the wait comes of, as it is decided here: of the node, of the owner, or of whichever of its nodes waits for the same. A sentence
    /// that another numo wrote tells nothing of it.
    pub(super) fn cause(&self) -> Option<&Cause> {
        let report = self.report?;
        let is_this = |why: &&Why| why.reason == self.reason;
        let of_node = self.node.and_then(|name| report.nodes.get(name));
        let of_node = of_node.map(|node| &node.why).filter(is_this);
        let all = of_node
            .into_iter()
            .chain(&report.hold)
            .chain(&report.also)
            .chain(report.approval.as_ref().map(|approval| &approval.why))
            .chain(report.nodes.values().map(|node| &node.why));
        all.filter(is_this).find_map(|why| why.cause.as_deref())
    }

    /// The command that the decision itself names.
    pub(super) fn command(&self) -> Option<Vec<String>> {
        match self.cause()? {
            Cause::Command(command) => Some(vec![command.clone()]),
            _ => None,
        }
    }

    /// What approves it; a list of what waits, where that is not decided here.
    pub(super) fn approve(&self) -> Vec<String> {
        match self.cause() {
            Some(Cause::Approval(command)) => vec![command.clone()],
            _ => vec!["numo approve --list -A".to_owned()],
        }
    }

    /// Too many nodes have failed: one that is gone or held comes first, and of any the budget may be raised.
    pub(super) fn of_failure_budget(&self) -> Vec<String> {
        let (node, is_gone, field) = match self.cause() {
            Some(Cause::Failures { node, is_gone, field }) => (node.as_str(), *is_gone, field.as_str()),
            _ => ("NODE", false, ""),
        };
        if is_gone {
            return vec![format!("numo skip {node}")];
        }
        let held = |report: &Report| report.nodes.values().any(|node| node.step == Step::Held);
        if self.report.is_some_and(held) {
            return self.of_first(|node| node.step == Step::Held);
        }
        let binding = mentioned(field, "MutexBinding").pop();
        let raise = binding.map_or_else(
            || self.owner.kubectl("edit"),
            |name| format!("kubectl edit mutexbinding {name}"),
        );
        vec![format!("numo retry {node}"), raise]
    }

    /// What somebody keeps changing that numo set for a run.
    pub(super) fn set_again(&self) -> Vec<String> {
        // Once who keeps changing it has stopped, what numo set is set again by hand: that is where it goes on.
        let (pool, set) = match self.cause() {
            Some(Cause::Unpaused(pool)) => {
                let paused = " --type merge -p '{\"spec\":{\"paused\":true}}'";
                (pool, format!("kubectl patch machineconfigpool {pool}{paused}"))
            }
            Some(Cause::Selector(pool)) => (pool, format!("kubectl edit machineconfigpool {pool}")),
            Some(Cause::Labels(node)) => {
                return vec![format!("kubectl describe node {node}")];
            }
            _ => return self.of_nodes("describe"),
        };
        vec![
            format!("kubectl get machineconfigpool {pool} -o yaml --show-managed-fields"),
            set,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{live::Look, sample};
    use jiff::Timestamp;
    use numo_api::{MutexRunConfigSpec, Reason, conditions::Actor};
    use numo_core::{Owner, observed::Key, report::NodeReport};
    use std::sync::Arc;

    fn looked() -> Look {
        let store = sample::store(&[], MutexRunConfigSpec::default());
        Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH)
    }

    /// Words of a person, of a rule or of whoever writes against numo, which may look like any other sentence of numo's.
    const SAID: &str = "last by was-unpaused of MachineConfigPool master; `numo retry x`, `numo skip y` goes on without the node that is \
                        gone, `numo approve plan/z`; MutexBinding other";

    /// What ends a wait that comes of this, whatever the sentence says.
    fn commands_of(reason: Reason, cause: Option<Cause>) -> Vec<String> {
        let mut why = Why::new(reason, SAID);
        why.cause = cause.map(Arc::new);
        let report = Report {
            hold: Some(why),
            ..Report::default()
        };
        ends(&report, (reason, reason.who()), SAID)
    }

    fn ends(report: &Report, (reason, who): (Reason, Actor), message: &str) -> Vec<String> {
        let look = looked();
        let wait = Wait {
            look: &look,
            owner: &Owner::run(Key::new("ops", "upgrade")),
            report: Some(report),
            node: None,
            reason,
            who,
            message,
        };
        wait.commands()
    }

    #[test]
    fn what_somebody_keeps_changing_is_looked_at_and_set_again_by_hand() {
        let managers = "kubectl get machineconfigpool worker -o yaml --show-managed-fields";
        for (what, wanted) in [
            (
                Cause::Unpaused("worker".to_owned()),
                vec![
                    managers,
                    "kubectl patch machineconfigpool worker --type merge -p '{\"spec\":{\"paused\":true}}'",
                ],
            ),
            (
                Cause::Selector("worker".to_owned()),
                vec![managers, "kubectl edit machineconfigpool worker"],
            ),
            (Cause::Labels("a".to_owned()), vec!["kubectl describe node a"]),
            (
                Cause::Command("kubectl get nodes".to_owned()),
                vec!["kubectl get nodes"],
            ),
        ] {
            let found = commands_of(Reason::ForeignWriter, Some(what));
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_failure_budget_is_ended_by_a_word_on_its_node_or_raised_where_it_stands() {
        let of = |is_gone, field: &str| {
            let failures = Cause::Failures {
                node: "a".to_owned(),
                is_gone,
                field: field.to_owned(),
            };
            commands_of(Reason::FailureBudgetSpent, Some(failures))
        };
        assert_eq!(of(true, "spec.failureBudget"), ["numo skip a"]);
        assert_eq!(
            of(false, "spec.failureBudget"),
            ["numo retry a", "kubectl -n ops edit mutexrunconfig upgrade"]
        );
        assert_eq!(
            of(false, "MutexBinding plans spec.waves[0].failureBudget"),
            ["numo retry a", "kubectl edit mutexbinding plans"]
        );
    }

    #[test]
    fn what_waits_for_approval_gets_its_own_command_whatever_who_approved_has_said() {
        let command = "numo approve plan/os -n ops --wave 2 --reason TEXT";
        for reason in [Reason::WaitsForApproval, Reason::ApprovalExpired] {
            let found = commands_of(reason, Some(Cause::Approval(command.to_owned())));
            assert_eq!(found, [command]);
            assert_eq!(commands_of(reason, None), ["numo approve --list -A"]);
        }
    }

    /// A rule that failed for a node may speak of another one.
    #[test]
    fn only_nodes_that_wait_for_it_are_tried_again() {
        let message = "Node a: rule storage failed: Node b must stay";
        let mut report = Report::default();
        for (name, step, reason) in [
            ("a", Step::Held, Reason::RuleFailed),
            ("b", Step::Done, Reason::UpToDate),
        ] {
            let node = NodeReport {
                pool: "".into(),
                step,
                why: Why::new(reason, message),
                since: None,
                change: None,
            };
            report.nodes.insert(name.to_owned(), node);
        }
        let found = ends(&report, (Reason::RuleFailed, Actor::ClusterAdmin), message);
        assert_eq!(found, ["numo retry a"]);
    }
}
