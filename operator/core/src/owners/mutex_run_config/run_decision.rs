//! A decision for a run in the making.

use super::{member::Member, run_view::RunView};
use crate::{
    action::{Action, EvaluationRequest, Event, FORGET_CHAIN, Planned},
    admit::wave_rules::WaveRules,
    decision::Decision,
    observed::{NodeView, PoolView},
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
    /// Where nodes are, by their places among all nodes; the last word counts.
    pub(super) said: Vec<Option<NodeReport>>,
    /// The pool that was spoken of last: members come pool by pool.
    pub(super) pool: Option<PoolWords>,
}

/// What is said of a pool for thousands of its nodes: made once.
#[derive(Clone, Debug)]
pub(super) struct PoolWords {
    /// Its name.
    name: Arc<str>,
    /// That a node runs its configuration.
    pub runs: Arc<str>,
}

impl<'a> RunDecision<'a> {
    /// Nothing is decided or said yet.
    pub(super) fn new(view: &'a RunView<'a>, answers: &'a Answers, wave_rules: WaveRules<'a>) -> Self {
        Self {
            view,
            answers,
            wave_rules,
            out: Decision::default(),
            said: view.observed.nodes.iter().map(|_| None).collect(),
            pool: None,
        }
    }

    /// What is said of the pool.
    pub(super) fn words_of(&mut self, pool: &PoolView) -> &PoolWords {
        let known = self.pool.take().filter(|known| *known.name == *pool.name);
        self.pool.insert(known.unwrap_or_else(|| PoolWords {
            name: pool.name.as_str().into(),
            runs: format!("it runs {}", pool.config).into(),
        }))
    }

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
        for action in forgotten(view.changes(), (&view.run_id, view.observed), view.now) {
            self.act(FORGET_CHAIN, action, None);
        }
    }

    /// Says where a node is.
    pub fn report(&mut self, member: &Member<'_>, step: Step, why: Why) {
        let change = member.superseded.or(member.change);
        let report = NodeReport {
            pool: self.words_of(member.pool).name.clone(),
            step,
            why,
            since: change.and_then(|change| change.status.since.clone()),
            change: change.map(|change| change.key.text()),
        };
        if let Some(said) = self.said.get_mut(member.place) {
            *said = Some(report);
        }
    }

    /// The decision.
    pub(super) fn finish(mut self) -> Decision {
        // In the order of their names already, so that nothing is sorted, and as many as there are, so that nothing is moved.
        let mut said = Vec::with_capacity(self.view.members.len());
        let names = self.view.observed.nodes.keys().zip(self.said);
        said.extend(names.filter_map(|(name, said)| Some((name.clone(), said?))));
        self.out.report.nodes.append(&mut said.into_iter().collect());
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
