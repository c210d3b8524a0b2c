//! Actions become requests, one each. Every change of an object that is not ours is a JSON Patch that
//! tests the uid and each field that was read: a write that was decided on an old view fails, whoever
//! sends it (invariant 9). Nothing is decided here.

use super::{
    kind::{Kind, kind_of},
    store::Store,
    watch,
    watched::{
        self,
        node::{self, SlimNode},
    },
    wire,
};
use crate::runners;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams, Preconditions},
    core::{DynamicObject, Status},
};
use numo_api::marks;
use numo_core::{
    Owner, OwnerKind,
    action::{Action, Change, JobRequest, MachinePatch, NodePatch, PlanJobRequest, PoolPatch},
    decide::LEASE_SECONDS,
    drain::Eviction,
    observed::{Key, MachineApi, Said},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub use numo_api::marks::FIELD_MANAGER;

/// Why a write did not happen, by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// What was read is no longer so; the next pass sees it as it is.
    #[error("{about}: what was read has changed ({message})")]
    Stale {
        /// The object.
        about: String,
        /// The API server's words.
        message: String,
    },
    /// The object is gone.
    #[error("{about} is gone")]
    Gone {
        /// The object.
        about: String,
    },
    /// The API server refuses the content or the right to write it; a user must hear of it.
    #[error("{about}: refused ({code}): {message}")]
    Refused {
        /// The object.
        about: String,
        /// HTTP status code.
        code: u16,
        /// The API server's words.
        message: String,
    },
    /// The API server could not be reached, or failed; to be tried again.
    #[error("{about}: {source}")]
    Unreachable {
        /// The object.
        about: String,
        /// What happened.
        #[source]
        source: kube::Error,
    },
}

impl ApplyError {
    fn of(error: kube::Error, about: &str) -> Self {
        let about = about.to_owned();
        match error {
            kube::Error::Api(status) => match status.code {
                // A failed `test` of a JSON Patch is 422 without a cause; what is invalid names its fields.
                409 => Self::Stale {
                    about,
                    message: status.message,
                },
                422 if status
                    .details
                    .as_ref()
                    .is_none_or(|details| details.causes.is_empty()) =>
                {
                    Self::Stale {
                        about,
                        message: status.message,
                    }
                }
                404 => Self::Gone { about },
                // A webhook that must answer and does not is as good as one that refuses, and a person's to mend.
                500 if status.message.contains("failed calling webhook") => Self::Refused {
                    about,
                    code: 500,
                    message: status.message,
                },
                429 | 500..=599 => Self::Unreachable {
                    about,
                    source: kube::Error::Api(status),
                },
                code => Self::Refused {
                    about,
                    code,
                    message: status.message,
                },
            },
            source => Self::Unreachable { about, source },
        }
    }
}

