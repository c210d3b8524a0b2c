//! `cargo xtask release`: all of a release in one folder, by the names of one file (`deploy/publisher.yaml`). It pushes nothing;
//! `cargo xtask publish` does.

mod archive;
mod binary;
mod cli;
mod crates;
mod image;
mod install;
mod layout;
mod made;
mod notes;
mod page;
pub mod publish;
mod publisher;
mod ready;
mod rules;
mod sbom;
mod signing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod workflows;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Result, bail, ensure};

use crate::{lint, step};
use binary::{Binary, Platform};
use publisher::Publisher;
use signing::Signer;

/// Where `cargo components` puts the rules and providers.
const RULES: &str = "target/plugins/wasm32-unknown-unknown/release/components";

/// What `cargo xtask release` takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Arguments {
    /// To look at it only: placeholders, uncommitted changes, a missing tag, key or program stop nothing, each is named, and the key
    /// is thrown away
    #[arg(long)]
    dry_run: bool,
    /// The folder that is made [default: target/release-VERSION]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Who publishes [default: deploy/publisher.yaml]
    #[arg(long, value_name = "FILE")]
    publisher: Option<PathBuf>,
    /// A program of this tree that is built already and linked statically, PLATFORM=FILE; may be given more than once. Without any,
    /// those of --platform are built
    #[arg(long, value_name = "PLATFORM=FILE")]
    binary: Vec<Binary>,
    /// What to build for, where no --binary is given [default: linux/amd64 and linux/arm64]
    #[arg(long, value_name = "PLATFORM", conflicts_with = "binary")]
    platform: Vec<Platform>,
    /// How to build: a profile of cargo
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
    /// The components of the rules and providers, built already [default: they are built]
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// An OCI layout of Red Hat's ubi-micro, the base of the image for OpenShift: skopeo copy --all docker://NAME oci:DIR:NAME
    #[arg(long, value_name = "DIR")]
    openshift_base: Option<PathBuf>,
    /// The key that signs: ECDSA P-256 as PKCS #8 PEM
    #[arg(long, env = "NUMO_RELEASE_KEY", value_name = "FILE")]
    key: Option<PathBuf>,
}

/// What every part of a release names.
#[derive(Clone, Debug)]
pub struct Facts {
    /// `0.1.0`
    pub version: String,
    /// Who publishes.
    pub publisher: Publisher,
    /// Of what it is made.
    pub commit: String,
    /// Whether the working tree has more than the commit.
    pub is_dirty: bool,
    /// The commit's time, in seconds since 1970: that of everything that is made.
    pub when: i64,
    /// Whether it is only looked at.
    pub dry_run: bool,
}

/// What a release is made from.
#[derive(Debug)]
pub struct Parts {
    facts: Facts,
    binaries: Vec<(Platform, Vec<u8>)>,
    rules: PathBuf,
    openshift_base: Option<PathBuf>,
    signer: Signer,
    profile: String,
    changes: String,
    /// What a release has and this one has not.
    missing: Vec<String>,
}

/// Makes the folder.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let root = step::root();
    let file = arguments
        .publisher
        .clone()
        .unwrap_or_else(|| root.join(publisher::FILE));
    let publisher = Publisher::read(&file)?;
    let (commit, when) = ready::commit(&root)?;
    let facts = Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        is_dirty: ready::is_clean(&root).is_err(),
        dry_run: arguments.dry_run,
        publisher,
        commit,
        when,
    };
    let shown = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
    before(&root, &facts, &shown, arguments)?;
    let changes = changes(&root, &facts)?;
    let to = arguments
        .to
        .clone()
        .unwrap_or_else(|| root.join(format!("target/release-{}", facts.version)));
    is_free(&to)?;
    let parts = parts(&root, facts, arguments, changes)?;
    made::all(&parts, &to)?;
    println!("made {}", to.display());
    Ok(ExitCode::SUCCESS)
}

