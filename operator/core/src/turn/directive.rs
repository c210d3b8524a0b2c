//! What a person said about a node.

use crate::observed::ChangeView;
use numo_api::{Directive, DirectiveAction};

/// What a person said, in a sentence.
pub fn persons_words(what: &str, change: &ChangeView, directive: &Directive) -> String {
    let by = directive.by.as_deref().unwrap_or("someone");
    let why = directive
        .reason
        .as_deref()
        .map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{what} by {by}{why} (NodeChange {} spec.directive)", change.key)
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
