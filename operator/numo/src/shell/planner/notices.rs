//! What is told to people of the owners: what has happened to each by its report and its status, with what `numo explain` says of it, and
//! which nodes are out of service, where their alerts are to be silenced. It is handed on; nobody here waits for who is told. Without a
//! MutexNotifier nothing is worked out.

use super::context::Context;
use crate::{
    frontends::{
        approval,
        notification::Notification,
        occurrences::{Facts, Occurrence, Status, began_at, behind_since, occurrences, succeeded},
        silence::{self, Turns},
        spans::{Told, over},
    },
    shell::{
        notify::{Notifiers, Picture},
        store::Store,
        traces::Traces,
    },
};
use jiff::{SignedDuration, Timestamp};
use numo_core::{
    Decision, Owner, OwnerKind,
    observed::{ChangeView, Observed},
    report::Report,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What `numo explain` says of an owner, as JSON. The store is lent, and given back.
pub type Explain = fn(Store, &Owner, &Decision, Timestamp) -> (Store, Value);

/// What has happened to the owners, and goes on.
#[derive(Debug)]
pub struct Notices {
    told: BTreeMap<Owner, Vec<Arc<Notification>>>,
    /// The notifiers that the last picture had, by uid and generation.
    shown_to: BTreeSet<(String, i64)>,
    /// The nodes out of service that it had.
    turns: Arc<Turns>,
    is_new: bool,
    notifiers: Notifiers,
    traced: Option<Traced>,
    explain: Explain,
    /// The approvals of each owner that were seen to hold.
    approved: BTreeMap<Owner, Given>,
    /// Since when each owner that was seen with nodes to change has had some, or had when it was done.
    behind: BTreeMap<Owner, Timestamp>,
}

/// Which approvals of one run of an owner were seen to hold.
#[derive(Debug, Default)]
struct Given {
    run_id: String,
    /// The last one of each that can be approved, by what it approves.
    of_points: BTreeMap<String, String>,
}

impl Given {
    /// Notes the approvals that hold.
    fn note(&mut self, report: &Report) {
        if self.run_id != report.run_id {
            self.run_id.clone_from(&report.run_id);
            self.of_points.clear();
        }
        let given = report.approved.iter();
        let given = given.map(|one| (one.point.to_string(), format!("{} {}", one.name, one.at)));
        self.of_points.extend(given);
    }

    /// The approval of what waits that was withdrawn; empty if none was.
    fn withdrawn(&self, report: &Report) -> &str {
        let waits = report.approval.as_ref();
        let found = waits.and_then(|waits| self.of_points.get(&waits.point.to_string()));
        found.map_or("", String::as_str)
    }
}

/// Where spans go, if anywhere, and what has been told of each owner.
#[derive(Debug)]
struct Traced {
    to: Traces,
    told: BTreeMap<Owner, Told>,
    /// What ended before is an earlier process's to tell.
    since: Option<Timestamp>,
}

/// How long before this process began to decide something may have ended that no process has told yet.
const UNTOLD: SignedDuration = SignedDuration::from_mins(5);

impl Traced {
    /// Hands on what is over of an owner.
    fn note(&mut self, now: Timestamp, owner: &Owner, facts: &Facts<'_>) {
        let since = *self
            .since
            .get_or_insert_with(|| now.saturating_sub(UNTOLD).unwrap_or(now));
        if facts.changes.is_empty() {
            return;
        }
        let told = self.told.entry(owner.clone()).or_default();
        for spans in over(facts, since, told) {
            self.to.show(spans);
        }
    }
}

impl Notices {
    /// Nothing has happened yet. Spans go to `traces`, if anywhere.
    pub fn new(notifiers: Notifiers, traces: Option<Traces>, explain: Explain) -> Self {
        let traced = traces.map(|to| Traced {
            to,
            told: BTreeMap::new(),
            since: None,
        });
        Self {
            traced,
            told: BTreeMap::new(),
            shown_to: BTreeSet::new(),
            turns: Arc::default(),
            is_new: false,
            notifiers,
            explain,
            approved: BTreeMap::new(),
            behind: BTreeMap::new(),
        }
    }

    /// Forgets owners that are gone.
    pub fn keep_only(&mut self, owners: &BTreeSet<Owner>) {
        let before = self.told.len();
        self.told.retain(|owner, _| owners.contains(owner));
        self.approved.retain(|owner, _| owners.contains(owner));
        self.behind.retain(|owner, _| owners.contains(owner));
        self.is_new |= self.told.len() != before;
        if let Some(traced) = &mut self.traced {
            traced.told.retain(|owner, _| owners.contains(owner));
        }
    }

    /// Notes what has happened to an owner. `is_written`: its status is stored as it was decided, as far as its definition stores it.
    pub fn note(&mut self, context: &mut Context, owner: &Owner, decision: &Decision, is_written: bool) {
        if context.store.notifiers.is_empty() {
            self.told.clear();
            self.approved.clear();
        }
        let Some(facts) = facts(&context.store.observed, owner, decision) else {
            return;
        };
        let behind = behind_since(&facts).map(|since| (owner.clone(), since));
        self.behind.extend(behind);
        let succeeded = succeeded(&facts);
        // Its journals are looked for among those of all owners.
        if succeeded.is_none() && self.traced.is_none() && context.store.notifiers.is_empty() {
            return;
        }
        let changes = journals(&context.store.observed, facts.uid);
        let facts = Facts {
            changes: &changes,
            ..facts
        };
        if let Some(at) = succeeded {
            let begun = began_at(&facts, self.behind.get(owner).copied());
            context.metrics.show_success(owner, (begun, at));
        }
        if let Some(traced) = &mut self.traced {
            traced.note(context.now(), owner, &facts);
        }
        if context.store.notifiers.is_empty() {
            return;
        }
        let now = context.now();
        let uid = facts.uid.to_owned();
        let found = self.occurrences(&context.store.observed, facts, is_written);
        let mut known = self.told.remove(owner).unwrap_or_default();
        let mut all = Vec::with_capacity(found.len());
        let before = known.len();
        let mut explanation = None;
        for occurrence in found {
            let place = known.iter().position(|one| one.occurrence.id == occurrence.id);
            if let Some(place) = place {
                all.push(known.swap_remove(place));
                continue;
            }
            let explain = || self.explained(context, owner, decision, now);
            let explanation = explanation.get_or_insert_with(explain).clone();
            all.push(Arc::new(Notification {
                // A time ahead, by whoever wrote it, must not make all that comes before it old.
                at: occurrence.at.unwrap_or(now).min(now),
                occurrence,
                owner: owner.clone(),
                uid: uid.clone(),
                target: decision.report.target.clone(),
                explanation,
            }));
        }
        self.is_new |= explanation.is_some() || !known.is_empty() || all.len() != before;
        if !all.is_empty() {
            self.told.insert(owner.clone(), all);
        }
    }

    /// What has happened, with what was seen of approvals before.
    fn occurrences(&mut self, observed: &Observed, facts: Facts<'_>, is_written: bool) -> Vec<Occurrence> {
        let report = facts.report;
        let given = self.approved.entry(facts.owner.clone()).or_default();
        given.note(report);
        let stored = observed.owner(facts.owner).and_then(|view| view.approval);
        let approval = approval::since(report, stored, is_written, given.withdrawn(report));
        occurrences(&Facts { approval, ..facts })
    }

    fn explained(&self, context: &mut Context, owner: &Owner, decision: &Decision, now: Timestamp) -> Value {
        let (store, explanation) = (self.explain)(std::mem::take(&mut context.store), owner, decision, now);
        context.store = store;
        explanation
    }

    /// Hands on what is new, or to whom.
    pub fn show(&mut self, context: &Context) {
        let notifiers = &context.store.notifiers;
        let to = notifiers.values().map(|view| (view.uid.clone(), view.generation));
        let to: BTreeSet<(String, i64)> = to.collect();
        let mut all = notifiers.values();
        let turns = if all.any(|view| view.silences().is_some()) {
            silence::turns(&context.store.observed)
        } else {
            Turns::new()
        };
        if !self.is_new && to == self.shown_to && turns == *self.turns {
            return;
        }
        let turns = Arc::new(turns);
        let picture = Picture {
            notifiers: notifiers.values().cloned().collect(),
            notifications: self.told.values().flatten().cloned().collect(),
            turns: turns.clone(),
        };
        // Where there is no room the next pass shows another.
        if self.notifiers.show(picture) {
            self.is_new = false;
            self.shown_to = to;
            self.turns = turns;
        }
    }
}

/// The journals of an owner, and none that a stranger wrote.
fn journals<'a>(observed: &'a Observed, uid: &str) -> Vec<&'a ChangeView> {
    let all = observed.changes.values();
    all.filter(|change| change.spec.owner_ref.uid == uid && !change.deleting && observed.is_trusted(change))
        .collect()
}

