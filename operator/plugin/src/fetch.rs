//! Sends one HTTP request of a rule, of Prometheus or of a channel. Grants were checked before; which addresses a rule's
//! request may lead to is judged here, and the connection is the one way out's (`net/transport.rs`).
//!
//! Behind a proxy the proxy resolves: then only the host's name was checked, by its grant, and addresses are checked
//! where the URL itself has one.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub use crate::net::{Resolve, SystemResolver, authorities};
use crate::{
    address::{self, Networks},
    net::{
        proxy::Proxies,
        transport::{Ask, Failure, Guard, Transport, host},
    },
    services::{Addresses, ErrorCode, Fetch, FetchRequest, FetchResponse, HostError},
    text::clean,
};

/// How [`Direct`] reaches servers.
#[derive(Clone)]
pub struct FetchSetup {
    /// Ranges of pods, services and nodes, as far as they are known: no rule reaches them without a grant.
    pub cluster: Networks,
    /// Authorities beside the system's.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The cluster's proxies.
    pub proxies: Proxies,
    /// Finds addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Whether a grant may name loopback: for who asks a rule on a machine of one's own, and for tests.
    pub loopback: bool,
}

impl Default for FetchSetup {
    fn default() -> Self {
        Self {
            cluster: Networks::default(),
            authorities: Vec::new(),
            proxies: Proxies::default(),
            resolver: Arc::new(SystemResolver),
            loopback: false,
        }
    }
}

impl FetchSetup {
    /// Trusts the authorities of this PEM beside the system's; none where it is empty.
    ///
    /// Errors: it is no PEM, or has no certificate.
    pub fn trusting(pem: &[u8]) -> Result<Self, String> {
        Ok(Self {
            authorities: if pem.is_empty() {
                Vec::new()
            } else {
                authorities(pem)?
            },
            ..Self::default()
        })
    }
}

/// What goes out, and whether the answer is what matters.
struct Sent {
    method: Method,
    body: Bytes,
    /// A longer answer than may be is an error; else its beginning is the answer.
    is_read_whole: bool,
}

impl Sent {
    /// What asks nothing: that it arrived is what matters.
    fn asking_nothing(method: Method, body: Bytes) -> Self {
        Self {
            method,
            body,
            is_read_whole: false,
        }
    }
}

/// Where one request may lead: of the cluster's addresses a grant opens those that it names, of the machine's none. Who may go anywhere
/// reaches the cluster and loopback, and nothing else that no grant opens.
struct Granted<'a> {
    direct: &'a Direct,
    allowed: &'a Addresses,
}

impl Guard for Granted<'_> {
    fn refusal(&self, _: &str, address: IpAddr) -> Option<&'static str> {
        let Addresses::Outside(granted) = self.allowed else {
            return address::of_nobody(address);
        };
        let Direct {
            cluster, loopback, ..
        } = self.direct;
        let named = granted.iter().any(|range| range.contains(address));
        if named && *loopback && address::is_loopback(address) {
            return None;
        }
        address::of_machine(address).or_else(|| address::refusal(address, &cluster.all()).filter(|_| !named))
    }

    // Whether a Service of another namespace exists is not told to who may not reach it.
    fn tells(&self) -> bool {
        matches!(self.allowed, Addresses::Anywhere)
    }
}

