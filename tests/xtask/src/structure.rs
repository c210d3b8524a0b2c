//! `cargo xtask structure`: sizes, import cycles and names of the crates that ship.

use std::process::ExitCode;

use anyhow::Result;
use numo_structure::{Crate, table};

use crate::step;

/// The folders of the crates that ship.
const CRATES: [&str; 6] = ["api", "core", "plugin", "cli", "author", "numo"];

/// What `cargo xtask structure` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Name each function of more than 60 lines
    #[arg(long)]
    long: bool,
    /// Name the files of each import cycle, and the imports that hold it together
    #[arg(long)]
    cycles: bool,
    /// Name each function called `is_`, `has_`, `can_` or `holds_` that takes `&mut`
    #[arg(long)]
    predicates: bool,
}

/// Prints the table, and below it what the flags ask for.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let crates = CRATES
        .iter()
        .map(|name| Crate::read(&step::root().join("operator").join(name)))
        .collect::<Result<Vec<Crate>>>()?;
    print!("{}", table::table(&crates));
    for of in &crates {
        let mut lines = Vec::new();
        if arguments.long {
            lines.extend(table::long_functions(of));
        }
        if arguments.cycles {
            lines.extend(
                of.cycles()
                    .iter()
                    .map(|cycle| format!("{}: cycle of {}", of.name, cycle.join(" "))),
            );
            lines.extend(of.imports_in_cycles());
        }
        if arguments.predicates {
            lines.extend(table::writing_predicates(of));
        }
        for line in lines {
            println!("{line}");
        }
    }
    Ok(ExitCode::SUCCESS)
}
