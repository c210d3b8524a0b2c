//! The waves of a run: how each of its nodes stands.

use super::{gates, member::Member, run_view::RunView};
use crate::{
    admit::{
        approval::{About, Approvals},
        notes,
        rows::{Row, Stand},
        wave_rules,
        waves::Waves,
    },
    failures, ledger,
    turn::{
        directive::{retry_asked, skip_asked},
        journal,
    },
};
use std::collections::BTreeSet;

/// The waves of the run.
fn waves<'a>(view: &RunView<'a>) -> Waves<'a> {
    if view.intent.waves.is_empty() && !view.intent.approval.is_any() {
        return Waves::default();
    }
    let elsewhere = gates::run::held_elsewhere(view);
    let changes = view.changes();
    let of_run = changes.filter(|change| change.spec.target.run_id == view.run_id);
    let failed = failures::failed(view.observed, of_run).into_iter();
    let failed: BTreeSet<&str> = failed.map(|change| change.spec.node_uid.as_str()).collect();
    let row = |member: &Member<'a>| Row {
        node: member.node,
        name: &member.node.name,
        pool: &member.pool.name,
        change: member.change,
        in_flight: member.in_flight().is_some(),
        has_failed: failed.contains(member.node.uid.as_str()),
        stand: stand(view, member, elsewhere.contains_key(member.pool.name.as_str())),
    };
    let rows: Vec<Row<'a>> = view.members.iter().map(row).collect();
    Waves::of(&view.intent.waves, &rows, view.now)
}

/// Which nodes of a run go before others, and what a person has approved of it.
pub(super) type Order<'a> = (Waves<'a>, Approvals);

/// Both, once a decision.
pub(super) fn order<'a>(view: &RunView<'a>) -> Order<'a> {
    let waves = waves(view);
    let approvals = approvals(view, &waves);
    (waves, approvals)
}

/// What of the run was approved, and what waits for that.
fn approvals(view: &RunView<'_>, waves: &Waves<'_>) -> Approvals {
    let subject = || {
        let changes = view.changes();
        let of_run = changes.filter(|change| change.spec.target.run_id == view.run_id);
        About {
            owner: view.owner,
            uid: &view.run.uid,
            specs: vec![("spec", serde_json::to_value(&view.run.spec).unwrap_or_default())],
            target: [&view.run_id, view.desired.as_ref().map_or("", String::as_str)],
            rules: wave_rules::of_all(&view.intent.rules, &view.intent.waves, view.observed),
            failed: failures::failed(view.observed, of_run),
        }
    };
    Approvals::of(&view.intent.approval, waves, view.observed, view.now, subject)
}

/// A node that is in its soak time is not done. One of a pool that another run holds has no turn before that run lets it go, and nobody
/// waits for it.
pub(super) fn stand(view: &RunView<'_>, member: &Member<'_>, is_elsewhere: bool) -> Stand {
    if member.in_flight().is_none() && view.at_target(member) {
        return Stand::Done(member.change.and_then(journal::done_at));
    }
    let is_left_out = member.left_out().is_some_and(|change| !retry_asked(change))
        || member.change.is_some_and(skip_asked)
        || is_elsewhere;
    if is_left_out || view.given_up(member).is_some() {
        return Stand::LeftOut(member.change.and_then(journal::ended_at));
    }
    let goes_on = match member.in_flight() {
        Some(change) => !ledger::is_kept(view.observed, change, view.now),
        None => member.node.ready,
    };
    Stand::Behind { goes_on }
}

/// What the run asks for and no node of it has.
pub(super) fn notes(view: &RunView<'_>) -> Vec<String> {
    let given = notes::Given {
        waves: &view.intent.waves,
        keys: ("spec.mutexKeys", view.intent.mutex_keys.iter().collect()),
    };
    notes::of_nobody(&given, &view.members.iter().map(|member| member.node))
}
