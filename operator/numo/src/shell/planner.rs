//! The planner: the one task that decides and writes. Passes never overlap; a pass sees one owner and
//! everything that was seen.
//!
//! A pass decides, checks the decision, carries it out and decides again, until there is nothing left to
//! do; then the status is written, once, if it differs. It is triggered by what was seen to change, by a
//! deadline the last decision named, or by a write that failed; never by a clock alone.

use super::{
    answer,
    apply::{self, ApplyError},
    asked::AskedRules,
    channel::Channels,
    client::Connection,
    events::{Events, Published},
    inbox::Inbox,
    kind::{Kind, MAX_GIVING_BACK, MAX_JOB_NAMESPACES},
    leader::Fence,
    metrics::Metrics,
    notice::{Board, Notice},
    repeats::Repeats,
    rival, status,
    store::{Reach, Seen, Store},
    watch,
    watched::{self, Place, etcd_pod::KUBE_SYSTEM},
};
use crate::frontends;

use jiff::{SignedDuration, Timestamp};
use numo_api::{Condition, NodeMaintenanceStatus, Reason, VerdictRecord, conditions::types, marks};
use numo_core::{
    Decision, Owner, OwnerKind, Snapshot,
    action::{Action, Event, EventAction, Planned},
    decide, invariant, left,
    observed::{Key, Said, Settings, Validity},
    quorum::OPENSHIFT_ETCD,
    referred::{self, Referral},
    report::{MaintenancePhase, Report, RunPhase, Why},
    stop,
    verdict::{Answers, KeptVolumes, Question},
};
use numo_plugin::shares::Shares;
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
    task::JoinHandle,
    time::Instant,
};

/// Rounds of one pass: each is at least one write further, so this bounds what one owner may hold up.
const MAX_ROUNDS: usize = 200;
/// How often runs are decided again because one of them changed something; more goes on after the next look
/// at the watches.
const MAX_TURNS: usize = 5;
/// How long one read or write may take before the pass goes on without it.
const PATIENCE: Duration = Duration::from_secs(10);
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

/// How often a rule that was refused for want of a right or a namespace is judged again.
const JUDGE_AGAIN: Duration = Duration::from_secs(5);
/// How often it is judged that soon, and how often that time doubles then.
const JUDGED_SOON: u32 = 12;
const JUDGE_DOUBLINGS: u32 = 3;
/// How long that may take: two dry runs, each with the time that the API server gives its webhooks.
const JUDGED_WITHIN: Duration = Duration::from_secs(75);
/// Rules that the API server judges at once, by dry run.
const JUDGED_AT_ONCE: u64 = 16;
/// When a component that could not be had is looked at again; each time twice as late, at most so many times.
const EXAMINE_AGAIN: Duration = Duration::from_secs(5);
const EXAMINE_DOUBLINGS: u32 = 6;
/// Kinds and namespaces of which not everything is kept that are told by name.
const NOT_KEPT_NAMED: usize = 8;
/// How long a drain that could not pass is taken for such.
const DRAIN_MEMORY: Duration = Duration::from_secs(15);

/// Kinds that only the operator itself needs to see.
const OPERATOR_KINDS: [Kind; 2] = [Kind::DaemonSet, Kind::DisruptionBudget];

/// Deployments of such operators that are asked about at once.
const CLAIMS_AT_ONCE: usize = 32;
/// How often it is said again that nodes in flight stand still beside another operator.
const STOOD_OFF_AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// Nodes in flight that are named.
const NODES_SHOWN: usize = 10;
/// How often numo corrects its own conditions on an object that another operator has in hand.
const CORRECTIONS: u8 = 3;
/// Waiting maintenances whose pods are counted.
const WAITING_COUNTED: usize = 32;
/// How often the planner comes round at least: `/healthz` tells one that does not.
const HEARD: Duration = Duration::from_mins(1);
/// Evictions that are under way at once.
const EVICTIONS_AT_ONCE: usize = 16;

