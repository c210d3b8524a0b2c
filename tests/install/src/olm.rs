//! The bundle and the catalogue for OLM, made from the overlay of OpenShift, the definitions and the examples. What OLM
//! makes itself (the namespace, the ServiceAccount, the webhook's certificate) is left to it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use serde_json::{Map, Value, json};

use crate::{GENERATED, NAMESPACE, objects, patch::patched, read, rendered, root};

/// Where the bundle is.
pub const BUNDLE: &str = "deploy/olm/bundle";
/// Where the catalogue is.
pub const CATALOG: &str = "deploy/olm/catalog/catalog.yaml";
/// What an administrator applies beside the bundle.
const EXAMPLES: &str = "deploy/olm/examples";
/// Examples that are files of kustomize: a bundle holds no quota, LimitRange or policy, and egress is for the administrator to decide.
const BY_HAND: [(&str, &[&str]); 3] = [
    (
        "rule-job-quota",
        &[
            "components/rule-job-quota/resource_quota",
            "components/rule-job-quota/limit_range",
        ],
    ),
    ("egress", &["components/egress/network_policy"]),
    // Without its policy the role is more than it says, and a bundle holds no policy.
    ("oncall", &["base/oncall"]),
];
/// What replaces machines: no bundle has it (ADR 47).
const NODE_VERSION: &str = "deploy/kustomize/components/node-version";
/// The image that the source names.
const IMAGE: &str = "numo:0.1.0";
/// The image that Jobs of Plans cordon and drain with, as the source names it.
pub const KUBECTL_IMAGE: &str = "rancher/kubectl:v1.30.3";
/// The variable that tells numo so: a cluster without the internet has the images of `relatedImages` only.
pub const KUBECTL_VARIABLE: &str = "SYSTEM_UPGRADE_JOB_KUBECTL_IMAGE";
/// The bundle's image that the checked-in catalogue names.
const BUNDLE_IMAGE: &str = "registry.example.com/numo/bundle:0.1.0";
/// The channel: numo promises no more than its maturity does.
const CHANNEL: &str = "alpha";
/// What OpenShift's own operators scrape and read the bundle's monitoring by.
const MONITORING: [&str; 2] = [
    "deploy/monitoring/service_monitor.yaml",
    "deploy/monitoring/alerts.yaml",
];
/// Where people get the command line, as OpenShift's console shows it.
const CLI_DOWNLOAD: &str = "deploy/olm/cli_download.yaml";
/// Kinds that have no namespace, among those of the bundle.
pub const CLUSTER_SCOPED: [&str; 3] = ["ClusterRole", "ConsoleCLIDownload", "CustomResourceDefinition"];
/// What a kind of numo makes or changes, as the console shows it beside an object of that kind: kind and version.
const RESOURCES: [(&str, &[(&str, &str)]); 9] = [
    ("MutexBinding", &[("NodeChange", "v1alpha1")]),
    ("MutexBudget", &[("Node", "v1")]),
    ("MutexRule", &[("Job", "v1"), ("Pod", "v1")]),
    (
        "MutexRunConfig",
        &[
            ("MachineConfigPool", "v1"),
            ("Node", "v1"),
            ("NodeChange", "v1alpha1"),
            ("Lease", "v1"),
        ],
    ),
    ("MutexTarget", &[("MachineConfigPool", "v1"), ("Node", "v1")]),
    ("NodeChange", &[("Node", "v1"), ("Lease", "v1"), ("Job", "v1")]),
    ("MutexWindow", &[("Node", "v1")]),
    ("MutexNotifier", &[("Secret", "v1"), ("ConfigMap", "v1")]),
    ("MutexApproval", &[("MutexRunConfig", "v1alpha1"), ("Plan", "v1")]),
];
/// What kustomize says of itself.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// When the bundle was made: a fixed time, as the annotation goes on to the pods and a new one would roll them.
const CREATED: &str = "2026-11-22T00:00:00Z";
/// Kinds of other operators too: OLM gives an object to one of them only. numo serves them where they are installed.
const SHARED: [&str; 2] = ["NodeMaintenance", "Plan"];

