//! What the machine-config operator and the cluster-version operator say.

use super::amount::IntOrPercent;
use crate::key::Map;

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
