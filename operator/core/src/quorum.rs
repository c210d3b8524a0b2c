//! Whether the control plane can do without a node (design, invariant 10): never are two members unavailable by our
//! doing, and never so many that those left are no majority. Where it cannot be told who the members are, a
//! control-plane node waits.
//!
//! Sources of membership, the first that is there counts: OpenShift's guard PodDisruptionBudget in `openshift-etcd`
//! (`spec/node-maintenance.md` §2, webhook), the node condition `EtcdIsVoter` of nodes of the control plane (RKE2, k3s), static pods with the label
//! `component=etcd` (kubeadm), and where etcd is not to be seen, the control-plane nodes themselves, whose API servers
//! are then what must be left.

use crate::{
    drain,
    key::Key,
    observed::{ChangeView, EtcdPodView, EtcdVoter, NodeView, Observed},
    why::Why,
};
use numo_api::{Reason, Step, conditions::Actor};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Namespace of OpenShift's etcd.
pub const OPENSHIFT_ETCD: &str = "openshift-etcd";
/// Labels of nodes that run the control plane.
const CONTROL_PLANE: [&str; 5] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/etcd",
    "node-role.kubernetes.io/arbiter",
    "node-role.kubernetes.io/controlplane",
];

/// Selectors of the nodes that run a part of the control plane, by their labels.
pub fn control_plane_selectors() -> Vec<Value> {
    let of = |label: &str| json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
    CONTROL_PLANE.into_iter().map(of).collect()
}

/// Whether the node runs a part of the control plane. By its labels alone: a kubelet may write any condition of its own Node, and none of
/// these labels (admission plugin NodeRestriction).
pub fn is_control_plane(node: &NodeView) -> bool {
    CONTROL_PLANE.iter().any(|label| node.labels.contains_key(*label))
}

/// Whether the node counts as a member of etcd: one that takes the place of another is to be one first.
pub fn is_member(observed: &Observed, node: &NodeView) -> bool {
    if is_openshift(observed) {
        let mut pods = members(observed);
        return pods.any(|pod| pod.node == node.name);
    }
    !is_untold(node) && membership(observed).0.contains(node.name.as_str())
}

/// Why the node may not be taken away now, if the control plane would suffer.
pub fn refusal(observed: &Observed, node: &NodeView) -> Option<Why> {
    judged(observed, node, true, None)
}

/// Why the node may not change and come back now: only if another member is away already. A control plane of one or
/// two members is upgraded too, which costs it its majority for as long.
pub fn refusal_of_change(observed: &Observed, node: &NodeView) -> Option<Why> {
    judged(observed, node, false, None)
}

/// The same where another node of the control plane may be begun by this very decision, of which nothing is seen yet.
pub(crate) fn refusal_of_next(observed: &Observed, node: &NodeView, is_begun: bool) -> Option<Why> {
    refusal_of_change(observed, node).or_else(|| {
        let message = "another control-plane node is begun at this moment";
        (is_begun && is_control_plane(node)).then(|| Why::new(Reason::EtcdQuorum, message))
    })
}

/// The same for a node that has its turn: of others' turns only those count that have begun to change their nodes, or
/// came first. Two that came at the same moment would wait for each other for ever.
pub fn refusal_of_turn(observed: &Observed, node: &NodeView, turn: &ChangeView) -> Option<Why> {
    judged(observed, node, false, Some(turn))
}

/// Why the member of a node that is gone, and was let go in this turn, may not be taken out now: another member is away. Etcd could lose
/// its majority with it where the machine of the node still runs.
pub fn refusal_of_gone(observed: &Observed, gone: &str, turn: &ChangeView) -> Option<Why> {
    if let Some(why) = observed.etcd_unlisted(false) {
        let message = format!("the member of Node {gone}, which is gone, is not taken out of etcd: {why}");
        return Some(Why::new(Reason::ListFailed, message));
    }
    let (members, what) = membership(observed);
    let others = members.iter().copied().filter(|name| *name != gone);
    let others = others.filter(|name| observed.nodes.contains_key(*name));
    // The old node is in its own turn, and its member runs all the same.
    let is_old = |name: &str| {
        let old = observed.node_of(turn).filter(|old| old.name == name);
        old.is_some_and(|old| is_up(observed, old) && !is_untold(old))
    };
    let away: Vec<&str> = others
        .filter(|name| !is_old(name) && !is_well(observed, name, Some(turn)))
        .collect();
    let message = format!(
        "the member of Node {gone}, which is gone, cannot be taken out of etcd at this moment: of {} {what}, {} is away already",
        members.len(),
        away.join(", ")
    );
    (!away.is_empty()).then(|| Why::new(Reason::EtcdQuorum, message))
}

