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
const FOUND: [(&str, u64); 39] = [
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
    ("IgnoresRetries", 32),
    ("IgnoresRulesOfWaves", 21),
    ("IgnoresSkips", 208),
    ("IgnoresWaves", 47),
    ("IgnoresWindows", 13),
    ("KeepsClosedTurns", 373),
    ("KeepsFinalizers", 28),
    ("ReleasesOnLeaving", 36),
    ("RetriesForEver", 39),
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

/// Those that break what holds for NodeVersions too, and that must be caught on them alone, each with the seed in which it was.
const OF_VERSIONS: [(&str, u64); 33] = [
    ("AsksAgain", 0),
    ("AsksNoRule", 0),
    ("BeginsUnasked", 1),
    ("BeginsWithoutFinalizer", 0),
    ("BelievesOldPasses", 1),
    ("BlamesOthers", 0),
    ("DecidesByChance", 0),
    ("DeletesPods", 0),
    ("EvictsAnywhere", 5),
    ("EvictsDaemons", 0),
    ("EvictsItselfFirst", 1),
    ("ForgetsNode", 0),
    ("ForgetsShield", 0),
    ("GivesLeaseBackFirst", 0),
    ("GrowsJournals", 0),
    ("IgnoresAborts", 3),
    ("IgnoresApprovals", 1),
    ("IgnoresBudgets", 5),
    ("IgnoresFirst", 3),
    ("IgnoresFreezes", 6),
    ("IgnoresMutexWindows", 10),
    ("IgnoresRetries", 0),
    ("IgnoresStops", 0),
    ("IgnoresWaves", 6),
    ("KeepsFinalizers", 0),
    ("RunsRulesAmongPlans", 0),
    ("SkipsDrain", 0),
    ("TakesNoLease", 0),
    ("TakesOldApprovals", 3),
    ("TakesOtherApprovals", 3),
    ("WaitsInSilence", 0),
    ("WritesBlindly", 2),
    ("WritesForNothing", 0),
];

/// In which seed a mutation was caught, and in which words; else what else failed.
type Caught = Result<(u64, String), Vec<String>>;

/// In which seed a mutation is caught by the invariant that it breaks, with the verdict; else what was said instead. `first` is tried before all
/// others, and which owners there are in a seed says `owners`.
fn caught(
    (mutation, wanted): (Mutation, &[&str]),
    first: Option<u64>,
    owners: impl Fn(u64) -> Owners,
) -> Caught {
    let mut others = Vec::new();
    for seed in first.into_iter().chain(0..SEEDS) {
        let options = Options {
            owners: owners(seed),
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

/// Fails with those of these mutations that are not caught. Each has the seed that is tried first, and its owners by the seed.
fn all_are_caught<O: Fn(u64) -> Owners + Sync>(
    meant: &[(Mutation, &[&str], Option<u64>)],
    owners: impl Fn(Mutation) -> O + Sync,
) {
    let only = std::env::var("NUMO_SIM_MUTATION").ok();
    let is_meant = |one: Mutation| only.as_ref().is_none_or(|only| format!("{one:?}") == *only);
    let meant: Vec<_> = meant.iter().filter(|(one, ..)| is_meant(*one)).collect();
    let results: Vec<(Mutation, Caught)> = on_all_cores(meant.len(), |index| {
        let (mutation, wanted, first) = *meant[index];
        (mutation, caught((mutation, wanted), first, owners(mutation)))
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

fn found(all: &[(&str, u64)], mutation: Mutation) -> Option<u64> {
    let name = format!("{mutation:?}");
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, seed)| *seed)
}

#[test]
fn every_broken_decision_is_caught_by_the_invariant_that_it_breaks() {
    let all = Mutation::ALL.map(|(one, wanted)| (one, wanted, found(&FOUND, one)));
    all_are_caught(&all, |mutation| {
        move |seed| {
            // Machines have only NodeVersions, and those are not there in all clusters of all owners.
            let index = usize::try_from(seed % 4).unwrap_or(0);
            if mutation.is_of_machines() {
                Owners::Versions
            } else {
                Owners::EACH[index]
            }
        }
    });
}

#[test]
fn every_broken_decision_about_nodeversions_is_caught_without_other_owners() {
    // With NUMO_SIM_VERSIONS=all those are tried as well that nobody listed.
    let tries_all = std::env::var_os("NUMO_SIM_VERSIONS").is_some();
    let all = Mutation::ALL.map(|(one, wanted)| (one, wanted, found(&OF_VERSIONS, one)));
    let all: Vec<_> = all
        .into_iter()
        .filter(|(.., first)| tries_all || first.is_some())
        .collect();
    all_are_caught(&all, |_| |_| Owners::Versions);
}
