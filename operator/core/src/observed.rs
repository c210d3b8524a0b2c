//! What was seen: slim views of every object a decision reads. Plain data; nothing here decides.
//!
//! Views hold only the fields in use, so that an update that changes nothing else (a heartbeat) compares
//! equal and never reaches a decision.

pub use crate::key::Key;
use crate::{
    admit::{hours::Hours, window::Window},
    owner::{Owner, OwnerKind},
    time::later,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    FailurePolicy, MutexBindingSpec, MutexBindingStatus, MutexBudgetStatus, MutexRunConfigSpec,
    MutexRunConfigStatus, MutexTargetStatus, NodeChangeSpec, NodeChangeStatus, NodeMaintenanceSpec,
    NodeMaintenanceStatus, Phase, Placement, PlanSpec, PlanStatus, Reason, Step, marks,
    mutex_run_config::WaitCount,
};
use std::collections::{BTreeMap, BTreeSet};

/// Labels or annotations.
pub type Map = BTreeMap<String, String>;

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
    pub jobs: BTreeMap<Key, JobView>,
    /// NodeChanges.
    pub changes: BTreeMap<Key, ChangeView>,
    /// MutexBudgets by name.
    pub budgets: BTreeMap<String, BudgetView>,
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
    /// Kinds (their plural) that were listed once and cannot be listed now, with the words for it. What was seen last of
    /// them is kept.
    pub unlisted: BTreeMap<&'static str, String>,
    /// Kinds of OpenShift's (their plural) that were not served when numo began, and not since, with the words for it. That
    /// is as it should be where there is no OpenShift.
    pub absent: BTreeMap<&'static str, String>,
    /// Objects of numo's own kinds and of owners that are there and cannot be read, by the plural of their kind. What was
    /// seen of one before is kept; after a restart that is nothing.
    pub unread: BTreeMap<(&'static str, Key), Unread>,
    /// Namespaces with Plans whose Jobs may not be seen, with the words for it.
    pub unseen_plan_jobs: BTreeMap<String, String>,
    /// Evaluations of rules that are asked by their key ([`crate::names::evaluation`]): under way, or as they ended last.
    pub evaluations: BTreeMap<String, EvaluationView>,
}

impl Observed {
    /// Whether a NodeChange can be believed: it is where only numo and those may write whom an administrator trusts with
    /// node changes. Elsewhere anyone could have made it.
    pub fn is_trusted(&self, change: &ChangeView) -> bool {
        let namespace = &change.key.namespace;
        self.watches_runs(namespace) || self.watches_plans(namespace)
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
        self.changes.values().filter(|change| {
            let spec = &change.spec;
            change.in_flight()
                && self.is_trusted(change)
                && self
                    .nodes
                    .get(&spec.node_name)
                    .is_some_and(|node| node.uid == spec.node_uid)
        })
    }

    /// The owners, by uid, that pause the MachineHealthChecks that see their nodes in flight: each does, unless a MutexRunConfig says
    /// otherwise.
    pub fn pause_health_checks(&self) -> BTreeSet<&str> {
        let runs = self.runs.values();
        let runs = runs.filter(|run| run.spec.pause_health_checks != Some(false));
        let plans = self.plans.values().map(|plan| plan.uid.as_str());
        let maintenances = self.maintenances.values().map(|view| view.uid.as_str());
        runs.map(|run| run.uid.as_str())
            .chain(plans)
            .chain(maintenances)
            .collect()
    }

    /// The turn that the node has with an owner other than this one, in service or not, if it has one.
    pub fn turn_of_other(&self, node: &NodeView, owner_uid: &str) -> Option<&ChangeView> {
        let mut turns = self.changing();
        turns.find(|change| change.spec.node_name == node.name && change.spec.owner_ref.uid != owner_uid)
    }

