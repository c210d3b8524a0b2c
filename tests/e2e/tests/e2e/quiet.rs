//! When nothing changes, nothing is written; and what kstatus makes of the conditions.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use numo_api::{Condition, MutexRule, MutexTarget};
use numo_e2e::Stage;
use serde_json::json;

use crate::{NEW, finish, prepare_gated, rule_began, seen, set, workers};

/// Heartbeats and other people's labels reach the API server many times a second.
async fn noise(stage: &Stage, number: u32) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.person.clone());
    for n in 0..number {
        let node = format!("worker-{}", n % 3);
        let beat = json!({"status": {"conditions": [
            {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": Timestamp::now()}]}});
        nodes
            .patch_status(&node, &PatchParams::default(), &Patch::Strategic(beat))
            .await?;
        let annotation = json!({"metadata": {"annotations": {"someone.example/counter": n.to_string()}}});
        nodes
            .patch(&node, &PatchParams::default(), &Patch::Merge(annotation))
            .await?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// What numo asks of the API server, but for the leader lease and for watches, which end and begin by time.
fn asked(stage: &Stage) -> Result<Vec<String>> {
    let mut requests = stage.requests()?;
    requests.retain(|r| r.name != "numo-leader" && r.verb != "watch");
    Ok(requests.iter().map(|r| format!("{} {}", r.verb, r.uri)).collect())
}

/// What numo asks while only heartbeats come.
async fn asked_under_noise(stage: &Stage) -> Result<Vec<String>> {
    // What came before may still be settling: it is over when two seconds passed without a request.
    let mut before = asked(stage)?.len();
    let mut quiet = 0;
    while quiet < 8 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = asked(stage)?.len();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
    }
    noise(stage, 200).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(asked(stage)?.split_off(before))
}

fn is_sound(about: &str, conditions: &[Condition], generation: Option<i64>) {
    for condition in conditions {
        assert_eq!(
            condition.observed_generation, generation,
            "{about}: {condition:?}"
        );
        assert!(
            ["True", "False", "Unknown"].contains(&condition.status.as_str()),
            "{about}: {condition:?}"
        );
        let at: Result<Timestamp, _> = condition.last_transition_time.clone().unwrap_or_default().parse();
        assert!(at.is_ok(), "{about}: {condition:?}");
        let reason = condition.reason.clone().unwrap_or_default();
        assert!(
            !reason.is_empty() && reason.chars().all(char::is_alphanumeric),
            "{about}: {condition:?}"
        );
    }
    let is = |type_: &str| {
        conditions
            .iter()
            .find(|c| c.type_ == type_)
            .map(|c| c.status.as_str())
    };
    for type_ in ["Reconciling", "Stalled"] {
        assert!(
            matches!(is(type_), None | Some("True")),
            "{about}: {type_} is there only while true"
        );
    }
    let ready = is("Ready");
    assert!(ready.is_some(), "{about}: no Ready");
    let troubled = is("Reconciling").is_some() || is("Stalled").is_some();
    assert_eq!(ready == Some("True"), !troubled, "{about}: {conditions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_make_numo_write_nothing_and_conditions_speak_of_their_generation() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let gate = prepare_gated(&stage).await?;
    let run = stage.run("upgrade").await?;
    is_sound("idle", &run.status.unwrap_or_default().conditions, Some(1));
    assert_eq!(
        asked_under_noise(&stage).await?,
        Vec::<String>::new(),
        "while idle"
    );

    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    assert_eq!(
        asked_under_noise(&stage).await?,
        Vec::<String>::new(),
        "while a rule runs"
    );
    let run = stage.run("upgrade").await?;
    let conditions = run.status.unwrap_or_default().conditions;
    is_sound("under way", &conditions, Some(1));
    assert!(
        conditions
            .iter()
            .any(|c| c.type_ == "Reconciling" && c.reason.as_deref() == Some("Progressing"))
    );

    // The generation is followed; what did not flip keeps its time.
    let before = conditions
        .iter()
        .find(|c| c.type_ == "ConfigValidated")
        .cloned()
        .unwrap();
    stage
        .patch_run("upgrade", json!({"spec": {"failureBudget": 2}}))
        .await?;
    let run = stage
        .until("the new generation is observed", 30, || async {
            let run = stage.run("upgrade").await?;
            let observed = run.status.as_ref().and_then(|status| status.observed_generation);
            Ok((observed == Some(2)).then_some(run))
        })
        .await?;
    let conditions = run.status.unwrap_or_default().conditions;
    is_sound("edited", &conditions, Some(2));
    let after = conditions
        .iter()
        .find(|c| c.type_ == "ConfigValidated")
        .cloned()
        .unwrap();
    assert_eq!(after.last_transition_time, before.last_transition_time);

    gate.open_for_all()?;
    finish(&stage).await?;
    let run = stage.run("upgrade").await?;
    is_sound("done", &run.status.unwrap_or_default().conditions, Some(2));
    let found = stage.api::<MutexRule>().get("gated").await?;
    is_sound("rule", &found.status.unwrap_or_default().conditions, Some(1));
    let found = stage.api::<MutexTarget>().get("workers").await?;
    is_sound("target", &found.status.unwrap_or_default().conditions, Some(1));
    assert_eq!(
        asked_under_noise(&stage).await?,
        Vec::<String>::new(),
        "when done"
    );
    stage.strike().await
}
