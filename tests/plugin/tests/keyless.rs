//! Signatures by identities: what counts is a statement about this digest, by somebody whom the trust root's authority
//! named, while the name was valid, in a log that the trust root knows. Whatever is taken away or exchanged, the
//! component is not taken as signed.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use jiff::Timestamp;
use numo_plugin::{
    oci::Digest,
    signature::{
        Candidate, Identity, Mode, Policy, SignatureError, Signer, TrustRoot, TrustRootError, Verifier as _,
    },
};
use numo_plugin_tests::sigstore::{SIGNATURE, Signing, Sigstore};
use serde_json::{Value, json};

const ISSUER: &str = "https://issuer.example";
const SUBJECT: &str = "https://example.com/team/rules/release.yml@refs/tags/v1";
/// In the middle of 2024.
const AT: i64 = 1_719_000_000;
const SIGNING: Signing<'_> = Signing {
    issuer: ISSUER,
    subject: SUBJECT,
    predicate: SIGNATURE,
    certified_in: 2024,
    at_seconds: AT,
};

fn digest() -> Digest {
    Digest::of(b"manifest")
}

fn root(json: &Value) -> TrustRoot {
    TrustRoot::from_json(&json.to_string()).unwrap()
}

fn candidate(bundle: &Value) -> Candidate {
    Candidate::Bundle {
        json: bundle.to_string(),
    }
}

fn policy() -> Policy {
    Policy {
        keys: Vec::new(),
        identities: vec![Identity {
            issuer: ISSUER.to_owned(),
            subject: SUBJECT.to_owned(),
        }],
        mode: Mode::Enforce,
        ..Policy::default()
    }
}

/// That the bundle counts for nobody, and why.
fn refused(root: &TrustRoot, bundle: &Value, expect: &str) {
    let why = root.verify(&digest(), &candidate(bundle)).unwrap_err();
    assert!(why.contains(expect), "{why:?}, not {expect:?}");
    let error = policy()
        .check(&digest(), &[candidate(bundle)], &[root])
        .unwrap_err();
    assert_eq!(error.reason(), "SignatureMismatch", "{error}");
}

