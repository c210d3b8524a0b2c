//! A decision for a run in the making.

use super::{member::Member, run_view::RunView};
use crate::{
    action::{Action, EvaluationRequest, Event, FORGET_CHAIN, Planned},
    admit::wave_rules::WaveRules,
    decision::Decision,
    observed::NodeView,
    report::NodeReport,
    turn::journal::{Journal, forgotten},
    verdict::{Answers, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, Terms};
use std::sync::Arc;

/// A decision in the making.
#[derive(Debug)]
pub(crate) struct RunDecision<'a> {
    pub view: &'a RunView<'a>,
    pub answers: &'a Answers,
    /// The rules of the waves of its nodes.
    pub wave_rules: WaveRules<'a>,
    pub out: Decision,
    /// Where nodes are, as it is said; the last word counts. Put in order once, at the end.
    pub(super) said: Vec<(String, NodeReport)>,
    /// The pool that was spoken of last: members come pool by pool.
    pub(super) pool: Option<Arc<str>>,
}

impl RunDecision<'_> {
    /// What the journal of a node is to remember of the spec.
    pub fn terms(&self, node: &NodeView) -> Terms {
        let view = self.view;
        view.intent.terms(&node.name, &self.wave_rules, view.observed)
    }

    /// Plans a write.
    pub fn act(&mut self, chain: &str, action: Action, event: Option<Event>) {
        self.out.actions.push(Planned {
            chain: chain.to_owned(),
            action,
            event,
        });
    }

    /// Journals that ended are kept for the last three targets of each node, thirty days at most.
    pub fn forget(&mut self) {
        let view = self.view;
        for action in forgotten(view.changes(), &view.run_id, view.now) {
            self.act(FORGET_CHAIN, action, None);
        }
    }

    /// Says where a node is.
    pub fn report(&mut self, member: &Member<'_>, step: Step, why: Why) {
        let change = member.superseded.or(member.change);
        let name = member.pool.name.as_str();
        let pool = match &self.pool {
            Some(pool) if **pool == *name => pool.clone(),
            _ => self.pool.insert(name.into()).clone(),
        };
        let report = NodeReport {
            pool,
            step,
            why,
            since: change.and_then(|change| change.status.since.clone()),
            change: change.map(|change| change.key.to_string()),
        };
        self.said.push((member.node.name.clone(), report));
    }

    /// The decision.
    pub(super) fn finish(mut self) -> Decision {
        let mut said = self.said.into_iter().collect();
        self.out.report.nodes.append(&mut said);
        self.out
    }

    /// Asks to decide again at `at`.
    pub fn wake(&mut self, at: Timestamp) {
        self.out.wake(at);
    }
}

impl Journal<'_> {
    /// Plans the write, if anything differs.
    pub(super) fn write(self, decision: &mut RunDecision<'_>, event: Option<Event>) {
        decision.out.actions.extend(self.planned(event));
    }
}

/// Has a wasm rule asked, and says so.
pub(super) fn asks(decision: &mut RunDecision<'_>, request: Box<EvaluationRequest>) -> Why {
    let message = format!("rule {} is being evaluated", request.rule);
    decision.out.questions.push(Question::Evaluate(request));
    Why::new(Reason::RuleStarting, message)
}
