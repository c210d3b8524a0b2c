//! `helm uninstall` by both Helms, where the numo that runs restores everything first, and where none can run: no pod of the release is ever
//! started by Helm, so no image is needed.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apps::v1::Deployment,
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{Namespace, Node, Pod},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::Request,
};
use numo_cluster::{Cluster, Options, User};
use numo_install::{NAMESPACE, said};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    HELMS,
    helm::{Site, argument, deployment, numo},
    kustomize::{self, Operator, apply, maintenance},
};

/// The Job by which Helm asks.
const JOB: &str = "numo-uninstall";
const KIND: &str = "nodemaintenance.nodemaintenance.medik8s.io";

/// A cluster with a release of numo.
struct Ground {
    cluster: Cluster,
    client: Client,
    folder: tempfile::TempDir,
}

impl Ground {
    async fn new() -> Result<Self> {
        let cluster = Cluster::start(Options::default()).await?;
        let client = cluster.client(User::Admin).await?;
        Ok(Self {
            cluster,
            client,
            folder: tempfile::tempdir()?,
        })
    }

    fn site(&self, major: u8) -> Site {
        Site {
            major,
            kubeconfig: self.cluster.kubeconfig(User::Admin),
        }
    }

    /// Installs the release. No pod serves the webhook here.
    fn install(&self, major: u8) -> Result<()> {
        let more = ["--create-namespace", "--set", "webhook.enabled=false"];
        self.site(major).run(&["install", "numo"], true, &more)?;
        Ok(())
    }

    /// Begins to uninstall the release.
    fn uninstall(&self, major: u8, more: &'static [&'static str]) -> Result<JoinHandle<Result<String>>> {
        let mut helm = self.site(major).helm()?;
        helm.args(["uninstall", "numo"]).args(more);
        Ok(tokio::task::spawn_blocking(move || said(&mut helm)))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// Starts numo as its pod would be, with the rights of its ServiceAccount and what the Deployment tells it.
    async fn start(&self, name: &str) -> Result<Operator> {
        let job = argument(&deployment(&self.client).await?, "NUMO_UNINSTALL_JOB");
        let kubeconfig = self.cluster.service_account_kubeconfig(NAMESPACE, "numo").await?;
        let log = fs::File::create(self.log(name))?;
        let child = Command::new(numo())
            .args(["run", "--metrics-address", "off", "--identity", name])
            .args(["--namespace", NAMESPACE, "--kubeconfig"])
            .arg(kubeconfig)
            .arg("--cache-dir")
            .arg(self.folder.path().join(name))
            .env("NUMO_UNINSTALL_JOB", job.context("NUMO_UNINSTALL_JOB")?)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok(Operator(child))
    }

    fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn job(&self) -> Result<Option<Job>> {
        Ok(self.jobs().get_opt(JOB).await?)
    }

    /// Waits until this is so.
    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
        for _ in 0..900 {
            if is_so().await? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut logs = String::new();
        for file in fs::read_dir(self.folder.path())? {
            let path = file?.path();
            if path.is_file() {
                logs += &fs::read_to_string(path)?;
            }
        }
        anyhow::bail!("it never was so that {what}:\n{logs}")
    }

    /// numo has asked Helm to wait for it.
    async fn is_asked_for(&self) -> Result<()> {
        self.until("numo has made its Job", async || {
            Ok(self
                .job()
                .await?
                .is_some_and(|job| job.metadata.finalizers.is_some_and(|all| !all.is_empty())))
        })
        .await
    }

    async fn is_cordoned(&self, node: &str) -> Result<bool> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.get(node).await?;
        Ok(node.spec.is_some_and(|spec| spec.unschedulable == Some(true)))
    }

    /// A node is in maintenance: numo has cordoned it, and has its lease.
    async fn in_maintenance(&self) -> Result<()> {
        kustomize::node(&self.cluster)?;
        self.until("a NodeMaintenance is served", async || {
            Ok(apply(&self.cluster, &maintenance("a fan"), &[]).is_ok())
        })
        .await?;
        self.until("the node is in maintenance", async || {
            let words = ["get", KIND, "fan", "-o", "jsonpath={.status.phase}"];
            Ok(kustomize::run(&self.cluster, &words)?.contains("Succeeded"))
        })
        .await?;
        assert!(self.is_cordoned("worker-0").await?);
        assert!(self.node_lease().await?.is_some());
        Ok(())
    }

    async fn node_lease(&self) -> Result<Option<Lease>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "medik8s-leases");
        Ok(leases.get_opt("node-worker-0").await?)
    }

    /// What numo did is undone, and the release is gone.
    async fn nothing_is_left(&self, major: u8) -> Result<()> {
        assert!(
            !self.is_cordoned("worker-0").await?,
            "Helm {major}: the node is open"
        );
        assert!(
            self.node_lease().await?.is_none(),
            "Helm {major}: and its lease free"
        );
        let words = ["get", KIND, "fan", "-o", "jsonpath={.metadata.finalizers}"];
        let finalizers = kustomize::run(&self.cluster, &words)?;
        assert!(!finalizers.contains("foreground"), "Helm {major}: {finalizers}");
        self.release_is_gone(major).await
    }

    async fn release_is_gone(&self, major: u8) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        assert!(deployments.get_opt("numo").await?.is_none(), "Helm {major}");
        self.until("the hook is gone", async || Ok(self.job().await?.is_none()))
            .await
    }

    /// As before an installation: a lead that is held for whoever uninstalls numo is free.
    async fn clear(&self) -> Result<()> {
        let _ = kustomize::run(&self.cluster, &["delete", KIND, "fan", "--ignore-not-found"])?;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        leases.delete("numo-leader", &DeleteParams::default()).await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.delete("worker-0", &DeleteParams::default()).await?;
        Ok(())
    }

    async fn holder(&self) -> Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let spec = leases.get("numo-leader").await?.spec;
        Ok(spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
    }
}

