//! What goes into a rule and what comes out, as plain data, and the checks on what comes out. A component's answer is
//! text from a stranger: nothing of it goes further unchecked, and no check turns a bad answer into a pass.

use serde::{Deserialize, Serialize};

#[cfg(feature = "sandbox")]
use crate::bindings::{exports::numo::rule::evaluation as wit, numo::host::types as host};
use crate::{
    limits::Limits,
    reason::{Reason, Refused},
    text::{clean, is_reason},
};

/// Bytes of a sentence: a report's summary, a finding's message, an error's message.
pub(crate) const SENTENCE: usize = 1024;
/// Bytes of a code, a reason, a key.
pub(crate) const CODE: usize = 64;
/// Attributes kept of one record.
const ATTRIBUTES: usize = 32;
/// The bounds within which a component chooses when to be asked again, in seconds.
pub const RETRY_AFTER: std::ops::RangeInclusive<u32> = 5..=3600;

/// Points at a Kubernetes object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `Pod`.
    pub kind: String,
    /// None for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {} {namespace}/{}", self.api_version, self.kind, self.name),
            None => write!(f, "{} {} {}", self.api_version, self.kind, self.name),
        }
    }
}

/// The node that is to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The Node object; whole, or the evaluation is refused ([`Limits::node_bytes`]).
    pub object_json: String,
}

/// What is being decided. `wit/rule`, record `input`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// The same for all calls of one run of one owner.
    pub run: String,
    /// The object that asks for the change.
    pub owner: ObjectRef,
    /// In kebab case: `pre-run`, `admit`, `pre`, …
    pub phase: String,
    /// From 1.
    pub attempt: u32,
    /// None in `pre-run` and `post-run`.
    pub node: Option<Node>,
    /// Pool or scaling group.
    pub pool: Option<String>,
    /// As the owner writes it.
    pub from_version: Option<String>,
    /// As the owner writes it.
    pub to_version: Option<String>,
    /// A JSON object, [`Limits::config_bytes`] at most.
    pub config_json: String,
    /// What later versions of numo have to say.
    pub attributes: Vec<(String, String)>,
}

impl Input {
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Refused> {
        let too_large = |what: &str, bytes: usize, most: u64| {
            Refused::new(
                Reason::TooLarge,
                format!("{what} has {bytes} bytes, the limit is {most}"),
            )
        };
        if let Some(node) = &self.node
            && node.object_json.len() as u64 > limits.node_bytes
        {
            let what = format!("Node {}", node.name);
            return Err(too_large(&what, node.object_json.len(), limits.node_bytes));
        }
        if self.config_json.len() as u64 > limits.config_bytes {
            return Err(too_large(
                "the configuration",
                self.config_json.len(),
                limits.config_bytes,
            ));
        }
        Ok(())
    }
}

#[cfg(feature = "sandbox")]
impl From<Input> for wit::Input {
    fn from(input: Input) -> Self {
        Self {
            run: input.run,
            owner: input.owner.into(),
            phase: input.phase,
            attempt: input.attempt,
            node: input.node.map(|node| wit::Node {
                name: node.name,
                uid: node.uid,
                object_json: node.object_json,
            }),
            pool: input.pool,
            from_version: input.from_version,
            to_version: input.to_version,
            config_json: input.config_json,
            attributes: input.attributes,
        }
    }
}

#[cfg(feature = "sandbox")]
impl From<ObjectRef> for host::ObjectRef {
    fn from(object: ObjectRef) -> Self {
        Self {
            api_version: object.api_version,
            kind: object.kind,
            namespace: object.namespace,
            name: object.name,
        }
    }
}

#[cfg(feature = "sandbox")]
impl From<host::ObjectRef> for ObjectRef {
    fn from(object: host::ObjectRef) -> Self {
        Self {
            api_version: object.api_version,
            kind: object.kind,
            namespace: object.namespace,
            name: object.name,
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// To know.
    Info,
    /// To look at.
    Warning,
    /// The reason of a wait or a block.
    Error,
}

/// One thing the rule saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// CamelCase, at most 64 bytes.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// At most 1,024 bytes, without control characters.
    pub message: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// What later versions have to say; 32 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
}

/// Why the verdict is what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// CamelCase, at most 64 bytes.
    pub reason: String,
    /// One sentence, at most 1,024 bytes, without control characters.
    pub summary: String,
    /// [`Limits::findings`] at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Valid JSON, [`Limits::data_bytes`] at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_json: Option<String>,
    /// What later versions have to say; 32 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
}

/// A rule's answer. There are only these three.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The step may be taken.
    Pass(Report),
    /// Not now.
    Wait {
        /// Why.
        report: Report,
        /// Seconds until it is to be asked again, within [`RETRY_AFTER`].
        retry_after: u32,
        /// 0 to 100.
        progress: Option<u8>,
    },
    /// The step must not be taken.
    Block(Report),
}

