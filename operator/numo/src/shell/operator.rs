//! The operator's life: wait for the lease, decide and write while it holds, give it back.

use super::{
    channel::{ChannelOptions, Channels},
    client::{Connection, is_too_old},
    clock::ServerClock,
    etcd::Etcd,
    eval::evaluator::{Evaluator, EvaluatorOptions},
    events::Events,
    http::{self, What},
    leader::{Candidate, Fence, LEADER_LEASE},
    metrics::Metrics,
    notice::{Board, Notice},
    notify::{Notifiers, Reach},
    planner::{Explain, Notices, Planner},
    provider::{Component, Provider, Sim, config::ProviderConfig},
    services, token,
    traces::{TraceOptions, Traces},
    webhook::{self, WebhookError, WebhookOptions},
};
use numo_core::observed::Settings;
use numo_plugin::net::proxy::Proxies;
use std::{net::SocketAddr, sync::Arc, sync::atomic::Ordering, time::Duration};
use tokio::{sync::watch as signal, task::JoinHandle};

/// How the operator was told to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What decisions depend on.
    pub settings: Settings,
    /// Where `/healthz`, `/readyz` and `/metrics` are served; none serves nothing.
    pub metrics_address: Option<SocketAddr>,
    /// Where probes alone are served; none leaves them where metrics are.
    pub probe_address: Option<SocketAddr>,
    /// Our name in leases and events.
    pub identity: String,
    /// How the webhook of NodeMaintenances is served; none serves none.
    pub webhook: Option<WebhookOptions>,
    /// How rules that are asked are treated.
    pub evaluator: EvaluatorOptions,
    /// How channels of Plans are asked.
    pub channels: ChannelOptions,
    /// What people are told of an owner that something has happened to.
    pub explain: Explain,
    /// Who makes and deletes machines.
    pub provider: ProviderOption,
    /// The etcd whose members go before nodes of the control plane; none takes none out.
    pub etcd: Option<Etcd>,
    /// Where spans go; none sends none.
    pub traces: Option<TraceOptions>,
}

/// Who makes and deletes machines.
#[derive(Clone, Debug, Default)]
pub enum ProviderOption {
    /// Nobody: no machine is replaced.
    #[default]
    Off,
    /// ConfigMaps of the operator's own namespace.
    Sim,
    /// A component, as an administrator has configured it.
    Component(Arc<ProviderConfig>),
}

impl ProviderOption {
    fn of(
        &self,
        evaluator: &Evaluator,
        settings: &Settings,
        (etcd, proxies): (Option<Etcd>, Proxies),
    ) -> Result<Provider, OperatorError> {
        Ok(match self {
            Self::Off => Provider::none("no provider of machines is named (--machine-provider)"),
            Self::Sim => {
                let sim = Sim::new(evaluator.connection().write.clone(), &settings.namespace);
                Provider::sim(sim, etcd)
            }
            Self::Component(config) => {
                let component = Component::new(evaluator.clone(), &settings.namespace, config, proxies);
                Provider::component(
                    component.map_err(OperatorError::Provider)?,
                    etcd,
                    config.poll_seconds,
                )
            }
        })
    }
}

/// Why the operator ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The address cannot be listened on.
    #[error("cannot serve metrics on {address}: {source}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The webhook cannot be served.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// The provider of machines cannot be set up.
    #[error("the provider of machines cannot be set up: {0}")]
    Provider(String),
    /// The API server cannot be asked for its version.
    #[error("cannot reach the API server: {0}")]
    Unreachable(#[source] kube::Error),
    /// The API server is older than any that numo supports.
    #[error("found Kubernetes {found}, wanted 1.31 or later (OpenShift 4.18 or later)")]
    TooOld {
        /// Its version.
        found: String,
    },
    /// Another numo may lead by now; nothing more may be written.
    #[error("the leader lease was lost")]
    LeaseLost,
}

