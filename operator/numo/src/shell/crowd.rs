//! How much is kept of what strangers write, whatever its kind: who may write objects in a namespace that numo heeds nobody in could
//! otherwise fill its memory with them. It counts, and knows nothing of what an object means; which objects count is said by the store.

use super::kind::Kind;
use numo_core::observed::Key;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// What the objects of strangers may weigh in memory (bytes), of all kinds and namespaces, and those of one namespace.
pub(super) const ALL: usize = 96 << 20;
const OF_ONE: usize = 32 << 20;
/// What any object takes beside its text (bytes): its view, its version, its place in maps.
pub const EACH: usize = 2 << 10;
/// How soon a namespace is listed again at the earliest once there is a place for what was turned away.
const AGAIN: Duration = Duration::from_mins(10);

/// A namespace of which not everything of a kind is kept.
#[derive(Debug, Default)]
struct Away {
    /// Whether something has gone since that made a place.
    has_place: bool,
    /// Whether something was turned away since it was listed again.
    again: bool,
    listed: Option<Instant>,
}

/// Which objects have a place.
#[derive(Debug, Default)]
pub struct Crowd {
    places: BTreeMap<(Kind, Key), usize>,
    of: BTreeMap<String, usize>,
    all: usize,
    away: BTreeMap<(Kind, String), Away>,
}

impl Crowd {
    /// Takes a place for an object of this weight (bytes) in the stead of the one that it had. False if there is none: it is turned away.
    pub fn take(&mut self, kind: Kind, key: &Key, weight: usize) -> bool {
        self.free(kind, key);
        let own = self.of.get(&key.namespace).copied().unwrap_or(0);
        if own.saturating_add(weight) <= OF_ONE && self.all.saturating_add(weight) <= ALL {
            self.all += weight;
            self.of.insert(key.namespace.clone(), own + weight);
            self.places.insert((kind, key.clone()), weight);
            return true;
        }
        let place = (kind, key.namespace.clone());
        if !self.away.contains_key(&place) {
            tracing::warn!(
                ?kind,
                namespace = key.namespace,
                first = key.name,
                "objects are not kept: there are too many of strangers', or too large ones"
            );
        }
        let away = self.away.entry(place).or_default();
        (away.has_place, away.again) = (false, true);
        false
    }

    /// Counts an object that is kept whatever the others take.
    pub fn hold(&mut self, kind: Kind, key: &Key, weight: usize) {
        self.free(kind, key);
        self.all = self.all.saturating_add(weight);
        let own = self.of.entry(key.namespace.clone()).or_default();
        *own = own.saturating_add(weight);
        self.places.insert((kind, key.clone()), weight);
    }

    /// What an object takes that has a place (bytes).
    pub fn weight(&self, kind: Kind, key: &Key) -> Option<usize> {
        self.places.get(&(kind, key.clone())).copied()
    }

    /// A kind was listed again in a namespace: whoever was turned away is there no longer, but for those that were turned away again.
    pub fn listed(&mut self, kind: Kind, namespace: &str) {
        let place = (kind, namespace.to_owned());
        if self.away.get(&place).is_some_and(|away| !away.again) {
            self.away.remove(&place);
        }
    }

    /// An object is gone, or counts no longer.
    pub fn leave(&mut self, kind: Kind, key: &Key) {
        if !self.free(kind, key) {
            return;
        }
        for ((_, namespace), away) in &mut self.away {
            let own = self.of.get(namespace).copied().unwrap_or(0);
            // There is room for the smallest at least, and for more than one of them.
            away.has_place |= own < OF_ONE / 2 && self.all < ALL / 2;
        }
    }

    fn free(&mut self, kind: Kind, key: &Key) -> bool {
        let Some(weight) = self.places.remove(&(kind, key.clone())) else {
            return false;
        };
        self.all = self.all.saturating_sub(weight);
        if let Some(own) = self.of.get_mut(&key.namespace) {
            *own = own.saturating_sub(weight);
            if *own == 0 {
                self.of.remove(&key.namespace);
            }
        }
        true
    }

