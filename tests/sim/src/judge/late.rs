//! Writes of a replaced leader (9): what such a write changes must be as it was when the write was decided on, or it must fail.

use super::{Verdict, breach};
use numo_core::{action::Action, observed::Observed};

/// What a write was decided on: the values that it changes, as they were then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read(Vec<String>);

impl Read {
    /// The values that the write changes, as they are in `known`.
    pub fn of(known: &Observed, action: &Action) -> Self {
        Self(match action {
            Action::WriteJournal { key, .. } | Action::DeleteChange { key, .. } => {
                let change = known.changes.get(key);
                change.map_or_else(Vec::new, |change| {
                    vec![change.uid.clone(), change.resource_version.clone()]
                })
            }
            Action::PatchNode(patch) => known.nodes.get(&patch.node).map_or_else(Vec::new, |node| {
                let labels = patch.labels.iter().map(|one| node.labels.get(&one.key));
                let annotations = patch.annotations.iter();
                let annotations = annotations.map(|one| node.annotations.get(&one.key));
                let values = labels.chain(annotations).map(|value| format!("{value:?}"));
                let cordon = patch.unschedulable.map(|_| node.unschedulable.to_string());
                let taints = patch.taints.as_ref().map(|_| node.taints.to_string());
                let uid = std::iter::once(node.uid.clone());
                uid.chain(values).chain(cordon).chain(taints).collect()
            }),
            Action::PatchPool(patch) => known.pools.get(&patch.pool).map_or_else(Vec::new, |pool| {
                let paused = patch.paused.map(|_| pool.paused.to_string());
                let selector = patch.selector.as_ref().map(|_| pool.selector.to_string());
                let mark = format!("{:?}", pool.annotations.get(&patch.annotation.key));
                let all = [pool.uid.clone(), mark];
                all.into_iter().chain(paused).chain(selector).collect()
            }),
            Action::RenewLease { node, .. } => {
                let lease = known.leases.get(node);
                lease.map_or_else(Vec::new, |lease| vec![lease.resource_version.clone()])
            }
            Action::ReleaseLease { node, .. } => {
                let lease = known.leases.get(node);
                lease.map_or_else(Vec::new, |lease| vec![lease.uid.clone()])
            }
            _ => Vec::new(),
        })
    }

    /// 9: a late write that was accepted has changed nothing that somebody else had changed since.
    pub fn overwritten(&self, before: &Self, after: &Self, action: &Action) -> Verdict {
        if before == self || after == before {
            return Ok(());
        }
        breach(
            "9",
            format!("a replaced leader's write went through, and {before:?} was {self:?} to it: {action:?}"),
        )
    }
}
