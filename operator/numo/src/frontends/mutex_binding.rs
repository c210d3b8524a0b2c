//! MutexBinding: its status. What is wrong with a binding is decided in the core; here it becomes conditions.

use super::{conditions::Conditions, first_names};
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

/// The names of its rules, of its waves too.
fn rules(view: &BindingView) -> Option<String> {
    let settings = &view.spec.settings;
    let waves = settings.waves.iter().flatten();
    let of_waves = waves.flat_map(|wave| wave.rules.iter().flatten());
    let rules = settings.rules.iter().flatten().chain(of_waves);
    first_names(rules.filter_map(|rule| rule.name.as_deref()))
}
