//! Writes that the API server refused for a reason a user must hear of. This file writes nothing.

use super::Store;
use jiff::Timestamp;
use numo_core::{
    observed::{Key, Refusal},
    rules::{REFUSED_SECONDS, later},
};
use std::collections::BTreeSet;

impl Store {
    /// Notes a write that was refused for a reason a user must hear of.
    pub fn refuse(&mut self, about: Key, code: u16, message: String, at: Timestamp) {
        let known = self.observed.refusals.get(&about);
        let goes_on = |known: &&Refusal| {
            // What was not even asked for was not refused.
            known.code != 0 && at <= later(known.at, REFUSED_SECONDS)
        };
        let refusal = Refusal {
            code,
            message,
            at,
            since: known.filter(goes_on).map_or(at, |known| known.since),
        };
        self.observed.refusals.insert(about, refusal);
    }

    /// Drops refusals of Jobs in namespaces that no rule names any more.
    pub fn forget_refusals(&mut self) {
        let named: BTreeSet<&String> = self
            .observed
            .rules
            .values()
            .map(|rule| &rule.job_namespace)
            .collect();
        self.observed
            .refusals
            .retain(|job, _| named.contains(&job.namespace));
    }

    /// A write that was refused before has succeeded.
    pub fn accept(&mut self, about: &Key) {
        self.observed.refusals.remove(about);
    }
}
