//! Machines of the provider `sim`, played: its ConfigMaps boot, join as Nodes, and go when numo has them deleted; and what all machines are
//! as Nodes, whoever makes them. The tests and the demo have them from here.

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingAdmissionPolicy,
    core::v1::{ConfigMap, Node},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{NAMESPACE, Stage, StageOptions, manifests, rules};
use numo_world::{PoolSpec, WorldSpec};

const COMPONENT: &str = "deploy/kustomize/components/node-version";
const SIM: &str = "deploy/kustomize/components/node-version-sim";
const GROUP: &str = "update.edgeless.systems";
/// Annotation of nodes: the image of their machine.
const IMAGE: &str = "constellation.edgeless.systems/node-image";
/// Label of the ConfigMaps: `machine` or `group`.
const PART: &str = "numo.openshift-optional.skrzypek.io/sim";
/// Annotation of nodes that new ones may get of old ones.
pub const OWNER: &str = "example.com/owner";

/// A group of machines as it is at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Group<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether its nodes are the control plane.
    pub is_control_plane: bool,
    /// Names of its nodes.
    pub nodes: &'a [&'a str],
    /// Their InternalIPs; those that are not named get one of nobody's.
    pub addresses: &'a [String],
}

/// How long a node is believed for a beat: the node controller takes it for lost after 40 s.
const BEAT: Duration = Duration::from_secs(5);

/// A node that a machine stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Image of its machine.
    pub image: String,
    /// Its label `team`: the group of the node whose place it has.
    pub team: String,
}

/// A machine as the Node that it becomes.
#[derive(Clone, Copy, Debug)]
pub struct Booted<'a> {
    /// Name of the Node.
    pub node: &'a str,
    /// Its `spec.providerID`.
    pub provider_id: &'a str,
    /// Whether it is of the control plane.
    pub is_control_plane: bool,
    /// Its InternalIP; none is the one that was placed (`place_next`), or one of nobody's.
    pub address: Option<&'a str>,
}

/// A cluster with the kinds and without nodes, in which numo does not run yet, with arguments of `numo run`.
pub async fn without_nodes(numo: Vec<&'static str>) -> Result<(Stage, Machines)> {
    let world = WorldSpec {
        masters: 0,
        topology: "External".to_owned(),
        pools: vec![PoolSpec::new("worker", 0)],
        ..WorldSpec::default()
    };
    // The kinds are there before numo begins to look for them.
    let stage = Stage::set(StageOptions {
        world,
        numo,
        without_numo: true,
        machines: true,
        ..StageOptions::default()
    })
    .await?;
    let machines = Machines::of(stage.client.clone());
    machines.install_sim().await?;
    Ok((stage, machines))
}

/// Writes the configuration of a provider that ships, as a component (`provider-sim`), into a folder; the arguments of `numo run` that name it.
pub async fn component(folder: &Path, name: &str, mut config: Value) -> Result<Vec<String>> {
    let built = rules::components(&[name]).await?;
    config["component"] = json!({"file": built.join(format!("{name}.wasm"))});
    let file = folder.join("provider.yaml");
    std::fs::write(&file, config.to_string())?;
    let words = ["--machine-provider", "component", "--machine-provider-config"];
    let mut arguments: Vec<String> = words.map(str::to_owned).into();
    arguments.push(file.to_str().context("a path in UTF-8")?.to_owned());
    Ok(arguments)
}

/// The machines of a cluster.
pub struct Machines {
    client: Client,
    /// Addresses that were given away.
    addresses: AtomicU16,
    /// The address of the next node of the control plane that joins; none is one of nobody's.
    next: Mutex<Option<String>>,
    /// When each node has beaten last.
    beaten: Mutex<BTreeMap<String, Instant>>,
}

