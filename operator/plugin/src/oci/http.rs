//! One HTTP request to a registry over one fresh connection, its answer read frame by frame. It follows no redirect,
//! adds no credentials, retries nothing, and connects to no link-local or metadata address whatever a name leads to, nor
//! to one of the ranges that are closed to it.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::Url;

use super::Proxies;
use crate::{
    address::{AddressRange, refusal},
    text::clean,
};

/// Bytes of the head of an answer.
const HEAD_BYTES: usize = 64 * 1024;
/// Headers of an answer.
const HEADERS: usize = 100;
/// Addresses of one name that are tried.
const TRIED: usize = 4;
/// Until a connection, with TLS, stands.
const CONNECT: Duration = Duration::from_secs(10);

/// Why there is no answer, by what follows from it.
#[derive(Debug)]
pub(super) enum Failure {
    /// May go away by itself.
    Passing(String),
    /// The other side does not speak TLS.
    NotTls(String),
    /// Asking again cannot help: an authority that is not trusted.
    Lasting(String),
    /// numo will not.
    NotAllowed(String),
}

/// Makes connections.
pub(super) struct Transport {
    tls: TlsConnector,
    proxies: Proxies,
    /// Longest silence within an answer.
    idle: Duration,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

/// The head of an answer, and its body to come. The connection ends with it.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Incoming,
    idle: Duration,
    _connection: Connection,
}

struct Connection(tokio::task::JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Whether the host itself, as written, is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Without the brackets of IPv6.
pub(super) fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_matches(['[', ']'])
}

impl Transport {
    /// Trusts the system's authorities and `authorities`.
    pub(super) fn new(
        authorities: Vec<CertificateDer<'static>>,
        proxies: Proxies,
        idle: Duration,
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
            idle,
        })
    }

    /// Sends and waits for the head of the answer. Without a proxy, it does not go into the ranges that are `closed`.
    pub(super) async fn send(&self, ask: Ask, closed: &[AddressRange]) -> Result<Answer, Failure> {
        let secure = ask.url.scheme() == "https";
        let port = ask.url.port_or_known_default().unwrap_or_default();
        let proxy = self.proxies.for_host(host(&ask.url), port, secure);
        let stream = timeout(CONNECT, self.connect(&ask.url, port, secure, proxy, closed))
            .await
            .unwrap_or_else(|_| {
                Err(Failure::Passing(format!(
                    "no connection within {} s",
                    CONNECT.as_secs()
                )))
            })?;
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        let connection = Connection(tokio::spawn(async move {
            // What goes wrong here also fails the request.
            let _ = connection.await;
        }));
        let request = head(ask, proxy.filter(|_| !secure))
            .map_err(|error| Failure::NotAllowed(format!("the request cannot be written: {error}")))?;
        let response = timeout(self.idle, sender.send_request(request))
            .await
            .map_err(|_| Failure::Passing(format!("no answer within {} ms", self.idle.as_millis())))?
            .map_err(|error| broken(&error))?;
        let (parts, body) = response.into_parts();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
            idle: self.idle,
            _connection: connection,
        })
    }

    async fn connect(
        &self,
        url: &Url,
        port: u16,
        secure: bool,
        proxy: Option<&Url>,
        closed: &[AddressRange],
    ) -> Result<Box<dyn Stream>, Failure> {
        let name = host(url);
        let stream = match proxy {
            Some(proxy) => through(proxy, name, port, secure).await?,
            None => direct(name, port, closed).await?,
        };
        if !secure {
            return Ok(Box::new(stream));
        }
        let server = ServerName::try_from(name.to_owned())
            .map_err(|_| Failure::NotAllowed(format!("{} is no server name", clean(name, 253))))?;
        match self.tls.connect(server, stream).await {
            Ok(tls) => Ok(Box::new(tls)),
            Err(error) => Err(tls_failure(&error)),
        }
    }
}

fn tls_failure(error: &io::Error) -> Failure {
    let told = format!("TLS: {}", clean(&error.to_string(), 256));
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(rustls::Error::InvalidMessage(_)) => Failure::NotTls(told),
        Some(_) => Failure::Lasting(told),
        None => Failure::Passing(told),
    }
}

