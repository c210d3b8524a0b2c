//! Control planes as tests find them: what is installed in each.

use crate::{
    machines::Machines,
    manifests,
    stage::{LEASES, NAMESPACE, has_leases},
    unvalidated,
};
use anyhow::{Context, Result, bail};
use kube::{Api, Client, api::ListParams};
use numo_api::{MutexRunConfig, NodeChange};
use numo_cluster::{Cluster, User};
use numo_world::World;
use serde_json::Value;
use std::time::Duration;

/// A control plane with OpenShift's kinds and numo.
pub(crate) async fn with_numo() -> Result<Cluster> {
    Cluster::prepared("numo", prepare).await
}

/// The same where the API server takes what numo's definitions refuse.
pub(crate) async fn with_slips() -> Result<Cluster> {
    let prepare = async |cluster: &Cluster| {
        prepare(cluster).await?;
        unvalidated::strip(&cluster.client(User::Admin).await?).await
    };
    Cluster::prepared("slips", prepare).await
}

/// The same with the component for NodeVersions.
pub(crate) async fn with_machines() -> Result<Cluster> {
    let prepare = async |cluster: &Cluster| {
        prepare(cluster).await?;
        Machines::of(cluster.client(User::Admin).await?)
            .install_kinds()
            .await
    };
    Cluster::prepared("machines", prepare).await
}

/// A control plane with OpenShift's kinds and without numo.
pub async fn with_kinds() -> Result<Cluster> {
    let install = async |cluster: &Cluster| World::install_kinds(&cluster.client(User::World).await?).await;
    Cluster::prepared("kinds", install).await
}

/// Installs OpenShift's kinds and numo.
pub(crate) async fn prepare(cluster: &Cluster) -> Result<()> {
    let world = cluster.client(User::World).await?;
    let admin = cluster.client(User::Admin).await?;
    futures::try_join!(World::install_kinds(&world), install(&admin))?;
    Ok(())
}

/// Installs numo's base and node leases, but for the Deployment: numo runs as a process.
pub async fn install(client: &Client) -> Result<()> {
    let objects = manifests::numo()?;
    let (first, rest): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .filter(|object| !matches!(object["kind"].as_str(), Some("Deployment" | "Service")))
        .filter(|object| has_leases() || !is_of_leases(object))
        .partition(|object| {
            matches!(
                object["kind"].as_str(),
                Some("Namespace" | "CustomResourceDefinition")
            )
        });
    manifests::apply(client, &first, NAMESPACE).await?;
    manifests::apply(client, &rest, NAMESPACE).await?;
    served(client).await.context("numo's kinds")
}

/// The namespace of node leases, and what is in it.
fn is_of_leases(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["namespace"] == LEASES || (object["kind"] == "Namespace" && metadata["name"] == LEASES)
}

/// Waits until the API server serves our kinds.
async fn served(client: &Client) -> Result<()> {
    for _ in 0..200 {
        let runs = Api::<MutexRunConfig>::all(client.clone())
            .list(&ListParams::default())
            .await;
        let changes = Api::<NodeChange>::all(client.clone())
            .list(&ListParams::default())
            .await;
        if runs.is_ok() && changes.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("not served within 10 s")
}
