//! Everything that a stranger may write where numo reads it: hostile text in every field that takes any. What an API server refuses is
//! nobody's text, so each of these is one that it accepts.

use super::{HOSTILE, evil, short};
use crate::plans;
use anyhow::{Context as _, Result, ensure};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use numo_api::{MutexRule, NodeChange, marks};
use numo_e2e::{NAMESPACE, Stage, manifests};
use numo_world::openshift::MachineConfigPool;
use serde_json::{Value, json};

/// The NodeChange that is the stranger's own, with its status.
pub const CHANGE: &str = "stranger";
/// The group of the reference's kinds.
const REFERENCE: &str = "openshift-optional.skrzypek.io/v1alpha1";
/// The group of numo's own.
const OWN: &str = "numo.openshift-optional.skrzypek.io/v1alpha1";
/// Group of roles and their bindings.
const RBAC: &str = "rbac.authorization.k8s.io/v1";
/// A namespace of the stranger, in which numo honours nobody.
const TEAM: &str = "team";

/// An object; in no namespace if that is empty.
fn thing(api_version: &str, kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// The object with these annotations.
fn annotated(mut object: Value, annotations: Value) -> Value {
    object["metadata"]["annotations"] = annotations;
    object
}

/// What somebody is to have said of an object, as the annotation that numo's command line keeps.
fn said(of: &str) -> Value {
    let word = json!({
        "at": "2026-01-01T00:00:00Z", "verb": evil(&format!("{of}-verb")), "by": evil(&format!("{of}-by")),
        "reason": evil(&format!("{of}-reason")),
    });
    json!({(marks::SAID): json!([word]).to_string()})
}

/// A selector that cannot be understood.
fn selector(field: &str) -> Value {
    json!({"matchExpressions": [{"key": "zone", "operator": evil(field)}]})
}

/// Rules of every type, each with another thing wrong, and the one that is asked.
fn rules() -> Vec<Value> {
    let container = json!({"name": evil("container"), "image": "tools"});
    let pods = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}});
    let objects = |more: Value| json!({"type": "cel", "cel": {"validations": [{"expression": "true"}], "objects": [more]}});
    let wrong = [
        (
            "evil-kind",
            objects(json!({"name": "x", "apiVersion": evil("object-version"), "kind": short("object-kind")})),
        ),
        (
            "evil-fact",
            objects(json!({
                "name": "x", "apiVersion": "v1", "kind": "Pod", "labelSelector": format!("${{{}}}", evil("fact")),
            })),
        ),
        (
            "evil-expression",
            json!({"type": "cel", "cel": {"validations": [
                {"expression": evil("expression"), "message": evil("unasked-message")},
            ]}}),
        ),
        (
            "evil-matcher",
            json!({"type": "prometheus", "prometheus": {"alerts": {"matchers": [evil("matcher")]}}}),
        ),
        (
            "evil-query",
            json!({"type": "prometheus", "prometheus": {
                "query": format!("${{{}}}", evil("query")), "operator": "LessThan", "threshold": 1,
            }}),
        ),
        (
            "evil-image",
            json!({"type": "wasm", "wasm": {"image": evil("image"), "config": {"evil": evil("config")}}}),
        ),
        (
            "evil-key",
            json!({"type": "wasm", "wasm": {
                "image": "127.0.0.1:1/rule:1",
                "signature": {
                    "keys": [evil("signature-key")], "repository": evil("signature-repository"),
                    "identities": [{"issuer": evil("signature-issuer"), "subject": evil("signature-subject")}],
                },
            }}),
        ),
        ("evil-job", json!({"jobSpec": pods})),
        // That of the run: it waits.
        (
            "says",
            json!({"type": "cel", "cel": {"validations": [
                // Asked again soon: it is then that a node is held.
                {"expression": "false", "message": evil("rule-message"), "retryAfterSeconds": 5},
            ]}}),
        ),
    ];
    let mut all: Vec<Value> = wrong
        .into_iter()
        .map(|(name, spec)| thing(REFERENCE, "MutexRule", NAMESPACE, name, spec))
        .collect();
    all.push(thing(
        REFERENCE,
        "MutexRule",
        TEAM,
        "stranger",
        json!({
            "jobName": evil("job-name"), "jobNamespace": short("job-namespace"),
            "jobSpec": {"template": {"spec": {"containers": [{"name": HOSTILE}]}}},
        }),
    ));
    all
}

