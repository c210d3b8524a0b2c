//! OLM v0: its own two operators as processes of this machine, and a catalogue that they reach on loopback.
//!
//! The kubelet of the world stands in for a real one: it starts numo's own pods, and the container of a Job that unpacks a
//! bundle. No image is pulled: a folder has the bundles by the names of their images.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use numo_cluster::{Cluster, User};
use numo_plugin_tests::programs::{go_program, said};
use numo_world::Program;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{binary, manifests};

/// The namespace whose CatalogSources are everybody's, as on OpenShift.
pub const MARKETPLACE: &str = "openshift-marketplace";

/// Where the Go module of the program is.
fn module() -> PathBuf {
    manifests::root().join("tests/e2e/olm")
}

/// The program of OLM's operators. The first call builds it, which takes minutes.
fn program() -> Result<PathBuf> {
    go_program(&module(), &["main.go", "go.mod", "go.sum"], ".", "olm")
}

/// OLM's own definitions: of the release of its API that the program is built with.
pub fn definitions() -> Result<Vec<Value>> {
    let mut go = std::process::Command::new("go");
    let api = "github.com/operator-framework/api";
    go.current_dir(module())
        .args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", api]);
    let folder = PathBuf::from(said(&mut go)?.trim()).join("crds");
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            all.extend(manifests::parse(&fs::read_to_string(path)?)?);
        }
    }
    Ok(all)
}

/// Programs of the images that pods name while OLM installs numo and numo runs, `bundles` being the folder of [`bundle`].
pub fn images(bundles: &Path) -> Result<BTreeMap<String, Program>> {
    let of = |command: &[&str], listens: &[(&str, u16)], is_any_command| Program {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        kubeconfig: PathBuf::new(),
        listens: listens
            .iter()
            .map(|(name, port)| ((*name).to_owned(), *port))
            .collect(),
        is_any_command,
    };
    let (numo, olm) = (binary()?.display().to_string(), program()?.display().to_string());
    let addresses = [("NUMO_METRICS_ADDRESS", 8080), ("NUMO_PROBE_ADDRESS", 8081)];
    let bundles = bundles.display().to_string();
    Ok(BTreeMap::from([
        ("numo".to_owned(), of(&[&numo], &addresses, false)),
        ("opm".to_owned(), of(&[&olm, "unpack", &bundles], &[], true)),
        // They copy files from image to image.
        ("util".to_owned(), of(&["true"], &[], true)),
        ("bundle".to_owned(), of(&["true"], &[], true)),
    ]))
}

/// Writes a bundle into the folder of bundles, by the name of its image.
pub fn bundle(bundles: &Path, image: &str, files: &BTreeMap<String, String>) -> Result<()> {
    let folder = bundles.join(image.replace(['/', ':', '@'], "-"));
    for (path, text) in files {
        let file = folder.join(path);
        file.parent().map(fs::create_dir_all).transpose()?;
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// The running operators of OLM.
#[derive(Debug)]
pub struct Olm {
    program: PathBuf,
    folder: TempDir,
    logs: PathBuf,
    running: Vec<Child>,
}

impl Olm {
    /// Starts both operators, with every right as OLM has it. The definitions are served by then.
    ///
    /// # Errors
    /// If the program cannot be built or started.
    pub fn start(cluster: &Cluster) -> Result<Self> {
        let mut olm = Self {
            program: program()?,
            folder: tempfile::Builder::new().prefix("numo-olm-").tempdir()?,
            logs: cluster.logs(),
            running: Vec::new(),
        };
        let kubeconfig = cluster.kubeconfig(User::Admin);
        olm.run("olm-operator", &["operator"], &kubeconfig)?;
        olm.run("catalog-operator", &["catalog", MARKETPLACE], &kubeconfig)?;
        Ok(olm)
    }

    fn run(&mut self, name: &str, arguments: &[&str], kubeconfig: &Path) -> Result<()> {
        let log = File::create(self.logs.join(format!("{name}.log")))?;
        // Even a killed test leaves no process behind.
        let child = Command::new("setpriv")
            .args(["--pdeathsig=KILL", "--"])
            .arg(&self.program)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| name.to_owned())?;
        self.running.push(child);
        Ok(())
    }

    /// Serves a catalogue of files, and what was served before too. The address of it.
    ///
    /// # Errors
    /// If the catalogue is not one, or is not served within a minute.
    pub async fn serve(&mut self, catalog: &str) -> Result<String> {
        let number = self.running.len();
        let folder = self.folder.path().join(format!("catalog-{number}"));
        fs::create_dir(&folder)?;
        fs::write(folder.join("catalog.yaml"), catalog)?;
        let address = self.folder.path().join(format!("address-{number}"));
        let (from, to) = (folder.display().to_string(), address.display().to_string());
        self.run(
            &format!("catalog-{number}"),
            &["serve", &from, &to],
            Path::new(""),
        )?;
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            if let Ok(text) = fs::read_to_string(&address) {
                return Ok(text);
            }
            let is_late = tokio::time::Instant::now() > deadline;
            ensure!(!is_late, "not served: {}", self.log(&format!("catalog-{number}")));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The end of a log of `olm-operator`, `catalog-operator` or `catalog-NUMBER`.
    pub fn log(&self, name: &str) -> String {
        let text = fs::read_to_string(self.logs.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Ends all of it.
    ///
    /// # Errors
    /// If a process cannot be killed.
    pub async fn stop(mut self) -> Result<()> {
        for child in &mut self.running {
            child.kill().await?;
        }
        Ok(())
    }
}
