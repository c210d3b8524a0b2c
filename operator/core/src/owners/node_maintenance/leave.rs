//! A maintenance that is over: everything is given back, to exactly what it was. Nothing begins here.

use super::{
    known::{changes, last_phase},
    node::{is_references, uncordoning},
    pass::Pass,
};
use crate::{
    action::{Action, Change, EventAction},
    mark,
    observed::{ChangeView, NodeView},
    turn::{
        journal::{self, Journal},
        machine, shield,
    },
    why::Why,
};
use numo_api::{Phase, Reason, RunResult, Step, marks};

impl Pass<'_> {
    /// Gives back everything that is held of the node; true once nothing is left. With `rules` those have their say
    /// that are asked before the node is put back, and after.
    pub(super) fn give_back(&mut self, node: Option<&NodeView>, with_rules: bool) -> bool {
        let view = self.view;
        let change = changes(self.observed, &view.uid)
            .find(|change| change.in_flight() && node.is_some_and(|node| node.uid == change.spec.node_uid));
        let giving = Why::new(Reason::GivingBack, "the node is being put back as it was");
        if let Some(node) = node {
            let mark = mark::cordoned_by(node).filter(|mark| mark.owner == view.uid);
            let adopted =
                mark.is_none() && change.is_none() && is_references(node, self.group, view, self.observed);
            if mark.is_some() || adopted {
                if with_rules
                    && let Some(change) = change
                    && !self.passed_or_over(node, change, Phase::BeforeUncordon, Step::Ready)
                {
                    return false;
                }
                let mut patch = uncordoning(node, mark.as_ref(), self.group);
                if adopted && let Some(label) = node.labels.get(marks::EXCLUDE_FROM_REMEDIATION) {
                    patch.labels = vec![Change {
                        key: marks::EXCLUDE_FROM_REMEDIATION.to_owned(),
                        from: Some(label.clone()),
                        to: None,
                    }];
                }
                let event = patch.unschedulable.map(|_| {
                    self.event(
                        true,
                        false,
                        "UncordonNode",
                        EventAction::Restore,
                        "Uncordon a node",
                    )
                });
                self.act(Action::PatchNode(patch), event);
                self.say(Step::Uncordoned, giving, change);
                return false;
            }
            if with_rules
                && let Some(change) = change
                && (change
                    .status
                    .entries
                    .iter()
                    .any(|entry| entry.step == Step::Cordoned)
                    || !change.status.verdicts.is_empty())
                && !self.passed_or_over(node, change, Phase::Post, Step::PostRules)
            {
                return false;
            }
        }
        let before = self.out.actions.len();
        let shields = self.observed.nodes.values().filter_map(|node| {
            let mark = mark::shielded(node).filter(|mark| mark.owner == view.uid)?;
            Some(shield::unshield(node, &mark))
        });
        let shields: Vec<Action> = shields.collect();
        for action in shields {
            self.act(action, None);
        }
        self.unshield_machines();
        self.release_lease(with_rules || change.is_none());
        if with_rules && let Some(change) = change {
            let why = Why::new(Reason::Done, "the node is as it was");
            let mut journal = Journal::open(change, self.now);
            journal.enter(Step::Done, Some(&why));
            self.out.actions.extend(journal.planned(None));
        }
        let done = self.out.actions.len() == before;
        self.say(Step::Uncordoned, giving, change);
        if with_rules {
            self.report.phase = last_phase(view);
        }
        done
    }

    /// Gives back what remediation through Machines is kept off by.
    pub(super) fn unshield_machines(&mut self) {
        let due = machine::remediation_unshields(self.observed, &self.view.uid, |_| true);
        self.out.actions.extend(due);
    }

    pub(super) fn remove_finalizer(&mut self) {
        let view = self.view;
        let place = view
            .finalizers
            .iter()
            .position(|one| one == marks::MAINTENANCE_FINALIZER);
        if let Some(index) = place {
            let event = self.event(
                false,
                false,
                "RemovedMaintenance",
                EventAction::Complete,
                "Removed a node maintenance",
            );
            let action = Action::RemoveFinalizer {
                owner: view.owner.clone(),
                uid: view.uid.clone(),
                finalizer: marks::MAINTENANCE_FINALIZER,
                index,
            };
            self.act(action, Some(event));
            self.out.report.result = Some(RunResult::Succeeded);
        }
    }

    /// Ends the journals of nodes that are gone, or were made again under their name.
    pub(super) fn end_orphans(&mut self, node: Option<&NodeView>) {
        let uid = node.map(|node| node.uid.as_str());
        let orphans: Vec<&ChangeView> = changes(self.observed, &self.view.uid)
            .filter(|change| change.in_flight() && Some(change.spec.node_uid.as_str()) != uid)
            .collect();
        for change in orphans {
            let ended = journal::end_gone(change, journal::gone(change), self.observed, self.now);
            self.out.actions.extend(ended);
        }
        if node.is_none() {
            self.unshield_machines();
            self.release_lease(true);
        }
    }
}
