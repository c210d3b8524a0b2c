//! Which of two views of an object is the newer, whether it came from a watch or with the answer to a write of ours. This file compares
//! numbers and places; how an object of a kind is kept is not its matter.

use super::{Reach, Store, Version, is_in, replace};
use crate::shell::{
    kind::Kind,
    watched::{self, Object},
};
use numo_core::observed::Key;
use tokio::time::Instant;

impl Store {
    /// Takes in the answer to our own write.
    pub fn own(&mut self, kind: Kind, number: u64, object: Object) {
        self.put(kind, number, object, true);
    }

    /// Takes in the answer to a status write of ours. What someone else changed in the same moment came with it,
    /// and the watch will tell nobody: it is kept for [`Store::take_news`].
    pub fn own_status(&mut self, kind: Kind, number: u64, object: Object) {
        if watched::has_news(self, &object) {
            self.news = Reach::Everyone;
        }
        self.own(kind, number, object);
    }

    /// Whose decisions can change by what came with answers to our own writes.
    pub fn take_news(&mut self) -> Reach {
        std::mem::take(&mut self.news)
    }

    /// Takes in our own deletion.
    pub fn own_deletion(&mut self, kind: Kind, key: &Key) {
        self.remove(kind, key, u64::MAX);
        self.versions.remove(&(kind, key.clone()));
    }

    /// The API server says that an object is not there which is known by our own write alone: it was deleted before a watch saw it.
    pub fn own_is_gone(&mut self, kind: Kind, key: &Key) {
        let known = self.versions.get(&(kind, key.clone()));
        if known.is_some_and(|known| known.own.is_some()) && self.remove(kind, key, u64::MAX) {
            self.news = Reach::Everyone;
        }
    }

    pub(super) fn put(&mut self, kind: Kind, number: u64, object: Object, own: bool) -> bool {
        let (key, scope) = object.place();
        for ((listed, listed_scope), listing) in &mut self.listing {
            if *listed == kind && (*listed_scope == scope || is_in(listed_scope, &key)) {
                listing.mentioned.insert(key.clone());
            }
        }
        let slot = (kind, key);
        match self.versions.get(&slot) {
            Some(known) if known.number > number => return false,
            Some(known) if known.number == number => {
                self.versions.insert(
                    slot,
                    Version {
                        number,
                        own: known.own.filter(|_| own),
                    },
                );
                return false;
            }
            _ => {}
        }
        if self.graves.get(&slot).is_some_and(|gone| *gone >= number) {
            // It was read before it was deleted, and comes after that was told.
            return false;
        }
        if !self.take_place(&slot, &object, own) {
            // Nothing is known of it from now on: what refers to it waits, as for one that is not there.
            let (kind, key) = slot;
            self.missed.remove(&(kind, key.clone()));
            let was_known = self.versions.remove(&(kind, key.clone())).is_some();
            return was_known && (self.forget_unread(kind, &key) | watched::remove(self, kind, &key));
        }
        let is_news = match object.unread() {
            Some(unread) => {
                let slot = (kind.unread_as(), slot.1.clone());
                replace(&mut self.observed.unread, slot, unread.clone())
            }
            None => self.forget_unread(kind, &slot.1),
        };
        let own = own.then(Instant::now);
        self.versions.insert(slot, Version { number, own });
        watched::put(self, object) | is_news
    }

    pub(super) fn remove(&mut self, kind: Kind, key: &Key, number: u64) -> bool {
        let slot = (kind, key.clone());
        if self
            .versions
            .get(&slot)
            .is_some_and(|known| known.number > number)
        {
            return false;
        }
        self.versions.remove(&slot);
        self.bury(&slot, number);
        self.crowd.leave(kind, key);
        let was_unread = self.forget_unread(kind, key);
        watched::remove(self, kind, key) | was_unread
    }

    /// Forgets that an object could not be read; true if it could not.
    pub(super) fn forget_unread(&mut self, kind: Kind, key: &Key) -> bool {
        let unread = &mut self.observed.unread;
        !unread.is_empty() && unread.remove(&(kind.unread_as(), key.clone())).is_some()
    }
}
