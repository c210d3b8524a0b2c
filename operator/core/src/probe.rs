//! The last look before a release: what would keep the drain of a node from passing, judged from the node's pods, from
//! the PodDisruptionBudgets and from what evictions by dry run came to. Nothing here reads or writes anything.

use crate::{
    drain::{self, DrainOptions, covers},
    key::Key,
    observed::{DisruptionBudgetView, Map, NodeView, Observed, PodView, Said},
    verdict::{Answers, Question},
};
use jiff::Timestamp;
use std::collections::BTreeMap;

pub use crate::drain::{STUCK_SECONDS, stuck};

/// A pod that a drain would evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Namespace and name.
    pub pod: Key,
    /// Its labels.
    pub labels: Map,
    /// Whether budgets count it as healthy: Ready, and neither finished nor being deleted.
    pub healthy: bool,
    /// Whether it could be made again on another node: it has a controller, and no volume of it is on this node alone.
    pub moves: bool,
}

impl From<&PodView> for Candidate {
    fn from(pod: &PodView) -> Self {
        Self {
            pod: pod.key.clone(),
            labels: pod.labels.clone(),
            healthy: pod.ready && !pod.finished && pod.deleting.is_none(),
            moves: pod.controller.is_some(),
        }
    }
}

/// What the last look came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing is known that would keep the drain from passing.
    Passes,
    /// It would not pass, and why.
    Blocked(String),
    /// Evictions are to be tried by dry run first.
    Asks(Question),
    /// The pods of the node are being listed.
    Unknown,
}

/// The last look before numo cordons and drains a node itself, of whichever owner: pods that do not end, and then what
/// the API server says to the evictions.
pub fn look(
    observed: &Observed,
    node: &NodeView,
    options: &DrainOptions,
    (answers, now): (&Answers, Timestamp),
) -> Look {
    let Some(pods) = observed.pods.get(&node.name) else {
        return Look::Unknown;
    };
    let goes = |pod: &&PodView| matches!(drain::class(observed, pod, options, now), drain::Class::Goes);
    let stuck = pods.values().filter(goes);
    let stuck = stuck.filter_map(|pod| drain::stuck(&pod.key, pod.deleting, now));
    if let Some(words) = summary(&node.name, &stuck.collect::<Vec<_>>()) {
        return Look::Blocked(words);
    }
    if options.disable_eviction {
        return Look::Passes;
    }
    if let Some(words) = observed.budgets_unlisted() {
        return Look::Blocked(words);
    }
    match answers.drains.get(&node.name) {
        Some(None) => Look::Passes,
        Some(Some(words)) => Look::Blocked(words.clone()),
        None => Look::Asks(Question::Evictions {
            node: node.name.clone(),
            pods: drain::evictable(observed, node, options, now).unwrap_or_default(),
        }),
    }
}

/// The first of what is against a drain of the node, and of how many more pods there is something; none if nothing is.
pub fn summary(node: &str, refusals: &[String]) -> Option<String> {
    let first = refusals.iter().min()?;
    let more = match refusals.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more pods"),
    };
    Some(format!("Node {node}: {first}{more}"))
}

/// Why an eviction by dry run says that a drain would not pass; none if it could.
///
/// A machine of KubeVirt's that moves instead passes, and so does a webhook that takes no dry runs, or an API server that
/// is busy: none of them says anything about the drain. Every other refusal is one: the drain would hear the same words.
pub fn refusal(pod: &Key, said: &Said) -> Option<String> {
    let words = match said {
        Said::Asked | Said::Accepted | Said::Migrating(_) | Said::NamespaceTerminating => return None,
        Said::Refused(words) if words.contains("does not support dry run") => return None,
        // A webhook that fails closed and cannot be reached refuses the drain as well.
        Said::Busy(words)
            if !(words.contains("denied the request") || words.contains("failed calling webhook")) =>
        {
            return None;
        }
        Said::Budget(words) | Said::NotMigratable(words) | Said::Busy(words) | Said::Refused(words) => words,
    };
    Some(format!("Pod {pod} cannot be evicted: {words}"))
}

/// Budgets behind which this node has more pods than may be disrupted at once: the pods of each.
fn exceeded<'a>(
    pods: &'a [Candidate],
    budgets: &'a BTreeMap<Key, DisruptionBudgetView>,
) -> impl Iterator<Item = (&'a Key, &'a DisruptionBudgetView, Vec<&'a Candidate>)> {
    budgets.iter().filter_map(move |(key, budget)| {
        let behind: Vec<&Candidate> = pods
            .iter()
            .filter(|one| one.healthy && one.pod.namespace == key.namespace && covers(budget, &one.labels))
            .collect();
        let number = i64::try_from(behind.len()).unwrap_or(i64::MAX);
        (budget.allowed > 0 && number > budget.allowed).then_some((key, budget, behind))
    })
}

