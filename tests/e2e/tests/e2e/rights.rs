//! Least privilege: numo asks for nothing beyond its rights, and has no right that it does not use.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use k8s_openapi::{
    api::{
        admissionregistration::v1::ValidatingAdmissionPolicy,
        batch::v1::Job,
        core::v1::{Node, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
};
use numo_api::marks;
use numo_e2e::{NAMESPACE, Stage, machines::without_nodes, manifests};
use numo_world::{MachineApi, PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    NEW, apply, delete_run, finish, job,
    jobs::{invite, namespace},
    judgement, quick, run_of, set, target, with_canary,
};

/// Rights that this test does not use, and why numo has them all the same.
const UNUSED: &[(&str, &str)] = &[
    (
        "coordination.k8s.io/leases patch",
        "a node lease is renewed after half an hour, or taken over when it has expired",
    ),
    (
        "/namespaces get",
        "a rule's namespace where numo is not invited: is it there?",
    ),
    (
        "config.openshift.io/imagedigestmirrorsets list",
        "where else the image of a wasm rule may be (wasm.rs)",
    ),
    (
        "config.openshift.io/imagetagmirrorsets list",
        "the same of an image by tag (wasm.rs)",
    ),
    ("/configmaps get", "the component of a wasm rule (wasm.rs)"),
    (
        "/persistentvolumeclaims get",
        "whose volumes are attached, where a drain waits for volumes (maintenance.rs)",
    ),
    ("/persistentvolumes get", "the same"),
    (
        "authorization.k8s.io/subjectaccessreviews create",
        "what the ServiceAccount of a wasm rule may read (wasm.rs)",
    ),
    (
        "batch/jobs get",
        "a Job that exists already, made by a numo that died before it heard of it",
    ),
    (
        "numo.openshift-optional.skrzypek.io/nodechanges get",
        "the same of a NodeChange",
    ),
    (
        "numo.openshift-optional.skrzypek.io/nodechanges delete",
        "journals older than the last three of a node",
    ),
    (
        "apps/deployments get",
        "how ready the workloads of a node are (eval/workloads.rs)",
    ),
    (
        "apps/deployments list",
        "what a node waits for is watched (eval/invalidate.rs)",
    ),
    ("apps/deployments watch", "the same"),
    (
        "apps/replicasets get",
        "which Deployment a pod is of (eval/workloads.rs)",
    ),
    ("apps/statefulsets get", "as of Deployments"),
    ("apps/statefulsets list", "as of Deployments"),
    ("apps/statefulsets watch", "as of Deployments"),
];

/// What lets it pause health checks of Cluster API, where an administrator wants that.
fn optional() -> Result<Vec<Value>> {
    let file = "deploy/kustomize/optional/cluster_api_health_checks.yaml";
    manifests::parse(&std::fs::read_to_string(manifests::root().join(file))?)
}

/// Every right that is granted to numo's ServiceAccount: `group/resource verb`.
fn granted() -> Result<BTreeSet<String>> {
    let mut objects = Vec::new();
    for part in ["kubernetes", "leases", "plans"] {
        let folder = manifests::root().join("deploy/kustomize").join(part);
        objects.extend(manifests::kustomize(&folder)?);
    }
    objects.extend(optional()?);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rights = BTreeSet::new();
    for binding in objects
        .iter()
        .filter(|o| text(&o["kind"]).ends_with("RoleBinding"))
    {
        let subjects = binding["subjects"].as_array().cloned().unwrap_or_default();
        if !subjects
            .iter()
            .any(|s| s["kind"] == "ServiceAccount" && s["name"] == "numo")
        {
            continue;
        }
        let role = objects
            .iter()
            .find(|o| {
                o["kind"] == binding["roleRef"]["kind"] && o["metadata"]["name"] == binding["roleRef"]["name"]
            })
            .unwrap_or_else(|| panic!("{binding} binds nothing"));
        for rule in role["rules"].as_array().into_iter().flatten() {
            let list = |field: &str| rule[field].as_array().cloned().unwrap_or_default();
            for (group, resource, verb) in list("apiGroups").iter().flat_map(|group| {
                let resources = list("resources");
                let verbs = list("verbs");
                resources
                    .into_iter()
                    .flat_map(move |resource| {
                        let group = group.clone();
                        verbs
                            .clone()
                            .into_iter()
                            .map(move |verb| (group.clone(), resource.clone(), verb))
                    })
                    .collect::<Vec<_>>()
            }) {
                for part in [&group, &resource, &verb] {
                    assert_ne!(part, "*", "no right is granted by wildcard");
                }
                rights.insert(format!("{}/{} {}", text(&group), text(&resource), text(&verb)));
            }
        }
    }
    Ok(rights)
}

#[tokio::test(flavor = "multi_thread")]
async fn numo_asks_for_nothing_beyond_its_rights_and_has_none_that_it_does_not_use() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 1)],
        ..with_canary(WorldSpec::default())
    };
    let stage = set(world, Vec::new()).await?;
    crate::plans::open(&stage).await?;
    apply(&stage, &optional()?).await?;
    let spec = json!({"canary": {"name": "canary"}, "pauseHealthChecks": true, "mutexTargets": [{"name": "workers"}, {"name": "infras"}]});
    let approver = crate::approvals::applicant(&stage).await?;
    let objects = [
        json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
            "metadata": {"name": "plenty"}, "spec": {"nodeSelector": {}, "maxUnavailable": 5},
        }),
        json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexWindow",
            "metadata": {"name": "always"}, "spec": {"nodeSelector": {}, "openings": [{"startTime": "00:00", "endTime": "00:00"}]},
        }),
        // Nobody is there: what it reads to know that is what it has rights for.
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nobody", "namespace": NAMESPACE},
            "data": {"ca.crt": rcgen::generate_simple_self_signed(["nobody.example".to_owned()])?.cert.pem()},
        }),
        json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier",
            "metadata": {"name": "nobody"},
            "spec": {"cloudEvents": {"url": "https://127.0.0.1:1/"}, "tls": {"caConfigMap": {"name": "nobody"}}},
        }),
        json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
            "metadata": {"name": "plenty"}, "spec": {"ownerSelector": {"kind": "Plan"}, "maxUnavailable": 5},
        }),
        // Its owner is not there: what numo says of that in its status is what numo has a right for.
        json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexApproval",
            "metadata": {"name": "nobody"},
            "spec": {
                "approvedBy": approver, "reason": "a test", "digest": "of-nothing",
                "owner": {"apiGroup": "upgrade.cattle.io", "kind": "Plan", "namespace": NAMESPACE, "name": "nobody"},
            },
        }),
        quick(),
        target("workers", &["worker"]),
        target("infras", &["infra"]),
        run_of(&["quick"], spec),
    ];
    apply(&stage, &objects).await?;
    // Something that a drain would evict.
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "app"},
        "spec": {
            "nodeName": "worker-0",
            "containers": [{"name": "app", "image": "app", "command": ["sleep", "3600"]}],
        },
    }))?;
    stage.api::<Pod>().create(&PostParams::default(), &pod).await?;
    // Machines and health checks that leave every node alone.
    for of in [MachineApi::OpenShift, MachineApi::ClusterApi] {
        drop(stage.world.machine_health_check(of, 1e9).await?);
    }
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to(NEW).await?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.targets.push("infra".to_owned());
    stage.judge(&expected).await?;
    delete_run(&stage, "upgrade").await?;
    crate::maintenance::there_and_back(&stage, "worker-0").await?;
    crate::plans::there_and_back(&stage).await?;

    assert_eq!(stage.beyond_rights()?, Vec::<String>::new());
    let used: BTreeSet<String> = stage
        .requests()?
        .into_iter()
        .filter(|request| !request.resource.is_empty())
        .map(|request| {
            let resource = match request.subresource.as_str() {
                "" => request.resource,
                sub => format!("{}/{sub}", request.resource),
            };
            format!("{}/{resource} {}", request.group, request.verb)
        })
        .collect();
    let granted = granted()?;
    assert!(granted.len() > 20, "{granted:?}");
    let excused: BTreeSet<&str> = UNUSED.iter().map(|(right, _)| *right).collect();
    let unused: Vec<&String> = granted
        .difference(&used)
        .filter(|right| !excused.contains(right.as_str()))
        .collect();
    assert!(unused.is_empty(), "granted and never used: {unused:#?}");
    for (right, why) in UNUSED {
        assert!(
            granted.contains(*right),
            "{right} ({why}) is not granted any more"
        );
    }
    stage.strike().await
}

