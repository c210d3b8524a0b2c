//! MutexRunConfig: a report becomes its status. The condition types, reasons and messages of the replaced
//! operator are kept letter by letter where it had them; ours stand beside them.

use super::{
    conditions::{Conditions, seconds},
    first_names,
    shortfall::shortfall,
    standing::Standing,
};
use jiff::Timestamp;
use numo_api::{
    MutexRunConfigStatus, Reason, RunResult, RunStatus, Step, Strategy, WaveStatus,
    conditions::{Actor, types},
    mutex_run_config::{NodeCounts, NotAdmitted, RunPool, Settled, WaitCount},
    text,
};
use numo_core::{
    observed::RunConfigView,
    report::{LastWord, NodeReport, Report, RunPhase, WaveReport, Why},
    rules::{clip, later},
    text::first_of,
    time::STUCK_SECONDS,
    turn::overdue,
};
use std::{collections::BTreeMap, sync::Arc};

/// Most reasons that `status.run.waiting` names, and most nodes that `status.run.ungated` and `notAdmitted` name.
const MAX_WAITING: usize = 16;
const MAX_UNGATED: usize = 64;
/// Longest message of a reason that `status.run.waiting` names (characters).
const WORDS_MAX: usize = 512;
/// Longest sentence of `status.wave.notes` (characters).
const NOTE_MAX: usize = 1024;

/// The status of the run.
pub fn status(run: &RunConfigView, report: &Report, now: Timestamp) -> MutexRunConfigStatus {
    let mut conditions = Conditions::over(&run.status.conditions, run.generation, now);
    reference(&mut conditions, report);
    kstatus(&mut conditions, report);
    held(&mut conditions, report);
    incomplete(&mut conditions, report);
    let settled = report.settles.clone().map(|settled| Settled {
        at: seconds(now),
        ..settled
    });
    let named = run.spec.mutex_rules.iter().flatten();
    let rules = named.filter_map(|rule| rule.name.as_deref());
    let own_rules = run.spec.rules.iter().flatten().map(|rule| rule.name.as_str());
    let targets = run.spec.mutex_targets.iter().flatten();
    MutexRunConfigStatus {
        observed_generation: Some(run.generation),
        rules_summary: first_names(rules.chain(own_rules)),
        targets_summary: first_names(targets.filter_map(|target| target.name.as_deref())),
        pools_summary: first_names(run.spec.pools.iter().flatten().map(String::as_str)),
        conditions: conditions.done(),
        run: run_status(run, report, now),
        settled: settled.or_else(|| run.status.settled.clone()),
        wave: report.wave.as_ref().map(wave),
        approval: super::approval::status(report, run.status.approval.as_ref(), now),
        rules: report.inline_rules.clone(),
    }
}

fn wave(of: &WaveReport) -> WaveStatus {
    let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    WaveStatus {
        number: number(of.number),
        of: number(of.of),
        name: of.name.clone(),
        nodes: number(of.nodes),
        done: number(of.done),
        soak_until: of.soak_until.map(seconds),
        notes: of.notes.iter().map(|note| clip(note, NOTE_MAX)).collect(),
    }
}

/// The conditions of the replaced operator (`spec/mutex.md` §1).
fn reference(conditions: &mut Conditions<'_>, report: &Report) {
    checked(conditions, report);
    upgrade_ready(conditions, report);
    applied(conditions, report);
    last_words(conditions, report);
    if report.phase == RunPhase::Idle && report.hold.is_none() && !report.upgrade_available {
        conditions.set(
            types::UPGRADE_AVAILABLE,
            false,
            "UpgradeUnavailable",
            "An upgrade is not available",
        );
    } else {
        conditions.unset(types::UPGRADE_AVAILABLE);
    }
}

