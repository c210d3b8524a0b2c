//! Definitions upgrade over those of every release: every object that is stored is served and can be written, and none loses a field or
//! means another thing.

use std::fs;

use anyhow::{Context as _, Result};
use numo_install::{
    compatible::{Break, breaks},
    objects, root,
};
use serde_json::{Value, json};

fn definition(path: &std::path::Path) -> Result<Value> {
    let text = fs::read_to_string(path)?;
    objects(&text)?.into_iter().next().context("a definition")
}

/// What was changed for good before 0.1.0, whose definitions were recorded early, is out: defaults that are the code's, and lists that
/// several writers may have a part of, which no later release could bring. A directive alone may be changed of a NodeChange. Conditions are
/// those of Kubernetes: numo wrote every field of them before.
const BEFORE_THE_FIRST: [(&str, &str); 29] = [
    ("mutexbindings", ".status.conditions[]"),
    ("mutexbudgets", ".status.conditions[]"),
    ("nodechanges", ".status.conditions[]"),
    ("nodemaintenances", ".status.conditions[]"),
    (
        "mutexbindings",
        ".spec.ownerSelector.namespaces: x-kubernetes-list-type was null, is \"set\"",
    ),
    ("mutexbudgets", ".spec.maxUnavailable: default was null, is 1"),
    ("mutexbudgets", ".spec.paused: default was null, is false"),
    ("nodechanges", ".spec: a rule is new: "),
    (
        "mutexrules",
        ".spec.cel.objects: x-kubernetes-list-type was null, is \"map\"",
    ),
    (
        "mutexrules",
        ".spec.cel.validations[].otherwise: default was null, is \"Wait\"",
    ),
    (
        "mutexrules",
        ".spec.cel.validations[].retryAfterSeconds: default was null, is 30",
    ),
    (
        "mutexrules",
        ".spec.cel.evaluationSeconds: default was null, is 5",
    ),
    (
        "mutexrules",
        ".spec.cel.serviceAccountName: default was null, is \"default\"",
    ),
    (
        "mutexrules",
        ".spec.wasm.limits.evaluationSeconds: default was null, is 5",
    ),
    (
        "mutexrules",
        ".spec.wasm.limits.hostBytes: default was null, is \"16Mi\"",
    ),
    (
        "mutexrules",
        ".spec.wasm.limits.hostCalls: default was null, is 500",
    ),
    (
        "mutexrules",
        ".spec.wasm.limits.memory: default was null, is \"64Mi\"",
    ),
    (
        "mutexrules",
        ".spec.wasm.serviceAccountName: default was null, is \"default\"",
    ),
    (
        "mutexrules",
        ".spec.phases: x-kubernetes-list-type was null, is \"set\"",
    ),
    (
        "mutexrules",
        ".spec.prometheus.forSeconds: default was null, is 0",
    ),
    (
        "mutexrules",
        ".spec.prometheus.maxGapSeconds: default was null, is 300",
    ),
    (
        "mutexrules",
        ".spec.prometheus.retryAfterSeconds: default was null, is 30",
    ),
    (
        "mutexrules",
        ".spec.prometheus.unmet: default was null, is \"Wait\"",
    ),
    (
        "mutexrules",
        ".spec.prometheus.warnings: default was null, is \"Wait\"",
    ),
    (
        "mutexrules",
        ".spec.wasm.grants.http[].scheme: default was null, is \"https\"",
    ),
    (
        "mutexrules",
        ".spec.wasm.grants.kubernetes[].names: x-kubernetes-list-type was null, is \"set\"",
    ),
    (
        "mutexrules",
        ".spec.wasm.grants.kubernetes[].namespaces: x-kubernetes-list-type was null, is \"set\"",
    ),
    (
        "mutexrules",
        ".spec.wasm.signature.mode: default was null, is \"Enforce\"",
    ),
    (
        "mutexrunconfigs",
        ".spec.mutexKeys: x-kubernetes-list-type was null, is \"set\"",
    ),
];

