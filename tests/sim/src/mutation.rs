//! Faults that are put into decisions on purpose, from outside the core: into the view that it is given, or into the actions
//! and the report that it returns. Each breaks one invariant of the design (§6); the judge must catch it.
//!
//! Two parts of it are decided outside the core, and have none here: what a rule may read (7, grants: `tests/plugin`), and that the pod of a
//! rule which is evicted has not failed (12: the Job says so, `operator/numo/src/runners/job.rs`, and the Job controller does the rest).

mod deeds;
mod machines;

use crate::world::World;
use deeds::{
    each_approval, each_hours, each_patch, each_setting, each_wave, evict, forge, forget_hours,
    forget_hours_of_runs, forget_phase, forget_rules, forget_unknown_zones, forget_words, give_back_first,
    hide_control_plane, is_of, is_unshield, keep_all_when_stopped, kill, lift_limits, lift_stops,
    put_finalizers, select_nobody, take_new_for_old, tell, tell_of_others, twice, untested, write_again,
};
use jiff::{SignedDuration, Timestamp};
use numo_api::{
    ApprovalSettings, DirectiveAction, Domains, Order, Phase, Reason, marks, mutex_run_config::OnRefusal,
};
use numo_core::{
    Decision, Owner,
    action::{Action, NodePurpose, Planned, PoolPurpose},
    observed::Observed,
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
    /// Any number of groups of a MutexBudget may be away.
    IgnoresGroups,
    /// Limits of owners do not count.
    IgnoresLimits,
    /// A rule's Job gets another name each time.
    AsksAgain,
    /// A Plan's Job is made once more while the first runs.
    UpgradesTwice,
    /// No Job of a Plan is gone by its TTL, however long numo was away.
    ForgetsAbsence,
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
    /// A node that came again under its name goes on in the turn of the one before it.
    TakesNewForOld,
    /// The same input gives one decision now and another one then.
    DecidesByChance,
    /// Writes test nothing of what they were decided on.
    WritesBlindly,
    /// numo's own pod goes like any other.
    EvictsItselfFirst,
    /// Pods of rules that are under way are evicted.
    EvictsRules,
    /// Pods of upgrades that are under way are evicted.
    EvictsUpgrades,
    /// Pods of rules are not kept off nodes in flight.
    RunsRulesOnNodesInFlight,
    /// No node goes first.
    IgnoresFirst,
    /// Waves do not count.
    IgnoresWaves,
    /// A wave begins as soon as the last is done.
    SkipsSoakOfWaves,
    /// Waves have no limits of their own.
    IgnoresLimitsOfWaves,
    /// Waves have no rules of their own.
    IgnoresRulesOfWaves,
    /// Targets of runs have no limits of their own.
    IgnoresLimitsOfTargets,
    /// No domain waits for another.
    IgnoresDomains,
    /// Domains have their turns in the order of their names, whatever was asked for.
    TurnsDomainsRound,
    /// Nodes with the same value of a mutex key go together.
    IgnoresKeys,
    /// Failures do not count.
    IgnoresFailures,
    /// Nodes are begun in another order than was asked for.
    TurnsOrderRound,
    /// Nobody keeps a turn to see whether the node stays well.
    SkipsSoak,
    /// Nodes that somebody is about to take away are begun.
    TakesLeavingNodes,
    /// Rules of phase BeforeUncordon are not asked.
    UncordonsUnasked,
    /// Hours of MutexRunConfigs do not count.
    IgnoresHoursOfRuns,
    /// Hours of Plans do not count, in `spec.mutex` and in MutexBindings.
    IgnoresHoursOfPlans,
    /// Hours of NodeMaintenances do not count.
    IgnoresHoursOfMaintenances,
    /// MutexWindows do not count.
    IgnoresMutexWindows,
    /// Of several MutexWindows of a node only the first counts.
    SeesOneWindow,
    /// Freezes do not count.
    IgnoresFreezes,
    /// Hours of a time zone that the database does not have count as open.
    TakesUnknownZonesForOpen,
    /// Nodes are begun in the last second of an opening, whatever must be left.
    IgnoresEndsOfHours,
    /// Rules of phase Admit are not asked.
    BeginsUnasked,
    /// A rule is told what others have said.
    TellsOfOthers,
    /// Nobody is asked for an approval.
    IgnoresApprovals,
    /// Approvals never run out.
    IgnoresEndsOfApprovals,
    /// An approval of another wave counts, or of something else of the owner.
    TakesOtherApprovals,
    /// An approval of what was there before counts.
    TakesOldApprovals,
    /// A new node takes the place of an old one before it is Ready.
    TakesHeirsAtOnce,
    /// A new node gets no labels of the old one.
    ForgetsLabels,
    /// Any number of machines is made.
    IgnoresSurge,
    /// Machines that do not join are forgotten.
    ForgetsMachines,
    /// The machine of an old node is deleted before the node is let go.
    DeletesMachinesFirst,
    /// A Node is deleted before its machine.
    DeletesNodesFirst,
    /// Machines are made while the autoscaler runs.
    IgnoresAutoscaler,
    /// Workers are replaced before the control plane.
    ReplacesWorkersFirst,
    /// Members of etcd are taken out of nodes that were not let go.
    TakesMembersOut,
    /// Remediation is kept off no Machine.
    ShieldsNoMachine,
    /// A pool gets a node selector that selects none of its nodes.
    IgnoresHomes,
    /// Nodes of a Plan go to a version that nobody asks for.
    GoesElsewhere,
    /// A journal has no bounds.
    GrowsJournals,
    /// Nodes begin although nothing keeps their owner from going.
    BeginsWithoutFinalizer,
    /// Finalizers stay.
    KeepsFinalizers,
    /// A status that was copied counts as one's own.
    BelievesCopies,
    /// A machine is gone of which the provider refuses to say how it stands, or does not know.
    BelievesDoubtedProviders,
    /// Hours of NodeVersions do not count.
    IgnoresHoursOfVersions,
    /// Nothing is restored while the owner is stopped.
    RestoresNothingWhenStopped,
    /// A rule that fails is asked again without end.
    RetriesForEver,
    /// Nodes that are away are waited for, however long that takes.
    WaitsForDeadNodes,
    /// Nobody's Skip counts.
    IgnoresSkips,
    /// Nobody's Retry counts.
    IgnoresRetries,
    /// Nobody's Abort counts.
    IgnoresAborts,
}

