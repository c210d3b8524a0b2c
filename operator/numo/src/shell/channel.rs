//! Channels of Plans: one request each, whose redirect names the newest version. Nothing is decided here; what came of it
//! goes to the planner.
//!
//! As system-upgrade-controller asks (`spec/system-upgrade-controller.md` §2, B5), but with a limit of time, the cluster's
//! proxy, and authorities of the administrator's. A redirect is never followed.

use super::{client::Connection, project::Kind, store::Seen, watch};
use http::{HeaderName, HeaderValue};
use numo_core::{observed::Key, owners::plan::without_user, text::clip};
use numo_plugin::{
    fetch::{Direct, FetchSetup},
    net::{authorization, decoded},
    oci::Proxies,
    services::{Addresses, Fetch as _, FetchRequest},
};
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::{OnceCell, Semaphore, mpsc};
use url::Url;

/// How long a channel may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read: only its head is of use.
const BODY_BYTES: u64 = 1024 * 1024;
/// How much of a URL is logged (characters).
const URL_LETTERS: usize = 512;
/// Channels that are asked at once.
const AT_ONCE: usize = 8;
/// The namespace whose uid stands for the cluster.
const CLUSTER: &str = "kube-system";

/// How channels are asked.
#[derive(Clone, Debug, Default)]
pub struct ChannelOptions {
    /// Certificate authorities to trust for channels, as PEM, besides the system's.
    pub authorities: Vec<u8>,
    /// The cluster's proxies.
    pub proxies: Proxies,
}

/// Asks channels.
#[derive(Clone)]
pub struct Channels {
    connection: Connection,
    fetcher: Arc<Result<Direct, String>>,
    places: Arc<Semaphore>,
    cluster: Arc<OnceCell<String>>,
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").finish_non_exhaustive()
    }
}

impl Channels {
    /// Ready to ask.
    pub fn new(connection: Connection, options: &ChannelOptions) -> Self {
        let fetcher = || -> Result<Direct, String> {
            let setup = FetchSetup {
                proxies: options.proxies.clone(),
                ..FetchSetup::trusting(&options.authorities)?
            };
            Direct::new(setup).map_err(|error| error.to_string())
        };
        Self {
            connection,
            fetcher: Arc::new(fetcher()),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            cluster: Arc::new(OnceCell::new()),
        }
    }

    /// Asks the channel of a Plan; the answer goes to the planner.
    pub fn ask(&self, plan: Key, url: String, latest: String, to: mpsc::UnboundedSender<Seen>) {
        let channels = self.clone();
        tokio::spawn(async move {
            let Ok(_place) = channels.places.acquire().await else {
                return;
            };
            let answer = channels.resolve(&url, &latest).await;
            if let Err(problem) = &answer {
                let url = clip(&without_user(&url), URL_LETTERS);
                tracing::warn!(%plan, url, problem, "the channel named no version");
            }
            let at = channels.connection.clock.now();
            let _ = to.send(Seen::Channel(plan, url, at, answer));
        });
    }

    async fn resolve(&self, text: &str, latest: &str) -> Result<String, String> {
        let url = Url::parse(text).map_err(|error| format!("it is no URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("found scheme {:?}, wanted https or http", url.scheme()));
        }
        let fetcher = self.fetcher.as_ref().as_ref().map_err(Clone::clone)?;
        let mut headers = Vec::new();
        let mut add = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value)
                && !value.is_empty()
            {
                headers.push((HeaderName::from_static(name), value));
            }
        };
        add("x-suc-cluster-id", &self.cluster_id().await);
        add("x-suc-latest-version", latest);
        // As Go's client does for a user in the URL.
        if let Some(mut value) = authorization(&url).and_then(|value| HeaderValue::from_str(&value).ok()) {
            value.set_sensitive(true);
            headers.push((http::header::AUTHORIZATION, value));
        }
        let request = FetchRequest {
            head: false,
            url: url.clone(),
            headers,
            // Who may write Plans runs what he likes on the nodes. Link-local and metadata addresses are refused all the same.
            addresses: Addresses::Anywhere,
            timeout: PATIENCE,
            body_bytes: BODY_BYTES,
        };
        let answer = fetcher.fetch(request).await.map_err(|error| error.message)?;
        let header = |name: &str| {
            let mut headers = answer.headers.iter();
            headers
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.as_str())
        };
        version(&url, answer.status, header("location"), header("content-type"))
    }

    /// uid of the namespace kube-system; empty if it cannot be had.
    async fn cluster_id(&self) -> String {
        let found = self
            .cluster
            .get_or_try_init(|| async {
                let namespaces = watch::items(&self.connection.read, Kind::Namespace, "");
                let found = namespaces.get(CLUSTER).await?;
                Ok::<_, kube::Error>(found.metadata.uid.unwrap_or_default())
            })
            .await;
        found.cloned().unwrap_or_default()
    }
}

