//! Writes that the API server refuses have a reason of their own, and the run goes on once they are allowed.

use anyhow::Result;
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::Node,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{NEW, finish, judgement, prepare, quick, released, set, waits, workers};

const POLICY: &str = "no-shields-on-worker-1";

/// Refuses every write that puts numo's shield on worker-1, and waits until the API server does.
async fn refuse(stage: &numo_e2e::Stage) -> Result<()> {
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": {"name": POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"],
            }]},
            "validations": [{
                "expression": "object.metadata.name != 'worker-1' || !('numo.openshift-optional.skrzypek.io/shielded-by' in object.metadata.annotations)",
                "message": "worker-1 is not to be shielded",
            }],
        },
    }))?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    }))?;
    let post = PostParams::default();
    Api::all(stage.client.clone()).create(&post, &policy).await?;
    Api::all(stage.client.clone()).create(&post, &binding).await?;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let shield =
        json!({"metadata": {"annotations": {"numo.openshift-optional.skrzypek.io/shielded-by": "x"}}});
    stage
        .until("the policy is enforced", 60, || async {
            let tried = nodes.patch("worker-1", &dry, &Patch::Merge(&shield)).await;
            Ok(tried.is_err().then_some(()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_an_admission_policy_keeps_numo_off_says_so_and_goes_on_without_it() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    refuse(&stage).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "WriteRefused").await?;
    for word in ["Node worker-1", POLICY, "worker-1 is not to be shielded"] {
        assert!(why.contains(word), "no {word} in: {why}");
    }
    let ready = stage
        .condition("upgrade", "Ready", "False", "WriteRefused")
        .await?;
    assert!(ready.contains(POLICY), "{ready}");
    stage.event("MutexRunConfig", "upgrade", "WriteRefused").await?;
    let text = stage.say(&["explain", "worker-1"]).await?;
    assert!(text.contains("WriteRefused") && text.contains(POLICY), "{text}");
    assert_eq!(released(&stage.world), ["worker-0"]);

    let delete = DeleteParams::default();
    Api::<ValidatingAdmissionPolicyBinding>::all(stage.client.clone())
        .delete(POLICY, &delete)
        .await?;
    Api::<ValidatingAdmissionPolicy>::all(stage.client.clone())
        .delete(POLICY, &delete)
        .await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}
