//! The bundle and the catalogue: by the checks of OLM itself, by a real API server's dry run, and beside the overlay that
//! they are made from.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

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

/// The validators find nothing but that the channel `alpha` is not one of the names that OLM recommends.
fn is_sound(bundle: &Path) -> Result<()> {
    let found = said(olmcheck()?.arg("bundle").arg(bundle))?;
    let others: Vec<&str> = found
        .lines()
        .filter(|line| !line.contains("channel(s) [\"alpha\"] are not following the recommended naming"))
        .collect();
    anyhow::ensure!(others.is_empty(), "{others:?}");
    Ok(())
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
            if !olm::CLUSTER_SCOPED.contains(&kind.as_str()) {
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
    is_sound(&bundle())?;
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
    is_sound(&place)?;
    let file = place.join("manifests/numo.clusterserviceversion.yaml");
    let text = fs::read_to_string(&file)?;
    for (from, to) in [
        ("Basic Install", "Miraculous"),
        ("type: AllNamespaces", "type: EveryNamespace"),
        ("  installModes:", "  installModess:"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(&file, text.replacen(from, to, 1))?;
        assert!(is_sound(&place).is_err(), "{to}");
    }
    Ok(())
}

/// The checks of scorecard's suite `olm` that certification and the community's pipeline run, as far as they read the bundle: each
/// definition that is owned has a validation and resources, and descriptors for what its example says and for its status. And what
/// OLM v1 of OpenShift 4.18 to 4.20 refuses.
#[test]
fn the_bundle_passes_scorecard_and_is_taken_by_every_olm_of_today() -> Result<()> {
    let csv = service_version()?;
    let definitions: Vec<Value> = as_olm_makes_it()?
        .into_iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
        .collect();
    let owned = csv["spec"]["customresourcedefinitions"]["owned"]
        .as_array()
        .context("owned")?;
    let examples = csv["metadata"]["annotations"]["alm-examples"].as_str();
    let examples: Vec<Value> = serde_json::from_str(examples.context("examples")?)?;
    for one in owned {
        let (name, kind) = (&one["name"], &one["kind"]);
        let resources = one["resources"].as_array().map_or(0, Vec::len);
        assert!(resources > 0, "{name} has no resources");
        let definition = definitions
            .iter()
            .find(|found| found["metadata"]["name"] == *name);
        let schema = &definition.context("a definition")?["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(schema["type"], "object", "{name} has no validation");
        let described = |part: &str| -> BTreeSet<String> {
            let all = one[format!("{part}Descriptors")].as_array().into_iter().flatten();
            all.filter_map(|one| one["path"].as_str().map(str::to_owned))
                .collect()
        };
        let has_status = schema.pointer("/properties/status/properties").is_some();
        assert_eq!(has_status, !described("status").is_empty(), "{name}: its status");
        let example = examples.iter().find(|example| example["kind"] == *kind);
        let spec = example.context("an example")?["spec"]
            .as_object()
            .context("a spec")?;
        for field in spec.keys() {
            assert!(
                described("spec").contains(field),
                "{name}: spec.{field} is not described"
            );
        }
    }
    assert_eq!(
        csv["spec"]["webhookdefinitions"],
        Value::Null,
        "OLM v1 refuses webhooks before OpenShift 4.21"
    );
    let text = fs::read_to_string(root().join("deploy/olm/examples/olm-v1.yaml"))?;
    let extension = objects(&text)?
        .into_iter()
        .find(|one| one["kind"] == "ClusterExtension");
    let account = extension.context("a ClusterExtension")?["spec"]["serviceAccount"]["name"].clone();
    assert!(
        account.is_string(),
        "OpenShift 4.18 to 4.20 ask for a ServiceAccount"
    );
    // Reserved for OpenShift itself; Prometheus is asked by the annotation.
    let annotations = &csv["metadata"]["annotations"];
    let template = annotations["operatorframework.io/suggested-namespace-template"].as_str();
    assert!(
        !template
            .context("a namespace")?
            .contains("openshift.io/cluster-monitoring")
    );
    assert_eq!(annotations["operatorframework.io/cluster-monitoring"], "true");
    // A binding of the cluster would name the namespace of somebody else's installation.
    for object in as_olm_makes_it()? {
        assert_ne!(
            object["kind"], "ClusterRoleBinding",
            "{}",
            object["metadata"]["name"]
        );
    }
    // What is said to be supported has been built.
    assert_eq!(
        csv["metadata"]["labels"].get("operatorframework.io/arch.arm64"),
        None
    );
    Ok(())
}

/// Words of the page's commands that begin so, without those that begin with `-`.
fn named(page: &str, command: &str) -> BTreeSet<String> {
    let of = |line: &str| {
        let words = line.strip_prefix(command)?.split_whitespace();
        Some(words.map(str::to_owned).collect::<Vec<String>>())
    };
    let words = page.lines().filter_map(of).flatten();
    words.filter(|word| !word.starts_with('-')).collect()
}

/// OLM v0 leaves what has no namespace: the page has to name all of it, or a role that people are bound to stays for ever.
#[test]
fn the_page_deletes_all_that_olm_leaves_and_what_was_applied_by_hand() -> Result<()> {
    let page = fs::read_to_string(root().join("operator/docs/olm.md"))?;
    for (kind, command) in [
        ("ClusterRole", "kubectl delete clusterrole "),
        ("ConsoleCLIDownload", "kubectl delete consoleclidownload "),
    ] {
        let mut brought = BTreeSet::new();
        for entry in fs::read_dir(bundle().join("manifests"))? {
            let all = objects(&fs::read_to_string(entry?.path())?)?;
            let of_kind = all.iter().filter(|object| object["kind"] == kind);
            brought
                .extend(of_kind.filter_map(|object| Some(object["metadata"]["name"].as_str()?.to_owned())));
        }
        assert!(!brought.is_empty(), "the bundle has a {kind}");
        assert_eq!(named(&page, command), brought, "{command}");
    }
    let applied = named(&page, "kubectl apply ");
    let mut deleted = named(&page, "kubectl delete ");
    // Its namespace is shared, so its objects are deleted one by one.
    deleted.insert("deploy/olm/examples/node-leases.yaml".to_owned());
    let examples = fs::read_dir(root().join("deploy/olm/examples"))?;
    for entry in examples {
        let file = format!("deploy/olm/examples/{}", entry?.file_name().to_string_lossy());
        // Those of NodeVersions have a section of their own.
        let is_optional = file.ends_with("/egress.yaml") || file.contains("/node-version");
        assert!(is_optional || applied.contains(&file), "{file} is not applied");
        let is_olms = file.contains("/olm-v");
        assert!(
            is_optional || is_olms || deleted.contains(&file),
            "{file} is not deleted"
        );
    }
    Ok(())
}

/// What replaces machines is nowhere in the bundle: no definition of another project's names, and no right to delete Nodes.
#[test]
fn the_bundle_has_nothing_of_nodeversions() -> Result<()> {
    let deletes_nodes = |rule: &Value| {
        let has = |field: &str, one: &str| {
            let all = rule[field].as_array().into_iter().flatten();
            all.into_iter().any(|found| *found == one || *found == "*")
        };
        has("resources", "nodes") && (has("verbs", "delete") || has("verbs", "deletecollection"))
    };
    for object in as_olm_makes_it()? {
        let name = &object["metadata"]["name"];
        for rule in object["rules"].as_array().into_iter().flatten() {
            assert!(!deletes_nodes(rule), "{name}: {rule}");
            let is_of_machines = rule.to_string().contains("update.edgeless.systems");
            assert!(!is_of_machines, "{name}: {rule}");
        }
        let group = &object["spec"]["group"];
        assert_ne!(group, "update.edgeless.systems", "{name}");
        assert!(!object.to_string().contains("NUMO_MACHINE_PROVIDER"), "{name}");
    }
    Ok(())
}

/// The page has each of the files applied, and takes away what is numo's; the definitions only if nobody is to have NodeVersions.
#[test]
fn the_page_applies_what_nodeversions_need_and_deletes_it() -> Result<()> {
    let page = fs::read_to_string(root().join("operator/docs/olm.md"))?;
    for file in [
        "deploy/olm/examples/node-version-definitions.yaml",
        "deploy/olm/examples/node-version.yaml",
    ] {
        for verb in ["kubectl apply", "kubectl delete"] {
            let mut lines = page.lines();
            assert!(
                lines.any(|line| line.starts_with(verb) && line.ends_with(&format!("-f {file}"))),
                "{verb} {file}"
            );
        }
    }
    // They are those of the component.
    let mut wanted = Vec::new();
    for entry in fs::read_dir(root().join("deploy/kustomize/components/node-version"))? {
        let path = entry?.path();
        let all = objects(&fs::read_to_string(&path)?)?;
        wanted.extend(all.into_iter().filter(|object| object["kind"].is_string()));
    }
    wanted.retain(|object| object["kind"] != "Component");
    let wanted = by_name(wanted);
    assert_eq!(wanted.len(), 7, "{:?}", wanted.keys());
    let mut found = by_name(example("node-version-definitions.yaml")?);
    assert_eq!(found.len(), 5);
    found.extend(by_name(example("node-version.yaml")?));
    for (name, object) in &wanted {
        let same = found.get(name).with_context(|| name.clone())?;
        assert_eq!(difference(object, same, ""), None, "{name}");
    }
    let others: Vec<&String> = found.keys().filter(|name| !wanted.contains_key(*name)).collect();
    assert_eq!(
        others,
        [
            "ClusterRole numo-node-version-admin",
            "ClusterRole numo-node-version-oncall",
            "ClusterRole numo-node-version-view",
            "ClusterRole numo-node-version-viewer",
            "ValidatingAdmissionPolicy numo-nodes"
        ]
    );
    // What is aggregated is there at once; the others a person binds.
    for (role, is_aggregated) in [
        ("view", true),
        ("admin", true),
        ("viewer", false),
        ("oncall", false),
    ] {
        let labels = &found[&format!("ClusterRole numo-node-version-{role}")]["metadata"]["labels"];
        let label = &labels[format!("rbac.authorization.k8s.io/aggregate-to-{role}")];
        assert_eq!(*label == "true", is_aggregated, "{role}: {labels}");
    }
    let variables = found["ValidatingAdmissionPolicy numo-nodes"]["spec"]["variables"].to_string();
    for variable in ["listedAnnotations", "listedTaints", "strangeTaints"] {
        assert!(variables.contains(variable), "{variable}: {variables}");
    }
    Ok(())
}

/// numo as a process with the rights that the bundle gives it, ended when it is dropped.
struct Operator(std::process::Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(kubeconfig: &Path, folder: &Path, provider: Option<&str>) -> Result<Operator> {
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("log"))?;
    let mut numo = Command::new(crate::helm::numo());
    numo.args(["run", "--namespace", NAMESPACE, "--metrics-address", "off"])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--cache-dir")
        .arg(folder.join("cache"))
        .env_remove("NUMO_MACHINE_PROVIDER")
        .stdout(std::process::Stdio::null())
        .stderr(log);
    // As a Subscription says it.
    if let Some(provider) = provider {
        numo.env("NUMO_MACHINE_PROVIDER", provider);
    }
    Ok(Operator(numo.spawn()?))
}

/// Runs kubectl until it prints this.
async fn until(cluster: &Cluster, words: &[&str], wanted: &str, folder: &Path) -> Result<String> {
    let mut last = String::new();
    for _ in 0..300 {
        match said(kubectl(cluster).args(words)) {
            Ok(told) if told.contains(wanted) => return Ok(told),
            Ok(told) => last = told,
            Err(error) => last = format!("{error:#}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
    anyhow::bail!("kubectl {words:?} never said {wanted}: {last}\n{log}")
}

/// By the bundle alone NodeVersions are nothing to numo, whatever it is told; after the steps of the page it serves them.
#[tokio::test(flavor = "multi_thread")]
async fn numo_of_the_bundle_serves_nodeversions_after_the_steps_of_the_page_and_not_before() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let folder = tempfile::tempdir()?;
    let run = |arguments: &[&str], objects: &[Value]| apply(&cluster, folder.path(), arguments, objects);
    let (definitions, rest): (Vec<_>, Vec<_>) = as_olm_makes_it()?
        .into_iter()
        .partition(|object| object["kind"] == "CustomResourceDefinition");
    define(
        &cluster,
        folder.path(),
        &[definitions, definitions_of_openshift()].concat(),
    )?;
    let account = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": if kind == "Namespace" { NAMESPACE } else { "numo" }}});
    run(&["apply"], &[account("Namespace")])?;
    run(&["apply", "-n", NAMESPACE], &[account("ServiceAccount")])?;
    // What OLM makes of clusterPermissions.
    let bound = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "numo"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "numo"},
        "subjects": [{"kind": "ServiceAccount", "name": "numo", "namespace": NAMESPACE}],
    });
    run(&["apply"], &[rest, vec![bound]].concat())?;
    let policy = root().join("deploy/kustomize/base/admission_policy.yaml");
    said(kubectl(&cluster).args(["apply", "-f"]).arg(&policy))?;
    let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, "numo").await?;
    let may = |verb: &str, what: &str| {
        let account = format!("--as=system:serviceaccount:{NAMESPACE}:numo");
        // `no` is an exit code, too.
        said(kubectl(&cluster).args(["auth", "can-i", verb, what, &account])).is_ok()
    };
    assert!(!may("delete", "nodes"), "by the bundle alone");

    let steps = |file: &str, more: &[&str]| {
        let path = root().join("deploy/olm/examples").join(file);
        said(
            kubectl(&cluster)
                .args(["apply", "--server-side"])
                .args(more)
                .arg("-f")
                .arg(path),
        )
    };
    steps("node-version-definitions.yaml", &[])?;
    established(&cluster)?;
    let version = json!({
        "apiVersion": "update.edgeless.systems/v1alpha1", "kind": "NodeVersion", "metadata": {"name": "constellation-version"},
        "spec": {"image": "img2"},
    });
    run(&["apply"], &[version])?;
    let status = [
        "get",
        "nodeversion",
        "constellation-version",
        "-o",
        "jsonpath={.status.conditions[*].type}",
    ];
    {
        // Without the variable it looks at none of these kinds.
        let _operator = start(&kubeconfig, folder.path(), None)?;
        let lease = ["get", "leases", "-n", NAMESPACE, "-o", "name"];
        until(&cluster, &lease, "lease", folder.path()).await?;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        assert_eq!(
            said(kubectl(&cluster).args(status))?,
            "",
            "nobody has asked for it"
        );
    }
    // Twice: a file may be applied again.
    for _ in 0..2 {
        steps("node-version.yaml", &["--force-conflicts"])?;
    }
    assert!(may("delete", "nodes"), "by the steps of the page");
    let role = root().join("deploy/kustomize/components/node-version-sim/role.yaml");
    said(kubectl(&cluster).args(["apply", "-f"]).arg(role))?;
    let _operator = start(&kubeconfig, folder.path(), Some("sim"))?;
    until(&cluster, &status, "Outdated", folder.path()).await?;
    cluster.stop().await;
    Ok(())
}

/// Stand-ins for definitions that every OpenShift has: they take anything.
fn definitions_of_openshift() -> Vec<Value> {
    let of = |kind: &str, plural: &str, group: &str, scope: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "annotations": {
                "api-approved.kubernetes.io": "unapproved, for tests",
            }},
            "spec": {
                "group": group, "scope": scope, "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        })
    };
    vec![
        of(
            "ServiceMonitor",
            "servicemonitors",
            "monitoring.coreos.com",
            "Namespaced",
        ),
        of(
            "PrometheusRule",
            "prometheusrules",
            "monitoring.coreos.com",
            "Namespaced",
        ),
        of(
            "ConsoleCLIDownload",
            "consoleclidownloads",
            "console.openshift.io",
            "Cluster",
        ),
    ]
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

/// kubectl, about to be an administrator's.
fn kubectl(cluster: &Cluster) -> Command {
    let (words, kubeconfig) = cluster.kubectl(User::Admin);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--kubeconfig").arg(kubeconfig);
    command
}

/// Runs a verb of kubectl with these objects, by a file in the folder.
fn apply(cluster: &Cluster, folder: &Path, arguments: &[&str], objects: &[Value]) -> Result<String> {
    let file = folder.join("objects.yaml");
    let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
    fs::write(&file, documents.join("\n---\n"))?;
    said(kubectl(cluster).args(arguments).arg("-f").arg(&file))
}

/// Applies definitions, and waits until they are served.
fn define(cluster: &Cluster, folder: &Path, definitions: &[Value]) -> Result<()> {
    apply(cluster, folder, &["apply", "--server-side"], definitions)?;
    established(cluster)
}

/// Waits until all definitions are served. `kubectl wait` fails on an object that has no conditions yet.
fn established(cluster: &Cluster) -> Result<()> {
    for condition in ["jsonpath={.status.conditions}", "condition=Established"] {
        let condition = format!("--for={condition}");
        said(kubectl(cluster).args(["wait", &condition, "--timeout=60s", "crd", "--all"]))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_in_the_bundle_passes_a_dry_run_of_the_api_server() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let folder = tempfile::tempdir()?;
    let run = |arguments: &[&str], objects: &[Value]| apply(&cluster, folder.path(), arguments, objects);
    let template = service_version()?;
    let template = template["metadata"]["annotations"]["operatorframework.io/suggested-namespace-template"]
        .as_str()
        .context("a namespace")?;
    run(&["apply"], &objects(template)?)?;
    let all = as_olm_makes_it()?;
    let (definitions, rest): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|object| object["kind"] == "CustomResourceDefinition");
    define(
        &cluster,
        folder.path(),
        &[definitions, definitions_of_openshift()].concat(),
    )?;
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

/// OLM's own definitions, each release by its checksum: of v0, and of v1.
const OLM: [(&str, &str, &[&str]); 2] = [
    (
        "github.com/operator-framework/api@v0.45.0",
        "h1:hkROwtsLH3oszp4IW+WsXEFSDgveSahHI7DKStOtrUI=",
        &[
            "crds/operators.coreos.com_catalogsources.yaml",
            "crds/operators.coreos.com_clusterserviceversions.yaml",
            "crds/operators.coreos.com_operatorgroups.yaml",
            "crds/operators.coreos.com_subscriptions.yaml",
        ],
    ),
    (
        "github.com/operator-framework/operator-controller@v1.11.0",
        "h1:I1isTdEJ5mT5WHV+o3DPI3bI+eO0xls4gaVbx8kS/Mg=",
        &[
            "helm/olmv1/base/operator-controller/crd/standard/olm.operatorframework.io_clusterextensions.yaml",
            "helm/olmv1/base/catalogd/crd/standard/olm.operatorframework.io_clustercatalogs.yaml",
        ],
    ),
];

fn definitions_of_olm() -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for (module, sum, files) in OLM {
        let mut go = Command::new("go");
        // The checksum is compared here.
        go.current_dir(root().join("tests/install/olm"))
            .env("GONOSUMDB", "github.com/operator-framework/*")
            .args(["mod", "download", "-json", module]);
        let told: Value = serde_json::from_str(&said(&mut go)?)?;
        assert_eq!(told["Sum"], *sum, "{module}");
        let folder = PathBuf::from(told["Dir"].as_str().context("a folder")?);
        for file in files {
            all.extend(objects(&fs::read_to_string(folder.join(file))?)?);
        }
    }
    Ok(all)
}

fn example(name: &str) -> Result<Vec<Value>> {
    objects(&fs::read_to_string(
        root().join("deploy/olm/examples").join(name),
    )?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_for_olm_are_what_olm_takes() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let folder = tempfile::tempdir()?;
    let run = |arguments: &[&str], objects: &[Value]| apply(&cluster, folder.path(), arguments, objects);
    define(&cluster, folder.path(), &definitions_of_olm()?)?;
    let of = |names: &[&str]| -> Result<Vec<Value>> {
        let all: Result<Vec<Vec<Value>>> = names.iter().map(|name| example(name)).collect();
        Ok(all?.concat())
    };
    let all = of(&[
        "olm-v0.yaml",
        "olm-v1.yaml",
        "node-leases.yaml",
        "rule-job-quota.yaml",
        "rule-reader.yaml",
        "egress.yaml",
    ])?;
    let (namespaces, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one["kind"] == "Namespace");
    let marketplace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-marketplace"}});
    run(&["apply"], &[namespaces, vec![marketplace]].concat())?;
    // A field that OLM does not know is an error.
    let strictly = ["apply", "--dry-run=server", "--validate=strict"];
    let told = run(&strictly, &rest)?;
    assert_eq!(told.lines().count(), rest.len(), "{told}");
    let mut csv = service_version()?;
    csv["metadata"]["namespace"] = json!(NAMESPACE);
    run(&strictly, &[csv.clone()])?;
    // It can be told from one that OLM would refuse.
    csv["spec"]["installModes"] = json!("AllNamespaces");
    run(&strictly, &[csv]).expect_err("installModes is a list");

    // What they ask for is in the catalogue.
    let blobs = objects(&fs::read_to_string(root().join(olm::CATALOG))?)?;
    let named = |schema: &str| {
        let all = blobs.iter().filter(|blob| blob["schema"] == schema);
        all.map(|blob| blob["name"].clone()).collect::<Vec<_>>()
    };
    let (packages, channels) = (named("olm.package"), named("olm.channel"));
    let by_kind = |kind: &str| {
        rest.iter()
            .find(|one| one["kind"] == kind)
            .context(kind.to_owned())
    };
    let subscription = by_kind("Subscription")?;
    let extension = &by_kind("ClusterExtension")?["spec"]["source"]["catalog"];
    assert!(packages.contains(&subscription["spec"]["name"]) && packages.contains(&extension["packageName"]));
    assert!(
        channels.contains(&subscription["spec"]["channel"]) && channels.contains(&extension["channels"][0])
    );
    assert_eq!(
        by_kind("CatalogSource")?["metadata"]["name"],
        subscription["spec"]["source"]
    );

    // What is applied by hand is what the base has.
    let text = fs::read_to_string(root().join("deploy/kustomize/leases/rights/role.yaml"))?;
    let mut source = by_name(objects(&text)?);
    let text = fs::read_to_string(root().join("deploy/kustomize/leases/namespace/namespace.yaml"))?;
    source.extend(by_name(objects(&text)?));
    let text = fs::read_to_string(root().join("deploy/kustomize/base/rule_components.yaml"))?;
    let bound = objects(&text)?;
    source.extend(by_name(
        bound
            .into_iter()
            .filter(|object| object["kind"] == "ClusterRoleBinding")
            .collect(),
    ));
    let mut by_hand = by_name(example("node-leases.yaml")?);
    by_hand.extend(by_name(example("rule-reader.yaml")?));
    assert_eq!(
        source.keys().collect::<Vec<_>>(),
        by_hand.keys().collect::<Vec<_>>()
    );
    for (name, object) in &source {
        assert_eq!(difference(object, &by_hand[name], ""), None, "{name}");
    }
    cluster.stop().await;
    Ok(())
}

/// Who publishes it names images by their digests: so does everything then.
#[test]
fn a_bundle_for_images_by_digest_names_no_tag() -> Result<()> {
    let digest = |letter: char| format!("@sha256:{}", letter.to_string().repeat(64));
    let image = format!("registry.example.com/team/numo{}", digest('a'));
    let bundle_image = format!("registry.example.com/team/numo-bundle{}", digest('b'));
    let kubectl_image = format!("registry.example.com/team/kubectl{}", digest('c'));
    let place = tempfile::tempdir()?;
    olm::publish(place.path(), &image, &bundle_image, &kubectl_image)?;
    let folder = place.path().join("bundle");
    is_sound(&folder)?;
    said(
        olmcheck()?
            .args(["catalog", "-werror"])
            .arg(place.path().join("catalog")),
    )?;
    let csv = fs::read_to_string(folder.join("manifests/numo.clusterserviceversion.yaml"))?;
    let csv = objects(&csv)?
        .into_iter()
        .next()
        .context("a ClusterServiceVersion")?;
    let container =
        &csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0];
    for found in [
        &container["image"],
        &csv["metadata"]["annotations"]["containerImage"],
        &csv["spec"]["relatedImages"][0]["image"],
    ] {
        assert_eq!(*found, json!(image));
    }
    let catalog = fs::read_to_string(place.path().join("catalog/catalog.yaml"))?;
    let blobs = objects(&catalog)?;
    let blob = blobs
        .iter()
        .find(|blob| blob["schema"] == "olm.bundle")
        .context("a bundle")?;
    assert_eq!(blob["image"], json!(bundle_image));
    // A mirror takes what the catalogue lists: every image that numo's pods and its Jobs run, and no other.
    let listed = |of: &Value| -> BTreeSet<String> {
        let all = of["relatedImages"].as_array().into_iter().flatten();
        all.filter_map(|one| one["image"].as_str().map(str::to_owned))
            .collect()
    };
    let of_csv = BTreeSet::from([image.clone(), kubectl_image.clone()]);
    assert_eq!(listed(&csv["spec"]), of_csv);
    assert_eq!(
        listed(blob),
        of_csv.into_iter().chain([bundle_image.clone()]).collect()
    );
    let env = container["env"].as_array().context("env")?;
    let drains = env.iter().find(|one| one["name"] == olm::KUBECTL_VARIABLE);
    assert_eq!(
        drains.context("the image that drains")?["value"],
        json!(kubectl_image)
    );
    assert!(!catalog.contains("numo:0.1.0") && !csv.to_string().contains("numo:0.1.0"));
    assert!(!csv.to_string().contains(olm::KUBECTL_IMAGE));
    // Their images are files only; a bundle's say what is in them.
    let bundle = fs::read_to_string(place.path().join("bundle.Dockerfile"))?;
    for (label, value) in olm::annotations() {
        assert!(
            bundle.contains(&format!("LABEL {label}={value}\n")),
            "{label}: {bundle}"
        );
    }
    assert!(fs::read_to_string(place.path().join("catalog.Dockerfile"))?.contains("ADD catalog /configs"));
    for (wrong, words) in [("numo", "sha256"), ("registry.example.com/numo:latest", "sha256")] {
        let refused = [
            olm::publish(place.path(), wrong, &bundle_image, &kubectl_image),
            olm::publish(place.path(), &image, &bundle_image, wrong),
        ];
        for refused in refused {
            let refused = refused.expect_err("refused");
            assert!(format!("{refused:#}").contains(words), "{refused:#}");
        }
    }
    // Without being told numo drains with the image that the checked-in bundle lists.
    let flags = fs::read_to_string(root().join("operator/docs/reference/flags.md"))?;
    let (_, flag) = flags.split_once(olm::KUBECTL_VARIABLE).context("a flag")?;
    let flag = flag.split("\n- ").next().unwrap_or_default();
    assert!(
        flag.contains(&format!("Default:\n  `{}`", olm::KUBECTL_IMAGE)),
        "{flag}"
    );
    Ok(())
}

/// Nobody runs the controllers of OLM v1 here: in their place it is said by hand that the extension is installed, once it is there.
const INSTALLED: &str = r#"
say='{"status":{"conditions":[{"type":"Installed","status":"True","reason":"Succeeded","message":"by hand","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}'
(for n in $(seq 300); do
  if kubectl patch clusterextension numo --subresource=status --type=merge -p "$say"; then break; fi
  sleep 0.2
done) >/dev/null 2>&1 &
"#;

/// The block of commands of the page that has this text.
fn block(page: &str, having: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(page))?;
    let blocks = text.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|rest| Some(rest.split_once("```")?.0));
    let found: Vec<&str> = blocks.filter(|block| block.contains(having)).collect();
    anyhow::ensure!(found.len() == 1, "{page}: {} blocks have {having:?}", found.len());
    Ok(found.concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_for_olm_v1_are_what_the_api_server_takes() -> Result<()> {
    const PAGE: &str = "operator/docs/olm.md";
    let cluster = Cluster::start(Options::default()).await?;
    let folder = tempfile::tempdir()?;
    define(&cluster, folder.path(), &definitions_of_olm()?)?;
    let (command, kubeconfig) = cluster.kubectl(User::Admin);
    let quoted: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
    let program = folder.path().join("kubectl");
    fs::write(&program, format!("#!/bin/sh\nexec {} \"$@\"\n", quoted.join(" ")))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let shell = |text: &str| {
        let mut bash = Command::new("bash");
        bash.current_dir(root())
            .args(["-euo", "pipefail", "-c", text])
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .env("KUBECONFIG", &kubeconfig);
        said(&mut bash)
    };
    let install = block(PAGE, "deploy/olm/examples/olm-v1.yaml")?;
    let told = shell(&format!("{INSTALLED}{install}"))?;
    assert!(
        told.contains("clusterextension.olm.operatorframework.io/numo condition met"),
        "{told}"
    );
    shell(&block(PAGE, "kubectl delete clusterextension numo")?)?;
    for kinds in ["clusterextensions", "clustercatalogs"] {
        assert_eq!(
            shell(&format!("kubectl get {kinds} -o name"))?.trim(),
            "",
            "{kinds}"
        );
    }
    let rights = shell("kubectl get clusterrolebinding numo-installer -o name --ignore-not-found")?;
    assert_eq!(rights.trim(), "");
    cluster.stop().await;
    Ok(())
}
