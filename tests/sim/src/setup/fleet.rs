//! Clusters with Plans and NodeMaintenances, alone and beside a MutexRunConfig on the same nodes.

use super::{
    DRAWN, FIRST, Faults, NAMESPACE, SECOND, STORY, Setup, add_node, add_run, base, draw_act, draw_budgets,
    draw_faults, first, rule, spec,
};
use crate::{
    Owners,
    world::{Act, FleetAct, MeantPlan, World},
};
use numo_api::{
    FailurePolicy, MutexBindingSpec, NodeMaintenanceSpec, Phase, PlanSpec, Strategy, marks::openshift,
};
use numo_core::observed::{Key, RuleView, Settings};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

/// Namespace of Plans.
const PLANS: &str = "system-upgrade";
const MASTER: &str = "node-role.kubernetes.io/master";
/// Versions of Kubernetes Plans, the first that nodes are at.
pub(super) const KUBELETS: [&str; 3] = ["v1.30.1", "v1.31.0", "v1.31.4"];

impl Setup {
    /// A sound cluster for one kind of owner: two workers and a master, two workloads with budgets, one owner, two rules.
    pub fn plain_fleet(owners: Owners) -> Self {
        let mut world = World::new(0, STORY);
        begin(&mut world, false);
        for (name, role) in [
            ("w1", "worker"),
            ("w2", "worker"),
            ("w3", "worker"),
            ("m1", "master"),
        ] {
            add_node(&mut world, name, role, Some("zone-a"));
        }
        workloads(&mut world, &[("web", 3), ("db", 2)]);
        let rules = vec![
            rule("backup", vec![Phase::Pre]),
            rule("smoke-test", vec![Phase::PreRelease, Phase::Post]),
        ];
        if owners == Owners::Maintenances {
            bind(&mut world, "NodeMaintenance", &rules, &json!({}));
            let spec = NodeMaintenanceSpec {
                node_name: "w1".to_owned(),
                ..NodeMaintenanceSpec::default()
            };
            let owner = world.add_maintenance("w1", spec);
            world.plan_fleet_act(1800, FleetAct::EndMaintenance(owner));
        } else if owners == Owners::Versions {
            super::versions::plain(&mut world, &rules);
        } else {
            bind(&mut world, "Plan", &rules, &json!({"drainBy": "Numo"}));
            let plan = json!({"concurrency": 1, "drain": {}, "upgrade": {"image": "k3s"},
                "version": KUBELETS[1], "nodeSelector": {"matchLabels": {openshift::WORKER: ""}}});
            add_plan(&mut world, "agents", &plan, openshift::WORKER, None);
        }
        Self {
            world,
            faults: Faults::default(),
            storm: 3600,
            people: false,
        }
    }

    /// A sound cluster with a NodeVersion for each of the two groups of machines.
    pub fn plain_two_versions() -> Self {
        Self::of_machines(3, super::versions::plain_two)
    }

    /// A sound cluster of so many workers whose machines are replaced, as the spec of a NodeVersion says. Of a hundred new machines so many never
    /// boot.
    pub fn large_version(workers: usize, duds: u32, spec: &Value) -> Self {
        let open = |world: &mut World, rules: &[RuleView]| super::versions::large(world, rules, duds, spec);
        Self::of_machines(workers, open)
    }

    fn of_machines(workers: usize, open: impl Fn(&mut World, &[RuleView])) -> Self {
        let mut world = World::new(0, STORY);
        begin(&mut world, false);
        for number in 1..=workers {
            add_node(&mut world, &format!("w{number}"), "worker", Some("zone-a"));
        }
        for number in 1..=3 {
            add_node(&mut world, &format!("m{number}"), "master", Some("zone-a"));
        }
        workloads(&mut world, &[("web", 3), ("db", 2)]);
        open(&mut world, &[rule("smoke-test", vec![Phase::Post])]);
        Self {
            world,
            faults: Faults::default(),
            storm: 3600,
            people: false,
        }
    }

