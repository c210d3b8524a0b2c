//! Versions that move on in mid-run, and releases that change little or nothing.

use anyhow::Result;
use numo_api::{RunResult, Step};
use numo_e2e::Stage;
use numo_world::{Event, Fault};
use serde_json::json;

use crate::{
    NEW, canary, finish, happened, jobs, judgement, prepare, quick, released, released_after_a_while, seen,
    set, with_canary, workers,
};

const NEWEST: &str = "4.17.1";

/// The version asked for changes while a node is on its way to the one before.
async fn moves_on(stage: Stage, spec: serde_json::Value) -> Result<()> {
    prepare(&stage, &[quick()], spec).await?;
    stage.world.inject(Fault::SlowReboot {
        node: "worker-0".to_owned(),
        factor: 4.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 reboots", |w| {
        w.state().nodes["worker-0"].rebooting
    })
    .await?;
    stage.world.upgrade_to(NEWEST).await?;
    stage.upgraded("worker", NEWEST).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.at_version = Some(NEWEST.to_owned());
    // worker-0 went through its rules for the version before, too.
    expected.retries = true;
    stage.judge(&expected).await?;
    let run = stage.run("upgrade").await?;
    let last = run.status.and_then(|status| status.run).unwrap_or_default();
    assert_eq!(
        (last.target.as_str(), last.result),
        (NEWEST, Some(RunResult::Succeeded))
    );
    assert!(last.ungated.is_empty(), "{:?}", last.ungated);
    assert!(!happened(&stage.world, "worker-1", |e| {
        matches!(e, Event::Done { version, .. } if version == NEW)
    }));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_version_that_moves_on_in_mid_run_is_followed_through_the_rules() -> Result<()> {
    moves_on(set(workers(3), Vec::new()).await?, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_moves_on_in_mid_canary_run_is_followed_through_the_rules() -> Result<()> {
    let stage = set(with_canary(workers(3)), Vec::new()).await?;
    moves_on(stage, json!({"canary": {"name": "canary"}})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_changes_little_passes_its_rules_and_one_that_changes_nothing_ends_at_once()
-> Result<()> {
    changes_little(set(workers(2), Vec::new()).await?, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_changes_little_goes_through_the_canary_without_a_reboot() -> Result<()> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    changes_little(stage, json!({"canary": {"name": "canary"}})).await
}

async fn changes_little(stage: Stage, spec: serde_json::Value) -> Result<()> {
    prepare(&stage, &[quick()], spec).await?;
    // Other names, and nothing that a node must reboot for.
    stage.world.inject(Fault::ZeroDiff);
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    assert!(!happened(&stage.world, "worker-0", |e| *e == Event::Rebooting));
    for node in ["worker-0", "worker-1"] {
        stage.step(node, Step::Done).await?;
    }
    let before = jobs(&stage).await?.len();
    assert_eq!(before, 4);

    // The very same names, annotated with another version.
    stage.world.heal_cluster();
    stage.world.inject(Fault::EqualRelease);
    stage.world.upgrade_to(NEWEST).await?;
    seen(&stage, "the control plane is done", |w| w.is_completed(NEWEST)).await?;
    stage.upgraded("worker", NEWEST).await?;
    stage
        .until("the run is over", 60, || async {
            let run = stage.run("upgrade").await?;
            let last = run.status.and_then(|status| status.run).unwrap_or_default();
            Ok((last.target == NEWEST && last.result == Some(RunResult::Succeeded)).then_some(()))
        })
        .await?;
    stage
        .until("the pool is given back", 60, || async {
            Ok((!crate::pool(&stage, "worker").await?.spec.paused).then_some(()))
        })
        .await?;
    assert!(released(&stage.world).is_empty());
    assert_eq!(jobs(&stage).await?.len(), before, "no node changes, no rule runs");
    let mut expected = judgement(&[], &[]);
    expected.at_version = Some(NEWEST.to_owned());
    stage.judge(&expected).await?;
    stage.strike().await
}

/// The request is withdrawn while the control plane is on its way: pools are given back, and nobody was let go.
async fn withdrawn(stage: Stage, spec: serde_json::Value) -> Result<()> {
    prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    stage
        .until("the pool is paused", 60, || async {
            Ok(crate::pool(&stage, "worker").await?.spec.paused.then_some(()))
        })
        .await?;
    stage.world.upgrade_to(crate::OLD).await?;
    seen(&stage, "the control plane is back", |w| {
        w.is_completed(crate::OLD)
    })
    .await?;
    stage
        .until("the pool is given back", 60, || async {
            Ok((!crate::pool(&stage, "worker").await?.spec.paused).then_some(()))
        })
        .await?;
    assert!(released(&stage.world).is_empty());
    assert!(jobs(&stage).await?.is_empty(), "no rule ran");
    let mut expected = judgement(&[], &[]);
    expected.at_version = Some(crate::OLD.to_owned());
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_withdrawn_gives_the_pools_back() -> Result<()> {
    withdrawn(set(workers(2), Vec::new()).await?, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_request_that_is_withdrawn_gives_the_canary_back() -> Result<()> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    withdrawn(stage, json!({"canary": {"name": "canary"}})).await
}

/// The cluster-version operator does not take the release in: the pools stay paused, no rule starts and nobody rolls,
/// until what blocks it is lifted.
async fn release_refused(stage: Stage, spec: serde_json::Value) -> Result<()> {
    prepare(&stage, &[quick()], spec).await?;
    stage.world.inject(Fault::ReleaseRefused);
    stage.world.upgrade_to(NEW).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "ControlPlaneUpdating")
        .await?;
    assert!(why.contains("ClusterVersion") && why.contains(NEW), "{why}");
    // The cluster does not end it by itself: the run says that a person has to.
    stage
        .until("the run is stalled", 60, || async {
            let run = stage.run("upgrade").await?;
            let stalled = crate::condition(&run, "Stalled");
            let words = stalled.and_then(|stalled| stalled.message.clone());
            Ok(words.filter(|words| words.contains("ReleaseAccepted is False")))
        })
        .await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    assert!(crate::pool(&stage, "worker").await?.spec.paused);
    assert!(jobs(&stage).await?.is_empty() && stage.changes().await?.is_empty());
    stage.world.heal_cluster();
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_not_accepted_keeps_the_pools_paused() -> Result<()> {
    release_refused(set(workers(2), Vec::new()).await?, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_release_that_is_not_accepted_keeps_the_pools_of_a_canary_run_paused() -> Result<()> {
    release_refused(set(with_canary(workers(2)), Vec::new()).await?, canary()).await
}

/// A cluster of an older minor: numo asks for nothing but the version, says what it found and wanted, and ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubernetes_before_1_31_is_refused_at_the_start() -> Result<()> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let server = format!("http://{}", listener.local_addr()?);
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "old",
        "clusters": [{"name": "old", "cluster": {"server": server}}],
        "contexts": [{"name": "old", "context": {"cluster": "old", "user": "numo"}}],
        "users": [{"name": "numo", "user": {}}],
    });
    std::fs::write(&kubeconfig, text.to_string())?;
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 8192];
            let read = stream.read(&mut buffer).await.unwrap_or_default();
            let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let body = json!({
                "major": "1", "minor": "30", "gitVersion": "v1.30.4", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
            })
            .to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            asked.push(path.clone());
            if path != "/version" {
                break;
            }
        }
        asked
    });
    let mut numo = numo_e2e::Numo::start(
        &kubeconfig,
        numo_e2e::NAMESPACE,
        folder.path(),
        &["--metrics-address", "off"],
    )?;
    let code = numo.ended(std::time::Duration::from_secs(30)).await?;
    assert_ne!(code, Some(0));
    let log = numo.log();
    assert!(
        log.contains("found Kubernetes v1.30.4") && log.contains("wanted 1.31 or later"),
        "{log}"
    );
    assert!(!asked.is_finished(), "it asked for more than the version");
    asked.abort();
    Ok(())
}