/// Stops a release where something does not hold; of a dry run it names it and goes on.
fn before(root: &Path, facts: &Facts, file: &str, arguments: &Arguments) -> Result<()> {
    let by_hand = ready::BY_HAND.map(ToOwned::to_owned);
    let mut faults: Vec<String> = facts.publisher.placeholders(file);
    let checks = [
        ready::is_clean(root),
        ready::is_tagged(root, &facts.version),
        ready::has_no_placeholder(root, &by_hand),
        ready::is_announced(root, &facts.version),
    ];
    faults.extend(
        checks
            .into_iter()
            .filter_map(|check| Some(format!("{:#}", check.err()?))),
    );
    if arguments.key.is_none() {
        faults.push("--key: no key, wanted the one that signs releases".to_owned());
    }
    if arguments.openshift_base.is_none() {
        faults.push("--openshift-base: no base, wanted an OCI layout of ubi-micro".to_owned());
    }
    for fault in faults {
        ensure!(facts.dry_run, "{fault}");
        eprintln!("a release would stop here: {fault}");
    }
    // A dry run is no use with these either.
    ready::is_fresh(root, &ready::definitions()?, "cargo xtask crds")?;
    ready::is_fresh(root, &numo_install::all()?, "cargo xtask manifests")
}

/// What the changelog says of the version; a dry run takes what is not released yet.
fn changes(root: &Path, facts: &Facts) -> Result<String> {
    let path = root.join("CHANGELOG.md");
    match notes::section(&path, &facts.version) {
        Err(_) if facts.dry_run => notes::section(&path, notes::UNRELEASED),
        found => found,
    }
}

/// Nothing is there that is no release.
fn is_free(to: &Path) -> Result<()> {
    let is_empty = fs::read_dir(to).map_or(true, |mut entries| entries.next().is_none());
    if is_empty || to.join("SHA256SUMS").is_file() {
        return Ok(());
    }
    bail!(
        "{}: files are there that are no release, wanted an empty folder",
        to.display()
    )
}

/// What of the programs is not there: one for each platform, and in each the commit that it was built from and the list of its crates.
fn missing(binaries: &[(Platform, Vec<u8>)], commit: &str) -> Vec<String> {
    let has = |platform: &Platform| binaries.iter().any(|(has, _)| has == platform);
    let programs = Platform::ALL.iter().filter(|platform| !has(platform));
    let unrecorded = binaries
        .iter()
        .filter(|(_, bytes)| !binary::has_recorded(bytes, commit));
    let unlisted = binaries.iter().filter(|(_, bytes)| !binary::has_crates(bytes));
    programs
        .map(|platform| format!("the program for {platform}"))
        .chain(unrecorded.map(|(platform, _)| format!("commit {commit} in the program for {platform}")))
        .chain(unlisted.map(|(platform, _)| {
            format!("the list of its crates (cargo auditable build) in the program for {platform}")
        }))
        .collect()
}

/// Reads, and where they are not given builds, what the release is made from. That the base for OpenShift is missing has been said by
/// [`before`].
fn parts(root: &Path, facts: Facts, arguments: &Arguments, changes: String) -> Result<Parts> {
    let mut given = arguments.binary.clone();
    if given.is_empty() {
        let all = if arguments.platform.is_empty() {
            vec![Platform::LinuxAmd64, Platform::LinuxArm64]
        } else {
            arguments.platform.clone()
        };
        for platform in all {
            given.push(binary::build(platform, &arguments.profile, &facts)?);
        }
    }
    given.sort_by_key(|binary| binary.platform);
    let mut binaries = Vec::new();
    for binary in &given {
        binaries.push((binary.platform, binary.read(&facts.version)?));
        if binary.platform.is_here() {
            ready::is_fresh(
                root,
                &ready::pages(&binary.path)?,
                "numo reference --directory operator/docs/reference",
            )?;
        }
    }
    ensure!(
        binaries.iter().any(|(platform, _)| platform.has_image()),
        "--binary: none for linux, wanted one for the image"
    );
    let mut missing = missing(&binaries, &facts.commit);
    for one in &missing {
        eprintln!("a release would stop here: {one} is missing");
    }
    ensure!(
        facts.dry_run || missing.is_empty(),
        "--binary: {} is missing, wanted all of a release",
        missing.join(", ")
    );
    if arguments.openshift_base.is_none() {
        missing.push("Red Hat's base below the image for OpenShift".to_owned());
    }
    let rules = if let Some(folder) = &arguments.rules {
        folder.clone()
    } else {
        step::must(lint::plugins(step::cargo()).arg("components"))?;
        root.join(RULES)
    };
    let signer = match &arguments.key {
        Some(key) => Signer::read(key)?,
        None => Signer::throw_away()?,
    };
    Ok(Parts {
        binaries,
        rules,
        openshift_base: arguments.openshift_base.clone(),
        signer,
        profile: arguments.profile.clone(),
        changes,
        missing,
        facts,
    })
}
