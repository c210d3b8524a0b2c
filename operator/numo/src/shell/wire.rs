//! From the wire to views: what of each object is kept. Projection happens as early as possible, so that
//! a heartbeat compares equal and the memory of 7,500 nodes stays small.

use super::{
    item::{self, Item, Unreadable},
    kured,
    lines::{Fate, LogShares},
};
use crate::frontends;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use numo_api::{
    MutexBinding, MutexBudget, MutexRule, MutexRunConfig, MutexTarget, NodeChange, NodeMaintenance, marks,
};
use numo_core::observed::{
    Annotated, BindingView, BudgetView, ChangeView, ClusterVersionView, ConfigView, DisruptionBudgetView,
    EtcdPodView, ForeignController, IntOrPercent, JobEnd, JobView, Key, LeaseView, Leaving, MachineApi,
    MachineView, MaintenanceView, Map, NodeView, PlanJobView, PlanView, PodView, PoolView, RebootLock,
    RunConfigView, TargetView, Unread,
};
use numo_core::{MaintenanceGroup, Owner, ready};
use numo_plugin::address::AddressRange;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

pub use super::kind::Kind;

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
    Target(Box<TargetView>),
    Change(Box<ChangeView>),
    Budget(Box<BudgetView>),
    Namespace(String, Box<NamespaceView>),
    Lease(String, LeaseView),
    Job(Key, JobView),
    /// Job it belongs to, and what keeps it from starting.
    Pod(Key, Key, Option<(String, String)>),
    /// Job it is about: reason and message.
    JobEvent(Key, Key, (String, String)),
    Maintenance(Box<MaintenanceView>),
    Plan(Box<PlanView>),
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

/// A Node without what nobody here reads: images, managed fields, addresses.
#[derive(Clone, Debug, Deserialize)]
pub struct SlimNode {
    #[serde(deserialize_with = "slim_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: SlimNodeSpec,
    #[serde(default)]
    status: SlimNodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct SlimNodeSpec {
    #[serde(default)]
    unschedulable: bool,
    /// As given: the list is tested and replaced whole.
    #[serde(default)]
    taints: Value,
    #[serde(rename = "podCIDRs", default)]
    pod_networks: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct SlimNodeStatus {
    #[serde(default)]
    conditions: Vec<SlimCondition>,
    #[serde(rename = "volumesAttached", default)]
    volumes_attached: Vec<SlimVolume>,
    #[serde(rename = "nodeInfo", default)]
    node_info: SlimNodeInfo,
    #[serde(default)]
    addresses: Vec<SlimAddress>,
}

#[derive(Clone, Debug, Deserialize)]
struct SlimAddress {
    #[serde(default)]
    address: String,
}

/// What is known of a Node that no decision needs on each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfNode {
    /// Volumes that are attached.
    pub volumes: Vec<String>,
    /// Its addresses and those of its pods.
    pub networks: Vec<AddressRange>,
}

/// Ranges of the pods of one Node, and addresses of its own, that are believed, at most: neither takes the place of the other.
const POD_NETWORKS: usize = 16;
const ADDRESSES: usize = 32;

#[derive(Clone, Debug, Default, Deserialize)]
struct SlimNodeInfo {
    #[serde(rename = "bootID", default)]
    boot_id: String,
    #[serde(rename = "kubeletVersion", default)]
    kubelet_version: String,
}

#[derive(Clone, Debug, Deserialize)]
struct SlimVolume {
    name: String,
}

#[derive(Clone, Debug, Deserialize)]
struct SlimCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    /// As text: what cannot be read as a time says nothing, and costs no node.
    #[serde(rename = "lastTransitionTime", default)]
    last_transition_time: Option<String>,
}

/// Since when a node is not Ready: the earliest of its failing conditions.
fn failing_since(conditions: &[SlimCondition]) -> Option<jiff::Timestamp> {
    let fails = |condition: &&SlimCondition| match condition.type_.as_str() {
        "Ready" => condition.status != "True",
        "DiskPressure" | "NetworkUnavailable" => condition.status != "False",
        _ => false,
    };
    let failing = conditions.iter().filter(fails);
    failing
        .filter_map(|condition| condition.last_transition_time.as_deref()?.parse().ok())
        .min()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    deletion_timestamp: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

/// Metadata without what nobody reads and anybody may write: `managedFields` are as deep as a client likes.
pub(super) fn slim_meta<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let slim = SlimMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        owner_references: slim.owner_references,
        uid: slim.uid,
        resource_version: slim.resource_version,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        labels: slim.labels,
        annotations: slim.annotations.map(kept),
        ..ObjectMeta::default()
    })
}

