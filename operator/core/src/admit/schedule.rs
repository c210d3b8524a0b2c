//! Whether nodes of an owner may begin at this time, by all hours that hold for it. One question for every kind of owner; a Plan's own
//! `spec.window` has the reference's meaning and is asked by the Plan (`window.rs`).
//!
//! Every hours that an owner is under must be open: those of a MutexBinding only take away. The forecast is asked before a turn
//! only: a turn that began in time is not given back because it takes long.

use super::hours::{Freeze, Hours, State};
use crate::{time::words, why::Why};
use jiff::Timestamp;
use numo_api::{Reason, conditions::Actor};
use std::cell::OnceCell;

/// How many openings ahead are compared with what a node takes.
const OPENINGS_COMPARED: usize = 8;
/// How many times ahead are looked at for one at which all hours are open.
const TIMES_COMPARED: usize = 64;

/// All that says when nodes of an owner begin.
#[derive(Clone, Debug, Default)]
pub struct Schedule<'a> {
    /// By the field that has them, such as `spec.window`.
    hours: Vec<(String, &'a Hours)>,
    /// By the field that has it, such as `spec.startAfter`.
    starts: Vec<(String, Timestamp)>,
    /// How the hours stand at the first time that was asked about.
    known: OnceCell<(Timestamp, Vec<State>)>,
}

impl<'a> Schedule<'a> {
    /// Puts the owner under the hours and the start that an object with `field` in front of its fields has.
    ///
    /// Errors: the field, what was found and what is wanted.
    pub fn add(
        &mut self,
        field: &str,
        hours: Option<&'a Result<Hours, String>>,
        start_after: Option<&str>,
    ) -> Result<(), String> {
        match hours {
            None => {}
            Some(Ok(hours)) => self.hours.push((format!("{field}.window"), hours)),
            Some(Err(problem)) => return Err(format!("{field}.window.{problem}")),
        }
        if let Some(found) = start_after {
            let start = found.parse().map_err(|_| {
                format!("{field}.startAfter: found {found:?}, wanted a time such as 2026-12-19T22:00:00Z")
            })?;
            self.starts.push((format!("{field}.startAfter"), start));
        }
        Ok(())
    }

    /// Why no turn goes on that has disrupted nothing yet.
    pub fn closed(&self, now: Timestamp) -> Option<Why> {
        let later = self.starts.iter().filter(|(_, start)| *start > now);
        if let Some((field, start)) = later.max_by_key(|(_, start)| *start) {
            let message = format!("{field} is {start}: no node begins before that");
            return Some(Why::new(Reason::StartsLater, message).until(*start));
        }
        let states = self.states(now);
        let shut = states
            .iter()
            .zip(&self.hours)
            .filter_map(|(state, (field, hours))| match state {
                State::Shut { freeze, opens } => Some(shut(field, hours, freeze.as_ref(), *opens)),
                State::Open { .. } => None,
            });
        let worst = shut.max_by_key(|why| (why.until.is_none(), why.until))?;
        if self.hours.len() == 1 || worst.until.is_none() {
            return Some(worst);
        }
        Some(self.until_all_open(now, worst))
    }

    /// The same wait, until all hours are open at once: those of one may open while others are shut.
    fn until_all_open(&self, now: Timestamp, worst: Why) -> Why {
        let mut at = now;
        for _ in 0..TIMES_COMPARED {
            let opens = self.hours.iter().map(|(_, hours)| hours.opens_after(at));
            let opens = opens.collect::<Option<Vec<_>>>();
            let Some(last) = opens.and_then(|all| all.into_iter().max()) else {
                break;
            };
            if last > at {
                at = last;
                continue;
            }
            if worst.until == Some(at) {
                return worst;
            }
            let clock = self.hours.first().map(|(_, hours)| hours.clock(at));
            let clock = clock.unwrap_or_default();
            let message = format!("{}; all of its hours are open {clock}", worst.message);
            return Why::new(worst.reason, message).until(at);
        }
        let fields: Vec<&str> = self.hours.iter().map(|(field, _)| field.as_str()).collect();
        let fields = fields.join(" and ");
        let message = format!("{fields} are never open at once: found no such time ahead, wanted one");
        Why::new(Reason::NeverOpens, message).ended_by(Actor::ClusterAdmin)
    }

