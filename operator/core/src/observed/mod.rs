//! What was seen: slim views of every object a decision reads. Plain data; nothing here decides.
//!
//! Views hold only the fields in use, so that an update that changes nothing else (a heartbeat) compares
//! equal and never reaches a decision.

mod amount;
mod approval;
mod budget;
mod change;
mod fleet;
mod job;
mod jobs;
mod listed;
mod node;
mod openshift;
mod owner;
mod owners;
mod pod;
mod rule;
mod settings;

pub use self::{
    amount::IntOrPercent,
    approval::ApprovalView,
    budget::{BindingView, BudgetView, WindowView},
    change::{ChangeView, LeaseView},
    fleet::{
        AUTOSCALER_NAME, AUTOSCALER_NAMESPACE, AutoscalerView, DISCOVERY_SECONDS, FleetQuestion, FleetView,
        GroupFacts, Heard, HostView, JoiningNodeView, MOST_AUTOSCALERS, MachineFacts, MadeMachine,
        NodeVersionView, POLL_SECONDS, PendingNodeView, ProviderView, ScalingGroupView, StrategyView, Told,
        ToldImage, is_same,
    },
    job::{JobEnd, JobView, PlanJobView},
    jobs::Jobs,
    node::{Annotated, EtcdVoter, Leaving, MachineApi, MachineView, NodeView, RebootLock},
    openshift::{ClusterVersionView, ConfigView, PoolView},
    owner::{ChannelView, MaintenanceView, OwnerView, PlanView, RunConfigView, TargetView},
    pod::{DisruptionBudgetView, EtcdPodView, EvictionView, PodView, Returned, Said},
    rule::{EVALUATED_PASS_SECONDS, EvaluationView, RuleAnswer, RuleView, RuleWords, Validity},
    settings::{PlanJobSettings, Settings},
};
use crate::owner::{Owner, OwnerKind};
pub use crate::{
    key::{Key, Map},
    owner::ForeignController,
    pairs::{Pairs, Values},
};
use jiff::Timestamp;
use numo_api::{PutBack, marks};
use std::collections::{BTreeMap, BTreeSet};

/// How the list of etcd's pods is known among those that fail: pods of other kinds have lists of their own, which say nothing of these.
pub const ETCD_PODS: &str = "pods of etcd";

