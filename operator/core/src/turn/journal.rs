//! One journal in the making: what a pass adds to a NodeChange's status, written once at most.

use crate::{
    action::{Action, Event, EventAction, Planned},
    observed::{ChangeView, Observed},
    ready,
    text::clip,
    why::{GivenUp, Why},
};
use jiff::Timestamp;
use numo_api::{Entry, NodeChangeStatus, Outcome, Phase, Reason, RuleWait, Step, VerdictRecord, marks};

/// Version of the journal's format that this binary writes; it reads this one and the one before.
pub const JOURNAL_VERSION: i32 = 1;
/// Bounds of the lists, as the schemas have them.
pub const MAX_VERDICTS: usize = 32;
pub(crate) const MAX_ENTRIES: usize = 64;
/// Bytes of a verdict's data that stay with a node that is done.
const DATA_KEPT: usize = 1024;

/// A journal in the making.
#[derive(Debug)]
pub struct Journal<'a> {
    change: &'a ChangeView,
    now: Timestamp,
    /// The status as it shall be.
    pub status: NodeChangeStatus,
}

impl<'a> Journal<'a> {
    /// Opens the journal as it was read.
    pub fn open(change: &'a ChangeView, now: Timestamp) -> Self {
        let mut status = change.status.clone();
        if change.is_copied() {
            // Nothing that another one says goes on as its own.
            status = NodeChangeStatus::default();
            status.attempt = change.status.attempt;
        }
        status.journal_version = JOURNAL_VERSION;
        status.attempt = status.attempt.max(1);
        // Whatever is written down next: the turn goes on, or is closed anew (`turn/closed.rs`).
        status.closed_since = None;
        Self { change, now, status }
    }

    /// Enters a step, with the reason where the step alone does not tell. Of old entries the last that
    /// tell of a release are kept.
    pub fn enter(&mut self, step: Step, why: Option<&Why>) {
        self.status.step = Some(step);
        self.status.since = Some(self.now.to_string());
        self.status.reason = why.map(|why| why.reason.name().to_owned());
        self.status.message = why.map(|why| clip(&why.message, 2048));
        self.status.entries.push(Entry {
            at: self.now.to_string(),
            step,
            attempt: self.status.attempt,
            reason: why.map(|why| why.reason.name().to_owned()),
        });
        if step == Step::Done {
            self.status.put_back = None;
            // What its rules left for themselves has been read, and would be kept of every node.
            let large = |data: &String| data.len() > DATA_KEPT;
            let verdicts = self.status.verdicts.iter_mut();
            verdicts.for_each(|verdict| verdict.data = verdict.data.take().filter(|data| !large(data)));
        }
        while self.status.entries.len() > MAX_ENTRIES {
            let last = |step: Step| self.status.entries.iter().rposition(|entry| entry.step == step);
            let kept = [last(Step::PreRules), last(Step::Cordoned), last(Step::Released)];
            let index = (0..=kept.len())
                .find(|index| !kept.contains(&Some(*index)))
                .unwrap_or(0);
            self.status.entries.remove(index);
        }
    }

    /// Adds a verdict.
    pub fn record(&mut self, verdict: VerdictRecord, log_tail: Option<String>) {
        ended(&mut self.status.rule_waits, &verdict.rule, verdict.phase);
        keep(&mut self.status.verdicts, verdict);
        if log_tail.is_some() {
            self.status.log_tail = log_tail;
        }
    }

    /// Notes since when a rule makes the node wait.
    pub fn note(&mut self, wait: RuleWait) {
        note(&mut self.status.rule_waits, wait);
    }

    /// Begins the next attempt of the node. What claims to be of it already is no word of numo's.
    pub fn next_attempt(&mut self) {
        let status = &mut self.status;
        status.attempt = status.attempt.saturating_add(1);
        let attempt = status.attempt;
        status.wave_rules = None;
        status.entries.retain(|entry| entry.attempt < attempt);
        status.verdicts.retain(|verdict| verdict.round < attempt);
        status.rule_waits.retain(|wait| wait.round < attempt);
    }

    /// Notes that the directive was acted on.
    pub fn obey(&mut self) {
        self.status.observed_generation = Some(self.change.generation);
    }

    /// The write, if anything differs. Whose status it is does not count: where the API server drops that, each pass would write it again.
    pub fn planned(mut self, event: Option<Event>) -> Option<Planned> {
        let differs = self.status != self.change.status;
        self.status.node_change_uid = Some(self.change.uid.clone());
        differs.then(|| Planned {
            chain: self.change.spec.node_name.clone(),
            action: Action::WriteJournal {
                key: self.change.key.clone(),
                uid: self.change.uid.clone(),
                resource_version: self.change.resource_version.clone(),
                status: Box::new(self.status),
            },
            event,
        })
    }
}

