//! Machines that are replaced, with the provider `sim`: its machines are ConfigMaps, and the test plays what boots and goes.

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Node},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use numo_api::{NodeChange, marks};
use numo_cluster::Members;
use numo_e2e::{
    NAMESPACE, Stage,
    machines::{self, Group, Machines, OWNER, without_nodes},
};
use serde_json::{Value, json};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    path::Path,
};

use crate::{apply, gone, kept};

/// The NodeVersion of all tests.
pub const VERSION: &str = "constellation-version";

/// The first wave is replaced; the others wait for a person's word, and get it.
async fn wave_by_wave(stage: &Stage, machines: &Machines) -> Result<()> {
    stage
        .until(
            "the first wave has the image, and the others wait",
            300,
            || async {
                machines.play().await?;
                let found = machines.shown().await?;
                let of_red: Vec<_> = found.values().filter(|node| node.team == "red").collect();
                let is_done = of_red.len() == 2 && of_red.iter().all(|node| node.image == "img2");
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
                machines.play().await?;
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
    let found = machines.shown().await?;
    let others: Vec<_> = found.values().filter(|node| node.team != "red").collect();
    ensure!(
        others.len() == 2 && others.iter().all(|node| node.image == "img1"),
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
    let (mut stage, machines) = without_nodes(vec!["--machine-provider", "sim"]).await?;
    let names = ["old-0", "old-1", "old-2", "old-3"];
    for (name, nodes) in [
        ("red", &names[..2]),
        ("blue", &names[2..3]),
        ("green", &names[3..4]),
    ] {
        let group = Group {
            name,
            nodes,
            ..Group::default()
        };
        machines.group(group).await?;
    }
    let waves = json!([
        {"name": "red", "nodeSelector": {"matchLabels": {"team": "red"}}},
        {"name": "others", "nodeSelector": {}, "approval": "Manual"},
    ]);
    let spec = json!({
        "image": "img2", "surge": 2, "mutex": {"waves": waves},
        "copiedAnnotations": [OWNER], "copyTaints": true,
    });
    machines.ask_for(VERSION, spec).await?;
    stage.start_numo()?;
    wave_by_wave(&stage, &machines).await?;
    let rolled = stage
        .until("every node has the image", 400, || async {
            machines.play().await?;
            let found = machines.shown().await?;
            let done = found.len() == 4 && found.values().all(|node| node.image == "img2");
            Ok(done.then_some(found))
        })
        .await;
    let rolled = match rolled {
        Ok(rolled) => rolled,
        Err(error) => {
            let version = machines.api("NodeVersion", "nodeversions").get(VERSION).await?;
            return Err(error.context(format!("{:#}", version.data)));
        }
    };
    let mut teams: Vec<&str> = rolled.values().map(|node| node.team.as_str()).collect();
    teams.sort_unstable();
    assert_eq!(
        teams,
        ["blue", "green", "red", "red"],
        "labels go with their place"
    );
    assert!(names.iter().all(|name| !rolled.contains_key(*name)), "{rolled:?}");
    let all: Api<Node> = Api::all(stage.client.clone());
    for (name, shown) in &rolled {
        let team = &shown.team;
        let node = all.get(name).await?;
        assert_eq!(node.annotations().get(OWNER), Some(team), "{name}");
        let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
        let is_copied = taints
            .iter()
            .any(|taint| taint.key == "dedicated" && taint.value.as_ref() == Some(team));
        assert!(is_copied, "{name}: {taints:?}");
    }
    // Nothing is left, and it says so.
    stage
        .until("the NodeVersion is at rest", 60, || async {
            machines.play().await?;
            Ok(machines.is_at_rest(VERSION).await?.then_some(()))
        })
        .await?;
    assert_eq!(machines.made().await?.len(), 4, "no machine is left over");
    stage.strike().await
}

/// numo runs, and is asked for another image of the group `red`, which has one node, `old-0`.
pub async fn begin_one(spec: Value) -> Result<(Stage, Machines)> {
    let (mut stage, machines) = without_nodes(vec!["--machine-provider", "sim"]).await?;
    let group = Group {
        name: "red",
        nodes: &["old-0"],
        ..Group::default()
    };
    machines.group(group).await?;
    machines.ask_for(VERSION, spec).await?;
    stage.start_numo()?;
    Ok((stage, machines))
}

/// Waits until numo has begun with a node: its machine is made, which nobody boots here.
pub async fn begun(stage: &Stage, machines: &Machines, node: &str) -> Result<()> {
    let pending = machines.api("PendingNode", "pendingnodes");
    stage
        .until("a machine is asked for", 120, || async {
            machines.beat(node).await?;
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
    let (mut stage, machines) = begin_one(json!({"image": "img2"})).await?;
    begun(&stage, &machines, "old-0").await?;
    stage.kill_numo().await?;

    let nodes: Api<Node> = Api::all(stage.client.clone());
    let is_marked = |node: &Node| node.annotations().contains_key(marks::SHIELDED_BY);
    ensure!(is_marked(&nodes.get("old-0").await?), "it has its turn");
    let before = machines.made().await?.len();
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
    assert_eq!(machines.made().await?.len(), before);

    let versions = machines.api("NodeVersion", "nodeversions");
    versions.delete(VERSION, &DeleteParams::default()).await?;
    gone(&stage, &versions, VERSION).await?;
    stage.strike().await
}

/// Arguments of numo with the provider `sim` as a component, which may write ConfigMaps so.
async fn component(folder: &Path, write: &[&str]) -> Result<Vec<&'static str>> {
    let config = json!({
        "uid": "a1b2",
        "pollSeconds": 2,
        "config": {"namespace": NAMESPACE},
        "grants": {"kubernetes": [{
            "apiVersion": "v1", "kind": "ConfigMap", "namespaces": [NAMESPACE], "write": write,
        }]},
    });
    let arguments = machines::component(folder, "provider-sim", config).await?;
    Ok(arguments.into_iter().map(kept).collect())
}

/// A component makes and deletes the machines, in the sandbox of rules and with its own grants: as the built-in provider does. numo dies
/// once while a machine boots, and no machine is left over.
#[tokio::test]
async fn a_component_is_the_provider_of_machines() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let numo = component(folder.path(), &["create", "patch"]).await?;
    let (mut stage, machines) = without_nodes(numo).await?;
    let group = Group {
        name: "red",
        nodes: &["old-0", "old-1"],
        ..Group::default()
    };
    machines.group(group).await?;
    machines.ask_for(VERSION, json!({"image": "img2"})).await?;
    stage.start_numo()?;
    begun(&stage, &machines, "old-0").await?;
    stage.kill_numo().await?;
    stage.start_numo()?;
    stage
        .until(
            "both nodes are replaced, and nothing is under way",
            300,
            || async {
                machines.play().await?;
                let found = machines.shown().await?;
                let is_new = found.len() == 2 && found.values().all(|node| node.image == "img2");
                Ok((is_new && machines.is_at_rest(VERSION).await?).then_some(()))
            },
        )
        .await?;
    assert_eq!(machines.made().await?.len(), 2, "no machine is left over");
    stage.strike().await
}

/// A provider that has no grant for what it needs changes nothing, and its words are shown.
#[tokio::test]
async fn a_component_without_a_grant_replaces_nothing_and_says_so() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let numo = component(folder.path(), &["patch"]).await?;
    let (mut stage, machines) = without_nodes(numo).await?;
    let group = Group {
        name: "red",
        nodes: &["old-0"],
        ..Group::default()
    };
    machines.group(group).await?;
    machines.ask_for(VERSION, json!({"image": "img2"})).await?;
    stage.start_numo()?;
    stage
        .until("the refusal is shown with the grant that lacks", 200, || async {
            machines.play().await?;
            let version = machines.api("NodeVersion", "nodeversions").get(VERSION).await?;
            let said = version.data.to_string();
            let is_said = said.contains("ProviderUnavailable")
                && said.contains("no grant of the provider covers create");
            Ok(is_said.then_some(()))
        })
        .await?;
    let said = stage.say(&["explain", "node/old-0"]).await?;
    let tells = said.contains("ProviderUnavailable") && said.contains("covers create");
    ensure!(tells, "{said}");
    assert_eq!(
        machines.made().await?.len(),
        1,
        "the old machine stays, and none is made"
    );
    assert!(machines.shown().await?.contains_key("old-0"));
    stage.strike().await
}

/// A node of the control plane is replaced beside a real etcd of three members. Before the new node is a member, the member of the old one and
/// its machine stay; then that member goes, and only that one.
#[tokio::test]
async fn the_member_of_etcd_goes_before_the_machine_of_its_node() -> Result<()> {
    let names = ["cp-0", "cp-1", "cp-2"];
    let mut members = Members::start(&names).await?;
    let numo = vec![
        "--machine-provider",
        "sim",
        "--etcd-certs",
        kept(members.certs().display().to_string()),
        "--etcd-endpoints",
        kept(members.endpoints().join(",")),
    ];
    let (mut stage, machines) = without_nodes(numo).await?;
    let addresses: Vec<String> = names
        .iter()
        .map(|name| members.address(name))
        .collect::<Result<_>>()?;
    let group = Group {
        name: "control",
        is_control_plane: true,
        nodes: &names,
        addresses: &addresses,
    };
    machines.group(group).await?;
    // Two are as they should be.
    for name in &names[1..] {
        machines.set(&format!("machine-{name}"), "image", "img2").await?;
    }
    machines.place_next(members.spare());
    let words = format!("found no voting member at {}", members.spare());
    machines.ask_for(VERSION, json!({"image": "img2"})).await?;
    stage.start_numo()?;
    stage
        .until("numo misses the member of the new node", 300, || async {
            machines.play().await?;
            // What only the operator knows is in what it writes.
            let version = machines.api("NodeVersion", "nodeversions").get(VERSION).await?;
            let changes = stage.api::<NodeChange>().list(&ListParams::default()).await?;
            let said = format!("{}{:?}", version.data, changes.items);
            Ok(said.contains(&words).then_some(()))
        })
        .await?;
    let made = machines.made().await?;
    ensure!(
        made.iter().any(|machine| machine.name_any() == "machine-cp-0"),
        "the machine stays"
    );
    let all: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(members.names().await?, all);

    members.join("cp-new").await?;
    let is_too_early = Cell::new(false);
    stage
        .until("cp-0 is replaced", 300, || async {
            machines.play().await?;
            let made = machines.made().await?;
            let is_there = made.iter().any(|machine| machine.name_any() == "machine-cp-0");
            // Only `play` lets machines go: one that is gone has no member by now.
            if !is_there && members.names().await?.contains("cp-0") {
                is_too_early.set(true);
            }
            Ok((!machines.shown().await?.contains_key("cp-0")).then_some(()))
        })
        .await?;
    ensure!(!is_too_early.get(), "its machine went before its member");
    let left = names[1..].iter().chain(&["cp-new"]);
    let left: BTreeSet<String> = left.map(|name| (*name).to_owned()).collect();
    assert_eq!(members.names().await?, left);
    stage.strike().await
}

/// node-maintenance-operator as numo knows it: a Deployment of its name whose ServiceAccount may write the status of NodeMaintenances.
fn other_operator() -> Vec<Value> {
    let name = "node-maintenance-operator-controller-manager";
    let labels = json!({"app": "nmo"});
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "nmo"},
            "rules": [{"apiGroups": ["nodemaintenance.medik8s.io"], "resources": ["nodemaintenances/status"], "verbs": ["update"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "nmo"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nmo"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "containers": [{"name": "manager", "image": "nmo", "command": ["sleep", "36000"]}],
                }},
            },
        }),
    ]
}

