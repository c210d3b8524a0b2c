//! The store: everything that was seen, kept up to date by watches and by our own writes.
//!
//! A write's answer goes into the store at once, so that the next pass sees it before the watch does; an
//! older event of the watch never undoes it. The store decides nothing.
//!
//! This file says what is kept, and imports none of the files beside it; each of those keeps one part of it:
//! `take_in` hands on what a watch says, `lists` knows what was listed, `versions` what is newer, `places` whose objects are kept,
//! and the others one matter each.

mod channels;
mod claims;
mod evaluations;
mod evictions;
mod fleet;
mod jobs;
mod kured;
mod lists;
mod places;
mod pods;
mod refusals;
mod rules;
mod seen;
mod take_in;
mod versions;

pub use seen::{Reach, Seen};

use super::{
    claim::Claim,
    crowd::Crowd,
    item::Unreadable,
    kured::Kured,
    project::{Edition, Kind},
    room::Room,
    watched::object::{JobPodView, PlanPodView},
};
use crate::{frontends::mutex_notifier::NotifierView, runners::wasm::Examined};
use numo_api::{Condition, MutexRule, conditions::types};
use numo_core::{
    Owner, OwnerKind,
    observed::{JobView, Key, Observed, PlanJobView, PodView, Settings, Validity},
};
use numo_plugin::address::AddressRange;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::time::Instant;

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Store {
    /// What decisions read.
    pub observed: Observed,
    /// MutexNotifiers by name: no decision reads them.
    pub notifiers: BTreeMap<String, NotifierView>,
    versions: BTreeMap<(Kind, Key), Version>,
    /// Addresses of each Node and of its pods.
    networks: BTreeMap<String, Vec<AddressRange>>,
    has_new_networks: bool,
    rules: BTreeMap<Key, Arc<MutexRule>>,
    /// Which rules have room; of the others an outline is kept.
    room: Room,
    /// Which objects of strangers are kept at all.
    crowd: Crowd,
    /// Objects that are being read because somebody needs them who was turned away: since when.
    missed: BTreeMap<(Kind, Key), Instant>,
    last_missed: Option<(Kind, Key)>,
    /// Objects that were deleted while others are read by themselves, and when.
    graves: BTreeMap<(Kind, Key), u64>,
    /// Rules that have room, and of which an outline is kept until they are read again: when they were asked for last.
    awaited: BTreeMap<Key, Option<Instant>>,
    validity: BTreeMap<Key, (Edition, Validity)>,
    /// Rules that cannot be read, and why.
    unreadable: BTreeMap<Key, Unreadable>,
    examined: BTreeMap<Key, Examined>,
    /// Pods of rules' Jobs.
    pods: BTreeMap<Key, JobPodView>,
    job_events: BTreeMap<Key, (Key, (String, String))>,
    /// The newest Event of each Job.
    event_of: BTreeMap<Key, Key>,
    jobs: BTreeMap<Key, JobView>,
    /// Each with the number of pods that it has by its own status.
    plan_jobs: BTreeMap<Key, (PlanJobView, Option<usize>)>,
    plan_pods: BTreeMap<Key, PlanPodView>,
    listing: BTreeMap<(Kind, String), Listing>,
    /// Lists that were complete once and cannot be had now, with the words for it. Of each name that decisions know one stands in
    /// [`Observed::unlisted`].
    failing: BTreeMap<(Kind, String), String>,
    waiting_for: BTreeSet<(Kind, String)>,
    /// Rules that owners name and that are not there, while not all rules are listed.
    no_rules: BTreeSet<Key>,
    news: Reach,
    node_pods: BTreeMap<String, NodePods>,
    /// uids of pods whose virtual machine moves away.
    moving: BTreeSet<String>,
    /// The uid of each DaemonSet.
    pub(super) daemon_sets: BTreeMap<Key, String>,
    claims: BTreeMap<Key, Claim>,
    /// DaemonSets by the name of kured.
    kured: BTreeMap<Key, Kured>,
    /// How many questions about them were asked.
    questions: u64,
    touched: BTreeSet<String>,
    /// Namespaces that rules name for their Jobs and that are not watched: there are too many.
    unwatched: BTreeSet<String>,
    /// By rule, the namespaces where a Job of it may still run that began before it was edited.
    earlier: BTreeMap<Key, BTreeSet<String>>,
    /// Namespaces of which Jobs of rules, or their pods, cannot be listed: since when, and the API server's words.
    blind: BTreeMap<(String, Kind), String>,
}

