//! What numo measures, as a real Prometheus has it: the labels that the reference names, right after a restart, and data for
//! every query of the dashboard.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use numo_e2e::{manifests::root, process::Numo};
use numo_plugin_tests::prometheus::Running;
use serde_json::{Value, json};

use crate::{Gate, NEW, apply, finish, job, prepare, rule, rule_began, seen, set, with_component, workers};

/// Queries of the dashboard, with its variables filled in.
fn queries(panels: &Value, found: &mut Vec<(String, String)>) {
    for panel in panels.as_array().into_iter().flatten() {
        let title = panel["title"].as_str().unwrap_or_default();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap_or_default();
            let query = query
                .replace("$__rate_interval", "1m")
                .replace("$__range", "5m")
                .replace("$kind", ".+")
                .replace("$namespace", ".*")
                .replace("$name", ".+");
            found.push((title.to_owned(), query));
        }
        queries(&panel["panels"], found);
    }
}

/// Labels by metric, as the reference has them.
fn reference() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let page = std::fs::read_to_string(root().join("operator/docs/reference/metrics.md"))?;
    let rows = page.lines().filter(|line| line.starts_with("| `numo_"));
    let of = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        let labels = cells[3]
            .split(' ')
            .map(|label| label.trim_matches('`').to_owned());
        (name, labels.filter(|label| !label.is_empty()).collect())
    };
    Ok(rows.map(of).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_has_data_and_labels_are_those_of_the_reference() -> Result<()> {
    let mut stage = set(workers(3), Vec::new()).await?;
    let gate = Gate::new()?;
    // One component, for what only components are measured by.
    let (_published, component) = with_component(&stage).await?;
    let cel = json!({"type": "cel", "cel": {"validations": [{"expression": "true"}]}});
    let rules = [
        component,
        rule("open", cel),
        rule(
            "gated",
            json!({"jobSpec": job(&gate.wait()), "cleanUpJobSpec": job("true")}),
        ),
    ];
    prepare(&stage, &rules, json!({})).await?;
    let budget = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": "all"}, "spec": {"nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}}, "maxUnavailable": 1},
    });
    let each = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": "each"},
        "spec": {"nodeSelector": {}, "groupBy": "kubernetes.io/hostname", "maxUnavailable": 1},
    });
    apply(&stage, &[budget, each]).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    gate.open("worker-0")?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-1")).await?;
    // A restart in mid-run: what alerts are made of is there again.
    stage.kill_numo().await?;
    stage.start_numo()?;
    let address = stage
        .until("it serves", 60, || async {
            Ok(stage.numo().and_then(Numo::address))
        })
        .await?;
    let prometheus = Running::of(&address, "")?;
    let flying = r#"numo_node_step{kind="MutexRunConfig",name="upgrade",node="worker-1",step="PreRules"}"#;
    let ask = |query: &str| prometheus.ask(query);
    // What is shown of a run and what is shown of the cluster may come in two looks of Prometheus.
    let blocked = r#"numo_budget_blocked_nodes{budget="all",reason="BudgetExhausted"}"#;
    let in_use = r#"numo_budget_in_use_nodes{budget="all"}"#;
    let paused = r#"numo_pool_paused{pool="worker"}"#;
    let eta = r#"numo_owner_eta_timestamp_seconds{name="upgrade"}"#;
    for (query, least) in [
        (flying, "1"),
        (blocked, "0"),
        (in_use, "1"),
        (paused, "1"),
        (eta, "1"),
    ] {
        let asked = || async {
            let found = ask(query)?;
            let value = found.first().and_then(|one| one["value"][1].as_str());
            Ok((found.len() == 1 && value.is_some_and(|value| value >= least)).then_some(()))
        };
        stage.until(&format!("{query} is shown"), 60, asked).await?;
    }

    // Every query is one that Prometheus takes, and has data but where nothing has gone wrong, or a cluster's own metrics are
    // asked for. What is asked over a time has data once two looks are in it.
    let dashboard = std::fs::read_to_string(root().join("deploy/monitoring/dashboard.json"))?;
    let dashboard: Value = serde_json::from_str(&dashboard)?;
    let mut all = Vec::new();
    queries(&dashboard["panels"], &mut all);
    assert!(all.len() > 30, "{}", all.len());
    let quiet = [
        "mco_",
        "numo_plugin_failures_total",
        "failed|refused",
        "numo_budget_blocked_nodes) > 0",
    ];
    let changing = |query: &str| query.contains("[1m]") || query.contains("[5m]") || query.contains("[1h]");
    gate.open("worker-1")?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-2")).await?;
    let is_quiet = |query: &str| quiet.iter().any(|part| query.contains(part));
    for (title, query) in all.iter().filter(|(_, query)| !changing(query)) {
        let asked = || async {
            let found = ask(query).with_context(|| format!("{title}: {query}"))?;
            Ok((!found.is_empty() || is_quiet(query)).then_some(()))
        };
        stage
            .until(&format!("{title} has data: {query}"), 60, asked)
            .await?;
    }
    gate.open_for_all()?;
    finish(&stage).await?;
    let over = r#"numo_run_finished_timestamp_seconds{name="upgrade",result="Succeeded"}"#;
    stage
        .until("the end of the run is shown, and no time to come", 60, || async {
            Ok((ask(over)?.len() == 1 && ask(eta)?.is_empty()).then_some(()))
        })
        .await?;
    let success = r#"numo_owner_last_success_timestamp_seconds{kind="MutexRunConfig",name="upgrade"}"#;
    let same = format!("{success} == on(name) {over}");
    stage
        .until("the success of the run has the time of its end", 60, || async {
            Ok((ask(&same)?.len() == 1).then_some(()))
        })
        .await?;
    for (title, query) in all
        .iter()
        .filter(|(_, query)| changing(query) && !is_quiet(query))
    {
        let asked = || async { Ok((!ask(query)?.is_empty()).then_some(())) };
        stage
            .until(&format!("{title} has data: {query}"), 60, asked)
            .await?;
    }
    stage
        .until("verdicts are counted by phase", 60, || async {
            let found = ask("sum by (rule, phase, verdict) (increase(numo_rule_verdicts_total[5m])) > 0")?;
            let has = |phase: &str| {
                found
                    .iter()
                    .any(|one| one["metric"]["phase"] == phase && one["metric"]["verdict"] == "pass")
            };
            Ok((has("Pre") && has("Post")).then_some(()))
        })
        .await?;
    // Labels: those of the reference, and no others; each is there somewhere.
    let described = reference()?;
    let mut missing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let series = ask(r#"{__name__=~"numo_.+"}"#)?;
    for one in &series {
        let name = one["metric"]["__name__"].as_str().unwrap_or_default();
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix));
        let named = if described.contains_key(name) {
            name
        } else {
            base.unwrap_or(name)
        };
        let wanted = described
            .get(named)
            .with_context(|| format!("{name} is not in the reference"))?;
        let labels = one["metric"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(label, _)| label.clone());
        let found: BTreeSet<String> = labels
            .filter(|label| !["__name__", "job", "instance", "le"].contains(&label.as_str()))
            .map(|label| {
                label
                    .strip_prefix("exported_")
                    .map_or(label.clone(), ToOwned::to_owned)
            })
            .collect();
        // An empty label is none.
        assert!(
            found.is_subset(wanted),
            "{name}: found {found:?}, described {wanted:?}"
        );
        missing
            .entry(named.to_owned())
            .or_insert_with(|| wanted.clone())
            .retain(|label| !found.contains(label));
    }
    missing.retain(|_, labels| !labels.is_empty());
    assert_eq!(missing, BTreeMap::new(), "labels that no series has");
    stage.strike().await
}