#[test]
fn somebody_who_is_named_signed_it_years_ago() {
    let sigstore = Sigstore::new().unwrap();
    let root = root(&sigstore.trusted_root());
    for subject in [SUBJECT, "author@example.com"] {
        let bundle = sigstore
            .bundle(&digest(), &Signing { subject, ..SIGNING })
            .unwrap();
        let signer = root.verify(&digest(), &candidate(&bundle)).unwrap();
        assert_eq!(
            signer,
            Signer::Identity {
                issuer: ISSUER.to_owned(),
                subject: subject.to_owned()
            }
        );
        let checked = policy().check(&digest(), &[candidate(&bundle)], &[&root]);
        if subject == SUBJECT {
            assert_eq!(checked.unwrap(), [signer]);
        } else {
            // Somebody else, and the error says who.
            let error = checked.unwrap_err();
            assert!(matches!(error, SignatureError::SignatureMismatch { .. }));
            let words = "author@example.com by https://issuer.example";
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    let other = Signing {
        issuer: "https://other.example",
        ..SIGNING
    };
    let bundle = sigstore.bundle(&digest(), &other).unwrap();
    let error = policy()
        .check(&digest(), &[candidate(&bundle)], &[&root])
        .unwrap_err();
    assert_eq!(error.reason(), "SignatureMismatch");
}

#[test]
fn what_is_said_of_something_else_or_by_strangers_counts_for_nothing() {
    let sigstore = Sigstore::new().unwrap();
    let ours = root(&sigstore.trusted_root());
    let good = sigstore.bundle(&digest(), &SIGNING).unwrap();
    let elsewhere = sigstore.bundle(&Digest::of(b"other"), &SIGNING).unwrap();
    refused(&ours, &elsewhere, "");
    let predicate = "https://slsa.dev/provenance/v1";
    let provenance = sigstore
        .bundle(&digest(), &Signing { predicate, ..SIGNING })
        .unwrap();
    refused(&ours, &provenance, "not a signature");
    // An authority, and then only a log, that nobody here trusts.
    let strangers = Sigstore::new().unwrap();
    refused(
        &ours,
        &strangers.bundle(&digest(), &SIGNING).unwrap(),
        "not by an identity",
    );
    let mut half = sigstore.trusted_root();
    half["tlogs"] = json!([strangers.log()]);
    refused(&root(&half), &good, "not by an identity");
    // The trust root knows a log of certificates, and this certificate shows no promise of it.
    let mut strict = sigstore.trusted_root();
    strict["ctlogs"] = json!([sigstore.log()]);
    refused(&root(&strict), &good, "not by an identity");
    // Bytes that somebody signed say nothing of what they are for; an envelope beside them is anybody's, whichever of the
    // two is read first.
    let blob = sigstore.blob(b"manifest", &SIGNING).unwrap();
    refused(&ours, &blob, "no DSSE envelope");
    let mut envelope = good["dsseEnvelope"].clone();
    envelope["signatures"][0]["sig"] = json!("AA==");
    let (kind, material, signed) = (
        &blob["mediaType"],
        &blob["verificationMaterial"],
        &blob["messageSignature"],
    );
    for parts in [
        format!(r#""messageSignature":{signed},"dsseEnvelope":{envelope}"#),
        format!(r#""dsseEnvelope":{envelope},"messageSignature":{signed}"#),
    ] {
        let json = format!(r#"{{"mediaType":{kind},"verificationMaterial":{material},{parts}}}"#);
        let both = Candidate::Bundle { json };
        assert!(ours.verify(&digest(), &both).is_err(), "{parts}");
    }
    // Issuers that the bundle brings along are nobody's.
    let mut chain = good.clone();
    let certificate = chain["verificationMaterial"]["certificate"].take();
    chain["verificationMaterial"]
        .as_object_mut()
        .unwrap()
        .remove("certificate");
    chain["verificationMaterial"]["x509CertificateChain"] = json!({"certificates": [certificate]});
    for version in ["0.1", "0.2", "0.3"] {
        let kind = match version {
            "0.3" => "application/vnd.dev.sigstore.bundle.v0.3+json".to_owned(),
            _ => format!("application/vnd.dev.sigstore.bundle+json;version={version}"),
        };
        chain["mediaType"] = json!(kind);
        refused(&ours, &chain, "not by an identity");
    }
    // A key's signature is not an identity's, in either layout.
    let keyed = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "a2V5"}},
        "dsseEnvelope": good["dsseEnvelope"],
    });
    refused(&ours, &keyed, "not by an identity");
    let tagged = Candidate::SimpleSigning {
        payload: "{}".to_owned(),
        signature: String::new(),
    };
    assert!(ours.verify(&digest(), &tagged).is_err());
}

#[test]
fn a_name_counts_only_while_it_was_valid_and_with_a_time_that_is_vouched_for() {
    let sigstore = Sigstore::new().unwrap();
    let root = root(&sigstore.trusted_root());
    let now = Timestamp::now().as_second();
    for (certified_in, at_seconds) in [(2023, AT), (2024, now), (2025, AT)] {
        let late = Signing {
            certified_in,
            at_seconds,
            ..SIGNING
        };
        refused(
            &root,
            &sigstore.bundle(&digest(), &late).unwrap(),
            "not by an identity",
        );
    }
    let good = sigstore.bundle(&digest(), &SIGNING).unwrap();
    let other = sigstore.bundle(&digest(), &SIGNING).unwrap();
    let entry = "/verificationMaterial/tlogEntries/0";
    let body = other.pointer(&format!("{entry}/canonicalizedBody")).unwrap();
    let broken = [
        ("/inclusionPromise", Value::Null),
        ("/inclusionProof", Value::Null),
        ("/integratedTime", json!((AT + 1).to_string())),
        ("/logIndex", json!("1")),
        (
            "/inclusionProof/rootHash",
            json!("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
        ),
        ("/canonicalizedBody", body.clone()),
    ];
    for (at, value) in broken {
        let mut bundle = good.clone();
        *bundle.pointer_mut(&format!("{entry}{at}")).unwrap() = value;
        refused(&root, &bundle, "");
    }
    let mut unlogged = good.clone();
    unlogged["verificationMaterial"]["tlogEntries"] = json!([]);
    refused(&root, &unlogged, "");
    // The entry of another signature by the same person, whole and right in itself.
    let mut other = other;
    other["verificationMaterial"]["tlogEntries"] = good["verificationMaterial"]["tlogEntries"].clone();
    refused(&root, &other, "not by an identity");
}

#[test]
fn a_changed_or_cut_bundle_is_refused_without_a_panic() {
    let sigstore = Sigstore::new().unwrap();
    let root = root(&sigstore.trusted_root());
    let good = sigstore.bundle(&digest(), &SIGNING).unwrap().to_string();
    for cut in (0..good.len()).step_by(7) {
        let json = good[..cut].to_owned();
        assert!(root.verify(&digest(), &Candidate::Bundle { json }).is_err());
    }
    // One letter at a time, where letters mean something: in base64.
    let mut changed = 0;
    for at in (0..good.len()).step_by(11) {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = match bytes[at] {
            b'A'..=b'Y' | b'a'..=b'y' => bytes[at] + 1,
            _ => continue,
        };
        let json = String::from_utf8(bytes).unwrap();
        if let Ok(Signer::Identity { issuer, subject }) = root.verify(&digest(), &Candidate::Bundle { json })
        {
            // The hash of the envelope as it was sent to the log is nobody's evidence; who signed what stays.
            assert_eq!((issuer.as_str(), subject.as_str()), (ISSUER, SUBJECT));
        } else {
            changed += 1;
        }
    }
    assert!(changed > 100, "{changed}");
}

#[test]
fn a_trust_root_that_cannot_work_is_refused_by_name() {
    let sigstore = Sigstore::new().unwrap();
    let without = |fields: &[&str]| {
        let mut json = sigstore.trusted_root();
        for field in fields {
            json[*field] = json!([]);
        }
        TrustRoot::from_json(&json.to_string()).map(|_| ())
    };
    assert_eq!(
        without(&["certificateAuthorities"]),
        Err(TrustRootError::NoAuthority)
    );
    assert_eq!(without(&["tlogs"]), Err(TrustRootError::NoTime));
    for text in ["", "[]", "{}", "{\"mediaType\": 1}"] {
        assert!(TrustRoot::from_json(text).is_err(), "{text}");
    }
    let mut bad = sigstore.trusted_root();
    bad["certificateAuthorities"][0]["certChain"]["certificates"][0]["rawBytes"] = json!("AAAA");
    assert!(matches!(
        TrustRoot::from_json(&bad.to_string()),
        Err(TrustRootError::Malformed(_))
    ));
}
