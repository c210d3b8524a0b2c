//! Which owners are due, and when: whose time has come, whom something new concerns, and who has nothing to do. It decides nothing and
//! writes nothing.

use crate::shell::store::{Reach, Store};
use jiff::{SignedDuration, Timestamp};
use numo_core::{
    Decision, Owner, OwnerKind,
    observed::{Key, Observed},
    referred,
    report::RunPhase,
    verdict::Question,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// First and longest wait after a write that failed.
const RETRY_FIRST: SignedDuration = SignedDuration::from_millis(250);
const RETRY_LONGEST_SECONDS: i64 = 30;
/// How long after a pass that left something to do, or could not be ended.
const GO_ON: SignedDuration = SignedDuration::from_secs(1);

/// When owners are decided again.
#[derive(Debug, Default)]
pub struct Wakes {
    at: BTreeMap<Owner, Timestamp>,
    /// How many passes in a row had a write that failed.
    failures: BTreeMap<Owner, u32>,
    /// Owners whose last decision was that there is nothing to do.
    idle: BTreeSet<Owner>,
    /// Whose decisions the writes of this turn can change.
    changed: Reach,
    /// The first of those that are not watched for which there was no time.
    left: Option<Owner>,
}

/// Every owner that was seen.
pub fn owners(observed: &Observed) -> BTreeSet<Owner> {
    let runs = observed.runs.keys().cloned().map(Owner::run);
    let plans = observed.plans.keys().cloned().map(Owner::plan);
    let versions = observed.fleet.versions.keys().cloned().map(Owner::node_version);
    runs.chain(observed.maintenances.keys().cloned())
        .chain(plans)
        .chain(versions)
        .collect()
}

impl Wakes {
    /// Has an owner decided again at that time, and not before.
    pub fn wake(&mut self, owner: Owner, at: Timestamp) {
        self.at.insert(owner, at);
    }

    /// Has an owner decided again at that time, or before if it is due earlier.
    pub fn wake_by(&mut self, owner: &Owner, at: Timestamp) {
        let known = self.at.entry(owner.clone()).or_insert(at);
        *known = (*known).min(at);
    }

    /// Has owners decided again at that time, and not before.
    pub fn wake_all(&mut self, owners: Vec<Owner>, at: Timestamp) {
        self.at.extend(owners.into_iter().map(|owner| (owner, at)));
    }

    /// Has owners decided again soon, and not before, whose pass could not be made or not be ended.
    pub fn wake_again(&mut self, owners: Vec<Owner>, now: Timestamp) {
        self.wake_all(owners, now + GO_ON);
    }

    /// Has those decided again whose node's pods have changed.
    pub fn wake_touched(&mut self, store: &mut Store, now: Timestamp) {
        let touched = store.take_touched();
        if touched.is_empty() {
            return;
        }
        let observed = &store.observed;
        let maintenances = observed.maintenances.values();
        let maintenances = maintenances.filter(|view| touched.contains(&view.spec.node_name));
        let woken = maintenances.map(|view| (view.owner.clone(), now));
        self.at.extend(woken);
        for change in observed.changing() {
            let spec = &change.spec;
            if spec.owner_ref.kind == OwnerKind::Plan.name() && touched.contains(&spec.node_name) {
                let key = Key::new(&change.key.namespace, &spec.owner_ref.name);
                self.at.insert(Owner::plan(key), now);
            }
            if spec.owner_ref.kind == OwnerKind::NodeVersion.name() && touched.contains(&spec.node_name) {
                self.at
                    .insert(Owner::node_version(spec.owner_ref.name.as_str()), now);
            }
        }
    }

    /// Whether anybody's time has come.
    pub fn is_any_due(&self, now: Timestamp) -> bool {
        self.at.values().any(|at| *at <= now)
    }

    /// How long until somebody's time comes; owners that are gone are forgotten.
    pub fn next(&mut self, observed: &Observed, now: Timestamp) -> Option<Duration> {
        self.at.retain(|owner, _| observed.uid_of(owner).is_some());
        let next = self.at.values().min()?;
        Some(Duration::try_from(next.duration_since(now)).unwrap_or(Duration::from_millis(1)))
    }

    /// Has owners decided again that are not watched, for which there was no time: after what was seen meanwhile, and before others that
    /// are not watched.
    pub fn leave(&mut self, owners: Vec<Owner>, now: Timestamp) {
        self.left = owners.first().cloned();
        self.wake_all(owners, now);
    }

    /// The owners that are to be decided: those within reach, and those whose time has come. Those that are watched come first.
    pub fn due(&self, reach: Reach, store: &Store, now: Timestamp) -> Vec<Owner> {
        let within = |owner: &Owner| match reach {
            Reach::Everyone => true,
            Reach::Busy => !self.idle.contains(owner),
            Reach::Nobody => false,
        };
        let woken = |owner: &Owner| self.at.get(owner).is_some_and(|at| *at <= now);
        // Until the Jobs of its namespace have been listed, nobody knows what a Plan has begun.
        let is_known = |owner: &Owner| {
            let is_plan = owner.kind == OwnerKind::Plan;
            (!is_plan || store.has_listed_plans(&owner.key.namespace)) && store.knows_rules_of(owner)
        };
        let mut owners = owners(&store.observed);
        owners.retain(|owner| (within(owner) || woken(owner)) && is_known(owner));
        let is_watched = |owner: &Owner| referred::is_watched(owner, &store.observed);
        let (mut first, others): (Vec<Owner>, Vec<Owner>) = owners.into_iter().partition(is_watched);
        let is_left = |owner: &Owner| self.left.as_ref().is_some_and(|left| owner >= left);
        let (left, others): (Vec<Owner>, Vec<Owner>) = others.into_iter().partition(is_left);
        first.extend(left);
        first.extend(others);
        first
    }

    /// A turn begins: none of its writes has changed anything yet.
    pub fn begin_turn(&mut self) {
        self.changed = Reach::Nobody;
    }

    /// Takes note of whose decisions have changed.
    pub fn note_change(&mut self, reach: Reach) {
        self.changed = self.changed.max(reach);
    }

    /// Whose decisions have changed in this turn.
    pub fn changed(&self) -> Reach {
        self.changed
    }

    /// Takes note of the last decision of a pass: when the owner is decided again, and whether it has nothing to do.
    pub fn note_pass(&mut self, owner: &Owner, decision: &Decision, failed: bool, now: Timestamp) {
        let retry = self.retry(owner, failed, now);
        if is_idle(owner, decision) {
            self.idle.insert(owner.clone());
        } else {
            self.idle.remove(owner);
        }
        // What became due since the last round is asked in the next pass.
        let asks = |question: &Question| {
            matches!(
                question,
                Question::Evaluate(_) | Question::Channel { .. } | Question::Fleet(_)
            )
        };
        let asked = decision.questions.iter().any(asks).then_some(now);
        // What became due since the last round is carried out soon, and what was too much for one pass.
        let is_run = owner.kind == OwnerKind::MutexRunConfig;
        let left = !is_run && !failed && !decision.actions.is_empty();
        let left = left.then(|| now + GO_ON);
        match [decision.wake_at, retry, asked, left].into_iter().flatten().min() {
            Some(at) => self.at.insert(owner.clone(), at),
            None => self.at.remove(owner),
        };
    }

    /// When a pass is tried again in which a write failed; each time later.
    fn retry(&mut self, owner: &Owner, failed: bool, now: Timestamp) -> Option<Timestamp> {
        let failures = self.failures.entry(owner.clone()).or_default();
        *failures = if failed { *failures + 1 } else { 0 };
        failed.then(|| {
            let wait = RETRY_FIRST.as_millis() << (*failures - 1).min(8);
            let wait = SignedDuration::from_millis(i64::try_from(wait).unwrap_or(i64::MAX));
            now + wait.min(SignedDuration::from_secs(RETRY_LONGEST_SECONDS))
        })
    }

    /// Forgets owners that are gone.
    pub fn keep_only(&mut self, owners: &BTreeSet<Owner>) {
        self.idle.retain(|owner| owners.contains(owner));
        self.failures.retain(|owner, _| owners.contains(owner));
    }
}

/// Whether a decision says that the owner has nothing to do.
fn is_idle(owner: &Owner, decision: &Decision) -> bool {
    let is_maintenance = matches!(owner.kind, OwnerKind::NodeMaintenance(_));
    decision.report.phase == RunPhase::Idle && (is_maintenance || decision.report.hold.is_none())
}
