//! The kubelets' HTTPS server: the API server asks it for the logs of pods.
//!
//! One port serves all nodes of the world. May not run or change anything.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Containers;

/// How long a client may take for its handshake: others wait meanwhile.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// A bound, not yet serving server.
pub(crate) struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    /// Where the API server finds it.
    pub port: u16,
}

impl Server {
    pub(crate) async fn bind() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .context("binding the kubelets' port")?;
        let port = listener.local_addr()?.port();
        Ok(Self {
            listener,
            acceptor: acceptor()?,
            port,
        })
    }

    pub(crate) async fn serve(self, containers: Arc<Containers>) {
        let router = Router::new().fallback(logs).with_state(containers);
        let listener = Tls {
            listener: self.listener,
            acceptor: self.acceptor,
        };
        if let Err(error) = axum::serve(listener, router).await {
            tracing::warn!(%error, "the kubelets' server ended");
        }
    }
}

/// The API server does not check a kubelet's certificate unless it is told to.
fn acceptor() -> Result<TlsAcceptor> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// `/containerLogs/{namespace}/{pod}/{container}`
async fn logs(State(containers): State<Arc<Containers>>, uri: Uri) -> (StatusCode, Vec<u8>) {
    let Some(path) = uri.path().strip_prefix("/containerLogs/") else {
        return (StatusCode::NOT_FOUND, b"only logs are served".to_vec());
    };
    let Some(log) = containers.known_log(path) else {
        return (StatusCode::NOT_FOUND, format!("no log of {path}").into_bytes());
    };
    let query = uri.query().unwrap_or_default();
    let number = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.parse::<usize>().ok())
    };
    (
        StatusCode::OK,
        cut(log.text(), number("tailLines"), number("limitBytes")),
    )
}

/// The last lines, and of them the first bytes, as a kubelet cuts.
fn cut(text: Vec<u8>, tail_lines: Option<usize>, limit_bytes: Option<usize>) -> Vec<u8> {
    let mut text = text;
    if let Some(lines) = tail_lines {
        let body = text.strip_suffix(b"\n").unwrap_or(&text);
        let ends = body
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, b)| **b == b'\n')
            .map(|(i, _)| i + 1);
        let start = match lines {
            0 => text.len(),
            n => ends.take(n).nth(n - 1).unwrap_or(0),
        };
        text.drain(..start);
    }
    if let Some(limit) = limit_bytes {
        text.truncate(limit);
    }
    text
}

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else {
                // Out of file descriptors, most likely: they come back.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            match tokio::time::timeout(HANDSHAKE, self.acceptor.accept(stream)).await {
                Ok(Ok(stream)) => return (stream, address),
                other => tracing::debug!(?other, "no TLS"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn logs_are_cut_as_asked() {
        let check = |tail, limit, want: &[u8]| assert_eq!(cut(b"a\nb\nc\n".to_vec(), tail, limit), want);
        check(None, None, b"a\nb\nc\n");
        check(Some(2), None, b"b\nc\n");
        check(Some(9), None, b"a\nb\nc\n");
        check(Some(0), None, b"");
        check(Some(2), Some(1), b"b");
    }
}
