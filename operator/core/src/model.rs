//! What would come of it: the decision of an owner carried out on a copy of what was seen, as if the API server took every
//! write and every node came back. The order of turns that comes of it is the core's own, with its budgets, windows and
//! keys. Nothing here is written anywhere.

use crate::{
    action::{Action, Change, JobRequest, NodePatch, PoolPatch},
    decide::decide,
    decision::{Decision, Snapshot},
    key::Key,
    mark, names,
    observed::{
        ApprovalView, ChangeView, ConfigView, EvaluationView, JobEnd, JobView, LeaseView, Map, Observed,
        RuleAnswer, RuleView, RuleWords,
    },
    owner::{MaintenanceGroup, Owner},
    owners, pools,
    report::{ApprovalReport, Point, Report, WaveReport},
    selector,
    time::later,
    turn::lease::LEASE_SECONDS,
    verdict::{Answers, Evidence, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    Entry, MutexApprovalSpec, MutexApprovalStatus, NodeChangeSpec, NodeChangeStatus, Reason, Step,
    marks::{TURN, openshift},
};

/// Rounds without an admission after which nothing more is expected.
const QUIET_ROUNDS: usize = 12;
/// Openings that are waited for, one after the other, before it is taken that none lets a node begin.
const OPENINGS_AWAITED: usize = 16;

/// When nodes that have their turn together would begin, and would be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When they begin.
    pub begins: Timestamp,
    /// When the last of them is done; none where nobody knows how long one takes.
    pub done: Option<Timestamp>,
    /// How many turns, one after the other, that time is made of since the last that is by the clock: each adds to how unsure it is.
    pub turns: u32,
}

/// A copy of what was seen, in which things happen.
#[derive(Clone, Debug)]
pub struct Imagined {
    /// What would be seen.
    pub observed: Observed,
    /// What would be answered.
    pub answers: Answers,
    now: Timestamp,
    made: usize,
    /// What a node takes (seconds), where that is known; without, each node is back at once.
    turn_seconds: Option<i64>,
}

/// The wave of nodes that begin together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveOf {
    /// Which one it is, from 1.
    pub number: usize,
    /// How many there are, the nodes of no wave among them.
    pub of: usize,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Whether it is that of the nodes of no wave.
    pub is_rest: bool,
    /// How many nodes it has, those that are done among them.
    pub nodes: usize,
}

/// Nodes that would begin together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Their names, in the order of their turns.
    pub nodes: Vec<String>,
    /// The wave that they are of, where the owner declares waves.
    pub wave: Option<WaveOf>,
    /// When they would begin and be done. Where nobody knows how long a node takes, of the first batch alone.
    pub times: Option<Times>,
}

/// Who would have their turn after whom.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Batch after batch.
    pub batches: Vec<Batch>,
    /// When the first of them would begin, and what it waits for until then; none is now.
    pub begins: Option<(Timestamp, Why)>,
    /// What a person would have to approve, in that order: it is imagined to be.
    pub approvals: Vec<Point>,
    /// Whether it was broken off before the end.
    pub more: bool,
    /// What is decided at the end: why the nodes that are left have no turn.
    pub last: Report,
}

impl WaveOf {
    fn of(wave: &WaveReport) -> Self {
        Self {
            number: wave.number,
            of: wave.of,
            name: wave.name.clone(),
            is_rest: wave.is_rest,
            nodes: wave.nodes,
        }
    }
}

impl Imagined {
    /// Begins with what was seen.
    pub fn new(observed: Observed, now: Timestamp) -> Self {
        Self {
            observed,
            answers: Answers::default(),
            now,
            made: 0,
            turn_seconds: None,
        }
    }

    /// Has each node be away for so long (seconds).
    pub const fn take(&mut self, seconds: i64) {
        self.turn_seconds = Some(seconds);
    }

    /// What is decided now.
    pub fn decide(&self, owner: &Owner) -> Decision {
        let snapshot = Snapshot {
            now: self.now,
            observed: &self.observed,
            owner,
            asked: None,
        };
        decide(&snapshot, &self.answers)
    }

