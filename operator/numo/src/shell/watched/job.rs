//! The Jobs of rules, their pods, and the Events that say why a Job has no pod. `store/jobs.rs` puts them together.

use super::{
    entry::{Kept, Missing, PAGE_OF_MADE, Place, Reading, Selection, Watched},
    object::{JobPodView, Object},
};
use crate::shell::project::{NAME_LETTERS, created, key, text, words};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use numo_api::marks;
use numo_core::observed::{JobEnd, JobView, Key};
use serde_json::Value;
use std::collections::BTreeMap;

/// Most letters of `namespace/name` of a rule.
const RULE_LETTERS: usize = NAME_LETTERS * 2;

/// How Jobs of rules are watched.
pub const JOB: Watched = Watched {
    resource: ("batch", "v1", "Job", "jobs"),
    place: Place::RuleJobs,
    select: |namespace| Selection::all(namespace).with_labels(marks::JOB_RUN),
    page: PAGE_OF_MADE,
    missing: Missing::Empty,
    reading: Reading::Whole,
    project: |object| Some(Object::Job(key(&object.metadata), Box::new(job(object)))),
    kept: Kept::All,
    remove: |store, key| store.remove_job(key),
};

/// How pods of rules' Jobs are watched.
pub const POD: Watched = Watched {
    resource: ("", "v1", "Pod", "pods"),
    place: Place::RuleJobs,
    select: |namespace| Selection::all(namespace).with_labels(marks::JOB_RUN),
    page: PAGE_OF_MADE,
    missing: Missing::Empty,
    reading: Reading::Whole,
    project: project_pod,
    kept: Kept::All,
    remove: |store, key| store.remove_pod_of_job(key),
};

/// How Events of Jobs are watched.
pub const JOB_EVENT: Watched = Watched {
    resource: ("", "v1", "Event", "events"),
    place: Place::RuleJobs,
    select: |namespace| Selection::all(namespace).with_fields("involvedObject.kind=Job,reason=FailedCreate"),
    page: PAGE_OF_MADE,
    missing: Missing::Empty,
    reading: Reading::Whole,
    project: project_event,
    kept: Kept::All,
    remove: |store, key| store.remove_job_event(key),
};

fn project_pod(object: &DynamicObject) -> Option<Object> {
    let meta = &object.metadata;
    let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let pod = JobPodView {
        job: job_of(meta)?,
        run: label(marks::JOB_RUN).unwrap_or_default(),
        node: label(marks::JOB_NODE).unwrap_or_default(),
        trouble: pod_trouble(&object.data),
        deleting: meta.deletion_timestamp.as_ref().map(|at| at.0),
        is_over: matches!(
            text(&object.data, "/status/phase").as_str(),
            "Succeeded" | "Failed"
        ),
    };
    Some(Object::Pod(key(meta), pod))
}

fn project_event(object: &DynamicObject) -> Option<Object> {
    let about = object.data.get("involvedObject")?;
    let name = about.get("name").and_then(Value::as_str)?;
    let job = Key::new(object.metadata.namespace.clone()?, name);
    if name.len() > NAME_LETTERS {
        return None;
    }
    Some(Object::JobEvent(key(&object.metadata), job, words(&object.data)))
}

/// The conditions of a Job that are True, by type.
fn job_conditions(object: &DynamicObject) -> BTreeMap<&str, &Value> {
    let conditions = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten();
    conditions
        .filter(|condition| condition.get("status").and_then(Value::as_str) == Some("True"))
        .filter_map(|condition| Some((condition.get("type")?.as_str()?, condition)))
        .collect()
}

/// How a Job ended: it failed by the first of these conditions that it has.
pub(super) fn job_end(object: &DynamicObject, failures: &[&str]) -> Option<JobEnd> {
    let conditions = job_conditions(object);
    match failures.iter().find_map(|failure| conditions.get(failure)) {
        Some(failed) => {
            let (reason, message) = words(failed);
            Some(JobEnd::Failed(reason, message))
        }
        None => conditions.get("Complete").map(|_| JobEnd::Complete),
    }
}

