//! A provider of machines that is a component, by the chart and by kustomize: its configuration is mounted and said to numo, a change of it makes
//! the pods anew, and nothing of it is there where it was not asked for. The examples are what is tried.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result};
use numo_cluster::{Cluster, Options};
use numo_install::{NAMESPACE, objects, rendered, root, said};
use serde_json::{Value, json};

use crate::{
    HELMS,
    equal::{by_name, difference, template},
    kustomize::{apply, run, until},
};

/// The clouds that `examples/machines` has.
const CLOUDS: [&str; 4] = ["aws", "azure", "cluster-api", "gcp"];
/// By which a Machine of Cluster API goes before others.
const FIRST: &str = "cluster.x-k8s.io/delete-machine";
/// Where the configuration is in the pod.
const CONFIG: &str = "/etc/numo/machines/provider.yaml";

fn example(cloud: &str, file: &str) -> Result<String> {
    let path = root().join("examples/machines").join(cloud).join(file);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

fn config(cloud: &str) -> Result<Value> {
    let all = objects(&example(cloud, "provider.yaml")?)?;
    all.into_iter().next().context("a configuration")
}

/// The values of the chart for an example.
fn values(cloud: &str) -> Result<Value> {
    let mut machines = json!({"provider": "component", "config": config(cloud)?});
    if cloud == "cluster-api" {
        let role = objects(&example(cloud, "role.yaml")?)?;
        let role = role.first().context("a Role")?;
        machines["roles"] = json!([{"namespace": "capi", "rules": role["rules"]}]);
        machines["machineAnnotations"] = json!([FIRST]);
    } else {
        machines["credentials"] = json!({"secret": "numo-machine-credentials"});
    }
    Ok(json!({"machines": machines}))
}

/// What Helm says of the chart with these values.
fn told(major: u8, values: &Value) -> Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), values.to_string())?;
    let mut helm = template(major)?;
    said(helm.arg("--values").arg(file.path()))
}

fn with(major: u8, values: &Value) -> Result<BTreeMap<String, Value>> {
    Ok(by_name(objects(&told(major, values)?)?))
}

/// The template of numo's pods.
fn pods(all: &BTreeMap<String, Value>) -> Result<Value> {
    let name = format!("Deployment numo in {NAMESPACE}");
    Ok(all.get(&name).context(name)?["spec"]["template"].clone())
}

/// The object of a list that has this name.
fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|one| one["name"] == name)
}

/// The pods know the configuration, in the ConfigMap of this name.
fn check_pods(pods: &Value, config_map: &str, has_credentials: bool) {
    let container = &pods["spec"]["containers"][0];
    for (name, value) in [
        ("NUMO_MACHINE_PROVIDER", "component"),
        ("NUMO_MACHINE_PROVIDER_CONFIG", CONFIG),
    ] {
        let found = named(&container["env"], name).map(|one| one["value"].clone());
        assert_eq!(found, Some(json!(value)), "{config_map}: {name}");
    }
    let volume = |name: &str| named(&pods["spec"]["volumes"], name).cloned();
    let machines = volume("machines").map(|one| one["configMap"]["name"].clone());
    assert_eq!(machines, Some(json!(config_map)));
    let secret = volume("machine-credentials").map(|one| one["secret"]["secretName"].clone());
    assert_eq!(secret, has_credentials.then(|| json!("numo-machine-credentials")));
    for (name, is_there) in [("machines", true), ("machine-credentials", has_credentials)] {
        let mount = named(&container["volumeMounts"], name);
        assert_eq!(mount.is_some(), is_there, "{name}");
        if let Some(mount) = mount {
            assert_eq!(mount["mountPath"], json!(format!("/etc/numo/{name}")));
            assert_eq!(mount["readOnly"], json!(true), "{name}");
        }
    }
}

/// Annotations of Machines that the policy permits.
fn permitted(all: &BTreeMap<String, Value>) -> Result<Value> {
    let policy = &all["ValidatingAdmissionPolicy numo-metadata"];
    let listed = named(&policy["spec"]["variables"], "listedOfMachines");
    Ok(listed.context("the variable")?["expression"].clone())
}

