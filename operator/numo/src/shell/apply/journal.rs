//! Writes of NodeChanges, the journals of nodes.

use super::{
    error::ApplyError,
    object::{by_uid, create, delete, dynamic, failed, keep, post},
};
use crate::shell::{kind::Kind, store::Store, watch};
use kube::Client;
use numo_api::marks;
use numo_core::observed::Key;
use serde_json::{Value, json};

/// Replaces the status of a NodeChange that is still of the version that was read.
pub(super) async fn write_journal(
    client: &Client,
    store: &mut Store,
    key: &Key,
    (uid, resource_version): (&str, &str),
    status: &numo_api::NodeChangeStatus,
) -> Result<(), ApplyError> {
    let body = json!({
        "apiVersion": format!("{}/{}", numo_api::NUMO_GROUP, numo_api::VERSION),
        "kind": "NodeChange",
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid, "resourceVersion": resource_version},
        "spec": store.observed.changes.get(key).map(|change| &change.spec),
        "status": status,
    });
    let about = format!("NodeChange {key}");
    let object = dynamic(body, &about)?;
    let api = watch::api(client, Kind::NodeChange, &key.namespace);
    let answer = api.replace_status(&key.name, &post(), &object).await;
    let object = answer.map_err(|error| failed(store, (Kind::NodeChange, key), error, &about))?;
    let kept = object.data.pointer("/status/ruleWaits").is_some();
    if !status.rule_waits.is_empty() && !kept && !store.observed.forgets_waits {
        tracing::warn!(
            "the CRD of NodeChange is of an older numo: run `numo crds --own | kubectl apply --server-side -f -`. Until then timeouts of rules begin again with \
             each restart"
        );
    }
    store.observed.forgets_waits = !status.rule_waits.is_empty() && !kept;
    keep(store, Kind::NodeChange, &object);
    Ok(())
}

/// Deletes a NodeChange that is still of the version that was read.
pub(super) async fn delete_change(
    client: &Client,
    store: &mut Store,
    key: &Key,
    (uid, resource_version): (&str, &String),
) -> Result<(), ApplyError> {
    let api = watch::api(client, Kind::NodeChange, &key.namespace);
    delete(&api, store, Kind::NodeChange, key, uid, Some(resource_version)).await
}

pub(super) async fn create_change(
    client: &Client,
    store: &mut Store,
    key: &Key,
    spec: &numo_api::NodeChangeSpec,
) -> Result<(), ApplyError> {
    let mut body = change_body(key, spec);
    body["metadata"]["annotations"] = json!({ marks::TURN: "" });
    create(client, store, Kind::NodeChange, key, body).await
}

/// Deletes a NodeChange whose owner is gone. That it is gone itself the watch tells.
pub async fn delete_unowned(client: &Client, key: &Key, uid: &str) -> Result<(), ApplyError> {
    let api = watch::api(client, Kind::NodeChange, &key.namespace);
    match api.delete(&key.name, &by_uid(uid, None)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(ApplyError::of(error, &format!("NodeChange {key}"))),
    }
}

/// A NodeChange as it is created. It has no owner reference (`numo_core::ownerless`).
pub fn change_body(key: &Key, spec: &numo_api::NodeChangeSpec) -> Value {
    let owner = &spec.owner_ref;
    json!({
        "apiVersion": format!("{}/{}", numo_api::NUMO_GROUP, numo_api::VERSION),
        "kind": "NodeChange",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {
                marks::CHANGE_NODE: numo_core::names::node_hash(&spec.node_name),
                marks::CHANGE_OWNER: owner.uid,
            },
        },
        "spec": spec,
    })
}
