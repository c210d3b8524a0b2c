//! Pools: armed before anything rolls, set up for the canary strategy, and given back at the end.
//!
//! Leaving a run never releases a node: a pool with outdated nodes is unpaused only if the owner asks
//! for exactly that (`onExit: Unpause`).

use super::{
    labels,
    run_decision::RunDecision,
    run_view::{Member, at_target},
};
use crate::{
    action::{Action, Change, Event, EventAction, NodePatch, NodePurpose, Planned, PoolPatch, PoolPurpose},
    mark::{self, LabelledBy, PausedBy, PriorSelector},
    names,
    observed::{NodeView, PoolView},
    owners::mutex_run_config::gates::{
        self,
        written::{MAX_CORRECTIONS, is_of_a_run, labels_hash},
    },
    pools::{self, BUILT_IN},
    why::Why,
};
use numo_api::{
    Reason, Strategy,
    marks::{self, openshift},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A custom pool's members stay in it only while they carry the rule labels, once its selector asks for
/// them; built-in pools are never patched, and a custom pool wins over `worker` anyway.
pub(super) fn needs_labels_to_stay(pool: &PoolView) -> bool {
    !BUILT_IN.contains(&pool.name.as_str())
}

/// Pauses the target pools before anything rolls, and again if someone unpaused one. Of a run that is refused the events
/// say that the pools are held, and for what.
pub fn arm(decision: &mut RunDecision<'_>, refusal: Option<&Why>) {
    let uid = decision.view.run.uid.clone();
    let pools: Vec<&PoolView> = decision.view.intent.pools.clone();
    let mut planned = Vec::new();
    for pool in pools {
        let mark = mark::paused_by(pool);
        match mark {
            Some(mark) if mark.owner == uid => {
                if !pool.paused && mark.corrections < MAX_CORRECTIONS {
                    // Whoever unpaused it no longer means a pause of before.
                    let next = PausedBy {
                        corrections: mark.corrections + 1,
                        prior: false,
                        ..mark
                    };
                    planned.push((pool, next, true));
                } else if mark.outdated.is_some() {
                    planned.push((
                        pool,
                        PausedBy {
                            outdated: None,
                            ..mark
                        },
                        false,
                    ));
                }
            }
            // Another live run's pool, or one paused by someone else: the gates say so.
            Some(_) if gates::run::held_by_run(decision.view, pool).is_some() => {}
            None if pool.paused && !decision.view.intent.adopt_paused => {}
            Some(_) if mark::is_outlived(pool) && !decision.view.intent.adopt_paused => {}
            // A mark of an owner that is gone: its hold is taken over with what it remembers.
            orphan => {
                let held = orphan.filter(|_| !mark::is_outlived(pool));
                let prior = held.map_or(pool.paused, |mark| mark.prior);
                let name = decision.view.run.key.to_string();
                planned.push((
                    pool,
                    PausedBy {
                        owner: uid.clone(),
                        name,
                        prior,
                        corrections: 0,
                        outdated: None,
                    },
                    false,
                ));
            }
        }
    }
    if planned.is_empty() {
        return;
    }
    add_finalizer(decision);
    for (pool, mark, again) in planned {
        let (reason, note) = if again {
            let who = pool.paused_manager.as_deref().unwrap_or("someone");
            (
                "PausedAgain",
                format!(
                    "MachineConfigPool {} was unpaused by {who} and is paused again",
                    pool.name
                ),
            )
        } else if let Some(why) = refusal {
            let note = format!(
                "MachineConfigPool {} is paused and held, no node of it changes: {}: {}",
                pool.name, why.reason, why.message
            );
            ("UpgradeHeld", note)
        } else {
            ("PoolPaused", format!("MachineConfigPool {} is paused", pool.name))
        };
        let event = event(EventAction::Pause, again || refusal.is_some(), reason, note);
        let patch = PoolPatch {
            pool: pool.name.clone(),
            uid: pool.uid.clone(),
            purpose: PoolPurpose::Pause,
            paused: Some((pool.paused, true)),
            selector: None,
            config: None,
            annotation: annotation(pool, marks::PAUSED_BY, Some(mark::render(&mark))),
            has_annotations: pool.has_annotations,
        };
        decision.act("run", Action::PatchPool(patch), Some(event));
    }
}

/// Puts the finalizer back that somebody has taken off while marks are there: without it nobody would take them back when
/// the run is deleted.
pub fn keep_finalizer(decision: &mut RunDecision<'_>) {
    let restores = decision
        .out
        .actions
        .iter()
        .any(|planned| restores(&planned.action));
    if decision.view.run.deleting || restores || !decision.view.holds_anything() {
        return;
    }
    let adds = |planned: &Planned| matches!(planned.action, Action::AddFinalizer { .. });
    if !decision.out.actions.iter().any(adds) {
        add_finalizer(decision);
    }
}

fn add_finalizer(decision: &mut RunDecision<'_>) {
    let run = decision.view.run;
    if !run
        .finalizers
        .iter()
        .any(|finalizer| finalizer == marks::FINALIZER)
    {
        let action = Action::AddFinalizer {
            owner: decision.view.owner.clone(),
            uid: run.uid.clone(),
            finalizer: marks::FINALIZER,
        };
        decision.act("run", action, None);
    }
}

fn event(action: EventAction, warning: bool, reason: &'static str, note: String) -> Event {
    Event {
        node: None,
        warning,
        reason,
        action,
        note,
    }
}

fn annotation(pool: &PoolView, key: &str, to: Option<String>) -> Change {
    Change {
        key: key.to_owned(),
        from: pool.annotations.get(key).cloned(),
        to,
    }
}

/// CanaryPool: labels every node of the run, then sets the selectors. Returns what is still missing.
pub fn set_up(decision: &mut RunDecision<'_>) -> Option<Why> {
    if decision.view.intent.strategy != Strategy::CanaryPool {
        label_joiners(decision);
        return None;
    }
    let unlabelled = label(decision);
    decision.out.report.labels_applied = Some(unlabelled == 0);
    if unlabelled > 0 {
        decision.out.report.selectors_applied = Some(false);
        return Some(Why::new(
            Reason::PoolsPausing,
            format!("{unlabelled} nodes get their rule labels first"),
        ));
    }
    if let Some(why) = earlier_run_in_canary(decision) {
        return Some(why);
    }
    if let Some(why) = restore_stale(decision) {
        decision.out.report.selectors_applied = Some(false);
        return Some(why);
    }
    let missing = match select(decision) {
        Ok(missing) => missing,
        Err(why) => {
            decision.out.report.selectors_applied = Some(false);
            return Some(why);
        }
    };
    decision.out.report.selectors_applied = Some(missing.is_empty());
    (!missing.is_empty()).then(|| {
        Why::new(
            Reason::PoolsPausing,
            format!("the node selectors of {} are being set", missing.join(", ")),
        )
    })
}

/// A canary or a target that the spec no longer names gets its selector back before another one is set, once
/// nobody is in the canary by it: a node would match both.
fn restore_stale(decision: &mut RunDecision<'_>) -> Option<Why> {
    let view = decision.view;
    let named = |pool: &PoolView| {
        view.intent.canary.is_some_and(|canary| canary.name == pool.name)
            || view.intent.pools.iter().any(|target| target.name == pool.name)
    };
    let stale: BTreeSet<String> = view
        .observed
        .pools
        .values()
        .filter(|pool| mark::prior_selector(pool).is_some_and(|mark| mark.owner == view.run.uid))
        .filter(|pool| !named(pool))
        .map(|pool| pool.name.clone())
        .collect();
    let first = stale.first()?;
    let inside = view
        .observed
        .nodes
        .values()
        .find(|node| view.labelled_by_us(node) && !node.label(marks::RELEASE).is_empty());
    if let Some(node) = inside {
        let message = format!(
            "Node {} comes home before MachineConfigPool {first}, which the spec no longer names, gets its node \
             selector back",
            node.name
        );
        return Some(Why::new(Reason::ConfigChanged, message));
    }
    let message =
        format!("MachineConfigPool {first}, which the spec no longer names, gets its node selector back");
    restore_selectors(decision, &|pool| stale.contains(&pool.name));
    Some(Why::new(Reason::PoolsPausing, message))
}

/// Nodes that an earlier run let go are in the canary pool by that run's selector: they come home first.
fn earlier_run_in_canary(decision: &RunDecision<'_>) -> Option<Why> {
    let in_canary =
        |member: &&Member<'_>| member.superseded.is_some() && !member.node.label(marks::RELEASE).is_empty();
    let member = decision.view.members.iter().find(in_canary)?;
    let message = format!(
        "Node {} comes home from the canary pool before the next run begins",
        member.node.name
    );
    Some(Why::new(Reason::ConfigChanged, message))
}

/// Nodes that joined a pool whose selector numo has set must carry the labels it asks for, or they are in
/// no pool; whatever else holds the run.
pub fn label_joiners(decision: &mut RunDecision<'_>) {
    let uid = &decision.view.run.uid;
    let selected = decision
        .view
        .observed
        .pools
        .values()
        .any(|pool| mark::prior_selector(pool).is_some_and(|mark| mark.owner == *uid));
    if selected {
        label(decision);
    }
}

/// Pauses the canary pool when its configuration moves on under nodes that were let go to another one,
/// and opens it again when they are out of it.
pub fn tend_canary(decision: &mut RunDecision<'_>) {
    let targets = &decision.view.intent.pools;
    // One that is a target as well, by a slip, is paused as a target.
    let is_target = |canary: &&PoolView| targets.iter().any(|pool| pool.name == canary.name);
    let Some(canary) = decision.view.intent.canary.filter(|canary| !is_target(canary)) else {
        return;
    };
    let (uid, name) = (decision.view.run.uid.clone(), decision.view.run.key.to_string());
    let wanted = pools::content(&canary.config);
    let dragged = decision.view.members.iter().any(|member| {
        let pin = member.in_flight().and_then(|change| change.status.pin.as_ref());
        let desired = pools::content(member.node.annotation(openshift::DESIRED_CONFIG));
        // Also one that the MCO has not taken up yet: it would take it to what is wanted by now.
        !member.node.label(marks::RELEASE).is_empty()
            && pin.is_some_and(|pin| pools::content(&pin.rendered_config) != wanted)
            && desired != wanted
    });
    let found = mark::paused_by(canary).filter(|mark| mark.owner == uid);
    let corrections = found.as_ref().map_or(0, |mark| mark.corrections + 1);
    let (purpose, to, mark, event) = match (dragged, canary.paused, found.is_some()) {
        (true, false, _) if corrections <= MAX_CORRECTIONS => {
            let mark = PausedBy {
                owner: uid,
                name,
                prior: false,
                corrections,
                outdated: None,
            };
            let note = format!(
                "MachineConfigPool {} is paused: its configuration moved on to {}",
                canary.name, canary.config
            );
            let event = event(EventAction::Pause, true, "PoolPaused", note);
            (PoolPurpose::Pause, true, Some(mark::render(&mark)), event)
        }
        (false, true, true) => {
            let note = format!("MachineConfigPool {} is unpaused", canary.name);
            let event = event(EventAction::Unpause, false, "PoolUnpaused", note);
            (PoolPurpose::Unpause, false, None, event)
        }
        _ => return,
    };
    let patch = PoolPatch {
        pool: canary.name.clone(),
        uid: canary.uid.clone(),
        purpose,
        paused: Some((canary.paused, to)),
        selector: None,
        config: Some(canary.config.clone()),
        annotation: annotation(canary, marks::PAUSED_BY, mark),
        has_annotations: canary.has_annotations,
    };
    decision.act("run", Action::PatchPool(patch), Some(event));
}

/// Labels the nodes that have yet to pass their rules, and all nodes of custom pools. Returns how many
/// were not labelled.
fn label(decision: &mut RunDecision<'_>) -> usize {
    let members = &decision.view.members;
    let uid = decision.view.run.uid.clone();
    let wanted = labels_hash(decision.view);
    let elsewhere = gates::run::held_elsewhere(decision.view);
    let mut unlabelled = 0;
    for member in members {
        let node = member.node;
        let released = !node.label(marks::RELEASE).is_empty();
        let waits =
            !at_target(decision.view, member) && member.in_flight().is_none() && member.left_out().is_none();
        let waits = waits
            && member
                .change
                .is_none_or(|change| change.status.step != Some(numo_api::Step::Done));
        let ours = !elsewhere.contains_key(member.pool.name.as_str());
        if released || !ours || !(waits || needs_labels_to_stay(member.pool)) {
            continue;
        }
        let labels = if needs_labels_to_stay(member.pool) {
            labels::labels_to_stay(decision, member)
        } else {
            labels::rule_labels_on(decision, node)
        };
        let found = mark::labelled_by(node).filter(|mark| mark.owner == uid);
        if labels.is_empty() && found.is_some() {
            continue;
        }
        unlabelled += 1;
        // Labels of another run or other rules are missing by nobody's doing.
        let again = found.filter(|mark| mark.labels == wanted);
        let corrections = again.map_or(0, |mark| mark.corrections + 1);
        if corrections > MAX_CORRECTIONS {
            continue;
        }
        let mark = LabelledBy {
            owner: &uid,
            labels: &wanted,
            corrections,
        };
        let patch = NodePatch {
            labels,
            annotations: vec![Change {
                key: marks::LABELLED_BY.to_owned(),
                from: node.annotations.get(marks::LABELLED_BY).cloned(),
                to: Some(mark.render()),
            }],
            ..NodePatch::of(node, NodePurpose::Label)
        };
        decision.act(&node.name, Action::PatchNode(patch), None);
    }
    unlabelled
}

/// Sets the selectors of the canary and of custom targets. Returns the pools that did not have theirs, or
/// why no selector may be set.
fn select(decision: &mut RunDecision<'_>) -> Result<Vec<String>, Why> {
    let mut wanted: Vec<(&PoolView, Value)> = Vec::new();
    if let Some(canary) = decision.view.intent.canary {
        wanted.push((canary, canary_selector(decision, canary)));
    }
    for pool in
        decision.view.intent.pools.iter().filter(|pool| {
            needs_labels_to_stay(pool) && gates::run::held_by_run(decision.view, pool).is_none()
        })
    {
        wanted.push((pool, target_selector(decision, pool)));
    }
    homeless(decision, &wanted)?;
    let uid = decision.view.run.uid.clone();
    let mut missing = Vec::new();
    for (pool, selector) in wanted {
        let mark = mark::prior_selector(pool);
        if pool.selector == selector && mark.as_ref().is_some_and(|mark| mark.owner == uid) {
            continue;
        }
        missing.push(pool.name.clone());
        let corrections = match &mark {
            None => 0,
            // Set by numo for other rules or an earlier run: nobody else wrote it.
            Some(mark) if is_of_a_run(&pool.selector) => mark.corrections,
            Some(mark) => mark.corrections + 1,
        };
        // One of a run without its mark is not to be taken for the user's: the run is held (`ForeignWriter`).
        if corrections > MAX_CORRECTIONS || (mark.is_none() && is_of_a_run(&pool.selector)) {
            continue;
        }
        let prior = mark.map_or_else(|| pool.selector.clone(), |mark| mark.prior);
        let mark = PriorSelector {
            owner: uid.clone(),
            prior,
            corrections,
        };
        let note = format!(
            "the node selector of MachineConfigPool {} is set for the run",
            pool.name
        );
        let event = event(EventAction::Pause, false, "SelectorSet", note);
        let patch = PoolPatch {
            pool: pool.name.clone(),
            uid: pool.uid.clone(),
            purpose: PoolPurpose::Select,
            paused: None,
            selector: Some((pool.selector.clone(), selector)),
            config: None,
            annotation: annotation(pool, marks::PRIOR_NODE_SELECTOR, Some(mark::render(&mark))),
            has_annotations: pool.has_annotations,
        };
        decision.act("run", Action::PatchPool(patch), Some(event));
    }
    Ok(missing)
}

/// Fails if a node would match two custom pools, or none, under the wanted selectors, and does not now.
fn homeless(decision: &RunDecision<'_>, wanted: &[(&PoolView, Value)]) -> Result<(), Why> {
    let pools = &decision.view.observed.pools;
    let later: Vec<(&str, &Value)> = pools
        .values()
        .map(|pool| {
            let set = wanted.iter().find(|(other, _)| other.name == pool.name);
            (
                pool.name.as_str(),
                set.map_or(&pool.selector, |(_, selector)| selector),
            )
        })
        .collect();
    if pools
        .values()
        .all(|pool| later.contains(&(pool.name.as_str(), &pool.selector)))
    {
        return Ok(());
    }
    for node in decision.view.observed.nodes.values() {
        let now = || {
            let now = pools.values().map(|pool| (pool.name.as_str(), &pool.selector));
            pools::home(&node.labels, now)
        };
        let name = &node.name;
        match pools::home(&node.labels, later.iter().copied()) {
            pools::Home::None if now() != pools::Home::None => {
                let message = format!(
                    "Node {name} would be in no MachineConfigPool under the run's node selectors, wanted one"
                );
                return Err(Why::new(Reason::NodeInNoPool, message));
            }
            pools::Home::Several(names) if !matches!(now(), pools::Home::Several(_)) => {
                let message = format!(
                    "Node {name} would match the custom pools {} under the run's node selectors, wanted one",
                    names.join(", ")
                );
                return Err(Why::new(Reason::NodeInTwoPools, message));
            }
            pools::Home::Pool(pool) => {
                // One that numo let go belongs in the canary: someone else's selector put it into a second pool.
                if node.label(marks::RELEASE).is_empty()
                    && let pools::Home::Several(names) = now()
                {
                    let message = format!(
                        "Node {name} matches the custom pools {}, and would be in {pool} alone under the run's node \
                         selectors and roll there; wanted one of them before",
                        names.join(", ")
                    );
                    return Err(Why::new(Reason::NodeInTwoPools, message));
                }
            }
            pools::Home::None | pools::Home::Several(_) => {}
        }
    }
    Ok(())
}

/// The canary's selector during a run: the user's expressions without the parking key, no rule label,
/// and the release label of this run. Outsiders and late joiners never match it.
fn canary_selector(decision: &RunDecision<'_>, canary: &PoolView) -> Value {
    let own = mark::own_selector(canary);
    let mut expressions: Vec<Value> = own
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|expression| expression.get("key").and_then(Value::as_str) != Some(marks::IS_CANARY))
        .cloned()
        .collect();
    for (key, _) in &decision.view.intent.rules {
        let label = names::rule_label(&key.namespace, &key.name);
        expressions.push(json!({"key": label, "operator": "DoesNotExist"}));
    }
    expressions.push(json!({"key": marks::RELEASE, "operator": "In", "values": [decision.view.run_id]}));
    with_expressions(&own, expressions)
}

