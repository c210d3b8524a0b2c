//! When an owner will be done, when its hours open, when its last run ended, and when it was last done.

use super::{
    described::{CLOSES, ETA, ETA_BASIS, LAST_SUCCESS, OPENS, OWNER_RUN_SECONDS, RUN_FINISHED, RUN_SECONDS},
    owners::OwnerLabels,
    series::{Series, register},
};
use jiff::Timestamp;
use numo_api::mutex_run_config::RunStatus;
use numo_core::{Owner, eta::Eta};
use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};

/// A run that has ended, and how.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct RunLabels {
    namespace: String,
    name: String,
    result: String,
}

/// Gauges of times.
#[derive(Clone, Debug)]
pub(super) struct Times {
    eta: Series<OwnerLabels>,
    basis: Series<OwnerLabels>,
    opens: Series<OwnerLabels>,
    closes: Series<OwnerLabels>,
    succeeded: Series<OwnerLabels>,
    run_took: Series<OwnerLabels>,
    finished: Series<RunLabels>,
    took: Series<RunLabels>,
}

impl Times {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let times = Self {
            eta: Series::default(),
            basis: Series::default(),
            opens: Series::default(),
            closes: Series::default(),
            succeeded: Series::default(),
            run_took: Series::default(),
            finished: Series::default(),
            took: Series::default(),
        };
        register(registry, ETA, times.eta.family.clone());
        register(registry, ETA_BASIS, times.basis.family.clone());
        register(registry, OPENS, times.opens.family.clone());
        register(registry, CLOSES, times.closes.family.clone());
        register(registry, LAST_SUCCESS, times.succeeded.family.clone());
        register(registry, OWNER_RUN_SECONDS, times.run_took.family.clone());
        register(registry, RUN_FINISHED, times.finished.family.clone());
        register(registry, RUN_SECONDS, times.took.family.clone());
        times
    }

    /// Shows when the owner is done, as far as that can be told, when its own hours close, and its last run once it has ended.
    pub(super) fn show(
        &self,
        owner: &Owner,
        (eta, closes): (&Eta, Option<Timestamp>),
        run: Option<&RunStatus>,
    ) {
        let labels = || OwnerLabels::of(owner);
        let done = match eta {
            Eta::In { at, of, .. } => Some((at.as_second(), *of)),
            _ => None,
        };
        self.eta.show(owner, done.map(|(at, _)| (labels(), at)));
        let basis = done.map(|(_, of)| (labels(), i64::try_from(of).unwrap_or(i64::MAX)));
        self.basis.show(owner, basis);
        let opens = eta.opens();
        self.opens.show(owner, opens.map(|at| (labels(), at.as_second())));
        // Of an owner that begins nothing nobody looks at the hours again: an old time would be believed.
        let closes = closes.filter(|_| eta.goes_on());
        self.closes
            .show(owner, closes.map(|at| (labels(), at.as_second())));
        let ended = run.and_then(|run| ended(owner, run));
        self.finished
            .show(owner, ended.as_ref().map(|(labels, at, _)| (labels.clone(), *at)));
        self.took
            .show(owner, ended.and_then(|(labels, _, took)| Some((labels, took?))));
    }

    /// Shows when the owner was done, and how long that took. It stays until that is another time.
    pub(super) fn succeed(&self, owner: &Owner, (begun, at): (Option<Timestamp>, Timestamp)) {
        let labels = || OwnerLabels::of(owner);
        self.succeeded.show(owner, [(labels(), at.as_second())]);
        let took = begun.map(|begun| (labels(), at.duration_since(begun).as_secs().max(0)));
        self.run_took.show(owner, took);
    }

    pub(super) fn forget(&self, owner: &Owner) {
        let of_owner = [
            &self.eta,
            &self.basis,
            &self.opens,
            &self.closes,
            &self.succeeded,
            &self.run_took,
        ];
        for series in of_owner {
            series.show(owner, []);
        }
        self.finished.show(owner, []);
        self.took.show(owner, []);
    }
}

/// When a run ended, and how long it took (seconds), if it has ended.
fn ended(owner: &Owner, run: &RunStatus) -> Option<(RunLabels, i64, Option<i64>)> {
    let second = |at: &Option<String>| {
        let at: Option<Timestamp> = at.as_ref().and_then(|at| at.parse().ok());
        at.map(Timestamp::as_second)
    };
    let finished = second(&run.finished_at)?;
    let labels = RunLabels {
        namespace: owner.key.namespace.clone(),
        name: owner.key.name.clone(),
        result: format!("{:?}", run.result?),
    };
    let took = second(&run.started_at).map(|started| (finished - started).max(0));
    Some((labels, finished, took))
}
