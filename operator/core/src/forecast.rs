//! What a drain of a node would meet, before anybody drains it: pods that can never go, pods that cannot go now,
//! and what is lost or away when they go. Decides nothing; `numo preview` and `numo explain` show it.

use crate::{
    drain::{self, DrainOptions},
    key::Key,
    observed::{NodeView, Observed, PodView},
    text::counted,
};
use jiff::Timestamp;
use numo_api::Reason;
use std::collections::BTreeMap;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A drain can never pass as things are set up: somebody must change them.
    Never,
    /// A drain could not pass now; it may later.
    Now,
    /// A drain passes only if replacements become Ready elsewhere meanwhile.
    Slow,
    /// A drain passes, and something is lost or away.
    Costs,
}

/// What a drain would meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// How bad it is.
    pub weight: Weight,
    /// The pod.
    pub pod: Key,
    /// The reason that the node would then wait with; none where it would not wait.
    pub reason: Option<Reason>,
    /// In a sentence.
    pub message: String,
}

/// What is known beside what decisions read.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `spec.replicas` of ReplicaSets and StatefulSets, by uid.
    pub replicas: BTreeMap<String, i64>,
    /// PersistentVolumeClaims whose volume can be used on one node only.
    pub bound_to_node: BTreeMap<Key, String>,
}

/// What a drain of the node would meet now, the worst first. None while its pods are not known.
pub fn forecast(
    observed: &Observed,
    around: &Surroundings,
    node: &NodeView,
    options: &DrainOptions,
    now: Timestamp,
) -> Option<Vec<Obstacle>> {
    let pods = observed.pods.get(&node.name)?;
    let mut found = together(observed, pods, options, now);
    for pod in pods.values() {
        let mut say = |weight, reason, message| {
            found.push(Obstacle {
                weight,
                pod: pod.key.clone(),
                reason,
                message,
            });
        };
        match drain::class(observed, pod, options, now) {
            drain::Class::Stays => continue,
            drain::Class::Refused(words) => {
                let message = format!("Pod {}: cannot delete {words}", pod.key);
                say(Weight::Never, Some(Reason::DrainRefused), message);
                continue;
            }
            drain::Class::Needed => {
                let message = format!("Pod {} is of a rule or an upgrade that is under way", pod.key);
                say(Weight::Now, Some(Reason::PodNeeded), message);
                continue;
            }
            drain::Class::Goes => {}
        }
        if let Some(words) = drain::stuck(&pod.key, pod.deleting, now) {
            say(Weight::Now, Some(Reason::DrainBlocked), words);
            continue;
        }
        if pod.finished {
            continue;
        }
        let is_closed = budgets(observed, pod, options, &mut say);
        costs(around, pod, is_closed, &mut say);
    }
    found.sort_by(|a, b| (a.weight, &a.pod).cmp(&(b.weight, &b.pod)));
    Some(found)
}

/// What is lost or away when the pod goes.
fn costs(
    around: &Surroundings,
    pod: &PodView,
    is_closed: bool,
    say: &mut impl FnMut(Weight, Option<Reason>, String),
) {
    let mut say = |message| say(Weight::Costs, None, message);
    let key = &pod.key;
    if pod.controller.is_none() {
        say(format!("Pod {key} has no controller: nobody makes it again"));
    }
    if pod.empty_dir {
        say(format!("Pod {key} loses what is in its emptyDir volumes"));
    }
    for claim in &pod.claims {
        if let Some(volume) = around.bound_to_node.get(&Key::new(&key.namespace, claim)) {
            say(format!(
                "Pod {key} cannot run elsewhere: its claim {claim} is bound to volume {volume}, which is on one node"
            ));
        }
    }
    let controller = pod.controller.as_ref();
    let replicas = controller.and_then(|(_, _, uid)| around.replicas.get(uid));
    if replicas == Some(&1) && !is_closed {
        let of = drain::controller_of(pod);
        say(format!(
            "Pod {key} is the only one of {of}: it is away until it runs elsewhere"
        ));
    }
}

/// Budgets behind which the node has more pods than may be disrupted at once.
fn together(
    observed: &Observed,
    pods: &BTreeMap<Key, PodView>,
    options: &DrainOptions,
    now: Timestamp,
) -> Vec<Obstacle> {
    if options.disable_eviction {
        return Vec::new();
    }
    let goes = |pod: &&PodView| {
        let healthy = pod.ready && !pod.finished && pod.deleting.is_none();
        healthy && matches!(drain::class(observed, pod, options, now), drain::Class::Goes)
    };
    let going: Vec<&PodView> = pods.values().filter(goes).collect();
    let found = observed.disruption_budgets.iter().filter_map(|(key, budget)| {
        let mut behind = going
            .iter()
            .filter(|pod| pod.key.namespace == key.namespace && drain::covers(budget, &pod.labels));
        let number = behind.clone().count();
        let first = behind.next()?;
        let over = i64::try_from(number).unwrap_or(i64::MAX) > budget.allowed;
        (budget.allowed > 0 && over).then(|| Obstacle {
            weight: Weight::Slow,
            pod: first.key.clone(),
            reason: None,
            message: format!(
                "{number} pods of the node are behind PodDisruptionBudget {key}, whose disruptionsAllowed is {}: the drain waits \
                 until replacements are Ready elsewhere",
                budget.allowed
            ),
        })
    });
    found.collect()
}

