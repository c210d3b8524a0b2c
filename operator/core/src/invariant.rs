//! The last look before anything is written: every planned action is checked against the invariants of
//! the design, independently of how it was decided. A breach is not carried out and is a fault in numo. What is checked is in `lint/`.

pub use crate::lint::checks::Breach;

use crate::{
    decision::{Decision, Snapshot},
    lint::table::{Seen, keep},
    owners,
};

/// Takes every action out of the decision that would break an invariant, and returns the breaches. Of an owner that was not seen
/// nothing is written.
pub fn lint(snapshot: &Snapshot<'_>, decision: &mut Decision) -> Vec<Breach> {
    if decision.actions.is_empty() {
        return Vec::new();
    }
    let (observed, owner) = (snapshot.observed, snapshot.owner);
    let found = observed.owner(owner).and_then(|view| {
        let seen = Seen {
            now: snapshot.now,
            observed,
            owner,
            view,
        };
        let checks = owners::checks(snapshot, seen)?;
        Some(keep(decision, seen, checks.as_ref()))
    });
    found.unwrap_or_else(|| {
        decision.actions.clear();
        Vec::new()
    })
}
