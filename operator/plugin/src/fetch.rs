//! Sends one HTTP request over one fresh connection: resolve once, check what was resolved, connect to exactly that.
//! Follows no redirect, keeps no connection, cookie or cache, decompresses nothing. Grants were checked before.
//!
//! Behind a proxy the proxy resolves: then only the host's name was checked, by its grant, and addresses are checked
//! where the URL itself has one.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::{
    address::{AddressRange, refusal},
    services::{Addresses, ErrorCode, Fetch, FetchRequest, FetchResponse, HostError},
    text::clean,
};

/// Bytes of the head of an answer.
const HEAD_BYTES: usize = 64 * 1024;
/// Headers of an answer.
const HEADERS: usize = 100;
/// Addresses of one name that are tried.
const TRIED: usize = 4;

/// Finds the addresses of a name. A trait, so that a test can have names of its own.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// In the order in which they are to be tried.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

/// How [`Direct`] reaches servers.
#[derive(Clone)]
pub struct FetchSetup {
    /// Ranges of pods, services and nodes, as far as they are known: no rule reaches them without a grant.
    pub cluster: Vec<AddressRange>,
    /// Authorities beside the system's.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The cluster's proxy.
    pub proxy: Option<Proxy>,
    /// Finds addresses.
    pub resolver: Arc<dyn Resolve>,
}

impl Default for FetchSetup {
    fn default() -> Self {
        Self {
            cluster: Vec::new(),
            authorities: Vec::new(),
            proxy: None,
            resolver: Arc::new(SystemResolver),
        }
    }
}

/// The cluster's proxy, as `HTTPS_PROXY` and `NO_PROXY` name it.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// `http://proxy.example.com:3128`; a user part is sent as basic authorisation.
    pub url: Url,
    /// Names (and, by a dot in front or not, all below them) that are reached without it; `*` is all.
    pub except: Vec<String>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Proxy({}:{:?})",
            self.url.host_str().unwrap_or_default(),
            self.url.port_or_known_default()
        )
    }
}

impl Proxy {
    fn serves(&self, url: &Url) -> bool {
        // An address is always checked and connected to by numo itself.
        let Some(Host::Domain(host)) = url.host() else {
            return false;
        };
        !self.except.iter().any(|except| {
            let except = except.trim().trim_start_matches("*.").trim_start_matches('.');
            except == "*"
                || host == except
                || host.strip_suffix(except).is_some_and(|rest| rest.ends_with('.'))
        })
    }

    fn authorization(&self) -> Option<String> {
        let decoded = |text: &str| -> Option<Vec<u8>> {
            let mut bytes = Vec::new();
            let mut rest = text.bytes();
            while let Some(byte) = rest.next() {
                bytes.push(match byte {
                    b'%' => {
                        let digits = [rest.next()?, rest.next()?];
                        u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                    }
                    byte => byte,
                });
            }
            Some(bytes)
        };
        let user = Some(self.url.username()).filter(|user| !user.is_empty())?;
        let pair = [
            decoded(user)?,
            b":".to_vec(),
            decoded(self.url.password().unwrap_or_default())?,
        ]
        .concat();
        Some(format!("Basic {}", base64(&pair)))
    }
}

/// Certificates of authorities, from PEM.
///
/// Errors: it is no PEM, or has no certificate.
pub fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Err("found no certificate, wanted PEM".to_owned());
    }
    Ok(found)
}

/// The real fetcher.
pub struct Direct {
    setup: FetchSetup,
    tls: TlsConnector,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct")
            .field("cluster", &self.setup.cluster)
            .finish_non_exhaustive()
    }
}

impl Direct {
    /// Reads the system's authorities; fails when there are none at all.
    pub fn new(setup: FetchSetup) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(
            setup.authorities.iter().cloned(),
            provider.clone(),
        )?;
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Self {
            setup,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }
}

