//! What the demo runs on: a control plane of its own or a given cluster, a world, and numo.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use numo_api::{MutexRunConfig, marks};
use numo_cluster::{Cluster, Options, User};
use numo_e2e::{NAMESPACE, Numo, machines::Machines, manifests, rules::Rules};
use numo_world::openshift::{
    ClusterOperator, ClusterVersion, Infrastructure, MachineConfig, MachineConfigPool,
};
use numo_world::{World, WorldSpec};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Progress, Scenario};

/// How long numo may take to give back what it changed before a given cluster is left.
const GIVING_BACK: Duration = Duration::from_secs(15);

/// All of it. [`strike`](Self::strike) it.
pub struct Site {
    /// The world.
    pub world: World,
    /// Client of an administrator.
    pub client: Client,
    /// The kubeconfig a person may use.
    pub kubeconfig: PathBuf,
    /// The rules in WASM, in a registry.
    pub rules: Rules,
    /// The machines that are replaced.
    pub machines: Machines,
    numo: Numo,
    cluster: Option<Cluster>,
    _folder: TempDir,
}

impl Site {
    /// Starts all of it.
    pub async fn set(
        given: Option<&Given>,
        (scenario, world): (Scenario, WorldSpec),
        progress: &Progress,
    ) -> Result<Self> {
        let mut cluster = None;
        if given.is_none() {
            let doing = progress.doing("starting the control plane");
            let started = Cluster::start(Options::default()).await?;
            let version = started.client(User::Admin).await?.apiserver_version().await?;
            doing.done(&format!("Kubernetes {}", version.git_version));
            cluster = Some(started);
        }
        let (kubeconfig, client, of_world) = match (&cluster, given) {
            (Some(cluster), _) => (
                at_home(&cluster.kubeconfig(User::Person))?,
                cluster.client(User::Admin).await?,
                cluster.client(User::World).await?,
            ),
            (None, Some(given)) => {
                let client = given.client().await?;
                given.sweep(&client).await?;
                (given.kubeconfig.clone(), client.clone(), client)
            }
            (None, None) => bail!("neither a control plane nor a cluster"),
        };
        // What a killed demo leaves in its own cluster's folder goes with that, before the next one starts.
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("numo-demo-");
        let folder = match &cluster {
            Some(cluster) => folder.tempdir_in(cluster.logs())?,
            None => folder.tempdir()?,
        };
        let workers: usize = world.pools.iter().map(|pool| pool.workers).sum();
        let doing = progress.doing("making the simulated OpenShift");
        let world = World::create(of_world, world).await?;
        match scenario {
            Scenario::Upgrade => doing.done(&format!("{workers} workers at {}", world.spec().version)),
            Scenario::Replace => doing.done("without nodes"),
        }
        let doing = progress.doing("building and pushing WASM rules");
        let rules = Rules::publish(&super::COMPONENTS).await?;
        doing.done(&super::COMPONENTS.join(", "));
        let doing = progress.doing("installing and starting numo");
        install(&client).await?;
        let machines = Machines::of(client.clone());
        let mut arguments = vec!["--metrics-address", "127.0.0.1:0"];
        if scenario == Scenario::Replace {
            // The kinds are there before numo begins to look for them.
            machines.install().await?;
            arguments.extend(["--machine-provider", "sim"]);
        }
        let token = service_account(&client, &kubeconfig, folder.path()).await?;
        world.remember().await?;
        let cache = folder.path().join("rules").display().to_string();
        arguments.extend(["--cache-dir", &cache]);
        let numo = Numo::start(&token, NAMESPACE, folder.path(), &arguments)?;
        doing.done("as its own ServiceAccount");
        Ok(Self {
            world,
            client,
            kubeconfig,
            rules,
            machines,
            numo,
            cluster,
            _folder: folder,
        })
    }

    /// Whether the cluster is somebody's, and not ours.
    pub fn is_given(&self) -> bool {
        self.cluster.is_none()
    }

    /// The end of numo's log.
    pub fn numo_log(&self, lines: usize) -> Vec<String> {
        let log = self.numo.log();
        let all: Vec<&str> = log.lines().collect();
        let tail = &all[all.len().saturating_sub(lines)..];
        tail.iter().map(|line| (*line).to_owned()).collect()
    }

