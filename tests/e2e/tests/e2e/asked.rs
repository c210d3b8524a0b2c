//! Rules of type cel and prometheus: expressions and queries gate nodes, without a build.

use anyhow::{Context, Result};
use numo_api::{MutexRule, MutexRunConfig, Outcome, Phase, Step};
use numo_e2e::{Stage, siege::deep_fields};
use numo_plugin_tests::prometheus::Running;
use numo_world::{PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    NEW, apply, explained, finish, judgement, object, prepare, released_after_a_while, set, set_with_slips,
    verdicts, waits, workers,
};

fn cel_rule(name: &str, cel: Value) -> Value {
    object(
        "MutexRule",
        name,
        json!({"type": "cel", "timeoutSeconds": 600, "cel": cel}),
    )
}

fn prometheus_rule(name: &str, prometheus: Value) -> Value {
    object(
        "MutexRule",
        name,
        json!({"type": "prometheus", "timeoutSeconds": 600, "prometheus": prometheus}),
    )
}

/// Waits until ValidConfig of a rule has this reason; its message.
async fn judged(stage: &Stage, name: &str, reason: &str) -> Result<String> {
    let what = format!("MutexRule {name} is judged {reason}");
    stage
        .until(&what, 60, || async {
            let rule = stage.api::<MutexRule>().get(name).await?;
            let conditions = rule.status.map(|status| status.conditions).unwrap_or_default();
            Ok(conditions
                .into_iter()
                .find(|c| c.type_ == "ValidConfig" && c.reason.as_deref() == Some(reason))
                .map(|c| c.message.unwrap_or_default()))
        })
        .await
}

/// A ConfigMap in a namespace of a team, and what lets rules read it: `account` may, and numo for it.
fn readable(namespace: &str, account: (&str, &str), data: &Value) -> Vec<Value> {
    let subject = json!({"kind": "ServiceAccount", "name": account.1, "namespace": account.0});
    let role = format!("reads-{namespace}");
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate", "namespace": namespace}, "data": data}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": role, "namespace": namespace},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": role, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}, "subjects": [subject],
        }),
    ]
}

/// Lends numo the right to read ConfigMaps for rules.
fn granted() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {
            "name": "rules-read-configmaps",
            "labels": {"numo.openshift-optional.skrzypek.io/aggregate-to-rule-reader": "true"},
        },
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
    })
}

/// A Secret is read where the operator lends them, and only with the rights of the rule's ServiceAccount.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_read_where_operator_and_account_allow_it() -> Result<()> {
    let mut stage = set(workers(1), vec!["--rules-read-secrets"]).await?;
    // The rule names the object before anybody lends it.
    stage.may_lack_rights = true;
    let open = cel_rule(
        "open",
        json!({
            "objects": [{"name": "gate", "apiVersion": "v1", "kind": "Secret", "namespace": "shop", "objectName": "gate"}],
            // "yes"
            "validations": [{"expression": "objects.gate.data.open == 'eWVz'", "reason": "ShopClosed", "retryAfterSeconds": 3600}],
        }),
    );
    prepare(&stage, &[open], json!({})).await?;
    judged(&stage, "open", "ValidConfig").await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "Denied").await?;
    assert!(why.contains("default") && why.contains("secrets"), "{why}");
    let mut objects = readable("shop", (numo_e2e::NAMESPACE, "default"), &json!({}));
    objects.push(granted());
    for object in &mut objects {
        if object["kind"] == "ConfigMap" {
            object["kind"] = json!("Secret");
            object["data"] = json!({"open": "eWVz"});
        } else if !object["rules"].is_null() {
            object["rules"][0]["resources"] = json!(["secrets"]);
        }
    }
    apply(&stage, &objects).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

