//! Which pods count against which budget, exactly as the eviction API finds it. Pure; the verdict is made
//! elsewhere.

use numo_rule_sdk::{
    object::{self, is_finished, is_ready, is_terminating, number, stays_in_a_drain, text},
    selector::LabelSelector,
    serde_json::Value,
};

/// A budget, what it says, and which pods of the node count against it.
#[derive(Debug)]
pub struct Budget<'a> {
    /// The object.
    pub object: &'a Value,
    /// Whether its controller has seen its newest specification. If not, the API refuses every eviction.
    pub observed: bool,
    /// How many evictions it allows now.
    pub allowed: i64,
    /// How many pods are healthy, must be, and are there.
    pub healthy: i64,
    /// See `healthy`.
    pub desired: i64,
    /// See `healthy`.
    pub expected: i64,
    /// The pods whose eviction would be counted.
    pub counted: Vec<&'a Value>,
    selector: Result<LabelSelector, String>,
    always_allow: bool,
}

impl<'a> Budget<'a> {
    /// Takes a budget apart. A status that was never written allows nothing.
    pub fn parse(object: &'a Value) -> Budget<'a> {
        Budget {
            object,
            observed: object::is_observed(object),
            allowed: number(object, "/status/disruptionsAllowed"),
            healthy: number(object, "/status/currentHealthy"),
            desired: number(object, "/status/desiredHealthy"),
            expected: number(object, "/status/expectedPods"),
            counted: Vec::new(),
            selector: LabelSelector::parse(object.pointer("/spec/selector")),
            always_allow: text(object, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow",
        }
    }

    fn selects(&self, pod: &Value) -> bool {
        self.selector
            .as_ref()
            .is_ok_and(|selector| selector.matches(pod.pointer("/metadata/labels")))
    }

    /// Whether the API counts the eviction of this pod. One that is not Ready is let go under AlwaysAllow,
    /// and under IfHealthyBudget while the others are enough.
    fn counts(&self, pod: &Value) -> bool {
        is_ready(pod) || !(self.always_allow || self.healthy >= self.desired && self.desired > 0)
    }
}

/// The pods and budgets of one namespace, put together.
#[derive(Debug, Default)]
pub struct Share<'a> {
    /// All budgets whose selector can be read.
    pub budgets: Vec<Budget<'a>>,
    /// Pods with more than one budget, and these budgets.
    pub contested: Vec<(&'a Value, Vec<&'a Value>)>,
    /// Budgets whose selector cannot be read, and why.
    pub unreadable: Vec<(&'a Value, String)>,
}

/// Whether a drain would evict the pod and the API would ask its budget: not a mirror, not of a DaemonSet,
/// neither finished nor terminating, and not Pending.
pub fn guarded(pod: &Value) -> bool {
    !stays_in_a_drain(pod)
        && !is_finished(pod)
        && !is_terminating(pod)
        && text(pod, "/status/phase") != "Pending"
}

/// Gives each pod to its budget.
pub fn share_out<'a>(pods: &[&'a Value], budgets: Vec<Budget<'a>>) -> Share<'a> {
    let mut share = Share::default();
    for budget in budgets {
        match &budget.selector {
            Ok(_) => share.budgets.push(budget),
            Err(fault) => share.unreadable.push((budget.object, fault.clone())),
        }
    }
    for &pod in pods {
        let mut selecting: Vec<_> = share
            .budgets
            .iter_mut()
            .filter(|budget| budget.selects(pod))
            .collect();
        match selecting.as_mut_slice() {
            [] => {}
            [budget] => {
                if budget.counts(pod) {
                    budget.counted.push(pod);
                }
            }
            several => {
                let budgets = several.iter().map(|budget| budget.object).collect();
                share.contested.push((pod, budgets));
            }
        }
    }
    share
}
