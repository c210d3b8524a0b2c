//! The journal of a node, in the order of its times.

use super::explanation::{Entry, Journal};
use crate::cli::remarked::Remark;
use jiff::Timestamp;
use numo_api::{Entry as JournalEntry, Outcome, VerdictRecord, marks};
use numo_core::observed::ChangeView;

/// Steps, verdicts and words, in the order of their times.
pub(super) fn journal(change: &ChangeView) -> Journal {
    let status = &change.status;
    let said = Remark::kept(change.annotations.get(marks::SAID));
    // What was said of the node, each word with its own time.
    let words = said.iter().map(|word| Entry {
        at: word.at.clone(),
        message: word.sentence(),
    });
    let steps = status.entries.iter().map(of_step);
    let verdicts = status.verdicts.iter().map(of_verdict);
    let mut entries: Vec<Entry> = steps.chain(verdicts).chain(words).collect();
    entries.sort_by_key(|entry| entry.at.parse::<Timestamp>().ok());
    if let Some(message) = untold(change, said.last()) {
        let at = entries
            .last()
            .map_or_else(|| change.created.to_string(), |entry| entry.at.clone());
        entries.push(Entry { at, message });
    }
    let log = status.log_tail.as_deref().unwrap_or_default();
    let log: Vec<String> = log.lines().map(ToOwned::to_owned).collect();
    Journal {
        change: change.key.to_string(),
        attempt: status.attempt.max(1),
        entries,
        log: log[log.len().saturating_sub(5)..].to_vec(),
    }
}

fn of_step(entry: &JournalEntry) -> Entry {
    let why = entry
        .reason
        .as_deref()
        .map_or_else(String::new, |reason| format!(" ({reason})"));
    Entry {
        at: entry.at.clone(),
        message: format!("{}{why}", entry.step.name()),
    }
}

fn of_verdict(verdict: &VerdictRecord) -> Entry {
    let outcome = match verdict.outcome {
        Outcome::Pass => "passed",
        Outcome::Failure => "failed",
        Outcome::ContinuedAfterFailure => "failed, and was passed over",
    };
    let code = verdict
        .exit_code
        .map_or_else(String::new, |code| format!(", exit code {code}"));
    let message = format!(
        "rule {} {outcome} in {} (attempt {}{code}) {}",
        verdict.rule,
        verdict.phase.name(),
        verdict.attempt,
        verdict.message.as_deref().unwrap_or_default()
    );
    Entry {
        at: verdict.at.clone(),
        message: message.trim_end().to_owned(),
    }
}

/// A directive that none of our words tells of. It was written by another hand than ours: nobody knows when.
fn untold(change: &ChangeView, last: Option<&Remark>) -> Option<String> {
    let directive = change.spec.directive.as_ref()?;
    let verb = format!("{:?}", directive.action).to_lowercase();
    if last.is_some_and(|word| word.verb == verb && word.reason == directive.reason) {
        return None;
    }
    let by = directive.by.as_deref().unwrap_or("someone");
    let why = directive
        .reason
        .as_deref()
        .map_or_else(String::new, |why| format!(": {why}"));
    Some(format!("directive {:?} by {by}{why}", directive.action))
}
