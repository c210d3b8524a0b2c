//! How many nodes of an owner may be away at once, and which never together. What counts as away, and how many may be, the owner says.

use crate::{ledger, observed::NodeView, text::counted, why::Why};
use numo_api::Reason;
use std::{cell::OnceCell, collections::BTreeMap};

/// Nodes named in one sentence.
const NAMED: usize = 5;

/// The words in which an owner says that there is no room.
#[derive(Debug)]
pub(crate) struct Words {
    /// What the nodes are that have a place, such as `in flight`.
    pub state: &'static str,
    /// The field that says how many may be; empty where several do.
    pub limit: String,
    /// The field that has the keys.
    pub keys: String,
}

/// The nodes of an owner that are away, and the values of its mutex keys that they hold.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    /// Each with whether it goes on only by a person's word.
    nodes: Vec<(&'a NodeView, bool)>,
    /// How many of them do.
    kept: usize,
    /// The node that holds a value of a key, and whether it goes on only by a person's word.
    busy: BTreeMap<(&'a str, &'a str), (&'a NodeView, bool)>,
    limit: usize,
    keys: Vec<&'a str>,
    words: Words,
    /// The field that lets nobody begin, in a sentence.
    closed: Option<Why>,
    /// The sentence that all nodes share for which there is no room.
    full: OnceCell<Why>,
    /// Whether some of them are only being asked about in phase Admit.
    some_are_asked: bool,
}

impl<'a> Room<'a> {
    /// An empty one for so many nodes, of which no two have the same value of a label with one of these keys.
    pub fn of(limit: usize, keys: impl IntoIterator<Item = &'a String>, words: Words) -> Self {
        Self {
            nodes: Vec::new(),
            kept: 0,
            busy: BTreeMap::new(),
            limit,
            keys: keys.into_iter().map(String::as_str).collect(),
            words,
            closed: None,
            full: OnceCell::new(),
            some_are_asked: false,
        }
    }

    /// The same, closed by a field that lets nobody begin.
    #[must_use]
    pub fn closed_by(self, closed: Option<Why>) -> Self {
        Self { closed, ..self }
    }

    /// A node has a place; `is_kept` says that it goes on only by a person's word.
    pub fn keep(&mut self, node: &'a NodeView, is_kept: bool) {
        self.nodes.push((node, is_kept));
        self.kept += usize::from(is_kept);
        self.full = OnceCell::new();
        for key in &self.keys {
            if let Some(value) = node.labels.get(*key) {
                self.busy.insert((key, value), (node, is_kept));
            }
        }
    }

    /// A node takes a place now: for its turn, or while rules are asked about it.
    pub fn take(&mut self, node: &'a NodeView, is_asked_about: bool) {
        self.some_are_asked |= is_asked_about;
        self.keep(node, false);
    }

    /// The nodes that have a place, each with whether it goes on only by a person's word.
    pub fn away(&self) -> impl Iterator<Item = (&'a NodeView, bool)> {
        self.nodes.iter().copied()
    }

    /// How many nodes have a place.
    pub fn found(&self) -> usize {
        self.nodes.len()
    }

    /// Whether all that have a place go on only by a person's word.
    pub fn is_kept(&self) -> bool {
        !self.nodes.is_empty() && self.kept == self.nodes.len()
    }

    fn state(&self) -> String {
        let asked = if self.some_are_asked {
            " or having rules evaluated"
        } else {
            ""
        };
        format!("{}{asked}", self.words.state)
    }

    /// Why there is no place for the node, if so.
    pub fn refusal(&self, node: &NodeView) -> Option<Why> {
        let full = || (self.found() >= self.limit).then(|| self.full.get_or_init(|| self.no_place()).clone());
        let closed = self.closed.clone();
        closed.or_else(|| self.held_key(node)).or_else(full)
    }

    /// Another node holds a value of a key that the node has too.
    fn held_key(&self, node: &NodeView) -> Option<Why> {
        let mut keys = self.keys.iter();
        keys.find_map(|key| {
            let value = node.labels.get(*key)?;
            let (other, is_kept) = self.busy.get(&(*key, value.as_str()))?;
            let message = format!(
                "Node {} with the same {key}={value} is {} ({})",
                other.name,
                self.state(),
                self.words.keys
            );
            let why = Why::new(Reason::MutexKeyBusy, message);
            Some(ledger::ended_by_person(why, *is_kept))
        })
    }

    fn no_place(&self) -> Why {
        let nodes = self.nodes.iter();
        let names: Vec<&str> = nodes.take(NAMED).map(|(node, _)| node.name.as_str()).collect();
        let limit = match self.words.limit.as_str() {
            "" => format!("{} may be", self.limit),
            field => format!("{field} allows {}", self.limit),
        };
        let are = if self.found() == 1 { "is" } else { "are" };
        let message = format!(
            "{} {are} {}, and {limit}: {}",
            counted(self.found(), "node"),
            self.state(),
            names.join(", ")
        );
        ledger::ended_by_person(Why::new(Reason::WaitingForTurn, message), self.is_kept())
    }
}