    /// What every owner has, if it was seen.
    pub fn owner(&self, owner: &Owner) -> Option<OwnerView<'_>> {
        Some(match owner.kind {
            OwnerKind::MutexRunConfig => self.runs.get(&owner.key)?.into(),
            OwnerKind::NodeMaintenance(_) => self.maintenances.get(owner)?.into(),
            OwnerKind::Plan => self.plans.get(&owner.key)?.into(),
        })
    }

    /// uid of an owner, if it was seen.
    pub fn uid_of(&self, owner: &Owner) -> Option<&str> {
        Some(self.owner(owner)?.uid)
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

    /// The Machines that are those of the nodes they name.
    pub fn machines_of_nodes(&self) -> impl Iterator<Item = (&(MachineApi, Key), &MachineView)> {
        let all = self.machines.iter();
        all.filter(|(place, machine)| self.is_machine_of(place, &machine.node))
    }

    /// Nodes that someone else is about to take away or reboot, as other objects than the Node tell: its Machine
    /// is being deleted, or it holds kured's lock. Nodes by name, with the words for it.
    pub fn taken(&self, now: Timestamp) -> BTreeMap<&str, Leaving> {
        let machines = self.machines_of_nodes().filter(|(_, machine)| machine.deleting);
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

/// How the operator was told to behave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The operator's own namespace.
    pub namespace: String,
    /// The operator's own ServiceAccount, in its own namespace.
    pub service_account: String,
    /// Namespaces besides its own in which MutexRunConfigs are watched.
    pub run_namespaces: Vec<String>,
    /// Namespaces besides its own in which Plans are watched.
    pub plan_namespaces: Vec<String>,
    /// It is decided for people to read, and nothing is written: what only the operator may see is as the status has it.
    pub only_looks: bool,
    /// How the Jobs of Plans are made.
    pub plan_jobs: PlanJobSettings,
    /// The operator's own pod, where it runs in one.
    pub own_pod: Option<Key>,
    /// Whether node leases can be had; false after the API server refused one for want of the namespace
    /// or the right.
    pub leases_unavailable: Option<String>,
}

/// How the Jobs of Plans are made: what system-upgrade-controller is told by its environment
/// (`spec/system-upgrade-controller.md` §2), with its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanJobSettings {
    /// Value of the label `upgrade.cattle.io/controller`, and component of events.
    pub controller: String,
    /// `activeDeadlineSeconds` of Jobs whose Plan says nothing.
    pub active_deadline_seconds: i64,
    /// The most it may be; 0 is without limit.
    pub active_deadline_seconds_max: i64,
    /// `backoffLimit`.
    pub backoff_limit: i64,
    /// Image that cordons and drains.
    pub kubectl_image: String,
    /// The same on Windows; empty refuses such Plans there.
    pub kubectl_image_windows: String,
    /// Whether the container `upgrade` is privileged.
    pub privileged: bool,
    /// `imagePullPolicy`.
    pub image_pull_policy: String,
    /// `ttlSecondsAfterFinished`.
    pub ttl_seconds_after_finished: i64,
    /// `podReplacementPolicy`.
    pub pod_replacement_policy: String,
    /// How often channels are asked (seconds).
    pub polling_seconds: i64,
}

impl Default for PlanJobSettings {
    fn default() -> Self {
        Self {
            controller: "system-upgrade-controller".to_owned(),
            active_deadline_seconds: 600,
            active_deadline_seconds_max: 0,
            backoff_limit: 2,
            kubectl_image: "rancher/kubectl:v1.30.3".to_owned(),
            kubectl_image_windows: String::new(),
            privileged: true,
            image_pull_policy: "IfNotPresent".to_owned(),
            ttl_seconds_after_finished: 900,
            pod_replacement_policy: "TerminatingOrFailed".to_owned(),
            polling_seconds: 15 * 60,
        }
    }
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
}

/// A Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// Creation time.
    pub created: Timestamp,
    /// All labels.
    pub labels: Map,
    /// The annotations in use: OpenShift's and ours.
    pub annotations: Map,
    /// Whether the object has any annotation at all: a patch of one that has none makes the whole map.
    pub has_annotations: bool,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `spec.taints` as given; null if there are none.
    pub taints: serde_json::Value,
    /// Ready by the MCO's rule: Ready is True, no disk pressure, network available.
    pub ready: bool,
    /// Since when the condition that makes it not Ready stands, where it is not Ready and the condition says so.
    pub not_ready_since: Option<Timestamp>,
    /// Why it is being taken away, if it is: deletion timestamp or an autoscaler's taint.
    pub leaving: Option<Leaving>,
    /// `status.nodeInfo.bootID`: another one after each boot.
    pub boot_id: String,
    /// `status.nodeInfo.kubeletVersion`.
    pub kubelet_version: String,
    /// Condition `EtcdIsVoter`, as RKE2 and k3s set it: whether it holds a vote.
    pub etcd_voter: Option<bool>,
}

impl NodeView {
    /// An annotation, or "" where it is absent or empty.
    pub fn annotation(&self, key: &str) -> &str {
        self.annotations.get(key).map_or("", String::as_str)
    }

