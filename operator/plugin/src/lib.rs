//! The WASM rule host: engine, limits, cache, grants. No Kubernetes client.
//!
//! A skeleton: this version of numo serves rules of type `kubernetes` (Jobs) only, and the API admits no
//! other type. The contract that components will implement is drafted in `wit/`.
