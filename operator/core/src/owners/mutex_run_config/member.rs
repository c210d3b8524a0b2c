//! The nodes of a run, and where each of them is.

use super::{journals::Journals, walk::Walk};
use crate::{
    intent::{self, Intent},
    key::Index,
    mark,
    observed::{ChangeView, LeaseView, NodeView, Observed, PoolView, Values},
    pools::{self, Home},
    selector::Selector,
    turn::directive::retry_asked,
    why::Why,
};
use numo_api::{
    Reason, Step,
    marks::{self, openshift},
    mutex_run_config::Order,
};
use std::collections::BTreeMap;

/// A node of the run. What every pass reads of every node is found out once, while the node is at hand: with thousands of them each look-up
/// counts.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Member<'a> {
    /// The node.
    pub node: &'a NodeView,
    /// Its place among all nodes by name.
    pub(super) place: usize,
    /// Its place among the members, in the order of their turns.
    pub(super) row: usize,
    /// Its home pool, whatever numo made of labels and selectors for the time being. A node that left its
    /// pool in flight keeps the one it was admitted in.
    pub pool: &'a PoolView,
    /// Where it lives now, if it left its pool in flight: the other pool, if it is one, and why it is not
    /// to be let go.
    pub strayed: Option<(Option<&'a PoolView>, Why)>,
    /// The rendered configuration it runs.
    pub current: &'a str,
    /// The rendered configuration it shall run.
    pub desired: &'a str,
    /// It runs its pool's configuration.
    runs_config: bool,
    /// It shall run its pool's configuration.
    wants_config: bool,
    /// It shall run another configuration than it does.
    pub(super) is_moving: bool,
    /// It runs what it shall run, and the daemon says Done.
    pub done: bool,
    /// The daemon gave up on the change the node is in.
    pub(super) is_failing: bool,
    /// It runs, or shall run, an image that was built on the cluster.
    pub layered: bool,
    /// It carries a shield, ours or another owner's.
    pub shielded: bool,
    /// The version it runs, if known: that of its current configuration; the NFD label only where that is
    /// absent.
    pub version: Option<&'a str>,
    /// The version that its NFD label says, whatever it runs.
    pub(super) labelled: Option<&'a str>,
    /// The lease on the node, whosever it is.
    pub(super) lease: Option<&'a LeaseView>,
    /// Its place in the order of turns: that of its pool among the targets, and within its pool ([`intent::turn`]), with the number of its
    /// zone.
    turn: (Option<usize>, bool, usize, i64),
    /// Its journal in this run.
    pub change: Option<&'a ChangeView>,
    /// Its journal in an earlier run of this owner that has not ended.
    pub superseded: Option<&'a ChangeView>,
    /// Whether the later one of these is in flight.
    flies: bool,
}

/// The pool of a member, with its place among the targets, if it is one, and where the member lives if that is elsewhere.
type Place<'a> = (Option<usize>, &'a PoolView, Option<(Option<&'a PoolView>, Why)>);

/// What the members of a run are made of.
struct Making<'a> {
    observed: &'a Observed,
    /// The versions of configurations. Few of them, many nodes: they are looked up by hash.
    versions: Index<&'a str, &'a str>,
    leases: Walk<'a, LeaseView>,
    order: Order,
    /// The places of target pools.
    ranks: BTreeMap<&'a str, usize>,
    /// Zones, by the numbers that they are given as they are found.
    zones: Index<&'a str, usize>,
}

impl<'a> Making<'a> {
    fn of(observed: &'a Observed, intent: &Intent<'a>) -> Self {
        let ranks = intent.pools.iter().enumerate();
        let configs = observed.configs.iter();
        let versions = configs.filter_map(|(name, config)| Some((name.as_str(), config.version.as_deref()?)));
        Self {
            observed,
            versions: versions.collect(),
            leases: Walk::along(&observed.leases),
            order: intent.order,
            ranks: ranks.map(|(rank, pool)| (pool.name.as_str(), rank)).collect(),
            zones: Index::default(),
        }
    }