/// No node has the image, and none can pull it: numo never ran, so there is nothing to restore.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_image_cannot_be_pulled_is_uninstalled() -> Result<()> {
    let ground = Ground::new().await?;
    for major in HELMS {
        ground.install(major)?;
        // Nor by an upgrade, in the hope that it helps.
        let more = ["--set", "webhook.enabled=false,image.tag=another"];
        ground.site(major).run(&["upgrade", "numo"], true, &more)?;
        ground.uninstall(major, &[])?.await??;
        ground.release_is_gone(major).await?;
    }
    ground.cluster.stop().await;
    Ok(())
}

/// A node is in maintenance: the numo that runs gives it back, and Helm waits for that.
#[tokio::test(flavor = "multi_thread")]
async fn the_numo_that_runs_restores_everything_before_the_release_goes() -> Result<()> {
    let ground = Ground::new().await?;
    let ways: [(u8, &[&str]); 4] = [(3, &[]), (3, &["--wait"]), (4, &[]), (4, &["--wait"])];
    for (number, (major, more)) in ways.into_iter().enumerate() {
        ground.install(major)?;
        let mut operator = ground.start(&format!("numo-{number}")).await?;
        ground.in_maintenance().await?;
        ground.is_asked_for().await?;
        ground.uninstall(major, more)?.await??;
        ground.nothing_is_left(major).await?;
        assert_eq!(ground.holder().await?, format!("numo-{number}-uninstall"));
        assert!(operator.0.try_wait()?.is_none(), "it waits to be ended");
        drop(operator);
        ground.clear().await?;
    }
    ground.cluster.stop().await;
    Ok(())
}

/// The leader dies with its node, and Helm has asked: the next one restores everything before it begins anything.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_leader_restores_everything_first() -> Result<()> {
    let ground = Ground::new().await?;
    for major in HELMS {
        ground.install(major)?;
        let first = ground.start("first").await?;
        ground.in_maintenance().await?;
        ground.is_asked_for().await?;
        drop(first);
        let uninstalled = ground.uninstall(major, &[])?;
        ground
            .until("Helm has asked", async || {
                Ok(ground
                    .job()
                    .await?
                    .is_some_and(|job| job.metadata.deletion_timestamp.is_some()))
            })
            .await?;
        // What is asked for meanwhile does not begin.
        let other = json!({
            "apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance", "metadata": {"name": "other"},
            "spec": {"nodeName": "worker-1", "reason": "a disk"},
        });
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}});
        apply(&ground.cluster, &node, &[])?;
        apply(&ground.cluster, &other, &[])?;
        ensure!(!uninstalled.is_finished(), "Helm {major} waits for numo");
        let second = ground.start("second").await?;
        uninstalled.await??;
        ground.nothing_is_left(major).await?;
        assert!(!ground.is_cordoned("worker-1").await?, "nothing began");
        drop(second);
        kustomize::run(&ground.cluster, &["delete", KIND, "other"])?;
        ground.clear().await?;
    }
    ground.cluster.stop().await;
    Ok(())
}

