//! Domains of an owner, such as zones: a domain is finished before the next begins. Which nodes those are, and when one of them is
//! done, the owner says.
//!
//! A node may begin when fewer domains before its own than `atOnce` are unfinished, and when no more domains than that, its own among
//! them, have nodes in turn. Nobody knows where a node without the label belongs: it does not begin.

use crate::{
    key::Index,
    ledger, names,
    observed::{NodeView, Values},
    why::Why,
};
use numo_api::{Reason, domains::Domains as Given};
use std::{cell::RefCell, collections::BTreeMap};

/// The field `domains` of an owner, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DomainOrder<'a> {
    /// What has it, such as `spec.domains` or `MutexBinding zones spec.domains`.
    field: String,
    key: &'a str,
    at_once: usize,
    named: &'a [String],
}

impl<'a> DomainOrder<'a> {
    /// Reads it from the field of this name.
    ///
    /// Errors: the field, what was found and what is wanted.
    pub fn parse(field: &str, given: &'a Given) -> Result<Self, String> {
        let key = given.key.as_deref().unwrap_or_default();
        if key.is_empty() {
            return Err(format!("{field}.key: found none, wanted the key of a label"));
        }
        if let Some(problem) = names::wrong_label_key(key) {
            return Err(format!("{field}.key: {problem}"));
        }
        let at_once = given.at_once.unwrap_or(1);
        let at_once = usize::try_from(at_once)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| format!("{field}.atOnce: found {at_once}, wanted 1 or more"))?;
        let named = given.order.as_deref().unwrap_or_default();
        let mut twice = named
            .iter()
            .enumerate()
            .filter(|(place, value)| named.iter().take(*place).any(|before| before == *value));
        if let Some((_, value)) = twice.next() {
            return Err(format!(
                "{field}.order: found {value:?} twice, wanted each value once"
            ));
        }
        Ok(Self {
            field: field.to_owned(),
            key,
            at_once,
            named,
        })
    }

    /// Whether two objects ask for the same.
    pub fn agrees_with(&self, other: &Self) -> bool {
        (self.key, self.at_once, self.named) == (other.key, other.at_once, other.named)
    }

    /// The field that asks for it.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The domain of a node, if it has one.
    fn domain<'n>(&self, node: &'n NodeView) -> Option<&'n str> {
        let value = node.labels.value(self.key);
        value.filter(|value| !value.is_empty())
    }

    /// The place of a domain: those that are named first, then by their values.
    fn place<'n>(&self, domain: &'n str) -> (usize, &'n str) {
        let place = self.named.iter().position(|named| named == domain);
        (place.unwrap_or(self.named.len()), domain)
    }
}

/// One unfinished domain.
#[derive(Debug)]
struct Open<'a> {
    /// One of its nodes that are not done.
    node: &'a str,
    /// Whether one of them goes on without a person.
    goes_on: bool,
}

/// How far an owner is with its domains.
#[derive(Debug)]
pub(crate) struct Domains<'a> {
    order: DomainOrder<'a>,
    /// The unfinished ones, in their order.
    open: BTreeMap<(usize, &'a str), Open<'a>>,
    /// What was said of domains that wait for those before them: of few domains, to many nodes.
    said: RefCell<Index<&'a str, Option<Why>>>,
    /// Those that have nodes in turn: one of these nodes, and whether all of them go on by a person's word only. Empty for nodes
    /// without the label.
    in_turn: BTreeMap<&'a str, (&'a str, bool)>,
}

impl<'a> Domains<'a> {
    /// Of nodes that are not done, each with whether it goes on without a person, and of those that are in turn, each with whether
    /// it goes on by a person's word only.
    pub fn of(
        order: DomainOrder<'a>,
        behind: impl IntoIterator<Item = (&'a NodeView, bool)>,
        in_turn: impl IntoIterator<Item = (&'a NodeView, bool)>,
    ) -> Self {
        let mut domains = Self {
            order,
            open: BTreeMap::new(),
            said: RefCell::default(),
            in_turn: BTreeMap::new(),
        };
        for (node, goes_on) in behind {
            let Some(domain) = domains.order.domain(node) else {
                continue;
            };
            let place = domains.order.place(domain);
            let open = domains.open.entry(place).or_insert(Open {
                node: &node.name,
                goes_on: false,
            });
            open.goes_on |= goes_on;
        }
        for (node, is_kept) in in_turn {
            domains.begin(node, is_kept);
        }
        domains
    }

    fn begin(&mut self, node: &'a NodeView, is_kept: bool) {
        let domain = self.order.domain(node).unwrap_or_default();
        let (_, all_kept) = self.in_turn.entry(domain).or_insert((&node.name, true));
        *all_kept &= is_kept;
    }

    /// A node takes a place now.
    pub fn take(&mut self, node: &'a NodeView) {
        self.begin(node, false);
    }

    /// Why a node waits for other domains, or has none.
    pub fn refusal(&self, node: &'a NodeView) -> Option<Why> {
        let Some(domain) = self.order.domain(node) else {
            let DomainOrder { field, key, .. } = &self.order;
            let message = format!(
                "Node {} has no label {key}, by which nodes have their turns ({field}); label it, and it begins",
                node.name
            );
            return Some(Why::new(Reason::NoDomain, message));
        };
        let mut said = self.said.borrow_mut();
        let before = said.entry(domain).or_insert_with(|| self.before(domain));
        before.clone().or_else(|| self.beside(domain))
    }

    /// Domains that come before this one are not finished.
    fn before(&self, domain: &str) -> Option<Why> {
        let DomainOrder {
            field, key, at_once, ..
        } = &self.order;
        let before = self.open.range(..self.order.place(domain));
        let first: Vec<_> = before.take(*at_once).collect();
        if first.len() < *at_once {
            return None;
        }
        let ((_, other), open) = first.first()?;
        let message = format!(
            "Node {} of {key}={other} is not done, and nodes of {domain} come after that ({field})",
            open.node
        );
        let goes_on = first.iter().any(|(_, open)| open.goes_on);
        Some(ledger::ended_by_person(
            Why::new(Reason::OtherDomain, message),
            !goes_on,
        ))
    }

    /// As many other domains have nodes in turn as may.
    fn beside(&self, domain: &str) -> Option<Why> {
        let DomainOrder {
            field, key, at_once, ..
        } = &self.order;
        let others = self.in_turn.iter().filter(|(other, _)| **other != domain);
        let others: Vec<_> = others.collect();
        if others.len() < *at_once {
            return None;
        }
        let (other, (node, _)) = others.first()?;
        let message =
            format!("Node {node} of {key}={other} has its turn, and {field}.atOnce allows {at_once}");
        let is_kept = others.iter().all(|(_, (_, is_kept))| *is_kept);
        Some(ledger::ended_by_person(
            Why::new(Reason::OtherDomain, message),
            is_kept,
        ))
    }
}
