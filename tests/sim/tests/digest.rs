//! What every seed comes to, as one number for each kind of owner: what makes the simulator faster leaves it as it was.
//! `NUMO_SIM_SEEDS=300 cargo test --release -p numo-sim --test digest -- --ignored --nocapture` before and after; which differ says a second
//! line with `NUMO_SIM_EACH=1`.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use numo_sim::{Failure, Options, Owners, Story, on_all_cores, run};
use std::hash::{DefaultHasher, Hash, Hasher};

const OWNERS: [Owners; 5] = [
    Owners::Runs,
    Owners::Plans,
    Owners::Maintenances,
    Owners::All,
    Owners::Versions,
];

/// Everything that happened, in its order; how often it was decided on the way is no part of it.
fn digest(ended: &Result<Story, Failure>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let story = match ended {
        Ok(story) => story,
        Err(failure) => {
            failure.message.hash(&mut hasher);
            &failure.story
        }
    };
    for line in &story.lines {
        (line.at, line.who, &line.what).hash(&mut hasher);
    }
    let counts = (story.upgrades, story.writes, story.refused, story.crashes);
    (counts, story.seconds).hash(&mut hasher);
    hasher.finish()
}

/// The digests of all seeds of one kind, by seed.
fn digests(options: Options, seeds: usize) -> Vec<u64> {
    on_all_cores(seeds, |seed| digest(&run(seed as u64, options)))
}

#[test]
#[ignore = "it prints numbers to compare, and asserts nothing"]
fn what_every_seed_comes_to() {
    let seeds = std::env::var("NUMO_SIM_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(100);
    for owners in OWNERS {
        for (faults, people) in [(true, true), (true, false), (false, false)] {
            let options = Options {
                owners,
                faults,
                people,
                tell: true,
                ..Options::default()
            };
            let all = digests(options, seeds);
            let mut hasher = DefaultHasher::new();
            all.hash(&mut hasher);
            let whole = hasher.finish();
            println!("{owners:?} faults {faults} people {people}: {seeds} seeds, {whole:016x}");
            if std::env::var_os("NUMO_SIM_EACH").is_some() {
                println!("{all:x?}");
            }
        }
    }
}
