//! What is generated is as its source is now, and the source says of itself what is true.

use std::fs;

use anyhow::Result;
use numo_install::{all, objects, rendered, root};
use serde_json::Value;

#[test]
fn the_generated_files_are_those_of_their_source() -> Result<()> {
    let made = all()?;
    for (path, text) in &made {
        let found = fs::read_to_string(root().join(path)).unwrap_or_default();
        assert!(found == *text, "{path} is stale: run `cargo xtask manifests`");
    }
    for entry in fs::read_dir(root().join(numo_install::chart::TEMPLATES))? {
        let path = entry?.path();
        let name = format!(
            "{}/{}",
            numo_install::chart::TEMPLATES,
            path.file_name().unwrap_or_default().to_string_lossy()
        );
        let is_made = path.is_file() && fs::read_to_string(&path)?.contains(numo_install::GENERATED);
        assert!(
            !is_made || made.contains_key(&name),
            "{name} has no source any more"
        );
    }
    Ok(())
}

/// By kustomize and by its file the Job that restores everything is one object.
#[test]
fn the_job_is_the_same_by_either_way() -> Result<()> {
    let by_file = objects(&fs::read_to_string(root().join("deploy/uninstall.yaml"))?)?;
    let by_kustomize = objects(&rendered::kustomize(&root().join("deploy/kustomize/uninstall"))?)?;
    assert_eq!(by_file, by_kustomize);
    Ok(())
}

#[test]
fn one_version_is_named_everywhere() -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let chart = fs::read_to_string(crate::chart().join("Chart.yaml"))?;
    let chart = &objects(&chart)?[0];
    assert_eq!(
        (&chart["version"], &chart["appVersion"]),
        (&version.into(), &version.into())
    );
    for platform in rendered::PLATFORMS {
        let all = objects(&rendered::overlay(platform)?)?;
        let found = all.iter().find(|object| object["kind"] == "Deployment");
        let image = found.and_then(|one| one.pointer("/spec/template/spec/containers/0/image"));
        assert_eq!(
            image.and_then(Value::as_str),
            Some(format!("numo:{version}").as_str())
        );
    }
    Ok(())
}

/// Pod security `restricted`, and a user that OpenShift may choose.
#[test]
fn the_pod_is_restricted_and_runs_as_any_user() -> Result<()> {
    for platform in rendered::PLATFORMS {
        let all = objects(&rendered::overlay(platform)?)?;
        let found = all.iter().find(|object| object["kind"] == "Deployment");
        let pod = &found.expect("a Deployment")["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert!(
            pod["securityContext"].get("runAsUser").is_none(),
            "OpenShift chooses it"
        );
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod.get(field).is_none(), "{field}");
        }
        for container in pod["containers"].as_array().expect("containers") {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context["readOnlyRootFilesystem"], true);
            assert_eq!(context["capabilities"]["drop"], serde_json::json!(["ALL"]));
            assert!(context.get("runAsUser").is_none());
            for resource in ["cpu", "memory", "ephemeral-storage"] {
                assert!(container["resources"]["requests"].get(resource).is_some());
            }
            assert!(
                container["resources"]["limits"]
                    .get("ephemeral-storage")
                    .is_some()
            );
        }
    }
    Ok(())
}

