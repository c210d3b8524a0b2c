//! Evictions: the only writes that go out beside one another, so that a slow webhook holds up nobody else. Each waits for its place, and
//! is not asked if a stop comes meanwhile; what comes of it is seen like what a watch sees.
//!
//! Pods behind one PodDisruptionBudget are asked one after another: the API server counts each in the status of the budget, and those
//! that come at once make each other start over.

use super::context::Context;
use crate::shell::{apply, leader::Fence, store::Seen};
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
use tokio::{sync::Semaphore, time::Instant};

/// For how long what was decided may begin anything: a Pass grows old, and windows close, while a slow API server takes the
/// writes before it, or an eviction waits for its place.
pub const DECIDED_FOR: Duration = Duration::from_secs(5);
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

/// Until when an eviction that waits for its place may still be asked for.
#[derive(Clone, Debug)]
struct Until {
    fence: Fence,
    /// Whether a stop came since it was decided.
    stopped: Arc<AtomicBool>,
    /// When it was decided.
    decided: Instant,
}

impl Until {
    /// What is said of a pod that is asked no more; none if it is asked. One whose place came too late was not asked at all, and is decided
    /// again.
    fn over(&self) -> Option<Said> {
        let busy = |words: &str| Some(Said::Busy(words.to_owned()));
        if !self.fence.holds() {
            return busy("the leader lease was not sure when it was to be asked");
        }
        if self.stopped.load(Ordering::Acquire) {
            return busy("a stop came before it was asked");
        }
        (self.decided.elapsed() > DECIDED_FOR).then_some(Said::Asked)
    }
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
        (known, decided): (BTreeSet<String>, Instant),
    ) {
        let now = context.now();
        let stopped = Arc::<AtomicBool>::default();
        let until = Until {
            fence: context.fence.clone(),
            stopped: stopped.clone(),
            decided,
        };
        self.behind.retain(|_, place| Arc::strong_count(place) > 1);
        for planned in evictions {
            let Action::Evict { node, eviction } = planned.action else {
                continue;
            };
            context.store.asks_to_go(&eviction, now);
            self.ask(context, owner, (node, eviction), until.clone());
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
    fn ask(&mut self, context: &Context, owner: &Owner, (node, eviction): (String, Eviction), until: Until) {
        let client = context.connection.write.clone();
        let clock = context.connection.clock.clone();
        let (places, sender) = (self.places.clone(), context.inbox.answered());
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
            let said = if let Some(said) = until.over() {
                said
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind one budget each waits for those before it, which may take 20 s each.
    #[tokio::test]
    async fn an_eviction_that_waited_for_long_is_not_asked_for() {
        let mut until = Until {
            fence: Fence::new(),
            stopped: Arc::default(),
            decided: Instant::now(),
        };
        assert_eq!(until.over(), None);
        until.decided = until.decided.checked_sub(2 * DECIDED_FOR).unwrap();
        assert_eq!(until.over(), Some(Said::Asked));
        until.decided = Instant::now();
        until.stopped.store(true, Ordering::Release);
        let is_for =
            |until: &Until, of: &str| matches!(until.over(), Some(Said::Busy(words)) if words.contains(of));
        assert!(is_for(&until, "a stop"));
        until.fence = Fence::lapsed();
        assert!(is_for(&until, "leader lease"));
    }
}
