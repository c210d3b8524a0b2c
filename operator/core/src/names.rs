//! Deterministic names: the same thing has the same name after every restart, so that creating it twice
//! is refused by the API server instead of happening twice.

use crate::text::clip;
use numo_api::{Phase, marks};
use sha2::{Digest, Sha256};

/// Longest name part of a label key, and longest label value, that Kubernetes admits (characters).
pub const LABEL_MAX: usize = 63;
/// Most characters of the name of an object, and of a domain.
pub const NAME_MAX: usize = 253;
/// Longest name of a Job whose pods can be named after it (characters).
const JOB_NAME_MAX: usize = 63;

/// Whether the text is a DNS label, as Kubernetes names namespaces: at most 63 lower-case letters, digits and `-`, letters or digits at
/// its ends (RFC 1123).
pub fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty()
        && text.len() <= LABEL_MAX
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// What is wrong with a label value, if something is.
pub fn wrong_label_value(value: &str) -> Option<String> {
    (!value.is_empty() && !is_part(value)).then(|| {
        format!(
            "found {:?}, wanted a label value: at most {LABEL_MAX} letters, digits, '-', '_' and '.', letters or digits at its ends",
            clip(value, 100)
        )
    })
}

/// What is wrong with a label key, if something is.
pub fn wrong_label_key(key: &str) -> Option<String> {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_domain = |prefix: &str| {
        prefix.len() <= NAME_MAX
            && prefix.split('.').all(|part| {
                is_part(part)
                    && part
                        .bytes()
                        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            })
    };
    (!is_part(name) || !prefix.is_none_or(is_domain)).then(|| {
        format!(
            "found {:?}, wanted a label key: a domain and '/' or neither, and at most {LABEL_MAX} letters, digits, '-', '_' and '.'",
            clip(key, 100)
        )
    })
}

/// What is wrong with the first of these label keys that cannot be one; the field is named.
pub fn wrong_label_keys<'a>(field: &str, keys: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let problem = keys.into_iter().find_map(|key| wrong_label_key(key))?;
    Some(format!("{field}: {problem}"))
}

