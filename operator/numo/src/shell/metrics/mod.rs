//! Metrics, one prefix `numo_`. A label never grows with the cluster: nodes are named only while they are in flight, and
//! then so many of one owner at most.
//!
//! What [`ALL`] says of them is what the reference in the docs says; a test compares it with what is served.
//!
//! This page is what others count with; each family has a file of its own, and none of them imports this one.

mod bindings;
mod budgets;
mod described;
mod left;
mod listing;
mod missed;
mod notifications;
mod owners;
mod requests;
mod rules;
mod series;
mod spans;
#[cfg(test)]
mod tests;
mod times;
mod waits;
mod windows;
mod writes;

pub use self::described::{ALL, Described};

use self::{
    bindings::Bindings,
    budgets::Budgets,
    described::{
        BREACHES, BUILD_INFO, DECIDE_SECONDS, EVENTS_DROPPED, LEADER, NODE_CHANGES, PASS_SECONDS, PASSES,
        TOKEN_FAULTS,
    },
    left::Left,
    listing::Listing,
    missed::Missed,
    notifications::Notifications,
    owners::Owners,
    requests::Requests,
    rules::Rules,
    series::register,
    spans::Spans,
    times::Times,
    waits::Waits,
    windows::Windows,
    writes::Writes,
};
use crate::shell::requests::Answered;
use jiff::Timestamp;
use numo_api::{Phase, Reason, VerdictRecord, mutex_run_config::RunStatus};
use numo_core::{
    Owner,
    eta::Eta,
    left::Orphan,
    observed::{Observed, RuleView},
    report::Report,
};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::{Duration, Instant},
};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// All metrics, and what the probes say.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    listing: Listing,
    owners: Owners,
    missed: Missed,
    times: Times,
    left: Left,
    budgets: Budgets,
    windows: Windows,
    bindings: Bindings,
    rules: Rules,
    notifications: Notifications,
    spans: Spans,
    waits: Waits,
    node_changes: Gauge,
    /// Whether this numo leads.
    pub leader: Gauge,
    /// How many faults the policies have that limit numo's token.
    pub token_faults: Gauge,
    /// Passes of the planner.
    pub passes: Counter,
    /// Time of one decision (seconds).
    pub decide_seconds: Histogram,
    /// Time of one pass with its writes (seconds).
    pub pass_seconds: Histogram,
    writes: Writes,
    requests: Requests,
    /// Decisions that would have broken an invariant.
    pub breaches: Counter,
    /// Events that were dropped.
    pub events_dropped: Counter,
    /// Whether the process serves: it leads, or waits for the lease.
    pub ready: Arc<AtomicBool>,
    /// When the planner was heard last, while it decides.
    heard: Arc<Mutex<Option<Instant>>>,
}

/// A histogram of what takes less than a second.
fn short() -> Histogram {
    Histogram::new([
        0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
    ])
}

