//! The numo binary: the operator, and the command line of the people who run it.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    numo::cli::main()
}
