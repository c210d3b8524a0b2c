//! The planner: the one task that decides and writes. Passes never overlap; a pass sees one owner and
//! everything that was seen.
//!
//! A pass decides, checks the decision, carries it out and decides again, until there is nothing left to
//! do; then the status is written, once, if it differs. It is triggered by what was seen to change, by a
//! deadline the last decision named, or by a write that failed; never by a clock alone.

mod context;
mod judging;
mod namespaces;
mod orphans;
mod pods;
mod reading;
mod rivals;

use self::{
    context::{Context, PATIENCE},
    judging::Judgements,
    namespaces::Namespaces,
    orphans::Orphans,
    pods::PodWatches,
    rivals::Rivals,
};
use super::{
    answer,
    apply::{self, ApplyError},
    asked::AskedRules,
    channel::Channels,
    client::Connection,
    events::{Events, Published},
    inbox::Inbox,
    kind::Kind,
    leader::Fence,
    metrics::Metrics,
    notice::{Board, Notice},
    repeats::Repeats,
    status,
    store::{Reach, Seen, Store},
    watched::{self, Place, etcd_pod::KUBE_SYSTEM},
};
use crate::frontends;
use jiff::{SignedDuration, Timestamp};
use numo_api::{Condition, NodeMaintenanceStatus, Reason, VerdictRecord, conditions::types};
use numo_core::{
    Decision, Owner, OwnerKind, Snapshot,
    action::{Action, Event, EventAction, Planned},
    decide, invariant,
    observed::{Key, Said, Settings},
    quorum::OPENSHIFT_ETCD,
    ready, referred,
    report::{Report, RunPhase, Why},
    stop,
    verdict::{Answers, KeptVolumes, Question},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Semaphore, watch as signal},
    time::Instant,
};

/// Rounds of one pass: each is at least one write further, so this bounds what one owner may hold up.
const MAX_ROUNDS: usize = 200;
/// How often runs are decided again because one of them changed something; more goes on after the next look
/// at the watches.
const MAX_TURNS: usize = 5;
/// For how long what was decided may begin anything: a Pass grows old, and windows close, while a slow API server takes the
/// writes before it.
const DECIDED_FOR: Duration = Duration::from_secs(5);
/// How long changes are gathered before a pass, so that a burst of them is one pass.
const GATHER: Duration = Duration::from_millis(10);
/// First and longest wait after a write that failed.
const RETRY_FIRST: SignedDuration = SignedDuration::from_millis(250);
const RETRY_LONGEST_SECONDS: i64 = 30;
/// How long a status of a Plan that differs in words only waits after the one before it.
const PLAN_WORDS: SignedDuration = SignedDuration::from_secs(5);
/// How long after a status that could not be written (seconds).
const STATUS_AGAIN_SECONDS: i64 = 5;
/// Evictions of one round, which ask their pods when there is a place for them.
#[derive(Debug)]
struct Queued {
    owner: Owner,
    /// The stops that were there when they were decided.
    known: BTreeSet<String>,
    /// Whether another came since.
    stopped: Arc<AtomicBool>,
}

/// How long a drain that could not pass is taken for such.
const DRAIN_MEMORY: Duration = Duration::from_secs(15);

/// Kinds that only the operator itself needs to see.
const OPERATOR_KINDS: [Kind; 2] = [Kind::DaemonSet, Kind::DisruptionBudget];

/// How often it is said again that nodes in flight stand still beside another operator.
const STOOD_OFF_AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// Nodes in flight that are named.
const NODES_SHOWN: usize = 10;
/// How often numo corrects its own conditions on an object that another operator has in hand.
const CORRECTIONS: u8 = 3;
/// How often the planner comes round at least: `/healthz` tells one that does not.
const HEARD: Duration = Duration::from_mins(1);
/// Evictions that are under way at once.
const EVICTIONS_AT_ONCE: usize = 16;

/// The planner.
#[derive(Debug)]
pub struct Planner {
    context: Context,
    channels: Channels,
    namespaces: Namespaces,
    judgements: Judgements,
    pods: PodWatches,
    rivals: Rivals,
    orphans: Orphans,
    /// Rules and targets whose status is still to be written.
    untold: status::Line,
    wakes: BTreeMap<Owner, Timestamp>,
    failures: BTreeMap<Owner, u32>,
    blocked_drains: BTreeMap<String, (Instant, String)>,
    /// Volumes of pods that stay on a node.
    kept_volumes: BTreeMap<String, (Instant, Result<KeptVolumes, String>)>,
    /// The words of a refusal, by owner and chain, until a write of the chain succeeds or none is due.
    refused: BTreeMap<(Owner, String), String>,
    /// Statuses that the API server refuses, in whose words that was said.
    untold_statuses: BTreeMap<Owner, String>,
    /// Writes that were refused as if what was read had changed.
    repeats: Repeats,
    shown: BTreeSet<Owner>,
    /// Runs whose last decision was that there is nothing to do.
    idle: BTreeSet<Owner>,
    /// Places for evictions that are under way.
    places: Arc<Semaphore>,
    /// Evictions that may still wait for a place.
    queued: Vec<Queued>,
    /// Owners that are left to another operator.
    stood_off: BTreeMap<Owner, StoodOff>,
    /// The status of a maintenance as it was sent, and as the API server keeps it.
    sent: BTreeMap<Owner, (NodeMaintenanceStatus, NodeMaintenanceStatus)>,
    /// When the status of each Plan was written last.
    plans_said: BTreeMap<Key, Timestamp>,
    said_no_leases: bool,
    /// Whose decisions the writes of this turn can change.
    changed: Reach,
}

