//! Whole rolls of machines on a virtual clock: the decisions are carried out on a small cluster and a provider, which can both be broken
//! off between any two writes, refuse, forget, and never boot what they made. What would hurt a user is checked after every write.

use crate::{
    cluster::{Cluster, NAMESPACE, now as beginning},
    other_operator,
    replaced::{UID, group_id, state},
};
use jiff::{SignedDuration, Timestamp};
use numo_api::{
    NodeChangeStatus, Reason, Step,
    machines::{CspState, Goal, PendingNodeSpec, annotations},
    marks,
};
use numo_core::{
    Decision, Owner, Snapshot,
    action::{Action, Change, FleetAction, FleetQuestion, NodePatch},
    decide, invariant,
    observed::{
        ChangeView, GroupFacts, Heard, HostView, Key, LeaseView, MachineFacts, MadeMachine, Map, NodeView,
        Observed, PendingNodeView, PodView, Told, is_same,
    },
    report::Report,
    verdict::{Answers, Question},
};
use std::collections::{BTreeMap, BTreeSet};

/// How long a machine takes to boot (seconds).
const BOOT_SECONDS: i64 = 90;
/// How long a machine takes to go (seconds).
const GOING_SECONDS: i64 = 20;
/// Passes after which a roll that is not over is taken to be stuck.
const MOST_PASSES: usize = 60_000;
/// Rounds of one pass, as the shell has it: one that needs them all does something again and again.
const MOST_ROUNDS: usize = 200;

/// Numbers that look like chance, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}

/// A machine at the provider.
#[derive(Clone, Debug)]
struct Machine {
    group: String,
    image: String,
    node: String,
    /// What asked for it; empty for those that were there.
    request: String,
    made: Timestamp,
    boots: bool,
    going: Option<Timestamp>,
}

/// How the world is out of joint.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    /// The operator dies in one of so many writes; 0 is never.
    crashes: u64,
    /// One of so many machines does not boot; 0 is none.
    duds: u64,
    /// The provider refuses one of so many calls; 0 is none.
    refusals: u64,
    /// Making a machine takes one call more.
    slow: bool,
    /// Somebody starts the autoscaler in one of so many passes.
    fights: u64,
    /// How long a call takes (seconds); others are under way meanwhile.
    takes: i64,
    /// For so long the provider says what was so before a machine was made or deleted (seconds).
    lags: i64,
}

/// How a round ended.
enum Round {
    /// Something was done or asked.
    Acted,
    /// There was nothing left to do; when numo wants to look again.
    Idle(Option<Timestamp>),
    /// The operator died.
    Died,
}

struct World {
    now: Timestamp,
    observed: Observed,
    machines: BTreeMap<String, Machine>,
    group_images: BTreeMap<String, String>,
    /// Requests whose answer takes a while.
    begun: BTreeSet<String>,
    /// Calls that are under way: when they are answered, what they are about, and which machine is made.
    under_way: Vec<(Timestamp, String, Option<MadeMachine>)>,
    trouble: Trouble,
    chance: Chance,
    made: usize,
    /// Most machines that may be alive at once.
    most: usize,
    /// Calls of the provider that make or delete.
    calls: usize,
    report: Report,
    /// Whether numo wants to look again at some time.
    wakes: bool,
    /// Nodes whose pods were all gone when their Node went.
    deleted: Vec<String>,
}

fn owner() -> Owner {
    Owner::node_version(crate::replaced::NAME)
}

fn lay(map: &mut Map, changes: &[Change]) -> bool {
    if !changes
        .iter()
        .all(|change| map.get(&change.key) == change.from.as_ref())
    {
        return false;
    }
    for change in changes {
        match &change.to {
            Some(value) => map.insert(change.key.clone(), value.clone()),
            None => map.remove(&change.key),
        };
    }
    true
}

impl World {
    /// Groups with so many nodes each, all of image `img1`; a group named `cp` runs the control plane.
    fn new(groups: &[(&str, usize)], spec: &str, trouble: Trouble) -> Self {
        let mut lines = Vec::new();
        for (group, count) in groups {
            let pool = if *group == "cp" { "master" } else { "worker" };
            for number in 0..*count {
                let name = format!("{group}{number:03}");
                lines.push(format!("node {name} {pool} v0 label:team={group}"));
            }
        }
        lines.push(format!("version img2 spec {spec}"));
        for (group, count) in groups {
            for number in 0..*count {
                lines.push(format!("host {group}{number:03} - bare"));
            }
            let role = if *group == "cp" {
                "role:ControlPlane"
            } else {
                "autoscaling min:1 max:9"
            };
            lines.push(format!("group {group} {role}"));
        }
        lines.push("strategy on".to_owned());
        let cluster = Cluster::parse(&lines.join("\n"));
        let mut world = Self {
            now: beginning(),
            observed: cluster.observed,
            machines: BTreeMap::new(),
            group_images: BTreeMap::new(),
            begun: BTreeSet::new(),
            under_way: Vec::new(),
            trouble,
            chance: Chance(7),
            made: 0,
            most: usize::MAX,
            calls: 0,
            report: Report::default(),
            wakes: true,
            deleted: Vec::new(),
        };
        for (group, _) in groups {
            world.group_images.insert(group_id(group), "img1".to_owned());
        }
        for name in world.observed.nodes.keys().cloned().collect::<Vec<_>>() {
            let machine = Machine {
                group: group_id(&name[..name.len() - 3]),
                image: "img1".to_owned(),
                node: name.clone(),
                request: String::new(),
                made: world.now,
                boots: true,
                going: None,
            };
            world.machines.insert(format!("m-{name}"), machine);
            world.add_pod(&name);
        }
        world
    }

    fn add_pod(&mut self, node: &str) {
        let key = Key::new("shop", format!("web-{node}"));
        let pod = PodView {
            uid: format!("pod-{node}"),
            created: self.now,
            labels: Map::new(),
            controller: Some(("ReplicaSet".to_owned(), "web".to_owned(), "uid-web".to_owned())),
            mirror: false,
            finished: false,
            pending: false,
            ready: true,
            disrupted: false,
            deleting: None,
            empty_dir: false,
            claims: Vec::new(),
            priority: 0,
            key: key.clone(),
        };
        self.observed
            .pods
            .entry(node.to_owned())
            .or_default()
            .insert(key, pod);
    }

