//! Every command of the docs, run as it is written by a person's terminal, on clusters as the pages find them. numo is
//! installed as the pages say and runs in its pods.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::{
    api::core::v1::Node, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use numo_api::marks;
use numo_cluster::{Cluster, User};
use numo_e2e::{NAMESPACE, Page, Terminal, binary, kubectl, manifests};
use numo_plugin_tests::registry::{Kind, PASSWORD, Running, USER};
use numo_world::{Fault, MachineApi, PoolSpec, Program, World, WorldSpec};
use serde_json::{Value, json};

use crate::{NEW, OLD, with_canary, workers};

/// The versions after it.
const NEXT: &str = "4.18.0";
const LAST: &str = "4.19.0";

/// A cluster without numo, and an administrator's terminal.
pub struct Site {
    cluster: Cluster,
    pub world: World,
    pub client: Client,
    pub terminal: Terminal,
}

impl Site {
    pub async fn set(world: WorldSpec) -> Result<Self> {
        let cluster = numo_e2e::with_kinds().await?;
        let mut spec = world;
        spec.programs.insert("kubectl".to_owned(), kubectl(&cluster));
        let numo = Program {
            command: vec![binary()?.display().to_string()],
            kubeconfig: cluster.kubeconfig(User::World),
            listens: vec![
                ("NUMO_METRICS_ADDRESS".to_owned(), 8080),
                ("NUMO_PROBE_ADDRESS".to_owned(), 8081),
                ("NUMO_WEBHOOK_ADDRESS".to_owned(), 9443),
            ],
            is_any_command: false,
        };
        spec.programs.insert("numo".to_owned(), numo);
        let theirs = cluster.client(User::World).await?;
        let world = World::create(theirs, spec).await?;
        world.remember().await?;
        Ok(Self {
            client: cluster.client(User::Admin).await?,
            terminal: Terminal::open(&cluster)?,
            cluster,
            world,
        })
    }

    pub async fn run(&self, text: &str) -> Result<String> {
        self.terminal.run(text).await
    }

    /// Applies objects as they stand.
    pub async fn apply(&self, objects: &[Value]) -> Result<()> {
        manifests::apply(&self.client, objects, "default").await
    }

    /// Runs a command until it succeeds and prints this; what it printed.
    pub async fn until(&self, command: &str, wanted: &str) -> Result<String> {
        let deadline = tokio::time::Instant::now() + Duration::from_mins(2);
        loop {
            let said = self.terminal.call(command).await?;
            if said.code == Some(0) && said.out.contains(wanted) {
                return Ok(said.out);
            }
            if tokio::time::Instant::now() > deadline {
                let log = self.terminal.call(LOGS).await?;
                bail!("{command}: never {wanted:?}: {said:?}\n{}", log.out);
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// Nothing of numo is left on any node.
    pub async fn nothing_is_left(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        for node in nodes.list(&ListParams::default()).await? {
            let labels = node.labels().keys().chain(node.annotations().keys());
            let ours: Vec<&String> = labels.filter(|key| key.starts_with(marks::PREFIX)).collect();
            ensure!(ours.is_empty(), "{}: {ours:?}", node.name_any());
        }
        Ok(())
    }

    pub async fn strike(self) -> Result<()> {
        self.world.stop().await;
        self.cluster.give_back().await;
        Ok(())
    }
}

const LOGS: &str = "kubectl get events -A -o custom-columns=R:.reason,O:.regarding.name,N:.note,M:.message | tail -40; \
    kubectl -n node-upgrade-mutex-operator get pods -o wide; \
    for p in $(kubectl -n node-upgrade-mutex-operator get pods -o name); do kubectl -n node-upgrade-mutex-operator logs $p | tail -30; done";

/// The Deployment of another operator, with the right to write the status of a kind; `labels` are its pods'.
pub fn operator(namespace: &str, name: &str, labels: Value, right: (&str, &str)) -> Vec<Value> {
    let (group, resource) = right;
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": [group], "resources": [format!("{resource}/status")], "verbs": ["update"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "terminationGracePeriodSeconds": 1, "serviceAccountName": name,
                    "containers": [{"name": "manager", "image": "theirs", "command": ["sleep", "36000"]}],
                }},
            },
        }),
    ]
}

/// A definition as its first operator has it: without the fields that only numo knows.
fn definition(file: &str, ours: &[&str]) -> Result<Value> {
    let path = manifests::root().join("deploy/crds").join(file);
    let mut objects = manifests::parse(&std::fs::read_to_string(path)?)?;
    let mut found = objects.pop().context("a definition")?;
    found["metadata"] = json!({"name": found["metadata"]["name"]});
    for version in found["spec"]["versions"].as_array_mut().context("versions")? {
        let spec = version.pointer_mut("/schema/openAPIV3Schema/properties/spec");
        let spec = spec.and_then(Value::as_object_mut).context("a spec")?;
        spec.remove("x-kubernetes-validations");
        let fields = spec.get_mut("properties").and_then(Value::as_object_mut);
        fields
            .context("fields")?
            .retain(|field, _| !ours.contains(&field.as_str()));
    }
    let _: CustomResourceDefinition = serde_json::from_value(found.clone())?;
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_from_system_upgrade_controller_and_back() -> Result<()> {
    let site = Site::set(workers(3)).await?;
    let mut page = Page::read("operator/docs/migration/system-upgrade-controller.md")?;
    let labels = json!({"upgrade.cattle.io/controller": "system-upgrade-controller"});
    let right = ("upgrade.cattle.io", "plans");
    site.apply(&operator(
        "system-upgrade",
        "system-upgrade-controller",
        labels,
        right,
    ))
    .await?;
    site.apply(&[definition("upgrade.cattle.io_plans.yaml", &["mutex"])?])
        .await?;
    site.apply(&[
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "system-upgrade", "namespace": "system-upgrade"}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "system-upgrade"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "system-upgrade", "namespace": "system-upgrade"}],
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "default-controller-env", "namespace": "system-upgrade"},
            "data": {"SYSTEM_UPGRADE_JOB_ACTIVE_DEADLINE_SECONDS": "900", "SYSTEM_UPGRADE_JOB_BACKOFF_LIMIT": "99"},
        }),
        json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"name": "server-plan", "namespace": "system-upgrade"},
            "spec": {
                "concurrency": 1, "cordon": true, "serviceAccountName": "system-upgrade", "version": "v1.33.4+k3s1",
                "nodeSelector": {"matchExpressions": [{"key": "node-role.kubernetes.io/worker", "operator": "Exists"}]},
                "upgrade": {"image": "rancher/k3s-upgrade"},
            },
        }),
    ])
    .await?;
    let t = &site.terminal;
    site.run("kubectl -n system-upgrade rollout status deployment/system-upgrade-controller")
        .await?;
    let found = page
        .run(
            t,
            "kubectl get deployments -A | grep system-upgrade-controller",
            &[],
        )
        .await?;
    assert!(found.contains("server-plan"), "{found}");
    page.run(t, "scale deployment system-upgrade-controller --replicas=0", &[])
        .await?;
    page.run(t, "kubectl apply -k deploy/kustomize/all/self-managed", &[])
        .await?;
    page.run(
        t,
        "set env deployment/numo --from=configmap/default-controller-env",
        &[],
    )
    .await?;
    site.run("kubectl -n node-upgrade-mutex-operator rollout status deployment/numo")
        .await?;
    let said = page.run_until(t, "numo explain plan/server-plan", &[]).await?;
    assert!(said.contains("server-plan"), "{said}");
    site.run("kubectl -n system-upgrade wait plan/server-plan --for=condition=Complete --timeout=150s")
        .await?;
    let done = site
        .run("kubectl get nodes -l plan.upgrade.cattle.io/server-plan -o name")
        .await?;
    assert_eq!(done.lines().count(), 3, "{done}");
    let job = site
        .run("kubectl -n system-upgrade get jobs -o jsonpath='{.items[0].spec.backoffLimit}'")
        .await?;
    assert_eq!(job, "99", "the settings were taken over");

    page.run(t, "delete jobs -l upgrade.cattle.io/controller", &[])
        .await?;
    site.nothing_is_left().await?;
    site.until(
        "kubectl -n system-upgrade get deployment system-upgrade-controller",
        "1/1",
    )
    .await?;
    page.run(t, "delete deployment system-upgrade-controller", &[])
        .await?;
    page.end()?;
    site.strike().await
}