    /// A cluster with owners of these kinds, and a fate, drawn from a seed.
    pub fn drawn_fleet(seed: u64, owners: Owners, faults: bool, people: bool) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed ^ 0x0066_6c65_6574);
        let rng = &mut rng;
        let mut knobs = DRAWN;
        if faults {
            knobs.jobs_failing = [0, 0, 5, 20][rng.random_range(0..4)];
            knobs.jobs_hanging = [0, 0, 0, 10][rng.random_range(0..4)];
        }
        let mut world = World::new(seed, knobs);
        let has_run = owners == Owners::All && rng.random_bool(0.7);
        begin(&mut world, has_run);
        let zones = rng.random_range(0..=3);
        for number in 0..rng.random_range(3..=6) {
            let zone = (zones > 0).then(|| format!("z{}", number % zones));
            add_node(&mut world, &format!("n{number}"), "worker", zone.as_deref());
        }
        for number in 0..[1, 1, 3][rng.random_range(0..3)] {
            add_node(&mut world, &format!("m{number}"), "master", None);
        }
        if rng.random_bool(0.15) {
            // In every other of them somebody makes the namespace later on.
            world.leases_from = if seed.is_multiple_of(2) {
                1800 * i64::try_from(1 + seed / 2 % 8).unwrap_or(1)
            } else {
                i64::MAX
            };
        }
        workloads(
            &mut world,
            &[("web", rng.random_range(1..6)), ("db", rng.random_range(1..4))],
        );
        if rng.random_bool(0.5) {
            world.add_daemon_set();
        }
        if rng.random_bool(0.5) {
            world.add_own_pod();
        }
        let storm = rng.random_range(3600..20_000);
        if matches!(owners, Owners::Plans | Owners::All) {
            let rules = draw_rules(rng, faults, "plan");
            let settings = draw_settings(rng);
            bind(&mut world, "Plan", &rules, &settings);
            draw_plans(rng, &mut world);
        }
        if matches!(owners, Owners::Maintenances | Owners::All) {
            let rules = draw_rules(rng, faults, "maintenance");
            let limit = [
                json!({}),
                json!({"maxUnavailable": 1}),
                json!({"maxUnavailable": 2}),
                json!({"mutexKeys": [openshift::ZONE]}),
            ];
            let limit = &limit[rng.random_range(0..limit.len())];
            bind(&mut world, "NodeMaintenance", &rules, limit);
            for _ in 0..rng.random_range(1..4) {
                let long = rng.random_range(1200..9000);
                world.plan_fleet_act(rng.random_range(0..storm / 2), FleetAct::Maintain(long));
            }
        }
        if has_run {
            let rules = draw_rules(rng, faults, "run");
            let limit = json!({"maxUnavailable": rng.random_range(1..3)});
            add_run(
                &mut world,
                "upgrade",
                spec(Strategy::DesiredConfig, &limit),
                rules,
                &["worker"],
            );
            world.plan_act(rng.random_range(60..2000), Act::Ask(SECOND.to_owned()));
        }
        super::versions::add(&mut world, (seed, owners), (faults, people), storm);
        draw_budgets(rng, &mut world);
        if people {
            for _ in 0..rng.random_range(0..8) {
                let at = rng.random_range(0..storm);
                if rng.random_bool(0.6) {
                    let act = draw_fleet_act(rng);
                    world.plan_fleet_act(at, act);
                } else if let Some(act) = draw_common_act(rng) {
                    world.plan_act(at, act);
                }
            }
        }
        super::more::add(&mut world, seed, (faults, people), storm);
        super::groups::add(&mut world, seed);
        super::approvals::add(&mut world, seed, people);
        super::maintained::add(&mut world, seed, people);
        super::replaced::add(&mut world, seed, people);
        let faults = if faults {
            draw_faults(rng, seed)
        } else {
            Faults::default()
        };
        Self {
            world,
            faults,
            storm,
            people,
        }
    }
}

/// An empty cluster; of OpenShift if it has pools.
fn begin(world: &mut World, has_pools: bool) {
    if has_pools {
        base(world, false, false);
    } else {
        FIRST.clone_into(&mut world.rendered);
    }
    world.truth.settings = Settings {
        namespace: NAMESPACE.to_owned(),
        plan_namespaces: vec![PLANS.to_owned()],
        ..Settings::default()
    };
    world.has_pods = true;
}