    /// Cordons a node, as a person with kubectl does.
    pub async fn cordon(&self, node: &str) -> Result<()> {
        let api: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"spec": {"unschedulable": true}});
        api.patch(node, &by("kubectl-cordon"), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Pauses a pool, as a person with kubectl does.
    pub async fn pause(&self, pool: &str) -> Result<()> {
        let api: Api<MachineConfigPool> = Api::all(self.client.clone());
        let patch = json!({"spec": {"paused": true}});
        api.patch(pool, &by("kubectl-patch"), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Takes everything down; on a given cluster it removes what stood for OpenShift.
    pub async fn strike(self) {
        if self.is_given() {
            let runs: Api<MutexRunConfig> = Api::namespaced(self.client.clone(), NAMESPACE);
            // numo still runs: it gives back what it changed before the run goes.
            let leave = async {
                runs.delete("demo", &DeleteParams::default()).await?;
                while runs.get_opt("demo").await?.is_some() {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                anyhow::Ok(())
            };
            if !matches!(tokio::time::timeout(GIVING_BACK, leave).await, Ok(Ok(()))) {
                eprintln!("MutexRunConfig {NAMESPACE}/demo could not be removed");
            }
        }
        if let Err(error) = self.numo.stop().await {
            eprintln!("numo did not end well: {error:#}");
        }
        self.world.stop().await;
        match self.cluster {
            Some(cluster) => cluster.stop().await,
            None => {
                if let Err(error) = remove_world(&self.client).await {
                    eprintln!("not all of the simulated OpenShift was removed: {error:#}");
                }
            }
        }
    }
}

fn by(manager: &str) -> PatchParams {
    PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    }
}

/// A cluster that someone names.
pub struct Given {
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
    /// What an earlier world left there may be removed.
    pub yes: bool,
}

impl Given {
    async fn client(&self) -> Result<Client> {
        // An error says that the process has chosen its provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let file = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Makes room for a world, or says why not.
    ///
    /// Nodes of others are refused whatever is said: the world plays OpenShift for the whole cluster, and
    /// the rules' pods would be scheduled to nodes on which nobody plays kubelet.
    async fn sweep(&self, client: &Client) -> Result<()> {
        let nodes = Api::<Node>::all(client.clone())
            .list(&ListParams::default())
            .await?;
        let foreign: Vec<String> = nodes
            .iter()
            .filter(|node| !node.annotations().contains_key(numo_world::MADE_BY))
            .map(ResourceExt::name_any)
            .collect();
        ensure!(
            foreign.is_empty(),
            "the cluster has {} nodes that no simulated world made, for example {}: the demo wants a control plane without nodes",
            foreign.len(),
            foreign[0]
        );
        let version = Api::<ClusterVersion>::all(client.clone())
            .get_opt("version")
            .await;
        let is_openshift = match version {
            Ok(version) => version.is_some(),
            // The kind itself is not served.
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(error) => return Err(error.into()),
        };
        if nodes.items.is_empty() && !is_openshift {
            return Ok(());
        }
        ensure!(
            self.yes,
            "the cluster has {} simulated nodes{}; --yes-this-cluster removes them and starts over",
            nodes.items.len(),
            if is_openshift { " and a ClusterVersion" } else { "" },
        );
        remove_run(client).await?;
        remove_world(client).await
    }
}

/// Removes the run of a demo that was killed. What it would give back goes with the simulated world.
async fn remove_run(client: &Client) -> Result<()> {
    let runs: Api<MutexRunConfig> = Api::namespaced(client.clone(), NAMESPACE);
    let forget = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let gone = async {
        runs.delete("demo", &DeleteParams::default()).await?;
        runs.patch("demo", &PatchParams::default(), &forget).await
    };
    match gone.await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done.map(drop).map_err(Into::into),
    }
}

/// Removes the Jobs of the rules: garbage collection would, but it takes its time to learn of our kinds.
async fn remove_jobs(client: &Client) -> Result<()> {
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let ours = ListParams::default().labels(marks::JOB_RUN);
    jobs.delete_collection(&DeleteParams::background(), &ours).await?;
    let gone = async {
        while !jobs.list(&ours).await?.items.is_empty() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(GIVING_BACK, gone)
        .await
        .context("the Jobs of the rules do not go")?
}

/// Removes the objects that stand for OpenShift, the simulated nodes, and the Jobs of the rules.
async fn remove_world(client: &Client) -> Result<()> {
    remove_jobs(client).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    for node in nodes.list(&ListParams::default()).await? {
        if node.annotations().contains_key(numo_world::MADE_BY) {
            nodes.delete(&node.name_any(), &DeleteParams::default()).await?;
        }
    }
    clear::<MachineConfigPool>(client).await?;
    clear::<MachineConfig>(client).await?;
    clear::<ClusterVersion>(client).await?;
    clear::<ClusterOperator>(client).await?;
    clear::<Infrastructure>(client).await
}

async fn clear<K>(client: &Client) -> Result<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let all: Api<K> = Api::all(client.clone());
    match all
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done.map(drop).map_err(Into::into),
    }
}

/// Applies what `deploy/` holds, but for the Deployment: numo runs as a process of ours.
async fn install(client: &Client) -> Result<()> {
    let mut objects: Vec<Value> = manifests::numo()?;
    objects.retain(|object| !matches!(object["kind"].as_str(), Some("Deployment" | "Service")));
    let is_first = |object: &Value| {
        matches!(
            object["kind"].as_str(),
            Some("Namespace" | "CustomResourceDefinition")
        )
    };
    objects.sort_by_key(|object| !is_first(object));
    manifests::apply(client, &objects, NAMESPACE).await
}

/// A kubeconfig whose contexts are in numo's namespace, where the demo's objects are: what is tried after it needs no `-n`.
fn at_home(kubeconfig: &Path) -> Result<PathBuf> {
    let mut config = Kubeconfig::read_from(kubeconfig)?;
    for context in &mut config.contexts {
        if let Some(context) = &mut context.context {
            context.namespace = Some(NAMESPACE.to_owned());
        }
    }
    let path = kubeconfig.with_extension("demo.kubeconfig");
    std::fs::write(&path, serde_json::to_vec(&config)?)?;
    Ok(path)
}

/// A kubeconfig with a token of numo's ServiceAccount: it may do what RBAC grants it and no more.
async fn service_account(client: &Client, kubeconfig: &Path, folder: &Path) -> Result<PathBuf> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(24 * 60 * 60),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("numo", &PostParams::default(), &request)
        .await?;
    let token = answer.status.context("the API server issued no token")?.token;
    let mut config = Kubeconfig::read_from(kubeconfig)?;
    for user in &mut config.auth_infos {
        user.auth_info = Some(AuthInfo {
            token: Some(token.clone().into()),
            ..AuthInfo::default()
        });
    }
    let path = folder.join("numo.kubeconfig");
    // JSON, which every reader of YAML takes.
    std::fs::write(&path, serde_json::to_vec(&config)?)?;
    Ok(path)
}
