//! Evictions: the only writes that go out beside one another, so that a slow webhook holds up nobody else. Each waits for its place, and
//! is not asked if a stop comes meanwhile; what comes of it is seen like what a watch sees.
//!
//! Pods behind one PodDisruptionBudget are asked one after another: the API server counts each in the status of the budget, and those
//! that come at once make each other start over.

use super::context::Context;
use crate::shell::{apply, store::Seen};
use numo_core::{
    Owner,
    action::{Action, Planned},
    drain::{Eviction, budget_of},
    observed::{Key, Observed, Said},
    stop,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// Evictions that are under way at once.
const AT_ONCE: usize = 16;
/// How long an eviction may take. The API server counts a pod in the status of its PodDisruptionBudget before it deletes the pod, and
/// tries that for 10 s; if numo left meanwhile, the budget would lack the pod for two minutes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The evictions that wait or are under way.
#[derive(Debug)]
pub struct Evictions {
    /// Places for those that are under way.
    places: Arc<Semaphore>,
    /// The one place for those behind each PodDisruptionBudget.
    behind: BTreeMap<Key, Arc<Semaphore>>,
    /// Those that may still wait for a place.
    queued: Vec<Queued>,
}

/// Evictions of one round, which ask their pods when there is a place for them.
#[derive(Debug)]
struct Queued {
    owner: Owner,
    /// The stops that were there when they were decided.
    known: BTreeSet<String>,
    /// Whether another came since.
    stopped: Arc<AtomicBool>,
}

impl Default for Evictions {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(AT_ONCE)),
            behind: BTreeMap::new(),
            queued: Vec::new(),
        }
    }
}

impl Evictions {
    /// Tells evictions that wait for their place that a stop came.
    pub fn note_stops(&mut self, observed: &Observed) {
        self.queued
            .retain(|queued| Arc::strong_count(&queued.stopped) > 1);
        for queued in &self.queued {
            if !stop::standing(observed, &queued.owner).is_subset(&queued.known) {
                queued.stopped.store(true, Ordering::Release);
            }
        }
    }

    /// Has pods asked to go, some at once. `known` are the stops that were there when the round was decided: once another comes,
    /// whatever still waits for its place is not asked.
    pub fn begin(
        &mut self,
        context: &mut Context,
        owner: &Owner,
        evictions: Vec<Planned>,
        known: BTreeSet<String>,
    ) {
        let now = context.now();
        let stopped = Arc::<AtomicBool>::default();
        self.behind.retain(|_, place| Arc::strong_count(place) > 1);
        for planned in evictions {
            let Action::Evict { node, eviction } = planned.action else {
                continue;
            };
            context.store.asks_to_go(&eviction, now);
            self.ask(context, owner, (node, eviction), stopped.clone());
        }
        self.queued.push(Queued {
            owner: owner.clone(),
            known,
            stopped,
        });
    }

    /// The place that a pod takes before all others: that of its PodDisruptionBudget. A pod without one has a place of its own.
    fn behind(&mut self, observed: &Observed, node: &str, eviction: &Eviction) -> Arc<Semaphore> {
        let one = || Arc::new(Semaphore::new(1));
        let pod = observed.pods.get(node).and_then(|pods| pods.get(&eviction.pod));
        match pod.and_then(|pod| budget_of(observed, pod)) {
            Some(budget) => self.behind.entry(budget.clone()).or_insert_with(one).clone(),
            None => one(),
        }
    }

    /// Asks one pod to go, once there is a place for it.
    fn ask(
        &mut self,
        context: &Context,
        owner: &Owner,
        (node, eviction): (String, Eviction),
        stopped: Arc<AtomicBool>,
    ) {
        let client = context.connection.write.clone();
        let clock = context.connection.clock.clone();
        let (fence, places, sender) = (
            context.fence.clone(),
            self.places.clone(),
            context.inbox.answered(),
        );
        let (metrics, owner) = (context.metrics.clone(), owner.clone());
        let behind = self.behind(&context.store.observed, &node, &eviction);
        tokio::spawn(async move {
            let Ok(_turn) = behind.acquire().await else {
                return;
            };
            let Ok(_place) = places.acquire().await else {
                return;
            };
            // Whatever comes of it is told: a pod that was never asked would wait for an answer.
            let said = if !fence.holds() {
                Said::Busy("the leader lease was not sure when it was to be asked".to_owned())
            } else if stopped.load(Ordering::Acquire) {
                Said::Busy("a stop came before it was asked".to_owned())
            } else {
                let asked = tokio::time::timeout(PATIENCE, apply::evict(&client, &eviction)).await;
                let said = asked.unwrap_or_else(|_| Said::Busy("not answered in time".to_owned()));
                metrics.wrote("Evict", if said == Said::Accepted { "ok" } else { "refused" });
                tracing::info!(%owner, node, pod = %eviction.pod, ?said, "an eviction was requested");
                said
            };
            let _ = sender.send(Seen::Evicted(node, Box::new(eviction), said, clock.now()));
        });
    }
}