/// Sets the data of the ConfigMap `gate`.
async fn set_gate(stage: &Stage, namespace: &str, data: Value) -> Result<()> {
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(stage.client.clone(), namespace);
    let patch = kube::api::Patch::Merge(json!({"data": data}));
    maps.patch("gate", &kube::api::PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// A rule of expressions waits in its own words, for what it may read, and goes on as soon as that changes.
#[tokio::test(flavor = "multi_thread")]
async fn expressions_gate_a_node_and_are_asked_again_when_what_they_read_changes() -> Result<()> {
    let mut stage = set(workers(1), Vec::new()).await?;
    // The rule names the object before anybody lends it.
    stage.may_lack_rights = true;
    let open = cel_rule(
        "open",
        json!({
            "objects": [{"name": "gate", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "objectName": "gate"}],
            "variables": [{"name": "open", "expression": "objects.gate != null && objects.gate.data.open == 'yes'"}],
            "validations": [
                {"expression": "node.metadata.name.startsWith('worker-') && pool.metadata.name == 'worker'", "otherwise": "Block"},
                {"expression": "versions.to == '4.17.0' && phase == 'Pre' && run.name == 'upgrade'", "otherwise": "Block"},
                {"expression": "variables.open", "reason": "ShopClosed", "messageExpression": "'the shop says ' + objects.gate.data.open", "retryAfterSeconds": 3600},
            ],
            "dataExpression": "{'open': variables.open}",
        }),
    );
    prepare(&stage, &[open], json!({})).await?;
    judged(&stage, "open", "ValidConfig").await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "Denied").await?;
    assert!(why.contains("default") && why.contains("configmaps"), "{why}");
    apply(
        &stage,
        &readable(
            "shop",
            (numo_e2e::NAMESPACE, "default"),
            &json!({"open": "not yet"}),
        ),
    )
    .await?;
    apply(&stage, &[granted()]).await?;
    let why = waits(&stage, "RuleWaits").await?;
    assert!(why.contains("ShopClosed: the shop says not yet"), "{why}");
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "nothing is released"
    );
    let text = stage.say(&["explain", "worker-0"]).await?;
    assert!(text.contains("the shop says not yet"), "{text}");
    assert!(
        text.contains("it has failed, if it has not passed within timeoutSeconds"),
        "when that wait ends at the latest: {text}"
    );

    // It is asked again for what changed, long before its hour is over.
    set_gate(&stage, "shop", json!({"open": "soon"})).await?;
    explained(&stage, "worker-0", "the shop says soon", 60).await?;
    set_gate(&stage, "shop", json!({"open": "yes"})).await?;
    finish(&stage).await?;
    let change = stage.change("worker-0").await?.context("a journal")?;
    assert_eq!(verdicts(&change, "open", Phase::Pre), [(1, Outcome::Pass, None)]);
    let said = change
        .status
        .and_then(|status| status.verdicts.into_iter().next());
    assert_eq!(
        said.and_then(|verdict| verdict.data).as_deref(),
        Some(r#"{"open":true}"#)
    );
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

/// Expressions that cannot be read are refused by their field, and none that a stranger writes hurts numo.
#[tokio::test(flavor = "multi_thread")]
async fn expressions_that_cannot_be_read_or_never_end_let_no_node_go() -> Result<()> {
    let stage = set_with_slips(workers(1), Vec::new()).await?;
    let many = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let nested = (0..9).fold("x9 > 0".to_owned(), |inner, depth| {
        format!("{many}.all(x{}, {inner})", 9 - depth)
    });
    let mut fleet = cel_rule(
        "fleet",
        json!({"validations": [{"expression": format!("{many}.all(x0, {nested})")}], "evaluationSeconds": 1}),
    );
    fleet["spec"]["timeoutSeconds"] = json!(3600);
    let rules = [
        cel_rule("broken", json!({"validations": [{"expression": "size("}]})),
        cel_rule(
            "unknown",
            json!({"validations": [{"expression": "true"}, {"expression": "nodes.spec"}]}),
        ),
        cel_rule(
            "secret",
            json!({"validations": [{"expression": "true"}], "objects": [{"name": "s", "apiVersion": "v1", "kind": "Secret"}]}),
        ),
        object(
            "MutexRule",
            "both",
            json!({"type": "cel", "cel": {"validations": [{"expression": "true"}]}, "jobSpec": {}}),
        ),
        fleet,
    ];
    apply(&stage, &rules).await?;
    for (name, reason, words) in [
        ("broken", "InvalidConfig", "spec.cel.validations[0].expression"),
        (
            "unknown",
            "InvalidConfig",
            "spec.cel.validations[1].expression: found nodes",
        ),
        ("secret", "FieldNotServed", "spec.cel.objects: found Secret"),
        ("both", "InvalidConfig", "spec.jobSpec"),
        ("fleet", "ValidConfig", ""),
    ] {
        let why = judged(&stage, name, reason).await?;
        assert!(why.contains(words), "{name}: {why}");
    }
    let run = crate::run_of(&["fleet"], json!({}));
    apply(&stage, &[crate::target("workers", &["worker"]), run]).await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "EvaluationTimeout").await?;
    assert!(why.contains("fleet") && why.contains("1 s"), "{why}");
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "nothing is released"
    );
    stage.strike().await
}

