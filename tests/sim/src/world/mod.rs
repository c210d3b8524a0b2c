//! The cluster: what is, on a clock of its own, without numo.
//!
//! The truth is held in the same plain views that numo's core reads, so that observing is copying. What
//! the views do not show (how far a daemon is, when a Job will end) stands beside them. Everything that
//! happens is an [`Event`] at a time; two events of one second happen in the order they were planned in.

mod api;
mod approvals;
mod asked;
mod cloud;
mod copies;
mod daemon;
mod fleet_acts;
mod hours;
pub mod jobs;
mod machines;
pub(crate) mod mco;
mod owners;
pub mod people;
mod plan_jobs;
mod pods;

pub use api::Refused;
pub use approvals::{Approver, Word};
pub use asked::Answered;
pub use cloud::{BOOTS, Cloud, CloudKnobs, CloudMachine, GROUPS, NEVER_BOOTS, TEAM};
pub use copies::Copied;
pub use daemon::{Fault, Machine};
pub use fleet_acts::{BindingEdit, FleetAct};
pub use hours::{BACK, CLOCKS_CHANGE, FORWARD, HoursOf, MeantHours, NOWHERE, read as read_hours, window_of};
pub use machines::{ACCEPTED, STEADY, UNAVAILABLE};
pub use mco::{Assignment, Content, Primary, primary};
pub use owners::{MeantPlan, object, plan_window};
pub use people::Act;
pub use plan_jobs::PlanJobMade;
pub use pods::{Workload, goes};

use crate::story::{Line, Story};
use jiff::Timestamp;
use numo_core::{
    Owner,
    observed::{Annotated, Key, MachineApi, Map, Observed},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

/// When most simulations begin: 2026-01-05 08:00 UTC, a Monday (seconds).
const EPOCH: i64 = 1_767_600_000;
/// When some begin: 2028-02-28 08:00 UTC, a Monday too. The next day is a leap day (seconds).
const BEFORE_LEAP_DAY: i64 = 1_835_337_600;

thread_local! {
    /// When the simulation of this thread begins.
    static BEGINS: Cell<i64> = const { Cell::new(EPOCH) };
}

/// From now on the simulations of this thread begin on the day before a leap day, or on any other.
pub(crate) fn begin_before_leap_day(is_meant: bool) {
    BEGINS.set(if is_meant { BEFORE_LEAP_DAY } else { EPOCH });
}

/// Whether the simulation of this thread begins on the day before a leap day.
pub(crate) fn is_before_leap_day() -> bool {
    BEGINS.get() == BEFORE_LEAP_DAY
}

/// A span of seconds to draw from.
pub type Span = (i64, i64);

/// How long things take in this world (seconds), and how often they go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    /// Until the node controller acts on a change.
    pub controller: Span,
    /// Until a daemon or drain controller takes its next look.
    pub poll: Span,
    /// A drain.
    pub drain: Span,
    /// A reboot.
    pub reboot: Span,
    /// Until a Job's pod runs.
    pub job_start: Span,
    /// How long it runs.
    pub job: Span,
    /// Until the control plane has taken an update up, has rendered it, and is done.
    pub cluster: [Span; 3],
    /// Of a hundred Jobs, how many fail.
    pub jobs_failing: u32,
    /// Of a hundred Jobs, how many never end.
    pub jobs_hanging: u32,
    /// Of a hundred answers of rules that are asked, how many are Waits, Blocks, and none at all.
    pub asked: [u32; 3],
}

/// Something that will happen.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The MCO's node controller looks at all pools.
    NodeController,
    /// The machine-config daemon of a node takes its next step.
    Daemon(String, u64),
    /// A Job's pod runs.
    JobStarts(Key, String),
    /// A Job ends, or is deleted after its TTL.
    JobEnds(Key, String),
    JobGoes(Key, String),
    /// A Job of a Plan takes its next step, or is deleted after its TTL.
    PlanJob(Key, String),
    PlanJobGoes(Key, String),
    /// Something happens to a pod.
    Pod(pods::PodEvent),
    /// The cluster's update goes on, unless another was asked for since.
    Cluster(u64, mco::Phase),
    /// A pool is rendered.
    Render(String),
    /// Someone does something.
    Act(Act),
    /// The same, to Plans and NodeMaintenances.
    Fleet(FleetAct),
    /// A machine is up, its Node is Ready, or it is gone.
    Boots(String),
    IsReady(String),
    Goes(String),
}

