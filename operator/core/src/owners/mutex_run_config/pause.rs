//! Pauses of pools: set before anything rolls, and lifted at the end.
//!
//! Leaving a run never releases a node: a pool with outdated nodes is unpaused only if the owner asks
//! for exactly that (`onExit: Unpause`).

use super::{
    finalizer::add_finalizer,
    gates::{
        run::held_by_run,
        written::{MAX_CORRECTIONS, was_there},
    },
    put_back,
    run_decision::RunDecision,
    run_view::RunView,
};
use crate::{
    action::{Action, Event, EventAction, PoolPatch, PoolPurpose},
    mark::{self, PausedBy},
    observed::PoolView,
    pools,
    text::counted,
    why::Why,
};
use numo_api::marks::{self, openshift};

/// Pauses the target pools before anything rolls, and again if someone unpaused one. Of a run that is refused the events
/// say that the pools are held, and for what.
pub fn arm(decision: &mut RunDecision<'_>, refusal: Option<&Why>) {
    let view = decision.view;
    let pools = view.intent.pools.iter();
    let planned = pools.filter_map(|pool| Some((*pool, pause(view, pool)?)));
    let is_stripped = |pool: &PoolView| mark::paused_by(pool).is_none() && was_there(view, None);
    let (stripped, mut planned): (Vec<_>, Vec<_>) = planned.partition(|(pool, _)| is_stripped(pool));
    let puts_back = !stripped.is_empty() && !put_back::stays_off(decision);
    if puts_back {
        planned.extend(stripped);
    }
    if planned.is_empty() {
        return;
    }
    add_finalizer(decision);
    for (pool, (mark, again)) in planned {
        let name = &pool.name;
        let (reason, note) = if again {
            let who = pool.paused_manager.as_deref().unwrap_or("someone");
            let note = format!("MachineConfigPool {name} was unpaused by {who} and is paused again");
            ("PausedAgain", note)
        } else if let Some(why) = refusal {
            let note = format!(
                "MachineConfigPool {name} is paused and held, no node of it changes: {}: {}",
                why.reason, why.message
            );
            ("UpgradeHeld", note)
        } else {
            ("PoolPaused", format!("MachineConfigPool {name} is paused"))
        };
        let event = Event {
            warning: again || refusal.is_some(),
            ..Event::normal(reason, EventAction::Pause, note)
        };
        let patch = PoolPatch {
            paused: Some((pool.paused, true)),
            ..PoolPatch::of(
                pool,
                PoolPurpose::Pause,
                marks::PAUSED_BY,
                Some(mark::render(&mark)),
            )
        };
        decision.act("run", Action::PatchPool(patch), Some(event));
    }
    if puts_back {
        put_back::count(decision, "run");
    }
}

/// The mark with which the pool is to be paused, and whether somebody has unpaused it; none where nothing is to be done.
fn pause(view: &RunView<'_>, pool: &PoolView) -> Option<(PausedBy, bool)> {
    let uid = &view.run.uid;
    let adopts = view.intent.adopt_paused;
    match mark::paused_by(pool) {
        Some(mark) if mark.owner == *uid && !pool.paused && mark.corrections < MAX_CORRECTIONS => {
            // Whoever unpaused it no longer means a pause of before.
            let next = PausedBy {
                corrections: mark.corrections + 1,
                prior: false,
                ..mark
            };
            Some((next, true))
        }
        Some(mark) if mark.owner == *uid => {
            mark.outdated?;
            let next = PausedBy {
                outdated: None,
                ..mark
            };
            Some((next, false))
        }
        // Another live run's pool, or one paused by someone else: the gates say so.
        Some(_) if held_by_run(view, pool).is_some() => None,
        None if pool.paused && !adopts => None,
        Some(_) if mark::is_outlived(pool) && !adopts => None,
        // A mark of an owner that is gone: its hold is taken over with what it remembers.
        orphan => {
            let held = orphan.filter(|_| !mark::is_outlived(pool));
            let first = PausedBy {
                owner: uid.clone(),
                name: view.run.key.to_string(),
                prior: held.map_or(pool.paused, |mark| mark.prior),
                corrections: 0,
                outdated: None,
            };
            Some((first, false))
        }
    }
}

