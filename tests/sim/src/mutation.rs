//! Faults that are put into decisions on purpose, from outside the core: into the view that it is given, or into the actions
//! and the report that it returns. Each breaks one invariant of the design (§6); the judge must catch it.

use crate::world::World;
use jiff::{SignedDuration, Timestamp};
use numo_api::{DirectiveAction, Reason, marks, mutex_run_config::OnRefusal};
use numo_core::{
    Decision, Owner,
    action::{Action, NodePurpose, Planned, PoolPurpose},
    drain::Eviction,
    observed::{Key, Observed},
    report::Why,
};

/// A broken decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// No rule is asked.
    AsksNoRule,
    /// A Pass never grows old.
    BelievesOldPasses,
    /// MutexBudgets do not count.
    IgnoresBudgets,
    /// Limits of owners do not count.
    IgnoresLimits,
    /// A rule's Job gets another name each time.
    AsksAgain,
    /// A Plan's Job is made once more while the first runs.
    UpgradesTwice,
    /// Cordons of numo's stay.
    ForgetsUncordon,
    /// Cordons of before go too.
    UncordonsEverything,
    /// The shield stays.
    ForgetsShield,
    /// Leases stay.
    ForgetsLease,
    /// Leaving a run unpauses its pools.
    ReleasesOnLeaving,
    /// An owner that is being deleted goes on.
    IgnoresDeletion,
    /// A Job that runs is deleted.
    KillsJobs,
    /// Something is written in each pass.
    WritesForNothing,
    /// One node is missing in the report.
    ForgetsNode,
    /// The control plane is like any other node.
    IgnoresQuorum,
    /// No lease is taken.
    TakesNoLease,
    /// The lease is given back before the disruption.
    GivesLeaseBackFirst,
    /// Pods are evicted from nodes that are open.
    EvictsAnywhere,
    /// Pods are deleted past their budgets.
    DeletesPods,
    /// Pods of DaemonSets are evicted.
    EvictsDaemons,
    /// Nobody's stop counts.
    IgnoresStops,
    /// Windows do not count.
    IgnoresWindows,
    /// Turns of other owners do not count.
    IgnoresOthers,
    /// Nodes that are not Ready are begun.
    TakesDeadNodes,
    /// Agents do not wait for their servers.
    IgnoresServers,
    /// A closed turn is kept.
    KeepsClosedTurns,
    /// Whoever waits says that it goes on.
    WaitsInSilence,
    /// Whoever waits is told to wait for nodes in flight.
    BlamesOthers,
    /// A drain counts as done at once.
    SkipsDrain,
    /// The clock of the machine counts, which is an hour ahead of that of the API server.
    ReadsItsOwnClock,
    /// Pools of a run that is refused roll.
    RollsWhenRefused,
    /// A rule's Job runs where Plans are.
    RunsRulesAmongPlans,
}

