//! One request over one fresh connection: resolve once, judge what was resolved, connect to exactly that, or let the proxy
//! resolve. An address that a URL itself names is judged whoever connects. It follows no redirect, keeps no connection,
//! cookie or cache, retries and decompresses nothing. What may be connected to is a [`Guard`]'s word.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use url::Url;

use super::proxy::{Proxies, authorization};
use crate::text::clean;

/// Bytes of the head of an answer.
const HEAD_BYTES: usize = 64 * 1024;
/// Headers of an answer.
const HEADERS: usize = 100;
/// Addresses of one name that are judged, and of those that may be connected to the ones that are tried.
const JUDGED: usize = 64;
const TRIED: usize = 4;
/// Bytes of the answer of a proxy to CONNECT.
const TUNNEL_BYTES: usize = 8 * 1024;

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

/// What may be connected to.
pub(crate) trait Guard: Sync {
    /// Why not to this address, if so. `host` is as the URL has it.
    fn refusal(&self, host: &str, address: IpAddr) -> Option<&'static str>;

    /// Whether who asks may know what a name leads to. Else a name that is not found and one that leads only to where it may
    /// not are the same answer.
    fn tells(&self) -> bool;
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The name has no address; the resolver's words.
    NotFound(String),
    /// It may not be connected to; why, where that may be told.
    Refused(Option<&'static str>),
    /// No address took the connection; which one was tried last, and its words.
    Unconnected(Option<SocketAddr>, String),
    /// The proxy; and its answer, if it gave one.
    Proxy(String, Option<String>),
    /// The host is no name that a certificate could have.
    NoServerName,
    /// TLS.
    Tls(io::Error),
    /// The connection broke.
    Broken(String),
    /// The request cannot be written.
    Unwritable(String),
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

/// Makes connections.
pub(crate) struct Transport {
    tls: TlsConnector,
    proxies: Proxies,
    resolver: Arc<dyn Resolve>,
}

/// A connection on which one request may be sent.
pub(crate) struct Connected {
    sender: SendRequest<Full<Bytes>>,
    task: Task,
    /// The proxy, where it is told the whole URL.
    plain_proxy: Option<Url>,
}

/// The head of an answer, and its body to come. The connection ends with it.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    _task: Task,
}

/// Drives a connection as long as somebody holds this.
struct Task(tokio::task::JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The host of a URL, without the brackets of IPv6.
pub(crate) fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_matches(['[', ']'])
}

impl Transport {
    /// Trusts the system's authorities and `authorities`.
    ///
    /// Errors: there are no authorities at all.
    pub(crate) fn new(
        authorities: Vec<CertificateDer<'static>>,
        proxies: Proxies,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            rustls_platform_verifier::Verifier::new_with_extra_roots(authorities, provider.clone())?;
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            proxies,
            resolver,
        })
    }

    /// Trusts these authorities alone, and shows a certificate to whoever asks for one. No proxy stands between.
    ///
    /// Errors: an authority is unfit, or the key is not the certificate's.
    pub(crate) fn with_certificate(
        authorities: Vec<CertificateDer<'static>>,
        (chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    ) -> Result<Self, rustls::Error> {
        let mut trusted = RootCertStore::empty();
        for authority in authorities {
            trusted.add(authority)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted)
            .with_client_auth_cert(chain, key)?;
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            proxies: Proxies::default(),
            resolver: Arc::new(SystemResolver),
        })
    }

    /// Connects to where a URL leads, if the guard lets it.
    pub(crate) async fn connect(&self, url: &Url, guard: &dyn Guard) -> Result<Connected, Failure> {
        let (name, secure) = (host(url), url.scheme() == "https");
        let port = url.port_or_known_default().unwrap_or_default();
        // What a name leads to the proxy finds out; an address says it itself.
        if let Ok(address) = name.parse::<IpAddr>() {
            open(name, Ok(vec![SocketAddr::new(address, port)]), guard)?;
        }
        let proxy = self.proxies.for_host(name, port, secure);
        let stream: Box<dyn Stream> = match proxy {
            Some(proxy) => self.through(proxy, name, port, secure).await?,
            None => Box::new(self.direct(name, port, guard).await?),
        };
        let stream: Box<dyn Stream> = if secure {
            let server = ServerName::try_from(name.to_owned()).map_err(|_| Failure::NoServerName)?;
            Box::new(self.tls.connect(server, stream).await.map_err(Failure::Tls)?)
        } else {
            stream
        };
        let (sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        let task = Task(tokio::spawn(async move {
            // What goes wrong here also fails the request.
            let _ = connection.await;
        }));
        let plain_proxy = proxy.filter(|_| !secure).cloned();
        Ok(Connected {
            sender,
            task,
            plain_proxy,
        })
    }

    /// Resolves, judges, and connects to an address that was judged.
    async fn direct(&self, name: &str, port: u16, guard: &dyn Guard) -> Result<TcpStream, Failure> {
        let resolved = match name.parse::<IpAddr>() {
            Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
            Err(_) => self.resolver.resolve(name, port).await,
        };
        let mut failed = Failure::Unconnected(None, "it has no address".to_owned());
        for address in open(name, resolved, guard)?.into_iter().take(TRIED) {
            match TcpStream::connect(SocketAddr::new(address.ip(), port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = Failure::Unconnected(Some(address), error.to_string()),
            }
        }
        Err(failed)
    }

    /// A tunnel for TLS, or just the proxy for plain HTTP. Its own certificate is judged as that of any server.
    async fn through(
        &self,
        proxy: &Url,
        name: &str,
        port: u16,
        tunnel: bool,
    ) -> Result<Box<dyn Stream>, Failure> {
        let told = |what: String| Failure::Proxy(format!("the proxy {}: {what}", host(proxy)), None);
        let at = (host(proxy), proxy.port_or_known_default().unwrap_or(3128));
        let stream = TcpStream::connect(at).await;
        let stream = stream.map_err(|error| told(error.to_string()))?;
        let mut stream: Box<dyn Stream> = if proxy.scheme() == "https" {
            let server = ServerName::try_from(host(proxy).to_owned());
            let server = server.map_err(|_| told("that is no server name".to_owned()))?;
            let stream = self.tls.connect(server, stream).await;
            Box::new(stream.map_err(|error| told(format!("TLS: {error}")))?)
        } else {
            Box::new(stream)
        };
        if tunnel {
            let answer = tunnelled(&mut stream, proxy, (name, port)).await;
            let status = answer.map_err(told)?;
            if status != "200" {
                let words = format!("the proxy {}: it answers {status}", host(proxy));
                return Err(Failure::Proxy(words, Some(status)));
            }
        }
        Ok(stream)
    }
}

/// The addresses that may be connected to, of those that a name leads to.
fn open(
    name: &str,
    resolved: io::Result<Vec<SocketAddr>>,
    guard: &dyn Guard,
) -> Result<Vec<SocketAddr>, Failure> {
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(error) if guard.tells() => return Err(Failure::NotFound(error.to_string())),
        Err(_) => return Err(Failure::Refused(None)),
    };
    let mut refused = None;
    let mut open = Vec::new();
    for address in resolved.into_iter().take(JUDGED) {
        match guard.refusal(name, address.ip()) {
            Some(why) => refused = refused.or(Some(why)),
            None => open.push(address),
        }
    }
    if !open.is_empty() || (refused.is_none() && guard.tells()) {
        return Ok(open);
    }
    // An address that was written as one tells nothing; what a name leads to does.
    let told = guard.tells() || name.parse::<IpAddr>().is_ok();
    Err(Failure::Refused(refused.filter(|_| told)))
}

