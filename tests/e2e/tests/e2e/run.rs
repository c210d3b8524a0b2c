//! A run on the paths where nothing goes wrong.

use anyhow::Result;
use serde_json::json;

use crate::{NEW, finish, judgement, prepare, quick, set, with_canary, workers};

#[tokio::test(flavor = "multi_thread")]
async fn desired_config_upgrades_every_node_between_its_rules() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn canary_pool_upgrades_every_node_between_its_rules() -> Result<()> {
    let stage = set(with_canary(workers(3)), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({"canary": {"name": "canary"}})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}
