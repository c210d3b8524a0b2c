//! How fast the simulator is: `cargo test --release -p numo-sim --test speed -- --ignored --nocapture`.

#![allow(clippy::expect_used, reason = "tests")]

use numo_sim::{Owners, Throughput, bench::throughput_of};

/// How many seeds of each kind; `NUMO_SIM_SEEDS` runs another number.
const SEEDS: u64 = 1000;

/// Each kind of owner by itself, then those of [`Owners::EACH`] together, which is the figure.
#[test]
#[ignore = "a measurement, not a test"]
fn throughput() {
    let seeds = std::env::var("NUMO_SIM_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let mut all = Throughput::default();
    for owners in Owners::EACH {
        let speed = throughput_of(&[owners], seeds).expect("every seed passes");
        tell(&format!("{owners:?}"), &speed);
        all.seeds += speed.seeds;
        all.upgrades += speed.upgrades;
        all.passes += speed.passes;
        all.taken += speed.taken;
    }
    tell("all", &all);
}

fn tell(what: &str, speed: &Throughput) {
    println!(
        "{what}: {} seeds, {} node-upgrades, {} decisions in {:?}: {:.0} seeds/s, {:.0} node-upgrades/s",
        speed.seeds,
        speed.upgrades,
        speed.passes,
        speed.taken,
        speed.seeds_per_second(),
        speed.upgrades_per_second()
    );
}

#[test]
#[ignore = "a measurement, not a test"]
fn decisions() {
    for nodes in [200, 7500] {
        let seen = numo_sim::bench_cluster(nodes);
        let taken = numo_sim::bench::decide_times(&seen, 200);
        println!("{nodes} nodes: p50 {:?}, p99 {:?}", taken[100], taken[198]);
    }
}
