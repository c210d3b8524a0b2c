//! What a simulation begins with: a cluster, a run, what people will do and what will go wrong. Either
//! plain, for a story, or drawn from a seed.

mod approvals;
mod fleet;
mod groups;
mod maintained;
mod more;
mod replaced;
mod versions;

use crate::world::{Act, Fault, Knobs, Span, World, timestamp};
use numo_api::{
    DirectiveAction, FailurePolicy, MutexRunConfigSpec, MutexRunConfigStatus, MutexTargetStatus, Phase,
    Placement, Strategy, marks, marks::openshift,
};
use numo_core::observed::{
    BudgetView, ClusterVersionView, IntOrPercent, Key, PoolView, RuleView, RunConfigView, Settings,
    TargetView, Validity,
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Namespace of the operator, and of everything it is asked to do.
pub const NAMESPACE: &str = "numo";
/// The version everything runs at the beginning.
const FIRST: &str = "4.16.0";
/// The version that is asked for first.
const SECOND: &str = "4.17.0";

/// What goes wrong between the operator and the cluster, of a thousand times.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The operator dies before a write.
    pub crash: u32,
    /// The operator dies before a write, and is away for longer than an ended Job of a Plan is kept.
    pub away: u32,
    /// A write is refused with 403, 429 or 500.
    pub refuse: u32,
    /// A write of a decision comes late, from a leader that was replaced.
    pub zombie: u32,
    /// How late changes are seen (seconds).
    pub lag: Span,
    /// Time that goes by before each write (seconds).
    pub pause: Span,
    /// The operator dies before the write of this number.
    pub crash_before: BTreeSet<usize>,
    /// The operator dies before the write of this number, and is away for longer than an ended Job of a Plan is kept.
    pub away_before: BTreeSet<usize>,
    /// The write of this number is refused.
    pub refuse_before: BTreeSet<usize>,
    /// What someone does before the write of a number.
    pub act_before: BTreeMap<usize, Act>,
}

/// What a simulation begins with.
#[derive(Debug)]
pub struct Setup {
    /// The cluster.
    pub world: World,
    /// What goes wrong.
    pub faults: Faults,
    /// When the people and the faults stop (seconds).
    pub storm: i64,
    /// Whether what others do may keep the runs from their ends.
    pub people: bool,
}

/// How long things take in a story: always the same.
const STORY: Knobs = Knobs {
    controller: (5, 5),
    poll: (10, 10),
    drain: (90, 90),
    reboot: (240, 240),
    job_start: (5, 5),
    job: (30, 30),
    cluster: [(15, 15), (300, 300), (900, 900)],
    jobs_failing: 0,
    jobs_hanging: 0,
    asked: [0; 3],
};

/// How long things take when a seed draws.
const DRAWN: Knobs = Knobs {
    controller: (1, 6),
    poll: (1, 12),
    drain: (5, 400),
    reboot: (60, 600),
    job_start: (1, 20),
    job: (1, 300),
    cluster: [(5, 60), (60, 600), (60, 1200)],
    jobs_failing: 0,
    jobs_hanging: 0,
    asked: [10, 0, 0],
};

impl Setup {
    /// A sound cluster: `nodes` workers in three zones, one run with three rules.
    pub fn plain(strategy: Strategy, nodes: usize) -> Self {
        let mut world = World::new(0, STORY);
        base(&mut world, strategy == Strategy::CanaryPool, false);
        for number in 0..nodes {
            let zone = format!("zone-{}", ["a", "b", "c"][number % 3]);
            add_node(&mut world, &format!("w{}", number + 1), "worker", Some(&zone));
        }
        add_node(&mut world, "m1", "master", None);
        let rules = vec![
            rule("backup", vec![Phase::Pre]),
            rule("no-alerts", vec![Phase::PreRelease]),
            rule("smoke-test", vec![Phase::Post]),
        ];
        let spec = spec(strategy, &json!({}));
        add_run(&mut world, "upgrade", spec, rules, &["worker"]);
        world.plan_act(60, Act::Ask(SECOND.to_owned()));
        Self {
            world,
            faults: Faults::default(),
            storm: 3600,
            people: false,
        }
    }

