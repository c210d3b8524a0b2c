//! An owner that is deleted in the foreground, as Argo CD does by default: the garbage collector deletes what has an owner reference to it before the
//! owner itself, which numo's finalizer keeps. Journals have none, and numo deletes them once their owner is gone.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use numo_api::{NodeChange, Step, marks};
use numo_e2e::{NAMESPACE, Stage, machines::Machines};
use serde_json::json;

use crate::{
    gone,
    replace::{VERSION, begin_one},
};

async fn journals(stage: &Stage) -> Result<Vec<NodeChange>> {
    let api: Api<NodeChange> = Api::namespaced(stage.client.clone(), NAMESPACE);
    Ok(api.list(&ListParams::default()).await?.items)
}

/// Waits until the machine of the old node is being deleted.
async fn released(stage: &Stage, machines: &Machines) -> Result<()> {
    stage
        .until("the machine of the old node is let go", 300, || async {
            let step = |change: &NodeChange| change.status.as_ref().and_then(|status| status.step);
            let all = journals(stage).await?;
            if all.iter().any(|change| step(change) == Some(Step::Released)) {
                return Ok(Some(()));
            }
            machines.play().await?;
            Ok(None)
        })
        .await
}

#[tokio::test]
async fn a_nodeversion_that_is_deleted_in_the_foreground_keeps_its_journals_to_its_end() -> Result<()> {
    let (stage, machines) = begin_one(json!({"image": "img2"})).await?;
    released(&stage, &machines).await?;
    let versions = machines.api("NodeVersion", "nodeversions");
    versions.delete(VERSION, &DeleteParams::foreground()).await?;
    stage
        .until("the garbage collector has done its part", 180, || async {
            machines.beat("old-0").await?;
            let found = versions.get(VERSION).await?;
            ensure!(found.metadata.deletion_timestamp.is_some(), "it is being deleted");
            Ok((found.finalizers() == [marks::FINALIZER]).then_some(()))
        })
        .await?;
    assert_eq!(journals(&stage).await?.len(), 1, "the journal is there");
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let old = nodes.get("old-0").await?.spec.context("a spec")?;
    assert_eq!(old.unschedulable, Some(true), "it stays closed");
    let is_gone = stage
        .until("the machine goes, and the NodeVersion after it", 300, || async {
            machines.play().await?;
            Ok(versions.get_opt(VERSION).await?.is_none().then_some(()))
        })
        .await;
    is_gone.with_context(|| "the NodeVersion is not gone")?;
    gone(&stage, &nodes, "old-0").await?;
    stage
        .until(
            "numo deletes the journals of an owner that is gone",
            120,
            || async { Ok(journals(&stage).await?.is_empty().then_some(())) },
        )
        .await?;
    assert_eq!(machines.made().await?.len(), 1, "no machine is left over");
    stage.strike().await
}
