//! One manifest for each platform, for `kubectl apply -f`: its overlay as kubectl's own kustomize renders it.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::Result;

use crate::{GENERATED, read, root, said};

/// The platforms, each with an overlay and a rendered manifest.
pub const PLATFORMS: [&str; 2] = ["kubernetes", "openshift"];

/// The overlay of a platform with all that is shared, rendered.
pub fn overlay(platform: &str) -> Result<String> {
    kustomize(&root().join("deploy/kustomize/all").join(platform))
}

/// What a folder of kustomize renders.
pub fn kustomize(folder: &Path) -> Result<String> {
    let mut kubectl = Command::new(numo_cluster::binary()?);
    said(kubectl.args(["kubectl", "kustomize"]).arg(folder))
}

/// That of `kubernetes` where control-plane nodes are there.
const SELF_MANAGED: &str = "self-managed";

pub(crate) fn files() -> Result<BTreeMap<String, String>> {
    let of = |platform: &&str| {
        let text = overlay(platform)?;
        Ok((
            format!("deploy/{platform}.yaml"),
            format!("# {GENERATED} From deploy/kustomize/all/{platform}.\n{text}"),
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
    // With the labels that kustomize adds, so that either way applies the same object.
    let part = "    app.kubernetes.io/part-of: numo\n";
    let release = format!(
        "    app.kubernetes.io/instance: numo\n    app.kubernetes.io/version: {}\n    app.kubernetes.io/managed-by: kustomize\n",
        env!("CARGO_PKG_VERSION")
    );
    let job = job.replacen(part, &format!("{part}{release}"), 1);
    files.insert(
        "deploy/uninstall.yaml".to_owned(),
        format!("# {GENERATED} From deploy/kustomize/uninstall.\n{job}"),
    );
    let text = kustomize(&root().join("deploy/kustomize/remove"))?;
    let head = "What goes with numo, after deploy/uninstall.yaml: `kubectl delete -f deploy/remove.yaml --ignore-not-found`.";
    files.insert(
        "deploy/remove.yaml".to_owned(),
        format!("# {GENERATED} From deploy/kustomize/remove.\n# {head}\n# No definition and no namespace is in it.\n{text}"),
    );
    Ok(files)
}
