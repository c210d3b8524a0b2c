//! What strangers write, against everything of numo that reads it: each [`Target`] takes any bytes, and breaks where a
//! promise does: a panic, an answer after too long, or something taken that must be refused. Coverage guides it where
//! `cargo xtask fuzz` runs it under libFuzzer; the tests replay `corpus/` and what each target makes up from seeds. It
//! opens no connection and starts no process.

mod source;
mod targets;

pub use source::Source;
pub use targets::TARGETS;

use std::time::{Duration, Instant};

/// The stack of tokio's workers.
const STACK_BYTES: usize = 2 << 20;

/// Something that reads what strangers write.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and its folder's in `corpus/`.
    pub name: &'static str,
    /// Longest that any bytes may take; far above what they do take, since machines are busy.
    pub within: Duration,
    /// Bytes of an input at most; what is longer is cut.
    pub longest: usize,
    /// Panics where a promise is broken.
    read: fn(&[u8]),
    /// Bytes that are good, or nearly so.
    make: fn(&mut Source) -> Vec<u8>,
}

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Reads these bytes.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn check(&self, bytes: &[u8]) {
        let begin = Instant::now();
        let bytes = &bytes[..bytes.len().min(self.longest)];
        // What nests is read on the stack that a worker of the operator has.
        let read = || (self.read)(bytes);
        let end = std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
            worker
                .spawn_scoped(scope, read)
                .map(std::thread::ScopedJoinHandle::join)
        });
        let begun = end.as_ref().err();
        assert!(begun.is_none(), "{} has no thread: {begun:?}", self.name);
        if let Ok(Err(broken)) = end {
            std::panic::resume_unwind(broken);
        }
        let took = begin.elapsed();
        assert!(took < self.within, "{} took {took:?}", self.name);
    }

    /// Bytes for a seed: good ones, and in most cases damaged afterwards.
    pub fn generate(&self, seed: u64) -> Vec<u8> {
        let mut source = Source::new(seed);
        let mut bytes = (self.make)(&mut source);
        source.damage(&mut bytes);
        bytes.truncate(self.longest);
        bytes
    }
}
