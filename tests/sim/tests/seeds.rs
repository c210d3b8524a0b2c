//! Hundreds of small clusters, each with its own fate. `NUMO_SIM_SEED=n` tells the story of one;
//! `NUMO_SIM_SEEDS=n` runs so many, from `NUMO_SIM_FROM=n` on, `NUMO_SIM_OWNERS=Plans` (Runs, Maintenances, Versions, All) those of one
//! kind.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use numo_sim::{Failure, Options, Owners, Story, on_all_cores, run};

/// A seed makes and drops small strings without end.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many seeds a plain `cargo test` runs for each kind of owner: 10,000 runs in all, about 150 s of CPU. `NUMO_SIM_SEEDS` runs more.
const fn seeds(options: Options) -> u64 {
    match options.owners {
        Owners::Runs => 800,
        Owners::Plans => 1200,
        Owners::Maintenances => 5900,
        Owners::All if options.faults => 500,
        // Those with NodeVersions cost more.
        Owners::All | Owners::Versions => 100,
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[track_caller]
fn check(options: Options) -> Vec<Story> {
    let only = std::env::var("NUMO_SIM_OWNERS").ok();
    if only.is_some_and(|only| only != format!("{:?}", options.owners)) {
        return Vec::new();
    }
    if let Some(seed) = number("NUMO_SIM_SEED") {
        let told = Options {
            tell: true,
            ..options
        };
        return match run(seed, told) {
            Ok(story) => {
                println!("{story}");
                vec![story]
            }
            Err(failure) => panic!("{failure}"),
        };
    }
    let seeds = number("NUMO_SIM_SEEDS").unwrap_or(seeds(options));
    let from = number("NUMO_SIM_FROM").unwrap_or_default();
    let ended: Vec<Result<Story, Failure>> =
        on_all_cores(usize::try_from(seeds).expect("so many seeds"), |seed| {
            run(from + seed as u64, options)
        });
    let (stories, failures): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_ok);
    let failures: Vec<Failure> = failures.into_iter().filter_map(Result::err).collect();
    let shortest = failures.iter().min_by_key(|failure| failure.story.lines.len());
    if let Some(shortest) = shortest {
        let all: Vec<String> = failures
            .iter()
            .map(|failure| format!("seed {}: {}", failure.seed, failure.message))
            .collect();
        panic!(
            "{shortest}\n{} of {seeds} seeds fail:\n{}",
            all.len(),
            all.join("\n")
        );
    }
    stories.into_iter().filter_map(Result::ok).collect()
}

#[test]
fn every_run_comes_to_a_good_end_whatever_goes_wrong() {
    check(Options::default());
}

#[test]
fn every_run_comes_to_a_good_end_when_only_machines_fail() {
    check(Options {
        people: false,
        ..Options::default()
    });
}

#[test]
fn every_plan_comes_to_a_good_end_whatever_goes_wrong() {
    check(Options {
        owners: Owners::Plans,
        ..Options::default()
    });
}

#[test]
fn every_maintenance_comes_to_a_good_end_whatever_goes_wrong() {
    check(Options {
        owners: Owners::Maintenances,
        ..Options::default()
    });
}

#[test]
fn every_replacement_of_machines_comes_to_a_good_end_whatever_goes_wrong() {
    check(Options {
        owners: Owners::Versions,
        ..Options::default()
    });
}

#[test]
fn every_replacement_of_machines_comes_to_a_good_end_in_a_quiet_cluster() {
    check(Options {
        owners: Owners::Versions,
        faults: false,
        people: false,
        ..Options::default()
    });
}

#[test]
fn all_owners_on_the_same_nodes_come_to_a_good_end_in_a_quiet_cluster() {
    check(Options {
        owners: Owners::All,
        faults: false,
        people: false,
        ..Options::default()
    });
}

#[test]
fn all_owners_on_the_same_nodes_come_to_a_good_end_whatever_goes_wrong() {
    check(Options {
        owners: Owners::All,
        ..Options::default()
    });
}

#[test]
fn every_run_comes_to_a_good_end_in_a_quiet_cluster() {
    for story in check(Options {
        faults: false,
        people: false,
        ..Options::default()
    }) {
        assert_eq!(story.refused, 0, "nobody is in the way");
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let options = Options {
        tell: true,
        ..Options::default()
    };
    for seed in 0..5 {
        let tell = || match run(seed, options) {
            Ok(story) => story.to_string(),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(tell(), tell());
    }
}
