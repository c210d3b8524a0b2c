//! Schema fragments that the derive cannot express.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An object whose fields the API server keeps without knowing them: a `batch/v1` JobSpec stays JSON,
/// so that fields newer than numo survive and the server alone judges them.
pub fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// A string or a number of nodes: `1`, `"25%"`.
pub fn int_or_percent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "nullable": true,
    })
}

/// At least one node, or at least one of a hundred: `1`, `"25%"`. Which numbers those are `validations.rs` says, in words; their length is
/// bounded, for there may be many in a list.
pub fn some_or_percent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "nullable": true,
        "maxLength": 20,
    })
}

/// A few short texts by their names.
pub fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "nullable": true,
        "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 512},
    })
}