    /// A label, or "" where it is absent or empty.
    pub fn label(&self, key: &str) -> &str {
        self.labels.get(key).map_or("", String::as_str)
    }
}

/// Whose Machines: OpenShift's (`machine.openshift.io`) or Cluster API's (`cluster.x-k8s.io`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineApi {
    /// `machine.openshift.io/v1beta1`.
    OpenShift,
    /// `cluster.x-k8s.io/v1beta1`.
    ClusterApi,
}

/// A Machine: what a node runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineView {
    /// The object.
    pub object: Annotated,
    /// `status.nodeRef.name`; empty before a node has joined.
    pub node: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Since when it is being deleted, if it is and says so.
    pub deleting_since: Option<Timestamp>,
}

/// How somebody takes a node away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// What tells of it, as a clause.
    pub why: String,
    /// Since when, where that is told.
    pub since: Option<Timestamp>,
}

/// An object of the machine API, as far as numo may write to it: its annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotated {
    /// uid.
    pub uid: String,
    /// The annotations in use: ours, and the shield's or the pause's.
    pub annotations: Map,
    /// Whether the object has any annotation at all.
    pub has_annotations: bool,
    /// The labels of a Machine: what the selectors of MachineHealthChecks speak of.
    pub labels: Map,
    /// `spec.selector` of a MachineHealthCheck; null for a Machine.
    pub selector: serde_json::Value,
}

/// A node that holds a reboot lock of kured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebootLock {
    /// Name of the node.
    pub node: String,
    /// When the lock ends by itself, if it does.
    pub until: Option<Timestamp>,
}

/// A MachineConfigPool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolView {
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// Whether the object has any annotation at all: a patch must not replace what it does not see.
    pub has_annotations: bool,
    /// `spec.paused`.
    pub paused: bool,
    /// Field manager that wrote `spec.paused` last.
    pub paused_manager: Option<String>,
    /// Field manager that wrote `spec.nodeSelector` last.
    pub selector_manager: Option<String>,
    /// `spec.nodeSelector` as given.
    pub selector: serde_json::Value,
    /// `spec.configuration.name`.
    pub config: String,
    /// `spec.maxUnavailable`.
    pub max_unavailable: Option<IntOrPercent>,
    /// What its condition `RenderDegraded` says while that is True.
    pub render_degraded: Option<String>,
}

/// A number or a percentage of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// A number.
    Int(i64),
    /// A percentage.
    Percent(i64),
}

impl IntOrPercent {
    /// Parses `3`, `"3"` or `"25%"`; the error says what was found and what is wanted.
    pub fn parse(value: &serde_json::Value) -> Result<Self, String> {
        let wrong =
            || format!("found {value}, wanted a whole number such as 2 or a percentage such as \"25%\"");
        match value {
            serde_json::Value::Number(number) => number
                .as_i64()
                .filter(|n| *n >= 0)
                .map(Self::Int)
                .ok_or_else(wrong),
            serde_json::Value::String(text) => match text.strip_suffix('%') {
                Some(percent) => percent
                    .parse()
                    .ok()
                    .filter(|p| (0..=100).contains(p))
                    .map(Self::Percent),
                None => text.parse().ok().filter(|n| *n >= 0).map(Self::Int),
            }
            .ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }

    /// How many of `total`: percentages are rounded down, and whatever is not a literal 0 allows at
    /// least 1.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Int(number) => usize::try_from(number).unwrap_or(0),
            Self::Percent(percent) => (total * usize::try_from(percent).unwrap_or(0) / 100).max(1),
        }
    }
}

/// A MachineConfig, by metadata only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigView {
    /// The OpenShift version it was rendered for.
    pub version: Option<String>,
}

/// The ClusterVersion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterVersionView {
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// `spec.desiredUpdate.version`.
    pub desired_update: Option<String>,
    /// `spec.desiredUpdate` is given, by version or image.
    pub has_desired_update: bool,
    /// `status.desired.version`.
    pub desired: String,
    /// `status.history[0]`: state and version.
    pub latest: Option<(String, String)>,
    /// What its condition `ReleaseAccepted` says while that is False.
    pub not_accepted: Option<String>,
    /// What its condition `Failing` says while that is True.
    pub failing: Option<String>,
}

impl ClusterVersionView {
    /// What is asked for, as it is written: `spec.desiredUpdate.version`, else `status.desired.version`.
    pub fn asked_for(&self) -> &str {
        self.desired_update
            .as_ref()
            .filter(|version| !version.is_empty())
            .unwrap_or(&self.desired)
    }
}

