//! The store: everything that was seen, kept up to date by watches and by our own writes.
//!
//! A write's answer goes into the store at once, so that the next pass sees it before the watch does; an
//! older event of the watch never undoes it. The store decides nothing.

use super::{
    claim::{Claim, IsAs, Judged},
    crowd::Crowd,
    item::Unreadable,
    kind::{JOB_KINDS, MAX_GIVING_BACK, MAX_JOB_NAMESPACES, is_plans},
    kured::Kured,
    room::{Moved, Room},
    weigh,
    wire::{self, Deployed, Edition, Kind, Object, OfNode, PlanPodView},
};
use crate::{frontends, runners::wasm::Examined};
use jiff::Timestamp;
use numo_api::{Condition, MutexRule, RuleType, conditions::types, marks};
use numo_core::{
    MaintenanceGroup, Owner, OwnerKind,
    action::EvaluationRequest,
    drain::{Eviction, controller_of, covers},
    observed::{
        ChannelView, DisruptionBudgetView, EvaluationView, EvictionView, JobView, Key, MachineApi,
        MaintenanceView, Observed, PlanJobView, PlanView, PodView, RebootLock, Returned, RuleAnswer,
        RuleView, RunConfigView, Said, Settings, Validity,
    },
    quorum::OPENSHIFT_ETCD,
    ready,
    referred::Referral,
};
use numo_plugin::address::AddressRange;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// What a watch says.
#[derive(Debug)]
pub enum Seen {
    /// An object is there, at this version.
    Applied(Kind, u64, Object),
    /// An object is gone.
    Deleted(Kind, Key, u64),
    /// A watch begins its list anew: what it does not mention by the end is gone. The scope is the
    /// namespace, empty for all.
    Listing(Kind, String),
    /// The list is complete.
    Listed(Kind, String),
    /// Objects of a namespace that were turned away before have been listed once more.
    ListedAgain(Kind, String),
    /// The API server judged a rule of this generation.
    Judged(Key, Edition, Validity),
    /// The component of a rule of this generation was looked at.
    Examined(Key, Edition, Option<Box<Examined>>, Validity),
    /// An evaluation, by its key, came to this.
    Evaluated(String, Timestamp, RuleAnswer),
    /// Something has changed that a rule read, by the key of its evaluation.
    Stirred(String),
    /// A kind that was listed once cannot be listed now: the API server's words.
    ListFailed(Kind, String, String),
    /// A kind is not served, and never was since numo began: the API server's words.
    Absent(Kind, String),
    /// A kind may not be seen in a namespace: the API server's words.
    Unseen(Kind, String, String),
    /// What a Plan's channel answered, by the URL that was asked.
    Channel(Key, String, Timestamp, Result<String, String>),
    /// What was found out about a Deployment with the name of an operator that numo replaces, and by which question.
    Claim(Key, u64, Judged),
    /// What was found out about a rule is to be found out again.
    Forgotten(Key),
    /// Components are judged by another policy of signatures: what was found out about any is to be found out again.
    PolicyChanged,
    /// What the account of a DaemonSet by the name of kured may.
    Kured(Key, String, bool),
    /// What came of asking a pod of a node to go, and when.
    Evicted(String, Box<Eviction>, Said, Timestamp),
    /// Rules have lost or got their room: what is said of them has changed.
    Dealt,
}

/// Whose decisions something new can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nobody's: nothing that is read has changed.
    #[default]
    Nobody,
    /// Those that have something under way or wait for something; runs with nothing to do are left alone.
    Busy,
    /// Everyone's.
    Everyone,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Store {
    /// What decisions read.
    pub observed: Observed,
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
    pods: BTreeMap<Key, (Key, Option<(String, String)>)>,
    job_events: BTreeMap<Key, (Key, (String, String))>,
    /// The newest Event of each Job.
    event_of: BTreeMap<Key, Key>,
    jobs: BTreeMap<Key, JobView>,
    /// Each with the number of pods that it has by its own status.
    plan_jobs: BTreeMap<Key, (PlanJobView, Option<usize>)>,
    plan_pods: BTreeMap<Key, PlanPodView>,
    listing: BTreeMap<(Kind, String), BTreeSet<Key>>,
    waiting_for: BTreeSet<(Kind, String)>,
    news: Reach,
    node_pods: BTreeMap<String, NodePods>,
    /// uids of pods whose virtual machine moves away.
    moving: BTreeSet<String>,
    daemon_sets: BTreeMap<Key, String>,
    claims: BTreeMap<Key, Claim>,
    /// DaemonSets by the name of kured.
    kured: BTreeMap<Key, Kured>,
    /// How many questions about them were asked.
    questions: u64,
    touched: BTreeSet<String>,
    /// Namespaces that rules name for their Jobs and that are not watched: there are too many.
    unwatched: BTreeSet<String>,
}

/// Controllers whose pods' returns are counted, at most.
const RETURNS: usize = 10_000;

/// What the watch of one node's pods has said beside the pods themselves.
#[derive(Debug, Default)]
struct NodePods {
    /// The pods that a list has mentioned so far.
    listing: Option<BTreeSet<Key>>,
    numbers: BTreeMap<Key, u64>,
    pods: BTreeMap<Key, PodView>,
    is_listed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    number: u64,
    /// Written by us and not confirmed by the watch yet.
    own: bool,
}

/// Deletions that are remembered, at most.
const GRAVES: usize = 10_000;
/// Events of Jobs that are kept, at most: one for each Job.
const JOB_EVENTS: usize = 10_000;
/// Rules that are read again at once, for which there is room now: each may have 512 KiB.
const READ_AT_ONCE: usize = 8;
/// How soon a rule is read once more that did not come.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// What came of dealing out the room for rules.
#[derive(Debug, Default)]
pub struct Dealt {
    /// Whether a rule has lost or got its room.
    pub has_moved: bool,
    /// Rules that have room, and whose specs are to be read again: what comes is [`Seen::Applied`].
    pub to_read: Vec<Key>,
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

    /// No decision may be made before this watch has listed.
    pub fn expect(&mut self, kind: Kind, scope: &str) {
        self.waiting_for.insert((kind, scope.to_owned()));
    }

    /// Whether every watch that all decisions need has listed. The watches of one rule's namespace hold up
    /// that rule only.
    pub fn is_complete(&self) -> bool {
        self.unlisted().next().is_none()
    }

    /// The kinds that all decisions need and that have not been listed.
    pub fn unlisted(&self) -> impl Iterator<Item = Kind> {
        let waited = |kind: &Kind| !JOB_KINDS.contains(kind) && !is_plans(*kind);
        self.waiting_for.iter().map(|(kind, _)| *kind).filter(waited)
    }

    /// Whether the Jobs of Plans in this namespace have been listed: before that nobody may take one for lost.
    pub fn has_listed_plans(&self, namespace: &str) -> bool {
        let waited = |kind: &Kind| matches!(kind, Kind::PlanJob | Kind::PlanPod);
        !self
            .waiting_for
            .iter()
            .any(|(kind, scope)| waited(kind) && scope == namespace)
    }

