//! The pods of the nodes that are being drained. They are known once the pods of their node were listed, and not in part before.

use super::{NodePods, Store};
use crate::shell::kind::Kind;
use numo_core::observed::{Key, PodView};
use std::collections::BTreeSet;

impl Store {
    /// Begins to keep the pods of a node; true if that is new.
    pub fn keep_pods(&mut self, node: &str) -> bool {
        let is_new = !self.node_pods.contains_key(node);
        if is_new {
            self.node_pods.insert(node.to_owned(), NodePods::default());
        }
        is_new
    }

    /// Forgets the pods of a node, and what came of their evictions.
    pub fn forget_pods(&mut self, node: &str) {
        self.node_pods.remove(node);
        self.lists_again(Kind::NodePod, node);
        if let Some(pods) = self.observed.pods.remove(node) {
            for pod in pods.values() {
                self.observed.evictions.remove(&pod.uid);
                self.moving.remove(&pod.uid);
            }
        }
        self.observed.returns.retain(|(of, _), _| of != node);
    }

    /// The nodes whose pods, or the budgets over them, have changed since this was asked last.
    pub fn take_touched(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.touched)
    }

    /// The volumes of a node have changed: that is news to whoever drains it.
    pub(in crate::shell) fn touch_if_drained(&mut self, node: &str) {
        if self.node_pods.contains_key(node) {
            self.touched.insert(node.to_owned());
        }
    }

    pub(super) fn put_pod(&mut self, node: &str, number: u64, pod: PodView) -> bool {
        let Some(known) = self.node_pods.get_mut(node) else {
            return false;
        };
        if let Some(listing) = &mut known.listing {
            listing.insert(pod.key.clone());
        }
        if known.numbers.get(&pod.key).is_some_and(|seen| *seen >= number) {
            return false;
        }
        known.numbers.insert(pod.key.clone(), number);
        if known.pods.get(&pod.key) != Some(&pod) {
            let before = known.pods.insert(pod.key.clone(), pod.clone());
            if let Some(before) = before.filter(|before| before.uid != pod.uid) {
                self.observed.evictions.remove(&before.uid);
            }
            if known.is_listed {
                let pods = self.observed.pods.entry(node.to_owned()).or_default();
                pods.insert(pod.key.clone(), pod);
                self.touched.insert(node.to_owned());
            }
        }
        false
    }

    pub(super) fn remove_pod(&mut self, key: &Key, number: u64) -> bool {
        let holder = self
            .node_pods
            .iter_mut()
            // A pod of the same name may be on another node by now: it is newer than this deletion.
            .find(|(_, known)| known.numbers.get(key).is_some_and(|seen| *seen <= number));
        let Some((node, known)) = holder else {
            return false;
        };
        known.numbers.remove(key);
        if let Some(pod) = known.pods.remove(key) {
            self.observed.evictions.remove(&pod.uid);
            self.moving.remove(&pod.uid);
        }
        if let Some(pods) = self.observed.pods.get_mut(node) {
            pods.remove(key);
        }
        self.touched.insert(node.clone());
        false
    }

    pub(super) fn listing_pods(&mut self, node: &str) -> bool {
        if let Some(known) = self.node_pods.get_mut(node) {
            known.listing = Some(BTreeSet::new());
        }
        false
    }

    pub(super) fn listed_pods(&mut self, node: &str) -> bool {
        let Some(known) = self.node_pods.get_mut(node) else {
            return false;
        };
        if let Some(mentioned) = known.listing.take() {
            known.numbers.retain(|key, _| mentioned.contains(key));
            known.pods.retain(|key, pod| {
                let keep = mentioned.contains(key);
                if !keep {
                    self.observed.evictions.remove(&pod.uid);
                }
                keep
            });
        }
        known.is_listed = true;
        self.observed.pods.insert(node.to_owned(), known.pods.clone());
        self.touched.insert(node.to_owned());
        false
    }
}
