//! What is judged of NodeVersions: which machines are made and deleted, and when. The judge reads the provider and the objects; it asks no
//! decision of the core.

use super::{Judge, Verdict, breach, fleet};
use crate::{
    reading::{has_turn, is_same},
    world::{Cloud, CloudMachine, GROUPS, TEAM, World, seconds},
};
use numo_api::{
    MutexSettings, NodeChangeStatus, Phase, Reason, Step,
    machines::{Goal, annotations},
};
use numo_core::{
    Owner, OwnerKind,
    action::{Action, FleetAction, NodePatch},
    observed::{Key, NodeVersionView, NodeView, Observed},
};
use std::collections::{BTreeMap, BTreeSet};

/// Label of control-plane nodes in these worlds.
const MASTER: &str = "node-role.kubernetes.io/master";

/// What the judge keeps of machines, by their ids.
#[derive(Debug, Default)]
pub(super) struct Machines {
    /// The machine of the old node and the uid of that, by the machine of the new one that takes its place.
    donors: BTreeMap<String, (String, String)>,
    /// Those whose nodes were let go by a turn.
    released: BTreeSet<String>,
    /// Those of the control plane that a turn has written down when it began.
    pinned: BTreeSet<String>,
}

fn version<'a>(seen: &'a Observed, owner: &Owner) -> Option<&'a NodeVersionView> {
    seen.fleet.versions.get(&owner.key.name)
}

fn image<'a>(seen: &'a Observed, owner: &Owner) -> &'a str {
    let view = version(seen, owner);
    view.and_then(|view| view.spec.image.as_deref())
        .unwrap_or_default()
}

/// The NodeVersion that has a group: the one that its ScalingGroup names, and nobody where that is gone; where it names none, the only one; of a
/// group without a ScalingGroup the first.
fn version_of<'a>(seen: &'a Observed, group: &str) -> Option<&'a NodeVersionView> {
    let versions = &seen.fleet.versions;
    let mut groups = seen.fleet.groups.values();
    let found = groups.find(|view| view.spec.group_id.as_deref().is_some_and(|id| is_same(id, group)));
    match found.map(|view| view.spec.node_image.as_deref()) {
        Some(Some(name)) => versions.get(name),
        Some(None) => versions.values().next().filter(|_| versions.len() == 1),
        None => versions.values().find(|view| !view.deleting),
    }
}

/// Whether the machines of a group, and nodes of it, are an owner's.
pub(super) fn has_group(seen: &Observed, owner: &Owner, group: &str) -> bool {
    version_of(seen, group).is_some_and(|view| view.name == owner.key.name)
}

/// Whether a node is one of the owner's.
pub(super) fn is_of(seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
    has_group(seen, owner, node.annotation(annotations::SCALING_GROUP_ID))
}

/// Whether the node of a NodeVersion surely is of another image than that asks for, on a machine that is known.
pub(super) fn is_outdated(seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
    let noted = node.annotation(annotations::NODE_IMAGE);
    let has_machine = seen
        .fleet
        .hosts
        .get(&node.name)
        .is_some_and(|host| !host.provider_id.is_empty());
    let is_noted = !noted.is_empty() && !node.annotation(annotations::SCALING_GROUP_ID).is_empty();
    has_machine && is_noted && !is_same(noted, image(seen, owner))
}

/// Whether a node comes before all waves, domains and nodes that go first: one of the control plane of a NodeVersion that asks for any.
pub(super) fn goes_before_waves(seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
    let asks = |one: &MutexSettings| one.waves.is_some() || one.first.is_some() || one.domains.is_some();
    owner.kind == OwnerKind::NodeVersion
        && node.labels.contains_key(MASTER)
        && is_of(seen, owner, node)
        && fleet::settings(seen, owner).any(asks)
}

/// The machine of a node that is there.
fn host<'a>(world: &'a World, node: &str) -> &'a str {
    let host = world.truth.fleet.hosts.get(node);
    host.map_or("", |host| host.provider_id.as_str())
}

/// The node whose machine it is.
fn node_of<'a>(known: &'a Observed, machine: &str) -> Option<&'a NodeView> {
    let mut hosts = known.fleet.hosts.iter();
    let (name, _) = hosts.find(|(_, host)| is_same(&host.provider_id, machine))?;
    known.nodes.get(name)
}

