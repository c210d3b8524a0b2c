//! Snapshots that no orderly history leads to, from a seed: whatever is seen, and however it contradicts itself, the core does not panic,
//! decides the same twice, writes nothing that its own reading refuses, breaks no invariant, and comes to rest once the others do.
//!
//! Unlike the simulator (`tests/sim`), in which a world goes on by its own laws, anything may be anything here, between any two decisions.

pub mod carry;
mod dice;
mod disturb;
mod judge;
mod mangle;

use crate::cluster::{Cluster, now};
use carry::carry_out;
use dice::Dice;
use disturb::{Scene, owners};
use jiff::{SignedDuration, Timestamp};
use judge::Judge;
use numo_api::{
    RunStatus,
    marks::{self, openshift},
};
use numo_core::{
    Decision, Owner, OwnerKind, Snapshot,
    action::Action,
    decide, invariant, mark,
    model::Imagined,
    observed::{JobEnd, Observed},
    verdict::{Answers, Evidence, Question},
};
use std::collections::BTreeMap;

/// Seeds of each beginning; `NUMO_FIRST`, `NUMO_SEEDS` and `NUMO_ONLY` (a beginning) try others, `NUMO_TRAIL` shows more of what happened.
const SEEDS: u64 = 6;
/// How often anything happens before all come to rest.
const ROUNDS: usize = 16;
/// Rounds in which nobody disturbs.
const QUIET: usize = 160;
/// Rounds in which a controller takes off what numo puts on nodes.
const FOUGHT: usize = 90;
/// Rounds at the end in which nothing is written again and again.
const REST: usize = 60;

struct World {
    truth: Observed,
    /// What is seen: others' writes come late.
    seen: Observed,
    answers: Answers,
    now: Timestamp,
    number: usize,
    trail: Vec<String>,
}

impl World {
    fn of(text: &str) -> Self {
        let cluster = Cluster::parse(text);
        Self {
            seen: cluster.observed.clone(),
            truth: cluster.observed,
            answers: cluster.answers,
            now: now(),
            number: 0,
            trail: Vec::new(),
        }
    }

    fn disturb(&mut self, dice: &mut Dice) {
        let mut scene = Scene {
            observed: &mut self.truth,
            answers: &mut self.answers,
            now: self.now,
            number: self.number,
        };
        let what = scene.disturb(dice);
        self.number = scene.number;
        self.trail.push(what.to_owned());
    }

    /// What an owner decides, judged.
    fn decided(&self, owner: &Owner) -> Result<Decision, String> {
        let snapshot = Snapshot {
            now: self.now,
            observed: &self.seen,
            owner,
            asked: None,
        };
        let mut decision = decide(&snapshot, &self.answers);
        let again = decide(&snapshot, &self.answers);
        if decision.actions != again.actions
            || decision.questions != again.questions
            || decision.report != again.report
            || decision.wake_at != again.wake_at
        {
            return Err("6: decided twice, and not the same".to_owned());
        }
        let asked = self.seen.nodes.keys().next().map(String::as_str);
        let of_person = decide(&Snapshot { asked, ..snapshot }, &self.answers);
        if of_person.actions != decision.actions {
            return Err("a person who asks changes what is done".to_owned());
        }
        let breaches = invariant::lint(&snapshot, &mut decision);
        if !breaches.is_empty() {
            return Err(format!("lint: {breaches:?}"));
        }
        Ok(decision)
    }

