//! Whole rolls of Plans and whole maintenances, write by write: something goes wrong before each single write, and at the
//! end every node is as it should be. The world is the least that they need: Jobs that run and end, pods that go, leases,
//! and the taint that the node controller keeps.

mod maintenances;
mod plans;

use crate::{
    cluster::{Cluster, now},
    planned::key,
};
use jiff::{SignedDuration, Timestamp};
use numo_api::{Directive, DirectiveAction, NodeChangeStatus, NodeMaintenanceStatus, Step, marks};
use numo_core::{
    Owner, OwnerKind, Snapshot,
    action::{Action, Change, NodePatch, Planned},
    decide, invariant,
    observed::{
        ChangeView, EvictionView, JobEnd, JobView, LeaseView, Map, NodeView, PlanJobView, RuleView, Said,
    },
    report::Report,
    verdict::{Answers, Evidence, Question},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// More passes than any of these rolls takes.
const PASSES: usize = 600;

/// What happens before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The operator dies: what it was about to write is not written, what it knew is gone.
    Crash,
    /// The owner is deleted.
    Delete,
    /// The Plan goes to another version.
    NewVersion,
    /// A person skips the nodes that have their turn.
    Skip,
    /// A person deletes every journal.
    ForgetJournals,
    /// The nodes with a Job that runs reboot, and the Jobs fail.
    Reboot,
    /// Somebody takes the finalizer away.
    LoseFinalizer,
    /// A person cordons the nodes that are not.
    Cordon,
    /// A person uncordons the nodes: a cordon of before is taken back, too.
    Uncordon,
    /// A node is deleted.
    NodeGone,
    /// A node is deleted, and made again under its name.
    NodeRemade,
    /// Another takes the lease of a node, once it is free.
    LeaseTaken,
    /// Pods come to the node past the cordon.
    LatePod,
    /// Somebody takes the marks of cordons off the nodes that no person had cordoned before.
    LoseMark,
}

struct World {
    owner: Owner,
    cluster: Cluster,
    now: Timestamp,
    /// Nodes that a person had cordoned before.
    cordoned: BTreeSet<String>,
    /// How often a Job began, by node and hash.
    began: BTreeMap<(String, String), usize>,
    number: usize,
    writes: usize,
    skipped: bool,
    /// A person uncordoned nodes, perhaps in the moment in which a Job began.
    uncordoned: bool,
    /// What was said last.
    said: String,
    /// The nodes as they were, or as they were made again.
    start: BTreeMap<String, NodeView>,
}

impl World {
    fn of(text: &str) -> Self {
        let mut cluster = Cluster::parse(text);
        follow_cordons(&mut cluster);
        let nodes = cluster.observed.nodes.values();
        let cordoned = nodes.filter(|node| node.unschedulable);
        Self {
            cordoned: cordoned.map(|node| node.name.clone()).collect(),
            owner: cluster.owner(),
            start: cluster.observed.nodes.clone().into_iter().collect(),
            cluster,
            now: now(),
            began: BTreeMap::new(),
            number: 0,
            writes: 0,
            skipped: false,
            uncordoned: false,
            said: String::new(),
        }
    }

    fn next(&mut self) -> String {
        self.number += 1;
        self.number.to_string()
    }

    /// Runs until nothing happens any more, with one fault before one write; how many writes there were.
    fn run(&mut self, before: usize, fault: Fault) -> Result<usize, String> {
        let mut quiet = 0;
        for _ in 0..PASSES {
            if self.finalizers().is_none() {
                return Ok(self.writes);
            }
            let snapshot = Snapshot {
                now: self.now,
                observed: &self.cluster.observed,
                owner: &self.owner,
                asked: None,
            };
            let mut decision = decide(&snapshot, &self.cluster.answers);
            let breaches = invariant::lint(&snapshot, &mut decision);
            if !breaches.is_empty() {
                return Err(format!("{breaches:#?}"));
            }
            let acted = self.write(decision.actions, before, fault);
            self.answer(decision.questions);
            self.record(decision.report);
            let turned = self.turn()?;
            self.now += SignedDuration::from_secs(1);
            quiet = if acted || turned { 0 } else { quiet + 1 };
            if quiet > 2 {
                match decision.wake_at {
                    Some(at) if at >= self.now && quiet < 9 => self.now = at,
                    _ if quiet > 4 => return Ok(self.writes),
                    _ => {}
                }
            }
        }
        Err(format!("it never comes to rest:\n{}", self.shown()))
    }

