//! The ways to install numo, with the publisher's names and images by their digests: manifests, chart, bundle, catalogue, examples.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use numo_install::olm;
use serde_json::{Value, json};

use super::{
    Facts, archive,
    binary::Platform,
    image::{Image, Labels, Layer},
    layout::Layout,
    notes, page, publisher,
};
use crate::step;

/// The image as files of the repository name it, without its tag.
const IMAGE: &str = "numo";
/// The chart.
const CHART: &str = "deploy/helm/numo";
/// What stands in the repository for the catalogue's image.
const CATALOG: &str = "/catalog";
/// Media types of a chart.
const CHART_TYPES: [&str; 2] = [
    "application/vnd.cncf.helm.config.v1+json",
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
];
/// Who owns the chart's repository.
const OWNERS: &str = "artifacthub-repo.yml";
/// Media types of it.
const OWNERS_TYPES: [&str; 2] = [
    "application/vnd.cncf.artifacthub.config.v1+yaml",
    "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml",
];

/// What examples have where only a digest may stand, of what is not released yet.
pub const NO_DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Images by digest: `REPOSITORY@sha256:…`.
#[derive(Clone, Debug)]
pub struct Images {
    /// For Kubernetes.
    pub plain: String,
    /// For OpenShift.
    pub openshift: String,
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(step::root().join(path)).with_context(|| path.to_owned())
}