fn maintenances(stage: &Stage) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("nodemaintenance.medik8s.io", "v1beta1", "NodeMaintenance");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "nodemaintenances");
    Api::all_with(stage.client.clone(), &resource)
}

/// Plays node-maintenance-operator once: it cordons the nodes of its objects, and opens them when the objects go. The names of those that it
/// has drained, with what stands in their reason.
async fn serve(stage: &Stage) -> Result<Vec<(String, String)>> {
    let (objects, params) = (maintenances(stage), PatchParams::default());
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), marks::LEASE_NAMESPACE);
    let mut drained = Vec::new();
    for object in objects.list(&ListParams::default()).await?.items {
        let name = object.name_any();
        let goes = object.metadata.deletion_timestamp.is_some();
        let finalizers = json!({"metadata": {"finalizers": if goes { json!(null) } else { json!([marks::MAINTENANCE_FINALIZER]) }}});
        if nodes.get_opt(&name).await?.is_some() {
            let cordon = json!({"spec": {"unschedulable": !goes}});
            let is_numos = |lease: Lease| {
                lease
                    .spec
                    .and_then(|spec| spec.holder_identity)
                    .is_some_and(|one| one.starts_with("numo/"))
            };
            if !goes && leases.get_opt(&name_of_lease(&name)).await?.is_some_and(is_numos) {
                let status = json!({"status": {"phase": "Running", "lastError": "failed to obtain a lease that is not owned by us"}});
                objects
                    .patch_status(&name, &params, &Patch::Merge(&status))
                    .await?;
                continue;
            }
            nodes.patch(&name, &params, &Patch::Merge(&cordon)).await?;
        }
        objects.patch(&name, &params, &Patch::Merge(&finalizers)).await?;
        if !goes {
            let status = json!({"status": {"phase": "Succeeded"}});
            objects
                .patch_status(&name, &params, &Patch::Merge(&status))
                .await?;
            let reason = object.data.pointer("/spec/reason").and_then(Value::as_str);
            drained.push((name, reason.unwrap_or_default().to_owned()));
        }
    }
    Ok(drained)
}

