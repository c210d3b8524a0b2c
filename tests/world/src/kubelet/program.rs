//! Containers of an image whose program is at hand: the real one, with the rights of their pod's ServiceAccount.
//!
//! May not run with any other rights: a Plan whose ServiceAccount may not drain must fail here too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, ServiceAccount};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::context::Context;
use crate::spec::Program;

/// All addresses of pods; they are made this machine's own where a program listens on one.
const PODS: &str = "10.128.0.0/14";
/// How often a readiness probe asks, whatever its period: time goes faster here.
const PROBE_PERIOD: Duration = Duration::from_millis(200);

/// The program of a container's image: the last word of the image's name says which.
pub(super) fn of<'c>(ctx: &'c Context, container: &Container) -> Option<&'c Program> {
    let image = container.image.as_deref().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let name = last.split([':', '@']).next().unwrap_or_default();
    ctx.spec.programs.get(name)
}

/// How a container is started.
#[derive(Debug)]
pub(super) struct Start {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Its environment.
    pub env: Vec<(String, String)>,
}

/// What starts the container; its kubeconfig and its volumes are put into the folder.
pub(super) async fn start(
    ctx: &Context,
    program: &Program,
    pod: &Pod,
    container: &Container,
    address: &str,
    folder: &Path,
) -> Result<Start> {
    let mut env = super::env::resolve(pod, container);
    for (name, value) in configured(ctx, pod, container).await? {
        env.retain(|(known, _)| *known != name);
        env.push((name, value));
    }
    let mut args = super::env::arguments(container, &env);
    if program.is_any_command {
        args = super::env::argv(container, &env).into_iter().skip(1).collect();
    }
    // There is no root file system of its own: a volume's path is replaced wherever it is named.
    for mount in container.volume_mounts.iter().flatten() {
        let volume = folder.join(format!("volume-{}", mount.name));
        std::fs::create_dir_all(&volume)?;
        let replace = |text: &mut String| *text = text.replace(&mount.mount_path, &volume.to_string_lossy());
        args.iter_mut().for_each(replace);
        // An image's name may have the path in its middle.
        let paths = env.iter_mut().map(|(_, value)| value);
        paths
            .filter(|value| value.starts_with(&mount.mount_path))
            .for_each(replace);
    }
    if !program.listens.is_empty() {
        own_addresses().await?;
    }
    for (name, port) in &program.listens {
        env.retain(|(known, _)| known != name);
        env.push((name.clone(), format!("{address}:{port}")));
    }
    let kubeconfig = kubeconfig(ctx, program, pod, folder).await?;
    env.push(("KUBECONFIG".to_owned(), kubeconfig.display().to_string()));
    let mut words = program.command.clone();
    words.extend(args);
    Ok(Start { words, env })
}

/// Variables whose values are in ConfigMaps.
async fn configured(ctx: &Context, pod: &Pod, container: &Container) -> Result<Vec<(String, String)>> {
    let maps: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), &pod.namespace().unwrap_or_default());
    let mut found = Vec::new();
    for variable in container.env.iter().flatten() {
        let source = variable.value_from.as_ref();
        let Some(source) = source.and_then(|source| source.config_map_key_ref.as_ref()) else {
            continue;
        };
        let map = maps.get(&source.name).await?;
        let value = map.data.unwrap_or_default().remove(&source.key);
        let value = value.with_context(|| format!("ConfigMap {} has no {}", source.name, source.key))?;
        found.push((variable.name.clone(), value));
    }
    Ok(found)
}

/// A kubeconfig with a token of the pod's ServiceAccount.
async fn kubeconfig(ctx: &Context, program: &Program, pod: &Pod, folder: &Path) -> Result<PathBuf> {
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
    let text = std::fs::read_to_string(&program.kubeconfig)?;
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
    Ok(path)
}

/// Makes the pods' addresses local, for this machine alone. Once: several worlds may share them, as their pods' addresses
/// differ.
async fn own_addresses() -> Result<()> {
    static DONE: OnceCell<()> = OnceCell::const_new();
    let add = || async {
        let words = ["route", "replace", "local", PODS, "dev", "lo"];
        let said = Command::new("ip").args(words).output().await.context("ip")?;
        let why = String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success(), "ip {}: {why}", words.join(" "));
        Ok(())
    };
    DONE.get_or_try_init(add).await.copied()
}

/// Whether the container has a readiness probe that is asked.
pub(super) fn is_probed(container: &Container) -> bool {
    let probe = container.readiness_probe.as_ref();
    probe.is_some_and(|probe| probe.http_get.is_some())
}

/// Waits until the container's readiness probe succeeds, for ever without one. Only `httpGet` is asked.
pub(super) async fn until_ready(container: &Container, address: &str) {
    let probe = container.readiness_probe.as_ref();
    let Some(get) = probe.and_then(|probe| probe.http_get.as_ref()) else {
        return std::future::pending().await;
    };
    let named = |name: &str| {
        let mut ports = container.ports.iter().flatten();
        ports
            .find(|port| port.name.as_deref() == Some(name))
            .map(|port| port.container_port)
    };
    let port = match &get.port {
        IntOrString::Int(port) => Some(*port),
        IntOrString::String(name) => named(name),
    };
    let path = get.path.as_deref().unwrap_or("/");
    while probe_once(address, port.unwrap_or_default(), path).await.is_err() {
        tokio::time::sleep(PROBE_PERIOD).await;
    }
}

async fn probe_once(address: &str, port: i32, path: &str) -> Result<()> {
    let mut stream = tokio::net::TcpStream::connect(format!("{address}:{port}")).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split_whitespace().nth(1).unwrap_or_default();
    if !status.starts_with(['2', '3']) {
        bail!("{path}: {status}");
    }
    Ok(())
}
