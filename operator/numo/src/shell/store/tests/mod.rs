//! Tests of the store, one file for each part of it, and the objects that they put into it.

mod jobs;
mod lists;
mod places;
mod rules;
mod versions;

use super::*;
use crate::shell::{
    kind::Kind,
    project,
    watched::{self, Object},
};
use jiff::Timestamp;
use numo_core::observed::ConfigView;

fn config(version: &str) -> Object {
    Object::Config(
        "rendered".to_owned(),
        ConfigView {
            version: Some(version.to_owned()),
        },
    )
}

fn version_of(store: &Store) -> Option<String> {
    store
        .observed
        .configs
        .get("rendered")
        .and_then(|config| config.version.clone())
}

/// An object as a list has it.
fn item(kind: Kind, body: &serde_json::Value) -> Object {
    let item: crate::shell::item::Item = serde_json::from_str(&body.to_string()).unwrap();
    watched::item(kind, &item).unwrap()
}

/// A rule of this many small values, which take a hundred times their text.
fn heavy(namespace: &str, name: &str, values: usize, created: i64) -> Object {
    let values = vec![serde_json::json!({"a": 0}); values];
    let spec = serde_json::json!({"phases": ["Post"], "jobSpec": {"a": values}});
    let mut rule = MutexRule::new(name, serde_json::from_value(spec).unwrap());
    rule.metadata.namespace = Some(namespace.to_owned());
    rule.metadata.uid = Some(format!("{namespace}/{name}"));
    let created = Timestamp::from_second(created).unwrap();
    rule.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created));
    Object::Rule(Box::new(rule))
}

/// A store in which eight namespaces take all the room, and the rule team/gate, which is as large as a share, came last.
fn flooded() -> (Store, Key) {
    // 711 bytes of memory each.
    const SHARE: usize = 23_500;
    let mut store = Store::new(Settings {
        namespace: "numo".to_owned(),
        ..Settings::default()
    });
    for number in 0..8 {
        let rule = heavy(&format!("flood-{number}"), "big", SHARE, number);
        store.see(Seen::Applied(Kind::MutexRule, 5, rule));
    }
    store.see(Seen::Applied(
        Kind::MutexRule,
        9,
        heavy("team", "gate", SHARE, 100),
    ));
    (store, Key::new("team", "gate"))
}

/// A rule without anything, or a MutexRunConfig with a selector of this many labels, in this namespace.
fn written(kind: Kind, (namespace, name): (&str, &str), labels: usize) -> Object {
    let labels: BTreeMap<String, String> = (0..labels)
        .map(|at| (format!("label-{at}"), String::new()))
        .collect();
    let spec = match kind {
        Kind::MutexRule => serde_json::json!({}),
        _ => serde_json::json!({"mutexTargets": [{"name": "a"}], "first": {"matchLabels": labels}}),
    };
    let body = serde_json::json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}"), "generation": 1},
        "spec": spec,
    });
    item(kind, &body)
}

fn refused_for(store: &Store, key: &Key) -> Option<numo_api::Reason> {
    match &store.observed.rules[key].validity {
        Validity::Invalid(reason, _) => Some(*reason),
        Validity::Unknown | Validity::Valid => None,
    }
}
