//! Everything that is watched: one file for each kind, or for a tight family, and the one list of all of them. A kind that is missing
//! from the list does not compile. What a file says of its kind is described in `watched/entry.rs`; nothing here talks to a cluster.

mod cluster_version;
mod daemon_set;
mod disruption_budget;
mod entry;
pub mod etcd_pod;
mod fleet;
mod infrastructure;
mod job;
mod kured;
mod lease;
mod machine_api;
mod machine_config;
mod machine_config_pool;
mod machine_os_config;
mod mutex_approval;
mod mutex_binding;
mod mutex_budget;
mod mutex_notifier;
pub mod mutex_rule;
pub mod mutex_run_config;
mod mutex_target;
mod mutex_window;
mod namespace;
pub mod node;
pub mod node_change;
mod node_maintenance;
mod node_pod;
pub mod object;
mod plan;
mod plan_job;
mod replaced;
mod secret;

pub use entry::{Kept, Missing, Place, Selection, Watched};
pub use fleet::FLEET_KINDS;
pub use machine_api::missed as missed_machines;
pub use object::{Deployed, Object};

use super::{
    crowd::EACH,
    item::{Item, Size, Unreadable},
    kind::Kind,
    project,
    store::Store,
};
use entry::Reading;
use kube::core::DynamicObject;
use numo_core::observed::Key;

/// Has one list be both what a loop goes through and what the compiler checks.
macro_rules! list {
    ($($kind:ident => $watched:path,)*) => {
        /// All kinds, in the order in which the command line lists them.
        pub const ALL: &[Kind] = &[$(Kind::$kind),*];

        impl Kind {
            /// What numo must know of it to watch it.
            pub const fn watched(self) -> &'static Watched {
                match self {
                    $(Self::$kind => &$watched,)*
                }
            }
        }
    };
}

list! {
    Node => node::NODE,
    MachineConfigPool => machine_config_pool::MACHINE_CONFIG_POOL,
    MachineConfig => machine_config::MACHINE_CONFIG,
    ClusterVersion => cluster_version::CLUSTER_VERSION,
    Infrastructure => infrastructure::INFRASTRUCTURE,
    MachineOSConfig => machine_os_config::MACHINE_OS_CONFIG,
    OpenShiftMachine => machine_api::OPENSHIFT_MACHINE,
    OpenShiftHealthCheck => machine_api::OPENSHIFT_HEALTH_CHECK,
    ClusterApiMachine => machine_api::CLUSTER_API_MACHINE,
    ClusterApiHealthCheck => machine_api::CLUSTER_API_HEALTH_CHECK,
    Kured => kured::KURED,
    MutexRunConfig => mutex_run_config::MUTEX_RUN_CONFIG,
    MutexRule => mutex_rule::MUTEX_RULE,
    MutexTarget => mutex_target::MUTEX_TARGET,
    NodeChange => node_change::NODE_CHANGE,
    MutexBudget => mutex_budget::MUTEX_BUDGET,
    MutexWindow => mutex_window::MUTEX_WINDOW,
    MutexNotifier => mutex_notifier::MUTEX_NOTIFIER,
    MutexApproval => mutex_approval::MUTEX_APPROVAL,
    NodeMaintenance => node_maintenance::NODE_MAINTENANCE,
    KubeVirtMaintenance => node_maintenance::KUBEVIRT_MAINTENANCE,
    Plan => plan::PLAN,
    NodeVersion => fleet::NODE_VERSION,
    ScalingGroup => fleet::SCALING_GROUP,
    PendingNode => fleet::PENDING_NODE,
    JoiningNode => fleet::JOINING_NODE,
    AutoscalingStrategy => fleet::AUTOSCALING_STRATEGY,
    Autoscaler => fleet::AUTOSCALER,
    MutexBinding => mutex_binding::MUTEX_BINDING,
    Namespace => namespace::NAMESPACE,
    Job => job::JOB,
    Pod => job::POD,
    JobEvent => job::JOB_EVENT,
    PlanJob => plan_job::PLAN_JOB,
    PlanPod => plan_job::PLAN_POD,
    Secret => secret::SECRET,
    Lease => lease::LEASE,
    NodePod => node_pod::NODE_POD,
    DaemonSet => daemon_set::DAEMON_SET,
    DisruptionBudget => disruption_budget::DISRUPTION_BUDGET,
    EtcdPod => etcd_pod::ETCD_POD,
    NodeMaintenanceOperator => replaced::NODE_MAINTENANCE_OPERATOR,
    NodeMaintenanceOperatorOld => replaced::NODE_MAINTENANCE_OPERATOR_OLD,
    NodeMaintenanceOperatorBundled => replaced::NODE_MAINTENANCE_OPERATOR_BUNDLED,
    SystemUpgradeController => replaced::SYSTEM_UPGRADE_CONTROLLER,
    NodeUpgradeMutexOperator => replaced::NODE_UPGRADE_MUTEX_OPERATOR,
    ConstellationOperator => replaced::CONSTELLATION_OPERATOR,
}

