//! The rules and providers of machines that ship, as OCI artifacts: the very manifest that `numo plugin push` would make of the same
//! component.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use jiff::Timestamp;
use numo_plugin::{
    Limits,
    inspect::{World, inspect},
    oci::{CONFIG, ComponentSurface, LAYER, Push},
};
use serde_json::Value;

use super::{
    Facts,
    layout::{Layout, MANIFEST},
};
use crate::step;

/// How the packages of providers are named: the folder of one has the rest.
const PROVIDER: &str = "provider-";

/// A component that ships.
#[derive(Clone, Debug)]
pub struct Shipped {
    world: World,
    name: String,
    /// Its descriptor.
    pub descriptor: Value,
}

impl Shipped {
    /// What it is, for people: `rule pdb-headroom`, `provider gcp`.
    pub fn what(&self) -> String {
        let kind = match self.world {
            World::Rule => "rule",
            World::Provider => "provider",
        };
        format!("{kind} {}", self.name)
    }

    /// Where it is below the registry: `rules/pdb-headroom`, `providers/gcp`.
    pub fn path(&self) -> String {
        let folder = match self.world {
            World::Rule => "rules",
            World::Provider => "providers",
        };
        format!("{folder}/{}", self.name)
    }
}

/// The packages that the components of a folder are made of, in order.
///
/// # Errors
/// If a component is of no package of `plugins`: what it is made of would be in no list.
pub fn packages(folder: &Path) -> Result<Vec<String>> {
    let names = components(folder)?.into_iter().map(|path| name_of(&path));
    names
        .map(|name| {
            let of = folder_of(&name);
            let manifest = step::root().join("plugins").join(of).join("Cargo.toml");
            let line = format!("name = {name:?}");
            let has = |text: String| text.lines().any(|found| found == line);
            let is_known = fs::read_to_string(&manifest).is_ok_and(has);
            ensure!(
                is_known,
                "{}: found {name}.wasm, wanted components of packages of plugins: none in plugins/{of} has that name",
                folder.display()
            );
            Ok(name)
        })
        .collect()
}

/// The folder of a package in `plugins`, which is also what its component is called in a registry.
fn folder_of(package: &str) -> &str {
    package.strip_prefix(PROVIDER).unwrap_or(package)
}

fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The files of components in a folder, in order.
fn components(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| {
        format!(
            "{}: the components of plugins (cargo components makes them)",
            folder.display()
        )
    })?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            found.push(path);
        }
    }
    found.sort();
    ensure!(!found.is_empty(), "{}: no component is there", folder.display());
    Ok(found)
}

/// Puts each component of a folder.
pub fn all(layout: &Layout, facts: &Facts, folder: &Path) -> Result<Vec<Shipped>> {
    let each = components(folder)?.into_iter();
    each.map(|path| one(layout, facts, &name_of(&path), fs::read(&path)?))
        .collect()
}

fn one(layout: &Layout, facts: &Facts, name: &str, component: Vec<u8>) -> Result<Shipped> {
    let inspection = inspect(&component, &Limits::default())
        .map_err(|refused| anyhow!("{name}: {}: {}", refused.reason.as_str(), refused.message))?;
    let annotation = |key: &str, value: &str| (format!("org.opencontainers.image.{key}"), value.to_owned());
    let push = Push {
        surface: ComponentSurface::from(&inspection),
        created: Timestamp::from_second(facts.when)?,
        annotations: BTreeMap::from([
            annotation("title", &format!("{name}.wasm")),
            annotation("version", &facts.version),
            annotation("source", facts.publisher.get("source")),
            annotation("revision", &facts.commit),
            annotation("licenses", "Apache-2.0"),
        ]),
        component,
        ..Push::default()
    };
    let packed = push.packed(&name)?;
    layout.blob(LAYER, &push.component)?;
    layout.blob(CONFIG, &packed.config)?;
    Ok(Shipped {
        world: inspection.world,
        name: folder_of(name).to_owned(),
        descriptor: layout.blob(MANIFEST, &packed.manifest)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_each_component_is_found_and_a_stranger_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::write(folder.path().join(name), b"").unwrap();
        let none = format!("{:#}", packages(folder.path()).unwrap_err());
        assert!(none.contains("no component is there"), "{none}");
        for name in ["provider-sim.wasm", "pdb-headroom.wasm", "pdb-headroom.d"] {
            make(name);
        }
        assert_eq!(packages(folder.path()).unwrap(), ["pdb-headroom", "provider-sim"]);
        // The folder is there, and its package has another name.
        make("sim.wasm");
        let refused = format!("{:#}", packages(folder.path()).unwrap_err());
        assert!(refused.contains("found sim.wasm"), "{refused}");
    }

    #[test]
    fn a_provider_lies_beside_the_rules_and_not_among_them() {
        let shipped = |world, package: &str| Shipped {
            world,
            name: folder_of(package).to_owned(),
            descriptor: Value::Null,
        };
        let rule = shipped(World::Rule, "pdb-headroom");
        assert_eq!(
            (rule.what().as_str(), rule.path().as_str()),
            ("rule pdb-headroom", "rules/pdb-headroom")
        );
        let provider = shipped(World::Provider, "provider-gcp");
        assert_eq!(
            (provider.what().as_str(), provider.path().as_str()),
            ("provider gcp", "providers/gcp")
        );
    }
}
