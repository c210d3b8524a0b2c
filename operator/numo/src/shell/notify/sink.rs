//! One sink: where it is, by the spec and the Secret that it names, and one request to it. Its answer is read as far as is of use, and a
//! redirect is never followed. Nothing of a Secret goes into a message or a log.

use crate::{
    frontends::{
        mutex_notifier::{NotifierView, SinkKind, Understood, Verdict},
        silence::{self, Deed, Listed},
    },
    shell::{client::Connection, item::Item, servers::Server},
};
use http::{HeaderName, HeaderValue, header};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{Api, api::ApiResource};
use numo_api::{Reason, marks};
use numo_plugin::{
    fetch::{Direct, FetchSetup},
    oci::Proxies,
    services::{Addresses, Fetch as _, FetchRequest, FetchResponse},
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use url::Url;

/// How long a request may take, with its connection and its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the API server may take.
const READ: Duration = Duration::from_secs(10);
/// How much of an answer is read (bytes).
const ANSWER: u64 = 4096;
/// The key of a ConfigMap that holds authorities, where none is given.
const AUTHORITIES: &str = "ca.crt";
/// How much of a list of silences is read (bytes): Alertmanager lists those of the last days too, half a kibibyte each.
const LISTED: u64 = 8 * 1024 * 1024;
/// Where Alertmanager takes alerts.
const ALERTS: &str = "api/v2/alerts";
/// Where it has its silences.
const SILENCES: &str = "api/v2/silences";
/// Where one of them is ended, by its id.
const SILENCE: &str = "api/v2/silence";

/// How sinks are reached, and by whose hand the Secrets are read.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The clients.
    pub connection: Connection,
    /// numo's own namespace.
    pub namespace: String,
    /// The cluster's proxies.
    pub proxies: Proxies,
}

/// A sink that can be asked.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Where notifications go.
    url: Url,
    /// Under which an Alertmanager's API is found; of another sink where notifications go.
    base: Url,
    content_type: &'static str,
    token: Option<HeaderValue>,
    direct: Arc<Direct>,
}

/// The authorities of a notifier as they were read last, and what was made of them.
pub type Known = Option<(Vec<u8>, Arc<Direct>)>;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The sink took it.
    Taken,
    /// It may take it later: why not now, and how long it asks to be left alone.
    Later(String, Option<Duration>),
    /// It will never take it.
    Refused(String),
}

impl Reach {
    /// Where the sink of a notifier is.
    ///
    /// Errors: the Secret or the authorities are missing, or cannot be used.
    pub async fn sink(
        &self,
        view: &NotifierView,
        spec: &Understood,
        known: &mut Known,
    ) -> Result<Sink, Verdict> {
        let secret = match &view.spec.secret_ref {
            Some(named) => Some(Held {
                place: format!("Secret {}/{}", self.namespace, named.name),
                item: self.read::<Secret>("Secret", &named.name).await?,
            }),
            None => None,
        };
        let url = match (&spec.url, &secret) {
            (Some(url), _) => url.clone(),
            (None, Some(secret)) => secret.required("url")?,
            (None, None) => {
                return Err(invalid(
                    "spec.secretRef: found none, wanted a Secret with key url",
                ));
            }
        };
        let base = place(&url)?;
        let token = match secret.as_ref().map(|secret| secret.token(&base)) {
            Some(token) => token?,
            None => None,
        };
        Ok(Sink {
            url: match spec.sink {
                SinkKind::Alertmanager => under(&base, ALERTS),
                SinkKind::CloudEvents | SinkKind::Slack => base.clone(),
            },
            base,
            content_type: match spec.sink {
                SinkKind::CloudEvents => "application/cloudevents+json; charset=utf-8",
                SinkKind::Slack | SinkKind::Alertmanager => "application/json",
            },
            token,
            direct: self.direct(view, known).await?,
        })
    }

