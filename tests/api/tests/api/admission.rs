//! What the API server admits and what it refuses: all that the reference's schemas admitted and that can work
//! stays admitted; what can never have worked is refused, and the refusal names the field.

use anyhow::Result;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{api, apply, start};

const KINDS: [&str; 3] = ["MutexRule", "MutexTarget", "MutexRunConfig"];

pub fn object(kind: &str, name: &str, spec: Value) -> Value {
    let own = format!("{}/{}", numo_api::NUMO_GROUP, numo_api::VERSION);
    let reference = format!("{}/{}", numo_api::GROUP, numo_api::VERSION);
    let version = match kind {
        "NodeChange" | "MutexBudget" | "MutexWindow" | "MutexBinding" | "MutexNotifier" | "MutexApproval" => {
            own.as_str()
        }
        "NodeMaintenance" => "nodemaintenance.medik8s.io/v1beta1",
        "Plan" => "upgrade.cattle.io/v1",
        "NodeVersion" => "update.edgeless.systems/v1alpha1",
        _ => reference.as_str(),
    };
    let mut object = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
    });
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

/// What the reference's schemas admitted and could work, or could come to work once other objects are there.
#[tokio::test]
async fn what_the_references_schemas_admitted_and_could_work_is_admitted() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let targets = json!([{"name": "x"}]);
    for (kind, name, spec) in [
        // References without a namespace, to nothing.
        (
            "MutexRunConfig",
            "loose",
            json!({"mutexRules": [{"name": "x"}], "mutexTargets": [{"name": "x", "namespace": "y"}]}),
        ),
        (
            "MutexRunConfig",
            "no-rules",
            json!({"canary": {"name": "no"}, "mutexRules": [], "mutexTargets": targets}),
        ),
        (
            "MutexTarget",
            "odd",
            json!({"machineConfigPools": ["No Such Pool"]}),
        ),
        // A map that is no JobSpec: the condition says so, not the API server.
        (
            "MutexRule",
            "no-job",
            json!({"jobName": "", "jobNamespace": "", "jobSpec": {"foo": {"bar": [1]}}}),
        ),
        (
            "MutexRule",
            "empty-job",
            json!({"jobSpec": {}, "cleanUpJobSpec": {}, "type": "kubernetes"}),
        ),
        ("MutexRule", "clean-up", json!({"cleanUpJobSpec": {}})),
        // Lists that their schemas did not bound.
        (
            "MutexTarget",
            "long",
            json!({"machineConfigPools": (0..2000).map(|index| format!("pool-{index}")).collect::<Vec<_>>()}),
        ),
        (
            "MutexRunConfig",
            "long",
            json!({"mutexTargets": (0..2000).map(|index| json!({"name": format!("t-{index}")})).collect::<Vec<_>>()}),
        ),
        (
            "Plan",
            "long",
            json!({"nodeSelector": {}, "upgrade": {"image": "x", "args": vec!["a"; 200_000]}}),
        ),
    ] {
        apply(&client, &object(kind, name, spec.clone())).await?;
        let stored = serde_json::to_value(api(&client, kind).get(name).await?)?;
        for (field, value) in spec.as_object().unwrap() {
            assert_eq!(&stored["spec"][field], value, "{kind} {name} {field} is kept");
        }
    }
    // A null is as good as nothing.
    let nulls =
        json!({"canary": null, "mutexRules": null, "mutexTargets": targets, "strategy": null, "hold": null});
    let created = api(&client, "MutexRunConfig")
        .create(
            &PostParams::default(),
            &serde_json::from_value(object("MutexRunConfig", "nulls", nulls))?,
        )
        .await?;
    assert_eq!(
        created.data["spec"],
        json!({"mutexTargets": targets, "skipTLSVerify": false})
    );
    cluster.give_back().await;
    Ok(())
}

/// As the reference writes it: plain strings, times that are no RFC 3339.
#[tokio::test]
async fn statuses_of_the_reference_can_be_written_and_read() -> Result<()> {
    let (cluster, client) = start(None).await?;
    for kind in KINDS {
        let spec = match kind {
            "MutexRule" => json!({"jobSpec": {}}),
            "MutexTarget" => json!({"machineConfigPools": ["worker"]}),
            _ => json!({"mutexTargets": [{"name": "x"}]}),
        };
        apply(&client, &object(kind, "old", spec)).await?;
        let status = json!({
            "nodes": ["worker-0"],
            "conditions": [
                {
                    "type": "ValidConfig", "status": "True", "reason": "ValidConfig",
                    "message": "The Host/Token/Job combination is valid.",
                    "lastTransitionTime": "2024-08-12 17:03:11.422917",
                },
                {"type": "JobRun", "status": "maybe", "lastTransitionTime": "yesterday", "message": "a\nb"},
                {"type": "MCPUpdated", "status": "False", "reason": "with spaces", "lastTransitionTime": ""},
            ],
        });
        let patch = Patch::Merge(json!({"status": status}));
        let stored = api(&client, kind)
            .patch_status("old", &PatchParams::default(), &patch)
            .await?;
        assert_eq!(
            stored.data["status"]["conditions"], status["conditions"],
            "{kind} keeps the conditions as they were written"
        );
        let text = serde_json::to_value(stored)?;
        match kind {
            "MutexRule" => drop(serde_json::from_value::<numo_api::MutexRule>(text)?),
            "MutexTarget" => drop(serde_json::from_value::<numo_api::MutexTarget>(text)?),
            _ => drop(serde_json::from_value::<numo_api::MutexRunConfig>(text)?),
        }
    }
    cluster.give_back().await;
    Ok(())
}

