//! In place of the metrics in a program that is the command line alone: nobody reads them there, so nothing is counted.

use numo_api::{Phase, Reason};
use std::time::Duration;

/// No metrics.
#[derive(Clone, Debug, Default)]
pub struct Metrics;

impl Metrics {
    /// None.
    pub fn new() -> Self {
        Self
    }

    /// Counts nothing.
    pub fn begins(&self, _: &str, _: Phase) {}

    /// Counts nothing.
    pub fn evaluated(&self, _: &str, _: Duration) {}

    /// Counts nothing.
    pub fn count_verdict(&self, _: &str, _: Phase, _: &str) {}

    /// Counts nothing.
    pub fn gave_no_verdict(&self, _: &str, _: Reason) {}

    /// Counts nothing.
    pub fn used_memory(&self, _: &str, _: u64) {}

    /// Counts nothing.
    pub fn dropped_event(&self) {}
}
