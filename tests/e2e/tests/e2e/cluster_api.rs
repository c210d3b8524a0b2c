//! Machines of Cluster API, replaced by its provider as a component: in the sandbox, with the grants and the rights of the example, and no others;
//! the API server is real, and Cluster API's controllers are played.

use anyhow::{Context, Result, ensure};
use numo_e2e::{
    NAMESPACE, Numo, Proxy, Stage, StageOptions, Withheld,
    cluster_api::{ClusterApi, DELETE, PLACE, annotation, configuration, role, text},
    machines::Machines,
    manifests, rules,
};
use numo_world::WorldSpec;
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path, sync::atomic::Ordering};

use crate::workers;

/// The NodeVersion of all tests.
const VERSION: &str = "constellation-version";
/// Where Cluster API is kept from acting on a group.
const PAUSED: &str = "cluster.x-k8s.io/paused";
/// What the provider has done to a group.
const LEDGER: &str = "numo.openshift-optional.skrzypek.io/machine-ledger";

/// A cluster without a control plane of its own: two workers of one group, which numo is to give another image.
struct Scene {
    stage: Stage,
    machines: Machines,
    capi: ClusterApi,
    /// Arguments of numo.
    arguments: Vec<&'static str>,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// The group runs, and numo does not.
    async fn set() -> Result<Self> {
        let world = WorldSpec {
            masters: 0,
            topology: "External".to_owned(),
            ..workers(0)
        };
        let stage = Stage::set(StageOptions {
            world,
            without_numo: true,
            machines: true,
            ..StageOptions::default()
        })
        .await?;
        let machines = Machines::of(stage.client.clone());
        let capi = ClusterApi::of(stage.client.clone());
        capi.install().await?;
        capi.group("workers", 2, &["image-1", "image-2"]).await?;
        let folder = tempfile::tempdir()?;
        // For as long as the process lives.
        let config: &'static str = component(folder.path()).await?.leak();
        let scene = Self {
            stage,
            machines,
            capi,
            arguments: vec![
                // A pod keeps its name when its container is started again, and so its place as the leader.
                "--identity",
                "numo-0",
                "--machine-provider",
                "component",
                "--machine-provider-config",
                config,
            ],
            _folder: folder,
        };
        scene
            .stage
            .until("two workers run", 60, || async {
                scene.play().await?;
                Ok((scene.capi.node_names().await?.len() == 2).then_some(()))
            })
            .await?;
        Ok(scene)
    }

    fn start(&self, kubeconfig: &Path) -> Result<Numo> {
        self.stage.numo_of(kubeconfig, &self.arguments)
    }

    async fn ask_for(&self, more: Value) -> Result<()> {
        let mut spec = json!({"image": "image-2"});
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        self.machines.ask_for(VERSION, spec).await
    }

    /// Cluster API goes one step further, and kubelets say that they are there.
    async fn play(&self) -> Result<()> {
        self.capi.play().await?;
        self.beat().await
    }

    async fn beat(&self) -> Result<()> {
        for node in self.capi.node_names().await? {
            self.machines.beat(&node).await?;
        }
        Ok(())
    }

    async fn group(&self) -> Result<Value> {
        Ok(serde_json::to_value(
            self.capi.api("MachineDeployment").get("workers").await?,
        )?)
    }

    async fn replicas(&self) -> Result<i64> {
        let group = self.group().await?;
        group["spec"]["replicas"].as_i64().context("spec.replicas")
    }

    /// Names of the Machines that nobody deletes.
    async fn staying(&self) -> Result<BTreeSet<String>> {
        let machines = self.capi.all("Machine").await?;
        let staying = machines
            .iter()
            .filter(|machine| text(machine, "/metadata/deletionTimestamp").is_empty());
        Ok(staying
            .map(|machine| text(machine, "/metadata/name").to_owned())
            .collect())
    }

    /// What the NodeVersion says of itself.
    async fn said(&self) -> Result<String> {
        let version = self
            .machines
            .api("NodeVersion", "nodeversions")
            .get(VERSION)
            .await?;
        Ok(version.data["status"].to_string())
    }

