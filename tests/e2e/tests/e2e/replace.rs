//! Machines that are replaced, with the provider `sim`: its machines are ConfigMaps, and the test plays what boots and goes.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingAdmissionPolicy,
    core::v1::{ConfigMap, Node},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use numo_api::marks;
use numo_e2e::{NAMESPACE, Stage, manifests};
use numo_world::WorldSpec;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::{apply, gone, set, workers};

const COMPONENT: &str = "deploy/kustomize/components/node-version";
const SIM: &str = "deploy/kustomize/components/node-version-sim";
const GROUP: &str = "update.edgeless.systems";
const OWNER: &str = "example.com/owner";
const IMAGE: &str = "constellation.edgeless.systems/node-image";

fn api(stage: &Stage, kind: &str, plural: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(GROUP, "v1alpha1", kind);
    Api::all_with(
        stage.client.clone(),
        &ApiResource::from_gvk_with_plural(&gvk, plural),
    )
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    })
}

fn maps(stage: &Stage) -> Api<ConfigMap> {
    Api::namespaced(stage.client.clone(), NAMESPACE)
}

/// Installs the component, and lets numo keep the ConfigMaps of its simulated machines.
async fn install(stage: &Stage) -> Result<()> {
    for entry in std::fs::read_dir(manifests::root().join(COMPONENT))? {
        let path = entry?.path();
        let is_patch = ["kustomization.yaml", "admission_policy.yaml", "viewer.yaml"];
        if path
            .file_name()
            .is_some_and(|name| !is_patch.iter().any(|one| name == *one))
        {
            let text = std::fs::read_to_string(&path)?;
            stage
                .apply(&text)
                .await
                .with_context(|| path.display().to_string())?;
        }
    }
    allow(stage).await?;
    let role = std::fs::read_to_string(manifests::root().join(SIM).join("role.yaml"))?;
    stage.apply(&role).await
}

/// The policy of Nodes as the component makes it, and what new nodes get of old ones.
async fn allow(stage: &Stage) -> Result<()> {
    let text = std::fs::read_to_string(manifests::root().join(COMPONENT).join("admission_policy.yaml"))?;
    let mut patch: Value = serde_saphyr::from_str(&text)?;
    for (place, listed) in ["['team']", "['example.com/owner']", "['dedicated:NoSchedule']"]
        .iter()
        .enumerate()
    {
        let path = format!("/spec/variables/{place}/expression");
        let listed = json!({"op": "replace", "path": path, "value": listed});
        patch.as_array_mut().context("a list")?.push(listed);
    }
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(stage.client.clone());
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
    policies
        .patch("numo-nodes", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// A group of machines, and a machine with its node for each of these names.
async fn group(stage: &Stage, name: &str, nodes: &[&str]) -> Result<()> {
    let part = |part: &str| json!({"numo.openshift-optional.skrzypek.io/sim": part});
    let of_group = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": part("group")},
        "data": {"image": "img1", "role": "Worker", "autoscaler": name, "name": name},
    });
    apply(stage, &[of_group]).await?;
    let all: Api<Node> = Api::all(stage.client.clone());
    for node in nodes {
        let machine = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("machine-{node}"), "labels": part("machine")},
            "data": {"image": "img1", "group": name, "node": node, "state": "Ready"},
        });
        apply(stage, &[machine]).await?;
        let data = BTreeMap::from([("node".to_owned(), (*node).to_owned())]);
        boot(stage, &all, &format!("machine-{node}"), &data).await?;
        let taints = json!([{"key": "dedicated", "value": name, "effect": "NoSchedule"}]);
        let patch = json!({
            "metadata": {"labels": {"team": name}, "annotations": {OWNER: name}},
            "spec": {"taints": taints},
        });
        all.patch(node, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
    }
    Ok(())
}

/// Plays the machines once: those that are being made boot and join, those that are being deleted go.
async fn play(stage: &Stage) -> Result<()> {
    let params = ListParams::default().labels("numo.openshift-optional.skrzypek.io/sim=machine");
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for map in maps(stage).list(&params).await?.items {
        let name = map.name_any();
        let data = map.data.clone().unwrap_or_default();
        match data.get("state").map(String::as_str) {
            Some("Terminating") => {
                maps(stage).delete(&name, &DeleteParams::default()).await?;
            }
            Some("Creating") => {
                boot(stage, &nodes, &name, &data).await?;
                let patch = json!({"data": {"state": "Ready"}});
                maps(stage)
                    .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                    .await?;
            }
            _ => {}
        }
    }
    for node in nodes.list(&ListParams::default()).await?.items {
        beat(&nodes, &node.name_any()).await?;
    }
    Ok(())
}