    /// A namespace is heeded now: what was turned away there is wanted.
    pub fn heed(&mut self, namespace: &str) {
        for ((_, of), away) in &mut self.away {
            if of == namespace {
                (away.has_place, away.listed) = (true, None);
            }
        }
    }

    /// Whether something of a kind was turned away in a namespace.
    pub fn is_away(&self, kind: Kind, namespace: &str) -> bool {
        self.away.contains_key(&(kind, namespace.to_owned()))
    }

    /// Whether nobody was turned away.
    pub fn is_whole(&self) -> bool {
        self.away.is_empty()
    }

    /// The kinds and namespaces of which not everything is kept.
    pub fn away(&self) -> BTreeSet<(Kind, &str)> {
        let away = self.away.keys();
        away.map(|(kind, namespace)| (*kind, namespace.as_str()))
            .collect()
    }

    /// The kinds and namespaces that are to be listed again, as there is a place for what was turned away. Whoever finds none then is
    /// turned away again.
    pub fn take_due(&mut self) -> Vec<(Kind, String)> {
        let is_due =
            |away: &Away| away.has_place && away.listed.is_none_or(|listed| listed.elapsed() >= AGAIN);
        let due = self.away.iter().filter(|(_, away)| is_due(away));
        let due: Vec<(Kind, String)> = due.map(|(place, _)| place.clone()).collect();
        for place in &due {
            if let Some(away) = self.away.get_mut(place) {
                (away.has_place, away.again, away.listed) = (false, false, Some(Instant::now()));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind::MutexRunConfig;

    fn key(namespace: &str, number: usize) -> Key {
        Key::new(namespace, number.to_string())
    }

    /// As many as there are places for.
    fn fill(crowd: &mut Crowd, namespace: &str, weight: usize) -> usize {
        (0..1000)
            .take_while(|number| crowd.take(KIND, &key(namespace, *number), weight))
            .count()
    }

    #[test]
    fn a_namespace_takes_its_share_and_all_take_no_more_than_there_is() {
        let mut crowd = Crowd::default();
        assert!(crowd.is_whole());
        assert_eq!(fill(&mut crowd, "one", 1 << 20), OF_ONE >> 20);
        assert!(crowd.is_away(KIND, "one") && !crowd.is_away(KIND, "two"));
        assert!(crowd.take(KIND, &key("two", 0), 1 << 20), "others have theirs");
        for namespace in ["two", "three", "four"] {
            fill(&mut crowd, namespace, 1 << 20);
        }
        assert_eq!(crowd.all, ALL);
        assert!(!crowd.take(KIND, &key("six", 0), 1 << 20));
        // Who has a place keeps it when it is written again, and one that grows too large loses it.
        assert!(crowd.take(KIND, &key("one", 0), 1 << 20));
        assert!(!crowd.take(KIND, &key("one", 0), OF_ONE));
        assert!(!crowd.places.contains_key(&(KIND, key("one", 0))));
    }

    #[test]
    fn what_was_turned_away_is_listed_again_once_there_is_a_place() {
        let mut crowd = Crowd::default();
        let places = fill(&mut crowd, "one", 1 << 20);
        assert!(crowd.take_due().is_empty(), "there is no place");
        for number in 0..=places / 2 {
            crowd.leave(KIND, &key("one", number));
        }
        assert_eq!(crowd.take_due(), [(KIND, "one".to_owned())]);
        crowd.leave(KIND, &key("one", places - 1));
        assert!(
            crowd.take_due().is_empty(),
            "whoever comes and goes costs no list each time"
        );
        crowd.listed(KIND, "one");
        assert!(crowd.is_whole(), "nobody was turned away again");
        assert!(!crowd.take(KIND, &key("one", 0), OF_ONE + 1));
        crowd.heed("one");
        assert_eq!(
            crowd.take_due(),
            [(KIND, "one".to_owned())],
            "an administrator's word counts at once"
        );
    }
}
