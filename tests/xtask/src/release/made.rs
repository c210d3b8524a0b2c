//! Makes the folder of a release, in the order in which one part names another.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Context as _, Result};
use numo_plugin::oci::Digest;
use serde_json::{Value, json};

use super::{
    Facts, Parts, archive,
    binary::Platform,
    cli,
    crates::{self, Crates},
    image::{Image, Labels, Layer},
    install::{self, Images, write},
    layout::Layout,
    notes, ready, rules, sbom, signing,
};
use crate::step;

/// The OCI layout with every image and artifact.
pub const OCI: &str = "oci";
/// The list of checksums.
pub const SUMS: &str = "SHA256SUMS";
/// Media type of Sigstore bundles.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// What is said of an artifact: that it is meant, of what it is made, where it was built.
const PREDICATES: [&str; 3] = [
    "https://sigstore.dev/cosign/sign/v1",
    "https://cyclonedx.org/bom",
    "https://slsa.dev/provenance/v1",
];
/// What the images say that they are for.
const SUMMARY: &str = "Changes the nodes of a cluster without ever changing one at the wrong moment";
/// What OpenShift's catalogue of images shows.
const DESCRIPTION: &str = "numo steers MachineConfigPools through an upgrade, runs Plans and keeps nodes in maintenance: a node \
                           changes only when the rules that guard it say so, one guarded step at a time.";
/// Authorities that registries and channels are checked by, as Debian has them.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// An image or artifact: what it is, its repository, its tag, its descriptor.
struct Named {
    what: String,
    repository: String,
    tag: String,
    descriptor: Value,
}

impl Named {
    fn new(what: &str, repository: &str, tag: &str, descriptor: Value) -> Self {
        Self {
            what: what.to_owned(),
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            descriptor,
        }
    }

    fn digest(&self) -> &str {
        self.descriptor["digest"].as_str().unwrap_or_default()
    }

    fn pinned(&self) -> String {
        format!("{}@{}", self.repository, self.digest())
    }
}

/// The bills of material: of the program, and of the components that ship.
struct Bills {
    numo: Value,
    rules: Value,
    licences: String,
}

/// Makes everything.
pub fn all(parts: &Parts, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    let facts = &parts.facts;
    let bills = bills(parts)?;
    let mut layout = Layout::create(&to.join(OCI))?;
    let named = artifacts(parts, to, &layout, &bills.licences)?;
    cli::archives(parts, to, &bills.licences)?;
    write(&to.join("numo.krew.yaml"), &cli::krew(parts, to)?)?;
    write(&to.join("THIRD_PARTY_LICENSES"), &bills.licences)?;
    write(
        &to.join("numo.cdx.json"),
        &serde_json::to_string_pretty(&bills.numo)?,
    )?;
    write(
        &to.join("numo-rules.cdx.json"),
        &serde_json::to_string_pretty(&bills.rules)?,
    )?;
    write(&to.join("numo.pub"), &parts.signer.public)?;
    let images: Vec<(&str, String)> = named
        .iter()
        .map(|one| (one.what.as_str(), one.pinned()))
        .collect();
    write(
        &to.join("notes.md"),
        &notes::notes(facts, &parts.changes, &images, &parts.missing),
    )?;
    folders(facts, to)?;
    let provenance = provenance(parts, to, &named)?;
    write(
        &to.join("provenance.sigstore.json"),
        std::str::from_utf8(&provenance)?,
    )?;
    for one in &named {
        vouch(parts, &mut layout, one, &bills, &provenance)?;
        layout.name(&one.descriptor, &format!("{}:{}", one.repository, one.tag));
    }
    layout.finish()?;
    let sums = sums(to)?;
    write(&to.join(SUMS), &sums)?;
    write(
        &to.join(format!("{SUMS}.sig")),
        &parts.signer.sign(sums.as_bytes())?,
    )?;
    if facts.dry_run {
        return Ok(());
    }
    ready::has_no_placeholder(to, &texts(to, to)?)
}

fn bills(parts: &Parts) -> Result<Bills> {
    let targets: Vec<&str> = parts
        .binaries
        .iter()
        .map(|(platform, _)| platform.target())
        .collect();
    let numo = crates::of(".", &["numo"], &targets)?;
    let names = rules::packages(&parts.rules)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let rules = crates::of("plugins", &names, &["wasm32-unknown-unknown"])?;
    let both: Crates = numo.clone().into_iter().chain(rules.clone()).collect();
    Ok(Bills {
        numo: sbom::bill(&parts.facts, "numo", SUMMARY, &numo)?,
        rules: sbom::bill(
            &parts.facts,
            "numo-rules",
            "The rules and providers of machines that ship with numo",
            &rules,
        )?,
        licences: sbom::licences(&both)?,
    })
}

