//! What happened, to be read by people: one line a deed.

use crate::Owners;
use std::fmt;

/// One deed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Seconds since the beginning.
    pub at: i64,
    /// Who did it.
    pub who: &'static str,
    /// What, and why.
    pub what: String,
}

/// A whole simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// The deeds, in order.
    pub lines: Vec<Line>,
    /// Nodes that numo brought to their end.
    pub upgrades: usize,
    /// Decisions that were made.
    pub passes: usize,
    /// Writes that were carried out.
    pub writes: usize,
    /// Writes that were refused.
    pub refused: usize,
    /// Restarts of the operator.
    pub crashes: usize,
    /// Seconds that went by in the world.
    pub seconds: i64,
    /// Machines in the end, beyond those that there were and those that others have added.
    pub machines_more: usize,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let (hours, minutes, seconds) = (line.at / 3600, line.at / 60 % 60, line.at % 60);
            writeln!(
                f,
                "{hours}:{minutes:02}:{seconds:02}  {:<8} {}",
                line.who, line.what
            )?;
        }
        Ok(())
    }
}

/// What went wrong, with the way there.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What went wrong.
    pub message: String,
    /// Whose owners there were.
    pub owners: Owners,
    /// The way there; empty unless it was told.
    pub story: Story,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}seed {}: {}\nreplay: NUMO_SIM_OWNERS={:?} NUMO_SIM_SEED={} cargo test -p numo-sim --test seeds",
            self.story, self.seed, self.message, self.owners, self.seed
        )
    }
}

impl std::error::Error for Failure {}
