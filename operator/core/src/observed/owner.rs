//! The owners: MutexRunConfigs with their MutexTargets, NodeMaintenances, and Plans with their channels.

use super::{fleet::NodeVersionView, rule::RuleView};
use crate::{
    admit::hours::Hours,
    key::{Key, Map},
    owner::Owner,
};
use jiff::Timestamp;
use numo_api::{
    ApprovalStatus, MutexRunConfigSpec, MutexRunConfigStatus, MutexTargetStatus, NodeMaintenanceSpec,
    NodeMaintenanceStatus, PlanSpec, PlanStatus, gate::GateOf, mutex_run_config::WaitCount,
    plan_window::Window,
};

/// What every owner has, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub struct OwnerView<'a> {
    /// uid.
    pub uid: &'a str,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The annotations in use: ours.
    pub annotations: &'a Map,
    /// The labels by which a MutexBinding selects it; none of a kind that MutexBindings do not speak of.
    pub labels: Option<&'a Map>,
    /// Its finalizers.
    pub finalizers: &'a [String],
    /// Its spec says that it is to begin nothing.
    pub suspended: bool,
    /// Since when nodes wait for what should end by itself, as its status remembers.
    pub waiting: &'a [WaitCount],
    /// What waits for an approval, as its status remembers; none of a kind whose definition is another's and does not store that.
    pub approval: Option<&'a ApprovalStatus>,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether the object has any annotation at all.
    pub has_annotations: bool,
    /// Field of numo's own that the manifest has which `kubectl apply` remembers, and the object has not: the definition of another operator,
    /// or of an older numo, has pruned it.
    pub pruned: Option<&'static str>,
    /// What gates it in its own spec.
    pub gate: GateOf<'a>,
}

impl<'a> From<&'a RunConfigView> for OwnerView<'a> {
    fn from(run: &'a RunConfigView) -> Self {
        Self {
            uid: &run.uid,
            deleting: run.deleting,
            annotations: &run.annotations,
            labels: None,
            finalizers: &run.finalizers,
            suspended: run.spec.suspend == Some(true),
            waiting: run.status.run.as_ref().map_or(&[], |run| &run.waiting),
            approval: run.status.approval.as_ref(),
            generation: run.generation,
            has_annotations: run.has_annotations,
            pruned: run.pruned,
            gate: match run.misread {
                Some(_) => GateOf::Unread,
                None => GateOf::Run(&run.spec),
            },
        }
    }
}

/// Those of which MutexBindings speak, all alike.
macro_rules! bound {
    ($($view:ty, $it:ident => $gate:expr;)+) => {$(
        impl<'a> From<&'a $view> for OwnerView<'a> {
            fn from($it: &'a $view) -> Self {
                let view = $it;
                Self {
                    uid: &view.uid,
                    deleting: view.deleting,
                    annotations: &view.annotations,
                    labels: Some(&view.labels),
                    finalizers: &view.finalizers,
                    suspended: false,
                    waiting: &[],
                    approval: view.status.approval.as_ref(),
                    generation: view.generation,
                    has_annotations: view.has_annotations,
                    pruned: view.pruned,
                    gate: $gate,
                }
            }
        }
    )+};
}

bound! {
    MaintenanceView, one => GateOf::Rules(one.spec.mutex_rules.as_ref().is_some_and(|rules| !rules.is_empty()));
    PlanView, one => GateOf::Settings(one.spec.mutex.as_ref());
    NodeVersionView, one => GateOf::Settings(one.spec.mutex.as_ref());
}

/// A MutexRunConfig.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Whether the object has any annotation at all.
    pub has_annotations: bool,
    /// Field of numo's own that the manifest has which `kubectl apply` remembers, and the object has not.
    pub pruned: Option<&'static str>,
    /// What of it this numo cannot read, in words: the rest of the spec holds its pools.
    pub misread: Option<String>,
    /// Part of its status was written by a later numo: nothing is written over it.
    pub keeps_status: bool,
    /// The status last written.
    pub status: MutexRunConfigStatus,
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
    /// Whether the object has any annotation at all.
    pub has_annotations: bool,
    /// All labels.
    pub labels: Map,
    /// The spec.
    pub spec: NodeMaintenanceSpec,
    /// The status last written.
    pub status: NodeMaintenanceStatus,
}

/// A Plan.
#[derive(Clone, Debug, Default, PartialEq)]
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
