//! Components that are loaded, and which of them stay so: compiled code is memory, and every MutexRule of every namespace may bring some.
//! One that was unloaded is loaded again from the cache when it is asked. Nothing here fetches, compiles or asks.

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
pub struct Place {
    digest: String,
    bytes: u64,
    /// Whether it can be loaded again without being fetched.
    returns: bool,
    used: AtomicU64,
    rule: Mutex<Option<Rule>>,
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

    /// Waits for the turn to load it again; it may be loaded by then.
    pub async fn loads(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.loading.lock().await
    }

    /// `sha256:…` of the component.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The component, if it is loaded. `now` grows with every use.
    pub fn take(&self, now: u64) -> Option<Rule> {
        self.used.store(now, Ordering::Release);
        self.rule.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It was loaded again.
    pub fn put(&self, rule: Rule) {
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner) = Some(rule);
    }

    /// Unloads it, if it can be loaded again.
    pub fn unload(&self) {
        if self.returns {
            self.rule.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Bytes that it takes now and that unloading it would free.
    fn held(&self) -> u64 {
        let loaded = self.rule.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if loaded && self.returns { self.bytes } else { 0 }
    }
}

/// Unloads the least recently used of these components, each with its namespace, until they keep the total, and each namespace its share.
pub fn make_room<'p>(places: impl Iterator<Item = (&'p str, &'p Arc<Place>)>, total: u64) {
    let mut held: Vec<(u64, &str, &Arc<Place>, u64)> = places
        .map(|(namespace, place)| (place.used.load(Ordering::Acquire), namespace, place, place.held()))
        .filter(|(.., bytes)| *bytes > 0)
        .collect();
    held.sort_by_key(|(used, ..)| *used);
    let sum = |held: &[(u64, &str, &Arc<Place>, u64)], of: Option<&str>| -> u64 {
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
        if !is_last && (sum(&held, None) > total || sum(&held, Some(namespace)) > total / SHARE) {
            place.unload();
            held.remove(index);
        } else {
            index += 1;
        }
    }
}
