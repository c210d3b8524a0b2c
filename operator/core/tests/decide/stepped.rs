//! Whole rolls of Plans, write by write: something goes wrong before each single write, and at the end every node is as it
//! should be. The world is the least that a Plan needs: Jobs that run and end, pods that go, leases.

use crate::{
    cluster::{Cluster, now},
    planned::key,
};
use jiff::{SignedDuration, Timestamp};
use numo_api::{Directive, DirectiveAction, NodeChangeStatus, marks};
use numo_core::{
    Owner, Snapshot,
    action::{Action, Change, NodePatch, Planned},
    decide, invariant,
    observed::{ChangeView, JobEnd, JobView, LeaseView, Map, PlanJobView},
    plan,
    verdict::{Evidence, Question},
};
use std::collections::{BTreeMap, BTreeSet};

/// More passes than any of these rolls takes.
const PASSES: usize = 600;

/// What happens before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The operator dies: what it was about to write is not written, what it knew is gone.
    Crash,
    /// The Plan is deleted.
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
}

struct World {
    cluster: Cluster,
    now: Timestamp,
    /// Nodes that a person had cordoned before.
    cordoned: BTreeSet<String>,
    /// How often a Job began, by node and hash.
    began: BTreeMap<(String, String), usize>,
    number: usize,
    writes: usize,
    skipped: bool,
}

impl World {
    fn of(text: &str) -> Self {
        let cluster = Cluster::parse(text);
        let nodes = cluster.observed.nodes.values();
        let cordoned = nodes.filter(|node| node.unschedulable);
        Self {
            cordoned: cordoned.map(|node| node.name.clone()).collect(),
            cluster,
            now: now(),
            began: BTreeMap::new(),
            number: 0,
            writes: 0,
            skipped: false,
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
            if !self.cluster.observed.plans.contains_key(&key()) {
                return Ok(self.writes);
            }
            let owner = Owner::plan(key());
            let snapshot = Snapshot {
                now: self.now,
                observed: &self.cluster.observed,
                owner: &owner,
            };
            let mut decision = decide(&snapshot, &self.cluster.answers);
            let breaches = invariant::lint(&snapshot, &mut decision);
            if !breaches.is_empty() {
                return Err(format!("{breaches:#?}"));
            }
            let acted = self.write(decision.actions, before, fault);
            for question in decision.questions {
                if let Question::Evidence { job, .. } = question {
                    let failed = self
                        .cluster
                        .observed
                        .plan_jobs
                        .get(&job)
                        .is_some_and(|job| matches!(job.ended, Some(JobEnd::Failed(..))));
                    let evidence = Evidence {
                        exit_code: Some(if failed { 143 } else { 0 }),
                        log_tail: None,
                    };
                    self.cluster.answers.evidence.insert(job, evidence);
                }
            }
            if let Some(said) = decision.report.plan
                && let Some(view) = self.cluster.observed.plans.get_mut(&key())
            {
                view.status.applying = Some(said.applying);
                view.status.latest_version = Some(said.version);
                view.status.latest_hash = Some(said.hash);
            }
            let turned = self.turn()?;
            self.now += SignedDuration::from_secs(1);
            quiet = if acted || turned { 0 } else { quiet + 1 };
            if quiet > 2 {
                match decision.wake_at {
                    Some(at) if at > self.now && quiet < 6 => self.now = at,
                    _ if quiet > 4 => return Ok(self.writes),
                    _ => {}
                }
            }
        }
        Err(format!("it never comes to rest:\n{}", self.shown()))
    }