impl Judge {
    /// Whether a node that is to go does so before its wave and its domain: a turn that has let its machine go waits for it, or no other
    /// node has its turn, and those before it may wait for the place of its machine.
    pub(super) fn goes_out_of_order(&self, seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
        let machine = seen.fleet.hosts.get(&node.name).map(|host| &host.provider_id);
        owner.kind == OwnerKind::NodeVersion
            && node.annotation(annotations::OBSOLETE) == "true"
            && (machine.is_some_and(|machine| self.machines.released.contains(machine))
                || !self.turns.values().any(|turn| turn.owner == *owner))
    }

    /// What only a NodeVersion writes, or has the provider do.
    pub(super) fn after_machines(
        &mut self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        action: &FleetAction,
    ) -> Verdict {
        match action {
            FleetAction::CreateMachine {
                pending, group_id, ..
            } => self.may_make(world, seen, owner, (pending, group_id)),
            FleetAction::DeleteMachine { provider_id, .. } => {
                self.may_delete(world, seen, owner, provider_id)
            }
            FleetAction::DeleteNode { node, .. } => self.node_goes(world, seen, node),
            FleetAction::RemoveEtcdMember { node, address, .. } => {
                self.member_goes(world, seen, (node, address))
            }
            FleetAction::DeletePendingNode { name, .. } => not_leaked(world, seen, name),
            FleetAction::SetGroupImage { image: set, .. } if set != image(seen, owner) => breach(
                "target",
                format!("new machines get image {set}, which nobody asks for"),
            ),
            FleetAction::EnableAutoscaler { enabled: true, .. } => rests(seen),
            FleetAction::SetAutoscaler { replicas, .. } if replicas.1 > 0 => rests(seen),
            _ => Ok(()),
        }
    }

    /// A pair is noted, on either of the two: the new node takes the place of the old one.
    pub(super) fn note_pair(&mut self, world: &World, patch: &NodePatch) {
        for change in &patch.annotations {
            let (new, donor) = match (change.key.as_str(), &change.to) {
                (annotations::DONOR, Some(donor)) => (&patch.node, donor),
                // An old Node that has come again is noted once more.
                (annotations::HEIR, Some(heir)) => (heir, &patch.node),
                _ => continue,
            };
            let (new, old) = (host(world, new), host(world, donor));
            let uid = world.truth.nodes.get(donor).map(|node| node.uid.clone());
            let old = (old.to_owned(), uid.unwrap_or_default());
            self.machines.donors.insert(new.to_owned(), old);
        }
    }

    /// 2, 13, order, rests: a machine is made.
    fn may_make(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (pending, group): (&str, &str),
    ) -> Verdict {
        let Some(cloud) = &world.cloud else { return Ok(()) };
        let runs = seen.fleet.autoscalers.values().any(|one| one.replicas > 0);
        if runs {
            return breach(
                "rests",
                format!("a machine is made for {pending} while the autoscaler runs"),
            );
        }
        let Some(view) = version(seen, owner).filter(|view| !view.deleting) else {
            return breach("5", format!("a machine is made for {owner}, which goes"));
        };
        fleet::not_stopped_at_all(seen, owner, pending)?;
        let mut made = cloud.machines.values();
        if let Some(other) =
            made.find(|one| one.request == *pending && !is_same(&one.image, image(seen, owner)))
            && other.made == world.now
        {
            return breach("target", format!("a machine of image {} is made", other.image));
        }
        self.control_plane_first(world, seen, owner, group)?;
        if world.people.limits_edited || world.people.journals_deleted {
            return Ok(());
        }
        let surge = serde_json::to_value(&view.spec.surge).unwrap_or_default();
        let surge = if surge.is_null() {
            1
        } else {
            fleet::number(&surge, seen.nodes.len())
        };
        let beyond = self.beyond(world, cloud);
        let beyond = beyond.filter(|(_, one)| has_group(seen, owner, &one.group));
        let beyond: Vec<&String> = beyond.map(|(id, _)| id).collect();
        if beyond.len() > surge {
            return breach(
                "2",
                format!("machines {beyond:?} are beyond those that are replaced, spec.surge allows {surge}"),
            );
        }
        Ok(())
    }

