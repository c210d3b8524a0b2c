//! The writes of a pass, one after another: each is carried out, counted, and told. A refusal is kept until a write of its chain
//! succeeds or none is due, as people must hear of it. What a write is says `shell/apply/`.

use super::{
    action::{name, reach},
    context::{Context, PATIENCE},
    wakes::Wakes,
};
use crate::shell::{
    apply::{self, ApplyError},
    events::Published,
    notice::Notice,
    provider::Answers,
    repeats::Repeats,
};
use jiff::Timestamp;
use numo_api::{Reason, VerdictRecord, marks};
use numo_core::{
    Decision, Owner,
    action::{Action, Event, EventAction, Planned},
    observed::Observed,
    report::Why,
};
use std::collections::{BTreeMap, BTreeSet};

/// Event: node leases are available again.
const LEASES_AGAIN: &str = "NodeLeasesAvailable";

/// What is known of writes that were not taken.
#[derive(Debug, Default)]
pub struct Writes {
    /// The words of a refusal, by owner and chain, until a write of the chain succeeds or none is due.
    refused: BTreeMap<(Owner, String), String>,
    /// Writes that were refused as if what was read had changed.
    repeats: Repeats,
    /// Whether it was told that there are no node leases.
    told_no_leases: bool,
}

/// One write.
struct Write<'a> {
    owner: &'a Owner,
    chain: &'a str,
    action: &'a Action,
    /// When it was sent.
    at: Timestamp,
}

impl Writes {
    /// Forgets owners that are gone.
    pub fn keep_only(&mut self, owners: &BTreeSet<Owner>) {
        self.refused.retain(|(owner, _), _| owners.contains(owner));
        self.repeats.retain(|owner, _| owners.contains(owner));
    }

    /// Carries out one action; true if it was.
    pub async fn carry_out(
        &mut self,
        context: &mut Context,
        wakes: &mut Wakes,
        owner: &Owner,
        planned: Planned,
    ) -> bool {
        let Planned { action, event, chain } = planned;
        let judged = judged_by(&context.store.observed, &action);
        // The object may be gone by the time the event is written: its uid is taken now.
        let events = event.map_or_else(Vec::new, |event| about(context, owner, &action, event));
        let now = context.now();
        let (client, store) = (&context.connection.write, &mut context.store);
        let result = match &action {
            Action::Fleet(action) => {
                let answers = Answers {
                    clock: context.connection.clock.clone(),
                    to: context.inbox.answered(),
                };
                let result = apply::of_machines(client, store, (&context.provider, answers), action, now);
                tokio::time::timeout(PATIENCE, result).await
            }
            action => tokio::time::timeout(PATIENCE, apply::apply(client, store, action, now)).await,
        };
        let write = Write {
            owner,
            chain: &chain,
            action: &action,
            at: now,
        };
        match result {
            Ok(Ok(())) => {
                wakes.note_change(reach(&action));
                for verdict in &judged {
                    context.metrics.judged(verdict);
                }
                self.note_success(context, &write, events);
                true
            }
            Ok(Err(error)) => {
                self.note_error(context, &write, &error);
                false
            }
            Err(_) => {
                self.note_silence(context, &write);
                false
            }
        }
    }

    fn note_success(&mut self, context: &mut Context, write: &Write<'_>, events: Vec<Published>) {
        let (owner, chain, name) = (write.owner, write.chain, name(write.action));
        tracing::info!(%owner, chain, action = name, "done");
        context.metrics.wrote(name, "ok");
        self.repeats.forget(owner, chain);
        self.refused.remove(&(owner.clone(), chain.to_owned()));
        if let Action::CreateJob(request) = write.action {
            context.store.accept(&request.job);
            context.metrics.begins(&request.rule.to_string(), request.phase);
        }
        for published in events {
            context.events.publish(published);
        }
        self.tell_no_leases(context, owner);
    }

    fn note_silence(&mut self, context: &Context, write: &Write<'_>) {
        let name = name(write.action);
        tracing::warn!(owner = %write.owner, chain = write.chain, action = name, "not answered in time");
        context.metrics.wrote(name, "failed");
        let words = format!("not answered within {} s", PATIENCE.as_secs());
        self.note_failure(context, write, &words);
    }

