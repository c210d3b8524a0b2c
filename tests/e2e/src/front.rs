//! The way from numo to a cloud on loopback: a proxy that ends the TLS of the cloud's hosts with an authority of its own, gives tokens to a
//! service account, writes every request down, and can cut the line at one of them. numo knows nothing of it but what an administrator sets:
//! the proxy, and the authority.

use crate::Cut;
use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use numo_clouds::Loopback;
use numo_plugin_tests::google::Account;
use serde_json::json;
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
/// The host that gives tokens.
const TOKENS: &str = "oauth2.googleapis.com";
/// Headers that are about one connection only, or that whoever sends the request sets.
const OF_CONNECTION: [header::HeaderName; 4] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

/// A request to the cloud.
#[derive(Clone, Debug)]
pub struct Called {
    /// Method and path.
    pub what: String,
    /// When it came.
    pub at: Instant,
    /// The status of its answer; none while it has none, or where nobody waited for it.
    pub status: Option<u16>,
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
    /// Stands before the cloud that listens there, as its host; who gives tokens to this account is in front of it, too.
    pub async fn open(cloud: SocketAddr, host: &str, account: Account, token: &str) -> Result<Self> {
        let line = Arc::new(Line {
            cloud: Loopback::to(cloud),
            host: host.to_owned(),
            account,
            token: token.to_owned(),
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
        let (acceptor, authority) = acceptor(&[host, TOKENS])?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let proxy = listener.local_addr()?;
        let hosts = [format!("{host}:443"), format!("{TOKENS}:443")];
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
    host: String,
    account: Account,
    token: String,
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
    fn judge(&self, method: &Method, path: &str) -> (usize, Fate) {
        let mut called = self.called();
        called.push(Called {
            what: format!("{method} {path}"),
            at: Instant::now(),
            status: None,
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

    /// Asks the cloud.
    async fn ask(&self, request: Request) -> Result<Response> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, REQUEST_MAX_BYTES).await?.to_vec();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("https://{}{path}", self.host);
        let (cloud, method) = (self.cloud.clone(), parts.method.to_string());
        let mut headers = parts.headers;
        without_connection(&mut headers);
        let sent = tokio::task::spawn_blocking(move || {
            let headers = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes()));
            cloud.send((method.as_str(), url.as_str()), headers, body)
        });
        let answer = sent.await?.map_err(anyhow::Error::msg)?;
        let mut response = Response::builder().status(answer.status);
        for (name, value) in answer.headers {
            response = response.header(name, value);
        }
        let mut response = response.body(Body::from(answer.body))?;
        without_connection(response.headers_mut());
        Ok(response)
    }

    /// A token for who has signed as the account.
    async fn token(&self, request: Request) -> Result<Response> {
        let form = to_bytes(request.into_body(), REQUEST_MAX_BYTES).await?;
        let form = String::from_utf8_lossy(&form).into_owned();
        let assertion = form.split('&').find_map(|pair| pair.strip_prefix("assertion="));
        // What a JWT is made of needs no escape in a form.
        if !assertion.is_some_and(|assertion| self.account.has_signed(assertion)) {
            let refused = json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."});
            return Ok((StatusCode::BAD_REQUEST, axum::Json(refused)).into_response());
        }
        let given = json!({"access_token": self.token, "expires_in": 3599, "token_type": "Bearer"});
        Ok(axum::Json(given).into_response())
    }
}

fn without_connection(headers: &mut HeaderMap) {
    for name in OF_CONNECTION {
        headers.remove(name);
    }
}

async fn pass(State(line): State<Arc<Line>>, request: Request) -> Response {
    let failed = |error: anyhow::Error| (StatusCode::BAD_GATEWAY, error.to_string()).into_response();
    let host = request.headers().get(header::HOST);
    if host.is_some_and(|host| host.as_bytes() == TOKENS.as_bytes()) {
        return line.token(request).await.unwrap_or_else(failed);
    }
    let (number, fate) = line.judge(request.method(), request.uri().path());
    if let Fate::IsLost = fate {
        // Ends with the connection, and that with numo.
        return std::future::pending().await;
    }
    let answer = line.ask(request).await.unwrap_or_else(failed);
    if let Some(called) = line.called().get_mut(number) {
        called.status = Some(answer.status().as_u16());
    }
    if let Fate::IsLast = fate {
        line.reached.notify_one();
        return std::future::pending().await;
    }
    answer
}