/// An object whose owner is gone.
fn of_nobody() -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"},
    ]}})
}

/// Pools get a field that this numo has never heard of.
async fn learn_of_tomorrow(stage: &Stage) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/ofTomorrow";
    let new = json!([{"op": "add", "path": path, "value": {"type": "string"}}]);
    let new = Patch::<()>::Json(serde_json::from_value(new)?);
    let name = "machineconfigpools.machineconfiguration.openshift.io";
    definitions.patch(name, &PatchParams::default(), &new).await?;
    let gvk = GroupVersionKind::gvk("machineconfiguration.openshift.io", "v1", "MachineConfigPool");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "machineconfigpools");
    let pools: Api<DynamicObject> = Api::all_with(stage.client.clone(), &resource);
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": {"ofTomorrow": "known"}}));
    stage
        .until("pools have the new field", 60, || async {
            let pool = pools.patch("worker", &dry, &patch).await?;
            Ok((pool.data["spec"]["ofTomorrow"] == "known").then_some(()))
        })
        .await
}

/// A policy refused this, in words that say what numo may.
fn forbids<T: std::fmt::Debug>(answer: kube::Result<T>, what: &str) -> String {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("numo may") => {
            status.message.clone()
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// A label of a node that is not numo's.
const OF_OTHERS: &str = "example.com/of-others";

/// Lists labels that numo may write on Nodes, as an administrator does, and waits until the API server knows.
pub async fn list_labels(stage: &Stage, keys: &[&str]) -> Result<()> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(stage.client.clone());
    let variables = json!([{"name": "listed", "expression": serde_json::to_string(keys)?}]);
    let patch = Patch::Strategic(json!({"spec": {"variables": variables}}));
    policies
        .patch("numo-nodes", &PatchParams::default(), &patch)
        .await?;
    let labels: BTreeMap<&str, &str> = keys.iter().map(|key| (*key, "x")).collect();
    let labelled = Patch::Merge(json!({"metadata": {"labels": labels}}));
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let name = nodes.list(&ListParams::default().limit(1)).await?.items;
    let name = name.first().context("a node")?.name_any();
    let nodes: Api<Node> = Api::all(stage.as_numo().await?);
    stage
        .until("labels that are listed are numo's to write", 60, || async {
            Ok(nodes.patch(&name, &dry, &labelled).await.ok().map(drop))
        })
        .await
}

/// Whoever has numo's token can stop nodes and let them go, and is not root on them: the API server refuses what numo never writes.
#[tokio::test(flavor = "multi_thread")]
async fn numos_token_writes_what_numo_writes_and_nothing_more() -> Result<()> {
    let mut stage = set(crate::workers(2), Vec::new()).await?;
    // Nobody has invited it to the Plan's namespace.
    stage.may_lack_rights = true;
    stage.world.machines(MachineApi::OpenShift).await?;
    crate::prepare(&stage, &[quick()], json!({})).await?;
    crate::jobs::namespace(&stage, crate::plans::PLANS, json!({})).await?;
    let plan = json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": {"name": "nobody", "namespace": crate::plans::PLANS},
        "spec": {"nodeSelector": {"matchLabels": {"no": "node"}}, "upgrade": {"image": "none"}, "version": "v1"},
    });
    apply(&stage, &[plan]).await?;
    learn_of_tomorrow(&stage).await?;
    let others = json!({"metadata": {"labels": {(OF_OTHERS): "x"}}});
    Api::<Node>::all(stage.client.clone())
        .patch("worker-0", &PatchParams::default(), &Patch::Merge(others))
        .await?;
    let numo = stage.as_numo().await?;
    let api = |group: &str, version: &str, kind: &str, plural: &str, namespace: &str| -> Api<DynamicObject> {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        if namespace.is_empty() {
            Api::all_with(numo.clone(), &resource)
        } else {
            Api::namespaced_with(numo.clone(), namespace, &resource)
        }
    };
    let nodes = api("", "v1", "Node", "nodes", "");
    let pools = api(
        "machineconfiguration.openshift.io",
        "v1",
        "MachineConfigPool",
        "machineconfigpools",
        "",
    );
    let runs = api(
        numo_api::GROUP,
        "v1alpha1",
        "MutexRunConfig",
        "mutexrunconfigs",
        NAMESPACE,
    );
    let plans = api("upgrade.cattle.io", "v1", "Plan", "plans", crate::plans::PLANS);
    let machines = api(
        "machine.openshift.io",
        "v1beta1",
        "Machine",
        "machines",
        "openshift-machine-api",
    );
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let forbidden = [
        (
            &nodes,
            "worker-0",
            json!({"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}}),
        ),
        (
            &nodes,
            "worker-0",
            json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": null}}}),
        ),
        // Pods with secrets may be drawn by any label.
        (
            &nodes,
            "worker-0",
            json!({"metadata": {"labels": {"dedicated": "secure"}}}),
        ),
        (
            &nodes,
            "worker-0",
            json!({"metadata": {"labels": {"cloud.google.com/gke-nodepool": "secure"}}}),
        ),
        (
            &nodes,
            "worker-0",
            json!({"metadata": {"labels": {(OF_OTHERS): null}}}),
        ),
        (
            &nodes,
            "worker-0",
            json!({"metadata": {"annotations": {"somebodys": "own"}}}),
        ),
        (
            &nodes,
            "worker-0",
            json!({"spec": {"taints": [{"key": marks::MEDIK8S_DRAIN, "effect": "NoExecute"}]}}),
        ),
        (
            &nodes,
            "worker-0",
            json!({"spec": {"podCIDRs": ["10.9.0.0/24"], "podCIDR": "10.9.0.0/24"}}),
        ),
        (
            &nodes,
            "worker-0",
            json!({"spec": {"taints": [{"key": "somebodys", "effect": "NoExecute"}]}}),
        ),
        (
            &pools,
            "worker",
            json!({"spec": {"configuration": {"name": "rendered-of-somebody"}}}),
        ),
        (
            &pools,
            "worker",
            json!({"spec": {"machineConfigSelector": {"matchLabels": {"a": "b"}}}}),
        ),
        (&pools, "worker", json!({"spec": {"machineConfigSelector": null}})),
        (&pools, "worker", json!({"spec": {"maxUnavailable": 7}})),
        // Of a pool it may change two fields, whatever fields there will be.
        (
            &pools,
            "worker",
            json!({"spec": {"paused": true, "ofTomorrow": "x"}}),
        ),
        (&runs, "upgrade", json!({"spec": {"mutexRules": []}})),
        (
            &plans,
            "nobody",
            json!({"spec": {"upgrade": {"image": "of-somebody"}}}),
        ),
        (&machines, "worker-0", json!({"spec": {"providerID": "another"}})),
        // The garbage collector deletes what has an owner that is not there.
        (&machines, "worker-0", of_nobody()),
        (&nodes, "worker-0", of_nobody()),
        (&pools, "worker", of_nobody()),
        (&plans, "nobody", of_nobody()),
        (
            &machines,
            "worker-0",
            json!({"metadata": {"labels": {"machine.openshift.io/cluster-api-machineset": null, "of": "nobody"}}}),
        ),
        (
            &machines,
            "worker-0",
            json!({"metadata": {"annotations": {"machine.openshift.io/delete-machine": "true"}}}),
        ),
        (
            &pools,
            "worker",
            json!({"metadata": {"labels": {"custom-kubelet": "of-somebody"}}}),
        ),
        (
            &nodes,
            "worker-0",
            json!({"metadata": {"finalizers": ["somebodys/own"]}}),
        ),
    ];
    for (api, name, patch) in forbidden {
        let answer = api.patch(name, &dry, &Patch::Merge(&patch)).await;
        forbids(answer, &format!("{name} {patch}"));
    }
    let shielded = json!({"metadata": {"labels": {
        (marks::EXCLUDE_FROM_REMEDIATION): "true",
        (format!("{}quick.{NAMESPACE}", marks::RULE_LABEL_PREFIX)): "",
        (format!("{}k3s", marks::PLAN_HASH_PREFIX)): "h",
    }}});
    let allowed = [
        (
            &nodes,
            "worker-0",
            json!({"metadata": {"labels": {(marks::RELEASE): "x"}}, "spec": {"unschedulable": true}}),
        ),
        (&nodes, "worker-0", shielded),
        (
            &nodes,
            "worker-0",
            json!({"spec": {"taints": [{"key": marks::MEDIK8S_DRAIN, "effect": "NoSchedule"}]}}),
        ),
        (&pools, "worker", json!({"spec": {"paused": true}})),
        (
            &pools,
            "worker",
            json!({"spec": {"nodeSelector": {"matchLabels": {"a": "b"}}}}),
        ),
        (
            &runs,
            "upgrade",
            json!({"metadata": {"finalizers": [marks::FINALIZER]}}),
        ),
    ];
    for (api, name, patch) in allowed {
        let answer = api.patch(name, &dry, &Patch::Merge(&patch)).await;
        assert!(answer.is_ok(), "{name} {patch}: {answer:?}");
    }
    list_labels(&stage, &["dedicated"]).await?;
    let patch = json!({"metadata": {"labels": {"dedicated": "secure", "undedicated": "secure"}}});
    let why = forbids(
        nodes.patch("worker-0", &dry, &Patch::Merge(&patch)).await,
        "beside a label that is listed",
    );
    assert!(
        why.contains("may not change label undedicated of Node worker-0"),
        "{why}"
    );
    stage.strike().await
}

/// Changes of numo's webhook that would have the API server ask somebody else, ask about all that is written, or ask nobody.
fn redirected(webhooks: &[Value]) -> Vec<Value> {
    let with = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut all = webhooks.to_vec();
        change(&mut all);
        json!({"webhooks": all})
    };
    let everything = json!([
        {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"},
    ]);
    let elsewhere = json!({"service": {"namespace": "default", "name": "somebodys"}});
    let mut another = webhooks[0].clone();
    another["name"] = json!("another.example.com");
    vec![
        with(&|all| all[0]["clientConfig"]["url"] = json!("https://127.0.0.1:2/all")),
        with(&|all| all[1]["clientConfig"] = elsewhere.clone()),
        with(&|all| all[1]["rules"] = everything.clone()),
        with(&|all| all[0]["matchConditions"] = json!([])),
        with(&|all| all[0]["namespaceSelector"] = json!({"matchLabels": {"no": "namespace"}})),
        with(&|all| all[0]["failurePolicy"] = json!("Ignore")),
        with(&|all| all[0]["name"] = json!("another.example.com")),
        with(&|all| all.push(another.clone())),
        with(&|all| drop(all.pop())),
        json!({"webhooks": null}),
        of_nobody(),
        json!({"metadata": {"labels": {"of": "nobody"}}}),
        json!({"metadata": {"annotations": {"cert-manager.io/inject-ca-from": "default/somebodys"}}}),
        json!({"metadata": {"finalizers": ["somebodys/own"]}}),
    ]
}

/// Who has the token cannot have the API server send them what is written in the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn numos_token_says_who_vouches_for_its_webhook_and_nothing_more() -> Result<()> {
    let mut stage = set(crate::workers(1), Vec::new()).await?;
    // It asks before its right is known.
    stage.may_lack_rights = true;
    crate::maintenance::install_webhook(&stage, "127.0.0.1:1").await?;
    let gvk = GroupVersionKind::gvk(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
    );
    let resource = ApiResource::from_gvk_with_plural(&gvk, "validatingwebhookconfigurations");
    let api: Api<DynamicObject> = Api::all_with(stage.as_numo().await?, &resource);
    let found = stage
        .until("numo may read its webhook", 30, || async {
            Ok(api.get_opt("numo").await?)
        })
        .await?;
    let webhooks = found.data["webhooks"].as_array().context("webhooks")?;
    assert_eq!(webhooks.len(), 2);
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    for patch in redirected(webhooks) {
        let answer = api.patch("numo", &dry, &Patch::Merge(&patch)).await;
        forbids(answer, &patch.to_string());
    }
    let vouches = rcgen::generate_simple_self_signed(vec!["nobody".to_owned()])?
        .cert
        .pem();
    let mut trusted = webhooks.clone();
    for webhook in &mut trusted {
        let bundle = base64::engine::general_purpose::STANDARD.encode(&vouches);
        webhook["clientConfig"]["caBundle"] = json!(bundle);
    }
    let written = PatchParams::default();
    // First a new one, then that in the place of another one.
    for trusted in [&trusted[..1], &trusted[..]] {
        let rest = webhooks[trusted.len()..].iter();
        let all: Vec<&Value> = trusted.iter().chain(rest).collect();
        let answer = api
            .patch("numo", &written, &Patch::Merge(json!({"webhooks": all})))
            .await;
        assert!(answer.is_ok(), "{answer:?}");
    }
    stage.strike().await
}