/// Lets rules of the operator's namespace ask Prometheus.
pub fn network() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": numo_e2e::NAMESPACE,
            "labels": {"numo.openshift-optional.skrzypek.io/rule-network": "cluster"},
        },
    })
}

/// A real Prometheus gates nodes by a threshold that must hold for a while, and by its alerts.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_and_alerts_of_a_real_prometheus_gate_nodes() -> Result<()> {
    let server = tokio::task::spawn_blocking(|| {
        Running::start(&[
            ("ShopDown", "shop_errors > 100"),
            ("Watchdog", "shop_watched > 0"),
        ])
    })
    .await??;
    server.set(r#"shop_errors{node="worker-0"}"#, 50.0);
    let url: &'static str = server.url().leak();
    let stage = set(workers(1), vec!["--prometheus-url", url]).await?;
    let errors = prometheus_rule(
        "errors",
        json!({
            "query": "shop_errors{node=\"${node}\"}", "operator": "LessThan", "threshold": 10,
            "forSeconds": 20, "retryAfterSeconds": 5,
        }),
    );
    let alerts = prometheus_rule(
        "alerts",
        json!({
            "alerts": {
                "matchers": ["severity=\"critical\"", "alertname!=\"Watchdog\""],
                "watchdog": ["alertname=\"Watchdog\""],
            },
            "retryAfterSeconds": 5,
        }),
    );
    let rules = [errors, alerts];
    apply(&stage, &rules).await?;
    let why = judged(&stage, "errors", "NamespaceNotAllowed").await?;
    assert!(why.contains("rule-network"), "{why}");
    apply(&stage, &[network()]).await?;
    judged(&stage, "errors", "ValidConfig").await?;
    judged(&stage, "alerts", "ValidConfig").await?;
    prepare(&stage, &rules, json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let says = |words: &'static str| explained(&stage, "worker-0", words, 90);
    says("ThresholdNotMet: shop_errors").await?;
    // No sample is no good news either.
    server.unset(r#"shop_errors{node="worker-0"}"#);
    says("NoData: the query matches nothing").await?;
    // An alert fires, for another node; it counts when its rule is asked.
    server.set(r#"shop_errors{node="worker-9"}"#, 500.0);
    server
        .answers("ALERTS%7Balertname%3D%22ShopDown%22%7D", 1.0)
        .await?;
    server.set(r#"shop_errors{node="worker-0"}"#, 5.0);
    says("Holding: ").await?;
    says("AlertFires: ShopDown{severity=\"critical\"").await?;
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "nothing is released"
    );
    server.set(r#"shop_errors{node="worker-9"}"#, 0.0);
    // Silence is no good news while nobody watches.
    says("WatchdogSilent: no alert fires that matches alertname=\"Watchdog\"").await?;
    server.set("shop_watched", 1.0);
    finish(&stage).await?;
    let change = stage.change("worker-0").await?.context("a journal")?;
    for rule in ["errors", "alerts"] {
        let all = verdicts(&change, rule, Phase::Pre);
        assert!(
            all.iter().all(|(_, outcome, _)| *outcome == Outcome::Pass),
            "{rule}: {all:?}"
        );
        assert!(!all.is_empty(), "{rule} was not asked");
    }
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

/// A ServiceAccount of team-a that may create MutexRules there and nothing else; and what lets numo read components there.
fn author() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let bound = |role: Value, kind: &str, name: &str, namespace: &str| {
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
            "metadata": {"name": format!("{name}-{}", role.as_str().unwrap_or_default()), "namespace": "team-a"},
            "roleRef": {"apiGroup": rbac, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        })
    };
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "author", "namespace": "team-a"}}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": "author", "namespace": "team-a"},
            "rules": [{"apiGroups": ["openshift-optional.skrzypek.io"], "resources": ["mutexrules"], "verbs": ["create"]}],
        }),
        bound(json!("author"), "Role", "author", "team-a"),
        bound(
            json!("numo-rule-components"),
            "ClusterRole",
            "numo",
            numo_e2e::NAMESPACE,
        ),
    ]
}

