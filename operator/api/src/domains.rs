//! Domains: the nodes of an owner by the value of a label, such as zones, one domain after the other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In which order an owner goes through the values of a label of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Domains {
    /// Label key whose values are the domains, such as topology.kubernetes.io/zone. A node without the label does not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub key: Option<String>,
    /// How many domains may have nodes in turn at once. Default: 1, a domain is finished before the next begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub at_once: Option<i32>,
    /// The values in the order in which they have their turns, each once. Values that are not named come after these, sorted.
    /// Default: all sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub order: Option<Vec<String>>,
}
