//! What was stored before the definitions refused it is served, may be written everywhere but where it is broken, and can be deleted.

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{admission::object, api, established, parse, read, start};

/// Slips that the definitions of the recorded release took.
fn slips() -> Vec<(&'static str, Value)> {
    vec![
        ("MutexRule", json!({})),
        ("MutexRule", Value::Null),
        (
            "MutexRule",
            json!({"type": "cel", "jobSpec": {}, "phases": ["Admit"], "jobNamespace": "../x"}),
        ),
        (
            "MutexRule",
            json!({"type": "wasm", "wasm": {"image": "", "signature": {}}}),
        ),
        ("MutexTarget", json!({})),
        ("MutexTarget", json!({"machineConfigPools": [""]})),
        ("MutexRunConfig", json!({})),
        ("MutexRunConfig", Value::Null),
        (
            "MutexRunConfig",
            json!({
                "canary": {}, "mutexRules": [{}, {"name": ""}], "mutexTargets": [{}], "hold": "Always", "maxUnavailable": "lots",
                "failureBudget": -1, "first": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
            }),
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": [{"name": "x"}], "mutexRules": [{}], "canary": null, "first": null}),
        ),
        ("MutexBudget", json!({})),
        ("MutexBudget", json!({"nodeSelector": {}, "maxUnavailable": -3})),
        (
            "MutexBinding",
            json!({"ownerSelector": {"kind": "NodeMaintenance"}, "order": "Name", "rules": [{}], "drain": {"order": "Label"}}),
        ),
        (
            "MutexBinding",
            json!({"ownerSelector": {"kind": "Plan"}, "mutexKeys": [], "drain": {}, "retries": 0}),
        ),
        (
            "MutexRunConfig",
            json!({"mutexTargets": [{"name": "x"}], "mutexKeys": [""]}),
        ),
        (
            "MutexRule",
            json!({"jobSpec": {}, "phases": ["PreRun"], "failurePolicy": "Skip", "placement": "OnTarget"}),
        ),
        (
            "MutexRule",
            json!({"type": "cel", "cel": {"validations": [{"expression": "true"}], "objects": [
                {"name": "a", "apiVersion": "v1", "kind": "Pod", "labelSelector": "a in ("},
            ]}}),
        ),
        (
            "MutexRule",
            json!({"type": "prometheus", "prometheus": {"alerts": {"matchers": ["severity"]}}}),
        ),
        (
            "NodeMaintenance",
            json!({"nodeName": "worker-0", "mutexRules": [{}], "drain": {"order": "Label"}}),
        ),
        (
            "Plan",
            json!({"upgrade": {"image": "x"}, "mutex": {"rules": [{}], "maxUnavailable": "lots"}}),
        ),
        (
            "NodeChange",
            json!({
                "ownerRef": {"apiVersion": "v1", "kind": "", "name": "", "uid": ""}, "nodeName": "", "nodeUID": "n",
                "target": {"runID": "r", "version": "", "pool": ""},
            }),
        ),
    ]
}

/// Puts these definitions in the place of those that are there.
async fn define(client: &Client, definitions: Vec<CustomResourceDefinition>) -> Result<()> {
    let all: Api<CustomResourceDefinition> = Api::all(client.clone());
    for mut definition in definitions {
        let name = definition.name_any();
        definition.metadata.resource_version = all.get(&name).await?.metadata.resource_version;
        all.replace(&name, &PostParams::default(), &definition)
            .await
            .with_context(|| name.clone())?;
        established(&all, &name).await?;
    }
    Ok(())
}

fn recorded() -> Result<Vec<CustomResourceDefinition>> {
    let files = numo_api::crds::all();
    let files = files.iter().map(|crd| {
        format!(
            "tests/install/released/0.1.0/{}_{}.yaml",
            crd.spec.group, crd.spec.names.plural
        )
    });
    let read = |file: String| {
        let document = parse(&read(&file)?)?.into_iter().next().context(file)?;
        Ok(serde_json::from_value(document)?)
    };
    // A kind that came later has no older definition.
    files
        .filter(|file| crate::root().join(file).is_file())
        .map(read)
        .collect()
}

