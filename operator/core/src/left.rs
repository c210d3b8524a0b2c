//! Every mark that numo has left on objects that are not its own, and those among them whose owner is gone. The operator
//! (metrics, events), `numo status`, `numo doctor` and `numo release` all ask here. Nothing here writes.

use crate::{
    finalizer,
    key::Key,
    mark,
    observed::{
        Annotated, ChangeView, LeaseView, MachineApi, MaintenanceView, NodeView, Observed, PendingNodeView,
        PoolView,
    },
    owner::{Means, Owner, OwnerKind},
    ownerless,
    pairs::Values,
    pools, release, released,
    text::counted,
    turn::{believed::Believed, lease, machine, quarantine},
    undo::{annotate, put_back, select_again, uncordon, unlabel, unshield},
    unknown::{self, Unknown},
};
use numo_api::{Reason, marks};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// A mark that is left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Left {
    /// The object: `Node worker-1`.
    pub object: String,
    /// The mark: its key.
    pub mark: String,
    /// uid of the owner, where the mark tells it.
    pub owner: String,
    /// In a sentence: what stands there, and why it stays if that is plain.
    pub message: String,
    /// Whether no waiting ends it: a person does.
    pub held: bool,
}

/// The object that a mark is on, as an event names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marked {
    /// `apiVersion` of the object.
    pub api_version: &'static str,
    /// Kind of the object.
    pub kind: &'static str,
    /// Namespace (empty for objects of the cluster) and name.
    pub key: Key,
    /// uid of the object.
    pub uid: String,
}

/// A mark whose owner is gone: nobody takes it back by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Orphan {
    /// The mark.
    pub left: Left,
    /// The object that carries it.
    pub on: Marked,
    /// `namespace/name` of the owner, where the mark tells it.
    pub owner: Option<Key>,
    /// The owner, if it is of a kind that this version does not know: whether it is gone cannot be told.
    pub unknown: Option<Unknown>,
    /// Whether the mark cannot be read: neither its owner nor what was there before is known.
    pub is_unread: bool,
    /// A pool that stays paused: the nodes that would roll if it were unpaused now.
    pub held_nodes: Option<usize>,
    /// Commands that put back what was there before, in order.
    pub commands: Vec<String>,
}

impl Orphan {
    /// A mark on an object, whose owner is not known by name.
    fn of(
        on: Marked,
        (mark, owner): (&str, String),
        message: impl Into<String>,
        commands: Vec<String>,
    ) -> Self {
        let named = match on.kind {
            "Lease" => &on.key.name,
            _ => &on.key.to_string(),
        };
        Self {
            left: Left {
                object: format!("{} {named}", on.kind),
                mark: mark.to_owned(),
                owner,
                message: message.into(),
                // A pool whose nodes would roll is opened by hand.
                held: mark == marks::PAUSED_BY,
            },
            on,
            owner: None,
            unknown: None,
            is_unread: false,
            held_nodes: None,
            commands,
        }
    }

    /// The marks of an object, which kubectl calls so, that cannot be read: they stay until a person takes them off.
    fn unread(
        on: impl Fn() -> Marked,
        named: &str,
        annotations: &impl Values,
        of: &'static [&'static str],
    ) -> impl Iterator<Item = Self> {
        mark::unreadable(annotations, of).map(move |key| {
            let message = "this numo cannot read it, and does not write over it";
            let command = annotate(named, &[], key);
            let mut one = Self::of(on(), (key, String::new()), message, vec![command]);
            (one.is_unread, one.left.held) = (true, true);
            one
        })
    }

    /// What is to be said of it: the reason, and a sentence that ends with what ends it.
    pub fn said(&self) -> (Reason, String) {
        let owner = self.owner.as_ref().map_or_else(
            || format!("its owner (uid {}) is gone", self.left.owner),
            |key| format!("MutexRunConfig {key}, which paused it, is gone"),
        );
        let end = format!("put it back: {}", self.commands.join("; "));
        if let Some(unknown) = &self.unknown {
            let (object, mark) = (&self.left.object, &self.left.mark);
            let rolls = self
                .held_nodes
                .filter(|held| *held > 0)
                .map_or_else(String::new, |held| {
                    format!(", and nodes would roll without rules if it were unpaused ({held})")
                });
            let (message, words) = (&self.left.message, unknown.words());
            let said = format!("{object}: {message} ({mark}){rolls}, {words}; {end}");
            return (Reason::OwnerUnknown, said);
        }
        let Left {
            object,
            mark,
            message,
            owner: uid,
            ..
        } = &self.left;
        if let Some(held) = self.held_nodes {
            let held = counted(held, "node");
            let said = format!(
                "{object} stays paused, no update reaches its nodes, and {owner}: {held} would roll without rules \
                 if it were unpaused. A new MutexRunConfig with this pool among its targets takes it over; or unpause it: \
                 {}",
                self.commands.join("; ")
            );
            return (Reason::PoolHeld, said);
        }
        if self.is_unread {
            let said =
                format!("{object} annotation {mark}: {message}; once you know what was there before, {end}");
            return (Reason::MarkUnreadable, said);
        }
        let so = if !uid.is_empty() {
            owner
        } else if self.on.kind.starts_with("Machine") {
            format!("nothing removes it: {NOT_OURS}")
        } else {
            "its owner is gone".to_owned()
        };
        (
            Reason::OwnerGone,
            format!("{object}: {message} ({mark}), and {so}; {end}"),
        )
    }

    /// The mark alone, which says so itself if it stays.
    fn into_left(self) -> Left {
        let message = match &self.unknown {
            Some(unknown) => format!("{}, {}", self.left.message, unknown.words()),
            None => self.left.message,
        };
        Left { message, ..self.left }
    }
}

