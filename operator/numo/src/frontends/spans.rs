//! What of an owner's work is over, as spans of a trace: run, wave, node, step and rule. Ids are made of what the spans are about, so that
//! they are the same after every restart. Pure; where the spans go is said in `shell/traces.rs`.

use super::occurrences::{Facts, Status, occurrences, time};
use jiff::Timestamp;
use numo_api::{Outcome, RunResult, Step, Transition, VerdictRecord};
use numo_core::{
    names,
    observed::ChangeView,
    report::{NodeReport, WaveOver},
    rules::clip,
};
use std::collections::{BTreeMap, BTreeSet};

/// Hex digits of the id of a trace, as OTLP has them.
const TRACE: usize = 32;
/// Hex digits of the id of a span.
const SPAN: usize = 16;
/// Longest words of an attribute (characters).
const WORDS: usize = 512;

/// Something that took time and is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace: 32 hex digits.
    pub trace: String,
    /// 16 hex digits.
    pub id: String,
    /// The span that it is part of; none of a run.
    pub parent: Option<String>,
    /// What it is: `run`, `wave`, `node`, `rule`, or the name of a step.
    pub name: &'static str,
    /// When it began.
    pub start: Timestamp,
    /// When it ended, not before `start`.
    pub end: Timestamp,
    /// What it was about, by the names of OpenTelemetry where it has some.
    pub attributes: Vec<(&'static str, String)>,
    /// Why it failed, if so.
    pub failed: Option<String>,
}

/// What has been told of one owner.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Uids of the NodeChanges, each with the time at which the turn ended.
    nodes: BTreeMap<String, String>,
    /// The last run.
    run: String,
    /// How many waves of it.
    waves: usize,
    /// When it ended last.
    end: Option<Timestamp>,
}

/// The trace of a run: 32 hex digits.
pub fn trace_of(run_id: &str) -> String {
    names::hash(&["trace", run_id], TRACE)
}

/// What is over of an owner, ended after `since` and has not been told, each with what is part of it: nodes, waves, and the run itself. It
/// counts as told then. Nodes of a run that another has followed are part of the trace of their own.
pub fn over(facts: &Facts<'_>, since: Timestamp, told: &mut Told) -> Vec<Vec<Span>> {
    let changes = facts.changes;
    told.forget(changes);
    let mut all = Vec::new();
    for change in changes {
        if let Some(turn) = told.tell_end(change, since).then(|| Turn::of(change)).flatten()
            && let Some(end) = turn.end
        {
            all.push(Trace::of(facts, &change.spec.target.run_id).node(&turn, end));
        }
    }
    let run = facts.report.run_id.as_str();
    if run.is_empty() {
        return all;
    }
    if told.run != run {
        run.clone_into(&mut told.run);
        (told.waves, told.end) = (0, None);
    }
    let trace = Trace::of(facts, run);
    let of_run = || changes.iter().filter(|change| change.spec.target.run_id == run);
    if facts.report.waves_over.len() > told.waves {
        let turns: Vec<Turn<'_>> = of_run().filter_map(|change| Turn::of(change)).collect();
        let waves = facts.report.waves_over.iter().skip(told.waves);
        all.extend(
            waves
                .filter(|wave| wave.at > since)
                .map(|wave| trace.wave(wave, &turns)),
        );
        told.waves = facts.report.waves_over.len();
    }
    if let Some((start, end)) = trace.ended()
        && end > since
        && told.end != Some(end)
    {
        told.end = Some(end);
        let first = of_run()
            .filter_map(|change| Turn::of(change))
            .map(|turn| turn.start)
            .min();
        all.extend(
            [start, first]
                .into_iter()
                .flatten()
                .min()
                .map(|start| trace.run(start, end)),
        );
    }
    all
}

impl Told {
    /// Forgets nodes of runs before.
    fn forget(&mut self, changes: &[&ChangeView]) {
        if self.nodes.len() > changes.len() {
            let known: BTreeSet<&str> = changes.iter().map(|change| change.uid.as_str()).collect();
            self.nodes.retain(|uid, _| known.contains(uid.as_str()));
        }
    }

    /// Whether the end of this turn is to be told. It counts as told then.
    fn tell_end(&mut self, change: &ChangeView, since: Timestamp) -> bool {
        let end = change.status.since.as_deref().unwrap_or_default();
        let is_over = change.status.step.is_some_and(Step::is_terminal);
        if !is_over || self.nodes.get(&change.uid).is_some_and(|known| known == end) {
            return false;
        }
        self.nodes.insert(change.uid.clone(), end.to_owned());
        time(end).is_some_and(|end| end > since)
    }
}

