//! Starting, using and stopping one control plane.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::audit::{self, AuditEvent};
use crate::binaries::Binaries;
use crate::credentials::{CONTROLLER_MANAGER, Credentials, SCHEDULER, User};
use crate::dirs::Dir;
use crate::etcd::{Etcd, Keys, Operation};
use crate::kept;
use crate::ports::Port;
use crate::process::{Component, Process};
use crate::reuse::Prepared;
use crate::tally;
use crate::turnstile::{self, Place};

/// How long a start may take: it is 5 s on a quiet machine, but builds and other
/// clusters may be running beside it.
const START_TIMEOUT: Duration = Duration::from_mins(3);
/// How long a component may take to end by itself. An API server waits for its
/// watchers, far longer than anyone wants to.
const GRACE: Duration = Duration::from_secs(2);

/// Controllers of what no kubelet and no cloud is here for: disks of machines, their certificates, load balancers, routes, devices. Each lists and
/// watches, and some look again every few seconds, in every one of a dozen control planes.
const NOT_RUN: [&str; 24] = [
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "cloud-node-lifecycle-controller",
    "cronjob-controller",
    "device-taint-eviction-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "node-ipam-controller",
    "node-route-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "podcertificaterequest-cleaner-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "resourcepoolstatusrequest-controller",
    "service-lb-controller",
    "storage-version-migrator-controller",
    "volumeattributesclass-protection-controller",
];

/// How a cluster is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Emulate the API of an earlier minor, e.g. `1.33`: its features and served
    /// versions, though not its bugs.
    pub emulated_version: Option<String>,
    /// Leave the processes and the folder when the [`Cluster`] goes or this process
    /// ends; [`Cluster::stop_kept`] ends them.
    pub keep: bool,
    /// Lift the limits on requests and give controllers more workers, for thousands of nodes.
    pub scale: bool,
}

/// A running control plane.
///
/// [`stop`](Self::stop) it when the test has passed. One that is dropped without, by a
/// panic or by `?`, ends too; it is taken for a failure, so its logs are kept and
/// where they are is printed. One whose process is killed ends as well.
#[derive(Debug)]
pub struct Cluster {
    options: Options,
    dir: Dir,
    credentials: Credentials,
    /// In starting order.
    processes: Vec<Process>,
    /// Held so that no other cluster gets them.
    ports: Ports,
    started: bool,
    stopped: bool,
    /// If it serves more than one test.
    pub(crate) prepared: Option<Prepared>,
    /// While it serves a test.
    pub(crate) place: Option<Place>,
    kubectl: Vec<String>,
}

#[derive(Debug)]
struct Ports {
    etcd: Port,
    etcd_peer: Port,
    api_server: Port,
}

impl Cluster {
    /// Starts a control plane and waits until it serves and its controllers work.
    ///
    /// Builds the programs first if need be ([`binary`](crate::binary)). Fails, with
    /// the end of the component's log, when a component ends or time is up.
    pub async fn start(options: Options) -> Result<Self> {
        Self::start_with(options, &Keys::new(), turnstile::enter().await).await
    }