/// Runs and targets: one that refers to nothing there is, one that is suspended, and one where none is watched.
fn runs() -> Vec<Value> {
    let evil_run = json!({
        "mutexRules": [{"name": evil("run-rule"), "namespace": short("run-rule-namespace")}],
        "mutexTargets": [
            {"name": "evil"}, {"name": evil("run-target"), "namespace": short("run-target-namespace")},
        ],
        "canary": {"name": evil("run-canary")},
        "maxUnavailable": evil("run-limit"),
        "failureBudget": evil("run-failures"),
        "first": selector("run-first"),
        "mutexKeys": [evil("run-key")],
        "awaitedWorkloads": {"namespaceSelector": selector("run-awaited")},
    });
    let mut asleep = said("run");
    asleep[marks::SUSPEND] = json!(evil("run-suspend"));
    asleep[marks::ABORT] = json!(evil("run-abort"));
    asleep[marks::ACKNOWLEDGED] = json!(evil("run-acknowledged"));
    let mut strangers = said("unwatched");
    strangers[marks::SUSPEND] = json!(HOSTILE);
    let pools = |name: &str, pool: &str| {
        let spec = json!({"machineConfigPools": [pool]});
        thing(REFERENCE, "MutexTarget", NAMESPACE, name, spec)
    };
    vec![
        pools("evil", &evil("target-pool")),
        pools("sleepers", "infra"),
        thing(
            REFERENCE,
            "MutexTarget",
            TEAM,
            "stranger",
            json!({"machineConfigPools": [HOSTILE]}),
        ),
        thing(REFERENCE, "MutexRunConfig", NAMESPACE, "evil", evil_run),
        annotated(
            thing(
                REFERENCE,
                "MutexRunConfig",
                NAMESPACE,
                "asleep",
                json!({"mutexRules": [{"name": "says"}], "mutexTargets": [{"name": "sleepers"}]}),
            ),
            asleep,
        ),
        annotated(
            thing(
                REFERENCE,
                "MutexRunConfig",
                TEAM,
                "stranger",
                json!({"mutexRules": [{"name": HOSTILE}], "mutexTargets": []}),
            ),
            strangers,
        ),
    ]
}

/// Budgets and windows that stand in nobody's way, and bindings that gate nobody.
fn budgets_and_bindings() -> Vec<Value> {
    let budget = |name: &str, spec: Value| thing(OWN, "MutexBudget", "", name, spec);
    let mut all = vec![
        annotated(
            budget("evil-limit", json!({"maxUnavailable": evil("budget-limit")})),
            said("budget"),
        ),
        budget(
            "evil-group",
            json!({"nodeSelector": {"matchLabels": {"nobody": "has"}}, "maxUnavailable": "99%", "groupBy": evil("budget-group")}),
        ),
    ];
    let freeze = json!({"name": short("window-freeze"), "from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00Z", "reason": evil("window-reason")});
    let windows = [
        ("evil-freeze", json!({"freezes": [freeze]})),
        (
            "evil-zone",
            json!({"openings": [{"days": ["mon"]}], "timeZone": short("window-zone")}),
        ),
    ];
    all.extend(windows.map(|(name, mut spec)| {
        spec["nodeSelector"] = json!({"matchLabels": {"none": "such"}});
        thing(OWN, "MutexWindow", "", name, spec)
    }));
    all.push(thing(
        OWN,
        "MutexNotifier",
        "",
        "evil-template",
        json!({"cloudEvents": {"url": "http://127.0.0.1:1/"}, "template": format!("{{{}}}", short("notifier-template"))}),
    ));
    let bindings = [
        (
            "evil-labels",
            json!({"ownerSelector": {"labels": selector("binding-labels")}}),
        ),
        (
            "evil-rules",
            json!({"rules": [{"name": evil("binding-rule"), "namespace": short("binding-rule-namespace")}]}),
        ),
        ("evil-limit", json!({"maxUnavailable": evil("binding-limit")})),
        ("evil-first", json!({"first": selector("binding-first")})),
        (
            "evil-drain",
            json!({"drain": {"orderLabel": evil("binding-drain")}}),
        ),
    ];
    all.extend(bindings.map(|(name, mut spec)| {
        spec["ownerSelector"]["kind"] = json!("Plan");
        spec["ownerSelector"]["namespaces"] = json!([short("binding-namespace")]);
        thing(OWN, "MutexBinding", "", name, spec)
    }));
    all
}

