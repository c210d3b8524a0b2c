//! The planner: the one task that decides and writes. Passes never overlap; a pass sees one owner and everything that was seen.
//!
//! A pass decides, checks the decision, carries it out and decides again, until there is nothing left to do; then the status is
//! written, once, if it differs. It is triggered by what was seen to change, by a deadline the last decision named, or by a write that
//! failed; never by a clock alone.
//!
//! This page is the loop: take in what was seen, find the owners that are due, pass over each, tell the rest. Each step has a file of
//! its own with the state that it keeps; none of them imports this one. Nothing outside numo-core decides.

mod action;
mod context;
mod drains;
mod evictions;
mod judging;
mod namespaces;
mod notices;
mod oddities;
mod orphans;
mod ownerless;
mod pods;
mod reading;
mod rivals;
mod round;
mod settle;
mod unheard;
mod wakes;
mod writes;

pub use self::notices::{Explain, Notices};

use self::{
    context::Context,
    judging::Judgements,
    namespaces::Namespaces,
    oddities::Oddities,
    orphans::Orphans,
    ownerless::Ownerless,
    pods::PodWatches,
    rivals::Rivals,
    round::Rounds,
    settle::{Others, Statuses},
    unheard::Unheard,
    wakes::Wakes,
};
use super::{
    channel::Channels,
    client::Connection,
    eval::evaluator::Evaluator,
    events::Events,
    inbox::Inbox,
    kind::Kind,
    leader::Fence,
    metrics::Metrics,
    notice::Board,
    provider::Provider,
    store::{Reach, Store},
    watched::{self, FLEET_KINDS, Place, etcd_pod::KUBE_SYSTEM},
};
use numo_api::marks;
use numo_core::{Owner, observed::Settings, quorum::OPENSHIFT_ETCD, referred};
use std::{collections::BTreeSet, time::Duration};
use tokio::{sync::watch as signal, time::Instant};

/// How often owners are decided again because one of them changed something; more goes on after the next look
/// at the watches.
const MAX_TURNS: usize = 5;
/// How much of a pass may go to owners that are not watched, before what was seen meanwhile is taken in: whoever writes many holds up nobody.
const STRANGERS: Duration = Duration::from_millis(250);
/// How long changes are gathered before a pass, so that a burst of them is one pass.
const GATHER: Duration = Duration::from_millis(10);
/// How often the planner comes round at least: `/healthz` tells one that does not.
const HEARD: Duration = Duration::from_mins(1);
/// How long nothing is done at most while there is nothing to do.
const LONGEST: Duration = Duration::from_hours(1);
/// How long is waited at least for a lease that is not sure.
const WITHHELD: Duration = Duration::from_secs(1);
/// Kinds that only the operator itself needs to see.
const OPERATOR_KINDS: [Kind; 2] = [Kind::DaemonSet, Kind::DisruptionBudget];

/// The planner.
#[derive(Debug)]
pub struct Planner {
    context: Context,
    wakes: Wakes,
    rounds: Rounds,
    statuses: Statuses,
    /// The statuses of what is no owner.
    others: Others,
    /// What people are told.
    notices: Notices,
    namespaces: Namespaces,
    judgements: Judgements,
    rivals: Rivals,
    pods: PodWatches,
    oddities: Oddities,
    orphans: Orphans,
    ownerless: Ownerless,
    unheard: Unheard,
    /// Owners that metrics show.
    shown: BTreeSet<Owner>,
}

impl Planner {
    /// A planner that has seen nothing yet; its watches begin now, after the lease was won, so that
    /// nothing older than the lease is ever decided on.
    pub fn new(
        connection: Connection,
        evaluator: Evaluator,
        (channels, provider): (Channels, Provider),
        settings: Settings,
        metrics: Metrics,
        (events, board, notices): (Events, Board, Notices),
        fence: Fence,
    ) -> Self {
        let mut context = Context {
            connection,
            store: Store::new(settings),
            inbox: Inbox::new(),
            evaluator,
            metrics,
            events,
            board,
            fence,
            provider,
        };
        watch_cluster(&mut context);
        context.store.observed.fleet.provider.poll_seconds = context.provider.poll_seconds();
        match context.provider.missing() {
            Some(words) => context.store.observed.fleet.provider.missing = Some(words),
            None => FLEET_KINDS.iter().for_each(|kind| context.watch(*kind, "")),
        }
        Self {
            context,
            wakes: Wakes::default(),
            rounds: Rounds::new(channels),
            statuses: Statuses::default(),
            others: Others::default(),
            notices,
            namespaces: Namespaces::default(),
            judgements: Judgements::default(),
            rivals: Rivals::default(),
            pods: PodWatches::default(),
            oddities: Oddities::default(),
            orphans: Orphans::default(),
            ownerless: Ownerless::default(),
            unheard: Unheard::default(),
            shown: BTreeSet::new(),
        }
    }

