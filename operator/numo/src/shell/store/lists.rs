//! What was listed: a list that is complete says who is gone, and before the first one nobody decides. This file asks no API server.

use super::{Store, is_in, replace};
use crate::shell::{
    kind::Kind,
    watched::{Missing, Place},
};
use numo_core::{
    Owner,
    observed::{ETCD_PODS, Key},
    referred,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How long after a write of ours a list may be told to begin that was asked for before it: what was told waits while the planner
/// writes, each write for 10 s at most.
const TOLD_LATE: Duration = Duration::from_mins(1);

/// By which name decisions know that a kind cannot be listed. Of the kinds that are all pods each has its own: a list of one says nothing
/// of another.
const fn listed_as(kind: Kind) -> &'static str {
    match kind {
        Kind::EtcdPod => ETCD_PODS,
        Kind::PlanPod => "pods of Plans",
        other => other.unread_as(),
    }
}

impl Store {
    /// No decision may be made before this watch has listed.
    pub fn expect(&mut self, kind: Kind, scope: &str) {
        self.waiting_for.insert((kind, scope.to_owned()));
    }

    /// Whether every watch that all decisions need has listed. The watches of one rule's namespace hold up
    /// that rule only.
    pub fn is_complete(&self) -> bool {
        self.unlisted().next().is_none()
    }

    /// Whether every watch has listed that all decisions need, but for that of MutexRules: strangers may write many large ones, and no
    /// pool waits for those. Of whom something may be decided before they are listed says [`Self::knows_rules_of`].
    pub fn is_complete_but_for_rules(&self) -> bool {
        self.unlisted().all(|kind| kind == Kind::MutexRule)
    }

    /// Whether all MutexRules have been listed.
    pub fn has_listed_rules(&self) -> bool {
        !self.unlisted().any(|kind| kind == Kind::MutexRule)
    }

    /// Whether what an owner's rules say is known. Before all rules are listed that is so of a watched owner, which may have a pool to
    /// pause, once each rule that it names was read by itself. One with a node in flight waits for the list: a rule that it names no
    /// more may have a Job that runs.
    pub fn knows_rules_of(&self, owner: &Owner) -> bool {
        if self.has_listed_rules() {
            return true;
        }
        let observed = &self.observed;
        let uid = observed.uid_of(owner);
        let mut changes = observed.changes.values();
        let is_there = |key: &Key| self.rule(key).is_some() || self.no_rules.contains(key);
        referred::is_watched(owner, observed)
            && !changes.any(|change| change.in_flight() && Some(change.spec.owner_ref.uid.as_str()) == uid)
            && referred::of_owner(owner, observed).iter().all(is_there)
    }

    /// Notes that a rule that was read by itself is not there; true if somebody waits to know it.
    pub(super) fn note_missing(&mut self, kind: Kind, key: Key) -> bool {
        kind == Kind::MutexRule && !self.has_listed_rules() && self.no_rules.insert(key)
    }

    /// The kinds that all decisions need and that have not been listed.
    pub fn unlisted(&self) -> impl Iterator<Item = Kind> {
        let waited = |kind: &Kind| {
            let place = kind.watched().place;
            !matches!(place, Place::RuleJobs | Place::PlanJobs | Place::PlanSecrets)
        };
        self.waiting_for.iter().map(|(kind, _)| *kind).filter(waited)
    }

    /// Whether the Jobs of Plans in this namespace have been listed: before that nobody may take one for lost.
    pub fn has_listed_plans(&self, namespace: &str) -> bool {
        let waited = |kind: &Kind| kind.watched().place == Place::PlanJobs;
        !self
            .waiting_for
            .iter()
            .any(|(kind, scope)| waited(kind) && scope == namespace)
    }

    /// Notes where a Job of each rule may still run that began before the rule was edited.
    pub fn await_jobs_of(&mut self, namespaces: BTreeMap<Key, BTreeSet<String>>) {
        if self.earlier == namespaces {
            return;
        }
        let before = std::mem::replace(&mut self.earlier, namespaces);
        let rules: BTreeSet<Key> = before.into_keys().chain(self.earlier.keys().cloned()).collect();
        for rule in rules {
            self.refresh_rule(&rule);
        }
    }

    /// Whether the Jobs of a rule are known: those of the namespace where it runs them, and those that may still run elsewhere.
    pub fn has_listed_jobs_of(&self, rule: &Key, namespace: &str) -> bool {
        self.places_of(rule, namespace).all(|one| self.has_listed(one))
    }

    /// The namespaces where Jobs of a rule may run.
    fn places_of<'a>(&'a self, rule: &Key, namespace: &'a str) -> impl Iterator<Item = &'a str> {
        let earlier = self.earlier.get(rule).into_iter().flatten();
        std::iter::once(namespace).chain(earlier.map(String::as_str))
    }

    /// Why Jobs of a rule cannot be seen, where that is so.
    pub(super) fn unseen_jobs_of(&self, rule: &Key, namespace: &str) -> Option<String> {
        let blind = |place: &str| self.blind.iter().find(|((scope, _), _)| scope == place);
        let ((scope, kind), words) = self.places_of(rule, namespace).find_map(blind)?;
        let plural = kind.resource().3;
        Some(format!("{plural} of namespace {scope} cannot be listed: {words}"))
    }

