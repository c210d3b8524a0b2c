//! Overlays that people write: numo in a namespace of theirs, with and without what is shared with other operators. And what is deleted when
//! numo goes, as the pages have it: nothing that another operator has too.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use kube::{
    api::{Patch, PatchParams},
    core::Request,
};
use numo_cluster::{Cluster, Options, User};
use numo_install::{NAMESPACE, objects, rendered, root, said};
use serde_json::{Value, json};

use crate::{
    equal::{by_name, difference},
    helm::numo,
};

/// The namespace of `deploy/kustomize/example`.
const ELSEWHERE: &str = "numo-system";

/// kubectl, about to be an administrator's.
pub(crate) fn kubectl(cluster: &Cluster) -> Command {
    let (words, kubeconfig) = cluster.kubectl(User::Admin);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--kubeconfig").arg(kubeconfig);
    command
}

/// Runs kubectl with these words.
pub(crate) fn run(cluster: &Cluster, words: &[&str]) -> Result<String> {
    said(kubectl(cluster).current_dir(root()).args(words))
}

/// Runs kubectl until it does what is asked: a kind may have been defined a moment ago.
pub(crate) async fn until(cluster: &Cluster, words: &[&str], wanted: &str) -> Result<()> {
    let mut last = String::new();
    for _ in 0..600 {
        match run(cluster, words) {
            Ok(told) if told.contains(wanted) => return Ok(()),
            Ok(told) => last = told,
            Err(error) => last = format!("{error:#}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("kubectl {words:?} never said {wanted}: {last}")
}

/// Installs all of numo, without a pod.
pub(crate) async fn install(cluster: &Cluster) -> Result<()> {
    let words = ["apply", "-k", "deploy/kustomize/all/kubernetes"];
    until(cluster, &words, "validatingwebhookconfiguration").await
}

/// The same, with NodeVersions.
pub(crate) async fn install_with_machines(cluster: &Cluster) -> Result<()> {
    let folder = tempfile::tempdir()?;
    overlay(
        folder.path(),
        "resources: [DEPLOY/all/kubernetes]\ncomponents: [DEPLOY/components/node-version]\n",
    )?;
    let place = folder.path().to_str().context("a path")?;
    until(cluster, &["apply", "-k", place], "validatingwebhookconfiguration").await
}

/// Applies an object as this user, or an administrator.
pub(crate) fn apply(cluster: &Cluster, object: &Value, more: &[&str]) -> Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), object.to_string())?;
    said(kubectl(cluster).args(["apply", "-f"]).arg(file.path()).args(more))
}

/// A kustomization in a folder, with paths from there to `deploy/kustomize`.
fn overlay(folder: &Path, text: &str) -> Result<()> {
    let folder = folder.canonicalize()?;
    let up = "../".repeat(folder.components().count() - 1);
    let place = root().canonicalize()?.join("deploy/kustomize");
    let place = format!("{up}{}", place.strip_prefix("/")?.display());
    fs::write(folder.join("kustomization.yaml"), text.replace("DEPLOY", &place))?;
    Ok(())
}

