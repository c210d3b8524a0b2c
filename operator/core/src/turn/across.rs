//! The drain of a node by another operator, for every owner: numo makes a NodeMaintenance of the node and waits until the status of that
//! object says Succeeded. Whose object it is tells its mark, which is made with the object in one write: after a crash it is found again.
//! No object without that mark is taken for an answer or deleted, whatever its name is.

use super::{
    cordon::{self, Across},
    journal::{self, Journal},
    lease,
    node::{Next, ON, STAY, Turn},
    own_drain,
};
use crate::{
    action::{Action, DrainsFor, MaintenanceRequest, Planned},
    mark,
    names::NAME_MAX,
    observed::{ChangeView, MaintenanceView, NodeView, Observed},
    owner::{MaintenanceGroup, Owner},
    text::{clip, first_of},
    time::later,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, conditions::Actor};

/// How long the other operator has to say something of a NodeMaintenance (seconds).
const ANSWER_SECONDS: i64 = 120;
/// How long it may say nothing new while it drains (seconds): it tries again after 17 minutes at the latest.
const SILENT_SECONDS: i64 = 1200;
/// How long it says that the node is drained before an open node is none whose cordon is yet to be seen (seconds).
const SEEN_SECONDS: i64 = 60;
/// Pods that are named.
const PODS: usize = 5;
/// The objects by which another operator drains.
pub(crate) const PLURAL: &str = "nodemaintenances";
/// Characters of another operator's words.
const WORDS: usize = 512;

/// The NodeMaintenance by which a node of a turn is drained.
enum Found<'a> {
    /// There is none.
    None,
    /// numo made it for this attempt of the turn.
    Ours(&'a MaintenanceView),
    /// numo made it for an earlier attempt, another turn, or another node of that name: it goes first.
    Stale(&'a MaintenanceView),
    /// Somebody else made it.
    Others(&'a MaintenanceView),
    /// One of its name is there and cannot be read.
    Unread(Why),
}

/// The object for a node: it has the name of the node, as the reference has it.
fn object(node: &str) -> Owner {
    Owner::maintenance(MaintenanceGroup::Medik8s, node)
}

/// The mark of an object that is made for a turn.
fn marked(change: &ChangeView, node: &NodeView, owner_uid: &str) -> DrainsFor {
    DrainsFor {
        owner: owner_uid.to_owned(),
        change: change.uid.clone(),
        attempt: change.status.attempt.max(1),
        node: node.uid.clone(),
    }
}

fn find<'a>(observed: &'a Observed, node: &NodeView, change: &ChangeView, owner_uid: &str) -> Found<'a> {
    if let Some(why) = unread(observed, node) {
        return Found::Unread(why);
    }
    let Some(view) = observed.maintenances.get(&object(&node.name)) else {
        return by_other(observed, node).map_or(Found::None, Found::Others);
    };
    match mark::drains_for(view) {
        Some(mark) if mark.owner != owner_uid => Found::Others(view),
        Some(mark) if is_of_turn(&mark, change) && view.spec.node_name == node.name => Found::Ours(view),
        Some(_) => Found::Stale(view),
        None => Found::Others(view),
    }
}

/// That the object of this name cannot be read: what it says is not known.
fn unread(observed: &Observed, node: &NodeView) -> Option<Why> {
    let object = object(&node.name);
    let unread = observed.unread.get(&(PLURAL, object.key.clone()))?;
    let message = format!("{object} cannot be read: {}", unread.words);
    Some(Why::new(Reason::ListFailed, message))
}

/// A NodeMaintenance of the node, or of its name, that numo made for none of its turns.
fn by_other<'a>(observed: &'a Observed, node: &NodeView) -> Option<&'a MaintenanceView> {
    let object = object(&node.name);
    let mut all = observed.maintenances.values();
    all.find(|view| {
        let is_meant = view.spec.node_name == node.name || view.owner == object;
        is_meant && mark::drains_for(view).is_none()
    })
}

/// Why no NodeMaintenance can be made for a node: somebody else made one.
pub(crate) fn kept_by_other(observed: &Observed, node: &NodeView) -> Option<Why> {
    by_other(observed, node).map(|view| kept_by(view, node))
}

fn kept_by(view: &MaintenanceView, node: &NodeView) -> Why {
    let message = format!(
        "{} of Node {}: found one that was not made for this turn, wanted none; it is left alone, and the node waits until it is deleted",
        view.owner, node.name
    );
    Why::new(Reason::NodeInMaintenance, message)
}

/// Whether the node of a turn is drained by another operator. What was begun so is ended so, whatever the owner asks for by now.
pub(crate) fn is_chosen(
    observed: &Observed,
    (node, change): (&NodeView, &ChangeView),
    owner_uid: &str,
    is_asked: bool,
) -> bool {
    has_object(observed, node, change) || (is_asked && cordon::of(node, owner_uid).is_none())
}

