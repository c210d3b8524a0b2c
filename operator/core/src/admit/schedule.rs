//! Whether nodes of an owner may begin at this time, by all hours that hold for it. One question for every kind of owner; a Plan's own
//! `spec.window` has the reference's meaning and is asked by the Plan (`window.rs`).
//!
//! Every hours that an owner is under must be open: those of a MutexBinding only take away. The MutexWindows of a node hold as one
//! beside them. The forecast is asked before a turn only: a turn that began in time is not given back because it takes long.

use super::{
    hours::{Freeze, Hours},
    union::{State, Union},
    windows,
};
use crate::{
    observed::{NodeView, Observed, WindowView},
    time::words,
    why::Why,
};
use jiff::{Timestamp, tz::TimeZone};
use numo_api::{Reason, conditions::Actor};
use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
};

/// How many openings ahead are compared with what a node takes.
const OPENINGS_COMPARED: usize = 8;
/// How many times ahead are looked at for one at which all hours are open.
const TIMES_COMPARED: usize = 64;

/// Why nothing goes on, at a time, under the MutexWindows at these places.
type Said = BTreeMap<(Timestamp, Vec<usize>), Option<Why>>;

/// All that says when nodes of an owner begin.
#[derive(Clone, Debug, Default)]
pub struct Schedule<'a> {
    /// All of these must be open.
    pub(super) hours: Vec<Source<'a>>,
    /// By the field that has it, such as `spec.startAfter`.
    pub(super) starts: Vec<(String, Timestamp)>,
    /// How the hours stand at the first time that was asked about.
    known: OnceCell<(Timestamp, Vec<State>)>,
    /// What was said at a time of each set of MutexWindows, by their places: a decision asks for each node.
    said: RefCell<Said>,
    /// No MutexWindow counts: what is so already goes on.
    is_exempt: bool,
}

/// How hours stand at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What has them, such as `spec.window` or `MutexBinding nights spec.window`.
    pub name: String,
    /// For people: `open until Fri 2027-01-15 08:20 UTC`.
    pub words: String,
    /// When they close; none while they are closed, or if no end is in sight.
    pub closes: Option<Timestamp>,
    /// When they open; none while they are open, or if they never do.
    pub opens: Option<Timestamp>,
    /// Whether nodes may begin.
    pub is_open: bool,
}

/// Hours that hold as one.
#[derive(Clone, Debug)]
pub(super) struct Source<'a> {
    /// What has them, such as `spec.window` or `MutexWindow nights`.
    name: String,
    /// In front of the fields of each, such as `spec.window` or `MutexWindow nights spec`.
    fields: Vec<String>,
    hours: Vec<&'a Hours>,
    /// At the time of this decision they are known to be open until then.
    open_until: Option<Timestamp>,
}

impl Source<'_> {
    /// The form of a verb that fits the name.
    fn verb(&self, one: &'static str, many: &'static str) -> &'static str {
        if self.hours.len() == 1 { one } else { many }
    }

    pub(super) fn union(&self) -> Union<'_, '_> {
        Union(&self.hours)
    }

    /// How much must be left before the end for a node to begin (seconds), which needs `forecast`; none if nothing says.
    pub(super) fn needed(&self, at: Timestamp, forecast: Option<i64>) -> Option<i64> {
        Some(self.least(at, &|| forecast)?.0)
    }

    /// The same with the field that says so, or with the forecast: of several hours that are open the one counts that asks for the least.
    fn least(&self, at: Timestamp, forecast: &impl Fn() -> Option<i64>) -> Option<(i64, String)> {
        let hours = self.union();
        let mut least: Option<(i64, String)> = None;
        for (place, hours) in hours.opened_by(at) {
            let (needed, basis) = if let Some(seconds) = hours.min_remaining_seconds {
                let field = self.fields.get(place).map_or("", String::as_str);
                (seconds, format!("{field}.minRemainingSeconds is {seconds}"))
            } else {
                let forecast = forecast()?;
                let basis = format!("a node of it takes up to {}", words(forecast));
                (forecast, basis)
            };
            if least.as_ref().is_none_or(|(known, _)| needed < *known) {
                least = Some((needed, basis));
            }
        }
        least
    }

    /// A time as people at the place of the openings read it.
    fn clock(&self, at: Timestamp) -> String {
        self.hours
            .first()
            .map(|hours| hours.clock(at))
            .unwrap_or_default()
    }
}