impl kube::Resource for SlimNode {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Annotations that any decision reads.
fn kept(annotations: BTreeMap<String, String>) -> Map {
    annotations
        .into_iter()
        .filter(|(key, _)| {
            key.starts_with(marks::PREFIX)
                || (key.starts_with("machineconfiguration.openshift.io/")
                    && *key != "machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion")
                || key == marks::SCALE_DOWN_DISABLED
                || key == marks::DO_NOT_DISRUPT
                || key == marks::SKIP_REMEDIATION
                || key == marks::HEALTH_CHECK_PAUSED
                || key == marks::OPENSHIFT_MACHINE
                || key == marks::CLUSTER_API_MACHINE
                || key == marks::CLUSTER_API_NAMESPACE
        })
        .collect()
}

/// Taints by which autoscalers say that a node is about to be deleted.
const LEAVING_TAINTS: [&str; 2] = ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"];

/// How the node is taken away, if its deletion or an autoscaler's taint tells of it. The value of the taint of Cluster
/// Autoscaler is when it put the taint there (Unix time in seconds); Karpenter's has no time.
fn leaving(node: &SlimNode) -> Option<Leaving> {
    if let Some(at) = &node.metadata.deletion_timestamp {
        return Some(Leaving {
            why: "it is being deleted".to_owned(),
            since: Some(at.0),
        });
    }
    let taints = node.spec.taints.as_array().into_iter().flatten();
    let mut keys = taints.filter_map(|taint| Some((taint.get("key")?.as_str()?, taint)));
    let (key, taint) = keys.find(|(key, _)| LEAVING_TAINTS.contains(key))?;
    let since = taint.get("value").and_then(|value| value.as_str()?.parse().ok());
    Some(Leaving {
        why: format!("taint {key}"),
        since: since.and_then(|seconds| Timestamp::from_second(seconds).ok()),
    })
}

/// The resourceVersion as a number: resourceVersions of one kind are ordered (KEP-5504).
pub fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

/// When an object was created; the beginning of time if it does not say.
pub fn created(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// The view of a Node.
pub fn node(node: SlimNode) -> (NodeView, OfNode) {
    let condition = |wanted: &str| {
        node.status
            .conditions
            .iter()
            .find(|c| c.type_ == wanted)
            .map(|c| c.status.as_str())
    };
    let ready = condition("Ready") == Some("True")
        && condition("DiskPressure").is_none_or(|status| status == "False")
        && condition("NetworkUnavailable").is_none_or(|status| status == "False");
    let leaving = leaving(&node);
    let volumes = &node.status.volumes_attached;
    let volumes = volumes.iter().map(|volume| volume.name.clone()).collect();
    // A kubelet writes them: each is one address, or a name.
    let addresses = node.status.addresses.iter().map(|one| &one.address);
    let addresses = addresses.filter(|address| !address.contains('/'));
    let addresses = addresses.filter_map(|text| text.parse().ok());
    let pods = node.spec.pod_networks.iter().filter_map(|text| text.parse().ok());
    let networks = pods.take(POD_NETWORKS).chain(addresses.take(ADDRESSES)).collect();
    let view = NodeView {
        etcd_voter: condition("EtcdIsVoter").map(|status| status == "True"),
        boot_id: node.status.node_info.boot_id,
        kubelet_version: node.status.node_info.kubelet_version,
        created: created(&node.metadata),
        unschedulable: node.spec.unschedulable,
        taints: node.spec.taints,
        not_ready_since: (!ready).then(|| failing_since(&node.status.conditions)).flatten(),
        ready,
        leaving,
        name: node.metadata.name.unwrap_or_default(),
        uid: node.metadata.uid.unwrap_or_default(),
        labels: node.metadata.labels.unwrap_or_default(),
        has_annotations: node.metadata.annotations.is_some(),
        annotations: node.metadata.annotations.unwrap_or_default(),
    };
    (view, OfNode { volumes, networks })
}

/// The view of a Node with its place in the store.
pub fn node_object(slim: SlimNode) -> Object {
    let (view, rest) = node(slim);
    Object::Node(Box::new(view), rest)
}

/// What of an object is its name, its uid and its annotations, of a kind of which nothing else is kept. Anybody may have written the
/// rest, `managedFields` among it, as deep and as large as the API server takes it: it is never read.
fn brief(item: &Item) -> DynamicObject {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OnlyAnnotations {
        metadata: Annotated,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Annotated {
        annotations: Option<BTreeMap<String, String>>,
    }
    let mut metadata = item.metadata.clone();
    metadata.annotations = item
        .part::<OnlyAnnotations>()
        .and_then(|only| only.metadata.annotations);
    DynamicObject {
        types: None,
        metadata,
        data: Value::Null,
    }
}

/// The view of an object that was read by itself; one that cannot be read is told where that is an object's own business, and passed over
/// else.
pub fn item(kind: Kind, item: &Item) -> Option<Object> {
    if matches!(kind, Kind::DaemonSet | Kind::MachineConfig) {
        return object(kind, brief(item));
    }
    let why = match item.read(kind) {
        Ok(found) => match object(kind, found) {
            Some(found) => return Some(found),
            None if let Some(run) = partly_read(kind, item) => return Some(run),
            None if is_ours(kind) => Unreadable {
                too_large: false,
                message: misread(kind, item),
            },
            None => return None,
        },
        Err(why) => why,
    };
    match kind {
        Kind::MutexRule => {
            let mut rule = MutexRule::new("", numo_api::MutexRuleSpec::default());
            rule.metadata = item.metadata.clone();
            // What numo said of it last: else it would be said anew with every pass.
            rule.status = item.part::<OnlyStatus>().and_then(|only| only.status);
            Some(Object::Unreadable(Box::new(rule), why))
        }
        // A pod that cannot be read is on its node all the same.
        Kind::NodePod => {
            let pod = serde_json::to_value(item.part::<OnlyPod>()?).ok()?;
            object(kind, serde_json::from_value(pod).ok()?)
        }
        // A gate that breaks stays shut.
        Kind::MutexBudget => Some(Object::Budget(Box::new(BudgetView {
            name: item.metadata.name.clone()?,
            selector: serde_json::json!({}),
            max_unavailable: Err(why.message),
            group_by: None,
            paused: false,
            annotations: Map::new(),
            uid: item.metadata.uid.clone().unwrap_or_default(),
            generation: item.metadata.generation.unwrap_or(1),
            status: item
                .part::<OnlyBudgetStatus>()
                .and_then(|only| only.status)
                .unwrap_or_default(),
        }))),
        // It is there: who leaves it out takes it for gone, and ends its turn.
        _ if is_ours(kind) => {
            let key = key(&item.metadata);
            let words = unread(Some(kind), &key, &why.message);
            let uid = item.metadata.uid.clone().unwrap_or_default();
            Some(Object::NotRead(key, Unread { uid, words }))
        }
        _ => {
            unread(Some(kind), &key(&item.metadata), &why.message);
            None
        }
    }
}

/// Characters of what is wrong with an object: serde quotes what it found.
const WORDS: usize = 512;
/// Bytes that the line about an object that cannot be read counts for: anybody may write one again and again, so a namespace has 16 of
/// them at once, and one each four seconds after that.
const UNREAD_LINE: u64 = 16 << 10;

/// Says in the log that an object cannot be read, unless its namespace has too many of them. Its words, as short as they are kept.
fn unread(kind: Option<Kind>, key: &Key, words: &str) -> String {
    static SHARES: LogShares = LogShares::new();
    let what = match kind {
        None => "an object of ours cannot be read",
        Some(kind) if is_ours(kind) => "an object cannot be read: what was seen of it before is kept",
        Some(_) => "an object is passed over",
    };
    let words = numo_core::rules::clip(words, WORDS);
    let kind = kind.map(tracing::field::debug);
    match SHARES.fate(&key.namespace, UNREAD_LINE, std::time::Instant::now()) {
        Fate::Written => tracing::warn!(kind, %key, words, "{what}"),
        Fate::LeftOut => tracing::debug!(kind, %key, words, "{what}"),
        Fate::Said(lines) => tracing::warn!(
            namespace = key.namespace,
            lines,
            "this namespace has many objects that cannot be read: lines are left out"
        ),
    }
    words
}

/// A MutexRunConfig of a later numo, with a field that this one cannot read: without that field, and with its words. Its pools
/// are known, and are held. None if it is something else that cannot be read, or nobody knows then which pools it means.
fn partly_read(kind: Kind, item: &Item) -> Option<Object> {
    if kind != Kind::MutexRunConfig {
        return None;
    }
    let mut found = item.read(kind).ok()?;
    // Without its targets nobody knows its pools, and without its canary who is in it.
    let needed = ["mutexTargets", "canary"];
    let mut misread = keep_readable::<numo_api::MutexRunConfigSpec>(&mut found.data, "spec", &needed);
    let of_status = keep_readable::<numo_api::MutexRunConfigStatus>(&mut found.data, "status", &[]);
    let keeps_status = !of_status.is_empty();
    misread.extend(of_status);
    if misread.is_empty() {
        return None;
    }
    let words = format!(
        "{}; wanted what this numo knows: change it, or upgrade numo",
        misread.join("; ")
    );
    let mut view = run(read::<MutexRunConfig>(found).ok()?);
    view.misread = Some(numo_core::rules::clip(&words, 1024));
    view.keeps_status = keeps_status;
    Some(Object::Run(Box::new(view)))
}

/// Takes the fields of a part of an object out that `T` cannot read, but for those that are needed; what is wrong with each.
fn keep_readable<T: serde::de::DeserializeOwned>(
    object: &mut Value,
    part: &str,
    needed: &[&str],
) -> Vec<String> {
    let mut misread = Vec::new();
    let Some(Value::Object(fields)) = object.get_mut(part) else {
        return misread;
    };
    fields.retain(|field, value| {
        let alone = serde_json::json!({ field.as_str(): value.clone() });
        let problem = serde_json::from_value::<T>(alone).err();
        let is_needed = needed.contains(&field.as_str());
        let is_kept = is_needed || problem.is_none();
        let of_field = problem.filter(|_| !is_needed);
        misread.extend(of_field.map(|problem| format!("{part}.{field}: {problem}")));
        is_kept
    });
    misread
}

/// Kinds of numo's own, and of owners: one that cannot be read is not one that is gone.
const fn is_ours(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MutexRunConfig
            | Kind::MutexRule
            | Kind::MutexTarget
            | Kind::NodeChange
            | Kind::MutexBudget
            | Kind::MutexBinding
            | Kind::Plan
            | Kind::NodeMaintenance
            | Kind::KubeVirtMaintenance
    )
}

/// That a later numo wrote this journal, in words.
fn later_journal(change: &NodeChange) -> Option<String> {
    let found = change.status.as_ref()?.journal_version;
    let newest = numo_core::turn::journal::JOURNAL_VERSION;
    (found > newest).then(|| {
        format!("status.journalVersion: found {found}, wanted at most {newest}: a later numo wrote it")
    })
}

/// Why an object of ours is none of its kind, in words.
fn misread(kind: Kind, item: &Item) -> String {
    fn of<K: serde::de::DeserializeOwned>(found: DynamicObject) -> Option<String> {
        read::<K>(found).err()
    }
    let words = item.read(kind).ok().and_then(|found| match kind {
        Kind::MutexRunConfig => of::<MutexRunConfig>(found),
        Kind::MutexRule => of::<MutexRule>(found),
        Kind::MutexTarget => of::<MutexTarget>(found),
        Kind::NodeChange => match read::<NodeChange>(found) {
            Ok(change) => later_journal(&change),
            Err(words) => Some(words),
        },
        Kind::MutexBudget => of::<MutexBudget>(found),
        Kind::MutexBinding => of::<MutexBinding>(found),
        Kind::Plan => of::<numo_api::Plan>(found),
        Kind::NodeMaintenance | Kind::KubeVirtMaintenance => of::<NodeMaintenance>(found),
        _ => None,
    });
    words.unwrap_or_else(|| "it is none of its kind".to_owned())
}

/// What tells a rule from others, and its versions: labels, annotations and owner references may be as large as the rule, and
/// nothing asks for them.
fn identity(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        generation: metadata.generation,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    }
}

/// What a rule weighs in memory (bytes): its spec, its status, and what every rule takes beside them.
pub fn weight(rule: &MutexRule) -> usize {
    const EACH: usize = 2048;
    let of = |text: serde_json::Result<String>| text.map_or(usize::MAX, |text| item::weight(&text));
    let (spec, status) = (
        serde_json::to_string(&rule.spec),
        serde_json::to_string(&rule.status),
    );
    of(spec).saturating_add(of(status)).saturating_add(EACH)
}

/// The view of any other object; none for what is not understood (it is then as if it were not there).
pub fn object(kind: Kind, object: DynamicObject) -> Option<Object> {
    Some(match kind {
        Kind::Node => {
            let slim = serde_json::from_value(serde_json::to_value(object).ok()?).ok()?;
            node_object(slim)
        }
        Kind::MachineConfigPool => Object::Pool(Box::new(pool(&object))),
        Kind::MachineConfig => {
            let version = object
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(marks::openshift::RELEASE_VERSION))
                .cloned();
            Object::Config(object.metadata.name?, ConfigView { version })
        }
        Kind::ClusterVersion => {
            if object.metadata.name.as_deref() != Some("version") {
                return None;
            }
            Object::ClusterVersion(cluster_version(&object))
        }
        Kind::Infrastructure => {
            let topology = object
                .data
                .pointer("/status/controlPlaneTopology")
                .and_then(Value::as_str);
            Object::Infrastructure(topology.map(ToOwned::to_owned))
        }
        Kind::MachineOSConfig => {
            let pool = text(&object.data, "/spec/machineConfigPool/name");
            Object::Layered(object.metadata.name?, pool)
        }
        Kind::OpenShiftMachine => Object::Machine(
            (MachineApi::OpenShift, key(&object.metadata)),
            Box::new(machine(&object)),
        ),
        Kind::ClusterApiMachine => Object::Machine(
            (MachineApi::ClusterApi, key(&object.metadata)),
            Box::new(machine(&object)),
        ),
        Kind::OpenShiftHealthCheck => Object::HealthCheck(
            (MachineApi::OpenShift, key(&object.metadata)),
            health_check(&object),
        ),
        Kind::ClusterApiHealthCheck => Object::HealthCheck(
            (MachineApi::ClusterApi, key(&object.metadata)),
            health_check(&object),
        ),
        Kind::Kured => {
            let mut account = text(&object.data, "/spec/template/spec/serviceAccountName");
            if account.is_empty() {
                "default".clone_into(&mut account);
            }
            let locks = reboot_locks(&object.metadata, Timestamp::now());
            Object::RebootLocks(key(&object.metadata), account, locks)
        }
        Kind::MutexRunConfig => Object::Run(Box::new(run(typed(object)?))),
        Kind::MutexRule => {
            let mut rule: MutexRule = typed(object)?;
            rule.metadata = identity(rule.metadata);
            Object::Rule(Box::new(rule))
        }
        Kind::MutexTarget => Object::Target(Box::new(target(typed(object)?))),
        Kind::NodeChange => {
            let found: NodeChange = typed(object)?;
            // What a later numo wrote down may mean something else: it is kept as it was seen before, and nothing begins.
            if later_journal(&found).is_some() {
                return None;
            }
            Object::Change(Box::new(change(found)))
        }
        Kind::MutexBudget => Object::Budget(Box::new(budget(typed(object)?))),
        Kind::Namespace => {
            let terminating = object.metadata.deletion_timestamp.is_some();
            let labels = object.metadata.labels.unwrap_or_default();
            let plans = labels
                .get(marks::PLANS_NAMESPACE)
                .is_some_and(|value| value == "true");
            let annotations = object.metadata.annotations.unwrap_or_default();
            let rule_jobs_from = annotations.get(marks::RULE_JOBS_FROM).map(String::as_str);
            let rule_jobs_from = rule_jobs_from.unwrap_or_default().split(',').map(str::trim);
            let rule_jobs_from = rule_jobs_from
                .filter(|name| frontends::mutex_rule::is_namespace(name))
                .take(NAMESPACES_LISTED)
                .map(str::to_owned);
            let view = NamespaceView {
                terminating,
                plans,
                rule_jobs_from: rule_jobs_from.collect(),
            };
            Object::Namespace(object.metadata.name?, Box::new(view))
        }
        Kind::Lease => {
            let node = object.metadata.name.as_ref()?.strip_prefix("node-")?.to_owned();
            Object::Lease(node, lease(&object))
        }
        Kind::Job => Object::Job(key(&object.metadata), job(&object)),
        Kind::Pod => Object::Pod(
            key(&object.metadata),
            job_of(&object.metadata)?,
            pod_trouble(&object.data),
        ),
        Kind::Plan => Object::Plan(Box::new(frontends::plan::view(typed(object)?))),
        Kind::PlanJob => {
            let view = Box::new(plan_job(&object)?);
            Object::PlanJob(key(&object.metadata), view, pods_left(&object))
        }
        Kind::PlanPod => {
            let view = PlanPodView {
                job: job_of(&object.metadata)?,
                runs: running_container(&object.data),
                trouble: pod_trouble(&object.data),
                taken_up: is_taken_up(&object.data),
            };
            Object::PlanPod(key(&object.metadata), view)
        }
        Kind::Secret => {
            let data = object.data.get("data");
            let empty = Value::Null;
            let hash = numo_core::owners::plan::secret_hash(
                object.metadata.name.as_deref()?,
                &text(&object.data, "/type"),
                Some(data.unwrap_or(&empty)),
                object.data.get("immutable").and_then(Value::as_bool),
            );
            Object::Secret(key(&object.metadata), hash)
        }
        Kind::JobEvent => {
            let about = object.data.get("involvedObject")?;
            let name = about.get("name").and_then(Value::as_str)?;
            let job = Key::new(object.metadata.namespace.clone()?, name);
            if name.len() > NAME_LETTERS {
                return None;
            }
            Object::JobEvent(key(&object.metadata), job, words(&object.data))
        }
        Kind::NodeMaintenance => maintenance(MaintenanceGroup::Medik8s, typed(object)?),
        Kind::KubeVirtMaintenance => maintenance(MaintenanceGroup::KubeVirt, typed(object)?),
        Kind::MutexBinding => {
            let binding: MutexBinding = typed(object)?;
            let view = BindingView {
                spec: binding.spec,
                uid: binding.metadata.uid.unwrap_or_default(),
                generation: binding.metadata.generation.unwrap_or(1),
                status: binding.status.unwrap_or_default(),
            };
            Object::Binding(binding.metadata.name?, Box::new(view))
        }
        Kind::NodePod => {
            let node = text(&object.data, "/spec/nodeName");
            Object::NodePod(node, Box::new(node_pod(&object)))
        }
        Kind::DisruptionBudget => {
            Object::DisruptionBudget(key(&object.metadata), Box::new(disruption_budget(&object.data)))
        }
        Kind::DaemonSet => Object::DaemonSet(key(&object.metadata), object.metadata.uid?),
        Kind::EtcdPod => Object::EtcdPod(key(&object.metadata), etcd_pod(&object)),
        Kind::NodeMaintenanceOperator
        | Kind::NodeMaintenanceOperatorOld
        | Kind::NodeMaintenanceOperatorBundled
        | Kind::SystemUpgradeController
        | Kind::NodeUpgradeMutexOperator => {
            let (_, what) = kind.replaced()?;
            Object::Foreign(key(&object.metadata), Box::new(deployed(&object, what)))
        }
    })
}