/// What keeps numo itself running while nodes change: two replicas apart from each other and from the workers, a budget that
/// holds up no drain for ever, and a label by which rivals' drains leave it alone.
#[test]
fn numos_own_pods_stay_while_nodes_change() -> Result<()> {
    for platform in rendered::PLATFORMS {
        let all = objects(&rendered::overlay(platform)?)?;
        let of = |kind: &str| {
            let found = all
                .iter()
                .find(|one| one["kind"] == kind && one["metadata"]["name"] == "numo");
            found.cloned().unwrap_or_default()
        };
        let deployment = of("Deployment");
        assert_eq!(deployment["spec"]["replicas"], 2);
        let template = &deployment["spec"]["template"];
        assert_eq!(
            template["metadata"]["labels"]["upgrade.cattle.io/controller"],
            "numo"
        );
        let pod = &template["spec"];
        assert_eq!(pod["priorityClassName"], "system-cluster-critical");
        let keys = |pointer: &str, key: &str| -> Vec<String> {
            let all = pod
                .pointer(pointer)
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            all.filter_map(|one| Some(one[key].as_str()?.to_owned()))
                .collect()
        };
        assert_eq!(
            keys("/topologySpreadConstraints", "topologyKey"),
            ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        );
        let tolerated = keys("/tolerations", "key");
        assert!(
            tolerated.contains(&"node-role.kubernetes.io/control-plane".to_owned()),
            "{tolerated:?}"
        );
        let preferred = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/preference/matchExpressions";
        assert_eq!(keys(preferred, "key"), ["node-role.kubernetes.io/control-plane"]);
        let only_there = !pod["nodeSelector"]["node-role.kubernetes.io/control-plane"].is_null();
        assert_eq!(only_there, platform == "openshift");
        let budget = of("PodDisruptionBudget");
        assert_eq!(budget["spec"]["maxUnavailable"], 1);
        assert_eq!(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");
        assert_eq!(budget["spec"]["selector"], deployment["spec"]["selector"]);
    }
    Ok(())
}

/// What Artifact Hub shows of the chart: every kind, and an example of each that the bundle has too.
#[test]
fn the_chart_names_every_definition_that_it_brings() -> Result<()> {
    let chart = objects(&fs::read_to_string(crate::chart().join("Chart.yaml"))?)?.remove(0);
    let of = |name: &str| -> Result<Vec<Value>> {
        let text = chart["annotations"][format!("artifacthub.io/{name}")]
            .as_str()
            .unwrap_or_default();
        let parsed = objects(text)?.into_iter().next();
        Ok(parsed
            .and_then(|list| list.as_array().cloned())
            .unwrap_or_default())
    };
    let mut named: Vec<(Value, Value, Value)> = Vec::new();
    for one in of("crds")? {
        assert!(
            one["description"].is_string() && one["displayName"].is_string(),
            "{one}"
        );
        named.push((one["name"].clone(), one["kind"].clone(), one["version"].clone()));
    }
    let defined = |folder: &str| -> Result<Vec<(Value, Value, Value)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(root().join(folder))? {
            for one in objects(&fs::read_to_string(entry?.path())?)? {
                if one["kind"] == "CustomResourceDefinition" {
                    let version = one["spec"]["versions"][0]["name"].clone();
                    found.push((
                        one["metadata"]["name"].clone(),
                        one["spec"]["names"]["kind"].clone(),
                        version,
                    ));
                }
            }
        }
        Ok(found)
    };
    let wanted = defined("deploy/crds")?;
    let mut all = wanted.clone();
    all.extend(defined("deploy/kustomize/components/node-version")?);
    for list in [&mut named, &mut all] {
        list.sort_by_key(|(name, ..)| name.to_string());
    }
    assert_eq!(named, all);
    let examples = of("crdsExamples")?;
    for one in &examples {
        assert!(wanted.iter().any(|(_, kind, _)| *kind == one["kind"]), "{one}");
    }
    // A NodeChange is numo's own; of every other kind that is always there is one.
    for (_, kind, _) in wanted.iter().filter(|(_, kind, _)| *kind != "NodeChange") {
        assert!(
            examples.iter().any(|one| one["kind"] == *kind),
            "no example of {kind}"
        );
    }
    for field in ["home", "icon", "sources", "maintainers"] {
        assert!(!chart[field].is_null(), "Chart.yaml has no {field}");
    }
    for annotation in ["links", "changes"] {
        assert!(!of(annotation)?.is_empty(), "artifacthub.io/{annotation}");
    }
    let owners = fs::read_to_string(root().join("deploy/helm/artifacthub-repo.yml"))?;
    let owners = objects(&owners)?.remove(0);
    assert!(owners["repositoryID"].is_string() && owners["owners"][0]["email"].is_string());
    // Two catalogues about one operator do not promise different things.
    let csv = fs::read_to_string(root().join("deploy/olm/base.yaml"))?;
    let capabilities = &objects(&csv)?.remove(0)["metadata"]["annotations"]["capabilities"];
    assert_eq!(
        chart["annotations"]["artifacthub.io/operatorCapabilities"],
        *capabilities
    );
    let images = of("images")?;
    assert_eq!(images[0]["image"], format!("numo:{}", env!("CARGO_PKG_VERSION")));
    Ok(())
}
