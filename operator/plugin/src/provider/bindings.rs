//! What wasmtime generates from `wit/provider`: version 1 of the contract with providers, and the linker that has it. Types of `numo:host`
//! are those of rules.

#![allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated; the WIT documents itself"
)]

use crate::host::{self, Sandbox};
use wasmtime::component::{HasSelf, Linker};

wasmtime::component::bindgen!({
    path: ["../../wit/host", "../../wit/provider"],
    world: "numo:provider/provider",
    with: {
        "numo:host": crate::bindings::numo::host,
    },
    imports: {
        "numo:provider/settings": trappable,
        default: async | trappable,
    },
    exports: { default: async },
});

/// What providers are lent: interfaces of `numo:host` and `numo:provider`, and WASI with empty hands.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Sandbox>> {
    let mut linker = Linker::new(engine);
    Provider::add_to_linker::<_, HasSelf<_>>(&mut linker, |sandbox: &mut Sandbox| sandbox)?;
    host::wasi::link(&mut linker)?;
    Ok(linker)
}