/// Who may only create MutexRules in one namespace learns nothing of another: not through the verdict, not through the
/// status, and not by whether an object exists.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_reads_no_more_than_its_namespace_may() -> Result<()> {
    let names = ["by-name", "not-there", "by-list", "of-all", "component"];
    let pools = ["worker", "infra", "logging", "storage", "batch"];
    let world = WorldSpec {
        pools: pools.map(|pool| PoolSpec::new(pool, 1)).to_vec(),
        ..workers(1)
    };
    let mut stage = set(world, vec!["--run-namespaces", "team-a"]).await?;
    stage.may_lack_rights = true;
    // numo itself may read every ConfigMap, for rules of the team that owns them.
    apply(
        &stage,
        &readable("team-b", ("team-b", "default"), &json!({"password": "tulip"})),
    )
    .await?;
    apply(
        &stage,
        &[
            granted(),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": "numo-runs", "namespace": "team-a"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "numo-runs"},
                "subjects": [{"kind": "ServiceAccount", "name": "numo", "namespace": numo_e2e::NAMESPACE}],
            }),
        ],
    )
    .await?;
    let spy = |name: &str, objects: Value| {
        let mut rule = cel_rule(
            name,
            json!({
                "objects": [objects],
                "validations": [{"expression": "objects.seen == null", "messageExpression": "'seen: ' + string(size(objects.seen))"}],
            }),
        );
        rule["metadata"]["namespace"] = json!("team-a");
        rule
    };
    let seen = |more: Value| {
        crate::with(
            json!({"name": "seen", "apiVersion": "v1", "kind": "ConfigMap"}),
            more,
        )
    };
    let rules = [
        spy(
            "by-name",
            seen(json!({"namespace": "team-b", "objectName": "gate"})),
        ),
        spy(
            "not-there",
            seen(json!({"namespace": "team-b", "objectName": "nothing"})),
        ),
        spy("by-list", seen(json!({"namespace": "team-b"}))),
        spy("of-all", seen(json!({}))),
    ];
    // Who writes the rules may do nothing else there.
    apply(&stage, &author()).await?;
    let kubeconfig = stage
        .cluster
        .service_account_kubeconfig("team-a", "author")
        .await?;
    let author = numo_e2e::client_of(&kubeconfig).await?;
    let mutex_rules: kube::Api<MutexRule> = kube::Api::namespaced(author.clone(), "team-a");
    for rule in rules {
        let rule = serde_json::from_value(rule)?;
        mutex_rules
            .create(&kube::api::PostParams::default(), &rule)
            .await?;
    }
    // A component with every grant reads what is the cluster's no better.
    let bytes = crate::wasm::component("cluster-operators").await?;
    let map = k8s_openapi::api::core::v1::ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some("component".to_owned()),
            ..Default::default()
        },
        binary_data: Some([("rule.wasm".to_owned(), k8s_openapi::ByteString(bytes))].into()),
        ..Default::default()
    };
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(stage.client.clone(), "team-a");
    maps.create(&kube::api::PostParams::default(), &map).await?;
    let component = json!({
        "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRule", "metadata": {"name": "component"},
        "spec": {"type": "wasm", "timeoutSeconds": 600, "wasm": {
            "configMap": {"name": "component", "key": "rule.wasm"},
            "grants": {"kubernetes": [{"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator"}]},
        }},
    });
    let component = serde_json::from_value(component)?;
    mutex_rules
        .create(&kube::api::PostParams::default(), &component)
        .await?;
    for (name, pool) in names.into_iter().zip(pools) {
        let mut target = crate::target(name, &[pool]);
        let mut run = crate::run_of(&[name], json!({"mutexTargets": [{"name": name}]}));
        run["metadata"]["name"] = json!(name);
        for object in [&mut target, &mut run] {
            object["metadata"]["namespace"] = json!("team-a");
        }
        apply(&stage, &[target, run]).await?;
    }
    let runs: kube::Api<MutexRunConfig> = kube::Api::namespaced(stage.client.clone(), "team-a");
    for name in names {
        stage
            .until("the run is there", 60, || async {
                let run = runs.get(name).await?;
                Ok(crate::condition(&run, "Ready")
                    .filter(|ready| ready.status == "True")
                    .map(|_| ()))
            })
            .await?;
    }
    stage.world.upgrade_to(NEW).await?;
    let mut said = Vec::new();
    for (name, pool) in names.into_iter().zip(pools) {
        let node = format!("{pool}-0");
        let what = format!("{name} is refused what it asks for");
        let text = stage
            .until(&what, 120, || async {
                let text = stage.say(&["explain", &node]).await?;
                // A component hands on what it is told in an error of its own.
                let reason = if name == "component" {
                    "RuleError"
                } else {
                    "Denied"
                };
                Ok((text.contains(name) && text.contains(reason)).then_some(text))
            })
            .await?;
        assert!(!text.contains("tulip") && !text.contains("password"), "{text}");
        if name == "component" {
            assert!(
                text.contains("ServiceAccount team-a/default may not list clusteroperators"),
                "{text}"
            );
            continue;
        }
        let why = text.lines().find(|line| line.contains("configmaps"));
        said.push(why.unwrap_or_default().to_owned());
    }
    // Whether it exists makes no difference that the team could see.
    let shape = |line: &str, rule: &str| line.replace(rule, "RULE");
    assert_eq!(shape(&said[0], "by-name"), shape(&said[1], "not-there"));
    let requests = stage.requests()?;
    let read = requests.iter().filter(|request| {
        request.uri.contains("/namespaces/team-b/configmaps") || request.uri.ends_with("/api/v1/configmaps")
    });
    assert_eq!(read.count(), 0, "numo itself did not even read it");
    stage.strike().await
}