impl Metrics {
    /// All metrics at zero, in the order in which they are served.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("numo");
        let all = &mut registry;
        let build = Family::<BuildLabels, Gauge>::default();
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&BuildLabels { version }).set(1);
        register(all, BUILD_INFO, build);
        let leader = Gauge::default();
        register(all, LEADER, leader.clone());
        let listing = Listing::register(all);
        let token_faults = Gauge::default();
        register(all, TOKEN_FAULTS, token_faults.clone());
        let (owners, missed, times) = (Owners::register(all), Missed::register(all), Times::register(all));
        let left = Left::register(all);
        let (budgets, windows) = (Budgets::register(all), Windows::register(all));
        let bindings = Bindings::register(all);
        let rules = Rules::register(all);
        let node_changes = Gauge::default();
        register(all, NODE_CHANGES, node_changes.clone());
        let (passes, breaches, events_dropped) = (Counter::default(), Counter::default(), Counter::default());
        let (decide_seconds, pass_seconds) = (short(), short());
        register(all, PASSES, passes.clone());
        register(all, DECIDE_SECONDS, decide_seconds.clone());
        register(all, PASS_SECONDS, pass_seconds.clone());
        let writes = Writes::register(all);
        let requests = Requests::register(all);
        let notifications = Notifications::register(all);
        let spans = Spans::register(all);
        let waits = Waits::register(all);
        register(all, BREACHES, breaches.clone());
        register(all, EVENTS_DROPPED, events_dropped.clone());
        writes.count_from_zero();
        Self {
            registry: Arc::new(Mutex::new(registry)),
            listing,
            owners,
            missed,
            times,
            left,
            budgets,
            windows,
            bindings,
            rules,
            notifications,
            spans,
            waits,
            node_changes,
            leader,
            token_faults,
            passes,
            decide_seconds,
            pass_seconds,
            writes,
            requests,
            breaches,
            events_dropped,
            ready: Arc::default(),
            heard: Arc::default(),
        }
    }

    /// Notes that the planner goes on.
    pub fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// How long the planner has not been heard; none where it does not decide.
    pub fn silent_for(&self) -> Option<Duration> {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.map(|at| at.elapsed())
    }

    /// Notes what decisions wait for, by its plural names, and how many objects were seen by now; nothing once all of it is listed.
    pub fn awaits(&self, resources: BTreeSet<&'static str>, seen: usize) {
        self.listing.awaits(resources, seen);
    }

    /// What decisions wait for, and for how long nothing of it has been listed; none where they wait for nothing.
    pub fn unlisted(&self) -> Option<(Vec<&'static str>, Duration)> {
        self.listing.unlisted()
    }

    /// Counts an event that is not written, as too many wait.
    pub fn dropped_event(&self) {
        self.events_dropped.inc();
    }

    /// Counts a write.
    pub fn wrote(&self, action: &'static str, result: &'static str) {
        self.writes.count(action, result);
    }

    /// Counts a request to the API server, and how long its answer took.
    pub fn requested(&self, answered: Answered) {
        self.requests.count(answered);
    }

    /// Shows an owner: its report, what it waits for, and whether that is a person.
    pub fn show(&self, owner: &Owner, report: &Report, reason: Reason, stalled: bool) {
        self.owners.show(owner, report, reason, stalled);
        self.left.note(owner, report);
        self.budgets.note(owner, report);
    }

    /// Counts how long nodes of an owner waited, and shows how many missed an opening of their hours.
    pub fn show_waits(&self, owner: &Owner, report: &Report, now: Timestamp) {
        self.waits.note(owner, report, now);
        self.missed.show(owner, report, now);
    }

    /// Shows when an owner will be done, when its own hours open or close, and when and how its last run ended.
    pub fn show_times(&self, owner: &Owner, foreseen: (&Eta, Option<Timestamp>), run: Option<&RunStatus>) {
        self.times.show(owner, foreseen, run);
    }

    /// Shows when the run of an owner, of whatever kind, that was done last had begun, if that is known, and when it ended.
    pub fn show_success(&self, owner: &Owner, (begun, at): (Option<Timestamp>, Timestamp)) {
        self.times.succeed(owner, (begun, at));
    }

    /// Shows every pool that numo keeps paused, for an owner that is there or one that is gone, and the marks that nobody
    /// takes back by itself.
    pub fn show_left(&self, orphans: &[Orphan]) {
        self.left.show(orphans);
    }

    /// Shows windows: their time comes whatever else happens.
    pub fn show_windows(&self, observed: &Observed, now: Timestamp) {
        self.windows.show(observed, now);
    }

    /// Shows bindings, budgets, windows and journals.
    pub fn show_cluster(&self, observed: &Observed, now: Timestamp) {
        self.node_changes
            .set(i64::try_from(observed.changes.len()).unwrap_or(i64::MAX));
        self.budgets.show(observed, now);
        self.bindings.show(observed);
        self.show_windows(observed, now);
    }

    /// A rule is asked: its counters are there, at zero.
    pub fn begins(&self, rule: &str, phase: Phase) {
        self.rules.begins(rule, phase);
    }

    /// Rules are there: their counters are, at zero, before any of them is asked.
    pub fn know_rules<'r>(&self, rules: impl Iterator<Item = &'r RuleView>) {
        self.rules.know_rules(rules);
    }

    /// Forgets rules that are gone.
    pub fn keep_rules(&self, is_there: impl Fn(&str) -> bool) {
        self.rules.keep_rules(is_there);
    }

    /// Counts a verdict that was journaled.
    pub fn judged(&self, verdict: &VerdictRecord) {
        self.rules.judged(verdict);
    }

    /// Counts an evaluation that was no verdict for a node: a wait, or none at all.
    pub fn count_verdict(&self, rule: &str, phase: Phase, verdict: &'static str) {
        self.rules.count_verdict(rule, phase, verdict);
    }

    /// Counts what an evaluation took.
    pub fn evaluated(&self, rule: &str, took: Duration) {
        self.rules.evaluated(rule, took);
    }

    /// Notes how much memory the last evaluation of a component had (bytes).
    pub fn used_memory(&self, rule: &str, bytes: u64) {
        self.rules.used_memory(rule, bytes);
    }

    /// Counts an evaluation without a verdict.
    pub fn gave_no_verdict(&self, rule: &str, reason: Reason) {
        self.rules.gave_no_verdict(rule, reason);
    }

    /// Spans are sent: their counters are, at zero.
    pub fn know_spans(&self) {
        self.spans.know();
    }

    /// Counts what became of spans.
    pub fn exported(&self, outcome: &'static str, number: usize) {
        self.spans.count(outcome, number);
    }

    /// A MutexNotifier is there: its counters are, at zero.
    pub fn know_notifier(&self, notifier: &str) {
        self.notifications.know(notifier);
    }

    /// Counts what became of notifications.
    pub fn notified(&self, notifier: &str, outcome: &'static str, number: u64) {
        self.notifications.count(notifier, outcome, number);
    }

    /// Shows how many notifications wait for a sink.
    pub fn notifications_wait(&self, notifier: &str, number: usize) {
        self.notifications.wait(notifier, number);
    }

    /// Shows how many nodes a notifier silences, if that is known.
    pub fn silences(&self, notifier: &str, number: Option<usize>) {
        self.notifications.silence(notifier, number);
    }

    /// Forgets a MutexNotifier that is gone.
    pub fn forget_notifier(&self, notifier: &str) {
        self.notifications.forget(notifier);
    }

    /// Forgets an owner that is gone.
    pub fn forget(&self, owner: &Owner) {
        self.owners.forget(owner);
        self.missed.forget(owner);
        self.waits.forget(owner);
        self.times.forget(owner);
        self.left.forget(owner);
        self.budgets.forget(owner);
    }

    /// The text of `/metrics` (OpenMetrics).
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if encode(&mut text, &registry).is_err() {
            text.push_str("# metrics cannot be encoded\n");
        }
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
