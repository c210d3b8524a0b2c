//! Manifests from the repository: read, and applied by server-side apply, as `kubectl apply` would.

use anyhow::{Context, Result, ensure};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind, Request},
    discovery::{ApiCapabilities, ApiResource, Scope},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

/// Root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All documents of a YAML text that are not empty.
pub fn parse(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// All objects of one folder of kustomize bases, in the order its kustomization lists them.
pub fn kustomize(folder: &Path) -> Result<Vec<Value>> {
    let path = folder.join("kustomization.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut objects = Vec::new();
    for document in parse(&text)? {
        for resource in document["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            let resource = folder.join(resource);
            if resource.is_dir() {
                objects.extend(kustomize(&resource)?);
            } else {
                let text =
                    std::fs::read_to_string(&resource).with_context(|| resource.display().to_string())?;
                objects.extend(parse(&text).with_context(|| resource.display().to_string())?);
            }
        }
    }
    Ok(objects)
}

/// numo's base, and its node leases: what is installed where numo runs as a process of a test.
pub fn numo() -> Result<Vec<Value>> {
    let folder = root().join("deploy/kustomize");
    let mut objects = kustomize(&folder)?;
    objects.extend(kustomize(&folder.join("leases"))?);
    Ok(objects)
}

/// Applies objects; those without a namespace of their own go to `namespace`.
pub async fn apply(client: &Client, objects: &[Value], namespace: &str) -> Result<()> {
    let params = PatchParams::apply("kubectl").force();
    apply_by(client, objects, namespace, &params).await
}

/// The same, but a field that the kind does not have is an error, as `kubectl apply` has it.
pub async fn apply_strictly(client: &Client, objects: &[Value], namespace: &str) -> Result<()> {
    let params = PatchParams::apply("kubectl").force().validation_strict();
    apply_by(client, objects, namespace, &params).await
}

async fn apply_by(client: &Client, objects: &[Value], namespace: &str, params: &PatchParams) -> Result<()> {
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let types = object.types.clone().context("apiVersion and kind")?;
        let gvk = GroupVersionKind::try_from(&types)?;
        ensure!(
            object.metadata.name.is_some(),
            "a {} has no metadata.name",
            types.kind
        );
        let known = known().get(&gvk).cloned();
        let is_known = known.is_some();
        let kind = match known {
            Some(kind) => kind,
            None => resolve(client, &gvk).await?,
        };
        let mut written = apply_one(client, &object, &kind, namespace, params).await;
        if is_known && matches!(&written, Err(kube::Error::Api(status)) if status.code == 404) {
            // Another control plane served it; here the kind may have been defined a moment ago.
            let kind = resolve(client, &gvk).await?;
            written = apply_one(client, &object, &kind, namespace, params).await;
        }
        let name = object.metadata.name.as_deref().unwrap_or_default();
        written.with_context(|| format!("{} {name}", types.kind))?;
    }
    Ok(())
}

async fn apply_one(
    client: &Client,
    object: &DynamicObject,
    (resource, capabilities): &Served,
    namespace: &str,
    params: &PatchParams,
) -> Result<(), kube::Error> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), resource),
        Scope::Namespaced => {
            let own = object.metadata.namespace.as_deref();
            Api::namespaced_with(client.clone(), own.unwrap_or(namespace), resource)
        }
    };
    let request = Request::new(api.resource_url()).patch(name, params, &Patch::Apply(object));
    let request = request.map_err(kube::Error::BuildRequest)?;
    let request = request.map(|body| plain(&body));
    client.request::<DynamicObject>(request).await?;
    Ok(())
}

/// A body of JSON in letters that YAML takes: what is applied is read as YAML, which has no control characters as they are.
fn plain(body: &[u8]) -> Vec<u8> {
    let mut plain = String::with_capacity(body.len());
    for letter in String::from_utf8_lossy(body).chars() {
        match u32::from(letter) {
            0x20..0x7f => plain.push(letter),
            code @ 0x1_0000.. => drop(write!(plain, "\\U{code:08x}")),
            code => drop(write!(plain, "\\u{code:04x}")),
        }
    }
    plain.into_bytes()
}

/// How a kind is served.
type Served = (ApiResource, ApiCapabilities);

/// The kinds that any control plane of this process was found to serve. They are the same in all of them, and asking takes longer than
/// applying.
static KNOWN: LazyLock<Mutex<HashMap<GroupVersionKind, Served>>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, HashMap<GroupVersionKind, Served>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the kind is served.
async fn resolve(client: &Client, gvk: &GroupVersionKind) -> Result<Served> {
    let mut last = None;
    for _ in 0..100 {
        match kube::discovery::pinned_kind(client, gvk).await {
            Ok(found) => {
                known().insert(gvk.clone(), found.clone());
                return Ok(found);
            }
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    anyhow::bail!("the API server does not serve {gvk:?}: {last:?}")
}
