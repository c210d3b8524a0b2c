//! The rules that a node must pass as one of its wave. Which wave it is of is worked out in [`waves`](super::waves).

use super::wave::{Takes, Wave};
use crate::{
    key::{Index, Key},
    observed::{ChangeView, NodeView, Observed, RuleView},
    selector::Selector,
};
use serde_json::Value;
use std::borrow::Cow;

/// Rules, each with what is known of it; none where it does not exist.
pub(crate) type Rules<'a> = Vec<(Key, Option<&'a RuleView>)>;

/// The rules of waves, by the nodes of those.
#[derive(Debug, Default)]
pub(crate) struct WaveRules<'a> {
    /// The wave of each node that is in one.
    pub(super) places: Index<&'a str, usize>,
    /// The rules of each wave.
    pub(super) rules: Vec<Vec<Key>>,
    /// The rules of the wave in which the turn of a node began, by nodes that have their turn.
    pub(super) kept: Index<&'a str, Vec<Key>>,
}

impl<'a> WaveRules<'a> {
    /// Has nodes that have their turn keep the rules of the wave in which it began: who may edit the labels of a node would else take it
    /// out of these.
    pub fn keep(&mut self, changes: impl IntoIterator<Item = &'a ChangeView>) {
        for change in changes {
            let rules = kept(change).map(|rules| (change.spec.node_name.as_str(), rules));
            self.kept.extend(rules);
        }
    }

    /// What the journal of a node is to remember of its wave; nothing where no wave has rules.
    pub fn to_keep(&self, node: &str) -> Option<Vec<String>> {
        let are_none = self.rules.iter().all(Vec::is_empty);
        let own = self.places.get(node).and_then(|place| self.rules.get(*place));
        let names = own.into_iter().flatten().map(Key::to_string);
        (!are_none).then(|| names.collect())
    }

    /// The rules of a node: those that every node of the owner must pass, then those of its wave, each once.
    ///
    /// It is asked for of every node that waits: without rules of its wave nothing is copied.
    pub fn of<'s, 'o>(
        &self,
        node: &str,
        all: &'s [(Key, Option<&'o RuleView>)],
        observed: &'o Observed,
    ) -> Cow<'s, [(Key, Option<&'o RuleView>)]> {
        let place = self.places.get(node);
        let own = place.and_then(|place| self.rules.get(*place));
        let own = self.kept.get(node).or(own);
        let Some(own) = own.filter(|own| !own.is_empty()) else {
            return Cow::Borrowed(all);
        };
        let mut rules = all.to_vec();
        add(&mut rules, own.iter(), observed);
        Cow::Owned(rules)
    }
}

/// The rules of every wave beside those that every node of the owner must pass, each once.
pub(crate) fn of_all<'o>(
    all: &[(Key, Option<&'o RuleView>)],
    waves: &[Wave],
    observed: &'o Observed,
) -> Rules<'o> {
    let mut rules = all.to_vec();
    add(&mut rules, waves.iter().flat_map(|wave| &wave.rules), observed);
    rules
}

/// The rules of the wave in which the turn began, as its journal remembers them; none if it remembers nothing of that.
pub(crate) fn kept(change: &ChangeView) -> Option<Vec<Key>> {
    let names = change.status.wave_rules.as_ref()?.iter();
    let keys = names.filter_map(|name| name.split_once('/'));
    Some(keys.map(|(namespace, name)| Key::new(namespace, name)).collect())
}

/// The same as [`WaveRules::of`] for a check that knows the journal and labels only: without a word of the journal also without the rules
/// of waves whose nodes are counted, or that come after such.
pub(crate) fn surely_of<'o>(
    (node, change): (&NodeView, &ChangeView),
    all: &[(Key, Option<&'o RuleView>)],
    waves: &[Wave],
    observed: &'o Observed,
) -> Rules<'o> {
    let mut rules = all.to_vec();
    if let Some(kept) = kept(change) {
        add(&mut rules, kept.iter(), observed);
    } else if let Some(wave) = surely_in(node, waves) {
        add(&mut rules, wave.rules.iter(), observed);
    }
    rules
}

/// The wave of a node, where its labels alone tell: none if it is of none, or comes after waves whose nodes are counted.
pub(crate) fn surely_in<'w>(node: &NodeView, waves: &'w [Wave]) -> Option<&'w Wave> {
    let selects = |selector: &Value| Selector::of(selector).matches(&node.labels);
    for wave in waves {
        let is_of = match &wave.takes {
            Takes::First(selectors) => selectors.iter().any(selects),
            Takes::Labels(selector) => selects(selector),
            Takes::Pools(_) | Takes::Next { .. } => return None,
        };
        if is_of {
            return Some(wave);
        }
    }
    None
}

fn add<'o, 'k>(rules: &mut Rules<'o>, own: impl Iterator<Item = &'k Key>, observed: &'o Observed) {
    for key in own {
        if !rules.iter().any(|(known, _)| known == key) {
            rules.push((key.clone(), observed.rules.get(key)));
        }
    }
}
