//! The chart, by both Helms on a real API server: linted, installed, upgraded with other values, rolled back, uninstalled.
//! Custom resources survive, and what other operators wrote is left as it is.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::{
        admissionregistration::v1::ValidatingAdmissionPolicy,
        apps::v1::Deployment,
        batch::v1::Job,
        core::v1::{Namespace, Node, Pod},
        policy::v1::PodDisruptionBudget,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use numo_api::MutexBudget;
use numo_cluster::{Cluster, Options, User};
use numo_install::{NAMESPACE, root, said};
use serde_json::json;

use crate::{HELMS, chart, equal::template_by_itself, program};

/// What has no default.
const IMAGE: &str = "image.repository=registry.example.com/numo";

struct Site {
    major: u8,
    kubeconfig: PathBuf,
}

impl Site {
    fn helm(&self) -> Result<Command> {
        let mut helm = program(self.major)?;
        helm.arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--namespace", NAMESPACE]);
        Ok(helm)
    }

    fn run(&self, arguments: &[&str], with_chart: bool, more: &[&str]) -> Result<String> {
        let mut helm = self.helm()?;
        helm.args(arguments);
        if with_chart {
            helm.arg(chart()).args(["--set", IMAGE]);
        }
        said(helm.args(more))
    }
}

/// A command of a page: in a fence, with its continued lines, or between backticks.
fn command_of(page: &str, beginning: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(page))?;
    let (_, rest) = text
        .split_once(beginning)
        .with_context(|| format!("{page} has no {beginning}"))?;
    let rest = rest.replace("\\\n", " ");
    let end = rest.find(['`', '\n']).context("an end")?;
    let command = format!("{beginning}{}", &rest[..end]);
    Ok(command.replace("REGISTRY", "registry.example.com"))
}

impl Site {
    /// Runs a line as a person does, in the repository, with this Helm as `helm`.
    fn shell(&self, line: &str) -> Result<String> {
        let helm = program(self.major)?;
        let folder = tempfile::tempdir()?;
        std::os::unix::fs::symlink(helm.get_program(), folder.path().join("helm"))?;
        let mut bash = Command::new("bash");
        bash.current_dir(root())
            .args(["-ec", line])
            .env("KUBECONFIG", &self.kubeconfig)
            .env(
                "PATH",
                format!(
                    "{}:{}",
                    folder.path().display(),
                    std::env::var("PATH").unwrap_or_default()
                ),
            );
        for (name, value) in helm.get_envs() {
            if let Some(value) = value {
                bash.env(name, value);
            }
        }
        said(&mut bash)
    }

    /// Tests the release. There is no kubelet, so its pod is run here, as the pod's ServiceAccount: it may ask all that it asks.
    async fn test(&self, client: &Client) -> Result<()> {
        let mut helm = self.helm()?;
        helm.args(["test", "numo"]);
        let tested = tokio::task::spawn_blocking(move || said(&mut helm));
        let (name, arguments) = self.pod_of_hook(client, "numo-test", &tested).await?;
        let mut numo = Command::new(numo());
        numo.args(arguments)
            .args(["-o", "json", "--kubeconfig"])
            .arg(&self.kubeconfig)
            .args(["--as", &format!("system:serviceaccount:{NAMESPACE}:numo-test")]);
        let output = tokio::task::spawn_blocking(move || numo.output()).await??;
        let found: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let checks: BTreeSet<&str> = found.iter().filter_map(|one| one["check"].as_str()).collect();
        for check in [
            "Definitions",
            "Installation",
            "Leader",
            "Permissions",
            "OtherOperators",
        ] {
            assert!(checks.contains(check), "{found:?}");
        }
        // What people make of its kinds is not the installation's.
        assert!(!checks.contains("Rules") && !checks.contains("Runs"), "{found:?}");
        let unknown: Vec<_> = found.iter().filter(|one| one["state"] == "unknown").collect();
        assert!(unknown.is_empty(), "what may not be read: {unknown:?}");
        end_pod(client, &name).await?;
        tested.await??;
        Ok(())
    }

