//! `cargo xtask fuzz`: libFuzzer over the targets of `tests/fuzz`. It only builds and starts; what may not happen, the
//! targets say. Why no cargo-fuzz: `operator/adr/0008-fuzzing.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use numo_fuzz::TARGETS;

use crate::step;

/// Inputs that are kept, in the repository: one folder a target.
const CORPUS: &str = "tests/fuzz/corpus";
/// What libFuzzer finds new, which is not.
const FOUND: &str = "target/fuzz";
/// Stands before rustc for numo's own crates.
const INSTRUMENT: &str = "tests/fuzz/instrument";
/// Bytes of memory, in MiB, and seconds for one input, beyond which it is a crash. The target's own bound is lower.
const MOST_MIB: u32 = 4096;
const MOST_SECONDS: u32 = 90;

/// What `cargo xtask fuzz` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Which targets [default: all, one after the other]
    targets: Vec<String>,
    /// How long each
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u32,
}

/// Builds with coverage and runs. A find is written into the corpus, where the tests replay it; the exit code is then 1.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let mut wanted = known.clone();
    if !arguments.targets.is_empty() {
        wanted = arguments.targets.iter().map(String::as_str).collect();
    }
    for target in &wanted {
        ensure!(
            known.contains(target),
            "no target {target:?}; there are {}",
            known.join(", ")
        );
    }
    let binary = build()?;
    let mut failed = Vec::new();
    for &target in &wanted {
        println!("=== {target}: {} s", arguments.seconds);
        if !step::succeeds(&mut fuzzer(&binary, target, arguments.seconds)?)? {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        println!("nothing was found in {}", wanted.join(", "));
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "found something in {}: {CORPUS}/<target>/crash-… or timeout-…, which cargo xtask test replays until it is fixed",
        failed.join(", ")
    );
    Ok(ExitCode::FAILURE)
}

/// Builds for the features of the whole workspace, whose dependencies are then built already; only numo's own crates are
/// built again, with counters.
fn build() -> Result<PathBuf> {
    let mut command = step::cargo();
    command
        .env("RUSTC_WORKSPACE_WRAPPER", step::root().join(INSTRUMENT))
        .args(["build", "--workspace", "--bin", "numo-fuzz"])
        .args(["--features", "numo-fuzz/libfuzzer"]);
    step::must(&mut command)?;
    // Cargo puts it beside this program, which it has built into the same folder.
    Ok(std::env::current_exe()?.with_file_name("numo-fuzz"))
}

fn fuzzer(binary: &Path, target: &str, seconds: u32) -> Result<Command> {
    let kept = step::root().join(CORPUS).join(target);
    let found = step::root().join(FOUND).join(target);
    fs::create_dir_all(&found)?;
    let mut command = Command::new(binary);
    command
        .env("NUMO_FUZZ_TARGET", target)
        .arg(&found)
        .arg(&kept)
        .arg(format!("-artifact_prefix={}/", kept.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MOST_MIB}"))
        .arg(format!("-timeout={MOST_SECONDS}"))
        // Else inputs stay as short as the longest of the corpus.
        .arg("-max_len=262144")
        .arg("-print_final_stats=1");
    Ok(command)
}