/// That the node of a turn is gone, though another one may have its name by now.
pub(crate) fn gone(change: &ChangeView) -> String {
    let (name, uid) = (&change.spec.node_name, &change.spec.node_uid);
    format!("Node {name} with uid {uid} no longer exists")
}

/// Ends a turn whose node is gone, for this reason in words; a later numo ends its own. The event is of the node that has its name now, if
/// any.
pub(crate) fn end_gone(
    change: &ChangeView,
    message: String,
    observed: &Observed,
    now: Timestamp,
) -> Option<Planned> {
    if is_of_later(change) {
        return None;
    }
    let mut event = Event::warning(Reason::NodeGone.name(), EventAction::Complete, message.as_str());
    event.node = observed
        .nodes
        .get(&change.spec.node_name)
        .map(|node| node.name.clone());
    let mut journal = Journal::open(change, now);
    journal.enter(Step::Failed, Some(&Why::new(Reason::NodeGone, message)));
    journal.planned(Some(event))
}

/// The last entry of this step in the journal's present attempt.
pub fn entered(change: &ChangeView, step: Step) -> Option<&Entry> {
    let attempt = change.status.attempt.max(1);
    let mut entries = change.status.entries.iter();
    entries.rfind(|entry| entry.step == step && entry.attempt == attempt)
}

/// Whether the node was drained in the journal's present attempt, and nobody has opened it since.
pub fn is_drained(change: &ChangeView) -> bool {
    let attempt = change.status.attempt.max(1);
    let mut entries = change.status.entries.iter();
    let last = entries
        .rfind(|entry| matches!(entry.step, Step::Cordoned | Step::Drained) && entry.attempt == attempt);
    last.is_some_and(|entry| entry.step == Step::Drained)
}

/// Notes since when a rule is waited for. Of each rule and phase only the newest attempt is of use.
pub fn note(waits: &mut Vec<RuleWait>, wait: RuleWait) {
    ended(waits, &wait.rule, wait.phase);
    waits.push(wait);
    if waits.len() > MAX_VERDICTS {
        waits.remove(0);
    }
}

/// Nobody waits any more for a rule that has a verdict.
pub fn ended(waits: &mut Vec<RuleWait>, rule: &str, phase: Phase) {
    waits.retain(|wait| wait.rule != rule || wait.phase != phase);
}

/// Adds a verdict to a bounded list. What goes first is what a later attempt outdates; then older
/// failures; the newest of each rule and phase stays, because attempts are numbered after it. The bound
/// on rules (`intent.rs`) sees to it that all verdicts of the present attempt have room.
///
/// What a component left for itself stays with its newest verdict of a phase only: the list is one object.
pub fn keep(verdicts: &mut Vec<VerdictRecord>, verdict: VerdictRecord) {
    if verdict.data.is_some() {
        let same = |old: &&mut VerdictRecord| old.rule == verdict.rule && old.phase == verdict.phase;
        verdicts.iter_mut().filter(same).for_each(|old| old.data = None);
    }
    if verdict.rule == ready::NAME && verdict.phase == Phase::Post && verdict.outcome == Outcome::Pass {
        // What was remembered has done its work; kept for every node it would be most of what is stored.
        let own = |old: &&mut VerdictRecord| old.rule == ready::NAME;
        verdicts.iter_mut().filter(own).for_each(|old| old.data = None);
    }
    verdicts.push(verdict);
    while verdicts.len() > MAX_VERDICTS {
        let newer = |index: usize| {
            let old = &verdicts[index];
            verdicts[index + 1..]
                .iter()
                .filter(move |new| new.rule == old.rule && new.phase == old.phase)
                .map(move |new| new.round > old.round || new.outcome != Outcome::Failure)
        };
        let outdated = (0..verdicts.len()).find(|index| newer(*index).any(|outdates| outdates));
        let repeated = || (0..verdicts.len()).find(|index| newer(*index).next().is_some());
        let index = outdated.or_else(repeated).unwrap_or(0);
        verdicts.remove(index);
    }
}

/// Whether the journal tells that the node changed without its rules.
pub fn tells_ungated(change: &ChangeView) -> bool {
    let ungated = Some(Reason::Ungated.name());
    let mut entries = change.status.entries.iter();
    entries
        .any(|entry| matches!(entry.step, Step::Released | Step::Done) && entry.reason.as_deref() == ungated)
}

