//! `cargo xtask bench`: the numbers the design promises, measured. Nothing here fails for being slow: a
//! machine under load is no fault of the code.

mod decide;
mod drains;
mod foreign;
mod latency;
mod memory;
mod notified;
mod plans;
mod provider;
mod siege;
mod stop;
mod wasm;
mod writes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use numo_e2e::{Stage, StageOptions};
use numo_world::WorldSpec;
use serde::Serialize;

use crate::step;
use plans::Part;

/// What `cargo xtask bench` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to measure [default: everything]
    #[arg(value_name = "NAME", value_parser = names())]
    names: Vec<String>,
    /// Write the results to a file too: {"name": {"value": n, "unit": "…", "bound": n}}
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print what another component costs, one of componentize-py say, beside the numbers; may be repeated
    #[arg(long, value_name = "FILE")]
    component: Vec<PathBuf>,
    /// Print what rules in Python and JavaScript cost too: needs Python 3.10 and Node, and installs their toolchains into
    /// the cache (minutes)
    #[arg(long)]
    all_tools: bool,
    /// A controller to compare rolls of Plans with: a command that runs it in the foreground, with KUBECONFIG set and
    /// Plans in the namespace system-upgrade
    #[arg(long, value_name = "COMMAND")]
    rival: Option<String>,
}

/// A number, and what it should not go past.
struct Measure {
    name: &'static str,
    unit: &'static str,
    bound: Option<Bound>,
}

/// What a number should not go past.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Bound {
    /// Less is better.
    AtMost(f64),
    /// More is better.
    AtLeast(f64),
}
use Bound::{AtLeast, AtMost};

