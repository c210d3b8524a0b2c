//! Writes of node leases, as the other controllers of Medik8s read them.

use super::{
    error::ApplyError,
    object::{create, delete, json_patch},
    patch::{pointer, test},
};
use crate::shell::{kind::Kind, store::Store, watch};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use numo_api::marks;
use numo_core::{decide::LEASE_SECONDS, observed::Key, rules::is_uninvited};
use serde_json::{Value, json};

/// Renews a lease that is ours.
pub(super) async fn renew_lease(
    client: &Client,
    store: &mut Store,
    node: &str,
    holder: &str,
    (resource_version, now): (&str, Timestamp),
) -> Result<(), ApplyError> {
    let uid = store
        .observed
        .leases
        .get(node)
        .map(|lease| lease.uid.clone())
        .unwrap_or_default();
    replace_lease(client, store, node, holder, (&uid, resource_version), (now, None)).await
}

/// Deletes a lease that is ours.
pub(super) async fn release_lease(
    client: &Client,
    store: &mut Store,
    node: &str,
    uid: &str,
) -> Result<(), ApplyError> {
    let api = watch::api(client, Kind::Lease, marks::LEASE_NAMESPACE);
    let key = Key::new(marks::LEASE_NAMESPACE, format!("node-{node}"));
    let read = store
        .observed
        .leases
        .get(node)
        .map(|lease| lease.resource_version.clone());
    delete(&api, store, Kind::Lease, &key, uid, read.as_ref()).await
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

pub(super) async fn acquire_lease(
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
        // That is said once and stops nothing.
        Err(error) if are_not_here(&error) => {
            let why = format!(
                "{about}: the namespace {} or the right to it is missing",
                marks::LEASE_NAMESPACE
            );
            let settings = &mut store.observed.settings;
            // In the words that were told: of one node after the other it is the same news.
            settings.leases_unavailable.get_or_insert(why);
            settings.leases_refused = Some(times.0);
            Ok(())
        }
        Ok(()) => {
            let settings = &mut store.observed.settings;
            (settings.leases_unavailable, settings.leases_refused) = (None, None);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Whether there are no node leases here, for want of the namespace or of the right to them. A quota or a policy that is against one of them
/// is no word on the others, nor one that holds for good.
fn are_not_here(error: &ApplyError) -> bool {
    match error {
        ApplyError::Refused { code, message, .. } => *code == 404 || is_uninvited(*code, message),
        // Of a lease that was there a moment ago: its holder has deleted it.
        ApplyError::Gone { .. } | ApplyError::Stale { .. } | ApplyError::Unreachable { .. } => false,
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
        // Whoever had it may have written any number, and a Lease has no larger one.
        .map(|lease| lease.transitions.clamp(0, i64::from(i32::MAX) - 1) + 1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_is_full_does_not_open_the_nodes_of_others() {
        let refused = |code: u16, message: &str| {
            are_not_here(&ApplyError::Refused {
                about: "Lease medik8s-leases/node-a".to_owned(),
                code,
                message: message.to_owned(),
            })
        };
        let of = "leases.coordination.k8s.io \"node-a\" is forbidden:";
        // Its holder deleted it in the same moment.
        assert!(!are_not_here(&ApplyError::Gone {
            about: "Lease medik8s-leases/node-a".to_owned()
        }));
        assert!(refused(404, "namespaces \"medik8s-leases\" not found"));
        assert!(refused(
            403,
            "User \"numo\" cannot create resource \"leases\" in API group \"coordination.k8s.io\""
        ));
        assert!(!refused(
            403,
            &format!("{of} exceeded quota: few, requested: count/leases=1, used: count/leases=1")
        ));
        assert!(!refused(
            403,
            &format!("{of} ValidatingAdmissionPolicy 'none' with binding 'none' denied request")
        ));
        assert!(!refused(
            403,
            &format!(
                "{of} unable to create new content in namespace medik8s-leases because it is being terminated"
            )
        ));
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
}
