//! A small HTTP sink on loopback, for tests: it keeps what it is sent, and answers as it is told. And who reaches it.

use super::sink::Reach;
use crate::shell::{client::Connection, clock::ServerClock, requests::Requests};
use kube::Client;
use numo_plugin::oci::Proxies;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

/// numo's namespace.
pub const NAMESPACE: &str = "numo-system";

/// How a sink is reached, where this client has the Secrets.
pub fn reach(client: Client) -> Reach {
    Reach {
        connection: Connection {
            read: client.clone(),
            write: client,
            clock: ServerClock::default(),
            requests: Requests::default(),
        },
        namespace: NAMESPACE.to_owned(),
        proxies: Proxies::default(),
    }
}

/// What the sink does with one request.
#[derive(Clone, Debug)]
pub enum Act {
    /// It answers so, with these lines in the head.
    Answer(u16, String),
    /// It answers 200 with this body.
    Body(String),
    /// It answers so, and its body has no end.
    Flood(u16),
    /// It says nothing.
    Hang,
    /// It ends the connection.
    Break,
}

/// The head and the body of a request.
type Request = (String, String);

/// A sink. Without an act left it answers 204.
pub struct Double {
    at: String,
    requests: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Drop for Double {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Double {
    /// A sink in plain HTTP that does these, one after another.
    pub async fn start(acts: Vec<Act>) -> Self {
        Self::serve(acts, None).await
    }

    /// A sink with TLS, and the certificate of its authority.
    pub async fn start_tls(acts: Vec<Act>) -> (Self, String) {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        (Self::serve(acts, Some(tls)).await, own.cert.pem())
    }

    async fn serve(acts: Vec<Act>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let at = if tls.is_some() {
            format!("https://localhost:{port}")
        } else {
            format!("http://127.0.0.1:{port}")
        };
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let kept = requests.clone();
        let acts = Arc::new(Mutex::new(acts.into_iter()));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, acts, tls) = (kept.clone(), acts.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => answer(stream, &kept, &acts).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                answer(stream, &kept, &acts).await;
                            }
                        }
                    }
                });
            }
        });
        Self { at, requests, task }
    }

    /// A URL of the sink.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.at)
    }

    /// What it was sent so far.
    pub fn requests(&self) -> Vec<Request> {
        let all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    kept: &Mutex<Vec<Request>>,
    acts: &Mutex<std::vec::IntoIter<Act>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    if stream.read_exact(&mut body).await.is_err() {
        return;
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    kept.lock().unwrap().push((head, body));
    let act = acts.lock().unwrap().next();
    match act.unwrap_or(Act::Answer(204, String::new())) {
        Act::Answer(status, lines) => {
            let text = format!("HTTP/1.1 {status} Said\r\n{lines}content-length: 0\r\n\r\n");
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.flush().await;
        }
        Act::Body(body) => {
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.flush().await;
        }
        Act::Flood(status) => {
            let text = format!("HTTP/1.1 {status} Said\r\ncontent-length: 1000000000000\r\n\r\n");
            let _ = stream.write_all(text.as_bytes()).await;
            let more = vec![b'x'; 65536];
            while stream.write_all(&more).await.is_ok() {}
        }
        Act::Hang => std::future::pending().await,
        Act::Break => {}
    }
    let _ = stream.shutdown().await;
}
