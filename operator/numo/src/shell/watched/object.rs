//! A view of an object, whatever its kind: what watches bring and the store takes in. This file reads nothing and keeps nothing.

use crate::{
    frontends::mutex_notifier::NotifierView,
    shell::{item::Unreadable, project},
};
use jiff::Timestamp;
use numo_api::{MutexRule, marks};
use numo_core::observed::{
    Annotated, ApprovalView, AutoscalerView, BindingView, BudgetView, ChangeView, ClusterVersionView,
    ConfigView, DisruptionBudgetView, EtcdPodView, ForeignController, HostView, JobView, JoiningNodeView,
    Key, LeaseView, MachineApi, MachineView, MaintenanceView, NodeVersionView, NodeView, PendingNodeView,
    PlanJobView, PlanView, PodView, PoolView, RebootLock, RunConfigView, ScalingGroupView, StrategyView,
    TargetView, Unread, WindowView,
};
use numo_plugin::address::AddressRange;
use serde_json::Value;
use std::collections::BTreeSet;

/// A view with its place in the store.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are the kinds")]
pub enum Object {
    Node(Box<NodeView>, OfNode),
    Pool(Box<PoolView>),
    Config(String, ConfigView),
    ClusterVersion(ClusterVersionView),
    Infrastructure(Option<String>),
    /// Name, and the pool it is for.
    Layered(String, String),
    Machine((MachineApi, Key), Box<MachineView>),
    HealthCheck((MachineApi, Key), Annotated),
    /// DaemonSet by the name of kured, the ServiceAccount of its pods, and who holds its lock.
    RebootLocks(Key, String, Vec<RebootLock>),
    Run(Box<RunConfigView>),
    Rule(Box<MutexRule>),
    /// A rule without its spec, which cannot be read, and why.
    Unreadable(Box<MutexRule>, Unreadable),
    /// An object of a kind of numo's, or an owner, that is there and cannot be read, by its key.
    NotRead(Key, Unread),
    /// A NodeChange of which this numo cannot read all: what it can read, and why.
    ChangeInPart(Box<ChangeView>, Unread),
    Target(Box<TargetView>),
    Change(Box<ChangeView>),
    Budget(Box<BudgetView>),
    Window(Box<WindowView>),
    Notifier(Box<NotifierView>),
    Approval(Box<ApprovalView>),
    Namespace(String, Box<NamespaceView>),
    Lease(String, LeaseView),
    Job(Key, Box<JobView>),
    /// A pod of a rule's Job.
    Pod(Key, JobPodView),
    /// Job it is about: reason and message.
    JobEvent(Key, Key, (String, String)),
    Maintenance(Box<MaintenanceView>),
    Plan(Box<PlanView>),
    /// One of the kinds of machines that are replaced.
    Fleet(Box<OfFleet>),
    /// A Plan's Job, and how many pods it has by its own status ([`pods_left`]).
    PlanJob(Key, Box<PlanJobView>, Option<usize>),
    /// A pod of a Plan's Job.
    PlanPod(Key, PlanPodView),
    /// Its hash.
    Secret(Key, String),
    Binding(String, Box<BindingView>),
    /// The node it is on.
    NodePod(String, Box<PodView>),
    DisruptionBudget(Key, Box<DisruptionBudgetView>),
    EtcdPod(Key, EtcdPodView),
    /// A Deployment with the name of an operator that numo replaces.
    Foreign(Key, Box<Deployed>),
    /// Its uid.
    DaemonSet(Key, String),
}

impl Object {
    /// Why it cannot be read, or not all of it.
    pub const fn unread(&self) -> Option<&Unread> {
        match self {
            Self::NotRead(_, unread) | Self::ChangeInPart(_, unread) => Some(unread),
            _ => None,
        }
    }