/// The namespace is deleted with all in it. Its pods go first: numo is ended, and the namespace hangs on no finalizer of its.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_deleted_does_not_wait_for_numo() -> Result<()> {
    let ground = Ground::new().await?;
    ground.install(3)?;
    let mut operator = ground.start("numo").await?;
    ground.in_maintenance().await?;
    ground.is_asked_for().await?;
    // numo's own pod, which its kubelet lets go once its process has ended.
    let pods: Api<Pod> = Api::namespaced(ground.client.clone(), NAMESPACE);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "numo-0", "finalizers": ["example.com/kubelet"]},
        "spec": {"containers": [{"name": "numo", "image": "numo"}]},
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let namespaces: Api<Namespace> = Api::all(ground.client.clone());
    namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
    said(Command::new("kill").arg(operator.0.id().to_string()))?;
    ground
        .until("numo has ended", async || Ok(operator.0.try_wait()?.is_some()))
        .await?;
    let gone = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pods.patch("numo-0", &PatchParams::default(), &gone).await?;
    ground
        .until("the namespace is gone", async || {
            Ok(namespaces.get_opt(NAMESPACE).await?.is_none())
        })
        .await?;
    let log = fs::read_to_string(ground.log("numo"))?;
    assert!(log.contains("the namespace is being deleted"), "{log}");
    ground.cluster.stop().await;
    Ok(())
}

/// The API server refuses numo every write to nodes.
async fn refuse(client: &Client) -> Result<()> {
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": {"name": "no-nodes"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"],
            }]},
            "validations": [{
                "expression": "!request.userInfo.username.endsWith(':numo')", "message": "nodes are closed today",
            }],
        },
    }))?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": {"name": "no-nodes"}, "spec": {"policyName": "no-nodes", "validationActions": ["Deny"]},
    }))?;
    let post = PostParams::default();
    Api::all(client.clone()).create(&post, &policy).await?;
    Api::all(client.clone()).create(&post, &binding).await?;
    Ok(())
}

/// Whether numo is refused a write to the node.
async fn is_refused(ground: &Ground) -> Result<bool> {
    let params = PatchParams::default().dry_run();
    let open = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    let mut request = Request::new("/api/v1/nodes").patch("worker-0", &params, &open)?;
    let account = format!("system:serviceaccount:{NAMESPACE}:numo");
    request.headers_mut().insert("Impersonate-User", account.parse()?);
    let told = ground.client.request::<Value>(request).await;
    Ok(told.is_err_and(|error| error.to_string().contains("closed today")))
}