/// Someone else set the selector of a custom target, and numo gave up correcting it.
pub(super) fn is_contested(pool: &PoolView, owner_uid: &str) -> bool {
    needs_labels_to_stay(pool)
        && !is_of_a_run(&pool.selector)
        && mark::prior_selector(pool)
            .is_some_and(|mark| mark.owner == owner_uid && mark.corrections >= MAX_CORRECTIONS)
}

/// A custom target's selector during a run: its own, every rule label must exist, and a node that is let
/// go leaves it even if there are no rules.
fn target_selector(decision: &RunDecision<'_>, pool: &PoolView) -> Value {
    let own = mark::own_selector(pool);
    let mut expressions: Vec<Value> = own
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    for (key, _) in &decision.view.intent.rules {
        let label = names::rule_label(&key.namespace, &key.name);
        expressions.push(json!({"key": label, "operator": "Exists"}));
    }
    expressions.push(json!({"key": marks::RELEASE, "operator": "DoesNotExist"}));
    with_expressions(&own, expressions)
}

fn with_expressions(own: &Value, expressions: Vec<Value>) -> Value {
    let mut selector = own.as_object().cloned().unwrap_or_default();
    selector.insert("matchExpressions".to_owned(), Value::Array(expressions));
    Value::Object(selector)
}