impl Planner {
    /// A planner that has seen nothing yet; its watches begin now, after the lease was won, so that
    /// nothing older than the lease is ever decided on.
    pub fn new(
        connection: Connection,
        asked: AskedRules,
        channels: Channels,
        settings: Settings,
        metrics: Metrics,
        (events, board): (Events, Board),
        fence: Fence,
    ) -> Self {
        let mut planner = Self {
            context: Context {
                connection,
                store: Store::new(settings),
                inbox: Inbox::new(),
                asked,
                metrics,
                events,
                board,
                fence,
            },
            channels,
            namespaces: Namespaces::default(),
            judgements: Judgements::default(),
            pods: PodWatches::default(),
            rivals: Rivals::default(),
            orphans: Orphans::default(),
            untold: status::Line::default(),
            wakes: BTreeMap::new(),
            failures: BTreeMap::new(),
            blocked_drains: BTreeMap::new(),
            kept_volumes: BTreeMap::new(),
            refused: BTreeMap::new(),
            untold_statuses: BTreeMap::new(),
            repeats: Repeats::default(),
            shown: BTreeSet::new(),
            idle: BTreeSet::new(),
            places: Arc::new(Semaphore::new(EVICTIONS_AT_ONCE)),
            queued: Vec::new(),
            stood_off: BTreeMap::new(),
            sent: BTreeMap::new(),
            plans_said: BTreeMap::new(),
            said_no_leases: false,
            changed: Reach::Nobody,
        };
        for kind in watched::at(Place::Everywhere)
            .chain(OPERATOR_KINDS)
            .chain(watched::at(Place::Replaced))
        {
            planner.context.watch(kind, "");
        }
        for namespace in [KUBE_SYSTEM, OPENSHIFT_ETCD] {
            planner.context.watch(Kind::EtcdPod, namespace);
        }
        planner
            .context
            .watch(Kind::Lease, numo_api::marks::LEASE_NAMESPACE);
        planner
    }

