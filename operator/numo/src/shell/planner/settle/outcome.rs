//! What came of one status. It is said here, and handled in one place for all kinds of owners.

use crate::shell::events::Published;
use jiff::Timestamp;

/// What came of one status.
#[derive(Debug)]
pub enum Outcome {
    /// There was nothing to write.
    Same,
    /// It differs, and nothing may be written now: the leader lease is not sure. It is looked at again soon.
    Withheld,
    /// It differs, and is written at that time.
    Later(Timestamp),
    /// It was not written.
    Failed(kube::Error),
    /// It was written.
    Written {
        /// What is told of it.
        events: Vec<Published>,
        /// When it says something else by itself.
        again: Option<Timestamp>,
    },
}
