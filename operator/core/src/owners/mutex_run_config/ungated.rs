//! The nodes that changed without their rules, and why. Nothing here decides what follows.

use super::{in_force::InForce, member::Member, run_view::RunView};
use crate::{
    observed::ChangeView,
    rules::inline,
    text::first_of,
    turn::{journal, ungated::released_by_other},
};
use numo_api::Step;
use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
};

/// The nodes that changed in this run without rules: those that are known, those whose journals say so, and those that
/// changed while nobody looked.
pub(super) fn nodes(view: &RunView<'_>) -> BTreeMap<String, String> {
    let run = view.run.status.run.as_ref();
    let known = run.filter(|run| run.id == view.run_id && !view.run_id.is_empty());
    let known: BTreeSet<&String> = known.into_iter().flat_map(|run| &run.ungated).collect();
    let unseen = unseen(view);
    let told = |member: &&Member<'_>| {
        let told = member.change.is_some_and(journal::tells_ungated);
        let name = member.node.name.as_str();
        known.contains(&member.node.name) || told || unseen.contains(name)
    };
    let mut all: BTreeMap<String, String> = known
        .iter()
        .map(|name| ((*name).clone(), no_rule_asked(view)))
        .collect();
    let found = view.members.iter().filter(told);
    all.extend(found.map(|member| (member.node.name.clone(), why(view, member))));
    all
}

/// The nodes that have left the version that all nodes were at when they were seen last, though no rules let them go: for
/// the target, or for a version in between that they are still at.
fn unseen<'a>(view: &RunView<'a>) -> BTreeSet<&'a str> {
    let settled = view.run.status.settled.as_ref();
    // In a dry run they are meant to roll. Of the same version any configuration may have been rolled to.
    let settled = settled.filter(|settled| {
        let desired = view.desired.as_ref();
        let other = desired.is_ok_and(|desired| *desired != settled.version || view.intent.any_config);
        other && !view.intent.dry_run
    });
    let since = settled.and_then(|settled| Some((settled, journal::time(Some(&settled.at))?)));
    let Some((settled, since)) = since else {
        return BTreeSet::new();
    };
    let changes = view.observed.changes.values();
    let released: Vec<&ChangeView> = changes.filter(|change| was_released(view, change)).collect();
    // By the rules of this run, or of another one over the same pools.
    let to_target = |change: &&ChangeView| {
        let target = &change.spec.target;
        if view.intent.any_config && change.spec.owner_ref.uid == view.run.uid {
            target.run_id == view.run_id
        } else {
            view.desired.as_ref() == Ok(&target.version)
        }
    };
    let to_target = released.iter().copied().filter(to_target);
    let gated: BTreeSet<&str> = to_target.map(|change| change.spec.node_uid.as_str()).collect();
    // Also of a run that went to another version and was overtaken, which is rare.
    let gated_to = LazyCell::new(|| -> BTreeSet<(&str, &str)> {
        let specs = released.iter().map(|change| &change.spec);
        specs
            .map(|spec| (spec.node_uid.as_str(), spec.target.version.as_str()))
            .collect()
    });
    let is_in_between = |member: &Member<'_>| {
        let version = member.version.filter(|_| member.done);
        version.is_some_and(|version| {
            let desired = view.desired.as_ref();
            let elsewhere = settled.version != version && desired.is_ok_and(|desired| desired != version);
            elsewhere && !gated_to.contains(&(member.node.uid.as_str(), version))
        })
    };
    let members = view.members.iter().filter(|member| {
        let rolled = !settled.configs.iter().any(|config| config == member.current);
        let is_gated = gated.contains(member.node.uid.as_str());
        let unseen = !is_gated && view.at_target(member) || is_in_between(member);
        member.node.created < since && rolled && unseen
    });
    members.map(|member| member.node.name.as_str()).collect()
}

/// Whether rules have let the node of this journal go.
fn was_released(view: &RunView<'_>, change: &ChangeView) -> bool {
    let mut entries = change.status.entries.iter();
    view.observed.is_trusted(change)
        && entries.any(|entry| entry.step == Step::Released)
        && !journal::tells_ungated(change)
}

/// Why a node that changes, or has changed, did so without its rules, in words.
pub(super) fn why(view: &RunView<'_>, member: &Member<'_>) -> String {
    let of_turn = member.change.filter(|change| {
        let mut entries = change.status.entries.iter();
        change.spec.target.run_id == view.run_id && entries.any(|entry| entry.step == Step::PreRules)
    });
    of_turn.map_or_else(
        || no_rule_asked(view),
        |change| {
            let terms = change.status.pin.as_ref().and_then(|pin| pin.terms.as_ref());
            let rules = InForce::of(&view.intent, view.observed, terms).rules;
            released_by_other(&rules, &change.status)
        },
    )
}

fn no_rule_asked(view: &RunView<'_>) -> String {
    let rules = view.intent.rules.iter().map(|(key, _)| inline::named(key));
    let first = match first_of(rules, 1) {
        none if none.is_empty() => none,
        first => format!(": {first}"),
    };
    let cause = if view.intent.roll_on_refusal {
        "its pool was not held (spec.onRefusal: Roll)"
    } else {
        "its pool was not paused when it began"
    };
    format!("{cause}, and no rule was evaluated{first}")
}
