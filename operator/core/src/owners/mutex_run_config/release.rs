//! How a node of a run is let go: its pool's configuration is set, or it is labelled into the canary pool.

use super::{labels, turn::Turn};
use crate::{
    action::{Action, Change, EventAction, NodePatch, NodePurpose},
    turn::ungated::released_by_other,
    why::Why,
};
use numo_api::{
    Reason, Step, Strategy,
    marks::{self, openshift},
};
use std::collections::BTreeMap;

/// Tests that an annotation is still as it was read.
pub(super) fn same(annotations: &BTreeMap<String, String>, key: &str) -> Change {
    let found = annotations.get(key).cloned();
    Change {
        key: key.to_owned(),
        from: found.clone(),
        to: found,
    }
}

impl Turn<'_, '_> {
    /// The patch tests the shield too: it is on while the turn is, so a leader that was replaced lets nobody go.
    pub(super) fn release_node(&mut self) {
        let node = self.member.node;
        let patch = match self.force.strategy {
            Strategy::DesiredConfig => NodePatch {
                annotations: vec![
                    same(&node.annotations, marks::SHIELDED_BY),
                    same(&node.annotations, openshift::CURRENT_CONFIG),
                    same(&node.annotations, openshift::STATE),
                    Change::of(
                        &node.annotations,
                        openshift::DESIRED_CONFIG,
                        Some(self.pin.rendered_config.clone()),
                    ),
                ],
                while_unschedulable: Some(false),
                ..NodePatch::of(node, NodePurpose::Release)
            },
            Strategy::CanaryPool => self.canary_patch(),
        };
        let note = format!(
            "released to {} ({} -> {})",
            self.pin.rendered_config, self.pin.from_version, self.change.spec.target.version
        );
        let event = self.event(false, "Released", EventAction::Release, note);
        self.plan(Action::PatchNode(patch), Some(event));
        self.tell(Step::PreRelease, Reason::Changing, "it is being released");
    }

    /// Rule labels off and release label on, in one patch: the node falls into the canary pool.
    pub(super) fn canary_patch(&self) -> NodePatch {
        let node = self.member.node;
        let mut labels = labels::rule_labels_off(node);
        labels.push(Change::of(
            &node.labels,
            marks::RELEASE,
            Some(self.change.spec.target.run_id.clone()),
        ));
        NodePatch {
            labels,
            annotations: vec![
                same(&node.annotations, marks::SHIELDED_BY),
                same(&node.annotations, openshift::CURRENT_CONFIG),
                same(&node.annotations, openshift::DESIRED_CONFIG),
                same(&node.annotations, openshift::STATE),
            ],
            while_unschedulable: Some(false),
            ..NodePatch::of(node, NodePurpose::Release)
        }
    }

    /// Journals that the node was let go, and by whom if not by its rules.
    pub(super) fn record_release(&mut self) {
        let mut journal = self.journal();
        let why = if self.is_gated() {
            journal.enter(Step::Released, None);
            Why::new(Reason::Changing, "it was released")
        } else {
            let words = released_by_other(&self.force.rules, &self.change.status);
            let why = Why::new(Reason::Ungated, words.as_str());
            journal.enter(Step::Released, Some(&why));
            let all = &mut self.decision.out.report.ungated;
            all.insert(self.member.node.name.clone(), words);
            why
        };
        let event = (why.reason == Reason::Ungated)
            .then(|| self.event(true, "Ungated", EventAction::Release, why.message.to_string()));
        journal.write(self.decision, event);
        self.decision.report(self.member, Step::Released, why);
    }
}
