//! Commands on an owner: resume it, acknowledge what it left out, or stop whoever works beside it.

use super::name::{NAMED, mentioned, named};
use super::wait::Wait;
use numo_api::{Step, conditions::Actor, marks};
use numo_core::{
    MaintenanceGroup, OwnerKind,
    observed::{ForeignController, Key},
};

impl Wait<'_> {
    /// A limit is full: of nodes that keep their turn until a person speaks, or because it lets nobody through.
    pub(super) fn of_full(&self) -> Vec<String> {
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
        bindings.chain([self.owner.kubectl("edit")]).collect()
    }

    /// The nodes that keep their turn until a person speaks, while others wait for it.
    fn of_kept(&self) -> Vec<String> {
        let nodes = self.report.into_iter().flat_map(|report| &report.nodes);
        let held = nodes.filter(|(_, node)| {
            node.step == Step::Held || node.in_flight() && node.why.who() == Actor::ClusterAdmin
        });
        held.take(NAMED)
            .map(|(name, _)| format!("numo explain {name}"))
            .collect()
    }

    /// The run that holds the pool: one that is over is deleted, or the pool stays held.
    pub(super) fn of_other_run(&self) -> Vec<String> {
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

    pub(super) fn resume(&self) -> Vec<String> {
        let annotations = self.look.annotations(self.owner);
        let by_hand = annotations.is_some_and(|all| all.contains_key(marks::SUSPEND));
        if by_hand || self.owner.kind != OwnerKind::MutexRunConfig {
            return vec![format!("numo resume {}", named(self.owner))];
        }
        let patch = self.owner.kubectl("patch");
        vec![format!(
            "{patch} --type merge -p '{{\"spec\":{{\"suspend\":false}}}}'"
        )]
    }

    /// Nodes that were left out are taken in again; and who has looked says so.
    pub(super) fn acknowledge(&self) -> Vec<String> {
        let nodes = self.report.into_iter().flat_map(|report| &report.nodes);
        // Who never had a turn has no journal on which to be asked again.
        let left_out = nodes
            .filter(|(_, node)| matches!(node.step, Step::Skipped | Step::Failed) && node.change.is_some());
        let left_out = left_out.take(NAMED).map(|(name, _)| format!("numo retry {name}"));
        left_out
            .chain([format!("numo acknowledge {}", named(self.owner))])
            .collect()
    }

    /// The operator that numo replaces is live: what numo did to a node is taken back, or the rival is scaled down.
    pub(super) fn beside_rival(&self) -> Vec<String> {
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
                all.push(self.owner.kubectl("delete"));
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

    pub(super) fn other_maintenance(&self) -> Vec<String> {
        let nodes = self.nodes();
        let views = self.look.store.observed.maintenances.values();
        let others = views.filter(|view| {
            view.owner != *self.owner
                && (nodes.contains(&view.spec.node_name) || self.message.contains(&view.owner.key.name))
        });
        let all: Vec<String> = others
            .take(NAMED)
            .map(|view| view.owner.kubectl("delete"))
            .collect();
        if all.is_empty() {
            vec!["kubectl get nm".to_owned()]
        } else {
            all
        }
    }

    /// Somebody keeps changing what numo set: who it is stands in the sentence.
    pub(super) fn take_back(&self) -> Vec<String> {
        if let Some(command) = self.command() {
            return command;
        }
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
            all.push(self.owner.kubectl("delete"));
            return all;
        }
        if matches!(self.owner.kind, OwnerKind::Plan | OwnerKind::NodeVersion) {
            let nodes = self.nodes().into_iter();
            return nodes
                .flat_map(|node| [format!("kubectl cordon {node}"), format!("numo skip {node}")])
                .collect();
        }
        self.set_again()
    }
}