impl Mutation {
    /// Every one, with what the judge's verdict begins with.
    pub const ALL: [(Self, &'static [&'static str]); 33] = [
        (Self::AsksNoRule, &["invariant 1:"]),
        (Self::BelievesOldPasses, &["invariant 1:"]),
        (Self::IgnoresBudgets, &["invariant 2:"]),
        (Self::IgnoresLimits, &["invariant 2:"]),
        (Self::AsksAgain, &["invariant 3:"]),
        (Self::UpgradesTwice, &["invariant 3:"]),
        (Self::ForgetsUncordon, &["invariant 4:"]),
        (Self::UncordonsEverything, &["invariant 4:"]),
        (Self::ForgetsShield, &["invariant 4:"]),
        (Self::ForgetsLease, &["invariant 4:"]),
        (Self::ReleasesOnLeaving, &["invariant 5:"]),
        (Self::IgnoresDeletion, &["invariant 5:", "invariant 13:"]),
        (Self::KillsJobs, &["invariant 5:"]),
        (Self::WritesForNothing, &["no rest", "400 decisions"]),
        (Self::ForgetsNode, &["invariant 8:"]),
        (Self::IgnoresQuorum, &["invariant 10:"]),
        (Self::TakesNoLease, &["invariant 11:"]),
        (Self::GivesLeaseBackFirst, &["invariant 11:"]),
        (Self::EvictsAnywhere, &["invariant 1:", "invariant 12:"]),
        (Self::DeletesPods, &["invariant 12:"]),
        (Self::EvictsDaemons, &["invariant 12:"]),
        (Self::IgnoresStops, &["invariant 13:"]),
        (Self::IgnoresWindows, &["invariant 13:"]),
        (Self::IgnoresOthers, &["invariant alone:"]),
        (Self::TakesDeadNodes, &["invariant ready:"]),
        (Self::IgnoresServers, &["invariant order:"]),
        (Self::KeepsClosedTurns, &["invariant 15:"]),
        (Self::WaitsInSilence, &["nothing was written"]),
        (Self::BlamesOthers, &["nobody of"]),
        (Self::SkipsDrain, &["invariant 1:", "invariant kept:"]),
        // Invariant 9: a window is open by the API server's clock.
        (Self::ReadsItsOwnClock, &["invariant 13:"]),
        (Self::RollsWhenRefused, &["invariant 14:"]),
        (Self::RunsRulesAmongPlans, &["invariant 17:"]),
    ];

    /// The time that the core is given.
    pub fn now(self, now: Timestamp) -> Timestamp {
        let ahead = SignedDuration::from_hours(1);
        match self {
            Self::ReadsItsOwnClock => now.checked_add(ahead).unwrap_or(now),
            _ => now,
        }
    }

    /// What the core is given to see instead, if that is other than what was seen.
    pub fn view(self, owner: &Owner, seen: &Observed) -> Option<Observed> {
        let mut view = seen.clone();
        match self {
            Self::AsksNoRule => forget_rules(&mut view),
            Self::BelievesOldPasses => {
                for rule in view.rules.values_mut() {
                    rule.pass_seconds = 1_000_000;
                }
            }
            Self::IgnoresBudgets => view.budgets.clear(),
            Self::IgnoresLimits => lift_limits(&mut view),
            Self::IgnoresDeletion => {
                view.plans.values_mut().for_each(|plan| plan.deleting = false);
                view.maintenances
                    .values_mut()
                    .for_each(|one| one.deleting = false);
                view.runs.values_mut().for_each(|run| run.deleting = false);
            }
            Self::IgnoresQuorum => hide_control_plane(&mut view),
            Self::TakesNoLease => view.settings.leases_unavailable = Some("there are none".to_owned()),
            Self::IgnoresStops => lift_stops(&mut view),
            Self::RollsWhenRefused => {
                let runs = view.runs.values_mut();
                runs.for_each(|run| run.spec.on_refusal = Some(OnRefusal::Roll));
            }
            Self::IgnoresWindows => view.plans.values_mut().for_each(|plan| plan.window = None),
            Self::IgnoresOthers => {
                let uid = seen.uid_of(owner).unwrap_or_default();
                view.changes.retain(|_, change| change.spec.owner_ref.uid == uid);
            }
            Self::TakesDeadNodes => view.nodes.values_mut().for_each(|node| node.ready = true),
            Self::IgnoresServers => view.plans.values_mut().for_each(|plan| plan.spec.prepare = None),
            Self::SkipsDrain => view.pods.values_mut().for_each(std::collections::BTreeMap::clear),
            _ => return None,
        }
        Some(view)
    }

    /// What is done with a decision before it is carried out.
    pub fn edit(self, owner: &Owner, world: &World, seen: &Observed, decision: &mut Decision) {
        let actions = &mut decision.actions;
        match self {
            Self::AsksAgain => actions.iter_mut().for_each(|planned| {
                if let Action::CreateJob(request) = &mut planned.action {
                    request.job.name = format!("{}-{}", request.job.name, world.jobs_made.len());
                }
            }),
            Self::RunsRulesAmongPlans => actions.iter_mut().for_each(|planned| {
                if let Action::CreateJob(request) = &mut planned.action {
                    "system-upgrade".clone_into(&mut request.job.namespace);
                }
            }),
            Self::UpgradesTwice => twice(actions),
            Self::ForgetsUncordon => each_patch(actions, |purpose, unschedulable| {
                if purpose == NodePurpose::Uncordon {
                    *unschedulable = None;
                }
            }),
            Self::UncordonsEverything => each_patch(actions, |purpose, unschedulable| {
                if purpose == NodePurpose::Uncordon {
                    *unschedulable = Some(false);
                }
            }),
            Self::ForgetsShield => actions.retain(|planned| !is_unshield(&planned.action)),
            Self::ForgetsLease => {
                actions.retain(|planned| !matches!(planned.action, Action::ReleaseLease { .. }));
            }
            Self::ReleasesOnLeaving => actions.iter_mut().for_each(|planned| {
                if let Action::PatchPool(patch) = &mut planned.action
                    && patch.purpose == PoolPurpose::Hold
                {
                    patch.purpose = PoolPurpose::Unpause;
                    patch.paused = Some((true, false));
                }
            }),
            Self::KillsJobs => kill(owner, seen, actions),
            Self::WritesForNothing => write_again(owner, seen, actions),
            Self::ForgetsNode => {
                decision.report.nodes.pop_first();
            }
            Self::GivesLeaseBackFirst => give_back_first(world, actions),
            Self::EvictsAnywhere => evict(seen, actions, |open, daemon| open && !daemon),
            Self::EvictsDaemons => evict(seen, actions, |open, daemon| !open && daemon),
            Self::DeletesPods => actions.iter_mut().for_each(|planned| {
                if let Action::Evict { eviction, .. } = &mut planned.action {
                    eviction.delete = true;
                }
            }),
            Self::KeepsClosedTurns => actions.retain(|planned| {
                let Action::WriteJournal { status, .. } = &planned.action else {
                    return true;
                };
                status.closed_since.is_none()
            }),
            Self::WaitsInSilence => tell(decision, Reason::Progressing),
            Self::BlamesOthers => tell(decision, Reason::WaitingForTurn),
            _ => {}
        }
    }
}

