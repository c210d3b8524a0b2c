//! What the rule remembers of a node from Pre to Post, within the contract's 16 KiB. It loses nothing: what
//! does not fit, or cannot be read, is an error.

use crate::workload::{Id, Watched};
use numo_rule_sdk::{
    RuleError,
    host::Entry,
    serde_json::{self, Map, Value, json},
    verdict::{DATA_BYTES, failed},
};
use std::collections::BTreeMap;

/// How a workload was before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// All replicas were ready.
    Ready,
    /// Some were not.
    Unready {
        /// How many were.
        ready: i64,
    },
}

impl Before {
    /// The one that asks for more.
    fn stricter(self, other: Before) -> Before {
        match (self, other) {
            (Before::Unready { ready: a }, Before::Unready { ready: b }) => {
                Before::Unready { ready: a.max(b) }
            }
            _ => Before::Ready,
        }
    }
}

/// The passes in Pre of a run.
fn passes<'e>(history: &'e [Entry], run: &'e str) -> impl Iterator<Item = &'e Entry> {
    history
        .iter()
        .filter(move |entry| entry.run == run && entry.phase == "pre" && entry.verdict == "pass")
}

/// The remembered workloads.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<Id, Before>);

impl Memory {
    /// Adds a workload; of two memories of it the stricter is kept.
    pub fn add(&mut self, id: Id, before: Before) {
        self.0
            .entry(id)
            .and_modify(|known| *known = known.stricter(before))
            .or_insert(before);
    }

    /// How a workload was.
    pub fn get(&self, id: &Id) -> Option<Before> {
        self.0.get(id).copied()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Id, &Before)> {
        self.0.iter()
    }

    /// As `data-json`: kind, namespace, name, and the ready replicas of those that were not ready.
    pub fn write(&self) -> Result<String, RuleError> {
        let mut kinds = Map::new();
        for (id, before) in &self.0 {
            let namespaces = kinds.entry(id.kind.word()).or_insert_with(|| json!({}));
            let Some(namespaces) = namespaces.as_object_mut() else {
                continue;
            };
            let names = namespaces.entry(&id.namespace).or_insert_with(|| json!({}));
            let Some(names) = names.as_object_mut() else {
                continue;
            };
            names.insert(
                id.name.clone(),
                match before {
                    Before::Ready => Value::Null,
                    Before::Unready { ready } => (*ready).into(),
                },
            );
        }
        let data = json!({ "workloads": kinds }).to_string();
        if data.len() > DATA_BYTES {
            return Err(failed(format!(
                "to remember {} workloads takes {} bytes, more than {DATA_BYTES}; narrow the rule with namespaces or ignoreNamespaces",
                self.0.len(),
                data.len()
            )));
        }
        Ok(data)
    }

    /// All that passes in Pre of this run remembered: an attempt after a drain that stopped half-way saw
    /// fewer pods than the one before. None if Pre never passed.
    ///
    /// The host may keep the data of the newest pass alone, so that each holds what those before it held; once the node
    /// is done it may keep none, which is an error.
    pub fn recall(history: &[Entry], run: &str) -> Result<Option<Memory>, RuleError> {
        if passes(history, run).next().is_none() {
            return Ok(None);
        }
        match Self::kept(history, run)? {
            None => Err(failed("what this rule remembers was not kept")),
            memory => Ok(memory),
        }
    }

    /// The same, for a pass that remembers anew: none if nothing is kept.
    pub fn kept(history: &[Entry], run: &str) -> Result<Option<Memory>, RuleError> {
        let mut memory = None;
        for data in passes(history, run).filter_map(|pass| pass.data_json.as_deref()) {
            memory.get_or_insert_with(Memory::default).read(data)?;
        }
        Ok(memory)
    }

    fn read(&mut self, data: &str) -> Result<(), RuleError> {
        let unreadable = || failed("what this rule remembers cannot be read");
        let data: Value = serde_json::from_str(data).map_err(|_| unreadable())?;
        let kinds = data
            .get("workloads")
            .and_then(Value::as_object)
            .ok_or_else(unreadable)?;
        for (word, namespaces) in kinds {
            let kind = Watched::named(word).ok_or_else(unreadable)?;
            for (namespace, names) in namespaces.as_object().ok_or_else(unreadable)? {
                for (name, before) in names.as_object().ok_or_else(unreadable)? {
                    let before = match before {
                        Value::Null => Before::Ready,
                        other => Before::Unready {
                            ready: other.as_i64().ok_or_else(unreadable)?,
                        },
                    };
                    self.add(
                        Id {
                            kind,
                            namespace: namespace.clone(),
                            name: name.clone(),
                        },
                        before,
                    );
                }
            }
        }
        Ok(())
    }
}
