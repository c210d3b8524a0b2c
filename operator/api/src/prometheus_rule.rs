//! `spec.prometheus` of a MutexRule: a query with a threshold, or alerts that must not fire.

use crate::cel_rule::Unmet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A question to the Prometheus that numo was told of. The namespace needs the label
/// `numo.openshift-optional.skrzypek.io/rule-network: cluster`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusRule {
    /// PromQL; its answer is an instant vector or a scalar. `${node}`, `${pool}`, `${fromVersion}`, `${toVersion}` and
    /// `${run}` are filled in, quoted for a string of PromQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub query: Option<String>,
    /// The step may be taken when value, operator and threshold are true together. Needed with `query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<Comparison>,
    /// What each value is compared with. Needed with `query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Whether All of the samples must be so, or Any. Default: All.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "match")]
    pub matching: Option<Matching>,
    /// Instead of `query`: alerts of which none may fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alerts: Option<AlertMatch>,
    /// Seconds that it must have been so, at every evaluation. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86_400))]
    pub for_seconds: Option<i32>,
    /// Seconds between two answers after which the duration starts over. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 3600))]
    pub max_gap_seconds: Option<i32>,
    /// What an answer without samples is, for `query`. Default: Wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_data: Option<NoData>,
    /// What a sample is that is not a number: Unmet, Met, or left out (Ignore). Default: Unmet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nan: Option<NotANumber>,
    /// What follows from warnings of the server, for example of a partial answer: Wait, or Ignore them.
    /// Default: Wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Warnings>,
    /// What follows when it is not as wanted: Wait and be evaluated again, or Block, which fails the attempt.
    /// Default: Wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmet: Option<Unmet>,
    /// Seconds after which it is evaluated again. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 3600))]
    pub retry_after_seconds: Option<i32>,
}

/// Firing alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertMatch {
    /// As for amtool: severity="critical", alertname!~"Watchdog|Info.*". An alert must match all of them to count.
    /// The same names as in `query` are filled in.
    #[schemars(length(min = 1, max = 16), inner(length(min = 4, max = 512)))]
    pub matchers: Vec<String>,
    /// Matchers of an alert that always fires, for example alertname="Watchdog". While it does not, nobody would know of
    /// others, and the step waits. Default: none is looked for, and a Prometheus without alerting rules has no alerts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16), inner(length(min = 4, max = 512)))]
    pub watchdog: Option<Vec<String>>,
}

/// How a value and the threshold are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Comparison {
    LessThan,
    LessOrEqual,
    GreaterThan,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// How many of the samples must be as wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Matching {
    #[default]
    All,
    Any,
}

/// What an answer without samples is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum NoData {
    #[default]
    Wait,
    Pass,
    Block,
}

/// What a sample is that is not a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum NotANumber {
    #[default]
    Unmet,
    Met,
    Ignore,
}

/// What follows from warnings of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Warnings {
    #[default]
    Wait,
    Ignore,
}
