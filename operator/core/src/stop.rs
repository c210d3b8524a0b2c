//! What says at this moment that an owner is to begin nothing: a person, an operator that numo replaces, or an edit of a MutexWindow, or of
//! a rule on whose Pass it was decided. The shell compares before each write of a round, so that what was decided before a stop begins no more after it. Whether
//! something is begun at all is decided elsewhere: a stop that is here and nowhere else only has the round decided anew.

use crate::{
    key::Key,
    observed::{Observed, RuleView},
    owner::Owner,
    referred,
};
use numo_api::marks;
use std::collections::BTreeSet;

/// Every stop of an owner, each in one word that no other stop has.
pub fn standing(observed: &Observed, owner: &Owner) -> BTreeSet<String> {
    let budgets = observed.budgets.values().filter(|budget| budget.paused);
    let budgets = budgets.map(|budget| format!("MutexBudget {}", budget.name));
    let rivals = observed.foreign_controllers.keys();
    let rivals = rivals.map(|rival| format!("Deployment {rival}"));
    let uid = observed.uid_of(owner);
    let told = observed.changes.values().filter(|change| {
        change.spec.directive.is_some()
            && Some(change.spec.owner_ref.uid.as_str()) == uid
            && observed.is_trusted(change)
    });
    let told = told.map(|change| format!("NodeChange {} {}", change.key, change.generation));
    // A Pass of another edition of its rule lets no node go.
    let of_turns = observed.changes.values().filter(|change| {
        change.in_flight() && Some(change.spec.owner_ref.uid.as_str()) == uid && observed.is_trusted(change)
    });
    // Those in force since a turn began, too.
    let in_force = of_turns
        .flat_map(|change| {
            let terms = change.status.pin.iter().filter_map(|pin| pin.terms.as_ref());
            let of_wave = change.status.wave_rules.iter().flatten();
            terms.flat_map(|terms| &terms.rules).chain(of_wave)
        })
        .filter_map(|name| name.split_once('/'))
        .map(|(namespace, name)| Key::new(namespace, name));
    let named = referred::of_owner(owner, observed).into_iter();
    let all: BTreeSet<Key> = named.chain(in_force).collect();
    let rules = all.into_iter().map(|key| {
        let edition = observed.rules.get(&key).map(RuleView::edition);
        format!("MutexRule {key} {}", edition.unwrap_or_default())
    });
    let gone = uid.is_none().then_some("gone");
    let own = gone.or_else(|| of_itself(observed, owner)).map(ToOwned::to_owned);
    // One that was made or edited meanwhile may be closed.
    let windows = observed.windows.values();
    let windows = windows.map(|one| format!("MutexWindow {} {} {}", one.name, one.uid, one.generation));
    let stops = budgets.chain(windows).chain(rivals).chain(told).chain(own);
    stops.chain(rules).collect()
}

/// What the owner says itself.
fn of_itself(observed: &Observed, owner: &Owner) -> Option<&'static str> {
    let view = observed.owner(owner)?;
    let deleted = view.deleting.then_some("metadata.deletionTimestamp");
    let suspended = view.suspended.then_some("spec.suspend");
    let mut asks = [marks::SUSPEND, marks::ABORT].into_iter();
    deleted
        .or(suspended)
        .or_else(|| asks.find(|key| view.annotations.contains_key(*key)))
}
