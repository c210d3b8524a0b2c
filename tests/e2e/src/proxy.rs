//! A proxy on loopback between numo and the API server: it counts what numo writes, and can cut the line at one write.
//!
//! numo knows nothing of it but the address in its kubeconfig. It passes on every byte it is given, under numo's own token,
//! so that RBAC and the audit log see numo.

use crate::{NAMESPACE, has_leases};
use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

/// The most that a request may hold (bytes): more than the API server takes.
const REQUEST_MAX_BYTES: usize = 16 << 20;

/// Where the line between numo and the API server is cut. Writes are counted from 1; once it is cut, no write passes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// This write does not reach the API server.
    Before(usize),
    /// This write reaches the API server, and the answer does not reach numo.
    After(usize),
}

impl Cut {
    /// The number of the write.
    pub const fn number(self) -> usize {
        match self {
            Self::Before(number) | Self::After(number) => number,
        }
    }
}

/// Requests that take longer than the API server needs for them.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// Their method.
    pub method: &'static str,
    /// What their path has in it.
    pub path: &'static str,
    /// How much longer they take.
    pub longer: Duration,
}

/// Requests whose answers numo does not hear.
#[derive(Clone, Copy, Debug)]
pub struct Withheld {
    /// Their method.
    pub method: &'static str,
    /// What their path has in it.
    pub path: &'static str,
    /// Whether they reach the API server all the same.
    pub is_stored: bool,
}

/// A proxy that serves until it is dropped.
pub struct Proxy {
    line: Arc<Line>,
    server: JoinHandle<()>,
    folder: TempDir,
}

impl Proxy {
    /// Stands before the API server of a kubeconfig that `numo_cluster` has written, and speaks to it with that kubeconfig's
    /// token.
    pub async fn open(kubeconfig: &Path, cut: Option<Cut>) -> Result<Self> {
        let known = Kubeconfig::read_from(kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(known, &KubeConfigOptions::default()).await?;
        // Whether to try again is numo's decision.
        config.default_retry = false;
        let line = Arc::new(Line {
            server: Client::try_from(config)?,
            cut,
            slow: Mutex::default(),
            withheld: Mutex::default(),
            writes: Mutex::default(),
            reached: Notify::new(),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let text = std::fs::read_to_string(kubeconfig)?;
        let mut through: Value = serde_json::from_str(&text).context("a kubeconfig in JSON")?;
        through["clusters"][0]["cluster"]["server"] = json!(format!("http://{address}"));
        let folder = tempfile::Builder::new().prefix("numo-proxy-").tempdir()?;
        std::fs::write(folder.path().join("kubeconfig"), through.to_string())?;
        let router = Router::new().fallback(pass).with_state(Arc::clone(&line));
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the proxy ended");
            }
        });
        Ok(Self { line, server, folder })
    }

    /// The kubeconfig that leads here.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// What numo wrote so far, in the order in which it came: method and path.
    pub fn writes(&self) -> Vec<String> {
        self.line.writes().clone()
    }

    /// From now on the API server takes longer for such requests; for none if there is none.
    pub fn slow(&self, slow: Option<Slow>) {
        *self.line.slow.lock().unwrap_or_else(PoisonError::into_inner) = slow;
    }

    /// From now on such answers are withheld; none if there is none. How many are is counted anew.
    pub fn withhold(&self, what: Option<Withheld>) {
        *self.line.withheld.lock().unwrap_or_else(PoisonError::into_inner) = (what, 0);
    }

    /// How many answers were withheld.
    pub fn withheld(&self) -> usize {
        self.line
            .withheld
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
    }

