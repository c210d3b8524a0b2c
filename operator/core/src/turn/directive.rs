//! What a person said about a node.

use crate::{observed::ChangeView, why::Why};
use numo_api::{Directive, DirectiveAction, Reason};

/// What a person said, in a sentence.
pub fn persons_words(what: &str, change: &ChangeView, directive: &Directive) -> String {
    let by = directive.by.as_deref().unwrap_or("someone");
    let reason = directive.reason.as_deref();
    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{what} by {by}{why} (NodeChange {} spec.directive)", change.key)
}

/// That a person holds the node, if so.
pub(crate) fn held(change: &ChangeView) -> Option<Why> {
    let directive = change.spec.directive.as_ref()?;
    (directive.action == DirectiveAction::Hold)
        .then(|| Why::new(Reason::HeldByPerson, persons_words("held", change, directive)))
}

/// A person has asked to leave a node out that has no turn, and that is not journaled yet.
pub fn skip_asked(change: &ChangeView) -> bool {
    let fresh =
        change.status.step.is_none() || change.status.observed_generation.unwrap_or(1) < change.generation;
    let directive = change.spec.directive.as_ref();
    fresh && directive.is_some_and(|directive| directive.action == DirectiveAction::Skip)
}

/// A person asked to try a node again that had been left out.
pub fn retry_asked(change: &ChangeView) -> bool {
    change.status.observed_generation.unwrap_or(1) < change.generation
        && change
            .spec
            .directive
            .as_ref()
            .is_some_and(|d| d.action == DirectiveAction::Retry)
}
