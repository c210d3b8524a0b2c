//! The decision for a MutexRunConfig, from its nodes in flight to what it gives back.

use super::{
    admit, finalizer,
    journals::is_later,
    labels, machine,
    member::Member,
    orphans, pause, pool, quarantine,
    run_decision::RunDecision,
    run_rules::{no_longer_passed, run_rules_hold},
    run_view::RunView,
    turn, ungated,
    waves::{self, Order},
};
use crate::{
    decision::Decision,
    ledger,
    observed::{ChangeView, ForeignController},
    owner::OwnerKind,
    owners::mutex_run_config::gates::{self, watched::not_watched},
    pass::Pass,
    report::{LastWord, NodeReport, PoolReport, RunPhase},
    rules::inline,
    targets::loses_pools,
    turn::{
        directive::retry_asked,
        journal,
        steps::{Next, ON, STAY},
    },
    verdict::Answers,
    why::Why,
};
use numo_api::{
    Phase, Reason, RunResult, Step, conditions::Actor, marks::openshift, mutex_run_config::Settled,
};
use std::collections::BTreeSet;

/// One pass over a MutexRunConfig.
pub(crate) struct Run<'m> {
    decision: RunDecision<'m>,
    /// Why the run is being left, if it is.
    leaving: Option<Why>,
    /// Why it is refused, if so.
    refusal: Option<Why>,
    /// Why nothing begins, if so.
    hold: Option<Why>,
    /// Nothing is to be written.
    dry: bool,
    order: Order<'m>,
}

impl<'m> Run<'m> {
    /// What is known of the run at the beginning of the pass.
    pub(crate) fn of(view: &'m RunView<'m>, answers: &'m Answers) -> Self {
        let leaving = view.leaving();
        let refusal = gates::run::refusal(view);
        let order = waves::order(view);
        Self {
            hold: gates::run::hold(view, leaving.as_ref(), refusal.as_ref(), &order.0),
            dry: view.intent.dry_run && leaving.is_none() && !view.has_begun(),
            decision: RunDecision::new(view, answers, order.0.rules()),
            leaving,
            refusal,
            order,
        }
    }

    /// Why numo leaves the run alone. Whatever it took while it was allowed to goes back; what is under way is finished.
    fn left_alone(&self) -> Option<Why> {
        let view = self.decision.view;
        if let Some(why) = never_listed(view) {
            return Some(why);
        }
        let has_finalizer = crate::finalizer::is_on(view.owner, view.run.into());
        if view.holds_anything() {
            return None;
        }
        let not_watched = not_watched(view.run, &view.observed.settings);
        let rival = || view.observed.stood_off(ForeignController::MutexRunConfig);
        not_watched
            .filter(|_| !(view.run.deleting && has_finalizer))
            .or_else(|| rival().filter(|_| !has_finalizer))
    }
}

impl Pass for Run<'_> {
    fn refuse(&mut self) -> Next {
        describe(&mut self.decision);
        last_words(&mut self.decision);
        let Some(why) = self.left_alone() else { return ON };
        let report = &mut self.decision.out.report;
        (report.phase, report.hold) = (RunPhase::Refused, Some(why));
        STAY
    }

    fn advance_turns(&mut self) {
        let (decision, hold) = (&mut self.decision, self.hold.clone());
        let hold = hold.or_else(|| no_longer_passed(decision.view, decision.answers));
        let members = &decision.view.members;
        let pass = turn::Pass {
            order: &self.order,
            hold: hold.as_ref(),
            leaving: self.leaving.as_ref(),
            out_of_turn: admit::out_of_turn(decision.view, members, hold.as_ref(), &mut decision.out.report),
        };
        turn::advance_all(decision, &pass);
        orphans::end_turns(decision);
    }

    fn restore_rest(&mut self) {
        let decision = &mut self.decision;
        for member in &decision.view.members {
            if member.in_flight().is_none() {
                orphans::restore(decision, member);
            }
        }
        orphans::settle(decision);
        machine::unshield(decision);
    }

    fn go_on(&mut self) {
        let decision = &mut self.decision;
        orphans::free_jobs(decision, decision.view.run.deleting);
        self.order.0.say_over(&mut decision.out, decision.view.now);
        let over = self.leaving.is_some() || is_over(decision.view);
        quarantine::tend(decision, decision.view.is_active() && !over);
        if over {
            leave(decision, self.leaving.as_ref());
        } else {
            let order = std::mem::take(&mut self.order);
            drive(decision, order, self.hold.take(), self.refusal.as_ref());
        }
    }

    fn tidy(&mut self) {
        let decision = &mut self.decision;
        machine::resume_health_checks(decision);
        finalizer::keep_finalizer(decision);
        let locks = decision.view.observed.reboot_locks.values().flatten();
        let ends = locks.filter_map(|lock| lock.until);
        if let Some(first) = ends.filter(|until| *until > decision.view.now).min() {
            decision.wake(first);
        }
        decision.forget();
        if self.dry {
            write_nothing(decision);
        }
    }

    fn finish(self) -> Decision {
        self.decision.finish()
    }
}

