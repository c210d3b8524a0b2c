//! Evicts a pod, and says what the answer means. Whatever the answer is, the pod is not deleted for it.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, EvictParams, Preconditions},
    core::Status,
};
use numo_core::{drain::Eviction, observed::Said};

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
}
