//! Every example is accepted by the API server, and numo finds nothing wrong with it.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use numo_api::{Condition, MutexBudget, MutexRule, MutexRunConfig, conditions::types, marks, plan::Plan};
use numo_e2e::{NAMESPACE, Stage, StageOptions, manifests, rules::Rules};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::json;

/// The rules that ship.
const RULES: [&str; 6] = [
    "pdb-headroom",
    "workloads-ready",
    "prometheus-gate",
    "cluster-operators",
    "http-check",
    "node-requirement",
];

fn status_of(conditions: &[Condition], type_: &str) -> Option<(String, String)> {
    let condition = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((
        condition.status.clone(),
        condition.message.clone().unwrap_or_default(),
    ))
}

/// Manifests in the pages of a folder: blocks of YAML that name a kind, and leave nothing out.
fn manifests_in(folder: &std::path::Path, found: &mut Vec<(String, String)>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            manifests_in(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(&path)?;
            for (number, block) in text.split("```yaml\n").skip(1).enumerate() {
                let block = block.split("```").next().unwrap_or_default();
                if block.contains("apiVersion:")
                    && block.contains("kind:")
                    && block.contains("metadata:")
                    && !block.contains('…')
                {
                    found.push((
                        format!("{} block {}", path.display(), number + 1),
                        block.to_owned(),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The kinds of machines that are replaced are installed where they are asked for.
async fn define_machines(stage: &Stage) -> Result<()> {
    for entry in std::fs::read_dir(manifests::root().join("deploy/kustomize/components/node-version"))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("update.edgeless.systems_") {
            let definition = manifests::parse(&std::fs::read_to_string(&path)?)?;
            manifests::apply(&stage.client, &definition, NAMESPACE).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_manifest_in_the_docs_is_accepted() -> Result<()> {
    let mut stage = Stage::set(StageOptions::default()).await?;
    // Blocks of pages name Secrets of notifiers that nobody granted here.
    stage.may_lack_rights = true;
    stage
        .apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: team-storage}")
        .await?;
    let plans = manifests::kustomize(&manifests::root().join("deploy/kustomize/plans"))?;
    manifests::apply(&stage.client, &plans, NAMESPACE).await?;
    define_machines(&stage).await?;
    let invitation = std::fs::read_to_string(manifests::root().join("examples/invite-namespace.yaml"))?;
    manifests::apply(&stage.client, &manifests::parse(&invitation)?, NAMESPACE).await?;
    let mut found = Vec::new();
    manifests_in(&manifests::root().join("operator/docs"), &mut found)?;
    let readme = std::fs::read_to_string(manifests::root().join("README.md"))?;
    for block in readme.split("```yaml\n").skip(1) {
        found.push((
            "README.md".to_owned(),
            block.split("```").next().unwrap_or_default().to_owned(),
        ));
    }
    assert!(found.len() >= 6, "{found:?}");
    for (place, text) in found {
        let apply =
            async { manifests::apply_strictly(&stage.client, &manifests::parse(&text)?, NAMESPACE).await };
        apply.await.with_context(|| format!("{place}: {text}"))?;
    }
    stage.strike().await
}

/// The rule that Artifact Hub shows of the chart passes a node, and stops one with the label that it names.
async fn shown_rule_decides(stage: &Stage) -> Result<()> {
    let chart = std::fs::read_to_string(manifests::root().join("deploy/helm/numo/Chart.yaml"))?;
    let chart = manifests::parse(&chart)?.remove(0);
    let shown = chart["annotations"]["artifacthub.io/crdsExamples"].as_str();
    let shown = manifests::parse(shown.context("examples")?)?.remove(0);
    let rule = shown.as_array().into_iter().flatten();
    let mut rule = rule
        .filter(|example| example["kind"] == "MutexRule")
        .cloned()
        .collect::<Vec<_>>();
    assert_eq!(rule.len(), 1);
    let name = format!(
        "mutexrule/{}",
        rule[0]["metadata"]["name"].as_str().context("a name")?
    );
    rule[0]["metadata"]["namespace"] = NAMESPACE.into();
    manifests::apply(&stage.client, &rule, NAMESPACE).await?;
    let preview = ["preview", &name, "-n", NAMESPACE, "--node", "worker-0"];
    let passed = stage.call(&preview).await?;
    assert_eq!(passed.code, Some(0), "{passed:?}");
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let label = |value: serde_json::Value| {
        let body = json!({"metadata": {"labels": {"storage.example.com/rebuilding": value}}});
        let nodes = nodes.clone();
        async move {
            let params = PatchParams::default();
            nodes.patch("worker-0", &params, &Patch::Merge(body)).await
        }
    };
    label(json!("true")).await?;
    let stopped = stage.call(&preview).await?;
    label(serde_json::Value::Null).await?;
    assert!(
        stopped.code == Some(3) && stopped.out.contains("storage is being rebuilt"),
        "{stopped:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_is_accepted_and_valid() -> Result<()> {
    let pools = ["infra", "app", "storage", "edge"].map(|pool| PoolSpec::new(pool, 1));
    let stage = Stage::set(StageOptions {
        world: WorldSpec {
            pools: pools.into_iter().chain([PoolSpec::new("worker", 1)]).collect(),
            ..WorldSpec::default()
        },
        numo: vec!["--prometheus-url", "https://prometheus.example.com"],
        ..StageOptions::default()
    })
    .await?;
    let rules = Rules::publish(&RULES).await?;
    manifests::apply(&stage.client, &rules.pull_secret(), NAMESPACE).await?;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let granted = json!({"metadata": {"labels": {marks::RULE_NETWORK: marks::RULE_NETWORK_CLUSTER}}});
    namespaces
        .patch(NAMESPACE, &PatchParams::default(), &Patch::Merge(granted))
        .await?;
    stage
        .apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: team-storage}")
        .await?;
    let plans = manifests::kustomize(&manifests::root().join("deploy/kustomize/plans"))?;
    manifests::apply(&stage.client, &plans, NAMESPACE).await?;
    define_machines(&stage).await?;
    let folder = manifests::root().join("examples");
    let mut files: Vec<_> = std::fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    assert!(files.len() >= 14, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let apply = async {
            let mut objects = manifests::parse(&text)?;
            rules.point(&mut objects);
            manifests::apply_strictly(&stage.client, &objects, NAMESPACE).await
        };
        apply.await.with_context(|| file.display().to_string())?;
    }
    stage
        .until("every rule is valid", 60, || async {
            let rules = stage.api::<MutexRule>().list(&ListParams::default()).await?.items;
            let valid = rules.iter().all(|rule| {
                let conditions = rule
                    .status
                    .as_ref()
                    .map(|status| status.conditions.as_slice())
                    .unwrap_or_default();
                status_of(conditions, types::VALID_CONFIG).is_some_and(|(status, _)| status == "True")
            });
            Ok((valid && rules.len() >= 12).then_some(()))
        })
        .await?;
    shown_rule_decides(&stage).await?;
    stage
        .until("every run is validated", 60, || async {
            let runs = stage
                .api::<MutexRunConfig>()
                .list(&ListParams::default())
                .await?
                .items;
            let valid = runs.iter().all(|run| {
                let conditions = run
                    .status
                    .as_ref()
                    .map(|status| status.conditions.as_slice())
                    .unwrap_or_default();
                status_of(conditions, types::CONFIG_VALIDATED).is_some_and(|(status, _)| status == "True")
            });
            Ok((valid && runs.len() >= 5).then_some(()))
        })
        .await?;
    // Plans, budgets and bindings are taken, and a maintenance of a node that is not there says so.
    stage
        .until("everything else is judged", 60, || async {
            let plans: Api<Plan> = Api::all(stage.client.clone());
            let plans = plans.list(&ListParams::default()).await?.items;
            let validated = plans.iter().all(|plan| {
                let conditions = plan
                    .status
                    .iter()
                    .flat_map(|status| status.conditions.iter().flatten());
                let mut conditions = conditions.filter(|one| one.type_ == "Validated");
                conditions.any(|one| one.status == "True")
            });
            let budgets: Api<MutexBudget> = Api::all(stage.client.clone());
            let budgets = budgets.list(&ListParams::default()).await?.items;
            let seen = budgets.iter().all(|budget| budget.status.is_some());
            let said = stage.say(&["status", "-A", "-o", "wide"]).await?;
            let maintained = said.contains("node02");
            Ok((validated && plans.len() >= 2 && seen && !budgets.is_empty() && maintained).then_some(()))
        })
        .await?;
    stage.strike().await
}
