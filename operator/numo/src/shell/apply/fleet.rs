//! What is done to machines, by their provider, and to the objects that stand for them. Calls of the provider go out beside one another; what
//! it refuses is kept for the report, and told again after a while.

use super::{
    error::ApplyError,
    object::{by_uid, create, delete, json_patch, keep, params},
    patch::{annotations, test},
};
use crate::{
    frontends::node_version as frontend,
    shell::{
        etcd::Leaver,
        kind::Kind,
        provider::{ANSWERED_SECONDS, Answers, Begun, Call, Provider},
        status,
        store::Store,
        watch,
    },
};
use jiff::Timestamp;
use kube::{Api, Client, api::Patch, core::DynamicObject};
use numo_api::{
    machines::{
        AutoscalingStrategyStatus, PendingNodeSpec, PendingNodeStatus, ScalingGroupSpec, ScalingGroupStatus,
        UPDATE_GROUP, UPDATE_VERSION,
    },
    marks,
};
use numo_core::{
    action::{Change, FleetAction},
    observed::Key,
};
use serde::Serialize;
use serde_json::{Value, json};

/// How soon a call is begun that had no place (seconds).
const FULL_SECONDS: i64 = 1;

/// Carries out one action, and puts the answer into the store. Calls of the provider are begun, and answered later.
pub async fn of_machines(
    client: &Client,
    store: &mut Store,
    (provider, answers): (&Provider, Answers),
    action: &FleetAction,
    now: Timestamp,
) -> Result<(), ApplyError> {
    let call = match action {
        FleetAction::CreateMachine {
            pending, group_id, ..
        } => Call::Create {
            group_id: group_id.clone(),
            request: pending.clone(),
        },
        FleetAction::DeleteMachine { provider_id, .. } => Call::Delete {
            provider_id: provider_id.clone(),
        },
        FleetAction::RemoveEtcdMember { node, address, heir } => {
            Call::RemoveMember(Leaver::of(&store.observed, (node, address), heir.as_deref()))
        }
        FleetAction::SetGroupImage { group_id, image } => {
            store.observed.fleet.provider.tells_image(group_id, image);
            Call::SetImage {
                group_id: group_id.clone(),
                image: image.clone(),
            }
        }
        FleetAction::DeleteNode { node, uid } => return delete_node(client, node, uid).await,
        other => return of_pending(client, store, other, now).await,
    };
    begin(store, provider, call, answers, now)
}

/// Begins a call. Until it is answered nobody is told again.
fn begin(
    store: &mut Store,
    provider: &Provider,
    call: Call,
    answers: Answers,
    now: Timestamp,
) -> Result<(), ApplyError> {
    let what = call.what();
    // Until it is answered, what was refused last is still so: a status that told otherwise would go back and forth.
    let told = store.observed.fleet.provider.told.get(&what);
    let known = told.and_then(|told| told.problem.clone());
    match provider.begin(call, answers) {
        Begun::UnderWay => store.provider_put_off(&what, now, ANSWERED_SECONDS, known),
        Begun::Full => store.provider_put_off(&what, now, FULL_SECONDS, known),
        Begun::Never(problem) => {
            store.provider_refused(&what, now, problem.clone());
            return Err(ApplyError::Stale {
                about: what,
                message: problem,
            });
        }
    }
    Ok(())
}

/// Carries out what is done to PendingNodes and JoiningNodes, or to what is left.
async fn of_pending(
    client: &Client,
    store: &mut Store,
    action: &FleetAction,
    now: Timestamp,
) -> Result<(), ApplyError> {
    match action {
        FleetAction::CreatePendingNode {
            name,
            owner,
            spec,
            turn,
        } => create_pending(client, store, name, (owner, turn.as_deref()), spec).await,
        FleetAction::WritePendingNode {
            name,
            uid,
            resource_version,
            spec,
            annotations,
        } => write_pending(client, store, name, (uid, resource_version), (spec, annotations)).await,
        FleetAction::WritePendingStatus {
            name,
            uid,
            state,
            reached,
        } => {
            let status = PendingNodeStatus {
                csp_state: Some(*state),
                reached_goal: Some(*reached),
            };
            write_status(client, store, Kind::PendingNode, (name, uid), &status).await
        }
        FleetAction::DeletePendingNode { name, uid } => {
            delete_one(client, store, Kind::PendingNode, name, uid).await
        }
        FleetAction::DeleteJoiningNode { name, uid } => {
            delete_one(client, store, Kind::JoiningNode, name, uid).await
        }
        other => of_groups(client, store, other, now).await,
    }
}

