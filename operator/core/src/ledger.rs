//! The ledger: every unavailable node, whoever made it so, against every MutexBudget.
//!
//! A node counts once if it is not Ready, unschedulable, about to be taken away, or held by a NodeChange of any
//! owner. Admission needs `unavailable + 1 <= allowed` in every budget that selects the node; a node that is
//! unavailable already does not raise the count. With `maxGroups` the groups of the unavailable nodes, that of the node among
//! them, must be no more than that.

use crate::{
    observed::{BudgetView, ChangeView, IntOrPercent, NodeView, Observed},
    owner::{Means, OwnerKind},
    remark, selector,
    text::counted,
    time::later,
    turn::{directive, journal},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    Reason, Step,
    conditions::{Actor, types},
};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

/// Use of every budget, by group.
#[derive(Debug)]
pub struct Ledger<'a> {
    observed: &'a Observed,
    rows: Vec<Row<'a>>,
    held: BTreeSet<&'a str>,
    /// Those of them that go on without a person.
    moving: BTreeSet<&'a str>,
}

#[derive(Debug)]
struct Row<'a> {
    budget: &'a BudgetView,
    /// Group value → (nodes, unavailable ones).
    groups: BTreeMap<&'a str, (usize, BTreeSet<&'a str>)>,
    /// The groups with an unavailable node.
    away: BTreeSet<&'a str>,
    /// Why `maxGroups` lets no further node go: one of a group without an unavailable node, and one of a group with some.
    no_group_more: [OnceCell<Why>; 2],
}

impl<'a> Row<'a> {
    fn take(&mut self, node: &'a NodeView) {
        let group = group(self.budget, node);
        let Some((_, unavailable)) = self.groups.get_mut(group) else {
            return;
        };
        unavailable.insert(&node.name);
        self.away.insert(group);
        self.no_group_more = Default::default();
    }
}

/// How much of a budget is in use, in one group of its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Use<'a> {
    /// The budget.
    pub budget: &'a BudgetView,
    /// Value of the label that splits its nodes; empty without such a label.
    pub group: &'a str,
    /// Nodes of the group.
    pub nodes: usize,
    /// How many may be unavailable; none if `spec.maxUnavailable` cannot be understood.
    pub allowed: Option<usize>,
    /// Those that are, whoever made them so.
    pub unavailable: Vec<&'a str>,
    /// Whether one of those is in flight and goes on without a person: it makes room when it is done.
    pub makes_room: bool,
    /// Of how many groups nodes may be unavailable; none without such a bound.
    pub groups_allowed: Option<usize>,
    /// Of how many groups nodes are.
    pub groups_away: usize,
}

impl Use<'_> {
    /// Whether no further node of the group may become unavailable.
    pub fn is_full(&self) -> bool {
        self.is_spent() || self.is_shut_by_others()
    }

    /// Whether the group itself has as many unavailable nodes as may be.
    fn is_spent(&self) -> bool {
        self.allowed
            .is_some_and(|allowed| self.unavailable.len() >= allowed)
    }

    /// Whether `maxGroups` lets no further node of the group become unavailable, as other groups have unavailable nodes, or as
    /// nobody knows of which group a node without the label is.
    pub fn is_shut_by_others(&self) -> bool {
        let found = self.groups_away + usize::from(self.unavailable.is_empty());
        self.groups_allowed
            .is_some_and(|allowed| self.group == NO_GROUP || found > allowed)
    }
}

/// The MutexBudget that `numo stop` makes and `numo start` opens where none is named.
pub const STOP_BUDGET: &str = "stop";

/// The command that opens a paused budget again.
pub fn start_command(budget: &str) -> String {
    if budget == STOP_BUDGET {
        "numo start".to_owned()
    } else {
        format!("numo start {budget}")
    }
}

