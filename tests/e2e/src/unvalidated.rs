//! Definitions of numo's kinds that refuse nothing but another shape: a test stores slips by them that an older numo has let in, or that
//! the replaced operator took, to see what becomes of what is stored already.

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use std::time::Duration;

/// What bounds a value beyond its type.
const BOUNDS: [&str; 11] = [
    "x-kubernetes-validations",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

/// The kind of owner that a MutexBinding speaks of: any text, before there was a list.
const KIND_OF_OWNER: &str =
    "/schema/openAPIV3Schema/properties/spec/properties/ownerSelector/properties/kind";

/// Takes rules, patterns and bounds out of numo's definitions, and waits until the API server takes what they refused.
pub async fn strip(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in numo_api::crds::all() {
        let name = crd.metadata.name.clone().context("a name")?;
        let mut definition = serde_json::to_value(api.get(&name).await?)?;
        let versions = definition["spec"]["versions"].as_array_mut();
        for version in versions.into_iter().flatten() {
            loosen(&mut version["schema"]["openAPIV3Schema"]);
            let kind = version.pointer_mut(KIND_OF_OWNER).and_then(Value::as_object_mut);
            kind.and_then(|kind| kind.remove("enum"));
        }
        let definition = serde_json::from_value(definition)?;
        let replaced = api.replace(&name, &PostParams::default(), &definition).await;
        replaced.with_context(|| format!("CustomResourceDefinition {name}"))?;
    }
    let slips = [
        (numo_api::GROUP, "MutexRule", json!({})),
        (numo_api::GROUP, "MutexTarget", json!({"machineConfigPools": []})),
        (numo_api::GROUP, "MutexRunConfig", json!({"mutexRules": [{}]})),
        (numo_api::NUMO_GROUP, "MutexBudget", json!({"maxUnavailable": -3})),
        (numo_api::NUMO_GROUP, "MutexWindow", json!({"openings": [{}]})),
        (numo_api::NUMO_GROUP, "MutexNotifier", json!({"maxPerMinute": 0})),
        (
            numo_api::NUMO_GROUP,
            "MutexBinding",
            json!({"ownerSelector": {"kind": "plans"}}),
        ),
        (
            numo_api::NUMO_GROUP,
            "NodeChange",
            json!({
                "ownerRef": {"apiVersion": "v1", "kind": "", "name": "", "uid": ""}, "nodeName": "", "nodeUID": "",
                "target": {"runID": "", "version": "", "pool": ""},
            }),
        ),
    ];
    for (group, kind, spec) in slips {
        takes(client, (group, kind), spec).await?;
    }
    Ok(())
}

fn loosen(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    for bound in BOUNDS {
        fields.remove(bound);
    }
    for part in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(part) {
            loosen(inner);
        }
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    for (_, field) in properties.into_iter().flatten() {
        loosen(field);
    }
}

/// Waits until the API server would store such an object: it learns of a definition a moment after that is written.
async fn takes(client: &Client, (group, kind): (&str, &str), spec: Value) -> Result<()> {
    let gvk = GroupVersionKind::gvk(group, numo_api::VERSION, kind);
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = match kind {
        "MutexBudget" | "MutexWindow" | "MutexBinding" | "MutexNotifier" | "MutexApproval" => {
            Api::all_with(client.clone(), &resource)
        }
        _ => Api::namespaced_with(client.clone(), crate::NAMESPACE, &resource),
    };
    let slip = json!({
        "apiVersion": gvk.api_version(), "kind": kind, "metadata": {"name": "slip"}, "spec": spec,
    });
    let params = PatchParams::apply("kubectl").dry_run();
    let mut last = None;
    for _ in 0..200 {
        match api.patch("slip", &params, &Patch::Apply(&slip)).await {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the API server refuses {kind} {slip} still: {last:?}")
}
