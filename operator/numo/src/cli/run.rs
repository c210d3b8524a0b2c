//! `numo run`: the operator.

use super::{CliError, ClusterArgs};
use crate::shell::{client, operator};
use clap::{Args, ValueEnum};
use numo_core::observed::Settings;
use std::net::SocketAddr;
use tokio::sync::watch;

/// Namespace numo runs in if nothing says otherwise: the one the replaced operator's manifests name.
pub const DEFAULT_NAMESPACE: &str = "node-upgrade-mutex-operator";

/// Arguments of `numo run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the operator: of its lease, and where MutexRunConfigs are honoured
    #[arg(short, long, env = "NUMO_NAMESPACE", value_name = "NS", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// Further namespaces in which MutexRunConfigs are honoured, separated by commas
    #[arg(long, env = "NUMO_RUN_NAMESPACES", value_name = "NS,…", value_delimiter = ',')]
    run_namespaces: Vec<String>,
    /// Address that serves /healthz, /readyz and /metrics; "off" serves nothing
    #[arg(
        long,
        env = "NUMO_METRICS_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080"
    )]
    metrics_address: String,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Json,
    Text,
}

/// Runs the operator until SIGTERM or SIGINT.
pub async fn run(args: RunArgs) -> Result<(), CliError> {
    start_log(&args)?;
    let metrics_address = match args.metrics_address.as_str() {
        "off" | "" => None,
        text => Some(text.parse::<SocketAddr>().map_err(|error| {
            CliError::Wrong(format!(
                "--metrics-address {text}: {error}; wanted an address such as 127.0.0.1:8080, or off"
            ))
        })?),
    };
    let config = client::configuration(
        args.cluster.kubeconfig.as_deref(),
        args.cluster.context.as_deref(),
    )
    .await?;
    let connection = client::connect(config, &format!("numo/{}", env!("CARGO_PKG_VERSION")))?;
    let settings = Settings {
        namespace: args.namespace,
        run_namespaces: args
            .run_namespaces
            .into_iter()
            .filter(|namespace| !namespace.is_empty())
            .collect(),
        leases_unavailable: None,
    };
    let options = operator::Options {
        settings,
        metrics_address,
        identity: args.identity.unwrap_or_else(identity),
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
    operator::run(connection, options, stopped).await?;
    Ok(())
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

fn start_log(args: &RunArgs) -> Result<(), CliError> {
    let filter = tracing_subscriber::EnvFilter::try_new(&args.log)
        .map_err(|error| CliError::Wrong(format!("--log {}: {error}", args.log)))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match args.log_format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.try_init(),
    };
    started.map_err(|error| CliError::Wrong(format!("cannot log: {error}")))
}