fn judged(
    observed: &Observed,
    node: &NodeView,
    keeps_majority: bool,
    turn: Option<&ChangeView>,
) -> Option<Why> {
    if let Some(why) = unlabelled(observed, node) {
        return Some(why);
    }
    let on_it = || members(observed).any(|pod| pod.node == node.name);
    if !is_control_plane(node) && !on_it() {
        return None;
    }
    let message = format!(
        "can not put master/control-plane node into maintenance at this moment, disrupting node {} will violate etcd quorum",
        node.name
    );
    if let Some(why) = observed.etcd_unlisted(is_openshift(observed)) {
        return Some(Why::new(Reason::ListFailed, format!("{message}: {why}")));
    }
    let refused = |why: String| Some(Why::new(Reason::EtcdQuorum, format!("{message}: {why}")));
    // Anywhere else a namespace of that name is anybody's.
    if is_openshift(observed) {
        let budgets = observed.disruption_budgets.iter();
        let guards: Vec<_> = budgets
            .filter(|(key, _)| key.namespace == OPENSHIFT_ETCD)
            .collect();
        let mut pods = observed.etcd_pods.keys();
        if !guards.is_empty() || pods.any(|key| key.namespace == OPENSHIFT_ETCD) {
            return guarded(observed, node, &guards, turn).and_then(refused);
        }
    }
    let (members, what) = membership(observed);
    // One that is away already loses nothing.
    if !members.contains(node.name.as_str()) || !is_up(observed, node) {
        return None;
    }
    let nodes = members.iter().filter_map(|name| observed.nodes.get(*name));
    if let Some(untold) = nodes.into_iter().find(|node| is_untold(node)) {
        return refused(format!(
            "condition EtcdIsVoter of Node {} is Unknown, so nobody knows how many members would be left",
            untold.name
        ));
    }
    let others = members.iter().copied().filter(|name| *name != node.name);
    let away: Vec<&str> = others.filter(|name| !is_well(observed, name, turn)).collect();
    let (all, majority) = (members.len(), members.len() / 2 + 1);
    if !away.is_empty() {
        return refused(format!("of {all} {what}, {} is away already", away.join(", ")));
    }
    let left = all - 1;
    if keeps_majority && left < majority {
        return refused(format!(
            "of {all} {what}, {left} would be left, wanted {majority}"
        ));
    }
    None
}

/// That a node says of itself that it is a member of etcd, and has no label of the control plane: it may have lost that. What its kubelet says
/// makes it no member that counts for others, but the node itself waits.
fn unlabelled(observed: &Observed, node: &NodeView) -> Option<Why> {
    let says = node.etcd_voter == Some(EtcdVoter::Yes) && is_up(observed, node);
    if !says || is_control_plane(node) || is_openshift(observed) {
        return None;
    }
    let message = format!(
        "condition EtcdIsVoter of Node {} is True, and it has none of the labels of the control plane, so it counts as no member of etcd: put \
         label {} back",
        node.name, CONTROL_PLANE[0]
    );
    Some(Why::new(Reason::EtcdQuorum, message).ended_by(Actor::ClusterAdmin))
}

/// Whether nobody knows if the node is a member of etcd.
fn is_untold(node: &NodeView) -> bool {
    node.etcd_voter == Some(EtcdVoter::Unknown) && is_control_plane(node)
}

