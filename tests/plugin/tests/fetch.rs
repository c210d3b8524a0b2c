//! The real fetcher against real sockets on loopback: where it connects to, what it refuses, what it bounds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use numo_plugin::{
    address::{AddressRange, Networks},
    fetch::{Direct, FetchSetup, Resolve},
    oci::Proxies,
    services::{Addresses, ErrorCode, Fetch, FetchRequest, FetchResponse, HostError},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
};

/// Names of the test; counts how often it was asked.
#[derive(Default)]
struct Names {
    names: BTreeMap<&'static str, Vec<SocketAddr>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str, _port: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.names
            .get(host)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn names(list: &[(&'static str, &str)]) -> Arc<Names> {
    let mut names = Names::default();
    for (name, address) in list {
        names
            .names
            .entry(name)
            .or_default()
            .push(SocketAddr::new(address.parse().unwrap(), 1));
    }
    Arc::new(names)
}

fn direct(resolver: Arc<Names>) -> Direct {
    // An authority of its own, so that it also starts where the system has none.
    let authority = rcgen::generate_simple_self_signed(["unused.example".to_owned()]).unwrap();
    let authorities = vec![authority.cert.der().clone()];
    Direct::new(FetchSetup {
        resolver,
        authorities,
        loopback: true,
        ..FetchSetup::default()
    })
    .unwrap()
}

fn get(url: &str, addresses: Addresses) -> FetchRequest {
    FetchRequest {
        head: false,
        url: url.parse().unwrap(),
        headers: vec![(http::header::ACCEPT, http::HeaderValue::from_static("text/plain"))],
        addresses,
        timeout: Duration::from_secs(5),
        body_bytes: 1024,
    }
}

fn loopback() -> Addresses {
    Addresses::Outside(vec!["127.0.0.0/8".parse::<AddressRange>().unwrap()])
}

fn outside() -> Addresses {
    Addresses::Outside(Vec::new())
}

#[tokio::test]
async fn a_rule_reaches_out_once_it_is_known_what_is_inside_and_numo_itself_at_once() {
    let resolver = names(&[("a.example", "203.0.113.9")]);
    let cluster = Networks::default();
    let authority = rcgen::generate_simple_self_signed(["unused.example".to_owned()]).unwrap();
    let direct = Direct::new(FetchSetup {
        resolver: resolver.clone(),
        authorities: vec![authority.cert.der().clone()],
        cluster: cluster.clone(),
        ..FetchSetup::default()
    })
    .unwrap();
    cluster.await_services();
    let refused = direct
        .fetch(get("http://a.example/", outside()))
        .await
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable, "{refused}");
    assert!(refused.message.contains("not known yet"), "{refused}");
    assert_eq!(
        resolver.asked.load(Ordering::Relaxed),
        0,
        "not even the name is asked for"
    );
    let own = direct
        .fetch(get("http://169.254.169.254/", Addresses::Anywhere))
        .await
        .unwrap_err();
    assert_eq!(own.code, ErrorCode::Denied, "it is judged as ever: {own}");
    cluster.see_services(vec!["203.0.113.0/24".parse().unwrap()]);
    let refused = direct
        .fetch(get("http://a.example/", outside()))
        .await
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::Denied, "{refused}");
}

/// The head of a request.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: &[u8]) -> String {
    let asked = head(stream).await;
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
    asked
}

/// Answers each connection so; gives its port, and what it was asked first.
async fn server(bytes: Vec<u8>) -> (u16, tokio::sync::oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let mut sender = Some(sender);
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = answer(&mut stream, &bytes).await;
            sender.take().map(|sender| sender.send(asked));
        }
    });
    (port, receiver)
}

fn ok(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nX-A: b\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn code(answer: Result<FetchResponse, HostError>) -> ErrorCode {
    answer.unwrap_err().code
}

#[tokio::test]
async fn a_granted_address_is_reached_and_the_request_is_plain() {
    let (port, asked) = server(ok("hello")).await;
    let names = names(&[("status.example.com", "127.0.0.1")]);
    let url = format!("http://status.example.com:{port}/a/b?c=d");
    let answer = direct(names.clone()).fetch(get(&url, loopback())).await.unwrap();
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (200, b"hello".as_slice())
    );
    assert!(answer.headers.contains(&("x-a".into(), "b".into())));
    let asked = asked.await.unwrap();
    assert!(asked.starts_with("GET /a/b?c=d HTTP/1.1\r\n"), "{asked}");
    assert!(
        asked.contains(&format!("host: status.example.com:{port}\r\n")),
        "{asked}"
    );
    assert_eq!(
        names.asked.load(Ordering::Relaxed),
        1,
        "the name is resolved once"
    );
}

