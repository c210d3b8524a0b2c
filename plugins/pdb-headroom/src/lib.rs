//! `pdb-headroom`: waits while evicting this node's pods would break a PodDisruptionBudget.
//!
//! It reads Pods and PodDisruptionBudgets and counts as the eviction API does; it may not evict, and may
//! not pass on what it could not read.

mod budget;

use budget::{Budget, Share, guarded, share_out};
use numo_rule_sdk::{
    ConfigProblem, Description, Finding, Input, ObjectRef, RuleError, Severity, Verdict, Want, component,
    config,
    host::{Freshness, Kubernetes},
    object::{self, Kind},
    serde_json::Value,
    verdict::{count, finding, known_phase, names, node, report, wait, with_findings},
};
use std::collections::BTreeSet;

const PHASES: [&str; 3] = ["admit", "pre", "pre-release"];
/// Pod names that a message shows.
const NAMES: usize = 8;

const PODS: Kind = Kind {
    api_version: "v1",
    kind: "Pod",
    fields: &[
        "/metadata/labels",
        object::POD_FIELDS[0],
        object::POD_FIELDS[1],
        object::POD_FIELDS[2],
        object::POD_FIELDS[3],
        object::POD_FIELDS[4],
        object::POD_FIELDS[5],
    ],
};

const BUDGETS: Kind = Kind {
    api_version: "policy/v1",
    kind: "PodDisruptionBudget",
    fields: &[
        "/metadata/generation",
        "/spec/selector",
        "/spec/unhealthyPodEvictionPolicy",
        "/status/observedGeneration",
        "/status/disruptionsAllowed",
        "/status/currentHealthy",
        "/status/desiredHealthy",
        "/status/expectedPods",
    ],
};

component!(describe, parse, evaluate);

/// How the pods of one budget on this node are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evictions {
    /// The budget must allow all of them together.
    AllAtOnce,
    /// One is enough: a drain evicts the next when the first is ready elsewhere.
    OneByOne,
}

/// The configuration.
#[derive(Debug)]
pub struct Config {
    evictions: Evictions,
    namespaces: Vec<String>,
    ignore_namespaces: Vec<String>,
    retry_after_seconds: u32,
}