/// Asks a proxy for a tunnel; the status of its answer.
///
/// Errors: the connection broke, or the answer has no end.
async fn tunnelled(
    stream: &mut Box<dyn Stream>,
    proxy: &Url,
    (name, port): (&str, u16),
) -> Result<String, String> {
    let lost = |error: io::Error| error.to_string();
    let name = if name.contains(':') {
        format!("[{name}]")
    } else {
        name.to_owned()
    };
    let authorization =
        authorization(proxy).map_or(String::new(), |value| format!("proxy-authorization: {value}\r\n"));
    let ask = format!("CONNECT {name}:{port} HTTP/1.1\r\nhost: {name}:{port}\r\n{authorization}\r\n");
    stream.write_all(ask.as_bytes()).await.map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > TUNNEL_BYTES {
            return Err("its answer does not come to an end".to_owned());
        }
        head.push(stream.read_u8().await.map_err(lost)?);
    }
    let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    Ok(clean(&String::from_utf8_lossy(status), 16))
}

impl Connected {
    /// Sends, and waits for the head of the answer.
    pub(crate) async fn send(mut self, ask: Ask) -> Result<Answer, Failure> {
        let request = head(ask, self.plain_proxy.as_ref())?;
        let response = self.sender.send_request(request).await;
        let (parts, body) = response.map_err(|error| broken(&error))?.into_parts();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
            _task: self.task,
        })
    }
}