/// What a kubelet says again and again: its node would else be taken for lost.
async fn beat(nodes: &Api<Node>, name: &str) -> Result<()> {
    let status = json!({"status": {"conditions": [{
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it plays",
        "lastHeartbeatTime": Timestamp::now().to_string(), "lastTransitionTime": null,
    }]}});
    match nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await
    {
        // It was let go meanwhile.
        Err(kube::Error::Api(error)) if error.code == 404 => Ok(()),
        done => done.map(|_| ()).map_err(Into::into),
    }
}

async fn boot(
    stage: &Stage,
    nodes: &Api<Node>,
    machine: &str,
    data: &BTreeMap<String, String>,
) -> Result<()> {
    let name = data.get("node").context("a node")?;
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "node-role.kubernetes.io/worker": ""}},
        "spec": {"providerID": format!("sim:///{machine}")},
    });
    if nodes.get_opt(name).await?.is_none() {
        apply(stage, &[node]).await?;
    }
    beat(nodes, name).await
}

/// Image and team of every node that a machine stands for.
async fn images(stage: &Stage) -> Result<BTreeMap<String, (String, String)>> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let nodes = nodes.list(&ListParams::default()).await?.items;
    let of_machines = nodes
        .into_iter()
        .filter(|node| node.spec.as_ref().is_some_and(|spec| spec.provider_id.is_some()));
    let image = |node: Node| {
        let image = node.annotations().get(IMAGE).cloned().unwrap_or_default();
        let team = node.labels().get("team").cloned().unwrap_or_default();
        (node.name_any(), (image, team))
    };
    Ok(of_machines.map(image).collect())
}

/// The first wave is replaced; the others wait for a person's word, and get it.
async fn wave_by_wave(stage: &Stage) -> Result<()> {
    stage
        .until(
            "the first wave has the image, and the others wait",
            300,
            || async {
                play(stage).await?;
                let found = images(stage).await?;
                let of_red = found.values().filter(|(_, team)| team == "red");
                let is_done =
                    of_red.clone().count() == 2 && of_red.into_iter().all(|(image, _)| image == "img2");
                if !is_done {
                    return Ok(None);
                }
                let said = stage
                    .say(&["explain", "nodeversion/constellation-version"])
                    .await?;
                Ok(said.contains("WaitsForApproval").then_some(()))
            },
        )
        .await?;
    stage
        .until(
            "a preview tells who goes next, and whose word it takes",
            60,
            || async {
                play(stage).await?;
                let said = stage
                    .say(&["preview", "nodeversion/constellation-version"])
                    .await?;
                let tells = [
                    "to img2",
                    "waits   for approval of wave 2 of 2 (others)",
                    "old-2, old-3",
                ];
                let missing = tells.into_iter().find(|words| !said.contains(words));
                ensure!(missing.is_none(), "no {missing:?} in\n{said}");
                Ok(Some(()))
            },
        )
        .await?;
    let found = images(stage).await?;
    let others = found.values().filter(|(_, team)| team != "red");
    ensure!(
        others.clone().count() == 2 && others.into_iter().all(|(image, _)| image == "img1"),
        "{found:?}"
    );
    crate::approvals::of_a_node_version(stage, "constellation-version").await?;
    stage
        .say(&[
            "approve",
            "nodeversion/constellation-version",
            "--wave",
            "others",
            "--reason",
            "red is fine",
        ])
        .await?;
    Ok(())
}

