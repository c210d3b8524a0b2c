//! What is noted on nodes: with which components they have joined, and what the provider knows of their machines; and pairs of nodes that
//! are none any more.

use super::{
    known::{components, is_first},
    pass::Pass,
    sets::{Class, facts, is_noted, is_told},
};
use crate::{
    action::{Action, Change, Event, EventAction, FleetAction, FleetQuestion},
    observed::{FleetView, NodeView, is_same},
    text::first_of,
    time::later,
    turn::journal,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, conditions::Actor, machines::annotations};

/// How long a new Node may be without the id of its machine (seconds): on some clouds another controller writes it.
pub(super) const UNNAMED_SECONDS: i64 = 120;
/// How many nodes a sentence names.
const NAMED: usize = 5;

/// Until when a new Node may be without the id of its machine.
pub(super) fn settles(node: &NodeView) -> Timestamp {
    later(node.created, UNNAMED_SECONDS)
}

/// How soon the provider is asked again about a machine that it does not know.
pub(super) fn asked_again(fleet: &FleetView, machine: &str) -> String {
    let pause = fleet.provider.pause_of_facts(machine);
    let pause = match (pause / 60, pause % 60) {
        (minutes, 0) => format!("{minutes} min"),
        _ => format!("{pause} s"),
    };
    format!("the provider is asked for it again after {pause}")
}

/// The names of nodes, a few of them.
fn named(nodes: &[&NodeView]) -> String {
    first_of(nodes.iter().map(|node| &node.name), NAMED)
}