    /// Where it stands: its key, and the namespace that its watch may be limited to.
    pub fn place(&self) -> (Key, String) {
        let of = |key: &Key| (key.clone(), key.namespace.clone());
        let cluster = |name: &str| (Key::new("", name), String::new());
        match self {
            Self::Node(node, _) => cluster(&node.name),
            Self::Pool(pool) => cluster(&pool.name),
            Self::Config(name, _)
            | Self::Namespace(name, ..)
            | Self::Layered(name, _)
            | Self::Binding(name, _) => cluster(name),
            Self::Machine((_, key), _) | Self::HealthCheck((_, key), _) | Self::RebootLocks(key, ..) => {
                of(key)
            }
            Self::ClusterVersion(_) => cluster("version"),
            Self::Infrastructure(_) => cluster("cluster"),
            Self::Run(run) => of(&run.key),
            Self::Rule(rule) | Self::Unreadable(rule, _) => of(&project::key(&rule.metadata)),
            Self::Target(target) => of(&target.key),
            Self::Change(change) | Self::ChangeInPart(change, _) => of(&change.key),
            Self::Budget(budget) => cluster(&budget.name),
            Self::Window(window) => cluster(&window.name),
            Self::Notifier(notifier) => cluster(&notifier.name),
            Self::Approval(approval) => cluster(&approval.name),
            Self::Lease(node, _) => of(&Key::new(marks::LEASE_NAMESPACE, format!("node-{node}"))),
            Self::Job(key, _)
            | Self::Pod(key, _)
            | Self::JobEvent(key, _, _)
            | Self::PlanJob(key, ..)
            | Self::PlanPod(key, ..)
            | Self::Secret(key, _)
            | Self::DisruptionBudget(key, _)
            | Self::EtcdPod(key, _)
            | Self::DaemonSet(key, _)
            | Self::Foreign(key, _)
            | Self::NotRead(key, _) => of(key),
            Self::Maintenance(view) => cluster(&view.owner.key.name),
            Self::Plan(plan) => of(&plan.key),
            Self::Fleet(found) => of(&found.key()),
            Self::NodePod(_, pod) => of(&pod.key),
        }
    }
}

/// What is known of a Node that no decision needs on each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfNode {
    /// Volumes that are attached.
    pub volumes: Vec<String>,
    /// Its addresses and those of its pods.
    pub networks: Vec<AddressRange>,
    /// What it says of its machine.
    pub host: HostView,
}

/// An object of the kinds of machines that are replaced.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are the kinds")]
pub enum OfFleet {
    NodeVersion(Box<NodeVersionView>),
    ScalingGroup(ScalingGroupView),
    PendingNode(PendingNodeView),
    JoiningNode(JoiningNodeView),
    AutoscalingStrategy(StrategyView),
    /// The Deployment of a cluster autoscaler.
    Autoscaler(Key, AutoscalerView),
}

impl OfFleet {
    /// Namespace and name.
    pub fn key(&self) -> Key {
        match self {
            Self::NodeVersion(view) => Key::new("", view.name.as_str()),
            Self::ScalingGroup(view) => Key::new("", view.name.as_str()),
            Self::PendingNode(view) => Key::new("", view.name.as_str()),
            Self::JoiningNode(view) => Key::new("", view.name.as_str()),
            Self::AutoscalingStrategy(view) => Key::new("", view.name.as_str()),
            Self::Autoscaler(key, _) => key.clone(),
        }
    }
}

/// What is known of a pod of a rule's Job.
#[derive(Clone, Debug)]
pub struct JobPodView {
    /// The Job.
    pub job: Key,
    /// Id of the run, from its label: that of its Job.
    pub run: String,
    /// Hash of the name of the node, from its label: that of its Job.
    pub node: String,
    /// What keeps it from starting: reason and message.
    pub trouble: Option<(String, String)>,
    /// Since when it is being deleted, if it is.
    pub deleting: Option<Timestamp>,
    /// Whether nothing of it runs any more.
    pub is_over: bool,
}

/// What is known of a pod of a Plan's Job.
#[derive(Clone, Debug)]
pub struct PlanPodView {
    /// The Job.
    pub job: Key,
    /// The container that runs.
    pub runs: Option<String>,
    /// What keeps it from starting: reason and message.
    pub trouble: Option<(String, String)>,
    /// Whether a kubelet has taken it up.
    pub taken_up: bool,
}

/// A Deployment with the name of an operator that numo replaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployed {
    /// What that operator works on.
    pub what: ForeignController,
    /// The ServiceAccount of its pods.
    pub account: String,
    /// `spec.selector`.
    pub selector: Value,
    /// Whether it runs, or is about to.
    pub runs: bool,
}

/// Namespaces that an annotation may list.
pub const NAMESPACES_LISTED: usize = 1000;

/// What matters of a Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceView {
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether Plans are watched in it, by its label.
    pub plans: bool,
    /// Namespaces whose rules may run their Jobs in it, by its annotation; at most [`NAMESPACES_LISTED`].
    pub rule_jobs_from: BTreeSet<String>,
}