    /// The pod of a hook, and its arguments.
    async fn pod_of_hook<T>(
        &self,
        client: &Client,
        label: &str,
        helm: &tokio::task::JoinHandle<T>,
    ) -> Result<(String, Vec<String>)> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let of_hook = ListParams::default().labels(&format!("app.kubernetes.io/name={label}"));
        loop {
            if let Some(pod) = pods.list(&of_hook).await?.items.into_iter().next() {
                let spec = pod.spec.context("a spec")?;
                let account = if label == "numo-release" { "numo" } else { label };
                assert_eq!(spec.service_account_name.as_deref(), Some(account));
                let beside = "/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/labelSelector";
                let beside = serde_json::to_value(&spec)?.pointer(beside).cloned();
                let numo = json!({"matchLabels": {"app.kubernetes.io/name": "numo"}});
                let wanted = (label == "numo-release").then_some(numo);
                assert_eq!(beside, wanted, "it restores by the image that a node has");
                let arguments = spec.containers[0].args.clone().context("arguments")?;
                return Ok((pod.metadata.name.context("a name")?, arguments));
            }
            anyhow::ensure!(!helm.is_finished(), "Helm {} ended without its hook", self.major);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Uninstalls the release. Its hook's pod is run here, as there is no kubelet: the binary with the pod's arguments, as the
    /// pod's ServiceAccount.
    async fn uninstall(&self, client: &Client) -> Result<()> {
        let mut helm = self.helm()?;
        helm.args(["uninstall", "numo", "--wait"]);
        let uninstalled = tokio::task::spawn_blocking(move || said(&mut helm));
        let (name, arguments) = self.pod_of_hook(client, "numo-release", &uninstalled).await?;
        let mut numo = Command::new(numo());
        numo.args(arguments)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--as", &format!("system:serviceaccount:{NAMESPACE}:numo")])
            .env("NUMO_NAMESPACE", NAMESPACE);
        let told = tokio::task::spawn_blocking(move || said(&mut numo)).await??;
        assert!(told.contains("0 marks left"), "{told}");
        end_pod(client, &name).await?;
        uninstalled.await??;
        Ok(())
    }
}

/// Says of a pod what its kubelet would: it has succeeded.
async fn end_pod(client: &Client, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let done = json!({"status": {"phase": "Succeeded", "containerStatuses": [{
        "name": "numo", "image": "numo", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
    }]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(done))
        .await?;
    Ok(())
}

/// The binary that `cargo build` made.
pub(crate) fn numo() -> std::path::PathBuf {
    std::env::var_os("NUMO_BIN").map_or_else(|| root().join("target/debug/numo"), Into::into)
}

async fn deployment(client: &Client) -> Result<Deployment> {
    Ok(Api::<Deployment>::namespaced(client.clone(), NAMESPACE)
        .get("numo")
        .await?)
}

fn argument(deployment: &Deployment, name: &str) -> Option<String> {
    let spec = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let env = spec.containers.first()?.env.as_ref()?;
    env.iter().find(|one| one.name == name)?.value.clone()
}

/// Whether numo's pods run on control-plane nodes only.
async fn is_control_plane_only(client: &Client) -> Result<bool> {
    let spec = deployment(client).await?.spec.context("a spec")?;
    let spec = serde_json::to_value(spec)?;
    let required = "/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let wanted = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
    ]}]});
    let found = spec.pointer(required);
    assert!(found.is_none_or(|found| *found == wanted), "{found:?}");
    Ok(found.is_some())
}

/// With this numo's pods bear the taint of k3s's servers.
const BEARS: &str = "tolerations[0].key=CriticalAddonsOnly,tolerations[0].operator=Exists";

