//! `cargo xtask publish`: pushes the images and artifacts of a release's folder, as they are.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use numo_plugin::oci::{Bounds, Credentials, Reference, Registry, Setup, Version};
use serde_json::Value;

use super::{
    layout::{INDEX, MANIFEST, REFERENCE, Read},
    made::OCI,
};

/// What `cargo xtask publish` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The folder that `cargo xtask release` made
    folder: PathBuf,
    /// Credentials as docker, podman and buildah write them
    #[arg(long, env = "REGISTRY_AUTH_FILE", value_name = "FILE")]
    registry_config: PathBuf,
}

/// Pushes all, and prints each by its tag and digest.
pub async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let shown = arguments.registry_config.display();
    let text =
        std::fs::read(&arguments.registry_config).with_context(|| format!("--registry-config {shown}"))?;
    let credentials = Credentials::parse(&text).with_context(|| format!("--registry-config {shown}"))?;
    // A layer takes longer than a component.
    let bounds = Bounds {
        total: Duration::from_mins(30),
        ..Bounds::default()
    };
    let setup = Setup {
        bounds,
        ..Setup::default()
    };
    all(
        &arguments.folder,
        &Registry::new(setup)?,
        &credentials,
        &|reference| reference,
    )
    .await?;
    Ok(ExitCode::SUCCESS)
}

/// Pushes what the layout of a folder names, where `place` says. What refers to an artifact comes after it.
pub async fn all(
    folder: &Path,
    registry: &Registry,
    credentials: &Credentials,
    place: &dyn Fn(String) -> String,
) -> Result<()> {
    let layout = Read::new(&folder.join(OCI));
    let mut named = layout.named()?;
    let is_list_of_referrers = |one: &Value| {
        one["annotations"][REFERENCE]
            .as_str()
            .is_some_and(|name| name.contains(":sha256-"))
    };
    named.sort_by_key(is_list_of_referrers);
    for one in named {
        let name = one["annotations"][REFERENCE]
            .as_str()
            .context("a reference in index.json")?;
        let reference: Reference = place(name.to_owned()).parse()?;
        push(&layout, registry, credentials, &reference, &one).await?;
        println!("{reference} {}", one["digest"].as_str().unwrap_or_default());
    }
    Ok(())
}

/// Pushes a manifest with its blobs, an index after what it names.
async fn push(
    layout: &Read,
    registry: &Registry,
    credentials: &Credentials,
    to: &Reference,
    descriptor: &Value,
) -> Result<()> {
    let document = layout.document(descriptor)?;
    let media_type = document["mediaType"].as_str().unwrap_or_default();
    ensure!(
        [INDEX, MANIFEST].contains(&media_type),
        "{to}: found a document of type {media_type}"
    );
    for one in document["manifests"].as_array().into_iter().flatten() {
        let version = Version::Digest(serde_json::from_value(one["digest"].clone())?);
        Box::pin(push(
            layout,
            registry,
            credentials,
            &Reference {
                version,
                ..to.clone()
            },
            one,
        ))
        .await?;
    }
    let blobs = document["layers"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(document.get("config"));
    let blobs: Vec<Vec<u8>> = blobs.map(|blob| layout.blob(blob)).collect::<Result<_>>()?;
    let manifest = layout.blob(descriptor)?;
    registry.put(to, credentials, media_type, manifest, blobs).await?;
    Ok(())
}
