//! `decide_ms_p99_…`: how long a decision over a big cluster takes, its last look included. `sim_upgrades_per_second`: how many
//! nodes the simulator brings to their end, over all owners.

use std::time::Instant;

use anyhow::{Result, anyhow};
use numo_core::observed::Observed;
use numo_core::verdict::Answers;
use numo_core::{Snapshot, decide, invariant};

use super::{Measured, percentile};

/// Decides again and again over a cluster in mid-run.
pub fn measure(nodes: usize, times: usize) -> Measured {
    measure_in(&numo_sim::bench_cluster(nodes), times)
}

/// The same with 20 windows, ten waves and 30 domains.
pub fn measure_with_order(nodes: usize, times: usize) -> Measured {
    measure_in(&numo_sim::bench_cluster_with_order(nodes), times)
}

fn measure_in(observed: &Observed, times: usize) -> Measured {
    let owner = numo_core::Owner::run(numo_sim::bench::bench_owner());
    let answers = Answers::default();
    let snapshot = Snapshot {
        now: numo_sim::world::timestamp(3600),
        observed,
        owner: &owner,
        asked: None,
    };
    let (mut taken, mut decided) = (Vec::with_capacity(times), Vec::with_capacity(times));
    let mut seen = String::new();
    for _ in 0..times {
        let began = Instant::now();
        let mut decision = decide(&snapshot, &answers);
        decided.push(began.elapsed().as_secs_f64() * 1000.0);
        let breaches = invariant::lint(&snapshot, &mut decision);
        taken.push(began.elapsed().as_secs_f64() * 1000.0);
        seen = format!(
            "{} nodes reported, {} in flight, {} actions, {} breaches",
            decision.report.nodes.len(),
            decision.report.in_flight(),
            decision.actions.len(),
            breaches.len()
        );
        std::hint::black_box(decision);
    }
    taken.sort_by(f64::total_cmp);
    decided.sort_by(f64::total_cmp);
    let note = format!(
        "{seen}; of {times} the median is {:.3} ms, {:.3} ms without the check of invariants",
        percentile(&taken, 0.5),
        percentile(&decided, 0.5)
    );
    Measured {
        value: percentile(&taken, 0.99),
        notes: vec![note],
    }
}

/// How many seeds of each kind of owner.
const SEEDS: u64 = 500;

/// Simulates every kind of owner.
pub fn upgrades() -> Result<Measured> {
    let speed = numo_sim::throughput(SEEDS).map_err(|failure| anyhow!("{failure}"))?;
    let note = format!(
        "{} seeds, {} node-upgrades, {} decisions, {:.0} seeds/s",
        speed.seeds,
        speed.upgrades,
        speed.passes,
        speed.seeds_per_second()
    );
    Ok(Measured {
        value: speed.upgrades_per_second(),
        notes: vec![note],
    })
}
