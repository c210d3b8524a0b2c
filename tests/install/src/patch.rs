//! JSON Patches of the components of kustomize, carried out on objects: an administrator who has no kustomize gets what comes of them.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Carries out the operations of a patch that adds to lists or replaces what is in them.
///
/// # Errors
/// If an operation is another one, or there is no such place.
pub fn patched(object: &mut Value, patch: &Value) -> Result<()> {
    for operation in patch.as_array().context("a list of operations")? {
        let path = operation["path"].as_str().context("a path")?;
        let (list, place) = path.rsplit_once('/').context("a place in a list")?;
        let list = object.pointer_mut(list).and_then(Value::as_array_mut);
        let list = list.with_context(|| format!("{path} is there"))?;
        let place = place.parse().unwrap_or(list.len());
        let value = operation["value"].clone();
        match operation["op"].as_str() {
            Some("add") if place <= list.len() => list.insert(place, value),
            Some("replace") if place < list.len() => list[place] = value,
            other => bail!("{path}: found {other:?}, wanted add or replace of what is there"),
        }
    }
    Ok(())
}