    fn alive(&self) -> usize {
        let machines = self.machines.values();
        machines.filter(|machine| machine.going.is_none()).count()
    }

    fn decide(&self) -> Decision {
        let owner = owner();
        let snapshot = Snapshot {
            now: self.now,
            observed: &self.observed,
            owner: &owner,
            asked: None,
        };
        let mut decision = decide(&snapshot, &Answers::default());
        let breaches = invariant::lint(&snapshot, &mut decision);
        assert!(breaches.is_empty(), "{breaches:#?}");
        decision
    }

    /// One pass, as the shell has it: rounds at one moment until nothing is left to do. Whether anything was done or asked; if nothing was,
    /// the clock goes on to when numo wants to look again.
    fn pass(&mut self) -> bool {
        let mut broken = BTreeSet::new();
        for round in 0..MOST_ROUNDS {
            match self.round(&mut broken) {
                Round::Acted => {}
                Round::Died => return true,
                Round::Idle(wake_at) => {
                    if let Some(at) = wake_at.filter(|_| round == 0) {
                        let soon = self.now + SignedDuration::from_secs(30);
                        self.now = at.max(self.now).min(soon);
                    }
                    self.wakes = wake_at.is_some();
                    return round > 0;
                }
            }
        }
        panic!(
            "it is never done at {}, {} calls: {:#?}",
            self.now,
            self.calls,
            self.decide().actions
        );
    }

    /// One round of a pass; chains in which a write failed wait for the next one.
    fn round(&mut self, broken: &mut BTreeSet<String>) -> Round {
        let decision = self.decide();
        self.report = decision.report;
        let mut any = !decision.questions.is_empty();
        for question in decision.questions {
            match question {
                Question::Fleet(question) => self.answer(question),
                other => panic!("{other:?} is nothing to this world"),
            }
        }
        for planned in decision.actions {
            if broken.contains(&planned.chain) {
                continue;
            }
            any = true;
            if self.trouble.crashes > 0 && self.chance.below(self.trouble.crashes) == 0 {
                self.die_in(&planned.action);
                return Round::Died;
            }
            if !self.apply(planned.action) {
                broken.insert(planned.chain);
            }
            self.judge();
        }
        if any {
            Round::Acted
        } else {
            Round::Idle(decision.wake_at)
        }
    }

    /// The operator dies; the provider may have heard of it all the same. What it said is remembered by nobody.
    fn die_in(&mut self, action: &Action) {
        if let Action::Fleet(FleetAction::CreateMachine {
            pending, group_id, ..
        }) = action
        {
            let _ = self.create(pending, group_id);
        }
        self.under_way.clear();
        let provider = &mut self.observed.fleet.provider;
        provider.found.clear();
        provider.states.clear();
        provider.told.clear();
        provider.did.clear();
    }

    fn is_over(&self) -> bool {
        let version = self.report.node_version.as_ref();
        let idle = version.is_some_and(|said| !said.is_outdated);
        idle && self.observed.changes.values().all(|change| !change.in_flight())
    }

    /// Lets it roll to its end, or to where only a person could go on.
    fn roll(&mut self) {
        for _ in 0..MOST_PASSES {
            let any = self.pass();
            if self.trouble.fights > 0 && self.chance.below(self.trouble.fights) == 0 {
                let mut all = self.observed.fleet.autoscalers.values_mut();
                if let Some(one) = all.next() {
                    one.replicas = 1;
                }
            }
            let ends = self.is_over() || self.is_wedged() || !self.wakes;
            if ends && !any {
                return;
            }
            self.tick();
        }
        panic!("it never ends: {:#?}", self.report.nodes);
    }

    fn is_wedged(&self) -> bool {
        let pending = self.observed.fleet.pending.len();
        pending == 0
            && self
                .report
                .wedged()
                .is_some_and(|(_, node)| node.step == Step::Held)
    }

    /// A second goes by: machines boot and go.
    fn tick(&mut self) {
        self.now += SignedDuration::from_secs(1);
        if !self.observed.foreign_controllers.is_empty() {
            other_operator::act(&mut self.observed, self.now);
        }
        for (at, what, made) in std::mem::take(&mut self.under_way) {
            if at <= self.now {
                self.answered(&what, made);
            } else {
                self.under_way.push((at, what, made));
            }
        }
        let booted = |machine: &Machine, now: Timestamp| {
            let up = machine.made + SignedDuration::from_secs(BOOT_SECONDS) <= now;
            machine.boots && machine.going.is_none() && up
        };
        let all: Vec<(String, Machine)> = self
            .machines
            .iter()
            .map(|(id, one)| (id.clone(), one.clone()))
            .collect();
        for (id, machine) in all {
            if machine.request.is_empty() || self.observed.nodes.contains_key(&machine.node) {
                continue;
            }
            if booted(&machine, self.now) {
                self.join(&id, &machine);
            }
        }
    }

    fn join(&mut self, id: &str, machine: &Machine) {
        let like = self.observed.nodes.values().find(|node| {
            let own = numo_core::quorum::is_control_plane(node);
            own == (machine.group == group_id("cp"))
        });
        let Some(like) = like else { return };
        let node = NodeView {
            name: machine.node.clone(),
            uid: format!("uid-{}", machine.node),
            created: self.now,
            labels: like
                .labels
                .iter()
                .filter(|(key, _)| key.contains("kubernetes.io/") && !key.contains("medik8s"))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            annotations: Map::new().into(),
            unschedulable: false,
            ready: true,
            not_ready_since: None,
            leaving: None,
            ..like.clone()
        };
        let host = HostView {
            provider_id: id.to_owned(),
            address: "192.0.2.9".to_owned(),
        };
        self.observed.nodes.insert(node.name.clone(), node);
        self.observed.fleet.hosts.insert(machine.node.clone(), host);
        self.observed.pods.entry(machine.node.clone()).or_default();
    }

    fn refuses(&mut self) -> bool {
        self.trouble.refusals > 0 && self.chance.below(self.trouble.refusals) == 0
    }