/// ConfigValidated and UpgradeChecked.
fn checked(conditions: &mut Conditions<'_>, report: &Report) {
    if report.problems.is_empty() {
        let message = "Canary, MutexRules, and MutexTargets were successfully fetched.";
        conditions.set(types::CONFIG_VALIDATED, true, "FetchSucceeded", message);
    } else {
        let all: Vec<&str> = report.problems.iter().map(|why| &*why.message).collect();
        conditions.set(types::CONFIG_VALIDATED, false, "FetchFailed", all.join("; "));
    }
    match &report.unchecked {
        None => {
            let remark = report.label_disagrees.clone().unwrap_or_default();
            conditions.set(types::UPGRADE_CHECKED, true, "CheckSucceeded", remark);
        }
        Some(why) => conditions.set(
            types::UPGRADE_CHECKED,
            false,
            "CheckFailed",
            why.message.to_string(),
        ),
    }
}

/// UpgradeReady and TargetPoolsPaused.
fn upgrade_ready(conditions: &mut Conditions<'_>, report: &Report) {
    let (reason, message) = if report.upgrade_ready {
        ("UpgradeReady", "An upgrade is available")
    } else {
        ("UpgradeNotReady", "An upgrade is not available")
    };
    conditions.set(types::UPGRADE_READY, report.upgrade_ready, reason, message);
    let all_paused = !report.pools.is_empty() && report.pools.iter().all(|pool| pool.paused);
    let (reason, message) = if all_paused {
        ("Paused", "All target Machine Config Pools are paused")
    } else {
        ("NotPaused", "All target Machine Config Pools are not paused")
    };
    conditions.set(types::TARGET_POOLS_PAUSED, all_paused, reason, message);
}

/// What a canary pool has had changed.
fn applied(conditions: &mut Conditions<'_>, report: &Report) {
    if report.strategy != Some(Strategy::CanaryPool) {
        return;
    }
    for (type_, applied, (good, bad)) in [
        (
            types::MUTEX_RULES_APPLIED,
            report.labels_applied,
            ("ApplySucceeded", "ApplyFailed"),
        ),
        (
            types::MCP_UPDATED,
            report.selectors_applied,
            ("UpdateSucceeded", "UpdateFailed"),
        ),
    ] {
        match applied {
            Some(true) => conditions.set(type_, true, good, ""),
            Some(false) => conditions.set(type_, false, bad, "not all of them have been changed yet"),
            None => {}
        }
    }
}

/// What was said last of Jobs, and of an upgraded node.
fn last_words(conditions: &mut Conditions<'_>, report: &Report) {
    let total = report.nodes.len();
    let mut last = |type_, what: &str, reasons: (&str, &str), (was, said): (&str, &str), word: &LastWord| {
        let LastWord {
            node,
            good,
            words,
            number,
        } = word;
        let (reason, lines) = if *good {
            let place = format!("Node is {number} of {total}");
            (reasons.0, vec![format!("{what} for {node} {was} {said}."), place])
        } else {
            let failed = format!("{what} for {node} {was} not {said}: {words}");
            (reasons.1, vec![failed])
        };
        conditions.set_lines(type_, *good, reason, &lines);
    };
    if let Some(word) = &report.last_job_run {
        let reasons = ("JobRunSucceeded", "JobRunFailed");
        last(
            types::JOB_RUN,
            "Jobs",
            reasons,
            ("have", "run successfully"),
            word,
        );
    }
    if let Some(word) = &report.last_upgrade {
        let reasons = ("NodeUpgradeSucceeded", "NodeUpgradeFailed");
        last(
            types::NODE_UPGRADE,
            "Upgrade",
            reasons,
            ("has", "succeeded"),
            word,
        );
    }
}

/// Ready, Reconciling, Stalled: what the run is doing, for people and for tools that know kstatus.
fn kstatus(conditions: &mut Conditions<'_>, report: &Report) {
    let standing = standing(report);
    let ready = standing.is_good();
    let Standing {
        reason,
        message,
        stalled,
        ..
    } = standing;
    let stalled = stalled && !ready && reason != Reason::RuleRunning;
    let reconciling = !ready && !stalled;
    conditions.kstatus(ready, reconciling, stalled, reason.name(), &message);
}

/// The one reason that says best what the run is doing.
pub fn summary(report: &Report) -> (Reason, String) {
    standing(report).said()
}

