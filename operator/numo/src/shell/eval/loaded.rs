//! Components that are loaded, and which of them stay so: compiled code is memory, and every MutexRule of every namespace may bring some.
//! One that was unloaded is loaded again from the cache when it is asked, or fetched again if the cache does not have it. Nothing here
//! fetches, compiles or asks.

use numo_plugin::Rule;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// Bytes of compiled form of all components that are loaded. The least recently used are unloaded above it; one that is asked stays loaded
/// until it has answered.
pub const LOADED_BYTES: u64 = 256 << 20;
/// One namespace has a quarter of it: it unloads its own.
pub const SHARE: u64 = 4;

/// The place of one component.
#[derive(Debug)]
pub struct Place<T = Rule> {
    digest: String,
    bytes: u64,
    /// Whether it can be loaded again without being fetched.
    returns: bool,
    used: AtomicU64,
    rule: Mutex<Option<T>>,
    /// Who loads it again: many ask at once, and one loads.
    loading: tokio::sync::Mutex<()>,
}

impl Place {
    /// The place of a component that was just loaded. `returns` is whether the cache has it.
    pub fn of(rule: Rule, returns: bool) -> Self {
        Self {
            digest: rule.digest().to_owned(),
            bytes: rule.compiled_bytes(),
            returns,
            used: AtomicU64::new(0),
            rule: Mutex::new(Some(rule)),
            loading: tokio::sync::Mutex::default(),
        }
    }
}

impl<T: Clone> Place<T> {
    /// Waits for the turn to load it again; it may be loaded by then.
    pub async fn loads(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.loading.lock().await
    }

    /// `sha256:…` of the component.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The component, if it is loaded. `now` grows with every use.
    pub fn take(&self, now: u64) -> Option<T> {
        self.used.store(now, Ordering::Release);
        self.rule.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It was loaded again.
    pub fn put(&self, rule: T) {
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner) = Some(rule);
    }

    /// Unloads it. One that the cache does not have is fetched again once it is asked.
    pub fn unload(&self) {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Bytes that it takes now.
    fn held(&self) -> u64 {
        let loaded = self.rule.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if loaded { self.bytes } else { 0 }
    }
}

/// Whether there is room for a component that the cache does not have beside those that are loaded and that it does not have either: they
/// stay as long as an owner refers to them.
pub fn has_room<'p, T: Clone + 'p>(
    places: impl Iterator<Item = &'p Arc<Place<T>>>,
    bytes: u64,
    total: u64,
) -> bool {
    let held: u64 = places
        .filter(|place| !place.returns)
        .map(|place| place.held())
        .sum();
    held.saturating_add(bytes) <= total
}

/// Unloads the least recently used of these components, each with its namespace, until they keep the total, and each namespace its share.
/// Those that the cache does not have count, and stay: unloaded before they are asked, they would be fetched for ever.
pub fn make_room<'p, T: Clone + 'p>(places: impl Iterator<Item = (&'p str, &'p Arc<Place<T>>)>, total: u64) {
    let mut held: Vec<(u64, &str, &Arc<Place<T>>, u64)> = places
        .map(|(namespace, place)| (place.used.load(Ordering::Acquire), namespace, place, place.held()))
        .filter(|(.., bytes)| *bytes > 0)
        .collect();
    held.sort_by_key(|(used, ..)| *used);
    let sum = |held: &[(u64, &str, &Arc<Place<T>>, u64)], of: Option<&str>| -> u64 {
        let some = held
            .iter()
            .filter(|(_, namespace, ..)| of.is_none_or(|of| of == *namespace));
        some.map(|(.., bytes)| bytes).sum()
    };
    let mut index = 0;
    while index < held.len() {
        let (_, namespace, place, _) = held[index];
        // The last one is the one that is used.
        let is_last = index + 1 == held.len();
        let may_go = !is_last && place.returns;
        if may_go && (sum(&held, None) > total || sum(&held, Some(namespace)) > total / SHARE) {
            place.unload();
            held.remove(index);
        } else {
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component that is loaded, and was used then.
    fn place(bytes: u64, returns: bool, used: u64) -> Arc<Place<u8>> {
        Arc::new(Place {
            digest: String::new(),
            bytes,
            returns,
            used: AtomicU64::new(used),
            rule: Mutex::new(Some(0)),
            loading: tokio::sync::Mutex::default(),
        })
    }

    /// Which of them stay loaded where there is so much room.
    fn left(places: &[(&str, Arc<Place<u8>>)], total: u64) -> Vec<bool> {
        make_room(places.iter().map(|(namespace, place)| (*namespace, place)), total);
        places.iter().map(|(_, place)| place.held() > 0).collect()
    }

    #[test]
    fn the_least_recently_used_goes_when_there_is_no_room() {
        let places = [
            ("a", place(90, true, 5)),
            ("b", place(90, true, 1)),
            ("c", place(90, true, 4)),
            ("d", place(90, true, 2)),
            ("e", place(90, true, 3)),
        ];
        assert_eq!(left(&places, 450), [true; 5], "there is room");
        assert_eq!(left(&places, 400), [true, false, true, true, true]);
        // It was asked meanwhile, and loaded again.
        places[1].1.put(0);
        assert_eq!(places[1].1.take(6), Some(0));
        assert_eq!(left(&places, 400), [true, true, true, false, true]);
        // Who answers now stays, however large.
        assert_eq!(left(&[("a", place(1000, true, 1))], 400), [true]);
    }

    #[test]
    fn a_namespace_has_its_share_and_unloads_its_own() {
        let places = [
            ("quiet", place(60, true, 0)),
            ("loud", place(60, true, 1)),
            ("loud", place(40, true, 3)),
            ("loud", place(60, true, 2)),
        ];
        assert_eq!(left(&places, 400), [true, false, true, true]);
    }

    #[test]
    fn what_the_cache_does_not_have_counts_and_stays() {
        let places = [
            ("a", place(50, false, 1)),
            ("b", place(50, true, 2)),
            ("c", place(50, true, 3)),
            ("d", place(50, true, 4)),
            ("e", place(50, true, 5)),
        ];
        assert_eq!(left(&places, 200), [true, false, true, true, true]);
    }

    #[test]
    fn without_a_cache_there_is_an_end_to_what_is_loaded() {
        let places = [place(50, false, 1), place(90, true, 2), place(40, false, 3)];
        assert!(has_room(places.iter(), 10, 100));
        assert!(!has_room(places.iter(), 11, 100));
        places[2].unload();
        assert!(has_room(places.iter(), 50, 100));
    }

    #[test]
    fn what_no_owner_refers_to_is_forgotten_wherever_it_came_from() {
        for returns in [true, false] {
            let place = place(50, returns, 1);
            assert_eq!(place.held(), 50);
            place.unload();
            assert_eq!(place.held(), 0);
            assert_eq!(place.take(2), None);
        }
    }
}
