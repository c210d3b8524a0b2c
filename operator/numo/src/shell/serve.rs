//! The one way in: every listener of numo accepts connections here. Whoever can reach a listener may open connections, send half a request
//! and wait, so each connection has a place, a time for every part of a request, and a bound for its body. Whoever comes is let in, and where
//! no place is left another one goes: a stranger's before one of an address that had a good answer before, and always one of the address that
//! has most. Nothing here knows what is answered.

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
    cmp::Reverse,
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::Instant,
};
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

/// Strangers may have one of so many places for themselves; all others are theirs while nobody wants them who was served before.
const STRANGERS: usize = 4;
/// Addresses that are remembered for a good answer: more than a cluster has API servers, kubelets of one node and scrapers.
const KNOWN: usize = 256;

/// A connection that is open.
struct Open {
    address: IpAddr,
    heard: Arc<Heard>,
    task: AbortHandle,
}

/// What a connection was good for.
struct Heard {
    /// Milliseconds since the listener began at which its last request was answered, or it was opened.
    at: AtomicU64,
    /// Whether it had a good answer (200).
    served: AtomicBool,
}

/// The connections of one listener.
#[derive(Default)]
struct Connections {
    open: BTreeMap<u64, Open>,
    /// Addresses that had a good answer, and when the last one was (milliseconds since the listener began).
    known: BTreeMap<IpAddr, u64>,
}

impl Connections {
    /// Which connection goes for one of this address; none while there is a place.
    fn who_goes(&self, comes: IpAddr, bounds: Bounds) -> Option<u64> {
        let mut numbers: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for address in self.open.values().map(|one| one.address).chain([comes]) {
            *numbers.entry(address).or_default() += 1;
        }
        let number_of = |address: IpAddr| numbers.get(&address).copied().unwrap_or(0);
        let is_stranger = |address: IpAddr| !self.known.contains_key(&address);
        let of_one = number_of(comes) > bounds.of_address;
        if !of_one && self.open.len() < bounds.places {
            return None;
        }
        let strangers = numbers.iter().filter(|(address, _)| is_stranger(**address));
        let strangers: usize = strangers.map(|(_, number)| number).sum();
        let stranger_goes = strangers > bounds.places / STRANGERS;
        let may_go = |one: &Open| {
            if of_one {
                one.address == comes
            } else {
                is_stranger(one.address) == stranger_goes
            }
        };
        let some = self.open.iter().filter(|(_, one)| may_go(one));
        // Who opens many pushes out himself, however often he comes again.
        let first = some.min_by_key(|(number, one)| {
            let served = one.heard.served.load(Ordering::Acquire);
            let at = one.heard.at.load(Ordering::Acquire);
            (Reverse(number_of(one.address)), served, at, **number)
        });
        first.map(|(number, _)| *number)
    }

    /// Remembers that an address had a good answer.
    fn greet(&mut self, address: IpAddr, now: u64) {
        self.known.insert(address, now);
        if self.known.len() > KNOWN {
            let oldest = self.known.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                self.known.remove(&oldest);
            }
        }
    }
}

/// The same, shared by their tasks.
#[derive(Default)]
struct Room(Mutex<Connections>);

impl Room {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for a connection of this address.
    fn make(&self, address: IpAddr, bounds: Bounds) {
        let mut room = self.lock();
        room.open.retain(|_, one| !one.task.is_finished());
        let goes = room.who_goes(address, bounds);
        if let Some(gone) = goes.and_then(|number| room.open.remove(&number)) {
            gone.task.abort();
        }
    }

    fn add(&self, number: u64, one: Open) {
        self.lock().open.insert(number, one);
    }

    fn remove(&self, number: u64) {
        self.lock().open.remove(&number);
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
        let heard = Arc::new(Heard {
            at: AtomicU64::new(millis(begun)),
            served: AtomicBool::new(false),
        });
        let service = noted(&router, &room, &heard, address, begun);
        let of_task = room.clone();
        let task = tokio::spawn(async move {
            // A client that breaks off is no news.
            let _ = tokio::time::timeout(bounds.connection, serve(stream, tls, service, bounds)).await;
            of_task.remove(number);
        });
        let task = task.abort_handle();
        room.add(number, Open { address, heard, task });
    }
}