pub(super) fn job(object: &DynamicObject) -> JobView {
    let meta = &object.metadata;
    // FailureTarget is the Job controller's verdict before its pods are gone: a failed rule is seen at once.
    let ended = job_end(object, &["Failed", "FailureTarget"]);
    let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let annotation = |key: &str| {
        meta.annotations
            .as_ref()
            .and_then(|annotations| annotations.get(key))
    };
    let number = |field: &str| object.data.pointer(field).and_then(Value::as_i64);
    let count = |field: &str| number(field).unwrap_or(0);
    JobView {
        uid: meta.uid.clone().unwrap_or_default(),
        created: created(meta),
        deleting: meta.deletion_timestamp.as_ref().map(|at| at.0),
        run: label(marks::JOB_RUN).unwrap_or_default(),
        node: label(marks::JOB_NODE).unwrap_or_default(),
        // Longer than its name may be with its namespace it is of no rule.
        rule: annotation(marks::JOB_RULE)
            .map_or_else(String::new, |rule| numo_core::rules::clip(rule, RULE_LETTERS)),
        edition: annotation(marks::JOB_EDITION).map_or_else(String::new, |edition| {
            numo_core::rules::clip(edition, NAME_LETTERS)
        }),
        ended_at: ended_at(object, &["Complete", "Failed", "FailureTarget"]),
        ended,
        started: count("/status/active") + count("/status/succeeded") + count("/status/failed") > 0,
        deadline_seconds: number("/spec/activeDeadlineSeconds"),
        ttl_seconds: number("/spec/ttlSecondsAfterFinished"),
        wanted_ttl_seconds: annotation(marks::JOB_TTL).and_then(|seconds| seconds.parse().ok()),
        trouble: suspended(object),
    }
}

/// A Job that is suspended has no pod, and no event tells why.
fn suspended(object: &DynamicObject) -> Option<(String, String)> {
    let is_suspended = object.data.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true);
    let words = "spec.suspend of the Job is true: whoever suspended it (usually a queue such as Kueue) must resume it";
    is_suspended.then(|| ("Suspended".to_owned(), words.to_owned()))
}

/// When a Job ended, by the conditions that say so.
pub(super) fn ended_at(object: &DynamicObject, ends: &[&str]) -> Option<jiff::Timestamp> {
    let conditions = job_conditions(object);
    let times = ends
        .iter()
        .filter_map(|end| text(conditions.get(end)?, "/lastTransitionTime").parse().ok());
    times.max()
}

/// The Job that a pod is of. By its owner where somebody has taken the label off: a pod that runs on is not gone.
pub(super) fn job_of(meta: &ObjectMeta) -> Option<Key> {
    let labels = meta.labels.iter();
    let mut named = labels.flat_map(|labels| {
        let labels = ["batch.kubernetes.io/job-name", "job-name"].map(|key| labels.get(key));
        labels.into_iter().flatten()
    });
    let mut owners = meta.owner_references.iter().flatten();
    let owner = || owners.find(|owner| owner.kind == "Job").map(|owner| &owner.name);
    Some(Key::new(meta.namespace.clone()?, named.next().or_else(owner)?))
}

/// Why a pod does not start: a container that waits for its image or its configuration, or no node to
/// run on.
pub(super) fn pod_trouble(pod: &Value) -> Option<(String, String)> {
    const FATAL: [&str; 7] = [
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    ];
    let waiting = ["/status/initContainerStatuses", "/status/containerStatuses"]
        .iter()
        .filter_map(|pointer| pod.pointer(pointer).and_then(Value::as_array))
        .flatten()
        .filter_map(|status| status.pointer("/state/waiting"))
        .find(|waiting| {
            waiting
                .get("reason")
                .and_then(Value::as_str)
                .is_some_and(|reason| FATAL.contains(&reason))
        });
    if let Some(waiting) = waiting {
        return Some(words(waiting));
    }
    pod.pointer("/status/conditions")
        .and_then(Value::as_array)?
        .iter()
        .find_map(|condition| {
            let unschedulable =
                text(condition, "/type") == "PodScheduled" && text(condition, "/status") == "False";
            unschedulable.then(|| words(condition))
        })
}
