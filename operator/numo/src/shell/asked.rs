//! Rules that are asked: their components, expressions and queries are looked at when a MutexRule changes, and asked
//! when the planner says so. Nothing here blocks the planner: what comes of it is sent to it like what a watch sees.

use super::{
    artifact::Artifacts,
    client::Connection,
    clock::ServerClock,
    component::{self, COMPILE_VERB},
    evaluator::{Begun, Children, Inner, Loaded, PATIENCE, What, unavailable},
    loaded,
    metrics::Metrics,
    reader::{Access, RuleReader},
    signers,
    stir::{self, Mark},
    store::Seen,
    watch,
    wire::{self, Edition, Kind},
};
use crate::{
    frontends::mutex_rule,
    runners::wasm::{Examined, Fault},
};
use jiff::Timestamp;
use kube::api::ListParams;
use numo_api::{AwaitedWorkloads, MutexRule, Reason, RuleType, marks};
use numo_core::{
    action::EvaluationRequest,
    observed::{Key, RuleAnswer, RunConfigView, Validity},
    ready, rules,
};
use numo_plugin::{
    Compile, Engine, Setup,
    address::AddressRange,
    fetch::{Direct, FetchSetup, authorities},
    services::{Credential, Fetch, Prometheus},
    shares::Shares,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedSender;

pub use super::evaluator::{AskedOptions, PrometheusServer};

/// Rules that are looked at together; of them each namespace has its share. One compiles at a time.
const LOOKS: u64 = 8;
/// Longest that one look may take once it has its turn: with every try of a registry, and with the compilers of the others,
/// as one compiles at a time.
const LOOK: Duration = Duration::from_mins(12);

/// An answer that has not come. Should its task end without one, that is said: nobody else would ask again.
struct Unanswered {
    key: String,
    clock: ServerClock,
    to: Option<UnboundedSender<Seen>>,
}

impl Unanswered {
    fn answer(&mut self, at: Timestamp, answer: RuleAnswer) {
        if let Some(to) = self.to.take() {
            let _ = to.send(Seen::Evaluated(self.key.clone(), at, answer));
        }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let (reason, message) = unavailable("its evaluation ended without an answer".to_owned());
        self.answer(self.clock.now(), RuleAnswer::NoVerdict(reason, message));
    }
}

/// All rules that are asked.
#[derive(Clone)]
pub struct AskedRules(Arc<Inner>);

impl std::fmt::Debug for AskedRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AskedRules")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

impl AskedRules {
    /// No rule yet.
    pub fn new(connection: Connection, options: AskedOptions, metrics: Metrics) -> Self {
        let access = Arc::new(Access::new(connection.read.clone()));
        let artifacts = Artifacts::new(connection.read.clone(), options.artifacts.clone());
        Self(Arc::new(Inner {
            connection,
            options,
            metrics,
            engine: Mutex::default(),
            access,
            artifacts,
            loaded: Mutex::default(),
            uses: AtomicU64::new(0),
            examining: Mutex::default(),
            looks: Shares::new(LOOKS),
            newest: Mutex::default(),
            watching: Mutex::default(),
            awaited: Mutex::default(),
            policy: Mutex::default(),
            watches: Shares::new(stir::WATCHES),
            children: Children::new(),
            lines: Arc::default(),
        }))
    }

    /// Finds out whether a rule can be asked, and says what came of it.
    pub fn examine(&self, rule: Arc<MutexRule>, to: UnboundedSender<Seen>) {
        let this = self.clone();
        let (key, edition) = (wire::key(&rule.metadata), wire::edition(&rule.metadata));
        let Some(turn) = Turn::begin(&self.0, (key.clone(), edition.clone())) else {
            return;
        };
        let newest = self.0.newest.lock();
        newest
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.clone(), edition.clone());
        if rule.spec.rule_type == Some(RuleType::Wasm) {
            // Its runtime is where a component is looked at: what fails here is told by the look.
            let _ = self.0.engine();
        }
        let work = async move {
            let _looks = this.0.looks.take(&key.namespace, 1).await;
            let policy = this.policy();
            let looked = tokio::time::timeout(LOOK, this.0.look_at(&key, &edition, &rule));
            // No answer of the API server is no judgement: it is asked for again.
            let found = looked.await.ok().flatten();
            drop(turn);
            // What was judged by a policy that is no more says nothing. It cannot change while that is sent.
            let now = this.0.policy.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((examined, validity)) = found.filter(|_| *now == policy) {
                let _ = to.send(Seen::Examined(key, edition, examined.map(Box::new), validity));
            }
        };
        self.0.spawn(work);
    }

    /// Asks a rule. The answer comes later, and always comes. While it makes a node wait, what it read is watched.
    pub fn ask(&self, request: EvaluationRequest, to: UnboundedSender<Seen>) {
        let this = self.clone();
        self.0.unwatch(&request.key);
        let mut unanswered = Unanswered {
            key: request.key.clone(),
            clock: self.0.connection.clock.clone(),
            to: Some(to.clone()),
        };
        let work = async move {
            let policy = this.policy();
            let what = this.0.asked(&request);
            let is_component = matches!(what, Some(What::Component(_)));
            let account = what.as_ref().map_or(What::DEFAULT_ACCOUNT, What::account);
            let namespace = &request.rule.namespace;
            let reader = Arc::new(RuleReader::new(this.0.access.clone(), namespace, account));
            let begun = Instant::now();
            this.0.metrics.begins(&request.rule.to_string(), request.phase);
            let mut answer = this.0.evaluate(what, &request, &reader).await;
            if is_component && this.policy() != policy {
                let (reason, message) =
                    unavailable("signers of components changed while it was asked".to_owned());
                answer = RuleAnswer::NoVerdict(reason, message);
            }
            if matches!(&answer, RuleAnswer::NoVerdict(_, message) if message.contains(component::FORGOTTEN))
            {
                let _ = to.send(Seen::Forgotten(request.rule.clone()));
            }
            this.0.count(&request, &answer, begun.elapsed());
            let now = this.0.connection.clock.now();
            let (at, wait) = match answer {
                // Asked again at once it would be as late again.
                RuleAnswer::Pass(_) if reader.age() > rules::PASS => {
                    let seconds = reader.age().as_secs();
                    let (reason, message) =
                        unavailable(format!("what it passed on was {seconds} s old when it passed"));
                    unanswered.answer(now, RuleAnswer::NoVerdict(reason, message));
                    return;
                }
                // A Pass is as old as what it is from.
                RuleAnswer::Pass(_) => (before(now, reader.age()), None),
                RuleAnswer::Wait(_, seconds) => (now, u64::try_from(seconds).ok()),
                RuleAnswer::Block(_) | RuleAnswer::NoVerdict(..) => (now, None),
            };
            unanswered.answer(at, answer);
            if let Some(seconds) = wait {
                let longest = Duration::from_secs(seconds) + PATIENCE;
                this.0.watch(request, reader.marks(), longest, to);
            }
        };
        self.0.spawn(work);
    }

    /// The addresses of Nodes and their pods: no rule reaches them unless its namespace may.
    pub fn see_nodes(&self, ranges: Vec<AddressRange>) {
        self.0.options.cluster_networks.see_nodes(ranges);
    }

    /// Which workloads each MutexRunConfig awaits from now on.
    pub fn select_workloads(&self, runs: &BTreeMap<Key, RunConfigView>) {
        let awaited = runs.iter().map(|(key, run)| {
            (
                key.clone(),
                run.spec.awaited_workloads.clone().unwrap_or_default(),
            )
        });
        *self.0.awaited.lock().unwrap_or_else(PoisonError::into_inner) = awaited.collect();
    }

    /// Number of the operator's policy of signatures: another one, another policy.
    pub fn policy(&self) -> u64 {
        *self.0.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads anew whose signatures are asked for, for as long as somebody listens. When that changes no component is asked any more
    /// until it has been judged again.
    pub async fn follow_signers(self, to: UnboundedSender<Seen>) {
        if !self.0.artifacts.signers().can_change() {
            return;
        }
        while !to.is_closed() {
            tokio::time::sleep(signers::READ_AGAIN).await;
            if self.0.artifacts.signers().refresh() {
                self.0.judge_anew(&to);
            }
        }
    }

    /// Forgets rules that are gone, and unloads those that no owner refers to.
    pub fn keep_only(&self, rules: &BTreeSet<Key>, referred: &BTreeSet<Key>) {
        let mut loaded = self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|key, _| rules.contains(key));
        for (_, loaded) in loaded.iter().filter(|(key, _)| !referred.contains(key)) {
            if let What::Component(component) = &loaded.what {
                component.place.unload();
            }
        }
        let mut newest = self.0.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.retain(|key, _| rules.contains(key));
        let mut watching = self.0.watching.lock().unwrap_or_else(PoisonError::into_inner);
        watching.retain(|_, (rule, task)| {
            let stays = rules.contains(rule) || *rule == ready::key();
            if !stays {
                task.abort();
            }
            stays
        });
    }
}