/// A MutexRunConfig.
#[derive(Clone, Debug, PartialEq)]
pub struct RunConfigView {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Creation time.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// The spec.
    pub spec: MutexRunConfigSpec,
    /// `spec.window`, understood or not.
    pub hours: Option<Result<Hours, String>>,
    /// numo's own check of the workloads that leave a node, as the spec sets it; none where nobody can ask it.
    pub workloads_check: Option<Box<RuleView>>,
    /// What of it this numo cannot read, in words: the rest of the spec holds its pools.
    pub misread: Option<String>,
    /// Part of its status was written by a later numo: nothing is written over it.
    pub keeps_status: bool,
    /// The status last written.
    pub status: MutexRunConfigStatus,
}

/// What every owner has, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub struct OwnerView<'a> {
    /// uid.
    pub uid: &'a str,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The annotations in use: ours.
    pub annotations: &'a Map,
    /// Its spec says that it is to begin nothing.
    pub suspended: bool,
    /// Since when nodes wait for what should end by itself, as its status remembers.
    pub waiting: &'a [WaitCount],
}

impl<'a> From<&'a RunConfigView> for OwnerView<'a> {
    fn from(run: &'a RunConfigView) -> Self {
        Self {
            uid: &run.uid,
            deleting: run.deleting,
            annotations: &run.annotations,
            suspended: run.spec.suspend == Some(true),
            waiting: run.status.run.as_ref().map_or(&[], |run| &run.waiting),
        }
    }
}

impl<'a> From<&'a MaintenanceView> for OwnerView<'a> {
    fn from(view: &'a MaintenanceView) -> Self {
        Self {
            uid: &view.uid,
            deleting: view.deleting,
            annotations: &view.annotations,
            suspended: false,
            waiting: &[],
        }
    }
}

impl<'a> From<&'a PlanView> for OwnerView<'a> {
    fn from(view: &'a PlanView) -> Self {
        Self {
            uid: &view.uid,
            deleting: view.deleting,
            annotations: &view.annotations,
            suspended: false,
            waiting: &[],
        }
    }
}

/// Default of `passSeconds` of a rule that is evaluated (seconds).
pub const EVALUATED_PASS_SECONDS: i64 = 60;

/// A MutexRule, with what the API server said about its Jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleView {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Prefix of the Jobs' names.
    pub job_name: String,
    /// Namespace of the Jobs.
    pub job_namespace: String,
    /// ServiceAccounts that the Jobs run as, as their pods' templates name them; empty where they name none.
    pub job_accounts: Vec<String>,
    /// Whether `jobSpec` is given.
    pub has_job: bool,
    /// Whether `cleanUpJobSpec` is given.
    pub has_clean_up_job: bool,
    /// Whether it is asked by numo itself, and runs no Job.
    pub is_asked: bool,
    /// `timeoutSeconds`, with its default.
    pub timeout_seconds: i64,
    /// `passSeconds`, with its default: how old a Pass may be when a node is let go on it (seconds).
    pub pass_seconds: i64,
    /// `retries`, with its default.
    pub retries: i32,
    /// `failurePolicy`, with its default.
    pub failure_policy: FailurePolicy,
    /// `phases`, with its default.
    pub phases: Vec<Phase>,
    /// `placement`, with its default.
    pub placement: Placement,
    /// `logTailBytes`, with its default (bytes).
    pub log_tail_bytes: usize,
    /// What is known of its validity.
    pub validity: Validity,
}

impl RuleView {
    /// What tells this edition of the rule from any other: its uid and generation.
    pub fn edition(&self) -> String {
        format!("{}/{}", self.uid, self.generation)
    }

    /// Whether the rule has something to run in this phase.
    pub fn runs_in(&self, phase: Phase) -> bool {
        ((self.has_job || self.is_asked) && self.phases.contains(&phase))
            || (phase == Phase::Post && self.has_clean_up_job)
    }
}