    /// The machines that numo had made, and that nothing has gone for yet.
    fn beyond<'a>(
        &'a self,
        world: &'a World,
        cloud: &'a Cloud,
    ) -> impl Iterator<Item = (&'a String, &'a CloudMachine)> {
        // Once its Node is gone, which nobody let go, it has no place that could be taken, until the pair is made anew.
        let is_replaced = |(id, uid): &(String, String)| {
            let mut nodes = world.truth.nodes.values();
            cloud.machine(id).is_some_and(CloudMachine::is_alive) && nodes.any(|node| node.uid == *uid)
        };
        let made = cloud.machines.iter();
        let made = made.filter(|(_, one)| one.is_alive() && !one.request.is_empty());
        made.filter(move |(id, one)| {
            let donor = self.machines.donors.get(*id);
            let joined = world.truth.nodes.contains_key(&one.node);
            donor.map_or(!joined, is_replaced)
        })
    }

    /// Order: no machine for a worker while a node of the control plane is of another image, where one NodeVersion has both.
    #[allow(clippy::unused_self, reason = "the judge is asked, as for all else")]
    fn control_plane_first(&self, world: &World, seen: &Observed, owner: &Owner, group: &str) -> Verdict {
        let masters = GROUPS[0].0;
        if group == masters || world.people.journals_deleted || !has_group(seen, owner, masters) {
            return Ok(());
        }
        let wanted = image(seen, owner);
        let mut masters = seen
            .nodes
            .values()
            .filter(|node| node.labels.contains_key(MASTER));
        let behind = masters.find(|node| {
            let noted = node.annotation(annotations::NODE_IMAGE);
            !noted.is_empty() && !is_same(noted, wanted)
        });
        match behind {
            None => Ok(()),
            Some(node) => breach(
                "order",
                format!(
                    "a machine of {group} is made, and {} is not of image {wanted}",
                    node.name
                ),
            ),
        }
    }

    /// 1: a node of a NodeVersion is let go once its rules have passed, it is empty, and a new one that is Ready has its place.
    pub(super) fn lets_go(&mut self, world: &World, seen: &Observed, owner: &Owner, key: &Key) -> Verdict {
        let Some(change) = seen.changes.get(key) else {
            return Ok(());
        };
        let node = seen.nodes.get(&change.spec.node_name);
        let Some(node) = node.filter(|node| node.uid == change.spec.node_uid) else {
            return breach(
                "3",
                format!("{} is let go and does not exist", change.spec.node_name),
            );
        };
        // The Node may have gone since: it is the machine that the journal names.
        let host = seen.fleet.hosts.get(&node.name);
        let machine = host.map_or_else(String::new, |host| host.provider_id.clone());
        self.machines.released.insert(machine);
        self.may_disrupt(world, seen, owner, node)?;
        if world.people.journals_deleted {
            return Ok(());
        }
        let phases = [Phase::Pre, Phase::PreRelease];
        let rules = fleet::gating(seen, owner, &phases);
        self.rules_passed(world, seen, key, node, &rules)?;
        if !node.unschedulable {
            return breach("1", format!("{} is let go and not cordoned", node.name));
        }
        if node.ready {
            empty(world, seen, node)?;
        }
        if node.annotation(annotations::OBSOLETE) == "true" {
            return Ok(());
        }
        let heir = seen.nodes.get(node.annotation(annotations::HEIR));
        match heir {
            Some(heir) if heir.ready => Ok(()),
            Some(heir) => breach(
                "heir",
                format!("{} is let go, and {} is not Ready", node.name, heir.name),
            ),
            None => breach(
                "heir",
                format!("{} is let go, and no node has its place", node.name),
            ),
        }
    }

    /// 1, machine: only what was let go by a turn is deleted, or what never joined.
    fn may_delete(&self, world: &World, seen: &Observed, owner: &Owner, id: &str) -> Verdict {
        let Some(machine) = world.cloud.as_ref().and_then(|cloud| cloud.machine(id)) else {
            return breach("machine", format!("machine {id} is deleted, and nobody made it"));
        };
        // Truth is asked for what was so before the call: it only went on its way out.
        if machine.going.is_some_and(|at| at < world.now) {
            return Ok(());
        }
        if self.machines.released.contains(id) {
            return self.has_an_heir(world, seen, id);
        }
        if world.people.journals_deleted {
            return Ok(());
        }
        if machine.request.is_empty() {
            return breach(
                "machine",
                format!(
                    "machine {id} of {} is deleted, and {owner} let no such node go",
                    machine.node
                ),
            );
        }
        let node = node_of(seen, id).and_then(|_| node_of(&world.truth, id));
        match node {
            None => Ok(()),
            Some(node) => breach(
                "machine",
                format!("machine {id} is deleted, and {} runs on it", node.name),
            ),
        }
    }

    /// heir: the new node has what the old one had.
    fn has_an_heir(&self, world: &World, seen: &Observed, id: &str) -> Verdict {
        let Some(old) = node_of(seen, id) else {
            return Ok(());
        };
        let mut heirs = self
            .machines
            .donors
            .iter()
            .filter(|(_, (donor, _))| donor.as_str() == id);
        let is_obsolete = old.annotation(annotations::OBSOLETE) == "true";
        let Some((heir, _)) = heirs.next_back() else {
            return if is_obsolete || world.people.journals_deleted {
                Ok(())
            } else {
                breach("heir", format!("{} goes, and no node has its place", old.name))
            };
        };
        let Some(new) = node_of(&world.truth, heir) else {
            return Ok(());
        };
        if old.labels.contains_key(TEAM) && new.labels.get(TEAM) != old.labels.get(TEAM) {
            return breach("heir", format!("{} has not the labels of {}", new.name, old.name));
        }
        Ok(())
    }

    /// 10: a member of etcd is taken out of a node that was let go, whether it is there or not, and while no other one is away.
    fn member_goes(&self, world: &World, seen: &Observed, (node, address): (&str, &str)) -> Verdict {
        let Some(cloud) = &world.cloud else { return Ok(()) };
        let mut machines = cloud.machines.iter();
        let of_address = machines.find(|(_, one)| one.address == address);
        let is_released = of_address.is_some_and(|(id, one)| {
            let is_gone = !one.is_alive() && !world.truth.nodes.contains_key(&one.node);
            self.machines.released.contains(id) || is_gone && self.machines.pinned.contains(id)
        });
        if !is_released && !world.people.journals_deleted {
            return breach(
                "10",
                format!("member {address} of {node} goes, which was not let go"),
            );
        }
        // One whose machine is gone is away already, and etcd loses nothing with it.
        let runs = of_address.is_some_and(|(_, one)| one.is_alive());
        let masters = seen.nodes.values().filter(|_| runs);
        let mut masters = masters.filter(|node| node.labels.contains_key(MASTER));
        match masters.find(|other| other.name != node && (!other.ready || other.unschedulable)) {
            None => Ok(()),
            Some(other) => breach(
                "10",
                format!("the member of {node} goes, and {} is away", other.name),
            ),
        }
    }

    /// A turn writes down what its node may leave behind, and the new one.
    pub(super) fn note_pin(&mut self, status: &NodeChangeStatus) {
        let pin = status.pin.iter();
        let machines = pin.flat_map(|pin| [pin.provider_id.clone(), pin.heir_provider_id.clone()]);
        self.machines.pinned.extend(machines.flatten());
    }

    /// The end: no node that was let go, or that was gone with its machine in its turn, has left its member of etcd behind.
    pub fn no_member_left(&self, world: &World) -> Verdict {
        let Some(cloud) = world.cloud.as_ref().filter(|_| !world.people.journals_deleted) else {
            return Ok(());
        };
        let goes = cloud.machines.iter().filter(|(id, one)| {
            one.going.is_some_and(|going| {
                self.machines.released.contains(*id) || has_ended_since(world, id, going)
            })
        });
        let mut left = goes.filter(|(_, one)| cloud.members.contains(&one.address));
        match left.next() {
            None => Ok(()),
            Some((id, one)) => breach(
                "leak",
                format!(
                    "the member of etcd {} of machine {id} ({}) is left",
                    one.address, one.node
                ),
            ),
        }
    }

    /// machine: a Node goes after its machine, whose kubelet would make it anew.
    fn node_goes(&self, world: &World, seen: &Observed, name: &str) -> Verdict {
        let host = seen.fleet.hosts.get(name);
        let id = host.map_or("", |host| host.provider_id.as_str());
        let machine = world.cloud.as_ref().and_then(|cloud| cloud.machine(id));
        let is_alive = machine.is_some_and(CloudMachine::is_alive);
        if is_alive || !self.machines.released.contains(id) && !world.people.journals_deleted {
            return breach(
                "machine",
                format!("Node {name} is deleted, and its machine {id} runs"),
            );
        }
        Ok(())
    }
}

