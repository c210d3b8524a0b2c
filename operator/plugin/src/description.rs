//! What a rule says of itself in `describe`, checked. It only adds to what its type shows: it can name kinds and hosts,
//! it cannot hide an interface.

use serde::Serialize;

#[cfg(feature = "sandbox")]
use crate::bindings::exports::numo::rule::evaluation as wit;
use crate::{
    limits::Limits,
    reason::{Reason, Refused},
    text::clean,
    verdict::{SENTENCE, attributes},
};

/// Every phase that this numo knows. A rule may name others, of later versions; it is not asked in them.
pub const PHASES: [&str; 8] = [
    "pre-run",
    "admit",
    "pre",
    "pre-release",
    "before-uncordon",
    "post",
    "on-failure",
    "post-run",
];

/// Phases without a node: about the run as a whole.
pub const PHASES_OF_A_RUN: [&str; 2] = ["pre-run", "post-run"];

/// What a rule is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// At most 128 bytes.
    pub name: String,
    /// A semantic version, at most 128 bytes.
    pub version: String,
    /// At most 1,024 bytes.
    pub summary: String,
    /// At least one; 32 at most.
    pub phases: Vec<String>,
    /// 64 at most.
    pub wants: Vec<Want>,
    /// JSON Schema of its configuration; valid JSON, [`Limits::config_bytes`] at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_schema_json: Option<String>,
    /// 32 at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
}

/// Something it needs, finer than an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Want {
    /// `numo:host/kubernetes`.
    pub capability: String,
    /// `policy/v1/PodDisruptionBudget`, `status.example.com:443`, or empty.
    pub target: String,
    /// One sentence.
    pub purpose: String,
    /// It comes to a verdict without it too.
    pub optional: bool,
}

/// Bytes of a version: a semantic version may be as long as whoever writes it likes, and this one is kept and shown.
#[cfg(feature = "sandbox")]
const VERSION: usize = 128;

/// What is wrong with the version that a component says it has.
#[cfg(feature = "sandbox")]
pub(crate) fn wrong_version(version: &str) -> Option<String> {
    if version.len() > VERSION {
        let bytes = version.len();
        return Some(format!("a version has at most {VERSION} bytes, not {bytes}"));
    }
    let error = semver::Version::parse(version).err()?;
    Some(format!("version {:?}: {error}", clean(version, 64)))
}

#[cfg(feature = "sandbox")]
impl Description {
    pub(crate) fn from_wit(description: wit::Description, limits: &Limits) -> Result<Self, Refused> {
        let wrong = |message: String| Err(Refused::new(Reason::RuleError, format!("describe: {message}")));
        if description.name.trim().is_empty() {
            return wrong("the name is empty".into());
        }
        if let Some(problem) = wrong_version(&description.version) {
            return wrong(problem);
        }
        if description.phases.is_empty() || description.phases.len() > 32 {
            return wrong(format!(
                "a rule names 1 to 32 phases, not {}",
                description.phases.len()
            ));
        }
        if description.wants.len() > 64 {
            return wrong(format!(
                "a rule has at most 64 wants, not {}",
                description.wants.len()
            ));
        }
        if let Some(schema) = &description.config_schema_json {
            if schema.len() as u64 > limits.config_bytes {
                return wrong(format!(
                    "the schema has {} bytes, the limit is {}",
                    schema.len(),
                    limits.config_bytes
                ));
            }
            if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(schema) {
                return wrong(format!("the schema is not JSON: {error}"));
            }
        }
        let want = |want: wit::Want| Want {
            capability: clean(&want.capability, 128),
            target: clean(&want.target, 384),
            purpose: clean(&want.purpose, SENTENCE),
            optional: want.optional,
        };
        Ok(Self {
            name: clean(&description.name, 128),
            version: description.version,
            summary: clean(&description.summary, SENTENCE),
            phases: description.phases.iter().map(|phase| clean(phase, 64)).collect(),
            wants: description.wants.into_iter().map(want).collect(),
            config_schema_json: description.config_schema_json,
            attributes: attributes(&description.attributes),
        })
    }
}

#[cfg(test)]
#[cfg(feature = "sandbox")]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_semantic_and_short() {
        for good in [
            "1.2.3",
            "0.1.0-rc.1+build.5",
            &format!("1.0.0-{}", "a".repeat(122)),
        ] {
            assert_eq!(wrong_version(good), None, "{good}");
        }
        for bad in [
            "",
            "1",
            "v1.2.3",
            "1.2.3\u{1b}[2J",
            &format!("1.0.0-{}", "a".repeat(123)),
        ] {
            assert!(wrong_version(bad).is_some_and(|words| words.len() < 256), "{bad}");
        }
    }
}
