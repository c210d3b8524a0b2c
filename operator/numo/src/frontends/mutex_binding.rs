//! MutexBinding: its status. What is wrong with a binding is decided in the core; here it becomes conditions.

use super::conditions::Conditions;
use jiff::Timestamp;
use numo_api::{MutexBindingStatus, Reason};
use numo_core::{
    binding,
    observed::{BindingView, Observed},
};

/// The status.
pub fn status(view: &BindingView, observed: &Observed, now: Timestamp) -> MutexBindingStatus {
    let mut conditions = Conditions::over(&view.status.conditions, view.generation, now);
    let (ready, why, owners) = binding::state(view, observed);
    let is_judged = why.reason == Reason::Validating;
    conditions.kstatus(
        ready,
        is_judged,
        !ready && !is_judged,
        why.reason.name(),
        &why.message,
    );
    MutexBindingStatus {
        observed_generation: Some(view.generation),
        rules: rules(view),
        owners_matched: i64::try_from(owners.len()).ok(),
        conditions: conditions.done(),
    }
}

/// Rules that are named in a column.
const NAMED: usize = 5;

/// The names of the first rules, and how many there are beyond them.
fn rules(view: &BindingView) -> Option<String> {
    let waves = view.spec.settings.waves.iter().flatten();
    let of_waves = waves.flat_map(|wave| wave.rules.iter().flatten());
    let rules: Vec<_> = view
        .spec
        .settings
        .rules
        .iter()
        .flatten()
        .chain(of_waves)
        .collect();
    let named = rules.iter().take(NAMED).filter_map(|rule| rule.name.as_deref());
    let named = named.collect::<Vec<_>>().join(", ");
    match rules.len().saturating_sub(NAMED) {
        _ if named.is_empty() => None,
        0 => Some(named),
        more => Some(format!("{named} and {more} more")),
    }
}
