//! Compiles a workspace with its tests, and lints it in the same go: by Clippy's driver, which is rustc that looks once more. `cargo clippy`
//! would read every dependency again, for minutes, since what it makes serves no build, and what a build makes does not serve it.
//!
//! It runs nothing that it compiles.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use start::by_clippy;

/// What was compiled.
pub struct Compiled {
    /// Executables of tests.
    pub tests: Vec<Test>,
    /// Programs.
    pub programs: Vec<Program>,
    /// How many warnings there are, those of before included where nothing has changed since.
    pub warnings: usize,
}

/// An executable with tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The folder of its package.
    pub folder: PathBuf,
    /// The target's name.
    pub target: String,
    /// The target's kind: a library and a program may have the same name.
    pub kind: String,
    /// Where it is.
    pub executable: PathBuf,
}

/// A program of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The folder of its package.
    pub folder: PathBuf,
    /// Where it is.
    pub executable: PathBuf,
}

/// One line of cargo's JSON messages, as far as we read it.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    executable: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    #[serde(rename = "message")]
    said: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    #[serde(default)]
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
}

/// Compiles all targets of a workspace with these features. Warnings are printed as they come.
///
/// # Errors
/// It does not compile.
pub fn whole(cargo: Command, features: &[&str]) -> Result<Compiled> {
    ensure!(
        start::has_clippy(),
        "there is no clippy-driver: rustup component add clippy"
    );
    let mut command = by_clippy(cargo);
    command.args(["build", "--workspace", "--all-targets", "--message-format=json"]);
    let mut child = command
        .args(features)
        .stdout(Stdio::piped())
        .spawn()
        .context("run cargo build")?;
    let stdout = child.stdout.take().context("cargo's output")?;
    let mut compiled = Compiled {
        tests: Vec::new(),
        programs: Vec::new(),
        warnings: 0,
    };
    for line in BufReader::new(stdout).lines() {
        compiled.take(&line?);
    }
    ensure!(child.wait()?.success(), "the workspace does not build");
    Ok(compiled)
}

impl Compiled {
    /// Reads one message of cargo.
    fn take(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Message>(line) else {
            return;
        };
        if let Some(said) = &message.said {
            if said.level == "warning" {
                self.warnings += 1;
            }
            eprint!("{}", said.rendered.as_deref().unwrap_or_default());
        }
        let _ = self.take_executable(message);
    }

    fn take_executable(&mut self, message: Message) -> Option<()> {
        let executable = message
            .executable
            .filter(|_| message.reason == "compiler-artifact")?;
        let folder = message.manifest_path.parent()?.to_owned();
        if message.profile?.test {
            let target = message.target?;
            self.tests.push(Test {
                folder,
                target: target.name,
                kind: target.kind.into_iter().next().unwrap_or_default(),
                executable,
            });
        } else {
            self.programs.push(Program { folder, executable });
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(line: &str) -> Compiled {
        let mut compiled = Compiled {
            tests: Vec::new(),
            programs: Vec::new(),
            warnings: 0,
        };
        compiled.take(line);
        compiled
    }

    #[test]
    fn only_test_executables_are_run() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/x/Cargo.toml","target":{{"name":"sim","kind":["lib"]}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = compiled(&line(true, r#""/x/target/sim""#));
        assert!(found.programs.is_empty());
        assert_eq!(
            found.tests,
            [Test {
                folder: "/x".into(),
                target: "sim".to_owned(),
                kind: "lib".to_owned(),
                executable: "/x/target/sim".into()
            }]
        );
        let found = compiled(&line(false, r#""/x/target/sim""#));
        assert!(found.tests.is_empty());
        assert_eq!(
            found.programs,
            [Program {
                folder: "/x".into(),
                executable: "/x/target/sim".into()
            }]
        );
        assert!(compiled(&line(true, "null")).tests.is_empty());
        assert!(
            compiled(r#"{"reason":"build-finished","success":true}"#)
                .tests
                .is_empty()
        );
    }

    /// Cargo tells them also where it compiles nothing, so a warning of yesterday fails today's run too.
    #[test]
    fn a_warning_is_counted_and_a_note_is_none() {
        let line = |level: &str| {
            format!(
                r#"{{"reason":"compiler-message","manifest_path":"/x/Cargo.toml","target":{{"name":"x"}},"message":{{"level":"{level}","rendered":"{level}: x\n"}}}}"#
            )
        };
        assert_eq!(compiled(&line("warning")).warnings, 1);
        assert_eq!(compiled(&line("note")).warnings, 0);
    }
}
