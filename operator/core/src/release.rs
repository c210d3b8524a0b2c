//! What is taken back where no operator is left to do it: every owner is looked at as one that is being deleted, and a
//! mark whose owner is gone gets an owner that is. So what is given back, in which order and what is never let go is
//! decided by the very code that decides it for an operator; nothing here writes.

use crate::{
    action::{Action, NodePurpose, PoolPurpose},
    decision::Decision,
    key::Key,
    mark,
    observed::{
        ChangeView, ForeignController, MaintenanceView, NodeVersionView, NodeView, Observed, PlanView,
        RunConfigView,
    },
    owner::{MaintenanceGroup, Means, Owner, OwnerKind},
    turn::{believed::Believed, journal, lease},
    unknown,
};
use jiff::Timestamp;
use numo_api::{
    NodeMaintenanceSpec, NodeMaintenanceStatus, Step,
    conditions::types,
    marks::{self, openshift},
};
use std::collections::{BTreeMap, BTreeSet};

/// Name of an owner that is gone, where a mark does not tell it.
const GONE: &str = "gone";

/// Makes of what was seen what would be seen if every owner were being deleted, and returns the owners to decide for.
/// Journals of nodes that are not changing are put away: no rule can be asked any more.
///
/// What stands for an owner of a kind that this version does not know stays: only a numo that knows the kind can tell whether its work
/// may be taken back.
pub fn abandon(observed: &mut Observed, now: Timestamp) -> Vec<Owner> {
    let ours: BTreeSet<Owner> = own_maintenances(observed).cloned().collect();
    let unknown = unknown::owners(observed);
    let of_machines = owners_by(observed, Means::Machine);
    let replaced = has_replaced(observed);
    let changes = observed.changes.values();
    let changing = changes.filter(|change| is_changing(observed, change));
    let changing: BTreeSet<Key> = changing.map(|change| change.key.clone()).collect();
    observed.changes.retain(|key, _| changing.contains(key));
    let all = observed.owners();
    let known: BTreeSet<String> = all.map(|(_, view)| view.uid.to_owned()).collect();
    let stays = |view: &MaintenanceView| ours.contains(&view.owner) || mark::drains_for(view).is_some();
    observed.maintenances.retain(|_, view| stays(view));
    take_for_deleted(observed);
    abandon_machines(observed, replaced);
    // Bindings lend rules to what is asked no more.
    observed.bindings.clear();
    // Whoever else runs, what is numo's is taken back.
    observed.foreign_controllers.clear();
    let mut orphaned = orphaned(observed);
    for uid in &of_machines {
        // Nothing but its journal may tell of it.
        orphaned.entry(uid.clone()).or_default();
    }
    for (uid, mut gone) in orphaned {
        if of_machines.contains(&uid) {
            gone.means.insert(Means::Machine);
        }
        if !known.contains(&uid) && !unknown.contains_key(&uid) {
            stand_in(observed, &uid, &gone, now);
        }
    }
    let runs = observed.runs.keys().cloned();
    let plans = observed.plans.keys().cloned();
    observed.settings.run_namespaces = runs.clone().map(|key| key.namespace).collect();
    observed.settings.plan_namespaces = plans.clone().map(|key| key.namespace).collect();
    let maintenances = served(observed);
    let versions = observed.fleet.versions.keys();
    let versions = versions.map(|name| Owner::node_version(name.as_str()));
    // Runs last: a run unpauses what would roll.
    maintenances
        .into_iter()
        .chain(plans.map(Owner::plan))
        .chain(versions)
        .chain(runs.map(Owner::run))
        .collect()
}

/// The NodeMaintenances that numo serves: those by which another operator drains nodes are taken back by the owner that made them.
fn served(observed: &Observed) -> Vec<Owner> {
    let all = observed.maintenances.values();
    let served = all.filter(|view| mark::drains_for(view).is_none());
    served.map(|view| view.owner.clone()).collect()
}

