//! What a MutexBinding gates, or why it gates nothing.

use super::explanation::{Explanation, NAMED};
use crate::{
    cli::{live::Look, named::Named},
    shell::project::Kind,
};
use numo_api::Reason;
use numo_core::{admit::union::Union, binding, observed::BindingView};

/// What a binding gates, or why it gates nothing.
pub(super) fn binding(look: &Look, name: &str, view: &BindingView) -> Explanation {
    let observed = &look.store.observed;
    let (ready, why, owners) = binding::state(view, observed);
    let mut one = Explanation {
        phase: Some(if ready { "valid" } else { "not valid" }.to_owned()),
        ..Explanation::of(
            Named::of_cluster(Kind::MutexBinding, name),
            (Some(why.reason), why.message.to_string()),
        )
    };
    let does = if why.reason == Reason::NothingGated {
        "selects"
    } else {
        "gates"
    };
    if let Some(Ok(hours)) = &view.hours {
        let words = Union(&[hours]).at(look.now).words(|at| hours.clock(at));
        one.link("hours", format!("spec.window: {words}"));
    }
    for owner in owners.iter().take(NAMED) {
        one.link(does, owner.to_string());
    }
    if owners.len() > NAMED {
        one.link(does, format!("and {} more", owners.len() - NAMED));
    }
    if !ready || owners.is_empty() {
        one.commands = vec![format!("kubectl edit mutexbinding {name}")];
    }
    one
}