/// The keys of all marks that [`orphans`] can find.
pub const MARKS: [&str; 9] = [
    marks::RELEASE,
    marks::PRIOR_NODE_SELECTOR,
    marks::LABELLED_BY,
    marks::SHIELDED_BY,
    marks::CORDONED_BY,
    marks::DRAINS_FOR,
    marks::QUARANTINE,
    LEASE_MARK,
    marks::PAUSED_BY,
];

/// Why a mark on a Machine or MachineHealthCheck is not believed (`turn/believed.rs`).
const NOT_OURS: &str = "no Node of this cluster names this Machine, or one beside this MachineHealthCheck";

/// The mark of a Lease: who holds it.
pub const LEASE_MARK: &str = "spec.holderIdentity";

/// The mark of a PendingNode: what is to become of its machine.
pub const PENDING_MARK: &str = "spec.goal";

/// Every mark of numo's that is on the cluster, with the finalizers of owners that are still there, and machines that were asked for or
/// were to be deleted.
pub fn all(observed: &Observed) -> Vec<Left> {
    let marks = on_objects(observed).into_iter();
    let marks = marks.map(|one| of_released(observed, one));
    let mut found: Vec<Left> = marks.map(Orphan::into_left).collect();
    found.extend(
        observed
            .fleet
            .pending
            .values()
            .filter_map(|one| of_pending(observed, one)),
    );
    let ours: BTreeSet<&Owner> = release::own_maintenances(observed).collect();
    for (owner, view) in observed.owners() {
        let is_shared = owner.kind.means() == Means::Person;
        let who = if is_shared { "an operator" } else { "numo" };
        if (!is_shared || ours.contains(&owner)) && finalizer::is_on(&owner, view) {
            found.push(Left {
                object: owner.to_string(),
                mark: owner.kind.finalizer().to_owned(),
                owner: view.uid.to_owned(),
                message: format!("its deletion waits for {who}"),
                held: false,
            });
        }
    }
    found
}

/// A NodeVersion's mark of a node that it has released says that it stays, and what ends that. Marks that other owners have left on the
/// node are taken back as on any other.
fn of_released(observed: &Observed, mut one: Orphan) -> Orphan {
    let name = match one.on.kind {
        // A NodeMaintenance that numo made has the name of its node.
        "Node" | "NodeMaintenance" => one.on.key.name.as_str(),
        "Lease" => one.on.key.name.strip_prefix("node-").unwrap_or_default(),
        "Machine" => {
            let mut machines = observed.machines.values();
            let machine = machines.find(|machine| machine.object.uid == one.on.uid);
            machine.map_or("", |machine| machine.node.as_str())
        }
        _ => "",
    };
    let of_taint = observed.nodes.get(name).and_then(quarantine);
    let of_taint = of_taint.filter(|_| one.left.mark == marks::QUARANTINE);
    let is_of = |owner: &str| match of_taint {
        // It does not hold the uid of its owner itself.
        Some(value) => value == quarantine::owner_value(owner),
        None => one.left.owner == owner,
    };
    if let Some(words) = released::words(observed, name, is_of) {
        let (message, commands) = (&one.left.message, one.commands.join("; "));
        one.left.message = format!("{message}; {words}, or put back what was there: {commands}");
        one.left.held = true;
    }
    one
}

