//! Metrics, one prefix `numo_`. A label never grows with the cluster: nodes are named only while they are in flight, and
//! then so many of one owner at most.
//!
//! What [`ALL`] says of them is what the reference in the docs says; a test compares it with what is served.

use jiff::Timestamp;
use numo_api::{Outcome, Phase, Reason, Step, VerdictRecord};
use numo_core::{
    Owner, OwnerKind,
    ledger::{self, Ledger},
    left::{MARKS, Orphan},
    observed::{Observed, RuleView},
    report::{NodeReport, Report, RunPhase},
};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hash,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, atomic::AtomicU64},
    time::{Duration, Instant},
};

/// Nodes in flight of one owner that are named, at most.
const NAMED: usize = 100;
/// Groups of one budget that are shown, at most.
const GROUPS: usize = 100;

/// What is known of a metric, for the docs.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// Name, without the prefix; of a counter without `_total`.
    pub name: &'static str,
    /// gauge, counter or histogram.
    pub kind: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

const OWNER: [&str; 3] = ["kind", "namespace", "name"];

macro_rules! described {
    ($($constant:ident = $name:literal, $kind:literal, $labels:expr, $help:literal;)*) => {
        $(const $constant: Described = Described { name: $name, kind: $kind, labels: $labels, help: $help };)*
        /// Every metric.
        pub const ALL: &[Described] = &[$($constant,)*];
    };
}

described! {
    BUILD_INFO = "build_info", "gauge", &["version"], "Version of numo";
    LEADER = "leader", "gauge", &[], "Whether this numo holds the leader lease";
    NOT_LISTED = "not_listed", "gauge", &["resource"], "1 for what the leader has not listed yet: it decides nothing before that";
    TOKEN_FAULTS = "token_faults", "gauge", &[], "What is wrong with the policies that limit numo's token: one for each that is missing, changed or not bound";
    NODES = "nodes", "gauge", &["kind", "namespace", "name", "step"], "Nodes of an owner by step; every step is always there";
    WAITING_NODES = "waiting_nodes", "gauge", &["kind", "namespace", "name", "reason"], "Nodes of an owner that are not done, by reason";
    NODE_STEP = "node_step", "gauge", &["kind", "namespace", "name", "node", "step"], "1 for the step of a node in flight, 0 for the others";
    NODE_STEP_SINCE = "node_step_since_timestamp_seconds", "gauge", &["kind", "namespace", "name", "node"], "When a node in flight came to its step (Unix time)";
    OWNER_REASON = "owner_reason", "gauge", &["kind", "namespace", "name", "reason"], "1 for what an owner waits for, or is";
    OWNER_STALLED = "owner_stalled", "gauge", &OWNER, "Whether an owner waits for a person";
    UPGRADE_HELD = "upgrade_held", "gauge", &OWNER, "Whether an upgrade has begun while its MutexRunConfig is refused: no node changes until that is mended";
    POOL_PAUSED = "pool_paused", "gauge", &["namespace", "name", "pool"], "Whether numo keeps a pool paused, for which MutexRunConfig; also after that one is gone";
    POOL_HELD_NODES = "pool_held_nodes", "gauge", &["namespace", "name", "pool"], "Nodes that would roll if a pool that a run left paused were unpaused; also after that run is gone";
    ORPHANED_MARKS = "orphaned_marks", "gauge", &["mark"], "Marks of numo on Nodes, pools, Machines and Leases whose owner is gone";
    BUDGET_NODES = "budget_nodes", "gauge", &["budget", "group"], "Nodes that a MutexBudget speaks of, by group";
    BUDGET_ALLOWED = "budget_allowed_nodes", "gauge", &["budget", "group"], "Nodes of it that may be unavailable";
    BUDGET_IN_USE = "budget_in_use_nodes", "gauge", &["budget", "group"], "Nodes of it that are unavailable, whoever made them so";
    BUDGET_BLOCKED = "budget_blocked_nodes", "gauge", &["budget", "reason"], "Nodes that wait for it: BudgetExhausted or Stopped";
    BUDGET_PAUSED = "budget_paused", "gauge", &["budget"], "Whether spec.paused is set: nothing begins on its nodes";
    RULE_VERDICTS = "rule_verdicts", "counter", &["rule", "phase", "verdict"], "Verdicts that count for nodes: pass, fail, continued; and evaluations that were none: wait, error";
    RULE_SECONDS = "rule_seconds", "histogram", &["rule", "phase"], "From when a rule was asked first to its verdict";
    PLUGIN_SECONDS = "plugin_seconds", "counter", &["rule"], "Time that evaluations of a rule took which is asked";
    PLUGIN_MEMORY = "plugin_memory_bytes", "gauge", &["rule"], "Most memory of the last evaluation of a component";
    PLUGIN_FAILURES = "plugin_failures", "counter", &["rule", "reason"], "Evaluations without a verdict";
    NODE_CHANGES = "node_changes", "gauge", &[], "Journals (NodeChange objects)";
    PASSES = "passes", "counter", &[], "Passes of the planner";
    DECIDE_SECONDS = "decide_seconds", "histogram", &[], "Time of one decision";
    PASS_SECONDS = "pass_seconds", "histogram", &[], "Time of one pass with its writes";
    WRITES = "writes", "counter", &["action", "result"], "Writes to the API server: ok, stale, refused or failed";
    BREACHES = "invariant_breaches", "counter", &[], "Decisions that would have broken an invariant and were not carried out";
    EVENTS_DROPPED = "events_dropped", "counter", &[], "Events that were not written, as too many waited";
}

