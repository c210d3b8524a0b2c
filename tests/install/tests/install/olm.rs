//! The bundle and the catalogue: by the checks of OLM itself, by a real API server's dry run, and beside the overlay that
//! they are made from.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};
use numo_cluster::{Cluster, Options, User};
use numo_install::{NAMESPACE, objects, olm, rendered, root, said};
use serde_json::{Value, json};

use crate::equal::{by_name, difference, forgive};

/// `olmcheck`: the validators of operator-framework/api and operator-registry. The first call builds it.
fn olmcheck() -> Result<Command> {
    let module = root().join("tests/install/olm");
    let files = ["main.go", "go.mod", "go.sum"];
    let program = numo_plugin_tests::programs::go_program(&module, &files, ".", "olmcheck")?;
    Ok(Command::new(program))
}

fn bundle() -> PathBuf {
    root().join(olm::BUNDLE)
}

fn catalog() -> Result<PathBuf> {
    let file = root().join(olm::CATALOG);
    Ok(file.parent().context("a folder")?.to_owned())
}

/// The ClusterServiceVersion.
fn service_version() -> Result<Value> {
    let text = fs::read_to_string(bundle().join("manifests/numo.clusterserviceversion.yaml"))?;
    objects(&text)?
        .into_iter()
        .next()
        .context("a ClusterServiceVersion")
}

/// What OLM makes of the bundle, in its namespace.
fn as_olm_makes_it() -> Result<Vec<Value>> {
    let csv = service_version()?;
    let mut all = Vec::new();
    for entry in fs::read_dir(bundle().join("manifests"))? {
        for mut object in objects(&fs::read_to_string(entry?.path())?)? {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            if kind == "ClusterServiceVersion" {
                continue;
            }
            let is_namespaced =
                !["ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"].contains(&kind.as_str());
            if is_namespaced {
                object["metadata"]["namespace"] = json!(NAMESPACE);
            }
            for subject in object
                .get_mut("subjects")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                subject["namespace"] = json!(NAMESPACE);
            }
            all.push(object);
        }
    }
    let install = &csv["spec"]["install"]["spec"];
    let deployment = &install["deployments"][0];
    all.push(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": deployment["name"], "namespace": NAMESPACE, "labels": deployment["label"]},
        "spec": deployment["spec"],
    }));
    all.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "numo"},
        "rules": install["clusterPermissions"][0]["rules"],
    }));
    Ok(all)
}

