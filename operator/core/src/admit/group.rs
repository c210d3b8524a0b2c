//! One wave of an owner with its nodes: how many there are, which are done, and since when.

use super::{
    rows::{Row, Stand},
    wave::{Takes, Wave},
};
use crate::{
    decision::Decision,
    key::Key,
    observed::{ChangeView, IntOrPercent},
    time::{has_come, later},
    turn::journal::{self, Journal},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, conditions::Actor};
use std::cell::OnceCell;

/// One wave with its nodes.
#[derive(Debug, Default)]
pub(super) struct Group<'a> {
    pub(super) name: Option<String>,
    /// The field that has it; empty for the nodes of no wave.
    pub(super) field: String,
    pub(super) is_first: bool,
    pub(super) needs_approval: bool,
    pub(super) rules: Vec<Key>,
    pub(super) soak_seconds: i64,
    pub(super) max_unavailable: Option<IntOrPercent>,
    /// That it lets none of its nodes begin.
    pub(super) closed: Option<Why>,
    pub(super) failure_budget: Option<IntOrPercent>,
    /// How many nodes it has.
    pub(super) nodes: usize,
    pub(super) done: usize,
    /// Those that are not done, in the order of turns.
    pub(super) behind: Vec<&'a str>,
    /// Whether one of those goes on without a person.
    pub(super) goes_on: bool,
    pub(super) last_done: Option<Timestamp>,
    /// A node that is done, and whose journal does not tell since when.
    pub(super) untold: Option<&'a ChangeView>,
    /// Nodes that are done at times that have not come, as the clock was put back.
    pub(super) ahead: Vec<&'a ChangeView>,
    pub(super) last_left_out: Option<Timestamp>,
    /// How many of its nodes may fail, once that is known.
    pub(super) budget: Option<usize>,
    pub(super) failed: Vec<&'a str>,
    /// What the nodes of this wave wait for.
    pub(super) waits: OnceCell<Option<Why>>,
}

impl<'a> Group<'a> {
    pub(super) fn of(wave: &Wave) -> Self {
        Self {
            name: wave.name.clone(),
            field: wave.field.clone(),
            is_first: matches!(wave.takes, Takes::First(_)),
            needs_approval: wave.needs_approval,
            rules: wave.rules.clone(),
            soak_seconds: wave.soak_seconds,
            max_unavailable: wave.max_unavailable,
            closed: wave.closed.clone(),
            failure_budget: wave.failure_budget,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, row: &Row<'a>, now: Timestamp) {
        self.nodes += 1;
        if row.has_failed {
            self.failed.push(row.name);
        }
        match row.stand {
            Stand::Done(at) => {
                self.done += 1;
                if at.is_none()
                    && let Some(change) = row.change.filter(|change| journal::is_done(change))
                {
                    self.untold.get_or_insert(change);
                }
                let is_ahead = at.is_some_and(|at| !has_come(at, now));
                self.ahead.extend(row.change.filter(|_| is_ahead));
                self.last_done = self.last_done.max(at);
            }
            Stand::LeftOut(at) => self.last_left_out = self.last_left_out.max(at),
            Stand::Behind { goes_on } => {
                self.behind.push(row.name);
                self.goes_on |= goes_on;
            }
        }
    }

    /// Has the journals of nodes that are done at times that have not come tell that they are done now: the wave soaks from now on.
    pub(super) fn put_right(&self, out: &mut Decision, now: Timestamp) {
        let soaks = self.soak_seconds > 0 && self.is_over();
        for change in self.ahead.iter().filter(|_| soaks) {
            let mut journal = Journal::open(change, now);
            journal.status.since = Some(now.to_string());
            out.actions.extend(journal.planned(None));
        }
    }

    /// When those of its nodes that are done have soaked; none if none of them changed in this run.
    pub(super) fn soaked_at(&self) -> Option<Timestamp> {
        Some(later(self.last_done?, self.soak_seconds))
    }

    /// A node that keeps it from ever having soaked: nobody knows since when it is done.
    pub(super) fn soaks_untold(&self) -> Option<&'a ChangeView> {
        self.untold.filter(|_| self.soak_seconds > 0 && self.is_over())
    }

    /// Why a wave waits for this one, whose nodes are done.
    pub(super) fn soaks(&self, wave: &str, before: &str, until: Option<Timestamp>) -> Why {
        let field = if self.is_first {
            "soakSeconds".to_owned()
        } else {
            format!("{}.soakSeconds", self.field)
        };
        let seconds = self.soak_seconds;
        let message = format!("{wave} waits for {before}, which is done and soaks for {seconds} s ({field})");
        match (until, self.untold) {
            (Some(at), _) => {
                let why = Why::new(Reason::WaitsForWave, format!("{message}, until {at}"));
                why.until(at).ended_by(Actor::Numo)
            }
            (None, None) => Why::new(Reason::WaitsForWave, message),
            (None, Some(change)) => {
                let message = format!(
                    "{message}: NodeChange {} has no status.since, so nobody knows since when Node {} is done; delete it, and the node counts as soaked",
                    change.key, change.spec.node_name
                );
                Why::new(Reason::WaitsForWave, message).ended_by(Actor::ClusterAdmin)
            }
        }
    }

    /// Since when it is over, once none of its nodes is yet to change. Nothing soaks where no node is done.
    pub(super) fn over_at(&self) -> Option<Timestamp> {
        if self.soaks_untold().is_some() {
            return None;
        }
        self.soaked_at().max(self.last_left_out)
    }

    /// Whether none of its nodes is yet to change.
    pub(super) fn is_over(&self) -> bool {
        self.behind.is_empty()
    }
}