/// Takes back every write and question of a dry run.
fn write_nothing(decision: &mut RunDecision<'_>) {
    let dry_words = what_a_dry_run_leaves(decision.view);
    let out = &mut decision.out;
    out.actions.clear();
    out.questions.clear();
    out.report.upgrade_held = None;
    // What numo would end by itself it does not end in a dry run.
    let hold = &mut out.report.hold;
    if hold.as_ref().is_none_or(|why| why.reason.who() == Actor::Numo) {
        *hold = Some(Why::new(Reason::DryRun, dry_words));
    }
}

/// The parts of the report that are there whatever is decided.
fn describe(decision: &mut RunDecision<'_>) {
    let view = decision.view;
    let report = &mut decision.out.report;
    report.run_id.clone_from(&view.run_id);
    report.target = view.desired.as_ref().ok().cloned();
    report.unchecked = view.desired.as_ref().err().cloned();
    report.strategy = Some(view.intent.strategy);
    report.problems.clone_from(&view.intent.problems);
    report.inline_rules = inline::statuses(view.intent.rules.iter().filter_map(|(_, rule)| *rule));
    report.label_disagrees = label_disagrees(view);
    report.upgrade_available = view.behind();
    report.upgrade_ready = report.upgrade_available && gates::run::control_plane(view).is_none();
    report.run_verdicts = view.run_verdicts.to_vec();
    report.run_waits = view.run_waits.to_vec();
    report.pools = view
        .intent
        .pools
        .iter()
        .map(|pool| {
            let members = || view.members.iter().filter(|member| member.pool.name == pool.name);
            PoolReport {
                name: pool.name.clone(),
                config: pool.config.clone(),
                paused: pool.paused,
                ours: view.marked_pools().any(|(marked, _)| marked.name == pool.name),
                outdated: members().filter(|member| member.outdated()).count(),
                nodes: members().count(),
            }
        })
        .collect();
    report.ungated = ungated::nodes(view);
    report.settles = settles(view);
    for (node, pools) in &view.in_two_pools {
        let pools = pools.join(", ");
        let message = format!("Node {} matches the custom pools {pools}, wanted one", node.name);
        report.nodes.insert(
            node.name.clone(),
            NodeReport {
                pool: pools.into(),
                step: Step::Selected,
                why: Why::new(Reason::NodeInTwoPools, message),
                since: None,
                change: None,
            },
        );
    }
}

/// The version that every node runs, and the pools, if that is to be remembered anew.
fn settles(view: &RunView<'_>) -> Option<Settled> {
    let version = view.desired.as_ref().ok()?;
    // Without its targets nobody knows who its nodes are.
    let whole = view.intent.problems.iter().all(|why| !loses_pools(why.reason));
    let mut members = view.members.iter();
    let all = members
        .all(|member| member.in_flight().is_none() && member.version == Some(version) && member.done)
        // Between two nodes of a run of configurations not every node is there.
        && (!view.intent.any_config || view.members.iter().all(Member::at_pool_config));
    if view.members.is_empty() || !whole || !all {
        return None;
    }
    let pools: Vec<String> = view.intent.pools.iter().map(|pool| pool.name.clone()).collect();
    let configs: BTreeSet<&str> = view.members.iter().map(|member| member.current).collect();
    let configs: Vec<String> = configs.into_iter().take(64).map(ToOwned::to_owned).collect();
    let known = view.run.status.settled.as_ref().filter(|settled| {
        let at = journal::time(Some(&settled.at));
        // Nodes that came since are to be told from those that come later.
        let all_told = |at| view.members.iter().all(|member| member.node.created < at);
        let same = settled.version == *version && settled.pools == pools && settled.configs == configs;
        same && at.is_some_and(all_told)
    });
    known.is_none().then(|| Settled {
        version: version.clone(),
        at: String::new(),
        pools,
        configs,
    })
}