/// Every file of the bundle and the catalogue, by its path from the root of the repository.
pub(crate) fn files() -> Result<BTreeMap<String, String>> {
    let bundle = bundle(IMAGE, KUBECTL_IMAGE)?;
    let catalog = catalog(&bundle, BUNDLE_IMAGE)?;
    let in_bundle = |(path, text)| (format!("{BUNDLE}/{path}"), text);
    let mut files: BTreeMap<String, String> = bundle.into_iter().map(in_bundle).collect();
    files.insert(CATALOG.to_owned(), catalog);
    let (of_bundle, of_catalog) = image_files();
    files.insert("deploy/olm/bundle.Dockerfile".to_owned(), of_bundle);
    files.insert("deploy/olm/catalog.Dockerfile".to_owned(), of_catalog);
    for (name, parts) in BY_HAND {
        let texts: Vec<String> = parts
            .iter()
            .map(|part| read(&format!("deploy/kustomize/{part}.yaml")))
            .collect::<Result<_>>()?;
        files.insert(
            format!("{EXAMPLES}/{name}.yaml"),
            format!("# {GENERATED} Applied by hand.\n{}", texts.join("---\n")),
        );
    }
    files.extend(node_versions()?);
    Ok(files)
}

/// What NodeVersions need beside the bundle, for an administrator to apply: the definitions, which the operator of the reference has too, and
/// numo's rights with the policy that bounds them. Each file may be applied again.
fn node_versions() -> Result<[(String, String); 2]> {
    let list = read(&format!("{NODE_VERSION}/kustomization.yaml"))?;
    let names = list.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let names = names.filter(|name| name.starts_with("update.edgeless.systems_"));
    let part = |name: &str| read(&format!("{NODE_VERSION}/{name}"));
    let definitions: Vec<String> = names.map(part).collect::<Result<_>>()?;
    let of = |text: &str| -> Result<Value> { objects(text)?.into_iter().next().context("an object") };
    let base = objects(&read("deploy/kustomize/base/admission_policy.yaml")?)?;
    let policy = base
        .into_iter()
        .find(|object| object["metadata"]["name"] == "numo-nodes");
    let mut policy = policy.context("the policy numo-nodes")?;
    patched(&mut policy, &of(&part("admission_policy.yaml")?)?)?;
    let mut rights = vec![
        part("cluster_role.yaml")?,
        part("cluster_role_binding.yaml")?,
        serde_saphyr::to_string(&policy)?,
    ];
    // The bundle has most of these roles, and an upgrade would write over what was added to them.
    for name in ["viewer", "view", "admin", "oncall"] {
        let mut role = of(&part("cluster_role.yaml")?)?;
        role["metadata"]["name"] = json!(format!("numo-node-version-{name}"));
        role["metadata"]["labels"]["app.kubernetes.io/component"] = json!("roles");
        if ["view", "admin"].contains(&name) {
            role["metadata"]["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{name}")] =
                json!("true");
        }
        role["rules"] = json!([]);
        patched(&mut role, &of(&part(&format!("{name}.yaml"))?)?)?;
        rights.push(serde_saphyr::to_string(&role)?);
    }
    let file = |name: &str, parts: &[String]| {
        let text = format!("# {GENERATED} Applied by hand.\n{}", parts.join("---\n"));
        (format!("{EXAMPLES}/{name}.yaml"), text)
    };
    Ok([
        file("node-version-definitions", &definitions),
        file("node-version", &rights),
    ])
}

