//! Where and as whom a rule's Job may run: who may write rules in one namespace never becomes somebody in another.

use crate::{
    apply, job,
    jobs::{invite, namespace},
    maintenance::{maintain, phase, waits},
    object, set, workers,
};
use anyhow::Result;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use numo_api::{marks, node_maintenance::MEDIK8S_GROUP};
use numo_e2e::{NAMESPACE, Stage};
use serde_json::{Value, json};

use crate::plans::PLANS;

/// A rule of a team whose Job runs as this account of another namespace.
fn greedy(name: &str, namespace: &str, account: &str) -> Value {
    let mut spec = job("true");
    spec["template"]["spec"]["serviceAccountName"] = json!(account);
    let mut rule = object(
        "MutexRule",
        name,
        json!({"jobNamespace": namespace, "jobSpec": spec}),
    );
    rule["metadata"]["namespace"] = json!("team");
    rule
}

async fn annotate(stage: &Stage, namespace: &str, from: &str) -> Result<()> {
    let api: Api<Namespace> = Api::all(stage.client.clone());
    let patch = json!({"metadata": {"annotations": {(marks::RULE_JOBS_FROM): from}}});
    api.patch(namespace, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// A maintenance of an administrator that names one rule of the team.
async fn asks(stage: &Stage, name: &str, node: &str) -> Result<()> {
    let rules = json!({"mutexRules": [{"name": name, "namespace": "team"}]});
    maintain(stage, name, node, rules).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_of_a_team_becomes_neither_numo_nor_who_upgrades() -> Result<()> {
    let stage = set(workers(4), Vec::new()).await?;
    namespace(&stage, "team", json!({})).await?;
    namespace(&stage, "shared", json!({})).await?;
    namespace(&stage, PLANS, json!({})).await?;
    invite(&stage, "shared").await?;
    apply(
        &stage,
        &[
            greedy("as-numo", NAMESPACE, "numo"),
            greedy("as-upgrade", PLANS, "system-upgrade"),
            greedy("elsewhere", "shared", "default"),
        ],
    )
    .await?;
    for (rule, node) in [
        ("as-numo", "worker-0"),
        ("as-upgrade", "worker-1"),
        ("elsewhere", "worker-2"),
    ] {
        asks(&stage, rule, node).await?;
    }
    let why = waits(&stage, "as-numo", "RuleInvalid").await?;
    assert!(why.contains("numo's own"), "{why}");
    let why = waits(&stage, "as-upgrade", "RuleInvalid").await?;
    assert!(
        why.contains("spec.jobNamespace") && why.contains("has Plans"),
        "{why}"
    );
    let why = waits(&stage, "elsewhere", "RuleInvalid").await?;
    assert!(
        why.contains("spec.jobNamespace") && why.contains("kubectl annotate namespace shared"),
        "{why}"
    );
    let tried = |stage: &Stage| -> Result<Vec<String>> {
        let requests = stage.requests()?.into_iter();
        let jobs = requests.filter(|one| one.resource == "jobs" && one.verb == "create");
        Ok(jobs.map(|one| one.uri).collect())
    };
    assert_eq!(tried(&stage)?, Vec::<String>::new(), "not even by dry run");

    // The word of an administrator of the namespace opens it, but neither a namespace with Plans, nor numo's own account.
    for name in [NAMESPACE, PLANS, "shared"] {
        annotate(&stage, name, "others, team").await?;
    }
    phase(&stage, MEDIK8S_GROUP, "elsewhere", "Succeeded").await?;
    for name in ["as-numo", "as-upgrade"] {
        waits(&stage, name, "RuleInvalid").await?;
    }
    let tried = tried(&stage)?;
    assert!(
        tried.iter().all(|uri| uri.contains("/namespaces/shared/")),
        "{tried:?}"
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_uses_the_host_waits_until_its_namespace_says_so() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    namespace(&stage, "team", json!({})).await?;
    invite(&stage, "team").await?;
    let mut rule = greedy("hostly", "team", "default");
    rule["spec"]["jobSpec"]["template"]["spec"]["hostPID"] = json!(true);
    apply(&stage, &[rule]).await?;
    asks(&stage, "hostly", "worker-0").await?;
    let why = waits(&stage, "hostly", "RuleInvalid").await?;
    for words in [
        "spec.jobNamespace team",
        "hostPID",
        "pod-security.kubernetes.io/enforce=privileged on Namespace team",
    ] {
        assert!(why.contains(words), "no {words} in: {why}");
    }
    // Nobody tells numo.
    let api: Api<Namespace> = Api::all(stage.client.clone());
    let patch = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
    api.patch("team", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    phase(&stage, MEDIK8S_GROUP, "hostly", "Succeeded").await?;
    stage.strike().await
}
