//! Rules as OCI artifacts: a reference is resolved to a digest once, and what has that digest is fetched under caps;
//! a component is pushed so that equal bytes give an equal digest. It verifies digests and decides nothing about
//! signatures ([`crate::signature`]), keeps nothing on disk, and remembers no credentials between calls.
//!
//! The layout is the CNCF's "Wasm OCI Artifact layout": an image manifest, a config of type [`CONFIG`], exactly one
//! uncompressed layer of type [`LAYER`]. Indexes, archives and compressed layers are refused.
//!
//! The client is thin and of our own: `oci-client` 0.18 reads manifests, tokens and error bodies whole before anything
//! can bound them, has one deadline a request and none for the whole, and no mirrors or identity tokens.

mod auth;
pub(crate) mod credentials;
pub(crate) mod digest;
pub(crate) mod error;
mod http;
pub(crate) mod layout;
mod mirrors;
mod pull;
pub(crate) mod push;
pub(crate) mod reference;
pub(crate) mod registry;
mod store;
#[doc(hidden)]
pub mod untrusted;

pub use crate::net::proxy::Proxies;
pub use credentials::{Credentials, CredentialsError, Login};
pub use digest::Digest;
pub use error::OciError;
pub use layout::{CONFIG, CONFIG_BYTES, ComponentSurface, LAYER, MANIFEST_BYTES, WasmConfig};
pub use mirrors::{MirrorSet, Mirrors, SourcePolicy};
pub use pull::Artifact;
pub use push::{Packed, Push, created_from_epoch};
pub use reference::{Pinned, Reference, Version};
pub use registry::{Bounds, Registry, Setup, SetupError};
pub use store::{Store, Stored};