/// The kinds that are watched at a place.
pub fn at(place: Place) -> impl Iterator<Item = Kind> {
    ALL.iter()
        .copied()
        .filter(move |kind| kind.watched().place == place)
}

impl Kind {
    /// What of the kind is asked for in a scope: a namespace, or empty for all.
    pub fn select(self, scope: &str) -> Selection {
        (self.watched().select)(scope)
    }

    /// Group, version, kind, plural.
    pub const fn resource(self) -> (&'static str, &'static str, &'static str, &'static str) {
        self.watched().resource
    }

    /// The plural, with the group where two groups have it: by that an object that cannot be read is known.
    pub const fn unread_as(self) -> &'static str {
        match self.watched().reading {
            Reading::Ours { known_as, .. } => known_as,
            Reading::Brief | Reading::Whole | Reading::AtLeast(_) => self.resource().3,
        }
    }
}

impl Item {
    /// The object.
    ///
    /// Errors: it has more bytes, values or levels than an object of its kind may have, or is no object.
    pub fn read(&self, kind: Kind) -> Result<DynamicObject, Unreadable> {
        let mut object = self.read_as(match kind.watched().reading {
            Reading::Ours { size, .. } => size,
            Reading::Brief | Reading::Whole | Reading::AtLeast(_) => Size::Any,
        })?;
        // Who paused a pool, and whether numo has a lease, is told by who wrote the field.
        if matches!(kind, Kind::MachineConfigPool | Kind::Lease) {
            object.metadata.managed_fields = self.managed();
        }
        Ok(object)
    }
}

/// What an object is to numo that a watch tells of.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
pub enum Found {
    /// One of those that it looks at.
    Shown(Object),
    /// It was read, and is none of them, or no more: a label may have been taken off it.
    NotOurs,
    /// It cannot be read: what was seen of it before is kept.
    PassedOver,
}

/// What an object is that was read by itself; one that cannot be read is told where that is an object's own business, and passed over else.
pub fn find(kind: Kind, item: &Item) -> Found {
    let reading = kind.watched().reading;
    if matches!(reading, Reading::Brief) {
        return object(kind, &project::brief(item)).map_or(Found::NotOurs, Found::Shown);
    }
    let why = match item.read(kind) {
        Ok(found) => match (object(kind, &found), reading) {
            (Some(found), _) => return Found::Shown(found),
            (None, Reading::Ours { misread, .. }) => Unreadable {
                too_large: false,
                message: misread(&found).unwrap_or_else(|| "it is none of its kind".to_owned()),
            },
            // All of its kind are ours: one of a later numo cannot be read.
            (None, _) if kind == Kind::MutexNotifier => return Found::PassedOver,
            (None, Reading::Brief | Reading::Whole | Reading::AtLeast(_)) => return Found::NotOurs,
        },
        Err(why) => why,
    };
    let left = match reading {
        Reading::Ours { left, .. } => left(kind, item, &why),
        Reading::AtLeast(left) => left(item),
        Reading::Brief | Reading::Whole => {
            let key = project::key(&item.metadata);
            project::unread("an object is passed over", Some(kind), &key, &why.message);
            None
        }
    };
    left.map_or(Found::PassedOver, Found::Shown)
}