/// The first node whose version label is not its configuration's version. The label of a node that changed
/// in this run comes later, and is nobody's fault.
fn label_disagrees(view: &RunView<'_>) -> Option<String> {
    let mut nodes = view.members.iter().filter(|member| member.change.is_none());
    nodes.find_map(|member| {
        let (label, version) = (member.labelled?, member.version?);
        (label != version).then(|| {
            format!(
                "Node {} label {}: found {label}, its configuration {} is of {version}, which counts",
                member.node.name,
                openshift::RELEASE_VERSION,
                member.current
            )
        })
    })
}

/// When a journal said something last, and whether it was good news.
type Last<'a> = Option<(&'a str, &'a ChangeView, bool)>;

/// What the replaced operator's conditions JobRun and NodeUpgrade speak of: the node whose rules, and the
/// node whose change, came last. Read from the journals, so that a restart says the same.
fn last_words(decision: &mut RunDecision<'_>) {
    let view = decision.view;
    let (mut rules, mut change): (Last<'_>, Last<'_>) = (None, None);
    let (mut gated, mut changed) = (0, 0);
    for journal in view
        .changes()
        .filter(|journal| journal.spec.target.run_id == view.run_id)
    {
        let (mut was_gated, mut was_changed) = (false, false);
        for entry in &journal.status.entries {
            let (slot, good) = match (entry.step, entry.reason.as_deref()) {
                (Step::PreRelease | Step::Released, _) => (&mut rules, true),
                (Step::Held | Step::Failed | Step::Skipped, Some("RuleFailed" | "SkippedByPolicy")) => {
                    (&mut rules, false)
                }
                (Step::PostRules | Step::Done, None) => (&mut change, true),
                (Step::Held, Some("ChangeTimeout")) => (&mut change, false),
                _ => continue,
            };
            if slot.is_none_or(|(earlier, ..)| is_later(&entry.at, earlier)) {
                *slot = Some((&entry.at, journal, good));
            }
            was_gated |= good;
            was_changed |= good && matches!(entry.step, Step::PostRules | Step::Done);
        }
        gated += usize::from(was_gated);
        changed += usize::from(was_changed);
    }
    let members = view.members.iter();
    let before = members
        .filter(|member| member.change.is_none() && view.at_target(member))
        .count();
    let word = |last: Last<'_>, number| {
        last.map(|(_, journal, good)| LastWord {
            node: journal.spec.node_name.clone(),
            good,
            words: journal.status.message.clone().unwrap_or_default(),
            number: before + number,
        })
    };
    let words = (word(rules, gated), word(change, changed));
    (decision.out.report.last_job_run, decision.out.report.last_upgrade) = words;
}

/// What the run needs to know was never listed, and nodes have their turn: who cannot see must not give away what may be in
/// use.
fn never_listed(view: &RunView<'_>) -> Option<Why> {
    let is_under_way = view.changes().any(ChangeView::in_flight);
    view.observed
        .never_listed(OwnerKind::MutexRunConfig)
        .filter(|_| is_under_way)
}

/// Every target node is where it shall be, or was left out on purpose; nothing is in flight.
fn is_over(view: &RunView<'_>) -> bool {
    let started = view.has_marks_of_a_run()
        || view
            .run
            .status
            .run
            .as_ref()
            .is_some_and(|run| run.id == view.run_id && run.finished_at.is_none());
    started
        && view.desired.is_ok()
        && gates::run::control_plane(view).is_none()
        && view.orphans.is_empty()
        && view.in_two_pools.is_empty()
        // A target that is gone has no nodes left to speak of: that is not the end of their run.
        && !view.intent.problems.iter().any(|why| loses_pools(why.reason))
        && view.members.iter().all(|member| {
            member.in_flight().is_none()
                && !member.rules_asked_again()
                && (view.at_target(member)
                    || view.given_up(member).is_some()
                    || member
                        .left_out()
                        .is_some_and(|change| !retry_asked(change)))
        })
}