/// The nodes that count as etcd's members, and what tells of them. One of which nobody knows may be a member.
fn membership(observed: &Observed) -> (BTreeSet<&str>, &'static str) {
    let voters = names(observed, |node| {
        let may_vote = [Some(EtcdVoter::Yes), Some(EtcdVoter::Unknown)];
        may_vote.contains(&node.etcd_voter) && is_control_plane(node)
    });
    if !voters.is_empty() {
        return (voters, "etcd members (condition EtcdIsVoter)");
    }
    let with_pods: BTreeSet<&str> = members(observed).map(|pod| pod.node.as_str()).collect();
    if !with_pods.is_empty() {
        return (with_pods, "etcd members (pods with component=etcd)");
    }
    let nodes = names(observed, is_control_plane);
    (nodes, "control-plane nodes; etcd is not to be seen")
}

/// OpenShift: the guard's budget allows a disruption, or the node's member is down already.
fn guarded(
    observed: &Observed,
    node: &NodeView,
    guards: &[(&Key, &crate::observed::DisruptionBudgetView)],
    turn: Option<&ChangeView>,
) -> Option<String> {
    let [(key, guard)] = guards else {
        let found = guards.len();
        return Some(format!(
            "found {found} PodDisruptionBudgets in {OPENSHIFT_ETCD}, wanted one"
        ));
    };
    // A guard's pod may be ready long after its node was cordoned.
    let nodes = observed.nodes.values();
    let mut others = nodes.filter(|other| other.name != node.name && is_control_plane(other));
    if let Some(other) = others.find(|other| has_turn(observed, other, turn)) {
        return Some(format!("{} has its turn already", other.name));
    }
    if guard.allowed >= 1 {
        return None;
    }
    let etcd_pods = observed.etcd_pods.iter();
    let mut pods = etcd_pods
        .filter(|(pod, view)| pod.namespace == OPENSHIFT_ETCD && view.node == node.name)
        .filter(|(_, view)| drain::covers(guard, &view.labels));
    pods.any(|(_, view)| view.ready == Some(true))
        .then(|| format!("PodDisruptionBudget {key} allows none, and the member of the node is up"))
}

fn names(observed: &Observed, select: impl Fn(&NodeView) -> bool) -> BTreeSet<&str> {
    let nodes = observed.nodes.values().filter(|node| select(node));
    nodes.map(|node| node.name.as_str()).collect()
}

/// Whether the member on the node can be counted on: it is Ready, nobody has its turn with it, and its pod is not
/// known to be down.
fn is_well(observed: &Observed, name: &str, turn: Option<&ChangeView>) -> bool {
    let Some(node) = observed.nodes.get(name) else {
        return false;
    };
    is_up(observed, node)
        && !is_untold(node)
        && !node.unschedulable
        && node.leaving.is_none()
        && !has_turn(observed, node, turn)
}

/// OpenShift keeps its etcd in a namespace of its own, which anywhere else is anybody's.
fn is_openshift(observed: &Observed) -> bool {
    observed.cluster_version.is_some() || observed.control_plane_topology.is_some()
}

/// The pods that tell of etcd's members.
fn members(observed: &Observed) -> impl Iterator<Item = &EtcdPodView> {
    let openshift = is_openshift(observed);
    let pods = observed.etcd_pods.iter();
    pods.filter(move |(key, _)| openshift || key.namespace != OPENSHIFT_ETCD)
        .map(|(_, pod)| pod)
}

/// Whether an owner has the node in hand; seen from a turn of another node: first, or beyond the beginning.
fn has_turn(observed: &Observed, node: &NodeView, than: Option<&ChangeView>) -> bool {
    let counts = |change: &ChangeView| {
        let begun = |step: Option<Step>| {
            let not_yet = [Step::Admitted, Step::PreRules, Step::PreRelease];
            step.is_some_and(|step| !not_yet.contains(&step))
        };
        than.is_none_or(|turn| {
            begun(change.status.step) || (change.created, &change.key) < (turn.created, &turn.key)
        })
    };
    observed
        .changing()
        .any(|change| change.spec.node_name == node.name && counts(change))
}

/// Whether the member on the node runs, whatever is going to happen to it.
fn is_up(observed: &Observed, node: &NodeView) -> bool {
    let mut pods = members(observed).filter(|pod| pod.node == node.name);
    node.ready && !pods.any(|pod| pod.ready == Some(false))
}
