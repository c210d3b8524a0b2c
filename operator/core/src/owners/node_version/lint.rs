//! What is checked of the writes that only a NodeVersion makes.

use super::{
    etcd::member_left,
    intent::{Intent, rules_of, schedule},
    known::is_released_machine,
    lost::surely_lost,
    sets::{Class, Sets},
    waves::of_control_plane,
};
use crate::{
    action::{FleetAction, NodePatch, NodePurpose},
    admit::{schedule::Schedule, wave_rules::surely_of},
    intent,
    lint::{
        checks::{Checked, breach, here, in_hours, not_stopped, passed},
        table::{Checks, Seen},
    },
    mark,
    observed::{ChangeView, IntOrPercent, NodeVersionView, NodeView, PendingNodeView, is_same},
    owner::OwnerKind,
    quorum, rules,
    turn::{journal, lease},
};
use numo_api::{
    Phase, Step,
    machines::{CspState, Goal, annotations},
    marks,
};

/// A NodeVersion whose writes are checked.
pub(crate) struct Lint<'a> {
    pub(crate) seen: Seen<'a>,
    pub(crate) view: &'a NodeVersionView,
}

impl<'a> Lint<'a> {
    fn passed(&self, node: &str, change: &ChangeView, phases: &[Phase]) -> Checked {
        let observed = self.seen.observed;
        let mut rules = rules_of(self.view, observed);
        if let Some(found) = observed.nodes.get(node) {
            let mut waves = Intent::parse(self.view, observed).waves;
            // The control plane goes before every wave, with the rules of those that would select its nodes.
            if quorum::is_control_plane(found) {
                waves.insert(0, of_control_plane(&Sets::of(self.view, observed), &waves));
            }
            rules = surely_of((found, change), &rules, &waves, observed);
        }
        passed(&rules, node, (change, phases), self.seen.now)
    }

