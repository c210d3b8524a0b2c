//! The credentials of an operator, by name.

use crate::{
    azure,
    exchange::Exchange,
    file, google, keys,
    proof::{Call, Proof},
    refusal::Refusal,
    sigv4,
    slot::Slot,
    source::{NamedSource, Source},
    sts,
    words::words,
};
use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderName, HeaderValue, header, request::Parts};
use secrecy::{ExposeSecret as _, zeroize::Zeroizing};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use url::Url;

/// How long the name of a credential may be (bytes).
const NAME_BYTES: usize = 63;
/// Headers that are this crate's, by scheme.
const OF_BEARER: [&str; 1] = ["authorization"];
const OF_SIGV4: [&str; 4] = ["authorization", sigv4::DATE, sigv4::TOKEN, sigv4::CONTENT];

/// The credentials of an operator, by name, and the tokens that were obtained for them. Its `Debug` shows no secret.
#[derive(Debug, Default)]
pub struct Credentials {
    kept: BTreeMap<String, Kept>,
}

/// A source, and what was obtained from it.
#[derive(Debug)]
struct Kept {
    source: Source,
    /// Where tokens are asked for, where the configuration says it.
    endpoint: Option<Url>,
    slot: Slot,
}

/// What a component asks for, once it is known to be one of two.
#[derive(Clone, Copy)]
enum Scheme<'a> {
    Bearer,
    SigV4(sigv4::Scope<'a>),
}

impl Credentials {
    /// With these sources. No file is read, and nobody is asked.
    ///
    /// Errors: a name stands twice or is unfit, or a source has a field that cannot be right; for people, with field, found and wanted.
    pub fn new(sources: impl IntoIterator<Item = NamedSource>) -> Result<Self, String> {
        let mut kept = BTreeMap::new();
        for NamedSource { name, source } in sources {
            check_name(&name)?;
            let wrong = |problem| format!("credential {name}: {}: {problem}", source.kind());
            source.check().map_err(wrong)?;
            let endpoint = source.endpoint().map_err(wrong)?;
            let slot = Slot::default();
            let entry = Kept {
                source,
                endpoint,
                slot,
            };
            if kept.insert(name.clone(), entry).is_some() {
                return Err(format!("credential {name}: found the name twice, wanted it once"));
            }
        }
        Ok(Self { kept })
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kept.keys().map(String::as_str)
    }

    /// Hosts and ports that are asked for tokens: what an [`Exchange`] has to reach, and nothing beyond.
    pub fn hosts(&self) -> Vec<(String, u16)> {
        let hosts: BTreeSet<_> = self.kept.values().flat_map(|kept| kept.source.hosts()).collect();
        hosts.into_iter().collect()
    }

    /// Signs a request with the credential `name`: adds `authorization`, and for `aws-sigv4` the `x-amz-` headers. Of the body the bytes as
    /// they are sent are needed. If it fails the request is as it was. `now` is the API server's time.
    ///
    /// Errors: see [`Refusal`].
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a request that a component wrote, and what the host lends"
    )]
    pub async fn sign(
        &self,
        name: &str,
        scheme: &str,
        parameters: &[(String, String)],
        request: &mut Parts,
        body: &[u8],
        now: jiff::Timestamp,
        exchange: &dyn Exchange,
    ) -> Result<(), Refusal> {
        let found = self.kept.get_key_value(name);
        let (name, kept) = found.ok_or_else(|| Refusal::not_found(name))?;
        let scheme = kept.read_scheme(name, scheme, parameters)?;
        let host = check_request(name, scheme, request)?;
        let call = Call { name, now, exchange };
        let proof = kept.prove(call).await?;
        let headers = match (scheme, &*proof) {
            (Scheme::SigV4(scope), Proof::Keys(keys)) => {
                sigv4::sign(name, keys, scope, (request, &host, body), now)?
            }
            (_, Proof::Bearer(token)) => vec![bearer(name, token.expose_secret())?],
            (Scheme::Bearer, Proof::Keys(_)) => return Err(kept.mismatch(name, "bearer")),
        };
        request.headers.extend(headers);
        Ok(())
    }

    /// Says that a request that was signed with a credential was refused (401): what was obtained for it is obtained anew when something is
    /// signed next, unless that was less than a minute ago. Of a name that is none nothing happens.
    pub fn forget(&self, name: &str) {
        if let Some(kept) = self.kept.get(name) {
            kept.slot.doubt();
        }
    }
}

