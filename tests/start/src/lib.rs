//! How cargo builds what `cargo xtask` runs: what is in this workspace by Clippy's driver, which is rustc that looks once more (it takes
//! as long), so that the demo and the tests run the same files, and no crate is compiled once to run and once to be linted.
//!
//! It has no dependency, and waits for none. Releases, what is built for speed and whoever calls cargo by hand have rustc itself.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The variable by which cargo compiles what is in a workspace with something else than rustc.
pub const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Its name.
const DRIVER: &str = "clippy-driver";

/// The tasks that only the whole program has (feature `whole` of `xtask`).
const WHOLE: [&str; 7] = [
    "bench",
    "fuzz",
    "manifests",
    "publish",
    "release",
    "structure",
    "test",
];

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    // This crate is two folders below it.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The cargo that runs us, where we are. It compiles with rustc, also where this program was made with Clippy's driver.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.env_remove(WRAPPER);
    command
}

/// The same cargo with Clippy's driver as compiler of what is in the workspace, where there is one. What others wrote is compiled by rustc,
/// once for all.
#[must_use]
pub fn by_clippy(mut cargo: Command) -> Command {
    if let Some(driver) = driver(Path::new(cargo.get_program())) {
        cargo.env(WRAPPER, driver);
    }
    cargo
}

/// Whether code can be linted here.
#[must_use]
pub fn has_clippy() -> bool {
    driver(Path::new(cargo().get_program())).is_some()
}

fn driver(cargo: &Path) -> Option<PathBuf> {
    driver_on(cargo, &env::var_os("PATH").unwrap_or_default())
}

/// That of cargo's own toolchain; where cargo lies by itself, that on the PATH.
fn driver_on(cargo: &Path, path: &OsStr) -> Option<PathBuf> {
    let beside = cargo.is_absolute().then(|| cargo.with_file_name(DRIVER));
    let on_path = env::split_paths(path).map(|folder| folder.join(DRIVER));
    beside.into_iter().chain(on_path).find(|file| file.is_file())
}

/// What builds the program that has a task, and runs it; the words of the task come behind it.
#[must_use]
fn program_of(task: &str) -> Command {
    let mut command = by_clippy(cargo());
    command.args(["run", "--package", "xtask", "--manifest-path"]);
    command.arg(root().join("Cargo.toml"));
    // Who wants to see the demo does not wait for what tests, measures and releases.
    if WHOLE.contains(&task) {
        command.args(["--features", "whole"]);
    }
    command.arg("--");
    command
}

/// Has cargo build the program that has the task by which this one was started, and runs it with the same words, where we are. Its exit code
/// is ours.
///
/// # Errors
/// Cargo cannot be run.
pub fn run() -> io::Result<ExitCode> {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let task = words.first().map(|task| task.to_string_lossy());
    let mut program = program_of(task.as_deref().unwrap_or_default());
    let code = program.args(&words).status()?.code();
    let code = code.and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lints of Clippy are what the workspace's own manifest asks for: with a driver that does not lint, nothing would be found.
    #[test]
    fn the_driver_is_clippys() {
        let cargo = cargo();
        let mut driver = Command::new(driver(Path::new(cargo.get_program())).unwrap());
        let said = driver.arg("--version").output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.starts_with("clippy "), "{said}");
    }

    /// A toolchain without Clippy shows the demo, too.
    #[test]
    fn a_driver_that_is_not_there_is_not_named() {
        assert_eq!(
            driver_on(Path::new("/nowhere/cargo"), OsStr::new("/nowhere")),
            None
        );
    }

    /// Who wants to see the demo does not wait for what only tests run; and what both run is compiled once.
    #[test]
    fn the_demo_is_a_part_of_what_tests_run() {
        let wrapper = |command: &Command| {
            let found = command.get_envs().find(|(name, _)| *name == WRAPPER);
            found.and_then(|(_, value)| value).map(ToOwned::to_owned)
        };
        let (demo, test) = (program_of("demo"), program_of("test"));
        assert!(wrapper(&demo).is_some() && wrapper(&demo) == wrapper(&test));
        let is_whole = |command: &Command| command.get_args().any(|word| word == "whole");
        assert!(is_whole(&test) && !is_whole(&demo));
    }
}
