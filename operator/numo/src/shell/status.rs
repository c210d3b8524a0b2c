//! Status writes: server-side apply on the status subresource, only where the status differs.

use super::{
    apply::FIELD_MANAGER,
    client::Connection,
    events::{Events, Published},
    store::Store,
    watch,
    wire::{self, Kind},
};
use crate::frontends;
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams},
    core::DynamicObject,
};
use numo_api::{
    NodeMaintenanceStatus, PlanStatus, Reason,
    conditions::types::{READY, VALID_CONFIG},
};
use numo_core::{
    Owner,
    action::{Event, EventAction},
    observed::Key,
};
use serde::Serialize;
use serde_json::{Value, json};

/// Writes a status, and puts the answer into the store.
pub async fn write(
    connection: &Connection,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    uid: &str,
    status: &impl Serialize,
) -> Result<(), kube::Error> {
    let mut answer = apply(&connection.write, kind, key, uid, status).await;
    if let Ok(object) = &answer
        && let Some(whole) = leftovers(object, status)
    {
        answer = Ok(whole_list(&connection.write, kind, key, &whole).await?);
    }
    keep(store, kind, answer)
}

/// Puts the answer to a status write into the store.
fn keep(
    store: &mut Store,
    kind: Kind,
    answer: Result<DynamicObject, kube::Error>,
) -> Result<(), kube::Error> {
    match answer {
        Ok(object) => {
            let number = wire::version(&object.metadata);
            if let Some(object) = wire::object(kind, object) {
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
fn leftovers(object: &DynamicObject, status: &impl Serialize) -> Option<Value> {
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
async fn whole_list(
    client: &Client,
    kind: Kind,
    key: &Key,
    conditions: &Value,
) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let body = json!({"status": {"conditions": conditions}});
    let api = watch::api(client, kind, &key.namespace);
    api.patch_status(&key.name, &params, &Patch::Merge(body)).await
}

/// Applies a status under the one manager that writes statuses.
pub async fn apply(
    client: &Client,
    kind: Kind,
    key: &Key,
    uid: &str,
    status: &impl Serialize,
) -> Result<DynamicObject, kube::Error> {
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
    let api = watch::api(client, kind, &key.namespace);
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
    let kind = super::apply::kind_of(owner);
    let api = watch::api(&connection.write, kind, "");
    let answer = api
        .patch_status(&owner.key.name, &params, &Patch::Merge(body))
        .await;
    keep(store, kind, answer)
}

/// Writes the status of a Plan whole: what system-upgrade-controller left in it goes too.
pub async fn write_plan(
    connection: &Connection,
    store: &mut Store,
    key: &Key,
    uid: &str,
    status: &PlanStatus,
) -> Result<(), kube::Error> {
    const FIELDS: [&str; 4] = ["conditions", "latestVersion", "latestHash", "applying"];
    let fields = whole(status, &FIELDS);
    let body = json!({"metadata": {"uid": uid}, "status": fields});
    let params = PatchParams {
        field_manager: Some(format!("{FIELD_MANAGER}-status")),
        ..PatchParams::default()
    };
    let api = watch::api(&connection.write, Kind::Plan, &key.namespace);
    let answer = api.patch_status(&key.name, &params, &Patch::Merge(body)).await;
    keep(store, Kind::Plan, answer)
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
    let kind = super::apply::kind_of(owner);
    let api = watch::api(&connection.write, kind, &owner.key.namespace);
    let params = ListParams::default().fields(&format!("metadata.name={}", owner.key.name));
    let found = api.list(&params).await?.items.into_iter().next();
    let Some(found) = found.filter(|found| found.metadata.uid.as_deref() == Some(uid)) else {
        return Ok(());
    };
    let conditions = found.data.pointer("/status/conditions").and_then(Value::as_array);
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
    let answer = api
        .patch_status(&owner.key.name, &params, &Patch::Merge(body))
        .await;
    keep(store, kind, answer)
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

/// Writes the status of every rule, target, budget and binding that differs.
pub async fn others(connection: &Connection, store: &mut Store, events: &Events) {
    let now = connection.clock.now();
    let mut due = Vec::new();
    for (key, rule) in store.rules() {
        let Some(view) = store.observed.rules.get(key) else {
            continue;
        };
        let status = frontends::mutex_rule::status(rule, view, store.examined(key), now);
        if rule.status.as_ref() != Some(&status) {
            let before = rule
                .status
                .as_ref()
                .map(|status| status.conditions.clone())
                .unwrap_or_default();
            due.push((key.clone(), view.uid.clone(), before, status));
        }
    }
    for (key, uid, before, status) in due {
        match write(connection, store, Kind::MutexRule, &key, &uid, &status).await {
            Ok(()) => announce(
                events,
                &About::of("MutexRule"),
                &key,
                &uid,
                (&before, &status.conditions),
            ),
            Err(error) => tracing::warn!(rule = %key, %error, "the status was not written"),
        }
    }
    let mut due = Vec::new();
    for (key, target) in &store.observed.targets {
        let status = frontends::mutex_target::status(target, &store.observed, now);
        if target.status != status {
            due.push((
                key.clone(),
                target.uid.clone(),
                target.status.conditions.clone(),
                status,
            ));
        }
    }
    for (key, uid, before, status) in due {
        match write(connection, store, Kind::MutexTarget, &key, &uid, &status).await {
            Ok(()) => announce(
                events,
                &About::of("MutexTarget"),
                &key,
                &uid,
                (&before, &status.conditions),
            ),
            Err(error) => tracing::warn!(target = %key, %error, "the status was not written"),
        }
    }
    budgets(connection, store).await;
    bindings(connection, store, events).await;
}

/// Writes the status of every binding that differs, and says loudly which ones gate nothing.
async fn bindings(connection: &Connection, store: &mut Store, events: &Events) {
    let now = connection.clock.now();
    let observed = &store.observed;
    let due: Vec<_> = observed
        .bindings
        .iter()
        .map(|(name, view)| (name, view, frontends::mutex_binding::status(view, observed, now)))
        .filter(|(_, view, status)| view.status != *status)
        .map(|(name, view, status)| (Key::new("", name), view.clone(), status))
        .collect();
    for (key, view, status) in due {
        match write(connection, store, Kind::MutexBinding, &key, &view.uid, &status).await {
            Ok(()) => {
                let about = About {
                    api_version: format!("{}/{}", numo_api::NUMO_GROUP, numo_api::VERSION),
                    kind: "MutexBinding",
                    condition: READY,
                };
                let conditions = (view.status.conditions.as_slice(), status.conditions.as_slice());
                announce(events, &about, &key, &view.uid, conditions);
            }
            Err(error) => tracing::warn!(binding = %key, %error, "the status was not written"),
        }
    }
}

/// Writes the status of every budget that differs.
async fn budgets(connection: &Connection, store: &mut Store) {
    let now = connection.clock.now();
    let due: Vec<_> = store
        .observed
        .budgets
        .values()
        .map(|budget| (budget, frontends::mutex_budget::status(budget, now)))
        .filter(|(budget, status)| budget.status != *status)
        .map(|(budget, status)| (Key::new("", &budget.name), budget.uid.clone(), status))
        .collect();
    for (key, uid, status) in due {
        if let Err(error) = write(connection, store, Kind::MutexBudget, &key, &uid, &status).await {
            tracing::warn!(budget = %key, %error, "the status was not written");
        }
    }
}

/// What an event is about, and the condition that it tells of.
struct About {
    api_version: String,
    kind: &'static str,
    condition: &'static str,
}

impl About {
    /// A rule or a target.
    fn of(kind: &'static str) -> Self {
        Self {
            api_version: format!("{}/{}", numo_api::GROUP, numo_api::VERSION),
            kind,
            condition: VALID_CONFIG,
        }
    }
}

/// An event when a rule, target or binding turns invalid.
fn announce(
    events: &Events,
    about: &About,
    key: &Key,
    uid: &str,
    (before, after): (&[numo_api::Condition], &[numo_api::Condition]),
) {
    let of = |list: &[numo_api::Condition]| {
        list.iter()
            .find(|condition| condition.type_ == about.condition)
            .cloned()
    };
    let being_judged = |now: &numo_api::Condition| now.reason.as_deref() == Some(Reason::Validating.name());
    let Some(now) = of(after).filter(|now| now.status == "False" && !being_judged(now)) else {
        return;
    };
    if of(before).is_some_and(|before| before.status == "False" && before.message == now.message) {
        return;
    }
    events.publish(Published {
        api_version: about.api_version.clone(),
        kind: about.kind,
        owner: key.clone(),
        owner_uid: uid.to_owned(),
        pool: None,
        node_uid: None,
        event: Event {
            node: None,
            warning: true,
            reason: "InvalidConfig",
            action: EventAction::EvaluateRule,
            note: now.message.unwrap_or_default(),
        },
    });
}