/// Nobody replaces machines any more. Cluster autoscalers are switched on again only where numo has switched them off: for a NodeVersion
/// that it has worked on, and while the operator that it replaces does not run.
fn abandon_machines(observed: &mut Observed, has_replaced: bool) {
    let rival = observed.stood_off(ForeignController::NodeVersion).is_some();
    let fleet = &mut observed.fleet;
    fleet.abandoned = true;
    if rival || !(has_replaced || fleet.versions.values().any(is_served)) {
        fleet.strategies.clear();
        fleet.autoscalers.clear();
    }
}

/// Whether numo has worked on a NodeVersion: its finalizer is there, or its condition.
fn is_served(view: &NodeVersionView) -> bool {
    let mut conditions = view.status.conditions.iter();
    view.finalizers.iter().any(|one| one == marks::FINALIZER)
        || conditions.any(|condition| condition.type_ == types::READY)
}

/// Whether numo has begun something for a NodeVersion, as journals and node leases tell.
pub fn has_replaced(observed: &Observed) -> bool {
    let mut leases = observed.leases.values();
    let is_of_machines = |holder: &str| {
        lease::named_on(holder).is_some_and(|(kind, _)| means_of(kind) == Some(Means::Machine))
    };
    leases.any(|lease| is_of_machines(&lease.holder)) || !owners_by(observed, Means::Machine).is_empty()
}

/// What changes the nodes of owners of the kind of this name; none of a kind that this version does not know.
fn means_of(kind: &str) -> Option<Means> {
    let found = OwnerKind::ALL.into_iter().find(|known| known.name() == kind);
    found.map(OwnerKind::means)
}

/// The owners whose nodes change by these means, by uid, that journals of the operator's own namespace name: anybody could have made
/// others.
fn owners_by(observed: &Observed, means: Means) -> BTreeSet<String> {
    let all = observed.changes.values();
    let own = all.filter(|change| change.key.namespace == observed.settings.namespace);
    let owners = own.map(|change| &change.spec.owner_ref);
    let owners = owners.filter(|owner| OwnerKind::of(owner).map(OwnerKind::means) == Some(means));
    owners.map(|owner| owner.uid.clone()).collect()
}

/// NodeMaintenances that numo has worked on. Finalizer, taint and lease are node-maintenance-operator's, too: what has no
/// journal and no mark of numo's is that one's, and so is everything while it runs.
pub(crate) fn own_maintenances(observed: &Observed) -> impl Iterator<Item = &Owner> {
    let alive = observed.stood_off(ForeignController::NodeMaintenance).is_some();
    let is_ours = move |view: &MaintenanceView| {
        let mut changes = observed.journals();
        let mut nodes = observed.nodes.values();
        changes.any(|change| change.spec.owner_ref.uid == view.uid)
            || nodes.any(|node| {
                mark::cordoned_by(node).is_some_and(|mark| mark.owner == view.uid)
                    || mark::shielded(node).is_some_and(|mark| mark.owner == view.uid)
            })
    };
    let all = observed.maintenances.iter();
    all.filter(move |(_, view)| !alive && is_ours(view))
        .map(|(owner, _)| owner)
}

/// Looks at every owner as one that is being deleted: again after each write, whose answer says otherwise.
pub fn take_for_deleted(observed: &mut Observed) {
    for run in observed.runs.values_mut() {
        run.deleting = true;
        // Whatever the spec says of leaving: no node is let go by this.
        run.spec.on_exit = None;
    }
    let maintenances = observed.maintenances.values_mut();
    for view in maintenances.filter(|view| mark::drains_for(view).is_none()) {
        view.deleting = true;
        view.spec.mutex_rules = None;
    }
    for view in observed.plans.values_mut() {
        view.deleting = true;
    }
    for view in observed.fleet.versions.values_mut() {
        view.deleting = true;
    }
}