    /// Waits until it says so.
    async fn says(&self, words: &[&str], numo: &Numo) -> Result<()> {
        let what = format!("numo says {words:?}");
        let said = self.stage.until(&what, 120, || async {
            self.beat().await?;
            let said = self.said().await?;
            let missing = words.iter().find(|word| !said.contains(**word));
            ensure!(missing.is_none(), "no {missing:?} in {said}");
            Ok(Some(()))
        });
        said.await.with_context(|| end_of(numo))
    }

    /// Whether the group has as many replicas as at first, and nobody holds it.
    async fn is_released_machine(&self) -> Result<()> {
        let group = self.group().await?;
        ensure!(group["spec"]["replicas"] == 2, "{group:#}");
        ensure!(annotation(&group, PAUSED).is_none(), "{group:#}");
        let ledger = annotation(&group, LEDGER).context("a ledger")?;
        ensure!(!ledger.contains("\"hold\""), "{ledger}");
        Ok(())
    }

    /// Waits until both nodes have the image, and looks that nothing is left over.
    async fn rolled(&self, numo: &Numo) -> Result<()> {
        let rolled = self.stage.until("both nodes are replaced", 400, || async {
            self.play().await?;
            let images = self.capi.images().await?;
            let is_new = images.len() == 2 && images.iter().all(|(_, image)| image == "image-2");
            ensure!(is_new, "{images:?}");
            Ok(self.machines.is_at_rest(VERSION).await?.then_some(()))
        });
        if let Err(error) = rolled.await {
            return Err(error.context(format!("{}\n{}", self.said().await?, end_of(numo))));
        }
        self.is_released_machine().await?;
        ensure!(self.staying().await?.len() == 2 && self.capi.node_names().await?.len() == 2);
        let sets = self.capi.all("MachineSet").await?;
        let wanted: i64 = sets
            .iter()
            .filter_map(|set| set["spec"]["replicas"].as_i64())
            .sum();
        ensure!(wanted == 2, "{sets:#?}");
        for machine in self.capi.all("Machine").await? {
            ensure!(annotation(&machine, DELETE).is_none(), "{machine:#}");
        }
        Ok(())
    }
}

/// The last that numo wrote.
fn end_of(numo: &Numo) -> String {
    let log = numo.log();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// The configuration of the provider as a component.
async fn component(folder: &Path) -> Result<String> {
    let built = rules::components(&["provider-cluster-api"]).await?;
    let config = configuration(&built.join("provider-cluster-api.wasm"))?;
    let file = folder.join("provider.yaml");
    std::fs::write(&file, config.to_string())?;
    Ok(file.display().to_string())
}

/// Calls of the provider in the midst of which numo dies: before the API server has stored what is written, or after.
const DEATHS: [(&str, bool); 6] = [
    ("/machinedeployments/", true),
    ("/machinedeployments/", false),
    ("/machinedeployments/", true),
    ("/machines/", false),
    ("/machines/", true),
    ("/machinedeployments/", true),
];

/// The whole numo, with no rights but those of its base, of the component `node-version` and of the example. It dies in the midst of calls, and no
/// machine is made or deleted twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_deployment_rolls_to_a_new_image_though_numo_dies_in_calls() -> Result<()> {
    let scene = Scene::set().await?;
    let proxy = Proxy::open(scene.stage.numo_kubeconfig(), None).await?;
    scene.ask_for(json!({})).await?;
    let mut numo = scene.start(&proxy.kubeconfig())?;
    for (path, is_stored) in DEATHS {
        proxy.withhold(Some(Withheld {
            method: "PATCH",
            path,
            is_stored,
        }));
        let what = format!("a write to {path}");
        let dies = scene.stage.until(&what, 200, || async {
            scene.play().await?;
            ensure!(
                scene.staying().await?.len() <= 3,
                "one machine more than there were"
            );
            Ok((proxy.withheld() > 0).then_some(()))
        });
        if let Err(error) = dies.await {
            return Err(error.context(format!("{}\n{}", scene.said().await?, end_of(&numo))));
        }
        numo.kill().await?;
        proxy.withhold(None);
        numo = scene.start(&proxy.kubeconfig())?;
    }
    scene.rolled(&numo).await?;
    assert_eq!(numo.stop().await?, Some(0));
    // No request went beyond numo's rights.
    scene.stage.strike().await
}

