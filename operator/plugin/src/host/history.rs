//! `numo:host/history`: what this rule said before. The operator selects the entries; this only hands them over.

use super::{
    clock::instant,
    sandbox::{Sandbox, types},
};
use crate::{
    bindings::numo::host::history::{Entry, Host},
    services::{ErrorCode, HistoryEntry, HostError},
};

/// Entries that a component sees.
const MOST: usize = 32;

impl Host for Sandbox {
    fn entries(&mut self, limit: u32) -> wasmtime::Result<Result<Vec<Entry>, types::Error>> {
        self.budget.count(&self.limits)?;
        Ok(self.recent(limit).map_err(Into::into))
    }
}

impl Sandbox {
    fn recent(&mut self, limit: u32) -> Result<Vec<Entry>, HostError> {
        let Some(granted) = &self.granted else {
            let message = "describe and validate-config must not depend on anything: every call is denied";
            return Err(HostError::new(ErrorCode::Denied, message));
        };
        let most = match usize::try_from(limit) {
            Ok(0) | Err(_) => MOST,
            Ok(limit) => limit.min(MOST),
        };
        let entries: Vec<_> = granted.services.history.iter().take(most).map(entry).collect();
        let size = |entry: &Entry| {
            let data = entry.data_json.as_ref().map_or(0, String::len);
            entry.run.len() + entry.phase.len() + entry.reason.len() + entry.summary.len() + data
        };
        self.budget
            .spend_bytes(entries.iter().map(size).sum(), &self.limits)?;
        Ok(entries)
    }
}

fn entry(entry: &HistoryEntry) -> Entry {
    Entry {
        run: entry.run.clone(),
        phase: entry.phase.clone(),
        attempt: entry.attempt,
        at: instant(entry.at),
        verdict: entry.verdict.clone(),
        reason: entry.reason.clone(),
        summary: entry.summary.clone(),
        data_json: entry.data_json.clone(),
    }
}