    /// Who connects: trusting the authorities of the notifier beside the system's.
    async fn direct(&self, view: &NotifierView, known: &mut Known) -> Result<Arc<Direct>, Verdict> {
        let pem = match &view.spec.tls {
            None => Vec::new(),
            Some(tls) => {
                let (name, key) = (
                    &tls.ca_config_map.name,
                    tls.ca_config_map.key.as_deref().unwrap_or(AUTHORITIES),
                );
                let found = self.read::<ConfigMap>("ConfigMap", name).await?;
                let text: Option<String> = found.at(&["data", key]);
                let place = format!("ConfigMap {}/{name}", self.namespace);
                text.ok_or_else(|| invalid(&format!("{place}: found no key {key}")))?
                    .into_bytes()
            }
        };
        if let Some((before, direct)) = known
            && *before == pem
        {
            return Ok(direct.clone());
        }
        let trusting = FetchSetup::trusting(&pem);
        let setup = FetchSetup {
            proxies: self.proxies.clone(),
            ..trusting.map_err(|problem| invalid(&format!("spec.tls.caConfigMap: {problem}")))?
        };
        let direct = Direct::new(setup).map_err(|problem| invalid(&problem.to_string()))?;
        let direct = Arc::new(direct);
        *known = Some((pem, direct.clone()));
        Ok(direct)
    }

    /// An object of numo's own namespace.
    async fn read<K>(&self, kind: &str, name: &str) -> Result<Item, Verdict>
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let resource = ApiResource::erase::<K>(&());
        let api: Api<Item> = Api::namespaced_with(self.connection.read.clone(), &self.namespace, &resource);
        let not = |reason: Reason, why: &str| Verdict {
            ready: false,
            reason,
            message: format!("{kind} {}/{name}: {why}", self.namespace),
        };
        match tokio::time::timeout(READ, api.get_opt(name)).await {
            Err(_) => Err(not(Reason::SecretInvalid, "it was not read in time")),
            Ok(Ok(Some(item))) => Ok(item),
            Ok(Ok(None)) => Err(not(
                Reason::SecretNotFound,
                "found none, wanted an existing one in numo's own namespace",
            )),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => Err(not(
                Reason::SecretsForbidden,
                "numo may not read it: grant it get on this object by a Role (operator/docs/notifications.md, Secrets)",
            )),
            Ok(Err(error)) => Err(not(Reason::SecretInvalid, &error.to_string())),
        }
    }
}

/// A Secret that was read.
struct Held {
    /// What it is called in messages.
    place: String,
    item: Item,
}

