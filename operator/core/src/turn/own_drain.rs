//! The drain of a node by numo, for every owner: one look at it, the evictions, its limit, and what is said of it. Nothing here says which
//! pods go: that is `drain/`.

use super::{
    cordon::{self, MAX_CORRECTIONS, OwnDrain},
    journal::{self, Journal},
    node::{Next, ON, STAY, Turn, enter},
    put_back,
};
use crate::{
    action::{Action, Eviction, Planned},
    decision::Decision,
    drain::{self, Drain, DrainOptions},
    key::Key,
    observed::{NodeView, Observed},
    time::later,
    verdict::Answers,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step};

/// How the drain of a node comes along that was cordoned at `cordoned`; what it asks, and when it is to be looked at again, goes into the
/// decision. None while its pods are not known.
pub(crate) fn look(
    out: &mut Decision,
    (observed, node): (&Observed, &NodeView),
    options: &DrainOptions,
    cordoned: Timestamp,
    known: (&Answers, Timestamp),
) -> Option<Drain> {
    let mut found = drain::drain(observed, node, options, cordoned, known)?;
    if let Some(at) = found.wake_at {
        out.wake(at);
    }
    out.questions.extend(found.question.take());
    Some(found)
}

/// Why the drain of a node cannot be looked at: its pods are not known.
pub(crate) fn unknown(observed: &Observed) -> Why {
    match observed.unlisted.get("pods") {
        Some(words) => Why::new(Reason::ListFailed, format!("its pods cannot be listed: {words}")),
        None => Why::new(Reason::Draining, "its pods are being listed"),
    }
}

/// Evicts these pods of the node.
pub(crate) fn evict(out: &mut Decision, node: &NodeView, pods: impl IntoIterator<Item = Eviction>) {
    let evictions = pods.into_iter();
    let planned = evictions.map(|eviction| Planned::evict(&node.name, eviction));
    out.actions.extend(planned);
}

/// Why a drain that began at `cordoned` is not over. One that takes longer than it may by `field` goes on, and that is said.
pub(crate) fn limited(
    out: &mut Decision,
    why: Why,
    (options, field): (&DrainOptions, &str),
    (cordoned, now): (Timestamp, Timestamp),
) -> Why {
    let Some(limit) = options.timeout_seconds else {
        return why;
    };
    let end = later(cordoned, limit);
    if now >= end {
        return drain::timed_out(limit, field, &why);
    }
    out.wake(end);
    why
}

/// Cordons the node, and says so.
pub(super) fn close(turn: &mut impl Turn, corrections: u32, words: &'static str) {
    let (phases, node, _, out) = turn.parts().all();
    let mark = cordon::marked(node, phases.owner_uid, corrections);
    let patch = Action::PatchNode(cordon::cordoning(node, &mark));
    out.actions.push(Planned::of(&node.name, patch));
    turn.say(Step::Cordoned, Why::new(Reason::Draining, words));
}

/// What the journal says of a node that somebody has opened: once it is closed again, by whomever, it is drained from then on. The pods that
/// came meanwhile would count as come past its cordon otherwise, for which nobody waits.
pub(crate) fn opened(node: &NodeView) -> Why {
    let message = format!("Node {}: someone uncordoned it, and pods may come", node.name);
    Why::new(Reason::ForeignWriter, message)
}

/// What is said of a node that is drained from now on, as somebody had opened it.
pub(crate) fn closed_again() -> Why {
    Why::new(
        Reason::Draining,
        "it is cordoned again after someone uncordoned it",
    )
}

/// Has a node drained that is cordoned from now on.
fn begin_again(turn: &mut impl Turn, why: Why) -> Next {
    enter(turn, Step::Cordoned);
    turn.say(Step::Cordoned, why);
    STAY
}

/// Corrects somebody's uncordoning, a few times. Also after the drain: the last rules may take hours, and an open node gets pods that
/// would die with what changes it.
pub(super) fn keep_cordoned(turn: &mut impl Turn, own: &OwnDrain, closed: Option<&Why>) -> Next {
    let (phases, node, change, out) = turn.parts().all();
    let was_opened = cordon::was_opened(change);
    if node.unschedulable {
        return if was_opened {
            begin_again(turn, closed_again())
        } else {
            ON
        };
    }
    let corrections = own.mark.as_ref().map_or(0, |mark| mark.corrections);
    let corrections = corrections.max(put_back::times(change, phases.now));
    // The mark, which counts, may have been taken off with the cordon.
    let counts = own.mark.is_none() && closed.is_none() && corrections < MAX_CORRECTIONS;
    let message = format!(
        "Node {}: someone uncordoned it {} times; cordon it, or skip it",
        node.name,
        corrections.saturating_add(1)
    );
    if !was_opened || counts {
        let mut journal = Journal::open(change, phases.now);
        if !was_opened {
            journal.enter(Step::Cordoned, Some(&opened(node)));
        }
        out.actions.extend(if counts {
            put_back::count(journal, change, phases.now)
        } else {
            journal.planned(None)
        });
    }
    if corrections >= MAX_CORRECTIONS {
        turn.say(Step::Cordoned, Why::new(Reason::ForeignWriter, message));
        return STAY;
    }
    match closed {
        Some(why) => turn.say(Step::Cordoned, why.clone()),
        None => close(turn, corrections + 1, own.again),
    }
    STAY
}

/// Evicts what is to go, unless the turn is closed, and journals the end of the drain. One that is over begins again where somebody has
/// uncordoned the node since (`keep_cordoned`), and where a pod is seen only now that was on it before it was cordoned. Until the node is let
/// go nobody goes by pods that are not known.
pub(super) fn drain(turn: &mut impl Turn, own: &OwnDrain, closed: Option<&Why>) -> Next {
    let (phases, node, change, out) = turn.parts().all();
    let (Some(options), Some(cordoned)) = (&own.options, cordon::since(change)) else {
        return ON;
    };
    if journal::is_drained(change) {
        let Some(pods) = drain::evictable(phases.observed, node, options, phases.now) else {
            let why = closed.cloned().unwrap_or_else(|| unknown(phases.observed));
            turn.say(Step::Drained, why);
            return STAY;
        };
        if !came_late(phases.observed, node, &pods, cordoned) {
            return ON;
        }
        let why = "a pod is seen that was on it before it was cordoned";
        return begin_again(turn, Why::new(Reason::Draining, why));
    }
    let known = (phases.answers, phases.now);
    let Some(found) = look(out, (phases.observed, node), options, cordoned, known) else {
        let why = unknown(phases.observed);
        turn.say(Step::Cordoned, why);
        return STAY;
    };
    if closed.is_none() {
        evict(out, node, found.evict);
    }
    let Some(why) = found.why else {
        enter(turn, Step::Drained);
        turn.say(Step::Drained, Why::new(Reason::Drained, "it is drained"));
        return STAY;
    };
    let why = match closed {
        Some(closed) => closed.clone(),
        None => limited(out, why, (options, &own.limit_field), (cordoned, phases.now)),
    };
    turn.say(Step::Cordoned, why);
    STAY
}

/// Whether one of these pods was there before the node was cordoned: it was bound then, and is seen late.
fn came_late(observed: &Observed, node: &NodeView, pods: &[Key], cordoned: Timestamp) -> bool {
    let known = observed.pods.get(&node.name);
    let mut seen = pods.iter().filter_map(|pod| known?.get(pod));
    seen.any(|pod| pod.created <= cordoned)
}