    fn pending(&self, name: &str) -> Option<&'a PendingNodeView> {
        self.seen.observed.fleet.pending.get(name)
    }

    /// 1, 4 and 13: a node is cordoned in its turn, after its rules.
    fn cordons(&self, node: &NodeView) -> Checked {
        let name = &node.name;
        let Some(change) = self.seen.turn(node) else {
            return breach(1, format!("{name} has no turn"));
        };
        not_stopped(self.seen.observed, node, "cordoned")?;
        if journal::entered(change, Step::Cordoned).is_some() {
            return Ok(());
        }
        let schedule = self.schedule();
        in_hours(schedule, (self.seen.observed, node), "cordoned", self.seen.now)?;
        self.passed(name, change, &[Phase::Pre])
    }

    /// 4: only what is ours is put back.
    fn uncordons(&self, node: &NodeView, patch: &NodePatch) -> Checked {
        let name = &node.name;
        let mark = mark::cordoned_by(node);
        let is_ours = mark
            .as_ref()
            .is_some_and(|mark| mark.owner == self.view.uid && !mark.prior);
        if patch.unschedulable == Some(false) && !is_ours {
            return breach(4, format!("the cordon of {name} is not ours"));
        }
        let touches = |key: &str| patch.annotations.iter().any(|change| change.key == key);
        let ours = |owner: Option<String>| owner.is_none_or(|owner| owner == self.view.uid);
        if touches(marks::CORDONED_BY) && !ours(mark.map(|mark| mark.owner)) {
            return breach(4, format!("the mark on {name} is not ours"));
        }
        if touches(marks::SHIELDED_BY) && !ours(mark::shielded(node).map(|mark| mark.owner)) {
            return breach(4, format!("the shield of {name} is not ours"));
        }
        Ok(())
    }

    /// What a journal says of a release is checked as it is written: nothing is deleted before it.
    fn releases(&self, node: &NodeView, change: &ChangeView) -> Checked {
        let (observed, name) = (self.seen.observed, &node.name);
        let sets = Sets::of(self.view, observed);
        let class = sets.class_of(node);
        let heir = observed.nodes.get(node.annotation(annotations::HEIR));
        let heir = heir.filter(|heir| heir.annotation(annotations::DONOR) == *name);
        let heir = heir.filter(|heir| sets.class_of(heir) == Some(Class::Heir));
        if class != Some(Class::Obsolete) && !heir.is_some_and(|heir| heir.ready) {
            return breach(
                1,
                format!("{name} would go, and nothing that is Ready has its place"),
            );
        }
        if class.is_some_and(Class::is_unknown) {
            return breach(
                1,
                format!("{name} would go, and nobody can say of which version it is"),
            );
        }
        if !node.unschedulable || !journal::is_drained(change) {
            return breach(1, format!("{name} would go before it was drained"));
        }
        not_stopped(observed, node, "released")?;
        self.keeps_quorum(node, change)?;
        self.passed(name, change, &rules::BEFORE_RELEASE)
    }

    /// 10: a member of etcd goes only while all others are well.
    fn keeps_quorum(&self, node: &NodeView, change: &ChangeView) -> Checked {
        match quorum::refusal_of_turn(self.seen.observed, node, change) {
            Some(why) => breach(10, why.message.to_string()),
            None => Ok(()),
        }
    }

    /// 1 and 10: the member of a node is taken out, and its Node deleted, in a turn that has released it.
    fn goes(&self, node: &NodeView) -> Checked {
        let change = self.seen.turn(node);
        let released = change.filter(|change| journal::entered(change, Step::Released).is_some());
        let Some(change) = released else {
            return breach(1, format!("{} was not released", node.name));
        };
        self.keeps_quorum(node, change)
    }

    /// 1 and 10: the same of the member of a node, also where that is gone: of a turn that has let it go, which has journaled its address.
    fn takes_member(&self, name: &str, address: &str) -> Checked {
        let observed = self.seen.observed;
        let node = observed.nodes.get(name);
        if let Some(node) = node.filter(|node| self.seen.turn(node).is_some()) {
            return self.goes(node);
        }
        let mut changes = super::known::changes(observed, &self.view.uid);
        let turn = changes.find(|change| {
            let is_its = || change.spec.node_name == name && member_left(observed, change) == Some(address);
            let is_of_new = || {
                let lost = surely_lost(observed, change);
                lost.is_some_and(|lost| lost.name == name && lost.member == address)
            };
            change.in_flight() && (is_its() || is_of_new())
        });
        let Some(turn) = turn else {
            return breach(
                1,
                format!("member {address} of {name} is of no node that was released"),
            );
        };
        match quorum::refusal_of_gone(observed, name, turn) {
            Some(why) => breach(10, why.message.to_string()),
            None => Ok(()),
        }
    }

    /// 2: a machine is made only where there may be one more, and for a turn.
    fn makes(&self, turn: Option<&String>, group_id: &str) -> Checked {
        let observed = self.seen.observed;
        let mut changes = super::known::changes(observed, &self.view.uid);
        let turn = changes.find(|change| change.in_flight() && Some(&change.key.name) == turn);
        let Some(turn) = turn else {
            return breach(
                1,
                format!("a machine of group {group_id} would be made for no turn"),
            );
        };
        let node = here(observed, &turn.spec.node_name, Some(&turn.spec.node_uid))?;
        not_stopped(observed, node, "replaced")?;
        let sets = Sets::of(self.view, observed);
        let surge = self.view.spec.surge.as_ref().map(intent::parse_limit);
        let surge = surge.unwrap_or(Ok(IntOrPercent::Int(1)));
        let surge = surge.unwrap_or(IntOrPercent::Int(0)).of(sets.base());
        if sets.budget(surge) == 0 {
            return breach(2, format!("a machine of group {group_id} would be one too many"));
        }
        Ok(())
    }

    /// 1: the Node of a machine goes once that is gone: a kubelet that runs would make its Node anew.
    fn forgets_node(&self, node: &NodeView) -> Checked {
        let observed = self.seen.observed;
        let machine = observed.fleet.machine_of(&node.name);
        let mut pending = observed.fleet.pending.values();
        let gone = pending.any(|one| {
            one.leaves()
                && is_same(one.provider_id(), machine)
                && one.status.csp_state == Some(CspState::Terminated)
        });
        if !gone {
            return breach(1, format!("{} would go before its machine {machine}", node.name));
        }
        self.goes(node)
    }

    /// 5: a machine is deleted only if it was let go, or no Node stands for it.
    fn deletes(&self, pending: &str, provider_id: &str) -> Checked {
        let fleet = &self.seen.observed.fleet;
        let hosts = fleet.hosts.iter();
        let here = hosts.filter(|(_, host)| is_same(&host.provider_id, provider_id));
        for (name, _) in here {
            let node = self.seen.observed.nodes.get(name);
            let released = node.is_some_and(|node| self.goes(node).is_ok());
            if !released || !is_released_machine(self.seen.observed, &self.view.uid, provider_id) {
                return breach(
                    5,
                    format!("machine {provider_id} would be deleted under Node {name}"),
                );
            }
        }
        let is_meant = |one: &&PendingNodeView| {
            one.leaves() && !provider_id.is_empty() && is_same(one.provider_id(), provider_id)
        };
        if !self.pending(pending).as_ref().is_some_and(is_meant) {
            return breach(
                5,
                format!("no PendingNode says that machine {provider_id} is to go"),
            );
        }
        let named = fleet
            .pending
            .values()
            .filter(|one| is_same(one.provider_id(), provider_id));
        if named.count() > 1 {
            return breach(5, format!("two PendingNodes have machine {provider_id}"));
        }
        Ok(())
    }
}