/// Whether a write gives something back. Nothing else is written when an operator's work is taken back.
pub fn restores(action: &Action) -> bool {
    match action {
        Action::PatchNode(patch) => matches!(
            patch.purpose,
            NodePurpose::Unshield
                | NodePurpose::Unlabel
                | NodePurpose::BringHome
                | NodePurpose::Uncordon
                | NodePurpose::Recordon
                | NodePurpose::Unquarantine
        ),
        Action::PatchPool(patch) => matches!(
            patch.purpose,
            PoolPurpose::Unpause | PoolPurpose::Hold | PoolPurpose::Unselect
        ),
        Action::PatchMachine(patch) => patch.purpose.restores(),
        Action::Fleet(action) => action.restores(),
        Action::RemoveFinalizer { .. }
        | Action::ReleaseLease { .. }
        | Action::DeleteMaintenance { .. }
        | Action::SetJobTtl { .. } => true,
        Action::WriteJournal { .. }
        | Action::AddFinalizer { .. }
        | Action::CreateChange { .. }
        | Action::CreateMaintenance(_)
        | Action::DeleteChange { .. }
        | Action::Evict { .. }
        | Action::RecordRun { .. }
        | Action::CreateJob(_)
        | Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::DeletePlanJob { .. }
        | Action::MarkGate { .. }
        | Action::AcquireLease { .. }
        | Action::RenewLease { .. } => false,
    }
}

/// Takes out of a decision what does not give back. While nodes are `changing` no pool is unpaused: one of them may be in it.
pub fn only_restore(decision: &mut Decision, changing: bool) {
    let unpauses =
        |action: &Action| matches!(action, Action::PatchPool(patch) if patch.purpose == PoolPurpose::Unpause);
    decision
        .actions
        .retain(|planned| restores(&planned.action) && !(changing && unpauses(&planned.action)));
    decision.questions.clear();
}

/// A node that was let go and is not back yet, or whose Job runs: it is waited for.
fn is_changing(observed: &Observed, change: &ChangeView) -> bool {
    if !change.in_flight() {
        return false;
    }
    let Some(node) = observed.nodes.get(&change.spec.node_name) else {
        return false;
    };
    if node.uid != change.spec.node_uid {
        return false;
    }
    match OwnerKind::of(&change.spec.owner_ref).map(OwnerKind::means) {
        Some(Means::MachineConfig) => rolls(node),
        Some(Means::Job) => observed.plan_jobs.values().any(|job| {
            job.node == node.name
                && job.plan_uid == change.spec.owner_ref.uid
                && !job.paused
                && job.ended.is_none()
        }),
        // What is left of such a turn is to be finished: its node, or its machine, is on its way out.
        Some(Means::Machine) => journal::entered(change, Step::Released).is_some(),
        Some(Means::Person) => false,
        // Whatever such an owner does to its node, it may be doing now.
        None => true,
    }
}

/// Whether the MCO changes the node, or would as soon as it can.
fn rolls(node: &NodeView) -> bool {
    node.annotation(openshift::CURRENT_CONFIG) != node.annotation(openshift::DESIRED_CONFIG)
}

/// What is known of an owner that is gone: the node that its marks are on, and its name.
#[derive(Debug, Default)]
struct Gone {
    name: Option<Key>,
    nodes: BTreeSet<String>,
    group: Option<MaintenanceGroup>,
    means: BTreeSet<Means>,
}

