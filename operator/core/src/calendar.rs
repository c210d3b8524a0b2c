//! All that says when nodes of one owner begin, whatever its kind is: its own hours, a Plan's `spec.window`, and the MutexWindows of its
//! nodes. For forecasts and for people; what keeps a node from its turn is decided where it waits. Reads no clock.

use crate::{
    admit::{
        ahead::Ahead,
        hours,
        schedule::{Schedule, Standing},
        windows,
    },
    observed::{Observed, WindowView},
    owner::Owner,
    owners,
};
use jiff::{Timestamp, tz::TimeZone};
use numo_api::plan_window::Window;
use std::collections::BTreeMap;

/// All hours of one owner.
#[derive(Clone, Debug)]
pub struct Calendar<'a> {
    observed: &'a Observed,
    own: Schedule<'a>,
    plan: Option<&'a Window>,
}

impl<'a> Calendar<'a> {
    /// Of an owner that was seen. Hours that nobody understands count as none here: the owner says so, and begins nothing.
    pub fn of(owner: &Owner, observed: &'a Observed) -> Self {
        let own = owners::schedule(owner, observed);
        Self {
            observed,
            own: own.and_then(Result::ok).unwrap_or_default(),
            plan: owners::window(owner, observed),
        }
    }

    /// The hours of these nodes, and how many of them have the same: nodes that the same MutexWindows select are one item. A node under
    /// a MutexWindow that nobody understands has no item.
    pub fn of_nodes<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<(Ahead<'a>, usize)> {
        let mut numbers: BTreeMap<Vec<&str>, (Vec<&'a WindowView>, usize)> = BTreeMap::new();
        for name in names {
            let node = self.observed.nodes.get(name);
            let windows = node.map_or_else(Vec::new, |node| windows::of_node(self.observed, node));
            let named = windows.iter().map(|window| window.name.as_str()).collect();
            numbers.entry(named).or_insert_with(|| (windows, 0)).1 += 1;
        }
        let each = numbers.into_values().filter_map(|(windows, number)| {
            let schedule = self.own.under(&windows).ok()?;
            let plan = self.plan;
            Some((Ahead { schedule, plan }, number))
        });
        each.collect()
    }

    /// How each of the owner's own hours stands: MutexWindows are told of by themselves.
    pub fn standing(&self, now: Timestamp) -> Vec<Standing> {
        let of_plan = self.plan.map(|window| {
            let (is_open, changes) = (window.contains(now), window.changes_after(now));
            let clock = changes.map(|at| hours::clock(window.zone(), at));
            let words = match (is_open, clock) {
                (true, Some(clock)) => format!("open until {clock}"),
                (true, None) => "open".to_owned(),
                (false, Some(clock)) => format!("closed, opens {clock}"),
                (false, None) => "closed, never opens".to_owned(),
            };
            Standing {
                name: "spec.window".to_owned(),
                words,
                closes: changes.filter(|_| is_open),
                opens: changes.filter(|_| !is_open),
                is_open,
            }
        });
        of_plan.into_iter().chain(self.own.standing(now)).collect()
    }

    /// When the owner's own hours close, which are open; none while one of them is closed, or if no end is in sight.
    pub fn closes(&self, now: Timestamp) -> Option<Timestamp> {
        let standing = self.standing(now);
        let is_open = standing.iter().all(|one| one.is_open) && self.own.closed(now).is_none();
        let ends = standing.iter().filter_map(|one| one.closes);
        ends.min().filter(|_| is_open)
    }

    /// A function that writes a time in the time zone of the hours: the owner's own, else those of the first MutexWindow of one of these
    /// nodes, else UTC.
    pub fn clock<'n, N: Iterator<Item = &'n str>>(
        &self,
        mut nodes: N,
    ) -> impl Fn(Timestamp) -> String + use<'a, 'n, N> {
        let own = self.own.zone().or_else(|| Some(self.plan?.zone()));
        let of_windows = || {
            nodes.find_map(|name| {
                let node = self.observed.nodes.get(name)?;
                let windows = windows::of_node(self.observed, node);
                windows
                    .iter()
                    .find_map(|window| Some(window.hours.as_ref().ok()?.zone()))
            })
        };
        let zone = own.or_else(of_windows).unwrap_or(&TimeZone::UTC).clone();
        move |at| hours::clock(&zone, at)
    }
}
