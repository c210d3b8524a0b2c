//! MutexWindows: whether each is open by itself, and when it opens or closes next.

use super::{
    described::{WINDOW_CLOSES, WINDOW_OPEN, WINDOW_OPENS},
    series::{Series, nobody, register},
};
use jiff::Timestamp;
use numo_core::{
    admit::{union::State, windows},
    observed::Observed,
};
use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct WindowLabels {
    window: String,
}

/// Gauges of windows.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    open: Series<WindowLabels>,
    opens: Series<WindowLabels>,
    closes: Series<WindowLabels>,
}

impl Windows {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let windows = Self {
            open: Series::default(),
            opens: Series::default(),
            closes: Series::default(),
        };
        register(registry, WINDOW_OPEN, windows.open.family.clone());
        register(registry, WINDOW_OPENS, windows.opens.family.clone());
        register(registry, WINDOW_CLOSES, windows.closes.family.clone());
        windows
    }

    /// Shows all windows. One that cannot be understood lets nobody begin, and is shown as closed.
    pub(super) fn show(&self, observed: &Observed, now: Timestamp) {
        let (mut open, mut opens, mut closes) = (Vec::new(), Vec::new(), Vec::new());
        for (name, window) in &observed.windows {
            let labels = WindowLabels { window: name.clone() };
            let state = windows::state(window, now);
            let state = state.as_ref();
            let at = |at: Option<Timestamp>| at.map(|at| (labels.clone(), at.as_second()));
            opens.extend(at(state.and_then(State::opens_at)));
            closes.extend(at(state.and_then(State::closes_at)));
            open.push((labels, i64::from(state.is_some_and(State::is_open))));
        }
        let nobody = nobody();
        self.open.show(&nobody, open);
        self.opens.show(&nobody, opens);
        self.closes.show(&nobody, closes);
    }
}