/// Where there is a control-plane node that takes numo's pods they run nowhere else, unless the user says where they run.
async fn the_control_plane_is_found(client: &Client, site: &Site) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    // Without values Helm takes those of before.
    let upgraded = |more: &'static [&'static str]| async move {
        site.run(&["upgrade", "numo", "--reset-values"], true, more)?;
        is_control_plane_only(client).await
    };
    assert!(!is_control_plane_only(client).await?, "there is no node");
    let of = |name: &str, labels: serde_json::Value, taint: &str| -> Result<Node> {
        Ok(serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [{"key": taint, "value": "true", "effect": "NoSchedule"}]},
        }))?)
    };
    let role = json!({"node-role.kubernetes.io/control-plane": "true"});
    let post = PostParams::default();
    nodes.create(&post, &of("worker", json!({}), "none")?).await?;
    nodes
        .create(&post, &of("closed", role.clone(), "CriticalAddonsOnly")?)
        .await?;
    assert!(!upgraded(&[]).await?, "no node takes them");
    assert!(upgraded(&["--set", BEARS]).await?);
    nodes
        .create(&post, &of("open", role, "node-role.kubernetes.io/control-plane")?)
        .await?;
    assert!(upgraded(&[]).await?);
    assert!(!upgraded(&["--set", "controlPlanePlacement=preferred"]).await?);
    assert!(!upgraded(&["--set", "nodeSelector.pool=operators"]).await?);
    for name in ["worker", "closed", "open"] {
        nodes.delete(name, &DeleteParams::default()).await?;
    }
    assert!(upgraded(&["--set", "controlPlanePlacement=required"]).await?);
    Ok(())
}