#[async_trait]
impl Fetch for Direct {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        let timeout = request.timeout;
        tokio::time::timeout(timeout, self.exchange(request))
            .await
            .unwrap_or_else(|_| {
                Err(unavailable(format!(
                    "no answer within {} ms",
                    timeout.as_millis()
                )))
            })
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Direct {
    async fn exchange(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        let host = request
            .url
            .host_str()
            .unwrap_or_default()
            .trim_matches(['[', ']'])
            .to_owned();
        let port = request.url.port_or_known_default().unwrap_or_default();
        let secure = request.url.scheme() == "https";
        let proxy = self
            .setup
            .proxy
            .as_ref()
            .filter(|proxy| proxy.serves(&request.url));
        let stream = match proxy {
            Some(proxy) => self.through(proxy, &host, port, secure).await?,
            None => self.connect(&host, port, &request.addresses).await?,
        };
        let stream: Box<dyn Stream> = if secure {
            let name = ServerName::try_from(host.clone()).map_err(|_| {
                HostError::new(
                    ErrorCode::Invalid,
                    format!("{} is no server name", clean(&host, 253)),
                )
            })?;
            let tls = self.tls.connect(name, stream).await;
            Box::new(tls.map_err(|error| unavailable(format!("TLS with {}: {error}", clean(&host, 253))))?)
        } else {
            Box::new(stream)
        };
        // A proxy of plain HTTP is told the whole URL.
        let plain_proxy = proxy.filter(|_| !secure);
        talk(stream, request, plain_proxy).await
    }

    /// Resolves, checks, and connects to an address that was checked.
    async fn connect(&self, host: &str, port: u16, allowed: &Addresses) -> Result<TcpStream, HostError> {
        let resolved = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => match (self.setup.resolver.resolve(host, port).await, allowed) {
                (Ok(resolved), _) => resolved,
                (Err(error), Addresses::Anywhere) => {
                    return Err(unavailable(format!(
                        "the name {} is not found: {error}",
                        clean(host, 253)
                    )));
                }
                // Whether a Service of another namespace exists is not told to who may not reach it: no address is the
                // same answer as one that is not allowed.
                (Err(_), Addresses::Outside(_)) => Vec::new(),
            },
        };
        let mut refused = None;
        let mut failed = None;
        for address in resolved.into_iter().take(TRIED) {
            let why = match allowed {
                Addresses::Anywhere => None,
                Addresses::Outside(granted) if granted.iter().any(|range| range.contains(address.ip())) => {
                    None
                }
                Addresses::Outside(_) => refusal(address.ip(), &self.setup.cluster),
            };
            if why.is_some() {
                refused = refused.or(why);
                continue;
            }
            match TcpStream::connect(SocketAddr::new(address.ip(), port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = Some(error),
            }
        }
        let host = clean(host, 253);
        match (failed, refused) {
            (Some(error), _) => Err(unavailable(format!("no connection to {host}:{port}: {error}"))),
            (None, refused) => {
                // An address that was written as one tells nothing; what a name leads to does.
                let why = match refused.filter(|_| host.parse::<IpAddr>().is_ok()) {
                    Some(why) => format!("{host} leads to {why}, and no grant names that address"),
                    None => format!(
                        "{host} leads to no address outside the cluster and this machine, and no grant names where it leads"
                    ),
                };
                Err(HostError::new(ErrorCode::Denied, why).detail("grant", format!("http {host} addresses")))
            }
        }
    }

    /// A tunnel for TLS, or just the proxy for plain HTTP.
    async fn through(
        &self,
        proxy: &Proxy,
        host: &str,
        port: u16,
        tunnel: bool,
    ) -> Result<TcpStream, HostError> {
        let at = proxy.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let at_port = proxy.url.port_or_known_default().unwrap_or(3128);
        let mut stream = self.connect(at, at_port, &Addresses::Anywhere).await?;
        if tunnel {
            let broken = |error: io::Error| unavailable(format!("the proxy: {error}"));
            let authorization = proxy
                .authorization()
                .map_or(String::new(), |value| format!("proxy-authorization: {value}\r\n"));
            let ask = format!("CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n{authorization}\r\n");
            stream.write_all(ask.as_bytes()).await.map_err(broken)?;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if head.len() > 8 * 1024 {
                    return Err(unavailable("the proxy does not come to an end".to_owned()));
                }
                head.push(stream.read_u8().await.map_err(broken)?);
            }
            let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            if status != b"200" {
                let status = clean(&String::from_utf8_lossy(status), 16);
                return Err(unavailable(format!("the proxy answers {status}")).detail("http-status", status));
            }
        }
        Ok(stream)
    }
}