/// Carries out one action, and puts the answer into the store.
pub async fn apply(
    client: &Client,
    store: &mut Store,
    action: &Action,
    now: Timestamp,
) -> Result<(), ApplyError> {
    match action {
        Action::PatchNode(patch) => patch_node(client, store, patch).await,
        Action::PatchPool(patch) => patch_pool(client, store, patch).await,
        Action::PatchMachine(patch) => patch_machine(client, store, patch).await,
        Action::AddFinalizer {
            owner,
            uid,
            finalizer,
        } => {
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
            json_patch(client, store, kind_of(owner), &owner.key, operations).await
        }
        Action::RemoveFinalizer {
            owner,
            uid,
            finalizer,
            index,
        } => {
            let path = format!("/metadata/finalizers/{index}");
            let operations = vec![
                test("/metadata/uid", json!(uid)),
                test(&path, json!(finalizer)),
                json!({"op": "remove", "path": path}),
            ];
            json_patch(client, store, kind_of(owner), &owner.key, operations).await
        }
        Action::CreateChange { key, spec } => create_change(client, store, key, spec).await,
        Action::WriteJournal {
            key,
            uid,
            resource_version,
            status,
        } => {
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
            let answer = api
                .replace_status(
                    &key.name,
                    &PostParams {
                        field_manager: Some(FIELD_MANAGER.to_owned()),
                        ..PostParams::default()
                    },
                    &object,
                )
                .await;
            let object = answer.map_err(|error| ApplyError::of(error, &about))?;
            let kept = object.data.pointer("/status/ruleWaits").is_some();
            if !status.rule_waits.is_empty() && !kept && !store.observed.forgets_waits {
                tracing::warn!(
                    "the CRD of NodeChange is of an older numo: apply deploy/crds; timeouts of rules begin anew with each restart"
                );
            }
            store.observed.forgets_waits = !status.rule_waits.is_empty() && !kept;
            keep(store, Kind::NodeChange, &object);
            Ok(())
        }
        Action::DeleteChange {
            key,
            uid,
            resource_version,
        } => {
            let api = watch::api(client, Kind::NodeChange, &key.namespace);
            delete(&api, store, Kind::NodeChange, key, uid, Some(resource_version)).await
        }
        Action::Evict { node, eviction } => {
            let said = evict(client, eviction).await;
            store.evicted(node, eviction, said, now);
            Ok(())
        }
        Action::RecordRun { owner, run } => record_run(client, store, owner, run).await,
        Action::CreateJob(request) => create_job(client, store, request).await,
        Action::CreatePlanJob(request) => create_plan_job(client, store, request).await,
        Action::StartPlanJob { job, uid } => {
            let operations = vec![
                test("/metadata/uid", json!(uid)),
                test("/spec/parallelism", json!(0)),
                json!({"op": "replace", "path": "/spec/parallelism", "value": 1}),
            ];
            json_patch(client, store, Kind::PlanJob, job, operations).await
        }
        Action::DeletePlanJob { job, uid } => {
            let about = format!("Job {job}");
            let api = watch::api(client, Kind::PlanJob, &job.namespace);
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: None,
                }),
                ..DeleteParams::background()
            };
            // Its pods go first: the Job controller's finalizers keep them, and the watch tells when it is gone.
            match api.delete(&job.name, &params).await {
                Ok(answer) => {
                    match answer
                        .left()
                        .filter(|left| left.metadata.deletion_timestamp.is_some())
                    {
                        Some(object) => keep(store, Kind::PlanJob, &object),
                        None => store.own_deletion(Kind::PlanJob, job),
                    }
                    Ok(())
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    store.own_deletion(Kind::PlanJob, job);
                    Ok(())
                }
                Err(error) => Err(ApplyError::of(error, &about)),
            }
        }
        Action::MarkGate {
            plan,
            uid,
            change,
            has_annotations,
        } => {
            let mut operations = vec![test("/metadata/uid", json!(uid))];
            operations.extend(annotations(std::slice::from_ref(change), *has_annotations));
            json_patch(client, store, Kind::Plan, plan, operations).await
        }
        Action::SetJobTtl { job, uid, seconds } => {
            let operations = vec![
                test("/metadata/uid", json!(uid)),
                json!({"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": seconds}),
            ];
            json_patch(client, store, Kind::Job, job, operations).await
        }
        Action::AcquireLease {
            node,
            node_uid,
            holder,
            over,
            since,
        } => {
            let times = (now, Some(*since));
            acquire_lease(client, store, (node, node_uid), holder, over.as_ref(), times).await
        }
        Action::RenewLease {
            node,
            holder,
            resource_version,
        } => {
            let uid = store
                .observed
                .leases
                .get(node)
                .map(|lease| lease.uid.clone())
                .unwrap_or_default();
            let read = (uid.as_str(), resource_version.as_str());
            replace_lease(client, store, node, holder, read, (now, None)).await
        }
        Action::ReleaseLease { node, uid } => {
            let api = watch::api(client, Kind::Lease, marks::LEASE_NAMESPACE);
            let key = Key::new(marks::LEASE_NAMESPACE, format!("node-{node}"));
            let read = store
                .observed
                .leases
                .get(node)
                .map(|lease| lease.resource_version.clone());
            delete(&api, store, Kind::Lease, &key, uid, read.as_ref()).await
        }
    }
}

fn has_finalizers(store: &Store, owner: &Owner) -> bool {
    let observed = &store.observed;
    match owner.kind {
        OwnerKind::MutexRunConfig => observed
            .runs
            .get(&owner.key)
            .is_some_and(|run| !run.finalizers.is_empty()),
        OwnerKind::NodeMaintenance(_) => observed
            .maintenances
            .get(owner)
            .is_some_and(|view| !view.finalizers.is_empty()),
        OwnerKind::Plan => observed
            .plans
            .get(&owner.key)
            .is_some_and(|view| !view.finalizers.is_empty()),
    }
}