/// Writes bundle, catalogue and the files of their images into a folder, for images that are known by their digests.
///
/// # Errors
/// If an image is not `REPOSITORY@sha256:…`: a mirrored registry would not have it, and a tag can be moved.
pub fn publish(folder: &Path, image: &str, bundle_image: &str, kubectl_image: &str) -> Result<()> {
    for (flag, given) in [
        ("--image", image),
        ("--bundle-image", bundle_image),
        ("--kubectl-image", kubectl_image),
    ] {
        let digest = given.split_once("@sha256:").map_or("", |(_, digest)| digest);
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        ensure!(
            is_digest,
            "{flag}: found {given}, wanted REPOSITORY@sha256:DIGEST"
        );
    }
    let bundle = bundle(image, kubectl_image)?;
    let write = |path: &str, text: &str| -> Result<()> {
        let file = folder.join(path);
        file.parent().map(fs::create_dir_all).transpose()?;
        fs::write(&file, text).with_context(|| file.display().to_string())
    };
    write("catalog/catalog.yaml", &catalog(&bundle, bundle_image)?)?;
    for (path, text) in &bundle {
        write(&format!("bundle/{path}"), text)?;
    }
    let (of_bundle, of_catalog) = image_files();
    write("bundle.Dockerfile", &of_bundle)?;
    write("catalog.Dockerfile", &of_catalog)
}

/// The files that make the images of bundle and catalogue: they hold files only.
fn image_files() -> (String, String) {
    let labels: Vec<String> = annotations()
        .iter()
        .map(|(label, value)| format!("LABEL {label}={value}"))
        .collect();
    let labels = labels.join("\n");
    let bundle = format!(
        "# {GENERATED}\nFROM scratch\n{labels}\nCOPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\n"
    );
    let catalog = format!(
        "# {GENERATED}\nFROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/configs\nADD catalog /configs\n"
    );
    (bundle, catalog)
}

fn yaml(value: &Value) -> Result<String> {
    Ok(format!("# {GENERATED}\n{}", serde_saphyr::to_string(value)?))
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The bundle for numo's image and the one that Jobs of Plans drain with: files by their path in it.
///
/// # Errors
/// If the overlay or a file that it is made from is not as it is meant to be.
pub fn bundle(image: &str, kubectl_image: &str) -> Result<BTreeMap<String, String>> {
    let all = objects(&rendered::overlay("openshift")?)?;
    let mut files = BTreeMap::new();
    let mut permissions = Vec::new();
    let mut deployment = None;
    let mut definitions = Vec::new();
    let mut labels = json!({});
    for mut object in all {
        // OLM says so in labels of its own.
        if let Some(labels) = object["metadata"]
            .get_mut("labels")
            .and_then(Value::as_object_mut)
        {
            labels.remove(MANAGED_BY);
        }
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (kind, name, place) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
        match kind.as_str() {
            // OLM's own to make, or to find by the CSV.
            "Namespace" => {
                if name == NAMESPACE {
                    labels = object["metadata"]["labels"].clone();
                    if let Some(labels) = labels.as_object_mut() {
                        labels.retain(|label, _| label.starts_with("pod-security"));
                    }
                }
                continue;
            }
            "ServiceAccount"
            // Not among the kinds that a bundle may hold: an administrator applies them.
            | "LimitRange"
            | "ResourceQuota"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            // OLM v1 takes webhooks from OpenShift 4.21 on only. What this one refuses at once, numo refuses by a condition.
            | "ValidatingWebhookConfiguration"
            // OLM applies them as they are, and the namespace of their subject may be another one here: by hand too.
            | "ClusterRoleBinding" => continue,
            "Deployment" => {
                deployment = Some(object);
                continue;
            }
            "CustomResourceDefinition" => {
                if SHARED.contains(&text("/spec/names/kind").as_str()) {
                    continue;
                }
                definitions.push(object.clone());
                files.insert(format!("manifests/{name}.crd.yaml"), yaml(&object)?);
                continue;
            }
            // Without a webhook it needs no certificate.
            _ if name == "numo-webhook" => continue,
            // Applied by hand, with the policy that bounds it.
            "ClusterRole" if name == "numo-oncall" => continue,
            // A bundle's objects go into its own namespace: what is elsewhere an administrator applies.
            "Role" | "RoleBinding" if place != NAMESPACE => continue,
            "ClusterRole" if name == "numo" => {
                permissions = object["rules"].as_array().cloned().unwrap_or_default();
                continue;
            }
            _ => {}
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        // The namespace of the binding itself is meant.
        if kind == "RoleBinding" {
            for subject in object["subjects"].as_array_mut().into_iter().flatten() {
                subject.as_object_mut().map(|subject| subject.remove("namespace"));
            }
        }
        files.insert(
            format!("manifests/{name}.{}.yaml", kind.to_lowercase()),
            yaml(&object)?,
        );
    }
    for path in MONITORING.into_iter().chain([CLI_DOWNLOAD]) {
        for mut object in objects(&read(path)?)? {
            object["metadata"]
                .as_object_mut()
                .map(|metadata| metadata.remove("namespace"));
            // As the overlay's objects have them: these are not of it.
            object["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("numo");
            object["metadata"]["labels"]["app.kubernetes.io/version"] = json!(version());
            let (kind, name) = (object["kind"].as_str(), object["metadata"]["name"].as_str());
            let (kind, name) = (kind.context("a kind")?.to_lowercase(), name.context("a name")?);
            files.insert(format!("manifests/{name}.{kind}.yaml"), yaml(&object)?);
        }
    }
    let deployment = deployment.context("a Deployment")?;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}});
    let mut csv = service_version(&deployment, &permissions, &definitions, image)?;
    name_kubectl(&mut csv, kubectl_image)?;
    csv["metadata"]["annotations"]["operatorframework.io/suggested-namespace-template"] =
        json!(namespace.to_string());
    files.insert(
        "manifests/numo.clusterserviceversion.yaml".to_owned(),
        yaml(&csv)?,
    );
    files.insert(
        "metadata/annotations.yaml".to_owned(),
        yaml(&json!({"annotations": annotations()}))?,
    );
    Ok(files)
}