/// What makes a pod root on its node, each by itself, and the word that a refusal has for it.
fn hostly() -> Vec<(&'static str, Value)> {
    let of = |list: &str, context: Value| {
        let container =
            json!({"name": "hostly", "image": "tools", "command": ["true"], "securityContext": context});
        json!({(list): [container]})
    };
    let unmasked = |mut pod: Value| {
        // The API server takes it with a user namespace only.
        pod["hostUsers"] = json!(false);
        pod
    };
    vec![
        ("hostNetwork", json!({"hostNetwork": true})),
        ("hostPID", json!({"hostPID": true})),
        ("hostIPC", json!({"hostIPC": true})),
        (
            "hostPath",
            json!({"volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "root", "hostPath": {"path": "/"}}]}),
        ),
        ("privileged", of("containers", json!({"privileged": true}))),
        ("privileged", of("initContainers", json!({"privileged": true}))),
        (
            "capabilities",
            of(
                "containers",
                json!({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}),
            ),
        ),
        (
            "procMount",
            unmasked(of("containers", json!({"procMount": "Unmasked"}))),
        ),
        (
            "hostProcess",
            json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}}}),
        ),
    ]
}

/// A Job whose pod has this, too.
fn with_pod(more: &Value) -> Result<Job> {
    let mut spec = job("true");
    for (field, value) in more.as_object().into_iter().flatten() {
        spec["template"]["spec"][field] = value.clone();
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec});
    Ok(serde_json::from_value(job)?)
}