    fn answer(&mut self, question: FleetQuestion) {
        let at = self.now;
        let refused = self.refuses();
        let lags = self.trouble.lags;
        let said = |fine: bool| {
            if fine && !refused {
                Ok(())
            } else {
                Err("503".to_owned())
            }
        };
        let provider = &mut self.observed.fleet.provider;
        match question {
            FleetQuestion::Facts { provider_id } => {
                let machine = self.machines.get(&provider_id);
                let facts = said(machine.is_some()).map(|()| MachineFacts {
                    image: machine.map(|one| one.image.clone()).unwrap_or_default(),
                    group_id: machine.map(|one| one.group.clone()).unwrap_or_default(),
                });
                provider.hear_facts(&provider_id, Heard { at, said: facts });
            }
            FleetQuestion::State { provider_id } => {
                let found = self
                    .machines
                    .get(&provider_id)
                    .filter(|one| one.request.is_empty() || one.made + SignedDuration::from_secs(lags) <= at)
                    .map_or(CspState::Terminated, |one| {
                        let booted = one.made + SignedDuration::from_secs(BOOT_SECONDS) <= at;
                        match one.going {
                            Some(going) if going + SignedDuration::from_secs(lags) > at => state("Ready"),
                            Some(going) if going + SignedDuration::from_secs(GOING_SECONDS) <= at => {
                                CspState::Terminated
                            }
                            Some(_) => CspState::Terminating,
                            None if one.request.is_empty() || booted => state("Ready"),
                            None => CspState::Creating,
                        }
                    });
                let heard = Heard {
                    at,
                    said: said(true).map(|()| found),
                };
                provider.states.insert(provider_id, heard);
            }
            FleetQuestion::GroupImage { group_id } => {
                let image = self.group_images.get(&group_id).cloned().unwrap_or_default();
                let heard = Heard {
                    at,
                    said: said(true).map(|()| image),
                };
                provider.images.insert(group_id.to_lowercase(), heard);
            }
            FleetQuestion::Groups => {
                let groups = self.group_images.keys().map(|id| GroupFacts {
                    name: id.trim_start_matches("G-").to_owned(),
                    node_group_name: id.trim_start_matches("G-").to_owned(),
                    group_id: id.clone(),
                    autoscaler_group_name: format!("asg-{}", id.trim_start_matches("G-")),
                    is_control_plane: *id == group_id("cp"),
                });
                let groups = groups.collect();
                provider.groups = Some(Heard {
                    at,
                    said: said(true).map(|()| groups),
                });
            }
            FleetQuestion::Find { request, .. } => {
                let mut machines = self.machines.iter();
                let found = machines.find(|(_, one)| {
                    one.request == request && one.made + SignedDuration::from_secs(lags) <= at
                });
                let found = found.map(|(id, one)| MadeMachine {
                    node: one.node.clone(),
                    provider_id: id.clone(),
                });
                let heard = Heard {
                    at,
                    said: said(true).map(|()| found),
                };
                provider.found.insert(request, heard);
            }
        }
    }

    /// Makes a machine, or finds the one that was made for the request.
    fn create(&mut self, request: &str, group: &str) -> (String, String) {
        let mut machines = self.machines.iter();
        if let Some((id, one)) = machines.find(|(_, one)| one.request == request) {
            return (id.clone(), one.node.clone());
        }
        self.made += 1;
        self.calls += 1;
        let node = format!("{}-new{:03}", group.trim_start_matches("G-"), self.made);
        let id = format!("m-{node}");
        let boots = self.trouble.duds == 0 || self.chance.below(self.trouble.duds) != 0;
        let machine = Machine {
            group: group.to_owned(),
            image: self.group_images.get(group).cloned().unwrap_or_default(),
            node: node.clone(),
            request: request.to_owned(),
            made: self.now,
            boots,
            going: None,
        };
        self.machines.insert(id.clone(), machine);
        (id, node)
    }

    fn tell_later(&mut self, what: &str, problem: Option<&str>) {
        let told = Told {
            again: self.now + SignedDuration::from_secs(10),
            problem: problem.map(str::to_owned),
        };
        let provider = &mut self.observed.fleet.provider;
        provider.did.remove(what);
        provider.told.insert(what.to_owned(), told);
    }

    /// What the shell notes once the provider has done what it was told.
    fn did(&mut self, what: &str) {
        let provider = &mut self.observed.fleet.provider;
        provider.did.insert(what.to_owned(), self.now);
        provider.told.remove(what);
        provider.states.remove(what);
        provider.images.remove(what);
        provider.found.remove(what);
    }

    /// A call is under way, as the shell has it.
    fn begin(&mut self, what: &str, made: Option<MadeMachine>) {
        if self.trouble.takes == 0 {
            return self.answered(what, made);
        }
        let told = Told {
            again: self.now + SignedDuration::from_secs(self.trouble.takes + 15),
            problem: None,
        };
        let provider = &mut self.observed.fleet.provider;
        provider.did.remove(what);
        provider.told.insert(what.to_owned(), told);
        let at = self.now + SignedDuration::from_secs(self.trouble.takes);
        self.under_way.push((at, what.to_owned(), made));
    }

    /// A call is answered, as the shell takes it in.
    fn answered(&mut self, what: &str, made: Option<MadeMachine>) {
        self.did(what);
        if made.is_some() {
            let heard = Heard {
                at: self.now,
                said: Ok(made),
            };
            self.observed.fleet.provider.found.insert(what.to_owned(), heard);
        }
    }

    fn pending(&mut self, name: &str, uid: &str) -> Option<&mut PendingNodeView> {
        let found = self.observed.fleet.pending.get_mut(name)?;
        (found.uid == uid).then_some(found)
    }

