//! Writes of Jobs: those of rules, and those of Plans. What is in them is rendered by `runners`.

use super::{
    error::ApplyError,
    object::{create, delete_kept, json_patch},
    patch::test,
};
use crate::{
    runners,
    shell::{kind::Kind, store::Store, watch},
};
use kube::Client;
use numo_core::{
    action::{JobRequest, PlanJobRequest},
    observed::Key,
};
use serde_json::json;

/// Lets a Plan's Job that was created with no pods have its one pod.
pub(super) async fn start_plan_job(
    client: &Client,
    store: &mut Store,
    job: &Key,
    uid: &str,
) -> Result<(), ApplyError> {
    let operations = vec![
        test("/metadata/uid", json!(uid)),
        test("/spec/parallelism", json!(0)),
        json!({"op": "replace", "path": "/spec/parallelism", "value": 1}),
    ];
    json_patch(client, store, Kind::PlanJob, job, operations).await
}

/// Deletes a Plan's Job, and keeps it in the store until it is gone.
pub(super) async fn delete_plan_job(
    client: &Client,
    store: &mut Store,
    job: &Key,
    uid: &str,
) -> Result<(), ApplyError> {
    let about = format!("Job {job}");
    let api = watch::api(client, Kind::PlanJob, &job.namespace);
    // Its pods go first: the Job controller's finalizers keep them, and the watch tells when it is gone.
    delete_kept(&api, store, Kind::PlanJob, (job, uid), &about).await
}

/// Sets how long a rule's Job stays after it has ended.
pub(super) async fn set_job_ttl(
    client: &Client,
    store: &mut Store,
    job: &Key,
    uid: &str,
    seconds: i64,
) -> Result<(), ApplyError> {
    let operations = vec![
        test("/metadata/uid", json!(uid)),
        json!({"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": seconds}),
    ];
    json_patch(client, store, Kind::Job, job, operations).await
}

pub(super) async fn create_job(
    client: &Client,
    store: &mut Store,
    request: &JobRequest,
) -> Result<(), ApplyError> {
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

pub(super) async fn create_plan_job(
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