fn name_of_lease(node: &str) -> String {
    format!("node-{node}")
}

/// The old nodes are drained by another operator: numo begins nothing while nobody is there who would, makes the objects, waits for them, and
/// leaves none behind. One that somebody else has made stays.
#[tokio::test]
async fn another_operator_drains_the_old_nodes() -> Result<()> {
    let spec = json!({"image": "img2", "mutex": {"drainBy": "NodeMaintenance"}});
    let (stage, machines) = begin_one(spec).await?;
    let explains = |wanted: &'static str| {
        let (stage, machines) = (&stage, &machines);
        async move {
            let what = format!("numo explain says {wanted}");
            let says = || async {
                machines.play().await?;
                let said = stage
                    .say(&["explain", "nodeversion/constellation-version"])
                    .await?;
                Ok(said.contains(wanted).then_some(()))
            };
            stage.until(&what, 60, says).await
        }
    };
    explains("MaintenanceNotServed").await?;
    assert_eq!(machines.made().await?.len(), 1, "no machine is made");
    // Somebody has an object of that name: the node waits, and the object stays.
    let theirs = json!({
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance",
        "metadata": {"name": "old-0"}, "spec": {"nodeName": "elsewhere", "reason": "a fan"},
    });
    apply(&stage, &[theirs]).await?;
    apply(&stage, &other_operator()).await?;
    explains("NodeInMaintenance").await?;
    let objects = maintenances(&stage);
    let kept = objects.get("old-0").await?;
    assert_eq!(kept.metadata.deletion_timestamp, None);
    objects.delete("old-0", &DeleteParams::default()).await?;

    let drained = RefCell::new(BTreeSet::new());
    stage
        .until("the node is replaced", 300, || async {
            machines.play().await?;
            let served = serve(&stage).await?;
            drained.borrow_mut().extend(served);
            let found = machines.shown().await?;
            let done = found.len() == 1 && found.values().all(|node| node.image == "img2");
            Ok(done.then_some(()))
        })
        .await?;
    let wanted = (
        "old-0".to_owned(),
        "node is replaced due to OS image update".to_owned(),
    );
    assert_eq!(drained.into_inner(), BTreeSet::from([wanted]));
    stage
        .until("the object is gone, and the NodeVersion at rest", 60, || async {
            machines.play().await?;
            serve(&stage).await?;
            let left = objects.list(&ListParams::default()).await?.items;
            let is_over = left.is_empty() && machines.is_at_rest(VERSION).await?;
            Ok(is_over.then_some(()))
        })
        .await?;
    for node in Api::<Node>::all(stage.client.clone())
        .list(&ListParams::default())
        .await?
        .items
    {
        let spec = node.spec.unwrap_or_default();
        assert_ne!(spec.unschedulable, Some(true));
    }
    stage.strike().await
}