/// An object of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A Node.
    Node(String),
    /// A Machine.
    Machine((MachineApi, Key)),
    /// A MachineHealthCheck.
    HealthCheck((MachineApi, Key)),
    /// A MachineConfigPool.
    Pool(String),
    /// A MachineConfig.
    Config(String),
    /// The ClusterVersion.
    ClusterVersion,
    /// A MutexRunConfig.
    Run(Key),
    /// A MutexRule.
    Rule(Key),
    /// A MutexTarget.
    Target(Key),
    /// A Job.
    Job(Key),
    /// A NodeChange.
    Change(Key),
    /// A MutexBudget.
    Budget(String),
    /// A MutexWindow.
    Window(String),
    /// A MutexApproval.
    Approval(String),
    /// A node lease.
    Lease(String),
    /// A MutexBinding.
    Binding(String),
    /// A Plan.
    Plan(Key),
    /// A NodeMaintenance.
    Maintenance(Owner),
    /// A Job of a Plan.
    PlanJob(Key),
    /// The pods of a node.
    Pods(String),
    /// A PodDisruptionBudget.
    DisruptionBudget(Key),
    /// A NodeVersion.
    Version(String),
    /// A ScalingGroup.
    Group(String),
    /// A PendingNode.
    Pending(String),
    /// A JoiningNode.
    Joining(String),
    /// An AutoscalingStrategy.
    Strategy(String),
    /// The Deployment of a cluster autoscaler.
    Autoscaler(Key),
}

/// The cluster.
#[derive(Debug)]
pub struct World {
    /// Seconds since the beginning.
    pub now: i64,
    /// What is.
    pub truth: Observed,
    /// How long things take.
    pub knobs: Knobs,
    /// The daemons, by node.
    pub machines: BTreeMap<String, Machine>,
    /// Everything a Job was created for, ended or not.
    pub jobs_made: Vec<jobs::Made>,
    /// Every Job of a Plan that was made.
    pub plan_jobs_made: Vec<PlanJobMade>,
    /// Every answer of a rule that was asked.
    pub answered: Vec<Answered>,
    /// The controllers of pods.
    pub workloads: BTreeMap<String, Workload>,
    /// The provider of machines, where there is one.
    pub cloud: Option<Cloud>,
    /// Whether there are pods in this world.
    pub has_pods: bool,
    /// From when on there is a namespace for node leases (seconds).
    pub leases_from: i64,
    /// The operator is to be stopped for so long (seconds).
    pub operator_stops: Option<i64>,
    /// What the node controller told nodes to run, since anyone asked.
    pub assignments: Vec<Assignment>,
    /// What people meant for good, to compare with at the end.
    pub people: people::Meant,
    /// The person who approves what waits.
    pub approver: Approver,
    /// What happened, if it is told.
    pub story: Option<Story>,
    pub(crate) rng: SmallRng,
    queue: BTreeMap<(i64, u64), Event>,
    serial: u64,
    touched: BTreeSet<Object>,
    controller_due: bool,
    asked: u64,
    revision: u32,
    /// The version the MCO renders for.
    pub(crate) rendered: String,
    /// Whether what happens now happens to the control plane.
    on_control_plane: bool,
}

impl World {
    /// An empty cluster.
    pub fn new(seed: u64, knobs: Knobs) -> Self {
        Self {
            now: 0,
            truth: Observed {
                health_checks: BTreeMap::from([(
                    (
                        MachineApi::OpenShift,
                        Key::new("openshift-machine-api", "workers"),
                    ),
                    Annotated {
                        uid: "health-check".to_owned(),
                        annotations: Map::new(),
                        has_annotations: false,
                        ..Annotated::default()
                    },
                )]),
                ..Observed::default()
            },
            knobs,
            machines: BTreeMap::new(),
            jobs_made: Vec::new(),
            plan_jobs_made: Vec::new(),
            answered: Vec::new(),
            workloads: BTreeMap::new(),
            cloud: None,
            has_pods: false,
            operator_stops: None,
            assignments: Vec::new(),
            people: people::Meant::default(),
            leases_from: 0,
            approver: Approver::new(seed),
            story: None,
            rng: SmallRng::seed_from_u64(seed),
            queue: BTreeMap::new(),
            serial: 0,
            touched: BTreeSet::new(),
            controller_due: false,
            asked: 0,
            revision: 0,
            rendered: String::new(),
            on_control_plane: false,
        }
    }