#[tokio::test]
async fn what_can_never_have_worked_is_refused_by_the_name_of_its_field() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let change = |status: Value| {
        json!({
            "ownerRef": {"apiVersion": "v1", "kind": "K", "name": "run", "uid": "u"},
            "nodeName": status, "nodeUID": "n",
            "target": {"runID": "r", "version": "4.17.0", "pool": "worker"},
        })
    };
    let cases = [
        ("MutexRule", "spec.jobSpec", json!({"jobSpec": "sleep 30"})),
        ("MutexRule", "spec.jobSpec", json!({"jobSpec": ["sleep", "30"]})),
        ("MutexRule", "spec.jobSpec", json!({"jobSpec": 30})),
        (
            "MutexRule",
            "spec.cleanUpJobSpec",
            json!({"cleanUpJobSpec": "sleep 30"}),
        ),
        (
            "MutexRule",
            "spec.cleanUpJobSpec",
            json!({"cleanUpJobSpec": [{}]}),
        ),
        ("MutexRule", "spec.type", json!({"type": "ansible"})),
        ("MutexRule", "spec.timeoutSeconds", json!({"timeoutSeconds": 0})),
        (
            "MutexRule",
            "spec.timeoutSeconds",
            json!({"timeoutSeconds": 604_801}),
        ),
        ("MutexRule", "spec.retries", json!({"retries": -1})),
        ("MutexRule", "spec.retries", json!({"retries": 11})),
        (
            "MutexRule",
            "spec.failurePolicy",
            json!({"failurePolicy": "Explode"}),
        ),
        ("MutexRule", "spec.phases", json!({"phases": ["Before"]})),
        ("MutexRule", "spec.phases", json!({"phases": vec!["Pre"; 9]})),
        ("MutexRule", "spec.placement", json!({"placement": "Somewhere"})),
        ("MutexRule", "spec.logTailBytes", json!({"logTailBytes": 2049})),
        ("MutexRule", "spec.jobName", json!({"jobName": "x".repeat(254)})),
        (
            "MutexRule",
            "spec.jobNamespace",
            json!({"jobNamespace": "x".repeat(64)}),
        ),
        (
            "MutexTarget",
            "spec.machineConfigPools",
            json!({"machineConfigPools": "worker"}),
        ),
        (
            "MutexTarget",
            "spec.machineConfigPools",
            json!({"machineConfigPools": vec!["worker"; 20_001]}),
        ),
        (
            "MutexRunConfig",
            "spec.mutexRules",
            json!({"mutexRules": vec![json!({"name": "x"}); 65]}),
        ),
        (
            "MutexRunConfig",
            "spec.mutexTargets",
            json!({"mutexTargets": {"name": "x"}}),
        ),
        ("MutexRunConfig", "spec.strategy", json!({"strategy": "Yolo"})),
        ("MutexRunConfig", "spec.order", json!({"order": "Random"})),
        (
            "MutexRunConfig",
            "spec.mutexKeys",
            json!({"mutexKeys": vec!["k"; 9]}),
        ),
        ("MutexRunConfig", "spec.soakSeconds", json!({"soakSeconds": -1})),
        (
            "MutexRunConfig",
            "spec.changeTimeoutSeconds",
            json!({"changeTimeoutSeconds": 0}),
        ),
        ("MutexRunConfig", "spec.onExit", json!({"onExit": "Explode"})),
        (
            "MutexRunConfig",
            "spec.maxUnavailable",
            json!({"maxUnavailable": [1]}),
        ),
        ("MutexRunConfig", "spec.suspend", json!({"suspend": "yes"})),
        (
            "MutexBudget",
            "spec.maxGroups",
            json!({"maxGroups": 0, "groupBy": "zone"}),
        ),
        (
            "MutexBudget",
            "spec.maxUnavailable",
            json!({"maxUnavailable": {}}),
        ),
        ("MutexRunConfig", "spec.window", json!({"window": {}})),
        (
            "MutexRunConfig",
            "spec.domains.atOnce",
            json!({"domains": {"key": "zone", "atOnce": 0}}),
        ),
        (
            "MutexRunConfig",
            "spec.window.openings",
            json!({"window": {"openings": []}}),
        ),
        (
            "MutexRunConfig",
            "spec.window.openings[0]",
            json!({"window": {"openings": [{}]}}),
        ),
        (
            "MutexRunConfig",
            "spec.window.openings[0]",
            json!({"window": {"openings": [{"cron": "0 22 * * *"}]}}),
        ),
        (
            "MutexRunConfig",
            "spec.window.openings[1]",
            json!({"window": {"openings": [
                {"days": ["mon"]}, {"cron": "0 22 * * *", "durationSeconds": 3600, "days": ["mon"]},
            ]}}),
        ),
        (
            "MutexRunConfig",
            "spec.window.openings[0]",
            json!({"window": {"openings": [{"startTime": "22:00"}]}}),
        ),
        (
            "MutexRunConfig",
            "spec.window.freezes[0]",
            json!({"window": {"freezes": [
                {"name": "x", "from": "2027-01-02T00:00:00+01:00", "to": "2027-01-01T23:00:00Z"},
            ]}}),
        ),
        (
            "MutexRunConfig",
            "spec.window.freezes[0].from",
            json!({"window": {"freezes": [{"name": "x", "from": "soon", "to": "2027-01-01T23:00:00Z"}]}}),
        ),
        (
            "MutexRunConfig",
            "spec.startAfter",
            json!({"startAfter": "tomorrow"}),
        ),
        (
            "MutexBinding",
            "spec.window.openings[0]",
            json!({"ownerSelector": {"kind": "Plan"}, "window": {"openings": [{"durationSeconds": 60}]}}),
        ),
        ("NodeChange", "spec.nodeName", change(json!("x".repeat(254)))),
        ("NodeChange", "spec.nodeName", change(Value::Null)),
        ("NodeChange", "spec", json!({})),
    ];
    let mut wrong = Vec::new();
    for (kind, field, spec) in cases {
        match apply(&client, &object(kind, "bad", spec.clone())).await {
            Ok(_) => wrong.push(format!("{kind} {spec} is admitted")),
            Err(kube::Error::Api(status)) => {
                if !status.message.contains(field) {
                    wrong.push(format!("{kind} {spec}: no {field} in: {}", status.message));
                }
            }
            Err(other) => wrong.push(format!("{kind} {spec}: {other}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cluster.give_back().await;
    Ok(())
}

#[tokio::test]
async fn hours_are_admitted_as_the_page_writes_them() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let window = json!({
        "timeZone": "Europe/Warsaw", "minRemainingSeconds": 0,
        "openings": [
            {"days": ["mon", "TUE", "6"], "startTime": "22:00", "endTime": "4am"},
            {"days": ["sun"]}, {"startTime": "1", "endTime": "2"},
            {"cron": "0 8 * * SAT", "durationSeconds": 28_800},
        ],
        "freezes": [{
            "name": "year-end-closing", "from": "2026-12-19T00:00:00+01:00", "to": "2027-01-04T00:00:00.5Z",
            "reason": "the books are being closed",
        }],
    });
    let run =
        json!({"mutexTargets": [{"name": "x"}], "window": window, "startAfter": "2026-12-19T22:00:00Z"});
    apply(&client, &object("MutexRunConfig", "nightly", run)).await?;
    let binding = json!({"ownerSelector": {"kind": "NodeMaintenance"}, "window": window});
    let kept = apply(&client, &object("MutexBinding", "nightly", binding)).await?;
    assert_eq!(kept.data["spec"]["window"], window, "as it was given");
    cluster.give_back().await;
    Ok(())
}

/// A JobSpec stays JSON: fields that no numo knows survive, whatever minor version of Kubernetes has them.
#[tokio::test]
async fn fields_of_a_job_that_numo_does_not_know_are_kept() -> Result<()> {
    let (cluster, client) = start(None).await?;
    let spec = json!({"jobSpec": {
        "newInTheYear2040": {"a": [1, {"b": null}, "c"]},
        "template": {"spec": {"containers": [{"name": "x", "shinyField": true}]}},
    }});
    let rule = object("MutexRule", "future", spec.clone());
    api(&client, "MutexRule")
        .create(&PostParams::default(), &serde_json::from_value(rule)?)
        .await?;
    let stored = serde_json::to_value(api(&client, "MutexRule").get("future").await?)?;
    assert_eq!(stored["spec"], spec);
    let typed: numo_api::MutexRule = serde_json::from_value(stored)?;
    assert_eq!(
        typed.spec.job_spec.as_ref(),
        Some(&spec["jobSpec"]),
        "and through numo's own type"
    );
    cluster.give_back().await;
    Ok(())
}
