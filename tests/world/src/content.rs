//! What rendered configs are made of, and what a change of them does to a node (spec 4.2, 4.6). Pure.
//!
//! The hash covers content only, never the pool's name: pools with equal sources get equal suffixes.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::openshift::{MachineConfig, MachineConfigSpec};

/// Files whose change needs no reboot (the default node disruption policy).
const REBOOTLESS: [&str; 3] = [
    "/var/lib/kubelet/config.json",
    "/etc/containers/registries.conf",
    "/etc/containers/policy.json",
];

/// What the running machine-config operator renders with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    /// Its own version: the annotation of every rendered config.
    pub version: String,
    /// Version of the operating system it ships.
    pub os_version: String,
    /// A part of the content that no node acts on.
    pub ignition: String,
}

impl Release {
    pub(crate) fn new(version: &str) -> Self {
        Self {
            version: version.into(),
            os_version: version.into(),
            ignition: "3.4.0".into(),
        }
    }
}

/// What a node must do to go from one content to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing: neither drain nor reboot.
    None,
    /// A reload, without drain.
    Reload,
    /// Drain and reboot.
    Reboot,
}

/// Merges sources, which must be sorted by name; later ones win.
pub(crate) fn merge(sources: &[&MachineConfig], release: &Release) -> MachineConfigSpec {
    let mut merged = MachineConfigSpec {
        os_image_url: os_image(&release.os_version),
        ..MachineConfigSpec::default()
    };
    let mut files = BTreeMap::new();
    for source in sources {
        let spec = &source.spec;
        merged
            .kernel_arguments
            .extend(spec.kernel_arguments.iter().cloned());
        merged.extensions.extend(spec.extensions.iter().cloned());
        if !spec.kernel_type.is_empty() {
            merged.kernel_type.clone_from(&spec.kernel_type);
        }
        files.extend(files_of(spec));
    }
    let files: Vec<Value> = files.into_values().collect();
    merged.config = json!({ "ignition": { "version": release.ignition }, "storage": { "files": files } });
    merged
}

/// The 32 hex digits at the end of a rendered config's name.
pub(crate) fn hash(spec: &MachineConfigSpec) -> String {
    use std::fmt::Write as _;
    // serde_json writes struct fields in order and maps sorted: equal content, equal bytes.
    let bytes = serde_json::to_vec(spec).unwrap_or_default();
    let digest = Sha256::new()
        .chain_update(b"numo-world")
        .chain_update(bytes)
        .finalize();
    digest.iter().take(16).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// What going from `current` to `desired` asks of a node.
pub(crate) fn change(current: &MachineConfigSpec, desired: &MachineConfigSpec) -> Change {
    let os = |s: &MachineConfigSpec| {
        (
            s.os_image_url.clone(),
            s.kernel_arguments.clone(),
            s.kernel_type.clone(),
            s.extensions.clone(),
        )
    };
    if os(current) != os(desired) {
        return Change::Reboot;
    }
    let (old, new) = (files_of(current), files_of(desired));
    let changed: Vec<&String> = old
        .keys()
        .chain(new.keys())
        .filter(|path| old.get(*path) != new.get(*path))
        .collect();
    match changed.as_slice() {
        [] => Change::None,
        paths if paths.iter().all(|p| REBOOTLESS.contains(&p.as_str())) => Change::Reload,
        _ => Change::Reboot,
    }
}

/// Whether two rendered configs' names promise equal content.
pub fn same_content(a: &str, b: &str) -> bool {
    let suffix = |name: &str| name.rsplit('-').next().unwrap_or_default().to_owned();
    !a.is_empty() && suffix(a) == suffix(b)
}

/// Image of the operating system of a version.
pub(crate) fn os_image(version: &str) -> String {
    format!("os.world.example/rhel-coreos:{version}")
}

/// The version in an image made by [`os_image`].
pub(crate) fn os_version(image: &str) -> &str {
    image.rsplit(':').next().unwrap_or_default()
}

/// The kubelet of an OpenShift version: 4.N ships Kubernetes 1.(N+13).
pub(crate) fn kubelet_version(version: &str) -> String {
    let mut parts = version
        .split('.')
        .skip(1)
        .map(|p| p.parse::<u32>().unwrap_or_default());
    let (minor, patch) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("v1.{}.{patch}", minor + 13)
}

/// The minor of a Kubernetes version such as `v1.29.4`.
pub(crate) fn kubernetes_minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

fn files_of(spec: &MachineConfigSpec) -> BTreeMap<String, Value> {
    let files = spec.config.pointer("/storage/files").and_then(Value::as_array);
    files
        .into_iter()
        .flatten()
        .filter_map(|f| Some((f.get("path")?.as_str()?.to_owned(), f.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str) -> MachineConfig {
        let mut config = MachineConfig::new("99-x", MachineConfigSpec::default());
        config.spec.config = json!({ "storage": { "files": [{ "path": path }] } });
        config
    }

    #[test]
    fn content_decides_hash_and_disruption() {
        let (old, new) = (Release::new("4.16.4"), Release::new("4.16.5"));
        let reannotated = Release {
            version: "4.16.5".into(),
            ..old.clone()
        };
        let other_ignition = Release {
            ignition: "3.5.0".into(),
            ..reannotated.clone()
        };
        let (file, rebootless) = (source("/etc/motd"), source(REBOOTLESS[0]));
        let base = merge(&[], &old);

        assert_eq!(hash(&base), hash(&merge(&[], &reannotated)));
        assert_ne!(hash(&base), hash(&merge(&[], &other_ignition)));
        assert_eq!(change(&base, &merge(&[], &other_ignition)), Change::None);
        assert_eq!(change(&base, &merge(&[], &new)), Change::Reboot);
        assert_eq!(change(&base, &merge(&[&file], &old)), Change::Reboot);
        assert_eq!(change(&base, &merge(&[&rebootless], &old)), Change::Reload);
    }

    #[test]
    fn kubelet_follows_openshift() {
        assert_eq!(kubelet_version("4.16.4"), "v1.29.4");
        assert_eq!(kubernetes_minor("v1.29.4"), Some(29));
        assert_eq!(os_version(&os_image("4.18.0")), "4.18.0");
    }
}