impl Mutation {
    /// Every one, with what the judge's verdict begins with.
    pub const ALL: [(Self, &'static [&'static str]); 94] = [
        (Self::AsksNoRule, &["invariant 1:"]),
        (Self::BelievesOldPasses, &["invariant 1:"]),
        (Self::IgnoresBudgets, &["invariant 2:"]),
        (Self::IgnoresGroups, &["invariant 2:"]),
        (Self::IgnoresLimits, &["invariant 2:"]),
        (Self::AsksAgain, &["invariant 3:"]),
        (Self::UpgradesTwice, &["invariant 3:"]),
        (Self::ForgetsAbsence, &["invariant 3:"]),
        (Self::TakesNewForOld, &["invariant 3:"]),
        (Self::ForgetsUncordon, &["invariant 4:"]),
        (Self::UncordonsEverything, &["invariant 4:"]),
        (Self::ForgetsShield, &["invariant 4:"]),
        (Self::ForgetsLease, &["invariant 4:"]),
        (Self::ReleasesOnLeaving, &["invariant 5:"]),
        (Self::IgnoresDeletion, &["invariant 5:", "invariant 13:"]),
        (Self::KillsJobs, &["invariant 5:"]),
        (Self::WritesForNothing, &["invariant 6:"]),
        (Self::DecidesByChance, &["invariant 6:"]),
        (Self::ForgetsNode, &["invariant 8:"]),
        (Self::WritesBlindly, &["invariant 9:"]),
        (Self::IgnoresQuorum, &["invariant 10:"]),
        (Self::TakesNoLease, &["invariant 11:"]),
        (Self::GivesLeaseBackFirst, &["invariant 11:"]),
        (Self::EvictsAnywhere, &["invariant 1:", "invariant 12:"]),
        (Self::DeletesPods, &["invariant 12:"]),
        (Self::EvictsDaemons, &["invariant 12:"]),
        (Self::EvictsItselfFirst, &["invariant 12:"]),
        (Self::EvictsRules, &["invariant 12:"]),
        (Self::EvictsUpgrades, &["invariant 12:"]),
        (Self::RunsRulesOnNodesInFlight, &["invariant 12:"]),
        (Self::IgnoresStops, &["invariant 13:"]),
        (Self::IgnoresWindows, &["invariant 13:"]),
        (Self::IgnoresOthers, &["invariant alone:"]),
        (Self::TakesDeadNodes, &["invariant ready:"]),
        (Self::IgnoresServers, &["invariant order:"]),
        (Self::KeepsClosedTurns, &["invariant 15:"]),
        (Self::WaitsInSilence, &["nothing was written"]),
        (Self::BlamesOthers, &["nobody of"]),
        (Self::SkipsDrain, &["invariant 1:", "invariant kept:"]),
        (Self::ReadsItsOwnClock, &["invariant 11:"]),
        (Self::IgnoresFirst, &["invariant first:"]),
        (Self::IgnoresWaves, &["invariant wave:"]),
        (Self::SkipsSoakOfWaves, &["invariant wave:"]),
        (Self::IgnoresLimitsOfWaves, &["invariant wave:"]),
        (Self::IgnoresRulesOfWaves, &["invariant 1:"]),
        (Self::IgnoresLimitsOfTargets, &["invariant 2:"]),
        (Self::IgnoresDomains, &["invariant domains:"]),
        (Self::TurnsDomainsRound, &["invariant domains:"]),
        (Self::IgnoresKeys, &["invariant 2:"]),
        (Self::IgnoresFailures, &["invariant failures:"]),
        (Self::TurnsOrderRound, &["invariant order:"]),
        (Self::SkipsSoak, &["invariant soak:"]),
        (Self::TakesLeavingNodes, &["invariant leaving:"]),
        (Self::UncordonsUnasked, &["invariant 1:"]),
        (Self::RollsWhenRefused, &["invariant 14:"]),
        (Self::RunsRulesAmongPlans, &["invariant 17:"]),
        (Self::IgnoresHoursOfRuns, &["invariant 13:"]),
        (Self::IgnoresHoursOfPlans, &["invariant 13:"]),
        (Self::IgnoresHoursOfMaintenances, &["invariant 13:"]),
        (Self::IgnoresMutexWindows, &["invariant 13:"]),
        (Self::SeesOneWindow, &["invariant 13:"]),
        (Self::IgnoresFreezes, &["invariant 13:"]),
        (Self::TakesUnknownZonesForOpen, &["invariant 13:"]),
        (Self::IgnoresEndsOfHours, &["invariant 13:"]),
        (Self::BeginsUnasked, &["invariant 1:"]),
        (Self::TellsOfOthers, &["invariant 7:"]),
        (Self::IgnoresApprovals, &["invariant approval:"]),
        (Self::IgnoresEndsOfApprovals, &["invariant approval:"]),
        (Self::TakesOtherApprovals, &["invariant approval:"]),
        (Self::TakesOldApprovals, &["invariant approval:"]),
        (Self::TakesHeirsAtOnce, &["invariant heir:"]),
        (Self::ForgetsLabels, &["invariant heir:"]),
        (Self::IgnoresSurge, &["invariant 2:"]),
        (Self::ForgetsMachines, &["invariant leak:"]),
        (Self::DeletesMachinesFirst, &["invariant machine:"]),
        (Self::DeletesNodesFirst, &["invariant machine:"]),
        (Self::IgnoresAutoscaler, &["invariant rests:"]),
        (Self::ReplacesWorkersFirst, &["invariant order:"]),
        (Self::TakesMembersOut, &["invariant 10:"]),
        (Self::ShieldsNoMachine, &["invariant shield:"]),
        (Self::IgnoresHomes, &["invariant canary:"]),
        (Self::GoesElsewhere, &["invariant target:"]),
        (Self::GrowsJournals, &["invariant bounds:"]),
        (Self::BeginsWithoutFinalizer, &["invariant 5:"]),
        (Self::KeepsFinalizers, &["invariant 4:"]),
        (Self::BelievesCopies, &["invariant copied:"]),
        (Self::BelievesDoubtedProviders, &["invariant machine:"]),
        (Self::IgnoresHoursOfVersions, &["invariant 13:"]),
        (Self::RestoresNothingWhenStopped, &["invariant 13:"]),
        (Self::RetriesForEver, &["invariant retries:"]),
        (Self::WaitsForDeadNodes, &["invariant left:"]),
        (Self::IgnoresSkips, &["invariant said:"]),
        (Self::IgnoresRetries, &["invariant said:"]),
        (Self::IgnoresAborts, &["invariant said:"]),
    ];

    /// Whether it breaks what is decided about machines: only a NodeVersion has any.
    pub const fn is_of_machines(self) -> bool {
        matches!(
            self,
            Self::TakesHeirsAtOnce
                | Self::ForgetsLabels
                | Self::IgnoresSurge
                | Self::ForgetsMachines
                | Self::DeletesMachinesFirst
                | Self::DeletesNodesFirst
                | Self::IgnoresAutoscaler
                | Self::ReplacesWorkersFirst
                | Self::TakesMembersOut
                | Self::BelievesDoubtedProviders
                | Self::IgnoresHoursOfVersions
        )
    }

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
            Self::ForgetsAbsence => view.settings.plan_jobs.ttl_seconds_after_finished = 10_000_000,
            Self::IgnoresBudgets => view.budgets.clear(),
            Self::IgnoresGroups => view
                .budgets
                .values_mut()
                .for_each(|budget| budget.max_groups = None),
            Self::IgnoresLimits => lift_limits(&mut view),
            Self::IgnoresDeletion => {
                view.plans.values_mut().for_each(|plan| plan.deleting = false);
                view.maintenances
                    .values_mut()
                    .for_each(|one| one.deleting = false);
                view.runs.values_mut().for_each(|run| run.deleting = false);
                let versions = view.fleet.versions.values_mut();
                versions.for_each(|one| one.deleting = false);
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
            Self::TakesNewForOld => take_new_for_old(&mut view),
            Self::EvictsItselfFirst => view.settings.own_pod = None,
            Self::IgnoresFirst => each_setting!(view, first, |_| None),
            Self::IgnoresWaves => each_setting!(view, waves, |_| None),
            Self::SkipsSoakOfWaves => each_wave(&mut view, |wave| wave.soak_seconds = None),
            Self::IgnoresLimitsOfWaves => each_wave(&mut view, |wave| wave.max_unavailable = None),
            Self::IgnoresRulesOfWaves => each_wave(&mut view, |wave| wave.rules = None),
            Self::IgnoresLimitsOfTargets => {
                let runs = view.runs.values_mut();
                let targets = runs.flat_map(|run| run.spec.mutex_targets.iter_mut().flatten());
                targets.for_each(|target| target.max_unavailable = None);
            }
            Self::IgnoresDomains => each_setting!(view, domains, |_| None),
            Self::TurnsDomainsRound => {
                let sorted = |given: Domains| Domains { order: None, ..given };
                each_setting!(view, domains, |domains: Option<Domains>| domains.map(sorted));
            }
            Self::IgnoresKeys => each_setting!(view, mutex_keys, |_| None),
            Self::IgnoresFailures => {
                each_setting!(view, failure_budget, |_| serde_json::from_value(100.into()).ok());
            }
            Self::TurnsOrderRound => each_setting!(view, order, |order| match order {
                Some(Order::Oldest) => Some(Order::Newest),
                _ => Some(Order::Oldest),
            }),
            Self::SkipsSoak => each_setting!(view, soak_seconds, |_| None),
            Self::TakesLeavingNodes => view.nodes.values_mut().for_each(|node| node.leaving = None),
            Self::UncordonsUnasked => forget_phase(&mut view, Phase::BeforeUncordon),
            Self::BeginsUnasked => forget_phase(&mut view, Phase::Admit),
            Self::IgnoresHoursOfRuns => forget_hours_of_runs(&mut view),
            Self::IgnoresHoursOfPlans => forget_hours(&mut view, "Plan"),
            Self::IgnoresHoursOfMaintenances => forget_hours(&mut view, "NodeMaintenance"),
            Self::IgnoresHoursOfVersions => forget_hours(&mut view, "NodeVersion"),
            Self::RetriesForEver => view.rules.values_mut().for_each(|rule| rule.retries = 1000),
            Self::WaitsForDeadNodes => each_setting!(view, not_ready_policy, |_| None),
            Self::IgnoresSkips => forget_words(&mut view, DirectiveAction::Skip),
            Self::IgnoresRetries => forget_words(&mut view, DirectiveAction::Retry),
            Self::IgnoresAborts => forget_words(&mut view, DirectiveAction::Abort),
            Self::IgnoresMutexWindows => view.windows.clear(),
            Self::SeesOneWindow => {
                view.windows.pop_last();
            }
            Self::IgnoresFreezes => each_hours(&mut view, |hours| hours.freezes = None),
            Self::TakesUnknownZonesForOpen => forget_unknown_zones(&mut view),
            Self::IgnoresEndsOfHours => each_hours(&mut view, |hours| hours.min_remaining_seconds = Some(0)),
            Self::IgnoresApprovals => {
                each_approval(&mut view, |approval| *approval = ApprovalSettings::default());
                each_wave(&mut view, |wave| wave.approval = None);
            }
            Self::IgnoresEndsOfApprovals => each_approval(&mut view, |approval| approval.ttl_seconds = None),
            Self::TakesHeirsAtOnce | Self::ForgetsLabels | Self::ReplacesWorkersFirst => {
                machines::change_nodes(self, owner, &mut view);
            }
            Self::IgnoresSurge => {
                let versions = view.fleet.versions.values_mut();
                versions.for_each(|one| one.spec.surge = serde_json::from_value(100.into()).ok());
            }
            Self::IgnoresAutoscaler => machines::hide_autoscaler(&mut view),
            Self::BelievesDoubtedProviders => machines::take_unknown_for_gone(&mut view),
            Self::ShieldsNoMachine => view.machines.clear(),
            Self::BeginsWithoutFinalizer => put_finalizers(&mut view),
            Self::BelievesCopies => view.changes.values_mut().for_each(|change| {
                change.status.node_change_uid = Some(change.uid.clone());
            }),
            Self::SkipsDrain => view.pods.values_mut().for_each(std::collections::BTreeMap::clear),
            _ => return None,
        }
        Some(view)
    }

    /// What the core is given to see instead, once it has said what waits for a MutexApproval.
    pub fn forged(self, owner: &Owner, seen: &Observed, decision: &Decision) -> Option<Observed> {
        let waits = decision.report.approval.as_ref()?;
        match self {
            Self::TakesOtherApprovals => forge(owner, seen, waits, false),
            Self::TakesOldApprovals => forge(owner, seen, waits, true),
            _ => None,
        }
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
            Self::KeepsFinalizers => {
                actions.retain(|planned| !matches!(planned.action, Action::RemoveFinalizer { .. }));
            }
            Self::KillsJobs => kill(owner, seen, actions),
            Self::WritesForNothing => write_again(owner, seen, actions),
            Self::ForgetsNode => {
                decision.report.nodes.pop_first();
            }
            Self::GivesLeaseBackFirst => give_back_first(world, actions),
            Self::EvictsAnywhere => evict((owner, seen), actions, |node, pod| {
                !node.unschedulable && !is_of(pod, "DaemonSet")
            }),
            Self::EvictsDaemons => evict((owner, seen), actions, |node, pod| {
                node.unschedulable && is_of(pod, "DaemonSet")
            }),
            Self::EvictsRules => evict((owner, seen), actions, |node, pod| {
                node.unschedulable && !pod.labels.contains_key(marks::PLAN_CONTROLLER) && is_of(pod, "Job")
            }),
            Self::EvictsUpgrades => evict((owner, seen), actions, |node, pod| {
                node.unschedulable && pod.labels.contains_key(marks::PLAN_CONTROLLER)
            }),
            Self::RunsRulesOnNodesInFlight => actions.iter_mut().for_each(|planned| {
                if let Action::CreateJob(request) = &mut planned.action {
                    request.avoid.clear();
                }
            }),
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
            Self::RestoresNothingWhenStopped => keep_all_when_stopped(owner, seen, actions),
            Self::TellsOfOthers => tell_of_others(world, decision),
            Self::ForgetsMachines => machines::forget(seen, actions),
            Self::DeletesMachinesFirst => machines::delete_first(owner, seen, actions),
            Self::DeletesNodesFirst => machines::delete_nodes(seen, actions),
            Self::TakesMembersOut => machines::take_members_out(owner, seen, actions),
            Self::IgnoresHomes => select_nobody(actions),
            Self::GoesElsewhere => actions.iter_mut().for_each(|planned| {
                if let Action::CreatePlanJob(request) = &mut planned.action {
                    request.version.push_str("-other");
                }
            }),
            Self::GrowsJournals => actions.iter_mut().for_each(|planned| {
                if let Action::WriteJournal { status, .. } = &mut planned.action
                    && let Some(last) = status.entries.last().cloned()
                {
                    status.entries.resize(65, last);
                }
            }),
            Self::WaitsInSilence => tell(decision, Reason::Progressing),
            Self::BlamesOthers => tell(decision, Reason::WaitingForTurn),
            _ => {}
        }
    }

    /// What is done with a decision that is made for the `times`-th time.
    pub fn by_chance(self, times: usize, decision: &mut Decision) {
        if self == Self::DecidesByChance && !times.is_multiple_of(2) {
            decision.actions.pop();
        }
    }

    /// What is sent of a write that a replaced leader had decided on.
    pub fn late(self, world: &World, planned: &Planned) -> Option<Planned> {
        (self == Self::WritesBlindly).then(|| untested(world, planned))
    }
}
