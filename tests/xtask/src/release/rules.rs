//! The rules that ship, as OCI artifacts: the very manifest that `numo plugin push` would make of the same component.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, anyhow, ensure};
use jiff::Timestamp;
use numo_plugin::{
    Limits,
    inspect::inspect,
    oci::{CONFIG, ComponentSurface, LAYER, Push},
};
use serde_json::Value;

use super::{
    Facts,
    layout::{Layout, MANIFEST},
};

/// Puts each component of a folder; returns the descriptors by the names of the rules.
pub fn all(layout: &Layout, facts: &Facts, folder: &Path) -> Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    let entries = fs::read_dir(folder).with_context(|| {
        format!(
            "{}: the components of plugins (cargo components makes them)",
            folder.display()
        )
    })?;
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let descriptor = one(layout, facts, &name, fs::read(&path)?)?;
            found.insert(name, descriptor);
        }
    }
    ensure!(!found.is_empty(), "{}: no component is there", folder.display());
    Ok(found)
}

fn one(layout: &Layout, facts: &Facts, name: &str, component: Vec<u8>) -> Result<Value> {
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
    layout.blob(MANIFEST, &packed.manifest)
}