/// What is known of an owner beside its journals and approvals; none if it is gone.
fn facts<'a>(observed: &'a Observed, owner: &'a Owner, decision: &'a Decision) -> Option<Facts<'a>> {
    let view = observed.owner(owner)?;
    let status = match owner.kind {
        OwnerKind::MutexRunConfig => {
            let status = &observed.runs.get(&owner.key)?.status;
            Status::Run(&status.conditions, status.run.as_ref())
        }
        OwnerKind::Plan => Status::Plan(&observed.plans.get(&owner.key)?.status),
        OwnerKind::NodeMaintenance(_) => Status::Maintenance(&observed.maintenances.get(owner)?.status),
        OwnerKind::NodeVersion => Status::Version(&observed.fleet.versions.get(&owner.key.name)?.status),
    };
    Some(Facts {
        owner,
        uid: view.uid,
        report: &decision.report,
        status,
        approval: None,
        changes: &[],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::Reason;
    use numo_core::report::{ApprovalReport, Approved, Point, Why};

    #[test]
    fn the_approval_that_was_withdrawn_is_the_last_that_held_in_this_run() {
        let approved = |name: &str| Approved {
            point: Point::Begin,
            name: name.to_owned(),
            by: "ada".to_owned(),
            reason: "it is tested".to_owned(),
            at: Timestamp::UNIX_EPOCH,
        };
        let report = |run: &str, approved: Vec<Approved>, waits: bool| Report {
            run_id: run.to_owned(),
            approved,
            approval: waits.then(|| ApprovalReport {
                point: Point::Begin,
                digest: "d".to_owned(),
                why: Why::new(Reason::WaitsForApproval, "it waits"),
            }),
            ..Report::default()
        };
        let mut given = Given::default();
        let mut withdrawn = |report: &Report| {
            given.note(report);
            given.withdrawn(report).to_owned()
        };
        let waits = report("run", Vec::new(), true);
        assert_eq!(withdrawn(&waits), "", "nobody has approved it yet");
        assert_eq!(withdrawn(&report("run", vec![approved("a")], false)), "");
        assert_eq!(withdrawn(&waits), "a 1970-01-01T00:00:00Z");
        assert_eq!(withdrawn(&waits), "a 1970-01-01T00:00:00Z", "it is told once");
        withdrawn(&report("run", vec![approved("b")], false));
        assert_eq!(withdrawn(&waits), "b 1970-01-01T00:00:00Z");
        assert_eq!(withdrawn(&report("next", Vec::new(), true)), "");
    }
}
