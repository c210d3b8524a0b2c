//! `cargo xtask bench`: the numbers the design promises, measured. Nothing here fails for being slow: a
//! machine under load is no fault of the code.

mod decide;
mod latency;
mod memory;
mod writes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use numo_e2e::{Stage, StageOptions};
use numo_world::WorldSpec;
use serde::Serialize;

use crate::step;

/// What `cargo xtask bench` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to measure [default: everything]
    #[arg(value_name = "NAME", value_parser = names())]
    names: Vec<String>,
    /// Write the results to a file too: {"name": {"value": n, "unit": "…", "bound": n}}
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A number, and what it should not exceed.
struct Measure {
    name: &'static str,
    unit: &'static str,
    bound: Option<f64>,
}

const MEASURES: [Measure; 5] = [
    Measure {
        name: "added_latency_seconds_per_node",
        unit: "s",
        bound: Some(1.0),
    },
    Measure {
        name: "writes_per_node",
        unit: "requests",
        bound: Some(25.0),
    },
    Measure {
        name: "resident_mib_200",
        unit: "MiB",
        bound: None,
    },
    Measure {
        name: "decide_ms_p99_200",
        unit: "ms",
        bound: None,
    },
    Measure {
        name: "decide_ms_p99_7500",
        unit: "ms",
        bound: Some(50.0),
    },
];

fn names() -> clap::builder::PossibleValuesParser {
    MEASURES.map(|measure| measure.name).into()
}

/// What one measurement came to.
struct Measured {
    value: f64,
    /// Where the value comes from, for the reader.
    notes: Vec<String>,
}

/// One entry of the JSON file.
#[derive(Debug, PartialEq, Serialize)]
struct Entry {
    value: f64,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<f64>,
}

/// Builds everything for speed and measures there.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    numo_cluster::binary()?;
    step::must(step::cargo().args(["build", "--quiet", "--release", "--package", "numo"]))?;
    let mut command = step::cargo();
    command.args(["run", "--quiet", "--release", "--package", "xtask", "--"]);
    command.arg("bench-inner").args(&arguments.names);
    if let Some(json) = &arguments.json {
        // The child runs in the repository's root.
        command.arg("--json").arg(std::path::absolute(json)?);
    }
    let passed = step::succeeds(&mut command)?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Measures.
pub async fn measure(arguments: &Arguments) -> Result<ExitCode> {
    let wanted = |name: &str| arguments.names.is_empty() || arguments.names.iter().any(|other| other == name);
    let mut entries: BTreeMap<&'static str, Entry> = BTreeMap::new();
    for measure in MEASURES.iter().filter(|measure| wanted(measure.name)) {
        eprintln!("measuring {}", measure.name);
        let measured = match measure.name {
            "added_latency_seconds_per_node" => latency::measure().await,
            "writes_per_node" => writes::measure().await,
            "resident_mib_200" => memory::measure().await,
            "decide_ms_p99_200" => Ok(decide::measure(200, 1000)),
            "decide_ms_p99_7500" => Ok(decide::measure(7500, 200)),
            other => bail!("nothing measures {other}"),
        };
        let measured = measured.with_context(|| measure.name)?;
        for note in measured.notes {
            eprintln!("  {note}");
        }
        let entry = Entry {
            // Three digits after the point are more than the noise allows.
            value: (measured.value * 1000.0).round() / 1000.0,
            unit: measure.unit,
            bound: measure.bound,
        };
        entries.insert(measure.name, entry);
    }
    for line in table(&entries) {
        println!("{line}");
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&entries)? + "\n";
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(entries: &BTreeMap<&'static str, Entry>) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<32} {:>10}   {:<9} {:>6}",
        "NAME", "VALUE", "UNIT", "BOUND"
    )];
    for (name, entry) in entries {
        let (bound, judgement) = match entry.bound {
            Some(bound) if entry.value <= bound => (bound.to_string(), "ok"),
            Some(bound) => (bound.to_string(), "over"),
            None => ("-".to_owned(), ""),
        };
        let line = format!(
            "{name:<32} {:>10.3}   {:<9} {bound:>6}   {judgement}",
            entry.value, entry.unit
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// The rule that takes no time, before and after each node.
const QUICK: &str = include_str!("quick.yaml");
const RUN: &str = "bench";
const TO: &str = "4.17.0";
const POOL: &str = "worker";

/// Sets the stage and applies the quick rule and a run. The rest of the run's spec is given in YAML.
async fn stage(world: WorldSpec, spec: &str) -> Result<Stage> {
    let cluster = numo_cluster::Options {
        scale: true,
        ..numo_cluster::Options::default()
    };
    let options = StageOptions {
        world,
        cluster,
        ..StageOptions::default()
    };
    let stage = Stage::set(options).await?;
    stage.apply(QUICK).await?;
    let run = format!(
        "apiVersion: openshift-optional.skrzypek.io/v1alpha1\nkind: MutexRunConfig\nmetadata:\n  name: {RUN}\nspec:\n  mutexRules: [{{name: quick}}]\n  mutexTargets: [{{name: workers}}]\n{spec}"
    );
    stage.apply(&run).await?;
    stage.condition(RUN, "Ready", "True", "UpToDate").await?;
    Ok(stage)
}

/// The share below which `share` of the sorted values lie, by the nearest rank.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank in a short list"
)]
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert!((percentile(&values, 0.99) - 198.0).abs() < f64::EPSILON);
        assert!((percentile(&values[..1], 0.99) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn table_says_what_is_over_its_bound() {
        let entry = |value, bound| Entry {
            value,
            unit: "s",
            bound,
        };
        let entries = BTreeMap::from([
            ("a", entry(1.0, Some(1.0))),
            ("b", entry(1.5, Some(1.0))),
            ("c", entry(7.0, None)),
        ]);
        let table = table(&entries);
        assert!(table[1].ends_with("1   ok"), "{table:?}");
        assert!(table[2].ends_with("1   over"), "{table:?}");
        assert!(table[3].ends_with('-'), "{table:?}");
        assert_eq!(
            serde_json::to_string(&entries).unwrap(),
            r#"{"a":{"value":1.0,"unit":"s","bound":1.0},"b":{"value":1.5,"unit":"s","bound":1.0},"c":{"value":7.0,"unit":"s"}}"#
        );
    }
}