/// What PodDisruptionBudgets have against the pod; whether one does.
fn budgets(
    observed: &Observed,
    pod: &PodView,
    options: &DrainOptions,
    say: &mut impl FnMut(Weight, Option<Reason>, String),
) -> bool {
    if options.disable_eviction || pod.pending {
        return false;
    }
    let disruption_budgets = observed.disruption_budgets.iter();
    let covering: Vec<_> = disruption_budgets
        .filter(|(key, budget)| key.namespace == pod.key.namespace && drain::covers(budget, &pod.labels))
        .collect();
    // The API server knows no way through two of them.
    if covering.len() > 1 {
        let names: Vec<String> = covering.iter().map(|(key, _)| key.to_string()).collect();
        let message = format!(
            "Pod {} is behind more than one PodDisruptionBudget, which Kubernetes refuses to evict past: {}",
            pod.key,
            names.join(", ")
        );
        say(Weight::Never, Some(Reason::EvictionRefused), message);
        return true;
    }
    let Some((key, budget)) = covering.first() else {
        return false;
    };
    let spare = budget.desired > 0 && budget.healthy >= budget.desired;
    if budget.allowed > 0 || !pod.ready && (budget.unhealthy_always || spare) {
        return false;
    }
    let numbers = format!(
        "PodDisruptionBudget {key} wants {} of {} healthy, and {} {}",
        budget.desired,
        counted(usize::try_from(budget.expected).unwrap_or(0), "pod"),
        budget.healthy,
        if budget.healthy == 1 { "is" } else { "are" }
    );
    if budget.expected > 0 && budget.desired >= budget.expected {
        let message = format!("Pod {} can never be evicted: {numbers}", pod.key);
        say(Weight::Never, Some(Reason::EvictionBlocked), message);
    } else {
        let message = format!("Pod {} cannot be evicted now: {numbers}", pod.key);
        say(Weight::Now, Some(Reason::EvictionBlocked), message);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{DisruptionBudgetView, Map, Pairs};
    use serde_json::json;

    fn pod(name: &str) -> PodView {
        PodView {
            key: Key::new("shop", name),
            uid: name.to_owned(),
            created: Timestamp::UNIX_EPOCH,
            labels: Map::from([("app".to_owned(), name.to_owned())]),
            controller: Some(("ReplicaSet".to_owned(), name.to_owned(), format!("rs-{name}"))),
            mirror: false,
            finished: false,
            pending: false,
            ready: true,
            disrupted: false,
            deleting: None,
            empty_dir: false,
            claims: Vec::new(),
            priority: 0,
        }
    }

    fn budget(app: &str, desired: i64, expected: i64) -> (Key, DisruptionBudgetView) {
        let view = DisruptionBudgetView {
            selector: json!({"matchLabels": {"app": app}}),
            unhealthy_always: false,
            allowed: 0,
            healthy: desired,
            desired,
            expected,
        };
        (Key::new("shop", format!("of-{app}")), view)
    }

    #[test]
    fn what_can_never_go_comes_first() {
        let node = NodeView {
            name: "n".to_owned(),
            uid: String::new(),
            created: Timestamp::UNIX_EPOCH,
            labels: Pairs::default(),
            annotations: Pairs::default(),
            has_annotations: false,
            unschedulable: false,
            taints: serde_json::Value::Null,
            ready: true,
            not_ready_since: None,
            leaving: None,
            boot_id: String::new(),
            kubelet_version: String::new(),
            etcd_voter: None,
        };
        let mut observed = Observed::default();
        let options = DrainOptions {
            force: true,
            delete_emptydir_data: true,
            ..DrainOptions::of(None)
        };
        let now = Timestamp::from_second(1_000).unwrap();
        let mut around = Surroundings::default();
        assert_eq!(forecast(&observed, &around, &node, &options, now), None);

        let alone = PodView {
            controller: None,
            empty_dir: true,
            ..pod("alone")
        };
        let local = PodView {
            claims: vec!["data".to_owned()],
            ..pod("local")
        };
        // It was to be gone long ago.
        let stuck = PodView {
            deleting: Some(Timestamp::from_second(1).unwrap()),
            ..pod("stuck")
        };
        let pods = [
            stuck,
            pod("never"),
            pod("now"),
            pod("twice"),
            pod("single"),
            alone,
            local,
        ];
        let pods = pods.into_iter().map(|pod| (pod.key.clone(), pod)).collect();
        observed.pods.insert("n".to_owned(), pods);
        let (_, twin) = budget("twice", 1, 2);
        observed.disruption_budgets = BTreeMap::from([
            budget("never", 2, 2),
            budget("now", 1, 2),
            budget("twice", 1, 2),
            (Key::new("shop", "twin"), twin),
        ]);
        around.replicas.insert("rs-single".to_owned(), 1);
        around.replicas.insert("rs-never".to_owned(), 1);
        around
            .bound_to_node
            .insert(Key::new("shop", "data"), "disk-7".to_owned());
        let found = forecast(&observed, &around, &node, &options, now).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.weight, one.pod.name.as_str(), one.reason))
            .collect();
        assert_eq!(
            found,
            [
                (Weight::Never, "never", Some(Reason::EvictionBlocked)),
                (Weight::Never, "twice", Some(Reason::EvictionRefused)),
                (Weight::Now, "now", Some(Reason::EvictionBlocked)),
                (Weight::Now, "stuck", Some(Reason::DrainBlocked)),
                (Weight::Costs, "alone", None),
                (Weight::Costs, "alone", None),
                (Weight::Costs, "local", None),
                (Weight::Costs, "single", None),
            ]
        );
        // By kubectl's own settings the bare pod is never taken.
        let strict = DrainOptions {
            force: false,
            ..options
        };
        let found = forecast(&observed, &around, &node, &strict, now).unwrap();
        assert!(
            found
                .iter()
                .any(|one| one.pod.name == "alone" && one.reason == Some(Reason::DrainRefused))
        );
    }
}
