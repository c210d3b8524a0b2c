//! The rules that a node must pass as one of its wave. Which wave it is of is worked out in [`waves`](super::waves).

use crate::{
    key::Key,
    observed::{Observed, RuleView},
};
use std::collections::HashMap;

/// Rules, each with what is known of it; none where it does not exist.
pub(crate) type Rules<'a> = Vec<(Key, Option<&'a RuleView>)>;

/// The rules of waves, by the nodes of those.
#[derive(Debug, Default)]
pub(crate) struct WaveRules<'a> {
    /// The wave of each node that is in one.
    pub(super) places: HashMap<&'a str, usize>,
    /// The rules of each wave.
    pub(super) rules: Vec<Vec<Key>>,
}

impl WaveRules<'_> {
    /// The rules of a node: those that every node of the owner must pass, then those of its wave, each once.
    pub fn of<'o>(
        &self,
        node: &str,
        all: &[(Key, Option<&'o RuleView>)],
        observed: &'o Observed,
    ) -> Rules<'o> {
        let mut rules = all.to_vec();
        let place = self.places.get(node);
        let own = place.and_then(|place| self.rules.get(*place));
        add(&mut rules, own.into_iter().flatten(), observed);
        rules
    }
}

/// The rules of every wave beside those that every node of the owner must pass, each once.
pub(crate) fn of_all<'o>(
    all: &[(Key, Option<&'o RuleView>)],
    waves: &[super::wave::Wave],
    observed: &'o Observed,
) -> Rules<'o> {
    let mut rules = all.to_vec();
    add(&mut rules, waves.iter().flat_map(|wave| &wave.rules), observed);
    rules
}

fn add<'o, 'k>(rules: &mut Rules<'o>, own: impl Iterator<Item = &'k Key>, observed: &'o Observed) {
    for key in own {
        if !rules.iter().any(|(known, _)| known == key) {
            rules.push((key.clone(), observed.rules.get(key)));
        }
    }
}