    fn note_error(&mut self, context: &mut Context, write: &Write<'_>, error: &ApplyError) {
        let (owner, chain, name) = (write.owner, write.chain, name(write.action));
        match error {
            ApplyError::Stale { .. } | ApplyError::Gone { .. } => {
                tracing::info!(%owner, chain, action = name, %error, "seen differently by the API server; deciding again");
                context.metrics.wrote(name, "stale");
                let words = error.to_string();
                if self.repeats.note(owner, chain, write.action, &words, write.at) {
                    let words = format!("{name} is refused again and again: {words}");
                    self.note_refusal(context, write, words);
                }
            }
            ApplyError::Refused { about, code, message } => {
                tracing::warn!(%owner, chain, action = name, about, code, words = message, "refused");
                context.metrics.wrote(name, "refused");
                if let Action::CreateJob(request) = write.action {
                    let (job, message) = (request.job.clone(), message.clone());
                    context.store.refuse(job, *code, message, write.at);
                } else {
                    let words = format!("{about}: {name} is refused ({code}): {message}");
                    self.note_refusal(context, write, words);
                }
            }
            ApplyError::Unreachable { .. } => {
                tracing::warn!(%owner, chain, action = name, %error, "not written");
                context.metrics.wrote(name, "failed");
                if let Action::CreateJob(request) = write.action {
                    let (job, message) = (request.job.clone(), error.to_string());
                    context.store.refuse(job, 0, message, write.at);
                }
                self.note_failure(context, write, &error.to_string());
            }
        }
    }

    /// Notes a write that the API server did not take for no fault of the write: people hear of it if that goes on.
    fn note_failure(&mut self, context: &Context, write: &Write<'_>, words: &str) {
        let name = name(write.action);
        let now = context.now();
        if self.repeats.fails(write.owner, write.chain, name, now) {
            let words = format!("{name} fails again and again: {words}");
            self.note_refusal(context, write, words);
        }
    }

    /// Keeps the words of a refusal for the status, and tells them once.
    fn note_refusal(&mut self, context: &Context, write: &Write<'_>, words: String) {
        let chain = write.chain.to_owned();
        let is_node = context.store.observed.nodes.contains_key(&chain);
        let event = Event {
            node: is_node.then(|| chain.clone()),
            warning: true,
            reason: Reason::WriteRefused.name(),
            action: EventAction::Hold,
            note: words.clone(),
        };
        if self.refused.insert((write.owner.clone(), chain), words.clone()) != Some(words) {
            context.publish(write.owner, event);
        }
    }

    /// Puts refusals that still stand into the report; those of writes that are due no more are forgotten.
    pub fn report(&mut self, owner: &Owner, decision: &mut Decision) {
        let is_due = |of: &Owner, chain: &str| {
            of != owner || decision.actions.iter().any(|planned| planned.chain == chain)
        };
        self.refused.retain(|(of, chain), _| is_due(of, chain));
        self.repeats.retain(is_due);
        for ((of, chain), words) in &self.refused {
            if of == owner {
                let why = Why::new(Reason::WriteRefused, words.clone());
                decision.report.refused(chain, why);
            }
        }
    }

    /// Node leases that cannot be had stop nothing, and are told once; so it is told that they are available again.
    fn tell_no_leases(&mut self, context: &Context, owner: &Owner) {
        let unavailable = context.store.observed.settings.leases_unavailable.clone();
        if unavailable.is_some() == self.told_no_leases {
            return;
        }
        self.told_no_leases = unavailable.is_some();
        context.board.write(Notice {
            leases_unavailable: unavailable.clone(),
            ..context.board.read()
        });
        let event = if let Some(why) = unavailable {
            let reason = Reason::NodeLeaseUnavailable.name();
            tracing::warn!(reason, why, "going on without node leases");
            Event::warning(reason, EventAction::Admit, why)
        } else {
            let note = format!(
                "node leases are available again in namespace {}",
                marks::LEASE_NAMESPACE
            );
            tracing::info!(reason = LEASES_AGAIN, "going on with node leases");
            Event::normal(LEASES_AGAIN, EventAction::Admit, note)
        };
        context.publish(owner, event);
    }
}

/// What is told of a write. What happens to a pool is told of the pool as well: who looks after it need not know the run.
fn about(context: &Context, owner: &Owner, action: &Action, event: Event) -> Vec<Published> {
    let Some(of_owner) = context.publishable(owner, event) else {
        return Vec::new();
    };
    let of_pool = match action {
        Action::PatchPool(patch) => Some(Published {
            pool: Some((patch.pool.clone(), patch.uid.clone())),
            ..of_owner.clone()
        }),
        _ => None,
    };
    std::iter::once(of_owner).chain(of_pool).collect()
}

/// The verdicts that a write adds to a journal.
fn judged_by(observed: &Observed, action: &Action) -> Vec<VerdictRecord> {
    let (known, written) = match action {
        Action::WriteJournal { key, status, .. } => {
            let known = observed.changes.get(key);
            let known = known.map(|change| change.status.verdicts.as_slice());
            (known, &status.verdicts)
        }
        Action::RecordRun { owner, run } => {
            let known = observed.runs.get(owner);
            let known = known.and_then(|view| view.status.run.as_ref());
            (known.map(|run| run.verdicts.as_slice()), &run.verdicts)
        }
        _ => return Vec::new(),
    };
    let known = known.unwrap_or_default();
    let new = written.iter().filter(|verdict| !known.contains(verdict));
    new.cloned().collect()
}
