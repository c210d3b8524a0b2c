//! Which nodes a run upgrades: pools that it names itself, and targets with limits of their own.

use anyhow::Result;
use numo_world::{PoolSpec, WorldSpec};
use serde_json::json;

use crate::{
    Gate, NEW, apply, explained, finish, job, judgement, mark, pool, preview::preview, quick, released, rule,
    rule_began, run_of, seen, set, target, waits, workers,
};
use numo_api::marks;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_names_its_pools_needs_no_target() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let mut run = run_of(&["quick"], json!({"pools": ["wroker"]}));
    run["spec"]
        .as_object_mut()
        .map(|spec| spec.remove("mutexTargets"));
    apply(&stage, &[quick(), run]).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "PoolNotFound")
        .await?;
    assert!(
        why.contains("spec.pools[0]: there is no MachineConfigPool wroker"),
        "{why}"
    );
    let text = stage.say(&["explain", "mutexrunconfig/upgrade"]).await?;
    assert!(text.contains("spec.pools[0]"), "{text}");
    stage
        .patch_run("upgrade", json!({"spec": {"pools": ["worker"]}}))
        .await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    assert!(!pool(&stage, "worker").await?.spec.paused);
    assert_eq!(mark(&stage, "worker", marks::PAUSED_BY).await?, None);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_nodes_of_a_target_fly_as_it_allows_and_others_beside_them() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 2)],
        ..WorldSpec::default()
    };
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"cleanUpJobSpec": job(&gate.wait())}));
    let spec = json!({
        "maxUnavailable": 4,
        "mutexTargets": [{"name": "infras", "maxUnavailable": 1}, {"name": "workers", "maxUnavailable": "100%"}],
    });
    let objects = [
        gated,
        target("workers", &["worker"]),
        target("infras", &["infra"]),
        run_of(&["gated"], spec),
    ];
    apply(&stage, &objects).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    let (said, _) = preview(&stage, &["mutexrunconfig/upgrade", "--to-version", NEW]).await?;
    assert_eq!(
        said["waves"],
        json!([["infra-0", "worker-0", "worker-1"], ["infra-1"]]),
        "{said}"
    );
    stage.world.upgrade_to(NEW).await?;
    for node in ["infra-0", "worker-0", "worker-1"] {
        seen(&stage, "the rule after", |w| rule_began(w, "gated", node)).await?;
    }
    let words = "1 node of MutexTarget node-upgrade-mutex-operator/infras is in flight, and \
                 spec.mutexTargets[0].maxUnavailable allows 1: infra-0";
    let message = waits(&stage, "WaitingForTurn").await?;
    assert!(message.contains(words), "{message}");
    explained(&stage, "infra-1", words, 30).await?;
    let mut begun = released(&stage.world);
    begun.sort();
    assert_eq!(begun, ["infra-0", "worker-0", "worker-1"]);
    gate.open_for_all()?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    let mut expected = judgement(&[], &["gated"]);
    expected.max_in_flight = 3;
    expected.targets = vec!["infra".to_owned(), "worker".to_owned()];
    stage.judge(&expected).await?;
    stage.strike().await
}
