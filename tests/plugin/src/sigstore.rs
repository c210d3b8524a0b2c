//! A Sigstore of our own: an authority that gives certificates to whoever is named, and a transparency log of one entry
//! at a time, as Fulcio and Rekor (its first version) write theirs. It makes what is right; tests break it. It checks
//! nothing.

use std::fmt::Write as _;

use anyhow::Result;
use aws_lc_rs::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use numo_plugin::oci::Digest;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType, date_time_ymd,
};
use serde_json::{Value, json};

/// What a signature says of its subject.
pub const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";
/// Where Fulcio's certificates name who vouched for the subject.
const ISSUER: [u64; 9] = [1, 3, 6, 1, 4, 1, 57264, 1, 8];
const PAYLOAD: &str = "application/vnd.in-toto+json";
const ORIGIN: &str = "log.example";

/// An authority and a log.
pub struct Sigstore {
    authority: CertifiedIssuer<'static, KeyPair>,
    log: KeyPair,
}

/// A signature to be made.
#[derive(Clone, Copy, Debug)]
pub struct Signing<'a> {
    /// Who vouches for the signer.
    pub issuer: &'a str,
    /// A mail address or URI.
    pub subject: &'a str,
    /// What is said of the digest.
    pub predicate: &'a str,
    /// The certificate is valid from the first of January of this year to the last.
    pub certified_in: i32,
    /// When the log took it, seconds since 1970.
    pub at_seconds: i64,
}

impl Sigstore {
    /// With keys of its own.
    pub fn new() -> Result<Self> {
        let mut authority = CertificateParams::new([])?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok(Self {
            authority: CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?,
            log: KeyPair::generate()?,
        })
    }

    /// Its `trusted_root.json`.
    pub fn trusted_root(&self) -> Value {
        let since = json!({"start": "2015-01-01T00:00:00Z"});
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "certificateAuthorities": [{
                "subject": {"organization": "numo", "commonName": "tests"},
                "uri": "https://authority.example",
                "certChain": {"certificates": [{"rawBytes": STANDARD.encode(self.authority.der())}]},
                "validFor": since,
            }],
            "tlogs": [self.log()],
            "ctlogs": [],
            "timestampAuthorities": [],
        })
    }

    /// A log as a trusted root names it: ours, which stands for one of certificates too.
    pub fn log(&self) -> Value {
        let key = self.log.subject_public_key_info();
        json!({
            "baseUrl": format!("https://{ORIGIN}"),
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": STANDARD.encode(&key),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": "2015-01-01T00:00:00Z"},
            },
            "logId": {"keyId": STANDARD.encode(sha256(&key))},
        })
    }

    /// A bundle in which somebody says something of a digest.
    pub fn bundle(&self, about: &Digest, signing: &Signing<'_>) -> Result<Value> {
        let (certificate, key) = self.certificate(signing)?;
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {"sha256": about.hex()}}],
            "predicateType": signing.predicate,
            "predicate": {},
        })
        .to_string();
        let mut message = format!("DSSEv1 {} {PAYLOAD} {} ", PAYLOAD.len(), statement.len()).into_bytes();
        message.extend_from_slice(statement.as_bytes());
        let signature = STANDARD.encode(sign(&key, &message)?);
        let entry = json!({
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": {"algorithm": "sha256", "value": hex(&sha256(b"as it was sent"))},
                "payloadHash": {"algorithm": "sha256", "value": hex(&sha256(statement.as_bytes()))},
                "signatures": [{"signature": signature, "verifier": STANDARD.encode(certificate.pem())}],
            },
        });
        let content = json!({
            "payload": STANDARD.encode(&statement),
            "payloadType": PAYLOAD,
            "signatures": [{"sig": signature}],
        });
        self.around("dsseEnvelope", &content, &certificate, &entry, signing)
    }

    /// A bundle in which somebody signs bytes, of which nothing is said.
    pub fn blob(&self, bytes: &[u8], signing: &Signing<'_>) -> Result<Value> {
        let (certificate, key) = self.certificate(signing)?;
        let signature = STANDARD.encode(sign(&key, bytes)?);
        let entry = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": hex(&sha256(bytes))}},
                "signature": {
                    "content": signature,
                    "publicKey": {"content": STANDARD.encode(certificate.pem())},
                },
            },
        });
        let content = json!({
            "messageDigest": {"algorithm": "SHA2_256", "digest": STANDARD.encode(sha256(bytes))},
            "signature": signature,
        });
        self.around("messageSignature", &content, &certificate, &entry, signing)
    }

    /// A bundle with its content, and what shows by whom that is and since when.
    fn around(
        &self,
        kind: &str,
        content: &Value,
        certificate: &rcgen::Certificate,
        entry: &Value,
        signing: &Signing<'_>,
    ) -> Result<Value> {
        Ok(json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": STANDARD.encode(certificate.der())},
                "tlogEntries": [self.entry(entry, signing.at_seconds)?],
                "timestampVerificationData": {"rfc3161Timestamps": []},
            },
            kind: content,
        }))
    }

    fn certificate(&self, signing: &Signing<'_>) -> Result<(rcgen::Certificate, KeyPair)> {
        let mut params = CertificateParams::new([])?;
        params.not_before = date_time_ymd(signing.certified_in, 1, 1);
        params.not_after = date_time_ymd(signing.certified_in, 12, 31);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.subject_alt_names = vec![if signing.subject.contains("://") {
            SanType::URI(signing.subject.try_into()?)
        } else {
            SanType::Rfc822Name(signing.subject.try_into()?)
        }];
        // A UTF8String in DER, short enough for a length of one byte.
        let mut issuer = vec![0x0c, u8::try_from(signing.issuer.len())?];
        issuer.extend_from_slice(signing.issuer.as_bytes());
        params.custom_extensions = vec![CustomExtension::from_oid_content(&ISSUER, issuer)];
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.authority)?, key))
    }

    /// The first and only entry of the log, with its promise and its proof.
    fn entry(&self, entry: &Value, at: i64) -> Result<Value> {
        let body = entry.to_string();
        let id = sha256(&self.log.subject_public_key_info());
        // The promise is over JSON with its keys in order and nothing between them.
        let encoded = STANDARD.encode(&body);
        let promised = format!(
            r#"{{"body":"{encoded}","integratedTime":{at},"logID":"{}","logIndex":0}}"#,
            hex(&id)
        );
        let root = STANDARD.encode(sha256(&[&[0], body.as_bytes()].concat()));
        let note = format!("{ORIGIN}\n1\n{root}\n");
        let signed = [&id[..4], &sign(&self.log, note.as_bytes())?].concat();
        Ok(json!({
            "logIndex": "0",
            "logId": {"keyId": STANDARD.encode(&id)},
            "kindVersion": {"kind": entry["kind"], "version": entry["apiVersion"]},
            "integratedTime": at.to_string(),
            "inclusionPromise": {
                "signedEntryTimestamp": STANDARD.encode(sign(&self.log, promised.as_bytes())?),
            },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": root,
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": format!("{note}\n\u{2014} {ORIGIN} {}\n", STANDARD.encode(signed))},
            },
            "canonicalizedBody": encoded,
        }))
    }
}

fn sign(key: &KeyPair, message: &[u8]) -> Result<Vec<u8>> {
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &key.serialize_der())?;
    let signature = key.sign(&SystemRandom::new(), message)?;
    Ok(signature.as_ref().to_vec())
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