/// Puts every image and artifact into the layout, and the files that name them into the folder.
fn artifacts(parts: &Parts, to: &Path, layout: &Layout, licences: &str) -> Result<Vec<Named>> {
    let facts = &parts.facts;
    let (registry, version) = (facts.publisher.get("registry"), facts.version.as_str());
    let [plain, openshift] = images(parts, layout, licences)?;
    let tag = format!("{version}-openshift");
    let mut all = vec![
        Named::new("image", registry, version, plain),
        Named::new("image for OpenShift", registry, &tag, openshift),
    ];
    let images = match all.as_slice() {
        [plain, openshift] => Images {
            plain: plain.pinned(),
            openshift: openshift.pinned(),
        },
        _ => anyhow::bail!("two images"),
    };
    install::manifests(facts, to, &images)?;
    install::beside(facts, to)?;
    let platforms: Vec<Platform> = for_images(parts).map(|(platform, _)| *platform).collect();
    let chart = install::chart(facts, layout, to, &images.plain, &parts.changes)?;
    let [bundle, catalog] = install::bundle(facts, layout, &to.join("olm"), &images.openshift, &platforms)?;
    all.push(Named::new(
        "chart",
        &format!("{registry}/charts/numo"),
        version,
        chart,
    ));
    // Artifact Hub looks for it by this tag.
    if let Some(owners) = install::artifact_hub(facts, layout, to)? {
        let charts = format!("{registry}/charts/numo");
        all.push(Named::new(
            "owners for Artifact Hub",
            &charts,
            "artifacthub.io",
            owners,
        ));
    }
    all.push(Named::new(
        "bundle for OLM",
        &format!("{registry}/bundle"),
        version,
        bundle,
    ));
    all.push(Named::new(
        "catalogue for OLM",
        &format!("{registry}/catalog"),
        version,
        catalog,
    ));
    let mut pinned = BTreeMap::new();
    for shipped in rules::all(layout, facts, &parts.rules)? {
        let (what, path) = (shipped.what(), shipped.path());
        let named = Named::new(&what, &format!("{registry}/{path}"), version, shipped.descriptor);
        pinned.insert(path, named.pinned());
        all.push(named);
    }
    install::examples(facts, &to.join("examples"), &pinned)?;
    Ok(all)
}

fn for_images(parts: &Parts) -> impl Iterator<Item = &(Platform, Vec<u8>)> {
    parts.binaries.iter().filter(|(platform, _)| platform.has_image())
}

