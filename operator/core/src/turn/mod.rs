//! One node's turn: the parts that all owners share.

pub mod believed;
pub mod closed;
pub mod directive;
pub mod job;
pub mod journal;
pub mod lease;
pub mod machine;
pub(crate) mod overdue;
pub mod phases;
pub mod quarantine;
pub mod shield;
pub(crate) mod ungated;