#[test]
fn the_chart_takes_the_configuration_of_each_example() -> Result<()> {
    for major in HELMS {
        for cloud in CLOUDS {
            let wanted = values(cloud)?;
            let all = with(major, &wanted)?;
            let name = format!("ConfigMap numo-machine-provider in {NAMESPACE}");
            let text = all.get(&name).context(name)?["data"]["provider.yaml"].clone();
            let found = objects(text.as_str().context("a text")?)?.remove(0);
            let differing = difference(&wanted["machines"]["config"], &found, "");
            assert_eq!(differing, None, "Helm {major}: {cloud}");
            check_pods(&pods(&all)?, "numo-machine-provider", cloud != "cluster-api");
            let role = all.get("Role numo-machines in capi");
            assert_eq!(role.is_some(), cloud == "cluster-api", "Helm {major}: {cloud}");
            if let Some(role) = role {
                assert_eq!(role["rules"], wanted["machines"]["roles"][0]["rules"]);
                let bound = &all["RoleBinding numo-machines in capi"];
                assert_eq!(bound["subjects"][0]["namespace"], NAMESPACE);
                assert_eq!(permitted(&all)?, json!([FIRST]).to_string());
            } else {
                assert_eq!(permitted(&all)?, "[]");
            }
        }
    }
    Ok(())
}

#[test]
fn another_configuration_makes_the_pods_anew_and_others_do_not() -> Result<()> {
    let sum = "checksum/machine-provider";
    for major in HELMS {
        let mut values = values("gcp")?;
        values["podAnnotations"] = json!({"mine": "1"});
        let annotations = |values: &Value| -> Result<Value> {
            Ok(pods(&with(major, values)?)?["metadata"]["annotations"].clone())
        };
        let one = annotations(&values)?;
        assert!(one[sum].is_string(), "Helm {major}: {one}");
        assert_eq!(one["mine"], "1", "Helm {major}: it stays");
        assert_eq!(
            annotations(&values)?,
            one,
            "Helm {major}: it is the same each time"
        );
        values["machines"]["config"]["uid"] = json!("other");
        assert_ne!(annotations(&values)?[sum], one[sum], "Helm {major}");
        values["machines"]["provider"] = json!("off");
        assert_eq!(annotations(&values)?, json!({"mine": "1"}), "Helm {major}");
    }
    Ok(())
}

/// A configuration that waits for its day changes nothing.
#[test]
fn off_installs_nothing_of_a_provider() -> Result<()> {
    for major in HELMS {
        let plain = told(major, &json!({}))?;
        let mut values = values("cluster-api")?;
        values["machines"]["provider"] = json!("off");
        assert_eq!(told(major, &values)?, plain, "Helm {major}");
    }
    Ok(())
}

/// `helm upgrade --reuse-values` from a chart that had no such values has no defaults for them.
#[test]
fn values_of_an_older_chart_are_taken() -> Result<()> {
    for major in HELMS {
        let plain = told(major, &json!({}))?;
        for older in [
            json!({"livenessProbe": null, "readinessProbe": null}),
            json!({"machines": null, "crds": {"nodeVersions": null, "mutex": null}}),
            json!({"machines": {
                "config": null, "credentials": null, "roles": null, "machineAnnotations": null, "copiedAnnotations": null,
                "copiedTaints": null, "etcd": null, "clusterAutoscaler": null,
            }}),
        ] {
            assert_eq!(told(major, &older)?, plain, "Helm {major}: {older}");
        }
        let simulated = told(major, &json!({"machines": {"provider": "sim"}}))?;
        let older = json!({"machines": {"provider": "sim", "etcd": null, "credentials": null}});
        assert_eq!(told(major, &older)?, simulated, "Helm {major}");
    }
    Ok(())
}

