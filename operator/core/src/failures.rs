//! Which nodes of a run have failed, as a failure budget counts them, and the sentence that says that it is spent. One rule for every owner;
//! what the budget is, the owner says.

use crate::{
    observed::{ChangeView, Observed},
    text::counted,
    turn::journal::is_for,
    why::Why,
};
use numo_api::{DirectiveAction, Reason, Step};

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

/// A failure budget: the field that it stands in, how many may fail, and whose nodes it counts (` of wave 1`, or nothing).
pub(crate) struct Budget<'a> {
    pub field: &'a str,
    pub most: usize,
    pub whose: &'a str,
}

impl Budget<'_> {
    /// Why no further node begins, once as many of these have failed as may: their names, and `way_on` as the end of the sentence.
    pub fn spent(&self, failed: &[&str], way_on: &str) -> Option<Why> {
        let first = failed.first().filter(|_| failed.len() >= self.most)?;
        let named = failed.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match failed.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "Stopped after {}{} ({} {}): {named}{more}; `numo explain {first}` says why{way_on}",
            counted(failed.len(), "failed node"),
            self.whose,
            self.field,
            self.most
        );
        Some(Why::new(Reason::FailureBudgetSpent, message))
    }
}

/// The names of the nodes of changes.
pub(crate) fn names<'a>(changes: &[&'a ChangeView]) -> Vec<&'a str> {
    changes
        .iter()
        .map(|change| change.spec.node_name.as_str())
        .collect()
}

/// How the others go on where one of the failed nodes is gone: the end of a sentence, or nothing.
pub(crate) fn way_on(failed: &[&ChangeView]) -> String {
    let gone = failed.iter().find(|change| is_for(change, Reason::NodeGone));
    gone.map_or_else(String::new, |change| {
        format!(
            "; `numo skip {}` goes on without the node that is gone",
            change.spec.node_name
        )
    })
}