/// A Deployment of one pod, on a node with the label `example.com/web`.
fn web() -> [Value; 2] {
    let labels = json!({"app": "web"});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "example.com/web", "operator": "Exists"}]},
    ]}}});
    let container = json!({"name": "web", "image": "web", "command": ["sleep", "100000"]});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"affinity": affinity, "containers": [container]}},
            },
        }),
    ]
}

/// The same Deployment as `deep`: its tenant has written managed fields that are deeper than JSON is read.
async fn deep(stage: &Stage) -> Result<()> {
    let [_, mut deep] = web();
    let labels = json!({"app": "deep"});
    deep["metadata"]["name"] = json!("deep");
    deep["metadata"]["managedFields"] = deep_fields("apps/v1");
    deep["spec"]["selector"]["matchLabels"] = labels.clone();
    deep["spec"]["template"]["metadata"]["labels"] = labels;
    let deployments: kube::Api<k8s_openapi::api::apps::v1::Deployment> =
        kube::Api::namespaced(stage.client.clone(), "shop");
    let created = deployments
        .create(&kube::api::PostParams::default(), &serde_json::from_value(deep)?)
        .await;
    anyhow::ensure!(
        matches!(created, Err(kube::Error::SerdeError(_))),
        "the API server keeps them: {created:?}"
    );
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
        kube::Api::namespaced(stage.client.clone(), "shop");
    stage
        .until("the pod of the deep Deployment is ready", 60, || async {
            let found = pods
                .list(&kube::api::ListParams::default().labels("app=deep"))
                .await?;
            let status = found.items.into_iter().find_map(|pod| pod.status);
            let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
            let is_ready = conditions
                .iter()
                .any(|one| one.type_ == "Ready" && one.status == "True");
            Ok(is_ready.then_some(()))
        })
        .await
}