/// Gives back everything this owner changed, in the order that never moves a node: who was left in the
/// canary pool, selectors, rule labels, pauses, and last the finalizer.
///
/// With `hold: Always` a run that is over leaves its pools paused for the next one.
pub fn give_back(decision: &mut RunDecision<'_>, over: bool) {
    if recall(decision) || restore_selectors(decision, &|_| true) || unlabel(decision) {
        return;
    }
    unpause(decision, over);
    drop_finalizer(decision);
}

/// Takes the finalizer off once nothing is left to restore. Held pools are restored by nobody, so they
/// keep a live owner's finalizer and not a deleted one's; where no pool is seen at all the list is not believed.
pub fn drop_finalizer(decision: &mut RunDecision<'_>) {
    let view = decision.view;
    let held = view.observed.pools.is_empty() || view.marked_pools().next().is_some();
    let run = view.run;
    let index = run
        .finalizers
        .iter()
        .position(|finalizer| finalizer == marks::FINALIZER);
    let restoring = decision
        .out
        .actions
        .iter()
        .any(|planned| restores(&planned.action));
    if let Some(index) = index
        && !restoring
        && (!held || run.deleting)
    {
        let action = Action::RemoveFinalizer {
            owner: decision.view.owner.clone(),
            uid: run.uid.clone(),
            finalizer: marks::FINALIZER,
            index,
        };
        decision.act("run", action, None);
    }
}