/// A node as node-maintenance-operator keeps it in maintenance, and the webhook of an operator that does not run.
const IN_MAINTENANCE: &str = r#"
kubectl create namespace medik8s-leases
kubectl apply -f - <<EOF
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: node-worker-0, namespace: medik8s-leases}
spec: {holderIdentity: node-maintenance, leaseDurationSeconds: 3600, renewTime: "$(date -u +%Y-%m-%dT%H:%M:%S.000000Z)"}
---
apiVersion: nodemaintenance.medik8s.io/v1beta1
kind: NodeMaintenance
metadata: {name: fan, finalizers: [foregroundDeleteNodeMaintenance]}
spec: {nodeName: worker-0, reason: a fan}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: node-maintenance-operator-validating-webhook-configuration}
webhooks:
  - name: vnodemaintenance.kb.io
    admissionReviewVersions: [v1]
    sideEffects: None
    clientConfig: {service: {name: webhook-service, namespace: node-maintenance-operator-system, path: /validate}}
    rules:
      - {apiGroups: [nodemaintenance.medik8s.io], apiVersions: [v1beta1], operations: [CREATE, UPDATE], resources: [nodemaintenances]}
EOF
kubectl patch nodemaintenances.nodemaintenance.medik8s.io fan --subresource=status --type=merge -p '{"status":{"phase":"Succeeded","drainProgress":100}}'
kubectl cordon worker-0
kubectl taint node worker-0 medik8s.io/drain=:NoSchedule
kubectl label node worker-0 remediation.medik8s.io/exclude-from-remediation=true
"#;

