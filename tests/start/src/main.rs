//! `cargo xtask`: cargo builds the program that has the tasks, and beside it the control plane is built where the task needs one. On a fresh
//! machine both take minutes, and neither keeps two cores busy all the time. Then the task takes the place of this program.
//!
//! It may not do anything that a task does.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::{Context, Result};

/// The tasks that the smaller program has (`tests/xtask` without its feature `whole`): who wants to see the demo does not wait for what
/// tests, measures, fuzzes and releases.
const SMALL: [&str; 3] = ["cluster", "demo", "setup"];

/// The tasks that need a control plane.
const ON_A_CONTROL_PLANE: [&str; 4] = ["cluster", "demo", "setup", "test"];

/// Words with which such a task needs none: there is one, or only help is wanted.
const WITHOUT: [&str; 3] = ["--help", "--kubeconfig", "-h"];

/// What a task needs.
#[derive(Debug, PartialEq, Eq)]
struct Needs {
    /// The program with all tasks.
    whole: bool,
    /// The control plane of tests and the demo.
    control_plane: bool,
}

impl Needs {
    fn of(words: &[OsString]) -> Self {
        let is = |names: &[&str], word: &OsStr| names.iter().any(|name| word == *name);
        let task = words.first().map_or(OsStr::new(""), OsString::as_os_str);
        let without = |word: &OsString| {
            let word = word.to_string_lossy();
            let name = word.split_once('=').map_or(&*word, |(name, _)| name);
            WITHOUT.contains(&name)
        };
        Self {
            whole: !is(&SMALL, task),
            control_plane: is(&ON_A_CONTROL_PLANE, task) && !words.iter().any(without),
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    match start(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds what the task needs, and becomes the task. Returns only where that fails.
fn start(words: &[OsString]) -> Result<ExitCode> {
    let needs = Needs::of(words);
    if !build(&needs)? {
        return Ok(ExitCode::FAILURE);
    }
    let mut task = cargo("run", &needs);
    let error = task.arg("--quiet").arg("--").args(words).exec();
    Err(error).context("run cargo")
}

/// Builds both side by side; says whether there is a program that has the task.
fn build(needs: &Needs) -> Result<bool> {
    // Programs from elsewhere: the task looks whether they are whole.
    let is_given = env::var_os("KUBEBUILDER_ASSETS").is_some_and(|folder| !folder.is_empty());
    let is_in_vain = AtomicBool::new(false);
    thread::scope(|scope| {
        if needs.control_plane && !is_given {
            // What goes wrong is said by the task, which looks for the control plane where this has left it.
            scope.spawn(|| numo_control_plane::program_unless(&is_in_vain));
        }
        let status = cargo("build", needs).status();
        let is_built = status.as_ref().is_ok_and(std::process::ExitStatus::success);
        is_in_vain.store(!is_built, Ordering::Relaxed);
        status.context("run cargo").map(|_| is_built)
    })
}

/// The cargo that started this, on the program that has the tasks.
fn cargo(verb: &str, needs: &Needs) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([verb, "--package", "xtask", "--manifest-path"]);
    cargo.arg(root.join("Cargo.toml"));
    if needs.whole {
        cargo.args(["--features", "whole"]);
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(words: &str) -> (bool, bool) {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        let needs = Needs::of(&words);
        (needs.whole, needs.control_plane)
    }

    #[test]
    fn who_wants_to_see_the_demo_builds_nothing_that_it_does_not_run() {
        assert_eq!(needs("demo"), (false, true));
        assert_eq!(needs("demo --scenario replace"), (false, true));
        assert_eq!(needs("demo --kubeconfig here"), (false, false));
        assert_eq!(needs("demo --kubeconfig=here"), (false, false));
        assert_eq!(needs("demo --help"), (false, false));
    }

    #[test]
    fn other_tasks_have_the_whole_program() {
        assert_eq!(needs("test"), (true, true));
        assert_eq!(needs("structure"), (true, false));
        assert_eq!(needs(""), (true, false));
        assert_eq!(needs("--help"), (true, false));
    }
}
