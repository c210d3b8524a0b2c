//! Big clusters for measuring a decision, and how fast the simulator itself is.

use crate::{Options, Owners, cores::on_all_cores, run, setup::Setup};
use numo_api::{Outcome, Phase, Pin, Step, Strategy, VerdictRecord, marks::openshift};
use numo_core::{
    Owner, Snapshot, decide,
    observed::{Key, NodeView, Observed},
    verdict::Answers,
};
use std::time::{Duration, Instant};

/// The run of [`bench_cluster`].
pub fn bench_owner() -> Key {
    Key::new(crate::setup::NAMESPACE, "upgrade")
}

/// A cluster of this many workers with one run (strategy DesiredConfig, three rules) in mid-flight: about
/// half of the nodes are done, and as many as may fly do.
pub fn bench_cluster(nodes: usize) -> Observed {
    let mut setup = Setup::plain(Strategy::DesiredConfig, nodes);
    let world = &mut setup.world;
    let owner = bench_owner();
    // Everything is asked for, rendered and armed.
    world.advance_to(3600);
    let flying = (nodes / 50).max(1);
    if let Some(run) = world.truth.runs.get_mut(&owner) {
        let limit = serde_json::json!(flying);
        run.spec.max_unavailable = serde_json::from_value(limit).ok();
    }
    // The core itself arms the pools and admits the first nodes; then half of the others are done, and
    // those in flight take lease, shield and pin, and ask their first rule.
    let mut rounds_in_flight = 0;
    for _ in 0..16 {
        let seen = world.truth.clone();
        let snapshot = Snapshot {
            now: world.time(),
            observed: &seen,
            owner: &Owner::run(owner.clone()),
            asked: None,
        };
        for planned in decide(&snapshot, &Answers::default()).actions {
            // Nobody else writes here: a refusal would only make the cluster a little less busy.
            let _ = world.apply(&planned.action);
        }
        if world.truth.changes.is_empty() {
            continue;
        }
        if rounds_in_flight == 0 {
            settle_half(&mut world.truth, nodes);
        }
        rounds_in_flight += 1;
        if rounds_in_flight == 4 {
            break;
        }
    }
    let mut seen = setup.world.truth;
    seen.nodes.values_mut().for_each(NodeView::take_in);
    seen
}

/// The same with all that says when and in what order: 20 MutexWindows, which are open, some of them hour by hour, ten waves, and 30
/// zones of which one has its turn.
pub fn bench_cluster_with_order(nodes: usize) -> Observed {
    let mut seen = bench_cluster(nodes);
    for (number, node) in seen.nodes.values_mut().enumerate() {
        node.labels
            .insert(openshift::ZONE.to_owned(), format!("z{:02}", number % 30));
    }
    let cron =
        |minute: usize| serde_json::json!({"cron": format!("{minute} * * * *"), "durationSeconds": 3600});
    for number in 0..20 {
        let openings = match number % 3 {
            0 => serde_json::json!([cron(number)]),
            1 => serde_json::json!([{"startTime": "00:00", "endTime": "23:00"}]),
            _ => {
                serde_json::json!([{"days": ["thu", "fri"], "startTime": "00:00", "endTime": "12:00"}, cron(number)])
            }
        };
        let given = serde_json::json!({"openings": openings});
        let selector = if number % 2 == 0 {
            serde_json::json!({})
        } else {
            serde_json::json!({"matchLabels": {openshift::ZONE: format!("z{number:02}")}})
        };
        let Ok(given) = serde_json::from_value(given) else {
            continue;
        };
        let window = crate::world::window_of(&format!("window-{number}"), selector, &given);
        seen.windows.insert(window.name.clone(), window);
    }
    let waves: Vec<serde_json::Value> = (1..=10)
        .map(|wave| serde_json::json!({"name": format!("wave-{wave}"), "nodes": format!("{}%", wave * 10)}))
        .collect();
    if let Some(run) = seen.runs.get_mut(&bench_owner()) {
        run.spec.waves = serde_json::from_value(waves.into()).ok();
        let domains = serde_json::json!({"key": openshift::ZONE, "atOnce": 1});
        run.spec.domains = serde_json::from_value(domains).ok();
    }
    seen.nodes.values_mut().for_each(NodeView::take_in);
    seen
}