/// The definition of a kind that takes anything.
fn kind_of(group: &str, version: &str, plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

/// What OLM keeps of an operator: its Subscription and its ClusterServiceVersion.
async fn installed_by_olm(site: &Site, namespace: &str, name: &str) -> Result<()> {
    for (plural, kind) in [
        ("subscriptions", "Subscription"),
        ("clusterserviceversions", "ClusterServiceVersion"),
    ] {
        site.apply(&[kind_of("operators.coreos.com", "v1alpha1", plural, kind)])
            .await?;
    }
    let object = |kind: &str, name: &str, more: Value| {
        let meta = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        crate::with(meta, more)
    };
    let installed = format!("{name}.v1");
    site.apply(&[
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        object(
            "ClusterServiceVersion",
            &installed,
            json!({"spec": {"displayName": "it"}}),
        ),
        object(
            "Subscription",
            name,
            json!({"spec": {"name": name}, "status": {"installedCSV": installed}}),
        ),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_from_node_maintenance_operator_and_back() -> Result<()> {
    let site = Site::set(WorldSpec {
        masters: 3,
        ..workers(2)
    })
    .await?;
    let mut page = Page::read("operator/docs/migration/node-maintenance-operator.md")?;
    let (namespace, name) = (
        "node-maintenance-operator-system",
        "node-maintenance-operator-controller-manager",
    );
    let right = ("nodemaintenance.medik8s.io", "nodemaintenances");
    site.apply(&operator(
        namespace,
        name,
        json!({"control-plane": "controller-manager"}),
        right,
    ))
    .await?;
    for group in ["medik8s", "kubevirt"] {
        let file = format!("nodemaintenance.{group}.io_nodemaintenances.yaml");
        site.apply(&[definition(&file, &["drain", "mutexRules"])?])
            .await?;
    }
    installed_by_olm(
        &site,
        "openshift-workload-availability",
        "node-maintenance-operator",
    )
    .await?;
    let t = &site.terminal;
    site.until(
        "kubectl get nodemaintenances.nodemaintenance.medik8s.io -o name && echo served",
        "served",
    )
    .await?;
    site.run(IN_MAINTENANCE).await?;
    site.run(&format!(
        "kubectl -n {namespace} rollout status deployment/{name}"
    ))
    .await?;

    let found = page
        .run(t, "kubectl get deployments -A | grep node-maintenance", &[])
        .await?;
    assert!(found.contains("worker-0"), "{found}");
    page.run(t, "> nmo-webhook.json", &[]).await?;
    page.run(t, "> nmo-subscription.json", &[]).await?;
    page.run(t, "kubectl apply -k deploy/kustomize/all/self-managed", &[])
        .await?;
    let said = page
        .run_until(t, "numo explain node02", &[("node02", "worker-0")])
        .await?;
    assert!(said.contains("a fan"), "{said}");
    let phase = "kubectl get nodemaintenances.nodemaintenance.medik8s.io fan -o jsonpath='{.status.phase} {.status.lastUpdate}'";
    site.until(phase, "Succeeded 2").await?;
    // numo's own webhook is asked, by its Service.
    let refused = r"kubectl create -f - <<EOF
apiVersion: nodemaintenance.medik8s.io/v1beta1
kind: NodeMaintenance
metadata: {name: nobody}
spec: {nodeName: no-such-node}
EOF";
    let refused = t.call(refused).await?;
    assert!(
        refused.err.contains("vnodemaintenance.kb.io") && refused.err.contains("no-such-node"),
        "{refused:?}"
    );
    site.run("kubectl delete nodemaintenances.nodemaintenance.medik8s.io fan --timeout=90s")
        .await?;
    let node = site.run("kubectl get node worker-0 -o json").await?;
    assert!(
        !node.contains("medik8s.io/drain") && !node.contains("unschedulable"),
        "{node}"
    );

    page.run(t, "kubectl create -f nmo-webhook.json", &[]).await?;
    site.run("kubectl create -f nmo-subscription.json").await?;
    let said = t.call("numo doctor").await?.out;
    assert!(
        said.contains(
            "validatingwebhookconfiguration node-maintenance-operator-validating-webhook-configuration"
        ),
        "a webhook that nobody serves is named: {said}"
    );
    site.run("kubectl get validatingwebhookconfiguration node-maintenance-operator-validating-webhook-configuration").await?;
    site.nothing_is_left().await?;
    site.until(&format!("kubectl -n {namespace} get deployment {name}"), "1/1")
        .await?;
    let left = page
        .run(
            t,
            "kubectl delete namespace node-maintenance-operator-system",
            &[],
        )
        .await?;
    assert!(left.contains(name), "{left}");
    page.end()?;
    site.strike().await
}

/// Rule, target and run of the page, and the pools as that operator has them in mid-run: worker-0 had its turn in the
/// canary, worker-1 is in it, worker-2 waits in its paused pool.
const MID_RUN: &str = r#"
KEY=mutexrule.openshift-optional.skrzypek.io/k8s-example.node-upgrade-mutex-operator
oc apply -f - <<EOF
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRule
metadata: {name: k8s-example, namespace: node-upgrade-mutex-operator}
spec:
  jobNamespace: node-upgrade-mutex-operator
  jobName: k8s-example
  type: kubernetes
  jobSpec:
    template: {spec: {restartPolicy: Never, containers: [{name: check, image: tools, command: ["true"]}]}}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexTarget
metadata: {name: worker-example, namespace: node-upgrade-mutex-operator}
spec: {machineConfigPools: [worker]}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRunConfig
metadata: {name: example, namespace: node-upgrade-mutex-operator}
spec: {canary: {name: canary}, mutexRules: [{name: k8s-example}], mutexTargets: [{name: worker-example}]}
EOF
oc -n node-upgrade-mutex-operator patch mutextarget worker-example --subresource=status --type=merge -p '{"status":{"nodes":["worker-0","worker-1","worker-2"]}}'
oc patch mcp worker --type=merge -p '{"spec":{"paused":true}}'
oc label node worker-1 worker-2 "$KEY="
oc patch mcp worker --type=merge -p '{"spec":{"nodeSelector":{"matchExpressions":[{"key":"'$KEY'","operator":"Exists"}]}}}'
oc patch mcp canary --type=merge -p '{"spec":{"nodeSelector":{"matchExpressions":[{"key":"'$KEY'","operator":"DoesNotExist"}]}}}'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_way_from_the_node_upgrade_mutex_operator_and_back() -> Result<()> {
    let site = Site::set(WorldSpec {
        masters: 3,
        ..with_canary(workers(3))
    })
    .await?;
    let mut page = Page::read("operator/docs/migration/node-upgrade-mutex-operator.md")?;
    let (namespace, name) = (
        NAMESPACE,
        "openshift-node-upgrade-mutex-operator-controller-manager",
    );
    let right = ("openshift-optional.skrzypek.io", "mutexrunconfigs");
    site.apply(&operator(
        namespace,
        name,
        json!({"control-plane": "controller-manager"}),
        right,
    ))
    .await?;
    for kind in ["mutexrules", "mutextargets", "mutexrunconfigs"] {
        site.apply(&[definition(
            &format!("openshift-optional.skrzypek.io_{kind}.yaml"),
            &[],
        )?])
        .await?;
    }
    installed_by_olm(&site, namespace, "openshift-node-upgrade-mutex-operator").await?;
    let t = &site.terminal;
    site.until(
        "oc get mutexrules,mutextargets,mutexrunconfigs -A -o name && echo served",
        "served",
    )
    .await?;
    site.run(&format!("oc -n {namespace} rollout status deployment/{name}"))
        .await?;
    site.run(MID_RUN).await?;
    site.world.upgrade_to(NEW).await?;
    let updated = "oc get mcp canary -o jsonpath='{.status.conditions[?(@.type==\"Updated\")].status} {.status.updatedMachineCount}'";
    site.until(updated, "True 1").await?;

    let found = page.run(t, "oc get mutexrules -A", &[]).await?;
    assert!(found.contains("worker-1") && found.contains("example"), "{found}");
    page.run(t, &format!("scale deployment {name} --replicas=0"), &[])
        .await?;
    page.run(t, "oc label nodes --all \"$KEY-\"", &[]).await?;
    let paused = site.run("oc get mcp worker -o jsonpath='{.spec.paused}'").await?;
    assert_eq!(paused, "true");
    page.run(t, "oc apply -k deploy/kustomize/all/openshift", &[])
        .await?;
    let said = page
        .run_until(t, "numo explain mutexrunconfig/example", &[])
        .await?;
    assert!(said.contains("PoolPausedByOther"), "{said}");
    site.run("oc -n node-upgrade-mutex-operator patch mutexrunconfig example --type=merge -p '{\"spec\":{\"adoptPaused\":true}}'").await?;
    site.until("oc -n node-upgrade-mutex-operator get mutexrunconfig example -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].reason}'", "Succeeded").await?;
    assert!(site.world.is_updated("worker", NEW), "all of it is upgraded");
    let paused = site.run("oc get mcp worker -o jsonpath='{.spec.paused}'").await?;
    assert_eq!(paused, "true", "as it was found");
    site.run("oc patch mcp worker --type=merge -p '{\"spec\":{\"paused\":false}}'")
        .await?;

    page.run(
        t,
        "-L machineconfiguration.openshift.io/release-image-version",
        &[],
    )
    .await?;
    site.nothing_is_left().await?;
    site.until(&format!("oc -n {namespace} get deployment {name}"), "1/1")
        .await?;
    page.run(
        t,
        "oc -n node-upgrade-mutex-operator delete clusterserviceversion",
        &[],
    )
    .await?;
    page.end()?;
    site.strike().await
}

/// A run through the canary with one Job rule.
const RUN: &str = r#"
oc apply -f - <<EOF
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRule
metadata: {name: quick, namespace: node-upgrade-mutex-operator}
spec:
  jobNamespace: node-upgrade-mutex-operator
  jobName: quick
  type: kubernetes
  jobSpec:
    template: {spec: {restartPolicy: Never, containers: [{name: check, image: tools, command: ["true"]}]}}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexTarget
metadata: {name: workers, namespace: node-upgrade-mutex-operator}
spec: {machineConfigPools: [worker]}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRunConfig
metadata: {name: upgrade, namespace: node-upgrade-mutex-operator}
spec: {order: Name, canary: {name: canary}, mutexRules: [{name: quick}], mutexTargets: [{name: workers}]}
EOF
"#;

/// Two minors with one reboot, and then numo is lost in the middle of an upgrade and all is put back by hand.
#[tokio::test(flavor = "multi_thread")]
async fn the_guide_for_openshift() -> Result<()> {
    let mut site = Site::set(WorldSpec {
        masters: 3,
        ..with_canary(workers(3))
    })
    .await?;
    let mut guide = Page::read("operator/docs/openshift.md")?;
    let mut pools = Page::read("operator/docs/openshift-pools.md")?;
    let mut page = Page::read("operator/docs/openshift-recovery.md")?;
    site.run("oc apply -f deploy/openshift.yaml || oc apply -f deploy/openshift.yaml")
        .await?;
    site.run("oc -n node-upgrade-mutex-operator rollout status deployment/numo")
        .await?;
    site.run(RUN).await?;
    let ready = "oc -n node-upgrade-mutex-operator get mutexrunconfig upgrade -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].reason}'";
    site.until(ready, "UpToDate").await?;

    let both = pools.take(
        "oc adm upgrade",
        &[
            ("NAME", "upgrade"),
            ("<first minor>", NEW),
            ("<second minor>", NEXT),
        ],
    )?;
    for line in both.lines() {
        site.run(line).await?;
        if let Some(version) = line
            .split("--to=")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
        {
            let done = "oc get clusterversion version -o jsonpath='{.status.history[0].version} {.status.history[0].state}'";
            site.until(done, &format!("{version} Completed")).await?;
            for node in ["worker-0", "worker-1", "worker-2"] {
                assert_eq!(site.world.version_of(node), OLD, "no worker changes in between");
            }
        }
    }
    site.until(ready, "Succeeded").await?;
    assert!(site.world.is_updated("worker", NEXT));

    let _check = site
        .world
        .machine_health_check(MachineApi::OpenShift, 100_000.0)
        .await?;
    pools
        .run(
            &site.terminal,
            "cluster.x-k8s.io/paused=\"\"",
            &[("NAME", "workers")],
        )
        .await?;
    pools.end()?;

    // numo is lost while worker-0 changes in the canary.
    site.world.inject(Fault::SlowReboot {
        node: "worker-0".to_owned(),
        factor: 8.0,
    });
    site.world.upgrade_to(LAST).await?;
    let reboots = Duration::from_mins(2);
    let seen = |world: &World| {
        world.state().nodes["worker-0"].rebooting && world.membership_of("worker-0").is("canary")
    };
    site.world
        .until("worker-0 reboots in the canary", reboots, seen)
        .await?;
    let said = guide
        .run(
            &site.terminal,
            "numo explain NODE ",
            &[
                ("explain NODE ", "explain worker-1 "),
                ("NAME -n NS", "upgrade -n node-upgrade-mutex-operator"),
            ],
        )
        .await?;
    assert!(
        said.contains("WaitingForTurn") && said.contains("earliest"),
        "{said}"
    );
    guide.end()?;
    let prefix = page.take("P=numo", &[])?;
    site.terminal.keep(&prefix);
    let t = &site.terminal;
    let paused = page.run(t, "scale deployment/numo --replicas=0", &[]).await?;
    assert!(paused.contains("worker\tpaused=true"), "{paused}");
    site.until(
        "oc -n node-upgrade-mutex-operator get pods -l app.kubernetes.io/name=numo -o name; echo none",
        "none",
    )
    .await?;
    let changes = page
        .run(t, "oc get nodechanges -A -o json > nodechanges.json", &[])
        .await?;
    let row = changes
        .lines()
        .find(|line| line.starts_with("worker-0"))
        .context("a NodeChange")?;
    assert!(row.contains("worker\tReleased"), "{row}");
    let pin = row.split_whitespace().last().context("a pin")?.to_owned();

    let home = page.take("oc get nodes -l $P/release -o json", &[])?;
    let at_rest = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        matches!(words[..], ["worker-0", current, desired, "Done"] if current == desired)
    };
    let came = async {
        loop {
            if at_rest(&site.run(&home).await?) {
                return Ok::<(), anyhow::Error>(());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), came)
        .await
        .context("worker-0 in the canary")??;
    page.run(t, "1release\"}", &[("NODE", "worker-0"), ("PIN", &pin)])
        .await?;
    page.run(t, "select(.operator==\"Exists\")", &[("POOL", "worker")])
        .await?;
    let labelled = site.run("oc get nodes -l $P/release -o name").await?;
    assert_eq!(labelled, "", "nobody carries it");
    let prior = page
        .run(t, "PRIOR=$(oc get mcp POOL", &[("POOL", "canary")])
        .await?;
    assert!(prior.contains("isCanary"), "{prior}");
    page.run(t, "for n in $(oc get nodes", &[]).await?;
    let shields = page.run(t, ".prior | tostring", &[]).await?;
    assert!(shields.contains("worker-0"), "{shields}");
    page.run(t, "karpenter.sh/do-not-disrupt-", &[("NODE", "worker-0")])
        .await?;
    page.run(t, "for k in machines.machine.openshift.io", &[]).await?;
    // Marks that this run has not made.
    site.run(
        "oc annotate node worker-0 $P/cordoned-by='{}'; oc adm taint node worker-0 $P/quarantine=:NoSchedule",
    )
    .await?;
    page.run(t, "oc adm cordon NODE", &[("NODE", "worker-0")]).await?;
    site.run("oc adm uncordon worker-0 || oc uncordon worker-0")
        .await?;
    let differ = page.run(t, "POOL=worker\n", &[]).await?;
    assert!(
        differ.contains("worker-1") && differ.contains("worker-2"),
        "{differ}"
    );
    assert!(
        !differ.contains("worker-0"),
        "it has nothing left to change: {differ}"
    );

    let config = site
        .run("oc get mcp worker -o jsonpath='{.spec.configuration.name}'")
        .await?;
    page.run(
        t,
        "desiredConfig=CONFIG",
        &[("NODE", "worker-1"), ("=CONFIG", &format!("={config}"))],
    )
    .await?;
    site.world
        .until("worker-1 is let go by hand", reboots, |world| {
            world.version_of("worker-1") == LAST
        })
        .await?;
    assert_eq!(site.world.version_of("worker-2"), NEXT, "the pool is paused");
    page.run(t, "{\"spec\":{\"paused\":false}}", &[("POOL", "worker")])
        .await?;
    site.world
        .until("the rest rolls", reboots, |world| {
            world.is_updated("worker", LAST)
        })
        .await?;
    let finalizer = &[("-n NS", "-n node-upgrade-mutex-operator"), ("NAME", "upgrade")];
    page.run(t, "finalizers/0", finalizer).await?;
    let left = page.run(t, "any(startswith($p))) |\n", &[]).await?;
    let marked = left.lines().filter(|line| {
        ["Node/", "MachineConfigPool/", "worker-"]
            .iter()
            .any(|start| line.starts_with(start))
    });
    assert_eq!(marked.count(), 0, "{left}");
    page.end()?;
    site.strike().await
}

/// The ways to install, give back and remove that are one line each.
#[tokio::test(flavor = "multi_thread")]
async fn one_line_installs_and_one_gives_everything_back() -> Result<()> {
    let site = Site::set(WorldSpec {
        masters: 3,
        ..workers(2)
    })
    .await?;
    let readme = std::fs::read_to_string(manifests::root().join("README.md"))?;
    let written = |command: &'static str| {
        ensure!(
            readme.contains(&format!("`{command}`")),
            "README.md has no {command}"
        );
        Ok(command)
    };
    // A manifest with definitions and objects of them wants a second time where the API server is slow.
    let apply = written("kubectl apply -f deploy/kubernetes.yaml")?;
    site.until(&format!("{apply} && echo applied"), "applied").await?;
    site.run("kubectl -n node-upgrade-mutex-operator rollout status deployment/numo")
        .await?;
    site.until("numo doctor && echo sound", "sound").await?;
    site.run(written("kubectl apply -k deploy/kustomize/all/kubernetes")?)
        .await?;
    site.run("kubectl create -f examples/invite-namespace.yaml --dry-run=server -o name || true")
        .await?;
    // A node in maintenance is given back with all the rest.
    site.until("kubectl create -f - <<< '{\"apiVersion\":\"nodemaintenance.medik8s.io/v1beta1\",\"kind\":\"NodeMaintenance\",\"metadata\":{\"name\":\"fan\"},\"spec\":{\"nodeName\":\"worker-0\"}}' && echo made", "made").await?;
    site.until(
        "kubectl get node worker-0 -o jsonpath='{.spec.unschedulable}'",
        "true",
    )
    .await?;
    site.run(written("kubectl apply -f deploy/uninstall.yaml")?)
        .await?;
    let head = std::fs::read_to_string(manifests::root().join("deploy/uninstall.yaml"))?;
    let more = head.lines().filter_map(|line| line.strip_prefix("#   ")).skip(1);
    for command in more {
        site.run(command).await?;
    }
    site.nothing_is_left().await?;
    // The same object by kustomize, where the image is set.
    let again = site
        .run(written("kubectl apply -k deploy/kustomize/uninstall")?)
        .await?;
    assert!(again.contains("job.batch/numo-release unchanged"), "{again}");
    let pods = "kubectl -n node-upgrade-mutex-operator get pods -l app.kubernetes.io/name=numo -o name";
    let pods = site.run(pods).await?;
    assert!(
        !pods.contains("release"),
        "whoever waits for numo's pods waits for those alone: {pods}"
    );
    site.run(written(
        "kubectl delete -k deploy/kustomize/remove --ignore-not-found",
    )?)
    .await?;
    let left = site
        .run("kubectl get deployments,clusterroles,validatingwebhookconfigurations -A -o name")
        .await?;
    assert!(!left.contains("/numo"), "{left}");
    let left = site.run("kubectl get crds,namespaces -o name").await?;
    for shared in [
        "mutexrules.openshift",
        "plans.upgrade",
        "namespace/medik8s-leases",
    ] {
        assert!(left.contains(shared), "{left}");
    }
    site.strike().await
}

/// README's five minutes, but for what needs a container engine.
#[tokio::test(flavor = "multi_thread")]
async fn five_minutes_of_the_readme() -> Result<()> {
    let site = Site::set(WorldSpec {
        masters: 1,
        ..workers(2)
    })
    .await?;
    let t = &site.terminal;
    let mut page = Page::read("README.md")?;
    page.run_until(t, "kubectl apply -f deploy/self-managed.yaml", &[])
        .await?;
    let here: &[(&str, &str)] = &[("kubectl numo", "numo"), ("kind-worker", "worker-0")];
    let said = t.call(&page.take("--reason fan", here)?).await?;
    assert!(
        said.code == Some(3) && said.err.contains("is behind PodDisruptionBudget web/web"),
        "{said:?}"
    );
    page.run(t, "scale deployment/web", here).await?;
    for having in run_by_nobody("README.md") {
        page.take(having, &[])?;
    }
    page.end()?;
    let mut maintenance = Page::read("operator/docs/maintenance.md")?;
    let node = &[("NODE", "worker-0")];
    maintenance.run(t, "numo maintain NODE", node).await?;
    maintenance.end()?;
    let mut questions = Page::read("operator/docs/faq.md")?;
    questions.run(t, "kubectl get nodechanges", &[]).await?;
    questions.end()?;
    the_log_is_as_its_page_says(&site).await?;
    site.nothing_is_left().await?;
    site.strike().await
}

/// The page of the log, after a maintenance of worker-0.
async fn the_log_is_as_its_page_says(site: &Site) -> Result<()> {
    let t = &site.terminal;
    let mut page = Page::read("operator/docs/logs.md")?;
    let said = page.run(t, "app.kubernetes.io/name=numo --prefix", &[]).await?;
    assert!(said.contains("[pod/numo-"), "{said}");
    let owner = &[(
        "MutexRunConfig node-upgrade-mutex-operator/upgrade",
        "NodeMaintenance worker-0",
    )];
    let said = page.run(t, "jq -c", owner).await?;
    let written: Vec<Vec<Value>> = said
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .with_context(|| said.clone())?;
    let done = json!(["CreateChange", "worker-0", "done"]);
    assert!(
        written
            .iter()
            .any(|line| json!(line.get(1..).unwrap_or_default()) == done),
        "{said}"
    );
    let said = page.run(t, "target.runID", &[]).await?;
    // The journal of a maintenance is gone by now; the columns are fields of the kind.
    assert!(said.starts_with("NODE") && said.contains("RUN"), "{said}");
    page.end()
}

/// The first manifest of a page.
fn first_manifest(page: &str) -> Result<String> {
    let text = std::fs::read_to_string(manifests::root().join(page))?;
    let block = text.split("```yaml\n").nth(1);
    let block = block.and_then(|rest| rest.split("```").next());
    Ok(block.context("a manifest")?.to_owned())
}

/// The author's loop of all three pages, and the registry that a component is pushed to.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_in_fifteen_minutes() -> Result<()> {
    let mut site = Site::set(workers(2)).await?;
    site.until(
        "kubectl apply -k deploy/kustomize/all/kubernetes && echo applied",
        "applied",
    )
    .await?;
    site.run("kubectl -n node-upgrade-mutex-operator rollout status deployment/numo")
        .await?;
    let registry =
        tokio::task::spawn_blocking(|| Running::start_with(Kind::GoContainerRegistry, false)).await??;
    let docker = site.terminal.folder().join(".docker");
    std::fs::create_dir(&docker)?;
    let config = json!({"auths": {&registry.address: {"username": USER, "password": PASSWORD}}});
    std::fs::write(docker.join("config.json"), config.to_string())?;
    let place = &[("registry.example.com", registry.address.as_str())];

    let mut page = Page::read("operator/docs/first-rule.md")?;
    page.run(&site.terminal, "kubectl create namespace team-storage", &[])
        .await?;
    let folder = site.terminal.folder();
    std::fs::write(
        folder.join("rule.yaml"),
        first_manifest("operator/docs/first-rule.md")?,
    )?;
    let said = page
        .run_until(&site.terminal, "kubectl apply -f rule.yaml", &[])
        .await?;
    assert!(
        said.contains("evaluated for Node worker-0") && said.contains("in Pre of Node worker-0: pass"),
        "{said}"
    );
    alone(&site).await?;
    let said = page.run(&site.terminal, "cargo test\n", &[]).await?;
    assert!(said.contains("test result: ok"), "{said}");
    site.terminal.keep("cd disk-check");
    page.run(
        &site.terminal,
        "numo plugin run disk-check.wasm",
        &[("worker-1", "worker-0")],
    )
    .await?;
    let said = page.run(&site.terminal, "numo plugin scaffold", place).await?;
    assert!(
        said.contains("kind: MutexRule") && said.contains("sha256:"),
        "{said}"
    );
    page.end()?;

    let mut page = Page::read("plugins/template/README.md")?;
    let words = [place[0], ("my-rule", "disk-check"), ("NAME", "worker-0")];
    let said = page.run(&site.terminal, "cargo test", &words).await?;
    assert!(said.contains("kind: MutexRule"), "{said}");
    page.end()?;

    let mut page = Page::read("operator/docs/rules.md")?;
    std::fs::write(
        site.terminal.folder().join("disk-check/key.pem"),
        rcgen::KeyPair::generate()?.serialize_pem(),
    )?;
    let all = page.take(
        "numo plugin new disk-check && cd disk-check",
        &[
            ("NAME", "worker-0"),
            ("tests/cases.yaml\n", "tests/cases.yaml --seconds 1\n"),
        ],
    )?;
    site.run(&format!("mkdir ../again && cd ../again\n{all}")).await?;
    site.run("cp disk-check.wasm rule.wasm").await?;
    let by_digest = site
        .run(&format!(
            "numo plugin push rule.wasm {}/team/rule:0.9",
            registry.address
        ))
        .await?;
    let digest = by_digest.trim().rsplit('@').next().unwrap_or_default().to_owned();
    page.run(
        &site.terminal,
        "numo plugin check rule.wasm",
        &[place[0], ("sha256:…", &digest)],
    )
    .await?;
    page.end()?;
    site.strike().await
}

/// The rule of the page, once a budget is used up and once it has a slip: what its author is told, without a run.
async fn alone(site: &Site) -> Result<()> {
    let asked = "numo preview -n team-storage mutexrule/shop-has-headroom";
    site.run("kubectl -n team-storage create poddisruptionbudget web --selector app=web --min-available 1")
        .await?;
    site.until(&format!("{asked} || echo code $?"), "code 3").await?;
    let said = site.run(&format!("{asked} --node worker-1 || true")).await?;
    assert!(
        said.contains("of Node worker-1: wait: ") && said.contains("no headroom in web"),
        "{said}"
    );
    // Before it is applied, and with a slip in it.
    let slip = "sed 's/disruptionsAllowed > 0/disruptionsAllowed >> 0/' rule.yaml > slip.yaml";
    let said = site
        .run(&format!("{slip}\nnumo preview -f slip.yaml || echo code $?"))
        .await?;
    assert!(
        said.contains("refused InvalidConfig: ") && said.contains("code 3"),
        "{said}"
    );
    let said = site
        .run("numo preview -n team-storage mutexrule/none 2>&1 || echo code $?")
        .await?;
    assert!(
        said.contains("found no mutexrule none") && said.contains("code 2"),
        "{said}"
    );
    Ok(())
}

/// A run whose rule fails on each node of `worker`, and one over `infra` whose PreRun rule fails.
const FAILING: &str = r#"
kubectl apply -f - <<EOF
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRule
metadata: {name: fails, namespace: node-upgrade-mutex-operator}
spec:
  jobNamespace: node-upgrade-mutex-operator
  jobName: fails
  type: kubernetes
  jobSpec:
    backoffLimit: 0
    template: {spec: {restartPolicy: Never, containers: [{name: check, image: tools, command: ["false"]}]}}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRule
metadata: {name: fails-first, namespace: node-upgrade-mutex-operator}
spec:
  jobNamespace: node-upgrade-mutex-operator
  jobName: fails-first
  type: kubernetes
  phases: [PreRun]
  jobSpec:
    backoffLimit: 0
    template: {spec: {restartPolicy: Never, containers: [{name: check, image: tools, command: ["false"]}]}}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexTarget
metadata: {name: workers, namespace: node-upgrade-mutex-operator}
spec: {machineConfigPools: [worker]}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexTarget
metadata: {name: infra, namespace: node-upgrade-mutex-operator}
spec: {machineConfigPools: [infra]}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRunConfig
metadata: {name: upgrade, namespace: node-upgrade-mutex-operator}
spec: {order: Name, mutexRules: [{name: fails}], mutexTargets: [{name: workers}]}
---
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexRunConfig
metadata: {name: infra, namespace: node-upgrade-mutex-operator}
spec: {mutexRules: [{name: fails-first}], mutexTargets: [{name: infra}]}
EOF
"#;

/// What the page of alerts says to look at and to do, while it is so.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_alert_says_to_do() -> Result<()> {
    let mut world = workers(2);
    world.pools.push(PoolSpec::new("infra", 1));
    let mut site = Site::set(WorldSpec { masters: 3, ..world }).await?;
    for (plural, kind) in [
        ("servicemonitors", "ServiceMonitor"),
        ("prometheusrules", "PrometheusRule"),
    ] {
        site.apply(&[kind_of("monitoring.coreos.com", "v1", plural, kind)])
            .await?;
    }
    let install = "kubectl apply -k deploy/kustomize/all/self-managed && echo applied";
    site.until(install, "applied").await?;
    site.run("kubectl -n node-upgrade-mutex-operator rollout status deployment/numo")
        .await?;
    site.run(FAILING).await?;
    site.run("kubectl create namespace openshift-monitoring").await?;
    let reason = |run: &str| {
        format!(
            "kubectl -n node-upgrade-mutex-operator get mutexrunconfig {run} -o jsonpath='{{.status.conditions[?(@.type==\"Ready\")].reason}}'"
        )
    };
    site.until(&reason("upgrade"), "UpToDate").await?;
    site.world.upgrade_to(NEW).await?;
    site.until("numo explain worker-0", "RuleFailed").await?;
    site.run("numo plugin new disk-check && cd disk-check && numo plugin build")
        .await?;

    let mut page = Page::read("operator/docs/reference/alerts.md")?;
    let node = ("NODE", "worker-0");
    let namespace = ("-n NS", "-n node-upgrade-mutex-operator");
    let run = ("mutexrunconfig/NAME", "mutexrunconfig/upgrade");
    let any = ("KIND/NAME", "mutexrunconfig/upgrade");
    let t = &site.terminal;
    page.run_until(t, "kubectl apply -k deploy/monitoring", &[])
        .await?;
    page.run(t, "create role prometheus-k8s", &[]).await?;
    page.run(t, "for a drain that does not pass", &[node]).await?;
    page.run(
        t,
        "kubectl numo skip NODE",
        &[("skip NODE", "skip NODE --reason rma"), node],
    )
    .await?;
    site.until("numo explain worker-1", "RuleFailed").await?;
    let said = site.run("numo explain worker-1").await?;
    for command in ["numo retry worker-1", "numo skip worker-1"] {
        assert!(said.contains(&format!("do      {command}\n")), "{said}");
    }
    page.run(t, "# names them", &[any, ("NODE", "worker-1")]).await?;
    let first = &[
        ("KIND/NAME", "mutexrunconfig/infra"),
        namespace,
        ("mutexrunconfig/NAME", "mutexrunconfig/infra"),
    ];
    page.run_until(t, "after a PreRun rule failed", first).await?;
    site.run("numo abort upgrade -n node-upgrade-mutex-operator")
        .await?;
    page.run(
        t,
        "take an abort back",
        &[node, run, namespace, ("RUN", "upgrade")],
    )
    .await?;
    let kept = site
        .run("kubectl get nodechanges -A -o jsonpath='{.items[?(@.spec.nodeName==\"worker-0\")].spec.directive}'")
        .await?;
    assert!(
        kept.contains("Retry") && !kept.contains("rma"),
        "the reason of the skip is no reason of the retry: {kept}"
    );
    page.run(t, "how far it is, and when", &[run]).await?;
    site.run("numo stop").await?;
    page.run(t, "kubectl numo start BUDGET", &[("BUDGET", "stop")])
        .await?;
    let rule = ("mutexrule/NAME", "mutexrule/fails");
    page.run(t, "who waits for it", &[namespace, rule]).await?;
    page.run(t, "who holds the lease", &[]).await?;
    // The kubelet of the world keeps no log of the container before.
    page.run(t, "restarts, memory", &[(" --previous", "")]).await?;
    // There is none, and grep says so.
    page.run(
        t,
        "grep -i invariant",
        &[("grep -i invariant", "grep -vi invariant")],
    )
    .await?;
    site.run("numo start").await?;
    page.run(t, "WriteRefused: which", &[]).await?;
    page.run(t, "kubectl get mutexnotifiers", &[]).await?;
    page.run(t, "get pods,events", &[]).await?;
    page.run(t, "kubectl get mcp POOL", &[("POOL", "worker")]).await?;
    page.run(t, "cordoned-by: it is numo's", &[node]).await?;
    site.terminal.keep("cd disk-check");
    page.run(&site.terminal, "kubectl numo plugin test", &[namespace, rule])
        .await?;
    page.end()?;
    site.strike().await
}

/// Pages whose blocks of commands are run by these tests: each ends its page (`Page::end`).
const PAGES: [&str; 21] = [
    "README.md",
    "operator/docs/faq.md",
    "operator/docs/first-rule.md",
    "operator/docs/logs.md",
    "operator/docs/maintenance.md",
    "operator/docs/migration/constellation-node-operator.md",
    "operator/docs/migration/node-maintenance-operator.md",
    "operator/docs/migration/node-upgrade-mutex-operator.md",
    "operator/docs/migration/system-upgrade-controller.md",
    "operator/docs/olm.md",
    "operator/docs/openshift-pools.md",
    "operator/docs/openshift-recovery.md",
    "operator/docs/openshift.md",
    "operator/docs/reference/alerts.md",
    "operator/docs/rules.md",
    "operator/docs/tutorials/maintenance.md",
    "operator/docs/tutorials/node-version.md",
    "operator/docs/tutorials/openshift.md",
    "operator/docs/tutorials/plan.md",
    "operator/docs/upgrade.md",
    "plugins/template/README.md",
];
/// Pages whose blocks are run elsewhere: `OTHERWISE` speaks of each.
const STEPS: [&str; 6] = [
    "deploy/helm/numo/README.md",
    "operator/docs/node-versions.md",
    "operator/docs/verifying.md",
    "plugins/README.md",
    "plugins/template/javascript/README.md",
    "plugins/template/python/README.md",
];

/// What becomes of a block that none of these tests runs.
#[derive(Clone, Copy)]
enum By {
    /// The test in this file runs it: the file names the page and the text that marks the block.
    Test(&'static str),
    /// Nobody runs it as it is written, for this reason.
    Nobody(&'static str),
}

/// Blocks that none of these tests runs: the page, a text that the block alone has, and what becomes of it.
const OTHERWISE: [(&str, &str, By); 11] = [
    (
        "README.md",
        "kind create cluster",
        By::Nobody("wants a container engine"),
    ),
    (
        "README.md",
        "cargo xtask demo",
        By::Nobody("the demo takes minutes, and the second line is what runs these tests"),
    ),
    (
        "README.md",
        "helm install numo deploy/helm/numo -n ",
        By::Nobody(
            "the chart's own page has this line too, and tests/install/tests/install/helm.rs runs that",
        ),
    ),
    (
        "deploy/helm/numo/README.md",
        "helm install numo deploy/helm/numo --namespace ",
        By::Test("tests/install/tests/install/helm.rs"),
    ),
    (
        "deploy/helm/numo/README.md",
        "kubectl label namespace",
        By::Nobody("tests/install/tests/install/bounds.rs compares its labels with those of the manifests"),
    ),
    (
        "deploy/helm/numo/README.md",
        "helm uninstall numo --namespace node-upgrade-mutex-operator --no-hooks",
        By::Test("tests/install/tests/install/helm.rs"),
    ),
    (
        "operator/docs/node-versions.md",
        "kubectl -n node-upgrade-mutex-operator create secret generic",
        By::Nobody(
            "wants the certificates of a real control plane; the_member_of_etcd_goes_before_the_machine_of_its_node has those of a test",
        ),
    ),
    (
        "operator/docs/verifying.md",
        "sha256sum --check --ignore-missing",
        By::Test("tests/xtask/src/release/tests/contents.rs"),
    ),
    (
        "plugins/README.md",
        "cargo components",
        By::Nobody("steps of `cargo xtask test`, which has a heading for each"),
    ),
    (
        "plugins/template/javascript/README.md",
        "npm install",
        By::Nobody("tools.rs builds and tests such a rule with --all-tools, by programs of the cache"),
    ),
    (
        "plugins/template/python/README.md",
        "python3 -m venv",
        By::Nobody("tools.rs builds and tests such a rule with --all-tools, by programs of the cache"),
    ),
];

/// The texts that mark the blocks of a page that nobody runs.
fn run_by_nobody(page: &str) -> Vec<&'static str> {
    let of_page = OTHERWISE.into_iter().filter(|(of, ..)| *of == page);
    let by_nobody = of_page.filter(|(.., by)| matches!(by, By::Nobody(_)));
    by_nobody.map(|(_, having, _)| having).collect()
}

/// The blocks of commands of a page.
fn blocks(page: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(manifests::root().join(page)).with_context(|| page.to_owned())?;
    let mut found = Vec::new();
    for fence in ["```sh\n", "```console\n"] {
        let all = text.split(fence).skip(1);
        found.extend(all.filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())));
    }
    Ok(found)
}