#[tokio::test]
async fn inside_addresses_are_refused_however_they_are_reached() {
    let (port, _) = server(ok("never")).await;
    let cluster = Networks::of(vec!["10.128.0.0/14".parse().unwrap()]);
    let names = names(&[
        ("evil.example", "127.0.0.1"),
        ("meta.example", "169.254.169.254"),
        ("pod.example", "10.128.0.5"),
    ]);
    let setup = FetchSetup {
        cluster,
        resolver: names,
        ..FetchSetup::default()
    };
    let authority = rcgen::generate_simple_self_signed(["unused.example".to_owned()]).unwrap();
    let direct = Direct::new(FetchSetup {
        authorities: vec![authority.cert.der().clone()],
        ..setup
    })
    .unwrap();
    for host in [
        "evil.example",
        "meta.example",
        "pod.example",
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0x7f.1",
    ] {
        let url = format!("http://{host}:{port}/");
        let refused = direct.fetch(get(&url, outside())).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Denied, "{host}: {refused}");
    }
    // A grant opens the cluster and never the machine: nothing listens at the addresses, and none is asked.
    let everything = || Addresses::Outside(vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()]);
    for host in [
        "evil.example",
        "meta.example",
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0x7f.1",
    ] {
        let url = format!("http://{host}:{port}/");
        let refused = direct.fetch(get(&url, everything())).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Denied, "{host}: {refused}");
    }
}

#[tokio::test]
async fn of_several_addresses_only_an_allowed_one_is_used() {
    let (port, _) = server(ok("here")).await;
    let names = names(&[("two.example", "169.254.169.254"), ("two.example", "127.0.0.1")]);
    let answer = direct(names)
        .fetch(get(&format!("http://two.example:{port}/"), loopback()))
        .await
        .unwrap();
    assert_eq!(answer.body, b"here");
}

#[tokio::test]
async fn a_redirect_is_the_answer() {
    let moved =
        b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n".to_vec();
    let (port, _) = server(moved).await;
    let answer = direct(names(&[]))
        .fetch(get(&format!("http://127.0.0.1:{port}/"), loopback()))
        .await
        .unwrap();
    assert_eq!(answer.status, 302);
}

#[tokio::test]
async fn a_body_beyond_its_limit_is_an_error_and_never_cut() {
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n800\r\n{}\r\n0\r\n\r\n",
        "x".repeat(0x800)
    );
    for bytes in [ok(&"x".repeat(1025)), chunked.into_bytes()] {
        let (port, _) = server(bytes).await;
        let answer = direct(names(&[]))
            .fetch(get(&format!("http://127.0.0.1:{port}/"), loopback()))
            .await;
        assert_eq!(code(answer), ErrorCode::TooLarge);
    }
    let (port, _) = server(ok(&"x".repeat(1024))).await;
    let answer = direct(names(&[]))
        .fetch(get(&format!("http://127.0.0.1:{port}/"), loopback()))
        .await
        .unwrap();
    assert_eq!(answer.body.len(), 1024);
    let (port, _) = server(ok("short")[..30].to_vec()).await;
    let answer = direct(names(&[]))
        .fetch(get(&format!("http://127.0.0.1:{port}/"), loopback()))
        .await;
    assert_eq!(code(answer), ErrorCode::Unavailable);
}

#[tokio::test]
async fn a_flood_of_headers_is_an_error() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200));
    let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(200_000));
    for bytes in [many, long] {
        let (port, _) = server(bytes.into_bytes()).await;
        let answer = direct(names(&[]))
            .fetch(get(&format!("http://127.0.0.1:{port}/"), loopback()))
            .await;
        assert_eq!(code(answer), ErrorCode::Unavailable);
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let begin = Instant::now();
    let request = FetchRequest {
        timeout: Duration::from_millis(200),
        ..get(&url, loopback())
    };
    assert_eq!(
        code(direct(names(&[])).fetch(request).await),
        ErrorCode::Unavailable
    );
    assert!(begin.elapsed() < Duration::from_secs(5));
}

/// Whether a name exists is told to those only who may reach what it leads to.
#[tokio::test]
async fn a_name_that_is_not_found_is_told_by_whose_eyes_look() {
    let ask = |addresses| async move {
        code(
            direct(names(&[]))
                .fetch(get("http://no.example/", addresses))
                .await,
        )
    };
    assert_eq!(ask(Addresses::Anywhere).await, ErrorCode::Unavailable);
    assert_eq!(ask(outside()).await, ErrorCode::Denied);
}

/// A server with a certificate for `status.example.com`.
/// What serves TLS as `name`, and the certificate of it.
fn acceptor(
    name: &str,
) -> (
    tokio_rustls::TlsAcceptor,
    rustls::pki_types::CertificateDer<'static>,
) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let der = made.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der.clone()], key)
        .unwrap();
    (tokio_rustls::TlsAcceptor::from(Arc::new(config)), der)
}