/// What an answer says: of a redirect the last part of where it leads; of any other good answer that of the channel
/// itself, unless it is a page for people and that part no version.
fn version(
    url: &Url,
    status: u16,
    location: Option<&str>,
    content_type: Option<&str>,
) -> Result<String, String> {
    // Servers may write a plus as `%2B`.
    let last = |url: &Url| {
        let path = decoded(url.path());
        let mut parts = path.split('/');
        parts.rfind(|part| !part.is_empty()).map(ToOwned::to_owned)
    };
    match status {
        302 => {
            let location = location.ok_or("unexpected response: 302 without a Location")?;
            let to = url
                .join(location)
                .map_err(|error| format!("unexpected response: 302 to {location:?}: {error}"))?;
            let found = last(&to).ok_or_else(|| {
                format!("unexpected response: 302 to {location:?}, which ends in no version")
            })?;
            if to == *url {
                return Err(format!(
                    "unexpected response: 302 to {location:?}, which is the channel itself"
                ));
            }
            Ok(found)
        }
        200..=399 => {
            let found = last(url).ok_or("the channel is no redirect, and ends in no version")?;
            let page = content_type.is_some_and(|content| content.starts_with("text/html"));
            if page && found.matches('.').count() != 2 {
                return Err(format!(
                    "unexpected response: {status} with a page (text/html) instead of a redirect, and {found:?} is no version"
                ));
            }
            Ok(found)
        }
        other => Err(format!("unexpected response: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_last_part_of_where_a_redirect_leads() {
        let url = Url::parse("https://example.com/channels/stable").unwrap();
        let of = |status, location, content| version(&url, status, location, content);
        let tag = "https://example.com/k3s/releases/tag/v1.30.1+k3s1";
        assert_eq!(of(302, Some(tag), None), Ok("v1.30.1+k3s1".to_owned()));
        assert_eq!(of(302, Some("/local/test"), None), Ok("test".to_owned()));
        let github = "https://example.com/k3s/releases/tag/v1.30.1%2Bk3s1";
        assert_eq!(of(302, Some(github), None), Ok("v1.30.1+k3s1".to_owned()));
        assert_eq!(of(302, Some("/tags/a%2Fv2%2f"), None), Ok("v2".to_owned()));
        assert_eq!(of(302, Some("v2/"), None), Ok("v2".to_owned()));
        for (status, location, content) in [
            (302, None, None),
            (302, Some("https://example.com"), None),
            (302, Some("http://["), None),
            (200, None, Some("text/html; charset=utf-8")),
            (404, None, None),
            (500, Some(tag), None),
        ] {
            let answer = of(status, location, content);
            assert!(answer.is_err(), "{status} {location:?}: {answer:?}");
        }
        assert_eq!(of(200, None, None), Ok("stable".to_owned()));
        // A page about a product of two numbers is no version.
        let page = Url::parse("https://example.com/products/k3s-2").unwrap();
        assert!(version(&page, 200, None, Some("text/html")).is_err());
        let page = Url::parse("https://example.com/releases/tag/v0.9.0").unwrap();
        assert_eq!(
            version(&page, 200, None, Some("text/html")),
            Ok("v0.9.0".to_owned())
        );
    }
}