/// The real fetcher.
pub struct Direct {
    transport: Transport,
    cluster: Networks,
    loopback: bool,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl Direct {
    /// Reads the system's authorities; fails when there are none at all.
    pub fn new(setup: FetchSetup) -> Result<Self, rustls::Error> {
        Ok(Self {
            transport: Transport::new(setup.authorities, setup.proxies, setup.resolver)?,
            cluster: setup.cluster,
            loopback: setup.loopback,
        })
    }

    /// Reaches servers that ask for a certificate, and trusts those of these authorities alone: neither the system's authorities nor
    /// a proxy have a part in it.
    ///
    /// Errors: an authority is unfit, or the key is not the certificate's.
    pub fn with_certificate(
        authorities: Vec<CertificateDer<'static>>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self {
            transport: Transport::with_certificate(authorities, (chain, key))?,
            cluster: Networks::default(),
            loopback: false,
        })
    }

    /// Sends a body by POST, whatever `head` says. Of a longer answer than may be the beginning is given back, and the rest is not read:
    /// who sends something asks nothing. A redirect is an answer as any other.
    ///
    /// Errors: no connection, an address that nobody may reach, or no answer in time.
    pub async fn post(&self, request: FetchRequest, body: Vec<u8>) -> Result<FetchResponse, HostError> {
        let sent = Sent::asking_nothing(Method::POST, Bytes::from(body));
        within(request.timeout, self.exchange(request, sent)).await
    }

    /// Sends a body by any method and reads the answer whole, whatever `head` says.
    ///
    /// Errors: as those of [`Fetch::fetch`].
    pub async fn call(
        &self,
        request: FetchRequest,
        (method, body): (Method, Vec<u8>),
    ) -> Result<FetchResponse, HostError> {
        let sent = Sent {
            method,
            body: Bytes::from(body),
            is_read_whole: true,
        };
        within(request.timeout, self.exchange(request, sent)).await
    }

    /// Has something deleted, by DELETE, whatever `head` says. The answer is read as that of [`Direct::post`] is.
    ///
    /// Errors: no connection, an address that nobody may reach, or no answer in time.
    pub async fn delete(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        let sent = Sent::asking_nothing(Method::DELETE, Bytes::new());
        within(request.timeout, self.exchange(request, sent)).await
    }

    /// One request and its answer.
    async fn exchange(&self, request: FetchRequest, sent: Sent) -> Result<FetchResponse, HostError> {
        let port = request.url.port_or_known_default().unwrap_or_default();
        let shown = clean(host(&request.url), 253);
        let anywhere = matches!(request.addresses, Addresses::Anywhere);
        if !anywhere && !self.cluster.are_known() {
            return Err(unavailable(
                "the ranges of the cluster's Services are not known yet".to_owned(),
            ));
        }
        let told = |failure| told((&shown, port), anywhere, failure);
        let guard = Granted {
            direct: self,
            allowed: &request.addresses,
        };
        let connected = self.transport.connect(&request.url, &guard).await.map_err(told)?;
        let most = request.body_bytes;
        let ask = Ask {
            method: sent.method,
            url: request.url,
            headers: request.headers,
            body: sent.body,
        };
        let mut answer = connected.send(ask).await.map_err(told)?;
        let headers = answer.headers.iter();
        let headers = headers
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
            .collect();
        let status = answer.status.as_u16();
        let mut body = Vec::new();
        while let Some(more) = answer.next().await.map_err(told)? {
            if (body.len() + more.len()) as u64 > most {
                if !sent.is_read_whole {
                    break;
                }
                let message = format!("the answer has more than {most} bytes");
                return Err(HostError::new(ErrorCode::TooLarge, message).detail("limit", "httpBodyBytes"));
            }
            body.extend_from_slice(&more);
        }
        Ok(FetchResponse {
            status,
            headers,
            body,
        })
    }
}

#[async_trait]
impl Fetch for Direct {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        let sent = Sent {
            method: if request.head { Method::HEAD } else { Method::GET },
            body: Bytes::new(),
            is_read_whole: true,
        };
        within(request.timeout, self.exchange(request, sent)).await
    }
}

/// The answer, if it comes in time.
async fn within(
    timeout: Duration,
    answer: impl Future<Output = Result<FetchResponse, HostError>>,
) -> Result<FetchResponse, HostError> {
    let answer = tokio::time::timeout(timeout, answer).await;
    answer.unwrap_or_else(|_| {
        Err(unavailable(format!(
            "no answer within {} ms",
            timeout.as_millis()
        )))
    })
}

/// A failure in the words of the contract with components; who may go `anywhere` lacks no grant.
fn told((host, port): (&str, u16), anywhere: bool, failure: Failure) -> HostError {
    let denied = |why: String| {
        HostError::new(ErrorCode::Denied, why).detail("grant", format!("http {host} addresses"))
    };
    match failure {
        Failure::NotFound(why) => unavailable(format!("the name {host} is not found: {why}")),
        Failure::Refused(Some(why)) if anywhere => HostError::new(
            ErrorCode::Denied,
            format!("{host} leads to {why}, and numo connects to none"),
        ),
        Failure::Refused(Some(why)) => {
            denied(format!("{host} leads to {why}, and no grant names that address"))
        }
        Failure::Refused(None) => denied(format!(
            "{host} leads to no address outside the cluster and this machine, and no grant names where it leads"
        )),
        Failure::Unconnected(_, why) => unavailable(format!("no connection to {host}:{port}: {why}")),
        Failure::Proxy(why, Some(status)) => unavailable(why).detail("http-status", status),
        Failure::Proxy(why, None) => unavailable(why),
        Failure::NoServerName => HostError::new(ErrorCode::Invalid, format!("{host} is no server name")),
        Failure::Tls(error) => unavailable(format!("TLS with {host}: {error}")),
        Failure::Broken(why) => unavailable(format!("the connection: {why}")),
        Failure::Unwritable(why) => HostError::new(ErrorCode::Invalid, why),
    }
}

fn unavailable(message: String) -> HostError {
    HostError::new(ErrorCode::Unavailable, message)
}
