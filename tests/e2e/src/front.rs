//! The way from numo to a cloud on loopback: a proxy that ends the TLS of the cloud's hosts with an authority of its own, gives tokens to whom
//! the cloud knows, writes every request down, and can cut the line at one of them. numo knows nothing of it but what an administrator sets: the
//! proxy, and the authority.

use crate::Cut;
use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use numo_clouds::{Loopback, aws::Parameters};
use serde_json::Value;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, rustls};

/// The most that a request may hold (bytes).
const REQUEST_MAX_BYTES: usize = 1 << 20;
/// The most that the head of a request to the proxy may hold (bytes).
const HEAD_MAX_BYTES: usize = 8 << 10;
/// Headers that are about one connection only, or that whoever sends the request sets.
const OF_CONNECTION: [header::HeaderName; 3] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

/// A request to the cloud.
#[derive(Clone, Debug)]
pub struct Called {
    /// Method and path; the path ends with the action where a form names one.
    pub what: String,
    /// What it carried.
    pub body: String,
    /// When it came.
    pub at: Instant,
    /// The status of its answer; none while it has none, or where nobody waited for it.
    pub status: Option<u16>,
    /// The answer.
    pub answer: String,
}

/// What a form is answered: the status, and the body.
pub type Answer = dyn Fn(&Parameters) -> (u16, Value) + Send + Sync;

