//! Writes that the API server refuses have a reason of their own, and the run goes on once they are allowed.

use anyhow::Result;
use k8s_openapi::api::{
    admissionregistration::v1::{
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
    },
    core::v1::Node,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use numo_api::{MutexRunConfig, Step, node_maintenance::MEDIK8S_GROUP};
use serde_json::{Value, json};

use crate::{
    NEW, apply, explained, finish, judgement,
    maintenance::{self, is_cordoned, maintain, node, phase},
    plans, prepare, quick, released, set, waits, workers,
};

const POLICY: &str = "no-shields-on-worker-1";

/// Refuses writes to these resources that are not so, with this message.
async fn deny(stage: &numo_e2e::Stage, of: Value, expression: &str, message: &str) -> Result<()> {
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": {"name": POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [of]},
            "validations": [{"expression": expression, "message": message}],
        },
    }))?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    }))?;
    let post = PostParams::default();
    Api::all(stage.client.clone()).create(&post, &policy).await?;
    Api::all(stage.client.clone()).create(&post, &binding).await?;
    Ok(())
}

/// Refuses every write that puts numo's shield on worker-1, and waits until the API server does.
async fn refuse(stage: &numo_e2e::Stage) -> Result<()> {
    let of =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]});
    let expression = "object.metadata.name != 'worker-1' || \
                      !('numo.openshift-optional.skrzypek.io/shielded-by' in object.metadata.annotations)";
    deny(stage, of, expression, "worker-1 is not to be shielded").await?;
    stage
        .until("the policy is enforced", 60, || async {
            Ok(try_shield(stage).await.is_err().then_some(()))
        })
        .await
}

/// Shields worker-1 by dry run.
async fn try_shield(stage: &numo_e2e::Stage) -> kube::Result<Node> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let shield =
        json!({"metadata": {"annotations": {"numo.openshift-optional.skrzypek.io/shielded-by": "x"}}});
    nodes.patch("worker-1", &dry, &Patch::Merge(&shield)).await
}

/// Refuses it no more.
async fn allow(stage: &numo_e2e::Stage) -> Result<()> {
    let delete = DeleteParams::default();
    Api::<ValidatingAdmissionPolicyBinding>::all(stage.client.clone())
        .delete(POLICY, &delete)
        .await?;
    Api::<ValidatingAdmissionPolicy>::all(stage.client.clone())
        .delete(POLICY, &delete)
        .await?;
    Ok(())
}

/// A status that nobody may write is no silence: an event says so, once, and the run goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_an_admission_policy_refuses_is_said_by_an_event() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    let of = json!({
        "apiGroups": ["openshift-optional.skrzypek.io"], "apiVersions": ["v1alpha1"], "operations": ["UPDATE"],
        "resources": ["mutexrunconfigs/status", "mutexrules/status"],
    });
    deny(&stage, of, "false", "nobody writes this status").await?;
    let runs: Api<MutexRunConfig> = stage.api();
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let status = json!({"status": {"observedGeneration": 99}});
    stage
        .until("the policy is enforced", 60, || async {
            let tried = runs.patch_status("upgrade", &dry, &Patch::Merge(&status)).await;
            Ok(tried.is_err().then_some(()))
        })
        .await?;
    stage.world.upgrade_to(NEW).await?;
    let event = stage.event("MutexRunConfig", "upgrade", "WriteRefused").await?;
    let note = event.note.unwrap_or_default();
    assert!(
        note.contains("the status of") && note.contains("nobody writes this status"),
        "{note}"
    );
    stage.upgraded("worker", NEW).await?;
    // Of what is no owner too: a rule that is edited has a status to be written.
    let rules: Api<numo_api::MutexRule> = stage.api();
    let edit = json!({"spec": {"passSeconds": 90}});
    rules
        .patch("quick", &PatchParams::default(), &Patch::Merge(&edit))
        .await?;
    let event = stage.event("MutexRule", "quick", "WriteRefused").await?;
    let note = event.note.unwrap_or_default();
    assert!(note.starts_with("the status of MutexRule "), "{note}");
    let events = stage.events().await?;
    let of_run = |event: &&k8s_openapi::api::events::v1::Event| {
        let about = event.regarding.as_ref().and_then(|about| about.kind.as_deref());
        event.reason.as_deref() == Some("WriteRefused") && about == Some("MutexRunConfig")
    };
    assert_eq!(events.iter().filter(of_run).count(), 1, "said once");
    allow(&stage).await?;
    // The status of before the policy says UpToDate as well, with the old version. Whether the pools were given back
    // before a status could be written decides what the run remembers of itself.
    stage
        .until("the run is at rest", 90, || async {
            let run = stage.run("upgrade").await?;
            let reasons = ["Succeeded", "UpToDate"];
            Ok(crate::condition(&run, "Ready")
                .filter(|ready| {
                    ready
                        .reason
                        .as_deref()
                        .is_some_and(|reason| reasons.contains(&reason))
                })
                .filter(|ready| {
                    ready
                        .message
                        .as_deref()
                        .is_some_and(|message| message.contains(NEW))
                })
                .map(drop))
        })
        .await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

