//! The loop: see, decide, check, write, be interrupted, and go on. One operator, one virtual clock.

mod asked;
mod end;
mod machines;
mod silence;
mod status;
mod write;

use crate::{
    Owners,
    judge::{Judge, Read},
    mutation::Mutation,
    setup::{Faults, Setup},
    story::{Failure, Story},
    watch::View,
    world::{Cloud, World, seconds},
};
use numo_core::{
    Decision, Owner, Snapshot,
    action::{EvaluationRequest, Planned},
    decide, invariant,
    observed::{JobEnd, Key},
    report::Report,
    verdict::{Answers, Evidence, Question},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::collections::BTreeMap;

/// Decisions that may follow each other without any time going by; more is a loop that feeds itself.
const MAX_PASSES_AT_ONCE: usize = 400;
/// A cluster in which nothing was written for so long (seconds) is at rest: longer than any deadline.
const REST_SECONDS: i64 = 10_000;
/// After so long without a write but leases (seconds) nobody who waits may be told less than the truth.
const SILENT_SECONDS: i64 = 600;
/// Rest must come in so many seconds once faults and people have stopped.
const MAX_CALM_SECONDS: i64 = 6 * 24 * 3600;
/// And in so many decisions for each node.
const MAX_CALM_PASSES_PER_NODE: usize = 1500;
/// For how long the operator is away where it is away for long (seconds): longer than an ended Job of a Plan is kept, and sometimes longer than a
/// lease.
const AWAY: (i64, i64) = (901, 5000);
/// Of so many decisions one is made twice, and one that is known is made all the same: it must be the same.
const TRIED_TWICE: usize = 16;

/// A simulation under way.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub struct Simulation {
    seed: u64,
    world: World,
    view: View,
    answers: BTreeMap<Owner, Answers>,
    wake: BTreeMap<Owner, i64>,
    reports: BTreeMap<Owner, Report>,
    /// The last decisions that came to nothing.
    idle: BTreeMap<Owner, Idle>,
    judge: Judge,
    faults: Faults,
    storm: i64,
    people: bool,
    rng: SmallRng,
    /// Writes that a replaced leader has yet to send, with the time they come at.
    late: Vec<Late>,
    /// The questions to rules that are under way, with the time at which their answers come.
    asked: Vec<(i64, EvaluationRequest)>,
    /// A fault that is put into decisions, for a test of the judge.
    mutation: Option<Mutation>,
    /// How often it was decided, also to compare.
    decided: usize,
    /// How often it was to be decided, also where that was known.
    passes: usize,
    owners_kind: Owners,
    down_until: i64,
    /// Whether the operator was ever away for long.
    was_away: bool,
    /// Whether the last write began a Job.
    has_begun: bool,
    /// When a question was answered last.
    answered_at: BTreeMap<Owner, i64>,
    /// When something but a lease was written last.
    last_write: i64,
    listed: bool,
    dirty: bool,
    story: Story,
}

/// A write of a replaced leader.
#[derive(Debug)]
struct Late {
    at: i64,
    owner: Owner,
    planned: Planned,
    /// What it was decided on.
    read: Read,
}

/// A decision that wrote nothing and asked nothing, in the report's status too. As long as nothing else is seen, and it is not to be made again,
/// it comes to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Idle {
    /// The revision of what was seen.
    seen: u64,
    /// When it was made.
    at: i64,
    /// When it is to be made again.
    wake: Option<i64>,
}

