//! Rules that are asked instead of run: what a component or an expression says of a node. The answers come late, some are Waits, and
//! some are none.

use super::World;
use numo_api::{Phase, Reason};
use numo_core::{
    action::EvaluationRequest,
    observed::{Key, RuleAnswer, RuleWords},
};

/// An answer that a rule gave, kept for the judge.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The rule.
    pub rule: Key,
    /// The edition of the rule that was asked.
    pub edition: String,
    /// The phase.
    pub phase: Phase,
    /// uid of the node that it was asked about; empty for none.
    pub node_uid: String,
    /// Id of the run.
    pub run: String,
    /// When it answered.
    pub at: i64,
    /// Whether it passed.
    pub passed: bool,
    /// What it wrote down for itself.
    pub data: String,
}

impl World {
    /// How long the rule thinks (seconds).
    pub(crate) fn thinking_time(&mut self) -> i64 {
        self.pick((0, 8))
    }

    /// What the rule says.
    pub(crate) fn rule_says(&mut self, request: &EvaluationRequest) -> RuleAnswer {
        let [waits, blocks, fails] = self.knobs.asked;
        let data = format!("note {}", self.serial());
        let words = |reason: &str| RuleWords {
            reason: reason.to_owned(),
            summary: "as it found the cluster".to_owned(),
            data: Some(data.clone()),
            ..RuleWords::default()
        };
        let answer = if self.chance(waits) {
            let again = self.pick((10, 120));
            RuleAnswer::Wait(words("NotYet"), again)
        } else if self.chance(blocks) {
            RuleAnswer::Block(words("Never"))
        } else if self.chance(fails) {
            RuleAnswer::NoVerdict(Reason::EvaluationTimeout, "it took too long".to_owned())
        } else {
            RuleAnswer::Pass(words("Fine"))
        };
        self.tell("rule", || {
            let (rule, phase) = (&request.rule.name, request.phase.name());
            format!(
                "{rule} says {} of {} in phase {phase}",
                answer.word(),
                request.node
            )
        });
        self.answered.push(Answered {
            rule: request.rule.clone(),
            edition: format!("{}/{}", request.rule_uid, request.generation),
            phase: request.phase,
            node_uid: request.node_uid.clone(),
            run: request.run.clone(),
            at: self.now,
            passed: matches!(answer, RuleAnswer::Pass(_)),
            data,
        });
        answer
    }
}
