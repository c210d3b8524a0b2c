//! Which pods are asked to go in one look, and what their answers mean.

use super::{
    budgets::Budgets,
    class::{has_other_place, is_own},
    options::DrainOptions,
    words::{STUCK_SECONDS, controller_of, seconds, some, stuck},
};
use crate::{
    action::Eviction,
    observed::{EvictionView, NodeView, Observed, PodView, Said},
    time::{doubled, later, pause_until, wake_by},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, marks};
use std::collections::{BTreeMap, BTreeSet};

/// First and longest pause after an eviction that a PodDisruptionBudget refused (seconds). A budget that opens ends
/// it at once.
const BUDGET_SECONDS: (i64, i64) = (5, 60);
/// The same after any other refusal (seconds).
const REFUSED_SECONDS: (i64, i64) = (5, 120);
/// How long a pod whose eviction was accepted may take to show it, before it is asked again (seconds).
const ACCEPTED_SECONDS: i64 = 15;
/// How long an eviction may wait for its place and its answer before it counts as lost, and the pod is asked again (seconds). Whoever asks
/// sends few at once and always tells what came of one: with [`AT_ONCE_OVERALL`] before it one may wait for many minutes.
const LOST_SECONDS: i64 = 1800;
/// First and longest pause before pods are evicted again that came back past the cordon (seconds).
const RETURN_SECONDS: (i64, i64) = (30, 1800);
/// How soon a pod is looked at again for which there was no room (seconds).
const ROOM_SECONDS: i64 = 5;
/// Pods of all nodes on their way out at once.
const AT_ONCE_OVERALL: usize = 1000;
/// How long after its grace period a pod that is still there takes no room any more (seconds).
const OVERDUE_SECONDS: i64 = 30;

/// The pods that are asked in one look, and what they have taken of what is allowed.
pub(super) struct Asking<'a> {
    observed: &'a Observed,
    options: &'a DrainOptions,
    cordoned: Timestamp,
    now: Timestamp,
    /// How many more may be asked.
    room: usize,
    budgets: Budgets<'a>,
    pub(super) evict: Vec<Eviction>,
    pub(super) wake_at: Option<Timestamp>,
}

impl<'a> Asking<'a> {
    pub(super) fn of(
        observed: &'a Observed,
        options: &'a DrainOptions,
        cordoned: Timestamp,
        now: Timestamp,
        left: &[(&PodView, bool)],
    ) -> Self {
        Self {
            observed,
            options,
            cordoned,
            now,
            room: room(observed, left, options, now),
            budgets: Budgets::of(observed),
            evict: Vec::new(),
            wake_at: None,
        }
    }

    fn wake(&mut self, at: Timestamp) {
        wake_by(&mut self.wake_at, at);
    }

    /// Why a pod that goes is still there; it is asked to go where it is one of the next.
    pub(super) fn look_at(&mut self, node: &NodeView, pod: &PodView, is_next: bool) -> Why {
        let name = &pod.key;
        if is_own(self.observed, pod) && !has_other_place(self.observed, node) {
            let message = format!("Pod {name} is numo's own, and no other node is Ready and schedulable");
            Why::new(Reason::LastPlace, message)
        } else if is_next {
            self.ask(pod, None)
        } else {
            Why::new(Reason::Draining, format!("Pod {name} goes later"))
        }
    }

    /// Asks the pod to go if that can lead to anything now. Why it is still there.
    fn ask(&mut self, pod: &PodView, returned: Option<&String>) -> Why {
        let name = &pod.key;
        if let Some(deadline) = pod.deleting {
            if let Some(limit) = self.options.skip_wait_seconds {
                self.wake(later(deadline, limit.saturating_add(1)));
            }
            if let Some(words) = stuck(name, pod.deleting, self.now) {
                return Why::new(Reason::DrainBlocked, words);
            }
            self.wake(later(deadline, STUCK_SECONDS + 1));
            let words = if pod.disrupted {
                "is being evicted"
            } else {
                "is being deleted"
            };
            let message = format!("Pod {name} {words}, it has until {}", seconds(deadline));
            return Why::new(Reason::Draining, message);
        }
        let known = self.observed.evictions.get(&pod.uid);
        if let Some(why) = known.and_then(|known| self.pauses(pod, known)) {
            return why;
        }
        let delete = self.options.disable_eviction && !is_virtual_machine(pod);
        // KubeVirt closes the budget of every machine that can move, and moves it when its eviction is asked for.
        if !delete
            && !is_virtual_machine(pod)
            && let Some(closed) = self.budgets.closed(pod)
        {
            // Nothing to ask for: the budget's own change ends this. A look now and then, should that be missed.
            let last = known.map_or(self.cordoned, |known| known.at);
            if let Some(again) = pause_until(last, BUDGET_SECONDS.1, self.now) {
                self.wake(again);
                return Why::new(Reason::EvictionBlocked, closed);
            }
        }
        // One that was asked already has its room.
        if !was_accepted(self.observed, pod) {
            if self.room == 0 {
                self.wake(later(self.now, ROOM_SECONDS));
                let message = format!("Pod {name} waits until others are gone");
                return Why::new(Reason::Draining, message);
            }
            self.room -= 1;
        }
        self.budgets.take(pod);
        self.evict.push(Eviction {
            pod: name.clone(),
            uid: pod.uid.clone(),
            grace_period_seconds: self.options.grace_period_seconds,
            delete,
            returned: returned.cloned(),
        });
        Why::new(Reason::Draining, format!("Pod {name} is asked to go"))
    }