    /// Carries out what was decided, chain by chain as the shell does; true if there was anything.
    fn write(&mut self, actions: Vec<Planned>, before: usize, fault: Fault) -> bool {
        // A lease that is renewed again and again is no news.
        let mut any = actions
            .iter()
            .any(|planned| !matches!(planned.action, Action::RenewLease { .. }));
        let mut broken = BTreeSet::new();
        for planned in actions {
            if broken.contains(&planned.chain) {
                continue;
            }
            self.writes += 1;
            if self.writes == before {
                self.strike(fault);
                any |= fault != Fault::None;
                if fault == Fault::Crash {
                    return true;
                }
            }
            if !self.apply(planned.action) {
                broken.insert(planned.chain);
            }
        }
        any
    }

    /// The finalizers of the owner, and whether it is being deleted; none once it is gone.
    fn finalizers(&mut self) -> Option<(&mut Vec<String>, &mut bool)> {
        let observed = &mut self.cluster.observed;
        if self.owner.kind == OwnerKind::Plan {
            let view = observed.plans.get_mut(&key())?;
            return Some((&mut view.finalizers, &mut view.deleting));
        }
        let view = observed.maintenances.get_mut(&self.owner)?;
        Some((&mut view.finalizers, &mut view.deleting))
    }

    fn answer(&mut self, questions: Vec<Question>) {
        for question in questions {
            match question {
                Question::Evidence { job, .. } => {
                    let known = self.cluster.observed.plan_jobs.get(&job);
                    let failed = known.is_some_and(|job| matches!(job.ended, Some(JobEnd::Failed(..))));
                    let evidence = Evidence {
                        exit_code: Some(if failed { 143 } else { 0 }),
                        log_tail: None,
                    };
                    self.cluster.answers.evidence.insert(job, evidence);
                }
                Question::Evictions { node, .. } => {
                    self.cluster.answers.drains.insert(node, None);
                }
                _ => {}
            }
        }
    }

    /// Writes the status of the owner, as far as a decision reads it.
    fn record(&mut self, report: Report) {
        self.said = format!("{:?}", report.hold);
        let observed = &mut self.cluster.observed;
        if let Some(said) = report.plan
            && let Some(view) = observed.plans.get_mut(&key())
        {
            view.status.applying = Some(said.applying);
            view.status.latest_version = Some(said.version);
            view.status.latest_hash = Some(said.hash);
        }
        if let Some(said) = report.maintenance
            && let Some(view) = observed.maintenances.get_mut(&self.owner)
        {
            let counted = said.pods.as_ref().map(|(pending, _)| pending.len());
            let counted = counted
                .filter(|count| *count > 0)
                .and_then(|count| i64::try_from(count).ok());
            let begins = said.pods.is_none() && said.phase.name() == "Running";
            let known = view.status.eviction_pods.filter(|_| !begins);
            view.status = NodeMaintenanceStatus {
                phase: Some(said.phase.name().to_owned()),
                eviction_pods: known.or(counted),
                last_error: said.error,
                error_on_lease_count: Some(said.lease_errors).filter(|count| *count > 0),
                ..NodeMaintenanceStatus::default()
            };
        }
    }

