//! The types of numo's custom resources: data only.
//!
//! One file per kind, plus [`conditions`] (every condition type and every reason a user can see) and
//! [`marks`] (every key numo writes on an object that is not its own). Nothing here decides, reads a
//! clock or talks to a server; the schemas of `deploy/crds` are generated from these types.
//!
//! Names, fields and messages of `openshift-optional.skrzypek.io` are those of the operator numo
//! replaces, so that manifests written for it apply unchanged. What of that operator's could work stays
//! admitted here, and what can never have worked is refused ([`validations`]); what depends on other
//! objects becomes a condition.

pub mod approval;
pub mod awaited_workloads;
pub mod cel_rule;
mod check;
mod condition_schema;
pub mod conditions;
pub mod crds;
pub mod domains;
pub mod drain;
pub mod gate;
pub mod hours;
pub mod machines;
pub mod marks;
pub mod mutex_approval;
pub mod mutex_binding;
pub mod mutex_budget;
pub mod mutex_notifier;
pub mod mutex_rule;
pub mod mutex_run_config;
pub mod mutex_settings;
pub mod mutex_target;
pub mod mutex_window;
pub mod node_change;
pub mod node_maintenance;
pub mod object_ref;
pub mod plan;
pub mod plan_window;
pub mod prometheus_rule;
mod rule_validations;
mod schema;
mod shape;
mod strategy;
pub mod text;
pub mod time_of_day;
mod validations;
pub mod wasm_rule;
pub mod wave;
pub mod words;

pub use approval::{ApprovalPolicy, ApprovalSettings, ApprovalStatus};
pub use awaited_workloads::AwaitedWorkloads;
pub use cel_rule::{CelObjects, CelRule, CelValidation, CelVariable, Unmet};
pub use conditions::{Condition, Reason};
pub use domains::Domains;
pub use drain::{DrainOrder, DrainSettings};
pub use mutex_approval::{ApprovedOwner, MutexApproval, MutexApprovalSpec, MutexApprovalStatus};
pub use mutex_binding::{MutexBinding, MutexBindingSpec, MutexBindingStatus};
pub use mutex_budget::{MutexBudget, MutexBudgetSpec, MutexBudgetStatus};
pub use mutex_notifier::{MutexNotifier, MutexNotifierSpec, MutexNotifierStatus, NotifiedKind, Transition};
pub use mutex_rule::{
    FailurePolicy, InlineRule, InlineRuleStatus, MutexRule, MutexRuleSpec, MutexRuleStatus, Phase, Placement,
    RuleType,
};
pub use mutex_run_config::{
    MutexRunConfig, MutexRunConfigSpec, MutexRunConfigStatus, Order, RunResult, RunStatus, TargetRef,
};
pub use mutex_settings::{DrainBy, MutexSettings};
pub use mutex_target::{MutexTarget, MutexTargetSpec, MutexTargetStatus};
pub use mutex_window::{MutexWindow, MutexWindowSpec, MutexWindowStatus};
pub use node_change::{
    Directive, DirectiveAction, Entry, NodeChange, NodeChangeSpec, NodeChangeStatus, Outcome, OwnerRef, Pin,
    PutBack, RuleWait, Step, Target, Terms, VerdictRecord,
};
pub use node_maintenance::{NodeMaintenance, NodeMaintenanceSpec, NodeMaintenanceStatus, PodRef};
pub use object_ref::ObjectRef;
pub use plan::{
    Plan, PlanCondition, PlanContainer, PlanDrain, PlanSecret, PlanSpec, PlanStatus, PlanVolume, PlanWindow,
};
pub use prometheus_rule::{AlertMatch, Comparison, Matching, NoData, NotANumber, PrometheusRule, Warnings};
pub use strategy::Strategy;
pub use wasm_rule::{
    ConfigMapKey, HttpGrant, KeylessIdentity, KubernetesGrant, PrometheusGrant, RuleGrants, RuleLimits,
    Scheme, SeenVersion, SignatureMode, SignaturePolicy, Want, WasmRule, WasmStatus,
};
pub use wave::{Wave, WaveStatus};

/// API group of the kinds that exist in the replaced operator too.
pub const GROUP: &str = "openshift-optional.skrzypek.io";
/// API group of the kinds that only numo has.
pub const NUMO_GROUP: &str = "numo.openshift-optional.skrzypek.io";
/// The one version both groups serve.
pub const VERSION: &str = "v1alpha1";
