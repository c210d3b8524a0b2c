//! What is drawn beside the rest, for every kind of owner: hours, waves, rules that are asked, faults of the control plane, edits of
//! MutexBindings. It has numbers of its own, so that nothing else of a seed depends on it.

use crate::world::{Act, BindingEdit, FleetAct, HoursOf, MeantHours, World};
use numo_api::{ObjectRef, Phase, TargetRef, Wave, marks::openshift};
use numo_core::observed::{EVALUATED_PASS_SECONDS, Key, RuleView, TargetView};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

/// Of a hundred owners and MutexBindings, how many have hours.
const WITH_HOURS: u32 = 15;
/// Of a hundred rules, how many are asked.
const ASKED: u32 = 25;
/// Of a hundred MutexRunConfigs and MutexBindings, how many have waves.
const WITH_WAVES: u32 = 20;
/// Of a hundred waves, how many have a rule of their own.
const WITH_RULES: u32 = 20;
/// Of a hundred MutexRunConfigs, how many name their pools themselves, and how many of the others have a target with a limit of its own.
const WITH_POOLS: u32 = 20;
const WITH_LIMITS: u32 = 30;
/// In one of so many seeds the status of a NodeChange is copied.
const COPIED: u64 = 13;

/// Draws it. `faults` and `people` are those of the simulation, and `storm` says how long they go on (seconds).
pub(super) fn add(world: &mut World, seed: u64, (faults, people): (bool, bool), storm: i64) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x6d6f_7265);
    let rng = &mut rng;
    if faults {
        world.knobs.asked = [[10, 0, 0], [20, 2, 5], [30, 5, 10]][rng.random_range(0..3)];
    }
    for rule in world.truth.rules.values_mut() {
        if rng.random_ratio(ASKED, 100) {
            ask_instead(rng, rule);
        }
    }
    for place in world.places_of_hours() {
        let of_hundred = match place {
            // A field of its own on a Plan is one gate more.
            HoursOf::Plan(_) => WITH_HOURS / 2,
            // There are several, each for all owners.
            HoursOf::Window(_) => WITH_HOURS / 3,
            HoursOf::Run(_) | HoursOf::Binding(_) => WITH_HOURS,
        };
        if rng.random_ratio(of_hundred, 100) {
            world.set_hours(&place, MeantHours::drawn(rng));
        }
    }
    draw_waves(world, seed);
    draw_targets(world, seed);
    if !people {
        return;
    }
    copy_a_status(world, seed, storm);
    let has_fleet = world.has_pods;
    for _ in 0..rng.random_range(0..3) {
        let long = rng.random_range(60..5000);
        let at = rng.random_range(0..storm);
        match rng.random_range(0..8) {
            0 => world.plan_act(at, Act::SetHours(Box::new(MeantHours::drawn(rng)), long)),
            1..=3 if has_fleet => {
                let edit = BindingEdit::EACH[rng.random_range(0..BindingEdit::EACH.len())];
                world.plan_fleet_act(at, FleetAct::EditBinding(edit, long));
            }
            4..=6 => {
                let acts = [
                    Act::Sicken(long),
                    Act::Sicken(long),
                    Act::DeleteNode,
                    Act::RecreateNode,
                    Act::Cordon(long),
                    Act::TakeAway(long),
                    Act::TakeLease(long),
                ];
                let act = acts[rng.random_range(0..acts.len())].clone();
                world.plan_act(at, Act::OnControlPlane(Box::new(act)));
            }
            _ => {}
        }
    }
}

/// Somebody restores a backup wrongly: in few seeds, as the judge is told that journals are not what they were.
fn copy_a_status(world: &mut World, seed: u64, storm: i64) {
    if seed % COPIED != 5 {
        return;
    }
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x636f_7079);
    let (swaps, times) = (rng.random_bool(0.5), 60);
    world.plan_act(rng.random_range(0..storm / 2), Act::CopyStatus(swaps, times));
}

/// Waves, for some owners and MutexBindings instead of nodes that go first.
fn draw_waves(world: &mut World, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x7761_7665);
    let rng = &mut rng;
    for run in world.truth.runs.values_mut() {
        if rng.random_ratio(WITH_WAVES, 100) {
            (run.spec.first, run.spec.waves) = (None, Some(waves(rng)));
        }
    }
    let bindings = world.truth.bindings.values_mut();
    for binding in bindings.filter(|one| one.spec.owner_selector.kind == "Plan") {
        if rng.random_ratio(WITH_WAVES, 100) {
            let settings = &mut binding.spec.settings;
            (settings.first, settings.waves) = (None, Some(waves(rng)));
        }
    }
    draw_rules_of_waves(world, seed);
}