/// The most common overlay there is.
#[test]
fn an_overlay_with_a_namespace_moves_all_of_numo() -> Result<()> {
    // The root of the folder, which has no name, is what somebody finds first.
    for platform in ["", "kubernetes", "openshift", "self-managed"] {
        let folder = tempfile::tempdir()?;
        overlay(
            folder.path(),
            &format!(
                "namespace: other\nresources: [DEPLOY/{platform}]\ncomponents: [DEPLOY/../monitoring]\n"
            ),
        )?;
        let text = rendered::kustomize(folder.path())?;
        let all = by_name(objects(&text)?);
        let mut namespaces = 0;
        for (name, object) in &all {
            let place = &object["metadata"]["namespace"];
            assert!(place.is_null() || place == "other", "{platform}: {name}");
            for subject in object["subjects"].as_array().into_iter().flatten() {
                assert_eq!(subject["namespace"], "other", "{platform}: {name}");
            }
            for webhook in object["webhooks"].as_array().into_iter().flatten() {
                assert_eq!(webhook["clientConfig"]["service"]["namespace"], "other");
            }
            namespaces += usize::from(object["kind"] == "Namespace");
            if object["kind"] != "CustomResourceDefinition" {
                assert!(
                    !object.to_string().contains(NAMESPACE),
                    "{platform}: {name}: {object}"
                );
            }
        }
        assert_eq!(namespaces, 1, "{platform}");
        let security = &all["Namespace other"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
        assert_eq!(security, "baseline", "{platform}");
    }
    Ok(())
}

/// What is shared is not moved in silence: kustomize refuses to build it.
#[test]
fn a_component_that_is_shared_is_no_part_of_what_is_moved() -> Result<()> {
    for component in ["leases", "plans"] {
        let folder = tempfile::tempdir()?;
        overlay(
            folder.path(),
            &format!(
                "namespace: other\nresources: [DEPLOY/kubernetes]\ncomponents: [DEPLOY/components/{component}]\n"
            ),
        )?;
        let refused = rendered::kustomize(folder.path()).expect_err("two namespaces of one name");
        assert!(format!("{refused:#}").contains("conflict"), "{refused:#}");
    }
    Ok(())
}

/// The cluster autoscaler is in a namespace that numo is not in, and numo may be in another one than the source says.
#[test]
fn the_right_to_the_cluster_autoscaler_goes_to_numo_where_it_is() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let inner = folder.path().join("numo");
    fs::create_dir(&inner)?;
    overlay(
        &inner,
        "namespace: other\nresources: [DEPLOY/kubernetes]\ncomponents: [DEPLOY/components/node-version]\n",
    )?;
    overlay(
        folder.path(),
        "resources: [numo]\ncomponents: [DEPLOY/components/node-version-autoscaler]\n",
    )?;
    let all = by_name(objects(&rendered::kustomize(folder.path())?)?);
    for name in [
        "RoleBinding numo-cluster-autoscaler in kube-system",
        "ClusterRoleBinding numo-node-version",
    ] {
        let binding = all.get(name).context(name)?;
        assert_eq!(binding["subjects"][0]["namespace"], "other", "{name}");
    }
    Ok(())
}

/// What an overlay renders, of these lines.
fn built(text: &str) -> Result<std::collections::BTreeMap<String, Value>> {
    let folder = tempfile::tempdir()?;
    overlay(folder.path(), text)?;
    Ok(by_name(objects(&rendered::kustomize(folder.path())?)?))
}

/// Each takes out what an overlay has and nothing more, and changes nothing where that is not.
#[test]
fn a_component_that_leaves_kinds_out_leaves_them_and_no_others_out() -> Result<()> {
    let machines = "DEPLOY/components/node-version, DEPLOY/components/node-version-component, DEPLOY/components/node-version-sim, \
                    DEPLOY/components/node-version-autoscaler";
    for (platform, without, added, kinds) in [
        (
            "kubernetes",
            "without-plans",
            "",
            [".upgrade.cattle.io"].as_slice(),
        ),
        (
            "kubernetes",
            "without-node-maintenance",
            "",
            &[".nodemaintenance.medik8s.io", ".nodemaintenance.kubevirt.io"],
        ),
        (
            "openshift",
            "without-mutex",
            "",
            &[
                " mutexrules.openshift-optional.skrzypek.io",
                " mutextargets.openshift-optional.skrzypek.io",
                " mutexrunconfigs.openshift-optional.skrzypek.io",
            ],
        ),
        ("kubernetes", "without-node-version", "", &[]),
        ("self-managed", "without-node-version", machines, &[]),
        ("openshift", "without-node-version", machines, &[]),
        (
            "kubernetes",
            "without-node-version",
            "DEPLOY/components/node-version",
            &[],
        ),
    ] {
        let resources = format!("resources: [DEPLOY/all/{platform}]\n");
        let plain = built(&resources)?;
        let list = [added, &format!("DEPLOY/components/{without}")];
        let list: Vec<&str> = list.into_iter().filter(|one| !one.is_empty()).collect();
        let left = built(&format!("{resources}components: [{}]\n", list.join(", ")))?;
        let is_out = |name: &String| kinds.iter().any(|kind| name.ends_with(kind));
        let wanted: Vec<&String> = plain.keys().filter(|name| !is_out(name)).collect();
        let count = plain.len() - wanted.len();
        assert_eq!(count, kinds.len(), "{without}: there before");
        assert_eq!(left.keys().collect::<Vec<_>>(), wanted, "{without} of {platform}");
        for (name, object) in &left {
            assert_eq!(
                difference(&plain[name], object, ""),
                None,
                "{without} of {platform}: {name}"
            );
        }
    }
    Ok(())
}