/// What the user lists is what numo's token may write on nodes beside its own.
async fn labels_are_listed(client: &Client, site: &Site) -> Result<()> {
    let listed = || async {
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
        let policy = policies.get("numo-nodes").await?;
        let variables = policy.spec.and_then(|spec| spec.variables).unwrap_or_default();
        let listed = variables.into_iter().find(|one| one.name == "listed");
        Ok::<_, anyhow::Error>(listed.context("the variable")?.expression)
    };
    site.run(
        &["upgrade", "numo"],
        true,
        &["--set", "nodeLabels={example.com/at,team}"],
    )?;
    assert_eq!(listed().await?, r#"["example.com/at","team"]"#);
    site.run(&["upgrade", "numo", "--reset-values"], true, &[])?;
    assert_eq!(listed().await?, "[]");
    Ok(())
}

async fn there_and_back(client: &Client, site: &Site) -> Result<()> {
    let major = site.major;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    // Another operator's definition is there already, and its namespace of leases.
    let mut foreign: CustomResourceDefinition = numo_install::objects(&fs::read_to_string(
        numo_install::root().join("deploy/crds/upgrade.cattle.io_plans.yaml"),
    )?)?
    .into_iter()
    .next()
    .map(serde_json::from_value)
    .context("a definition")??;
    foreign.labels_mut().insert("of".to_owned(), "another".to_owned());
    if definitions.get_opt("plans.upgrade.cattle.io").await?.is_none() {
        definitions.create(&PostParams::default(), &foreign).await?;
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let leases: Namespace = serde_json::from_value(json!({"metadata": {"name": "medik8s-leases"}}))?;
    if namespaces.get_opt("medik8s-leases").await?.is_none() {
        namespaces.create(&PostParams::default(), &leases).await?;
    }

    // As the pages have it: README.md's line, and that of the chart's own page; each for OpenShift by a dry run before.
    let (page, line) = if major == 3 {
        ("README.md", "helm install numo deploy/helm/numo -n ")
    } else {
        (
            "deploy/helm/numo/README.md",
            "helm install numo deploy/helm/numo --namespace ",
        )
    };
    let install = command_of(page, line)?;
    site.shell(&format!(
        "{install} -f deploy/helm/numo/values-openshift.yaml --dry-run=server"
    ))?;
    let notes = site.shell(&install)?;
    assert!(
        notes.contains("plans.upgrade.cattle.io is of another release or operator"),
        "{notes}"
    );
    // The notes name the command that writes numo's over it, and no other one.
    let over = notes
        .lines()
        .find(|line| line.contains("kubectl apply"))
        .context("a command")?;
    assert_eq!(
        over.trim(),
        "numo crds plans.upgrade.cattle.io | kubectl apply --server-side --force-conflicts -f -"
    );
    assert_eq!(
        deployment(client).await?.spec.context("a spec")?.replicas,
        Some(2)
    );
    let found = definitions.get("plans.upgrade.cattle.io").await?;
    assert_eq!(
        found.labels().get("of").map(String::as_str),
        Some("another"),
        "Helm {major}: it stays as it is"
    );
    assert!(!found.annotations().contains_key("meta.helm.sh/release-name"));
    assert!(namespaces.get("medik8s-leases").await?.annotations().is_empty());

    // A custom resource of a user's.
    let budgets: Api<MutexBudget> = Api::all(client.clone());
    let budget: MutexBudget = serde_json::from_value(json!({
        "metadata": {"name": "all"}, "spec": {"nodeSelector": {}, "maxUnavailable": 1},
    }))?;
    for _ in 0..100 {
        if budgets.create(&PostParams::default(), &budget).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    budgets.get("all").await?;

    let more = [
        "--set",
        "replicas=1",
        "--set",
        "log.level=debug",
        "--set",
        "plans.namespaces={system-upgrade,upgrades}",
        "--set",
        "image.digest=",
        "--set",
        IMAGE,
    ];
    site.run(&["upgrade", "numo"], true, &more)?;
    let upgraded = deployment(client).await?;
    assert_eq!(upgraded.spec.as_ref().context("a spec")?.replicas, Some(1));
    assert_eq!(argument(&upgraded, "NUMO_LOG").as_deref(), Some("debug"));
    assert_eq!(
        argument(&upgraded, "NUMO_PLAN_NAMESPACES").as_deref(),
        Some("system-upgrade,upgrades")
    );
    namespaces.get("upgrades").await?;
    let disruption: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), NAMESPACE);
    assert!(disruption.get_opt("numo").await?.is_none(), "none at one replica");
    // The definitions follow the chart: those of an older one are brought up to date.
    let older = tempfile::tempdir()?;
    let place = older.path().join("numo");
    said(Command::new("cp").arg("-r").arg(chart()).arg(&place))?;
    let name = "mutexbudgets.numo.openshift-optional.skrzypek.io";
    let file = place.join(format!("templates/crd_{name}.yaml"));
    let text = fs::read_to_string(&file)?;
    let short = "- mbud\n";
    ensure!(text.matches(short).count() == 1, "{}", file.display());
    fs::write(&file, text.replace(short, "- older\n"))?;
    let short_names = || async {
        let found = definitions.get(name).await?;
        Ok::<_, anyhow::Error>(found.spec.names.short_names.unwrap_or_default())
    };
    let now = short_names().await?;
    let place = place.display().to_string();
    site.run(&["upgrade", "numo", &place], false, &more)?;
    assert_eq!(short_names().await?, ["older"], "Helm {major}");
    site.run(&["upgrade", "numo"], true, &more)?;
    assert_eq!(short_names().await?, now, "Helm {major}");

    site.run(&["rollback", "numo", "1"], false, &[])?;
    let back = deployment(client).await?;
    assert_eq!(back.spec.as_ref().context("a spec")?.replicas, Some(2));
    assert_eq!(argument(&back, "NUMO_LOG"), None);
    disruption.get("numo").await?;
    namespaces.get("upgrades").await.context("namespaces stay")?;

    the_control_plane_is_found(client, site).await?;
    labels_are_listed(client, site).await?;
    site.test(client).await?;

    site.uninstall(client).await?;
    assert!(
        Api::<Deployment>::namespaced(client.clone(), NAMESPACE)
            .get_opt("numo")
            .await?
            .is_none()
    );
    budgets.get("all").await.context("custom resources survive")?;
    for name in ["medik8s-leases", "system-upgrade"] {
        namespaces.get(name).await.context("namespaces survive")?;
    }

    // Installed again over what stayed, with an image that nobody can pull: the hook ends by itself, and says so.
    let short = ["--create-namespace", "--set", "uninstall.timeoutSeconds=10"];
    site.run(&["install", "numo"], true, &short)?;
    budgets.get("all").await.context("custom resources survive")?;
    let failed = site
        .run(&["uninstall", "numo", "--wait"], false, &[])
        .expect_err("its Job has no pod that runs");
    assert!(format!("{failed:#}").contains("numo-release"), "{failed:#}");
    deployment(client).await.context("the release stays")?;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let hook = jobs.get("numo-release").await?;
    let told = &hook.annotations()["kubernetes.io/description"];
    assert!(
        told.contains("`helm uninstall numo -n node-upgrade-mutex-operator --no-hooks`"),
        "the Job that Helm names says what to do: {told}"
    );
    let page = command_of(
        "deploy/helm/numo/README.md",
        "helm uninstall numo --namespace node-upgrade-mutex-operator --no-hooks",
    )?;
    site.shell(&page)?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    assert!(deployments.get_opt("numo").await?.is_none());
    budgets.delete("all", &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn both_helms_install_upgrade_roll_back_and_uninstall() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let client = cluster.client(User::Admin).await?;
    for major in HELMS {
        let site = Site {
            major,
            kubeconfig: cluster.kubeconfig(User::Admin),
        };
        Box::pin(there_and_back(&client, &site))
            .await
            .with_context(|| format!("Helm {major}"))?;
    }
    cluster.stop().await;
    Ok(())
}

/// Argo CD renders so: Helm sees no cluster, and what it wrote would be taken from whoever has it.
#[test]
fn without_a_cluster_nothing_is_rendered_that_other_operators_have_too() -> Result<()> {
    let shared = [
        "mutexrules.",
        "mutextargets.",
        "mutexrunconfigs.",
        "nodemaintenances.",
        "plans.upgrade.cattle.io",
        "medik8s-leases",
        "system-upgrade",
    ];
    for major in HELMS {
        let names = |set: &str| -> Result<Vec<String>> {
            let mut helm = template_by_itself(major)?;
            helm.args(["--set", set]);
            let all = numo_install::objects(&said(&mut helm)?)?;
            let kinds = ["CustomResourceDefinition", "Namespace"];
            let all = all
                .into_iter()
                .filter(|one| kinds.iter().any(|kind| one["kind"] == *kind));
            Ok(all
                .filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned))
                .collect())
        };
        let by_itself = names("replicas=2")?;
        assert!(by_itself.len() >= 6, "its own are rendered: {by_itself:?}");
        for name in shared {
            assert!(
                !by_itself.iter().any(|one| one.starts_with(name)),
                "{name}: {by_itself:?}"
            );
        }
        let asked = names(
            "crds.mutex=true,crds.plans=true,crds.nodeMaintenances=true,leases.createNamespace=true,plans.createNamespaces=true",
        )?;
        for name in shared {
            assert!(asked.iter().any(|one| one.starts_with(name)), "{name}: {asked:?}");
        }
        // One value asks for one operator's.
        let mutex = ["mutexrules.", "mutextargets.", "mutexrunconfigs."];
        for (value, is_rendered) in [("true", true), ("false", false), ("auto", false)] {
            let all = names(&format!("crds.mutex={value}"))?;
            for name in shared {
                let found = all.iter().any(|one| one.starts_with(name));
                let is_wanted = is_rendered && mutex.contains(&name);
                assert_eq!(found, is_wanted, "crds.mutex={value}: {name}: {all:?}");
            }
            for name in &by_itself {
                assert!(all.contains(name), "crds.mutex={value} has {name}");
            }
        }
        assert!(
            said(
                program(major)?
                    .arg("lint")
                    .arg("--set")
                    .arg("crds.plans=maybe")
                    .arg(chart())
            )
            .is_err()
        );
    }
    Ok(())
}

