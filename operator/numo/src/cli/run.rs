//! `numo run`: the operator.

use super::{cluster::KubeconfigArgs, error::CliError, say};
use crate::shell::{
    channel::ChannelOptions,
    client,
    eval::artifact::ArtifactOptions,
    eval::evaluator::{EvaluatorOptions, PrometheusServer},
    eval::signers::SignerFiles,
    operator, told,
    webhook::{WebhookCerts, WebhookOptions},
};
use clap::{Args, ValueEnum};
use numo_cli::files::read;
use numo_core::{
    observed::{Key, PlanJobSettings, Settings},
    owners::plan::duration_millis,
};
use numo_plugin::{
    address::{AddressRange, Networks},
    fetch::authorities,
    oci::Proxies,
    signature::Identity,
};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tokio::sync::watch;

/// Namespace numo runs in if nothing says otherwise: the one the replaced operator's manifests name.
pub const DEFAULT_NAMESPACE: &str = "node-upgrade-mutex-operator";

/// The variable that lets images of rules be in a registry on this machine.
pub(super) const REGISTRIES_ON_LOOPBACK: &str = "NUMO_REGISTRIES_ON_LOOPBACK";

/// Arguments of `numo run`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct RunArgs {
    #[command(flatten)]
    cluster: KubeconfigArgs,
    /// Namespace of the operator: of its lease, and where MutexRunConfigs are honoured
    #[arg(short, long, env = "NUMO_NAMESPACE", value_name = "NS", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// ServiceAccount of the operator in that namespace: no rule may run a Job as it
    #[arg(
        long,
        env = "NUMO_SERVICE_ACCOUNT",
        value_name = "NAME",
        default_value = "numo"
    )]
    service_account: String,
    /// Further namespaces in which MutexRunConfigs are honoured, separated by commas
    #[arg(long, env = "NUMO_RUN_NAMESPACES", value_name = "NS,…", value_delimiter = ',')]
    run_namespaces: Vec<String>,
    /// Namespaces besides the operator's in which Plans are honoured, separated by commas
    #[arg(
        long,
        env = "NUMO_PLAN_NAMESPACES",
        value_name = "NS,…",
        value_delimiter = ',',
        default_value = told::PLAN_NAMESPACES
    )]
    plan_namespaces: Vec<String>,
    #[command(flatten)]
    plans: PlanArgs,
    /// Address that serves /healthz, /readyz and /metrics; "off" serves nothing
    #[arg(
        long,
        env = "NUMO_METRICS_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080"
    )]
    metrics_address: String,
    /// Address of probes alone, or off: then the kubelet asks where metrics are
    #[arg(
        long,
        env = "NUMO_PROBE_ADDRESS",
        value_name = "ADDRESS",
        default_value = "off"
    )]
    probe_address: String,
    /// Where the certificate of the webhook of NodeMaintenances comes from: "self" makes one, a folder holds tls.crt and
    /// tls.key, "off" serves no webhook
    #[arg(
        long,
        env = "NUMO_WEBHOOK_CERTS",
        value_name = "self|FOLDER|off",
        default_value = "off"
    )]
    webhook_certs: String,
    /// Address that serves the webhook
    #[arg(
        long,
        env = "NUMO_WEBHOOK_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:9443"
    )]
    webhook_address: SocketAddr,
    /// Folder that keeps components of rules and their compiled forms; "off" keeps none [default: a private folder
    /// under the folder for temporary files]
    #[arg(long, env = "NUMO_CACHE_DIR", value_name = "FOLDER")]
    cache_dir: Option<PathBuf>,
    /// Public keys as PEM: one of them must have signed the component of every rule [default: none is asked for]
    #[arg(long, env = "NUMO_RULE_KEYS", value_name = "FILE")]
    rule_keys: Option<PathBuf>,
    /// Keyless signers, compared exactly: one of them may have signed instead of a key
    #[arg(
        long,
        env = "NUMO_RULE_IDENTITIES",
        value_name = "ISSUER,SUBJECT;…",
        value_delimiter = ';',
        requires = "sigstore_trusted_root"
    )]
    rule_identities: Vec<String>,
    /// Sigstore's trusted_root.json: who vouches for keyless signers, of rules too [default: nobody, so that a rule that
    /// asks for one does not run]
    #[arg(long, env = "NUMO_SIGSTORE_TRUSTED_ROOT", value_name = "FILE")]
    sigstore_trusted_root: Option<PathBuf>,
    /// Do not start unless --rule-keys or --rule-identities ask for signatures of components. Rules of type cel and
    /// prometheus carry none
    #[arg(
        long,
        env = "NUMO_REQUIRE_SIGNATURES",
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    require_signatures: bool,
    /// Certificates as PEM of authorities that registries may show, beside the system's
    #[arg(long, env = "NUMO_REGISTRY_CA", value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// Registries, or paths in them, that components of rules may be from, inside the cluster too [default: any at an address outside --cluster-networks]
    #[arg(
        long,
        env = "NUMO_REGISTRIES",
        value_name = "HOST[:PORT][/PATH],…",
        value_delimiter = ','
    )]
    registries: Vec<String>,
    /// Registries that are spoken to in plain HTTP; loopback may be without being named
    #[arg(
        long,
        env = "NUMO_PLAIN_REGISTRIES",
        value_name = "HOST:PORT,…",
        value_delimiter = ','
    )]
    plain_registries: Vec<String>,
    /// Prometheus that rules may be lent, for example https://thanos-querier.openshift-monitoring.svc:9091
    #[arg(long, env = "NUMO_PROMETHEUS_URL", value_name = "URL")]
    prometheus_url: Option<url::Url>,
    /// File with the bearer token for Prometheus, read anew for each query
    #[arg(
        long,
        env = "NUMO_PROMETHEUS_TOKEN_FILE",
        value_name = "FILE",
        requires = "prometheus_url"
    )]
    prometheus_token_file: Option<PathBuf>,
    /// Certificates as PEM of authorities that Prometheus may show, beside the system's
    #[arg(
        long,
        env = "NUMO_PROMETHEUS_CA",
        value_name = "FILE",
        requires = "prometheus_url"
    )]
    prometheus_ca: Option<PathBuf>,
    /// Addresses of pods, services and nodes: rules reach them, and registries there that no administrator named, only if
    /// their namespace may
    #[arg(
        long,
        env = "NUMO_CLUSTER_NETWORKS",
        value_name = "RANGE,…",
        value_delimiter = ',',
        default_value = told::CLUSTER_NETWORKS
    )]
    cluster_networks: Vec<AddressRange>,
    /// Rules may read Secrets that their grants name, if their ServiceAccount may read them. What a rule says of one is in
    /// events, journals and logs: set it only where authors of rules are trusted with that
    #[arg(
        long,
        env = "NUMO_RULES_READ_SECRETS",
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    rules_read_secrets: bool,
    /// Grants of rules may name loopback: numo's own machine. For tests; nothing else opens it
    #[arg(
        long,
        env = "NUMO_RULES_REACH_LOOPBACK",
        hide = true,
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    rules_reach_loopback: bool,
    /// Images of rules may be in a registry on numo's own machine. For tests; a registry that a flag or a mirror set of the
    /// cluster names is reached anyway
    #[arg(
        long,
        env = REGISTRIES_ON_LOOPBACK,
        hide = true,
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    registries_on_loopback: bool,
    /// Name of this instance in leases and events [default: host name and process id]
    #[arg(long, env = "NUMO_IDENTITY", value_name = "NAME")]
    identity: Option<String>,
    /// What is logged, for example "info" or "numo=debug,kube=warn"
    #[arg(long, env = "NUMO_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
    /// How it is logged
    #[arg(long, env = "NUMO_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    log_format: LogFormat,
}

