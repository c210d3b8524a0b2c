//! Everything that was seen to change, in the API server's own order.
//!
//! Watches of different kinds are not ordered among each other, but resource versions are: they are
//! revisions of one etcd. Sorted by them, what was seen replays as it happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use tokio::sync::watch;

use crate::cache::{Seen, key, resource_version, uid};
use crate::context::lock;
use crate::membership::Labels;
use crate::openshift::{
    CURRENT_CONFIG, ClusterVersion, DESIRED_CONFIG, DESIRED_DRAIN, LAST_APPLIED_DRAIN, MachineConfig,
    MachineConfigPool, POST_CONFIG_ACTION, REASON, STATE, annotation, is_ready, is_unschedulable,
    pool_condition, release_version,
};

/// Prefixes of what the operator under test writes on objects that are not its own.
pub const MARK_PREFIXES: [&str; 2] = [
    "mutexrule.openshift-optional.skrzypek.io/",
    "numo.openshift-optional.skrzypek.io/",
];

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Record {
    /// Revision of etcd.
    pub revision: u64,
    /// When the watch told it.
    pub at: Timestamp,
    /// What there is now; none: nothing any more.
    pub change: Change,
}

/// The object's projection after the change.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "a name and what it is about")]
pub enum Change {
    Node(String, Option<Box<NodeView>>),
    Pool(String, Option<Box<PoolView>>),
    /// Version annotation of a rendered config.
    Config(String, Option<String>),
    Version(Box<VersionView>),
    Pod(String, Option<Box<PodView>>),
    Job(String, Option<Box<JobView>>),
}

/// What matters of a Node.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named after the Node's own fields and annotations")]
pub struct NodeView {
    pub uid: String,
    pub labels: Labels,
    /// Labels, annotations and taints with one of [`MARK_PREFIXES`].
    pub marks: BTreeSet<String>,
    pub current: String,
    pub desired: String,
    /// Who wrote `desired` last.
    pub desired_by: String,
    pub state: String,
    pub reason: String,
    pub desired_drain: String,
    pub last_applied_drain: String,
    pub rebooting: bool,
    pub ready: bool,
    pub unschedulable: bool,
    pub unschedulable_by: String,
    pub kubelet_version: String,
    pub boot_id: String,
}

/// What matters of a MachineConfigPool.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "a field and its conditions")]
#[expect(missing_docs, reason = "named after the pool's own fields")]
pub struct PoolView {
    pub uid: String,
    pub config: String,
    pub paused: bool,
    /// Who wrote `paused` last.
    pub paused_by: String,
    pub selector: Option<LabelSelector>,
    pub marks: BTreeSet<String>,
    pub updated: bool,
    pub updating: bool,
    pub degraded: bool,
    pub machines: i32,
    pub updated_machines: i32,
}

/// What matters of the ClusterVersion.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named after the ClusterVersion's own fields")]
pub struct VersionView {
    pub wanted: Option<String>,
    pub desired: String,
    pub history: Vec<(String, String)>,
}

/// What matters of a Pod of a Job.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named after the Pod's own fields")]
pub struct PodView {
    pub uid: String,
    pub namespace: String,
    pub node: String,
    pub labels: Labels,
    pub annotations: Labels,
    /// Plain values of the first container.
    pub env: Labels,
    pub phase: String,
    pub exit_code: Option<i32>,
    /// Name and uid of the Job.
    pub job: (String, String),
}

/// What matters of a Job.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "named after the Job's own fields")]
pub struct JobView {
    pub uid: String,
    pub labels: Labels,
    pub annotations: Labels,
    /// Plain values of the template's first container.
    pub env: Labels,
    pub complete: bool,
    pub failed: bool,
}

