//! Standard output and error of a component.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi_io::{
    poll::Pollable,
    streams::{OutputStream, StreamResult},
};

use super::book::LogBook;
use crate::{
    limits::Limits,
    services::{LogLevel, LogLine},
    text::clean,
};

/// Standard output and error: lines for the log, and the last of them for the message of a trap.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<Written>>);

struct Written {
    book: LogBook,
    line: Vec<u8>,
    longest: usize,
    /// The last lines, [`TAIL`] bytes at most.
    tail: String,
}

/// Bytes kept of what was written last.
const TAIL: usize = 1024;

impl Output {
    pub(crate) fn new(book: LogBook, limits: &Limits) -> Self {
        let longest = usize::try_from(limits.log_message_bytes).unwrap_or(usize::MAX);
        Self(Arc::new(Mutex::new(Written {
            book,
            line: Vec::new(),
            longest,
            tail: String::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last lines; what has no line end yet becomes one.
    pub(crate) fn tail(&self) -> String {
        let mut written = self.lock();
        written.end_line();
        written.tail.trim().to_owned()
    }
}

impl Written {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                _ if self.line.len() < self.longest => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let message = clean(
            &String::from_utf8_lossy(&std::mem::take(&mut self.line)),
            self.longest,
        );
        if self.tail.len() + message.len() >= TAIL {
            self.tail.clear();
        }
        self.tail.push_str(&clean(&message, TAIL - 2));
        self.tail.push(' ');
        self.book.write(LogLine {
            level: LogLevel::Debug,
            message,
            fields: Vec::new(),
        });
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for it, which is not linked.
        Box::new(tokio::io::sink())
    }
}

#[async_trait::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.lock().write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(64 * 1024)
    }
}
