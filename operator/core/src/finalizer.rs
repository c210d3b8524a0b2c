//! numo's finalizer on an owner, for every kind: without it nobody takes back what is on nodes once the owner is deleted. One that somebody
//! keeps taking off is put back a few times at once, and then once a minute: nothing begins meanwhile, and people hear of it.

use crate::{
    action::{Action, Event, EventAction, Planned},
    decision::{Decision, Snapshot},
    observed::OwnerView,
    owner::Owner,
    turn::put_back::{self, AT_ONCE},
    why::{Cause, Why},
};
use jiff::Timestamp;
use numo_api::{PutBack, Reason, Step};
use std::collections::{BTreeMap, BTreeSet};

/// Whether it is on the owner.
pub(crate) fn is_on(owner: &Owner, view: OwnerView<'_>) -> bool {
    view.finalizers.iter().any(|one| one == owner.kind.finalizer())
}

fn adds(planned: &Planned) -> bool {
    matches!(planned.action, Action::AddFinalizer { .. })
}

/// Puts it on an owner that has it not, once a pass, in this chain.
pub(crate) fn add(out: &mut Decision, (owner, view): (&Owner, OwnerView<'_>), chain: &str) {
    if is_on(owner, view) || out.actions.iter().any(adds) {
        return;
    }
    let action = Action::AddFinalizer {
        owner: owner.clone(),
        uid: view.uid.to_owned(),
        finalizer: owner.kind.finalizer(),
    };
    out.actions.push(Planned::of(chain, action));
}

/// What takes it off the owner, if it is there.
pub(crate) fn removal(owner: &Owner, view: OwnerView<'_>) -> Option<Action> {
    let finalizer = owner.kind.finalizer();
    let index = view.finalizers.iter().position(|one| one == finalizer)?;
    Some(Action::RemoveFinalizer {
        owner: owner.clone(),
        uid: view.uid.to_owned(),
        finalizer,
        index,
    })
}

/// Notes that it was put on an owner; what is old is forgotten.
pub fn note(put_on: &mut BTreeMap<String, PutBack>, uid: &str, now: Timestamp) {
    let (noted, _) = put_back::once_more(put_on.get(uid), now);
    put_on.retain(|_, noted| put_back::known(Some(noted), now).is_some());
    put_on.insert(uid.to_owned(), noted);
}

/// Ends a decision: a finalizer that was put on often of late stays off for a while, and nothing begins without it.
pub(crate) fn settle(out: &mut Decision, snapshot: &Snapshot<'_>, view: OwnerView<'_>) {
    let (owner, now) = (snapshot.owner, snapshot.now);
    let noted = snapshot.observed.finalizers.get(view.uid);
    let (Some(added), Some(noted)) = (out.actions.iter_mut().find(|one| adds(one)), noted) else {
        return;
    };
    let message = format!(
        "someone keeps taking finalizer {} off {owner}, without which nobody puts its nodes back once it is deleted; numo puts it back once a \
         minute, and begins no node while it is off; `{} -o yaml --show-managed-fields` tells who writes",
        owner.kind.finalizer(),
        owner.kubectl("get")
    );
    let reason = Reason::ForeignWriter;
    // The first time nobody had taken it off.
    let Some(at) = put_back::next(Some(noted), AT_ONCE + 1, now).filter(|at| *at > now) else {
        let (_, times) = put_back::once_more(Some(noted), now);
        if times > 1 {
            let told = || Event::warning(reason.name(), EventAction::Restore, message);
            added.event = (times == AT_ONCE + 1).then(told);
        }
        return;
    };
    let observed = snapshot.observed;
    let begun = out.actions.iter().filter_map(|one| one.action.begins(observed));
    let begun: BTreeSet<String> = begun.map(|spec| spec.node_name.clone()).collect();
    out.actions
        .retain(|one| one.action.begins(observed).is_none() && !adds(one));
    out.wake(at);
    let look = format!("{} -o yaml --show-managed-fields", owner.kubectl("get"));
    let why = Why::new(reason, message).of(Cause::Command(look));
    // Few of thousands begin, and only their journals are looked for.
    let flies = |said: &str| {
        let mut turns = observed.changes.values();
        turns.any(|change| change.in_flight() && change.key.to_string() == said)
    };
    for (name, node) in &mut out.report.nodes {
        let admits = || node.why.reason == Reason::Admitting && !node.change.as_deref().is_some_and(flies);
        if begun.contains(name) || admits() {
            (node.step, node.why) = (Step::Selected, why.clone());
        }
    }
    let hold = out.report.hold.take().filter(|hold| hold.who().is_person());
    out.report.hold = hold.or(Some(why));
}
