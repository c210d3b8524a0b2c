//! The crates that a program is built of, as cargo itself resolves them for a platform.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use numo_install::said;
use serde_json::Value;

use crate::step;

/// A crate that is linked in, or runs while others are built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SPDX expression.
    pub license: Option<String>,
    /// Its repository.
    pub repository: Option<String>,
    /// Who wrote it, as it says itself.
    pub authors: Vec<String>,
    /// Its folder.
    pub folder: PathBuf,
    /// Whether it comes from a registry.
    pub is_foreign: bool,
    /// SHA-256 of its archive, by the lock file.
    pub checksum: Option<String>,
    /// The crates that it needs, as `name@version`.
    pub needs: BTreeSet<String>,
}

impl Crate {
    /// `name@version`
    pub fn key(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// Crates by `name@version`.
pub type Crates = BTreeMap<String, Crate>;

/// Those of packages of the workspace in `folder` (from the root of the repository), for targets.
pub fn of(folder: &str, packages: &[&str], targets: &[&str]) -> Result<Crates> {
    let mut all = Crates::new();
    for target in targets {
        let (built, known) = (built(folder, packages, target)?, known(folder, target)?);
        for key in &built {
            let one = known
                .get(key)
                .with_context(|| format!("cargo metadata knows nothing of {key}"))?;
            let entry = all.entry(key.clone()).or_insert_with(|| Crate {
                needs: BTreeSet::new(),
                ..one.clone()
            });
            entry.needs.extend(one.needs.intersection(&built).cloned());
        }
    }
    Ok(all)
}

/// What is built, as `name@version`.
fn built(folder: &str, packages: &[&str], target: &str) -> Result<BTreeSet<String>> {
    let mut cargo = step::cargo();
    cargo.current_dir(step::root().join(folder)).args([
        "tree",
        "--locked",
        "--prefix",
        "none",
        "--no-dedupe",
        "--edges",
        "normal,build",
        "--format",
        "{p}",
        "--target",
        target,
    ]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    let told = said(&mut cargo)?;
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some(format!("{name}@{}", version.trim_start_matches('v')))
    };
    Ok(told.lines().filter_map(of).collect())
}

/// Everything that cargo knows of the workspace.
fn known(folder: &str, target: &str) -> Result<Crates> {
    let root = step::root().join(folder);
    let mut cargo = step::cargo();
    cargo.current_dir(&root).args([
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        target,
    ]);
    let told: Value = serde_json::from_str(&said(&mut cargo)?)?;
    let checksums = checksums(&root.join("Cargo.lock"))?;
    let mut keys = BTreeMap::new();
    let mut all = Crates::new();
    for package in told["packages"].as_array().into_iter().flatten() {
        let one = package_of(package, &checksums)?;
        keys.insert(package["id"].as_str().unwrap_or_default(), one.key());
        all.insert(one.key(), one);
    }
    for node in told
        .pointer("/resolve/nodes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let id = node["id"].as_str().unwrap_or_default();
        let needs = node["deps"].as_array().into_iter().flatten();
        let needs: BTreeSet<String> = needs
            .filter(|dep| {
                dep["dep_kinds"]
                    .as_array()
                    .is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
            })
            .filter_map(|dep| keys.get(dep["pkg"].as_str()?).cloned())
            .collect();
        if let Some(one) = keys.get(id).and_then(|key| all.get_mut(key)) {
            one.needs = needs;
        }
    }
    Ok(all)
}

fn package_of(package: &Value, checksums: &BTreeMap<String, String>) -> Result<Crate> {
    let text = |field: &str| package[field].as_str().map(ToOwned::to_owned);
    let name = text("name").context("a package without a name")?;
    let version = text("version").context("a package without a version")?;
    let manifest = text("manifest_path").context("a package without a manifest")?;
    let authors = package["authors"].as_array().into_iter().flatten();
    Ok(Crate {
        checksum: checksums.get(&format!("{name}@{version}")).cloned(),
        // An older spelling.
        license: text("license").map(|license| license.replace('/', " OR ").replace("  ", " ")),
        repository: text("repository"),
        authors: authors
            .filter_map(|author| Some(author.as_str()?.to_owned()))
            .collect(),
        folder: Path::new(&manifest).parent().context("a folder")?.to_owned(),
        is_foreign: !package["source"].is_null(),
        needs: BTreeSet::new(),
        name,
        version,
    })
}

/// The checksums of a lock file, by `name@version`.
fn checksums(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let of = |block: &str| {
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.strip_prefix(" = \"")?.strip_suffix('"')?.to_owned())
        };
        Some((
            format!("{}@{}", field("name")?, field("version")?),
            field("checksum")?,
        ))
    };
    Ok(text.split("[[package]]").filter_map(of).collect())
}
