//! Alerts and dashboard: by promtool, and against the metrics and alerts that the reference describes.

use std::{collections::BTreeSet, fs, process::Command};

use anyhow::{Context as _, Result};
use numo_install::{objects, root, said};
use numo_plugin_tests::programs;
use serde_json::Value;

pub(crate) fn promtool() -> Result<Command> {
    let prometheus = programs::debian("prometheus")?;
    let folder = programs::folder_of(&prometheus)?;
    let of_package = folder.join("unpacked/usr/bin/promtool");
    let beside = folder.join("promtool");
    Ok(Command::new(if of_package.is_file() {
        of_package
    } else {
        beside
    }))
}

fn alerts() -> Result<Value> {
    let text = fs::read_to_string(root().join("deploy/monitoring/alerts.yaml"))?;
    objects(&text)?.into_iter().next().context("a PrometheusRule")
}

/// Words of a text that begin with the prefix of numo's metrics.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':');
    words
        .filter(|word| word.starts_with("numo_") && !word.contains(':'))
        .collect()
}

#[test]
fn every_alert_fires_when_it_should_and_not_before() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let rules = serde_saphyr::to_string(&alerts()?["spec"])?;
    fs::write(folder.path().join("alerts.rules.yaml"), rules)?;
    let test = folder.path().join("alerts_test.yaml");
    fs::copy(root().join("deploy/monitoring/alerts_test.yaml"), &test)?;
    said(
        promtool()?
            .args(["check", "rules"])
            .arg(folder.path().join("alerts.rules.yaml")),
    )?;
    said(
        promtool()?
            .current_dir(folder.path())
            .args(["test", "rules"])
            .arg(&test),
    )?;
    Ok(())
}

#[test]
fn alerts_and_dashboard_speak_of_metrics_that_there_are_and_each_alert_is_explained() -> Result<()> {
    let reference = fs::read_to_string(root().join("operator/docs/reference/metrics.md"))?;
    let known = metrics(&reference);
    assert!(known.len() > 20, "{known:?}");
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = fs::read_to_string(root().join("deploy/monitoring").join(file))?;
        let of = |name: &&str| {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix));
            known.contains(*name) || base.is_some_and(|base| known.contains(base))
        };
        let unknown: Vec<&str> = metrics(&text).into_iter().filter(|name| !of(name)).collect();
        assert_eq!(unknown, Vec::<&str>::new(), "{file}");
    }
    let page = fs::read_to_string(root().join("operator/docs/reference/alerts.md"))?;
    let rule = alerts()?;
    let groups = rule["spec"]["groups"].as_array().context("groups")?;
    let all = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let names: Vec<&str> = all.filter_map(|one| one["alert"].as_str()).collect();
    assert!(names.len() >= 12, "{names:?}");
    for name in names {
        assert!(
            page.contains(&format!("## {name}\n")),
            "alerts.md has no section {name}"
        );
    }
    Ok(())
}