    fn fleet(&mut self, action: FleetAction) -> bool {
        match action {
            FleetAction::CreatePendingNode {
                name,
                owner,
                spec,
                turn,
            } => {
                self.made += 1;
                let view = PendingNodeView {
                    uid: format!("uid-pending-{}", self.made),
                    resource_version: "1".to_owned(),
                    created: self.now,
                    deleting: false,
                    owner_uid: owner.1,
                    annotations: turn
                        .map(|turn| (marks::PENDING_FOR.to_owned(), turn))
                        .into_iter()
                        .collect(),
                    spec: *spec,
                    name: name.clone(),
                    ..PendingNodeView::default()
                };
                let is_new = !self.observed.fleet.pending.contains_key(&name);
                assert!(is_new, "PendingNode {name} exists");
                self.observed.fleet.pending.insert(name, view);
            }
            FleetAction::WritePendingNode {
                name,
                uid,
                spec,
                annotations,
                ..
            } => {
                let Some(found) = self.pending(&name, &uid) else {
                    return false;
                };
                found.spec = *spec;
                found.is_owned = false;
                return lay(&mut found.annotations, &annotations);
            }
            FleetAction::WritePendingStatus {
                name,
                uid,
                state,
                reached,
            } => {
                let Some(found) = self.pending(&name, &uid) else {
                    return false;
                };
                found.status.csp_state = Some(state);
                found.status.reached_goal = Some(reached);
            }
            FleetAction::DeletePendingNode { name, uid } => {
                if self.pending(&name, &uid).is_none() {
                    return false;
                }
                self.observed.fleet.pending.remove(&name);
            }
            FleetAction::CreateMachine {
                pending, group_id, ..
            } => {
                let runs = self
                    .observed
                    .fleet
                    .autoscalers
                    .values()
                    .any(|one| one.replicas > 0);
                assert!(
                    !runs || self.trouble.fights > 0,
                    "a machine is made while the autoscaler runs"
                );
                if self.refuses() {
                    self.tell_later(&pending, Some("quota"));
                    return false;
                }
                if self.trouble.slow && self.begun.insert(pending.clone()) {
                    self.tell_later(&pending, None);
                    return true;
                }
                let (provider_id, node) = self.create(&pending, &group_id);
                self.begin(&pending, Some(MadeMachine { node, provider_id }));
            }
            FleetAction::DeleteMachine { provider_id, .. } => {
                let hosts = self.observed.fleet.hosts.iter();
                for (node, _) in hosts.filter(|(_, host)| is_same(&host.provider_id, &provider_id)) {
                    assert!(
                        self.observed.nodes[node].unschedulable,
                        "{node} goes without a cordon"
                    );
                    assert!(self.observed.pods[node].is_empty(), "{node} goes with its pods");
                }
                if self.refuses() {
                    self.tell_later(&provider_id.to_lowercase(), Some("throttled"));
                    return false;
                }
                self.calls += 1;
                let now = self.now;
                if let Some(machine) = self.machines.get_mut(&provider_id) {
                    machine.going.get_or_insert(now);
                }
                self.begin(&provider_id.to_lowercase(), None);
            }
            FleetAction::RemoveEtcdMember { node, address, .. } => {
                let away = self.observed.nodes.values().filter(|one| {
                    one.name != node && numo_core::quorum::is_control_plane(one) && one.unschedulable
                });
                assert_eq!(away.count(), 0, "two members of etcd are away");
                if self.refuses() {
                    self.tell_later(&address, Some("no leader"));
                    return false;
                }
                self.calls += 1;
                self.begin(&address, None);
            }
            FleetAction::DeleteNode { node, uid } => {
                if self.observed.nodes.get(&node).is_none_or(|one| one.uid != uid) {
                    return false;
                }
                self.observed.pods.remove(&node);
                self.deleted.push(node.clone());
                self.observed.nodes.remove(&node);
                self.observed.fleet.hosts.remove(&node);
            }
            FleetAction::SetGroupImage { group_id, image } => {
                self.group_images.insert(group_id.clone(), image);
                self.begin(&group_id.to_lowercase(), None);
            }
            FleetAction::WriteGroupStatus {
                name,
                image,
                is_outdated,
                ..
            } => {
                let group = self.observed.fleet.groups.get_mut(&name).expect("a group");
                group.status.image_reference = Some(image);
                group.status.conditions = vec![numo_core::owners::node_version::outdated(is_outdated)];
            }
            FleetAction::EnableAutoscaler {
                strategy, enabled, ..
            } => {
                let view = self.observed.fleet.strategies.get_mut(&strategy).expect("one");
                view.spec.enabled = enabled;
            }
            FleetAction::WriteStrategyStatus {
                strategy, replicas, ..
            } => {
                let view = self.observed.fleet.strategies.get_mut(&strategy).expect("one");
                view.status.replicas = Some(replicas);
                view.status.enabled = Some(replicas > 0);
            }
            FleetAction::SetAutoscaler {
                deployment,
                replicas,
                annotations,
                command,
                ..
            } => {
                let view = self.observed.fleet.autoscalers.get_mut(&deployment).expect("one");
                if !lay(&mut view.annotations, &annotations) {
                    return false;
                }
                view.replicas = replicas.1;
                view.command = command.1;
            }
            FleetAction::CreateGroup { .. }
            | FleetAction::NameGroup { .. }
            | FleetAction::DeleteGroup { .. }
            | FleetAction::DeleteJoiningNode { .. } => panic!("{action:?} is nothing to this world"),
        }
        true
    }

    fn apply(&mut self, action: Action) -> bool {
        let now = self.now;
        match action {
            Action::Fleet(action) => return self.fleet(action),
            Action::AddFinalizer { finalizer, .. } => {
                let view = self.observed.fleet.versions.get_mut("nv").expect("one");
                view.finalizers.push(finalizer.to_owned());
            }
            Action::MarkGate { change, .. } => {
                let view = self.observed.fleet.versions.get_mut("nv").expect("one");
                view.annotations.extend(change.to.map(|mark| (change.key, mark)));
            }
            Action::RemoveFinalizer { index, .. } => {
                let view = self.observed.fleet.versions.get_mut("nv").expect("one");
                view.finalizers.remove(index);
            }
            Action::PatchNode(patch) => return self.patch(&patch),
            Action::CreateChange { key, spec } => {
                self.made += 1;
                let change = ChangeView {
                    key: key.clone(),
                    uid: format!("change-{}", self.made),
                    resource_version: "1".to_owned(),
                    generation: 1,
                    created: now,
                    deleting: false,
                    annotations: [(marks::TURN.to_owned(), String::new())].into(),
                    spec: *spec,
                    status: NodeChangeStatus::default(),
                    misread: None,
                };
                assert_eq!(key.namespace, NAMESPACE);
                self.observed.changes.insert(key, change);
            }
            Action::WriteJournal { key, uid, status, .. } => {
                let change = self.observed.changes.get_mut(&key);
                let Some(change) = change.filter(|change| change.uid == uid) else {
                    return false;
                };
                change.status = *status;
            }
            Action::DeleteChange { key, .. } => {
                self.observed.changes.remove(&key);
            }
            Action::AcquireLease { node, holder, .. } | Action::RenewLease { node, holder, .. } => {
                let lease = LeaseView {
                    by_numo: true,
                    holder,
                    renewed: Some(now),
                    duration_seconds: 3600,
                    transitions: 0,
                    uid: format!("lease-{node}"),
                    resource_version: "1".to_owned(),
                };
                self.observed.leases.insert(node, lease);
            }
            Action::ReleaseLease { node, .. } => {
                self.observed.leases.remove(&node);
            }
            Action::CreateMaintenance(request) => {
                self.made += 1;
                return other_operator::create(&mut self.observed, &request, self.made, now);
            }
            Action::DeleteMaintenance { name, uid } => {
                return other_operator::delete(&mut self.observed, &name, &uid);
            }
            Action::Evict { node, eviction } => {
                let of = &self.observed;
                assert!(
                    of.foreign_controllers.is_empty(),
                    "numo evicts what another operator is to evict"
                );
                let pods = self.observed.pods.get_mut(&node).expect("pods");
                pods.remove(&eviction.pod);
            }
            other => panic!("{other:?} is nothing to this world"),
        }
        true
    }

