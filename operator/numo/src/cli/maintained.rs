//! What is decided for NodeMaintenances: their status says what each waits for, and the decision what of it is to be approved.

use super::live::Look;
use numo_core::{Decision, Owner, Snapshot, decide, verdict::Answers};

/// The decision for one.
pub fn decision(look: &Look, owner: &Owner) -> Decision {
    let snapshot = Snapshot {
        now: look.now,
        observed: &look.store.observed,
        owner,
        asked: None,
    };
    decide(&snapshot, &Answers::default())
}
