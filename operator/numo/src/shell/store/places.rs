//! Whose objects are kept at all, of the many that strangers may write; an object that was turned away is read by itself once somebody
//! needs it. How many there is a place for says `shell/crowd.rs`.

use super::{
    Store,
    rules::{READ_AGAIN, READ_AT_ONCE},
};
use crate::shell::{
    weigh,
    wire::{Kind, Object},
};
use numo_api::marks;
use numo_core::{
    observed::{Key, MachineApi},
    quorum::OPENSHIFT_ETCD,
};
use std::collections::BTreeSet;
use tokio::time::Instant;

/// Deletions that are remembered, at most.
const GRAVES: usize = 10_000;

impl Store {
    /// Takes a place for an object, true if it is kept: those that numo heeds are, and those that it heeded when they came; of others as many
    /// as there is a place for. Who only looks keeps everything: it does not know whom numo heeds, and ends soon.
    pub(super) fn take_place(&mut self, slot: &(Kind, Key), object: &Object, own: bool) -> bool {
        if self.observed.settings.only_looks || !weigh::counts(object) {
            return true;
        }
        let (kind, key) = slot;
        let before = self.crowd.weight(*kind, key);
        if self.observed.heeds(kind.resource().3, &key.namespace)
            || key.namespace == OPENSHIFT_ETCD
            || before.is_none() && self.versions.contains_key(slot)
            || self.is_needed(*kind, key)
        {
            self.crowd.leave(*kind, key);
            self.missed.remove(slot);
            return true;
        }
        let Some(weight) = weigh::object(object) else {
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

    /// Whether somebody whom numo heeds names this object of a stranger's.
    fn is_needed(&self, kind: Kind, key: &Key) -> bool {
        let api = match kind {
            Kind::MutexRule => return self.room.rank(key).1.is_some(),
            Kind::OpenShiftMachine | Kind::OpenShiftHealthCheck => return true,
            Kind::ClusterApiMachine => MachineApi::ClusterApi,
            _ => return false,
        };
        // Only where not everything is kept it is worth a look at all Nodes.
        self.crowd.is_away(kind, &key.namespace) && {
            let (place, nodes) = ((api, key.clone()), &self.observed.nodes);
            nodes.keys().any(|node| self.observed.is_machine_of(&place, node))
        }
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
        if self.crowd.is_whole() {
            return Vec::new();
        }
        self.missed.retain(|_, asked| asked.elapsed() < READ_AGAIN);
        let rules = self.room.referred().filter(|key| !self.rules.contains_key(*key));
        let rules = rules.map(|key| (Kind::MutexRule, key.clone()));
        let machines: BTreeSet<(Kind, Key)> = self
            .observed
            .nodes
            .values()
            .filter_map(|node| {
                let key = Key::new(
                    node.annotation(marks::CLUSTER_API_NAMESPACE),
                    node.annotation(marks::CLUSTER_API_MACHINE),
                );
                let place = (MachineApi::ClusterApi, key);
                let is_missed = !place.1.name.is_empty() && !self.observed.machines.contains_key(&place);
                is_missed.then_some((Kind::ClusterApiMachine, place.1))
            })
            .collect();
        let rules: BTreeSet<(Kind, Key)> = rules.collect();
        let (first, second) = if machines.first() < rules.first() {
            (machines, rules)
        } else {
            (rules, machines)
        };
        let missed = first.into_iter().chain(second).filter(|(kind, key)| {
            self.crowd.is_away(*kind, &key.namespace) && !self.missed.contains_key(&(*kind, key.clone()))
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
