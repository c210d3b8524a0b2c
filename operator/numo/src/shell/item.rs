//! One object of a list or a watch, read by itself: an object that cannot be read, or that is too large to be kept, costs that object and
//! not the list that it is in. Nothing here knows what an object means.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference, Time};
use kube::{
    Resource,
    api::ApiResource,
    core::{DynamicObject, DynamicResourceScope, TypeMeta},
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, collections::BTreeMap};

/// Levels of brackets in an object that is read. serde_json reads 128, the API server takes 10,000.
const DEPTH: usize = 96;
/// Bytes of an object that people write, and what it weighs once it is read (bytes): an array of small numbers takes forty times its
/// text, and an array of small objects a hundred times.
const WRITTEN_BYTES: usize = 512 * 1024;
const WRITTEN_WEIGHT: usize = 1 << 20;
/// The same of other objects. The API server takes some 1.5 MiB.
const BYTES: usize = 2 << 20;
const WEIGHT: usize = 8 << 20;
/// What serde_json takes for an object that is not empty, for a list, and for any other value, beside the text (bytes).
const OBJECT: usize = 640;
const LIST: usize = 64;
const VALUE: usize = 64;

/// An object as it came.
#[derive(Clone, Debug)]
pub struct Item {
    /// What tells it from others: always read.
    pub metadata: ObjectMeta,
    raw: Box<RawValue>,
}

/// How large an object may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// As large as one may be that people write, with fields that take anything.
    Written,
    /// As large as the API server takes it.
    Any,
}

/// Why an object is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Whether it is for its size.
    pub too_large: bool,
    /// What was found and what is wanted.
    pub message: String,
}

/// The part of the metadata that is short whatever the object is: `managedFields` are as deep as it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Outer {
            metadata: Head,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        // Fields that are not named are skipped without recursion.
        let Outer { metadata: head } = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        let time = |at: Option<Timestamp>| at.map(Time);
        let metadata = ObjectMeta {
            name: head.name,
            namespace: head.namespace,
            uid: head.uid,
            resource_version: head.resource_version,
            generation: head.generation,
            creation_timestamp: time(head.creation_timestamp),
            deletion_timestamp: time(head.deletion_timestamp),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, raw })
    }
}

impl Item {
    /// The object, if it is of no more than this size.
    ///
    /// Errors: it has more bytes, values or levels than that, or is no object.
    pub fn read_as(&self, size: Size) -> Result<DynamicObject, Unreadable> {
        let text = self.raw.get();
        let (bytes, weight) = match size {
            Size::Written => (WRITTEN_BYTES, WRITTEN_WEIGHT),
            Size::Any => (BYTES, WEIGHT),
        };
        let too_large = |message: String| Unreadable {
            too_large: true,
            message,
        };
        if text.len() > bytes {
            return Err(too_large(format!(
                "found {} bytes, wanted at most {bytes}",
                text.len()
            )));
        }
        let shape = shape(text);
        if shape.depth > DEPTH {
            let message = format!("found {} levels of nesting, wanted at most {DEPTH}", shape.depth);
            return Err(Unreadable {
                too_large: false,
                message,
            });
        }
        if shape.weight > weight {
            return Err(too_large(format!(
                "found values of {} bytes in memory, wanted at most {weight}",
                shape.weight
            )));
        }
        let Read(object) = serde_json::from_str(text).map_err(|error| Unreadable {
            too_large: false,
            message: format!("cannot be read: {error}"),
        })?;
        Ok(object)
    }

    /// Which program wrote what of the object, where that can be read: of few kinds anybody asks for it.
    pub fn managed(&self) -> Option<Vec<ManagedFieldsEntry>> {
        #[derive(Deserialize)]
        struct Outer {
            metadata: Inner,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Inner {
            managed_fields: Option<Vec<ManagedFieldsEntry>>,
        }
        let Outer { metadata } = serde_json::from_str(self.raw.get()).ok()?;
        metadata.managed_fields
    }
}

/// An object that is read field by field, without `managedFields` ([`Item::managed`]). What kube derives puts every field aside first, to
/// look which of them it knows: that was a seventh of the processor time of a Plan that rolls.
struct Read(DynamicObject);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Read;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Read, A::Error> {
        let (mut api_version, mut kind, mut metadata) = (None, None, ObjectMeta::default());
        let mut data = serde_json::Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "apiVersion" => api_version = fields.next_value::<Value>()?.as_str().map(str::to_owned),
                "kind" => kind = fields.next_value::<Value>()?.as_str().map(str::to_owned),
                "metadata" => metadata = fields.next_value::<Metadata>()?.into(),
                _ => {
                    data.insert(name, fields.next_value()?);
                }
            }
        }
        let types = api_version.zip(kind);
        Ok(Read(DynamicObject {
            types: types.map(|(api_version, kind)| TypeMeta { api_version, kind }),
            metadata,
            data: Value::Object(data),
        }))
    }
}