/// Pauses the canary pool when its configuration moves on under nodes that were let go to another one,
/// and opens it again when they are out of it.
pub fn tend_canary(decision: &mut RunDecision<'_>) {
    let targets = &decision.view.intent.pools;
    // One that is a target as well, by a slip, is paused as a target.
    let is_target = |canary: &&PoolView| targets.iter().any(|pool| pool.name == canary.name);
    let Some(canary) = decision.view.intent.canary.filter(|canary| !is_target(canary)) else {
        return;
    };
    let (uid, name) = (decision.view.run.uid.clone(), decision.view.run.key.to_string());
    let wanted = pools::content(&canary.config);
    let dragged = decision.view.members.iter().any(|member| {
        let pin = member.in_flight().and_then(|change| change.status.pin.as_ref());
        let desired = pools::content(member.node.annotation(openshift::DESIRED_CONFIG));
        // Also one that the MCO has not taken up yet: it would take it to what is wanted by now.
        !member.node.label(marks::RELEASE).is_empty()
            && pin.is_some_and(|pin| pools::content(&pin.rendered_config) != wanted)
            && desired != wanted
    });
    let found = mark::paused_by(canary).filter(|mark| mark.owner == uid);
    let corrections = found
        .as_ref()
        .map_or(0, |mark| mark.corrections.saturating_add(1));
    // Somebody took the mark off with the pause, or it is paused for the first time.
    let is_unmarked = dragged && !canary.paused && found.is_none() && was_there(decision.view, None);
    if is_unmarked && put_back::stays_off(decision) {
        return;
    }
    let (purpose, to, mark, event) = match (dragged, canary.paused, found.is_some()) {
        (true, false, _) if corrections <= MAX_CORRECTIONS => {
            let mark = PausedBy {
                owner: uid,
                name,
                prior: false,
                corrections,
                outdated: None,
            };
            let note = format!(
                "MachineConfigPool {} is paused: its configuration moved on to {}",
                canary.name, canary.config
            );
            let event = Event::warning("PoolPaused", EventAction::Pause, note);
            (PoolPurpose::Pause, true, Some(mark::render(&mark)), event)
        }
        (false, true, true) => {
            let note = format!("MachineConfigPool {} is unpaused", canary.name);
            let event = Event::normal("PoolUnpaused", EventAction::Unpause, note);
            (PoolPurpose::Unpause, false, None, event)
        }
        _ => return,
    };
    let patch = PoolPatch {
        paused: Some((canary.paused, to)),
        config: Some(canary.config.clone()),
        ..PoolPatch::of(canary, purpose, marks::PAUSED_BY, mark)
    };
    decision.act("run", Action::PatchPool(patch), Some(event));
    if is_unmarked {
        put_back::count(decision, "run");
    }
}

/// Unpauses each pool in which nothing would roll; the others stay paused, with the number of nodes that
/// would.
pub(super) fn unpause(decision: &mut RunDecision<'_>, over: bool) {
    let marked: Vec<(&PoolView, PausedBy)> = decision.view.marked_pools().collect();
    for (pool, mark) in marked {
        if over && decision.view.keeps_paused(pool) && pool.paused {
            forgive(decision, pool, mark);
            continue;
        }
        let outdated = pools::outdated(decision.view.observed, pool);
        // Someone unpaused it: it is theirs now.
        let lifted = !pool.paused;
        let free = outdated == 0 || mark.prior || lifted || decision.view.intent.unpause_on_exit;
        if free {
            let to = mark.prior;
            let note = if to {
                format!(
                    "MachineConfigPool {} stays paused, as it was before the run",
                    pool.name
                )
            } else {
                format!("MachineConfigPool {} is unpaused", pool.name)
            };
            let event = Event::normal("PoolUnpaused", EventAction::Unpause, note);
            let patch = PoolPatch {
                paused: Some((pool.paused, to && pool.paused)),
                config: Some(pool.config.clone()),
                ..PoolPatch::of(pool, PoolPurpose::Unpause, marks::PAUSED_BY, None)
            };
            decision.act("run", Action::PatchPool(patch), Some(event));
        } else if mark.outdated != Some(outdated) {
            let note = format!(
                "MachineConfigPool {} stays paused: {} would roll without rules if it were unpaused",
                pool.name,
                counted(outdated, "node")
            );
            let event = Event::warning("PoolHeld", EventAction::Hold, note);
            let mark = PausedBy {
                outdated: Some(outdated),
                ..mark
            };
            hold(decision, pool, &mark, Some(event));
        }
    }
}

/// A new run begins with nobody's unpausing held against anybody.
fn forgive(decision: &mut RunDecision<'_>, pool: &PoolView, mark: PausedBy) {
    if mark.corrections == 0 {
        return;
    }
    let mark = PausedBy {
        corrections: 0,
        ..mark
    };
    hold(decision, pool, &mark, None);
}

/// Leaves the pool paused, with another mark.
fn hold(decision: &mut RunDecision<'_>, pool: &PoolView, mark: &PausedBy, event: Option<Event>) {
    let mark = Some(mark::render(mark));
    let patch = PoolPatch::of(pool, PoolPurpose::Hold, marks::PAUSED_BY, mark);
    decision.act("run", Action::PatchPool(patch), event);
}