async fn talk(
    stream: Box<dyn Stream>,
    request: FetchRequest,
    plain_proxy: Option<&Proxy>,
) -> Result<FetchResponse, HostError> {
    struct Abort(tokio::task::JoinHandle<()>);
    impl Drop for Abort {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let failed = |error: hyper::Error| unavailable(format!("the connection: {}", with_sources(&error)));
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    let _connection = Abort(tokio::spawn(async move {
        // What goes wrong here also fails the request.
        let _ = connection.await;
    }));
    let most = request.body_bytes;
    let response = sender
        .send_request(head(request, plain_proxy)?)
        .await
        .map_err(failed)?;
    let status = response.status().as_u16();
    let headers = response
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect();
    let mut incoming = response.into_body();
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let Ok(data) = frame.map_err(failed)?.into_data() else {
            continue;
        };
        if (body.len() + data.len()) as u64 > most {
            let message = format!("the answer has more than {most} bytes");
            return Err(HostError::new(ErrorCode::TooLarge, message).detail("limit", "httpBodyBytes"));
        }
        body.extend_from_slice(&data);
    }
    Ok(FetchResponse {
        status,
        headers,
        body,
    })
}

fn head(
    request: FetchRequest,
    plain_proxy: Option<&Proxy>,
) -> Result<Request<Empty<bytes::Bytes>>, HostError> {
    let invalid = |error: http::Error| HostError::new(ErrorCode::Invalid, error.to_string());
    let url = &request.url;
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let authority = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let target: Uri = match plain_proxy {
        Some(_) => format!("http://{authority}{path}"),
        None => path,
    }
    .parse()
    .map_err(|error: http::uri::InvalidUri| invalid(error.into()))?;
    let mut built = Request::builder()
        .method(if request.head { Method::HEAD } else { Method::GET })
        .uri(target)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, concat!("numo/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close");
    if let Some(value) = plain_proxy.and_then(Proxy::authorization) {
        let mut value = HeaderValue::from_str(&value).map_err(|error| invalid(error.into()))?;
        value.set_sensitive(true);
        built = built.header(header::PROXY_AUTHORIZATION, value);
    }
    for (name, value) in request.headers {
        built = built.header(name, value);
    }
    built.body(Empty::new()).map_err(invalid)
}

fn unavailable(message: String) -> HostError {
    HostError::new(ErrorCode::Unavailable, message)
}

/// hyper's own text leaves out what happened.
fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |source| source.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let three = [
            chunk[0],
            chunk.get(1).copied().unwrap_or(0),
            chunk.get(2).copied().unwrap_or(0),
        ];
        let number = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let index = (number >> (18 - 6 * place)) & 63;
            text.push(if place <= chunk.len() {
                char::from(LETTERS[index as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_everyone_elses() {
        let check = |bytes: &[u8], expect: &str| assert_eq!(base64(bytes), expect);
        check(b"", "");
        check(b"f", "Zg==");
        check(b"fo", "Zm8=");
        check(b"foo", "Zm9v");
        check(b"user:p\xff", "dXNlcjpw/w==");
    }

    #[test]
    fn exceptions_from_the_proxy_are_names_and_what_is_below() {
        let except = ["cluster.local", ".svc", "*.corp.example"]
            .map(str::to_owned)
            .to_vec();
        let proxy = Proxy {
            url: "http://u%40x:p@proxy:3128".parse().unwrap(),
            except,
        };
        let check =
            |url: &str, expect: bool| assert_eq!(proxy.serves(&url.parse().unwrap()), expect, "{url}");
        check("https://example.com/", true);
        check("https://a.cluster.local/", false);
        check("https://notcluster.local/", true);
        check("https://thanos.monitoring.svc/", false);
        check("https://a.corp.example/", false);
        check("https://10.0.0.1/", false);
        assert_eq!(
            proxy.authorization().unwrap(),
            format!("Basic {}", base64(b"u@x:p"))
        );
    }
}
