//! `numo preview`: what would come of it, before it does, and without a write; on the cluster and from a snapshot of it.

use anyhow::{Context as _, Result};
use numo_e2e::{NAMESPACE, Stage};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{NEW, apply, job, maintenance, prepare, rule, run_of, set, target, workers};

/// What a preview says of one owner, and its exit code.
async fn preview(stage: &Stage, arguments: &[&str]) -> Result<(Value, Option<i32>)> {
    let said = stage
        .call(&[&["preview", "-o", "json"], arguments].concat())
        .await?;
    let mut found: Vec<Value> = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    Ok((found.pop().with_context(|| format!("{said:?}"))?, said.code))
}

fn texts<'a>(found: &'a Value, list: &str, field: &str) -> Vec<&'a str> {
    let all = found[list].as_array().into_iter().flatten();
    all.filter_map(|one| one[field].as_str()).collect()
}

/// What a verb asked of the API server that could write.
fn writes(stage: &Stage, verb: &str, from: usize) -> Result<Vec<String>> {
    let all = stage.cluster.audit()?;
    let of = all[from..].iter().filter(|event| event.user_agent.contains(verb));
    let of = of
        .filter(|event| !["get", "list", "watch"].contains(&event.verb.as_str()))
        .filter(|event| event.resource != "subjectaccessreviews" && !event.uri.contains("dryRun=All"));
    Ok(of.map(|event| format!("{} {}", event.verb, event.uri)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_seen_before_it_runs_and_nothing_is_written() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 5)],
        ..WorldSpec::default()
    };
    let stage = set(world, Vec::new()).await?;
    let open =
        json!({"type": "cel", "cel": {"validations": [{"expression": "node.metadata.name != 'worker-9'"}]}});
    let shut = json!({"type": "cel", "cel": {"validations": [
        {"expression": "false", "message": "not on a Sunday", "otherwise": "Wait"}]}});
    let rules = [
        rule("open", open),
        rule("checked", json!({"jobSpec": job("true")})),
        rule("shut", shut),
    ];
    prepare(&stage, &rules, json!({"maxUnavailable": 2, "order": "Name"})).await?;
    // A pod behind a budget that can never open, and one that is alone.
    let pod = maintenance::on("worker-0");
    apply(&stage, &[maintenance::deployment("shop", 2, pod.clone())]).await?;
    maintenance::running(&stage, "shop", "worker-0", 2).await?;
    apply(&stage, &[maintenance::budget("shop", json!(0))]).await?;
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "theirs"},
        "webhooks": [{
            "name": "judge.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": "judge", "namespace": "default", "path": "/"}},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"]}],
        }],
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "judge-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "judge"}},
        "endpoints": [{"addresses": ["10.1.1.1"], "nodeName": "worker-3", "conditions": {"ready": true}}],
        "ports": [{"port": 443}],
    });
    apply(&stage, &[hook, slice]).await?;

    let before = stage.cluster.audit()?.len();
    // Nothing is to be done yet: a later version is imagined.
    let (found, code) = preview(
        &stage,
        &[
            "mutexrunconfig/upgrade",
            "-n",
            NAMESPACE,
            "--to-version",
            "4.18.0",
        ],
    )
    .await?;
    assert_eq!(
        (&found["imagined"], &found["target"]),
        (&json!(true), &json!("4.18.0")),
        "{found:#}"
    );
    let waves = json!([["worker-0", "worker-1"], ["worker-2", "worker-3"], ["worker-4"]]);
    assert_eq!(found["waves"], waves, "{found:#}");
    assert_eq!(found["refused"], json!([]), "{found:#}");
    let said: Vec<(&str, &str)> = texts(&found, "rules", "rule")
        .into_iter()
        .zip(texts(&found, "rules", "verdict"))
        .collect();
    let of = |name: &str, verdict: &str| said.contains(&(format!("{NAMESPACE}/{name}").as_str(), verdict));
    assert!(
        of("open", "pass") && of("checked", "dry-run") && of("shut", "wait"),
        "{said:?}"
    );
    let drains = texts(&found, "drains", "message");
    assert!(
        drains
            .iter()
            .any(|one| one.contains("can never be evicted") && one.contains("PodDisruptionBudget")),
        "{drains:#?}"
    );
    let webhooks = found["webhooks"].to_string();
    assert!(
        webhooks.contains("judge.example.com") && webhooks.contains("worker-3"),
        "{webhooks}"
    );
    assert_eq!(code, Some(3), "the budget stands against it");

    // A manifest that is not applied yet, and one that cannot be.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("run.yaml");
    let mut manifest = run_of(&["open", "missing"], json!({}));
    manifest["metadata"]["name"] = json!("next");
    std::fs::write(&file, manifest.to_string())?;
    let path = file.to_string_lossy().into_owned();
    let (found, code) = preview(&stage, &["-f", &path, "-n", NAMESPACE]).await?;
    assert_eq!(
        found["owner"],
        format!("MutexRunConfig {NAMESPACE}/next"),
        "{found:#}"
    );
    assert!(
        texts(&found, "refused", "reason").contains(&"RuleNotFound"),
        "{found:#}"
    );
    assert_eq!(code, Some(3));
    manifest["spec"]["maxUnavailable"] = json!("many");
    std::fs::write(&file, manifest.to_string())?;
    let (found, code) = preview(&stage, &["-f", &path, "-n", NAMESPACE]).await?;
    assert!(
        code == Some(3) && texts(&found, "refused", "reason").contains(&"InvalidField"),
        "{found:#}"
    );
    // What the API server itself refuses is said in its words.
    manifest["spec"]["maxUnavailable"] = json!({"a": 1});
    std::fs::write(&file, manifest.to_string())?;
    let said = stage.call(&["preview", "-f", &path, "-n", NAMESPACE]).await?;
    assert!(
        said.code == Some(1) && said.err.contains("maxUnavailable"),
        "{said:?}"
    );
    std::fs::write(&file, "kind: [")?;
    let said = stage.call(&["preview", "-f", &path]).await?;
    assert!(said.code == Some(2) && said.err.contains("run.yaml"), "{said:?}");

    // A plain text for people.
    let said = stage
        .call(&["preview", "-n", NAMESPACE, "upgrade", "--to-version", NEW])
        .await?;
    for words in [
        "order   5 nodes in 3 waves",
        "rule    ",
        "drain   Node worker-0: never",
    ] {
        assert!(
            said.out.contains(words),
            "preview says nothing of {words}: {said:?}"
        );
    }
    assert_eq!(writes(&stage, "preview", before)?, Vec::<String>::new());
    assert!(!stage.world.state().pools["worker"].paused);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_previewed_without_the_cluster() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let secret = rule("checked", json!({"jobSpec": job("curl -H 'token: swordfish' x")}));
    prepare(&stage, &[secret], json!({"order": "Name"})).await?;
    stage.world.upgrade_to(NEW).await?;
    apply(&stage, &[target("others", &["worker"])]).await?;
    let before = stage.cluster.audit()?.len();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cluster.json");
    let path = file.to_string_lossy().into_owned();
    stage.say(&["snapshot", "-f", &path]).await?;
    assert_eq!(writes(&stage, "snapshot", before)?, Vec::<String>::new());
    let text = std::fs::read_to_string(&file)?;
    assert!(
        !text.contains("swordfish") && text.contains("worker-2"),
        "it is scrubbed"
    );
    // No cluster is needed: an address where nobody is.
    let said = stage
        .call(&[
            "preview",
            "--snapshot",
            &path,
            "-n",
            NAMESPACE,
            "upgrade",
            "-o",
            "json",
            "--kubeconfig",
            "/nowhere",
        ])
        .await?;
    let found: Vec<Value> = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    let turns: usize = found[0]["waves"].as_array().map_or(0, |waves| {
        waves.iter().map(|wave| wave.as_array().map_or(0, Vec::len)).sum()
    });
    assert_eq!(turns, 3, "{:#}", found[0]);
    assert_eq!(found[0]["target"], NEW);
    // Truncated, and of another version.
    std::fs::write(&file, &text[..text.len() / 2])?;
    let said = stage.call(&["preview", "--snapshot", &path, "upgrade"]).await?;
    assert!(
        said.code == Some(2) && said.err.contains("truncated") && said.err.contains("numo snapshot"),
        "{said:?}"
    );
    std::fs::write(&file, text.replacen("\"format\":1", "\"format\":7", 1))?;
    let said = stage.call(&["preview", "--snapshot", &path, "upgrade"]).await?;
    assert!(said.code == Some(2) && said.err.contains("format 7"), "{said:?}");
    stage.strike().await
}
