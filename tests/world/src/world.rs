//! The world itself: starts all of it, and takes what a test or a demo asks for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::Patch;
use kube::{Api, Client, ResourceExt};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::sync::mpsc;

use crate::cache::{Cache, Seen};
use crate::context::{Context, create, lock, manager, write};
use crate::cvo::{is_updated, release_image};
use crate::fault::Fault;
use crate::judge::{Breach, Judgement, judge};
use crate::kubelet::{Containers, Server};
use crate::log::{Entry, State, entries};
use crate::machine::{NodePlan, labels};
use crate::membership::{Membership, primary_pool};
use crate::openshift::{
    CLUSTER_ADMIN, CURRENT_CONFIG, ClusterVersion, MachineConfigPool, MachineOSConfig, MachineOSConfigSpec,
    PoolReference, annotation, release_version,
};
use crate::record::Record;
use crate::snapshot::Snapshot;
use crate::spec::WorldSpec;
use crate::{cloud, crds, cvo, kubelet, node_controller, operator, render, setup};

/// How long the world may take to come to rest at its start.
const START: Duration = Duration::from_mins(2);

/// A simulated OpenShift around a real API server.
///
/// It ends, with all processes it runs, by [`stop`](Self::stop) or when dropped. Its objects stay.
#[derive(Debug)]
pub struct World {
    pub(crate) ctx: Arc<Context>,
    before: Mutex<Snapshot>,
    joined: AtomicU64,
}

impl World {
    /// Installs OpenShift's kinds, as [`create`](Self::create) does first.
    pub async fn install_kinds(client: &Client) -> Result<()> {
        crds::install(client).await
    }

    /// Installs the CRDs, creates all objects, starts all controllers, and returns when every node
    /// is Ready and every pool that is not paused is Updated.
    ///
    /// The cluster must have no nodes and no ClusterVersion: what runs here is not for a real one.
    pub async fn create(client: Client, spec: WorldSpec) -> Result<Self> {
        refuse_real_cluster(&client).await?;
        crds::install(&client).await?;
        tracing::debug!("kinds are served");
        let mut random = SmallRng::seed_from_u64(spec.seed);
        let id = format!("{:08x}", random.random::<u32>());
        let containers = Containers::new().await?;
        let server = Server::bind().await?;
        let (bound, bound_pods) = mpsc::unbounded_channel();
        let ctx = Arc::new(Context::new(
            client,
            id,
            spec,
            containers,
            server.port,
            random,
            bound,
        ));
        let world = Self {
            ctx: ctx.clone(),
            before: Mutex::default(),
            joined: AtomicU64::new(0),
        };
        ctx.spawn(server.serve(ctx.containers.clone()));
        ctx.spawn(kubelet::run(ctx.clone(), bound_pods));
        // Together: the API server takes a second to store the first object of each new kind.
        futures::try_join!(setup::create_cluster(&ctx), setup::create_pools(&ctx))?;
        world.watch();
        ctx.pools.until_listed().await;
        ctx.configs.until_listed().await;
        ctx.spawn(render::run(ctx.clone()));
        ctx.spawn(node_controller::run(ctx.clone()));
        ctx.spawn(operator::run(ctx.clone()));
        ctx.spawn(cvo::run(ctx.clone()));
        let rendered = |pools: &Cache<MachineConfigPool>| {
            pools
                .all()
                .iter()
                .all(|p| ctx.configs.get(&p.spec.configuration.name).is_some())
        };
        bounded("all pools are rendered", ctx.pools.until(rendered)).await?;
        tracing::debug!("pools are rendered");
        setup::create_nodes(&ctx).await?;
        tracing::debug!("nodes are there");
        world.until_at_rest().await?;
        tracing::debug!("at rest");
        world.remember().await?;
        Ok(world)
    }

