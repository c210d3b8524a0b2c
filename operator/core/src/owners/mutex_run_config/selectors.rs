//! Node selectors of pools, as the strategy CanaryPool has them during a run.

use super::{
    gates::{
        run::held_by_run,
        written::{MAX_CORRECTIONS, is_of_a_run, was_there},
    },
    labels::needs_labels_to_stay,
    put_back,
    run_decision::RunDecision,
};
use crate::{
    action::{Action, Event, EventAction, PoolPatch, PoolPurpose},
    mark::{self, PriorSelector},
    names,
    observed::PoolView,
    pools,
    why::Why,
};
use numo_api::{Reason, marks};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Sets the selectors of the canary and of custom targets. Returns the pools that did not have theirs, or
/// why no selector may be set.
pub(super) fn select(decision: &mut RunDecision<'_>) -> Result<Vec<String>, Why> {
    let wanted = selectors_wanted(decision);
    homeless(decision, &wanted)?;
    let uid = decision.view.run.uid.clone();
    let stays_off = put_back::stays_off(decision);
    let (mut missing, mut puts_back) = (Vec::new(), false);
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
            Some(mark) => mark.corrections.saturating_add(1),
        };
        // One of a run without its mark is not to be taken for the user's: the run is held (`ForeignWriter`).
        if corrections > MAX_CORRECTIONS || (mark.is_none() && is_of_a_run(&pool.selector)) {
            continue;
        }
        let is_again = mark.is_none() && was_there(decision.view, None);
        if is_again && stays_off {
            continue;
        }
        puts_back |= is_again;
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
        let event = Event::normal("SelectorSet", EventAction::Pause, note);
        let patch = PoolPatch {
            selector: Some((pool.selector.clone(), selector)),
            ..PoolPatch::of(
                pool,
                PoolPurpose::Select,
                marks::PRIOR_NODE_SELECTOR,
                Some(mark::render(&mark)),
            )
        };
        decision.act("run", Action::PatchPool(patch), Some(event));
    }
    if puts_back {
        put_back::count(decision, "run");
    }
    Ok(missing)
}

/// The selectors that the canary and custom targets are to have.
fn selectors_wanted<'a>(decision: &RunDecision<'a>) -> Vec<(&'a PoolView, Value)> {
    let view = decision.view;
    let mut wanted: Vec<(&PoolView, Value)> = Vec::new();
    if let Some(canary) = view.intent.canary {
        wanted.push((canary, canary_selector(decision, canary)));
    }
    let pools = view.intent.pools.iter();
    for pool in pools.filter(|pool| needs_labels_to_stay(pool) && held_by_run(view, pool).is_none()) {
        wanted.push((pool, target_selector(decision, pool)));
    }
    wanted
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
        let now = || pools::home_now(decision.view.observed, &node.labels);
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
    let release = json!({"key": marks::RELEASE, "operator": "In", "values": [decision.view.run_id]});
    run_selector(decision, canary, Some(marks::IS_CANARY), "DoesNotExist", release)
}

/// A custom target's selector during a run: its own, every rule label must exist, and a node that is let
/// go leaves it even if there are no rules.
fn target_selector(decision: &RunDecision<'_>, pool: &PoolView) -> Value {
    let release = json!({"key": marks::RELEASE, "operator": "DoesNotExist"});
    run_selector(decision, pool, None, "Exists", release)
}

/// The pool's own selector without the expressions on `parking`, with one on each rule label, and the one on the release label.
fn run_selector(
    decision: &RunDecision<'_>,
    pool: &PoolView,
    parking: Option<&str>,
    rules: &str,
    release: Value,
) -> Value {
    let own = mark::own_selector(pool);
    let expressions = own.get("matchExpressions").and_then(Value::as_array);
    let key = |expression: &Value| {
        expression
            .get("key")
            .and_then(Value::as_str)
            .map(ToOwned::to_owned)
    };
    let kept = expressions.into_iter().flatten().cloned();
    let kept = kept.filter(|one| parking.is_none() || key(one).as_deref() != parking);
    let rules = decision.view.intent.rules.iter().map(|(key, _)| {
        let label = names::rule_label(&key.namespace, &key.name);
        json!({"key": label, "operator": rules})
    });
    let all = kept.chain(rules).chain([release]).collect();
    let mut selector = own.as_object().cloned().unwrap_or_default();
    selector.insert("matchExpressions".to_owned(), Value::Array(all));
    Value::Object(selector)
}

/// Someone else set the selector of a custom target, and numo gave up correcting it.
pub(super) fn is_contested(pool: &PoolView, owner_uid: &str) -> bool {
    needs_labels_to_stay(pool)
        && !is_of_a_run(&pool.selector)
        && mark::prior_selector(pool)
            .is_some_and(|mark| mark.owner == owner_uid && mark.corrections >= MAX_CORRECTIONS)
}

/// A canary or a target that the spec no longer names gets its selector back before another one is set, once
/// nobody is in the canary by it: a node would match both.
pub(super) fn restore_stale(decision: &mut RunDecision<'_>) -> Option<Why> {
    let view = decision.view;
    let named = |pool: &PoolView| {
        view.intent.canary.is_some_and(|canary| canary.name == pool.name)
            || view.intent.pools.iter().any(|target| target.name == pool.name)
    };
    let stale = view.selected_pools().filter(|(pool, _)| !named(pool));
    let stale: BTreeSet<String> = stale.map(|(pool, _)| pool.name.clone()).collect();
    let first = stale.first()?;
    if let Some(node) = view.nodes_in_canary().next() {
        let message = format!(
            "Node {} returns to its own pool before MachineConfigPool {first}, which the spec no longer names, gets its node \
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

pub(super) fn restore_selectors(decision: &mut RunDecision<'_>, which: &dyn Fn(&PoolView) -> bool) -> bool {
    let marked = decision.view.selected_pools();
    let marked: Vec<_> = marked.filter(|(pool, _)| which(pool)).collect();
    for (pool, mark) in &marked {
        let note = format!(
            "the node selector of MachineConfigPool {} is as it was",
            pool.name
        );
        let event = Event::normal("SelectorRestored", EventAction::Restore, note);
        let patch = PoolPatch {
            selector: Some((pool.selector.clone(), mark.prior.clone())),
            ..PoolPatch::of(pool, PoolPurpose::Unselect, marks::PRIOR_NODE_SELECTOR, None)
        };
        decision.act("run", Action::PatchPool(patch), Some(event));
    }
    !marked.is_empty()
}
