//! A node of a run that was let go: it changes, comes back, and goes home to its own pool. Nothing here lets a node go.

use super::{labels, release::same, selectors::is_contested, turn::Turn};
use crate::{
    action::{Action, Change, EventAction, NodePatch, NodePurpose},
    mark,
    observed::NodeView,
    pools,
    time::later,
    turn::{
        journal,
        steps::{Next, ON, STAY},
    },
    why::Why,
};
use numo_api::{
    Reason, Step, Strategy,
    marks::{self, openshift},
};

/// The daemon asked for a drain that is not done.
fn drains(node: &NodeView) -> bool {
    let asked = node.annotation(openshift::DESIRED_DRAIN);
    asked.starts_with("drain-") && asked != node.annotation(openshift::LAST_APPLIED_DRAIN)
}

fn cordon_mark(owner_uid: &str) -> String {
    format!("{{\"owner\":\"{owner_uid}\",\"prior\":true}}")
}

impl Turn<'_, '_> {
    /// A person's cordon that came after the release and before the MCO's own is remembered, for the MCO takes it
    /// away in the end; one that is lifted again by then is forgotten.
    ///
    /// The MCO's cordon stands from its drain until the uncordon that it asks for the new configuration; a person's
    /// is one while the last request is still that of the configuration before. That holds for the way into the
    /// canary pool and for the way home.
    pub(super) fn mind_cordon(&mut self) -> Next {
        let node = self.member.node;
        let asked = node.annotation(openshift::DESIRED_DRAIN);
        let before = asked.strip_prefix("uncordon-");
        let at_rest = (asked.is_empty() || before == Some(self.member.current))
            && asked == node.annotation(openshift::LAST_APPLIED_DRAIN);
        // One that is not taken up yet is not the MCO's to uncordon.
        let taken_up = node.annotation(openshift::DESIRED_CONFIG) != self.member.current;
        let before_change = taken_up && !self.was_back();
        let remembered = remembers_cordon(node);
        // On the way home it is the MCO that took away what was remembered on the way there.
        let forgets = remembered && self.member.current != self.pin.from_config;
        if !at_rest || !before_change || node.unschedulable == remembered || forgets {
            return ON;
        }
        let mark = node
            .unschedulable
            .then(|| cordon_mark(&self.decision.view.run.uid));
        let patch = NodePatch {
            annotations: vec![
                Change::of(&node.annotations, marks::CORDONED_BY, mark),
                // Once the MCO asks for a drain a cordon is its own.
                same(&node.annotations, openshift::DESIRED_DRAIN),
            ],
            ..NodePatch::of(node, NodePurpose::MindCordon)
        };
        self.plan(Action::PatchNode(patch), None);
        let message = "the cordon that someone set is put back when it is changed";
        self.tell(Step::Released, Reason::Changing, message);
        STAY
    }

    /// A node in the canary pool that is not to change there: what it was let go to is wanted no more before the MCO
    /// took it up, or someone else's selector puts it into two pools.
    pub(super) fn leave_canary_early(&mut self) -> Next {
        if self.force.strategy != Strategy::CanaryPool || self.was_back() {
            return ON;
        }
        let node = self.member.node;
        let content = |config: &str| pools::content(config).to_owned();
        let untouched = self.member.done
            && content(self.member.current) == content(&self.pin.from_config)
            && content(&self.pin.rendered_config) != content(&self.pin.from_config);
        let outdated = content(&self.pin.rendered_config) != content(&self.member.pool.config);
        if untouched && !self.in_canary() {
            self.replan("it was taken back before the MCO took it up".to_owned());
            return STAY;
        }
        // The MCO never takes up a cordoned node, nor another one of the canary while it is there.
        if untouched && (outdated || node.unschedulable) {
            self.bring_untouched_home(outdated);
            return STAY;
        }
        if !self.in_canary() {
            return ON;
        }
        if let Some((reason, why)) = self.cannot_change_there() {
            let patch = self.bring_home();
            let message = format!("it changes in its own pool {}: {why}", self.member.pool.name);
            let event = self.event(true, "BroughtHome", EventAction::Restore, message.clone());
            self.plan(Action::PatchNode(patch), Some(event));
            self.tell(Step::Released, reason, message);
            return STAY;
        }
        ON
    }

