//! The promise of `wit/README.md`: within a major nothing that was released changes or goes, components of every
//! release keep loading, and a component of the next minor is refused only for what it really calls. The package of providers is
//! not released yet: what it is to be is stored beside the releases, and differs only where that is meant.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use numo_plugin::{
    Engine, Reason, Setup, Terms, Verdict,
    inspect::{CONTRACT, LENT, LENT_TO_PROVIDERS},
};
use numo_plugin_tests::{
    guest::{Core, Target, component_of, resolve, root, rust},
    services::{input, nothing},
};
use wit_parser::{InterfaceId, Resolve, TypeDefKind, WorldItem};

fn released(version: &str) -> PathBuf {
    root().join("tests/plugin/released").join(version)
}

/// Every release; the newest last.
fn releases() -> Vec<String> {
    let folder = root().join("tests/plugin/released");
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    all.sort_by_key(|version| numo_plugin::inspect::Version::parse(version).unwrap());
    all
}

/// `semver_check` between the two states of `wit/`, for every world, both kept in one Resolve.
fn compatible(old: &Path, new: &Path) -> Result<(), String> {
    for name in ["rule", "minimal-rule"] {
        // The checker wants both worlds in one Resolve: the old packages move out of the way.
        let mut resolve = resolve(new, "").map_err(|error| format!("{error:#}"))?;
        let text =
            ["host/host.wit", "rule/rule.wit"].map(|file| std::fs::read_to_string(old.join(file)).unwrap());
        let [host, rule] = text.map(|text| {
            text.replace("numo:host", "old:host")
                .replace("numo:rule", "old:rule")
        });
        resolve
            .push_str("old-host.wit", &host)
            .map_err(|error| format!("{error:#}"))?;
        resolve
            .push_str("old-rule.wit", &rule)
            .map_err(|error| format!("{error:#}"))?;
        let world = |resolve: &Resolve, namespace: &str| {
            let found = resolve.worlds.iter().find(|(_, world)| {
                world.name == name
                    && world
                        .package
                        .is_some_and(|package| resolve.packages[package].name.namespace == namespace)
            });
            found.map(|(id, _)| id).unwrap()
        };
        // It compares names, so the new one is given the old names for the time of the check.
        let (prev, next) = (world(&resolve, "old"), world(&resolve, "numo"));
        rename(&mut resolve);
        wit_component::semver_check(resolve, prev, next)
            .map_err(|error| format!("world {name}: {error:#}"))?;
    }
    Ok(())
}

/// `numo:host@1.1.0` and `old:host@1.0.0` become one name, so that the imports of both worlds are found in each other.
fn rename(resolve: &mut Resolve) {
    for (_, package) in &mut resolve.packages {
        if package.name.namespace == "old" {
            package.name.namespace = "numo".into();
        }
    }
}

/// Every function, type, field and case, as lines. `semver_check` lets a removed export pass; this does not.
fn items(wit: &Path) -> BTreeSet<String> {
    let resolve = resolve(wit, "").unwrap();
    let mut items = BTreeSet::new();
    for (_, world) in &resolve.worlds {
        let of_world = [("imports", &world.imports), ("exports", &world.exports)];
        for (direction, list) in of_world {
            for (key, item) in list {
                let name = match item {
                    WorldItem::Interface { id, .. } => interface_name(&resolve, *id),
                    _ => resolve.name_world_key(key),
                };
                items.insert(format!("world {} {direction} {name}", world.name));
            }
        }
    }
    for (id, interface) in &resolve.interfaces {
        let name = interface_name(&resolve, id);
        for (function, about) in &interface.functions {
            let parameters: Vec<_> = about
                .params
                .iter()
                .map(|parameter| parameter.name.as_str())
                .collect();
            items.insert(format!("{name}#{function}({})", parameters.join(", ")));
        }
        for (ty, id) in &interface.types {
            items.insert(format!("{name}.{ty}"));
            let parts: Vec<&str> = match &resolve.types[*id].kind {
                TypeDefKind::Record(record) => {
                    record.fields.iter().map(|field| field.name.as_str()).collect()
                }
                TypeDefKind::Variant(variant) => {
                    variant.cases.iter().map(|case| case.name.as_str()).collect()
                }
                TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| case.name.as_str()).collect(),
                _ => Vec::new(),
            };
            items.extend(parts.into_iter().map(|part| format!("{name}.{ty}.{part}")));
        }
    }
    items
}