/// That a `maxUnavailable` of this value lets no node begin, if it is 0: the field with its object, and the command that edits
/// that object.
pub fn closed_by_zero(limit: IntOrPercent, field: &str, edit: &str) -> Option<Why> {
    closed_by_zero_of(limit, field, "", edit)
}

/// The same of the nodes of which `whose` speaks, such as ` of MutexTarget numo/infra`.
pub(crate) fn closed_by_zero_of(limit: IntOrPercent, field: &str, whose: &str, edit: &str) -> Option<Why> {
    limit.is_zero().then(|| {
        let message = format!(
            "{field} is 0, which lets no node{whose} begin; whoever owns the object raises it with `{edit}`"
        );
        Why::new(Reason::MaxUnavailableZero, message)
    })
}

/// That a budget lets no node begin, if its limit is 0.
pub fn closed(budget: &BudgetView) -> Option<Why> {
    let name = &budget.name;
    closed_by_zero(
        budget.max_unavailable.clone().ok()?,
        &format!("MutexBudget {name} spec.maxUnavailable"),
        &format!("kubectl edit mutexbudget {name}"),
    )
}

/// The group of nodes without the label.
const NO_GROUP: &str = "";
/// Nodes, and groups of them, that are named in one sentence.
const NAMED: usize = 5;

/// How many of so many nodes may be unavailable; none if the budget cannot be understood.
fn allowed(budget: &BudgetView, nodes: usize) -> Option<usize> {
    let limit = budget.max_unavailable.as_ref().ok()?;
    budget.problem().is_none().then(|| limit.of(nodes))
}

impl<'a> Ledger<'a> {
    /// Counts every node against every budget.
    pub fn of(observed: &'a Observed, now: Timestamp) -> Self {
        Self::counting(observed, now, |_| true)
    }

    /// Counts without the admissions of this owner that have not begun.
    pub fn of_others(observed: &'a Observed, now: Timestamp, owner_uid: &str) -> Self {
        Self::counting(observed, now, |change| {
            change.status.pin.is_some() || change.spec.owner_ref.uid != owner_uid
        })
    }

    fn counting(observed: &'a Observed, now: Timestamp, counts: impl Fn(&ChangeView) -> bool) -> Self {
        let turns = || observed.turns().filter(|change| !change.deleting);
        let name = |change: &'a ChangeView| change.spec.node_name.as_str();
        let held: BTreeSet<&str> = turns().filter(|change| counts(change)).map(name).collect();
        let moving = turns().filter(|change| !is_kept(observed, change, now));
        let moving = moving.map(name).collect();
        let taken = observed.taken(now);
        let is_away = |node: &NodeView| {
            is_unavailable(node)
                || held.contains(node.name.as_str())
                || taken.contains_key(node.name.as_str())
        };
        let budgets = observed.budgets.values();
        let rows = budgets
            .map(|budget| {
                let mut groups: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
                for node in observed.nodes.values().filter(|node| covers(budget, node)) {
                    let (all, unavailable) = groups.entry(group(budget, node)).or_default();
                    *all += 1;
                    if is_away(node) {
                        unavailable.insert(&node.name);
                    }
                }
                let away = groups
                    .iter()
                    .filter(|(_, (_, unavailable))| !unavailable.is_empty());
                Row {
                    budget,
                    away: away.map(|(group, _)| *group).collect(),
                    groups,
                    no_group_more: Default::default(),
                }
            })
            .collect();
        Self {
            observed,
            rows,
            held,
            moving,
        }
    }

