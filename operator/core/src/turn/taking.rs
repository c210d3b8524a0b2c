//! The lease and the shield of a node that has its turn, for every owner: how they are taken and kept. What an owner takes is said by
//! [`Holding`].

use super::{
    journal,
    lease::{self, Upkeep},
    machine,
    node::{Holding, Next, ON, Parts, STAY, Turn},
    put_back,
};
use crate::{
    action::{Action, Planned},
    mark,
    observed::ChangeView,
    time::later,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step};

/// How soon what waited for a renewal is decided again (seconds): no sooner than a write that is refused is tried again.
const RENEWED_SECONDS: i64 = 30;

/// For how long a turn has just begun (seconds).
const JUST_BEGUN_SECONDS: i64 = 10;

/// Takes the node's lease and shield, and keeps them: the turn goes on once they are there, or cannot be had.
pub(super) fn take_lease_and_shield(turn: &mut impl Turn) -> Next {
    let Some(Holding {
        holder,
        keeps_only,
        shield,
        machines,
    }) = turn.holding()
    else {
        return ON;
    };
    let (phases, node, change, out) = turn.parts().all();
    let times = (change.created, phases.now);
    let upkeep = holder.map(|holder| lease::upkeep(phases.observed, node, &holder, times));
    let Upkeep {
        renews,
        takes,
        due,
        held,
    } = upkeep.unwrap_or_default();
    if let Some(due) = due {
        out.wake(due);
    }
    if let Some((lease, until)) = held {
        let lease = lease.clone();
        turn.heed_lease(&lease, until)?;
    }
    take(turn, renews, (takes, shield, machines), keeps_only)
}

/// Keeps, of what a turn does from its action `first` on, the renewal of a lease that has run out: another operator may take it at any
/// moment. The rest is decided again soon, as nothing tells of a renewal.
pub(super) fn renew_before_all_else(turn: &mut impl Turn, first: usize) {
    let Parts { phases, node, .. } = turn.parts();
    let lease = phases.observed.leases.get(&node.name);
    if !lease.is_some_and(|lease| lease.expired(phases.now)) {
        return;
    }
    // Beside a rival, nothing is renewed for ever, and nothing is done to a node that was not released.
    if !turn.is_released() && turn.holding().is_some_and(|holding| holding.keeps_only) {
        return;
    }
    let Parts { phases, out, .. } = turn.parts();
    let mut planned = out.actions.iter().skip(first);
    if let Some(at) = planned.position(|one| matches!(one.action, Action::RenewLease { .. })) {
        out.actions.swap(first, first + at);
        out.actions.truncate(first + 1);
        out.wake(later(phases.now, RENEWED_SECONDS));
    }
}

/// Takes what is lacking, unless nothing new is taken; the lease that is there is kept.
fn take(
    turn: &mut impl Turn,
    renews: Option<Action>,
    (takes, shield, machines): (Option<Action>, Option<Action>, Vec<Action>),
    keeps_only: bool,
) -> Next {
    let (phases, node, change, out) = turn.parts().all();
    let begins = begins(change, (takes.is_some() && shield.is_some(), phases.now));
    out.actions
        .extend(renews.map(|action| Planned::of(&node.name, action)));
    let unread =
        mark::unread(node).or_else(|| machine::unread(phases.observed, (&node.name, phases.owner_uid)));
    let shield = shield.filter(|_| unread.is_none());
    let taken: Vec<Action> = takes.into_iter().chain(shield).chain(machines).collect();
    let has_leases = phases.observed.settings.leases_unavailable.is_none();
    let is_put_back = |action: &Action| is_put_back(action, has_leases);
    let puts_back = !begins && taken.iter().any(is_put_back);
    let told = put_back::told(change, phases.now).filter(|_| puts_back);
    let step = change.status.step.unwrap_or(Step::Admitted);
    if let Some(why) = unread.filter(|_| turn.heeds_marks()) {
        return stay(turn, step, why);
    }
    if keeps_only || taken.is_empty() {
        return ON;
    }
    let Parts { phases, out, .. } = turn.parts();
    if let Some((why, at)) = told.clone().filter(|(_, at)| *at > phases.now) {
        out.wake(at);
        // What was let go goes on.
        if turn.is_released() {
            return ON;
        }
        return stay(turn, step, why);
    }
    write(turn, taken, puts_back);
    turn.note_taking();
    let taking = || Why::new(Reason::Admitting, "lease and shield are being taken");
    turn.say(step, told.map_or_else(taking, |(why, _)| why));
    STAY
}

/// Says why nothing is taken, and closes a turn that has not let its node go.
fn stay(turn: &mut impl Turn, step: Step, why: Why) -> Next {
    if turn.is_released() {
        turn.say(step, why);
    } else {
        turn.close(step, why);
    }
    STAY
}

/// Whether all that is taken now is taken for the first time: the turn has just begun. After that somebody has taken it off.
fn begins(change: &ChangeView, (is_all, now): (bool, Timestamp)) -> bool {
    let age = now.as_second() - journal::written_at(change, now).as_second();
    let is_new = (0..JUST_BEGUN_SECONDS).contains(&age);
    matches!(change.status.step, None | Some(Step::Admitted)) && (is_all || is_new)
}

/// Whether this puts something on that is not there, other than a lease that nobody renewed, or could have had.
fn is_put_back(action: &Action, has_leases: bool) -> bool {
    match action {
        Action::PatchNode(patch) => {
            let mut changes = patch.labels.iter().chain(&patch.annotations);
            changes.any(|change| change.from.is_none())
        }
        Action::AcquireLease { over, .. } => over.is_none() && has_leases,
        _ => true,
    }
}

/// Takes all of it, and counts what is put back, once that is written.
fn write(turn: &mut impl Turn, taken: Vec<Action>, puts_back: bool) {
    let (phases, node, change, out) = turn.parts().all();
    let mut last = node.name.clone();
    for action in taken {
        let planned = Planned::of(machine::chain_in_turn(&node.name, &action), action);
        last.clone_from(&planned.chain);
        if planned.chain != node.name {
            let waiting = out.report.shared.entry(planned.chain.clone()).or_default();
            waiting.insert(node.name.clone());
        }
        // What another node of this pass needs too is written once.
        if !out.actions.contains(&planned) {
            out.actions.push(planned);
        }
    }
    let counted = puts_back.then(|| put_back::counted(change, phases.now)).flatten();
    // What is refused was not put back.
    out.actions.extend(counted.map(|planned| Planned {
        chain: last,
        ..planned
    }));
}
