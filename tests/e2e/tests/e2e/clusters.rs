//! Several clusters: one table of all of them, and a rule by which one waits until another has finished and soaked. Each has a control plane
//! and a numo of its own.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use numo_e2e::{NAMESPACE, Stage, manifests, process::Numo};
use numo_plugin_tests::prometheus::Running;
use serde_json::{Value, json};

use crate::{NEW, OLD, apply, asked::network, explained, finish, judgement, prepare, set, workers};

/// How long the other cluster must have been done, in this test.
const SOAK: u32 = 20;

/// The example's rule, about a run of the tests. Prometheus scrapes one cluster only, so that no label tells it.
fn waits_for_the_other() -> Result<Value> {
    let text = std::fs::read_to_string(manifests::root().join("examples/rule-another-cluster.yaml"))?;
    let mut rule = manifests::parse(&text)?.pop().context("a rule")?;
    let query = rule["spec"]["prometheus"]["query"].as_str().context("a query")?;
    let of_run = format!("kind=\"MutexRunConfig\",namespace=\"{NAMESPACE}\",name=\"upgrade\"");
    let query = query
        .replace("cluster=\"canary\",", "")
        .replace(
            "kind=\"Plan\",namespace=\"system-upgrade\",name=\"agents\"",
            &of_run,
        )
        .replace("[60m:1m]", &format!("[{SOAK}s:1s]"));
    assert!(query.contains(&of_run) && query.contains("s:1s]"), "{query}");
    rule["spec"]["prometheus"]["query"] = json!(query);
    rule["spec"]["prometheus"]["threshold"] = json!(SOAK);
    rule["spec"]["prometheus"]["retryAfterSeconds"] = json!(5);
    Ok(rule)
}

/// A kubeconfig with a context for each cluster, and one of a cluster that nobody serves.
fn kubeconfig(clusters: &[(&str, &Stage)], path: &Path) -> Result<()> {
    let mut all = json!({"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []});
    let mut add = |name: &str, given: &Value| {
        for (list, field) in [("clusters", "cluster"), ("users", "user")] {
            let one = json!({"name": name, field: given[list][0][field]});
            if let Some(list) = all[list].as_array_mut() {
                list.push(one);
            }
        }
        let context = json!({"cluster": name, "user": name, "namespace": NAMESPACE});
        let context = json!({"name": name, "context": context});
        if let Some(list) = all["contexts"].as_array_mut() {
            list.push(context);
        }
    };
    let mut last = Value::Null;
    for (name, stage) in clusters {
        last = serde_json::from_str(&std::fs::read_to_string(stage.terminal()?)?)?;
        add(name, &last);
    }
    last["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    add("gone", &last);
    Ok(std::fs::write(path, all.to_string())?)
}

/// The row of a cluster.
fn row<'a>(table: &'a str, context: &str) -> &'a str {
    let mut rows = table.lines().filter(|line| line.starts_with(context));
    rows.next().unwrap_or_default()
}

/// One table, one list, and no cluster that is left out without a word.
async fn are_shown_together(canary: &Stage, west: &Stage) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("kubeconfig");
    kubeconfig(&[("canary", canary), ("west", west)], &path)?;
    let path = path.display().to_string();
    let said = canary
        .call(&[
            "status",
            "--kubeconfig",
            &path,
            "--contexts",
            "canary,west,gone,none",
        ])
        .await?;
    assert_eq!(said.code, Some(1), "{said:?}");
    let found = said.out.lines().next().unwrap_or_default();
    assert!(found.starts_with("CONTEXT   OWNER "), "{said:?}");
    let run = format!("MutexRunConfig {NAMESPACE}/upgrade");
    for (context, words) in [
        ("canary", vec![run.as_str(), "UpToDate", "1/1", OLD]),
        ("west", vec![run.as_str(), "0/1", NEW]),
        ("gone", vec!["not seen", "https://127.0.0.1:1 is not reached"]),
        ("none", vec!["not seen", "none"]),
    ] {
        let row = row(&said.out, context);
        assert!(
            words.iter().all(|words| row.contains(words)),
            "{words:?}: {said:?}"
        );
    }
    assert!(
        said.err
            .contains("2 of 4 clusters could not be looked at: gone, none"),
        "{said:?}"
    );
    let listed = [
        "status",
        "--kubeconfig",
        &path,
        "--contexts",
        "canary,west",
        "-o",
        "json",
    ];
    let listed: Value = serde_json::from_str(&canary.say(&listed).await?)?;
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed:#}");
    for (number, context) in ["canary", "west"].iter().enumerate() {
        assert_eq!(listed[number]["context"], *context);
        assert_eq!(listed[number]["owners"][0]["name"], "upgrade", "{listed:#}");
    }
    // What cannot be meant is refused before anybody is asked.
    for (flags, words) in [
        (vec!["canary,canary"], "twice"),
        (vec!["canary,west", "--context", "west"], "--context"),
        (vec!["canary,west", "--token", "t"], "--token"),
        (vec!["canary,west", "-o", "name"], "-o name"),
        (vec!["canary,west", "-w"], "--watch"),
        (vec!["canary,west", "mutexrunconfig/upgrade"], "--contexts"),
    ] {
        let mut call = vec!["status", "--kubeconfig", &path, "--contexts"];
        call.extend(flags);
        let said = canary.call(&call).await?;
        assert!(
            said.code == Some(2) && said.err.contains(words),
            "{call:?}: {said:?}"
        );
        assert!(said.out.is_empty(), "{said:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_waits_until_another_has_finished_and_soaked_and_both_are_in_one_table() -> Result<()> {
    let canary = set(workers(1), Vec::new()).await?;
    // Its only worker could run no Job of a rule: those run on another node than the one that changes.
    prepare(&canary, &[], json!({})).await?;
    let serves = || async { Ok(canary.numo().and_then(Numo::address)) };
    let address = canary.until("it serves", 60, serves).await?;
    let prometheus = tokio::task::spawn_blocking(move || Running::of(&address, "")).await??;
    let west = set(workers(1), vec!["--prometheus-url", prometheus.url().leak()]).await?;
    apply(&west, &[network()]).await?;
    prepare(&west, &[waits_for_the_other()?], json!({})).await?;

    // The other one is done, but with the version before: that is no data about this one.
    west.world.upgrade_to(NEW).await?;
    explained(&west, "worker-0", "NoData: the query matches nothing", 90).await?;
    are_shown_together(&canary, &west).await?;

    canary.world.upgrade_to(NEW).await?;
    finish(&canary).await?;
    let finished = tokio::time::Instant::now();
    explained(&west, "worker-0", "ThresholdNotMet", 60).await?;
    finish(&west).await?;
    // Prometheus sees the end of the run a moment before or after the test does.
    let least = Duration::from_secs(u64::from(SOAK) - 5);
    assert!(finished.elapsed() >= least, "{:?}", finished.elapsed());
    west.judge(&judgement(&[], &[])).await?;
    drop(prometheus);
    canary.strike().await?;
    west.strike().await
}