/// The view of an object that was read by itself, if it has one.
pub fn item(kind: Kind, item: &Item) -> Option<Object> {
    match find(kind, item) {
        Found::Shown(object) => Some(object),
        Found::NotOurs | Found::PassedOver => None,
    }
}

/// The view of an object; none for what is not understood (it is then as if it were not there).
pub fn object(kind: Kind, object: &DynamicObject) -> Option<Object> {
    (kind.watched().project)(object)
}

/// Puts an object where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, object: Object) -> bool {
    match object {
        Object::Node(node, rest) => node::put(store, *node, rest),
        Object::Pool(pool) => machine_config_pool::put(store, *pool),
        Object::Config(name, config) => machine_config::put(store, name, config),
        Object::ClusterVersion(version) => cluster_version::put(store, version),
        Object::Infrastructure(topology) => infrastructure::put(store, topology),
        Object::Layered(name, pool) => machine_os_config::put(store, name, pool),
        Object::Machine(place, machine) => machine_api::put_machine(store, place, *machine),
        Object::HealthCheck(place, check) => machine_api::put_health_check(store, place, check),
        Object::RebootLocks(key, account, locks) => store.see_kured(&key, account, locks),
        Object::Run(run) => mutex_run_config::put(store, *run),
        Object::Rule(rule) => store.put_rule(*rule),
        Object::Unreadable(rule, why) => store.put_unreadable_rule(*rule, why),
        Object::Target(target) => mutex_target::put(store, *target),
        Object::Change(change) | Object::ChangeInPart(change, _) => node_change::put(store, *change),
        Object::Budget(budget) => mutex_budget::put(store, *budget),
        Object::Window(window) => mutex_window::put(store, *window),
        Object::Notifier(notifier) => mutex_notifier::put(store, *notifier),
        Object::Approval(approval) => mutex_approval::put(store, *approval),
        Object::Namespace(name, view) => namespace::put(store, &name, *view),
        Object::Lease(node, lease) => lease::put(store, node, lease),
        Object::Job(key, job) => store.put_job(&key, *job),
        Object::Pod(key, pod) => store.put_pod_of_job(key, pod),
        Object::JobEvent(key, job, trouble) => store.put_job_event(key, &job, trouble),
        Object::Maintenance(view) => node_maintenance::put(store, *view),
        Object::Plan(plan) => plan::put(store, *plan),
        Object::Fleet(found) => fleet::put(store, *found),
        Object::PlanJob(key, job, pods) => store.put_plan_job(&key, *job, pods),
        Object::PlanPod(key, pod) => store.put_plan_pod(key, pod),
        Object::Secret(key, hash) => secret::put(store, key, hash),
        Object::Binding(name, binding) => mutex_binding::put(store, name, *binding),
        Object::DisruptionBudget(key, budget) => disruption_budget::put(store, &key, &budget),
        Object::EtcdPod(key, pod) => etcd_pod::put(store, key, pod),
        Object::Foreign(key, deployed) => store.claim(key, Some(*deployed)),
        Object::DaemonSet(key, uid) => daemon_set::put(store, key, uid),
        // Noted where it was put.
        Object::NodePod(..) | Object::NotRead(..) => false,
    }
}

/// Takes an object away from what decisions see; true if one could change by it.
pub fn remove(store: &mut Store, kind: Kind, key: &Key) -> bool {
    (kind.watched().remove)(store, key)
}