    /// A cluster, a run and a fate, drawn from a seed.
    pub fn drawn(seed: u64, faults: bool, people: bool) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let rng = &mut rng;
        let mut knobs = DRAWN;
        if faults {
            knobs.jobs_failing = [0, 0, 5, 20][rng.random_range(0..4)];
            knobs.jobs_hanging = [0, 0, 0, 10][rng.random_range(0..4)];
        }
        let mut world = World::new(seed, knobs);
        let strategy = if rng.random_bool(0.5) {
            Strategy::CanaryPool
        } else {
            Strategy::DesiredConfig
        };
        let infra = rng.random_bool(0.4);
        base(&mut world, strategy == Strategy::CanaryPool, infra);
        let nodes = rng.random_range(1..=8);
        let zones = rng.random_range(0..=3);
        for number in 0..nodes {
            let zone = (zones > 0).then(|| format!("z{}", number % zones));
            let role = if infra && rng.random_bool(0.4) {
                "infra"
            } else {
                "worker"
            };
            add_node(&mut world, &format!("n{number}"), role, zone.as_deref());
            let created = timestamp(-rng.random_range(1..10_000));
            if let Some(node) = world.truth.nodes.get_mut(&format!("n{number}")) {
                node.created = created;
            }
        }
        if rng.random_bool(0.5) {
            add_node(&mut world, "m0", "master", None);
        }
        if let Some(canary) = world.truth.pools.get_mut("canary") {
            canary.max_unavailable =
                [None, Some(IntOrPercent::Int(2)), Some(IntOrPercent::Percent(100))][rng.random_range(0..3)];
        }
        let targets: &[&str] = match (infra, rng.random_range(0..3)) {
            (true, 0) => &["infra"],
            (true, 1) => &["infra", "worker"],
            _ => &["worker"],
        };
        let rules = draw_rules(rng, faults);
        let spec = spec(strategy, &draw_spec(rng));
        let adopts = spec.adopt_paused == Some(true);
        add_run(&mut world, "upgrade", spec, rules, targets);
        if adopts && rng.random_bool(0.5) {
            for pool in targets {
                world.people.paused.insert((*pool).to_owned());
                if let Some(pool) = world.truth.pools.get_mut(*pool) {
                    pool.paused = true;
                    pool.paused_manager = Some("sriov".to_owned());
                }
            }
        }
        if rng.random_bool(0.15) {
            let mut spec = self::spec(Strategy::DesiredConfig, &draw_spec(rng));
            // Two runs of which one never lets go of the pool: the other would wait for ever.
            spec.hold = None;
            if let Some(run) = world.truth.runs.get_mut(&Key::new(NAMESPACE, "upgrade")) {
                run.spec.hold = None;
            }
            add_run(&mut world, "other", spec, Vec::new(), &["worker"]);
        }
        draw_budgets(rng, &mut world);
        world.plan_act(60, Act::Ask(SECOND.to_owned()));
        let storm = rng.random_range(3600..20_000);
        if people {
            for _ in 0..rng.random_range(0..8) {
                let at = rng.random_range(0..storm);
                let act = draw_act(rng);
                world.plan_act(at, act);
            }
        }
        more::add(&mut world, seed, (faults, people), storm);
        groups::add(&mut world, seed);
        approvals::add(&mut world, seed, people);
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

/// How often the operator is away for long, of a thousand writes: not at all in most seeds. It has numbers of its own.
fn draw_away(seed: u64) -> u32 {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x6177_6179);
    [0, 0, 2, 8][rng.random_range(0..4)]
}

fn draw_faults(rng: &mut SmallRng, seed: u64) -> Faults {
    let often = |rng: &mut SmallRng, most: u32| {
        if rng.random_bool(0.5) {
            0
        } else {
            rng.random_range(1..=most)
        }
    };
    Faults {
        crash: often(rng, 60),
        refuse: often(rng, 100),
        zombie: often(rng, 60),
        lag: (0, [0, 0, 2, 20][rng.random_range(0..4)]),
        pause: (0, [0, 1, 15][rng.random_range(0..3)]),
        away: draw_away(seed),
        ..Faults::default()
    }
}

fn draw_spec(rng: &mut SmallRng) -> Value {
    let mut spec = json!({});
    let mut maybe = |rng: &mut SmallRng, key: &str, values: &[Value]| {
        if rng.random_bool(0.5) {
            spec[key] = values[rng.random_range(0..values.len())].clone();
        }
    };
    maybe(
        rng,
        "maxUnavailable",
        &[json!(1), json!(2), json!(3), json!("50%")],
    );
    maybe(
        rng,
        "order",
        &[json!("Zone"), json!("Oldest"), json!("Newest"), json!("Name")],
    );
    maybe(rng, "mutexKeys", &[json!([]), json!([openshift::ZONE])]);
    maybe(
        rng,
        "first",
        &[first(openshift::ZONE, "z0"), first(openshift::HOSTNAME, "n1")],
    );
    maybe(rng, "soakSeconds", &[json!(0), json!(30), json!(600)]);
    maybe(rng, "changeTimeoutSeconds", &[json!(1200), json!(3000)]);
    maybe(rng, "failureBudget", &[json!(1), json!(2), json!(3)]);
    maybe(rng, "drainProbe", &[json!(false), json!(true)]);
    maybe(
        rng,
        "onExit",
        &[json!("KeepPaused"), json!("KeepPaused"), json!("Unpause")],
    );
    maybe(rng, "notReadyPolicy", &[json!("Wait"), json!("LeaveOutAfter")]);
    maybe(rng, "leaveOutAfterSeconds", &[json!(60), json!(600)]);
    maybe(rng, "pauseHealthChecks", &[json!(false), json!(true)]);
    maybe(rng, "quarantine", &[json!("None"), json!("Taint")]);
    maybe(
        rng,
        "trigger",
        &[json!("Version"), json!("AnyConfig"), json!("AnyConfig")],
    );
    maybe(rng, "adoptPaused", &[json!(true), json!(false), json!(false)]);
    if spec["trigger"] == json!("AnyConfig") && rng.random_bool(0.5) {
        spec["hold"] = json!("Always");
    }
    spec
}