/// Owners that marks name, by uid.
fn orphaned(observed: &Observed) -> BTreeMap<String, Gone> {
    let mut found: BTreeMap<String, Gone> = BTreeMap::new();
    for node in observed.nodes.values() {
        let cordon = mark::cordoned_by(node).map(|mark| mark.owner);
        let shield = mark::shielded(node).map(|mark| mark.owner);
        let labels = mark::labelled_by(node).map(|mark| mark.owner.to_owned());
        for uid in [cordon, shield, labels].into_iter().flatten() {
            let cordoned = mark::cordoned_by(node).is_some_and(|mark| mark.owner == uid);
            let labelled = mark::labelled_by(node).is_some_and(|mark| mark.owner == uid);
            let group = drained_for(node).filter(|_| cordoned && !labelled);
            let gone = found.entry(uid).or_default();
            gone.nodes.insert(node.name.clone());
            gone.group = gone.group.or(group);
        }
    }
    for pool in observed.pools.values() {
        let paused = mark::paused_by(pool).map(|mark| (mark.owner, Some(mark.name)));
        let selected = mark::prior_selector(pool).map(|mark| (mark.owner, None));
        for (uid, name) in [paused, selected].into_iter().flatten() {
            let gone = found.entry(uid).or_default();
            gone.means.insert(Means::MachineConfig);
            let key = name.and_then(|name| {
                let (namespace, name) = name.split_once('/')?;
                Some(Key::new(namespace, name))
            });
            gone.name = gone.name.take().or(key);
        }
    }
    // What nobody gives back needs nobody in the place of its owner.
    let believed = Believed::of(observed);
    let machines = observed.machines.iter().filter_map(|(place, machine)| {
        let owner = mark::shielded_by(&machine.object.annotations)?.owner;
        believed.is_machine(&owner, place, machine).then_some(owner)
    });
    let checks = observed.health_checks.iter();
    let checks = checks.filter(|(place, _)| believed.is_check(place));
    let checks = checks.filter_map(|(_, check)| Some(mark::shielded_by(&check.annotations)?.owner));
    for owner in machines.chain(checks) {
        found.entry(owner).or_default();
    }
    for mark in observed.maintenances.values().filter_map(mark::drains_for) {
        let gone = found.entry(mark.owner).or_default();
        gone.means.insert(Means::Machine);
    }
    for (node, lease) in &observed.leases {
        if let Some((kind, uid)) = lease::named_on(&lease.holder) {
            let gone = found.entry(uid.to_owned()).or_default();
            gone.nodes.insert(node.clone());
            gone.means.extend(means_of(kind));
        }
    }
    found
}

/// The group of a maintenance whose taint the node has.
pub(crate) fn drained_for(node: &NodeView) -> Option<MaintenanceGroup> {
    let mut groups = MaintenanceGroup::ALL.into_iter();
    groups.find(|group| node.taint(group.taint()).is_some())
}

/// An owner for marks whose own is gone. Which kind it was a mark of a node does not tell: a maintenance where the
/// node has its taint, else a run and a Plan, each of which gives back what it knows.
fn stand_in(observed: &mut Observed, uid: &str, gone: &Gone, now: Timestamp) {
    let placeholder = format!("{GONE}-{uid}");
    let uid = uid.to_owned();
    if let Some(group) = gone.group {
        stand_in_for_maintenances(observed, (&uid, &placeholder, group), gone, now);
        return;
    }
    let finalizers = vec![marks::FINALIZER.to_owned()];
    if gone.means.contains(&Means::Machine) {
        let view = NodeVersionView {
            name: placeholder.clone(),
            uid,
            generation: 1,
            created: now,
            deleting: true,
            finalizers,
            ..NodeVersionView::default()
        };
        observed.fleet.versions.insert(placeholder, view);
        return;
    }
    let key = Key::new(GONE, placeholder);
    let run = gone.name.clone().unwrap_or_else(|| key.clone());
    observed.runs.entry(run.clone()).or_insert_with(|| RunConfigView {
        key: run,
        uid: uid.clone(),
        generation: 1,
        created: now,
        deleting: true,
        finalizers: finalizers.clone(),
        ..RunConfigView::default()
    });
    if gone.means.contains(&Means::MachineConfig) {
        return;
    }
    observed.plans.entry(key.clone()).or_insert_with(|| PlanView {
        key,
        uid,
        generation: 1,
        created: now,
        deleting: true,
        finalizers,
        ..PlanView::default()
    });
}

/// Maintenances for marks whose own are gone: one for each node.
fn stand_in_for_maintenances(
    observed: &mut Observed,
    (uid, placeholder, group): (&str, &str, MaintenanceGroup),
    gone: &Gone,
    now: Timestamp,
) {
    for node in &gone.nodes {
        let owner = Owner::maintenance(group, placeholder);
        let view = MaintenanceView {
            owner: owner.clone(),
            pruned: None,
            has_annotations: false,
            uid: uid.to_owned(),
            generation: 1,
            created: now,
            deleting: true,
            finalizers: vec![marks::MAINTENANCE_FINALIZER.to_owned()],
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
            spec: NodeMaintenanceSpec {
                node_name: node.clone(),
                ..NodeMaintenanceSpec::default()
            },
            status: NodeMaintenanceStatus::default(),
        };
        observed.maintenances.insert(owner, view);
    }
}