/// Carries out what is done to ScalingGroups, or to what is left.
async fn of_groups(
    client: &Client,
    store: &mut Store,
    action: &FleetAction,
    now: Timestamp,
) -> Result<(), ApplyError> {
    match action {
        FleetAction::WriteGroupStatus {
            name,
            uid,
            image,
            is_outdated,
        } => {
            let known = store.observed.fleet.groups.get(name);
            let known = known.map(|known| known.status.conditions.clone());
            let known = known.unwrap_or_default();
            let status = ScalingGroupStatus {
                image_reference: Some(image.clone()),
                conditions: frontend::group_conditions(&known, *is_outdated, now),
            };
            write_status(client, store, Kind::ScalingGroup, (name, uid), &status).await
        }
        FleetAction::CreateGroup { name, spec } => create_group(client, store, name, spec).await,
        FleetAction::NameGroup {
            name,
            uid,
            node_group_name,
        } => {
            let to = json!({"op": "add", "path": "/spec/nodeGroupName", "value": node_group_name});
            edit(client, store, Kind::ScalingGroup, (name, uid), vec![to]).await
        }
        FleetAction::DeleteGroup { name, uid } => {
            delete_one(client, store, Kind::ScalingGroup, name, uid).await
        }
        other => of_autoscalers(client, store, other).await,
    }
}

/// Carries out what is done to cluster autoscalers.
async fn of_autoscalers(client: &Client, store: &mut Store, action: &FleetAction) -> Result<(), ApplyError> {
    match action {
        FleetAction::EnableAutoscaler {
            strategy,
            uid,
            enabled,
        } => {
            let known = store.observed.fleet.strategies.get(strategy);
            if known.is_none_or(|known| known.spec.enabled == *enabled) {
                let about = format!("AutoscalingStrategy {strategy}");
                return Err(refused(&about, "it was edited since this was decided".to_owned()));
            }
            let to = json!({"op": "add", "path": "/spec/enabled", "value": enabled});
            edit(
                client,
                store,
                Kind::AutoscalingStrategy,
                (strategy, uid),
                vec![to],
            )
            .await
        }
        FleetAction::WriteStrategyStatus {
            strategy,
            uid,
            replicas,
        } => {
            let status = AutoscalingStrategyStatus {
                enabled: Some(*replicas > 0),
                replicas: Some(*replicas),
            };
            write_status(client, store, Kind::AutoscalingStrategy, (strategy, uid), &status).await
        }
        FleetAction::SetAutoscaler {
            deployment,
            uid,
            replicas,
            annotations,
            command,
        } => set_autoscaler(client, store, deployment, uid, (*replicas, annotations, command)).await,
        other => Err(refused(other.name(), "nobody carries it out".to_owned())),
    }
}

async fn create_group(
    client: &Client,
    store: &mut Store,
    name: &str,
    spec: &ScalingGroupSpec,
) -> Result<(), ApplyError> {
    let body = json!({
        "apiVersion": format!("{UPDATE_GROUP}/{UPDATE_VERSION}"),
        "kind": "ScalingGroup",
        "metadata": {"name": name},
        "spec": spec,
    });
    create(client, store, Kind::ScalingGroup, &Key::new("", name), body).await
}

/// Deletes a Node. That may take a moment: the watch tells when it is gone.
async fn delete_node(client: &Client, name: &str, uid: &str) -> Result<(), ApplyError> {
    let api: Api<DynamicObject> = watch::api(client, Kind::Node, "");
    match api.delete(name, &by_uid(uid, None)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(ApplyError::of(error, &format!("Node {name}"))),
    }
}

/// What nobody carries out stops what comes after it in its chain.
fn refused(what: &str, message: String) -> ApplyError {
    ApplyError::Stale {
        about: what.to_owned(),
        message,
    }
}

async fn create_pending(
    client: &Client,
    store: &mut Store,
    name: &str,
    ((_, owner_uid), turn): (&(String, String), Option<&str>),
    spec: &PendingNodeSpec,
) -> Result<(), ApplyError> {
    let mut body = json!({
        "apiVersion": format!("{UPDATE_GROUP}/{UPDATE_VERSION}"),
        "kind": "PendingNode",
        "metadata": {"name": name, "annotations": {marks::PENDING_OF: owner_uid}},
        "spec": spec,
    });
    if let Some(turn) = turn {
        body["metadata"]["annotations"][marks::PENDING_FOR] = json!(turn);
    }
    create(client, store, Kind::PendingNode, &Key::new("", name), body).await
}

async fn write_pending(
    client: &Client,
    store: &mut Store,
    name: &str,
    (uid, resource_version): (&str, &str),
    (spec, changes): (&PendingNodeSpec, &[Change]),
) -> Result<(), ApplyError> {
    let known = store.observed.fleet.pending.get(name);
    let has_annotations = known.is_some_and(|known| !known.annotations.is_empty());
    let mut operations = vec![
        test("/metadata/uid", json!(uid)),
        test("/metadata/resourceVersion", json!(resource_version)),
        json!({"op": "add", "path": "/spec", "value": spec}),
    ];
    operations.extend(annotations(changes, has_annotations));
    if known.is_some_and(|known| known.is_owned) {
        operations.push(json!({"op": "remove", "path": "/metadata/ownerReferences"}));
    }
    json_patch(client, store, Kind::PendingNode, &Key::new("", name), operations).await
}

