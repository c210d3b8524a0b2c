//! Signatures in both layouts of cosign. The first byte tells the layout, and who signs: the input as it came, or this
//! target with the key that is asked for, so that what lies behind the signature is read too. Everything made here names
//! another manifest, so nothing of a stranger may ever count.

use std::sync::LazyLock;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use numo_plugin::{
    oci::Digest,
    signature::{Candidate, Policy, PublicKey, Verifier as _},
};
use serde_json::json;

use crate::Source;

/// A key as users write it in a MutexRule.
pub(super) const PEM: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAAw8UiXFvlZsT0CW1LiaDm2RWgbUobsmPWMDeVY/Ao5c=\n-----END PUBLIC KEY-----\n";

const PAYLOAD: &str = "application/vnd.in-toto+json";
/// A bundle as it came, a `.sig` signature and its document, a statement to be signed, a document to be signed, a key.
const BUNDLE: u8 = 0;
const SIMPLE: u8 = 1;
const STATEMENT: u8 = 2;
const DOCUMENT: u8 = 3;
const KEY: u8 = 4;

struct Signer {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// The key of the policy. Its seed is no secret.
static SIGNER: LazyLock<Option<Signer>> = LazyLock::new(|| {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).ok()?;
    let der = [
        &[
            0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
        ],
        pair.public_key().as_ref(),
    ]
    .concat();
    let public = PublicKey::from_der(&der).ok()?;
    Some(Signer { pair, public })
});

/// The manifest that is asked about.
static WANTED: LazyLock<Digest> = LazyLock::new(|| Digest::of(b"manifest"));

pub(super) fn read(bytes: &[u8]) {
    let (Some(signer), Some((kind, rest))) = (SIGNER.as_ref(), bytes.split_first()) else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    let candidate = match *kind {
        SIMPLE => {
            let (signature, payload) = text.split_once('\n').unwrap_or((text, ""));
            simple(payload, signature.to_owned())
        }
        STATEMENT => Candidate::Bundle {
            json: bundle(&signer.pair, text),
        },
        DOCUMENT => simple(text, sign(&signer.pair, text.as_bytes())),
        KEY => {
            let _ = PublicKey::all_from_pem(text);
            return;
        }
        _ => Candidate::Bundle {
            json: text.to_owned(),
        },
    };
    let answer = signer.public.verify(&WANTED, &candidate);
    let policy = Policy {
        keys: vec![signer.public.clone()],
        ..Policy::default()
    };
    let judged = policy.check(&WANTED, std::slice::from_ref(&candidate), &[]);
    assert_eq!(answer.is_ok(), judged.is_ok(), "key and policy disagree");
    // Only the holder of the key can have named this manifest.
    let ours = matches!(*kind, STATEMENT | DOCUMENT) && names(text);
    assert!(answer.is_err() || ours, "a signature was taken that nobody gave");
}

/// Whether JSON holds the digest that is asked about, with whatever escapes.
fn names(text: &str) -> bool {
    let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    value.to_string().contains(WANTED.hex())
}

fn simple(payload: &str, signature: String) -> Candidate {
    Candidate::SimpleSigning {
        payload: payload.to_owned(),
        signature,
    }
}

fn sign(pair: &Ed25519KeyPair, message: &[u8]) -> String {
    BASE64_STANDARD.encode(pair.sign(message))
}

fn bundle(pair: &Ed25519KeyPair, statement: &str) -> String {
    let signed = format!(
        "DSSEv1 {} {PAYLOAD} {} {statement}",
        PAYLOAD.len(),
        statement.len()
    );
    json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "aGludA=="}},
        "dsseEnvelope": {
            "payload": BASE64_STANDARD.encode(statement),
            "payloadType": PAYLOAD,
            "signatures": [{"sig": sign(pair, signed.as_bytes())}],
        },
    })
    .to_string()
}

fn statement(digest: &Digest, source: &mut Source) -> String {
    json!({
        "_type": source.one(&["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1", "other"]),
        "subject": [{"name": "rule", "digest": {"sha256": digest.hex()}}],
        "predicateType": source.one(&["https://sigstore.dev/cosign/sign/v1", "https://slsa.dev/provenance/v1"]),
        "predicate": {},
    })
    .to_string()
}

fn document(digest: &Digest) -> String {
    json!({
        "critical": {
            "identity": {"docker-reference": "registry.example.com/rule"},
            "image": {"docker-manifest-digest": digest.to_string()},
            "type": "cosign container image signature",
        },
        "optional": null,
    })
    .to_string()
}

pub(super) fn make(source: &mut Source) -> Vec<u8> {
    let other = Digest::of(b"other");
    let Ok(stranger) = Ed25519KeyPair::from_seed_unchecked(&[8; 32]) else {
        return Vec::new();
    };
    let Some(signer) = SIGNER.as_ref() else {
        return Vec::new();
    };
    // The right key for another manifest, or a stranger's for the right one.
    let (pair, digest) = if source.once_in(2) {
        (&signer.pair, &other)
    } else {
        (&stranger, &*WANTED)
    };
    let (kind, text) = match source.below(5) {
        0 => (BUNDLE, bundle(pair, &statement(digest, source))),
        1 => {
            let document = document(digest);
            (SIMPLE, format!("{}\n{document}", sign(pair, document.as_bytes())))
        }
        2 => (STATEMENT, statement(source.one(&[&other, &*WANTED]), source)),
        3 => (DOCUMENT, document(source.one(&[&other, &*WANTED]))),
        _ => (KEY, PEM.repeat(1 + source.below(2))),
    };
    [&[kind], text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_right_key_says_of_the_right_manifest_counts() {
        let signer = SIGNER.as_ref().unwrap();
        let text = document(&WANTED);
        let good = simple(&text, sign(&signer.pair, text.as_bytes()));
        assert_eq!(signer.public.verify(&WANTED, &good).err(), None);
        let statement = (0..64)
            .map(|seed| statement(&WANTED, &mut Source::new(seed)))
            .find(|text| text.contains("Statement/v1") && text.contains("cosign/sign"))
            .unwrap();
        let good = Candidate::Bundle {
            json: bundle(&signer.pair, &statement),
        };
        assert_eq!(signer.public.verify(&WANTED, &good).err(), None);
    }
}