    /// Why a pod is not asked again yet: what it said last, until its pause is over.
    fn pauses(&mut self, pod: &PodView, known: &EvictionView) -> Option<Why> {
        let again = pause_until(known.at, pause(known), self.now)?;
        self.wake(again);
        // One state, one sentence: that which says what the budget has and wants.
        let closed = matches!(known.said, Said::Budget(_)).then(|| self.budgets.closed(pod));
        let closed = closed
            .flatten()
            .map(|closed| Why::new(Reason::EvictionBlocked, closed));
        Some(closed.unwrap_or_else(|| said(pod, known)))
    }

    /// Evicts pods that came back, ever more seldom.
    pub(super) fn come_again(&mut self, node: &NodeView, returned: &[&PodView]) -> Option<Why> {
        let mut who = BTreeSet::new();
        let mut kept = None;
        for pod in returned {
            let controller = controller_of(pod);
            let place = (node.name.clone(), controller.clone());
            let Some(known) = self.observed.returns.get(&place) else {
                let why = self.ask(pod, Some(&controller));
                if why.reason != Reason::Draining {
                    kept.get_or_insert(why.message);
                    who.insert(controller);
                }
                continue;
            };
            let pause = doubled(RETURN_SECONDS, known.times.saturating_sub(1));
            if let Some(again) = pause_until(known.at, pause, self.now) {
                self.wake(again);
            } else {
                let why = self.ask(pod, Some(&controller));
                if why.reason != Reason::Draining {
                    kept.get_or_insert(why.message);
                }
            }
            who.insert(controller);
        }
        if who.is_empty() {
            return None;
        }
        let kept = kept.map_or_else(String::new, |kept| format!("; {kept}"));
        let message = format!(
            "pods come back to cordoned Node {} past its taints, of {}: they are evicted ever more seldom{kept}",
            node.name,
            some(who.iter())
        );
        Some(Why::new(Reason::PodsReturn, message))
    }
}

/// Why a pod that numo needs is left.
pub(super) fn needed_for(pod: &PodView) -> Why {
    let what = if pod.labels.contains_key(marks::PLAN_CONTROLLER) {
        "an upgrade that is under way"
    } else {
        "a rule that is running"
    };
    Why::new(Reason::PodNeeded, format!("Pod {} is of {what}", pod.key))
}

/// How many more pods of the node may be asked to go. Those that nobody waits for take no room.
fn room(observed: &Observed, left: &[(&PodView, bool)], options: &DrainOptions, now: Timestamp) -> usize {
    // Whose time is long over is not on its way: its node may be down.
    let overdue = |deadline: Timestamp| now > later(deadline, OVERDUE_SECONDS);
    let away = |pod: &PodView| match pod.deleting {
        Some(deadline) => !overdue(deadline),
        None => was_accepted(observed, pod),
    };
    let here = left.iter().filter(|(pod, _)| away(pod)).count();
    let all = observed.pods.values().flat_map(BTreeMap::values);
    let overall = AT_ONCE_OVERALL.saturating_sub(all.filter(|pod| away(pod)).count());
    options.at_once.saturating_sub(here).min(overall)
}

fn was_accepted(observed: &Observed, pod: &PodView) -> bool {
    let known = observed.evictions.get(&pod.uid);
    known.is_some_and(|known| matches!(known.said, Said::Accepted | Said::Asked))
}

/// A pod of a virtual machine of KubeVirt's: to delete it is to switch the machine off, or to take a disk from it.
fn is_virtual_machine(pod: &PodView) -> bool {
    pod.labels
        .get("kubevirt.io")
        .is_some_and(|value| value == "virt-launcher" || value.starts_with("hotplug"))
}

/// After how long a pod may be asked again (seconds).
fn pause(known: &EvictionView) -> i64 {
    let refusals = known.refusals.saturating_sub(1);
    match known.said {
        Said::Asked => LOST_SECONDS,
        Said::Accepted => ACCEPTED_SECONDS,
        Said::Budget(_) if known.stirred => 0,
        Said::Budget(_) => doubled(BUDGET_SECONDS, refusals),
        Said::Busy(_) => doubled((1, 30), refusals),
        Said::Migrating(_) | Said::NotMigratable(_) | Said::NamespaceTerminating | Said::Refused(_) => {
            doubled(REFUSED_SECONDS, refusals)
        }
    }
}

/// What a refusal means, in words.
fn said(pod: &PodView, known: &EvictionView) -> Why {
    let name = &pod.key;
    let of = match &pod.controller {
        Some((kind, owner, _)) => format!("Pod {name} of {kind} {owner}"),
        None => format!("Pod {name}"),
    };
    match &known.said {
        Said::Asked => Why::new(Reason::Draining, format!("{of} is asked to go")),
        Said::Accepted => Why::new(Reason::Draining, format!("{of} is on its way out")),
        Said::Budget(words) => Why::new(Reason::EvictionBlocked, format!("{of}: {words}")),
        Said::Migrating(words) => Why::new(Reason::MigrationInProgress, format!("{of}: {words}")),
        Said::NotMigratable(words) => Why::new(Reason::NotMigratable, format!("{of}: {words}")),
        Said::NamespaceTerminating => {
            let message = format!(
                "{of}: Namespace {} is being deleted, and the pod with it",
                name.namespace
            );
            Why::new(Reason::NamespaceTerminating, message)
        }
        Said::Busy(words) => Why::new(Reason::Draining, format!("{of}: {words}; asked again")),
        Said::Refused(words) => Why::new(Reason::EvictionRefused, format!("{of}: {words}")),
    }
}
