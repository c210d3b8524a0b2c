//! `cargo xtask book`: the docs as a book, built by mdBook, whose links all lead somewhere.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::step;

/// The version that the book is built with.
const VERSION: &str = "0.5.4";

/// Said where the book is not built.
pub const IS_MISSING: &str = "not built: mdBook is not installed; --book or CI=true installs it";

/// What `cargo xtask book` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Install mdBook if it is missing (minutes); CI=true implies it
    #[arg(long)]
    install: bool,
}

/// Builds the book into `target/book/book`.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match build(arguments.install)? {
        Some(true) => Ok(ExitCode::SUCCESS),
        Some(false) => Ok(ExitCode::FAILURE),
        None => {
            eprintln!("{IS_MISSING}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Builds the book and follows its links. Whether all of them lead somewhere, or nothing where mdBook is missing and
/// not wanted.
///
/// # Errors
/// The book cannot be built, or mdBook, which the flag or CI asks for, cannot be installed: a skipped step would hide that nobody built it.
pub fn build(wanted: bool) -> Result<Option<bool>> {
    let program = match installed() {
        Some(program) => program,
        None if wanted || step::is_ci() => {
            install().context("install mdBook, which --book and CI=true ask for")?;
            installed().context("mdBook was installed and cannot be run")?
        }
        None => return Ok(None),
    };
    let folder = step::root().join("target/book");
    let chapters = numo_book::stage(&step::root(), &folder)?;
    step::must(Command::new(program).arg("build").arg(&folder))?;
    let book = folder.join("book");
    let wrong = numo_book::dead_in_html(&book)?;
    for line in &wrong {
        println!("leads nowhere: {line}");
    }
    println!("{chapters} chapters in {}", book.display());
    Ok(Some(wrong.is_empty()))
}

/// mdBook of this version: on the PATH, or where cargo installs programs.
fn installed() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".cargo"))
    });
    let by_cargo = home.map(|home| home.join("bin/mdbook"));
    let mut all = std::iter::once(PathBuf::from("mdbook")).chain(by_cargo);
    all.find(|program| {
        let mut command = Command::new(program);
        let output = command.arg("--version").stderr(Stdio::null()).output();
        output.is_ok_and(|output| {
            String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{VERSION}")
        })
    })
}

/// Installs it without what watches and serves a book; takes minutes.
fn install() -> Result<()> {
    let mut command = step::cargo();
    // Its folder of builds is not ours.
    command.env_remove("CARGO_TARGET_DIR");
    command.args([
        "install",
        "--locked",
        "--quiet",
        // Built for speed it would take longer than all it does here.
        "--debug",
        "--no-default-features",
        "--features",
        "search",
    ]);
    command.arg(format!("mdbook@{VERSION}"));
    step::must(&mut command)
}
