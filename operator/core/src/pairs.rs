//! The labels and annotations of a node. A decision reads the same few of thousands of nodes, and a look-up in a map waits for the memory of
//! each key that it passes: the values of these few stand side by side as well, from the time that a node is taken in.

use crate::key::Map;
use numo_api::marks::{self, openshift};
use std::ops::{Deref, DerefMut};

/// How many values are at hand: those that are read of every node in every decision.
const AT_HAND: usize = 13;

/// The place of the value of a key among those.
#[inline]
fn place(key: &str) -> Option<usize> {
    Some(match key {
        openshift::CURRENT_CONFIG => 0,
        openshift::DESIRED_CONFIG => 1,
        openshift::STATE => 2,
        openshift::CURRENT_IMAGE => 3,
        openshift::DESIRED_IMAGE => 4,
        marks::SHIELDED_BY => 5,
        marks::LABELLED_BY => 6,
        openshift::OS => 7,
        openshift::WORKER => 8,
        openshift::MASTER => 9,
        openshift::ZONE => 10,
        openshift::RELEASE_VERSION => 11,
        marks::CORDONED_BY => 12,
        _ => return None,
    })
}

/// Where the value of a key is looked up.
pub trait Values {
    /// The value, if the key is there.
    fn value(&self, key: &str) -> Option<&str>;
}

impl Values for Map {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// Labels or annotations of a node: a [`Map`], of which the values that every decision reads are at hand. Whoever edits the map puts them out
/// of hand: what is not at hand is looked up.
#[derive(Clone, Default)]
pub struct Pairs {
    all: Map,
    at_hand: Option<AtHand>,
}

/// The values at hand.
#[derive(Clone)]
struct AtHand {
    /// One after the other, in the order of the places of their keys.
    values: Box<str>,
    /// Where the value at each place ends.
    ends: [u16; AT_HAND],
    /// Which of them are there, a bit each: a value may be empty.
    there: u16,
}

impl AtHand {
    /// Those of a map; none if they are too long to be worth it.
    fn of(all: &Map) -> Option<Self> {
        let mut found = [None; AT_HAND];
        for (key, value) in all {
            if let Some(slot) = place(key).and_then(|place| found.get_mut(place)) {
                *slot = Some(value.as_str());
            }
        }
        let mut values = String::with_capacity(found.into_iter().flatten().map(str::len).sum());
        let (mut ends, mut there) = ([0; AT_HAND], 0);
        for ((place, value), end) in found.into_iter().enumerate().zip(&mut ends) {
            there |= u16::from(value.is_some()) << place;
            values.push_str(value.unwrap_or_default());
            *end = u16::try_from(values.len()).ok()?;
        }
        Some(Self {
            values: values.into(),
            ends,
            there,
        })
    }

    #[inline]
    fn value(&self, place: usize) -> Option<&str> {
        if (self.there >> place) & 1 == 0 {
            return None;
        }
        let end = |place: usize| self.ends.get(place).copied().map(usize::from);
        let begin = place.checked_sub(1).map_or(Some(0), end)?;
        self.values.get(begin..end(place)?)
    }
}

impl Pairs {
    /// Puts the values at hand that every decision reads, after an edit. Nothing but time depends on it.
    pub fn put_at_hand(&mut self) {
        self.at_hand = AtHand::of(&self.all);
    }
}

impl Values for Pairs {
    #[inline]
    fn value(&self, key: &str) -> Option<&str> {
        match (&self.at_hand, place(key)) {
            (Some(at_hand), Some(place)) => at_hand.value(place),
            _ => self.all.value(key),
        }
    }
}

impl From<Map> for Pairs {
    fn from(all: Map) -> Self {
        let at_hand = AtHand::of(&all);
        Self { all, at_hand }
    }
}

impl FromIterator<(String, String)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        pairs.into_iter().collect::<Map>().into()
    }
}

impl Deref for Pairs {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.all
    }
}

impl DerefMut for Pairs {
    fn deref_mut(&mut self) -> &mut Map {
        self.at_hand = None;
        &mut self.all
    }
}

/// What is at hand says nothing that the map does not.
impl PartialEq for Pairs {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Pairs {}

impl std::fmt::Debug for Pairs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.all.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; AT_HAND] = [
        openshift::CURRENT_CONFIG,
        openshift::DESIRED_CONFIG,
        openshift::STATE,
        openshift::CURRENT_IMAGE,
        openshift::DESIRED_IMAGE,
        marks::SHIELDED_BY,
        marks::LABELLED_BY,
        openshift::OS,
        openshift::WORKER,
        openshift::MASTER,
        openshift::ZONE,
        openshift::RELEASE_VERSION,
        marks::CORDONED_BY,
    ];

    fn pairs<'k>(keys: impl IntoIterator<Item = &'k str>, value: impl Fn(&str) -> String) -> Pairs {
        keys.into_iter().map(|key| (key.to_owned(), value(key))).collect()
    }

    /// The map and what is at hand say the same of every key.
    fn check(pairs: &Pairs) {
        for key in KEYS.into_iter().chain(["example.com/other", ""]) {
            assert_eq!(
                pairs.value(key),
                pairs.get(key).map(String::as_str),
                "{key} of {pairs:?}"
            );
        }
    }

    #[test]
    fn every_key_at_hand_has_a_place_of_its_own() {
        let mut places: Vec<usize> = KEYS.iter().filter_map(|key| place(key)).collect();
        places.sort_unstable();
        assert_eq!(places, (0..AT_HAND).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_at_hand_is_what_the_map_says() {
        check(&Pairs::default());
        for (number, key) in KEYS.into_iter().enumerate() {
            check(&pairs([key], str::to_owned));
            check(&pairs([key], |_| String::new()));
            check(&pairs(KEYS.into_iter().skip(number), str::to_owned));
            let others = KEYS.into_iter().filter(|other| *other != key);
            check(&pairs(others.chain(["example.com/other"]), str::to_owned));
        }
    }

    #[test]
    fn values_too_long_to_be_at_hand_are_looked_up() {
        for length in [0, 1, 5041, 5042, 70_000] {
            let pairs = pairs(KEYS, |_| "x".repeat(length));
            assert_eq!(pairs.at_hand.is_some(), length < 5042, "{length}");
            check(&pairs);
        }
    }

    #[test]
    fn an_edit_is_seen_at_once_and_after_it_was_put_at_hand() {
        let mut edited = pairs(KEYS, str::to_owned);
        edited.remove(openshift::ZONE);
        edited.insert(openshift::STATE.to_owned(), "Working".to_owned());
        assert_eq!(
            (edited.value(openshift::ZONE), edited.value(openshift::STATE)),
            (None, Some("Working"))
        );
        check(&edited);
        edited.put_at_hand();
        assert!(edited.at_hand.is_some());
        check(&edited);
    }
}
