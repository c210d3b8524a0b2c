//! That a person has paused an owner: by the annotation that `numo pause` sets, or in its spec. One place for all kinds of owners.

use crate::{
    observed::{Observed, OwnerView},
    owner::{ForeignController, Owner},
    said,
    why::Why,
};
use numo_api::{Reason, marks::SUSPEND};

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
        format!("{owner} {}", said::paused(by))
    };
    Some(Why::new(Reason::Suspended, message))
}
