//! `cargo xtask manifests`: deploy/kustomize and deploy/crds are the source of every other way to install numo.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;

/// Which images the bundle and the catalogue name.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Write bundle, catalogue and the files of their images into --output, for numo's image by its digest
    #[arg(long, value_name = "REPOSITORY@sha256:DIGEST", requires_all = ["bundle_image", "kubectl_image", "output"])]
    image: Option<String>,
    /// The bundle's image by its digest, for the catalogue
    #[arg(long, value_name = "REPOSITORY@sha256:DIGEST", requires = "image")]
    bundle_image: Option<String>,
    /// The image that Jobs of Plans drain with, by its digest: a mirror has only what the bundle lists
    #[arg(long, value_name = "REPOSITORY@sha256:DIGEST", requires = "image")]
    kubectl_image: Option<String>,
    /// Folder for them; the checked-in ones stay as they are
    #[arg(long, value_name = "FOLDER", requires = "image")]
    output: Option<PathBuf>,
}

/// Writes the rendered manifests and the chart's templates anew. They are committed, so that a change is seen in review.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let images = (
        &arguments.image,
        &arguments.bundle_image,
        &arguments.kubectl_image,
    );
    match (images, &arguments.output) {
        ((Some(image), Some(bundle_image), Some(kubectl_image)), Some(folder)) => {
            numo_install::olm::publish(folder, image, bundle_image, kubectl_image)?;
        }
        _ => numo_install::write()?,
    }
    Ok(ExitCode::SUCCESS)
}
