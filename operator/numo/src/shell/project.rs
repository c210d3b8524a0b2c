//! What projections of objects share: metadata without what nobody reads, and how text, conditions and managed fields are read. A
//! projection happens as early as possible, so that a heartbeat compares equal and the memory of 7,500 nodes stays small. What is kept of
//! which kind says its file in `watched/`; this one knows no kind.

use super::{
    item::{self, Item},
    lines::{Fate, LogShares},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use numo_api::marks;
use numo_core::observed::{Key, Map};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

pub use super::kind::Kind;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    deletion_timestamp: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

/// Metadata without what nobody reads and anybody may write: `managedFields` are as deep as a client likes.
pub(super) fn slim_meta<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let slim = SlimMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        owner_references: slim.owner_references,
        uid: slim.uid,
        resource_version: slim.resource_version,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        labels: slim.labels,
        annotations: slim.annotations.map(kept),
        ..ObjectMeta::default()
    })
}

/// Whether annotations are kept that no decision reads: where machines are replaced, a NodeVersion may name them for its new nodes.
static COPIED: AtomicBool = AtomicBool::new(false);
/// Longest value of such an annotation (bytes): 7,500 nodes have some each, and others write them.
const COPIED_BYTES: usize = 1024;

/// Keeps annotations that NodeVersions may copy. To be called before anything is read.
pub fn keep_copied() {
    COPIED.store(true, Ordering::Relaxed);
}

/// Annotations that any decision reads.
pub(super) fn kept(annotations: BTreeMap<String, String>) -> Map {
    let is_copied = COPIED.load(Ordering::Relaxed);
    annotations
        .into_iter()
        .filter(|(key, value)| {
            key.starts_with(marks::PREFIX)
                || (key.starts_with("machineconfiguration.openshift.io/")
                    && *key != "machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion")
                || key.starts_with("constellation.edgeless.systems/")
                || key == marks::SCALE_DOWN_DISABLED
                || key == marks::DO_NOT_DISRUPT
                || key == marks::SKIP_REMEDIATION
                || key == marks::HEALTH_CHECK_PAUSED
                || key == marks::OPENSHIFT_MACHINE
                || key == marks::CLUSTER_API_MACHINE
                || key == marks::CLUSTER_API_NAMESPACE
                || (is_copied && value.len() <= COPIED_BYTES)
        })
        .collect()
}

/// The resourceVersion as a number: resourceVersions of one kind are ordered (KEP-5504).
pub fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

/// When an object was created; the beginning of time if it does not say.
pub fn created(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// What of an object is its name, its uid and its annotations, of a kind of which nothing else is kept. Anybody may have written the
/// rest, `managedFields` among it, as deep and as large as the API server takes it: it is never read.
pub(super) fn brief(item: &Item) -> DynamicObject {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OnlyAnnotations {
        metadata: Annotated,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Annotated {
        annotations: Option<BTreeMap<String, String>>,
    }
    let mut metadata = item.metadata.clone();
    metadata.annotations = item
        .part::<OnlyAnnotations>()
        .and_then(|only| only.metadata.annotations);
    DynamicObject {
        types: None,
        metadata,
        data: Value::Null,
    }
}

/// Characters of what is wrong with an object: serde quotes what it found.
const WORDS: usize = 512;
/// Bytes that the line about an object that cannot be read counts for: anybody may write one again and again, so a namespace has 16 of
/// them at once, and one each four seconds after that.
const UNREAD_LINE: u64 = 16 << 10;

/// Says in the log that an object cannot be read, unless its namespace has too many of them. Its words, as short as they are kept.
pub(super) fn unread(what: &str, kind: Option<Kind>, key: &Key, words: &str) -> String {
    static SHARES: LogShares = LogShares::new();
    let words = numo_core::rules::clip(words, WORDS);
    let kind = kind.map(tracing::field::debug);
    match SHARES.fate(&key.namespace, UNREAD_LINE, std::time::Instant::now()) {
        Fate::Written => tracing::warn!(kind, %key, words, "{what}"),
        Fate::LeftOut => tracing::debug!(kind, %key, words, "{what}"),
        Fate::Said(lines) => tracing::warn!(
            namespace = key.namespace,
            lines,
            "this namespace has many objects that cannot be read: lines are left out"
        ),
    }
    words
}

/// Why an object is no `K`, in words; none if it is one.
pub(super) fn misread<K: serde::de::DeserializeOwned>(found: &DynamicObject) -> Option<String> {
    read::<K>(found).err()
}

/// What the labels of a pod or a Machine that are kept may weigh in memory (bytes): the API server takes as many as the object is large.
const LABELS_WEIGHT: usize = 8 << 10;
/// Letters of a name, of a kind and of a uid: longer ones are nobody's.
pub(super) const NAME_LETTERS: usize = 253;

/// Labels that are kept; none if they are too many.
pub(super) fn bounded(labels: Option<&BTreeMap<String, String>>) -> Map {
    let labels = labels.filter(|labels| item::weight_of_map(labels) <= LABELS_WEIGHT);
    labels.cloned().unwrap_or_default()
}

/// What the selector of a PodDisruptionBudget that is kept may weigh in memory (bytes): a cluster may have many thousands.
pub(super) const SELECTOR_WEIGHT: usize = 8 << 10;

/// An object as a `K`; none if it is no such object, which the log says.
pub(super) fn typed<K: serde::de::DeserializeOwned>(object: &DynamicObject) -> Option<K> {
    let key = key(&object.metadata);
    read(object)
        .inspect_err(|error| {
            unread("an object of ours cannot be read", None, &key, error);
        })
        .ok()
}

/// An object as a `K`, or why it is none.
pub(super) fn read<K: serde::de::DeserializeOwned>(object: &DynamicObject) -> Result<K, String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    // The replaced operator's schemas admit an object without a spec; it is as good as an empty one.
    if let Some(fields) = value.as_object_mut() {
        fields
            .entry("spec")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Namespace and name.
pub fn key(meta: &ObjectMeta) -> Key {
    Key::new(
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// The text at a pointer; empty if there is none.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// One specification of one object: its uid and `metadata.generation`. An object that was deleted and made again
/// begins with generation 1 anew.
pub type Edition = (String, i64);

/// The edition of an object.
pub fn edition(meta: &ObjectMeta) -> Edition {
    (meta.uid.clone().unwrap_or_default(), meta.generation.unwrap_or(0))
}

/// Who wrote a field last, by the managed fields.
pub(super) fn field_manager(meta: &ObjectMeta, path: &[&str]) -> Option<String> {
    meta.managed_fields
        .iter()
        .flatten()
        .filter(|entry| {
            let mut fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
            for step in path {
                fields = fields.and_then(|fields| fields.get(step));
            }
            fields.is_some()
        })
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))
        .and_then(|entry| entry.manager.clone())
}

/// Reason and message of a condition, while it is of this status.
pub(super) fn condition_words(data: &Value, type_: &str, status: &str) -> Option<String> {
    let conditions = data.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|one| text(one, "/type") == type_)?;
    let words = format!("{}: {}", text(found, "/reason"), text(found, "/message"));
    (text(found, "/status") == status).then(|| numo_core::rules::clip(&words, 512))
}

/// Reason and message, as long as people read: others may write Events, and the status of a Job or a pod is what its containers say.
pub(super) fn words(of: &Value) -> (String, String) {
    let clip = |pointer: &str, most: usize| numo_core::rules::clip(&text(of, pointer), most);
    (clip("/reason", 128), clip("/message", 1024))
}
