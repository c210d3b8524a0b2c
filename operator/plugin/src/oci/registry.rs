//! Talks to registries: where to ask, as whom, how often, and when to stop. Everything read is capped and hashed on the
//! way. A [`Session`] belongs to one call and one repository; no token or login outlives it.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{
    auth::{Challenge, TOKEN_BYTES, token},
    credentials::{Credentials, Login},
    digest::Digest,
    error::OciError,
    http::{Answer, Ask, Closed, Failure, Transport, basic, host, is_loopback},
    mirrors::{Mirrors, Place},
    reference::Reference,
};
use crate::net::proxy::Proxies;
use crate::{address::AddressRange, text::clean};

/// Redirects of one request.
const REDIRECTS: usize = 5;
/// Longest pause that a registry may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How often and how long a registry is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Tries of one request, 1 or more.
    pub attempts: u32,
    /// Before the second try; doubled before each one after it. A registry's `Retry-After` counts up to 10 s.
    pub pause: Duration,
    /// Longest silence within one answer.
    pub idle: Duration,
    /// For a whole call, with every try, pause and mirror.
    pub total: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            attempts: 4,
            pause: Duration::from_millis(250),
            idle: Duration::from_secs(15),
            total: Duration::from_mins(1),
        }
    }
}

/// How registries are reached.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Authorities beside the system's, as PEM; empty for none.
    pub authorities: Vec<u8>,
    /// The cluster's proxy.
    pub proxies: Proxies,
    /// Where else artifacts are.
    pub mirrors: Mirrors,
    /// Hosts (`registry.lan:5000`) that are spoken to in plain HTTP. Loopback needs no mention.
    pub plain: Vec<String>,
    /// Addresses of pods, services and nodes. Who may name a registry would learn from the answer what is there: numo
    /// connects to none of them, but for a registry in `inside`. Empty refuses none.
    pub cluster: Vec<AddressRange>,
    /// Registries (`registry.lan:5000`) that an administrator named: they may be anywhere. What they lead to (storage, a token
    /// server) may be too, if it is on the same host or named itself.
    pub inside: Vec<String>,
    /// Only a registry in `inside` may be on this machine: for references that others write.
    pub only_named_loopback: bool,
    /// How often and how long.
    pub bounds: Bounds,
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SetupError {
    /// The PEM has no certificate, or one that cannot be read.
    #[error("the authorities are no PEM certificates: {0}")]
    Authorities(String),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

/// A client for all registries.
pub struct Registry {
    transport: Transport,
    pub(super) setup: Setup,
    /// Loopback hosts that turned out to speak plain HTTP.
    found_plain: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("setup", &self.setup)
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// Reads the system's authorities and those of `setup`.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        let authorities = CertificateDer::pem_slice_iter(&setup.authorities)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| SetupError::Authorities(error.to_string()))?;
        if authorities.is_empty() && !setup.authorities.iter().all(u8::is_ascii_whitespace) {
            return Err(SetupError::Authorities("there is none in it".to_owned()));
        }
        let transport =
            Transport::new(authorities, setup.proxies.clone(), setup.bounds.idle).map_err(SetupError::Tls)?;
        Ok(Self {
            transport,
            setup,
            found_plain: Mutex::default(),
        })
    }

    /// One session for each place where `reference` may be, all under one deadline.
    pub(crate) fn sessions<'a>(
        &'a self,
        reference: &Reference,
        credentials: &'a Credentials,
    ) -> Result<Vec<Session<'a>>, OciError> {
        let deadline = Instant::now() + self.setup.bounds.total;
        let places = self.setup.mirrors.places(reference);
        if places.is_empty() {
            let why = "its source must not be contacted and no mirror of it is a place".to_owned();
            return Err(OciError::NotAllowed {
                reference: reference.to_string(),
                why,
            });
        }
        let session = |place| Session::new(self, reference.to_string(), place, credentials, "pull", deadline);
        Ok(places.into_iter().map(session).collect())
    }

    /// A session that may also push, at the source itself.
    pub(crate) fn pusher<'a>(
        &'a self,
        shown: String,
        place: (&str, &str),
        credentials: &'a Credentials,
    ) -> Session<'a> {
        let deadline = Instant::now() + self.setup.bounds.total;
        let place = Place {
            registry: place.0.to_owned(),
            repository: place.1.to_owned(),
        };
        Session::new(self, shown, place, credentials, "pull,push", deadline)
    }

    fn is_plain(&self, registry: &str) -> bool {
        self.setup.plain.iter().any(|plain| plain == registry)
            || self
                .found_plain
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(registry)
    }
}

