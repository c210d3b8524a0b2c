//! What gates the nodes of an owner: in the owner itself (`spec.mutex` of a Plan or NodeVersion) or in a MutexBinding that speaks of it.
//! Data only: its words are read in each of these kinds.

use crate::{
    approval::ApprovalSettings,
    domains::Domains,
    hours::Hours,
    mutex_run_config::{NotReadyPolicy, Order},
    object_ref::ObjectRef,
    wave::Wave,
};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rules, limits and order of the nodes of an owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutexSettings {
    /// The rules that every node of an owner must pass, in order. An owner is the object itself, or one that the binding selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub rules: Option<Vec<ObjectRef>>,
    /// How many nodes may be in flight at once, of one owner or of all NodeMaintenances of one binding: a number or a
    /// percentage, rounded down, at least 1. 0 (or `0%`) lets no node begin, until whoever owns the object raises it. Default: 1
    /// of each owner, unless the owner itself says how many: `concurrency` of a Plan, `surge` of a NodeVersion. Given, it only
    /// lowers these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub max_unavailable: Option<IntOrString>,
    /// Label keys: nodes with the same value of one of them are never in flight together, of one owner or of
    /// the NodeMaintenances of one binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 317)))]
    pub mutex_keys: Option<Vec<String>>,
    /// The order of nodes; Zone: by zone, then oldest first. Not for a NodeMaintenance. Default: Name for a NodeVersion; for a Plan the
    /// order of system-upgrade-controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// How long a node that has passed its Post rules keeps its turn, in seconds. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub soak_seconds: Option<i64>,
    /// Nodes that go before all others: these begin only once every one of them is done. NodeMaintenances of one
    /// binding wait for each other: one is done when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<LabelSelector>,
    /// In what order the nodes go: those of a wave begin once those of the wave before are done and have soaked. Nodes in no
    /// wave come last. `first` is the short form of one wave; beside it there are no waves. Only one of the objects that
    /// gate an owner may have waves. NodeMaintenances of one binding go in waves by `nodeSelector` among each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub waves: Option<Vec<Wave>>,
    /// Finish the nodes of one value of a label, such as a zone, before those of the next begin: of one owner, or of the
    /// NodeMaintenances of one binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domains: Option<Domains>,
    /// What a person must approve before nodes begin (`numo approve`). `approval` of a wave says it of that wave. Of several objects
    /// that gate an owner each is obeyed. Each NodeMaintenance is approved by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalSettings>,
    /// How many nodes may fail before no further node begins: a number, or a percentage of the nodes of the owner (of all
    /// nodes for NodeMaintenances, of which those of one binding count together), rounded down, at least 1. Nodes that were
    /// deleted once released count. Default: 1, unless `approval.afterFailure` is Manual, or another object that gates the owner
    /// says it; `100%` is no bound. A node that fails keeps its place among those in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub failure_budget: Option<IntOrString>,
    /// Begin nodes that are not Ready too, for an owner that repairs them. Default: false, a node that is not Ready waits; true for a
    /// NodeMaintenance, unless `notReadyPolicy` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub take_not_ready: Option<bool>,
    /// What becomes of a node that is not Ready before its turn. Wait (default): it waits until it is Ready, and the
    /// others go on. LeaveOutAfter: after `leaveOutAfterSeconds` the owner goes on without it, and names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready_policy: Option<NotReadyPolicy>,
    /// How long a node may be not Ready before `notReadyPolicy: LeaveOutAfter` leaves it out, in seconds. Default: 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub leave_out_after_seconds: Option<i64>,
    /// How often a node whose Job failed is tried again by itself before it is held. Only for a Plan. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub retries: Option<i32>,
    /// Who cordons and drains. Of a Plan: `Job`, by an init container whose ServiceAccount needs the right to, or `Numo`; default: Job. Of a
    /// NodeVersion: `Numo`, or `NodeMaintenance`, by which another operator does that serves this kind of `nodemaintenance.medik8s.io`;
    /// default: Numo. Not for a NodeMaintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_by: Option<DrainBy>,
    /// When nodes may begin. Beside other hours of the owner all of them must be open. The turn of a node that has changed
    /// nothing ends when the hours close; one that is being changed is brought to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Hours>,
    /// No node begins before this time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub start_after: Option<String>,
}

/// Who cordons and drains the nodes of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum DrainBy {
    #[default]
    Job,
    Numo,
    NodeMaintenance,
}
