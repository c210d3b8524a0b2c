//! Status writes: one request on the status subresource each. When one is written, and what is told of it, says `planner/settle/`.

use super::{
    client::Connection,
    item::Item,
    kind::{Kind, kind_of},
    project,
    store::Store,
    watch, watched,
};
use crate::frontends;
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams},
};
use numo_api::{NodeMaintenanceStatus, PlanStatus, marks::FIELD_MANAGER};
use numo_core::{Owner, observed::Key};
use serde::Serialize;
use serde_json::{Value, json};
use std::{future::Future, time::Duration};

/// How long a status may take: nothing else is decided meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one may take that is only sent.
const SENT_PATIENCE: Duration = Duration::from_mins(2);

/// What the API server answers to a status that is only sent: nobody waits for it. Who sends it puts the answer into the store: [`keep`].
pub async fn sent(answer: impl Future<Output = Result<Item, kube::Error>>) -> Result<Item, kube::Error> {
    within(SENT_PATIENCE, answer).await
}

/// What the API server answers, if it does so in time.
async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    let in_time = tokio::time::timeout(limit, answer).await;
    in_time.unwrap_or_else(|elapsed| Err(kube::Error::Service(elapsed.into())))
}

/// Writes a status, and puts the answer into the store.
pub async fn write(
    connection: &Connection,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    uid: &str,
    status: &impl Serialize,
) -> Result<(), kube::Error> {
    let answer = put(&connection.write, kind, key, uid, status);
    keep(store, kind, within(PATIENCE, answer).await)
}

/// Writes a status, however long that takes.
pub async fn put(
    client: &Client,
    kind: Kind,
    key: &Key,
    uid: &str,
    status: &impl Serialize,
) -> Result<Item, kube::Error> {
    let item = apply(client, kind, key, uid, status).await?;
    // Of what is too large or too deep the conditions are as they were applied.
    let whole = item.read(kind).ok();
    match whole.and_then(|object| leftovers(&object, status)) {
        Some(whole) => whole_list(client, kind, key, &whole).await,
        None => Ok(item),
    }
}

/// The words of the API server, or of an admission policy, that refuse a status; none of a failure that passes by itself.
pub fn refusal(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    // Too many at once, and a view that is old, are a matter of time.
    let refuses = (400..500).contains(&status.code) && !matches!(status.code, 401 | 404 | 408 | 409 | 429);
    let words = numo_core::rules::clip(&status.message, 512);
    refuses.then(|| format!("({}): {words}", status.code))
}

/// Puts the answer to a status write into the store.
pub fn keep(store: &mut Store, kind: Kind, answer: Result<Item, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Ok(item) => {
            let number = project::version(&item.metadata);
            if let Some(object) = watched::item(kind, &item) {
                store.own_status(kind, number, object);
            }
            Ok(())
        }
        // Gone, or created anew under its name: there is nothing to write to any more.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The conditions as they shall be, if the object still has others: those that the replaced operator wrote
/// belong to it, and no apply of ours takes them away.
fn leftovers(object: &kube::core::DynamicObject, status: &impl Serialize) -> Option<Value> {
    let wanted = serde_json::to_value(status).ok()?.get("conditions").cloned();
    let wanted = wanted.unwrap_or_else(|| json!([]));
    let found = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array)?;
    let is_wanted = |found: &Value| {
        let types = wanted.as_array().into_iter().flatten();
        types.into_iter().any(|one| one.get("type") == found.get("type"))
    };
    (!found.iter().all(is_wanted)).then_some(wanted)
}

/// Replaces the whole list of conditions.
async fn whole_list(client: &Client, kind: Kind, key: &Key, conditions: &Value) -> Result<Item, kube::Error> {
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let body = json!({"status": {"conditions": conditions}});
    let api = watch::items(client, kind, &key.namespace);
    api.patch_status(&key.name, &params, &Patch::Merge(body)).await
}

