//! Seeded simulation of numo's core: the proof that what it decides is safe and comes to an end.
//!
//! An in-memory cluster ([`world`]) with the Machine Config Operator, daemons, Jobs and people lives on a
//! virtual clock. The operator decides with the real core, writes one action at a time with the
//! preconditions the real API has, dies between any two of them, sees late, is refused and overtaken.
//! After each write a [`judge`] asks of the world alone whether an invariant of the design is broken; at
//! the end everything must have come to rest, and after people have mended what they broke, every node
//! must be at its target and everything as it was.
//!
//! One `u64` makes the whole of it: the same seed gives the same story, line by line.

pub mod bench;
pub mod judge;
pub mod setup;
pub mod simulation;
pub mod story;
mod watch;
mod words;
pub mod world;

pub use bench::{Throughput, bench_cluster, throughput};
pub use setup::Setup;
pub use simulation::Simulation;
pub use story::{Failure, Story};

/// What a simulation may do to the operator.
#[derive(Clone, Copy, Debug)]
pub struct Options {
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
            faults: true,
            people: true,
            tell: false,
        }
    }
}

/// Runs one seed. A failure is run once more to tell its story.
pub fn run(seed: u64, options: Options) -> Result<Story, Failure> {
    let go = |tell| Simulation::new(seed, Setup::drawn(seed, options.faults, options.people), tell).run();
    match go(options.tell) {
        Err(_) if !options.tell => go(true),
        ended => ended,
    }
}