/// The records of a world.
#[derive(Debug)]
pub(crate) struct Records {
    inner: Mutex<Inner>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Inner {
    all: Vec<Record>,
    /// Last projection of each object: only a change of it is recorded.
    last: BTreeMap<(&'static str, String), Change>,
}

impl Records {
    pub(crate) fn new() -> Self {
        Self {
            inner: Mutex::default(),
            count: watch::Sender::new(0),
        }
    }

    /// How many there are.
    pub(crate) fn changes(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// The last record of each object.
    pub(crate) fn latest(&self) -> Vec<Record> {
        let inner = lock(&self.inner);
        let now = Timestamp::now();
        inner
            .last
            .values()
            .map(|c| Record {
                revision: 0,
                at: now,
                change: c.clone(),
            })
            .collect()
    }

    /// All of them, as they happened.
    pub(crate) fn sorted(&self) -> Vec<Record> {
        let mut all = lock(&self.inner).all.clone();
        all.sort_by_key(|r| r.revision);
        all
    }

    pub(crate) fn node(&self, seen: &Seen<'_, Node>) {
        let (key, revision) = identity(seen);
        let last = self.last("Node", &key);
        let change = Change::Node(key.clone(), there(seen).map(|n| Box::new(node_view(n))));
        let change = keep_writers(change, last.as_ref());
        self.add("Node", key, revision, last.as_ref(), change);
    }

    pub(crate) fn pool(&self, seen: &Seen<'_, MachineConfigPool>) {
        let (key, revision) = identity(seen);
        let last = self.last("Pool", &key);
        let change = Change::Pool(key.clone(), there(seen).map(|p| Box::new(pool_view(p))));
        let change = keep_writers(change, last.as_ref());
        self.add("Pool", key, revision, last.as_ref(), change);
    }

    pub(crate) fn config(&self, seen: &Seen<'_, MachineConfig>) {
        let (key, revision) = identity(seen);
        let last = self.last("Config", &key);
        let change = Change::Config(key.clone(), there(seen).map(release_version));
        self.add("Config", key, revision, last.as_ref(), change);
    }

    pub(crate) fn version(&self, seen: &Seen<'_, ClusterVersion>) {
        let (key, revision) = identity(seen);
        let last = self.last("Version", &key);
        let view = there(seen).map(version_view).unwrap_or_default();
        self.add(
            "Version",
            key,
            revision,
            last.as_ref(),
            Change::Version(Box::new(view)),
        );
    }

    pub(crate) fn pod(&self, seen: &Seen<'_, Pod>) {
        let (key, revision) = identity(seen);
        let last = self.last("Pod", &key);
        let view = there(seen).and_then(pod_view);
        if view.is_some() || last.is_some() {
            self.add(
                "Pod",
                key.clone(),
                revision,
                last.as_ref(),
                Change::Pod(key, view.map(Box::new)),
            );
        }
    }

    pub(crate) fn job(&self, seen: &Seen<'_, Job>) {
        let (key, revision) = identity(seen);
        let last = self.last("Job", &key);
        let change = Change::Job(key.clone(), there(seen).map(|j| Box::new(job_view(j))));
        self.add("Job", key, revision, last.as_ref(), change);
    }

    fn last(&self, kind: &'static str, key: &str) -> Option<Change> {
        lock(&self.inner).last.get(&(kind, key.to_owned())).cloned()
    }

    fn add(&self, kind: &'static str, key: String, revision: u64, last: Option<&Change>, change: Change) {
        if last == Some(&change) {
            return;
        }
        let mut inner = lock(&self.inner);
        inner.last.insert((kind, key), change.clone());
        inner.all.push(Record {
            revision,
            at: Timestamp::now(),
            change,
        });
        self.count.send_replace(inner.all.len());
    }
}

fn identity<K: Resource>(seen: &Seen<'_, K>) -> (String, u64) {
    match seen {
        Seen::There(object) => (key(&***object), resource_version(&***object)),
        Seen::Gone(object) => (key(*object), resource_version(*object)),
    }
}

fn there<'a, K>(seen: &'a Seen<'_, K>) -> Option<&'a K> {
    match seen {
        Seen::There(object) => Some(object),
        Seen::Gone(_) => None,
    }
}

/// Who wrote an unchanged value is of no interest, and must not count as a change.
fn keep_writers(mut change: Change, last: Option<&Change>) -> Change {
    match (&mut change, last) {
        (Change::Node(_, Some(new)), Some(Change::Node(_, Some(old)))) => {
            if new.desired == old.desired {
                new.desired_by.clone_from(&old.desired_by);
            }
            if new.unschedulable == old.unschedulable {
                new.unschedulable_by.clone_from(&old.unschedulable_by);
            }
        }
        (Change::Pool(_, Some(new)), Some(Change::Pool(_, Some(old)))) if new.paused == old.paused => {
            new.paused_by.clone_from(&old.paused_by);
        }
        _ => {}
    }
    change
}

fn node_view(node: &Node) -> NodeView {
    let get = |key| annotation(node, key).to_owned();
    let info = node.status.as_ref().and_then(|s| s.node_info.as_ref());
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
    let mut marks = marks(&node.metadata);
    marks.extend(
        taints
            .into_iter()
            .flatten()
            .map(|t| t.key.clone())
            .filter(|k| is_mark(k)),
    );
    NodeView {
        uid: uid(node),
        labels: node.labels().clone(),
        marks,
        current: get(CURRENT_CONFIG),
        desired: get(DESIRED_CONFIG),
        desired_by: writer(
            &node.metadata,
            &["f:metadata", "f:annotations", &format!("f:{DESIRED_CONFIG}")],
        ),
        state: get(STATE),
        reason: get(REASON),
        desired_drain: get(DESIRED_DRAIN),
        last_applied_drain: get(LAST_APPLIED_DRAIN),
        rebooting: annotation(node, POST_CONFIG_ACTION) == "Rebooting",
        ready: is_ready(node),
        unschedulable: is_unschedulable(node),
        unschedulable_by: writer(&node.metadata, &["f:spec", "f:unschedulable"]),
        kubelet_version: info.map(|i| i.kubelet_version.clone()).unwrap_or_default(),
        boot_id: info.map(|i| i.boot_id.clone()).unwrap_or_default(),
    }
}

fn pool_view(pool: &MachineConfigPool) -> PoolView {
    let is = |type_| pool_condition(pool, type_) == "True";
    let status = pool.status.clone().unwrap_or_default();
    PoolView {
        uid: uid(pool),
        config: pool.spec.configuration.name.clone(),
        paused: pool.spec.paused,
        paused_by: writer(&pool.metadata, &["f:spec", "f:paused"]),
        selector: pool.spec.node_selector.clone(),
        marks: marks(&pool.metadata),
        updated: is("Updated"),
        updating: is("Updating"),
        degraded: is("Degraded"),
        machines: status.machine_count,
        updated_machines: status.updated_machine_count,
    }
}

fn version_view(version: &ClusterVersion) -> VersionView {
    let status = version.status.clone().unwrap_or_default();
    VersionView {
        wanted: version
            .spec
            .desired_update
            .as_ref()
            .and_then(|u| u.version.clone().or(u.image.clone())),
        desired: status.desired.version.unwrap_or_default(),
        history: status.history.into_iter().map(|h| (h.version, h.state)).collect(),
    }
}

/// None for a pod that is not a Job's.
fn pod_view(pod: &Pod) -> Option<PodView> {
    let owner = pod.owner_references().iter().find(|o| o.kind == "Job")?;
    let spec = pod.spec.as_ref()?;
    let status = pod.status.as_ref();
    let first = status
        .and_then(|s| s.container_statuses.as_ref())
        .and_then(|all| all.first());
    Some(PodView {
        uid: uid(pod),
        namespace: pod.namespace().unwrap_or_default(),
        node: spec.node_name.clone().unwrap_or_default(),
        labels: pod.labels().clone(),
        annotations: pod.annotations().clone(),
        env: env(spec.containers.first()),
        phase: status.and_then(|s| s.phase.clone()).unwrap_or_default(),
        exit_code: first
            .and_then(|c| c.state.as_ref())
            .and_then(|s| s.terminated.as_ref())
            .map(|t| t.exit_code),
        job: (owner.name.clone(), owner.uid.clone()),
    })
}

fn job_view(job: &Job) -> JobView {
    let template = job.spec.as_ref().and_then(|s| s.template.spec.as_ref());
    let is = |type_: &str| {
        let conditions = job.status.as_ref().and_then(|s| s.conditions.as_ref());
        conditions
            .into_iter()
            .flatten()
            .any(|c| c.type_ == type_ && c.status == "True")
    };
    JobView {
        uid: uid(job),
        labels: job.labels().clone(),
        annotations: job.annotations().clone(),
        env: env(template.and_then(|t| t.containers.first())),
        complete: is("Complete"),
        failed: is("Failed"),
    }
}

fn env(container: Option<&Container>) -> Labels {
    let all = container.and_then(|c| c.env.as_ref()).into_iter().flatten();
    all.filter_map(|e| Some((e.name.clone(), e.value.clone()?)))
        .collect()
}

fn is_mark(key: &str) -> bool {
    MARK_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Keys of labels, annotations and finalizers that the operator under test has put on an object.
pub(crate) fn marks(meta: &ObjectMeta) -> BTreeSet<String> {
    let labels = meta.labels.iter().flatten().map(|(k, _)| k);
    let annotations = meta.annotations.iter().flatten().map(|(k, _)| k);
    let finalizers = meta.finalizers.iter().flatten();
    labels
        .chain(annotations)
        .chain(finalizers)
        .filter(|k| is_mark(k))
        .cloned()
        .collect()
}

/// The field manager that last wrote a field of the object itself.
fn writer(meta: &ObjectMeta, path: &[&str]) -> String {
    let owns = |fields: &serde_json::Value| path.iter().try_fold(fields, |at, part| at.get(part)).is_some();
    let entries = meta.managed_fields.iter().flatten();
    entries
        .filter(|e| e.fields_v1.as_ref().is_some_and(|f| owns(&f.0)))
        .max_by_key(|e| e.time.as_ref().map(|t| t.0))
        .and_then(|e| e.manager.clone())
        .unwrap_or_default()
}