    /// Carries out what an owner decides; what was written.
    fn act(&mut self, owner: &Owner, stops_after: usize) -> Result<Vec<String>, String> {
        let decision = self.decided(owner)?;
        let Some(uid) = self.seen.uid_of(owner).map(str::to_owned) else {
            return Ok(Vec::new());
        };
        let is_late = stops_after < usize::MAX;
        let judge = |seen: &Observed, now| -> Result<(), String> {
            Judge {
                observed: seen,
                owner,
                uid: &uid,
                now,
            }
            .report(&decision)
        };
        judge(&self.seen, self.now)?;
        let before = self.seen.clone();
        let mut broken: Vec<String> = Vec::new();
        let mut written = Vec::new();
        for planned in decision.actions.iter().take(stops_after) {
            if broken.contains(&planned.chain) {
                continue;
            }
            let name = label(&planned.action);
            let judge = Judge {
                observed: &self.seen,
                owner,
                uid: &uid,
                now: self.now,
            };
            judge
                .of(&planned.action)
                .map_err(|problem| format!("{name}: {problem}"))?;
            self.number += 1;
            let number = self.number.to_string();
            let taken = carry_out(&mut self.truth, &planned.action, self.now, &number);
            match taken {
                Ok(()) => {
                    self.trail.push(format!("  {owner} {name}"));
                    // One that is seen late takes its own writes in at once.
                    let _ = carry_out(&mut self.seen, &planned.action, self.now, &number);
                    written.push(name);
                }
                // After an earlier write of this decision it may be refused, but not by itself.
                Err(problem)
                    if is_late
                        || carry_out(&mut before.clone(), &planned.action, self.now, &number).is_ok() =>
                {
                    self.trail.push(format!("  {owner} {name} refused: {problem}"));
                    broken.push(planned.chain.clone());
                }
                Err(problem) => return Err(format!("{name} can never be written: {problem}")),
            }
        }
        self.answer(&decision.questions);
        Ok(written)
    }

    fn answer(&mut self, questions: &[Question]) {
        let mut imagined = Imagined::new(Observed::default(), self.now);
        for question in questions {
            if let Question::Evidence { job, .. } = question {
                let exit_code = Some(0);
                let evidence = Evidence {
                    exit_code,
                    log_tail: None,
                };
                self.answers.evidence.insert(job.clone(), evidence);
                continue;
            }
            imagined.pass(question);
        }
        self.answers.drains.extend(imagined.answers.drains);
        self.answers.volumes.extend(imagined.answers.volumes);
        self.truth
            .evaluations
            .extend(imagined.observed.evaluations.clone());
        self.seen.evaluations.extend(imagined.observed.evaluations);
    }

    /// What Jobs, pods and the machine-config operator do by themselves.
    fn go_on(&mut self) {
        let (now, observed) = (self.now, &mut self.truth);
        for job in observed.jobs.values_mut().filter(|job| job.ended.is_none()) {
            (job.ended, job.ended_at, job.started) = (Some(JobEnd::Complete), Some(now), true);
        }
        observed
            .jobs
            .retain(|_, job| job.deleting.is_none() && job.ttl_seconds.is_none());
        observed.plan_jobs.retain(|_, job| job.deleting.is_none());
        for job in observed
            .plan_jobs
            .values_mut()
            .filter(|job| job.ended.is_none() && !job.paused)
        {
            (job.ended, job.ended_at, job.untouched) = (Some(JobEnd::Complete), Some(now), false);
        }
        for pods in observed.pods.values_mut() {
            pods.retain(|_, pod| pod.deleting.is_none());
        }
        for node in observed.nodes.values_mut() {
            let desired = node.annotation(openshift::DESIRED_CONFIG).to_owned();
            if !desired.is_empty() && node.annotation(openshift::CURRENT_CONFIG) != desired {
                node.annotations
                    .insert(openshift::CURRENT_CONFIG.to_owned(), desired);
                node.annotations
                    .insert(openshift::STATE.to_owned(), "Done".to_owned());
            }
        }
        let gone = |deleting: bool, finalizers: &[String]| deleting && finalizers.is_empty();
        observed
            .runs
            .retain(|_, view| !gone(view.deleting, &view.finalizers));
        observed
            .plans
            .retain(|_, view| !gone(view.deleting, &view.finalizers));
        observed
            .maintenances
            .retain(|_, view| !gone(view.deleting, &view.finalizers));
        observed
            .fleet
            .versions
            .retain(|_, view| !gone(view.deleting, &view.finalizers));
        observed.changes.retain(|_, change| !change.deleting);
    }