/// One attempt of a rule that is asked, which may be asked many times until it passes or blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationView {
    /// The rule.
    pub rule: Key,
    /// The rule's generation that was asked last.
    pub generation: i64,
    /// When it was asked for the first time, or anew: a Pass that nobody could go on did not make the node wait.
    pub first_asked: Timestamp,
    /// Whether its time began anew with `first_asked`, whatever is written down.
    pub anew: bool,
    /// When it was asked last.
    pub asked: Timestamp,
    /// Whether an answer is under way.
    pub under_way: bool,
    /// What it said last, and when.
    pub answer: Option<(Timestamp, RuleAnswer)>,
    /// The last Wait of this attempt, and when it was said.
    pub waited: Option<(Timestamp, RuleWords)>,
    /// How often in a row it gave no verdict.
    pub failures: u32,
    /// Whether something that it read has changed since it was asked.
    pub stirred: bool,
    /// How often that has happened in this attempt.
    pub stirs: u32,
}

/// What came of asking a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAnswer {
    /// The step may be taken.
    Pass(RuleWords),
    /// Not now; ask again after so many seconds.
    Wait(RuleWords, i64),
    /// The step must not be taken.
    Block(RuleWords),
    /// It gave no verdict, and why; never a pass.
    NoVerdict(numo_api::Reason, String),
}

impl RuleAnswer {
    /// Which of the four.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pass(_) => "pass",
            Self::Wait(..) => "wait",
            Self::Block(_) => "block",
            Self::NoVerdict(..) => "none",
        }
    }
}

/// The rule's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleWords {
    /// CamelCase.
    pub reason: String,
    /// One sentence.
    pub summary: String,
    /// What it reads back in later phases: JSON, 16 KiB at most.
    pub data: Option<String>,
    /// What it found, each with its object, and how far it is, for people; empty if it says nothing of that.
    pub found: String,
}

impl RuleWords {
    /// Reason, sentence, and what was found.
    pub fn shown(&self) -> String {
        let Self {
            reason,
            summary,
            found,
            ..
        } = self;
        if found.is_empty() {
            format!("{reason}: {summary}")
        } else {
            format!("{reason}: {summary} [{found}]")
        }
    }
}

/// What is known of a rule's validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    /// The API server has not been asked yet.
    Unknown,
    /// The API server accepts the Jobs.
    Valid,
    /// It does not, and why.
    Invalid(numo_api::Reason, String),
}

/// A MutexTarget.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetView {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.machineConfigPools`.
    pub pools: Vec<String>,
    /// The status last written.
    pub status: MutexTargetStatus,
}

/// A Job numo created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// uid.
    pub uid: String,
    /// Creation time.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Id of the run, from its label.
    pub run: String,
    /// Edition of the rule that it was made from, from numo's annotation; empty where that is absent.
    pub edition: String,
    /// How it ended, if it has.
    pub ended: Option<JobEnd>,
    /// When it ended, if it has and says so.
    pub ended_at: Option<Timestamp>,
    /// Number of its pods that are running or have run.
    pub started: bool,
    /// `spec.ttlSecondsAfterFinished`.
    pub ttl_seconds: Option<i64>,
    /// The TTL the user asked for, from numo's annotation.
    pub wanted_ttl_seconds: Option<i64>,
    /// What keeps it from starting a pod, if something does: reason and message.
    pub trouble: Option<(String, String)>,
}

/// How a Job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// Condition Complete.
    Complete,
    /// Condition Failed: reason and message.
    Failed(String, String),
}

/// A NodeChange.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeView {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// resourceVersion the journal was read at: a journal is written only over what was read.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Creation time.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// The spec.
    pub spec: NodeChangeSpec,
    /// The journal.
    pub status: NodeChangeStatus,
}

impl ChangeView {
    /// Whether the node still has its turn. A NodeChange that a person made, to say something about a
    /// node that waits, is no turn; one of a turn goes on, whatever a person writes before its first step.
    pub fn in_flight(&self) -> bool {
        match self.status.step {
            None => self.spec.directive.is_none() || self.annotations.contains_key(numo_api::marks::TURN),
            Some(Step::Selected) => false,
            Some(step) => !step.is_terminal(),
        }
    }
}

/// A MutexBudget.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetView {
    /// Name.
    pub name: String,
    /// `spec.nodeSelector` as given; null selects none.
    pub selector: serde_json::Value,
    /// `spec.maxUnavailable`, with its default.
    pub max_unavailable: Result<IntOrPercent, String>,
    /// `spec.groupBy`.
    pub group_by: Option<String>,
    /// `spec.paused`.
    pub paused: bool,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// The status last written.
    pub status: MutexBudgetStatus,
}

