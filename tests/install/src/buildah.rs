//! Debian's buildah, installed or not, with folders of its own: what others read images by.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use numo_plugin_tests::programs;

use crate::{root, said};

/// buildah, working in a folder.
#[derive(Debug)]
pub struct Buildah {
    program: PathBuf,
    libraries: PathBuf,
    folder: PathBuf,
}

impl Buildah {
    /// With its stores in `folder`. The first call on a machine fetches it (seconds). Blocks.
    pub fn new(folder: &Path) -> Result<Self> {
        let program = programs::debian("buildah")?;
        let library = programs::debian_library("libgpgme11", "libgpgme.so.11")?;
        let libraries = programs::folder_of(&library)?;
        fs::write(
            folder.join("policy.json"),
            r#"{"default":[{"type":"insecureAcceptAnything"}]}"#,
        )?;
        fs::write(folder.join("registries.conf"), "")?;
        Ok(Self {
            program,
            libraries,
            folder: folder.to_owned(),
        })
    }

    /// Runs a verb; returns what it prints.
    pub fn run(&self, verb: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env("TMPDIR", &self.folder)
            .args(["--storage-driver", "vfs", "--root"])
            .arg(self.folder.join("store"))
            .arg("--runroot")
            .arg(self.folder.join("run"))
            .arg("--registries-conf")
            .arg(self.folder.join("registries.conf"))
            .arg(verb);
        // Only what brings images in, or puts them elsewhere, asks whose they are.
        if verb != "inspect" {
            command
                .arg("--signature-policy")
                .arg(self.folder.join("policy.json"));
        }
        said(command.args(arguments))
    }
}

/// Links a static numo of what the tests were built of, from the folder in which cargo put it.
///
/// # Errors
/// If it does not say what the numo of that folder says: the library is older.
pub fn link(built: &Path, to: &Path) -> Result<()> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .current_dir(root())
        .args([
            "--crate-name",
            "numo",
            "--edition",
            "2024",
            "operator/numo/src/main.rs",
        ])
        .args([
            "-C",
            "target-feature=+crt-static",
            "-C",
            "strip=symbols",
            "--extern",
        ])
        .arg(format!("numo={}", built.join("libnumo.rlib").display()))
        .arg("-L")
        .arg(format!("dependency={}", built.join("deps").display()))
        .arg("-o");
    said(rustc.arg(to))?;
    let definitions = |program: &Path| said(Command::new(program).arg("crds"));
    anyhow::ensure!(
        definitions(to)? == definitions(&built.join("numo"))?,
        "the library is older than the binary: cargo build --workspace"
    );
    Ok(())
}