/// Resolves, checks, and connects to an address that was checked.
async fn direct(name: &str, port: u16, closed: &[AddressRange]) -> Result<TcpStream, Failure> {
    let resolved = match name.parse::<IpAddr>() {
        Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
        Err(_) => tokio::net::lookup_host((name, port)).await.map(Iterator::collect),
    };
    let mut failed = Failure::Passing(format!("{} has no address", clean(name, 253)));
    for address in open(name, resolved, closed)? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Failure::Passing(format!("no connection to {address}: {error}")),
        }
    }
    Err(failed)
}

/// The addresses that may be connected to, of those that a name leads to.
///
/// References are written by people of one namespace; what they name must not make numo talk to its own machine's
/// metadata, or tell whether a Service of another namespace exists: where ranges are closed, a name that is not found and
/// one that leads only there are the same answer.
fn open(
    name: &str,
    resolved: io::Result<Vec<SocketAddr>>,
    closed: &[AddressRange],
) -> Result<Vec<SocketAddr>, Failure> {
    let shown = clean(name, 253);
    let hidden = || {
        Failure::Passing(format!(
            "{shown} leads to no address outside the cluster; one inside is for an administrator to name (--registries)"
        ))
    };
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(error) if closed.is_empty() => {
            return Err(Failure::Passing(format!(
                "the name {shown} is not found: {error}"
            )));
        }
        Err(_) => return Err(hidden()),
    };
    let mut refused = None;
    let mut open = Vec::new();
    for address in resolved.into_iter().take(TRIED) {
        match refusal(address.ip(), closed) {
            // Loopback is reached where the reference itself says so.
            Some(why) if !is_loopback(name) => refused = Some(why),
            _ => open.push(address),
        }
    }
    match refused.filter(|_| open.is_empty()) {
        None if !open.is_empty() || closed.is_empty() => Ok(open),
        // An address that was written as one tells nothing; what a name leads to does.
        Some(why) if closed.is_empty() || name.parse::<IpAddr>().is_ok() => {
            Err(Failure::NotAllowed(format!("{shown} leads to {why}")))
        }
        _ => Err(hidden()),
    }
}

/// A tunnel for TLS, or just the proxy for plain HTTP.
async fn through(proxy: &Url, name: &str, port: u16, tunnel: bool) -> Result<TcpStream, Failure> {
    let told = |what: &str| Failure::Passing(format!("the proxy {}: {what}", host(proxy)));
    let at = (host(proxy), proxy.port_or_known_default().unwrap_or(3128));
    let mut stream = TcpStream::connect(at)
        .await
        .map_err(|error| told(&error.to_string()))?;
    if tunnel {
        let name = if name.contains(':') {
            format!("[{name}]")
        } else {
            name.to_owned()
        };
        let authorization =
            authorization(proxy).map_or(String::new(), |value| format!("proxy-authorization: {value}\r\n"));
        let ask = format!("CONNECT {name}:{port} HTTP/1.1\r\nhost: {name}:{port}\r\n{authorization}\r\n");
        stream
            .write_all(ask.as_bytes())
            .await
            .map_err(|error| told(&error.to_string()))?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() > 8 * 1024 {
                return Err(told("its answer does not come to an end"));
            }
            head.push(stream.read_u8().await.map_err(|error| told(&error.to_string()))?);
        }
        let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        if status != b"200" {
            return Err(told(&format!(
                "it answers {}",
                clean(&String::from_utf8_lossy(status), 16)
            )));
        }
    }
    Ok(stream)
}

fn authorization(proxy: &Url) -> Option<String> {
    let user = Some(proxy.username()).filter(|user| !user.is_empty())?;
    let decoded = |text: &str| {
        url::form_urlencoded::parse(format!("a={}", text.replace('+', "%2B")).as_bytes())
            .next()
            .map(|pair| pair.1.into_owned())
    };
    Some(basic(
        &decoded(user)?,
        &decoded(proxy.password().unwrap_or_default())?,
    ))
}

/// The value of an authorisation header.
pub(super) fn basic(username: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
}

fn head(ask: Ask, plain_proxy: Option<&Url>) -> Result<Request<Full<Bytes>>, http::Error> {
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
        built = built.header(header::PROXY_AUTHORIZATION, value);
    }
    for (name, value) in ask.headers {
        built = built.header(name, value);
    }
    built.body(Full::new(ask.body))
}