/// A definition of another release or operator stays as it is: the notes of a release say so of each, so they name each.
#[test]
fn the_notes_of_a_release_name_every_definition() -> Result<()> {
    let notes = fs::read_to_string(chart().join("templates/NOTES.txt"))?;
    let mut named = 0;
    let mut missing = Vec::new();
    let folders = ["deploy/crds", "deploy/kustomize/components/node-version"];
    let mut files = Vec::new();
    for folder in folders {
        for file in fs::read_dir(root().join(folder))? {
            files.push(file?.path());
        }
    }
    for file in files {
        for one in numo_install::objects(&fs::read_to_string(file)?)? {
            let name = one["metadata"]["name"].as_str().unwrap_or_default();
            if one["kind"] != "CustomResourceDefinition" {
                continue;
            }
            if notes.contains(&format!(r#"(list "{name}" "#)) {
                named += 1;
            } else {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "NOTES.txt does not name: {missing:?}");
    assert!(named >= 14, "the definitions were not read: {named}");
    Ok(())
}

#[test]
fn lint_finds_nothing_and_wrong_values_are_named() -> Result<()> {
    for major in HELMS {
        let said_of = said(program(major)?.arg("lint").arg("--strict").arg(chart()))?;
        assert!(said_of.contains("0 chart(s) failed"), "{said_of}");
        for (set, words) in [
            ("replicas=many", "replicas"),
            ("replica=2", "replica"),
            ("image.digest=latest", "digest"),
            ("plans.namespaces={Not_A_Namespace}", "namespaces"),
            ("extraEnv[0].name=NUMO_NAMESPACE", "extraEnv"),
            ("controlPlanePlacement=always", "controlPlanePlacement"),
            ("nodeLabels={a b}", "nodeLabels"),
            ("nodeLabels={a']+[}", "nodeLabels"),
            ("podLabels.app\\.kubernetes\\.io/name=x", "podLabels"),
            (
                "commonLabels.app\\.kubernetes\\.io/name=x",
                "app.kubernetes.io/name",
            ),
            ("prometheus.ca.secret=a,prometheus.ca.configMap=b", "ca"),
            ("extraEnv[0].name=NUMO_RULE_KEYS", "extraEnv"),
            ("extraVolumes[0].name=cache", "extraVolumes"),
            ("monitoring.alerts.disabled={NumoNodeStuk}", "disabled"),
            ("monitoring.alerts.for.NumoNodeHeld=soon", "NumoNodeHeld"),
            ("monitoring.alerts.thresholds.ruleErrors=many", "ruleErrors"),
            ("log.format=xml", "format"),
            ("machines.provider=cloud", "provider"),
            ("machines.copiedTaints={dedicated}", "copiedTaints"),
            ("machines.etcd.endpoints={http://10.0.0.1:2379}", "endpoints"),
            ("signatures.identities[0].issuer=a", "subject"),
            (
                "signatures.required=true",
                "signatures.required: found true without",
            ),
        ] {
            let mut helm = program(major)?;
            helm.arg("template").arg("numo").arg(chart());
            helm.args(["--kube-version", "1.36.0", "--set", IMAGE, "--set", set]);
            let refused = said(&mut helm);
            ensure!(refused.is_err(), "Helm {major}: {set} is not refused");
            let why = format!("{:#}", refused.expect_err("refused"));
            assert!(why.contains(words), "Helm {major}, {set}: {why}");
        }
    }
    Ok(())
}