/// Whether a write may be one that takes a mark back.
const fn restores(action: &Action) -> bool {
    matches!(
        action,
        Action::PatchPool(_)
            | Action::PatchNode(_)
            | Action::PatchMachine(_)
            | Action::ReleaseLease { .. }
            | Action::WriteJournal { .. }
    )
}

/// Nodes that were left in the canary pool (their NodeChange was deleted, or they never came back) go home
/// by their labels while selectors still tell the pools apart.
fn recall(decision: &mut RunDecision<'_>) -> bool {
    let view = decision.view;
    let left: Vec<&NodeView> = view
        .observed
        .nodes
        .values()
        .filter(|node| view.labelled_by_us(node) && !node.label(marks::RELEASE).is_empty())
        .collect();
    for node in &left {
        let mut labels = vec![Change {
            key: marks::RELEASE.to_owned(),
            from: node.labels.get(marks::RELEASE).cloned(),
            to: None,
        }];
        let member = decision
            .view
            .members
            .iter()
            .find(|member| member.node.name == node.name);
        if let Some(member) = member.filter(|member| needs_labels_to_stay(member.pool)) {
            labels.extend(labels::labels_to_stay(decision, member));
        }
        let patch = NodePatch {
            labels,
            ..NodePatch::of(node, NodePurpose::BringHome)
        };
        decision.act(&node.name, Action::PatchNode(patch), None);
    }
    !left.is_empty()
}

