//! A MutexRunConfig, a Plan or a NodeVersion with its pools and the nodes that are behind.

use super::{
    message::{SHOWN, shortened},
    order::{self, ApprovalLine, HoursLine, WaveLine, ready_since},
};
use crate::{
    cli::{
        live::{self, Look, ago},
        output::{self, Cell, Layout, Table, paint},
    },
    frontends::standing::Standing,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, conditions::types, mutex_run_config::RunStatus};
use numo_core::{Decision, Owner, eta::Eta, observed::Key, report::Report, suspended::suspended, time};
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write as _};

/// A MutexRunConfig, a Plan or a NodeVersion.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerLine {
    pub(super) kind: &'static str,
    /// Empty of a NodeVersion, which is in none.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) reason: Reason,
    pub(super) message: String,
    pub(super) means: &'static str,
    pub(super) ends_by: &'static str,
    /// When the status of its condition Ready last changed: since when it is done, or is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<String>,
    /// That a person has paused it, where something worse is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paused: Option<String>,
    pub(super) target: Option<String>,
    pub(super) nodes: usize,
    pub(super) done: usize,
    pub(super) steps: BTreeMap<&'static str, usize>,
    pub(super) eta: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) eta_seconds: Option<i64>,
    /// How its own hours stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hours: Vec<HoursLine>,
    /// The wave under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    wave: Option<WaveLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalLine>,
    /// What looks like an order or a limit of it and keeps no node from its turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The last run, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<Over>,
    pools: Vec<PoolLine>,
    behind: Vec<NodeLine>,
}

/// When a run ended, and how long it took.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Over {
    finished_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_seconds: Option<i64>,
}

impl Over {
    /// None while the run goes on, and of an owner that has none.
    fn of(run: Option<&RunStatus>) -> Option<Self> {
        let run = run?;
        let finished: Timestamp = run.finished_at.as_ref()?.parse().ok()?;
        let started: Option<Timestamp> = run.started_at.as_ref().and_then(|at| at.parse().ok());
        Some(Self {
            finished_at: finished.to_string(),
            took_seconds: started.map(|at| (finished.as_second() - at.as_second()).max(0)),
        })
    }

