//! How a node is released.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a node is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Strategy {
    DesiredConfig,
    CanaryPool,
}
