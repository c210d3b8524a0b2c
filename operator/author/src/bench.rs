//! `numo plugin bench`: what a component costs. It measures and judges nothing; the numbers are of this machine.

use super::{
    case::{CaseFile, Prepared, Wanted},
    engine::{engine_with, load, load_rule},
    outcome::EvaluationOutcome,
    output::OutputArgs,
    source::SourceArgs,
    trial::{self, Trial},
};
use clap::Args;
use numo_cli::CliError;
use numo_plugin::{Input, Rule, Services, Terms};
use serde::Serialize;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Loads from the cache that are measured.
const LOADS: usize = 21;
/// Evaluations before the measured ones.
const WARM_UP: usize = 10;
/// Evaluations that are measured at least, and at most.
const EVALUATIONS: std::ops::RangeInclusive<usize> = 20..=100_000;

/// Arguments of `numo plugin bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// File of cases [default: none; it is evaluated for an empty Node]
    #[arg(value_name = "CASES.yaml")]
    cases: Option<PathBuf>,
    /// Only the cases whose name contains this
    #[arg(long, value_name = "WORDS", requires = "cases")]
    case: Option<String>,
    /// How long each case is measured
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    seconds: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Of one case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    case: String,
    said: String,
    evaluations: usize,
    per_second: f64,
    median_microseconds: f64,
    p99_microseconds: f64,
    memory_bytes: Option<u64>,
    host_calls: Option<u64>,
    host_bytes: Option<u64>,
}

/// Measures and prints.
pub(crate) async fn bench(args: &BenchArgs) -> Result<(), CliError> {
    let file = args.cases.as_deref().map(CaseFile::read).transpose()?;
    let fresh = engine_with(None)?;
    let (bytes, _) = args.source.read(&fresh).await?;
    let name = &args.source.component;
    let begin = Instant::now();
    let rule = load_rule(&fresh, name, &bytes).await?;
    let compiled = begin.elapsed();
    let cached = cached_load(name, &bytes).await?;
    let cases = prepared(args, file.as_ref(), &rule)?;
    if args.output.is_text() {
        println!(
            "{} {}, {}",
            rule.description().name,
            rule.digest(),
            trial::size(rule.inspection().size)
        );
        println!(
            "compiled and loaded in {}, from the cache in {}",
            ms(compiled),
            ms(cached)
        );
    }
    let mut all = Vec::new();
    for (name, case) in cases {
        let measured = measure(name, case, &rule, Duration::from_secs(args.seconds.max(1))).await?;
        if args.output.is_text() {
            for line in lines(&measured) {
                println!("{line}");
            }
        }
        all.push(measured);
    }
    if !args.output.is_text() {
        let value = json!({
            "digest": rule.digest(),
            "bytes": rule.inspection().size,
            "compileMilliseconds": compiled.as_secs_f64() * 1000.0,
            "cachedLoadMilliseconds": cached.as_secs_f64() * 1000.0,
            "cases": all,
        });
        args.output.print(&value)?;
    }
    Ok(())
}