/// Who gives tokens, at a host of its own.
pub struct Tokens {
    /// The host.
    pub host: &'static str,
    /// What it answers to a form.
    pub answer: Box<Answer>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// A front that serves until it is dropped.
pub struct Front {
    line: Arc<Line>,
    proxy: SocketAddr,
    authority: String,
    tasks: [JoinHandle<()>; 2],
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front")
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

impl Front {
    /// Stands before the cloud that listens there, as its hosts, and before who gives tokens.
    pub async fn open(cloud: SocketAddr, hosts: &[&str], tokens: Option<Tokens>) -> Result<Self> {
        let mut names = hosts.to_vec();
        names.extend(tokens.as_ref().map(|tokens| tokens.host));
        let line = Arc::new(Line {
            cloud: Loopback::to(cloud),
            tokens,
            called: Mutex::default(),
            cut: Mutex::default(),
            reached: Notify::new(),
        });
        let gate = TcpListener::bind(("127.0.0.1", 0)).await?;
        let to_gate = gate.local_addr()?;
        let router = Router::new().fallback(pass).with_state(Arc::clone(&line));
        let served = tokio::spawn(async move {
            if let Err(error) = axum::serve(gate, router).await {
                tracing::warn!(%error, "the front ended");
            }
        });
        let (acceptor, authority) = acceptor(&names)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let proxy = listener.local_addr()?;
        let hosts: Vec<String> = names.iter().map(|name| format!("{name}:443")).collect();
        let tunnels = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, hosts) = (acceptor.clone(), hosts.clone());
                tokio::spawn(async move {
                    if let Err(error) = tunnel(stream, &acceptor, &hosts, to_gate).await {
                        tracing::debug!(%error, "a tunnel ended");
                    }
                });
            }
        });
        Ok(Self {
            line,
            proxy,
            authority,
            tasks: [served, tunnels],
        })
    }

    /// The variable by which numo finds it.
    pub fn environment(&self) -> [(&'static str, String); 1] {
        [("HTTPS_PROXY", format!("http://{}", self.proxy))]
    }

    /// The certificate of the authority that vouches for it.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Every request to the cloud so far, in the order in which they came.
    pub fn called(&self) -> Vec<Called> {
        self.line.called().clone()
    }

    /// Cuts the line at a request, counted from 1 over all that ever came; or mends it.
    pub fn cut(&self, cut: Option<Cut>) {
        *self.line.cut.lock().unwrap_or_else(PoisonError::into_inner) = cut;
    }

    /// Returns once the line is cut; never, if it is not to be cut.
    pub async fn is_cut(&self) {
        self.line.reached.notified().await;
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A server's side of TLS with a certificate for these hosts, and the authority that has signed it.
fn acceptor(hosts: &[&str]) -> Result<(TlsAcceptor, String)> {
    let mut authority = rcgen::CertificateParams::default();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate()?)?;
    let pair = rcgen::KeyPair::generate()?;
    let names: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let certificate = rcgen::CertificateParams::new(names)?.signed_by(&pair, &issuer)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(pair.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.map_err(anyhow::Error::msg)?)?;
    Ok((TlsAcceptor::from(Arc::new(config)), issuer.pem()))
}

/// One connection to the proxy: the cloud's hosts lead to the gate, everything else (the API server) to where it wants.
async fn tunnel(
    mut stream: TcpStream,
    acceptor: &TlsAcceptor,
    hosts: &[String],
    gate: SocketAddr,
) -> Result<()> {
    let head = head(&mut stream).await?;
    let target = head.split_whitespace().nth(1).context("a target")?.to_owned();
    stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
    if hosts.contains(&target) {
        let mut inner = acceptor.accept(stream).await?;
        let mut to = TcpStream::connect(gate).await?;
        copy_bidirectional(&mut inner, &mut to).await?;
    } else {
        let mut to = TcpStream::connect(&target).await?;
        copy_bidirectional(&mut stream, &mut to).await?;
    }
    Ok(())
}

/// The head of a request: its lines.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_MAX_BYTES {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// What the connections share.
struct Line {
    cloud: Loopback,
    tokens: Option<Tokens>,
    called: Mutex<Vec<Called>>,
    cut: Mutex<Option<Cut>>,
    reached: Notify,
}

/// What becomes of a request.
enum Fate {
    Passes,
    /// It is the one after which the line is cut.
    IsLast,
    /// It is the one before which the line is cut, or comes later.
    IsLost,
}

impl Line {
    fn called(&self) -> MutexGuard<'_, Vec<Called>> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request and says what becomes of it, and which number it has (from 0).
    fn judge(&self, parts: &Parts, body: &[u8]) -> (usize, Fate) {
        let form = Parameters::read("", body);
        let action = form.get("Action").unwrap_or_default();
        let mut called = self.called();
        called.push(Called {
            what: format!("{} {}{action}", parts.method, parts.uri.path()),
            body: String::from_utf8_lossy(body).into_owned(),
            at: Instant::now(),
            status: None,
            answer: String::new(),
        });
        let number = called.len();
        let cut = *self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        let fate = match cut {
            Some(cut) if cut.number() == number => {
                if matches!(cut, Cut::After(_)) {
                    Fate::IsLast
                } else {
                    self.reached.notify_one();
                    Fate::IsLost
                }
            }
            Some(cut) if cut.number() < number => Fate::IsLost,
            _ => Fate::Passes,
        };
        (number - 1, fate)
    }

    /// Asks the cloud at a host: the status, the headers and the body of its answer.
    async fn ask(&self, host: &str, parts: Parts, body: &Bytes) -> Result<(StatusCode, HeaderMap, Vec<u8>)> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("https://{host}{path}");
        let (cloud, method) = (self.cloud.clone(), parts.method.to_string());
        let (mut headers, body) = (parts.headers, body.to_vec());
        without_connection(&mut headers);
        let sent = tokio::task::spawn_blocking(move || {
            let headers = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes()));
            cloud.send((method.as_str(), url.as_str()), headers, body)
        });
        let answer = sent.await?.map_err(anyhow::Error::msg)?;
        let mut headers = HeaderMap::new();
        for (name, value) in answer.headers {
            headers.append(header::HeaderName::try_from(name)?, value.try_into()?);
        }
        without_connection(&mut headers);
        Ok((StatusCode::from_u16(answer.status)?, headers, answer.body))
    }

    /// Passes a request on, unless the line is cut.
    async fn pass(&self, host: &str, parts: Parts, body: &Bytes) -> Response {
        let (number, fate) = self.judge(&parts, body);
        if let Fate::IsLost = fate {
            // Ends with the connection, and that with numo.
            return std::future::pending().await;
        }
        let (status, headers, answer) = match self.ask(host, parts, body).await {
            Ok(answered) => answered,
            Err(error) => (
                StatusCode::BAD_GATEWAY,
                HeaderMap::new(),
                error.to_string().into_bytes(),
            ),
        };
        if let Some(called) = self.called().get_mut(number) {
            called.status = Some(status.as_u16());
            called.answer = String::from_utf8_lossy(&answer).into_owned();
        }
        if let Fate::IsLast = fate {
            self.reached.notify_one();
            return std::future::pending().await;
        }
        (status, headers, Body::from(answer)).into_response()
    }
}

fn without_connection(headers: &mut HeaderMap) {
    for name in OF_CONNECTION {
        headers.remove(name);
    }
}

async fn pass(State(line): State<Arc<Line>>, request: Request) -> Response {
    let failed = |error: axum::Error| (StatusCode::BAD_GATEWAY, error.to_string()).into_response();
    let (parts, body) = request.into_parts();
    let body = match to_bytes(body, REQUEST_MAX_BYTES).await {
        Ok(body) => body,
        Err(error) => return failed(error),
    };
    let host = parts.headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.trim_end_matches(":443").to_owned();
    if let Some(tokens) = line.tokens.as_ref().filter(|tokens| tokens.host == host) {
        let (status, given) = (tokens.answer)(&Parameters::read("", &body));
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        return (status, axum::Json(given)).into_response();
    }
    line.pass(&host, parts, &body).await
}