/// A machine that numo has asked for, or that it was to have deleted: nobody goes on with that.
fn of_pending(observed: &Observed, pending: &PendingNodeView) -> Option<Left> {
    Some(Left {
        object: format!("PendingNode {}", pending.name),
        mark: PENDING_MARK.to_owned(),
        owner: pending.owner_uid.clone(),
        message: released::words_of_pending(observed, pending)?,
        held: true,
    })
}

/// The marks whose owner is gone, in the order in which they are safely taken back by hand: labels of the canary pool and
/// selectors first, the pause of a pool last.
pub fn orphans(observed: &Observed) -> Vec<Orphan> {
    let alive = ownerless::alive(observed);
    let mut found = on_objects(observed);
    found.retain(|one| !alive.contains(one.left.owner.as_str()));
    // Two marks do not hold the uid of their owner itself.
    let values: BTreeSet<String> = alive.iter().map(|uid| quarantine::owner_value(uid)).collect();
    let is_of_living = |one: &Orphan| {
        let Some(node) = observed.nodes.get(&one.on.key.name) else {
            return false;
        };
        match one.left.mark.as_str() {
            marks::QUARANTINE => quarantine(node).is_some_and(|value| values.contains(value)),
            marks::RELEASE => {
                let run = node.label(marks::RELEASE);
                let of_change = is_of_run(observed, node, |owner| alive.contains(owner));
                let mut runs = observed.runs.values();
                let of_run = runs.any(|view| view.status.run.as_ref().is_some_and(|last| last.id == run));
                of_change || of_run
            }
            _ => false,
        }
    };
    found.retain(|one| !(one.on.kind == "Node" && is_of_living(one)));
    for one in &mut found {
        if let Some(pool) = observed.pools.get(&one.on.key.name)
            && one.left.mark == marks::PAUSED_BY
            && pool.paused
        {
            one.held_nodes = Some(pools::outdated(observed, pool));
        }
    }
    let rank = |one: &Orphan| MARKS.iter().position(|mark| *mark == one.left.mark);
    found.sort_by_key(|one| (rank(one), one.on.clone()));
    found
}

/// Every mark on a Node, pool, Machine, MachineHealthCheck or Lease.
fn on_objects(observed: &Observed) -> Vec<Orphan> {
    let mut found = Vec::new();
    for node in observed.nodes.values() {
        of_node(node, &mut found);
    }
    for pool in observed.pools.values() {
        of_pool(pool, &mut found);
    }
    let believed = Believed::of(observed);
    for (place, machine) in &observed.machines {
        let is_believed = |owner: &str| believed.is_machine(owner, place, machine);
        found.extend(of_machine("Machine", place, &machine.object, is_believed));
    }
    for (place, check) in &observed.health_checks {
        let is_believed = |_: &str| believed.is_check(place);
        found.extend(of_machine("MachineHealthCheck", place, check, is_believed));
    }
    found.extend(observed.maintenances.values().filter_map(of_maintenance));
    for (node, lease) in &observed.leases {
        let Some(owner) = leaseholder(observed, node, lease) else {
            continue;
        };
        let name = format!("node-{node}");
        let namespace = marks::LEASE_NAMESPACE;
        let message = format!("numo holds the lease of Node {node}");
        let commands = vec![format!("kubectl -n {namespace} delete lease {name}")];
        let on = Marked {
            api_version: "coordination.k8s.io/v1",
            kind: "Lease",
            key: Key::new(namespace, name),
            uid: lease.uid.clone(),
        };
        found.push(Orphan::of(on, (LEASE_MARK, owner.to_owned()), message, commands));
    }
    say_unknown(observed, &mut found);
    found
}

/// The mark of a NodeMaintenance by which another operator drains a node.
fn of_maintenance(view: &MaintenanceView) -> Option<Orphan> {
    let mark = mark::drains_for(view)?;
    let name = &view.owner.key.name;
    let on = Marked {
        api_version: "nodemaintenance.medik8s.io/v1beta1",
        kind: "NodeMaintenance",
        key: view.owner.key.clone(),
        uid: view.uid.clone(),
    };
    let message = "another operator keeps its node drained by it for numo";
    let command = format!("kubectl delete nodemaintenances.nodemaintenance.medik8s.io {name}");
    Some(Orphan::of(
        on,
        (marks::DRAINS_FOR, mark.owner),
        message,
        vec![command],
    ))
}

