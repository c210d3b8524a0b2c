//! Registries that lie, break, redirect or never end: one scripted server on loopback, in plain HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use numo_plugin::{
    oci::{
        Artifact, Bounds, CONFIG, Credentials, Digest, LAYER, Login, MANIFEST_BYTES, OciError, Pinned,
        Proxies, Reference, Registry, Setup,
    },
    signature::SignatureError,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER_BYTES: &[u8] = b"\0asm\x0d\0\x01\0 the component";
const MIB: u64 = 1024 * 1024;

/// A request as it came.
#[derive(Clone, Debug)]
struct Seen {
    line: String,
    head: String,
    body: String,
}

impl Seen {
    fn has(&self, text: &str) -> bool {
        self.line.contains(text)
    }

    fn authorization(&self) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix("authorization: "))
    }
}

/// What is answered.
enum Say {
    Status(u16, String, Vec<u8>),
    /// Declares more than it sends.
    Cut(usize, Vec<u8>),
    /// Sends without end.
    Endless(String),
    /// Never says anything.
    Silent,
}

fn ok(media_type: &str, body: &[u8]) -> Say {
    Say::Status(200, format!("content-type: {media_type}\r\n"), body.to_vec())
}

fn status(status: u16, headers: &str) -> Say {
    Say::Status(status, headers.to_owned(), Vec::new())
}

type Script = dyn Fn(&Seen) -> Say + Send + Sync;

struct Fake {
    address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    async fn start(host: &str, script: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let log = seen.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, script.clone(), log.clone()));
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn setup(&self) -> Setup {
        let bounds = Bounds {
            attempts: 3,
            pause: Duration::from_millis(5),
            // Long, so that a busy machine makes no second try that a test would count.
            idle: Duration::from_secs(20),
            total: Duration::from_mins(1),
        };
        Setup {
            plain: vec![self.address.clone()],
            bounds,
            ..Setup::default()
        }
    }

    fn registry(&self) -> Registry {
        Registry::new(self.setup()).unwrap()
    }

    fn tag(&self) -> Reference {
        format!("{}/team/rule:1", self.address).parse().unwrap()
    }

    fn pinned(&self, manifest: &[u8]) -> Pinned {
        self.tag().pinned(Digest::of(manifest))
    }

    async fn pull(&self, manifest: &[u8]) -> Result<Artifact, OciError> {
        self.registry()
            .pull(&self.pinned(manifest), &Credentials::none(), MIB)
            .await
    }

    async fn resolve(&self) -> Result<Pinned, OciError> {
        self.registry().resolve(&self.tag(), &Credentials::none()).await
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Script>, log: Arc<Mutex<Vec<Seen>>>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let text = String::from_utf8(head).ok()?;
    let (line, head) = text.split_once("\r\n")?;
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let seen = Seen {
        line: line.to_owned(),
        head: head.to_owned(),
        body,
    };
    let say = script(&seen);
    log.lock().unwrap().push(seen);
    match say {
        Say::Status(status, headers, body) => {
            let head = format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
        }
        Say::Cut(declared, body) => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {declared}\r\n\r\n");
            stream.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
        }
        Say::Endless(media_type) => {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.ok()?;
            let chunk = format!("4000\r\n{}\r\n", "a".repeat(0x4000));
            loop {
                stream.write_all(chunk.as_bytes()).await.ok()?;
            }
        }
        Say::Silent => tokio::time::sleep(Duration::from_mins(1)).await,
    }
    stream.shutdown().await.ok()
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(bytes).as_str(), "size": bytes.len()})
}

fn manifest_with(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, CONFIG_TEXT.as_bytes()),
        "layers": [descriptor(LAYER, LAYER_BYTES)],
    });
    change(&mut manifest);
    manifest.to_string().into_bytes()
}

const CONFIG_TEXT: &str = r#"{"architecture":"wasm","os":"wasip2","layerDigests":[]}"#;

fn manifest() -> Vec<u8> {
    manifest_with(|_| ())
}