    /// How much of every budget is in use, by budget and group.
    pub fn uses(&self) -> Vec<Use<'a>> {
        let of = |row: &Row<'a>| {
            let budget = row.budget;
            let uses = row.groups.iter().map(move |(group, (nodes, unavailable))| Use {
                budget,
                group,
                nodes: *nodes,
                allowed: allowed(budget, *nodes),
                unavailable: unavailable.iter().copied().collect(),
                makes_room: self.makes_room(unavailable),
                groups_allowed: budget.groups_allowed(),
                groups_away: row.away.len(),
            });
            let uses = uses.map(|used| {
                // With room in the group itself it is other groups that must have theirs back.
                let makes_room = if !used.is_spent() && used.is_shut_by_others() {
                    self.groups_make_room(row, !used.unavailable.is_empty())
                } else {
                    used.makes_room
                };
                Use { makes_room, ..used }
            });
            uses.collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(of).collect()
    }

    /// Why the node may not become unavailable, if so.
    pub fn refusal(&self, node: &NodeView) -> Option<Why> {
        self.refusals(node).into_iter().next()
    }

    /// The same of each budget that lets it not, worst first: what only a person ends.
    pub fn refusals(&self, node: &NodeView) -> Vec<Why> {
        let rows = self.rows.iter().filter(|row| covers(row.budget, node));
        let all = rows.filter_map(|row| self.over_limit(row, node).or_else(|| self.over_groups(row, node)));
        let mut all: Vec<Why> = all.collect();
        all.sort_by_key(|why| why.who() != Actor::ClusterAdmin);
        all
    }

    /// Why `maxUnavailable` of a budget lets the node not become unavailable.
    fn over_limit(&self, row: &Row<'a>, node: &NodeView) -> Option<Why> {
        let budget = &row.budget.name;
        let group = group(row.budget, node);
        let (all, unavailable) = row.groups.get(group)?;
        if let Some(problem) = row.budget.problem() {
            let message = format!("MutexBudget {budget} {problem}");
            return Some(Why::new(Reason::BudgetExhausted, message).ended_by(Actor::ClusterAdmin));
        }
        if let Some(why) = closed(row.budget) {
            // Its reason is one for all that a budget refuses: metrics count by it.
            return Some(
                Why::new(Reason::BudgetExhausted, why.message.to_string()).ended_by(Actor::ClusterAdmin),
            );
        }
        let allowed = allowed(row.budget, *all)?;
        if unavailable.contains(node.name.as_str()) || unavailable.len() < allowed {
            return None;
        }
        let of = match (&row.budget.group_by, group) {
            (None, _) => String::new(),
            (Some(key), NO_GROUP) => format!(" among nodes without label {key}"),
            (Some(key), value) => format!(" among nodes with {key}={value}"),
        };
        let message = format!(
            "MutexBudget {budget} allows {allowed} of {}{of} to be unavailable, and {} {}{}",
            counted(*all, "node"),
            unavailable.len(),
            if unavailable.len() == 1 { "is" } else { "are" },
            self.named(unavailable)
        );
        // Whoever is in flight makes room when it is done; a node that is dead, cordoned, held or kept does not.
        let why = Why::new(Reason::BudgetExhausted, message);
        Some(ended_by_person(why, !self.makes_room(unavailable)))
    }

    /// Why `maxGroups` of a budget lets the node not become unavailable.
    fn over_groups(&self, row: &Row<'a>, node: &NodeView) -> Option<Why> {
        let allowed = row.budget.groups_allowed()?;
        let group = group(row.budget, node);
        let (_, unavailable) = row.groups.get(group)?;
        if unavailable.contains(node.name.as_str()) {
            return None;
        }
        if group == NO_GROUP {
            let message = format!(
                "Node {} has no label {}, whose values MutexBudget {} counts (spec.maxGroups); label it, and it begins",
                node.name,
                row.budget.group_by.as_deref().unwrap_or_default(),
                row.budget.name
            );
            return Some(Why::new(Reason::BudgetExhausted, message).ended_by(Actor::ClusterAdmin));
        }
        let is_away = !unavailable.is_empty();
        if row.away.len() + usize::from(!is_away) <= allowed {
            return None;
        }
        let [new, known] = &row.no_group_more;
        let cell = if is_away { known } else { new };
        let why = || {
            let message = self.groups_named(row, allowed);
            let why = Why::new(Reason::BudgetExhausted, message);
            ended_by_person(why, !self.groups_make_room(row, is_away))
        };
        Some(cell.get_or_init(why).clone())
    }

    /// Of which groups nodes are unavailable, which nodes, and why.
    fn groups_named(&self, row: &Row<'a>, allowed: usize) -> String {
        let key = row.budget.group_by.as_deref().unwrap_or_default();
        let of = |group: &&'a str| {
            let unavailable = row.groups.get(*group).map(|(_, unavailable)| unavailable);
            let value = match *group {
                NO_GROUP => "no value",
                value => value,
            };
            format!(
                "{value}{}",
                unavailable.map_or_else(String::new, |nodes| self.named(nodes))
            )
        };
        let first: Vec<String> = row.away.iter().take(NAMED).map(of).collect();
        let more = if row.away.len() > NAMED { "; ..." } else { "" };
        format!(
            "MutexBudget {} allows nodes of {} of {key} to be unavailable (spec.maxGroups), and nodes of {} are: {}{more}",
            row.budget.name,
            counted(allowed, "value"),
            row.away.len(),
            first.join("; ")
        )
    }

    /// Whether as many groups have all of their nodes back without a person as must, before a node of a further group may go, or of
    /// one that has unavailable nodes already (`is_away`).
    fn groups_make_room(&self, row: &Row<'a>, is_away: bool) -> bool {
        let allowed = row.budget.groups_allowed().unwrap_or(usize::MAX);
        let surplus = (row.away.len() + usize::from(!is_away)).saturating_sub(allowed);
        let comes_back = |group: &&&str| {
            let nodes = row.groups.get(**group).map(|(_, unavailable)| unavailable);
            nodes.is_some_and(|nodes| nodes.iter().all(|name| self.moving.contains(name)))
        };
        row.away.iter().filter(comes_back).count() >= surplus
    }

    fn makes_room(&self, unavailable: &BTreeSet<&'a str>) -> bool {
        unavailable.iter().any(|name| self.moving.contains(name))
    }

    /// The first of these nodes, each with why it is unavailable.
    fn named(&self, unavailable: &BTreeSet<&'a str>) -> String {
        let of = |name: &&'a str| {
            let node = self.observed.nodes.get(*name);
            let mut turns = self.observed.turns();
            let turn = turns.find(|change| change.spec.node_name == **name && !change.deleting);
            let why = match (turn, node) {
                (Some(change), _) => {
                    let of = &change.spec.owner_ref;
                    format!("with {} {}", of.kind, of.name)
                }
                (None, Some(node)) if !node.ready => "not Ready".to_owned(),
                (None, Some(node)) if node.unschedulable => "cordoned".to_owned(),
                (None, _) if self.held.contains(*name) => "in flight".to_owned(),
                (None, _) => "going away".to_owned(),
            };
            format!("{name} ({why})")
        };
        let first: Vec<String> = unavailable.iter().take(NAMED).map(of).collect();
        let more = if unavailable.len() > NAMED { ", ..." } else { "" };
        let colon = if first.is_empty() { "" } else { ": " };
        format!("{colon}{}{more}", first.join(", "))
    }

    /// Counts a node that is being admitted in this pass.
    pub fn take(&mut self, node: &'a NodeView) {
        self.held.insert(&node.name);
        self.moving.insert(&node.name);
        for row in self.rows.iter_mut().filter(|row| covers(row.budget, node)) {
            row.take(node);
        }
    }
}