    fn strike(&mut self, fault: Fault) {
        let Some((finalizers, deleting)) = self.finalizers() else {
            return;
        };
        let was_deleting = *deleting;
        match fault {
            Fault::Delete => *deleting = true,
            // Once it is being deleted, it is gone with its finalizer.
            Fault::LoseFinalizer if !was_deleting => finalizers.clear(),
            _ => {}
        }
        let observed = &mut self.cluster.observed;
        match fault {
            Fault::None | Fault::Delete | Fault::LoseFinalizer => {}
            Fault::Crash => self.cluster.answers = Answers::default(),
            Fault::NewVersion => {
                for view in observed.plans.values_mut() {
                    view.spec.version = Some("v2".to_owned());
                    view.generation += 1;
                }
            }
            Fault::Skip => {
                for change in observed.changes.values_mut().filter(|change| change.in_flight()) {
                    self.skipped = true;
                    change.generation += 1;
                    change.spec.directive = Some(Directive {
                        action: DirectiveAction::Skip,
                        reason: None,
                        by: None,
                    });
                }
            }
            Fault::ForgetJournals => observed.changes.clear(),
            Fault::Reboot => {
                let running = observed.plan_jobs.values_mut();
                for job in running.filter(|job| !job.paused && job.ended.is_none() && !job.prepares) {
                    job.ended = Some(JobEnd::Failed("BackoffLimitExceeded".into(), "it failed".into()));
                    job.ended_at = Some(self.now);
                    if let Some(node) = observed.nodes.get_mut(&job.node) {
                        node.boot_id.push('+');
                    }
                }
            }
            Fault::Cordon => {
                // Once a Job is about to cordon a node, nobody can tell a person's cordon from its.
                let free = |node: &&mut NodeView| {
                    !node.unschedulable && !node.annotations.contains_key(marks::CORDONED_BY)
                };
                for node in observed.nodes.values_mut().filter(free) {
                    node.unschedulable = true;
                    self.cordoned.insert(node.name.clone());
                }
            }
            Fault::Uncordon => {
                self.uncordoned = true;
                for node in observed.nodes.values_mut().filter(|node| node.unschedulable) {
                    node.unschedulable = false;
                    self.cordoned.remove(&node.name);
                }
            }
            Fault::NodeGone | Fault::NodeRemade => {
                let name = "a";
                let Some(mut node) = observed.nodes.remove(name) else {
                    return;
                };
                self.cordoned.remove(name);
                self.start.remove(name);
                // The lease goes with the node that owns it.
                observed.leases.remove(name);
                if fault == Fault::NodeGone {
                    observed.pods.remove(name);
                    return;
                }
                let ours = |key: &String| key.contains("numo") || key.contains("medik8s");
                node.uid.push('+');
                node.labels.retain(|key, _| !ours(key));
                node.annotations.clear();
                node.taints = Value::Null;
                node.unschedulable = false;
                self.start.insert(name.to_owned(), node.clone());
                observed.nodes.insert(name.to_owned(), node);
            }
            Fault::LeaseTaken => {
                for name in observed.nodes.keys() {
                    let other = LeaseView {
                        by_numo: true,
                        holder: "somebody".to_owned(),
                        renewed: Some(self.now),
                        duration_seconds: 60,
                        transitions: 0,
                        uid: "lease-other".to_owned(),
                        resource_version: "1".to_owned(),
                    };
                    observed.leases.entry(name.clone()).or_insert(other);
                }
            }
            Fault::LatePod => {
                for (node, pods) in &mut observed.pods {
                    let Some((_, pod)) = pods.first_key_value() else {
                        continue;
                    };
                    let mut late = pod.clone();
                    late.key.name = format!("late-{node}");
                    late.uid = format!("pod-late-{node}");
                    late.created = self.now;
                    late.deleting = None;
                    pods.insert(late.key.clone(), late);
                }
            }
            Fault::LoseMark => self.lose_marks(),
        }
    }

    /// Takes the marks of cordons off, where anything tells whose the cordon is: the journal, or a Job that has not ended.
    fn lose_marks(&mut self) {
        let observed = &mut self.cluster.observed;
        let flying: Vec<&ChangeView> = observed
            .changes
            .values()
            .filter(|change| change.in_flight())
            .collect();
        for node in observed.nodes.values_mut() {
            let told = flying.iter().any(|change| {
                let mut entries = change.status.entries.iter();
                change.spec.node_name == node.name && entries.any(|entry| entry.step == Step::Cordoned)
            });
            let mut jobs = observed.plan_jobs.values();
            let job = jobs.find(|job| job.node == node.name && !job.prepares);
            let is_over = job.is_some_and(|job| job.ended.is_some());
            let is_told = !node.unschedulable || told || job.is_some();
            if is_told && !is_over && !self.cordoned.contains(&node.name) {
                node.annotations.remove(marks::CORDONED_BY);
            }
        }
    }

