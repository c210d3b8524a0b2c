//! Writes to the owners: finalizers, the mark of a gate, and the run in the status of a MutexRunConfig. No other file writes to them,
//! but `status.rs`, which writes the rest of their status.

use super::{
    error::ApplyError,
    object::{json_patch, keep},
    patch::{annotations, test},
};
use crate::shell::{
    kind::{Kind, kind_of},
    store::Store,
};
use jiff::Timestamp;
use kube::Client;
use numo_core::{Owner, action::Change, finalizer, observed::Key};
use serde_json::{Value, json};

/// Adds a finalizer to an owner; where it has none yet, the list of them is made. How often that was is noted, as somebody may take it off
/// each time.
pub(super) async fn add_finalizer(
    client: &Client,
    store: &mut Store,
    owner: &Owner,
    (uid, finalizer): (&str, &str),
    now: Timestamp,
) -> Result<(), ApplyError> {
    let has = has_finalizers(store, owner);
    let add = if has {
        json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizer})
    } else {
        json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizer]})
    };
    let mut operations = vec![test("/metadata/uid", json!(uid))];
    if !has {
        operations.push(test("/metadata/finalizers", Value::Null));
    }
    operations.push(add);
    json_patch(client, store, kind_of(owner), &owner.key, operations).await?;
    finalizer::note(&mut store.observed.finalizers, uid, now);
    Ok(())
}

/// Removes a finalizer from an owner, at the index where it was read.
pub(super) async fn remove_finalizer(
    client: &Client,
    store: &mut Store,
    owner: &Owner,
    uid: &str,
    (finalizer, index): (&str, usize),
) -> Result<(), ApplyError> {
    let path = format!("/metadata/finalizers/{index}");
    let operations = vec![
        test("/metadata/uid", json!(uid)),
        test(&path, json!(finalizer)),
        json!({"op": "remove", "path": path}),
    ];
    json_patch(client, store, kind_of(owner), &owner.key, operations).await?;
    store.observed.finalizers.remove(uid);
    Ok(())
}

/// Remembers on an owner which gate it has.
pub(super) async fn mark_gate(
    client: &Client,
    store: &mut Store,
    owner: &Owner,
    uid: &str,
    (change, has_annotations): (&Change, bool),
) -> Result<(), ApplyError> {
    let mut operations = vec![test("/metadata/uid", json!(uid))];
    operations.extend(annotations(std::slice::from_ref(change), has_annotations));
    json_patch(client, store, kind_of(owner), &owner.key, operations).await
}

fn has_finalizers(store: &Store, owner: &Owner) -> bool {
    let view = store.observed.owner(owner);
    view.is_some_and(|view| !view.finalizers.is_empty())
}

/// Writes the run into the status, by the one manager that writes statuses: a field with two managers would
/// outlive the run it belongs to.
pub(super) async fn record_run(
    client: &Client,
    store: &mut Store,
    owner: &Key,
    run: &numo_api::RunStatus,
) -> Result<(), ApplyError> {
    let about = format!("MutexRunConfig {owner}");
    let Some(known) = store.observed.runs.get(owner) else {
        return Err(ApplyError::Gone { about });
    };
    let status = numo_api::MutexRunConfigStatus {
        run: Some(run.clone()),
        ..known.status.clone()
    };
    let uid = known.uid.clone();
    let answer = crate::shell::status::apply(client, Kind::MutexRunConfig, owner, &uid, &status).await;
    let item = answer.map_err(|error| ApplyError::of(error, &about))?;
    if let Ok(object) = item.read(Kind::MutexRunConfig) {
        keep(store, Kind::MutexRunConfig, &object);
    }
    Ok(())
}
