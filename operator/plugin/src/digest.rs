//! The digest of a component.

use sha2::{Digest, Sha256};

use crate::text::hex;

/// `sha256:` and hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}