    /// What happens without anybody's doing; true if something did.
    fn turn(&mut self) -> Result<bool, String> {
        let observed = &mut self.cluster.observed;
        let shown = |observed: &numo_core::observed::Observed| {
            format!("{:?} {:?} {:?}", observed.plan_jobs, observed.jobs, observed.pods)
        };
        let before = shown(observed);
        observed.plan_jobs.retain(|_, job| job.deleting.is_none());
        let view = observed.plans.get(&key()).cloned();
        let cordons = view
            .as_ref()
            .is_some_and(|view| view.spec.cordon == Some(true) || view.spec.drain.is_some());
        for job in observed.plan_jobs.values_mut() {
            if job.paused || job.ended.is_some() {
                continue;
            }
            if job.runs.is_none() {
                job.runs = Some("upgrade".to_owned());
                let node = observed.nodes.get_mut(&job.node).ok_or("no such node")?;
                let by_numo = view.as_ref().is_some_and(|view| view.spec.prepare.is_some());
                if cordons && !by_numo {
                    node.unschedulable = true;
                }
                if by_numo && !job.prepares && !node.unschedulable && !self.uncordoned {
                    return Err(format!("{} is upgraded and not cordoned", job.node));
                }
            } else {
                job.ended = Some(JobEnd::Complete);
                job.ended_at = Some(self.now);
            }
        }
        observed.jobs.retain(|_, job| job.ttl_seconds.is_none());
        for job in observed.jobs.values_mut() {
            if job.ended.is_none() {
                job.ended = Some(JobEnd::Complete);
                job.ended_at = Some(self.now);
                job.started = true;
            }
        }
        if view.is_some_and(|view| view.deleting && view.finalizers.is_empty()) {
            observed.plans.remove(&key());
            observed.plan_jobs.clear();
        }
        for pods in observed.pods.values_mut() {
            pods.retain(|_, pod| pod.deleting.is_none());
        }
        let changed = before != shown(observed);
        if let Some((finalizers, true)) = self.finalizers().map(|(of, deleting)| (of, *deleting))
            && finalizers.is_empty()
        {
            self.cluster.observed.maintenances.remove(&self.owner);
        }
        follow_cordons(&mut self.cluster);
        Ok(changed)
    }

