//! Everyone who is not numo, not the MCO and not the cluster: people with kubectl, GitOps, autoscalers,
//! other operators, bad hardware. And what they meant for good, to compare with at the end.

use super::{
    Copied, Event, Fault, FleetAct, HoursOf, Machine, MeantHours, MeantPlan, Object, Span, Word, World,
};
use crate::reading::{has_turn, pauser};
use numo_api::{
    Directive, DirectiveAction, NodeChangeSpec, Outcome, OwnerRef, Phase, Target, VerdictRecord, marks,
    marks::openshift,
};
use numo_core::{
    Owner, names,
    observed::{
        Annotated, ChangeView, Key, LeaseView, Leaving, MachineApi, MachineView, Map, NodeView, Pairs,
        RuleView, TargetView,
    },
};
use rand::Rng;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Label of nodes of the control plane in these worlds.
const MASTER: &str = "node-role.kubernetes.io/master";

/// What people meant for good.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one thing people may have done"
)]
pub struct Meant {
    /// The selector of each pool.
    pub selectors: BTreeMap<String, Value>,
    /// Pools that people paused.
    pub paused: BTreeSet<String>,
    /// The labels of each node, by uid.
    pub labels: BTreeMap<String, Pairs>,
    /// The annotations of each node that are not OpenShift's, by uid.
    pub annotations: BTreeMap<String, Map>,
    /// Nodes that people cordoned.
    pub cordoned: BTreeSet<String>,
    /// Nodes that someone uncordoned although numo had cordoned them, until numo cordons them again.
    pub uncordoned: BTreeSet<String>,
    /// An owner was deleted whose finalizer somebody had taken away: what it left is a person's to mend.
    pub orphaned: bool,
    /// The Plans.
    pub plans: BTreeMap<Key, MeantPlan>,
    /// Nodes that are not Ready for a reason that is not the MCO's.
    pub sick: BTreeSet<String>,
    /// numo is not invited to run Jobs.
    pub jobs_forbidden: bool,
    /// Someone did what moves nodes between pools: numo is not to blame for where they are.
    pub moved_nodes: bool,
    /// Pools that someone unpaused although numo held them.
    pub unpaused: BTreeSet<String>,
    /// A limit was edited, or a turn given by a person: more may fly than the limit says.
    pub limits_edited: bool,
    /// The NodeVersions of groups whose ScalingGroups were deleted, by the ids of the groups.
    pub groups: BTreeMap<String, String>,
    /// Changes that someone deleted.
    pub journals_deleted: bool,
    /// The NodeChanges that have the status of another one, as somebody restored a backup wrongly.
    pub copied: Copied,
    /// Somebody did so.
    pub has_copied: bool,
    /// Someone gave the run up, in whatever way.
    pub gave_up: bool,
    /// Someone broke the spec of a run, and did nothing else: no node may roll for that.
    pub broke_spec: bool,
}

/// Something someone does. Whom it hits is drawn when it happens.
#[derive(Clone, Debug)]
pub enum Act {
    /// Someone asks for a version.
    Ask(String),
    /// Someone changes a machine config.
    RenderAgain,
    /// Someone cordons a node, for so long.
    Cordon(i64),
    /// And uncordons it.
    Uncordon(String),
    /// Someone unpauses a pool that numo holds.
    UnpausePool,
    /// Someone pauses a pool, for so long.
    PausePool(i64),
    /// And unpauses it.
    Unpause(String),
    /// Someone suspends a run, for so long.
    Suspend(i64),
    /// And resumes it.
    Resume(Key),
    /// Someone deletes a run.
    Delete,
    /// Someone gives a run up, for so long.
    Abort(i64),
    /// And takes that back.
    Unabort(Key),
    /// Someone says something about a node, in flight or not.
    Say(DirectiveAction),
    /// And takes it back.
    Unsay(Key),
    /// Someone who left a node out asks for it again.
    AskAgain(Key),
    /// Something will go wrong at a node's next change.
    Break(Fault),
    /// Evictions from a node are refused, for so long.
    BlockDrain(i64),
    /// And no longer.
    UnblockDrain(String),
    /// A node is deleted.
    DeleteNode,
    /// A node is deleted and comes again under its name.
    RecreateNode,
    /// It comes.
    NodeComes(Box<NodeView>),
    /// A new node joins.
    Join,
    /// A node is not Ready, for so long.
    Sicken(i64),
    /// And is Ready again.
    Recover(String),
    /// An autoscaler is about to take a node away, for so long.
    TakeAway(i64),
    /// And lets it be.
    LetBe(String),
    /// Someone reverts a selector that numo set.
    RevertSelector,
    /// Another operator takes a node's lease, for so long.
    TakeLease(i64),
    /// And gives it back.
    GiveLease(String),
    /// Someone pauses all budgets, for so long.
    PauseBudgets(i64),
    /// And opens them.
    OpenBudgets,
    /// Someone deletes a Job.
    DeleteJob,
    /// Deletes a Job that does not end.
    DeleteLateJob(Key),
    /// Someone deletes a NodeChange.
    DeleteChange,
    /// Someone writes the status of one NodeChange over that of another, or swaps both; it is tried so often until two nodes have their turns.
    CopyStatus(bool, u32),
    /// numo is not invited to run Jobs, for so long.
    ForbidJobs(i64),
    /// And is again.
    AllowJobs,
    /// Someone deletes a rule, for so long.
    LoseRule(i64),
    /// And creates it again.
    BringRule(Box<RuleView>),
    /// Someone edits a rule.
    EditRule,
    /// Someone adds a pool that does not exist to a target, for so long.
    BreakTarget(i64),
    /// Someone deletes a target, for so long.
    LoseTarget(i64),
    /// Someone takes a pool out of a target, for so long.
    EditTarget(i64),
    /// And puts it back.
    BringTarget(Box<TargetView>),
    /// Someone moves a node to another pool, for so long.
    Relabel(i64),
    /// And moves it back.
    LabelBack(String, String),
    /// Someone changes how many nodes may be in flight.
    EditLimit(i64),
    /// Something happens to a node of the control plane.
    OnControlPlane(Box<Self>),
    /// Someone sets hours on an owner or a MutexBinding, for so long.
    SetHours(Box<MeantHours>, i64),
    /// And takes them away.
    ClearHours(HoursOf),
    /// Someone approves what waits, or something else.
    Approve(Word),
    /// And takes that back.
    Withdraw(String),
    /// Someone does something to Plans, NodeMaintenances or their nodes.
    Fleet(FleetAct),
}

