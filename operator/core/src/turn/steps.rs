//! One node's turn, for every owner: the page that has its steps in their order. An owner says what a step is for a node of its own;
//! it may not choose the order. Nothing here reads or writes anything.
//!
//! Each pass takes a node through the steps that are behind it, which ask nothing and write nothing, up to the one that it is at. Where
//! a node is, is derived from what is seen: a crash between any two writes finds the same step.

pub use super::journal::last_verdict;
pub use super::node::{Next, ON, Parts, STAY, Turn, step_of};

use crate::{
    action::{Action, Planned},
    probe::{self, Look},
    rules::{self, Progress},
    time::{has_come, later},
    turn::{
        across, closed, contradiction,
        cordon::{self, Across},
        directive, failed,
        journal::{self, Journal},
        lease,
        node::enter,
        own_drain,
        phases::Went,
        taking::{renew_before_all_else, take_lease_and_shield},
        withdrawn,
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Phase, Reason, Step, conditions::Actor};
use std::ops::ControlFlow;

/// How soon a journal that is doubted is looked at again (seconds).
const DOUBT_SECONDS: i64 = 60;
/// How soon a drain that a dry run was against is tried again (seconds).
const PROBE_SECONDS: i64 = 15;

/// Moves a node that has its turn one step further.
pub fn advance(turn: &mut impl Turn) {
    let first = turn.parts().out.actions.len();
    let _ = step(turn);
    tell_gates(turn);
    renew_before_all_else(turn, first);
}

/// Has the report name all that stands against the node that a person asks about, whatever was said of it before its gates were weighed: a
/// lease that another has hides none of them.
fn tell_gates(turn: &mut impl Turn) {
    let told = turn.asked().cloned();
    let Some(told) = told.filter(|told| !matches!(told.step, Step::Done | Step::Failed | Step::Skipped))
    else {
        return;
    };
    if turn.is_released() || turn.leaving().is_some() {
        return;
    }
    let parts = turn.parts();
    let withdrawn = withdrawn::withdrawn(&parts.phases, (parts.node, parts.change));
    let phase = if told.step == Step::PreRelease {
        Phase::PreRelease
    } else {
        Phase::Pre
    };
    let worst = turn.weigh_gates(phase);
    let also = &mut turn.parts().out.report.also;
    also.splice(0..0, withdrawn.into_iter().chain(worst));
    also.retain(|why| *why != told.why);
}

fn step(turn: &mut impl Turn) -> Next {
    heed_other(turn)?;
    turn.end_if_unwanted()?;
    take_lease_and_shield(turn)?;
    turn.obey()?;
    hear_late_retry(turn)?;
    doubt(turn)?;
    if !turn.is_released() {
        stay_unseen(turn)?;
        keep_wave(turn)?;
        let parts = turn.parts();
        let withdrawn = withdrawn::withdrawn(&parts.phases, (parts.node, parts.change));
        let closed = weigh(turn, Phase::Pre, withdrawn.as_ref());
        // What closes a turn gives the node back, and the next turn waits for the Job.
        let left = if closed.is_none() { stand_by(turn)? } else { None };
        let closed = closed.or_else(|| left.clone());
        pass(turn, Phase::Pre, closed.as_ref())?;
        turn.make_ready(closed.as_ref())?;
        cordon(turn, closed.as_ref())?;
        drain(turn, closed.as_ref())?;
        let closed = weigh(turn, Phase::PreRelease, withdrawn.as_ref()).or(left);
        pass_the_last(turn, closed.as_ref())?;
        stay_closed(turn, closed)?;
        // Before Passes are confirmed: a rule that is asked again each time its Pass grows old would keep a turn that the
        // drain closes from ever being given back.
        probe_drain(turn, Step::PreRelease)?;
        confirm(turn, &rules::BEFORE_RELEASE, Step::PreRelease)?;
        turn.release();
        return STAY;
    }
    turn.await_change()?;
    stay_held(turn)?;
    let _ = stand_by(turn)?;
    pass(turn, Phase::BeforeUncordon, None)?;
    uncordon(turn)?;
    pass(turn, Phase::Post, None)?;
    turn.soak()?;
    turn.finish();
    STAY
}

/// Nothing begins on the node beside a Job of a rule that still runs, and is none of this attempt; nor does it go to another owner.
/// Before the release a Job that only a person ends closes the turn, like any other gate: what it is.
fn stand_by(turn: &mut impl Turn) -> ControlFlow<(), Option<Why>> {
    let is_released = turn.is_released();
    let (phases, node, change, out) = turn.parts().all();
    let Some(why) = phases.earlier(out, (node, change), is_released) else {
        return ControlFlow::Continue(None);
    };
    if why.who() == Actor::ClusterAdmin && !is_released {
        return ControlFlow::Continue(Some(why));
    }
    // What closed the turn before has ended: a wait that follows has its own time.
    closed::reopen(out, change, phases.now);
    let step = change.status.step.unwrap_or(Step::Admitted);
    turn.say(step, why);
    ControlFlow::Break(())
}

/// Who cannot see whether the Job of a rule runs neither begins another one nor restores the node.
fn stay_unseen(turn: &mut impl Turn) -> Next {
    let (phases, node, change, _) = turn.parts().all();
    let Some(why) = phases.unseen((node, change)) else {
        return ON;
    };
    let step = change.status.step.unwrap_or(Step::Admitted);
    turn.say(step, why);
    STAY
}

/// What stands against asking the rules of this phase. A rule that is asked no more before all else: what else closes a turn gives it back
/// after a while, and the next one would know nothing of the rule.
fn weigh(turn: &mut impl Turn, phase: Phase, withdrawn: Option<&Why>) -> Option<Why> {
    let closed = turn.weigh_gates(phase);
    withdrawn.cloned().or(closed)
}

/// Journals the rules of the wave that the node is in before the first of them is asked: other labels take it out of none of them.
fn keep_wave(turn: &mut impl Turn) -> Next {
    let Some(rules) = turn.rules_of_wave() else {
        return ON;
    };
    let (phases, _, change, out) = turn.parts().all();
    let status = &change.status;
    let is_first = matches!(status.step, None | Some(Step::Selected | Step::Admitted));
    if status.wave_rules.is_some() || !is_first {
        return ON;
    }
    let mut journal = Journal::open(change, phases.now);
    journal.status.wave_rules = Some(rules);
    out.actions.extend(journal.planned(None));
    turn.say(Step::Admitted, Why::new(Reason::Admitting, "its turn has come"));
    STAY
}

/// A journal that is not ours to go by is not written to either; the lease is kept, as the node may be in mid-change. A retry begins anew where
/// another status was copied.
fn heed_other(turn: &mut impl Turn) -> Next {
    let leaving = turn.leaving();
    let Parts { phases, change, .. } = turn.parts();
    let Some(why) = contradiction::unheeded(change, phases.owner, leaving) else {
        return ON;
    };
    let holder = turn.holding().and_then(|holding| holding.holder);
    let (phases, node, change, out) = turn.parts().all();
    if let Some(holder) = holder {
        lease::keep(out, (phases.observed, phases.now), node, &holder);
    }
    let is_copied = contradiction::of_other(change, phases.owner).is_none();
    if let Some(why) = directive::retried(change).filter(|_| is_copied) {
        let journal = directive::next_attempt(change, Step::Admitted, &why, phases.now);
        out.actions.extend(journal.planned(None));
        turn.say(Step::Admitted, why);
        return STAY;
    }
    turn.say(Step::Held, why);
    STAY
}

/// A retry of a node that is changing asks for nothing while nothing has failed: it is not kept for a failure that nobody has seen yet.
fn hear_late_retry(turn: &mut impl Turn) -> Next {
    let is_released = turn.is_released();
    let (phases, _, change, out) = turn.parts().all();
    let step = change.status.step.unwrap_or(Step::Released);
    let Some(why) = directive::retried(change).filter(|_| is_released && step != Step::Held) else {
        return ON;
    };
    let mut journal = Journal::open(change, phases.now);
    journal.obey();
    out.actions.extend(journal.planned(None));
    turn.say(step, why);
    STAY
}

/// Nothing is done to a node on the word of a journal that contradicts itself. After what a person says of it: a retry begins anew, and so
/// does a turn of which the API server itself tells that its clock was put back.
fn doubt<T: Turn>(turn: &mut T) -> Next {
    if turn.leaving().is_some() {
        return ON;
    }
    let is_released = turn.is_released();
    let (phases, node, change, out) = turn.parts().all();
    let Some(why) = contradiction::of(change, phases.now, is_released, T::before) else {
        return ON;
    };
    let lease = phases.observed.leases.get(&node.name);
    if let Some(why) = contradiction::of_clock(change, lease, phases.now, T::before) {
        let journal = closed::anew(change, Step::Admitted, &why, phases.now);
        out.actions.extend(journal.planned(None));
        turn.say(Step::Admitted, why);
        return STAY;
    }
    // A time that has not come does, and nothing else tells of it.
    out.wake(later(phases.now, DOUBT_SECONDS));
    turn.say(Step::Held, why);
    STAY
}

/// Moves the rules of a phase along. While the turn is closed nothing is asked anew.
fn pass(turn: &mut impl Turn, phase: Phase, closed: Option<&Why>) -> Next {
    if !turn.asks(phase) {
        return ON;
    }
    let parts = turn.parts();
    let progress = parts.phases.progress((parts.node, parts.change), phase);
    go_on(turn, phase, closed, progress)
}

/// The same for the last rules before the release. The drain is probed before they begin, and once more after them: they may take
/// long, and one that changes the world for a drain that cannot pass has done it in vain.
fn pass_the_last(turn: &mut impl Turn, closed: Option<&Why>) -> Next {
    let parts = turn.parts();
    let at = (parts.node, parts.change);
    let progress = parts.phases.progress(at, Phase::PreRelease);
    let begins = matches!(progress, Progress::Start(_) | Progress::Evaluate(_));
    if begins && closed.is_none() {
        probe_drain(turn, Step::PreRelease)?;
    }
    go_on(turn, Phase::PreRelease, closed, progress)
}

fn go_on(turn: &mut impl Turn, phase: Phase, closed: Option<&Why>, progress: Progress) -> Next {
    let (step, at) = (step_of(phase), turn.at(phase));
    let (phases, node, change, out) = turn.parts().all();
    let went = phases.go_on(out, (node, change), at, closed, progress);
    act_on(turn, (phase, step), went)
}

/// Has the rules of these phases asked again whose Pass is too old for the release.
pub fn confirm(turn: &mut impl Turn, phases: &[Phase], step: Step) -> Next {
    let parts = turn.parts();
    let at = (parts.node, parts.change);
    let went = parts.phases.confirm(parts.out, at, (phases, None));
    act_on(turn, (Phase::PreRelease, step), went)
}

/// Acts on how a phase of rules went.
fn act_on(turn: &mut impl Turn, (phase, step): (Phase, Step), went: Went) -> Next {
    match went {
        Went::Passed => return ON,
        Went::Waits(why) => turn.say(step, why),
        Went::Closed(why) => turn.close(step, why),
        Went::Failed(policy, why) => return failed::fail(turn, phase, policy, why),
    }
    STAY
}

/// Cordons a node that numo drains before its release, journals that it is, and keeps it so.
fn cordon(turn: &mut impl Turn, closed: Option<&Why>) -> Next {
    if let Some(other) = turn.drain_across() {
        return begin_across(turn, &other, closed);
    }
    let Some(own) = turn.own_drain() else {
        return ON;
    };
    let (phases, node, change, _) = turn.parts().all();
    if cordon::since(change).is_some() {
        return own_drain::keep_cordoned(turn, &own, closed);
    }
    if let Some(why) = closed {
        turn.close(Step::PreRules, why.clone());
        return STAY;
    }
    if !own.is_cordoned {
        let probed = own.options.as_ref().filter(|options| options.probe);
        let known = (phases.answers, phases.now);
        let look = probed.map(|options| probe::look(phases.observed, node, options, known));
        act_on_look(turn, Step::PreRules, look)?;
    }
    // Of one that is cordoned by numo as well: its cordon may be of an attempt before.
    confirm(turn, &[Phase::Pre], Step::PreRules)?;
    if !own.is_cordoned {
        own_drain::close(turn, 0, "it is being cordoned");
        return STAY;
    }
    enter(turn, Step::Cordoned);
    turn.say(Step::Cordoned, Why::new(Reason::Draining, "it is cordoned"));
    STAY
}

/// Has another operator cordon and drain a node that it drains before its release.
fn begin_across(turn: &mut impl Turn, other: &Across, closed: Option<&Why>) -> Next {
    if cordon::since(turn.parts().change).is_some() {
        return ON;
    }
    across::stand_by(turn, closed)?;
    confirm(turn, &[Phase::Pre], Step::PreRules)?;
    across::make(turn, other);
    STAY
}

/// Drains the node that was cordoned so.
fn drain(turn: &mut impl Turn, closed: Option<&Why>) -> Next {
    if let Some(other) = turn.drain_across() {
        return across::wait(turn, &other, closed);
    }
    match turn.own_drain() {
        Some(own) => own_drain::drain(turn, &own, closed),
        None => ON,
    }
}

/// Keeps a node that is changed where it is while a person holds it. What holds one that was not let go is a gate.
fn stay_held(turn: &mut impl Turn) -> Next {
    let held = directive::held(turn.parts().change);
    let Some(why) = held.filter(|_| turn.heeds_hold()) else {
        return ON;
    };
    turn.say(Step::Held, why);
    STAY
}

/// Takes numo's cordon off the node.
fn uncordon(turn: &mut impl Turn) -> Next {
    let Some(uncordon) = turn.uncordon() else {
        return ON;
    };
    let Parts { node, out, .. } = turn.parts();
    out.actions.push(Planned {
        chain: node.name.clone(),
        action: Action::PatchNode(uncordon.patch),
        event: uncordon.event,
    });
    turn.say(Step::Uncordoned, Why::new(Reason::Restoring, uncordon.words));
    STAY
}

/// A turn that is closed goes no further.
fn stay_closed(turn: &mut impl Turn, closed: Option<Why>) -> Next {
    let Some(why) = closed else { return ON };
    turn.close(Step::PreRelease, why);
    STAY
}

/// Looks for what would keep the drain from passing, where that is asked for.
fn probe_drain(turn: &mut impl Turn, step: Step) -> Next {
    let look = turn.probe();
    act_on_look(turn, step, look)
}

/// Acts on what the last look at a drain came to; none is of a node whose drain nobody wants probed.
pub fn act_on_look(turn: &mut impl Turn, step: Step, look: Option<Look>) -> Next {
    match look {
        None | Some(Look::Passes) => return ON,
        Some(Look::Blocked(words)) => {
            let Parts { phases, out, .. } = turn.parts();
            out.wake(later(phases.now, PROBE_SECONDS));
            turn.close(step, Why::new(Reason::DrainBlocked, words));
            return STAY;
        }
        Some(Look::Asks(question)) => turn.parts().out.questions.push(question),
        Some(Look::Unknown) => {
            let why = own_drain::unknown(turn.parts().phases.observed);
            turn.say(step, why);
            return STAY;
        }
    }
    turn.say(
        step,
        Why::new(Reason::Draining, "its evictions are being tried by dry run"),
    );
    STAY
}

/// From when a wait counts that began at this time. One that has not come, of a clock that was put back, is nothing to go by: the wait
/// begins now, as the journal is to tell, and is no longer for it.
pub fn since(turn: &mut impl Turn, at: Timestamp) -> ControlFlow<(), Timestamp> {
    let Parts { phases, change, .. } = turn.parts();
    let told = Some(change.status.since.as_deref()).filter(|_| change.status.step == Some(Step::Soaked));
    let mut times = std::iter::once(at).chain(told.and_then(journal::time));
    if let Some(at) = times.find(|at| has_come(*at, phases.now)) {
        return ControlFlow::Continue(at);
    }
    enter(turn, Step::Soaked);
    let message = format!("it waits from now on, as the clock was put back: {at} has not come");
    turn.say(Step::Soaked, Why::new(Reason::Soaking, message));
    ControlFlow::Break(())
}

/// Keeps the turn for `soak_seconds` from `from` on.
pub fn soak(turn: &mut impl Turn, from: Timestamp, soak_seconds: i64) -> Next {
    if soak_seconds == 0 {
        return ON;
    }
    let end = later(since(turn, from)?, soak_seconds);
    let Parts { phases, out, .. } = turn.parts();
    if phases.now >= end {
        return ON;
    }
    out.wake(end);
    let message = format!("it keeps its turn until {end} (soakSeconds)");
    turn.say(Step::Soaked, Why::new(Reason::Soaking, message).until(end));
    STAY
}
