//! `workloads-ready`: before a node changes it remembers which Deployments, StatefulSets and ReplicaSets had
//! pods there; afterwards it waits until they are ready again.
//!
//! What it remembers travels in `data-json` through the history. It may not pass in Post because it
//! remembers nothing, unless the configuration says so, and may not drop a workload to save space.

mod memory;
mod workload;

use memory::{Before, Memory};
use numo_rule_sdk::{
    ConfigProblem, Description, Finding, Input, RuleError, Severity, Verdict, Wait, Want, component, config,
    host::{Freshness, History, Kubernetes},
    object,
    verdict::{count, finding, known_phase, names, node, report, wait, with_findings},
};
use workload::{Found, Id, State};

const PHASES: [&str; 2] = ["pre", "post"];
/// Names that a summary shows.
const NAMES: usize = 8;

component!(describe, parse, evaluate);

/// What is asked of a workload that was not ready before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnreadyBefore {
    /// As many ready replicas as it had.
    AsBefore,
    /// All replicas.
    Ready,
    /// The node is not released before it is ready.
    Wait,
}

/// What to do in Post when nothing is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NothingRemembered {
    Wait,
    Pass,
}

/// The configuration.
#[derive(Debug)]
pub struct Config {
    /// Empty: all.
    pub(crate) namespaces: Vec<String>,
    pub(crate) ignore_namespaces: Vec<String>,
    unready_before: UnreadyBefore,
    nothing_remembered: NothingRemembered,
    retry_after_seconds: u32,
}

/// Reads the configuration.
pub fn parse(json: &str) -> Result<Config, Vec<ConfigProblem>> {
    let unready_before = [
        ("AsBefore", UnreadyBefore::AsBefore),
        ("Ready", UnreadyBefore::Ready),
        ("Wait", UnreadyBefore::Wait),
    ];
    let nothing = [
        ("Wait", NothingRemembered::Wait),
        ("Pass", NothingRemembered::Pass),
    ];
    config::read(json, |fields| Config {
        namespaces: fields.texts("namespaces"),
        ignore_namespaces: fields.texts("ignoreNamespaces"),
        unready_before: fields.choice("unreadyBefore", &unready_before, UnreadyBefore::AsBefore),
        nothing_remembered: fields.choice("nothingRemembered", &nothing, NothingRemembered::Wait),
        retry_after_seconds: fields.retry_after_seconds(),
    })
}

/// Says what the rule is.
pub fn describe() -> Description {
    let want = |target: &str, purpose: &str| Want {
        capability: "numo:host/kubernetes".into(),
        target: target.into(),
        purpose: purpose.into(),
        optional: false,
    };
    Description {
        name: "workloads-ready".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        summary: env!("CARGO_PKG_DESCRIPTION").into(),
        phases: PHASES.map(Into::into).to_vec(),
        wants: vec![
            want("v1/Pod", "Finds the pods on the node and their controllers."),
            want(
                "apps/v1/ReplicaSet",
                "Finds the Deployments behind the pods' ReplicaSets.",
            ),
            want("apps/v1/Deployment", "Reads how many replicas are ready."),
            want("apps/v1/StatefulSet", "Reads how many replicas are ready."),
        ],
        config_schema_json: Some(include_str!("../config.schema.json").into()),
        attributes: Vec::new(),
    }
}

/// Decides.
pub fn evaluate(input: &Input, host: &(impl Kubernetes + History)) -> Result<Verdict, RuleError> {
    known_phase(input, &PHASES)?;
    let config = parse(&input.config_json).map_err(RuleError::InvalidConfig)?;
    let node = node(input)?;
    if input.phase == "pre" {
        let earlier = host.entries(0)?;
        return object::confirmed(|freshness| {
            // What was not kept is of a change that is over.
            let earlier = Memory::kept(&earlier, &input.run)?.unwrap_or_default();
            remember(host, &node.name, &config, earlier, freshness)
        });
    }
    let Some(memory) = Memory::recall(&host.entries(0)?, &input.run)? else {
        let report = report(
            "NothingRemembered",
            "this rule remembers nothing of this node in this run: it was not asked in Pre",
        );
        return Ok(match config.nothing_remembered {
            NothingRemembered::Wait => wait(report, config.retry_after_seconds),
            NothingRemembered::Pass => Verdict::Pass(report),
        });
    };
    object::confirmed(|freshness| compare(host, &memory, &config, freshness))
}

