//! Several hours that hold as one, as the MutexWindows of a node do: open while an opening of any of them is open, shut while a freeze
//! of any of them holds. One set of hours is a union of one. Reads no clock.

use super::hours::{Freeze, Hours};
use jiff::{SignedDuration, Timestamp};

/// Openings and freezes that are looked at one after the other to find a beginning.
const LOOKED_AT: usize = 256;
/// So many openings without a gap are joined, those of one cron of a day being one: as many as a day has minutes, the shortest that a
/// cron tells apart. Only openings of several crons that take turns are more; their end is told of as far as it was looked for.
const JOINED: usize = 24 * 60;
/// How far ahead an end is told of (seconds): what is open for longer counts as open without an end.
const AHEAD_SECONDS: i64 = 35 * 86_400;

/// Hours that hold as one. None at all are always open.
#[derive(Clone, Copy, Debug)]
pub struct Union<'s, 'a>(pub &'s [&'a Hours]);

/// How hours stand at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nodes may begin.
    Open {
        /// Until when; none if no end is in sight.
        until: Option<Timestamp>,
    },
    /// No node begins.
    Shut {
        /// The freeze that holds, if one does.
        freeze: Option<Freeze>,
        /// When nodes may begin next; none is never.
        opens: Option<Timestamp>,
    },
}

impl State {
    /// Whether nodes may begin.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// When nodes may begin no more; none while they may not, or if no end is in sight.
    pub const fn closes_at(&self) -> Option<Timestamp> {
        match self {
            Self::Open { until } => *until,
            Self::Shut { .. } => None,
        }
    }

    /// When nodes may begin next; none while they may, or if that is never.
    pub const fn opens_at(&self) -> Option<Timestamp> {
        match self {
            Self::Open { .. } => None,
            Self::Shut { opens, .. } => *opens,
        }
    }

    /// The freeze that holds, if one does.
    pub const fn freeze(&self) -> Option<&Freeze> {
        match self {
            Self::Open { .. } => None,
            Self::Shut { freeze, .. } => freeze.as_ref(),
        }
    }

    /// For people: `open until Fri 2027-01-15 08:20 UTC`. `clock` says a time as people at the place of the openings read it.
    pub fn words(&self, clock: impl Fn(Timestamp) -> String) -> String {
        match self {
            Self::Open { until: None } => "open".to_owned(),
            Self::Open { until: Some(at) } => format!("open until {}", clock(*at)),
            Self::Shut { freeze, opens } => {
                let by = freeze
                    .as_ref()
                    .map_or_else(|| "closed".to_owned(), |freeze| format!("freeze {}", freeze.name));
                let next =
                    opens.map_or_else(|| "never opens".to_owned(), |at| format!("opens {}", clock(at)));
                format!("{by}, {next}")
            }
        }
    }

    /// When they stand otherwise next.
    pub fn changes_at(&self) -> Option<Timestamp> {
        self.closes_at().or(self.opens_at())
    }
}

impl<'a> Union<'_, 'a> {
    /// How they stand at this time.
    pub fn at(&self, now: Timestamp) -> State {
        self.at_when_open_until(now, now)
    }

    /// The same of hours of which some are known to be open from now until a time ([`Self::known_open_until`]): until when all of them
    /// are is looked for from there.
    pub fn at_when_open_until(&self, now: Timestamp, known: Timestamp) -> State {
        self.shut_at(now).unwrap_or_else(|| self.open_at(now, known))
    }

    /// Until when openings of these hours follow each other from now on without a gap, freezes aside; `now` if none is open.
    pub fn known_open_until(&self, now: Timestamp) -> Timestamp {
        if !self.has_openings() || !self.is_in_opening(now) {
            return now;
        }
        let no_end = || SignedDuration::from_secs(AHEAD_SECONDS + 1);
        let end = self.end_of_opening(now, now);
        end.unwrap_or_else(|| now.saturating_add(no_end()).unwrap_or(now))
    }

    /// How they are shut at this time; none if they are open. Until when those are is a longer search.
    pub fn shut_at(&self, now: Timestamp) -> Option<State> {
        let freeze = self.frozen(now);
        if freeze.is_none() && self.is_in_opening(now) {
            return None;
        }
        Some(State::Shut {
            opens: self.opens_after(freeze.map_or(now, |freeze| freeze.to)),
            freeze: freeze.cloned(),
        })
    }

    /// How they are open at this time.
    fn open_at(&self, now: Timestamp, known: Timestamp) -> State {
        let freezes = self.0.iter().flat_map(|hours| hours.freezes());
        let freezes = freezes.map(|freeze| freeze.from);
        let first = freezes.filter(|from| *from > now).min();
        let until = self.end_of_opening(now, known).into_iter().chain(first).min();
        State::Open { until }
    }

    /// The first time from `at` on at which nodes may begin; none if there is none in sight.
    pub fn opens_after(&self, at: Timestamp) -> Option<Timestamp> {
        let mut at = at;
        for _ in 0..LOOKED_AT {
            if let Some(freeze) = self.frozen(at) {
                at = freeze.to;
            } else if self.is_in_opening(at) {
                return Some(at);
            } else {
                let starts = self.0.iter().filter_map(|hours| hours.opening_starts_after(at));
                at = starts.min()?;
            }
        }
        None
    }

    /// The hours that let nodes begin at this time, by their places: all of them, where none has an opening.
    pub fn opened_by(&self, at: Timestamp) -> impl Iterator<Item = (usize, &'a Hours)> {
        let is_bounded = self.has_openings();
        let each = self.0.iter().copied().enumerate();
        each.filter(move |(_, hours)| !is_bounded || hours.opening_ends(at).is_some())
    }

    fn has_openings(&self) -> bool {
        self.0.iter().any(|hours| hours.has_openings())
    }

    fn frozen(&self, at: Timestamp) -> Option<&'a Freeze> {
        // Of several the one that ends last: the earlier one opens nothing.
        let freezes = self.0.iter().flat_map(|hours| hours.freezes());
        freezes
            .filter(|freeze| freeze.from <= at && at < freeze.to)
            .max_by_key(|freeze| freeze.to)
    }

    fn is_in_opening(&self, at: Timestamp) -> bool {
        !self.has_openings() || self.0.iter().any(|hours| hours.opening_ends(at).is_some())
    }

    /// When the opening of this time ends, with those that follow without a gap; none if no end is in sight: never because the search
    /// was given up, as a node would begin that is not done in time. They are known to be open until `known`.
    fn end_of_opening(&self, now: Timestamp, known: Timestamp) -> Option<Timestamp> {
        let is_ahead = |end: Timestamp| end.as_second() - now.as_second() > AHEAD_SECONDS;
        if !self.has_openings() || is_ahead(known) {
            return None;
        }
        let mut end = known;
        for _ in 0..JOINED {
            let ends = self.0.iter().filter_map(|hours| hours.opening_ends(end));
            let Some(later) = ends.max() else {
                return Some(end);
            };
            end = later;
            if is_ahead(end) {
                return None;
            }
        }
        Some(end)
    }
}

impl std::fmt::Display for Union<'_, '_> {
    /// As they were given, for people.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_bounded = self.has_openings();
        let told = self.0.iter().filter(|hours| !is_bounded || hours.has_openings());
        for (index, hours) in told.enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{hours}")?;
        }
        Ok(())
    }
}
