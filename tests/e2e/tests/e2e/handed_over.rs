//! From the Constellation node operator and back to it, by the commands of the page, with the objects as that operator leaves them in the
//! midst of a replacement. Nobody has the operator itself here: a Deployment has its name, and its machines are those of the provider `sim`.

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
use kube::{Api, ResourceExt, api::ListParams};
use numo_api::marks;
use numo_e2e::{
    NAMESPACE, Page,
    machines::{Group, Machines},
    manifests,
};
use numo_world::WorldSpec;
use serde_json::{Value, json};

use crate::{
    commands::{Site, operator},
    workers,
};

const PAGE: &str = "operator/docs/migration/constellation-node-operator.md";
const VERSION: &str = "constellation-version";
const OLD: &str = "constellation-operator-controller-manager";
pub const AUTOSCALER: &str = "constellation-cluster-autoscaler";
/// The fields of a NodeVersion that only numo knows.
const OURS: [&str; 7] = [
    "surge",
    "joinTimeoutSeconds",
    "joinRetries",
    "copiedAnnotations",
    "copyTaints",
    "mutex",
    "drain",
];

/// The five definitions as their first operator has them.
fn definitions() -> Result<Vec<Value>> {
    let folder = manifests::root().join("deploy/kustomize/components/node-version");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.to_string_lossy().contains("update.edgeless.systems_") {
            continue;
        }
        let mut found = manifests::parse(&std::fs::read_to_string(&path)?)?
            .pop()
            .context("a definition")?;
        found["metadata"] = json!({"name": found["metadata"]["name"]});
        for version in found["spec"]["versions"].as_array_mut().context("versions")? {
            let spec = version.pointer_mut("/schema/openAPIV3Schema/properties/spec");
            let spec = spec.and_then(Value::as_object_mut).context("a spec")?;
            spec.remove("x-kubernetes-validations");
            let fields = spec.get_mut("properties").and_then(Value::as_object_mut);
            fields
                .context("fields")?
                .retain(|field, _| !OURS.contains(&field.as_str()));
        }
        all.push(found);
    }
    ensure!(all.len() == 5, "{} definitions", all.len());
    Ok(all)
}

fn of_kind(kind: &str, name: &str, more: Value) -> Value {
    let meta =
        json!({"apiVersion": "update.edgeless.systems/v1alpha1", "kind": kind, "metadata": {"name": name}});
    crate::with(meta, more)
}

/// A machine of the provider, as its ConfigMap.
fn machine(node: &str, image: &str, state: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("machine-{node}"), "namespace": NAMESPACE,
            "labels": {"numo.openshift-optional.skrzypek.io/sim": "machine"},
        },
        "data": {"image": image, "group": "red", "node": node, "state": state},
    })
}

/// A PendingNode as the operator writes one: it has the name of the node.
fn pending(node: &str, goal: &str, owner: &str) -> Value {
    let deadline = Timestamp::now() + SignedDuration::from_mins(30);
    let mut object = of_kind(
        "PendingNode",
        node,
        json!({"spec": {
            "providerID": format!("sim:///machine-{node}"), "groupID": "red", "nodeName": node, "goal": goal,
            "deadline": deadline.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }}),
    );
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "update.edgeless.systems/v1alpha1", "kind": "NodeVersion", "name": VERSION, "uid": owner,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

/// The Deployment of the cluster autoscaler, and what says that it rests.
pub fn autoscaler() -> [Value; 2] {
    let labels = json!({"app": AUTOSCALER});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": AUTOSCALER, "namespace": "kube-system"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "containers": [{"name": "autoscaler", "image": "theirs", "command": ["./cluster-autoscaler", "--v=2"]}],
        }}},
    });
    let strategy = of_kind(
        "AutoscalingStrategy",
        "autoscalingstrategy",
        json!({"spec": {
            "enabled": false, "deploymentName": AUTOSCALER, "deploymentNamespace": "kube-system", "autoscalerExtraArgs": {"v": "2"},
        }}),
    );
    [deployment, strategy]
}