    /// Whether the watches of this namespace have listed.
    pub fn has_listed(&self, namespace: &str) -> bool {
        !self
            .waiting_for
            .iter()
            .any(|(kind, scope)| JOB_KINDS.contains(kind) && scope == namespace)
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

    /// Takes in what a watch says: whose decision could change by it.
    pub fn take_in(&mut self, seen: Seen) -> Reach {
        let of_a_turn = match &seen {
            Seen::Applied(
                _,
                _,
                Object::Job(..)
                | Object::Pod(..)
                | Object::JobEvent(..)
                | Object::PlanJob(..)
                | Object::PlanPod(..),
            )
            | Seen::Evaluated(..)
            | Seen::Stirred(..) => true,
            Seen::Applied(_, _, Object::Change(change)) => {
                let known = self.observed.changes.get(&change.key);
                known.is_some_and(|known| known.spec == change.spec && known.deleting == change.deleting)
            }
            Seen::Deleted(kind, ..) => {
                JOB_KINDS.contains(kind) || matches!(kind, Kind::PlanJob | Kind::PlanPod)
            }
            Seen::Applied(..)
            | Seen::Listing(..)
            | Seen::Listed(..)
            | Seen::ListedAgain(..)
            | Seen::Judged(..)
            | Seen::Claim(..)
            | Seen::Kured(..)
            | Seen::Forgotten(..)
            | Seen::PolicyChanged
            | Seen::Dealt
            | Seen::Evicted(..)
            | Seen::Unseen(..)
            | Seen::Absent(..)
            | Seen::ListFailed(..)
            | Seen::Channel(..)
            | Seen::Examined(..) => false,
        };
        match (self.see(seen), of_a_turn) {
            (false, _) => Reach::Nobody,
            (true, true) => Reach::Busy,
            (true, false) => Reach::Everyone,
        }
    }

    /// Takes in what a watch says; true if a decision could change by it.
    pub fn see(&mut self, seen: Seen) -> bool {
        match seen {
            Seen::Applied(_, number, Object::NodePod(node, pod)) => self.put_pod(&node, number, *pod),
            Seen::Deleted(Kind::NodePod, key, number) => self.remove_pod(&key, number),
            Seen::Listing(Kind::NodePod, node) => {
                if let Some(known) = self.node_pods.get_mut(&node) {
                    known.listing = Some(BTreeSet::new());
                }
                false
            }
            Seen::Listed(Kind::NodePod, node) => self.listed_pods(&node),
            Seen::Applied(kind, number, object) => self.put(kind, number, object, false),
            Seen::Deleted(kind, key, number) => self.remove(kind, &key, number),
            Seen::Listing(kind, scope) => {
                self.listing.insert((kind, scope), BTreeSet::new());
                false
            }
            Seen::Listed(kind, scope) => self.listed(kind, scope),
            Seen::ListedAgain(kind, namespace) => {
                self.crowd.listed(kind, &namespace);
                self.waiting_for.remove(&(kind, namespace))
            }
            Seen::Judged(rule, edition, validity) => self.judge(&rule, edition, validity),
            Seen::Examined(rule, edition, examined, validity) => {
                self.is_current(&rule, &edition) && {
                    let news = match examined {
                        Some(examined) => replace(&mut self.examined, rule.clone(), *examined),
                        None => self.examined.remove(&rule).is_some(),
                    };
                    self.judge(&rule, edition, validity) || news
                }
            }
            Seen::Evaluated(key, at, answer) => self.evaluated(&key, at, answer),
            Seen::Stirred(key) => self.stirred(&key),
            Seen::Claim(key, asked, judged) => self.judged_claim(key, asked, judged),
            Seen::Kured(key, account, may) => self.judged_kured(&key, &account, may),
            Seen::Forgotten(rule) => {
                self.forget_judgement(&rule);
                self.refresh_rule(&rule)
            }
            Seen::PolicyChanged => self.forget_components(),
            Seen::Dealt => true,
            Seen::ListFailed(kind, scope, words) => {
                // The list that had begun says nothing: nobody is gone because it broke off.
                self.listing.remove(&(kind, scope));
                let words = numo_core::rules::clip(&words, 512);
                replace(&mut self.observed.unlisted, kind.resource().3, words)
            }
            Seen::Absent(kind, words) => {
                // The list that had begun says nothing.
                self.listing.remove(&(kind, String::new()));
                let words = numo_core::rules::clip(&words, 512);
                replace(&mut self.observed.absent, kind.resource().3, words)
            }
            Seen::Unseen(kind, scope, words) => self.unseen(kind, scope, words),
            Seen::Channel(plan, url, at, answer) => self.answered(&plan, &url, at, answer),
            Seen::Evicted(node, eviction, said, at) => {
                self.touched.insert(node.clone());
                self.evicted(&node, &eviction, said, at);
                false
            }
        }
    }

    /// Takes in the answer to our own write.
    pub fn own(&mut self, kind: Kind, number: u64, object: Object) {
        self.put(kind, number, object, true);
    }

    /// Takes in the answer to a status write of ours. What someone else changed in the same moment came with it,
    /// and the watch will tell nobody: it is kept for [`Store::take_news`].
    pub fn own_status(&mut self, kind: Kind, number: u64, object: Object) {
        if self.has_news(&object) {
            self.news = Reach::Everyone;
        }
        self.own(kind, number, object);
    }

    /// Whose decisions can change by what came with answers to our own writes.
    pub fn take_news(&mut self) -> Reach {
        std::mem::take(&mut self.news)
    }

    /// The addresses of all Nodes and of their pods, if they have changed.
    pub fn take_networks(&mut self) -> Option<Vec<AddressRange>> {
        if !self.is_complete() || !std::mem::take(&mut self.has_new_networks) {
            return None;
        }
        Some(self.networks.values().flatten().copied().collect())
    }

    /// Whether the object differs from what is known of it by more than its status.
    fn has_news(&self, object: &Object) -> bool {
        let observed = &self.observed;
        match object {
            Object::Run(run) => observed.runs.get(&run.key).is_some_and(|known| {
                let known = RunConfigView {
                    status: run.status.clone(),
                    ..known.clone()
                };
                known != **run
            }),
            Object::Maintenance(view) => observed.maintenances.get(&view.owner).is_some_and(|known| {
                let known = MaintenanceView {
                    status: view.status.clone(),
                    ..known.clone()
                };
                known != **view
            }),
            Object::Plan(view) => observed.plans.get(&view.key).is_some_and(|known| {
                let known = PlanView {
                    status: view.status.clone(),
                    ..known.clone()
                };
                known != **view
            }),
            Object::Rule(rule) | Object::Unreadable(rule, _) => self
                .rules
                .get(&wire::key(&rule.metadata))
                // Of a rule without room the spec is not there to be compared.
                .is_some_and(|known| wire::edition(&known.metadata) != wire::edition(&rule.metadata)),
            Object::Target(target) => observed
                .targets
                .get(&target.key)
                .is_some_and(|known| known.generation != target.generation),
            Object::Budget(budget) => observed
                .budgets
                .get(&budget.name)
                .is_some_and(|known| known.generation != budget.generation),
            Object::Binding(name, binding) => observed
                .bindings
                .get(name)
                .is_some_and(|known| known.generation != binding.generation),
            _ => false,
        }
    }

    fn unseen(&mut self, kind: Kind, scope: String, words: String) -> bool {
        // The list that had begun says nothing.
        self.listing.remove(&(kind, scope.clone()));
        match kind {
            Kind::Secret => replace(&mut self.observed.unseen_secrets, scope, Some(words)),
            _ => replace(&mut self.observed.unseen_plan_jobs, scope, words),
        }
    }

    /// What was not to be seen has been listed; true if somebody waited for that.
    fn seen_at_last(&mut self, kind: Kind, scope: &str) -> bool {
        match kind {
            Kind::Secret => self.observed.unseen_secrets.remove(scope).is_some(),
            Kind::PlanJob => self.observed.unseen_plan_jobs.remove(scope).is_some(),
            _ => false,
        }
    }

    /// Notes that the channel of a Plan is being asked.
    pub fn asks_channel(&mut self, plan: &Key, url: &str, at: Timestamp) {
        let known = self
            .observed
            .channels
            .remove(plan)
            .filter(|known| known.url == url);
        let view = ChannelView {
            at,
            under_way: true,
            url: url.to_owned(),
            answer: known.as_ref().and_then(|known| known.answer.clone()),
            failures: known.map_or(0, |known| known.failures),
        };
        self.observed.channels.insert(plan.clone(), view);
    }

    fn answered(&mut self, plan: &Key, url: &str, at: Timestamp, answer: Result<String, String>) -> bool {
        let Some(view) = self
            .observed
            .channels
            .get_mut(plan)
            .filter(|view| view.url == url)
        else {
            return false;
        };
        view.failures = if answer.is_ok() {
            0
        } else {
            view.failures.saturating_add(1)
        };
        view.under_way = false;
        view.at = at;
        view.answer = Some(answer);
        true
    }

    /// Begins to keep the pods of a node; true if that is new.
    pub fn keep_pods(&mut self, node: &str) -> bool {
        let is_new = !self.node_pods.contains_key(node);
        if is_new {
            self.node_pods.insert(node.to_owned(), NodePods::default());
        }
        is_new
    }

    /// Forgets the pods of a node, and what came of their evictions.
    pub fn forget_pods(&mut self, node: &str) {
        self.node_pods.remove(node);
        if let Some(pods) = self.observed.pods.remove(node) {
            for pod in pods.values() {
                self.observed.evictions.remove(&pod.uid);
                self.moving.remove(&pod.uid);
            }
        }
        self.observed.returns.retain(|(of, _), _| of != node);
    }

    /// Deployments that claim to be an operator which numo replaces.
    pub fn claims(&self) -> impl Iterator<Item = (&Key, &Claim)> {
        self.claims.iter()
    }

    /// Such a Deployment.
    pub fn claim_of(&self, key: &Key) -> Option<&Claim> {
        self.claims.get(key)
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
            OwnerKind::Plan => {
                let all = observed.plans.get(&owner.key)?.status.conditions.as_ref()?;
                let ready = all.iter().find(|one| one.type_ == types::READY)?;
                ready.reason.as_deref()
            }
        }
    }

    /// Forgets every Deployment of an operator that numo replaces: they are listed anew.
    pub fn forget_claims(&mut self) {
        self.claims.clear();
        self.observed.foreign_controllers.clear();
        self.versions.retain(|(kind, _), _| kind.replaced().is_none());
    }

    /// Whether a Deployment that was there from the start has not been judged.
    pub fn awaits_claims(&self) -> bool {
        let mut claims = self.claims.values();
        let mut kured = self.kured.values();
        claims.any(|claim| claim.from_start && claim.judged.is_none())
            || kured.any(|one| one.from_start && one.may.is_none())
    }

    /// DaemonSets by the name of kured.
    pub fn kured(&self) -> impl Iterator<Item = (&Key, &Kured)> {
        self.kured.iter()
    }

    fn see_kured(&mut self, key: &Key, account: String, locks: Vec<RebootLock>) -> bool {
        let from_start = !self.is_complete();
        let known = self
            .kured
            .get(key)
            .filter(|known| known.account == account)
            .cloned();
        let kured = Kured {
            may: known.as_ref().and_then(|known| known.may),
            asked_at: known.as_ref().and_then(|known| known.asked_at),
            from_start: known.map_or(from_start, |known| known.from_start),
            account,
            locks,
        };
        self.kured.insert(key.clone(), kured);
        self.believe_kured(key)
    }

    fn believe_kured(&mut self, key: &Key) -> bool {
        match self.kured.get(key).filter(|kured| kured.is_believed()) {
            Some(kured) => replace(&mut self.observed.reboot_locks, key.clone(), kured.locks.clone()),
            None => self.observed.reboot_locks.remove(key).is_some(),
        }
    }

    /// Notes that it is being asked what the account of such a DaemonSet may.
    pub fn asks_kured(&mut self, key: &Key) {
        if let Some(kured) = self.kured.get_mut(key) {
            kured.asked_at = Some(Instant::now());
        }
    }

    fn judged_kured(&mut self, key: &Key, account: &str, may: bool) -> bool {
        let Some(kured) = self.kured.get_mut(key).filter(|kured| kured.account == account) else {
            return false;
        };
        kured.may = Some(may);
        self.believe_kured(key)
    }

    /// Takes in such a Deployment; none: it is deleted.
    fn claim(&mut self, key: Key, found: Option<Deployed>) -> bool {
        let known = self.claims.remove(&key);
        let is_deleted = found.is_none();
        let of = match (found, &known) {
            (Some(of), _) => of,
            // Whoever was believed may have pods, and a Lease, for a while.
            (None, Some(known)) if known.rival().is_some() => Deployed {
                runs: false,
                ..known.of.clone()
            },
            (None, _) => return self.observed.foreign_controllers.remove(&key).is_some(),
        };
        let was_live = known.as_ref().is_some_and(|known| known.rival().is_some());
        let from_start = known
            .as_ref()
            .map_or(!self.is_complete(), |known| known.from_start);
        let judged = known.filter(|known| known.of.account == of.account);
        let claim = Claim {
            of,
            is_deleted,
            from_start,
            judged: judged.and_then(|known| known.judged),
            is_as: if was_live { IsAs::LiveBefore } else { IsAs::New },
            asked: 0,
            asked_at: None,
            refusals: 0,
        };
        self.claims.insert(key.clone(), claim);
        self.believe(key)
    }

