//! The rules that ship, as teams get them: built, pushed to a registry of the test's own by `numo plugin push`, and
//! named by digest in the examples' manifests.

use crate::process::binary;
use anyhow::{Context, Result, ensure};
pub use numo_plugin_tests::guest::components;
use numo_plugin_tests::registry::{Kind, PASSWORD, Running, USER};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};
use tokio::process::Command;

/// What stands in the examples before the name of a rule.
const PLACE: &str = "registry.example.com/numo/rules/";
/// The pull secret.
const SECRET: &str = "rules-registry";

/// A registry with some of the rules.
#[derive(Debug)]
pub struct Rules {
    registry: Running,
    /// Name → by digest.
    images: BTreeMap<String, String>,
}

impl Rules {
    /// Starts a registry and pushes these rules to it.
    pub async fn publish(names: &[&str]) -> Result<Self> {
        let components = components(names).await?;
        let registry =
            tokio::task::spawn_blocking(|| Running::start_with(Kind::GoContainerRegistry, false)).await??;
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("config.json");
        std::fs::write(&config, credentials(&registry.address))?;
        let mut images = BTreeMap::new();
        for name in names {
            let file = components.join(format!("{name}.wasm"));
            let image = push(&file, &registry.at(&format!("rules/{name}:0.1.0")), &config).await?;
            images.insert((*name).to_owned(), image);
        }
        Ok(Self { registry, images })
    }

    /// Lets the manifests of the examples name what was pushed. What was not pushed stays.
    pub fn point(&self, objects: &mut [Value]) {
        for object in objects {
            let Some(wasm) = object.pointer_mut("/spec/wasm") else {
                continue;
            };
            let name = wasm["image"].as_str().and_then(|image| image.strip_prefix(PLACE));
            let name = name.and_then(|rest| rest.split(':').next());
            if let Some(image) = name.and_then(|name| self.images.get(name)) {
                wasm["image"] = json!(image);
                wasm["pullSecretName"] = json!(SECRET);
            }
        }
    }

    /// The pull secret, and the right to read it that invites numo.
    pub fn pull_secret(&self) -> Vec<Value> {
        let role = "rules-registry";
        vec![
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET},
                "type": "kubernetes.io/dockerconfigjson",
                "stringData": {".dockerconfigjson": credentials(&self.registry.address)},
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": role},
                "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get"]}],
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": "numo", "namespace": crate::NAMESPACE}],
            }),
        ]
    }
}

fn credentials(address: &str) -> String {
    json!({"auths": {address: {"username": USER, "password": PASSWORD}}}).to_string()
}

async fn push(file: &Path, image: &str, config: &Path) -> Result<String> {
    let output = Command::new(binary()?)
        .args(["plugin", "push"])
        .arg(file)
        .args([image, "--registry-config"])
        .arg(config)
        .output()
        .await
        .context("numo plugin push")?;
    ensure!(
        output.status.success(),
        "numo plugin push {}: {}",
        file.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