    /// Carries out what was decided, chain by chain as the shell does; true if there was anything.
    fn write(&mut self, actions: Vec<Planned>, before: usize, fault: Fault) -> bool {
        let any = !actions.is_empty();
        let mut broken = BTreeSet::new();
        for planned in actions {
            if broken.contains(&planned.chain) {
                continue;
            }
            self.writes += 1;
            if self.writes == before {
                self.strike(fault);
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

    fn strike(&mut self, fault: Fault) {
        let observed = &mut self.cluster.observed;
        let Some(view) = observed.plans.get_mut(&key()) else {
            return;
        };
        match fault {
            Fault::None => {}
            Fault::Crash => self.cluster.answers = numo_core::verdict::Answers::default(),
            Fault::Delete => view.deleting = true,
            Fault::NewVersion => {
                view.spec.version = Some("v2".to_owned());
                view.generation += 1;
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
            Fault::LoseFinalizer => view.finalizers.clear(),
        }
    }

    /// What happens without anybody's doing; true if something did.
    fn turn(&mut self) -> Result<bool, String> {
        let observed = &mut self.cluster.observed;
        let before = format!("{:?} {:?}", observed.plan_jobs, observed.jobs);
        observed.plan_jobs.retain(|_, job| !job.deleting);
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
                if by_numo && !job.prepares && !node.unschedulable {
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
                job.started = true;
            }
        }
        if view.is_some_and(|view| view.deleting && view.finalizers.is_empty()) {
            observed.plans.remove(&key());
            observed.plan_jobs.clear();
        }
        Ok(before != format!("{:?} {:?}", observed.plan_jobs, observed.jobs))
    }

    /// Carries out one write as the API server would; false if it refuses.
    fn apply(&mut self, action: Action) -> bool {
        let number = self.next();
        let now = self.now;
        let observed = &mut self.cluster.observed;
        match action {
            Action::AddFinalizer { finalizer, .. } => {
                let view = observed.plans.get_mut(&key());
                view.is_some_and(|view| {
                    view.finalizers.push(finalizer.to_owned());
                    !view.deleting
                })
            }
            Action::RemoveFinalizer { .. } => {
                if let Some(view) = observed.plans.get_mut(&key()) {
                    view.finalizers.clear();
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
                    spec: *spec,
                    status: NodeChangeStatus::default(),
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
                    uid: format!("job-{number}"),
                    plan_uid: crate::planned::UID.to_owned(),
                    plan: request.plan.name.clone(),
                    node: request.node.clone(),
                    version: request.version.clone(),
                    hash: request.hash.clone(),
                    prepares: request.parts == numo_core::action::PlanParts::Prepare,
                    created: now,
                    deleting: false,
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
                job.map(|job| job.deleting = true).is_some()
            }
            Action::PatchNode(patch) => self.patch(&patch),
            Action::AcquireLease { node, holder, .. } => {
                let view = LeaseView {
                    holder,
                    renewed: Some(now),
                    duration_seconds: 3600,
                    transitions: 0,
                    uid: format!("lease-{number}"),
                    resource_version: number,
                };
                let is_free = !observed.leases.contains_key(&node);
                observed.leases.entry(node).or_insert(view);
                is_free
            }
            Action::RenewLease { node, .. } => {
                let lease = observed.leases.get_mut(&node);
                lease.map(|lease| lease.renewed = Some(now)).is_some()
            }
            Action::ReleaseLease { node, .. } => observed.leases.remove(&node).is_some(),
            Action::CreateJob(request) => {
                let view = JobView {
                    uid: format!("job-{number}"),
                    created: now,
                    deleting: false,
                    run: request.run.clone(),
                    ended: None,
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
                let pods = observed.pods.get_mut(&node);
                pods.is_some_and(|pods| pods.remove(&eviction.pod).is_some())
            }
            Action::PatchPool(_)
            | Action::PatchMachine(_)
            | Action::RecordRun { .. }
            | Action::MarkGate { .. } => panic!("{action:?} is nothing to these Plans"),
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
            || (patch.must_be_schedulable && node.unschedulable)
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
                "{} unschedulable={} {:?} {:?}",
                node.name,
                node.unschedulable,
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
        let lines: Vec<String> = nodes.chain(changes).chain(jobs).collect();
        lines.join("\n")
    }

    /// Whether everything is as it should be at the end.
    fn judge(&self, fault: Fault) -> Result<(), String> {
        let observed = &self.cluster.observed;
        let fail = |what: &str| Err(format!("{what}\n{}", self.shown()));
        for node in observed.nodes.values() {
            if node.annotations.contains_key(marks::CORDONED_BY)
                || node.annotations.contains_key(marks::SHIELDED_BY)
            {
                return fail("a mark is left");
            }
            if node.unschedulable != self.cordoned.contains(&node.name) {
                return fail("a cordon is not as it was");
            }
        }
        if !observed.leases.is_empty() {
            return fail("a lease is left");
        }
        let Some(view) = observed.plans.get(&key()) else {
            return Ok(());
        };
        if fault == Fault::Delete {
            return fail("the Plan is not gone");
        }
        if !view.finalizers.is_empty() {
            return fail("the finalizer is left");
        }
        let hash = view.status.latest_hash.clone().unwrap_or_default();
        let done = |labels: &Map| labels.get(&plan::label("p")) == Some(&hash);
        if !self.skipped && !observed.nodes.values().all(|node| done(&node.labels)) {
            return fail("a node is not done");
        }
        let twice = self.began.iter().find(|(_, times)| **times > 1);
        if let Some((of, _)) = twice
            && fault != Fault::Reboot
        {
            return fail(&format!("{of:?} was begun twice"));
        }
        Ok(())
    }
}

const BINDING: &str = r#"{"ownerSelector":{"kind":"Plan"},"rules":[{"name":"r"}]"#;

/// Rolls of each kind, as text.
fn rolls() -> Vec<(&'static str, String)> {
    let three = "node a worker v0\n node b worker v0 cordoned\n node c worker v0";
    let rule = "rule r Pre,PreRelease,BeforeUncordon,Post";
    vec![
        ("its own cordon", format!("{three}\n plan concurrency:2 cordon")),
        ("in service", format!("{three}\n plan concurrency:2")),
        (
            "with rules",
            format!("{three}\n {rule}\n plan concurrency:2 cordon\n binding x spec {BINDING}}}"),
        ),
        (
            "drained by numo",
            format!(
                "{three}\n pods b\n pods c\n pod web on a of:ReplicaSet/web
                 plan concurrency:2 drain spec {{\"prepare\":{{\"image\":\"i\"}}}}
                 binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\"}}"
            ),
        ),
        (
            "with a soak and a delay",
            format!(
                "{three}\n {rule}\n plan concurrency:2 cordon spec {{\"postCompleteDelay\":\"30s\"}}
                 binding x spec {BINDING},\"soakSeconds\":60}}"
            ),
        ),
        (
            "servers",
            "node a master v0\n node b master v0\n node c master v0\n plan concurrency:3 cordon".to_owned(),
        ),
    ]
}

#[test]
fn whatever_happens_before_any_write_every_node_is_given_back() {
    for (name, text) in rolls() {
        let mut plain = World::of(&text);
        let writes = plain
            .run(0, Fault::None)
            .and_then(|writes| plain.judge(Fault::None).map(|()| writes));
        let writes = writes.unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert!(writes > 15, "{name}: {writes} writes");
        for fault in [
            Fault::Crash,
            Fault::Delete,
            Fault::NewVersion,
            Fault::Skip,
            Fault::ForgetJournals,
            Fault::Reboot,
            Fault::LoseFinalizer,
        ] {
            for before in 1..=writes {
                let mut world = World::of(&text);
                let end = world.run(before, fault).and_then(|_| world.judge(fault));
                assert!(
                    end.is_ok(),
                    "{name}: {fault:?} before write {before} of {writes}: {}",
                    end.err().unwrap_or_default()
                );
            }
        }
    }
}