/// The first budget that is paused and selects the node.
pub fn stop(observed: &Observed, node: &NodeView) -> Option<Why> {
    stops(observed, node).into_iter().next()
}

/// All of them: each is started by itself.
pub(crate) fn stops(observed: &Observed, node: &NodeView) -> Vec<Why> {
    let paused = observed.budgets.values().filter(|budget| budget.paused);
    let paused = paused.filter(|budget| covers(budget, node));
    paused
        .map(|budget| Why::new(Reason::Stopped, stopped(budget)))
        .collect()
}

/// That a budget is paused: by whom and why, where a person said so, and the command that ends it.
pub fn stopped(budget: &BudgetView) -> String {
    let by = remark::by(&budget.annotations, "stop");
    format!(
        "MutexBudget {} is paused{by}; start again with `{}`",
        budget.name,
        start_command(&budget.name)
    )
}

/// The node has its turn with another owner: why it cannot have another one.
pub(crate) fn busy(observed: &Observed, node: &str, other: &ChangeView, now: Timestamp) -> Why {
    let of = &other.spec.owner_ref;
    let message = format!("Node {node} has its turn with {} {}", of.kind, of.name);
    ended_by_person(Why::new(Reason::NodeBusy, message), is_kept(observed, other, now))
}

/// A wait for turns of others, which only a person ends if all of those are `kept`.
pub(crate) fn ended_by_person(why: Why, kept: bool) -> Why {
    if kept {
        why.ended_by(Actor::ClusterAdmin)
    } else {
        why
    }
}

