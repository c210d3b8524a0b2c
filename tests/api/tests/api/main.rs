//! The CRDs: what the files hold, and what a real API server makes of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(
    clippy::missing_panics_doc,
    clippy::type_complexity,
    reason = "tests panic by design"
)]

mod admission;
mod files;
mod installed;
mod refused;
mod stored;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use numo_api::machines::{UPDATE_GROUP, UPDATE_VERSION};
use numo_cluster::{Cluster, Options, User};
use serde_json::{Value, json};

/// The namespace that the page's manifests name.
pub const NAMESPACE: &str = "node-upgrade-mutex-operator";

/// Root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the repository.
pub fn read(path: &str) -> Result<String> {
    let path = root().join(path);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// All documents of a YAML text that are not empty.
pub fn parse(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// A control plane with `deploy/crds`, OpenShift's pools and the page's namespace; it may have served other tests, and is as it was
/// before them. One of another version than the tests' own is started for the test.
pub async fn start(emulated_version: Option<&str>) -> Result<(Cluster, Client)> {
    let cluster = match emulated_version {
        None => Cluster::prepared("deploy/crds", prepare).await?,
        Some(version) => {
            let emulated_version = Some(version.to_owned());
            let cluster = Cluster::start(Options {
                emulated_version,
                ..Options::default()
            })
            .await?;
            prepare(&cluster).await?;
            cluster
        }
    };
    let client = cluster.client(User::Person).await?;
    Ok((cluster, client))
}

async fn prepare(cluster: &Cluster) -> Result<()> {
    let client = cluster.client(User::Person).await?;
    let mut crds = parse(&read("tests/world/crds/machineconfigpools.yaml")?)?;
    for resource in parse(&read("deploy/crds/kustomization.yaml")?)?[0]["resources"]
        .as_array()
        .unwrap()
    {
        crds.extend(parse(&read(&format!(
            "deploy/crds/{}",
            resource.as_str().unwrap()
        ))?)?);
    }
    define(&client, &crds).await?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let params = PatchParams::apply("kubectl");
    namespaces
        .patch(NAMESPACE, &params, &Patch::Apply(&namespace))
        .await?;
    Ok(())
}

/// Adds the definitions of machines that are replaced, which an administrator asks for.
pub async fn define_machines(client: &Client) -> Result<()> {
    const FOLDER: &str = "deploy/kustomize/components/node-version";
    let mut crds = Vec::new();
    for crd in numo_api::crds::machines() {
        let file = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        crds.extend(parse(&read(&format!("{FOLDER}/{file}"))?)?);
    }
    define(client, &crds).await
}

/// Applies definitions, and waits until they are served.
async fn define(client: &Client, crds: &[Value]) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds {
        let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
        api.patch(&name, &PatchParams::apply("kubectl"), &Patch::Apply(crd))
            .await
            .with_context(|| name.clone())?;
        established(&api, &name).await?;
    }
    Ok(())
}

/// Waits until a definition is served; one that the API server finds fault with is an error.
pub async fn established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let crd = api.get(name).await?;
        let status = crd.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        if let Some(bad) = conditions
            .iter()
            .find(|c| c.type_ == "NonStructuralSchema" && c.status == "True")
        {
            bail!("{name}: {:?}", bad.message);
        }
        if conditions
            .iter()
            .any(|c| c.type_ == "Established" && c.status == "True")
        {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("{name} is not Established: {conditions:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The API of one of the kinds, by name.
pub fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let (group, version, plural) = match kind {
        "MachineConfigPool" => ("machineconfiguration.openshift.io", "v1", "machineconfigpools"),
        "MutexRule" => (numo_api::GROUP, numo_api::VERSION, "mutexrules"),
        "MutexTarget" => (numo_api::GROUP, numo_api::VERSION, "mutextargets"),
        "MutexRunConfig" => (numo_api::GROUP, numo_api::VERSION, "mutexrunconfigs"),
        "NodeChange" => (numo_api::NUMO_GROUP, numo_api::VERSION, "nodechanges"),
        "MutexBudget" => (numo_api::NUMO_GROUP, numo_api::VERSION, "mutexbudgets"),
        "MutexWindow" => (numo_api::NUMO_GROUP, numo_api::VERSION, "mutexwindows"),
        "MutexApproval" => (numo_api::NUMO_GROUP, numo_api::VERSION, "mutexapprovals"),
        "MutexBinding" => (numo_api::NUMO_GROUP, numo_api::VERSION, "mutexbindings"),
        "MutexNotifier" => (numo_api::NUMO_GROUP, numo_api::VERSION, "mutexnotifiers"),
        "NodeMaintenance" => ("nodemaintenance.medik8s.io", "v1beta1", "nodemaintenances"),
        "Plan" => ("upgrade.cattle.io", "v1", "plans"),
        "NodeVersion" => (UPDATE_GROUP, UPDATE_VERSION, "nodeversions"),
        other => panic!("what is a {other}?"),
    };
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    match kind {
        "MachineConfigPool" | "MutexBudget" | "MutexWindow" | "MutexBinding" | "MutexNotifier"
        | "MutexApproval" | "NodeMaintenance" | "NodeVersion" => Api::all_with(client.clone(), &resource),
        _ => Api::namespaced_with(client.clone(), NAMESPACE, &resource),
    }
}

/// Applies an object as `kubectl apply --server-side` does: fields that the schema does not know are an error.
pub async fn apply(client: &Client, object: &Value) -> kube::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    let kind = object.types.clone().unwrap_or_default().kind;
    let mut params = PatchParams::apply("kubectl").force();
    params.field_validation = Some(kube::api::ValidationDirective::Strict);
    api(client, &kind)
        .patch(&object.name_any(), &params, &Patch::Apply(&object))
        .await
}

/// The page's manifests, byte for byte, in the order of the page.
pub fn page() -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in ["canary", "rule", "target", "runconfig"] {
        let documents = parse(&read(&format!("tests/e2e/manifests/page/{file}.yaml"))?)?;
        assert_eq!(documents.len(), 1, "{file}");
        objects.extend(documents);
    }
    Ok(objects)
}