/// Asks a pod to go, once, and says what came of it. Whatever it is, the pod is never deleted for it.
pub async fn evict(client: &Client, eviction: &Eviction) -> Said {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &eviction.pod.namespace);
    let params = DeleteParams {
        grace_period_seconds: eviction
            .grace_period_seconds
            .and_then(|seconds| u32::try_from(seconds).ok()),
        preconditions: Some(Preconditions {
            uid: Some(eviction.uid.clone()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let name = &eviction.pod.name;
    let answer = if eviction.delete {
        pods.delete(name, &params).await.map(|_| ())
    } else {
        let params = EvictParams {
            delete_options: Some(params),
            ..EvictParams::default()
        };
        pods.evict(name, &params).await.map(|_| ())
    };
    match answer {
        Ok(()) => Said::Accepted,
        Err(kube::Error::Api(status)) => what_was_said(&status),
        Err(error) => Said::Busy(error.to_string()),
    }
}

/// What an answer to an eviction means. A PodDisruptionBudget is known by its cause; KubeVirt's webhook by its words,
/// which its users' tools rely on too.
pub fn what_was_said(status: &Status) -> Said {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let cause = |reason: &str| causes.clone().find(|cause| cause.reason == reason);
    let message = status.message.clone();
    match status.code {
        // Gone, or another pod by now: the watch tells.
        404 | 409 => Said::Accepted,
        429 => match cause("DisruptionBudget") {
            Some(cause) if cause.message.is_empty() => Said::Budget(message),
            Some(cause) => Said::Budget(format!("{message} {}", cause.message)),
            None if message.contains("not live-migratable") => Said::NotMigratable(message),
            None if message.to_lowercase().contains("evacuation") || message.contains("hotplug") => {
                Said::Migrating(message)
            }
            None => Said::Busy(message),
        },
        403 if cause("NamespaceTerminating").is_some() => Said::NamespaceTerminating,
        500 if message.contains("more than one PodDisruptionBudget") => Said::Refused(message),
        500..=599 => Said::Busy(message),
        _ => Said::Refused(message),
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn post() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "every caller makes the value for this call"
)]
fn test(path: &str, value: Value) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

fn dynamic(body: Value, about: &str) -> Result<DynamicObject, ApplyError> {
    serde_json::from_value(body).map_err(|error| ApplyError::Refused {
        about: about.to_owned(),
        code: 0,
        message: format!("it cannot be rendered: {error}"),
    })
}

fn keep(store: &mut Store, kind: Kind, object: &DynamicObject) {
    let number = wire::version(&object.metadata);
    if let Some(object) = watched::object(kind, object) {
        store.own(kind, number, object);
    }
}

/// A key inside a JSON Pointer (RFC 6901).
fn pointer(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Tests what was read, then writes what is wanted. A test for null holds for an absent field.
fn operations(parent: &str, change: &Change) -> Vec<Value> {
    let path = pointer(parent, &change.key);
    let mut operations = vec![test(&path, json!(change.from))];
    match (&change.from, &change.to) {
        (from, to) if from == to => {}
        (_, Some(to)) => operations.push(json!({"op": "add", "path": path, "value": to})),
        (Some(_), None) => operations.push(json!({"op": "remove", "path": path})),
        (None, None) => {}
    }
    operations
}

async fn json_patch(
    client: &Client,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    operations: Vec<Value>,
) -> Result<(), ApplyError> {
    let about = format!("{} {key}", kind.resource().2);
    let patch = patch(operations, &about)?;
    let api = watch::api(client, kind, &key.namespace);
    let answer = api
        .patch(&key.name, &params(), &patch)
        .await
        .map_err(|error| ApplyError::of(error, &about))?;
    if answer.metadata.deletion_timestamp.is_some()
        && answer.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
    {
        store.own_deletion(kind, key);
    } else {
        keep(store, kind, &answer);
    }
    Ok(())
}

fn patch(operations: Vec<Value>, about: &str) -> Result<Patch<()>, ApplyError> {
    serde_json::from_value(Value::Array(operations))
        .map(Patch::Json)
        .map_err(|error| ApplyError::Refused {
            about: about.to_owned(),
            code: 0,
            message: format!("the patch cannot be rendered: {error}"),
        })
}

/// Writes the run into the status, by the one manager that writes statuses: a field with two managers would
/// outlive the run it belongs to.
async fn record_run(
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
    let answer = super::status::apply(client, Kind::MutexRunConfig, owner, &uid, &status).await;
    let item = answer.map_err(|error| ApplyError::of(error, &about))?;
    if let Ok(object) = item.read(Kind::MutexRunConfig) {
        keep(store, Kind::MutexRunConfig, &object);
    }
    Ok(())
}

async fn patch_node(client: &Client, store: &mut Store, wanted: &NodePatch) -> Result<(), ApplyError> {
    let about = format!("Node {}", wanted.node);
    let mut list = vec![test("/metadata/uid", json!(wanted.uid))];
    list.extend(changes_of("/metadata/labels", &wanted.labels, wanted.has_labels));
    list.extend(annotations(&wanted.annotations, wanted.has_annotations));
    if let Some(is) = wanted.while_unschedulable {
        // The field is absent on a schedulable node: the API server drops a false one.
        let found = if is { json!(true) } else { Value::Null };
        list.push(test("/spec/unschedulable", found));
    }
    if let Some((from, to)) = &wanted.taints {
        list.push(test("/spec/taints", from.clone()));
        list.push(if to.is_null() {
            json!({"op": "remove", "path": "/spec/taints"})
        } else {
            json!({"op": "add", "path": "/spec/taints", "value": to})
        });
    }
    if let Some(unschedulable) = wanted.unschedulable {
        list.push(json!({"op": "add", "path": "/spec/unschedulable", "value": unschedulable}));
    }
    let api: Api<SlimNode> = Api::all(client.clone());
    let body = patch(list, &about)?;
    let node = api
        .patch(&wanted.node, &params(), &body)
        .await
        .map_err(|error| ApplyError::of(error, &about))?;
    let number = wire::version(kube::Resource::meta(&node));
    store.own(Kind::Node, number, node::node_object(node));
    Ok(())
}

async fn patch_pool(client: &Client, store: &mut Store, wanted: &PoolPatch) -> Result<(), ApplyError> {
    let mut list = vec![test("/metadata/uid", json!(wanted.uid))];
    if let Some((from, to)) = wanted.paused {
        if from {
            list.push(test("/spec/paused", json!(true)));
        } else if to {
            // Absent and false are one to the MCO and two to a test: the whole object must be as it was
            // read, or a person's pause of this very moment would be taken for ours.
            let number = store.number(Kind::MachineConfigPool, &Key::new("", &wanted.pool));
            list.push(test("/metadata/resourceVersion", json!(number.to_string())));
        }
        if from != to {
            list.push(json!({"op": "add", "path": "/spec/paused", "value": to}));
        }
    }
    if let Some(config) = &wanted.config {
        list.push(test("/spec/configuration/name", json!(config)));
    }
    if let Some((from, to)) = &wanted.selector {
        list.push(test("/spec/nodeSelector", from.clone()));
        list.push(json!({"op": "add", "path": "/spec/nodeSelector", "value": to}));
    }
    list.extend(annotations(
        std::slice::from_ref(&wanted.annotation),
        wanted.has_annotations,
    ));
    json_patch(
        client,
        store,
        Kind::MachineConfigPool,
        &Key::new("", &wanted.pool),
        list,
    )
    .await
}

async fn patch_machine(client: &Client, store: &mut Store, wanted: &MachinePatch) -> Result<(), ApplyError> {
    let kind = match (wanted.api, wanted.purpose.is_of_health_check()) {
        (MachineApi::OpenShift, false) => Kind::OpenShiftMachine,
        (MachineApi::OpenShift, true) => Kind::OpenShiftHealthCheck,
        (MachineApi::ClusterApi, false) => Kind::ClusterApiMachine,
        (MachineApi::ClusterApi, true) => Kind::ClusterApiHealthCheck,
    };
    let mut list = vec![test("/metadata/uid", json!(wanted.uid))];
    list.extend(annotations(&wanted.annotations, wanted.has_annotations));
    json_patch(client, store, kind, &wanted.key, list).await
}

/// Changes of annotations.
fn annotations(changes: &[Change], has_annotations: bool) -> Vec<Value> {
    changes_of("/metadata/annotations", changes, has_annotations)
}

/// Changes of a map; where the object has no such map yet, the whole map is made: nothing can be added to, nor taken
/// from, what is not there. Whoever made one meanwhile is not overwritten.
fn changes_of(parent: &str, changes: &[Change], is_there: bool) -> Vec<Value> {
    // What was read in a map that is not there is outdated: its tests fail, as they must.
    if is_there || changes.iter().any(|change| change.from.is_some()) {
        return changes
            .iter()
            .flat_map(|change| operations(parent, change))
            .collect();
    }
    if changes.is_empty() {
        return Vec::new();
    }
    let map: BTreeMap<&String, &String> = changes
        .iter()
        .filter_map(|change| Some((&change.key, change.to.as_ref()?)))
        .collect();
    let mut list = vec![test(parent, Value::Null)];
    if !map.is_empty() {
        list.push(json!({"op": "add", "path": parent, "value": map}));
    }
    list
}

async fn create_change(
    client: &Client,
    store: &mut Store,
    key: &Key,
    spec: &numo_api::NodeChangeSpec,
) -> Result<(), ApplyError> {
    let mut body = change_body(key, spec);
    body["metadata"]["annotations"] = json!({ marks::TURN: "" });
    create(client, store, Kind::NodeChange, key, body).await
}

/// A NodeChange as it is created.
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
            "ownerReferences": [{
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": spec,
    })
}

/// Creates an object; one that exists already under this name is adopted, because names are
/// deterministic.
async fn create(
    client: &Client,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    body: Value,
) -> Result<(), ApplyError> {
    let about = format!("{} {key}", kind.resource().2);
    let object = dynamic(body, &about)?;
    let api = watch::api(client, kind, &key.namespace);
    let answer = match api.create(&post(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
            let found = api
                .get(&key.name)
                .await
                .map_err(|error| ApplyError::of(error, &about))?;
            adoptable(&object, &found, &about)?;
            Ok(found)
        }
        // What does not exist yet cannot be gone: its kind is not served, or there is no such namespace.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(ApplyError::Refused {
                about,
                code: status.code,
                message: status.message,
            });
        }
        other => other,
    };
    keep(
        store,
        kind,
        &answer.map_err(|error| ApplyError::of(error, &about))?,
    );
    Ok(())
}

