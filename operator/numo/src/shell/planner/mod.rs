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
mod settle;
mod wakes;

use self::{
    context::{Context, PATIENCE},
    judging::Judgements,
    namespaces::Namespaces,
    orphans::Orphans,
    pods::PodWatches,
    rivals::Rivals,
    settle::Statuses,
    wakes::Wakes,
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
use numo_api::{Reason, VerdictRecord};
use numo_core::{
    Decision, Owner, Snapshot,
    action::{Action, Event, EventAction, Planned},
    decide, invariant,
    observed::{Key, Said, Settings},
    quorum::OPENSHIFT_ETCD,
    ready, referred,
    report::Why,
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
    statuses: Statuses,
    wakes: Wakes,
    blocked_drains: BTreeMap<String, (Instant, String)>,
    /// Volumes of pods that stay on a node.
    kept_volumes: BTreeMap<String, (Instant, Result<KeptVolumes, String>)>,
    /// The words of a refusal, by owner and chain, until a write of the chain succeeds or none is due.
    refused: BTreeMap<(Owner, String), String>,
    /// Writes that were refused as if what was read had changed.
    repeats: Repeats,
    shown: BTreeSet<Owner>,
    /// Places for evictions that are under way.
    places: Arc<Semaphore>,
    /// Evictions that may still wait for a place.
    queued: Vec<Queued>,
    said_no_leases: bool,
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
            statuses: Statuses::default(),
            wakes: Wakes::default(),
            blocked_drains: BTreeMap::new(),
            kept_volumes: BTreeMap::new(),
            refused: BTreeMap::new(),
            repeats: Repeats::default(),
            shown: BTreeSet::new(),
            places: Arc::new(Semaphore::new(EVICTIONS_AT_ONCE)),
            queued: Vec::new(),
            said_no_leases: false,
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
                    let now = self.context.now();
                    self.wakes.wake_touched(&mut self.context.store, now);
                    if dirty == Reach::Nobody && self.context.inbox.is_empty() && !self.wakes.is_any_due(now) {
                        continue;
                    }
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(wake) => {}
            }
            dirty = dirty.max(self.take_in());
            let now = self.context.now();
            self.wakes.wake_touched(&mut self.context.store, now);
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

    /// The owners that are to be decided now.
    fn due(&self, reach: Reach) -> Vec<Owner> {
        let context = &self.context;
        self.wakes.due(reach, &context.store, context.now())
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
        let runs = wakes::owners(&self.context.store.observed);
        for gone in self.shown.iter().filter(|key| !runs.contains(key)) {
            self.context.metrics.forget(gone);
        }
        self.wakes.keep_only(&runs);
        self.statuses.keep_only(&runs);
        self.refused.retain(|(key, _), _| runs.contains(key));
        self.repeats.retain(|owner, _| runs.contains(owner));
        self.shown = runs;
        self.context.store.forget_refusals();
        self.context.store.forget_evaluations(self.context.now());
        // What one run gives back, another may wait for: they are decided again until nothing changes.
        for _ in 0..MAX_TURNS {
            self.wakes.begin_turn();
            for run in &due {
                if *stop.borrow() || !self.context.fence.holds() {
                    return;
                }
                self.pass(run).await;
            }
            due = self.due(self.wakes.changed());
            if due.is_empty() {
                break;
            }
        }
        // Whoever is still not done goes on after the next look at the watches.
        let now = self.context.now();
        self.wakes.wake_all(due, now);
        self.untold.line_up(&self.context.connection, &self.context.store);
        self.tell_others().await;
        self.context
            .metrics
            .show_cluster(&self.context.store.observed, now);
        self.orphans.tell(&self.context);
        let news = self.context.store.take_news();
        let due = self.due(news);
        self.wakes.wake_all(due, now);
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
                let seen = self.take_in();
                self.wakes.note_change(seen);
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
            let seen = self.take_in();
            self.wakes.note_change(seen);
            let now = self.context.now();
            self.wakes.wake_touched(&mut self.context.store, now);
        }
        let mut decision = self.decide(owner, &answers);
        self.report_refusals(owner, &mut decision);
        let (context, failed) = (&mut self.context, !blocked.is_empty());
        self.wakes.note_pass(owner, &decision, failed, context.now());
        self.statuses
            .settle(context, &mut self.wakes, owner, &decision)
            .await;
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
            decision.report.hold = Some(Why::new(Reason::InvariantBreach, why));
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
                self.wakes.note_change(reach(&action));
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
                let why = Why::new(Reason::WriteRefused, words.clone());
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

    /// How long nothing needs to be done if nothing changes.
    fn next_wake(&mut self) -> Duration {
        const LONGEST: Duration = Duration::from_hours(1);
        if !self.context.store.is_complete() {
            return LONGEST;
        }
        let now = self.context.now();
        let decided = self.wakes.next(&self.context.store.observed, now);
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