    /// Lets turns be given until nobody gets one any more, or `goes_on` says after so many batches that this is enough. Each node is back
    /// after its time, or at once. Where hours are closed it goes on when they open. `settle` is told of each decision, and at what time: what
    /// the status says of a Plan is read by its next one.
    pub fn course(
        &mut self,
        owner: &Owner,
        mut goes_on: impl FnMut(usize) -> bool,
        mut settle: impl FnMut(&mut Observed, &Report, Timestamp),
    ) -> Course {
        let mut found = Course::default();
        let mut quiet = 0;
        let mut awaited = 0;
        let mut turns = 0;
        loop {
            if quiet >= QUIET_ROUNDS
                && let Some(waits) = found.last.approval.clone()
                && self.approve(owner, &waits)
            {
                // One that is too old when its wave goes on is given once more.
                if found.approvals.last() != Some(&waits.point) {
                    found.approvals.push(waits.point);
                }
                quiet = 0;
            } else if quiet >= QUIET_ROUNDS {
                let opens = opens_after(&found.last, self.now).filter(|_| awaited < OPENINGS_AWAITED);
                let Some((at, why)) = opens else { break };
                if why.reason.is_of_hours() {
                    turns = 0;
                }
                if found.batches.is_empty() {
                    found.begins = Some((at, why));
                }
                self.now = at;
                awaited += 1;
                quiet = 0;
            }
            let decision = self.decide(owner);
            settle(&mut self.observed, &decision.report, self.now);
            let acted = !decision.actions.is_empty() || !decision.questions.is_empty();
            let nodes = self.carry_out(&decision);
            found.last = decision.report;
            if nodes.is_empty() {
                quiet = if acted { quiet + 1 } else { QUIET_ROUNDS };
                continue;
            }
            (quiet, awaited) = (0, 0);
            turns += 1;
            let times = self.pass_time(found.batches.is_empty(), turns);
            let wave = found.last.wave.as_ref().map(WaveOf::of);
            found.batches.push(Batch { nodes, wave, times });
            if !goes_on(found.batches.len()) {
                found.more = true;
                break;
            }
        }
        found
    }

    /// Lets the time of the nodes go by that have their turn now. Says when they begin and are done, where that is known.
    fn pass_time(&mut self, is_first: bool, turns: u32) -> Option<Times> {
        let begins = self.now;
        let done = self.turn_seconds.map(|seconds| later(begins, seconds));
        self.now = done.unwrap_or(begins);
        (done.is_some() || is_first).then_some(Times { begins, done, turns })
    }

    /// Carries a decision out, and has whoever begins be done. Names those nodes.
    fn carry_out(&mut self, decision: &Decision) -> Vec<String> {
        let mut nodes = Vec::new();
        for question in &decision.questions {
            self.pass(question);
        }
        for planned in &decision.actions {
            if let Action::CreateChange { key, spec } = &planned.action {
                self.apply(&planned.action);
                self.finish(key, &decision.report);
                nodes.push(spec.node_name.clone());
            } else if !begins(&planned.action) {
                self.apply(&planned.action);
            }
        }
        nodes
    }

    /// As if somebody had approved what waits; false if that was imagined at this time before and did not help.
    fn approve(&mut self, owner: &Owner, waits: &ApprovalReport) -> bool {
        let (wave, after_failure) = match &waits.point {
            Point::Begin => (None, None),
            Point::AfterFailure { .. } => (None, Some(true)),
            Point::Wave { number, .. } => (Some(number.to_string()), None),
        };
        let view = ApprovalView {
            name: format!("imagined-{}", waits.digest),
            uid: String::new(),
            created: self.now,
            deleting: false,
            spec: MutexApprovalSpec {
                owner: owner.approved(),
                wave,
                after_failure,
                digest: waits.digest.clone(),
                reason: String::new(),
                approved_by: String::new(),
            },
            generation: 1,
            status: MutexApprovalStatus::default(),
        };
        let before = self.observed.approvals.insert(view.name.clone(), view);
        before.is_none_or(|before| before.created < self.now)
    }

    /// Has a question answered as well as can be: rules pass, pods can go.
    pub fn pass(&mut self, question: &Question) {
        match question {
            Question::Evidence { job, .. } => {
                let evidence = Evidence {
                    exit_code: Some(0),
                    log_tail: None,
                };
                self.answers.evidence.insert(job.clone(), evidence);
            }
            Question::DrainProbe { node } | Question::Evictions { node, .. } => {
                self.answers.drains.insert(node.clone(), None);
            }
            Question::Volumes { node, .. } => {
                self.answers
                    .volumes
                    .insert(node.clone(), Ok(crate::verdict::KeptVolumes::default()));
            }
            Question::Channel { .. } | Question::Fleet(_) => {}
            Question::Evaluate(request) => {
                let words = RuleWords {
                    reason: "Imagined".to_owned(),
                    summary: "taken for passed".to_owned(),
                    ..RuleWords::default()
                };
                let view = EvaluationView {
                    rule: request.rule.clone(),
                    generation: request.generation,
                    first_asked: self.now,
                    asked: self.now,
                    answer: Some((self.now, RuleAnswer::Pass(words))),
                    ..EvaluationView::default()
                };
                self.observed.evaluations.insert(request.key.clone(), view);
            }
        }
    }