/// One cluster of several that has no machines: its overlay is one of another one, whose own patches are there already.
#[test]
fn an_overlay_of_one_with_machines_has_no_right_and_no_flag_of_them() -> Result<()> {
    let plain = built("resources: [DEPLOY/all/kubernetes]\n")?;
    for cloud in ["cluster-api", "gcp"] {
        let left = built(&format!(
            "resources: [DEPLOY/../../examples/machines/{cloud}]\ncomponents: [DEPLOY/components/without-node-version]\n"
        ))?;
        let more = left.keys().filter(|name| !plain.contains_key(*name));
        let more: Vec<&String> = more.filter(|name| !name.starts_with("ConfigMap ")).collect();
        assert_eq!(more, Vec::<&String>::new(), "{cloud}");
        for name in plain.keys() {
            let found = left.get(name).with_context(|| format!("{cloud}: {name}"))?;
            // What a machine is that goes first is the overlay's own word, and by it numo may annotate a Machine and no more.
            if name != "ValidatingAdmissionPolicy numo-metadata" {
                assert_eq!(difference(&plain[name], found, ""), None, "{cloud}: {name}");
            }
        }
    }
    Ok(())
}

/// numo as a process, ended when it is dropped.
struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(kubeconfig: PathBuf, folder: &Path) -> Result<Operator> {
    let log = fs::File::create(folder.join("log"))?;
    let child = Command::new(numo())
        .args([
            "run",
            "--namespace",
            ELSEWHERE,
            "--metrics-address",
            "off",
            "--kubeconfig",
        ])
        .arg(kubeconfig)
        .arg("--cache-dir")
        .arg(folder.join("cache"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    Ok(Operator(child))
}

fn node(cluster: &Cluster) -> Result<()> {
    apply(
        cluster,
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-0", "labels": {"kubernetes.io/hostname": "worker-0"}}}),
        &[],
    )?;
    let now = said(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?;
    let status = json!({"status": {"conditions": [{
        "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now.trim(), "lastTransitionTime": now.trim(),
    }]}});
    let patch = status.to_string();
    run(
        cluster,
        &[
            "patch",
            "node",
            "worker-0",
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ],
    )?;
    Ok(())
}

fn maintenance(reason: &str) -> Value {
    json!({
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance", "metadata": {"name": "fan"},
        "spec": {"nodeName": "worker-0", "reason": reason},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn numo_works_in_another_namespace() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let install = ["apply", "-k", "deploy/kustomize/example"];
    until(&cluster, &install, "validatingwebhookconfiguration").await?;
    let account = format!("system:serviceaccount:{ELSEWHERE}:numo");
    let may = |namespace: &str, verb: &str, kind: &str| {
        run(
            &cluster,
            &["auth", "can-i", verb, kind, "-n", namespace, "--as", &account],
        )
    };
    for (namespace, verb, kind) in [
        ("medik8s-leases", "create", "leases.coordination.k8s.io"),
        ("system-upgrade", "create", "jobs.batch"),
        (ELSEWHERE, "create", "leases.coordination.k8s.io"),
        (ELSEWHERE, "create", "jobs.batch"),
        ("default", "patch", "nodes"),
    ] {
        let answer = may(namespace, verb, kind).with_context(|| format!("{verb} {kind} in {namespace}"))?;
        assert_eq!(answer.trim(), "yes", "{verb} {kind} in {namespace}");
    }
    may(NAMESPACE, "create", "jobs.batch").expect_err("nothing of numo is there");

    // No pod serves the webhook here, and it is asked about new specs only.
    run(&cluster, &["delete", "validatingwebhookconfiguration", "numo"])?;
    node(&cluster)?;
    apply(&cluster, &maintenance("a fan"), &[])?;
    run(&cluster, &install)?;
    let served = |words: &[&str]| run(&cluster, words);
    served(&[
        "annotate",
        "nodemaintenance.nodemaintenance.medik8s.io",
        "fan",
        "of=mine",
    ])?;
    let patch = r#"{"spec":{"reason":"another"}}"#;
    let kind = "nodemaintenance.nodemaintenance.medik8s.io";
    let mut refused = String::new();
    // The API server hears of the configuration a moment later.
    for _ in 0..100 {
        match served(&[
            "patch",
            kind,
            "fan",
            "--type=merge",
            "--dry-run=server",
            "-p",
            patch,
        ]) {
            Err(error) => {
                refused = format!("{error:#}");
                break;
            }
            Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    assert!(refused.contains("failed calling webhook"), "{refused}");
    served(&["annotate", kind, "fan", "of=yours", "--overwrite"])?;

    let folder = tempfile::tempdir()?;
    let kubeconfig = cluster.service_account_kubeconfig(ELSEWHERE, "numo").await?;
    let mut operator = start(kubeconfig, folder.path())?;
    let done = until(
        &cluster,
        &["get", kind, "fan", "-o", "jsonpath={.status.phase}"],
        "Succeeded",
    )
    .await;
    let log = fs::read_to_string(folder.path().join("log"))?;
    done.with_context(|| log.clone())?;
    ensure!(operator.0.try_wait()?.is_none(), "numo ended: {log}");
    let cordoned = run(
        &cluster,
        &["get", "node", "worker-0", "-o", "jsonpath={.spec.unschedulable}"],
    )?;
    assert_eq!(cordoned, "true");
    let leases = run(&cluster, &["get", "leases", "-n", "medik8s-leases", "-o", "name"])?;
    assert!(leases.contains("worker-0"), "{leases}");
    // The policies hold for it there.
    let client = cluster.client(User::Admin).await?;
    for (path, name, patch, policy) in [
        (
            "/api/v1/nodes",
            "worker-0",
            json!({"metadata": {"labels": {"example.com/draws": "secrets"}}}),
            "numo-nodes",
        ),
        (
            "/apis/nodemaintenance.medik8s.io/v1beta1/nodemaintenances",
            "fan",
            json!({"metadata": {"labels": {"a": "b"}}}),
            "numo-metadata",
        ),
    ] {
        let mut request = Request::new(path).patch(name, &PatchParams::default(), &Patch::Merge(patch))?;
        request.headers_mut().insert("Impersonate-User", account.parse()?);
        let refused = client
            .request::<Value>(request)
            .await
            .expect_err("a policy refuses it");
        assert!(refused.to_string().contains(policy), "{refused}");
    }
    drop(operator);
    cluster.stop().await;
    Ok(())
}

/// Somebody else made the namespace: it stays as it is, and numo has its right there.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_of_leases_that_is_anothers_stays_as_it_is() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let theirs = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "medik8s-leases", "labels": {"of": "another"}}});
    apply(&cluster, &theirs, &[])?;
    let look = ["get", "namespace", "medik8s-leases", "-o", "jsonpath={.metadata}"];
    let before = run(&cluster, &look)?;
    let folder = tempfile::tempdir()?;
    overlay(
        folder.path(),
        "resources: [DEPLOY/kubernetes]\ncomponents: [DEPLOY/components/leases-without-namespace]\n",
    )?;
    let place = folder.path().display().to_string();
    until(&cluster, &["apply", "-k", &place], "rolebinding").await?;
    assert_eq!(run(&cluster, &look)?, before);
    let account = format!("system:serviceaccount:{NAMESPACE}:numo");
    let words = [
        "auth",
        "can-i",
        "create",
        "leases.coordination.k8s.io",
        "-n",
        "medik8s-leases",
        "--as",
        &account,
    ];
    assert_eq!(run(&cluster, &words)?.trim(), "yes");
    cluster.stop().await;
    Ok(())
}

/// Commands that the pages give to delete a whole manifest of numo, by the pages that have them.
fn documented() -> Result<Vec<(String, String)>> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("operator/docs"), root().join("deploy")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|of| of == "md" || of == "yaml") {
                pages.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page)?;
        for program in ["kubectl delete ", "oc delete "] {
            for (at, _) in text.match_indices(program) {
                let rest = &text[at + program.len()..];
                let command =
                    rest[..rest.find(['`', '\n']).unwrap_or(rest.len())].trim_end_matches(['.', ',']);
                if (command.starts_with("-k ") || command.starts_with("-f ")) && command.contains("deploy/") {
                    found.push((page.display().to_string(), command.to_owned()));
                }
            }
        }
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pages_delete_is_numos_alone() -> Result<()> {
    let commands = documented()?;
    for page in ["README.md", "openshift.md", "migration/README.md"] {
        assert!(
            commands.iter().any(|(of, _)| of.ends_with(page)),
            "{page} says how: {commands:?}"
        );
    }
    let cluster = Cluster::start(Options::default()).await?;
    install(&cluster).await?;
    for (page, command) in &commands {
        let mut words = vec!["delete"];
        words.extend(command.split_whitespace());
        words.push("--dry-run=server");
        let told = run(&cluster, &words).with_context(|| format!("{page}: {command}"))?;
        // OLM takes its own objects away: its page deletes what was added by hand.
        assert!(
            page.ends_with("olm.md") || told.contains("deployment.apps \"numo\""),
            "{page}: {told}"
        );
        for shared in [
            "customresourcedefinition",
            "namespace \"",
            "nodemaintenance",
            "plans.upgrade",
        ] {
            assert!(!told.contains(shared), "{page}: {command}: {told}");
        }
    }
    // Nothing of numo but these is left by it.
    let gone = run(
        &cluster,
        &["delete", "-k", "deploy/kustomize/remove", "--ignore-not-found"],
    )?;
    assert!(
        gone.contains("clusterrole.rbac.authorization.k8s.io \"numo\""),
        "{gone}"
    );
    let kinds = "deployments,services,secrets,roles,rolebindings,clusterroles,clusterrolebindings,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,networkpolicies,resourcequotas,limitranges,poddisruptionbudgets,serviceaccounts";
    let left = run(
        &cluster,
        &[
            "get",
            kinds,
            "-A",
            "-l",
            "app.kubernetes.io/name=numo",
            "-o",
            "name",
        ],
    )?;
    assert_eq!(left.trim(), "");
    let left = run(&cluster, &["get", "crds,namespaces", "-o", "name"])?;
    for kept in [
        "nodemaintenances.nodemaintenance.medik8s.io",
        "nodemaintenances.nodemaintenance.kubevirt.io",
        "plans.upgrade.cattle.io",
        "mutexrules.openshift-optional.skrzypek.io",
        "namespace/medik8s-leases",
        "namespace/system-upgrade",
        &format!("namespace/{NAMESPACE}"),
    ] {
        assert!(left.contains(kept), "{kept}: {left}");
    }
    cluster.stop().await;
    Ok(())
}
