//! Runners turn a rule into something that runs, and never write it themselves.

pub mod cel;
pub mod facts;
pub mod job;
pub mod plan_job;
pub mod prometheus;
pub mod selector;
pub mod wasm;
pub mod workloads;