    /// As if the API server had taken it.
    pub fn apply(&mut self, action: &Action) {
        self.made += 1;
        match action {
            Action::AddFinalizer { owner, finalizer, .. } => {
                if let Some(all) = self.observed.finalizers_mut(owner) {
                    all.push((*finalizer).to_owned());
                }
            }
            Action::PatchPool(patch) => self.patch_pool(patch),
            Action::PatchNode(patch) => self.patch_node(patch),
            Action::CreateChange { key, spec } => self.create_change(key, spec),
            Action::WriteJournal { key, status, .. } => {
                if let Some(change) = self.observed.changes.get_mut(key) {
                    change.status = (**status).clone();
                }
            }
            Action::DeleteChange { key, .. } => {
                self.observed.changes.remove(key);
            }
            Action::RecordRun { owner, run } => {
                if let Some(view) = self.observed.runs.get_mut(owner) {
                    view.status.run = Some((**run).clone());
                }
            }
            Action::CreateJob(request) => self.create_job(request),
            Action::SetJobTtl { job, seconds, .. } => {
                if let Some(view) = self.observed.jobs.get_mut(job) {
                    view.ttl_seconds = Some(*seconds);
                }
            }
            Action::MarkGate { owner, change, .. } => {
                if let Some(annotations) = self.observed.annotations_mut(owner) {
                    lay(annotations, std::slice::from_ref(change));
                }
            }
            Action::AcquireLease { node, holder, .. } => self.acquire_lease(node, holder),
            Action::ReleaseLease { node, .. } => {
                self.observed.leases.remove(node);
            }
            Action::DeleteMaintenance { name, .. } => {
                let owner = Owner::maintenance(MaintenanceGroup::Medik8s, name.as_str());
                self.observed.maintenances.remove(&owner);
            }
            Action::RemoveFinalizer { .. }
            | Action::CreateMaintenance(_)
            | Action::PatchMachine(_)
            | Action::CreatePlanJob(_)
            | Action::StartPlanJob { .. }
            | Action::DeletePlanJob { .. }
            | Action::Fleet(_)
            | Action::Evict { .. }
            | Action::RenewLease { .. } => {}
        }
    }

    /// uid of what is made next.
    fn uid(&self) -> String {
        format!("imagined-{}", self.made)
    }

    fn create_change(&mut self, key: &Key, spec: &NodeChangeSpec) {
        let change = ChangeView {
            key: key.clone(),
            uid: self.uid(),
            resource_version: "1".to_owned(),
            generation: 1,
            created: self.now,
            deleting: false,
            annotations: Map::from([(TURN.to_owned(), String::new())]),
            spec: spec.clone(),
            status: NodeChangeStatus::default(),
            misread: None,
        };
        self.observed.changes.insert(key.clone(), change);
    }

    fn create_job(&mut self, request: &JobRequest) {
        let rule = self.observed.rules.get(&request.rule);
        let job = JobView {
            edition: rule.map_or_else(String::new, RuleView::edition),
            ended_at: Some(self.now),
            uid: self.uid(),
            created: self.now,
            run: request.run.clone(),
            node: names::node_hash(&request.node),
            rule: request.rule.to_string(),
            deadline_seconds: Some(request.timeout_seconds),
            ended: Some(JobEnd::Complete),
            started: true,
            ..JobView::default()
        };
        self.observed.jobs.insert(request.job.clone(), job);
    }

    fn acquire_lease(&mut self, node: &str, holder: &str) {
        let lease = LeaseView {
            by_numo: true,
            holder: holder.to_owned(),
            renewed: Some(self.now),
            duration_seconds: LEASE_SECONDS,
            transitions: 0,
            uid: self.uid(),
            resource_version: "1".to_owned(),
        };
        self.observed.leases.insert(node.to_owned(), lease);
    }