/// That a rule is being looked at; over when dropped.
struct Turn {
    of: Arc<Inner>,
    rule: (Key, Edition),
}

impl Turn {
    /// None if it is being looked at already.
    fn begin(of: &Arc<Inner>, rule: (Key, Edition)) -> Option<Self> {
        let mut examining = of.examining.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = examining.insert(rule.clone());
        begins.then(|| Self { of: of.clone(), rule })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut examining = self.of.examining.lock().unwrap_or_else(PoisonError::into_inner);
        examining.remove(&self.rule);
    }
}

/// What was found out: of its component, if it has one, and whether it can be asked.
type Looked = (Option<Examined>, Validity);

impl Inner {
    /// On the engine's own runtime, once there is one: what a component makes it do holds up nobody else.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        match engine.as_ref().and_then(|begun| begun.engine.handle()) {
            Some(runtime) => drop(runtime.spawn(work)),
            None => drop(tokio::spawn(work)),
        }
    }

    /// Components are judged by another policy from now on.
    fn judge_anew(&self, to: &UnboundedSender<Seen>) {
        let mut policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        *policy += 1;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|_, loaded| !matches!(loaded.what, What::Component(_)));
        let _ = to.send(Seen::PolicyChanged);
    }

    pub(super) fn engine(&self) -> Result<Begun, Fault> {
        let mut begun = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = &*begun {
            return Ok(begun.clone());
        }
        // One that cannot begin now may another time.
        let new = self.begin().map_err(|message| {
            let message = format!("rules cannot be run here: {message}");
            (Reason::RuleUnavailable, message)
        })?;
        *begun = Some(new.clone());
        Ok(new)
    }

    fn begin(&self) -> Result<Begun, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let setup = |cache| Setup {
            compile: Compile::Child {
                program: program.clone(),
                arguments: vec![COMPILE_VERB.to_owned()],
            },
            cache,
            ..Setup::default()
        };
        let engine = match Engine::new(setup(self.options.cache.clone())) {
            Err(numo_plugin::SetupError::Io(error)) if self.options.cache.is_some() => {
                tracing::warn!(%error, "the cache of rules cannot be used: each start compiles anew");
                Engine::new(setup(None))
            }
            engine => engine,
        }
        .map_err(|error| error.to_string())?;
        let direct = |authorities| {
            let setup = FetchSetup {
                cluster: self.options.cluster_networks.clone(),
                authorities,
                proxies: self.options.artifacts.proxies.clone(),
                loopback: self.options.reach_loopback,
                ..FetchSetup::default()
            };
            let direct = Direct::new(setup).map_err(|error| error.to_string())?;
            Ok::<_, String>(Arc::new(direct) as Arc<dyn Fetch>)
        };
        let server = self.options.prometheus.as_ref();
        let private = match server.filter(|server| !server.authorities.is_empty()) {
            Some(server) => authorities(&server.authorities)?,
            None => Vec::new(),
        };
        Ok(Begun {
            engine,
            fetch: direct(Vec::new())?,
            prometheus: direct(private)?,
        })
    }

    /// Counts an evaluation. What a node is told counts when it is journaled.
    fn count(&self, request: &EvaluationRequest, answer: &RuleAnswer, took: Duration) {
        let rule = request.rule.to_string();
        self.metrics.evaluated(&rule, took);
        match answer {
            RuleAnswer::Pass(_) | RuleAnswer::Block(_) => {}
            RuleAnswer::Wait(..) => self.metrics.count_verdict(&rule, request.phase, "wait"),
            RuleAnswer::NoVerdict(reason, _) => {
                self.metrics.count_verdict(&rule, request.phase, "error");
                self.metrics.gave_no_verdict(&rule, *reason);
            }
        }
    }

    /// None if the API server gave no answer.
    async fn look_at(&self, key: &Key, edition: &Edition, rule: &MutexRule) -> Option<Looked> {
        let of_itself = mutex_rule::parse(rule, Validity::Valid).validity;
        let fault = match of_itself {
            Validity::Valid if self.options.secrets => None,
            Validity::Valid => mutex_rule::asks_for_secrets(rule),
            Validity::Invalid(reason, message) => Some((reason, message)),
            Validity::Unknown => return None,
        };
        let is_component = rule.spec.rule_type == Some(RuleType::Wasm);
        let (examined, what) = match fault {
            Some(fault) => (
                is_component.then(|| Examined::unfetched(fault.clone())),
                Err(fault),
            ),
            None => match rule.spec.rule_type.unwrap_or_default() {
                RuleType::Kubernetes => return None,
                RuleType::Wasm => {
                    let (examined, component) = self.look_at_component(key, edition, rule).await?;
                    let component = component.map(|component| What::Component(Arc::new(component)));
                    (Some(examined), component)
                }
                RuleType::Cel => {
                    let spec = rule.spec.cel.clone().unwrap_or_default();
                    let checked = self.check_expressions(&key.namespace, &spec).await?;
                    (None, checked.map(|()| What::Expressions(Arc::new(spec))))
                }
                RuleType::Prometheus => {
                    let spec = rule.spec.prometheus.clone().unwrap_or_default();
                    let checked = self.check_query(&key.namespace).await?;
                    (None, checked.map(|()| What::Query(Arc::new(spec))))
                }
            },
        };
        let mut all = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let validity = match what {
            Ok(what) => {
                let edition = edition.clone();
                let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
                if newest.get(key) == Some(&edition) {
                    all.insert(key.clone(), Loaded { edition, what });
                    Self::unload_beyond(&all);
                }
                Validity::Valid
            }
            Err((reason, message)) => {
                // What is loaded of another edition is not this one's matter.
                all.retain(|of, loaded| of != key || loaded.edition != *edition);
                Validity::Invalid(reason, message)
            }
        };
        Some((examined, validity))
    }

    /// Number of the next use of a component.
    pub(super) fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Unloads components that were not used for longest, where there are too many.
    pub(super) fn make_room(&self) {
        Self::unload_beyond(&self.loaded.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether there is room for a component of this rule that the cache does not have.
    pub(super) fn has_room(&self, key: &Key, bytes: u64) -> bool {
        let all = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let others = all.iter().filter(|(of, _)| *of != key);
        let components = others.filter_map(|(_, loaded)| match &loaded.what {
            What::Component(component) => Some(&component.place),
            _ => None,
        });
        loaded::has_room(components, bytes, loaded::LOADED_BYTES)
    }

    fn unload_beyond(all: &BTreeMap<Key, Loaded>) {
        let components = all.iter().filter_map(|(key, loaded)| match &loaded.what {
            What::Component(component) => Some((key.namespace.as_str(), &component.place)),
            _ => None,
        });
        loaded::make_room(components, loaded::LOADED_BYTES);
    }

    /// Whether a namespace may reach what is inside the cluster. None if the API server gave no answer.
    pub(super) async fn is_inside(&self, namespace: &str) -> Option<bool> {
        let namespaces = watch::items(&self.connection.read, Kind::Namespace, "");
        let found = tokio::time::timeout(PATIENCE, namespaces.get_opt(namespace)).await;
        let label: Option<String> =
            (found.ok()?.ok()?).and_then(|found| found.at(&["metadata", "labels", marks::RULE_NETWORK]));
        Some(label.is_some_and(|value| value == marks::RULE_NETWORK_CLUSTER))
    }

    /// Addresses of pods, services and nodes. None while the API server has not said which.
    pub(super) fn cluster_networks(&self) -> Option<Arc<[AddressRange]>> {
        let networks = &self.options.cluster_networks;
        networks.are_known().then(|| networks.all())
    }

    /// Whether rules may read Secrets.
    pub(super) fn lends_secrets(&self) -> bool {
        self.options.secrets
    }

    /// Whether numo was told of a Prometheus.
    pub(super) fn knows_prometheus(&self) -> bool {
        self.options.prometheus.is_some()
    }

    /// The Prometheus that rules may be lent, with its credential of now.
    pub(super) fn prometheus(&self, begun: &Begun) -> Result<Option<Prometheus>, Fault> {
        let Some(server) = &self.options.prometheus else {
            return Ok(None);
        };
        let token = server.token.as_ref().map(|path| {
            let token = std::fs::read_to_string(path);
            token.map_err(|error| unavailable(format!("--prometheus-token-file {}: {error}", path.display())))
        });
        let credential = token.transpose()?.map(|token| Credential {
            header: "authorization".to_owned(),
            value: format!("Bearer {}", token.trim()),
        });
        Ok(Some(Prometheus {
            url: server.url.clone(),
            fetch: begun.prometheus.clone(),
            credential,
        }))
    }

    /// Which workloads the owner of a request awaits; none if it is gone.
    pub(super) fn awaited(&self, request: &EvaluationRequest) -> Option<AwaitedWorkloads> {
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        awaited.get(&request.owner.key).cloned()
    }

    /// What a question is to; none while it is not loaded in this edition.
    fn asked(&self, request: &EvaluationRequest) -> Option<What> {
        if request.rule == ready::key() {
            return Some(What::Workloads);
        }
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.get(&request.rule)?;
        (loaded.edition == (request.rule_uid.clone(), request.generation)).then(|| loaded.what.clone())
    }

    async fn evaluate(
        &self,
        what: Option<What>,
        request: &EvaluationRequest,
        reader: &Arc<RuleReader>,
    ) -> RuleAnswer {
        let answer = match what {
            None => Err(unavailable("it is not loaded".to_owned())),
            Some(What::Workloads) => self.ask_workloads(request, reader).await,
            Some(What::Component(component)) => self.ask_component(&component, request, reader).await,
            Some(What::Expressions(rule)) => self.ask_expressions(&rule, request, reader).await,
            Some(What::Query(rule)) => self.ask_query(&rule, request).await,
        };
        answer.unwrap_or_else(|(reason, message)| RuleAnswer::NoVerdict(reason, message))
    }

    /// The Node that a rule is asked about, as the contract has it: without `status.images`. None for what is asked once
    /// per run.
    pub(super) async fn node(
        &self,
        request: &EvaluationRequest,
        reader: &RuleReader,
    ) -> Result<Option<Value>, Fault> {
        let name = &request.node;
        if name.is_empty() {
            return Ok(None);
        }
        let found = self.one(Kind::Node, name, reader).await?;
        let mut node = found
            .filter(|node| node.pointer("/metadata/uid").and_then(Value::as_str) == Some(&request.node_uid))
            .ok_or_else(|| unavailable(format!("Node {name} ({}) does not exist", request.node_uid)))?;
        if let Some(status) = node.pointer_mut("/status").and_then(Value::as_object_mut) {
            status.remove("images");
        }
        Ok(Some(node))
    }

    /// One object that numo itself may list, without its managed fields.
    pub(super) async fn one(
        &self,
        kind: Kind,
        name: &str,
        reader: &RuleReader,
    ) -> Result<Option<Value>, Fault> {
        reader.begin();
        let resource = watch::resource(kind);
        let what = &resource.kind;
        let api = watch::items(&self.connection.read, kind, "");
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = tokio::time::timeout(PATIENCE, api.list(&params))
            .await
            .map_err(|_| unavailable(format!("{what} {name} was not read in time")))?
            .map_err(|error| unavailable(format!("{what} {name} cannot be read: {error}")))?;
        let object = found.items.into_iter().next();
        let version = object
            .as_ref()
            .and_then(|object| object.metadata.resource_version.as_deref());
        reader.note(Mark::object(&resource, None, name, version));
        let Some(object) = object else { return Ok(None) };
        let read = object.read(kind);
        let mut object = read.map_err(|why| unavailable(format!("{what} {name}: {}", why.message)))?;
        object.metadata.managed_fields = None;
        object.types = Some(kube::core::TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
        let object = serde_json::to_value(&object).map_err(|error| unavailable(error.to_string()))?;
        Ok(Some(object))
    }

    /// Watches what a rule read, and says when it has changed.
    fn watch(
        &self,
        request: EvaluationRequest,
        marks: Vec<Mark>,
        longest: Duration,
        to: UnboundedSender<Seen>,
    ) {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        watching.retain(|_, (_, task)| !task.is_finished());
        let (client, of) = (self.connection.read.clone(), request.key.clone());
        let (watches, namespace) = (self.watches.clone(), request.rule.namespace.clone());
        let task = tokio::spawn(async move {
            if stir::any_changes(client, marks, longest, (&watches, &namespace)).await {
                let _ = to.send(Seen::Stirred(of));
            }
        });
        if let Some((_, before)) = watching.insert(request.key, (request.rule, task.abort_handle())) {
            before.abort();
        }
    }

    fn unwatch(&self, key: &str) {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, task)) = watching.remove(key) {
            task.abort();
        }
    }
}

