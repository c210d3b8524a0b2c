//! How fast the simulator is: `cargo test --release -p numo-sim --test speed -- --ignored --nocapture`.

#[test]
#[ignore = "a measurement, not a test"]
fn throughput() {
    let speed = numo_sim::throughput(1000).expect("every seed passes");
    println!(
        "{} seeds, {} node-upgrades, {} decisions in {:?}: {:.0} seeds/s, {:.0} node-upgrades/s",
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