    /// Carries out one write as the API server would; false if it refuses.
    fn apply(&mut self, action: Action) -> bool {
        let number = self.next();
        let now = self.now;
        let observed = &mut self.cluster.observed;
        match action {
            Action::AddFinalizer { finalizer, .. } => {
                let of = self.finalizers().filter(|(_, deleting)| !**deleting);
                of.map(|(finalizers, _)| finalizers.push(finalizer.to_owned()))
                    .is_some()
            }
            Action::MarkGate { owner, change, .. } => {
                let annotations = observed.annotations_mut(&owner);
                let laid = annotations.map(|all| all.extend(change.to.map(|mark| (change.key, mark))));
                laid.is_some()
            }
            Action::RemoveFinalizer { .. } => {
                if let Some((finalizers, _)) = self.finalizers() {
                    finalizers.clear();
                }
                true
            }
            Action::CreateChange { key, spec } => {
                let is_new = !observed.changes.contains_key(&key);
                let view = ChangeView {
                    key: key.clone(),
                    uid: format!("change-{number}"),
                    resource_version: number,
                    generation: 1,
                    created: now,
                    deleting: false,
                    annotations: numo_core::observed::Map::from([(
                        numo_api::marks::TURN.to_owned(),
                        String::new(),
                    )]),
                    spec: *spec,
                    status: NodeChangeStatus::default(),
                    misread: None,
                };
                observed.changes.entry(key).or_insert(view);
                is_new
            }
            Action::WriteJournal {
                key,
                uid,
                resource_version,
                status,
            } => {
                let change = observed.changes.get_mut(&key);
                let Some(change) =
                    change.filter(|change| change.uid == uid && change.resource_version == resource_version)
                else {
                    return false;
                };
                change.status = *status;
                change.resource_version = number;
                true
            }
            Action::DeleteChange { key, .. } => observed.changes.remove(&key).is_some(),
            Action::CreatePlanJob(request) => {
                let counted = self
                    .began
                    .entry((
                        request.node.clone(),
                        format!("{} {:?}", request.hash, request.parts),
                    ))
                    .or_default();
                *counted += 1;
                let view = PlanJobView {
                    untouched: false,
                    uid: format!("job-{number}"),
                    plan_uid: crate::planned::UID.to_owned(),
                    plan: request.plan.name.clone(),
                    node: request.node.clone(),
                    version: request.version.clone(),
                    hash: request.hash.clone(),
                    prepares: request.parts == numo_core::action::PlanParts::Prepare,
                    created: now,
                    deleting: None,
                    paused: false,
                    ended: None,
                    ended_at: None,
                    runs: None,
                    trouble: None,
                };
                observed.plan_jobs.insert(request.job, view);
                true
            }
            Action::StartPlanJob { job, .. } => {
                let job = observed.plan_jobs.get_mut(&job);
                job.map(|job| job.paused = false).is_some()
            }
            Action::DeletePlanJob { job, uid } => {
                let job = observed.plan_jobs.get_mut(&job).filter(|job| job.uid == uid);
                job.map(|job| job.deleting = Some(now)).is_some()
            }
            Action::PatchNode(patch) => self.patch(&patch),
            Action::AcquireLease {
                node, holder, over, ..
            } => {
                let view = LeaseView {
                    by_numo: true,
                    holder,
                    renewed: Some(now),
                    duration_seconds: 3600,
                    transitions: 0,
                    uid: format!("lease-{number}"),
                    resource_version: number,
                };
                let known = observed.leases.get(&node);
                let found = known.map(|known| (known.uid.clone(), known.resource_version.clone()));
                if found != over {
                    return false;
                }
                observed.leases.insert(node, view);
                true
            }
            Action::RenewLease {
                node,
                holder,
                resource_version,
            } => {
                let lease = observed.leases.get_mut(&node);
                let lease = lease
                    .filter(|lease| lease.resource_version == resource_version && lease.holder == holder);
                let Some(lease) = lease else {
                    return false;
                };
                lease.renewed = Some(now);
                lease.resource_version = number;
                true
            }
            Action::ReleaseLease { node, uid, .. } => {
                let is_it = observed.leases.get(&node).is_some_and(|lease| lease.uid == uid);
                is_it && observed.leases.remove(&node).is_some()
            }
            Action::CreateJob(request) => {
                let rule = observed.rules.get(&request.rule);
                let view = JobView {
                    uid: format!("job-{number}"),
                    created: now,
                    deleting: None,
                    run: request.run.clone(),
                    node: numo_core::names::node_hash(&request.node),
                    rule: request.rule.to_string(),
                    deadline_seconds: Some(request.timeout_seconds),
                    edition: rule.map_or_else(String::new, RuleView::edition),
                    ended: None,
                    ended_at: None,
                    started: false,
                    ttl_seconds: None,
                    wanted_ttl_seconds: None,
                    trouble: None,
                };
                observed.jobs.insert(request.job.clone(), view);
                true
            }
            Action::SetJobTtl { job, seconds, .. } => {
                let job = observed.jobs.get_mut(&job);
                job.map(|job| job.ttl_seconds = Some(seconds)).is_some()
            }
            Action::Evict { node, eviction } => {
                let pod = observed
                    .pods
                    .get_mut(&node)
                    .and_then(|pods| pods.get_mut(&eviction.pod));
                let Some(pod) = pod.filter(|pod| pod.uid == eviction.uid) else {
                    return false;
                };
                pod.deleting = Some(now);
                pod.disrupted = true;
                let accepted = EvictionView {
                    at: now,
                    refusals: 0,
                    said: Said::Accepted,
                    stirred: false,
                };
                observed.evictions.insert(eviction.uid, accepted);
                true
            }
            Action::PatchPool(_)
            | Action::PatchMachine(_)
            | Action::RecordRun { .. }
            | Action::CreateMaintenance(_)
            | Action::DeleteMaintenance { .. }
            | Action::Fleet(_) => panic!("{action:?} is nothing to these owners"),
        }
    }

