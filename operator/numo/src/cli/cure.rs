//! Which verb ends a wait: commands to copy, for what a person at a terminal may end, with the names filled in. Decides
//! nothing, and names no command that the operator or the API server would refuse as things stand.

use super::look::Look;
use numo_api::{Reason, Step, conditions::Who, marks};
use numo_core::{
    MaintenanceGroup, Owner, OwnerKind, ledger,
    observed::{ChangeView, ForeignController, Key},
    report::{NodeReport, Report},
};

/// Names of one kind that get a command each, at most.
const NAMED: usize = 3;

/// What waits, and for what.
pub struct Wait<'a> {
    /// What was seen.
    pub look: &'a Look,
    /// Whose wait it is.
    pub owner: &'a Owner,
    /// What was decided for the owner; a NodeMaintenance speaks by its status alone.
    pub report: Option<&'a Report>,
    /// The node that waits, if it is one.
    pub node: Option<&'a str>,
    /// Why.
    pub reason: Reason,
    /// Who ends this wait, which may be somebody else than who ends the reason as a rule.
    pub who: Who,
    /// The sentence that names objects.
    pub message: &'a str,
}

/// The owner as a verb of numo takes it, with its namespace.
fn named(owner: &Owner) -> String {
    match owner.kind {
        OwnerKind::Plan => format!("plan/{} -n {}", owner.key.name, owner.key.namespace),
        OwnerKind::MutexRunConfig => format!("mutexrunconfig/{} -n {}", owner.key.name, owner.key.namespace),
        OwnerKind::NodeMaintenance(_) => format!("nodemaintenance/{}", owner.key.name),
    }
}

/// The owner as `kubectl <verb>` takes it.
fn of_kubectl(verb: &str, owner: &Owner) -> String {
    let Key { namespace, name } = &owner.key;
    match owner.kind {
        OwnerKind::Plan => format!("kubectl -n {namespace} {verb} plan {name}"),
        OwnerKind::MutexRunConfig => format!("kubectl -n {namespace} {verb} mutexrunconfig {name}"),
        OwnerKind::NodeMaintenance(group) => format!("kubectl {verb} {} {name}", maintenances(group)),
    }
}

/// The resource of NodeMaintenances of a group, which two groups have.
const fn maintenances(group: MaintenanceGroup) -> &'static str {
    match group {
        MaintenanceGroup::Medik8s => "nm",
        MaintenanceGroup::KubeVirt => "nodemaintenances.nodemaintenance.kubevirt.io",
    }
}

/// What ends the wait of an owner.
pub fn of_owner(
    look: &Look,
    owner: &Owner,
    report: &Report,
    (reason, who, message): (Reason, Who, &str),
) -> Vec<String> {
    Wait {
        look,
        owner,
        report: Some(report),
        node: None,
        reason,
        who,
        message,
    }
    .commands()
}

/// What ends the wait of a node.
pub fn of_node(look: &Look, owner: &Owner, report: &Report, name: &str, node: &NodeReport) -> Vec<String> {
    let wait = Wait {
        look,
        owner,
        report: Some(report),
        node: Some(name),
        reason: node.why.reason,
        who: node.why.who(),
        message: &node.why.message,
    };
    match (node.step, node.why.reason) {
        (Step::Held, Reason::HeldByPerson) => wait.commands(),
        (Step::Held, _) => of_held(look, name, node),
        _ => wait.commands(),
    }
}

/// A node that waits for a person: ask again, or go on without it if it was not let go.
fn of_held(look: &Look, name: &str, node: &NodeReport) -> Vec<String> {
    let mut all = vec![format!("numo retry {name}")];
    // A node of a run that is back has failed a rule: that rule is asked again, or the run is given up.
    let is_back = look.change_of(node).is_none_or(|change| {
        let mut entries = change.status.entries.iter();
        let of_run = change.spec.owner_ref.kind == OwnerKind::MutexRunConfig.name();
        of_run && node.why.reason == Reason::RuleFailed && entries.any(|entry| entry.step == Step::Released)
    });
    if !is_back {
        all.push(format!("numo skip {name}"));
    }
    all
}

/// Who has the node's turn, if that is another owner than this one.
pub fn turn_of_other<'a>(look: &'a Look, owner: &Owner, node: &str) -> Option<&'a ChangeView> {
    let observed = &look.store.observed;
    let node = observed.nodes.get(node)?;
    observed.turn_of_other(node, observed.uid_of(owner)?)
}

