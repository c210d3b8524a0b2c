//! DaemonSets by the name of kured, wherever it is installed, and the nodes that hold its lock.

use super::{
    entry::{Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{
    kured,
    project::{key, text},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use numo_api::marks;
use numo_core::observed::RebootLock;
use serde::Deserialize;

/// How DaemonSets by the name of kured are watched.
pub const KURED: Watched = Watched {
    resource: ("apps", "v1", "DaemonSet", "daemonsets"),
    place: Place::Everywhere,
    select: |namespace| Selection::all(namespace).with_fields("metadata.name=kured"),
    page: PAGE_OF_WRITTEN,
    missing: Missing::Awaited,
    reading: Reading::Whole,
    project,
    kept: Kept::All,
    // What is put into the store says `store/kured.rs`: whether a lock is believed is found out later.
    remove: |store, key| store.forget_kured(key),
};

#[allow(clippy::unnecessary_wraps, reason = "other kinds are not always understood")]
fn project(object: &DynamicObject) -> Option<Object> {
    let mut account = text(&object.data, "/spec/template/spec/serviceAccountName");
    if account.is_empty() {
        "default".clone_into(&mut account);
    }
    let locks = reboot_locks(&object.metadata, Timestamp::now());
    Some(Object::RebootLocks(key(&object.metadata), account, locks))
}

/// What kured writes on its DaemonSet: one holder, or with `--concurrency` a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum KuredLock {
    Several { locks: Vec<KuredHolder> },
    One(KuredHolder),
}

#[derive(Deserialize)]
struct KuredHolder {
    #[serde(rename = "nodeID")]
    node: String,
    #[serde(default)]
    created: Option<Timestamp>,
    /// Nanoseconds; 0 holds for ever.
    #[serde(rename = "TTL", default)]
    ttl: i64,
}

/// The holders of kured's lock. A lock of the future, without a beginning or without an end is believed for a day from now or its beginning.
fn reboot_locks(meta: &ObjectMeta, now: Timestamp) -> Vec<RebootLock> {
    let lock = meta
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(marks::KURED_LOCK))
        .and_then(|text| serde_json::from_str(text).ok());
    let holders = match lock {
        None => Vec::new(),
        Some(KuredLock::One(holder)) => vec![holder],
        Some(KuredLock::Several { locks }) => locks,
    };
    holders
        .into_iter()
        .filter(|holder| !holder.node.is_empty())
        .take(kured::HOLDERS)
        .map(|holder| {
            let created = holder.created.map_or(now, |created| created.min(now));
            let most = jiff::SignedDuration::from_secs(kured::BELIEVED_SECONDS);
            let asked = jiff::SignedDuration::from_nanos(holder.ttl);
            let lasts = if holder.ttl > 0 { asked.min(most) } else { most };
            RebootLock {
                until: created.checked_add(lasts).ok(),
                node: holder.node,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Whoever may write a DaemonSet by the name of kured holds up 32 nodes for a day, and no more.
    #[test]
    fn locks_of_kured_are_believed_of_few_nodes_and_for_a_day() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let day = jiff::SignedDuration::from_hours(24);
        let locks = |value: Value| {
            let annotations = [(marks::KURED_LOCK.to_owned(), value.to_string())].into();
            let meta = ObjectMeta {
                annotations: Some(annotations),
                ..ObjectMeta::default()
            };
            reboot_locks(&meta, now)
        };
        let holder = |node: &str| serde_json::json!({"nodeID": node, "created": "2090-01-01T00:00:00Z", "TTL": i64::MAX});
        let all: Vec<Value> = (0..100).map(|number| holder(&format!("n{number}"))).collect();
        let many = locks(serde_json::json!({"maxOwners": 100, "locks": all}));
        assert_eq!(many.len(), kured::HOLDERS);
        assert!(
            many.iter().all(|lock| lock.until == now.checked_add(day).ok()),
            "{many:?}"
        );
        let one = locks(holder("n1"));
        assert_eq!((one.len(), one[0].until), (1, now.checked_add(day).ok()));
        for strange in [
            serde_json::json!("n1"),
            serde_json::json!({"nodeID": ""}),
            serde_json::json!(7),
        ] {
            assert!(locks(strange).is_empty());
        }
    }
}