fn broken(error: &hyper::Error) -> Failure {
    let mut told = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        told = format!("{told}: {inner}");
        source = inner.source();
    }
    Failure::Passing(format!("the connection broke: {}", clean(&told, 256)))
}

impl Answer {
    /// The next bytes of the body, nothing at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = timeout(self.idle, self.body.frame()).await.map_err(|_| {
                Failure::Passing(format!("the answer stood still for {} ms", self.idle.as_millis()))
            })?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(broken(&error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// What it says its length is.
    pub(super) fn declared(&self) -> Option<u64> {
        self.text(header::CONTENT_LENGTH.as_str())?.parse().ok()
    }

    /// A header, if it is text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The first bytes of an answer that is an error, as one line for people.
    pub(super) async fn words(mut self) -> String {
        let mut bytes = Vec::new();
        while bytes.len() < 1024 {
            match self.next().await {
                Ok(Some(more)) => bytes.extend_from_slice(&more),
                _ => break,
            }
        }
        bytes.truncate(1024);
        let text = String::from_utf8_lossy(&bytes);
        let said = serde_json::from_slice::<serde_json::Value>(&bytes)
            .ok()
            .and_then(|value| {
                let first = &value["errors"][0];
                Some(format!(
                    "{} {}",
                    first["code"].as_str()?,
                    first["message"].as_str().unwrap_or_default()
                ))
            });
        let status = self.status.as_u16();
        let said = clean(said.as_deref().unwrap_or(&text).trim(), 160);
        if said.is_empty() {
            format!("answer {status}")
        } else {
            format!("answer {status}: {said}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_a_registry_learns_nothing_of_the_cluster() {
        let cluster: [AddressRange; 1] = ["10.0.0.0/8".parse().unwrap()];
        let ask = |name: &str, addresses: Option<&[&str]>, closed: &[AddressRange]| {
            let resolved = addresses.map(|all| {
                let all = all
                    .iter()
                    .map(|address| SocketAddr::new(address.parse().unwrap(), 443));
                all.collect::<Vec<_>>()
            });
            let resolved = resolved.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
            match open(name, resolved, closed) {
                Ok(open) => open
                    .iter()
                    .map(|at| at.ip().to_string())
                    .collect::<Vec<_>>()
                    .join(" "),
                Err(Failure::Passing(why)) => format!("passing: {why}"),
                Err(Failure::NotAllowed(why)) => format!("not allowed: {why}"),
                Err(_) => unreachable!(),
            }
        };
        // A Service that exists, one that does not, one without an address: the same words.
        let words = ask("shop.other.svc", Some(&["10.1.2.3"]), &cluster);
        assert!(
            words.starts_with("passing: shop.other.svc leads to no address outside"),
            "{words}"
        );
        assert_eq!(ask("shop.other.svc", None, &cluster), words);
        assert_eq!(ask("shop.other.svc", Some(&[]), &cluster), words);
        assert_eq!(ask("shop.other.svc", Some(&["169.254.169.254"]), &cluster), words);
        assert_eq!(
            ask("10.1.2.3", Some(&["10.1.2.3"]), &cluster),
            "not allowed: 10.1.2.3 leads to an address of the cluster"
        );
        // Of several addresses only those outside; named by an administrator, all but the machine's own.
        assert_eq!(
            ask("r.example", Some(&["10.1.2.3", "192.0.2.1"]), &cluster),
            "192.0.2.1"
        );
        assert_eq!(ask("shop.other.svc", Some(&["10.1.2.3"]), &[]), "10.1.2.3");
        assert!(
            ask("r.example", Some(&["169.254.169.254"]), &[])
                .starts_with("not allowed: r.example leads to a link-local")
        );
        assert!(ask("r.example", None, &[]).starts_with("passing: the name r.example is not found"));
        // Loopback by its own name, and by no other.
        assert_eq!(ask("localhost", Some(&["127.0.0.1"]), &cluster), "127.0.0.1");
        assert!(ask("r.example", Some(&["127.0.0.1"]), &[]).starts_with("not allowed"));
    }
}