/// A selector of the nodes that go first.
fn first(label: &str, value: &str) -> Value {
    json!({"matchLabels": {label: value}})
}

fn draw_rules(rng: &mut SmallRng, faults: bool) -> Vec<RuleView> {
    let phases = [
        Phase::Pre,
        Phase::Pre,
        Phase::PreRelease,
        Phase::Post,
        Phase::OnFailure,
        Phase::PreRun,
        Phase::PostRun,
    ];
    let policies = [
        FailurePolicy::Hold,
        FailurePolicy::Hold,
        FailurePolicy::Skip,
        FailurePolicy::Abort,
        FailurePolicy::Continue,
    ];
    (0..rng.random_range(0..4))
        .map(|number| {
            let many = rng.random_range(1..3);
            let mut chosen: Vec<Phase> = (0..many)
                .map(|_| phases[rng.random_range(0..phases.len())])
                .collect();
            chosen.sort();
            chosen.dedup();
            let mut rule = rule(&format!("rule-{number}"), chosen);
            if faults {
                // A rule that is asked once per run has nobody who could try it again.
                let once = rule
                    .phases
                    .iter()
                    .any(|phase| matches!(phase, Phase::PreRun | Phase::PostRun));
                rule.retries = if once { 10 } else { rng.random_range(0..3) };
                rule.failure_policy = policies[rng.random_range(0..policies.len())];
                rule.timeout_seconds = [120, 600, 3600][rng.random_range(0..3)];
            }
            rule
        })
        .collect()
}

fn draw_budgets(rng: &mut SmallRng, world: &mut World) {
    for number in 0..rng.random_range(0..3) {
        let name = format!("budget-{number}");
        let limits = [
            IntOrPercent::Int(1),
            IntOrPercent::Int(2),
            IntOrPercent::Percent(34),
        ];
        let view = BudgetView {
            name: name.clone(),
            selector: json!({}),
            max_unavailable: Ok(limits[rng.random_range(0..limits.len())]),
            group_by: rng.random_bool(0.5).then(|| openshift::ZONE.to_owned()),
            max_groups: None,
            paused: false,
            annotations: BTreeMap::new(),
            uid: "budget-uid".to_owned(),
            generation: 1,
            status: numo_api::MutexBudgetStatus::default(),
        };
        world.truth.budgets.insert(name, view);
    }
}

fn draw_act(rng: &mut SmallRng) -> Act {
    let long = rng.random_range(60..5000);
    let says = [
        DirectiveAction::Skip,
        DirectiveAction::Retry,
        DirectiveAction::Hold,
        DirectiveAction::Abort,
    ];
    let faults = [Fault::NeverReturns, Fault::DrainStuck, Fault::Degraded];
    match rng.random_range(0..33) {
        0 | 1 => Act::Cordon(long),
        2 => Act::UnpausePool,
        3 => Act::PausePool(long),
        4 => Act::Suspend(long),
        5 => Act::Delete,
        6 => Act::Abort(long),
        7 | 8 => Act::Say(says[rng.random_range(0..says.len())]),
        9 | 10 => Act::Break(faults[rng.random_range(0..faults.len())]),
        11 => Act::BlockDrain(long),
        12 => Act::DeleteNode,
        13 => Act::RecreateNode,
        14 | 15 => Act::Join,
        16 | 17 => Act::Sicken(long),
        18 => Act::RevertSelector,
        19 => Act::TakeLease(long),
        20 => Act::PauseBudgets(long),
        21 => Act::DeleteJob,
        22 => Act::DeleteChange,
        23 => Act::ForbidJobs(long),
        24 => Act::LoseRule(long),
        25 => Act::EditTarget(long),
        26 => Act::Relabel(long),
        27 => Act::EditLimit(rng.random_range(1..4)),
        28 => Act::RenderAgain,
        29 => Act::EditRule,
        30 | 31 => Act::TakeAway(long),
        _ => Act::Ask("4.18.0".to_owned()),
    }
}