const MEASURES: [Measure; 33] = [
    Measure {
        name: "added_latency_seconds_per_node",
        unit: "s",
        bound: Some(AtMost(1.0)),
    },
    Measure {
        name: "writes_per_node",
        unit: "requests",
        bound: Some(AtMost(25.0)),
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
        bound: Some(AtMost(35.0)),
    },
    Measure {
        name: "decide_ms_p99_7500_with_order",
        unit: "ms",
        bound: Some(AtMost(35.0)),
    },
    Measure {
        name: "sim_upgrades_per_second",
        unit: "1/s",
        bound: Some(AtLeast(10_000.0)),
    },
    Measure {
        name: "wasm_ratio",
        unit: "x",
        bound: Some(AtMost(1.3)),
    },
    Measure {
        name: "wasm_evaluations_per_second_core",
        unit: "1/s",
        bound: None,
    },
    Measure {
        name: "wasm_evaluations_per_second_core_get_object",
        unit: "1/s",
        bound: None,
    },
    Measure {
        name: "wasm_compile_ms",
        unit: "ms",
        bound: Some(AtMost(500.0)),
    },
    Measure {
        name: "wasm_cached_load_ms",
        unit: "ms",
        bound: Some(AtMost(1.0)),
    },
    Measure {
        name: "child_start_ms",
        unit: "ms",
        bound: Some(AtMost(5.0)),
    },
    Measure {
        name: "wasm_idle_rule_kib",
        unit: "KiB",
        bound: Some(AtMost(1024.0)),
    },
    Measure {
        name: "wasm_growth_kib_10000",
        unit: "KiB",
        bound: Some(AtMost(64.0)),
    },
    Measure {
        name: "provider_wall_ratio",
        unit: "x",
        bound: Some(AtMost(1.2)),
    },
    Measure {
        name: "plan_roll_200_wall_seconds",
        unit: "s",
        bound: None,
    },
    Measure {
        name: "plan_roll_200_cpu_seconds",
        unit: "s",
        bound: None,
    },
    Measure {
        name: "plan_roll_200_resident_mib",
        unit: "MiB",
        bound: None,
    },
    Measure {
        name: "plan_roll_200_writes_per_node",
        unit: "requests",
        bound: Some(AtMost(10.0)),
    },
    Measure {
        name: "plan_roll_200_wall_seconds_ratio",
        unit: "x",
        bound: Some(AtMost(1.0)),
    },
    Measure {
        name: "plan_roll_200_cpu_seconds_ratio",
        unit: "x",
        bound: Some(AtMost(0.2)),
    },
    Measure {
        name: "plan_roll_200_resident_mib_ratio",
        unit: "x",
        bound: Some(AtMost(0.3)),
    },
    Measure {
        name: "plan_roll_200_writes_per_node_ratio",
        unit: "x",
        bound: None,
    },
    Measure {
        name: "drain_wall_ratio_to_kubectl",
        unit: "x",
        bound: Some(AtMost(1.0)),
    },
    Measure {
        name: "drain_requests_ratio_to_kubectl",
        unit: "x",
        bound: Some(AtMost(1.0)),
    },
    Measure {
        name: "idle_requests_per_minute",
        unit: "1/min",
        bound: None,
    },
    Measure {
        name: "stop_last_begin_seconds",
        unit: "s",
        bound: Some(AtMost(1.0)),
    },
    Measure {
        name: "notification_seconds",
        unit: "s",
        bound: Some(AtMost(2.0)),
    },
    Measure {
        name: "siege_added_seconds_per_node",
        unit: "s",
        bound: Some(AtMost(2.0)),
    },
    Measure {
        name: "siege_peak_mib",
        unit: "MiB",
        bound: Some(AtMost(256.0)),
    },
    Measure {
        name: "rules_of_1_2_mb_resident_mib",
        unit: "MiB",
        bound: Some(AtMost(100.0)),
    },
    Measure {
        name: "job_rule_vs_wasm_rule",
        unit: "x",
        bound: None,
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
    bound: Option<Bound>,
}

/// Builds everything for speed and measures there.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    numo_cluster::binary()?;
    // Both in one call: one by one they would have other features, and most of wasmtime would be built twice.
    let programs = [
        "--workspace",
        "--bin",
        "numo",
        "--bin",
        "xtask",
        "--features",
        step::WHOLE,
    ];
    step::must(step::cargo().args(["build", "--release"]).args(programs))?;
    // This program lies in the folder of another profile beside that one.
    let debug = std::env::current_exe()?;
    let beside = debug.parent().and_then(Path::parent).context("a target folder")?;
    let mut command = Command::new(beside.join("release/xtask"));
    command.current_dir(step::root());
    command.arg("bench-inner").args(&arguments.names);
    if let Some(json) = &arguments.json {
        // The child runs in the repository's root.
        command.arg("--json").arg(std::path::absolute(json)?);
    }
    for component in &arguments.component {
        command.arg("--component").arg(std::path::absolute(component)?);
    }
    if arguments.all_tools {
        command.arg("--all-tools");
    }
    if let Some(rival) = &arguments.rival {
        command.args(["--rival", rival]);
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
    // Without a rival there is nothing to compare with.
    let rival = arguments.rival.as_deref();
    let is_named = |name: &str| arguments.names.iter().any(|other| other == name);
    let wanted = |name: &str| {
        let all = arguments.names.is_empty()
            && (rival.is_some() || !name.starts_with("plan_roll") || !name.ends_with("_ratio"));
        all || is_named(name)
    };
    let mut entries: BTreeMap<&'static str, Entry> = BTreeMap::new();
    for measure in MEASURES.iter().filter(|measure| wanted(measure.name)) {
        eprintln!("measuring {}", measure.name);
        let measured = match measure.name {
            "added_latency_seconds_per_node" => latency::measure().await,
            "writes_per_node" => writes::measure().await,
            "resident_mib_200" => memory::measure().await,
            "decide_ms_p99_200" => Ok(decide::measure(200, 1000)),
            "decide_ms_p99_7500" => Ok(decide::measure(7500, 200)),
            "decide_ms_p99_7500_with_order" => Ok(decide::measure_with_order(7500, 200)),
            "sim_upgrades_per_second" => decide::upgrades(),
            "wasm_ratio" => wasm::ratio().await,
            "wasm_evaluations_per_second_core" => wasm::rate(wasm::Asks::Nothing).await,
            "wasm_evaluations_per_second_core_get_object" => wasm::rate(wasm::Asks::OneObject).await,
            "wasm_compile_ms" => wasm::compile().await,
            "wasm_cached_load_ms" => wasm::cached_load().await,
            "child_start_ms" => wasm::child_start().await,
            "wasm_idle_rule_kib" => wasm::idle().await,
            "wasm_growth_kib_10000" => wasm::growth().await,
            "provider_wall_ratio" => provider::ratio().await,
            "plan_roll_200_wall_seconds" => plans::roll(Part::Wall).await,
            "plan_roll_200_cpu_seconds" => plans::roll(Part::Cpu).await,
            "plan_roll_200_resident_mib" => plans::roll(Part::Resident).await,
            "plan_roll_200_writes_per_node" => plans::roll(Part::Writes).await,
            "plan_roll_200_wall_seconds_ratio" => plans::ratio(Part::Wall, rival).await,
            "plan_roll_200_cpu_seconds_ratio" => plans::ratio(Part::Cpu, rival).await,
            "plan_roll_200_resident_mib_ratio" => plans::ratio(Part::Resident, rival).await,
            "plan_roll_200_writes_per_node_ratio" => plans::ratio(Part::Writes, rival).await,
            "drain_wall_ratio_to_kubectl" => drains::wall().await,
            "drain_requests_ratio_to_kubectl" => drains::requests().await,
            "idle_requests_per_minute" => plans::idle().await,
            "stop_last_begin_seconds" => stop::measure().await,
            "notification_seconds" => notified::measure().await,
            "siege_added_seconds_per_node" => siege::latency().await,
            "siege_peak_mib" => siege::memory().await,
            "rules_of_1_2_mb_resident_mib" => siege::large().await,
            "job_rule_vs_wasm_rule" => latency::kinds().await,
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
    let folder = tempfile::tempdir()?;
    let mut others = arguments.component.clone();
    if arguments.all_tools {
        others.extend(foreign::components(folder.path()).await?);
    }
    for component in &others {
        println!("beside: {}", wasm::beside(component).await?);
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&entries)? + "\n";
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(entries: &BTreeMap<&'static str, Entry>) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<44} {:>10}   {:<9} {:>6}",
        "NAME", "VALUE", "UNIT", "BOUND"
    )];
    for (name, entry) in entries {
        let (bound, judgement) = match entry.bound {
            Some(AtMost(bound)) if entry.value <= bound => (bound.to_string(), "ok"),
            Some(AtMost(bound)) => (bound.to_string(), "over"),
            Some(AtLeast(bound)) if entry.value >= bound => (bound.to_string(), "ok"),
            Some(AtLeast(bound)) => (bound.to_string(), "under"),
            None => ("-".to_owned(), ""),
        };
        let line = format!(
            "{name:<44} {:>10.3}   {:<9} {bound:>6}   {judgement}",
            entry.value, entry.unit
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// The rule that takes no time, before and after each node, as a Job.
const QUICK: &str = include_str!("quick.yaml");
/// The same as a component, in a ConfigMap.
const QUICK_WASM: &str = include_str!("quick-wasm.yaml");
const TARGET: &str = "apiVersion: openshift-optional.skrzypek.io/v1alpha1\nkind: MutexTarget\nmetadata:\n  name: workers\nspec:\n  machineConfigPools: [worker]\n";
const RUN: &str = "bench";
const TO: &str = "4.17.0";
const POOL: &str = "worker";

/// Sets the stage and applies the quick rule and a run. The rest of the run's spec is given in YAML.
async fn stage(world: WorldSpec, spec: &str) -> Result<Stage> {
    let stage = bare_stage(world).await?;
    stage.apply(QUICK).await?;
    begin(&stage, spec).await?;
    Ok(stage)
}

/// A stage without rules.
async fn bare_stage(world: WorldSpec) -> Result<Stage> {
    let cluster = numo_cluster::Options {
        scale: true,
        ..numo_cluster::Options::default()
    };
    let options = StageOptions {
        world,
        cluster: Some(cluster),
        ..StageOptions::default()
    };
    Stage::set(options).await
}

/// Applies a run that asks the quick rule.
async fn begin(stage: &Stage, spec: &str) -> Result<()> {
    stage.apply(TARGET).await?;
    let run = format!(
        "apiVersion: openshift-optional.skrzypek.io/v1alpha1\nkind: MutexRunConfig\nmetadata:\n  name: {RUN}\nspec:\n  mutexRules: [{{name: quick}}]\n  mutexTargets: [{{name: workers}}]\n{spec}"
    );
    stage.apply(&run).await?;
    stage.condition(RUN, "Ready", "True", "UpToDate").await?;
    Ok(())
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
            ("a", entry(1.0, Some(AtMost(1.0)))),
            ("b", entry(1.5, Some(AtMost(1.0)))),
            ("c", entry(7.0, None)),
            ("d", entry(7.0, Some(AtLeast(8.0)))),
        ]);
        let table = table(&entries);
        assert!(table[1].ends_with("1   ok"), "{table:?}");
        assert!(table[2].ends_with("1   over"), "{table:?}");
        assert!(table[3].ends_with('-'), "{table:?}");
        assert!(table[4].ends_with("8   under"), "{table:?}");
        assert_eq!(
            serde_json::to_string(&entries).unwrap(),
            r#"{"a":{"value":1.0,"unit":"s","bound":1.0},"b":{"value":1.5,"unit":"s","bound":1.0},"c":{"value":7.0,"unit":"s"},"d":{"value":7.0,"unit":"s","bound":8.0}}"#
        );
    }
}