    /// The same with these objects in etcd before any other component starts, in this place.
    pub(crate) async fn start_with(options: Options, objects: &Keys, place: Place) -> Result<Self> {
        // An error says that the process has chosen its provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let binaries = tokio::task::spawn_blocking(Binaries::find).await??;
        let began = Instant::now();
        let dir = Dir::create()?;
        let ports = Ports {
            etcd: Port::take()?,
            etcd_peer: Port::take()?,
            api_server: Port::take()?,
        };
        let server = format!("https://127.0.0.1:{}", ports.api_server.number);
        let credentials = Credentials::create(dir.auth(), server)?;
        fs::write(dir.data().join("audit-policy.yaml"), audit::POLICY)?;

        let mut cluster = Self {
            options,
            dir,
            credentials,
            processes: Vec::new(),
            ports,
            started: false,
            stopped: false,
            prepared: None,
            place: Some(place),
            kubectl: binaries.kubectl(),
        };
        cluster.launch(&binaries, Component::Etcd)?;
        cluster.fill(objects).await?;
        cluster.launch(&binaries, Component::ApiServer)?;
        let client = cluster.client(User::Admin).await?;
        cluster
            .until("the API server is ready", async || is_ready(client.clone()).await)
            .await?;
        cluster.launch(&binaries, Component::ControllerManager)?;
        cluster.launch(&binaries, Component::Scheduler)?;
        cluster
            .until("the controllers work", async || {
                has_service_account(client.clone()).await
            })
            .await?;
        if cluster.options.keep {
            cluster.dir.keep();
            kept::record(cluster.dir(), &cluster.processes)?;
        }
        cluster.started = true;
        tally::note(&cluster, "started", "");
        tracing::debug!(seconds = began.elapsed().as_secs_f32(), dir = %cluster.dir().display(), "cluster started");
        Ok(cluster)
    }

