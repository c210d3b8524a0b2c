//! What came of evaluating rules that are no Jobs. This file evaluates nothing.

use super::Store;
use jiff::Timestamp;
use numo_core::{
    action::EvaluationRequest,
    observed::{EvaluationView, RuleAnswer},
    ready,
};

impl Store {
    /// Notes that a rule is being asked.
    pub fn ask(&mut self, request: &EvaluationRequest, now: Timestamp) {
        let evaluations = &mut self.observed.evaluations;
        let view = evaluations
            .entry(request.key.clone())
            .or_insert_with(|| EvaluationView {
                rule: request.rule.clone(),
                generation: request.generation,
                first_asked: now,
                anew: false,
                asked: now,
                under_way: true,
                answer: None,
                waited: None,
                failures: 0,
                stirred: false,
                stirs: 0,
            });
        view.under_way = true;
        view.asked = now;
        view.stirred = false;
        if matches!(view.answer, Some((_, RuleAnswer::Pass(_)))) {
            // It did not make anybody wait until now.
            view.first_asked = now;
            view.anew = true;
        }
        if view.generation != request.generation {
            // What was mended has its whole time.
            view.first_asked = now;
            view.anew = true;
            view.generation = request.generation;
            view.answer = None;
            view.waited = None;
            view.failures = 0;
        }
    }

    pub(super) fn evaluated(&mut self, key: &str, at: Timestamp, answer: RuleAnswer) -> bool {
        let Some(view) = self.observed.evaluations.get_mut(key) else {
            return false;
        };
        view.under_way = false;
        view.failures = match answer {
            RuleAnswer::NoVerdict(..) => view.failures.saturating_add(1),
            RuleAnswer::Pass(_) | RuleAnswer::Wait(..) | RuleAnswer::Block(_) => 0,
        };
        if let RuleAnswer::Wait(words, _) = &answer {
            view.waited = Some((at, words.clone()));
        }
        view.answer = Some((at, answer));
        true
    }

    /// Notes that something has changed which a rule read. False if nobody waits for it.
    pub(super) fn stirred(&mut self, key: &str) -> bool {
        let view = self.observed.evaluations.get_mut(key);
        let waits = view.filter(|view| matches!(view.answer, Some((_, RuleAnswer::Wait(..)))));
        waits.is_some_and(|view| {
            let news = !std::mem::replace(&mut view.stirred, true);
            view.stirs = view.stirs.saturating_add(u32::from(news));
            news
        })
    }

    /// Drops evaluations that nobody has come back to for longer than any rule may ask for.
    pub fn forget_evaluations(&mut self, now: Timestamp) {
        const KEPT_SECONDS: i64 = 2 * 3600;
        let rules = &self.observed.rules;
        self.observed.evaluations.retain(|_, view| {
            let old = view
                .answer
                .as_ref()
                .is_some_and(|(at, _)| now.as_second() - at.as_second() > KEPT_SECONDS);
            // numo's own check is no MutexRule.
            let exists = view.rule == ready::key() || rules.contains_key(&view.rule);
            view.under_way || (!old && exists)
        });
    }
}
