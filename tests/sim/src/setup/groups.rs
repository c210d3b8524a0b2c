//! Budgets over groups of nodes, drawn beside the rest: it has numbers of its own, so that nothing else of a seed depends on it.

use crate::world::World;
use numo_api::marks::openshift;
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// Draws it. Each node has a zone then: one without would wait for a person.
pub(super) fn add(world: &mut World, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x0067_726f_7570);
    let rng = &mut rng;
    let budgets = world.truth.budgets.values_mut();
    let mut is_bounded = false;
    for budget in budgets.filter(|budget| budget.group_by.is_some()) {
        if rng.random_bool(0.4) {
            budget.max_groups = Some(Ok(rng.random_range(1..3)));
            is_bounded = true;
        }
    }
    if is_bounded {
        for node in world.truth.nodes.values_mut() {
            let zone = node.labels.entry(openshift::ZONE.to_owned());
            zone.or_insert_with(|| "z-rest".to_owned());
            world.people.labels.insert(node.uid.clone(), node.labels.clone());
        }
    }
}