    /// Brings home a node that the MCO has not taken up yet.
    fn bring_untouched_home(&mut self, is_outdated: bool) {
        let node = self.member.node;
        let why = if is_outdated {
            let message = format!(
                "pool {} went from {} to {} before it was taken up",
                self.member.pool.name, self.pin.rendered_config, self.member.pool.config
            );
            Why::new(Reason::ConfigChanged, message)
        } else {
            let message =
                "someone cordoned it before the MCO took it up; it goes home until it is uncordoned";
            Why::new(Reason::CordonedByOther, message)
        };
        let mut patch = self.bring_home();
        // Tested, not changed: once the MCO has taken it up it is too late.
        patch.annotations = vec![
            same(&node.annotations, openshift::DESIRED_CONFIG),
            same(&node.annotations, openshift::STATE),
        ];
        self.plan(Action::PatchNode(patch), None);
        self.decision.report(self.member, Step::Released, why);
    }

    /// Why the node cannot change in the canary pool, if so.
    fn cannot_change_there(&self) -> Option<(Reason, &'static str)> {
        let view = self.decision.view;
        if is_contested(self.member.pool, &view.run.uid) {
            return Some((
                Reason::ForeignWriter,
                "someone else set its node selector, and it would be in two pools",
            ));
        }
        // Its rendered configurations died with it.
        let is_gone = view.intent.strategy == Strategy::CanaryPool && view.intent.canary.is_none();
        is_gone.then_some((Reason::CanaryNotFound, "the canary pool is gone"))
    }

    /// The configuration of its own pool that the node goes home to: the one it runs already, if the pool has moved
    /// on and so has the node; never an older one.
    pub(super) fn home_config(&self) -> &str {
        let newest = &self.member.pool.config;
        if pools::content(self.member.current) == pools::content(newest) {
            newest
        } else {
            &self.pin.rendered_config
        }
    }

    /// Waits until the node runs what it was let go to, the daemon is done and its uncordon was carried out.
    pub(super) fn follow_change(&mut self) -> Next {
        let node = self.member.node;
        let current = node.annotation(openshift::CURRENT_CONFIG);
        // Content, not names: the canary pool renders the same content under another name. The pool's own
        // configuration counts too: it may have moved on, and someone may have let the MCO go after it.
        let contents = [&self.pin.rendered_config, &self.member.pool.config].map(|name| pools::content(name));
        let through_canary = self.in_canary() || self.force.strategy == Strategy::CanaryPool;
        let moved = current == self.pin.rendered_config
            || self.member.settled()
            || (through_canary && contents.contains(&pools::content(current)));
        let acknowledged =
            node.annotation(openshift::DESIRED_DRAIN) == node.annotation(openshift::LAST_APPLIED_DRAIN);
        if moved && pools::done(node) && acknowledged && node.ready {
            return ON;
        }
        if self.was_back() {
            // What it does now is for the next gate to judge, not for this one.
            return ON;
        }
        self.wait_for_change();
        STAY
    }

    pub(super) fn wait_for_change(&mut self) {
        let node = self.member.node;
        let mut entries = self.change.status.entries.iter();
        let released = entries.rfind(|entry| entry.step == Step::Released);
        let since = journal::time(released.map(|entry| entry.at.as_str())).unwrap_or(self.decision.view.now);
        let limit = self.force.change_timeout_seconds;
        let deadline = later(since, limit);
        let words = state_of_change(node);
        if self.decision.view.now > deadline {
            let message = format!(
                "Node {} has not come back {limit} s after its release (spec.changeTimeoutSeconds): {words}. Repair it, and it continues. `numo skip {0}` leaves it out, so that the other nodes continue; `numo retry {0}` gives it its whole time once more",
                node.name
            );
            let why = Why::new(Reason::ChangeTimeout, message);
            if self.pass.leaving.is_some() {
                self.end(Step::Failed, &why);
                return;
            }
            if !journal::is_for(self.change, Reason::ChangeTimeout) {
                let mut journal = self.journal();
                journal.enter(Step::Held, Some(&why));
                let event = self.event(
                    true,
                    "ChangeTimeout",
                    EventAction::Change,
                    why.message.to_string(),
                );
                journal.write(self.decision, Some(event));
            }
            self.decision.report(self.member, Step::Held, why);
            return;
        }
        self.decision.wake(later(deadline, 1));
        let reason = if pools::failing(node) {
            Reason::NodeDegraded
        } else {
            Reason::Changing
        };
        self.tell(Step::Released, reason, words);
    }