/// An owner and something of it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct OwnerLabels {
    kind: &'static str,
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct StepLabels {
    kind: &'static str,
    namespace: String,
    name: String,
    step: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ReasonLabels {
    kind: &'static str,
    namespace: String,
    name: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct NodeLabels {
    kind: &'static str,
    namespace: String,
    name: String,
    node: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct NodeStepLabels {
    kind: &'static str,
    namespace: String,
    name: String,
    node: String,
    step: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct PoolLabels {
    namespace: String,
    name: String,
    pool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct MarkLabels {
    mark: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct GroupLabels {
    budget: String,
    group: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct BlockedLabels {
    budget: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct BudgetLabels {
    budget: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct VerdictLabels {
    rule: String,
    phase: &'static str,
    verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct RulePhaseLabels {
    rule: String,
    phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct RuleLabels {
    rule: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct FailureLabels {
    rule: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    action: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// Gauges whose series come and go.
#[derive(Clone, Debug)]
struct Series<L: Clone + Hash + Eq + Ord> {
    family: Family<L, Gauge>,
    shown: Arc<Mutex<BTreeMap<Owner, BTreeSet<L>>>>,
}

impl<L: Clone + Hash + Eq + Ord> Default for Series<L> {
    fn default() -> Self {
        Self {
            family: Family::default(),
            shown: Arc::default(),
        }
    }
}

impl<L: Clone + Hash + Eq + Ord> Series<L> {
    /// Shows these series of the owner, and takes back those that were shown before.
    fn show(&self, owner: &Owner, series: impl IntoIterator<Item = (L, i64)>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let before = shown.remove(owner).unwrap_or_default();
        let mut now = BTreeSet::new();
        for (labels, value) in series {
            self.family.get_or_create(&labels).set(value);
            now.insert(labels);
        }
        for labels in before.difference(&now) {
            self.family.remove(labels);
        }
        if !now.is_empty() {
            shown.insert(owner.clone(), now);
        }
    }
}

/// Nodes that wait for a budget, by owner.
type Blocked = BTreeMap<Owner, Vec<(String, Reason)>>;
/// What owners say of their pools: whether numo keeps it paused, and how many of its nodes it holds.
type Pools = BTreeMap<Owner, Vec<(PoolLabels, bool, usize)>>;
/// Resources by their plural names that are not listed yet, since when nothing has come of them, and how many objects were seen by then.
type Unlisted = Option<(BTreeSet<&'static str>, Instant, usize)>;
/// Histograms of rules.
type RuleSeconds = Family<RulePhaseLabels, Histogram, fn() -> Histogram>;

/// All metrics, and what the probes say.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    nodes: Series<StepLabels>,
    waiting: Series<ReasonLabels>,
    node_step: Series<NodeStepLabels>,
    node_since: Series<NodeLabels>,
    owner_reason: Series<ReasonLabels>,
    owner_stalled: Series<OwnerLabels>,
    upgrade_held: Series<OwnerLabels>,
    pool_paused: Series<PoolLabels>,
    held_nodes: Series<PoolLabels>,
    orphaned_marks: Series<MarkLabels>,
    budget_nodes: Series<GroupLabels>,
    budget_allowed: Series<GroupLabels>,
    budget_in_use: Series<GroupLabels>,
    budget_blocked: Series<BlockedLabels>,
    budget_paused: Series<BudgetLabels>,
    blocked: Arc<Mutex<Blocked>>,
    pools: Arc<Mutex<Pools>>,
    rule_verdicts: Family<VerdictLabels, Counter>,
    rule_seconds: RuleSeconds,
    plugin_seconds: Family<RuleLabels, Counter<f64, AtomicU64>>,
    plugin_memory: Family<RuleLabels, Gauge>,
    plugin_failures: Family<FailureLabels, Counter>,
    node_changes: Gauge,
    /// Rules that have series.
    counted: Arc<Mutex<BTreeMap<String, i64>>>,
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
    writes: Family<WriteLabels, Counter>,
    /// Decisions that would have broken an invariant.
    pub breaches: Counter,
    /// Events that were dropped.
    pub events_dropped: Counter,
    /// Whether the process serves: it leads, or waits for the lease.
    pub ready: Arc<AtomicBool>,
    /// When the planner was heard last, while it decides.
    heard: Arc<Mutex<Option<Instant>>>,
    unlisted: Arc<Mutex<Unlisted>>,
    not_listed: Series<ResourceLabels>,
}

impl Metrics {
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
        let mut known = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_as_before = match &mut *known {
            None => resources.is_empty(),
            Some((before, since, objects)) if *before == resources => {
                // A list that goes on is long, and not stuck.
                if *objects < seen {
                    (*since, *objects) = (Instant::now(), seen);
                }
                true
            }
            Some(_) => false,
        };
        if is_as_before {
            return;
        }
        let nobody = Owner::run(numo_core::observed::Key::new("", ""));
        let series = resources.iter().map(|resource| (ResourceLabels { resource }, 1));
        self.not_listed.show(&nobody, series);
        *known = (!resources.is_empty()).then(|| (resources, Instant::now(), seen));
    }

    /// What decisions wait for, and for how long nothing of it has been listed; none where they wait for nothing.
    pub fn unlisted(&self) -> Option<(Vec<&'static str>, Duration)> {
        let known = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        let (resources, since, _) = known.as_ref()?;
        Some((resources.iter().copied().collect(), since.elapsed()))
    }

    /// All metrics at zero.
    #[allow(clippy::too_many_lines, reason = "one line for each metric")]
    pub fn new() -> Self {
        let short = || {
            Histogram::new([
                0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
            ])
        };
        let build = Family::<BuildLabels, Gauge>::default();
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&BuildLabels { version }).set(1);
        let metrics = Self {
            registry: Arc::new(Mutex::new(Registry::with_prefix("numo"))),
            nodes: Series::default(),
            waiting: Series::default(),
            node_step: Series::default(),
            node_since: Series::default(),
            owner_reason: Series::default(),
            owner_stalled: Series::default(),
            upgrade_held: Series::default(),
            pool_paused: Series::default(),
            held_nodes: Series::default(),
            orphaned_marks: Series::default(),
            budget_nodes: Series::default(),
            budget_allowed: Series::default(),
            budget_in_use: Series::default(),
            budget_blocked: Series::default(),
            budget_paused: Series::default(),
            blocked: Arc::default(),
            pools: Arc::default(),
            rule_verdicts: Family::default(),
            rule_seconds: Family::new_with_constructor(|| {
                Histogram::new([
                    0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0,
                ])
            }),
            plugin_seconds: Family::default(),
            plugin_memory: Family::default(),
            plugin_failures: Family::default(),
            node_changes: Gauge::default(),
            counted: Arc::default(),
            leader: Gauge::default(),
            token_faults: Gauge::default(),
            passes: Counter::default(),
            decide_seconds: short(),
            pass_seconds: short(),
            writes: Family::default(),
            breaches: Counter::default(),
            events_dropped: Counter::default(),
            ready: Arc::default(),
            heard: Arc::default(),
            unlisted: Arc::default(),
            not_listed: Series::default(),
        };
        let register = &metrics.registry;
        of(register, BUILD_INFO, build);
        of(register, LEADER, metrics.leader.clone());
        of(register, NOT_LISTED, metrics.not_listed.family.clone());
        of(register, TOKEN_FAULTS, metrics.token_faults.clone());
        of(register, NODES, metrics.nodes.family.clone());
        of(register, WAITING_NODES, metrics.waiting.family.clone());
        of(register, NODE_STEP, metrics.node_step.family.clone());
        of(register, NODE_STEP_SINCE, metrics.node_since.family.clone());
        of(register, OWNER_REASON, metrics.owner_reason.family.clone());
        of(register, OWNER_STALLED, metrics.owner_stalled.family.clone());
        of(register, UPGRADE_HELD, metrics.upgrade_held.family.clone());
        of(register, POOL_PAUSED, metrics.pool_paused.family.clone());
        of(register, POOL_HELD_NODES, metrics.held_nodes.family.clone());
        of(register, ORPHANED_MARKS, metrics.orphaned_marks.family.clone());
        of(register, BUDGET_NODES, metrics.budget_nodes.family.clone());
        of(register, BUDGET_ALLOWED, metrics.budget_allowed.family.clone());
        of(register, BUDGET_IN_USE, metrics.budget_in_use.family.clone());
        of(register, BUDGET_BLOCKED, metrics.budget_blocked.family.clone());
        of(register, BUDGET_PAUSED, metrics.budget_paused.family.clone());
        of(register, RULE_VERDICTS, metrics.rule_verdicts.clone());
        of(register, RULE_SECONDS, metrics.rule_seconds.clone());
        of(register, PLUGIN_SECONDS, metrics.plugin_seconds.clone());
        of(register, PLUGIN_MEMORY, metrics.plugin_memory.clone());
        of(register, PLUGIN_FAILURES, metrics.plugin_failures.clone());
        of(register, NODE_CHANGES, metrics.node_changes.clone());
        of(register, PASSES, metrics.passes.clone());
        of(register, DECIDE_SECONDS, metrics.decide_seconds.clone());
        of(register, PASS_SECONDS, metrics.pass_seconds.clone());
        of(register, WRITES, metrics.writes.clone());
        of(register, BREACHES, metrics.breaches.clone());
        of(register, EVENTS_DROPPED, metrics.events_dropped.clone());
        // A counter that begins with 1 has never grown.
        for action in ACTIONS {
            for result in ["ok", "stale", "refused", "failed"] {
                let _ = metrics.writes.get_or_create(&WriteLabels { action, result });
            }
        }
        metrics
    }

    /// Counts a write.
    pub fn wrote(&self, action: &'static str, result: &'static str) {
        self.writes.get_or_create(&WriteLabels { action, result }).inc();
    }

    /// Shows an owner: its report, what it waits for, and whether that is a person.
    pub fn show(&self, owner: &Owner, report: &Report, reason: Reason, stalled: bool) {
        let (kind, key) = (owner.kind.name(), &owner.key);
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        let owner_labels = || OwnerLabels {
            kind,
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let of_reason = |reason: Reason| ReasonLabels {
            kind,
            namespace: namespace.clone(),
            name: name.clone(),
            reason: reason.name(),
        };
        let of_step = |step: Step| StepLabels {
            kind,
            namespace: namespace.clone(),
            name: name.clone(),
            step: step.name(),
        };
        let mut steps: BTreeMap<Step, i64> = STEPS.iter().map(|step| (*step, 0)).collect();
        let mut reasons: BTreeMap<Reason, i64> = BTreeMap::new();
        let mut blocked = Vec::new();
        for (node, said) in &report.nodes {
            *steps.entry(said.step).or_default() += 1;
            if said.step != Step::Done {
                *reasons.entry(said.why.reason).or_default() += 1;
            }
            if matches!(said.why.reason, Reason::BudgetExhausted | Reason::Stopped) {
                blocked.push((node.clone(), said.why.reason));
            }
        }
        self.nodes.show(
            owner,
            steps.into_iter().map(|(step, count)| (of_step(step), count)),
        );
        self.waiting.show(
            owner,
            reasons
                .into_iter()
                .map(|(reason, count)| (of_reason(reason), count)),
        );
        self.owner_reason.show(owner, [(of_reason(reason), 1)]);
        self.owner_stalled
            .show(owner, [(owner_labels(), i64::from(stalled))]);
        if owner.kind == OwnerKind::MutexRunConfig {
            let held = i64::from(report.upgrade_held.is_some());
            self.upgrade_held.show(owner, [(owner_labels(), held)]);
        }
        let flying: Vec<(&String, &NodeReport)> = report
            .nodes
            .iter()
            .filter(|(_, said)| said.in_flight())
            .take(NAMED)
            .collect();
        let node_steps = flying.iter().flat_map(|(node, said)| {
            STEPS.iter().map(|step| {
                let labels = NodeStepLabels {
                    kind,
                    namespace: namespace.clone(),
                    name: name.clone(),
                    node: (*node).clone(),
                    step: step.name(),
                };
                (labels, i64::from(*step == said.step))
            })
        });
        self.node_step.show(owner, node_steps);
        let since = flying.iter().filter_map(|(node, said)| {
            let at: Timestamp = said.since.as_deref()?.parse().ok()?;
            let labels = NodeLabels {
                kind,
                namespace: namespace.clone(),
                name: name.clone(),
                node: (*node).clone(),
            };
            Some((labels, at.as_second()))
        });
        self.node_since.show(owner, since);
        let pools = report.pools.iter().map(|pool| {
            let labels = PoolLabels {
                namespace: namespace.clone(),
                name: name.clone(),
                pool: pool.name.clone(),
            };
            let holds = pool.ours && report.phase == RunPhase::Held;
            (
                labels,
                pool.paused && pool.ours,
                if holds { pool.outdated } else { 0 },
            )
        });
        let pools: Vec<_> = pools.collect();
        let mut known = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if pools.is_empty() {
            known.remove(owner);
        } else {
            known.insert(owner.clone(), pools);
        }
        drop(known);
        let mut known = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        if blocked.is_empty() {
            known.remove(owner);
        } else {
            known.insert(owner.clone(), blocked);
        }
    }

    /// Shows every pool that numo keeps paused, for an owner that is there or one that is gone, and the marks that nobody
    /// takes back by itself.
    pub fn show_left(&self, orphans: &[Orphan]) {
        let nobody = Owner::run(numo_core::observed::Key::new("", ""));
        let known = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pools: BTreeMap<PoolLabels, (bool, usize)> = BTreeMap::new();
        for (labels, paused, held) in known.values().flatten() {
            pools.insert(labels.clone(), (*paused, *held));
        }
        drop(known);
        let mut marks: BTreeMap<&'static str, i64> = MARKS.iter().map(|mark| (*mark, 0)).collect();
        for orphan in orphans {
            if let Some(count) = marks.get_mut(orphan.left.mark.as_str()) {
                *count += 1;
            }
            if let Some(held) = orphan.held_nodes {
                let owner = orphan.owner.clone().unwrap_or_default();
                let labels = PoolLabels {
                    namespace: owner.namespace,
                    name: owner.name,
                    pool: orphan.on.key.name.clone(),
                };
                pools.insert(labels, (true, held));
            }
        }
        let paused = pools.iter();
        self.pool_paused.show(
            &nobody,
            paused.map(|(labels, (paused, _))| (labels.clone(), i64::from(*paused))),
        );
        let held = pools.into_iter();
        self.held_nodes.show(
            &nobody,
            held.map(|(labels, (_, held))| (labels, i64::try_from(held).unwrap_or(i64::MAX))),
        );
        let marks = marks.into_iter();
        self.orphaned_marks
            .show(&nobody, marks.map(|(mark, count)| (MarkLabels { mark }, count)));
    }

    /// Shows budgets and journals. `nobody` is the key under which series are kept that are no owner's.
    pub fn show_cluster(&self, observed: &Observed, now: Timestamp) {
        self.node_changes
            .set(i64::try_from(observed.changes.len()).unwrap_or(i64::MAX));
        let nobody = Owner::run(numo_core::observed::Key::new("", ""));
        if observed.budgets.is_empty() {
            for series in [&self.budget_nodes, &self.budget_allowed, &self.budget_in_use] {
                series.show(&nobody, []);
            }
            self.budget_blocked.show(&nobody, []);
            self.budget_paused.show(&nobody, []);
            return;
        }
        let ledger = Ledger::of(observed, now);
        let mut uses = ledger.uses();
        let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
        uses.retain(|used| {
            let groups = shown.entry(&used.budget.name).or_default();
            *groups += 1;
            *groups <= GROUPS
        });
        let series = |of: fn(&ledger::Use<'_>) -> usize| {
            let rows = uses.iter().map(|used| {
                let labels = GroupLabels {
                    budget: used.budget.name.clone(),
                    group: used.group.to_owned(),
                };
                (labels, i64::try_from(of(used)).unwrap_or(i64::MAX))
            });
            rows.collect::<Vec<_>>()
        };
        self.budget_nodes.show(&nobody, series(|used| used.nodes));
        self.budget_allowed
            .show(&nobody, series(|used| used.allowed.unwrap_or(0)));
        self.budget_in_use
            .show(&nobody, series(|used| used.unavailable.len()));
        let paused = observed.budgets.values().map(|budget| {
            let labels = BudgetLabels {
                budget: budget.name.clone(),
            };
            (labels, i64::from(budget.paused))
        });
        self.budget_paused.show(&nobody, paused);
        let mut waiting: BTreeMap<(&str, Reason), i64> = BTreeMap::new();
        for budget in observed.budgets.keys() {
            waiting.insert((budget, Reason::BudgetExhausted), 0);
            waiting.insert((budget, Reason::Stopped), 0);
        }
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = blocked.values().flatten();
        for (node, reason) in nodes.filter_map(|(node, reason)| Some((observed.nodes.get(node)?, reason))) {
            let of_node = uses.iter().filter(|used| {
                let group = used.budget.group_by.as_ref().map_or("", |key| node.label(key));
                used.group == group && ledger::covers(used.budget, node)
            });
            for used in of_node {
                let full = used
                    .allowed
                    .is_some_and(|allowed| used.unavailable.len() >= allowed);
                let blocks = match reason {
                    Reason::Stopped => used.budget.paused,
                    _ => full,
                };
                if blocks {
                    *waiting.entry((&used.budget.name, *reason)).or_default() += 1;
                }
            }
        }
        let waiting = waiting.into_iter().map(|((budget, reason), count)| {
            let labels = BlockedLabels {
                budget: budget.to_owned(),
                reason: reason.name(),
            };
            (labels, count)
        });
        self.budget_blocked.show(&nobody, waiting);
    }

    /// A rule is asked: its counters are there, at zero.
    pub fn begins(&self, rule: &str, phase: Phase) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.entry(rule.to_owned()).or_default();
        drop(counted);
        self.count_from_zero(rule, phase);
    }

    /// Rules are there: their counters are, at zero, before any of them is asked.
    pub fn know_rules<'r>(&self, rules: impl Iterator<Item = &'r RuleView>) {
        for view in rules {
            let rule = view.key.to_string();
            {
                let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
                let known = counted.insert(rule.clone(), view.generation);
                if known == Some(view.generation) {
                    continue;
                }
            }
            for phase in PHASES.into_iter().filter(|phase| view.runs_in(*phase)) {
                self.count_from_zero(&rule, phase);
            }
            if view.is_asked {
                let _ = self
                    .plugin_seconds
                    .get_or_create(&RuleLabels { rule: rule.clone() });
                let failures = Reason::ALL
                    .iter()
                    .filter(|reason| reason.is_of_evaluation() && **reason != Reason::RuleWaits);
                for reason in failures.map(|reason| reason.name()) {
                    let rule = rule.clone();
                    let _ = self
                        .plugin_failures
                        .get_or_create(&FailureLabels { rule, reason });
                }
            }
        }
    }

    /// The counters of a rule in a phase are there.
    fn count_from_zero(&self, rule: &str, phase: Phase) {
        for verdict in VERDICTS {
            let labels = VerdictLabels {
                rule: rule.to_owned(),
                phase: phase.name(),
                verdict,
            };
            let _ = self.rule_verdicts.get_or_create(&labels);
        }
    }

    /// Forgets rules that are gone.
    pub fn keep_rules(&self, is_there: impl Fn(&str) -> bool) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<String> = counted.keys().filter(|rule| !is_there(rule)).cloned().collect();
        for rule in gone {
            for phase in PHASES.map(Phase::name) {
                for verdict in VERDICTS {
                    let rule = rule.clone();
                    self.rule_verdicts.remove(&VerdictLabels { rule, phase, verdict });
                }
                let rule = rule.clone();
                self.rule_seconds.remove(&RulePhaseLabels { rule, phase });
            }
            let of_rule = RuleLabels { rule: rule.clone() };
            self.plugin_seconds.remove(&of_rule);
            self.plugin_memory.remove(&of_rule);
            for reason in Reason::ALL.iter().map(|reason| reason.name()) {
                let rule = rule.clone();
                self.plugin_failures.remove(&FailureLabels { rule, reason });
            }
            counted.remove(&rule);
        }
    }

    /// Counts a verdict that was journaled.
    pub fn judged(&self, verdict: &VerdictRecord) {
        let word = match verdict.outcome {
            Outcome::Pass => "pass",
            Outcome::Failure => "fail",
            Outcome::ContinuedAfterFailure => "continued",
        };
        self.begins(&verdict.rule, verdict.phase);
        self.count_verdict(&verdict.rule, verdict.phase, word);
        let at = |text: &str| text.parse::<Timestamp>().ok();
        if let (Some(from), Some(to)) = (verdict.started_at.as_deref().and_then(at), at(&verdict.at)) {
            let labels = RulePhaseLabels {
                rule: verdict.rule.clone(),
                phase: verdict.phase.name(),
            };
            let took = Duration::try_from(to.duration_since(from)).unwrap_or_default();
            self.rule_seconds
                .get_or_create(&labels)
                .observe(took.as_secs_f64());
        }
    }

    /// Counts an evaluation that was no verdict for a node: a wait, or none at all.
    pub fn count_verdict(&self, rule: &str, phase: Phase, verdict: &'static str) {
        let labels = VerdictLabels {
            rule: rule.to_owned(),
            phase: phase.name(),
            verdict,
        };
        self.rule_verdicts.get_or_create(&labels).inc();
    }

    /// Counts what an evaluation took.
    pub fn evaluated(&self, rule: &str, took: Duration) {
        let labels = RuleLabels {
            rule: rule.to_owned(),
        };
        self.plugin_seconds
            .get_or_create(&labels)
            .inc_by(took.as_secs_f64());
    }

    /// Notes how much memory the last evaluation of a component had (bytes).
    pub fn used_memory(&self, rule: &str, bytes: u64) {
        let labels = RuleLabels {
            rule: rule.to_owned(),
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.plugin_memory.get_or_create(&labels).set(bytes);
    }

    /// Counts an evaluation without a verdict.
    pub fn gave_no_verdict(&self, rule: &str, reason: Reason) {
        let labels = FailureLabels {
            rule: rule.to_owned(),
            reason: reason.name(),
        };
        self.plugin_failures.get_or_create(&labels).inc();
    }

    /// Forgets an owner that is gone.
    pub fn forget(&self, owner: &Owner) {
        self.nodes.show(owner, []);
        self.waiting.show(owner, []);
        self.node_step.show(owner, []);
        self.node_since.show(owner, []);
        self.owner_reason.show(owner, []);
        self.owner_stalled.show(owner, []);
        self.upgrade_held.show(owner, []);
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.remove(owner);
        drop(pools);
        let mut known = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(owner);
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

fn of(registry: &Mutex<Registry>, what: Described, metric: impl Metric) {
    let mut registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    registry.register(what.name, what.help, metric);
}

/// Everything that is written, by the names that the planner gives it.
const ACTIONS: [&str; 20] = [
    "AddFinalizer",
    "RemoveFinalizer",
    "PatchPool",
    "PatchNode",
    "PatchMachine",
    "CreateChange",
    "WriteJournal",
    "DeleteChange",
    "RecordRun",
    "CreateJob",
    "CreatePlanJob",
    "StartPlanJob",
    "DeletePlanJob",
    "MarkGate",
    "Evict",
    "SetJobTtl",
    "AcquireLease",
    "RenewLease",
    "ReleaseLease",
    "WriteStatus",
];

/// Every phase, in order.
const PHASES: [Phase; 8] = [
    Phase::PreRun,
    Phase::Admit,
    Phase::Pre,
    Phase::PreRelease,
    Phase::BeforeUncordon,
    Phase::Post,
    Phase::OnFailure,
    Phase::PostRun,
];

/// What evaluations and Jobs come to.
const VERDICTS: [&str; 5] = ["pass", "fail", "continued", "wait", "error"];

/// Every step, in order.
const STEPS: [Step; 16] = [
    Step::Selected,
    Step::Admitted,
    Step::PreRules,
    Step::Cordoned,
    Step::Drained,
    Step::PreRelease,
    Step::Released,
    Step::Changed,
    Step::Ready,
    Step::Uncordoned,
    Step::PostRules,
    Step::Soaked,
    Step::Done,
    Step::Held,
    Step::Failed,
    Step::Skipped,
];

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::{observed::Key, report::Why};

    /// Lines of the text that begin so.
    fn lines(metrics: &Metrics, prefix: &str) -> Vec<String> {
        let text = metrics.text();
        let found = text.lines().filter(|line| line.starts_with(prefix));
        found.map(ToOwned::to_owned).collect()
    }

    fn node(step: Step, reason: Reason) -> NodeReport {
        NodeReport {
            pool: "worker".into(),
            step,
            why: Why::new(reason, ""),
            since: Some("2026-01-01T00:00:00Z".to_owned()),
            change: None,
        }
    }

    #[test]
    fn every_metric_that_is_served_is_described_and_the_other_way_round() {
        let metrics = Metrics::new();
        // A family shows itself with its first series.
        let owner = Owner::run(Key::new("ns", "upgrade"));
        let mut report = Report::default();
        report
            .nodes
            .insert("a".to_owned(), node(Step::PreRules, Reason::RuleRunning));
        report.pools.push(numo_core::report::PoolReport::default());
        metrics.show(&owner, &report, Reason::Progressing, false);
        let mut observed = Observed::default();
        let budget = numo_core::observed::BudgetView {
            name: "all".to_owned(),
            selector: serde_json::json!({}),
            max_unavailable: Err("unknown".to_owned()),
            group_by: None,
            paused: false,
            annotations: BTreeMap::new(),
            uid: String::new(),
            generation: 1,
            status: numo_api::MutexBudgetStatus::default(),
        };
        observed.budgets.insert("all".to_owned(), budget);
        let some = numo_core::observed::NodeView {
            name: "a".to_owned(),
            uid: String::new(),
            created: Timestamp::UNIX_EPOCH,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            has_annotations: false,
            unschedulable: false,
            taints: serde_json::Value::Null,
            ready: true,
            not_ready_since: None,
            leaving: None,
            boot_id: String::new(),
            kubelet_version: String::new(),
            etcd_voter: None,
        };
        observed.nodes.insert("a".to_owned(), some);
        metrics.show_cluster(&observed, Timestamp::UNIX_EPOCH);
        metrics.show_left(&[]);
        metrics.awaits(["mutexrules"].into(), 0);
        metrics.begins("ns/rule", Phase::Pre);
        let labels = RulePhaseLabels {
            rule: "ns/rule".to_owned(),
            phase: "Pre",
        };
        metrics.rule_seconds.get_or_create(&labels).observe(1.0);
        metrics.evaluated("ns/rule", Duration::from_secs(1));
        metrics.used_memory("ns/rule", 1);
        metrics.gave_no_verdict("ns/rule", Reason::Trap);
        metrics.wrote("PatchNode", "ok");
        let served: BTreeSet<String> = lines(&metrics, "# TYPE ").into_iter().collect();
        let described: BTreeSet<String> = ALL
            .iter()
            .map(|one| format!("# TYPE numo_{} {}", one.name, one.kind))
            .collect();
        assert_eq!(served, described);
    }

    /// What nobody has seen yet is at zero: an alert on growth must not miss the first time.
    #[test]
    fn counters_are_there_before_anything_is_counted() {
        let metrics = Metrics::new();
        let written: BTreeSet<&str> = include_str!("planner/action.rs")
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Action::")?.split_once(" => \""))
            .filter_map(|(_, name)| name.strip_suffix("\","))
            .collect();
        assert!(written.len() > 15, "{written:?}");
        for action in written.into_iter().chain(["WriteStatus"]) {
            for result in ["ok", "stale", "refused", "failed"] {
                let line = format!("numo_writes_total{{action=\"{action}\",result=\"{result}\"}} 0");
                assert_eq!(lines(&metrics, &line).len(), 1, "{line}");
            }
        }
        let mut rule = RuleView {
            key: Key::new("ns", "rule"),
            uid: String::new(),
            generation: 1,
            job_name: String::new(),
            job_namespace: String::new(),
            job_accounts: Vec::new(),
            has_job: false,
            has_clean_up_job: false,
            is_asked: true,
            timeout_seconds: 1,
            pass_seconds: 60,
            retries: 0,
            failure_policy: numo_api::FailurePolicy::default(),
            phases: vec![Phase::Pre],
            placement: numo_api::Placement::default(),
            log_tail_bytes: 0,
            validity: numo_core::observed::Validity::Unknown,
        };
        metrics.know_rules([&rule].into_iter());
        let of = |phase: &str| format!("numo_rule_verdicts_total{{rule=\"ns/rule\",phase=\"{phase}\"");
        assert_eq!(lines(&metrics, &of("Pre")).len(), VERDICTS.len());
        assert_eq!(lines(&metrics, &of("Post")).len(), 0);
        let trap = "numo_plugin_failures_total{rule=\"ns/rule\",reason=\"Trap\"} 0";
        assert_eq!(lines(&metrics, trap).len(), 1);
        // An edit of the rule gives it another phase.
        rule.generation = 2;
        rule.phases = vec![Phase::Pre, Phase::Post];
        metrics.know_rules([&rule].into_iter());
        assert_eq!(lines(&metrics, &of("Post")).len(), VERDICTS.len());
        metrics.keep_rules(|_| false);
        assert_eq!(lines(&metrics, &of("Pre")).len(), 0);
        assert_eq!(lines(&metrics, trap).len(), 0);
    }

    /// Whoever deletes a run in mid-upgrade does not silence the alert that its pool is paused.
    #[test]
    fn a_pool_that_stays_paused_keeps_its_series_when_its_run_is_gone() {
        let metrics = Metrics::new();
        let owner = Owner::run(Key::new("ns", "upgrade"));
        let report = Report {
            phase: RunPhase::Held,
            pools: vec![numo_core::report::PoolReport {
                name: "worker".to_owned(),
                paused: true,
                ours: true,
                outdated: 3,
                ..numo_core::report::PoolReport::default()
            }],
            ..Report::default()
        };
        let labels = r#"{namespace="ns",name="upgrade",pool="worker"}"#;
        let shown = |paused: &str, held: &str| {
            let series = format!("numo_pool_paused{labels} {paused}");
            assert_eq!(lines(&metrics, &series).len(), 1, "{series}\n{}", metrics.text());
            let series = format!("numo_pool_held_nodes{labels} {held}");
            assert_eq!(lines(&metrics, &series).len(), 1, "{series}\n{}", metrics.text());
        };
        metrics.show(&owner, &report, Reason::PoolHeld, true);
        metrics.show_left(&[]);
        shown("1", "3");
        assert_eq!(lines(&metrics, "numo_orphaned_marks{").len(), MARKS.len());
        let orphan = Orphan {
            left: numo_core::left::Left {
                object: "MachineConfigPool worker".to_owned(),
                mark: numo_api::marks::PAUSED_BY.to_owned(),
                owner: "uid".to_owned(),
                message: String::new(),
            },
            on: numo_core::left::Marked {
                api_version: "machineconfiguration.openshift.io/v1",
                kind: "MachineConfigPool",
                key: Key::new("", "worker"),
                uid: "pool".to_owned(),
            },
            owner: Some(Key::new("ns", "upgrade")),
            unknown: None,
            held_nodes: Some(2),
            commands: Vec::new(),
        };
        metrics.forget(&owner);
        metrics.show_left(std::slice::from_ref(&orphan));
        shown("1", "2");
        let mark = format!("numo_orphaned_marks{{mark=\"{}\"}} 1", numo_api::marks::PAUSED_BY);
        assert_eq!(lines(&metrics, &mark).len(), 1);
        // A run of that name comes back, and does not hold the pool yet: the pool is paused all the same.
        let idle = Report {
            phase: RunPhase::Idle,
            pools: vec![numo_core::report::PoolReport {
                name: "worker".to_owned(),
                paused: true,
                ..numo_core::report::PoolReport::default()
            }],
            ..Report::default()
        };
        metrics.show(&owner, &idle, Reason::UpToDate, false);
        metrics.show_left(&[orphan]);
        shown("1", "2");
        metrics.show_left(&[]);
        shown("0", "0");
        metrics.forget(&owner);
        metrics.show_left(&[]);
        assert_eq!(lines(&metrics, "numo_pool_paused{"), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_listed_yet_is_shown_until_it_is() {
        let metrics = Metrics::new();
        assert!(metrics.unlisted().is_none());
        metrics.awaits(["mutexrules", "nodes"].into(), 0);
        assert_eq!(lines(&metrics, "numo_not_listed{").len(), 2);
        metrics.awaits(["mutexrules"].into(), 0);
        let shown = lines(&metrics, "numo_not_listed{");
        assert_eq!(shown, ["numo_not_listed{resource=\"mutexrules\"} 1"]);
        let (resources, _) = metrics.unlisted().unwrap();
        assert_eq!(resources, ["mutexrules"]);
        metrics.awaits(BTreeSet::new(), 0);
        assert!(metrics.unlisted().is_none());
        assert_eq!(lines(&metrics, "numo_not_listed{"), Vec::<String>::new());
    }

    /// Between upgrades a refused run with `hold: Always` keeps its pools paused, and holds no upgrade.
    #[test]
    fn an_upgrade_is_held_only_once_one_has_begun() {
        let metrics = Metrics::new();
        let owner = Owner::run(Key::new("ns", "upgrade"));
        let mut report = Report::default();
        let series = |value: u8| {
            format!(r#"numo_upgrade_held{{kind="MutexRunConfig",namespace="ns",name="upgrade"}} {value}"#)
        };
        metrics.show(&owner, &report, Reason::RuleNotFound, true);
        assert_eq!(lines(&metrics, "numo_upgrade_held{"), [series(0)]);
        report.upgrade_held = Some(numo_core::report::Why::new(Reason::RuleNotFound, ""));
        metrics.show(&owner, &report, Reason::RuleNotFound, true);
        assert_eq!(lines(&metrics, "numo_upgrade_held{"), [series(1)]);
        metrics.forget(&owner);
        assert_eq!(lines(&metrics, "numo_upgrade_held{"), Vec::<String>::new());
    }

    #[test]
    fn steps_are_always_there_and_what_is_over_is_taken_back() {
        let metrics = Metrics::new();
        let owner = Owner::run(Key::new("ns", "upgrade"));
        let mut report = Report::default();
        report
            .nodes
            .insert("a".to_owned(), node(Step::PreRules, Reason::RuleRunning));
        report
            .nodes
            .insert("b".to_owned(), node(Step::Selected, Reason::WaitingForTurn));
        metrics.show(&owner, &report, Reason::Progressing, false);
        assert_eq!(lines(&metrics, "numo_nodes{").len(), 16);
        let of_step = "numo_node_step{kind=\"MutexRunConfig\",namespace=\"ns\",name=\"upgrade\",node=\"a\",step=\"PreRules\"} 1";
        assert_eq!(lines(&metrics, of_step).len(), 1);
        assert_eq!(lines(&metrics, "numo_waiting_nodes{").len(), 2);
        assert_eq!(
            lines(&metrics, "numo_node_step_since_timestamp_seconds{").len(),
            1
        );
        report
            .nodes
            .insert("a".to_owned(), node(Step::Done, Reason::Done));
        metrics.show(&owner, &report, Reason::Suspended, true);
        assert_eq!(lines(&metrics, "numo_node_step{").len(), 0);
        assert_eq!(lines(&metrics, "numo_waiting_nodes{").len(), 1);
        assert_eq!(
            lines(&metrics, "numo_owner_reason{"),
            [
                r#"numo_owner_reason{kind="MutexRunConfig",namespace="ns",name="upgrade",reason="Suspended"} 1"#
            ]
        );
        metrics.begins("ns/rule", Phase::Pre);
        metrics.keep_rules(|rule| rule == "ns/rule");
        assert_eq!(lines(&metrics, "numo_rule_verdicts_total{").len(), VERDICTS.len());
        metrics.keep_rules(|_| false);
        assert_eq!(lines(&metrics, "numo_rule_verdicts_total{"), Vec::<String>::new());
        metrics.forget(&owner);
        for name in [
            "numo_nodes{",
            "numo_waiting_nodes{",
            "numo_owner_reason{",
            "numo_owner_stalled{",
        ] {
            assert_eq!(lines(&metrics, name), Vec::<String>::new());
        }
    }
}