/// A Job as numo makes those of a Plan, whose pod has this, too.
fn of_plan(more: &Value) -> Result<Value> {
    let mut job = serde_json::to_value(with_pod(more)?)?;
    let labels = json!({(marks::PLAN): "k3s", (marks::PLAN_NODE): "worker-0"});
    job["metadata"]["labels"] = labels.clone();
    job["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "name": "k3s", "uid": "u1",
        "controller": true, "blockOwnerDeletion": false,
    }]);
    job["spec"]["template"]["metadata"] = json!({"labels": labels});
    job["spec"]["template"]["spec"]["affinity"] = json!({
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["worker-0"]}]},
        ]}},
    });
    Ok(job)
}

/// Where Plans are served numo makes Jobs of Plans, each for one node, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn numos_token_makes_jobs_of_plans_where_plans_are_and_no_others() -> Result<()> {
    let mut stage = set(crate::workers(1), Vec::new()).await?;
    // It asks before it is known to be invited.
    stage.may_lack_rights = true;
    crate::plans::open(&stage).await?;
    let jobs: Api<Job> = Api::namespaced(stage.as_numo().await?, crate::plans::PLANS);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let root = json!({"hostPID": true, "hostNetwork": true});
    let whole = of_plan(&root)?;
    let job: Job = serde_json::from_value(whole.clone())?;
    stage
        .until("the Job of a Plan", 30, || async {
            Ok(jobs.create(&dry, &job).await.ok())
        })
        .await?;
    let place = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0";
    let otherwise = [
        (
            "",
            "/metadata/ownerReferences",
            Value::Null,
            "no Plan as controller",
        ),
        (
            "",
            "/metadata/ownerReferences/0/kind",
            json!("ConfigMap"),
            "no Plan as controller",
        ),
        (
            "",
            "/metadata/ownerReferences/0/controller",
            json!(false),
            "no Plan as controller",
        ),
        (
            "",
            "/metadata/ownerReferences/0/name",
            json!("another"),
            "no Plan as controller",
        ),
        (
            "",
            "/metadata/labels",
            json!({"a": "b"}),
            "label upgrade.cattle.io/plan",
        ),
        (
            "",
            "/spec/template/metadata",
            json!({}),
            "label upgrade.cattle.io/plan",
        ),
        (
            "/spec/template/spec",
            "nodeName",
            json!("worker-0"),
            "found nodeName",
        ),
        (
            "",
            "/spec/template/spec/affinity",
            json!({}),
            "affinity to one kubernetes.io/hostname",
        ),
        (
            place,
            "values",
            json!(["worker-0", "worker-1"]),
            "affinity to one kubernetes.io/hostname",
        ),
        (
            place,
            "operator",
            json!("NotIn"),
            "affinity to one kubernetes.io/hostname",
        ),
        (
            place,
            "key",
            json!("zone"),
            "affinity to one kubernetes.io/hostname",
        ),
    ];
    for (within, field, value, words) in otherwise {
        let mut job = whole.clone();
        if within.is_empty() {
            *job.pointer_mut(field).context("a field")? = value;
        } else {
            job.pointer_mut(within).context("a field")?[field] = value;
        }
        let job: Job = serde_json::from_value(job)?;
        let why = forbids(jobs.create(&dry, &job).await, &format!("{within} {field}"));
        assert!(why.contains(words), "{within} {field}: {why}");
    }
    // Without the host, too: a ServiceAccount there may be worth more than a node.
    forbids(
        jobs.create(&dry, &with_pod(&json!({}))?).await,
        "no Job of a Plan",
    );
    stage.strike().await
}

