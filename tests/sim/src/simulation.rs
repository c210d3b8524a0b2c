//! The loop: see, decide, check, write, be interrupted, and go on. One operator, one virtual clock.

use crate::{
    judge::{self, Judge},
    setup::{Faults, Setup},
    story::{Failure, Story},
    watch::View,
    words,
    world::{Object, World, seconds},
};
use numo_api::{Reason, RunStatus, Step, conditions::Who, marks};
use numo_core::{
    Decision, Owner, Snapshot,
    action::{Action, Planned},
    decide, invariant,
    observed::{ChangeView, JobEnd, Key, Observed, Refusal},
    report::{Report, RunPhase, Why},
    verdict::{Answers, Evidence, Question},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::collections::BTreeMap;

/// Decisions that may follow each other without any time going by; more is a loop that feeds itself.
const MAX_PASSES_AT_ONCE: usize = 400;
/// A cluster in which nothing was written for so long (seconds) is at rest: longer than any deadline.
const REST_SECONDS: i64 = 10_000;
/// Rest must come in so many seconds once faults and people have stopped.
const MAX_CALM_SECONDS: i64 = 6 * 24 * 3600;
/// And in so many decisions for each node.
const MAX_CALM_PASSES_PER_NODE: usize = 1500;

/// A simulation under way.
#[derive(Debug)]
pub struct Simulation {
    seed: u64,
    world: World,
    view: View,
    answers: BTreeMap<Key, Answers>,
    wake: BTreeMap<Key, i64>,
    reports: BTreeMap<Key, Report>,
    judge: Judge,
    faults: Faults,
    storm: i64,
    people: bool,
    rng: SmallRng,
    /// Writes that a replaced leader has yet to send, with the time they come at.
    late: Vec<(i64, Key, Planned)>,
    down_until: i64,
    listed: bool,
    dirty: bool,
    story: Story,
}

/// Whether the operator wrote, or learned something that it asked for.
struct Progress {
    wrote: bool,
    answered: bool,
}

impl Simulation {
    /// Begins.
    pub fn new(seed: u64, setup: Setup, tell: bool) -> Self {
        let Setup {
            mut world,
            faults,
            storm,
            people,
        } = setup;
        world.story = tell.then(Story::default);
        let view = View::relist(&mut world);
        Self {
            seed,
            world,
            view,
            answers: BTreeMap::new(),
            wake: BTreeMap::new(),
            reports: BTreeMap::new(),
            judge: Judge::default(),
            faults,
            storm,
            people,
            rng: SmallRng::seed_from_u64(seed ^ 0x6e75_6d6f),
            late: Vec::new(),
            down_until: 0,
            listed: true,
            dirty: true,
            story: Story::default(),
        }
    }

    /// Runs to the end: the storm, the calm after it, and, if people or faults had a hand in it, until
    /// all is mended.
    pub fn run(mut self) -> Result<Story, Failure> {
        self.prologue();
        match self.whole() {
            Ok(()) => {
                self.epilogue();
                Ok(self.finish())
            }
            Err(message) => Err(Failure {
                seed: self.seed,
                message: format!(
                    "{message} (at {}:{:02}:{:02})",
                    self.world.now / 3600,
                    self.world.now / 60 % 60,
                    self.world.now % 60
                ),
                story: self.finish(),
            }),
        }
    }

    /// What there is at the beginning.
    fn prologue(&mut self) {
        let truth = &self.world.truth;
        let mut lines = Vec::new();
        for pool in truth.pools.values() {
            let here = |node: &&numo_core::observed::NodeView| {
                node.labels
                    .contains_key(&format!("node-role.kubernetes.io/{}", pool.name))
                    && node.annotation(numo_api::marks::openshift::CURRENT_CONFIG) == pool.config
            };
            let nodes: Vec<&str> = truth
                .nodes
                .values()
                .filter(here)
                .map(|node| node.name.as_str())
                .collect();
            let nodes = if nodes.is_empty() {
                "nobody".to_owned()
            } else {
                nodes.join(", ")
            };
            lines.push(format!("has pool {} at {}, with {nodes}", pool.name, pool.config));
        }
        for run in truth.runs.values() {
            let rules: Vec<String> = truth
                .rules
                .values()
                .map(|rule| {
                    let phases: Vec<&str> = rule.phases.iter().map(|phase| phase.name()).collect();
                    format!("{} ({})", rule.key.name, phases.join(", "))
                })
                .collect();
            lines.push(format!(
                "has MutexRunConfig {} and rules {}",
                run.key,
                rules.join(", ")
            ));
        }
        for line in lines {
            self.world.tell("cluster", || line);
        }
    }

    /// What there is at the end.
    fn epilogue(&mut self) {
        let runs = self.world.truth.runs.values();
        let lines: Vec<String> = runs
            .filter_map(|run| {
                let status = run.status.run.as_ref()?;
                Some(format!(
                    "has {} at {}: {}",
                    run.key,
                    status.target,
                    status
                        .result
                        .map_or("not over".to_owned(), |result| format!("{result:?}"))
                ))
            })
            .collect();
        for line in lines {
            self.world.tell("cluster", || line);
        }
    }

    fn finish(self) -> Story {
        Story {
            lines: self.world.story.map(|story| story.lines).unwrap_or_default(),
            seconds: self.world.now,
            ..self.story
        }
    }

    fn whole(&mut self) -> Result<(), String> {
        self.until(self.storm)?;
        self.calm();
        self.rest()?;
        self.legitimate()?;
        if self.people || self.had_faults() {
            self.world.mend();
            self.rest()?;
        }
        self.well()
    }

    fn had_faults(&self) -> bool {
        self.faults.crash > 0
            || self.faults.refuse > 0
            || self.world.jobs_made.iter().any(|made| made.completed.is_none())
    }

    fn calm(&mut self) {
        self.faults.crash = 0;
        self.faults.refuse = 0;
        self.faults.zombie = 0;
        self.faults.lag = (0, 0);
        self.faults.pause = (0, 0);
    }

    /// Lets the world and the operator go on until some time.
    fn until(&mut self, time: i64) -> Result<(), String> {
        while self.world.now < time {
            self.catch_up()?;
            let next = self.next().map_or(time, |next| next.min(time));
            self.world.advance_to(next.max(self.world.now));
            if self.world.now >= time {
                break;
            }
        }
        self.catch_up()
    }

    /// When something happens next: in the world, on the way to the operator, or by its own clock.
    fn next(&self) -> Option<i64> {
        let wake = self.wake.values().copied().min();
        let late = self.late.iter().map(|(at, ..)| *at).min();
        let next = [self.world.next_event(), self.view.next(), wake, late];
        let next = next.into_iter().flatten().min()?;
        Some(next.max(self.world.now + 1))
    }

    /// Goes on until nothing was written for longer than any deadline. It must come to that.
    fn rest(&mut self) -> Result<(), String> {
        let (began, passes) = (self.world.now, self.story.passes);
        let most = MAX_CALM_PASSES_PER_NODE * (self.world.truth.nodes.len() + 4);
        let mut last_write = began;
        loop {
            let writes = self.story.writes;
            self.catch_up()?;
            if self.story.writes > writes {
                last_write = self.world.now;
            }
            let quiet = self.world.now - last_write > REST_SECONDS;
            let Some(next) = self.next().filter(|_| !quiet) else {
                self.judge.at_rest(&self.world)?;
                return Ok(());
            };
            if self.world.now - began > MAX_CALM_SECONDS || self.story.passes - passes > most {
                return Err(format!(
                    "no rest after {} s and {} decisions",
                    self.world.now - began,
                    self.story.passes - passes
                ));
            }
            self.world.advance_to(next);
        }
    }

    /// Sees what is there to be seen, and decides until there is nothing more to do at this moment.
    fn catch_up(&mut self) -> Result<(), String> {
        self.send_late()?;
        if self.world.now < self.down_until {
            return Ok(());
        }
        if !self.listed {
            self.listed = true;
            self.dirty = true;
            self.view = View::relist(&mut self.world);
        }
        for _ in 0..MAX_PASSES_AT_ONCE {
            self.view.watch(&mut self.world, self.faults.lag, &mut self.rng);
            self.dirty |= self.view.deliver(&self.world);
            self.judge.watch(&self.world)?;
            let now = self.world.now;
            let due: Vec<Key> = self
                .wake
                .iter()
                .filter(|(_, at)| **at <= now)
                .map(|(key, _)| key.clone())
                .collect();
            if !self.dirty && due.is_empty() {
                return Ok(());
            }
            self.dirty = false;
            let owners: Vec<Key> = self.view.seen.runs.keys().cloned().collect();
            self.wake.retain(|key, at| *at > now && owners.contains(key));
            for owner in owners {
                let progress = self.pass(&owner)?;
                self.dirty |= progress.wrote || progress.answered;
                if self.world.now < self.down_until {
                    return Ok(());
                }
            }
        }
        Err(format!("{MAX_PASSES_AT_ONCE} decisions and no time went by"))
    }

    /// One pass for one owner.
    fn pass(&mut self, owner: &Key) -> Result<Progress, String> {
        let snapshot = Snapshot {
            now: self.world.time(),
            observed: &self.view.seen,
            owner: &Owner::run(owner.clone()),
        };
        let answers = self.answers.entry(owner.clone()).or_default();
        let mut decision = decide(&snapshot, answers);
        self.story.passes += 1;
        let breaches = invariant::lint(&snapshot, &mut decision);
        if !breaches.is_empty() {
            return Err(format!("the lint found {breaches:?}"));
        }
        if self.story.passes.is_multiple_of(16) {
            let mut again = decide(&snapshot, answers);
            invariant::lint(&snapshot, &mut again);
            if again.actions != decision.actions || again.report != decision.report {
                return Err("the same input gave another decision".to_owned());
            }
            if let Some(run) = self.view.seen.runs.get(owner)
                && decision.report.phase != RunPhase::Refused
            {
                self.judge
                    .reported(&self.world, &self.view.seen, run, &decision)?;
            }
        }
        if let Some(at) = decision.wake_at {
            self.wake.insert(owner.clone(), seconds(at));
        }
        let answered = self.answer(owner, &decision);
        let wrote = self.write(owner, &decision)?;
        if self.world.now >= self.down_until {
            self.write_status(owner, &decision.report);
        }
        self.reports.insert(owner.clone(), decision.report);
        Ok(Progress { wrote, answered })
    }

    /// Reads what the decision asked for.
    fn answer(&mut self, owner: &Key, decision: &Decision) -> bool {
        let answers = self.answers.entry(owner.clone()).or_default();
        answers.drains.clear();
        for question in &decision.questions {
            match question {
                Question::Evidence { job, .. } => {
                    let ended = self.world.truth.jobs.get(job).and_then(|job| job.ended.clone());
                    let evidence = Evidence {
                        exit_code: ended.map(|end| i32::from(end != JobEnd::Complete)),
                        log_tail: None,
                    };
                    answers.evidence.insert(job.clone(), evidence);
                }
                Question::DrainProbe { node } => {
                    let blocked = self
                        .world
                        .machines
                        .get(node)
                        .is_some_and(|machine| machine.drain_blocked);
                    let words =
                        blocked.then(|| "Pod shop/db-0: its disruption budget allows none".to_owned());
                    answers.drains.insert(node.clone(), words);
                }
                // No rule of these worlds is a component, and nothing in them is drained by numo.
                Question::Evaluate(_)
                | Question::Evictions { .. }
                | Question::Volumes { .. }
                | Question::Channel { .. } => {}
            }
        }
        !decision.questions.is_empty()
    }

    /// Carries the writes out, one after the other, with everything that can come between.
    fn write(&mut self, owner: &Key, decision: &Decision) -> Result<bool, String> {
        let mut broken: Vec<&str> = Vec::new();
        let mut wrote = false;
        // Judged is what the decision could know, not what was seen while it was carried out.
        let changes_meanwhile =
            !decision.actions.is_empty() && (self.faults.lag.1 > 0 || self.faults.pause.1 > 0);
        let decided_on = changes_meanwhile.then(|| self.view.seen.clone());
        for planned in &decision.actions {
            if broken.contains(&planned.chain.as_str()) {
                continue;
            }
            let number = self.story.writes + self.story.refused + 1;
            if let Some(act) = self.faults.act_before.remove(&number) {
                self.world.act(&act);
            }
            if self.faults.crash_before.remove(&number) || self.often(self.faults.crash) {
                self.crash();
                return Ok(true);
            }
            if self.faults.pause.1 > 0 {
                let pause = self.rng.random_range(self.faults.pause.0..=self.faults.pause.1);
                self.world.advance_to(self.world.now + pause);
                self.judge.watch(&self.world)?;
            }
            if gives_back_late(&planned.action) && self.often(self.faults.zombie) {
                let at = self.world.now + self.rng.random_range(1..600);
                self.late.push((at, owner.clone(), planned.clone()));
            }
            if self.often(self.faults.refuse) {
                let code = [403, 429, 500][self.rng.random_range(0..3)];
                self.refused(&planned.action, code, "the server had a bad day");
                self.retry_soon(owner);
                broken.push(&planned.chain);
                continue;
            }
            if !self.carry_out(owner, decision, planned, decided_on.as_ref())? {
                self.retry_soon(owner);
                broken.push(&planned.chain);
                continue;
            }
            wrote |= !matches!(planned.action, Action::RenewLease { .. });
        }
        Ok(wrote)
    }

    /// One write; whether it was accepted.
    fn carry_out(
        &mut self,
        owner: &Key,
        decision: &Decision,
        planned: &Planned,
        decided_on: Option<&Observed>,
    ) -> Result<bool, String> {
        let words = self
            .world
            .story
            .is_some()
            .then(|| words::deed(&self.world, &self.view.seen, decision, planned));
        match self.world.apply(&planned.action) {
            Ok(object) => {
                if let Some(words) = words {
                    self.world.tell("numo", || words);
                }
                if !matches!(planned.action, Action::RenewLease { .. }) {
                    self.story.writes += 1;
                }
                if let Action::WriteJournal { status, .. } = &planned.action
                    && status.step == Some(Step::Done)
                {
                    self.story.upgrades += 1;
                }
                let seen = decided_on.unwrap_or(&self.view.seen);
                let verdict = self.judge.after(&self.world, seen, owner, &planned.action);
                self.own(&object);
                verdict?;
                Ok(true)
            }
            Err(refused) => {
                if let Some(words) = words {
                    self.world.tell("server", || {
                        format!("refuses ({}, {}): {words}", refused.code, refused.message)
                    });
                }
                self.refused(&planned.action, refused.code, &refused.message);
                Ok(false)
            }
        }
    }

    /// What the operator wrote it sees at once.
    fn own(&mut self, object: &Object) {
        self.view.see(object, &self.world.truth);
        if let Object::Run(_) = object {
            // The run may be gone, and its NodeChanges with it.
            let gone: Vec<Key> = self
                .view
                .seen
                .changes
                .keys()
                .filter(|key| !self.world.truth.changes.contains_key(*key))
                .cloned()
                .collect();
            for key in gone {
                self.view.see(&Object::Change(key), &self.world.truth);
            }
        }
    }

    fn refused(&mut self, action: &Action, code: u16, message: &str) {
        self.story.refused += 1;
        if let Action::CreateJob(request) = action
            && code != 409
        {
            let refusal = Refusal {
                code,
                message: message.to_owned(),
                at: self.world.time(),
            };
            self.view.seen.refusals.insert(request.job.clone(), refusal);
        }
    }

    fn retry_soon(&mut self, owner: &Key) {
        let at = self.world.now + 2;
        let wake = self.wake.entry(owner.clone()).or_insert(at);
        *wake = (*wake).min(at);
    }

    /// Everything in memory is lost; the next process lists the cluster anew.
    fn crash(&mut self) {
        self.story.crashes += 1;
        self.world
            .tell("numo", || "dies, and is started again".to_owned());
        self.answers.clear();
        self.wake.clear();
        self.reports.clear();
        let down = self.rng.random_range(1..90);
        self.down_until = self.world.now + down;
        self.listed = false;
        self.wake.insert(Key::default(), self.down_until);
    }

    /// Writes that a replaced leader had decided on arrive.
    fn send_late(&mut self) -> Result<(), String> {
        let now = self.world.now;
        let (due, later) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.late = later;
        let due: Vec<(i64, Key, Planned)> = due;
        for (_, owner, planned) in due {
            if self.world.apply(&planned.action).is_ok() {
                self.world.tell("leader", || {
                    format!("that was replaced writes late: {:?}", planned.action)
                });
                self.judge
                    .after(&self.world, &self.view.seen, &owner, &planned.action)?;
            }
        }
        Ok(())
    }

    fn often(&mut self, of_thousand: u32) -> bool {
        of_thousand > 0 && self.rng.random_range(0..1000) < of_thousand
    }

    /// The one status write of a pass.
    fn write_status(&mut self, owner: &Key, report: &Report) {
        let Some(run) = self.world.truth.runs.get(owner) else {
            return;
        };
        if report.run_id.is_empty() {
            return;
        }
        let now = self.world.time().to_string();
        let mut status = run.status.run.clone().unwrap_or_default();
        let active = report.phase == RunPhase::Active;
        if status.id != report.run_id {
            if !active {
                return;
            }
            status = RunStatus {
                id: report.run_id.clone(),
                target: report.target.clone().unwrap_or_default(),
                started_at: Some(now.clone()),
                ..RunStatus::default()
            };
        }
        if active {
            status.finished_at = None;
            status.result = None;
        }
        let over = matches!(report.phase, RunPhase::Idle | RunPhase::Held) && report.result.is_some();
        if over && status.finished_at.is_none() {
            status.finished_at = Some(now);
            status.result = report.result;
        }
        if run.status.run.as_ref() == Some(&status) {
            return;
        }
        if let Some(run) = self.world.truth.runs.get_mut(owner) {
            run.status.run = Some(status);
        }
        self.own(&Object::Run(owner.clone()));
        self.dirty = true;
    }

    /// At rest, a run with nodes that are behind is Stalled, or waits for somebody else than a person and says so; and nobody
    /// is told to wait for nodes in flight when there are none.
    fn stalled(&self, owner: &Key, report: &Report) -> Result<(), String> {
        let open = || {
            let nodes = report.nodes.values();
            nodes.filter(|node| !node.step.is_terminal())
        };
        let person = |who: Who| matches!(who, Who::ClusterAdmin | Who::RuleAuthor);
        let waits = report.hold.as_ref().map(Why::who);
        let of_others = waits.is_some_and(|who| !person(who) && who != Who::Numo);
        let stalled = waits.is_some_and(person) || report.wedged().is_some();
        if report.phase == RunPhase::Active && open().next().is_some() && !stalled && !of_others {
            return Err(format!(
                "at rest, nodes of {owner} are behind and it is not Stalled: {report:#?}"
            ));
        }
        let turns = self.world.truth.changes.values().any(ChangeView::in_flight);
        let ungated = open().any(|node| node.why.reason == Reason::Ungated);
        match open().find(|node| node.why.who() == Who::OtherNode) {
            Some(node) if !turns && !ungated => Err(format!(
                "at rest, nobody of {owner} is in flight, and a node is told to wait for that: {}: {}",
                node.why.reason, node.why.message
            )),
            _ => Ok(()),
        }
    }

    /// At rest, whoever is not done waits for a reason that is true and that someone can end.
    fn legitimate(&self) -> Result<(), String> {
        for (owner, report) in &self.reports {
            if !self.world.truth.runs.contains_key(owner) {
                continue;
            }
            self.stalled(owner, report)?;
            for (name, node) in &report.nodes {
                let Some(view) = self.world.truth.nodes.get(name) else {
                    continue;
                };
                let machine = self.world.machines.get(name);
                let someone = report.in_flight() > 0
                    || report
                        .nodes
                        .values()
                        .any(|other| other.why.reason == Reason::Ungated);
                let holds = match node.why.reason {
                    Reason::NodeNotReady => !view.ready,
                    Reason::CordonedByOther => view.unschedulable,
                    Reason::WaitingForTurn | Reason::MutexKeyBusy => someone,
                    Reason::NodeLeaseHeld => self.world.truth.leases.contains_key(name),
                    Reason::DrainBlocked => machine.is_some_and(|machine| machine.drain_blocked),
                    Reason::Changing | Reason::ComingHome | Reason::Ungated | Reason::NodeNotDone => {
                        machine.is_some_and(|machine| !machine.is_idle())
                    }
                    Reason::PoolsPausing
                    | Reason::Admitting
                    | Reason::RuleStarting
                    | Reason::RuleRunning
                    | Reason::ConfigChanged
                    | Reason::Soaking
                    | Reason::GivingBack
                    | Reason::Progressing
                    | Reason::PoolNotRendered
                    | Reason::ControlPlaneUpdating
                    | Reason::InvariantBreach => false,
                    _ => true,
                };
                if !holds {
                    return Err(format!(
                        "at rest, {name} of {owner} waits: {} {}: {}",
                        node.step.name(),
                        node.why.reason,
                        node.why.message
                    ));
                }
            }
        }
        Ok(())
    }

    /// In the end, with nothing in the way, every node of every run is at its target and everything is as
    /// it was.
    fn well(&self) -> Result<(), String> {
        let deleted = self.world.truth.runs.values().find(|run| run.deleting);
        if let Some(run) = deleted {
            return Err(format!("{} is being deleted and does not go", run.key));
        }
        if !self.world.truth.runs.is_empty() {
            for (owner, report) in &self.reports {
                if !self.world.truth.runs.contains_key(owner) {
                    continue;
                }
                let behind = report
                    .nodes
                    .iter()
                    .find(|(_, node)| !matches!(node.why.reason, Reason::Done | Reason::UpToDate));
                if let Some((name, node)) = behind {
                    return Err(format!(
                        "in the end {name} of {owner} is {} {}: {}",
                        node.step.name(),
                        node.why.reason,
                        node.why.message
                    ));
                }
                if report.phase != RunPhase::Idle {
                    return Err(format!(
                        "in the end {owner} is {:?}: {:?}",
                        report.phase, report.hold
                    ));
                }
            }
        }
        let targets: Vec<&String> = self
            .world
            .truth
            .targets
            .values()
            .flat_map(|target| &target.pools)
            .collect();
        if (!self.people || self.world.people.broke_spec)
            && self
                .world
                .assignments
                .iter()
                .any(|made| targets.contains(&&made.pool))
        {
            // A run that waits for a pool of another one holds none of its own, or two could wait for each other.
            let alone = self.world.truth.runs.len() < 2
                && self
                    .world
                    .truth
                    .runs
                    .values()
                    .all(|run| run.spec.on_exit.is_none());
            let plain =
                alone && self.faults.lag == (0, 0) && self.story.crashes == 0 && self.story.refused == 0;
            if plain {
                return Err("the MCO let a node of a target go by itself".to_owned());
            }
        }
        for node in self.world.truth.nodes.values() {
            judge::unmarked(&self.world, node)?;
            if node.annotations.contains_key(marks::SHIELDED_BY) {
                return Err(format!("{} is still shielded", node.name));
            }
        }
        judge::leases_given_back(&self.world)?;
        if self.world.truth.runs.is_empty() {
            Ok(())
        } else {
            judge::restored(&self.world)
        }
    }
}

/// Writes that a replaced leader may still send: what they test makes them harmless. What begins something
/// (admissions, pauses) nothing in the object can test; the shell must not send it without its own lease.
fn gives_back_late(action: &Action) -> bool {
    match action {
        Action::PatchPool(patch) => matches!(
            patch.purpose,
            numo_core::action::PoolPurpose::Unpause | numo_core::action::PoolPurpose::Unselect
        ),
        Action::PatchNode(patch) => matches!(
            patch.purpose,
            numo_core::action::NodePurpose::Release
                | numo_core::action::NodePurpose::BringHome
                | numo_core::action::NodePurpose::Unshield
                | numo_core::action::NodePurpose::Unlabel
                | numo_core::action::NodePurpose::Recordon
        ),
        Action::PatchMachine(patch) => matches!(
            patch.purpose,
            numo_core::action::MachinePurpose::Unshield
                | numo_core::action::MachinePurpose::ResumeHealthCheck
        ),
        Action::WriteJournal { .. }
        | Action::DeleteChange { .. }
        | Action::RemoveFinalizer { .. }
        | Action::SetJobTtl { .. }
        | Action::RenewLease { .. }
        | Action::ReleaseLease { .. } => true,
        Action::AddFinalizer { .. }
        | Action::CreateChange { .. }
        | Action::RecordRun { .. }
        | Action::CreateJob(_)
        | Action::Evict { .. }
        | Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::DeletePlanJob { .. }
        | Action::MarkGate { .. }
        | Action::AcquireLease { .. } => false,
    }
}
