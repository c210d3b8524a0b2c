//! The rounds of one pass: decide, ask, check, carry out, and decide again with what was written and answered, until nothing is left
//! to do. It decides nothing itself and writes no status.

use super::{
    context::{Context, PATIENCE},
    drains::Drains,
    evictions::{DECIDED_FOR, Evictions},
    wakes::Wakes,
    writes::Writes,
};
use crate::{
    frontends::spans::trace_of,
    shell::{channel::Channels, client::Connection, probe, store::Reach},
};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::Client;
use numo_api::Reason;
use numo_core::{
    Decision, Owner, Snapshot,
    action::{Action, Planned},
    decide, invariant,
    observed::Observed,
    report::Why,
    stop,
    verdict::{Answers, Question},
};
use std::collections::BTreeSet;
use tokio::time::Instant;
use tracing::{Instrument, Span};

/// Rounds of one pass: each is at least one write further, so this bounds what one owner may hold up.
const MAX_ROUNDS: usize = 200;

/// Questions that the planner waits for and that are asked at once. Each may try the evictions of a node's pods, some at once too.
const ASKED_AT_ONCE: usize = 4;

/// What rounds carry over to later passes.
#[derive(Debug)]
pub struct Rounds {
    channels: Channels,
    drains: Drains,
    evictions: Evictions,
    writes: Writes,
}

/// How a pass ended.
#[derive(Debug)]
pub struct Ended {
    /// The last decision, with refusals that stand.
    pub decision: Decision,
    /// Whether a write failed.
    pub failed: bool,
}

/// This process leads no more: nothing further may be written.
struct Deposed;

/// The writes of one round.
struct Round {
    decided: Instant,
    /// The stops that were there when it was decided.
    known: BTreeSet<String>,
    evictions: Vec<Planned>,
    others: Vec<Planned>,
}

impl Rounds {
    /// Nothing is under way. Channels of Plans are asked by `channels`.
    pub fn new(channels: Channels) -> Self {
        Self {
            channels,
            drains: Drains::default(),
            evictions: Evictions::default(),
            writes: Writes::default(),
        }
    }

    /// Forgets owners that are gone.
    pub fn keep_only(&mut self, owners: &BTreeSet<Owner>) {
        self.writes.keep_only(owners);
    }

    /// Takes in everything that has been seen by now. Evictions that wait hear of a stop.
    pub fn take_in(&mut self, context: &mut Context) -> Reach {
        let reach = context.take_in();
        self.evictions.note_stops(&context.store.observed);
        reach
    }

    /// Decides and writes until nothing is left to do; none if this process leads no more.
    pub async fn pass(&mut self, context: &mut Context, wakes: &mut Wakes, owner: &Owner) -> Option<Ended> {
        let mut answers = self.drains.recall();
        // Chains in which a write failed: the rest of each waits for the next pass.
        let mut blocked = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            // What it asks may take long, too.
            let decided = Instant::now();
            let decision = decide_and_lint(context, owner, &answers);
            self.ask(context, &decision.questions, &mut answers).await;
            self.drains.remember(&answers);
            let actions = decision.actions.into_iter();
            let due: Vec<Planned> = actions
                .filter(|planned| !blocked.contains(&planned.chain))
                .collect();
            if due.is_empty() && decision.questions.is_empty() {
                break;
            }
            let round = Round::new(&context.store.observed, owner, decided, due);
            let span = log_span(&decision.report.run_id);
            let carried_out = self.carry_out(context, wakes, owner, round, &mut blocked);
            let carried_out = carried_out.instrument(span);
            if let Err(Deposed) = carried_out.await {
                return None;
            }
            wakes.note_change(self.take_in(context));
            let now = context.now();
            wakes.wake_touched(&mut context.store, now);
        }
        let mut decision = decide_and_lint(context, owner, &answers);
        self.writes.report(owner, &mut decision);
        let failed = !blocked.is_empty();
        Some(Ended { decision, failed })
    }

    /// Asks what a decision wants to know. Rules and channels answer later, everything else at once.
    async fn ask(&self, context: &mut Context, questions: &[Question], answers: &mut Answers) {
        let mut at_once = Vec::new();
        for question in questions {
            let now = context.now();
            match question {
                Question::Evaluate(request) => {
                    context.store.ask(request, now);
                    let request = (**request).clone();
                    context.evaluator.ask(request, context.inbox.answered());
                }
                Question::Fleet(question) => {
                    context.store.asks_provider(question, now);
                    let to = context.inbox.answered();
                    context
                        .provider
                        .ask(question.clone(), context.connection.clock.clone(), to);
                }
                Question::Channel { plan, url, latest } => {
                    context.store.asks_channel(plan, url, now);
                    let (plan, url, latest) = (plan.clone(), url.clone(), latest.clone());
                    self.channels.ask(plan, url, latest, context.inbox.answered());
                }
                _ => at_once.push(question),
            }
        }
        let Connection { read, write, .. } = &context.connection;
        let seen = (&context.store.observed, context.now());
        // Each may take its whole time: one after another those of many nodes would be taken for a planner that is stuck.
        answer_all((read, write), seen, at_once, answers, || context.metrics.hear()).await;
    }

    /// Carries the writes of a round out, one after another, until one of them must be decided anew.
    async fn carry_out(
        &mut self,
        context: &mut Context,
        wakes: &mut Wakes,
        owner: &Owner,
        round: Round,
        blocked: &mut BTreeSet<String>,
    ) -> Result<(), Deposed> {
        for planned in round.others {
            if blocked.contains(&planned.chain) {
                continue;
            }
            if !context.fence.holds() {
                return Err(Deposed);
            }
            // A stop that came since this round was decided: what has not been written yet is decided anew, so that
            // nothing new begins and what gives back goes on.
            wakes.note_change(self.take_in(context));
            let is_old = planned.action.disrupts() && round.decided.elapsed() > DECIDED_FOR;
            let standing = stop::standing(&context.store.observed, owner);
            if is_old || !standing.is_subset(&round.known) {
                return Ok(());
            }
            let chain = planned.chain.clone();
            if !self.writes.carry_out(context, wakes, owner, planned).await {
                blocked.insert(chain);
            }
        }
        let is_old = round.decided.elapsed() > DECIDED_FOR;
        if !is_old && !round.evictions.is_empty() && context.fence.holds() {
            let since = (round.known, round.decided);
            self.evictions.begin(context, owner, round.evictions, since);
        }
        Ok(())
    }
}