    fn patch(&mut self, patch: &NodePatch) -> bool {
        let node = self.observed.nodes.get_mut(&patch.node);
        let Some(node) = node.filter(|node| node.uid == patch.uid) else {
            return false;
        };
        if !lay(&mut node.labels, &patch.labels) || !lay(&mut node.annotations, &patch.annotations) {
            return false;
        }
        node.unschedulable = patch.unschedulable.unwrap_or(node.unschedulable);
        true
    }

    /// What would hurt a user.
    fn judge(&self) {
        assert!(
            self.alive() <= self.most,
            "{} machines are alive, wanted at most {}",
            self.alive(),
            self.most
        );
    }

    /// Every node is of the image, each machine is known, and nothing is left.
    fn has_rolled(&self, nodes: usize) {
        let observed = &self.observed;
        assert_eq!(observed.nodes.len(), nodes, "{:#?}", self.report.nodes);
        for node in observed.nodes.values() {
            assert_eq!(node.annotation(annotations::NODE_IMAGE), "img2", "{}", node.name);
            assert!(!node.unschedulable, "{}", node.name);
            let group = node.annotation(annotations::SCALING_GROUP_ID);
            assert_eq!(
                node.label("team"),
                group.trim_start_matches("G-"),
                "{}",
                node.name
            );
            for key in [
                annotations::DONOR,
                annotations::HEIR,
                marks::SHIELDED_BY,
                marks::CORDONED_BY,
            ] {
                assert_eq!(node.annotation(key), "", "{} {key}", node.name);
            }
        }
        self.has_leaked_nothing();
        let strategy = observed.fleet.strategies.values().next().expect("one");
        assert!(strategy.spec.enabled);
        assert_eq!(
            observed.fleet.autoscalers.values().next().expect("one").replicas,
            1
        );
        assert_eq!(observed.leases.len(), 0);
        assert_eq!(observed.fleet.versions["nv"].finalizers, Vec::<String>::new());
    }

    /// Each machine that is alive is that of a node, and nothing is pending.
    fn has_leaked_nothing(&self) {
        let fleet = &self.observed.fleet;
        assert_eq!(fleet.pending.keys().collect::<Vec<_>>(), Vec::<&String>::new());
        for (id, machine) in self.machines.iter().filter(|(_, one)| one.going.is_none()) {
            let known = fleet.hosts.get(&machine.node);
            assert!(
                known.is_some_and(|host| host.provider_id == *id),
                "machine {id} is left"
            );
        }
    }
}

/// A person approves what waits.
fn approve(world: &mut World) {
    let waits = world.report.approval.clone().expect("something waits");
    let view = numo_core::observed::ApprovalView {
        name: format!("a{}", world.observed.approvals.len()),
        uid: "uid-a".to_owned(),
        created: world.now,
        deleting: false,
        spec: numo_api::MutexApprovalSpec {
            owner: owner().approved(),
            digest: waits.digest,
            reason: "reviewed".to_owned(),
            approved_by: "anna".to_owned(),
            ..numo_api::MutexApprovalSpec::default()
        },
        generation: 1,
        status: numo_api::MutexApprovalStatus::default(),
    };
    world.observed.approvals.insert(view.name.clone(), view);
}

const THREE: [(&str, usize); 3] = [("cp", 3), ("red", 3), ("blue", 2)];