/// How Plans are treated. The environment variables are those of system-upgrade-controller: its ConfigMap
/// `default-controller-env` serves here too.
#[derive(Debug, Args)]
#[allow(clippy::struct_field_names, reason = "each is the name of a flag")]
struct PlanArgs {
    /// Name in the label upgrade.cattle.io/controller of Jobs, and component of the events of Plans
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_CONTROLLER_NAME",
        value_name = "NAME",
        default_value = "system-upgrade-controller"
    )]
    plan_controller_name: String,
    /// How often channels are asked, for example 15m; a minute and less counts as 15m
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_PLAN_POLLING_INTERVAL",
        value_name = "DURATION",
        default_value = "15m"
    )]
    plan_polling_interval: String,
    /// Certificates as PEM of authorities that channels may show, beside the system's
    #[arg(long, env = "NUMO_PLAN_CHANNEL_CA", value_name = "FILE")]
    plan_channel_ca: Option<PathBuf>,
    /// activeDeadlineSeconds of Jobs whose Plan says nothing
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_ACTIVE_DEADLINE_SECONDS",
        value_name = "SECONDS",
        default_value_t = 600,
        value_parser = number::<600>
    )]
    plan_job_active_deadline_seconds: i64,
    /// The most that activeDeadlineSeconds may be; 0 is without limit
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_ACTIVE_DEADLINE_SECONDS_MAX",
        value_name = "SECONDS",
        default_value_t = 0,
        value_parser = number::<0>
    )]
    plan_job_active_deadline_seconds_max: i64,
    /// backoffLimit of Jobs
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_BACKOFF_LIMIT",
        value_name = "COUNT",
        default_value_t = 2,
        value_parser = number::<2>
    )]
    plan_job_backoff_limit: i64,
    /// Image that cordons and drains in Jobs
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_KUBECTL_IMAGE",
        value_name = "IMAGE",
        default_value = "rancher/kubectl:v1.30.3"
    )]
    plan_job_kubectl_image: String,
    /// The same on Windows nodes
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_KUBECTL_IMAGE_WINDOWS",
        value_name = "IMAGE",
        default_value = ""
    )]
    plan_job_kubectl_image_windows: String,
    /// Whether the container that upgrades is privileged
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_PRIVILEGED",
        value_name = "BOOL",
        default_value = "true",
        value_parser = yes_unless_empty,
        action = clap::ArgAction::Set
    )]
    plan_job_privileged: bool,
    /// imagePullPolicy in Jobs
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_IMAGE_PULL_POLICY",
        value_name = "POLICY",
        default_value = "IfNotPresent"
    )]
    plan_job_image_pull_policy: String,
    /// ttlSecondsAfterFinished of Jobs
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_TTL_SECONDS_AFTER_FINISH",
        value_name = "SECONDS",
        default_value_t = 900,
        value_parser = number::<900>
    )]
    plan_job_ttl_seconds_after_finish: i64,
    /// podReplacementPolicy of Jobs
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_POD_REPLACEMENT_POLICY",
        value_name = "POLICY",
        default_value = "TerminatingOrFailed"
    )]
    plan_job_pod_replacement_policy: String,
}