/// Whether a break is one that nobody can meet: of a definition that no release has had yet.
fn is_before_the_first(release: &std::path::Path, words: &str) -> bool {
    let is_known = |(plural, change): &(&str, &str)| {
        let rest = words.strip_prefix(plural);
        let split = |version: &str| rest.and_then(|rest| rest.split_once(version));
        let version = split(" v1alpha1").or_else(|| split(" v1beta1"));
        version.is_some_and(|(_, rest)| rest.starts_with(change))
    };
    release.ends_with("0.1.0") && BEFORE_THE_FIRST.iter().any(is_known)
}

/// `tests/install/released` has the definitions of each release; 0.1.0 is what will be released first. What is refused anew is
/// shown by `tests/api`, where what is stored already is served and written on a real API server.
#[test]
fn definitions_keep_what_those_of_every_release_took() -> Result<()> {
    let mut number = 0;
    for release in fs::read_dir(root().join("tests/install/released"))? {
        let release = release?.path();
        for old in fs::read_dir(&release)? {
            let old = old?.path();
            let now = root()
                .join("deploy/crds")
                .join(old.file_name().context("a name")?);
            let now = definition(&now).with_context(|| format!("{} has none now", old.display()))?;
            let broken = breaks(&definition(&old)?, &now);
            let broken: Vec<String> = broken
                .into_iter()
                .filter(|one| !one.is_ratcheted && !is_before_the_first(&release, &one.words))
                .map(|one| one.words)
                .collect();
            assert_eq!(broken, Vec::<String>::new(), "{}", release.display());
            number += 1;
        }
    }
    assert!(number >= 9, "{number}");
    Ok(())
}

#[test]
fn what_would_break_an_object_is_found() -> Result<()> {
    let old = definition(&root().join("deploy/crds/openshift-optional.skrzypek.io_mutexrunconfigs.yaml"))?;
    assert_eq!(breaks(&old, &old), Vec::new());
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let at = |pointer: &str| format!("{spec}{pointer}");
    let with = |pointer: &str, change: &dyn Fn(&mut Value)| -> Result<Vec<Break>> {
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
        assert!(
            found.iter().any(|one| one.words.contains(what)),
            "{what}: {found:?}"
        );
    }
    // What only lets more in breaks nothing.
    let more = with(&at("/properties"), &|all| {
        all["another"] = json!({"type": "string"});
    })?;
    assert_eq!(more, Vec::new());
    Ok(())
}

/// Texts with commands that people copy, below a folder.
fn texts(folder: &std::path::Path, found: &mut Vec<(std::path::PathBuf, String)>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_text = path
            .extension()
            .is_some_and(|end| ["md", "txt", "rs", "yaml"].iter().any(|one| end == *one));
        if path.is_dir() {
            texts(&path, found)?;
        } else if is_text {
            found.push((path.clone(), fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// Whether a command of a text applies every definition: those of other projects too, over what their operators installed.
fn applies_every_definition(text: &str) -> bool {
    let is_at_an_end =
        |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || "/_-.".contains(next));
    let of_folder = [
        "-k deploy/crds",
        "-f deploy/crds",
        "-k deploy/crds/",
        "-f deploy/crds/",
    ];
    let names_folder = |one: &&str| text.split(one).skip(1).any(is_at_an_end);
    of_folder.iter().any(names_folder) || text.contains("numo crds | kubectl")
}

/// Plan and NodeMaintenance are of other projects, and overlays leave them out on purpose: no command of a page brings them back.
#[test]
fn no_documented_command_applies_the_definitions_of_other_projects() -> Result<()> {
    for bad in [
        "kubectl apply -k deploy/crds",
        "`kubectl apply -f deploy/crds/`",
        "numo crds | kubectl apply -f -",
    ] {
        assert!(applies_every_definition(bad), "{bad}");
    }
    for good in [
        "kubectl apply -f deploy/crds/a_b.yaml",
        "numo crds --own | kubectl apply -f -",
    ] {
        assert!(!applies_every_definition(good), "{good}");
    }
    let mut all = vec![("README.md".into(), fs::read_to_string(root().join("README.md"))?)];
    for folder in ["operator", "deploy", "examples"] {
        texts(&root().join(folder), &mut all)?;
    }
    assert!(all.len() > 300, "{}", all.len());
    let found: Vec<_> = all
        .iter()
        .filter(|(_, text)| applies_every_definition(text))
        .collect();
    let found: Vec<_> = found.iter().map(|(path, _)| path).collect();
    assert!(found.is_empty(), "{found:?}");
    Ok(())
}
