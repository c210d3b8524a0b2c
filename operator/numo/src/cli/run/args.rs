//! The flags of `numo run`, and the variables that stand for them.

use crate::{
    cli::{
        cluster::ClusterArgs,
        error::CliError,
        place::{DEFAULT_NAMESPACE, REGISTRIES_ON_LOOPBACK},
    },
    shell::told,
};
use clap::{Args, ValueEnum};
use numo_core::{observed::PlanJobSettings, owners::plan::duration_millis};
use numo_plugin::address::AddressRange;
use std::{net::SocketAddr, path::PathBuf};

/// Who makes and deletes machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum MachineProvider {
    Off,
    Sim,
    Component,
}

/// Arguments of `numo run`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct RunArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Namespace of the operator: of its lease, and where MutexRunConfigs are watched
    #[arg(long, env = "NUMO_NAMESPACE", value_name = "NS", default_value = DEFAULT_NAMESPACE, short_alias = 'n')]
    pub(super) namespace: String,
    /// ServiceAccount of the operator in that namespace: no rule may run a Job as it
    #[arg(
        long,
        env = "NUMO_SERVICE_ACCOUNT",
        value_name = "NAME",
        default_value = "numo"
    )]
    pub(super) service_account: String,
    /// Further namespaces in which MutexRunConfigs are watched, separated by commas
    #[arg(long, env = "NUMO_RUN_NAMESPACES", value_name = "NS,…", value_delimiter = ',')]
    pub(super) run_namespaces: Vec<String>,
    /// Namespaces besides the operator's in which Plans are watched, separated by commas
    #[arg(
        long,
        env = "NUMO_PLAN_NAMESPACES",
        value_name = "NS,…",
        value_delimiter = ',',
        default_value = told::PLAN_NAMESPACES
    )]
    pub(super) plan_namespaces: Vec<String>,
    #[command(flatten)]
    pub(super) plans: PlanArgs,
    /// Who makes and deletes machines for NodeVersions: off replaces none, component is what --machine-provider-config says, sim plays
    /// machines with ConfigMaps, for demos
    #[arg(
        long,
        env = "NUMO_MACHINE_PROVIDER",
        value_name = "off|component|sim",
        default_value = "off",
        hide_possible_values = true
    )]
    pub(super) machine_provider: MachineProvider,
    /// File that says which component makes and deletes machines, and what it may reach. Read at the start
    #[arg(long, env = "NUMO_MACHINE_PROVIDER_CONFIG", value_name = "FILE")]
    pub(super) machine_provider_config: Option<PathBuf>,
    /// Folder with ca.crt, tls.crt and tls.key, mounted from a Secret: with them the member of etcd of a node of the control plane is taken
    /// out before its machine is deleted. Read again each time [default: no member is taken out]
    #[arg(long, env = "NUMO_ETCD_CERTS", value_name = "FOLDER")]
    pub(super) etcd_certs: Option<PathBuf>,
    /// Where etcd is asked for its members [default: port 2379 of the InternalIPs of the other nodes of the control plane]
    #[arg(
        long,
        env = "NUMO_ETCD_ENDPOINTS",
        value_name = "URL,…",
        value_delimiter = ',',
        requires = "etcd_certs"
    )]
    pub(super) etcd_endpoints: Vec<url::Url>,
    /// Address that serves /healthz, /readyz and /metrics; "off" serves nothing
    #[arg(
        long,
        env = "NUMO_METRICS_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080"
    )]
    pub(super) metrics_address: String,
    /// Address of probes alone, or off: then the kubelet asks where metrics are
    #[arg(
        long,
        env = "NUMO_PROBE_ADDRESS",
        value_name = "ADDRESS",
        default_value = "off"
    )]
    pub(super) probe_address: String,
    /// Where the certificate of the webhook of NodeMaintenances comes from: "self" makes one, a folder holds tls.crt and
    /// tls.key, "off" serves no webhook
    #[arg(
        long,
        env = "NUMO_WEBHOOK_CERTS",
        value_name = "self|FOLDER|off",
        default_value = "off"
    )]
    pub(super) webhook_certs: String,
    /// Address that serves the webhook
    #[arg(
        long,
        env = "NUMO_WEBHOOK_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:9443"
    )]
    pub(super) webhook_address: SocketAddr,
    /// Folder that keeps components of rules and their compiled forms; "off" keeps none [default: a private folder
    /// under the folder for temporary files]
    #[arg(long, env = "NUMO_CACHE_DIR", value_name = "FOLDER")]
    pub(super) cache_dir: Option<PathBuf>,
    /// Public keys as PEM: one of them must have signed the component of every rule [default: none is asked for]
    #[arg(long, env = "NUMO_RULE_KEYS", value_name = "FILE")]
    pub(super) rule_keys: Option<PathBuf>,
    /// Keyless signers, compared exactly: one of them may have signed instead of a key
    #[arg(
        long,
        env = "NUMO_RULE_IDENTITIES",
        value_name = "ISSUER,SUBJECT;…",
        value_delimiter = ';',
        requires = "sigstore_trusted_root"
    )]
    pub(super) rule_identities: Vec<String>,
    /// Sigstore's trusted_root.json: who vouches for keyless signers, of rules too [default: nobody, so that a rule that
    /// asks for one does not run]
    #[arg(long, env = "NUMO_SIGSTORE_TRUSTED_ROOT", value_name = "FILE")]
    pub(super) sigstore_trusted_root: Option<PathBuf>,
    /// Do not start unless --rule-keys or --rule-identities ask for signatures of components. Rules of type cel and
    /// prometheus carry none
    #[arg(
        long,
        env = "NUMO_REQUIRE_SIGNATURES",
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    pub(super) require_signatures: bool,
    /// File with the certificate authorities to trust for registries, as PEM, besides the system's
    #[arg(long, env = "NUMO_REGISTRY_CA", value_name = "FILE")]
    pub(super) registry_ca: Option<PathBuf>,
    /// Registries, or paths in them, that components of rules may be from, inside the cluster too [default: any at an address outside --cluster-networks]
    #[arg(
        long,
        env = "NUMO_REGISTRIES",
        value_name = "HOST[:PORT][/PATH],…",
        value_delimiter = ','
    )]
    pub(super) registries: Vec<String>,
    /// Registries to reach by plain HTTP; loopback addresses need not be named
    #[arg(
        long,
        env = "NUMO_PLAIN_REGISTRIES",
        value_name = "HOST:PORT,…",
        value_delimiter = ','
    )]
    pub(super) plain_registries: Vec<String>,
    /// Prometheus that rules may be granted, for example https://thanos-querier.openshift-monitoring.svc:9091
    #[arg(long, env = "NUMO_PROMETHEUS_URL", value_name = "URL")]
    pub(super) prometheus_url: Option<url::Url>,
    /// File with the bearer token for Prometheus, read again for each query
    #[arg(
        long,
        env = "NUMO_PROMETHEUS_TOKEN_FILE",
        value_name = "FILE",
        requires = "prometheus_url"
    )]
    pub(super) prometheus_token_file: Option<PathBuf>,
    /// File with the certificate authorities to trust for Prometheus, as PEM, besides the system's
    #[arg(
        long,
        env = "NUMO_PROMETHEUS_CA",
        value_name = "FILE",
        requires = "prometheus_url"
    )]
    pub(super) prometheus_ca: Option<PathBuf>,
    /// Receiver of traces (OTLP over HTTP, binary), for example http://otel-collector.observability.svc:4318; `/v1/traces` is added to its
    /// path. Without it no spans are sent
    #[arg(long, env = "NUMO_OTLP_ENDPOINT", value_name = "URL")]
    pub(super) otlp_endpoint: Option<url::Url>,
    /// File with the bearer token for the receiver of traces, read again for each request; it is sent by https only
    #[arg(
        long,
        env = "NUMO_OTLP_TOKEN_FILE",
        value_name = "FILE",
        requires = "otlp_endpoint"
    )]
    pub(super) otlp_token_file: Option<PathBuf>,
    /// File with the certificate authorities to trust for the receiver of traces, as PEM, besides the system's
    #[arg(long, env = "NUMO_OTLP_CA", value_name = "FILE", requires = "otlp_endpoint")]
    pub(super) otlp_ca: Option<PathBuf>,
    /// Addresses of pods, services and nodes: rules reach them, and registries there that no administrator named, only if
    /// their namespace may
    #[arg(
        long,
        env = "NUMO_CLUSTER_NETWORKS",
        value_name = "RANGE,…",
        value_delimiter = ',',
        default_value = told::CLUSTER_NETWORKS
    )]
    pub(super) cluster_networks: Vec<AddressRange>,
    /// Rules may read Secrets that their grants name, if their ServiceAccount may read them. What a rule says of one is in
    /// events, journals and logs: set it only where authors of rules are trusted with that
    #[arg(
        long,
        env = "NUMO_RULES_READ_SECRETS",
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    pub(super) rules_read_secrets: bool,
    /// Grants of rules may name loopback: numo's own machine. For tests; nothing else opens it
    #[arg(
        long,
        env = "NUMO_RULES_REACH_LOOPBACK",
        hide = true,
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    pub(super) rules_reach_loopback: bool,
    /// Images of rules may be in a registry on numo's own machine. For tests; a registry that a flag or a mirror set of the
    /// cluster names is reached anyway
    #[arg(
        long,
        env = REGISTRIES_ON_LOOPBACK,
        hide = true,
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    pub(super) registries_on_loopback: bool,
    /// Name of this instance in leases and events [default: host name and process id]
    #[arg(long, env = "NUMO_IDENTITY", value_name = "NAME")]
    pub(super) identity: Option<String>,
    /// What is logged, for example "info" or "numo=debug,kube=warn"
    #[arg(long, env = "NUMO_LOG", value_name = "FILTER", default_value = "info")]
    pub(super) log: String,
    /// How it is logged
    #[arg(long, env = "NUMO_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: LogFormat,
}

/// How Plans are treated. The environment variables are those of system-upgrade-controller: its ConfigMap
/// `default-controller-env` serves here too.
#[derive(Debug, Args)]
#[allow(clippy::struct_field_names, reason = "each is the name of a flag")]
pub(super) struct PlanArgs {
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
    /// File with the certificate authorities to trust for channels, as PEM, besides the system's
    #[arg(long, env = "NUMO_PLAN_CHANNEL_CA", value_name = "FILE")]
    pub(super) plan_channel_ca: Option<PathBuf>,
    /// activeDeadlineSeconds of Jobs whose Plan says nothing
    #[arg(
        long,
        env = "SYSTEM_UPGRADE_JOB_ACTIVE_DEADLINE_SECONDS",
        value_name = "SECONDS",
        default_value_t = 600,
        value_parser = number::<600>
    )]
    plan_job_active_deadline_seconds: i64,
    /// The most that activeDeadlineSeconds may be; 0: no limit
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
    pub(super) fn settings(&self) -> Result<PlanJobSettings, CliError> {
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
pub(super) enum LogFormat {
    Json,
    Text,
}
