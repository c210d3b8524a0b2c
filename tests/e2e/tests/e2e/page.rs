//! The manifests of the replaced operator's page, byte for byte, do what the page says.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::batch::v1::Job;
use kube::{ResourceExt, api::PostParams};
use numo_api::{MutexRule, MutexTarget};
use numo_e2e::{NAMESPACE, Stage};
use numo_world::Event;
use serde_json::json;

use crate::{NEW, happened, job, jobs, judgement, pool, rule_began, seen, set, workers};

const LABEL: &str = "mutexrule.openshift-optional.skrzypek.io/k8s-example.node-upgrade-mutex-operator";
const CANARY: &str = include_str!("../../manifests/page/canary.yaml");
const RULE: &str = include_str!("../../manifests/page/rule.yaml");
const TARGET: &str = include_str!("../../manifests/page/target.yaml");
const RUN: &str = include_str!("../../manifests/page/runconfig.yaml");

/// Waits until the condition is True, and checks what the reference says with it.
async fn says(stage: &Stage, type_: &str, reason: &str, message: Option<&str>) -> Result<()> {
    let found = stage.condition("example", type_, "True", reason).await?;
    if let Some(message) = message {
        assert_eq!(found, message, "{type_}");
    }
    Ok(())
}

fn has_label(stage: &Stage, node: &str) -> bool {
    stage
        .world
        .node(node)
        .is_some_and(|node| node.labels().get(LABEL).is_some_and(String::is_empty))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_manifests_do_what_the_page_says() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    // The replaced operator deletes a Job that is named as the rule's prefix, every ten minutes.
    let bystander: Job =
        serde_json::from_value(json!({"metadata": {"name": "example"}, "spec": job("sleep 3600")}))?;
    let bystander = stage
        .api::<Job>()
        .create(&PostParams::default(), &bystander)
        .await?;
    stage.apply(CANARY).await?;
    let rendered = |world: &numo_world::World| {
        world
            .pool("canary")
            .is_some_and(|pool| !pool.spec.configuration.name.is_empty())
    };
    seen(&stage, "canary is rendered", rendered).await?;
    stage.world.remember().await?;
    for manifest in [RULE, TARGET, RUN] {
        stage.apply(manifest).await?;
    }
    says(
        &stage,
        "ConfigValidated",
        "FetchSucceeded",
        Some("Canary, MutexRules, and MutexTargets were successfully fetched."),
    )
    .await?;
    stage
        .condition("example", "UpgradeReady", "False", "UpgradeNotReady")
        .await?;
    let valid = stage
        .until("MutexRule k8s-example says ValidConfig", 60, || async {
            let rule = stage.api::<MutexRule>().get("k8s-example").await?;
            let conditions = rule.status.unwrap_or_default().conditions;
            Ok(conditions.into_iter().find(|c| c.type_ == "ValidConfig"))
        })
        .await?;
    assert_eq!(
        (valid.status.as_str(), valid.reason.as_deref()),
        ("True", Some("ValidConfig"))
    );
    assert_eq!(
        valid.message.as_deref(),
        Some("The Host/Token/Job combination is valid.")
    );
    let target = stage
        .until("MutexTarget worker-example has a status", 60, || async {
            let target = stage.api::<MutexTarget>().get("worker-example").await?;
            Ok(target.status.filter(|status| status.nodes.is_some()))
        })
        .await?;
    assert_eq!(target.nodes.unwrap_or_default(), ["worker-0", "worker-1"]);
    for type_ in ["ValidConfig", "NodeListGathered"] {
        let condition = target.conditions.iter().find(|c| c.type_ == type_).unwrap();
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_deref()),
            ("True", Some("MachineConfigPoolFetchSucceeded")),
            "{type_}"
        );
    }

    stage.world.upgrade_to(NEW).await?;
    says(
        &stage,
        "TargetPoolsPaused",
        "Paused",
        Some("All target Machine Config Pools are paused"),
    )
    .await?;
    says(&stage, "UpgradeChecked", "CheckSucceeded", None).await?;
    says(
        &stage,
        "UpgradeReady",
        "UpgradeReady",
        Some("An upgrade is available"),
    )
    .await?;
    says(&stage, "MutexRulesApplied", "ApplySucceeded", None).await?;
    says(&stage, "MCPUpdated", "UpdateSucceeded", None).await?;
    assert!(pool(&stage, "worker").await?.spec.paused);

    let one_began = |world: &numo_world::World| {
        ["worker-0", "worker-1"]
            .iter()
            .any(|node| rule_began(world, "k8s-example", node))
    };
    seen(&stage, "the first Job runs", one_began).await?;
    let (first, second) = if rule_began(&stage.world, "k8s-example", "worker-0") {
        ("worker-0", "worker-1")
    } else {
        ("worker-1", "worker-0")
    };
    assert!(
        has_label(&stage, first) && has_label(&stage, second),
        "nodes that wait carry the rule's label"
    );
    let selector = pool(&stage, "canary").await?.spec.node_selector.unwrap();
    let expressions = selector.match_expressions.unwrap_or_default();
    assert!(
        expressions
            .iter()
            .any(|e| e.key == LABEL && e.operator == "DoesNotExist"),
        "{expressions:?}"
    );
    assert!(expressions.iter().all(|e| e.key != "isCanary"), "{expressions:?}");
    assert_eq!(
        selector
            .match_labels
            .unwrap_or_default()
            .keys()
            .collect::<Vec<_>>(),
        ["node-role.kubernetes.io/worker"],
        "the user's own labels stay"
    );

    says(
        &stage,
        "JobRun",
        "JobRunSucceeded",
        Some(&format!(
            "Jobs for {first} have run successfully.\nNode is 1 of 2"
        )),
    )
    .await?;
    let released = |world: &numo_world::World| {
        happened(
            world,
            first,
            |e| matches!(e, Event::Moved { to } if to == "canary"),
        )
    };
    seen(&stage, "the first node is in the canary pool", released).await?;
    assert!(!has_label(&stage, first), "the current node's labels are removed");
    assert!(has_label(&stage, second), "the next node's labels are not");
    let upgraded = stage
        .condition("example", "NodeUpgrade", "True", "NodeUpgradeSucceeded")
        .await?;
    assert!(
        upgraded.starts_with(&format!("Upgrade for {first} ")),
        "{upgraded}"
    );
    assert!(
        upgraded.ends_with("\nNode is 1 of 2") || upgraded.ends_with("\nNode is 0 of 2"),
        "{upgraded}"
    );

    let all = |world: &numo_world::World| world.is_updated("worker", NEW);
    if let Err(error) = stage
        .world
        .until("workers are updated", Duration::from_mins(5), all)
        .await
    {
        anyhow::bail!("{error:#}\n{}", stage.picture().await);
    }
    stage
        .until("the run has succeeded", 90, || async {
            let run = stage.run("example").await?;
            let ready = crate::condition(&run, "Ready").and_then(|c| c.reason.clone());
            Ok((ready.as_deref() == Some("Succeeded")).then_some(()))
        })
        .await?;
    stage
        .condition("example", "UpgradeAvailable", "False", "UpgradeUnavailable")
        .await?;
    stage
        .judge(&judgement(&["k8s-example"], &["k8s-example"]))
        .await?;
    assert!(!pool(&stage, "worker").await?.spec.paused);

    let all = jobs(&stage).await?;
    let (own, others): (Vec<&Job>, Vec<&Job>) = all
        .iter()
        .partition(|job| job.metadata.uid == bystander.metadata.uid);
    assert_eq!(own.len(), 1, "a Job of someone else's is not touched");
    assert_eq!(others.len(), 4, "two for each node");
    for job in others {
        let name = job.name_any();
        assert!(name.starts_with("example-"), "{name}");
        assert_eq!(job.namespace().as_deref(), Some(NAMESPACE));
        let container = job
            .spec
            .clone()
            .unwrap()
            .template
            .spec
            .unwrap()
            .containers
            .remove(0);
        assert_eq!(container.command.unwrap(), ["sleep"]);
        assert_eq!(container.args.unwrap(), ["30"]);
    }
    stage.strike().await
}