fn maintenance(group: MaintenanceGroup, object: NodeMaintenance) -> Object {
    let meta = object.metadata;
    let annotations = meta.annotations.clone().unwrap_or_default();
    let own = [("mutexRules", object.spec.mutex_rules.is_some())];
    Object::Maintenance(Box::new(MaintenanceView {
        pruned: frontends::pruned(&annotations, &own),
        owner: Owner::maintenance(group, meta.name.clone().unwrap_or_default()),
        uid: meta.uid.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or(0),
        created: created(&meta),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.unwrap_or_default(),
        annotations: kept(annotations),
        labels: meta.labels.unwrap_or_default(),
        spec: object.spec,
        status: object.status.unwrap_or_default(),
    }))
}

/// What the labels of a pod or a Machine that are kept may weigh in memory (bytes): the API server takes as many as the object is large.
const LABELS_WEIGHT: usize = 8 << 10;
/// PersistentVolumeClaims of a pod that are looked at.
const CLAIMS: usize = 64;
/// Letters of a name, of a kind and of a uid: longer ones are nobody's.
const NAME_LETTERS: usize = 253;

/// What a drain must know of a pod.
pub fn node_pod(object: &DynamicObject) -> PodView {
    let (meta, data) = (&object.metadata, &object.data);
    let condition = |wanted: &str| {
        let conditions = data.pointer("/status/conditions").and_then(Value::as_array)?;
        let found = conditions.iter().find(|one| text(one, "/type") == wanted)?;
        Some(text(found, "/status"))
    };
    let controller = meta
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true));
    let annotations = meta.annotations.as_ref();
    let volumes = data.pointer("/spec/volumes").and_then(Value::as_array);
    let phase = text(data, "/status/phase");
    PodView {
        key: key(meta),
        uid: meta.uid.clone().unwrap_or_default(),
        created: created(meta),
        labels: bounded(meta.labels.as_ref()),
        controller: controller.map(|owner| {
            // A DaemonSet of another group is none of Kubernetes'.
            let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
            let own = matches!(group, "" | "apps" | "batch");
            let kind = if own {
                owner.kind.clone()
            } else {
                format!("{}.{group}", owner.kind)
            };
            let clip = |text: &str| numo_core::rules::clip(text, NAME_LETTERS);
            (clip(&kind), clip(&owner.name), clip(&owner.uid))
        }),
        mirror: annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")),
        finished: phase == "Succeeded" || phase == "Failed",
        pending: phase == "Pending",
        ready: condition("Ready").as_deref() == Some("True"),
        disrupted: condition("DisruptionTarget").as_deref() == Some("True"),
        deleting: meta.deletion_timestamp.as_ref().map(|time| time.0),
        empty_dir: volumes
            .into_iter()
            .flatten()
            .any(|volume| volume.get("emptyDir").is_some()),
        claims: volumes
            .into_iter()
            .flatten()
            .filter_map(
                |volume| match volume.pointer("/persistentVolumeClaim/claimName") {
                    Some(name) => name.as_str().map(str::to_owned),
                    // The claim of an ephemeral volume is named after the pod.
                    None => volume.get("ephemeral").map(|_| {
                        let pod = meta.name.as_deref().unwrap_or_default();
                        format!("{pod}-{}", text(volume, "/name"))
                    }),
                },
            )
            .filter(|name| name.len() <= NAME_LETTERS)
            .take(CLAIMS)
            .collect(),
        priority: data
            .pointer("/spec/priority")
            .and_then(Value::as_i64)
            .and_then(|priority| i32::try_from(priority).ok())
            .unwrap_or(0),
    }
}