/// Names the image that numo's Jobs drain with: to numo, and to whoever mirrors images.
fn name_kubectl(csv: &mut Value, image: &str) -> Result<()> {
    let related = csv
        .pointer_mut("/spec/relatedImages")
        .and_then(Value::as_array_mut);
    related
        .context("relatedImages")?
        .push(json!({"name": "kubectl", "image": image}));
    let env = csv.pointer_mut("/spec/install/spec/deployments/0/spec/template/spec/containers/0/env");
    env.and_then(Value::as_array_mut)
        .context("env")?
        .push(json!({"name": KUBECTL_VARIABLE, "value": image}));
    Ok(())
}

/// What the bundle's image says of it, as annotations and as labels.
pub fn annotations() -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (
            "operators.operatorframework.io.bundle.mediatype.v1",
            "registry+v1".to_owned(),
        ),
        (
            "operators.operatorframework.io.bundle.manifests.v1",
            "manifests/".to_owned(),
        ),
        (
            "operators.operatorframework.io.bundle.metadata.v1",
            "metadata/".to_owned(),
        ),
        (
            "operators.operatorframework.io.bundle.package.v1",
            "numo".to_owned(),
        ),
        (
            "operators.operatorframework.io.bundle.channels.v1",
            CHANNEL.to_owned(),
        ),
        (
            "operators.operatorframework.io.bundle.channel.default.v1",
            CHANNEL.to_owned(),
        ),
        ("com.redhat.openshift.versions", "v4.18".to_owned()),
    ])
}

