//! Seeded simulation of numo's core: the proof that what it decides is safe and comes to an end.
//!
//! An in-memory cluster ([`world`]) with the Machine Config Operator, daemons, Jobs, pods with their budgets, and people lives on a
//! virtual clock. There are MutexRunConfigs, Plans, NodeMaintenances and NodeVersions, alone and on the same nodes; the machines of the last are
//! a provider's, which is late and refuses. The operator decides with the real core, writes one action at a time with the
//! preconditions the real API has, dies between any two of them, sees late, is refused and overtaken.
//! After each write a [`judge`] asks of the world alone whether an invariant of the design is broken; at
//! the end everything must have come to rest, and after people have mended what they broke, every node
//! must be at its target and everything as it was.
//!
//! One `u64` makes the whole of it: the same seed gives the same story, line by line.

pub mod bench;
mod cores;
pub mod judge;
pub mod mutation;
mod reading;
pub mod setup;
pub mod simulation;
pub mod story;
mod watch;
mod words;
pub mod world;

pub use bench::{Throughput, bench_cluster, bench_cluster_with_order, throughput};
pub use cores::on_all_cores;
pub use mutation::Mutation;
pub use setup::Setup;
pub use simulation::Simulation;
pub use story::{Failure, Story};

/// Whose owners there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owners {
    /// One MutexRunConfig or two, on OpenShift.
    #[default]
    Runs,
    /// Plans.
    Plans,
    /// NodeMaintenances.
    Maintenances,
    /// All of them, on the same nodes.
    All,
    /// A NodeVersion.
    Versions,
}

impl Owners {
    /// Each, but for NodeVersions alone, whose seeds take the longest: some of all owners have them.
    pub const EACH: [Self; 4] = [Self::Runs, Self::Plans, Self::Maintenances, Self::All];
}

/// What a simulation may do to the operator.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whose owners there are.
    pub owners: Owners,
    /// A fault that is put into decisions.
    pub mutation: Option<Mutation>,
    /// Crashes, late and refused writes, late views, failing Jobs.
    pub faults: bool,
    /// People, GitOps, autoscalers and bad hardware.
    pub people: bool,
    /// Whether the story is told line by line.
    pub tell: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            owners: Owners::Runs,
            mutation: None,
            faults: true,
            people: true,
            tell: false,
        }
    }
}

/// One in so many seeds begins on the day before a leap day.
const LEAP_SEEDS: u64 = 10;

/// Runs one seed. A failure is run once more to tell its story.
pub fn run(seed: u64, options: Options) -> Result<Story, Failure> {
    let Options {
        owners,
        faults,
        people,
        ..
    } = options;
    world::begin_before_leap_day(seed % LEAP_SEEDS == LEAP_SEEDS - 1);
    let go = |tell| {
        let setup = match owners {
            Owners::Runs => Setup::drawn(seed, faults, people),
            _ => Setup::drawn_fleet(seed, owners, faults, people),
        };
        Simulation::new(seed, setup, tell)
            .of(owners)
            .mutated(options.mutation)
            .run()
    };
    let ended = match go(options.tell) {
        Err(_) if !options.tell && options.mutation.is_none() => go(true),
        ended => ended,
    };
    world::begin_before_leap_day(false);
    ended
}
