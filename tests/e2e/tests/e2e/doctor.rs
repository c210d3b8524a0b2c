//! `numo doctor` on an installation that is sound, and on one that is broken in several ways: each finding names the object
//! and its cure, and nothing is written.

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
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
        "TokenPolicies",
        "OtherOperators",
        "Rules",
    ] {
        assert_eq!(of(&found, check, "ok").len(), 1, "{check}: {found:#?}");
    }
    let shown = stage.say(&["doctor"]).await?;
    let is_well = |line: &str| line.split_whitespace().take(2).eq(["ok", "Permissions"]);
    assert!(shown.lines().any(is_well), "{shown}");
    // It reads, asks who may do what, and tries by dry run.
    let writes: Vec<String> = stage.cluster.audit()?[before..]
        .iter()
        .filter(|event| event.user_agent.contains("doctor"))
        .filter(|event| !["get", "list"].contains(&event.verb.as_str()))
        .filter(|event| event.resource != "subjectaccessreviews" && !event.uri.contains("dryRun=All"))
        .map(|event| format!("{} {}", event.verb, event.uri))
        .collect();
    assert_eq!(writes, Vec::<String>::new());

    // Broken: a right is taken away, another's controller runs, a definition is another's, a rule cannot be asked, the webhook is
    // one that nobody serves, and of what limits numo's token a policy is gone and a binding only audits.
    loosen_the_token(&stage).await?;
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
        "metadata": {"name": "empty", "namespace": NAMESPACE}, "spec": {"jobSpec": {}},
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
        "TokenPolicies",
        "wrong",
        "ValidatingAdmissionPolicy numo-nodes is not there",
    );
    one(
        "TokenPolicies",
        "wrong",
        "no ValidatingAdmissionPolicyBinding makes ValidatingAdmissionPolicy numo-pools deny",
    );
    let cure = found.iter().find(|one| one["check"] == "TokenPolicies");
    assert_eq!(
        cure.context("TokenPolicies")?["cure"],
        "kubectl apply -f deploy/kustomize/base/admission_policy.yaml"
    );
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
    let said = stage
        .call(&["doctor", "--operator-namespace", "elsewhere"])
        .await?;
    assert!(
        said.out.contains("has never run in namespace elsewhere"),
        "{said:?}"
    );
    assert!(said.out.contains("a second numo runs"), "{said:?}");

    let put_back = Patch::Merge(json!({"rules": role.rules}));
    roles.patch("numo", &PatchParams::default(), &put_back).await?;
    stage.strike().await
}

/// Takes away one policy of numo's token, and has another one only audit.
async fn loosen_the_token(stage: &Stage) -> Result<()> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(stage.client.clone());
    policies.delete("numo-nodes", &DeleteParams::default()).await?;
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(stage.client.clone());
    let audits = Patch::Merge(json!({"spec": {"validationActions": ["Audit"]}}));
    bindings
        .patch("numo-pools", &PatchParams::default(), &audits)
        .await?;
    Ok(())
}

/// A Role or ClusterRole over Plans, and its binding to a user, by one name.
fn grant(name: &str, namespace: Option<&str>, verb: &str, user: &str) -> [Value; 2] {
    let kind = if namespace.is_some() {
        "Role"
    } else {
        "ClusterRole"
    };
    let metadata = json!({"name": name, "namespace": namespace});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
        "rules": [{"apiGroups": ["upgrade.cattle.io"], "resources": ["plans"], "verbs": [verb]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    [role, binding]
}

/// A Plan's Job is root on its node: who may write Plans where they are watched is named, and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_write_plans_is_named() -> Result<()> {
    let mut stage = set(workers(1), Vec::new()).await?;
    // Plans are watched in a namespace that has not invited numo.
    stage.may_lack_rights = true;
    let namespaces = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": "team-a", "labels": {"numo.openshift-optional.skrzypek.io/plans": "true"},
        }}),
    ];
    apply(&stage, &namespaces).await?;
    let mut reader = grant("plan-reader", None, "list", "rita");
    let looks = [("apps", "deployments"), ("", "namespaces")]
        .map(|(group, resource)| json!({"apiGroups": [group], "resources": [resource], "verbs": ["list"]}));
    let rules = reader[0]["rules"].as_array_mut().context("rules")?;
    rules.extend(looks);
    let grants = [
        grant("upgrader", None, "*", "ursula"),
        reader,
        grant("maker", Some("team-a"), "create", "mary\u{202e}"),
        grant("maker", Some("shop"), "create", "kim"),
    ];
    apply(&stage, &grants.concat()).await?;
    let (found, _) = findings(&stage).await?;
    let said = of(&found, "PlanWriters", "note");
    assert_eq!(said.len(), 1, "{found:#?}");
    for named in [
        "who may write Plans is root on the nodes",
        "Group system:masters",
        "User ursula",
        "User mary\u{fffd} (in team-a)",
        &format!("ServiceAccount {NAMESPACE}/numo (numo itself)"),
    ] {
        assert!(said[0].contains(named), "{named}: {said:?}");
    }
    for nobody in ["User rita", "User kim"] {
        assert!(!said[0].contains(nobody), "{nobody}: {said:?}");
    }
    assert_eq!(said[0].matches("system:masters").count(), 1, "{said:?}");
    assert!(of(&found, "Signatures", "note").is_empty(), "{found:#?}");
    heeds_the_deployment(&stage).await?;

    // Who may not read roles is told so.
    let said = stage.call(&["doctor", "--as", "rita", "-o", "json"]).await?;
    let found: Vec<Value> = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    let unknown = of(&found, "PlanWriters", "unknown");
    assert!(
        unknown.len() == 1 && unknown[0].contains("clusterroles"),
        "{found:#?}"
    );
    stage.strike().await
}

/// What numo's Deployment says counts: where Plans are watched, and whether anybody must have signed components.
async fn heeds_the_deployment(stage: &Stage) -> Result<()> {
    let deployment = |args: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "numo", "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": "numo"}},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"app": "numo"}},
                "template": {"metadata": {"labels": {"app": "numo"}}, "spec": {
                    "containers": [{"name": "numo", "image": "numo", "args": args}],
                }},
            },
        })
    };
    apply(stage, &[deployment(json!(["run", "--plan-namespaces=shop"]))]).await?;
    let (found, _) = findings(stage).await?;
    let said = of(&found, "PlanWriters", "note").concat();
    assert!(said.contains("User kim (in shop)"), "{said}");
    let said = of(&found, "Signatures", "note").concat();
    assert!(said.contains("anything runs"), "{said}");
    let keys = json!(["run", "--rule-keys", "/keys/rules.pem"]);
    apply(stage, &[deployment(keys)]).await?;
    let (found, _) = findings(stage).await?;
    assert_eq!(of(&found, "Signatures", "ok").len(), 1, "{found:#?}");
    // Nothing that was meant to ask for signatures is empty unseen.
    let said = stage.call(&["run", "--require-signatures"]).await?;
    assert!(
        said.code == Some(2) && said.err.contains("--rule-keys"),
        "{said:?}"
    );
    Ok(())
}