/// Pre: notes every workload with pods on the node, and how it is, beside what was noted in this run before.
fn remember(
    host: &impl Kubernetes,
    node: &str,
    config: &Config,
    mut memory: Memory,
    freshness: Freshness,
) -> Result<Verdict, RuleError> {
    let Found {
        workloads,
        not_watched,
        alone,
    } = workload::on_node(host, node, config, freshness)?;
    let states = workload::states(host, &workloads, config, freshness)?;
    let mut findings = Vec::new();
    let mut unready = Vec::new();
    for (id, state) in &states {
        let Some(state) = state else { continue };
        if state.is_ready() {
            memory.add(id.clone(), Before::Ready);
        } else {
            memory.add(id.clone(), Before::Unready { ready: state.ready });
            unready.push(id);
            let message = format!("was not ready before the change: {}", state.told());
            findings.push(finding(
                Severity::Warning,
                "NotReadyBefore",
                message,
                Some(id.object()),
            ));
        }
    }
    for (kind, pods) in &not_watched {
        let message = format!("{} of kind {kind}, which is not watched", count(*pods, "pod"));
        findings.push(finding(Severity::Info, "ControllerNotWatched", message, None));
    }
    if alone > 0 {
        let message = format!(
            "{} without a controller, which a drain ends for good",
            count(alone, "pod")
        );
        findings.push(finding(Severity::Info, "PodWithoutController", message, None));
    }
    if config.unready_before == UnreadyBefore::Wait && !unready.is_empty() {
        let summary = format!("not ready before {node} changes: {}", listed(&unready));
        let report = with_findings(report("WorkloadsNotReady", summary), findings);
        return Ok(wait(report, config.retry_after_seconds));
    }
    let summary = format!(
        "{} with pods on {node}",
        count(states.values().flatten().count(), "workload")
    );
    let mut report = with_findings(report("WorkloadsRemembered", summary), findings);
    report.data_json = Some(memory.write()?);
    Ok(Verdict::Pass(report))
}

/// Post: compares every remembered workload with how it was.
fn compare(
    host: &impl Kubernetes,
    memory: &Memory,
    config: &Config,
    freshness: Freshness,
) -> Result<Verdict, RuleError> {
    let ids = memory
        .iter()
        .map(|(id, _)| id.clone())
        .filter(|id| config.looks_at(&id.namespace))
        .collect();
    let states = workload::states(host, &ids, config, freshness)?;
    let mut findings = Vec::new();
    let mut unready = Vec::new();
    for (id, state) in &states {
        let Some(before) = memory.get(id) else { continue };
        match judge(before, state.as_ref(), config.unready_before) {
            Ok(None) => {}
            Ok(Some((code, message))) => {
                findings.push(finding(Severity::Info, code, message, Some(id.object())));
            }
            Err(fault) => {
                unready.push(id);
                findings.push(not_ready(id, &fault));
            }
        }
    }
    let total = count(states.len(), "workload");
    if unready.is_empty() {
        let summary = format!("{total} that had pods on the node are ready");
        return Ok(Verdict::Pass(with_findings(
            report("WorkloadsReady", summary),
            findings,
        )));
    }
    let summary = format!(
        "{} of {total} are not ready again: {}",
        unready.len(),
        listed(&unready)
    );
    Ok(Verdict::Wait(Wait {
        report: with_findings(report("WorkloadsNotReady", summary), findings),
        retry_after_seconds: config.retry_after_seconds,
        progress_percent: u8::try_from((states.len() - unready.len()) * 100 / states.len()).ok(),
    }))
}

/// Nothing to say, something to note, or what is missing.
fn judge(
    before: Before,
    state: Option<&State>,
    unready_before: UnreadyBefore,
) -> Result<Option<(&'static str, String)>, String> {
    let Some(state) = state else {
        return Ok(Some(("WorkloadGone", "was deleted since".into())));
    };
    if !state.observed {
        return Err(state.told());
    }
    if state.desired == 0 {
        return Ok(Some(("ScaledToZero", "is scaled to zero".into())));
    }
    match before {
        _ if state.is_ready() => Ok(None),
        Before::Unready { ready } if unready_before != UnreadyBefore::Ready && state.ready >= ready => Ok(
            Some(("ReadyAsBefore", format!("{}, as before the change", state.told()))),
        ),
        _ => Err(state.told()),
    }
}

fn not_ready(id: &Id, fault: &str) -> Finding {
    finding(Severity::Error, "WorkloadNotReady", fault, Some(id.object()))
}

fn listed(ids: &[&Id]) -> String {
    let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
    names(texts.iter().map(String::as_str), NAMES)
}

impl Config {
    /// Whether workloads of a namespace are looked at.
    pub(crate) fn looks_at(&self, namespace: &str) -> bool {
        let within = |list: &[String]| list.iter().any(|listed| listed == namespace);
        (self.namespaces.is_empty() || within(&self.namespaces)) && !within(&self.ignore_namespaces)
    }
}