impl Kept {
    fn mismatch(&self, name: &str, scheme: &str) -> Refusal {
        Refusal::SchemeMismatch {
            name: name.to_owned(),
            source_kind: self.source.kind(),
            found: words(scheme, &[]),
            wanted: self.source.scheme(),
        }
    }

    fn read_scheme<'a>(
        &self,
        name: &str,
        scheme: &str,
        parameters: &'a [(String, String)],
    ) -> Result<Scheme<'a>, Refusal> {
        if scheme != self.source.scheme() {
            return Err(self.mismatch(name, scheme));
        }
        if scheme == "aws-sigv4" {
            return Ok(Scheme::SigV4(sigv4::Scope::read(name, parameters)?));
        }
        match parameters.first() {
            Some((key, _)) => Err(Refusal::invalid(name, "parameter", key, "none for bearer")),
            None => Ok(Scheme::Bearer),
        }
    }

    /// What the credential is at this moment.
    async fn prove(&self, call: Call<'_>) -> Result<Arc<Proof>, Refusal> {
        let name = call.name;
        let text = file::read(name, self.source.file())?;
        let with = sha256(&text);
        let now = call.now.as_second();
        let slot = &self.slot;
        match (&self.source, &self.endpoint) {
            (Source::BearerFile(source), _) => {
                let token = file::token_in(name, &source.file, &text)?;
                Ok(Arc::new(Proof::Bearer(token.into())))
            }
            (Source::AwsKeys(source), _) => Ok(Arc::new(Proof::Keys(keys::read(&call, source, &text)?))),
            (Source::GoogleServiceAccount(source), _) => {
                slot.get(with, now, google::obtain(call, source, &text)).await
            }
            (Source::AzureClientSecret(source), Some(url)) => {
                slot.get(with, now, azure::by_secret(call, source, url, &text))
                    .await
            }
            (Source::AzureWorkloadIdentity(source), Some(url)) => {
                slot.get(with, now, azure::by_identity(call, source, url, &text))
                    .await
            }
            (Source::AwsWebIdentity(source), Some(url)) => {
                slot.get(with, now, sts::obtain(call, source, url, &text)).await
            }
            // `new` lets no source without its endpoint in.
            (source, None) => Err(Refusal::malformed(
                name,
                source.kind(),
                "endpoint",
                "nothing",
                "the URL of a token endpoint",
            )),
        }
    }
}

fn sha256(text: &Zeroizing<String>) -> [u8; 32] {
    let mut sum = [0; 32];
    // A SHA-256 has that many bytes.
    sum.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    sum
}

fn bearer(name: &str, token: &str) -> Result<(HeaderName, HeaderValue), Refusal> {
    let text = Zeroizing::new(format!("Bearer {token}"));
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| Refusal::malformed(name, "token", "characters", "others", "printable ASCII"))?;
    value.set_sensitive(true);
    Ok((header::AUTHORIZATION, value))
}

/// The host as it is signed and sent.
///
/// Errors: the request is not one that may be signed.
fn check_request(name: &str, scheme: Scheme<'_>, request: &Parts) -> Result<String, Refusal> {
    let own: &[&str] = match scheme {
        Scheme::Bearer => &OF_BEARER,
        Scheme::SigV4(_) => &OF_SIGV4,
    };
    if let Some(header) = own.iter().find(|header| request.headers.contains_key(**header)) {
        return Err(Refusal::invalid(
            name,
            "headers",
            header,
            "none of that name: signing sets it",
        ));
    }
    let wanted = "an absolute https URL without user";
    let wrong = |found: &str| Refusal::invalid(name, "url", found, wanted);
    match request.uri.scheme_str() {
        Some("https") => {}
        Some(other) => return Err(wrong(other)),
        None => return Err(wrong("no scheme")),
    }
    let authority = request.uri.authority().ok_or_else(|| wrong("no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("a user"));
    }
    let host = authority.host().to_ascii_lowercase();
    let host = match authority.port_u16() {
        Some(443) | None => host,
        Some(port) => format!("{host}:{port}"),
    };
    match request.headers.get(header::HOST) {
        Some(other) if other.as_bytes() != host.as_bytes() => Err(Refusal::invalid(
            name,
            "header host",
            "another",
            "that of the URL",
        )),
        _ => Ok(host),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(may) {
        return Err(format!(
            "credential {:?}: name: wanted 1 to {NAME_BYTES} letters, digits and characters of -_.",
            words(name, &[])
        ));
    }
    Ok(())
}