    /// A member. They are made in the order of their names.
    fn member(
        &mut self,
        (place, node): (usize, &'a NodeView),
        (rank, pool, strayed): Place<'a>,
        (change, superseded): (Option<&'a ChangeView>, Option<&'a ChangeView>),
    ) -> Member<'a> {
        let notes = Notes::of(node);
        let Notes { current, desired, .. } = notes;
        let labelled = node.labels.value(openshift::RELEASE_VERSION);
        let (no_zone, zone, age) = intent::turn(self.order, node);
        let zones = self.zones.len();
        let zone = *self.zones.entry(zone).or_insert(zones);
        Member {
            node,
            place,
            row: 0,
            pool,
            strayed,
            current,
            desired,
            runs_config: current == pool.config,
            wants_config: desired == pool.config,
            is_moving: desired != current && !desired.is_empty(),
            done: !current.is_empty() && current == desired && notes.state == "Done",
            is_failing: pools::gave_up(notes.state),
            layered: notes.layered,
            shielded: notes.shielded,
            version: self.versions.get(current).copied().or(labelled),
            labelled,
            lease: self.leases.at(&node.name),
            turn: (rank, no_zone, zone, age),
            change,
            superseded,
            flies: superseded
                .or(change)
                .is_some_and(|change| self.observed.is_under_way(change)),
        }
    }
}

impl Member<'_> {
    /// The node runs its pool's configuration, and the daemon is done.
    pub fn at_pool_config(&self) -> bool {
        self.done && self.runs_config
    }

    /// The node runs the configuration of the pool it lives in now, and the daemon is done.
    pub fn settled(&self) -> bool {
        let pool = match &self.strayed {
            None => Some(self.pool),
            Some((pool, _)) => *pool,
        };
        self.done && pool.is_some_and(|pool| pool.config == self.current)
    }

    /// The node would roll if its pool were unpaused now.
    pub fn outdated(&self) -> bool {
        !self.runs_config || !self.wants_config
    }

    /// The journal that is in flight, if any.
    pub fn in_flight(&self) -> Option<&ChangeView> {
        self.superseded.or(self.change).filter(|_| self.flies)
    }

    /// Whether the node left the run for good: skipped or failed, with its turn given back. A turn that
    /// was only given up with the run may begin again.
    pub fn left_out(&self) -> Option<&ChangeView> {
        self.change.filter(|change| match change.status.step {
            _ if change.is_copied() => false,
            Some(Step::Skipped) => true,
            Some(Step::Failed) => change.status.reason.as_deref() != Some(Reason::RunGivenUp.name()),
            _ => false,
        })
    }

    /// Whether a person wants the rules after the change asked again, as the node was left out after numo had let it go. Whom
    /// somebody else has changed has none.
    pub fn rules_asked_again(&self) -> bool {
        self.left_out().is_some_and(|change| {
            let mut entries = change.status.entries.iter();
            retry_asked(change)
                && change.status.pin.is_some()
                && entries.any(|entry| entry.step == Step::Released)
        })
    }
}

/// The nodes of the cluster, by what they are to a run.
#[derive(Default)]
pub(super) struct Members<'a> {
    /// Those of the run, in the order of their turns.
    pub own: Vec<Member<'a>>,
    /// All others.
    pub others: Vec<&'a NodeView>,
    /// Those of the others that match two custom pools, of which one is a target.
    pub in_two_pools: Vec<(&'a NodeView, Vec<&'a str>)>,
    /// Journals in flight whose pool is gone.
    pub orphans: Vec<&'a ChangeView>,
}

impl<'a> Members<'a> {
    pub(super) fn of(observed: &'a Observed, intent: &Intent<'a>, journals: &Journals<'a>) -> Self {
        let pools = observed.pools.values();
        let own: Vec<_> = pools
            .map(|pool| (pool.name.as_str(), mark::own_selector(pool)))
            .collect();
        let selectors: Vec<_> = own.iter().map(|(name, own)| (*name, Selector::of(own))).collect();
        let mut making = Making::of(observed, intent);
        let mut found = Self::default();
        found.own.reserve(observed.nodes.len());
        for (place, node) in observed.nodes.values().enumerate() {
            let changes = journals.of_node(node);
            let selecting = selectors
                .iter()
                .map(|(name, selector)| (*name, selector.selects(&node.labels)));
            let home = pools::home_among(&node.labels, selecting);
            if let Home::Pool(name) = home
                && let Some(rank) = making.ranks.get(name).copied()
                && let Some(pool) = intent.pools.get(rank)
            {
                let member = making.member((place, node), (Some(rank), *pool, None), changes);
                found.own.push(member);
            } else {
                found.add_other(&mut making, (place, node), changes, home);
            }
        }
        put_in_turn(&mut found.own, &making.zones);
        found
    }