/// How long the last events may take to be written when the operator stops.
const LAST_EVENTS: Duration = Duration::from_secs(3);
/// How long calls of the provider of machines may still take when the operator stops: with what is written after them that is less than the
/// `terminationGracePeriodSeconds` of its Deployment. One that is cut off is found again by what it was to do.
const LAST_CALLS: Duration = Duration::from_secs(20);
/// How long readiness waits for the API server to trust the webhook.
const TRUSTED_WITHIN: Duration = Duration::from_mins(1);

/// Says what this kernel lacks to shut in the processes that run strangers' code.
fn warn_of_missing_confinement() {
    let missing = numo_plugin::confined::missing();
    if !missing.is_empty() {
        tracing::warn!(
            missing = missing.join(", "),
            "the processes that compile components and evaluate expressions are shut in less: this kernel does not offer it"
        );
    }
}

/// Serves metrics, probes and the webhook, as far as they are asked for. Gives back whether the API server trusts the webhook, where
/// one is served.
async fn serve(
    connection: &Connection,
    options: &Options,
    metrics: &Metrics,
) -> Result<Option<signal::Receiver<bool>>, OperatorError> {
    if let Some(address) = options.metrics_address {
        let bound = http::serve(address, What::Metrics, metrics.clone())
            .await
            .map_err(|source| OperatorError::Metrics { address, source })?;
        tracing::info!(address = %bound, "serving /healthz, /readyz and /metrics");
    }
    if let Some(address) = options.probe_address {
        let bound = http::serve(address, What::Probes, metrics.clone())
            .await
            .map_err(|source| OperatorError::Metrics { address, source })?;
        tracing::info!(address = %bound, "serving /healthz and /readyz for probes");
    }
    let Some(webhook) = options.webhook.clone() else {
        return Ok(None);
    };
    let (bound, trusted) = webhook::serve(connection, &options.settings, webhook).await?;
    tracing::info!(address = %bound, "serving the webhook");
    Ok(Some(trusted))
}

/// Says that the process is ready once the API server trusts its webhook: who waits for the rollout may create a NodeMaintenance then.
/// Where the API server cannot be told, `numo doctor` and the log say so, and nothing else waits for it for ever.
async fn be_ready(metrics: Metrics, trusted: Option<signal::Receiver<bool>>) {
    if let Some(mut trusted) = trusted {
        let told = trusted.wait_for(|trusted| *trusted);
        if tokio::time::timeout(TRUSTED_WITHIN, told).await.is_err() {
            tracing::warn!(
                "ready, and the API server does not trust the webhook yet: it refuses each new NodeMaintenance"
            );
        }
    }
    metrics.ready.store(true, Ordering::Release);
}

/// Works as the leader until the planner or the lease ends; says whether the lease was lost.
async fn lead(
    planner: &mut Planner,
    candidate: &mut Candidate,
    fence: &Fence,
    limits: impl Future<Output = ()>,
    stop: signal::Receiver<bool>,
) -> bool {
    let work = async {
        planner.run(stop).await;
        if !planner.rest(LAST_CALLS).await {
            tracing::warn!(
                "a call of the provider of machines was not answered in time: whoever leads next finishes its work"
            );
        }
    };
    let keep = candidate.keep(fence);
    tokio::pin!(work);
    tokio::select! {
        () = &mut work => false,
        () = keep => true,
        // It goes on as long as they do.
        () = limits => false,
    }
}

/// The metrics, which count every request of this connection.
fn counted(connection: &Connection) -> Metrics {
    let metrics = Metrics::new();
    let requested = metrics.clone();
    let requests = &connection.requests;
    requests.count(move |answered| requested.requested(answered));
    metrics
}

