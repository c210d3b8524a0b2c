//! numo: nodes of a cluster change only when their rules say so, one guarded step at a time.
//!
//! [`cli`] is what a person or a pod starts; [`frontends`] read our kinds and render their status;
//! [`runners`] render rules into Jobs; [`shell`] talks to the cluster. Decisions are made in `numo-core`.

#![cfg_attr(
    not(feature = "operator"),
    allow(
        dead_code,
        unused_imports,
        reason = "what only the operator asks for stands among what the command line asks for too"
    )
)]

pub mod cli;
pub mod frontends;
pub mod runners;
pub mod shell;

// Of every program that is made of this library: the binary, and what measures decisions (ADR 43).
#[cfg(feature = "operator")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