/// The last attempt of a node, as its journal has it.
struct Turn<'a> {
    change: &'a ChangeView,
    /// Each step with the time at which it began.
    steps: Vec<(Timestamp, Step)>,
    /// When it began.
    start: Timestamp,
    /// When it ended, if it has.
    end: Option<Timestamp>,
}

impl<'a> Turn<'a> {
    /// None of a node that never had its turn.
    fn of(change: &'a ChangeView) -> Option<Self> {
        let attempt = change.status.attempt;
        let entries = change.status.entries.iter();
        // Those that a numo before attempts wrote have none.
        let of_attempt = entries.filter(|entry| entry.attempt == attempt || entry.attempt == 0);
        let steps = of_attempt.filter(|entry| entry.step != Step::Selected);
        let steps: Vec<(Timestamp, Step)> = steps
            .filter_map(|entry| Some((time(&entry.at)?, entry.step)))
            .collect();
        let (start, _) = *steps.first()?;
        let is_over = change.status.step.is_some_and(Step::is_terminal);
        let last = steps.last().map_or(start, |(at, _)| *at);
        let end = change
            .status
            .since
            .as_deref()
            .and_then(time)
            .unwrap_or(last)
            .max(start);
        Some(Self {
            change,
            steps,
            start,
            end: is_over.then_some(end),
        })
    }
}

/// The trace of one run.
struct Trace<'a> {
    facts: &'a Facts<'a>,
    id: String,
    run_id: &'a str,
}

impl<'a> Trace<'a> {
    fn of(facts: &'a Facts<'a>, run_id: &'a str) -> Self {
        Self {
            facts,
            id: trace_of(run_id),
            run_id,
        }
    }

    fn span_id(&self, parts: &[&str]) -> String {
        let mut all = vec!["span", self.run_id];
        all.extend(parts);
        names::hash(&all, SPAN)
    }

    fn run_span(&self) -> String {
        self.span_id(&["run"])
    }

    fn wave_span(&self, number: usize) -> String {
        self.span_id(&["wave", &number.to_string()])
    }

    fn span(
        &self,
        id: String,
        parent: Option<String>,
        name: &'static str,
        (start, end): (Timestamp, Timestamp),
    ) -> Span {
        Span {
            trace: self.id.clone(),
            id,
            parent,
            name,
            start: start.min(end),
            end,
            attributes: vec![
                ("numo.owner", self.facts.owner.to_string()),
                ("numo.run.id", self.run_id.to_owned()),
            ],
            failed: None,
        }
    }

    /// Which wave is under way when a node begins: the first that is not over by then. None of a node that goes after all waves, or of a
    /// NodeMaintenance: the waves of those are over once their objects are gone, and nobody is left to tell of them.
    fn wave_of(&self, turn: &Turn<'_>) -> Option<usize> {
        if let Status::Maintenance(_) = self.facts.status {
            return None;
        }
        let over = &self.facts.report.waves_over;
        let last = over.iter().map(|wave| wave.number).max().unwrap_or(0);
        let wave = self.facts.report.wave.as_ref();
        let (of, current) = wave.map_or((last, last + 1), |wave| (wave.of, wave.number));
        // A wave without nodes that changed is over as soon as the one before it, and nobody knows since when.
        let is_over = |number: &usize| match over.iter().find(|wave| wave.number == *number) {
            Some(wave) => wave.at <= turn.start,
            None => *number < current,
        };
        (1..=of).find(|number| !is_over(number))
    }

    fn node(&self, turn: &Turn<'_>, end: Timestamp) -> Vec<Span> {
        let change = turn.change;
        let attempt = change.status.attempt.to_string();
        let id = self.span_id(&["node", &change.uid, &attempt, &end.to_string()]);
        let parent = self
            .wave_of(turn)
            .map_or_else(|| self.run_span(), |number| self.wave_span(number));
        let mut node = self.span(id.clone(), Some(parent), "node", (turn.start, end));
        node.attributes
            .push(("k8s.node.name", change.spec.node_name.clone()));
        node.attributes.push(("numo.attempt", attempt));
        if let Some(reason) = &change.status.reason {
            node.attributes.push(("numo.reason", reason.clone()));
        }
        if change.status.step == Some(Step::Failed) {
            node.failed = Some(clip(change.status.message.as_deref().unwrap_or("failed"), WORDS));
        }
        let mut spans = vec![node];
        let steps = self.steps(turn, end, &id);
        let verdicts = change.status.verdicts.iter();
        let verdicts = verdicts.filter(|verdict| verdict.round == change.status.attempt);
        let rules: Vec<Span> = verdicts
            .filter_map(|verdict| {
                // Times of Jobs are whole seconds, those of journals are not: when the verdict was written says in which step.
                let written = time(&verdict.at).unwrap_or(end);
                let step = steps.iter().rev().find(|step| step.start < written);
                let mut rule = self.rule(verdict, step.map_or(&id, |step| &step.id), &change.uid)?;
                let earliest = step.map_or(turn.start, |step| step.start);
                rule.start = rule.start.max(earliest);
                rule.end = rule.end.max(rule.start);
                Some(rule)
            })
            .collect();
        spans.extend(steps);
        spans.extend(rules);
        spans
    }