/// Without a rule of anybody's own, a node is done only when the workloads that left it are ready again.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_done_when_the_workloads_that_left_it_are_ready_again() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let label = |value: Value| json!({"metadata": {"labels": {"example.com/web": value}}});
    stage.patch_node("worker-0", label(json!(""))).await?;
    apply(&stage, &web()).await?;
    let deployments: kube::Api<k8s_openapi::api::apps::v1::Deployment> =
        kube::Api::namespaced(stage.client.clone(), "shop");
    let ready = |wanted: i32| {
        let (stage, deployments) = (&stage, deployments.clone());
        async move {
            stage
                .until(&format!("{wanted} pods are ready"), 60, || async {
                    let status = deployments.get("web").await?.status.unwrap_or_default();
                    Ok((status.ready_replicas.unwrap_or(0) == wanted).then_some(()))
                })
                .await
        }
    };
    ready(1).await?;
    deep(&stage).await?;
    let gate = crate::Gate::new()?;
    let gated = crate::rule("gated", json!({"jobSpec": crate::job(&gate.wait())}));
    prepare(&stage, &[gated], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-0", Step::PreRules).await?;
    // The place of the workload is taken away while its node is about to go.
    stage.patch_node("worker-0", label(Value::Null)).await?;
    gate.open_for_all()?;
    let text = explained(&stage, "worker-0", "WorkloadsNotReady", 120).await?;
    assert!(text.contains("PostRules"), "{text}");
    for name in ["web", "deep"] {
        let words = format!("Deployment shop/{name} has 0 of 1 ready replicas");
        assert!(text.contains(&words), "{text}");
    }
    ready(0).await?;
    stage.patch_node("worker-0", label(json!(""))).await?;
    finish(&stage).await?;
    for (node, phase) in [
        ("worker-0", Phase::Pre),
        ("worker-0", Phase::Post),
        ("worker-1", Phase::Post),
    ] {
        let change = stage.change(node).await?.context("a journal")?;
        let all = verdicts(&change, "workloads-ready", phase);
        assert!(
            matches!(all.as_slice(), [.., (_, Outcome::Pass, _)]),
            "{node}: {all:?}"
        );
    }
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}

/// A Deployment of a namespace that is ready now, and as soon as `worker-0` is given away breaks for good: whoever
/// can write it could otherwise stop the upgrade of the cluster.
async fn break_in_turn(stage: &Stage, spec: Value) -> Result<()> {
    let label = |value: Value| json!({"metadata": {"labels": {"example.com/web": value}}});
    stage.patch_node("worker-0", label(json!(""))).await?;
    apply(stage, &web()).await?;
    let deployments: kube::Api<k8s_openapi::api::apps::v1::Deployment> =
        kube::Api::namespaced(stage.client.clone(), "shop");
    stage
        .until("the tenant's pod is ready", 60, || async {
            let status = deployments.get("web").await?.status.unwrap_or_default();
            Ok((status.ready_replicas == Some(1)).then_some(()))
        })
        .await?;
    let gate = crate::Gate::new()?;
    let gated = crate::rule("gated", json!({"jobSpec": crate::job(&gate.wait())}));
    prepare(stage, &[gated], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-0", Step::PreRules).await?;
    stage.patch_node("worker-0", label(Value::Null)).await?;
    gate.open_for_all()?;
    finish(stage).await?;
    let status = deployments.get("web").await?.status.unwrap_or_default();
    assert_eq!(
        status.ready_replicas.unwrap_or(0),
        0,
        "the Deployment is still broken"
    );
    stage.judge(&judgement(&["gated"], &[])).await
}

/// A tenant who breaks a Deployment delays a node for the time that is given, and the run goes on with a warning.
#[tokio::test(flavor = "multi_thread")]
async fn a_workload_that_stays_broken_is_a_warning_and_the_run_goes_on() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    break_in_turn(&stage, json!({"awaitedWorkloads": {"timeoutSeconds": 5}})).await?;
    let change = stage.change("worker-0").await?.context("a journal")?;
    let all = verdicts(&change, "workloads-ready", Phase::Post);
    assert!(
        matches!(all.as_slice(), [(_, Outcome::ContinuedAfterFailure, _)]),
        "{all:?}"
    );
    let text = stage.say(&["explain", "worker-0"]).await?;
    assert!(
        text.contains("failed, and was passed over") && text.contains("Deployment shop/web has 0 of 1"),
        "{text}"
    );
    stage.strike().await
}

