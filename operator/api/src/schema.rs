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

/// A number or a text of any length, as the reference has it.
pub fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "nullable": true,
    })
}

/// A number of nodes or a percentage: `1`, `"25%"`. Which of them a field takes `validations.rs` says, in words.
pub fn int_or_percent(_: &mut SchemaGenerator) -> Schema {
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
