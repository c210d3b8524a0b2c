//! One file per kind: the raw object becomes what the core reads, and a report becomes the object's
//! status. Pure; nothing here reads or writes.

pub mod conditions;
pub mod mutex_budget;
pub mod mutex_rule;
pub mod mutex_run_config;
pub mod mutex_target;
pub mod node_maintenance;
pub mod plan;
