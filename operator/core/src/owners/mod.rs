//! What the kinds of owner do not share: one module a kind, which reads its own objects, keeps its own promises to the
//! operator that it replaces, and puts the shared steps (`turn/`, `admit/`, `drain`, `ledger`) together. Nothing of one
//! owner may be used by another one.

pub mod mutex_run_config;
pub mod node_maintenance;
pub mod node_version;
pub mod plan;
