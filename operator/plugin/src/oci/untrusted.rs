//! What registries and pull secrets say, read by the parsers of this module and by nothing else: where `tests/fuzz` gets
//! at what is otherwise only reached through a connection. It decides nothing, and nothing of numo calls it. Not a
//! stable interface.

use http::{HeaderMap, HeaderValue, header::WWW_AUTHENTICATE};

use super::{
    auth,
    credentials::Credentials,
    layout::{Index, Manifest},
};

/// The realm and service of the strongest challenge in these values of `WWW-Authenticate`; no realm for a password.
pub fn challenge<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Option<(Option<String>, Option<String>)> {
    let mut headers = HeaderMap::new();
    for value in values {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(WWW_AUTHENTICATE, value);
        }
    }
    Some(match auth::Challenge::of(&headers)? {
        auth::Challenge::Basic => (None, None),
        auth::Challenge::Bearer { realm, service } => (Some(realm), service),
    })
}

/// The token in a token server's answer.
pub fn token(answer: &[u8]) -> Option<String> {
    auth::token(answer)
}

/// Digest and bytes of the one layer, if this is the manifest of a component of at most `most` bytes.
pub fn manifest(document: &[u8], most: u64) -> Result<(String, u64), String> {
    let manifest: Manifest = serde_json::from_slice(document).map_err(|error| error.to_string())?;
    let layer = manifest
        .component(&"a manifest", most)
        .map_err(|error| error.to_string())?;
    Ok((layer.digest.to_string(), layer.size))
}

/// The digests that an index lists.
pub fn index(document: &[u8]) -> Result<Vec<String>, String> {
    let index: Index = serde_json::from_slice(document).map_err(|error| error.to_string())?;
    Ok(index.manifests.iter().map(|one| one.digest.to_string()).collect())
}

/// Whether there is a login for a repository.
pub fn has_login(credentials: &Credentials, registry: &str, repository: &str) -> bool {
    credentials.for_repository(registry, repository).is_some()
}
