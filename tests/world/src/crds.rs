//! Installs the OpenShift kinds.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::{Condition as _, await_condition, conditions};
use kube::{Api, Client, ResourceExt};

/// How long the API server may take to serve a new kind.
const ESTABLISHED: Duration = Duration::from_secs(30);

const CRDS: [&str; 11] = [
    include_str!("../crds/machineconfigpools.yaml"),
    include_str!("../crds/machineconfigs.yaml"),
    include_str!("../crds/machineconfignodes.yaml"),
    include_str!("../crds/clusterversions.yaml"),
    include_str!("../crds/clusteroperators.yaml"),
    include_str!("../crds/infrastructures.yaml"),
    include_str!("../crds/machineosconfigs.yaml"),
    include_str!("../crds/openshift_machines.yaml"),
    include_str!("../crds/openshift_machinehealthchecks.yaml"),
    include_str!("../crds/cluster_api_machines.yaml"),
    include_str!("../crds/cluster_api_machinehealthchecks.yaml"),
];

/// Applies all of them and waits until they are served.
pub(crate) async fn install(client: &Client) -> Result<()> {
    try_join_all(CRDS.map(|yaml| install_one(client, yaml))).await?;
    Ok(())
}

async fn install_one(client: &Client, yaml: &str) -> Result<()> {
    let crd: CustomResourceDefinition = serde_saphyr::from_str(yaml).context("reading a CRD of the world")?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.name_any();
    // A control plane that served another test has it, and to apply it again costs the API server more than most of a test.
    let found = api.get_opt(&name).await?;
    if found.is_some_and(|found| conditions::is_crd_established().matches_object(Some(&found))) {
        return Ok(());
    }
    api.patch(&name, &PatchParams::apply("world").force(), &Patch::Apply(&crd))
        .await
        .with_context(|| format!("applying CRD {name}"))?;
    tokio::time::timeout(
        ESTABLISHED,
        await_condition(api, &name, conditions::is_crd_established()),
    )
    .await
    .with_context(|| format!("CRD {name} is not established"))??;
    Ok(())
}
