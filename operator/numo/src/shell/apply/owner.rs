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
    // A write that comes late, of a leader that was replaced meanwhile, is to put no verdict back.
    let read = Some(store.number(Kind::MutexRunConfig, owner));
    let place = (uid.as_str(), read);
    let answer = crate::shell::status::apply_to(client, Kind::MutexRunConfig, owner, place, &status).await;
    let item = answer.map_err(|error| ApplyError::of(error, &about))?;
    if let Ok(object) = item.read(Kind::MutexRunConfig) {
        keep(store, Kind::MutexRunConfig, &object);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{store::Seen, watched};
    use kube::{client::Body, core::DynamicObject};
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    /// It would put back what that leader knew of the run, with verdicts that no longer stand.
    #[tokio::test]
    async fn a_run_that_a_replaced_leader_records_late_is_refused() {
        let sent = Arc::new(Mutex::new(Value::Null));
        let kept = sent.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let kept = kept.clone();
            async move {
                let bytes = request.into_body().collect_bytes().await.unwrap();
                *kept.lock().unwrap() = serde_json::from_slice(&bytes).unwrap();
                let answer = json!({"kind": "Status", "apiVersion": "v1", "code": 409, "status": "Failure"});
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(http::Response::builder().status(409).body(body).unwrap())
            }
        });
        let mut store = Store::default();
        let found: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig",
            "metadata": {"name": "run", "namespace": "numo", "uid": "u", "resourceVersion": "7"},
            "spec": {"mutexTargets": [{"name": "a"}]},
        }))
        .unwrap();
        let object = watched::object(Kind::MutexRunConfig, &found).unwrap();
        store.see(Seen::Applied(Kind::MutexRunConfig, 7, object));
        let client = Client::new(service, "default");
        let run = numo_api::RunStatus::default();
        let answer = record_run(&client, &mut store, &Key::new("numo", "run"), &run).await;
        assert!(matches!(answer, Err(ApplyError::Stale { .. })), "{answer:?}");
        let sent = sent.lock().unwrap();
        let read = sent.pointer("/metadata/resourceVersion");
        assert_eq!(read, Some(&json!("7")), "what was read is told");
    }
}
