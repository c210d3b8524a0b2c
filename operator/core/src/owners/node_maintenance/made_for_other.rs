//! A NodeMaintenance that numo made for another operator is not served here: only that is decided.

use crate::{
    mark,
    observed::{MaintenanceView, Observed},
    why::Why,
};
use numo_api::Reason;

/// Why numo itself does not serve a NodeMaintenance that it made for another operator: it would wait for the very turn that waits for it.
pub(crate) fn made_for_other(observed: &Observed, view: &MaintenanceView) -> Option<Why> {
    let mark = mark::drains_for(view)?;
    let mut turns = observed.changing();
    let turn = turns.find(|change| change.uid == mark.change);
    let Some(turn) = turn else {
        let message = format!(
            "{}: numo made it for another operator to drain Node {}, and the turn that it was made for is over; it goes with its owner, or \
             delete it",
            view.owner, view.spec.node_name
        );
        return Some(Why::new(Reason::OwnerGone, message));
    };
    let of = &turn.spec.owner_ref;
    let message = format!(
        "{}: numo made it for another operator to drain Node {} in its turn with {} {}, and does not serve it",
        view.owner, view.spec.node_name, of.kind, of.name
    );
    Some(Why::new(Reason::NodeBusy, message))
}