/// Runs until asked to stop.
pub async fn run(
    connection: Connection,
    options: Options,
    stop: signal::Receiver<bool>,
) -> Result<(), OperatorError> {
    check_version(&connection).await?;
    let metrics = counted(&connection);
    warn_of_missing_confinement();
    let trusted = serve(&connection, &options, &metrics).await?;
    tokio::spawn(services::keep(
        connection.clone(),
        options.evaluator.cluster_networks.clone(),
    ));
    let Connection { write, clock, .. } = &connection;
    let clock: ServerClock = clock.clone();
    let namespace = options.settings.namespace.clone();
    let board = Board::default();
    board.write(first_notice(&options.settings));
    let mut candidate = Candidate::new(
        write.clone(),
        &namespace,
        LEADER_LEASE,
        &options.identity,
        clock.clone(),
    )
    .telling(board.clone());
    // A follower is ready: it does all that is asked of it. It stays so when it leads: what it has to list first holds up
    // nobody who asks it something, and a replica that flaps holds up a rollout. Lists that do not end are told by the probes' words,
    // a metric, and in the end `/healthz`.
    tokio::spawn(be_ready(metrics.clone(), trusted));
    let mut stopping = stop.clone();
    let fence = tokio::select! {
        fence = candidate.win() => fence,
        () = stopped(&mut stopping) => return Ok(()),
    };
    tracing::info!(identity = options.identity, "leading");
    metrics.leader.set(1);
    let (mut planner, writer) = planner(&connection, options, &metrics, board, &fence)?;
    let limits = token::keep(connection.clone(), metrics.clone());
    let lost = Box::pin(lead(&mut planner, &mut candidate, &fence, limits, stop)).await;
    metrics.leader.set(0);
    if lost {
        return Err(OperatorError::LeaseLost);
    }
    // What was done must not go untold: the last events are written before the lease goes.
    drop(planner);
    if tokio::time::timeout(LAST_EVENTS, writer).await.is_err() {
        tracing::warn!("some events were not written in time");
    }
    candidate.release().await;
    tracing::info!("stopped; the leader lease is released");
    Ok(())
}

/// Who plans, and the task that writes its events until it is dropped.
fn planner(
    connection: &Connection,
    options: Options,
    metrics: &Metrics,
    board: Board,
    fence: &Fence,
) -> Result<(Planner, JoinHandle<()>), OperatorError> {
    let (events, writer) = Events::start(
        connection.write.clone(),
        connection.clock.clone(),
        options.identity,
        options.settings.plan_jobs.controller.clone(),
        metrics.clone(),
    );
    let reach = Reach {
        connection: connection.clone(),
        namespace: options.settings.namespace.clone(),
        proxies: options.channels.proxies.clone(),
    };
    let notifiers = Notifiers::start(reach, fence.clone(), (metrics.clone(), events.clone()));
    let traces = options.traces.map(|to| Traces::start(to, metrics.clone()));
    let notices = Notices::new(notifiers, traces, options.explain);
    let proxies = options.channels.proxies.clone();
    let evaluator = Evaluator::new(connection.clone(), options.evaluator, metrics.clone());
    let provider = options
        .provider
        .of(&evaluator, &options.settings, (options.etcd.clone(), proxies))?;
    let planner = Planner::new(
        connection.clone(),
        evaluator,
        (Channels::new(connection.clone(), &options.channels), provider),
        options.settings,
        metrics.clone(),
        (events, board, notices),
        fence.clone(),
    );
    Ok((planner, writer))
}

/// What this instance says of itself in the lease before it has seen anything.
fn first_notice(settings: &Settings) -> Notice {
    Notice {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        leases_unavailable: None,
        run_namespaces: settings.run_namespaces.clone(),
        plan_namespaces: settings.plan_namespaces.clone(),
        not_kept: Vec::new(),
    }
}

/// Waits until asked to stop.
async fn stopped(stop: &mut signal::Receiver<bool>) {
    while !*stop.borrow() {
        if stop.changed().await.is_err() {
            return;
        }
    }
}

async fn check_version(connection: &Connection) -> Result<(), OperatorError> {
    let version = connection
        .read
        .apiserver_version()
        .await
        .map_err(OperatorError::Unreachable)?;
    if is_too_old(&version) {
        return Err(OperatorError::TooOld {
            found: version.git_version,
        });
    }
    Ok(())
}
