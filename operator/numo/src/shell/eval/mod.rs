//! What evaluates rules that are not Jobs: components, expressions, queries, and numo's own check; and what loads the component of a provider
//! of machines. `evaluator.rs` is what the planner
//! talks to; `intent.rs` says what a rule asks, `state.rs` what is kept; each type of rule has a file that knows how it is evaluated, and
//! the others say what evaluations may read and reach. Nothing here decides, and nothing
//! but a provider's words is written to the cluster (`writer.rs`).

pub mod artifact;
pub mod component;
mod credentials;
mod engine;
pub mod evaluator;
mod examine;
pub mod expressions;
mod intent;
pub mod invalidate;
pub mod loaded;
mod object;
#[cfg(feature = "operator")]
pub mod provider;
pub mod query;
pub mod reader;
pub mod signers;
mod state;
pub mod workloads;
#[cfg(feature = "operator")]
mod writer;
