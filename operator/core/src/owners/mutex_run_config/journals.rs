//! The journals of a run, by what they are to it.

use super::gates::watched::not_watched;
use crate::{
    mark,
    observed::{ChangeView, NodeView, Observed, RunConfigView},
};
use std::collections::HashMap;

/// NodeChanges by the name of their node. Only looked up, never gone through: its order is by chance.
pub(super) type Changes<'a> = HashMap<&'a str, &'a ChangeView>;

/// The journals of a run, by what they are to it.
pub(super) struct Journals<'a> {
    pub current: Changes<'a>,
    /// In flight for another target.
    pub superseded: Changes<'a>,
    /// In flight, of nodes that are gone.
    pub orphans: Vec<&'a ChangeView>,
}

impl<'a> Journals<'a> {
    pub(super) fn of(
        (run, run_id, version_id): (&RunConfigView, &str, &str),
        observed: &Observed,
        nodes: &HashMap<&str, &NodeView>,
        own: &[&'a ChangeView],
    ) -> Self {
        let mut found = Self {
            current: Changes::with_capacity(own.len()),
            superseded: Changes::new(),
            orphans: Vec::new(),
        };
        // Where this kind is not watched anyone may have written a NodeChange: only a node that carries our
        // shield had its turn.
        let watched = not_watched(run, &observed.settings).is_none();
        let mut words: Changes<'a> = Changes::new();
        for change in own.iter().copied() {
            let node = change.spec.node_name.as_str();
            match nodes.get(node).filter(|found| found.uid == change.spec.node_uid) {
                Some(node) if !watched && !shielded_by(node, &run.uid) => {}
                None if change.in_flight() => found.orphans.push(change),
                Some(_) if change.spec.target.run_id == run_id => {
                    found.current.insert(node, change);
                }
                // With `trigger: AnyConfig` the run has another id once its version is rendered. What a person said of a node before that
                // is said of this run; what was taken back, and what was said of another one, is said of none.
                Some(_) if change.is_word() => {
                    let is_said = change.spec.directive.is_some() && change.spec.target.run_id == version_id;
                    if is_said {
                        words.insert(node, change);
                    }
                }
                Some(_) if change.in_flight() => {
                    found.superseded.insert(node, change);
                }
                None | Some(_) => {}
            }
        }
        for (node, change) in words {
            found.current.entry(node).or_insert(change);
        }
        found
    }
}

pub(super) fn shielded_by(node: &NodeView, uid: &str) -> bool {
    mark::shielded(node).is_some_and(|mark| mark.owner == uid)
}
