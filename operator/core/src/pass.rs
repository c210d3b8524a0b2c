//! One pass over an owner: what each part of the page in `decide.rs` is for its kind. The order is not said here.

use crate::{decision::Decision, turn::steps::Next};

/// One pass over an owner: what each part of the page in `decide.rs` is for its kind.
pub trait Pass {
    /// Leaves the owner alone in this pass, where numo may not or cannot see to it: the report says why.
    fn refuse(&mut self) -> Next;
    /// Moves each node that has its turn one step further; a turn ends whose node is gone.
    fn advance_turns(&mut self);
    /// Gives back what nodes still hold that have no turn any more.
    fn restore_rest(&mut self);
    /// Begins as many nodes as may be, and reports the rest; or leaves, once nothing is in flight.
    fn go_on(&mut self);
    /// Lets Jobs go that nobody waits for, keeps the finalizer while something is held, and forgets old journals.
    fn tidy(&mut self);
    /// The decision.
    fn finish(self) -> Decision;
}
