//! The drain of one node: which pods are evicted next, which are waited for, and why. Pure; it knows neither a
//! client nor a clock, and it never turns a refused eviction into a deletion.
//!
//! Which pods go and which stay is as in `kubectl drain` (filters of `k8s.io/kubectl/pkg/drain`), by option. What is
//! otherwise: a pod behind a PodDisruptionBudget that is known to be closed is not asked again until the budget
//! opens or its pause is over; pods can be asked in an order; pods that come back are told apart from those that
//! were there; what numo needs itself is left (design, invariant 12).

use crate::{
    key::Key,
    names,
    observed::{DisruptionBudgetView, EvictionView, Map, NodeView, Observed, PodView, Said},
    pools,
    time::later,
    verdict::{Answers, KeptVolumes, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{DrainOrder, DrainSettings, Reason, marks};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub use crate::action::Eviction;

/// First and longest pause after an eviction that a PodDisruptionBudget refused (seconds). A budget that opens ends
/// it at once.
const BUDGET_SECONDS: (i64, i64) = (5, 60);
/// The same after any other refusal (seconds).
const REFUSED_SECONDS: (i64, i64) = (5, 120);
/// How long a pod whose eviction was accepted may take to show it, before it is asked again (seconds).
const ACCEPTED_SECONDS: i64 = 15;
/// First and longest pause before pods are evicted again that came back past the cordon (seconds).
const RETURN_SECONDS: (i64, i64) = (30, 1800);
/// Pods of a node on their way out at once, unless the settings say otherwise.
const AT_ONCE: i64 = 100;
/// The same over all nodes.
const AT_ONCE_OVERALL: usize = 1000;
/// How long after its grace period a pod that is still there takes no room any more (seconds).
const OVERDUE_SECONDS: i64 = 30;
/// How young a pod of a DaemonSet may be whose DaemonSet is not known yet (seconds).
const YOUNG_SECONDS: i64 = 10;
/// How soon a pod is looked at again for which there was no room (seconds).
const ROOM_SECONDS: i64 = 5;
/// How much later than the cordon a pod must have been made to have come past it (seconds): times have whole seconds.
const PAST_CORDON_SECONDS: i64 = 2;
/// When it is looked again at volumes that could not be read.
const UNKNOWN_SECONDS: i64 = 15;
/// Names in a sentence.
const NAMED: usize = 3;

/// How a node is drained, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of kubectl drain")]
pub struct DrainOptions {
    /// Pods without a controller go.
    pub force: bool,
    /// Pods with an emptyDir volume go.
    pub delete_emptydir_data: bool,
    /// Pods of a DaemonSet stay.
    pub ignore_daemonsets: bool,
    /// Grace period (seconds); none is the pod's own.
    pub grace_period_seconds: Option<i64>,
    /// Time after which the drain is reported as failing (seconds).
    pub timeout_seconds: Option<i64>,
    /// Pods that have been ending for longer are not waited for (seconds).
    pub skip_wait_seconds: Option<i64>,
    /// Delete instead of evict.
    pub disable_eviction: bool,
    /// Which pods; null is all.
    pub pod_selector: Value,
    /// In which order.
    pub order: DrainOrder,
    /// Label of the ranks.
    pub order_label: String,
    /// Pods on their way out at once.
    pub at_once: usize,
    /// Wait until no volume of the node is attached but those of pods that stay.
    pub await_volume_detach: bool,
    /// Try by dry run before the cordon.
    pub probe: bool,
}

impl DrainOptions {
    /// Fills the defaults in.
    pub fn of(settings: Option<&DrainSettings>) -> Self {
        let none = DrainSettings::default();
        let given = settings.unwrap_or(&none);
        let selector = given
            .pod_selector
            .as_ref()
            .and_then(|selector| serde_json::to_value(selector).ok());
        Self {
            force: given.force.unwrap_or(true),
            delete_emptydir_data: given.delete_emptydir_data.unwrap_or(true),
            ignore_daemonsets: given.ignore_daemonsets.unwrap_or(true),
            grace_period_seconds: given.grace_period_seconds.filter(|seconds| *seconds >= 0),
            timeout_seconds: given.timeout_seconds.filter(|seconds| *seconds > 0),
            skip_wait_seconds: given
                .skip_wait_for_delete_timeout_seconds
                .filter(|seconds| *seconds > 0),
            disable_eviction: given.disable_eviction.unwrap_or(false),
            pod_selector: selector.unwrap_or(Value::Null),
            order: given.order.unwrap_or_default(),
            order_label: given.order_label.clone().unwrap_or_default(),
            at_once: usize::try_from(given.max_concurrent.unwrap_or(AT_ONCE))
                .unwrap_or(1)
                .max(1),
            await_volume_detach: given.await_volume_detach.unwrap_or(false),
            probe: given.probe.unwrap_or(false),
        }
    }

    /// As the machine-config operator drains: it forces, and takes local data.
    pub fn of_machine_config() -> Self {
        Self {
            force: true,
            delete_emptydir_data: true,
            ignore_daemonsets: true,
            ..Self::of(None)
        }
    }

    /// What is wrong with the settings, as field and sentence.
    pub fn problem(settings: &DrainSettings) -> Option<String> {
        let label = settings.order_label.as_deref().unwrap_or_default();
        match settings.order {
            Some(DrainOrder::Label) if label.is_empty() => {
                Some("orderLabel: found none, wanted a label key, as order is Label".to_owned())
            }
            None | Some(DrainOrder::Together | DrainOrder::Priority) if !label.is_empty() => {
                Some(format!("orderLabel: found {label}, wanted order: Label with it"))
            }
            _ => {
                let selector = settings.pod_selector.as_ref()?;
                let selector = serde_json::to_value(selector).ok()?;
                wrong_selector(&selector).map(|problem| format!("podSelector: {problem}"))
            }
        }
    }
}

/// What keeps a label selector from being understood.
pub fn wrong_selector(selector: &Value) -> Option<String> {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let wrong = labels.into_iter().flatten().find_map(|(key, value)| {
        let value = || names::wrong_label_value(value.as_str().unwrap_or_default());
        names::wrong_label_key(key).or_else(value)
    });
    if wrong.is_some() {
        return wrong;
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    expressions.into_iter().flatten().find_map(|expression| {
        let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
        let operator = expression
            .get("operator")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_array);
        let has_values = values.is_some_and(|values| !values.is_empty());
        let mut each = values.into_iter().flatten().filter_map(Value::as_str);
        let wrong = names::wrong_label_key(key).or_else(|| each.find_map(names::wrong_label_value));
        match operator {
            _ if key.is_empty() => Some("found a requirement without key".to_owned()),
            _ if wrong.is_some() => wrong,
            "In" | "NotIn" if !has_values => Some(format!("{key}: found operator {operator} without values")),
            "Exists" | "DoesNotExist" if has_values => Some(format!(
                "{key}: found operator {operator} with values, wanted none"
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
            _ => Some(format!(
                "{key}: found operator {operator:?}, wanted In, NotIn, Exists or DoesNotExist"
            )),
        }
    })
}

/// How a drain comes along.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    /// The pods to ask now.
    pub evict: Vec<Eviction>,
    /// The pods that are yet to go, in order.
    pub pending: Vec<Key>,
    /// All pods of the node.
    pub total: usize,
    /// What is waited for, the worst first; none once drained.
    pub why: Option<Why>,
    /// Pods that came past the cordon and come again; they hold nobody up.
    pub returning: Option<Why>,
    /// What must be known first.
    pub question: Option<Question>,
    /// When to look again even if nothing changes.
    pub wake_at: Option<Timestamp>,
}

/// What becomes of a pod in a drain.
pub(crate) enum Class {
    /// It stays, and nobody waits for it.
    Stays,
    /// It must not be evicted by these settings: kubectl's words.
    Refused(&'static str),
    /// It is not evicted, but waited for.
    Needed,
    /// It goes.
    Goes,
}

/// Why pods are left, the worst first: the place in this list is the rank.
const RANKS: [Reason; 10] = [
    Reason::LastPlace,
    Reason::DrainBlocked,
    Reason::NotMigratable,
    Reason::EvictionRefused,
    Reason::EvictionBlocked,
    Reason::MigrationInProgress,
    Reason::NamespaceTerminating,
    Reason::PodNeeded,
    Reason::Draining,
    Reason::VolumesAttached,
];

/// The pods that a drain of the node would ask the API server to evict, past what numo needs itself; none while they
/// are not known.
pub fn evictable(
    observed: &Observed,
    node: &NodeView,
    options: &DrainOptions,
    now: Timestamp,
) -> Option<Vec<Key>> {
    let pods = observed.pods.get(&node.name)?.values();
    let goes =
        |pod: &&PodView| pod.deleting.is_none() && matches!(class(observed, pod, options, now), Class::Goes);
    Some(pods.filter(goes).map(|pod| pod.key.clone()).collect())
}

/// How the drain of a node that was cordoned at `cordoned` comes along. None while its pods are not known.
pub fn drain(
    observed: &Observed,
    node: &NodeView,
    options: &DrainOptions,
    cordoned: Timestamp,
    (answers, now): (&Answers, Timestamp),
) -> Option<Drain> {
    let pods = observed.pods.get(&node.name)?;
    let mut out = Drain {
        total: pods.len(),
        ..Drain::default()
    };
    let mut refused: BTreeMap<&'static str, Vec<&Key>> = BTreeMap::new();
    let mut left: Vec<(&PodView, bool)> = Vec::new();
    let mut returned: Vec<&PodView> = Vec::new();
    // Claims of pods that stay, or that come back and hold nobody up.
    let mut staying: Vec<Key> = Vec::new();
    for pod in pods.values() {
        match class(observed, pod, options, now) {
            // Who is only not waited for any more leaves its volumes behind.
            Class::Stays if is_given_up(pod, options, now) => {}
            Class::Stays => staying.extend(claims(pod)),
            Class::Refused(words) => refused.entry(words).or_default().push(&pod.key),
            Class::Needed => left.push((pod, true)),
            // Who came past the cordon is evicted, and holds nobody up: kubectl waits for those only that were there.
            Class::Goes if is_late(pod, cordoned) => {
                staying.extend(claims(pod));
                returned.push(pod);
            }
            Class::Goes => left.push((pod, false)),
        }
    }
    if !refused.is_empty() {
        // As kubectl: all or nothing.
        out.pending = left.iter().map(|(pod, _)| pod.key.clone()).collect();
        out.why = Some(refusal(&refused));
        return Some(out);
    }
    left.sort_by_cached_key(|(pod, _)| (rank(observed, pod, options), pod.key.clone()));
    out.pending = left.iter().map(|(pod, _)| pod.key.clone()).collect();
    let first = left
        .iter()
        .filter(|(_, needed)| !needed)
        .map(|(pod, _)| rank(observed, pod, options))
        .min();
    let mut asking = Asking {
        observed,
        options,
        cordoned,
        now,
        room: room(observed, &left, options, now),
        budgets: Budgets::of(observed),
        evict: Vec::new(),
        wake_at: None,
    };
    let mut whys: Vec<(usize, Why)> = Vec::new();
    for (pod, needed) in &left {
        let why = if *needed {
            needed_for(pod)
        } else if is_own(observed, pod) && !has_other_place(observed, node) {
            let message = format!(
                "Pod {} is numo's own, and no other node is Ready and schedulable",
                pod.key
            );
            Why::new(Reason::LastPlace, message)
        } else if Some(rank(observed, pod, options)) == first {
            asking.ask(pod, None)
        } else {
            Why::new(Reason::Draining, format!("Pod {} goes later", pod.key))
        };
        let place = RANKS.iter().position(|reason| *reason == why.reason).unwrap_or(0);
        whys.push((place, why));
    }
    out.returning = asking.come_again(node, &returned);
    out.wake_at = asking.wake_at;
    out.evict = asking.evict;
    if whys.is_empty() && options.await_volume_detach {
        let why = attached(&mut out, observed, node, staying, (answers, now));
        whys.extend(why.map(|why| (RANKS.len(), why)));
    }
    out.why = worst(whys);
    Some(out)
}

/// The volumes that are yet to be detached: all but those of pods that stay.
fn attached(
    out: &mut Drain,
    observed: &Observed,
    node: &NodeView,
    staying: Vec<Key>,
    (answers, now): (&Answers, Timestamp),
) -> Option<Why> {
    let volumes = observed.volumes.get(&node.name).map_or(&[][..], Vec::as_slice);
    let kept = match answers.volumes.get(&node.name) {
        _ if volumes.is_empty() || staying.is_empty() => &KeptVolumes::default(),
        Some(Ok(kept)) => kept,
        found => {
            let mut message = format!("which volumes of Node {} are of pods that stay", node.name);
            if let Some(Err(problem)) = found {
                message = format!("{message} is not known: {problem}");
                let again = later(now, UNKNOWN_SECONDS);
                out.wake_at = Some(out.wake_at.map_or(again, |known| known.min(again)));
            } else {
                message.push_str(" is being read");
                let node = node.name.clone();
                let claims = staying;
                out.question = Some(Question::Volumes { node, claims });
            }
            return Some(Why::new(Reason::VolumesAttached, message));
        }
    };
    let left = volumes.iter().filter(|volume| !kept.names.contains(*volume));
    let left: Vec<&String> = left.collect();
    (left.len() > kept.unnamed).then(|| {
        let message = format!(
            "Node {} status.volumesAttached: {}",
            node.name,
            some(left.into_iter())
        );
        Why::new(Reason::VolumesAttached, message)
    })
}

/// The worst of what is waited for, and how much of it there is.
fn worst(mut whys: Vec<(usize, Why)>) -> Option<Why> {
    whys.sort_by_key(|(place, _)| *place);
    let total = whys.len();
    let (place, first) = whys.first()?.clone();
    if first.reason == Reason::VolumesAttached {
        return Some(first);
    }
    let same = whys.iter().filter(|(other, _)| *other == place).count();
    let more = match (same - 1, total - same) {
        (0, 0) => String::new(),
        (0, others) => format!(" ({total} pods left, {others} on their way)"),
        (same, 0) => format!(" (and {same} more)"),
        (same, others) => format!(" (and {same} more; {total} pods left, {others} on their way)"),
    };
    Some(Why::new(first.reason, format!("{}{more}", first.message)))
}

/// Filters of `kubectl drain`, and what numo must not evict.
pub(crate) fn class(observed: &Observed, pod: &PodView, options: &DrainOptions, now: Timestamp) -> Class {
    if pod.mirror {
        return Class::Stays;
    }
    if !options.pod_selector.is_null() && !pools::matches(&options.pod_selector, &pod.labels) {
        return Class::Stays;
    }
    if is_given_up(pod, options, now) {
        return Class::Stays;
    }
    match daemon_set(observed, pod) {
        Some(true) if !pod.finished => {
            return if options.ignore_daemonsets {
                Class::Stays
            } else {
                Class::Refused("DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
            };
        }
        // The news of its DaemonSet may come after it.
        Some(false) if now < later(pod.created, YOUNG_SECONDS) => return Class::Stays,
        Some(false) if !pod.finished && !options.force => {
            return Class::Refused("Pods whose DaemonSet is gone (use --force to override)");
        }
        _ => {}
    }
    if is_needed(observed, pod) {
        return Class::Needed;
    }
    if pod.empty_dir && !pod.finished && !options.delete_emptydir_data {
        return Class::Refused("Pods with local storage (use --delete-emptydir-data to override)");
    }
    if pod.controller.is_none() && !pod.finished && !options.force {
        return Class::Refused("Pods that declare no controller (use --force to override)");
    }
    Class::Goes
}

/// A pod that has been ending for so long that it is not waited for.
fn is_given_up(pod: &PodView, options: &DrainOptions, now: Timestamp) -> bool {
    let over = |deadline: Timestamp| now.as_second() - deadline.as_second();
    matches!((options.skip_wait_seconds, pod.deleting), (Some(limit), Some(deadline)) if over(deadline) > limit)
}

fn claims(pod: &PodView) -> impl Iterator<Item = Key> {
    pod.claims.iter().map(|claim| Key::new(&pod.key.namespace, claim))
}

/// Whether numo needs the pod: a Job of an upgrade, or of a rule of numo's, is under way in it (design, invariant 12).
/// A label alone is anybody's: the Job of a rule must be one that numo knows.
pub fn is_needed(observed: &Observed, pod: &PodView) -> bool {
    let Some((kind, name, uid)) = &pod.controller else {
        return false;
    };
    if pod.finished || kind != "Job" {
        return false;
    }
    let job = || observed.jobs.get(&Key::new(&pod.key.namespace, name));
    let of_rule = || job().is_some_and(|job| job.uid == *uid && job.ended.is_none() && !job.deleting);
    pod.labels.contains_key(marks::PLAN_CONTROLLER) || pod.deleting.is_none() && of_rule()
}

/// Whether the pod is of a DaemonSet: none if it is not, else whether that exists.
fn daemon_set(observed: &Observed, pod: &PodView) -> Option<bool> {
    let (_, _, uid) = pod.controller.as_ref().filter(|(kind, ..)| kind == "DaemonSet")?;
    Some(observed.daemon_sets.contains(uid))
}

fn refusal(refused: &BTreeMap<&'static str, Vec<&Key>>) -> Why {
    let words: Vec<String> = refused
        .iter()
        .map(|(words, pods)| format!("cannot delete {words}: {}", some(pods.iter())))
        .collect();
    Why::new(Reason::DrainRefused, words.join("; "))
}

fn needed_for(pod: &PodView) -> Why {
    let what = if pod.labels.contains_key(marks::PLAN_CONTROLLER) {
        "an upgrade that is under way"
    } else {
        "a rule that is running"
    };
    Why::new(Reason::PodNeeded, format!("Pod {} is of {what}", pod.key))
}

/// The pod of the operator that decides this.
fn is_own(observed: &Observed, pod: &PodView) -> bool {
    observed.settings.own_pod.as_ref() == Some(&pod.key)
}

/// Whether another node could take what must run somewhere.
pub fn has_other_place(observed: &Observed, node: &NodeView) -> bool {
    let mut others = observed.nodes.values().filter(|other| other.name != node.name);
    others.any(|other| other.ready && !other.unschedulable && other.leaving.is_none())
}

/// The pods of one rank are gone before the next are asked. numo's own is the last.
fn rank(observed: &Observed, pod: &PodView, options: &DrainOptions) -> (bool, i64) {
    let rank = match options.order {
        DrainOrder::Together => 0,
        DrainOrder::Priority => i64::from(pod.priority),
        DrainOrder::Label => {
            let value = pod.labels.get(&options.order_label);
            value.and_then(|value| value.parse().ok()).unwrap_or(i64::MIN)
        }
    };
    (is_own(observed, pod), rank)
}

/// A pod that was made after the cordon: it tolerates it, or was put on the node by name.
fn is_late(pod: &PodView, cordoned: Timestamp) -> bool {
    pod.created.as_second() >= cordoned.as_second() + PAST_CORDON_SECONDS
}

/// What makes a pod anew, in words; the pod itself where nothing does.
pub fn controller_of(pod: &PodView) -> String {
    match &pod.controller {
        Some((kind, name, _)) => format!("{kind} {}/{name}", pod.key.namespace),
        None => format!("Pod {}", pod.key),
    }
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

/// The pods that are asked in one look, and what they have taken of what is allowed.
struct Asking<'a> {
    observed: &'a Observed,
    options: &'a DrainOptions,
    cordoned: Timestamp,
    now: Timestamp,
    /// How many more may be asked.
    room: usize,
    budgets: Budgets<'a>,
    evict: Vec<Eviction>,
    wake_at: Option<Timestamp>,
}

impl Asking<'_> {
    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |known| known.min(at)));
    }

    /// Asks the pod to go if that can lead to anything now. Why it is still there.
    fn ask(&mut self, pod: &PodView, returned: Option<&String>) -> Why {
        let name = &pod.key;
        if let Some(deadline) = pod.deleting {
            if let Some(limit) = self.options.skip_wait_seconds {
                self.wake(later(deadline, limit + 1));
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
        if let Some(known) = known {
            let again = pause(known);
            if self.now < again {
                self.wake(again);
                return said(pod, known);
            }
        }
        let delete = self.options.disable_eviction && !is_virtual_machine(pod);
        // KubeVirt closes the budget of every machine that can move, and moves it when its eviction is asked for.
        if !delete
            && !is_virtual_machine(pod)
            && let Some(closed) = self.budgets.closed(pod)
        {
            // Nothing to ask for: the budget's own change ends this. A look now and then, should that be missed.
            let last = known.map_or(self.cordoned, |known| known.at);
            let again = later(last, BUDGET_SECONDS.1);
            if self.now < again {
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

    /// Evicts pods that came back, ever more seldom.
    fn come_again(&mut self, node: &NodeView, returned: &[&PodView]) -> Option<Why> {
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
            let again = later(known.at, doubled(RETURN_SECONDS, known.times.saturating_sub(1)));
            if self.now < again {
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

/// A pod of a virtual machine of KubeVirt's: to delete it is to switch the machine off, or to take a disk from it.
fn is_virtual_machine(pod: &PodView) -> bool {
    pod.labels
        .get("kubevirt.io")
        .is_some_and(|value| value == "virt-launcher" || value.starts_with("hotplug"))
}

/// When a pod may be asked again.
fn pause(known: &EvictionView) -> Timestamp {
    let refusals = known.refusals.saturating_sub(1);
    let pause = match known.said {
        Said::Accepted | Said::Asked => ACCEPTED_SECONDS,
        Said::Budget(_) if known.stirred => 0,
        Said::Budget(_) => doubled(BUDGET_SECONDS, refusals),
        Said::Busy(_) => doubled((1, 30), refusals),
        Said::Migrating(_) | Said::NotMigratable(_) | Said::NamespaceTerminating | Said::Refused(_) => {
            doubled(REFUSED_SECONDS, refusals)
        }
    };
    later(known.at, pause)
}

fn doubled((first, longest): (i64, i64), times: u32) -> i64 {
    (first << times.min(16)).min(longest)
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

/// What the PodDisruptionBudgets allow, less what is being taken now. They are looked up by the namespaces of the pods
/// that are asked: a cluster has thousands.
struct Budgets<'a> {
    observed: &'a Observed,
    /// What is being taken now, by budget.
    taken: BTreeMap<&'a Key, i64>,
}

impl<'a> Budgets<'a> {
    const fn of(observed: &'a Observed) -> Self {
        Self {
            observed,
            taken: BTreeMap::new(),
        }
    }

    /// The budget that would refuse the pod, in words. A pod that has ended, has not begun or is not Ready may pass
    /// one (Kubernetes: eviction of unhealthy pods).
    fn closed(&self, pod: &PodView) -> Option<String> {
        if pod.finished || pod.pending {
            return None;
        }
        let (key, budget) = self.covering(pod).find(|(key, budget)| {
            let spare = budget.desired > 0 && budget.healthy >= budget.desired;
            let unhealthy = !pod.ready && (budget.unhealthy_always || spare);
            budget.allowed - self.taken.get(key).unwrap_or(&0) <= 0 && !unhealthy
        })?;
        let controller = match &pod.controller {
            Some((kind, owner, _)) => format!(" of {kind} {owner}"),
            None => String::new(),
        };
        Some(format!(
            "Pod {}{controller} is behind PodDisruptionBudget {key}: {} of {} pods are healthy, it wants {}",
            pod.key, budget.healthy, budget.expected, budget.desired
        ))
    }

    fn covering(&self, pod: &PodView) -> impl Iterator<Item = (&'a Key, &'a DisruptionBudgetView)> {
        let namespace = &pod.key.namespace;
        let from = self.observed.disruption_budgets.range(Key::new(namespace, "")..);
        from.take_while(move |(key, _)| key.namespace == *namespace)
            .filter(|(_, budget)| covers(budget, &pod.labels))
    }

    fn take(&mut self, pod: &PodView) {
        if pod.finished || pod.pending {
            return;
        }
        let covering: Vec<&Key> = self.covering(pod).map(|(key, _)| key).collect();
        for key in covering {
            *self.taken.entry(key).or_default() += 1;
        }
    }
}

/// Whether the budget speaks of a pod with these labels.
pub fn covers(budget: &DisruptionBudgetView, labels: &Map) -> bool {
    !budget.selector.is_null() && pools::matches(&budget.selector, labels)
}

/// The first few of a list, and how many more there are.
fn some<T: std::fmt::Display>(all: impl Iterator<Item = T>) -> String {
    let all: Vec<String> = all.map(|one| one.to_string()).collect();
    let shown = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn seconds(at: Timestamp) -> Timestamp {
    at.round(jiff::Unit::Second).unwrap_or(at)
}

/// Why a pod that is being deleted keeps a drain from passing; none while it may still end by itself. `deleting` is
/// `metadata.deletionTimestamp`, in which its grace period is contained.
pub fn stuck(pod: &Key, deleting: Option<Timestamp>, now: Timestamp) -> Option<String> {
    let deadline = deleting?;
    (now > later(deadline, STUCK_SECONDS)).then(|| {
        format!(
            "Pod {pod} is stuck in Terminating: it was to be gone at {}; look at its finalizers and at the kubelet",
            deadline.round(jiff::Unit::Second).unwrap_or(deadline)
        )
    })
}

/// How long after its grace period a pod that is being deleted counts as stuck (seconds): a finalizer holds it, or its
/// kubelet does not end it, and a drain waits for it without end.
pub const STUCK_SECONDS: i64 = 600;