/// Milliseconds since a time.
fn millis(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The service of one connection: it notes when it answered last, and greets an address that it has answered well.
fn noted(
    router: &Router,
    room: &Arc<Room>,
    heard: &Arc<Heard>,
    address: IpAddr,
    begun: Instant,
) -> TowerToHyperService<Router> {
    let (heard, room) = (heard.clone(), room.clone());
    let answered = move |request: Request, next: Next| {
        let (heard, room) = (heard.clone(), room.clone());
        async move {
            let response = next.run(request).await;
            let at = millis(begun);
            heard.at.store(at, Ordering::Release);
            if response.status() == StatusCode::OK {
                heard.served.store(true, Ordering::Release);
                room.lock().greet(address, at);
            }
            response
        }
    };
    TowerToHyperService::new(router.clone().layer(middleware::from_fn(answered)))
}

/// Serves one connection to its end.
async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: TowerToHyperService<Router>,
    bounds: Bounds,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(bounds.head);
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
    use std::net::SocketAddr;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpSocket, TcpStream},
        sync::watch as signal,
    };

    const BOUNDS: Bounds = Bounds {
        places: 8,
        of_address: 4,
        head: Duration::from_mins(1),
        request: Duration::from_millis(300),
        connection: Duration::from_mins(1),
        body_bytes: 16,
    };

    async fn begin() -> SocketAddr {
        let router = Router::new()
            .route("/", get(|| async { "here\n" }))
            .route("/in", post(|body: String| async move { body }));
        listen(router, BOUNDS).await
    }

    async fn listen(router: Router, bounds: Bounds) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, None, router, bounds));
        address
    }

    /// A connection from 127.0.0.`host`.
    async fn from(host: u8, to: SocketAddr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
        socket.connect(to).await.unwrap()
    }

    /// Connections that were put out.
    type PutOut = signal::Sender<u64>;
    /// As many as are put out before `/long` answers.
    const LONG: u64 = 200;

    /// A listener whose `/long` answers once many more have been put out.
    async fn besieged() -> (SocketAddr, PutOut) {
        let put_out = PutOut::new(0);
        let seen = put_out.subscribe();
        let long = move || {
            let mut seen = seen.clone();
            async move {
                let before = *seen.borrow();
                let _ = seen.wait_for(|now| *now >= before + LONG).await;
                "at last\n"
            }
        };
        let router = Router::new()
            .route("/", get(|| async { "here\n" }))
            .route("/long", get(long));
        let bounds = Bounds {
            request: Duration::from_mins(1),
            ..BOUNDS
        };
        (listen(router, bounds).await, put_out)
    }

    /// From each of these addresses so many that connect, say nothing, and come again as soon as they are put out.
    fn churn(hosts: std::ops::Range<u8>, of_each: usize, to: SocketAddr, put_out: &PutOut) {
        for host in hosts.flat_map(|host| std::iter::repeat_n(host, of_each)) {
            let put_out = put_out.clone();
            tokio::spawn(async move {
                loop {
                    let mut stream = from(host, to).await;
                    let _ = stream.read(&mut [0; 1]).await;
                    put_out.send_modify(|number| *number += 1);
                }
            });
        }
    }

    async fn said(mut stream: TcpStream, request: &str) -> String {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    const ASK: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    const ASK_LONG: &str = "GET /long HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

    /// Three pods that connect again and again put out each other, and not an API server that nobody knows yet.
    #[tokio::test]
    async fn who_churns_from_few_addresses_puts_out_nobody_else() {
        let (address, put_out) = besieged().await;
        churn(2..5, 6, address, &put_out);
        for _ in 0..3 {
            let answer = said(from(1, address).await, ASK_LONG).await;
            assert!(answer.ends_with("at last\n"), "{answer}");
        }
    }

    /// More of them than there are places put out strangers, and not who was served before.
    #[tokio::test]
    async fn who_churns_from_many_addresses_puts_out_nobody_who_was_served() {
        let (address, put_out) = besieged().await;
        let answer = said(from(1, address).await, ASK).await;
        assert!(answer.ends_with("here\n"), "{answer}");
        churn(2..42, 1, address, &put_out);
        for _ in 0..3 {
            let answer = said(from(1, address).await, ASK_LONG).await;
            assert!(answer.ends_with("at last\n"), "{answer}");
        }
    }

    /// Anybody may have a good answer: who takes all places by that leaves some to those who come for the first time.
    #[tokio::test]
    async fn who_was_served_often_keeps_no_stranger_out() {
        let (address, put_out) = besieged().await;
        let mut kept = Vec::new();
        for host in [2, 2, 2, 2, 3, 3, 3, 3] {
            let mut stream = from(host, address).await;
            stream
                .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                .await
                .unwrap();
            let mut head = [0; 12];
            stream.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"HTTP/1.1 200");
            kept.push(stream);
        }
        // They come again and again besides.
        churn(2..4, 6, address, &put_out);
        let answer = said(from(1, address).await, ASK_LONG).await;
        assert!(answer.ends_with("at last\n"), "{answer}");
    }

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
