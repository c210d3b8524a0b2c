//! How many nodes of an owner may fail, which have failed, as a failure budget counts them, and the sentence that says that it is spent. One
//! rule for every owner.

use crate::{
    observed::{ChangeView, IntOrPercent, Observed},
    text::{counted, first_of},
    turn::journal::is_for,
    why::{Cause, Why},
};
use numo_api::{DirectiveAction, Reason, Step};
use serde::Serialize;

/// For what a node that is held or given up has failed.
const FAILED: [Reason; 6] = [
    Reason::RuleFailed,
    Reason::ChangeTimeout,
    Reason::JobFailed,
    Reason::JobLost,
    Reason::JoinFailed,
    Reason::NodeLeaseLost,
];

/// Those of the changes that count against a failure budget.
///
/// A person's directive ends the failure: the retry is not the failed attempt any more, and a node that was deleted can only
/// be skipped.
pub(crate) fn failed<'a>(
    observed: &Observed,
    changes: impl Iterator<Item = &'a ChangeView>,
) -> Vec<&'a ChangeView> {
    let has_failed = |change: &&ChangeView| {
        (matches!(change.status.step, Some(Step::Held | Step::Failed)) || is_given_up(change))
            && (FAILED.iter().any(|reason| is_for(change, *reason))
                || (is_for(change, Reason::NodeGone) && is_lost(observed, change)))
            && !is_ended_by_person(change)
    };
    changes.filter(has_failed).collect()
}

/// A NodeMaintenance has one node: a rule that would end others gives that one back, and it has failed all the same.
fn is_given_up(change: &ChangeView) -> bool {
    change.status.step == Some(Step::Skipped) && is_for(change, Reason::RuleFailed)
}

fn is_ended_by_person(change: &ChangeView) -> bool {
    let is_fresh = change.status.observed_generation.unwrap_or(1) < change.generation;
    let ends = |action| matches!(action, DirectiveAction::Retry | DirectiveAction::Skip);
    is_fresh
        && change
            .spec
            .directive
            .as_ref()
            .is_some_and(|directive| ends(directive.action))
}

/// The node was released, was deleted then, and no other one has come under its name: its change has cost a machine.
fn is_lost(observed: &Observed, change: &ChangeView) -> bool {
    let mut entries = change.status.entries.iter();
    entries.any(|entry| entry.step == Step::Released) && !observed.nodes.contains_key(&change.spec.node_name)
}

/// Nodes that a sentence names, at most.
const NAMED: usize = 5;

/// How many nodes may fail where what gates an owner does not say it.
const DEFAULT: IntOrPercent = IntOrPercent::Int(1);

/// One of all that gates an owner, as far as it says how many nodes may fail.
pub(crate) struct Said<'a, T> {
    /// The field, with the object in front if that is a MutexBinding.
    pub field: String,
    /// The name of the MutexBinding, if it is one.
    pub binding: Option<&'a str>,
    /// What the field says.
    pub given: Option<&'a T>,
}

/// How many nodes of an owner may fail, by one of all that gates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound<'a> {
    /// The field, with the object in front if that is a MutexBinding.
    pub field: String,
    /// The name of the MutexBinding, if it is one.
    pub binding: Option<&'a str>,
    limit: IntOrPercent,
    is_default: bool,
}

impl Bound<'_> {
    /// The budget of so many nodes. One that stops at no failure could never begin: it counts as 1.
    pub fn of(&self, nodes: usize) -> Budget<'_> {
        Budget {
            field: &self.field,
            most: self.limit.of(nodes).max(1),
            is_default: self.is_default,
            whose: "",
        }
    }
}

/// How many nodes of an owner may fail, by all that gates it: each bound holds. Where none of them says it, the default holds for each, or no
/// bound where a person approves what begins after a failure (`is_approved`): the default would make the approval worth nothing. What nothing
/// gates has no bound. What is wrong is told to `wrong`, and holds the owner.
pub(crate) fn bounds<'a, T: Serialize + 'a>(
    gates: impl IntoIterator<Item = Said<'a, T>>,
    is_approved: bool,
    wrong: &mut impl FnMut(String),
) -> Vec<Bound<'a>> {
    let (given, silent): (Vec<_>, Vec<_>) = gates.into_iter().partition(|one| one.given.is_some());
    let is_default = given.is_empty();
    if is_default && is_approved {
        return Vec::new();
    }
    let mut bounds = Vec::new();
    for one in if is_default { silent } else { given } {
        match one.given.map_or(Ok(DEFAULT), IntOrPercent::given) {
            Ok(limit) => bounds.push(Bound {
                field: one.field,
                binding: one.binding,
                limit,
                is_default,
            }),
            Err(problem) => wrong(format!("{}: {problem}", one.field)),
        }
    }
    bounds
}

/// The lowest of the bounds of so many nodes, the first of several; none without a bound.
pub(crate) fn lowest<'a>(bounds: &'a [Bound<'_>], nodes: usize) -> Option<Budget<'a>> {
    let budgets = bounds.iter().map(|bound| bound.of(nodes));
    budgets.min_by_key(|budget| budget.most)
}

/// A failure budget: the field that it stands in, how many may fail, whether nobody wrote that, and whose nodes it counts (` of wave 1`, or
/// nothing).
pub(crate) struct Budget<'a> {
    pub field: &'a str,
    pub most: usize,
    pub is_default: bool,
    pub whose: &'a str,
}

impl Budget<'_> {
    /// Why no further node begins, once as many have failed as may, and how the others go on: without who is `gone`, `or` as is said.
    pub fn spent(&self, failed: &[&str], gone: Option<&str>, or: &str) -> Option<Why> {
        let first = failed.first().filter(|_| failed.len() >= self.most)?;
        let way_on = gone.map_or_else(
            || format!("`numo retry {first}` or `numo skip {first}` ends this failure{or}"),
            |gone| format!("`numo skip {gone}` continues without the node that is gone"),
        );
        let by_default = if self.is_default { ", the default" } else { "" };
        let named = first_of(failed, NAMED);
        let message = format!(
            "Stopped after {}{} ({} {}{by_default}): {named}; `numo explain {first}` says why; {way_on}; with a \
             higher failureBudget the other nodes continue",
            counted(failed.len(), "failed node"),
            self.whose,
            self.field,
            self.most
        );
        let failures = Cause::Failures {
            node: gone.unwrap_or(first).to_owned(),
            is_gone: gone.is_some(),
            field: self.field.to_owned(),
        };
        Some(Why::new(Reason::FailureBudgetSpent, message).of(failures))
    }
}

/// The names of the nodes of changes.
pub(crate) fn names<'a>(changes: &[&'a ChangeView]) -> Vec<&'a str> {
    changes
        .iter()
        .map(|change| change.spec.node_name.as_str())
        .collect()
}

/// The first of the nodes of failed changes that is gone.
pub(crate) fn gone<'a>(failed: &[&'a ChangeView]) -> Option<&'a str> {
    let gone = failed.iter().find(|change| is_for(change, Reason::NodeGone))?;
    Some(&gone.spec.node_name)
}
