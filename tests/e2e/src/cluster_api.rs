//! Cluster API, played on a real API server: its kinds in the shape in which it publishes them, and its controllers as its book describes them.
//! They act when a test has them act ([`ClusterApi::play`]), one step at a time, so that they lag behind what is asked of them.

use anyhow::{Context, Result};
use k8s_openapi::api::{admissionregistration::v1::ValidatingAdmissionPolicy, core::v1::Node};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{NAMESPACE, manifests};

/// Group of Cluster API.
pub const GROUP: &str = "cluster.x-k8s.io";
/// Group of the cloud's kinds.
const CLOUD: &str = "infrastructure.cluster.x-k8s.io";
/// Version of either.
const VERSION: &str = "v1beta1";
/// Where the objects are, as in the example.
pub const PLACE: &str = "capi";
/// Name of the Cluster, as in the example.
const CLUSTER: &str = "example";
/// The overlay that ships.
const EXAMPLE: &str = "examples/machines/cluster-api";

const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
const PAUSED: &str = "cluster.x-k8s.io/paused";
/// A Machine that is to go first.
pub const DELETE: &str = "cluster.x-k8s.io/delete-machine";
const NO_MACHINES: &str = "cluster.x-k8s.io/disable-machine-create";
const OF_CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
const OF_DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
const CLONED: &str = "cluster.x-k8s.io/cloned-from-name";
const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// The text at a pointer; empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// An annotation, if there is one.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

fn is_going(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

fn replicas(object: &Value) -> i64 {
    number(object, "/spec/replicas")
}

fn revision(set: &Value) -> i64 {
    let revision = annotation(set, REVISION).and_then(|text| text.parse().ok());
    revision.unwrap_or_default()
}

fn template(object: &Value) -> &str {
    text(object, "/spec/template/spec/infrastructureRef/name")
}

/// Cluster API of one cluster.
pub struct ClusterApi {
    client: Client,
    /// Machines that are made get no instance and no Node.
    pub is_exhausted: AtomicBool,
}

impl std::fmt::Debug for ClusterApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterApi").finish_non_exhaustive()
    }
}

impl ClusterApi {
    /// That of a client's cluster.
    pub fn of(client: Client) -> Self {
        Self {
            client,
            is_exhausted: AtomicBool::new(false),
        }
    }

    /// The objects of a kind.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let group = if kind.starts_with("Docker") { CLOUD } else { GROUP };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, VERSION, kind));
        Api::namespaced_with(self.client.clone(), PLACE, &resource)
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// All objects of a kind, by name.
    pub async fn all(&self, kind: &str) -> Result<Vec<Value>> {
        let found = self.api(kind).list(&ListParams::default()).await?.items;
        let found = found.into_iter().map(serde_json::to_value);
        Ok(found.collect::<Result<_, _>>()?)
    }

    async fn owned(&self, kind: &str, owner: &str) -> Result<Vec<Value>> {
        let mut owned = self.all(kind).await?;
        owned.retain(|object| text(object, "/metadata/ownerReferences/0/uid") == owner);
        Ok(owned)
    }

    async fn apply(&self, object: Value) -> Result<()> {
        manifests::apply(&self.client, &[object], PLACE).await
    }

    async fn merge(&self, kind: &str, name: &str, patch: Value) -> Result<()> {
        let params = PatchParams::default();
        let patch = Patch::Merge(&patch);
        self.api(kind).patch(name, &params, &patch).await?;
        Ok(())
    }

    async fn merge_status(&self, object: &Value, kind: &str, status: Value) -> Result<()> {
        let fields = status.as_object().into_iter().flatten();
        let mut changed = fields.filter(|(key, value)| object["status"].get(key.as_str()) != Some(value));
        if changed.next().is_none() {
            return Ok(());
        }
        let patch = json!({ "status": status });
        let params = PatchParams::default();
        let patch = Patch::Merge(&patch);
        self.api(kind).patch_status(name(object), &params, &patch).await?;
        Ok(())
    }

