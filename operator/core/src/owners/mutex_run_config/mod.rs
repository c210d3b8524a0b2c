//! The decision for a MutexRunConfig: MachineConfigPools are paused, and their nodes let go one after the other. Nothing here
//! reads or writes anything.
//!
//! Order of a pass: finish before starting. Nodes in flight move on; then, if the run is being left,
//! what numo changed is given back; otherwise pools are armed, and nodes are admitted while every gate
//! and budget allows.

mod admit;
mod change;
mod directive;
mod finalizer;
pub mod gates;
mod given_up;
mod journals;
mod labels;
mod lint;
mod machine;
mod member;
mod orphans;
mod pause;
mod pool;
mod quarantine;
mod release;
mod run;
mod run_decision;
mod run_rules;
pub(crate) mod run_view;
mod selectors;
mod targets;
mod turn;
mod ungated;
mod waves;

pub use admit::reservation;
pub use member::Member;
pub use run_view::RunView;

pub(crate) use lint::Lint;
pub(crate) use run::Run;
