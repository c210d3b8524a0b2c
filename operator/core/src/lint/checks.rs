//! Checks that are the same for every owner. Each is of an invariant of the design, by its number.

use crate::{
    action::{JobRequest, MachinePatch},
    admit::schedule::Schedule,
    key::Key,
    ledger, names,
    observed::{ChangeView, JobView, NodeView, Observed, RuleView},
    place, rules,
    turn::believed::{Believed, is_marked},
};
use jiff::Timestamp;
use numo_api::{Outcome, Phase, VerdictRecord};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Number of the invariant in the design.
    pub invariant: u8,
    /// What would have happened.
    pub message: String,
}

/// What a check comes to.
pub type Checked = Result<(), Breach>;

/// A breach of the invariant with this number.
pub fn breach<T>(invariant: u8, message: String) -> Result<T, Breach> {
    Err(Breach { invariant, message })
}

/// 3: the node with this name and uid; whatever uid it has, if none is asked for.
pub fn here<'a>(observed: &'a Observed, name: &str, uid: Option<&str>) -> Result<&'a NodeView, Breach> {
    let node = observed.nodes.get(name);
    match node.filter(|node| uid.is_none_or(|uid| uid == node.uid)) {
        Some(node) => Ok(node),
        None => breach(3, format!("{name} ({}) does not exist", uid.unwrap_or("any"))),
    }
}

/// 13: nothing is done to the node while a person has stopped it.
pub fn not_stopped(observed: &Observed, node: &NodeView, what: &str) -> Checked {
    ledger::stop(observed, node).map_or(Ok(()), |why| {
        let message = format!("{} would be {what} while stopped: {}", node.name, why.message);
        breach(13, message)
    })
}

/// 13: nothing is begun while the hours of the owner or the MutexWindows of the node are closed, or nobody understands them.
pub fn in_hours(
    schedule: Result<Schedule<'_>, String>,
    (observed, node): (&Observed, &NodeView),
    what: &str,
    now: Timestamp,
) -> Checked {
    let closed = match schedule {
        Ok(schedule) => schedule.closed_to(node, observed, now).map(|why| why.message),
        Err(problem) => Some(problem.into()),
    };
    closed.map_or(Ok(()), |words| {
        breach(13, format!("{} would be {what} out of hours: {words}", node.name))
    })
}

/// 1: each of these rules has passed in these phases of the node's attempt, and no Pass is too old.
pub fn passed(
    rules: &[(Key, Option<&RuleView>)],
    node: &str,
    (change, phases): (&ChangeView, &[Phase]),
    now: Timestamp,
) -> Checked {
    for (key, rule) in rules {
        let Some(rule) = rule else {
            return breach(1, format!("{node}: rule {key} does not exist"));
        };
        for phase in phases.iter().filter(|phase| rule.runs_in(**phase)) {
            let attempt = change.status.attempt.max(1);
            let last = rules::last_word(&change.status.verdicts, key, *phase, attempt);
            fresh(node, rule, *phase, last, now)?;
        }
    }
    Ok(())
}

/// 1: a rule has passed, of its edition of now, and no longer ago than its Pass counts.
fn fresh(node: &str, rule: &RuleView, phase: Phase, last: Option<&VerdictRecord>, now: Timestamp) -> Checked {
    let (key, phase) = (&rule.key, phase.name());
    match last.filter(|verdict| verdict.outcome == Outcome::Pass) {
        None => breach(1, format!("{node}: rule {key} has not passed in phase {phase}")),
        Some(verdict) if !rules::is_fresh(rule, verdict, now) => breach(
            1,
            format!(
                "{node}: the Pass of rule {key} in phase {phase} is of {} and of edition {}, wanted one of the last {} s and of edition {}",
                verdict.ended_at.as_deref().unwrap_or(&verdict.at),
                verdict.edition.as_deref().unwrap_or("unknown"),
                rule.pass_seconds,
                rule.edition()
            ),
        ),
        Some(_) => Ok(()),
    }
}

/// 4: only the lease that an owner holds itself is given back.
pub fn lease_is_ours(observed: &Observed, node: &str, holder: &str) -> Checked {
    match observed.leases.get(node) {
        Some(lease) if lease.holder == holder => Ok(()),
        _ => breach(4, format!("the lease of {node} is not ours to release")),
    }
}

/// 3: one Job for each attempt.
pub fn job_may_run(observed: &Observed, job: &JobRequest) -> Checked {
    let is_same = |(key, view): &(&Key, &JobView)| {
        let same = names::attempt_of(&key.name) == names::attempt_of(&job.job.name);
        **key == job.job || view.runs() && view.run == job.run && same
    };
    if let Some((other, _)) = observed.jobs.iter().find(is_same) {
        return breach(
            3,
            format!("Job {other} of the attempt of Job {} exists already", job.job),
        );
    }
    let rule = observed.rules.get(&job.rule);
    let refusal = rule.and_then(|rule| place::refusal(rule, observed));
    refusal.map_or(Ok(()), |(_, message)| {
        breach(17, format!("Job {}: {message}", job.job))
    })
}

/// 4: only our own shield or pause is taken off, and nobody's who has only written that it is ours.
pub fn machine_patch(observed: &Observed, owner_uid: &str, patch: &MachinePatch) -> Checked {
    let believed = Believed::of(observed);
    let place = (patch.api, patch.key.clone());
    let is_ours = if patch.purpose.is_of_health_check() {
        believed.checks(owner_uid).any(|(found, _)| *found == place)
    } else {
        let machine = observed.machines.get(&place);
        let machine = machine.filter(|machine| is_marked(&machine.object.annotations, owner_uid));
        machine.is_some_and(|machine| believed.is_machine(owner_uid, &place, machine))
    };
    if patch.purpose.restores() && !is_ours {
        return breach(4, format!("the mark of {} is not ours", patch.key));
    }
    Ok(())
}
