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
        let is_made = fs::read_to_string(&path)?.contains(numo_install::GENERATED);
        assert!(
            !is_made || made.contains_key(&name),
            "{name} has no source any more"
        );
    }
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
            for resource in ["cpu", "memory"] {
                assert!(container["resources"]["requests"].get(resource).is_some());
            }
        }
    }
    Ok(())
}