    /// A node that lives in no pool of the run. What is in flight stays in the run to its end, whatever became of labels, targets and spec.
    fn add_other(
        &mut self,
        making: &mut Making<'a>,
        (place, node): (usize, &'a NodeView),
        changes: (Option<&'a ChangeView>, Option<&'a ChangeView>),
        home: Home<'a>,
    ) {
        let (change, superseded) = changes;
        let observed = making.observed;
        if let Some(change) = superseded
            .or(change)
            .filter(|change| observed.is_under_way(change))
        {
            if let Some(pool) = observed.pools.get(&change.spec.target.pool) {
                let rank = making.ranks.get(pool.name.as_str()).copied();
                let strayed = strayed(observed, node, pool, &home);
                let member = making.member((place, node), (rank, pool, Some(strayed)), changes);
                self.own.push(member);
            } else {
                self.orphans.push(change);
                self.others.push(node);
            }
            return;
        }
        self.others.push(node);
        if let Home::Several(names) = home
            && names.iter().any(|name| making.ranks.contains_key(name))
        {
            self.in_two_pools.push((node, names));
        }
    }
}

/// Puts members, which come in the order of their names, in that of their turns: equals stay where they are. Few zones, many nodes: only
/// zones are compared by their names.
fn put_in_turn(members: &mut [Member<'_>], zones: &Index<&str, usize>) {
    let mut by_name: Vec<(&str, usize)> = zones.iter().map(|(name, number)| (*name, *number)).collect();
    by_name.sort_unstable();
    let mut places = vec![0; by_name.len()];
    for (place, (_, number)) in by_name.into_iter().enumerate() {
        if let Some(of) = places.get_mut(number) {
            *of = place;
        }
    }
    members.sort_by_cached_key(|member| {
        let (rank, no_zone, zone, age) = member.turn;
        (rank, no_zone, places.get(zone).copied(), age)
    });
    for (row, member) in members.iter_mut().enumerate() {
        member.row = row;
    }
}

/// The annotations that every pass reads of every node.
struct Notes<'a> {
    current: &'a str,
    desired: &'a str,
    state: &'a str,
    layered: bool,
    shielded: bool,
}

impl<'a> Notes<'a> {
    fn of(node: &'a NodeView) -> Self {
        let has_image = |key| !node.annotation(key).is_empty();
        Self {
            current: node.annotation(openshift::CURRENT_CONFIG),
            desired: node.annotation(openshift::DESIRED_CONFIG),
            state: node.annotation(openshift::STATE),
            layered: has_image(openshift::CURRENT_IMAGE) || has_image(openshift::DESIRED_IMAGE),
            shielded: node.annotations.value(marks::SHIELDED_BY).is_some(),
        }
    }
}

/// Where a node in flight lives that is in no pool of the run any more.
fn strayed<'a>(
    observed: &'a Observed,
    node: &NodeView,
    pool: &PoolView,
    home: &Home<'_>,
) -> (Option<&'a PoolView>, Why) {
    let name = &node.name;
    match home {
        Home::Pool(other) => {
            let message = if *other == pool.name {
                format!("pool {other} of Node {name} is no target any more")
            } else {
                format!("Node {name} went from pool {} to {other}", pool.name)
            };
            (observed.pools.get(*other), Why::new(Reason::RunGivenUp, message))
        }
        Home::None => {
            let message = format!("Node {name} left pool {} and is in none", pool.name);
            (None, Why::new(Reason::RunGivenUp, message))
        }
        Home::Several(names) => {
            let message = format!(
                "Node {name} matches the custom pools {}, wanted one",
                names.join(", ")
            );
            (None, Why::new(Reason::NodeInTwoPools, message))
        }
    }
}
