//! Which nodes are where on the way to the version: the reference's groups (`spec/constellation.md` §2, steps 3 to 5), and how many
//! machines may be made. Nothing here decides what follows.

use super::known::{components, has_group, is_first, is_request, pending};
use crate::{
    observed::{
        FleetView, Heard, MachineFacts, NodeVersionView, NodeView, Observed, PendingNodeView, is_same,
    },
    quorum,
};
use numo_api::machines::{CspState, annotations};

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The provider knows no machine of it.
    Invalid,
    /// It is to go, and nothing takes its place.
    Obsolete,
    /// Its image or its components are not known.
    AwaitingAnnotation,
    /// It is of another version, and nothing takes its place yet.
    Outdated,
    /// It is of another version, and a new node takes its place.
    Donor,
    /// It takes the place of another one.
    Heir,
    /// It is new, and takes the place of none yet.
    Mint,
    /// It is as it shall be.
    UpToDate,
}

/// The nodes of a NodeVersion, each where it is, in the order of their names.
#[derive(Debug, Default)]
pub struct Sets<'a> {
    nodes: Vec<(&'a NodeView, Class)>,
    /// Its PendingNodes, in the order of their names.
    pub pending: Vec<&'a PendingNodeView>,
    /// The image that is asked for.
    image: &'a str,
}

impl<'a> Sets<'a> {
    /// The nodes and PendingNodes of a NodeVersion.
    pub fn of(view: &'a NodeVersionView, observed: &'a Observed) -> Self {
        let fleet = &observed.fleet;
        let nodes = observed.nodes.values().filter(|node| has_node(view, fleet, node));
        let nodes = nodes.map(|node| {
            let found = if is_told_unknown(view, observed, node) {
                Class::Invalid
            } else {
                class(view, fleet, node)
            };
            (node, found)
        });
        Self {
            nodes: nodes.collect(),
            pending: pending(view, fleet).collect(),
            image: view.spec.image.as_deref().unwrap_or_default(),
        }
    }

    /// All nodes with their classes.
    pub fn all(&self) -> impl Iterator<Item = (&'a NodeView, Class)> {
        self.nodes.iter().copied()
    }

    /// The nodes of a class.
    pub fn each(&self, class: Class) -> impl Iterator<Item = &'a NodeView> {
        let nodes = self.nodes.iter().filter(move |(_, found)| *found == class);
        nodes.map(|(node, _)| *node)
    }

    /// The class of a node; none of a node of another NodeVersion.
    pub fn class_of(&self, node: &NodeView) -> Option<Class> {
        let place = self
            .nodes
            .binary_search_by(|(of, _)| of.name.as_str().cmp(&node.name));
        let (_, class) = self.nodes.get(place.ok()?)?;
        Some(*class)
    }

    /// How many nodes there are, but for those that are new or not known yet: what a share of the nodes is a share of.
    pub fn base(&self) -> usize {
        let new = [
            Class::Heir,
            Class::Mint,
            Class::AwaitingAnnotation,
            Class::Obsolete,
        ];
        let nodes = self.nodes.iter();
        nodes.filter(|(_, class)| !new.contains(class)).count()
    }

    fn count(&self, class: Class) -> usize {
        self.each(class).count()
    }

    /// How many machines there are, or will be, beyond those that are replaced: new nodes that take a place, nodes that are not known
    /// yet or that are to go, and machines that are to join or to go.
    pub fn surplus(&self) -> usize {
        let new = [Class::Heir, Class::AwaitingAnnotation, Class::Obsolete];
        new.into_iter().map(|class| self.count(class)).sum::<usize>() + self.pending.len()
    }

    /// How many machines may be made, of so many that there may be beyond those that are replaced.
    pub fn budget(&self, surge: usize) -> usize {
        surge.saturating_sub(self.surplus())
    }

    /// Whether there is anything to do.
    pub fn is_outdated(&self) -> bool {
        let open = [
            Class::Outdated,
            Class::Donor,
            Class::Heir,
            Class::AwaitingAnnotation,
            Class::Obsolete,
        ];
        !self.pending.is_empty() || self.nodes.iter().any(|(_, class)| open.contains(class))
    }

    /// Whether a machine is on its way to or from the NodeVersion, or a node of it takes the place of another.
    pub(super) fn is_under_way(&self) -> bool {
        let under_way = [Class::Heir, Class::AwaitingAnnotation];
        !self.pending.is_empty() || self.nodes.iter().any(|(_, class)| under_way.contains(class))
    }

    /// Whether there is a node of which nobody can say whether there is anything to do: as in the reference that is not `Outdated`.
    pub(super) fn has_unknown(&self) -> bool {
        self.nodes.iter().any(|(_, class)| *class == Class::Invalid)
    }

    /// Whether a node of the control plane is yet to be replaced, or to go with another image: until then no other one is replaced.
    pub fn control_plane_behind(&self) -> Option<&'a NodeView> {
        let is_other = |node: &&NodeView| !is_same(node.annotation(annotations::NODE_IMAGE), self.image);
        let obsolete = self.each(Class::Obsolete).filter(is_other);
        let behind = self.each(Class::Outdated).chain(self.each(Class::Donor));
        let mut behind = behind.chain(obsolete);
        behind.find(|node| quorum::is_control_plane(node))
    }
}

/// Whether a node is one of the NodeVersion: by its group, once that is known.
fn has_node(view: &NodeVersionView, fleet: &FleetView, node: &NodeView) -> bool {
    match node.annotation(annotations::SCALING_GROUP_ID) {
        "" => is_first(view, fleet),
        group => has_group(view, fleet, group),
    }
}

