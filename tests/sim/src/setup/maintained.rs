//! What a MutexBinding orders among NodeMaintenances, and what of them a person must approve, drawn beside the rest: it has numbers of its
//! own, so that nothing else of a seed depends on it.

use crate::world::World;
use numo_api::{ApprovalPolicy, ApprovalSettings, Domains, ObjectRef, Phase, Wave, marks::openshift};
use numo_core::observed::Key;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

/// Of a hundred MutexBindings of NodeMaintenances, how many have waves, domains, and want something approved.
const WITH_WAVES: u32 = 40;
const WITH_DOMAINS: u32 = 25;
const WITH_APPROVAL: u32 = 25;

/// Draws it. Where `people` may have a hand in it, approvals run out.
pub(super) fn add(world: &mut World, seed: u64, people: bool) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x6d61_696e);
    let rng = &mut rng;
    let bindings = world.truth.bindings.values_mut();
    let Some(binding) = bindings
        .into_iter()
        .find(|one| one.spec.owner_selector.kind == "NodeMaintenance")
    else {
        return;
    };
    let settings = &mut binding.spec.settings;
    if rng.random_ratio(WITH_WAVES, 100) {
        settings.waves = Some(waves(rng));
    }
    if rng.random_ratio(WITH_DOMAINS, 100) {
        settings.domains = Some(Domains {
            key: Some(openshift::ZONE.to_owned()),
            at_once: [None, Some(2)][rng.random_range(0..2)],
            order: None,
        });
    }
    if rng.random_ratio(WITH_APPROVAL, 100) {
        let policy = |is: bool| is.then_some(ApprovalPolicy::Manual);
        settings.approval = Some(ApprovalSettings {
            begin: policy(rng.random_bool(0.7)),
            after_failure: policy(rng.random_bool(0.4)),
            ttl_seconds: (people && rng.random_bool(0.4)).then(|| rng.random_range(600..5000)),
        });
    }
    let has_domains = settings.domains.is_some();
    let mut waves = settings.waves.iter().flatten();
    if waves.any(|wave| wave.rules.is_some()) {
        let namespace = world.truth.settings.namespace.clone();
        let mut rule = super::rule("of-wave", vec![Phase::Pre]);
        rule.key = Key::new(&namespace, "of-wave");
        world.truth.rules.insert(rule.key.clone(), rule);
    }
    if !has_domains {
        return;
    }
    // A node without a zone would wait for a person.
    for node in world.truth.nodes.values_mut() {
        let zone = node.labels.entry(openshift::ZONE.to_owned());
        zone.or_insert_with(|| "z-rest".to_owned());
        world.people.labels.insert(node.uid.clone(), node.labels.clone());
    }
}

fn waves(rng: &mut SmallRng) -> Vec<Wave> {
    let by_label = |key: &str, value: &str| json!({"nodeSelector": {"matchLabels": {key: value}}});
    let each = [
        by_label(openshift::ZONE, "z0"),
        by_label(openshift::ZONE, "z1"),
        by_label(openshift::HOSTNAME, "n1"),
        by_label(openshift::HOSTNAME, "n2"),
        by_label(openshift::HOSTNAME, "nobody"),
    ];
    let count = rng.random_range(1..4);
    let mut waves: Vec<Value> = (0..count)
        .map(|_| each[rng.random_range(0..each.len())].clone())
        .collect();
    for wave in &mut waves {
        if rng.random_bool(0.3) {
            wave["soakSeconds"] = json!([60, 900][rng.random_range(0..2)]);
        }
        if rng.random_bool(0.3) {
            wave["maxUnavailable"] = json!(1);
        }
        if rng.random_bool(0.3) {
            wave["approval"] = json!("Manual");
        }
        if rng.random_bool(0.3) {
            let rule = ObjectRef {
                name: Some("of-wave".to_owned()),
                ..ObjectRef::default()
            };
            wave["rules"] = json!([rule]);
        }
    }
    serde_json::from_value(Value::Array(waves)).unwrap_or_default()
}