/// A MutexBinding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BindingView {
    /// `spec`.
    pub spec: MutexBindingSpec,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.window`, understood or not.
    pub hours: Option<Result<Hours, String>>,
    /// The status last written.
    pub status: MutexBindingStatus,
}

impl From<MutexBindingSpec> for BindingView {
    /// Without a time zone database its hours cannot be understood: where it has some, nothing begins under it.
    fn from(spec: MutexBindingSpec) -> Self {
        let hours = spec.settings.window.as_ref();
        Self {
            hours: hours.map(|_| Err("found hours that nobody has read".to_owned())),
            spec,
            ..Self::default()
        }
    }
}

/// A node lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Who holds it.
    pub holder: String,
    /// When it was renewed last.
    pub renewed: Option<Timestamp>,
    /// How long it holds, in seconds.
    pub duration_seconds: i64,
    /// Whether numo wrote the holder: another operator takes node leases under the same name.
    pub by_numo: bool,
    /// How often it changed hands.
    pub transitions: i64,
    /// uid of the Lease.
    pub uid: String,
    /// resourceVersion it was read at.
    pub resource_version: String,
}

impl LeaseView {
    /// When its holder is to renew it: at half of its duration.
    pub fn renewal(&self) -> Timestamp {
        self.renewed.map_or(Timestamp::UNIX_EPOCH, |at| {
            later(at, self.duration_seconds / 2 + 1)
        })
    }
    /// Whether the lease no longer holds at `now` (the API server's time).
    pub fn expired(&self, now: Timestamp) -> bool {
        self.holder.is_empty()
            || self
                .renewed
                .is_none_or(|at| now.as_second() - at.as_second() > self.duration_seconds)
    }
}

/// A NodeMaintenance.
#[derive(Clone, Debug, PartialEq)]
pub struct MaintenanceView {
    /// Group and name.
    pub owner: Owner,
    /// Field of numo's own that the manifest has which `kubectl apply` remembers, and the object has not: the CRD of
    /// another operator has pruned it.
    pub pruned: Option<&'static str>,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Creation time.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// All labels.
    pub labels: Map,
    /// The spec.
    pub spec: NodeMaintenanceSpec,
    /// The status last written.
    pub status: NodeMaintenanceStatus,
}

/// A Plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanView {
    /// Namespace and name.
    pub key: Key,
    /// Field of numo's own that the manifest has which `kubectl apply` remembers, and the object has not: the CRD of
    /// another operator has pruned it.
    pub pruned: Option<&'static str>,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Creation time.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// Whether the object has any annotation at all.
    pub has_annotations: bool,
    /// All labels.
    pub labels: Map,
    /// Annotations that its Jobs and pods get too.
    pub copied_annotations: Map,
    /// Other annotations that are not numo's, where the digest of the Plan names metadata.
    pub uncopied_annotations: Map,
    /// Annotation `upgrade.cattle.io/digest`: paths of fields whose values go into the hash.
    pub digest: String,
    /// The spec.
    pub spec: PlanSpec,
    /// `spec.nodeSelector` as given; null selects no node.
    pub selector: serde_json::Value,
    /// `spec.window`, understood or not.
    pub window: Option<Result<Window, String>>,
    /// `spec.mutex.window`, understood or not.
    pub hours: Option<Result<Hours, String>>,
    /// The status last written.
    pub status: PlanStatus,
}

/// A Job of a Plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the Job")]
pub struct PlanJobView {
    /// uid.
    pub uid: String,
    /// uid of the Plan that controls it; empty if none does.
    pub plan_uid: String,
    /// Label `upgrade.cattle.io/plan`.
    pub plan: String,
    /// Label `upgrade.cattle.io/node`.
    pub node: String,
    /// Label `upgrade.cattle.io/version`.
    pub version: String,
    /// Label `plan.upgrade.cattle.io/<plan>`.
    pub hash: String,
    /// Whether numo drains, and this Job only prepares for that.
    pub prepares: bool,
    /// Creation time.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// `spec.parallelism: 0`: no pod is started.
    pub paused: bool,
    /// How it ended, if it has.
    pub ended: Option<JobEnd>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Which of its containers runs, if one does.
    pub runs: Option<String>,
    /// What keeps it from starting, if something does: reason and message.
    pub trouble: Option<(String, String)>,
    /// Whether nothing of it can have run: it has made no pod, or only pods that no kubelet has taken up
    /// (`status.startTime`). False while that is not known for sure.
    pub untouched: bool,
}

impl PlanJobView {
    /// The Job with what its pods tell: which container runs, and what keeps it from starting.
    ///
    /// One that failed has not ended while a container of it runs: until then nothing tells how it ended, and a retry
    /// would delete it under a pod that still upgrades the node. Older Job controllers say `Failed` before that.
    #[must_use]
    pub fn with_pods(self, runs: Option<String>, trouble: Option<(String, String)>) -> Self {
        let runs_on = runs.is_some() && matches!(self.ended, Some(JobEnd::Failed(..)));
        Self {
            ended: self.ended.filter(|_| !runs_on),
            ended_at: self.ended_at.filter(|_| !runs_on),
            runs,
            trouble,
            ..self
        }
    }
}

/// What a channel answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelView {
    /// The URL that was asked.
    pub url: String,
    /// When it was asked last.
    pub at: Timestamp,
    /// Whether an answer is under way.
    pub under_way: bool,
    /// The version as it was answered, or why there is none.
    pub answer: Option<Result<String, String>>,
    /// How often in a row there was none.
    pub failures: u32,
}

/// A pod of a node that is being drained.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the pod")]
pub struct PodView {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// Creation time.
    pub created: Timestamp,
    /// All labels; none if they are too many to be kept: the API server, which evicts, knows them all.
    pub labels: Map,
    /// Kind, name and uid of its controller; the kind with its group where that is not one of Kubernetes' own.
    pub controller: Option<(String, String, String)>,
    /// A static pod's image on the API server: it cannot be evicted.
    pub mirror: bool,
    /// Phase Succeeded or Failed.
    pub finished: bool,
    /// Phase Pending: no PodDisruptionBudget counts it.
    pub pending: bool,
    /// Condition Ready.
    pub ready: bool,
    /// Condition DisruptionTarget: somebody disrupts it already.
    pub disrupted: bool,
    /// When it is to be gone at the latest, if it is being deleted.
    pub deleting: Option<Timestamp>,
    /// Whether it has an emptyDir volume.
    pub empty_dir: bool,
    /// The PersistentVolumeClaims that it mounts, by name.
    pub claims: Vec<String>,
    /// `spec.priority`.
    pub priority: i32,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq)]
pub struct DisruptionBudgetView {
    /// `spec.selector` as given; null selects no pod, `{}` every pod of the namespace.
    pub selector: serde_json::Value,
    /// `spec.unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub unhealthy_always: bool,
    /// `status.disruptionsAllowed`.
    pub allowed: i64,
    /// `status.currentHealthy`.
    pub healthy: i64,
    /// `status.desiredHealthy`.
    pub desired: i64,
    /// `status.expectedPods`.
    pub expected: i64,
}

