//! `numo run`: the operator.

mod args;
mod log;
mod signers;

pub use self::args::{DEFAULT_NAMESPACE, REGISTRIES_ON_LOOPBACK, RunArgs};

use self::{
    log::start_log,
    signers::{asks_for_signatures, signers},
};
use crate::{
    cli::error::CliError,
    shell::{
        channel::ChannelOptions,
        client,
        eval::{
            artifact::ArtifactOptions,
            evaluator::{EvaluatorOptions, PrometheusServer},
        },
        operator,
        webhook::{WebhookCerts, WebhookOptions},
    },
};
use numo_cli::files::read;
use numo_core::observed::{Key, Settings};
use numo_plugin::{
    address::{AddressRange, Networks},
    fetch::authorities,
    oci::Proxies,
};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tokio::sync::watch;

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
