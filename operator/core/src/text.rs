//! Text that is bounded before it is kept or shown, and numbers and lists of things in words.

pub use numo_api::text::{clip, counted, first_of};
