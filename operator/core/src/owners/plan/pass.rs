//! One decision for a Plan in the making.

use super::{intent::Intent, resolve::Resolved};
use crate::{
    action::{Action, Event, Planned},
    admit::{approval::Approvals, wave_rules::WaveRules, waves::Waves},
    decision::Decision,
    finalizer,
    key::Key,
    observed::{ChangeView, NodeView, Observed, PlanJobView, PlanView},
    owner::Owner,
    report::NodeReport,
    rules, selector,
    verdict::Answers,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    Step,
    marks::{self, openshift},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// One decision in the making.
pub(crate) struct Pass<'a> {
    pub(super) now: Timestamp,
    pub(super) observed: &'a Observed,
    pub(super) view: &'a PlanView,
    pub(super) owner: &'a Owner,
    /// The node that a person asks about.
    pub(super) asked: Option<&'a str>,
    pub(super) answers: &'a Answers,
    pub(super) intent: Intent<'a>,
    pub(super) resolved: Resolved,
    /// The hash; empty while it is not known.
    pub(super) hash: String,
    pub(super) run_id: String,
    /// Label of the nodes that are done.
    pub(super) label: String,
    /// Why nothing begins any more, and what is held is given back.
    pub(super) leaving: Option<Why>,
    /// The Jobs of this Plan by node and hash; those that only prepare apart.
    pub(super) jobs: BTreeMap<(&'a str, &'a str, bool), (&'a Key, &'a PlanJobView)>,
    /// Host names of the nodes that are being upgraded, by node.
    pub(super) applying: BTreeMap<&'a str, String>,
    /// It waits for Plans that wait for it.
    pub(super) in_cycle: bool,
    /// Its Jobs may not be seen, and it is to go: turns end without them.
    pub(super) blind: bool,
    /// Ended Jobs of nodes that have gone since, and were made again under the same names.
    pub(super) stale: Vec<(&'a Key, &'a PlanJobView)>,
    /// Its journals that are in flight, and the others.
    pub(super) flying: Vec<&'a ChangeView>,
    pub(super) over: Vec<&'a ChangeView>,
    /// The nodes that have their turn.
    pub(super) in_flight: BTreeSet<&'a str>,
    /// Why no node is begun at all.
    pub(super) hold: Option<Why>,
    /// Which nodes go before others.
    pub(super) waves: Waves<'a>,
    /// The rules of the waves of its nodes.
    pub(super) wave_rules: WaveRules<'a>,
    pub(super) approvals: Approvals,
    /// Something is yet to be given back.
    pub(super) kept: bool,
    pub(super) out: Decision,
    pub(super) pool: Arc<str>,
}

impl<'a> Pass<'a> {
    /// The Jobs on a node, those that only prepare among them.
    pub(super) fn jobs_on<'s>(
        &'s self,
        node: &'s str,
    ) -> impl Iterator<Item = (&'a Key, &'a PlanJobView)> + 's {
        self.jobs
            .range((node, "", false)..)
            .take_while(move |((of, ..), _)| *of == node)
            .map(|(_, job)| *job)
    }
}

impl Pass<'_> {
    /// Deletes a Job, unless it is on its way out.
    pub(super) fn delete_job(&mut self, node: &NodeView, job: &Key, view: &PlanJobView) {
        if view.deleting.is_some() {
            return;
        }
        let action = Action::DeletePlanJob {
            job: job.clone(),
            uid: view.uid.clone(),
        };
        self.act(&node.name, action, None);
    }

    /// What is said of a Job that is being deleted, or is about to be.
    pub(super) fn being_deleted(&mut self, job: &PlanJobView, what: String) -> Why {
        let (why, again) = rules::being_deleted(what, job.deleting.unwrap_or(self.now), self.now);
        if let Some(at) = again {
            self.out.wake(at);
        }
        why
    }

    /// Deletes the journal of a turn that is to begin anew.
    pub(super) fn forget(&mut self, node: &NodeView, change: &ChangeView) {
        let action = Action::DeleteChange {
            key: change.key.clone(),
            uid: change.uid.clone(),
            resource_version: change.resource_version.clone(),
        };
        self.act(&node.name, action, None);
    }

    pub(super) fn act(&mut self, chain: &str, action: Action, event: Option<Event>) {
        self.out.actions.push(Planned {
            chain: chain.to_owned(),
            action,
            event,
        });
    }

    /// Says where a node is.
    pub(super) fn say(&mut self, node: &NodeView, step: Step, why: Why, change: Option<&ChangeView>) {
        let report = NodeReport {
            pool: self.pool.clone(),
            step,
            why,
            since: change.and_then(|change| change.status.since.clone()),
            change: change.map(|change| change.key.to_string()),
        };
        self.out.report.nodes.insert(node.name.clone(), report);
    }

    /// Whether the Plan may have Jobs at all.
    pub(super) fn is_ready(&self) -> bool {
        self.intent.invalid.is_none()
            && self.intent.of_secrets.is_none()
            && !self.resolved.version.is_empty()
            && !self.hash.is_empty()
    }

    /// Puts our finalizer on the Plan, once a pass.
    pub(super) fn add_finalizer(&mut self) {
        finalizer::add(&mut self.out, (self.owner, self.view.into()), "owner");
    }

    pub(super) fn has_finalizer(&self) -> bool {
        finalizer::is_on(self.owner, self.view.into())
    }

    /// Whether the Plan selects the node.
    pub(super) fn selects(&self, node: &NodeView) -> bool {
        !self.view.selector.is_null()
            && !node.label(openshift::HOSTNAME).is_empty()
            && node.label(&self.label) != marks::PLAN_DISABLED
            && selector::matches(&self.view.selector, &node.labels)
    }

    /// Whether the Plan selects the node, and it is not at the hash.
    pub(super) fn is_behind(&self, node: &NodeView) -> bool {
        self.selects(node) && (self.hash.is_empty() || node.label(&self.label) != self.hash)
    }
}