/// A machine that gets no instance is given up, and goes by the id that it has until then: it, and none of those that run.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_never_boots_is_deleted_and_no_other() -> Result<()> {
    let scene = Scene::set().await?;
    let old = scene.staying().await?;
    scene.capi.is_exhausted.store(true, Ordering::Relaxed);
    scene.ask_for(json!({"joinTimeoutSeconds": 60})).await?;
    let numo = scene.start(scene.stage.numo_kubeconfig())?;
    let made = scene.stage.until("a machine is made", 120, || async {
        scene.play().await?;
        let there = scene.staying().await?;
        Ok((there.len() == 3).then_some(there))
    });
    let mut new = made.await.with_context(|| end_of(&numo))?;
    new.retain(|name| !old.contains(name));
    let goes = scene.stage.until("it is given up", 120, || async {
        scene.play().await?;
        let there = scene.staying().await?;
        ensure!(old.is_subset(&there), "one that ran has gone: {there:?}");
        if !new.is_disjoint(&there) {
            return Ok(None);
        }
        scene.is_released_machine().await.map(Some)
    });
    if let Err(error) = goes.await {
        return Err(error.context(format!("{}\n{}", scene.said().await?, end_of(&numo))));
    }
    assert_eq!(scene.staying().await?, old);
    assert_eq!(numo.stop().await?, Some(0));
    scene.stage.strike().await
}

/// What numo's ServiceAccount may not is said with the object and the verb, and nothing is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_lacks_is_told_with_object_and_verb() -> Result<()> {
    let mut scene = Scene::set().await?;
    let mut role = role()?;
    role[0]["rules"][0]["verbs"] = json!(["get", "list"]);
    manifests::apply(&scene.stage.client, &role, PLACE).await?;
    let old = scene.staying().await?;
    scene.ask_for(json!({})).await?;
    let numo = scene.start(scene.stage.numo_kubeconfig())?;
    let account = format!("system:serviceaccount:{NAMESPACE}:numo");
    let words = [
        "ProviderUnavailable",
        "Denied:",
        "MachineDeployment capi/workers",
        "cannot patch resource \\\"machinedeployments\\\"",
        account.as_str(),
    ];
    scene.says(&words, &numo).await?;
    assert_eq!((scene.staying().await?, scene.replicas().await?), (old, 2));
    assert_eq!(numo.stop().await?, Some(0));
    // It tried.
    scene.stage.may_lack_rights = true;
    scene.stage.strike().await
}

/// While the API server serves the kind of the machines in no version that the provider reads, none of them is gone: nothing is made or deleted, and the
/// cause is said. Then it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_not_gone_while_its_kind_is_not_served() -> Result<()> {
    let scene = Scene::set().await?;
    scene.ask_for(json!({})).await?;
    let numo = scene.start(scene.stage.numo_kubeconfig())?;
    let raised = scene.stage.until("a machine is asked for", 120, || async {
        scene.play().await?;
        Ok((scene.staying().await?.len() == 3).then_some(()))
    });
    raised.await.with_context(|| end_of(&numo))?;
    let there = scene.staying().await?;
    scene.capi.serve("machines", false).await?;
    let words = [
        "ProviderUnavailable",
        "the cluster does not serve cluster.x-k8s.io/v1beta1 Machine",
    ];
    scene.says(&words, &numo).await?;
    scene.capi.serve("machines", true).await?;
    let still = scene
        .stage
        .until("they are served again", 30, || async {
            Ok(Some(scene.staying().await?))
        })
        .await?;
    assert_eq!((still, scene.replicas().await?), (there, 3));
    scene.rolled(&numo).await?;
    assert_eq!(numo.stop().await?, Some(0));
    scene.stage.strike().await
}
