//! NodeVersions, drawn beside the rest: a provider with two groups of machines, a cluster autoscaler, and what people do to them. It has
//! numbers of its own, so that nothing else of a seed depends on it.

use super::fleet::{KUBELETS, bind, draw_rules};
use crate::{
    Owners,
    world::{Act, CloudKnobs, FleetAct, GROUPS, NEVER_BOOTS, STEADY, World},
};
use numo_api::{
    machines::{
        AutoscalingStrategySpec, AutoscalingStrategyStatus, NodeRole, NodeVersionSpec, ScalingGroupSpec,
    },
    marks::openshift,
};
use numo_core::observed::{
    AUTOSCALER_NAME, AUTOSCALER_NAMESPACE, AutoscalerView, Key, RuleView, ScalingGroupView, StrategyView,
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

/// Name of the one NodeVersion.
const NAME: &str = "constellation-version";
/// Name of that of the workers, where there are two.
const SECOND: &str = "version-of-workers";
/// Of a hundred clusters of NodeVersions, how many have two.
const WITH_TWO: u32 = 25;
/// The images, the first that machines have.
const IMAGES: [&str; 3] = ["img-1", "IMG-2", "img-3"];
/// Of a hundred clusters with all owners, how many have a NodeVersion.
const WITH_VERSIONS: u32 = 60;

const STORY: CloudKnobs = CloudKnobs {
    boot: (90, 90),
    going: (20, 20),
    ready: (10, 10),
    lag: 0,
    duds: 0,
    refusals: 0,
    is_slow: false,
};

/// A sound provider, and a NodeVersion that is about to ask for another image.
pub(super) fn plain(world: &mut World, rules: &[RuleView]) {
    bind(world, "NodeVersion", rules, &json!({}));
    open(world, 0, STORY, &json!({}), true);
    world.plan_fleet_act(60, FleetAct::NewImage(IMAGES[1].to_owned()));
}

/// The same with so many workers, of whose machines some never boot, and what the NodeVersion asks for.
pub(super) fn large(world: &mut World, rules: &[RuleView], duds: u32, spec: &Value) {
    bind(world, "NodeVersion", rules, &json!({}));
    open(world, 0, CloudKnobs { duds, ..STORY }, spec, true);
    world.plan_fleet_act(60, FleetAct::NewImage(IMAGES[1].to_owned()));
}

/// The same with a NodeVersion for each of the two groups.
pub(super) fn plain_two(world: &mut World, rules: &[RuleView]) {
    plain(world, rules);
    split(world, json!({}));
}

/// The workers get a NodeVersion of their own, which asks for the same.
fn split(world: &mut World, spec: Value) {
    let mut spec: NodeVersionSpec = serde_json::from_value(spec).unwrap_or_default();
    spec.image = Some(IMAGES[0].to_owned());
    world.add_version(SECOND, spec);
    if let Some(group) = world.truth.fleet.groups.get_mut(GROUPS[1].1) {
        group.spec.node_image = Some(SECOND.to_owned());
    }
}

/// The control plane gets a NodeVersion of its own, which nobody ever asks for anything: its members of etcd are OpenShift's, which these worlds do
/// not show, so that none of them may go.
fn keep_control_plane(world: &mut World) {
    let spec = NodeVersionSpec {
        image: Some(IMAGES[0].to_owned()),
        ..NodeVersionSpec::default()
    };
    world.add_version(STEADY, spec);
    if let Some(group) = world.truth.fleet.groups.get_mut(GROUPS[0].1) {
        group.spec.node_image = Some(STEADY.to_owned());
    }
}

/// Draws it, for NodeVersions alone and for some clusters with all owners.
pub(super) fn add(
    world: &mut World,
    (seed, owners): (u64, Owners),
    (faults, people): (bool, bool),
    storm: i64,
) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x7665_7273);
    let rng = &mut rng;
    let is_meant = match owners {
        Owners::Versions => true,
        Owners::All => rng.random_ratio(WITH_VERSIONS, 100),
        Owners::Runs | Owners::Plans | Owners::Maintenances => false,
    };
    if !is_meant {
        return;
    }
    let rules = draw_rules(rng, faults, "version");
    let settings = draw_settings(rng);
    bind(world, "NodeVersion", &rules, &settings);
    let mut knobs = CloudKnobs {
        boot: (30, 400),
        going: (5, 120),
        ready: (0, 120),
        is_slow: rng.random_bool(0.3),
        ..STORY
    };
    if faults {
        knobs.lag = [0, 0, 20, 90][rng.random_range(0..4)];
        knobs.duds = [0, 0, 10, 30][rng.random_range(0..4)];
        knobs.refusals = [0, 0, 5, 20][rng.random_range(0..4)];
    }
    let mut spec = json!({});
    let surges = [json!(1), json!(2), json!(3), json!("50%")];
    if rng.random_bool(0.6) {
        spec["surge"] = surges[rng.random_range(0..4)].clone();
    }
    if rng.random_bool(0.6) {
        spec["joinTimeoutSeconds"] = json!([600, 1200][rng.random_range(0..2)]);
    }
    if rng.random_bool(0.4) {
        spec["joinRetries"] = json!(rng.random_range(0..4));
    }
    // Groups that are found are all of the first NodeVersion.
    let is_discovered = rng.random_bool(0.2) && world.truth.pools.is_empty();
    open(world, seed, knobs, &spec, !is_discovered);
    if !world.truth.pools.is_empty() {
        keep_control_plane(world);
    }
    more(world, seed, (is_discovered, people), storm);
    let at = rng.random_range(60..2000);
    world.plan_fleet_act(at, FleetAct::NewImage(IMAGES[1].to_owned()));
    if !people {
        return;
    }
    for _ in 0..rng.random_range(0..4) {
        let act = draw_act(rng);
        world.plan_fleet_act(rng.random_range(0..storm), act);
    }
}

