//! How the old node is cordoned and drained, by numo's own drain.

use super::turn::Going;
use crate::{
    observed::NodeView,
    turn::cordon::{self, OwnDrain},
};

impl Going<'_, '_> {
    /// How numo cordons and drains the old node.
    pub(super) fn drains_so(&self, donor: &NodeView) -> OwnDrain {
        let intent = &self.pass.intent;
        let mark = cordon::of(donor, &self.pass.view.uid);
        OwnDrain {
            is_cordoned: mark.is_some() && donor.unschedulable,
            mark,
            options: Some(intent.drain.clone()),
            limit_field: format!("{}.timeoutSeconds", intent.drain_field),
            again: "it is being cordoned again",
            stays_open: true,
        }
    }
}