impl World {
    pub(super) fn one_of<T>(&mut self, mut among: Vec<T>) -> Option<T> {
        if among.is_empty() {
            return None;
        }
        let index = self.rng.random_range(0..among.len());
        Some(among.swap_remove(index))
    }

    fn some_node(&mut self, select: impl Fn(&NodeView) -> bool) -> Option<String> {
        let nodes = self
            .truth
            .nodes
            .values()
            .filter(|node| node.labels.contains_key(MASTER) == self.on_control_plane && select(node));
        let names = nodes.map(|node| node.name.clone()).collect();
        self.one_of(names)
    }

    fn some_run(&mut self) -> Option<Key> {
        let keys = self
            .truth
            .runs
            .values()
            .filter(|run| !run.deleting)
            .map(|run| run.key.clone())
            .collect();
        self.one_of(keys)
    }

    /// Whether numo's mark of a pause is on the pool.
    fn is_held(&self, pool: &str) -> bool {
        self.truth
            .pools
            .get(pool)
            .is_some_and(|pool| pool.annotations.contains_key(marks::PAUSED_BY))
    }

    /// A node that runs this configuration; nothing happens to it yet.
    pub fn add_node(&mut self, mut node: NodeView) {
        // As nodelink writes it.
        node.annotations.insert(
            marks::OPENSHIFT_MACHINE.to_owned(),
            machine_of(&node.name).1.to_string(),
        );
        let kept = |key: &String| !key.starts_with("machineconfiguration.openshift.io/");
        self.people.labels.insert(node.uid.clone(), node.labels.clone());
        self.people.annotations.insert(
            node.uid.clone(),
            node.annotations
                .iter()
                .filter(|(key, _)| kept(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        );
        let name = node.name.clone();
        self.machines.insert(name.clone(), Machine::default());
        let place = machine_of(&name);
        let machine = MachineView {
            object: Annotated {
                uid: format!("machine-of-{}", node.uid),
                ..Annotated::default()
            },
            node: name.clone(),
            deleting: false,
            deleting_since: None,
        };
        self.truth.machines.insert(place.clone(), machine);
        self.touch(Object::Machine(place));
        self.truth.nodes.insert(name.clone(), node);
        self.host(&name);
        self.pods_of_new_node(&name);
        self.node_written(&name);
    }

    /// A new node of a role (`worker`, or a custom pool), with what its pool serves.
    pub fn new_node(&mut self, name: &str, role: &str, zone: Option<&str>, config: &str) -> NodeView {
        let uid = format!("node-{}", self.serial());
        let drained = format!("uncordon-{config}");
        let own = |pairs: &[(&str, &str)]| -> Map {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let mut labels = own(&[(openshift::HOSTNAME, name), (openshift::OS, "linux")]);
        labels.insert(format!("node-role.kubernetes.io/{role}"), String::new());
        if role != "master" {
            labels.insert(openshift::WORKER.to_owned(), String::new());
        }
        if let Some(zone) = zone {
            labels.insert(openshift::ZONE.to_owned(), zone.to_owned());
        }
        let annotations = own(&[
            (openshift::CURRENT_CONFIG, config),
            (openshift::DESIRED_CONFIG, config),
            (openshift::STATE, "Done"),
            (openshift::DESIRED_DRAIN, &drained),
            (openshift::LAST_APPLIED_DRAIN, &drained),
        ]);
        NodeView {
            etcd_voter: None,
            boot_id: String::new(),
            kubelet_version: String::new(),
            taints: serde_json::Value::Null,
            name: name.to_owned(),
            uid,
            created: self.time(),
            labels: labels.into(),
            annotations: annotations.into(),
            has_annotations: true,
            unschedulable: false,
            ready: true,
            not_ready_since: None,
            leaving: None,
        }
    }

    pub(super) fn remove_node(&mut self, name: &str) -> Option<NodeView> {
        let node = self.truth.nodes.remove(name)?;
        self.machines.remove(name);
        self.truth.fleet.hosts.remove(name);
        self.lose_pods(name);
        self.people.cordoned.remove(name);
        self.people.sick.remove(name);
        // Its lease is its child.
        self.truth.leases.remove(name);
        self.touch(Object::Lease(name.to_owned()));
        self.truth.machines.remove(&machine_of(name));
        self.touch(Object::Machine(machine_of(name)));
        self.touch(Object::Node(name.to_owned()));
        Some(node)
    }

    /// What a node that boots now runs: what its pool asks for, or what the first node ran (the machine
    /// config server serves the old configuration until one node has the new one).
    pub(super) fn served(&mut self, role: &str) -> String {
        let new = self.truth.pools.get(role).map(|pool| pool.config.clone());
        let here: Vec<String> = self
            .truth
            .nodes
            .values()
            .filter(|node| {
                node.labels
                    .contains_key(&format!("node-role.kubernetes.io/{role}"))
            })
            .map(|node| node.annotation(openshift::CURRENT_CONFIG).to_owned())
            .filter(|config| config.starts_with(&format!("rendered-{role}-")))
            .collect();
        let old = self.one_of(here);
        old.or(new).unwrap_or_default()
    }

    /// Someone does something.
    #[allow(clippy::too_many_lines, reason = "a list of small deeds")]
    pub fn act(&mut self, act: &Act) {
        const BACK_IN: Span = (20, 400);
        match act {
            Act::Ask(version) => {
                self.tell("person", || format!("asks for OpenShift {version}"));
                self.ask(version);
            }
            Act::RenderAgain => {
                self.tell("person", || "changes a machine config".to_owned());
                self.render_again();
            }
            Act::Cordon(seconds) => {
                // Once a Job is about to cordon a node, nobody can tell a person's cordon from its.
                let nodes = self.truth.nodes.keys();
                let taken: BTreeSet<String> = nodes
                    .filter(|name| self.is_cordoned_by_fleet(name))
                    .cloned()
                    .collect();
                let Some(name) = self.some_node(|node| !node.unschedulable && !taken.contains(&node.name))
                else {
                    return;
                };
                self.people.cordoned.insert(name.clone());
                self.edit_node(&name, |node| node.unschedulable = true);
                self.tell("person", || format!("cordons {name}"));
                self.plan(*seconds, Event::Act(Act::Uncordon(name)));
            }
            Act::Uncordon(name) => {
                let busy = self
                    .truth
                    .nodes
                    .get(name)
                    .is_some_and(|node| node.annotations.contains_key(marks::CORDONED_BY))
                    || self.machines.get(name).is_some_and(|machine| !machine.is_idle());
                if busy {
                    self.plan(60, Event::Act(act.clone()));
                } else if self.people.cordoned.remove(name) {
                    self.edit_node(name, |node| node.unschedulable = false);
                    self.tell("person", || format!("uncordons {name}"));
                }
            }
            Act::UnpausePool => {
                let held = self
                    .truth
                    .pools
                    .values()
                    .filter(|pool| pool.paused)
                    .map(|pool| pool.name.clone());
                let held: Vec<String> = held.filter(|pool| self.is_held(pool)).collect();
                let Some(name) = self.one_of(held) else { return };
                self.people.unpaused.insert(name.clone());
                self.people.paused.remove(&name);
                self.set_paused(&name, false);
                self.tell("person", || format!("unpauses pool {name}, which numo holds"));
            }
            Act::PausePool(seconds) => {
                let free = self
                    .truth
                    .pools
                    .values()
                    .filter(|pool| !pool.paused && pool.name != "master");
                let free: Vec<String> = free.map(|pool| pool.name.clone()).collect();
                let Some(name) = self.one_of(free) else { return };
                self.people.paused.insert(name.clone());
                self.set_paused(&name, true);
                self.tell("person", || format!("pauses pool {name}"));
                self.plan(*seconds, Event::Act(Act::Unpause(name)));
            }
            Act::Unpause(name) => {
                if !self.is_held(name) && self.people.paused.remove(name) {
                    self.set_paused(name, false);
                    self.tell("person", || format!("unpauses pool {name}"));
                }
            }
            Act::Suspend(seconds) => {
                let Some(key) = self.some_run() else { return };
                self.edit_run(&key, |run| run.spec.suspend = Some(true));
                self.tell("person", || format!("suspends {key}"));
                self.plan(*seconds, Event::Act(Act::Resume(key)));
            }
            Act::Resume(key) => {
                self.edit_run(key, |run| run.spec.suspend = None);
                self.tell("person", || format!("resumes {key}"));
            }
            Act::Delete => {
                let Some(key) = self.some_run() else { return };
                self.people.gave_up = true;
                self.tell("person", || format!("deletes {key}"));
                self.delete_owner(&Owner::run(key));
            }
            Act::Abort(seconds) => {
                let Some(key) = self.some_run() else { return };
                let id = self
                    .truth
                    .runs
                    .get(&key)
                    .and_then(|run| run.status.run.as_ref())
                    .map(|run| run.id.clone());
                let Some(id) = id else { return };
                self.people.gave_up = true;
                self.edit_run(&key, |run| {
                    run.annotations.insert(marks::ABORT.to_owned(), id);
                });
                self.tell("person", || format!("gives {key} up"));
                self.plan(*seconds, Event::Act(Act::Unabort(key)));
            }
            Act::Unabort(key) => {
                self.edit_run(key, |run| {
                    run.annotations.remove(marks::ABORT);
                });
                self.tell("person", || format!("takes up {key} again"));
            }
            Act::Say(action) => self.say(*action),
            Act::Approve(word) => self.approve(word),
            Act::Withdraw(name) => self.withdraw(name),
            Act::Unsay(key) => {
                self.edit_change(key, |change| change.spec.directive = None);
            }
            Act::AskAgain(key) => self.ask_again(key),
            Act::Break(fault) => {
                let Some(name) = self.some_node(|_| true) else {
                    return;
                };
                if let Some(machine) = self.machines.get_mut(&name).filter(|machine| machine.is_idle()) {
                    machine.fault = Some(*fault);
                }
            }
            Act::BlockDrain(seconds) => {
                let Some(name) = self.some_node(|_| true) else {
                    return;
                };
                if let Some(machine) = self.machines.get_mut(&name) {
                    machine.drain_blocked = true;
                }
                self.plan(*seconds, Event::Act(Act::UnblockDrain(name)));
            }
            Act::UnblockDrain(name) => {
                if let Some(machine) = self.machines.get_mut(name) {
                    machine.drain_blocked = false;
                }
            }
            Act::DeleteNode => {
                if self.truth.nodes.len() < 3 {
                    return;
                }
                let masters = self.truth.nodes.values();
                let masters = masters.filter(|node| node.labels.contains_key(MASTER)).count();
                // A cluster does not outlive its only API server.
                if self.on_control_plane && masters < 2 {
                    return;
                }
                let Some(name) = self.some_node(|_| true) else {
                    return;
                };
                self.remove_node(&name);
                self.delete_machine_of(&name);
                self.tell("person", || format!("deletes node {name}"));
            }
            Act::RecreateNode => {
                let Some(name) = self.some_node(|_| true) else {
                    return;
                };
                let Some(old) = self.remove_node(&name) else {
                    return;
                };
                self.tell("person", || format!("deletes node {name} and lets it come again"));
                let is = |role: &&str| {
                    old.labels
                        .contains_key(&format!("node-role.kubernetes.io/{role}"))
                };
                let role = ["infra", "master"].into_iter().find(is).unwrap_or("worker");
                let config = self.served(role);
                let zone = old.labels.get(openshift::ZONE).map(String::as_str);
                let node = self.new_node(&name, role, zone, &config);
                let delay = self.pick(BACK_IN);
                self.plan(delay, Event::Act(Act::NodeComes(Box::new(node))));
            }
            Act::NodeComes(node) => {
                // Its machine may have been deleted meanwhile.
                let late = node.name.starts_with("late-");
                let cloud = self.cloud.as_ref().filter(|_| !late);
                let is_up = cloud.is_none_or(|cloud| cloud.machine_of(&node.name).is_some());
                if is_up && !self.truth.nodes.contains_key(&node.name) {
                    let mut node = (**node).clone();
                    node.created = self.time();
                    self.tell("cluster", || format!("node {} joins", node.name));
                    self.add_node(node);
                }
            }
            Act::Join => {
                let custom = self.truth.pools.contains_key("infra") && self.chance(50);
                let role = if custom { "infra" } else { "worker" };
                let name = format!("late-{}", self.serial());
                let config = self.served(role);
                let node = self.new_node(&name, role, Some("z1"), &config);
                self.act(&Act::NodeComes(Box::new(node)));
            }
            Act::Sicken(seconds) => {
                let idle: BTreeSet<String> = self
                    .machines
                    .iter()
                    .filter(|(_, machine)| machine.is_idle())
                    .map(|(name, _)| name.clone())
                    .collect();
                let Some(name) = self.some_node(|node| node.ready && idle.contains(&node.name)) else {
                    return;
                };
                self.sicken(name, *seconds);
            }
            Act::TakeAway(seconds) => {
                let Some(name) = self.some_node(|node| node.leaving.is_none()) else {
                    return;
                };
                let leaving = Leaving {
                    why: "taint ToBeDeletedByClusterAutoscaler".to_owned(),
                    since: Some(self.time()),
                };
                self.edit_node(&name, |node| node.leaving = Some(leaving));
                self.tell("autoscaler", || format!("is about to take {name} away"));
                self.plan(*seconds, Event::Act(Act::LetBe(name)));
            }
            Act::LetBe(name) => self.edit_node(name, |node| node.leaving = None),
            Act::Recover(name) => {
                if self.machines.get(name).is_some_and(|machine| !machine.is_idle()) {
                    self.people.sick.remove(name);
                } else if self.people.sick.remove(name) {
                    self.edit_node(name, |node| node.ready = true);
                    self.tell("node", || format!("{name} is Ready again"));
                }
            }
            Act::RevertSelector => {
                let marked = self.truth.pools.values();
                let marked = marked.filter(|pool| pool.annotations.contains_key(marks::PRIOR_NODE_SELECTOR));
                let names: Vec<String> = marked.map(|pool| pool.name.clone()).collect();
                let Some(name) = self.one_of(names) else { return };
                let Some(meant) = self.people.selectors.get(&name).cloned() else {
                    return;
                };
                self.people.moved_nodes = true;
                if let Some(pool) = self.truth.pools.get_mut(&name) {
                    pool.selector = meant;
                    pool.selector_manager = Some("gitops".to_owned());
                }
                self.touch(Object::Pool(name.clone()));
                self.tell("gitops", || format!("reverts the node selector of pool {name}"));
            }
            Act::TakeLease(seconds) => {
                let leases = &self.truth.leases;
                let free: BTreeSet<String> = self
                    .truth
                    .nodes
                    .keys()
                    .filter(|name| !leases.contains_key(*name))
                    .cloned()
                    .collect();
                let Some(name) = self.some_node(|node| free.contains(&node.name)) else {
                    return;
                };
                let view = LeaseView {
                    by_numo: false,
                    transitions: 0,
                    holder: "remediation".to_owned(),
                    renewed: Some(self.time()),
                    duration_seconds: 3600,
                    uid: format!("lease-{}", self.serial()),
                    resource_version: self.serial().to_string(),
                };
                self.truth.leases.insert(name.clone(), view);
                self.touch(Object::Lease(name.clone()));
                self.tell("medik8s", || format!("takes the lease of {name}"));
                self.plan(*seconds, Event::Act(Act::GiveLease(name)));
            }
            Act::GiveLease(name) => {
                let theirs = self
                    .truth
                    .leases
                    .get(name)
                    .is_some_and(|lease| lease.holder == "remediation");
                if theirs {
                    self.truth.leases.remove(name);
                    self.touch(Object::Lease(name.clone()));
                }
            }
            Act::PauseBudgets(seconds) => {
                self.set_budgets(true);
                self.plan(*seconds, Event::Act(Act::OpenBudgets));
            }
            Act::OpenBudgets => self.set_budgets(false),
            Act::DeleteJob => {
                let jobs: Vec<Key> = self.truth.jobs.keys().cloned().collect();
                let Some(key) = self.one_of(jobs) else { return };
                self.delete_job(&key);
            }
            Act::DeleteLateJob(key) => {
                let job = self.truth.jobs.get(key);
                if job.is_some_and(|job| job.ended.is_none()) {
                    self.delete_job(key);
                }
            }
            Act::DeleteChange => {
                let keys: Vec<Key> = self.truth.changes.keys().cloned().collect();
                let Some(key) = self.one_of(keys) else { return };
                self.people.journals_deleted = true;
                self.truth.changes.remove(&key);
                self.touch(Object::Change(key.clone()));
                self.tell("person", || format!("deletes NodeChange {key}"));
            }
            Act::CopyStatus(swaps, times) => self.copy_status(*swaps, *times),
            Act::ForbidJobs(seconds) => {
                self.people.jobs_forbidden = true;
                self.plan(*seconds, Event::Act(Act::AllowJobs));
            }
            Act::AllowJobs => self.people.jobs_forbidden = false,
            Act::LoseRule(seconds) => {
                let keys: Vec<Key> = self.truth.rules.keys().cloned().collect();
                let Some(key) = self.one_of(keys) else { return };
                if let Some(rule) = self.truth.rules.remove(&key) {
                    self.touch(Object::Rule(key.clone()));
                    self.tell("person", || format!("deletes rule {key}"));
                    self.plan(*seconds, Event::Act(Act::BringRule(Box::new(rule))));
                }
            }
            Act::BringRule(rule) => {
                self.truth.rules.insert(rule.key.clone(), (**rule).clone());
                self.touch(Object::Rule(rule.key.clone()));
            }
            Act::EditRule => {
                let keys: Vec<Key> = self.truth.rules.keys().cloned().collect();
                let Some(key) = self.one_of(keys) else { return };
                if let Some(rule) = self.truth.rules.get_mut(&key) {
                    rule.generation += 1;
                    self.touch(Object::Rule(key.clone()));
                    self.tell("person", || format!("edits rule {key}"));
                }
            }
            Act::BreakTarget(seconds) | Act::LoseTarget(seconds) => {
                let keys: Vec<Key> = self.truth.targets.keys().cloned().collect();
                let Some(key) = self.one_of(keys) else { return };
                let Some(whole) = self.truth.targets.get(&key).cloned() else {
                    return;
                };
                self.people.broke_spec = true;
                if matches!(act, Act::LoseTarget(_)) {
                    self.truth.targets.remove(&key);
                } else if let Some(target) = self.truth.targets.get_mut(&key) {
                    target.pools.insert(0, "storage".to_owned());
                }
                self.touch(Object::Target(key.clone()));
                self.tell("person", || format!("breaks target {key}"));
                self.plan(*seconds, Event::Act(Act::BringTarget(Box::new(whole))));
            }
            Act::EditTarget(seconds) => {
                let many: Vec<Key> = self
                    .truth
                    .targets
                    .values()
                    .filter(|target| target.pools.len() > 1)
                    .map(|target| target.key.clone())
                    .collect();
                let Some(key) = self.one_of(many) else { return };
                if let Some(target) = self.truth.targets.get_mut(&key) {
                    let whole = target.clone();
                    let gone = target.pools.pop().unwrap_or_default();
                    self.touch(Object::Target(key.clone()));
                    self.tell("person", || format!("takes pool {gone} out of {key}"));
                    self.plan(*seconds, Event::Act(Act::BringTarget(Box::new(whole))));
                }
            }
            Act::BringTarget(target) => {
                self.truth.targets.insert(target.key.clone(), (**target).clone());
                self.touch(Object::Target(target.key.clone()));
            }
            Act::Relabel(seconds) => {
                if !self.truth.pools.contains_key("infra") {
                    return;
                }
                let label = "node-role.kubernetes.io/infra";
                let Some(name) = self.some_node(|node| !node.labels.contains_key(label)) else {
                    return;
                };
                self.people.moved_nodes = true;
                self.set_label(&name, label, Some(""));
                self.tell("person", || format!("moves {name} to pool infra"));
                self.plan(*seconds, Event::Act(Act::LabelBack(name, label.to_owned())));
            }
            Act::LabelBack(name, label) => {
                self.set_label(name, label, None);
                self.tell("person", || format!("takes the label {label} off {name}"));
            }
            Act::OnControlPlane(act) => {
                self.on_control_plane = true;
                self.act(act);
                self.on_control_plane = false;
            }
            Act::SetHours(meant, seconds) => {
                let places = self.places_of_hours();
                let Some(place) = self.one_of(places) else { return };
                self.tell("person", || format!("sets hours on {place:?}: {meant:?}"));
                self.set_hours(&place, (**meant).clone());
                self.plan(*seconds, Event::Act(Act::ClearHours(place)));
            }
            Act::ClearHours(place) => {
                self.tell("person", || format!("takes the hours off {place:?}"));
                self.set_hours(place, MeantHours::default());
            }
            Act::Fleet(act) => self.fleet_act(act),
            Act::EditLimit(limit) => {
                let Some(key) = self.some_run() else { return };
                self.people.limits_edited = true;
                let limit = i32::try_from(*limit).unwrap_or(1);
                self.edit_run(&key, |run| {
                    let value = serde_json::from_value(Value::from(limit));
                    run.spec.max_unavailable = value.ok();
                });
                self.tell("person", || {
                    format!("sets spec.maxUnavailable of {key} to {limit}")
                });
            }
        }
    }

    pub(super) fn edit_node(&mut self, name: &str, edit: impl FnOnce(&mut NodeView)) {
        if let Some(node) = self.truth.nodes.get_mut(name) {
            edit(node);
            self.node_written(name);
        }
    }

    /// A node is not Ready, for so long.
    fn sicken(&mut self, name: String, seconds: i64) {
        self.people.sick.insert(name.clone());
        self.edit_node(&name, |node| node.ready = false);
        self.tell("node", || format!("{name} is not Ready"));
        self.plan(seconds, Event::Act(Act::Recover(name)));
    }

    fn set_label(&mut self, name: &str, key: &str, value: Option<&str>) {
        let Some(node) = self.truth.nodes.get_mut(name) else {
            return;
        };
        let meant = self.people.labels.entry(node.uid.clone()).or_default();
        for labels in [&mut node.labels, meant] {
            match value {
                Some(value) => labels.insert(key.to_owned(), value.to_owned()),
                None => labels.remove(key),
            };
        }
        self.node_written(name);
    }

    fn set_paused(&mut self, name: &str, paused: bool) {
        if let Some(pool) = self.truth.pools.get_mut(name) {
            pool.paused = paused;
            pool.paused_manager = Some("alice".to_owned());
            self.touch(Object::Pool(name.to_owned()));
        }
    }

    fn set_budgets(&mut self, paused: bool) {
        let names: Vec<String> = self.truth.budgets.keys().cloned().collect();
        for name in names {
            if let Some(budget) = self.truth.budgets.get_mut(&name) {
                budget.paused = paused;
            }
            self.touch(Object::Budget(name));
        }
    }

    pub(super) fn edit_run(&mut self, key: &Key, edit: impl FnOnce(&mut numo_core::observed::RunConfigView)) {
        if let Some(run) = self.truth.runs.get_mut(key) {
            edit(run);
            run.generation += 1;
            self.touch(Object::Run(key.clone()));
        }
    }

    fn edit_change(&mut self, key: &Key, edit: impl FnOnce(&mut ChangeView)) {
        let version = self.serial().to_string();
        if let Some(change) = self.truth.changes.get_mut(key) {
            edit(change);
            change.generation += 1;
            change.resource_version = version;
            self.touch(Object::Change(key.clone()));
        }
    }

    /// Someone says something about a node: on its NodeChange, or on one made for the purpose.
    fn say(&mut self, action: DirectiveAction) {
        let directive = Directive {
            action,
            reason: Some("they know why".to_owned()),
            by: Some("alice".to_owned()),
        };
        let existing: Vec<Key> = self
            .truth
            .changes
            .values()
            .filter(|change| change.spec.directive.is_none())
            .map(|change| change.key.clone())
            .collect();
        let waiting = self.chance(30);
        if action == DirectiveAction::Abort {
            self.people.gave_up = true;
        }
        if !waiting && let Some(key) = self.one_of(existing) {
            self.edit_change(&key, |change| change.spec.directive = Some(directive));
            self.tell("person", || format!("says {action:?} on NodeChange {key}"));
            match action {
                DirectiveAction::Hold => self.plan(1800, Event::Act(Act::Unsay(key))),
                DirectiveAction::Skip if self.chance(50) => {
                    self.plan(1200, Event::Act(Act::AskAgain(key)));
                }
                _ => {}
            }
            return;
        }
        let (Some(run), Some(name)) = (self.some_run(), self.some_node(|_| true)) else {
            return;
        };
        let Some(version) = self
            .truth
            .cluster_version
            .as_ref()
            .and_then(|cluster| cluster.desired_update.clone())
        else {
            return;
        };
        let uid = self
            .truth
            .runs
            .get(&run)
            .map(|run| run.uid.clone())
            .unwrap_or_default();
        let node_uid = self
            .truth
            .nodes
            .get(&name)
            .map(|node| node.uid.clone())
            .unwrap_or_default();
        let run_id = names::run_id(&uid, &version);
        let key = Key::new(
            &run.namespace,
            names::change_name("MutexRunConfig", &run.name, &uid, &node_uid, &run_id),
        );
        if self.truth.changes.contains_key(&key) {
            return;
        }
        let view = ChangeView {
            key: key.clone(),
            uid: format!("change-{}", self.serial()),
            resource_version: self.serial().to_string(),
            generation: 1,
            created: self.time(),
            deleting: false,
            annotations: std::collections::BTreeMap::new(),
            spec: NodeChangeSpec {
                owner_ref: OwnerRef {
                    api_version: "openshift-optional.skrzypek.io/v1alpha1".to_owned(),
                    kind: "MutexRunConfig".to_owned(),
                    namespace: Some(run.namespace.clone()),
                    name: run.name.clone(),
                    uid: uid.clone(),
                },
                node_name: name.clone(),
                node_uid,
                target: Target {
                    run_id,
                    version,
                    pool: "worker".to_owned(),
                },
                in_service: false,
                directive: Some(directive),
            },
            status: numo_api::NodeChangeStatus::default(),
            misread: None,
        };
        self.truth.changes.insert(key.clone(), view);
        // Taken back before numo has seen it, it is a turn that a person gave.
        self.people.limits_edited = true;
        self.touch(Object::Change(key.clone()));
        self.tell("person", || format!("says {action:?} about {name}, which waits"));
        if action == DirectiveAction::Hold {
            self.plan(1800, Event::Act(Act::Unsay(key)));
        }
    }

    fn ask_again(&mut self, key: &Key) {
        let skips = |directive: &Directive| directive.action == DirectiveAction::Skip;
        let change = self.truth.changes.get(key);
        if change.is_none_or(|change| !change.spec.directive.as_ref().is_some_and(skips)) {
            return;
        }
        self.edit_change(key, |change| {
            if let Some(directive) = &mut change.spec.directive {
                directive.action = DirectiveAction::Retry;
            }
        });
        self.tell("person", || {
            format!("asks for the node of NodeChange {key} again")
        });
    }

    fn delete_job(&mut self, key: &Key) {
        if let Some(job) = self.truth.jobs.remove(key)
            && let Some(made) = self.jobs_made.iter_mut().find(|made| made.uid == job.uid)
        {
            made.deleted_by_others = true;
            let uid = made.uid.clone();
            self.end_job_pods(&uid);
        }
        self.touch(Object::Job(key.clone()));
        self.tell("person", || format!("deletes Job {key}"));
    }

    /// People mend whatever keeps a run from its end: the acts that end other acts, and a Retry for what
    /// failed.
    pub fn mend(&mut self) {
        let ends: Vec<Act> = self
            .queue
            .values()
            .filter_map(|event| match event {
                Event::Act(
                    act @ (Act::NodeComes(_)
                    | Act::BringRule(_)
                    | Act::BringTarget(_)
                    | Act::LabelBack(..)
                    | Act::Approve(_)),
                ) => Some(act.clone()),
                Event::Fleet(act @ FleetAct::BringBinding(..)) => Some(Act::Fleet(act.clone())),
                _ => None,
            })
            .collect();
        self.call_off_acts();
        self.tell("person", || "mends everything".to_owned());
        self.mend_approver();
        for act in ends {
            self.act(&act);
        }
        self.mend_fleet();
        self.open_hours();
        // A verdict whose journal somebody deleted is found again for as long as its Job is there: a failure would be held once more,
        // after those that are held now were retried.
        // Nor does anything else end a Job that nobody runs.
        let ends = |uid: &str| {
            let mut events = self.queue.values();
            events.any(|event| matches!(event, Event::JobEnds(_, of) if of == uid))
        };
        let jobs = self.truth.jobs.iter();
        let released =
            jobs.filter(|(_, job)| job.ttl_seconds.is_some() || job.ended.is_none() && !ends(&job.uid));
        let released: Vec<(Key, String)> = released
            .map(|(key, job)| (key.clone(), job.uid.clone()))
            .collect();
        for (key, uid) in released {
            self.job_goes(&key, &uid);
        }
        self.knobs.jobs_failing = 0;
        self.knobs.jobs_hanging = 0;
        self.knobs.asked = [0; 3];
        self.people.jobs_forbidden = false;
        self.set_budgets(false);
        let nodes: Vec<String> = self.truth.nodes.keys().cloned().collect();
        for name in nodes {
            self.mend_machine(&name);
            if self.machines.get(&name).is_some_and(Machine::is_idle) {
                // It was lost in a reboot of its Plan.
                self.edit_node(&name, |node| node.ready = true);
            }
            self.act(&Act::LetBe(name.clone()));
            self.act(&Act::GiveLease(name.clone()));
            if self.people.sick.contains(&name) {
                self.act(&Act::Recover(name.clone()));
            }
            if self.people.cordoned.contains(&name) {
                self.act(&Act::Uncordon(name));
            }
        }
        let pools: Vec<String> = self.truth.pools.keys().cloned().collect();
        for name in pools {
            self.mend_pool(&name);
        }
        let runs: Vec<Key> = self.truth.runs.keys().cloned().collect();
        for key in runs {
            self.edit_run(&key, |run| {
                run.spec.suspend = None;
                run.annotations.remove(marks::ABORT);
                // `numo retry mutexrunconfig/NAME`
                if let Some(status) = run.status.run.as_ref().filter(|status| {
                    let failed = |verdict: &VerdictRecord| {
                        verdict.phase == Phase::PreRun && verdict.outcome == Outcome::Failure
                    };
                    status.verdicts.iter().any(failed)
                }) {
                    let round = status.verdicts.iter().map(|verdict| verdict.round).max();
                    let asked = format!("{}/{}", status.id, round.unwrap_or(1) + 1);
                    run.annotations.insert(marks::RETRY.to_owned(), asked);
                }
            });
        }
        let changes: Vec<Key> = self.truth.changes.keys().cloned().collect();
        for key in changes {
            self.retry(&key);
        }
    }

    /// A pool that people paused is let go; marks of a hold that numo gave up (`ForeignWriter`) are taken
    /// away, and so are those of owners that are gone.
    fn mend_pool(&mut self, name: &str) {
        if !self.is_held(name) && self.people.paused.remove(name) {
            self.set_paused(name, false);
        }
        let uids: BTreeSet<String> = self.truth.runs.values().map(|run| run.uid.clone()).collect();
        let meant = self.people.selectors.get(name).cloned();
        let Some(pool) = self.truth.pools.get_mut(name) else {
            return;
        };
        let orphaned = pauser(pool).is_some_and(|owner| !uids.contains(&owner));
        if orphaned || (!pool.paused && pool.annotations.contains_key(marks::PAUSED_BY)) {
            pool.annotations.remove(marks::PAUSED_BY);
            pool.paused = false;
        }
        if meant.as_ref() == Some(&pool.selector) {
            pool.annotations.remove(marks::PRIOR_NODE_SELECTOR);
        }
        self.touch(Object::Pool(name.to_owned()));
    }

    /// A NodeChange that did not end well is tried again.
    fn retry(&mut self, key: &Key) {
        let Some(change) = self.truth.changes.get(key) else {
            return;
        };
        let failed = matches!(
            change.status.step,
            Some(numo_api::Step::Held | numo_api::Step::Failed | numo_api::Step::Skipped)
        );
        // A rule that was asked, has not passed and is named no more holds its node, whatever the journal says of its step.
        let status = &change.status;
        let mut verdicts = status.verdicts.iter();
        let has_not_passed = verdicts
            .any(|verdict| verdict.round == status.attempt && verdict.outcome == numo_api::Outcome::Failure);
        let is_asked = !status.rule_waits.is_empty() || has_not_passed && has_turn(change);
        let said = change.spec.directive.is_some();
        let is_copied = self.people.copied.contains_key(key);
        if !failed && !is_asked && !said && !is_copied {
            return;
        }
        let directive = (failed || is_asked || is_copied).then(|| Directive {
            action: DirectiveAction::Retry,
            reason: None,
            by: Some("alice".to_owned()),
        });
        self.edit_change(key, |change| change.spec.directive = directive);
    }
}

/// The Machine of a node.
fn machine_of(node: &str) -> (MachineApi, Key) {
    (MachineApi::OpenShift, Key::new("openshift-machine-api", node))
}