impl Verdict {
    /// What it says.
    pub fn report(&self) -> &Report {
        match self {
            Self::Pass(report) | Self::Wait { report, .. } | Self::Block(report) => report,
        }
    }

    /// `pass`, `wait` or `block`, as in `numo:host/history`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass(_) => "pass",
            Self::Wait { .. } => "wait",
            Self::Block(_) => "block",
        }
    }

    #[cfg(feature = "sandbox")]
    pub(crate) fn from_wit(verdict: wit::Verdict, limits: &Limits) -> Result<Self, Refused> {
        Ok(match verdict {
            wit::Verdict::Pass(report) => Self::Pass(Report::from_wit(report, limits)?),
            wit::Verdict::Block(report) => Self::Block(Report::from_wit(report, limits)?),
            wit::Verdict::Wait(wait) => Self::Wait {
                report: Report::from_wit(wait.report, limits)?,
                retry_after: wait
                    .retry_after_seconds
                    .clamp(*RETRY_AFTER.start(), *RETRY_AFTER.end()),
                progress: wait.progress_percent.map(|percent| percent.min(100)),
            },
        })
    }
}

#[cfg(feature = "sandbox")]
impl Report {
    fn from_wit(report: wit::Report, limits: &Limits) -> Result<Self, Refused> {
        if !is_reason(&report.reason) {
            let message = format!(
                "the reason of a report must be CamelCase of at most 64 letters and digits, not {:?}",
                clean(&report.reason, 2 * CODE)
            );
            return Err(Refused::new(Reason::RuleError, message));
        }
        if let Some(data) = &report.data_json {
            if data.len() as u64 > limits.data_bytes {
                let message = format!(
                    "data-json of the report has {} bytes, the limit is {}",
                    data.len(),
                    limits.data_bytes
                );
                return Err(Refused::new(Reason::TooLarge, message));
            }
            if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(data) {
                return Err(Refused::new(
                    Reason::RuleError,
                    format!("data-json of the report is not JSON: {error}"),
                ));
            }
        }
        let most = usize::try_from(limits.findings).unwrap_or(usize::MAX);
        Ok(Self {
            reason: report.reason,
            summary: clean(&report.summary, SENTENCE),
            findings: report
                .findings
                .into_iter()
                .take(most)
                .map(Finding::from_wit)
                .collect::<Result<_, _>>()?,
            data_json: report.data_json,
            attributes: attributes(&report.attributes),
        })
    }
}

#[cfg(feature = "sandbox")]
impl Finding {
    fn from_wit(finding: wit::Finding) -> Result<Self, Refused> {
        if !is_reason(&finding.code) {
            let message = format!(
                "the code of a finding must be CamelCase of at most 64 letters and digits, not {:?}",
                clean(&finding.code, 2 * CODE)
            );
            return Err(Refused::new(Reason::RuleError, message));
        }
        Ok(Self {
            code: finding.code,
            severity: match finding.severity {
                wit::Severity::Info => Severity::Info,
                wit::Severity::Warning => Severity::Warning,
                wit::Severity::Error => Severity::Error,
            },
            message: clean(&finding.message, SENTENCE),
            object: finding.object.map(|object| ObjectRef {
                api_version: clean(&object.api_version, 317),
                kind: clean(&object.kind, CODE),
                namespace: object.namespace.map(|namespace| clean(&namespace, 63)),
                name: clean(&object.name, 253),
            }),
            attributes: attributes(&finding.attributes),
        })
    }
}

/// The first ones, cleaned.
pub(crate) fn attributes(all: &[(String, String)]) -> Vec<(String, String)> {
    all.iter()
        .take(ATTRIBUTES)
        .map(|(key, value)| (clean(key, 2 * CODE), clean(value, SENTENCE)))
        .collect()
}

/// What to say of a component that answered `rule-error`.
#[cfg(feature = "sandbox")]
pub(crate) fn refused_by_rule(error: wit::RuleError) -> Refused {
    match error {
        wit::RuleError::Host(error) => {
            let limit = error
                .details
                .iter()
                .find(|(key, _)| key == "limit")
                .map(|(_, value)| value.as_str());
            let reason = match error.code {
                host::ErrorCode::Denied => Reason::Denied,
                host::ErrorCode::OverBudget if limit == Some("hostBytes") => Reason::TransferLimit,
                host::ErrorCode::OverBudget => Reason::CallLimit,
                _ => Reason::RuleError,
            };
            Refused::new(reason, clean(&error.message, SENTENCE))
        }
        wit::RuleError::InvalidConfig(problems) => {
            Refused::new(Reason::InvalidConfig, problem_list(&config_problems(problems)))
        }
        wit::RuleError::Failed(message) => Refused::new(Reason::RuleError, clean(&message, SENTENCE)),
    }
}