/// The name after each mention of a kind in a sentence: of `Pod shop/db-0 cannot be evicted` and `Pod` `shop/db-0`.
fn mentioned<'m>(message: &'m str, kind: &str) -> Vec<&'m str> {
    let mut found = Vec::new();
    for (at, _) in message.match_indices(kind) {
        let before = message[..at].chars().next_back();
        let rest = &message[at + kind.len()..];
        let Some(name) = rest.strip_prefix([' ', '/']) else {
            continue;
        };
        let end = name.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-./".contains(letter)));
        let name = name[..end.unwrap_or(name.len())].trim_end_matches(['.', '/']);
        let is_word = before.is_none_or(|letter| !letter.is_ascii_alphanumeric());
        if is_word && !name.is_empty() && !found.contains(&name) && found.len() < NAMED {
            found.push(name);
        }
    }
    found
}

/// `-n namespace name` of `namespace/name`; of a name alone in this namespace.
fn placed(verb: &str, resource: &str, name: &str, namespace: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
    format!("kubectl -n {namespace} {verb} {resource} {name}")
}

impl Wait<'_> {
    /// The commands; none where nobody at a terminal can end it, or it ends by itself.
    pub fn commands(&self) -> Vec<String> {
        let all = self.by_reason();
        if all.is_empty() && self.is_a_persons() {
            // The sentence names nobody: the owner itself is there to be looked at.
            return vec![of_kubectl("describe", self.owner)];
        }
        all
    }

    fn by_reason(&self) -> Vec<String> {
        let Self {
            owner,
            reason,
            message,
            ..
        } = *self;
        let observed = &self.look.store.observed;
        let namespace = owner.key.namespace.as_str();
        let edit = || vec![of_kubectl("edit", owner)];
        let of_each = |kind: &str, command: &dyn Fn(&str) -> String| -> Vec<String> {
            mentioned(message, kind).into_iter().map(command).collect()
        };
        match reason {
            Reason::Suspended => self.resume(),
            Reason::Aborted => self.undo(),
            Reason::Stopped => {
                let paused = observed.budgets.values().filter(|budget| budget.paused);
                paused.map(|budget| ledger::start_command(&budget.name)).collect()
            }
            Reason::FailureBudgetSpent => {
                // Of a node that is gone the sentence has the command.
                let gone = message.split("`numo skip ").nth(1);
                let gone = gone.and_then(|rest| rest.split('`').next());
                let held = |report: &Report| report.nodes.values().any(|node| node.step == Step::Held);
                match gone {
                    Some(node) => vec![format!("numo skip {node}")],
                    None if self.report.is_some_and(held) => self.of_first(|node| node.step == Step::Held),
                    None => edit(),
                }
            }
            Reason::NodeNotReady | Reason::Upgrading | Reason::Ungated if self.is_out_of_reach() => {
                let skip = self.node.map(|node| format!("numo skip {node}"));
                self.of_nodes("describe").into_iter().chain(skip).collect()
            }
            Reason::WaitingForTurn | Reason::MutexKeyBusy => self.of_full(),
            Reason::FirstNodes => of_each("Node", &|name| format!("numo explain {name}")),
            Reason::PoolHeldByRun => self.of_other_run(),
            Reason::WaitsForPlan => of_each("Plan", &|name| {
                let (place, name) = name.split_once('/').unwrap_or((namespace, name));
                format!("numo explain plan/{name} -n {place}")
            }),
            Reason::CordonedByOther => self.uncordon(),
            Reason::NodeBusy => self.of_busy(),
            Reason::PoolHeld | Reason::PoolPausedByOther => self.held(),
            Reason::RunGivenUp
                if self
                    .look
                    .annotations(owner)
                    .is_some_and(|all| all.contains_key(marks::ABORT)) =>
            {
                self.undo()
            }
            Reason::HeldByPerson
            | Reason::SkippedByPerson
            | Reason::SkippedByPolicy
            | Reason::ChangeTimeout
            | Reason::JobFailed
            | Reason::JobLost
            | Reason::RuleFailed => self.retry(),
            Reason::BudgetExhausted => {
                let budgets = of_each("MutexBudget", &|name| format!("numo explain mutexbudget/{name}"));
                let edits = of_each("MutexBudget", &|name| format!("kubectl edit mutexbudget {name}"));
                budgets.into_iter().chain(edits).collect()
            }
            Reason::EvictionBlocked | Reason::DrainBlocked | Reason::DrainTimeout => self.unblock(),
            Reason::EvictionRefused
            | Reason::DrainRefused
            | Reason::NotMigratable
            | Reason::PodsReturn
            | Reason::LastPlace => self.of_pods(),
            Reason::NamespaceTerminating => {
                let all = of_each("Namespace", &|name| {
                    format!("kubectl get namespace {name} -o yaml")
                });
                if all.is_empty() {
                    vec![format!("kubectl get namespace {namespace} -o yaml")]
                } else {
                    all
                }
            }
            Reason::NodeLeaseUnavailable => {
                vec![format!("kubectl create namespace {}", marks::LEASE_NAMESPACE)]
            }
            Reason::PoolNotFound | Reason::CanaryNotFound => {
                let mut all = vec!["kubectl get machineconfigpools".to_owned()];
                all.extend(of_each("MutexTarget", &|name| {
                    placed("edit", "mutextarget", name, namespace)
                }));
                all.extend(edit());
                all
            }
            Reason::TargetNotFound => {
                vec![
                    format!("kubectl -n {namespace} get mutextargets"),
                    of_kubectl("edit", owner),
                ]
            }
            Reason::RuleNotFound => {
                vec![
                    format!("kubectl -n {namespace} get mutexrules"),
                    of_kubectl("edit", owner),
                ]
            }
            Reason::CanaryPaused => {
                self.of_pools("patch", " --type merge -p '{\"spec\":{\"paused\":false}}'")
            }
            Reason::CanaryPopulated | Reason::CanaryContentDiffers | Reason::SelectorMatchesControlPlane => {
                self.of_pools("edit", "")
            }
            // An image of its own is taken from a pool by the object that gives it.
            Reason::LayeredPool => vec!["kubectl get machineosconfigs".to_owned()],
            Reason::InvalidVersion => vec!["kubectl describe clusterversion version".to_owned()],
            Reason::ControlPlanePool => {
                let all = of_each("MutexTarget", &|name| {
                    let (place, name) = name.split_once('/').unwrap_or((namespace, name));
                    format!("kubectl -n {place} edit mutextarget {name}")
                });
                if all.is_empty() { edit() } else { all }
            }
            Reason::NodeInTwoPools | Reason::NodeInNoPool | Reason::NodeDegraded => self.of_nodes("describe"),
            Reason::NodeInMaintenance => self.other_maintenance(),
            Reason::NodeNotFound => vec!["kubectl get nodes".to_owned(), of_kubectl("delete", owner)],
            Reason::EtcdQuorum | Reason::QuorumUnknown => {
                vec!["kubectl get nodes -l node-role.kubernetes.io/control-plane".to_owned()]
            }
            Reason::ForeignWriter => self.take_back(),
            Reason::ForeignController => self.beside_rival(),
            // No edit of the owner mends what numo cannot list or read.
            Reason::ListFailed
            | Reason::NamespaceNotAllowed
            | Reason::WriteRefused
            | Reason::SecretsForbidden
            | Reason::OpenShiftMissing
            | Reason::ExternalControlPlane => {
                vec!["numo doctor".to_owned()]
            }
            Reason::NodesLeftOut | Reason::NodesUngated => self.acknowledge(),
            Reason::OwnerGone | Reason::OwnerUnknown => vec!["numo status".to_owned()],
            Reason::DryRun => vec![format!(
                "{} --type merge -p '{{\"spec\":{{\"dryRun\":false}}}}'",
                of_kubectl("patch", owner)
            )],
            Reason::UpgradeCannotStart => {
                vec![format!(
                    "kubectl -n {namespace} describe jobs,pods -l {}={}",
                    marks::PLAN,
                    owner.key.name
                )]
            }
            Reason::PlanNotFound | Reason::PlanCycle => {
                vec![
                    format!("kubectl -n {namespace} get plans"),
                    of_kubectl("edit", owner),
                ]
            }
            Reason::SecretNotFound => {
                let mut all = vec![format!("kubectl -n {namespace} get secrets")];
                all.extend(edit());
                all
            }
            Reason::VersionUnresolved => vec![of_kubectl("describe", owner)],
            // A rule says when: whoever owns it may look at it, and a person may go on without the node.
            _ if reason.who() == Who::RuleAuthor => self.of_rules(),
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
            _ if reason.who() == Who::ClusterAdmin || self.is_a_persons() => {
                let bindings = of_each("MutexBinding", &|name| {
                    format!("kubectl edit mutexbinding {name}")
                });
                if bindings.is_empty() { edit() } else { bindings }
            }
            _ => Vec::new(),
        }
    }

    /// Whether only a person ends this wait.
    fn is_a_persons(&self) -> bool {
        self.who == Who::ClusterAdmin
    }

    /// A limit is full: of nodes that keep their turn until a person speaks, or because it lets nobody through.
    fn of_full(&self) -> Vec<String> {
        let kept = self.of_kept();
        if !kept.is_empty() || !self.is_a_persons() {
            return kept;
        }
        let bindings = self.look.store.observed.bindings.iter();
        let limits = bindings.filter(|(_, binding)| {
            binding.spec.settings.max_unavailable.is_some()
                && binding.spec.owner_selector.kind == self.owner.kind.name()
        });
        let bindings = limits
            .take(NAMED)
            .map(|(name, _)| format!("kubectl edit mutexbinding {name}"));
        bindings.chain([of_kubectl("edit", self.owner)]).collect()
    }

    /// Another owner has the node in hand: a maintenance is ended by its deletion, a turn that is stuck by a word on its node.
    fn of_busy(&self) -> Vec<String> {
        let all = self.uncordon();
        if !all.is_empty() || !self.is_a_persons() {
            return all;
        }
        let nodes = self.nodes().into_iter();
        let words = nodes.flat_map(|node| {
            [
                format!("numo explain {node}"),
                format!("numo retry {node}"),
                format!("numo skip {node}"),
            ]
        });
        words.collect()
    }

    /// The nodes that keep their turn until a person speaks, while others wait for it.
    fn of_kept(&self) -> Vec<String> {
        let nodes = self.report.into_iter().flat_map(|report| &report.nodes);
        let held = nodes.filter(|(_, node)| {
            node.step == Step::Held || node.in_flight() && node.why.who() == Who::ClusterAdmin
        });
        held.take(NAMED)
            .map(|(name, _)| format!("numo explain {name}"))
            .collect()
    }

    /// The run that holds the pool: one that is over is deleted, or the pool stays held.
    fn of_other_run(&self) -> Vec<String> {
        let runs = &self.look.store.observed.runs;
        let names = mentioned(self.message, "MutexRunConfig").into_iter();
        names
            .map(|name| {
                let (namespace, name) = name.split_once('/').unwrap_or((&self.owner.key.namespace, name));
                let run = runs
                    .get(&Key::new(namespace, name))
                    .and_then(|run| run.status.run.as_ref());
                if run.is_some_and(|run| run.finished_at.is_some()) {
                    format!("kubectl -n {namespace} delete mutexrunconfig {name}")
                } else {
                    format!("numo explain mutexrunconfig/{name} -n {namespace}")
                }
            })
            .collect()
    }

    /// Whether it is a node that is not Ready and waits for its turn or keeps its place in one: others go on without it by a
    /// person's word. Who maintains a node wants it whatever it is.
    fn is_out_of_reach(&self) -> bool {
        let (Some(node), Some(report)) = (self.node, self.report) else {
            return false;
        };
        let is_away = self
            .look
            .store
            .observed
            .nodes
            .get(node)
            .is_some_and(|node| !node.ready);
        let waits = report
            .nodes
            .get(node)
            .is_some_and(|node| !node.step.is_terminal());
        matches!(self.owner.kind, OwnerKind::Plan | OwnerKind::MutexRunConfig) && is_away && waits
    }

    fn resume(&self) -> Vec<String> {
        let annotations = self.look.annotations(self.owner);
        let by_hand = annotations.is_some_and(|all| all.contains_key(marks::SUSPEND));
        if by_hand || self.owner.kind != OwnerKind::MutexRunConfig {
            return vec![format!("numo resume {}", named(self.owner))];
        }
        let patch = of_kubectl("patch", self.owner);
        vec![format!(
            "{patch} --type merge -p '{{\"spec\":{{\"suspend\":false}}}}'"
        )]
    }

    fn undo(&self) -> Vec<String> {
        let Key { namespace, name } = &self.owner.key;
        let name = match self.owner.kind {
            OwnerKind::Plan => format!("plan/{name}"),
            _ => name.clone(),
        };
        vec![format!("numo abort {name} -n {namespace} --undo")]
    }

    /// Nodes that were left out are taken in again; and who has looked says so.
    fn acknowledge(&self) -> Vec<String> {
        let nodes = self.report.into_iter().flat_map(|report| &report.nodes);
        // Who never had a turn has no journal on which to be asked again.
        let left_out = nodes
            .filter(|(_, node)| matches!(node.step, Step::Skipped | Step::Failed) && node.change.is_some());
        let left_out = left_out.take(NAMED).map(|(name, _)| format!("numo retry {name}"));
        left_out
            .chain([format!("numo acknowledge {}", named(self.owner))])
            .collect()
    }

    /// The node that waits, or the nodes that the sentence names.
    fn nodes(&self) -> Vec<String> {
        match self.node {
            Some(node) => vec![node.to_owned()],
            None => mentioned(self.message, "Node")
                .into_iter()
                .map(ToOwned::to_owned)
                .collect(),
        }
    }

    fn retry(&self) -> Vec<String> {
        let nodes = self.nodes();
        if nodes.is_empty() {
            return self.of_first(|node| matches!(node.step, Step::Held | Step::Skipped | Step::Failed));
        }
        nodes.iter().map(|node| format!("numo retry {node}")).collect()
    }

    /// What ends the wait of the first node of which that is so; else that the run is asked again.
    fn of_first(&self, is: impl Fn(&NodeReport) -> bool) -> Vec<String> {
        let found = self
            .report
            .and_then(|report| report.nodes.iter().find(|(_, node)| is(node)));
        match found {
            Some((name, node)) if node.step == Step::Held => of_held(self.look, name, node),
            Some((name, _)) => vec![format!("numo retry {name}")],
            None if self.owner.kind == OwnerKind::MutexRunConfig => {
                vec![format!("numo retry {}", named(self.owner))]
            }
            None => vec![of_kubectl("describe", self.owner)],
        }
    }

    fn of_nodes(&self, verb: &str) -> Vec<String> {
        let nodes = self.nodes();
        if nodes.is_empty() {
            return vec![format!("kubectl {verb} nodes")];
        }
        nodes
            .iter()
            .map(|node| format!("kubectl {verb} node {node}"))
            .collect()
    }

    /// A node that is cordoned, or has its turn with somebody: it is opened by whoever closed it.
    fn uncordon(&self) -> Vec<String> {
        let observed = &self.look.store.observed;
        let mut all = Vec::new();
        for node in self.nodes() {
            let of = observed.maintenances.values();
            let kept = of.filter(|view| view.spec.node_name == node && view.owner != *self.owner);
            let kept: Vec<String> = kept.map(|view| of_kubectl("delete", &view.owner)).collect();
            if !kept.is_empty() {
                all.extend(kept);
            } else if self.reason == Reason::CordonedByOther
                && turn_of_other(self.look, self.owner, &node).is_none()
            {
                all.push(format!("kubectl uncordon {node}"));
            }
        }
        all
    }

    /// The operator that numo replaces is live: what numo did to a node is taken back, or the rival is scaled down.
    fn beside_rival(&self) -> Vec<String> {
        let observed = &self.look.store.observed;
        let mut all = Vec::new();
        let turn = |node: &&str| {
            let mut turns = observed.turns();
            turns.any(|change| {
                change.spec.node_name == **node
                    && observed.uid_of(self.owner) == Some(&change.spec.owner_ref.uid)
            })
        };
        if let Some(node) = self.node.filter(turn) {
            if let OwnerKind::NodeMaintenance(_) = self.owner.kind {
                // Whoever is live puts the node back.
                all.push(of_kubectl("delete", self.owner));
            }
            all.push(format!("numo skip {node}"));
        }
        let rivals = observed.foreign_controllers.iter();
        let rivals = rivals.filter(|(_, rival)| {
            rival.what == ForeignController::of(self.owner.kind) && rival.lingers.is_none()
        });
        all.extend(rivals.map(|(key, _)| {
            format!(
                "kubectl -n {} scale deployment {} --replicas 0",
                key.namespace, key.name
            )
        }));
        all.push("numo doctor".to_owned());
        all
    }

    /// Pools that stay paused: take the run up again, take in again who was left out, or unpause.
    fn held(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(report) = self.report.filter(|_| self.reason == Reason::PoolHeld) {
            let aborted = self
                .look
                .annotations(self.owner)
                .is_some_and(|all| all.contains_key(marks::ABORT));
            if aborted {
                all.extend(self.undo());
            }
            let left_out = report
                .nodes
                .iter()
                .filter(|(_, node)| matches!(node.step, Step::Skipped | Step::Failed));
            all.extend(left_out.take(NAMED).map(|(name, _)| format!("numo retry {name}")));
        }
        all.extend(self.of_pools("patch", " --type merge -p '{\"spec\":{\"paused\":false}}'"));
        all
    }

    fn of_pools(&self, verb: &str, more: &str) -> Vec<String> {
        let mut pools = mentioned(self.message, "MachineConfigPool");
        let known = self.look.store.observed.pools.keys();
        if pools.is_empty() {
            let spoken = known.filter(|name| self.message.contains(name.as_str()));
            pools = spoken.take(NAMED).map(String::as_str).collect();
        }
        if pools.is_empty() {
            return vec!["kubectl get machineconfigpools".to_owned()];
        }
        let pools = pools.into_iter();
        pools
            .map(|pool| format!("kubectl {verb} machineconfigpool {pool}{more}"))
            .collect()
    }

    /// A budget of a workload holds its pod: who owns it scales up or changes it, or the node goes without.
    fn unblock(&self) -> Vec<String> {
        let budgets = mentioned(self.message, "PodDisruptionBudget");
        let mut all: Vec<String> = budgets
            .iter()
            .map(|name| placed("describe", "poddisruptionbudget", name, "default"))
            .collect();
        if all.is_empty() {
            all.extend(self.of_pods());
        }
        if let OwnerKind::NodeMaintenance(_) = self.owner.kind {
            all.push(of_kubectl("delete", self.owner));
        } else if let Some(node) = self.node {
            all.push(format!("numo skip {node}"));
        }
        all
    }

    fn of_pods(&self) -> Vec<String> {
        let pods = mentioned(self.message, "Pod");
        if pods.is_empty() {
            let nodes = self.nodes();
            let of = |node: &String| format!("kubectl get pods -A --field-selector spec.nodeName={node}");
            let all: Vec<String> = nodes.iter().map(of).collect();
            return if all.is_empty() {
                vec![of_kubectl("describe", self.owner)]
            } else {
                all
            };
        }
        let pods = pods.into_iter();
        pods.map(|name| placed("describe", "pod", name, "default"))
            .collect()
    }

    fn other_maintenance(&self) -> Vec<String> {
        let nodes = self.nodes();
        let views = self.look.store.observed.maintenances.values();
        let others = views.filter(|view| {
            view.owner != *self.owner
                && (nodes.contains(&view.spec.node_name) || self.message.contains(&view.owner.key.name))
        });
        let all: Vec<String> = others
            .take(NAMED)
            .map(|view| of_kubectl("delete", &view.owner))
            .collect();
        if all.is_empty() {
            vec!["kubectl get nm".to_owned()]
        } else {
            all
        }
    }

    /// Somebody keeps changing what numo set: who it is stands in the sentence.
    fn take_back(&self) -> Vec<String> {
        if let OwnerKind::NodeMaintenance(group) = self.owner.kind {
            let taint = match group {
                MaintenanceGroup::Medik8s => marks::MEDIK8S_DRAIN,
                MaintenanceGroup::KubeVirt => marks::KUBEVIRT_DRAIN,
            };
            let mut all = Vec::new();
            for node in self.nodes() {
                all.push(format!("kubectl cordon {node}"));
                all.push(format!(
                    "kubectl taint --overwrite node {node} {taint}:NoSchedule"
                ));
            }
            all.push(of_kubectl("delete", self.owner));
            return all;
        }
        if self.owner.kind == OwnerKind::Plan {
            let nodes = self.nodes().into_iter();
            return nodes
                .flat_map(|node| [format!("kubectl cordon {node}"), format!("numo skip {node}")])
                .collect();
        }
        let mut all = self.of_pools("get", " -o yaml --show-managed-fields");
        // Once who keeps changing it has stopped, what numo set is set again by hand: that is where it goes on.
        if self.message.contains("unpaused") {
            all.extend(self.of_pools("patch", " --type merge -p '{\"spec\":{\"paused\":true}}'"));
        } else if self.message.contains("MachineConfigPool") || self.message.contains("pool ") {
            all.extend(self.of_pools("edit", ""));
        } else {
            all = self.of_nodes("describe");
        }
        all
    }

    /// Rules: those that the sentence names, else all of the owner's namespace.
    fn of_rules(&self) -> Vec<String> {
        let namespace = &self.owner.key.namespace;
        let mut names = mentioned(self.message, "MutexRule");
        if names.is_empty() {
            names = mentioned(self.message, "rule");
        }
        let known = |name: &&str| {
            let rules = &self.look.store.observed.rules;
            let (place, name) = name.split_once('/').unwrap_or((namespace, name));
            rules.contains_key(&Key::new(place, name))
        };
        let mut all: Vec<String> = Vec::new();
        for name in names.into_iter().filter(known) {
            let (place, name) = name.split_once('/').unwrap_or((namespace, name));
            all.push(format!("numo explain mutexrule/{name} -n {place}"));
            all.push(format!("kubectl -n {place} edit mutexrule {name}"));
        }
        if all.is_empty() {
            all.push(format!("kubectl -n {namespace} get mutexrules"));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli::look, shell::store::Store};
    use jiff::Timestamp;
    use numo_api::{MutexRunConfigSpec, MutexRunConfigStatus};
    use numo_core::observed::{BudgetView, RunConfigView};
    use std::collections::BTreeMap;

    /// A look at a cluster with the run ops/upgrade, and a budget that is paused.
    fn looked(annotations: &[(&str, &str)]) -> Look {
        let mut store = Store::new(look::settings());
        let key = Key::new("ops", "upgrade");
        let annotations = annotations.iter();
        let run = RunConfigView {
            key: key.clone(),
            uid: "uid".to_owned(),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            finalizers: Vec::new(),
            annotations: annotations
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            spec: MutexRunConfigSpec::default(),
            workloads_check: None,
            misread: None,
            keeps_status: false,
            hours: None,
            status: MutexRunConfigStatus::default(),
        };
        store.observed.runs.insert(key, run);
        for name in ["stop", "weekend"] {
            let budget = BudgetView {
                name: name.to_owned(),
                selector: serde_json::json!({}),
                max_unavailable: Err("unknown".to_owned()),
                group_by: None,
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
        (reason, who): (Reason, Who),
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
            if !matches!(reason.who(), Who::ClusterAdmin | Who::RuleAuthor) {
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
            for who in [reason.who(), Who::ClusterAdmin] {
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
            first(
                Reason::ForeignWriter,
                "MachineConfigPool worker was unpaused 4 times, last by argocd-controller; numo no longer pauses it"
            ),
            [
                "kubectl get machineconfigpool worker -o yaml --show-managed-fields",
                "kubectl patch machineconfigpool worker --type merge -p '{\"spec\":{\"paused\":true}}'"
            ]
        );
        assert_eq!(
            first(
                Reason::FailureBudgetSpent,
                "1 of 1 nodes may fail, and have: a; `numo skip a` goes on without the node that is gone"
            ),
            ["numo skip a"]
        );
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
            if matches!(reason.who(), Who::Nobody) {
                continue;
            }
            for node in [None, Some("a")] {
                let found = commands_of(&look, node, (*reason, Who::ClusterAdmin), MESSAGE);
                assert!(!found.is_empty(), "{reason} of {node:?} has no command");
            }
        }
        let first = |reason| commands_of(&look, Some("a"), (reason, Who::ClusterAdmin), MESSAGE);
        assert_eq!(first(Reason::NodeBusy)[..2], ["numo explain a", "numo retry a"]);
        assert_eq!(first(Reason::NodeNotDone), ["kubectl describe node a"]);
        assert_eq!(
            first(Reason::ControlPlaneUpdating),
            ["kubectl describe clusterversion version"]
        );
        assert_eq!(
            first(Reason::OutsideWindow),
            ["kubectl -n ops edit mutexrunconfig upgrade"]
        );
        let bound = "MutexBinding nights spec.window never opens";
        assert_eq!(
            commands_of(&look, Some("a"), (Reason::NeverOpens, Who::ClusterAdmin), bound),
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
