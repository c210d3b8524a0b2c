//! Evictions: the only writes that go out beside one another, so that a slow webhook holds up nobody else. Each waits for its place, and
//! is not asked if a stop comes meanwhile; what comes of it is seen like what a watch sees.

use super::context::{Context, PATIENCE};
use crate::shell::{apply, store::Seen};
use numo_core::{
    Owner,
    action::{Action, Planned},
    drain::Eviction,
    observed::{Observed, Said},
    stop,
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Semaphore;

/// Evictions that are under way at once.
const AT_ONCE: usize = 16;

/// The evictions that wait or are under way.
#[derive(Debug)]
pub struct Evictions {
    /// Places for those that are under way.
    places: Arc<Semaphore>,
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

    /// Asks one pod to go, once there is a place for it.
    fn ask(
        &self,
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
        tokio::spawn(async move {
            let Ok(_place) = places.acquire().await else {
                return;
            };
            if !fence.holds() {
                return;
            }
            let said = if stopped.load(Ordering::Acquire) {
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
