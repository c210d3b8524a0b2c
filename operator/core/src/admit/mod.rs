//! What keeps nodes from their turns, whoever the owner is.

pub(crate) mod first;
pub(crate) mod gates;
pub mod leaving;
pub mod not_ready;
pub(crate) mod queue;
pub(crate) mod room;
pub mod window;
