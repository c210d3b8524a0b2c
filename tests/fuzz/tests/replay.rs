//! Every target over its corpus, finds of the fuzzers among it, and over what it makes up from seeds: a bounded part of
//! what `cargo xtask fuzz` does, without coverage.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use std::{
    collections::BTreeSet,
    panic::catch_unwind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use numo_fuzz::{TARGETS, Target};

/// Seeds of one target, and when to stop before the last of them. With `NUMO_FUZZ_SECONDS` it goes on for so long.
const SEEDS: u64 = 20_000;
const LONG_ENOUGH: Duration = Duration::from_secs(3);

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn replay(name: &str) {
    let target = Target::named(name).unwrap();
    for file in files(&corpus().join(name)) {
        let bytes = std::fs::read(&file).unwrap();
        let fine = catch_unwind(|| target.check(&bytes));
        assert!(fine.is_ok(), "{} breaks {name}", file.display());
    }
    let asked = std::env::var("NUMO_FUZZ_SECONDS").ok();
    let asked = asked.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let seeds = asked.map_or(SEEDS, |_| u64::MAX);
    let begin = Instant::now();
    for seed in 0..seeds {
        let fine = catch_unwind(|| target.check(&target.generate(seed)));
        assert!(fine.is_ok(), "seed {seed} breaks {name}");
        if begin.elapsed() > asked.unwrap_or(LONG_ENOUGH) {
            break;
        }
    }
}

macro_rules! replayed {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_corpus_and_is_replayed() {
            let of = |names: Vec<String>| names.into_iter().collect::<BTreeSet<_>>();
            let known = of(TARGETS.iter().map(|target| target.name.to_owned()).collect());
            assert_eq!(known, of(vec![$(stringify!($name).to_owned()),*]));
            let folders = files(&corpus());
            let folders = folders.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
            assert_eq!(known, of(folders.collect()));
            for name in &known {
                assert!(!files(&corpus().join(name)).is_empty(), "{name} has no corpus");
            }
        }
    };
}

replayed! {
    challenge
    component
    config
    credentials
    manifest
    metadata
    reference
    signature
}
