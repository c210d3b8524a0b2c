//! Evaluates rules that are not Jobs: their components, expressions and queries are looked at when a MutexRule changes, and evaluated
//! when the planner says so. Nothing here blocks the planner: what comes of it is sent to it like what a watch sees.

use super::{
    artifact::Artifacts,
    component,
    intent::What,
    invalidate::{self, Mark},
    reader::{Access, RuleReader},
    signers,
    state::{Children, Inner, PATIENCE, unavailable},
};
use crate::shell::{
    client::Connection,
    clock::ServerClock,
    metrics::Metrics,
    project::{self, Edition},
    store::Seen,
};
use jiff::Timestamp;
use numo_api::{AwaitedWorkloads, MutexRule, RuleType};
use numo_core::{
    action::EvaluationRequest,
    observed::{Key, RuleAnswer, RunConfigView},
    ready, rules,
};
use numo_plugin::{address::AddressRange, shares::Shares};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedSender;

pub use super::state::{EvaluatorOptions, PrometheusServer};

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
pub struct Evaluator(Arc<Inner>);

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluator")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

impl Evaluator {
    /// No rule yet.
    pub fn new(connection: Connection, options: EvaluatorOptions, metrics: Metrics) -> Self {
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
            watches: Shares::new(invalidate::WATCHES),
            children: Children::new(),
            lines: Arc::default(),
        }))
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// How the cluster is reached.
    pub fn connection(&self) -> &Connection {
        &self.0.connection
    }

    /// How much components may write into the log.
    pub fn log_shares(&self) -> Arc<crate::shell::lines::LogShares> {
        self.0.lines.clone()
    }

    /// Finds out whether a rule can be asked, and says what came of it.
    pub fn examine(&self, rule: Arc<MutexRule>, to: UnboundedSender<Seen>) {
        let this = self.clone();
        let (key, edition) = (project::key(&rule.metadata), project::edition(&rule.metadata));
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
                    unavailable("signers of components changed while it was evaluated".to_owned());
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

impl Inner {
    /// Components are judged by another policy from now on.
    fn judge_anew(&self, to: &UnboundedSender<Seen>) {
        let mut policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        *policy += 1;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|_, loaded| !matches!(loaded.what, What::Component(_)));
        let _ = to.send(Seen::PolicyChanged);
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
            if invalidate::any_changes(client, marks, longest, (&watches, &namespace)).await {
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
    use crate::shell::{
        crowd,
        eval::{artifact, expressions, loaded, reader},
        room,
    };

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
        let manifest = include_str!("../../../../../deploy/kustomize/base/deployment.yaml");
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
