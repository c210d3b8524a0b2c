//! Machines and their health checks, of OpenShift (`machine.openshift.io`) or Cluster API (`cluster.x-k8s.io`).
//!
//! A Machine is there for each worker once it was asked for, and a health check deletes those whose node has been
//! not Ready for long. OpenShift's is held back by a pause only; Cluster API's also by an annotation on the Machine.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::openshift::CLUSTER_ADMIN;

/// Annotation on a MachineHealthCheck that does nothing while the key is there.
const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Annotation on a Machine that Cluster API's health checks leave alone.
const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
/// The health check that the world makes.
const CHECK: &str = "workers";

/// Whose Machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineApi {
    /// OpenShift's.
    OpenShift,
    /// Cluster API's.
    ClusterApi,
}

impl MachineApi {
    /// Namespace of its Machines.
    pub const fn namespace(self) -> &'static str {
        match self {
            Self::OpenShift => "openshift-machine-api",
            Self::ClusterApi => "openshift-cluster-api",
        }
    }

    /// The Machines.
    pub fn machines(self, client: Client) -> Api<DynamicObject> {
        self.api(client, "Machine", "machines")
    }

    /// The MachineHealthChecks.
    pub fn health_checks(self, client: Client) -> Api<DynamicObject> {
        self.api(client, "MachineHealthCheck", "machinehealthchecks")
    }

    fn api(self, client: Client, kind: &str, plural: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client, self.namespace(), &self.resource(kind, plural))
    }

    fn resource(self, kind: &str, plural: &str) -> ApiResource {
        let group = match self {
            Self::OpenShift => "machine.openshift.io",
            Self::ClusterApi => "cluster.x-k8s.io",
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1beta1", kind), plural)
    }
}

/// Makes a Machine for each of these nodes.
pub(crate) async fn machines_for(client: &Client, of: MachineApi, nodes: &[String]) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": of.namespace()}});
    Api::<Namespace>::all(client.clone())
        .patch(
            of.namespace(),
            &PatchParams::apply(CLUSTER_ADMIN).force(),
            &Patch::Apply(namespace),
        )
        .await
        .context("making the namespace of the Machines")?;
    for node in nodes {
        machine_for(client, of, node).await?;
    }
    Ok(())
}

async fn machine_for(client: &Client, of: MachineApi, node: &str) -> Result<()> {
    let machines = of.machines(client.clone());
    let machine = DynamicObject::new(node, &of.resource("Machine", "machines"));
    machines
        .create(&PostParams::default(), &machine)
        .await
        .with_context(|| format!("creating the Machine of {node}"))?;
    let status = json!({"status": {"nodeRef": {"kind": "Node", "name": node}}});
    machines
        .patch_status(node, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    // The Node names its Machine, as nodelink and Cluster API have it.
    let annotations = match of {
        MachineApi::OpenShift => {
            json!({"machine.openshift.io/machine": format!("{}/{node}", of.namespace())})
        }
        MachineApi::ClusterApi => json!({
            "cluster.x-k8s.io/machine": node, "cluster.x-k8s.io/cluster-namespace": of.namespace(),
        }),
    };
    let named = json!({"metadata": {"annotations": annotations}});
    Api::<Node>::all(client.clone())
        .patch(node, &PatchParams::default(), &Patch::Merge(named))
        .await?;
    Ok(())
}

/// Makes the health check of all Machines.
pub(crate) async fn health_check(client: &Client, of: MachineApi) -> Result<()> {
    let check = DynamicObject::new(CHECK, &of.resource("MachineHealthCheck", "machinehealthchecks"));
    of.health_checks(client.clone())
        .create(&PostParams::default(), &check)
        .await
        .context("creating a MachineHealthCheck")?;
    Ok(())
}

/// Whether the health check would delete the Machine of this node now.
pub(crate) async fn is_remediated(client: &Client, of: MachineApi, node: &str) -> Result<bool> {
    let check = of.health_checks(client.clone()).get(CHECK).await?;
    let machine = of.machines(client.clone()).get_opt(node).await?;
    let skips = |machine: &DynamicObject| {
        of == MachineApi::ClusterApi && machine.annotations().contains_key(SKIP_REMEDIATION)
    };
    Ok(!check.annotations().contains_key(PAUSED) && machine.is_some_and(|machine| !skips(&machine)))
}

/// The Machine goes, and another comes for the node that replaces its own.
pub(crate) async fn replace(client: &Client, of: MachineApi, node: &str) -> Result<()> {
    of.machines(client.clone())
        .delete(node, &DeleteParams::default())
        .await?;
    machine_for(client, of, node).await
}
