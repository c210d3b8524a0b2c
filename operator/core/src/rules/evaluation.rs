//! How an attempt of a rule comes along that numo itself asks.

use super::{
    attempt::{Attempt, DEADLINE_GRACE_SECONDS, MESSAGE_MAX},
    inquiry::{Inquiry, Progress},
    verdicts::is_recent,
};
use crate::{
    action::{Earlier, EarlierWord, EvaluationRequest},
    names,
    observed::{EvaluationView, Observed, RuleAnswer, RuleWords},
    ready,
    text::clip,
    time::{doubled, later},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{FailurePolicy, Outcome, Reason, RuleWait, VerdictRecord};

/// Bounds of what a rule asks to wait before it is asked again (seconds).
const RETRY_AFTER_SECONDS: (i64, i64) = (5, 3600);
/// Least pause before a rule is asked again because what it read has changed (seconds).
const STIRRED_SECONDS: i64 = 1;
/// First and longest pause before a rule is asked again that gave no verdict (seconds).
pub(super) const NO_VERDICT_SECONDS: (i64, i64) = (5, 300);

/// How one attempt of a rule that is asked comes along. Whatever it waits for, it is asked a last time when its time is
/// over; what it does not pass by then has failed.
pub(super) fn progress(attempt: &Attempt<'_>, inquiry: &Inquiry<'_>) -> Progress {
    let (rule, now) = (attempt.rule, inquiry.now);
    let request = Box::new(request(attempt, inquiry.observed));
    let Some(view) = inquiry.observed.evaluations.get(&request.key) else {
        return Progress::Evaluate(request);
    };
    let noted = noted(attempt);
    // Its time began when it was asked first, by whichever leader.
    let begun = noted.filter(|_| !view.anew).unwrap_or(view.first_asked);
    let begun = begun.min(view.first_asked);
    let asked = Asked {
        attempt,
        view,
        begun,
        deadline: later(begun, rule.timeout_seconds),
        now,
    };
    if view.under_way {
        return asked.answering();
    }
    let answer = view.answer.as_ref();
    let of_now = answer.filter(|_| view.generation == rule.generation);
    let Some((at, answer)) = of_now else {
        return Progress::Evaluate(request);
    };
    let Some((why, pause)) = waits(&attempt.words(), view, answer) else {
        return match answer {
            RuleAnswer::Block(words) => asked.record(attempt.failed(), words),
            RuleAnswer::Pass(words) if is_recent(rule, *at, now) => asked.record(Outcome::Pass, words),
            _ => Progress::Evaluate(request),
        };
    };
    if *at >= asked.deadline {
        let (reason, words) = match answer {
            RuleAnswer::Wait(words, _) => (words.reason.as_str(), words.summary.as_str()),
            RuleAnswer::NoVerdict(reason, message) => (reason.name(), message.as_str()),
            RuleAnswer::Pass(_) | RuleAnswer::Block(_) => ("", ""),
        };
        let message = format!(
            "not passed within timeoutSeconds {}: {words}",
            rule.timeout_seconds
        );
        return asked.over(reason, message);
    }
    let again = later(*at, unless_stirred(view, pause)).min(asked.deadline);
    if now >= again {
        return Progress::Evaluate(request);
    }
    if noted != Some(begun) && !inquiry.observed.forgets_waits {
        return Progress::Note(wait(attempt, begun), why);
    }
    Progress::Wait(why, Some(again))
}

/// Since when the attempt makes the node wait, as it is written down of the rule as it is now: what was mended has its whole
/// time.
fn noted(attempt: &Attempt<'_>) -> Option<Timestamp> {
    let is_it = |noted: &&RuleWait| {
        noted.rule == attempt.name
            && (noted.phase, noted.attempt, noted.round)
                == (attempt.phase, attempt.number, attempt.subject.round)
            && (noted.rule_uid(), noted.generation) == (attempt.rule.uid.as_str(), attempt.rule.generation)
    };
    let noted = attempt.subject.waits.iter().find(is_it)?;
    noted.since.parse().ok()
}

/// What is written down of the attempt.
fn wait(attempt: &Attempt<'_>, since: Timestamp) -> RuleWait {
    RuleWait {
        rule: attempt.name.clone(),
        phase: attempt.phase,
        attempt: attempt.number,
        round: attempt.subject.round,
        rule_uid: attempt.rule.uid.clone(),
        earlier_rule_uid: attempt.rule.uid.clone(),
        generation: attempt.rule.generation,
        since: since.to_string(),
    }
}

/// An attempt that was asked, at one time.
struct Asked<'a> {
    attempt: &'a Attempt<'a>,
    view: &'a EvaluationView,
    /// When its time began.
    begun: Timestamp,
    /// When its time is over.
    deadline: Timestamp,
    now: Timestamp,
}