/// A rule that no owner names for all its nodes, for some waves.
fn draw_rules_of_waves(world: &mut World, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x7772_756c);
    let truth = &mut world.truth;
    let Some(mut rule) = truth.rules.values().next().cloned() else {
        return;
    };
    rule.key = Key::new(&rule.key.namespace, "smoke");
    (rule.uid, rule.job_name) = ("rule-smoke".to_owned(), "smoke".to_owned());
    rule.phases = vec![[Phase::Pre, Phase::PreRelease][rng.random_range(0..2)]];
    if rule.is_evaluated && rng.random_bool(0.5) {
        rule.phases.insert(0, Phase::Admit);
    }
    let of_runs = truth.runs.values_mut().map(|run| &mut run.spec.waves);
    let bindings = truth.bindings.values_mut();
    let of_bindings = bindings.map(|one| &mut one.spec.settings.waves);
    let mut is_named = false;
    for wave in of_runs.chain(of_bindings).flatten().flatten() {
        if rng.random_ratio(WITH_RULES, 100) {
            wave.rules = Some(vec![ObjectRef {
                name: Some(rule.key.name.clone()),
                ..ObjectRef::default()
            }]);
            is_named = true;
        }
    }
    // People delete and edit rules that are there: one that nobody names would only draw that from the others.
    if is_named {
        truth.rules.insert(rule.key.clone(), rule);
    }
}

/// Pools instead of a target, or one more target of some of the nodes, for some MutexRunConfigs.
fn draw_targets(world: &mut World, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x706f_6f6c);
    let rng = &mut rng;
    let truth = &mut world.truth;
    for run in truth.runs.values_mut() {
        let name = run
            .spec
            .mutex_targets
            .as_ref()
            .and_then(|all| all.first()?.name.clone());
        let key = Key::new(&run.key.namespace, name.unwrap_or_default());
        let Some(target) = truth.targets.get(&key).cloned() else {
            continue;
        };
        if rng.random_ratio(WITH_POOLS, 100) {
            (run.spec.pools, run.spec.mutex_targets) = (Some(target.pools), None);
        } else if rng.random_ratio(WITH_LIMITS, 100) {
            let few = TargetView {
                key: Key::new(&key.namespace, format!("{}-few", key.name)),
                uid: format!("{}-few", target.uid),
                pools: target.pools.into_iter().take(1).collect(),
                ..target
            };
            let limits = [json!(1), json!(2), json!("50%")];
            let reference = TargetRef {
                name: Some(few.key.name.clone()),
                namespace: None,
                max_unavailable: serde_json::from_value(limits[rng.random_range(0..3)].clone()).ok(),
            };
            run.spec.mutex_targets.get_or_insert_default().push(reference);
            truth.targets.insert(few.key.clone(), few);
        }
    }
}

fn waves(rng: &mut SmallRng) -> Vec<Wave> {
    let by_label = |key: &str, value: &str| json!({"nodeSelector": {"matchLabels": {key: value}}});
    let each = [
        by_label(openshift::ZONE, "z0"),
        by_label(openshift::ZONE, "z1"),
        by_label(openshift::HOSTNAME, "n1"),
        by_label(openshift::HOSTNAME, "nobody"),
        json!({"nodes": 1}),
        json!({"nodes": 2}),
    ];
    let count = rng.random_range(1..4);
    let mut waves: Vec<Value> = (0..count)
        .map(|_| each[rng.random_range(0..each.len())].clone())
        .collect();
    if rng.random_bool(0.3) {
        waves.push(json!({"nodes": 1, "growth": rng.random_range(1..4)}));
    }
    for wave in &mut waves {
        if rng.random_bool(0.4) {
            wave["soakSeconds"] = json!([60, 900][rng.random_range(0..2)]);
        }
        if rng.random_bool(0.2) {
            wave["maxUnavailable"] = json!(1);
        }
        if rng.random_bool(0.2) {
            wave["failureBudget"] = json!(rng.random_range(1..3));
        }
    }
    serde_json::from_value(Value::Array(waves)).unwrap_or_default()
}

/// Makes a rule one that is asked, perhaps before a turn too.
fn ask_instead(rng: &mut SmallRng, rule: &mut RuleView) {
    rule.has_job = false;
    rule.is_evaluated = true;
    rule.pass_seconds = EVALUATED_PASS_SECONDS;
    if rng.random_bool(0.5) {
        rule.phases.push(Phase::Admit);
        rule.phases.sort();
    }
}
