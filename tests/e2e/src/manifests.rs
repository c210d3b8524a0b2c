//! Manifests from the repository: read, and applied by server-side apply, as `kubectl apply` would.

use anyhow::{Context, Result};
use kube::{
    Api, Client, Discovery,
    api::{Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind, Request},
    discovery::Scope,
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
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
    let mut discovery: Option<Discovery> = None;
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let types = object.types.clone().context("apiVersion and kind")?;
        let gvk = GroupVersionKind::try_from(&types)?;
        let known = discovery
            .as_ref()
            .and_then(|discovery| discovery.resolve_gvk(&gvk));
        let (resource, capabilities) = match known {
            Some(known) => known,
            // The kind may have been defined a moment ago.
            None => resolve(client, &gvk, &mut discovery).await?,
        };
        let name = object.metadata.name.clone().context("metadata.name")?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => {
                let own = object.metadata.namespace.clone();
                Api::namespaced_with(client.clone(), own.as_deref().unwrap_or(namespace), &resource)
            }
        };
        let request = Request::new(api.resource_url()).patch(&name, params, &Patch::Apply(&object));
        let request = request?.map(|body| plain(&body));
        let written = client.request::<DynamicObject>(request).await;
        written.with_context(|| format!("{} {name}", types.kind))?;
    }
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

async fn resolve(
    client: &Client,
    gvk: &GroupVersionKind,
    discovery: &mut Option<Discovery>,
) -> Result<(kube::discovery::ApiResource, kube::discovery::ApiCapabilities)> {
    let mut last = None;
    for _ in 0..100 {
        match Discovery::new(client.clone()).run().await {
            Ok(found) => {
                let known = found.resolve_gvk(gvk);
                *discovery = Some(found);
                if let Some(known) = known {
                    return Ok(known);
                }
            }
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    anyhow::bail!("the API server does not serve {gvk:?}: {last:?}")
}
