//! The values of marks: what numo wrote on an object that is not its own, for whom, and what was there
//! before. JSON, because a person must be able to read and undo it without numo.

use crate::{
    action::{Change, DrainsFor},
    observed::{MaintenanceView, Map, NodeView, PoolView, Values},
    owner::{MaintenanceGroup, Owner},
    why::{Cause, Why},
};
use numo_api::{Reason, marks};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::BTreeMap;

/// The marks of a Node, of a MachineConfigPool, and of a Machine or MachineHealthCheck, that hold what was there before.
pub(crate) const OF_NODES: [&str; 2] = [marks::SHIELDED_BY, marks::CORDONED_BY];
pub(crate) const OF_POOLS: [&str; 2] = [marks::PRIOR_NODE_SELECTOR, marks::PAUSED_BY];
pub(crate) const OF_MACHINES: [&str; 1] = [marks::SHIELDED_BY];

/// On a pool numo paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausedBy {
    /// uid of the owner.
    pub owner: String,
    /// `namespace/name` of the owner, for people.
    pub name: String,
    /// Whether the pool was paused before.
    pub prior: bool,
    /// How often somebody's unpausing was corrected.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrections: u32,
    /// After the run was left: how many nodes would roll if the pool were unpaused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outdated: Option<usize>,
}

/// On a pool whose node selector numo changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorSelector {
    /// uid of the owner.
    pub owner: String,
    /// The selector that was there.
    pub prior: Value,
    /// How often somebody's revert was corrected.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrections: u32,
}

/// On a node that remediation and autoscalers are kept off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shielded {
    /// uid of the owner.
    pub owner: String,
    /// What was there: absent keys are null.
    pub prior: BTreeMap<String, Option<String>>,
}

/// On a node that numo cordoned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CordonedBy {
    /// uid of the owner.
    pub owner: String,
    /// Whether the node was cordoned before.
    pub prior: bool,
    /// The taints that were there before, of those that numo set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// How often somebody's uncordoning was corrected.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrections: u32,
    /// Plan: numo itself has cordoned it. Before that a cordon is somebody else's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
}

/// On a node that carries rule labels: `<owner uid> <labels> <corrections>`, the shortest form being the uid
/// alone. Not JSON, because it is compared for every node in every pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledBy<'a> {
    /// uid of the owner.
    pub owner: &'a str,
    /// Hash of the run and the labels that were put on.
    pub labels: &'a str,
    /// How often somebody's taking labels off was corrected.
    pub corrections: u32,
}

impl LabelledBy<'_> {
    /// As it is written.
    pub fn render(&self) -> String {
        format!("{} {} {}", self.owner, self.labels, self.corrections)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Renders a mark.
pub fn render(mark: &impl Serialize) -> String {
    serde_json::to_string(mark).unwrap_or_default()
}

fn read<T: DeserializeOwned>(annotations: &impl Values, key: &str) -> Option<T> {
    serde_json::from_str(annotations.value(key)?).ok()
}

/// Who paused the pool, if numo did.
pub fn paused_by(pool: &PoolView) -> Option<PausedBy> {
    read(&pool.annotations, marks::PAUSED_BY)
}

/// The mark is of a pause that is over: someone lifted it while its owner was gone, and someone else paused the
/// pool since. Their pause is theirs.
pub fn is_outlived(pool: &PoolView) -> bool {
    let by_other = |manager: &String| manager != marks::FIELD_MANAGER;
    pool.paused && pool.paused_manager.as_ref().is_some_and(by_other)
}

/// What selector the pool had, if numo changed it.
pub fn prior_selector(pool: &PoolView) -> Option<PriorSelector> {
    read(&pool.annotations, marks::PRIOR_NODE_SELECTOR)
}

/// Who cordoned the node, if numo did.
pub fn cordoned_by(node: &NodeView) -> Option<CordonedBy> {
    read(&node.annotations, marks::CORDONED_BY)
}

/// Those of these marks of numo's that are there and cannot be read: a later numo may have written them, and who writes over one forgets
/// what was there before.
pub(crate) fn unreadable(
    annotations: &impl Values,
    of: &'static [&'static str],
) -> impl Iterator<Item = &'static str> {
    let is_read = |key: &str| match key {
        marks::SHIELDED_BY => shielded_by(annotations).is_some(),
        marks::CORDONED_BY => read::<CordonedBy>(annotations, key).is_some(),
        marks::PAUSED_BY => read::<PausedBy>(annotations, key).is_some(),
        _ => read::<PriorSelector>(annotations, key).is_some(),
    };
    let there = of.iter().copied().filter(|key| annotations.value(key).is_some());
    there.filter(move |key| !is_read(key))
}