/// What exists under our name is adopted only if it is what we would have made, and stays.
fn adoptable(wanted: &DynamicObject, found: &DynamicObject, about: &str) -> Result<(), ApplyError> {
    if found.metadata.deletion_timestamp.is_some() {
        return Err(ApplyError::Stale {
            about: about.to_owned(),
            message: "an object of this name is being deleted".to_owned(),
        });
    }
    let labels = |object: &DynamicObject| object.metadata.labels.clone().unwrap_or_default();
    let rule = |object: &DynamicObject| {
        let annotations = object.metadata.annotations.as_ref();
        annotations
            .and_then(|annotations| annotations.get(marks::JOB_RULE))
            .cloned()
    };
    let theirs = labels(found);
    let same = labels(wanted)
        .iter()
        .all(|(key, value)| theirs.get(key) == Some(value));
    if same && rule(wanted) == rule(found) {
        return Ok(());
    }
    Err(ApplyError::Refused {
        about: about.to_owned(),
        code: 409,
        message: "found an object of this name that numo did not make, wanted none; delete it".to_owned(),
    })
}

async fn create_job(client: &Client, store: &mut Store, request: &JobRequest) -> Result<(), ApplyError> {
    let about = format!("Job {}", request.job);
    let rule = store.whole_rule(&request.rule).ok_or_else(|| ApplyError::Gone {
        about: format!("MutexRule {}", request.rule),
    })?;
    let body = runners::job::render(rule, request).map_err(|message| ApplyError::Refused {
        about: about.clone(),
        code: 422,
        message,
    })?;
    create(client, store, Kind::Job, &request.job, body).await
}