#[test]
fn three_groups_roll_to_the_image_the_control_plane_first() {
    let mut world = World::new(&THREE, r#"{"surge": 2}"#, Trouble::default());
    world.most = 8 + 2;
    world.roll();
    world.has_rolled(8);
    let first: BTreeSet<&str> = world.deleted[..3].iter().map(|name| &name[..2]).collect();
    assert_eq!(first, ["cp"].into());
    // One call makes a machine, one deletes one, and one takes a member of etcd out.
    assert_eq!(world.calls, 16 + 3);
}

/// A provider that is eventually consistent calls what it was told to delete ready for a while.
#[test]
fn a_provider_that_says_what_was_so_before_is_not_told_again_and_again() {
    for lags in [1, 5, 29, 40] {
        let trouble = Trouble {
            lags,
            ..Trouble::default()
        };
        let mut world = World::new(&THREE, r#"{"surge": 2}"#, trouble);
        world.most = 8 + 2;
        world.roll();
        world.has_rolled(8);
        assert!(
            world.calls <= 16 + 3 + 2 * 8,
            "{} calls with a lag of {lags} s",
            world.calls
        );
    }
}

#[test]
fn numo_may_die_at_every_write_and_leaks_no_machine() {
    for seed in 1..40 {
        let trouble = Trouble {
            crashes: 4,
            slow: seed % 2 == 0,
            ..Trouble::default()
        };
        let mut world = World::new(&THREE, r#"{"surge": 2}"#, trouble);
        world.chance = Chance(seed);
        world.most = 8 + 2;
        world.roll();
        world.has_rolled(8);
    }
}

/// A call takes a while, and others go out meanwhile: only surge and budgets say how many nodes are replaced at once.
#[test]
fn calls_that_take_long_hold_up_no_other_node() {
    let roll = |takes: i64, crashes: u64| {
        let trouble = Trouble {
            crashes,
            takes,
            ..Trouble::default()
        };
        let spec = r#"{"surge": 4, "mutex": {"maxUnavailable": 4}}"#;
        let mut world = World::new(&[("red", 12)], spec, trouble);
        world.most = 12 + 4;
        let began = world.now;
        world.roll();
        world.has_rolled(12);
        (world.now - began).get_seconds()
    };
    let (quick, long) = (roll(0, 0), roll(25, 0));
    // Twelve nodes in three rounds of four, two calls each.
    assert!(
        long < quick + 12 * 25,
        "{long} s with calls of 25 s, {quick} s without"
    );
    roll(25, 4);
}

/// The control plane is in no wave and no domain that is named, and one approval is for the whole roll: whoever waits, waits for
/// somebody who goes on.
#[test]
fn a_roll_in_waves_and_domains_comes_to_its_end_after_one_approval() {
    let spec = r#"{"surge": 2, "mutex": {"approval": {"begin": "Manual"}, "domains": {"key": "team"}, "waves": [
        {"nodeSelector": {"matchLabels": {"team": "red"}}, "soakSeconds": 120}, {"nodes": 1, "growth": 2}]}}"#;
    for crashes in [0, 5] {
        let trouble = Trouble {
            crashes,
            ..Trouble::default()
        };
        let mut world = World::new(&THREE, &spec.replace('\n', " "), trouble);
        world.most = 8 + 2;
        for _ in 0..60 {
            world.pass();
            world.tick();
        }
        assert_eq!(world.observed.changes.len(), 0);
        approve(&mut world);
        world.roll();
        world.has_rolled(8);
        let order: Vec<&str> = world.deleted.iter().map(|name| &name[..name.len() - 3]).collect();
        assert_eq!(order, ["cp", "cp", "cp", "red", "red", "red", "blue", "blue"]);
        assert_eq!(world.report.approval, None);
    }
}

/// Another operator drains the old nodes: numo evicts nobody, gives it the lease, and leaves no NodeMaintenance behind, wherever it dies.
#[test]
fn nodes_that_another_operator_drains_roll_wherever_numo_dies() {
    for (seed, crashes) in [(7, 0), (1, 4), (2, 4), (3, 3), (4, 2), (5, 2)] {
        let trouble = Trouble {
            crashes,
            ..Trouble::default()
        };
        let spec = r#"{"surge": 2, "mutex": {"drainBy": "NodeMaintenance"}}"#;
        let mut world = World::new(&THREE, spec, trouble);
        other_operator::install(&mut world.observed);
        world.chance = Chance(seed);
        world.most = 8 + 2;
        world.roll();
        for _ in 0..5 {
            world.pass();
            world.tick();
        }
        world.has_rolled(8);
        assert_eq!(world.observed.maintenances.len(), 0);
    }
}

/// Whoever leaves in mid-roll leaves no node cordoned, and no object by which a later node of that name would be drained.
#[test]
fn a_nodeversion_that_goes_leaves_no_nodemaintenance_behind() {
    for at in (20..240).step_by(11) {
        let spec = r#"{"surge": 2, "mutex": {"drainBy": "NodeMaintenance"}}"#;
        let mut world = World::new(&THREE, spec, Trouble::default());
        other_operator::install(&mut world.observed);
        for _ in 0..at {
            world.pass();
            world.tick();
        }
        world.observed.fleet.versions.get_mut("nv").expect("one").deleting = true;
        for _ in 0..1000 {
            world.pass();
            world.tick();
        }
        world.has_leaked_nothing();
        let view = &world.observed.fleet.versions["nv"];
        assert_eq!(view.finalizers, Vec::<String>::new(), "after {at}");
        for node in world.observed.nodes.values() {
            assert!(!node.unschedulable, "{} after {at}", node.name);
        }
        assert_eq!(world.observed.maintenances.len(), 0, "after {at}");
        assert_eq!(world.observed.leases.len(), 0, "after {at}");
    }
}

#[test]
fn machines_that_do_not_boot_and_a_provider_that_refuses_hold_nothing_up() {
    for seed in 1..20 {
        let trouble = Trouble {
            duds: 5,
            refusals: 6,
            ..Trouble::default()
        };
        let spec = r#"{"surge": 3, "joinTimeoutSeconds": 300, "joinRetries": 50}"#;
        let mut world = World::new(&THREE, spec, trouble);
        world.chance = Chance(seed);
        world.most = 8 + 3;
        world.roll();
        world.has_rolled(8);
    }
}

#[test]
fn an_image_that_never_boots_stops_and_the_old_nodes_stay() {
    let trouble = Trouble {
        duds: 1,
        ..Trouble::default()
    };
    let spec = r#"{"surge": 2, "joinTimeoutSeconds": 300}"#;
    let mut world = World::new(&[("red", 4)], spec, trouble);
    world.most = 4 + 2;
    world.roll();
    assert_eq!(world.observed.nodes.len(), 4);
    assert_eq!(world.deleted, Vec::<String>::new());
    world.has_leaked_nothing();
    // Two nodes had their turn at once; each has three tries at most.
    assert!(
        (3..=6).contains(&world.calls.div_ceil(2)),
        "{} calls",
        world.calls
    );
    let held = world.report.nodes.values().find(|node| node.step == Step::Held);
    let held = held.expect("a node that is held");
    assert_eq!(held.why.reason, Reason::JoinFailed);
    assert!(held.why.message.contains("img2"), "{}", held.why.message);
    for node in world.observed.nodes.values() {
        assert!(!node.unschedulable, "{}", node.name);
    }
}