/// A good registry, except where `odd` has an answer.
async fn with(manifest: Vec<u8>, odd: impl Fn(&Seen) -> Option<Say> + Send + Sync + 'static) -> Fake {
    Fake::start("127.0.0.1", move |seen| {
        if let Some(say) = odd(seen) {
            return say;
        }
        if seen.has("/manifests/1 ") || seen.has(Digest::of(&manifest).as_str()) {
            ok(MANIFEST, &manifest)
        } else if seen.has(Digest::of(CONFIG_TEXT.as_bytes()).as_str()) {
            ok("application/octet-stream", CONFIG_TEXT.as_bytes())
        } else if seen.has(Digest::of(LAYER_BYTES).as_str()) {
            ok("application/octet-stream", LAYER_BYTES)
        } else {
            status(404, "")
        }
    })
    .await
}

fn is_layer(seen: &Seen) -> bool {
    seen.has(Digest::of(LAYER_BYTES).as_str())
}

/// The reason, and that its sentence has each of these words.
fn check<T: std::fmt::Debug>(answer: Result<T, OciError>, reason: &str, says: &[&str]) {
    let error = answer.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.reason(), reason, "{text}");
    for word in says.iter().chain(&["/team/rule"]) {
        assert!(text.contains(word), "{text} lacks {word}");
    }
}

#[tokio::test]
async fn the_good_registry_of_these_tests_is_good() {
    let fake = with(manifest(), |_| None).await;
    assert_eq!(fake.resolve().await.unwrap(), fake.pinned(&manifest()));
    assert_eq!(fake.pull(&manifest()).await.unwrap().component, LAYER_BYTES);
}

#[tokio::test]
async fn other_artifacts_are_refused_before_any_blob_is_asked_for() {
    let cases: [(Vec<u8>, &str); 7] = [
        (
            manifest_with(|m| m["layers"][0]["mediaType"] = json!("application/wasm+gzip")),
            "application/wasm+gzip",
        ),
        (
            manifest_with(|m| {
                m["layers"][0]["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar+gzip");
            }),
            "tar+gzip",
        ),
        (manifest_with(|m| m["layers"] = json!([])), "0 layers"),
        (
            manifest_with(|m| m["layers"] = json!([m["layers"][0], m["layers"][0]])),
            "2 layers",
        ),
        (
            manifest_with(|m| m["config"]["mediaType"] = json!("application/vnd.oci.empty.v1+json")),
            "empty.v1",
        ),
        (
            manifest_with(|m| m["config"]["mediaType"] = json!("application/vnd.wasm.config.v1+json")),
            "application/vnd.wasm.config.v0+json",
        ),
        // A document that says to be another one than its header (CVE-2021-41190).
        (manifest_with(|m| m["mediaType"] = json!(INDEX)), "image.index"),
    ];
    for (manifest, says) in cases {
        let fake = with(manifest.clone(), |_| None).await;
        check(fake.pull(&manifest).await, "WrongMediaType", &[says]);
        check(fake.resolve().await, "WrongMediaType", &[says]);
        assert!(fake.seen().iter().all(|seen| !seen.has("/blobs/")));
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []})
        .to_string()
        .into_bytes();
    let served = index.clone();
    let fake = with(manifest(), move |seen| {
        seen.has("/manifests/").then(|| ok(INDEX, &served))
    })
    .await;
    check(
        fake.resolve().await,
        "WrongMediaType",
        &["image.index", "image.manifest"],
    );
    check(fake.pull(&index).await, "WrongMediaType", &["image.index"]);
}

#[tokio::test]
async fn what_cannot_be_read_is_malformed() {
    for broken in [&b"{"[..], b"[]", b"{\"schemaVersion\":2}", b"\xff"] {
        let fake = with(manifest(), move |seen| {
            seen.has("/manifests/").then(|| ok(MANIFEST, broken))
        })
        .await;
        check(fake.resolve().await, "Malformed", &["manifest"]);
    }
    let config = b"no json";
    let manifest = manifest_with(|m| m["config"] = descriptor(CONFIG, config));
    let of_config = Digest::of(config);
    let fake = with(manifest.clone(), move |seen| {
        seen.has(of_config.as_str()).then(|| ok("x", config))
    })
    .await;
    check(fake.pull(&manifest).await, "Malformed", &["config"]);
    let fake = with(self::manifest(), |_| Some(status(418, ""))).await;
    check(fake.resolve().await, "Malformed", &["418"]);
}