/// Edits fields of one of the kinds that are numo's to write.
async fn edit(
    client: &Client,
    store: &mut Store,
    kind: Kind,
    (name, uid): (&str, &str),
    operations: Vec<Value>,
) -> Result<(), ApplyError> {
    let key = Key::new("", name);
    // People edit these too: what was decided on another version of it is decided again.
    let read = store.number(kind, &key).to_string();
    let mut all = vec![
        test("/metadata/uid", json!(uid)),
        test("/metadata/resourceVersion", json!(read)),
    ];
    all.extend(operations);
    json_patch(client, store, kind, &key, all).await
}

async fn write_status(
    client: &Client,
    store: &mut Store,
    kind: Kind,
    (name, uid): (&str, &str),
    status: &impl Serialize,
) -> Result<(), ApplyError> {
    let key = Key::new("", name);
    let about = format!("{} {name}", kind.resource().2);
    let answer = status::apply(client, kind, &key, uid, status).await;
    let item = answer.map_err(|error| ApplyError::of(error, &about))?;
    if let Ok(object) = item.read(kind) {
        keep(store, kind, &object);
    }
    Ok(())
}

async fn delete_one(
    client: &Client,
    store: &mut Store,
    kind: Kind,
    name: &str,
    uid: &str,
) -> Result<(), ApplyError> {
    let key = Key::new("", name);
    let api: Api<DynamicObject> = watch::api(client, kind, "");
    delete(&api, store, kind, &key, uid, None).await
}

/// A command line: read and wanted.
type Commands = (Vec<String>, Vec<String>);

/// The Deployment is not numo's: what was read is tested.
async fn set_autoscaler(
    client: &Client,
    store: &mut Store,
    deployment: &Key,
    uid: &str,
    (replicas, changes, command): ((i32, i32), &[Change], &Commands),
) -> Result<(), ApplyError> {
    let known = store.observed.fleet.autoscalers.get(deployment);
    let has_annotations = known.is_some_and(|known| !known.annotations.is_empty());
    let mut operations = vec![test("/metadata/uid", json!(uid))];
    operations.extend(annotations(changes, has_annotations));
    if replicas.0 != replicas.1 {
        operations.push(test("/spec/replicas", json!(replicas.0)));
        operations.push(json!({"op": "replace", "path": "/spec/replicas", "value": replicas.1}));
    }
    if command.0 != command.1 {
        let path = "/spec/template/spec/containers/0/command";
        let read = if command.0.is_empty() {
            Value::Null
        } else {
            json!(command.0)
        };
        operations.push(test(path, read));
        operations.push(json!({"op": "add", "path": path, "value": command.1}));
    }
    let about = format!("Deployment {deployment}");
    let patch: Patch<()> = super::patch::patch(operations, &about)?;
    let api: Api<DynamicObject> = watch::api(client, Kind::Autoscaler, &deployment.namespace);
    let answer = api
        .patch(&deployment.name, &params(), &patch)
        .await
        .map_err(|error| ApplyError::of(error, &about))?;
    keep(store, Kind::Autoscaler, &answer);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{store::Seen, watched};
    use kube::client::Body;
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    /// A person edits the same field: what was decided before that is decided again.
    #[tokio::test]
    async fn an_autoscaler_that_was_edited_since_is_not_switched() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = sent.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let kept = kept.clone();
            async move {
                let bytes = request.into_body().collect_bytes().await.unwrap();
                kept.lock()
                    .unwrap()
                    .push(serde_json::from_slice::<Value>(&bytes).unwrap());
                let answer = json!({"kind": "Status", "apiVersion": "v1", "code": 422, "status": "Failure"});
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(http::Response::builder().status(422).body(body).unwrap())
            }
        });
        let client = Client::new(service, "default");
        let mut store = Store::default();
        let kind = Kind::AutoscalingStrategy;
        let see = |store: &mut Store, number: u64, enabled: bool| {
            let found: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "update.edgeless.systems/v1alpha1", "kind": "AutoscalingStrategy",
                "metadata": {"name": "auto", "uid": "u", "resourceVersion": number.to_string()},
                "spec": {"enabled": enabled, "deploymentName": "a", "deploymentNamespace": "kube-system"},
            }))
            .unwrap();
            store.see(Seen::Applied(
                kind,
                number,
                watched::object(kind, &found).unwrap(),
            ));
        };
        let action = FleetAction::EnableAutoscaler {
            strategy: "auto".to_owned(),
            uid: "u".to_owned(),
            enabled: false,
        };
        see(&mut store, 7, true);
        let answer = of_autoscalers(&client, &mut store, &action).await;
        assert!(matches!(answer, Err(ApplyError::Stale { .. })), "{answer:?}");
        let wanted = test("/metadata/resourceVersion", json!("7"));
        assert!(sent.lock().unwrap()[0].as_array().unwrap().contains(&wanted));
        // Somebody has switched it off already.
        see(&mut store, 8, false);
        let answer = of_autoscalers(&client, &mut store, &action).await;
        assert!(matches!(answer, Err(ApplyError::Stale { .. })), "{answer:?}");
        assert_eq!(sent.lock().unwrap().len(), 1, "nothing is sent");
    }
}
