//! What keeps nodes from their turns, whoever the owner is.

pub mod ahead;
pub(crate) mod approval;
pub(crate) mod domains;
pub mod gates;
pub(crate) mod gating;
mod group;
pub mod hours;
pub mod leaving;
pub mod not_ready;
pub(crate) mod notes;
pub mod queue;
pub(crate) mod room;
pub(crate) mod rows;
pub mod schedule;
pub(crate) mod settings;
pub(crate) mod strictest;
pub mod union;
pub mod wave;
pub(crate) mod wave_rules;
pub(crate) mod waves;
pub mod windows;
