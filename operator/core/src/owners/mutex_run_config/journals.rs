//! The journals of a run, by what they are to it.

use super::gates::watched::not_watched;
use crate::{
    key::Index,
    mark,
    observed::{ChangeView, NodeView, Observed, RunConfigView},
    turn::{contradiction, journal},
};
use std::collections::hash_map::Entry;

/// NodeChanges by the name of their node. One of a node of the same name that is gone may be among them.
#[derive(Default)]
struct Named<'a> {
    by_name: Index<&'a str, &'a ChangeView>,
    /// Further ones of a name, which are rare.
    twins: Index<&'a str, Vec<&'a ChangeView>>,
}

impl<'a> Named<'a> {
    fn add(&mut self, change: &'a ChangeView) {
        match self.by_name.entry(&change.spec.node_name) {
            Entry::Vacant(free) => _ = free.insert(change),
            Entry::Occupied(taken) => self.twins.entry(taken.key()).or_default().push(change),
        }
    }

    /// That of the node which is there now.
    fn of(&self, node: &NodeView) -> Option<&'a ChangeView> {
        let named = self.by_name.get(node.name.as_str()).copied()?;
        let is_its = |change: &&ChangeView| change.spec.node_uid == node.uid;
        let mut twins = self.twins.get(node.name.as_str()).into_iter().flatten().copied();
        // The last one counts.
        twins.rfind(is_its).or_else(|| Some(named).filter(is_its))
    }
}

/// The journals of a run, by what they are to it.
#[derive(Default)]
pub(super) struct Journals<'a> {
    current: Named<'a>,
    /// In flight for another target.
    superseded: Named<'a>,
    /// What a person said of a node before the run had its id.
    words: Named<'a>,
    /// In flight, of nodes that are gone.
    pub orphans: Vec<&'a ChangeView>,
    /// In flight, of nodes that are there under another name.
    misnamed: Vec<&'a ChangeView>,
    /// The owner, where this kind is not watched and anyone may have written a NodeChange: only a node that carries our shield had its turn.
    unwatched: Option<&'a str>,
}

impl<'a> Journals<'a> {
    pub(super) fn of(
        (run, run_id, version_id): (&'a RunConfigView, &str, &str),
        observed: &Observed,
        own: &[&'a ChangeView],
    ) -> Self {
        let mut found = Self {
            unwatched: not_watched(run, &observed.settings).map(|_| run.uid.as_str()),
            ..Self::default()
        };
        found.current.by_name.reserve(own.len());
        let is_gone = |change: &ChangeView| {
            let node = observed.nodes.get(&change.spec.node_name);
            node.is_none_or(|node| node.uid != change.spec.node_uid)
        };
        for change in own.iter().copied() {
            if change.in_flight() && is_gone(change) {
                let is_misnamed = contradiction::misnamed(observed, change).is_some();
                let of = if is_misnamed {
                    &mut found.misnamed
                } else {
                    &mut found.orphans
                };
                of.push(change);
            } else if change.spec.target.run_id == run_id {
                found.current.add(change);
            } else if change.is_word() && !observed.is_under_way(change) {
                // With `trigger: AnyConfig` the run has another id once its version is rendered. What a person said of a node before that
                // is said of this run; what was taken back, and what was said of another one, is said of none.
                if change.spec.directive.is_some() && change.spec.target.run_id == version_id {
                    found.words.add(change);
                }
            } else if observed.is_under_way(change) {
                found.superseded.add(change);
            }
        }
        found
    }

    /// The journal of a node in this run, and the one that is in flight for another target.
    pub(super) fn of_node(&self, node: &NodeView) -> (Option<&'a ChangeView>, Option<&'a ChangeView>) {
        if self.unwatched.is_some_and(|owner| !shielded_by(node, owner)) {
            return (None, None);
        }
        let misnamed = || {
            let mut misnamed = self.misnamed.iter().copied();
            misnamed.find(|change| change.spec.node_uid == node.uid)
        };
        let current = self.current.of(node).or_else(misnamed);
        let current = current.or_else(|| self.words.of(node));
        (current, self.superseded.of(node))
    }
}

pub(super) fn shielded_by(node: &NodeView, uid: &str) -> bool {
    mark::shielded(node).is_some_and(|mark| mark.owner == uid)
}

/// Whether a time of a journal is later than another. Thousands are compared in a pass: the seconds as text, as they
/// are all of one form, and only those of one second by value.
pub(super) fn is_later(a: &str, b: &str) -> bool {
    const TO_SECONDS: usize = "2026-11-21T10:00:00".len();
    match (a.get(..TO_SECONDS), b.get(..TO_SECONDS)) {
        (Some(one), Some(other)) if one != other => one > other,
        _ => journal::time(Some(a)) > journal::time(Some(b)),
    }
}