    fn chaos(&mut self, dice: &mut Dice) -> Result<(), String> {
        for round in 0..ROUNDS {
            self.trail.push(format!("round {round}"));
            for _ in 0..dice.below(4) {
                self.disturb(dice);
            }
            if dice.one_in(3) {
                self.go_on();
            }
            let seconds = dice.one_of(&[0, 0, 1, 5, 30, 61, 700, 4000, -10_800, -5]);
            self.now += SignedDuration::from_secs(seconds);
            let is_late = dice.one_in(4);
            for owner in owners(&self.truth) {
                if !is_late {
                    self.seen.clone_from(&self.truth);
                }
                let dies = dice.one_in(6).then(|| dice.below(4));
                self.act(
                    &owner,
                    dies.unwrap_or(if is_late { usize::MAX - 1 } else { usize::MAX }),
                )
                .map_err(|problem| format!("{owner}: {problem}"))?;
            }
        }
        Ok(())
    }

    /// Once nobody disturbs any more, it comes to rest.
    fn rest(&mut self) -> Result<(), String> {
        let mut again: BTreeMap<String, usize> = BTreeMap::new();
        for round in 0..QUIET {
            self.go_on();
            // Passes follow one another as long as there is something to do.
            self.now += SignedDuration::from_secs(if round % 4 == 0 { 61 } else { 1 });
            self.trail.push(format!("quiet {round}"));
            for owner in owners(&self.truth) {
                self.seen.clone_from(&self.truth);
                let written = self
                    .act(&owner, usize::MAX)
                    .map_err(|problem| format!("{owner}: {problem}"))?;
                if round + REST >= QUIET {
                    for name in written.into_iter().filter(|name| !name.starts_with("RenewLease")) {
                        *again.entry(format!("{owner} {name}")).or_default() += 1;
                    }
                }
            }
        }
        match again.into_iter().find(|(_, times)| *times > REST / 4) {
            Some((name, times)) => Err(format!("6: {name}, {times} times in {REST} rounds")),
            None => Ok(()),
        }
    }
}

impl World {
    /// A controller that knows nothing of numo's marks takes them off whenever it looks: they are put back seldom.
    fn fight(&mut self, dice: &mut Dice) -> Result<(), String> {
        let (way, every) = (dice.below(4), dice.one_of(&[1, 1, 3]));
        let mut again: BTreeMap<String, usize> = BTreeMap::new();
        self.trail.push(format!("fought in way {way}, every {every}"));
        for round in 0..FOUGHT * every {
            self.now += SignedDuration::from_secs(1);
            self.trail.push(format!("fought {round}"));
            for owner in owners(&self.truth) {
                if round % every == 0 {
                    self.strip(way);
                }
                self.seen.clone_from(&self.truth);
                self.settle(&owner);
                let written = self
                    .act(&owner, usize::MAX)
                    .map_err(|problem| format!("{owner}: {problem}"))?;
                let counts = [
                    "PatchNode",
                    "PatchPool",
                    "PatchMachine",
                    "WriteJournal",
                    "RecordRun",
                    "AddFinalizer",
                ];
                let written = written
                    .into_iter()
                    .filter(|name| counts.iter().any(|one| name.starts_with(one)));
                for name in written.filter(|_| round + REST * every >= FOUGHT * every) {
                    *again.entry(format!("{owner} {name}")).or_default() += 1;
                }
            }
        }
        match again.into_iter().find(|(_, times)| *times > REST / 3) {
            Some((name, times)) => Err(format!(
                "put back for ever: {name}, {times} times in {REST} rounds"
            )),
            None => Ok(()),
        }
    }

    /// The shell writes the status of a run at the end of a pass: the run has gone on for a while.
    fn settle(&mut self, owner: &Owner) {
        let Ok(decision) = self.decided(owner) else {
            return;
        };
        let id = decision.report.run_id;
        for observed in [&mut self.truth, &mut self.seen] {
            if let Some(run) = observed.runs.get_mut(&owner.key)
                && owner.kind == OwnerKind::MutexRunConfig
                && run
                    .status
                    .run
                    .as_ref()
                    .is_none_or(|run| run.id != id || run.started_at.is_none())
            {
                run.status.run = Some(RunStatus {
                    id: id.clone(),
                    started_at: Some((self.now - SignedDuration::from_secs(600)).to_string()),
                    ..RunStatus::default()
                });
            }
        }
    }

