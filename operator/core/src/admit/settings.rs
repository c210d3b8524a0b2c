//! What `spec.mutex` of an owner and its MutexBindings say together: how many nodes may be in flight and fail, which go before others, and
//! what a person must approve. One rule for every kind that has several nodes. Nothing here looks at a cluster.

use super::{approval::Wanted, domains::DomainOrder, gating::Gating, strictest, wave::Wave};
use crate::{failures, intent, names, observed::IntOrPercent, selector};
use numo_api::Order;
use serde_json::Value;

/// What all that gates an owner says together.
pub(crate) struct Together<'a> {
    /// Bounds of how many nodes may be in flight.
    pub limits: Vec<IntOrPercent>,
    /// Selectors of the nodes that go first.
    pub first: Vec<Value>,
    /// How many nodes may fail: each bound holds.
    pub failure_budgets: Vec<failures::Bound<'a>>,
    /// Which nodes go before others, those that go first among them.
    pub waves: Vec<Wave>,
    /// In which order the owner goes through domains of nodes.
    pub domains: Option<DomainOrder<'a>>,
    /// What a person must approve.
    pub approval: Wanted,
    /// In which order nodes have their turns, by the first that says one.
    pub order: Option<Order>,
    /// How long a node that is done keeps its turn: the longest time (seconds).
    pub soak_seconds: i64,
    /// Labels whose values exclude each other: those of all.
    pub mutex_keys: Vec<&'a String>,
    /// Whether a node that is not Ready has its turn: somebody says so, and nobody otherwise.
    pub take_not_ready: bool,
    /// After how long a node that is not Ready is left out, by the first that says so (seconds).
    pub leave_out_after: Option<i64>,
}

/// What all that gates an owner says together; what is wrong with it is told to `wrong`.
pub(crate) fn together<'a>(all: &[Gating<'a>], wrong: &mut impl FnMut(String)) -> Together<'a> {
    let (limits, first) = bounds(all, wrong);
    let waves = waves(all, &first).map_err(&mut *wrong).unwrap_or_default();
    let domains = domains(all, wrong);
    let approval = approval(all).map_err(&mut *wrong).unwrap_or_default();
    let failure_budgets = failure_budgets(all, &approval, wrong);
    let each = || all.iter().map(|one| one.settings);
    Together {
        order: each().find_map(|one| one.order),
        soak_seconds: each().filter_map(|one| one.soak_seconds).fold(0, i64::max),
        mutex_keys: each().flat_map(|one| one.mutex_keys.iter().flatten()).collect(),
        take_not_ready: strictest::take_not_ready(all) == Some(true),
        leave_out_after: intent::first_leave_out_after(
            each().map(|one| (one.not_ready_policy, one.leave_out_after_seconds)),
        ),
        limits,
        first,
        failure_budgets,
        waves,
        domains,
        approval,
    }
}

/// The bounds, and the selectors of nodes that go first, of all that gates an owner; what is wrong with them is told to `wrong`.
fn bounds(all: &[Gating<'_>], wrong: &mut impl FnMut(String)) -> (Vec<IntOrPercent>, Vec<Value>) {
    let (mut limits, mut first) = (Vec::new(), Vec::new());
    for Gating { field, settings, .. } in all {
        match settings.max_unavailable.as_ref().map(intent::parse_limit) {
            Some(Ok(limit)) => limits.push(limit),
            Some(Err(problem)) => wrong(format!("{field}.maxUnavailable: {problem}")),
            None => {}
        }
        let keys = settings.mutex_keys.iter().flatten();
        if let Some(problem) = names::wrong_label_keys(&format!("{field}.mutexKeys"), keys) {
            wrong(problem);
        }
        if let Some(selector) = settings.first.as_ref() {
            let selector = serde_json::to_value(selector).unwrap_or_default();
            match selector::wrong(&selector) {
                Some(problem) => wrong(format!("{field}.first: {problem}")),
                None => first.push(selector),
            }
        }
    }
    (limits, first)
}

/// How many nodes may fail, by all that gates an owner; what is wrong with it is told to `wrong`.
fn failure_budgets<'a>(
    all: &[Gating<'a>],
    approval: &Wanted,
    wrong: &mut impl FnMut(String),
) -> Vec<failures::Bound<'a>> {
    let said = all.iter().filter(|one| !one.asks_nothing());
    let said = said.map(|one| failures::Said {
        field: format!("{}.failureBudget", one.field),
        binding: one.binding,
        given: one.settings.failure_budget.as_ref(),
    });
    failures::bounds(said, approval.is_after_failure(), wrong)
}

/// Which nodes go before others: those that `first` of any selects, and then the waves of the one that has some.
///
/// Errors: the field, what was found and what is wanted.
fn waves(all: &[Gating<'_>], first: &[Value]) -> Result<Vec<Wave>, String> {
    let mut waves = Vec::new();
    if !first.is_empty() {
        waves.push(Wave::first(
            first.to_vec(),
            "spec.mutex.first or a MutexBinding's",
        ));
    }
    let mut given: Option<&str> = None;
    for one in all {
        let (field, own) = (&one.field, one.waves()?);
        if own.is_empty() {
            continue;
        }
        waves.extend(own);
        if let Some(other) = given.replace(field) {
            return Err(format!(
                "{field}.waves: found some beside {other}.waves, wanted those of one object"
            ));
        }
    }
    // Nodes that go first are in none of the waves: nobody would be asked about them.
    let gates = waves
        .iter()
        .find(|wave| wave.needs_approval || !wave.rules.is_empty());
    let first = all.iter().find(|one| one.settings.first.is_some());
    if let (Some(gates), Some(first)) = (gates, first) {
        let what = if gates.needs_approval { "approval" } else { "rules" };
        return Err(format!(
            "{}.first: found it beside {}.{what} ({}), wanted no first: its nodes would go without them",
            first.field,
            gates.field,
            given.unwrap_or_default()
        ));
    }
    Ok(waves)
}

/// What of an owner a person must approve, by all that gates it.
///
/// Errors: the field, what was found and what is wanted.
fn approval(all: &[Gating<'_>]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    for Gating { field, settings, .. } in all {
        wanted.add(field, settings.approval.as_ref())?;
    }
    Ok(wanted)
}

/// In which order an owner goes through domains of nodes, by all that gates it. Two orders would keep each other's nodes for ever; that
/// they differ is told to `wrong`.
fn domains<'a>(all: &[Gating<'a>], wrong: &mut impl FnMut(String)) -> Option<DomainOrder<'a>> {
    let mut known: Option<DomainOrder<'a>> = None;
    for Gating { field, settings, .. } in all {
        let Some(given) = &settings.domains else { continue };
        match (DomainOrder::parse(&format!("{field}.domains"), given), &known) {
            (Err(problem), _) => wrong(problem),
            (Ok(found), Some(known)) if !found.agrees_with(known) => wrong(format!(
                "{}: found another order than in {}, wanted the same, or only one of them",
                found.field(),
                known.field()
            )),
            (Ok(_), Some(_)) => {}
            (Ok(found), None) => known = Some(found),
        }
    }
    known
}