impl<'a> Schedule<'a> {
    /// The schedule of what another operator has begun: it is not begun anew, and no hours keep it from going on.
    pub fn exempt() -> Self {
        Self {
            is_exempt: true,
            ..Self::default()
        }
    }

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
            Some(Ok(hours)) => {
                let name = format!("{field}.window");
                self.hours.push(Source {
                    fields: vec![name.clone()],
                    name,
                    hours: vec![hours],
                    open_until: None,
                });
            }
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

    /// The same for nodes that these MutexWindows select.
    ///
    /// Errors: a MutexWindow that cannot be understood; nothing begins under it.
    pub fn under(&self, windows: &[&'a WindowView]) -> Result<Self, Why> {
        self.under_open(windows, None)
    }

    /// The same where some of these MutexWindows are known to be open from the time of this decision until `open_until`.
    ///
    /// Errors: as above.
    pub(super) fn under_open(
        &self,
        windows: &[&'a WindowView],
        open_until: Option<Timestamp>,
    ) -> Result<Self, Why> {
        if windows.is_empty() || self.is_exempt {
            return Ok(self.clone());
        }
        let mut hours = Vec::new();
        for window in windows {
            hours.push(
                window
                    .hours
                    .as_ref()
                    .map_err(|problem| windows::wrong(window, problem))?,
            );
        }
        let names = windows
            .iter()
            .map(|window| format!("MutexWindow {}", window.name));
        let names: Vec<String> = names.collect();
        let mut all = self.hours.clone();
        all.push(Source {
            name: names.join(" and "),
            fields: names.iter().map(|name| format!("{name} spec")).collect(),
            hours,
            open_until,
        });
        Ok(Self {
            hours: all,
            starts: self.starts.clone(),
            ..Self::default()
        })
    }

    /// Why no turn of this node goes on that has disrupted nothing yet.
    pub fn closed_to(&self, node: &NodeView, observed: &Observed, now: Timestamp) -> Option<Why> {
        let windows = observed.windows.values().enumerate();
        let (places, windows): (Vec<usize>, Vec<&WindowView>) = windows
            .filter(|(_, window)| windows::covers(window, node))
            .unzip();
        let known = self.said.borrow().get(&(now, places.clone())).cloned();
        known.unwrap_or_else(|| {
            let why = match self.under(&windows) {
                Ok(schedule) => schedule.closed(now),
                Err(why) => Some(why),
            };
            self.said.borrow_mut().insert((now, places), why.clone());
            why
        })
    }

    /// Why no turn goes on that has disrupted nothing yet, whatever its node is.
    pub fn closed(&self, now: Timestamp) -> Option<Why> {
        let later = self.starts.iter().filter(|(_, start)| *start > now);
        if let Some((field, start)) = later.max_by_key(|(_, start)| *start) {
            let message = format!("{field} is {start}: no node begins before that");
            return Some(Why::new(Reason::StartsLater, message).until(*start));
        }
        let sources = self.hours.iter();
        let shut = sources.filter_map(|source| match source.union().shut_at(now)? {
            State::Shut { freeze, opens } => Some(shut(source, freeze.as_ref(), opens)),
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
            let opens = self.hours.iter().map(|source| source.union().opens_after(at));
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
            let clock = self.hours.first().map(|source| source.clock(at));
            let clock = clock.unwrap_or_default();
            let message = format!("{}; all of its hours are open {clock}", worst.message);
            return Why::new(worst.reason, message).until(at);
        }
        let names: Vec<&str> = self.hours.iter().map(|source| source.name.as_str()).collect();
        let names = names.join(" and ");
        let message = format!("{names} are never open at once: found no such time ahead, wanted one");
        Why::new(Reason::NeverOpens, message).ended_by(Actor::ClusterAdmin)
    }

    /// How each of the hours stands. Worked out once for the time of a decision, which asks for each node.
    fn states(&self, now: Timestamp) -> Vec<State> {
        let state = |source: &Source<'_>| {
            let known = source.open_until.unwrap_or(now);
            source.union().at_when_open_until(now, known)
        };
        let work_out = || self.hours.iter().map(state).collect();
        let (at, known) = self.known.get_or_init(|| (now, work_out()));
        if *at == now { known.clone() } else { work_out() }
    }

    /// Why no node begins: the window is closed, or would be before the node is done. `forecast` is what a node takes
    /// at most, as far as is known (seconds):
    /// all journals are read for it, and it is asked for only where an end is in sight that says nothing itself.
    pub fn refusal(&self, now: Timestamp, forecast: impl Fn() -> Option<i64>) -> Option<Why> {
        self.closed(now).or_else(|| {
            let states = self.states(now);
            let mut open = states.iter().zip(&self.hours);
            open.find_map(|(state, source)| match state {
                State::Open { until: Some(end) } => ends_soon(source, (now, *end), &forecast),
                State::Open { until: None } | State::Shut { .. } => None,
            })
        })
    }

    /// How each of its hours stands, by the name of what has them, in words and as times.
    pub fn standing(&self, now: Timestamp) -> Vec<Standing> {
        let states = self.states(now).into_iter().zip(&self.hours);
        let each = states.map(|(state, source)| Standing {
            name: source.name.clone(),
            words: state.words(|at| source.clock(at)),
            closes: state.closes_at(),
            opens: state.opens_at(),
            is_open: state.is_open(),
        });
        each.collect()
    }

    /// The time zone of the first of its hours that has one of its own.
    pub fn zone(&self) -> Option<&TimeZone> {
        let hours = self.hours.iter().flat_map(|source| &source.hours);
        hours.map(|hours| hours.zone()).next()
    }

    /// When the answer may be another one next.
    pub fn changes_after(&self, now: Timestamp) -> Option<Timestamp> {
        let starts = self.starts.iter().map(|(_, start)| *start);
        let starts = starts.filter(|start| *start > now);
        let hours = self.states(now).into_iter();
        let hours = hours.filter_map(|state| state.changes_at());
        starts.chain(hours).min()
    }
}

fn shut(source: &Source<'_>, freeze: Option<&Freeze>, opens: Option<Timestamp>) -> Why {
    let name = &source.name;
    let hours = source.union();
    let next = opens.map(|at| source.clock(at));
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
                "{name} {} freeze {}{reason} until {}; {then}",
                source.verb("has", "have"),
                freeze.name,
                source.clock(freeze.to)
            );
            Why::new(Reason::Frozen, message)
        }
        (None, Some(next)) => Why::new(
            Reason::OutsideWindow,
            format!(
                "{name} {} closed ({hours}); {} {next}",
                source.verb("is", "are"),
                source.verb("it opens", "they open")
            ),
        ),
        (None, None) => {
            let message = format!(
                "{name} never {} ({hours}): found no opening ahead, wanted one",
                source.verb("opens", "open")
            );
            Why::new(Reason::NeverOpens, message)
        }
    };
    match opens {
        Some(at) => why.until(at),
        None => why.ended_by(Actor::ClusterAdmin),
    }
}

/// Too little is left of the opening.
fn ends_soon(
    source: &Source<'_>,
    (now, end): (Timestamp, Timestamp),
    forecast: &impl Fn() -> Option<i64>,
) -> Option<Why> {
    let hours = source.union();
    let left = end.as_second() - now.as_second();
    let (needed, basis) = source.least(now, forecast).filter(|(needed, _)| left < *needed)?;
    let name = &source.name;
    let message = format!(
        "{name} {} in {} ({}), and {basis}",
        source.verb("closes", "close"),
        words(left),
        source.clock(end)
    );
    let mut at = end;
    for _ in 0..OPENINGS_COMPARED {
        let Some(opens) = hours.opens_after(at) else { break };
        match hours.at(opens) {
            State::Open { until: Some(until) } if until.as_second() - opens.as_second() < needed => {
                at = until;
            }
            _ => {
                let message = format!("{message}; nodes begin again {}", source.clock(opens));
                return Some(Why::new(Reason::WindowEndsSoon, message).until(opens));
            }
        }
    }
    let message = format!("{message}; no opening ahead is that long, wanted a longer one");
    Some(Why::new(Reason::WindowEndsSoon, message).ended_by(Actor::ClusterAdmin))
}