/// Whether the turn of the node of a machine ended, as that was gone, while the machine was on its way out already.
fn has_ended_since(world: &World, machine: &str, going: i64) -> bool {
    let mut changes = world.truth.changes.values();
    changes.any(|change| {
        let status = &change.status;
        let is_of = status
            .pin
            .as_ref()
            .is_some_and(|pin| pin.provider_id.as_deref() == Some(machine));
        let since = status
            .since
            .as_deref()
            .and_then(|at| at.parse().ok())
            .map(seconds);
        is_of && status.reason.as_deref() == Some(Reason::NodeGone.name()) && since >= Some(going)
    })
}

/// Nothing is left on the node that a drain takes.
fn empty(world: &World, seen: &Observed, node: &NodeView) -> Verdict {
    if world.people.uncordoned.contains(&node.name) {
        return Ok(());
    }
    let left = world.pods_to_go(&node.name);
    let known = |key: &Key, uid: &str| {
        let pods = seen.pods.get(&node.name);
        pods.and_then(|pods| pods.get(key))
            .is_some_and(|pod| pod.uid == uid)
    };
    match left.iter().find(|(key, uid)| known(key, uid)) {
        None => Ok(()),
        Some((pod, _)) => breach("1", format!("{} is let go, and {pod} is on it", node.name)),
    }
}

