//! Checks that the kind is there by which another operator is to drain the nodes of NodeVersions: without it no node is begun.

use super::finding::Findings;
use crate::shell::{client::Connection, kind::Kind, watch};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt, api::ListParams, core::DynamicObject};
use numo_core::text::first_of;
use serde_json::Value;

/// The definition of that kind.
const DEFINITION: &str = "nodemaintenances.nodemaintenance.medik8s.io";
/// What asks for it.
const ACROSS: &str = "NodeMaintenance";
/// How many that ask for it are named.
const NAMED: usize = 3;

/// Whether it is there, where anybody asks for it.
pub(super) async fn drains(connection: &Connection, found: &mut Findings) {
    let mut asking = Vec::new();
    for kind in [Kind::NodeVersion, Kind::MutexBinding] {
        let (_, _, name, _) = kind.resource();
        match watch::api(&connection.read, kind, "")
            .list(&ListParams::default())
            .await
        {
            Ok(list) => asking.extend(list.items.iter().filter_map(|object| field(kind, name, object))),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return found.unknown(&format!("{name}s"), &error),
        }
    }
    if asking.is_empty() {
        return;
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(connection.read.clone());
    let (_, version, ..) = Kind::NodeMaintenance.resource();
    match definitions.get_opt(DEFINITION).await {
        Ok(Some(definition)) if serves(&definition, version) => {}
        Ok(there) => {
            let lacks = match there {
                Some(_) => format!("CustomResourceDefinition {DEFINITION} does not serve version {version}"),
                None => format!("CustomResourceDefinition {DEFINITION} is not there"),
            };
            let asking = first_of(asking, NAMED);
            found.wrong(
                format!("{asking}: found {ACROSS}, and {lacks}: numo begins no node of theirs"),
                "install node-maintenance-operator with its definition, or set drainBy to Numo",
            );
        }
        Err(error) => found.unknown(&format!("CustomResourceDefinition {DEFINITION}"), &error),
    }
}

/// The field of an object that asks another operator to drain, if it does.
fn field(kind: Kind, name: &str, object: &DynamicObject) -> Option<String> {
    let text = |path: &str| object.data.pointer(path).and_then(Value::as_str);
    let (path, field) = match kind {
        Kind::NodeVersion => ("/spec/mutex/drainBy", "spec.mutex.drainBy"),
        _ if text("/spec/ownerSelector/kind") == Some("NodeVersion") => ("/spec/drainBy", "spec.drainBy"),
        _ => return None,
    };
    let asks = text(path) == Some(ACROSS);
    asks.then(|| format!("{name} {} {field}", object.name_any()))
}

fn serves(definition: &CustomResourceDefinition, version: &str) -> bool {
    let mut versions = definition.spec.versions.iter();
    versions.any(|one| one.name == version && one.served)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_asks_another_operator_to_drain_is_told_by_its_field() {
        let object = |spec: Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap()
        };
        let asks = |kind: Kind, spec: Value| field(kind, kind.resource().2, &object(spec));
        let across = json!({"mutex": {"drainBy": "NodeMaintenance"}});
        assert_eq!(
            asks(Kind::NodeVersion, across).as_deref(),
            Some("NodeVersion x spec.mutex.drainBy")
        );
        for other in [
            json!({}),
            json!({"mutex": {"drainBy": "Numo"}}),
            json!({"drainBy": "NodeMaintenance"}),
        ] {
            assert_eq!(asks(Kind::NodeVersion, other), None);
        }
        let binding = |of: &str| json!({"ownerSelector": {"kind": of}, "drainBy": "NodeMaintenance"});
        assert_eq!(
            asks(Kind::MutexBinding, binding("NodeVersion")).as_deref(),
            Some("MutexBinding x spec.drainBy")
        );
        assert_eq!(asks(Kind::MutexBinding, binding("Plan")), None);
    }
}
