//! What is checked of the writes that only a NodeMaintenance makes.

use super::intent::{rules_of, schedule};
use crate::{
    action::{NodePatch, NodePurpose},
    admit::schedule::Schedule,
    lint::{
        checks::{Checked, breach, in_hours, not_stopped, passed},
        table::{Checks, Seen},
    },
    mark,
    observed::{MaintenanceView, NodeView},
    quorum, rules,
};
use numo_api::marks;

/// A NodeMaintenance whose writes are checked.
pub(crate) struct Lint<'a> {
    pub(crate) seen: Seen<'a>,
    pub(crate) view: &'a MaintenanceView,
}

impl Lint<'_> {
    fn has_cordoned(&self, node: &NodeView) -> bool {
        mark::cordoned_by(node).is_some_and(|mark| mark.owner == self.view.uid)
    }

    /// 10: a control-plane node goes only while etcd keeps its quorum.
    fn keeps_quorum(&self, node: &NodeView) -> Checked {
        match quorum::refusal(self.seen.observed, node) {
            Some(why) => breach(10, why.message.to_string()),
            None => Ok(()),
        }
    }

    /// 1, 5, 10 and 13: the node is cordoned in its turn, after its rules. A cordon that somebody took off is put back whatever they say
    /// by now.
    fn cordons(&self, node: &NodeView) -> Checked {
        let name = &node.name;
        let Some(change) = self.seen.turn(node) else {
            return breach(1, format!("{name} has no turn"));
        };
        if self.view.deleting {
            return breach(5, format!("{name} would be cordoned while it is restored"));
        }
        if self.has_cordoned(node) {
            return Ok(());
        }
        not_stopped(self.seen.observed, node, "cordoned")?;
        in_hours(
            self.schedule(),
            (self.seen.observed, node),
            "cordoned",
            self.seen.now,
        )?;
        self.keeps_quorum(node)?;
        let rules = rules_of(self.view, self.seen.observed);
        passed(&rules, name, (change, &rules::BEFORE_RELEASE), self.seen.now)
    }
}

impl Checks for Lint<'_> {
    fn holder(&self) -> String {
        marks::MAINTENANCE_HOLDER.to_owned()
    }

    fn schedule(&self) -> Result<Schedule<'_>, String> {
        schedule(self.view, self.seen.observed)
    }

    fn begin(&self, node: &NodeView) -> Checked {
        if node.name != self.view.spec.node_name {
            let message = format!("{} is not the node of this maintenance", node.name);
            return breach(3, message);
        }
        self.keeps_quorum(node)
    }

    fn patch_node(&self, node: &NodeView, patch: &NodePatch) -> Checked {
        let name = &node.name;
        match patch.purpose {
            NodePurpose::Cordon => self.cordons(node),
            NodePurpose::Uncordon => match mark::cordoned_by(node) {
                Some(mark) if mark.owner != self.view.uid => {
                    breach(4, format!("the cordon of {name} is not ours"))
                }
                _ => Ok(()),
            },
            NodePurpose::Shield => Ok(()),
            NodePurpose::Unshield => match mark::shielded(node) {
                Some(mark) if mark.owner == self.view.uid => Ok(()),
                _ => breach(4, format!("the shield of {name} is not ours")),
            },
            other => breach(4, format!("{name}: {other:?} is nothing to a maintenance")),
        }
    }

    fn evict(&self, node: &NodeView) -> Checked {
        let name = &node.name;
        if *name != self.view.spec.node_name {
            return breach(3, format!("{name} is not the node of this maintenance"));
        }
        if !self.has_cordoned(node) {
            return breach(1, format!("{name} would be drained without a cordon of ours"));
        }
        if self.view.deleting {
            return breach(13, format!("{name} would be drained while it is restored"));
        }
        Ok(())
    }
}
