//! A Deployment that claims by its name to be an operator which numo replaces: what was found out about it, whether it is
//! believed, and when it is asked about again. Reads nothing.

use super::watched::object::Deployed;
use numo_core::observed::Rival;
use std::time::Duration;
use tokio::time::Instant;

/// How often it is looked again, when something happens, whether another operator may do its work.
const CLAIMS_AGAIN: Duration = Duration::from_mins(1);
/// How often it is looked again what is left of one that does not run.
const LINGERS_AGAIN: Duration = Duration::from_secs(5);
/// How soon it is asked again whether one may that might not; each time twice as late, at most so many times.
const REFUSED_AGAIN: Duration = Duration::from_secs(1);
const REFUSED_DOUBLINGS: u32 = 6;

/// A Deployment that has the name of an operator which numo replaces. Anybody may make one: it counts only while its
/// ServiceAccount may do that operator's work.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The Deployment, as it is or was.
    pub of: Deployed,
    /// Whether it is deleted: what is left of it is still looked for.
    pub is_deleted: bool,
    /// Whether it was there before numo decided anything.
    pub from_start: bool,
    /// What was found out about it, once it was.
    pub judged: Option<Judged>,
    /// How the Deployment stands to what was found out.
    pub is_as: IsAs,
    /// Number of the question about it as it is now; 0 before it is asked.
    pub asked: u64,
    /// When that was asked.
    pub asked_at: Option<Instant>,
    /// How often it was found since it changed that its ServiceAccount may not.
    pub refusals: u32,
}

/// How a Deployment stands to what was found out about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsAs {
    /// It has not changed since.
    Judged,
    /// It has changed, and was not believed to be live before.
    New,
    /// It has changed, and was believed to be live before.
    LiveBefore,
}

/// What was found out about a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Whether its ServiceAccount may do the operator's work.
    pub may: bool,
    /// What is left of it where it does not run; none if nothing is.
    pub lingers: Option<String>,
}

impl Claim {
    /// The operator that the Deployment is, if it is believed to be live.
    pub fn rival(&self) -> Option<Rival> {
        let rival = |lingers| {
            let what = self.of.what;
            Some(Rival { what, lingers })
        };
        match &self.judged {
            // One that is there from the start may be writing already; of one that comes later it is found out first.
            None => rival(None).filter(|_| self.from_start && self.of.runs),
            Some(judged) if !judged.may => None,
            Some(_) if self.of.runs => rival(None),
            Some(_) if self.is_as == IsAs::LiveBefore => {
                rival(Some("what is left of it is being looked for".to_owned()))
            }
            Some(judged) => judged.lingers.clone().and_then(|words| rival(Some(words))),
        }
    }

    /// How soon it is to be asked about again, whatever else happens; none if that can wait until something else happens.
    pub fn again(&self) -> Option<Duration> {
        let is_refused = self.judged.as_ref().is_some_and(|judged| !judged.may);
        if self.of.runs && is_refused {
            // Rights are granted in any order, and the API server needs a moment to know them.
            let pause = REFUSED_AGAIN * 2_u32.pow(self.refusals.min(REFUSED_DOUBLINGS));
            return Some(pause);
        }
        let lingers = !self.of.runs && self.rival().is_some();
        let awaited = self.judged.is_none();
        (lingers || awaited).then_some(LINGERS_AGAIN)
    }

    /// Whether it is time to ask about it.
    pub fn is_due(&self) -> bool {
        let pause = self.again().or_else(|| self.of.runs.then_some(CLAIMS_AGAIN));
        match self.asked_at {
            None => true,
            Some(at) => pause.is_some_and(|pause| at.elapsed() >= pause),
        }
    }
}
