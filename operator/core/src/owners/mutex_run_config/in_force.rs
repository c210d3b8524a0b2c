//! What holds for one node of a run: what its turn began with, whatever the spec says by now.

use crate::{
    admit::wave_rules::WaveRules,
    intent::{Intent, own},
    key::Key,
    observed::{Observed, RuleView},
};
use numo_api::{Strategy, Terms};

/// What holds for one node: the part of the intent that was in force when its turn began.
#[derive(Clone, Debug)]
pub struct InForce<'a> {
    /// How the node is let go.
    pub strategy: Strategy,
    /// The rules in order; none where the rule does not exist.
    pub rules: Vec<(Key, Option<&'a RuleView>)>,
    /// Soak time (seconds).
    pub soak_seconds: i64,
    /// Time a released node has (seconds).
    pub change_timeout_seconds: i64,
    /// Whether evictions are tried by dry run before a release.
    pub drain_probe: bool,
}

impl<'a> InForce<'a> {
    /// What the journal remembers of the spec; what the spec says now where it remembers nothing.
    pub fn of(intent: &Intent<'a>, observed: &'a Observed, terms: Option<&Terms>) -> Self {
        let Some(terms) = terms else {
            let own = own(intent.workloads_check, intent.await_workloads);
            return Self {
                strategy: intent.strategy,
                rules: intent.rules.iter().cloned().chain(own).collect(),
                soak_seconds: intent.soak_seconds,
                change_timeout_seconds: intent.change_timeout_seconds,
                drain_probe: intent.drain_probe,
            };
        };
        let rules = terms.rules.iter().map(|name| {
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            let key = Key::new(namespace, name);
            let rule = observed.rules.get(&key);
            (key, rule)
        });
        Self {
            strategy: terms.strategy,
            rules: rules
                .chain(own(intent.workloads_check, terms.await_workloads))
                .collect(),
            soak_seconds: terms.soak_seconds.max(0),
            change_timeout_seconds: terms.change_timeout_seconds.max(1),
            drain_probe: terms.drain_probe,
        }
    }
}

impl Intent<'_> {
    /// What the journal of a node is to remember of the spec.
    pub(crate) fn terms(&self, node: &str, waves: &WaveRules<'_>, observed: &Observed) -> Terms {
        let rules = waves.of(node, &self.rules, observed);
        Terms {
            strategy: self.strategy,
            rules: rules.iter().map(|(key, _)| key.to_string()).collect(),
            soak_seconds: self.soak_seconds,
            change_timeout_seconds: self.change_timeout_seconds,
            drain_probe: self.drain_probe,
            await_workloads: self.await_workloads,
        }
    }
}
