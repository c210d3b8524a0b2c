//! What keeps nodes from their turns, whoever the owner is.

pub mod not_ready;
pub mod window;
