//! `cluster-operators`: waits until all ClusterOperators are available and none is degraded.
//!
//! A condition that is missing or Unknown is not good, as the cluster version operator sees it too. It may
//! not take a cluster without ClusterOperators for a healthy one unless the configuration says so.

use numo_rule_sdk::{
    ConfigProblem, Description, Error, ErrorCode, Finding, Input, RuleError, Severity, Verdict, Want,
    component,
    config::{self, Fields},
    host::Kubernetes,
    object::{self, Kind, condition, text},
    serde_json::Value,
    verdict::{count, finding, known_phase, names, report, wait, with_findings},
};

const PHASES: [&str; 7] = [
    "pre-run",
    "admit",
    "pre",
    "pre-release",
    "before-uncordon",
    "post",
    "post-run",
];
/// Names that a summary shows.
const NAMES: usize = 8;

const OPERATORS: Kind = Kind {
    api_version: "config.openshift.io/v1",
    kind: "ClusterOperator",
    fields: &[
        "/status/conditions/*/type",
        "/status/conditions/*/status",
        "/status/conditions/*/reason",
        "/status/conditions/*/message",
    ],
};

component!(describe, parse, evaluate);

/// A condition of a ClusterOperator that this rule judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Available,
    Degraded,
    Progressing,
}

impl Health {
    const CHOICES: [(&'static str, Health); 3] = [
        ("Available", Health::Available),
        ("Degraded", Health::Degraded),
        ("Progressing", Health::Progressing),
    ];

    fn word(self) -> &'static str {
        match self {
            Health::Available => "Available",
            Health::Degraded => "Degraded",
            Health::Progressing => "Progressing",
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Health::Available => "True",
            Health::Degraded | Health::Progressing => "False",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Health::Available => "OperatorUnavailable",
            Health::Degraded => "OperatorDegraded",
            Health::Progressing => "OperatorProgressing",
        }
    }
}

/// An operator that may be in a bad state; no conditions means any of them.
#[derive(Debug)]
struct Allowed {
    name: String,
    conditions: Vec<Health>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Wait,
    Pass,
}

/// The configuration.
#[derive(Debug)]
pub struct Config {
    allowed: Vec<Allowed>,
    progressing: bool,
    missing: Missing,
    retry_after_seconds: u32,
}

/// Reads the configuration.
pub fn parse(json: &str) -> Result<Config, Vec<ConfigProblem>> {
    config::read(json, |fields| Config {
        allowed: fields.objects("allowed").iter().map(allowed).collect(),
        progressing: fields.choice("progressing", &[("Ignore", false), ("Wait", true)], false),
        missing: fields.choice(
            "missingKind",
            &[("Wait", Missing::Wait), ("Pass", Missing::Pass)],
            Missing::Wait,
        ),
        retry_after_seconds: fields.retry_after_seconds(),
    })
}

fn allowed(entry: &Fields<'_>) -> Allowed {
    let mut conditions = Vec::new();
    for (index, word) in entry.texts("conditions").iter().enumerate() {
        match Health::CHOICES.iter().find(|(choice, _)| choice == word) {
            Some((_, health)) => conditions.push(*health),
            None => entry.problem_at(
                &format!("/conditions/{index}"),
                "must be one of Available, Degraded, Progressing",
            ),
        }
    }
    Allowed {
        name: entry.required_text("name").into(),
        conditions,
    }
}

/// Says what the rule is.
pub fn describe() -> Description {
    Description {
        name: "cluster-operators".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        summary: env!("CARGO_PKG_DESCRIPTION").into(),
        phases: PHASES.map(Into::into).to_vec(),
        wants: vec![Want {
            capability: "numo:host/kubernetes".into(),
            target: "config.openshift.io/v1/ClusterOperator".into(),
            purpose: "Reads the conditions of all ClusterOperators.".into(),
            optional: false,
        }],
        config_schema_json: Some(include_str!("../config.schema.json").into()),
        attributes: Vec::new(),
    }
}

/// Decides.
pub fn evaluate(input: &Input, host: &impl Kubernetes) -> Result<Verdict, RuleError> {
    known_phase(input, &PHASES)?;
    let config = parse(&input.config_json).map_err(RuleError::InvalidConfig)?;
    object::confirmed(
        |freshness| match object::list(host, &OPERATORS, None, None, freshness) {
            Err(RuleError::Host(Error {
                code: ErrorCode::Unsupported,
                ..
            })) => Ok(missing(&config, "this cluster does not serve ClusterOperators")),
            Err(error) => Err(error),
            Ok(operators) if operators.is_empty() => {
                Ok(missing(&config, "this cluster has no ClusterOperator"))
            }
            Ok(operators) => Ok(judge(&operators, &config)),
        },
    )
}

fn missing(config: &Config, what: &str) -> Verdict {
    let report = report("NoClusterOperators", what);
    match config.missing {
        Missing::Wait => wait(report, config.retry_after_seconds),
        Missing::Pass => Verdict::Pass(report),
    }
}

fn judge(operators: &[Value], config: &Config) -> Verdict {
    let mut findings = Vec::new();
    let mut bad: Vec<(&str, Health)> = Vec::new();
    for operator in operators {
        let name = object::name(operator);
        for (_, health) in Health::CHOICES {
            if health == Health::Progressing && !config.progressing {
                continue;
            }
            let Some(fault) = fault(operator, health) else {
                continue;
            };
            let is_allowed = config.allows(name, health);
            let severity = if is_allowed {
                Severity::Info
            } else {
                Severity::Error
            };
            findings.push(Finding { severity, ..fault });
            if !is_allowed {
                bad.push((name, health));
            }
        }
    }
    let total = count(operators.len(), "ClusterOperator");
    if bad.is_empty() {
        let summary = match findings.len() {
            0 => format!("{total} available, none degraded"),
            allowed => format!("{total} fine but for {}", count(allowed, "allowed condition")),
        };
        return Verdict::Pass(with_findings(report("OperatorsHealthy", summary), findings));
    }
    let reason = [
        (Health::Available, "OperatorsUnavailable"),
        (Health::Degraded, "OperatorsDegraded"),
        (Health::Progressing, "OperatorsProgressing"),
    ]
    .into_iter()
    .find(|(health, _)| bad.iter().any(|(_, found)| found == health))
    .map_or("OperatorsProgressing", |(_, reason)| reason);
    let mut bad_names: Vec<&str> = bad.iter().map(|(name, _)| *name).collect();
    bad_names.dedup();
    let summary = format!(
        "{} of {total} are not fine: {}",
        bad_names.len(),
        names(bad_names.iter().copied(), NAMES)
    );
    wait(
        with_findings(report(reason, summary), findings),
        config.retry_after_seconds,
    )
}

impl Config {
    fn allows(&self, name: &str, health: Health) -> bool {
        self.allowed.iter().any(|allowed| {
            allowed.name == name && (allowed.conditions.is_empty() || allowed.conditions.contains(&health))
        })
    }
}

/// What is wrong with one condition of an operator, if anything.
fn fault(operator: &Value, health: Health) -> Option<Finding> {
    let condition = condition(operator, health.word());
    let status = condition.map_or("missing", |condition| text(condition, "/status"));
    if status == health.wanted() {
        return None;
    }
    let why = condition.map(|condition| (text(condition, "/reason"), text(condition, "/message")));
    let why = match why {
        None | Some(("", "")) => String::new(),
        Some((reason, message)) => format!(" ({reason}: {message})"),
    };
    let message = format!("{} is {status}{why}", health.word());
    let object = OPERATORS.object(None, object::name(operator));
    Some(finding(Severity::Error, health.code(), message, Some(object)))
}
