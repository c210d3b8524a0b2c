//! Writes that the API server refused for a reason a user must hear of. This file writes nothing.

use super::Store;
use jiff::Timestamp;
use numo_core::observed::{Key, Refusal};
use std::collections::BTreeSet;

impl Store {
    /// Notes a write that was refused for a reason a user must hear of.
    pub fn refuse(&mut self, about: Key, code: u16, message: String, at: Timestamp) {
        self.observed
            .refusals
            .insert(about, Refusal { code, message, at });
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
