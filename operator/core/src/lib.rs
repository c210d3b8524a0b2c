//! What numo decides. Pure: no async, no client, no clock, no randomness, no logging.
//!
//! [`decide`](decide::decide) is the only place that decides: it takes what was seen
//! ([`observed`]), at one time, for one owner, with the [answers](verdict) that only the outside could
//! give, and returns the next [actions](action) with a [report](report) that says why for every node.
//! It cannot fail, and the same input gives the same output. [`invariant`] checks every decision once
//! more before anything is written.

pub mod action;
pub mod admit;
pub mod binding;
pub mod calendar;
pub mod decide;
pub mod decision;
pub mod drain;
pub mod eta;
mod failures;
pub mod finalizer;
pub mod forecast;
pub mod intent;
pub mod invariant;
pub mod key;
pub mod ledger;
pub mod left;
pub mod lint;
pub mod mark;
pub mod model;
pub mod names;
pub mod observed;
pub mod own_gate;
pub mod owner;
pub mod ownerless;
pub mod owners;
pub mod pace;
pub mod pairs;
pub mod pass;
pub mod place;
pub mod pools;
pub mod probe;
pub mod quorum;
pub mod ready;
pub mod referred;
pub mod release;
mod released;
mod remark;
pub mod report;
pub mod rival;
pub mod rules;
pub mod selector;
pub mod standoff;
pub mod stop;
pub mod suspended;
mod targets;
pub mod text;
pub mod time;
pub mod turn;
mod undo;
pub mod unheard;
pub mod unknown;
mod untold;
pub mod verdict;
pub mod why;

pub use decide::decide;
pub use decision::{Decision, Snapshot};
pub use owner::{MaintenanceGroup, Owner, OwnerKind};