#[tokio::test]
async fn three_groups_roll_to_a_new_image() -> Result<()> {
    let world = WorldSpec {
        masters: 0,
        topology: "External".to_owned(),
        ..workers(0)
    };
    let mut stage = set(world, vec!["--machine-provider", "sim"]).await?;
    // The kinds are there before numo begins to look for them.
    stage.stop_numo().await?;
    install(&stage).await?;
    let names = ["old-0", "old-1", "old-2", "old-3"];
    group(&stage, "red", &names[..2]).await?;
    group(&stage, "blue", &names[2..3]).await?;
    group(&stage, "green", &names[3..4]).await?;
    let waves = json!([
        {"name": "red", "nodeSelector": {"matchLabels": {"team": "red"}}},
        {"name": "others", "nodeSelector": {}, "approval": "Manual"},
    ]);
    let spec = json!({
        "image": "img2", "surge": 2, "mutex": {"waves": waves},
        "copiedAnnotations": [OWNER], "copyTaints": true,
    });
    apply(&stage, &[object("NodeVersion", "constellation-version", spec)]).await?;
    stage.start_numo()?;
    wave_by_wave(&stage).await?;
    let rolled = stage
        .until("every node has the image", 400, || async {
            play(&stage).await?;
            let found = images(&stage).await?;
            let done = found.len() == 4 && found.values().all(|(image, _)| image == "img2");
            Ok(done.then_some(found))
        })
        .await;
    let rolled = match rolled {
        Ok(rolled) => rolled,
        Err(error) => {
            let version = api(&stage, "NodeVersion", "nodeversions")
                .get("constellation-version")
                .await?;
            return Err(error.context(format!("{:#}", version.data)));
        }
    };
    let mut teams: Vec<&str> = rolled.values().map(|(_, team)| team.as_str()).collect();
    teams.sort_unstable();
    assert_eq!(
        teams,
        ["blue", "green", "red", "red"],
        "labels go with their place"
    );
    assert!(names.iter().all(|name| !rolled.contains_key(*name)), "{rolled:?}");
    let all: Api<Node> = Api::all(stage.client.clone());
    for (name, (_, team)) in &rolled {
        let node = all.get(name).await?;
        assert_eq!(node.annotations().get(OWNER), Some(team), "{name}");
        let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
        let is_copied = taints
            .iter()
            .any(|taint| taint.key == "dedicated" && taint.value.as_ref() == Some(team));
        assert!(is_copied, "{name}: {taints:?}");
    }
    // Nothing is left, and it says so.
    let versions = api(&stage, "NodeVersion", "nodeversions");
    stage
        .until("the NodeVersion is at rest", 60, || async {
            play(&stage).await?;
            let version = versions.get("constellation-version").await?;
            let ready = version
                .data
                .pointer("/status/conditions")
                .cloned()
                .unwrap_or_default();
            let ready =
                ready.as_array().into_iter().flatten().any(|one| {
                    one["type"] == "Ready" && one["status"] == "True" && one["reason"] == "UpToDate"
                });
            let pending = api(&stage, "PendingNode", "pendingnodes");
            let left = pending.list(&ListParams::default()).await?.items.len();
            Ok((ready && left == 0).then_some(()))
        })
        .await?;
    let machines = ListParams::default().labels("numo.openshift-optional.skrzypek.io/sim=machine");
    assert_eq!(
        maps(&stage).list(&machines).await?.items.len(),
        4,
        "no machine is left over"
    );
    stage.strike().await
}

/// Waits until numo has begun with a node: its machine is made, which nobody boots here.
async fn begun(stage: &Stage, node: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let pending = api(stage, "PendingNode", "pendingnodes");
    stage
        .until("a machine is asked for", 120, || async {
            beat(&nodes, node).await?;
            let found = pending.list(&ListParams::default()).await?.items;
            let has_machine = |one: &DynamicObject| one.data.pointer("/spec/providerID").is_some();
            Ok(found.iter().any(has_machine).then_some(()))
        })
        .await
}

/// The operator is gone while a machine boots: what it put on the node is taken back, no machine is made or deleted, and the NodeVersion can
/// be deleted.
#[tokio::test]
async fn what_a_node_version_put_on_a_node_is_taken_back_without_an_operator() -> Result<()> {
    let world = WorldSpec {
        masters: 0,
        topology: "External".to_owned(),
        ..workers(0)
    };
    let mut stage = set(world, vec!["--machine-provider", "sim"]).await?;
    stage.stop_numo().await?;
    install(&stage).await?;
    group(&stage, "red", &["old-0"]).await?;
    let spec = json!({"image": "img2"});
    apply(&stage, &[object("NodeVersion", "constellation-version", spec)]).await?;
    stage.start_numo()?;
    begun(&stage, "old-0").await?;
    stage.kill_numo().await?;

    let nodes: Api<Node> = Api::all(stage.client.clone());
    let is_marked = |node: &Node| node.annotations().contains_key(marks::SHIELDED_BY);
    ensure!(is_marked(&nodes.get("old-0").await?), "it has its turn");
    let machines = ListParams::default().labels("numo.openshift-optional.skrzypek.io/sim=machine");
    let before = maps(&stage).list(&machines).await?.items.len();
    let words = ["release", "--offline", "--timeout-seconds", "0", "-ojson"];
    let said = stage.call(&[&words[..], &["--leave-held"]].concat()).await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    let found: Value = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    let left: Vec<&Value> = found["left"].as_array().into_iter().flatten().collect();
    assert_eq!(left.len(), 1, "{left:#?}");
    let object = left[0]["object"].as_str().unwrap_or_default();
    assert!(object.starts_with("PendingNode "), "{left:#?}");
    assert_eq!(left[0]["held"], true, "{left:#?}");
    // A person is to look at it.
    assert_eq!(stage.call(&words).await?.code, Some(3));
    let node = nodes.get("old-0").await?;
    ensure!(!is_marked(&node), "{node:?}");
    let spec = node.spec.unwrap_or_default();
    assert_ne!(spec.unschedulable, Some(true));
    assert_eq!(maps(&stage).list(&machines).await?.items.len(), before);

    let versions = api(&stage, "NodeVersion", "nodeversions");
    versions
        .delete("constellation-version", &DeleteParams::default())
        .await?;
    gone(&stage, &versions, "constellation-version").await?;
    stage.strike().await
}
