//! References to objects of numo's kinds. Data only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reference to a MutexRule or MutexTarget.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"))]
    pub name: Option<String>,
    /// Namespace of the object. Default: that of the object that has this reference, or numo's own if that one is in no
    /// namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"))]
    pub namespace: Option<String>,
}
