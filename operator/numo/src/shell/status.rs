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
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
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
pub async fn write<S: Serialize + DeserializeOwned>(
    connection: &Connection,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    uid: &str,
    status: &S,
) -> Result<(), kube::Error> {
    let answer = put(&connection.write, kind, key, uid, status);
    keep(store, kind, within(PATIENCE, answer).await)
}

/// Writes a status, however long that takes.
pub async fn put<S: Serialize + DeserializeOwned>(
    client: &Client,
    kind: Kind,
    key: &Key,
    uid: &str,
    status: &S,
) -> Result<Item, kube::Error> {
    let item = apply(client, kind, key, uid, status).await?;
    // Of what is too large or too deep the status is as it was applied.
    let object = item.read(kind).ok();
    match object.and_then(|object| leftovers(object.data.get("status")?, status)) {
        Some(left) => take_away(client, kind, key, uid, left).await,
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

/// What a merge takes away of the status that an object still has once another was applied: what others wrote belongs to them, the replaced
/// operator or whoever restored a copy, and no apply of ours takes it away. It would say for good what is not so, and have each pass write
/// the same status again. What numo does not read is left alone.
fn leftovers<S: Serialize + DeserializeOwned>(found: &Value, status: &S) -> Option<Value> {
    let wanted = serde_json::to_value(status).ok()?;
    let read: S = serde_json::from_value(found.clone()).ok()?;
    too_much(&serde_json::to_value(read).ok()?, &wanted)
}

/// What a merge takes away of a value; a list with too much in it is replaced.
fn too_much(found: &Value, wanted: &Value) -> Option<Value> {
    match (found, wanted) {
        (Value::Null, _) => None,
        (_, Value::Null) => Some(Value::Null),
        (Value::Object(found), Value::Object(wanted)) => {
            let left = found.iter().filter_map(|(name, found)| {
                let wanted = wanted.get(name).unwrap_or(&Value::Null);
                Some((name.clone(), too_much(found, wanted)?))
            });
            let left: Map<String, Value> = left.collect();
            (!left.is_empty()).then_some(Value::Object(left))
        }
        (Value::Array(found), Value::Array(all)) => {
            let mut pairs = found.iter().zip(all);
            let has_more =
                found.len() > all.len() || pairs.any(|(one, other)| too_much(one, other).is_some());
            has_more.then(|| wanted.clone())
        }
        _ => None,
    }
}

/// Takes away of a status what numo does not say.
async fn take_away(
    client: &Client,
    kind: Kind,
    key: &Key,
    uid: &str,
    left: Value,
) -> Result<Item, kube::Error> {
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let body = json!({"metadata": {"uid": uid}, "status": left});
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
    apply_to(client, kind, key, (uid, None), status).await
}

/// The same, of an object that is still of the version that was read, where that is given.
pub async fn apply_to(
    client: &Client,
    kind: Kind,
    key: &Key,
    (uid, read): (&str, Option<u64>),
    status: &impl Serialize,
) -> Result<Item, kube::Error> {
    let (group, version, name, _) = kind.resource();
    let mut body = json!({
        "apiVersion": format!("{group}/{version}"),
        "kind": name,
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
        "status": status,
    });
    if let Some(read) = read {
        body["metadata"]["resourceVersion"] = json!(read.to_string());
    }
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        force: true,
        ..PatchParams::default()
    };
    let api = watch::items(client, kind, &key.namespace);
    api.patch_status(&key.name, &params, &Patch::Apply(body)).await
}

/// Every field of the status of a NodeMaintenance.
const MAINTENANCE_FIELDS: [&str; 12] = [
    "phase",
    "lastError",
    "pendingPods",
    "pendingPodsRefs",
    "totalpods",
    "evictionPods",
    "drainProgress",
    "errorOnLeaseCount",
    "lastUpdate",
    "adopted",
    "approval",
    "conditions",
];

/// Every field of the status of a Plan.
const PLAN_FIELDS: [&str; 5] = [
    "conditions",
    "latestVersion",
    "latestHash",
    "applying",
    "approval",
];

/// Writes the status of a NodeMaintenance whole: what node-maintenance-operator left in it goes too.
pub async fn write_maintenance(
    connection: &Connection,
    store: &mut Store,
    owner: &Owner,
    uid: &str,
    status: &NodeMaintenanceStatus,
) -> Result<(), kube::Error> {
    let fields = whole(status, &MAINTENANCE_FIELDS);
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
    let fields = whole(status, &PLAN_FIELDS);
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

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::{MutexRuleStatus, machines::NodeVersionStatus};
    use std::collections::BTreeSet;

    /// A field that is not named stays for good: a Plan that was approved would say that it waits.
    #[test]
    fn a_status_that_is_written_whole_has_each_field_of_its_kind() {
        let schema = |kind: &str| {
            let crds = numo_api::crds::all();
            let crd = crds.into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
            let schema = crd.spec.versions[0]
                .schema
                .clone()
                .unwrap()
                .open_api_v3_schema
                .unwrap();
            let fields = schema.properties.unwrap()["status"].properties.clone().unwrap();
            fields.into_keys().collect::<BTreeSet<String>>()
        };
        let named = |fields: &[&str]| {
            fields
                .iter()
                .map(|field| (*field).to_owned())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(named(&PLAN_FIELDS), schema("Plan"));
        assert_eq!(named(&MAINTENANCE_FIELDS), schema("NodeMaintenance"));
    }

    #[test]
    fn what_others_left_in_a_status_is_taken_away_and_nothing_else() {
        let condition = json!({"type": "Ready", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "t"});
        let old = json!({"type": "Old", "status": "True"});
        let status: NodeVersionStatus =
            serde_json::from_value(json!({"budget": 1, "conditions": [condition]})).unwrap();
        let left = |found: Value| leftovers(&found, &status);
        // As it was applied, with what numo does not read beside it.
        let mut applied = serde_json::to_value(&status).unwrap();
        applied["unknown"] = json!({"a": 1});
        assert_eq!(left(applied.clone()), None);
        applied["donors"] = json!([{"name": "node-a"}]);
        applied["approval"] = json!({"waits": "w", "reason": "r", "digest": "d", "since": "s"});
        applied["conditions"] = json!([condition, old]);
        let wanted = serde_json::to_value(&status).unwrap();
        let taken = left(applied).unwrap();
        assert_eq!(taken["approval"], Value::Null);
        assert_eq!(taken["conditions"], wanted["conditions"]);
        assert!(taken.as_object().unwrap().contains_key("donors"), "{taken}");
        assert!(
            taken.get("budget").is_none() && taken.get("unknown").is_none(),
            "{taken}"
        );
    }

    #[test]
    fn what_others_left_deeper_in_a_status_is_taken_away() {
        let status: MutexRuleStatus = serde_json::from_value(json!({"wasm": {"image": "a"}})).unwrap();
        let mut found = serde_json::to_value(&status).unwrap();
        assert_eq!(leftovers(&found, &status), None);
        found["wasm"]["signer"] = json!("nobody");
        let taken = leftovers(&found, &status).unwrap();
        assert_eq!(taken, json!({"wasm": {"signer": null}}));
    }
}