impl Asked<'_> {
    /// Its answer is under way.
    fn answering(&self) -> Progress {
        let (view, what) = (self.view, self.attempt.words());
        // Asked after its time was over it still has its answer waited for.
        let given_up = later(self.deadline.max(view.asked), DEADLINE_GRACE_SECONDS);
        if self.now >= given_up {
            let limit = self.attempt.rule.timeout_seconds;
            let message = format!("{what}: no answer within timeoutSeconds {limit}");
            return self.over(Reason::EvaluationTimeout.name(), message);
        }
        let last = view.answer.as_ref();
        let waits = last.and_then(|(_, answer)| waits(&what, view, answer));
        let why = waits.map_or_else(|| Why::new(Reason::RuleRunning, what), |(why, _)| why);
        Progress::Wait(why, Some(given_up))
    }

    fn record(&self, outcome: Outcome, words: &RuleWords) -> Progress {
        let said = (words.reason.as_str(), words.summary.as_str());
        let verdict = VerdictRecord {
            data: words.data.clone(),
            ended_at: self.view.answer.as_ref().map(|(at, _)| at.to_string()),
            ..self.attempt.verdict(outcome, said, Some(self.begun), self.now)
        };
        Progress::Record(Box::new(verdict), None)
    }

    /// Its time is over.
    fn over(&self, reason: &str, summary: String) -> Progress {
        let Attempt { rule, phase, .. } = self.attempt;
        // What only remembers, for a rule whose failure is a warning, holds no node: it goes on with nothing remembered.
        let only_remembers = rule.key == ready::key()
            && rule.failure_policy == FailurePolicy::Continue
            && !phase.is_after_release();
        let outcome = if only_remembers {
            Outcome::Pass
        } else {
            self.attempt.failed()
        };
        let words = RuleWords {
            reason: reason.to_owned(),
            summary,
            ..RuleWords::default()
        };
        self.record(outcome, &words)
    }
}

/// What the rule is asked.
pub(super) fn request(attempt: &Attempt<'_>, observed: &Observed) -> EvaluationRequest {
    let (rule, subject) = (attempt.rule, attempt.subject);
    let of_rule = attempt.verdicts.iter().rev();
    let journaled = of_rule
        .filter(|verdict| verdict.rule == attempt.name)
        .map(earlier);
    let key = names::evaluation(&attempt.identity(), &rule.uid);
    let view = observed.evaluations.get(&key);
    let view = view.filter(|view| view.generation == rule.generation);
    let waited = view
        .and_then(|view| view.waited.as_ref())
        .map(|(at, words)| Earlier {
            phase: attempt.phase,
            attempt: attempt.number,
            at: at.to_string(),
            word: EarlierWord::Wait,
            reason: words.reason.clone(),
            summary: words.summary.clone(),
            data: words.data.clone(),
        });
    let history = waited.into_iter().chain(journaled);
    EvaluationRequest {
        key,
        rule: rule.key.clone(),
        rule_uid: rule.uid.clone(),
        generation: rule.generation,
        phase: attempt.phase,
        attempt: attempt.number,
        owner: subject.owner.clone(),
        node: subject.node.to_owned(),
        node_uid: subject.node_uid.to_owned(),
        pool: subject.pool.to_owned(),
        from_version: subject.from_version.to_owned(),
        to_version: subject.to_version.to_owned(),
        run: subject.run.to_owned(),
        history: history.collect(),
    }
}

/// A verdict of the journal, as the rule is told of it.
fn earlier(verdict: &VerdictRecord) -> Earlier {
    Earlier {
        phase: verdict.phase,
        attempt: verdict.attempt,
        at: verdict.at.clone(),
        word: if verdict.outcome == Outcome::Pass {
            EarlierWord::Pass
        } else {
            EarlierWord::Block
        },
        reason: verdict.reason.clone(),
        summary: verdict.message.clone().unwrap_or_default(),
        data: verdict.data.clone(),
    }
}

/// What an answer that is no verdict yet makes wait, and for how many seconds.
pub(super) fn waits(what: &str, view: &EvaluationView, answer: &RuleAnswer) -> Option<(Why, i64)> {
    let (reason, words, pause) = match answer {
        RuleAnswer::Wait(words, seconds) => {
            let (least, most) = RETRY_AFTER_SECONDS;
            (Reason::RuleWaits, words.shown(), (*seconds).clamp(least, most))
        }
        RuleAnswer::NoVerdict(reason, message) => {
            let pause = doubled(NO_VERDICT_SECONDS, view.failures.saturating_sub(1));
            (*reason, message.clone(), pause)
        }
        RuleAnswer::Pass(_) | RuleAnswer::Block(_) => return None,
    };
    Some((
        Why::new(reason, clip(&format!("{what}: {words}"), MESSAGE_MAX)),
        pause,
    ))
}

/// How long until it is asked again: what has changed is asked about sooner, and what changes all the time not all the
/// time.
pub(super) fn unless_stirred(view: &EvaluationView, pause: i64) -> i64 {
    if view.stirred {
        pause.min(STIRRED_SECONDS << view.stirs.saturating_sub(1).min(5))
    } else {
        pause
    }
}