/// Of the errors of several places, the one to be told: that a place did not answer outweighs that others had nothing,
/// because it may have it.
#[derive(Default)]
pub(crate) struct Failed(Option<OciError>);

impl Failed {
    pub(crate) fn add(&mut self, error: OciError) {
        let unavailable = matches!(self.0, Some(OciError::RegistryUnavailable { .. }));
        if !unavailable || matches!(error, OciError::RegistryUnavailable { .. }) {
            self.0 = Some(error);
        }
    }

    pub(crate) fn told(self, reference: &impl ToString) -> OciError {
        self.0.unwrap_or_else(|| OciError::NotAllowed {
            reference: reference.to_string(),
            why: "there is no place to ask".to_owned(),
        })
    }
}

/// One repository at one registry, for one call.
pub(crate) struct Session<'a> {
    registry: &'a Registry,
    /// The reference as people know it.
    shown: String,
    place: Place,
    login: Option<&'a Login>,
    actions: &'static str,
    deadline: Instant,
    authorization: Option<HeaderValue>,
    /// What went wrong last, told when the deadline cuts in.
    last: String,
}

/// One request to the registry.
pub(super) struct Call<'c> {
    pub(super) method: Method,
    /// Below `/v2/<repository>/`, or a whole URL.
    pub(super) at: &'c str,
    /// For errors.
    pub(super) what: &'c str,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
    /// Bytes of the answer.
    pub(super) expect: Expect<'c>,
}

/// How much of an answer is read.
#[derive(Clone, Copy)]
pub(super) enum Expect<'c> {
    /// At most so many bytes.
    AtMost(u64),
    /// Just this.
    Exactly(&'c Digest, u64),
}

/// A whole answer.
pub(super) struct Fetched {
    pub(super) bytes: Vec<u8>,
    pub(super) headers: HeaderMap,
    pub(super) digest: Digest,
    /// Where it came from in the end.
    pub(super) url: Url,
}

impl Fetched {
    /// The media type without its parameters.
    pub(super) fn media_type(&self) -> &str {
        let value = self
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim()
    }

    /// A header, if it is text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// How one try ended.
enum Attempt {
    Final(OciError),
    Again { why: String, after: Option<Duration> },
}

impl From<OciError> for Attempt {
    fn from(error: OciError) -> Self {
        Self::Final(error)
    }
}

impl<'a> Session<'a> {
    fn new(
        registry: &'a Registry,
        shown: String,
        place: Place,
        credentials: &'a Credentials,
        actions: &'static str,
        deadline: Instant,
    ) -> Self {
        let login = credentials.for_repository(&place.registry, &place.repository);
        // A mirror is named beside what it stands for.
        let here = format!("{}/{}", place.registry, place.repository);
        let shown = if shown.starts_with(&here) {
            shown
        } else {
            format!("{shown} at {here}")
        };
        Self {
            registry,
            shown,
            place,
            login,
            actions,
            deadline,
            authorization: None,
            last: String::new(),
        }
    }

    pub(super) fn shown(&self) -> &String {
        &self.shown
    }

    /// Asks until there is an answer, the tries are used up, or the time is.
    pub(super) async fn call(&mut self, call: Call<'_>) -> Result<Fetched, OciError> {
        let deadline = self.deadline;
        let answer = timeout_at(deadline, self.tries(&call)).await;
        answer.unwrap_or_else(|_| {
            let seconds = self.registry.setup.bounds.total.as_secs_f32();
            let last = if self.last.is_empty() {
                "no whole answer came"
            } else {
                &self.last
            };
            Err(self.unavailable(&format!("{last} ({} within {seconds} s)", call.what)))
        })
    }