/// What was added later, with numbers of its own: a second NodeVersion, groups that go, an image that never boots, one more image soon after
/// another, and Nodes of the control plane that go.
fn more(world: &mut World, seed: u64, (is_discovered, people): (bool, bool), storm: i64) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x0074_776f);
    if !is_discovered && rng.random_ratio(WITH_TWO, 100) {
        split(world, json!({"surge": rng.random_range(1..3)}));
    }
    if !people {
        return;
    }
    for _ in 0..rng.random_range(0..3) {
        let at = rng.random_range(0..storm);
        let image = IMAGES[rng.random_range(0..3)].to_owned();
        match rng.random_range(0..8) {
            0 | 1 => world.plan_fleet_act(at, FleetAct::NewImageOfOne(image)),
            2 => world.plan_fleet_act(at, FleetAct::DeleteGroup),
            3 => world.plan_fleet_act(at, FleetAct::LoseGroup(rng.random_range(60..5000))),
            4 => world.plan_fleet_act(at, FleetAct::NewImage(NEVER_BOOTS.to_owned())),
            5 => world.plan_act(at, Act::OnControlPlane(Box::new(Act::DeleteNode))),
            _ => {
                world.plan_fleet_act(at, FleetAct::NewImage(IMAGES[2].to_owned()));
                world.plan_fleet_act(at + rng.random_range(1..600), FleetAct::NewImage(image));
            }
        }
    }
}

fn draw_act(rng: &mut SmallRng) -> FleetAct {
    let long = rng.random_range(60..5000);
    match rng.random_range(0..10) {
        0 | 1 => FleetAct::NewImage(IMAGES[2].to_owned()),
        2 => FleetAct::NewImage(IMAGES[0].to_owned()),
        3 => FleetAct::DeleteVersion,
        4 => FleetAct::AbortVersion(long),
        5 | 6 => FleetAct::StartAutoscaler,
        7 => FleetAct::SetSurge(rng.random_range(1..4)),
        _ => FleetAct::LoseProvider(long),
    }
}

fn draw_settings(rng: &mut SmallRng) -> Value {
    let mut settings = json!({});
    let mut maybe = |rng: &mut SmallRng, key: &str, values: &[Value]| {
        if rng.random_bool(0.3) {
            settings[key] = values[rng.random_range(0..values.len())].clone();
        }
    };
    maybe(rng, "maxUnavailable", &[json!(1), json!(2), json!("50%")]);
    maybe(rng, "mutexKeys", &[json!([openshift::ZONE])]);
    maybe(rng, "soakSeconds", &[json!(30), json!(600)]);
    maybe(rng, "order", &[json!("Zone"), json!("Name"), json!("Newest")]);
    maybe(rng, "failureBudget", &[json!(1), json!(2), json!("50%")]);
    maybe(rng, "takeNotReady", &[json!(false), json!(true)]);
    maybe(
        rng,
        "drain",
        &[json!({"probe": true}), json!({"maxConcurrent": 1})],
    );
    settings
}

/// A provider with two groups of machines, all of the first image; the NodeVersion asks for that.
fn open(world: &mut World, seed: u64, knobs: CloudKnobs, spec: &Value, has_groups: bool) {
    world.open_cloud(seed, knobs, IMAGES[0], KUBELETS[0]);
    // What nodes were labelled with is meant.
    for node in world.truth.nodes.values() {
        world.people.labels.insert(node.uid.clone(), node.labels.clone());
    }
    let mut spec: NodeVersionSpec = serde_json::from_value(spec.clone()).unwrap_or_default();
    spec.image = Some(IMAGES[0].to_owned());
    world.add_version(NAME, spec);
    for (id, name) in GROUPS.into_iter().filter(|_| has_groups) {
        let is_master = name == "masters";
        let role = if is_master {
            NodeRole::ControlPlane
        } else {
            NodeRole::Worker
        };
        let view = ScalingGroupView {
            name: name.to_owned(),
            uid: format!("group-{name}"),
            spec: ScalingGroupSpec {
                node_image: Some(NAME.to_owned()),
                group_id: Some(id.to_owned()),
                autoscaler_group_name: Some(format!("asg-{name}")),
                node_group_name: Some(name.to_owned()),
                autoscaling: Some(!is_master),
                min: Some(1),
                max: Some(9),
                role: Some(role),
            },
            ..ScalingGroupView::default()
        };
        world.truth.fleet.groups.insert(name.to_owned(), view);
    }
    let strategy = StrategyView {
        name: "autoscalingstrategy".to_owned(),
        uid: "strategy".to_owned(),
        spec: AutoscalingStrategySpec {
            enabled: true,
            deployment_name: AUTOSCALER_NAME.to_owned(),
            deployment_namespace: AUTOSCALER_NAMESPACE.to_owned(),
            autoscaler_extra_args: None,
        },
        status: AutoscalingStrategyStatus::default(),
    };
    world
        .truth
        .fleet
        .strategies
        .insert(strategy.name.clone(), strategy);
    let deployment = AutoscalerView {
        uid: "autoscaler".to_owned(),
        replicas: 1,
        ..AutoscalerView::default()
    };
    let key = Key::new(AUTOSCALER_NAMESPACE, AUTOSCALER_NAME);
    world.truth.fleet.followed.insert(key.clone());
    world.truth.fleet.autoscalers.insert(key, deployment);
}
