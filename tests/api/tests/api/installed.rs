//! On a real API server: installed, and the page's manifests accepted.

use anyhow::{Context, Result};
use http::Request;
use kube::{
    Client,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::{NAMESPACE, api, apply, page, start};

/// Installs the CRDs (they must become Established) and applies the page's manifests.
async fn takes_the_page(emulated_version: Option<&str>) -> Result<()> {
    let (cluster, client) = start(emulated_version).await?;
    if let Some(emulated) = emulated_version {
        let text = client
            .request_text(Request::get("/version").body(Vec::new())?)
            .await?;
        let version: Value = serde_json::from_str(&text)?;
        let minor = emulated.split('.').nth(1).unwrap_or_default();
        assert_eq!(
            version["emulationMinor"], minor,
            "the API server emulates what it was told to"
        );
    }
    for object in page()? {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let stored = apply(&client, &object).await.with_context(|| kind.clone())?;
        let stored = serde_json::to_value(&stored)?;
        assert_eq!(stored["spec"], object["spec"], "{kind} is kept as given");
    }
    cluster.give_back().await;
    Ok(())
}

#[tokio::test]
async fn the_pages_manifests_are_accepted_and_kept_as_given() -> Result<()> {
    takes_the_page(None).await
}

#[tokio::test]
async fn crds_install_on_the_api_of_kubernetes_1_33() -> Result<()> {
    takes_the_page(Some("1.33")).await
}

#[tokio::test]
async fn crds_install_on_the_api_of_kubernetes_1_36() -> Result<()> {
    takes_the_page(Some("1.36")).await
}

/// The table `kubectl get` shows: column names and the cells of the first row.
async fn table(client: &Client, plural: &str) -> Result<(Vec<String>, Vec<Value>)> {
    let path = format!(
        "/apis/{}/{}/namespaces/{NAMESPACE}/{plural}",
        numo_api::GROUP,
        numo_api::VERSION
    );
    let request = Request::get(path)
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let answer: Value = serde_json::from_str(&client.request_text(request).await?)?;
    let columns = answer["columnDefinitions"].as_array().context("columns")?;
    let names = columns
        .iter()
        .map(|column| column["name"].as_str().unwrap_or_default().to_owned());
    let cells = answer["rows"][0]["cells"].as_array().context("a row")?;
    Ok((names.collect(), cells.clone()))
}

#[tokio::test]
async fn kubectl_get_shows_the_references_columns_and_who_was_left_out() -> Result<()> {
    let (cluster, client) = start(None).await?;
    for object in page()? {
        apply(&client, &object).await?;
    }
    let target = api(&client, "MutexTarget");
    let nodes = json!({"status": {"nodes": ["worker-0", "worker-1"]}});
    target
        .patch_status(
            "worker-example",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(nodes),
        )
        .await?;
    let left_out = json!({"status": {"rulesSummary": "k8s-example, other", "targetsSummary": "worker-example", "conditions": [{
        "type": "Incomplete", "status": "True", "reason": "NodesLeftOut", "message": "worker-1 was left out",
        "lastTransitionTime": "2026-01-01T00:00:00Z"
    }]}});
    let runs = api(&client, "MutexRunConfig");
    let listed = runs.list(&kube::api::ListParams::default()).await?;
    let run = listed.items.first().context("the page's run")?;
    runs.patch_status(
        &kube::ResourceExt::name_any(run),
        &kube::api::PatchParams::default(),
        &kube::api::Patch::Merge(left_out),
    )
    .await?;
    for (plural, expected) in [
        (
            "mutexrules",
            vec![
                ("Job Name", json!("example")),
                ("Job Namespace", json!("node-upgrade-mutex-operator")),
            ],
        ),
        (
            "mutextargets",
            vec![
                ("Machine Config Pools", json!("[\"worker\"]")),
                ("Nodes", json!("[\"worker-0\",\"worker-1\"]")),
            ],
        ),
        (
            "mutexrunconfigs",
            vec![
                ("Canary", json!("canary")),
                ("Rules", json!("k8s-example, other")),
                ("Targets", json!("worker-example")),
                ("Incomplete", json!("worker-1 was left out")),
            ],
        ),
    ] {
        let (names, cells) = table(&client, plural).await?;
        for (name, value) in expected {
            let index = names
                .iter()
                .position(|column| column == name)
                .with_context(|| format!("{plural} has no column {name}: {names:?}"))?;
            assert_eq!(cells[index], value, "{plural} {name}");
        }
    }
    // `kubectl get numo` finds all kinds by their category.
    for group in [numo_api::GROUP, numo_api::NUMO_GROUP] {
        let resources = client
            .list_api_group_resources(&format!("{group}/{}", numo_api::VERSION))
            .await?;
        for resource in resources.resources.iter().filter(|r| !r.name.contains('/')) {
            assert_eq!(
                resource.categories.as_deref(),
                Some(&["numo".to_owned()][..]),
                "{}",
                resource.name
            );
        }
    }
    cluster.give_back().await;
    Ok(())
}

#[tokio::test]
async fn node_changes_are_found_by_the_name_of_their_node() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let changes = api(&client, "NodeChange");
    for (name, node) in [("one", "worker-0"), ("two", "worker-1"), ("three", "worker-1")] {
        let object = json!({
            "apiVersion": format!("{}/{}", numo_api::NUMO_GROUP, numo_api::VERSION),
            "kind": "NodeChange",
            "metadata": {"name": name},
            "spec": {
                "ownerRef": {"apiVersion": "v1", "kind": "MutexRunConfig", "name": "run", "uid": "u"},
                "nodeName": node, "nodeUID": "n",
                "target": {"runID": "r", "version": "4.17.0", "pool": "worker"},
            },
        });
        changes
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
    }
    let selected = ListParams::default().fields("spec.nodeName=worker-1");
    let mut names: Vec<String> = changes
        .list(&selected)
        .await?
        .items
        .into_iter()
        .filter_map(|object| object.metadata.name)
        .collect();
    names.sort();
    assert_eq!(names, ["three", "two"]);
    cluster.give_back().await;
    Ok(())
}