async fn create_plan_job(
    client: &Client,
    store: &mut Store,
    request: &PlanJobRequest,
) -> Result<(), ApplyError> {
    let view = store
        .observed
        .plans
        .get(&request.plan)
        .ok_or_else(|| ApplyError::Gone {
            about: format!("Plan {}", request.plan),
        })?;
    let body = runners::plan_job::render(view, request, &store.observed.settings.plan_jobs);
    create(client, store, Kind::PlanJob, &request.job, body).await
}

fn micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn lease_spec(holder: &str, (now, since): (Timestamp, Option<Timestamp>), transitions: Option<i64>) -> Value {
    // Five seconds back: a reader whose clock is a little behind must not see a lease from the future. It does not begin
    // before what it is taken for: readers compare the two.
    let back = now - SignedDuration::from_secs(5);
    let at = micro(since.map_or(back, |since| back.max(since.min(now))));
    let mut spec = json!({"holderIdentity": holder, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": at});
    if let Some(transitions) = transitions {
        spec["acquireTime"] = json!(at);
        spec["leaseTransitions"] = json!(transitions);
    }
    spec
}

async fn acquire_lease(
    client: &Client,
    store: &mut Store,
    (node, node_uid): (&str, &str),
    holder: &str,
    over: Option<&(String, String)>,
    times: (Timestamp, Option<Timestamp>),
) -> Result<(), ApplyError> {
    if let Some((uid, resource_version)) = over {
        return replace_lease(client, store, node, holder, (uid, resource_version), times).await;
    }
    let key = Key::new(marks::LEASE_NAMESPACE, format!("node-{node}"));
    let body = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}],
        },
        "spec": lease_spec(holder, times, Some(0)),
    });
    let about = format!("Lease {key}");
    match create(client, store, Kind::Lease, &key, body).await {
        // Without the namespace or the right there are no node leases here; that is said once and
        // stops nothing.
        Err(ApplyError::Gone { .. } | ApplyError::Refused { code: 403 | 404, .. }) => {
            let why = format!(
                "{about}: the namespace {} or the right to it is missing",
                marks::LEASE_NAMESPACE
            );
            store.observed.settings.leases_unavailable = Some(why);
            Ok(())
        }
        other => other,
    }
}

