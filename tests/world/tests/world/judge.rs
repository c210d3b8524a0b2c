//! The judge.

use anyhow::Result;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::Client;
use kube::api::PostParams;
use numo_cluster::User;
use numo_world::{Judgement, World};
use serde_json::json;

use super::{NEW, SOON, pause, release, start, stop, workers};

#[tokio::test(flavor = "multi_thread")]
async fn the_judge_notices_a_pool_that_is_opened_too_early() -> Result<()> {
    let (cluster, world) = start(workers(2)).await?;
    let client = cluster.client(User::Person).await?;
    pause(&client, "worker", true).await?;
    world.upgrade_to(NEW).await?;
    world
        .until("control plane completes", SOON, |w| w.is_completed(NEW))
        .await?;
    let rules = Judgement {
        pre_rules: vec!["quiesce".into()],
        held: vec!["worker".into()],
        restored: false,
        ..Judgement::default()
    };
    assert_eq!(world.judge(&rules).await?, []);

    pause(&client, "worker", false).await?;
    world
        .until("workers are updated", SOON, |w| w.is_updated("worker", NEW))
        .await?;
    let breaches = world.judge(&rules).await?;
    for (invariant, subject) in [
        ("J1", "worker-0"),
        ("J1", "worker-1"),
        ("J6", "worker"),
        ("J3", "worker-0"),
    ] {
        let is = breaches
            .iter()
            .any(|b| b.invariant == invariant && b.subject == subject);
        assert!(is, "{invariant} {subject} not in {breaches:#?}");
    }
    stop(cluster, world).await;
    Ok(())
}

/// Runs a rule's Job to its end, as an operator that gates nodes does.
async fn run_rule(client: &Client, world: &World, node: &str, rule: &str, phase: &str) -> Result<()> {
    let name = format!("{node}-{rule}-{}", phase.to_lowercase());
    let job = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "numo.openshift-optional.skrzypek.io/phase": phase } },
        "spec": { "template": {
            "metadata": { "labels": { "numo.openshift-optional.skrzypek.io/phase": phase } },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "rule", "image": "any", "command": ["sh", "-c", "test -n \"$NODE_NAME\""],
                    "env": [{ "name": "NODE_NAME", "value": node }, { "name": "MUTEX_RULE", "value": rule }],
                }],
            },
        }},
    }))?;
    Api::<Job>::namespaced(client.clone(), "default")
        .create(&PostParams::default(), &job)
        .await?;
    let key = format!("default/{name}");
    world
        .until("the rule passes", SOON, |w| {
            w.state().jobs.get(&key).is_some_and(|j| j.complete)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_judge_finds_nothing_wrong_with_a_careful_operator() -> Result<()> {
    let (cluster, world) = start(workers(3)).await?;
    let client = cluster.client(User::Admin).await?;
    pause(&client, "worker", true).await?;
    world.upgrade_to(NEW).await?;
    world
        .until("control plane completes", SOON, |w| w.is_completed(NEW))
        .await?;
    for node in ["worker-0", "worker-1", "worker-2"] {
        run_rule(&client, &world, node, "quiesce", "Pre").await?;
        release(&client, &world, node, "worker").await?;
        let back = |w: &World| {
            let n = &w.state().nodes[node];
            w.version_of(node) == NEW && n.state == "Done" && n.ready && !n.unschedulable
        };
        world.until("it is back", SOON, back).await?;
        run_rule(&client, &world, node, "greet", "Post").await?;
    }
    pause(&client, "worker", false).await?;
    world
        .until("workers are updated", SOON, |w| w.is_updated("worker", NEW))
        .await?;

    let expected = Judgement {
        pre_rules: vec!["quiesce".into()],
        post_rules: vec!["greet".into()],
        at_version: Some(NEW.into()),
        ..Judgement::default()
    };
    assert_eq!(world.judge(&expected).await?, []);
    let stricter = Judgement {
        pre_rules: vec!["quiesce".into(), "other".into()],
        max_in_flight: 0,
        ..expected
    };
    let breaches = world.judge(&stricter).await?;
    let kinds: std::collections::BTreeSet<_> = breaches.iter().map(|b| b.invariant).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["J1", "J2", "J3"]);
    stop(cluster, world).await;
    Ok(())
}
