//! A person's terminal: the commands of the docs, run by bash as they are written, in a folder that has `deploy/` and
//! `examples/`.
//!
//! May not change what it is told to run but for the words it is given for those in capitals. OpenShift's client stands in
//! as kubectl with the few verbs of its own that the docs use.

use crate::{binary, manifests, process::Said};
use anyhow::{Context, Result, bail, ensure};
use numo_cluster::{Cluster, User};
use std::{
    fmt::Write as _,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tempfile::TempDir;
use tokio::process::Command;

/// How long one block of commands may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// OpenShift's client, as far as the docs use it.
const OC: &str = r#"case "$1 $2" in
"adm upgrade")
    exec kubectl patch clusterversion version --type=merge -p "{\"spec\":{\"desiredUpdate\":{\"version\":\"${3#--to=}\"}}}" ;;
"adm cordon" | "adm taint") shift ;;
esac
exec kubectl "$@"
"#;

/// A terminal of a cluster administrator.
#[derive(Debug)]
pub struct Terminal {
    folder: TempDir,
    environment: Vec<(&'static str, std::ffi::OsString)>,
    /// What each block of commands begins with: variables of an earlier block.
    kept: String,
}

impl Terminal {
    /// One whose numo, kubectl and oc are about this cluster.
    pub fn open(cluster: &Cluster) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("numo-terminal-").tempdir()?;
        let programs = folder.path().join("bin");
        std::fs::create_dir(&programs)?;
        let (command, kubeconfig) = cluster.kubectl(User::Admin);
        let mut kubectl = "exec".to_owned();
        for word in &command {
            write!(kubectl, " '{word}'")?;
        }
        kubectl.push_str(" \"$@\"\n");
        for (name, text) in [("kubectl", kubectl.as_str()), ("oc", OC)] {
            let path = programs.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}"))?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        }
        symlink(binary()?, programs.join("numo"))?;
        symlink(binary()?, programs.join("kubectl-numo"))?;
        for shared in ["deploy", "examples"] {
            symlink(
                manifests::root().canonicalize()?.join(shared),
                folder.path().join(shared),
            )?;
        }
        let old = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(programs).chain(std::env::split_paths(&old));
        let mut environment = vec![
            ("PATH", std::env::join_paths(all)?),
            ("HOME", folder.path().into()),
            ("KUBECONFIG", kubeconfig.into()),
            (crate::process::ON_LOOPBACK, "true".into()),
            // What the crates of authors depend on is built once.
            ("CARGO_TARGET_DIR", crate::crates().into()),
        ];
        // Toolchains stay where they are.
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        for (variable, place) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let value = std::env::var_os(variable).unwrap_or_else(|| home.join(place).into());
            environment.push((variable, value));
        }
        Ok(Self {
            folder,
            environment,
            kept: String::new(),
        })
    }

    /// Keeps variables for all that is run later, as a terminal does.
    pub fn keep(&mut self, text: &str) {
        self.kept.push_str(text);
        self.kept.push('\n');
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a text in bash, which ends at the first command that fails.
    pub async fn call(&self, text: &str) -> Result<Said> {
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &format!("{}{text}", self.kept)])
            .current_dir(self.folder())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env_remove("NUMO_KUBECONFIG")
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, bash.output()).await;
        let output = output.with_context(|| format!("not within {PATIENCE:?}: {text}"))??;
        Ok(Said {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// The same; what fails is an error. What was printed.
    pub async fn run(&self, text: &str) -> Result<String> {
        let said = self.call(text).await?;
        ensure!(said.code == Some(0), "{text}\n{said:?}");
        Ok(said.out)
    }
}

/// A page of the docs, whose commands are run one block after the other.
#[derive(Debug)]
pub struct Page {
    name: String,
    blocks: Vec<String>,
    has_run: Vec<bool>,
}

impl Page {
    /// The blocks of commands of a page of the repository: fences marked `sh`.
    pub fn read(name: &str) -> Result<Self> {
        let text = std::fs::read_to_string(manifests::root().join(name)).with_context(|| name.to_owned())?;
        let blocks: Vec<String> = text
            .split("```sh\n")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once("```")?.0.to_owned()))
            .collect();
        Ok(Self {
            name: name.to_owned(),
            has_run: vec![false; blocks.len()],
            blocks,
        })
    }

    /// Runs the block that has this text in it, with other words for some of its own. What was printed.
    pub async fn run(&mut self, terminal: &Terminal, having: &str, words: &[(&str, &str)]) -> Result<String> {
        let text = self.take(having, words)?;
        terminal.run(&text).await.with_context(|| self.name.clone())
    }

    /// The same, asked again for a while if it fails, as a person does who is told to wait.
    pub async fn run_until(
        &mut self,
        terminal: &Terminal,
        having: &str,
        words: &[(&str, &str)],
    ) -> Result<String> {
        let text = self.take(having, words)?;
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            match terminal.run(&text).await {
                Ok(out) => return Ok(out),
                Err(error) if tokio::time::Instant::now() > deadline => {
                    return Err(error.context(self.name.clone()));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
    }

    /// The block that has this text in it, to be run otherwise.
    pub fn take(&mut self, having: &str, words: &[(&str, &str)]) -> Result<String> {
        let mut found = (0..self.blocks.len()).filter(|at| self.blocks[*at].contains(having));
        let (Some(at), None) = (found.next(), found.next()) else {
            bail!("{}: not one block with {having:?}", self.name);
        };
        self.has_run[at] = true;
        let mut text = self.blocks[at].clone();
        for (old, new) in words {
            ensure!(text.contains(old), "{}: {having:?} has no {old:?}", self.name);
            text = text.replace(old, new);
        }
        Ok(text)
    }

    /// Fails if a block of the page has not been run.
    pub fn end(self) -> Result<()> {
        let all = self.blocks.iter().zip(&self.has_run);
        let left: Vec<&String> = all
            .filter(|(_, has_run)| !**has_run)
            .map(|(block, _)| block)
            .collect();
        ensure!(left.is_empty(), "{}: never run: {left:#?}", self.name);
        Ok(())
    }
}