/// Who has the token is root on nodes where Plans are, and where an administrator says that pods may be, and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn numos_token_gives_a_job_the_host_only_where_the_namespace_does() -> Result<()> {
    const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
    let mut stage = set(crate::workers(1), Vec::new()).await?;
    // It asks before it is known to be invited.
    stage.may_lack_rights = true;
    namespace(&stage, "team", json!({})).await?;
    namespace(&stage, "hosts", json!({(ENFORCE): "privileged"})).await?;
    namespace(&stage, "plans", json!({})).await?;
    invite(&stage, "team").await?;
    invite(&stage, "hosts").await?;
    let plans = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "numo-plans", "namespace": "plans"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "numo-plans"},
        "subjects": [{"kind": "ServiceAccount", "name": "numo", "namespace": NAMESPACE}],
    });
    apply(&stage, &[plans]).await?;
    let numo = stage.as_numo().await?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    // Where Plans are a Job is one of a Plan.
    let in_place = |place: &str, pod: &Value| -> Result<Job> {
        if place == "plans" {
            Ok(serde_json::from_value(of_plan(pod)?)?)
        } else {
            with_pod(pod)
        }
    };
    let plain = json!({
        "hostNetwork": false, "hostPID": false, "volumes": [{"name": "tmp", "emptyDir": {}}],
        "securityContext": {"runAsUser": 0},
        "initContainers": [{"name": "plain", "image": "tools", "command": ["true"], "securityContext": {
            "privileged": false, "procMount": "Default", "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]},
        }}],
    });
    for pod in [json!({}), plain] {
        for place in ["team", "hosts", "plans", NAMESPACE] {
            let jobs: Api<Job> = Api::namespaced(numo.clone(), place);
            let job = in_place(place, &pod)?;
            stage
                .until(&format!("a plain Job in {place}"), 30, || async {
                    Ok(Some(jobs.create(&dry, &job).await?))
                })
                .await?;
        }
    }
    for (word, pod) in hostly() {
        let job = with_pod(&pod)?;
        for place in ["team", NAMESPACE] {
            let jobs: Api<Job> = Api::namespaced(numo.clone(), place);
            let why = forbids(jobs.create(&dry, &job).await, &format!("{place} {pod}"));
            let wanted = format!("wanted the label {ENFORCE}=privileged on Namespace {place}");
            for words in [format!("Job {place}/a"), word.to_owned(), wanted] {
                assert!(why.contains(&words), "{pod}: no {words} in: {why}");
            }
        }
        for place in ["hosts", "plans"] {
            let jobs: Api<Job> = Api::namespaced(numo.clone(), place);
            let job = in_place(place, &pod)?;
            let answer = jobs.create(&dry, &job).await;
            assert!(answer.is_ok(), "{place} {pod}: {answer:?}");
        }
    }
    // By either name of the field.
    for field in ["serviceAccountName", "serviceAccount"] {
        let jobs: Api<Job> = Api::namespaced(numo.clone(), NAMESPACE);
        match jobs.create(&dry, &with_pod(&json!({(field): "numo"}))?).await {
            Err(kube::Error::Api(status)) if status.message.contains("no Job may run as numo") => {}
            other => panic!("{field}: {other:?}"),
        }
    }
    stage.strike().await
}

