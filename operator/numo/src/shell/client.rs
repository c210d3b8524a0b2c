//! Clients. The only folder that names `kube::Client` is this one.
//!
//! Writes go through a client that never retries by itself: a retried POST or a refused eviction that is
//! repeated for minutes is a decision nobody made.

use super::{clock::ServerClock, requests::Requests};
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use numo_plugin::oci::Proxies;
use std::{path::Path, time::Duration};

/// Oldest minor version of Kubernetes that is supported.
pub const OLDEST_MINOR: u32 = 31;

/// Where the cluster is.
#[derive(Clone)]
pub struct Connection {
    /// Client for reads and watches; it retries what is safe to retry.
    pub read: Client,
    /// Client for writes; it never retries.
    pub write: Client,
    /// The API server's time, learnt from both.
    pub clock: ServerClock,
    /// What requests of both cost, for whoever counts.
    pub requests: Requests,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Why no connection could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read or used.
    #[error("kubeconfig {path}: {problem}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it, without a line of it: tokens are in it.
        problem: String,
    },
    /// Neither a kubeconfig nor an in-cluster environment was found.
    #[error("found no kubeconfig, and this is not a pod: name one with --kubeconfig FILE or KUBECONFIG ({})", no_kubeconfig(.0))]
    Infer(kube::config::InferConfigError),
    /// What is wrong with `NO_PROXY`, which the library of the client reads by itself where there is a proxy.
    #[error(
        "NO_PROXY: {0}; wanted names, addresses and ranges with one comma between two of them, and none at the end"
    )]
    NoProxy(#[source] kube::config::NoProxyError),
    /// The configuration was found and cannot be used.
    #[error("cannot make a client: {0}")]
    Client(#[source] kube::Error),
}

/// Why there is no kubeconfig: what a person can do something about.
fn no_kubeconfig(error: &kube::config::InferConfigError) -> String {
    let source = std::error::Error::source(error);
    let problem = source.and_then(|source| source.downcast_ref::<KubeconfigError>());
    problem.map_or_else(|| "it cannot be read".to_owned(), problem_of)
}

/// What is wrong with a kubeconfig. The parser would show the lines around a fault, and with them whatever secret stands there.
fn problem_of(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => {
            format!("it is no YAML of a kubeconfig: {}", error.without_snippet())
        }
        other => other.to_string(),
    }
}

/// Reads the kubeconfig, or the pod's environment, or `$KUBECONFIG` and `~/.kube/config`. The pod's environment has no
/// contexts: options are about a kubeconfig.
pub async fn configuration(
    kubeconfig: Option<&Path>,
    options: &KubeConfigOptions,
) -> Result<Config, ConnectError> {
    let is_plain = options.context.is_none() && options.cluster.is_none() && options.user.is_none();
    let wrong = |path: String| {
        move |error| match error {
            KubeconfigError::ParseNoProxy(problem) => ConnectError::NoProxy(problem),
            other => ConnectError::Kubeconfig {
                path,
                problem: problem_of(&other),
            },
        }
    };
    let found = match kubeconfig {
        Some(path) => {
            let of_file = || wrong(path.display().to_string());
            let kubeconfig = Kubeconfig::read_from(path).map_err(of_file())?;
            Config::from_custom_kubeconfig(kubeconfig, options)
                .await
                .map_err(of_file())?
        }
        None => match Config::from_kubeconfig(options).await {
            Ok(mut config) => {
                if is_plain {
                    config.apply_debug_overrides();
                }
                config
            }
            Err(KubeconfigError::ParseNoProxy(problem)) => return Err(ConnectError::NoProxy(problem)),
            // Without one it is the environment of a pod, which has no proxy before its API server.
            Err(_) if is_plain => return Config::infer().await.map_err(ConnectError::Infer),
            Err(error) => return Err(wrong("of the environment".to_owned())(error)),
        },
    };
    Ok(around_the_proxy(found, |name| std::env::var(name).ok()))
}

/// kube takes `NO_PROXY` to be about proxies; for everybody else it is about where they lead: a proxy that the list names, as one of the own
/// domain, is gone through all the same.
fn around_the_proxy(mut config: Config, variable: impl Fn(&str) -> Option<String>) -> Config {
    let of_environment = ["HTTPS_PROXY", "https_proxy"].into_iter().filter_map(&variable);
    let mut of_environment = of_environment.filter_map(|proxy| proxy.parse::<http::Uri>().ok());
    let is_of_environment = |known: &http::Uri| of_environment.any(|proxy| proxy == *known);
    if config.proxy_url.as_ref().is_none_or(is_of_environment)
        && let Ok(proxies) = Proxies::from_env(variable)
        && let Some(host) = config.cluster_url.host()
    {
        let is_secure = config.cluster_url.scheme() != Some(&http::uri::Scheme::HTTP);
        let port = config.cluster_url.port_u16().unwrap_or(443);
        let proxy = proxies.for_host(host, port, is_secure);
        let known = config.proxy_url.take();
        config.proxy_url = proxy.and_then(|proxy| known.or_else(|| proxy.as_str().parse().ok()));
    }
    config
}

/// How long an API server may say nothing to a process that runs for months: longer than any watch lasts of which nothing is told.
const SILENT: Duration = Duration::from_secs(330);

