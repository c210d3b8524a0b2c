//! The lines that one evaluation may write.

use std::sync::Arc;

use crate::{
    limits::Limits,
    services::{LogLevel, LogLine, LogSink},
};

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