    fn patch_pool(&mut self, patch: &PoolPatch) {
        let Some(pool) = self.observed.pools.get_mut(&patch.pool) else {
            return;
        };
        if let Some((_, wanted)) = patch.paused {
            pool.paused = wanted;
        }
        if let Some((_, wanted)) = &patch.selector {
            pool.selector = wanted.clone();
        }
        lay(&mut pool.annotations, std::slice::from_ref(&patch.annotation));
        pool.has_annotations = true;
    }

    fn patch_node(&mut self, patch: &NodePatch) {
        let Some(node) = self.observed.nodes.get_mut(&patch.node) else {
            return;
        };
        lay(&mut node.labels, &patch.labels);
        lay(&mut node.annotations, &patch.annotations);
        node.has_annotations |= !node.annotations.is_empty();
        if let Some(wanted) = patch.unschedulable {
            node.unschedulable = wanted;
        }
        if let Some((_, wanted)) = &patch.taints {
            node.taints = wanted.clone();
        }
    }

    /// As if the node had been changed, and its rules had passed.
    pub fn finish(&mut self, change: &Key, report: &Report) {
        let Some(view) = self.observed.changes.get_mut(change) else {
            return;
        };
        view.status.step = Some(Step::Done);
        view.status.attempt = view.status.attempt.max(1);
        let ends = later(self.now, self.turn_seconds.unwrap_or(0));
        // From then on its wave soaks.
        view.status.since = Some(ends.to_string());
        // What the turn took is the forecast of the next ones.
        for (at, step) in [(self.now, Step::Admitted), (ends, Step::Done)] {
            view.status.entries.push(Entry {
                at: at.to_string(),
                step,
                attempt: 1,
                reason: None,
            });
        }
        let (node, owner) = (view.spec.node_name.clone(), view.spec.owner_ref.clone());
        if !owners::imagine_changed(&mut self.observed, &owner, &node, report) {
            return;
        }
        if let Some(node) = self.observed.nodes.get_mut(&node)
            && mark::cordoned_by(node).is_some_and(|mark| mark.owner == owner.uid)
        {
            node.unschedulable = false;
        }
    }

    /// As if this version had been asked for, and the control plane were at it.
    pub fn upgrade_to(&mut self, version: &str) {
        let cluster = self.observed.cluster_version.get_or_insert_default();
        cluster.generation += 1;
        cluster.observed_generation = cluster.generation;
        cluster.desired_update = Some(version.to_owned());
        cluster.has_desired_update = true;
        version.clone_into(&mut cluster.desired);
        cluster.latest = Some(("Completed".to_owned(), version.to_owned()));
        let view = ConfigView {
            version: Some(version.to_owned()),
        };
        for pool in self.observed.pools.values_mut() {
            pool.config = format!("rendered-{}-imagined", pool.name);
            self.observed.configs.insert(pool.config.clone(), view.clone());
        }
        // The control plane has rolled.
        let masters = self.observed.pools.values();
        let masters: Vec<_> = masters
            .filter(|pool| pools::CONTROL_PLANE.contains(&pool.name.as_str()))
            .map(|pool| (pool.selector.clone(), pool.config.clone()))
            .collect();
        for node in self.observed.nodes.values_mut() {
            let mut masters = masters.iter();
            if let Some((_, config)) = masters.find(|one| selector::matches(&one.0, &node.labels)) {
                for key in [openshift::CURRENT_CONFIG, openshift::DESIRED_CONFIG] {
                    node.annotations.insert(key.to_owned(), config.clone());
                }
            }
        }
    }
}

/// When the hours open, or the wave has soaked, that keep nodes of this report waiting, if they do: the first time that is told, and who waits for it.
fn opens_after(report: &Report, now: Timestamp) -> Option<(Timestamp, Why)> {
    let nodes = report.nodes.values().map(|node| &node.why);
    let waits = report.hold.iter().chain(nodes);
    waits
        .filter(|why| why.reason.is_of_hours() || why.reason == Reason::WaitsForWave)
        .filter_map(|why| Some((why.until.filter(|at| *at > now)?, why)))
        .min_by_key(|(at, _)| *at)
        .map(|(at, why)| (at, why.clone()))
}

/// What lets a node go, or takes what runs on it away.
pub const fn begins(action: &Action) -> bool {
    matches!(
        action,
        Action::CreatePlanJob(_) | Action::StartPlanJob { .. } | Action::Evict { .. }
    )
}

fn lay(map: &mut Map, changes: &[Change]) {
    for Change { key, to, .. } in changes {
        match to {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}