/// Why nothing is done to a node with a mark that cannot be read, if it has one.
pub(crate) fn unread(node: &NodeView) -> Option<Why> {
    let key = unreadable(&node.annotations, &OF_NODES).next()?;
    let name = &node.name;
    Some(unread_on(&format!("Node {name}"), &format!("node {name}"), key))
}

/// The same of an object, which kubectl calls so, with this mark.
pub(crate) fn unread_on(object: &str, named: &str, key: &str) -> Why {
    let message = format!(
        "{object} annotation {key}: found what this numo cannot read, wanted a mark of its own or none; correct it, or remove it by \
         `kubectl annotate {named} {key}-`"
    );
    Why::new(Reason::MarkUnreadable, message).of(Cause::Command(format!("kubectl edit {named}")))
}

/// Who shields the node, if numo does.
pub fn shielded(node: &NodeView) -> Option<Shielded> {
    shielded_by(&node.annotations)
}

/// Who shields the Machine, or pauses the MachineHealthCheck, if numo does.
pub fn shielded_by(annotations: &impl Values) -> Option<Shielded> {
    read(annotations, marks::SHIELDED_BY)
}

/// For which turn a NodeMaintenance was made, if numo made it for another operator to drain by. Only the group that such operators serve
/// has any.
pub fn drains_for(view: &MaintenanceView) -> Option<DrainsFor> {
    let is_served = view.owner == Owner::maintenance(MaintenanceGroup::Medik8s, view.owner.key.name.as_str());
    read(&view.annotations, marks::DRAINS_FOR).filter(|_| is_served)
}

/// Sets each key to its value.
pub fn set(map: &Map, pairs: &[(&str, &str)]) -> Vec<Change> {
    pairs
        .iter()
        .map(|(key, value)| Change::of(map, key, Some((*value).to_owned())))
        .collect()
}

/// Puts each key back to what the mark says was there. What someone else set meanwhile is theirs: only our own
/// value is taken back.
pub fn restore(map: &Map, mark: &Shielded, pairs: &[(&str, &str)]) -> Vec<Change> {
    let back = |(key, value): &(&str, &str)| {
        let found = map.get(*key).cloned();
        let prior = mark.prior.get(*key).cloned().flatten();
        (found.as_deref() == Some(value) && found != prior).then(|| Change {
            key: (*key).to_owned(),
            from: found,
            to: prior,
        })
    };
    pairs.iter().filter_map(back).collect()
}

/// The mark of a shield, with what was found under its keys. Over a mark of an owner that is gone, what is there
/// is ours: what was there before it is what counts.
pub fn shielding<'f>(
    annotations: &Map,
    owner: &str,
    found: impl Iterator<Item = (&'f str, Option<&'f String>)>,
) -> Change {
    let prior = found.map(|(key, value)| (key.to_owned(), value.cloned()));
    let shielded = Shielded {
        owner: owner.to_owned(),
        prior: shielded_by(annotations).map_or_else(|| prior.collect(), |mark| mark.prior),
    };
    Change::of(annotations, marks::SHIELDED_BY, Some(render(&shielded)))
}

/// Takes the mark of a shield away.
pub fn unshielding(annotations: &Map) -> Change {
    Change::of(annotations, marks::SHIELDED_BY, None)
}

/// Who labelled the node, if numo did.
pub fn labelled_by(node: &NodeView) -> Option<LabelledBy<'_>> {
    let mut words = node.annotations.value(marks::LABELLED_BY)?.split(' ');
    Some(LabelledBy {
        owner: words.next()?,
        labels: words.next().unwrap_or_default(),
        corrections: words.next().and_then(|word| word.parse().ok()).unwrap_or(0),
    })
}

/// The selector that is the pool's own, whatever numo made of it for the time being.
pub fn own_selector(pool: &PoolView) -> Value {
    prior_selector(pool).map_or_else(|| pool.selector.clone(), |mark| mark.prior)
}
