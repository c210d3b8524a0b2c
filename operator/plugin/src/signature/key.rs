//! Keys: ECDSA on P-256 with SHA-256, as cosign makes them, and Ed25519. Nothing else is taken, and no private key is
//! ever printed.

use std::fmt;

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair,
        KeyPair as _, UnparsedPublicKey,
    },
};
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer, pem::PemObject as _};

use crate::oci::digest::Digest;

/// A P-256 point in SubjectPublicKeyInfo (RFC 5480): all before the 65 bytes of the uncompressed point.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The same for the 32 bytes of an Ed25519 key (RFC 8410).
const ED: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// A text that is no key that numo can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No PEM of the right kind.
    #[error("wanted PEM with {wanted}: {why}")]
    NotPem {
        /// The PEM label.
        wanted: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A key of another algorithm.
    #[error("the key is neither ECDSA on P-256 nor Ed25519")]
    Algorithm,
}

/// A key that signatures are checked with.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: Kind,
    der: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    P256,
    Ed25519,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

impl PublicKey {
    /// From `-----BEGIN PUBLIC KEY-----`, as in `cosign.pub`; of several the first.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let der =
            SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).map_err(|error| KeyError::NotPem {
                wanted: "PUBLIC KEY",
                why: error.to_string(),
            })?;
        Self::from_der(der.as_ref())
    }

    /// All public keys of a file, in its order. One that cannot be used is an error, and so is a file without any.
    pub fn all_from_pem(pem: &str) -> Result<Vec<Self>, KeyError> {
        const END: &str = "-----END PUBLIC KEY-----";
        let blocks = pem.split_inclusive(END).filter(|block| block.contains(END));
        let keys = blocks.map(Self::from_pem).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Self::from_pem(pem).map(|key| vec![key]);
        }
        Ok(keys)
    }

    /// From the DER form of the same.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let kind = if der.len() == P256.len() + 65 && der.starts_with(&P256) {
            Kind::P256
        } else if der.len() == ED.len() + 32 && der.starts_with(&ED) {
            Kind::Ed25519
        } else {
            return Err(KeyError::Algorithm);
        };
        Ok(Self {
            kind,
            der: der.to_vec(),
        })
    }

    /// SHA-256 of the DER form: what tells keys apart.
    pub fn id(&self) -> Digest {
        Digest::of(&self.der)
    }

    /// Whether this key signed `message` itself: a file beside which its signature lies. Artifacts are for
    /// [`super::Policy::check`].
    pub fn accepts(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self.kind {
            Kind::P256 => UnparsedPublicKey::new(
                &ECDSA_P256_SHA256_ASN1,
                self.der.get(P256.len()..).unwrap_or_default(),
            )
            .verify(message, signature),
            Kind::Ed25519 => UnparsedPublicKey::new(&ED25519, self.der.get(ED.len()..).unwrap_or_default())
                .verify(message, signature),
        };
        verified.is_ok()
    }
}

/// A key that signs.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.id())
    }
}

impl SigningKey {
    /// From `-----BEGIN PRIVATE KEY-----` (PKCS #8, not encrypted), as `openssl genpkey` writes it. The encrypted keys of
    /// `cosign generate-key-pair` are not read: sign with cosign, or give it a key of openssl.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        if pem.contains("ENCRYPTED") {
            let why = "the key is encrypted; numo signs with unencrypted PKCS #8".to_owned();
            return Err(KeyError::NotPem {
                wanted: "PRIVATE KEY",
                why,
            });
        }
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| KeyError::NotPem {
            wanted: "PRIVATE KEY",
            why: error.to_string(),
        })?;
        Self::from_pkcs8(der.secret_pkcs8_der())
    }

    /// From the DER form of the same.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let (pair, prefix, point) =
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der) {
                let point = pair.public_key().as_ref().to_vec();
                (Pair::P256(pair), P256.as_slice(), point)
            } else {
                let pair = Ed25519KeyPair::from_pkcs8(der).map_err(|_| KeyError::Algorithm)?;
                let point = pair.public_key().as_ref().to_vec();
                (Pair::Ed25519(pair), ED.as_slice(), point)
            };
        Ok(Self {
            pair,
            public: PublicKey::from_der(&[prefix, &point].concat())?,
        })
    }

    /// What others check its signatures with.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The signature of `message` itself: of ECDSA in DER, as `openssl dgst -sign` writes it. Fails only where the system has no
    /// randomness.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match &self.pair {
            Pair::P256(pair) => {
                let signature = pair
                    .sign(&SystemRandom::new(), message)
                    .map_err(|_| KeyError::Algorithm)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One fresh key of each kind.
    pub(in crate::signature) fn both() -> [SigningKey; 2] {
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        [p256.as_ref(), ed.as_ref()].map(|der| SigningKey::from_pkcs8(der).unwrap())
    }

    #[test]
    fn a_key_accepts_its_own_signatures_and_no_others() {
        let [one, other] = both();
        for (key, wrong) in [(&one, &other), (&other, &one)] {
            let signature = key.sign(b"message").unwrap();
            assert!(key.public().accepts(b"message", &signature));
            assert!(!key.public().accepts(b"massage", &signature));
            assert!(!wrong.public().accepts(b"message", &signature));
            assert!(!key.public().accepts(b"message", &[]));
            let again = PublicKey::from_der(&key.public().der).unwrap();
            assert!(again == *key.public());
        }
    }

    #[test]
    fn other_texts_and_algorithms_are_refused() {
        assert!(matches!(
            PublicKey::from_pem("ssh-ed25519 AAAA"),
            Err(KeyError::NotPem { .. })
        ));
        let certificate = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        assert!(matches!(
            PublicKey::from_pem(certificate),
            Err(KeyError::NotPem { .. })
        ));
        let other = "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n";
        assert_eq!(PublicKey::from_pem(other), Err(KeyError::Algorithm));
        let encrypted = "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nMAA=\n";
        assert!(
            SigningKey::from_pem(encrypted)
                .unwrap_err()
                .to_string()
                .contains("encrypted")
        );
    }
}
