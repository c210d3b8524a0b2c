//! Sigstore bundles that hold a DSSE envelope with an in-toto statement: what cosign 3 writes for images. For keys the
//! envelope's signature is what counts; certificates and log entries in the bundle are for [`super::keyless`] to look at.
//! Only the predicate of a signature counts: an SBOM or a scan result by the same key says nothing about running the component.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::json;

use super::{
    key::{KeyError, PublicKey, SigningKey},
    policy::{Said, decode},
};
use crate::oci::digest::Digest;

/// Media type of the bundles that numo writes.
pub(super) const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// How those of every version begin.
pub(super) const MEDIA_TYPE_START: &str = "application/vnd.dev.sigstore.bundle";
/// What a signature says of its subject.
pub(super) const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
const PAYLOAD: &str = "application/vnd.in-toto+json";
const STATEMENTS: [&str; 2] = [
    "https://in-toto.io/Statement/v1",
    "https://in-toto.io/Statement/v0.1",
];
/// Signatures in one envelope.
const SIGNATURES: usize = 8;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    #[serde(default)]
    media_type: String,
    dsse_envelope: Option<Envelope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: std::collections::BTreeMap<String, String>,
    /// Text, by the specification; what is none says nothing.
    name: Option<serde_json::Value>,
    annotations: Option<serde_json::Value>,
}

/// What is signed of an envelope (DSSE's pre-authentication encoding).
fn signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

/// What `key` said besides, if it signed that `digest` is meant; else what is wrong.
pub(super) fn verify(key: &PublicKey, digest: &Digest, bundle: &[u8]) -> Result<Said, String> {
    let bundle: Bundle = serde_json::from_slice(bundle).map_err(|error| format!("a bundle: {error}"))?;
    if !bundle.media_type.starts_with(MEDIA_TYPE_START) {
        return Err(format!("a bundle has media type {:?}", bundle.media_type));
    }
    let envelope = bundle.dsse_envelope.ok_or("a bundle has no DSSE envelope")?;
    is_statement(&envelope.payload_type)?;
    let payload = decode(&envelope.payload).ok_or("a bundle's payload is not base64")?;
    let message = signed(&envelope.payload_type, &payload);
    let by_key =
        envelope.signatures.iter().take(SIGNATURES).any(|signature| {
            decode(&signature.sig).is_some_and(|signature| key.accepts(&message, &signature))
        });
    if !by_key {
        return Err(format!("a bundle is not by key {}", key.id()));
    }
    means(&payload, digest)
}

/// Whether an envelope holds a statement; else what is wrong.
pub(super) fn is_statement(payload_type: &str) -> Result<(), String> {
    if payload_type == PAYLOAD {
        Ok(())
    } else {
        Err(format!("a bundle's payload has type {payload_type:?}"))
    }
}

/// What was said besides, if what was signed, by whomever, says that `digest` is meant; else what is wrong. Of several subjects with that
/// digest the first counts.
pub(super) fn means(payload: &[u8], digest: &Digest) -> Result<Said, String> {
    let statement: Statement =
        serde_json::from_slice(payload).map_err(|error| format!("a statement: {error}"))?;
    if !STATEMENTS.contains(&statement.kind.as_str()) {
        return Err(format!("a statement is of type {:?}", statement.kind));
    }
    if statement.predicate_type != PREDICATE {
        return Err(format!(
            "a statement is about {:?}, not a signature",
            statement.predicate_type
        ));
    }
    let about = |subject: &&Subject| {
        subject
            .digest
            .get("sha256")
            .is_some_and(|hex| hex == digest.hex())
    };
    let Some(subject) = statement.subject.iter().find(about) else {
        return Err("a signature is about another digest".to_owned());
    };
    Ok(Said::new(subject.name.as_ref(), subject.annotations.as_ref()))
}

/// A bundle in which `key` says that `digest` in `repository` is meant.
pub(super) fn sign(key: &SigningKey, repository: &str, digest: &Digest) -> Result<Vec<u8>, KeyError> {
    let statement = json!({
        "_type": STATEMENTS[0],
        "subject": [{"name": repository, "digest": {"sha256": digest.hex()}}],
        "predicateType": PREDICATE,
        "predicate": {},
    });
    envelope(key, statement.to_string().as_bytes())
}

/// What is signed, with its signature.
pub(super) fn envelope(key: &SigningKey, payload: &[u8]) -> Result<Vec<u8>, KeyError> {
    let signature = STANDARD.encode(key.sign(&signed(PAYLOAD, payload))?);
    // cosign's hint: the hash of the key, in base64.
    let hint = decode_hex(key.public().id().hex());
    let bundle = json!({
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": STANDARD.encode(hint)}},
        "dsseEnvelope": {
            "payload": STANDARD.encode(payload),
            "payloadType": PAYLOAD,
            "signatures": [{"sig": signature}],
        },
    });
    Ok(bundle.to_string().into_bytes())
}

fn decode_hex(text: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| {
        std::str::from_utf8(pair)
            .ok()
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    text.as_bytes().chunks(2).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::key::tests::both;

    fn check(key: &SigningKey, bundle: &[u8], expect: &str) {
        let wrong = verify(key.public(), &Digest::of(b"manifest"), bundle)
            .err()
            .unwrap_or_default();
        assert!(
            wrong.contains(expect) && wrong.is_empty() == expect.is_empty(),
            "{wrong:?}, not {expect:?}"
        );
    }

    #[test]
    fn only_a_signature_of_this_digest_by_this_key_counts() {
        let digest = Digest::of(b"manifest");
        let [one, other] = both();
        for (key, wrong) in [(&one, &other), (&other, &one)] {
            check(key, &sign(key, "r/a", &digest).unwrap(), "");
            check(key, &sign(wrong, "r/a", &digest).unwrap(), "not by key");
            check(
                key,
                &sign(key, "r/a", &Digest::of(b"other")).unwrap(),
                "another digest",
            );
            let statement = |kind: &str, predicate: &str, hex: &str| {
                let subject = json!([{"digest": {"sha256": "00"}}, {"digest": {"sha256": hex}}]);
                let text = json!({"_type": kind, "predicateType": predicate, "subject": subject}).to_string();
                envelope(key, text.as_bytes()).unwrap()
            };
            check(key, &statement(STATEMENTS[1], PREDICATE, digest.hex()), "");
            check(
                key,
                &statement(STATEMENTS[0], "https://slsa.dev/provenance/v1", digest.hex()),
                "not a signature",
            );
            check(key, &statement("other", PREDICATE, digest.hex()), "of type");
            check(key, &envelope(key, b"[]").unwrap(), "a statement");
        }
    }

    #[test]
    fn a_changed_bundle_is_refused() {
        let [key, _] = both();
        let bundle = String::from_utf8(sign(&key, "r/a", &Digest::of(b"manifest")).unwrap()).unwrap();
        check(
            &key,
            bundle.replace("vnd.in-toto+json", "vnd.in-toto+jsom").as_bytes(),
            "has type",
        );
        check(
            &key,
            bundle.replace("sigstore.bundle", "other").as_bytes(),
            "media type",
        );
        check(
            &key,
            bundle.replace("dsseEnvelope", "messageSignature").as_bytes(),
            "no DSSE envelope",
        );
        for cut in 0..bundle.len() {
            assert!(verify(key.public(), &Digest::of(b"manifest"), &bundle.as_bytes()[..cut]).is_err());
        }
    }
}
