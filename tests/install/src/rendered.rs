//! One manifest for each platform, for `kubectl apply -f`: its overlay as kubectl's own kustomize renders it.

use std::{collections::BTreeMap, process::Command};

use anyhow::Result;

use crate::{GENERATED, root, said};

/// The platforms, each with an overlay and a rendered manifest.
pub const PLATFORMS: [&str; 2] = ["kubernetes", "openshift"];

/// The overlay of a platform, rendered.
pub fn overlay(platform: &str) -> Result<String> {
    let mut kubectl = Command::new(numo_cluster::binary()?);
    said(
        kubectl
            .args(["kubectl", "kustomize"])
            .arg(root().join("deploy/kustomize").join(platform)),
    )
}

pub(crate) fn files() -> Result<BTreeMap<String, String>> {
    let of = |platform: &&str| {
        let text = overlay(platform)?;
        Ok((
            format!("deploy/{platform}.yaml"),
            format!("# {GENERATED} From deploy/kustomize/{platform}.\n{text}"),
        ))
    };
    PLATFORMS.iter().map(of).collect()
}