/// Workloads on the nodes that there are, each with a budget that lets one pod go; all kubelets are at the first version.
fn workloads(world: &mut World, all: &[(&str, usize)]) {
    for node in world.truth.nodes.values_mut() {
        KUBELETS[0].clone_into(&mut node.kubelet_version);
        "boot".clone_into(&mut node.boot_id);
    }
    for (name, replicas) in all {
        let least = i64::try_from(*replicas).unwrap_or(1) - 1;
        world.add_workload(name, *replicas, Some(least));
    }
}

pub(super) fn bind(world: &mut World, kind: &str, rules: &[RuleView], settings: &Value) {
    let references: Vec<Value> = rules.iter().map(|rule| json!({"name": rule.key.name})).collect();
    let mut binding = json!({"ownerSelector": {"kind": kind}, "rules": references});
    for (key, value) in settings.as_object().into_iter().flatten() {
        binding[key] = value.clone();
    }
    let spec: MutexBindingSpec = serde_json::from_value(binding).unwrap_or_default();
    world.truth.bindings.insert(format!("of-{kind}"), spec.into());
    for rule in rules {
        world.truth.rules.insert(rule.key.clone(), rule.clone());
    }
}

fn add_plan(world: &mut World, name: &str, plan: &Value, role: &str, after: Option<&str>) {
    let spec: PlanSpec = serde_json::from_value(plan.clone()).unwrap_or_default();
    let meant = MeantPlan {
        role: role.to_owned(),
        of_kubelet: name != "os",
        after: after.map(|name| Key::new(PLANS, name)),
        window: None,
    };
    world.add_plan(&Key::new(PLANS, name), spec, meant);
}

pub(super) fn draw_rules(rng: &mut SmallRng, faults: bool, of: &str) -> Vec<RuleView> {
    let phases = [
        Phase::Pre,
        Phase::Pre,
        Phase::PreRelease,
        Phase::Post,
        Phase::OnFailure,
        Phase::BeforeUncordon,
    ];
    // A MutexRunConfig uncordons nothing, and a NodeVersion neither.
    let phases = if matches!(of, "run" | "version") {
        &phases[..5]
    } else {
        &phases[..]
    };
    let policies = [
        FailurePolicy::Hold,
        FailurePolicy::Skip,
        FailurePolicy::Continue,
        FailurePolicy::Abort,
    ];
    let draw = |number: i32, rng: &mut SmallRng| {
        let mut chosen: Vec<Phase> = (0..rng.random_range(1..3))
            .map(|_| phases[rng.random_range(0..phases.len())])
            .collect();
        chosen.sort();
        chosen.dedup();
        let mut rule = rule(&format!("{of}-{number}"), chosen);
        if faults {
            rule.retries = rng.random_range(0..3);
            rule.failure_policy = policies[rng.random_range(0..policies.len())];
            rule.timeout_seconds = [120, 600, 3600][rng.random_range(0..3)];
        }
        rule
    };
    let count = rng.random_range(0..3);
    (0..count).map(|number| draw(number, rng)).collect()
}

fn draw_settings(rng: &mut SmallRng) -> Value {
    let mut settings = json!({});
    let mut maybe = |rng: &mut SmallRng, key: &str, values: &[Value]| {
        if rng.random_bool(0.4) {
            settings[key] = values[rng.random_range(0..values.len())].clone();
        }
    };
    maybe(rng, "maxUnavailable", &[json!(1), json!(2), json!("50%")]);
    maybe(rng, "mutexKeys", &[json!([openshift::ZONE])]);
    maybe(
        rng,
        "first",
        &[first(openshift::ZONE, "z0"), first(openshift::HOSTNAME, "n1")],
    );
    maybe(rng, "soakSeconds", &[json!(30), json!(600)]);
    maybe(rng, "order", &[json!("Zone"), json!("Name"), json!("Newest")]);
    maybe(rng, "retries", &[json!(1), json!(3)]);
    maybe(rng, "failureBudget", &[json!(1), json!(2), json!("50%")]);
    maybe(rng, "drainBy", &[json!("Numo"), json!("Numo"), json!("Job")]);
    maybe(rng, "takeNotReady", &[json!(false), json!(true)]);
    maybe(rng, "notReadyPolicy", &[json!("Wait"), json!("LeaveOutAfter")]);
    maybe(rng, "leaveOutAfterSeconds", &[json!(60), json!(600)]);
    maybe(
        rng,
        "drain",
        &[json!({"probe": true}), json!({"maxConcurrent": 1})],
    );
    settings
}