impl Held {
    fn text(&self, key: &str) -> Option<String> {
        let bytes: ByteString = self.item.at(&["data", key])?;
        let text = String::from_utf8(bytes.0).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn required(&self, key: &str) -> Result<String, Verdict> {
        let text = self.text(key);
        text.ok_or_else(|| invalid(&format!("{}: found no text under key {key}", self.place)))
    }

    /// What is sent with each request, if the Secret has a token. It says itself for which servers: whoever writes a notifier could have
    /// a token sent anywhere else.
    fn token(&self, url: &Url) -> Result<Option<HeaderValue>, Verdict> {
        let Some(token) = self.text("token") else {
            return Ok(None);
        };
        let server = Server::of(url);
        if !server.is_named_by(&self.item, marks::NOTIFIER_HOSTS) {
            let (place, key, shown) = (&self.place, marks::NOTIFIER_HOSTS, server.shown());
            return Err(invalid(&format!(
                "{place}: its annotation {key} does not name {shown}, where its token is to be sent"
            )));
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
            invalid(&format!(
                "{}: key token is no text that a header may have",
                self.place
            ))
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

fn invalid(message: &str) -> Verdict {
    Verdict {
        ready: false,
        reason: Reason::SecretInvalid,
        message: message.to_owned(),
    }
}

/// The URL of the sink. What a Secret has is not repeated in the message.
fn place(text: &str) -> Result<Url, Verdict> {
    let wrong =
        || invalid("the URL of the sink: wanted one that begins with https:// or http://, without a user");
    let mut url = Url::parse(text).map_err(|_| wrong())?;
    let is_fine = matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some()
        && url.username().is_empty()
        && url.password().is_none();
    if !is_fine {
        return Err(wrong());
    }
    url.set_fragment(None);
    Ok(url)
}

/// A path of a server's API.
fn under(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

impl Sink {
    /// Sends one body.
    pub async fn send(&self, body: &Value, now: Timestamp) -> Answered {
        self.post(self.url.clone(), body, now).await
    }

    /// The silences of an Alertmanager that may be numo's.
    ///
    /// Errors: it gave no list, or one that is too long.
    pub async fn silences(&self, now: Timestamp) -> Result<Vec<Listed>, Answered> {
        let mut url = under(&self.base, SILENCES);
        url.query_pairs_mut().append_pair("filter", &silence::filter());
        let request = self.request(url, LISTED);
        let answer = self.direct.fetch(request).await;
        let answer = answer.map_err(|error| Answered::Later(error.message, None))?;
        match judged(&answer, now) {
            Answered::Taken => serde_json::from_slice(&answer.body).map_err(|_| {
                Answered::Refused("the sink answers something else than a list of silences".to_owned())
            }),
            other => Err(other),
        }
    }

    /// Makes, renews or ends a silence of an Alertmanager. One that is gone has ended.
    pub async fn silence(&self, deed: &Deed, now: Timestamp) -> Answered {
        match deed {
            Deed::Make(body) | Deed::Renew(body) => self.post(under(&self.base, SILENCES), body, now).await,
            Deed::End(id) => {
                let url = under(&self.base, &format!("{SILENCE}/{id}"));
                match self.direct.delete(self.request(url, ANSWER)).await {
                    Ok(answer) if answer.status == 404 => Answered::Taken,
                    Ok(answer) => judged(&answer, now),
                    Err(error) => Answered::Later(error.message, None),
                }
            }
        }
    }

    async fn post(&self, url: Url, body: &Value, now: Timestamp) -> Answered {
        let body = body.to_string().into_bytes();
        match self.direct.post(self.request(url, ANSWER), body).await {
            Ok(answer) => judged(&answer, now),
            Err(error) => Answered::Later(error.message, None),
        }
    }

    /// A request, of whose answer so many bytes are read.
    fn request(&self, url: Url, body_bytes: u64) -> FetchRequest {
        let mut headers: Vec<(HeaderName, HeaderValue)> =
            vec![(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type))];
        headers.extend(
            self.token
                .iter()
                .map(|token| (header::AUTHORIZATION, token.clone())),
        );
        FetchRequest {
            head: false,
            url,
            headers,
            // An administrator names the sink. Link-local and metadata addresses are refused all the same.
            addresses: Addresses::Anywhere,
            timeout: PATIENCE,
            body_bytes,
        }
    }
}

/// What an answer means.
fn judged(answer: &FetchResponse, now: Timestamp) -> Answered {
    match answer.status {
        200..=299 => Answered::Taken,
        408 | 425 | 429 | 500..=599 => {
            let words = format!("the sink answers {}", answer.status);
            Answered::Later(words, retry_after(answer, now))
        }
        300..=399 => Answered::Refused(format!(
            "the sink answers {}, and numo follows no redirect",
            answer.status
        )),
        status => Answered::Refused(format!("the sink answers {status}")),
    }
}

/// How long the sink asks to be left alone (RFC 9110, 10.2.3): seconds, or a date.
fn retry_after(answer: &FetchResponse, now: Timestamp) -> Option<Duration> {
    let mut headers = answer.headers.iter();
    let (_, text) = headers.find(|(name, _)| name == "retry-after")?;
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_zoned(text.trim())
        .ok()?;
    Some(Duration::try_from(at.timestamp().duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests;
