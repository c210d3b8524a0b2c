//! What a MutexRunConfig or a Plan waits for, and its nodes in flight.

use super::{explanation::Explanation, took::took, window::own_hours};
use crate::cli::{
    live::{self, Look},
    named::Named,
    remarked::Remark,
    remedy,
};
use numo_api::{Phase, Step, marks};
use numo_core::{Decision, Owner, observed::Key, report::Report, suspended::suspended, text::counted};

/// A Plan: what it waits for, who can end it, and its nodes in flight.
pub(super) fn plan(look: &Look, key: &Key, decision: &Decision) -> Explanation {
    let report = &decision.report;
    let standing = live::plan_words(look, key, report);
    let (reason, who) = (standing.reason, standing.who);
    let owner = Owner::plan(key.clone());
    let mut one = Explanation::of_owner(Named::owner(&owner), standing);
    one.tell_pause(suspended(&look.store.observed, &owner));
    let said = (reason, who, one.message.as_str());
    one.commands = remedy::of_owner(look, &owner, report, said);
    one.target.clone_from(&report.target);
    if !report.nodes.is_empty() {
        one.link("nodes", progress(look, &owner, report));
    }
    own_hours(&mut one, look, &owner);
    waves(&mut one, report);
    one.behind("flight", report, "");
    one.left_out(report);
    took(&mut one, look, &owner, report);
    let view = look.store.observed.plans.get(key);
    one.directives = view.map_or_else(Vec::new, |view| Remark::kept(view.annotations.get(marks::SAID)));
    one
}

/// A NodeVersion: what it waits for, who can end it, and its nodes in flight.
pub(super) fn version(look: &Look, key: &Key, decision: &Decision) -> Explanation {
    let report = &decision.report;
    let standing = live::version_words(look, key, report);
    let (reason, who) = (standing.reason, standing.who);
    let owner = Owner::node_version(key.name.as_str());
    let mut one = Explanation::of_owner(Named::owner(&owner), standing);
    one.tell_pause(suspended(&look.store.observed, &owner));
    let said = (reason, who, one.message.as_str());
    one.commands = remedy::of_owner(look, &owner, report, said);
    one.target.clone_from(&report.target);
    for problem in &report.problems {
        one.link("wrong", format!("{}: {}", problem.reason, problem.message));
    }
    if !report.nodes.is_empty() {
        one.link("nodes", progress(look, &owner, report));
    }
    own_hours(&mut one, look, &owner);
    waves(&mut one, report);
    one.behind("flight", report, "");
    one.left_out(report);
    took(&mut one, look, &owner, report);
    let annotations = look.annotations(&owner);
    one.directives = Remark::kept(annotations.and_then(|all| all.get(marks::SAID)));
    one
}

/// The wave under way, and what a person should know of all.
pub(super) fn waves(one: &mut Explanation, report: &Report) {
    if let Some(wave) = &report.wave {
        one.link("wave", wave.to_string());
        for note in &wave.notes {
            one.link("waves", note.clone());
        }
    }
    if let Some(waits) = &report.approval {
        one.link(
            "approval",
            format!("{} is not approved: {}", waits.point, waits.why.message),
        );
    }
    for approved in &report.approved {
        let (point, by, name) = (&approved.point, &approved.by, &approved.name);
        let words = format!(
            "{point} is approved by {by} (MutexApproval {name}): {}",
            approved.reason
        );
        one.link("approval", words);
    }
    for note in &report.notes {
        one.link("note", note.clone());
    }
}

fn progress(look: &Look, owner: &Owner, report: &Report) -> String {
    let done = report.count(|node| node.step == Step::Done);
    let all = report.nodes.len();
    if done == all {
        return format!("{done} of {all} done");
    }
    let eta = live::eta_words(live::eta(look, owner, report).as_ref());
    format!("{done} of {all} done; the rest: {eta}")
}

pub(super) fn run(look: &Look, key: &Key, decision: &Decision) -> Explanation {
    let report = &decision.report;
    let standing = live::said(look, key, report);
    let (reason, who) = (standing.reason, standing.who);
    let owner = Owner::run(key.clone());
    let mut one = Explanation::of_owner(Named::owner(&owner), standing);
    one.tell_pause(suspended(&look.store.observed, &owner));
    let said = (reason, who, one.message.as_str());
    one.commands = remedy::of_owner(look, &owner, report, said);
    one.target.clone_from(&report.target);
    for problem in &report.problems {
        one.link("wrong", format!("{}: {}", problem.reason, problem.message));
    }
    let view = look.store.observed.runs.get(key);
    if let Some(run) = view.and_then(|run| run.status.run.as_ref()) {
        for verdict in run
            .verdicts
            .iter()
            .filter(|verdict| verdict.phase == Phase::PreRun)
        {
            let message = format!(
                "rule {} {:?} in {}: {}",
                verdict.rule,
                verdict.outcome,
                verdict.phase.name(),
                verdict.message.as_deref().unwrap_or_default()
            );
            one.link("rule", message);
        }
        for wait in &run.waiting {
            let message = format!(
                "{}, for example {}: {}: {}",
                counted(usize::try_from(wait.count).unwrap_or(0), "node"),
                wait.node,
                wait.reason,
                wait.message
            );
            one.link("waits", message);
        }
        for node in &run.ungated {
            one.link("ungated", format!("Node {node} changed without its rules"));
        }
    }
    if !report.nodes.is_empty() {
        one.link("nodes", progress(look, &owner, report));
    }
    own_hours(&mut one, look, &owner);
    waves(&mut one, report);
    one.behind("flight", report, "");
    one.left_out(report);
    took(&mut one, look, &owner, report);
    one.directives = view.map_or_else(Vec::new, |view| Remark::kept(view.annotations.get(marks::SAID)));
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::sample;
    use jiff::Timestamp;
    use numo_api::{MutexRunConfigSpec, Reason, marks};

    #[test]
    fn a_run_that_is_refused_and_paused_says_both() {
        let paused = [(marks::SUSPEND, "pause by ada: friday")];
        let spec = || MutexRunConfigSpec {
            suspend: Some(true),
            ..MutexRunConfigSpec::default()
        };
        for (annotations, spec, words) in [
            (
                paused.as_slice(),
                MutexRunConfigSpec::default(),
                "also    Suspended: MutexRunConfig ops/upgrade is paused by ada: friday; ends by a cluster administrator",
            ),
            (
                &[],
                spec(),
                "also    Suspended: MutexRunConfig ops/upgrade has spec.suspend: true",
            ),
        ] {
            let look = Look::of(
                sample::store(annotations, spec),
                Vec::new(),
                Timestamp::UNIX_EPOCH,
            );
            let (key, decision) = &look.runs[0];
            let one = run(&look, key, decision);
            assert_eq!(one.reason, Some(Reason::TargetNotFound));
            let text = sample::plain(&one.text(look.now));
            assert!(text.contains(words), "{text}");
        }
        let store = sample::store(&[], MutexRunConfigSpec::default());
        let look = Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH);
        let text = run(&look, &look.runs[0].0, &look.runs[0].1).text(look.now);
        assert!(!text.contains("Suspended"), "{text}");
        assert!(!text.contains("hours"), "{text}");
    }

    #[test]
    fn hours_that_are_open_say_until_when() {
        let store = sample::with_hours(sample::store(&[], MutexRunConfigSpec::default()));
        let look = Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH);
        let text = sample::plain(&run(&look, &look.runs[0].0, &look.runs[0].1).text(look.now));
        let words = "hours   spec.window: open until Thu 1970-01-01 02:00 UTC";
        assert!(text.contains(words), "{text}");
    }
}
