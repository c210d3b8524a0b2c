//! The journal of a node, in the order of its times.

use super::explanation::{Entry, Journal};
use crate::cli::word::Word;
use jiff::Timestamp;
use numo_api::{Directive, Outcome, marks};
use numo_core::observed::ChangeView;

/// Steps and verdicts, in the order of their times.
pub(super) fn journal(change: &ChangeView) -> Journal {
    let status = &change.status;
    let steps = status.entries.iter().map(|entry| {
        let why = entry
            .reason
            .as_deref()
            .map_or_else(String::new, |reason| format!(" ({reason})"));
        Entry {
            at: entry.at.clone(),
            message: format!("{}{why}", entry.step.name()),
        }
    });
    let verdicts = status.verdicts.iter().map(|verdict| {
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
    });
    // What was said of the node, each word with its own time.
    let said = Word::kept(change.annotations.get(marks::SAID));
    let is_told = |directive: &Directive| {
        let verb = format!("{:?}", directive.action).to_lowercase();
        said.last()
            .is_some_and(|word| word.verb == verb && word.reason == directive.reason)
    };
    let directive = change
        .spec
        .directive
        .as_ref()
        .filter(|directive| !is_told(directive));
    let words = said.iter().map(|word| Entry {
        at: word.at.clone(),
        message: word.sentence(),
    });
    let mut entries: Vec<Entry> = steps.chain(verdicts).chain(words).collect();
    entries.sort_by_key(|entry| entry.at.parse::<Timestamp>().ok());
    // Written by another hand than ours: nobody knows when.
    let directive = directive.map(|directive| {
        let by = directive.by.as_deref().unwrap_or("someone");
        let why = directive
            .reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {why}"));
        format!("directive {:?} by {by}{why}", directive.action)
    });
    if let Some(message) = directive {
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