#[tokio::test]
async fn content_that_is_not_its_digest_is_refused() {
    let other = manifest_with(|m| m["annotations"] = json!({"a": "b"}));
    let fake = with(manifest(), move |seen| {
        seen.has("/manifests/").then(|| ok(MANIFEST, &other))
    })
    .await;
    let wanted = Digest::of(&manifest()).to_string();
    check(
        fake.pull(&manifest()).await,
        "DigestMismatch",
        &["manifest", &wanted],
    );
    // As long as it should be.
    let changed: Vec<u8> = LAYER_BYTES.iter().rev().copied().collect();
    let found = Digest::of(&changed).to_string();
    let fake = with(manifest(), move |seen| is_layer(seen).then(|| ok("x", &changed))).await;
    let wanted = Digest::of(LAYER_BYTES).to_string();
    check(
        fake.pull(&manifest()).await,
        "DigestMismatch",
        &["layer", &found, &wanted],
    );
    // Longer, and said so.
    let fake = with(manifest(), |seen| is_layer(seen).then(|| ok("x", &[0; 4096]))).await;
    check(fake.pull(&manifest()).await, "DigestMismatch", &["4096 bytes"]);
    // The registry's own header disagrees.
    let header = format!(
        "content-type: {MANIFEST}\r\ndocker-content-digest: {}\r\n",
        Digest::of(b"other")
    );
    let fake = with(manifest(), move |seen| {
        seen.has("/manifests/")
            .then(|| Say::Status(200, header.clone(), manifest()))
    })
    .await;
    check(fake.resolve().await, "DigestMismatch", &["manifest"]);
}

#[tokio::test]
async fn what_is_too_large_is_refused_where_it_is_first_known() {
    let huge = manifest_with(|m| m["layers"][0]["size"] = json!(1_u64 << 60));
    let fake = with(huge.clone(), |_| None).await;
    check(
        fake.pull(&huge).await,
        "TooLarge",
        &["layer", "1152921504606846976", "1048576"],
    );
    assert_eq!(fake.seen().len(), 1);
    let config = manifest_with(|m| m["config"]["size"] = json!(u64::MAX));
    let fake = with(config.clone(), |_| None).await;
    check(fake.pull(&config).await, "TooLarge", &["config"]);
    // A manifest by its declared length, and one without end.
    let fake = with(manifest(), |seen| {
        seen.has("/manifests/").then(|| Say::Cut(1 << 40, Vec::new()))
    })
    .await;
    check(
        fake.resolve().await,
        "TooLarge",
        &["1099511627776", &MANIFEST_BYTES.to_string()],
    );
    let fake = with(manifest(), |seen| {
        seen.has("/manifests/").then(|| Say::Endless(MANIFEST.into()))
    })
    .await;
    check(fake.resolve().await, "TooLarge", &["manifest", "more"]);
}

#[tokio::test]
async fn a_layer_without_end_is_read_no_further_than_it_should_be() {
    let fake = with(manifest(), |seen| {
        is_layer(seen).then(|| Say::Endless("x".into()))
    })
    .await;
    check(fake.pull(&manifest()).await, "DigestMismatch", &["more than"]);
}

#[tokio::test]
async fn a_cut_layer_is_fetched_again_and_then_given_up() {
    let times = Arc::new(AtomicUsize::new(0));
    let count = times.clone();
    let fake = with(manifest(), move |seen| {
        let first = is_layer(seen) && count.fetch_add(1, Ordering::Relaxed) == 0;
        first.then(|| Say::Cut(LAYER_BYTES.len(), LAYER_BYTES[..9].to_vec()))
    })
    .await;
    assert_eq!(fake.pull(&manifest()).await.unwrap().component, LAYER_BYTES);
    assert_eq!(times.load(Ordering::Relaxed), 2);
    let cut = |seen: &Seen| is_layer(seen).then(|| Say::Cut(LAYER_BYTES.len(), LAYER_BYTES[..9].to_vec()));
    let fake = with(manifest(), cut).await;
    check(
        fake.pull(&manifest()).await,
        "RegistryUnavailable",
        &["layer", "tried 3 times"],
    );
    // A whole answer that is too short.
    let fake = with(manifest(), |seen| {
        is_layer(seen).then(|| ok("x", &LAYER_BYTES[..9]))
    })
    .await;
    check(
        fake.pull(&manifest()).await,
        "RegistryUnavailable",
        &["ended after 9 of"],
    );
}