/// Only a person ends this turn: it is held, or will be once its node has changed; it keeps its node in maintenance, its maintenance is
/// stalled, or the node of a Plan is away under its Job for so long that nobody expects it back.
pub(crate) fn is_kept(observed: &Observed, change: &ChangeView, now: Timestamp) -> bool {
    let owner = &change.spec.owner_ref;
    match change.status.step {
        Some(Step::Held) => return true,
        _ if change.is_copied() || journal::is_of_later(change) => return true,
        Some(step) if step.is_terminal() => return false,
        _ => {}
    }
    let is_released_machine = journal::entered(change, Step::Released).is_some();
    if is_released_machine && directive::held(change).is_some() {
        return true;
    }
    let means = OwnerKind::of(owner).map(OwnerKind::means);
    if means == Some(Means::Person) {
        return change.status.step == Some(Step::Drained) || is_stalled(observed, &owner.uid);
    }
    let by_job = means == Some(Means::Job) && has_begun(change);
    let node = observed.node_of(change).filter(|_| by_job);
    node.is_some_and(|node| !node.ready && given_up_at(node).is_some_and(|at| at <= now))
}

/// After how long a node that is not Ready under the Job of a Plan is nothing that time alone will end (seconds): a Job may
/// reboot its node, and one on a dead kubelet never ends.
const AWAY_SECONDS: i64 = 600;

/// When people are told that a node which is not Ready under its Job goes on by their word only. A node that does not say
/// since when it is so is waited for.
pub(crate) fn given_up_at(node: &NodeView) -> Option<Timestamp> {
    let since = node.not_ready_since.filter(|_| !node.ready)?;
    Some(later(since, AWAY_SECONDS))
}

fn has_begun(change: &ChangeView) -> bool {
    change.status.step == Some(Step::Released)
}

/// Whether the maintenance of this uid says of itself that it goes on by a person's word only.
fn is_stalled(observed: &Observed, uid: &str) -> bool {
    let mut all = observed.maintenances.values();
    let Some(view) = all.find(|view| view.uid == uid) else {
        return false;
    };
    let mut conditions = view.status.conditions.iter();
    conditions.any(|condition| condition.type_ == types::STALLED && condition.status == "True")
}

fn is_unavailable(node: &NodeView) -> bool {
    !node.ready || node.unschedulable || node.leaving.is_some()
}

/// Whether the budget speaks of the node: `{}` selects all nodes, absent none.
pub fn covers(budget: &BudgetView, node: &NodeView) -> bool {
    !budget.selector.is_null() && selector::matches(&budget.selector, &node.labels)
}

fn group<'a>(budget: &BudgetView, node: &'a NodeView) -> &'a str {
    budget
        .group_by
        .as_ref()
        .and_then(|key| node.labels.get(key))
        .map_or(NO_GROUP, String::as_str)
}