/// Writes a file, and the folders that it lies in.
pub fn write(path: &Path, text: &str) -> Result<()> {
    path.parent().map(fs::create_dir_all).transpose()?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// A text with this image instead of the one that it names.
///
/// # Errors
/// If it names none: the release would install something else.
fn with_image(of: &str, text: &str, facts: &Facts, image: &str) -> Result<String> {
    let named = format!("{IMAGE}:{}", facts.version);
    let parts: Vec<&str> = text.split(&named).collect();
    // `registry.example.com/numo:0.1.0` and `mynumo:0.1.0` are others.
    let is_end =
        |before: &str| !before.ends_with(|last: char| last.is_alphanumeric() || "/-_.".contains(last));
    let mut out = String::new();
    let mut number = 0;
    for (index, part) in parts.iter().enumerate() {
        out += part;
        if index + 1 < parts.len() {
            if is_end(&out) {
                number += 1;
                out += image;
            } else {
                out += &named;
            }
        }
    }
    ensure!(
        number > 0,
        "{of}: it names no image {named}, which the release puts its own in place of"
    );
    Ok(out)
}

/// One manifest for each platform, the Job that restores everything, and what is deleted after it.
pub fn manifests(facts: &Facts, to: &Path, images: &Images) -> Result<()> {
    for (name, image) in [
        ("kubernetes", &images.plain),
        ("self-managed", &images.plain),
        ("openshift", &images.openshift),
        ("uninstall", &images.plain),
        ("remove", &images.plain),
    ] {
        let path = format!("deploy/{name}.yaml");
        let text = with_image(&path, &read(&path)?, facts, image)?;
        write(&to.join(format!("{name}.yaml")), &facts.publisher.fill(&text))?;
    }
    Ok(())
}

/// What is applied beside numo: alerts with the publisher's runbooks, and the objects for Argo CD and Flux.
pub fn beside(facts: &Facts, to: &Path) -> Result<()> {
    let deploy = step::root().join("deploy");
    for folder in ["monitoring", "gitops"] {
        for path in files(&deploy.join(folder))? {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            write(
                &to.join(path.strip_prefix(&deploy)?),
                &facts.publisher.fill(&text),
            )?;
        }
    }
    Ok(())
}

/// Who owns the chart's repository, for Artifact Hub: as a file in `to` and as an artifact. None if the publisher is not there.
pub fn artifact_hub(facts: &Facts, layout: &Layout, to: &Path) -> Result<Option<Value>> {
    if facts.publisher.get(publisher::ARTIFACT_HUB).is_empty() {
        return Ok(None);
    }
    let text = facts.publisher.fill(&read(&format!("deploy/helm/{OWNERS}"))?);
    write(&to.join(OWNERS), &text)?;
    let config = layout.blob(OWNERS_TYPES[0], b"")?;
    let mut layer = layout.blob(OWNERS_TYPES[1], text.as_bytes())?;
    layer["annotations"] = json!({"org.opencontainers.image.title": OWNERS});
    Ok(Some(layout.manifest(&config, &[layer], &json!({}))?))
}

/// The examples: components by their digests, which `pinned` has by their paths below the registry.
pub fn examples(facts: &Facts, to: &Path, pinned: &BTreeMap<String, String>) -> Result<()> {
    let from = step::root().join("examples");
    for path in files(&from)? {
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = path.strip_prefix(&from)?;
        let text = facts.publisher.fill(&fs::read_to_string(&path)?);
        let of = (facts.publisher.get("registry"), facts.version.as_str());
        write(&to.join(name), &pinned_in(&text, of, pinned))?;
    }
    Ok(())
}

/// The text with components by their digests in place of a tag of this version, or of [`NO_DIGEST`].
fn pinned_in(text: &str, (registry, version): (&str, &str), pinned: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (path, pinned) in pinned {
        for version in [format!(":{version}"), format!("@{NO_DIGEST}")] {
            text = text.replace(&format!("{registry}/{path}{version}"), pinned);
        }
    }
    text
}

/// Files as a folder holds them, by their paths in it.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// The chart as an archive in `to`, and as an artifact; returns its descriptor.
pub fn chart(facts: &Facts, layout: &Layout, to: &Path, image: &str, changes: &str) -> Result<Value> {
    let staged = tempfile::tempdir()?;
    let from = step::root().join(CHART);
    let mut head = None;
    for path in files(&from)? {
        let name = path.strip_prefix(&from)?.to_string_lossy().into_owned();
        let mut text = facts.publisher.fill(&fs::read_to_string(&path)?);
        match name.as_str() {
            "Chart.yaml" => {
                text = about(facts, &with_image(CHART, &text, facts, image)?)?;
                text = for_artifact_hub(&text, &facts.version, changes)?;
                head = numo_install::objects(&text)?.into_iter().next();
            }
            "values.yaml" => text = by_digest(&text, image)?,
            "README.md" => text = page::published(facts, &text, image)?,
            _ => {}
        }
        write(&staged.path().join("numo").join(name), &text)?;
    }
    let archive = archive::gzip(&archive::tar(staged.path(), facts.when)?)?;
    fs::write(to.join(format!("numo-{}.tgz", facts.version)), &archive)?;
    let head = head.context("Chart.yaml is empty")?;
    let config = layout.blob(CHART_TYPES[0], &serde_json::to_vec(&head)?)?;
    let layer = layout.blob(CHART_TYPES[1], &archive)?;
    let annotations = json!({
        "org.opencontainers.image.title": "numo",
        "org.opencontainers.image.version": facts.version,
        "org.opencontainers.image.source": facts.publisher.get("source"),
        "org.opencontainers.image.revision": facts.commit,
    });
    layout.manifest(&config, &[layer], &annotations)
}

/// Chart.yaml with what only a publisher knows, where it does not say so itself.
fn about(facts: &Facts, text: &str) -> Result<String> {
    let publisher = &facts.publisher;
    let known = numo_install::objects(text)?
        .into_iter()
        .next()
        .unwrap_or_default();
    let mut text = text.to_owned();
    for (field, value) in [
        ("home", json!(publisher.get("website"))),
        ("sources", json!([publisher.get("source")])),
        (
            "maintainers",
            json!([{"name": publisher.get("organisation"), "email": publisher.get("email")}]),
        ),
    ] {
        if known.get(field).is_none() {
            let _ = writeln!(text, "{field}: {value}");
        }
    }
    Ok(text)
}

/// Chart.yaml with what Artifact Hub shows of this version: what it changes, and whether it comes before a 1.0.0.
fn for_artifact_hub(text: &str, version: &str, changes: &str) -> Result<String> {
    let (mut out, mut inside, mut set) = (String::new(), false, 0);
    for line in text.lines() {
        inside &= line.starts_with("    ");
        if inside {
            continue;
        }
        match line.trim_end() {
            "  artifacthub.io/changes: |" => {
                inside = true;
                set += 1;
                let _ = writeln!(out, "{line}");
                for change in notes::of_chart(changes) {
                    let _ = writeln!(out, "    - {change}");
                }
            }
            found if found.starts_with("  artifacthub.io/prerelease: ") => {
                set += 1;
                let is_early = version.starts_with("0.") || version.contains('-');
                let _ = writeln!(out, "  artifacthub.io/prerelease: \"{is_early}\"");
            }
            _ => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    ensure!(
        set == 2,
        "{CHART}/Chart.yaml: artifacthub.io/changes and artifacthub.io/prerelease are not there"
    );
    Ok(out)
}

/// values.yaml that names the image by its digest.
fn by_digest(text: &str, image: &str) -> Result<String> {
    let (repository, digest) = image.split_once('@').context("an image by digest")?;
    let (mut inside, mut set) = (false, 0);
    let mut out = String::new();
    for line in text.lines() {
        if !line.starts_with([' ', '#']) {
            inside = line.trim_end() == "image:";
        }
        let value = [("  repository:", repository), ("  digest:", digest)];
        match value.iter().find(|(field, _)| inside && line.starts_with(field)) {
            Some((field, value)) => {
                set += 1;
                let _ = writeln!(out, "{field} {value}");
            }
            None => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    ensure!(
        set == 2,
        "{CHART}/values.yaml: image.repository and image.digest are not there"
    );
    Ok(out)
}

/// Bundle and catalogue, as files in `to` and as images; returns the images' descriptors.
pub fn bundle(
    facts: &Facts,
    layout: &Layout,
    to: &Path,
    image: &str,
    platforms: &[Platform],
) -> Result<[Value; 2]> {
    let registry = facts.publisher.get("registry");
    let fill = |(path, text): (String, String)| {
        let text = facts.publisher.fill(&text);
        (path, for_platforms(&text, platforms))
    };
    let files: BTreeMap<String, String> = olm::bundle(image, olm::KUBECTL_IMAGE)?
        .into_iter()
        .map(fill)
        .collect();
    for (path, text) in &files {
        write(&to.join("bundle").join(path), text)?;
    }
    let labels = olm::annotations();
    let labels = labels
        .into_iter()
        .map(|(label, value)| (label.to_owned(), value))
        .collect();
    let bundle = of_files(facts, layout, &to.join("bundle"), labels, platforms)?;
    let pinned = format!(
        "{registry}/bundle@{}",
        bundle["digest"].as_str().unwrap_or_default()
    );
    let catalog = facts.publisher.fill(&olm::catalog(&files, &pinned)?);
    write(&to.join("catalog/configs/catalog.yaml"), &catalog)?;
    let label = ("operators.operatorframework.io.index.configs.v1", "/configs");
    let labels = Labels::from([(label.0.to_owned(), label.1.to_owned())]);
    let catalog = of_files(facts, layout, &to.join("catalog"), labels, platforms)?;
    let pinned = format!(
        "{registry}{CATALOG}@{}",
        catalog["digest"].as_str().unwrap_or_default()
    );
    let from = step::root().join("deploy/olm/examples");
    for path in self::files(&from)? {
        let tagged = format!("{registry}{CATALOG}:{}", facts.version);
        let text = facts
            .publisher
            .fill(&fs::read_to_string(&path)?)
            .replace(&tagged, &pinned);
        write(&to.join(path.strip_prefix(&from)?), &text)?;
    }
    Ok([bundle, catalog])
}

/// A ClusterServiceVersion says which architectures there are images for.
fn for_platforms(text: &str, platforms: &[Platform]) -> String {
    let label = |arch: &str| format!("    operatorframework.io/arch.{arch}: supported\n");
    let all: String = platforms.iter().map(|platform| label(platform.arch())).collect();
    if all.contains(&label("arm64")) && !text.contains(&label("arm64")) {
        return text.replacen(&label("amd64"), &all, 1);
    }
    text.to_owned()
}

/// An image of files only, the same for every platform.
fn of_files(
    facts: &Facts,
    layout: &Layout,
    folder: &Path,
    labels: Labels,
    platforms: &[Platform],
) -> Result<Value> {
    let layer = Layer::of(layout, folder, facts.when)?;
    let of = |platform: &Platform| (*platform, vec![layer.clone()]);
    let image = Image {
        labels,
        when: facts.when,
        ..Image::default()
    };
    image.index(layout, &platforms.iter().map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_names_a_component_by_its_digest_whichever_way_it_named_it() {
        let place = "registry.numo.internal/ada";
        let pinned = |path: &str| (path.to_owned(), format!("{place}/{path}@sha256:1234"));
        let all = BTreeMap::from([pinned("rules/http-check"), pinned("providers/gcp")]);
        let by_digest = |text: &str| pinned_in(text, (place, "0.1.0"), &all);
        let (gcp, aws) = (
            format!("providers/gcp@{NO_DIGEST}"),
            format!("providers/aws@{NO_DIGEST}"),
        );
        for (found, wanted) in [
            ("rules/http-check:0.1.0", "rules/http-check@sha256:1234"),
            ("rules/http-check:0.2.0", "rules/http-check:0.2.0"),
            (gcp.as_str(), "providers/gcp@sha256:1234"),
            // It is none of the release.
            (aws.as_str(), aws.as_str()),
        ] {
            let said = by_digest(&format!("image: {place}/{found}\n"));
            assert_eq!(said, format!("image: {place}/{wanted}\n"));
        }
    }
}