/// Stopped in the midst: red-0 has its heir, a machine boots, one has lost its Node, a node is to go, and a node joins.
async fn half_done(site: &Site, machines: &Machines) -> Result<()> {
    let group = Group {
        name: "red",
        nodes: &["red-0", "red-1", "red-2", "red-3"],
        ..Group::default()
    };
    machines.group(group).await?;
    let version = of_kind(
        "NodeVersion",
        VERSION,
        json!({"spec": {"image": "img2", "imageVersion": "v2"}}),
    );
    site.apply(&[version]).await?;
    let versions = machines.api("NodeVersion", "nodeversions");
    let owner = versions.get(VERSION).await?.uid().context("a uid")?;
    site.run(&format!(
        "kubectl patch nodeversion {VERSION} --subresource=status --type=merge -p \
         '{{\"status\":{{\"budget\":0,\"activeclusterversionupgrade\":true,\"conditions\":[]}}}}'"
    ))
    .await?;
    // What the operator had made boots, and joins.
    site.apply(&[machine("red-9", "img2", "Creating")]).await?;
    machines.play().await?;
    site.apply(&[
        machine("red-8", "img2", "Creating"),
        machine("red-7", "img1", "Ready"),
        pending("red-8", "Join", &owner),
        pending("red-7", "Leave", &owner),
        of_kind(
            "JoiningNode",
            "red-8",
            json!({"spec": {"name": "red-8", "componentsreference": "k8s-components-1", "iscontrolplane": false}}),
        ),
        of_kind(
            "ScalingGroup",
            "red",
            json!({"spec": {"nodeImage": VERSION, "groupId": "red", "autoscalerGroupName": "red", "min": 1, "max": 10, "role": "Worker"}}),
        ),
    ])
    .await?;
    site.apply(&autoscaler()).await?;
    let prefix = "constellation.edgeless.systems";
    for words in [
        format!("red-0 {prefix}/node-image=img1 {prefix}/scaling-group-id=red {prefix}/heir=red-9"),
        format!("red-9 {prefix}/node-image=img2 {prefix}/scaling-group-id=red {prefix}/donor=red-0"),
        format!("red-2 {prefix}/node-image=img1 {prefix}/scaling-group-id=red {prefix}/obsolete=true"),
    ] {
        site.run(&format!("kubectl annotate node {words}")).await?;
    }
    let drained = json!({
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance", "metadata": {"name": "red-0"},
        "spec": {"nodeName": "red-0", "reason": "node is replaced due to OS image update"},
    });
    site.apply(&[drained]).await
}

/// numo with the provider `sim` and the right to the cluster autoscaler, as an overlay.
async fn install(site: &Site) -> Result<()> {
    let overlay = "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../deploy/kustomize/all/self-managed]
components:
  - ../deploy/kustomize/components/node-version
  - ../deploy/kustomize/components/node-version-sim
  - ../deploy/kustomize/components/node-version-autoscaler
patches:
  - target: {kind: Deployment, name: numo}
    patch: |-
      - {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: NUMO_MACHINE_PROVIDER, value: sim}}
  - target: {kind: ValidatingAdmissionPolicy, name: numo-nodes}
    patch: |-
      - {op: replace, path: /spec/variables/0/expression, value: \"['team']\"}
";
    let folder = site.terminal.folder().join("mine");
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("kustomization.yaml"), overlay)?;
    // The kinds of the objects are defined a moment later.
    site.until(
        "kubectl apply --server-side --force-conflicts -k mine",
        "numo-cluster-autoscaler",
    )
    .await?;
    site.run("kubectl -n node-upgrade-mutex-operator rollout status deployment/numo --timeout=120s")
        .await?;
    Ok(())
}