/// The pools every cluster has, all at the first version.
fn base(world: &mut World, canary: bool, infra: bool) {
    world.truth.settings = Settings {
        namespace: NAMESPACE.to_owned(),
        ..Settings::default()
    };
    FIRST.clone_into(&mut world.rendered);
    world.truth.cluster_version = Some(ClusterVersionView {
        generation: 1,
        observed_generation: 1,
        desired_update: None,
        has_desired_update: false,
        desired: FIRST.to_owned(),
        latest: Some(("Completed".to_owned(), FIRST.to_owned())),
        not_accepted: None,
        failing: None,
    });
    let role = |role: &str| json!({"matchLabels": {format!("node-role.kubernetes.io/{role}"): ""}});
    add_pool(world, "master", role("master"));
    add_pool(world, "worker", role("worker"));
    if infra {
        add_pool(world, "infra", role("infra"));
    }
    if canary {
        let parked = json!({
            "matchLabels": {openshift::WORKER: ""},
            "matchExpressions": [{"key": marks::IS_CANARY, "operator": "Exists"}],
        });
        add_pool(world, "canary", parked);
    }
}

fn add_pool(world: &mut World, name: &str, selector: Value) {
    world.people.selectors.insert(name.to_owned(), selector.clone());
    let view = PoolView {
        name: name.to_owned(),
        uid: format!("pool-{name}"),
        deleting: false,
        annotations: BTreeMap::new(),
        has_annotations: false,
        paused: false,
        paused_manager: None,
        selector_manager: None,
        selector,
        config: String::new(),
        max_unavailable: None,
        render_degraded: None,
    };
    world.truth.pools.insert(name.to_owned(), view);
    let content = crate::world::Content {
        version: FIRST.to_owned(),
        revision: 0,
    };
    world.render_now(name, &content);
}

fn add_node(world: &mut World, name: &str, role: &str, zone: Option<&str>) {
    let config = world.truth.pools.get(role).map(|pool| pool.config.clone());
    let node = world.new_node(name, role, zone, &config.unwrap_or_default());
    world.add_node(node);
}

fn rule(name: &str, phases: Vec<Phase>) -> RuleView {
    RuleView {
        key: Key::new(NAMESPACE, name),
        uid: format!("rule-{name}"),
        generation: 1,
        job_name: name.to_owned(),
        job_namespace: NAMESPACE.to_owned(),
        job_accounts: Vec::new(),
        has_job: true,
        has_clean_up_job: false,
        is_evaluated: false,
        timeout_seconds: 3600,
        pass_seconds: numo_core::rules::JOB_PASS_SECONDS,
        retries: 0,
        failure_policy: FailurePolicy::Hold,
        phases,
        placement: Placement::NotOnTarget,
        log_tail_bytes: 2048,
        validity: Validity::Valid,
        unseen: None,
    }
}

fn spec(strategy: Strategy, fields: &Value) -> MutexRunConfigSpec {
    let mut spec: MutexRunConfigSpec = serde_json::from_value(fields.clone()).unwrap_or_default();
    if strategy == Strategy::CanaryPool {
        let canary = numo_api::mutex_run_config::Canary {
            name: Some("canary".to_owned()),
        };
        spec.canary = Some(canary);
    }
    spec
}

fn add_run(
    world: &mut World,
    name: &str,
    mut spec: MutexRunConfigSpec,
    rules: Vec<RuleView>,
    pools: &[&str],
) {
    let reference = |key: &Key| numo_api::ObjectRef {
        name: Some(key.name.clone()),
        namespace: None,
    };
    let target = Key::new(NAMESPACE, format!("{name}-pools"));
    spec.mutex_targets = Some(vec![reference(&target).into()]);
    spec.mutex_rules = Some(rules.iter().map(|rule| reference(&rule.key)).collect());
    for rule in rules {
        world.truth.rules.insert(rule.key.clone(), rule);
    }
    let view = TargetView {
        key: target.clone(),
        uid: format!("target-{name}"),
        generation: 1,
        pools: pools.iter().map(|pool| (*pool).to_owned()).collect(),
        status: MutexTargetStatus::default(),
    };
    world.truth.targets.insert(target, view);
    let key = Key::new(NAMESPACE, name);
    let view = RunConfigView {
        key: key.clone(),
        uid: format!("run-{name}"),
        generation: 1,
        created: timestamp(-3600),
        deleting: false,
        finalizers: Vec::new(),
        annotations: BTreeMap::new(),
        spec,
        workloads_check: None,
        has_annotations: false,
        pruned: None,
        misread: None,
        keeps_status: false,
        hours: None,
        status: MutexRunConfigStatus::default(),
    };
    world.truth.runs.insert(key, view);
}
