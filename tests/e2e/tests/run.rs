//! A run on the paths where nothing goes wrong.

use anyhow::Result;
use numo_e2e::{Stage, StageOptions};
use numo_world::{Judgement, PoolSpec, WorldSpec};

const QUICK: &str = include_str!("../manifests/quick.yaml");

fn run(spec: &str) -> String {
    format!(
        "apiVersion: openshift-optional.skrzypek.io/v1alpha1\nkind: MutexRunConfig\nmetadata:\n  name: upgrade\nspec:\n  mutexRules: [{{name: quick}}]\n  mutexTargets: [{{name: workers}}]\n{spec}"
    )
}

fn expected() -> Judgement {
    Judgement {
        pre_rules: vec!["quick".to_owned()],
        post_rules: vec!["quick".to_owned()],
        at_version: Some("4.17.0".to_owned()),
        ..Judgement::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn desired_config_upgrades_every_node_between_its_rules() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 3)],
        ..WorldSpec::default()
    };
    let stage = Stage::set(StageOptions {
        world,
        ..StageOptions::default()
    })
    .await?;
    stage.apply(QUICK).await?;
    stage.apply(&run("")).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to("4.17.0").await?;
    stage.upgraded("worker", "4.17.0").await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    stage.judge(&expected()).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn canary_pool_upgrades_every_node_between_its_rules() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 3)],
        canary: true,
        ..WorldSpec::default()
    };
    let stage = Stage::set(StageOptions {
        world,
        ..StageOptions::default()
    })
    .await?;
    stage.apply(QUICK).await?;
    stage.apply(&run("  canary: {name: canary}\n")).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to("4.17.0").await?;
    stage.upgraded("worker", "4.17.0").await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    stage.judge(&expected()).await?;
    stage.strike().await
}
