//! The WASM host: bytes of a component become a [`Rule`], or a provider of machines ([`provider`]), and are asked under limits and grants.
//!
//! ```text
//! bytes ─► in a child: scan ─► inspect (valid? for what? which imports?) ─► compile ─┐
//!                                          link ─► describe ─► Rule ◄────────────────┘
//! Input + Grants + Services ─► fresh store, deadline, limiter ─► evaluate ─► checks ─► Verdict, or Refused{reason}
//! ```
//!
//! This crate is the only one that names wasmtime. It knows no Kubernetes client: what an evaluation may reach beyond
//! computing is behind the traits in [`services`], asked only after a grant was found. Nothing that goes wrong here is
//! ever a pass. The contract with components is `wit/`.

mod any;
mod bindings;
mod budget;
mod cache;
mod call;
mod compile;
mod digest;
mod evaluate;
mod folder;
mod host;
#[cfg(target_os = "linux")]
mod jail;
mod limiter;
mod load;
mod reason;
mod rule;
mod scan;
mod setup;
mod ticker;
#[cfg(any(test, not(target_os = "linux")))]
mod unjailed;

#[doc(hidden)]
pub mod bare;
pub mod component;
pub mod confined;
pub mod description;
pub mod engine;
pub mod fetch;
pub mod grants;
pub mod inspect;
pub mod limits;
pub mod net;
pub mod oci;
pub mod prometheus;
pub mod provider;
pub mod services;
pub mod shares;
pub mod signature;
pub mod spec;
#[doc(hidden)]
pub mod text;
pub mod verdict;

pub use any::Component;
pub use compile::{COMPILE_VERB, compile_child};
pub use description::Description;
pub use digest::digest;
pub use engine::{Compile, Engine, Setup, SetupError, Turn};
pub use evaluate::{Answer, Usage};
pub use grants::{Grants, MissingGrant};
pub use host::{Read, check_kind, check_name};
pub use inspect::Inspection;
pub use limits::{Limits, RuleLimits};
pub use net::address;
pub use reason::{Reason, Refused};
pub use rule::{Rule, Terms};
pub use services::Services;
pub use verdict::{Input, ObjectRef, Verdict};