/// The median of some loads from a cache that has it.
async fn cached_load(name: &str, bytes: &[u8]) -> Result<Duration, CliError> {
    let folder = Scratch::new()?;
    let engine = engine_with(Some(folder.0.clone()))?;
    load(&engine, name, bytes).await?;
    let mut times = Vec::new();
    for _ in 0..LOADS {
        let begin = Instant::now();
        load(&engine, name, bytes).await?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(at(&times, 50))
}

/// The cases that are measured.
fn prepared(
    args: &BenchArgs,
    file: Option<&CaseFile>,
    rule: &Rule,
) -> Result<Vec<(String, Prepared)>, CliError> {
    let Some(file) = file else {
        return Ok(vec![("an empty node".to_owned(), empty(rule)?)]);
    };
    let mut all = Vec::new();
    for (index, name) in file.names().into_iter().enumerate() {
        if args.case.as_ref().is_none_or(|words| name.contains(words)) {
            all.push((name.to_owned(), file.prepare(index, rule)?));
        }
    }
    if all.is_empty() {
        return Err(CliError::Wrong("no case has such a name".to_owned()));
    }
    Ok(all)
}

/// A question about a Node without anything, in a cluster without anything.
fn empty(rule: &Rule) -> Result<Prepared, CliError> {
    let about = rule.description();
    let phase = about.phases.first().cloned().unwrap_or_default();
    let node = trial::needs_node(&phase).then(|| trial::node(json!({"metadata": {"name": "node-1"}})));
    let gaps = super::fixtures::Gaps::default();
    let servers = super::fixtures::Servers {
        gaps: gaps.clone(),
        ..Default::default()
    };
    Ok(Prepared {
        trial: Trial {
            input: Input {
                run: "run-1".to_owned(),
                owner: trial::owner("numo"),
                phase,
                attempt: 1,
                node: node.transpose().map_err(CliError::Wrong)?,
                config_json: "{}".to_owned(),
                ..Input::default()
            },
            terms: Terms {
                tenant: String::new(),
                grants: Arc::new(trial::all_wanted(&about.wants, &[])?),
                ..Terms::default()
            },
            services: Services {
                reader: Some(Arc::new(super::fixtures::Cluster::default())),
                fetch: Some(Arc::new(servers)),
                ..Services::none(jiff::Timestamp::UNIX_EPOCH)
            },
        },
        gaps,
        wanted: Wanted::Anything,
    })
}

async fn measure(
    case: String,
    prepared: Prepared,
    rule: &Rule,
    time: Duration,
) -> Result<Measured, CliError> {
    // Whether the configuration is right is asked once, as when a MutexRule changes.
    let first = prepared.trial.clone().ask(rule).await;
    let said = EvaluationOutcome::of(&first);
    let Trial {
        input,
        terms,
        services,
    } = prepared.trial;
    for _ in 0..WARM_UP {
        let _ = rule.evaluate(input.clone(), &terms, services.clone()).await;
    }
    let (mut times, mut memory_bytes) = (Vec::new(), None);
    let begin = Instant::now();
    while times.len() < *EVALUATIONS.end() && (times.len() < *EVALUATIONS.start() || begin.elapsed() < time) {
        let start = Instant::now();
        let answer = rule.evaluate(input.clone(), &terms, services.clone()).await;
        times.push(start.elapsed());
        if let Ok(answer) = answer {
            memory_bytes = memory_bytes.max(Some(answer.usage.memory_bytes));
        }
    }
    let took = begin.elapsed();
    let evaluations = times.len();
    times.sort_unstable();
    let micro = |time: Duration| time.as_secs_f64() * 1_000_000.0;
    let count = u32::try_from(evaluations).unwrap_or(u32::MAX);
    let usage = first.ok().map(|answer| answer.usage);
    Ok(Measured {
        case,
        said: format!("{} {}", said.verdict, said.reason),
        evaluations,
        per_second: f64::from(count) / took.as_secs_f64(),
        median_microseconds: micro(at(&times, 50)),
        p99_microseconds: micro(at(&times, 99)),
        memory_bytes,
        host_calls: usage.map(|usage| usage.host_calls),
        host_bytes: usage.map(|usage| usage.host_bytes),
    })
}

fn lines(measured: &Measured) -> [String; 3] {
    let words = |number: Option<u64>, word: fn(u64) -> String| number.map_or_else(|| "?".to_owned(), word);
    [
        format!("{}: {}", measured.case, measured.said),
        format!(
            "  {:.0} evaluations a second, one after another; median {:.0} µs, p99 {:.0} µs, of {}",
            measured.per_second,
            measured.median_microseconds,
            measured.p99_microseconds,
            measured.evaluations
        ),
        format!(
            "  {} memory, {} host calls, {} read",
            words(measured.memory_bytes, trial::size),
            words(measured.host_calls, |calls| calls.to_string()),
            words(measured.host_bytes, trial::size)
        ),
    ]
}

/// The time below which so many of a hundred are.
fn at(sorted: &[Duration], percent: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or_default()
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// A folder of this process, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, CliError> {
        let path = std::env::temp_dir().join(format!("numo-bench-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|source| CliError::File {
            path: path.clone(),
            source,
        })?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        let _ = std::fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_of_what_was_measured() {
        let times: Vec<_> = (1..=101).map(Duration::from_micros).collect();
        assert_eq!(at(&times, 50), Duration::from_micros(51));
        assert_eq!(at(&times, 99), Duration::from_micros(100));
        assert_eq!(at(&[], 99), Duration::ZERO);
    }
}