/// Without version.
fn interface_name(resolve: &Resolve, id: InterfaceId) -> String {
    let interface = &resolve.interfaces[id];
    let package = interface.package.map(|package| &resolve.packages[package].name);
    let package = package.map_or(String::new(), |name| format!("{}:{}", name.namespace, name.name));
    format!("{package}/{}", interface.name.as_deref().unwrap_or_default())
}

/// A copy of `wit/` with changes.
fn changed(changes: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["host/host.wit", "rule/rule.wit"] {
        let mut text = std::fs::read_to_string(root().join("wit").join(file)).unwrap();
        for (_, from, to) in changes.iter().filter(|(of, ..)| *of == file) {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn nothing_that_was_released_changes_or_goes() {
    let now = root().join("wit");
    for version in releases() {
        compatible(&released(&version), &now).unwrap_or_else(|error| panic!("since {version}: {error}"));
        let gone: Vec<_> = items(&released(&version))
            .difference(&items(&now))
            .cloned()
            .collect();
        assert!(gone.is_empty(), "gone since {version}: {gone:?}");
    }
}

#[test]
fn the_gate_finds_what_it_is_for() {
    let wit = root().join("wit");
    let refused = |file, from, to| {
        let changed = changed(&[(file, from, to)]);
        let gone = items(&wit).difference(&items(changed.path())).count();
        compatible(&wit, changed.path()).is_err() || gone > 0
    };
    let host = "host/host.wit";
    let rule = "rule/rule.wit";
    assert!(
        refused(host, "  @since(version = 1.0.0)\n  now: func() -> instant;", ""),
        "a removed import"
    );
    assert!(refused(host, "over-budget,", "over-budget, tired,"), "a new case");
    assert!(
        refused(host, "message: string,", "message: string, more: u32,"),
        "a new field"
    );
    assert!(refused(host, "limit: u32)", "most: u32)"), "a renamed parameter");
    assert!(
        refused(
            rule,
            "  @since(version = 1.0.0)\n  describe: func() -> description;",
            ""
        ),
        "a removed export"
    );
    assert!(
        refused(
            rule,
            "  describe: func() -> description;",
            "describe: func() -> description; more: func();"
        ),
        "a new export"
    );
    let added = "  now: func() -> instant;\n  today: func() -> instant;";
    assert!(
        !refused(host, "  now: func() -> instant;", added),
        "a new function is what a minor may bring"
    );
}

#[test]
fn what_is_lent_is_what_the_wit_says() {
    let resolve = resolve(&root().join("wit"), "").unwrap();
    let mut in_wit = BTreeSet::new();
    for (id, interface) in &resolve.interfaces {
        let package = &resolve.packages[interface.package.unwrap()].name;
        assert_eq!(
            package.version.as_ref().unwrap().to_string(),
            CONTRACT.to_string()
        );
        if let Some(name) = interface_name(&resolve, id).strip_prefix("numo:host/") {
            in_wit.insert((
                name.to_owned(),
                interface.functions.keys().cloned().collect::<BTreeSet<_>>(),
            ));
        }
    }
    let granted = LENT.map(|(name, functions)| {
        (
            name.to_owned(),
            functions
                .iter()
                .map(|function| (*function).to_owned())
                .collect::<BTreeSet<_>>(),
        )
    });
    assert_eq!(BTreeSet::from(granted), in_wit);
}

#[test]
fn the_provider_package_parses_beside_the_others() {
    let mut resolve = resolve(&root().join("wit"), "").unwrap();
    let (package, _) = resolve.push_dir(root().join("wit/provider")).unwrap();
    let version = resolve.packages[package].name.version.as_ref().unwrap();
    assert_eq!(version.to_string(), CONTRACT.to_string());
    // No rule can import what changes anything: it is not in numo:host.
    assert!(LENT.iter().all(|(name, _)| *name != "cloud-api"));
    let lent = LENT_TO_PROVIDERS.map(|(name, functions)| {
        let functions = functions.iter().map(|function| (*function).to_owned());
        (name.to_owned(), functions.collect::<BTreeSet<_>>())
    });
    let interfaces = resolve.packages[package].interfaces.iter();
    let in_wit = interfaces
        .filter(|(name, _)| *name != "machines")
        .map(|(name, id)| {
            let functions = resolve.interfaces[*id].functions.keys().cloned();
            (name.clone(), functions.collect::<BTreeSet<_>>())
        });
    assert_eq!(BTreeSet::from(lent), in_wit.collect::<BTreeSet<_>>());
}

/// The package of providers as it was last meant to be: it may change until its first release, and then it stands with the others.
fn unreleased() -> PathBuf {
    root().join("tests/plugin/unreleased/provider/provider.wit")
}

/// What of a text differs from another: the first line that is not the same, with its number.
fn first_difference(meant: &str, found: &str) -> Option<String> {
    if meant == found {
        return None;
    }
    let (mut meant, mut found) = (meant.lines(), found.lines());
    for number in 1.. {
        match (meant.next(), found.next()) {
            (None, None) => break,
            (one, other) if one == other => {}
            (one, other) => {
                let (one, other) = (one.unwrap_or("its end"), other.unwrap_or("its end"));
                return Some(format!("line {number}: found {other:?}, wanted {one:?}"));
            }
        }
    }
    Some("the ends of lines differ".to_owned())
}

/// Components of providers are built by others, and by an older source than numo: a change of what they speak is made by two files, so that
/// nobody makes it in passing. Comments are part of it, as meaning counts.
#[test]
fn the_package_of_providers_changes_only_where_that_is_meant() {
    for version in releases() {
        let stored = released(&version).join("provider");
        assert!(
            !stored.exists(),
            "{} is a release: compare wit/provider with it as with the others, and delete tests/plugin/unreleased",
            stored.display()
        );
    }
    let meant = std::fs::read_to_string(unreleased()).unwrap();
    let found = std::fs::read_to_string(root().join("wit/provider/provider.wit")).unwrap();
    let differs = first_difference(&meant, &found);
    assert_eq!(
        differs, None,
        "wit/provider/provider.wit is not what tests/plugin/unreleased has. It is not released, so it may change: if that is meant, copy it there, \
         build the providers of plugins/ anew, and say so in CHANGELOG.md"
    );
    let mut files = std::fs::read_dir(root().join("wit/provider")).unwrap();
    assert!(
        files.all(|entry| entry.unwrap().file_name() == "provider.wit"),
        "a further file of wit/provider is stored nowhere"
    );
}

#[test]
fn a_change_of_the_package_of_providers_is_noticed() {
    let meant = std::fs::read_to_string(unreleased()).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(meant.contains(from), "{from}");
        first_difference(&meant, &meant.replacen(from, to, 1))
    };
    for (from, to, words) in [
        ("    terminating,\n", "", "wanted \"    terminating,\""),
        ("  describe: func() -> description;\n", "", "describe"),
        ("request-id: string", "id: string", "request-id"),
        ("retry-after-seconds: u32", "retry-after-seconds: u64", "u32"),
        ("Already gone is success.", "Already gone is an error.", "success"),
        (
            "  export machines;\n}\n",
            "  export machines;\n}\n\n",
            "wanted \"its end\"",
        ),
    ] {
        let found = changed(from, to).unwrap_or_else(|| panic!("nothing differs: {from}"));
        assert!(found.contains(words), "{found}");
    }
    assert_eq!(first_difference(&meant, &meant), None);
}

#[test]
fn the_newest_release_is_what_stands_in_wit() {
    // Until a version is released its folder is written with the change; afterwards it stays.
    let newest = released(releases().last().unwrap());
    for file in ["host/host.wit", "rule/rule.wit"] {
        let (old, now) = (items(&newest), items(&root().join("wit")));
        assert_eq!(old, now, "{file}: bump the version, and store the new release");
    }
}

#[tokio::test]
async fn components_of_every_release_load_and_answer() {
    let engine = Engine::new(Setup::default()).unwrap();
    let mut count = 0;
    for version in releases() {
        for entry in std::fs::read_dir(released(&version)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "wasm") {
                continue;
            }
            let rule = engine.load(&std::fs::read(&path).unwrap()).await.unwrap();
            assert_eq!(rule.inspection().contract.to_string(), version);
            let answer = rule
                .evaluate(input("{}"), &Terms::default(), nothing())
                .await
                .unwrap();
            assert!(matches!(answer.verdict, Verdict::Pass(_)), "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 2, "{count} golden components");
}

/// `wit/` as a later minor might be: one more function.
fn next_minor() -> tempfile::TempDir {
    changed(&[
        (
            "host/host.wit",
            "package numo:host@1.0.0;",
            "package numo:host@1.1.0;",
        ),
        (
            "host/host.wit",
            "  now: func() -> instant;",
            "  now: func() -> instant;\n  @since(version = 1.1.0)\n  today: func() -> u64;",
        ),
        (
            "rule/rule.wit",
            "package numo:rule@1.0.0;",
            "package numo:rule@1.1.0;",
        ),
        ("rule/rule.wit", "numo:host/types@1.0.0", "numo:host/types@1.1.0"),
        ("rule/rule.wit", "numo:host/log@1.0.0", "numo:host/log@1.1.0"),
        ("rule/rule.wit", "numo:host/clock@1.0.0", "numo:host/clock@1.1.0"),
        (
            "rule/rule.wit",
            "numo:host/history@1.0.0",
            "numo:host/history@1.1.0",
        ),
        (
            "rule/rule.wit",
            "numo:host/kubernetes@1.0.0",
            "numo:host/kubernetes@1.1.0",
        ),
        ("rule/rule.wit", "numo:host/http@1.0.0", "numo:host/http@1.1.0"),
        (
            "rule/rule.wit",
            "numo:host/prometheus@1.0.0",
            "numo:host/prometheus@1.1.0",
        ),
    ])
}

#[tokio::test]
async fn a_component_of_the_next_minor_runs_unless_it_calls_what_is_new() {
    let wit = next_minor();
    let engine = Engine::new(Setup::default()).unwrap();
    let core = |imports: &str| Core {
        version: "1.1.0".into(),
        imports: imports.into(),
        ..Core::default()
    };
    let known = r#"(import "numo:host/clock@1.1.0" "now" (func (param i32)))"#;
    let old = component_of(&core(known).wat(), "rule", "", wit.path()).unwrap();
    let rule = engine.load(&old).await.unwrap();
    assert_eq!(rule.inspection().contract.to_string(), "1.1.0");
    rule.evaluate(input("{}"), &Terms::default(), nothing())
        .await
        .unwrap();
    let unknown = r#"(import "numo:host/clock@1.1.0" "today" (func (result i64)))"#;
    let new = component_of(&core(unknown).wat(), "rule", "", wit.path()).unwrap();
    let refused = engine.load(&new).await.unwrap_err();
    assert_eq!(refused.reason, Reason::HostTooOld);
    assert!(refused.message.contains("numo:host/clock#today"), "{refused}");
}

#[tokio::test]
async fn a_component_of_the_next_major_is_named_as_such() {
    let engine = Engine::new(Setup::default()).unwrap();
    let rule =
        wat::parse_str(r#"(component (instance $e) (export "numo:rule/evaluation@2.0.0" (instance $e)))"#)
            .unwrap();
    let refused = engine.load(&rule).await.unwrap_err();
    assert_eq!(refused.reason, Reason::WrongWorld);
    assert!(refused.message.contains("2.0.0"), "{refused}");
    let host = wat::parse_str(r#"(component (import "numo:host/log@2.0.0" (instance)))"#).unwrap();
    assert_eq!(engine.load(&host).await.unwrap_err().reason, Reason::HostTooOld);
}

/// Stores `wit/` and components built against it as the release that [`CONTRACT`] names. A stored release is never
/// written over.
#[test]
#[ignore = "writes into the source tree; run by hand when a version is released"]
fn store() {
    let folder = released(&CONTRACT.to_string());
    assert!(!folder.exists(), "{} is released", folder.display());
    for file in ["host/host.wit", "rule/rule.wit"] {
        std::fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
        std::fs::copy(root().join("wit").join(file), folder.join(file)).unwrap();
    }
    let components = [
        ("core.wasm", Core::default().component().unwrap()),
        ("rust-wasip2.wasm", rust(Target::Wasip2).unwrap()),
        ("rust-unknown.wasm", rust(Target::Unknown).unwrap()),
    ];
    for (name, bytes) in components {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}
