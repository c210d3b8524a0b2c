//! Commands on nodes and their pods.

use super::name::{mentioned, named, placed};
use super::wait::Wait;
use crate::cli::live::Look;
use numo_api::{Reason, Step};
use numo_core::{Owner, OwnerKind, observed::ChangeView, report::NodeReport};

/// A node that waits for a person: ask again, or go on without it if it was not let go.
pub(super) fn of_held(look: &Look, name: &str, node: &NodeReport) -> Vec<String> {
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

impl Wait<'_> {
    /// Another owner has the node in hand: a maintenance is ended by its deletion, a turn that is stuck by a word on its node.
    pub(super) fn of_busy(&self) -> Vec<String> {
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

    /// A person holds the node: the hold is taken back.
    pub(super) fn release_hold(&self) -> Vec<String> {
        let nodes = self.nodes();
        if nodes.is_empty() {
            return self.of_first(|node| node.step == Step::Held);
        }
        nodes
            .iter()
            .map(|node| format!("numo hold {node} --undo"))
            .collect()
    }

    pub(super) fn retry(&self) -> Vec<String> {
        let waits = |node: &NodeReport| matches!(node.step, Step::Held | Step::Skipped | Step::Failed);
        let mut nodes = self.nodes();
        if let Some(report) = self
            .report
            .filter(|report| self.node.is_none() && !report.nodes.is_empty())
        {
            // A rule that failed may speak of other nodes.
            let is_this = |node: &NodeReport| waits(node) || node.why.reason == self.reason;
            nodes.retain(|name| report.nodes.get(name).is_some_and(is_this));
        }
        if nodes.is_empty() {
            return self.of_first(waits);
        }
        nodes.iter().map(|node| format!("numo retry {node}")).collect()
    }

    /// What ends the wait of the first node of which that is so; else that the run is asked again.
    pub(super) fn of_first(&self, is: impl Fn(&NodeReport) -> bool) -> Vec<String> {
        let found = self
            .report
            .and_then(|report| report.nodes.iter().find(|(_, node)| is(node)));
        match found {
            Some((name, node)) if node.step == Step::Held => of_held(self.look, name, node),
            Some((name, _)) => vec![format!("numo retry {name}")],
            None if self.owner.kind == OwnerKind::MutexRunConfig => {
                vec![format!("numo retry {}", named(self.owner))]
            }
            None => vec![self.owner.kubectl("describe")],
        }
    }

    pub(super) fn of_nodes(&self, verb: &str) -> Vec<String> {
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
    pub(super) fn uncordon(&self) -> Vec<String> {
        let observed = &self.look.store.observed;
        let mut all = Vec::new();
        for node in self.nodes() {
            let of = observed.maintenances.values();
            let kept = of.filter(|view| view.spec.node_name == node && view.owner != *self.owner);
            let kept: Vec<String> = kept.map(|view| view.owner.kubectl("delete")).collect();
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

    /// A budget of a workload holds its pod: who owns it scales up or changes it, or the node goes without.
    pub(super) fn unblock(&self) -> Vec<String> {
        let budgets = mentioned(self.message, "PodDisruptionBudget");
        let mut all: Vec<String> = budgets
            .iter()
            .map(|name| placed("describe", "poddisruptionbudget", name, "default"))
            .collect();
        if all.is_empty() {
            all.extend(self.of_pods());
        }
        if let OwnerKind::NodeMaintenance(_) = self.owner.kind {
            all.push(self.owner.kubectl("delete"));
        } else if let Some(node) = self.node {
            all.push(format!("numo skip {node}"));
        }
        all
    }

    pub(super) fn of_pods(&self) -> Vec<String> {
        let pods = mentioned(self.message, "Pod");
        if pods.is_empty() {
            let nodes = self.nodes();
            let of = |node: &String| format!("kubectl get pods -A --field-selector spec.nodeName={node}");
            let all: Vec<String> = nodes.iter().map(of).collect();
            return if all.is_empty() {
                vec![self.owner.kubectl("describe")]
            } else {
                all
            };
        }
        let pods = pods.into_iter();
        pods.map(|name| placed("describe", "pod", name, "default"))
            .collect()
    }
}
