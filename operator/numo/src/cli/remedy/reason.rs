//! The commands of each reason.

use super::name::{invite, mentioned, placed};
use super::wait::Wait;
use numo_api::{Reason, conditions::Actor, marks};
use numo_core::{ledger, observed::Key};

impl Wait<'_> {
    /// The commands; none where nobody at a terminal can end it, or it ends by itself.
    pub fn commands(&self) -> Vec<String> {
        let all = self.by_reason();
        if all.is_empty() && self.is_a_persons() {
            // The sentence names nobody: the owner itself is there to be looked at.
            return vec![self.owner.kubectl("describe")];
        }
        all
    }

    fn by_reason(&self) -> Vec<String> {
        self.by_reason_of_owner()
            .or_else(|| self.by_reason_of_turn())
            .or_else(|| self.by_reason_of_drain())
            .or_else(|| self.by_reason_of_pool())
            .or_else(|| self.by_reason_of_machine())
            .or_else(|| self.by_reason_of_name())
            .or_else(|| self.by_reason_of_cluster())
            .unwrap_or_else(|| self.by_who_ends_it())
    }

    /// Of what a person did to the owner or to a node, or may do again.
    fn by_reason_of_owner(&self) -> Option<Vec<String>> {
        let observed = &self.look.store.observed;
        let all = match self.reason {
            Reason::Suspended => self.resume(),
            Reason::Aborted => self.undo(),
            Reason::RunGivenUp if self.is_given_up() => self.undo(),
            Reason::Stopped => {
                let paused = observed.budgets.values().filter(|budget| budget.paused);
                paused.map(|budget| ledger::start_command(&budget.name)).collect()
            }
            Reason::FailureBudgetSpent => self.of_failure_budget(),
            Reason::HeldByPerson => self.release_hold(),
            Reason::SkippedByPerson
            | Reason::SkippedByPolicy
            | Reason::ChangeTimeout
            | Reason::JobFailed
            | Reason::JobLost
            | Reason::RuleFailed => self.retry(),
            Reason::ForeignWriter => self.take_back(),
            Reason::ForeignController => self.beside_rival(),
            Reason::NodesLeftOut | Reason::NodesUngated => self.acknowledge(),
            Reason::OwnerGone | Reason::OwnerUnknown => vec!["numo status".to_owned()],
            Reason::DryRun => vec![format!(
                "{} --type merge -p '{{\"spec\":{{\"dryRun\":false}}}}'",
                self.owner.kubectl("patch")
            )],
            Reason::VersionUnresolved => vec![self.owner.kubectl("describe")],
            _ => return None,
        };
        Some(all)
    }

    /// Of a node that waits for its turn, or for another node.
    fn by_reason_of_turn(&self) -> Option<Vec<String>> {
        let all = match self.reason {
            Reason::NodeNotReady | Reason::Upgrading | Reason::Ungated if self.is_out_of_reach() => {
                let skip = self.node.map(|node| format!("numo skip {node}"));
                self.of_nodes("describe").into_iter().chain(skip).collect()
            }
            Reason::WaitingForTurn | Reason::MutexKeyBusy => self.of_full(),
            Reason::MaxUnavailableZero => self.raise(),
            Reason::FirstNodes | Reason::OtherDomain => {
                self.of_each("Node", |name| format!("numo explain {name}"))
            }
            Reason::WaitsForWave => self.of_wave(),
            Reason::WaitsForApproval | Reason::ApprovalExpired => self.approve(),
            Reason::WaitsForPlan => self.of_each("Plan", |name| {
                let (place, name) = self.placed_name(name);
                format!("numo explain plan/{name} -n {place}")
            }),
            Reason::CordonedByOther => self.uncordon(),
            Reason::NodeBusy => self.of_busy(),
            Reason::BudgetExhausted => {
                let budgets = self.of_each("MutexBudget", |name| format!("numo explain mutexbudget/{name}"));
                let edits = self.of_each("MutexBudget", |name| format!("kubectl edit mutexbudget {name}"));
                budgets.into_iter().chain(edits).collect()
            }
            Reason::NodeLeaseUnavailable => {
                vec![format!("kubectl create namespace {}", marks::LEASE_NAMESPACE)]
            }
            Reason::NoDomain => {
                let node = self
                    .node
                    .map(|node| format!("kubectl get node {node} --show-labels"));
                node.into_iter().collect()
            }
            Reason::NodeInTwoPools | Reason::NodeInNoPool | Reason::NodeDegraded => self.of_nodes("describe"),
            Reason::NodeInMaintenance => self.other_maintenance(),
            Reason::NodeNotFound => vec!["kubectl get nodes".to_owned(), self.owner.kubectl("delete")],
            Reason::EtcdQuorum | Reason::QuorumUnknown => {
                vec!["kubectl get nodes -l node-role.kubernetes.io/control-plane".to_owned()]
            }
            _ => return None,
        };
        Some(all)
    }

    /// Of pods that a drain does not get past.
    fn by_reason_of_drain(&self) -> Option<Vec<String>> {
        let all = match self.reason {
            Reason::EvictionBlocked | Reason::DrainBlocked | Reason::DrainTimeout => self.unblock(),
            Reason::EvictionRefused
            | Reason::DrainRefused
            | Reason::NotMigratable
            | Reason::PodsReturn
            | Reason::LastPlace => self.of_pods(),
            Reason::NamespaceTerminating => {
                let all = self.of_each("Namespace", |name| {
                    format!("kubectl get namespace {name} -o yaml")
                });
                if all.is_empty() {
                    let namespace = &self.owner.key.namespace;
                    vec![format!("kubectl get namespace {namespace} -o yaml")]
                } else {
                    all
                }
            }
            _ => return None,
        };
        Some(all)
    }

    /// Of a pool, or of who holds it.
    fn by_reason_of_pool(&self) -> Option<Vec<String>> {
        let all = match self.reason {
            Reason::PoolHeldByRun => self.of_other_run(),
            Reason::PoolHeld | Reason::PoolPausedByOther => self.held(),
            Reason::PoolNotFound | Reason::CanaryNotFound => {
                let mut all = vec!["kubectl get machineconfigpools".to_owned()];
                all.extend(self.of_each("MutexTarget", |name| {
                    placed("edit", "mutextarget", name, &self.owner.key.namespace)
                }));
                all.extend(self.edit());
                all
            }
            Reason::CanaryPaused => {
                self.of_pools("patch", " --type merge -p '{\"spec\":{\"paused\":false}}'")
            }
            Reason::CanaryPopulated | Reason::CanaryContentDiffers | Reason::SelectorMatchesControlPlane => {
                self.of_pools("edit", "")
            }
            // An image of its own is taken from a pool by the object that gives it.
            Reason::LayeredPool => vec!["kubectl get machineosconfigs".to_owned()],
            Reason::ControlPlanePool => {
                let all = self.of_each("MutexTarget", |name| {
                    let (place, name) = self.placed_name(name);
                    format!("kubectl -n {place} edit mutextarget {name}")
                });
                if all.is_empty() { self.edit() } else { all }
            }
            _ => return None,
        };
        Some(all)
    }

    /// Of an object that the owner names and that is not there: the list of those that are, then the owner.
    fn by_reason_of_name(&self) -> Option<Vec<String>> {
        let list = match self.reason {
            Reason::TargetNotFound => "mutextargets",
            Reason::RuleNotFound => "mutexrules",
            Reason::PlanNotFound | Reason::PlanCycle => "plans",
            Reason::SecretNotFound => "secrets",
            _ => return None,
        };
        let namespace = &self.owner.key.namespace;
        let mut all = vec![format!("kubectl -n {namespace} get {list}")];
        all.extend(self.edit());
        Some(all)
    }

    /// Of the cluster, and of what numo may list or read of it.
    fn by_reason_of_cluster(&self) -> Option<Vec<String>> {
        let Key { namespace, name } = &self.owner.key;
        let all = match self.reason {
            Reason::InvalidVersion => vec!["kubectl describe clusterversion version".to_owned()],
            Reason::PlanJobsForbidden => {
                let own = &self.look.store.observed.settings.namespace;
                vec![invite("numo-plans", namespace, own)]
            }
            // No edit of the owner mends what numo cannot list or read.
            Reason::ListFailed
            | Reason::NamespaceNotAllowed
            | Reason::WriteRefused
            | Reason::SecretsForbidden
            | Reason::OpenShiftMissing
            | Reason::ExternalControlPlane => {
                vec!["numo doctor".to_owned()]
            }
            // One that is being deleted may be gone by itself.
            Reason::JobBeingDeleted if !self.is_a_persons() => return None,
            Reason::JobBeingDeleted if !mentioned(self.message, "rule").is_empty() => self.of_job(),
            Reason::UpgradeCannotStart | Reason::JobBeingDeleted => {
                vec![format!(
                    "kubectl -n {namespace} describe jobs,pods -l {}={name}",
                    marks::PLAN
                )]
            }
            Reason::MarkUnreadable => self.command().unwrap_or_else(|| self.of_nodes("edit")),
            Reason::JournalContradicts => self.of_journals(),
            _ => return None,
        };
        Some(all)
    }

    /// Of every other reason: whoever ends it looks at what it is about.
    fn by_who_ends_it(&self) -> Vec<String> {
        match self.reason {
            // A rule says when: whoever owns it may look at it, and a person may go on without the node.
            reason if reason.who() == Actor::RuleAuthor => self.of_rules(),
            // The daemon or an operator of the node is stuck: what it says stands in the node's conditions and events.
            Reason::NodeNotDone
            | Reason::NodeLeaving
            | Reason::NodeNotReady
            | Reason::Upgrading
            | Reason::Ungated
                if self.is_a_persons() =>
            {
                self.of_nodes("describe")
            }
            Reason::ControlPlaneUpdating | Reason::PoolNotRendered if self.is_a_persons() => {
                vec!["kubectl describe clusterversion version".to_owned()]
            }
            reason if reason.who() == Actor::ClusterAdmin || self.is_a_persons() => {
                let named = [
                    ("MutexBinding", "mutexbinding"),
                    ("MutexWindow", "mutexwindow"),
                    ("AutoscalingStrategy", "autoscalingstrategy"),
                    ("ScalingGroup", "scalinggroup"),
                ];
                let edits = named.into_iter().flat_map(|(kind, resource)| {
                    self.of_each(kind, |name| format!("kubectl edit {resource} {name}"))
                });
                let edits: Vec<String> = edits.collect();
                if edits.is_empty() { self.edit() } else { edits }
            }
            _ => Vec::new(),
        }
    }

    /// Of a NodeChange that contradicts itself: it is looked at, and deleted, with which its turn starts over.
    fn of_journals(&self) -> Vec<String> {
        let shown = self.of_each("NodeChange", |name| {
            let (place, name) = self.placed_name(name);
            format!("kubectl -n {place} get nodechange {name} -o yaml")
        });
        let deleted = self.of_each("NodeChange", |name| {
            placed("delete", "nodechange", name, &self.owner.key.namespace)
        });
        shown.into_iter().chain(deleted).collect()
    }

    fn edit(&self) -> Vec<String> {
        vec![self.owner.kubectl("edit")]
    }

    /// Of a limit that is in the way: the MutexBinding that the sentence names is edited, or the owner.
    fn raise(&self) -> Vec<String> {
        let bindings = self.of_each("MutexBinding", |name| format!("kubectl edit mutexbinding {name}"));
        if bindings.is_empty() {
            self.edit()
        } else {
            bindings
        }
    }

    /// Of a node that waits for a wave: what the first node of that waits for, where one is named.
    fn of_wave(&self) -> Vec<String> {
        let names = self.message.strip_prefix("wave ");
        let names = names.and_then(|rest| rest.rsplit_once(": "));
        let first = names.and_then(|(_, names)| names.split([',', ' ']).next());
        first.map_or_else(|| self.edit(), |name| vec![format!("numo explain {name}")])
    }

    /// A command for each object of a kind that the sentence names.
    pub(super) fn of_each(&self, kind: &str, command: impl Fn(&str) -> String) -> Vec<String> {
        mentioned(self.message, kind).into_iter().map(command).collect()
    }

    /// Namespace and name of a mentioned object; without one, the namespace is the owner's.
    pub(super) fn placed_name<'m>(&'m self, name: &'m str) -> (&'m str, &'m str) {
        name.split_once('/').unwrap_or((&self.owner.key.namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{live::Look, remedy::wait::Wait, sample};
    use jiff::Timestamp;
    use numo_api::MutexRunConfigSpec;
    use numo_core::{
        Owner,
        observed::{BudgetView, Key},
        report::Report,
    };
    use std::collections::BTreeMap;

    /// A look at a cluster with the run ops/upgrade, and a budget that is paused.
    fn looked(annotations: &[(&str, &str)]) -> Look {
        let mut store = sample::store(annotations, MutexRunConfigSpec::default());
        for name in ["stop", "weekend"] {
            let budget = BudgetView {
                name: name.to_owned(),
                selector: serde_json::json!({}),
                max_unavailable: Err("unknown".to_owned()),
                group_by: None,
                max_groups: None,
                paused: true,
                annotations: BTreeMap::new(),
                uid: String::new(),
                generation: 1,
                status: numo_api::MutexBudgetStatus::default(),
            };
            store.observed.budgets.insert(name.to_owned(), budget);
        }
        Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH)
    }

    fn commands(look: &Look, node: Option<&str>, reason: Reason, message: &str) -> Vec<String> {
        commands_of(look, node, (reason, reason.who()), message)
    }

    fn commands_of(
        look: &Look,
        node: Option<&str>,
        (reason, who): (Reason, Actor),
        message: &str,
    ) -> Vec<String> {
        let report = Report::default();
        let wait = Wait {
            look,
            owner: &Owner::run(Key::new("ops", "upgrade")),
            report: Some(&report),
            node,
            reason,
            who,
            message,
        };
        wait.commands()
    }

    const MESSAGE: &str = "Node a: MutexBudget/all, MachineConfigPool worker, Pod shop/db-0 by PodDisruptionBudget \
                           shop/db, MutexRule ops/gated";

    #[test]
    fn every_reason_that_a_person_can_end_has_a_command() {
        let look = looked(&[]);
        for reason in Reason::ALL {
            if !matches!(reason.who(), Actor::ClusterAdmin | Actor::RuleAuthor) {
                continue;
            }
            for node in [None, Some("a")] {
                let found = commands(&look, node, *reason, MESSAGE);
                assert!(!found.is_empty(), "{reason} has no command");
                for command in &found {
                    let is_command = command.starts_with("kubectl ") || command.starts_with("numo ");
                    assert!(is_command && !command.contains("  "), "{reason}: {command}");
                }
                // Also where the sentence names nothing.
                assert!(
                    !commands(&look, Some("a"), *reason, "").is_empty() || *reason == Reason::BudgetExhausted
                );
            }
        }
    }

    /// Its rules before the run are asked again where one has failed or it was given up; of anything else numo refuses that.
    #[test]
    fn no_command_is_one_that_numo_refuses() {
        let look = looked(&[]);
        for reason in Reason::ALL {
            for who in [reason.who(), Actor::ClusterAdmin] {
                let found = commands_of(&look, None, (*reason, who), MESSAGE);
                let retried = found
                    .iter()
                    .any(|command| command.starts_with("numo retry mutexrunconfig/"));
                let may = matches!(
                    reason,
                    Reason::RuleFailed | Reason::RuleInvalid | Reason::RunGivenUp | Reason::Aborted
                );
                assert!(!retried || may, "{reason}: {found:?}");
            }
        }
        let first = |reason, message: &str| commands(&look, None, reason, message);
        assert_eq!(
            first(Reason::LayeredPool, MESSAGE),
            ["kubectl get machineosconfigs"]
        );
        assert_eq!(
            first(
                Reason::ControlPlanePool,
                "MutexTarget ops/all spec.machineConfigPools: found master"
            ),
            ["kubectl -n ops edit mutextarget all"]
        );
    }

    /// The same reason may end by itself, and by a person only: then there is a command too.
    #[test]
    fn every_wait_that_only_a_person_ends_has_a_command() {
        let look = looked(&[]);
        for reason in Reason::ALL {
            if matches!(reason.who(), Actor::Nobody) {
                continue;
            }
            for node in [None, Some("a")] {
                let found = commands_of(&look, node, (*reason, Actor::ClusterAdmin), MESSAGE);
                assert!(!found.is_empty(), "{reason} of {node:?} has no command");
            }
        }
        let first = |reason| commands_of(&look, Some("a"), (reason, Actor::ClusterAdmin), MESSAGE);
        assert_eq!(first(Reason::NodeBusy)[..2], ["numo explain a", "numo retry a"]);
        assert_eq!(first(Reason::NodeNotDone), ["kubectl describe node a"]);
        assert_eq!(first(Reason::MarkUnreadable), ["kubectl edit node a"]);
        let message = "NodeChange numo/run-a-1: status.nodeChangeUID: found \"b\", wanted its own uid c: it was written for another NodeChange, or";
        assert_eq!(
            commands(&look, Some("a"), Reason::JournalContradicts, message),
            [
                "kubectl -n numo get nodechange run-a-1 -o yaml",
                "kubectl -n numo delete nodechange run-a-1"
            ]
        );
        let jobs = format!("kubectl -n ops describe jobs,pods -l {}=upgrade", marks::PLAN);
        assert_eq!(first(Reason::JobBeingDeleted), [jobs.as_str()]);
        let message = "rule ops/backup, phase Pre, attempt 1, Job jobs/backup-1 is being deleted, or a pod of it still runs";
        assert_eq!(
            commands_of(
                &look,
                Some("a"),
                (Reason::JobBeingDeleted, Actor::ClusterAdmin),
                message
            ),
            [
                "kubectl -n jobs describe job backup-1",
                "kubectl -n jobs describe pods -l batch.kubernetes.io/job-name=backup-1"
            ]
        );
        assert_eq!(
            first(Reason::ControlPlaneUpdating),
            ["kubectl describe clusterversion version"]
        );
        assert_eq!(
            first(Reason::OutsideWindow),
            ["kubectl -n ops edit mutexrunconfig upgrade"]
        );
        let both = "MutexWindow nights and MutexWindow weekend never open";
        assert_eq!(
            commands_of(&look, Some("a"), (Reason::NeverOpens, Actor::ClusterAdmin), both),
            [
                "kubectl edit mutexwindow nights",
                "kubectl edit mutexwindow weekend"
            ]
        );
        let bound = "MutexBinding nights spec.window never opens";
        assert_eq!(
            commands_of(&look, Some("a"), (Reason::NeverOpens, Actor::ClusterAdmin), bound),
            ["kubectl edit mutexbinding nights"]
        );
        assert!(
            commands(&look, Some("a"), Reason::NodeBusy, MESSAGE).is_empty(),
            "it ends by itself"
        );
    }

    #[test]
    fn names_are_filled_in() {
        let look = looked(&[]);
        let first = |reason, message| commands(&look, Some("a"), reason, message).first().cloned();
        for (reason, wanted) in [
            (
                Reason::EvictionBlocked,
                "kubectl -n shop describe poddisruptionbudget db",
            ),
            (Reason::NotMigratable, "kubectl -n shop describe pod db-0"),
            (Reason::SkippedByPerson, "numo retry a"),
            (Reason::RuleInvalid, "kubectl -n ops get mutexrules"),
            (Reason::CordonedByOther, "kubectl uncordon a"),
            (Reason::InvalidField, "kubectl -n ops edit mutexrunconfig upgrade"),
            (Reason::ListFailed, "numo doctor"),
            (Reason::Stopped, "numo start"),
            (
                Reason::Suspended,
                "kubectl -n ops patch mutexrunconfig upgrade --type merge -p '{\"spec\":{\"suspend\":false}}'",
            ),
            (
                Reason::NodesUngated,
                "numo acknowledge mutexrunconfig/upgrade -n ops",
            ),
            (
                Reason::PoolHeld,
                "kubectl patch machineconfigpool worker --type merge -p '{\"spec\":{\"paused\":false}}'",
            ),
        ] {
            assert_eq!(first(reason, MESSAGE).as_deref(), Some(wanted), "{reason}");
        }
        let look = looked(&[(marks::ABORT, "run"), (marks::SUSPEND, "run")]);
        let of = |reason| commands(&look, Some("a"), reason, MESSAGE);
        assert_eq!(of(Reason::RunGivenUp), ["numo abort upgrade -n ops --undo"]);
        assert_eq!(
            of(Reason::Suspended),
            ["numo resume mutexrunconfig/upgrade -n ops"]
        );
        assert_eq!(
            of(Reason::PoolHeld).first().map(String::as_str),
            Some("numo abort upgrade -n ops --undo")
        );
        assert_eq!(of(Reason::Stopped), ["numo start", "numo start weekend"]);
    }
}
