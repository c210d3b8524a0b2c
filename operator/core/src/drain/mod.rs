//! The drain of one node: which pods are evicted next, which are waited for, and why. Pure; it knows neither a
//! client nor a clock, and it never turns a refused eviction into a deletion.
//!
//! Which pods go and which stay is as in `kubectl drain` (filters of `k8s.io/kubectl/pkg/drain`), by option. What is
//! otherwise: a pod behind a PodDisruptionBudget that is known to be closed is not asked again until the budget
//! opens or its pause is over; pods can be asked in an order; pods that come back are told apart from those that
//! were there; what numo needs itself is left (design, invariant 12).

mod asking;
mod budgets;
mod class;
mod options;
mod words;

pub use self::{
    budgets::{budget_of, covers},
    class::{has_other_place, is_needed},
    options::DrainOptions,
    words::{STUCK_SECONDS, controller_of, stuck},
};
pub(crate) use self::{
    class::{Class, class},
    words::{some, timed_out},
};
pub use crate::action::Eviction;

use self::{
    asking::{Asking, needed_for},
    class::{is_given_up, is_own},
};
use crate::{
    key::Key,
    observed::{NodeView, Observed, PodView},
    time::{later, wake_by},
    verdict::{Answers, KeptVolumes, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{DrainOrder, Reason};
use std::collections::BTreeMap;

/// How much later than the cordon a pod must have been made to have come past it (seconds): times have whole seconds.
const PAST_CORDON_SECONDS: i64 = 2;
/// When it is looked again at volumes that could not be read.
const UNKNOWN_SECONDS: i64 = 15;

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
    let sort = |pod| (pod, class(observed, pod, options, now));
    let mut sorted = Sorted::of(pods.values().map(sort), options, (cordoned, now));
    let keys = |left: &[(&PodView, bool)]| left.iter().map(|(pod, _)| pod.key.clone()).collect();
    let mut out = Drain {
        total: pods.len(),
        ..Drain::default()
    };
    if !sorted.refused.is_empty() {
        // As kubectl: all or nothing.
        out.pending = keys(&sorted.left);
        out.why = Some(refusal(&sorted.refused));
        return Some(out);
    }
    let rank = |pod: &PodView| rank(observed, pod, options);
    let left = &mut sorted.left;
    left.sort_by_cached_key(|(pod, _)| (rank(pod), pod.key.clone()));
    out.pending = keys(left);
    let going = left.iter().filter(|(_, needed)| !needed);
    let first = going.map(|(pod, _)| rank(pod)).min();
    let mut asking = Asking::of(observed, options, cordoned, now, left);
    let whys = left.iter().map(|(pod, needed)| {
        if *needed {
            needed_for(pod)
        } else {
            asking.look_at(node, pod, Some(rank(pod)) == first)
        }
    });
    let mut whys: Vec<Why> = whys.collect();
    out.returning = asking.come_again(node, &sorted.returned);
    out.wake_at = asking.wake_at;
    out.evict = asking.evict;
    if whys.is_empty() && options.await_volume_detach {
        whys.extend(attached(&mut out, observed, node, sorted.staying, (answers, now)));
    }
    out.why = worst(whys);
    Some(out)
}

/// The pods of a node by what becomes of them.
#[derive(Default)]
struct Sorted<'a> {
    /// Those that must not be evicted, by kubectl's words.
    refused: BTreeMap<&'static str, Vec<&'a Key>>,
    /// Those that are waited for, and whether numo needs them.
    left: Vec<(&'a PodView, bool)>,
    /// Those that came past the cordon.
    returned: Vec<&'a PodView>,
    /// Claims of pods that stay, or that come back and hold nobody up.
    staying: Vec<Key>,
}

impl<'a> Sorted<'a> {
    fn of(
        pods: impl Iterator<Item = (&'a PodView, Class)>,
        options: &DrainOptions,
        (cordoned, now): (Timestamp, Timestamp),
    ) -> Self {
        let mut out = Self::default();
        for (pod, class) in pods {
            match class {
                // Who is only not waited for any more leaves its volumes behind.
                Class::Stays if is_given_up(pod, options, now) => {}
                Class::Stays => out.staying.extend(claims(pod)),
                Class::Refused(words) => out.refused.entry(words).or_default().push(&pod.key),
                Class::Needed => out.left.push((pod, true)),
                // Who came past the cordon is evicted, and holds nobody up: kubectl waits for those only that were there.
                Class::Goes if is_late(pod, cordoned) => {
                    out.staying.extend(claims(pod));
                    out.returned.push(pod);
                }
                Class::Goes => out.left.push((pod, false)),
            }
        }
        out
    }
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
                wake_by(&mut out.wake_at, later(now, UNKNOWN_SECONDS));
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
fn worst(mut whys: Vec<Why>) -> Option<Why> {
    let place = |why: &Why| RANKS.iter().position(|reason| *reason == why.reason).unwrap_or(0);
    whys.sort_by_key(place);
    let first = whys.first()?;
    if first.reason == Reason::VolumesAttached {
        return whys.pop();
    }
    let total = whys.len();
    let same = whys.iter().filter(|why| place(why) == place(first)).count();
    let more = match (same - 1, total - same) {
        (0, 0) => String::new(),
        (0, others) => format!(" ({total} pods left, {others} on their way)"),
        (same, 0) => format!(" (and {same} more)"),
        (same, others) => format!(" (and {same} more; {total} pods left, {others} on their way)"),
    };
    Some(Why::new(first.reason, format!("{}{more}", first.message)))
}

fn refusal(refused: &BTreeMap<&'static str, Vec<&Key>>) -> Why {
    let words = refused.iter();
    let words = words.map(|(words, pods)| format!("cannot delete {words}: {}", some(pods.iter())));
    let words: Vec<String> = words.collect();
    Why::new(Reason::DrainRefused, words.join("; "))
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

fn claims(pod: &PodView) -> impl Iterator<Item = Key> {
    pod.claims.iter().map(|claim| Key::new(&pod.key.namespace, claim))
}