    fn words(&self, now: Timestamp) -> String {
        let took = self
            .took_seconds
            .map_or_else(String::new, |seconds| format!(", after {}", time::words(seconds)));
        format!(
            "since {}, {} ago{took}",
            self.finished_at,
            ago(Some(&self.finished_at), now)
        )
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PoolLine {
    name: String,
    config: String,
    paused: bool,
    paused_by_numo: bool,
    nodes: usize,
    outdated: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeLine {
    name: String,
    pool: String,
    step: Step,
    since: Option<String>,
    reason: Reason,
    message: String,
    ends_by: &'static str,
    change: Option<String>,
}

impl NodeLine {
    /// The nodes that are not done. Who is under way comes before those who wait for them.
    fn of_behind(report: &Report) -> Vec<Self> {
        let behind = report.nodes.iter().filter(|(_, node)| node.step != Step::Done);
        let mut behind: Vec<Self> = behind
            .map(|(name, node)| Self {
                name: name.clone(),
                pool: node.pool.to_string(),
                step: node.step,
                since: node.since.clone(),
                reason: node.why.reason,
                message: node.why.message.to_string(),
                ends_by: node.why.who().phrase(),
                change: node.change.clone(),
            })
            .collect();
        behind.sort_by_key(|node| node.step == Step::Selected);
        behind
    }
}

/// The owner of this kind.
fn named(kind: &str, key: &Key) -> Owner {
    match kind {
        "MutexRunConfig" => Owner::run(key.clone()),
        "NodeVersion" => Owner::node_version(key.name.as_str()),
        _ => Owner::plan(key.clone()),
    }
}

/// That a person has paused the owner, where that is not the reason that is told.
fn paused(look: &Look, kind: &str, key: &Key, told: Reason) -> Option<String> {
    let owner = named(kind, key);
    let why = suspended(&look.store.observed, &owner)?;
    (why.reason != told).then(|| why.message.to_string())
}

/// When the status of the owner's condition Ready last changed.
fn since(look: &Look, kind: &str, key: &Key) -> Option<String> {
    let observed = &look.store.observed;
    match kind {
        "MutexRunConfig" => ready_since(&observed.runs.get(key)?.status.conditions),
        "NodeVersion" => ready_since(&observed.fleet.versions.get(&key.name)?.status.conditions),
        _ => {
            let all = observed.plans.get(key)?.status.conditions.iter().flatten();
            let mut ready = all.filter(|condition| condition.type_ == types::READY);
            ready.next()?.last_transition_time.clone()
        }
    }
}

impl OwnerLine {
    pub(super) fn of(
        look: &Look,
        kind: &'static str,
        key: &Key,
        decision: &Decision,
        standing: Standing,
    ) -> Self {
        let report = &decision.report;
        let owner = named(kind, key);
        let eta = live::eta(look, &owner, report);
        let run = look
            .store
            .observed
            .runs
            .get(key)
            .filter(|_| kind == "MutexRunConfig");
        let run = run.and_then(|run| run.status.run.as_ref());
        let mut steps = BTreeMap::new();
        for node in report.nodes.values() {
            *steps.entry(node.step.name()).or_default() += 1;
        }
        Self {
            kind,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            reason: standing.reason,
            message: standing.message,
            means: standing.reason.meaning(),
            ends_by: standing.who.phrase(),
            since: since(look, kind, key),
            paused: paused(look, kind, key, standing.reason),
            target: report.target.clone(),
            nodes: report.nodes.len(),
            done: report.count(|node| node.step == Step::Done),
            steps,
            eta_seconds: match eta {
                Some(Eta::In { seconds, .. }) => Some(seconds),
                _ => None,
            },
            eta: live::eta_words(eta.as_ref()),
            hours: HoursLine::of(look, &owner),
            wave: report.wave.as_ref().map(WaveLine::of),
            approval: report.approval.as_ref().map(ApprovalLine::of),
            notes: report.notes.clone(),
            over: Over::of(run),
            pools: report
                .pools
                .iter()
                .map(|pool| PoolLine {
                    name: pool.name.clone(),
                    config: pool.config.clone(),
                    paused: pool.paused,
                    paused_by_numo: pool.ours,
                    nodes: pool.nodes,
                    outdated: pool.outdated,
                })
                .collect(),
            behind: NodeLine::of_behind(report),
        }
    }

    pub(super) fn text(&self, look: &Look, output: Layout) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}   {}   {}/{} nodes done   to {}",
            paint(
                output::head(),
                &format!(
                    "{} {}",
                    self.kind,
                    Key::new(self.namespace.as_str(), self.name.as_str())
                )
            ),
            paint(output::of_reason(self.reason), self.reason.name()),
            self.done,
            self.nodes,
            self.target
                .as_deref()
                .unwrap_or("a version that is not known yet")
        );
        let _ = writeln!(text, "  {}", self.message);
        if let Some(paused) = &self.paused {
            let reason = paint(output::of_reason(Reason::Suspended), Reason::Suspended.name());
            let _ = writeln!(text, "  also    {reason}: {paused}");
        }
        if self.done < self.nodes {
            let steps: Vec<String> = self
                .steps
                .iter()
                .map(|(step, nodes)| format!("{nodes} {step}"))
                .collect();
            let _ = writeln!(text, "  steps   {}", steps.join(", "));
            let _ = writeln!(text, "  eta     {}", self.eta);
        }
        let hours = if self.done < self.nodes {
            self.hours.as_slice()
        } else {
            &[]
        };
        for words in order::lines(hours, self.wave.as_ref(), self.approval.as_ref()) {
            let _ = writeln!(text, "  {words}");
        }
        for note in &self.notes {
            let _ = writeln!(text, "  note    {note}");
        }
        if let Some(over) = &self.over {
            let _ = writeln!(text, "  over    {}", over.words(look.now));
        }
        self.write_pools(&mut text, output);
        self.write_behind(&mut text, look, output);
        text
    }