/// Notes of each mark whose owner is of a kind that this version does not know that it is so.
fn say_unknown(observed: &Observed, found: &mut [Orphan]) {
    let owners = unknown::owners(observed);
    if owners.is_empty() {
        return;
    }
    for one in found {
        // Two marks of a node do not hold the uid of their owner itself.
        let of_node = || {
            let node = observed.nodes.get(&one.on.key.name);
            let node = node.filter(|_| one.on.kind == "Node")?;
            let mut all = owners.iter();
            match one.left.mark.as_str() {
                marks::QUARANTINE => {
                    let value = quarantine(node)?;
                    all.find(|(uid, _)| quarantine::owner_value(uid) == value)
                }
                marks::RELEASE => all.find(|(uid, _)| is_of_run(observed, node, |owner| owner == *uid)),
                _ => None,
            }
        };
        let owner = owners.get_key_value(&one.left.owner).or_else(of_node);
        one.unknown = owner.map(|(_, unknown)| unknown.clone());
    }
}

/// Whether the node carries the release label of a run of such an owner, as journals tell.
fn is_of_run(observed: &Observed, node: &NodeView, is_meant: impl Fn(&str) -> bool) -> bool {
    let run = node.label(marks::RELEASE);
    let mut changes = observed.journals();
    changes.any(|change| change.spec.target.run_id == run && is_meant(&change.spec.owner_ref.uid))
}

/// uid of the owner for which numo holds the lease of a node; empty where nothing tells it, as of a NodeMaintenance that is
/// gone; none if it is another operator's.
fn leaseholder<'a>(observed: &'a Observed, node: &str, lease: &'a LeaseView) -> Option<&'a str> {
    if lease.holder == marks::MAINTENANCE_HOLDER {
        // The name alone says nothing: who shares it takes leases of its own.
        return lease.by_numo.then(|| maintenance_of(observed, node));
    }
    // Whatever kinds there are by now.
    lease::named_on(&lease.holder).map(|(_, uid)| uid)
}

/// uid of the NodeMaintenance that has a node: by its turn, as a spec may name another node by now, and several may name this one. Without
/// a turn the one that names the node; empty if none does.
fn maintenance_of<'a>(observed: &'a Observed, node: &str) -> &'a str {
    let is_maintenance = |change: &&ChangeView| {
        let kind = OwnerKind::of(&change.spec.owner_ref);
        kind.is_some_and(|kind| kind.means() == Means::Person)
    };
    let mut turns = observed.turns().filter(is_maintenance);
    let in_turn = turns.find(|change| change.spec.node_name == *node);
    let in_turn = in_turn.map(|change| change.spec.owner_ref.uid.as_str());
    let named = || {
        let mut maintenances = observed.maintenances.values();
        maintenances.find(|view| view.spec.node_name == *node)
    };
    in_turn
        .or_else(|| named().map(|view| view.uid.as_str()))
        .unwrap_or_default()
}

fn of_node(node: &NodeView, found: &mut Vec<Orphan>) {
    let name = node.name.as_str();
    let on = || Marked {
        api_version: "v1",
        kind: "Node",
        key: Key::new("", name),
        uid: node.uid.clone(),
    };
    let named = format!("node {name}");
    found.extend(Orphan::unread(on, &named, &node.annotations, &mark::OF_NODES));
    let mut say = |mark: &str, owner: String, message: &str, commands: Vec<String>| {
        found.push(Orphan::of(on(), (mark, owner), message, commands));
    };
    if let Some(mark) = mark::cordoned_by(node) {
        let commands = uncordon(node, &mark);
        say(marks::CORDONED_BY, mark.owner, "it is cordoned by numo", commands);
    }
    if let Some(mark) = mark::shielded(node) {
        let commands = unshield(node, &mark);
        let message = "remediation and autoscalers are kept off it";
        say(marks::SHIELDED_BY, mark.owner, message, commands);
    }
    let labelled = mark::labelled_by(node).map(|mark| mark.owner.to_owned());
    if let Some(owner) = &labelled {
        let commands = unlabel(node);
        let message = "it carries labels of rules";
        say(marks::LABELLED_BY, owner.clone(), message, commands);
    }
    if !node.label(marks::RELEASE).is_empty() {
        let commands = vec![format!("kubectl label node {name} {}-", marks::RELEASE)];
        let owner = labelled.unwrap_or_default();
        say(marks::RELEASE, owner, "it is in the canary pool", commands);
    }
    if quarantine(node).is_some() {
        let commands = vec![format!(
            "kubectl taint node {name} {}:NoSchedule-",
            marks::QUARANTINE
        )];
        say(marks::QUARANTINE, String::new(), "it takes no new pods", commands);
    }
}

