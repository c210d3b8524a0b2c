//! The stage of the end-to-end tests and of the demo: a real control plane, the simulated world, and
//! numo as a process of its own that runs under the RBAC it ships with, with a token of its own
//! ServiceAccount.
//!
//! It applies what `deploy/` holds; it does not speak for numo, and nothing here judges.

pub mod clouds;
pub mod cluster_api;
mod compare;
mod front;
pub mod machines;
pub mod manifests;
pub mod memory;
pub mod olm;
mod prepared;
pub mod process;
mod proxy;
pub mod rules;
pub mod siege;
mod sink;
mod stage;
mod terminal;
mod unvalidated;

pub use front::{Called, Front, Tokens};
pub use prepared::{install, with_kinds};
pub use process::{Numo, Said, binary, call_in, call_with, cargo_with, crates};
pub use proxy::{Cut, Proxy, Slow, Withheld, is_counted};
pub use sink::{Answers, Sink};
pub use stage::{NAMESPACE, Stage, StageOptions, client_of, has_leases, kubectl};
pub use terminal::{Page, Terminal};