impl Checks for Lint<'_> {
    fn holder(&self) -> String {
        lease::holder_of(OwnerKind::NodeVersion, &self.view.uid)
    }

    fn schedule(&self) -> Result<Schedule<'_>, String> {
        schedule(self.view, self.seen.observed)
    }

    fn begin(&self, node: &NodeView) -> Checked {
        let class = Sets::of(self.view, self.seen.observed).class_of(node);
        if !class.is_some_and(Class::is_behind) {
            return breach(3, format!("{} needs no other machine", node.name));
        }
        match quorum::refusal_of_change(self.seen.observed, node) {
            Some(why) => breach(10, why.message.to_string()),
            None => Ok(()),
        }
    }

    fn patch_node(&self, node: &NodeView, patch: &NodePatch) -> Checked {
        let name = &node.name;
        match patch.purpose {
            NodePurpose::Shield if self.seen.turn(node).is_none() => breach(1, format!("{name} has no turn")),
            NodePurpose::Shield => Ok(()),
            NodePurpose::Cordon => self.cordons(node),
            NodePurpose::Uncordon => self.uncordons(node, patch),
            NodePurpose::Replace if patch.unschedulable.is_none() => Ok(()),
            other => breach(4, format!("{name}: {other:?} is nothing to a NodeVersion")),
        }
    }

    fn evict(&self, node: &NodeView) -> Checked {
        match mark::cordoned_by(node) {
            Some(mark) if mark.owner == self.view.uid => Ok(()),
            _ => breach(
                1,
                format!("{} would be drained without a cordon of ours", node.name),
            ),
        }
    }

    fn drain_across(&self, node: &NodeView) -> Checked {
        self.cordons(node)
    }

    fn write_journal(&self, change: &ChangeView, step: Option<Step>) -> Checked {
        let is_release = step == Some(Step::Released) && journal::entered(change, Step::Released).is_none();
        if !is_release {
            return Ok(());
        }
        let node = here(
            self.seen.observed,
            &change.spec.node_name,
            Some(&change.spec.node_uid),
        )?;
        self.releases(node, change)
    }

    fn of_fleet(&self, action: &FleetAction) -> Checked {
        let observed = self.seen.observed;
        match action {
            FleetAction::CreatePendingNode { spec, turn, .. } if spec.goal == Some(Goal::Leave) => {
                let id = spec.provider_id.as_deref().unwrap_or_default();
                if !is_released_machine(observed, &self.view.uid, id) {
                    let turn = turn.as_deref().unwrap_or("no turn");
                    return breach(5, format!("{turn} has not released machine {id}"));
                }
                Ok(())
            }
            FleetAction::CreatePendingNode { spec, turn, .. } => {
                self.makes(turn.as_ref(), spec.group_id.as_deref().unwrap_or_default())
            }
            FleetAction::CreateMachine {
                pending, group_id, ..
            } => {
                let found = self.pending(pending);
                let is_meant = found.is_some_and(|one| {
                    !one.leaves() && one.provider_id().is_empty() && is_same(one.group_id(), group_id)
                });
                if is_meant {
                    return Ok(());
                }
                breach(5, format!("PendingNode {pending} asks for no machine"))
            }
            FleetAction::DeleteMachine { pending, provider_id } => self.deletes(pending, provider_id),
            FleetAction::DeleteNode { node, uid } => self.forgets_node(here(observed, node, Some(uid))?),
            FleetAction::RemoveEtcdMember { node, address, .. } => self.takes_member(node, address),
            FleetAction::WritePendingNode { .. }
            | FleetAction::WritePendingStatus { .. }
            | FleetAction::DeletePendingNode { .. }
            | FleetAction::SetGroupImage { .. }
            | FleetAction::WriteGroupStatus { .. }
            | FleetAction::CreateGroup { .. }
            | FleetAction::NameGroup { .. }
            | FleetAction::DeleteGroup { .. }
            | FleetAction::EnableAutoscaler { .. }
            | FleetAction::WriteStrategyStatus { .. }
            | FleetAction::SetAutoscaler { .. }
            | FleetAction::DeleteJoiningNode { .. } => Ok(()),
        }
    }
}
