//! One node's turn: the parts that all owners share.

pub(crate) mod across;
pub mod believed;
pub mod closed;
pub(crate) mod contradiction;
pub mod cordon;
pub mod directive;
pub mod failed;
pub mod job;
pub mod journal;
pub mod lease;
pub mod machine;
pub mod node;
pub mod overdue;
pub(crate) mod own_drain;
pub mod phases;
pub(crate) mod put_back;
pub mod quarantine;
pub mod reservation;
pub mod shield;
pub mod steps;
mod taking;
pub(crate) mod ungated;
pub(crate) mod withdrawn;