    fn strip(&mut self, way: usize) {
        if way == 3 {
            let all = owners(&self.truth);
            return all.iter().for_each(|owner| strip_owner(&mut self.truth, owner));
        }
        let is_numos = |key: &str| key.contains("numo") || key.contains("medik8s");
        let kept = [marks::RELEASE, marks::LABELLED_BY];
        for node in self.truth.nodes.values_mut() {
            let goes = |key: &String| is_numos(key) && (way == 1 || !kept.contains(&key.as_str()));
            let is_rule = |key: &String| way == 1 && key.starts_with(marks::RULE_LABEL_PREFIX);
            node.labels.retain(|key, _| !goes(key) && !is_rule(key));
            node.annotations.retain(|key, _| !goes(key));
            if way == 1 {
                node.unschedulable = false;
                if let Some(taints) = node.taints.as_array_mut() {
                    taints.retain(|taint| !taint["key"].as_str().is_some_and(is_numos));
                }
            }
        }
        if way != 2 {
            return;
        }
        for pool in self.truth.pools.values_mut() {
            if let Some(mark) = mark::prior_selector(pool) {
                pool.selector = mark.prior;
            }
            if mark::paused_by(pool).is_some() {
                pool.paused = false;
            }
            pool.annotations.retain(|key, _| !is_numos(key));
        }
        for machine in self.truth.machines.values_mut() {
            machine.object.annotations.retain(|key, _| !is_numos(key));
        }
    }
}

/// Takes the finalizers off an owner, as whoever applies an old manifest of it does.
pub fn strip_owner(observed: &mut Observed, owner: &Owner) {
    if let Some((_, false, finalizers)) = carry::finalizers(observed, owner) {
        finalizers.clear();
    }
}

/// A write in few words.
fn label(action: &Action) -> String {
    match action {
        Action::PatchNode(patch) => format!("PatchNode {} {:?}", patch.node, patch.purpose),
        Action::PatchPool(patch) => format!("PatchPool {} {:?}", patch.pool, patch.purpose),
        Action::PatchMachine(patch) => format!("PatchMachine {} {:?}", patch.key, patch.purpose),
        Action::CreateChange { key, spec } => format!("CreateChange {key} {}", spec.node_name),
        Action::WriteJournal { key, status, .. } => {
            format!("WriteJournal {key} {:?} {:?}", status.step, status.reason)
        }
        Action::DeleteChange { key, .. } => format!("DeleteChange {key}"),
        Action::RecordRun { owner, .. } => format!("RecordRun {owner}"),
        Action::CreateJob(request) => format!("CreateJob {} {}", request.job, request.node),
        Action::SetJobTtl { job, .. } => format!("SetJobTtl {job}"),
        Action::CreatePlanJob(request) => format!("CreatePlanJob {} {:?}", request.job, request.parts),
        Action::Evict { eviction, .. } => format!("Evict {}", eviction.pod),
        Action::AcquireLease { node, .. } => format!("AcquireLease {node}"),
        Action::RenewLease { node, .. } => format!("RenewLease {node}"),
        Action::ReleaseLease { node, .. } => format!("ReleaseLease {node}"),
        other => format!("{other:?}").chars().take(160).collect(),
    }
}