/// Plans of no node, each with another thing wrong, and one where none is watched.
fn of_plans() -> Vec<Value> {
    let plan = |name: &str, more: Value| {
        let spec = json!({
            "concurrency": 1, "nodeSelector": {"matchLabels": {"none": "such"}}, "serviceAccountName": "default",
            "version": "v1", "upgrade": {"image": "registry.example.com/upgrade"},
        });
        thing(
            "upgrade.cattle.io/v1",
            "Plan",
            plans::PLANS,
            name,
            crate::with(spec, more),
        )
    };
    let mut strangers = plan(
        "stranger",
        json!({
            "serviceAccountName": evil("plan-account"), "version": evil("plan-unwatched"),
            "upgrade": {"image": evil("plan-image"), "command": [evil("plan-command")]},
        }),
    );
    strangers["metadata"]["namespace"] = json!(TEAM);
    let suspended = json!({(marks::SUSPEND): evil("plan-suspend")});
    vec![
        annotated(
            plan("evil-delay", json!({"postCompleteDelay": evil("plan-delay")})),
            said("plan"),
        ),
        plan("evil-drain", json!({"drain": {"timeout": evil("plan-drain")}})),
        plan(
            "evil-window",
            json!({"window": {
                "startTime": evil("plan-start"), "endTime": evil("plan-end"), "timeZone": evil("plan-zone"),
            }}),
        ),
        plan(
            "evil-selector",
            json!({"nodeSelector": selector("plan-selector")}),
        ),
        plan("evil-version", json!({"version": evil("plan-version")})),
        plan(
            "evil-channel",
            json!({"version": "", "channel": evil("plan-channel")}),
        ),
        plan(
            "evil-label",
            json!({"postCompleteLabels": {"evil": evil("plan-label")}}),
        ),
        plan(
            "evil-secret",
            json!({"secrets": [{"name": evil("plan-secret"), "path": evil("plan-path")}]}),
        ),
        annotated(plan("evil-suspend", json!({})), suspended),
        strangers,
    ]
}

/// Maintenances of nodes that are not there, of both groups.
fn maintenances() -> Vec<Value> {
    let of = |group: &str, name: &str, field: &str| {
        let spec = json!({
            "nodeName": evil(&format!("{field}-node")), "reason": evil(&format!("{field}-reason")),
            "mutexRules": [{"name": evil(&format!("{field}-rule")), "namespace": short(&format!("{field}-rule-namespace"))}],
        });
        let object = thing(&format!("{group}/v1beta1"), "NodeMaintenance", "", name, spec);
        annotated(object, said(field))
    };
    vec![
        of(numo_api::node_maintenance::MEDIK8S_GROUP, "evil", "maintenance"),
        of(numo_api::node_maintenance::KUBEVIRT_GROUP, "older", "older"),
    ]
}

/// A lease that was renewed a moment ago and holds for an hour.
fn lease(namespace: &str, name: &str, field: &str) -> Value {
    let now = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%6fZ")
        .to_string();
    let spec = json!({"holderIdentity": evil(field), "leaseDurationSeconds": 3600, "renewTime": now});
    thing("coordination.k8s.io/v1", "Lease", namespace, name, spec)
}

/// What stands around owners: who may write Plans, another leader, a kured that is none, a NodeChange of nobody.
fn around() -> Vec<Value> {
    let notice = json!({
        "version": evil("notice-version"), "leasesUnavailable": evil("notice-leases"),
        "runNamespaces": [evil("notice-runs")], "planNamespaces": [evil("notice-plans")],
    });
    let role = json!({
        "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "evil-writer"},
        "rules": [{"apiGroups": ["upgrade.cattle.io"], "resources": ["plans"], "verbs": ["create"]}],
    });
    let bound = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "evil-writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "evil-writer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": evil("subject")}],
    });
    let locks = json!({"maxOwners": 1, "locks": [{"nodeID": evil("kured-node"), "metadata": {}, "TTL": 0}]});
    let kured = json!({
        "selector": {"matchLabels": {"name": "kured"}},
        "template": {
            "metadata": {"labels": {"name": "kured"}},
            "spec": {"nodeSelector": {"none": "such"}, "containers": [{"name": "kured", "image": "kured"}]},
        },
    });
    let change = json!({
        "ownerRef": {
            "apiVersion": evil("change-version"), "kind": short("change-kind"), "namespace": short("change-namespace"),
            "name": evil("change-owner"), "uid": short("change-uid"),
        },
        "nodeName": evil("change-node"), "nodeUID": short("change-node-uid"),
        "target": {"runID": short("change-run"), "version": short("change-target"), "pool": evil("change-pool")},
    });
    let mut all = vec![
        role,
        bound,
        annotated(
            thing("apps/v1", "DaemonSet", TEAM, "kured", kured),
            json!({(marks::KURED_LOCK): locks.to_string()}),
        ),
        annotated(
            lease(TEAM, "numo-leader", "leader"),
            json!({(marks::SETTINGS): notice.to_string()}),
        ),
        thing(OWN, "NodeChange", TEAM, CHANGE, change),
    ];
    if numo_e2e::has_leases() {
        all.push(lease(marks::LEASE_NAMESPACE, "node-worker-3", "lease"));
    }
    all
}

