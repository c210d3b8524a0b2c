//! DaemonSets by the name of kured, and whether their reboot locks are believed: anybody with a namespace may make such a DaemonSet, and a
//! lock keeps every owner off its nodes. Only who may change nodes can reboot them in kured's way. Reads nothing.

use numo_core::observed::RebootLock;
use std::time::Duration;
use tokio::time::Instant;

/// Nodes of one DaemonSet that are believed to hold its lock, at most: `--concurrency` of kured is 1 as a rule.
pub const HOLDERS: usize = 32;
/// How long a lock is believed, whatever it says of itself (seconds): kured's without a time to live is taken back by kured alone.
pub const BELIEVED_SECONDS: i64 = 24 * 3600;
/// How often it is asked again what a DaemonSet's account may.
const AGAIN: Duration = Duration::from_mins(1);
/// How soon it is asked again where the API server did not say.
const UNSAID_AGAIN: Duration = Duration::from_secs(5);

/// A DaemonSet by the name of kured.
#[derive(Clone, Debug)]
pub struct Kured {
    /// The ServiceAccount of its pods.
    pub account: String,
    /// The nodes that hold its lock, as it says.
    pub locks: Vec<RebootLock>,
    /// Whether the account may change nodes, once that is known.
    pub may: Option<bool>,
    /// Whether it was there before numo decided anything.
    pub from_start: bool,
    /// When it was asked what the account may.
    pub asked_at: Option<Instant>,
}

impl Kured {
    /// Whether its locks count.
    pub fn is_believed(&self) -> bool {
        self.may == Some(true)
    }

    /// How soon it is to be asked what the account may.
    pub fn due_in(&self) -> Duration {
        let pause = if self.may.is_none() { UNSAID_AGAIN } else { AGAIN };
        self.asked_at
            .map_or(Duration::ZERO, |asked| pause.saturating_sub(asked.elapsed()))
    }
}
