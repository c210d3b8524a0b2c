//! What came of evicting pods. This file evicts none.

use super::Store;
use jiff::Timestamp;
use numo_core::{
    drain::{Eviction, controller_of, covers},
    observed::{DisruptionBudgetView, EvictionView, Key, Returned, Said},
};

/// Controllers whose pods' returns are counted, at most.
const RETURNS: usize = 10_000;

impl Store {
    /// Notes that a pod is being asked to go.
    pub fn asks_to_go(&mut self, eviction: &Eviction, at: Timestamp) {
        let known = self.observed.evictions.get(&eviction.uid);
        let view = EvictionView {
            at,
            refusals: known.map_or(0, |known| known.refusals),
            said: Said::Asked,
            stirred: false,
        };
        self.observed.evictions.insert(eviction.uid.clone(), view);
    }

    /// Notes what came of evicting a pod. A virtual machine that moves is refused by its own budget while it does.
    pub fn evicted(&mut self, node: &str, eviction: &Eviction, said: Said, at: Timestamp) {
        let observed = &mut self.observed;
        let pod = observed.pods.get(node).and_then(|pods| pods.get(&eviction.pod));
        let Some(pod) = pod.filter(|pod| pod.uid == eviction.uid) else {
            return;
        };
        if said == Said::Asked {
            // It was not: nothing was refused, and nobody waits for an answer.
            let known = observed.evictions.get_mut(&eviction.uid);
            if known.as_ref().is_none_or(|known| known.refusals == 0) {
                observed.evictions.remove(&eviction.uid);
            } else if let Some(known) = known {
                known.said = Said::Busy("it was not asked again yet".to_owned());
            }
            return;
        }
        let known = observed.evictions.get(&eviction.uid);
        let accepted = said == Said::Accepted;
        let refusals = known.map_or(0, |known| known.refusals);
        if accepted && observed.returns.len() < RETURNS {
            let place = (node.to_owned(), controller_of(pod));
            let times = observed.returns.get(&place).map_or(0, |known| known.times);
            let again = u32::from(eviction.returned.is_some());
            let times = times.saturating_add(again).max(1);
            observed.returns.insert(place, Returned { times, at });
        }
        let moves = self.moving.contains(&eviction.uid);
        let said = match said {
            Said::Budget(words) if moves => Said::Migrating(words),
            other => other,
        };
        if matches!(said, Said::Migrating(_)) {
            self.moving.insert(eviction.uid.clone());
        }
        let view = EvictionView {
            at,
            refusals: if accepted { 0 } else { refusals.saturating_add(1) },
            said,
            stirred: false,
        };
        observed.evictions.insert(eviction.uid.clone(), view);
    }

    /// A budget has changed: pods that wait for it are asked again, if it lets any go now.
    pub(in crate::shell) fn stir_evictions(&mut self, key: &Key, budget: &DisruptionBudgetView) {
        for (node, pods) in &self.observed.pods {
            let behind = pods
                .values()
                .filter(|pod| pod.key.namespace == key.namespace && covers(budget, &pod.labels));
            for pod in behind {
                self.touched.insert(node.clone());
                if let Some(known) = self.observed.evictions.get_mut(&pod.uid)
                    && budget.allowed > 0
                {
                    known.stirred = true;
                }
            }
        }
    }
}
