//! Signatures by keys, in both layouts.

use super::{
    bundle,
    key::PublicKey,
    legacy,
    policy::{Candidate, Said, Signer, Verifier},
};
use crate::oci::digest::Digest;

/// Accepts signatures by one key, in both layouts.
impl Verifier for PublicKey {
    fn vouch(&self, digest: &Digest, candidate: &Candidate) -> Result<(Signer, Said), String> {
        let said = match candidate {
            Candidate::SimpleSigning { payload, signature } => {
                legacy::verify(self, digest, payload, signature)?
            }
            Candidate::Bundle { json } => bundle::verify(self, digest, json.as_bytes())?,
        };
        Ok((Signer::Key(self.id()), said))
    }
}
