//! Waves: nodes of an owner that go before others of it. Worked out once a pass from what is seen: which node is of which wave, which wave
//! is under way, and what the nodes of later waves wait for. Which nodes an owner has, in which order, and how each stands, the owner says.
//!
//! A wave of so many nodes has first those whose turns have begun in this run, in the order in which they began, and then the next ones in
//! the order of turns. A later wave begins after it, so that it has the same nodes in every pass and after every restart, whatever
//! waits in another order by then; nothing is written for it.

use super::{
    group::Group,
    room::{Room, Words},
    rows::{Row, Stand, in_turn},
    wave::{Takes, Wave},
    wave_rules::WaveRules,
};
use crate::{
    decision::Decision,
    failures,
    key::Index,
    ledger,
    observed::{IntOrPercent, NodeView, Values},
    report::{NO_WAVE, WaveOver, WaveReport},
    selector::{self, Selector},
    text::{counted, first_of},
    why::Why,
};
use jiff::Timestamp;
use numo_api::Reason;
use std::{cell::OnceCell, collections::BTreeMap};

/// Nodes named in one sentence.
const NAMED: usize = 5;
/// Sentences about the waves of one owner.
const NOTES: usize = 16;

/// The wave whose nodes begin next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub index: usize,
    /// How many there are.
    pub of: usize,
    pub name: Option<String>,
    /// The field by which a person must approve it, if so.
    pub approval: Option<String>,
}

/// The waves of an owner. Without waves nobody waits for any.
#[derive(Debug, Default)]
pub(crate) struct Waves<'a> {
    groups: Vec<Group<'a>>,
    /// The wave of each row that is in one, by the places of the rows.
    places: Vec<Option<usize>>,
    /// The names of the rows, by their places.
    names: Vec<&'a str>,
    /// The wave of each node that is in one, by its name, once somebody asks by that. Whoever goes through it sorts.
    by_name: OnceCell<Index<&'a str, usize>>,
    /// The nodes of no wave that were left out before their turn. They count nowhere, and were approved with the others.
    left_out: Vec<&'a str>,
    /// The wave under way, and until when it soaks if its nodes are done.
    current: Option<(usize, Option<Timestamp>)>,
    /// The room that the wave under way has of its own.
    room: Option<Room<'a>>,
    notes: Vec<String>,
    /// Whether there is more than the short form `first`.
    is_declared: bool,
}