impl Pass<'_> {
    /// The annotations that a node lacks of those that say of which version it is.
    pub(super) fn missing(&self, node: &NodeView) -> String {
        let compared = (!components(self.view).is_empty()).then_some(annotations::KUBERNETES_COMPONENTS);
        let keys = [annotations::SCALING_GROUP_ID, annotations::NODE_IMAGE];
        let missing = keys.into_iter().chain(compared);
        let missing: Vec<&str> = missing.filter(|key| node.annotation(key).is_empty()).collect();
        missing.join(", ")
    }

    /// Notes on nodes with which components they have joined.
    pub(super) fn keep_joining_nodes(&mut self) {
        if !is_first(self.view, self.fleet) || self.rival().is_some() {
            return;
        }
        for joining in self.fleet.joining.values() {
            let name = joining.spec.name.as_deref().unwrap_or_default();
            let chain = format!("joining {}", joining.name);
            let delete = FleetAction::DeleteJoiningNode {
                name: joining.name.clone(),
                uid: joining.uid.clone(),
            };
            let deadline: Option<Timestamp> = joining.spec.deadline.as_deref().and_then(|at| at.parse().ok());
            match (self.observed.nodes.get(name), deadline) {
                (Some(node), _) => {
                    let wanted = joining.spec.componentsreference.as_deref().unwrap_or_default();
                    let known = node.annotation(annotations::KUBERNETES_COMPONENTS);
                    if !wanted.is_empty() && !is_same(known, wanted) {
                        self.note(node, annotations::KUBERNETES_COMPONENTS, Some(wanted));
                    }
                    self.fleet(&node.name, delete);
                }
                (None, Some(deadline)) if deadline <= self.now => {
                    let note = format!(
                        "JoiningNode {}: found no Node {name} by {deadline}, wanted one; it is deleted. If that Node still joins, \
                         annotate it with its components",
                        joining.name
                    );
                    let event = Event::warning(Reason::JoinFailed.name(), EventAction::Change, note);
                    self.act(&chain, Action::Fleet(delete), Some(event));
                }
                (None, Some(deadline)) => self.out.wake(deadline),
                (None, None) => {}
            }
        }
    }

    /// Notes image and group of nodes whose machine the provider knows.
    pub(super) fn note_machines(&mut self) {
        if self.fleet.provider.missing.is_some() || self.rival().is_some() {
            return;
        }
        for (node, _) in self.sets.all().collect::<Vec<_>>() {
            let machine = self.fleet.machine_of(&node.name);
            if machine.is_empty() || is_noted(node) {
                continue;
            }
            // A cloud may make a machine anew under its name: what was said before its Node was there was said of the one before.
            let heard = self.heard_since(facts(self.fleet, node), node.created);
            match heard.map(|heard| &heard.said) {
                Some(Ok(facts)) if is_told(heard) => {
                    let known = [
                        (annotations::SCALING_GROUP_ID, &facts.group_id),
                        (annotations::NODE_IMAGE, &facts.image),
                    ];
                    let missing = known
                        .into_iter()
                        .filter(|(key, _)| node.annotation(key).is_empty());
                    let changes =
                        missing.map(|(key, value)| Change::of(&node.annotations, key, Some(value.clone())));
                    let changes = changes.collect();
                    self.annotate(node, changes);
                }
                _ => {
                    let provider_id = machine.to_owned();
                    let pause = self.fleet.provider.pause_of_facts(machine);
                    self.ask_again(FleetQuestion::Facts { provider_id }, heard, pause);
                }
            }
        }
    }

    /// Says of which nodes nobody knows the machine, or its image: they are left as they are, and may be of any version.
    pub(super) fn tell_unknown(&mut self) {
        let is_named = |node: &&NodeView| !self.fleet.machine_of(&node.name).is_empty();
        let nodes = self.sets.all().map(|(node, _)| node);
        let (known, unnamed): (Vec<_>, Vec<_>) = nodes.partition(is_named);
        let settles = |node: &&NodeView| settles(node);
        let (old, new): (Vec<_>, Vec<_>) = unnamed.into_iter().partition(|node| settles(node) <= self.now);
        let mut problems = Vec::new();
        if !old.is_empty() {
            let message = format!(
                "Node {} spec.providerID: found none, wanted the id of its machine; it is left as it is",
                named(&old)
            );
            problems.push(Why::new(Reason::MachineUnknown, message));
        }
        problems.extend(self.unsaid(&known));
        if !new.is_empty() {
            let message = format!("Node {} spec.providerID: found none yet", named(&new));
            let until = new.iter().map(settles).min();
            let why = Why::new(Reason::MachineUnknown, message).until(until);
            problems.push(why.ended_by(Actor::ClusterItself));
            if let Some(until) = until {
                self.out.wake(until);
            }
        }
        self.out.report.problems.extend(problems);
    }

    /// What the provider does not say of machines.
    fn unsaid(&self, nodes: &[&NodeView]) -> Option<Why> {
        let unknown: Vec<&NodeView> = nodes
            .iter()
            .copied()
            .filter(|node| !is_noted(node) && facts(self.fleet, node).is_some())
            .filter(|node| !is_told(facts(self.fleet, node)))
            .collect();
        let first = unknown.first()?;
        let machine = self.fleet.machine_of(&first.name);
        let words = match facts(self.fleet, first).map(|heard| &heard.said) {
            Some(Err(words)) => words.as_str(),
            _ => "the provider names no image or no group",
        };
        let message = format!(
            "the provider does not say image and group of the machine of Node {}, which is left as it is (machine {machine}: {words}); {}",
            named(&unknown),
            asked_again(self.fleet, machine)
        );
        Some(Why::new(Reason::MachineUnknown, message))
    }

    /// Takes the marks of pairs off that are none: half of one, one of a node that is gone, or of a node that is left out.
    pub(super) fn mend_pairs(&mut self) {
        // Pairs are made and parted by the operator that numo replaces while that is live.
        if self.rival().is_some() {
            return;
        }
        // Whoever is deleted leaves nobody who would understand them; and what is to go would go with the next NodeVersion.
        if self.view.deleting && !self.fleet.abandoned {
            return self.forget_marks();
        }
        for (node, class) in self.sets.all().collect::<Vec<_>>() {
            if !node.annotation(annotations::HEIR).is_empty() && !self.keeps_heir(node) {
                self.note(node, annotations::HEIR, None);
            }
            if !node.annotation(annotations::DONOR).is_empty() && !self.keeps_donor(node, class) {
                self.part(node, class);
            }
        }
    }

    /// Takes the marks of what was begun off nodes that nobody has let go.
    fn forget_marks(&mut self) {
        let marks = [annotations::HEIR, annotations::DONOR, annotations::OBSOLETE];
        for (node, _) in self.sets.all().collect::<Vec<_>>() {
            let found = marks.into_iter().filter(|key| !node.annotation(key).is_empty());
            let changes: Vec<Change> = found
                .map(|key| Change::of(&node.annotations, key, None))
                .collect();
            if changes.is_empty() || self.turn_of(node).is_some() || self.is_taking_over(node) {
                continue;
            }
            self.kept = true;
            self.annotate(node, changes);
        }
    }

    /// Takes the mark of the node whose place it takes off a new node. Where the node that it was made for is there and stays, it is one too
    /// many and goes: one that was made for a version that nobody asks for any more, and one whose old node is left out.
    fn part(&mut self, heir: &NodeView, class: Class) {
        let donor = self.observed.nodes.get(heir.annotation(annotations::DONOR));
        let is_surplus = donor.is_some_and(|donor| class == Class::Outdated || self.is_left_out(donor));
        let mut changes = vec![Change::of(&heir.annotations, annotations::DONOR, None)];
        if is_surplus {
            let value = Some("true".to_owned());
            changes.push(Change::of(&heir.annotations, annotations::OBSOLETE, value));
        }
        self.annotate(heir, changes);
    }

    /// Whether a node may take the place of another: not one that is to go itself, or is of another version by now.
    pub(super) fn is_heir(&self, heir: &NodeView) -> bool {
        self.is_unknown(heir) || self.sets.class_of(heir) == Some(Class::Heir)
    }

    /// Whether a node keeps the mark of the one that takes its place.
    fn keeps_heir(&self, donor: &NodeView) -> bool {
        let Some(heir) = self.heir_of(donor) else {
            return false;
        };
        let is_donor = self.is_heir(heir) && self.sets.class_of(donor) == Some(Class::Donor);
        // Of an old node that is not known nobody can say that its pair is none.
        (is_donor || self.is_unknown(donor)) && !self.is_left_out(donor)
    }

    /// Whether a new node keeps the mark of the one whose place it takes.
    fn keeps_donor(&self, heir: &NodeView, class: Class) -> bool {
        if self.is_taking_over(heir) || self.is_returning(heir) {
            return true;
        }
        let donor = self.observed.nodes.get(heir.annotation(annotations::DONOR));
        let may_be_heir = class == Class::Heir || class.is_unknown();
        let Some(donor) = donor.filter(|_| may_be_heir) else {
            return false;
        };
        let is_pairing = || {
            let mut pending = self.sets.pending.iter();
            pending.any(|one| !one.leaves() && one.node() == heir.name)
        };
        let is_pair = donor.annotation(annotations::HEIR) == heir.name;
        !self.is_left_out(donor) && (is_pair || is_pairing())
    }

    /// Whether a turn is yet to end whose node is gone, and whose place the new node takes.
    fn is_taking_over(&self, heir: &NodeView) -> bool {
        let mut flying = self.flying.iter();
        flying.any(|change| {
            let pin = change.status.pin.as_ref();
            pin.and_then(|pin| pin.heir.as_deref()) == Some(&heir.name)
                && journal::entered(change, Step::Released).is_some()
        })
    }
}
