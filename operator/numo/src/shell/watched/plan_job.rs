//! The Jobs of Plans and their pods, in namespaces where numo may not be invited. `store/jobs.rs` puts them together.

use super::{
    entry::{Kept, Missing, PAGE_OF_MADE, Place, Reading, Selection, Watched},
    job::{ended_at, job, job_end, job_of, pod_trouble},
    object::{Object, PlanPodView},
};
use crate::shell::{
    project::{key, text},
    store::replace,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use numo_api::marks;
use numo_core::{observed::PlanJobView, owners::plan};
use serde_json::Value;

/// How Jobs of Plans are watched.
pub const PLAN_JOB: Watched = Watched {
    resource: ("batch", "v1", "Job", "jobs"),
    place: Place::PlanJobs,
    select: |namespace| Selection::all(namespace).with_labels(marks::PLAN_CONTROLLER),
    page: PAGE_OF_MADE,
    missing: Missing::Told {
        unseen: |store, namespace, words| replace(&mut store.observed.unseen_plan_jobs, namespace, words),
        seen: |store, namespace| store.observed.unseen_plan_jobs.remove(namespace).is_some(),
    },
    reading: Reading::Whole,
    project: project_job,
    kept: Kept::All,
    remove: |store, key| store.remove_plan_job(key),
};

/// How pods of Plans' Jobs are watched.
pub const PLAN_POD: Watched = Watched {
    resource: ("", "v1", "Pod", "pods"),
    place: Place::PlanJobs,
    select: |namespace| Selection::all(namespace).with_labels(marks::PLAN_CONTROLLER),
    page: PAGE_OF_MADE,
    missing: Missing::Empty,
    reading: Reading::Whole,
    project: project_pod,
    kept: Kept::All,
    remove: |store, key| store.remove_plan_pod(key),
};

fn project_job(object: &DynamicObject) -> Option<Object> {
    let view = Box::new(plan_job(object)?);
    Some(Object::PlanJob(key(&object.metadata), view, pods_left(object)))
}

fn project_pod(object: &DynamicObject) -> Option<Object> {
    let view = PlanPodView {
        job: job_of(&object.metadata)?,
        runs: running_container(&object.data),
        trouble: pod_trouble(&object.data),
        taken_up: is_taken_up(&object.data),
    };
    Some(Object::PlanPod(key(&object.metadata), view))
}

/// The view of a Plan's Job; none without the labels that say what it is about.
fn plan_job(object: &DynamicObject) -> Option<PlanJobView> {
    let meta = &object.metadata;
    let labels = meta.labels.as_ref()?;
    let name = labels.get(marks::PLAN)?;
    let known = job(object);
    let controller = meta.owner_references.iter().flatten();
    let controller = controller
        .filter(|owner| owner.controller == Some(true) && owner.kind == "Plan")
        .map(|owner| owner.uid.clone())
        .next();
    Some(PlanJobView {
        uid: known.uid,
        plan_uid: controller.unwrap_or_default(),
        plan: name.clone(),
        node: labels.get(marks::PLAN_NODE)?.clone(),
        version: labels.get(marks::PLAN_VERSION).cloned().unwrap_or_default(),
        hash: labels.get(&plan::label(name)).cloned().unwrap_or_default(),
        prepares: prepares(meta),
        created: known.created,
        deleting: meta.deletion_timestamp.as_ref().map(|at| at.0),
        paused: object.data.pointer("/spec/parallelism").and_then(Value::as_i64) == Some(0),
        // At FailureTarget its pods still end, and what they did is not known yet; system-upgrade-controller waits too.
        ended: job_end(object, &["Failed"]),
        ended_at: ended_at(object, &["Complete", "Failed"]),
        runs: None,
        trouble: known.trouble,
        untouched: false,
    })
}

/// Whether a Job only prepares its node. An annotation may be taken off: who then took it for the upgrade would label a node as done that
/// nothing has changed.
fn prepares(meta: &ObjectMeta) -> bool {
    let by_name = plan::prepares(meta.name.as_deref().unwrap_or_default());
    let annotations = meta.annotations.as_ref();
    by_name.unwrap_or_else(|| annotations.is_some_and(|all| all.contains_key(marks::PLAN_PREPARES)))
}

/// How many pods a Job has that have not ended; none if one has.
fn pods_left(object: &DynamicObject) -> Option<usize> {
    let count = |field: &str| object.data.pointer(field).and_then(Value::as_u64).unwrap_or(0);
    let ended = count("/status/succeeded") + count("/status/failed");
    let uncounted = ["succeeded", "failed"].iter().any(|which| {
        let list = object
            .data
            .pointer(&format!("/status/uncountedTerminatedPods/{which}"));
        list.and_then(Value::as_array)
            .is_some_and(|pods| !pods.is_empty())
    });
    let left = usize::try_from(count("/status/active") + count("/status/terminating")).ok()?;
    (ended == 0 && !uncounted).then_some(left)
}

/// Whether a kubelet has taken the pod up, or it has ended: its containers may have run then, whatever is known of them.
fn is_taken_up(pod: &Value) -> bool {
    let pending = matches!(text(pod, "/status/phase").as_str(), "" | "Pending");
    !pending || pod.pointer("/status/startTime").is_some_and(|at| !at.is_null())
}

/// Name of the container that runs, the first of them.
fn running_container(pod: &Value) -> Option<String> {
    ["/status/initContainerStatuses", "/status/containerStatuses"]
        .iter()
        .filter_map(|pointer| pod.pointer(pointer).and_then(Value::as_array))
        .flatten()
        .find(|status| status.pointer("/state/running").is_some())
        .map(|status| text(status, "/name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::observed::JobEnd;

    /// Its name is what nobody can edit.
    #[test]
    fn a_job_that_prepares_is_one_by_its_name_whatever_its_annotations_say() {
        let prepares = |name: &str, annotated: bool| {
            let annotations = if annotated {
                serde_json::json!({marks::PLAN_PREPARES: "true"})
            } else {
                serde_json::json!({})
            };
            let object = serde_json::json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {
                    "name": name, "namespace": "ns", "uid": "u", "annotations": annotations,
                    "labels": {marks::PLAN: "p", marks::PLAN_NODE: "a"},
                },
            });
            let object = serde_json::from_value::<DynamicObject>(object).unwrap();
            plan_job(&object).unwrap().prepares
        };
        assert!(prepares("prepare-p-on-a-with-h", true));
        assert!(prepares("prepare-p-on-a-with-h", false), "somebody took it off");
        assert!(!prepares("apply-prepare-on-a-with-h", true), "somebody put it on");
        assert!(!prepares("apply-p-on-a-with-h", false));
        // Of a name that no operator gives nothing else tells.
        assert!(prepares("by-hand", true));
        assert!(!prepares("by-hand", false));
    }

    #[test]
    fn a_plans_job_has_failed_when_its_pods_have_ended() {
        let job = |conditions: Value| {
            let object = serde_json::json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {
                    "name": "j", "namespace": "ns", "uid": "u",
                    "labels": {marks::PLAN: "p", marks::PLAN_NODE: "a"},
                },
                "spec": {"parallelism": 1},
                "status": {"conditions": conditions},
            });
            serde_json::from_value::<DynamicObject>(object).unwrap()
        };
        let condition = |type_: &str, status: &str| {
            serde_json::json!({
                "type": type_, "status": status, "reason": "DeadlineExceeded", "message": "too long",
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            })
        };
        let failed = JobEnd::Failed("DeadlineExceeded".to_owned(), "too long".to_owned());
        let target = job(serde_json::json!([
            condition("FailureTarget", "True"),
            condition("Failed", "False")
        ]));
        let view = plan_job(&target).unwrap();
        assert_eq!((view.ended, view.ended_at), (None, None));
        // A rule's verdict is seen at once.
        assert_eq!(super::super::job::job(&target).ended, Some(failed.clone()));
        let over = job(serde_json::json!([
            condition("FailureTarget", "True"),
            condition("Failed", "True")
        ]));
        let view = plan_job(&over).unwrap();
        assert_eq!(view.ended, Some(failed));
        assert_eq!(view.ended_at, "2030-01-01T00:00:00Z".parse().ok());
        let complete = job(serde_json::json!([
            condition("SuccessCriteriaMet", "True"),
            condition("Complete", "True")
        ]));
        assert_eq!(plan_job(&complete).unwrap().ended, Some(JobEnd::Complete));
    }
}
