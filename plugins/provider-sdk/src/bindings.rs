//! The contract in `wit/` as Rust types, generated. Nothing here is written by hand.
#![allow(
    unsafe_code,
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

wit_bindgen::generate!({
    path: ["../../wit/host", "../../wit/provider"],
    world: "numo:provider/provider",
    generate_all,
    pub_export_macro: true,
    default_bindings_module: "numo_provider_sdk::bindings",
    additional_derives: [PartialEq],
});