/// Whether there is a NodeMaintenance that numo made for the turn of the node, in whatever attempt: the other operator needs the lease of
/// the node, and numo takes it no more.
pub(crate) fn has_object(observed: &Observed, node: &NodeView, change: &ChangeView) -> bool {
    let view = observed.maintenances.get(&object(&node.name));
    let mark = view.and_then(mark::drains_for);
    mark.is_some_and(|mark| mark.change == change.uid && mark.node == node.uid)
}

/// The NodeMaintenances that an owner's turns need no more: those that numo made for a turn, an attempt or a node that is over.
pub(crate) fn left<'a>(
    observed: &'a Observed,
    owner_uid: &'a str,
    is_needed: impl Fn(&MaintenanceView, &DrainsFor) -> bool,
) -> impl Iterator<Item = &'a MaintenanceView> {
    let all = observed.maintenances.values().filter(|view| !view.deleting);
    all.filter(move |view| {
        let mark = mark::drains_for(view).filter(|mark| mark.owner == owner_uid);
        mark.is_some_and(|mark| !is_needed(view, &mark))
    })
}

/// Whether a mark is of this turn as it is now.
pub(crate) fn is_of_turn(mark: &DrainsFor, change: &ChangeView) -> bool {
    mark.change == change.uid
        && mark.attempt == change.status.attempt.max(1)
        && mark.node == change.spec.node_uid
}

/// Deletes an object that numo made: by its uid, so that a namesake stays.
pub(crate) fn deletion(view: &MaintenanceView) -> Planned {
    let action = Action::DeleteMaintenance {
        name: view.owner.key.name.clone(),
        uid: view.uid.clone(),
    };
    Planned::of(view.owner.to_string(), action)
}

/// Says why the object is not made now, or journals that it is there; it goes on where it is to be made.
pub(super) fn stand_by(turn: &mut impl Turn, closed: Option<&Why>) -> Next {
    let (phases, node, change, out) = turn.parts().all();
    let found = find(phases.observed, node, change, phases.owner_uid);
    let against = match (closed, &found) {
        (Some(why), _) | (None, Found::Unread(why)) => Some(why.clone()),
        (None, Found::Others(view)) => Some(kept_by(view, node)),
        (None, Found::Stale(view)) => Some(goes_first(view)),
        (None, Found::Ours(_) | Found::None) => None,
    };
    if let Some(why) = against {
        turn.close(Step::PreRules, why);
        return STAY;
    }
    if matches!(found, Found::None) {
        return ON;
    }
    let mut journal = Journal::open(change, phases.now);
    journal.enter(Step::Cordoned, None);
    out.actions.extend(journal.planned(None));
    let words = format!("{} is made", object(&node.name));
    turn.say(Step::Cordoned, of_other_operator(words));
    STAY
}

/// One that numo made before is being deleted: until it is gone its name is taken.
fn goes_first(view: &MaintenanceView) -> Why {
    let message = format!(
        "{} was made for an earlier attempt or turn, and goes first",
        view.owner
    );
    Why::new(Reason::NodeInMaintenance, message).ended_by(Actor::OtherController)
}

/// Has the other operator begin: makes the object.
pub(super) fn make(turn: &mut impl Turn, across: &Across) {
    let (phases, node, change, out) = turn.parts().all();
    let request = MaintenanceRequest {
        node: node.name.clone(),
        reason: across.reason,
        mark: marked(change, node, phases.owner_uid),
    };
    let action = Action::CreateMaintenance(Box::new(request));
    out.actions.push(Planned::of(&node.name, action));
    let words = format!("{} is being made", object(&node.name));
    turn.say(Step::Cordoned, of_other_operator(words));
}

fn of_other_operator(words: String) -> Why {
    Why::new(Reason::Draining, words).ended_by(Actor::OtherController)
}

/// Waits until the other operator has drained the node, and journals that. Afterwards the node must stay so.
pub(super) fn wait(turn: &mut impl Turn, across: &Across, closed: Option<&Why>) -> Next {
    let (phases, node, change, out) = turn.parts().all();
    let Some(begun) = cordon::since(change) else {
        return ON;
    };
    let found = find(phases.observed, node, change, phases.owner_uid);
    if let Found::Ours(_) = found {
        // The other operator takes the lease of the node before it drains.
        let holder = lease::holder_of(phases.owner.kind, phases.owner_uid);
        let given = lease::release(phases.observed, &node.name, &holder);
        out.actions
            .extend(given.map(|action| Planned::of(&node.name, action)));
    }
    let was_drained = journal::is_drained(change) || is_done(&found, phases.now);
    let was_opened = cordon::was_opened(change);
    if was_opened || was_drained && !node.unschedulable {
        if !was_opened {
            let mut journal = Journal::open(change, phases.now);
            journal.enter(Step::Cordoned, Some(&own_drain::opened(node)));
            out.actions.extend(journal.planned(None));
        }
        // Whoever closes it: the other operator is done with it, and pods may have come.
        let why = reopened(node);
        turn.say(Step::Cordoned, why);
        return STAY;
    }
    let told = told(found, node, phases.now);
    if let Some(at) = told.again {
        out.wake(at);
    }
    let Some(why) = told.why else {
        if journal::is_drained(change) {
            return ON;
        }
        let mut journal = Journal::open(change, phases.now);
        journal.enter(Step::Drained, None);
        out.actions.extend(journal.planned(None));
        let words = format!("it is drained, as {} says", object(&node.name));
        turn.say(Step::Drained, Why::new(Reason::Drained, words));
        return STAY;
    };
    let why = match closed {
        Some(closed) => closed.clone(),
        None if why.reason == Reason::Draining => {
            let limit = (&across.options, across.limit_field.as_str());
            own_drain::limited(out, why, limit, (begun, phases.now))
        }
        None => why,
    };
    turn.say(Step::Cordoned, why);
    STAY
}