#[test]
fn a_wrong_configuration_is_refused_before_it_is_installed() -> Result<()> {
    let mut tag = values("gcp")?;
    tag["machines"]["config"]["component"]["image"] = json!("registry.example.com/numo/providers/gcp:0.1.0");
    let mut both = values("gcp")?;
    both["machines"]["config"]["component"]["file"] = json!("/etc/numo/provider.wasm");
    let mut unknown = values("gcp")?;
    unknown["machines"]["config"]["uuid"] = json!("a");
    let mut twice = values("cluster-api")?;
    let role = twice["machines"]["roles"][0].clone();
    twice["machines"]["roles"] = json!([role, role]);
    let none = json!({"machines": {"provider": "component"}});
    let variable = json!({"extraEnv": [{"name": "NUMO_MACHINE_PROVIDER_CONFIG", "value": "/a"}]});
    for major in HELMS {
        for (values, words) in [
            (&tag, "image"),
            (&both, "component"),
            (&unknown, "uuid"),
            (&twice, "machines.roles: found namespace capi twice"),
            (&none, "machines.config: found nothing"),
            (&variable, "extraEnv"),
        ] {
            let refused = told(major, values).expect_err("refused");
            let why = format!("{refused:#}");
            assert!(why.contains(words), "Helm {major}, {words}: {why}");
        }
    }
    Ok(())
}

/// Another Deployment of this name, or another one of this namespace, is not numo's to touch.
#[test]
fn the_cluster_autoscaler_may_be_patched_where_it_is_and_nowhere_else() -> Result<()> {
    let path = root().join("deploy/kustomize/components/node-version-autoscaler/role.yaml");
    let component = by_name(objects(&fs::read_to_string(path)?)?);
    let names = [
        "Role numo-cluster-autoscaler in kube-system",
        "RoleBinding numo-cluster-autoscaler in kube-system",
    ];
    assert_eq!(component.keys().collect::<Vec<_>>(), names);
    let is_patched = |object: &Value| {
        let rules = object["rules"].as_array().into_iter().flatten();
        rules
            .filter(|rule| rule["resources"] == json!(["deployments"]))
            .any(|rule| rule["verbs"].to_string().contains("patch"))
    };
    for major in HELMS {
        let of = |autoscaler: Value, provider: &str| {
            with(
                major,
                &json!({"machines": {"provider": provider, "clusterAutoscaler": autoscaler}}),
            )
        };
        let none = of(json!({}), "sim")?;
        let patched: Vec<&String> = none
            .iter()
            .filter(|(_, object)| is_patched(object))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(patched, Vec::<&String>::new(), "Helm {major}: nobody has asked");
        let asked = of(json!({"namespace": "kube-system"}), "sim")?;
        for (name, object) in &component {
            let found = asked.get(name).with_context(|| format!("Helm {major}: {name}"))?;
            for part in ["rules", "subjects", "roleRef"] {
                let differing = difference(&object[part], &found[part], part);
                assert_eq!(differing, None, "Helm {major}: {name}");
            }
        }
        let mine = of(
            json!({"namespace": "scaling", "name": "cluster-autoscaler"}),
            "sim",
        )?;
        let role = mine
            .get("Role numo-cluster-autoscaler in scaling")
            .context("a Role")?;
        assert_eq!(role["rules"][0]["resourceNames"], json!(["cluster-autoscaler"]));
        let off = of(json!({"namespace": "kube-system"}), "off")?;
        assert!(names.iter().all(|name| !off.contains_key(*name)), "Helm {major}");
    }
    Ok(())
}

/// A generated name restarts numo when the configuration changes.
#[test]
fn each_example_is_an_overlay_that_builds() -> Result<()> {
    for cloud in CLOUDS {
        let folder = root().join("examples/machines").join(cloud);
        let all = by_name(objects(&rendered::kustomize(&folder)?)?);
        let mut maps = all
            .iter()
            .filter(|(name, _)| name.starts_with("ConfigMap numo-machine-provider-"));
        let (_, map) = maps.next().with_context(|| format!("{cloud}: a ConfigMap"))?;
        assert!(maps.next().is_none(), "{cloud}");
        assert_eq!(map["data"]["provider.yaml"], example(cloud, "provider.yaml")?);
        let name = map["metadata"]["name"].as_str().context("a name")?;
        check_pods(&pods(&all)?, name, true);
        let wanted = if cloud == "cluster-api" {
            format!("['{FIRST}']")
        } else {
            "[]".to_owned()
        };
        assert_eq!(permitted(&all)?, wanted, "{cloud}");
        assert!(all.contains_key("CustomResourceDefinition nodeversions.update.edgeless.systems"));
    }
    Ok(())
}