/// What came of evicting a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionView {
    /// When it was tried last.
    pub at: Timestamp,
    /// How often in a row it was refused.
    pub refusals: u32,
    /// What was said.
    pub said: Said,
    /// Whether a budget has changed since that may let it go.
    pub stirred: bool,
}

/// What the API server said to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has not answered yet.
    Asked,
    /// The pod is on its way out.
    Accepted,
    /// A PodDisruptionBudget is against it: the API server's words, which name it.
    Budget(String),
    /// A virtual machine is moving away instead.
    Migrating(String),
    /// A virtual machine cannot move.
    NotMigratable(String),
    /// The pod's namespace is being deleted, and the pod with it.
    NamespaceTerminating,
    /// The API server has no time, or failed.
    Busy(String),
    /// It is not allowed, or a webhook is against it.
    Refused(String),
}

/// How often a controller's pods came back to a cordoned node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// How often they were evicted after the cordon.
    pub times: u32,
    /// When the last time.
    pub at: Timestamp,
}

/// A static pod of etcd, or OpenShift's guard of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdPodView {
    /// The node.
    pub node: String,
    /// Condition Ready; none where it is missing.
    pub ready: Option<bool>,
    /// All labels.
    pub labels: Map,
}

/// An operator that numo replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForeignController {
    /// openshift-node-upgrade-mutex-operator.
    MutexRunConfig,
    /// node-maintenance-operator.
    NodeMaintenance,
    /// system-upgrade-controller.
    Plan,
}

/// An operator that numo replaces, and that is live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// What it works on.
    pub what: ForeignController,
    /// What is left of it, where its Deployment is at 0 or deleted; none where that runs.
    pub lingers: Option<String>,
}

impl ForeignController {
    /// The one that works on owners of a kind.
    pub const fn of(kind: OwnerKind) -> Self {
        match kind {
            OwnerKind::MutexRunConfig => Self::MutexRunConfig,
            OwnerKind::NodeMaintenance(_) => Self::NodeMaintenance,
            OwnerKind::Plan => Self::Plan,
        }
    }

