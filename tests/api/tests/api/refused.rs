//! Slips that reached etcd once: each is refused by the API server, in words that say what was found and what is wanted, so that
//! `kubectl apply --dry-run=server`, CI and GitOps see it. And what is to be admitted still: all examples and all
//! manifests of the operators that numo replaces.

use anyhow::{Context as _, Result};
use kube::{
    Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{admission::object, api, apply, define_machines, page, parse, root, start};

/// What an admitted object of the kind has beside the slip.
fn base(kind: &str) -> Value {
    match kind {
        "MutexRule" => json!({"jobSpec": {}}),
        "MutexTarget" => json!({"machineConfigPools": ["worker"]}),
        "MutexRunConfig" => json!({"mutexTargets": [{"name": "workers"}]}),
        "MutexBudget" => json!({"nodeSelector": {}}),
        "MutexWindow" => {
            json!({"nodeSelector": {}, "openings": [{"startTime": "22:00", "endTime": "04:00"}]})
        }
        "MutexNotifier" => json!({"cloudEvents": {"url": "https://events.example.com/numo"}}),
        "MutexBinding" => json!({"ownerSelector": {"kind": "Plan"}, "rules": [{"name": "a"}]}),
        "MutexApproval" => json!({
            "owner": {"apiGroup": "upgrade.cattle.io", "kind": "Plan", "namespace": "ops", "name": "a"},
            "digest": "d", "reason": "reviewed", "approvedBy": "anna",
        }),
        "NodeMaintenance" => json!({"nodeName": "worker-0"}),
        "Plan" => json!({"upgrade": {"image": "x"}, "concurrency": 1}),
        "NodeVersion" => json!({"image": "node-2"}),
        "NodeChange" => json!({
            "ownerRef": {"apiVersion": "v1", "kind": "K", "name": "run", "uid": "u"}, "nodeName": "worker-0", "nodeUID": "n",
            "target": {"runID": "r", "version": "4.17.0", "pool": "worker"},
        }),
        other => panic!("what is a {other}?"),
    }
}

/// The spec of an admitted object with a slip: fields that are null are taken away.
fn with(kind: &str, slip: &Value) -> Value {
    let mut spec = base(kind);
    for (field, value) in slip.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    spec
}

/// Kind, slip, the field that the refusal is about, and its words.
type Slip = (&'static str, Value, &'static str, &'static str);

fn of_rules() -> Vec<Slip> {
    let cel = json!({"validations": [{"expression": "true"}]});
    let asks = |type_: &str, of: Value| json!({"jobSpec": null, "type": type_, type_: of});
    let wasm = |of: Value| asks("wasm", of);
    let prometheus = |of: Value| asks("prometheus", of);
    let objects = |of: Value| {
        asks(
            "cel",
            json!({"validations": [{"expression": "true"}], "objects": of}),
        )
    };
    vec![
        (
            "MutexRule",
            json!({"jobSpec": null}),
            "spec.jobSpec",
            "found neither jobSpec nor cleanUpJobSpec",
        ),
        (
            "MutexRule",
            json!({"jobSpec": null, "type": "kubernetes"}),
            "spec.jobSpec",
            "wanted a batch/v1 JobSpec",
        ),
        (
            "MutexRule",
            json!({"type": "cel", "cel": cel}),
            "spec.jobSpec",
            "found jobSpec beside type cel, wanted type: kubernetes with it",
        ),
        (
            "MutexRule",
            json!({"type": "cel", "cel": cel, "jobSpec": null, "cleanUpJobSpec": {}}),
            "spec.cleanUpJobSpec",
            "found cleanUpJobSpec beside type cel",
        ),
        (
            "MutexRule",
            json!({"jobSpec": null, "cel": cel}),
            "spec.cel",
            "found cel beside no type, wanted type: cel with it",
        ),
        (
            "MutexRule",
            json!({"cel": cel, "type": "kubernetes"}),
            "spec.cel",
            "found cel beside type kubernetes",
        ),
        (
            "MutexRule",
            json!({"jobSpec": null, "type": "cel"}),
            "spec.cel",
            "found no cel, wanted validations",
        ),
        (
            "MutexRule",
            json!({"jobSpec": null, "type": "wasm"}),
            "spec.wasm",
            "found no wasm, wanted a component",
        ),
        (
            "MutexRule",
            json!({"jobSpec": null, "type": "prometheus"}),
            "spec.prometheus",
            "found no prometheus, wanted a query or alerts",
        ),
        (
            "MutexRule",
            json!({"wasm": {"image": "registry.example.com/r:1"}}),
            "spec.wasm",
            "found wasm beside no type, wanted type: wasm with it",
        ),
        (
            "MutexRule",
            json!({"prometheus": {"query": "up", "operator": "Equal", "threshold": 1}}),
            "spec.prometheus",
            "found prometheus beside no type",
        ),
        (
            "MutexRule",
            json!({"phases": []}),
            "spec.phases",
            "found no phase",
        ),
        (
            "MutexRule",
            json!({"phases": ["Admit"]}),
            "spec.phases",
            "found Admit for a rule of type kubernetes",
        ),
        (
            "MutexRule",
            json!({"phases": ["Post"], "cleanUpJobSpec": {}}),
            "spec.phases",
            "found Post beside cleanUpJobSpec",
        ),
        (
            "MutexRule",
            json!({"phases": ["Pre", "Pre"]}),
            "spec.phases",
            "duplicate entries",
        ),
        (
            "MutexRule",
            json!({"jobNamespace": "../x"}),
            "spec.jobNamespace",
            "found ../x, wanted the name of a namespace",
        ),
        (
            "MutexRule",
            wasm(json!({})),
            "spec.wasm",
            "found neither image nor configMap",
        ),
        (
            "MutexRule",
            wasm(json!({"image": "registry.example.com/r:1", "configMap": {"name": "c", "key": "k"}})),
            "spec.wasm",
            "found image and configMap",
        ),
        (
            "MutexRule",
            wasm(json!({"image": ""})),
            "spec.wasm.image",
            "should be at least 1",
        ),
        (
            "MutexRule",
            wasm(json!({"configMap": {"name": "c", "key": "k"}, "pullSecretName": "s"})),
            "spec.wasm.configMap",
            "wanted them with image only",
        ),
        (
            "MutexRule",
            wasm(json!({"image": "registry.example.com/r:1", "signature": {"keys": []}})),
            "spec.wasm.signature",
            "found neither keys nor identities",
        ),
        (
            "MutexRule",
            objects(
                json!([{"name": "a", "apiVersion": "v1", "kind": "Pod", "objectName": "p", "labelSelector": "a=b"}]),
            ),
            "spec.cel.objects[0].objectName",
            "found a selector beside objectName",
        ),
        (
            "MutexRule",
            objects(json!([
                {"name": "a", "apiVersion": "v1", "kind": "Pod"}, {"name": "a", "apiVersion": "v1", "kind": "Node"},
            ])),
            "spec.cel.objects",
            "duplicate entries",
        ),
        (
            "MutexRule",
            prometheus(json!({})),
            "spec.prometheus",
            "found neither query nor alerts",
        ),
        (
            "MutexRule",
            prometheus(
                json!({"query": "up", "operator": "Equal", "threshold": 1, "alerts": {"matchers": ["a=\"b\""]}}),
            ),
            "spec.prometheus",
            "found query and alerts",
        ),
        (
            "MutexRule",
            prometheus(json!({"query": "up", "operator": "Equal"})),
            "spec.prometheus.query",
            "found query without operator or threshold",
        ),
        (
            "MutexRule",
            prometheus(json!({"alerts": {"matchers": ["a=\"b\""]}, "noData": "Pass"})),
            "spec.prometheus.alerts",
            "wanted them with query only",
        ),
        (
            "MutexRule",
            prometheus(json!({"alerts": {"matchers": ["severity"]}})),
            "spec.prometheus.alerts.matchers[0]",
            "found severity, wanted a matcher such as severity=\"critical\"",
        ),
        (
            "MutexRule",
            prometheus(json!({"alerts": {"matchers": ["a=\"b\""], "watchdog": ["a=\"b\" or up"]}})),
            "spec.prometheus.alerts.watchdog[0]",
            "wanted a matcher such as",
        ),
        (
            "MutexRule",
            objects(json!([{"name": "a", "apiVersion": "v1", "kind": "Pod", "labelSelector": "a in ("}])),
            "spec.cel.objects[0].labelSelector",
            "found no label selector",
        ),
        (
            "MutexRule",
            objects(
                json!([{"name": "a", "apiVersion": "v1", "kind": "Pod", "fieldSelector": "spec.nodeName"}]),
            ),
            "spec.cel.objects[0].fieldSelector",
            "found no field selector",
        ),
        (
            "MutexRule",
            prometheus(json!({"query": "up", "operator": "Equal", "threshold": 1, "forSeconds": 3600})),
            "spec.prometheus.forSeconds",
            "not less than timeoutSeconds",
        ),
    ]
}

/// A rule whose component has this beside its image.
fn of_component(more: Value, field: &'static str, words: &'static str) -> Slip {
    let mut wasm = more;
    wasm["image"] = json!("registry.example.com/r:1");
    let slip = json!({"type": "wasm", "jobSpec": null, "wasm": wasm});
    ("MutexRule", slip, field, words)
}

/// Of rules, fields that fit nothing.
fn of_fields_of_rules() -> Vec<Slip> {
    vec![
        (
            "MutexRule",
            json!({"failurePolicy": "Continue", "phases": ["Pre"]}),
            "spec.failurePolicy",
            "found Continue without a phase after the release",
        ),
        (
            "MutexRule",
            json!({"failurePolicy": "Skip", "phases": ["PreRun"]}),
            "spec.failurePolicy",
            "found Skip with phases of a whole run only",
        ),
        (
            "MutexRule",
            json!({"placement": "OnTarget", "phases": ["PreRun", "PostRun"]}),
            "spec.placement",
            "found OnTarget with phases of a whole run only",
        ),
        of_component(
            json!({"limits": {"memory": "9999Gi"}}),
            "spec.wasm.limits.memory",
            "found 9999Gi, wanted 256Mi at most",
        ),
        of_component(
            json!({"limits": {"memory": "257Mi"}}),
            "spec.wasm.limits.memory",
            "found 257Mi, wanted 256Mi at most",
        ),
        of_component(
            json!({"limits": {"hostBytes": "1000Gi"}}),
            "spec.wasm.limits.hostBytes",
            "found 1000Gi, wanted 128Mi at most",
        ),
        of_component(
            json!({"limits": {"hostBytes": "134217729"}}),
            "spec.wasm.limits.hostBytes",
            "wanted 128Mi at most",
        ),
        of_component(
            json!({"signature": {"keys": ["nokey"]}}),
            "spec.wasm.signature.keys[0]",
            "should match '-----BEGIN PUBLIC KEY-----'",
        ),
        (
            "MutexRule",
            json!({"type": "wasm", "jobSpec": null, "wasm": {"image": "not an image"}}),
            "spec.wasm.image",
            "found not an image, wanted REGISTRY/PATH:TAG",
        ),
    ]
}

/// Hours with a cron expression.
fn hours(cron: &str) -> Value {
    json!({"window": {"openings": [{"cron": cron, "durationSeconds": 3600}]}})
}

fn cron(text: &str) -> Slip {
    let field = "spec.window.openings[0].cron";
    ("MutexRunConfig", hours(text), field, "found no cron expression")
}

fn never(text: &str) -> Slip {
    let (field, words) = (
        "spec.window.openings[0].cron",
        "found a day that none of its months has",
    );
    ("MutexRunConfig", hours(text), field, words)
}

fn of_runs() -> Vec<Slip> {
    let odd = json!({"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]});
    let opening = |of: Value| json!({"window": {"openings": [of]}});
    let waves = |waves: Value, field: &str, words: &'static str| -> Slip {
        let field: &'static str = format!("spec.waves{field}").leak();
        ("MutexRunConfig", json!({"waves": waves}), field, words)
    };
    vec![
        (
            "MutexTarget",
            json!({"machineConfigPools": null}),
            "spec.machineConfigPools",
            "found no pool",
        ),
        (
            "MutexTarget",
            json!({"machineConfigPools": []}),
            "spec.machineConfigPools",
            "found no pool",
        ),
        (
            "MutexTarget",
            json!({"machineConfigPools": ["worker", ""]}),
            "spec.machineConfigPools",
            "found an empty name",
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": null}),
            "spec.mutexTargets",
            "found no target",
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": []}),
            "spec.mutexTargets",
            "found no target",
        ),
        (
            "MutexRunConfig",
            json!({"pools": ["worker"]}),
            "spec.pools",
            "found pools beside mutexTargets, wanted one of them",
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": null, "pools": []}),
            "spec.pools",
            "should have at least 1 items",
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": null, "pools": [""]}),
            "spec.pools[0]",
            "should be at least 1 chars long",
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": [{"name": "infra", "maxUnavailable": -1}]}),
            "spec.mutexTargets[0].maxUnavailable",
            "found -1, wanted a whole number such as 2",
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": [{"name": "infra", "maxUnavailable": "101%"}]}),
            "spec.mutexTargets[0].maxUnavailable",
            "found 101%, wanted a whole number such as 2",
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": [{}]}),
            "spec.mutexTargets[0].name",
            "found no name",
        ),
        (
            "MutexRunConfig",
            json!({"mutexRules": [{}]}),
            "spec.mutexRules[0].name",
            "found no name",
        ),
        (
            "MutexRunConfig",
            json!({"mutexRules": [{"name": "a"}, {"name": ""}]}),
            "spec.mutexRules[1].name",
            "found no name",
        ),
        (
            "MutexRunConfig",
            json!({"canary": {}}),
            "spec.canary",
            "found no canary.name",
        ),
        (
            "MutexRunConfig",
            json!({"strategy": "CanaryPool"}),
            "spec.canary",
            "found no canary.name",
        ),
        (
            "MutexRunConfig",
            json!({"hold": "Always"}),
            "spec.hold",
            "found hold: Always with trigger Version, wanted trigger: AnyConfig",
        ),
        (
            "MutexRunConfig",
            json!({"hold": "Always", "trigger": "Version"}),
            "spec.hold",
            "wanted trigger: AnyConfig",
        ),
        (
            "MutexRunConfig",
            json!({"maxUnavailable": -3}),
            "spec.maxUnavailable",
            "found -3, wanted a whole number",
        ),
        (
            "MutexRunConfig",
            json!({"maxUnavailable": "lots"}),
            "spec.maxUnavailable",
            "found lots, wanted a whole number",
        ),
        (
            "MutexRunConfig",
            json!({"maxUnavailable": "101%"}),
            "spec.maxUnavailable",
            "found 101%",
        ),
        (
            "MutexRunConfig",
            json!({"maxUnavailable": "-1"}),
            "spec.maxUnavailable",
            "found -1",
        ),
        (
            "MutexRunConfig",
            json!({"failureBudget": "some"}),
            "spec.failureBudget",
            "found some",
        ),
        (
            "MutexRunConfig",
            json!({"first": odd}),
            "spec.first.matchExpressions[0].operator",
            "found operator Near with values",
        ),
        (
            "MutexRunConfig",
            json!({"first": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "spec.first.matchExpressions[0].operator",
            "found operator In without values",
        ),
        waves(
            json!([{}]),
            "[0]",
            "found none or several of nodeSelector, pools and nodes",
        ),
        waves(
            json!([{"nodes": 1, "pools": ["worker"]}]),
            "[0]",
            "found none or several of nodeSelector",
        ),
        waves(
            json!([{"nodes": 0}]),
            "[0].nodes",
            "found 0, wanted a whole number from 1",
        ),
        waves(
            json!([{"nodes": "101%"}]),
            "[0].nodes",
            "found 101%, wanted a whole number from 1",
        ),
        waves(
            json!([{"nodes": "0"}]),
            "[0].nodes",
            "found 0, wanted a whole number from 1",
        ),
        waves(
            json!([{"nodes": 1, "maxUnavailable": "101%"}]),
            "[0].maxUnavailable",
            "found 101%, wanted a whole number such as 2",
        ),
        waves(
            json!([{"nodes": 1, "failureBudget": 0}]),
            "[0].failureBudget",
            "found 0, wanted a whole number from 1",
        ),
        waves(
            json!([{"nodes": 1, "failureBudget": "x"}]),
            "[0].failureBudget",
            "found x, wanted a whole number from 1",
        ),
        waves(json!([{"nodes": 1, "name": "A b"}]), "[0].name", "should match"),
        waves(json!([]), "", "should have at least 1 items"),
        waves(
            json!([{"name": "a", "nodes": 1}, {"name": "a", "nodes": 2}]),
            "",
            "found two waves of one name",
        ),
        waves(
            json!([{"nodes": 1, "growth": 2}, {"nodes": 1}]),
            "",
            "found growth in a wave before the last",
        ),
        waves(
            json!([{"nodeSelector": {}, "growth": 2}]),
            "[0].growth",
            "found growth without nodes",
        ),
        waves(
            json!([{"nodes": 1, "growth": 0}]),
            "[0].growth",
            "should be greater than or equal to 1",
        ),
        waves(
            json!([{"nodeSelector": odd}]),
            "[0].nodeSelector.matchExpressions[0].operator",
            "found operator Near",
        ),
        (
            "MutexRunConfig",
            json!({"first": {}, "waves": [{"nodes": 1}]}),
            "spec.waves",
            "found waves beside first",
        ),
        (
            "MutexRunConfig",
            json!({"awaitedWorkloads": {"podSelector": odd}}),
            "spec.awaitedWorkloads.podSelector",
            "found operator Near",
        ),
        (
            "MutexRunConfig",
            json!({"window": {"freezes": []}}),
            "spec.window",
            "found neither openings nor freezes",
        ),
        (
            "MutexRunConfig",
            opening(json!({"days": ["someday"]})),
            "spec.window.openings[0].days",
            "found a day that there is not",
        ),
        (
            "MutexRunConfig",
            opening(json!({"startTime": "25:00", "endTime": "4"})),
            "spec.window.openings[0].startTime",
            "found no time of day",
        ),
        (
            "MutexRunConfig",
            opening(json!({"startTime": "22:00", "endTime": "13pm"})),
            "spec.window.openings[0].endTime",
            "found no time of day",
        ),
        (
            "MutexRunConfig",
            opening(json!({"cron": "0 22 *", "durationSeconds": 3600})),
            "spec.window.openings[0].cron",
            "found no cron expression",
        ),
        cron("99 99 * * *"),
        cron("0 24 * * *"),
        cron("0 0 * 13 *"),
        cron("0 0 * * FOO"),
        cron("0 0 32 * *"),
        cron("0 0 * * SAT#6"),
        cron("*/0 0 * * *"),
        cron("0 0 * * ?"),
        never("0 0 31 2 *"),
        never("0 0 30-31 FEB *"),
        never("0 0 31 4,Jun *"),
        (
            "MutexRunConfig",
            json!({"mutexTargets": null, "pools": ["worker", "blue"], "canary": {"name": "blue"}}),
            "spec.canary.name",
            "found blue among pools, wanted a pool of its own",
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": null, "pools": ["worker"], "waves": [{"pools": ["zzz"]}]}),
            "spec.waves",
            "found a pool of a wave that is not among pools",
        ),
        (
            "MutexRunConfig",
            json!({"domains": {"key": "a b c"}}),
            "spec.domains.key",
            "should match",
        ),
        (
            "MutexRunConfig",
            json!({"mutexKeys": []}),
            "spec.mutexKeys",
            "should have at least 1 items",
        ),
        (
            "MutexRunConfig",
            json!({"mutexKeys": [""]}),
            "spec.mutexKeys[0]",
            "should be at least 1 chars long",
        ),
        (
            "MutexRunConfig",
            opening(json!({"cron": "0 22 1-7 * SAT", "durationSeconds": 3600})),
            "spec.window.openings[0].cron",
            "found days of the month and of the week",
        ),
    ]
}

/// A binding of owners of a kind that gates nothing.
fn idle(kind: &str, settings: Value) -> Slip {
    let mut slip = settings;
    slip["ownerSelector"] = json!({"kind": kind});
    slip["rules"] = Value::Null;
    ("MutexBinding", slip, "spec", "which gates nothing")
}

fn of_the_others() -> Vec<Slip> {
    let odd = json!({"matchExpressions": [{"key": "zone", "operator": "Exists", "values": ["a"]}]});
    let maintenances =
        |field: &str, value: Value| json!({"ownerSelector": {"kind": "NodeMaintenance"}, field: value});
    let mutex = |of: Value| json!({"mutex": of});
    vec![
        (
            "MutexBudget",
            json!({"nodeSelector": null}),
            "spec.nodeSelector",
            "found no nodeSelector, which selects no node",
        ),
        (
            "MutexBudget",
            json!({"maxUnavailable": -3}),
            "spec.maxUnavailable",
            "found -3, wanted a whole number",
        ),
        (
            "MutexBudget",
            json!({"maxUnavailable": "lots"}),
            "spec.maxUnavailable",
            "found lots",
        ),
        (
            "MutexBudget",
            json!({"maxGroups": 1}),
            "spec.maxGroups",
            "found maxGroups without groupBy, wanted groupBy too",
        ),
        (
            "MutexBudget",
            json!({"maxGroups": 2, "groupBy": ""}),
            "spec.maxGroups",
            "found maxGroups without groupBy",
        ),
        (
            "MutexBudget",
            json!({"groupBy": "not a label"}),
            "spec.groupBy",
            "should match",
        ),
        (
            "MutexBudget",
            json!({"nodeSelector": odd}),
            "spec.nodeSelector",
            "found operator Exists with values",
        ),
        (
            "MutexWindow",
            json!({"nodeSelector": {"matchLabels": {"a b": "c"}}}),
            "spec.nodeSelector.matchLabels",
            "found a b, wanted a label key",
        ),
        (
            "MutexBinding",
            json!({"waves": [{"nodeSelector": {"matchLabels": {"/x": "c"}}}]}),
            "spec.waves[0].nodeSelector.matchLabels",
            "found /x, wanted a label key",
        ),
        (
            "MutexWindow",
            json!({"nodeSelector": null}),
            "spec.nodeSelector",
            "found no nodeSelector, which selects no node",
        ),
        (
            "MutexWindow",
            json!({"nodeSelector": odd}),
            "spec.nodeSelector",
            "found operator Exists with values",
        ),
        (
            "MutexWindow",
            json!({"openings": null}),
            "spec",
            "found neither openings nor freezes, wanted one of them",
        ),
        (
            "MutexWindow",
            json!({"openings": [{"startTime": "22:00"}]}),
            "spec.openings[0]",
            "found one of startTime and endTime",
        ),
        (
            "MutexWindow",
            json!({"freezes": [{"name": "audit", "from": "2026-12-20T00:00:00Z", "to": "2026-12-19T00:00:00Z"}]}),
            "spec.freezes[0]",
            "found a freeze that ends before it begins",
        ),
        (
            "MutexNotifier",
            json!({"cloudEvents": null}),
            "spec",
            "found no sink, or several, wanted one of cloudEvents, slack and alertmanager",
        ),
        (
            "MutexNotifier",
            json!({"slack": {}, "secretRef": {"name": "chat"}}),
            "spec",
            "found no sink, or several",
        ),
        (
            "MutexNotifier",
            json!({"cloudEvents": null, "slack": {}}),
            "spec.slack",
            "found slack without secretRef",
        ),
        (
            "MutexNotifier",
            json!({"cloudEvents": {}}),
            "spec.cloudEvents",
            "found cloudEvents without url and no secretRef",
        ),
        (
            "MutexNotifier",
            json!({"cloudEvents": null, "alertmanager": {}}),
            "spec.alertmanager",
            "found alertmanager without url and no secretRef",
        ),
        (
            "MutexNotifier",
            silencing(&json!({"durationSeconds": 119})),
            "spec.alertmanager.silences.durationSeconds",
            "greater than or equal to 120",
        ),
        (
            "MutexNotifier",
            silencing(&json!({"nodeLabel": "the node"})),
            "spec.alertmanager.silences.nodeLabel",
            "should match",
        ),
        (
            "MutexNotifier",
            silencing(&json!({"nodeLabel": "alertname"})),
            "spec.alertmanager.silences",
            "found alertname, or nodeLabel in matchers too",
        ),
        (
            "MutexNotifier",
            silencing(&json!({"matchers": [{"name": "node", "value": "a"}]})),
            "spec.alertmanager.silences",
            "found alertname, or nodeLabel in matchers too",
        ),
        (
            "MutexNotifier",
            json!({"cloudEvents": {"url": "ftp://events.example.com"}}),
            "spec.cloudEvents.url",
            "should match",
        ),
        (
            "MutexNotifier",
            json!({"cloudEvents": {"url": "https://ada:secret@events.example.com"}}),
            "spec.cloudEvents.url",
            "should match",
        ),
        (
            "MutexNotifier",
            json!({"template": "{nonsense} {"}),
            "spec.template",
            "found a brace that begins no field",
        ),
        (
            "MutexNotifier",
            json!({"template": "{message} }"}),
            "spec.template",
            "found a brace that begins no field",
        ),
        (
            "MutexNotifier",
            json!({"namespaces": ["A B"]}),
            "spec.namespaces[0]",
            "should match",
        ),
        (
            "MutexNotifier",
            json!({"namespaces": ["ops"], "ownerKinds": ["NodeMaintenance", "NodeVersion"]}),
            "spec.namespaces",
            "which tells nobody",
        ),
        (
            "MutexNotifier",
            json!({"transitions": ["RunBegins"]}),
            "spec.transitions[0]",
            "RunBegins",
        ),
        (
            "MutexNotifier",
            json!({"ownerKinds": ["Node"]}),
            "spec.ownerKinds[0]",
            "Node",
        ),
        (
            "MutexNotifier",
            json!({"secretRef": {"name": ""}}),
            "spec.secretRef.name",
            "should be at least 1",
        ),
        (
            "MutexNotifier",
            json!({"template": "x".repeat(2049)}),
            "spec.template",
            "2048",
        ),
        (
            "MutexNotifier",
            json!({"maxPerMinute": 0}),
            "spec.maxPerMinute",
            "greater than or equal to 1",
        ),
        (
            "MutexBinding",
            json!({"ownerSelector": null}),
            "spec.ownerSelector",
            "Required value",
        ),
        (
            "MutexBinding",
            json!({"ownerSelector": {"kind": "plans"}}),
            "spec.ownerSelector.kind",
            "supported values: \"Plan\", \"NodeMaintenance\"",
        ),
        (
            "MutexBinding",
            json!({"ownerSelector": {"kind": "Plan", "apiGroup": "apps"}}),
            "spec.ownerSelector.apiGroup",
            "found apiGroup apps with kind Plan, wanted upgrade.cattle.io or none",
        ),
        (
            "MutexBinding",
            json!({"ownerSelector": {"kind": "NodeMaintenance", "apiGroup": "upgrade.cattle.io"}}),
            "spec.ownerSelector.apiGroup",
            "wanted nodemaintenance.medik8s.io, nodemaintenance.kubevirt.io or none",
        ),
        (
            "MutexBinding",
            json!({"rules": [{}]}),
            "spec.rules[0].name",
            "found no name",
        ),
        (
            "MutexBinding",
            json!({"rules": [{"name": "Not_A_Name"}]}),
            "spec.rules[0].name",
            "should match",
        ),
        (
            "MutexBinding",
            json!({"rules": [{"name": "a", "namespace": "Node_X"}]}),
            "spec.rules[0].namespace",
            "should match",
        ),
        (
            "MutexBinding",
            json!({"rules": []}),
            "spec",
            "which gates nothing",
        ),
        (
            "MutexBinding",
            json!({"rules": null}),
            "spec",
            "found neither rules nor settings",
        ),
        idle("Plan", json!({"drain": {}})),
        idle("Plan", json!({"soakSeconds": 0, "retries": 0})),
        idle("Plan", json!({"approval": {}})),
        idle("Plan", json!({"approval": {"begin": "None"}})),
        idle("Plan", json!({"takeNotReady": false})),
        idle("Plan", json!({"notReadyPolicy": "Wait"})),
        idle("Plan", json!({"first": {"matchLabels": {}}})),
        idle("Plan", json!({"drainBy": "Job"})),
        idle("NodeMaintenance", json!({"drain": {}})),
        idle("NodeMaintenance", json!({"retries": 0, "drainBy": "Numo"})),
        idle("NodeMaintenance", json!({"takeNotReady": true})),
        idle("NodeVersion", json!({"drainBy": "Numo"})),
        (
            "MutexBinding",
            json!({"mutexKeys": []}),
            "spec.mutexKeys",
            "should have at least 1 items",
        ),
        (
            "MutexBinding",
            json!({"domains": {"key": "a b"}}),
            "spec.domains.key",
            "should match",
        ),
        (
            "MutexBinding",
            json!({"drain": {"order": "Label", "orderLabel": "a b"}}),
            "spec.drain.orderLabel",
            "should match",
        ),
        (
            "Plan",
            mutex(json!({"mutexKeys": []})),
            "spec.mutex.mutexKeys",
            "should have at least 1 items",
        ),
        (
            "MutexBinding",
            json!({"ownerSelector": {"kind": "Plan", "namespaces": []}}),
            "spec.ownerSelector.namespaces",
            "should have at least 1 items",
        ),
        (
            "MutexBinding",
            json!({"failureBudget": 0}),
            "spec.failureBudget",
            "found 0, wanted a whole number from 1",
        ),
        (
            "MutexRunConfig",
            json!({"failureBudget": "0%"}),
            "spec.failureBudget",
            "found 0%, wanted a whole number from 1",
        ),
        (
            "MutexBudget",
            json!({"nodeSelector": {"matchLabels": {"zone": "a b"}}}),
            "spec.nodeSelector.matchLabels.zone",
            "should match",
        ),
        (
            "MutexBudget",
            json!({"nodeSelector": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}}),
            "spec.nodeSelector.matchExpressions[0].key",
            "should match",
        ),
        (
            "MutexBinding",
            json!({"maxUnavailable": "lots"}),
            "spec.maxUnavailable",
            "found lots",
        ),
        (
            "MutexBinding",
            json!({"failureBudget": -1}),
            "spec.failureBudget",
            "found -1",
        ),
        (
            "MutexBinding",
            json!({"drain": {"order": "Label"}}),
            "spec.drain.orderLabel",
            "wanted both or neither",
        ),
        (
            "MutexBinding",
            json!({"drain": {"orderLabel": "x"}}),
            "spec.drain.orderLabel",
            "wanted both or neither",
        ),
        (
            "MutexBinding",
            json!({"mutexKeys": ["a b"]}),
            "spec.mutexKeys[0]",
            "should match",
        ),
        (
            "MutexBinding",
            json!({"ownerSelector": {"kind": "Plan", "namespaces": ["sytem upgrade"]}}),
            "spec.ownerSelector.namespaces[0]",
            "should match",
        ),
        (
            "MutexBinding",
            json!({"notReadyPolicy": "Wait", "leaveOutAfterSeconds": 60}),
            "spec.leaveOutAfterSeconds",
            "found leaveOutAfterSeconds beside notReadyPolicy: Wait",
        ),
        (
            "MutexBinding",
            json!({"mutexKeys": ["a", "a"]}),
            "spec.mutexKeys",
            "duplicate entries",
        ),
        (
            "MutexBinding",
            maintenances("waves", json!([{"nodes": 1}])),
            "spec.waves",
            "found waves with nodes and kind NodeMaintenance",
        ),
        (
            "MutexBinding",
            json!({"waves": [{"pools": ["worker"]}]}),
            "spec.waves[0].pools",
            "only a MutexRunConfig has MachineConfigPools",
        ),
        (
            "MutexApproval",
            json!({"owner": {"apiGroup": "apps", "kind": "Deployment", "name": "a"}}),
            "spec.owner.kind",
            "wanted MutexRunConfig, Plan, NodeMaintenance or NodeVersion",
        ),
        (
            "MutexApproval",
            json!({"owner": {"apiGroup": "apps", "kind": "Plan", "namespace": "ops", "name": "a"}}),
            "spec.owner.apiGroup",
            "found apiGroup apps with kind Plan",
        ),
        (
            "MutexApproval",
            json!({"owner": {"apiGroup": "upgrade.cattle.io", "kind": "Plan", "name": "a"}}),
            "spec.owner.namespace",
            "found no namespace",
        ),
        (
            "MutexApproval",
            json!({"owner": {"apiGroup": "nodemaintenance.medik8s.io", "kind": "NodeMaintenance", "namespace": "ops", "name": "a"}}),
            "spec.owner.namespace",
            "found a namespace, wanted none",
        ),
        (
            "MutexApproval",
            json!({"wave": "1", "afterFailure": true}),
            "spec.afterFailure",
            "found afterFailure beside wave",
        ),
        (
            "MutexApproval",
            json!({"reason": ""}),
            "spec.reason",
            "should be at least 1 chars long",
        ),
        (
            "MutexBinding",
            json!({"domains": {"key": ""}}),
            "spec.domains.key",
            "found no key, wanted the key of a label",
        ),
        (
            "Plan",
            mutex(json!({"domains": {"atOnce": 2}})),
            "spec.mutex.domains.key",
            "found no key",
        ),
        (
            "MutexBinding",
            json!({"domains": {"key": "zone", "order": ["a", "a"]}}),
            "spec.domains.order",
            "duplicate entries",
        ),
        (
            "MutexBinding",
            maintenances("order", json!("Name")),
            "spec.order",
            "found order with kind NodeMaintenance",
        ),
        (
            "MutexBinding",
            maintenances("retries", json!(1)),
            "spec.retries",
            "found retries with kind NodeMaintenance",
        ),
        (
            "MutexBinding",
            maintenances("drainBy", json!("Job")),
            "spec.drainBy",
            "found drainBy: Job",
        ),
        (
            "NodeMaintenance",
            json!({"mutexRules": [{}]}),
            "spec.mutexRules[0].name",
            "found no name",
        ),
        (
            "NodeMaintenance",
            json!({"drain": {"order": "Label"}}),
            "spec.drain.orderLabel",
            "wanted both or neither",
        ),
        (
            "Plan",
            mutex(json!({"rules": [{}]})),
            "spec.mutex.rules[0].name",
            "found no name",
        ),
        (
            "Plan",
            mutex(json!({"maxUnavailable": "lots"})),
            "spec.mutex.maxUnavailable",
            "found lots",
        ),
        (
            "Plan",
            mutex(json!({"failureBudget": "lots"})),
            "spec.mutex.failureBudget",
            "found lots",
        ),
        (
            "Plan",
            mutex(json!({"first": odd})),
            "spec.mutex.first",
            "found operator Exists with values",
        ),
        (
            "Plan",
            mutex(json!({"waves": [{"nodes": 1, "nodeSelector": {}}]})),
            "spec.mutex.waves[0]",
            "found none or several of nodeSelector",
        ),
        (
            "Plan",
            mutex(json!({"waves": [{"pools": ["worker"]}]})),
            "spec.mutex.waves[0].pools",
            "only a MutexRunConfig has MachineConfigPools",
        ),
        (
            "Plan",
            mutex(json!({"first": {}, "waves": [{"nodes": 1}]})),
            "spec.mutex.waves",
            "found waves beside first",
        ),
        ("NodeChange", json!({"nodeName": ""}), "spec", "found no nodeName"),
    ]
}

/// Applies as `kubectl apply --server-side --dry-run=server` does.
async fn dry_run(client: &Client, object: &Value) -> kube::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    let kind = object.types.clone().unwrap_or_default().kind;
    let params = PatchParams::apply("kubectl")
        .force()
        .dry_run()
        .validation_strict();
    let name = object.metadata.name.clone().unwrap_or_default();
    let patch = kube::api::Patch::Apply(&object);
    api(client, &kind).patch(&name, &params, &patch).await
}

async fn each_is_refused(slips: Vec<Slip>) -> Result<()> {
    let (cluster, client) = start(None).await?;
    if slips.iter().any(|(kind, ..)| *kind == "NodeVersion") {
        define_machines(&client).await?;
    }
    let mut wrong = Vec::new();
    for (kind, slip, field, words) in slips {
        let good = dry_run(&client, &object(kind, "good", base(kind))).await;
        if let Err(error) = good {
            wrong.push(format!("{kind} without a slip: {error}"));
        }
        match dry_run(&client, &object(kind, "slip", with(kind, &slip))).await {
            Ok(_) => wrong.push(format!("{kind} {slip} is admitted")),
            Err(kube::Error::Api(status)) => {
                let said = status.message.contains(field) && status.message.contains(words);
                if !said {
                    wrong.push(format!(
                        "{kind} {slip}: no {field} or {words} in: {}",
                        status.message
                    ));
                }
            }
            Err(other) => wrong.push(format!("{kind} {slip}: {other}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cluster.give_back().await;
    Ok(())
}

#[tokio::test]
async fn slips_of_rules_are_refused_by_their_field() -> Result<()> {
    each_is_refused(of_rules().into_iter().chain(of_fields_of_rules()).collect()).await
}

#[tokio::test]
async fn slips_of_targets_and_runs_are_refused_by_their_field() -> Result<()> {
    each_is_refused(of_runs()).await
}

/// What is refused of a MutexRule is refused of a rule that stands in a run, and a component there too.
#[tokio::test]
async fn slips_of_rules_that_stand_in_a_run_are_refused_by_their_field() -> Result<()> {
    let all = of_rules().into_iter().chain(of_fields_of_rules());
    let of_wasm = |slip: &Slip| slip.1["type"] == "wasm" || slip.1.get("wasm").is_some();
    let placed = all
        .filter(|slip| !of_wasm(slip))
        .map(|(kind, slip, field, words)| {
            let mut rule = with(kind, &slip);
            rule["name"] = json!("a");
            // What is there twice is refused before the checks of the kind, by names instead of numbers.
            let place = if words.starts_with("duplicate") {
                "spec.rules[name=\"a\"]"
            } else {
                "spec.rules[0]"
            };
            let field: &'static str = field.replacen("spec", place, 1).leak();
            ("MutexRunConfig", json!({"rules": [rule]}), field, words)
        });
    let job = |name: &str| json!({"name": name, "jobSpec": {}});
    let own: [Slip; 4] = [
        (
            "MutexRunConfig",
            json!({"rules": [{"name": "a", "type": "wasm"}]}),
            "spec.rules[0].type",
            "a component has a MutexRule of its own",
        ),
        (
            "MutexRunConfig",
            json!({"rules": [job("a"), job("b"), job("a")]}),
            "spec.rules",
            "duplicate entries for key [name=\"a\"]",
        ),
        (
            "MutexRunConfig",
            json!({"rules": [job("no_name")]}),
            "spec.rules[0].name",
            "should match",
        ),
        (
            "MutexRunConfig",
            json!({"rules": (0..17).map(|at| job(&format!("r{at}"))).collect::<Vec<Value>>()}),
            "spec.rules",
            "must have at most 16 items",
        ),
    ];
    each_is_refused(placed.chain(own).collect()).await
}

#[tokio::test]
async fn slips_of_the_other_kinds_are_refused_by_their_field() -> Result<()> {
    each_is_refused(of_the_others()).await
}

fn of_versions() -> Vec<Slip> {
    let slips: [(Value, &str, &str); 18] = [
        (
            json!({"surge": "lots"}),
            "spec.surge",
            "found lots, wanted a whole number such as 2",
        ),
        (json!({"surge": -1}), "spec.surge", "found -1"),
        (json!({"surge": "101%"}), "spec.surge", "found 101%"),
        (
            json!({"joinTimeoutSeconds": 59}),
            "spec.joinTimeoutSeconds",
            "greater than or equal to 60",
        ),
        (
            json!({"joinRetries": -1}),
            "spec.joinRetries",
            "greater than or equal to 0",
        ),
        (
            json!({"copiedAnnotations": ["a b"]}),
            "spec.copiedAnnotations[0]",
            "found a b, wanted the key of an annotation",
        ),
        (
            json!({"copiedAnnotations": ["ok", "a*b"]}),
            "spec.copiedAnnotations[1]",
            "found a*b",
        ),
        (
            json!({"copiedAnnotations": [""]}),
            "spec.copiedAnnotations[0]",
            "wanted the key of an annotation",
        ),
        (json!({"copyTaints": "yes"}), "spec.copyTaints", "boolean"),
        (
            json!({"drain": {"order": "Size"}}),
            "spec.drain.order",
            "supported values",
        ),
        (
            json!({"drain": {"order": "Label"}}),
            "spec.drain.orderLabel",
            "found one of order: Label and orderLabel",
        ),
        (
            json!({"drain": {"orderLabel": "rank"}}),
            "spec.drain.orderLabel",
            "wanted both or neither",
        ),
        (
            json!({"mutex": {"retries": 1}}),
            "spec.mutex.retries",
            "found retries, wanted none",
        ),
        (
            json!({"mutex": {"drainBy": "Job"}}),
            "spec.mutex.drainBy",
            "found drainBy: Job, wanted Numo, NodeMaintenance or none",
        ),
        (
            json!({"mutex": {"maxUnavailable": "many"}}),
            "spec.mutex.maxUnavailable",
            "found many",
        ),
        (
            json!({"mutex": {"waves": [{"pools": ["worker"]}]}}),
            "spec.mutex.waves[0].pools",
            "only a MutexRunConfig has MachineConfigPools",
        ),
        (
            json!({"mutex": {"rules": [{}]}}),
            "spec.mutex.rules[0].name",
            "found no name",
        ),
        // A field that nobody knows is no field: `kubectl apply` says so.
        (
            json!({"surges": 1}),
            "spec.surges",
            "field not declared in schema",
        ),
    ];
    let of_kind = |(slip, field, words)| ("NodeVersion", slip, field, words);
    slips.into_iter().map(of_kind).collect()
}

#[tokio::test]
async fn slips_of_node_versions_are_refused_by_their_field() -> Result<()> {
    each_is_refused(of_versions()).await
}

#[tokio::test]
async fn node_versions_that_can_work_are_admitted() -> Result<()> {
    let (cluster, client) = start(None).await?;
    define_machines(&client).await?;
    let mut good = vec![
        object("NodeVersion", "bare", Value::Null),
        // As the reference makes it.
        object(
            "NodeVersion",
            "reference",
            json!({"image": "node-2", "imageVersion": "v2", "kubernetesComponentsReference": "components", "kubernetesClusterVersion": "v1.33.0"}),
        ),
    ];
    for (number, spec) in [
        json!({"surge": 0}),
        json!({"surge": "25%"}),
        json!({"surge": "0%", "joinTimeoutSeconds": 60, "joinRetries": 0}),
        json!({"copiedAnnotations": ["*", "example.com/*", "example.com/owner", "team"], "copyTaints": true}),
        json!({"drain": {"order": "Label", "orderLabel": "rank"}}),
        json!({"drain": {"order": "Priority"}}),
        json!({"mutex": {"retries": 0, "drainBy": "Numo", "maxUnavailable": "10%"}}),
        json!({"mutex": {"drainBy": "NodeMaintenance"}}),
    ]
    .iter()
    .enumerate()
    {
        good.push(object(
            "NodeVersion",
            &format!("v{number}"),
            with("NodeVersion", spec),
        ));
    }
    let example = std::fs::read_to_string(root().join("examples/node-version.yaml"))?;
    let is_version = |object: &Value| object["kind"] == "NodeVersion";
    good.extend(parse(&example)?.into_iter().filter(is_version));
    let mut wrong = Vec::new();
    for object in good {
        if let Err(error) = dry_run(&client, &object).await {
            wrong.push(format!("{object}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cluster.give_back().await;
    Ok(())
}

/// A MutexNotifier with these silences.
fn silencing(silences: &Value) -> Value {
    let url = "https://alerts.example.com";
    json!({"cloudEvents": null, "alertmanager": {"url": url, "silences": silences}})
}

/// An object with an empty spec, or without one, does nothing.
#[tokio::test]
async fn an_empty_spec_is_refused_for_every_kind() -> Result<()> {
    let (cluster, client) = start(None).await?;
    for kind in [
        "MutexRule",
        "MutexTarget",
        "MutexRunConfig",
        "MutexBudget",
        "MutexWindow",
        "MutexBinding",
        "MutexNotifier",
        "MutexApproval",
        "NodeChange",
        "NodeMaintenance",
        "Plan",
    ] {
        let refused = dry_run(&client, &object(kind, "empty", json!({}))).await;
        assert!(
            matches!(refused, Err(kube::Error::Api(ref status)) if status.code == 422),
            "{kind}: {refused:?}"
        );
        // A NodeMaintenance and a Plan may be without, as their operators' schemas have it.
        if !matches!(kind, "NodeMaintenance" | "Plan") {
            let refused = dry_run(&client, &object(kind, "missing", Value::Null)).await;
            assert!(
                matches!(refused, Err(kube::Error::Api(ref status)) if status.code == 422),
                "{kind}: {refused:?}"
            );
        }
    }
    cluster.give_back().await;
    Ok(())
}

/// A word that was given is withdrawn, and not edited.
#[tokio::test]
async fn an_approval_cannot_be_edited() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let given = object("MutexApproval", "given", base("MutexApproval"));
    apply(&client, &given).await?;
    let mut edited = given;
    edited["spec"]["digest"] = json!("another");
    let refused = apply(&client, &edited).await.expect_err("it was edited");
    let words = format!("{refused:?}");
    assert!(words.contains("delete the object to withdraw it"), "{words}");
    cluster.give_back().await;
    Ok(())
}

/// Who may make an approval gives it no status, and a status changes no spec.
#[tokio::test]
async fn an_approval_has_a_status_that_its_author_does_not_write() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let mut given = object("MutexApproval", "given", base("MutexApproval"));
    let status = json!({"conditions": [{
        "type": "Holds", "status": "True", "reason": "ApprovalHolds", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    given["status"] = status.clone();
    let made = apply(&client, &given).await?;
    assert_eq!(made.data.get("status"), None, "{made:?}");
    let other = json!({"status": status, "spec": {"digest": "another"}});
    let stored = api(&client, "MutexApproval")
        .patch_status("given", &PatchParams::default(), &Patch::Merge(other))
        .await?;
    assert_eq!(stored.data["spec"]["digest"], json!("d"));
    assert_eq!(stored.data["status"], status);
    cluster.give_back().await;
    Ok(())
}

/// A turn is of one node, one owner and one target.
#[tokio::test]
async fn of_a_node_change_only_the_directive_may_be_changed() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let own = base("NodeChange");
    apply(&client, &object("NodeChange", "turn", own.clone())).await?;
    for (field, value, about) in [
        (
            "ownerRef",
            json!({"apiVersion": "v1", "kind": "K", "name": "another", "uid": "u"}),
            "found another owner",
        ),
        ("nodeName", json!("worker-1"), "found another node"),
        ("nodeUID", json!("another"), "found another node"),
        (
            "target",
            json!({"runID": "another", "version": "4.17.0", "pool": "worker"}),
            "found another target",
        ),
        ("inService", json!(true), "found another inService"),
    ] {
        let mut spec = own.clone();
        spec[field] = value;
        let refused = apply(&client, &object("NodeChange", "turn", spec))
            .await
            .unwrap_err();
        let words = refused.to_string();
        assert!(
            words.contains(about) && words.contains("only directive may be changed"),
            "{words}"
        );
    }
    let mut spec = own;
    spec["directive"] = json!({"action": "Hold", "reason": "a fan is out", "by": "me"});
    spec["inService"] = json!(false);
    apply(&client, &object("NodeChange", "turn", spec)).await?;
    cluster.give_back().await;
    Ok(())
}

/// Limits, names and times as the operator takes them.
#[tokio::test]
async fn whatever_the_operator_takes_is_admitted() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let limits = [
        json!(0),
        json!(1),
        json!(100_000),
        json!("3"),
        json!("+3"),
        json!("0%"),
        json!("007"),
        json!("100%"),
        json!("25%"),
    ];
    let mut good: Vec<(&str, Value)> = Vec::new();
    for limit in limits {
        for kind in ["MutexRunConfig", "MutexBudget", "MutexBinding"] {
            good.push((kind, json!({"maxUnavailable": limit})));
        }
        good.push(("Plan", json!({"mutex": {"maxUnavailable": limit}})));
        let waves = json!([{"nodes": 1, "maxUnavailable": limit}]);
        good.push(("MutexRunConfig", json!({"waves": waves})));
        good.push(("MutexBinding", json!({"waves": waves})));
        good.push(("Plan", json!({"mutex": {"waves": waves}})));
        // No failure would end a run before it begins.
        if limit != json!(0) && limit != json!("0%") {
            good.push(("Plan", json!({"mutex": {"failureBudget": limit}})));
        }
    }
    good.extend([
        ("MutexRule", json!({"phases": [], "cleanUpJobSpec": {}})),
        ("MutexRule", json!({"jobSpec": null, "type": "cel", "cel": {"validations": [{"expression": "true"}]}, "phases": ["Admit"]})),
        ("MutexRule", json!({"jobSpec": null, "type": "wasm", "wasm": {"configMap": {"name": "c", "key": "k"}}})),
        (
            "MutexRule",
            json!({"jobSpec": null, "type": "prometheus", "prometheus": {"alerts": {"matchers": ["a=\"b\""]}}}),
        ),
        ("MutexRule", json!({"failurePolicy": "Skip", "placement": "OnTarget", "phases": ["PreRun", "Pre"]})),
        ("MutexRule", json!({"failurePolicy": "Skip", "phases": [], "cleanUpJobSpec": {}})),
        ("MutexRunConfig", json!({"hold": "Always", "trigger": "AnyConfig"})),
        ("MutexRunConfig", json!({"mutexTargets": null, "pools": ["worker", "infra"]})),
        (
            "MutexRunConfig",
            json!({"mutexTargets": [{"name": "a", "maxUnavailable": 0}, {"name": "b", "maxUnavailable": "10%"}, {"name": "c"}]}),
        ),
        ("MutexRunConfig", json!({"canary": {}, "strategy": "DesiredConfig"})),
        (
            "MutexRunConfig",
            json!({"first": {"matchLabels": {"a": "b"}, "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["b", ""]}, {"key": "c", "operator": "DoesNotExist", "values": []},
            ]}}),
        ),
        (
            "MutexRunConfig",
            json!({"window": {"openings": [
                {"days": ["mon", " TUE ", "6"], "startTime": " 5:7 ", "endTime": "12:30PM"},
                {"startTime": "23:59:59", "endTime": "0"}, {"cron": " */5 22-23 * JAN,FEB  FRI#2 ", "durationSeconds": 60},
            ]}}),
        ),
        (
            "MutexRunConfig",
            json!({"waves": [
                {"name": "canary", "nodeSelector": {"matchLabels": {"a": "b"}}, "soakSeconds": 60}, {"pools": ["infra"], "maxUnavailable": "10%"},
                {"nodes": "100%", "failureBudget": 2}, {"nodes": "5", "growth": 2},
            ]}),
        ),
        ("MutexBinding", json!({"waves": [{"nodes": "1%", "growth": 5}]})),
        (
            "MutexRule",
            json!({"jobSpec": null, "type": "cel", "cel": {"validations": [{"expression": "true"}], "objects": [
                {"name": "a", "apiVersion": "v1", "kind": "Pod", "labelSelector": "app=db,tier in (${pool}, b), c notin(d),!e,f,n>5,g==h , i != j"},
                {"name": "b", "apiVersion": "v1", "kind": "Pod", "fieldSelector": "spec.nodeName=${node},a!=b\\,c"},
                {"name": "c", "apiVersion": "v1", "kind": "Pod", "labelSelector": "", "fieldSelector": ""},
            ]}}),
        ),
        (
            "MutexRule",
            json!({"jobSpec": null, "type": "prometheus", "prometheus": {"alerts": {
                "matchers": ["severity=~\"a|b\"", "alertname!~\"Watchdog|Info.*\"", "x!=\"say \\\"${node}\\\"\""], "watchdog": ["a=\"\""],
            }}}),
        ),
        (
            "MutexRule",
            json!({"jobSpec": null, "type": "wasm", "wasm": {
                "image": "registry.example.com/r:1", "limits": {"memory": "256Mi", "hostBytes": "134217728"},
                "signature": {"keys": ["-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"]},
            }}),
        ),
        ("MutexRule", json!({"jobSpec": null, "type": "wasm", "wasm": {
            "configMap": {"name": "c", "key": "k"}, "limits": {"memory": "262144Ki", "hostBytes": "1Ki"},
        }})),
        ("MutexRunConfig", hours("0-30/10,59 023 L,15W,1-31/2 jan-DEC/3,7 *")),
        ("MutexRunConfig", hours("*/59 0/23 * * 0,7,MON-fri/2,5L,sat#1,3#5")),
        ("MutexRunConfig", hours("0 0 31 1,2 *")),
        ("MutexRunConfig", hours("0 0 29,30 2 */7")),
        ("MutexRunConfig", json!({"mutexTargets": null, "pools": ["worker", "blue"], "canary": {"name": "blue"}, "strategy": "DesiredConfig"})),
        ("MutexRunConfig", json!({"mutexTargets": null, "pools": ["worker", "blue"], "canary": {"name": "green"}, "waves": [{"pools": ["blue"]}]})),
        ("MutexRunConfig", json!({"waves": [{"pools": ["of-a-target"]}]})),
        ("MutexNotifier", json!({"template": "{{{kind}}} {what}:\n{message} {explanation}", "namespaces": ["ops"], "ownerKinds": ["Plan", "NodeMaintenance"]})),
        ("MutexBinding", json!({"rules": null, "ownerSelector": {"kind": "NodeMaintenance"}, "takeNotReady": false})),
        ("MutexBinding", json!({"rules": null, "ownerSelector": {"kind": "NodeMaintenance"}, "notReadyPolicy": "Wait"})),
        ("MutexBinding", json!({"rules": null, "drainBy": "Numo"})),
        ("MutexBinding", json!({"rules": null, "drain": {"probe": false}})),
        ("MutexBinding", json!({"rules": null, "approval": {"begin": "Manual"}})),
        ("MutexBinding", json!({"rules": null, "first": {"matchLabels": {"a": "b"}}})),
        ("MutexApproval", json!({"owner": {"apiGroup": "nodemaintenance.kubevirt.io", "kind": "NodeMaintenance", "name": "a"}})),
        ("MutexApproval", json!({"owner": {"apiGroup": "update.edgeless.systems", "kind": "NodeVersion", "name": "a"}})),
        (
            "MutexApproval",
            json!({"owner": {"apiGroup": "openshift-optional.skrzypek.io", "kind": "MutexRunConfig", "namespace": "ops", "name": "a"}}),
        ),
        ("MutexWindow", json!({"openings": null, "freezes": [{"name": "audit", "from": "2026-12-19T00:00:00+01:00", "to": "2026-12-20T00:00:00Z"}]})),
        ("MutexNotifier", json!({"cloudEvents": {"url": "http://[fd00::1]:8080/a?b=c"}, "transitions": ["Held"], "ownerKinds": ["Plan"]})),
        ("MutexNotifier", json!({"cloudEvents": null, "slack": {}, "secretRef": {"name": "chat"}, "template": "{owner}"})),
        ("MutexNotifier", json!({"cloudEvents": null, "alertmanager": {}, "secretRef": {"name": "am"}, "tls": {"caConfigMap": {"name": "ca"}}})),
        ("MutexNotifier", silencing(&json!({}))),
        ("MutexNotifier", silencing(&json!({"nodeLabel": "instance", "matchers": [{"name": "node", "value": "x y"}]}))),
        ("MutexBinding", json!({"ownerSelector": {"kind": "NodeMaintenance"}, "retries": 0, "drainBy": "Numo"})),
        ("MutexBinding", json!({"drain": {"order": "Label", "orderLabel": "rank"}})),
        ("MutexBinding", json!({"ownerSelector": {"kind": "Plan", "apiGroup": "upgrade.cattle.io"}})),
        ("MutexBinding", json!({"ownerSelector": {"kind": "NodeMaintenance", "apiGroup": "nodemaintenance.kubevirt.io"}})),
        ("NodeMaintenance", json!({"mutexRules": [{"name": "x"}], "drain": {"order": "Priority"}})),
        ("Plan", json!({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})),
    ]);
    let mut wrong = Vec::new();
    for (kind, more) in good {
        let object = object(kind, "good", with(kind, &more));
        if let Err(error) = dry_run(&client, &object).await {
            wrong.push(format!("{kind} {more}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cluster.give_back().await;
    Ok(())
}

/// Applies what of a manifest is of numo's kinds.
async fn takes(client: &Client, manifests: Vec<Value>, from: &str) -> Result<usize> {
    let kinds = numo_api::crds::all();
    let mut number = 0;
    for manifest in manifests {
        let version = manifest["apiVersion"].as_str().unwrap_or_default();
        let kind = manifest["kind"].as_str().unwrap_or_default().to_owned();
        let is_ours = kinds.iter().any(|crd| {
            crd.spec.names.kind == kind
                && version.starts_with(&format!("{}/", crd.spec.group))
                && crd.spec.group != "nodemaintenance.kubevirt.io"
        });
        if !is_ours {
            continue;
        }
        let mut manifest = manifest;
        // They are stored nowhere, so that any namespace will do.
        manifest["metadata"]["namespace"] = Value::Null;
        let taken = dry_run(client, &manifest).await;
        taken.with_context(|| format!("{from}: {kind} {}", manifest["metadata"]["name"]))?;
        number += 1;
    }
    Ok(number)
}

/// Every manifest of `examples`, and those of the pages of the operators that numo replaces.
#[tokio::test]
async fn every_example_and_every_manifest_of_the_reference_is_admitted() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let mut number = takes(&client, page()?, "the page").await?;
    for entry in std::fs::read_dir(root().join("examples"))? {
        let path = entry?.path();
        // Objects of other tools, in folders, have tests of their own.
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        number += takes(&client, parse(&text)?, &path.display().to_string()).await?;
    }
    assert!(number > 30, "{number}");
    for (kind, spec) in [
        // As the samples of the reference.
        (
            "MutexRule",
            json!({"jobName": "example", "jobNamespace": "node-upgrade-mutex-operator", "type": "kubernetes", "jobSpec": {
                "selector": {}, "template": {"metadata": {"name": "mutex"}, "spec": {
                    "containers": [{"name": "mutex", "image": "ubi9/toolbox", "command": ["sleep", "20"]}], "restartPolicy": "Never",
                }},
            }}),
        ),
        ("MutexTarget", json!({"machineConfigPools": ["worker"]})),
        (
            "MutexRunConfig",
            json!({
                "canary": {"name": "canary-example"}, "skipTLSVerify": false,
                "mutexRules": [{"name": "mutexrule-sample", "namespace": "node-upgrade-mutex-operator"}],
                "mutexTargets": [{"name": "mutextarget-sample", "namespace": "node-upgrade-mutex-operator"}],
            }),
        ),
        (
            "NodeMaintenance",
            json!({"nodeName": "node02", "reason": "Test node maintenance"}),
        ),
        (
            "Plan",
            json!({
                "concurrency": 1, "version": "v1.17.4+k3s1", "serviceAccountName": "system-upgrade", "cordon": true,
                "nodeSelector": {"matchExpressions": [{"key": "k3s.io/hostname", "operator": "Exists"}]},
                "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
                "drain": {"deleteLocalData": true, "ignoreDaemonSets": true, "force": true, "timeout": 300_000_000_000_i64},
                "secrets": [{"name": "my-secret", "path": "/run/k3s/secret"}], "window": {"days": ["mo"], "startTime": "1am"},
                "upgrade": {"image": "rancher/k3s-upgrade", "command": ["cat"], "args": ["/x"]},
            }),
        ),
    ] {
        let taken = dry_run(&client, &object(kind, "reference", spec)).await;
        taken.with_context(|| kind.to_owned())?;
    }
    cluster.give_back().await;
    Ok(())
}