/// Labels that are kept; none if they are too many.
fn bounded(labels: Option<&BTreeMap<String, String>>) -> Map {
    let labels = labels.filter(|labels| item::weight_of_map(labels) <= LABELS_WEIGHT);
    labels.cloned().unwrap_or_default()
}

/// What the selector of a PodDisruptionBudget that is kept may weigh in memory (bytes): a cluster may have many thousands.
const SELECTOR_WEIGHT: usize = 8 << 10;

fn disruption_budget(data: &Value) -> DisruptionBudgetView {
    let number = |pointer: &str| data.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let selector = data.pointer("/spec/selector").cloned().unwrap_or(Value::Null);
    // One that nobody wrote by hand covers every pod of its namespace: only those can be held by it.
    let is_bounded = super::item::weight(&selector.to_string()) <= SELECTOR_WEIGHT;
    DisruptionBudgetView {
        selector: if is_bounded {
            selector
        } else {
            serde_json::json!({})
        },
        unhealthy_always: text(data, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow",
        allowed: number("/status/disruptionsAllowed"),
        healthy: number("/status/currentHealthy"),
        desired: number("/status/desiredHealthy"),
        expected: number("/status/expectedPods"),
    }
}

fn etcd_pod(object: &DynamicObject) -> EtcdPodView {
    let conditions = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| text(condition, "/type") == "Ready");
    EtcdPodView {
        node: text(&object.data, "/spec/nodeName"),
        ready: ready.map(|condition| text(condition, "/status") != "False"),
        labels: object.metadata.labels.clone().unwrap_or_default(),
    }
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

/// What of a Deployment tells whether an operator is live.
pub fn deployed(object: &DynamicObject, what: ForeignController) -> Deployed {
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").unwrap_or(1) > 0 && object.metadata.deletion_timestamp.is_none();
    let mut account = text(&object.data, "/spec/template/spec/serviceAccountName");
    if account.is_empty() {
        "default".clone_into(&mut account);
    }
    Deployed {
        what,
        account,
        selector: object
            .data
            .pointer("/spec/selector")
            .cloned()
            .unwrap_or(Value::Null),
        runs: wanted || number("/status/replicas").unwrap_or(0) > 0,
    }
}

fn typed<K: serde::de::DeserializeOwned>(object: DynamicObject) -> Option<K> {
    let key = key(&object.metadata);
    read(object)
        .inspect_err(|error| {
            unread(None, &key, error);
        })
        .ok()
}

fn read<K: serde::de::DeserializeOwned>(object: DynamicObject) -> Result<K, String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    // The replaced operator's schemas admit an object without a spec; it is as good as an empty one.
    if let Some(fields) = value.as_object_mut() {
        fields
            .entry("spec")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Namespace and name.
pub fn key(meta: &ObjectMeta) -> Key {
    Key::new(
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn pool(object: &DynamicObject) -> PoolView {
    let meta = &object.metadata;
    PoolView {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        annotations: kept(meta.annotations.clone().unwrap_or_default()),
        has_annotations: meta.annotations.is_some(),
        paused: object
            .data
            .pointer("/spec/paused")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        paused_manager: field_manager(meta, &["f:spec", "f:paused"]),
        selector_manager: field_manager(meta, &["f:spec", "f:nodeSelector"]),
        selector: object
            .data
            .pointer("/spec/nodeSelector")
            .cloned()
            .unwrap_or(Value::Null),
        config: text(&object.data, "/spec/configuration/name"),
        max_unavailable: object
            .data
            .pointer("/spec/maxUnavailable")
            .and_then(|value| IntOrPercent::parse(value).ok()),
        render_degraded: condition_words(&object.data, "RenderDegraded", "True"),
    }
}

fn machine(object: &DynamicObject) -> MachineView {
    let meta = &object.metadata;
    MachineView {
        object: Annotated {
            // No health check selects one that has more labels than any Machine needs.
            labels: bounded(meta.labels.as_ref()),
            ..annotated(meta)
        },
        node: numo_core::rules::clip(&text(&object.data, "/status/nodeRef/name"), NAME_LETTERS),
        deleting: meta.deletion_timestamp.is_some(),
        deleting_since: meta.deletion_timestamp.as_ref().map(|at| at.0),
    }
}

fn annotated(meta: &ObjectMeta) -> Annotated {
    Annotated {
        uid: meta.uid.clone().unwrap_or_default(),
        annotations: kept(meta.annotations.clone().unwrap_or_default()),
        has_annotations: meta.annotations.is_some(),
        ..Annotated::default()
    }
}

fn health_check(object: &DynamicObject) -> Annotated {
    let selector = object.data.pointer("/spec/selector").cloned();
    // One that nobody wrote by hand selects nothing.
    let selector = selector.filter(|selector| super::item::weight(&selector.to_string()) <= SELECTOR_WEIGHT);
    Annotated {
        selector: selector.unwrap_or_default(),
        ..annotated(&object.metadata)
    }
}

/// One specification of one object: its uid and `metadata.generation`. An object that was deleted and made again
/// begins with generation 1 anew.
pub type Edition = (String, i64);

/// The edition of an object.
pub fn edition(meta: &ObjectMeta) -> Edition {
    (meta.uid.clone().unwrap_or_default(), meta.generation.unwrap_or(0))
}

/// What kured writes on its DaemonSet: one holder, or with `--concurrency` a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum KuredLock {
    Several { locks: Vec<KuredHolder> },
    One(KuredHolder),
}

#[derive(Deserialize)]
struct KuredHolder {
    #[serde(rename = "nodeID")]
    node: String,
    #[serde(default)]
    created: Option<Timestamp>,
    /// Nanoseconds; 0 holds for ever.
    #[serde(rename = "TTL", default)]
    ttl: i64,
}

/// The holders of kured's lock. A lock of the future, without a beginning or without an end is believed for a day from now or its beginning.
fn reboot_locks(meta: &ObjectMeta, now: Timestamp) -> Vec<RebootLock> {
    let lock = meta
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(marks::KURED_LOCK))
        .and_then(|text| serde_json::from_str(text).ok());
    let holders = match lock {
        None => Vec::new(),
        Some(KuredLock::One(holder)) => vec![holder],
        Some(KuredLock::Several { locks }) => locks,
    };
    holders
        .into_iter()
        .filter(|holder| !holder.node.is_empty())
        .take(kured::HOLDERS)
        .map(|holder| {
            let created = holder.created.map_or(now, |created| created.min(now));
            let most = jiff::SignedDuration::from_secs(kured::BELIEVED_SECONDS);
            let asked = jiff::SignedDuration::from_nanos(holder.ttl);
            let lasts = if holder.ttl > 0 { asked.min(most) } else { most };
            RebootLock {
                until: created.checked_add(lasts).ok(),
                node: holder.node,
            }
        })
        .collect()
}

/// Who wrote a field last, by the managed fields.
fn field_manager(meta: &ObjectMeta, path: &[&str]) -> Option<String> {
    meta.managed_fields
        .iter()
        .flatten()
        .filter(|entry| {
            let mut fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
            for step in path {
                fields = fields.and_then(|fields| fields.get(step));
            }
            fields.is_some()
        })
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))
        .and_then(|entry| entry.manager.clone())
}