    async fn tries(&mut self, call: &Call<'_>) -> Result<Fetched, OciError> {
        let bounds = self.registry.setup.bounds;
        let mut pause = bounds.pause;
        let mut tried = 0;
        loop {
            tried += 1;
            match self.attempt(call).await {
                Ok(fetched) => return Ok(fetched),
                Err(Attempt::Final(error)) => return Err(error),
                Err(Attempt::Again { why, .. }) if tried >= bounds.attempts => {
                    return Err(self.unavailable(&format!("{why} ({}, tried {tried} times)", call.what)));
                }
                Err(Attempt::Again { why, after }) => {
                    self.last = why;
                    tokio::time::sleep(after.unwrap_or(pause).min(LONGEST_PAUSE)).await;
                    pause = pause.saturating_mul(2);
                }
            }
        }
    }

    async fn attempt(&mut self, call: &Call<'_>) -> Result<Fetched, Attempt> {
        let (answer, url) = self.answer(call).await?;
        let status = answer.status;
        match status.as_u16() {
            200..=299 => self.read(answer, call, url).await,
            404 => Err(OciError::NotFound {
                reference: self.shown.clone(),
                what: call.what.to_owned(),
            }
            .into()),
            401 | 403 => {
                let wanted =
                    Challenge::of(&answer.headers).map_or("other credentials", |challenge| challenge.shown());
                let registry = authority(&url);
                let words = answer.words().await;
                Err(self.unauthorised(registry, wanted, words).into())
            }
            408 | 429 | 500..=599 => {
                let after = answer
                    .text("retry-after")
                    .and_then(|text| text.trim().parse().ok())
                    .map(Duration::from_secs);
                Err(Attempt::Again {
                    why: answer.words().await,
                    after,
                })
            }
            _ => {
                let words = answer.words().await;
                Err(OciError::malformed(
                    &self.shown,
                    call.what,
                    format!("the registry refuses the request: {words}"),
                )
                .into())
            }
        }
    }

    /// The head of the last answer after authorisation and redirects, and where it came from.
    async fn answer(&mut self, call: &Call<'_>) -> Result<(Answer, Url), Attempt> {
        let mut authorised = false;
        let mut redirects = 0;
        let mut at: Option<Url> = None;
        loop {
            let url = match &at {
                Some(url) => url.clone(),
                None => self.url(call.at)?,
            };
            let own = self.is_own(&url);
            let mut headers = call.headers.clone();
            if let Some(value) = self.authorization.clone().filter(|_| own) {
                headers.push((header::AUTHORIZATION, value));
            }
            let ask = Ask {
                method: call.method.clone(),
                url: url.clone(),
                headers,
                body: call.body.clone(),
            };
            let Some(answer) = self.send(ask).await? else {
                continue;
            };
            if answer.status == StatusCode::UNAUTHORIZED && own && !authorised {
                authorised = true;
                if let Some(challenge) = Challenge::of(&answer.headers)
                    && let Some(value) = self.authorise(&challenge, &url).await?
                {
                    self.authorization = Some(value);
                    continue;
                }
                return Ok((answer, url));
            }
            let location = answer
                .text("location")
                .filter(|_| is_redirect(answer.status) && call.method == Method::GET);
            let Some(location) = location else {
                return Ok((answer, url));
            };
            redirects += 1;
            if redirects > REDIRECTS {
                return Err(self
                    .not_allowed(format!("more than {REDIRECTS} redirects for the {}", call.what))
                    .into());
            }
            at = Some(self.redirected(&url, location)?);
        }
    }

    /// Where a step to `url` may not lead. Who runs a registry that an administrator named may not thereby send numo, and what it
    /// knows, to anything else inside: each step is judged by where it goes.
    fn closed(&self, url: &Url) -> Closed<'_> {
        let Setup {
            inside,
            cluster,
            only_named_loopback,
            ..
        } = &self.registry.setup;
        let at_home = self.url("").is_ok_and(|own| own.host() == url.host());
        let is_there = |named: &String| {
            let named = Url::parse(&format!("{}://{named}", url.scheme()));
            named.is_ok_and(|named| named.origin() == url.origin())
        };
        let is_named = inside.contains(&self.place.registry) && (at_home || inside.iter().any(is_there));
        Closed {
            ranges: if is_named { &[] } else { cluster },
            loopback: is_named || !only_named_loopback,
        }
    }