/// The planner.
#[derive(Debug)]
pub struct Planner {
    connection: Connection,
    asked: AskedRules,
    channels: Channels,
    store: Store,
    metrics: Metrics,
    events: Events,
    board: Board,
    fence: Fence,
    inbox: Inbox,
    /// Each with whether it was taken for an owner that is not honoured.
    job_namespaces: BTreeMap<String, bool>,
    judgements: Shares,
    /// Rules and targets whose status is still to be written.
    untold: status::Line,
    plan_namespaces: BTreeSet<String>,
    secret_namespaces: BTreeSet<String>,
    judging: BTreeMap<Key, Judging>,
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
    /// Since when everything was listed.
    complete_since: Option<Instant>,
    /// The watches of the pods of nodes in maintenance.
    pod_watches: BTreeMap<String, JoinHandle<()>>,
    said_no_leases: bool,
    /// Marks whose owner is gone, as was said: object, mark, owner.
    orphans_said: BTreeSet<(String, String, String)>,
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
            connection,
            asked,
            channels,
            store: Store::new(settings),
            metrics,
            events,
            board,
            fence,
            inbox: Inbox::new(),
            job_namespaces: BTreeMap::new(),
            judgements: Shares::new(JUDGED_AT_ONCE),
            untold: status::Line::default(),
            plan_namespaces: BTreeSet::new(),
            secret_namespaces: BTreeSet::new(),
            judging: BTreeMap::new(),
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
            complete_since: None,
            pod_watches: BTreeMap::new(),
            said_no_leases: false,
            orphans_said: BTreeSet::new(),
            changed: Reach::Nobody,
        };
        for kind in watched::at(Place::Everywhere)
            .chain(OPERATOR_KINDS)
            .chain(watched::at(Place::Replaced))
        {
            planner.watch(kind, "");
        }
        for namespace in [KUBE_SYSTEM, OPENSHIFT_ETCD] {
            planner.watch(Kind::EtcdPod, namespace);
        }
        planner.watch(Kind::Lease, numo_api::marks::LEASE_NAMESPACE);
        planner
    }

    fn watch(&mut self, kind: Kind, scope: &str) {
        self.store.expect(kind, scope);
        tokio::spawn(watch::watch(
            self.connection.read.clone(),
            kind,
            scope.to_owned(),
            self.inbox.watched(),
        ));
    }

    /// Decides and writes until asked to stop. What is being written then is finished first.
    pub async fn run(&mut self, mut stop: signal::Receiver<bool>) {
        let mut dirty = Reach::Nobody;
        tokio::spawn(self.asked.clone().follow_signers(self.inbox.answered()));
        self.tell_unlisted();
        while !*stop.borrow() {
            self.metrics.hear();
            // However little there is to do, it is heard now and then.
            let wake = self.next_wake().min(HEARD);
            tokio::select! {
                _ = stop.changed() => return,
                seen = self.inbox.next() => {
                    let Some(seen) = seen else { return };
                    dirty = dirty.max(self.store.take_in(seen));
                    self.wake_touched();
                    if dirty == Reach::Nobody && self.inbox.is_empty() && !self.is_woken() {
                        continue;
                    }
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(wake) => {}
            }
            dirty = dirty.max(self.take_in());
            self.wake_touched();
            self.judge_claims();
            self.watch_plan_namespaces();
            self.watch_job_namespaces();
            // Before all Nodes are listed nobody knows which addresses are the cluster's.
            if !self.store.is_complete() {
                continue;
            }
            self.judge_rules();
            // A namespace that is heeded since a moment ago is listed again first.
            if self.awaits_claims() || !self.store.is_complete() {
                continue;
            }
            self.pass_over(std::mem::take(&mut dirty), &stop).await;
            self.watch_pods();
            // What was seen meanwhile may be a Plan, a rule, or the list that its judgement waited for.
            self.watch_plan_namespaces();
            self.watch_job_namespaces();
            self.judge_rules();
        }
    }

    /// Takes in everything that has been seen by now.
    fn take_in(&mut self) -> Reach {
        self.metrics.hear();
        let mut reach = Reach::Nobody;
        while let Some(seen) = self.inbox.take() {
            reach = reach.max(self.store.take_in(seen));
        }
        if let Some(networks) = self.store.take_networks() {
            self.asked.see_nodes(networks);
        }
        self.tell_unlisted();
        self.note_stops();
        reach
    }

    /// Has probes and metrics tell what decisions wait for.
    fn tell_unlisted(&self) {
        let resources = self.store.unlisted().map(|kind| kind.resource().3);
        self.metrics.awaits(resources.collect(), self.store.seen());
    }

    /// Tells evictions that wait for their place that a stop came.
    fn note_stops(&mut self) {
        let observed = &self.store.observed;
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
        let touched = self.store.take_touched();
        if touched.is_empty() {
            return;
        }
        let now = self.connection.clock.now();
        let maintenances = self.store.observed.maintenances.values();
        let woken = maintenances.filter(|view| touched.contains(&view.spec.node_name));
        let mut woken: Vec<Owner> = woken.map(|view| view.owner.clone()).collect();
        for change in self.store.observed.changing() {
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
        let now = self.connection.clock.now();
        self.wakes.values().any(|at| *at <= now)
    }

    /// Every owner that was seen.
    fn owners(&self) -> BTreeSet<Owner> {
        let observed = &self.store.observed;
        let runs = observed.runs.keys().cloned().map(Owner::run);
        let plans = observed.plans.keys().cloned().map(Owner::plan);
        runs.chain(observed.maintenances.keys().cloned())
            .chain(plans)
            .collect()
    }

    /// The owners that are to be decided: those within reach, and those whose time has come.
    fn due(&self, reach: Reach) -> Vec<Owner> {
        let now = self.connection.clock.now();
        let within = |key: &Owner| match reach {
            Reach::Everyone => true,
            Reach::Busy => !self.idle.contains(key),
            Reach::Nobody => false,
        };
        let woken = |key: &Owner| self.wakes.get(key).is_some_and(|at| *at <= now);
        let mut owners = self.owners();
        // Until the Jobs of its namespace have been listed, nobody knows what a Plan has begun.
        let is_known = |owner: &Owner| {
            owner.kind != OwnerKind::Plan || self.store.has_listed_plans(&owner.key.namespace)
        };
        owners.retain(|owner| (within(owner) || woken(owner)) && is_known(owner));
        let is_honoured = |owner: &Owner| referred::is_honoured(owner, &self.store.observed);
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
            self.metrics.forget(gone);
        }
        self.idle.retain(|key| runs.contains(key));
        self.failures.retain(|key, _| runs.contains(key));
        self.stood_off.retain(|owner, _| runs.contains(owner));
        self.sent.retain(|owner, _| runs.contains(owner));
        self.refused.retain(|(key, _), _| runs.contains(key));
        self.repeats.retain(|owner, _| runs.contains(owner));
        self.untold_statuses.retain(|owner, _| runs.contains(owner));
        self.shown = runs;
        self.store.forget_refusals();
        self.store.forget_evaluations(self.connection.clock.now());
        // What one run gives back, another may wait for: they are decided again until nothing changes.
        for _ in 0..MAX_TURNS {
            self.changed = Reach::Nobody;
            for run in &due {
                if *stop.borrow() || !self.fence.holds() {
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
        let now = self.connection.clock.now();
        self.wakes.extend(due.into_iter().map(|key| (key, now)));
        self.untold.line_up(&self.connection, &self.store);
        self.tell_others().await;
        self.metrics.show_cluster(&self.store.observed, now);
        self.tell_orphans();
        let news = self.store.take_news();
        let due = self.due(news);
        self.wakes.extend(due.into_iter().map(|key| (key, now)));
    }

    /// Writes the status of what is no owner.
    async fn tell_others(&mut self) {
        status::others(&self.connection, &mut self.store, &self.events, &mut self.untold).await;
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
                    self.store.ask(request, self.connection.clock.now());
                    self.asked.ask((**request).clone(), self.inbox.answered());
                    continue;
                }
                if let Question::Channel { plan, url, latest } = question {
                    self.store.asks_channel(plan, url, self.connection.clock.now());
                    let (plan, url, latest) = (plan.clone(), url.clone(), latest.clone());
                    self.channels.ask(plan, url, latest, self.inbox.answered());
                    continue;
                }
                let Connection { read, write, .. } = &self.connection;
                let seen = (&self.store.observed, self.connection.clock.now());
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
            let known = stop::standing(&self.store.observed, owner);
            let mut is_stopped = false;
            for planned in due {
                if blocked.contains(&planned.chain) {
                    continue;
                }
                if !self.fence.holds() {
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
            if !is_stopped && !evictions.is_empty() && self.fence.holds() {
                self.evict(owner, evictions, known);
            }
            self.changed = self.changed.max(self.take_in());
            self.wake_touched();
        }
        self.settle(owner, &answers, !blocked.is_empty()).await;
        self.metrics.passes.inc();
        self.metrics.pass_seconds.observe(begun.elapsed().as_secs_f64());
    }

    fn decide(&self, owner: &Owner, answers: &Answers) -> Decision {
        let snapshot = Snapshot {
            now: self.connection.clock.now(),
            observed: &self.store.observed,
            owner,
            asked: None,
        };
        let begun = Instant::now();
        let mut decision = decide(&snapshot, answers);
        self.metrics.decide_seconds.observe(begun.elapsed().as_secs_f64());
        for breach in invariant::lint(&snapshot, &mut decision) {
            tracing::error!(run = %owner, invariant = breach.invariant, message = breach.message, "invariant breach: not carried out");
            self.metrics.breaches.inc();
            let why = format!("invariant {}: {}", breach.invariant, breach.message);
            decision.report.hold = Some(numo_core::report::Why::new(Reason::InvariantBreach, why));
        }
        decision
    }

    /// Whether a stop came that was not there when the round was decided.
    fn is_stopped(&self, owner: &Owner, known: &BTreeSet<String>) -> bool {
        !stop::standing(&self.store.observed, owner).is_subset(known)
    }

    /// Has pods asked to go, some at once; what comes of it is seen later. A slow webhook holds up nobody else. `known` are the
    /// stops that were there when the round was decided: once another comes, whatever still waits for its place is not asked.
    fn evict(&mut self, owner: &Owner, evictions: Vec<Planned>, known: BTreeSet<String>) {
        let now = self.connection.clock.now();
        let queued = Queued {
            owner: owner.clone(),
            known,
            stopped: Arc::default(),
        };
        for planned in evictions {
            let Action::Evict { node, eviction } = planned.action else {
                continue;
            };
            self.store.asks_to_go(&eviction, now);
            let (client, clock) = (self.connection.write.clone(), self.connection.clock.clone());
            let (fence, places, sender) = (self.fence.clone(), self.places.clone(), self.inbox.answered());
            let (metrics, owner) = (self.metrics.clone(), owner.clone());
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
        let about = event.map(|event| self.publishable(owner, event));
        let now = self.connection.clock.now();
        let write = apply::apply(&self.connection.write, &mut self.store, &action, now);
        let Ok(result) = tokio::time::timeout(PATIENCE, write).await else {
            tracing::warn!(run = %owner, chain, action = name, "not answered in time");
            self.metrics.wrote(name, "failed");
            let words = format!("not answered within {} s", PATIENCE.as_secs());
            self.note_failure(owner, chain, name, &words);
            return false;
        };
        match &result {
            Ok(()) => {
                tracing::info!(run = %owner, chain, action = name, "done");
                self.metrics.wrote(name, "ok");
                for verdict in &judged {
                    self.metrics.judged(verdict);
                }
                self.changed = self.changed.max(reach(&action));
                self.repeats.forget(owner, &chain);
                self.refused.remove(&(owner.clone(), chain));
                if let Action::CreateJob(request) = &action {
                    self.store.accept(&request.job);
                    self.metrics.begins(&request.rule.to_string(), request.phase);
                }
                for published in about.flatten().into_iter().chain(of_pool) {
                    self.events.publish(published);
                }
                self.say_once_without_leases(owner);
            }
            Err(error @ (ApplyError::Stale { .. } | ApplyError::Gone { .. })) => {
                tracing::info!(run = %owner, chain, action = name, %error, "seen differently by the API server; deciding anew");
                self.metrics.wrote(name, "stale");
                let words = error.to_string();
                if self.repeats.note(owner, &chain, &action, &words, now) {
                    let words = format!("{name} is refused again and again: {words}");
                    self.note_refusal(owner, chain, words);
                }
            }
            Err(ApplyError::Refused { about, code, message }) => {
                tracing::warn!(run = %owner, chain, action = name, about, code, message, "refused");
                self.metrics.wrote(name, "refused");
                if let Action::CreateJob(request) = &action {
                    self.store
                        .refuse(request.job.clone(), *code, message.clone(), now);
                } else {
                    let words = format!("{about}: {name} is refused ({code}): {message}");
                    self.note_refusal(owner, chain, words);
                }
            }
            Err(error @ ApplyError::Unreachable { .. }) => {
                tracing::warn!(run = %owner, chain, action = name, %error, "not written");
                self.metrics.wrote(name, "failed");
                if let Action::CreateJob(request) = &action {
                    self.store.refuse(request.job.clone(), 0, error.to_string(), now);
                }
                let words = error.to_string();
                self.note_failure(owner, chain, name, &words);
            }
        }
        result.is_ok()
    }

    /// Notes a write that the API server did not take for no fault of the write: people hear of it if that goes on.
    fn note_failure(&mut self, owner: &Owner, chain: String, name: &'static str, words: &str) {
        let now = self.connection.clock.now();
        if self.repeats.fails(owner, &chain, name, now) {
            self.note_refusal(owner, chain, format!("{name} fails again and again: {words}"));
        }
    }

    /// The verdicts that a write adds to a journal.
    fn judged_by(&self, action: &Action) -> Vec<VerdictRecord> {
        let (known, written) = match action {
            Action::WriteJournal { key, status, .. } => {
                let known = self.store.observed.changes.get(key);
                (
                    known.map(|change| change.status.verdicts.as_slice()),
                    &status.verdicts,
                )
            }
            Action::RecordRun { owner, run } => {
                let known = self.store.observed.runs.get(owner);
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
            && let Some(published) = self.publishable(owner, event)
        {
            self.events.publish(published);
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
        self.board.write(Notice {
            leases_unavailable: Some(why.clone()),
            ..self.board.read()
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
        if let Some(published) = self.publishable(owner, event) {
            self.events.publish(published);
        }
    }

    /// Shows marks whose owner is gone, and says each once: nobody else looks after them.
    fn tell_orphans(&mut self) {
        let found = left::orphans(&self.store.observed);
        self.metrics.show_left(&found);
        let name = |one: &left::Orphan| {
            let left = &one.left;
            (left.object.clone(), left.mark.clone(), left.owner.clone())
        };
        self.orphans_said
            .retain(|said| found.iter().any(|one| name(one) == *said));
        for one in found {
            if !self.orphans_said.insert(name(&one)) {
                continue;
            }
            let (reason, note) = one.said();
            tracing::warn!(
                object = one.left.object,
                mark = one.left.mark,
                note,
                "the owner of a mark is gone"
            );
            self.events.publish(Published {
                api_version: one.on.api_version.to_owned(),
                kind: one.on.kind,
                owner: one.on.key,
                owner_uid: one.on.uid,
                pool: None,
                node_uid: None,
                event: Event {
                    node: None,
                    warning: true,
                    reason: reason.name(),
                    action: EventAction::Hold,
                    note,
                },
            });
        }
    }

    fn publishable(&self, owner: &Owner, event: Event) -> Option<Published> {
        let observed = &self.store.observed;
        let owner_uid = observed.uid_of(owner)?.to_owned();
        let node_uid = event
            .node
            .as_ref()
            .and_then(|node| self.store.observed.nodes.get(node))
            .map(|node| node.uid.clone());
        Some(Published {
            api_version: owner.kind.api_version(),
            kind: owner.kind.name(),
            owner: owner.key.clone(),
            owner_uid,
            node_uid,
            pool: None,
            event,
        })
    }

    /// What happens to a pool is said of the pool as well: who looks after it need not know the run.
    fn about_pool(&self, owner: &Owner, action: &Action, event: &Event) -> Option<Published> {
        let Action::PatchPool(patch) = action else {
            return None;
        };
        Some(Published {
            pool: Some((patch.pool.clone(), patch.uid.clone())),
            ..self.publishable(owner, event.clone())?
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
            self.connection.clock.now() + wait.min(SignedDuration::from_secs(RETRY_LONGEST_SECONDS))
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
        let asked = asked.then(|| self.connection.clock.now());
        // What became due since the last round is carried out soon, and what was too much for one pass.
        let left = !is_run && !failed && !decision.actions.is_empty();
        let left = left.then(|| self.connection.clock.now() + SignedDuration::from_secs(1));
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
        self.show(owner, decision, (Some(Reason::ForeignController.name()), true));
        let now = self.connection.clock.now();
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
            if let Some(published) = self.publishable(owner, event) {
                self.events.publish(published);
            }
        }
        self.correct_conditions(owner, uid, &message).await;
        true
    }

    /// Takes numo's own last words on the object back, a few times: the rest of the status is the other operator's.
    async fn correct_conditions(&mut self, owner: &Owner, uid: &str, message: &str) {
        let corrections = self.stood_off.get(owner).map_or(0, |known| known.corrections);
        let misleads = match self.store.ready_of(owner) {
            Some(reason) => reason != Reason::ForeignController.name(),
            None => false,
        };
        if !misleads || corrections >= CORRECTIONS || !self.fence.holds() {
            return;
        }
        if let Some(known) = self.stood_off.get_mut(owner) {
            known.corrections += 1;
        }
        let written = status::write_stood_off(&self.connection, &mut self.store, owner, uid, message).await;
        match written {
            Ok(()) => self.metrics.wrote("WriteStatus", "ok"),
            Err(error) => {
                tracing::warn!(%owner, %error, "the status was not written");
                self.metrics.wrote("WriteStatus", "failed");
                let again = self.connection.clock.now() + SignedDuration::from_secs(STATUS_AGAIN_SECONDS);
                let wake = self.wakes.entry(owner.clone()).or_insert(again);
                *wake = (*wake).min(again);
            }
        }
    }

    /// Shows an owner in the metrics, with the reason of its Ready and whether it is Stalled.
    fn show(&self, owner: &Owner, decision: &Decision, (ready, stalled): (Option<&str>, bool)) {
        let reason = Reason::ALL.iter().find(|reason| ready == Some(reason.name()));
        let reason = reason.copied().unwrap_or(Reason::Progressing);
        self.metrics.show(owner, &decision.report, reason, stalled);
    }

    async fn settle_plan(&mut self, owner: &Owner, decision: &Decision) {
        let Some(view) = self.store.observed.plans.get(&owner.key).cloned() else {
            return;
        };
        if self.stands_off(owner, &view.uid, decision).await {
            return;
        }
        let now = self.connection.clock.now();
        let status = frontends::plan::status(&view, &decision.report, now);
        let conditions = status.conditions.iter().flatten();
        let ready = conditions.clone().find(|one| one.type_ == types::READY);
        let stalled = conditions.clone().any(|one| one.type_ == types::STALLED);
        self.show(
            owner,
            decision,
            (ready.and_then(|one| one.reason.as_deref()), stalled),
        );
        if status == view.status || !self.fence.holds() {
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
        let written =
            status::write_plan(&self.connection, &mut self.store, &owner.key, &view.uid, &status).await;
        if let Err(error) = written {
            self.note_status(owner, decision, &error);
            return;
        }
        self.wrote_status(owner);
        self.changed = self.changed.max(self.store.take_news());
        for (reason, note, warning) in frontends::plan::transitions(&view, &view.status, &status) {
            let event = Event {
                node: None,
                warning,
                reason,
                action: EventAction::Change,
                note,
            };
            if let Some(published) = self.publishable(owner, event) {
                self.events.publish(published);
            }
        }
    }

    async fn settle_maintenance(&mut self, owner: &Owner, decision: &Decision) {
        let Some(view) = self.store.observed.maintenances.get(owner).cloned() else {
            return;
        };
        let now = self.connection.clock.now();
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
        self.show(owner, decision, ready_of(&status.conditions));
        status.last_update.clone_from(&before.last_update);
        if status == before || !self.fence.holds() {
            return;
        }
        status.last_update = Some(frontends::conditions::seconds(now));
        let due = frontends::node_maintenance::due(&before, &status, now);
        if now < due {
            let wake = self.wakes.entry(owner.clone()).or_insert(due);
            *wake = (*wake).min(due);
            return;
        }
        let written =
            status::write_maintenance(&self.connection, &mut self.store, owner, &view.uid, &status).await;
        if let Err(error) = written {
            self.note_status(owner, decision, &error);
            return;
        }
        self.wrote_status(owner);
        if let Some(kept) = self.store.observed.maintenances.get(owner) {
            self.sent
                .insert(owner.clone(), (status.clone(), kept.status.clone()));
        }
        self.changed = self.changed.max(self.store.take_news());
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
            if let Some(published) = self.publishable(owner, event) {
                self.events.publish(published);
            }
        }
    }

    async fn settle_run(&mut self, owner: &Owner, decision: &Decision) {
        let Some(run) = self.store.observed.runs.get(&owner.key).cloned() else {
            return;
        };
        if self.stands_off(owner, &run.uid, decision).await {
            return;
        }
        let now = self.connection.clock.now();
        let status = crate::frontends::mutex_run_config::status(&run, &decision.report, now);
        self.show(owner, decision, ready_of(&status.conditions));
        if status == run.status || run.keeps_status || !self.fence.holds() {
            return;
        }
        if let Err(error) = status::write(
            &self.connection,
            &mut self.store,
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
            self.changed = self.changed.max(self.store.take_news());
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
                if let Some(published) = self.publishable(owner, event) {
                    self.events.publish(published);
                }
            }
        }
    }

    /// A status was not written: it is tried again. One that is refused is said once by an event, as no condition can say it,
    /// and the metrics have the owner wait for a person.
    fn note_status(&mut self, owner: &Owner, decision: &Decision, error: &kube::Error) {
        tracing::warn!(%owner, %error, "the status was not written");
        let again = self.connection.clock.now() + SignedDuration::from_secs(STATUS_AGAIN_SECONDS);
        self.wakes.insert(owner.clone(), again);
        let Some(words) = status::refusal(error) else {
            self.metrics.wrote("WriteStatus", "failed");
            return;
        };
        self.metrics.wrote("WriteStatus", "refused");
        let reason = Reason::WriteRefused.name();
        self.show(owner, decision, (Some(reason), true));
        let note = format!("the status of {owner} is refused {words}");
        let event = Event {
            node: None,
            warning: true,
            reason,
            action: EventAction::Hold,
            note: note.clone(),
        };
        if self.untold_statuses.insert(owner.clone(), note.clone()) != Some(note)
            && let Some(published) = self.publishable(owner, event)
        {
            self.events.publish(published);
        }
    }

    fn wrote_status(&mut self, owner: &Owner) {
        self.metrics.wrote("WriteStatus", "ok");
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
            let Some(seen) = self.store.observed.pools.get(&pool.name) else {
                continue;
            };
            let of_pool = self.publishable(owner, event.clone()).map(|of_run| Published {
                pool: Some((seen.name.clone(), seen.uid.clone())),
                ..of_run
            });
            for published in self.publishable(owner, event).into_iter().chain(of_pool) {
                self.events.publish(published);
            }
        }
    }

    /// How long nothing needs to be done if nothing changes.
    fn next_wake(&mut self) -> Duration {
        const LONGEST: Duration = Duration::from_hours(1);
        if !self.store.is_complete() {
            return LONGEST;
        }
        let now = self.connection.clock.now();
        let observed = &self.store.observed;
        self.wakes.retain(|owner, _| observed.uid_of(owner).is_some());
        let decided = self
            .wakes
            .values()
            .min()
            .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::from_millis(1)));
        let judged = self
            .to_judge()
            .iter()
            .filter_map(|rule| self.judged_next(rule))
            .map(|at| at.saturating_duration_since(Instant::now()))
            .min();
        let claims = self.store.claims().filter_map(|(_, claim)| match claim.asked_at {
            // One that has just been seen changes no decision before it is asked about.
            None => Some(Duration::ZERO),
            Some(asked) => Some(claim.again()?.saturating_sub(asked.elapsed())),
        });
        let claims = claims.min();
        let kured = self.store.kured().map(|(_, kured)| kured.due_in()).min();
        let untold = (!self.untold.is_empty()).then_some(Duration::ZERO);
        [decided, judged, claims, kured, untold]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(LONGEST)
            .clamp(Duration::from_millis(1), LONGEST)
    }

    /// Watches the pods of the nodes that have their turn in a maintenance, and of no others.
    fn watch_pods(&mut self) {
        let observed = &self.store.observed;
        if observed.maintenances.is_empty() && observed.plans.is_empty() && self.pod_watches.is_empty() {
            return;
        }
        let changes = observed.changes.values();
        let flying: BTreeSet<&str> = changes
            .filter(|change| change.in_flight() && observed.is_trusted(change))
            .map(|change| change.spec.owner_ref.uid.as_str())
            .collect();
        let mut wanted: BTreeSet<String> = observed
            .maintenances
            .values()
            .filter(|view| flying.contains(view.uid.as_str()))
            .map(|view| view.spec.node_name.clone())
            .collect();
        wanted.extend(self.drained_for_plans());
        // Of those that wait the pods are counted; of a long queue the first.
        let waiting = observed.maintenances.values().filter(|view| {
            !view.deleting
                && view.status.phase.as_deref() == Some(MaintenancePhase::Running.name())
                && observed.nodes.contains_key(&view.spec.node_name)
        });
        wanted.extend(
            waiting
                .take(WAITING_COUNTED)
                .map(|view| view.spec.node_name.clone()),
        );
        self.pod_watches.retain(|node, task| {
            let keep = wanted.contains(node);
            if !keep {
                task.abort();
                self.store.forget_pods(node);
            }
            keep
        });
        for node in wanted {
            if self.store.keep_pods(&node) {
                let client = self.connection.read.clone();
                let task = watch::watch(client, Kind::NodePod, node.clone(), self.inbox.watched());
                self.pod_watches.insert(node, tokio::spawn(task));
            }
        }
    }

    /// The nodes that are drained for Plans now, by a Job or by numo itself, or are to be.
    fn drained_for_plans(&self) -> BTreeSet<String> {
        let observed = &self.store.observed;
        let by_job = observed
            .plan_jobs
            .values()
            .filter(|job| job.ended.is_none() && job.runs.as_deref() == Some("drain") && !job.deleting);
        let mut nodes: BTreeSet<String> = by_job.map(|job| job.node.clone()).collect();
        for view in observed.plans.values().filter(|view| view.spec.drain.is_some()) {
            let intent = numo_core::owners::plan::Intent::parse(view, observed);
            // Where the Job drains, only the last look before it needs the pods.
            let end = match (&intent.drain, intent.drains) {
                (_, true) => numo_api::Step::Drained,
                (Some(drain), false) if drain.probe => numo_api::Step::Released,
                _ => continue,
            };
            let turns = observed.turns().filter(|change| {
                let is_over = change
                    .status
                    .entries
                    .iter()
                    .any(|entry| entry.step == end && entry.attempt == change.status.attempt.max(1));
                change.spec.owner_ref.uid == view.uid && !is_over
            });
            nodes.extend(turns.map(|change| change.spec.node_name.clone()));
        }
        nodes
    }

    /// Begins to watch the namespaces that have Plans which are honoured, and their Secrets where Plans use some.
    fn watch_plan_namespaces(&mut self) {
        let observed = &self.store.observed;
        let honoured = observed.plans.values().filter(|view| {
            !view.deleting && numo_core::owners::plan::not_honoured(view, observed).is_none()
                || view.finalizers.iter().any(|one| one == marks::FINALIZER)
        });
        let honoured: Vec<(String, bool)> = honoured
            .map(|view| {
                let mut secrets = view.spec.secrets.iter().flatten();
                let uses = secrets.any(|secret| secret.ignore_updates != Some(true));
                (view.key.namespace.clone(), uses)
            })
            .collect();
        for (namespace, uses_secrets) in honoured {
            if self.plan_namespaces.insert(namespace.clone()) {
                for kind in watched::at(Place::PlanJobs) {
                    self.watch(kind, &namespace);
                }
            }
            if uses_secrets && self.secret_namespaces.insert(namespace.clone()) {
                self.store.observed.unseen_secrets.insert(namespace.clone(), None);
                self.watch(Kind::Secret, &namespace);
            }
        }
    }

    /// Asks the API server now and then whether those may do the work of an operator who have its name, and what is left of
    /// one that does not run.
    fn judge_claims(&mut self) {
        let claims = self.store.claims();
        let due = claims.filter(|(_, claim)| claim.is_due());
        let due: Vec<Key> = due.take(CLAIMS_AT_ONCE).map(|(key, _)| key.clone()).collect();
        for key in due {
            let asked = self.store.asks_claim(&key);
            let Some(claim) = self.store.claim_of(&key).cloned() else {
                continue;
            };
            let (client, clock) = (self.connection.write.clone(), self.connection.clock.clone());
            let sender = self.inbox.answered();
            tokio::spawn(async move {
                if let Some(judged) = rival::judge(&client, &key, &claim, clock.now()).await {
                    let _ = sender.send(Seen::Claim(key, asked, judged));
                }
            });
        }
        let kured = self.store.kured();
        let due = kured.filter(|(_, kured)| kured.due_in().is_zero());
        let due = due.take(CLAIMS_AT_ONCE);
        let due: Vec<(Key, String)> = due
            .map(|(key, kured)| (key.clone(), kured.account.clone()))
            .collect();
        for (key, account) in due {
            self.store.asks_kured(&key);
            let client = self.connection.write.clone();
            let sender = self.inbox.answered();
            tokio::spawn(async move {
                if let Some(may) = answer::may_reboot(&client, &key.namespace, &account).await {
                    let _ = sender.send(Seen::Kured(key, account, may));
                }
            });
        }
    }

    /// Whether it must be found out first who else is at work; not for ever.
    fn awaits_claims(&mut self) -> bool {
        let since = *self.complete_since.get_or_insert_with(Instant::now);
        self.store.awaits_claims() && since.elapsed() < PATIENCE
    }

    /// Deals out the room for rules, and has those read again that have some now.
    fn give_room(&mut self, referred: BTreeMap<Key, Referral>) {
        let dealt = self.store.give_room(referred);
        if dealt.has_moved {
            let _ = self.inbox.answered().send(Seen::Dealt);
        }
        for key in dealt.to_read {
            self.read_again(Kind::MutexRule, key);
        }
        self.read_missed();
    }

    /// Reads what was turned away and is needed now, or for which there is a place.
    fn read_missed(&mut self) {
        for (kind, key) in self.store.take_missed() {
            self.read_again(kind, key);
        }
        self.tell_turned_away();
        for (kind, namespace) in self.store.take_lists() {
            let (client, to) = (self.connection.read.clone(), self.inbox.watched());
            tokio::spawn(watch::list_again(client, kind, namespace, to));
        }
    }

    /// Has the leader Lease tell of which namespaces not everything is kept: nobody else can know.
    fn tell_turned_away(&self) {
        let away = self.store.turned_away();
        let named = away.iter().take(NOT_KEPT_NAMED);
        let not_kept: Vec<String> = named
            .map(|(kind, namespace)| format!("{} of namespace {namespace}", kind.resource().3))
            .collect();
        let known = self.board.read();
        if known.not_kept != not_kept {
            self.board.write(Notice { not_kept, ..known });
        }
    }

    /// Reads one object by itself.
    fn read_again(&self, kind: Kind, key: Key) {
        let (client, sender) = (self.connection.read.clone(), self.inbox.answered());
        tokio::spawn(async move {
            match tokio::time::timeout(PATIENCE, watch::read_one(&client, kind, &key)).await {
                Ok(Ok(Some((number, object)))) => {
                    let _ = sender.send(Seen::Applied(kind, number, object));
                }
                // The watch tells that it is gone.
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::warn!(?kind, %key, %error, "an object is not read again"),
                Err(_) => tracing::warn!(?kind, %key, "an object is not read again in time"),
            }
        });
    }

    /// The namespaces that rules run Jobs in, those of rules that honoured owners refer to first; each with whether only an
    /// owner refers to it that is not honoured, and says that it has something to give back.
    fn wanted_job_namespaces(&self) -> Vec<(String, bool)> {
        let observed = &self.store.observed;
        let referred = referred::rules(observed);
        let of = |wanted: Referral| {
            let rules = referred.iter().filter(|(_, referral)| **referral == wanted);
            let rules = rules.filter_map(|(key, _)| observed.rules.get(key));
            rules
                // Where a rule may not run nothing of it is to be seen.
                .filter(|rule| numo_core::place::refusal(rule, observed).is_none())
                .filter(|rule| !rule.is_asked)
                .filter(|rule| frontends::mutex_rule::is_namespace(&rule.job_namespace))
                .map(|rule| rule.job_namespace.clone())
                .collect::<BTreeSet<String>>()
        };
        // Events tell why the Job of a Plan gets no pod.
        let mut honoured = of(Referral::Honoured);
        honoured.extend(self.plan_namespaces.iter().cloned());
        let others = of(Referral::GivesBack);
        let others: Vec<_> = others
            .difference(&honoured)
            .map(|one| (one.clone(), true))
            .collect();
        let first = honoured.into_iter().map(|one| (one, false));
        first.chain(others).collect()
    }

    /// Begins to watch the namespaces that rules run Jobs in.
    fn watch_job_namespaces(&mut self) {
        for (namespace, gives_back) in self.wanted_job_namespaces() {
            if let Some(of_others) = self.job_namespaces.get_mut(&namespace) {
                *of_others &= gives_back;
                continue;
            }
            let of_others = self.job_namespaces.values().filter(|gives_back| **gives_back);
            let is_full = gives_back && of_others.count() >= MAX_GIVING_BACK;
            if is_full || self.job_namespaces.len() >= MAX_JOB_NAMESPACES {
                tracing::error!(
                    namespace,
                    limit = MAX_JOB_NAMESPACES,
                    "too many namespaces with rule Jobs: not watched"
                );
                self.store.leave_unwatched(&namespace);
                continue;
            }
            for kind in watched::at(Place::RuleJobs) {
                self.watch(kind, &namespace);
            }
            self.store.watch_again(&namespace);
            self.job_namespaces.insert(namespace, gives_back);
        }
    }

    /// Rules that the API server is to judge: new, changed, or refused for want of a right or a namespace,
    /// which may come any time without an event that numo may see.
    fn to_judge(&self) -> Vec<Arc<numo_api::MutexRule>> {
        let refused = self.store.observed.rules.values().filter(|rule| {
            matches!(&rule.validity, Validity::Invalid(_, message) if message.starts_with("spec.jobNamespace"))
                || matches!(&rule.validity, Validity::Invalid(reason, _) if is_of_others(*reason))
        });
        let mut due = self.store.unjudged();
        due.extend(refused.filter_map(|rule| self.store.rule(&rule.key).cloned()));
        due
    }

    /// When the rule may be judged; at once if it never was in this generation.
    fn judged_next(&self, rule: &numo_api::MutexRule) -> Option<Instant> {
        let judging = self.judging.get(&super::wire::key(&rule.metadata))?;
        let is_same =
            judging.edition == super::wire::edition(&rule.metadata) && judging.policy == self.asked.policy();
        is_same.then_some(judging.next)
    }

    /// How often the rule was judged in this edition, by this policy of signatures.
    fn judged_times(&self, key: &Key, edition: &super::wire::Edition, policy: u64) -> u32 {
        let known = self.judging.get(key);
        let known = known.filter(|known| known.edition == *edition && known.policy == policy);
        known.map_or(0, |known| known.times.saturating_add(1))
    }

    /// Has the API server judge the rules that are due.
    fn judge_rules(&mut self) {
        let now = Instant::now();
        let known: BTreeSet<Key> = self.store.rules().map(|(key, _)| key.clone()).collect();
        self.judging.retain(|key, _| known.contains(key));
        let referred = referred::rules(&self.store.observed);
        self.asked.keep_only(&known, &referred.keys().cloned().collect());
        self.give_room(referred);
        self.asked.select_workloads(&self.store.observed.runs);
        self.metrics.keep_rules(|rule| {
            let (namespace, name) = rule.split_once('/').unwrap_or(("", rule));
            let key = Key::new(namespace, name);
            known.contains(&key) || key == numo_core::ready::key()
        });
        let own = numo_core::ready::rule(None);
        let rules = self.store.observed.rules.values();
        self.metrics.know_rules(rules.chain(std::iter::once(&own)));
        for rule in self.to_judge() {
            let view = frontends::mutex_rule::parse(&rule, Validity::Unknown);
            // Not even by dry run: the API server's answer would tell the author of a namespace that is not the author's.
            if numo_core::place::refusal(&view, &self.store.observed).is_some() {
                continue;
            }
            let namespace = view.job_namespace;
            let component = frontends::mutex_rule::is_asked(&rule);
            if self.judged_next(&rule).is_some_and(|next| now < next)
                || !(component || self.store.has_listed(&namespace))
            {
                continue;
            }
            let key = super::wire::key(&rule.metadata);
            let edition = super::wire::edition(&rule.metadata);
            // A component is looked at once at a time, which includes that it is compiled.
            let policy = self.asked.policy();
            let times = self.judged_times(&key, &edition, policy);
            let patience = if component {
                EXAMINE_AGAIN * 2_u32.pow(times.min(EXAMINE_DOUBLINGS))
            } else {
                JUDGE_AGAIN * 2_u32.pow(times.saturating_sub(JUDGED_SOON).min(JUDGE_DOUBLINGS))
            };
            if let Some(judging) = self.judging.get_mut(&key)
                && Arc::strong_count(&judging.under_way) > 1
            {
                // The API server has not answered yet; an edit meanwhile is judged after that.
                (judging.edition, judging.policy, judging.next) = (edition, policy, now + JUDGE_AGAIN);
                continue;
            }
            let under_way = self.judging.get(&key).map(|judging| judging.under_way.clone());
            let under_way = under_way.unwrap_or_default();
            let judging = Judging {
                edition: edition.clone(),
                policy,
                times,
                next: now + patience,
                under_way: under_way.clone(),
            };
            self.judging.insert(key.clone(), judging);
            if component {
                self.asked.examine(rule, self.inbox.answered());
                continue;
            }
            let client = self.connection.write.clone();
            let sender = self.inbox.answered();
            let shares = self.judgements.clone();
            tokio::spawn(async move {
                // Whoever writes many rules waits for those, and nobody else does.
                let _share = shares.take(&key.namespace, 1).await;
                let judged = tokio::time::timeout(JUDGED_WITHIN, answer::judge(&client, &rule)).await;
                let validity = judged.unwrap_or(Validity::Unknown);
                // Unknown is no judgement: it is asked for again.
                if validity != Validity::Unknown {
                    let _ = sender.send(Seen::Judged(key, edition, validity));
                }
                drop(under_way);
            });
        }
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

/// When a rule was judged last.
#[derive(Debug)]
struct Judging {
    edition: super::wire::Edition,
    /// The operator's policy of signatures that it was judged by.
    policy: u64,
    /// How often before, in this edition.
    times: u32,
    next: Instant,
    /// Held once more while the API server is asked.
    under_way: Arc<()>,
}

/// What is wrong with a rule that ends without an edit of it, and without an event that numo may see.
const fn is_of_others(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ConfigMapNotFound
            | Reason::WriteRefused
            | Reason::ConfigMapForbidden
            | Reason::RuleUnavailable
            | Reason::RegistryUnavailable
            // A mirror may be named, or its namespace allowed to go there.
            | Reason::RegistryNotAllowed
            | Reason::ImageNotFound
            | Reason::ImageUnauthorised
            | Reason::DigestMismatch
            | Reason::PullSecretNotFound
            | Reason::PullSecretForbidden
            | Reason::PullSecretInvalid
            | Reason::Unsigned
            | Reason::SignatureMismatch
            // A machine that is busy, or short of memory for a moment.
            | Reason::CompileTimeout
            | Reason::CompileFailed
            | Reason::EvaluationTimeout
            | Reason::MemoryLimit
            | Reason::Trap
            | Reason::NamespaceNotAllowed
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
