//! `numo doctor` on an installation that is sound, and on one that is broken in several ways: each finding names the object
//! and its cure, and nothing is written.

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use k8s_openapi::{
    api::rbac::v1::ClusterRole,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use numo_e2e::{NAMESPACE, Stage};
use serde_json::{Value, json};

use crate::{apply, set, workers};

/// What is found, and the exit code.
async fn findings(stage: &Stage) -> Result<(Vec<Value>, Option<i32>)> {
    let said = stage.call(&["doctor", "-o", "json"]).await?;
    let found = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    Ok((found, said.code))
}

fn of<'a>(found: &'a [Value], check: &str, state: &str) -> Vec<&'a str> {
    let meant = found
        .iter()
        .filter(|one| one["check"] == check && one["state"] == state);
    meant.filter_map(|one| one["message"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_installation_is_found_so_and_a_broken_one_is_named_with_its_cure() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let leading =
        || async { Ok(of(&findings(&stage).await?.0, "Leader", "ok").len() == 1).map(|is| is.then_some(())) };
    stage.until("somebody leads", 60, leading).await?;
    let before = stage.cluster.audit()?.len();
    let (found, code) = findings(&stage).await?;
    let wrong: Vec<&Value> = found
        .iter()
        .filter(|one| one["state"] == "wrong" || one["state"] == "unknown")
        .collect();
    assert_eq!((wrong, code), (Vec::new(), Some(0)));
    for check in [
        "Version",
        "Definitions",
        "Leader",
        "Permissions",
        "OtherOperators",
        "Rules",
    ] {
        assert_eq!(of(&found, check, "ok").len(), 1, "{check}: {found:#?}");
    }
    let shown = stage.say(&["doctor"]).await?;
    assert!(shown.contains("ok       Permissions"), "{shown}");
    // It reads, asks who may do what, and tries by dry run.
    let writes: Vec<String> = stage.cluster.audit()?[before..]
        .iter()
        .filter(|event| event.user_agent.contains("doctor"))
        .filter(|event| !["get", "list"].contains(&event.verb.as_str()))
        .filter(|event| event.resource != "subjectaccessreviews" && !event.uri.contains("dryRun=All"))
        .map(|event| format!("{} {}", event.verb, event.uri))
        .collect();
    assert_eq!(writes, Vec::<String>::new());

    // Broken: a right is taken away, another's controller runs, a definition is another's, a rule cannot be asked, and the
    // webhook is one that nobody serves.
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    let role = roles.get("numo").await?;
    let mut less = role.clone();
    for rule in less.rules.iter_mut().flatten() {
        if rule
            .resources
            .as_ref()
            .is_some_and(|all| all.contains(&"pods/eviction".to_owned()))
        {
            rule.verbs = vec!["get".to_owned()];
        }
    }
    let patch = Patch::Merge(json!({"rules": less.rules}));
    roles.patch("numo", &PatchParams::default(), &patch).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let mut plan = definitions.get("plans.upgrade.cattle.io").await?;
    let schema = plan.spec.versions[0]
        .schema
        .as_mut()
        .and_then(|one| one.open_api_v3_schema.as_mut());
    let spec = schema
        .and_then(|one| one.properties.as_mut())
        .and_then(|all| all.get_mut("spec"));
    let properties = spec.and_then(|one| one.properties.as_mut()).context("spec")?;
    properties.remove("mutex").context("spec.mutex")?;
    definitions
        .replace("plans.upgrade.cattle.io", &PostParams::default(), &plan)
        .await?;
    let theirs = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "system-upgrade-controller", "namespace": "default"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "suc"}},
            "template": {"metadata": {"labels": {"app": "suc"}}, "spec": {
                "containers": [{"name": "suc", "image": "rancher/system-upgrade-controller"}],
            }},
        },
    });
    let of_theirs = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "suc"},
        "rules": [{"apiGroups": ["upgrade.cattle.io"], "resources": ["plans/status"], "verbs": ["update"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "suc"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "suc"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    });
    apply(&stage, &[of_theirs, binding, theirs]).await?;
    let vouches = rcgen::generate_simple_self_signed(vec!["nobody".to_owned()])?
        .cert
        .pem();
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "numo"},
        "webhooks": [{
            "name": "vnodemaintenance.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 1,
            "clientConfig": {"url": "https://127.0.0.1:9/validate", "caBundle": STANDARD.encode(vouches)},
            "rules": [{
                "apiGroups": ["nodemaintenance.medik8s.io"], "apiVersions": ["v1beta1"],
                "resources": ["nodemaintenances"], "operations": ["CREATE"], "scope": "Cluster",
            }],
        }],
    });
    let broken_rule = json!({
        "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRule",
        "metadata": {"name": "empty", "namespace": NAMESPACE}, "spec": {},
    });
    apply(&stage, &[broken_rule, hook]).await?;
    let (found, code) = stage
        .until("everything is found", 60, || async {
            let (found, code) = findings(&stage).await?;
            let all = ["Permissions", "OtherOperators", "Rules"];
            Ok(all
                .iter()
                .all(|check| !of(&found, check, "wrong").is_empty())
                .then_some((found, code)))
        })
        .await?;
    assert_eq!(code, Some(1));
    let one = |check: &str, state: &str, words: &str| {
        let said = of(&found, check, state);
        assert!(said.iter().any(|one| one.contains(words)), "{check}: {found:#?}");
    };
    one("Permissions", "wrong", "create pods/eviction");
    one(
        "OtherOperators",
        "wrong",
        "Deployment default/system-upgrade-controller runs",
    );
    one(
        "Definitions",
        "note",
        "plans.upgrade.cattle.io is another operator's and drops spec.mutex",
    );
    one("Webhook", "wrong", "the webhook does not answer");
    one(
        "Rules",
        "wrong",
        &format!("MutexRule {NAMESPACE}/empty is not Ready"),
    );
    for finding in found.iter().filter(|one| one["state"] == "wrong") {
        assert!(
            finding["cure"].as_str().is_some_and(|cure| !cure.is_empty()),
            "{finding}"
        );
    }
    // Elsewhere nobody runs.
    let said = stage.call(&["doctor", "--namespace", "elsewhere"]).await?;
    assert!(
        said.out.contains("has never run in namespace elsewhere"),
        "{said:?}"
    );
    assert!(said.out.contains("a second numo runs"), "{said:?}");

    let put_back = Patch::Merge(json!({"rules": role.rules}));
    roles.patch("numo", &PatchParams::default(), &put_back).await?;
    stage.strike().await
}