fn cluster_version(object: &DynamicObject) -> ClusterVersionView {
    let data = &object.data;
    let desired_update = data
        .pointer("/spec/desiredUpdate")
        .filter(|value| !value.is_null());
    ClusterVersionView {
        generation: object.metadata.generation.unwrap_or(0),
        observed_generation: data
            .pointer("/status/observedGeneration")
            .and_then(Value::as_i64)
            .unwrap_or(0),
        desired_update: desired_update
            .and_then(|update| update.get("version"))
            .and_then(Value::as_str)
            .map(ToOwned::to_owned),
        has_desired_update: desired_update.is_some(),
        desired: text(data, "/status/desired/version"),
        latest: data
            .pointer("/status/history/0")
            .map(|entry| (text(entry, "/state"), text(entry, "/version"))),
        not_accepted: condition_words(data, "ReleaseAccepted", "False"),
        failing: condition_words(data, "Failing", "True"),
    }
}

/// Reason and message of a condition, while it is of this status.
fn condition_words(data: &Value, type_: &str, status: &str) -> Option<String> {
    let conditions = data.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|one| text(one, "/type") == type_)?;
    let words = format!("{}: {}", text(found, "/reason"), text(found, "/message"));
    (text(found, "/status") == status).then(|| numo_core::rules::clip(&words, 512))
}

