//! Keeps up the silences of one notifier. A round lists what its Alertmanager has, and makes, renews and ends what differs from what is
//! wanted: whatever became of the process before or of its leadership, the next round finds it. What is wanted is decided in
//! `frontends/silence.rs`. Only the task of the notifier waits for it.

use super::{
    pace::Pace,
    sink::{Answered, Sink},
};
use crate::{
    frontends::{
        mutex_notifier::{SinkKind, Understood, Verdict},
        silence::{Deed, Plan, SILENCES, Terms, Turns, Wanted},
    },
    shell::leader::Fence,
};
use jiff::Timestamp;
use numo_api::Reason;
use std::{fmt::Write as _, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Requests about single silences in one round, at most: notifications go between two rounds.
const AT_ONCE: usize = 32;
/// How long after one round the next begins at the earliest.
const PAUSE: Duration = Duration::from_secs(1);

/// The silences of one notifier.
#[derive(Debug, Default)]
pub struct Silencer {
    /// Of its own: who does not take silences may take alerts.
    pace: Pace,
    /// The nodes of the last round; none if a round is due whatever they are.
    seen: Option<Arc<Turns>>,
    /// When the last round was.
    last: Option<Instant>,
    /// When another is due, although the nodes are the same.
    due: Option<Instant>,
    /// By which terms it was.
    terms: Option<Terms>,
    /// How many nodes are silenced, if that is known.
    kept: Option<usize>,
    /// How many nodes are not silenced, as there are too many.
    over: usize,
    problem: Option<Verdict>,
}

/// Whose silences they are, and whether they may be written.
pub struct Whose<'a> {
    /// uid of the notifier.
    pub uid: &'a str,
    /// Whether this process leads.
    pub fence: &'a Fence,
}

impl Silencer {
    /// Has the next round begin soon: the spec is another one, or other processes may have led meanwhile.
    pub fn look_again(&mut self) {
        self.seen = None;
        self.pace.took();
    }

    /// The Alertmanager cannot be asked: what is silenced there lapses.
    pub fn lose_sight(&mut self) {
        (self.seen, self.kept) = (None, None);
    }

    /// The terms of the next round. Where the spec wants no silences any more, one round ends those that are there; what it leaves lapses.
    pub fn terms(&mut self, spec: &Understood) -> Option<Terms> {
        if let Some(terms) = &spec.silences {
            self.terms = Some(terms.clone());
        } else if self.kept.is_none_or(|kept| kept == 0) || spec.sink != SinkKind::Alertmanager {
            *self = Self::default();
        }
        self.terms.clone()
    }

    /// When the next round is to be; none while there is nothing to do.
    pub fn next(&self, turns: &Turns) -> Option<Instant> {
        let is_known = self.seen.as_ref().is_some_and(|seen| **seen == *turns);
        let due = if is_known { self.due? } else { Instant::now() };
        let pause = self.last.map(|last| last + PAUSE);
        Some(due).max(pause).max(self.pace.next(u32::MAX))
    }

    /// How many nodes are silenced; none if that is not known, or none is to be.
    pub const fn kept(&self) -> Option<usize> {
        self.kept
    }

    /// How the notifier stands, by how its notifications do.
    pub fn judged(&self, verdict: &Verdict) -> Verdict {
        let mut judged = match &self.problem {
            Some(problem) if verdict.ready => problem.clone(),
            _ => verdict.clone(),
        };
        if self.over > 0 && judged.ready {
            let over = self.over;
            let _ = write!(
                judged.message,
                " {SILENCES} nodes are silenced, and {over} more are not."
            );
        }
        judged
    }

    /// One round; what went wrong, if something did.
    pub async fn round(
        &mut self,
        sink: &Sink,
        (terms, turns): (&Terms, Arc<Turns>),
        whose: Whose<'_>,
        now: Timestamp,
    ) -> Result<(), Answered> {
        self.last = Some(Instant::now());
        let wanted = Wanted {
            terms,
            uid: whose.uid,
            turns: &turns,
        };
        self.over = wanted.over();
        let found = match sink.silences(now).await {
            Ok(found) => found,
            Err(answered) => {
                self.kept = None;
                return self.fail(answered);
            }
        };
        let plan = wanted.plan(&found, now);
        self.kept = Some(plan.kept);
        let begun = Instant::now();
        self.due = due(&plan, terms, now).map(|wait| begun + wait);
        self.seen = Some(turns.clone());
        self.act(sink, &plan, whose.fence, now).await?;
        self.pace.took();
        self.problem = None;
        Ok(())
    }

    /// Carries out as much of a plan as one round may. What is refused holds up nothing else.
    async fn act(&mut self, sink: &Sink, plan: &Plan, fence: &Fence, now: Timestamp) -> Result<(), Answered> {
        let mut refused = None;
        for deed in plan.deeds.iter().take(AT_ONCE) {
            if !fence.holds() {
                self.seen = None;
                break;
            }
            match sink.silence(deed, now).await {
                Answered::Taken => {
                    let is_new = matches!(deed, Deed::Make(_));
                    self.kept = self.kept.map(|kept| kept + usize::from(is_new));
                }
                Answered::Refused(words) => refused = Some(Answered::Refused(words)),
                later @ Answered::Later(..) => return self.fail(later),
            }
        }
        match refused {
            Some(answered) => self.fail(answered),
            None => Ok(()),
        }
    }

    /// Notes what went wrong, and when it is tried again.
    fn fail(&mut self, answered: Answered) -> Result<(), Answered> {
        let (reason, words, wait) = match &answered {
            Answered::Taken => return Ok(()),
            Answered::Later(words, wait) => (Reason::SinkFails, words, *wait),
            Answered::Refused(words) => (Reason::SinkRefuses, words, None),
        };
        self.problem = Some(Verdict {
            ready: false,
            reason,
            message: format!("silences: {words}"),
        });
        self.pace.failed(Instant::now(), wait);
        self.seen = None;
        Err(answered)
    }
}

/// How long after a plan was made the next round is due, if nothing changes: at once if it was too long for one.
fn due(plan: &Plan, terms: &Terms, now: Timestamp) -> Option<Duration> {
    if plan.deeds.len() > AT_ONCE {
        return Some(Duration::ZERO);
    }
    let is_written = |deed: &Deed| !matches!(deed, Deed::End(_));
    let written = plan.deeds.iter().any(is_written).then(|| terms.renewal());
    let untouched = plan.renew.map(|at| at.duration_since(now));
    let first = written.into_iter().chain(untouched).min()?;
    Some(Duration::try_from(first).unwrap_or_default())
}

#[cfg(test)]
mod tests;
