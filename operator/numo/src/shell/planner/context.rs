//! What every job of the planner works with: what was seen, and the ways out of the process. Nothing here decides, and no job of the
//! planner keeps its own state here.

use crate::shell::{
    client::Connection,
    eval::evaluator::Evaluator,
    events::{Events, Published},
    inbox::Inbox,
    kind::Kind,
    leader::Fence,
    metrics::Metrics,
    notice::Board,
    provider::Provider,
    store::{Reach, Store},
    watch,
    watched::Missing,
};
use jiff::Timestamp;
use numo_api::Reason;
use numo_core::{Decision, Owner, OwnerKind, action::Event, calendar::Calendar, eta};
use std::time::Duration;

/// How long one read or write may take before the pass goes on without it.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What every job of the planner works with.
#[derive(Debug)]
pub struct Context {
    /// The clients, and the API server's time.
    pub connection: Connection,
    /// Everything that was seen.
    pub store: Store,
    /// What was seen and not taken in yet.
    pub inbox: Inbox,
    /// Evaluates rules that are not Jobs.
    pub evaluator: Evaluator,
    /// Metrics and probes.
    pub metrics: Metrics,
    /// Events that are written beside the decisions.
    pub events: Events,
    /// Who makes and deletes machines.
    pub provider: Provider,
    /// What the leader Lease tells the command line.
    pub board: Board,
    /// Whether this process still leads.
    pub fence: Fence,
}

impl Context {
    /// The API server's time.
    pub fn now(&self) -> Timestamp {
        self.connection.clock.now()
    }

    /// Begins to watch a kind in a namespace, or everywhere.
    pub fn watch(&mut self, kind: Kind, scope: &str) {
        if !matches!(kind.watched().missing, Missing::Unneeded) {
            self.store.expect(kind, scope);
        }
        tokio::spawn(watch::watch(
            self.connection.read.clone(),
            kind,
            scope.to_owned(),
            self.inbox.watched(),
        ));
    }

    /// Takes in everything that has been seen by now.
    pub fn take_in(&mut self) -> Reach {
        self.metrics.hear();
        let mut reach = Reach::Nobody;
        while let Some(seen) = self.inbox.take() {
            reach = reach.max(self.store.take_in(seen));
        }
        if let Some(networks) = self.store.take_networks() {
            self.evaluator.see_nodes(networks);
        }
        self.tell_unlisted();
        reach
    }

    /// Has probes and metrics tell what decisions wait for.
    pub fn tell_unlisted(&self) {
        let resources = self.store.unlisted().map(|kind| kind.resource().3);
        self.metrics.awaits(resources.collect(), self.store.seen());
    }

    /// Publishes an event of an owner, if the owner is still there.
    pub fn publish(&self, owner: &Owner, event: Event) {
        if let Some(published) = self.publishable(owner, event) {
            self.events.publish(published);
        }
    }

    /// An event of an owner with the uids that it is published with; none if the owner is gone.
    pub fn publishable(&self, owner: &Owner, event: Event) -> Option<Published> {
        let observed = &self.store.observed;
        let owner_uid = observed.uid_of(owner)?.to_owned();
        let node = event.node.as_ref().and_then(|node| observed.nodes.get(node));
        let node_uid = node.map(|node| node.uid.clone());
        Some(Published {
            api_version: owner.kind.api_version(),
            kind: owner.kind.name(),
            owner: owner.key.clone(),
            owner_uid,
            node_uid,
            pool: None,
            event,
        })
    }

    /// Shows an owner in the metrics, with the reason of its Ready and whether it is Stalled.
    pub fn show(&self, owner: &Owner, decision: &Decision, (ready, stalled): (Option<&str>, bool)) {
        let reason = ready.and_then(Reason::named).unwrap_or(Reason::Progressing);
        self.metrics.show(owner, &decision.report, reason, stalled);
        self.metrics.show_waits(owner, &decision.report, self.now());
        let observed = &self.store.observed;
        let eta = eta::eta(owner, &decision.report, observed, self.now());
        let closes = Calendar::of(owner, observed).closes(self.now());
        let run = observed.runs.get(&owner.key);
        let run = run.filter(|_| owner.kind == OwnerKind::MutexRunConfig);
        self.metrics
            .show_times(owner, (&eta, closes), run.and_then(|run| run.status.run.as_ref()));
    }
}
