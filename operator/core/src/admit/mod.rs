//! What keeps nodes from their turns, whoever the owner is.

pub mod leaving;
pub mod not_ready;
pub mod window;