    fn write_pools(&self, text: &mut String, output: Layout) {
        if self.pools.is_empty() {
            return;
        }
        let mut table = Table::new(2, ["POOL", "CONFIG", "PAUSED", "NODES", "OUTDATED"], output);
        for pool in &self.pools {
            let paused = match (pool.paused, pool.paused_by_numo) {
                (true, true) => "by numo",
                (true, false) => "by another",
                (false, _) => "no",
            };
            table.row([
                pool.name.as_str().into(),
                pool.config.as_str().into(),
                paused.into(),
                pool.nodes.to_string().into(),
                pool.outdated.to_string().into(),
            ]);
        }
        text.push_str(&table.text());
    }

    /// Nodes that are not done, as many as are shown.
    fn write_behind(&self, text: &mut String, look: &Look, output: Layout) {
        let shown = if output.is_wide { usize::MAX } else { SHOWN };
        if !self.behind.is_empty() {
            let change = if output.is_wide { "NODECHANGE" } else { "" };
            let mut table = Table::new(
                2,
                ["NODE", "POOL", "STEP", "SINCE", "REASON", "MESSAGE", change],
                output,
            );
            for node in self.behind.iter().take(shown) {
                let pool = if node.pool.is_empty() {
                    "-"
                } else {
                    node.pool.as_str()
                };
                let change = node.change.as_deref().filter(|_| output.is_wide);
                table.row([
                    node.name.as_str().into(),
                    pool.into(),
                    Cell::painted(node.step.name(), output::of_step(node.step)),
                    ago(node.since.as_deref(), look.now).into(),
                    Cell::painted(node.reason.name(), output::of_reason(node.reason)),
                    shortened(&node.message, output).into(),
                    change.unwrap_or_default().into(),
                ]);
            }
            text.push_str(&table.text());
        }
        if self.behind.len() > shown {
            let more = self.behind.len() - shown;
            let _ = writeln!(
                text,
                "  and {more} more (-o wide); `numo explain NODE` says why one waits"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::sample;
    use numo_api::{MutexRunConfigSpec, marks};

    #[test]
    fn a_run_that_is_refused_and_paused_says_both() {
        let text = |annotations: &[(&str, &str)]| {
            let store = sample::store(annotations, MutexRunConfigSpec::default());
            let look = Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH);
            let (key, decision) = &look.runs[0];
            let standing = live::said(&look, key, &decision.report);
            let line = OwnerLine::of(&look, "MutexRunConfig", key, decision, standing);
            sample::plain(&line.text(&look, Layout::default()))
        };
        let said = text(&[(marks::SUSPEND, "pause by ada: friday")]);
        let words = "also    Suspended: MutexRunConfig ops/upgrade is paused by ada: friday";
        assert!(said.contains("TargetNotFound") && said.contains(words), "{said}");
        assert!(!text(&[]).contains("Suspended"));
    }

    #[test]
    fn hours_that_are_open_say_until_when() {
        let store = sample::with_hours(sample::store(&[], MutexRunConfigSpec::default()));
        let look = Look::of(store, Vec::new(), Timestamp::UNIX_EPOCH);
        let hours = HoursLine::of(&look, &named("MutexRunConfig", &look.runs[0].0));
        assert_eq!(hours[0].words, "open until Thu 1970-01-01 02:00 UTC");
        assert_eq!(
            serde_json::to_value(&hours).unwrap(),
            serde_json::json!([{"name": "spec.window", "open": true, "closesAt": "1970-01-01T02:00:00Z"}])
        );
    }

    #[test]
    fn a_run_that_is_over_says_since_when_and_how_long_it_took() {
        let mut run = RunStatus {
            started_at: Some("2026-01-01T00:00:00Z".to_owned()),
            ..RunStatus::default()
        };
        assert_eq!(Over::of(Some(&run)), None, "it goes on");
        assert_eq!(Over::of(None), None);
        run.finished_at = Some("2026-01-01T00:12:30Z".to_owned());
        let now = "2026-01-01T03:12:30Z".parse().unwrap();
        let words = Over::of(Some(&run)).map(|over| over.words(now));
        assert_eq!(
            words.as_deref(),
            Some("since 2026-01-01T00:12:30Z, 3h ago, after 12m30s")
        );
    }
}
