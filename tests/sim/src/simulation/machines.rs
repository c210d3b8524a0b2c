//! What the operator remembers of the provider of machines, as the shell does: what it was told, what it has done, and what of that was
//! refused. A restart forgets all of it.

use super::Simulation;
use crate::world::ACCEPTED;
use jiff::SignedDuration;
use numo_core::{
    action::{Action, FleetAction},
    observed::Told,
};
use rand::Rng;

/// How soon the provider is told again what it has not done (seconds).
const AGAIN: i64 = 10;

/// What is told to the provider, by the name under which the operator remembers it.
fn told(action: &Action) -> Option<String> {
    let Action::Fleet(action) = action else {
        return None;
    };
    match action {
        FleetAction::CreateMachine { pending, .. } => Some(pending.clone()),
        FleetAction::DeleteMachine { provider_id, .. } => Some(provider_id.to_lowercase()),
        FleetAction::RemoveEtcdMember { address, .. } => Some(address.clone()),
        FleetAction::SetGroupImage { group_id, .. } => Some(group_id.to_lowercase()),
        _ => None,
    }
}

impl Simulation {
    /// The provider has done what it was told.
    pub(super) fn provider_did(&mut self, action: &Action) {
        let Some(what) = told(action) else { return };
        let now = self.world.time();
        let provider = &mut self.view.remember().fleet.provider;
        provider.told.remove(&what);
        provider.states.remove(&what);
        provider.images.remove(&what);
        provider.found.remove(&what);
        provider.did.insert(what, now);
    }

    /// The provider has not done it, or not yet.
    pub(super) fn provider_refused(&mut self, action: &Action, code: u16, words: &str) {
        let Some(what) = told(action) else { return };
        if code == 404 {
            // It was done, and could not be written down.
            return self.provider_did(action);
        }
        let again = self.world.time().checked_add(SignedDuration::from_secs(AGAIN));
        let told = Told {
            again: again.unwrap_or_else(|_| self.world.time()),
            problem: (code != ACCEPTED).then(|| words.to_owned()),
        };
        let provider = &mut self.view.remember().fleet.provider;
        provider.did.remove(&what);
        provider.told.insert(what, told);
    }

    /// The operator dies while it tells the provider something, which may have heard it all the same.
    pub(super) fn dies_in(&mut self, action: &Action) {
        if told(action).is_some() && self.rng.random_bool(0.5) {
            self.world.provider_hears(action);
        }
    }
}