/// All that was seen at one time.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The NodeChange kind is of an older numo and drops what it does not know of a journal.
    pub forgets_waits: bool,
    /// Nodes by name.
    pub nodes: BTreeMap<String, NodeView>,
    /// MachineConfigPools by name.
    pub pools: BTreeMap<String, PoolView>,
    /// Rendered MachineConfigs by name.
    pub configs: BTreeMap<String, ConfigView>,
    /// The ClusterVersion `version`.
    pub cluster_version: Option<ClusterVersionView>,
    /// `status.controlPlaneTopology` of the Infrastructure `cluster`.
    pub control_plane_topology: Option<String>,
    /// MutexRunConfigs.
    pub runs: BTreeMap<Key, RunConfigView>,
    /// MachineOSConfigs by name: the pool whose nodes run an image that is built on the cluster.
    pub layered: BTreeMap<String, String>,
    /// Machines.
    pub machines: BTreeMap<(MachineApi, Key), MachineView>,
    /// MachineHealthChecks.
    pub health_checks: BTreeMap<(MachineApi, Key), Annotated>,
    /// kured's DaemonSets: the nodes that hold a reboot lock of theirs.
    pub reboot_locks: BTreeMap<Key, Vec<RebootLock>>,
    /// MutexRules.
    pub rules: BTreeMap<Key, RuleView>,
    /// MutexTargets.
    pub targets: BTreeMap<Key, TargetView>,
    /// Jobs that numo created.
    pub jobs: Jobs,
    /// NodeChanges.
    pub changes: BTreeMap<Key, ChangeView>,
    /// MutexBudgets by name.
    pub budgets: BTreeMap<String, BudgetView>,
    /// MutexWindows by name.
    pub windows: BTreeMap<String, WindowView>,
    /// MutexApprovals by name.
    pub approvals: BTreeMap<String, ApprovalView>,
    /// Node leases by node name.
    pub leases: BTreeMap<String, LeaseView>,
    /// Namespaces by name: whether they are being deleted.
    pub namespaces: BTreeMap<String, bool>,
    /// Namespaces that an administrator labelled for Plans.
    pub plan_namespaces: BTreeSet<String>,
    /// Namespaces that take Jobs of rules of other namespaces: which ones, by their annotation [`numo_api::marks::RULE_JOBS_FROM`].
    pub rule_jobs_from: BTreeMap<String, BTreeSet<String>>,
    /// How the operator was told to behave.
    pub settings: Settings,
    /// Writes that the API server refused for a reason a user must hear of, by what they were about.
    pub refusals: BTreeMap<Key, Refusal>,
    /// How often this process has put the finalizer on an owner of late, by its uid.
    pub finalizers: BTreeMap<String, PutBack>,
    /// NodeMaintenances of both groups.
    pub maintenances: BTreeMap<Owner, MaintenanceView>,
    /// MutexBindings by name.
    pub bindings: BTreeMap<String, BindingView>,
    /// The pods of nodes that are being drained or kept drained, by node. A node that is missing has not been looked
    /// at; nobody may take it for empty.
    pub pods: BTreeMap<String, BTreeMap<Key, PodView>>,
    /// Volumes that are attached to nodes (`status.volumesAttached`), by node; none where there are none. Beside the
    /// nodes, as they change often and matter to a drain alone.
    pub volumes: BTreeMap<String, Vec<String>>,
    /// uids of the DaemonSets (apps/v1) that exist.
    pub daemon_sets: BTreeSet<String>,
    /// PodDisruptionBudgets.
    pub disruption_budgets: BTreeMap<Key, DisruptionBudgetView>,
    /// What came of evictions, by the pod's uid.
    pub evictions: BTreeMap<String, EvictionView>,
    /// How often pods came back to a node that was cordoned, by node and controller.
    pub returns: BTreeMap<(String, String), Returned>,
    /// Static pods of etcd, and on OpenShift its guards: the nodes they are on.
    pub etcd_pods: BTreeMap<Key, EtcdPodView>,
    /// Operators that numo replaces and that are live, by their Deployment.
    pub foreign_controllers: BTreeMap<Key, Rival>,
    /// Plans.
    pub plans: BTreeMap<Key, PlanView>,
    /// Jobs of Plans.
    pub plan_jobs: BTreeMap<Key, PlanJobView>,
    /// What the channels of Plans answered, by Plan.
    pub channels: BTreeMap<Key, ChannelView>,
    /// Hashes of the Secrets in namespaces with Plans that use some, as kubectl makes them.
    pub secrets: BTreeMap<Key, String>,
    /// Namespaces whose Secrets are not known: not listed yet, or not to be seen, with the words for it.
    pub unseen_secrets: BTreeMap<String, Option<String>>,
    /// Kinds (their plural, with the group where two groups have it) that were listed once and cannot be listed now, with the words for it.
    /// What was seen last of them is kept.
    pub unlisted: BTreeMap<&'static str, String>,
    /// Kinds (the same) that not every cluster has, and that were not served when numo began, and not since, with the words for it. Those of
    /// OpenShift's are so, as it should be, where there is no OpenShift.
    pub absent: BTreeMap<&'static str, String>,
    /// Objects of numo's own kinds and of owners that are there and cannot be read, by the plural of their kind. What was
    /// seen of one before is kept; after a restart that is nothing.
    pub unread: BTreeMap<(&'static str, Key), Unread>,
    /// Namespaces with Plans whose Jobs may not be seen, with the words for it.
    pub unseen_plan_jobs: BTreeMap<String, String>,
    /// Machines that are replaced.
    pub fleet: FleetView,
    /// Evaluations of rules that are asked by their key ([`crate::names::evaluation`]): under way, or as they ended last.
    pub evaluations: BTreeMap<String, EvaluationView>,
}

impl Observed {
    /// Whether a NodeChange can be believed: it is where those of its owner are, and only numo and those may write whom an administrator
    /// trusts with node changes. Elsewhere anyone could have made it.
    pub fn is_trusted(&self, change: &ChangeView) -> bool {
        let (namespace, owner) = (&change.key.namespace, &change.spec.owner_ref);
        // Whose owner is named without a namespace is of one beside it, and its owner goes by it: its node counts.
        let is_beside = || owner.namespace.as_ref().is_none_or(|named| named == namespace);
        let is_of_owner = || is_beside() && OwnerKind::of(owner).is_none_or(OwnerKind::is_namespaced);
        let is_watched = || self.watches_runs(namespace) || self.watches_plans(namespace);
        *namespace == self.settings.namespace || is_of_owner() && is_watched()
    }