/// All of the metadata that anybody reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generate_name: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

impl From<Metadata> for ObjectMeta {
    fn from(read: Metadata) -> Self {
        Self {
            annotations: read.annotations,
            creation_timestamp: read.creation_timestamp,
            deletion_grace_period_seconds: read.deletion_grace_period_seconds,
            deletion_timestamp: read.deletion_timestamp,
            finalizers: read.finalizers,
            generate_name: read.generate_name,
            generation: read.generation,
            labels: read.labels,
            managed_fields: None,
            name: read.name,
            namespace: read.namespace,
            owner_references: read.owner_references,
            resource_version: read.resource_version,
            self_link: None,
            uid: read.uid,
        }
    }
}

impl Item {
    /// As it came.
    pub fn text(&self) -> &str {
        self.raw.get()
    }

    /// What stands at a path of names, read as `T`; nothing beside it is read. None if nothing does, or nothing of that form.
    pub fn at<T: serde::de::DeserializeOwned>(&self, path: &[&str]) -> Option<T> {
        let mut text = self.raw.get();
        for name in path {
            let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text).ok()?;
            text = fields.get(*name)?.get();
        }
        serde_json::from_str(text).ok()
    }

    /// What `T` names of the object, whatever else it is made of: fields that are not named are skipped without recursion. None if those
    /// are not as `T` has them.
    pub fn part<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.raw.get()).ok()
    }

    /// The status of the object alone, whatever its spec is made of: what numo said last, which else would be said anew with every pass.
    pub fn status<S: serde::de::DeserializeOwned>(&self) -> Option<S> {
        #[derive(Deserialize)]
        struct OnlyStatus<S> {
            status: Option<S>,
        }
        self.part::<OnlyStatus<S>>()?.status
    }
}

/// What a JSON text weighs once it is read (bytes).
pub fn weight(text: &str) -> usize {
    shape(text).weight
}

/// What a map takes in memory (bytes).
pub fn weight_of_map(map: &BTreeMap<String, String>) -> usize {
    map.iter().fold(0, |sum, (key, value)| {
        sum.saturating_add(key.len() + value.len() + VALUE)
    })
}

/// How deep, and how much once it is read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    depth: usize,
    weight: usize,
}

/// The shape of a JSON text, which is valid: one pass, no recursion.
fn shape(text: &str) -> Shape {
    let mut shape = Shape {
        depth: 0,
        weight: text.len(),
    };
    let (mut open, mut bytes) = (0_usize, text.as_bytes());
    while let [byte, rest @ ..] = bytes {
        bytes = rest;
        match byte {
            b'"' => bytes = after_string(bytes),
            b'{' | b'[' => {
                open += 1;
                shape.depth = shape.depth.max(open);
                shape.weight += if *byte == b'{' { OBJECT } else { LIST };
            }
            b'}' | b']' => open = open.saturating_sub(1),
            b',' => shape.weight += VALUE,
            _ => {}
        }
    }
    shape
}

/// What follows a string that has begun: most of a text is in strings.
fn after_string(mut bytes: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', bytes) {
        if bytes[at] == b'"' {
            return &bytes[at + 1..];
        }
        bytes = bytes.get(at + 2..).unwrap_or_default();
    }
    &[]
}

impl Resource for Item {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn api_version(of: &ApiResource) -> Cow<'_, str> {
        of.api_version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::{ObjectList, WatchEvent};

