//! Commands on machines that are replaced, and on the objects that stand for them.

use super::wait::Wait;
use numo_api::Reason;

impl Wait<'_> {
    /// Of a machine, its group, or whoever makes and deletes machines. First what is to be looked at, then what ends it.
    pub(super) fn by_reason_of_machine(&self) -> Option<Vec<String>> {
        let all = match self.reason {
            Reason::JoinFailed => self.of_joins(),
            // Its provider, or the controller that writes `spec.providerID`, is to say what it does not.
            Reason::MachineUnknown => self.of_nodes("describe"),
            Reason::ScalingGroupNotFound => {
                let mut all = vec!["kubectl get scalinggroups -o yaml".to_owned()];
                all.extend(self.of_nodes("describe"));
                all.extend(self.node.map(|node| format!("numo skip {node}")));
                all
            }
            Reason::MaintenanceNotServed => vec![self.owner.kubectl("edit")],
            Reason::MaintenanceUnanswered | Reason::MaintenanceFailed => self.of_other_operator(),
            Reason::ProviderContradicts => self.of_contradiction(),
            Reason::ProviderUnavailable => {
                let own = &self.look.store.observed.settings.namespace;
                vec![
                    self.owner.kubectl("describe"),
                    format!("kubectl -n {own} get deployment numo -o yaml"),
                ]
            }
            _ => return None,
        };
        Some(all)
    }

    /// New machines did not join: the image is looked at, then it is tried once more, or the node is left out.
    fn of_joins(&self) -> Vec<String> {
        let mut all = vec!["kubectl get scalinggroups,pendingnodes".to_owned()];
        for node in self.nodes() {
            all.push(format!("numo retry {node}"));
            all.push(format!("numo skip {node}"));
        }
        all.push(self.owner.kubectl("edit"));
        all
    }

    /// Another operator was to drain the node: what it says, then the node is tried once more, or left out.
    fn of_other_operator(&self) -> Vec<String> {
        let mut all = Vec::new();
        for node in self.nodes() {
            all.push(format!(
                "kubectl describe nodemaintenances.nodemaintenance.medik8s.io {node}"
            ));
            all.push(format!("numo retry {node}"));
            all.push(format!("numo skip {node}"));
        }
        all
    }

    /// Two things are said of one machine: who is wrong goes, and a person knows who that is.
    fn of_contradiction(&self) -> Vec<String> {
        let mut all = self.of_each("PendingNode", |name| {
            format!("kubectl describe pendingnode {name}")
        });
        let deleted = self.of_each("PendingNode", |name| format!("kubectl delete pendingnode {name}"));
        all.extend(deleted);
        let groups = self.of_each("ScalingGroup", |name| {
            format!("kubectl describe scalinggroup {name}")
        });
        all.extend(groups);
        if all.is_empty() {
            all.push("kubectl get pendingnodes,scalinggroups -o yaml".to_owned());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{live::Look, sample};
    use jiff::Timestamp;
    use numo_api::MutexRunConfigSpec;
    use numo_core::Owner;

    /// No edit of the NodeVersion names a machine or makes a provider answer.
    #[test]
    fn what_is_wrong_with_machines_is_mended_where_it_is() {
        let store = sample::store(&[], MutexRunConfigSpec::default());
        let look = Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH);
        let owner = Owner::node_version("nv");
        let of = |node, reason: Reason, message| {
            let wait = Wait {
                look: &look,
                owner: &owner,
                report: None,
                node,
                reason,
                who: reason.who(),
                message,
            };
            wait.commands()
        };
        assert_eq!(
            of(
                None,
                Reason::MachineUnknown,
                "Node a, b and 3 more spec.providerID: found none"
            ),
            ["kubectl describe node a"]
        );
        assert_eq!(
            of(Some("a"), Reason::JoinFailed, "3 machines in a row did not join"),
            [
                "kubectl get scalinggroups,pendingnodes",
                "numo retry a",
                "numo skip a",
                "kubectl edit nodeversion nv"
            ]
        );
        assert_eq!(
            of(
                None,
                Reason::ProviderContradicts,
                "PendingNode p spec.providerID: found m, and PendingNode q has it too"
            ),
            [
                "kubectl describe pendingnode p",
                "kubectl describe pendingnode q",
                "kubectl delete pendingnode p",
                "kubectl delete pendingnode q"
            ]
        );
        assert_eq!(
            of(
                None,
                Reason::ProviderContradicts,
                "the provider has no group G (ScalingGroup w) any more, and Node a is of it"
            ),
            ["kubectl describe scalinggroup w"]
        );
        assert_eq!(
            of(
                Some("a"),
                Reason::ScalingGroupNotFound,
                "found no ScalingGroup with spec.groupId"
            ),
            [
                "kubectl get scalinggroups -o yaml",
                "kubectl describe node a",
                "numo skip a"
            ]
        );
        assert_eq!(
            of(
                None,
                Reason::MaintenanceNotServed,
                "spec.mutex.drainBy: found NodeMaintenance"
            ),
            ["kubectl edit nodeversion nv"]
        );
        assert_eq!(
            of(
                Some("a"),
                Reason::MaintenanceFailed,
                "NodeMaintenance a status.phase: found Failed"
            ),
            [
                "kubectl describe nodemaintenances.nodemaintenance.medik8s.io a",
                "numo retry a",
                "numo skip a"
            ]
        );
        assert_eq!(
            of(
                None,
                Reason::InvalidField,
                "AutoscalingStrategy s spec.deploymentName: found mine"
            ),
            ["kubectl edit autoscalingstrategy s"]
        );
        let unavailable = of(None, Reason::ProviderUnavailable, "no provider of machines");
        assert!(
            unavailable.iter().all(|command| !command.contains(" edit ")),
            "{unavailable:?}"
        );
    }
}