#[test]
fn every_block_that_these_tests_do_not_run_is_run_elsewhere_or_has_a_reason() -> Result<()> {
    for page in STEPS {
        for block in blocks(page)? {
            let of_page = OTHERWISE.into_iter().filter(|(of, ..)| *of == page);
            let number = of_page.filter(|(_, having, _)| block.contains(*having)).count();
            ensure!(number == 1, "{page}: {number} rows of OTHERWISE speak of {block}");
        }
    }
    for (page, having, by) in OTHERWISE {
        let number = blocks(page)?
            .iter()
            .filter(|block| block.contains(having))
            .count();
        ensure!(number == 1, "{page}: {number} blocks have {having:?}");
        match by {
            By::Test(file) => {
                let test = std::fs::read_to_string(manifests::root().join(file))?;
                ensure!(
                    test.contains(page) && test.contains(having),
                    "{file} does not run {having:?} of {page}"
                );
            }
            By::Nobody(why) => {
                ensure!(!why.is_empty(), "{page}: {having:?}");
            }
        }
    }
    // A page that these tests run is named in the list above, and by the test that runs it.
    let mut tests = String::new();
    for entry in std::fs::read_dir(manifests::root().join("tests/e2e/tests/e2e"))? {
        let path = entry?.path();
        if path.is_file() {
            tests += &std::fs::read_to_string(path)?;
        }
    }
    for page in PAGES {
        let named = tests.matches(&format!("\"{page}\"")).count();
        let rows = OTHERWISE.into_iter().filter(|(of, ..)| *of == page).count();
        ensure!(named > rows + 1, "no test reads {page}");
    }
    Ok(())
}

#[test]
fn no_page_has_commands_that_nobody_runs() -> Result<()> {
    let root = manifests::root();
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_dir() && !name.starts_with('.') && !["target", "node_modules", "tests"].contains(&name)
            {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path)?;
                let fences = text.lines().filter(|line| line.starts_with("```")).step_by(2);
                for fence in fences {
                    ensure!(fence != "```", "{}: a fence without a language", path.display());
                    if ["```sh", "```console"].contains(&fence) {
                        found.push(path.strip_prefix(&root)?.display().to_string());
                    }
                }
            }
        }
    }
    found.sort();
    found.dedup();
    let mut known: Vec<&str> = PAGES.iter().chain(&STEPS).copied().collect();
    known.sort_unstable();
    assert_eq!(found, known);
    Ok(())
}
