//! What is odd about the order of an owner, as events on it: a wave without a node, a node of two waves, `first` that selects nobody, a key
//! that no node has. Each is told once while it is so.
//! Nothing waits for that, and nothing here decides.

use super::context::Context;
use numo_core::{
    Owner,
    action::{Event, EventAction},
    report::Report,
};
use std::collections::{BTreeMap, BTreeSet};

/// What was told of each owner, and is so still.
#[derive(Debug, Default)]
pub struct Oddities {
    told: BTreeMap<Owner, BTreeSet<String>>,
}

impl Oddities {
    /// Tells what is odd anew about the order of an owner.
    pub fn note(&mut self, context: &Context, owner: &Owner, report: &Report) {
        let of_waves = report.wave.iter().flat_map(|wave| &wave.notes);
        let notes: BTreeSet<String> = of_waves.chain(&report.notes).cloned().collect();
        let before = self.told.remove(owner).unwrap_or_default();
        for note in notes.difference(&before) {
            let event = Event::warning("OddWave", EventAction::Admit, note.clone());
            context.publish(owner, event);
        }
        if !notes.is_empty() {
            self.told.insert(owner.clone(), notes);
        }
    }

    /// Forgets owners that are gone.
    pub fn keep_only(&mut self, owners: &BTreeSet<Owner>) {
        self.told.retain(|owner, _| owners.contains(owner));
    }
}
