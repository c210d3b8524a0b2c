//! What compiles and what runs agree on. The only place where features of WebAssembly are switched.

use std::path::PathBuf;

use wasmtime::{Config, OptLevel};

use crate::limits::Limits;

/// Bytes of the fiber that one call runs on: the component's [`Limits::stack_bytes`] and the host's frames.
const FIBER_BYTES: usize = 2 * 1024 * 1024;

/// Where components are compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compile {
    /// In this process: only time is bounded, and not by force. For tests and the command line.
    Here,
    /// In a child: `program` with `arguments`, which must end up in [`crate::compile_child`]. Memory, time and
    /// priority are bounded, and what kills the compiler does not kill the operator.
    Child {
        /// Usually this very binary.
        program: PathBuf,
        /// Usually one hidden subcommand.
        arguments: Vec<String>,
    },
}

/// Everything that is not the allocator: what compiles must say the same as what runs.
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