impl From<(Reason, String)> for Standing {
    fn from((reason, message): (Reason, String)) -> Self {
        Self {
            reason,
            message,
            who: reason.who(),
            stalled: needs_person(reason.who()),
        }
    }
}

/// How the run stands, by what was decided for it.
pub fn standing(report: &Report) -> Standing {
    if let Some(why) = &report.hold {
        let hold = Standing {
            reason: why.reason,
            message: why.message.to_string(),
            who: why.who(),
            stalled: needs_person(why.who()),
        };
        let stuck = Standing::of_stuck(report).filter(|_| !hold.stalled);
        return stuck.unwrap_or(hold);
    }
    let total = report.nodes.len();
    let done = report.count(|node| node.step == Step::Done);
    match report.phase {
        RunPhase::Idle => ended(report, done).into(),
        RunPhase::Held => (Reason::PoolHeld, held_pools(report)).into(),
        RunPhase::Leaving => {
            let message = "what numo changed is put back as it was".to_owned();
            (Reason::Restoring, message).into()
        }
        RunPhase::Refused => (Reason::InvalidConfig, "the spec cannot be carried out".to_owned()).into(),
        RunPhase::Active => Standing::of_stuck(report)
            .or_else(|| Standing::of_hours(report))
            .unwrap_or_else(|| (Reason::Progressing, format!("{done} of {total} nodes are done")).into()),
    }
}

/// How a run ended: nobody is to read success where nodes were left out, or changed without their rules, unless a person
/// has acknowledged that.
fn ended(report: &Report, done: usize) -> (Reason, String) {
    let over = match report.result {
        Some(RunResult::Succeeded | RunResult::SucceededWithSkips | RunResult::SucceededUngated) => true,
        Some(RunResult::Aborted) | None => false,
    };
    let runs = who_runs(report, done);
    let Some((reason, words)) = shortfall(report).filter(|_| over) else {
        let reason = if over { Reason::Succeeded } else { Reason::UpToDate };
        return (reason, runs);
    };
    if report.acknowledged {
        return (Reason::Succeeded, format!("{runs}; acknowledged: {words}"));
    }
    (reason, format!("{words}; {runs}"))
}

const fn needs_person(who: Actor) -> bool {
    matches!(who, Actor::ClusterAdmin | Actor::Approver | Actor::RuleAuthor)
}

/// How many nodes run the version, and which were left out.
fn who_runs(report: &Report, done: usize) -> String {
    const NAMED: usize = 5;
    let (total, target) = (report.nodes.len(), report.target.as_deref().unwrap_or_default());
    let rest = report.nodes.iter().filter(|(_, node)| node.step != Step::Done);
    match first_of(rest.map(|(name, _)| name), NAMED) {
        none if none.is_empty() => format!("all {total} nodes run {target}"),
        names => format!("{done} of {total} nodes run {target}, not: {names}"),
    }
}

fn held_pools(report: &Report) -> String {
    let held: Vec<String> = report
        .pools
        .iter()
        .filter(|pool| pool.ours && pool.outdated > 0)
        .map(|pool| {
            format!(
                "MachineConfigPool {} stays paused: {} of {} nodes would roll without rules",
                pool.name, pool.outdated, pool.nodes
            )
        })
        .collect();
    held.join("; ")
}

/// The nodes that are known anew to have changed without their rules, in a sentence.
pub fn newly_ungated(
    old: &MutexRunConfigStatus,
    new: &MutexRunConfigStatus,
    report: &Report,
) -> Option<String> {
    const NAMED: usize = 5;
    let run = new.run.as_ref()?;
    let known = old.run.as_ref().filter(|known| known.id == run.id);
    let is_new = |node: &&String| known.is_none_or(|known| !known.ungated.contains(node));
    let names: Vec<&str> = run.ungated.iter().filter(is_new).map(String::as_str).collect();
    let more = if names.len() > NAMED { " and others" } else { "" };
    (!names.is_empty()).then(|| {
        let with_why = |name: &&str| match report.ungated.get(*name) {
            Some(why) => format!("{name} ({why})"),
            None => (*name).to_owned(),
        };
        let named: Vec<String> = names.iter().take(NAMED).map(with_why).collect();
        let message = format!(
            "{} nodes changed to {} without their rules: {}{more}",
            names.len(),
            run.target,
            named.join(", ")
        );
        clip(&message, 1024)
    })
}