/// Whether an object differs from what is known of it by more than its status. Of kinds whose status numo does not write nobody asks.
pub fn has_news(store: &Store, object: &Object) -> bool {
    match object {
        Object::Run(run) => mutex_run_config::has_news(store, run),
        Object::Maintenance(view) => node_maintenance::has_news(store, view),
        Object::Plan(view) => plan::has_news(store, view),
        Object::Fleet(found) => fleet::has_news(store, found),
        Object::Rule(rule) | Object::Unreadable(rule, _) => mutex_rule::has_news(store, rule),
        Object::Target(target) => mutex_target::has_news(store, target),
        Object::Budget(budget) => mutex_budget::has_news(store, budget),
        Object::Window(window) => mutex_window::has_news(store, window),
        Object::Binding(name, binding) => mutex_binding::has_news(store, name, binding),
        Object::Approval(approval) => mutex_approval::has_news(store, approval),
        Object::Node(..)
        | Object::Pool(_)
        | Object::Config(..)
        | Object::ClusterVersion(_)
        | Object::Infrastructure(_)
        | Object::Layered(..)
        | Object::Machine(..)
        | Object::HealthCheck(..)
        | Object::Notifier(_)
        | Object::RebootLocks(..)
        | Object::NotRead(..)
        | Object::Change(_)
        | Object::ChangeInPart(..)
        | Object::Namespace(..)
        | Object::Lease(..)
        | Object::Job(..)
        | Object::Pod(..)
        | Object::JobEvent(..)
        | Object::PlanJob(..)
        | Object::PlanPod(..)
        | Object::Secret(..)
        | Object::NodePod(..)
        | Object::DisruptionBudget(..)
        | Object::EtcdPod(..)
        | Object::Foreign(..)
        | Object::DaemonSet(..) => false,
    }
}

/// Whether an object is of a turn that is under way, and changes no other.
pub fn is_of_a_turn(store: &Store, object: &Object) -> bool {
    match object {
        Object::Job(..)
        | Object::Pod(..)
        | Object::JobEvent(..)
        | Object::PlanJob(..)
        | Object::PlanPod(..) => true,
        Object::Change(change) => node_change::is_of_its_turn(store, change),
        _ => false,
    }
}

/// Bytes that an object takes that is not always kept; none for objects of which administrators, or Kubernetes itself, are the authors.
pub fn weight(object: &Object) -> Option<usize> {
    Some(match object {
        Object::Rule(rule) => mutex_rule::weight_without_spec(rule),
        Object::Unreadable(rule, _) => mutex_rule::weight_of_unreadable(rule),
        Object::Run(run) => mutex_run_config::weight(run),
        Object::Target(target) => mutex_target::weight(target),
        Object::Plan(plan) => plan::weight(plan),
        Object::Change(change) | Object::ChangeInPart(change, _) => node_change::weight(change),
        Object::Machine(_, machine) => machine_api::weight_of_machine(machine),
        Object::HealthCheck(_, check) => machine_api::weight_of_health_check(check),
        Object::DisruptionBudget(_, budget) => disruption_budget::weight(budget),
        Object::NotRead(..) => EACH,
        Object::Node(..)
        | Object::Pool(_)
        | Object::Config(..)
        | Object::ClusterVersion(_)
        | Object::Infrastructure(_)
        | Object::Layered(..)
        | Object::RebootLocks(..)
        | Object::Budget(_)
        | Object::Window(_)
        | Object::Notifier(_)
        | Object::Approval(_)
        | Object::Namespace(..)
        | Object::Lease(..)
        | Object::Job(..)
        | Object::Pod(..)
        | Object::JobEvent(..)
        | Object::Maintenance(_)
        | Object::Fleet(_)
        | Object::PlanJob(..)
        | Object::PlanPod(..)
        | Object::Secret(..)
        | Object::Binding(..)
        | Object::NodePod(..)
        | Object::EtcdPod(..)
        | Object::Foreign(..)
        | Object::DaemonSet(..) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lease that nobody is told to have written is not numo's: its node would wait for it.
    #[test]
    fn who_wrote_a_lease_and_who_paused_a_pool_is_read() {
        let read = |kind: Kind, fields: &str| {
            let text = format!(
                r#"{{"metadata": {{"name": "node-a", "managedFields": [{{"manager": "numo", "time": "2026-01-01T00:00:00Z",
                    "fieldsV1": {{"f:spec": {fields}}}}}]}}, "spec": {{"holderIdentity": "x", "paused": true}}}}"#
            );
            let item: Item = serde_json::from_str(&text).unwrap();
            find(kind, &item)
        };
        let Found::Shown(Object::Lease(_, lease)) = read(Kind::Lease, r#"{"f:holderIdentity": {}}"#) else {
            panic!("no lease");
        };
        assert!(lease.by_numo);
        let Found::Shown(Object::Pool(pool)) = read(Kind::MachineConfigPool, r#"{"f:paused": {}}"#) else {
            panic!("no pool");
        };
        assert_eq!(pool.paused_manager.as_deref(), Some("numo"));
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
}
