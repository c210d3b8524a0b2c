//! What a person must approve, drawn beside the rest: it has numbers of its own, so that nothing else of a seed depends on it.

use crate::world::World;
use numo_api::{ApprovalPolicy, ApprovalSettings, Wave};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// Of a hundred owners and MutexBindings, how many want something approved; Plans, of which a MutexBinding says it too, half as often.
const WITH_APPROVAL: u32 = 14;
/// Of a hundred waves, how many want it.
const OF_WAVES: u32 = 35;

/// Draws it. Where `people` may have a hand in it, words are wrong, are taken back, and run out.
pub(super) fn add(world: &mut World, seed: u64, people: bool) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x0077_6f72_6473);
    let rng = &mut rng;
    world.approver.errs = people;
    for run in world.truth.runs.values_mut() {
        run.spec.approval = settings(rng, WITH_APPROVAL, people);
        mark_waves(rng, run.spec.waves.as_mut());
    }
    for plan in world.truth.plans.values_mut() {
        if let Some(settings) = settings(rng, WITH_APPROVAL / 2, people) {
            plan.spec.mutex.get_or_insert_default().approval = Some(settings);
        }
    }
    let bindings = world.truth.bindings.values_mut();
    for binding in bindings.filter(|one| one.spec.owner_selector.kind == "Plan") {
        binding.spec.settings.approval = settings(rng, WITH_APPROVAL, people);
        mark_waves(rng, binding.spec.settings.waves.as_mut());
    }
}

fn settings(rng: &mut SmallRng, of_hundred: u32, people: bool) -> Option<ApprovalSettings> {
    if !rng.random_ratio(of_hundred, 100) {
        return None;
    }
    let policy = |is: bool| if is { Some(ApprovalPolicy::Manual) } else { None };
    Some(ApprovalSettings {
        begin: policy(rng.random_bool(0.7)),
        after_failure: policy(rng.random_bool(0.5)),
        ttl_seconds: (people && rng.random_bool(0.5)).then(|| rng.random_range(600..5000)),
    })
}

fn mark_waves(rng: &mut SmallRng, waves: Option<&mut Vec<Wave>>) {
    for wave in waves.into_iter().flatten() {
        wave.approval = rng.random_ratio(OF_WAVES, 100).then_some(ApprovalPolicy::Manual);
    }
}
