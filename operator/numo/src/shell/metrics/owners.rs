//! Owners: their nodes by step and by reason, and what each waits for. Nodes are named only while they are in flight.

use super::{
    described::{
        NODE_STEP, NODE_STEP_SINCE, NODES, OWNER_REASON, OWNER_STALLED, OWNER_TARGET,
        OWNER_WAITS_FOR_APPROVAL, OWNER_WAVE, UPGRADE_HELD, WAITING_NODES,
    },
    series::{Series, register},
};
use jiff::Timestamp;
use numo_api::{Reason, Step};
use numo_core::{
    Owner, OwnerKind,
    report::{NodeReport, Report},
};
use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};
use std::collections::BTreeMap;

/// Nodes in flight of one owner that are named, at most.
const NAMED: usize = 100;

/// Every step, in order.
const STEPS: [Step; 16] = [
    Step::Selected,
    Step::Admitted,
    Step::PreRules,
    Step::Cordoned,
    Step::Drained,
    Step::PreRelease,
    Step::Released,
    Step::Changed,
    Step::Ready,
    Step::Uncordoned,
    Step::PostRules,
    Step::Soaked,
    Step::Done,
    Step::Held,
    Step::Failed,
    Step::Skipped,
];

/// An owner and something of it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct OwnerLabels {
    kind: &'static str,
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct StepLabels {
    kind: &'static str,
    namespace: String,
    name: String,
    step: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ReasonLabels {
    kind: &'static str,
    namespace: String,
    name: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct VersionLabels {
    kind: &'static str,
    namespace: String,
    name: String,
    version: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct NodeLabels {
    kind: &'static str,
    namespace: String,
    name: String,
    node: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct NodeStepLabels {
    kind: &'static str,
    namespace: String,
    name: String,
    node: String,
    step: &'static str,
}

/// Gauges of owners.
#[derive(Clone, Debug)]
pub(super) struct Owners {
    nodes: Series<StepLabels>,
    waiting: Series<ReasonLabels>,
    node_step: Series<NodeStepLabels>,
    node_since: Series<NodeLabels>,
    reason: Series<ReasonLabels>,
    target: Series<VersionLabels>,
    stalled: Series<OwnerLabels>,
    approval: Series<OwnerLabels>,
    wave: Series<OwnerLabels>,
    upgrade_held: Series<OwnerLabels>,
}

impl OwnerLabels {
    pub(super) fn of(owner: &Owner) -> Self {
        Self {
            kind: owner.kind.name(),
            namespace: owner.key.namespace.clone(),
            name: owner.key.name.clone(),
        }
    }
}

impl StepLabels {
    fn of(owner: &Owner, step: Step) -> Self {
        Self {
            kind: owner.kind.name(),
            namespace: owner.key.namespace.clone(),
            name: owner.key.name.clone(),
            step: step.name(),
        }
    }
}

impl ReasonLabels {
    fn of(owner: &Owner, reason: Reason) -> Self {
        Self {
            kind: owner.kind.name(),
            namespace: owner.key.namespace.clone(),
            name: owner.key.name.clone(),
            reason: reason.name(),
        }
    }
}

impl VersionLabels {
    fn of(owner: &Owner, version: &str) -> Self {
        Self {
            kind: owner.kind.name(),
            namespace: owner.key.namespace.clone(),
            name: owner.key.name.clone(),
            version: version.to_owned(),
        }
    }
}

impl NodeLabels {
    fn of(owner: &Owner, node: &str) -> Self {
        Self {
            kind: owner.kind.name(),
            namespace: owner.key.namespace.clone(),
            name: owner.key.name.clone(),
            node: node.to_owned(),
        }
    }
}

impl NodeStepLabels {
    fn of(owner: &Owner, node: &str, step: Step) -> Self {
        Self {
            kind: owner.kind.name(),
            namespace: owner.key.namespace.clone(),
            name: owner.key.name.clone(),
            node: node.to_owned(),
            step: step.name(),
        }
    }
}

impl Owners {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let owners = Self {
            nodes: Series::default(),
            waiting: Series::default(),
            node_step: Series::default(),
            node_since: Series::default(),
            reason: Series::default(),
            target: Series::default(),
            stalled: Series::default(),
            approval: Series::default(),
            wave: Series::default(),
            upgrade_held: Series::default(),
        };
        register(registry, NODES, owners.nodes.family.clone());
        register(registry, WAITING_NODES, owners.waiting.family.clone());
        register(registry, NODE_STEP, owners.node_step.family.clone());
        register(registry, NODE_STEP_SINCE, owners.node_since.family.clone());
        register(registry, OWNER_REASON, owners.reason.family.clone());
        register(registry, OWNER_TARGET, owners.target.family.clone());
        register(registry, OWNER_STALLED, owners.stalled.family.clone());
        register(registry, OWNER_WAITS_FOR_APPROVAL, owners.approval.family.clone());
        register(registry, OWNER_WAVE, owners.wave.family.clone());
        register(registry, UPGRADE_HELD, owners.upgrade_held.family.clone());
        owners
    }

    pub(super) fn show(&self, owner: &Owner, report: &Report, reason: Reason, stalled: bool) {
        self.show_counts(owner, report);
        self.reason.show(owner, [(ReasonLabels::of(owner, reason), 1)]);
        let target = report.target.as_deref();
        self.target.show(
            owner,
            target.map(|version| (VersionLabels::of(owner, version), 1)),
        );
        self.stalled
            .show(owner, [(OwnerLabels::of(owner), i64::from(stalled))]);
        let waits = i64::from(report.approval.is_some());
        self.approval.show(owner, [(OwnerLabels::of(owner), waits)]);
        let wave = report.wave.as_ref();
        let wave = wave.map(|wave| i64::try_from(wave.number).unwrap_or(i64::MAX));
        self.wave
            .show(owner, wave.map(|number| (OwnerLabels::of(owner), number)));
        if owner.kind == OwnerKind::MutexRunConfig {
            let held = i64::from(report.upgrade_held.is_some());
            self.upgrade_held.show(owner, [(OwnerLabels::of(owner), held)]);
        }
        self.show_in_flight(owner, report);
    }

    /// Nodes by step, and those that are not done by reason.
    fn show_counts(&self, owner: &Owner, report: &Report) {
        let mut steps: BTreeMap<Step, i64> = STEPS.iter().map(|step| (*step, 0)).collect();
        let mut reasons: BTreeMap<Reason, i64> = BTreeMap::new();
        for said in report.nodes.values() {
            *steps.entry(said.step).or_default() += 1;
            if said.step != Step::Done {
                *reasons.entry(said.why.reason).or_default() += 1;
            }
        }
        let steps = steps.into_iter();
        self.nodes.show(
            owner,
            steps.map(|(step, count)| (StepLabels::of(owner, step), count)),
        );
        let reasons = reasons.into_iter();
        let reasons = reasons.map(|(reason, count)| (ReasonLabels::of(owner, reason), count));
        self.waiting.show(owner, reasons);
    }

    /// The step of each node in flight, and since when it is there.
    fn show_in_flight(&self, owner: &Owner, report: &Report) {
        let flying: Vec<(&String, &NodeReport)> = report
            .nodes
            .iter()
            .filter(|(_, said)| said.in_flight())
            .take(NAMED)
            .collect();
        let node_steps = flying.iter().flat_map(|(node, said)| {
            STEPS.iter().map(|step| {
                let is_here = i64::from(*step == said.step);
                (NodeStepLabels::of(owner, node, *step), is_here)
            })
        });
        self.node_step.show(owner, node_steps);
        let since = flying.iter().filter_map(|(node, said)| {
            let at: Timestamp = said.since.as_deref()?.parse().ok()?;
            Some((NodeLabels::of(owner, node), at.as_second()))
        });
        self.node_since.show(owner, since);
    }

    pub(super) fn forget(&self, owner: &Owner) {
        self.nodes.show(owner, []);
        self.waiting.show(owner, []);
        self.node_step.show(owner, []);
        self.node_since.show(owner, []);
        self.reason.show(owner, []);
        self.target.show(owner, []);
        self.stalled.show(owner, []);
        self.approval.show(owner, []);
        self.wave.show(owner, []);
        self.upgrade_held.show(owner, []);
    }
}
