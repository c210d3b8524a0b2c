//! `numo run`: the operator.

mod args;
mod log;
mod signers;

pub use self::args::RunArgs;

use self::{
    args::MachineProvider,
    log::start_log,
    signers::{asks_for_signatures, signers},
};
use crate::{
    cli::error::CliError,
    shell::{
        channel::ChannelOptions,
        client,
        etcd::{Etcd, EtcdOptions},
        eval::{
            artifact::ArtifactOptions,
            evaluator::{EvaluatorOptions, PrometheusServer},
        },
        operator::{self, ProviderOption},
        planner::Explain,
        project,
        provider::config::ProviderConfig,
        traces::TraceOptions,
        webhook::{WebhookCerts, WebhookOptions},
    },
};
use numo_cli::files::read;
use numo_core::observed::{Key, Settings};
use numo_plugin::{
    address::{AddressRange, Networks},
    fetch::{Direct, FetchSetup, authorities},
    oci::Proxies,
};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::watch;
use url::Url;

#[cfg(test)]
impl RunArgs {
    /// How the cluster is reached.
    pub fn cluster(&self) -> &crate::cli::ClusterArgs {
        &self.cluster
    }

    /// The operator's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// Runs the operator until SIGTERM or SIGINT. `explain` says what people are told of an owner.
pub async fn run(args: RunArgs, explain: Explain) -> Result<(), CliError> {
    can_run(std::env::consts::OS)?;
    take_small_pages();
    start_log(&args)?;
    let metrics_address = address("--metrics-address", &args.metrics_address)?;
    let probe_address = address("--probe-address", &args.probe_address)?;
    let config = args.cluster.configuration().await?;
    let config = client::for_months(config);
    let connection = client::connect(config, &format!("numo/{}", env!("CARGO_PKG_VERSION")))?;
    let identity = args.identity.clone().unwrap_or_else(identity);
    let settings = settings(&args, &identity)?;
    let proxies = Proxies::from_env(|name| std::env::var(name).ok()).map_err(CliError::Wrong)?;
    let channels = ChannelOptions {
        authorities: trusted("--plan-channel-ca", args.plans.plan_channel_ca.as_deref())?,
        proxies: proxies.clone(),
    };
    let traces = traces(&args, &identity, &proxies)?;
    let evaluator = evaluator(&args, proxies)?;
    let provider = provider(&args)?;
    if !matches!(provider, ProviderOption::Off) {
        // Before anything is read: a NodeVersion may have new nodes get annotations that no decision reads.
        project::keep_copied();
    }
    let options = operator::Options {
        webhook: webhook(&args),
        settings,
        metrics_address,
        probe_address,
        identity,
        channels,
        provider,
        etcd: etcd(&args)?,
        traces,
        evaluator,
        explain,
    };
    let stopped = stopped_by_signal();
    // It holds the whole operator: on the stack it would be copied around.
    Box::pin(operator::run(connection, options, stopped)).await?;
    Ok(())
}

/// Takes memory in small pages, whatever the node's setting: a huge page is two MiB of which a few KiB are used, and each is zeroed first.
/// The children inherit it.
fn take_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "memory comes in huge pages where the node is set so");
    }
}

/// Whether the operator runs on this system: on others the processes that read strangers' rules cannot be shut in, and gates that ask
/// them would never open.
fn can_run(system: &str) -> Result<(), CliError> {
    if system == "linux" {
        return Ok(());
    }
    Err(CliError::Wrong(
        "run: the operator runs on Linux only, whose kernel shuts in the process that reads a rule (Landlock, seccomp); run it in a \
         cluster, or in a container or a virtual machine with Linux"
            .to_owned(),
    ))
}

/// What decisions are made with.
fn settings(args: &RunArgs, identity: &str) -> Result<Settings, CliError> {
    let named = |namespaces: &[String]| {
        let named = namespaces.iter().filter(|namespace| !namespace.is_empty());
        named.cloned().collect()
    };
    Ok(Settings {
        // In a Deployment the name of the instance is that of its pod.
        own_pod: Some(Key::new(&args.namespace, identity)),
        namespace: args.namespace.clone(),
        service_account: args.service_account.clone(),
        run_namespaces: named(&args.run_namespaces),
        plan_namespaces: named(&args.plan_namespaces),
        plan_jobs: args.plans.settings()?,
        only_looks: false,
        leases_unavailable: None,
        leases_refused: None,
    })
}

/// What rules are fetched, compiled and asked with.
fn evaluator(args: &RunArgs, proxies: Proxies) -> Result<EvaluatorOptions, CliError> {
    let cache = match &args.cache_dir {
        Some(folder) if folder.as_os_str() == "off" => None,
        Some(folder) => Some(folder.clone()),
        None => Some(std::env::temp_dir().join("numo-rules")),
    };
    let artifacts = artifacts(args, cache.as_deref().map(beside), proxies)?;
    if args.require_signatures {
        asks_for_signatures(&artifacts.signers)?;
    }
    Ok(EvaluatorOptions {
        cache,
        artifacts,
        prometheus: prometheus(args)?,
        cluster_networks: networks(args.cluster_networks.clone()),
        secrets: args.rules_read_secrets,
        reach_loopback: args.rules_reach_loopback,
    })
}

/// Where components come from, and who must have signed them. `folder`: where they are kept.
fn artifacts(args: &RunArgs, folder: Option<PathBuf>, proxies: Proxies) -> Result<ArtifactOptions, CliError> {
    let allowed = args.registries.iter().filter(|place| !place.is_empty());
    Ok(ArtifactOptions {
        folder,
        signers: signers(
            args.rule_keys.clone(),
            &args.rule_identities,
            args.sigstore_trusted_root.clone(),
        )?,
        authorities: match &args.registry_ca {
            None => Vec::new(),
            Some(path) => read("--registry-ca", path)?,
        },
        allowed: allowed.cloned().collect(),
        plain: args.plain_registries.clone(),
        proxies,
        reach_loopback: args.registries_on_loopback,
    })
}

