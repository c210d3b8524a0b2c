//! That a person has paused an owner, by the annotation that `numo pause` sets or in its spec, or has given it up by that of `numo abort`.
//! One place for all kinds of owners.

use crate::{
    key::{Key, Map},
    observed::{Observed, OwnerView},
    owner::{ForeignController, Means, Owner},
    remark,
    why::{GivenUp, Why},
};
use numo_api::{
    Reason,
    marks::{ABORT, SUSPEND},
};

/// Why the owner begins nothing new, if a person has paused it.
pub fn suspended(observed: &Observed, owner: &Owner) -> Option<Why> {
    of_view(owner, observed.owner(owner)?)
}

/// Why nothing begins for an owner of which this was seen: it is left to the operator that numo replaces, a person has paused it, or what
/// its kind needs cannot be listed.
pub(crate) fn stopped(observed: &Observed, owner: &Owner, view: OwnerView<'_>) -> Option<Why> {
    observed
        .stood_off(ForeignController::of(owner.kind))
        .or_else(|| of_view(owner, view))
        .or_else(|| observed.list_failed(owner.kind))
}

/// Why an owner of which this was seen begins nothing new, if a person has paused it.
pub(crate) fn of_view(owner: &Owner, view: OwnerView<'_>) -> Option<Why> {
    let message = if view.suspended {
        format!("{owner} has spec.suspend: true")
    } else {
        let by = view.annotations.get(SUSPEND)?;
        format!("{owner} {}", remark::paused(by))
    };
    Some(Why::new(Reason::Suspended, message))
}

/// Why an owner is given up, if its annotation names what it does now by one of these ids.
pub(crate) fn given_up(owner: &Owner, annotations: &Map, ids: &[&str]) -> Option<Why> {
    annotations.get(ABORT).filter(|id| ids.contains(&id.as_str()))?;
    let by = remark::by(annotations, "abort");
    let message = format!(
        "{owner} was given up (annotation {ABORT}){by}; to go on, `{}`",
        taken_back(owner)
    );
    Some(Why::aborted(GivenUp::Annotation, message))
}

/// The command that takes such an annotation back.
pub fn taken_back(owner: &Owner) -> String {
    let Key { namespace, name } = &owner.key;
    match owner.kind.means() {
        Means::MachineConfig => format!("numo abort {name} -n {namespace} --undo"),
        Means::Job => format!("numo abort plan/{name} -n {namespace} --undo"),
        // The verb does not take them.
        Means::Machine | Means::Person => format!("{} {ABORT}-", owner.kubectl("annotate")),
    }
}