async fn tls_server() -> (u16, rustls::pki_types::CertificateDer<'static>) {
    let (acceptor, der) = acceptor("status.example.com");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(mut stream) = acceptor.accept(stream).await {
                answer(&mut stream, &ok("secret")).await;
            }
        }
    });
    (port, der)
}

#[tokio::test]
async fn a_certificate_must_be_trusted_and_of_the_name() {
    let (port, certificate) = tls_server().await;
    let resolver = || {
        names(&[
            ("status.example.com", "127.0.0.1"),
            ("other.example.com", "127.0.0.1"),
        ])
    };
    let trusting = Direct::new(FetchSetup {
        authorities: vec![certificate],
        resolver: resolver(),
        loopback: true,
        ..FetchSetup::default()
    })
    .unwrap();
    let url = format!("https://status.example.com:{port}/");
    assert_eq!(
        trusting.fetch(get(&url, loopback())).await.unwrap().body,
        b"secret"
    );
    let other = format!("https://other.example.com:{port}/");
    assert_eq!(
        code(trusting.fetch(get(&other, loopback())).await),
        ErrorCode::Unavailable
    );
    assert_eq!(
        code(direct(resolver()).fetch(get(&url, loopback())).await),
        ErrorCode::Unavailable
    );
}

#[tokio::test]
async fn behind_a_proxy_names_are_the_proxys_and_addresses_stay_refused() {
    let (port, certificate) = tls_server().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (sender, asked) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        sender.send(head(&mut stream).await).unwrap();
        let mut behind = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
    });
    let proxies = Proxies {
        https: Some(format!("http://user:pass@{at}").parse().unwrap()),
        http: None,
        except: vec!["svc".into()],
    };
    let resolver = names(&[]);
    let direct = Direct::new(FetchSetup {
        authorities: vec![certificate],
        proxies,
        resolver: resolver.clone(),
        ..FetchSetup::default()
    })
    .unwrap();
    let answer = direct
        .fetch(get("https://status.example.com/", outside()))
        .await
        .unwrap();
    assert_eq!(answer.body, b"secret");
    let asked = asked.await.unwrap();
    assert!(
        asked.starts_with("CONNECT status.example.com:443 HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(
        asked.contains("proxy-authorization: Basic dXNlcjpwYXNz\r\n"),
        "{asked}"
    );
    assert_eq!(resolver.asked.load(Ordering::Relaxed), 0);
}

/// As OpenShift has it in `spec.httpsProxy` where the proxy itself speaks TLS.
#[tokio::test]
async fn a_proxy_that_is_reached_by_tls_must_be_trusted_and_lets_through() {
    let (port, certificate) = tls_server().await;
    let (acceptor, of_proxy) = acceptor("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let request = head(&mut stream).await;
            log.lock().unwrap().push(request.clone());
            if request.starts_with("GET ") {
                let _ = stream.write_all(&ok("plain")).await;
                let _ = stream.shutdown().await;
                continue;
            }
            let mut behind = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            stream.flush().await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
        }
    });
    let direct = |authorities: Vec<rustls::pki_types::CertificateDer<'static>>| {
        let url = format!("https://user:p&ss@{at}");
        let proxies = |name: &str| ["HTTPS_PROXY", "HTTP_PROXY"].contains(&name).then(|| url.clone());
        Direct::new(FetchSetup {
            authorities,
            proxies: Proxies::from_env(proxies).unwrap(),
            resolver: names(&[]),
            ..FetchSetup::default()
        })
        .unwrap()
    };
    let both = direct(vec![certificate.clone(), of_proxy]);
    let answer = both
        .fetch(get("https://status.example.com/", outside()))
        .await
        .unwrap();
    assert_eq!(answer.body, b"secret");
    let answer = both
        .fetch(get("http://status.example.com/", outside()))
        .await
        .unwrap();
    assert_eq!(answer.body, b"plain");
    let heads = asked.lock().unwrap().clone();
    let lines: Vec<_> = heads.iter().filter_map(|head| head.lines().next()).collect();
    let tunnel = "CONNECT status.example.com:443 HTTP/1.1";
    assert_eq!(lines, [tunnel, "GET http://status.example.com/ HTTP/1.1"]);
    // user:p&ss, whole.
    let is_named = |head: &String| head.contains("proxy-authorization: Basic dXNlcjpwJnNz\r\n");
    assert!(heads.iter().all(is_named), "{heads:?}");

    // Who only has the place of the proxy is told no password.
    let refused = direct(vec![certificate])
        .fetch(get("https://status.example.com/", outside()))
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable);
    assert!(
        refused.message.starts_with("the proxy 127.0.0.1: TLS: "),
        "{refused}"
    );
    assert_eq!(asked.lock().unwrap().len(), 2);
}