impl std::fmt::Debug for Machines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machines")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl Machines {
    /// Those of a client's cluster.
    pub fn of(client: Client) -> Self {
        Self {
            client,
            addresses: AtomicU16::new(0),
            next: Mutex::default(),
            beaten: Mutex::default(),
        }
    }

    /// The next node of the control plane that joins will have this InternalIP.
    pub fn place_next(&self, address: String) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }

    /// The objects of one of the kinds of `update.edgeless.systems`.
    pub fn api(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(GROUP, "v1alpha1", kind);
        Api::all_with(
            self.client.clone(),
            &ApiResource::from_gvk_with_plural(&gvk, plural),
        )
    }

    /// The machines at their provider.
    pub async fn made(&self) -> Result<Vec<ConfigMap>> {
        let params = ListParams::default().labels(&format!("{PART}=machine"));
        Ok(self.maps().list(&params).await?.items)
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// All Nodes.
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    async fn apply(&self, object: Value) -> Result<()> {
        manifests::apply(&self.client, &[object], NAMESPACE).await
    }

    /// Installs the component, and lets numo keep the ConfigMaps of its simulated machines.
    pub async fn install(&self) -> Result<()> {
        self.install_kinds().await?;
        self.install_sim().await
    }

    /// Lets numo keep the ConfigMaps of its simulated machines.
    async fn install_sim(&self) -> Result<()> {
        let role = std::fs::read_to_string(manifests::root().join(SIM).join("role.yaml"))?;
        manifests::apply(&self.client, &manifests::parse(&role)?, NAMESPACE).await
    }

    /// Installs the component. [`StageOptions::machines`] finds it in the control plane.
    pub(crate) async fn install_kinds(&self) -> Result<()> {
        let folder = manifests::root().join(COMPONENT);
        let text = std::fs::read_to_string(folder.join("kustomization.yaml"))?;
        let listed: Value = serde_saphyr::from_str(&text)?;
        // What is no object of its own is a patch.
        let resources = listed["resources"].as_array().context("resources")?;
        for name in resources.iter().filter_map(Value::as_str) {
            let path = folder.join(name);
            let text = std::fs::read_to_string(&path)?;
            let objects = manifests::parse(&text)?;
            let applied = manifests::apply(&self.client, &objects, NAMESPACE).await;
            applied.with_context(|| path.display().to_string())?;
        }
        self.allow().await
    }

    /// The policy of Nodes as the component makes it, and what new nodes get of old ones.
    async fn allow(&self) -> Result<()> {
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
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.client.clone());
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
        policies
            .patch("numo-nodes", &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Applies a NodeVersion.
    pub async fn ask_for(&self, name: &str, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": format!("{GROUP}/v1alpha1"),
            "kind": "NodeVersion",
            "metadata": {"name": name},
            "spec": spec,
        });
        self.apply(object).await
    }

    /// Makes a group, and a machine with its node for each of its nodes, with image `img1`.
    pub async fn group(&self, group: Group<'_>) -> Result<()> {
        let part = |part: &str| json!({ PART: part });
        let name = group.name;
        let role = if group.is_control_plane {
            "ControlPlane"
        } else {
            "Worker"
        };
        let of_group = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": part("group")},
            "data": {"image": "img1", "role": role, "autoscaler": name, "name": name},
        });
        self.apply(of_group).await?;
        for (place, node) in group.nodes.iter().enumerate() {
            let machine = format!("machine-{node}");
            let data = json!({"image": "img1", "group": name, "node": node, "state": "Ready"});
            let of_machine = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": machine, "labels": part("machine")}, "data": data,
            });
            self.apply(of_machine).await?;
            let provider_id = format!("sim:///{machine}");
            let booted = Booted {
                node,
                provider_id: &provider_id,
                is_control_plane: group.is_control_plane,
                address: group.addresses.get(place).map(String::as_str),
            };
            self.boot(booted).await?;
            let taints = json!([{"key": "dedicated", "value": name, "effect": "NoSchedule"}]);
            let patch = json!({
                "metadata": {"labels": {"team": name}, "annotations": {OWNER: name}},
                "spec": {"taints": taints},
            });
            self.nodes()
                .patch(node, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
        }
        Ok(())
    }

    /// Plays the machines once: those that are being made boot and join, those that are being deleted go.
    pub async fn play(&self) -> Result<()> {
        for map in self.made().await? {
            let name = map.name_any();
            let data = map.data.clone().unwrap_or_default();
            match data.get("state").map(String::as_str) {
                Some("Terminating") => {
                    self.maps().delete(&name, &DeleteParams::default()).await?;
                }
                Some("Creating") => {
                    let node = data.get("node").context("a node")?;
                    let group = data.get("group").context("a group")?;
                    let of_group = self.maps().get(group).await?.data.unwrap_or_default();
                    let is_control_plane = of_group.get("role").is_some_and(|role| role == "ControlPlane");
                    let provider_id = format!("sim:///{name}");
                    let booted = Booted {
                        node,
                        provider_id: &provider_id,
                        is_control_plane,
                        address: None,
                    };
                    self.boot(booted).await?;
                    self.set(&name, "state", "Ready").await?;
                }
                _ => {}
            }
        }
        self.beat_all().await
    }

    /// Every Node beats once.
    pub async fn beat_all(&self) -> Result<()> {
        for node in self.nodes().list(&ListParams::default()).await?.items {
            self.beat(&node.name_any()).await?;
        }
        Ok(())
    }

    /// Says something else of a machine.
    pub async fn set(&self, machine: &str, key: &str, value: &str) -> Result<()> {
        let patch = json!({"data": {key: value}});
        self.maps()
            .patch(machine, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// What a kubelet says again and again: its node would else be taken for lost. It says nothing where it has just said so.
    pub async fn beat(&self, name: &str) -> Result<()> {
        if self.is_silent(name) {
            self.say_ready(name).await
        } else {
            Ok(())
        }
    }

    /// Whether a node has not beaten for a while.
    fn is_silent(&self, name: &str) -> bool {
        let beaten = self.beaten.lock().unwrap_or_else(PoisonError::into_inner);
        beaten.get(name).is_none_or(|at| at.elapsed() >= BEAT)
    }

    fn note_beat(&self, name: &str) {
        let mut beaten = self.beaten.lock().unwrap_or_else(PoisonError::into_inner);
        beaten.insert(name.to_owned(), Instant::now());
    }

    fn take_next(&self) -> Option<String> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn say_ready(&self, name: &str) -> Result<()> {
        self.note_beat(name);
        let status = json!({"status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it plays",
            "lastHeartbeatTime": Timestamp::now().to_string(), "lastTransitionTime": null,
        }]}});
        let beaten = self
            .nodes()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
            .await;
        match beaten {
            // It was let go meanwhile.
            Err(kube::Error::Api(error)) if error.code == 404 => Ok(()),
            done => done.map(drop).map_err(Into::into),
        }
    }

    /// A machine becomes a Node, if it is none yet.
    pub async fn boot(&self, booted: Booted<'_>) -> Result<()> {
        let Booted {
            node: name,
            provider_id,
            is_control_plane,
            address,
        } = booted;
        let role = if is_control_plane {
            "control-plane"
        } else {
            "worker"
        };
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, format!("node-role.kubernetes.io/{role}"): "",
            }},
            "spec": {"providerID": provider_id},
        });
        if self.nodes().get_opt(name).await?.is_none() {
            self.apply(node).await?;
        }
        let placed = || is_control_plane.then(|| self.take_next()).flatten();
        let address = address.map(str::to_owned).or_else(placed);
        let address = address.unwrap_or_else(|| {
            let [high, low] = self.addresses.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            // A range for benchmarks: nothing is there.
            format!("198.18.{high}.{low}")
        });
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        self.nodes()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
            .await?;
        if is_control_plane {
            self.apply(etcd_pod(name)).await?;
        }
        self.say_ready(name).await
    }

    /// Every node that a machine stands for, by name.
    pub async fn shown(&self) -> Result<BTreeMap<String, Shown>> {
        let nodes = self.nodes().list(&ListParams::default()).await?.items;
        let of_machines = nodes
            .into_iter()
            .filter(|node| node.spec.as_ref().is_some_and(|spec| spec.provider_id.is_some()));
        let shown = |node: Node| {
            let image = node.annotations().get(IMAGE).cloned().unwrap_or_default();
            let team = node.labels().get("team").cloned().unwrap_or_default();
            (node.name_any(), Shown { image, team })
        };
        Ok(of_machines.map(shown).collect())
    }

    /// Whether a NodeVersion says that every node is as it asks, and nothing is under way.
    pub async fn is_at_rest(&self, name: &str) -> Result<bool> {
        let version = self.api("NodeVersion", "nodeversions").get(name).await?;
        let conditions = version.data.pointer("/status/conditions").cloned();
        let conditions = conditions.unwrap_or_default();
        let is_ready =
            |one: &Value| one["type"] == "Ready" && one["status"] == "True" && one["reason"] == "UpToDate";
        let is_done = conditions.as_array().into_iter().flatten().any(is_ready);
        let pending = self.api("PendingNode", "pendingnodes");
        Ok(is_done && pending.list(&ListParams::default()).await?.items.is_empty())
    }
}

/// The static pod of etcd on a node of the control plane: by it the node counts as a member.
fn etcd_pod(node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("etcd-{node}"),
            "namespace": "kube-system",
            "labels": {"component": "etcd", "tier": "control-plane"},
            // A kubelet's own: no drain evicts it.
            "annotations": {"kubernetes.io/config.mirror": node},
        },
        "spec": {"nodeName": node, "containers": [{"name": "etcd", "image": "etcd"}]},
    })
}
