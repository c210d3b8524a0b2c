//! Which nodes a run upgrades, and what stands in it: pools and rules of its own, and targets with limits of theirs.

use anyhow::Result;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use numo_api::MutexRunConfig;
use numo_e2e::{NAMESPACE, client_of};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::json;

use crate::{
    Gate, NEW, apply, explained, finish, job, judgement, mark, pool,
    preview::{preview, together},
    quick, released, rule, rule_began, run_of, seen, set, target, waits, workers,
};
use numo_api::marks;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_names_its_pools_needs_no_target() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let mut run = run_of(&["quick"], json!({"pools": ["wroker"]}));
    run["spec"]
        .as_object_mut()
        .map(|spec| spec.remove("mutexTargets"));
    apply(&stage, &[quick(), run]).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "PoolNotFound")
        .await?;
    assert!(
        why.contains("spec.pools[0]: there is no MachineConfigPool wroker"),
        "{why}"
    );
    let text = stage.say(&["explain", "mutexrunconfig/upgrade"]).await?;
    assert!(text.contains("spec.pools[0]"), "{text}");
    stage
        .patch_run("upgrade", json!({"spec": {"pools": ["worker"]}}))
        .await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    assert!(!pool(&stage, "worker").await?.spec.paused);
    assert_eq!(mark(&stage, "worker", marks::PAUSED_BY).await?, None);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_nodes_of_a_target_fly_as_it_allows_and_others_beside_them() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 2)],
        ..WorldSpec::default()
    };
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"cleanUpJobSpec": job(&gate.wait())}));
    let spec = json!({
        "maxUnavailable": 4,
        "mutexTargets": [{"name": "infras", "maxUnavailable": 1}, {"name": "workers", "maxUnavailable": "100%"}],
    });
    let objects = [
        gated,
        target("workers", &["worker"]),
        target("infras", &["infra"]),
        run_of(&["gated"], spec),
    ];
    apply(&stage, &objects).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    let (said, _) = preview(&stage, &["mutexrunconfig/upgrade", "--to-version", NEW]).await?;
    assert_eq!(
        together(&said),
        json!([["infra-0", "worker-0", "worker-1"], ["infra-1"]]),
        "{said}"
    );
    stage.world.upgrade_to(NEW).await?;
    for node in ["infra-0", "worker-0", "worker-1"] {
        seen(&stage, "the rule after", |w| rule_began(w, "gated", node)).await?;
    }
    let words = "1 node of MutexTarget node-upgrade-mutex-operator/infras is in flight, and \
                 spec.mutexTargets[0].maxUnavailable allows 1: infra-0";
    let message = waits(&stage, "WaitingForTurn").await?;
    assert!(message.contains(words), "{message}");
    explained(&stage, "infra-1", words, 30).await?;
    let mut begun = released(&stage.world);
    begun.sort();
    assert_eq!(begun, ["infra-0", "worker-0", "worker-1"]);
    gate.open_for_all()?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    let mut expected = judgement(&[], &["gated"]);
    expected.max_in_flight = 3;
    expected.targets = vec!["infra".to_owned(), "worker".to_owned()];
    stage.judge(&expected).await?;
    stage.strike().await
}

/// One object is all that a run needs. Who may edit a run, and create no MutexRule, adds no rule to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_pools_and_rules_of_its_own_needs_no_other_object() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let rules = json!([
        {"name": "before", "jobSpec": job("true"), "cleanUpJobSpec": job("true"), "timeoutSeconds": 120},
        {"name": "named", "type": "cel", "cel": {"validations": [{"expression": "node.metadata.name != ''", "message": "no name"}]}},
    ]);
    let mut run = run_of(&[], json!({"pools": ["worker"], "rules": rules}));
    if let Some(spec) = run["spec"].as_object_mut() {
        spec.remove("mutexTargets");
        spec.remove("mutexRules");
    }
    apply(&stage, &editor_of_runs()).await?;
    apply(&stage, &[run]).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    let account = stage
        .cluster
        .service_account_kubeconfig(NAMESPACE, "editor")
        .await?;
    let runs: Api<MutexRunConfig> = Api::namespaced(client_of(&account).await?, NAMESPACE);
    let edit = |spec: serde_json::Value| {
        let runs = runs.clone();
        async move {
            let patch = Patch::Merge(json!({"spec": spec}));
            runs.patch("upgrade", &PatchParams::default(), &patch).await
        }
    };
    edit(json!({"soakSeconds": 0})).await?;
    let refused = edit(json!({"rules": [{"name": "mine", "jobSpec": job("id")}]})).await;
    let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        refused.contains("may not create MutexRules in namespace"),
        "{refused}"
    );

    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    let name = "upgrade_before";
    stage.judge(&judgement(&[name], &[name])).await?;
    let status = stage.run("upgrade").await?.status.unwrap_or_default();
    let ready: Vec<(&str, bool)> = status
        .rules
        .iter()
        .map(|rule| (rule.name.as_str(), rule.ready))
        .collect();
    assert_eq!(ready, [("before", true), ("named", true)]);

    // A slip in a rule is said at its field, and holds the next upgrade.
    stage
        .patch_run(
            "upgrade",
            json!({"spec": {"rules": [{"name": "before", "jobSpec": {"template": {}}}]}}),
        )
        .await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "RuleInvalid")
        .await?;
    assert!(
        why.contains("spec.rules[0]: rule before of MutexRunConfig"),
        "{why}"
    );
    let text = stage.say(&["explain", "mutexrunconfig/upgrade"]).await?;
    assert!(text.contains("spec.rules[0]"), "{text}");
    stage.strike().await
}

/// A user who may edit runs and nothing else.
fn editor_of_runs() -> Vec<serde_json::Value> {
    let of = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "edits-runs"}});
    let mut role = of("ClusterRole");
    role["rules"] = json!([{
        "apiGroups": [numo_api::GROUP], "resources": ["mutexrunconfigs"], "verbs": ["get", "list", "patch", "update", "create"],
    }]);
    let mut binding = of("ClusterRoleBinding");
    binding["roleRef"] =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edits-runs"});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "editor", "namespace": NAMESPACE}]);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "editor", "namespace": NAMESPACE}});
    vec![account, role, binding]
}