fn is_part(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= LABEL_MAX
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// The first `length` hex digits of the SHA-256 over the parts, each ended by a zero byte so that no two
/// different lists of parts meet.
pub fn hash(parts: &[&str], length: usize) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    let digits = digest.finalize();
    let digits = digits.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .take(length)
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

/// The SHA-256 of a text, 64 hex digits.
pub fn hex(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

/// Id of the run of one owner to one version.
pub fn run_id(owner_uid: &str, target: &str) -> String {
    hash(&["run", owner_uid, target], 10)
}

/// What a run goes to that is about these rendered configurations of a version: pools and configurations in
/// the order of the pools' names.
pub fn config_target(version: &str, pools: &[(&str, &str)]) -> String {
    pools.iter().fold(version.to_owned(), |target, (pool, config)| {
        format!("{target} {pool}={config}")
    })
}

/// Label value that stands for a node whose name may be longer than a label value.
pub fn node_hash(node_name: &str) -> String {
    hash(&["node", node_name], 10)
}

/// Name of the NodeChange of one node in one run, whose id stands for owner and target:
/// `<kind>-<owner, 40 at most>-<10 hex digits>`.
pub fn change_name(kind: &str, owner: &str, owner_uid: &str, node_uid: &str, run_id: &str) -> String {
    let owner: String = owner.chars().take(40).collect();
    let owner = owner.trim_end_matches(['-', '.']);
    format!(
        "{}-{owner}-{}",
        kind.to_lowercase(),
        hash(&[owner_uid, node_uid, run_id], 10)
    )
}

/// Name of the Job of one attempt of one rule: `<prefix>-<10 hex digits>`, 63 characters at most.
pub fn job_name(prefix: &str, identity: &JobIdentity<'_>) -> String {
    let digest = identity.hash(&[], 10);
    let prefix: String = prefix.chars().take(JOB_NAME_MAX - digest.len() - 1).collect();
    format!("{}-{digest}", prefix.trim_end_matches(['-', '.']))
}

/// Whether a Job has the name that numo gives the Job of this attempt, whatever the rule was called by its prefix then.
pub(crate) fn is_job_of(job: &str, identity: &JobIdentity<'_>) -> bool {
    attempt_of(job).is_some_and(|digest| digest == identity.hash(&[], 10))
}

/// What stands for the attempt of a rule in the name of its Job, whatever the rule was called by its prefix then.
pub(crate) fn attempt_of(job: &str) -> Option<&str> {
    Some(job.rsplit_once('-')?.1)
}

/// Key of one attempt of a wasm rule among the evaluations. A rule that was made again is another one.
pub fn evaluation(identity: &JobIdentity<'_>, rule_uid: &str) -> String {
    identity.hash(&["evaluation", rule_uid], 20)
}

/// What makes a rule Job the one and only: at most one exists for each of these.
#[derive(Clone, Copy, Debug)]
pub struct JobIdentity<'a> {
    /// uid of the owner.
    pub owner_uid: &'a str,
    /// uid of the node; empty for rules that are asked once per run.
    pub node_uid: &'a str,
    /// Id of the run: it stands for what the node goes to.
    pub run: &'a str,
    /// `namespace/name` of the rule.
    pub rule: &'a str,
    /// The phase.
    pub phase: Phase,
    /// Attempt of the node, from 1: a Job of an earlier attempt is not one of this.
    pub round: i32,
    /// Number of the Job over all attempts of the node, from 1.
    pub attempt: i32,
}

impl JobIdentity<'_> {
    /// The hash of all of it, behind these parts.
    fn hash(&self, before: &[&str], digits: usize) -> String {
        let (round, attempt) = (self.round.to_string(), self.attempt.to_string());
        let (phase, run) = (self.phase.name(), self.run);
        let own = [
            self.owner_uid,
            self.node_uid,
            run,
            self.rule,
            phase,
            &round,
            &attempt,
        ];
        hash(&[before, &own].concat(), digits)
    }
}

/// The label a rule puts on nodes that have yet to pass it, as the replaced operator wrote it:
/// `mutexrule.openshift-optional.skrzypek.io/<rule>.<namespace>`.
pub fn rule_label(namespace: &str, rule: &str) -> String {
    format!("{}{rule}.{namespace}", marks::RULE_LABEL_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(hash(&["ab", "c"], 10), hash(&["a", "bc"], 10));
    }

    /// A later numo finds what this one has made by its name: none of these may ever be another.
    #[test]
    fn names_stay_what_they_are() {
        let run = run_id("owner", "4.17.0");
        assert_eq!(run, "cca7d21911");
        assert_eq!(node_hash("worker-0"), "c89a8853e6");
        let change = change_name("Plan", "p", "owner", "node", &run);
        assert_eq!(change, "plan-p-6ed9b448cb");
        let identity = JobIdentity {
            owner_uid: "owner",
            node_uid: "node",
            run: &run,
            rule: "numo/quick",
            phase: Phase::Pre,
            round: 1,
            attempt: 1,
        };
        assert_eq!(job_name("quick", &identity), "quick-943e781d47");
        assert_eq!(evaluation(&identity, "rule"), "6af546ebd10c1c7180b8");
    }

    #[test]
    fn job_names_fit_and_differ_by_attempt() {
        let identity = JobIdentity {
            owner_uid: "o",
            node_uid: "n",
            run: "r1",
            rule: "ns/rule",
            phase: Phase::Pre,
            round: 1,
            attempt: 1,
        };
        let long = "x".repeat(300);
        let name = job_name(&long, &identity);
        assert!(name.len() <= JOB_NAME_MAX, "{name}");
        assert_ne!(
            name,
            job_name(
                &long,
                &JobIdentity {
                    attempt: 2,
                    ..identity
                }
            )
        );
        assert_eq!(job_name("example-", &identity).matches("--").count(), 0);
    }
}