/// Answers questions that the planner waits for, some beside one another. `heard` is told of each.
async fn answer_all(
    clients: (&Client, &Client),
    seen: (&Observed, Timestamp),
    questions: Vec<&Question>,
    answers: &mut Answers,
    heard: impl Fn(),
) {
    let asked: Vec<_> = questions
        .into_iter()
        .map(|question| answer(clients, seen, question))
        .collect();
    let mut asked = stream::iter(asked).buffer_unordered(ASKED_AT_ONCE);
    while let Some(found) = asked.next().await {
        heard();
        answers.evidence.extend(found.evidence);
        answers.drains.extend(found.drains);
        answers.volumes.extend(found.volumes);
    }
}

/// The answer to a question, or what is taken for it after a while.
async fn answer(clients: (&Client, &Client), seen: (&Observed, Timestamp), question: &Question) -> Answers {
    let mut found = Answers::default();
    let asked = probe::answer(clients, seen, question, &mut found);
    if tokio::time::timeout(PATIENCE, asked).await.is_err() {
        probe::unanswered(question, &mut found);
    }
    found
}

/// What each line about a write has: the run, and the trace that it is part of.
fn log_span(run_id: &str) -> Span {
    if run_id.is_empty() {
        return Span::none();
    }
    tracing::info_span!("run", run = run_id, trace_id = trace_of(run_id))
}

impl Round {
    fn new(observed: &Observed, owner: &Owner, decided: Instant, due: Vec<Planned>) -> Self {
        let is_eviction = |planned: &Planned| matches!(planned.action, Action::Evict { .. });
        let (evictions, others) = due.into_iter().partition(is_eviction);
        Self {
            decided,
            known: stop::standing(observed, owner),
            evictions,
            others,
        }
    }
}

/// Decides, and checks the decision: a breach of an invariant is not carried out, and is told.
fn decide_and_lint(context: &Context, owner: &Owner, answers: &Answers) -> Decision {
    let snapshot = Snapshot {
        now: context.now(),
        observed: &context.store.observed,
        owner,
        asked: None,
    };
    let begun = Instant::now();
    let mut decision = decide(&snapshot, answers);
    let metrics = &context.metrics;
    metrics.decide_seconds.observe(begun.elapsed().as_secs_f64());
    for breach in invariant::lint(&snapshot, &mut decision) {
        tracing::error!(%owner, invariant = breach.invariant, words = breach.message, "invariant breach: not carried out");
        metrics.breaches.inc();
        let why = format!("invariant {}: {}", breach.invariant, breach.message);
        decision.report.hold = Some(Why::new(Reason::InvariantBreach, why));
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::{
        convert::Infallible,
        io::{self, Write},
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };
    use tokio::sync::Barrier;

    /// What is logged.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// An API server that answers once it has been asked for several nodes: whoever asks for one after another waits in vain.
    #[tokio::test]
    async fn drains_of_several_nodes_are_tried_beside_one_another_and_each_is_heard() {
        let together = Arc::new(Barrier::new(ASKED_AT_ONCE));
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let together = together.clone();
            async move {
                together.wait().await;
                let list = br#"{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}"#;
                Ok::<_, Infallible>(http::Response::new(kube::client::Body::from(list.to_vec())))
            }
        });
        let client = Client::new(service, "default");
        let nodes = (0..ASKED_AT_ONCE).map(|node| Question::DrainProbe {
            node: node.to_string(),
        });
        let nodes: Vec<Question> = nodes.collect();
        let (mut answers, heard) = (Answers::default(), AtomicUsize::new(0));
        let hear = || _ = heard.fetch_add(1, Ordering::Relaxed);
        let seen = (&Observed::default(), Timestamp::UNIX_EPOCH);
        answer_all(
            (&client, &client),
            seen,
            nodes.iter().collect(),
            &mut answers,
            hear,
        )
        .await;
        assert_eq!(heard.load(Ordering::Relaxed), ASKED_AT_ONCE);
        assert_eq!(answers.drains.len(), ASKED_AT_ONCE);
        assert!(answers.drains.values().all(Option::is_none), "{answers:?}");
    }

    #[test]
    fn a_line_about_a_write_has_the_ids_of_run_and_trace() {
        let lines = Lines::default();
        let to = lines.clone();
        let log = tracing_subscriber::fmt().json().flatten_event(true);
        let log = log.with_writer(move || to.clone()).finish();
        tracing::subscriber::with_default(log, || {
            log_span("run-1").in_scope(|| tracing::info!(node = "a", "it is written"));
            log_span("").in_scope(|| tracing::info!("of no run"));
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["node"], "a");
        assert_eq!(lines[0]["span"]["run"], "run-1");
        assert_eq!(lines[0]["span"]["trace_id"], trace_of("run-1").as_str());
        assert!(lines[1].get("span").is_none(), "{text}");
    }
}