    /// CanaryPool: brings the node back to its own pool.
    pub(super) fn come_home(&mut self) -> Next {
        if self.force.strategy == Strategy::DesiredConfig && self.member.node.label(marks::RELEASE).is_empty()
        {
            return self.cordon_again();
        }
        let node = self.member.node;
        if !node.label(marks::RELEASE).is_empty() {
            let patch = self.bring_home();
            let note = format!("goes home to pool {}", self.member.pool.name);
            let event = self.event(false, "BroughtHome", EventAction::Restore, note);
            self.plan(Action::PatchNode(patch), Some(event));
            self.tell(Step::Changed, Reason::ComingHome, "it is changed and goes home");
            return STAY;
        }
        let at_home =
            node.annotation(openshift::CURRENT_CONFIG) == self.pin.rendered_config || self.member.settled();
        if !at_home && !self.was_back() {
            let message = format!(
                "it goes from the canary pool's configuration to {}",
                self.home_config()
            );
            self.tell(Step::Changed, Reason::ComingHome, message);
            return STAY;
        }
        self.cordon_again()
    }

    pub(super) fn bring_home(&self) -> NodePatch {
        let node = self.member.node;
        let mut labels = vec![Change::of(&node.labels, marks::RELEASE, None)];
        if labels::needs_labels_to_stay(self.member.pool) {
            labels.extend(labels::labels_to_stay(self.decision, self.member));
        }
        let mut annotations = vec![Change::of(
            &node.annotations,
            openshift::DESIRED_CONFIG,
            Some(self.home_config().to_owned()),
        )];
        // From a drain to its uncordon the cordon is the MCO's.
        if node.unschedulable && !node.annotation(openshift::DESIRED_DRAIN).starts_with("drain-") {
            annotations.push(Change::of(
                &node.annotations,
                marks::CORDONED_BY,
                Some(cordon_mark(&self.decision.view.run.uid)),
            ));
        }
        NodePatch {
            labels,
            annotations,
            ..NodePatch::of(node, NodePurpose::BringHome)
        }
    }

    /// A cordon that a person set after the release is put back after the MCO took it away.
    pub(super) fn cordon_again(&mut self) -> Next {
        let node = self.member.node;
        if !remembers_cordon(node) {
            return ON;
        }
        let patch = NodePatch {
            annotations: vec![Change::of(&node.annotations, marks::CORDONED_BY, None)],
            unschedulable: (!node.unschedulable).then_some(true),
            ..NodePatch::of(node, NodePurpose::Recordon)
        };
        self.plan(Action::PatchNode(patch), None);
        self.tell(Step::Changed, Reason::ComingHome, "its cordon is put back");
        STAY
    }

    /// Journals that the node is changed: its rules after that begin.
    pub(super) fn note_change(&mut self) {
        let mut journal = self.journal();
        journal.enter(Step::PostRules, None);
        let note = format!("runs {} and is Ready", self.change.spec.target.version);
        let event = self.event(false, "Changed", EventAction::Change, note);
        journal.write(self.decision, Some(event));
        let why = Why::new(Reason::RuleStarting, "it is back and Ready");
        self.decision.report(self.member, Step::Ready, why);
    }
}

/// What the node says of its change.
fn state_of_change(node: &NodeView) -> String {
    let state = node.annotation(openshift::STATE);
    match (node.ready, state) {
        (_, "Degraded" | "Unreconcilable") => format!(
            "the daemon reports {state}: {}",
            node.annotation(openshift::REASON)
        ),
        (false, _) => "it is not Ready".to_owned(),
        (true, _) if drains(node) => format!(
            "its drain is under way since the release: pods whose eviction a PodDisruptionBudget refuses, or that \
             do not end, keep it from changing (desiredDrain {})",
            node.annotation(openshift::DESIRED_DRAIN)
        ),
        (true, state) => format!(
            "current {}, desired {}, state {state}",
            node.annotation(openshift::CURRENT_CONFIG),
            node.annotation(openshift::DESIRED_CONFIG)
        ),
    }
}

/// Whether a cordon is remembered that stood before numo's or the MCO's. A Plan that goes on to another version leaves its mark on a
/// node that it has not cordoned: nothing is to be put back for that.
pub(super) fn remembers_cordon(node: &NodeView) -> bool {
    mark::cordoned_by(node).is_some_and(|mark| mark.prior)
}
