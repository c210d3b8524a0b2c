//! What one owner would do, as data and as text. It looks at nothing.

use crate::cli::{
    named::Named,
    output::{self, paint},
};
use numo_api::{Reason, Step};
use numo_core::{
    report::NO_WAVE,
    text::{counted, first_of},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

/// What one owner would do.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is said of the preview by itself"
)]
pub(super) struct Preview {
    /// The owner, or the rule that is asked by itself.
    pub(super) object: Named,
    /// Whether it goes to no version.
    #[serde(skip)]
    pub(super) is_maintenance: bool,
    /// The node that a rule was asked about by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked_about: Option<String>,
    /// The version its nodes go to; none if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    /// Whether the upgrade to it is assumed: it is not under way, or the control plane is not there yet.
    pub(super) assumed: bool,
    /// Whether nobody named that version: no upgrade is under way, and it is the next minor one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) default_target: bool,
    /// What stands against it as a whole.
    pub(super) refused: Vec<Said>,
    /// What looks like an order or a limit of it and keeps no node from its turn, and what a person should know of its waves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
    /// When the first node would begin, where hours keep it waiting; none is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) begins: Option<BeginSaid>,
    /// What a person would have to approve, in that order. It is taken for given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) approvals: Vec<String>,
    /// What their order is by, where the owner says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ordered_by: Option<String>,
    /// Nodes whose order is decided only when the Plan is created, by its uid; then there are no batches yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unordered: Vec<String>,
    /// The waves that the owner declares, those whose nodes would begin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) waves: Vec<WaveSaid>,
    /// Nodes that would begin together, in order.
    pub(super) batches: Vec<BatchSaid>,
    /// What a node takes, by which those times are; absent where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) forecast: Option<ForecastSaid>,
    /// Whether there are more batches than were worked out.
    pub(super) more: bool,
    /// Nodes that would have no turn, and why.
    pub(super) left: Vec<NodeSaid>,
    /// What drains would meet.
    pub(super) drains: Vec<DrainSaid>,
    /// Nodes whose drains were not checked.
    pub(super) not_checked: usize,
    /// What rules say of the first node now.
    pub(super) rules: Vec<RuleSaid>,
    /// Admission webhooks that would have no endpoint for a time.
    pub(super) webhooks: Vec<String>,
    /// Rights and definitions that are missing.
    pub(super) missing: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    pub(super) reason: Reason,
    pub(super) message: String,
    pub(super) ends_by: &'static str,
}

/// When the first node would begin, and what it waits for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BeginSaid {
    /// RFC 3339.
    pub(super) at: String,
    pub(super) reason: Reason,
    pub(super) message: String,
}

/// Nodes that would begin together.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BatchSaid {
    pub(super) nodes: Vec<String>,
    /// The number of their wave, where the owner declares waves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wave: Option<usize>,
    /// Absent but for the first batch, where nobody knows how long a node takes.
    #[serde(flatten)]
    pub(super) times: Option<TimesSaid>,
}

/// A wave whose nodes would begin, where the owner declares waves.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaveSaid {
    /// From 1.
    pub(super) number: usize,
    /// How many there are, the nodes of no wave among them.
    pub(super) of: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Whether it is that of the nodes of no wave.
    #[serde(skip)]
    pub(super) is_rest: bool,
    /// How many of its nodes would begin.
    pub(super) nodes: usize,
    /// How many nodes it has, those that are done among them.
    pub(super) of_nodes: usize,
    #[serde(flatten)]
    pub(super) times: Option<TimesSaid>,
}

impl fmt::Display for WaveSaid {
    /// For people: `wave 2 of 4 (infra): 10 nodes, begins Tue 22:00 …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wave {} of {}", self.number, self.of)?;
        if let Some(name) = self.name.as_deref().or(self.is_rest.then_some(NO_WAVE)) {
            write!(f, " ({name})")?;
        }
        let of = counted(self.of_nodes, "node");
        if self.nodes < self.of_nodes {
            write!(f, ": {} of {of}", self.nodes)?;
        } else {
            write!(f, ": {of}")?;
        }
        self.times
            .iter()
            .try_for_each(|times| write!(f, ", {}", times.words))
    }
}