    /// Returns once the line is cut, the first time it is asked for; never, if it is not to be cut.
    pub async fn is_cut(&self) {
        self.line.reached.notified().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// What the connections share.
struct Line {
    server: Client,
    cut: Option<Cut>,
    slow: Mutex<Option<Slow>>,
    /// What is withheld, and how many were.
    withheld: Mutex<(Option<Withheld>, usize)>,
    writes: Mutex<Vec<String>>,
    reached: Notify,
}

/// What becomes of a request.
enum Fate {
    Passes,
    /// It is the one after which the line is cut.
    IsLast,
    /// It is the one before which the line is cut.
    IsLost,
    /// It comes later.
    IsLate,
}

impl Line {
    /// What has the answer of a request withheld.
    fn withholds(&self, request: &axum::http::Request<kube::client::Body>) -> Option<Withheld> {
        let withheld = self.withheld.lock().unwrap_or_else(PoisonError::into_inner).0;
        withheld.filter(|one| request.method() == one.method && request.uri().path().contains(one.path))
    }

    fn writes(&self) -> MutexGuard<'_, Vec<String>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request and says what becomes of it.
    fn judge(&self, method: &Method, uri: &Uri, body: &[u8]) -> Fate {
        if method.is_safe() {
            return Fate::Passes;
        }
        let mut writes = self.writes();
        if self.cut.is_some_and(|cut| writes.len() >= cut.number()) {
            return Fate::IsLate;
        }
        if !is_counted(uri, body) {
            return Fate::Passes;
        }
        writes.push(format!("{method} {}", uri.path()));
        match self.cut {
            Some(cut) if cut.number() == writes.len() => match cut {
                Cut::Before(_) => Fate::IsLost,
                Cut::After(_) => Fate::IsLast,
            },
            _ => Fate::Passes,
        }
    }

    /// Asks the API server.
    async fn ask(&self, mut request: axum::http::Request<kube::client::Body>) -> Response {
        // They are about the connection to us, or the client's to set.
        let headers = request.headers_mut();
        headers.remove(header::HOST);
        headers.remove(header::AUTHORIZATION);
        headers.remove(header::CONTENT_LENGTH);
        without_hops(headers);
        match self.server.send(request).await {
            Ok(answer) => {
                let (parts, body) = answer.into_parts();
                let mut passed = Response::new(Body::new(body));
                *passed.status_mut() = parts.status;
                *passed.headers_mut() = parts.headers;
                without_hops(passed.headers_mut());
                passed
            }
            Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
        }
    }
}

/// Removes what is about one connection only.
fn without_hops(headers: &mut HeaderMap) {
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
}

/// Whether a request that is not safe changes what the cluster decides on. Not counted are the leader lease, which time
/// writes, what the API server only judges (reviews, dry runs), and events, which numo never reads and never waits for: what
/// is there before and after an event is there after the write before it, too. Where node leases are not installed, numo asks
/// for them again and again in vain.
pub fn is_counted(uri: &Uri, body: &[u8]) -> bool {
    let path = uri.path();
    let has = |part: &str| path.contains(part);
    let dry = uri.query().is_some_and(|query| query.contains("dryRun="))
        || (path.ends_with("/eviction") && has_text(body, r#""dryRun":["All"]"#));
    let in_vain = !has_leases()
        && has(&format!(
            "/namespaces/{}/leases",
            numo_api::marks::LEASE_NAMESPACE
        ));
    !(dry
        || in_vain
        || has(&format!("/namespaces/{NAMESPACE}/leases"))
        || has("/apis/authorization.k8s.io/")
        || has("/apis/authentication.k8s.io/")
        || has("/events/")
        || path.ends_with("/events"))
}

fn has_text(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn pass(State(line): State<Arc<Line>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = match to_bytes(body, REQUEST_MAX_BYTES).await {
        Ok(body) => body,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let fate = line.judge(&parts.method, &parts.uri, &body);
    let mut forward = axum::http::Request::new(kube::client::Body::from(body));
    *forward.method_mut() = parts.method;
    *forward.uri_mut() = parts.uri;
    *forward.headers_mut() = parts.headers;
    let slow = *line.slow.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(slow) = slow
        && forward.method() == slow.method
        && forward.uri().path().contains(slow.path)
    {
        tokio::time::sleep(slow.longer).await;
    }
    if let Some(withheld) = line.withholds(&forward) {
        if withheld.is_stored {
            drop(line.ask(forward).await);
        }
        line.withheld.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
        return std::future::pending().await;
    }
    match fate {
        Fate::Passes => return line.ask(forward).await,
        Fate::IsLast => {
            // The API server answers when it has stored the write.
            drop(line.ask(forward).await);
            line.reached.notify_one();
        }
        Fate::IsLost => line.reached.notify_one(),
        Fate::IsLate => {}
    }
    // Ends with the connection, and that with numo.
    std::future::pending().await
}
