//! The cordon of a node by numo, for every owner: its mark, the patch that puts it on, and the patch that takes it off again. When that is
//! done is said by `turn/steps.rs`; what an owner wants of it, by [`OwnDrain`].

use super::{journal, shield};
use crate::{
    action::{Action, Change, Event, NodePatch, NodePurpose},
    drain::DrainOptions,
    mark::{self, CordonedBy},
    observed::{ChangeView, NodeView},
};
use jiff::Timestamp;
use numo_api::{Reason, Step, marks};

/// How often somebody's uncordoning is corrected before it is left to people.
pub const MAX_CORRECTIONS: u32 = 3;

/// How numo itself cordons and drains a node before it lets the node go, as its owner wants it.
#[derive(Clone, Debug)]
pub struct OwnDrain {
    /// The mark of numo's cordon that is on the node.
    pub mark: Option<CordonedBy>,
    /// Whether the node is cordoned as the owner wants it.
    pub is_cordoned: bool,
    /// How the node is drained; none where it is only cordoned.
    pub options: Option<DrainOptions>,
    /// The field that limits the time of the drain.
    pub limit_field: String,
    /// What is said while somebody's uncordoning is corrected.
    pub again: &'static str,
}

/// How another operator drains a node, as the owner wants it.
#[derive(Clone, Debug)]
pub struct Across {
    /// What the NodeMaintenance says to people.
    pub reason: &'static str,
    /// Of how numo drains: the time after which the drain is reported.
    pub options: DrainOptions,
    /// The field that says that time.
    pub limit_field: String,
}

/// How numo's cordon is taken off a node that is changed.
#[derive(Clone, Debug)]
pub struct Uncordon {
    /// The patch of the node.
    pub patch: NodePatch,
    /// What is told of it.
    pub event: Option<Event>,
    /// What is said of the node meanwhile.
    pub words: &'static str,
}

/// Since when the node is cordoned in this attempt, as its journal says.
pub(crate) fn since(change: &ChangeView) -> Option<Timestamp> {
    journal::time(Some(&journal::entered(change, Step::Cordoned)?.at))
}

/// Whether somebody has opened the node since then, as its journal says, and it was not seen closed again.
pub(crate) fn was_opened(change: &ChangeView) -> bool {
    let last = journal::entered(change, Step::Cordoned);
    last.is_some_and(|entry| entry.reason.as_deref() == Some(Reason::ForeignWriter.name()))
}

/// The owner's mark of its cordon on the node, if it has one.
pub(crate) fn of(node: &NodeView, owner_uid: &str) -> Option<CordonedBy> {
    mark::cordoned_by(node).filter(|mark| mark.owner == owner_uid)
}

/// Whether a node that has this mark was cordoned before: who uncordons it takes back the cordon of before, too.
pub(crate) const fn was_before(mark: &CordonedBy, node: &NodeView) -> bool {
    mark.prior && node.unschedulable
}

/// The mark of a cordon that the owner puts on the node, with what was there before.
pub(crate) fn marked(node: &NodeView, owner_uid: &str, corrections: u32) -> CordonedBy {
    let known = of(node, owner_uid);
    CordonedBy {
        owner: owner_uid.to_owned(),
        prior: known.map_or(node.unschedulable, |mark| was_before(&mark, node)),
        taints: Vec::new(),
        corrections,
        done: true,
    }
}

/// The mark of a cordon of the owner's that somebody took off: nothing was there before that cordon.
pub(crate) fn lost(owner_uid: &str, done: bool) -> CordonedBy {
    CordonedBy {
        owner: owner_uid.to_owned(),
        prior: false,
        taints: Vec::new(),
        corrections: 0,
        done,
    }
}

/// Puts this mark on a node whose cordon stays as it is.
pub(crate) fn marking(node: &NodeView, mark: &CordonedBy) -> NodePatch {
    NodePatch {
        annotations: vec![noted(node, mark)],
        ..NodePatch::of(node, NodePurpose::Shield)
    }
}

/// The annotation that has this mark.
pub(crate) fn noted(node: &NodeView, mark: &CordonedBy) -> Change {
    Change::of(&node.annotations, marks::CORDONED_BY, Some(mark::render(mark)))
}

/// Cordons the node and leaves this mark. A person's cordon of this very moment must not be taken for numo's, nor numo's for a person's
/// that is over.
pub(crate) fn cordoning(node: &NodeView, mark: &CordonedBy) -> NodePatch {
    NodePatch {
        annotations: vec![noted(node, mark)],
        unschedulable: Some(true),
        while_unschedulable: Some(node.unschedulable),
        ..NodePatch::of(node, NodePurpose::Cordon)
    }
}

/// Takes the mark of a cordon off, and the cordon with it unless one was there before. The cordon may be a Job's, which may be seen after
/// that Job's end: what was seen of it is tested, or the cordon would stay without a mark.
pub(crate) fn uncordon(patch: &mut NodePatch, node: &NodeView, prior: bool) {
    let unmark = Change::of(&node.annotations, marks::CORDONED_BY, None);
    patch.annotations.push(unmark);
    if !prior {
        patch.while_unschedulable = Some(node.unschedulable);
        patch.unschedulable = node.unschedulable.then_some(false);
    }
}

/// Puts back all that an owner has put on a node: its cordon, unless one was there before, its shield, and the marks.
pub(crate) fn restoring(node: &NodeView, owner_uid: &str) -> NodePatch {
    let mut patch = NodePatch::of(node, NodePurpose::Uncordon);
    if let Some(mark) = of(node, owner_uid) {
        uncordon(&mut patch, node, mark.prior);
    }
    if let Some(mark) = mark::shielded(node).filter(|mark| mark.owner == owner_uid)
        && let Action::PatchNode(shield) = shield::unshield(node, &mark)
    {
        patch.labels.extend(shield.labels);
        patch.annotations.extend(shield.annotations);
    }
    patch
}

/// The same, if there is anything to put back.
pub(crate) fn restored(node: &NodeView, owner_uid: &str) -> Option<NodePatch> {
    Some(restoring(node, owner_uid)).filter(|patch| !patch.annotations.is_empty())
}
