//! Budgets over groups of nodes, and owners that go through zones one after the other, drawn beside the rest: it has numbers of its own,
//! so that nothing else of a seed depends on it.

use crate::world::World;
use numo_api::{Domains, marks::openshift};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// Draws it. Each node has a zone then: one without would wait for a person.
pub(super) fn add(world: &mut World, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x0067_726f_7570);
    let rng = &mut rng;
    let mut goes_by_zone = false;
    let budgets = world.truth.budgets.values_mut();
    for budget in budgets.filter(|budget| budget.group_by.is_some()) {
        if rng.random_bool(0.4) {
            budget.max_groups = Some(Ok(rng.random_range(1..3)));
            goes_by_zone = true;
        }
    }
    for run in world.truth.runs.values_mut() {
        run.spec.domains = draw_domains(rng);
        goes_by_zone |= run.spec.domains.is_some();
    }
    let bindings = world.truth.bindings.values_mut();
    for binding in bindings.filter(|binding| binding.spec.owner_selector.kind == "Plan") {
        binding.spec.settings.domains = draw_domains(rng);
        goes_by_zone |= binding.spec.settings.domains.is_some();
    }
    if !goes_by_zone {
        return;
    }
    for node in world.truth.nodes.values_mut() {
        let zone = node.labels.entry(openshift::ZONE.to_owned());
        zone.or_insert_with(|| "z-rest".to_owned());
        world.people.labels.insert(node.uid.clone(), node.labels.clone());
    }
}

fn draw_domains(rng: &mut SmallRng) -> Option<Domains> {
    if !rng.random_bool(0.2) {
        return None;
    }
    let named = ["z1", "b", "z-rest"].map(str::to_owned);
    Some(Domains {
        key: Some(openshift::ZONE.to_owned()),
        at_once: [None, Some(1), Some(2)][rng.random_range(0..3)],
        order: rng.random_bool(0.5).then(|| named.to_vec()),
    })
}
