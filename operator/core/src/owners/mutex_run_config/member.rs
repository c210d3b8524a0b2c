//! The nodes of a run, and where each of them is.

use super::journals::Changes;
use crate::{
    intent::{self, Intent},
    mark,
    observed::{ChangeView, NodeView, Observed, PoolView},
    pools::{self, Home},
    selector::Selector,
    turn::directive::retry_asked,
    why::Why,
};
use numo_api::{Reason, Step, marks};
use std::collections::{BTreeMap, HashMap};

/// A node of the run.
#[derive(Debug)]
pub struct Member<'a> {
    /// The node.
    pub node: &'a NodeView,
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
    /// It runs what it shall run, and the daemon says Done.
    pub done: bool,
    /// It runs, or shall run, an image that was built on the cluster.
    pub layered: bool,
    /// It carries a shield, ours or another owner's.
    pub shielded: bool,
    /// The version it runs, if known: that of its current configuration; the NFD label only where that is
    /// absent.
    pub version: Option<&'a str>,
    /// Its journal in this run.
    pub change: Option<&'a ChangeView>,
    /// Its journal in an earlier run of this owner that has not ended.
    pub superseded: Option<&'a ChangeView>,
}

impl<'a> Member<'a> {
    fn of(
        node: &'a NodeView,
        (pool, strayed): (&'a PoolView, Option<(Option<&'a PoolView>, Why)>),
        (change, superseded): (Option<&'a ChangeView>, Option<&'a ChangeView>),
        versions: &HashMap<&str, &'a str>,
    ) -> Self {
        let notes = Notes::of(node);
        let current = notes.current;
        let labelled = || {
            node.labels
                .get(marks::openshift::RELEASE_VERSION)
                .map(String::as_str)
        };
        Self {
            node,
            pool,
            strayed,
            current,
            desired: notes.desired,
            done: !current.is_empty() && current == notes.desired && notes.state == "Done",
            layered: notes.layered,
            shielded: notes.shielded,
            version: versions.get(current).copied().or_else(labelled),
            change,
            superseded,
        }
    }

    /// The node runs its pool's configuration, and the daemon is done.
    pub fn at_pool_config(&self) -> bool {
        self.done && self.current == self.pool.config
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
        self.current != self.pool.config || self.desired != self.pool.config
    }

    /// The journal that is in flight, if any.
    pub fn in_flight(&self) -> Option<&ChangeView> {
        self.superseded
            .or(self.change)
            .filter(|change| change.in_flight())
    }

    /// Whether the node left the run for good: skipped or failed, with its turn given back. A turn that
    /// was only given up with the run may begin again.
    pub fn left_out(&self) -> Option<&ChangeView> {
        self.change.filter(|change| match change.status.step {
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

/// The nodes of a run in the order of their turns, and those that match two custom pools, of which one is a target.
type Members<'a> = (Vec<Member<'a>>, Vec<(&'a NodeView, Vec<&'a str>)>);

/// The members of a run. Journals in flight whose pool is gone are added to `orphans`.
pub(super) fn members<'a>(
    observed: &'a Observed,
    intent: &Intent<'a>,
    current: &Changes<'a>,
    superseded: &Changes<'a>,
    orphans: &mut Vec<&'a ChangeView>,
) -> Members<'a> {
    let pools = observed.pools.values();
    let own: Vec<_> = pools
        .map(|pool| (pool.name.as_str(), mark::own_selector(pool)))
        .collect();
    let selectors: Vec<_> = own.iter().map(|(name, own)| (*name, Selector::of(own))).collect();
    let ranks = intent.pools.iter().enumerate();
    let rank: BTreeMap<&str, usize> = ranks.map(|(index, pool)| (pool.name.as_str(), index)).collect();
    // Few configurations, many nodes: they are looked up by hash.
    let configs = observed.configs.iter();
    let versions: HashMap<&str, &str> = configs
        .filter_map(|(name, config)| Some((name.as_str(), config.version.as_deref()?)))
        .collect();
    let mut members = Vec::with_capacity(observed.nodes.len());
    let mut in_two_pools = Vec::new();
    for node in observed.nodes.values() {
        let name = node.name.as_str();
        let changes = (current.get(name).copied(), superseded.get(name).copied());
        let mut join = |pool, strayed| members.push(Member::of(node, (pool, strayed), changes, &versions));
        let selecting = selectors
            .iter()
            .map(|(name, selector)| (*name, selector.selects(&node.labels)));
        let home = pools::home_among(&node.labels, selecting);
        if let Home::Pool(name) = home
            && let Some(pool) = rank.get(name).and_then(|index| intent.pools.get(*index))
        {
            join(*pool, None);
            continue;
        }
        // What is in flight stays in the run to its end, whatever became of labels, targets and spec.
        let (change, superseded) = changes;
        if let Some(change) = superseded.or(change).filter(|change| change.in_flight()) {
            match observed.pools.get(&change.spec.target.pool) {
                Some(pool) => join(pool, Some(strayed(observed, node, pool, &home))),
                None => orphans.push(change),
            }
            continue;
        }
        match home {
            Home::Several(names) if names.iter().any(|name| rank.contains_key(name)) => {
                in_two_pools.push((node, names));
            }
            Home::Several(_) | Home::Pool(_) | Home::None => {}
        }
    }
    // They come in the order of their names, and equals stay in it.
    members.sort_by_cached_key(|member| {
        let rank = rank.get(member.pool.name.as_str()).copied();
        (rank, intent::turn(intent.order, member.node))
    });
    (members, in_two_pools)
}

/// The annotations that every pass reads of every node, by going through them once: with thousands of nodes
/// each lookup by key counts.
#[derive(Default)]
struct Notes<'a> {
    current: &'a str,
    desired: &'a str,
    state: &'a str,
    layered: bool,
    shielded: bool,
}

impl<'a> Notes<'a> {
    fn of(node: &'a NodeView) -> Self {
        let mut notes = Self::default();
        for (key, value) in &node.annotations {
            match key.as_str() {
                marks::openshift::CURRENT_CONFIG => notes.current = value,
                marks::openshift::DESIRED_CONFIG => notes.desired = value,
                marks::openshift::STATE => notes.state = value,
                marks::openshift::CURRENT_IMAGE | marks::openshift::DESIRED_IMAGE => {
                    notes.layered |= !value.is_empty();
                }
                marks::SHIELDED_BY => notes.shielded = true,
                _ => {}
            }
        }
        notes
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