/// Workloads that are not selected, by namespace, label or priority, are not waited for at all.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_workload_that_is_not_selected_is_not_awaited() -> Result<()> {
    for selection in [
        json!({"namespaceSelector": {"matchLabels": {"example.com/awaited": "yes"}}}),
        json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}),
        json!({"minPriority": 1000}),
    ] {
        let stage = set(workers(2), Vec::new()).await?;
        let mut selection = selection;
        // Who is awaited after all stops the run.
        selection["failurePolicy"] = json!("Hold");
        break_in_turn(&stage, json!({"awaitedWorkloads": selection})).await?;
        let change = stage.change("worker-0").await?.context("a journal")?;
        let all = verdicts(&change, "workloads-ready", Phase::Post);
        assert!(matches!(all.as_slice(), [.., (_, Outcome::Pass, _)]), "{all:?}");
        stage.strike().await?;
    }
    Ok(())
}

/// It can be switched off.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_awaits_no_workloads_does_not_look_at_them() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    prepare(&stage, &[crate::quick()], json!({"awaitWorkloads": false})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    let change = stage.change("worker-0").await?.context("a journal")?;
    assert!(verdicts(&change, "workloads-ready", Phase::Pre).is_empty());
    assert!(verdicts(&change, "workloads-ready", Phase::Post).is_empty());
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_before_a_turn_let_the_next_node_go_first() -> Result<()> {
    let stage = set_with_slips(workers(2), Vec::new()).await?;
    let mut quiet = cel_rule(
        "quiet",
        json!({
            "validations": [{
                "expression": "!('example.com/busy' in node.metadata.labels)",
                "reason": "Busy",
                "message": "its batch is not over",
                "retryAfterSeconds": 5,
            }],
        }),
    );
    quiet["spec"]["phases"] = json!(["Admit"]);
    let mut job = object("MutexRule", "job", json!({"phases": ["Admit", "Pre"]}));
    job["spec"]["jobSpec"] = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    apply(&stage, &[job]).await?;
    let why = judged(&stage, "job", "InvalidConfig").await?;
    assert!(why.contains("spec.phases: found Admit"), "{why}");

    stage
        .patch_node(
            "worker-0",
            json!({"metadata": {"labels": {"example.com/busy": ""}}}),
        )
        .await?;
    prepare(&stage, &[quiet], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    explained(&stage, "worker-0", "Busy: its batch is not over", 90).await?;
    stage
        .until("the other node is done", 120, || async {
            let change = stage.change("worker-1").await?;
            let step = change.and_then(|change| change.status?.step);
            Ok((step == Some(Step::Done)).then_some(()))
        })
        .await?;
    assert!(
        stage.change("worker-0").await?.is_none(),
        "a node that never had its turn has no journal"
    );
    stage
        .patch_node(
            "worker-0",
            json!({"metadata": {"labels": {"example.com/busy": null}}}),
        )
        .await?;
    finish(&stage).await?;
    let change = stage.change("worker-0").await?.context("a journal")?;
    assert!(verdicts(&change, "quiet", Phase::Admit).is_empty(), "{change:?}");
    stage.strike().await
}