    /// The steps of a turn: each lasts until the next begins. The last one is the end of the turn.
    fn steps(&self, turn: &Turn<'_>, end: Timestamp, node: &str) -> Vec<Span> {
        let mut spans = Vec::with_capacity(turn.steps.len());
        for (at, (start, step)) in turn.steps.iter().enumerate() {
            if step.is_terminal() {
                continue;
            }
            let next = turn.steps.get(at + 1).map_or(end, |(at, _)| *at);
            let id = self.span_id(&["step", &turn.change.uid, step.name(), &start.to_string()]);
            let mut span = self.span(id, Some(node.to_owned()), step.name(), (*start, next));
            span.attributes
                .push(("k8s.node.name", turn.change.spec.node_name.clone()));
            spans.push(span);
        }
        spans
    }

    fn rule(&self, verdict: &VerdictRecord, parent: &str, of: &str) -> Option<Span> {
        let end = verdict
            .ended_at
            .as_deref()
            .and_then(time)
            .or_else(|| time(&verdict.at))?;
        let start = began(verdict).unwrap_or(end);
        let (attempt, round) = (verdict.attempt.to_string(), verdict.round.to_string());
        let id = self.span_id(&["rule", of, &verdict.rule, verdict.phase.name(), &attempt, &round]);
        let mut span = self.span(id, Some(parent.to_owned()), "rule", (start, end));
        span.attributes.extend([
            ("numo.rule", verdict.rule.clone()),
            ("numo.phase", verdict.phase.name().to_owned()),
            ("numo.reason", verdict.reason.clone()),
        ]);
        if let Some(job) = &verdict.job {
            span.attributes.push(("k8s.job.name", job.clone()));
        }
        if verdict.outcome != Outcome::Pass {
            span.failed = Some(clip(verdict.message.as_deref().unwrap_or(&verdict.reason), WORDS));
        }
        Some(span)
    }

    fn wave(&self, wave: &WaveOver, turns: &[Turn<'_>]) -> Vec<Span> {
        let of_wave = turns
            .iter()
            .filter(|turn| self.wave_of(turn) == Some(wave.number));
        let start = of_wave.map(|turn| turn.start).min().unwrap_or(wave.at);
        let id = self.wave_span(wave.number);
        let mut span = self.span(id, Some(self.run_span()), "wave", (start, wave.at));
        span.attributes.push(("numo.wave", wave.number.to_string()));
        if let Some(name) = &wave.name {
            span.attributes.push(("numo.wave.name", name.clone()));
        }
        vec![span]
    }

    /// When the run began, if that is known, and when it ended, once it has. One that goes on after its end, since a node came, ends once
    /// more.
    fn ended(&self) -> Option<(Option<Timestamp>, Timestamp)> {
        if self.facts.report.nodes.values().any(NodeReport::in_flight) {
            return None;
        }
        let all = occurrences(self.facts);
        let at = |transition: Transition| {
            let mut of = all.iter().filter(|one| one.transition == transition);
            of.next().and_then(|one| one.at)
        };
        Some((at(Transition::RunBegan), at(Transition::Finished)?))
    }

    /// The run, with the rules that were asked of it as a whole.
    fn run(&self, start: Timestamp, end: Timestamp) -> Vec<Span> {
        let id = self.run_span();
        let mut run = self.span(id.clone(), None, "run", (start, end));
        let report = self.facts.report;
        if let Some(target) = &report.target {
            run.attributes.push(("numo.target", target.clone()));
        }
        if report.result == Some(RunResult::Aborted) {
            run.failed = Some("the run was left before it was over".to_owned());
        }
        let mut spans = vec![run];
        let asked = report.run_verdicts.iter();
        spans.extend(asked.filter_map(|verdict| self.rule(verdict, &id, "run")));
        spans
    }
}

fn began(verdict: &VerdictRecord) -> Option<Timestamp> {
    verdict.started_at.as_deref().and_then(time)
}

#[cfg(test)]
mod tests;