fn forget_rules(view: &mut Observed) {
    view.runs
        .values_mut()
        .for_each(|run| run.spec.mutex_rules = Some(Vec::new()));
    let bindings = view.bindings.values_mut();
    bindings.for_each(|binding| binding.spec.settings.rules = None);
    let maintenances = view.maintenances.values_mut();
    maintenances.for_each(|one| one.spec.mutex_rules = None);
}

fn lift_limits(view: &mut Observed) {
    let many = || serde_json::from_value(serde_json::json!(100)).ok();
    for run in view.runs.values_mut() {
        run.spec.max_unavailable = many();
        run.spec.mutex_keys = Some(Vec::new());
    }
    for plan in view.plans.values_mut() {
        plan.spec.concurrency = Some(100);
        if let Some(mutex) = &mut plan.spec.mutex {
            mutex.max_unavailable = None;
        }
    }
    for binding in view.bindings.values_mut() {
        binding.spec.settings.max_unavailable = None;
    }
}

fn lift_stops(view: &mut Observed) {
    for run in view.runs.values_mut() {
        run.spec.suspend = None;
        run.annotations.remove(marks::SUSPEND);
    }
    for plan in view.plans.values_mut() {
        plan.annotations.remove(marks::SUSPEND);
    }
    for one in view.maintenances.values_mut() {
        one.annotations.remove(marks::SUSPEND);
    }
    view.budgets.values_mut().for_each(|budget| budget.paused = false);
    for change in view.changes.values_mut() {
        let hold = |one: &numo_api::Directive| one.action == DirectiveAction::Hold;
        if change.spec.directive.as_ref().is_some_and(hold) {
            change.spec.directive = None;
        }
    }
}

/// The only member of etcd is a node that nobody has.
fn hide_control_plane(view: &mut Observed) {
    let Some((_, node)) = view.nodes.first_key_value() else {
        return;
    };
    let mut member = node.clone();
    "elsewhere".clone_into(&mut member.name);
    "elsewhere".clone_into(&mut member.uid);
    member.labels.clear();
    member.etcd_voter = Some(true);
    view.nodes.insert(member.name.clone(), member);
}

fn twice(actions: &mut Vec<Planned>) {
    let jobs = actions.iter().filter_map(|planned| match &planned.action {
        Action::CreatePlanJob(request) => {
            let mut request = request.clone();
            request.job.name.push_str("-2");
            Some(Planned {
                chain: planned.chain.clone(),
                action: Action::CreatePlanJob(request),
                event: None,
            })
        }
        _ => None,
    });
    let more: Vec<Planned> = jobs.collect();
    actions.extend(more);
}