    /// How each of the hours stands. Worked out once for the time of a decision, which asks for each node.
    fn states(&self, now: Timestamp) -> Vec<State> {
        let work_out = || self.hours.iter().map(|(_, hours)| hours.at(now)).collect();
        let (at, known) = self.known.get_or_init(|| (now, work_out()));
        if *at == now { known.clone() } else { work_out() }
    }

    /// Why no node begins: the window is closed, or would be before the node is done. `median` is what a node took until now (seconds):
    /// all journals are read for it, and it is asked for only where an end is in sight that says nothing itself.
    pub fn refusal(&self, now: Timestamp, median: impl Fn() -> Option<i64>) -> Option<Why> {
        self.closed(now).or_else(|| {
            let states = self.states(now);
            let mut open = states.iter().zip(&self.hours);
            open.find_map(|(state, (field, hours))| match state {
                State::Open { until: Some(end) } => {
                    let needed = hours.min_remaining_seconds.or_else(&median)?;
                    ends_soon(field, hours, (now, *end), needed)
                }
                State::Open { until: None } | State::Shut { .. } => None,
            })
        })
    }

    /// When the answer may be another one next.
    pub fn changes_after(&self, now: Timestamp) -> Option<Timestamp> {
        let starts = self.starts.iter().map(|(_, start)| *start);
        let starts = starts.filter(|start| *start > now);
        let hours = self.states(now).into_iter().filter_map(|state| match state {
            State::Open { until } => until,
            State::Shut { opens, .. } => opens,
        });
        starts.chain(hours).min()
    }
}

fn shut(field: &str, hours: &Hours, freeze: Option<&Freeze>, opens: Option<Timestamp>) -> Why {
    let next = opens.map(|at| hours.clock(at));
    let why = match (freeze, &next) {
        (Some(freeze), _) => {
            let reason = match freeze.reason.as_str() {
                "" => String::new(),
                reason => format!(" ({reason})"),
            };
            let then = next.map_or_else(
                || "nothing opens after that".to_owned(),
                |next| format!("nodes begin again {next}"),
            );
            let message = format!(
                "{field} has freeze {}{reason} until {}; {then}",
                freeze.name,
                hours.clock(freeze.to)
            );
            Why::new(Reason::Frozen, message)
        }
        (None, Some(next)) => Why::new(
            Reason::OutsideWindow,
            format!("{field} is closed ({hours}); it opens {next}"),
        ),
        (None, None) => {
            let message = format!("{field} never opens ({hours}): found no opening ahead, wanted one");
            Why::new(Reason::NeverOpens, message)
        }
    };
    match opens {
        Some(at) => why.until(at),
        None => why.ended_by(Actor::ClusterAdmin),
    }
}

/// `needed`: so many seconds must be left.
fn ends_soon(field: &str, hours: &Hours, (now, end): (Timestamp, Timestamp), needed: i64) -> Option<Why> {
    let left = end.as_second() - now.as_second();
    if left >= needed {
        return None;
    }
    let basis = match hours.min_remaining_seconds {
        Some(seconds) => format!("{field}.minRemainingSeconds is {seconds}"),
        None => format!("a node of it took {} in the median", words(needed)),
    };
    let message = format!(
        "{field} closes in {} ({}), and {basis}",
        words(left),
        hours.clock(end)
    );
    let mut at = end;
    for _ in 0..OPENINGS_COMPARED {
        let Some(opens) = hours.opens_after(at) else { break };
        match hours.at(opens) {
            State::Open { until: Some(until) } if until.as_second() - opens.as_second() < needed => {
                at = until;
            }
            _ => {
                let message = format!("{message}; nodes begin again {}", hours.clock(opens));
                return Some(Why::new(Reason::WindowEndsSoon, message).until(opens));
            }
        }
    }
    let message = format!("{message}; no opening ahead is that long, wanted a longer one");
    Some(Why::new(Reason::WindowEndsSoon, message).ended_by(Actor::ClusterAdmin))
}
