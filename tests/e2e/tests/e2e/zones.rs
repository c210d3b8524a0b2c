//! One zone at a time: MutexBudgets with `maxGroups`, over all owners, and `domains` of an owner.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::ListParams};
use numo_api::{MutexBudget, Step};
use numo_e2e::{NAMESPACE, Stage};
use numo_world::WorldSpec;
use serde_json::json;

use crate::{
    Gate, NEW, apply, explained, finish, job, judgement, maintenance, plans, prepare,
    preview::{preview, together},
    released, rule, rule_began, seen, set, waits, workers,
};

const ZONE: &str = "topology.kubernetes.io/zone";
const MEDIK8S: &str = "nodemaintenance.medik8s.io";

/// The zone of each worker.
async fn zones(stage: &Stage) -> Result<BTreeMap<String, String>> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let nodes = nodes.list(&ListParams::default()).await?.items;
    let workers = nodes.iter().filter(|node| node.name_any().starts_with("worker"));
    workers
        .map(|node| {
            let zone = node.labels().get(ZONE).context("a zone")?;
            Ok((node.name_any(), zone.clone()))
        })
        .collect()
}

/// In how many zones workers were cordoned at once, at most, by the world's records.
fn most_zones_cordoned(stage: &Stage, zones: &BTreeMap<String, String>) -> usize {
    let mut cordoned: BTreeSet<String> = BTreeSet::new();
    let mut most = 0;
    for record in stage.world.records() {
        let numo_world::Change::Node(name, view) = record.change else {
            continue;
        };
        if view.is_some_and(|view| view.unschedulable) {
            cordoned.insert(name);
        } else {
            cordoned.remove(&name);
        }
        let away: BTreeSet<&String> = cordoned.iter().filter_map(|node| zones.get(node)).collect();
        most = most.max(away.len());
    }
    most
}

/// A storage system in three zones, and two owners: while a NodeMaintenance has a node of one zone, a Plan upgrades nodes of that zone
/// only, and says who keeps it from the others.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_two_zones_are_never_away_at_once() -> Result<()> {
    let stage = plans::stage(4, Vec::new()).await?;
    let zones = zones(&stage).await?;
    let of = |node: &str| zones.get(node).cloned().unwrap_or_default();
    assert_eq!(of("worker-0"), of("worker-3"), "{zones:?}");
    assert_ne!(of("worker-0"), of("worker-1"), "{zones:?}");
    let storage = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": "storage"},
        "spec": {"nodeSelector": {}, "groupBy": ZONE, "maxGroups": 1, "maxUnavailable": 2},
    });
    apply(&stage, &[storage]).await?;
    maintenance::maintain(&stage, "nm", "worker-0", json!({})).await?;
    maintenance::phase(&stage, MEDIK8S, "nm", "Succeeded").await?;
    apply(
        &stage,
        &[plans::plan(
            "k3s",
            "true",
            json!({"cordon": true, "concurrency": 4}),
        )],
    )
    .await?;

    // The other node of the zone goes; all that wait are told for whom.
    plans::step(&stage, "worker-3", Step::Done).await?;
    let text = explained(&stage, "worker-1", "BudgetExhausted", 60).await?;
    let who = format!("{}: worker-0 (with NodeMaintenance nm)", of("worker-0"));
    assert!(text.contains(&who), "no {who} in: {text}");
    let groups = format!("1 of 1 allowed values of {ZONE} have unavailable nodes");
    assert!(text.contains(&groups), "no {groups} in: {text}");
    let text = stage.say(&["explain", "mutexbudget/storage"]).await?;
    assert!(
        text.contains(&groups) && text.contains("BudgetExhausted"),
        "{text}"
    );
    let text = stage.say(&["status", "-A"]).await?;
    assert!(
        text.contains("GROUPS-IN-USE") && text.contains("1 of 1"),
        "{text}"
    );
    let budgets: Api<MutexBudget> = Api::all(stage.person.clone());
    let status = budgets.get("storage").await?.status.unwrap_or_default();
    // Of the zones each allows as many as it has nodes, up to two.
    assert_eq!(
        (status.groups_in_use, status.allowed),
        (Some(1), Some(2)),
        "{status:?}"
    );
    let begun = plans::changes(&stage).await?;
    let begun: BTreeSet<String> = begun.into_iter().map(|change| change.spec.node_name).collect();
    assert_eq!(begun, BTreeSet::from(["worker-3".to_owned()]));

    maintenance::delete(&stage, MEDIK8S, "nm").await?;
    plans::complete(&stage, "k3s").await?;
    plans::is_restored(&stage, "k3s").await?;
    assert_eq!(most_zones_cordoned(&stage, &zones), 1);
    stage.strike().await
}

/// A run finishes the nodes of one zone before those of the next, in the order that is given; a preview says so before, and whoever waits
/// is told for whom.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_finishes_a_zone_before_the_next_begins() -> Result<()> {
    let world = WorldSpec {
        zones: 2,
        ..workers(4)
    };
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule("gated", json!({"jobSpec": job(&gate.wait())}))];
    let domains = json!({"key": ZONE, "order": ["zone-b"]});
    let spec = json!({"maxUnavailable": 4, "order": "Name", "domains": domains});
    prepare(&stage, &rules, spec).await?;
    let arguments = ["mutexrunconfig/upgrade", "-n", NAMESPACE, "--to-version", NEW];
    let (found, _) = preview(&stage, &arguments).await?;
    let batches = json!([["worker-1", "worker-3"], ["worker-0", "worker-2"]]);
    assert_eq!(together(&found), batches, "{found:#}");

    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "both nodes of the zone have their rule", |w| {
        rule_began(w, "gated", "worker-1") && rule_began(w, "gated", "worker-3")
    })
    .await?;
    let text = explained(&stage, "worker-0", "OtherDomain", 60).await?;
    for words in [
        format!("{ZONE}=zone-b is not done, and nodes of zone-a come after that (spec.domains)"),
        "numo explain worker-".to_owned(),
    ] {
        assert!(text.contains(&words), "no {words} in: {text}");
    }
    assert_eq!(
        stage.changes().await?.len(),
        2,
        "only nodes of the zone have begun"
    );
    gate.open_for_all()?;
    finish(&stage).await?;
    let released = released(&stage.world);
    let zones: Vec<bool> = released
        .iter()
        .map(|node| ["worker-1", "worker-3"].contains(&node.as_str()))
        .collect();
    assert_eq!(zones, [true, true, false, false], "{released:?}");
    let mut expected = judgement(&["gated"], &[]);
    expected.max_in_flight = 2;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// A node without the label has no place in the order: it waits for a person, and the run says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_label_of_domains_is_not_begun_and_is_told() -> Result<()> {
    const RACK: &str = "example.com/rack";
    let stage = set(workers(1), Vec::new()).await?;
    prepare(&stage, &[], json!({"domains": {"key": RACK}})).await?;
    stage.world.upgrade_to(NEW).await?;
    let message = waits(&stage, "NoDomain").await?;
    assert!(message.contains(RACK), "{message}");
    let event = stage.event("MutexRunConfig", "upgrade", "NoDomain").await?;
    assert!(event.note.unwrap_or_default().contains(RACK));
    assert!(stage.journals().await?.is_empty(), "nothing has begun");
    let label = json!({"metadata": {"labels": {RACK: "r1"}}});
    stage.patch_node("worker-0", label).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}
