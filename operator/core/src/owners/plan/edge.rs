//! A Plan that waits for another one: its `prepare` has the arguments `prepare <plan>`, as k3s and RKE2 have it for agents
//! that wait for their servers. numo waits before the Job, and holds nothing meanwhile (design, invariant 11).

use super::{known::label, resolve::munged};
use crate::{
    key::Key,
    observed::{NodeView, Observed, PlanView},
    why::Why,
};
use numo_api::{
    Reason,
    conditions::{Actor, types},
};

/// Labels of the nodes whose kubelets must be at the other Plan's version.
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// So many Plans of a chain are looked at. Those of a longer circle wait for each other, and say so as any that waits for a Plan.
const CHAIN: usize = 100;

/// The Plan that this one waits for.
fn awaited(view: &PlanView) -> Option<Key> {
    let args = view.spec.prepare.as_ref()?.args.as_deref()?;
    match args {
        [verb, plan] if verb == "prepare" && !plan.is_empty() => Some(Key::new(&view.key.namespace, plan)),
        _ => None,
    }
}

/// What is wrong with Plans that wait for each other in a circle, if this one is in it.
pub fn cycle(view: &PlanView, observed: &Observed) -> Option<String> {
    let mut seen = vec![view.key.clone()];
    let mut next = awaited(view)?;
    loop {
        if next == view.key {
            let names: Vec<&str> = seen.iter().map(|key| key.name.as_str()).collect();
            return Some(format!(
                "spec.prepare.args: Plans wait for each other: {} -> {}",
                names.join(" -> "),
                view.key.name
            ));
        }
        if seen.len() >= CHAIN || seen.contains(&next) {
            // The circle is one of others, if there is one.
            return None;
        }
        let following = observed.plans.get(&next).and_then(awaited);
        seen.push(next);
        next = following?;
    }
}

/// That a Plan goes on only by a person's word, as its own status says.
fn stalled(other: &PlanView) -> Option<String> {
    let conditions = other.status.conditions.iter().flatten();
    let mut stalled = conditions.filter(|one| one.type_ == types::STALLED && one.status == "True");
    let reason = stalled.find_map(|one| one.reason.as_deref())?;
    Some(format!("that Plan is Stalled: {reason}"))
}

/// That the two Plans go to different versions.
fn elsewhere((view, own): (&PlanView, &str), (other, version): (&PlanView, &str)) -> Why {
    let message = format!(
        "Plan {} goes to {version} (spec.prepare.args), this one to {own}: wanted the same version",
        other.key
    );
    let why = Why::new(Reason::WaitsForPlan, message);
    // A channel moves by itself; what somebody wrote does not.
    let is_written = |plan: &PlanView| {
        let version = plan.spec.version.as_ref();
        version.is_some_and(|version| !version.is_empty())
    };
    if is_written(view) && is_written(other) {
        why.ended_by(Actor::ClusterAdmin)
    } else {
        why
    }
}

/// Why the Plan, which goes to version `own`, must wait for another one, if so. As k3s' own `prepare` has it, the servers
/// must be at that version too.
pub fn waits(view: &PlanView, observed: &Observed, own: &str) -> Option<Why> {
    let key = awaited(view)?;
    let Some(other) = observed.plans.get(&key) else {
        let message = format!("spec.prepare.args: found no Plan {key}, wanted the one to wait for");
        return Some(Why::new(Reason::PlanNotFound, message));
    };
    // What the other one itself waits for a person for, this one does too.
    let stopped = stalled(other);
    let waits = |message: String| {
        Some(match &stopped {
            None => Why::new(Reason::WaitsForPlan, message),
            Some(words) => {
                Why::new(Reason::WaitsForPlan, format!("{message}; {words}")).ended_by(Actor::ClusterAdmin)
            }
        })
    };
    let version = other.status.latest_version.as_deref().unwrap_or_default();
    if !other.is_complete() || version.is_empty() {
        return waits(format!("Plan {key} is not complete (spec.prepare.args)"));
    }
    if version != own {
        return Some(elsewhere((view, own), (other, version)));
    }
    let is_behind = |node: &&NodeView| {
        CONTROL_PLANE.iter().any(|label| node.labels.contains_key(*label))
            && munged(&node.kubelet_version) != version
    };
    let behind: Vec<&NodeView> = observed.nodes.values().filter(is_behind).collect();
    // A complete Plan does no more for a node that it has left out, or does not select.
    let hash = other.status.latest_hash.as_deref().unwrap_or_default();
    let is_left_out = |node: &&&NodeView| node.label(&label(&key.name)) != hash;
    if let Some(first) = behind.iter().find(is_left_out) {
        let message = format!(
            "Plan {key} is complete (spec.prepare.args), and has left control-plane node {} out, whose kubelet is at {}, not at {version}; \
             `numo retry {}` takes it up again",
            first.name, first.kubelet_version, first.name
        );
        return Some(Why::new(Reason::WaitsForPlan, message).ended_by(Actor::ClusterAdmin));
    }
    let first = behind.first()?;
    waits(format!(
        "Plan {key} goes to {version} (spec.prepare.args), and {} control-plane kubelets are not there, for example {} at {}",
        behind.len(),
        first.name,
        first.kubelet_version
    ))
}
