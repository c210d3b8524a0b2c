//! The overlays of kustomize and the chart render equal objects, but for what `differences.yaml` names.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use numo_install::{NAMESPACE, objects, patch::patched, rendered, said};
use serde_json::Value;

use crate::{HELMS, chart, program};

/// Objects by kind and name, with the namespace where there is one.
pub(crate) fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let name = |object: &Value| {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let place = text("/metadata/namespace");
        let place = if place.is_empty() {
            place
        } else {
            format!(" in {place}")
        };
        format!("{} {}{place}", text("/kind"), text("/metadata/name"))
    };
    let mut found = BTreeMap::new();
    for object in objects {
        let name = name(&object);
        assert!(
            found.insert(name.clone(), object).is_none(),
            "{name} is there twice"
        );
    }
    found
}

/// Helm, about to render the chart by its own values, without a cluster.
pub(crate) fn template_by_itself(major: u8) -> Result<std::process::Command> {
    let mut helm = program(major)?;
    helm.arg("template").arg("numo").arg(chart()).args([
        "--namespace",
        NAMESPACE,
        "--kube-version",
        "1.36.0",
        "--set",
        "image.repository=numo",
    ]);
    Ok(helm)
}

/// The same, with what is shared with other operators: it is asked for where Helm sees no cluster.
pub(crate) fn template(major: u8) -> Result<std::process::Command> {
    let mut helm = template_by_itself(major)?;
    helm.args([
        "--set",
        "leases.createNamespace=true,plans.createNamespaces=true,crds.nodeMaintenances=true,crds.mutex=true",
    ]);
    Ok(helm)
}

fn rendered_by(major: u8, platform: &str) -> Result<Vec<Value>> {
    let mut helm = template(major)?;
    if platform == "openshift" {
        helm.arg("--values").arg(chart().join("values-openshift.yaml"));
    } else {
        helm.args(["--set", "crds.plans=true"]);
    }
    objects(&said(&mut helm)?)
}

/// Takes what may differ from one side away; the differences that were there.
pub(crate) fn forgive(side: &str, all: &mut BTreeMap<String, Value>, list: &[Value]) -> BTreeSet<usize> {
    let mut used = BTreeSet::new();
    for (index, difference) in list.iter().enumerate().filter(|(_, one)| one["on"] == side) {
        let text = |field: &str| difference[field].as_str().unwrap_or_default();
        assert!(!text("why").is_empty(), "{difference} says no reason");
        if text("path") == "/" {
            if all.remove(text("object")).is_some() {
                used.insert(index);
            }
            continue;
        }
        let (parent, key) = text("path").rsplit_once('/').expect("a JSON pointer");
        let key = key.replace("~1", "/").replace("~0", "~");
        for (name, object) in all.iter_mut() {
            let is_meant = text("object") == "*"
                || *name == text("object")
                || name.starts_with(&format!("{} in ", text("object")));
            let found = object.pointer_mut(parent).filter(|_| is_meant);
            // Of a list, what has that name.
            if let Some(Value::Array(list)) = found {
                let before = list.len();
                list.retain(|one| one["name"] != key.as_str());
                if list.len() < before {
                    used.insert(index);
                }
                continue;
            }
            let Some(Value::Object(map)) = object.pointer_mut(parent).filter(|_| is_meant) else {
                continue;
            };
            if map.remove(&key).is_some() {
                used.insert(index);
            }
            if map.is_empty() && parent == "/metadata/annotations" {
                let metadata = object.pointer_mut("/metadata").and_then(Value::as_object_mut);
                metadata.map(|metadata| metadata.remove("annotations"));
            }
        }
    }
    used
}

/// Takes away the labels that say of which release an object is: what a file by itself does not have.
fn without_release(object: &mut Value) {
    let labels = object
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut);
    if let Some(labels) = labels {
        for label in ["instance", "version", "managed-by"] {
            labels.remove(&format!("app.kubernetes.io/{label}"));
        }
        labels.remove("helm.sh/chart");
    }
}

/// Where two values differ first, and how. A whole number is the same with and without a fraction.
pub(crate) fn difference(one: &Value, other: &Value, at: &str) -> Option<String> {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
                difference(&of(a), &of(b), &format!("{at}/{key}"))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(index, (a, b))| difference(a, b, &format!("{at}/{index}")))
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        _ => (one != other).then(|| format!("{at}: {one} and {other}")),
    }
}