    /// The NodeChanges that can be believed, of whatever owner. The command line, which takes back what is left and does not know where the
    /// operator's are, believes all: what may be under way stays.
    pub fn journals(&self) -> impl Iterator<Item = &ChangeView> {
        let all = self.changes.values();
        all.filter(|change| self.settings.only_looks || self.is_trusted(change))
    }

    /// Whether MutexRunConfigs are watched in a namespace.
    fn watches_runs(&self, namespace: &str) -> bool {
        let settings = &self.settings;
        namespace == settings.namespace || settings.run_namespaces.iter().any(|named| named == namespace)
    }

    /// The MutexRunConfig of this uid, if it is there and cannot be read.
    pub fn unread_run(&self, uid: &str) -> Option<&Key> {
        let mut unread = self.unread.iter();
        let found = unread.find(|((plural, _), unread)| *plural == "mutexrunconfigs" && unread.uid == uid);
        found.map(|((_, key), _)| key)
    }

    /// Whether Plans are watched in a namespace: by a flag, or by a label that only those may set who may write
    /// Namespaces.
    pub fn watches_plans(&self, namespace: &str) -> bool {
        let settings = &self.settings;
        namespace == settings.namespace
            || settings.plan_namespaces.iter().any(|named| named == namespace)
            || self.plan_namespaces.contains(namespace)
    }

    /// Whether a Plan stands in the operator's own namespace. Plans are watched there in any case.
    pub fn has_plans_at_home(&self) -> bool {
        let own = &self.settings.namespace;
        self.plans.keys().any(|key| key.namespace == *own)
    }

    /// The turns that nodes have now, with whatever owner, and that take them out of service.
    pub fn turns(&self) -> impl Iterator<Item = &ChangeView> {
        self.changing().filter(|change| !change.spec.in_service)
    }

    /// The changes of nodes that are under way, with whatever owner: NodeChanges that can be believed, of nodes that
    /// exist.
    pub fn changing(&self) -> impl Iterator<Item = &ChangeView> {
        let all = self.changes.values();
        let all = all.filter(|change| self.is_under_way(change) && self.is_trusted(change));
        all.filter(|change| self.node_of(change).is_some())
    }

    /// Whether the node of a change has its turn. Where the status was copied, nothing of it says so: the turn goes on while its owner has its
    /// shield on the node, or the lease of it, unless another journal tells more.
    pub fn is_under_way(&self, change: &ChangeView) -> bool {
        let (spec, uid) = (&change.spec, change.spec.owner_ref.uid.as_str());
        let is_kept = |node: &NodeView| {
            let lease = self.leases.get(&node.name).filter(|lease| lease.by_numo);
            node.annotation(marks::SHIELDED_BY).contains(uid)
                || lease.is_some_and(|lease| lease.holder.ends_with(uid))
        };
        let tells_more = |other: &ChangeView| {
            let of = (&other.spec.node_uid, &other.spec.owner_ref.uid);
            let is_of_it = of == (&spec.node_uid, &spec.owner_ref.uid) && other.key != change.key;
            is_of_it && (other.in_flight() || other.created > change.created)
        };
        let is_copied = change.is_copied() && !uid.is_empty();
        let is_kept = || is_copied && self.node_of(change).is_some_and(is_kept);
        change.in_flight() || is_kept() && !self.journals().any(tells_more)
    }

    /// The node that a change is of. None where it is gone, even if another node has its name by now: a name is given again, a uid is not.
    pub fn node_of(&self, change: &ChangeView) -> Option<&NodeView> {
        let node = self.nodes.get(&change.spec.node_name)?;
        (node.uid == change.spec.node_uid).then_some(node)
    }

    /// Whether this owner, by uid, pauses all MachineHealthChecks while a node of its is in flight, or none; none where it says neither.
    pub fn told_to_pause(&self, owner_uid: &str) -> Option<bool> {
        let run = self.runs.values().find(|run| run.uid == owner_uid)?;
        run.spec.pause_health_checks
    }

