//! Containers of an image `kubectl`: the real one, with the rights of their pod's ServiceAccount.
//!
//! May not run with any other rights: a Plan whose ServiceAccount may not drain must fail here too.

use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Container, Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::context::Context;
use crate::spec::Kubectl;

/// Whether the image is one of kubectl.
pub(super) fn is_kubectl(container: &Container) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let name = last.split([':', '@']).next().unwrap_or_default();
    name == "kubectl"
}

/// The words of the command; its kubeconfig is put into the folder.
pub(super) async fn words(
    ctx: &Context,
    kubectl: &Kubectl,
    pod: &Pod,
    folder: &Path,
    args: Vec<String>,
) -> Result<Vec<String>> {
    let account = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.service_account_name.clone())
        .unwrap_or_else(|| "default".to_owned());
    let namespace = pod.namespace().unwrap_or_default();
    let accounts: Api<ServiceAccount> = Api::namespaced(ctx.client.clone(), &namespace);
    let answer = accounts
        .create_token_request(&account, &PostParams::default(), &TokenRequest::default())
        .await
        .with_context(|| format!("a token for ServiceAccount {namespace}/{account}"))?;
    let token = answer.status.context("the API server issued no token")?.token;
    let text = std::fs::read_to_string(&kubectl.kubeconfig)?;
    let given: serde_json::Value = serde_saphyr::from_str(&text)?;
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "world", "cluster": given["clusters"][0]["cluster"]}],
        "users": [{"name": "pod", "user": {"token": token}}],
        "contexts": [{"name": "pod", "context": {"cluster": "world", "user": "pod", "namespace": namespace}}],
        "current-context": "pod",
    });
    let path = folder.join("kubeconfig");
    std::fs::write(&path, config.to_string())?;
    let mut words = kubectl.command.clone();
    words.push(format!("--kubeconfig={}", path.display()));
    words.extend(args);
    Ok(words)
}
