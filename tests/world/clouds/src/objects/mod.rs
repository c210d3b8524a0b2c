//! Objects of a cluster in memory, as numo's host lends them, with the Cluster API controllers that make and delete Machines
//! ([`Cluster::step`]). Written from public documentation; compared with no real API server.
//!
//! A test sets up objects and knobs through [`Cluster::state`], and reads there what was asked.

mod controllers;
mod host;
mod samples;

use numo_provider_sdk::{
    Error, ErrorCode,
    serde_json::{Map, Value, json},
};
pub use samples::{CLUSTER, NAMESPACE, deployment, map, pool};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Kind, namespace and name.
pub type Key = (String, String, String);
/// What happens before a call: others act.
type Before = Box<dyn FnOnce(&Cluster) + Send>;

/// The cluster; clones are the same.
#[derive(Clone, Default)]
pub struct Cluster(Arc<Mutex<State>>);

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Cluster")
    }
}

/// What is in it, and how it behaves.
#[derive(Default)]
pub struct State {
    /// The objects.
    pub objects: BTreeMap<Key, Value>,
    /// What was asked, `patch Machine ns/name`; made anew by a test that counts.
    pub calls: Vec<String>,
    /// The answer of the call with this number is lost, and no later call arrives, until this is set anew.
    pub lose: Option<usize>,
    /// Before the call with this number others act.
    pub before: BTreeMap<usize, Before>,
    /// What is refused, `patch Machine`.
    pub denied: BTreeSet<String>,
    /// Kinds that the API server does not serve, or not in this version.
    pub unserved: BTreeSet<String>,
    /// So many calls are answered with 429.
    pub throttled: u32,
    /// What is answered to every read instead of an object.
    pub odd: Option<String>,
    /// Objects on a page; 0: all that fit.
    pub page: usize,
    /// A list does not end.
    pub endless: bool,
    /// Controllers act after every call.
    pub eager: bool,
    /// New Machines are not listed so many times.
    pub unseen: u32,
    /// An object that was made is not there for so many reads of it.
    pub stale: u32,
    /// Objects of a kind that the namespace's ResourceQuota has room for; none: any number.
    pub resource_quota: Option<usize>,
    /// Machines whose Node never joins.
    pub never_joins: bool,
    /// Machines that are being deleted take so many steps more.
    pub linger: i64,
    /// Machines that the cloud has room for; none: any number.
    pub quota: Option<usize>,
    lists_of: BTreeMap<String, u32>,
    unread: BTreeMap<String, u32>,
    version: u64,
    clock: u64,
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.objects.keys()).finish()
    }
}

/// An error of the host.
fn error(code: ErrorCode, status: u16, message: &str) -> Error {
    Error {
        code,
        message: message.to_owned(),
        details: vec![("http-status".to_owned(), status.to_string())],
    }
}

fn key(kind: &str, namespace: &str, name: &str) -> Key {
    (kind.to_owned(), namespace.to_owned(), name.to_owned())
}

/// The text at a pointer.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a pointer.
pub fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// Sets what is at a path of keys; makes what is missing.
pub fn set(value: &mut Value, path: &[&str], new: Value) {
    let mut at = value;
    for key in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Some(fields) = at.as_object_mut() else { return };
        at = fields.entry((*key).to_owned()).or_insert(Value::Null);
    }
    *at = new;
}

impl Cluster {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Objects and knobs.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Controllers act once.
    pub fn step(&self) {
        self.state().step();
    }

    /// Controllers act so often.
    pub fn steps(&self, times: usize) {
        for _ in 0..times {
            self.step();
        }
    }
}

impl State {
    /// Counts anew.
    pub fn forget_calls(&mut self) {
        self.calls.clear();
        self.lose = None;
    }

    /// Calls whose line begins so.
    pub fn count(&self, begin: &str) -> usize {
        self.calls.iter().filter(|call| call.starts_with(begin)).count()
    }

    fn next_version(&mut self) -> Value {
        self.version += 1;
        Value::String(self.version.to_string())
    }

    /// Puts an object in, with all that the API server adds.
    pub fn put(&mut self, mut object: Value) {
        let version = self.next_version();
        let (kind, name) = (
            text(&object, "/kind").to_owned(),
            text(&object, "/metadata/name").to_owned(),
        );
        let key = key(&kind, text(&object, "/metadata/namespace"), &name);
        if text(&object, "/metadata/uid").is_empty() {
            let uid = format!(
                "{:08x}-{kind}",
                self.version.wrapping_mul(2_654_435_761) & 0xffff_ffff
            );
            set(&mut object, &["metadata", "uid"], json!(uid));
            let (hours, rest) = (self.clock / 3600 % 24, self.clock % 3600);
            let now = format!("2026-11-29T{hours:02}:{:02}:{:02}Z", rest / 60, rest % 60);
            set(&mut object, &["metadata", "creationTimestamp"], json!(now));
            set(&mut object, &["metadata", "generation"], json!(1));
            if kind == "Machine" {
                self.lists_of.insert(name, self.unseen);
            }
        }
        if let Some(before) = self.objects.get(&key)
            && before.get("spec") != object.get("spec")
        {
            let generation = number(before, "/metadata/generation") + 1;
            set(&mut object, &["metadata", "generation"], json!(generation));
        }
        set(&mut object, &["metadata", "resourceVersion"], version);
        self.objects.insert(key, object);
    }

    /// One object.
    pub fn get(&self, kind: &str, name: &str) -> Option<&Value> {
        let named = |key: &&Key| key.0 == kind && key.2 == name;
        self.objects.get(self.objects.keys().find(named)?)
    }

    /// Changes one object, if it is there.
    pub fn change(&mut self, kind: &str, name: &str, path: &[&str], new: Value) {
        if let Some(mut object) = self.get(kind, name).cloned() {
            set(&mut object, path, new);
            self.put(object);
        }
    }

    /// Takes one away at once.
    pub fn remove(&mut self, kind: &str, name: &str) {
        self.objects.retain(|key, _| !(key.0 == kind && key.2 == name));
    }

    /// All of a kind, by name.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        let of_kind = self.objects.iter().filter(|(key, _)| key.0 == kind);
        of_kind.map(|(_, value)| value.clone()).collect()
    }

    /// Names of all of a kind.
    pub fn names(&self, kind: &str) -> Vec<String> {
        let of_kind = self.objects.keys().filter(|key| key.0 == kind);
        of_kind.map(|key| key.2.clone()).collect()
    }

    /// Begins to delete a Machine, as anybody may.
    pub fn delete_machine(&mut self, name: &str) {
        let is_going = self
            .get("Machine", name)
            .is_some_and(|machine| !text(machine, "/metadata/deletionTimestamp").is_empty());
        if !is_going {
            let now = json!("2026-11-29T23:00:00Z");
            self.change("Machine", name, &["metadata", "deletionTimestamp"], now);
        }
    }
}