    /// Decides and writes until asked to stop. What is being written then is finished first.
    pub async fn run(&mut self, mut stop: signal::Receiver<bool>) {
        let mut dirty = Reach::Nobody;
        tokio::spawn(
            self.context
                .asked
                .clone()
                .follow_signers(self.context.inbox.answered()),
        );
        self.context.tell_unlisted();
        while !*stop.borrow() {
            self.context.metrics.hear();
            // However little there is to do, it is heard now and then.
            let wake = self.next_wake().min(HEARD);
            tokio::select! {
                _ = stop.changed() => return,
                seen = self.context.inbox.next() => {
                    let Some(seen) = seen else { return };
                    dirty = dirty.max(self.context.store.take_in(seen));
                    self.wake_touched();
                    if dirty == Reach::Nobody && self.context.inbox.is_empty() && !self.is_woken() {
                        continue;
                    }
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(wake) => {}
            }
            dirty = dirty.max(self.take_in());
            self.wake_touched();
            rivals::judge(&mut self.context);
            self.namespaces.follow(&mut self.context);
            // Before all Nodes are listed nobody knows which addresses are the cluster's.
            if !self.context.store.is_complete() {
                continue;
            }
            self.judge_rules();
            // A namespace that is heeded since a moment ago is listed again first.
            if self.rivals.await_claims(&self.context.store) || !self.context.store.is_complete() {
                continue;
            }
            self.pass_over(std::mem::take(&mut dirty), &stop).await;
            self.pods.follow(&mut self.context);
            // What was seen meanwhile may be a Plan, a rule, or the list that its judgement waited for.
            self.namespaces.follow(&mut self.context);
            self.judge_rules();
        }
    }

    /// Takes in everything that has been seen by now.
    fn take_in(&mut self) -> Reach {
        let reach = self.context.take_in();
        self.note_stops();
        reach
    }

    /// Takes note of which rules exist and are referred to, and has those judged that are due.
    fn judge_rules(&mut self) {
        let context = &mut self.context;
        let known: BTreeSet<Key> = context.store.rules().map(|(key, _)| key.clone()).collect();
        self.judgements.keep_only(&known);
        let referred = referred::rules(&context.store.observed);
        context
            .asked
            .keep_only(&known, &referred.keys().cloned().collect());
        reading::give_room(context, referred);
        context.asked.select_workloads(&context.store.observed.runs);
        context.metrics.keep_rules(|rule| {
            let (namespace, name) = rule.split_once('/').unwrap_or(("", rule));
            let key = Key::new(namespace, name);
            known.contains(&key) || key == ready::key()
        });
        let own = ready::rule(None);
        let rules = context.store.observed.rules.values();
        context.metrics.know_rules(rules.chain(std::iter::once(&own)));
        self.judgements.judge(context);
    }

    /// Tells evictions that wait for their place that a stop came.
    fn note_stops(&mut self) {
        let observed = &self.context.store.observed;
        self.queued
            .retain(|queued| Arc::strong_count(&queued.stopped) > 1);
        for queued in &self.queued {
            if !stop::standing(observed, &queued.owner).is_subset(&queued.known) {
                queued.stopped.store(true, Ordering::Release);
            }
        }
    }

    /// Has those decided again whose node's pods have changed.
    fn wake_touched(&mut self) {
        let touched = self.context.store.take_touched();
        if touched.is_empty() {
            return;
        }
        let now = self.context.now();
        let maintenances = self.context.store.observed.maintenances.values();
        let woken = maintenances.filter(|view| touched.contains(&view.spec.node_name));
        let mut woken: Vec<Owner> = woken.map(|view| view.owner.clone()).collect();
        for change in self.context.store.observed.changing() {
            if change.spec.owner_ref.kind == OwnerKind::Plan.name()
                && touched.contains(&change.spec.node_name)
            {
                let key = Key::new(&change.key.namespace, &change.spec.owner_ref.name);
                woken.push(Owner::plan(key));
            }
        }
        for owner in woken {
            self.wakes.insert(owner, now);
        }
    }

    /// Whether anybody's time has come.
    fn is_woken(&self) -> bool {
        let now = self.context.now();
        self.wakes.values().any(|at| *at <= now)
    }

    /// Every owner that was seen.
    fn owners(&self) -> BTreeSet<Owner> {
        let observed = &self.context.store.observed;
        let runs = observed.runs.keys().cloned().map(Owner::run);
        let plans = observed.plans.keys().cloned().map(Owner::plan);
        runs.chain(observed.maintenances.keys().cloned())
            .chain(plans)
            .collect()
    }

    /// The owners that are to be decided: those within reach, and those whose time has come.
    fn due(&self, reach: Reach) -> Vec<Owner> {
        let now = self.context.now();
        let within = |key: &Owner| match reach {
            Reach::Everyone => true,
            Reach::Busy => !self.idle.contains(key),
            Reach::Nobody => false,
        };
        let woken = |key: &Owner| self.wakes.get(key).is_some_and(|at| *at <= now);
        let mut owners = self.owners();
        // Until the Jobs of its namespace have been listed, nobody knows what a Plan has begun.
        let is_known = |owner: &Owner| {
            owner.kind != OwnerKind::Plan || self.context.store.has_listed_plans(&owner.key.namespace)
        };
        owners.retain(|owner| (within(owner) || woken(owner)) && is_known(owner));
        let is_honoured = |owner: &Owner| referred::is_honoured(owner, &self.context.store.observed);
        let (mut first, others): (Vec<Owner>, Vec<Owner>) = owners.into_iter().partition(is_honoured);
        first.extend(others);
        first
    }

    async fn pass_over(&mut self, reach: Reach, stop: &signal::Receiver<bool>) {
        let mut due = self.due(reach);
        if due.is_empty() && reach < Reach::Everyone {
            // Rules only that the last pass left over.
            if !self.untold.is_empty() {
                self.tell_others().await;
            }
            return;
        }
        let runs = self.owners();
        for gone in self.shown.iter().filter(|key| !runs.contains(key)) {
            self.context.metrics.forget(gone);
        }
        self.idle.retain(|key| runs.contains(key));
        self.failures.retain(|key, _| runs.contains(key));
        self.stood_off.retain(|owner, _| runs.contains(owner));
        self.sent.retain(|owner, _| runs.contains(owner));
        self.refused.retain(|(key, _), _| runs.contains(key));
        self.repeats.retain(|owner, _| runs.contains(owner));
        self.untold_statuses.retain(|owner, _| runs.contains(owner));
        self.shown = runs;
        self.context.store.forget_refusals();
        self.context.store.forget_evaluations(self.context.now());
        // What one run gives back, another may wait for: they are decided again until nothing changes.
        for _ in 0..MAX_TURNS {
            self.changed = Reach::Nobody;
            for run in &due {
                if *stop.borrow() || !self.context.fence.holds() {
                    return;
                }
                self.pass(run).await;
            }
            due = self.due(self.changed);
            if due.is_empty() {
                break;
            }
        }
        // Whoever is still not done goes on after the next look at the watches.
        let now = self.context.now();
        self.wakes.extend(due.into_iter().map(|key| (key, now)));
        self.untold.line_up(&self.context.connection, &self.context.store);
        self.tell_others().await;
        self.context
            .metrics
            .show_cluster(&self.context.store.observed, now);
        self.orphans.tell(&self.context);
        let news = self.context.store.take_news();
        let due = self.due(news);
        self.wakes.extend(due.into_iter().map(|key| (key, now)));
    }

    /// Writes the status of what is no owner.
    async fn tell_others(&mut self) {
        status::others(
            &self.context.connection,
            &mut self.context.store,
            &self.context.events,
            &mut self.untold,
        )
        .await;
    }

    /// One pass over one owner.
    async fn pass(&mut self, owner: &Owner) {
        let begun = Instant::now();
        let mut answers = Answers::default();
        let mut blocked: BTreeSet<String> = BTreeSet::new();
        self.blocked_drains
            .retain(|_, (at, _)| at.elapsed() < DRAIN_MEMORY);
        for (node, (_, why)) in &self.blocked_drains {
            answers.drains.insert(node.clone(), Some(why.clone()));
        }
        self.kept_volumes.retain(|_, (at, _)| at.elapsed() < DRAIN_MEMORY);
        for (node, (_, found)) in &self.kept_volumes {
            answers.volumes.insert(node.clone(), found.clone());
        }
        for _ in 0..MAX_ROUNDS {
            // What it asks may take long, too.
            let decided = Instant::now();
            let decision = self.decide(owner, &answers);
            for question in &decision.questions {
                if let Question::Evaluate(request) = question {
                    self.context.store.ask(request, self.context.now());
                    self.context
                        .asked
                        .ask((**request).clone(), self.context.inbox.answered());
                    continue;
                }
                if let Question::Channel { plan, url, latest } = question {
                    self.context.store.asks_channel(plan, url, self.context.now());
                    let (plan, url, latest) = (plan.clone(), url.clone(), latest.clone());
                    self.channels
                        .ask(plan, url, latest, self.context.inbox.answered());
                    continue;
                }
                let Connection { read, write, .. } = &self.context.connection;
                let seen = (&self.context.store.observed, self.context.now());
                let asked = answer::answer((read, write), seen, question, &mut answers);
                if tokio::time::timeout(PATIENCE, asked).await.is_err() {
                    answer::unanswered(question, &mut answers);
                }
            }
            for (node, why) in &answers.drains {
                if let Some(why) = why {
                    self.blocked_drains
                        .entry(node.clone())
                        .or_insert_with(|| (Instant::now(), why.clone()));
                }
            }
            for (node, found) in &answers.volumes {
                self.kept_volumes
                    .entry(node.clone())
                    .or_insert_with(|| (Instant::now(), found.clone()));
            }
            let due: Vec<Planned> = decision
                .actions
                .iter()
                .filter(|planned| !blocked.contains(&planned.chain))
                .cloned()
                .collect();
            if due.is_empty() && decision.questions.is_empty() {
                break;
            }
            let (evictions, due): (Vec<_>, Vec<_>) = due
                .into_iter()
                .partition(|planned| matches!(planned.action, Action::Evict { .. }));
            let known = stop::standing(&self.context.store.observed, owner);
            let mut is_stopped = false;
            for planned in due {
                if blocked.contains(&planned.chain) {
                    continue;
                }
                if !self.context.fence.holds() {
                    return;
                }
                // A stop that came since this round was decided: what has not been written yet is decided anew, so that
                // nothing new begins and what gives back goes on.
                self.changed = self.changed.max(self.take_in());
                let is_old = planned.action.disrupts() && decided.elapsed() > DECIDED_FOR;
                if is_old || self.is_stopped(owner, &known) {
                    is_stopped = true;
                    break;
                }
                if !self.carry_out(owner, planned.clone()).await {
                    blocked.insert(planned.chain);
                }
            }
            is_stopped |= decided.elapsed() > DECIDED_FOR;
            if !is_stopped && !evictions.is_empty() && self.context.fence.holds() {
                self.evict(owner, evictions, known);
            }
            self.changed = self.changed.max(self.take_in());
            self.wake_touched();
        }
        self.settle(owner, &answers, !blocked.is_empty()).await;
        self.context.metrics.passes.inc();
        self.context
            .metrics
            .pass_seconds
            .observe(begun.elapsed().as_secs_f64());
    }

    fn decide(&self, owner: &Owner, answers: &Answers) -> Decision {
        let snapshot = Snapshot {
            now: self.context.now(),
            observed: &self.context.store.observed,
            owner,
            asked: None,
        };
        let begun = Instant::now();
        let mut decision = decide(&snapshot, answers);
        self.context
            .metrics
            .decide_seconds
            .observe(begun.elapsed().as_secs_f64());
        for breach in invariant::lint(&snapshot, &mut decision) {
            tracing::error!(run = %owner, invariant = breach.invariant, message = breach.message, "invariant breach: not carried out");
            self.context.metrics.breaches.inc();
            let why = format!("invariant {}: {}", breach.invariant, breach.message);
            decision.report.hold = Some(numo_core::report::Why::new(Reason::InvariantBreach, why));
        }
        decision
    }

    /// Whether a stop came that was not there when the round was decided.
    fn is_stopped(&self, owner: &Owner, known: &BTreeSet<String>) -> bool {
        !stop::standing(&self.context.store.observed, owner).is_subset(known)
    }

    /// Has pods asked to go, some at once; what comes of it is seen later. A slow webhook holds up nobody else. `known` are the
    /// stops that were there when the round was decided: once another comes, whatever still waits for its place is not asked.
    fn evict(&mut self, owner: &Owner, evictions: Vec<Planned>, known: BTreeSet<String>) {
        let now = self.context.now();
        let queued = Queued {
            owner: owner.clone(),
            known,
            stopped: Arc::default(),
        };
        for planned in evictions {
            let Action::Evict { node, eviction } = planned.action else {
                continue;
            };
            self.context.store.asks_to_go(&eviction, now);
            let (client, clock) = (
                self.context.connection.write.clone(),
                self.context.connection.clock.clone(),
            );
            let (fence, places, sender) = (
                self.context.fence.clone(),
                self.places.clone(),
                self.context.inbox.answered(),
            );
            let (metrics, owner) = (self.context.metrics.clone(), owner.clone());
            let stopped = queued.stopped.clone();
            tokio::spawn(async move {
                let Ok(_place) = places.acquire().await else {
                    return;
                };
                if !fence.holds() {
                    return;
                }
                if stopped.load(Ordering::Acquire) {
                    let said = Said::Busy("a stop came before it was asked".to_owned());
                    let _ = sender.send(Seen::Evicted(node, Box::new(eviction), said, clock.now()));
                    return;
                }
                let asked = tokio::time::timeout(PATIENCE, apply::evict(&client, &eviction)).await;
                let said = asked.unwrap_or_else(|_| Said::Busy("not answered in time".to_owned()));
                metrics.wrote("Evict", if said == Said::Accepted { "ok" } else { "refused" });
                tracing::info!(%owner, node, pod = %eviction.pod, ?said, "asked to go");
                let _ = sender.send(Seen::Evicted(node, Box::new(eviction), said, clock.now()));
            });
        }
        self.queued.push(queued);
    }

    /// Carries out one action; true if it was.
    async fn carry_out(&mut self, owner: &Owner, planned: Planned) -> bool {
        let Planned { action, event, chain } = planned;
        let name = action_name(&action);
        let judged = self.judged_by(&action);
        // The object may be gone by the time the event is written: its uid is taken now.
        let of_pool = event
            .as_ref()
            .and_then(|event| self.about_pool(owner, &action, event));
        let about = event.map(|event| self.context.publishable(owner, event));
        let now = self.context.now();
        let write = apply::apply(
            &self.context.connection.write,
            &mut self.context.store,
            &action,
            now,
        );
        let Ok(result) = tokio::time::timeout(PATIENCE, write).await else {
            tracing::warn!(run = %owner, chain, action = name, "not answered in time");
            self.context.metrics.wrote(name, "failed");
            let words = format!("not answered within {} s", PATIENCE.as_secs());
            self.note_failure(owner, chain, name, &words);
            return false;
        };
        match &result {
            Ok(()) => {
                tracing::info!(run = %owner, chain, action = name, "done");
                self.context.metrics.wrote(name, "ok");
                for verdict in &judged {
                    self.context.metrics.judged(verdict);
                }
                self.changed = self.changed.max(reach(&action));
                self.repeats.forget(owner, &chain);
                self.refused.remove(&(owner.clone(), chain));
                if let Action::CreateJob(request) = &action {
                    self.context.store.accept(&request.job);
                    self.context
                        .metrics
                        .begins(&request.rule.to_string(), request.phase);
                }
                for published in about.flatten().into_iter().chain(of_pool) {
                    self.context.events.publish(published);
                }
                self.say_once_without_leases(owner);
            }
            Err(error @ (ApplyError::Stale { .. } | ApplyError::Gone { .. })) => {
                tracing::info!(run = %owner, chain, action = name, %error, "seen differently by the API server; deciding anew");
                self.context.metrics.wrote(name, "stale");
                let words = error.to_string();
                if self.repeats.note(owner, &chain, &action, &words, now) {
                    let words = format!("{name} is refused again and again: {words}");
                    self.note_refusal(owner, chain, words);
                }
            }
            Err(ApplyError::Refused { about, code, message }) => {
                tracing::warn!(run = %owner, chain, action = name, about, code, message, "refused");
                self.context.metrics.wrote(name, "refused");
                if let Action::CreateJob(request) = &action {
                    self.context
                        .store
                        .refuse(request.job.clone(), *code, message.clone(), now);
                } else {
                    let words = format!("{about}: {name} is refused ({code}): {message}");
                    self.note_refusal(owner, chain, words);
                }
            }
            Err(error @ ApplyError::Unreachable { .. }) => {
                tracing::warn!(run = %owner, chain, action = name, %error, "not written");
                self.context.metrics.wrote(name, "failed");
                if let Action::CreateJob(request) = &action {
                    self.context
                        .store
                        .refuse(request.job.clone(), 0, error.to_string(), now);
                }
                let words = error.to_string();
                self.note_failure(owner, chain, name, &words);
            }
        }
        result.is_ok()
    }

    /// Notes a write that the API server did not take for no fault of the write: people hear of it if that goes on.
    fn note_failure(&mut self, owner: &Owner, chain: String, name: &'static str, words: &str) {
        let now = self.context.now();
        if self.repeats.fails(owner, &chain, name, now) {
            self.note_refusal(owner, chain, format!("{name} fails again and again: {words}"));
        }
    }

    /// The verdicts that a write adds to a journal.
    fn judged_by(&self, action: &Action) -> Vec<VerdictRecord> {
        let (known, written) = match action {
            Action::WriteJournal { key, status, .. } => {
                let known = self.context.store.observed.changes.get(key);
                (
                    known.map(|change| change.status.verdicts.as_slice()),
                    &status.verdicts,
                )
            }
            Action::RecordRun { owner, run } => {
                let known = self.context.store.observed.runs.get(owner);
                let known = known.and_then(|view| view.status.run.as_ref());
                (known.map(|run| run.verdicts.as_slice()), &run.verdicts)
            }
            _ => return Vec::new(),
        };
        let known = known.unwrap_or_default();
        written
            .iter()
            .filter(|verdict| !known.contains(verdict))
            .cloned()
            .collect()
    }

    /// Keeps the words of a refusal for the status, and says them once.
    fn note_refusal(&mut self, owner: &Owner, chain: String, words: String) {
        let event = Event {
            node: self
                .context
                .store
                .observed
                .nodes
                .contains_key(&chain)
                .then(|| chain.clone()),
            warning: true,
            reason: Reason::WriteRefused.name(),
            action: EventAction::Hold,
            note: words.clone(),
        };
        if self.refused.insert((owner.clone(), chain), words.clone()) != Some(words)
            && let Some(published) = self.context.publishable(owner, event)
        {
            self.context.events.publish(published);
        }
    }

    /// Puts refusals that still stand into the report; those of writes that are due no more are forgotten.
    fn report_refusals(&mut self, owner: &Owner, decision: &mut Decision) {
        let is_due = |of: &Owner, chain: &str| {
            of != owner || decision.actions.iter().any(|planned| planned.chain == chain)
        };
        self.refused.retain(|(of, chain), _| is_due(of, chain));
        self.repeats.retain(is_due);
        for ((of, chain), words) in &self.refused {
            if of == owner {
                let why = numo_core::report::Why::new(Reason::WriteRefused, words.clone());
                decision.report.refused(chain, why);
            }
        }
    }

    /// Node leases that cannot be had stop nothing, and are said once.
    fn say_once_without_leases(&mut self, owner: &Owner) {
        let Some(why) = self
            .context
            .store
            .observed
            .settings
            .leases_unavailable
            .clone()
            .filter(|_| !self.said_no_leases)
        else {
            return;
        };
        self.said_no_leases = true;
        self.context.board.write(Notice {
            leases_unavailable: Some(why.clone()),
            ..self.context.board.read()
        });
        tracing::warn!(
            reason = Reason::NodeLeaseUnavailable.name(),
            why,
            "going on without node leases"
        );
        let event = Event {
            node: None,
            warning: true,
            reason: Reason::NodeLeaseUnavailable.name(),
            action: EventAction::Admit,
            note: why,
        };
        self.context.publish(owner, event);
    }

    /// What happens to a pool is said of the pool as well: who looks after it need not know the run.
    fn about_pool(&self, owner: &Owner, action: &Action, event: &Event) -> Option<Published> {
        let Action::PatchPool(patch) = action else {
            return None;
        };
        Some(Published {
            pool: Some((patch.pool.clone(), patch.uid.clone())),
            ..self.context.publishable(owner, event.clone())?
        })
    }

    /// Writes the status, and notes when to come back.
    async fn settle(&mut self, owner: &Owner, answers: &Answers, failed: bool) {
        let mut decision = self.decide(owner, answers);
        self.report_refusals(owner, &mut decision);
        let failures = self.failures.entry(owner.clone()).or_default();
        *failures = if failed { *failures + 1 } else { 0 };
        let retry = failed.then(|| {
            let wait = RETRY_FIRST.as_millis() << (*failures - 1).min(8);
            let wait = SignedDuration::from_millis(i64::try_from(wait).unwrap_or(i64::MAX));
            self.context.now() + wait.min(SignedDuration::from_secs(RETRY_LONGEST_SECONDS))
        });
        let is_run = owner.kind == OwnerKind::MutexRunConfig;
        let is_maintenance = matches!(owner.kind, OwnerKind::NodeMaintenance(_));
        let idle =
            decision.report.phase == RunPhase::Idle && (is_maintenance || decision.report.hold.is_none());
        if idle {
            self.idle.insert(owner.clone());
        } else {
            self.idle.remove(owner);
        }
        // What became due since the last round is asked in the next pass.
        let asks = |question: &Question| matches!(question, Question::Evaluate(_) | Question::Channel { .. });
        let asked = decision.questions.iter().any(asks);
        let asked = asked.then(|| self.context.now());
        // What became due since the last round is carried out soon, and what was too much for one pass.
        let left = !is_run && !failed && !decision.actions.is_empty();
        let left = left.then(|| self.context.now() + SignedDuration::from_secs(1));
        match [decision.wake_at, retry, asked, left].into_iter().flatten().min() {
            Some(at) => self.wakes.insert(owner.clone(), at),
            None => self.wakes.remove(owner),
        };
        match owner.kind {
            OwnerKind::MutexRunConfig => self.settle_run(owner, &decision).await,
            OwnerKind::NodeMaintenance(_) => self.settle_maintenance(owner, &decision).await,
            OwnerKind::Plan => self.settle_plan(owner, &decision).await,
        }
    }

    /// Whether the owner is left to another operator. That is said once, and again and again while nodes are in flight.
    async fn stands_off(&mut self, owner: &Owner, uid: &str, decision: &Decision) -> bool {
        let hold = decision.report.hold.as_ref();
        let Some(why) = hold.filter(|why| why.reason == Reason::ForeignController) else {
            self.stood_off.remove(owner);
            return false;
        };
        // The metrics must not freeze at their last word.
        self.context
            .show(owner, decision, (Some(Reason::ForeignController.name()), true));
        let now = self.context.now();
        let flying = in_flight(&decision.report);
        let known = self.stood_off.get(owner).cloned().unwrap_or_default();
        let again = known.said.and_then(|at| at.checked_add(STOOD_OFF_AGAIN).ok());
        let is_due = again.is_none_or(|again| !flying.is_empty() && again <= now);
        let said = known.said.filter(|_| !is_due).unwrap_or(now);
        let entry = self.stood_off.entry(owner.clone()).or_default();
        entry.said = Some(said);
        if !flying.is_empty()
            && let Ok(next) = said.checked_add(STOOD_OFF_AGAIN)
        {
            let wake = self.wakes.entry(owner.clone()).or_insert(next);
            *wake = (*wake).min(next);
        }
        let message = stood_off_words(&why.message, &flying);
        if is_due {
            let event = Event {
                node: None,
                warning: true,
                reason: Reason::ForeignController.name(),
                action: EventAction::Hold,
                note: message.clone(),
            };
            self.context.publish(owner, event);
        }
        self.correct_conditions(owner, uid, &message).await;
        true
    }

    /// Takes numo's own last words on the object back, a few times: the rest of the status is the other operator's.
    async fn correct_conditions(&mut self, owner: &Owner, uid: &str, message: &str) {
        let corrections = self.stood_off.get(owner).map_or(0, |known| known.corrections);
        let misleads = match self.context.store.ready_of(owner) {
            Some(reason) => reason != Reason::ForeignController.name(),
            None => false,
        };
        if !misleads || corrections >= CORRECTIONS || !self.context.fence.holds() {
            return;
        }
        if let Some(known) = self.stood_off.get_mut(owner) {
            known.corrections += 1;
        }
        let written = status::write_stood_off(
            &self.context.connection,
            &mut self.context.store,
            owner,
            uid,
            message,
        )
        .await;
        match written {
            Ok(()) => self.context.metrics.wrote("WriteStatus", "ok"),
            Err(error) => {
                tracing::warn!(%owner, %error, "the status was not written");
                self.context.metrics.wrote("WriteStatus", "failed");
                let again = self.context.now() + SignedDuration::from_secs(STATUS_AGAIN_SECONDS);
                let wake = self.wakes.entry(owner.clone()).or_insert(again);
                *wake = (*wake).min(again);
            }
        }
    }

    async fn settle_plan(&mut self, owner: &Owner, decision: &Decision) {
        let Some(view) = self.context.store.observed.plans.get(&owner.key).cloned() else {
            return;
        };
        if self.stands_off(owner, &view.uid, decision).await {
            return;
        }
        let now = self.context.now();
        let status = frontends::plan::status(&view, &decision.report, now);
        let conditions = status.conditions.iter().flatten();
        let ready = conditions.clone().find(|one| one.type_ == types::READY);
        let stalled = conditions.clone().any(|one| one.type_ == types::STALLED);
        self.context.show(
            owner,
            decision,
            (ready.and_then(|one| one.reason.as_deref()), stalled),
        );
        if status == view.status || !self.context.fence.holds() {
            return;
        }
        // What differs in words only can wait: a drain says something new of every pod.
        let last = self.plans_said.get(&owner.key).copied();
        let due = last.and_then(|last| last.checked_add(PLAN_WORDS).ok());
        if let Some(due) = due.filter(|due| now < *due)
            && frontends::plan::is_the_same_but_for_words(&view.status, &status)
        {
            let wake = self.wakes.entry(owner.clone()).or_insert(due);
            *wake = (*wake).min(due);
            return;
        }
        self.plans_said.insert(owner.key.clone(), now);
        let written = status::write_plan(
            &self.context.connection,
            &mut self.context.store,
            &owner.key,
            &view.uid,
            &status,
        )
        .await;
        if let Err(error) = written {
            self.note_status(owner, decision, &error);
            return;
        }
        self.wrote_status(owner);
        self.changed = self.changed.max(self.context.store.take_news());
        for (reason, note, warning) in frontends::plan::transitions(&view, &view.status, &status) {
            let event = Event {
                node: None,
                warning,
                reason,
                action: EventAction::Change,
                note,
            };
            self.context.publish(owner, event);
        }
    }

    async fn settle_maintenance(&mut self, owner: &Owner, decision: &Decision) {
        let Some(view) = self.context.store.observed.maintenances.get(owner).cloned() else {
            return;
        };
        let now = self.context.now();
        if self.stands_off(owner, &view.uid, decision).await {
            return;
        }
        // A CRD of another's may not keep all of what is written: that is no reason to write it again.
        let mut before = view.status.clone();
        if let Some((sent, kept)) = self.sent.get(owner)
            && *kept == view.status
        {
            before.clone_from(sent);
        }
        let mut status = frontends::node_maintenance::status(&view, &decision.report, now);
        self.context.show(owner, decision, ready_of(&status.conditions));
        status.last_update.clone_from(&before.last_update);
        if status == before || !self.context.fence.holds() {
            return;
        }
        status.last_update = Some(frontends::conditions::seconds(now));
        let due = frontends::node_maintenance::due(&before, &status, now);
        if now < due {
            let wake = self.wakes.entry(owner.clone()).or_insert(due);
            *wake = (*wake).min(due);
            return;
        }
        let written = status::write_maintenance(
            &self.context.connection,
            &mut self.context.store,
            owner,
            &view.uid,
            &status,
        )
        .await;
        if let Err(error) = written {
            self.note_status(owner, decision, &error);
            return;
        }
        self.wrote_status(owner);
        if let Some(kept) = self.context.store.observed.maintenances.get(owner) {
            self.sent
                .insert(owner.clone(), (status.clone(), kept.status.clone()));
        }
        self.changed = self.changed.max(self.context.store.take_news());
        let said = frontends::node_maintenance::transition(&before, &status);
        let said = said.map(|(reason, note, warning)| Event {
            node: None,
            warning,
            reason,
            action: EventAction::Drain,
            note: note.to_owned(),
        });
        let conditions = transitions(&before.conditions, &status.conditions);
        for event in said.into_iter().chain(conditions) {
            self.context.publish(owner, event);
        }
    }

    async fn settle_run(&mut self, owner: &Owner, decision: &Decision) {
        let Some(run) = self.context.store.observed.runs.get(&owner.key).cloned() else {
            return;
        };
        if self.stands_off(owner, &run.uid, decision).await {
            return;
        }
        let now = self.context.now();
        let status = crate::frontends::mutex_run_config::status(&run, &decision.report, now);
        self.context.show(owner, decision, ready_of(&status.conditions));
        if status == run.status || run.keeps_status || !self.context.fence.holds() {
            return;
        }
        if let Err(error) = status::write(
            &self.context.connection,
            &mut self.context.store,
            Kind::MutexRunConfig,
            &owner.key,
            &run.uid,
            &status,
        )
        .await
        {
            self.note_status(owner, decision, &error);
        } else {
            self.wrote_status(owner);
            self.changed = self.changed.max(self.context.store.take_news());
            if let Some(at) = frontends::mutex_run_config::stuck_at(&status).filter(|at| *at > now) {
                let wake = self.wakes.entry(owner.clone()).or_insert(at);
                *wake = (*wake).min(at);
            }
            if let Some(why) = frontends::mutex_run_config::newly_held(&run.status, &status, &decision.report)
            {
                self.tell_held(owner, &why, decision);
            }
            let ungated = frontends::mutex_run_config::newly_ungated(&run.status, &status, &decision.report);
            let ungated = ungated.map(|note| Event {
                node: None,
                warning: true,
                reason: "UpgradeUngated",
                action: EventAction::Release,
                note,
            });
            let conditions = transitions(&run.status.conditions, &status.conditions);
            for event in ungated.into_iter().chain(conditions) {
                self.context.publish(owner, event);
            }
        }
    }

    /// A status was not written: it is tried again. One that is refused is said once by an event, as no condition can say it,
    /// and the metrics have the owner wait for a person.
    fn note_status(&mut self, owner: &Owner, decision: &Decision, error: &kube::Error) {
        tracing::warn!(%owner, %error, "the status was not written");
        let again = self.context.now() + SignedDuration::from_secs(STATUS_AGAIN_SECONDS);
        self.wakes.insert(owner.clone(), again);
        let Some(words) = status::refusal(error) else {
            self.context.metrics.wrote("WriteStatus", "failed");
            return;
        };
        self.context.metrics.wrote("WriteStatus", "refused");
        let reason = Reason::WriteRefused.name();
        self.context.show(owner, decision, (Some(reason), true));
        let note = format!("the status of {owner} is refused {words}");
        let event = Event {
            node: None,
            warning: true,
            reason,
            action: EventAction::Hold,
            note: note.clone(),
        };
        if self.untold_statuses.insert(owner.clone(), note.clone()) != Some(note)
            && let Some(published) = self.context.publishable(owner, event)
        {
            self.context.events.publish(published);
        }
    }

    fn wrote_status(&mut self, owner: &Owner) {
        self.context.metrics.wrote("WriteStatus", "ok");
        self.untold_statuses.remove(owner);
    }

    /// Says of a run, and of each pool that is paused for it, that an upgrade has begun and is held.
    fn tell_held(&self, owner: &Owner, why: &Why, decision: &Decision) {
        let pools = decision.report.pools.iter();
        for pool in pools.filter(|pool| pool.ours && pool.paused) {
            let event = Event {
                node: None,
                warning: true,
                reason: "UpgradeHeld",
                action: EventAction::Pause,
                note: format!(
                    "MachineConfigPool {} is paused and held, no node of it changes: {}: {}",
                    pool.name, why.reason, why.message
                ),
            };
            let Some(seen) = self.context.store.observed.pools.get(&pool.name) else {
                continue;
            };
            let of_pool = self
                .context
                .publishable(owner, event.clone())
                .map(|of_run| Published {
                    pool: Some((seen.name.clone(), seen.uid.clone())),
                    ..of_run
                });
            for published in self.context.publishable(owner, event).into_iter().chain(of_pool) {
                self.context.events.publish(published);
            }
        }
    }

    /// How long nothing needs to be done if nothing changes.
    fn next_wake(&mut self) -> Duration {
        const LONGEST: Duration = Duration::from_hours(1);
        if !self.context.store.is_complete() {
            return LONGEST;
        }
        let now = self.context.now();
        let observed = &self.context.store.observed;
        self.wakes.retain(|owner, _| observed.uid_of(owner).is_some());
        let decided = self
            .wakes
            .values()
            .min()
            .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::from_millis(1)));
        let judged = self.judgements.next(&self.context);
        let rivals = rivals::next(&self.context.store);
        let untold = (!self.untold.is_empty()).then_some(Duration::ZERO);
        [decided, judged, rivals, untold]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(LONGEST)
            .clamp(Duration::from_millis(1), LONGEST)
    }
}

