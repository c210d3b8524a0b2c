//! Everything a test needs, set up and taken down.

use crate::{
    manifests, prepared,
    process::{Numo, Said, call},
};
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use numo_api::{MutexRule, MutexRunConfig, MutexTarget, NodeChange};
use numo_cluster::{AuditEvent, Cluster, Options, User};
use numo_world::{Breach, Judgement, Program, World, WorldSpec};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// Namespace of numo, and of all rules, targets and runs of the tests.
pub const NAMESPACE: &str = "node-upgrade-mutex-operator";

/// Namespace of the leases of nodes.
pub(crate) const LEASES: &str = numo_api::marks::LEASE_NAMESPACE;

/// How many times longer a busy machine may take than one that has time.
const BUSY: u64 = 3;

/// Whether numo is installed with the namespace of node leases. `NUMO_E2E_LEASES=none` is without, as OLM installs it:
/// `cargo xtask test --without-leases` runs all tests so.
pub fn has_leases() -> bool {
    std::env::var_os("NUMO_E2E_LEASES").is_none_or(|leases| leases != "none")
}

/// How the stage is set.
#[derive(Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is something that a test leaves out"
)]
pub struct StageOptions {
    /// The world.
    pub world: WorldSpec,
    /// Further arguments of `numo run`.
    pub numo: Vec<&'static str>,
    /// Containers of kubectl take their time and do nothing.
    pub without_kubectl: bool,
    /// numo is not started: the test starts it.
    pub without_numo: bool,
    /// The API server takes what numo's definitions refuse, as if it had been stored before they did.
    pub without_validation: bool,
    /// numo is not installed, and no process of it started: the test installs it.
    pub without_install: bool,
    /// The component for NodeVersions is installed too.
    pub machines: bool,
    /// Options of a control plane of its own; none takes one that served another test.
    pub cluster: Option<Options>,
}

