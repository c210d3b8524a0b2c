//! Steps that are no executable with tests of the workspace.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use start::by_clippy;

use super::run::Outcome;
use crate::counts::{Counts, counted};
use crate::{book, elsewhere, lint, step};

pub fn doc_tests(filter: &[String], counts: &mut Counts) -> Result<Outcome> {
    let mut command = by_clippy(step::cargo());
    // The profile and the features of the build: with those of tests all libraries would be compiled once more.
    command
        .args(["test", "--quiet", "--workspace", "--doc", "--profile", "dev"])
        .args(["--features", step::WHOLE, "--"])
        .args(filter);
    counted(command, counts).map(|said| Outcome::of(said.success))
}

pub fn plugins_tests(filter: &[String], counts: &mut Counts) -> Result<Outcome> {
    let mut command = by_clippy(lint::plugins(step::cargo()));
    command
        .args(["test", "--quiet", "--workspace", "--"])
        .args(filter);
    counted(command, counts).map(|said| Outcome::of(said.success))
}

/// Builds every rule that ships, and checks what it imports, its size, and that it names no path of this machine.
pub fn plugins_components() -> Result<Outcome> {
    step::succeeds(lint::plugins(step::cargo()).arg("components")).map(Outcome::of)
}

/// The Go programs that tests build. Each is checked by its compiler; `go vet` would take minutes for the control plane, as it goes
/// through all of Kubernetes.
const GO_PROGRAMS: [&str; 5] = [
    "tests/control-plane/main.go",
    "tests/e2e/olm/main.go",
    "tests/install/argocd/main.go",
    "tests/install/olm/main.go",
    "tests/plugin/registry/main.go",
];

pub fn gofmt() -> Result<Outcome> {
    let mut command = Command::new("gofmt");
    command.current_dir(step::root()).arg("-l").args(GO_PROGRAMS);
    let output = command.output().context("run gofmt")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let unformatted = String::from_utf8_lossy(&output.stdout);
    for file in unformatted.lines() {
        println!("not as gofmt writes it: {file}");
    }
    Ok(Outcome::of(unformatted.trim().is_empty()))
}

pub fn deny(wanted: bool) -> Result<Outcome> {
    if let Some(is_sound) = lint::deny_step(wanted)? {
        return Ok(Outcome::of(is_sound));
    }
    println!("{}", lint::DENY_IS_MISSING);
    Ok(Outcome::Skipped)
}

pub fn of_elsewhere(wanted: bool) -> Result<Outcome> {
    if !wanted {
        println!("{}", elsewhere::NOT_ASKED_FOR);
        return Ok(Outcome::Skipped);
    }
    Ok(match elsewhere::check()? {
        elsewhere::Found::Compiles => Outcome::Done,
        elsewhere::Found::Fails(target) => {
            println!("the command line does not compile for {target}");
            Outcome::Failed
        }
        elsewhere::Found::Untried(why) => {
            println!("{why}");
            Outcome::Skipped
        }
    })
}

pub fn the_book(wanted: bool) -> Result<Outcome> {
    if let Some(is_alive) = book::build(wanted)? {
        return Ok(Outcome::of(is_alive));
    }
    println!("{}", book::IS_MISSING);
    Ok(Outcome::Skipped)
}

/// Fails where there is a warning. They were printed when they were found.
pub fn without_warnings(warnings: usize) -> Outcome {
    if warnings > 0 {
        println!("{warnings} warnings of rustc and Clippy, above");
    }
    Outcome::of(warnings == 0)
}