/// What the provider said of the machine of a node, if it was asked.
pub(super) fn facts<'a>(fleet: &'a FleetView, node: &NodeView) -> Option<&'a Heard<MachineFacts>> {
    let machine = fleet.machine_of(&node.name).to_lowercase();
    fleet.provider.facts.get(&machine)
}

/// Whether the provider says both image and group of a machine.
pub(super) fn is_told(heard: Option<&Heard<MachineFacts>>) -> bool {
    let said = heard.and_then(|heard| heard.said.as_ref().ok());
    said.is_some_and(MachineFacts::is_whole)
}

/// Whether somebody who asks no provider reads in the status that the operator knows no machine of the node.
fn is_told_unknown(view: &NodeVersionView, observed: &Observed, node: &NodeView) -> bool {
    if !observed.settings.only_looks || is_noted(node) || facts(&observed.fleet, node).is_some() {
        return false;
    }
    let mut told = view.status.invalid.iter().flatten();
    told.any(|one| one.uid.as_deref() == Some(node.uid.as_str()))
}

/// Whether image and group of a node are noted on it.
pub(super) fn is_noted(node: &NodeView) -> bool {
    let keys = [annotations::SCALING_GROUP_ID, annotations::NODE_IMAGE];
    keys.into_iter().all(|key| !node.annotation(key).is_empty())
}

/// Where a node is: the first that fits.
pub fn class(view: &NodeVersionView, fleet: &FleetView, node: &NodeView) -> Class {
    let unknown = || facts(fleet, node).is_some_and(|heard| !is_told(Some(heard)));
    if fleet.machine_of(&node.name).is_empty() || (!is_noted(node) && unknown()) {
        return Class::Invalid;
    }
    if node.annotation(annotations::OBSOLETE) == "true" {
        return Class::Obsolete;
    }
    let image = node.annotation(annotations::NODE_IMAGE);
    let found = node.annotation(annotations::KUBERNETES_COMPONENTS);
    let wanted = components(view);
    if image.is_empty() || (!wanted.is_empty() && found.is_empty()) {
        return Class::AwaitingAnnotation;
    }
    let is_image = is_same(image, view.spec.image.as_deref().unwrap_or_default());
    if !is_image || (!wanted.is_empty() && !is_same(found, wanted)) {
        return if node.annotation(annotations::HEIR).is_empty() {
            Class::Outdated
        } else {
            Class::Donor
        };
    }
    if !node.annotation(annotations::DONOR).is_empty() {
        return Class::Heir;
    }
    if fleet
        .pending
        .values()
        .any(|pending| has_joined(fleet, pending, node))
    {
        return Class::Mint;
    }
    Class::UpToDate
}

/// Whether the node is the one of this PendingNode, and its machine is ready. A node whose machine is another one only has its name.
pub(super) fn has_joined(fleet: &FleetView, pending: &PendingNodeView, node: &NodeView) -> bool {
    !pending.leaves()
        && is_node_of(fleet, pending, node)
        && !is_older(pending, node)
        && pending.status.csp_state == Some(CspState::Ready)
}

/// Whether a provider gives a node out as the new one that is older than numo's request for it. What another operator has made is handed
/// over with its id, and may be older than its PendingNode.
pub(super) fn is_older(pending: &PendingNodeView, node: &NodeView) -> bool {
    is_request(&pending.name) && node.created < pending.created
}

/// Whether the node is the one of this PendingNode, by name and machine.
pub(super) fn is_node_of(fleet: &FleetView, pending: &PendingNodeView, node: &NodeView) -> bool {
    let (known, found) = (pending.provider_id(), fleet.machine_of(&node.name));
    let is_machine = known.is_empty() || found.is_empty() || is_same(known, found);
    !pending.node().is_empty() && pending.node() == node.name && is_machine
}

/// As if the turn of a node had come to its end, in what was seen: a new machine has its place, here under its name. One that was to
/// go, or whose place another node has, is gone.
pub(crate) fn imagine_replaced(observed: &mut Observed, version: &str, node: &str) {
    let fleet = &observed.fleet;
    let (Some(view), Some(found)) = (fleet.versions.get(version), observed.nodes.get(node)) else {
        return;
    };
    if matches!(class(view, fleet, found), Class::Obsolete | Class::Donor) {
        let heir = found.annotation(annotations::HEIR).to_owned();
        observed.nodes.remove(node);
        if let Some(heir) = observed.nodes.get_mut(&heir) {
            heir.annotations.remove(annotations::DONOR);
        }
        return;
    }
    let image = view.spec.image.clone().unwrap_or_default();
    let wanted = components(view).to_owned();
    let Some(found) = observed.nodes.get_mut(node) else {
        return;
    };
    let notes = &mut found.annotations;
    notes.insert(annotations::NODE_IMAGE.to_owned(), image);
    if !wanted.is_empty() {
        notes.insert(annotations::KUBERNETES_COMPONENTS.to_owned(), wanted);
    }
}

impl Class {
    /// Whether a node of the class is to be replaced, or to go.
    pub const fn is_behind(self) -> bool {
        matches!(self, Self::Outdated | Self::Donor | Self::Obsolete)
    }

    /// Whether nobody can say now of which version a node of the class is: nothing follows from that.
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::AwaitingAnnotation | Self::Invalid)
    }
}