/// A NodeMaintenance for a node, with this mark of numo's.
fn maintenance_of(node: &str, mark: Option<&str>) -> Result<DynamicObject> {
    let mut object = json!({
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance",
        "metadata": {"name": node}, "spec": {"nodeName": node, "reason": "a fan"},
    });
    if let Some(mark) = mark {
        object["metadata"]["annotations"] = json!({(marks::DRAINS_FOR): mark});
    }
    Ok(serde_json::from_value(object)?)
}

/// Who has the token opens no node that a person keeps in maintenance: numo deletes the NodeMaintenances that it made with its mark.
#[tokio::test(flavor = "multi_thread")]
async fn numos_token_deletes_the_nodemaintenances_that_numo_made_and_no_others() -> Result<()> {
    let (stage, _machines) = without_nodes(Vec::new()).await?;
    let gvk = GroupVersionKind::gvk("nodemaintenance.medik8s.io", "v1beta1", "NodeMaintenance");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "nodemaintenances");
    let people: Api<DynamicObject> = Api::all_with(stage.client.clone(), &resource);
    let numo: Api<DynamicObject> = Api::all_with(stage.as_numo().await?, &resource);
    let created = PostParams::default();
    people.create(&created, &maintenance_of("theirs", None)?).await?;
    stage
        .until("numo may make one with its mark", 30, || async {
            Ok(numo
                .create(&created, &maintenance_of("ours", Some("{}"))?)
                .await
                .ok())
        })
        .await?;
    let without = numo.create(&created, &maintenance_of("unmarked", None)?).await;
    let why = forbids(without, "without a mark");
    assert!(
        why.contains("numo may not create NodeMaintenance unmarked: found no annotation"),
        "{why}"
    );
    let deleted = numo.delete("theirs", &DeleteParams::default()).await;
    let why = forbids(deleted, "that of a person");
    assert!(
        why.contains("numo may not delete NodeMaintenance theirs: found no annotation"),
        "{why}"
    );
    // The mark comes with the object.
    for (name, mark) in [
        ("theirs", json!("{}")),
        ("ours", json!(null)),
        ("ours", json!("of another")),
    ] {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {(marks::DRAINS_FOR): mark}}}));
        let answer = numo.patch(name, &PatchParams::default(), &patch).await;
        forbids(answer, &format!("{name} {mark}"));
    }
    let paused = Patch::Merge(json!({"metadata": {"annotations": {(marks::SUSPEND): "x"}}}));
    numo.patch("theirs", &PatchParams::default(), &paused).await?;
    numo.delete("ours", &DeleteParams::default()).await?;
    assert!(people.get_opt("ours").await?.is_none());
    assert!(people.get_opt("theirs").await?.is_some());
    stage.strike().await
}

/// Whether numo's metrics say that so much is amiss with what limits its token.
async fn says_amiss(stage: &Stage, number: u32) -> Result<Option<()>> {
    let metrics = crate::left::metrics(stage).await?;
    Ok(metrics
        .contains(&format!("numo_token_faults {number}\n"))
        .then_some(()))
}

/// Where a policy is missing, as after OLM, the numo that leads says so by itself.
#[tokio::test(flavor = "multi_thread")]
async fn numo_says_by_itself_what_does_not_limit_its_token() -> Result<()> {
    let mut stage = set(crate::workers(1), Vec::new()).await?;
    stage
        .until("nothing is amiss", 30, || says_amiss(&stage, 0))
        .await?;
    stage.stop_numo().await?;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(stage.client.clone());
    policies.delete("numo-nodes", &DeleteParams::default()).await?;
    stage.start_numo()?;
    stage
        .until("a policy is missing", 90, || says_amiss(&stage, 1))
        .await?;
    let log = stage.numo().context("numo runs")?.log();
    for words in [
        "numo's token may write more than numo does",
        "ValidatingAdmissionPolicy numo-nodes is not there",
        "kubectl apply -f deploy/kustomize/base/admission_policy.yaml",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    stage.strike().await
}