/// What the Prometheus operator and Grafana read is the same, labels of the user's aside.
#[test]
fn the_chart_has_the_alerts_and_the_dashboard() -> Result<()> {
    let source = |file: &str| {
        let path = numo_install::root().join("deploy/monitoring").join(file);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let mut wanted = objects(&source("service_monitor.yaml")?)?;
    wanted.extend(objects(&source("alerts.yaml")?)?);
    let wanted = by_name(wanted);
    for major in HELMS {
        let mut helm = template(major)?;
        let plain = by_name(objects(&said(&mut helm)?)?);
        assert!(
            wanted.keys().all(|name| !plain.contains_key(name)),
            "only if asked for"
        );
        helm.args([
            "--set",
            "monitoring.enabled=true",
            "--set",
            "monitoring.labels.release=mine",
        ]);
        let mut all = by_name(objects(&said(&mut helm)?)?);
        for (name, object) in &wanted {
            let found = all
                .get_mut(name)
                .with_context(|| format!("Helm {major}: {name}"))?;
            let labels = found
                .pointer_mut("/metadata/labels")
                .and_then(Value::as_object_mut);
            let label = labels.and_then(|labels| labels.remove("release"));
            assert_eq!(label, Some(Value::from("mine")));
            without_release(found);
            assert_eq!(difference(object, found, ""), None, "Helm {major}: {name}");
        }
        let dashboard = &all[&format!("ConfigMap numo-dashboard in {NAMESPACE}")]["data"]["numo.json"];
        assert_eq!(
            dashboard.as_str().map(str::trim_end),
            Some(source("dashboard.json")?.trim_end())
        );
    }
    Ok(())
}

/// What a component of kustomize adds, a value of the chart adds too, and another one leaves out.
#[test]
fn the_chart_has_what_is_optional() -> Result<()> {
    for (with, without, file) in [
        (
            "networkPolicy.egress=true",
            "networkPolicy.egress=false",
            "egress/network_policy.yaml",
        ),
        (
            "ruleJobs.quota.enabled=true",
            "ruleJobs.quota.enabled=false",
            "rule-job-quota/resource_quota.yaml",
        ),
        (
            "ruleJobs.ephemeralStorage=1Gi",
            "ruleJobs.ephemeralStorage=",
            "rule-job-quota/limit_range.yaml",
        ),
    ] {
        let path = numo_install::root()
            .join("deploy/kustomize/components")
            .join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let wanted = by_name(objects(&text)?);
        assert!(!wanted.is_empty(), "{file}");
        for major in HELMS {
            let rendered = |value: &str| {
                let mut helm = template(major)?;
                anyhow::Ok(by_name(objects(&said(helm.args(["--set", value]))?)?))
            };
            let plain = rendered(without)?;
            assert!(
                wanted.keys().all(|name| !plain.contains_key(name)),
                "only if asked for"
            );
            let all = rendered(with)?;
            for (name, object) in &wanted {
                let mut found = all
                    .get(name)
                    .cloned()
                    .with_context(|| format!("Helm {major}: {name}"))?;
                without_release(&mut found);
                assert_eq!(difference(object, &found, ""), None, "Helm {major}: {name}");
            }
        }
    }
    Ok(())
}

/// Machines are replaced only where that is asked for; then the chart has what the component of kustomize has.
#[test]
fn the_chart_replaces_machines_where_that_is_asked_for() -> Result<()> {
    let folder = numo_install::root().join("deploy/kustomize/components");
    let read = |name: &str| -> Result<Vec<Value>> {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        objects(&text)
    };
    let patch = |name: &str| -> Result<Value> { read(name)?.into_iter().next().context("a patch") };
    let mut wanted = Vec::new();
    for line in std::fs::read_to_string(folder.join("node-version/kustomization.yaml"))?.lines() {
        let file = line.trim().strip_prefix("- ");
        if let Some(file) = file.filter(|file| file.ends_with("yaml") && !file.contains(':')) {
            wanted.extend(read(&format!("node-version/{file}"))?);
        }
    }
    wanted.extend(read("node-version-sim/role.yaml")?);
    let wanted = by_name(wanted);
    assert_eq!(wanted.len(), 9, "{:?}", wanted.keys());
    for major in HELMS {
        let rendered = |values: &str| {
            let mut helm = template(major)?;
            anyhow::Ok(by_name(objects(&said(helm.args(["--set", values]))?)?))
        };
        let plain = rendered("crds.nodeVersions=true")?;
        assert!(
            wanted.keys().all(|name| !plain.contains_key(name)),
            "off by default"
        );
        let all = rendered("crds.nodeVersions=true,machines.provider=sim")?;
        for (name, object) in &wanted {
            let found = all.get(name).with_context(|| format!("Helm {major}: {name}"))?;
            for part in ["spec", "rules", "subjects", "roleRef"] {
                let differing = difference(&object[part], &found[part], part);
                assert_eq!(differing, None, "Helm {major}: {name}");
            }
        }
        let others: Vec<&String> = all.keys().filter(|name| !wanted.contains_key(*name)).collect();
        assert_eq!(others, plain.keys().collect::<Vec<_>>(), "and nothing else");
        for (name, file) in [
            ("ValidatingAdmissionPolicy numo-nodes", "admission_policy"),
            ("ClusterRole numo-viewer", "viewer"),
            ("ClusterRole numo-view", "view"),
            ("ClusterRole numo-admin", "admin"),
            ("ClusterRole numo-oncall", "oncall"),
        ] {
            let mut object = plain[name].clone();
            patched(&mut object, &patch(&format!("node-version/{file}.yaml"))?)?;
            assert_eq!(difference(&object, &all[name], ""), None, "Helm {major}: {name}");
        }
        let unseen = rendered("machines.provider=sim")?;
        let is_definition = |name: &&String| name.ends_with(".update.edgeless.systems");
        assert_eq!(
            unseen.keys().find(is_definition),
            None,
            "they may be another operator's"
        );
    }
    Ok(())
}

/// Where the cluster has control-plane nodes, numo runs nowhere else.
#[test]
fn the_control_plane_is_required_where_that_is_said() -> Result<()> {
    let name = format!("Deployment numo in {NAMESPACE}");
    let overlay = by_name(objects(&rendered::overlay("self-managed")?)?);
    let at = "/spec/template/spec/affinity";
    let wanted = overlay[&name].pointer(at).context("an affinity")?;
    let terms = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    assert_eq!(
        wanted.pointer(terms),
        Some(&serde_json::json!([{"matchExpressions": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
        ]}]))
    );
    for major in HELMS {
        let mut helm = template(major)?;
        helm.args(["--set", "controlPlanePlacement=required"]);
        let all = by_name(objects(&said(&mut helm)?)?);
        let job = format!("Job numo-release in {NAMESPACE}");
        assert_eq!(all[&name].pointer(at), Some(wanted), "Helm {major}: {name}");
        // Beside that, the Job prefers a node where numo runs.
        let nodes = all[&job].pointer(&format!("{at}/nodeAffinity"));
        assert_eq!(nodes, wanted.get("nodeAffinity"), "Helm {major}: {job}");
        // What the user requires stays required.
        let own = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]";
        helm.arg("--set")
            .arg(format!("{own}.key=mine,{own}.operator=Exists"));
        let all = by_name(objects(&said(&mut helm)?)?);
        let both = all[&name].pointer(&format!("{at}{terms}"));
        let keys: Vec<&Value> = both
            .and_then(|terms| terms[0]["matchExpressions"].as_array())
            .into_iter()
            .flatten()
            .map(|one| &one["key"])
            .collect();
        assert_eq!(keys, ["mine", "node-role.kubernetes.io/control-plane"]);
    }
    Ok(())
}

#[test]
fn the_chart_and_the_overlays_render_equal_objects() -> Result<()> {
    let list = objects(include_str!("differences.yaml"))?.into_iter().next();
    let list = list
        .and_then(|list| list.as_array().cloned())
        .context("a list of differences")?;
    let mut used = BTreeSet::new();
    for platform in rendered::PLATFORMS {
        let mut overlay = by_name(objects(&rendered::overlay(platform)?)?);
        used.extend(forgive("kustomize", &mut overlay, &list));
        for major in HELMS {
            let mut chart = by_name(rendered_by(major, platform)?);
            used.extend(forgive("helm", &mut chart, &list));
            let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<BTreeSet<_>>();
            assert_eq!(names(&overlay), names(&chart), "{platform}, Helm {major}");
            for (name, object) in &overlay {
                let differing = difference(object, &chart[name], "");
                assert_eq!(differing, None, "{platform}, Helm {major}: {name}");
            }
        }
    }
    assert_eq!(used.len(), list.len(), "a difference is named that is not there");
    Ok(())
}