/// Applies a status under the one manager that writes statuses.
pub async fn apply(
    client: &Client,
    kind: Kind,
    key: &Key,
    uid: &str,
    status: &impl Serialize,
) -> Result<Item, kube::Error> {
    let (group, version, name, _) = kind.resource();
    let body = json!({
        "apiVersion": format!("{group}/{version}"),
        "kind": name,
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
        "status": status,
    });
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        force: true,
        ..PatchParams::default()
    };
    let api = watch::items(client, kind, &key.namespace);
    api.patch_status(&key.name, &params, &Patch::Apply(body)).await
}

/// Writes the status of a NodeMaintenance whole: what node-maintenance-operator left in it goes too.
pub async fn write_maintenance(
    connection: &Connection,
    store: &mut Store,
    owner: &Owner,
    uid: &str,
    status: &NodeMaintenanceStatus,
) -> Result<(), kube::Error> {
    const FIELDS: [&str; 10] = [
        "phase",
        "lastError",
        "pendingPods",
        "pendingPodsRefs",
        "totalpods",
        "evictionPods",
        "drainProgress",
        "errorOnLeaseCount",
        "lastUpdate",
        "conditions",
    ];
    let fields = whole(status, &FIELDS);
    let body = json!({"metadata": {"uid": uid}, "status": fields});
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let kind = kind_of(owner);
    let api = watch::items(&connection.write, kind, "");
    let body = Patch::Merge(body);
    let answer = api.patch_status(&owner.key.name, &params, &body);
    keep(store, kind, within(PATIENCE, answer).await)
}

/// Writes the status of a Plan whole: what system-upgrade-controller left in it goes too.
pub async fn write_plan(
    connection: &Connection,
    store: &mut Store,
    key: &Key,
    uid: &str,
    status: &PlanStatus,
) -> Result<(), kube::Error> {
    let answer = put_plan(&connection.write, key, uid, status);
    keep(store, Kind::Plan, within(PATIENCE, answer).await)
}

/// Writes the status of a Plan as [`write_plan`] does, however long that takes.
pub async fn put_plan(
    client: &Client,
    key: &Key,
    uid: &str,
    status: &PlanStatus,
) -> Result<Item, kube::Error> {
    const FIELDS: [&str; 4] = ["conditions", "latestVersion", "latestHash", "applying"];
    let fields = whole(status, &FIELDS);
    let body = json!({"metadata": {"uid": uid}, "status": fields});
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let api = watch::items(client, Kind::Plan, &key.namespace);
    api.patch_status(&key.name, &params, &Patch::Merge(body)).await
}

/// Says in numo's own conditions, and in nothing else, that an object is left to the operator that numo replaces. An object
/// without them, or whose status changes at the same moment, is left as it is.
pub async fn write_stood_off(
    connection: &Connection,
    store: &mut Store,
    owner: &Owner,
    uid: &str,
    message: &str,
) -> Result<(), kube::Error> {
    let kind = kind_of(owner);
    let api = watch::items(&connection.write, kind, &owner.key.namespace);
    let params = ListParams::default().fields(&format!("metadata.name={}", owner.key.name));
    let listed = within(PATIENCE, api.list(&params)).await?;
    let found = listed.items.into_iter().next();
    let Some(found) = found.filter(|found| found.metadata.uid.as_deref() == Some(uid)) else {
        return Ok(());
    };
    let Ok(object) = found.read(kind) else {
        return Ok(());
    };
    let conditions = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let now = connection.clock.now();
    let Some(conditions) = conditions.and_then(|all| frontends::conditions::stood_off(all, message, now))
    else {
        return Ok(());
    };
    let body = json!({
        "metadata": {"uid": uid, "resourceVersion": found.metadata.resource_version},
        "status": {"conditions": conditions},
    });
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let body = Patch::Merge(body);
    let answer = api.patch_status(&owner.key.name, &params, &body);
    keep(store, kind, within(PATIENCE, answer).await)
}

/// A status in which what is absent is null, so that a merge takes it away.
fn whole(status: &impl Serialize, fields: &[&str]) -> Value {
    let mut whole = serde_json::to_value(status).unwrap_or_default();
    for field in fields {
        if whole.get(*field).is_none() {
            whole[*field] = Value::Null;
        }
    }
    whole
}
