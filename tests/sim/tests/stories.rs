//! Two whole upgrades, told line by line and kept as text to be read like prose. `UPDATE=1 cargo test -p
//! numo-sim --test stories` writes them anew; the diff is the review.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use numo_api::Strategy;
use numo_sim::{Setup, Simulation};
use std::path::Path;

#[track_caller]
fn check(name: &str, strategy: Strategy) {
    let story = Simulation::new(0, Setup::plain(strategy, 6), true)
        .run()
        .unwrap_or_else(|failure| panic!("{failure}"));
    let told = story.to_string();
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("stories")
        .join(format!("{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &told).expect("the story can be written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = told.lines().zip(kept.lines()).position(|(now, then)| now != then);
    let line = differs.unwrap_or(told.lines().count().min(kept.lines().count()));
    assert!(
        told == kept,
        "{} tells another story from line {} on:\n{}\nreview it with UPDATE=1",
        file.display(),
        line + 1,
        told.lines().skip(line).take(5).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn six_nodes_are_upgraded_in_a_paused_pool() {
    check("desired-config", Strategy::DesiredConfig);
}

#[test]
fn six_nodes_are_upgraded_through_the_canary_pool() {
    check("canary-pool", Strategy::CanaryPool);
}