fn each_patch(actions: &mut [Planned], edit: impl Fn(NodePurpose, &mut Option<bool>)) {
    for planned in actions {
        if let Action::PatchNode(patch) = &mut planned.action {
            edit(patch.purpose, &mut patch.unschedulable);
        }
    }
}

fn is_unshield(action: &Action) -> bool {
    match action {
        Action::PatchNode(patch) => patch.purpose == NodePurpose::Unshield,
        Action::PatchMachine(patch) => patch.purpose.gives_back(),
        _ => false,
    }
}

fn kill(owner: &Owner, seen: &Observed, actions: &mut Vec<Planned>) {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let jobs = seen.plan_jobs.iter();
    let running =
        jobs.filter(|(_, job)| job.plan_uid == uid && job.ended.is_none() && !job.untouched && !job.deleting);
    actions.extend(running.map(|(key, job)| Planned {
        chain: format!("job {key}"),
        action: Action::DeletePlanJob {
            job: key.clone(),
            uid: job.uid.clone(),
        },
        event: None,
    }));
}

fn write_again(owner: &Owner, seen: &Observed, actions: &mut Vec<Planned>) {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let change = seen
        .changes
        .values()
        .find(|change| change.spec.owner_ref.uid == uid);
    actions.extend(change.map(|change| Planned {
        chain: "again".to_owned(),
        action: Action::WriteJournal {
            key: change.key.clone(),
            uid: change.uid.clone(),
            resource_version: change.resource_version.clone(),
            status: Box::new(change.status.clone()),
        },
        event: None,
    }));
}

fn give_back_first(world: &World, actions: &mut Vec<Planned>) {
    let mut mutated = Vec::new();
    for planned in actions.drain(..) {
        let node = match &planned.action {
            Action::CreatePlanJob(request) => Some(&request.node),
            Action::PatchNode(patch)
                if matches!(patch.purpose, NodePurpose::Cordon | NodePurpose::Release) =>
            {
                Some(&patch.node)
            }
            _ => None,
        };
        let lease = node.and_then(|node| Some((node, world.truth.leases.get(node)?)));
        mutated.extend(lease.map(|(node, lease)| Planned {
            chain: planned.chain.clone(),
            action: Action::ReleaseLease {
                node: node.clone(),
                uid: lease.uid.clone(),
            },
            event: None,
        }));
        mutated.push(planned);
    }
    *actions = mutated;
}

/// Evicts one pod of a node for which `of` holds: whether the node is open, and whether the pod is of a DaemonSet.
fn evict(seen: &Observed, actions: &mut Vec<Planned>, of: impl Fn(bool, bool) -> bool) {
    let pods = seen.pods.iter().flat_map(|(node, pods)| {
        let open = seen.nodes.get(node).is_some_and(|node| !node.unschedulable);
        pods.values().map(move |pod| (node, open, pod))
    });
    let is_daemon = |pod: &numo_core::observed::PodView| {
        let kind = pod.controller.as_ref().map(|(kind, ..)| kind.as_str());
        kind == Some("DaemonSet")
    };
    // Only a node that is being drained is meant, where pods of closed nodes are.
    let drained = |node: &str| {
        let mut changes = seen.changes.values();
        changes.any(|change| change.spec.node_name == node && change.in_flight())
    };
    let mut found =
        pods.filter(|(node, open, pod)| of(*open, is_daemon(pod)) && pod.deleting.is_none() && drained(node));
    actions.extend(found.next().map(|(node, _, pod)| Planned {
        chain: format!("evict {}", pod.uid),
        action: Action::Evict {
            node: node.clone(),
            eviction: Eviction {
                pod: Key::clone(&pod.key),
                uid: pod.uid.clone(),
                grace_period_seconds: None,
                delete: false,
                returned: None,
            },
        },
        event: None,
    }));
}

/// Everybody who waits is told the same.
fn tell(decision: &mut Decision, reason: Reason) {
    decision.report.hold = None;
    for node in decision.report.nodes.values_mut() {
        if !node.step.is_terminal() {
            node.why = Why::new(reason, "it goes on");
        }
    }
}
