//! Definitions upgrade over those of every release: no object that was taken is refused, and none loses a field.

use std::fs;

use anyhow::{Context as _, Result};
use numo_install::{compatible::breaks, objects, root};
use serde_json::{Value, json};

fn definition(path: &std::path::Path) -> Result<Value> {
    let text = fs::read_to_string(path)?;
    objects(&text)?.into_iter().next().context("a definition")
}

/// `tests/install/released` has the definitions of each release; 0.1.0 is what will be released first.
#[test]
fn definitions_take_what_those_of_every_release_took() -> Result<()> {
    let mut number = 0;
    for release in fs::read_dir(root().join("tests/install/released"))? {
        let release = release?.path();
        for old in fs::read_dir(&release)? {
            let old = old?.path();
            let now = root()
                .join("deploy/crds")
                .join(old.file_name().context("a name")?);
            let now = definition(&now).with_context(|| format!("{} has none now", old.display()))?;
            assert_eq!(
                breaks(&definition(&old)?, &now),
                Vec::<String>::new(),
                "{}",
                release.display()
            );
            number += 1;
        }
    }
    assert!(number >= 9, "{number}");
    Ok(())
}

#[test]
fn what_would_break_an_object_is_found() -> Result<()> {
    let old = definition(&root().join("deploy/crds/openshift-optional.skrzypek.io_mutexrunconfigs.yaml"))?;
    assert_eq!(breaks(&old, &old), Vec::<String>::new());
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let at = |pointer: &str| format!("{spec}{pointer}");
    let with = |pointer: &str, change: &dyn Fn(&mut Value)| -> Result<Vec<String>> {
        let mut new = old.clone();
        change(new.pointer_mut(pointer).with_context(|| pointer.to_owned())?);
        Ok(breaks(&old, &new))
    };
    let names = old
        .pointer(&at("/properties"))
        .and_then(Value::as_object)
        .context("fields")?;
    let [first, ..] = names.keys().collect::<Vec<_>>()[..] else {
        anyhow::bail!("no field");
    };
    let first = first.clone();
    for (what, found) in [
        (
            "is required",
            with(&at(""), &|spec| {
                spec["required"] = json!(["mutexRules", "suspend"]);
            })?,
        ),
        (
            "the field is gone",
            with(&at("/properties"), &|all| {
                all.as_object_mut().map(|all| all.remove(&first));
            })?,
        ),
        (
            "type was",
            with(&at("/properties/suspend"), &|one| one["type"] = json!("string"))?,
        ),
        (
            "default was",
            with(&at("/properties/suspend"), &|one| one["default"] = json!(true))?,
        ),
        (
            "enum was",
            with(&at("/properties/suspend"), &|one| one["enum"] = json!([true]))?,
        ),
        (
            "maxItems was",
            with(&at("/properties/mutexRules"), &|one| one["maxItems"] = json!(1))?,
        ),
        (
            "a rule is new",
            with(&at(""), &|spec| {
                spec["x-kubernetes-validations"] = json!([{"rule": "false", "message": "never"}]);
            })?,
        ),
        (
            "the version is gone",
            with("/spec/versions/0", &|one| one["name"] = json!("v2"))?,
        ),
        (
            "it is served no more",
            with("/spec/versions/0", &|one| one["served"] = json!(false))?,
        ),
        (
            "spec.scope is another",
            with("/spec", &|one| one["scope"] = json!("Cluster"))?,
        ),
    ] {
        assert!(found.iter().any(|one| one.contains(what)), "{what}: {found:?}");
    }
    // What only lets more in breaks nothing.
    let more = with(&at("/properties"), &|all| {
        all["another"] = json!({"type": "string"});
    })?;
    assert_eq!(more, Vec::<String>::new());
    Ok(())
}