impl<'a> Waves<'a> {
    /// The waves of nodes that are given in the order of their turns.
    pub fn of(waves: &[Wave], rows: &[Row<'a>], now: Timestamp) -> Self {
        let mut all = Self::of_those_there(waves, rows, now);
        all.note_empty();
        all
    }

    /// The same of nodes of owners that come and go: a wave that has none now is nothing to tell people of.
    pub fn of_those_there(waves: &[Wave], rows: &[Row<'a>], now: Timestamp) -> Self {
        let mut all = Self {
            is_declared: waves.iter().any(|wave| !matches!(wave.takes, Takes::First(_))),
            ..Self::default()
        };
        let places = all.places(waves, rows);
        for (row, place) in rows.iter().zip(&places) {
            if let Some(group) = place.and_then(|place| all.groups.get_mut(place)) {
                group.add(row, now);
            }
        }
        all.current = all.under_way(now);
        all.room = all.own_room(rows, &places);
        all.set_budgets();
        all.names = rows.iter().map(|row| row.name).collect();
        all.places = places;
        all
    }

    /// The wave of each row, by their places; waves are made as they are found.
    fn places(&mut self, waves: &[Wave], rows: &[Row<'a>]) -> Vec<Option<usize>> {
        let mut places: Vec<Option<usize>> = vec![None; rows.len()];
        let in_turn = in_turn(waves, rows);
        // Waves often differ by the value of one label: it is looked up once for all of them.
        let mut values: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
        for wave in waves {
            match &wave.takes {
                Takes::Next { size, growth } => self.take_next(wave, (*size, *growth), &in_turn, &mut places),
                Takes::First(selectors) => {
                    let selectors: Vec<Selector<'_>> = selectors.iter().map(Selector::of).collect();
                    let is_of = |row: &Row<'_>| selectors.iter().any(|one| one.matches(&row.node.labels));
                    self.take(wave, rows, &mut places, rows.iter().map(is_of));
                }
                Takes::Labels(selector) => {
                    if let Some((key, value)) = selector::one_label(selector) {
                        let look_up = |row: &Row<'a>| row.node.labels.value(key);
                        let found = values.entry(key);
                        let found = found.or_insert_with(|| rows.iter().map(look_up).collect());
                        let are_of = found.iter().map(|found| *found == Some(value));
                        self.take(wave, rows, &mut places, are_of);
                        continue;
                    }
                    let selector = Selector::of(selector);
                    let is_of = |row: &Row<'_>| selector.matches(&row.node.labels);
                    self.take(wave, rows, &mut places, rows.iter().map(is_of));
                }
                Takes::Pools(pools) => {
                    let is_of = |row: &Row<'_>| pools.iter().any(|pool| pool == row.pool);
                    self.take(wave, rows, &mut places, rows.iter().map(is_of));
                }
            }
        }
        let rest = self.groups.len();
        let mut is_any = false;
        for (row, place) in rows.iter().zip(&mut places) {
            if place.is_none() && row.counts() {
                *place = Some(rest);
                is_any = true;
            } else if place.is_none() && matches!(row.stand, Stand::LeftOut(_)) {
                self.left_out.push(row.name);
            }
        }
        if is_any {
            self.groups.push(Group::default());
        }
        places
    }

    /// A wave takes the nodes of the rows for which `are_of` says so. Those that an earlier wave has are said.
    fn take(
        &mut self,
        wave: &Wave,
        rows: &[Row<'a>],
        places: &mut [Option<usize>],
        are_of: impl Iterator<Item = bool>,
    ) {
        let own = self.groups.len();
        self.groups.push(Group::of(wave));
        // A selector of all nodes means those that are left, and no second wave of the others.
        let is_rest = matches!(&wave.takes, Takes::Labels(selector) if selector::is_empty(selector));
        let mut taken: Option<(&str, usize)> = None;
        let mut others = 0;
        let all = rows.iter().zip(places).zip(are_of);
        for ((row, place), _) in all.filter(|(_, is_of)| *is_of) {
            match place {
                None => *place = Some(own),
                Some(_) if is_rest => {}
                Some(earlier) => {
                    others += usize::from(taken.is_some());
                    taken.get_or_insert((row.name, *earlier));
                }
            }
        }
        if let Some((node, earlier)) = taken.filter(|_| self.is_declared) {
            let more = match others {
                0 => String::new(),
                others => format!(", and {} like it", counted(others, "node")),
            };
            self.note(format!(
                "Node {node} is of {} and of {}, and goes with the first of them{more}",
                self.named(earlier),
                self.named(own)
            ));
        }
    }

    /// A wave takes the next nodes, and so do those that it grows to. `in_turn` are the places of all rows.
    fn take_next(
        &mut self,
        wave: &Wave,
        (size, growth): (IntOrPercent, Option<usize>),
        in_turn: &[usize],
        places: &mut [Option<usize>],
    ) {
        let is_left = |place: &&usize| places.get(**place).is_some_and(Option::is_none);
        let left: Vec<usize> = in_turn.iter().filter(is_left).copied().collect();
        let mut size = size.of(left.len()).max(1);
        let mut left = left.as_slice();
        loop {
            let own = self.groups.len();
            self.groups.push(Group::of(wave));
            let (next, rest) = left.split_at(size.min(left.len()));
            for place in next {
                if let Some(place) = places.get_mut(*place) {
                    *place = Some(own);
                }
            }
            left = rest;
            let Some(growth) = growth.filter(|_| !left.is_empty()) else {
                return;
            };
            size = size.saturating_mul(growth.max(1));
        }
    }

    /// The first wave that keeps others waiting.
    fn under_way(&self, now: Timestamp) -> Option<(usize, Option<Timestamp>)> {
        let last = self.groups.iter().rposition(|group| !group.behind.is_empty())?;
        let mut groups = self.groups.iter().enumerate().take(last + 1);
        groups.find_map(|(index, group)| {
            if !group.is_over() || group.soaks_untold().is_some() {
                return Some((index, None));
            }
            let soaked = group.soaked_at()?;
            (group.soak_seconds > 0 && soaked > now).then_some((index, Some(soaked)))
        })
    }

    /// The room that the wave under way has of its own.
    fn own_room(&self, rows: &[Row<'a>], places: &[Option<usize>]) -> Option<Room<'a>> {
        let (index, _) = self.current?;
        let group = self.groups.get(index)?;
        let limit = group.max_unavailable?.of(group.nodes);
        let words = Words {
            state: "in flight",
            whose: String::new(),
            limit: format!("{}.maxUnavailable", group.field),
            keys: String::new(),
        };
        let mut room = Room::of(limit, [], words).closed_by(group.closed.clone());
        let flying = rows.iter().zip(places);
        for (row, _) in flying.filter(|(row, place)| **place == Some(index) && row.in_flight) {
            room.keep(row.node, row.stand == Stand::Behind { goes_on: false });
        }
        Some(room)
    }

    fn set_budgets(&mut self) {
        for group in &mut self.groups {
            let budget = group.failure_budget;
            group.budget = budget.map(|budget| budget.of(group.nodes).max(1));
        }
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES {
            self.notes.push(note);
        }
    }

    fn note_empty(&mut self) {
        if !self.is_declared {
            return;
        }
        for index in 0..self.groups.len() {
            // That `first` selects nobody is said where it stands; and a control plane that is up to date is as it shall be.
            let is_odd = |group: &Group<'_>| group.nodes == 0 && !group.is_first;
            if self.groups.get(index).is_some_and(is_odd) {
                self.note(format!(
                    "{} has no node, and nobody waits for it",
                    self.named(index)
                ));
            }
        }
    }

    /// A wave in words: `wave 1 (canary)`.
    fn named(&self, index: usize) -> String {
        format!("wave {}{}", index + 1, self.name(index))
    }

    /// The same with the number of waves: `wave 1 of 4 (canary)`.
    fn counted(&self, index: usize) -> String {
        format!("wave {} of {}{}", index + 1, self.groups.len(), self.name(index))
    }

    fn name(&self, index: usize) -> String {
        match self.groups.get(index) {
            Some(Group { name: Some(name), .. }) => format!(" ({name})"),
            Some(group) if group.is_first => format!(" ({})", group.field),
            Some(group) if group.field.is_empty() => format!(" ({NO_WAVE})"),
            _ => String::new(),
        }
    }

    /// The waves of nodes by their names. An owner of thousands asks by the places of its rows instead.
    fn by_name(&self) -> &Index<&'a str, usize> {
        self.by_name.get_or_init(|| {
            let placed = self.names.iter().zip(&self.places);
            placed
                .filter_map(|(name, place)| Some((*name, (*place)?)))
                .collect()
        })
    }

    fn of_node(&self, node: &str) -> Option<usize> {
        self.by_name().get(node).copied()
    }

    fn of_row(&self, row: usize) -> Option<usize> {
        self.places.get(row).copied().flatten()
    }

    /// Whether a node waits for another wave.
    pub fn keeps_waiting(&self, node: &str) -> bool {
        self.current
            .is_some_and(|(current, _)| self.of_node(node).is_some_and(|own| own > current))
    }

    /// The same of the node of the row at this place.
    pub fn keeps_row_waiting(&self, row: usize) -> bool {
        self.current
            .is_some_and(|(current, _)| self.of_row(row).is_some_and(|own| own > current))
    }

    /// Why a node waits for another wave, if so.
    pub fn refusal(&self, node: &str) -> Option<Why> {
        self.current?;
        self.refusal_of_wave(self.of_node(node)?)
    }

    /// The same of the node of the row at this place.
    pub fn refusal_of_row(&self, row: usize) -> Option<Why> {
        self.refusal_of_wave(self.of_row(row)?)
    }

    fn refusal_of_wave(&self, own: usize) -> Option<Why> {
        let (current, soaks) = self.current.filter(|(current, _)| own > *current)?;
        let group = self.groups.get(own)?;
        let waits = group.waits.get_or_init(|| self.waits(own, current, soaks));
        waits.clone()
    }

    /// The rules that the nodes of one wave must pass and others need not.
    pub fn rules(&self) -> WaveRules<'a> {
        if self.groups.iter().all(|group| group.rules.is_empty()) {
            return WaveRules::default();
        }
        WaveRules {
            places: self.by_name().clone(),
            rules: self.groups.iter().map(|group| group.rules.clone()).collect(),
            ..WaveRules::default()
        }
    }

    /// Why there is no room for the node in its wave, if so.
    pub fn no_room(&self, node: &NodeView) -> Option<Why> {
        self.room.as_ref()?.refusal(node)
    }

    /// A node takes a place in its wave.
    pub fn take_place(&mut self, node: &'a NodeView, is_asked_about: bool) {
        if let Some(room) = &mut self.room {
            room.take(node, is_asked_about);
        }
    }

    fn waits(&self, own: usize, current: usize, soaks: Option<Timestamp>) -> Option<Why> {
        let group = self.groups.get(current)?;
        if let Some(other) = group.behind.iter().min().filter(|_| group.is_first) {
            let why = Why::new(
                Reason::FirstNodes,
                format!("Node {other} goes first ({})", group.field),
            );
            return Some(ledger::ended_by_person(why, !group.goes_on));
        }
        let (wave, before) = (self.counted(own), self.named(current));
        if group.is_over() {
            return Some(group.soaks(&wave, &before, soaks));
        }
        let is_next = (current + 1..own).all(|between| self.groups.get(between).is_none_or(Group::is_over));
        let after = if is_next {
            format!("begins when {before} is done")
        } else {
            format!("waits for the waves before it, now for {before}")
        };
        let named = first_of(&group.behind, NAMED);
        let are = if group.behind.len() == 1 { "is" } else { "are" };
        let message = format!("{wave} {after}: {named} {are} not");
        let why = Why::new(Reason::WaitsForWave, message);
        Some(ledger::ended_by_person(why, !group.goes_on))
    }

    /// The wave whose nodes begin next: the one under way, or the one after it while that soaks. None if no node is behind.
    pub fn due(&self) -> Option<Due> {
        let (current, _) = self.current?;
        let mut open = self.groups.iter().enumerate().skip(current);
        let (index, group) = open.find(|(_, group)| !group.is_over())?;
        Some(Due {
            index,
            of: self.groups.len(),
            name: group.name.clone(),
            approval: group.needs_approval.then(|| format!("{}.approval", group.field)),
        })
    }

    /// Whether the node is in the wave of this place.
    pub fn has(&self, wave: usize, node: &str) -> bool {
        self.of_node(node) == Some(wave)
    }

    /// The names of the nodes of one wave, or of all, sorted. A node that was left out stays among those that were approved.
    pub fn names(&self, wave: Option<usize>) -> Vec<&'a str> {
        let all = self.by_name().iter();
        let of_wave = all.filter(|(_, place)| wave.is_none_or(|wave| **place == wave));
        let mut names: Vec<&str> = of_wave.map(|(name, _)| *name).collect();
        let is_rest = |wave: usize| self.groups.get(wave).is_some_and(|group| group.field.is_empty());
        if wave.is_none_or(is_rest) {
            names.extend(&self.left_out);
        }
        names.sort_unstable();
        names
    }

    /// Why nothing begins while a wave soaks.
    pub fn soaking(&self) -> Option<Why> {
        let (current, soaks) = self.current?;
        if !self.groups.get(current)?.is_over() {
            return None;
        }
        let mut later = self.groups.iter().enumerate().skip(current + 1);
        let (next, _) = later.find(|(_, group)| !group.behind.is_empty())?;
        self.waits(next, current, soaks)
    }

    /// Why no further node begins: as many nodes of a wave have failed as may.
    pub fn failures_spent(&self) -> Option<Why> {
        let mut groups = self.groups.iter().enumerate();
        groups.find_map(|(index, group)| {
            let field = format!("{}.failureBudget", group.field);
            let whose = format!(" of {}", self.named(index));
            let budget = failures::Budget {
                field: &field,
                most: group.budget?,
                is_default: false,
                whose: &whose,
            };
            budget.spent(&group.failed, None, "")
        })
    }

    /// The waves that are over, as far as it is known since when: that is known of nodes that had their turn in this run.
    fn over(&self, now: Timestamp) -> Vec<WaveOver> {
        let groups = self.groups.iter().enumerate().filter(|_| self.is_declared);
        let over = groups
            .filter(|(_, group)| group.is_over())
            .filter_map(|(index, group)| {
                let at = group.over_at()?;
                (at <= now).then(|| WaveOver {
                    number: index + 1,
                    name: group.name.clone(),
                    nodes: group.nodes,
                    done: group.done,
                    at,
                })
            });
        over.collect()
    }

    /// Says which waves are over, and has the owner decided again when the next one is whose nodes are done: people are told of it.
    pub fn say_over(&self, out: &mut Decision, now: Timestamp) {
        out.report.waves_over = self.over(now);
        self.groups.iter().for_each(|group| group.put_right(out, now));
        let groups = self.groups.iter();
        let over = groups.filter(|group| self.is_declared && group.is_over());
        let ends = over.filter_map(Group::over_at);
        if let Some(at) = ends.filter(|at| *at > now).min() {
            out.wake(at);
        }
    }

    /// The wave under way, for people; none without waves, or when all are done.
    pub fn report(&self) -> Option<WaveReport> {
        let (current, soak_until) = self.current.filter(|_| self.is_declared)?;
        let group = self.groups.get(current)?;
        Some(WaveReport {
            number: current + 1,
            of: self.groups.len(),
            name: group.name.clone(),
            is_rest: group.field.is_empty(),
            nodes: group.nodes,
            done: group.done,
            soak_until,
            notes: self.notes.clone(),
        })
    }
}