    /// Sends. Nothing when a loopback registry turned out to speak plain HTTP: then its URLs are other ones.
    async fn send(&self, ask: Ask) -> Result<Option<Answer>, Attempt> {
        let url = ask.url.clone();
        let closed = self.closed(&url);
        match self.registry.transport.send(ask, closed).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Failure::NotTls(_)) if self.is_own(&url) && is_loopback(host(&url)) => {
                let mut found = self
                    .registry
                    .found_plain
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                found.insert(self.place.registry.clone());
                Ok(None)
            }
            Err(failure) => Err(self.failed(failure)),
        }
    }

    fn failed(&self, failure: Failure) -> Attempt {
        match failure {
            Failure::Passing(why) => Attempt::Again { why, after: None },
            Failure::Lasting(why) => self.unavailable(&why).into(),
            Failure::NotTls(why) => {
                let why =
                    format!("{why}; plain HTTP is spoken only to loopback and where the operator is told to");
                self.unavailable(&why).into()
            }
            Failure::NotAllowed(why) => self.not_allowed(why).into(),
        }
    }

    fn url(&self, at: &str) -> Result<Url, OciError> {
        let scheme = if self.registry.is_plain(&self.place.registry) {
            "http"
        } else {
            "https"
        };
        // Docker Hub's API has a name of its own.
        let registry = match self.place.registry.as_str() {
            "docker.io" => "registry-1.docker.io",
            other => other,
        };
        let text = if at.contains("://") {
            at.to_owned()
        } else {
            format!("{scheme}://{registry}/v2/{}/{at}", self.place.repository)
        };
        Url::parse(&text).map_err(|error| OciError::invalid(&text, error.to_string()))
    }

    /// Whether it is the registry itself, to which its authorisation may be sent.
    fn is_own(&self, url: &Url) -> bool {
        self.url("").is_ok_and(|own| own.origin() == url.origin())
    }

    /// Where a redirect may lead: to TLS, or, from plain HTTP, to a host that may be spoken to so; not into loopback.
    pub(super) fn redirected(&self, from: &Url, location: &str) -> Result<Url, OciError> {
        let to = from.join(location).map_err(|error| {
            self.not_allowed(format!(
                "the registry leads to {:?}: {error}",
                clean(location, 128)
            ))
        })?;
        let plain =
            from.scheme() == "http" && (is_loopback(host(&to)) || self.registry.is_plain(&authority(&to)));
        let scheme = to.scheme() == "https" || (to.scheme() == "http" && plain);
        let inside = is_loopback(host(&to)) && !is_loopback(host(from));
        if !scheme || inside {
            let at = format!("{}://{}", clean(to.scheme(), 16), authority(&to));
            return Err(self.not_allowed(format!("the registry {} leads to {at}", authority(from))));
        }
        Ok(to)
    }

    /// The header that answers a challenge, if there is one to be had.
    async fn authorise(&mut self, challenge: &Challenge, url: &Url) -> Result<Option<HeaderValue>, Attempt> {
        let (realm, service) = match (challenge, self.login) {
            (Challenge::Basic, Some(Login::Password { username, password })) => {
                return Ok(secret(&basic(username, password)));
            }
            (Challenge::Basic, _) => return Ok(None),
            (Challenge::Bearer { realm, service }, _) => (realm, service),
        };
        let realm = self.redirected(url, realm)?;
        let ask = self.token_request(realm, service.as_deref());
        let server = ask.url.clone();
        let closed = self.closed(&server);
        let mut answer = self
            .registry
            .transport
            .send(ask, closed)
            .await
            .map_err(|failure| self.failed(failure))?;
        match answer.status.as_u16() {
            200..=299 => {}
            408 | 429 | 500..=599 => {
                return Err(Attempt::Again {
                    why: answer.words().await,
                    after: None,
                });
            }
            _ => {
                let words = answer.words().await;
                return Err(self
                    .unauthorised(authority(&server), challenge.shown(), words)
                    .into());
            }
        }
        let mut bytes = Vec::new();
        while let Some(more) = answer.next().await.map_err(|failure| self.failed(failure))? {
            if (bytes.len() + more.len()) as u64 > TOKEN_BYTES {
                return Err(OciError::too_large(&self.shown, "token", None, TOKEN_BYTES).into());
            }
            bytes.extend_from_slice(&more);
        }
        let token =
            token(&bytes).ok_or_else(|| OciError::malformed(&self.shown, "token", "the answer has none"))?;
        Ok(secret(&format!("Bearer {token}")))
    }

    fn token_request(&self, mut realm: Url, service: Option<&str>) -> Ask {
        let scope = format!("repository:{}:{}", self.place.repository, self.actions);
        let mut pairs = vec![("scope", scope.as_str())];
        pairs.extend(service.map(|service| ("service", service)));
        if let Some(Login::IdentityToken(token)) = self.login {
            pairs.extend([
                ("grant_type", "refresh_token"),
                ("client_id", "numo"),
                ("refresh_token", token),
            ]);
            let body = url::form_urlencoded::Serializer::new(String::new())
                .extend_pairs(pairs)
                .finish();
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            let headers = vec![(header::CONTENT_TYPE, form)];
            return Ask {
                method: Method::POST,
                url: realm,
                headers,
                body: body.into(),
            };
        }
        realm.query_pairs_mut().extend_pairs(pairs);
        let mut headers = Vec::new();
        if let Some(Login::Password { username, password }) = self.login {
            headers.extend(secret(&basic(username, password)).map(|value| (header::AUTHORIZATION, value)));
        }
        Ask {
            method: Method::GET,
            url: realm,
            headers,
            body: Bytes::new(),
        }
    }

    async fn read(&self, mut answer: Answer, call: &Call<'_>, url: Url) -> Result<Fetched, Attempt> {
        let most = match call.expect {
            Expect::AtMost(most) | Expect::Exactly(_, most) => most,
        };
        let over = |found: Option<u64>| match call.expect {
            Expect::AtMost(_) => OciError::too_large(&self.shown, call.what, found, most),
            Expect::Exactly(..) => OciError::DigestMismatch {
                reference: self.shown.clone(),
                what: call.what.to_owned(),
                found: found.map_or(format!("more than {most} bytes"), |found| {
                    format!("{found} bytes")
                }),
                wanted: format!("{most} bytes"),
            },
        };
        if let Some(declared) = answer
            .declared()
            .filter(|declared| *declared > most && call.method != Method::HEAD)
        {
            return Err(over(Some(declared)).into());
        }
        let mut bytes = Vec::new();
        let mut hasher = Sha256::new();
        while let Some(more) = answer.next().await.map_err(|failure| self.failed(failure))? {
            if (bytes.len() + more.len()) as u64 > most {
                return Err(over(None).into());
            }
            hasher.update(&more);
            bytes.extend_from_slice(&more);
        }
        let digest = Digest::finish(hasher);
        if let Expect::Exactly(wanted, size) = call.expect {
            if (bytes.len() as u64) < size {
                let why = format!("the {} ended after {} of {size} bytes", call.what, bytes.len());
                return Err(Attempt::Again { why, after: None });
            }
            if digest != *wanted {
                return Err(OciError::mismatch(&self.shown, call.what, &digest, wanted).into());
            }
        }
        Ok(Fetched {
            bytes,
            headers: answer.headers,
            digest,
            url,
        })
    }

    fn unavailable(&self, why: &str) -> OciError {
        OciError::RegistryUnavailable {
            reference: self.shown.clone(),
            registry: self.place.registry.clone(),
            why: clean(why, 512),
        }
    }

    fn not_allowed(&self, why: String) -> OciError {
        OciError::NotAllowed {
            reference: self.shown.clone(),
            why,
        }
    }

    fn unauthorised(&self, registry: String, wanted: &str, answer: String) -> OciError {
        OciError::Unauthorised {
            reference: self.shown.clone(),
            registry,
            wanted: wanted.to_owned(),
            found: self.login.map_or("no credentials".to_owned(), Login::shown),
            answer,
        }
    }
}

fn secret(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn authority(url: &Url) -> String {
    let host = clean(url.host_str().unwrap_or_default(), 253);
    url.port().map_or(host.clone(), |port| format!("{host}:{port}"))
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}