/// When nodes would begin, and be done.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TimesSaid {
    /// RFC 3339.
    pub(super) begins: String,
    /// RFC 3339; absent where nobody knows how long a node takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) done_by: Option<String>,
    /// By how much that may be wrong: what nodes take differs so much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spread_seconds: Option<i64>,
    /// As people at the place of the hours read it.
    #[serde(skip)]
    pub(super) words: String,
}

/// What a node takes, and by which nodes that is known.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ForecastSaid {
    pub(super) median_seconds: i64,
    pub(super) spread_seconds: i64,
    pub(super) nodes: usize,
    /// Whether these are of earlier runs.
    pub(super) earlier: bool,
    #[serde(skip)]
    pub(super) words: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeSaid {
    pub(super) node: String,
    pub(super) step: Step,
    pub(super) reason: Reason,
    pub(super) message: String,
    pub(super) ends_by: &'static str,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DrainSaid {
    pub(super) node: String,
    /// never, now or costs.
    pub(super) weight: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Reason>,
    pub(super) message: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuleSaid {
    pub(super) rule: String,
    pub(super) phase: &'static str,
    pub(super) node: String,
    /// pass, wait, block, error; dry-run for a Job that the API server would take, unknown for one that could not be tried.
    pub(super) verdict: &'static str,
    pub(super) message: String,
}

impl Preview {
    /// How many things stand against it.
    pub(super) fn against(&self) -> usize {
        let never = self.drains.iter().filter(|one| one.weight == "never").count();
        let rules = self
            .rules
            .iter()
            .filter(|one| matches!(one.verdict, "wait" | "block" | "error"))
            .count();
        // Who waits for those that have no turn is held by what holds them.
        let left = self.left.iter().filter(|one| one.step == Step::Selected);
        let (wait, left): (Vec<_>, Vec<_>) = left.partition(|one| one.reason == Reason::WaitingForTurn);
        let named = self.refused.len() + never + rules + left.len() + self.missing.len();
        if named == 0 { wait.len() } else { named }
    }

    /// What it is of, and where its nodes go.
    fn head(&self) -> String {
        let owner = paint(output::head(), &self.object.to_string());
        if let Some(node) = &self.asked_about {
            return format!("{owner}: evaluated for Node {node}");
        }
        if self.is_maintenance {
            return owner;
        }
        let target = self
            .target
            .as_deref()
            .unwrap_or("a version that is not known yet");
        let assumed = match (self.assumed, self.default_target) {
            (_, true) => {
                " (no upgrade is under way: the next minor version is assumed; --to-version names another)"
            }
            (true, false) => " (assumed: the control plane is there)",
            (false, false) => "",
        };
        format!("{owner}: to {target}{assumed}")
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{}", self.head());
        for said in &self.refused {
            let reason = paint(output::of_reason(said.reason), said.reason.name());
            let _ = writeln!(
                text,
                "  refused {reason}: {}; ended by {}",
                said.message, said.ends_by
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "  note    {note}");
        }
        for missing in &self.missing {
            let _ = writeln!(text, "  missing {missing}");
        }
        if let Some(begins) = &self.begins {
            let reason = paint(output::of_reason(begins.reason), begins.reason.name());
            let _ = writeln!(text, "  begins  {}: {reason}: {}", begins.at, begins.message);
        }
        for point in &self.approvals {
            let _ = writeln!(
                text,
                "  waits   for approval of {point}, which is taken for given here"
            );
        }
        self.write_batches(&mut text);
        self.write_left(&mut text);
        self.write_rules(&mut text);
        self.write_drains(&mut text);
        for webhook in &self.webhooks {
            let _ = writeln!(text, "  webhook {webhook}");
        }
        text
    }

    /// The order is not known yet: no node is said to be the first.
    pub(super) fn forget_order(&mut self) {
        let batches = self.batches.drain(..);
        self.unordered = batches.flat_map(|batch| batch.nodes).collect();
        self.waves.clear();
        self.unordered.sort();
    }

    fn write_unordered(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "  order   {}, in an order that is decided when the Plan is created; spec.mutex.order fixes it",
            counted(self.unordered.len(), "node")
        );
        let named = self.unordered.iter().take(SHOWN).cloned().collect::<Vec<_>>();
        let more = match self.unordered.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more (-o json)"),
        };
        let _ = writeln!(text, "          {}{more}", named.join(", "));
    }

    fn write_batches(&self, text: &mut String) {
        if !self.unordered.is_empty() {
            self.write_unordered(text);
        }
        let number: usize = self.batches.iter().map(|batch| batch.nodes.len()).sum();
        if number == 0 {
            return;
        }
        let more = if self.more { ", and more" } else { "" };
        let by = self
            .ordered_by
            .as_ref()
            .map_or_else(String::new, |by| format!(" ({by})"));
        let _ = writeln!(
            text,
            "  order   {} in {}{more}{by}",
            counted(number, "node"),
            counted(self.batches.len(), "batch")
        );
        let mut waves = self.waves.iter().peekable();
        for (index, batch) in self.batches.iter().enumerate().take(SHOWN) {
            if let Some(wave) = waves.next_if(|wave| batch.wave == Some(wave.number)) {
                let _ = writeln!(text, "          {wave}");
            }
            let _ = writeln!(text, "  {:>7} {}", index + 1, batch.nodes.join(", "));
            if let Some(times) = &batch.times {
                let _ = writeln!(text, "          {}", times.words);
            }
        }
        if self.batches.len() > SHOWN {
            let _ = writeln!(
                text,
                "          and {} more (-o json)",
                counted(self.batches.len() - SHOWN, "batch")
            );
        }
        // Waves whose first batch is not shown.
        for wave in waves {
            let _ = writeln!(text, "          {wave}");
        }
        self.write_forecast(text);
    }

    /// By what the times are known, or why they are not. What is in maintenance comes back when a person says so.
    fn write_forecast(&self, text: &mut String) {
        let words = match &self.forecast {
            _ if self.is_maintenance => return,
            Some(forecast) => forecast.words.as_str(),
            None => {
                "not known: no journal of a node of it that is done is kept, so nobody knows how long one takes"
            }
        };
        let _ = writeln!(text, "  times   {words}");
    }

    /// Nodes of one reason and message are one line.
    fn write_left(&self, text: &mut String) {
        let mut alike: BTreeMap<(Reason, &str), Vec<&str>> = BTreeMap::new();
        for left in &self.left {
            let words = (left.reason, left.message.as_str());
            alike.entry(words).or_default().push(&left.node);
        }
        for ((reason, message), nodes) in alike.iter().take(SHOWN) {
            let reason = paint(output::of_reason(*reason), reason.name());
            let named = first_of(nodes, SHOWN);
            let _ = writeln!(text, "  no turn {named}: {reason}: {message}");
        }
        if alike.len() > SHOWN {
            let _ = writeln!(
                text,
                "          and {} more (-o json)",
                counted(alike.len() - SHOWN, "reason")
            );
        }
    }

    fn write_rules(&self, text: &mut String) {
        for rule in &self.rules {
            let of = if rule.node.is_empty() {
                String::new()
            } else {
                format!(" of Node {}", rule.node)
            };
            let _ = writeln!(
                text,
                "  rule    {} in {}{of}: {}: {}",
                rule.rule, rule.phase, rule.verdict, rule.message
            );
        }
    }

    /// What stands against the drains, and how many nodes' pods nobody has looked at.
    fn write_drains(&self, text: &mut String) {
        for drain in self.drains.iter().take(SHOWN * 2) {
            let weight = if drain.weight == "never" {
                paint(output::bad(), drain.weight)
            } else {
                drain.weight.to_owned()
            };
            let _ = writeln!(text, "  drain   Node {}: {weight}: {}", drain.node, drain.message);
        }
        if self.drains.len() > SHOWN * 2 {
            let _ = writeln!(
                text,
                "          and {} more (-o json)",
                self.drains.len() - SHOWN * 2
            );
        }
        if self.not_checked > 0 {
            let _ = writeln!(
                text,
                "          the pods of {} were not checked (--drains)",
                counted(self.not_checked, "node")
            );
        }
    }
}

/// Lines of one kind that are shown.
const SHOWN: usize = 20;
