//! The decision for a MutexRunConfig, from its nodes in flight to what it gives back.

use super::{
    admit,
    draft::Draft,
    frame::{Frame, Member, at_target},
    machine, orphans, pool, quarantine,
    run_rules::{no_longer_passed, run_rules_hold},
    turn, ungated,
};
use crate::{
    action::{Action, FORGET_CHAIN},
    decision::Decision,
    intent::loses_pools,
    ledger,
    observed::{ChangeView, ForeignController},
    owners::mutex_run_config::gates::{self, honoured::not_honoured},
    pass::Pass,
    report::{LastWord, NodeReport, PoolReport, RunPhase},
    turn::{
        directive::retry_asked,
        journal::{self, forgotten},
        steps::{Next, ON, STAY},
    },
    verdict::Answers,
    why::Why,
};
use numo_api::{
    Phase, Reason, RunResult, Step,
    conditions::Actor,
    marks::{self, openshift},
    mutex_run_config::Settled,
};
use std::collections::BTreeSet;

/// One pass over a MutexRunConfig.
pub(crate) struct Run<'m> {
    draft: Draft<'m>,
    /// Why the run is being left, if it is.
    leaving: Option<Why>,
    /// Why it is refused, if so.
    refusal: Option<Why>,
    /// Why nothing begins, if so.
    hold: Option<Why>,
    /// Nothing is to be written.
    dry: bool,
}

impl<'m> Run<'m> {
    /// What is known of the run at the beginning of the pass.
    pub(crate) fn of(frame: &'m Frame<'m>, answers: &'m Answers) -> Self {
        let leaving = frame.leaving();
        let refusal = gates::run::refusal(frame);
        Self {
            hold: gates::run::hold(frame, leaving.as_ref(), refusal.as_ref()),
            dry: frame.intent.dry_run && leaving.is_none() && !frame.has_begun(),
            draft: Draft {
                frame,
                answers,
                out: Decision::default(),
                said: Vec::new(),
                pool: None,
            },
            leaving,
            refusal,
        }
    }

    /// Why numo leaves the run alone. Whatever it took while it was allowed to goes back; what is under way is finished.
    fn left_alone(&self) -> Option<Why> {
        let frame = self.draft.frame;
        if let Some(why) = never_listed(frame) {
            return Some(why);
        }
        let mut finalizers = frame.run.finalizers.iter();
        let has_finalizer = finalizers.any(|finalizer| finalizer == marks::FINALIZER);
        if frame.holds_anything() {
            return None;
        }
        let not_honoured = not_honoured(frame.run, &frame.observed.settings);
        let rival = || frame.observed.stood_off(ForeignController::MutexRunConfig);
        not_honoured
            .filter(|_| !(frame.run.deleting && has_finalizer))
            .or_else(|| rival().filter(|_| !has_finalizer))
    }
}

impl Pass for Run<'_> {
    fn refuse(&mut self) -> Next {
        describe(&mut self.draft);
        last_words(&mut self.draft);
        let Some(why) = self.left_alone() else { return ON };
        let report = &mut self.draft.out.report;
        (report.phase, report.hold) = (RunPhase::Refused, Some(why));
        STAY
    }

    fn advance_turns(&mut self) {
        let (draft, hold) = (&mut self.draft, self.hold.clone());
        let hold = hold.or_else(|| no_longer_passed(draft.frame, draft.answers));
        let members = &draft.frame.members;
        let pass = turn::Pass {
            hold: hold.as_ref(),
            leaving: self.leaving.as_ref(),
            out_of_turn: admit::out_of_turn(draft.frame, members, hold.as_ref(), &mut draft.out.report),
        };
        turn::advance_all(draft, &pass);
        orphans::end_turns(draft);
    }

    fn restore_rest(&mut self) {
        let draft = &mut self.draft;
        for member in &draft.frame.members {
            if member.in_flight().is_none() {
                orphans::give_back(draft, member);
            }
        }
        orphans::settle(draft);
        machine::unshield(draft);
    }

    fn go_on(&mut self) {
        let draft = &mut self.draft;
        orphans::free_jobs(draft, draft.frame.run.deleting);
        let over = self.leaving.is_some() || is_over(draft.frame);
        quarantine::tend(draft, draft.frame.is_active() && !over);
        if over {
            leave(draft, self.leaving.as_ref());
        } else {
            drive(draft, self.hold.take(), self.refusal.as_ref());
        }
    }

    fn tidy(&mut self) {
        let draft = &mut self.draft;
        machine::resume_health_checks(draft);
        pool::keep_finalizer(draft);
        let locks = draft.frame.observed.reboot_locks.values().flatten();
        let ends = locks.filter_map(|lock| lock.until);
        if let Some(first) = ends.filter(|until| *until > draft.frame.now).min() {
            draft.wake(first);
        }
        forget(draft);
        if self.dry {
            write_nothing(draft);
        }
    }

    fn finish(self) -> Decision {
        self.draft.finish()
    }
}