/// Reads the configuration.
pub fn parse(json: &str) -> Result<Config, Vec<ConfigProblem>> {
    config::read(json, |fields| {
        let evictions = [
            ("AllAtOnce", Evictions::AllAtOnce),
            ("OneByOne", Evictions::OneByOne),
        ];
        Config {
            evictions: fields.choice("evictions", &evictions, Evictions::AllAtOnce),
            namespaces: fields.texts("namespaces"),
            ignore_namespaces: fields.texts("ignoreNamespaces"),
            retry_after_seconds: fields.retry_after_seconds(),
        }
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
        name: "pdb-headroom".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        summary: env!("CARGO_PKG_DESCRIPTION").into(),
        phases: PHASES.map(Into::into).to_vec(),
        wants: vec![
            want("v1/Pod", "Finds the pods that a drain of the node would evict."),
            want(
                "policy/v1/PodDisruptionBudget",
                "Finds how many of them may be evicted now.",
            ),
        ],
        config_schema_json: Some(include_str!("../config.schema.json").into()),
        attributes: Vec::new(),
    }
}

/// Decides.
pub fn evaluate(input: &Input, host: &impl Kubernetes) -> Result<Verdict, RuleError> {
    known_phase(input, &PHASES)?;
    let config = parse(&input.config_json).map_err(RuleError::InvalidConfig)?;
    let node = node(input)?;
    object::confirmed(|freshness| judge(host, &node.name, &config, freshness))
}

fn judge(
    host: &impl Kubernetes,
    node: &str,
    config: &Config,
    freshness: Freshness,
) -> Result<Verdict, RuleError> {
    let mut pods = pods_on(host, node, config, freshness)?;
    pods.retain(|pod| {
        guarded(pod)
            && !config
                .ignore_namespaces
                .iter()
                .any(|ignored| ignored == object::namespace(pod))
    });
    let namespaces: BTreeSet<&str> = pods.iter().map(object::namespace).collect();
    let mut budgets = Vec::new();
    if config.namespaces.is_empty() && !pods.is_empty() {
        budgets = object::list(host, &BUDGETS, None, None, freshness)?;
    } else {
        for namespace in &namespaces {
            budgets.extend(object::list(host, &BUDGETS, Some(namespace), None, freshness)?);
        }
    }
    let shares: Vec<_> = namespaces
        .iter()
        .map(|namespace| {
            let here = |object: &&Value| object::namespace(object) == *namespace;
            let pods: Vec<_> = pods.iter().filter(here).collect();
            share_out(&pods, budgets.iter().filter(here).map(Budget::parse).collect())
        })
        .collect();
    Ok(verdict(node, &shares, config))
}

/// The pods on the node: of the whole cluster in one list, or of the configured namespaces.
fn pods_on(
    host: &impl Kubernetes,
    node: &str,
    config: &Config,
    freshness: Freshness,
) -> Result<Vec<Value>, RuleError> {
    let on_node = format!("spec.nodeName={node}");
    if config.namespaces.is_empty() {
        return object::list(host, &PODS, None, Some(&on_node), freshness);
    }
    let mut pods = Vec::new();
    for namespace in config.namespaces.iter().collect::<BTreeSet<_>>() {
        pods.extend(object::list(
            host,
            &PODS,
            Some(namespace),
            Some(&on_node),
            freshness,
        )?);
    }
    Ok(pods)
}

fn verdict(node: &str, shares: &[Share<'_>], config: &Config) -> Verdict {
    let mut findings = Vec::new();
    let mut broken = Vec::new();
    let mut guarded = 0;
    for share in shares {
        for (pod, budgets) in &share.contested {
            findings.push(contested(pod, budgets));
        }
        for budget in &share.budgets {
            guarded += budget.counted.len();
            if let Some(why) = refusal(budget, config.evictions) {
                broken.push(budget);
                findings.push(why);
            }
        }
        findings.extend(share.unreadable.iter().map(|(budget, fault)| {
            let message = format!("its selector is ignored, as the eviction API ignores it: {fault}");
            finding(Severity::Warning, "InvalidSelector", message, Some(pdb(budget)))
        }));
    }
    let contested: Vec<_> = shares
        .iter()
        .flat_map(|share| &share.contested)
        .map(|(pod, _)| path(pod))
        .collect();
    let (reason, summary) = if let Some(first) = contested.first() {
        let more = if contested.len() > 1 {
            format!(" and {} more", contested.len() - 1)
        } else {
            String::new()
        };
        (
            "SeveralBudgets",
            format!("{first}{more} has more than one PodDisruptionBudget, which the eviction API refuses"),
        )
    } else if let Some(first) = broken.first() {
        let reason = if broken.iter().any(|budget| never_enough(budget, config.evictions)) {
            "BudgetTooSmall"
        } else if broken.iter().all(|budget| !budget.observed) {
            "BudgetNotObserved"
        } else {
            "BudgetExhausted"
        };
        let total: usize = broken.iter().map(|budget| budget.counted.len()).sum();
        let text = format!(
            "evicting {} of {node} would break {}: {} allows {} for {}",
            count(total, "pod"),
            count(broken.len(), "PodDisruptionBudget"),
            path(first.object),
            first.allowed,
            names(first.counted.iter().map(|pod| object::name(pod)), NAMES)
        );
        (reason, text)
    } else {
        let summary = format!(
            "{node} has {} that budgets count, and they allow it",
            count(guarded, "pod")
        );
        return Verdict::Pass(with_findings(report("HeadroomSuffices", summary), findings));
    };
    wait(
        with_findings(report(reason, summary), findings),
        config.retry_after_seconds,
    )
}

/// Why the API would refuse to evict the budget's pods, if it would.
fn refusal(budget: &Budget<'_>, evictions: Evictions) -> Option<Finding> {
    let needed = needed(budget, evictions);
    if needed == 0 || budget.observed && budget.allowed >= needed {
        return None;
    }
    let pods = names(budget.counted.iter().map(|pod| object::name(pod)), NAMES);
    let object = Some(pdb(budget.object));
    if !budget.observed {
        let message = format!("its controller has not seen its newest specification; pods here: {pods}");
        return Some(finding(Severity::Error, "BudgetNotObserved", message, object));
    }
    let numbers = format!(
        "allows {} of {} that are needed for {pods}; {} of {} pods are healthy, {} must be",
        budget.allowed, needed, budget.healthy, budget.expected, budget.desired
    );
    if never_enough(budget, evictions) {
        let message = format!("{numbers}: it would not allow it even if all were healthy");
        return Some(finding(Severity::Error, "BudgetTooSmall", message, object));
    }
    Some(finding(Severity::Error, "BudgetExhausted", numbers, object))
}

fn needed(budget: &Budget<'_>, evictions: Evictions) -> i64 {
    let counted = i64::try_from(budget.counted.len()).unwrap_or(i64::MAX);
    match evictions {
        Evictions::AllAtOnce => counted,
        Evictions::OneByOne => counted.min(1),
    }
}

/// Whether the budget would refuse with every pod healthy: then waiting alone does not help.
fn never_enough(budget: &Budget<'_>, evictions: Evictions) -> bool {
    budget.observed && budget.expected - budget.desired < needed(budget, evictions)
}

fn contested(pod: &Value, budgets: &[&Value]) -> Finding {
    let budgets = names(budgets.iter().map(|budget| object::name(budget)), NAMES);
    let message = format!("the eviction API refuses a pod with more than one PodDisruptionBudget: {budgets}");
    let pod = PODS.object(Some(object::namespace(pod)), object::name(pod));
    finding(Severity::Error, "SeveralBudgets", message, Some(pod))
}

fn pdb(budget: &Value) -> ObjectRef {
    BUDGETS.object(Some(object::namespace(budget)), object::name(budget))
}

fn path(object: &Value) -> String {
    format!("{}/{}", object::namespace(object), object::name(object))
}
