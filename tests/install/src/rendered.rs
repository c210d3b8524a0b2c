//! One manifest for each platform, for `kubectl apply -f`: its overlay as kubectl's own kustomize renders it.

use std::{collections::BTreeMap, process::Command};

use anyhow::Result;

use crate::{GENERATED, read, root, said};

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

/// That of `kubernetes` where control-plane nodes are there.
const SELF_MANAGED: &str = "self-managed";

pub(crate) fn files() -> Result<BTreeMap<String, String>> {
    let of = |platform: &&str| {
        let text = overlay(platform)?;
        Ok((
            format!("deploy/{platform}.yaml"),
            format!("# {GENERATED} From deploy/kustomize/{platform}.\n{text}"),
        ))
    };
    let mut files: BTreeMap<String, String> = PLATFORMS
        .iter()
        .chain(&[SELF_MANAGED])
        .map(of)
        .collect::<Result<_>>()?;
    // One object, with the commands that go with it.
    let job = read("deploy/kustomize/uninstall/job.yaml")?;
    let job = job.replace("-k deploy/kustomize/uninstall", "-f deploy/uninstall.yaml");
    files.insert(
        "deploy/uninstall.yaml".to_owned(),
        format!("# {GENERATED} From deploy/kustomize/uninstall.\n{job}"),
    );
    Ok(files)
}