/// Where it begins: each kind of owner, alone and beside others, before and in the turns of its nodes.
fn beginnings() -> Vec<(&'static str, String)> {
    let run = "cluster 4.17.0
        pool worker 4.17.0 ours
        pool infra 4.17.0 ours
        rule backup Pre,PreRelease
        rule disk Pre,Post wasm
        node a worker 4.16.0 zone:z1
        node b worker 4.16.0 zone:z2
        node c infra 4.16.0 zone:z1
        node d worker 4.17.0";
    let pods = "pod web on a of:ReplicaSet/web app:web
        pod ds on a of:DaemonSet/d
        pod db on b of:StatefulSet/db emptydir
        pdb web allows:0";
    let nodes = "node a worker v0 zone:z1
        node b worker v0 zone:z2
        node c master v0 voter:yes
        node d master v0 voter:yes";
    let plan = "rule r Pre
        plan concurrency:2 cordon finalizer spec {\"mutex\":{\"rules\":[{\"name\":\"r\",\"namespace\":\"numo\"}]}}";
    let fleet = "node a worker v0
        node b worker v0
        host a img1 group:w components:c2
        host b img2 group:w components:c2
        group w image:img2
        group cp image:img1 role:ControlPlane
        strategy on
        version img2 components:c2 surge:2 finalizer";
    vec![
        ("run", format!("{run}\n run {{maxUnavailable: 2}} finalizer")),
        (
            "run in turn",
            format!(
                "{run}\n node e worker 4.16.0 turn zone:z2\n run {{maxUnavailable: 3, quarantine: Taint}} finalizer\n change e PreRelease pin:4.17.0 verdict:backup/Pre/1/Pass"
            ),
        ),
        (
            "run after",
            format!(
                "{run}\n node e worker 4.17.0 turn zone:z2\n run {{soakSeconds: 60}} finalizer\n change e PostRules pin:4.17.0 entries:PreRules,Released,Changed,PostRules"
            ),
        ),
        (
            "canary",
            format!(
                "{}\n pool canary 4.17.0\n run {{canary: {{name: canary}}}} finalizer",
                run.replace("pool worker 4.17.0 ours", "pool worker 4.17.0")
            ),
        ),
        (
            "two runs",
            format!(
                "{run}\n run {{}} finalizer\n other-run {{\"maxUnavailable\": 5, \"mutexTargets\": [{{\"name\": \"all\"}}]}} finalizer"
            ),
        ),
        ("plan", format!("{nodes}\n {plan}")),
        (
            "plan in turn",
            format!(
                "{nodes}\n {plan}\n begun a PreRules boot:b0\n keeps a\n begun b Released boot:b0 entered:PreRules entered:PreRelease\n keeps b cordoned done\n planjob b running"
            ),
        ),
        (
            "plan drains",
            format!(
                "{nodes}\n {pods}\n pods c\n pods d\n plan concurrency:2 drain finalizer spec {{\"mutex\":{{\"drainBy\":\"Numo\"}}}}"
            ),
        ),
        (
            "two plans",
            format!("{nodes}\n {plan}\n other-plan servers finalizer cordon"),
        ),
        (
            "maintenance",
            format!(
                "{nodes}\n {pods}\n rule r Pre,PreRelease,BeforeUncordon,Post\n maintenance a rule:r drain {{\"probe\":true}}"
            ),
        ),
        (
            "maintenance in turn",
            format!(
                "{nodes}\n {pods}\n maintenance a finalizer phase:Running\n turn a Cordoned\n kept a cordoned done"
            ),
        ),
        (
            "maintenances",
            format!(
                "{nodes}\n {pods}\n pods c\n pods d\n maintenance a finalizer\n maintenance b name:other\n maintenance a name:third kubevirt\n maintenance c name:fourth"
            ),
        ),
        ("fleet", fleet.to_owned()),
        (
            "fleet in turn",
            format!(
                "{fleet}\n pods a\n pod web on a of:ReplicaSet/web\n node h worker v0\n host h img2 group:w components:c2 donor:a\n replacing a Cordoned machine:m-h heir:h cordoned"
            ),
        ),
        (
            "fleet and others",
            format!(
                "{fleet}\n {pods}\n {plan}\n maintenance b name:other\n cluster 4.17.0\n pool worker 4.17.0 ours\n other-run {{\"mutexTargets\": [{{\"name\": \"all\"}}]}} finalizer\n target all worker"
            ),
        ),
        (
            "all",
            format!(
                "{nodes}\n {pods}\n pods c\n pods d\n {plan}\n maintenance b name:other\n cluster 4.17.0\n pool worker 4.17.0 ours\n other-run {{\"mutexTargets\": [{{\"name\": \"all\"}}]}} finalizer\n target all worker"
            ),
        ),
        (
            "gated",
            format!(
                "{nodes}\n plan concurrency:3 cordon finalizer\n binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"approval\":{{\"begin\":\"Manual\"}},\"waves\":[{{\"nodes\":1}}]}}\n budget all max:1\n window nights {{\"openings\":[{{\"days\":[\"fri\"],\"startTime\":\"6\",\"endTime\":\"20\"}}]}}"
            ),
        ),
        ("nothing", "plan finalizer".to_owned()),
    ]
}

/// One seed from one beginning.
fn go(text: &str, seed: u64) -> Result<(), String> {
    let mut dice = Dice::of(seed);
    let mut world = World::of(text);
    let ended = world.chaos(&mut dice).and_then(|()| world.rest());
    let ended = ended.and_then(|()| world.fight(&mut dice));
    ended.map_err(|problem| {
        let from = world.trail.len().saturating_sub(
            std::env::var("NUMO_TRAIL")
                .ok()
                .and_then(|n| n.parse().ok())
                .unwrap_or(25),
        );
        format!("{problem}\n    {}", world.trail[from..].join("\n    "))
    })
}

#[test]
fn whatever_is_seen_no_invariant_is_broken_and_it_comes_to_rest() {
    let seeds = std::env::var("NUMO_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(SEEDS);
    let first: u64 = std::env::var("NUMO_FIRST")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let only = std::env::var("NUMO_ONLY").ok();
    let mut found: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for (name, text) in beginnings() {
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        for seed in first..first + seeds {
            let ended = std::panic::catch_unwind(|| go(&text, seed));
            let problem = match ended {
                Ok(Ok(())) => continue,
                Ok(Err(problem)) => problem,
                Err(_) => "a panic".to_owned(),
            };
            let kind: String = problem
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(90)
                .collect();
            let kind: String = kind
                .chars()
                .map(|c| if c.is_ascii_digit() { '#' } else { c })
                .collect();
            let one = found
                .entry(format!("{name}: {kind}"))
                .or_insert((0, format!("seed {seed}: {problem}")));
            one.0 += 1;
        }
    }
    let text: Vec<String> = found
        .iter()
        .map(|(kind, (times, first))| format!("{times} x {kind}\n  {first}"))
        .collect();
    assert!(found.is_empty(), "{}", text.join("\n"));
}

#[test]
fn in_a_large_cluster_with_odd_labels_each_node_is_told_of() {
    let odd = ["", "ż\u{202e}", "-", "true", "disabled", "z1"];
    for (name, text) in beginnings() {
        if !["run", "plan", "maintenance"].contains(&name) {
            continue;
        }
        let mut world = World::of(&text);
        let mut dice = Dice::of(7);
        let node = world.truth.nodes.values().next().expect("a node").clone();
        for number in 0..7_500 {
            let mut other = node.clone();
            other.name = format!("n{number}");
            other.uid = format!("uid-n{number}");
            for key in [
                openshift::ZONE,
                "a",
                "node-role.kubernetes.io/infra",
                marks::RELEASE,
            ] {
                if dice.one_in(3) {
                    other.labels.insert(key.to_owned(), dice.one_of(&odd).to_owned());
                }
            }
            other.ready = !dice.one_in(50);
            world.truth.nodes.insert(other.name.clone(), other);
        }
        world.seen.clone_from(&world.truth);
        for owner in owners(&world.truth) {
            let decision = world
                .decided(&owner)
                .unwrap_or_else(|problem| panic!("{name}: {problem}"));
            let told = decision.report.nodes.len();
            let wanted = if name == "maintenance" { 1 } else { 7_500 };
            let report = &decision.report;
            let is_told = told >= wanted || report.hold.is_some() || !report.problems.is_empty();
            assert!(is_told, "{name}: {told} nodes are told of");
        }
        // And where there is none.
        world.truth.nodes.clear();
        world.seen.clone_from(&world.truth);
        for owner in owners(&world.truth) {
            let ended = world.act(&owner, usize::MAX);
            assert!(ended.is_ok(), "{name}: {ended:?}");
        }
    }
}