/// Plays the machines until this is so of the nodes and their images.
async fn played(machines: &Machines, what: &str, is_so: impl Fn(&[(String, String)]) -> bool) -> Result<()> {
    let mut last = Vec::new();
    for _ in 0..600 {
        machines.play().await?;
        let shown = machines.shown().await?.into_iter();
        last = shown.map(|(name, node)| (name, node.image)).collect();
        if is_so(&last) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    anyhow::bail!("never {what}: {last:?}")
}

/// What the operator reads is there, and nothing of numo is.
async fn is_restored(site: &Site, machines: &Machines) -> Result<()> {
    site.nothing_is_left().await?;
    let nodes: Api<Node> = Api::all(site.client.clone());
    for node in nodes.list(&ListParams::default()).await? {
        let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        ensure!(!is_cordoned, "{} is cordoned", node.name_any());
    }
    let version = machines.api("NodeVersion", "nodeversions").get(VERSION).await?;
    ensure!(version.finalizers().is_empty(), "{version:?}");
    ensure!(!version.annotations().contains_key(marks::SUSPEND), "{version:?}");
    let status = &version.data["status"];
    for field in ["budget", "conditions", "activeclusterversionupgrade"] {
        ensure!(!status[field].is_null(), "status.{field}: {status}");
    }
    ensure!(status["activeclusterversionupgrade"] == false, "{status}");
    for pending in machines
        .api("PendingNode", "pendingnodes")
        .list(&ListParams::default())
        .await?
    {
        let spec = &pending.data["spec"];
        for field in ["providerID", "nodeName", "groupID", "goal"] {
            ensure!(
                spec[field].is_string(),
                "{} spec.{field}: {spec}",
                pending.name_any()
            );
        }
    }
    let deployments: Api<Deployment> = Api::namespaced(site.client.clone(), "kube-system");
    let replicas = |found: Deployment| found.spec.and_then(|spec| spec.replicas);
    ensure!(
        replicas(deployments.get(AUTOSCALER).await?) == Some(1),
        "the autoscaler runs"
    );
    ensure!(
        replicas(deployments.get(OLD).await?) == Some(1),
        "the operator runs"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_done_replacement_of_the_old_operator_is_taken_over_and_restored() -> Result<()> {
    let world = WorldSpec {
        masters: 3,
        ..workers(0)
    };
    let site = Site::set(world).await?;
    let mut page = Page::read("operator/docs/migration/constellation-node-operator.md")?;
    let machines = Machines::of(site.client.clone());
    site.apply(&definitions()?).await?;
    let maintenances = "deploy/crds/nodemaintenance.medik8s.io_nodemaintenances.yaml";
    site.run(&format!(
        "kubectl apply -f {maintenances} && kubectl create namespace {NAMESPACE} && kubectl wait crd --all --for=jsonpath='{{.status.conditions}}' && kubectl wait crd --all --for=condition=Established"
    ))
    .await?;
    site.apply(&operator(
        "kube-system",
        OLD,
        json!({"control-plane": "controller-manager"}),
        ("update.edgeless.systems", "nodeversions"),
    ))
    .await?;
    half_done(&site, &machines).await?;

    let t = &site.terminal;
    let found = page.run(t, "kubectl get nodeversions,scalinggroups", &[]).await?;
    ensure!(found.contains(OLD) && found.contains("red-9"), "{PAGE}: {found}");
    page.run(
        t,
        "scale deployment constellation-operator-controller-manager --replicas=0",
        &[],
    )
    .await?;
    page.run(t, "node is replaced due to OS image update", &[])
        .await?;
    page.run(t, "suspend=move", &[]).await?;
    install(&site).await?;
    let said = page
        .run_until(
            t,
            "numo resume nodeversion",
            &[
                ("numo doctor", "numo doctor || true"),
                // It is paused, which stands against every node.
                (
                    "numo preview nodeversion/constellation-version",
                    "numo preview nodeversion/constellation-version || true",
                ),
            ],
        )
        .await?;
    ensure!(said.contains("red-0"), "the preview names who is next: {said}");
    // The pair, the machine that boots and the node that is to go come to their ends. Then one node is left, whose machine nobody boots.
    let is_there = |all: &[(String, String)], name: &str| all.iter().any(|(node, _)| node == name);
    played(&machines, "what was half done is done", |all| {
        let old = all.iter().filter(|(_, image)| image == "img1").count();
        let joined = ["red-8", "red-9"].iter().all(|name| is_there(all, name));
        joined && old == 1 && !is_there(all, "red-0") && !is_there(all, "red-2")
    })
    .await?;
    let kept: Vec<String> = machines.made().await?.iter().map(ResourceExt::name_any).collect();
    ensure!(
        !kept.contains(&"machine-red-7".to_owned()),
        "it had lost its Node: {kept:?}"
    );
    let pending = machines.api("PendingNode", "pendingnodes");
    for one in pending.list(&ListParams::default()).await? {
        ensure!(
            one.owner_references().is_empty(),
            "it would go with a foreground deletion: {one:?}"
        );
    }
    let joining = machines.api("JoiningNode", "joiningnodes");
    ensure!(
        joining.list(&ListParams::default()).await?.items.is_empty(),
        "its Node was told"
    );

    let release = (
        "numo release --offline",
        "numo release --offline --timeout-seconds 0 --leave-held",
    );
    page.run(t, "--reason back-to-the-operator", &[release]).await?;
    is_restored(&site, &machines).await?;
    page.end()?;
    site.strike().await
}