/// The kind by which another operator is to drain is not there: the NodeVersion and `numo doctor` say so, and no machine is made. It comes, and
/// numo goes on; it goes again, and that is said, too.
#[tokio::test]
async fn a_kind_to_drain_by_that_is_not_there_is_told_before_a_machine_is_made() -> Result<()> {
    const NAME: &str = "nodemaintenances.nodemaintenance.medik8s.io";
    let (mut stage, machines) = without_nodes(vec!["--machine-provider", "sim"]).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let mut kind = definitions.get(NAME).await?;
    definitions.delete(NAME, &DeleteParams::default()).await?;
    gone(&stage, &definitions, NAME).await?;
    let group = Group {
        name: "red",
        nodes: &["old-0"],
        ..Group::default()
    };
    machines.group(group).await?;
    apply(&stage, &other_operator()).await?;
    let spec = json!({"image": "img2", "mutex": {"drainBy": "NodeMaintenance"}});
    machines.ask_for(VERSION, spec).await?;
    stage.start_numo()?;
    let says = |words: &'static [&'static str]| {
        let (stage, machines) = (&stage, &machines);
        async move {
            let what = format!("the NodeVersion says {words:?}");
            let says = || async {
                machines.play().await?;
                let version = machines.api("NodeVersion", "nodeversions").get(VERSION).await?;
                let said = version.data["status"].to_string();
                Ok(words.iter().all(|word| said.contains(word)).then_some(()))
            };
            stage.until(&what, 60, says).await
        }
    };
    says(&["MaintenanceNotServed", "does not serve nodemaintenances"]).await?;
    assert_eq!(machines.made().await?.len(), 1, "no machine is made");
    let explained = stage
        .say(&["explain", "nodeversion/constellation-version"])
        .await?;
    assert!(
        explained.contains("does not serve nodemaintenances"),
        "{explained}"
    );
    let found = stage.call(&["doctor"]).await?;
    let tells = "NodeVersion constellation-version spec.mutex.drainBy: found NodeMaintenance";
    assert!(found.out.replace('\n', " ").contains(tells), "{found:?}");

    kind.metadata.resource_version = None;
    kind.metadata.uid = None;
    definitions.create(&PostParams::default(), &kind).await?;
    stage
        .until("a machine is made", 90, || async {
            machines.play().await?;
            Ok((machines.made().await?.len() > 1).then_some(()))
        })
        .await?;
    definitions.delete(NAME, &DeleteParams::default()).await?;
    says(&["nodemaintenances cannot be listed any more"]).await?;
    assert!(machines.shown().await?.contains_key("old-0"));
    stage.strike().await
}
