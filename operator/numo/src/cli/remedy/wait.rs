//! What waits, and for what.

use super::name::mentioned;
use crate::cli::live::Look;
use numo_api::{Reason, conditions::Actor};
use numo_core::{Owner, OwnerKind, report::Report};

/// What waits, and for what.
pub struct Wait<'a> {
    /// What was seen.
    pub look: &'a Look,
    /// Whose wait it is.
    pub owner: &'a Owner,
    /// What was decided for the owner, as far as that is known here.
    pub report: Option<&'a Report>,
    /// The node that waits, if it is one.
    pub node: Option<&'a str>,
    /// Why.
    pub reason: Reason,
    /// Who ends this wait, which may be somebody else than who ends the reason as a rule.
    pub who: Actor,
    /// The sentence that names objects.
    pub message: &'a str,
}

impl Wait<'_> {
    /// Whether only a person ends this wait.
    pub(super) fn is_a_persons(&self) -> bool {
        self.who.is_person()
    }

    /// Whether it is a node that is not Ready and waits for its turn or keeps its place in one: others go on without it by a
    /// person's word. Who maintains a node wants it whatever it is.
    pub(super) fn is_out_of_reach(&self) -> bool {
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

    /// The node that waits, or the nodes that the sentence names.
    pub(super) fn nodes(&self) -> Vec<String> {
        match self.node {
            Some(node) => vec![node.to_owned()],
            None => mentioned(self.message, "Node")
                .into_iter()
                .map(ToOwned::to_owned)
                .collect(),
        }
    }
}
