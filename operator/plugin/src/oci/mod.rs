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
mod credentials;
mod error;
mod http;
mod layout;
mod mirrors;
mod proxy;
mod pull;
mod push;
mod reference;
mod registry;
mod store;
#[doc(hidden)]
pub mod untrusted;

pub use credentials::{Credentials, CredentialsError, Login};
pub use error::OciError;
pub use layout::{ComponentSurface, WasmConfig};
pub use mirrors::{MirrorSet, Mirrors, SourcePolicy};
pub use proxy::Proxies;
pub use pull::Artifact;
pub use push::{Push, created_from_epoch};
pub use reference::{Digest, Pinned, Reference, Version};
pub use registry::{Bounds, Registry, Setup, SetupError};
pub use store::{Store, Stored};

pub(crate) use layout::{Descriptor, EMPTY, EMPTY_BYTES, Index, MANIFEST, Manifest};
pub(crate) use push::json;
pub(crate) use registry::Session;

/// Media type of a component's config.
pub const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of the one layer.
pub const LAYER: &str = "application/wasm";
/// Bytes of a manifest or an index. Registries refuse more than 4 MiB; a component's manifest has some hundred bytes.
pub const MANIFEST_BYTES: u64 = 1024 * 1024;
/// Bytes of a config.
pub const CONFIG_BYTES: u64 = 256 * 1024;