#[test]
fn an_autoscaler_that_is_started_again_is_stopped_again() {
    let trouble = Trouble {
        fights: 20,
        ..Trouble::default()
    };
    let mut world = World::new(&THREE, r#"{"surge": 2}"#, trouble);
    world.most = 8 + 2;
    world.roll();
    world.trouble.fights = 0;
    world.roll();
    world.has_rolled(8);
}

impl World {
    /// Notes on a node what its machine is, as the reference has it.
    fn note(&mut self, node: &str, image: &str, more: &[(&str, &str)]) {
        let group = group_id(&node[..node.len() - 3]);
        let node = self.observed.nodes.get_mut(node).expect("a node");
        let of_machine = [
            (annotations::SCALING_GROUP_ID, group.as_str()),
            (annotations::NODE_IMAGE, image),
        ];
        for (key, value) in of_machine.iter().chain(more) {
            node.annotations.insert((*key).to_owned(), (*value).to_owned());
        }
    }

    /// A machine with the new image that the reference had made.
    fn made_before(&mut self, node: &str) -> (String, Machine) {
        let machine = Machine {
            group: group_id(&node[..node.len() - 3]),
            image: "img2".to_owned(),
            node: node.to_owned(),
            request: node.to_owned(),
            made: self.now,
            boots: true,
            going: None,
        };
        let id = format!("m-{node}");
        self.machines.insert(id.clone(), machine.clone());
        (id, machine)
    }

    /// A PendingNode as the reference writes one: its name is that of the node.
    fn pends(&mut self, node: &str, goal: Goal) {
        let view = PendingNodeView {
            name: node.to_owned(),
            uid: format!("uid-pending-{node}"),
            resource_version: "1".to_owned(),
            created: self.now,
            owner_uid: UID.to_owned(),
            spec: PendingNodeSpec {
                provider_id: Some(format!("m-{node}")),
                group_id: Some(group_id(&node[..node.len() - 3])),
                node_name: Some(node.to_owned()),
                goal: Some(goal),
                deadline: Some((self.now + SignedDuration::from_secs(1800)).to_string()),
            },
            is_owned: true,
            ..PendingNodeView::default()
        };
        self.observed.fleet.pending.insert(node.to_owned(), view);
    }
}

/// The Constellation node operator was stopped in the midst: a pair is made, a machine boots, a machine has lost its Node and not gone, a node
/// is to go without another, and the autoscaler rests. numo goes on with all of it, and makes no machine for what has one.
#[test]
fn what_the_reference_has_half_done_is_brought_to_its_end() {
    for crashes in [0, 4] {
        let trouble = Trouble {
            crashes,
            ..Trouble::default()
        };
        let mut world = World::new(&[("red", 3), ("blue", 2)], r#"{"surge": 2}"#, trouble);
        world
            .group_images
            .values_mut()
            .for_each(|image| "img2".clone_into(image));
        // A pair, whose old node the reference has cordoned.
        let (id, heir) = world.made_before("red900");
        world.join(&id, &heir);
        world.note("red900", "img2", &[(annotations::DONOR, "red000")]);
        world.note("red000", "img1", &[(annotations::HEIR, "red900")]);
        let donor = world.observed.nodes.get_mut("red000").expect("a node");
        donor.unschedulable = true;
        // A machine that boots.
        world.made_before("blue900");
        world.pends("blue900", Goal::Join);
        // A machine whose Node is gone, and whose deletion has failed.
        let (_, old) = world.made_before("red800");
        let old = Machine {
            image: "img1".to_owned(),
            boots: false,
            ..old
        };
        world.machines.insert("m-red800".to_owned(), old);
        world.pends("red800", Goal::Leave);
        // A node that is to go, and nothing takes its place.
        world.note("red002", "img1", &[(annotations::OBSOLETE, "true")]);
        for strategy in world.observed.fleet.strategies.values_mut() {
            strategy.spec.enabled = false;
        }
        for autoscaler in world.observed.fleet.autoscalers.values_mut() {
            autoscaler.replicas = 0;
        }
        world.roll();
        world.has_rolled(4);
        let kept = ["red900", "blue900"];
        assert!(
            kept.iter().all(|name| world.observed.nodes.contains_key(*name)),
            "{:?}",
            world.observed.nodes.keys()
        );
        // Of the four that are replaced two had a machine: the other two got one each.
        let made = world
            .machines
            .values()
            .filter(|one| one.request.starts_with("numo-"));
        assert_eq!(made.count(), 2, "no machine is made for what has one");
    }
}

/// What the Constellation node operator reads of a cluster that numo has left (`spec/constellation.md` §2): its own annotations, its five
/// kinds, and nothing of numo's.
fn is_for_the_reference(world: &World, before: &BTreeMap<String, BTreeMap<&str, String>>, passes: usize) {
    let observed = &world.observed;
    let version = &observed.fleet.versions["nv"];
    assert_eq!(version.finalizers, Vec::<String>::new(), "after {passes} passes");
    assert_eq!(&of_the_reference(observed), before, "after {passes} passes");
    let released: BTreeSet<&str> = observed
        .changes
        .values()
        .filter(|change| numo_core::turn::journal::entered(change, Step::Released).is_some())
        .map(|change| change.spec.node_name.as_str())
        .collect();
    for node in observed
        .nodes
        .values()
        .filter(|node| !released.contains(node.name.as_str()))
    {
        assert!(!node.unschedulable, "{} after {passes} passes", node.name);
        for key in [marks::CORDONED_BY, marks::SHIELDED_BY] {
            assert_eq!(
                node.annotation(key),
                "",
                "{} {key} after {passes} passes",
                node.name
            );
        }
    }
    for pending in observed.fleet.pending.values() {
        assert!(pending.spec.goal.is_some(), "{pending:?}");
        assert_eq!(pending.owner_uid, UID, "{pending:?}");
        // One without a machine is numo's, and the page has it deleted.
        let is_whole = !pending.provider_id().is_empty() && !pending.node().is_empty();
        assert!(is_whole || pending.name.starts_with("numo-"), "{pending:?}");
    }
    for (strategy, deployment) in observed
        .fleet
        .strategies
        .values()
        .zip(observed.fleet.autoscalers.values())
    {
        assert_eq!(
            (strategy.spec.enabled, deployment.replicas),
            (true, 1),
            "after {passes} passes"
        );
    }
}

/// The annotations of the reference, by node.
fn of_the_reference(observed: &Observed) -> BTreeMap<String, BTreeMap<&'static str, String>> {
    let keys = [
        annotations::DONOR,
        annotations::HEIR,
        annotations::SCALING_GROUP_ID,
        annotations::NODE_IMAGE,
        annotations::OBSOLETE,
        annotations::KUBERNETES_COMPONENTS,
    ];
    let of = |node: &NodeView| keys.map(|key| (key, node.annotation(key).to_owned())).into();
    let nodes = observed.nodes.values();
    nodes.map(|node| (node.name.clone(), of(node))).collect()
}

/// The way back, after so many passes of a roll: numo is scaled to 0, everything of its own is given back, and what it leaves is what the other
/// operator reads. Whoever knows no more than that, here a numo without journals, brings it to its end.
#[test]
fn what_numo_leaves_in_the_midst_is_what_the_operator_reads() {
    for passes in [1, 10, 30, 60, 90, 120, 150, 200, 300, 400] {
        let mut world = World::new(&[("red", 3), ("blue", 2)], r#"{"surge": 2}"#, Trouble::default());
        for _ in 0..passes {
            world.pass();
            world.tick();
        }
        let before = of_the_reference(&world.observed);
        crate::abandoned::restore(&mut world.observed, world.now);
        is_for_the_reference(&world, &before, passes);
        // By the steps of the page: requests of numo without a machine go. The other operator reads no journal and no lease.
        world
            .observed
            .fleet
            .pending
            .retain(|_, pending| !pending.provider_id().is_empty());
        world.observed.changes.clear();
        world.observed.leases.clear();
        world.roll();
        world.has_rolled(5);
    }
}

/// The image is changed twice while nodes are replaced: what was made for the image before is replaced like any other.
#[test]
fn an_image_that_is_changed_in_mid_roll_is_the_one_that_all_have_in_the_end() {
    for at in [1, 40, 130, 260] {
        let mut world = World::new(&THREE, r#"{"surge": 2}"#, Trouble::default());
        world.most = 8 + 2;
        for image in ["img0", "img9", "img2"] {
            let view = world.observed.fleet.versions.get_mut("nv").expect("one");
            view.spec.image = Some(image.to_owned());
            for _ in 0..at {
                world.pass();
                world.tick();
            }
        }
        world.roll();
        world.has_rolled(8);
    }
}

#[test]
fn a_nodeversion_that_is_deleted_in_mid_roll_leaves_no_machine_behind() {
    for at in [5, 30, 60, 100, 140, 180] {
        let mut world = World::new(&THREE, r#"{"surge": 2}"#, Trouble::default());
        for _ in 0..at {
            world.pass();
            world.tick();
        }
        world.observed.fleet.versions.get_mut("nv").expect("one").deleting = true;
        for _ in 0..1000 {
            world.pass();
            world.tick();
        }
        world.has_leaked_nothing();
        let view = &world.observed.fleet.versions["nv"];
        assert_eq!(view.finalizers, Vec::<String>::new(), "after {at}");
        for node in world.observed.nodes.values() {
            assert!(!node.unschedulable, "{} after {at}", node.name);
        }
        assert_eq!(world.observed.leases.len(), 0, "after {at}");
    }
}

/// What was made just before is not seen yet when numo looks for it.
#[test]
fn a_machine_that_is_not_seen_yet_is_not_left_behind() {
    for at in (1..80).step_by(6) {
        let trouble = Trouble {
            crashes: 3,
            lags: 60,
            ..Trouble::default()
        };
        let mut world = World::new(&THREE, r#"{"surge": 2}"#, trouble);
        world.chance = Chance(at);
        for _ in 0..at {
            world.pass();
            world.tick();
        }
        world.observed.fleet.versions.get_mut("nv").expect("one").deleting = true;
        world.trouble.crashes = 0;
        for _ in 0..1000 {
            world.pass();
            world.tick();
        }
        world.has_leaked_nothing();
    }
}

#[test]
fn three_hundred_nodes_roll_though_one_machine_of_ten_does_not_boot() {
    let trouble = Trouble {
        duds: 10,
        ..Trouble::default()
    };
    let spec = r#"{"surge": "10%", "joinTimeoutSeconds": 300, "joinRetries": 9}"#;
    let mut world = World::new(&[("red", 150), ("blue", 150)], spec, trouble);
    world.most = 330;
    world.roll();
    world.has_rolled(300);
    assert_eq!(UID, "uid-nv");
}

/// Somebody takes the marks of all pairs off at any moment, while numo is down: each new node is found again by the request that made it, none is
/// made twice, and no person is needed.
#[test]
fn new_nodes_that_lose_their_marks_while_numo_is_down_are_found_again() {
    for at in 1..130 {
        let mut world = World::new(
            &[("red", 2)],
            r#"{"surge": 2, "mutex": {"maxUnavailable": 2}}"#,
            Trouble::default(),
        );
        world.most = 2 + 2;
        for _ in 0..at {
            world.pass();
            world.tick();
        }
        for node in world.observed.nodes.values_mut() {
            node.annotations.remove(annotations::DONOR);
            node.annotations.remove(annotations::HEIR);
        }
        let provider = &mut world.observed.fleet.provider;
        (provider.did, provider.told) = (BTreeMap::new(), BTreeMap::new());
        (provider.found, provider.states) = (BTreeMap::new(), BTreeMap::new());
        world.roll();
        world.has_rolled(2);
        let made = world.machines.values().filter(|one| !one.request.is_empty());
        assert_eq!(made.count(), 2, "after {at} passes");
    }
}

/// An AutoscalingStrategy that somebody deletes at any moment of a roll: the cluster has its autoscaler again once that is over.
#[test]
fn an_autoscaler_whose_strategy_is_deleted_in_mid_roll_runs_in_the_end() {
    for at in (0..260).step_by(7) {
        let mut world = World::new(&[("red", 2)], "{}", Trouble::default());
        for _ in 0..at {
            world.pass();
            world.tick();
        }
        if world
            .observed
            .fleet
            .autoscalers
            .values()
            .any(|one| one.replicas > 0)
        {
            // Without a strategy numo works beside one that runs.
            continue;
        }
        world.observed.fleet.strategies.clear();
        world.roll();
        for _ in 0..5 {
            world.pass();
            world.tick();
        }
        let autoscaler = world.observed.fleet.autoscalers.values().next().expect("one");
        assert_eq!(autoscaler.replicas, 1, "after {at} s");
        assert_eq!(autoscaler.annotations, Map::new(), "after {at} s");
        world.has_leaked_nothing();
    }
}