/// numo's image for Kubernetes and the one for OpenShift: the same program, other files around it.
fn images(parts: &Parts, layout: &Layout, licences: &str) -> Result<[Value; 2]> {
    let facts = &parts.facts;
    let mut programs = Vec::new();
    for (platform, program) in for_images(parts) {
        let staged = tempfile::tempdir()?;
        let path = staged.path().join("numo");
        fs::write(&path, program)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        std::os::unix::fs::symlink("numo", staged.path().join("kubectl-numo"))?;
        programs.push((*platform, Layer::of(layout, staged.path(), facts.when)?));
    }
    // Red Hat's base has neither authorities nor a way to install them, and looks for them elsewhere.
    let plain = around(layout, facts, licences, "etc/ssl/certs/ca-certificates.crt")?;
    let openshift = around(
        layout,
        facts,
        licences,
        "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    )?;
    let of = |files: &Layer| -> Vec<(Platform, Vec<Layer>)> {
        let of = |(platform, program): &(Platform, Layer)| (*platform, vec![files.clone(), program.clone()]);
        programs.iter().map(of).collect()
    };
    let image = Image {
        program: Some("/numo"),
        labels: labels(facts),
        base: None,
        when: facts.when,
    };
    let red_hat = Image {
        labels: image
            .labels
            .clone()
            .into_iter()
            .chain(of_openshift(facts))
            .collect(),
        base: parts.openshift_base.as_deref(),
        ..image.clone()
    };
    Ok([
        image.index(layout, &of(&plain))?,
        red_hat.index(layout, &of(&openshift))?,
    ])
}

/// The files beside the program.
fn around(layout: &Layout, facts: &Facts, licences: &str, authorities: &str) -> Result<Layer> {
    let staged = tempfile::tempdir()?;
    let at = |name: &str| staged.path().join(name);
    let pem = fs::read_to_string(AUTHORITIES)
        .with_context(|| format!("{AUTHORITIES} (apt-get install ca-certificates)"))?;
    write(&at(authorities), &pem)?;
    write(
        &at("licenses/LICENSE"),
        &fs::read_to_string(step::root().join("LICENSE"))?,
    )?;
    write(&at("licenses/THIRD_PARTY_LICENSES"), licences)?;
    Layer::of(layout, staged.path(), facts.when)
}

fn labels(facts: &Facts) -> Labels {
    let publisher = &facts.publisher;
    let all = [
        ("title", "numo"),
        ("description", SUMMARY),
        ("licenses", "Apache-2.0"),
        ("vendor", publisher.get("organisation")),
        ("url", publisher.get("website")),
        ("documentation", publisher.get("docs")),
        ("source", publisher.get("source")),
        ("version", facts.version.as_str()),
        ("revision", facts.commit.as_str()),
    ];
    all.map(|(name, value)| (format!("org.opencontainers.image.{name}"), value.to_owned()))
        .into()
}

/// What the certification for OpenShift wants; what the base says of itself is said anew.
fn of_openshift(facts: &Facts) -> Labels {
    let publisher = &facts.publisher;
    let maintainer = format!("{} <{}>", publisher.get("organisation"), publisher.get("email"));
    let all = [
        ("name", "numo"),
        ("vendor", publisher.get("organisation")),
        ("maintainer", maintainer.as_str()),
        ("version", facts.version.as_str()),
        ("release", "1"),
        ("summary", SUMMARY),
        ("description", DESCRIPTION),
        ("url", publisher.get("website")),
        ("io.k8s.display-name", "numo"),
        ("io.k8s.description", SUMMARY),
        ("io.openshift.tags", "operator,nodes,upgrade,drain,maintenance"),
    ];
    all.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// Folders as archives too: a page of downloads has files only.
fn folders(facts: &Facts, to: &Path) -> Result<()> {
    let staged = tempfile::tempdir()?;
    let top = staged.path().join(format!("numo-{}", facts.version));
    for folder in ["examples", "gitops", "monitoring", "olm"] {
        for path in texts(&to.join(folder), to)? {
            write(&top.join(&path), &fs::read_to_string(to.join(&path))?)?;
        }
    }
    let bytes = archive::gzip(&archive::tar(staged.path(), facts.when)?)?;
    Ok(fs::write(
        to.join(format!("numo-{}-manifests.tar.gz", facts.version)),
        bytes,
    )?)
}

/// The signed statement on where all files and artifacts were built.
fn provenance(parts: &Parts, to: &Path, named: &[Named]) -> Result<Vec<u8>> {
    let mut subjects = files(to)?;
    let digits = |one: &Named| one.digest().trim_start_matches("sha256:").to_owned();
    subjects.extend(named.iter().map(|one| (one.repository.clone(), digits(one))));
    let platforms: Vec<String> = parts
        .binaries
        .iter()
        .map(|(platform, _)| platform.to_string())
        .collect();
    let predicate = signing::provenance(&parts.facts, &parts.profile, &platforms);
    Ok(parts
        .signer
        .key
        .attest(&signing::statement(PREDICATES[2], &subjects, &predicate))?)
}

/// Puts beside an artifact that it is meant; beside images also what they are made of and where they were built.
fn vouch(parts: &Parts, layout: &mut Layout, one: &Named, bills: &Bills, provenance: &[u8]) -> Result<()> {
    let digest: Digest = one.digest().parse().context("a digest")?;
    let kind = |predicate: &str| json!({"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": predicate});
    let signature = parts.signer.key.vouch_for(&one.repository, &digest)?;
    let mut put = |predicate: &str, bundle: &[u8]| {
        layout.refer(
            &one.repository,
            &one.descriptor,
            (BUNDLE, &kind(predicate)),
            bundle,
        )
    };
    put(PREDICATES[0], &signature)?;
    let bill = match one.what.as_str() {
        "image" | "image for OpenShift" => &bills.numo,
        what if what.starts_with("rule ") || what.starts_with("provider ") => &bills.rules,
        _ => return put(PREDICATES[2], provenance),
    };
    let subject = [(one.repository.clone(), digest.hex().to_owned())];
    let bill = parts
        .signer
        .key
        .attest(&signing::statement(PREDICATES[1], &subject, bill))?;
    put(PREDICATES[1], &bill)?;
    put(PREDICATES[2], provenance)
}

/// The files at the top of the folder, by their names, with the digits of their SHA-256.
pub fn files(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            found.push((name, Digest::of(&fs::read(&path)?).hex().to_owned()));
        }
    }
    found.sort();
    Ok(found)
}

/// As `sha256sum --check` reads it.
fn sums(folder: &Path) -> Result<String> {
    let of = |(name, digits): (String, String)| format!("{digits}  {name}\n");
    Ok(files(folder)?.into_iter().map(of).collect())
}

/// Every file below a folder but the blobs of the layout, by its path from `top`.
fn texts(folder: &Path, top: &Path) -> Result<Vec<String>> {
    let all = install::files(folder)?.into_iter();
    let outside = all.filter(|path| path.iter().all(|part| part != OCI));
    let mut found = outside
        .map(|path| Ok(path.strip_prefix(top)?.to_string_lossy().into_owned()))
        .collect::<Result<Vec<String>>>()?;
    found.sort();
    Ok(found)
}