    /// Installs the kinds, and what the example gives numo: its Role and its word in numo's own policy. Nothing else.
    pub async fn install(&self) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}});
        let mut objects = vec![namespace];
        objects.extend(definitions());
        manifests::apply(&self.client, &objects, PLACE).await?;
        manifests::apply(&self.client, &role()?, PLACE).await?;
        let file = manifests::root().join(EXAMPLE).join("kustomization.yaml");
        let overlay: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
        let patch: Value = serde_saphyr::from_str(text(&overlay, "/patches/0/patch"))?;
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.client.clone());
        let policy = text(&overlay, "/patches/0/target/name");
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
        policies.patch(policy, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Makes templates of these images, and a MachineDeployment of the first of them.
    pub async fn group(&self, name: &str, replicas: i64, images: &[&str]) -> Result<()> {
        for image in images {
            let template = json!({
                "apiVersion": format!("{CLOUD}/{VERSION}"), "kind": "DockerMachineTemplate", "metadata": {"name": image},
                "spec": {"template": {"spec": {}}},
            });
            self.apply(template).await?;
        }
        let labels = json!({OF_CLUSTER: CLUSTER, OF_DEPLOYMENT: name});
        self.apply(json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "MachineDeployment",
            "metadata": {"name": name, "labels": {OF_CLUSTER: CLUSTER}},
            "spec": {
                "clusterName": CLUSTER, "replicas": replicas, "strategy": {"type": "OnDelete"},
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "clusterName": CLUSTER, "version": "v1.34.0",
                    "bootstrap": {"dataSecretName": "none"},
                    "infrastructureRef": {"apiVersion": format!("{CLOUD}/{VERSION}"), "kind": "DockerMachineTemplate", "name": images[0]},
                }},
            },
        }))
        .await
    }

    /// Whether a version of a kind is served.
    pub async fn serve(&self, plural: &str, is_served: bool) -> Result<()> {
        let mut definition = definitions().into_iter();
        let definition = definition.find(|one| text(one, "/spec/names/plural") == plural);
        let mut definition = definition.context("a kind")?;
        definition["spec"]["versions"][0]["served"] = json!(is_served);
        self.apply(definition).await
    }

    /// Every controller acts once.
    pub async fn play(&self) -> Result<()> {
        for deployment in self.all("MachineDeployment").await? {
            if annotation(&deployment, PAUSED).is_none() {
                self.play_deployment(&deployment).await?;
            }
        }
        for set in self.all("MachineSet").await? {
            self.play_set(&set).await?;
        }
        for machine in self.all("Machine").await? {
            self.play_machine(&machine).await?;
        }
        Ok(())
    }

    async fn scale(&self, set: &Value, to: i64) -> Result<()> {
        self.merge("MachineSet", name(set), json!({"spec": {"replicas": to}}))
            .await
    }

    /// A MachineDeployment of the strategy OnDelete: the newest MachineSet gets what lacks, the older ones lose what is too much.
    async fn play_deployment(&self, deployment: &Value) -> Result<()> {
        let sets = self.owned("MachineSet", uid(deployment)).await?;
        let last = sets.iter().map(revision).max().unwrap_or_default();
        let newest = sets.iter().find(|set| template(set) == template(deployment));
        let Some(newest) = newest else {
            return self.make_set(deployment, last + 1).await;
        };
        for old in sets.iter().filter(|set| uid(set) != uid(newest)) {
            if annotation(old, NO_MACHINES).is_none() {
                let note = json!({"metadata": {"annotations": {NO_MACHINES: "true"}}});
                self.merge("MachineSet", name(old), note).await?;
            }
        }
        let mut surplus = sets.iter().map(replicas).sum::<i64>() - replicas(deployment);
        if surplus < 0 {
            self.scale(newest, replicas(newest) - surplus).await?;
        }
        let mut order: Vec<_> = sets.iter().collect();
        // The older ones first; the newest only if they do not do.
        order.sort_by_key(|set| (uid(set) == uid(newest), revision(set)));
        for set in order {
            let goes = surplus.clamp(0, replicas(set));
            if goes > 0 {
                self.scale(set, replicas(set) - goes).await?;
            }
            surplus -= goes;
        }
        let machines: i64 = sets.iter().map(|set| number(set, "/status/replicas")).sum();
        let seen = number(deployment, "/metadata/generation");
        let status = json!({"observedGeneration": seen, "replicas": machines});
        self.merge_status(deployment, "MachineDeployment", status).await
    }

    async fn make_set(&self, deployment: &Value, revision: i64) -> Result<()> {
        let labels = json!({OF_CLUSTER: CLUSTER, OF_DEPLOYMENT: name(deployment)});
        self.apply(json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "MachineSet",
            "metadata": {
                "name": format!("{}-{}", name(deployment), &random(revision)[..5]), "labels": labels,
                "annotations": {REVISION: revision.to_string()}, "ownerReferences": owner(deployment),
            },
            "spec": {
                "clusterName": CLUSTER, "replicas": 0, "selector": {"matchLabels": labels},
                "template": deployment["spec"]["template"],
            },
        }))
        .await
    }

    /// A MachineSet makes what lacks, and deletes what is too much: first what is marked, then the oldest.
    async fn play_set(&self, set: &Value) -> Result<()> {
        let mut machines = self.owned("Machine", uid(set)).await?;
        let count = i64::try_from(machines.len())?;
        let surplus = count - replicas(set);
        if annotation(set, NO_MACHINES).is_none() {
            for number in 0..-surplus {
                self.make_machine(set, count + number).await?;
            }
        }
        machines.sort_by_key(|machine| {
            let is_marked = annotation(machine, DELETE).is_some();
            let created = text(machine, "/metadata/creationTimestamp").to_owned();
            (!is_going(machine), !is_marked, created)
        });
        for machine in machines.iter().take(usize::try_from(surplus).unwrap_or_default()) {
            if !is_going(machine) {
                let params = DeleteParams::default();
                self.api("Machine").delete(name(machine), &params).await?;
            }
        }
        let seen = number(set, "/metadata/generation");
        let status = json!({"observedGeneration": seen, "replicas": count});
        self.merge_status(set, "MachineSet", status).await
    }

    async fn make_machine(&self, set: &Value, salt: i64) -> Result<()> {
        let version: i64 = text(set, "/metadata/resourceVersion").parse().unwrap_or_default();
        let made = format!("{}-{}", name(set), &random(version.wrapping_mul(31) + salt)[..5]);
        let of = json!({"apiVersion": format!("{CLOUD}/{VERSION}"), "kind": "DockerMachine", "name": made});
        self.apply(json!({
            "apiVersion": of["apiVersion"], "kind": "DockerMachine",
            "metadata": {"name": made, "annotations": {CLONED: template(set)}}, "spec": {},
        }))
        .await?;
        let bootstrap = &set["spec"]["template"]["spec"]["bootstrap"];
        self.apply(json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "Machine",
            "metadata": {
                "name": made, "labels": set["spec"]["template"]["metadata"]["labels"], "finalizers": [FINALIZER],
                "ownerReferences": owner(set),
            },
            "spec": {"clusterName": CLUSTER, "bootstrap": bootstrap, "infrastructureRef": of},
        }))
        .await
    }

    /// A Machine comes or goes one step further: its phase, the id of its instance, its Node.
    async fn play_machine(&self, machine: &Value) -> Result<()> {
        let made = name(machine);
        let node = format!("node-{made}");
        let phase = |phase: &str| json!({ "phase": phase });
        if is_going(machine) {
            if text(machine, "/status/phase") != "Deleting" {
                return self.merge_status(machine, "Machine", phase("Deleting")).await;
            }
            if self.nodes().get_opt(&node).await?.is_some() {
                self.nodes().delete(&node, &DeleteParams::default()).await?;
            }
            self.api("DockerMachine")
                .delete(made, &DeleteParams::default())
                .await?;
            let patch = json!({"metadata": {"finalizers": null}});
            return self.merge("Machine", made, patch).await;
        }
        match text(machine, "/status/phase") {
            "" => self.merge_status(machine, "Machine", phase("Provisioning")).await,
            "Provisioning" if self.is_exhausted.load(Ordering::Relaxed) => {
                let conditions = json!([{"type": "InfrastructureReady", "status": "False", "message": "0 of 8 CPUs are left",
                    "lastTransitionTime": text(machine, "/metadata/creationTimestamp")}]);
                let status = json!({ "conditions": conditions });
                self.merge_status(machine, "Machine", status).await
            }
            "Provisioning" => {
                let id = json!({"spec": {"providerID": format!("docker:////{made}")}});
                self.merge("Machine", made, id).await?;
                self.merge_status(machine, "Machine", phase("Provisioned")).await
            }
            "Provisioned" => {
                self.join(machine, &node).await?;
                let status = json!({"phase": "Running", "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": node}});
                self.merge_status(machine, "Machine", status).await
            }
            _ => Ok(()),
        }
    }

    /// The Node of a Machine, as Cluster API marks it.
    async fn join(&self, machine: &Value, node: &str) -> Result<()> {
        let of_machine = name(machine);
        self.apply(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": node,
                "labels": {"kubernetes.io/hostname": node, "node-role.kubernetes.io/worker": ""},
                "annotations": {
                    "cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/cluster-namespace": PLACE,
                    "cluster.x-k8s.io/machine": of_machine,
                },
            },
            "spec": {"providerID": text(machine, "/spec/providerID")},
        }))
        .await?;
        let last = node.bytes().fold(1_u8, u8::wrapping_add);
        let address = json!([{"type": "InternalIP", "address": format!("198.18.1.{last}")}]);
        let status = json!({"status": {"addresses": address}});
        let params = PatchParams::default();
        self.nodes()
            .patch_status(node, &params, &Patch::Merge(&status))
            .await?;
        Ok(())
    }

    /// Names of the Nodes that Machines have.
    pub async fn node_names(&self) -> Result<Vec<String>> {
        let nodes = self.nodes().list(&ListParams::default()).await?.items;
        let names = nodes.iter().map(ResourceExt::name_any);
        Ok(names.filter(|name| name.starts_with("node-")).collect())
    }

    /// The template that each Machine is of, by the Machine's name.
    pub async fn images(&self) -> Result<Vec<(String, String)>> {
        let machines = self.all("DockerMachine").await?;
        let image = |one: &Value| {
            let image = annotation(one, CLONED).unwrap_or_default();
            (name(one).to_owned(), image.to_owned())
        };
        Ok(machines.iter().map(image).collect())
    }
}