    /// Notes whether the Jobs of a namespace can be listed; true if that is news to a rule that runs some there. The words are those of the
    /// first failure: others would be news each time.
    fn note_blind(&mut self, kind: Kind, scope: &str, words: Option<&str>) -> bool {
        let slot = (scope.to_owned(), kind);
        let Some(words) = words else {
            return self.blind.remove(&slot).is_some() && self.refresh_rules_of(scope);
        };
        self.blind.entry(slot).or_insert_with(|| words.to_owned());
        self.refresh_rules_of(scope)
    }

    /// Shows anew the rules of which Jobs may run in a namespace.
    fn refresh_rules_of(&mut self, scope: &str) -> bool {
        let rules = self.observed.rules.values();
        let rules = rules.filter(|rule| {
            self.places_of(&rule.key, &rule.job_namespace)
                .any(|one| one == scope)
        });
        let rules: Vec<Key> = rules.map(|rule| rule.key.clone()).collect();
        rules
            .iter()
            .fold(false, |news, key| self.refresh_rule(key) | news)
    }

    /// Whether the watches of this namespace have listed.
    fn has_listed(&self, namespace: &str) -> bool {
        !self
            .waiting_for
            .iter()
            .any(|(kind, scope)| kind.watched().place == Place::RuleJobs && scope == namespace)
    }

    /// What a complete list does not mention is gone, but for what we wrote and the watch has yet to see. That is kept over one list, which
    /// may have been asked for before it was written, and over none that surely was not.
    pub(super) fn listed(&mut self, kind: Kind, scope: String) -> bool {
        let slot = (kind, scope);
        let mut changed = self.waiting_for.remove(&slot);
        if self.listing.contains_key(&slot) {
            changed |= self.seen_at_last(kind, &slot.1);
            changed |= self.observed.absent.remove(kind.unread_as()).is_some();
        }
        changed |= self.note_blind(kind, &slot.1, None);
        changed |= self.lists_again(kind, &slot.1);
        let Some(listing) = self.listing.remove(&slot) else {
            return changed;
        };
        let mut gone = Vec::new();
        for ((known, key), version) in &mut self.versions {
            if *known != kind || !is_in(&slot.1, key) || listing.mentioned.contains(key) {
                continue;
            }
            match version.own.take() {
                Some(written) if listing.since.duration_since(written) < TOLD_LATE => {}
                _ => gone.push(key.clone()),
            }
        }
        for key in gone {
            changed |= self.remove(kind, &key, u64::MAX);
        }
        changed
    }

    /// A kind that was listed once cannot be listed now. The list that had begun says nothing: nobody is gone because it broke off.
    pub(super) fn list_failed(&mut self, kind: Kind, scope: String, words: &str) -> bool {
        let slot = (kind, scope);
        self.listing.remove(&slot);
        let words = numo_core::rules::clip(words, 512);
        if kind.watched().place == Place::RuleJobs {
            // Pods and Events say more of a Job that is seen: once they were listed, nobody waits for them.
            let is_awaited = kind == Kind::Job || self.waiting_for.contains(&slot);
            return is_awaited && self.note_blind(kind, &slot.1, Some(&words));
        }
        let words = self.failing.entry(slot).or_insert(words).clone();
        replace(&mut self.observed.unlisted, listed_as(kind), words)
    }

    /// A list is not failing any more: it was complete, or nobody asks for it. Another of the same name may still fail.
    pub(super) fn lists_again(&mut self, kind: Kind, scope: &str) -> bool {
        if self.failing.remove(&(kind, scope.to_owned())).is_none() {
            return false;
        }
        let name = listed_as(kind);
        let mut others = self.failing.iter();
        match others.find(|((other, _), _)| listed_as(*other) == name) {
            Some((_, words)) => replace(&mut self.observed.unlisted, name, words.clone()),
            None => self.observed.unlisted.remove(name).is_some(),
        }
    }

    /// A kind is not served, and never was. The list that had begun says nothing.
    pub(super) fn absent(&mut self, kind: Kind, words: &str) -> bool {
        self.listing.remove(&(kind, String::new()));
        let words = numo_core::rules::clip(words, 512);
        replace(&mut self.observed.absent, kind.unread_as(), words)
    }

    pub(super) fn unseen(&mut self, kind: Kind, scope: String, words: String) -> bool {
        // The list that had begun says nothing.
        self.listing.remove(&(kind, scope.clone()));
        match kind.watched().missing {
            Missing::Told { unseen, .. } => unseen(self, scope, words),
            _ => false,
        }
    }

    /// What was not to be seen has been listed; true if somebody waited for that.
    pub(super) fn seen_at_last(&mut self, kind: Kind, scope: &str) -> bool {
        match kind.watched().missing {
            Missing::Told { seen, .. } => seen(self, scope),
            _ => false,
        }
    }
}