    /// Feeds the caches, the records and the kubelet.
    fn watch(&self) {
        let client = || self.ctx.client.clone();
        let ctx = self.ctx.clone();
        self.ctx.spawn(async move {
            let observe = |seen: Seen<'_, Node>| ctx.records.node(&seen);
            ctx.nodes.feed(Api::all(ctx.client.clone()), observe).await;
        });
        let (ctx, api) = (self.ctx.clone(), Api::all(client()));
        self.ctx.spawn(async move {
            ctx.pools.feed(api, |seen| ctx.records.pool(&seen)).await;
        });
        let (ctx, api) = (self.ctx.clone(), Api::all(client()));
        self.ctx.spawn(async move {
            ctx.configs.feed(api, |seen| ctx.records.config(&seen)).await;
        });
        let (ctx, api) = (self.ctx.clone(), Api::<ClusterVersion>::all(client()));
        self.ctx.spawn(async move {
            ctx.versions.feed(api, |seen| ctx.records.version(&seen)).await;
        });
        let (ctx, api) = (self.ctx.clone(), Api::<Job>::all(client()));
        self.ctx.spawn(async move {
            Cache::new().feed(api, |seen| ctx.records.job(&seen)).await;
        });
        let (ctx, api) = (self.ctx.clone(), Api::<Pod>::all(client()));
        self.ctx.spawn(async move {
            let observe = |seen: Seen<'_, Pod>| {
                ctx.records.pod(&seen);
                if let Seen::There(pod) = seen
                    && pod.spec.as_ref().is_some_and(|s| s.node_name.is_some())
                {
                    ctx.offer(pod.clone());
                }
            };
            ctx.pods.feed(api, observe).await;
        });
    }

    /// Returns when pools count all nodes, none is not Ready, and all that may be Updated are.
    async fn until_at_rest(&self) -> Result<()> {
        let ctx = &self.ctx;
        let control_plane = ctx.spec.control_plane();
        let workers = ctx.spec.pools.iter().map(|p| p.workers);
        let expected: usize = control_plane.iter().map(|(_, nodes)| *nodes).chain(workers).sum();
        let counted = |pools: &Cache<MachineConfigPool>| {
            let all = pools.all();
            let machines = |p: &MachineConfigPool| p.status.as_ref().map_or(0, |s| s.machine_count);
            let sum: i32 = all.iter().map(|p| machines(p)).sum();
            usize::try_from(sum).is_ok_and(|sum| sum == expected) && all.iter().all(|p| is_updated(p))
        };
        bounded("all pools are updated", ctx.pools.until(counted)).await?;
        let not_ready = |n: &Node| {
            let taints = n.spec.as_ref().and_then(|s| s.taints.as_ref());
            taints.is_some_and(|t| t.iter().any(|t| t.key == "node.kubernetes.io/not-ready"))
        };
        let ready = |nodes: &Cache<Node>| nodes.all().iter().all(|n| !not_ready(n));
        bounded("nodes lose their not-ready taint", ctx.nodes.until(ready)).await
    }

    /// Takes what is now as what [`judge`](Self::judge) compares with.
    pub async fn remember(&self) -> Result<()> {
        let snapshot = Snapshot::take(&self.ctx.client).await?;
        *lock(&self.before) = snapshot;
        Ok(())
    }

    /// Asks for a version as a cluster administrator does; the cluster-version operator does the rest.
    pub async fn upgrade_to(&self, version: &str) -> Result<()> {
        let api: Api<ClusterVersion> = Api::all(self.ctx.client.clone());
        let update = json!({ "version": version, "image": release_image(version) });
        let patch = json!({ "spec": { "desiredUpdate": update } });
        let by = manager(CLUSTER_ADMIN);
        write(|| async { api.patch("version", &by, &Patch::Merge(&patch)).await })
            .await?
            .context("no ClusterVersion")?;
        Ok(())
    }

    /// Asks for each version once the control plane is at the one before, as in a control-plane-only
    /// update, and returns when it is at the last. Bounding the wait is for the caller.
    pub async fn upgrade_through(&self, versions: &[&str]) -> Result<()> {
        for version in versions {
            self.upgrade_to(version).await?;
            self.ctx.versions.until(|_| self.is_completed(version)).await;
        }
        Ok(())
    }

    /// Gives a role another MachineConfig, so that its pools are rendered anew at the same version.
    /// The role `worker` is a part of all pools but `master`.
    pub async fn rerender(&self, role: &str) -> Result<()> {
        let n = self.joined.fetch_add(1, Ordering::Relaxed);
        let name = format!("99-{role}-world-{n}");
        let config = setup::source(&name, role, "/etc/world/revision", &n.to_string());
        create(&self.ctx.client, &config).await?;
        Ok(())
    }

    /// A machine of this pool joins, not yet Ready. Its name.
    pub async fn add_node(&self, pool: &str) -> Result<String> {
        let plan = self.plan(pool)?;
        self.join(plan).await
    }

    /// A machine of this pool joins that boots this rendered config, as one whose image is older than what
    /// the pool renders by now. Its name.
    pub async fn add_node_at(&self, pool: &str, config: &str) -> Result<String> {
        let rendered = self.ctx.configs.get(config);
        let rendered = rendered.with_context(|| format!("no MachineConfig {config}"))?;
        let plan = NodePlan {
            config: config.to_owned(),
            os_image: rendered.spec.os_image_url.clone(),
            ..self.plan(pool)?
        };
        self.join(plan).await
    }

    /// A machine joins that boots this custom pool's config, but whose Node carries only the label of
    /// workers: from 4.22 on the MCO labels it for its pool, before that it falls into `worker`. Its name.
    pub async fn boot_into(&self, pool: &str) -> Result<String> {
        let plan = self.plan(pool)?;
        let labels = labels(&self.ctx, &plan.name, "worker", plan.zone);
        let plan = NodePlan { labels, ..plan };
        self.join(plan).await
    }

    /// Adds the machine and returns when the watch has brought its Node, so that whoever asks for it finds it.
    async fn join(&self, plan: NodePlan) -> Result<String> {
        cloud::add(&self.ctx, &plan).await?;
        let seen = |world: &Self| world.state().nodes.contains_key(&plan.name);
        self.until(&format!("Node {} is seen", plan.name), START, seen)
            .await?;
        Ok(plan.name)
    }

    fn plan(&self, pool: &str) -> Result<NodePlan> {
        let n = self.joined.fetch_add(1, Ordering::Relaxed);
        let zone = usize::try_from(n)?.checked_rem(self.ctx.spec.zones);
        setup::plan_late(&self.ctx, pool, &format!("{pool}-late-{n}"), zone)
    }

    /// The machine is destroyed and its Node deleted; its faults end with it.
    pub async fn delete_node(&self, name: &str) -> Result<()> {
        cloud::destroy(&self.ctx, name).await?;
        Ok(())
    }

    /// The machine is destroyed, and another of the same name joins, in the pool the first was made for.
    pub async fn recreate_node(&self, name: &str) -> Result<()> {
        let old = cloud::destroy(&self.ctx, name).await?;
        cloud::replace(&self.ctx, &old).await
    }

    /// Reboots a machine, whatever runs on it. Returns when it is back; its kubelet has this version then, if one is given.
    pub async fn reboot(&self, name: &str, kubelet: Option<&str>) -> Result<()> {
        let machine = self
            .ctx
            .machine(name)
            .with_context(|| format!("no machine {name}"))?;
        let image = crate::content::os_image(&self.ctx.spec.version);
        crate::machine::reboot(&self.ctx, &machine, &image).await;
        if let Some(version) = kubelet {
            let patch = json!({ "status": { "nodeInfo": { "kubeletVersion": version } } });
            self.ctx.patch_node_status(name, patch).await?;
        }
        Ok(())
    }

    /// Makes a pool layered: from now on its nodes run an image built on the cluster. What that does
    /// to nodes is not simulated.
    pub async fn layer(&self, pool: &str) -> Result<()> {
        let machine_config_pool = PoolReference { name: pool.into() };
        let config = MachineOSConfig::new(pool, MachineOSConfigSpec { machine_config_pool });
        create(&self.ctx.client, &config).await?;
        Ok(())
    }

    /// Pauses or unpauses a pool as this field manager, as another operator does.
    pub async fn pause_as(&self, field_manager: &str, pool: &str, paused: bool) -> Result<()> {
        let patch = json!({ "spec": { "paused": paused } });
        self.ctx.patch_pool(pool, field_manager, patch).await
    }

    /// Lets something go wrong.
    pub fn inject(&self, fault: Fault) {
        self.ctx.faults.inject(fault);
    }

    /// Ends all faults of a node.
    pub fn heal(&self, node: &str) {
        self.ctx.faults.heal(Some(node));
    }

    /// Ends the faults that are about the cluster.
    pub fn heal_cluster(&self) {
        self.ctx.faults.heal(None);
    }

    /// What happened so far.
    pub fn log(&self) -> Vec<Entry> {
        entries(&self.records())
    }

    /// All changes seen so far, in the API server's order.
    pub fn records(&self) -> Vec<Record> {
        self.ctx.records.sorted()
    }

    /// All that is known now, from the watches.
    pub fn state(&self) -> State {
        let mut state = State::default();
        self.ctx
            .records
            .latest()
            .iter()
            .for_each(|record| state.step(record));
        state
    }

    /// Says what went wrong so far; an empty list is a good one.
    pub async fn judge(&self, expected: &Judgement) -> Result<Vec<Breach>> {
        let now = Snapshot::take(&self.ctx.client).await?;
        self.until_quiet().await;
        let before = lock(&self.before).clone();
        let records = self.records();
        Ok(judge(expected, &records, &entries(&records), &before, &now))
    }

    /// Watches may lag behind the lists just read: until nothing more comes, or for two seconds.
    async fn until_quiet(&self) {
        let mut records = self.ctx.records.changes();
        let quiet = async {
            while tokio::time::timeout(Duration::from_millis(100), records.changed())
                .await
                .is_ok()
            {}
        };
        // A busy world never falls quiet; by then its watches have caught up.
        let _ = tokio::time::timeout(Duration::from_secs(2), quiet).await;
    }

    /// The client the world uses.
    pub fn client(&self) -> &Client {
        &self.ctx.client
    }

    /// What the world was asked to be.
    pub fn spec(&self) -> &WorldSpec {
        &self.ctx.spec
    }

    /// A node as last seen.
    pub fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.ctx.nodes.get(name)
    }

    /// All nodes as last seen, by name.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.ctx.nodes.all()
    }

    /// A pool as last seen.
    pub fn pool(&self, name: &str) -> Option<Arc<MachineConfigPool>> {
        self.ctx.pools.get(name)
    }

    /// The OpenShift version a node is at: that of its current config. Empty while unknown.
    pub fn version_of(&self, node: &str) -> String {
        let current = self.node(node).map(|n| annotation(&n, CURRENT_CONFIG).to_owned());
        current
            .and_then(|c| self.ctx.configs.get(&c))
            .map_or_else(String::new, |c| release_version(&c))
    }

    /// The pool a node is in.
    pub fn membership_of(&self, node: &str) -> Membership {
        let pools = self.ctx.pools.all();
        let node = self.node(node);
        node.map_or(Membership::None, |n| {
            primary_pool(n.labels(), pools.iter().map(AsRef::as_ref))
        })
    }

    /// Whether the control plane is at this version.
    pub fn is_completed(&self, version: &str) -> bool {
        let status = self
            .ctx
            .versions
            .get("version")
            .and_then(|v| v.status.clone())
            .unwrap_or_default();
        status
            .history
            .first()
            .is_some_and(|h| h.version == version && h.state == "Completed")
    }

    /// Whether the pool is rendered by this version and all its nodes are at it.
    pub fn is_updated(&self, pool: &str, version: &str) -> bool {
        self.pool(pool).is_some_and(|p| {
            let config = self.ctx.configs.get(&p.spec.configuration.name);
            is_updated(&p) && config.is_some_and(|c| release_version(&c) == version)
        })
    }

    /// Returns once it is so, asked again at each change of anything the world watches.
    /// Fails with the last events when time is up.
    pub async fn until(&self, what: &str, time: Duration, is: impl Fn(&Self) -> bool) -> Result<()> {
        let ctx = &self.ctx;
        let (mut records, mut configs) = (ctx.records.changes(), ctx.configs.changes());
        let (mut nodes, mut pools, mut pods) = (ctx.nodes.changes(), ctx.pools.changes(), ctx.pods.changes());
        let become_so = async {
            while !is(self) {
                tokio::select! {
                    _ = records.changed() => {}
                    _ = configs.changed() => {}
                    _ = nodes.changed() => {}
                    _ = pools.changed() => {}
                    _ = pods.changed() => {}
                }
            }
        };
        if tokio::time::timeout(time, become_so).await.is_ok() {
            return Ok(());
        }
        let log = self.log();
        let last: Vec<String> = log.iter().rev().take(15).rev().map(ToString::to_string).collect();
        bail!("not within {time:?}: {what}\nlast events:\n{}", last.join("\n"))
    }

    /// Ends all controllers and all processes of containers.
    pub async fn stop(self) {
        self.end();
        // Dropped tasks release their watches before the cluster goes.
        tokio::task::yield_now().await;
    }

    fn end(&self) {
        self.ctx.abort_tasks();
        self.ctx.containers.kill_all();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end();
    }
}

/// The kubelet here runs commands on this machine: never those of someone's real cluster.
async fn refuse_real_cluster(client: &Client) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    if let Some(node) = nodes
        .list(&kube::api::ListParams::default().limit(1))
        .await?
        .items
        .first()
    {
        bail!(
            "the cluster has nodes already ({}): a world wants one of its own",
            node.name_any()
        );
    }
    let versions: Api<ClusterVersion> = Api::all(client.clone());
    match versions.get_opt("version").await {
        Ok(Some(_)) => bail!("the cluster has a ClusterVersion already: a world wants one of its own"),
        Ok(None) => Ok(()),
        // The kind itself is not served.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn bounded(what: &str, wait: impl Future<Output = ()>) -> Result<()> {
    tokio::time::timeout(START, wait)
        .await
        .with_context(|| format!("the world waits in vain until {what}"))
}