fn restore_selectors(decision: &mut RunDecision<'_>, which: &dyn Fn(&PoolView) -> bool) -> bool {
    let uid = &decision.view.run.uid;
    let marked: Vec<(&PoolView, PriorSelector)> = decision
        .view
        .observed
        .pools
        .values()
        .filter(|pool| which(pool))
        .filter_map(|pool| mark::prior_selector(pool).map(|mark| (pool, mark)))
        .filter(|(_, mark)| mark.owner == *uid)
        .collect();
    for (pool, mark) in &marked {
        let note = format!(
            "the node selector of MachineConfigPool {} is as it was",
            pool.name
        );
        let event = event(EventAction::Restore, false, "SelectorRestored", note);
        let patch = PoolPatch {
            pool: pool.name.clone(),
            uid: pool.uid.clone(),
            purpose: PoolPurpose::Unselect,
            paused: None,
            selector: Some((pool.selector.clone(), mark.prior.clone())),
            config: None,
            annotation: annotation(pool, marks::PRIOR_NODE_SELECTOR, None),
            has_annotations: pool.has_annotations,
        };
        decision.act("run", Action::PatchPool(patch), Some(event));
    }
    !marked.is_empty()
}

fn unlabel(decision: &mut RunDecision<'_>) -> bool {
    let labelled: Vec<_> = decision
        .view
        .observed
        .nodes
        .values()
        .filter(|node| decision.view.labelled_by_us(node))
        .collect();
    for node in &labelled {
        let patch = NodePatch {
            labels: labels::rule_labels_off(node),
            annotations: vec![Change {
                key: marks::LABELLED_BY.to_owned(),
                from: node.annotations.get(marks::LABELLED_BY).cloned(),
                to: None,
            }],
            ..NodePatch::of(node, NodePurpose::Unlabel)
        };
        decision.act(&node.name, Action::PatchNode(patch), None);
    }
    !labelled.is_empty()
}

