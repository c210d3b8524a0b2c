//! The person who approves what waits, as with `numo approve`: what it is and its digest are those that the operator reports. Some words
//! come late, when something else waits already; some are for another digest or another wave; some are taken back.

use super::{Act, Event, Object, World};
use numo_api::{MutexApprovalSpec, MutexApprovalStatus, Reason};
use numo_core::{
    Owner,
    observed::ApprovalView,
    report::{ApprovalReport, Point},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::collections::BTreeSet;

/// Of a hundred words, how many are for something else than what waits, and how many are taken back.
const WRONG: u32 = 20;
const TAKEN_BACK: u32 = 20;
/// For so long (seconds) a person does not say the same again: numo may not have seen it yet.
const KNOWN_SECONDS: i64 = 60;

/// The person.
#[derive(Debug)]
pub struct Approver {
    /// Has numbers of its own, so that nothing else of a seed depends on what waits.
    rng: SmallRng,
    /// Whether this is somebody who errs, and who takes words back.
    pub errs: bool,
    /// Whether each word comes at once.
    is_prompt: bool,
    /// What is to be approved and has no word yet: the owner and the digest.
    pending: BTreeSet<(Owner, String)>,
    /// Everything that was ever to be approved.
    heard: Vec<(Owner, Point, String)>,
}

/// What a person is about to say.
#[derive(Clone, Debug)]
pub struct Word {
    /// What waits: the owner and the digest.
    asked: (Owner, String),
    /// The approval, perhaps of something else.
    spec: Box<MutexApprovalSpec>,
}

impl Approver {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed ^ 0x0061_7070_726f),
            errs: false,
            is_prompt: false,
            pending: BTreeSet::new(),
            heard: Vec::new(),
        }
    }

    /// After how long the word comes (seconds).
    fn takes(&mut self) -> i64 {
        let (from, to) = match self.rng.random_range(0..10) {
            _ if self.is_prompt => (5, 60),
            0 => (2000, 5000),
            1..=3 => (300, 1500),
            _ => (5, 120),
        };
        self.rng.random_range(from..to)
    }

    /// What is approved instead of what waits: something that waited before, or this digest for another wave.
    fn wrong(&mut self, owner: &Owner, waits: &ApprovalReport) -> Option<(Point, String)> {
        if !self.errs || !self.rng.random_ratio(WRONG, 100) {
            return None;
        }
        let others = self.heard.iter();
        let others = others.filter(|(of, _, digest)| of == owner && *digest != waits.digest);
        let others: Vec<_> = others.map(|(_, point, digest)| (point, digest)).collect();
        if others.is_empty() || self.rng.random_bool(0.3) {
            let wave = Point::Wave {
                number: self.rng.random_range(1..4),
                of: 4,
                name: None,
            };
            return Some((wave, waits.digest.clone()));
        }
        let (point, digest) = others[self.rng.random_range(0..others.len())];
        let is_late = self.rng.random_bool(0.5);
        let point = if is_late { point } else { &waits.point };
        Some((point.clone(), digest.clone()))
    }
}

impl World {
    /// A person learns what waits for a word.
    pub fn waits_for_word(&mut self, owner: &Owner, waits: &ApprovalReport) {
        let asked = (owner.clone(), waits.digest.clone());
        let meant = spec(owner, &waits.point, &waits.digest);
        if self.approver.pending.contains(&asked) || self.is_said(&meant, waits.why.reason) {
            return;
        }
        let approver = &mut self.approver;
        approver
            .heard
            .push((owner.clone(), waits.point.clone(), waits.digest.clone()));
        let wrong = approver.wrong(owner, waits);
        let given = wrong.map(|(point, digest)| spec(owner, &point, &digest));
        let takes = approver.takes();
        approver.pending.insert(asked.clone());
        let word = Word {
            asked,
            spec: Box::new(given.unwrap_or(meant)),
        };
        self.plan(takes, Event::Act(Act::Approve(word)));
    }

    /// Whether the word is there, and not one that has run out.
    fn is_said(&self, spec: &MutexApprovalSpec, reason: Reason) -> bool {
        let now = self.time().as_second();
        let mut all = self.truth.approvals.values();
        all.any(|one| {
            let is_new = now - one.created.as_second() < KNOWN_SECONDS;
            one.spec == *spec && (is_new || reason != Reason::ApprovalExpired)
        })
    }

    /// Whether a person is yet to say a word for the owner.
    pub fn has_to_speak(&self, owner: &Owner) -> bool {
        self.approver.pending.iter().any(|(of, _)| of == owner)
    }

    pub(super) fn approve(&mut self, word: &Word) {
        self.approver.pending.remove(&word.asked);
        let name = format!("approval-{}", self.serial());
        let view = ApprovalView {
            name: name.clone(),
            uid: format!("{name}-uid"),
            created: self.time(),
            deleting: false,
            spec: (*word.spec).clone(),
            generation: 1,
            status: MutexApprovalStatus::default(),
        };
        self.tell("person", || {
            let (spec, owner) = (&view.spec, &word.asked.0);
            let what = match (&spec.wave, spec.after_failure) {
                (Some(wave), _) => format!("wave {wave}"),
                (None, Some(true)) => "the next node after a failure".to_owned(),
                (None, _) => "the beginning".to_owned(),
            };
            let is_of_this = spec.digest == word.asked.1;
            let words = if is_of_this { "" } else { ", of another digest" };
            format!("approves {what} of {owner} (MutexApproval {name}){words}")
        });
        self.truth.approvals.insert(name.clone(), view);
        self.touch(Object::Approval(name.clone()));
        let approver = &mut self.approver;
        if approver.errs && approver.rng.random_ratio(TAKEN_BACK, 100) {
            let after = approver.rng.random_range(30..4000);
            self.plan(after, Event::Act(Act::Withdraw(name)));
        }
    }

    pub(super) fn withdraw(&mut self, name: &str) {
        if self.truth.approvals.remove(name).is_some() {
            self.touch(Object::Approval(name.to_owned()));
            self.tell("person", || format!("takes MutexApproval {name} back"));
        }
    }

    /// From now on every word is right, comes at once and stays.
    pub(super) fn mend_approver(&mut self) {
        (self.approver.errs, self.approver.is_prompt) = (false, true);
    }
}

/// The approval, as `numo approve` makes it.
fn spec(owner: &Owner, point: &Point, digest: &str) -> MutexApprovalSpec {
    let (wave, after_failure) = match point {
        Point::Begin => (None, None),
        Point::AfterFailure { .. } => (None, Some(true)),
        Point::Wave { number, .. } => (Some(number.to_string()), None),
    };
    MutexApprovalSpec {
        owner: owner.approved(),
        wave,
        after_failure,
        digest: digest.to_owned(),
        reason: "reviewed".to_owned(),
        approved_by: "anna".to_owned(),
    }
}