/// What the watch of one node's pods has said beside the pods themselves.
#[derive(Debug, Default)]
struct NodePods {
    /// The pods that a list has mentioned so far.
    listing: Option<BTreeSet<Key>>,
    numbers: BTreeMap<Key, u64>,
    pods: BTreeMap<Key, PodView>,
    is_listed: bool,
}

/// A list that is not complete yet.
#[derive(Debug)]
struct Listing {
    /// When it was told that it begins, which may be later than it was asked for.
    since: Instant,
    /// What it has mentioned so far.
    mentioned: BTreeSet<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    number: u64,
    /// Since when it is known by a write of ours that neither the watch nor a list has confirmed.
    own: Option<Instant>,
}

impl Store {
    /// An empty store that waits for these watches to list.
    pub fn new(settings: Settings) -> Self {
        Self {
            observed: Observed {
                settings,
                ..Observed::default()
            },
            ..Self::default()
        }
    }

    /// How many objects are known.
    pub fn seen(&self) -> usize {
        self.versions.len()
    }

    /// The resourceVersion an object was seen at; 0 if it was not.
    pub fn number(&self, kind: Kind, key: &Key) -> u64 {
        self.versions
            .get(&(kind, key.clone()))
            .map_or(0, |version| version.number)
    }

    /// The reason of the condition Ready of an owner, if it has that.
    pub fn ready_of<'s>(&'s self, owner: &Owner) -> Option<&'s str> {
        let observed = &self.observed;
        let of = |all: &'s [Condition]| {
            let ready = all.iter().find(|one| one.type_ == types::READY)?;
            ready.reason.as_deref()
        };
        match owner.kind {
            OwnerKind::MutexRunConfig => of(&observed.runs.get(&owner.key)?.status.conditions),
            OwnerKind::NodeMaintenance(_) => of(&observed.maintenances.get(owner)?.status.conditions),
            OwnerKind::NodeVersion => of(&observed.fleet.versions.get(&owner.key.name)?.status.conditions),
            OwnerKind::Plan => {
                let all = observed.plans.get(&owner.key)?.status.conditions.as_ref()?;
                let ready = all.iter().find(|one| one.type_ == types::READY)?;
                ready.reason.as_deref()
            }
        }
    }

    /// Keeps the addresses of a Node and of its pods.
    pub(super) fn put_networks(&mut self, node: &str, networks: Vec<AddressRange>) {
        if self.networks.get(node) != Some(&networks) {
            self.networks.insert(node.to_owned(), networks);
            self.has_new_networks = true;
        }
    }

    /// Forgets the addresses of a Node that is gone.
    pub(super) fn forget_networks(&mut self, node: &str) {
        self.has_new_networks |= self.networks.remove(node).is_some();
    }

    /// The addresses of all Nodes and of their pods, if they have changed.
    pub fn take_networks(&mut self) -> Option<Vec<AddressRange>> {
        if !self.is_complete_but_for_rules() || !std::mem::take(&mut self.has_new_networks) {
            return None;
        }
        Some(self.networks.values().flatten().copied().collect())
    }
}

/// Whether a watch of this scope sees the object of a key: the scope is a namespace, one object of it, or empty for all.
fn is_in(scope: &str, key: &Key) -> bool {
    match scope.split_once('/') {
        Some((namespace, name)) => key.namespace == namespace && key.name == name,
        None => scope.is_empty() || key.namespace == scope,
    }
}

/// Puts a value into a map; true if it is another than before.
pub(super) fn replace<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: V) -> bool {
    if map.get(&key) == Some(&value) {
        return false;
    }
    map.insert(key, value);
    true
}

/// Puts a value into its place; true if it is another than before.
pub(super) fn set<V: PartialEq>(slot: &mut Option<V>, value: Option<V>) -> bool {
    if *slot == value {
        return false;
    }
    *slot = value;
    true
}

#[cfg(test)]
mod tests;