    /// Puts objects into etcd as soon as it answers.
    async fn fill(&mut self, objects: &Keys) -> Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        let url = self.etcd();
        let first = objects.iter().next().map(Operation::put);
        self.until("etcd answers", async || {
            Etcd::new(&url)?.change(first.as_slice()).await
        })
        .await?;
        let operations: Vec<Operation> = objects.iter().map(Operation::put).collect();
        Etcd::new(&url)?.change(&operations).await
    }

    /// The kubeconfig file of `user`: token authentication, namespace `default`.
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.credentials.kubeconfig(user.name())
    }

    /// A client of `user`, whose user agent (and so default field manager) is the
    /// user's name.
    pub async fn client(&self, user: User) -> Result<Client> {
        client(&self.kubeconfig(user), user.name()).await
    }

    /// The words that run kubectl, without its arguments, and the kubeconfig of `user` for it.
    pub fn kubectl(&self, user: User) -> (Vec<String>, PathBuf) {
        (self.kubectl.clone(), self.kubeconfig(user))
    }

    /// Writes a kubeconfig for an existing ServiceAccount, with a token the API server
    /// issued for it (24 h): it may do what RBAC grants it and no more.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(User::Admin).await?, namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(24 * 60 * 60),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("a token for ServiceAccount {namespace}/{name}"))?;
        let token = answer.status.context("the API server issued no token")?.token;
        self.credentials
            .write_kubeconfig(&format!("system:serviceaccount:{namespace}:{name}"), &token)
    }

    /// Every request so far, the control plane's own included, oldest answer first; in one that
    /// serves several tests, those of this test.
    /// Complete for requests that were answered before this call.
    pub fn audit(&self) -> Result<Vec<AuditEvent>> {
        audit::read(&self.audit_log())
    }

    /// Lets [`audit`](Self::audit) begin from now.
    pub(crate) fn forget_requests(&self) -> Result<()> {
        // The API server appends, one write an event.
        let log = fs::OpenOptions::new().write(true).open(self.audit_log())?;
        Ok(log.set_len(0)?)
    }

    /// Fails if a component has ended, or the API server does not answer.
    pub(crate) async fn is_sound(&mut self) -> Result<()> {
        for process in &mut self.processes {
            let name = process.component.name();
            ensure!(process.exited().is_none(), "{name} has ended");
        }
        is_ready(self.client(User::Admin).await?).await
    }

    /// The URL of etcd.
    pub(crate) fn etcd(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.etcd.number)
    }

    /// The cluster's folder.
    pub fn dir(&self) -> &Path {
        &self.dir.path
    }

    /// The folder of the log files: one per component, and `audit.log`.
    pub fn logs(&self) -> PathBuf {
        self.dir.logs()
    }

    /// The URL of the API server.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api_server.number)
    }

    /// The process ids of the components, by name: to measure them, or to hurt them.
    pub fn pids(&self) -> BTreeMap<&'static str, u32> {
        self.processes
            .iter()
            .map(|process| (process.component.name(), process.id()))
            .collect()
    }

    /// Ends all processes and removes the folder, logs included; with
    /// [`Options::keep`] it does neither.
    pub async fn stop(mut self) {
        self.stopped = true;
        tally::note(&self, "stop", "");
        if self.options.keep {
            return;
        }
        let mut processes = std::mem::take(&mut self.processes);
        // etcd last: without it the others only complain until their grace is over.
        let etcd = processes
            .iter()
            .position(|process| process.component == Component::Etcd);
        let etcd = etcd.map(|index| processes.remove(index));
        for process in &processes {
            process.terminate();
        }
        let until = Instant::now() + GRACE;
        for process in processes.iter_mut().rev() {
            process.end(until.saturating_duration_since(Instant::now())).await;
        }
        if let Some(mut etcd) = etcd {
            // Nobody reads its data again.
            etcd.kill();
        }
        self.dir.remove();
    }

    /// Stops a cluster that was started with [`Options::keep`], by its folder, and
    /// removes the folder. Any process may do so. Fails if the folder holds none.
    pub async fn stop_kept(dir: &Path) -> Result<()> {
        kept::stop(dir).await
    }

    fn audit_log(&self) -> PathBuf {
        self.logs().join("audit.log")
    }

    fn launch(&mut self, binaries: &Binaries, component: Component) -> Result<()> {
        let mut command = binaries.command(component);
        command.args(self.flags(component)).current_dir(self.dir.data());
        if std::env::var_os("GOGC").is_none() {
            // Collecting garbage at the default of 100 takes a third of an API server's processor time. With thousands of nodes memory
            // would be scarce; without, an API server comes to 1.5 GB after ten tests, and nine of them stand beside each other.
            if self.options.scale {
                command.env("GOGC", "400");
            } else {
                command.env("GOGC", "1000").env("GOMEMLIMIT", "800MiB");
            }
        }
        self.processes.push(Process::spawn(
            component,
            command,
            &self.logs(),
            self.options.keep,
        )?);
        Ok(())
    }

    fn flags(&self, component: Component) -> Vec<String> {
        let data = self.dir.data();
        let path = |name: &str| data.join(name).display().to_string();
        let auth = |path: PathBuf| path.display().to_string();
        let etcd = self.etcd();
        let etcd_peer = format!("http://127.0.0.1:{}", self.ports.etcd_peer.number);
        let mut flags = match component {
            Component::Etcd => vec![
                "--name=numo".to_owned(),
                format!("--data-dir={}", path("etcd")),
                format!("--listen-client-urls={etcd}"),
                format!("--advertise-client-urls={etcd}"),
                format!("--listen-peer-urls={etcd_peer}"),
                format!("--initial-advertise-peer-urls={etcd_peer}"),
                format!("--initial-cluster=numo={etcd_peer}"),
                // The data need not outlive the machine, and syncing them is most of a test's disk time.
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
            ],
            Component::ApiServer => vec![
                format!("--etcd-servers={etcd}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", self.ports.api_server.number),
                // A loopback address may not be an endpoint of Service `kubernetes`, and
                // on a machine without a network there is no other.
                "--advertise-address=127.0.0.1".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                "--external-hostname=localhost".to_owned(),
                format!("--cert-dir={}", path("certificates")),
                format!("--tls-cert-file={}", auth(self.credentials.serving_certificate())),
                format!("--tls-private-key-file={}", auth(self.credentials.serving_key())),
                format!("--token-auth-file={}", auth(self.credentials.tokens())),
                "--authorization-mode=Node,RBAC".to_owned(),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!(
                    "--service-account-key-file={}",
                    auth(self.credentials.service_account_public_key())
                ),
                format!(
                    "--service-account-signing-key-file={}",
                    auth(self.credentials.service_account_key())
                ),
                "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                // Nobody makes Services' addresses work here: webhooks are called at their pods'.
                "--enable-aggregator-routing=true".to_owned(),
                "--allow-privileged=true".to_owned(),
                // Simulated kubelets all listen on loopback.
                "--kubelet-preferred-address-types=InternalIP".to_owned(),
                format!("--audit-policy-file={}", path("audit-policy.yaml")),
                format!("--audit-log-path={}", self.audit_log().display()),
                // Megabytes. At the default of 100 the log is rotated and counts are wrong.
                "--audit-log-maxsize=100000".to_owned(),
            ],
            Component::ControllerManager => vec![
                format!(
                    "--kubeconfig={}",
                    auth(self.credentials.kubeconfig(CONTROLLER_MANAGER))
                ),
                format!("--root-ca-file={}", auth(self.credentials.ca())),
                format!(
                    "--service-account-private-key-file={}",
                    auth(self.credentials.service_account_key())
                ),
                "--use-service-account-credentials=true".to_owned(),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                // At the default of 20 a second the controller-manager spends 4 s of each
                // start on creating its ServiceAccounts.
                "--kube-api-qps=5000".to_owned(),
                "--kube-api-burst=10000".to_owned(),
                format!("--flex-volume-plugin-dir={}", path("volume-plugins")),
                format!("--controllers=*,-{}", NOT_RUN.join(",-")),
            ],
            Component::Scheduler => vec![
                format!("--kubeconfig={}", auth(self.credentials.kubeconfig(SCHEDULER))),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                "--kube-api-qps=5000".to_owned(),
                "--kube-api-burst=10000".to_owned(),
            ],
        };
        if self.options.scale {
            flags.extend(scale_flags(component).iter().map(|&flag| flag.to_owned()));
        }
        if let Some(version) = &self.options.emulated_version
            && component != Component::Etcd
        {
            flags.push(format!("--emulated-version=kube={version}"));
        }
        flags
    }

    /// Asks `question` until it is answered with yes. A component that has ended is
    /// an error at once.
    pub(crate) async fn until(&mut self, what: &str, question: impl AsyncFn() -> Result<()>) -> Result<()> {
        let until = Instant::now() + START_TIMEOUT;
        loop {
            let Err(answer) = question().await else {
                return Ok(());
            };
            for process in &mut self.processes {
                if let Some(status) = process.exited() {
                    bail!(
                        "{} ended ({status}):\n{}",
                        process.component.name(),
                        process.log_tail()
                    );
                }
            }
            if Instant::now() > until {
                return Err(answer.context(format!("waited {} s until {what}", START_TIMEOUT.as_secs())));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.stopped || (self.started && self.options.keep) {
            return;
        }
        tally::note(self, "drop", "");
        for process in self.processes.iter_mut().rev() {
            process.kill();
        }
        self.dir.keep_logs_only();
        eprintln!(
            "cluster dropped without stop(); its logs are in {}",
            self.logs().display()
        );
    }
}

fn scale_flags(component: Component) -> &'static [&'static str] {
    match component {
        Component::Etcd => &["--quota-backend-bytes=8589934592"],
        Component::ApiServer => &[
            "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=2000",
        ],
        Component::ControllerManager => &[
            "--concurrent-job-syncs=50",
            "--concurrent-gc-syncs=50",
            "--concurrent-replicaset-syncs=50",
        ],
        Component::Scheduler => &[],
    }
}

async fn client(kubeconfig: &Path, user_agent: &str) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config
        .headers
        .push((http::header::USER_AGENT, http::HeaderValue::from_str(user_agent)?));
    // A proxy in the environment is for the world outside; the server is on loopback.
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

async fn is_ready(client: Client) -> Result<()> {
    let request = http::Request::get("/readyz").body(Vec::new())?;
    // A server that accepts but never answers must not stop us from seeing it die.
    tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await??;
    Ok(())
}

/// The first thing one sees of a working controller-manager, and what pods need.
async fn has_service_account(client: Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    tokio::time::timeout(Duration::from_secs(5), accounts.get("default")).await??;
    Ok(())
}