/// Takes back every write and question of a dry run.
fn write_nothing(draft: &mut Draft<'_>) {
    let dry_words = what_a_dry_run_leaves(draft.frame);
    let out = &mut draft.out;
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
fn describe(draft: &mut Draft<'_>) {
    let frame = draft.frame;
    let report = &mut draft.out.report;
    report.run_id.clone_from(&frame.run_id);
    report.target = frame.desired.as_ref().ok().cloned();
    report.unchecked = frame.desired.as_ref().err().cloned();
    report.strategy = Some(frame.intent.strategy);
    report.problems.clone_from(&frame.intent.problems);
    report.label_disagrees = label_disagrees(frame);
    report.upgrade_available = frame.behind();
    report.upgrade_ready = report.upgrade_available && gates::run::control_plane(frame).is_none();
    report.run_verdicts = frame.run_verdicts.to_vec();
    report.run_waits = frame.run_waits.to_vec();
    report.pools = frame
        .intent
        .pools
        .iter()
        .map(|pool| {
            let members = || {
                frame
                    .members
                    .iter()
                    .filter(|member| member.pool.name == pool.name)
            };
            PoolReport {
                name: pool.name.clone(),
                config: pool.config.clone(),
                paused: pool.paused,
                ours: frame.marked_pools().any(|(marked, _)| marked.name == pool.name),
                outdated: members().filter(|member| member.outdated()).count(),
                nodes: members().count(),
            }
        })
        .collect();
    report.ungated = ungated::nodes(frame);
    report.settles = settles(frame);
    for (node, pools) in &frame.in_two_pools {
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
fn settles(frame: &Frame<'_>) -> Option<Settled> {
    let version = frame.desired.as_ref().ok()?;
    // Without its targets nobody knows who its nodes are.
    let whole = frame.intent.problems.iter().all(|why| !loses_pools(why.reason));
    let all = frame
        .members
        .iter()
        .all(|member| member.in_flight().is_none() && member.version == Some(version) && member.done)
        // Between two nodes of a run of configurations not every node is there.
        && (!frame.intent.any_config || frame.members.iter().all(Member::at_pool_config));
    if frame.members.is_empty() || !whole || !all {
        return None;
    }
    let pools: Vec<String> = frame.intent.pools.iter().map(|pool| pool.name.clone()).collect();
    let configs: BTreeSet<&str> = frame.members.iter().map(|member| member.current).collect();
    let configs: Vec<String> = configs.into_iter().take(64).map(ToOwned::to_owned).collect();
    let known = frame.run.status.settled.as_ref().filter(|settled| {
        let at = journal::time(Some(&settled.at));
        // Nodes that came since are to be told from those that come later.
        let all_told = |at| frame.members.iter().all(|member| member.node.created < at);
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
fn label_disagrees(frame: &Frame<'_>) -> Option<String> {
    let mut nodes = frame.members.iter().filter(|member| member.change.is_none());
    nodes.find_map(|member| {
        let label = member.node.labels.get(openshift::RELEASE_VERSION)?;
        let version = member.version?;
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
fn last_words(draft: &mut Draft<'_>) {
    let frame = draft.frame;
    let (mut rules, mut change): (Last<'_>, Last<'_>) = (None, None);
    let (mut gated, mut changed) = (0, 0);
    for journal in frame
        .changes()
        .filter(|journal| journal.spec.target.run_id == frame.run_id)
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
            if slot.is_none_or(|(earlier, ..)| journal::is_later(&entry.at, earlier)) {
                *slot = Some((&entry.at, journal, good));
            }
            was_gated |= good;
            was_changed |= good && matches!(entry.step, Step::PostRules | Step::Done);
        }
        gated += usize::from(was_gated);
        changed += usize::from(was_changed);
    }
    let before = frame
        .members
        .iter()
        .filter(|member| member.change.is_none() && at_target(frame, member))
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
    (draft.out.report.last_job_run, draft.out.report.last_upgrade) = words;
}

/// What the run needs to know was never listed, and nodes have their turn: who cannot see must not give away what may be in
/// use.
fn never_listed(frame: &Frame<'_>) -> Option<Why> {
    let is_under_way = frame.changes().any(ChangeView::in_flight);
    frame.observed.never_listed().filter(|_| is_under_way)
}

/// Every target node is where it shall be, or was left out on purpose; nothing is in flight.
fn is_over(frame: &Frame<'_>) -> bool {
    let started = frame.has_marks_of_a_run()
        || frame
            .run
            .status
            .run
            .as_ref()
            .is_some_and(|run| run.id == frame.run_id && run.finished_at.is_none());
    started
        && frame.desired.is_ok()
        && gates::run::control_plane(frame).is_none()
        && frame.orphans.is_empty()
        && frame.in_two_pools.is_empty()
        // A target that is gone has no nodes left to speak of: that is not the end of their run.
        && !frame.intent.problems.iter().any(|why| loses_pools(why.reason))
        && frame.members.iter().all(|member| {
            member.in_flight().is_none()
                && !member.rules_asked_again()
                && (at_target(frame, member)
                    || frame.given_up(member).is_some()
                    || member
                        .left_out()
                        .is_some_and(|change| !retry_asked(change)))
        })
}

/// Leaves the run: once nothing is in flight, everything is restored.
fn leave(draft: &mut Draft<'_>, leaving: Option<&Why>) {
    draft.out.report.phase = RunPhase::Leaving;
    draft.out.report.hold = leaving.cloned();
    let why = leaving
        .cloned()
        .unwrap_or_else(|| Why::new(Reason::GivingBack, "the run is being left"));
    let left_out = report_the_rest(draft, &why);
    if draft.frame.in_flight() > 0 || !draft.frame.orphans.is_empty() {
        pool::tend_canary(draft);
        pool::label_joiners(draft);
        return;
    }
    draft.out.report.result = Some(match leaving {
        Some(_) => RunResult::Aborted,
        None if !draft.out.report.ungated.is_empty() => RunResult::SucceededUngated,
        None if left_out > 0 => RunResult::SucceededWithSkips,
        None => RunResult::Succeeded,
    });
    if leaving.is_none()
        && has_run(draft.frame)
        && let Some(why) = run_rules_hold(draft, Phase::PostRun)
    {
        draft.out.report.hold = Some(why);
        pool::label_joiners(draft);
        return;
    }
    let before = draft.out.actions.len();
    if !draft.frame.run.deleting {
        orphans::free_jobs(draft, true);
    }
    pool::give_back(draft, leaving.is_none());
    if draft.out.actions.len() > before {
        return;
    }
    let frame = draft.frame;
    let kept = |pool| leaving.is_none() && frame.keeps_paused(pool);
    let held = frame
        .marked_pools()
        .filter(|(pool, mark)| !mark.prior && !kept(pool))
        .count();
    draft.out.report.phase = match (held, leaving) {
        (0, None) => RunPhase::Idle,
        _ => RunPhase::Held,
    };
}

/// Whether this run has been more than pools that were kept paused.
fn has_run(frame: &Frame<'_>) -> bool {
    let last = frame
        .run
        .status
        .run
        .as_ref()
        .filter(|last| last.id == frame.run_id);
    let touched = || {
        frame.has_marks_on_nodes_or_selectors()
            || frame
                .changes()
                .any(|change| change.spec.target.run_id == frame.run_id)
    };
    last.map_or_else(touched, |last| last.finished_at.is_none())
}

/// Reports the nodes that are not in flight while a run is being left; the number left out.
fn report_the_rest(draft: &mut Draft<'_>, why: &Why) -> usize {
    let members = &draft.frame.members;
    let mut left_out = 0;
    for member in members.iter().filter(|member| member.in_flight().is_none()) {
        if at_target(draft.frame, member) {
            admit::report_done(draft, member);
        } else if let Some(change) = member.left_out().filter(|change| !retry_asked(change)) {
            left_out += 1;
            admit::report_left_out(draft, member, change);
        } else if let Some(why) = draft.frame.given_up(member) {
            left_out += 1;
            draft.report(member, Step::Skipped, why);
        } else {
            draft.report(member, Step::Selected, why.clone());
        }
    }
    left_out
}

/// Arms the pools and admits nodes, as far as the gates allow.
fn drive(draft: &mut Draft<'_>, hold: Option<Why>, refusal: Option<&Why>) {
    if !draft.frame.is_active() {
        let has_nodes = !draft.frame.members.is_empty();
        let holds = refusal.is_none_or(|why| gates::run::holds_when_refused(draft.frame, why));
        if draft.frame.intent.hold_always && holds && has_nodes {
            pool::arm(draft, refusal);
        }
        draft.out.report.phase = RunPhase::Idle;
        draft.out.report.hold = idle(draft.frame, hold, refusal);
        let last = draft.frame.run.status.run.as_ref();
        draft.out.report.result = last
            .filter(|last| last.id == draft.frame.run_id && last.finished_at.is_some())
            .and_then(|last| last.result);
        if !draft.out.report.ungated.is_empty() {
            // Also of an upgrade that came and went while nobody looked.
            draft.out.report.result = Some(RunResult::SucceededUngated);
        }
        let why = Why::new(
            Reason::UpToDate,
            "it runs the version asked for; the MCO alone brings it to its pool's configuration",
        );
        report_the_rest(draft, &why);
        pool::drop_finalizer(draft);
        return;
    }
    draft.out.report.phase = RunPhase::Active;
    if refusal.is_none_or(|why| gates::run::holds_when_refused(draft.frame, why)) {
        pool::arm(draft, refusal);
        let held = refusal.filter(|_| gates::run::unpaused_by_other(draft.frame).is_none());
        draft.out.report.upgrade_held = held.cloned();
    } else {
        draft.out.report.phase = RunPhase::Refused;
    }
    pool::tend_canary(draft);
    let hold = match hold
        .or_else(|| all_stopped(draft.frame))
        .or_else(|| run_rules_hold(draft, Phase::PreRun))
    {
        Some(why) => {
            pool::label_joiners(draft);
            Some(why)
        }
        None => pool::set_up(draft),
    };
    let said = hold.clone().map(|why| {
        if refusal == Some(&why) {
            foretold(draft.frame, why)
        } else {
            why
        }
    });
    let closed = || draft.frame.intent.schedule.closed(draft.frame.now);
    draft.out.report.hold = said.or_else(closed);
    admit::admit(draft, hold.as_ref());
}

/// What a dry run says: nothing is held by it. A run that has begun keeps its pools paused, which says itself elsewhere.
fn what_a_dry_run_leaves(frame: &Frame<'_>) -> String {
    let nothing = "spec.dryRun is true: nothing is written";
    let names: Vec<&str> = frame.intent.pools.iter().map(|pool| pool.name.as_str()).collect();
    match names.as_slice() {
        _ if frame.has_begun() => nothing.to_owned(),
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
fn foretold(frame: &Frame<'_>, why: Why) -> Why {
    let when = if frame.is_active() {
        ""
    } else {
        "when an upgrade begins, "
    };
    let names: Vec<&str> = frame.intent.pools.iter().map(|pool| pool.name.as_str()).collect();
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
    } else if frame.intent.dry_run && !frame.has_begun() {
        format!("{when}{pools} {rolls} WITHOUT rules (spec.dryRun: nothing is paused)")
    } else if let Some(unpaused) = gates::run::unpaused_by_other(frame) {
        format!("{unpaused}: it rolls WITHOUT rules")
    } else if gates::run::holds_when_refused(frame, &why) {
        format!("{when}{pools} {is} paused and every node keeps {its} version until this is mended")
    } else {
        format!("{when}{pools} {rolls} WITHOUT rules (spec.onRefusal: Roll)")
    };
    Why {
        message: format!("{}; {effect}", why.message).into(),
        ..why
    }
}

/// A stop that holds every node that is behind holds the rules of the run too.
fn all_stopped(frame: &Frame<'_>) -> Option<Why> {
    let mut behind = frame
        .members
        .iter()
        .filter(|member| !at_target(frame, member))
        .map(|member| ledger::stop(frame.observed, member.node));
    let first = behind.next()??;
    behind.all(|stop| stop.is_some()).then_some(first)
}

/// What holds an idle run that a user should hear of: what the next upgrade would be refused for, before
/// pools roll that nobody could pause. Another run on the same pool will be done by then.
fn idle(frame: &Frame<'_>, hold: Option<Why>, refusal: Option<&Why>) -> Option<Why> {
    if frame.members.is_empty() && frame.intent.problems.is_empty() && frame.desired.is_ok() {
        return Some(Why::new(
            Reason::NoNodes,
            "no node has a target pool as its primary pool",
        ));
    }
    let hold = hold.filter(|why| {
        let refused = refusal == Some(why) && why.reason != Reason::PoolHeldByRun;
        let stands = frame.intent.hold_always
            && matches!(why.reason, Reason::PoolPausedByOther | Reason::ForeignWriter);
        refused || stands || frame.intent.problems.contains(why) || why.reason == Reason::Suspended
    })?;
    Some(if refusal == Some(&hold) {
        foretold(frame, hold)
    } else {
        hold
    })
}

/// Journals that ended are kept for the last three targets of each node, thirty days at most.
fn forget(draft: &mut Draft<'_>) {
    let frame = draft.frame;
    let old: Vec<Action> = forgotten(frame.changes(), &frame.run_id, frame.now).collect();
    for action in old {
        draft.act(FORGET_CHAIN, action, None);
    }
}