    /// A rule whose configuration is nested so deep.
    fn rule(name: &str, config: &str) -> String {
        format!(
            r#"{{"apiVersion": "a/v1", "kind": "MutexRule", "metadata": {{"name": "{name}", "namespace": "team", "resourceVersion": "7"}},
             "spec": {{"type": "wasm", "wasm": {{"config": {config}}}}}}}"#
        )
    }

    fn deep(levels: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
    }

    #[test]
    fn one_bad_object_costs_one_object() {
        let zeros = format!("[{}]", vec!["0"; 600_000].join(","));
        let items = [
            rule("good", r#"{"a": "} ] \" [ {"}"#),
            rule("deep", &deep(5000)),
            rule("large", &zeros),
            rule("many", &format!("[{}]", vec!["0"; 50_000].join(","))),
            rule("objects", &format!("[{}]", vec![r#"{"a":0}"#; 9_900].join(","))),
        ];
        let list = format!(
            r#"{{"kind": "List", "apiVersion": "v1", "metadata": {{}}, "items": [{}]}}"#,
            items.join(",")
        );
        let list: ObjectList<Item> = serde_json::from_str(&list).unwrap();
        let read: Vec<Result<DynamicObject, Unreadable>> = list
            .items
            .iter()
            .map(|item| item.read_as(Size::Written))
            .collect();
        assert_eq!(read[0].as_ref().unwrap().metadata.name.as_deref(), Some("good"));
        for (index, name, words, too_large) in [
            (1, "deep", "levels of nesting", false),
            (2, "large", "bytes", true),
            (3, "many", "values", true),
            (4, "objects", "values", true),
        ] {
            assert_eq!(list.items[index].metadata.name.as_deref(), Some(name));
            let why = read[index].as_ref().unwrap_err();
            assert!(
                why.message.contains(words) && why.too_large == too_large,
                "{name}: {why:?}"
            );
        }
    }

    #[test]
    fn an_event_of_a_watch_is_read_the_same() {
        let event = format!(r#"{{"type": "ADDED", "object": {}}}"#, rule("deep", &deep(200)));
        let event: WatchEvent<Item> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Added(item) = event else {
            panic!("{event:?}")
        };
        assert_eq!(item.metadata.resource_version.as_deref(), Some("7"));
        assert!(item.read_as(Size::Written).is_err());
        let bookmark = r#"{"type": "BOOKMARK", "object": {"kind": "MutexRule", "apiVersion": "a/v1",
            "metadata": {"resourceVersion": "9", "creationTimestamp": null, "annotations": {}}, "spec": {}}}"#;
        let bookmark: WatchEvent<Item> = serde_json::from_str(bookmark).unwrap();
        assert!(matches!(bookmark, WatchEvent::Bookmark(_)), "{bookmark:?}");
    }

    #[test]
    fn one_value_is_read_whatever_stands_beside_it() {
        let fields = format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300));
        let text = format!(
            r#"{{"metadata": {{"name": "a", "managedFields": [{{"fieldsV1": {fields}}}], "labels": {{"a.b/c": "d", "n": null}}}},
             "data": {{"token": "YWJj", "other": {fields}}}}}"#
        );
        let item: Item = serde_json::from_str(&text).unwrap();
        let label = |name| item.at::<String>(&["metadata", "labels", name]);
        assert_eq!(label("a.b/c").as_deref(), Some("d"));
        assert_eq!((label("n"), label("none")), (None, None));
        let token: k8s_openapi::ByteString = item.at(&["data", "token"]).unwrap();
        assert_eq!(token.0, b"abc");
        assert_eq!(item.at::<String>(&["spec", "any"]), None);
    }

    #[test]
    fn an_object_is_read_as_kube_reads_it_but_for_managed_fields() {
        let full = r#"{"spec": {"a": [1, "x", null]}, "kind": "Job", "metadata": {"name": "a", "generateName": "b", "namespace": "n",
            "uid": "u", "resourceVersion": "7", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 30, "finalizers": ["f"], "labels": {"l": "1"},
            "annotations": {"k": "v"}, "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "o", "uid": "w"}],
            "managedFields": [{"manager": "m"}], "unknown": 1}, "apiVersion": "batch/v1", "status": null}"#;
        let texts = [
            full,
            "{}",
            r#"{"metadata": {}, "kind": "Job"}"#,
            r#"{"metadata": {"labels": null, "finalizers": null, "creationTimestamp": null}, "data": {}}"#,
        ];
        for text in texts {
            let mut wanted: DynamicObject = serde_json::from_str(text).unwrap();
            wanted.metadata.managed_fields = None;
            let item: Item = serde_json::from_str(text).unwrap();
            assert_eq!(item.read_as(Size::Any).unwrap(), wanted, "{text}");
            let managed = item
                .managed()
                .is_some_and(|all| all[0].manager.as_deref() == Some("m"));
            assert_eq!(managed, text == full, "{text}");
        }
        for text in [r#"{"metadata": {"labels": {"a": 1}}}"#, r#"{"metadata": null}"#] {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            let metadata = ObjectMeta::default();
            assert!(serde_json::from_str::<DynamicObject>(text).is_err(), "{text}");
            assert!(Item { metadata, raw }.read_as(Size::Any).is_err(), "{text}");
        }
    }

    #[test]
    fn brackets_in_strings_are_no_levels() {
        let text = r#"{"[[[[": ["\"{", 1]}"#;
        let weight = text.len() + OBJECT + LIST + VALUE;
        assert_eq!(shape(text), Shape { depth: 2, weight });
    }
}