    /// Decides and writes until asked to stop. What is being written then is finished first.
    pub async fn run(&mut self, mut stop: signal::Receiver<bool>) {
        let mut dirty = Reach::Nobody;
        let answers = self.context.inbox.answered();
        tokio::spawn(self.context.evaluator.clone().follow_signers(answers));
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
                    if !self.is_worth_a_look(dirty) {
                        continue;
                    }
                    tokio::time::sleep(GATHER).await;
                }
                sent = self.others.answered() => {
                    self.others.take_in(&mut self.context, sent);
                    dirty = dirty.max(self.context.store.take_news());
                }
                sent = self.statuses.answered() => {
                    self.statuses.take_in(&mut self.context, &mut self.wakes, sent);
                    dirty = dirty.max(self.context.store.take_news());
                }
                () = tokio::time::sleep(wake) => {}
            }
            dirty = dirty.max(self.rounds.take_in(&mut self.context));
            self.wake_touched();
            rivals::judge(&mut self.context);
            self.namespaces.follow(&mut self.context);
            follow_autoscalers(&mut self.context);
            // Before all Nodes are listed nobody knows which addresses are the cluster's.
            if !self.context.store.is_complete_but_for_rules() {
                continue;
            }
            self.judgements.follow(&mut self.context);
            // A namespace that is heeded since a moment ago is listed again first.
            let is_complete = self.context.store.is_complete_but_for_rules();
            if self.rivals.await_claims(&self.context.store) || !is_complete {
                continue;
            }
            self.pass_over(std::mem::take(&mut dirty), &stop).await;
            self.unheard.tell(&self.context);
            self.ownerless.sweep(&self.context);
            self.pods.follow(&mut self.context);
            // What was seen meanwhile may be a Plan, a rule, or the list that its judgement waited for.
            self.namespaces.follow(&mut self.context);
            follow_autoscalers(&mut self.context);
            self.judgements.follow(&mut self.context);
        }
    }

    /// Waits until nothing is under way any more that was begun beside the decisions and makes or deletes machines, and no longer than so.
    /// False if something still is.
    pub async fn rest(&self, patience: Duration) -> bool {
        self.context.provider.rest(patience).await
    }

    /// Passes over the owners that are due, tells of everything else, and notes who is due next.
    async fn pass_over(&mut self, reach: Reach, stop: &signal::Receiver<bool>) {
        let due = self.due(reach);
        if due.is_empty() && reach < Reach::Everyone {
            // A journal that is gone may concern no owner any more.
            self.notices.show(&self.context);
            // Rules only that the last pass left over, and windows whose time has come.
            if self.others.next(self.context.now()) == Some(Duration::ZERO) {
                let standings = self.unheard.standings();
                self.others.write(&mut self.context, standings).await;
                let (metrics, now) = (&self.context.metrics, self.context.now());
                metrics.show_windows(&self.context.store.observed, now);
            }
            return;
        }
        self.forget_gone();
        let Some(left) = self.take_turns(due, stop).await else {
            return;
        };
        // Whoever is still not done goes on after the next look at the watches.
        let now = self.context.now();
        self.wakes.wake_all(left, now);
        self.notices.show(&self.context);
        self.unheard.note_lost(&self.context);
        // What says that a rule is missing is said once all are listed.
        if self.context.store.has_listed_rules() {
            let standings = self.unheard.standings();
            self.others.settle(&mut self.context, standings).await;
        }
        let metrics = &self.context.metrics;
        metrics.show_cluster(&self.context.store.observed, now);
        self.orphans.tell(&self.context);
        let news = self.context.store.take_news();
        let due = self.due(news);
        self.wakes.wake_all(due, now);
    }

    /// Passes over each owner, and again over those whom that concerns: what one gives back, another may wait for. The owners that
    /// are still due in the end; none if nothing may be written now, and then those that had no pass are due again soon.
    async fn take_turns(&mut self, mut due: Vec<Owner>, stop: &signal::Receiver<bool>) -> Option<Vec<Owner>> {
        let mut strangers = Duration::ZERO;
        for _ in 0..MAX_TURNS {
            self.wakes.begin_turn();
            for (done, owner) in due.iter().enumerate() {
                let begun = Instant::now();
                let is_watched = referred::is_watched(owner, &self.context.store.observed);
                if !is_watched && strangers > STRANGERS {
                    self.wakes.leave(due.split_off(done), self.context.now());
                    return Some(self.due(self.wakes.changed()));
                }
                let goes_on = !*stop.borrow() && self.context.fence.holds() && self.pass(owner).await;
                if !goes_on {
                    // The lease may be renewed a moment later, and nothing new would tell of them then.
                    self.wakes.wake_again(due.split_off(done), self.context.now());
                    return None;
                }
                if !is_watched {
                    strangers += begun.elapsed();
                }
            }
            due = self.due(self.wakes.changed());
            if due.is_empty() {
                break;
            }
        }
        Some(due)
    }

    /// One pass over one owner: rounds until nothing is left to do, then its status. False if it was broken off, as nothing may be
    /// written now.
    async fn pass(&mut self, owner: &Owner) -> bool {
        let begun = Instant::now();
        let (context, wakes) = (&mut self.context, &mut self.wakes);
        let Some(ended) = self.rounds.pass(context, wakes, owner).await else {
            return false;
        };
        wakes.note_pass(owner, &ended.decision, ended.failed, context.now());
        let is_written = self.statuses.settle(context, wakes, owner, &ended.decision).await;
        self.notices.note(context, owner, &ended.decision, is_written);
        self.oddities.note(context, owner, &ended.decision.report);
        self.unheard.note(context, owner, &ended.decision.report);
        context.metrics.passes.inc();
        let seconds = begun.elapsed().as_secs_f64();
        context.metrics.pass_seconds.observe(seconds);
        true
    }

    /// The owners that are to be decided now.
    fn due(&self, reach: Reach) -> Vec<Owner> {
        let context = &self.context;
        self.wakes.due(reach, &context.store, context.now())
    }

    /// Whether a look at the owners could come to anything: something new may concern them, more was seen, or somebody's time has come.
    fn is_worth_a_look(&self, dirty: Reach) -> bool {
        let context = &self.context;
        dirty > Reach::Nobody || !context.inbox.is_empty() || self.wakes.is_any_due(context.now())
    }

    fn wake_touched(&mut self) {
        let now = self.context.now();
        self.wakes.wake_touched(&mut self.context.store, now);
    }

    /// Forgets owners that are gone, and answers that are too old.
    fn forget_gone(&mut self) {
        let owners = wakes::owners(&self.context.store.observed);
        for gone in self.shown.difference(&owners) {
            self.context.metrics.forget(gone);
            self.ownerless.look_soon();
        }
        self.wakes.keep_only(&owners);
        self.rounds.keep_only(&owners);
        self.statuses.keep_only(&owners);
        self.notices.keep_only(&owners);
        self.oddities.keep_only(&owners);
        self.shown = owners;
        self.context.store.forget_refusals();
        self.context.store.forget_evaluations(self.context.now());
    }

    /// How long nothing needs to be done if nothing changes.
    fn next_wake(&mut self) -> Duration {
        let store = &self.context.store;
        if !store.is_complete_but_for_rules() {
            return LONGEST;
        }
        // Owners wait for rules that are not listed yet, and some of those are read again.
        let (soonest, latest) = if store.has_listed_rules() {
            (Duration::from_millis(1), LONGEST)
        } else {
            (Duration::from_millis(100), Duration::from_secs(1))
        };
        let decided = self.wakes.next(&store.observed, self.context.now());
        let judged = self.judgements.next(&self.context);
        let rivals = rivals::next(store);
        // While nothing may be written, what waits to be written is no reason to hurry.
        let least = if self.context.fence.holds() {
            Duration::ZERO
        } else {
            WITHHELD
        };
        let others = self.others.next(self.context.now()).map(|wait| wait.max(least));
        [decided, judged, rivals, others, self.unheard.next()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(LONGEST)
            .clamp(soonest, latest)
    }
}

/// Begins to watch the Deployments of cluster autoscalers. Until they are listed nothing is decided, and none is watched no more before the process ends.
fn follow_autoscalers(context: &mut Context) {
    for deployment in context.store.observed.fleet.to_follow() {
        context.watch(Kind::Autoscaler, &deployment.to_string());
        context.store.observed.fleet.followed.insert(deployment);
    }
}

/// Begins to watch what stands nowhere in particular. Namespaces are watched once somebody needs them.
fn watch_cluster(context: &mut Context) {
    for kind in watched::at(Place::Everywhere)
        .chain(OPERATOR_KINDS)
        .chain(watched::at(Place::Replaced))
    {
        context.watch(kind, "");
    }
    for namespace in [KUBE_SYSTEM, OPENSHIFT_ETCD] {
        context.watch(Kind::EtcdPod, namespace);
    }
    context.watch(Kind::Lease, marks::LEASE_NAMESPACE);
}
