//! What the values of the chart do, as Helm renders it: flags of numo, files that are mounted, switches and bounds of monitoring, and the
//! standard labels of every object.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result};
use numo_install::{NAMESPACE, RUNBOOKS, chart, objects, olm, rendered, root, said};
use serde_json::{Value, json};

use crate::{
    HELMS, chart as folder,
    equal::{by_name, template},
    program,
};

/// What Helm renders with these values, by kind and name.
fn with(major: u8, values: &Value) -> Result<BTreeMap<String, Value>> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), values.to_string())?;
    let mut helm = template(major)?;
    Ok(by_name(objects(&said(helm.arg("--values").arg(file.path()))?)?))
}

fn deployment(all: &BTreeMap<String, Value>) -> Result<Value> {
    let name = format!("Deployment numo in {NAMESPACE}");
    Ok(all.get(&name).context(name)?["spec"]["template"]["spec"].clone())
}

#[test]
fn without_an_image_helm_says_which_value_is_wanted() -> Result<()> {
    for major in HELMS {
        let mut helm = program(major)?;
        helm.args(["template", "numo", "--kube-version", "1.36.0"]);
        let refused = said(helm.arg(folder())).expect_err("no image");
        let why = format!("{refused:#}");
        assert!(
            why.contains("image.repository is empty: wanted the registry and repository"),
            "Helm {major}: {why}"
        );
    }
    Ok(())
}

