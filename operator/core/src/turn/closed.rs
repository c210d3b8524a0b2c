//! A turn that is closed before its first disruption: how long it keeps its place, and how it stands behind the others once
//! it was given back. One rule for every owner. Nothing here says what closes a turn.
//!
//! A closed turn holds a place in every budget, a lease that other operators wait for, and a shield. Two owners that wait
//! for each other would wait for ever, and one PodDisruptionBudget would stop a fleet.

use crate::{
    action::{Event, EventAction},
    decision::Decision,
    observed::ChangeView,
    time::later,
    turn::journal::{self, Journal},
    verdict::{Answers, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Pin, Reason, Step, conditions::Actor};

/// How long a closed turn keeps slot, lease and shield (seconds).
pub const KEPT_SECONDS: i64 = 60;
/// After how long a node that stands back for its drain has a turn again, whatever a probe says of it (seconds): of owners
/// whose drain leaves pods that a probe counts.
pub(crate) const TRIED_AGAIN_SECONDS: i64 = 600;
/// How many nodes that stand back for a drain are probed in one pass: each probe asks about every pod of the node.
const PROBED_AT_ONCE: usize = 4;
/// How soon a node that stands back for its drain is probed again (seconds).
const PROBE_SECONDS: i64 = 15;

/// Notes that a turn is closed, and gives it back once it was for longer than [`KEPT_SECONDS`]. Returns whether it was
/// given back: the next turn begins with the next attempt, and all of its rules are asked again.
pub(crate) fn close(out: &mut Decision, change: &ChangeView, why: &Why, now: Timestamp) -> bool {
    if why.who() == Actor::Numo && why.until.is_none() {
        // It is a matter of moments, and of numo alone.
        return false;
    }
    if matches!(why.reason, Reason::ListFailed | Reason::RuleWithdrawn) {
        // Who cannot see must not give away what may be in use, and the next turn would know nothing of the rule.
        return false;
    }
    let Some(since) = since(change) else {
        let mut journal = Journal::open(change, now);
        journal.status.closed_since = Some(now.to_string());
        out.actions.extend(journal.planned(None));
        out.wake(later(now, KEPT_SECONDS));
        return false;
    };
    if !expires(change, now) {
        out.wake(later(since, KEPT_SECONDS));
        return false;
    }
    let mut journal = anew(change, Step::Selected, why, now);
    journal.status.closed_since = Some(now.to_string());
    let event = Event::normal(
        "TurnEnded",
        EventAction::Hold,
        format!("the turn ends, other nodes go first: {}", why.message),
    )
    .on(&change.spec.node_name);
    out.actions.extend(journal.planned(Some(event)));
    true
}

/// The journal of the next attempt of a node that was not let go, which begins with this step: all of its rules are asked again.
pub(super) fn anew<'c>(change: &'c ChangeView, step: Step, why: &Why, now: Timestamp) -> Journal<'c> {
    let mut journal = Journal::open(change, now);
    journal.next_attempt();
    journal.status.pin = journal.status.pin.and_then(kept);
    journal.enter(step, Some(why));
    journal
}

/// What is kept of the pin of a turn that begins anew: the new node that had joined in the place of the old one.
fn kept(pin: Pin) -> Option<Pin> {
    pin.heir.as_ref()?;
    Some(Pin {
        heir: pin.heir,
        heir_provider_id: pin.heir_provider_id,
        heir_member: pin.heir_member,
        ..Pin::default()
    })
}

/// Whether a rule that makes a closed turn wait keeps it: its Job runs, or may begin any moment, and nobody else is to have the node
/// under it. It ends by itself, or at its timeout. A rule that says Wait, or that is gone, keeps nothing.
pub(crate) fn keeps(rule: &Why) -> bool {
    matches!(
        rule.reason,
        Reason::RuleRunning | Reason::RuleStarting | Reason::RuleJobCannotStart | Reason::JobBeingDeleted
    )
}

/// Notes that a turn which was closed goes on.
pub(crate) fn reopen(out: &mut Decision, change: &ChangeView, now: Timestamp) {
    if change.status.closed_since.is_some() {
        // Whatever is written to a journal forgets it.
        out.actions.extend(Journal::open(change, now).planned(None));
    }
}

/// Whether a turn that is closed now is to be given back.
pub(crate) fn expires(change: &ChangeView, now: Timestamp) -> bool {
    since(change).is_some_and(|since| later(since, KEPT_SECONDS) <= now)
}

fn since(change: &ChangeView) -> Option<Timestamp> {
    journal::time(change.status.closed_since.as_deref())
}

/// When the node gave its last turn back because that was closed.
pub(crate) fn stood_back(change: Option<&ChangeView>) -> Option<Timestamp> {
    let change = change.filter(|change| change.status.step == Some(Step::Selected))?;
    since(change)
}

/// Since when the node stands behind those that did not give their turn back. Whom the hours sent back is the next when they open.
pub(crate) fn stands_behind(change: Option<&ChangeView>) -> Option<Timestamp> {
    let is_of_hours = change.and_then(journal::reason).is_some_and(Reason::is_of_hours);
    stood_back(change).filter(|_| !is_of_hours)
}

/// The nodes that stand back for a drain that could not pass, in one pass.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    asked: usize,
}

impl Probes {
    /// Why the node still stands back for its drain, if so. It is probed again without a turn; `tried_again` is after how
    /// long it is to have one whatever the probe says (seconds), for owners whose drain leaves pods that a probe counts.
    pub fn refusal(
        &mut self,
        out: &mut Decision,
        change: Option<&ChangeView>,
        (answers, now): (&Answers, Timestamp),
        tried_again: Option<i64>,
    ) -> Option<Why> {
        let back = stood_back(change)?;
        let change = change.filter(|change| journal::is_for(change, Reason::DrainBlocked))?;
        let node = &change.spec.node_name;
        let again = tried_again.map(|seconds| later(back, seconds));
        if again.is_some_and(|again| again <= now) {
            return None;
        }
        let known = change.status.message.clone().unwrap_or_default();
        let words = match answers.drains.get(node) {
            Some(None) => return None,
            Some(Some(words)) => words.clone(),
            None if self.asked < PROBED_AT_ONCE => {
                self.asked += 1;
                out.questions.push(Question::DrainProbe { node: node.clone() });
                known
            }
            None => known,
        };
        out.wake(later(now, PROBE_SECONDS));
        Some(Why::new(Reason::DrainBlocked, words))
    }
}
