//! The one way in: every listener of numo accepts connections here. Whoever can reach a listener may open connections, send half a request
//! and wait, so each connection has a place, a time for every part of a request, and a bound for its body; where there are no places left
//! the one goes that has been silent longest, and whoever comes is let in. Nothing here knows what is answered.

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, task::AbortHandle, time::Instant};
use tokio_rustls::TlsAcceptor;

/// The certificate that is served now; none while there is none.
pub type Served = Arc<RwLock<Option<TlsAcceptor>>>;

/// What a listener gives to whoever connects.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at once.
    pub places: usize,
    /// Connections at once of one address.
    pub of_address: usize,
    /// How long the handshake, and then the head of each request, may take.
    pub head: Duration,
    /// How long the rest of a request and its answer may take together.
    pub request: Duration,
    /// How long a connection may last.
    pub connection: Duration,
    /// Bytes of a body.
    pub body_bytes: usize,
}

/// A connection that is open.
struct Open {
    address: IpAddr,
    /// Milliseconds since the listener began at which its last request was answered, or it was opened.
    heard: Arc<AtomicU64>,
    task: AbortHandle,
}

/// The connections of one listener.
#[derive(Default)]
struct Room {
    open: Mutex<BTreeMap<u64, Open>>,
}

impl Room {
    /// Makes room for a connection of this address: where it has too many, or all have, the one goes that was not heard for longest.
    fn make(&self, address: IpAddr, bounds: Bounds) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, one| !one.task.is_finished());
        let oldest = |open: &BTreeMap<u64, Open>, of: Option<IpAddr>| {
            let some = open
                .iter()
                .filter(|(_, one)| of.is_none_or(|of| one.address == of));
            let oldest = some.min_by_key(|(number, one)| (one.heard.load(Ordering::Acquire), **number));
            oldest.map(|(number, _)| *number)
        };
        let of_address = open.values().filter(|one| one.address == address).count();
        let goes = if of_address >= bounds.of_address {
            oldest(&open, Some(address))
        } else if open.len() >= bounds.places {
            oldest(&open, None)
        } else {
            None
        };
        if let Some(gone) = goes.and_then(|number| open.remove(&number)) {
            gone.task.abort();
        }
    }

    fn add(&self, number: u64, one: Open) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(number, one);
    }

    fn remove(&self, number: u64) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&number);
    }
}

/// Accepts connections until the process ends, with TLS where `served` is given.
pub async fn accept(listener: TcpListener, served: Option<Served>, router: Router, bounds: Bounds) {
    let router = router
        .layer(DefaultBodyLimit::max(bounds.body_bytes))
        .layer(middleware::from_fn(move |request, next| {
            within(bounds.request, request, next)
        }));
    let room = Arc::new(Room::default());
    let begun = Instant::now();
    for number in 0.. {
        let (stream, address) = match listener.accept().await {
            Ok((stream, address)) => (stream, address.ip().to_canonical()),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let tls = match &served {
            None => None,
            Some(slot) => match slot.read().unwrap_or_else(PoisonError::into_inner).clone() {
                Some(acceptor) => Some(acceptor),
                // Without a certificate nobody is served.
                None => continue,
            },
        };
        room.make(address, bounds);
        let now = move || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let heard = Arc::new(AtomicU64::new(now()));
        let service = {
            let heard = heard.clone();
            let answered = move |request: Request, next: Next| {
                let heard = heard.clone();
                async move {
                    let response = next.run(request).await;
                    heard.store(now(), Ordering::Release);
                    response
                }
            };
            TowerToHyperService::new(router.clone().layer(middleware::from_fn(answered)))
        };
        let of_task = room.clone();
        let task = tokio::spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(bounds.head);
            // A client that breaks off is no news.
            let whole = async {
                match tls {
                    None => {
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    }
                    Some(tls) => {
                        if let Ok(Ok(stream)) = tokio::time::timeout(bounds.head, tls.accept(stream)).await {
                            let _ = http.serve_connection(TokioIo::new(stream), service).await;
                        }
                    }
                }
            };
            let _ = tokio::time::timeout(bounds.connection, whole).await;
            of_task.remove(number);
        });
        let task = task.abort_handle();
        room.add(number, Open { address, heard, task });
    }
}

/// A request, with its body and its answer, in time.
async fn within(time: Duration, request: Request, next: Next) -> Response {
    match tokio::time::timeout(time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "not in time\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::{get, post};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    const BOUNDS: Bounds = Bounds {
        places: 8,
        of_address: 4,
        head: Duration::from_mins(1),
        request: Duration::from_millis(300),
        connection: Duration::from_mins(1),
        body_bytes: 16,
    };

    async fn begin() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", get(|| async { "here\n" }))
            .route("/in", post(|body: String| async move { body }));
        tokio::spawn(accept(listener, None, router, BOUNDS));
        address
    }

    async fn said(mut stream: TcpStream, request: &str) -> String {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    const ASK: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

    #[tokio::test]
    async fn who_comes_is_served_however_many_are_silent() {
        let address = begin().await;
        let mut silent = Vec::new();
        for _ in 0..200 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
            silent.push(stream);
        }
        for _ in 0..5 {
            let answer = said(TcpStream::connect(address).await.unwrap(), ASK).await;
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.ends_with("here\n"),
                "{answer}"
            );
        }
        // Those that had to go were closed.
        let mut first = [0; 1];
        assert!(matches!(silent[0].read(&mut first).await, Ok(0) | Err(_)));
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_and_one_that_is_too_large_are_refused() {
        let address = begin().await;
        let half = "POST /in HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\nhal";
        let answer = said(TcpStream::connect(address).await.unwrap(), half).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        let large = "POST /in HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 17\r\n\r\n12345678901234567";
        let answer = said(TcpStream::connect(address).await.unwrap(), large).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
}
