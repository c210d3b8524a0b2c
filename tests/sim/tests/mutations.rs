//! For each invariant a decision that breaks it, put in from outside the core: the judge must catch it within a thousand seeds, or
//! what it says of sound decisions is worth nothing. `NUMO_SIM_MUTATION=name` tries one of them only.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use numo_sim::{Mutation, Options, Owners, on_all_cores, run};

/// A seed makes and drops small strings without end.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Within how many seeds each mutation must be caught.
const SEEDS: u64 = 1000;

/// In which seed those were caught that take the longest, when this was written: it is tried first, as to go through all others takes minutes. What is caught there
/// no more is searched for from the first seed on; `--nocapture` prints where it is found.
const FOUND: [(&str, u64); 36] = [
    ("BelievesCopies", 200),
    ("EvictsItselfFirst", 27),
    ("EvictsRules", 373),
    ("ForgetsAbsence", 77),
    ("ForgetsLease", 40),
    ("IgnoresDeletion", 10),
    ("IgnoresDomains", 11),
    ("IgnoresEndsOfHours", 23),
    ("IgnoresFailures", 32),
    ("IgnoresFreezes", 32),
    ("IgnoresHoursOfMaintenances", 66),
    ("IgnoresHoursOfPlans", 17),
    ("IgnoresHoursOfRuns", 32),
    ("IgnoresKeys", 17),
    ("IgnoresLimitsOfTargets", 111),
    ("IgnoresLimitsOfWaves", 21),
    ("IgnoresMutexWindows", 23),
    ("IgnoresOthers", 11),
    ("IgnoresQuorum", 11),
    ("IgnoresRulesOfWaves", 21),
    ("IgnoresWaves", 47),
    ("IgnoresWindows", 13),
    ("KeepsClosedTurns", 373),
    ("KeepsFinalizers", 28),
    ("ReleasesOnLeaving", 36),
    ("RollsWhenRefused", 315),
    ("SeesOneWindow", 23),
    ("SkipsSoakOfWaves", 47),
    ("TakesDeadNodes", 21),
    ("TakesLeavingNodes", 110),
    ("TakesNewForOld", 120),
    ("TakesUnknownZonesForOpen", 32),
    ("TellsOfOthers", 42),
    ("TurnsDomainsRound", 247),
    ("TurnsOrderRound", 17),
    ("UncordonsEverything", 51),
];

/// In which seed a mutation was caught, and in which words; else what else failed.
type Caught = Result<(u64, String), Vec<String>>;

/// In which seed a mutation is caught by the invariant that it breaks, with the verdict; else what was said instead.
fn caught(mutation: Mutation, wanted: &[&str]) -> Caught {
    let mut others = Vec::new();
    let name = format!("{mutation:?}");
    let found = FOUND.iter().filter(|(known, _)| *known == name);
    for seed in found.map(|(_, seed)| *seed).chain(0..SEEDS) {
        // Machines have only NodeVersions, and those are not there in all clusters of all owners.
        let index = usize::try_from(seed % 4).unwrap_or(0);
        let owners = if mutation.is_of_machines() {
            Owners::Versions
        } else {
            Owners::EACH[index]
        };
        let options = Options {
            owners,
            mutation: Some(mutation),
            ..Options::default()
        };
        if let Err(failure) = run(seed, options) {
            if wanted.iter().any(|wanted| failure.message.starts_with(wanted)) {
                let line = failure.message.lines().next().unwrap_or_default().to_owned();
                return Ok((seed, line));
            }
            others.push(failure.message);
        }
    }
    Err(others)
}

#[test]
fn every_broken_decision_is_caught_by_the_invariant_that_it_breaks() {
    let only = std::env::var("NUMO_SIM_MUTATION").ok();
    let is_meant = |one: &Mutation| only.as_ref().is_none_or(|only| format!("{one:?}") == *only);
    let meant: Vec<_> = Mutation::ALL.iter().filter(|(one, _)| is_meant(one)).collect();
    let results: Vec<(Mutation, Caught)> = on_all_cores(meant.len(), |index| {
        let (mutation, wanted) = meant[index];
        (*mutation, caught(*mutation, wanted))
    });
    let mut missed = Vec::new();
    for (mutation, result) in results {
        match result {
            Ok((seed, verdict)) => println!("{mutation:?} is caught in seed {seed}: {verdict}"),
            Err(others) => {
                let said: Vec<&String> = others.iter().take(3).collect();
                missed.push(format!(
                    "{mutation:?}: {} other failures, {said:#?}",
                    others.len()
                ));
            }
        }
    }
    assert!(
        missed.is_empty(),
        "not caught within {SEEDS} seeds:\n{}",
        missed.join("\n")
    );
}
