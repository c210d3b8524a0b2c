//! The room that targets of a run have of their own, beside that of the run.

use super::{member::Member, run_view::RunView};
use crate::{
    admit::room::{Part, Room, Words},
    key::Key,
    ledger,
};
use std::collections::BTreeSet;

/// A part for each target with a limit of its own. A node of a pool that two of them name counts in both.
pub(super) fn parts<'a>(view: &RunView<'_>, members: &[Member<'a>]) -> Vec<Part<'a>> {
    let Key { namespace, name } = &view.run.key;
    let limits = view.intent.limits_of_targets.iter();
    limits
        .map(|of| {
            let are_of = members
                .iter()
                .filter(|member| of.pools.contains(&member.pool.name));
            let nodes: BTreeSet<&str> = are_of.map(|member| member.node.name.as_str()).collect();
            let whose = format!(" of MutexTarget {}", of.target);
            let closed = ledger::closed_by_zero_of(
                of.limit,
                &format!("MutexRunConfig {namespace}/{name} {}", of.field),
                &whose,
                &format!("kubectl -n {namespace} edit mutexrunconfig {name}"),
            );
            let words = Words {
                state: "in flight",
                whose,
                limit: of.field.clone(),
                keys: String::new(),
            };
            let room = Room::of(of.limit.of(nodes.len()), [], words).closed_by(closed);
            Part { nodes, room }
        })
        .collect()
}