/// The view of a run.
pub(super) fn run(run: MutexRunConfig) -> RunConfigView {
    RunConfigView {
        key: key(&run.metadata),
        uid: run.metadata.uid.clone().unwrap_or_default(),
        generation: run.metadata.generation.unwrap_or(0),
        created: created(&run.metadata),
        deleting: run.metadata.deletion_timestamp.is_some(),
        finalizers: run.metadata.finalizers.clone().unwrap_or_default(),
        annotations: kept(run.metadata.annotations.unwrap_or_default()),
        workloads_check: Some(Box::new(ready::rule(run.spec.awaited_workloads.as_ref()))),
        misread: None,
        keeps_status: false,
        spec: run.spec,
        status: run.status.unwrap_or_default(),
    }
}

fn target(target: MutexTarget) -> TargetView {
    TargetView {
        key: key(&target.metadata),
        uid: target.metadata.uid.clone().unwrap_or_default(),
        generation: target.metadata.generation.unwrap_or(0),
        pools: target.spec.machine_config_pools.unwrap_or_default(),
        status: target.status.unwrap_or_default(),
    }
}

/// The view of a NodeChange.
pub fn change(change: NodeChange) -> ChangeView {
    ChangeView {
        key: key(&change.metadata),
        uid: change.metadata.uid.clone().unwrap_or_default(),
        resource_version: change.metadata.resource_version.clone().unwrap_or_default(),
        generation: change.metadata.generation.unwrap_or(1),
        created: created(&change.metadata),
        deleting: change.metadata.deletion_timestamp.is_some(),
        annotations: kept(change.metadata.annotations.unwrap_or_default()),
        spec: change.spec,
        status: change.status.unwrap_or_default(),
    }
}

fn budget(budget: MutexBudget) -> BudgetView {
    let max_unavailable = match &budget.spec.max_unavailable {
        None => Ok(IntOrPercent::Int(1)),
        Some(limit) => numo_core::intent::parse_limit(limit),
    };
    BudgetView {
        name: budget.metadata.name.unwrap_or_default(),
        selector: budget
            .spec
            .node_selector
            .as_ref()
            .and_then(|selector| serde_json::to_value(selector).ok())
            .unwrap_or(Value::Null),
        max_unavailable,
        group_by: budget.spec.group_by,
        paused: budget.spec.paused.unwrap_or(false),
        annotations: kept(budget.metadata.annotations.unwrap_or_default()),
        uid: budget.metadata.uid.unwrap_or_default(),
        generation: budget.metadata.generation.unwrap_or(1),
        status: budget.status.unwrap_or_default(),
    }
}