/// Leaves the run: once nothing is in flight, everything is restored.
fn leave(decision: &mut RunDecision<'_>, leaving: Option<&Why>) {
    decision.out.report.phase = RunPhase::Leaving;
    decision.out.report.hold = leaving.cloned();
    let why = leaving
        .cloned()
        .unwrap_or_else(|| Why::new(Reason::Restoring, "the run is being left"));
    let left_out = report_the_rest(decision, &why);
    if decision.view.in_flight() > 0 || !decision.view.orphans.is_empty() {
        pause::tend_canary(decision);
        labels::label_joiners(decision);
        return;
    }
    decision.out.report.result = Some(match leaving {
        Some(_) => RunResult::Aborted,
        None if !decision.out.report.ungated.is_empty() => RunResult::SucceededUngated,
        None if left_out > 0 => RunResult::SucceededWithSkips,
        None => RunResult::Succeeded,
    });
    if leaving.is_none()
        && has_run(decision.view)
        && let Some(why) = run_rules_hold(decision, Phase::PostRun, None)
    {
        decision.out.report.hold = Some(why);
        labels::label_joiners(decision);
        return;
    }
    let before = decision.out.actions.len();
    if !decision.view.run.deleting {
        orphans::free_jobs(decision, true);
    }
    pool::restore(decision, leaving.is_none());
    if decision.out.actions.len() > before {
        return;
    }
    let view = decision.view;
    let kept = |pool| leaving.is_none() && view.keeps_paused(pool);
    let held = view
        .marked_pools()
        .filter(|(pool, mark)| !mark.prior && !kept(pool))
        .count();
    decision.out.report.phase = match (held, leaving) {
        (0, None) => RunPhase::Idle,
        _ => RunPhase::Held,
    };
}

/// Whether this run has been more than pools that were kept paused.
fn has_run(view: &RunView<'_>) -> bool {
    let last = view.run.status.run.as_ref().filter(|last| last.id == view.run_id);
    let touched = || {
        view.has_marks_on_nodes_or_selectors()
            || view
                .changes()
                .any(|change| change.spec.target.run_id == view.run_id)
    };
    last.map_or_else(touched, |last| last.finished_at.is_none())
}

/// Reports the nodes that are not in flight while a run is being left; the number left out.
fn report_the_rest(decision: &mut RunDecision<'_>, why: &Why) -> usize {
    let members = &decision.view.members;
    let mut left_out = 0;
    for member in members.iter().filter(|member| member.in_flight().is_none()) {
        if decision.view.at_target(member) {
            admit::report_done(decision, member);
        } else if let Some(change) = member.left_out().filter(|change| !retry_asked(change)) {
            left_out += 1;
            admit::report_left_out(decision, member, change);
        } else if let Some(why) = decision.view.given_up(member) {
            left_out += 1;
            decision.report(member, Step::Skipped, why);
        } else {
            decision.report(member, Step::Selected, why.clone());
        }
    }
    left_out
}

/// No upgrade is under way: pools that are to be held always are held, and nothing else is done.
fn rest(decision: &mut RunDecision<'_>, hold: Option<Why>, refusal: Option<&Why>) {
    let has_nodes = !decision.view.members.is_empty();
    let holds = refusal.is_none_or(|why| gates::run::holds_when_refused(decision.view, why));
    if decision.view.intent.hold_always && holds && has_nodes {
        pause::arm(decision, refusal);
    }
    decision.out.report.phase = RunPhase::Idle;
    decision.out.report.hold = idle(decision.view, hold, refusal);
    let last = decision.view.run.status.run.as_ref();
    decision.out.report.result = last
        .filter(|last| last.id == decision.view.run_id && last.finished_at.is_some())
        .and_then(|last| last.result);
    if !decision.out.report.ungated.is_empty() {
        // Also of an upgrade that came and went while nobody looked.
        decision.out.report.result = Some(RunResult::SucceededUngated);
    }
    let why = Why::new(
        Reason::UpToDate,
        "it runs the version asked for; the MCO alone brings it to its pool's configuration",
    );
    report_the_rest(decision, &why);
    finalizer::drop_finalizer(decision);
}

/// Arms the pools and admits nodes, as far as the gates allow.
fn drive<'m>(decision: &mut RunDecision<'m>, order: Order<'m>, hold: Option<Why>, refusal: Option<&Why>) {
    if !decision.view.is_active() {
        rest(decision, hold, refusal);
        return;
    }
    decision.out.report.phase = RunPhase::Active;
    if refusal.is_none_or(|why| gates::run::holds_when_refused(decision.view, why)) {
        pause::arm(decision, refusal);
        let held = refusal.filter(|_| gates::run::unpaused_by_other(decision.view).is_none());
        decision.out.report.upgrade_held = held.cloned();
    } else {
        decision.out.report.phase = RunPhase::Refused;
    }
    pause::tend_canary(decision);
    decision.out.report.notes = waves::notes(decision.view);
    let hold = match hold
        .or_else(|| all_stopped(decision.view))
        .or_else(|| run_rules_hold(decision, Phase::PreRun, order.1.hold()))
    {
        Some(why) => {
            labels::label_joiners(decision);
            Some(why)
        }
        None => pool::set_up(decision),
    };
    let said = hold.clone().map(|why| {
        if refusal == Some(&why) {
            foretold(decision.view, why)
        } else {
            why
        }
    });
    let closed = || decision.view.intent.schedule.closed(decision.view.now);
    let (waves, approvals) = order;
    let report = &mut decision.out.report;
    report.hold = said
        .or_else(closed)
        .or_else(|| waves.soaking())
        .or_else(|| approvals.hold());
    report.wave = waves.report();
    (report.approval, report.approved) = (approvals.report(), approvals.given());
    report.heard = approvals.heard();
    if let Some(at) = approvals.ends() {
        decision.wake(at);
    }
    admit::admit(decision, (waves, approvals), hold.as_ref());
}

