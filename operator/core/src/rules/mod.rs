//! How a phase of rules comes along, from its Jobs, its evaluations and the verdicts in a journal. Pure observation: it
//! says what to do next and does nothing.

mod admission;
mod attempt;
mod earlier;
mod evaluation;
pub mod inline;
mod inquiry;
mod job;
pub mod own;
mod phase;
mod stale;
mod verdicts;
mod wrong;

pub use self::{
    admission::{Admission, admission},
    attempt::next_job,
    earlier::earlier,
    inquiry::{Inquiry, Progress, Subject},
    job::{REFUSED_SECONDS, being_deleted, is_uninvited},
    phase::{BEFORE_RELEASE, any_runs_in, of_turn, progress},
    stale::stale,
    verdicts::{JOB_PASS_SECONDS, failed_for_good, is_fresh, last_word},
    wrong::{unusable, wrong},
};
pub use crate::{
    observed::EVALUATED_PASS_SECONDS,
    text::clip,
    time::{STUCK_SECONDS, later},
};

/// How old what a rule has read may be when its Pass is taken.
pub const PASS: std::time::Duration = std::time::Duration::from_mins(1);