fn lease(object: &DynamicObject) -> LeaseView {
    LeaseView {
        by_numo: field_manager(&object.metadata, &["f:spec", "f:holderIdentity"]).as_deref()
            == Some(marks::FIELD_MANAGER),
        holder: text(&object.data, "/spec/holderIdentity"),
        renewed: object
            .data
            .pointer("/spec/renewTime")
            .and_then(Value::as_str)
            .and_then(|time| time.parse().ok()),
        duration_seconds: object
            .data
            .pointer("/spec/leaseDurationSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(0),
        transitions: object
            .data
            .pointer("/spec/leaseTransitions")
            .and_then(Value::as_i64)
            .unwrap_or(0),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// Reason and message, as long as people read: others may write Events, and the status of a Job or a pod is what its containers say.
fn words(of: &Value) -> (String, String) {
    let clip = |pointer: &str, most: usize| numo_core::rules::clip(&text(of, pointer), most);
    (clip("/reason", 128), clip("/message", 1024))
}

/// The conditions of a Job that are True, by type.
fn job_conditions(object: &DynamicObject) -> BTreeMap<&str, &Value> {
    let conditions = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten();
    conditions
        .filter(|condition| condition.get("status").and_then(Value::as_str) == Some("True"))
        .filter_map(|condition| Some((condition.get("type")?.as_str()?, condition)))
        .collect()
}

/// How a Job ended: it failed by the first of these conditions that it has.
fn job_end(object: &DynamicObject, failures: &[&str]) -> Option<JobEnd> {
    let conditions = job_conditions(object);
    match failures.iter().find_map(|failure| conditions.get(failure)) {
        Some(failed) => {
            let (reason, message) = words(failed);
            Some(JobEnd::Failed(reason, message))
        }
        None => conditions.get("Complete").map(|_| JobEnd::Complete),
    }
}

fn job(object: &DynamicObject) -> JobView {
    let meta = &object.metadata;
    // FailureTarget is the Job controller's verdict before its pods are gone: a failed rule is seen at once.
    let ended = job_end(object, &["Failed", "FailureTarget"]);
    let annotation = |key: &str| {
        meta.annotations
            .as_ref()
            .and_then(|annotations| annotations.get(key))
    };
    let count = |field: &str| object.data.pointer(field).and_then(Value::as_i64).unwrap_or(0);
    JobView {
        uid: meta.uid.clone().unwrap_or_default(),
        created: created(meta),
        deleting: meta.deletion_timestamp.is_some(),
        run: meta
            .labels
            .as_ref()
            .and_then(|labels| labels.get(marks::JOB_RUN))
            .cloned()
            .unwrap_or_default(),
        edition: annotation(marks::JOB_EDITION).map_or_else(String::new, |edition| {
            numo_core::rules::clip(edition, NAME_LETTERS)
        }),
        ended_at: ended_at(object, &["Complete", "Failed", "FailureTarget"]),
        ended,
        started: count("/status/active") + count("/status/succeeded") + count("/status/failed") > 0,
        ttl_seconds: object
            .data
            .pointer("/spec/ttlSecondsAfterFinished")
            .and_then(Value::as_i64),
        wanted_ttl_seconds: annotation(marks::JOB_TTL).and_then(|seconds| seconds.parse().ok()),
        trouble: None,
    }
}

/// When a Job ended, by the conditions that say so.
fn ended_at(object: &DynamicObject, ends: &[&str]) -> Option<jiff::Timestamp> {
    let conditions = job_conditions(object);
    let times = ends
        .iter()
        .filter_map(|end| text(conditions.get(end)?, "/lastTransitionTime").parse().ok());
    times.max()
}

/// The Job that a pod is of.
fn job_of(meta: &ObjectMeta) -> Option<Key> {
    let labels = meta.labels.as_ref()?;
    let job = labels
        .get("batch.kubernetes.io/job-name")
        .or_else(|| labels.get("job-name"))?;
    Some(Key::new(meta.namespace.clone()?, job))
}

/// The view of a Plan's Job; none without the labels that say what it is about.
fn plan_job(object: &DynamicObject) -> Option<PlanJobView> {
    let meta = &object.metadata;
    let labels = meta.labels.as_ref()?;
    let plan = labels.get(marks::PLAN)?;
    let known = job(object);
    let controller = meta.owner_references.iter().flatten();
    let controller = controller
        .filter(|owner| owner.controller == Some(true) && owner.kind == "Plan")
        .map(|owner| owner.uid.clone())
        .next();
    Some(PlanJobView {
        uid: known.uid,
        plan_uid: controller.unwrap_or_default(),
        plan: plan.clone(),
        node: labels.get(marks::PLAN_NODE)?.clone(),
        version: labels.get(marks::PLAN_VERSION).cloned().unwrap_or_default(),
        hash: labels
            .get(&numo_core::owners::plan::label(plan))
            .cloned()
            .unwrap_or_default(),
        prepares: meta
            .annotations
            .as_ref()
            .is_some_and(|annotations| annotations.contains_key(marks::PLAN_PREPARES)),
        created: known.created,
        deleting: known.deleting,
        paused: object.data.pointer("/spec/parallelism").and_then(Value::as_i64) == Some(0),
        // At FailureTarget its pods still end, and what they did is not known yet; system-upgrade-controller waits too.
        ended: job_end(object, &["Failed"]),
        ended_at: ended_at(object, &["Complete", "Failed"]),
        runs: None,
        trouble: None,
        untouched: false,
    })
}

/// How many pods a Job has that have not ended; none if one has.
fn pods_left(object: &DynamicObject) -> Option<usize> {
    let count = |field: &str| object.data.pointer(field).and_then(Value::as_u64).unwrap_or(0);
    let ended = count("/status/succeeded") + count("/status/failed");
    let uncounted = ["succeeded", "failed"].iter().any(|which| {
        let list = object
            .data
            .pointer(&format!("/status/uncountedTerminatedPods/{which}"));
        list.and_then(Value::as_array)
            .is_some_and(|pods| !pods.is_empty())
    });
    let left = usize::try_from(count("/status/active") + count("/status/terminating")).ok()?;
    (ended == 0 && !uncounted).then_some(left)
}

/// Whether a kubelet has taken the pod up, or it has ended: its containers may have run then, whatever is known of them.
fn is_taken_up(pod: &Value) -> bool {
    let pending = matches!(text(pod, "/status/phase").as_str(), "" | "Pending");
    !pending || pod.pointer("/status/startTime").is_some_and(|at| !at.is_null())
}

/// Name of the container that runs, the first of them.
fn running_container(pod: &Value) -> Option<String> {
    ["/status/initContainerStatuses", "/status/containerStatuses"]
        .iter()
        .filter_map(|pointer| pod.pointer(pointer).and_then(Value::as_array))
        .flatten()
        .find(|status| status.pointer("/state/running").is_some())
        .map(|status| text(status, "/name"))
}

/// Why a pod does not start: a container that waits for its image or its configuration, or no node to
/// run on.
fn pod_trouble(pod: &Value) -> Option<(String, String)> {
    const FATAL: [&str; 7] = [
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    ];
    let waiting = ["/status/initContainerStatuses", "/status/containerStatuses"]
        .iter()
        .filter_map(|pointer| pod.pointer(pointer).and_then(Value::as_array))
        .flatten()
        .filter_map(|status| status.pointer("/state/waiting"))
        .find(|waiting| {
            waiting
                .get("reason")
                .and_then(Value::as_str)
                .is_some_and(|reason| FATAL.contains(&reason))
        });
    if let Some(waiting) = waiting {
        return Some(words(waiting));
    }
    pod.pointer("/status/conditions")
        .and_then(Value::as_array)?
        .iter()
        .find_map(|condition| {
            let unschedulable =
                text(condition, "/type") == "PodScheduled" && text(condition, "/status") == "False";
            unschedulable.then(|| words(condition))
        })
}

/// The status of a rule alone.
#[derive(Deserialize)]
struct OnlyStatus {
    status: Option<numo_api::MutexRuleStatus>,
}

/// The status of a budget alone.
#[derive(Deserialize)]
struct OnlyBudgetStatus {
    status: Option<numo_api::MutexBudgetStatus>,
}

/// What of a pod tells whether it is on its node, and whether it ends.
#[derive(Deserialize, Serialize)]
struct OnlyPod {
    metadata: OnlyPodMetadata,
    spec: OnlyPodSpec,
    #[serde(default)]
    status: OnlyPodStatus,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct OnlyPodMetadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct OnlyPodSpec {
    node_name: Option<String>,
}

#[derive(Default, Deserialize, Serialize)]
struct OnlyPodStatus {
    phase: Option<String>,
}

/// Namespaces that an annotation may list.
const NAMESPACES_LISTED: usize = 1000;

/// What matters of a Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceView {
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether Plans are honoured in it, by its label.
    pub plans: bool,
    /// Namespaces whose rules may run their Jobs in it, by its annotation; at most [`NAMESPACES_LISTED`].
    pub rule_jobs_from: BTreeSet<String>,
}

/// The view of a rule, with what is known of its validity.
pub fn rule(rule: &MutexRule, validity: numo_core::observed::Validity) -> numo_core::observed::RuleView {
    frontends::mutex_rule::parse(rule, validity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_of_a_pod_is_kept_than_a_drain_needs() {
        let pod = |labels: usize, claims: usize, name: usize| {
            let labels: BTreeMap<String, String> = (0..labels)
                .map(|at| (format!("label-{at}"), String::new()))
                .collect();
            let volumes: Vec<Value> = (0..claims)
                .map(|at| serde_json::json!({"name": "v", "persistentVolumeClaim": {"claimName": format!("claim-{at}")}}))
                .collect();
            let owner = serde_json::json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "n".repeat(name), "uid": "u", "controller": true,
            });
            let object = serde_json::json!({
                "metadata": {"name": "p", "namespace": "team", "labels": labels, "ownerReferences": [owner]},
                "spec": {"nodeName": "a", "volumes": volumes},
            });
            node_pod(&serde_json::from_value(object).unwrap())
        };
        let usual = pod(20, 2, 40);
        assert_eq!((usual.labels.len(), usual.claims.len()), (20, 2));
        let hostile = pod(30_000, 5000, 1 << 20);
        assert!(hostile.labels.is_empty(), "{}", hostile.labels.len());
        assert_eq!(hostile.claims.len(), CLAIMS);
        let (_, name, _) = hostile.controller.unwrap();
        assert!(name.chars().count() <= NAME_LETTERS, "{}", name.len());
    }

    #[test]
    fn a_kubelet_that_writes_many_addresses_keeps_none_of_its_pods_range_out() {
        let addresses: Vec<Value> = (0..40)
            .map(|last| serde_json::json!({"type": "InternalIP", "address": format!("192.0.2.{last}")}))
            .chain([serde_json::json!({"type": "Hostname", "address": "worker-0"})])
            .collect();
        let object = serde_json::json!({
            "metadata": {"name": "worker-0"},
            "spec": {"podCIDRs": ["198.51.100.0/24", "2001:db8::/64"]},
            "status": {"addresses": addresses},
        });
        let (_, OfNode { networks, .. }) = node(serde_json::from_value(object).unwrap());
        let wanted = ["198.51.100.0/24", "2001:db8::/64"].map(|text| text.parse().unwrap());
        assert_eq!(networks[..2], wanted);
        assert_eq!(networks.len(), 2 + ADDRESSES);
    }

    #[test]
    fn a_plans_job_has_failed_when_its_pods_have_ended() {
        let job = |conditions: Value| {
            let object = serde_json::json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {
                    "name": "j", "namespace": "ns", "uid": "u",
                    "labels": {marks::PLAN: "p", marks::PLAN_NODE: "a"},
                },
                "spec": {"parallelism": 1},
                "status": {"conditions": conditions},
            });
            serde_json::from_value::<DynamicObject>(object).unwrap()
        };
        let condition = |type_: &str, status: &str| {
            serde_json::json!({
                "type": type_, "status": status, "reason": "DeadlineExceeded", "message": "too long",
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            })
        };
        let failed = JobEnd::Failed("DeadlineExceeded".to_owned(), "too long".to_owned());
        let target = job(serde_json::json!([
            condition("FailureTarget", "True"),
            condition("Failed", "False")
        ]));
        let view = plan_job(&target).unwrap();
        assert_eq!((view.ended, view.ended_at), (None, None));
        // A rule's verdict is seen at once.
        assert_eq!(super::job(&target).ended, Some(failed.clone()));
        let over = job(serde_json::json!([
            condition("FailureTarget", "True"),
            condition("Failed", "True")
        ]));
        let view = plan_job(&over).unwrap();
        assert_eq!(view.ended, Some(failed));
        assert_eq!(view.ended_at, "2030-01-01T00:00:00Z".parse().ok());
        let complete = job(serde_json::json!([
            condition("SuccessCriteriaMet", "True"),
            condition("Complete", "True")
        ]));
        assert_eq!(plan_job(&complete).unwrap().ended, Some(JobEnd::Complete));
    }

    /// What this logs, line by line.
    fn logged(what: impl FnOnce()) -> Vec<String> {
        #[derive(Clone, Default)]
        struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
        impl std::io::Write for Log {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let log = Log::default();
        let of_log = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || of_log.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, what);
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn objects_that_nobody_can_read_fill_no_log() {
        let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300));
        let pod = |namespace: &str, name: usize| {
            let text = format!(
                r#"{{"metadata": {{"name": "p{name}", "namespace": "{namespace}", "managedFields": [{{"fieldsV1": {deep}}}]}}}}"#
            );
            serde_json::from_str::<Item>(&text).unwrap()
        };
        let lines = logged(|| {
            for name in 0..1000 {
                assert!(item(Kind::DisruptionBudget, &pod("flood", name)).is_none());
            }
            item(Kind::DisruptionBudget, &pod("beside-it", 7));
        });
        let flood = lines.iter().filter(|line| line.contains("flood")).count();
        assert!((2..100).contains(&flood), "{flood} lines");
        assert!(lines.iter().any(|line| line.contains("flood/p0")), "{lines:?}");
        assert!(
            lines.iter().any(|line| line.contains("beside-it/p7")),
            "others are not drowned"
        );
        assert!(
            lines.iter().any(|line| line.contains("lines are left out")),
            "{lines:?}"
        );
    }

    #[test]
    fn what_serde_quotes_of_an_object_is_not_logged_whole() {
        let long = "x".repeat(100_000);
        let plan = serde_json::json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
            "metadata": {"name": "p", "namespace": "quoted"},
            "spec": {"concurrency": long},
        });
        let lines = logged(|| {
            let plan = serde_json::from_str::<Item>(&plan.to_string()).unwrap();
            assert!(matches!(item(Kind::Plan, &plan), Some(Object::NotRead(..))));
        });
        assert!(!lines.is_empty());
        assert!(
            lines.iter().all(|line| line.len() < 1000),
            "{:?}",
            lines.iter().map(String::len)
        );
    }

    fn run_of(spec: &Value) -> Option<Object> {
        let object = serde_json::json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig",
            "metadata": {"name": "upgrade", "namespace": "ns", "uid": "u"},
            "spec": spec,
        });
        item(
            Kind::MutexRunConfig,
            &serde_json::from_value::<Item>(object).unwrap(),
        )
    }

    #[test]
    fn a_run_that_a_later_numo_wrote_keeps_its_pools() {
        let found = run_of(&serde_json::json!({
            "mutexTargets": [{"name": "workers"}], "order": "ByMoon", "soakSeconds": 5,
        }));
        let Some(Object::Run(run)) = found else {
            panic!("{found:?}");
        };
        assert_eq!(run.spec.mutex_targets.as_ref().map(Vec::len), Some(1));
        assert_eq!((run.spec.order, run.spec.soak_seconds), (None, Some(5)));
        let words = run.misread.unwrap_or_default();
        assert!(
            words.starts_with("spec.order: ") && words.contains("ByMoon"),
            "{words}"
        );
        // Without its targets nobody knows which pools it means: what was seen of it before is kept.
        for unknown in [
            serde_json::json!({"mutexTargets": "workers", "order": "ByMoon"}),
            serde_json::json!({"mutexTargets": [{"name": "workers"}], "canary": 7}),
        ] {
            let found = run_of(&unknown);
            assert!(matches!(found, Some(Object::NotRead(..))), "{found:?}");
        }
        let conditions = serde_json::json!({"status": {"conditions": [
            {"type": "Updated", "status": "False", "reason": "", "message": "no"},
            {"type": "RenderDegraded", "status": "True", "reason": "MergeFailed", "message": "x".repeat(2000)},
        ]}});
        let words = condition_words(&conditions, "RenderDegraded", "True").expect("it is degraded");
        assert!(
            words.starts_with("MergeFailed: xxx") && words.chars().count() <= 512,
            "{words}"
        );
        assert_eq!(condition_words(&conditions, "RenderDegraded", "False"), None);
        assert_eq!(condition_words(&conditions, "Failing", "True"), None);
        // Nothing is written over a status that a later numo wrote.
        let object = serde_json::json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig",
            "metadata": {"name": "upgrade", "namespace": "ns", "uid": "u"},
            "spec": {"mutexTargets": [{"name": "workers"}]},
            "status": {"observedGeneration": 3, "run": {"id": "r", "result": "Levitated"}},
        });
        let found = item(
            Kind::MutexRunConfig,
            &serde_json::from_value::<Item>(object).unwrap(),
        );
        let Some(Object::Run(run)) = found else {
            panic!("{found:?}");
        };
        assert!(run.keeps_status && run.status.run.is_none());
        assert_eq!(run.status.observed_generation, Some(3));
        assert!(run.misread.is_some_and(|words| words.starts_with("status.run: ")));
        let whole = run_of(&serde_json::json!({"mutexTargets": [{"name": "workers"}]}));
        assert!(matches!(whole, Some(Object::Run(run)) if run.misread.is_none()));
    }

    /// Whoever may write a DaemonSet by the name of kured holds up 32 nodes for a day, and no more.
    #[test]
    fn locks_of_kured_are_believed_of_few_nodes_and_for_a_day() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let day = jiff::SignedDuration::from_hours(24);
        let locks = |value: Value| {
            let annotations = [(marks::KURED_LOCK.to_owned(), value.to_string())].into();
            let meta = ObjectMeta {
                annotations: Some(annotations),
                ..ObjectMeta::default()
            };
            reboot_locks(&meta, now)
        };
        let holder = |node: &str| serde_json::json!({"nodeID": node, "created": "2090-01-01T00:00:00Z", "TTL": i64::MAX});
        let all: Vec<Value> = (0..100).map(|number| holder(&format!("n{number}"))).collect();
        let many = locks(serde_json::json!({"maxOwners": 100, "locks": all}));
        assert_eq!(many.len(), kured::HOLDERS);
        assert!(
            many.iter().all(|lock| lock.until == now.checked_add(day).ok()),
            "{many:?}"
        );
        let one = locks(holder("n1"));
        assert_eq!((one.len(), one[0].until), (1, now.checked_add(day).ok()));
        for strange in [
            serde_json::json!("n1"),
            serde_json::json!({"nodeID": ""}),
            serde_json::json!(7),
        ] {
            assert!(locks(strange).is_empty());
        }
    }

    #[test]
    fn the_page_of_migrations_names_every_operator_that_numo_stays_off_for() {
        let page = include_str!("../../../docs/migration/README.md");
        for (name, _) in Kind::REPLACED.into_iter().filter_map(Kind::replaced) {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