/// The same for a process that runs for months: no answer is waited for without end. Where an API server, or what stands before it, is
/// gone without a word, whatever was asked over such a connection would hang for as long as the system likes.
#[must_use]
pub fn for_months(mut config: Config) -> Config {
    config.read_timeout = Some(SILENT);
    // It counts from when something is asked, not from when the connection was used last.
    config.reset_reader_on_write = true;
    config
}

/// Connects. `agent` names us in audit logs.
pub fn connect(mut config: Config, agent: &str) -> Result<Connection, ConnectError> {
    // A second call finds the provider installed: that is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    if let Ok(agent) = http::HeaderValue::from_str(agent) {
        config.headers.push((http::header::USER_AGENT, agent));
    }
    let (clock, requests) = (ServerClock::default(), Requests::default());
    let build = |config: Config| {
        Ok(ClientBuilder::try_from(config)
            .map_err(ConnectError::Client)?
            .with_layer(&clock)
            .with_layer(&requests)
            .build())
    };
    let read = build(config.clone())?;
    config.default_retry = false;
    let write = build(config)?;
    Ok(Connection {
        read,
        write,
        clock,
        requests,
    })
}

/// A client of an API server that answers a path with a status and a text.
#[cfg(test)]
pub(super) fn answering(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> Client {
    use kube::client::Body;
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (status, text) = answer(request.uri().path());
        let response = http::Response::builder().status(status);
        std::future::ready(response.body(Body::from(text.into_bytes())))
    });
    Client::new(service, "default")
}

/// Whether Kubernetes is older than numo supports (1.31).
pub fn is_too_old(version: &k8s_openapi::apimachinery::pkg::version::Info) -> bool {
    let digits: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    version.major == "1" && digits.parse::<u32>().is_ok_and(|minor| minor < OLDEST_MINOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_is_about_the_api_server_and_a_kubeconfigs_own_proxy_stays() {
        let proxy = "http://proxy.example:3128";
        let config = |server: &str| {
            let mut config = Config::new(server.parse().unwrap());
            config.proxy_url = Some(proxy.parse().unwrap());
            config
        };
        let environment = |name: &str| match name {
            "HTTPS_PROXY" => Some(proxy.to_owned()),
            "NO_PROXY" => Some("10.0.0.0/8,.inside,fd00::/8,[2001:db8::1]:6443".to_owned()),
            _ => None,
        };
        let found = |server: &str| around_the_proxy(config(server), environment).proxy_url;
        assert_eq!(found("https://10.0.0.5:6443"), None);
        assert_eq!(found("https://api.inside:6443"), None);
        assert_eq!(found("https://api.inside.:6443"), None);
        assert_eq!(found("https://[fd00::5]:6443"), None);
        assert_eq!(found("https://[2001:db8::1]:6443"), None);
        assert!(found("https://[2001:db8::2]:6443").is_some());
        assert!(found("https://api.example:6443").is_some());
        // kube leaves out a proxy that the list names; what the list does not name is reached by it all the same.
        let without = |server: &str, no_proxy: &'static str| {
            let bare = Config::new(server.parse().unwrap());
            let found = around_the_proxy(bare, |name| match name {
                "NO_PROXY" => Some(no_proxy.to_owned()),
                other => environment(other),
            });
            found.proxy_url.map(|proxy| proxy.host().map(str::to_owned))
        };
        let by_proxy = Some(Some("proxy.example".to_owned()));
        assert_eq!(without("https://api.elsewhere:6443", ".example"), by_proxy);
        assert_eq!(without("https://api.example:6443", ".example"), None);
        assert_eq!(without("http://127.0.0.1:8001", ".example"), None);
        let of_kubeconfig = around_the_proxy(config("https://10.0.0.5:6443"), |name| match name {
            "HTTPS_PROXY" => Some("http://another:1".to_owned()),
            other => environment(other),
        });
        assert!(of_kubeconfig.proxy_url.is_some());
    }

    #[tokio::test]
    async fn no_line_of_a_kubeconfig_is_told_with_what_is_wrong_in_it() {
        let folder = std::env::temp_dir().join(format!("numo-kubeconfig-{}", std::process::id()));
        let text =
            "apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user:\n    token: s3cret\n    exec: 5\n";
        std::fs::write(&folder, text).unwrap();
        let found = configuration(Some(&folder), &KubeConfigOptions::default()).await;
        std::fs::remove_file(&folder).unwrap();
        let said = found.unwrap_err();
        let sources = std::iter::successors(Some(&said as &dyn std::error::Error), |error| error.source());
        let said: Vec<String> = sources.map(ToString::to_string).collect();
        assert!(said[0].contains("line 7"), "{said:?}");
        assert!(!said.concat().contains("s3cret"), "{said:?}");
    }

    #[test]
    fn who_runs_for_months_waits_for_no_answer_without_end() {
        let config = for_months(Config::new("https://10.0.0.5:6443".parse().unwrap()));
        // A watch of which nothing is told lasts 290 seconds.
        assert!(
            config
                .read_timeout
                .is_some_and(|silent| silent > Duration::from_secs(290))
        );
        assert!(config.reset_reader_on_write);
    }

    #[test]
    fn a_list_that_the_client_cannot_read_is_told_as_such() {
        let problem = kube::config::NoProxyError::EmptyValue;
        let said = ConnectError::NoProxy(problem).to_string();
        assert!(
            said.starts_with("NO_PROXY: ") && said.contains("none at the end"),
            "{said}"
        );
    }
}
