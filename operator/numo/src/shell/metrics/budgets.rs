//! MutexBudgets: how much of each is in use, and how many nodes wait for it.

use super::{
    described::{BUDGET_ALLOWED, BUDGET_BLOCKED, BUDGET_IN_USE, BUDGET_NODES, BUDGET_PAUSED},
    series::{Series, nobody, register},
};
use jiff::Timestamp;
use numo_api::Reason;
use numo_core::{
    Owner,
    ledger::{self, Ledger},
    observed::Observed,
    report::Report,
};
use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Groups of one budget that are shown, at most.
const GROUPS: usize = 100;

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

/// Nodes that wait for a budget, by owner.
type Blocked = BTreeMap<Owner, Vec<(String, Reason)>>;

/// Gauges of budgets.
#[derive(Clone, Debug)]
pub(super) struct Budgets {
    nodes: Series<GroupLabels>,
    allowed: Series<GroupLabels>,
    in_use: Series<GroupLabels>,
    blocked: Series<BlockedLabels>,
    paused: Series<BudgetLabels>,
    waiting: Arc<Mutex<Blocked>>,
}

impl Budgets {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let budgets = Self {
            nodes: Series::default(),
            allowed: Series::default(),
            in_use: Series::default(),
            blocked: Series::default(),
            paused: Series::default(),
            waiting: Arc::default(),
        };
        register(registry, BUDGET_NODES, budgets.nodes.family.clone());
        register(registry, BUDGET_ALLOWED, budgets.allowed.family.clone());
        register(registry, BUDGET_IN_USE, budgets.in_use.family.clone());
        register(registry, BUDGET_BLOCKED, budgets.blocked.family.clone());
        register(registry, BUDGET_PAUSED, budgets.paused.family.clone());
        budgets
    }

    /// Notes which nodes of an owner wait for a budget; they are shown by the next [`Self::show`].
    pub(super) fn note(&self, owner: &Owner, report: &Report) {
        let nodes = report
            .nodes
            .iter()
            .filter(|(_, said)| matches!(said.why.reason, Reason::BudgetExhausted | Reason::Stopped));
        let waiting: Vec<_> = nodes
            .map(|(node, said)| (node.clone(), said.why.reason))
            .collect();
        let mut known = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_empty() {
            known.remove(owner);
        } else {
            known.insert(owner.clone(), waiting);
        }
    }

    pub(super) fn show(&self, observed: &Observed, now: Timestamp) {
        let nobody = nobody();
        if observed.budgets.is_empty() {
            for series in [&self.nodes, &self.allowed, &self.in_use] {
                series.show(&nobody, []);
            }
            self.blocked.show(&nobody, []);
            self.paused.show(&nobody, []);
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
        self.nodes.show(&nobody, series(|used| used.nodes));
        self.allowed
            .show(&nobody, series(|used| used.allowed.unwrap_or(0)));
        self.in_use.show(&nobody, series(|used| used.unavailable.len()));
        let paused = observed.budgets.values().map(|budget| {
            let labels = BudgetLabels {
                budget: budget.name.clone(),
            };
            (labels, i64::from(budget.paused))
        });
        self.paused.show(&nobody, paused);
        self.show_blocked(observed, &uses);
    }

    /// Nodes that wait for a budget that is full or paused, by the budget.
    fn show_blocked(&self, observed: &Observed, uses: &[ledger::Use<'_>]) {
        let mut waiting: BTreeMap<(&str, Reason), i64> = BTreeMap::new();
        for budget in observed.budgets.keys() {
            waiting.insert((budget, Reason::BudgetExhausted), 0);
            waiting.insert((budget, Reason::Stopped), 0);
        }
        let known = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = known.values().flatten();
        for (node, reason) in nodes.filter_map(|(node, reason)| Some((observed.nodes.get(node)?, reason))) {
            let of_node = uses.iter().filter(|used| {
                let group = used.budget.group_by.as_ref().map_or("", |key| node.label(key));
                used.group == group && ledger::covers(used.budget, node)
            });
            for used in of_node {
                let blocks = match reason {
                    Reason::Stopped => used.budget.paused,
                    _ => used.is_full(),
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
        self.blocked.show(&nobody(), waiting);
    }

    pub(super) fn forget(&self, owner: &Owner) {
        let mut known = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(owner);
    }
}
