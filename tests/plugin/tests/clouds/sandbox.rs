//! A component in the real sandbox, credentials in files, and the way from there to a local server.

use async_trait::async_trait;
use http::{HeaderValue, header};
use jiff::Timestamp;
use numo_clouds::Loopback;
use numo_credentials::{Answer, Credentials, Exchange, NamedSource};
use numo_plugin::{
    Engine, RuleLimits, Services, Setup,
    provider::{
        Ask, Cloud, CloudRequest, Failed, Lent, MachineProvider, ProviderGrants, Said, Writer, signed_headers,
    },
    services::{ErrorCode, FetchResponse, HostError, Reader},
};
use numo_plugin_tests::{guest, services::Lines};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, Once, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tempfile::TempDir;
use url::{Url, form_urlencoded};

/// What is posted to a token endpoint.
pub type Form = BTreeMap<String, String>;

type Answers = Box<dyn Fn(&Form) -> (u16, Value) + Send + Sync>;

/// A token endpoint.
struct Tokens {
    answer: Answers,
    asked: AtomicUsize,
}

#[async_trait]
impl Exchange for Tokens {
    async fn post(&self, _: &Url, form: &str) -> Result<Answer, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let form = form_urlencoded::parse(form.as_bytes()).into_owned().collect();
        let (status, body) = (self.answer)(&form);
        let body = body.to_string().into_bytes();
        Ok(Answer { status, body })
    }
}

/// The credential `cloud` of an operator, and who gives tokens for it.
pub struct Keys {
    credentials: Arc<Credentials>,
    tokens: Arc<Tokens>,
    secrets: Vec<String>,
    _folder: TempDir,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.credentials, f)
    }
}

impl Keys {
    /// Of a kind of source, with its fields but for `file`: a file with this text. Whoever asks for a token gets the answer; nobody is to hear the
    /// secrets.
    pub fn new(
        (kind, mut source): (&str, Value),
        text: &str,
        secrets: Vec<String>,
        answer: impl Fn(&Form) -> (u16, Value) + Send + Sync + 'static,
    ) -> Self {
        listen();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credential");
        std::fs::write(&file, text).unwrap();
        source["file"] = json!(file);
        let named: NamedSource = serde_json::from_value(json!({"name": "cloud", kind: source})).unwrap();
        Self {
            credentials: Arc::new(Credentials::new([named]).unwrap()),
            tokens: Arc::new(Tokens {
                answer: Box::new(answer),
                asked: AtomicUsize::new(0),
            }),
            secrets,
            _folder: folder,
        }
    }

    /// What nobody is to hear.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(String::as_str)
    }

    /// How often a token was asked for.
    pub fn asked(&self) -> usize {
        self.tokens.asked.load(Ordering::Relaxed)
    }
}

/// Signs as the operator does, and sends to a local server.
struct Way {
    loopback: Loopback,
    credentials: Arc<Credentials>,
    tokens: Arc<Tokens>,
    sent: AtomicUsize,
}

#[async_trait]
impl Cloud for Way {
    async fn send(&self, request: CloudRequest) -> Result<FetchResponse, HostError> {
        let mut headers = signed_headers(&request, &self.credentials, &*self.tokens).await?;
        let CloudRequest {
            method, url, body, ..
        } = request;
        // The server's own name, as a connection to it has.
        let host = HeaderValue::from_str(url.host_str().unwrap_or_default()).unwrap();
        headers.push((header::HOST, host));
        self.sent.fetch_add(1, Ordering::Relaxed);
        let loopback = self.loopback.clone();
        let sending = tokio::task::spawn_blocking(move || {
            let headers = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes()));
            loopback.send((method.as_str(), url.as_str()), headers, body)
        });
        let answer = sending.await.unwrap();
        let answer = answer.map_err(|words| HostError::new(ErrorCode::Unavailable, words))?;
        Ok(FetchResponse {
            status: answer.status,
            headers: answer.headers,
            body: answer.body,
        })
    }
}

/// A component with all that it is lent.
pub struct Sandbox {
    provider: &'static MachineProvider,
    lent: Lent,
    way: Option<Arc<Way>>,
    reader: Option<Arc<dyn Reader>>,
    lines: Arc<Lines>,
}

impl Sandbox {
    /// With these settings and grants, a server and a credential.
    pub fn new(
        provider: &'static MachineProvider,
        config: &Value,
        grants: &Value,
        (address, keys): (SocketAddr, &Keys),
    ) -> Self {
        let way = Arc::new(Way {
            loopback: Loopback::to(address),
            credentials: keys.credentials.clone(),
            tokens: keys.tokens.clone(),
            sent: AtomicUsize::new(0),
        });
        let grants: ProviderGrants = serde_json::from_value(grants.clone()).unwrap();
        let lent = Lent {
            grants: Arc::new(grants),
            config_json: config.to_string().into(),
            cloud: Some(way.clone()),
            ..Lent::default()
        };
        Self {
            provider,
            lent,
            way: Some(way),
            reader: None,
            lines: Arc::default(),
        }
    }

    /// With these settings and grants, and objects that it reads and writes.
    pub fn among(
        provider: &'static MachineProvider,
        config: &Value,
        grants: &Value,
        objects: Arc<impl Reader + Writer + 'static>,
    ) -> Self {
        let grants: ProviderGrants = serde_json::from_value(grants.clone()).unwrap();
        let lent = Lent {
            grants: Arc::new(grants),
            config_json: config.to_string().into(),
            writer: Some(objects.clone()),
            ..Lent::default()
        };
        Self {
            provider,
            lent,
            way: None,
            reader: Some(objects),
            lines: Arc::default(),
        }
    }

    /// Asks, at this second.
    pub async fn ask(&self, ask: Ask, now: u64) -> Result<Said, Failed> {
        let now = Timestamp::from_second(i64::try_from(now).unwrap()).unwrap();
        let services = Services {
            log: self.lines.clone(),
            reader: self.reader.clone(),
            ..Services::none(now)
        };
        let lent = (self.lent.clone(), services);
        self.provider.ask(ask, &RuleLimits::default(), lent).await
    }

    /// Requests that went out.
    pub fn sent(&self) -> usize {
        let way = self.way.as_ref();
        way.map_or(0, |way| way.sent.load(Ordering::Relaxed))
    }

    /// Every line that the component wrote.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("{line:?}")).collect()
    }
}

/// A provider that ships, built and loaded.
pub async fn load(name: &str) -> MachineProvider {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Engine::new(Setup::default()).unwrap());
    let folder = guest::components(&[name]).await.unwrap();
    let bytes = std::fs::read(folder.join(format!("{name}.wasm"))).unwrap();
    engine.load_provider(&bytes).await.unwrap()
}

static TRACED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Traced;

impl io::Write for Traced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut traced = TRACED.lock().unwrap_or_else(PoisonError::into_inner);
        traced.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps whatever numo's crates would write to a log.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("numo_plugin=trace,numo_credentials=trace")
            .with_ansi(false)
            .with_writer(|| Traced)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// What numo's crates wrote so far, for all tests of this program.
pub fn traced() -> String {
    let traced = TRACED.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&traced).into_owned()
}