/// The server that PrometheusQuery rules ask, if there is one.
fn prometheus(args: &RunArgs) -> Result<Option<PrometheusServer>, CliError> {
    let Some(url) = args.prometheus_url.clone() else {
        return Ok(None);
    };
    Ok(Some(PrometheusServer {
        url,
        token: args.prometheus_token_file.clone(),
        authorities: trusted("--prometheus-ca", args.prometheus_ca.as_deref())?,
    }))
}

/// Where spans go, if anywhere.
fn traces(args: &RunArgs, identity: &str, proxies: &Proxies) -> Result<Option<TraceOptions>, CliError> {
    let Some(mut url) = args.otlp_endpoint.clone() else {
        return Ok(None);
    };
    // The URL itself is not said again: it may have a password in it.
    let wrong = |wanted: &str| Err(CliError::Wrong(format!("--otlp-endpoint: wanted {wanted}")));
    let is_plain = url.scheme() == "http";
    if !is_plain && url.scheme() != "https" || url.host_str().is_none() {
        return wrong("a URL that begins with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("a URL without a user; --otlp-token-file has a token sent");
    }
    if is_plain && args.otlp_token_file.is_some() {
        return wrong("https:// with --otlp-token-file: a token is not sent in the clear");
    }
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    url.set_path(&path);
    let pem = trusted("--otlp-ca", args.otlp_ca.as_deref())?;
    let trusting = FetchSetup::trusting(&pem);
    let setup = FetchSetup {
        proxies: proxies.clone(),
        ..trusting.map_err(|error| CliError::Wrong(format!("--otlp-ca: {error}")))?
    };
    let direct = Direct::new(setup).map_err(|error| CliError::Wrong(format!("--otlp-endpoint: {error}")))?;
    Ok(Some(TraceOptions {
        url,
        token_file: args.otlp_token_file.clone(),
        direct: Arc::new(direct),
        instance: (identity.to_owned(), args.namespace.clone()),
    }))
}

/// How members are taken out of etcd, if they are.
fn etcd(args: &RunArgs) -> Result<Option<Etcd>, CliError> {
    let Some(certs) = args.etcd_certs.clone() else {
        return Ok(None);
    };
    let endpoints = args.etcd_endpoints.clone();
    // The URL itself is not said again: it may have a password in it.
    let is_plain =
        |url: &Url| url.scheme() != "https" || !url.username().is_empty() || url.password().is_some();
    if endpoints.iter().any(is_plain) {
        let wanted = "--etcd-endpoints: wanted URLs that begin with https://, without a user";
        return Err(CliError::Wrong(wanted.to_owned()));
    }
    let etcd = Etcd::new(EtcdOptions { certs, endpoints });
    etcd.map(Some).map_err(CliError::Wrong)
}

/// Who makes and deletes machines.
fn provider(args: &RunArgs) -> Result<ProviderOption, CliError> {
    let config = args.machine_provider_config.as_deref();
    match (args.machine_provider, config) {
        (MachineProvider::Off, None) => Ok(ProviderOption::Off),
        (MachineProvider::Sim, None) => Ok(ProviderOption::Sim),
        (MachineProvider::Component, Some(file)) => {
            let config = ProviderConfig::read(file);
            let config =
                config.map_err(|words| CliError::Wrong(format!("--machine-provider-config {words}")))?;
            Ok(ProviderOption::Component(Arc::new(config)))
        }
        (MachineProvider::Component, None) => Err(CliError::Wrong(
            "--machine-provider component: found no --machine-provider-config, wanted a file".to_owned(),
        )),
        (_, Some(_)) => Err(CliError::Wrong(
            "--machine-provider-config: wanted --machine-provider component beside it".to_owned(),
        )),
    }
}

/// Where NodeMaintenances are judged, unless that is off.
fn webhook(args: &RunArgs) -> Option<WebhookOptions> {
    let certs = match args.webhook_certs.as_str() {
        "off" => return None,
        "self" => WebhookCerts::SelfMade,
        folder => WebhookCerts::Folder(PathBuf::from(folder)),
    };
    Some(WebhookOptions {
        address: args.webhook_address,
        certs,
    })
}

/// The PEM file that a flag names; it must hold authorities.
fn trusted(flag: &str, path: Option<&Path>) -> Result<Vec<u8>, CliError> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let pem = read(flag, path)?;
    authorities(&pem).map_err(|error| CliError::Wrong(format!("{flag} {}: {error}", path.display())))?;
    Ok(pem)
}

/// Turns true at SIGTERM or SIGINT; a second signal ends the process.
fn stopped_by_signal() -> watch::Receiver<bool> {
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        signalled().await;
        tracing::info!("asked to stop");
        let _ = stop.send(true);
        // A second signal must not have to wait for the first to be done.
        signalled().await;
        std::process::exit(130);
    });
    stopped
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
    tokio::select! {
        () = terminated() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// Waits for SIGTERM.
#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => drop(terminate.recv().await),
        Err(_) => std::future::pending().await,
    }
}

/// There is no SIGTERM.
#[cfg(not(unix))]
async fn terminated() {
    std::future::pending::<()>().await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_runs_where_rules_can_be_shut_in() {
        assert!(can_run("linux").is_ok());
        for system in ["macos", "windows"] {
            let refused = can_run(system).unwrap_err().to_string();
            assert!(refused.contains("on Linux only"), "{refused}");
        }
    }
}
