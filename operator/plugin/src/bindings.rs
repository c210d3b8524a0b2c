//! What wasmtime generates from `wit/`: version 1 of the contract. The rest of the crate converts to and from its own
//! types at the edge, so that another major version can stand beside this one.

#![allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated; the WIT documents itself"
)]

wasmtime::component::bindgen!({
    path: ["../../wit/host", "../../wit/rule"],
    world: "numo:rule/rule",
    imports: {
        "numo:host/log": trappable,
        "numo:host/clock": trappable,
        "numo:host/history": trappable,
        default: async | trappable,
    },
    exports: { default: async },
});
