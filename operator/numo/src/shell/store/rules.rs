//! The MutexRules as they were given, what was found out about each, and which of them have room. This file asks the API server nothing:
//! it says what is to be asked.

use super::{Store, replace};
use crate::{
    frontends,
    runners::wasm::Examined,
    shell::{
        item::Unreadable,
        kind::{Kind, MAX_GIVING_BACK, MAX_JOB_NAMESPACES},
        project::{self, Edition},
        room::Moved,
        watched::mutex_rule,
    },
};
use numo_api::{MutexRule, RuleType};
use numo_core::{
    observed::{Key, RuleView, Validity},
    referred::Referral,
    rules::inline,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Rules that are read again at once, for which there is room now: each may have 512 KiB.
pub(super) const READ_AT_ONCE: usize = 8;
/// How soon a rule is read once more that did not come.
pub(super) const READ_AGAIN: Duration = Duration::from_secs(10);

/// What came of dealing out the room for rules.
#[derive(Debug, Default)]
pub struct Dealt {
    /// Whether a rule has lost or got its room.
    pub has_moved: bool,
    /// Rules that have room, and whose specs are to be read again: what comes is [`Seen::Applied`].
    pub to_read: Vec<Key>,
}

impl Store {
    /// Takes in what the API server said about a rule.
    pub fn judge(&mut self, rule: &Key, edition: Edition, validity: Validity) -> bool {
        if !self.is_current(rule, &edition) {
            return false;
        }
        self.validity.insert(rule.clone(), (edition, validity));
        self.refresh_rule(rule)
    }

    /// Whether the rule is there and still of this edition: what was found out about another says nothing of it.
    fn is_current(&self, rule: &Key, edition: &Edition) -> bool {
        let known = self.rules.get(rule);
        known.is_some_and(|known| project::edition(&known.metadata) == *edition)
    }

    /// Takes in what was found out about the component of a rule; true if a decision could change by it.
    pub(super) fn take_examined(
        &mut self,
        rule: &Key,
        edition: Edition,
        examined: Option<Box<Examined>>,
        validity: Validity,
    ) -> bool {
        if !self.is_current(rule, &edition) {
            return false;
        }
        let news = match examined {
            Some(examined) => replace(&mut self.examined, rule.clone(), *examined),
            None => self.examined.remove(rule).is_some(),
        };
        self.judge(rule, edition, validity) || news
    }

    /// What was found out about the component of a rule.
    pub fn examined(&self, key: &Key) -> Option<&Examined> {
        self.examined.get(key)
    }

    /// Rules that the API server has not judged, with their objects.
    pub fn unjudged(&self) -> Vec<Arc<MutexRule>> {
        self.rules
            .iter()
            .filter(|(key, rule)| {
                let judged = self.validity.get(*key);
                let is_judged = judged.is_some_and(|(judged, _)| *judged == project::edition(&rule.metadata));
                !is_judged && self.is_whole(key)
            })
            .map(|(_, rule)| rule.clone())
            .collect()
    }

    /// The rule as it was given.
    pub fn rule(&self, key: &Key) -> Option<&Arc<MutexRule>> {
        self.rules.get(key)
    }

    /// The rule as it was given, if its whole spec is there.
    pub fn whole_rule(&self, key: &Key) -> Option<&Arc<MutexRule>> {
        self.rules.get(key).filter(|_| self.is_whole(key))
    }

    /// All rules as they were given; those without room in outline.
    pub fn rules(&self) -> impl Iterator<Item = (&Key, &MutexRule)> {
        self.rules.iter().map(|(key, rule)| (key, rule.as_ref()))
    }

    /// Whether the rule is there with its whole spec.
    pub(super) fn is_whole(&self, key: &Key) -> bool {
        !self.unreadable.contains_key(key) && !self.awaited.contains_key(key) && self.room.lack(key).is_none()
    }

    /// Takes in a rule. Of one for which there is no room an outline is kept, and it says so.
    pub(in crate::shell) fn put_rule(&mut self, mut rule: MutexRule) -> bool {
        let key = project::key(&rule.metadata);
        self.unreadable.remove(&key);
        self.awaited.remove(&key);
        let is_own = key.namespace == self.observed.settings.namespace;
        if !is_own
            && !self
                .room
                .take(&key, mutex_rule::weight(&rule), project::created(&rule.metadata))
        {
            rule.spec = frontends::mutex_rule::outline(&rule.spec);
            self.examined.remove(&key);
        }
        self.rules.insert(key.clone(), Arc::new(rule));
        self.refresh_rule(&key)
    }

    /// Takes in a rule that cannot be read: it takes no room.
    pub(in crate::shell) fn put_unreadable_rule(&mut self, rule: MutexRule, why: Unreadable) -> bool {
        let key = project::key(&rule.metadata);
        self.unreadable.insert(key.clone(), why);
        self.room.forget(&key);
        self.awaited.remove(&key);
        self.rules.insert(key.clone(), Arc::new(rule));
        self.refresh_rule(&key)
    }

    /// Takes in the rules that stand in a run: those of its spec, and no others. They are weighed with the run, and take no room of rules.
    /// True if a decision could change by it.
    pub(in crate::shell) fn put_inline(&mut self, run: &Key, rules: Vec<MutexRule>) -> bool {
        let is_of_run = |key: &Key| inline::parts(key).is_some_and(|(of, _)| of == *run);
        let given: BTreeSet<Key> = rules.iter().map(|rule| project::key(&rule.metadata)).collect();
        let known = self
            .rules
            .keys()
            .filter(|key| is_of_run(key) && !given.contains(*key));
        let gone: Vec<Key> = known.cloned().collect();
        let mut news = false;
        for key in gone {
            news |= self.remove_rule(&key);
        }
        for rule in rules {
            let key = project::key(&rule.metadata);
            if !self.is_current(&key, &project::edition(&rule.metadata)) {
                self.rules.insert(key.clone(), Arc::new(rule));
                news |= self.refresh_rule(&key);
            }
        }
        news
    }

    /// Takes a rule away, and what was found out about it.
    pub(in crate::shell) fn remove_rule(&mut self, key: &Key) -> bool {
        self.rules.remove(key);
        self.room.forget(key);
        self.awaited.remove(key);
        self.validity.remove(key);
        self.unreadable.remove(key);
        self.examined.remove(key);
        self.observed.rules.remove(key).is_some()
    }

    /// Whether an owner refers to a rule.
    pub(in crate::shell) fn is_referred(&self, key: &Key) -> bool {
        self.room.rank(key).1.is_some()
    }

    /// Whether an owner refers to a rule that is watched.
    pub(super) fn is_wanted(&self, key: &Key) -> bool {
        self.room.rank(key).1 == Some(Referral::Watched)
    }

    /// Rules that owners refer to and that are not kept.
    pub(super) fn missed_rules(&self) -> impl Iterator<Item = &Key> {
        self.room
            .referred()
            .filter(|key| !self.rules.contains_key(*key) && !inline::is_inline(key))
    }

    /// Deals out the room for rules, now that it is known which ones owners refer to. It is to be called whenever rules or owners
    /// have changed, and before the first decision.
    pub fn give_room(&mut self, referred: BTreeMap<Key, Referral>) -> Dealt {
        let Moved { lost, gained } = self.room.settle(referred);
        if !lost.is_empty() {
            tracing::warn!(rules = lost.len(), first = ?lost.first(), "rules have no room: other rules take all the memory there is for them");
        }
        for key in &lost {
            self.awaited.remove(key);
            self.examined.remove(key);
            if let Some(rule) = self.rules.get(key) {
                let mut rule = MutexRule::clone(rule);
                rule.spec = frontends::mutex_rule::outline(&rule.spec);
                self.rules.insert(key.clone(), Arc::new(rule));
            }
            self.refresh_rule(key);
        }
        let has_moved = !lost.is_empty() || !gained.is_empty();
        for key in gained {
            if let Some(version) = self.versions.get_mut(&(Kind::MutexRule, key.clone())) {
                // What was seen at this version was not kept: it may come again.
                version.number = version.number.saturating_sub(1);
            }
            self.awaited.insert(key.clone(), None);
            self.refresh_rule(&key);
        }
        Dealt {
            has_moved,
            to_read: self.ask_for_rules(),
        }
    }

    /// Notes that rules are being read again: those that are due, as many as may be read at once, those that owners refer to first.
    fn ask_for_rules(&mut self) -> Vec<Key> {
        let is_asked = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() < READ_AGAIN);
        let under_way = self.awaited.values().filter(|at| is_asked(at)).count();
        let mut due: Vec<Key> = self
            .awaited
            .iter()
            .filter(|(_, at)| !is_asked(at))
            .map(|(key, _)| key.clone())
            .collect();
        due.sort_by_cached_key(|key| self.room.rank(key));
        due.truncate(READ_AT_ONCE.saturating_sub(under_way));
        for key in &due {
            self.awaited.insert(key.clone(), Some(Instant::now()));
        }
        due
    }

    /// Forgets what the API server said about a rule, so that it is asked again.
    pub fn forget_judgement(&mut self, key: &Key) {
        self.validity.remove(key);
    }

    /// No component has been judged. True if that changes anything.
    pub(super) fn forget_components(&mut self) -> bool {
        let is_component = |rule: &&Arc<MutexRule>| rule.spec.rule_type == Some(RuleType::Wasm);
        let components = self.rules.values().filter(is_component);
        let components: Vec<Key> = components.map(|rule| project::key(&rule.metadata)).collect();
        let mut news = false;
        for key in components {
            self.forget_judgement(&key);
            news |= self.refresh_rule(&key);
        }
        news
    }

    /// Notes that the Jobs of a namespace are not watched: rules that run Jobs there are not valid.
    pub fn leave_unwatched(&mut self, namespace: &str) {
        if self.unwatched.insert(namespace.to_owned()) {
            let rules: Vec<Key> = self.rules.keys().cloned().collect();
            for key in rules {
                self.refresh_rule(&key);
            }
        }
    }

    /// Notes that the Jobs of a namespace are watched after all.
    pub fn watch_again(&mut self, namespace: &str) {
        if self.unwatched.remove(namespace) {
            self.refresh_rules_in(namespace);
        }
    }

    /// Looks anew at the rules that run their Jobs in this namespace: whether they may has changed with it.
    pub(in crate::shell) fn refresh_rules_in(&mut self, namespace: &str) {
        let rules = self.observed.rules.values();
        let rules = rules.filter(|rule| rule.job_namespace == namespace);
        let rules: Vec<Key> = rules.map(|rule| rule.key.clone()).collect();
        for key in rules {
            self.refresh_rule(&key);
        }
    }

    /// Rules of others do not run at home beside a Plan.
    pub(in crate::shell) fn plan_came_or_went(&mut self, key: &Key, is_so: bool) {
        let own = self.observed.settings.namespace.clone();
        if is_so && key.namespace == own {
            self.refresh_rules_in(&own);
        }
    }

    pub(super) fn refresh_rule(&mut self, key: &Key) -> bool {
        let Some(rule) = self.rules.get(key) else {
            return false;
        };
        let edition = project::edition(&rule.metadata);
        // A rule that was valid stays so while its new generation is being judged only if nothing is
        // known against it: it is Unknown until then, and Unknown admits nobody.
        let validity = self
            .validity
            .get(key)
            .filter(|(judged, _)| *judged == edition)
            .map_or(Validity::Unknown, |(_, validity)| validity.clone());
        let mut view: RuleView = mutex_rule::view(rule, validity);
        if !view.is_evaluated && self.unwatched.contains(&view.job_namespace) {
            let message = format!(
                "spec.jobNamespace {}: rules name more than {MAX_JOB_NAMESPACES} namespaces for their Jobs, or more than \
                 {MAX_GIVING_BACK} of owners that are not watched; wanted one of those that others use (numo begins again with each restart)",
                view.job_namespace
            );
            view.validity = Validity::Invalid(numo_api::Reason::TooManyNamespaces, message);
        }
        if !view.is_evaluated {
            view.unseen = self.unseen_jobs_of(key, &view.job_namespace);
        }
        // What is wrong with the rule itself is said first.
        if !matches!(view.validity, Validity::Invalid(..))
            && let Some((reason, message)) = numo_core::place::refusal(&view, &self.observed)
        {
            view.validity = Validity::Invalid(reason, message);
        }
        if let Some(why) = self.unreadable.get(key) {
            let reason = if why.too_large {
                numo_api::Reason::TooLarge
            } else {
                numo_api::Reason::InvalidConfig
            };
            view.validity = Validity::Invalid(reason, format!("the MutexRule: {}", why.message));
        } else if let Some(lack) = self.room.lack(key) {
            let (reason, words) = lack.words(&key.namespace);
            view.validity = Validity::Invalid(reason, format!("the MutexRule: {words}"));
        } else if self.awaited.contains_key(key) {
            view.validity = Validity::Unknown;
        }
        replace(&mut self.observed.rules, key.clone(), view)
    }
}
