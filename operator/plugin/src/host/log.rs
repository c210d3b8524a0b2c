//! `numo:host/log`: a component's lines. It cannot fail, so it is bounded by dropping: the book counts lines and
//! bytes, says once that it drops, and hands the rest of nothing to anyone.

use super::sandbox::Sandbox;
use crate::{
    bindings::numo::host::log::{Host, Level},
    services::{LogLevel, LogLine},
    text::clean,
};

/// Fields kept of one line.
const FIELDS: usize = 16;

impl Host for Sandbox {
    fn write(
        &mut self,
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        self.budget.count(&self.limits)?;
        if self.book.is_full() {
            return Ok(());
        }
        let most = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (of_message, of_field) = (
            most(self.limits.log_message_bytes),
            most(self.limits.log_field_bytes),
        );
        self.book.write(LogLine {
            level: match level {
                Level::Debug => LogLevel::Debug,
                Level::Info => LogLevel::Info,
                Level::Warn => LogLevel::Warn,
                Level::Error => LogLevel::Error,
            },
            message: clean(&message, of_message),
            fields: fields
                .iter()
                .take(FIELDS)
                .map(|(key, value)| (clean(key, 64), clean(value, of_field)))
                .collect(),
        });
        Ok(())
    }
}