/// An owner that is left to another operator.
#[derive(Clone, Debug, Default)]
struct StoodOff {
    /// When that was said.
    said: Option<Timestamp>,
    /// How often numo's own conditions were corrected.
    corrections: u8,
}

/// The nodes that have their turn, with their steps.
fn in_flight(report: &Report) -> Vec<String> {
    let nodes = report.nodes.iter();
    let flying = nodes.filter(|(_, node)| node.in_flight());
    flying
        .map(|(name, node)| format!("{name} ({})", node.step.name()))
        .collect()
}

/// Why an owner is left to another operator, and which nodes numo still has in hand.
fn stood_off_words(why: &str, flying: &[String]) -> String {
    if flying.is_empty() {
        return why.to_owned();
    }
    let shown = flying
        .iter()
        .take(NODES_SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = if flying.len() > NODES_SHOWN { ", …" } else { "" };
    format!(
        "{why}; numo begins nothing and keeps what it had in flight: {shown}{more}; `numo explain NODE` has the way back of each"
    )
}

/// Events on the run for what its conditions say anew: that it needs a person, or that it is done.
fn transitions(old: &[numo_api::Condition], new: &[numo_api::Condition]) -> Vec<Event> {
    let of = |list: &[numo_api::Condition], type_: &str| list.iter().find(|c| c.type_ == type_).cloned();
    let mut events = Vec::new();
    if let Some(stalled) = of(new, types::STALLED) {
        let same = of(old, types::STALLED).is_some_and(|before| before.reason == stalled.reason);
        if let Some(reason) = Reason::ALL
            .iter()
            .find(|reason| stalled.reason.as_deref() == Some(reason.name()))
            && !same
        {
            events.push(Event {
                node: None,
                warning: true,
                reason: reason.name(),
                action: EventAction::Hold,
                note: stalled.message.unwrap_or_default(),
            });
        }
    }
    // Nodes that were left out, or that rolled without rules, are named by an event whatever the run says of itself.
    if let Some(incomplete) = of(new, types::INCOMPLETE)
        && of(old, types::INCOMPLETE).is_none_or(|before| before.message != incomplete.message)
    {
        let reason = incomplete.reason.as_deref();
        if let Some(reason) = Reason::ALL.iter().find(|known| reason == Some(known.name())) {
            let note = incomplete.message.unwrap_or_default();
            let said = events
                .iter()
                .any(|event| event.reason == reason.name() && event.note.contains(&note));
            if !said {
                events.push(Event {
                    node: None,
                    warning: true,
                    reason: reason.name(),
                    action: EventAction::Complete,
                    note,
                });
            }
        }
    }
    if let Some(ready) = of(new, types::READY)
        && ready.reason.as_deref() == Some(Reason::Succeeded.name())
        && of(old, types::READY).is_none_or(|before| before.reason != ready.reason)
    {
        events.push(Event {
            node: None,
            warning: false,
            reason: Reason::Succeeded.name(),
            action: EventAction::Complete,
            note: ready.message.unwrap_or_default(),
        });
    }
    events
}

/// Whose decisions our own write can change: the watch will bring nothing new of it.
const fn reach(action: &Action) -> Reach {
    match action {
        Action::PatchPool(_) | Action::AddFinalizer { .. } | Action::RemoveFinalizer { .. } => {
            Reach::Everyone
        }
        Action::PatchNode(_)
        | Action::PatchMachine(_)
        | Action::CreateChange { .. }
        | Action::WriteJournal { .. }
        | Action::DeleteChange { .. }
        | Action::RecordRun { .. }
        | Action::CreateJob(_)
        | Action::SetJobTtl { .. }
        | Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::DeletePlanJob { .. }
        | Action::MarkGate { .. }
        | Action::Evict { .. }
        | Action::AcquireLease { .. }
        | Action::RenewLease { .. }
        | Action::ReleaseLease { .. } => Reach::Busy,
    }
}

fn action_name(action: &Action) -> &'static str {
    match action {
        Action::AddFinalizer { .. } => "AddFinalizer",
        Action::RemoveFinalizer { .. } => "RemoveFinalizer",
        Action::PatchPool(_) => "PatchPool",
        Action::PatchNode(_) => "PatchNode",
        Action::PatchMachine(_) => "PatchMachine",
        Action::CreateChange { .. } => "CreateChange",
        Action::WriteJournal { .. } => "WriteJournal",
        Action::DeleteChange { .. } => "DeleteChange",
        Action::RecordRun { .. } => "RecordRun",
        Action::CreateJob(_) => "CreateJob",
        Action::CreatePlanJob(_) => "CreatePlanJob",
        Action::StartPlanJob { .. } => "StartPlanJob",
        Action::DeletePlanJob { .. } => "DeletePlanJob",
        Action::MarkGate { .. } => "MarkGate",
        Action::Evict { .. } => "Evict",
        Action::SetJobTtl { .. } => "SetJobTtl",
        Action::AcquireLease { .. } => "AcquireLease",
        Action::RenewLease { .. } => "RenewLease",
        Action::ReleaseLease { .. } => "ReleaseLease",
    }
}

/// The reason of Ready, and whether there is a Stalled.
fn ready_of(conditions: &[Condition]) -> (Option<&str>, bool) {
    let ready = conditions.iter().find(|one| one.type_ == types::READY);
    let stalled = conditions.iter().any(|one| one.type_ == types::STALLED);
    (ready.and_then(|one| one.reason.as_deref()), stalled)
}