/// Whether the operator wrote, or learned something that it asked for.
#[derive(Default)]
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
            idle: BTreeMap::new(),
            judge: Judge::default(),
            faults,
            storm,
            people,
            rng: SmallRng::seed_from_u64(seed ^ 0x6e75_6d6f),
            late: Vec::new(),
            asked: Vec::new(),
            mutation: None,
            decided: 0,
            passes: 0,
            owners_kind: Owners::Runs,
            down_until: 0,
            was_away: false,
            has_begun: false,
            answered_at: BTreeMap::new(),
            last_write: 0,
            listed: true,
            dirty: true,
            story: Story::default(),
        }
    }

    /// Puts a fault into every decision.
    #[must_use]
    pub const fn mutated(mut self, mutation: Option<Mutation>) -> Self {
        self.mutation = mutation;
        self
    }

    /// Says whose owners there are, for the command that runs a seed again.
    #[must_use]
    pub const fn of(mut self, owners: Owners) -> Self {
        self.owners_kind = owners;
        self
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
                owners: self.owners_kind,
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
        for plan in truth.plans.values() {
            let spec = &plan.spec;
            lines.push(format!(
                "has Plan {} to {}, concurrency {}",
                plan.key,
                spec.version.as_deref().unwrap_or_default(),
                spec.concurrency.unwrap_or(0)
            ));
        }
        for view in truth.maintenances.values() {
            lines.push(format!("has {} of {}", view.owner, view.spec.node_name));
        }
        for view in truth.fleet.versions.values() {
            let image = view.spec.image.as_deref().unwrap_or_default();
            lines.push(format!(
                "has NodeVersion {} to {image}, surge {:?}",
                view.name, view.spec.surge
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
            machines_more: self.world.cloud.as_ref().map_or(0, Cloud::machines_more),
            ..self.story
        }
    }

    fn whole(&mut self) -> Result<(), String> {
        self.until(self.storm)?;
        // Whoever has such a turn started over has to look at the node: nothing tells what was done to it, and a cordon may stay.
        if self.world.people.has_copied {
            return Ok(());
        }
        self.calm();
        self.rest()?;
        self.legitimate()?;
        // What goes wrong may do so only once the hours are open.
        if !self.people && !self.had_faults() && self.world.open_hours() {
            self.rest()?;
        }
        if self.people || self.had_faults() {
            self.world.mend();
            self.rest()?;
        }
        self.well()
    }

    fn had_faults(&self) -> bool {
        self.was_away
            || self.faults.crash > 0
            || self.faults.refuse > 0
            || self.world.answered.iter().any(|one| !one.passed)
            || self.world.jobs_made.iter().any(|made| made.completed.is_none())
    }

    fn calm(&mut self) {
        self.faults.crash = 0;
        self.faults.away = 0;
        self.faults.refuse = 0;
        self.faults.zombie = 0;
        self.faults.lag = (0, 0);
        self.faults.pause = (0, 0);
    }

    /// Lets the world and the operator go on until some time.
    fn until(&mut self, time: i64) -> Result<(), String> {
        while self.world.now < time {
            self.catch_up()?;
            self.not_silent()?;
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
        let late = self.late.iter().map(|late| late.at).min();
        let asked = self.asked.iter().map(|(at, _)| *at).min();
        let next = [self.world.next_event(), self.view.next(), wake, late, asked];
        let next = next.into_iter().flatten().min()?;
        Some(next.max(self.world.now + 1))
    }

    /// Goes on until nothing was written for longer than any deadline. It must come to that.
    fn rest(&mut self) -> Result<(), String> {
        let (mut began, mut passes) = (self.world.now, self.passes);
        let most = MAX_CALM_PASSES_PER_NODE * (self.world.truth.nodes.len() + 4);
        let mut last_write = began;
        loop {
            let writes = self.story.writes;
            self.catch_up()?;
            // Hours may open after any silence, and the first that comes then is a question.
            if self.story.writes > writes || !self.asked.is_empty() {
                // Days in which hours are closed are no unrest.
                let silence = self.world.now - last_write;
                began += if silence > REST_SECONDS { silence } else { 0 };
                last_write = self.world.now;
            }
            self.not_silent()?;
            // What people forbid for a while is tried again and again until then.
            if self.world.people.jobs_forbidden {
                passes = self.passes;
            }
            let quiet = self.world.now - last_write > REST_SECONDS;
            let Some(next) = self.next().filter(|_| !quiet) else {
                self.judge.at_rest(&self.world)?;
                return Ok(());
            };
            if self.world.now - began > MAX_CALM_SECONDS || self.passes - passes > most {
                return Err(format!(
                    "invariant 6: no rest after {} s and {} decisions",
                    self.world.now - began,
                    self.passes - passes
                ));
            }
            self.world.advance_to(next);
        }
    }

    /// Sees what is there to be seen, and decides until there is nothing more to do at this moment.
    fn catch_up(&mut self) -> Result<(), String> {
        self.send_late()?;
        if let Some(seconds) = self.world.operator_stops.take() {
            self.stop(seconds);
        }
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
            self.dirty |= self.hear();
            self.judge.watch(&self.world)?;
            let now = self.world.now;
            let due: Vec<Owner> = self
                .wake
                .iter()
                .filter(|(_, at)| **at <= now)
                .map(|(key, _)| key.clone())
                .collect();
            if !self.dirty && due.is_empty() {
                return Ok(());
            }
            self.dirty = false;
            let owners = self.owners();
            self.wake.retain(|key, at| *at > now && owners.contains(key));
            for owner in owners {
                let progress = self.pass(&owner)?;
                self.dirty |= progress.wrote || progress.answered;
                if self.world.now < self.down_until {
                    return Ok(());
                }
            }
        }
        Err(format!(
            "invariant 6: {MAX_PASSES_AT_ONCE} decisions and no time went by"
        ))
    }

    /// Every owner that is seen.
    fn owners(&self) -> Vec<Owner> {
        let seen = self.view.seen();
        let runs = seen.runs.keys().cloned().map(Owner::run);
        let plans = seen.plans.keys().cloned().map(Owner::plan);
        let maintenances = seen.maintenances.keys().cloned();
        let versions = seen.fleet.versions.keys();
        let versions = versions.map(|name| Owner::node_version(name.as_str()));
        runs.chain(maintenances).chain(plans).chain(versions).collect()
    }

    /// One pass for one owner. What is known to come to nothing is not decided again.
    fn pass(&mut self, owner: &Owner) -> Result<Progress, String> {
        self.passes += 1;
        let is_tried_twice = self.passes.is_multiple_of(TRIED_TWICE);
        let now = (self.view.revision(), self.world.now);
        let known = self.idle.get(owner).copied();
        let known = known.filter(|idle| self.stands(owner, idle));
        if let Some(idle) = known.filter(|_| !is_tried_twice) {
            self.judge.decides_nothing(&self.world);
            self.answered_at.insert(owner.clone(), self.world.now);
            self.wakes(owner, idle.wake);
            return Ok(Progress::default());
        }
        let before = (self.story.refused, self.probed(owner));
        let decision = self.decided(owner)?;
        self.story.passes += 1;
        let is_nothing = decision.actions.is_empty() && decision.questions.is_empty();
        if is_tried_twice {
            let again = self.decided(owner)?;
            // Of what is known of another time the words may tell of the time.
            let is_same = |idle: Idle| idle.at != now.1 || self.reports.get(owner) == Some(&decision.report);
            let is_known = |idle| is_nothing && is_same(idle);
            if again.actions != decision.actions
                || again.report != decision.report
                || !known.is_none_or(is_known)
            {
                return Err("invariant 6: the same input gave another decision".to_owned());
            }
        }
        let seen = self.view.seen();
        self.judge.decided(&self.world, seen, owner, &decision)?;
        if is_tried_twice {
            self.judge.reported(&self.world, seen, owner, &decision)?;
        }
        if let Some(waits) = &decision.report.approval {
            self.world.waits_for_word(owner, waits);
        }
        let wake = decision.wake_at.map(seconds);
        self.wakes(owner, wake);
        let answered = self.answer(owner, &decision);
        let wrote = self.write(owner, &decision)?;
        if self.world.now >= self.down_until {
            self.write_status(owner, &decision.report);
        }
        self.reports.insert(owner.clone(), decision.report);
        // A refusal is tried again, and what was learned may be forgotten.
        let after = (self.story.refused, self.probed(owner));
        if is_nothing && before == after && now == (self.view.revision(), self.world.now) {
            let (seen, at) = now;
            self.idle.insert(owner.clone(), Idle { seen, at, wake });
        } else {
            self.idle.remove(owner);
        }
        Ok(Progress { wrote, answered })
    }

    /// Whether a decision that came to nothing would come to nothing now: nothing else was seen, and the time at which it is to be made again has
    /// not come. Until then the shell does not make it again, either.
    fn stands(&self, owner: &Owner, idle: &Idle) -> bool {
        let now = self.world.now;
        let is_to_wait =
            self.mutation.is_none() && self.probed(owner) == 0 && idle.wake.is_none_or(|wake| wake > now);
        idle.seen == self.view.revision() && (idle.at == now || is_to_wait)
    }

    fn wakes(&mut self, owner: &Owner, at: Option<i64>) {
        if let Some(at) = at {
            self.wake.insert(owner.clone(), at);
        }
    }

    /// How many drains are known to an owner.
    fn probed(&self, owner: &Owner) -> usize {
        self.answers.get(owner).map_or(0, |answers| answers.drains.len())
    }

    /// What is decided for an owner, after the last look at it, with the fault that is put into it.
    fn decided(&mut self, owner: &Owner) -> Result<Decision, String> {
        self.decided += 1;
        let seen = self.view.seen();
        let mutated = self.mutation.and_then(|mutation| mutation.view(owner, seen));
        let now = self.world.time();
        let snapshot = Snapshot {
            now: self.mutation.map_or(now, |mutation| mutation.now(now)),
            observed: mutated.as_ref().unwrap_or(seen),
            owner,
            asked: None,
        };
        let answers = self.answers.entry(owner.clone()).or_default();
        let mut decision = decide(&snapshot, answers);
        let forged = self
            .mutation
            .and_then(|mutation| mutation.forged(owner, seen, &decision));
        if let Some(forged) = &forged {
            let snapshot = Snapshot {
                observed: forged,
                ..snapshot
            };
            decision = decide(&snapshot, answers);
        }
        let breaches = invariant::lint(&snapshot, &mut decision);
        match self.mutation {
            None if !breaches.is_empty() => return Err(format!("the lint found {breaches:?}")),
            None => {}
            Some(mutation) => {
                mutation.edit(owner, &self.world, seen, &mut decision);
                mutation.by_chance(self.decided, &mut decision);
            }
        }
        Ok(decision)
    }

    /// Reads what the decision asked for.
    fn answer(&mut self, owner: &Owner, decision: &Decision) -> bool {
        let answers = self.answers.entry(owner.clone()).or_default();
        // What was read is kept for the round, as the shell does.
        let now = self.world.now;
        if self.answered_at.insert(owner.clone(), now) != Some(now) {
            answers.drains.clear();
        }
        let mut asked = Vec::new();
        for question in &decision.questions {
            match question {
                Question::Evidence { job, .. } => {
                    let truth = &self.world.truth;
                    let of_rule = truth.jobs.get(job).and_then(|job| job.ended.clone());
                    let of_plan = || truth.plan_jobs.get(job).and_then(|job| job.ended.clone());
                    let ended = of_rule.or_else(of_plan);
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
                    let words = words.or_else(|| self.world.blocked(node, None));
                    answers.drains.insert(node.clone(), words);
                }
                Question::Evictions { node, pods } => {
                    let words = self.world.blocked(node, Some(pods));
                    answers.drains.insert(node.clone(), words);
                }
                Question::Evaluate(request) => asked.push((**request).clone()),
                Question::Fleet(question) => {
                    let provider = &mut self.view.remember().fleet.provider;
                    self.world.provider_says(question, provider);
                }
                // No pod of these worlds has a volume, and no Plan a channel.
                Question::Volumes { .. } | Question::Channel { .. } => {}
            }
        }
        for request in &asked {
            self.ask(request);
        }
        !decision.questions.is_empty()
    }

    fn retry_soon(&mut self, owner: &Owner) {
        let at = self.world.now + 2;
        let wake = self.wake.entry(owner.clone()).or_insert(at);
        *wake = (*wake).min(at);
    }

    /// Everything in memory is lost; the next process lists the cluster anew.
    fn crash(&mut self) {
        self.world
            .tell("numo", || "dies, and is started again".to_owned());
        let down = self.rng.random_range(1..90);
        self.stop(down);
    }

    /// The same, and nothing is started for long.
    fn goes_away(&mut self) {
        let down = self.rng.random_range(AWAY.0..=AWAY.1);
        self.world
            .tell("numo", || format!("dies, and is away for {down} s"));
        self.was_away = true;
        self.stop(down);
    }

    /// The operator is down for so long (seconds).
    fn stop(&mut self, down: i64) {
        self.story.crashes += 1;
        self.answers.clear();
        self.asked.clear();
        self.wake.clear();
        self.reports.clear();
        self.idle.clear();
        self.down_until = self.world.now + down;
        self.listed = false;
        self.wake.insert(Owner::run(Key::default()), self.down_until);
    }

    /// Writes that a replaced leader had decided on arrive.
    fn send_late(&mut self) -> Result<(), String> {
        let now = self.world.now;
        let (due, later): (Vec<Late>, _) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|late| late.at <= now);
        self.late = later;
        for late in due {
            let mutated = self
                .mutation
                .and_then(|mutation| mutation.late(&self.world, &late.planned));
            let action = mutated.unwrap_or(late.planned).action;
            let before = Read::of(&self.world.truth, &action);
            if self.world.apply(&action).is_ok() {
                self.world
                    .tell("leader", || format!("that was replaced writes late: {action:?}"));
                let after = Read::of(&self.world.truth, &action);
                late.read.overwritten(&before, &after, &action)?;
                self.judge
                    .after(&self.world, self.view.seen(), &late.owner, &action)?;
            }
        }
        Ok(())
    }

    fn often(&mut self, of_thousand: u32) -> bool {
        of_thousand > 0 && self.rng.random_range(0..1000) < of_thousand
    }
}