/// A whole number; a variable that is set to nothing counts as not set.
fn number<const DEFAULT: i64>(text: &str) -> Result<i64, std::num::ParseIntError> {
    if text.is_empty() {
        Ok(DEFAULT)
    } else {
        text.parse()
    }
}

fn yes_unless_empty(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "" | "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err("wanted true or false".to_owned()),
    }
}

impl PlanArgs {
    fn settings(&self) -> Result<PlanJobSettings, CliError> {
        let defaults = PlanJobSettings::default();
        let given = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        let text = &given(&self.plan_polling_interval, "15m");
        let millis = duration_millis(text).ok_or_else(|| {
            CliError::Wrong(format!(
                "--plan-polling-interval {text}: wanted a duration such as 15m"
            ))
        })?;
        Ok(PlanJobSettings {
            controller: given(&self.plan_controller_name, &defaults.controller),
            active_deadline_seconds: self.plan_job_active_deadline_seconds,
            active_deadline_seconds_max: self.plan_job_active_deadline_seconds_max,
            backoff_limit: self.plan_job_backoff_limit,
            kubectl_image: given(&self.plan_job_kubectl_image, &defaults.kubectl_image),
            kubectl_image_windows: self.plan_job_kubectl_image_windows.clone(),
            privileged: self.plan_job_privileged,
            image_pull_policy: given(&self.plan_job_image_pull_policy, &defaults.image_pull_policy),
            ttl_seconds_after_finished: self.plan_job_ttl_seconds_after_finish,
            pod_replacement_policy: given(
                &self.plan_job_pod_replacement_policy,
                &defaults.pod_replacement_policy,
            ),
            // As the reference has it, so that a slip does not storm a server.
            polling_seconds: if millis > 60_000 {
                millis / 1000
            } else {
                defaults.polling_seconds
            },
        })
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Json,
    Text,
}

/// Runs the operator until SIGTERM or SIGINT.
pub async fn run(args: RunArgs) -> Result<(), CliError> {
    start_log(&args)?;
    let metrics_address = address("--metrics-address", &args.metrics_address)?;
    let probe_address = address("--probe-address", &args.probe_address)?;
    let config = args.cluster.configuration().await?;
    let connection = client::connect(config, &format!("numo/{}", env!("CARGO_PKG_VERSION")))?;
    let identity = args.identity.unwrap_or_else(identity);
    let settings = Settings {
        // In a Deployment the name of the instance is that of its pod.
        own_pod: Some(Key::new(&args.namespace, &identity)),
        namespace: args.namespace,
        service_account: args.service_account,
        run_namespaces: args
            .run_namespaces
            .into_iter()
            .filter(|namespace| !namespace.is_empty())
            .collect(),
        plan_namespaces: args
            .plan_namespaces
            .into_iter()
            .filter(|namespace| !namespace.is_empty())
            .collect(),
        plan_jobs: args.plans.settings()?,
        only_looks: false,
        leases_unavailable: None,
    };
    let proxies = Proxies::from_env(|name| std::env::var(name).ok()).map_err(CliError::Wrong)?;
    let channels = ChannelOptions {
        authorities: match &args.plans.plan_channel_ca {
            None => Vec::new(),
            Some(path) => {
                let pem = read("--plan-channel-ca", path)?;
                authorities(&pem).map_err(|error| {
                    CliError::Wrong(format!("--plan-channel-ca {}: {error}", path.display()))
                })?;
                pem
            }
        },
        proxies: proxies.clone(),
    };
    let cache = match args.cache_dir {
        Some(folder) if folder.as_os_str() == "off" => None,
        Some(folder) => Some(folder),
        None => Some(std::env::temp_dir().join("numo-rules")),
    };
    let artifacts = ArtifactOptions {
        folder: cache.as_deref().map(beside),
        signers: signers(args.rule_keys, &args.rule_identities, args.sigstore_trusted_root)?,
        authorities: match &args.registry_ca {
            None => Vec::new(),
            Some(path) => read("--registry-ca", path)?,
        },
        allowed: args
            .registries
            .into_iter()
            .filter(|place| !place.is_empty())
            .collect(),
        plain: args.plain_registries,
        proxies,
        reach_loopback: args.registries_on_loopback,
    };
    if args.require_signatures {
        asks_for_signatures(&artifacts.signers)?;
    }
    let prometheus = match args.prometheus_url {
        None => None,
        Some(url) => Some(PrometheusServer {
            url,
            token: args.prometheus_token_file,
            authorities: match &args.prometheus_ca {
                None => Vec::new(),
                Some(path) => {
                    let pem = read("--prometheus-ca", path)?;
                    authorities(&pem).map_err(|error| {
                        CliError::Wrong(format!("--prometheus-ca {}: {error}", path.display()))
                    })?;
                    pem
                }
            },
        }),
    };
    let certs = match args.webhook_certs.as_str() {
        "off" => None,
        "self" => Some(WebhookCerts::SelfMade),
        folder => Some(WebhookCerts::Folder(PathBuf::from(folder))),
    };
    let options = operator::Options {
        webhook: certs.map(|certs| WebhookOptions {
            address: args.webhook_address,
            certs,
        }),
        settings,
        metrics_address,
        probe_address,
        identity,
        channels,
        evaluator: EvaluatorOptions {
            cache,
            artifacts,
            prometheus,
            cluster_networks: networks(args.cluster_networks),
            secrets: args.rules_read_secrets,
            reach_loopback: args.rules_reach_loopback,
        },
    };
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        signalled().await;
        tracing::info!("asked to stop");
        let _ = stop.send(true);
        // A second signal must not have to wait for the first to be done.
        signalled().await;
        std::process::exit(130);
    });
    // It holds the whole operator: on the stack it would be copied around.
    Box::pin(operator::run(connection, options, stopped)).await?;
    Ok(())
}