fn service_version(
    deployment: &Value,
    permissions: &[Value],
    definitions: &[Value],
    image: &str,
) -> Result<Value> {
    let mut csv = objects(&read("deploy/olm/base.yaml")?)?
        .into_iter()
        .next()
        .context("a base")?;
    let version = version();
    csv["metadata"]["name"] = json!(format!("numo.v{version}"));
    csv["metadata"]["namespace"] = json!("placeholder");
    csv["spec"]["version"] = json!(version);
    let notes = &mut csv["metadata"]["annotations"];
    notes["containerImage"] = json!(image);
    notes["createdAt"] = json!(CREATED);
    notes["olm.skipRange"] = json!(format!("<{version}"));
    notes["alm-examples"] = json!(serde_json::to_string_pretty(&examples(definitions)?)?);
    let icon = STANDARD.encode(fs::read(root().join("deploy/olm/icon.svg"))?);
    csv["spec"]["icon"] = json!([{"base64data": icon, "mediatype": "image/svg+xml"}]);
    csv["spec"]["relatedImages"] = json!([{"name": "numo", "image": image}]);
    let owned: Vec<Value> = definitions.iter().flat_map(owned).collect();
    csv["spec"]["customresourcedefinitions"] = json!({"owned": owned});
    let labels = &deployment["metadata"]["labels"];
    let mut spec = deployment["spec"].clone();
    let container = spec
        .pointer_mut("/template/spec/containers/0")
        .context("a container")?;
    container["image"] = json!(image);
    if let Some(env) = container["env"].as_array_mut() {
        env.retain(|variable| variable["name"] != "NUMO_WEBHOOK_CERTS");
    }
    if let Some(ports) = container["ports"].as_array_mut() {
        ports.retain(|port| port["name"] != "webhook");
    }
    csv["spec"]["install"] = json!({"strategy": "deployment", "spec": {
        "clusterPermissions": [{"serviceAccountName": "numo", "rules": permissions}],
        "deployments": [{"name": "numo", "label": labels, "spec": spec}],
    }});
    Ok(csv)
}