/// Writes all of them. One that the API server refuses would be one that nobody is shown: that fails, with all that were refused.
pub async fn write(stage: &Stage) -> Result<()> {
    plans::open(stage).await?;
    let team = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": TEAM, "annotations": {(marks::RULE_JOBS_FROM): evil("jobs-from")}},
    });
    manifests::apply(&stage.client, &[team], NAMESPACE).await?;
    let all = [
        rules(),
        runs(),
        budgets_and_bindings(),
        of_plans(),
        maintenances(),
        around(),
    ]
    .concat();
    let mut refused = Vec::new();
    for object in &all {
        // A field that a kind does not have would be dropped, and never be tried.
        let written = manifests::apply_strictly(&stage.client, std::slice::from_ref(object), NAMESPACE).await;
        refused.extend(written.err().map(|error| format!("{error:#}")));
    }
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    let status = json!({"status": {
        "journalVersion": 1, "step": "PreRules", "attempt": 1, "reason": "ForeignController",
        "message": evil("change-message"), "since": "2026-01-01T00:00:00Z",
    }});
    let changes: Api<NodeChange> = Api::namespaced(stage.client.clone(), TEAM);
    changes
        .patch_status(CHANGE, &PatchParams::default(), &Patch::Merge(status))
        .await
        .context("the stranger's NodeChange")?;
    let rules: Api<MutexRule> = Api::namespaced(stage.client.clone(), TEAM);
    stage
        .until("numo says something of the stranger's rule", 60, || async {
            let rule = rules.get("stranger").await?;
            let conditions = rule.status.map(|status| status.conditions).unwrap_or_default();
            Ok((!conditions.is_empty()).then_some(()))
        })
        .await
}

/// Marks of owners that never were on objects of the cluster, and the words of a daemon that is at its wits' end.
pub async fn mark(stage: &Stage) -> Result<()> {
    let paused = json!({
        "owner": evil("pause-uid"), "name": format!("{}/{}", short("pause-namespace"), evil("pause-owner")), "prior": false,
    });
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    let patch = json!({"metadata": {"annotations": {(marks::PAUSED_BY): paused.to_string()}}});
    pools
        .patch("canary", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .context("MachineConfigPool canary")?;
    let shielded = json!({
        "owner": evil("shield-owner"), "prior": {(marks::SCALE_DOWN_DISABLED): evil("shield-prior")},
    });
    let of_nodes = [
        ("worker-1", said("node")),
        (
            "worker-2",
            json!({
                (marks::openshift::REASON): evil("daemon-reason"), (marks::SUSPEND): HOSTILE, (marks::ABORT): HOSTILE,
                (marks::PAUSED_BY): HOSTILE,
            }),
        ),
        (
            "worker-3",
            json!({(marks::SHIELDED_BY): shielded.to_string(), (marks::SCALE_DOWN_DISABLED): "true"}),
        ),
    ];
    for (node, annotations) in of_nodes {
        stage
            .patch_node(node, json!({"metadata": {"annotations": annotations}}))
            .await
            .with_context(|| format!("Node {node}"))?;
    }
    Ok(())
}

/// Manifests of a person who previews what a stranger sent: a run that is not applied, and an object of no known kind.
pub fn manifests_of_a_stranger() -> String {
    let run = thing(
        REFERENCE,
        "MutexRunConfig",
        NAMESPACE,
        "from-file",
        json!({"mutexRules": [{"name": short("file-rule")}], "mutexTargets": [{"name": "workers"}]}),
    );
    let unknown = thing(
        &short("file-version"),
        &short("file-kind"),
        "",
        &evil("file-name"),
        json!({}),
    );
    // A list of JSON, of which every control character has an escape.
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [run, unknown]});
    let text: String = list
        .to_string()
        .chars()
        .map(|one| match one {
            one if numo_api::text::is_unseen(one) => format!("\\U{:08x}", u32::from(one)),
            one => one.to_string(),
        })
        .collect();
    text
}