/// The networks that were given, and the address at which every pod finds the API server.
fn networks(mut given: Vec<AddressRange>) -> Networks {
    let server = std::env::var("KUBERNETES_SERVICE_HOST").ok();
    given.extend(server.and_then(|address| address.parse::<AddressRange>().ok()));
    Networks::of(given)
}

/// Keyless signers. What is set and names nobody is a slip, and no wish that anything may run.
fn identities(given: &[String]) -> Result<Vec<Identity>, CliError> {
    let wrong = |words: &str| CliError::Wrong(format!("--rule-identities: {words}"));
    let named = given.iter().filter(|one| !one.trim().is_empty());
    let all = named
        .map(|one| one.parse::<Identity>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(&error))?;
    if all.is_empty() && !given.is_empty() {
        return Err(wrong(
            "found nobody, wanted ISSUER,SUBJECT, or the flag and its variable left out",
        ));
    }
    Ok(all)
}

/// Whether anybody is named who must have signed a component.
fn asks_for_signatures(signers: &SignerFiles) -> Result<(), CliError> {
    if signers.ask() {
        return Ok(());
    }
    let words =
        "--require-signatures: found neither --rule-keys nor --rule-identities, wanted one of them at least";
    Err(CliError::Usage(words.to_owned()))
}

/// Who must have signed components. What is wrong with the files is said at once; later they are read anew.
fn signers(
    keys: Option<PathBuf>,
    given: &[String],
    trust_root: Option<PathBuf>,
) -> Result<SignerFiles, CliError> {
    let trust_root = trust_root.filter(|path| !path.as_os_str().is_empty());
    for (flag, path) in [("--rule-keys", &keys), ("--sigstore-trusted-root", &trust_root)] {
        if let Some(path) = path {
            read(flag, path)?;
        }
    }
    let signers = SignerFiles {
        keys,
        identities: identities(given)?,
        trust_root,
    };
    signers.read().map_err(CliError::Wrong)?;
    Ok(signers)
}