    /// The kind that it works on.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::MutexRunConfig => "MutexRunConfig",
            Self::NodeMaintenance => "NodeMaintenance",
            Self::Plan => "Plan",
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MutexRunConfig => "openshift-node-upgrade-mutex-operator",
            Self::NodeMaintenance => "node-maintenance-operator",
            Self::Plan => "system-upgrade-controller",
        }
    }
}

/// An object that is there and cannot be read: an older numo does not know a value of it, or it is too large.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Its uid.
    pub uid: String,
    /// What is wrong with it.
    pub words: String,
}

/// Kinds without which nothing begins, for any owner.
const NEEDED: [&str; 5] = [
    "nodes",
    "nodechanges",
    "mutexbudgets",
    "mutexbindings",
    "mutexrules",
];
/// The same for a MutexRunConfig.
const NEEDED_BY_RUNS: [&str; 6] = [
    "mutextargets",
    "machineconfigpools",
    "machineconfigs",
    "clusterversions",
    "infrastructures",
    "machineosconfigs",
];

impl Observed {
    /// Why nothing begins for an owner of this kind: what it needs to know cannot be listed now.
    pub fn list_failed(&self, kind: OwnerKind) -> Option<Why> {
        let is_needed = |plural: &str| {
            NEEDED.contains(&plural) || kind == OwnerKind::MutexRunConfig && NEEDED_BY_RUNS.contains(&plural)
        };
        let unlisted = self.unlisted.iter().find(|(plural, _)| is_needed(plural));
        if let Some((plural, words)) = unlisted {
            let message =
                format!("{plural} cannot be listed any more, what was seen last of them is kept: {words}");
            return Some(Why::new(Reason::ListFailed, message));
        }
        let is_owner = |plural: &str| match kind {
            OwnerKind::MutexRunConfig => plural == "mutexrunconfigs",
            OwnerKind::Plan => plural == "plans",
            OwnerKind::NodeMaintenance(_) => plural.starts_with("nodemaintenances"),
        };
        let mut unread = self.unread.iter();
        let ((plural, key), unread) = unread.find(|((plural, key), _)| {
            (is_needed(plural) || is_owner(plural)) && self.heeds(plural, &key.namespace)
        })?;
        let message = format!(
            "{plural} {key} cannot be read, what was seen of it before is kept: {}",
            unread.words
        );
        Some(Why::new(Reason::ListFailed, message))
    }

    /// Why nobody knows whether pools, configurations and the version of the cluster are gone, for a run that has nodes in
    /// flight: their kinds have not been served since numo began.
    pub fn never_listed(&self) -> Option<Why> {
        let (plural, words) = self.absent.first_key_value()?;
        let message = format!(
            "{plural} could not be listed since numo began, and nodes are in flight: nothing is taken for gone: {words}"
        );
        Some(Why::new(Reason::ListFailed, message))
    }

    /// Whether an object of this kind in this namespace means anything to numo: no stranger stops an owner by one that
    /// nobody can read.
    pub fn heeds(&self, plural: &str, namespace: &str) -> bool {
        match plural {
            _ if namespace.is_empty() => true,
            "plans" => self.watches_plans(namespace),
            "mutexrunconfigs" | "mutextargets" => self.watches_runs(namespace),
            _ => self.watches_runs(namespace) || self.watches_plans(namespace),
        }
    }

    /// Why objects of a kind are left to the operator that numo replaces, if it is live.
    pub fn stood_off(&self, from: ForeignController) -> Option<Why> {
        let mut rivals = self.foreign_controllers.iter();
        let (key, rival) = rivals.find(|(_, rival)| rival.what == from)?;
        let (name, kind) = (from.name(), from.kind());
        let message = match &rival.lingers {
            None => format!("{name} runs (Deployment {key}): numo leaves {kind}s to it"),
            Some(words) => {
                format!(
                    "{name} is not gone yet (Deployment {key} is at 0 or deleted, {words}): numo leaves {kind}s to it"
                )
            }
        };
        Some(Why::new(Reason::ForeignController, message))
    }

    /// Why nothing begins for any owner of a kind, whatever its own spec says.
    pub fn stop_of_kind(&self, kind: OwnerKind) -> Option<Why> {
        self.stood_off(ForeignController::of(kind))
            .or_else(|| self.list_failed(kind))
    }
}
