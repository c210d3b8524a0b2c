//! The provider of machines: it makes and deletes them, takes its time for both, is behind with what it says, refuses, and makes some that
//! never boot. A machine that boots joins with a Node. What there is at the provider is never lost sight of here.

use super::{Event, Object, Span, World};
use crate::reading::is_same;
use jiff::Timestamp;
use numo_api::{machines::CspState, marks::openshift};
use numo_core::{
    action::{Action, FleetAction, FleetQuestion},
    observed::{GroupFacts, Heard, HostView, MachineFacts, MadeMachine, ProviderView},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::collections::{BTreeMap, BTreeSet};

/// Label of control-plane nodes in these worlds.
const MASTER: &str = "node-role.kubernetes.io/master";
/// The groups of machines, as the provider names them, each with the name for people.
pub const GROUPS: [(&str, &str); 2] = [("G-masters", "masters"), ("G-workers", "workers")];
/// An image of which no machine ever boots.
pub const NEVER_BOOTS: &str = "img-broken";
/// The image that people ask for instead of it.
pub const BOOTS: &str = "img-mended";
/// Label that the first nodes of a group have, and new ones get from those whose place they take.
pub const TEAM: &str = "team";
/// What is to come about a machine that was made an hour ago is late.
const LONG: i64 = 3600;

/// How long things take at the provider (seconds), and how often they go wrong.
#[derive(Clone, Copy, Debug)]
pub struct CloudKnobs {
    /// Until a machine is up.
    pub boot: Span,
    /// Until a machine is gone.
    pub going: Span,
    /// Until its Node is Ready.
    pub ready: Span,
    /// For so long it says what was so before a machine was made or deleted (seconds).
    pub lag: i64,
    /// Of a hundred machines, how many never boot.
    pub duds: u32,
    /// Of a hundred calls, how many are refused.
    pub refusals: u32,
    /// Whether to make a machine takes a second call.
    pub is_slow: bool,
}

/// A machine at the provider.
#[derive(Clone, Debug)]
pub struct CloudMachine {
    /// Its group.
    pub group: String,
    /// Its image.
    pub image: String,
    /// Name of its Node.
    pub node: String,
    /// What asked for it; empty for one that numo did not ask for.
    pub request: String,
    /// When it was made (seconds since the beginning).
    pub made: i64,
    /// Since when it is on its way out.
    pub going: Option<i64>,
    /// Whether it ever boots, and else whether that is said of it.
    boots: Result<i64, bool>,
    /// When it is gone, once it is on its way out.
    gone: i64,
    /// Its address, which is that of its member of etcd.
    pub address: String,
}

/// The provider.
#[derive(Debug)]
pub struct Cloud {
    /// All machines that there ever were, by their ids.
    pub machines: BTreeMap<String, CloudMachine>,
    /// The images that new machines of groups get.
    pub images: BTreeMap<String, String>,
    /// How long things take.
    pub knobs: CloudKnobs,
    /// Calls that make or delete, and were heard.
    pub calls: usize,
    /// How often another image was asked for.
    pub asked: usize,
    /// Members of etcd, by the addresses of their machines: those of the control plane that have joined, until they are taken out.
    pub members: BTreeSet<String>,
    /// Groups that it knows no more.
    pub lost: BTreeSet<String>,
    begun: BTreeSet<String>,
    made: usize,
    rng: SmallRng,
    kubelet: String,
}

impl CloudMachine {
    /// Whether it is there and stays.
    pub const fn is_alive(&self) -> bool {
        self.going.is_none()
    }

    /// Whether a member of etcd runs on it.
    fn is_member(&self) -> bool {
        self.group == GROUPS[0].0
    }

    fn state(&self, now: i64, lag: i64) -> CspState {
        let is_new = !self.request.is_empty() && self.made + lag > now;
        let up = match self.boots {
            Ok(at) if at <= now => CspState::Ready,
            Err(true) => CspState::Failed,
            _ => CspState::Creating,
        };
        match self.going {
            _ if is_new => CspState::Terminated,
            Some(at) if at + lag > now => up,
            Some(_) if self.gone <= now => CspState::Terminated,
            Some(_) => CspState::Terminating,
            None => up,
        }
    }
}

impl Cloud {
    fn pick(&mut self, (from, to): Span) -> i64 {
        if from >= to {
            from
        } else {
            self.rng.random_range(from..=to)
        }
    }

    fn chance(&mut self, of_hundred: u32) -> bool {
        of_hundred > 0 && self.rng.random_range(0..100) < of_hundred
    }

    /// Whether the provider has no time for this call.
    pub(super) fn refuses(&mut self) -> bool {
        self.chance(self.knobs.refusals)
    }

    /// Whether the request takes a second call.
    pub(super) fn takes_long(&mut self, request: &str) -> bool {
        self.knobs.is_slow && self.begun.insert(request.to_owned())
    }

    /// The living machine of a node.
    pub fn machine_of(&self, node: &str) -> Option<(&String, &CloudMachine)> {
        let mut machines = self.machines.iter();
        machines.find(|(_, one)| one.node == node && one.is_alive())
    }

    /// The machine with this id.
    pub fn machine(&self, id: &str) -> Option<&CloudMachine> {
        let mut machines = self.machines.iter();
        machines.find(|(known, _)| is_same(known, id)).map(|(_, one)| one)
    }

    /// How many machines there are beyond those that numo did not ask for, gone or not: each of its own stands for one of them.
    pub fn machines_more(&self) -> usize {
        let more = GROUPS.map(|(id, _)| {
            let of_group = || self.machines.values().filter(|one| one.group == id);
            let alive = of_group().filter(|one| one.is_alive()).count();
            alive.saturating_sub(of_group().filter(|one| one.request.is_empty()).count())
        });
        more.into_iter().sum()
    }

    /// Whether something comes by itself: a machine boots or goes.
    pub fn is_at_work(&self, now: i64) -> bool {
        let mut machines = self.machines.values();
        machines.any(|one| match (one.going, one.boots) {
            (Some(_), _) => one.gone + LONG / 6 > now,
            (None, Ok(at)) => at + LONG / 6 > now,
            (None, Err(_)) => one.made + LONG > now,
        })
    }

    fn make(&mut self, group: &str, node: Option<&str>, request: &str, now: i64) -> String {
        self.made += 1;
        let short = group.trim_start_matches("G-");
        let node = node.map_or_else(|| format!("{short}-{}", self.made), str::to_owned);
        let id = format!("m-{node}-{}", self.made);
        let is_asked = !request.is_empty();
        let image = self.images.get(group).cloned().unwrap_or_default();
        let boots = if is_asked && (self.chance(self.knobs.duds) || image == NEVER_BOOTS) {
            Err(self.chance(30))
        } else if is_asked {
            Ok(now + self.pick(self.knobs.boot))
        } else {
            Ok(now)
        };
        let machine = CloudMachine {
            group: group.to_owned(),
            image,
            node,
            request: request.to_owned(),
            made: now,
            going: None,
            boots,
            gone: 0,
            address: format!("10.0.{}.{}", self.made / 250, self.made % 250),
        };
        if machine.is_member() && !is_asked {
            self.members.insert(machine.address.clone());
        }
        self.machines.insert(id.clone(), machine);
        id
    }

    fn says(&mut self, question: &FleetQuestion, (at, now): (Timestamp, i64), provider: &mut ProviderView) {
        let words = self.refuses().then(|| "503: try again".to_owned());
        let lag = self.knobs.lag;
        let said = || words.clone().map_or(Ok(()), Err);
        match question {
            FleetQuestion::Facts { provider_id } => {
                let machine = self.machine(provider_id).filter(|one| one.is_alive());
                let found = machine.map(|one| MachineFacts {
                    image: one.image.clone(),
                    group_id: one.group.clone(),
                });
                let said = said().and_then(|()| found.ok_or_else(|| "404: no such machine".to_owned()));
                let heard = Heard { at, said };
                provider.hear_facts(provider_id, heard);
            }
            FleetQuestion::State { provider_id } => {
                let machine = self.machine(provider_id);
                let state = machine.map_or(CspState::Terminated, |one| one.state(now, lag));
                let said = said().map(|()| state);
                let heard = Heard { at, said };
                provider.states.insert(provider_id.to_lowercase(), heard);
            }
            FleetQuestion::GroupImage { group_id } => {
                let mut images = self.images.iter();
                let image = images.find(|(id, _)| is_same(id, group_id) && !self.lost.contains(*id));
                let image = image.map(|(_, image)| image.clone());
                let said = said().and_then(|()| image.ok_or_else(|| "404: no such group".to_owned()));
                let heard = Heard { at, said };
                provider.images.insert(group_id.to_lowercase(), heard);
            }
            FleetQuestion::Groups => {
                let known = GROUPS.into_iter().filter(|(id, _)| !self.lost.contains(*id));
                let said = said().map(|()| known.map(|(id, name)| facts(id, name)).collect());
                provider.groups = Some(Heard { at, said });
            }
            FleetQuestion::Find { request, .. } => {
                let mut machines = self.machines.iter();
                let found = machines.find(|(_, one)| one.request == *request && one.made + lag <= now);
                let found = found.map(|(id, one)| MadeMachine {
                    node: one.node.clone(),
                    provider_id: id.clone(),
                });
                let said = said().map(|()| found);
                provider.found.insert(request.clone(), Heard { at, said });
            }
        }
    }
}

fn facts(id: &str, name: &str) -> GroupFacts {
    GroupFacts {
        name: name.to_owned(),
        node_group_name: name.to_owned(),
        group_id: id.to_owned(),
        autoscaler_group_name: format!("asg-{name}"),
        is_control_plane: name == "masters",
    }
}

impl World {
    /// From now on every node has a machine at a provider, of this image and with a kubelet of this version.
    pub fn open_cloud(&mut self, seed: u64, knobs: CloudKnobs, image: &str, kubelet: &str) {
        let images = GROUPS.map(|(id, _)| (id.to_owned(), image.to_owned()));
        self.cloud = Some(Cloud {
            machines: BTreeMap::new(),
            images: images.into(),
            knobs,
            calls: 0,
            asked: 0,
            members: BTreeSet::new(),
            lost: BTreeSet::new(),
            begun: BTreeSet::new(),
            made: 0,
            rng: SmallRng::seed_from_u64(seed ^ 0x0063_6c6f_7564),
            kubelet: kubelet.to_owned(),
        });
        let names: Vec<String> = self.truth.nodes.keys().cloned().collect();
        for name in names {
            if let Some(node) = self.truth.nodes.get_mut(&name) {
                let is_master = node.labels.contains_key(MASTER);
                let team = if is_master { GROUPS[0].1 } else { GROUPS[1].1 };
                node.labels.insert(TEAM.to_owned(), team.to_owned());
            }
            self.host(&name);
        }
    }

    /// What a Node that is there says of its machine. One that nobody asked for has one all the same.
    pub(super) fn host(&mut self, name: &str) {
        let now = self.now;
        let Some(node) = self.truth.nodes.get_mut(name) else {
            return;
        };
        let Some(cloud) = &mut self.cloud else { return };
        if node.kubelet_version.is_empty() {
            (node.kubelet_version, node.boot_id) = (cloud.kubelet.clone(), "boot".to_owned());
        }
        let group = GROUPS[usize::from(!node.labels.contains_key(MASTER))].0;
        let known = cloud.machine_of(name).map(|(id, _)| id.clone());
        let id = known.unwrap_or_else(|| cloud.make(group, Some(name), "", now));
        let address = cloud.machines.get(&id).map(|one| one.address.clone());
        let host = HostView {
            provider_id: id,
            address: address.unwrap_or_default(),
        };
        self.truth.fleet.hosts.insert(name.to_owned(), host);
    }

    /// What the provider says to a question.
    pub fn provider_says(&mut self, question: &FleetQuestion, provider: &mut ProviderView) {
        let when = (self.time(), self.now);
        if let Some(cloud) = &mut self.cloud {
            cloud.says(question, when, provider);
        }
    }

    /// The machine of a request, which is made unless it is there.
    pub(super) fn make_machine(&mut self, request: &str, group: &str) -> Option<(String, String)> {
        let now = self.now;
        let cloud = self.cloud.as_mut()?;
        let mut known = cloud.machines.iter();
        if let Some((id, one)) = known.find(|(_, one)| one.request == request) {
            return Some((id.clone(), one.node.clone()));
        }
        cloud.calls += 1;
        let id = cloud.make(group, None, request, now);
        let machine = cloud.machines.get(&id)?;
        let (node, boots) = (machine.node.clone(), machine.boots);
        self.tell("provider", || format!("makes machine {id} for {request}"));
        if let Ok(at) = boots {
            self.plan(at - now, Event::Boots(id.clone()));
        }
        Some((id, node))
    }

    /// A machine is on its way out.
    pub(super) fn delete_machine(&mut self, id: &str) {
        let now = self.now;
        let Some(cloud) = &mut self.cloud else { return };
        let takes = cloud.pick(cloud.knobs.going);
        let mut machines = cloud.machines.iter_mut();
        let found = machines.find(|(known, _)| is_same(known, id));
        let Some((id, machine)) = found.filter(|(_, one)| one.is_alive()) else {
            return;
        };
        (machine.going, machine.gone) = (Some(now), now + takes);
        cloud.calls += 1;
        let id = id.clone();
        self.tell("provider", || format!("deletes machine {id}"));
        self.plan(takes, Event::Goes(id));
    }

    /// A machine is up: its Node joins, and is Ready after a while.
    pub(super) fn machine_boots(&mut self, id: &str) {
        let Some(cloud) = &mut self.cloud else { return };
        let Some(machine) = cloud.machines.get(id).filter(|one| one.is_alive()).cloned() else {
            return;
        };
        if self.truth.nodes.contains_key(&machine.node) {
            return;
        }
        let ready = cloud.pick(cloud.knobs.ready);
        let is_master = machine.is_member();
        if is_master {
            cloud.members.insert(machine.address.clone());
        }
        let role = if is_master { "master" } else { "worker" };
        let config = self.served(role);
        let mut like = self.truth.nodes.values();
        let like = like.find(|node| node.labels.contains_key(MASTER) == is_master);
        let zone = like.and_then(|node| node.labels.get(openshift::ZONE)).cloned();
        let mut node = self.new_node(&machine.node, role, zone.as_deref(), &config);
        node.ready = false;
        node.not_ready_since = Some(self.time());
        let name = machine.node;
        self.tell("cluster", || format!("node {name} joins"));
        self.add_node(node);
        self.plan(ready, Event::IsReady(name));
    }

    /// The Node of a new machine is Ready.
    pub(super) fn node_is_ready(&mut self, name: &str) {
        if !self.people.sick.contains(name) {
            self.edit_node(name, |node| (node.ready, node.not_ready_since) = (true, None));
        }
    }

    /// A machine is gone: its kubelet says nothing any more.
    pub(super) fn machine_goes(&mut self, id: &str) {
        let hosts = self.truth.fleet.hosts.iter();
        let node = hosts.into_iter().find(|(_, host)| host.provider_id == id);
        let Some(name) = node.map(|(name, _)| name.clone()) else {
            return;
        };
        let now = Some(self.time());
        self.edit_node(&name, |node| (node.ready, node.not_ready_since) = (false, now));
    }

    /// Somebody deletes a node together with its machine.
    pub(super) fn delete_machine_of(&mut self, node: &str) {
        let cloud = self.cloud.as_ref();
        let id = cloud
            .and_then(|cloud| cloud.machine_of(node))
            .map(|(id, _)| id.clone());
        if let Some(id) = id {
            self.delete_machine(&id);
        }
    }

    /// The provider hears of a write of an operator that dies before it could write anything down.
    pub fn provider_hears(&mut self, action: &Action) {
        match action {
            Action::Fleet(FleetAction::CreateMachine {
                pending, group_id, ..
            }) => {
                self.make_machine(pending, group_id);
            }
            Action::Fleet(FleetAction::DeleteMachine { provider_id, .. }) => self.delete_machine(provider_id),
            _ => {}
        }
    }

    /// A NodeVersion has changed.
    pub(super) fn touch_version(&mut self, name: &str) {
        self.touch(Object::Version(name.to_owned()));
    }
}