/// What a dry run says: nothing is held by it. A run that has begun keeps its pools paused, which says itself elsewhere.
fn what_a_dry_run_leaves(view: &RunView<'_>) -> String {
    let nothing = "spec.dryRun is true: nothing is written";
    let names: Vec<&str> = view.intent.pools.iter().map(|pool| pool.name.as_str()).collect();
    match names.as_slice() {
        _ if view.has_begun() => nothing.to_owned(),
        [] => nothing.to_owned(),
        [one] => format!(
            "{nothing}; this run does not pause MachineConfigPool {one}, which rolls WITHOUT its rules"
        ),
        _ => format!(
            "{nothing}; this run does not pause MachineConfigPools {}, which roll WITHOUT its rules",
            names.join(", ")
        ),
    }
}

/// A refusal, with what becomes of the pools.
fn foretold(view: &RunView<'_>, why: Why) -> Why {
    let when = if view.is_active() {
        ""
    } else {
        "when an upgrade begins, "
    };
    let names: Vec<&str> = view.intent.pools.iter().map(|pool| pool.name.as_str()).collect();
    let (pools, it) = match names.as_slice() {
        // Nobody knows what it meant to hold.
        [] if matches!(why.reason, Reason::TargetNotFound | Reason::PoolNotFound) => {
            return Why {
                message: format!("{}; {when}no pool is held for this run: every pool that it was meant for rolls WITHOUT rules", why.message).into(),
                ..why
            };
        }
        [] => return why,
        [one] => (format!("MachineConfigPool {one}"), ["is", "rolls", "its"]),
        _ => (
            format!("MachineConfigPools {}", names.join(", ")),
            ["are", "roll", "their"],
        ),
    };
    let [is, rolls, its] = it;
    let effect = if why.reason == Reason::PoolHeldByRun || why.reason == Reason::ExternalControlPlane {
        return why;
    } else if view.intent.dry_run && !view.has_begun() {
        format!("{when}{pools} {rolls} WITHOUT rules (spec.dryRun: nothing is paused)")
    } else if let Some(unpaused) = gates::run::unpaused_by_other(view) {
        format!("{}: it rolls WITHOUT rules", unpaused.message)
    } else if gates::run::holds_when_refused(view, &why) {
        format!("{when}{pools} {is} paused and every node keeps {its} version until this is fixed")
    } else {
        format!("{when}{pools} {rolls} WITHOUT rules (spec.onRefusal: Roll)")
    };
    Why {
        message: format!("{}; {effect}", why.message).into(),
        ..why
    }
}

/// A stop that holds every node that is behind holds the rules of the run too.
fn all_stopped(view: &RunView<'_>) -> Option<Why> {
    let members = view.members.iter();
    let mut behind = members
        .filter(|member| !view.at_target(member))
        .map(|member| ledger::stop(view.observed, member.node));
    let first = behind.next()??;
    behind.all(|stop| stop.is_some()).then_some(first)
}

/// What holds an idle run that a user should hear of: what the next upgrade would be refused for, before
/// pools roll that nobody could pause. Another run on the same pool will be done by then.
fn idle(view: &RunView<'_>, hold: Option<Why>, refusal: Option<&Why>) -> Option<Why> {
    if view.members.is_empty() && view.intent.problems.is_empty() && view.desired.is_ok() {
        return Some(Why::new(
            Reason::NoNodes,
            "no node has a target pool as its primary pool",
        ));
    }
    let hold = hold.filter(|why| {
        let refused = refusal == Some(why) && why.reason != Reason::PoolHeldByRun;
        let stands = view.intent.hold_always
            && matches!(why.reason, Reason::PoolPausedByOther | Reason::ForeignWriter);
        refused
            || stands
            || view.intent.problems.contains(why)
            || matches!(why.reason, Reason::Suspended | Reason::GateLost)
    })?;
    Some(if refusal == Some(&hold) {
        foretold(view, hold)
    } else {
        hold
    })
}