impl Answer {
    /// The next bytes of the body, nothing at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

fn head(ask: Ask, plain_proxy: Option<&Url>) -> Result<Request<Full<Bytes>>, Failure> {
    let unwritable = |error: http::Error| Failure::Unwritable(error.to_string());
    let url = &ask.url;
    let authority = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let target = if plain_proxy.is_some() {
        format!("http://{authority}{path}")
    } else {
        path
    };
    let mut built = Request::builder()
        .method(ask.method)
        .uri(target)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, concat!("numo/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::CONNECTION, "close");
    if let Some(value) = plain_proxy.and_then(authorization) {
        let mut value = HeaderValue::from_str(&value).map_err(|error| unwritable(error.into()))?;
        value.set_sensitive(true);
        built = built.header(header::PROXY_AUTHORIZATION, value);
    }
    for (name, value) in ask.headers {
        built = built.header(name, value);
    }
    built.body(Full::new(ask.body)).map_err(unwritable)
}

/// hyper's own text leaves out what happened.
fn broken(error: &hyper::Error) -> Failure {
    let sources = std::iter::successors(std::error::Error::source(error), |source| source.source());
    Failure::Broken(sources.fold(error.to_string(), |text, source| format!("{text}: {source}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{self, AddressRange};

    struct Closed<'a>(&'a [AddressRange]);

    impl Guard for Closed<'_> {
        fn refusal(&self, _: &str, address: IpAddr) -> Option<&'static str> {
            address::refusal(address, self.0)
        }

        fn tells(&self) -> bool {
            self.0.is_empty()
        }
    }

    fn at(addresses: &[&str]) -> Vec<SocketAddr> {
        let all = addresses.iter().map(|address| address.parse().unwrap());
        all.map(|address| SocketAddr::new(address, 443)).collect()
    }

    #[test]
    fn of_many_addresses_those_outside_are_tried_wherever_they_stand() {
        let cluster: [AddressRange; 1] = ["10.0.0.0/8".parse().unwrap()];
        let many = [
            "10.0.0.1",
            "10.0.0.2",
            "10.0.0.3",
            "10.0.0.4",
            "10.0.0.5",
            "192.0.2.1",
        ];
        let found = open("a.example", Ok(at(&many)), &Closed(&cluster)).unwrap();
        assert_eq!(found, at(&["192.0.2.1"]));
    }

    #[test]
    fn who_may_not_know_is_told_nothing_of_a_name() {
        let cluster: [AddressRange; 1] = ["10.0.0.0/8".parse().unwrap()];
        let closed = Closed(&cluster);
        let gone = || Err(io::Error::from(io::ErrorKind::NotFound));
        for resolved in [
            gone(),
            Ok(Vec::new()),
            Ok(at(&["10.1.2.3"])),
            Ok(at(&["169.254.169.254"])),
        ] {
            let found = open("shop.other.svc", resolved, &closed);
            assert!(matches!(found, Err(Failure::Refused(None))), "{found:?}");
        }
        // An address that was written as one tells nothing.
        let written = open("10.1.2.3", Ok(at(&["10.1.2.3"])), &closed);
        assert!(
            matches!(written, Err(Failure::Refused(Some("an address of the cluster")))),
            "{written:?}"
        );
        let told = open("a.example", gone(), &Closed(&[]));
        assert!(matches!(told, Err(Failure::NotFound(_))), "{told:?}");
    }
}