#[test]
fn the_bundle_and_the_catalogue_pass_the_checks_of_olm() -> Result<()> {
    said(olmcheck()?.args(["bundle", "-werror"]).arg(bundle()))?;
    let names = said(olmcheck()?.args(["catalog", "-werror"]).arg(catalog()?))?;
    assert!(
        names.contains(&format!("numo.v{}", env!("CARGO_PKG_VERSION"))),
        "{names}"
    );
    // What stands in the catalogue of the bundle is what opm would put there.
    let text = fs::read_to_string(root().join(olm::CATALOG))?;
    let blob = objects(&text)?
        .into_iter()
        .find(|blob| blob["schema"] == "olm.bundle");
    let blob = blob.context("a bundle")?;
    let image = blob["image"].as_str().context("an image")?;
    let migrate = [
        "render",
        "-migrate",
        "bundle-object-to-csv-metadata",
        "-image",
        image,
    ];
    let rendered = objects(&said(olmcheck()?.args(migrate).arg(bundle()))?)?;
    let theirs = rendered
        .into_iter()
        .find(|blob| blob["schema"] == "olm.bundle")
        .context("a bundle")?;
    for property in ["olm.package", "olm.csv.metadata"] {
        let of = |blob: &Value| {
            let all = blob["properties"].as_array().into_iter().flatten();
            all.filter(|one| one["type"] == property)
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(
            difference(&json!(of(&blob)), &json!(of(&theirs)), ""),
            None,
            "{property}"
        );
    }
    Ok(())
}

#[test]
fn a_broken_bundle_is_found_out() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // Hidden folders are passed over.
    let place = folder.path().join("bundle");
    fs::create_dir(&place)?;
    for part in ["manifests", "metadata"] {
        fs::create_dir(place.join(part))?;
        for entry in fs::read_dir(bundle().join(part))? {
            let path = entry?.path();
            fs::copy(&path, place.join(part).join(path.file_name().context("a name")?))?;
        }
    }
    said(olmcheck()?.args(["bundle", "-werror"]).arg(&place))?;
    let file = place.join("manifests/numo.clusterserviceversion.yaml");
    let text = fs::read_to_string(&file)?;
    for (from, to) in [
        ("Seamless Upgrades", "Miraculous"),
        ("failurePolicy: Ignore", "failurePolicyy: Ignore"),
        ("deploymentName: numo", "deploymentName: nobody"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(&file, text.replacen(from, to, 1))?;
        assert!(
            said(olmcheck()?.args(["bundle", "-werror"]).arg(&place)).is_err(),
            "{to}"
        );
    }
    Ok(())
}

#[test]
fn olm_makes_the_objects_of_the_overlay() -> Result<()> {
    let list = objects(include_str!("olm_differences.yaml"))?.into_iter().next();
    let list = list
        .and_then(|list| list.as_array().cloned())
        .context("a list of differences")?;
    let mut overlay = by_name(objects(&rendered::overlay("openshift")?)?);
    let mut made = by_name(as_olm_makes_it()?);
    let mut used = forgive("overlay", &mut overlay, &list);
    used.extend(forgive("olm", &mut made, &list));
    let names =
        |all: &std::collections::BTreeMap<String, Value>| all.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&overlay), names(&made));
    for (name, object) in &overlay {
        let found = difference(object, &made[name], "");
        assert_eq!(found, None, "{name}");
    }
    let unused: Vec<&Value> = list
        .iter()
        .enumerate()
        .filter(|(index, _)| !used.contains(index))
        .map(|(_, one)| one)
        .collect();
    assert_eq!(unused, Vec::<&Value>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_in_the_bundle_passes_a_dry_run_of_the_api_server() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let (kubectl, kubeconfig) = cluster.kubectl(User::Admin);
    let folder = tempfile::tempdir()?;
    let run = |arguments: &[&str], objects: &[Value]| -> Result<String> {
        let file = folder.path().join("objects.yaml");
        let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
        fs::write(&file, documents.join("\n---\n"))?;
        let mut command = Command::new(&kubectl[0]);
        command.args(&kubectl[1..]).arg("--kubeconfig").arg(&kubeconfig);
        said(command.args(arguments).arg("-f").arg(&file))
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    run(&["apply"], &[namespace])?;
    let all = as_olm_makes_it()?;
    let (definitions, rest): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|object| object["kind"] == "CustomResourceDefinition");
    run(&["apply", "--server-side"], &definitions)?;
    let mut wait = Command::new(&kubectl[0]);
    wait.args(&kubectl[1..]).arg("--kubeconfig").arg(&kubeconfig);
    said(wait.args([
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd",
        "--all",
    ]))?;
    let told = run(&["apply", "--dry-run=server"], &rest)?;
    assert_eq!(told.lines().count(), rest.len(), "{told}");
    let csv = service_version()?;
    let examples = csv["metadata"]["annotations"]["alm-examples"]
        .as_str()
        .context("examples")?;
    let examples: Vec<Value> = serde_json::from_str(examples)?;
    let owned = csv["spec"]["customresourcedefinitions"]["owned"]
        .as_array()
        .context("owned")?;
    assert_eq!(examples.len(), owned.len(), "one for each kind");
    let told = run(&["apply", "--dry-run=server", "-n", NAMESPACE], &examples)?;
    assert_eq!(told.lines().count(), examples.len(), "{told}");
    cluster.stop().await;
    Ok(())
}