    /// The turn that the node has with an owner other than this one, in service or not, if it has one.
    pub fn turn_of_other(&self, node: &NodeView, owner_uid: &str) -> Option<&ChangeView> {
        let mut turns = self.changing();
        turns.find(|change| change.spec.node_name == node.name && change.spec.owner_ref.uid != owner_uid)
    }

    /// Whether a Machine is that of the node it names. Anybody with a namespace may make a Machine that names a node, and one of another
    /// cluster may name a node that is called the same: only the Machine counts that the node names too.
    pub fn is_machine_of(&self, (api, key): &(MachineApi, Key), node: &str) -> bool {
        let Some(node) = self.nodes.get(node) else {
            return false;
        };
        match api {
            MachineApi::OpenShift => node.annotation(marks::OPENSHIFT_MACHINE) == key.to_string(),
            MachineApi::ClusterApi => {
                node.annotation(marks::CLUSTER_API_MACHINE) == key.name
                    && node.annotation(marks::CLUSTER_API_NAMESPACE) == key.namespace
            }
        }
    }

    /// The Machines of a node, one as a rule: those that it names, and that name it.
    pub fn machines_of(&self, node: &str) -> impl Iterator<Item = (&(MachineApi, Key), &MachineView)> {
        let named = self.nodes.get(node).into_iter().flat_map(|node| {
            let of_openshift = node.annotation(marks::OPENSHIFT_MACHINE);
            let (namespace, name) = of_openshift.split_once('/').unwrap_or_default();
            let of_cluster_api = node.annotation(marks::CLUSTER_API_NAMESPACE);
            let of_cluster_api = Key::new(of_cluster_api, node.annotation(marks::CLUSTER_API_MACHINE));
            let of_openshift = (MachineApi::OpenShift, Key::new(namespace, name));
            [of_openshift, (MachineApi::ClusterApi, of_cluster_api)]
        });
        let machines = named.filter_map(|place| self.machines.get_key_value(&place));
        machines.filter(move |(_, machine)| machine.node == node)
    }

    /// The Machines that are those of the nodes they name.
    pub fn machines_of_nodes(&self) -> impl Iterator<Item = (&(MachineApi, Key), &MachineView)> {
        let all = self.machines.iter();
        all.filter(|(place, machine)| self.is_machine_of(place, &machine.node))
    }

    /// Nodes that someone else is about to take away or reboot, as other objects than the Node tell: its Machine
    /// is being deleted, or it holds kured's lock. Nodes by name, with the words for it.
    pub fn taken(&self, now: Timestamp) -> BTreeMap<&str, Leaving> {
        // Few are being deleted, and whose Machine one is costs more to find out.
        let machines = self.machines.iter().filter(|(_, machine)| machine.deleting);
        let machines = machines.filter(|(place, machine)| self.is_machine_of(place, &machine.node));
        let machines = machines.map(|((_, key), machine)| {
            let leaving = Leaving {
                why: format!("its Machine {key} is being deleted"),
                since: machine.deleting_since,
            };
            (machine.node.as_str(), leaving)
        });
        let locks = self.reboot_locks.iter().flat_map(|(key, locks)| {
            let held = locks
                .iter()
                .filter(|lock| lock.until.is_none_or(|until| until > now));
            held.map(move |lock| {
                let leaving = Leaving {
                    why: format!("it holds the reboot lock of kured (DaemonSet {key})"),
                    // It is believed for a time only, and over by itself then.
                    since: None,
                };
                (lock.node.as_str(), leaving)
            })
        });
        locks.chain(machines).collect()
    }
}

/// An operator that numo replaces, and that is live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// What it works on.
    pub what: ForeignController,
    /// What is left of it, where its Deployment is at 0 or deleted; none where that runs.
    pub lingers: Option<String>,
}

/// A write that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// The API server's words.
    pub message: String,
    /// When.
    pub at: Timestamp,
    /// Since when it was refused each time, with no long pause between.
    pub since: Timestamp,
}

/// An object that is there and cannot be read: an older numo does not know a value of it, or it is too large.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Its uid.
    pub uid: String,
    /// What is wrong with it.
    pub words: String,
}
