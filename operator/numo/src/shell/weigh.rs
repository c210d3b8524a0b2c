//! What the parts of an object take of memory, for those that strangers may write and that are kept ([`super::crowd`]). Which parts an
//! object has says the file of its kind in `watched/`.

use super::{crowd::EACH, item};
use serde::Serialize;

/// What each text of a list takes beside itself (bytes).
const ENTRY: usize = 64;

/// What texts take (bytes).
pub fn texts(texts: &[String]) -> usize {
    texts
        .iter()
        .fold(0, |sum, text| sum.saturating_add(text.len() + ENTRY))
}

/// What a value takes (bytes).
pub fn value(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| item::weight(&text))
}

/// What an object takes that has these parts (bytes).
pub fn all<const PARTS: usize>(parts: [usize; PARTS]) -> usize {
    parts.into_iter().fold(EACH, usize::saturating_add)
}
