//! What an owner that is gone has left behind is remembered: metrics, status, doctor and events name it with the command that
//! ends it, and a new owner takes it over.

use anyhow::{Context as _, Result};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use numo_api::{MutexRunConfig, marks};
use numo_e2e::{NAMESPACE, Stage, process::Numo};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    Gate, NEW, apply, delete_run, finish, job, prepare, rule, rule_began, run_of, seen, set, workers,
};

/// The text of `/metrics`.
pub async fn metrics(stage: &Stage) -> Result<String> {
    let address = stage.numo().and_then(Numo::address).context("no address")?;
    let mut stream = TcpStream::connect(&address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// Waits until a series has this value.
async fn shows(stage: &Stage, series: &str) -> Result<()> {
    stage
        .until(series, 60, || async {
            let text = metrics(stage).await?;
            Ok(text.lines().any(|line| line == series).then_some(()))
        })
        .await
}

/// What doctor finds of marks that are left, and its exit code.
async fn left(stage: &Stage) -> Result<(Vec<Value>, Option<i32>)> {
    let said = stage.call(&["doctor", "-o", "json"]).await?;
    let found: Vec<Value> = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    let left = found.into_iter().filter(|one| one["check"] == "LeftBehind");
    Ok((left.collect(), said.code))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_stays_paused_after_its_run_is_gone_is_remembered_until_another_run_takes_it()
-> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule("gated", json!({"jobSpec": job(&gate.wait())}))];
    prepare(&stage, &rules, json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    // Whoever takes the finalizer off in mid-run finds it back at once.
    let api: Api<MutexRunConfig> = stage.api();
    let off = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("upgrade", &PatchParams::default(), &off).await?;
    stage
        .until("the finalizer is back", 60, || async {
            let finalizers = api.get("upgrade").await?.metadata.finalizers.unwrap_or_default();
            Ok(finalizers.iter().any(|one| one == marks::FINALIZER).then_some(()))
        })
        .await?;

    delete_run(&stage, "upgrade").await?;
    let labels = format!("{{namespace=\"{NAMESPACE}\",name=\"upgrade\",pool=\"worker\"}}");
    shows(&stage, &format!("numo_pool_held_nodes{labels} 3")).await?;
    shows(&stage, &format!("numo_pool_paused{labels} 1")).await?;
    shows(
        &stage,
        &format!("numo_orphaned_marks{{mark=\"{}\"}} 1", marks::PAUSED_BY),
    )
    .await?;
    stage.event("MachineConfigPool", "worker", "PoolHeld").await?;
    let text = stage.say(&["status"]).await?;
    for words in [
        "LEFT BEHIND",
        "MachineConfigPool worker",
        "PoolHeld",
        "kubectl patch machineconfigpool worker",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let (found, code) = left(&stage).await?;
    assert_eq!(
        (found[0]["state"].as_str(), code),
        (Some("wrong"), Some(1)),
        "{found:#?}"
    );
    let message = found[0]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("3 nodes would roll") && message.contains("takes it over"),
        "{message}"
    );

    // A new run of the same pools takes it over, and nothing is left in the end.
    gate.open_for_all()?;
    apply(&stage, &[run_of(&["gated"], json!({}))]).await?;
    finish(&stage).await?;
    shows(
        &stage,
        &format!("numo_orphaned_marks{{mark=\"{}\"}} 0", marks::PAUSED_BY),
    )
    .await?;
    shows(&stage, &format!("numo_pool_held_nodes{labels} 0")).await?;
    let text = stage.say(&["status"]).await?;
    assert!(!text.contains("LEFT BEHIND"), "{text}");
    let (found, _) = left(&stage).await?;
    assert_eq!(found[0]["state"], "ok", "{found:#?}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_on_a_node_whose_owner_is_gone_are_named_with_the_command_that_takes_them_back() -> Result<()> {
    let stage = set(workers(1), Vec::new()).await?;
    let mark = json!({"owner": "gone", "prior": false}).to_string();
    let patch = json!({
        "metadata": {"annotations": {marks::CORDONED_BY: mark}},
        "spec": {"unschedulable": true},
    });
    stage.patch_node("worker-0", patch).await?;
    // A mark that is there when numo starts, or comes later: both are found.
    apply(&stage, &[run_of(&[], json!({}))]).await?;
    stage.event("Node", "worker-0", "OwnerGone").await?;
    let text = stage.say(&["status"]).await?;
    assert!(
        text.contains("Node worker-0") && text.contains("kubectl uncordon worker-0"),
        "{text}"
    );
    let (found, code) = left(&stage).await?;
    assert_eq!(
        (found[0]["state"].as_str(), code),
        (Some("wrong"), Some(1)),
        "{found:#?}"
    );
    stage.strike().await
}