    /// The API server's time.
    pub fn time(&self) -> Timestamp {
        timestamp(self.now)
    }

    /// When the next thing happens by itself.
    pub fn next_event(&self) -> Option<i64> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    /// Lets everything happen until `time`, and no longer.
    pub fn advance_to(&mut self, time: i64) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > time {
                break;
            }
            let ((at, _), event) = entry.remove_entry();
            self.now = self.now.max(at);
            self.happen(event);
        }
        self.now = self.now.max(time);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::NodeController => self.node_controller(),
            Event::Daemon(node, epoch) => self.daemon(&node, epoch),
            Event::JobStarts(key, uid) => self.job_starts(&key, &uid),
            Event::JobEnds(key, uid) => self.job_ends(&key, &uid),
            Event::JobGoes(key, uid) => self.job_goes(&key, &uid),
            Event::PlanJob(key, uid) => self.plan_job_steps(&key, &uid),
            Event::PlanJobGoes(key, uid) => self.plan_job_goes(&key, &uid),
            Event::Pod(event) => self.pod_event(event),
            Event::Cluster(asked, phase) => self.cluster(asked, phase),
            Event::Render(pool) => self.render(&pool),
            Event::Act(act) => self.act(&act),
            Event::Fleet(act) => self.fleet_act(&act),
            Event::Boots(machine) => self.machine_boots(&machine),
            Event::IsReady(node) => self.node_is_ready(&node),
            Event::Goes(machine) => self.machine_goes(&machine),
        }
    }

    /// Plans an event in some seconds.
    pub(crate) fn plan(&mut self, in_seconds: i64, event: Event) {
        self.serial += 1;
        self.queue
            .insert((self.now + in_seconds.max(0), self.serial), event);
    }

    /// Plans what someone will do.
    pub fn plan_act(&mut self, in_seconds: i64, act: Act) {
        self.plan(in_seconds, Event::Act(act));
    }

    /// Plans what someone will do to Plans and NodeMaintenances.
    pub fn plan_fleet_act(&mut self, in_seconds: i64, act: FleetAct) {
        self.plan(in_seconds, Event::Fleet(act));
    }

    /// Takes out everything people would still do.
    pub fn call_off_acts(&mut self) {
        self.queue
            .retain(|_, event| !matches!(event, Event::Act(_) | Event::Fleet(_)));
    }

    /// A number from a span.
    pub(crate) fn pick(&mut self, (from, to): Span) -> i64 {
        if from >= to {
            from
        } else {
            self.rng.random_range(from..=to)
        }
    }

    /// Whether something happens that happens so often in a hundred times.
    pub(crate) fn chance(&mut self, of_hundred: u32) -> bool {
        of_hundred > 0 && self.rng.random_range(0..100) < of_hundred
    }

    /// The next number nobody had: uids, resource versions.
    pub(crate) fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Notes that an object changed.
    pub(crate) fn touch(&mut self, object: Object) {
        if matches!(object, Object::Node(_) | Object::Pool(_)) && !self.controller_due {
            self.controller_due = true;
            let delay = self.pick(self.knobs.controller);
            self.plan(delay, Event::NodeController);
        }
        self.touched.insert(object);
    }

    /// The objects that changed since anyone asked.
    pub fn take_touched(&mut self) -> BTreeSet<Object> {
        std::mem::take(&mut self.touched)
    }

    /// Tells the story, if anyone listens.
    pub fn tell(&mut self, who: &'static str, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.lines.push(Line {
                at: self.now,
                who,
                what: what(),
            });
        }
    }
}

/// Seconds since the beginning as a time.
pub fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(BEGINS.get() + seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A time as seconds since the beginning.
pub fn seconds(time: Timestamp) -> i64 {
    time.as_second() - BEGINS.get()
}
