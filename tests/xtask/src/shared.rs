//! What is built for `cargo xtask test` is built once: Go programs that tests run have the versions of the control plane.

use std::collections::BTreeMap;
use std::fs;

use crate::step;

/// The module of the control plane, which is what Kubernetes says.
const CONTROL_PLANE: &str = "tests/control-plane";

/// Modules that share most of their packages with it, and what they need newer than it has it.
const BESIDE: [(&str, &[&str]); 3] = [
    ("tests/install/fleet", &[]),
    ("tests/install/helm", &[]),
    (
        "tests/install/olm",
        &["go.opentelemetry.io/", "google.golang.org/grpc"],
    ),
];

/// The version of each module that a `go.mod` names: what it requires, or what stands for it.
fn versions(module: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(step::root().join(module).join("go.mod")).unwrap();
    let mut versions = BTreeMap::new();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    for line in lines {
        let words: Vec<&str> = line
            .split_whitespace()
            .filter(|word| !["require", "replace"].contains(word))
            .collect();
        match words[..] {
            [path, version] if version.starts_with('v') => {
                versions.entry(path.to_owned()).or_insert(version.to_owned());
            }
            // The other module's name is the same: it is replaced by a version of itself.
            [path, "=>", _, version] => {
                versions.insert(path.to_owned(), version.to_owned());
            }
            _ => {}
        }
    }
    versions
}

/// Each of them would compile Kubernetes' client and types once more, for minutes.
#[test]
fn go_programs_have_the_versions_of_the_control_plane() {
    let control_plane = versions(CONTROL_PLANE);
    assert!(control_plane.len() > 100, "{control_plane:?}");
    for (module, newer) in BESIDE {
        let own = versions(module);
        let shared = own.iter().filter(|(path, _)| {
            control_plane.contains_key(*path) && !newer.iter().any(|one| path.starts_with(one))
        });
        let shared: Vec<_> = shared.collect();
        assert!(shared.len() > 10, "{module}: {own:?}");
        for (path, version) in shared {
            assert_eq!(
                version, &control_plane[path],
                "{module}/go.mod: replace {path} by the version of {CONTROL_PLANE}/go.mod"
            );
        }
    }
}