/// What an object says of the drain: why that is not over, and when to look again.
#[derive(Default)]
struct Told {
    why: Option<Why>,
    again: Option<Timestamp>,
}

impl From<Why> for Told {
    fn from(why: Why) -> Self {
        Self {
            why: Some(why),
            again: None,
        }
    }
}

fn told(found: Found<'_>, node: &NodeView, now: Timestamp) -> Told {
    match found {
        Found::Ours(view) if !view.deleting => said(view, node, now),
        Found::Others(view) => kept_by(view, node).into(),
        Found::Stale(view) => goes_first(view).into(),
        Found::Unread(why) => why.into(),
        Found::Ours(_) | Found::None => {
            let (object, name) = (object(&node.name), &node.name);
            let message = format!(
                "{object}: found none or one that is being deleted, wanted the one that numo made, until Node {name} is gone; `numo retry {name}` \
                 makes a new one, `numo skip {name}` leaves the node out"
            );
            Why::new(Reason::ForeignWriter, message).into()
        }
    }
}

fn said(view: &MaintenanceView, node: &NodeView, now: Timestamp) -> Told {
    let (object, name) = (&view.owner, &node.name);
    let phase = view.status.phase.as_deref().unwrap_or_default();
    let shown = if phase.is_empty() { "none" } else { phase };
    let found = format!(
        "{object} status.phase: found {}, wanted Succeeded{}",
        clip(shown, 64),
        words(view)
    );
    match phase {
        "Succeeded" if node.unschedulable => Told::default(),
        "Succeeded" => Told {
            why: Some(reopened(node)),
            again: done_at(view),
        },
        "Failed" => {
            let message = format!(
                "{found}; `numo retry {name}` makes a new one, `numo skip {name}` leaves the node out"
            );
            Why::new(Reason::MaintenanceFailed, message).into()
        }
        _ => {
            let (since, limit) = if phase.is_empty() {
                (Some(view.created), ANSWER_SECONDS)
            } else {
                (journal::time(view.status.last_update.as_deref()), SILENT_SECONDS)
            };
            let until = since.map(|since| later(since, limit));
            if until.is_some_and(|until| until <= now) {
                let message = format!("{found}; the operator that serves it has said nothing for {limit} s");
                return Why::new(Reason::MaintenanceUnanswered, message).into();
            }
            Told {
                why: Some(of_other_operator(found)),
                again: until,
            }
        }
    }
}

/// Whether the other operator is done for so long that its cordon would be seen: numo may have been away meanwhile.
fn is_done(found: &Found<'_>, now: Timestamp) -> bool {
    let Found::Ours(view) = found else {
        return false;
    };
    !view.deleting && done_at(view).is_some_and(|at| at <= now)
}

/// From when on the cordon of a node that is drained would be seen, as the object tells.
fn done_at(view: &MaintenanceView) -> Option<Timestamp> {
    let status = &view.status;
    let last = status.last_update.as_deref();
    let last = last.filter(|_| status.phase.as_deref() == Some("Succeeded"));
    Some(later(journal::time(last)?, SEEN_SECONDS))
}

/// That somebody has opened a node that the other operator has drained, and that keeps it so no longer.
fn reopened(node: &NodeView) -> Why {
    let message = format!(
        "Node {0}: someone uncordoned it after it was drained; `numo retry {0}` has it drained once more, `numo skip {0}` leaves it out",
        node.name
    );
    Why::new(Reason::ForeignWriter, message)
}

/// The pods that are yet to go, and the last error, as the other operator tells them.
fn words(view: &MaintenanceView) -> String {
    let pods = view.status.pending_pods.as_deref().unwrap_or_default();
    let mut words = String::new();
    if !pods.is_empty() {
        let named = first_of(pods.iter().map(|pod| clip(pod, NAME_MAX)), PODS);
        words = format!(": pods {named} are yet to go");
    }
    match view
        .status
        .last_error
        .as_deref()
        .filter(|error| !error.is_empty())
    {
        Some(error) => format!("{words}; it says: {}", clip(error, WORDS)),
        None => words,
    }
}
