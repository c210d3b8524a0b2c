//! Who vouches for a component: signatures over the digest of its manifest, checked against a policy without asking
//! anybody. Looking for signatures is the only part that talks to a registry, and what was found can be kept and
//! checked again when the registry is gone.
//!
//! Both layouts of cosign are read: the `.sig` tag, and Sigstore bundles that refer to the manifest, by the referrers
//! API or by the tag that stands in for it. A transparency log is not asked and not required for keys: who holds the
//! key has signed. Identities are checked against a trust root that is given, in bundles only: keyless signatures in
//! the older layout, which cosign no longer writes by default, are not read.
//!
//! Keys are checked by code of our own over aws-lc-rs, which TLS brings along: `sigstore-verify` reads no `.sig` layout
//! and wants a trust root even for plain keys. Identities are checked by it.

mod bundle;
mod by_key;
mod find;
mod key;
#[cfg(feature = "sandbox")]
mod keyless;
mod legacy;
#[cfg(not(feature = "sandbox"))]
mod nobody;
pub(crate) mod policy;
mod sign;

pub use key::{KeyError, PublicKey, SigningKey};
#[cfg(feature = "sandbox")]
pub use keyless::{TrustRoot, TrustRootError};
#[cfg(not(feature = "sandbox"))]
pub use nobody::TrustRoot;
pub use policy::{
    CANDIDATE_BYTES, CANDIDATES, Candidate, Identity, Mode, Policy, Said, SignatureError, Signer, Verifier,
};
pub use sign::{Layout, SignError, Signed};
