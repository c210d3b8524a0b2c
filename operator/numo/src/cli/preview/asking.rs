//! Asks rules as the operator does. Their answers count for this preview alone.

use super::outlook::RuleSaid;
use crate::{
    frontends,
    shell::{
        client::Connection,
        eval::evaluator::{Evaluator, EvaluatorOptions},
        metrics::Metrics,
        probe, project,
        store::{Seen, Store},
    },
};
use numo_core::{
    action::EvaluationRequest,
    observed::{Key, RuleAnswer, Validity},
};
use std::{collections::BTreeSet, time::Duration};
use tokio::sync::mpsc;

/// How long a rule may take to be looked at, or to answer: a component may have to be compiled.
const PATIENCE: Duration = Duration::from_mins(2);

/// Rules that are asked, as this preview asks them; their answers come as the operator's do.
pub(super) struct Asking {
    pub(super) asked: Evaluator,
    pub(super) sender: mpsc::UnboundedSender<Seen>,
    pub(super) seen: mpsc::UnboundedReceiver<Seen>,
}

impl Asking {
    /// Has every rule judged that an owner may ask: a component is fetched and compiled, a Job is tried by dry run. What the
    /// operator has judged stays its judgement.
    pub(super) async fn begin(connection: &Connection, store: &mut Store, on_loopback: bool) -> Self {
        let (sender, mut seen) = mpsc::unbounded_channel();
        let mut options = EvaluatorOptions::default();
        options.artifacts.reach_loopback = on_loopback;
        let asked = Evaluator::new(connection.clone(), options, Metrics::new());
        asked.select_workloads(&store.observed.runs);
        let unjudged = store.unjudged();
        let is_unjudged: BTreeSet<Key> = unjudged.iter().map(|rule| project::key(&rule.metadata)).collect();
        for rule in unjudged
            .iter()
            .filter(|rule| !frontends::mutex_rule::is_evaluated(rule))
        {
            let validity = probe::judge(&connection.write, rule).await;
            if validity != Validity::Unknown {
                let edition = project::edition(&rule.metadata);
                store.judge(&project::key(&rule.metadata), edition, validity);
            }
        }
        let all = store.rules().map(|(_, rule)| rule);
        let mut looked_at = 0;
        for rule in all.filter(|rule| frontends::mutex_rule::is_evaluated(rule)) {
            asked.examine(std::sync::Arc::new(rule.clone()), sender.clone());
            looked_at += 1;
        }
        while looked_at > 0 {
            let Ok(Some(one)) = tokio::time::timeout(PATIENCE, seen.recv()).await else {
                break;
            };
            if matches!(&one, Seen::Examined(rule, ..) if is_unjudged.contains(rule)) {
                store.see(one);
            }
            looked_at -= 1;
        }
        Self { asked, sender, seen }
    }

    pub(super) async fn ask(&mut self, request: &EvaluationRequest) -> RuleSaid {
        self.asked.ask(request.clone(), self.sender.clone());
        let answer = loop {
            match tokio::time::timeout(PATIENCE, self.seen.recv()).await {
                Ok(Some(Seen::Evaluated(key, _, answer))) if key == request.key => break Some(answer),
                Ok(Some(_)) => {}
                _ => break None,
            }
        };
        let (verdict, message) = match answer {
            Some(RuleAnswer::Pass(words)) => ("pass", words.shown()),
            Some(RuleAnswer::Wait(words, seconds)) => (
                "wait",
                format!("{}; evaluated again after {seconds} s", words.shown()),
            ),
            Some(RuleAnswer::Block(words)) => ("block", words.shown()),
            Some(RuleAnswer::NoVerdict(reason, message)) => ("error", format!("{reason}: {message}")),
            None => ("error", "it did not answer in time".to_owned()),
        };
        RuleSaid {
            rule: request.rule.to_string(),
            phase: request.phase.name(),
            node: request.node.clone(),
            verdict,
            message,
        }
    }
}
