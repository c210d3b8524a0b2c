//! Where there are no node leases (no namespace `medik8s-leases`, as OLM installs numo) the command line says what the operator
//! says: at each step of a run, a Plan and a NodeMaintenance it is compared with the journal.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};
use numo_api::{NodeChange, Step, marks};
use numo_e2e::{NAMESPACE, Stage};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, gone, job,
    maintenance::{self, maintain},
    plans::{self, plan},
    prepare, rule, seen,
};

/// A stage whose namespace of node leases is gone.
async fn without_leases(number: usize) -> Result<Stage> {
    let mut stage = plans::stage(number, Vec::new()).await?;
    stage.may_lack_rights = true;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    if numo_e2e::has_leases() {
        namespaces
            .delete(marks::LEASE_NAMESPACE, &DeleteParams::default())
            .await?;
        gone(&stage, &namespaces, marks::LEASE_NAMESPACE).await?;
    }
    Ok(stage)
}

/// Compares what `explain` says with every journal that stands still meanwhile; the steps that were compared.
async fn compare(stage: &Stage, compared: &mut Vec<(String, Step)>) -> Result<()> {
    for change in stage.journals().await? {
        let kind = change.spec.owner_ref.kind.clone();
        let Some(step) = stage.compare(&change).await? else {
            continue;
        };
        if !compared.contains(&(kind.clone(), step)) {
            compared.push((kind, step));
        }
    }
    Ok(())
}

/// Compares until it is so.
async fn until<F>(
    stage: &Stage,
    what: &str,
    compared: &mut Vec<(String, Step)>,
    is: impl Fn(Vec<NodeChange>) -> F,
) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    for _ in 0..120 {
        compare(stage, compared).await?;
        if is(stage.journals().await?).await? {
            return Ok(());
        }
    }
    anyhow::bail!("never: {what}\n{}", stage.picture().await)
}

fn at(changes: &[NodeChange], kind: &str, step: Step) -> bool {
    changes.iter().any(|change| {
        let found = change.status.as_ref().and_then(|status| status.step);
        change.spec.owner_ref.kind == kind && found == Some(step)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn without_node_leases_explain_says_at_each_step_what_the_journal_says() -> Result<()> {
    let stage = without_leases(3).await?;
    let mut compared = Vec::new();
    // A run: its rule waits, fails, is asked again, and passes.
    let gate = Gate::new()?;
    let command = format!("{}; {}", gate.wait(), gate.is_open("good"));
    let rules = [rule("gated", json!({"jobSpec": job(&command)}))];
    prepare(&stage, &rules, json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| {
        crate::rule_began(w, "gated", "worker-0")
    })
    .await?;
    compare(&stage, &mut compared).await?;
    gate.open("worker-0")?;
    let held = |changes: Vec<NodeChange>| async move { Ok(at(&changes, "MutexRunConfig", Step::Held)) };
    until(&stage, "worker-0 is held", &mut compared, held).await?;
    compare(&stage, &mut compared).await?;
    let text = stage.say(&["explain", "worker-0"]).await?;
    assert!(
        text.contains("RuleFailed") && text.contains("numo retry worker-0"),
        "{text}"
    );
    gate.open("good")?;
    gate.open_for_all()?;
    stage.say(&["retry", "worker-0"]).await?;
    let done = |_| async { Ok(stage.world.is_updated("worker", NEW)) };
    until(&stage, "all are upgraded", &mut compared, done).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    // A Plan: its Job fails.
    let spec = json!({
        "jobActiveDeadlineSecs": 2,
        "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "worker-1"}},
    });
    apply(&stage, &[plan("roll", "sleep 600", spec)]).await?;
    let failed = |changes: Vec<NodeChange>| async move { Ok(at(&changes, "Plan", Step::Held)) };
    until(&stage, "the Plan's node is held", &mut compared, failed).await?;
    compare(&stage, &mut compared).await?;
    // A NodeMaintenance on another node.
    maintain(&stage, "fan", "worker-2", json!({})).await?;
    let drained =
        |changes: Vec<NodeChange>| async move { Ok(at(&changes, "NodeMaintenance", Step::Drained)) };
    until(&stage, "the node is drained", &mut compared, drained).await?;
    compare(&stage, &mut compared).await?;
    let status = maintenance::phase(&stage, "nodemaintenance.medik8s.io", "fan", "Succeeded").await?;
    compare(&stage, &mut compared).await?;
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
    let text = stage
        .say(&["explain", "nodemaintenance/fan", "-o", "json"])
        .await?;
    let said: Value = serde_json::from_str(&text)?;
    assert_eq!(
        said[0]["reason"].as_str(),
        ready.and_then(|one| one.reason.as_deref()),
        "{text}"
    );
    for wanted in [
        ("MutexRunConfig", Step::PreRules),
        ("MutexRunConfig", Step::Held),
        ("Plan", Step::Held),
        // Kept until the object is deleted: it stands still for as long as anybody compares.
        ("NodeMaintenance", Step::Drained),
    ] {
        let found = compared
            .iter()
            .any(|(kind, step)| (kind.as_str(), *step) == wanted);
        assert!(found, "{wanted:?} was never compared: {compared:?}");
    }
    // The operator says so on its leader Lease.
    let lease: Api<k8s_openapi::api::coordination::v1::Lease> = stage.api();
    let lease = lease.get("numo-leader").await?;
    let notice = lease.metadata.annotations.unwrap_or_default();
    let notice = notice.get(marks::SETTINGS).context("no notice")?;
    assert!(notice.contains("leasesUnavailable"), "{notice} in {NAMESPACE}");
    stage.strike().await
}
