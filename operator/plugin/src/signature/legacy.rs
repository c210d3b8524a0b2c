//! cosign's first layout: a "simple signing" document, signed as it is, in the annotations of a manifest at the tag
//! `sha256-<hex>.sig`. The document's own words on where the image lies are compared with what a policy wants, and never with where it was
//! found: mirrors move images.

use serde::{Deserialize, Serialize};

use super::{
    key::PublicKey,
    policy::{Said, decode},
};
use crate::oci::digest::Digest;

/// Media type of the signed document.
pub(super) const MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Where the signature is, in base64.
pub(super) const ANNOTATION: &str = "dev.cosignproject.cosign/signature";
const TYPE: &str = "cosign container image signature";

#[derive(Deserialize, Serialize)]
struct Document {
    critical: Critical,
    optional: Option<serde_json::Value>,
}

#[derive(Deserialize, Serialize)]
struct Critical {
    identity: DockerReference,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize, Serialize)]
struct DockerReference {
    #[serde(rename = "docker-reference")]
    docker_reference: String,
}

#[derive(Deserialize, Serialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// The document to sign.
pub(super) fn document(repository: &str, digest: &Digest) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Document {
        critical: Critical {
            identity: DockerReference {
                docker_reference: repository.to_owned(),
            },
            image: Image {
                digest: digest.to_string(),
            },
            kind: TYPE.to_owned(),
        },
        optional: None,
    })
}

/// What `key` said besides, if it signed that `digest` is meant; else what is wrong.
pub(super) fn verify(
    key: &PublicKey,
    digest: &Digest,
    payload: &str,
    signature: &str,
) -> Result<Said, String> {
    let signature = decode(signature).ok_or("a signature is not base64")?;
    if !key.accepts(payload.as_bytes(), &signature) {
        return Err(format!("a .sig signature is not by key {}", key.id()));
    }
    let document: Document =
        serde_json::from_str(payload).map_err(|error| format!("a signed document: {error}"))?;
    if document.critical.kind != TYPE {
        return Err(format!(
            "a signed document is of type {:?}",
            document.critical.kind
        ));
    }
    if document.critical.image.digest != digest.as_str() {
        return Err(format!("a signature is about {}", document.critical.image.digest));
    }
    let repository = serde_json::Value::from(document.critical.identity.docker_reference);
    Ok(Said::new(Some(&repository), document.optional.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::key::tests::both;
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    #[test]
    fn only_this_digest_by_this_key_counts() {
        let digest = Digest::of(b"manifest");
        let [one, other] = both();
        for key in [&one, &other] {
            let check = |payload: &str, signed: &[u8], expect: &str| {
                let signature = STANDARD.encode(key.sign(signed).unwrap());
                let wrong = verify(key.public(), &digest, payload, &signature)
                    .err()
                    .unwrap_or_default();
                assert!(
                    wrong.contains(expect) && wrong.is_empty() == expect.is_empty(),
                    "{wrong:?}, not {expect:?}"
                );
            };
            let payload = String::from_utf8(document("r/a", &digest).unwrap()).unwrap();
            check(&payload, payload.as_bytes(), "");
            check(&payload, b"other", "not by key");
            let elsewhere = String::from_utf8(document("r/a", &Digest::of(b"other")).unwrap()).unwrap();
            check(&elsewhere, elsewhere.as_bytes(), "is about sha256:");
            let atomic = payload.replace("cosign container", "atomic container");
            check(&atomic, atomic.as_bytes(), "of type");
            check("{}", b"{}", "a signed document");
            assert!(
                verify(key.public(), &digest, &payload, "§")
                    .unwrap_err()
                    .contains("base64")
            );
        }
        let payload = String::from_utf8(document("r/a", &digest).unwrap()).unwrap();
        let signature = STANDARD.encode(one.sign(payload.as_bytes()).unwrap());
        assert!(verify(other.public(), &digest, &payload, &signature).is_err());
    }
}
