//! Bad input around machines that are replaced: each is said in a condition and an event, no machine is made or deleted for it, and once it is
//! mended all is as it was. What a cloud has against it (no such image, no credentials, no right, no quota) is in `clouds.rs` and `gcp.rs`.

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use numo_api::{machines::annotations, marks};
use numo_e2e::{
    Stage,
    machines::{Booted, Group, Machines, without_nodes},
    manifests,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::{
    handed_over::{AUTOSCALER, autoscaler},
    replace::{VERSION, begun},
};

/// Three nodes whose machines are as is asked for: nothing is to be done.
struct Scene {
    stage: Stage,
    machines: Machines,
}

impl Scene {
    async fn set() -> Result<Self> {
        let (mut stage, machines) = without_nodes(vec!["--machine-provider", "sim"]).await?;
        let group = Group {
            name: "red",
            nodes: &["old-0", "old-1", "old-2"],
            ..Group::default()
        };
        machines.group(group).await?;
        machines.ask_for(VERSION, json!({"image": "img1"})).await?;
        stage.start_numo()?;
        let scene = Self { stage, machines };
        scene.is_well().await?;
        Ok(scene)
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let plural = match kind {
            "AutoscalingStrategy" => "autoscalingstrategies".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        self.machines.api(kind, &plural)
    }

    async fn status(&self) -> Result<Value> {
        Ok(self.api("NodeVersion").get(VERSION).await?.data["status"].clone())
    }

    /// Waits until nothing is wrong, and all nodes have what is asked for.
    async fn is_well(&self) -> Result<()> {
        let ready = |status: &Value| {
            let all = status["conditions"].as_array().cloned().unwrap_or_default();
            all.iter()
                .any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        let well = self
            .stage
            .until("nothing is wrong", 120, || async {
                self.machines.beat_all().await?;
                Ok(ready(&self.status().await?).then_some(()))
            })
            .await;
        match well {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.status().await?.to_string())),
        }
    }

    /// Waits until the words stand in a condition of the NodeVersion.
    async fn told(&self, words: &[&str]) -> Result<()> {
        let told = self
            .stage
            .until(&format!("a condition with {words:?}"), 120, || async {
                self.machines.beat_all().await?;
                let conditions = self.status().await?["conditions"].to_string();
                let conditions = conditions.replace("\\\"", "\"");
                Ok(words.iter().all(|word| conditions.contains(word)).then_some(()))
            })
            .await;
        match told {
            Ok(()) => self.announced(words).await,
            Err(error) => Err(error.context(self.status().await?.to_string())),
        }
    }

    /// Waits until an event has the words.
    async fn announced(&self, words: &[&str]) -> Result<()> {
        self.stage
            .until(&format!("an event with {words:?}"), 60, || async {
                let events = self.stage.events().await?.into_iter();
                let mut said = events.map(|event| {
                    let reason = event.reason.unwrap_or_default();
                    format!("{reason} {}", event.note.unwrap_or_default())
                });
                let has_all = said.any(|said| words.iter().all(|word| said.contains(word)));
                Ok(has_all.then_some(()))
            })
            .await
    }

    /// Merges this into an object.
    async fn patch(&self, kind: &str, name: &str, patch: Value) -> Result<()> {
        let patch = Patch::Merge(patch);
        self.api(kind)
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn note(&self, node: &str, notes: Value) -> Result<()> {
        let patch = json!({"metadata": {"annotations": notes}});
        let nodes = self.machines.nodes();
        nodes
            .patch(node, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    async fn make(&self, kind: &str, name: &str, spec: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "update.edgeless.systems/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        }))?;
        self.api(kind).create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        self.api(kind).delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Machines with their states, and the nodes.
    async fn fleet(&self) -> Result<(BTreeMap<String, String>, Vec<String>)> {
        let made = self.machines.made().await?.into_iter();
        let state = |data: Option<BTreeMap<String, String>>| data?.get("state").cloned();
        let made = made.map(|map| (map.name_any(), state(map.data).unwrap_or_default()));
        Ok((made.collect(), self.machines.shown().await?.into_keys().collect()))
    }
}

#[tokio::test]
async fn bad_input_around_machines_ends_in_a_condition_and_an_event_and_deletes_nothing() -> Result<()> {
    let scene = Scene::set().await?;
    let before = scene.fleet().await?;

    // Sizes that cannot be.
    let sizes = |min: i64, max: i64| json!({"spec": {"min": min, "max": max}});
    scene.patch("ScalingGroup", "red", sizes(5, 1)).await?;
    scene
        .told(&[
            "InvalidField",
            "ScalingGroup red spec.min: found 5 with spec.max 1",
        ])
        .await?;
    scene.patch("ScalingGroup", "red", sizes(1, 10)).await?;
    scene.is_well().await?;

    // A group that nobody has, of a node that is to be replaced.
    let of_group = |group: &str, image: &str| {
        let (in_group, with) = (annotations::SCALING_GROUP_ID, annotations::NODE_IMAGE);
        json!({in_group: group, with: image})
    };
    scene.note("old-1", of_group("nobody", "img0")).await?;
    scene
        .told(&[
            "ScalingGroupNotFound",
            "found no ScalingGroup with spec.groupId \"nobody\"",
        ])
        .await?;
    scene.note("old-1", of_group("red", "img1")).await?;
    scene.is_well().await?;

    // A provider, or a person, that gives a machine that serves for one that is to go; and one machine for two requests.
    let leaving = |node: &str, machine: &str| json!({"providerID": format!("sim:///{machine}"), "groupID": "red", "nodeName": node, "goal": "Leave"});
    scene
        .make("PendingNode", "liar", leaving("gone", "machine-old-0"))
        .await?;
    scene
        .told(&[
            "ProviderContradicts",
            "PendingNode liar",
            "it is that of Node old-0",
        ])
        .await?;
    scene.delete("PendingNode", "liar").await?;
    scene.is_well().await?;
    for name in ["one", "two"] {
        scene
            .make("PendingNode", name, leaving("gone", "machine-nobody"))
            .await?;
    }
    scene
        .told(&["ProviderContradicts", "PendingNode two has it too"])
        .await?;
    scene.delete("PendingNode", "one").await?;
    scene.delete("PendingNode", "two").await.ok();
    scene.is_well().await?;

    // Deadlines that are over.
    let late = "2020-01-01T00:00:00Z";
    let joining =
        json!({"name": "nobody-0", "componentsreference": "c1", "iscontrolplane": false, "deadline": late});
    scene.make("JoiningNode", "late", joining).await?;
    scene
        .announced(&["JoinFailed", "JoiningNode late: found no Node nobody-0 by 2020"])
        .await?;
    let mut joins = leaving("nobody-1", "machine-nobody");
    joins["goal"] = json!("Join");
    joins["deadline"] = json!(late);
    scene.make("PendingNode", "late", joins).await?;
    scene
        .announced(&["JoinFailed", "machine-nobody of PendingNode late did not join"])
        .await?;
    scene.is_well().await?;
    ensure!(
        scene.fleet().await? == before,
        "found {:?}, wanted {before:?}",
        scene.fleet().await?
    );

    // A machine of another cloud's.
    let strange = Booted {
        node: "odd-0",
        provider_id: "aws:///eu-central-1a/i-0123456789abcdef0",
        is_control_plane: false,
        address: None,
    };
    scene.machines.boot(strange).await?;
    scene
        .told(&[
            "odd-0",
            "MachineUnknown",
            "aws:///eu-central-1a/i-0123456789abcdef0",
        ])
        .await?;
    let (made, nodes) = scene.fleet().await?;
    ensure!(made == before.0, "found {made:?}, wanted {:?}", before.0);
    ensure!(
        nodes.contains(&"odd-0".to_owned()),
        "it is left as it is: {nodes:?}"
    );
    let open = scene
        .machines
        .nodes()
        .list(&kube::api::ListParams::default())
        .await?;
    for node in open {
        let is_closed = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        ensure!(!is_closed, "{} is cordoned", node.name_any());
    }
    scene.stage.strike().await
}

/// The AutoscalingStrategy is deleted while the autoscaler rests, and numo is uninstalled before it could start it again. Nobody else would.
#[tokio::test]
async fn an_uninstall_starts_the_autoscaler_whose_strategy_is_gone() -> Result<()> {
    let (mut stage, machines) = without_nodes(vec!["--machine-provider", "sim"]).await?;
    let role = "deploy/kustomize/components/node-version-autoscaler/role.yaml";
    let role = manifests::parse(&std::fs::read_to_string(manifests::root().join(role))?)?;
    manifests::apply(&stage.client, &role, "kube-system").await?;
    let [mut deployment, mut strategy] = autoscaler();
    deployment["spec"]["replicas"] = json!(1);
    strategy["spec"]["enabled"] = json!(true);
    manifests::apply(&stage.client, &[deployment, strategy], "kube-system").await?;
    let group = Group {
        name: "red",
        nodes: &["old-0"],
        ..Group::default()
    };
    machines.group(group).await?;
    machines.ask_for(VERSION, json!({"image": "img2"})).await?;
    stage.start_numo()?;
    begun(&stage, &machines, "old-0").await?;
    let deployments: Api<Deployment> = Api::namespaced(stage.client.clone(), "kube-system");
    let replicas = async || {
        let found = deployments.get(AUTOSCALER).await?;
        anyhow::Ok((
            found.annotations().clone(),
            found.spec.and_then(|spec| spec.replicas),
        ))
    };
    let (noted, running) = replicas().await?;
    ensure!(running == Some(0), "it rests: {running:?}, {noted:?}");

    let strategies = machines.api("AutoscalingStrategy", "autoscalingstrategies");
    strategies
        .delete("autoscalingstrategy", &DeleteParams::default())
        .await?;
    stage.kill_numo().await?;
    let explained = stage.say(&["explain", &format!("nodeversion/{VERSION}")]).await?;
    ensure!(explained.contains("old-0"), "{explained}");
    let words = ["release", "--offline", "--timeout-seconds", "0", "--leave-held"];
    let said = stage.call(&words).await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    let (noted, running) = replicas().await?;
    ensure!(running == Some(1), "{running:?}, {noted:?}: {said:?}");
    ensure!(!noted.contains_key(marks::PRIOR_REPLICAS), "{noted:?}");
    let version = machines.api("NodeVersion", "nodeversions").get(VERSION).await?;
    ensure!(version.finalizers().is_empty(), "{version:?}");
    stage.strike().await
}