#[tokio::test]
async fn what_is_stored_already_is_served_and_its_status_can_be_written() -> Result<()> {
    let (cluster, client) = start(None).await?;
    define(&client, recorded()?).await?;
    let create = async |kind: &str, name: &str, spec: &Value| {
        let object = serde_json::from_value(object(kind, name, spec.clone()))?;
        let made = api(&client, kind).create(&PostParams::default(), &object).await;
        made.map_err(anyhow::Error::from)
    };
    // The API server learns of a definition a moment after that is written.
    for (index, (kind, spec)) in slips().iter().enumerate() {
        let name = format!("slip-{index}");
        let mut made = create(kind, &name, spec).await;
        for _ in 0..100 {
            if made.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            made = create(kind, &name, spec).await;
        }
        made.with_context(|| format!("{kind} {spec} is stored"))?;
    }
    define(&client, numo_api::crds::all()).await?;
    let mut wrong = Vec::new();
    for (index, (kind, spec)) in slips().iter().enumerate() {
        let name = format!("slip-{index}");
        for _ in 0..100 {
            if create(kind, "another", spec).await.is_err() {
                break;
            }
            api(&client, kind)
                .delete("another", &DeleteParams::default())
                .await?;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let of = api(&client, kind);
        if create(kind, "another", spec).await.is_ok() {
            wrong.push(format!("{kind} {spec} is admitted anew"));
        }
        let served = of.get(&name).await?;
        if !spec.is_null() && served.data.get("spec").is_none() {
            wrong.push(format!("{kind} {spec} has lost its spec: {:?}", served.data));
        }
        let writer = PatchParams::apply("numo").force();
        let types = served.types.clone().context("types")?;
        let mut status =
            json!({"apiVersion": types.api_version, "kind": types.kind, "metadata": {"name": name}});
        let condition = json!([{
            "type": "Ready", "status": "False", "reason": "InvalidField", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        status["status"] = json!({"conditions": condition});
        if let Err(error) = of.patch_status(&name, &writer, &Patch::Apply(&status)).await {
            wrong.push(format!("{kind} {spec}: its status: {error}"));
        }
        // A journal is replaced whole, as numo does it.
        let mut whole = of.get(&name).await?;
        whole.data["status"]["conditions"][0]["message"] = json!("y");
        if let Err(error) = of.replace_status(&name, &PostParams::default(), &whole).await {
            wrong.push(format!("{kind} {spec}: its status, replaced: {error}"));
        }
        let marks = json!({"metadata": {
            "annotations": {"example.com/a": "b"}, "labels": {"a": "b"}, "finalizers": ["example.com/keep"],
        }});
        let person = PatchParams::default();
        if let Err(error) = of.patch(&name, &person, &Patch::Merge(&marks)).await {
            wrong.push(format!("{kind} {spec}: its metadata: {error}"));
        }
        let release = json!({"metadata": {"finalizers": null}});
        if let Err(error) = of.patch(&name, &person, &Patch::Merge(&release)).await {
            wrong.push(format!("{kind} {spec}: its finalizer: {error}"));
        }
        of.delete(&name, &DeleteParams::default()).await?;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cluster.give_back().await;
    Ok(())
}

/// What is broken in one field can be mended there, and changed in another without mending it.
#[tokio::test]
async fn of_what_is_stored_one_field_can_be_mended_alone() -> Result<()> {
    let (cluster, client) = start(None).await?;
    define(&client, recorded()?).await?;
    let of = api(&client, "MutexRunConfig");
    let spec = json!({"mutexTargets": [{"name": "x"}], "maxUnavailable": "lots", "failureBudget": -1});
    let stored = serde_json::from_value(object("MutexRunConfig", "slip", spec))?;
    for _ in 0..100 {
        if of.create(&PostParams::default(), &stored).await.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    define(&client, numo_api::crds::all()).await?;
    let set = async |spec: Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        of.patch("slip", &PatchParams::default(), &patch).await
    };
    let mut refused = set(json!({"maxUnavailable": "many"})).await;
    for _ in 0..100 {
        if refused.is_err() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        refused = set(json!({"maxUnavailable": "some"})).await;
    }
    assert!(refused.is_err(), "another slip is refused");
    set(json!({"suspend": true})).await?;
    set(json!({"maxUnavailable": 1})).await?;
    let kept = of.get("slip").await?;
    assert_eq!(kept.data["spec"]["failureBudget"], -1);
    cluster.give_back().await;
    Ok(())
}