/// numo has no right without which a grant is idle: each kind that is granted is in the Role, with what is written.
#[test]
fn the_role_of_the_example_has_what_its_grants_name() -> Result<()> {
    let role = objects(&example("cluster-api", "role.yaml")?)?.remove(0);
    let rules = role["rules"].as_array().context("rules")?.clone();
    let config = config("cluster-api")?;
    for grant in config["grants"]["kubernetes"].as_array().context("grants")? {
        let kind = grant["kind"].as_str().context("a kind")?;
        let version = grant["apiVersion"].as_str().context("a version")?;
        let (group, _) = version.split_once('/').context("a group")?;
        let plural = json!(format!("{}s", kind.to_lowercase()));
        let is_in = |list: &Value, one: &Value| list.as_array().is_some_and(|all| all.contains(one));
        let rule = rules
            .iter()
            .find(|rule| is_in(&rule["apiGroups"], &json!(group)) && is_in(&rule["resources"], &plural))
            .with_context(|| format!("no rule for {kind}"))?;
        assert_eq!(
            grant["namespaces"],
            json!([role["metadata"]["namespace"]]),
            "{kind}"
        );
        let verbs = grant["write"].as_array().cloned().unwrap_or_default();
        for verb in verbs.iter().chain(&[json!("get"), json!("list")]) {
            assert!(is_in(&rule["verbs"], verb), "{kind}: {verb}");
        }
    }
    Ok(())
}

/// A kind of Cluster API, as far as a policy sees it.
fn machines() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "machines.cluster.x-k8s.io"},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "Machine", "listKind": "MachineList", "plural": "machines", "singular": "machine"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

/// By its overlay numo may say which Machine goes first, and still writes no other annotation and no spec.
#[tokio::test(flavor = "multi_thread")]
async fn by_the_overlay_numo_may_say_which_machine_goes_first_and_nothing_more() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    run(&cluster, &["create", "namespace", "capi"])?;
    apply(&cluster, &machines(), &[])?;
    let words = ["apply", "-k", "examples/machines/cluster-api"];
    until(&cluster, &words, "validatingwebhookconfiguration").await?;
    let named = ["get", "machines.cluster.x-k8s.io", "-n", "capi"];
    until(&cluster, &named, "").await?;
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": {"namespace": "capi", "name": "m"},
        "spec": {"clusterName": "example"},
    });
    apply(&cluster, &machine, &[])?;
    let account = format!("system:serviceaccount:{NAMESPACE}:numo");
    let patch = |what: Value| {
        let body = what.to_string();
        run(
            &cluster,
            &[
                "patch",
                "machines.cluster.x-k8s.io",
                "m",
                "-n",
                "capi",
                "--as",
                &account,
                "--type=merge",
                "-p",
                &body,
            ],
        )
    };
    let annotation = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    // A policy counts a moment after it was written.
    let mut refused = String::new();
    for number in 0..300 {
        match patch(annotation("example.com/of", &number.to_string())) {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            Err(error) => {
                refused = format!("{error:#}");
                break;
            }
        }
    }
    assert!(
        refused.contains("numo may not change this annotation"),
        "{refused}"
    );
    patch(annotation(FIRST, ""))?;
    let spec = patch(json!({"spec": {"clusterName": "other"}})).expect_err("a spec");
    assert!(
        format!("{spec:#}").contains("numo may not change a spec"),
        "{spec:#}"
    );
    cluster.stop().await;
    Ok(())
}