/// Servers, agents that wait for them, or both; and something that is no Kubernetes, on the same nodes.
fn draw_plans(rng: &mut SmallRng, world: &mut World) {
    let both = rng.random_bool(0.5);
    let servers = both || rng.random_bool(0.2);
    let closes = [
        json!({}),
        json!({"cordon": true}),
        json!({"drain": {}}),
        json!({"drain": {}}),
    ];
    let mut plan = |rng: &mut SmallRng, name: &str, role: &str, after: Option<&str>| {
        let mut plan = json!({"concurrency": rng.random_range(1..4), "upgrade": {"image": "upgrade"},
            "version": KUBELETS[1], "nodeSelector": {"matchLabels": {role: ""}}});
        let close = &closes[rng.random_range(0..closes.len())];
        for (key, value) in close.as_object().into_iter().flatten() {
            plan[key] = value.clone();
        }
        if let Some(after) = after {
            plan["prepare"] = json!({"image": "upgrade", "args": ["prepare", after]});
        }
        if rng.random_bool(0.2) {
            plan["postCompleteDelay"] = json!("90s");
        }
        add_plan(world, name, &plan, role, after);
        if rng.random_bool(0.2) {
            let from = rng.random_range(8..10) * 3600;
            world.set_window(&Key::new(PLANS, name), Some((from, from + 3600)));
        }
    };
    if servers {
        plan(rng, "servers", MASTER, None);
    }
    if both || !servers {
        plan(rng, "agents", openshift::WORKER, servers.then_some("servers"));
    }
    if rng.random_bool(0.4) {
        plan(rng, "os", openshift::WORKER, None);
    }
}

fn draw_fleet_act(rng: &mut SmallRng) -> FleetAct {
    let long = rng.random_range(60..5000);
    let from = rng.random_range(8..13) * 3600;
    match rng.random_range(0..20) {
        0..=2 => FleetAct::Suspend(if rng.random_bool(0.5) { 40_000 } else { long }),
        3 => FleetAct::NewVersion(KUBELETS[2].to_owned()),
        4 => FleetAct::NewVersionOfOne(KUBELETS[2].to_owned(), 3600),
        5 => FleetAct::DeletePlan,
        6 => FleetAct::AbortPlan(long),
        7 => FleetAct::SetWindow(from, from + 1800),
        8 => FleetAct::SetConcurrency(rng.random_range(0..4)),
        9..=11 => FleetAct::Maintain(long),
        12 => FleetAct::UncordonOurs(if long % 2 == 0 { 0 } else { long }),
        13 => FleetAct::LoseFinalizer,
        14..=16 => FleetAct::CloseBudgets(long),
        17 => FleetAct::DeletePlanJob,
        _ => FleetAct::StopOperator(rng.random_range(60..7200)),
    }
}

/// What people do to nodes and rules, whoever has them in hand. What only touches pools is left to runs alone.
fn draw_common_act(rng: &mut SmallRng) -> Option<Act> {
    for _ in 0..8 {
        let act = draw_act(rng);
        let common = matches!(
            act,
            Act::Cordon(_)
                | Act::Say(_)
                | Act::Break(_)
                | Act::DeleteNode
                | Act::RecreateNode
                | Act::Join
                | Act::Sicken(_)
                | Act::TakeLease(_)
                | Act::PauseBudgets(_)
                | Act::DeleteJob
                | Act::DeleteChange
                | Act::ForbidJobs(_)
                | Act::LoseRule(_)
                | Act::EditRule
                | Act::TakeAway(_)
        );
        if common {
            return Some(act);
        }
    }
    None
}
