//! Rules that are asked: a question goes out once, and its answer comes among what was seen, as the shell has it. A restart forgets both.

use super::Simulation;
use numo_core::{
    action::EvaluationRequest,
    observed::{EvaluationView, RuleAnswer},
};

impl Simulation {
    /// Asks a rule, unless it is being asked.
    pub(super) fn ask(&mut self, request: &EvaluationRequest) {
        let now = self.world.time();
        let known = self.view.seen().evaluations.get(&request.key);
        if known.is_some_and(|view| view.under_way) {
            return;
        }
        let evaluations = &mut self.view.remember().evaluations;
        let view = evaluations
            .entry(request.key.clone())
            .or_insert_with(|| EvaluationView {
                rule: request.rule.clone(),
                generation: request.generation,
                first_asked: now,
                anew: false,
                asked: now,
                under_way: false,
                answer: None,
                waited: None,
                failures: 0,
                stirred: false,
                stirs: 0,
            });
        (view.under_way, view.asked, view.stirred) = (true, now, false);
        let is_edited = view.generation != request.generation;
        if is_edited || matches!(view.answer, Some((_, RuleAnswer::Pass(_)))) {
            (view.first_asked, view.anew) = (now, true);
        }
        if is_edited {
            view.generation = request.generation;
            (view.answer, view.waited, view.failures) = (None, None, 0);
        }
        // Whoever asks is at work.
        self.last_write = self.world.now;
        let at = self.world.now + self.world.thinking_time();
        self.asked.push((at, request.clone()));
    }

    /// The answers that have come are seen. Whether there are any.
    pub(super) fn hear(&mut self) -> bool {
        let now = self.world.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.asked = later;
        for (_, request) in &due {
            let answer = self.world.rule_says(request);
            let at = self.world.time();
            let Some(view) = self.view.remember().evaluations.get_mut(&request.key) else {
                continue;
            };
            view.under_way = false;
            view.failures = match answer {
                RuleAnswer::NoVerdict(..) => view.failures + 1,
                _ => 0,
            };
            if let RuleAnswer::Wait(words, _) = &answer {
                view.waited = Some((at, words.clone()));
            }
            view.answer = Some((at, answer));
        }
        !due.is_empty()
    }
}
