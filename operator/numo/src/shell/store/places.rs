//! Whose objects are kept at all, of the many that strangers may write; an object that was turned away is read by itself once somebody
//! needs it. How many there is a place for says `shell/crowd.rs`.

use super::{
    Store,
    rules::{READ_AGAIN, READ_AT_ONCE},
};
use crate::shell::{
    kind::Kind,
    watched::{self, Kept, Object},
};
use numo_core::{observed::Key, quorum::OPENSHIFT_ETCD};
use std::collections::BTreeSet;
use tokio::time::Instant;

/// Deletions that are remembered, at most.
const GRAVES: usize = 10_000;

impl Store {
    /// Takes a place for an object, true if it is kept: those that numo heeds are, and those that it heeded when they came; of others as many
    /// as there is a place for. Who only looks keeps everything: it does not know whom numo heeds, and ends soon.
    pub(super) fn take_place(&mut self, slot: &(Kind, Key), object: &Object, own: bool) -> bool {
        let (kind, key) = slot;
        let kept = kind.watched().kept;
        let counts = matches!(kept, Kept::Counted(_)) || matches!(object, Object::NotRead(..));
        if self.observed.settings.only_looks || !counts {
            return true;
        }
        let before = self.crowd.weight(*kind, key);
        if self.observed.heeds(kind.resource().3, &key.namespace)
            || key.namespace == OPENSHIFT_ETCD
            || before.is_none() && self.versions.contains_key(slot)
            || matches!(kept, Kept::Counted(is_needed) if is_needed(self, key))
        {
            self.crowd.leave(*kind, key);
            self.missed.remove(slot);
            return true;
        }
        let Some(weight) = watched::weight(object) else {
            return true;
        };
        let weight = match object {
            // What was seen of it before is kept.
            Object::NotRead(..) => weight.max(before.unwrap_or(0)),
            _ => weight,
        };
        if own {
            // What numo itself wrote into it pushes it out of nowhere.
            self.crowd.hold(*kind, key, weight);
            return true;
        }
        self.crowd.take(*kind, key, weight)
    }

    /// Whether objects of a kind were turned away in a namespace.
    pub(in crate::shell) fn is_turned_away(&self, kind: Kind, namespace: &str) -> bool {
        self.crowd.is_away(kind, namespace)
    }

    /// Somebody may be heeded in a namespace now: what was turned away there is wanted.
    pub(in crate::shell) fn heed(&mut self, namespace: &str) {
        self.crowd.heed(namespace);
    }

    /// Remembers that an object was deleted while some are read by themselves: what was read before that may come after it.
    pub(super) fn bury(&mut self, slot: &(Kind, Key), number: u64) {
        if self.crowd.is_whole() {
            self.graves.clear();
        } else if number != u64::MAX && self.graves.len() < GRAVES {
            self.graves.insert(slot.clone(), number);
        }
    }

    /// Objects that were turned away and that are needed now: they are to be read by themselves. What comes is [`Seen::Applied`].
    pub fn take_missed(&mut self) -> Vec<(Kind, Key)> {
        let has_listed = self.has_listed_rules();
        if has_listed {
            // The watch tells from now on.
            self.no_rules.clear();
        }
        if self.crowd.is_whole() && has_listed {
            return Vec::new();
        }
        self.missed.retain(|_, asked| asked.elapsed() < READ_AGAIN);
        let machines = watched::missed_machines(self).into_iter();
        let machines = machines.map(|key| (Kind::ClusterApiMachine, key));
        let rules = self.missed_rules().map(|key| (Kind::MutexRule, key.clone()));
        let missed: BTreeSet<(Kind, Key)> = machines.chain(rules).collect();
        // Before all rules are listed, those are read that owners name who are watched.
        let is_unlisted = |kind: Kind, key: &Key| {
            kind == Kind::MutexRule && !has_listed && self.is_wanted(key) && !self.no_rules.contains(key)
        };
        let missed = missed.into_iter().filter(|(kind, key)| {
            let is_away = self.crowd.is_away(*kind, &key.namespace);
            (is_away || is_unlisted(*kind, key)) && !self.missed.contains_key(&(*kind, key.clone()))
        });
        let mut missed: Vec<(Kind, Key)> = missed.collect();
        // In turn: names of nothing keep nobody waiting.
        if let Some(last) = &self.last_missed
            && let Some(at) = missed.iter().position(|one| one > last)
        {
            missed.rotate_left(at);
        }
        missed.truncate(READ_AT_ONCE.saturating_sub(self.missed.len()));
        self.last_missed = missed.last().cloned().or_else(|| self.last_missed.take());
        for one in &missed {
            self.missed.insert(one.clone(), Instant::now());
        }
        missed
    }

    /// Kinds and namespaces that are to be listed again, as there are places now for objects that were turned away.
    ///
    /// Where numo heeds somebody by now nothing is decided before that: a Plan would come back before its journals.
    pub fn take_lists(&mut self) -> Vec<(Kind, String)> {
        let due = self.crowd.take_due();
        for (kind, namespace) in &due {
            if self.observed.heeds(kind.resource().3, namespace) {
                self.expect(*kind, namespace);
            }
        }
        due
    }

    /// Kinds and namespaces of which not every object is kept.
    pub fn turned_away(&self) -> BTreeSet<(Kind, &str)> {
        self.crowd.away()
    }
}