/// Takes over an expired lease, or renews ours: only what says whose it is and until when changes.
async fn replace_lease(
    client: &Client,
    store: &mut Store,
    node: &str,
    holder: &str,
    (uid, resource_version): (&str, &str),
    times: (Timestamp, Option<Timestamp>),
) -> Result<(), ApplyError> {
    let key = Key::new(marks::LEASE_NAMESPACE, format!("node-{node}"));
    let taken_over = store
        .observed
        .leases
        .get(node)
        .filter(|lease| lease.holder != holder)
        .map(|lease| lease.transitions + 1);
    let mut operations = vec![
        test("/metadata/uid", json!(uid)),
        test("/metadata/resourceVersion", json!(resource_version)),
    ];
    if let Value::Object(fields) = lease_spec(holder, times, taken_over) {
        operations.extend(
            fields
                .into_iter()
                .map(|(field, value)| json!({"op": "add", "path": pointer("/spec", &field), "value": value})),
        );
    }
    json_patch(client, store, Kind::Lease, &key, operations).await
}

async fn delete(
    api: &Api<DynamicObject>,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    uid: &str,
    resource_version: Option<&String>,
) -> Result<(), ApplyError> {
    let preconditions = Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: resource_version.cloned(),
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::background()
    };
    match api.delete(&key.name, &params).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(ApplyError::of(error, &key.to_string())),
    }
    store.own_deletion(kind, key);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, message: &str, cause: Option<(&str, &str)>) -> Said {
        let causes = cause.map(|(reason, message)| json!({"reason": reason, "message": message}));
        let status = json!({
            "status": "Failure", "code": code, "message": message, "reason": "",
            "details": {"causes": causes.into_iter().collect::<Vec<_>>()},
        });
        what_was_said(&serde_json::from_value(status).unwrap())
    }

    #[test]
    fn refused_evictions_are_told_apart() {
        let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
        let cause = (
            "DisruptionBudget",
            "The disruption budget web needs 2 healthy pods and has 2 currently",
        );
        assert_eq!(
            refusal(429, budget, Some(cause)),
            Said::Budget(format!("{budget} {}", cause.1))
        );
        let webhook =
            "admission webhook \"virt-launcher-eviction-interceptor.kubevirt.io\" denied the request: ";
        for (words, said) in [
            (
                "Eviction triggered evacuation of VMI \"a/b\"",
                Said::Migrating as fn(String) -> Said,
            ),
            ("Evacuation in progress: a/b", Said::Migrating),
            (
                "VMI b is configured with an eviction strategy but is not live-migratable",
                Said::NotMigratable,
            ),
            ("the server has too many requests", Said::Busy),
        ] {
            let message = format!("{webhook}{words}");
            assert_eq!(refusal(429, &message, None), said(message));
        }
        let terminating = ("NamespaceTerminating", "namespace a is being terminated");
        assert_eq!(
            refusal(403, "forbidden", Some(terminating)),
            Said::NamespaceTerminating
        );
        assert_eq!(
            refusal(403, "forbidden", None),
            Said::Refused("forbidden".to_owned())
        );
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(refusal(500, two, None), Said::Refused(two.to_owned()));
        assert_eq!(refusal(503, "etcd", None), Said::Busy("etcd".to_owned()));
        // Gone, or another pod by now.
        assert_eq!(refusal(404, "not found", None), Said::Accepted);
        assert_eq!(refusal(409, "uid mismatch", None), Said::Accepted);
    }

    #[test]
    fn a_lease_begins_neither_in_the_future_nor_before_its_object() {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let begins = |since: Option<i64>| {
            let spec = lease_spec("me", (at(0), since.map(at)), Some(0));
            assert_eq!(spec["acquireTime"], spec["renewTime"]);
            spec["acquireTime"]
                .as_str()
                .unwrap()
                .parse::<Timestamp>()
                .unwrap()
        };
        assert_eq!(begins(None), at(-5));
        assert_eq!(begins(Some(-60)), at(-5));
        assert_eq!(begins(Some(-1)), at(-1));
        // A clock that runs ahead.
        assert_eq!(begins(Some(3)), at(0));
    }

    #[test]
    fn keys_are_escaped_for_json_pointer() {
        assert_eq!(
            pointer("/metadata/labels", "a.b/c~d"),
            "/metadata/labels/a.b~1c~0d"
        );
    }

    #[test]
    fn a_map_that_is_not_there_is_made_unless_somebody_made_one() {
        let change = |key: &str, from: Option<&str>, to: Option<&str>| Change {
            key: key.to_owned(),
            from: from.map(ToOwned::to_owned),
            to: to.map(ToOwned::to_owned),
        };
        let (new, none) = (change("a/b", None, Some("v")), change("c", None, None));
        assert_eq!(
            changes_of("/m", &[new.clone(), none.clone()], false),
            [
                json!({"op": "test", "path": "/m", "value": null}),
                json!({"op": "add", "path": "/m", "value": {"a/b": "v"}}),
            ]
        );
        assert_eq!(
            changes_of("/m", std::slice::from_ref(&none), false),
            [json!({"op": "test", "path": "/m", "value": null})]
        );
        assert_eq!(changes_of("/m", &[], false), Vec::<Value>::new());
        assert_eq!(
            changes_of("/m", std::slice::from_ref(&new), true)[1],
            json!({"op": "add", "path": "/m/a~1b", "value": "v"})
        );
        // What was read is tested all the same.
        let old = changes_of("/m", &[change("k", Some("v"), None), new], false);
        assert_eq!(old[0], json!({"op": "test", "path": "/m/k", "value": "v"}));
    }

    #[test]
    fn an_absent_field_is_tested_as_null_and_an_equal_one_only_tested() {
        let change = |from: Option<&str>, to: Option<&str>| Change {
            key: "k".to_owned(),
            from: from.map(ToOwned::to_owned),
            to: to.map(ToOwned::to_owned),
        };
        let new = operations("/m", &change(None, Some("v")));
        assert_eq!(new[0], json!({"op": "test", "path": "/m/k", "value": null}));
        assert_eq!(new[1], json!({"op": "add", "path": "/m/k", "value": "v"}));
        assert_eq!(operations("/m", &change(Some("v"), Some("v"))).len(), 1);
        assert_eq!(
            operations("/m", &change(Some("v"), None))[1],
            json!({"op": "remove", "path": "/m/k"})
        );
    }
}