fn says(why: &str) {
    for words in ["Node worker-1", POLICY, "worker-1 is not to be shielded"] {
        assert!(why.contains(words), "no {words} in: {why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_an_admission_policy_keeps_numo_off_says_so_and_goes_on_without_it() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    refuse(&stage).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    says(&waits(&stage, "WriteRefused").await?);
    let ready = stage
        .condition("upgrade", "Ready", "False", "WriteRefused")
        .await?;
    assert!(ready.contains(POLICY), "{ready}");
    stage.event("MutexRunConfig", "upgrade", "WriteRefused").await?;
    let text = stage.say(&["explain", "worker-1"]).await?;
    assert!(text.contains("WriteRefused") && text.contains(POLICY), "{text}");
    assert_eq!(released(&stage.world), ["worker-0"]);

    allow(&stage).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

/// A webhook that takes connections and never answers: the write is neither taken nor refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_never_answered_is_told_and_the_run_goes_on_without_the_node() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let port = silent.local_addr()?.port();
    let holds = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = silent.accept().await {
            held.push(socket);
        }
    });
    let webhook: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": POLICY},
        "webhooks": [{
            "name": "silent.example.com",
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/")},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}],
            "matchConditions": [{
                "name": "shields-on-worker-1",
                "expression": "object.metadata.name == 'worker-1' && \
                               'numo.openshift-optional.skrzypek.io/shielded-by' in object.metadata.annotations",
            }],
            "failurePolicy": "Fail", "timeoutSeconds": 30, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    }))?;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    webhooks.create(&PostParams::default(), &webhook).await?;
    stage
        .until("the webhook is asked", 60, || async {
            let answer = tokio::time::timeout(std::time::Duration::from_secs(2), try_shield(&stage)).await;
            Ok(answer.is_err().then_some(()))
        })
        .await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "WriteRefused").await?;
    assert!(
        why.contains("fails again and again: not answered within 10 s"),
        "{why}"
    );
    stage.event("MutexRunConfig", "upgrade", "WriteRefused").await?;
    webhooks.delete(POLICY, &DeleteParams::default()).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    holds.abort();
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_what_keeps_numo_off_a_node_and_goes_on_once_it_is_allowed() -> Result<()> {
    let stage = plans::stage(2, Vec::new()).await?;
    refuse(&stage).await?;
    apply(
        &stage,
        &[plans::plan(
            "k3s",
            "true",
            json!({"cordon": true, "concurrency": 2}),
        )],
    )
    .await?;
    says(&plans::waits(&stage, "k3s", "WriteRefused").await?);
    let text = explained(&stage, "worker-1", "WriteRefused", 60).await?;
    says(&text);
    plans::step(&stage, "worker-0", Step::Done).await?;
    assert!(!is_cordoned(&node(&stage, "worker-1").await?), "it was not begun");
    allow(&stage).await?;
    plans::complete(&stage, "k3s").await?;
    plans::is_restored(&stage, "k3s").await?;
    stage.strike().await
}

/// A label that a Plan asks for and no administrator has listed is named, with where it is listed.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_which_label_is_not_listed_and_goes_on_once_it_is() -> Result<()> {
    let stage = plans::stage(1, Vec::new()).await?;
    let spec = json!({"cordon": true, "postCompleteLabels": {"example.com/at": "$(LATEST_VERSION)"}});
    apply(&stage, &[plans::plan("k3s", "true", spec)]).await?;
    let why = plans::waits(&stage, "k3s", "WriteRefused").await?;
    for words in [
        "label example.com/at of Node worker-0",
        "variable listed of ValidatingAdmissionPolicy numo-nodes",
    ] {
        assert!(why.contains(words), "{why}");
    }
    assert!(!is_cordoned(&node(&stage, "worker-0").await?), "it is in service");
    crate::rights::list_labels(&stage, &["example.com/at"]).await?;
    plans::complete(&stage, "k3s").await?;
    plans::is_restored(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_says_what_keeps_numo_off_its_node_and_goes_on_once_it_is_allowed() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    refuse(&stage).await?;
    maintain(&stage, "nm", "worker-1", json!({})).await?;
    says(&maintenance::waits(&stage, "nm", "WriteRefused").await?);
    let said = maintenance::status(&stage, MEDIK8S_GROUP, "nm").await?;
    says(&said.last_error.unwrap_or_default());
    let text = explained(&stage, "worker-1", "WriteRefused", 60).await?;
    says(&text);
    assert!(!is_cordoned(&node(&stage, "worker-1").await?), "it was not begun");
    allow(&stage).await?;
    let said = phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    assert_eq!(said.last_error.unwrap_or_default(), "");
    stage.strike().await
}
