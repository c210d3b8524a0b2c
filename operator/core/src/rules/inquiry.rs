//! What rules are asked about, and what may come of it.

use crate::{
    action::{EvaluationRequest, JobRequest},
    observed::{NodeView, Observed},
    owner::Owner,
    verdict::{Answers, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{FailurePolicy, RuleWait, VerdictRecord, marks::openshift::HOSTNAME};

/// What the rules are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The owner.
    pub owner: &'a Owner,
    /// uid of the owner.
    pub owner_uid: &'a str,
    /// The node; name and uid are empty for rules that are asked once per run.
    pub node: &'a str,
    /// uid of the node.
    pub node_uid: &'a str,
    /// Host name label of the node.
    pub hostname: &'a str,
    /// Home pool.
    pub pool: &'a str,
    /// Version the node comes from.
    pub from_version: &'a str,
    /// Version the node goes to.
    pub to_version: &'a str,
    /// Id of the run.
    pub run: &'a str,
    /// Attempt of the node, from 1.
    pub round: i32,
    /// Since when the node waits for the next rule: since its step began, or since the last verdict.
    pub since: Option<Timestamp>,
    /// Since when rules have made it wait, as it is written down: no restart begins their timeouts anew.
    pub waits: &'a [RuleWait],
}

impl<'a> Subject<'a> {
    /// A node that waits for its turn, after so many attempts. Pool, versions and run are its owner's to say.
    pub fn waiting(owner: &'a Owner, owner_uid: &'a str, node: &'a NodeView, attempts: i32) -> Self {
        Self {
            owner,
            owner_uid,
            node: &node.name,
            node_uid: &node.uid,
            hostname: node.label(HOSTNAME),
            pool: "",
            from_version: "",
            to_version: "",
            run: "",
            round: attempts.saturating_add(1),
            since: None,
            waits: &[],
        }
    }
}

/// What rules are asked about, and all that tells how they come along.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// What they are asked about.
    pub subject: Subject<'a>,
    /// What the journal has of them.
    pub verdicts: &'a [VerdictRecord],
    /// What was seen.
    pub observed: &'a Observed,
    /// What was asked and answered.
    pub answers: &'a Answers,
    /// The API server's time.
    pub now: Timestamp,
}

/// How a phase of rules comes along.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Every rule of the phase has passed (or its failure was passed over).
    Passed,
    /// The next Job is to be created.
    Start(Box<JobRequest>),
    /// A rule is to be asked.
    Evaluate(Box<EvaluationRequest>),
    /// A rule runs, or cannot start.
    Wait(Why, Option<Timestamp>),
    /// A rule begins to make it wait: since when is to be journaled.
    Note(RuleWait, Why),
    /// Something must be read first.
    Ask(Question),
    /// A verdict is to be journaled, with the end of the log.
    Record(Box<VerdictRecord>, Option<String>),
    /// A rule failed for good.
    Failed(FailurePolicy, Why),
}
