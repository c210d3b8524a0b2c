//! How the judge and the world read objects: from what stands in them alone. numo's core reads them in its own way, and whoever asked it
//! would not see where it is wrong (`tests/structure/tests/judge.rs`).

use numo_api::{Step, marks};
use numo_core::observed::{ChangeView, NodeView, PoolView, RuleView};
use serde_json::Value;

/// How long a node lease holds (seconds).
pub(crate) const LEASE_SECONDS: i64 = 3600;

/// Whether the node of a NodeChange has its turn: it was admitted, and that is not over. One that a person made has none before numo
/// writes a step to it.
pub(crate) fn has_turn(change: &ChangeView) -> bool {
    match change.status.step {
        None => {
            let is_of_numo = change.annotations.contains_key(marks::TURN);
            is_of_numo || change.spec.directive.is_none() && change.generation <= 1
        }
        Some(Step::Selected | Step::Done | Step::Failed | Step::Skipped) => false,
        Some(_) => true,
    }
}

/// What tells a rule as it is from any other, and from itself before an edit.
pub(crate) fn edition(rule: &RuleView) -> String {
    format!("{}/{}", rule.uid, rule.generation)
}

/// Whether two names of a provider's are the same: it writes them in large and in small letters.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// Whom a mark is of: the uid of an owner.
fn owner_of(mark: Option<&String>) -> Option<String> {
    let mark: Value = serde_json::from_str(mark?).ok()?;
    mark["owner"].as_str().map(str::to_owned)
}

/// Whose mark of a pause a pool carries.
pub(crate) fn pauser(pool: &PoolView) -> Option<String> {
    owner_of(pool.annotations.get(marks::PAUSED_BY))
}

/// Whose mark of a cordon a node carries.
pub(crate) fn cordoner(node: &NodeView) -> Option<String> {
    owner_of(node.annotations.get(marks::CORDONED_BY))
}
