//! What a MutexBinding orders among the nodes of NodeVersions, and what of them a person must approve, drawn beside the rest: it has numbers
//! of its own, so that nothing else of a seed depends on it.

use crate::world::{TEAM, World};
use numo_api::{
    ApprovalPolicy, ApprovalSettings, Domains, Wave, marks::openshift, mutex_run_config::NotReadyPolicy,
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

/// Of a hundred MutexBindings of NodeVersions, how many have waves, nodes that go first instead, domains, want something approved, and leave out
/// what is not Ready for long.
const WITH_WAVES: u32 = 30;
const WITH_FIRST: u32 = 20;
const WITH_DOMAINS: u32 = 25;
const WITH_APPROVAL: u32 = 25;
const WITH_LEAVING_OUT: u32 = 30;

/// Draws it. Where `people` may have a hand in it, approvals run out.
pub(super) fn add(world: &mut World, seed: u64, people: bool) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x7265_706c);
    let rng = &mut rng;
    let mut bindings = world.truth.bindings.values_mut();
    let Some(binding) = bindings.find(|one| one.spec.owner_selector.kind == "NodeVersion") else {
        return;
    };
    let settings = &mut binding.spec.settings;
    if rng.random_ratio(WITH_WAVES, 100) {
        settings.waves = Some(waves(rng));
    } else if rng.random_ratio(WITH_FIRST, 100) {
        settings.first = serde_json::from_value(one_label(rng)).ok();
    }
    if rng.random_ratio(WITH_DOMAINS, 100) {
        settings.domains = Some(Domains {
            key: Some(openshift::ZONE.to_owned()),
            at_once: [None, Some(2)][rng.random_range(0..2)],
            order: rng
                .random_bool(0.5)
                .then(|| ["z1", "z-rest"].map(str::to_owned).to_vec()),
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
    if rng.random_ratio(WITH_LEAVING_OUT, 100) {
        settings.not_ready_policy = Some(NotReadyPolicy::LeaveOutAfter);
        settings.leave_out_after_seconds = Some([60, 600][rng.random_range(0..2)]);
    }
    if settings.domains.is_none() {
        return;
    }
    // A node without a zone would wait for a person.
    for node in world.truth.nodes.values_mut() {
        let zone = node.labels.entry(openshift::ZONE.to_owned());
        zone.or_insert_with(|| "z-rest".to_owned());
        world.people.labels.insert(node.uid.clone(), node.labels.clone());
    }
}

/// A selector of nodes by one label: by their zone, by their name, or by one that new nodes get from the old ones.
fn one_label(rng: &mut SmallRng) -> Value {
    let each = [
        (openshift::ZONE, "z0"),
        (openshift::ZONE, "z1"),
        (openshift::HOSTNAME, "n1"),
        (openshift::HOSTNAME, "nobody"),
        (TEAM, "workers"),
    ];
    let (key, value) = each[rng.random_range(0..each.len())];
    json!({"matchLabels": {key: value}})
}

fn waves(rng: &mut SmallRng) -> Vec<Wave> {
    let count = rng.random_range(1..4);
    let mut waves: Vec<Value> = (0..count)
        .map(|_| json!({"nodeSelector": one_label(rng)}))
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
    }
    serde_json::from_value(Value::Array(waves)).unwrap_or_default()
}
