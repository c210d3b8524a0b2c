//! Metrics, one prefix `numo_`. Node names appear nowhere: a label must not grow with the cluster.

use numo_api::Step;
use numo_core::report::{Report, RunPhase};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, atomic::AtomicBool};

/// A run.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RunLabels {
    namespace: String,
    name: String,
}

/// Nodes of a run by step and reason.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct NodeLabels {
    namespace: String,
    name: String,
    step: String,
    reason: String,
}

/// A kind of write.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct WriteLabels {
    action: &'static str,
    result: &'static str,
}

/// Build information.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// The series that were shown last for each run, so that they can be taken back.
type Known = BTreeMap<(String, String), Vec<NodeLabels>>;

/// All metrics, and what the probes say.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    nodes: Family<NodeLabels, Gauge>,
    held_nodes: Family<RunLabels, Gauge>,
    stalled: Family<RunLabels, Gauge>,
    known: Arc<Mutex<Known>>,
    /// Whether this numo leads.
    pub leader: Gauge,
    /// Passes of the planner.
    pub passes: Counter,
    /// Time of one decision (seconds).
    pub decide_seconds: Histogram,
    /// Time of one pass with its writes (seconds).
    pub pass_seconds: Histogram,
    /// Writes by kind and result.
    writes: Family<WriteLabels, Counter>,
    /// Decisions that would have broken an invariant.
    pub breaches: Counter,
    /// Whether the process serves: its watches have listed, or it waits for the lease.
    pub ready: Arc<AtomicBool>,
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("numo");
        let nodes = Family::<NodeLabels, Gauge>::default();
        let held_nodes = Family::<RunLabels, Gauge>::default();
        let stalled = Family::<RunLabels, Gauge>::default();
        let leader = Gauge::default();
        let passes = Counter::default();
        let buckets = || {
            [
                0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
            ]
        };
        let decide_seconds = Histogram::new(buckets());
        let pass_seconds = Histogram::new(buckets());
        let writes = Family::<WriteLabels, Counter>::default();
        let breaches = Counter::default();
        let build = Family::<BuildLabels, Gauge>::default();
        build
            .get_or_create(&BuildLabels {
                version: env!("CARGO_PKG_VERSION"),
            })
            .set(1);
        registry.register("build_info", "Version of numo", build);
        registry.register("nodes", "Nodes of a run by step and reason", nodes.clone());
        registry.register(
            "pool_held_nodes",
            "Nodes that would roll if the pools a run left paused were unpaused",
            held_nodes.clone(),
        );
        registry.register("run_stalled", "Whether a run waits for a person", stalled.clone());
        registry.register(
            "leader",
            "Whether this numo holds the leader lease",
            leader.clone(),
        );
        registry.register("passes", "Passes of the planner", passes.clone());
        registry.register("decide_seconds", "Time of one decision", decide_seconds.clone());
        registry.register(
            "pass_seconds",
            "Time of one pass with its writes",
            pass_seconds.clone(),
        );
        registry.register(
            "writes",
            "Writes to the API server by kind and result",
            writes.clone(),
        );
        registry.register(
            "invariant_breaches",
            "Decisions that would have broken an invariant and were not carried out",
            breaches.clone(),
        );
        Self {
            registry: Arc::new(Mutex::new(registry)),
            nodes,
            held_nodes,
            stalled,
            known: Arc::default(),
            leader,
            passes,
            decide_seconds,
            pass_seconds,
            writes,
            breaches,
            ready: Arc::default(),
        }
    }

    /// Counts a write.
    pub fn wrote(&self, action: &'static str, result: &'static str) {
        self.writes.get_or_create(&WriteLabels { action, result }).inc();
    }

    /// Shows a run's report.
    pub fn show(&self, namespace: &str, name: &str, report: &Report, stalled: bool) {
        let mut counts: std::collections::BTreeMap<(Step, &'static str), i64> =
            std::collections::BTreeMap::new();
        for node in report.nodes.values() {
            *counts.entry((node.step, node.why.reason.name())).or_default() += 1;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.entry((namespace.to_owned(), name.to_owned())).or_default();
        for labels in before.drain(..) {
            self.nodes.get_or_create(&labels).set(0);
        }
        for ((step, reason), count) in counts {
            let labels = NodeLabels {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                step: step.name().to_owned(),
                reason: reason.to_owned(),
            };
            self.nodes.get_or_create(&labels).set(count);
            before.push(labels);
        }
        let labels = RunLabels {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let held: usize = if report.phase == RunPhase::Held {
            report
                .pools
                .iter()
                .filter(|pool| pool.ours)
                .map(|pool| pool.outdated)
                .sum()
        } else {
            0
        };
        self.held_nodes
            .get_or_create(&labels)
            .set(i64::try_from(held).unwrap_or(i64::MAX));
        self.stalled.get_or_create(&labels).set(i64::from(stalled));
    }

    /// Forgets a run that is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for labels in known
            .remove(&(namespace.to_owned(), name.to_owned()))
            .into_iter()
            .flatten()
        {
            self.nodes.remove(&labels);
        }
        let labels = RunLabels {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.held_nodes.remove(&labels);
        self.stalled.remove(&labels);
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