/// Unpauses each pool in which nothing would roll; the others stay paused, with the number of nodes that
/// would.
fn unpause(decision: &mut RunDecision<'_>, over: bool) {
    let marked: Vec<(&PoolView, PausedBy)> = decision.view.marked_pools().collect();
    for (pool, mark) in marked {
        if over && decision.view.keeps_paused(pool) && pool.paused {
            forgive(decision, pool, mark);
            continue;
        }
        let outdated = pools::outdated(decision.view.observed, pool);
        // Someone unpaused it: it is theirs now.
        let lifted = !pool.paused;
        let free = outdated == 0 || mark.prior || lifted || decision.view.intent.unpause_on_exit;
        if free {
            let to = mark.prior;
            let note = if to {
                format!(
                    "MachineConfigPool {} stays paused, as it was before the run",
                    pool.name
                )
            } else {
                format!("MachineConfigPool {} is unpaused", pool.name)
            };
            let event = event(EventAction::Unpause, false, "PoolUnpaused", note);
            let patch = PoolPatch {
                pool: pool.name.clone(),
                uid: pool.uid.clone(),
                purpose: PoolPurpose::Unpause,
                paused: Some((pool.paused, to && pool.paused)),
                selector: None,
                config: Some(pool.config.clone()),
                annotation: annotation(pool, marks::PAUSED_BY, None),
                has_annotations: pool.has_annotations,
            };
            decision.act("run", Action::PatchPool(patch), Some(event));
        } else if mark.outdated != Some(outdated) {
            let note = format!(
                "MachineConfigPool {} stays paused: {outdated} nodes would roll without rules if it were unpaused",
                pool.name
            );
            let event = event(EventAction::Hold, true, "PoolHeld", note);
            let mark = PausedBy {
                outdated: Some(outdated),
                ..mark
            };
            let patch = PoolPatch {
                pool: pool.name.clone(),
                uid: pool.uid.clone(),
                purpose: PoolPurpose::Hold,
                paused: None,
                selector: None,
                config: None,
                annotation: annotation(pool, marks::PAUSED_BY, Some(mark::render(&mark))),
                has_annotations: pool.has_annotations,
            };
            decision.act("run", Action::PatchPool(patch), Some(event));
        }
    }
}

/// A new run begins with nobody's unpausing held against anybody.
fn forgive(decision: &mut RunDecision<'_>, pool: &PoolView, mark: PausedBy) {
    if mark.corrections == 0 {
        return;
    }
    let mark = PausedBy {
        corrections: 0,
        ..mark
    };
    let patch = PoolPatch {
        pool: pool.name.clone(),
        uid: pool.uid.clone(),
        purpose: PoolPurpose::Hold,
        paused: None,
        selector: None,
        config: None,
        annotation: annotation(pool, marks::PAUSED_BY, Some(mark::render(&mark))),
        has_annotations: pool.has_annotations,
    };
    decision.act("run", Action::PatchPool(patch), None);
}
