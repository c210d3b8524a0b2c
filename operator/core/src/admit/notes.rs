//! What looks like an order or a limit of an owner and keeps no node from its turn: a selector that selects nobody, a label that no
//! node has. A person should know of it before the owner begins. Nothing is decided here.

use super::wave::{Takes, Wave};
use crate::{observed::NodeView, selector, text::counted};

/// What is given, with the field that it stands in.
pub(crate) struct Given<'a> {
    /// The waves, the nodes that go first among them.
    pub waves: &'a [Wave],
    /// Labels whose values keep nodes apart.
    pub keys: (&'a str, Vec<&'a String>),
}

/// What of it speaks of none of the owner's nodes, a sentence each. An owner without nodes is told of elsewhere.
pub(crate) fn of_nobody<'n>(
    given: &Given<'_>,
    nodes: &(impl Iterator<Item = &'n NodeView> + Clone),
) -> Vec<String> {
    let first = given.waves.iter().find_map(|wave| match &wave.takes {
        Takes::First(selectors) => Some((&wave.field, selectors)),
        _ => None,
    });
    let (field, keys) = &given.keys;
    // Most owners have neither, and this is looked at in each pass.
    if first.is_none() && keys.is_empty() || nodes.clone().next().is_none() {
        return Vec::new();
    }
    let number = counted(nodes.clone().count(), "node");
    let has_any = |is_it: &dyn Fn(&NodeView) -> bool| nodes.clone().any(is_it);
    let nobody = first.filter(|(_, selectors)| {
        !has_any(&|node| selectors.iter().any(|one| selector::selects(one, &node.labels)))
    });
    let nobody = nobody.map(|(field, _)| format!("{field} selects none of {number}: no node goes first"));
    let unknown = keys
        .iter()
        .filter(|key| !has_any(&|node| node.labels.contains_key(**key)));
    let unknown = unknown.map(|key| {
        let shown = crate::text::clip(key, 100);
        format!("{field}: none of {number} has the label {shown:?}: it keeps no two of them apart")
    });
    nobody.into_iter().chain(unknown).collect()
}