#[test]
fn each_flag_that_has_a_value_is_set_and_its_file_is_mounted() -> Result<()> {
    let values = json!({
        "log": {"level": "numo=debug", "format": "text"},
        "runNamespaces": ["team-a", NAMESPACE],
        "plans": {"namespaces": [], "channelCa": {"configMap": "cas"}},
        "prometheus": {
            "url": "https://prometheus.example.com",
            "ca": {"configMap": "cas", "key": "prometheus.crt"},
            "token": {"file": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
        },
        "registries": {"allowed": ["registry.example.com/rules"], "plain": ["10.0.0.1:5000"], "ca": {"secret": "registry"}},
        "signatures": {
            "keys": {"secret": "keys"},
            "identities": [{"issuer": "https://issuer.example.com", "subject": "ci"}, {"issuer": "i", "subject": "s"}],
            "trustedRoot": {"configMap": "root"},
            "required": true,
        },
        "machines": {
            "provider": "sim",
            "etcd": {"secret": "numo-etcd", "endpoints": ["https://10.0.0.1:2379", "https://10.0.0.2:2379"]},
        },
        "extraArgs": ["--plan-polling-interval", "30m"],
        "extraEnv": [{"name": "SYSTEM_UPGRADE_JOB_PRIVILEGED", "value": "false"}],
        "extraEnvFrom": [{"configMapRef": {"name": "more"}}],
        "extraVolumes": [{"name": "mine", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "mine", "mountPath": "/mine"}],
        "podSecurityContext": {"fsGroup": 7},
        "securityContext": {"readOnlyRootFilesystem": true},
        "livenessProbe": {"timeoutSeconds": 5},
    });
    let flags = fs::read_to_string(root().join("operator/docs/reference/flags.md"))?;
    for major in HELMS {
        let all = with(major, &values)?;
        let pod = deployment(&all)?;
        let container = &pod["containers"][0];
        let asked = json!({"httpGet": {"path": "/healthz", "port": "probes"}, "timeoutSeconds": 5});
        assert_eq!(container["livenessProbe"], asked, "Helm {major}");
        let env: BTreeMap<&str, &Value> = container["env"]
            .as_array()
            .context("variables")?
            .iter()
            .filter_map(|one| Some((one["name"].as_str()?, &one["value"])))
            .collect();
        for (name, value) in [
            ("NUMO_LOG", "numo=debug"),
            ("NUMO_LOG_FORMAT", "text"),
            ("NUMO_RUN_NAMESPACES", &format!("team-a,{NAMESPACE}")),
            ("NUMO_PROMETHEUS_URL", "https://prometheus.example.com"),
            ("NUMO_PROMETHEUS_CA", "/etc/numo/prometheus-ca/prometheus.crt"),
            (
                "NUMO_PROMETHEUS_TOKEN_FILE",
                "/var/run/secrets/kubernetes.io/serviceaccount/token",
            ),
            ("NUMO_REGISTRIES", "registry.example.com/rules"),
            ("NUMO_PLAIN_REGISTRIES", "10.0.0.1:5000"),
            ("NUMO_REGISTRY_CA", "/etc/numo/registry-ca/ca.crt"),
            ("NUMO_RULE_KEYS", "/etc/numo/rule-keys/keys.pem"),
            ("NUMO_RULE_IDENTITIES", "https://issuer.example.com,ci;i,s"),
            (
                "NUMO_SIGSTORE_TRUSTED_ROOT",
                "/etc/numo/sigstore-trusted-root/trusted_root.json",
            ),
            ("NUMO_REQUIRE_SIGNATURES", "true"),
            ("NUMO_PLAN_CHANNEL_CA", "/etc/numo/plan-channel-ca/ca.crt"),
            ("NUMO_MACHINE_PROVIDER", "sim"),
            ("NUMO_ETCD_CERTS", "/etc/numo/etcd"),
            (
                "NUMO_ETCD_ENDPOINTS",
                "https://10.0.0.1:2379,https://10.0.0.2:2379",
            ),
            ("SYSTEM_UPGRADE_JOB_PRIVILEGED", "false"),
        ] {
            assert_eq!(env.get(name), Some(&&json!(value)), "Helm {major}: {name}");
            assert!(flags.contains(&format!("`{name}`")), "numo has no {name}");
        }
        assert_eq!(
            container["args"],
            json!(["run", "--plan-polling-interval", "30m"])
        );
        assert_eq!(container["envFrom"][0]["configMapRef"]["name"], "more");
        assert_eq!(
            container["securityContext"],
            json!({
                "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            })
        );
        assert_eq!(pod["securityContext"]["fsGroup"], 7);
        // What is mounted is a volume, and each variable's file is in one.
        let names = |list: &Value| -> Vec<String> {
            let all = list.as_array().into_iter().flatten();
            all.filter_map(|one| Some(one["name"].as_str()?.to_owned()))
                .collect()
        };
        assert_eq!(names(&pod["volumes"]), names(&container["volumeMounts"]));
        for (name, field, of) in [
            ("rule-keys", "/secret/secretName", "keys"),
            ("registry-ca", "/secret/secretName", "registry"),
            ("etcd", "/secret/secretName", "numo-etcd"),
            ("prometheus-ca", "/configMap/name", "cas"),
            ("sigstore-trusted-root", "/configMap/name", "root"),
            ("mine", "/name", "mine"),
        ] {
            let volumes = pod["volumes"].as_array().context("volumes")?;
            let volume = volumes.iter().find(|one| one["name"] == name).context(name)?;
            assert_eq!(volume.pointer(field), Some(&json!(of)), "Helm {major}: {name}");
        }
        assert!(all.contains_key("RoleBinding numo-runs in team-a"));
    }
    Ok(())
}

#[test]
fn monitoring_is_switched_part_by_part_and_alerts_have_bounds() -> Result<()> {
    let parts = [
        ("serviceMonitor", format!("ServiceMonitor numo in {NAMESPACE}")),
        ("alerts", format!("PrometheusRule numo in {NAMESPACE}")),
        ("dashboard", format!("ConfigMap numo-dashboard in {NAMESPACE}")),
    ];
    for major in HELMS {
        for (part, name) in &parts {
            let all = with(
                major,
                &json!({"monitoring": {"enabled": true, *part: {"enabled": false}}}),
            )?;
            for (_, other) in &parts {
                assert_eq!(
                    all.contains_key(other),
                    other != name,
                    "Helm {major}: {part}, {other}"
                );
            }
        }
        let all = with(
            major,
            &json!({"monitoring": {"enabled": true, "serviceMonitor": {"interval": "1m", "labels": {"of": "me"}}, "alerts": {
                "disabled": ["NumoPoolHeld"], "for": {"NumoNodeHeld": "30m", "NumoNodesUngated": "1m"},
                "severity": {"NumoNodeHeld": "critical"}, "runbooks": "https://docs.example.com/alerts",
                "thresholds": {"admittedSeconds": 901, "changedSeconds": 1801, "drainedSeconds": 3601, "rulesSeconds": 7201,
                    "soakedSeconds": 86401, "ruleErrors": 11, "leaderChanges": 66},
            }}}),
        )?;
        assert_eq!(all[&parts[0].1]["spec"]["endpoints"][0]["interval"], "1m");
        assert_eq!(all[&parts[0].1]["metadata"]["labels"]["of"], "me");
        let groups = all[&parts[1].1]["spec"]["groups"]
            .as_array()
            .context("groups")?
            .clone();
        let rules: Vec<&Value> = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().into_iter().flatten())
            .collect();
        let of = |alert: &str| rules.iter().find(|one| one["alert"] == alert);
        assert!(of("NumoPoolHeld").is_none());
        let held = of("NumoNodeHeld").context("an alert")?;
        assert_eq!(
            (&held["for"], &held["labels"]["severity"]),
            (&json!("30m"), &json!("critical"))
        );
        assert_eq!(
            held["annotations"]["runbook_url"],
            "https://docs.example.com/alerts#numonodeheld"
        );
        assert_eq!(of("NumoNodesUngated").context("an alert")?["for"], "1m");
        let text = json!(groups).to_string();
        for bound in ["> 901", "> 1801", "> 3601", "> 7201", "> 86401", "> 66"] {
            assert_eq!(text.matches(bound).count(), 1, "Helm {major}: {bound}");
        }
        assert_eq!(text.matches("> 11").count(), 3, "Helm {major}");
    }
    Ok(())
}

/// Every alert has one, of the one address of the docs, and a heading there.
#[test]
fn every_alert_has_the_address_of_its_runbook() -> Result<()> {
    let text = fs::read_to_string(root().join("deploy/monitoring/alerts.yaml"))?;
    assert!(!chart::alert_names()?.is_empty());
    let rule = objects(&text)?.remove(0);
    let groups = rule["spec"]["groups"].as_array().context("groups")?.clone();
    for one in groups
        .iter()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten())
    {
        if let Some(name) = one["alert"].as_str() {
            let wanted = format!("{RUNBOOKS}#{}", name.to_lowercase());
            assert_eq!(one["annotations"]["runbook_url"], json!(wanted));
        }
    }
    Ok(())
}

/// Namespaces that are shared with other operators carry no label of numo's: they are of nobody.
const SHARED: [&str; 2] = ["Namespace medik8s-leases", "Namespace system-upgrade"];

fn check_labels(way: &str, all: &BTreeMap<String, Value>, by: &str) {
    for (name, object) in all {
        if SHARED.contains(&name.as_str()) {
            continue;
        }
        let labels = &object["metadata"]["labels"];
        for (label, value) in [
            ("name", "numo"),
            ("part-of", "numo"),
            ("instance", "numo"),
            ("version", env!("CARGO_PKG_VERSION")),
            ("managed-by", by),
        ] {
            assert_eq!(
                labels[format!("app.kubernetes.io/{label}")],
                json!(value),
                "{way}: {name}"
            );
        }
        assert!(labels["app.kubernetes.io/component"].is_string(), "{way}: {name}");
    }
}

/// What a bundle holds is OLM's to manage, and what is applied beside it is of a person: neither says `managed-by`.
#[test]
fn every_object_for_olm_has_the_standard_labels() -> Result<()> {
    for (folder, more) in [
        (
            format!("{}/manifests", olm::BUNDLE),
            ["instance", "version"].as_slice(),
        ),
        ("deploy/olm/examples".to_owned(), [].as_slice()),
    ] {
        for file in fs::read_dir(root().join(&folder))? {
            let all = by_name(objects(&fs::read_to_string(file?.path())?)?);
            for (name, object) in all {
                // The labels of a ClusterServiceVersion say where it runs.
                // Those of the definitions are of the operator that had them first, too.
                let is_first_anothers = name.ends_with(".update.edgeless.systems");
                let is_told = object["kind"] == "ClusterServiceVersion";
                if SHARED.contains(&name.as_str()) || is_first_anothers || is_told {
                    continue;
                }
                let labels = &object["metadata"]["labels"];
                for label in ["name", "component", "part-of"].iter().chain(more) {
                    let label = format!("app.kubernetes.io/{label}");
                    assert!(labels[&label].is_string(), "{folder}: {name} has no {label}");
                }
            }
        }
    }
    Ok(())
}

/// Nothing else has the role of those who approve: without it nobody could be given the right.
#[test]
fn without_aggregation_the_roles_that_people_bind_stay() -> Result<()> {
    for major in HELMS {
        let roles = |values: &Value| -> Result<Vec<String>> {
            let all = with(major, values)?;
            let of_people = all.into_iter().filter(|(name, object)| {
                let component = &object["metadata"]["labels"]["app.kubernetes.io/component"];
                name.starts_with("ClusterRole ") && component == "roles"
            });
            Ok(of_people
                .map(|(name, _)| name.replace("ClusterRole ", ""))
                .collect())
        };
        let all = roles(&json!({}))?;
        for values in [
            json!({"roles": {"aggregate": false}}),
            json!({"roles": {"aggregate": false}, "machines": {"provider": "sim"}}),
        ] {
            let left = roles(&values)?;
            let gone: Vec<&String> = all.iter().filter(|name| !left.contains(name)).collect();
            assert_eq!(gone, ["numo-admin", "numo-edit", "numo-view"], "Helm {major}");
            assert!(
                left.contains(&"numo-approver".to_owned()),
                "Helm {major}: {left:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn every_object_has_the_standard_labels() -> Result<()> {
    for platform in rendered::PLATFORMS {
        let all = by_name(objects(&rendered::overlay(platform)?)?);
        check_labels(platform, &all, "kustomize");
    }
    for place in ["deploy/kustomize/uninstall", "deploy/monitoring"] {
        let all = by_name(objects(&rendered::kustomize(&root().join(place))?)?);
        check_labels(place, &all, "kustomize");
    }
    for major in HELMS {
        let all = with(
            major,
            &json!({
                "monitoring": {"enabled": true}, "networkPolicy": {"egress": true}, "runNamespaces": ["team-a"],
                "crds": {"plans": true}, "commonLabels": {"team": "a"},
            }),
        )?;
        check_labels(&format!("Helm {major}"), &all, "Helm");
        for (name, object) in &all {
            let labels = &object["metadata"]["labels"];
            if !SHARED.contains(&name.as_str()) {
                assert_eq!(
                    labels["helm.sh/chart"],
                    format!("numo-{}", env!("CARGO_PKG_VERSION"))
                );
                assert_eq!(labels["team"], "a", "{name}");
            }
        }
        // A release of another name selects the same pods by it.
        let mut helm = program(major)?;
        helm.args(["template", "mine", "--kube-version", "1.36.0"])
            .arg(folder());
        let all = by_name(objects(&said(helm.args(["--set", "image.repository=numo"]))?)?);
        let (_, service) = all
            .iter()
            .find(|(name, _)| name.starts_with("Service numo-metrics"))
            .context("a Service")?;
        assert_eq!(
            service["metadata"]["labels"]["app.kubernetes.io/instance"],
            "mine"
        );
        assert_eq!(
            service["spec"]["selector"],
            json!({"app.kubernetes.io/name": "numo"})
        );
    }
    Ok(())
}