#[tokio::test]
async fn busy_registries_are_asked_again_after_the_pause_they_ask_for() {
    for busy in [408, 429, 500, 502, 503, 504] {
        let times = AtomicUsize::new(0);
        let fake = with(manifest(), move |_| {
            (times.fetch_add(1, Ordering::Relaxed) < 2).then(|| status(busy, "retry-after: 0\r\n"))
        })
        .await;
        fake.resolve().await.unwrap();
        assert_eq!(fake.seen().len(), 3);
    }
    let words = br#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}"#;
    let fake = with(manifest(), |_| {
        Some(Say::Status(429, String::new(), words.to_vec()))
    })
    .await;
    check(
        fake.resolve().await,
        "RegistryUnavailable",
        &["TOOMANYREQUESTS slow down", "tried 3 times"],
    );
    assert_eq!(fake.seen().len(), 3);
    let times = AtomicUsize::new(0);
    let fake = with(manifest(), move |_| {
        (times.fetch_add(1, Ordering::Relaxed) == 0).then(|| status(429, "retry-after: 1\r\n"))
    })
    .await;
    let begun = Instant::now();
    fake.resolve().await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn silence_ends_and_so_does_the_whole() {
    let fake = with(manifest(), |_| Some(Say::Silent)).await;
    let resolve = async |total: Duration, attempts: u32| {
        let idle = Duration::from_millis(500);
        let bounds = Bounds {
            idle,
            total,
            attempts,
            ..fake.setup().bounds
        };
        let registry = Registry::new(Setup {
            bounds,
            ..fake.setup()
        })
        .unwrap();
        let begun = Instant::now();
        let answer = registry.resolve(&fake.tag(), &Credentials::none()).await;
        assert!(begun.elapsed() < Duration::from_secs(20));
        answer
    };
    let silent = "no answer within 500 ms";
    let answer = resolve(Duration::from_mins(1), 3).await;
    check(answer, "RegistryUnavailable", &[silent, "tried 3 times"]);
    let answer = resolve(Duration::from_secs(3), 100).await;
    check(answer, "RegistryUnavailable", &[silent, "within 3 s"]);
}

fn password() -> Login {
    Login::Password {
        username: "user".into(),
        password: "secret".into(),
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_carries_no_authorisation() {
    let storage = Fake::start("127.0.0.2", |_| ok("x", LAYER_BYTES)).await;
    let location = format!("location: http://{}/blob?signed=1\r\n", storage.address);
    let fake = with(manifest(), move |seen| {
        if seen.authorization().is_none() {
            return Some(status(401, "www-authenticate: Basic realm=\"a\"\r\n"));
        }
        is_layer(seen).then(|| status(307, &location))
    })
    .await;
    let credentials = Credentials::login(&fake.address, password());
    let artifact = fake
        .registry()
        .pull(&fake.pinned(&manifest()), &credentials, MIB)
        .await
        .unwrap();
    assert_eq!(artifact.component, LAYER_BYTES);
    let [seen] = &storage.seen()[..] else {
        panic!("one request")
    };
    assert!(
        seen.has("/blob?signed=1") && seen.authorization().is_none(),
        "{seen:?}"
    );
    assert!(
        fake.seen()
            .iter()
            .filter(|seen| seen.authorization().is_some())
            .count()
            >= 3
    );
}

#[tokio::test]
async fn redirects_end_and_do_not_lead_where_numo_does_not_go() {
    let lead = async |to: &'static str| {
        let fake = with(manifest(), move |seen| {
            is_layer(seen).then(|| status(302, &format!("location: {to}\r\n")))
        })
        .await;
        fake.pull(&manifest()).await
    };
    check(lead("").await, "NotAllowed", &["more than 5 redirects"]);
    check(
        lead("http://registry.example.com/x").await,
        "NotAllowed",
        &["leads to http://registry.example.com"],
    );
    check(lead("file:///etc/passwd").await, "NotAllowed", &["leads to file"]);
    check(
        lead("https://169.254.169.254/x").await,
        "NotAllowed",
        &["link-local"],
    );
    let registry = Registry::new(Setup::default()).unwrap();
    let metadata: Reference = "169.254.169.254/team/rule:1".parse().unwrap();
    check(
        registry.resolve(&metadata, &Credentials::none()).await,
        "NotAllowed",
        &["link-local"],
    );
}

#[tokio::test]
async fn tokens_are_fetched_for_this_repository_and_sent() {
    let guarded = |seen: &Seen| {
        if seen.has("/token") {
            let expected = ["scope=repository%3Ateam%2Frule%3Apull", "service=reg"];
            let asked = format!("{}{}", seen.line, seen.body);
            let good = expected.iter().all(|one| asked.contains(one));
            let known = seen.authorization() == Some("Basic dXNlcjpzZWNyZXQ=")
                || seen.body.contains("refresh_token=idt");
            let token = ok("application/json", br#"{"access_token":"abc"}"#);
            return Some(if good && known { token } else { status(401, "") });
        }
        if seen.authorization() == Some("Bearer abc") {
            return None;
        }
        let host = seen
            .head
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .unwrap_or_default();
        Some(status(
            401,
            &format!("www-authenticate: Bearer realm=\"http://{host}/token\",service=\"reg\"\r\n"),
        ))
    };
    let fake = with(manifest(), guarded).await;
    let resolve = async |login| {
        let credentials = Credentials::login(&fake.address, login);
        fake.registry().resolve(&fake.tag(), &credentials).await
    };
    resolve(password()).await.unwrap();
    resolve(Login::IdentityToken("idt".into())).await.unwrap();
    check(
        resolve(Login::IdentityToken("old".into())).await,
        "Unauthorised",
        &["a token", "an identity token"],
    );
    check(fake.resolve().await, "Unauthorised", &["no credentials"]);
    // One token for a whole pull.
    let before = fake.seen().len();
    let credentials = Credentials::login(&fake.address, password());
    fake.registry()
        .pull(&fake.pinned(&manifest()), &credentials, MIB)
        .await
        .unwrap();
    let tokens = fake.seen()[before..]
        .iter()
        .filter(|seen| seen.has("/token"))
        .count();
    assert_eq!(tokens, 1);
}

#[tokio::test]
async fn a_token_server_without_end_or_token_is_refused() {
    for (endless, reason) in [(true, "TooLarge"), (false, "Malformed")] {
        let fake = with(manifest(), move |seen| {
            if seen.has("/token") {
                return Some(if endless {
                    Say::Endless("x".into())
                } else {
                    ok("x", b"{}")
                });
            }
            Some(status(401, "www-authenticate: Bearer realm=\"/token\"\r\n"))
        })
        .await;
        check(fake.resolve().await, reason, &["token"]);
    }
}

#[tokio::test]
async fn the_proxy_is_used_and_told_who_asks() {
    let manifest = manifest();
    let served = manifest.clone();
    let proxy = Fake::start("127.0.0.1", move |_| ok(MANIFEST, &served)).await;
    let url = format!("http://me:pass%2Bword@{}", proxy.address)
        .parse()
        .unwrap();
    let proxies = Proxies {
        http: Some(url),
        ..Proxies::default()
    };
    let plain = vec!["registry.invalid:5000".to_owned()];
    let tag: Reference = "registry.invalid:5000/team/rule:1".parse().unwrap();
    let registry = Registry::new(Setup {
        proxies,
        plain,
        ..proxy.setup()
    })
    .unwrap();
    let found = registry.resolve(&tag, &Credentials::none()).await.unwrap();
    assert_eq!(found.digest, Digest::of(&manifest));
    let [seen] = &proxy.seen()[..] else {
        panic!("one request")
    };
    assert!(
        seen.has("GET http://registry.invalid:5000/v2/team/rule/manifests/1"),
        "{seen:?}"
    );
    assert!(
        seen.head.contains("proxy-authorization: Basic bWU6cGFzcyt3b3Jk"),
        "{seen:?}"
    );
    // For TLS it is asked for a tunnel, and here refuses.
    let refusing = Fake::start("127.0.0.1", |_| status(407, "")).await;
    let proxies = Proxies {
        https: format!("http://{}", refusing.address).parse().ok(),
        ..Proxies::default()
    };
    let registry = Registry::new(Setup {
        proxies,
        ..refusing.setup()
    })
    .unwrap();
    check(
        registry.resolve(&tag, &Credentials::none()).await,
        "RegistryUnavailable",
        &["proxy", "407"],
    );
    assert!(refusing.seen()[0].has("CONNECT registry.invalid:5000"));
}

#[tokio::test]
async fn a_registry_that_is_written_as_an_address_is_judged_before_a_proxy_is_asked() {
    let proxy = Fake::start("127.0.0.1", |_| status(403, "")).await;
    let at = format!("http://{}", proxy.address);
    let proxies = Proxies {
        https: at.parse().ok(),
        http: at.parse().ok(),
        ..Proxies::default()
    };
    let registry = Registry::new(Setup {
        proxies: proxies.clone(),
        cluster: vec!["10.0.0.0/8".parse().unwrap()],
        plain: vec!["169.254.169.254:80".to_owned()],
        ..proxy.setup()
    })
    .unwrap();
    let resolve = async |registry_at: &str| {
        let tag: Reference = format!("{registry_at}/team/rule:1").parse().unwrap();
        registry.resolve(&tag, &Credentials::none()).await
    };
    for (at, why) in [
        ("169.254.169.254", "link-local"),
        ("169.254.169.254:80", "link-local"),
        ("100.100.100.200", "metadata"),
        ("224.0.0.1", "multicast"),
        ("10.1.2.3", "of the cluster"),
    ] {
        check(resolve(at).await, "NotAllowed", &[why]);
    }
    // Where a registry leads, too.
    let fake = with(manifest(), |seen| {
        is_layer(seen).then(|| status(302, "location: https://169.254.169.254/x\r\n"))
    })
    .await;
    let leading = Registry::new(Setup {
        proxies,
        ..fake.setup()
    })
    .unwrap();
    let pulled = leading
        .pull(&fake.pinned(&manifest()), &Credentials::none(), MIB)
        .await;
    check(pulled, "NotAllowed", &["link-local"]);
    assert!(proxy.seen().is_empty(), "{:?}", proxy.seen());
    // What is no address goes to the proxy.
    check(
        resolve("registry.invalid").await,
        "RegistryUnavailable",
        &["proxy", "403"],
    );
    assert!(proxy.seen()[0].has("CONNECT registry.invalid:443"));
}

#[tokio::test]
async fn a_named_registry_leads_inside_only_to_what_is_named_too() {
    // Whatever is not refused before goes to the proxy, which says so.
    let proxy = Fake::start("127.0.0.1", |_| status(403, "")).await;
    let proxies = Proxies {
        https: format!("http://{}", proxy.address).parse().ok(),
        ..Proxies::default()
    };
    let setup = |fake: &Fake| Setup {
        proxies: proxies.clone(),
        cluster: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
        inside: vec![
            fake.address.clone(),
            "10.9.9.9:8443".to_owned(),
            "10.9.9.8".to_owned(),
        ],
        only_named_loopback: true,
        ..fake.setup()
    };
    let redirects = async |to: &str| {
        let location = format!("location: {to}\r\n");
        let fake = with(manifest(), move |seen| {
            is_layer(seen).then(|| status(302, &location))
        })
        .await;
        let registry = Registry::new(setup(&fake)).unwrap();
        let pinned = fake.pinned(&manifest());
        registry
            .pull(&pinned, &Credentials::none(), MIB)
            .await
            .map(|_| ())
    };
    let names_a_realm = async |realm: &str| {
        let challenge = format!("www-authenticate: Bearer realm=\"{realm}\"\r\n");
        let fake = with(manifest(), move |_| Some(status(401, &challenge))).await;
        let registry = Registry::new(setup(&fake)).unwrap();
        let credentials = Credentials::login(&fake.address, Login::IdentityToken("idt".into()));
        registry.resolve(&fake.tag(), &credentials).await.map(|_| ())
    };
    for inside in [
        "https://10.1.2.3/x",
        "https://10.9.9.9/x",
        "https://10.9.9.8:8443/x",
        "https://[fd00::5]/x",
        "https://[64:ff9b::a01:203]/x",
    ] {
        let says = ["of the cluster", "--registries"];
        check(redirects(inside).await, "NotAllowed", &says);
        check(names_a_realm(inside).await, "NotAllowed", &says);
    }
    // Of this machine, only the registry itself.
    check(
        redirects("https://127.0.0.2/x").await,
        "NotAllowed",
        &["loopback"],
    );
    check(
        names_a_realm("https://127.0.0.2/x").await,
        "NotAllowed",
        &["loopback"],
    );
    // A registry that is not named leads to none, though that be named.
    let fake = with(manifest(), |seen| {
        is_layer(seen).then(|| status(302, "location: https://10.9.9.9:8443/x\r\n"))
    })
    .await;
    let registry = Registry::new(Setup {
        inside: vec!["10.9.9.9:8443".to_owned()],
        only_named_loopback: false,
        ..setup(&fake)
    })
    .unwrap();
    let pulled = registry
        .pull(&fake.pinned(&manifest()), &Credentials::none(), MIB)
        .await;
    check(pulled, "NotAllowed", &["of the cluster"]);
    assert!(proxy.seen().is_empty(), "{:?}", proxy.seen());
    // What is public, and what is named, it may lead to.
    for (open, tunnel) in [
        ("https://192.0.2.7/x", "CONNECT 192.0.2.7:443"),
        ("https://cdn.example/x", "CONNECT cdn.example:443"),
        ("https://10.9.9.9:8443/x", "CONNECT 10.9.9.9:8443"),
        ("https://10.9.9.8/x", "CONNECT 10.9.9.8:443"),
    ] {
        check(redirects(open).await, "RegistryUnavailable", &["proxy", "403"]);
        check(
            names_a_realm(open).await,
            "RegistryUnavailable",
            &["proxy", "403"],
        );
        let seen = proxy.seen();
        let asked = seen.iter().filter(|seen| seen.has(tunnel)).count();
        // Each of them three times.
        assert_eq!(asked, 6, "{tunnel}: {seen:?}");
    }
}

#[tokio::test]
async fn a_named_registry_leads_to_its_own_host() {
    let storage = Fake::start("127.0.0.1", |_| ok("x", LAYER_BYTES)).await;
    let location = format!("location: http://{}/blob\r\n", storage.address);
    let fake = with(manifest(), move |seen| {
        is_layer(seen).then(|| status(307, &location))
    })
    .await;
    let registry = Registry::new(Setup {
        inside: vec![fake.address.clone()],
        cluster: vec!["10.0.0.0/8".parse().unwrap()],
        only_named_loopback: true,
        ..fake.setup()
    })
    .unwrap();
    let pinned = fake.pinned(&manifest());
    let pulled = registry.pull(&pinned, &Credentials::none(), MIB).await;
    assert_eq!(pulled.unwrap().component, LAYER_BYTES);
    assert_eq!(storage.seen().len(), 1);
}

#[tokio::test]
async fn a_registry_that_fails_at_signatures_is_unavailable_and_not_without_them() {
    let finding = async |odd: fn(&Seen) -> Option<Say>| {
        let fake = with(manifest(), odd).await;
        let found = fake
            .registry()
            .signatures(&fake.pinned(&manifest()), &Credentials::none())
            .await;
        (found, fake)
    };
    let (none, _) = finding(|_| None).await;
    assert_eq!(none, Ok(Vec::new()));
    let places: [fn(&Seen) -> Option<Say>; 3] = [
        |seen| seen.has(".sig ").then(|| status(503, "")),
        |seen| seen.has("/referrers/").then(|| status(503, "")),
        |seen| (seen.has("/manifests/sha256-") && !seen.has(".sig")).then(|| status(503, "")),
    ];
    for odd in places {
        let (error, _) = finding(odd).await;
        let error = error.unwrap_err();
        assert!(
            matches!(&error, SignatureError::Registry(inner) if inner.reason() == "RegistryUnavailable"),
            "{error}"
        );
    }
    // A bundle that is listed but not to be had by a failing registry.
    let (error, _) = finding(|seen| {
        let one =
            json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor(MANIFEST, b"a bundle")]});
        if seen.has("/referrers/") {
            return Some(ok(INDEX, one.to_string().as_bytes()));
        }
        seen.has(Digest::of(b"a bundle").as_str())
            .then(|| status(500, ""))
    })
    .await;
    assert_eq!(error.unwrap_err().reason(), "RegistryUnavailable");
}

#[tokio::test]
async fn no_more_than_twenty_referrers_are_looked_at_and_none_that_is_large() {
    let many = |seen: &Seen| {
        let one = |number: u32| descriptor(MANIFEST, number.to_string().as_bytes());
        let mut all: Vec<_> = (0..500).map(one).collect();
        all[0]["size"] = json!(64 * 1024 + 1);
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": all});
        seen.has("/referrers/")
            .then(|| ok(INDEX, index.to_string().as_bytes()))
    };
    let fake = with(manifest(), many).await;
    let found = fake
        .registry()
        .signatures(&fake.pinned(&manifest()), &Credentials::none())
        .await
        .unwrap();
    assert!(found.is_empty());
    let asked = fake
        .seen()
        .iter()
        .filter(|seen| seen.has("/manifests/sha256:"))
        .count();
    assert_eq!(asked, 19);
    assert!(!fake.seen().iter().any(|seen| seen.has(Digest::of(b"0").as_str())));
}