/// When the first wait that should end by itself has stood for too long: then it is to be decided again.
pub fn stuck_at(status: &MutexRunConfigStatus) -> Option<Timestamp> {
    let waiting = status.run.iter().flat_map(|run| &run.waiting);
    let since = waiting.filter_map(|wait| wait.since.as_deref()?.parse::<Timestamp>().ok());
    since.min().map(|since| later(since, STUCK_SECONDS))
}

/// What holds an upgrade of pools that were paused before it began, if that is new: no write of a pause says so.
pub fn newly_held(old: &MutexRunConfigStatus, new: &MutexRunConfigStatus, report: &Report) -> Option<Why> {
    let why = report.upgrade_held.as_ref()?;
    let find = |type_: &str| old.conditions.iter().find(|one| one.type_ == type_);
    let were_paused = find(types::TARGET_POOLS_PAUSED).is_some_and(|one| one.status == "True");
    let run = new.run.as_ref()?;
    let was_under_way = old
        .run
        .as_ref()
        .is_some_and(|last| last.id == run.id && last.finished_at.is_none());
    let was_said = find(types::READY).is_some_and(|one| one.reason.as_deref() == Some(why.reason.name()));
    (were_paused && !(was_under_way && was_said)).then(|| why.clone())
}

/// Which nodes a run has left out, or had change without their rules: as long as its status speaks of it.
fn incomplete(conditions: &mut Conditions<'_>, report: &Report) {
    match shortfall(report) {
        Some((reason, words)) => conditions.set(types::INCOMPLETE, true, reason.name(), words),
        None => conditions.unset(types::INCOMPLETE),
    }
}

fn held(conditions: &mut Conditions<'_>, report: &Report) {
    let message = held_pools(report);
    if report.phase == RunPhase::Held && !message.is_empty() {
        conditions.set(types::POOL_HELD, true, Reason::PoolHeld.name(), message);
    } else {
        conditions.unset(types::POOL_HELD);
    }
}

fn run_status(run: &RunConfigView, report: &Report, now: Timestamp) -> Option<RunStatus> {
    let last = run.status.run.clone();
    let begun = matches!(report.phase, RunPhase::Active | RunPhase::Leaving)
        && report.pools.iter().any(|pool| pool.ours);
    let same = last.as_ref().is_some_and(|last| last.id == report.run_id);
    // Also of an upgrade that numo did not steer: who went there without rules is to be read.
    if !begun && !same && report.ungated.is_empty() {
        return last;
    }
    let mut status = if same {
        last.unwrap_or_default()
    } else {
        RunStatus::default()
    };
    status.id.clone_from(&report.run_id);
    if let Some(target) = &report.target {
        status.target.clone_from(target);
    }
    status.strategy = report.strategy;
    if status.started_at.is_none() && begun {
        status.started_at = Some(seconds(now));
    }
    if !report.pools.is_empty() {
        status.pools = pools(report);
    }
    let over = matches!(report.phase, RunPhase::Idle | RunPhase::Held);
    if over && status.finished_at.is_none() {
        status.finished_at = Some(seconds(now));
        status.result = report.result.or(Some(RunResult::Succeeded));
    } else if !over {
        status.finished_at = None;
        status.result = None;
    }
    let done = report.count(|node| node.step == Step::Done);
    status.progress = Some(format!("{done}/{}", report.nodes.len()));
    let ungated = status.nodes.as_ref().map_or(0, |nodes| nodes.ungated);
    status.nodes = Some(node_counts(report, ungated));
    status.waiting = waiting(report, &status.waiting, now);
    for node in report.ungated.keys() {
        if !status.ungated.contains(node) && status.ungated.len() < MAX_UNGATED {
            status.ungated.push(node.clone());
        }
    }
    status.not_admitted = not_admitted(report);
    status.verdicts.clone_from(&report.run_verdicts);
    status.rule_waits.clone_from(&report.run_waits);
    Some(status)
}