/// So long before.
fn before(now: Timestamp, age: Duration) -> Timestamp {
    let age = jiff::SignedDuration::try_from(age).unwrap_or(jiff::SignedDuration::MAX);
    now.checked_sub(age).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{artifact, crowd, expressions, reader, room};

    /// The number after `key` in MiB, of a manifest in which it stands once behind `section`.
    fn mib(manifest: &str, section: &str, key: &str) -> u64 {
        let (_, rest) = manifest.split_once(section).unwrap();
        let (_, rest) = rest.split_once(key).unwrap();
        let word = rest.split_whitespace().next().unwrap();
        match word.strip_suffix("Gi") {
            Some(number) => number.parse::<u64>().unwrap() * 1024,
            None => word.strip_suffix("Mi").unwrap().parse().unwrap(),
        }
    }

    /// Else whoever writes a rule could have the kubelet end numo.
    #[test]
    fn the_deployment_holds_all_that_rules_may_have() {
        let manifest = include_str!("../../../../deploy/kustomize/base/deployment.yaml");
        let limits = numo_plugin::Limits::default();
        let children = expressions::MEMORY * expressions::TOGETHER
            + expressions::CHECK_MEMORY * expressions::CHECKED_TOGETHER;
        let objects = expressions::BYTES as u64 * expressions::READ_TOGETHER;
        let looks = limits.component_bytes * LOOKS;
        let memory = limits.compile_memory_bytes
            + limits.concurrent_memory_bytes
            + children
            + objects
            + looks
            + ((reader::PAGES_MIB + reader::OBJECTS_MIB) << 20)
            + loaded::LOADED_BYTES
            // What is loaded and describes itself, twice, and what the compiler hands over.
            + 3 * limits.compiled_bytes
            + (room::RULES + crowd::ALL) as u64;
        assert!(mib(manifest, "limits:", "memory:") >= (memory >> 20) + 128);
        // Both write before they make room.
        let disk = limits.cache_bytes + artifact::KEPT_BYTES + 2 * limits.compiled_bytes;
        let cache = mib(manifest, "emptyDir:", "sizeLimit:");
        assert!(cache >= disk >> 20);
        // It counts against the pod's storage, and so do its logs.
        assert!(mib(manifest, "limits:", "ephemeral-storage:") >= cache + 256);
    }
}