/// A client with the credentials of a kubeconfig.
pub async fn client_of(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

/// A control plane, a world, and numo.
pub struct Stage {
    /// The control plane.
    pub cluster: Cluster,
    /// The world.
    pub world: World,
    /// Client of an administrator.
    pub client: Client,
    /// Client of a person.
    pub person: Client,
    /// Whether numo may have asked for what it has no right to; otherwise [`strike`](Self::strike) fails.
    pub may_lack_rights: bool,
    numo: Option<Numo>,
    kubeconfig: PathBuf,
    extra: Vec<&'static str>,
}

impl Stage {
    /// Starts the control plane, makes the world, installs numo and starts it under its own
    /// ServiceAccount.
    pub async fn set(options: StageOptions) -> Result<Self> {
        let cluster = match options.cluster {
            Some(options) => {
                let cluster = Cluster::start(options).await?;
                prepared::prepare(&cluster).await?;
                cluster
            }
            None if options.without_install => prepared::with_kinds().await?,
            None if options.without_validation => prepared::with_slips().await?,
            None if options.machines => prepared::with_machines().await?,
            None => prepared::with_numo().await?,
        };
        let mut spec = options.world;
        if !options.without_kubectl {
            spec.programs.insert("kubectl".to_owned(), kubectl(&cluster));
        }
        for program in spec.programs.values_mut() {
            program.kubeconfig = cluster.kubeconfig(User::World);
        }
        let world = World::create(cluster.client(User::World).await?, spec).await?;
        let client = cluster.client(User::Admin).await?;
        let kubeconfig = if options.without_install {
            PathBuf::new()
        } else {
            cluster.service_account_kubeconfig(NAMESPACE, "numo").await?
        };
        let person = cluster.client(User::Person).await?;
        world.remember().await?;
        let mut stage = Self {
            cluster,
            world,
            client,
            person,
            may_lack_rights: false,
            numo: None,
            kubeconfig,
            extra: options.numo,
        };
        if !options.without_numo && !options.without_install {
            stage.start_numo()?;
        }
        Ok(stage)
    }

    /// The kubeconfig with numo's own token.
    pub fn numo_kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client with numo's own token.
    pub async fn as_numo(&self) -> Result<Client> {
        client_of(&self.kubeconfig).await
    }

    /// Starts numo, if it does not run.
    pub fn start_numo(&mut self) -> Result<()> {
        self.start_numo_with(&[])
    }

    /// The same with further arguments.
    pub fn start_numo_with(&mut self, more: &[&str]) -> Result<()> {
        if self.numo.is_none() {
            self.numo = Some(self.numo_of(&self.kubeconfig, more)?);
        }
        Ok(())
    }

    /// The same with variables in its environment.
    pub fn start_numo_in(&mut self, more: &[&str], environment: &[(&str, String)]) -> Result<()> {
        if self.numo.is_none() {
            let (arguments, logs) = (self.arguments(more), self.cluster.logs());
            let numo = Numo::start_in(&self.kubeconfig, NAMESPACE, &logs, &arguments, environment)?;
            self.numo = Some(numo);
        }
        Ok(())
    }

    fn arguments<'a>(&self, more: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = vec!["--metrics-address", "127.0.0.1:0"];
        arguments.extend(&self.extra);
        arguments.extend(more);
        arguments
    }

    /// Starts one more numo.
    pub fn another_numo(&self) -> Result<Numo> {
        self.numo_of(&self.kubeconfig, &[])
    }

    /// Starts one more numo with further arguments.
    pub fn numo_of_with(&self, more: &[&str]) -> Result<Numo> {
        self.numo_of(&self.kubeconfig, more)
    }

    /// Starts a numo with another kubeconfig and further arguments.
    pub fn numo_of(&self, kubeconfig: &Path, more: &[&str]) -> Result<Numo> {
        Numo::start(kubeconfig, NAMESPACE, &self.cluster.logs(), &self.arguments(more))
    }

    /// Starts a numo from this program, with another kubeconfig.
    pub fn numo_by(&self, program: &Path, kubeconfig: &Path) -> Result<Numo> {
        let logs = self.cluster.logs();
        Numo::start_by(program, kubeconfig, NAMESPACE, &logs, &self.arguments(&[]), &[])
    }

    /// Runs a verb of numo's command line as an administrator; one that fails is an error.
    pub async fn say(&self, arguments: &[&str]) -> Result<String> {
        let said = self.call(arguments).await?;
        if said.code != Some(0) {
            bail!("numo {}: {said:?}", arguments.join(" "));
        }
        Ok(said.out)
    }

    /// Runs a verb of numo's command line as an administrator.
    pub async fn call(&self, arguments: &[&str]) -> Result<Said> {
        call(&self.terminal()?, arguments).await
    }

    /// The kubeconfig of an administrator whose context is in numo's namespace.
    pub fn terminal(&self) -> Result<PathBuf> {
        let given = self.cluster.kubeconfig(User::Admin);
        let path = given.with_extension("terminal");
        if !path.exists() {
            let mut config: Value = serde_json::from_str(&std::fs::read_to_string(given)?)?;
            config["contexts"][0]["context"]["namespace"] = NAMESPACE.into();
            // Tests call at the same time: the file is there whole or not at all.
            let whole = tempfile::NamedTempFile::new_in(self.cluster.dir())?;
            std::fs::write(whole.path(), config.to_string())?;
            whole.persist(&path)?;
        }
        Ok(path)
    }

    /// Every request of numo so far.
    pub fn requests(&self) -> Result<Vec<AuditEvent>> {
        let user = format!("system:serviceaccount:{NAMESPACE}:numo");
        let mut events = self.cluster.audit()?;
        events.retain(|event| event.user == user);
        Ok(events)
    }

    /// Requests of numo that RBAC did not allow. Content that an admission plugin forbids (a quota, a
    /// namespace that is being deleted) is none.
    pub fn beyond_rights(&self) -> Result<Vec<String>> {
        let mut refused: Vec<String> = self
            .requests()?
            .into_iter()
            .filter(|event| !event.allowed)
            // Where they are not installed, numo asks for them in vain, and says so.
            .filter(|event| has_leases() || !event.uri.contains(&format!("/namespaces/{LEASES}/")))
            .map(|event| format!("{} {}", event.verb, event.uri))
            .collect();
        refused.sort();
        refused.dedup();
        Ok(refused)
    }

    /// All events of numo, oldest first.
    pub async fn events(&self) -> Result<Vec<Event>> {
        let api: Api<Event> = Api::all(self.client.clone());
        let mut events = api.list(&ListParams::default()).await?.items;
        events.retain(|event| {
            let by = event.reporting_controller.as_deref();
            // Those of Plans and maintenances are reported under the names of the operators that numo replaces.
            matches!(
                by,
                Some(
                    "numo.openshift-optional.skrzypek.io/numo"
                        | "NodeMaintenance"
                        | "system-upgrade-controller"
                )
            )
        });
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        Ok(events)
    }

    /// Waits for an event about an object, and looks whether it is named after that, as `kubectl describe` expects.
    pub async fn event(&self, kind: &str, name: &str, reason: &str) -> Result<Event> {
        let what = format!("event {reason} on {kind} {name}");
        let found = self.until(&what, 60, || async {
            let events = self.events().await?;
            Ok(events.into_iter().find(|event| {
                let about = event.regarding.clone().unwrap_or_default();
                about.kind.as_deref() == Some(kind)
                    && about.name.as_deref() == Some(name)
                    && event.reason.as_deref() == Some(reason)
            }))
        });
        let event = found.await?;
        let own = event.metadata.name.as_deref().unwrap_or_default();
        anyhow::ensure!(
            own.starts_with(&format!("{name}.")),
            "event {own} on {kind} {name}"
        );
        Ok(event)
    }

    /// Kills numo on the spot.
    pub async fn kill_numo(&mut self) -> Result<()> {
        match self.numo.take() {
            Some(numo) => numo.kill().await,
            None => Ok(()),
        }
    }

    /// Asks numo to stop; its exit code.
    pub async fn stop_numo(&mut self) -> Result<Option<i32>> {
        match self.numo.take() {
            Some(numo) => numo.stop().await,
            None => Ok(None),
        }
    }

    /// Hands numo over: whoever takes it ends it.
    pub fn take_numo(&mut self) -> Option<Numo> {
        self.numo.take()
    }

    /// The running numo.
    pub fn numo(&self) -> Option<&Numo> {
        self.numo.as_ref()
    }

    /// Applies YAML documents; those without a namespace go to numo's.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        manifests::apply(&self.client, &manifests::parse(yaml)?, NAMESPACE).await
    }

    /// The API of a kind in numo's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// A run.
    pub async fn run(&self, name: &str) -> Result<MutexRunConfig> {
        Ok(self.api::<MutexRunConfig>().get(name).await?)
    }

    /// All NodeChanges.
    pub async fn changes(&self) -> Result<Vec<NodeChange>> {
        Ok(self.api::<NodeChange>().list(&ListParams::default()).await?.items)
    }

    /// The NodeChange of a node.
    pub async fn change(&self, node: &str) -> Result<Option<NodeChange>> {
        Ok(self
            .changes()
            .await?
            .into_iter()
            .find(|change| change.spec.node_name == node))
    }

    /// Merges a patch into a run.
    pub async fn patch_run(&self, name: &str, patch: Value) -> Result<()> {
        let params = PatchParams {
            field_manager: Some("kubernetes-admin".to_owned()),
            ..PatchParams::default()
        };
        let api: Api<MutexRunConfig> = Api::namespaced(self.person.clone(), NAMESPACE);
        api.patch(name, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Merges a patch into a node, as a person does.
    pub async fn patch_node(&self, name: &str, patch: Value) -> Result<()> {
        let params = PatchParams {
            field_manager: Some("kubectl-cordon".to_owned()),
            ..PatchParams::default()
        };
        let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.person.clone());
        api.patch(name, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Cordons or uncordons a node, as a person does.
    pub async fn cordon(&self, name: &str, cordoned: bool) -> Result<()> {
        self.patch_node(name, json!({"spec": {"unschedulable": cordoned}}))
            .await
    }

    /// Pauses or unpauses a pool, as a person does.
    pub async fn pause(&self, pool: &str, paused: bool) -> Result<()> {
        let params = PatchParams {
            field_manager: Some("kubectl-patch".to_owned()),
            ..PatchParams::default()
        };
        let api: Api<numo_world::openshift::MachineConfigPool> = Api::all(self.person.clone());
        api.patch(pool, &params, &Patch::Merge(json!({"spec": {"paused": paused}})))
            .await?;
        Ok(())
    }

    /// Asks again and again until it is so. `seconds` are those of a machine that has time; a busy one has [`BUSY`] times as many, since a
    /// test judges that it becomes so, and never how fast. On failure the last thing seen is shown.
    pub async fn until<T, F>(&self, what: &str, seconds: u64, mut ask: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        let seconds = seconds * BUSY;
        let began = tokio::time::Instant::now();
        let deadline = began + Duration::from_secs(seconds);
        let mut last = None;
        while tokio::time::Instant::now() < deadline {
            match ask().await {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
            // Who asks for long asks less often: answers take the time of others beside it.
            let pause = match began.elapsed().as_secs() {
                0 => 50,
                1..4 => 100,
                4..10 => 200,
                _ => 300,
            };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        bail!(
            "not within {seconds} s: {what}; last error: {last:?}\n{}",
            self.picture().await
        )
    }

    /// Waits until the run's condition has this status and reason; its message.
    pub async fn condition(&self, run: &str, type_: &str, status: &str, reason: &str) -> Result<String> {
        let what = format!("condition {type_}={status}/{reason} on MutexRunConfig {run}");
        self.until(&what, 90, || async {
            let run = self.run(run).await?;
            let conditions = run.status.map(|status| status.conditions).unwrap_or_default();
            let found = conditions.into_iter().find(|one| one.type_ == type_);
            let found = found.with_context(|| format!("no condition {type_}"))?;
            let is = found.status == status && found.reason.as_deref() == Some(reason);
            ensure!(is, "found {found:?}");
            Ok(Some(found.message.unwrap_or_default()))
        })
        .await
    }

    /// Waits until the node's NodeChange is in this step.
    pub async fn step(&self, node: &str, step: numo_api::Step) -> Result<NodeChange> {
        let change = self
            .until(&format!("Node {node} in step {step:?}"), 90, || async {
                let change = self.change(node).await?;
                Ok(change
                    .filter(|change| change.status.as_ref().and_then(|status| status.step) == Some(step)))
            })
            .await?;
        self.compare_without_leases(&change).await?;
        Ok(change)
    }

    /// Waits until the world has every node of the pool at the version. How long that takes is for benchmarks: the bound only ends a
    /// test whose upgrade stands still.
    pub async fn upgraded(&self, pool: &str, version: &str) -> Result<()> {
        let what = format!("pool {pool} at {version}");
        match self
            .world
            .until(&what, Duration::from_mins(10), |world| {
                world.is_updated(pool, version)
            })
            .await
        {
            Ok(()) => Ok(()),
            Err(error) => bail!("{error:#}\n{}", self.picture().await),
        }
    }

    /// Judges, and fails with every breach.
    pub async fn judge(&self, expected: &Judgement) -> Result<()> {
        let breaches: Vec<Breach> = self.world.judge(expected).await?;
        if breaches.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = breaches.iter().map(ToString::to_string).collect();
        bail!("{}\n{}", lines.join("\n"), self.picture().await)
    }

    /// What a person would look at first: runs, rules, NodeChanges, and the end of numo's log.
    pub async fn picture(&self) -> String {
        let mut text = String::new();
        self.describe::<MutexRunConfig>(&mut text, |run| yaml(&run.status))
            .await;
        self.describe::<MutexRule>(&mut text, |rule| yaml(&rule.status))
            .await;
        self.describe::<MutexTarget>(&mut text, |target| yaml(&target.status))
            .await;
        self.describe::<NodeChange>(&mut text, |change| yaml(&change.status))
            .await;
        if let Some(numo) = &self.numo {
            let log = numo.log();
            let lines: Vec<&str> = log.lines().collect();
            text.push_str("--- numo's log\n");
            text.push_str(&lines[lines.len().saturating_sub(40)..].join("\n"));
        }
        text
    }

    /// Adds all objects of a kind to the picture.
    async fn describe<K>(&self, text: &mut String, status: impl Fn(&K) -> String)
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let _ = writeln!(text, "--- {}", K::plural(&()));
        match Api::<K>::all(self.client.clone())
            .list(&ListParams::default())
            .await
        {
            Err(error) => {
                let _ = writeln!(text, "{error}");
            }
            Ok(list) => {
                for object in &list.items {
                    let meta = object.meta();
                    let name = meta.name.as_deref().unwrap_or_default();
                    let _ = writeln!(
                        text,
                        "{name} finalizers {:?}\n{}",
                        meta.finalizers,
                        status(object)
                    );
                }
            }
        }
    }

    /// Takes everything down.
    pub async fn strike(mut self) -> Result<()> {
        let code = self.stop_numo().await?;
        let beyond = self.beyond_rights()?;
        self.world.stop().await;
        self.cluster.give_back().await;
        if let Some(code) = code
            && code != 0
        {
            bail!("numo ended with exit code {code}");
        }
        if !self.may_lack_rights && !beyond.is_empty() {
            bail!("numo asked for what it has no right to: {beyond:?}");
        }
        Ok(())
    }
}

/// What containers of an image `kubectl` run.
pub fn kubectl(cluster: &Cluster) -> Program {
    let (command, kubeconfig) = cluster.kubectl(User::World);
    Program {
        command,
        kubeconfig,
        listens: Vec::new(),
        is_any_command: false,
    }
}

fn yaml(value: &impl serde::Serialize) -> String {
    serde_saphyr::to_string(value).unwrap_or_default()
}