fn pools(report: &Report) -> Vec<RunPool> {
    let pools = report.pools.iter();
    pools
        .map(|pool| RunPool {
            name: pool.name.clone(),
            rendered_config: Some(pool.config.clone()).filter(|config| !config.is_empty()),
            outdated: count(pool.outdated),
        })
        .collect()
}

/// How many nodes there are of each state. `ungated`: how many had no rules when this was counted last.
fn node_counts(report: &Report, ungated: i32) -> NodeCounts {
    NodeCounts {
        total: count(report.nodes.len()),
        done: count(report.count(|node| node.step == Step::Done)),
        in_flight: count(report.in_flight()),
        waiting: count(report.count(|node| node.step == Step::Selected)),
        held: count(report.count(|node| node.step == Step::Held)),
        left_out: count(report.count(|node| matches!(node.step, Step::Failed | Step::Skipped))),
        ungated: count(report.ungated.len()).max(ungated),
    }
}

fn not_admitted(report: &Report) -> Vec<NotAdmitted> {
    let refused = report.not_admitted.iter().take(MAX_UNGATED);
    refused
        .map(|(node, why)| NotAdmitted {
            node: node.clone(),
            reason: why.reason.name().to_owned(),
            message: text::line(&why.message).into_owned(),
        })
        .collect()
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The node has not had its turn, or is in flight and waits for someone: what only the operator can know of
/// that (a refused Job, a drain that would not pass) the command line reads here.
fn waits(node: &NodeReport) -> bool {
    matches!(node.step, Step::Selected | Step::Held)
        || node.why.reason.is_of_evaluation()
        || matches!(
            node.why.reason,
            Reason::RuleJobCannotStart
                | Reason::JobsForbidden
                | Reason::DrainBlocked
                | Reason::NodeLeaseHeld
                | Reason::WriteRefused
        )
}

/// The reasons for which nodes wait, most frequent first.
fn waiting(report: &Report, old: &[WaitCount], now: Timestamp) -> Vec<WaitCount> {
    // What a rule said of one node is not what it said of another.
    let words = |why: &Why| why.reason.is_of_evaluation().then(|| why.message.clone());
    let mut by_reason: BTreeMap<(Reason, Option<Arc<str>>), WaitCount> = BTreeMap::new();
    for (name, node) in report.nodes.iter().filter(|(_, node)| waits(node)) {
        let kind = (node.why.reason, words(&node.why));
        let entry = by_reason.entry(kind).or_insert_with(|| WaitCount {
            reason: node.why.reason.name().to_owned(),
            count: 0,
            node: name.clone(),
            message: clip(&node.why.message, WORDS_MAX),
            since: overdue::is_remembered(node.why.reason).then(|| seconds(now)),
        });
        entry.count += 1;
    }
    let mut waiting: Vec<WaitCount> = by_reason.into_values().collect();
    for wait in waiting.iter_mut().filter(|wait| wait.since.is_some()) {
        // The node that was named goes on being named while it waits: since when, is said of it.
        let known = old
            .iter()
            .find(|known| known.reason == wait.reason && known.since.is_some());
        let Some((known, node)) = known.and_then(|known| Some((known, report.nodes.get(&known.node)?)))
        else {
            continue;
        };
        if node.why.reason.name() == wait.reason {
            wait.node.clone_from(&known.node);
            wait.message = node.why.message.chars().take(512).collect();
            wait.since.clone_from(&known.since);
        }
    }
    waiting.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
    waiting.truncate(MAX_WAITING);
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::report::PoolReport;

    fn run(status: MutexRunConfigStatus) -> RunConfigView {
        RunConfigView {
            key: numo_core::observed::Key::new("numo", "upgrade"),
            uid: String::new(),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            finalizers: Vec::new(),
            annotations: BTreeMap::new(),
            spec: numo_api::MutexRunConfigSpec::default(),
            workloads_check: None,
            has_annotations: false,
            pruned: None,
            misread: None,
            keeps_status: false,
            hours: None,
            status,
        }
    }

    fn report(phase: RunPhase, id: &str) -> Report {
        let why = || Why::new(Reason::RuleNotFound, "there is no such rule");
        Report {
            phase,
            hold: Some(why()),
            run_id: id.to_owned(),
            target: Some("4.17.0".to_owned()),
            upgrade_held: (phase == RunPhase::Active).then(why),
            pools: vec![PoolReport {
                name: "worker".to_owned(),
                paused: true,
                ours: true,
                ..PoolReport::default()
            }],
            ..Report::default()
        }
    }

    /// A column of `kubectl get` shows the first element of a list only.
    #[test]
    fn the_names_of_all_rules_and_targets_are_in_a_column() {
        let mut view = run(MutexRunConfigStatus::default());
        let spec = serde_json::json!({
            "mutexRules": [{"name": "backup"}, {"name": "quiet"}], "rules": [{"name": "own"}],
            "mutexTargets": [{"name": "workers"}, {"name": "infra"}],
        });
        view.spec = serde_json::from_value(spec).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let said = status(&view, &report(RunPhase::Idle, "first"), now);
        assert_eq!(said.rules_summary.as_deref(), Some("backup, quiet, own"));
        assert_eq!(said.targets_summary.as_deref(), Some("workers, infra"));
        assert_eq!(said.pools_summary, None);
        view.spec = serde_json::from_value(serde_json::json!({"pools": ["worker", "infra"]})).unwrap();
        let said = status(&view, &report(RunPhase::Idle, "first"), now);
        assert_eq!(said.pools_summary.as_deref(), Some("worker, infra"));
    }

    /// A daemon that is stuck in Working says nothing of since when: the run does.
    #[test]
    fn a_wait_that_should_end_by_itself_is_remembered_by_its_node() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut report = report(RunPhase::Active, "first");
        let mut wait = |name: &str, reason: Reason| {
            let node = NodeReport {
                pool: "worker".into(),
                step: Step::Selected,
                why: Why::new(reason, format!("Node {name}")),
                since: None,
                change: None,
            };
            report.nodes.insert(name.to_owned(), node);
            report.clone()
        };
        let step = |old: MutexRunConfigStatus, report: &Report, now: i64| status(&run(old), report, at(now));
        let begun = step(
            MutexRunConfigStatus::default(),
            &wait("b", Reason::NodeNotDone),
            100,
        );
        assert_eq!(stuck_at(&begun), Some(at(700)));
        // Another one begins to wait, and time goes by.
        let later = step(begun, &wait("a", Reason::NodeNotDone), 400);
        assert_eq!(stuck_at(&later), Some(at(700)));
        assert_eq!(later.run.as_ref().unwrap().waiting[0].node, "b");
        // The one that was named is done: of the other nobody knows it for longer than now.
        let other = step(later, &wait("b", Reason::WaitingForTurn), 500);
        assert_eq!(stuck_at(&other), Some(at(1100)));
    }

    /// With `hold: Always` the pools are paused already, and the refusal has stood since before: nothing else would say
    /// that an upgrade waits for it now.
    #[test]
    fn an_upgrade_that_is_held_in_pools_that_were_paused_is_said_once() {
        let now = Timestamp::UNIX_EPOCH;
        let step = |old: &MutexRunConfigStatus, report: &Report| {
            let new = status(&run(old.clone()), report, now);
            let said = newly_held(old, &new, report).map(|why| why.reason);
            (new, said)
        };
        let (between, said) = step(&MutexRunConfigStatus::default(), &report(RunPhase::Idle, "first"));
        assert_eq!(said, None, "nothing is upgraded");
        let (begun, said) = step(&between, &report(RunPhase::Active, "second"));
        assert_eq!(said, Some(Reason::RuleNotFound));
        let (_, said) = step(&begun, &report(RunPhase::Active, "second"));
        assert_eq!(said, None, "said once");
        let (_, said) = step(&begun, &report(RunPhase::Active, "third"));
        assert_eq!(said, Some(Reason::RuleNotFound), "another upgrade");
    }
}
