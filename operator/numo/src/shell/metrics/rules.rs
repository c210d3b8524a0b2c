//! Rules: their verdicts, how long they took, and evaluations that gave none. A counter is there before anything is counted.

use super::{
    described::{PLUGIN_FAILURES, PLUGIN_MEMORY, PLUGIN_SECONDS, RULE_SECONDS, RULE_VERDICTS},
    series::register,
};
use jiff::Timestamp;
use numo_api::{Outcome, Phase, Reason, VerdictRecord};
use numo_core::observed::RuleView;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

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
pub(super) const VERDICTS: [&str; 5] = ["pass", "fail", "continued", "wait", "error"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct VerdictLabels {
    rule: String,
    phase: &'static str,
    verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct RulePhaseLabels {
    pub(super) rule: String,
    pub(super) phase: &'static str,
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

/// Histograms of rules.
type RuleSeconds = Family<RulePhaseLabels, Histogram, fn() -> Histogram>;

/// Metrics of rules.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    verdicts: Family<VerdictLabels, Counter>,
    pub(super) seconds: RuleSeconds,
    plugin_seconds: Family<RuleLabels, Counter<f64, AtomicU64>>,
    plugin_memory: Family<RuleLabels, Gauge>,
    plugin_failures: Family<FailureLabels, Counter>,
    /// Rules that have series.
    counted: Arc<Mutex<BTreeMap<String, i64>>>,
}

impl Rules {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let rules = Self {
            verdicts: Family::default(),
            seconds: Family::new_with_constructor(|| {
                Histogram::new([
                    0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0,
                ])
            }),
            plugin_seconds: Family::default(),
            plugin_memory: Family::default(),
            plugin_failures: Family::default(),
            counted: Arc::default(),
        };
        register(registry, RULE_VERDICTS, rules.verdicts.clone());
        register(registry, RULE_SECONDS, rules.seconds.clone());
        register(registry, PLUGIN_SECONDS, rules.plugin_seconds.clone());
        register(registry, PLUGIN_MEMORY, rules.plugin_memory.clone());
        register(registry, PLUGIN_FAILURES, rules.plugin_failures.clone());
        rules
    }

    /// A rule is asked: its counters are there, at zero.
    pub(super) fn begins(&self, rule: &str, phase: Phase) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.entry(rule.to_owned()).or_default();
        drop(counted);
        self.count_from_zero(rule, phase);
    }

    /// Rules are there: their counters are, at zero, before any of them is asked.
    pub(super) fn know_rules<'r>(&self, rules: impl Iterator<Item = &'r RuleView>) {
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
            if view.is_evaluated {
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
            let _ = self.verdicts.get_or_create(&labels);
        }
    }

    /// Forgets rules that are gone.
    pub(super) fn keep_rules(&self, is_there: impl Fn(&str) -> bool) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<String> = counted.keys().filter(|rule| !is_there(rule)).cloned().collect();
        for rule in gone {
            for phase in PHASES.map(Phase::name) {
                for verdict in VERDICTS {
                    let rule = rule.clone();
                    self.verdicts.remove(&VerdictLabels { rule, phase, verdict });
                }
                let rule = rule.clone();
                self.seconds.remove(&RulePhaseLabels { rule, phase });
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
    pub(super) fn judged(&self, verdict: &VerdictRecord) {
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
            self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    /// Counts an evaluation that was no verdict for a node: a wait, or none at all.
    pub(super) fn count_verdict(&self, rule: &str, phase: Phase, verdict: &'static str) {
        let labels = VerdictLabels {
            rule: rule.to_owned(),
            phase: phase.name(),
            verdict,
        };
        self.verdicts.get_or_create(&labels).inc();
    }

    /// Counts what an evaluation took.
    pub(super) fn evaluated(&self, rule: &str, took: Duration) {
        let labels = RuleLabels {
            rule: rule.to_owned(),
        };
        self.plugin_seconds
            .get_or_create(&labels)
            .inc_by(took.as_secs_f64());
    }

    /// Notes how much memory the last evaluation of a component had (bytes).
    pub(super) fn used_memory(&self, rule: &str, bytes: u64) {
        let labels = RuleLabels {
            rule: rule.to_owned(),
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.plugin_memory.get_or_create(&labels).set(bytes);
    }

    /// Counts an evaluation without a verdict.
    pub(super) fn gave_no_verdict(&self, rule: &str, reason: Reason) {
        let labels = FailureLabels {
            rule: rule.to_owned(),
            reason: reason.name(),
        };
        self.plugin_failures.get_or_create(&labels).inc();
    }
}