/// Whether the pods are worth a look at their volumes: more of them are behind one budget than it allows to be evicted at once.
pub fn exceeds(pods: &[Candidate], budgets: &BTreeMap<Key, DisruptionBudgetView>) -> bool {
    exceeded(pods, budgets).next().is_some()
}

/// Why the pods of the node cannot all pass their budgets, though each of them could pass alone.
///
/// A drain evicts them one after another, and passes if replacements become Ready elsewhere meanwhile: that alone is no
/// reason to stop a fleet. It can never pass where more pods than the budget allows have no other place: no controller
/// makes them again, their volume is on this node, or there is no other node for them (`has_other_place`).
pub fn sums(
    pods: &[Candidate],
    budgets: &BTreeMap<Key, DisruptionBudgetView>,
    has_other_place: bool,
) -> Vec<String> {
    exceeded(pods, budgets)
        .filter_map(|(key, budget, behind)| {
            let stay = behind.iter().filter(|one| !(one.moves && has_other_place));
            let stay: Vec<String> = stay.map(|one| one.pod.to_string()).collect();
            let number = i64::try_from(stay.len()).unwrap_or(i64::MAX);
            (number > budget.allowed).then(|| {
                let named = drain::some(stay.iter());
                format!(
                    "{number} pods ({named}) are behind PodDisruptionBudget {key}, whose disruptionsAllowed is {}, and they can \
                     run on no other node",
                    budget.allowed
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, moves: bool) -> Candidate {
        Candidate {
            pod: Key::new("shop", name),
            labels: Map::from([("app".to_owned(), "web".to_owned())]),
            healthy: true,
            moves,
        }
    }

    fn budget(allowed: i64) -> BTreeMap<Key, DisruptionBudgetView> {
        let view = DisruptionBudgetView {
            selector: json!({"matchLabels": {"app": "web"}}),
            unhealthy_always: false,
            allowed,
            healthy: 3,
            desired: 3 - allowed,
            expected: 3,
        };
        [(Key::new("shop", "of-web"), view)].into()
    }

    #[test]
    fn every_refusal_but_those_that_say_nothing_of_the_drain_blocks_it() {
        let pod = Key::new("shop", "web");
        let denied = "admission webhook \"virt-launcher-eviction-interceptor.kubevirt.io\" denied the request: VMI a is \
                      configured with an eviction strategy but is not live-migratable";
        for (said, blocks) in [
            (Said::Accepted, false),
            (Said::NotMigratable(denied.to_owned()), true),
            (Said::Budget("no".to_owned()), true),
            (
                Said::Refused("admission webhook \"x\" denied the request: no".to_owned()),
                true,
            ),
            (
                Said::Refused("admission webhook \"x\" does not support dry run".to_owned()),
                false,
            ),
            (Said::Migrating("Eviction triggered evacuation".to_owned()), false),
            (Said::Busy("too many requests".to_owned()), false),
            (
                Said::Busy("failed calling webhook \"x\": refused".to_owned()),
                true,
            ),
            (Said::NamespaceTerminating, false),
        ] {
            assert_eq!(refusal(&pod, &said).is_some(), blocks, "{said:?}");
        }
        let words = refusal(&pod, &Said::NotMigratable(denied.to_owned())).unwrap();
        assert!(words.starts_with("Pod shop/web cannot be evicted: "), "{words}");
        assert!(words.contains("virt-launcher-eviction-interceptor"), "{words}");
    }

    #[test]
    fn a_pod_that_does_not_end_is_stuck_ten_minutes_after_its_grace_period() {
        let pod = Key::new("shop", "web");
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(stuck(&pod, None, at(10_000)), None);
        assert_eq!(stuck(&pod, Some(at(1000)), at(1000 + STUCK_SECONDS)), None);
        let words = stuck(&pod, Some(at(1000)), at(1001 + STUCK_SECONDS)).unwrap();
        assert!(words.contains("Pod shop/web is stuck in Terminating"), "{words}");
    }

    #[test]
    fn pods_of_one_budget_are_counted_together_and_block_only_where_none_can_move() {
        let two = [pod("a", true), pod("b", true)];
        assert!(exceeds(&two, &budget(1)));
        assert_eq!(
            sums(&two, &budget(1), true),
            Vec::<String>::new(),
            "one after another"
        );
        assert_eq!(sums(&two, &budget(2), false), Vec::<String>::new(), "both may go");
        let words = sums(&two, &budget(1), false);
        assert!(words[0].contains("2 pods (shop/a, shop/b)"), "{words:?}");
        assert!(words[0].contains("PodDisruptionBudget shop/of-web"), "{words:?}");
        let bound = [pod("a", false), pod("b", false), pod("c", true)];
        assert_eq!(
            sums(&bound, &budget(1), true).len(),
            1,
            "two are bound to the node"
        );
        assert_eq!(sums(&bound, &budget(2), true), Vec::<String>::new());
    }
}
