//! Whether a MutexWindow lets its nodes begin, and when it does next.

use super::explanation::{Explanation, NAMED};
use crate::{
    cli::{live::Look, named::Named},
    shell::project::Kind,
};
use numo_api::{Reason, conditions::Actor};
use numo_core::{
    Owner,
    admit::{schedule::Schedule, union::State, windows},
    calendar::Calendar,
    observed::WindowView,
    text::counted,
};

/// What looks like a bound and is none.
const NOBODY: &str = "spec.nodeSelector selects no node: nothing waits for it";

/// How a window stands by itself, and which nodes it speaks of.
pub(super) fn window(look: &Look, view: &WindowView) -> Explanation {
    let observed = &look.store.observed;
    let name = &view.name;
    let why = match Schedule::default().under(&[view]) {
        Err(why) => Some(why),
        Ok(schedule) => schedule.closed(look.now),
    };
    let words = match (&why, windows::state(view, look.now)) {
        (Some(why), _) => why.message.to_string(),
        (None, Some(State::Open { until: Some(at) })) => {
            let clock = view
                .hours
                .as_ref()
                .map_or_else(|_| at.to_string(), |hours| hours.clock(at));
            format!("it is open, and closes {clock}")
        }
        (None, _) => "it is open, and no end is in sight".to_owned(),
    };
    let mut one = Explanation::of(
        Named::of_cluster(Kind::MutexWindow, name),
        (why.as_ref().map(|why| why.reason), words),
    );
    if let Some(why) = &why {
        let closed_for_good = matches!(why.reason, Reason::InvalidField | Reason::NeverOpens);
        let who = if closed_for_good {
            Actor::ClusterAdmin
        } else {
            why.who()
        };
        one.ends_by = Some(who.phrase());
        one.commands = vec![format!("kubectl edit mutexwindow {name}")];
    }
    let nodes = observed.nodes.values();
    let names: Vec<&str> = nodes
        .filter(|node| windows::covers(view, node))
        .map(|node| node.name.as_str())
        .collect();
    let named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > NAMED { ", ..." } else { "" };
    let colon = if names.is_empty() { "" } else { ": " };
    one.link(
        "nodes",
        format!("{}{colon}{named}{more}", counted(names.len(), "node")),
    );
    if names.is_empty() {
        one.link("note", NOBODY.to_owned());
    }
    one
}

/// How the windows of a node stand, one after the other.
pub(super) fn around_windows(one: &mut Explanation, look: &Look, node: &numo_core::observed::NodeView) {
    for view in windows::of_node(&look.store.observed, node) {
        let name = &view.name;
        let clock = |at| {
            view.hours
                .as_ref()
                .map(|hours| hours.clock(at))
                .unwrap_or_default()
        };
        let words = windows::state(view, look.now).map_or_else(
            || "it cannot be understood".to_owned(),
            |state| state.words(clock),
        );
        one.link("window", format!("MutexWindow {name}: {words}"));
    }
}

/// How the hours of an owner stand: its own, and those of the MutexBindings that select it.
pub(super) fn own_hours(one: &mut Explanation, look: &Look, owner: &Owner) {
    for standing in Calendar::of(owner, &look.store.observed).standing(look.now) {
        one.link("hours", format!("{}: {}", standing.name, standing.words));
    }
}