/// leak: what is forgotten is gone, or runs as a node.
fn not_leaked(world: &World, seen: &Observed, pending: &str) -> Verdict {
    let Some(before) = seen.fleet.pending.get(pending) else {
        return Ok(());
    };
    let Some(cloud) = &world.cloud else { return Ok(()) };
    let id = before.spec.provider_id.as_deref().unwrap_or_default();
    let mut machines = cloud.machines.iter();
    let left =
        machines.find(|(known, one)| one.is_alive() && (is_same(known, id) || one.request == before.name));
    match left {
        Some((id, one)) if !has_node(world, id) && !seen.nodes.contains_key(&one.node) => breach(
            "leak",
            format!(
                "PendingNode {pending} ({:?}) is forgotten, and machine {id} runs",
                before.spec.goal.unwrap_or(Goal::Join)
            ),
        ),
        _ => Ok(()),
    }
}

fn has_node(world: &World, machine: &str) -> bool {
    node_of(&world.truth, machine).is_some()
}

/// rests: no autoscaler runs while a node is replaced.
fn rests(seen: &Observed) -> Verdict {
    let of_versions = |uid: &str| seen.fleet.versions.values().any(|view| view.uid == uid);
    let mut changes = seen.changes.values();
    let turn = changes.find(|change| of_versions(&change.spec.owner_ref.uid) && has_turn(change));
    match (turn, seen.fleet.pending.keys().next()) {
        (Some(change), _) => breach(
            "rests",
            format!(
                "the autoscaler is started, and {} has its turn",
                change.spec.node_name
            ),
        ),
        (_, Some(pending)) => breach(
            "rests",
            format!("the autoscaler is started, and there is {pending}"),
        ),
        _ => Ok(()),
    }
}

/// Whether the journal says for the first time that the node is let go.
pub(super) fn is_released_machine(seen: &Observed, owner: &Owner, key: &Key, step: Option<Step>) -> bool {
    let before = seen.changes.get(key).and_then(|change| change.status.step);
    owner.kind == OwnerKind::NodeVersion && step == Some(Step::Released) && before != step
}

/// The end: each machine runs a node, of the image that is asked for, and nobody rests.
pub fn nothing_leaked(world: &World) -> Verdict {
    let Some(cloud) = &world.cloud else { return Ok(()) };
    let fleet = &world.truth.fleet;
    for (id, machine) in cloud.machines.iter().filter(|(_, one)| one.is_alive()) {
        if !has_node(world, id) {
            return breach("leak", format!("machine {id} ({}) runs no node", machine.request));
        }
    }
    if let Some(pending) = fleet.pending.values().next() {
        return breach(
            "leak",
            format!("PendingNode {} is left: {:?}", pending.name, pending.spec),
        );
    }
    for name in world.truth.nodes.keys() {
        let machine = cloud.machine(host(world, name));
        let group = machine.map_or("", |one| one.group.as_str());
        let wanted = version_of(&world.truth, group).filter(|view| !view.deleting);
        let Some(asked) = wanted.and_then(|view| view.spec.image.as_deref()) else {
            continue;
        };
        let image = machine.map_or("", |one| one.image.as_str());
        if !is_same(image, asked) {
            return breach(
                "target",
                format!("{name} has image {image:?} in the end, wanted {asked:?}"),
            );
        }
    }
    let rests = fleet.autoscalers.values().any(|one| one.replicas == 0);
    if rests || fleet.strategies.values().any(|one| !one.spec.enabled) {
        return breach("rests", "the autoscaler is not started again");
    }
    match fleet.versions.values().find(|view| !view.finalizers.is_empty()) {
        Some(view) => breach("4", format!("the finalizer of NodeVersion {} is left", view.name)),
        None => Ok(()),
    }
}

/// Whether an action is of machines.
pub(super) fn of_machines(action: &Action) -> Option<&FleetAction> {
    match action {
        Action::Fleet(action) => Some(action),
        _ => None,
    }
}