/// One fault in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigProblem {
    /// RFC 6901 pointer into the configuration; empty is all of it.
    pub pointer: String,
    /// At most 1,024 bytes, without control characters.
    pub message: String,
}

/// The first 32, cleaned.
#[cfg(feature = "sandbox")]
pub(crate) fn config_problems(problems: Vec<wit::ConfigProblem>) -> Vec<ConfigProblem> {
    let clean_one = |problem: wit::ConfigProblem| ConfigProblem {
        pointer: clean(&problem.pointer, 512),
        message: clean(&problem.message, SENTENCE),
    };
    problems.into_iter().take(32).map(clean_one).collect()
}

/// As one sentence.
pub(crate) fn problem_list(problems: &[ConfigProblem]) -> String {
    let one = |problem: &ConfigProblem| match problem.pointer.as_str() {
        "" => problem.message.clone(),
        pointer => format!("{pointer}: {}", problem.message),
    };
    problems.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[cfg(feature = "sandbox")]
mod tests {
    use super::*;

    fn report(reason: &str) -> wit::Report {
        wit::Report {
            reason: reason.into(),
            summary: "fine".into(),
            findings: Vec::new(),
            data_json: None,
            attributes: Vec::new(),
        }
    }

    fn read(report: wit::Report) -> Result<Verdict, Refused> {
        Verdict::from_wit(wit::Verdict::Pass(report), &Limits::default())
    }

    #[test]
    fn a_reason_that_is_none_is_no_pass() {
        assert!(read(report("Fine")).is_ok());
        assert_eq!(
            read(report("node-1 is fine")).unwrap_err().reason,
            Reason::RuleError
        );
    }

    #[test]
    fn data_is_json_of_bounded_size() {
        let with = |data: String| {
            read(wit::Report {
                data_json: Some(data),
                ..report("Fine")
            })
        };
        assert!(with(format!("\"{}\"", "x".repeat(16 * 1024 - 2))).is_ok());
        assert_eq!(
            with(format!("\"{}\"", "x".repeat(16 * 1024 - 1)))
                .unwrap_err()
                .reason,
            Reason::TooLarge
        );
        assert_eq!(with("{".into()).unwrap_err().reason, Reason::RuleError);
    }

    #[test]
    fn text_is_bounded_and_harmless_and_numbers_are_within_bounds() {
        let wait = wit::Wait {
            report: wit::Report {
                summary: format!("\u{1b}[2J{}", "x".repeat(5000)),
                ..report("Busy")
            },
            retry_after_seconds: 0,
            progress_percent: Some(250),
        };
        let verdict = Verdict::from_wit(wit::Verdict::Wait(wait), &Limits::default()).unwrap();
        assert!(!verdict.report().summary.contains('\u{1b}') && verdict.report().summary.len() <= SENTENCE);
        let Verdict::Wait {
            retry_after,
            progress,
            ..
        } = verdict
        else {
            panic!("{verdict:?}")
        };
        assert_eq!((retry_after, progress), (5, Some(100)));
    }

    #[test]
    fn an_error_of_the_rule_has_the_reason_of_its_cause() {
        let host = |code, details: &[(&str, &str)]| {
            let details = details
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            wit::RuleError::Host(host::Error {
                code,
                message: "no".into(),
                details,
            })
        };
        let check = |error, reason| assert_eq!(refused_by_rule(error).reason, reason);
        check(host(host::ErrorCode::Denied, &[]), Reason::Denied);
        check(
            host(host::ErrorCode::OverBudget, &[("limit", "hostCalls")]),
            Reason::CallLimit,
        );
        check(
            host(host::ErrorCode::OverBudget, &[("limit", "hostBytes")]),
            Reason::TransferLimit,
        );
        check(host(host::ErrorCode::Unavailable, &[]), Reason::RuleError);
        check(wit::RuleError::Failed("no".into()), Reason::RuleError);
        let problem = wit::ConfigProblem {
            pointer: "/a".into(),
            message: "is bad".into(),
        };
        let refused = refused_by_rule(wit::RuleError::InvalidConfig(vec![problem]));
        assert_eq!(
            (refused.reason, refused.message.as_str()),
            (Reason::InvalidConfig, "/a: is bad")
        );
    }

    #[test]
    fn only_the_first_findings_stay() {
        let finding = wit::Finding {
            code: "One".into(),
            severity: wit::Severity::Info,
            message: String::new(),
            object: None,
            attributes: vec![(String::new(), String::new()); 100],
        };
        let verdict = read(wit::Report {
            findings: vec![finding; 100],
            ..report("Fine")
        })
        .unwrap();
        assert_eq!(verdict.report().findings.len(), 64);
        assert_eq!(verdict.report().findings[0].attributes.len(), ATTRIBUTES);
    }
}
