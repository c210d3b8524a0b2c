//! `numo:host/log`: a component's lines. It cannot fail, so it is bounded by dropping: the book counts lines and
//! bytes, says once that it drops, and hands the rest of nothing to anyone.

use std::sync::Arc;

use super::Sandbox;
use crate::{
    bindings::numo::host::log::{Host, Level},
    limits::Limits,
    services::{LogLevel, LogLine, LogSink},
    text::clean,
};

/// Fields kept of one line.
const FIELDS: usize = 16;

/// The lines of one evaluation.
pub(crate) struct LogBook {
    sink: Option<Arc<dyn LogSink>>,
    lines_left: u64,
    bytes_left: u64,
    dropped: bool,
}

impl LogBook {
    pub(crate) fn new(sink: Option<Arc<dyn LogSink>>, limits: &Limits) -> Self {
        Self {
            sink,
            lines_left: limits.log_lines,
            bytes_left: limits.log_bytes,
            dropped: false,
        }
    }

    /// Hands on a line that is already clean, or drops it.
    pub(crate) fn write(&mut self, line: LogLine) {
        let Some(sink) = &self.sink else { return };
        let size = |(key, value): &(String, String)| key.len() + value.len();
        let bytes = (line.message.len() + line.fields.iter().map(size).sum::<usize>()) as u64;
        if !self.dropped && self.lines_left > 0 && self.bytes_left >= bytes {
            self.lines_left -= 1;
            self.bytes_left -= bytes;
            sink.line(line);
        } else if !self.dropped {
            self.dropped = true;
            let message = "the rule wrote more than it may in one evaluation; the rest is dropped".to_owned();
            sink.line(LogLine {
                level: LogLevel::Warn,
                message,
                fields: Vec::new(),
            });
        }
    }

    /// Whether the next line would be dropped: then nothing needs to be made of it.
    pub(crate) fn is_full(&self) -> bool {
        self.dropped || self.sink.is_none()
    }
}

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