/// Lets half of the nodes be done, with journals as a run leaves them.
fn settle_half(seen: &mut Observed, nodes: usize) {
    let Some(template) = seen.changes.values().next().cloned() else {
        return;
    };
    let config = seen
        .pools
        .get("worker")
        .map(|pool| pool.config.clone())
        .unwrap_or_default();
    let names: Vec<String> = seen
        .nodes
        .keys()
        .filter(|name| name.starts_with('w'))
        .cloned()
        .collect();
    for name in names.into_iter().take(nodes / 2) {
        if seen.changes.values().any(|change| change.spec.node_name == name) {
            continue;
        }
        let Some(node) = seen.nodes.get_mut(&name) else {
            continue;
        };
        let from = node.annotation(openshift::CURRENT_CONFIG).to_owned();
        for key in [openshift::CURRENT_CONFIG, openshift::DESIRED_CONFIG] {
            node.annotations.insert(key.to_owned(), config.clone());
        }
        for key in [openshift::DESIRED_DRAIN, openshift::LAST_APPLIED_DRAIN] {
            node.annotations
                .insert(key.to_owned(), format!("uncordon-{config}"));
        }
        let mut change = template.clone();
        change.spec.node_name.clone_from(&name);
        change.spec.node_uid.clone_from(&node.uid);
        let hash = numo_core::names::change_name(
            "MutexRunConfig",
            "upgrade",
            &change.spec.owner_ref.uid,
            &node.uid,
            &change.spec.target.run_id,
        );
        change.key = Key::new(crate::setup::NAMESPACE, hash);
        change.uid = format!("change-{name}");
        let status = &mut change.status;
        status.step = Some(Step::Done);
        status.attempt = 1;
        status.pin = Some(Pin {
            rendered_config: config.clone(),
            from_config: from,
            from_version: "4.16.0".to_owned(),
            terms: None,
            ..Pin::default()
        });
        for (rule, phase) in [
            ("backup", Phase::Pre),
            ("no-alerts", Phase::PreRelease),
            ("smoke-test", Phase::Post),
        ] {
            status.verdicts.push(VerdictRecord {
                rule: format!("{}/{rule}", crate::setup::NAMESPACE),
                phase,
                attempt: 1,
                round: 1,
                outcome: Outcome::Pass,
                policy: None,
                reason: "Completed".to_owned(),
                message: None,
                job: Some(format!("{}/{rule}-{name}", crate::setup::NAMESPACE)),
                exit_code: Some(0),
                data: None,
                started_at: None,
                at: "2026-01-05T09:00:00Z".to_owned(),
                ended_at: None,
                edition: Some(format!("rule-{rule}/1")),
            });
        }
        seen.changes.insert(change.key.clone(), change);
    }
}

/// How long decisions over `seen` take, sorted.
pub fn decide_times(seen: &Observed, times: usize) -> Vec<Duration> {
    let owner = Owner::run(bench_owner());
    let answers = Answers::default();
    let snapshot = Snapshot {
        now: crate::world::timestamp(3600),
        observed: seen,
        owner: &owner,
        asked: None,
    };
    let mut taken: Vec<Duration> = (0..times)
        .map(|_| {
            let begin = Instant::now();
            let decision = std::hint::black_box(decide(&snapshot, &answers));
            let taken = begin.elapsed();
            drop(decision);
            taken
        })
        .collect();
    taken.sort();
    taken
}

/// How fast the simulator is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throughput {
    /// Simulations.
    pub seeds: usize,
    /// Nodes that numo brought to their end in them.
    pub upgrades: usize,
    /// Decisions made.
    pub passes: usize,
    /// Time it took.
    pub taken: Duration,
}

impl Throughput {
    /// Node-upgrades a second.
    pub fn upgrades_per_second(&self) -> f64 {
        per_second(self.upgrades, self.taken)
    }

    /// Seeds a second.
    pub fn seeds_per_second(&self) -> f64 {
        per_second(self.seeds, self.taken)
    }
}

#[allow(clippy::cast_precision_loss, reason = "a rate for people to read")]
fn per_second(count: usize, taken: Duration) -> f64 {
    count as f64 / taken.as_secs_f64().max(f64::EPSILON)
}

/// Runs the first `seeds` seeds of each kind of owner ([`Owners::EACH`]) on all cores, with faults and people, and says how fast that was. A
/// node-upgrade is a node that was brought to its end: its journal says Done.
///
/// # Errors
/// The first failure, if a seed fails.
pub fn throughput(seeds: u64) -> Result<Throughput, Box<crate::Failure>> {
    throughput_of(&Owners::EACH, seeds)
}

/// The same for these kinds of owners.
///
/// # Errors
/// The first failure, if a seed fails.
pub fn throughput_of(kinds: &[Owners], seeds: u64) -> Result<Throughput, Box<crate::Failure>> {
    let begin = Instant::now();
    let seeds = usize::try_from(seeds).unwrap_or(usize::MAX);
    let parts = on_all_cores(seeds, |seed| part_of(kinds, seed as u64));
    let mut sum = Throughput::default();
    for part in parts {
        let part = part?;
        sum.seeds += part.seeds;
        sum.upgrades += part.upgrades;
        sum.passes += part.passes;
    }
    sum.taken = begin.elapsed();
    Ok(sum)
}

fn part_of(kinds: &[Owners], seed: u64) -> Result<Throughput, Box<crate::Failure>> {
    let mut sum = Throughput::default();
    for owners in kinds {
        let options = Options {
            owners: *owners,
            ..Options::default()
        };
        let story = run(seed, options).map_err(Box::new)?;
        sum.seeds += 1;
        sum.upgrades += story.upgrades;
        sum.passes += story.passes;
    }
    Ok(sum)
}