/// One example of each kind: the first one of the examples that the docs have.
fn examples(definitions: &[Value]) -> Result<Vec<Value>> {
    let mut known = objects(&read("deploy/olm/examples.yaml")?)?;
    let mut paths: Vec<_> = fs::read_dir(root().join("examples"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    for path in paths.into_iter().filter(|path| path.is_file()) {
        known.extend(objects(&fs::read_to_string(&path)?)?);
    }
    let mut found = Vec::new();
    for definition in definitions {
        let kind = &definition["spec"]["names"]["kind"];
        let Some(mut example) = known.iter().find(|one| one["kind"] == *kind).cloned() else {
            bail!("examples have no {kind}");
        };
        example["metadata"]
            .as_object_mut()
            .map(|metadata| metadata.remove("namespace"));
        found.push(example);
    }
    Ok(found)
}

fn owned(definition: &Value) -> Vec<Value> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let of = |version: &Value| {
        let schema = &version["schema"]["openAPIV3Schema"];
        let mut one = json!({
            "name": definition["metadata"]["name"],
            "kind": spec["names"]["kind"],
            "version": version["name"],
            "displayName": spec["names"]["kind"],
            "description": schema["description"],
            "resources": resources(&spec["names"]["kind"]),
        });
        for part in ["spec", "status"] {
            let shown = descriptors(schema, part);
            // What is empty, OLM leaves out.
            if !shown.is_empty() {
                one[format!("{part}Descriptors")] = json!(shown);
            }
        }
        one
    };
    versions.map(of).collect()
}

/// What the console shows beside an object of this kind. Scorecard and preflight want it of every kind.
fn resources(kind: &Value) -> Vec<Value> {
    let of_kind = RESOURCES.iter().filter(|(name, _)| kind == name);
    of_kind
        .flat_map(|(_, resources)| *resources)
        .map(|(kind, version)| json!({"kind": kind, "name": "", "version": version}))
        .collect()
}

/// Fields as the console shows them.
fn descriptors(schema: &Value, part: &str) -> Vec<Value> {
    let fields = schema
        .pointer(&format!("/properties/{part}/properties"))
        .and_then(Value::as_object);
    let of = |(name, field): (&String, &Value)| {
        let shown: Vec<String> = match part {
            "status" => shown_status(name),
            _ => shown_spec(field),
        };
        let mut one = Map::from_iter([
            ("path".to_owned(), json!(name)),
            ("displayName".to_owned(), json!(title(name))),
            ("description".to_owned(), field["description"].clone()),
        ]);
        if !shown.is_empty() {
            one.insert("x-descriptors".to_owned(), json!(shown));
        }
        Value::Object(one)
    };
    fields.into_iter().flatten().map(of).collect()
}

fn shown_spec(field: &Value) -> Vec<String> {
    let ui = |what: &str| format!("urn:alm:descriptor:com.tectonic.ui:{what}");
    if let Some(values) = field["enum"].as_array() {
        let values = values.iter().filter_map(Value::as_str);
        return values.map(|value| ui(&format!("select:{value}"))).collect();
    }
    match field["type"].as_str() {
        Some("integer") => vec![ui("number")],
        Some("boolean") => vec![ui("booleanSwitch")],
        Some("string") => vec![ui("text")],
        _ => Vec::new(),
    }
}

fn shown_status(name: &str) -> Vec<String> {
    let what = match name {
        "conditions" => "io.kubernetes.conditions",
        "step" => "io.kubernetes.phase",
        "reason" => "io.kubernetes.phase:reason",
        _ => return Vec::new(),
    };
    vec![format!("urn:alm:descriptor:{what}")]
}

/// `maxUnavailable` is Max Unavailable.
fn title(name: &str) -> String {
    let mut out = String::new();
    for (index, letter) in name.chars().enumerate() {
        if index == 0 {
            out.extend(letter.to_uppercase());
        } else {
            if letter.is_uppercase() && !out.ends_with(char::is_uppercase) {
                out.push(' ');
            }
            out.push(letter);
        }
    }
    out
}

/// The catalogue of one bundle, by its files and the reference of its image.
///
/// # Errors
/// If the files have no `ClusterServiceVersion`.
pub fn catalog(files: &BTreeMap<String, String>, bundle_image: &str) -> Result<String> {
    let csv = files
        .get("manifests/numo.clusterserviceversion.yaml")
        .context("a ClusterServiceVersion")?;
    let csv = objects(csv)?
        .into_iter()
        .next()
        .context("a ClusterServiceVersion")?;
    let spec = &csv["spec"];
    let name = &csv["metadata"]["name"];
    let icon = &spec["icon"][0];
    let package = json!({
        "schema": "olm.package", "name": "numo", "defaultChannel": CHANNEL,
        "description": csv["metadata"]["annotations"]["description"],
        "icon": {"base64data": icon["base64data"], "mediatype": icon["mediatype"]},
    });
    let channel = json!({
        "schema": "olm.channel", "package": "numo", "name": CHANNEL,
        "entries": [{"name": name, "skipRange": format!("<{}", version())}],
    });
    let mut properties: Vec<Value> = spec["customresourcedefinitions"]["owned"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            let group = one["name"].as_str().and_then(|name| name.split_once('.')).map(|(_, group)| group);
            json!({"type": "olm.gvk", "value": {"group": group, "kind": one["kind"], "version": one["version"]}})
        })
        .collect();
    properties.push(json!({"type": "olm.package", "value": {"packageName": "numo", "version": version()}}));
    properties.push(json!({"type": "olm.csv.metadata", "value": {
        "annotations": csv["metadata"]["annotations"],
        "apiServiceDefinitions": {},
        "crdDescriptions": spec["customresourcedefinitions"],
        "description": spec["description"],
        "displayName": spec["displayName"],
        "installModes": spec["installModes"],
        "keywords": spec["keywords"],
        "labels": csv["metadata"]["labels"],
        "links": spec["links"],
        "maintainers": spec["maintainers"],
        "maturity": spec["maturity"],
        "minKubeVersion": spec["minKubeVersion"],
        "provider": spec["provider"],
    }}));
    let mut images = vec![json!({"name": "", "image": bundle_image})];
    images.extend(spec["relatedImages"].as_array().into_iter().flatten().cloned());
    let bundle = json!({
        "schema": "olm.bundle", "name": name, "package": "numo", "image": bundle_image,
        "properties": properties,
        "relatedImages": images,
    });
    let mut text = format!("# {GENERATED}\n");
    let blobs = [package, channel, bundle];
    for (index, blob) in blobs.iter().enumerate() {
        // An empty document before the first one is no blob.
        text += if index > 0 { "---\n" } else { "" };
        text += &serde_saphyr::to_string(blob)?;
    }
    Ok(text)
}