    fn patch(&mut self, patch: &NodePatch) -> bool {
        let nodes = &mut self.cluster.observed.nodes;
        let Some(node) = nodes.get_mut(&patch.node).filter(|node| node.uid == patch.uid) else {
            return false;
        };
        let holds = |map: &Map, changes: &[Change]| {
            changes
                .iter()
                .all(|change| map.get(&change.key) == change.from.as_ref())
        };
        if !holds(&node.labels, &patch.labels)
            || !holds(&node.annotations, &patch.annotations)
            || patch
                .while_unschedulable
                .is_some_and(|is| is != node.unschedulable)
            || patch
                .taints
                .as_ref()
                .is_some_and(|(from, _)| *from != node.taints)
        {
            return false;
        }
        for (map, changes) in [
            (&mut node.labels, &patch.labels),
            (&mut node.annotations, &patch.annotations),
        ] {
            for change in changes {
                match &change.to {
                    Some(value) => map.insert(change.key.clone(), value.clone()),
                    None => map.remove(&change.key),
                };
            }
        }
        node.unschedulable = patch.unschedulable.unwrap_or(node.unschedulable);
        if let Some((_, taints)) = &patch.taints {
            node.taints = taints.clone();
        }
        true
    }

    /// What a person sees.
    fn shown(&self) -> String {
        let observed = &self.cluster.observed;
        let nodes = observed.nodes.values().map(|node| {
            let ours = |map: &Map| -> Vec<String> {
                let of = map
                    .iter()
                    .filter(|(key, _)| key.contains("skrzypek") || key.contains("plan."));
                of.map(|(key, value)| format!("{key}={value}")).collect()
            };
            format!(
                "{} unschedulable={} {} {:?} {:?}",
                node.name,
                node.unschedulable,
                node.taints,
                ours(&node.labels),
                ours(&node.annotations)
            )
        });
        let changes = observed.changes.values().map(|change| {
            format!(
                "{} {:?} {:?} {:?}",
                change.spec.node_name, change.status.step, change.status.reason, change.status.message
            )
        });
        let jobs = observed
            .plan_jobs
            .iter()
            .map(|(key, job)| format!("{key} {job:?}"));
        let maintenances = observed
            .maintenances
            .values()
            .map(|view| format!("{:?}", view.status));
        let leases = observed
            .leases
            .iter()
            .map(|(node, lease)| format!("lease {node} {}", lease.holder));
        let lines = nodes.chain(changes).chain(jobs).chain(maintenances).chain(leases);
        let lines = lines.chain([self.said.clone()]);
        let lines: Vec<String> = lines.collect();
        lines.join("\n")
    }
}

/// The taint of a cordon follows it, as the node controller has it.
fn follow_cordons(cluster: &mut Cluster) {
    for node in cluster.observed.nodes.values_mut() {
        let mut taints = node.taints.as_array().cloned().unwrap_or_default();
        let is_cordon = |taint: &Value| taint["key"] == marks::UNSCHEDULABLE;
        match (node.unschedulable, taints.iter().any(is_cordon)) {
            (true, false) => taints.push(json!({"key": marks::UNSCHEDULABLE, "effect": "NoSchedule"})),
            (false, true) => taints.retain(|taint| !is_cordon(taint)),
            _ => continue,
        }
        node.taints = if taints.is_empty() {
            Value::Null
        } else {
            Value::Array(taints)
        };
    }
}
