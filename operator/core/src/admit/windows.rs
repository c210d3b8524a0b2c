//! MutexWindows: when nodes of a set may begin, whoever owns the change. All that select a node hold as one
//! ([`Union`](super::union::Union)); one that cannot be understood lets nothing begin. Reads no clock.

use crate::{
    observed::{NodeView, Observed, WindowView},
    selector::Selector,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, conditions::Actor};

use super::union::{State, Union};

/// Whether the window speaks of the node: `{}` selects all nodes, absent none.
pub fn covers(window: &WindowView, node: &NodeView) -> bool {
    !window.selector.is_null() && Selector::of(&window.selector).matches(&node.labels)
}

/// The windows that speak of the node, by name.
pub fn of_node<'a>(observed: &'a Observed, node: &NodeView) -> Vec<&'a WindowView> {
    let windows = observed.windows.values();
    windows.filter(|window| covers(window, node)).collect()
}

/// Why nothing begins under a window that cannot be understood.
pub fn wrong(window: &WindowView, problem: &str) -> Why {
    let message = format!(
        "MutexWindow {} spec.{problem}; no node begins that it selects",
        window.name
    );
    Why::new(Reason::InvalidField, message).ended_by(Actor::ClusterAdmin)
}

/// How a window stands by itself; none if it cannot be understood.
pub fn state(window: &WindowView, now: Timestamp) -> Option<State> {
    let hours = window.hours.as_ref().ok()?;
    Some(Union(&[hours]).at(now))
}

/// When one of all windows opens or closes next, by itself.
pub fn changes_after(observed: &Observed, now: Timestamp) -> Option<Timestamp> {
    let states = observed.windows.values().filter_map(|window| state(window, now));
    states.filter_map(|state| state.changes_at()).min()
}