/// When the first turn of the node began that this journal tells of; none if it has had none. A journal that numo made was made for
/// a turn; one that a person made tells by its entries.
pub fn begun(change: &ChangeView) -> Option<Timestamp> {
    if change.annotations.contains_key(marks::TURN) {
        return Some(change.created);
    }
    let is_of_turn = |entry: &&Entry| !matches!(entry.step, Step::Selected | Step::Skipped);
    let first = change.status.entries.iter().find(is_of_turn);
    let entered = first.and_then(|entry| time(Some(&entry.at)));
    entered.or_else(|| change.in_flight().then_some(change.created))
}

/// Whether the node of this journal is done.
pub(crate) fn is_done(change: &ChangeView) -> bool {
    change.status.step == Some(Step::Done)
}

/// When the node of this journal was done; none if it is not, or the journal does not tell.
pub fn done_at(change: &ChangeView) -> Option<Timestamp> {
    ended_at(change).filter(|_| is_done(change))
}

/// When the turn of this journal ended, however it did; none if it goes on, or the journal does not tell.
pub fn ended_at(change: &ChangeView) -> Option<Timestamp> {
    let status = &change.status;
    let step = status.step.filter(|step| step.is_terminal())?;
    time(status.since.as_deref()).or_else(|| {
        let entered = status.entries.iter().rfind(|entry| entry.step == step)?;
        time(Some(&entered.at))
    })
}

/// When the journal was last written, as far as it tells; not before it was made.
pub(crate) fn written_at(change: &ChangeView, now: Timestamp) -> Timestamp {
    let status = &change.status;
    let entries = status.entries.iter().map(|entry| entry.at.as_str());
    let verdicts = status.verdicts.iter().map(|verdict| verdict.at.as_str());
    let texts = entries.chain(verdicts).chain(status.since.as_deref());
    let times = texts.filter_map(|text| time(Some(text)));
    // A time that has not come is nothing to go by.
    let times = times.filter(|at| *at <= now).max();
    times.map_or(change.created, |at| at.max(change.created))
}

/// When the last rule of the node had its verdict.
pub fn last_verdict(change: &ChangeView) -> Option<Timestamp> {
    time(change.status.verdicts.last().map(|last| last.at.as_str()))
}

/// Whether a later numo wrote the journal: it is not gone by, and not written to.
pub(crate) const fn is_of_later(change: &ChangeView) -> bool {
    change.misread.is_some() || change.status.journal_version > JOURNAL_VERSION
}

/// Parses a time the journal holds.
pub fn time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

/// Whether the journal ended or holds for this reason.
pub fn is_for(change: &ChangeView, reason: Reason) -> bool {
    self::reason(change) == Some(reason)
}

/// That the turn of a node was ended for good, and the owner with it, if so.
pub(crate) fn aborted(flying: &[&ChangeView]) -> Option<Why> {
    let change = flying.iter().find(|change| is_for(change, Reason::Aborted))?;
    let message = change.status.message.clone().unwrap_or_default();
    let by = GivenUp::RuleOfTurn(change.spec.node_name.clone());
    Some(Why::aborted(by, message))
}

/// Why the journal ended or holds, if it is for a reason that numo knows.
pub fn reason(change: &ChangeView) -> Option<Reason> {
    Reason::named(change.status.reason.as_deref()?)
}

/// The journals of an owner to be forgotten: of each node the last three targets are kept, thirty days at most. Those of
/// the present one are, and those by which a person holds a node.
pub(crate) fn forgotten<'a>(
    changes: impl Iterator<Item = &'a ChangeView>,
    (run_id, observed): (&str, &Observed),
    now: Timestamp,
) -> impl Iterator<Item = Action> {
    const KEPT_PER_NODE: usize = 3;
    const KEPT_SECONDS: i64 = 30 * 24 * 3600;
    let mut by_node: std::collections::BTreeMap<&str, Vec<&ChangeView>> = std::collections::BTreeMap::new();
    let holds = |change: &&ChangeView| change.is_held() && observed.node_of(change).is_some();
    let changes = changes.filter(|change| !is_of_later(change) && !holds(change));
    for change in changes.filter(|change| !change.in_flight() && change.spec.target.run_id != run_id) {
        by_node.entry(&change.spec.node_name).or_default().push(change);
    }
    let old = by_node.into_values().flat_map(move |mut changes| {
        changes.sort_by_key(|change| std::cmp::Reverse((change.created, change.key.clone())));
        let old = changes.into_iter().enumerate().filter(move |(index, change)| {
            let age = now.as_second() - change.created.as_second();
            index + 1 >= KEPT_PER_NODE || age > KEPT_SECONDS
        });
        old.map(|(_, change)| change)
    });
    old.map(|change| Action::DeleteChange {
        key: change.key.clone(),
        uid: change.uid.clone(),
        resource_version: change.resource_version.clone(),
    })
}
