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

#![cfg_attr(
    not(feature = "sandbox"),
    allow(
        dead_code,
        unused_imports,
        reason = "what only the engine asks for stands among what the command line asks for too"
    )
)]

#[cfg(not(feature = "sandbox"))]
mod absent;
#[cfg(feature = "sandbox")]
mod any;
#[cfg(feature = "sandbox")]
mod bindings;
#[cfg(feature = "sandbox")]
mod budget;
#[cfg(feature = "sandbox")]
mod cache;
#[cfg(feature = "sandbox")]
mod call;
#[cfg(feature = "sandbox")]
mod compile;
mod digest;
#[cfg(feature = "sandbox")]
mod evaluate;
mod folder;
#[cfg(feature = "sandbox")]
mod host;
#[cfg(all(target_os = "linux", feature = "sandbox"))]
mod jail;
#[cfg(feature = "sandbox")]
mod limiter;
#[cfg(feature = "sandbox")]
mod load;
mod outcome;
mod reason;
mod request;
#[cfg(feature = "sandbox")]
mod rule;
#[cfg(feature = "sandbox")]
mod scan;
mod setup;
#[cfg(feature = "sandbox")]
mod ticker;
#[cfg(any(test, not(all(target_os = "linux", feature = "sandbox"))))]
mod unjailed;

#[cfg(feature = "sandbox")]
#[doc(hidden)]
pub mod bare;
#[cfg(feature = "sandbox")]
pub mod component;
pub mod confined;
pub mod description;
#[cfg(feature = "sandbox")]
pub mod engine;
pub mod fetch;
pub mod grants;
pub mod inspect;
pub mod limits;
pub mod net;
pub mod oci;
pub mod prometheus;
#[cfg(feature = "sandbox")]
pub mod provider;
pub mod services;
pub mod shares;
pub mod signature;
pub mod spec;
#[doc(hidden)]
pub mod text;
pub mod verdict;

#[cfg(not(feature = "sandbox"))]
pub use absent::{Engine, Rule, Turn};
#[cfg(feature = "sandbox")]
pub use any::Component;
#[cfg(feature = "sandbox")]
pub use compile::compile_child;
pub use description::Description;
pub use digest::digest;
#[cfg(feature = "sandbox")]
pub use engine::{Engine, Turn};
pub use grants::{Grants, MissingGrant};
pub use inspect::Inspection;
pub use limits::{Limits, RuleLimits};
pub use net::address;
pub use outcome::{Answer, Read, Usage};
pub use reason::{Reason, Refused};
pub use request::{check_kind, check_name};
#[cfg(feature = "sandbox")]
pub use rule::Rule;
pub use services::Services;
pub use setup::{Absent, COMPILE_VERB, Compile, Setup, SetupError};
pub use spec::Terms;
pub use verdict::{Input, ObjectRef, Verdict};