/// Rights of numo in the namespace of the machines: those of the example.
pub fn role() -> Result<Vec<Value>> {
    let mut objects = manifests::parse(&std::fs::read_to_string(
        manifests::root().join(EXAMPLE).join("role.yaml"),
    )?)?;
    for object in &mut objects {
        if let Some(subject) = object.pointer_mut("/subjects/0/namespace") {
            *subject = json!(NAMESPACE);
        }
    }
    Ok(objects)
}

/// Configuration of the provider: that of the example, with a component in a file.
pub fn configuration(component: &std::path::Path) -> Result<Value> {
    let file = manifests::root().join(EXAMPLE).join("provider.yaml");
    let mut config: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
    config["component"] = json!({ "file": component });
    Ok(config)
}

fn owner(object: &Value) -> Value {
    json!([{
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": name(object), "uid": uid(object),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Letters of a name that is made: not in the order in which they are made.
fn random(number: i64) -> String {
    let mixed = number.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{mixed:016x}")
}

/// The definitions: the fields that Cluster API publishes for version v1beta1, as far as anybody here reads or writes them. Others are pruned.
fn definitions() -> Vec<Value> {
    let text = json!({"type": "string"});
    let count = json!({"type": "integer", "format": "int32"});
    let labels = json!({"type": "object", "additionalProperties": text});
    let reference = json!({"type": "object", "properties": {
        "apiVersion": text, "kind": text, "name": text, "namespace": text, "uid": text,
    }});
    let bootstrap = json!({"type": "object", "properties": {"dataSecretName": text, "configRef": reference}});
    let machine = json!({"clusterName": text, "version": text, "providerID": text, "failureDomain": text,
        "bootstrap": bootstrap, "infrastructureRef": reference});
    let machine = json!({"type": "object", "required": ["bootstrap", "clusterName", "infrastructureRef"], "properties": machine});
    let template = json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"labels": labels, "annotations": labels}}, "spec": machine,
    }});
    let strategy = json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["RollingUpdate", "OnDelete"]}}});
    let selector = json!({"type": "object", "properties": {"matchLabels": labels}});
    let group = |more: Value| {
        let mut fields = json!({"clusterName": text, "replicas": count, "template": template});
        merge(&mut fields, more);
        json!({"type": "object", "required": ["clusterName", "template"], "properties": fields})
    };
    let conditions = json!({"type": "array", "items": {"type": "object", "required": ["type", "status", "lastTransitionTime"], "properties": {
        "type": text, "status": text, "reason": text, "message": text, "severity": text,
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    }}});
    let scaled = json!({"type": "object", "properties": {
        "replicas": count, "observedGeneration": {"type": "integer", "format": "int64"}, "phase": text, "conditions": conditions,
    }});
    let status = json!({"type": "object", "properties": {
        "phase": text, "nodeRef": reference, "failureMessage": text, "failureReason": text, "conditions": conditions,
        "observedGeneration": {"type": "integer", "format": "int64"},
    }});
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let deployment =
        group(json!({"strategy": strategy, "selector": selector, "paused": {"type": "boolean"}}));
    vec![
        definition(GROUP, "MachineDeployment", (&deployment, &scaled)),
        definition(
            GROUP,
            "MachineSet",
            (&group(json!({"selector": selector})), &scaled),
        ),
        definition(
            GROUP,
            "MachinePool",
            (
                &group(json!({"providerIDList": {"type": "array", "items": text}})),
                &scaled,
            ),
        ),
        definition(GROUP, "Machine", (&machine, &status)),
        definition(CLOUD, "DockerMachineTemplate", (&any, &any)),
        definition(CLOUD, "DockerMachine", (&any, &any)),
    ]
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// A definition with its subresource of the status. The older version, which Cluster API served before, lets the other one go.
fn definition(group: &str, kind: &str, (spec, status): (&Value, &Value)) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let schema =
        json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}});
    let mut subresources = json!({"status": {}});
    if kind.contains("Set") || kind.contains("Deployment") || kind.contains("Pool") {
        subresources["scale"] =
            json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    }
    let version = |name: &str, is_stored: bool| json!({"name": name, "served": true, "storage": is_stored, "schema": schema, "subresources": subresources});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [version(VERSION, true), version("v1alpha4", false)],
        },
    })
}
