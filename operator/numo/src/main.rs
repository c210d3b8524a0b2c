//! The numo binary: the operator, and the command line of the people who run it.

use std::process::ExitCode;

fn main() -> ExitCode {
    numo::cli::main()
}