/// Where what was fetched is kept: beside the folder of what was compiled.
fn beside(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push("-fetched");
    name.into()
}

/// Waits for SIGTERM or SIGINT.
async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

fn identity() -> String {
    let host = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
        .map_or_else(|| "numo".to_owned(), |name| name.trim().to_owned());
    format!("{host}-{}", std::process::id())
}

/// Standard error, with what a stranger may have written made harmless: whoever reads a log reads it on a terminal.
#[derive(Debug)]
struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let words = String::from_utf8_lossy(bytes);
        io::stderr().write_all(logged(&words).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// What is written at once is one line: a line end within it is a stranger's, who would write lines of numo's own.
fn logged(words: &str) -> String {
    let (line, end) = match words.strip_suffix('\n') {
        Some(line) => (line, "\n"),
        None => (words, ""),
    };
    format!("{}{end}", say::json(line).replace('\n', "\\n"))
}

/// An address to serve on; none for `off`.
fn address(flag: &str, text: &str) -> Result<Option<SocketAddr>, CliError> {
    match text {
        "off" | "" => Ok(None),
        text => text.parse::<SocketAddr>().map(Some).map_err(|error| {
            CliError::Wrong(format!(
                "{flag} {text}: {error}; wanted an address such as 127.0.0.1:8080, or off"
            ))
        }),
    }
}

fn start_log(args: &RunArgs) -> Result<(), CliError> {
    // The client logs whole bodies that it cannot read, and they are strangers'.
    let quiet = if args.log.contains("kube_client") {
        ""
    } else {
        ",kube_client::client=error"
    };
    let filter = tracing_subscriber::EnvFilter::try_new(format!("{}{quiet}", args.log))
        .map_err(|error| CliError::Wrong(format!("--log {}: {error}", args.log)))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // What steers a terminal is escaped, whoever wrote it.
        .with_ansi(false)
        .with_writer(|| Log);
    let started = match args.log_format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.try_init(),
    };
    started.map_err(|error| CliError::Wrong(format!("cannot log: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_neither_steers_a_log_nor_writes_a_line_of_it() {
        let line = "INFO numo: a rule says\nERROR numo: \u{1b}[2Jforged\u{9b}\u{202e}\u{fe0f}\n";
        let logged = logged(line);
        assert_eq!(
            logged,
            "INFO numo: a rule says\\nERROR numo: \\u001b[2Jforged\\u009b\\u202e\\ufe0f\n"
        );
        assert_eq!(logged.lines().count(), 1);
    }

    #[test]
    fn identities_that_name_nobody_are_a_slip() {
        let of = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
            identities(&given)
                .map(|all| all.len())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&[]), Ok(0));
        assert_eq!(of(&["https://a,b", " "]), Ok(1));
        for nobody in [&[""][..], &[" ", ""]] {
            let why = of(nobody).unwrap_err();
            assert!(why.contains("--rule-identities: found nobody"), "{why}");
        }
        assert!(of(&["nobody"]).unwrap_err().contains("wanted ISSUER,SUBJECT"));
    }

    #[test]
    fn signatures_that_are_required_are_asked_of_somebody() {
        let of = |keys: Option<PathBuf>, given: &[String]| SignerFiles {
            keys,
            identities: identities(given).unwrap(),
            trust_root: Some("root.json".into()),
        };
        assert!(asks_for_signatures(&of(None, &["https://a,b".to_owned()])).is_ok());
        assert!(asks_for_signatures(&of(Some("keys.pem".into()), &[])).is_ok());
        let why = asks_for_signatures(&of(None, &[])).unwrap_err().to_string();
        assert!(
            why.contains("--rule-keys") && why.contains("--rule-identities"),
            "{why}"
        );
    }
}
