//! One node's turn: the parts that all owners share.

pub mod believed;
pub mod closed;
pub(crate) mod contradiction;
pub mod directive;
pub mod failed;
pub mod job;
pub mod journal;
pub mod lease;
pub mod machine;
pub mod node;
pub mod overdue;
pub mod phases;
pub mod quarantine;
pub mod reservation;
pub mod shield;
pub mod steps;
pub(crate) mod ungated;
pub(crate) mod withdrawn;