/// What cannot be restored keeps the release: Helm fails at its own time, and who looks is told what to do. Doing that lets Helm go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_restoration_that_fails_keeps_the_release_and_says_what_to_do() -> Result<()> {
    let ground = Ground::new().await?;
    for major in HELMS {
        ground.install(major)?;
        let operator = ground.start("numo").await?;
        ground.in_maintenance().await?;
        ground.is_asked_for().await?;
        refuse(&ground.client).await?;
        ground
            .until("the policy holds", async || is_refused(&ground).await)
            .await?;
        let failed = ground.uninstall(major, &["--timeout", "20s"])?.await?;
        failed.expect_err("not everything is restored");
        deployment(&ground.client).await.context("the release stays")?;
        assert!(ground.is_cordoned("worker-0").await?);
        let job = ground.job().await?.context("the Job stays")?;
        let told = job.metadata.annotations.unwrap_or_default();
        let told = &told["numo.openshift-optional.skrzypek.io/uninstall-message"];
        assert!(
            told.contains("closed today") && told.contains("`numo release --offline --take-over`"),
            "{told}"
        );
        // As it says: by an administrator, from where that one is. A numo that runs leads no more; one that does not run is not needed.
        drop(operator);
        let mut release = Command::new(numo());
        release
            .args(["release", "--offline", "--take-over", "--kubeconfig"])
            .arg(ground.cluster.kubeconfig(User::Admin));
        let told = tokio::task::spawn_blocking(move || said(&mut release)).await??;
        assert!(told.contains("0 marks left"), "{told}");
        ground.uninstall(major, &[])?.await??;
        ground.nothing_is_left(major).await?;
        let delete = DeleteParams::default();
        Api::<ValidatingAdmissionPolicyBinding>::all(ground.client.clone())
            .delete("no-nodes", &delete)
            .await?;
        Api::<ValidatingAdmissionPolicy>::all(ground.client.clone())
            .delete("no-nodes", &delete)
            .await?;
        ground.clear().await?;
    }
    ground.cluster.stop().await;
    Ok(())
}

/// The uninstallation is called off, so the release stays: numo leads again once the lead that is held for it is free, and asks to be asked again.
#[tokio::test(flavor = "multi_thread")]
async fn a_numo_whose_release_stays_comes_back() -> Result<()> {
    let ground = Ground::new().await?;
    ground.install(3)?;
    let operator = ground.start("numo").await?;
    ground.in_maintenance().await?;
    ground.is_asked_for().await?;
    // Whoever deletes the Job is Helm to numo.
    ground.jobs().delete(JOB, &DeleteParams::background()).await?;
    ground
        .until("everything is restored", async || {
            Ok(ground.holder().await? == "numo-uninstall" && ground.job().await?.is_none())
        })
        .await?;
    assert!(!ground.is_cordoned("worker-0").await?);
    // Ten minutes pass.
    let leases: Api<Lease> = Api::namespaced(ground.client.clone(), NAMESPACE);
    leases.delete("numo-leader", &DeleteParams::default()).await?;
    ground.is_asked_for().await?;
    ground
        .until("the node is in maintenance again", async || {
            ground.is_cordoned("worker-0").await
        })
        .await?;
    assert_eq!(ground.holder().await?, "numo");
    drop(operator);
    ground.cluster.stop().await;
    Ok(())
}

/// What the Deployment tells numo is what Helm applies to the Job that numo makes of it: a spec that differed could not be applied.
#[test]
fn numo_is_told_the_spec_of_the_hook() -> Result<()> {
    for major in HELMS {
        let mut helm = crate::equal::template_by_itself(major)?;
        let all = crate::equal::by_name(numo_install::objects(&said(&mut helm)?)?);
        let env = &all[&format!("Deployment numo in {NAMESPACE}")]["spec"]["template"]["spec"]["containers"]
            [0]["env"];
        let mut env = env.as_array().into_iter().flatten();
        let told = env
            .find(|one| one["name"] == "NUMO_UNINSTALL_JOB")
            .context("told")?;
        let told: Value = serde_json::from_str(told["value"].as_str().unwrap_or_default())?;
        let hook = &all[&format!("Job {JOB} in {NAMESPACE}")]["spec"];
        assert_eq!(crate::equal::difference(&told, hook, ""), None);
        for (set, version, wanted) in [
            ("uninstall.by=Job", "1.36.0", Some("numo-release")),
            ("uninstall.release=true", "1.31.0", Some("numo-release")),
            ("uninstall.release=false", "1.36.0", None),
        ] {
            let mut helm = crate::equal::template_by_itself(major)?;
            helm.args(["--set", set, "--kube-version", version]);
            let all = crate::equal::by_name(numo_install::objects(&said(&mut helm)?)?);
            let mut hooks = all.values().filter(|one| {
                let hook = &one["metadata"]["annotations"]["helm.sh/hook"];
                hook == "pre-delete"
            });
            let name = hooks.next().and_then(|hook| hook["metadata"]["name"].as_str());
            assert_eq!(name, wanted, "{set}, Kubernetes {version}");
        }
    }
    Ok(())
}