/// The value of the quarantine taint of a node, which stands for the owner.
fn quarantine(node: &NodeView) -> Option<&str> {
    let taint = node.taint(marks::QUARANTINE)?;
    Some(taint.get("value").and_then(Value::as_str).unwrap_or_default())
}

/// What numo's mark of a pause says of a pool. `outdated`: nodes that would roll, as whoever left it so has counted.
fn said_of_pause(is_paused: bool, outdated: Option<usize>, unpause: &str) -> String {
    match outdated {
        Some(nodes) => format!(
            "it stays paused: {} would roll without rules if it were unpaused; unpause it by hand when {} may: {unpause}",
            counted(nodes, "node"),
            if nodes == 1 { "it" } else { "they" }
        ),
        None if is_paused => "it is paused by numo".to_owned(),
        None => "it was paused by numo, and is open".to_owned(),
    }
}

fn of_pool(pool: &PoolView, found: &mut Vec<Orphan>) {
    let name = pool.name.as_str();
    let on = || Marked {
        api_version: "machineconfiguration.openshift.io/v1",
        kind: "MachineConfigPool",
        key: Key::new("", name),
        uid: pool.uid.clone(),
    };
    let named = format!("machineconfigpool {name}");
    found.extend(Orphan::unread(on, &named, &pool.annotations, &mark::OF_POOLS));
    if let Some(mark) = mark::prior_selector(pool) {
        let commands = vec![select_again(name, &mark.prior)];
        let message = "its node selector is numo's";
        found.push(Orphan::of(
            on(),
            (marks::PRIOR_NODE_SELECTOR, mark.owner),
            message,
            commands,
        ));
    }
    let Some(mark) = mark::paused_by(pool) else {
        return;
    };
    let unpause = format!(
        "kubectl patch machineconfigpool {name} --type merge -p \
         '{{\"spec\":{{\"paused\":false}},\"metadata\":{{\"annotations\":{{\"{}\":null}}}}}}'",
        marks::PAUSED_BY
    );
    // What was paused before numo came stays so, and what is open needs no more than that the mark goes.
    let command = if pool.paused && !mark.prior && !mark::is_outlived(pool) {
        unpause.clone()
    } else {
        annotate(&named, &[], marks::PAUSED_BY)
    };
    let message = said_of_pause(pool.paused, mark.outdated, &unpause);
    let key = mark.name.split_once('/');
    found.push(Orphan {
        owner: key.map(|(namespace, name)| Key::new(namespace, name)),
        ..Orphan::of(on(), (marks::PAUSED_BY, mark.owner), message, vec![command])
    });
}

/// The mark of a Machine or MachineHealthCheck. One that is not believed is nobody's, whomever it names.
fn of_machine(
    kind: &'static str,
    (api, key): &(MachineApi, Key),
    object: &Annotated,
    is_believed: impl Fn(&str) -> bool,
) -> Option<Orphan> {
    object.annotations.get(marks::SHIELDED_BY)?;
    let api_version = match api {
        MachineApi::OpenShift => "machine.openshift.io/v1beta1",
        MachineApi::ClusterApi => "cluster.x-k8s.io/v1beta1",
    };
    let pairs = match kind {
        "Machine" => &machine::MACHINE_SHIELD,
        _ => &machine::HEALTH_CHECK_PAUSE,
    };
    let on = Marked {
        api_version,
        kind,
        key: key.clone(),
        uid: object.uid.clone(),
    };
    let resource = format!("{}s.{}", kind.to_lowercase(), api.group());
    let named = format!("-n {} {resource} {}", key.namespace, key.name);
    let Some(mark) = mark::shielded_by(&object.annotations) else {
        return Orphan::unread(|| on.clone(), &named, &object.annotations, &mark::OF_MACHINES).next();
    };
    let back = put_back(&object.annotations, &mark, pairs);
    let command = annotate(&named, &back, marks::SHIELDED_BY);
    let owner = Some(mark.owner)
        .filter(|owner| is_believed(owner))
        .unwrap_or_default();
    let message = "remediation is kept off it";
    Some(Orphan::of(
        on,
        (marks::SHIELDED_BY, owner),
        message,
        vec![command],
    ))
}