    /// Has decisions see what is believed of a Deployment.
    fn believe(&mut self, key: Key) -> bool {
        let claim = self.claims.get(&key);
        if let Some(rival) = claim.and_then(Claim::rival) {
            return replace(&mut self.observed.foreign_controllers, key, rival);
        }
        if claim.is_some_and(|claim| claim.is_deleted) {
            self.claims.remove(&key);
        }
        self.observed.foreign_controllers.remove(&key).is_some()
    }

    /// Notes that a Deployment as it is now is being judged.
    pub fn asks_claim(&mut self, key: &Key) -> u64 {
        self.questions += 1;
        if let Some(claim) = self.claims.get_mut(key) {
            claim.asked = self.questions;
            claim.asked_at = Some(Instant::now());
        }
        self.questions
    }

    fn judged_claim(&mut self, key: Key, asked: u64, judged: Judged) -> bool {
        let Some(claim) = self.claims.get_mut(&key) else {
            return false;
        };
        if claim.asked != asked {
            // It has changed since.
            return false;
        }
        claim.refusals = if judged.may {
            0
        } else {
            claim.refusals.saturating_add(1)
        };
        claim.judged = Some(judged);
        claim.is_as = IsAs::Judged;
        self.believe(key)
    }

    /// The nodes whose pods, or the budgets over them, have changed since this was asked last.
    pub fn take_touched(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.touched)
    }

    fn put_pod(&mut self, node: &str, number: u64, pod: PodView) -> bool {
        let Some(known) = self.node_pods.get_mut(node) else {
            return false;
        };
        if let Some(listing) = &mut known.listing {
            listing.insert(pod.key.clone());
        }
        if known.numbers.get(&pod.key).is_some_and(|seen| *seen >= number) {
            return false;
        }
        known.numbers.insert(pod.key.clone(), number);
        if known.pods.get(&pod.key) != Some(&pod) {
            let before = known.pods.insert(pod.key.clone(), pod.clone());
            if let Some(before) = before.filter(|before| before.uid != pod.uid) {
                self.observed.evictions.remove(&before.uid);
            }
            if known.is_listed {
                let pods = self.observed.pods.entry(node.to_owned()).or_default();
                pods.insert(pod.key.clone(), pod);
                self.touched.insert(node.to_owned());
            }
        }
        false
    }

    fn remove_pod(&mut self, key: &Key, number: u64) -> bool {
        let holder = self
            .node_pods
            .iter_mut()
            // A pod of the same name may be on another node by now: it is newer than this deletion.
            .find(|(_, known)| known.numbers.get(key).is_some_and(|seen| *seen <= number));
        let Some((node, known)) = holder else {
            return false;
        };
        known.numbers.remove(key);
        if let Some(pod) = known.pods.remove(key) {
            self.observed.evictions.remove(&pod.uid);
            self.moving.remove(&pod.uid);
        }
        if let Some(pods) = self.observed.pods.get_mut(node) {
            pods.remove(key);
        }
        self.touched.insert(node.clone());
        false
    }

    fn listed_pods(&mut self, node: &str) -> bool {
        let Some(known) = self.node_pods.get_mut(node) else {
            return false;
        };
        if let Some(mentioned) = known.listing.take() {
            known.numbers.retain(|key, _| mentioned.contains(key));
            known.pods.retain(|key, pod| {
                let keep = mentioned.contains(key);
                if !keep {
                    self.observed.evictions.remove(&pod.uid);
                }
                keep
            });
        }
        known.is_listed = true;
        self.observed.pods.insert(node.to_owned(), known.pods.clone());
        self.touched.insert(node.to_owned());
        false
    }

    /// Notes that a pod is being asked to go.
    pub fn asks_to_go(&mut self, eviction: &Eviction, at: Timestamp) {
        let known = self.observed.evictions.get(&eviction.uid);
        let view = EvictionView {
            at,
            refusals: known.map_or(0, |known| known.refusals),
            said: Said::Asked,
            stirred: false,
        };
        self.observed.evictions.insert(eviction.uid.clone(), view);
    }

    /// Notes what came of evicting a pod. A virtual machine that moves is refused by its own budget while it does.
    pub fn evicted(&mut self, node: &str, eviction: &Eviction, said: Said, at: Timestamp) {
        let observed = &mut self.observed;
        let pod = observed.pods.get(node).and_then(|pods| pods.get(&eviction.pod));
        let Some(pod) = pod.filter(|pod| pod.uid == eviction.uid) else {
            return;
        };
        let known = observed.evictions.get(&eviction.uid);
        let accepted = said == Said::Accepted;
        let refusals = known.map_or(0, |known| known.refusals);
        if accepted && observed.returns.len() < RETURNS {
            let place = (node.to_owned(), controller_of(pod));
            let times = observed.returns.get(&place).map_or(0, |known| known.times);
            let again = u32::from(eviction.returned.is_some());
            let times = times.saturating_add(again).max(1);
            observed.returns.insert(place, Returned { times, at });
        }
        let moves = self.moving.contains(&eviction.uid);
        let said = match said {
            Said::Budget(words) if moves => Said::Migrating(words),
            other => other,
        };
        if matches!(said, Said::Migrating(_)) {
            self.moving.insert(eviction.uid.clone());
        }
        let view = EvictionView {
            at,
            refusals: if accepted { 0 } else { refusals.saturating_add(1) },
            said,
            stirred: false,
        };
        observed.evictions.insert(eviction.uid.clone(), view);
    }

    /// A budget has changed: pods that wait for it are asked again, if it lets any go now.
    fn stir_evictions(&mut self, key: &Key, budget: &DisruptionBudgetView) {
        for (node, pods) in &self.observed.pods {
            let behind = pods
                .values()
                .filter(|pod| pod.key.namespace == key.namespace && covers(budget, &pod.labels));
            for pod in behind {
                self.touched.insert(node.clone());
                if let Some(known) = self.observed.evictions.get_mut(&pod.uid)
                    && budget.allowed > 0
                {
                    known.stirred = true;
                }
            }
        }
    }

    /// Takes in our own deletion.
    pub fn own_deletion(&mut self, kind: Kind, key: &Key) {
        self.remove(kind, key, u64::MAX);
        self.versions.remove(&(kind, key.clone()));
    }

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
        known.is_some_and(|known| wire::edition(&known.metadata) == *edition)
    }

    /// What was found out about the component of a rule.
    pub fn examined(&self, key: &Key) -> Option<&Examined> {
        self.examined.get(key)
    }

    /// Notes that a rule is being asked.
    pub fn ask(&mut self, request: &EvaluationRequest, now: Timestamp) {
        let evaluations = &mut self.observed.evaluations;
        let view = evaluations
            .entry(request.key.clone())
            .or_insert_with(|| EvaluationView {
                rule: request.rule.clone(),
                generation: request.generation,
                first_asked: now,
                anew: false,
                asked: now,
                under_way: true,
                answer: None,
                waited: None,
                failures: 0,
                stirred: false,
                stirs: 0,
            });
        view.under_way = true;
        view.asked = now;
        view.stirred = false;
        if matches!(view.answer, Some((_, RuleAnswer::Pass(_)))) {
            // It did not make anybody wait until now.
            view.first_asked = now;
            view.anew = true;
        }
        if view.generation != request.generation {
            // What was mended has its whole time.
            view.first_asked = now;
            view.anew = true;
            view.generation = request.generation;
            view.answer = None;
            view.waited = None;
            view.failures = 0;
        }
    }

    fn evaluated(&mut self, key: &str, at: Timestamp, answer: RuleAnswer) -> bool {
        let Some(view) = self.observed.evaluations.get_mut(key) else {
            return false;
        };
        view.under_way = false;
        view.failures = match answer {
            RuleAnswer::NoVerdict(..) => view.failures.saturating_add(1),
            RuleAnswer::Pass(_) | RuleAnswer::Wait(..) | RuleAnswer::Block(_) => 0,
        };
        if let RuleAnswer::Wait(words, _) = &answer {
            view.waited = Some((at, words.clone()));
        }
        view.answer = Some((at, answer));
        true
    }

    /// Notes that something has changed which a rule read. False if nobody waits for it.
    fn stirred(&mut self, key: &str) -> bool {
        let view = self.observed.evaluations.get_mut(key);
        let waits = view.filter(|view| matches!(view.answer, Some((_, RuleAnswer::Wait(..)))));
        waits.is_some_and(|view| {
            let news = !std::mem::replace(&mut view.stirred, true);
            view.stirs = view.stirs.saturating_add(u32::from(news));
            news
        })
    }

    /// Drops evaluations that nobody has come back to for longer than any rule may ask for.
    pub fn forget_evaluations(&mut self, now: Timestamp) {
        const KEPT_SECONDS: i64 = 2 * 3600;
        let rules = &self.observed.rules;
        self.observed.evaluations.retain(|_, view| {
            let old = view
                .answer
                .as_ref()
                .is_some_and(|(at, _)| now.as_second() - at.as_second() > KEPT_SECONDS);
            // numo's own check is no MutexRule.
            let exists = view.rule == ready::key() || rules.contains_key(&view.rule);
            view.under_way || (!old && exists)
        });
    }

    /// Rules that the API server has not judged, with their objects.
    pub fn unjudged(&self) -> Vec<Arc<MutexRule>> {
        self.rules
            .iter()
            .filter(|(key, rule)| {
                let judged = self.validity.get(*key);
                let is_judged = judged.is_some_and(|(judged, _)| *judged == wire::edition(&rule.metadata));
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
    fn is_whole(&self, key: &Key) -> bool {
        !self.unreadable.contains_key(key) && !self.awaited.contains_key(key) && self.room.lack(key).is_none()
    }

    /// Takes in a rule. Of one for which there is no room an outline is kept, and it says so.
    fn put_rule(&mut self, mut rule: MutexRule) -> bool {
        let key = wire::key(&rule.metadata);
        self.unreadable.remove(&key);
        self.awaited.remove(&key);
        let is_own = key.namespace == self.observed.settings.namespace;
        if !is_own
            && !self
                .room
                .take(&key, wire::weight(&rule), wire::created(&rule.metadata))
        {
            rule.spec = frontends::mutex_rule::outline(&rule.spec);
            self.examined.remove(&key);
        }
        self.rules.insert(key.clone(), Arc::new(rule));
        self.refresh_rule(&key)
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
    fn forget_components(&mut self) -> bool {
        let is_component = |rule: &&Arc<MutexRule>| rule.spec.rule_type == Some(RuleType::Wasm);
        let components = self.rules.values().filter(is_component);
        let components: Vec<Key> = components.map(|rule| wire::key(&rule.metadata)).collect();
        let mut news = false;
        for key in components {
            self.forget_judgement(&key);
            news |= self.refresh_rule(&key);
        }
        news
    }

    fn put(&mut self, kind: Kind, number: u64, object: Object, own: bool) -> bool {
        let (key, scope) = place(&object);
        for ((listed, listed_scope), keys) in &mut self.listing {
            if *listed == kind && (listed_scope.is_empty() || *listed_scope == scope) {
                keys.insert(key.clone());
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
                        own: known.own && own,
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
            return was_known && (self.forget_unread(kind, &key) | self.take_away(kind, &key));
        }
        if let Object::NotRead(key, unread) = object {
            self.versions.insert(slot, Version { number, own });
            return replace(&mut self.observed.unread, (unread_as(kind), key), unread);
        }
        let is_read_again = self.forget_unread(kind, &slot.1);
        self.versions.insert(slot, Version { number, own });
        self.insert(object) | is_read_again
    }

    /// Takes a place for an object, true if it is kept: those that numo heeds are, and those that it heeded when they came; of others as many
    /// as there is a place for. Who only looks keeps everything: it does not know whom numo heeds, and ends soon.
    fn take_place(&mut self, slot: &(Kind, Key), object: &Object, own: bool) -> bool {
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
    fn bury(&mut self, slot: &(Kind, Key), number: u64) {
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

    /// Forgets that an object could not be read; true if it could not.
    fn forget_unread(&mut self, kind: Kind, key: &Key) -> bool {
        let unread = &mut self.observed.unread;
        !unread.is_empty() && unread.remove(&(unread_as(kind), key.clone())).is_some()
    }

    fn insert(&mut self, object: Object) -> bool {
        let observed = &mut self.observed;
        match object {
            Object::Node(node, OfNode { volumes, networks }) => {
                let name = node.name.clone();
                if self.networks.get(&name) != Some(&networks) {
                    self.networks.insert(name.clone(), networks);
                    self.has_new_networks = true;
                }
                let known = observed.volumes.get(&name).map_or(&[][..], Vec::as_slice);
                if *known != *volumes {
                    if self.node_pods.contains_key(&name) {
                        self.touched.insert(name.clone());
                    }
                    if volumes.is_empty() {
                        observed.volumes.remove(&name);
                    } else {
                        observed.volumes.insert(name.clone(), volumes);
                    }
                }
                replace(&mut observed.nodes, name, *node)
            }
            Object::Pool(pool) => replace(&mut observed.pools, pool.name.clone(), *pool),
            Object::Config(name, config) => replace(&mut observed.configs, name, config),
            Object::ClusterVersion(version) => set(&mut observed.cluster_version, Some(version)),
            Object::Infrastructure(topology) => set(&mut observed.control_plane_topology, topology),
            Object::Layered(name, pool) => replace(&mut observed.layered, name, pool),
            Object::Machine(place, machine) => replace(&mut observed.machines, place, *machine),
            Object::HealthCheck(place, check) => replace(&mut observed.health_checks, place, check),
            Object::RebootLocks(key, account, locks) => self.see_kured(&key, account, locks),
            Object::Run(run) => replace(&mut observed.runs, run.key.clone(), *run),
            Object::Target(target) => replace(&mut observed.targets, target.key.clone(), *target),
            Object::Change(change) => replace(&mut observed.changes, change.key.clone(), *change),
            Object::Budget(budget) => replace(&mut observed.budgets, budget.name.clone(), *budget),
            Object::Namespace(name, view) => {
                let mut news = if view.plans {
                    observed.plan_namespaces.insert(name.clone())
                } else {
                    observed.plan_namespaces.remove(&name)
                };
                news |= if view.rule_jobs_from.is_empty() {
                    observed.rule_jobs_from.remove(&name).is_some()
                } else {
                    replace(&mut observed.rule_jobs_from, name.clone(), view.rule_jobs_from)
                };
                news |= replace(&mut observed.namespaces, name.clone(), view.terminating);
                if news {
                    self.crowd.heed(&name);
                    self.refresh_rules_in(&name);
                }
                news
            }
            Object::Lease(node, lease) => replace(&mut observed.leases, node, lease),
            Object::Binding(name, binding) => replace(&mut observed.bindings, name, *binding),
            Object::Maintenance(view) => replace(&mut observed.maintenances, view.owner.clone(), *view),
            Object::DisruptionBudget(key, budget) => {
                let of_etcd = key.namespace == OPENSHIFT_ETCD;
                let news = replace(&mut observed.disruption_budgets, key.clone(), (*budget).clone());
                if news {
                    self.stir_evictions(&key, &budget);
                }
                news && of_etcd
            }
            Object::EtcdPod(key, pod) => replace(&mut observed.etcd_pods, key, pod),
            Object::DaemonSet(key, uid) => {
                if let Some(before) = self.daemon_sets.insert(key, uid.clone()) {
                    observed.daemon_sets.remove(&before);
                }
                observed.daemon_sets.insert(uid);
                false
            }
            Object::Foreign(key, deployed) => self.claim(key, Some(*deployed)),
            Object::NodePod(..) | Object::NotRead(..) => false,
            Object::Plan(plan) => {
                let key = plan.key.clone();
                let is_new = !observed.plans.contains_key(&key);
                let news = replace(&mut observed.plans, key.clone(), *plan);
                self.plan_came_or_went(&key, is_new);
                news
            }
            Object::Secret(key, hash) => replace(&mut observed.secrets, key, hash),
            Object::PlanJob(key, job, pods) => {
                self.plan_jobs.insert(key.clone(), (*job, pods));
                self.refresh_plan_job(&key)
            }
            Object::PlanPod(key, pod) => {
                let job = pod.job.clone();
                self.plan_pods.insert(key, pod);
                self.refresh_plan_job(&job)
            }
            Object::Rule(rule) => self.put_rule(*rule),
            // Noted where it was put.
            Object::Unreadable(rule, why) => {
                let key = wire::key(&rule.metadata);
                self.unreadable.insert(key.clone(), why);
                self.room.forget(&key);
                self.awaited.remove(&key);
                self.rules.insert(key.clone(), Arc::new(*rule));
                self.refresh_rule(&key)
            }
            Object::Job(key, job) => {
                self.jobs.insert(key.clone(), job);
                self.refresh_job(&key)
            }
            Object::Pod(pod, job, trouble) => {
                self.pods.insert(pod, (job.clone(), trouble));
                self.refresh_job(&job)
            }
            Object::JobEvent(event, job, trouble) => {
                let of_job = self.event_of.insert(job.clone(), event.clone());
                if let Some(before) = of_job.filter(|before| *before != event) {
                    self.job_events.remove(&before);
                } else if self.job_events.len() >= JOB_EVENTS {
                    // Who writes so many leaves Jobs without the words why they have no pods.
                    self.event_of.remove(&job);
                    return false;
                }
                self.job_events.insert(event, (job.clone(), trouble));
                self.refresh_plan_job(&job) | self.refresh_job(&job)
            }
        }
    }

    fn remove(&mut self, kind: Kind, key: &Key, number: u64) -> bool {
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
        self.take_away(kind, key) | was_unread
    }

    fn take_away(&mut self, kind: Kind, key: &Key) -> bool {
        let observed = &mut self.observed;
        match kind {
            Kind::Node => {
                observed.volumes.remove(&key.name);
                self.has_new_networks |= self.networks.remove(&key.name).is_some();
                observed.nodes.remove(&key.name).is_some()
            }
            Kind::MachineConfigPool => observed.pools.remove(&key.name).is_some(),
            Kind::MachineConfig => observed.configs.remove(&key.name).is_some(),
            Kind::ClusterVersion => observed.cluster_version.take().is_some(),
            Kind::Infrastructure => observed.control_plane_topology.take().is_some(),
            Kind::MachineOSConfig => observed.layered.remove(&key.name).is_some(),
            Kind::OpenShiftMachine => remove_of(&mut observed.machines, MachineApi::OpenShift, key),
            Kind::ClusterApiMachine => remove_of(&mut observed.machines, MachineApi::ClusterApi, key),
            Kind::OpenShiftHealthCheck => remove_of(&mut observed.health_checks, MachineApi::OpenShift, key),
            Kind::ClusterApiHealthCheck => {
                remove_of(&mut observed.health_checks, MachineApi::ClusterApi, key)
            }
            Kind::Kured => {
                self.kured.remove(key);
                self.observed.reboot_locks.remove(key).is_some()
            }
            Kind::MutexRunConfig => observed.runs.remove(key).is_some(),
            Kind::MutexTarget => observed.targets.remove(key).is_some(),
            Kind::NodeChange => observed.changes.remove(key).is_some(),
            Kind::MutexBudget => observed.budgets.remove(&key.name).is_some(),
            Kind::Namespace => {
                observed.plan_namespaces.remove(&key.name);
                observed.rule_jobs_from.remove(&key.name);
                let news = observed.namespaces.remove(&key.name).is_some();
                self.refresh_rules_in(&key.name);
                news
            }
            Kind::Lease => key
                .name
                .strip_prefix("node-")
                .is_some_and(|node| observed.leases.remove(node).is_some()),
            Kind::MutexBinding => observed.bindings.remove(&key.name).is_some(),
            Kind::NodeMaintenance => {
                let owner = Owner::maintenance(MaintenanceGroup::Medik8s, &key.name);
                observed.maintenances.remove(&owner).is_some()
            }
            Kind::KubeVirtMaintenance => {
                let owner = Owner::maintenance(MaintenanceGroup::KubeVirt, &key.name);
                observed.maintenances.remove(&owner).is_some()
            }
            Kind::DisruptionBudget => {
                if let Some(gone) = observed.disruption_budgets.remove(key) {
                    let open = DisruptionBudgetView { allowed: 1, ..gone };
                    self.stir_evictions(key, &open);
                }
                key.namespace == OPENSHIFT_ETCD
            }
            Kind::EtcdPod => observed.etcd_pods.remove(key).is_some(),
            Kind::NodeMaintenanceOperator
            | Kind::NodeMaintenanceOperatorOld
            | Kind::NodeMaintenanceOperatorBundled
            | Kind::NodeUpgradeMutexOperator
            | Kind::SystemUpgradeController => self.claim(key.clone(), None),
            Kind::DaemonSet => {
                if let Some(uid) = self.daemon_sets.remove(key) {
                    observed.daemon_sets.remove(&uid);
                }
                false
            }
            Kind::NodePod => false,
            Kind::Plan => {
                observed.channels.remove(key);
                let was_there = observed.plans.remove(key).is_some();
                self.plan_came_or_went(key, was_there);
                was_there
            }
            Kind::Secret => observed.secrets.remove(key).is_some(),
            Kind::PlanJob => {
                self.plan_jobs.remove(key);
                observed.plan_jobs.remove(key).is_some()
            }
            Kind::PlanPod => {
                let pod = self.plan_pods.remove(key);
                pod.is_some_and(|pod| self.refresh_plan_job(&pod.job))
            }
            Kind::MutexRule => {
                self.rules.remove(key);
                self.room.forget(key);
                self.awaited.remove(key);
                self.validity.remove(key);
                self.unreadable.remove(key);
                self.examined.remove(key);
                observed.rules.remove(key).is_some()
            }
            Kind::Job => {
                self.jobs.remove(key);
                observed.jobs.remove(key).is_some()
            }
            Kind::Pod => {
                let job = self.pods.remove(key);
                job.is_some_and(|(job, _)| self.refresh_job(&job))
            }
            Kind::JobEvent => {
                let job = self.job_events.remove(key);
                job.is_some_and(|(job, _)| {
                    self.event_of.remove(&job);
                    self.refresh_plan_job(&job) | self.refresh_job(&job)
                })
            }
        }
    }

    /// What a complete list does not mention is gone, but for what we wrote and the watch has yet to see.
    fn listed(&mut self, kind: Kind, scope: String) -> bool {
        let slot = (kind, scope);
        let mut changed = self.waiting_for.remove(&slot);
        if self.listing.contains_key(&slot) {
            changed |= self.seen_at_last(kind, &slot.1);
            changed |= self.observed.absent.remove(kind.resource().3).is_some();
        }
        changed |= self.observed.unlisted.remove(kind.resource().3).is_some();
        let Some(mentioned) = self.listing.remove(&slot) else {
            return changed;
        };
        let gone: Vec<Key> = self
            .versions
            .iter()
            .filter(|((known, key), version)| {
                *known == kind
                    && (slot.1.is_empty() || key.namespace == slot.1)
                    && !mentioned.contains(key)
                    && !version.own
            })
            .map(|((_, key), _)| key.clone())
            .collect();
        for key in gone {
            changed |= self.remove(kind, &key, u64::MAX);
        }
        changed
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
    fn refresh_rules_in(&mut self, namespace: &str) {
        let rules = self.observed.rules.values();
        let rules = rules.filter(|rule| rule.job_namespace == namespace);
        let rules: Vec<Key> = rules.map(|rule| rule.key.clone()).collect();
        for key in rules {
            self.refresh_rule(&key);
        }
    }

    /// Rules of others do not run at home beside a Plan.
    fn plan_came_or_went(&mut self, key: &Key, is_so: bool) {
        let own = self.observed.settings.namespace.clone();
        if is_so && key.namespace == own {
            self.refresh_rules_in(&own);
        }
    }

    fn refresh_rule(&mut self, key: &Key) -> bool {
        let Some(rule) = self.rules.get(key) else {
            return false;
        };
        let edition = wire::edition(&rule.metadata);
        // A rule that was valid stays so while its new generation is being judged only if nothing is
        // known against it: it is Unknown until then, and Unknown admits nobody.
        let validity = self
            .validity
            .get(key)
            .filter(|(judged, _)| *judged == edition)
            .map_or(Validity::Unknown, |(_, validity)| validity.clone());
        let mut view: RuleView = wire::rule(rule, validity);
        if !view.is_asked && self.unwatched.contains(&view.job_namespace) {
            let message = format!(
                "spec.jobNamespace {}: rules name more than {MAX_JOB_NAMESPACES} namespaces for their Jobs, or more than \
                 {MAX_GIVING_BACK} of owners that are not honoured; wanted one of those that others use (numo begins anew with each restart)",
                view.job_namespace
            );
            view.validity = Validity::Invalid(numo_api::Reason::TooManyNamespaces, message);
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

    fn refresh_plan_job(&mut self, key: &Key) -> bool {
        let Some((job, left)) = self.plan_jobs.get(key) else {
            return false;
        };
        let pods = || self.plan_pods.values().filter(|pod| pod.job == *key);
        let events = self.job_events.values().filter(|(of, _)| of == key);
        let has_pods = pods().next().is_some();
        let trouble = pods().find_map(|pod| pod.trouble.clone());
        let by_event = events.map(|(_, trouble)| trouble.clone()).next_back();
        let runs = pods().find_map(|pod| pod.runs.clone());
        let trouble = trouble.or(by_event.filter(|_| !has_pods));
        // A pod that the Job counts and nobody sees may have been taken up.
        let all_seen = left.is_some_and(|left| left <= pods().count());
        let view = PlanJobView {
            untouched: all_seen && !pods().any(|pod| pod.taken_up),
            ..job.clone().with_pods(runs, trouble)
        };
        replace(&mut self.observed.plan_jobs, key.clone(), view)
    }

    fn refresh_job(&mut self, key: &Key) -> bool {
        let Some(job) = self.jobs.get(key) else {
            return false;
        };
        let by_pod = self
            .pods
            .values()
            .filter(|(job, _)| job == key)
            .find_map(|(_, trouble)| trouble.clone());
        let by_event = || {
            let created = self
                .job_events
                .values()
                .filter(|(job, _)| job == key)
                .map(|(_, trouble)| trouble);
            if job.started {
                None
            } else {
                created.into_iter().next_back().cloned()
            }
        };
        let trouble = by_pod.or_else(by_event);
        replace(
            &mut self.observed.jobs,
            key.clone(),
            JobView {
                trouble,
                ..job.clone()
            },
        )
    }

    /// Notes a write that was refused for a reason a user must hear of.
    pub fn refuse(&mut self, about: Key, code: u16, message: String, at: Timestamp) {
        self.observed
            .refusals
            .insert(about, numo_core::observed::Refusal { code, message, at });
    }

    /// Drops refusals of Jobs in namespaces that no rule names any more.
    pub fn forget_refusals(&mut self) {
        let named: BTreeSet<&String> = self
            .observed
            .rules
            .values()
            .map(|rule| &rule.job_namespace)
            .collect();
        self.observed
            .refusals
            .retain(|job, _| named.contains(&job.namespace));
    }

    /// A write that was refused before has succeeded.
    pub fn accept(&mut self, about: &Key) {
        self.observed.refusals.remove(about);
    }
}

fn remove_of<V>(map: &mut BTreeMap<(MachineApi, Key), V>, api: MachineApi, key: &Key) -> bool {
    map.remove(&(api, key.clone())).is_some()
}

/// Where an object stands: its key, and the namespace its watch may be limited to.
fn place(object: &Object) -> (Key, String) {
    let of = |key: &Key| (key.clone(), key.namespace.clone());
    let cluster = |name: &str| (Key::new("", name), String::new());
    match object {
        Object::Node(node, _) => cluster(&node.name),
        Object::Pool(pool) => cluster(&pool.name),
        Object::Config(name, _)
        | Object::Namespace(name, ..)
        | Object::Layered(name, _)
        | Object::Binding(name, _) => cluster(name),
        Object::Machine((_, key), _) | Object::HealthCheck((_, key), _) | Object::RebootLocks(key, ..) => {
            of(key)
        }
        Object::ClusterVersion(_) => cluster("version"),
        Object::Infrastructure(_) => cluster("cluster"),
        Object::Run(run) => of(&run.key),
        Object::Rule(rule) | Object::Unreadable(rule, _) => of(&wire::key(&rule.metadata)),
        Object::Target(target) => of(&target.key),
        Object::Change(change) => of(&change.key),
        Object::Budget(budget) => cluster(&budget.name),
        Object::Lease(node, _) => of(&Key::new(
            numo_api::marks::LEASE_NAMESPACE,
            format!("node-{node}"),
        )),
        Object::Job(key, _)
        | Object::Pod(key, _, _)
        | Object::JobEvent(key, _, _)
        | Object::PlanJob(key, ..)
        | Object::PlanPod(key, ..)
        | Object::Secret(key, _)
        | Object::DisruptionBudget(key, _)
        | Object::EtcdPod(key, _)
        | Object::DaemonSet(key, _)
        | Object::Foreign(key, _)
        | Object::NotRead(key, _) => of(key),
        Object::Maintenance(view) => cluster(&view.owner.key.name),
        Object::Plan(plan) => of(&plan.key),
        Object::NodePod(_, pod) => of(&pod.key),
    }
}

/// The plural of a kind, with its group where two groups have it: by that an object that cannot be read is known.
const fn unread_as(kind: Kind) -> &'static str {
    match kind {
        Kind::KubeVirtMaintenance => "nodemaintenances.nodemaintenance.kubevirt.io",
        _ => kind.resource().3,
    }
}

fn replace<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: V) -> bool {
    if map.get(&key) == Some(&value) {
        return false;
    }
    map.insert(key, value);
    true
}

fn set<V: PartialEq>(slot: &mut Option<V>, value: Option<V>) -> bool {
    if *slot == value {
        return false;
    }
    *slot = value;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::observed::{ConfigView, Unread};

    fn config(version: &str) -> Object {
        Object::Config(
            "rendered".to_owned(),
            ConfigView {
                version: Some(version.to_owned()),
            },
        )
    }

    #[test]
    fn an_invitation_that_comes_later_is_news() {
        let mut store = Store::new(Settings::default());
        let scope = || "team".to_owned();
        store.expect(Kind::PlanJob, "team");
        assert!(store.see(Seen::Unseen(Kind::PlanJob, scope(), "forbidden".to_owned())));
        assert!(
            store.see(Seen::Listed(Kind::PlanJob, scope())),
            "nobody waits for it"
        );
        assert!(store.observed.unseen_plan_jobs.contains_key("team"));
        assert!(!store.see(Seen::Listing(Kind::PlanJob, scope())));
        assert!(
            store.see(Seen::Listed(Kind::PlanJob, scope())),
            "it is seen at last"
        );
        assert!(store.observed.unseen_plan_jobs.is_empty());
    }

    #[test]
    fn a_rule_of_others_is_judged_anew_when_a_plan_comes_home_and_goes() {
        let settings = Settings {
            namespace: "home".to_owned(),
            ..Settings::default()
        };
        let (mut store, number) = (Store::new(settings), std::cell::Cell::new(0));
        let see = |store: &mut Store, kind: Kind, body: serde_json::Value| {
            number.set(number.get() + 1);
            let object = wire::object(kind, serde_json::from_value(body).unwrap()).unwrap();
            store.see(Seen::Applied(kind, number.get(), object));
        };
        let refused = |store: &Store| {
            matches!(
                &store.observed.rules[&Key::new("team", "check")].validity,
                Validity::Invalid(numo_api::Reason::JobsForbidden, words) if words.contains("which has Plans")
            )
        };
        let metadata = serde_json::json!({
            "name": "home", "uid": "n", "annotations": {(numo_api::marks::RULE_JOBS_FROM): "team"},
        });
        let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        see(&mut store, Kind::Namespace, namespace);
        let rule = serde_json::json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRule",
            "metadata": {"name": "check", "namespace": "team", "uid": "r", "generation": 1},
            "spec": {"jobName": "check", "jobNamespace": "home", "type": "kubernetes", "jobSpec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            }}}},
        });
        see(&mut store, Kind::MutexRule, rule);
        assert!(!refused(&store), "it is invited");
        let plan = |namespace: &str| {
            serde_json::json!({
                "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
                "metadata": {"name": "k3s", "namespace": namespace, "uid": "p", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"upgrade": {"image": "i"}},
            })
        };
        see(&mut store, Kind::Plan, plan("elsewhere"));
        assert!(!refused(&store));
        see(&mut store, Kind::Plan, plan("home"));
        assert!(refused(&store));
        store.see(Seen::Deleted(
            Kind::Plan,
            Key::new("home", "k3s"),
            number.get() + 1,
        ));
        assert!(!refused(&store));
    }

    fn version_of(store: &Store) -> Option<String> {
        store
            .observed
            .configs
            .get("rendered")
            .and_then(|config| config.version.clone())
    }

    #[test]
    fn a_job_of_a_plan_is_untouched_until_a_kubelet_may_have_taken_up_a_pod_of_it() {
        let (mut store, number) = (Store::default(), std::cell::Cell::new(0));
        let see = |store: &mut Store, kind: Kind, body: serde_json::Value| {
            number.set(number.get() + 1);
            let object = wire::object(kind, serde_json::from_value(body).unwrap()).unwrap();
            store.see(Seen::Applied(kind, number.get(), object));
        };
        let job = |status: serde_json::Value| {
            serde_json::json!({
                "apiVersion": "batch/v1", "kind": "Job", "status": status,
                "metadata": {"name": "j", "namespace": "ns", "uid": "u", "labels": {
                    numo_api::marks::PLAN: "p", numo_api::marks::PLAN_NODE: "a",
                }},
            })
        };
        let pod = |name: &str, status: serde_json::Value| {
            serde_json::json!({
                "apiVersion": "v1", "kind": "Pod", "status": status,
                "metadata": {"name": name, "namespace": "ns", "labels": {"batch.kubernetes.io/job-name": "j"}},
            })
        };
        let untouched = |store: &Store| store.observed.plan_jobs[&Key::new("ns", "j")].untouched;
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        see(&mut store, Kind::PlanJob, job(json("{}")));
        assert!(untouched(&store), "it has no pod");
        see(&mut store, Kind::PlanJob, job(json(r#"{"active": 1}"#)));
        assert!(!untouched(&store), "its pod is not seen");
        see(
            &mut store,
            Kind::PlanPod,
            pod("one", json(r#"{"phase": "Pending"}"#)),
        );
        assert!(untouched(&store), "no kubelet has taken it up");
        see(
            &mut store,
            Kind::PlanJob,
            job(json(r#"{"active": 1, "terminating": 1}"#)),
        );
        assert!(!untouched(&store), "another pod of it is not seen");
        for status in [
            r#"{"failed": 1}"#,
            r#"{"uncountedTerminatedPods": {"failed": ["x"]}}"#,
        ] {
            see(&mut store, Kind::PlanJob, job(json(status)));
            assert!(!untouched(&store), "a pod of it has ended");
        }
        see(&mut store, Kind::PlanJob, job(json(r#"{"active": 1}"#)));
        assert!(untouched(&store));
        let taken = json(r#"{"phase": "Pending", "startTime": "2030-01-01T00:00:00Z"}"#);
        see(&mut store, Kind::PlanPod, pod("one", taken));
        assert!(!untouched(&store), "a kubelet has taken it up");
    }

    #[test]
    fn an_older_event_does_not_undo_our_own_write() {
        let mut store = Store::new(Settings::default());
        assert!(store.see(Seen::Applied(Kind::MachineConfig, 5, config("a"))));
        store.own(Kind::MachineConfig, 7, config("b"));
        assert!(!store.see(Seen::Applied(Kind::MachineConfig, 6, config("a"))));
        assert_eq!(version_of(&store).as_deref(), Some("b"));
        assert!(!store.see(Seen::Applied(Kind::MachineConfig, 7, config("b"))));
    }

    /// A person's edit and a status write of ours in the same moment: the watch brings nothing newer than the
    /// answer, so the answer must tell.
    #[test]
    fn an_edit_that_comes_with_the_answer_to_a_status_write_is_news() {
        let mut store = Store::new(Settings::default());
        let run = |suspend, pass: i64| {
            let mut run = numo_api::MutexRunConfig::new("a", numo_api::MutexRunConfigSpec::default());
            run.spec.suspend = suspend;
            run.status = Some(numo_api::MutexRunConfigStatus {
                observed_generation: Some(pass),
                ..numo_api::MutexRunConfigStatus::default()
            });
            Object::Run(Box::new(wire::run(run)))
        };
        let kind = Kind::MutexRunConfig;
        assert_eq!(
            store.take_in(Seen::Applied(kind, 5, run(Some(true), 0))),
            Reach::Everyone
        );
        store.own_status(kind, 6, run(Some(true), 1));
        assert_eq!(store.take_news(), Reach::Nobody, "our own status");
        store.own_status(kind, 8, run(None, 2));
        assert_eq!(store.take_in(Seen::Applied(kind, 7, run(None, 1))), Reach::Nobody);
        assert_eq!(store.take_news(), Reach::Everyone, "somebody's edit");
        assert_eq!(store.take_news(), Reach::Nobody, "said once");
    }

    #[test]
    fn a_list_forgets_what_it_does_not_mention_but_for_our_own_writes() {
        let mut store = Store::new(Settings::default());
        store.expect(Kind::MachineConfig, "");
        store.see(Seen::Applied(Kind::MachineConfig, 5, config("a")));
        store.see(Seen::Listing(Kind::MachineConfig, String::new()));
        assert!(!store.is_complete());
        store.see(Seen::Listed(Kind::MachineConfig, String::new()));
        assert!(store.is_complete());
        assert_eq!(version_of(&store), None);
        store.own(Kind::MachineConfig, 9, config("b"));
        store.see(Seen::Listing(Kind::MachineConfig, String::new()));
        store.see(Seen::Listed(Kind::MachineConfig, String::new()));
        assert_eq!(version_of(&store).as_deref(), Some("b"));
    }

    #[test]
    fn a_list_that_fails_is_not_an_empty_list() {
        let mut store = Store::new(Settings::default());
        let kind = Kind::MachineConfig;
        store.expect(kind, "");
        store.see(Seen::Listing(kind, String::new()));
        store.see(Seen::Applied(kind, 5, config("a")));
        store.see(Seen::Listed(kind, String::new()));
        // It lists anew, and that breaks off.
        store.see(Seen::Listing(kind, String::new()));
        let words = "machineconfigs is forbidden (403)".to_owned();
        assert!(store.see(Seen::ListFailed(kind, String::new(), words)));
        assert_eq!(version_of(&store).as_deref(), Some("a"), "what was seen is kept");
        let run = numo_core::OwnerKind::MutexRunConfig;
        let why = store.observed.list_failed(run).map(|why| why.reason);
        assert_eq!(why, Some(numo_api::Reason::ListFailed));
        assert_eq!(
            store.observed.list_failed(numo_core::OwnerKind::Plan),
            None,
            "a Plan needs none"
        );
        // A list that works says who is gone.
        store.see(Seen::Listing(kind, String::new()));
        assert!(store.see(Seen::Listed(kind, String::new())));
        assert_eq!(
            (version_of(&store), store.observed.list_failed(run)),
            (None, None)
        );
    }

    #[test]
    fn a_kind_that_was_never_served_is_known_to_be_unknown() {
        let mut store = Store::new(Settings::default());
        let kind = Kind::MachineConfigPool;
        store.expect(kind, "");
        store.see(Seen::Listing(kind, String::new()));
        assert!(store.see(Seen::Absent(kind, "404 page not found".to_owned())));
        store.see(Seen::Listed(kind, String::new()));
        assert!(store.is_complete(), "nobody waits where there is no OpenShift");
        assert!(store.observed.never_listed().is_some());
        // It is listed anew, and that works.
        store.see(Seen::Listing(kind, String::new()));
        assert!(store.see(Seen::Listed(kind, String::new())));
        assert_eq!(store.observed.never_listed(), None);
    }

    /// An object as a list has it.
    fn item(kind: Kind, body: &serde_json::Value) -> Object {
        let item: crate::shell::item::Item = serde_json::from_str(&body.to_string()).unwrap();
        wire::item(kind, &item).unwrap()
    }

    /// A numo that is rolled back in mid-run does not know every step, phase and result that a later one wrote.
    #[test]
    fn an_object_of_ours_that_cannot_be_read_is_not_gone() {
        let change = |step: &str| {
            serde_json::json!({
                "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "NodeChange",
                "metadata": {"name": "a", "namespace": "numo", "uid": "u"},
                "spec": {
                    "ownerRef": {"apiVersion": "v1", "kind": "Plan", "name": "p", "uid": "o"},
                    "nodeName": "a", "nodeUID": "n", "target": {"version": "1", "runID": "r", "pool": ""},
                },
                "status": {"step": step},
            })
        };
        let settings = || Settings {
            namespace: "numo".to_owned(),
            ..Settings::default()
        };
        let (kind, key) = (Kind::NodeChange, Key::new("numo", "a"));
        let all = [
            numo_core::OwnerKind::MutexRunConfig,
            numo_core::OwnerKind::Plan,
            numo_core::OwnerKind::NodeMaintenance(MaintenanceGroup::Medik8s),
        ];
        let stops = |store: &Store| {
            let why = all.map(|owner| store.observed.list_failed(owner).map(|why| why.reason));
            why.iter()
                .all(|reason| *reason == Some(numo_api::Reason::ListFailed))
        };
        let list = |store: &mut Store, number, step| {
            store.see(Seen::Listing(kind, String::new()));
            store.see(Seen::Applied(kind, number, item(kind, &change(step))));
            store.see(Seen::Listed(kind, String::new()));
        };
        let mut store = Store::new(settings());
        list(&mut store, 5, "Released");
        assert!(store.observed.changes.contains_key(&key) && !stops(&store));
        list(&mut store, 6, "Levitated");
        assert!(store.observed.changes.contains_key(&key), "what was seen is kept");
        assert!(stops(&store), "nothing begins");
        list(&mut store, 7, "Done");
        assert!(!stops(&store) && store.observed.unread.is_empty());
        // Nor what a journal of a later format means.
        let mut later = change("Released");
        later["status"]["journalVersion"] = serde_json::json!(2);
        store.see(Seen::Applied(kind, 8, item(kind, &later)));
        assert!(stops(&store), "nothing begins");
        let words = store
            .observed
            .list_failed(all[0])
            .map(|why| why.message.to_string());
        assert!(words.is_some_and(|words| words.contains("journalVersion: found 2")));
        later["status"]["journalVersion"] = serde_json::json!(1);
        store.see(Seen::Applied(kind, 9, item(kind, &later)));
        assert!(!stops(&store));
        // After a restart nothing is known of it, but that it is there.
        let mut store = Store::new(settings());
        list(&mut store, 6, "Levitated");
        assert!(stops(&store), "nothing begins");
        store.see(Seen::Deleted(kind, key, 8));
        assert!(!stops(&store));
    }

    #[test]
    fn no_stranger_stops_an_owner_by_an_object_that_nobody_can_read() {
        let run = |namespace: &str| {
            let body = serde_json::json!({
                "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig",
                "metadata": {"name": "a", "namespace": namespace, "uid": namespace},
                "spec": {"mutexTargets": "all"},
            });
            item(Kind::MutexRunConfig, &body)
        };
        let mut store = Store::new(Settings {
            namespace: "numo".to_owned(),
            ..Settings::default()
        });
        let kind = numo_core::OwnerKind::MutexRunConfig;
        store.see(Seen::Applied(Kind::MutexRunConfig, 5, run("team")));
        assert_eq!(store.observed.list_failed(kind), None);
        store.see(Seen::Applied(Kind::MutexRunConfig, 6, run("numo")));
        let words = store
            .observed
            .list_failed(kind)
            .map(|why| why.message.to_string());
        assert!(words.is_some_and(|words| words.contains("mutexrunconfigs numo/a")));
        // Another kind of owner is not stopped by it, and its pools are nobody's to take.
        assert_eq!(store.observed.list_failed(numo_core::OwnerKind::Plan), None);
        assert_eq!(store.observed.unread_run("numo"), Some(&Key::new("numo", "a")));
    }

    #[test]
    fn a_rule_with_jobs_in_a_namespace_that_is_not_watched_says_so() {
        let mut store = Store::new(Settings::default());
        let spec = serde_json::json!({"jobSpec": {}, "jobNamespace": "one-too-many"});
        let mut rule = MutexRule::new("backup", serde_json::from_value(spec).unwrap());
        rule.metadata.namespace = Some("numo".to_owned());
        let key = wire::key(&rule.metadata);
        store.see(Seen::Applied(Kind::MutexRule, 5, Object::Rule(Box::new(rule))));
        store.leave_unwatched("one-too-many");
        let validity = &store.observed.rules[&key].validity;
        assert!(
            matches!(validity, Validity::Invalid(numo_api::Reason::TooManyNamespaces, words) if words.contains("one-too-many")),
            "{validity:?}"
        );
    }

    /// A rule of this many small values, which take a hundred times their text.
    fn heavy(namespace: &str, name: &str, values: usize, created: i64) -> Object {
        let values = vec![serde_json::json!({"a": 0}); values];
        let spec = serde_json::json!({"phases": ["Post"], "jobSpec": {"a": values}});
        let mut rule = MutexRule::new(name, serde_json::from_value(spec).unwrap());
        rule.metadata.namespace = Some(namespace.to_owned());
        rule.metadata.uid = Some(format!("{namespace}/{name}"));
        let created = Timestamp::from_second(created).unwrap();
        rule.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created));
        Object::Rule(Box::new(rule))
    }

    /// Labels, annotations and owner references of a rule may be as large as it, and are not kept.
    #[test]
    fn nothing_of_a_rule_is_kept_that_is_not_weighed() {
        let labels: BTreeMap<String, String> =
            (0..1000).map(|at| (format!("l{at}"), String::new())).collect();
        let body = serde_json::json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRule",
            "metadata": {
                "name": "a", "namespace": "team", "uid": "u", "generation": 3,
                "labels": labels, "annotations": labels,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}],
            },
            "spec": {},
        });
        let mut store = Store::new(Settings::default());
        store.see(Seen::Applied(Kind::MutexRule, 5, item(Kind::MutexRule, &body)));
        let kept = &store.rules[&Key::new("team", "a")].metadata;
        assert_eq!((kept.generation, kept.uid.as_deref()), (Some(3), Some("u")));
        assert!(kept.labels.is_none() && kept.annotations.is_none() && kept.owner_references.is_none());
        // A rule without anything weighs something: there is an end to the number of those that have room.
        let Object::Rule(rule) = item(Kind::MutexRule, &body) else {
            panic!("a rule");
        };
        assert!(wire::weight(&rule) >= 2048);
    }

    /// A store in which eight namespaces take all the room, and the rule team/gate, which is as large as a share, came last.
    fn flooded() -> (Store, Key) {
        // 711 bytes of memory each.
        const SHARE: usize = 23_500;
        let mut store = Store::new(Settings {
            namespace: "numo".to_owned(),
            ..Settings::default()
        });
        for number in 0..8 {
            let rule = heavy(&format!("flood-{number}"), "big", SHARE, number);
            store.see(Seen::Applied(Kind::MutexRule, 5, rule));
        }
        store.see(Seen::Applied(
            Kind::MutexRule,
            9,
            heavy("team", "gate", SHARE, 100),
        ));
        (store, Key::new("team", "gate"))
    }

    fn refused_for(store: &Store, key: &Key) -> Option<numo_api::Reason> {
        match &store.observed.rules[key].validity {
            Validity::Invalid(reason, _) => Some(*reason),
            Validity::Unknown | Validity::Valid => None,
        }
    }

    /// A rule without anything, or a MutexRunConfig with a selector of this many labels, in this namespace.
    fn written(kind: Kind, (namespace, name): (&str, &str), labels: usize) -> Object {
        let labels: BTreeMap<String, String> = (0..labels)
            .map(|at| (format!("label-{at}"), String::new()))
            .collect();
        let spec = match kind {
            Kind::MutexRule => serde_json::json!({}),
            _ => serde_json::json!({"mutexTargets": [{"name": "a"}], "first": {"matchLabels": labels}}),
        };
        let body = serde_json::json!({
            "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}"), "generation": 1},
            "spec": spec,
        });
        item(kind, &body)
    }

    #[test]
    fn runs_of_strangers_take_no_more_than_their_share() {
        let mut store = Store::new(Settings {
            namespace: "numo".to_owned(),
            ..Settings::default()
        });
        let kind = Kind::MutexRunConfig;
        let put = |store: &mut Store, namespace: &str, number: u64| {
            let run = written(kind, (namespace, &number.to_string()), 3000);
            store.see(Seen::Applied(kind, number + 1, run));
        };
        for number in 0..300 {
            put(&mut store, "flood", number);
            put(&mut store, "numo", number);
        }
        let of = |store: &Store, namespace: &str| {
            let runs = store.observed.runs.keys();
            runs.filter(|key| key.namespace == namespace).count()
        };
        assert!(
            (10..250).contains(&of(&store, "flood")),
            "{}",
            of(&store, "flood")
        );
        assert_eq!(of(&store, "numo"), 300, "who is heeded is never turned away");
        assert_eq!(store.turned_away(), [(kind, "flood")].into());
        put(&mut store, "team", 0);
        assert_eq!(of(&store, "team"), 1);
        // What was turned away left nothing behind, and is asked for again once there is a place.
        let kept = of(&store, "flood");
        assert_eq!(store.versions.len(), kept + 301);
        assert!(store.take_lists().is_empty());
        for number in 0..300 {
            store.see(Seen::Deleted(
                kind,
                Key::new("flood", number.to_string()),
                u64::MAX,
            ));
        }
        assert_eq!(store.take_lists(), [(kind, "flood".to_owned())]);
    }

    #[test]
    fn who_only_looks_turns_nobody_away() {
        let mut store = Store::new(Settings {
            only_looks: true,
            ..Settings::default()
        });
        let kind = Kind::MutexRunConfig;
        for number in 0..300 {
            let run = written(kind, ("flood", &number.to_string()), 3000);
            store.see(Seen::Applied(kind, number + 1, run));
        }
        assert_eq!(store.observed.runs.len(), 300);
        assert!(store.turned_away().is_empty());
    }

    #[test]
    fn an_owner_that_was_heeded_when_it_came_is_kept_until_it_is_gone() {
        let mut store = Store::new(Settings {
            namespace: "numo".to_owned(),
            run_namespaces: vec!["ours".to_owned()],
            ..Settings::default()
        });
        let kind = Kind::MutexRunConfig;
        let key = Key::new("ours", "run");
        store.see(Seen::Applied(kind, 1, written(kind, ("ours", "run"), 10)));
        // Whoever administers the namespace takes his word back, and strangers fill it.
        store.observed.settings.run_namespaces.clear();
        for number in 0..300 {
            let run = written(kind, ("ours", &number.to_string()), 3000);
            store.see(Seen::Applied(kind, number + 2, run));
        }
        assert!(!store.turned_away().is_empty());
        store.own_status(kind, 400, written(kind, ("ours", "run"), 20));
        store.see(Seen::Applied(kind, 401, written(kind, ("ours", "run"), 30)));
        assert!(
            store.observed.runs.contains_key(&key),
            "it has to give back what it took"
        );
        // What is read late does not come back.
        store.see(Seen::Deleted(kind, key.clone(), 402));
        store.see(Seen::Applied(kind, 401, written(kind, ("ours", "run"), 30)));
        assert!(!store.observed.runs.contains_key(&key));
    }

    #[test]
    fn an_object_that_can_be_read_no_longer_weighs_as_before() {
        let mut store = Store::new(Settings {
            namespace: "numo".to_owned(),
            ..Settings::default()
        });
        let kind = Kind::MutexRunConfig;
        let key = Key::new("team", "run");
        store.see(Seen::Applied(kind, 1, written(kind, ("team", "run"), 3000)));
        let weight = store.crowd.weight(kind, &key).unwrap();
        let unread = Unread {
            uid: "team/run".to_owned(),
            words: "too large".to_owned(),
        };
        store.see(Seen::Applied(kind, 2, Object::NotRead(key.clone(), unread)));
        assert!(
            store.observed.runs.contains_key(&key),
            "what was seen of it is kept"
        );
        assert_eq!(store.crowd.weight(kind, &key), Some(weight));
    }

    #[test]
    fn of_many_rules_those_are_kept_that_owners_refer_to() {
        let mut store = Store::new(Settings {
            namespace: "numo".to_owned(),
            ..Settings::default()
        });
        let kind = Kind::MutexRule;
        for number in 0..10_000 {
            let rule = written(kind, ("team", &format!("rule-{number}")), 0);
            store.see(Seen::Applied(kind, number + 1, rule));
        }
        let gate = Key::new("team", "rule-9999");
        assert!(
            store.rules.len() < 9000 && !store.rules.contains_key(&gate),
            "{}",
            store.rules.len()
        );
        assert!(store.take_missed().is_empty(), "nobody needs it");
        store.give_room([(gate.clone(), Referral::Honoured)].into());
        assert_eq!(store.take_missed(), [(kind, gate.clone())]);
        assert!(store.take_missed().is_empty(), "it is being read");
        store.see(Seen::Applied(
            kind,
            10_000,
            written(kind, ("team", "rule-9999"), 0),
        ));
        assert!(store.rules.contains_key(&gate));
        assert!(store.take_missed().is_empty());
    }

    #[test]
    fn of_each_job_the_newest_event_is_kept_and_no_more_of_it_than_is_read() {
        let mut store = Store::new(Settings::default());
        let kind = Kind::JobEvent;
        for number in 1..=3 {
            let event = serde_json::json!({
                "metadata": {"name": format!("e{number}"), "namespace": "team"},
                "involvedObject": {"kind": "Job", "name": "job"},
                "reason": "FailedCreate", "message": format!("{number}{}", "x".repeat(100_000)),
            });
            store.see(Seen::Applied(kind, number, item(kind, &event)));
        }
        let kept: Vec<_> = store.job_events.values().collect();
        assert_eq!(kept.len(), 1);
        let message = &kept[0].1.1;
        assert!(
            message.starts_with('3') && message.chars().count() <= 1024,
            "{}",
            message.len()
        );
        store.see(Seen::Deleted(kind, Key::new("team", "e3"), 9));
        assert!(store.job_events.is_empty() && store.event_of.is_empty());
    }

    #[test]
    fn a_rule_that_becomes_referred_to_has_its_room_and_is_read_again() {
        let (mut store, gate) = flooded();
        assert_eq!(refused_for(&store, &gate), Some(numo_api::Reason::NoRoom));
        assert!(
            store
                .unjudged()
                .iter()
                .all(|rule| wire::key(&rule.metadata) != gate),
            "an outline is not judged"
        );
        // In outline too it is told in which phases it runs: no node goes on without it.
        assert_eq!(store.observed.rules[&gate].phases, [numo_api::Phase::Post]);
        assert!(store.observed.rules[&gate].runs_in(numo_api::Phase::Post));
        let referred = || [(gate.clone(), Referral::Honoured)].into();
        let dealt = store.give_room(referred());
        assert!(dealt.has_moved);
        assert_eq!(dealt.to_read, std::slice::from_ref(&gate));
        assert_eq!(
            store.observed.rules[&gate].validity,
            Validity::Unknown,
            "nobody goes on without it"
        );
        assert!(store.whole_rule(&gate).is_none());
        assert_eq!(
            refused_for(&store, &Key::new("flood-7", "big")),
            Some(numo_api::Reason::NoRoom)
        );
        assert!(store.give_room(referred()).to_read.is_empty(), "it is being read");
        // It comes at the version at which it was seen before.
        let again = heavy("team", "gate", 23_500, 100);
        store.see(Seen::Applied(Kind::MutexRule, 9, again));
        assert!(
            store
                .whole_rule(&gate)
                .is_some_and(|rule| rule.spec.job_spec.is_some())
        );
        assert!(
            store
                .unjudged()
                .iter()
                .any(|rule| wire::key(&rule.metadata) == gate)
        );
        // Whoever comes later takes nothing of it.
        store.see(Seen::Applied(
            Kind::MutexRule,
            11,
            heavy("late", "big", 23_500, 200),
        ));
        store.give_room(referred());
        assert!(store.whole_rule(&gate).is_some());
    }

    #[test]
    fn a_status_of_a_rule_without_room_is_no_news() {
        let (mut store, gate) = flooded();
        let words = |store: &Store| store.observed.rules[&gate].validity.clone();
        let before = words(&store);
        store.own_status(Kind::MutexRule, 10, heavy("team", "gate", 23_500, 100));
        assert_eq!((store.take_news(), words(&store)), (Reach::Nobody, before));
        assert!(!store.see(Seen::Applied(
            Kind::MutexRule,
            10,
            heavy("team", "gate", 23_500, 100)
        )));
    }

    #[test]
    fn the_rules_of_numos_own_namespace_have_room_whatever_strangers_wrote() {
        let (mut store, _) = flooded();
        for number in 0..2 {
            let rule = heavy("numo", &format!("own-{number}"), 23_500, 200);
            store.see(Seen::Applied(Kind::MutexRule, 20, rule));
            assert!(
                store
                    .whole_rule(&Key::new("numo", format!("own-{number}")))
                    .is_some()
            );
        }
        assert!(
            !store.give_room(BTreeMap::new()).has_moved,
            "and they take nobody's"
        );
    }

    #[test]
    fn another_policy_of_signatures_leaves_no_component_judged() {
        let mut store = Store::new(Settings::default());
        let specs = [
            (
                "component",
                serde_json::json!({"type": "wasm", "wasm": {"configMap": {"name": "a", "key": "b"}}}),
            ),
            ("job", serde_json::json!({"jobSpec": {}})),
        ];
        let keys = specs.map(|(name, spec)| {
            let mut rule = MutexRule::new(name, serde_json::from_value(spec).unwrap());
            rule.metadata.namespace = Some("numo".to_owned());
            let (key, edition) = (wire::key(&rule.metadata), wire::edition(&rule.metadata));
            store.see(Seen::Applied(Kind::MutexRule, 5, Object::Rule(Box::new(rule))));
            store.see(Seen::Judged(key.clone(), edition, Validity::Valid));
            assert_eq!(store.observed.rules[&key].validity, Validity::Valid, "{name}");
            key
        });
        assert!(store.see(Seen::PolicyChanged));
        let [component, job] = keys.map(|key| store.observed.rules[&key].validity.clone());
        assert_eq!((component, job), (Validity::Unknown, Validity::Valid));
        assert_eq!(store.unjudged().len(), 1);
    }

    #[test]
    fn what_belongs_to_a_turn_reaches_those_that_have_something_under_way() {
        let mut store = Store::new(Settings::default());
        let change = |step: Option<numo_api::Step>, directive| {
            let mut change = numo_api::NodeChange::new("a", numo_api::NodeChangeSpec::default());
            change.spec.directive = directive;
            change.status = Some(numo_api::NodeChangeStatus {
                step,
                ..numo_api::NodeChangeStatus::default()
            });
            Object::Change(Box::new(wire::change(change)))
        };
        let mut number = 0;
        let mut see = |object| {
            number += 1;
            store.take_in(Seen::Applied(Kind::NodeChange, number, object))
        };
        assert_eq!(see(change(None, None)), Reach::Everyone, "a new one");
        let begun = Some(numo_api::Step::PreRules);
        assert_eq!(see(change(begun, None)), Reach::Busy, "its journal");
        assert_eq!(see(change(begun, None)), Reach::Nobody, "nothing new");
        let directive = numo_api::Directive {
            action: numo_api::DirectiveAction::Retry,
            reason: None,
            by: None,
        };
        assert_eq!(
            see(change(begun, Some(directive))),
            Reach::Everyone,
            "a person's word"
        );
    }

    #[test]
    fn an_equal_object_is_no_news() {
        let mut store = Store::new(Settings::default());
        assert!(store.see(Seen::Applied(Kind::MachineConfig, 5, config("a"))));
        assert!(!store.see(Seen::Applied(Kind::MachineConfig, 6, config("a"))));
    }
}
