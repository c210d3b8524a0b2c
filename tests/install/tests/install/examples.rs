//! The examples: applied as one folder none writes over another, and what Artifact Hub shows of the chart is taken by the API server.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result};
use numo_cluster::{Cluster, Options};
use numo_install::{objects, root};
use serde_json::{Value, json};

use crate::kustomize::{apply, install};

/// `kubectl apply -f examples/` is one of the first things that people do.
#[test]
fn no_example_writes_over_another() -> Result<()> {
    let mut found: BTreeMap<String, (String, Value)> = BTreeMap::new();
    for entry in fs::read_dir(root().join("examples"))? {
        let path = entry?.path();
        // kubectl applies no folder of a folder unless it is told to.
        if path.is_dir() {
            continue;
        }
        let all = objects(&fs::read_to_string(&path)?)?;
        assert!(!all.is_empty(), "{} is empty", path.display());
        for object in all {
            let metadata = &object["metadata"];
            let name = format!(
                "{} {} {}",
                object["kind"], metadata["namespace"], metadata["name"]
            );
            let file = path.display().to_string();
            if let Some((other, same)) = found.insert(name.clone(), (file.clone(), object.clone())) {
                assert_eq!(same, object, "{name} is in {other} and in {file}, and differs");
            }
        }
    }
    assert!(found.len() > 20);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_chart_shows_as_examples_is_taken() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    install(&cluster).await?;
    crate::kustomize::run(&cluster, &["delete", "validatingwebhookconfiguration", "numo"])?;
    let chart = objects(&fs::read_to_string(crate::chart().join("Chart.yaml"))?)?.remove(0);
    let examples = chart["annotations"]["artifacthub.io/crdsExamples"].as_str();
    let examples = objects(examples.context("examples")?)?.remove(0);
    for mut example in examples.as_array().cloned().context("a list")? {
        if example["metadata"]["namespace"].is_null() {
            example["metadata"]["namespace"] = json!(numo_install::NAMESPACE);
        }
        let mut flags = vec!["--dry-run=server", "--validate=strict"];
        // Nobody approves for another: who is named in it sends it.
        let by = example["spec"]["approvedBy"].as_str().map(str::to_owned);
        if let Some(by) = &by {
            flags.extend(["--as", by, "--as-group", "system:masters"]);
        }
        apply(&cluster, &example, &flags).with_context(|| example["kind"].to_string())?;
    }
    cluster.stop().await;
    Ok(())
}