/// Addresses that nothing opens, as a URL has them, and why.
const CLOSED: [(&str, &str); 14] = [
    ("169.254.169.254", "a link-local address"),
    ("100.100.100.200", "a metadata address"),
    ("224.0.0.1", "a multicast or reserved address"),
    ("0.0.0.0", "an unspecified address"),
    ("0xa9fea9fe", "a link-local address"),
    ("[fe80::1]", "a link-local address"),
    ("[fd00:ec2::254]", "a metadata address"),
    ("[ff02::1]", "a multicast or reserved address"),
    ("[::]", "an unspecified address"),
    ("[::ffff:169.254.169.254]", "a link-local address"),
    ("[::169.254.169.254]", "a link-local address"),
    ("[64:ff9b::a9fe:a9fe]", "a link-local address"),
    ("[2002:a9fe:a9fe::]", "a link-local address"),
    ("[::ffff:100.100.100.200]", "a metadata address"),
];

/// A proxy for both schemes that lets nothing through, and the first line of all that it was asked.
async fn closed_proxy() -> (Proxies, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = head(&mut stream).await;
            let line = request.lines().next().unwrap_or_default().to_owned();
            log.lock().unwrap().push(line);
            let _ = stream
                .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
    });
    let proxies = Proxies {
        https: at.parse().ok(),
        http: at.parse().ok(),
        except: Vec::new(),
    };
    (proxies, asked)
}

#[tokio::test]
async fn an_address_that_is_written_as_one_is_judged_before_a_proxy_is_asked() {
    let (proxies, asked) = closed_proxy().await;
    let authority = rcgen::generate_simple_self_signed(["unused.example".to_owned()]).unwrap();
    let direct = Direct::new(FetchSetup {
        cluster: Networks::of(vec!["10.128.0.0/14".parse().unwrap()]),
        authorities: vec![authority.cert.der().clone()],
        proxies,
        resolver: names(&[]),
        loopback: true,
    })
    .unwrap();
    let everything = || Addresses::Outside(vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()]);
    for scheme in ["https", "http"] {
        let refused = async |host: &str, addresses: Addresses, why: &str| {
            let url = format!("{scheme}://{host}/");
            let refused = direct.fetch(get(&url, addresses)).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::Denied, "{url}: {refused}");
            assert!(refused.message.contains(why), "{url}: {refused}");
        };
        for (host, why) in CLOSED {
            refused(host, outside(), why).await;
            refused(host, everything(), why).await;
            refused(host, Addresses::Anywhere, why).await;
        }
        refused("10.128.0.5", outside(), "an address of the cluster").await;
        refused("127.0.0.1", outside(), "a loopback address").await;
    }
    // What is no address goes to the proxy, and was the first that did.
    let answer = direct.fetch(get("https://status.example.com/", outside())).await;
    assert_eq!(code(answer), ErrorCode::Unavailable);
    assert_eq!(
        *asked.lock().unwrap(),
        ["CONNECT status.example.com:443 HTTP/1.1"]
    );
}

/// Channels and Prometheus: an administrator, or who is root anyway, names them.
#[tokio::test]
async fn who_may_go_anywhere_reaches_this_machine_and_nothing_that_nothing_opens() {
    let (port, _) = server(ok("here")).await;
    let names = names(&[
        ("here.example", "127.0.0.1"),
        ("meta.example", "169.254.169.254"),
        ("meta6.example", "fd00:ec2::254"),
        ("mapped.example", "::ffff:169.254.169.254"),
        ("many.example", "224.0.0.1"),
        ("two.example", "169.254.169.254"),
        ("two.example", "127.0.0.1"),
    ]);
    let direct = direct(names);
    for host in ["here.example", "two.example", "127.0.0.1"] {
        let url = format!("http://{host}:{port}/");
        let answer = direct.fetch(get(&url, Addresses::Anywhere)).await.unwrap();
        assert_eq!(answer.body, b"here", "{host}");
    }
    for (host, why) in [
        ("meta.example", "a link-local address"),
        ("meta6.example", "a metadata address"),
        ("mapped.example", "a link-local address"),
        ("many.example", "a multicast or reserved address"),
        ("169.254.169.254", "a link-local address"),
    ] {
        let url = format!("http://{host}:{port}/");
        let refused = direct.fetch(get(&url, Addresses::Anywhere)).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Denied, "{host}: {refused}");
        assert_eq!(
            refused.message,
            format!("{host} leads to {why}, and numo connects to none")
        );
    }
}
