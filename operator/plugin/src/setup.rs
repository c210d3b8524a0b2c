//! What compiles and what runs agree on. The only place where features of WebAssembly are switched.

use std::path::PathBuf;

#[cfg(feature = "sandbox")]
use wasmtime::{Config, OptLevel};

use crate::limits::{LimitOutOfBounds, Limits};

/// Bytes of the fiber that one call runs on: the component's [`Limits::stack_bytes`] and the host's frames.
const FIBER_BYTES: usize = 2 * 1024 * 1024;

/// The hidden verb under which numo's own binary is `compile_child`.
pub const COMPILE_VERB: &str = "compile-rule";

/// Where components are compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compile {
    /// In this process: only time is bounded, and not by force. For tests and the command line.
    Here,
    /// In a child: `program` with `arguments`, which must end up in `compile_child`. Memory, time and
    /// priority are bounded, and what kills the compiler does not kill the operator.
    Child {
        /// Usually this very binary.
        program: PathBuf,
        /// Usually one hidden subcommand.
        arguments: Vec<String>,
    },
}

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What a rule gets that says nothing, and all that a rule cannot say.
    pub limits: Limits,
    /// What a rule may ask for at most; itself at most [`Limits::CEILINGS`].
    pub ceilings: Limits,
    /// Threads that evaluate; at least 1.
    pub workers: usize,
    /// Where components are compiled.
    pub compile: Compile,
    /// Folder of the cache; none: nothing is kept. Made if need be, mode 0700.
    pub cache: Option<PathBuf>,
    /// Instances from a pool made at start: quicker, at the price of address space. Where that cannot be had they
    /// are made one by one.
    pub pooled: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            ceilings: Limits::CEILINGS,
            workers: 2,
            compile: Compile::Here,
            cache: None,
            pooled: false,
        }
    }
}

/// An engine could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A limit is out of bounds.
    #[error(transparent)]
    Limit(#[from] LimitOutOfBounds),
    /// wasmtime refuses to run here.
    #[error("wasmtime cannot be set up: {0}")]
    Wasmtime(String),
    /// This program has no sandbox.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// No thread, no folder.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// This program is made without what shuts in and runs what strangers wrote; for the end of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this program is the command line alone, and reads no component and no expression; the program in the operator's image does, on \
     Linux"
)]
pub struct Absent;

/// Everything that is not the allocator: what compiles must say the same as what runs.
#[cfg(feature = "sandbox")]
pub(crate) fn config(limits: &Limits) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(usize::try_from(limits.stack_bytes).unwrap_or(FIBER_BYTES / 4))
        .async_stack_size(FIBER_BYTES)
        .cranelift_opt_level(OptLevel::Speed)
        // A recorded evaluation must replay on another machine.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        // Memories of more than 4 GiB would be counted, not useful.
        .wasm_memory64(false)
        .concurrency_support(false)
        // The compiler has one processor: the cluster has the other.
        .parallel_compilation(false);
    config
}
