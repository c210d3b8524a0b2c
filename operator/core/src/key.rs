//! What every object has: its name, and labels and annotations.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Labels or annotations.
pub type Map = BTreeMap<String, String>;

/// A map for look-ups. Its order is by chance: whoever goes through it sorts. Thousands of nodes are looked up in every decision, and their
/// names come from the API server, so a fast hash will do.
pub(crate) type Index<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Namespace and name of an object; the namespace of cluster-scoped objects is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Namespace, or empty.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// A key of its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// As it is displayed. Made of its parts at once: it is written for thousands of nodes in a decision.
    pub(crate) fn text(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => [namespace, "/", &self.name].concat(),
        }
    }

    /// What a reference refers to: without a namespace, or with an empty one, in the namespace `default`.
    pub fn referred(name: Option<&str>, namespace: Option<&str>, default: &str) -> Self {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        Self::new(namespace.unwrap_or(default), name.unwrap_or_default())
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}
