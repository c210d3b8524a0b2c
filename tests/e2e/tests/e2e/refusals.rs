//! Every reason for which a MutexRunConfig is refused, one by one, at its first upgrade and after a good one: the next version
//! is asked for, no target node moves, people are told, and once that is mended the run goes on by itself.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use kube::{Api, api::DeleteParams};
use numo_api::Reason;
use numo_core::owners::mutex_run_config::gates;
use numo_e2e::Stage;
use numo_world::{Judgement, PoolSpec, WorldSpec, openshift::MachineOSConfig};
use serde_json::{Value, json};

use crate::{
    apply, canary, delete_run, gone, job, released, rule, run_of, seen, set, set_with_slips, target, with,
    workers,
};

/// A name that is too long for a label.
const LONG: &str = "a-rule-whose-name-is-long-enough-to-be-too-long-for-a-label";

/// What is wrong, and what mends it. What is applied replaces what was applied before, fields that are not given included.
struct Slip {
    reason: Reason,
    /// What is special about this one of several with the same reason.
    what: &'static str,
    /// Objects that break the run.
    broken: Vec<Value>,
    /// Objects that mend it.
    mended: Vec<Value>,
    /// What else mends it: this object is deleted.
    deleted: Option<Deleted>,
    /// The version that is asked for is what is wrong.
    version: Option<&'static str>,
}

/// An object whose deletion mends a run.
#[derive(Clone, Copy)]
enum Deleted {
    OsConfig(&'static str),
    Run(&'static str),
}

impl Slip {
    fn new(reason: Reason, what: &'static str, broken: Vec<Value>, mended: Vec<Value>) -> Self {
        Self {
            reason,
            what,
            broken,
            mended,
            deleted: None,
            version: None,
        }
    }

    /// A run with these fields; it is mended by going back to the plain one.
    fn of_run(reason: Reason, what: &'static str, plain: &Value, fields: Value) -> Self {
        let mut broken = plain.clone();
        broken["spec"] = with(broken["spec"].clone(), fields);
        Self::new(reason, what, vec![broken], vec![plain.clone()])
    }

    /// Another run holds the pool; only then the nodes are the other's to gate, and it is not said that the run needs mending.
    fn is_of_other_run(&self) -> bool {
        self.reason == Reason::PoolHeldByRun
    }
}

/// Reasons that no row can show, and why. All others have one.
const UNREACHABLE: [(Reason, &str); 2] = [
    (
        Reason::ExternalControlPlane,
        "nothing may be paused there: its nodes change by NodePools; topologies.rs shows the refusal",
    ),
    (
        Reason::OpenShiftMissing,
        "without a ClusterVersion nobody can ask for a next version; preflight.rs of the core shows the hold",
    ),
];

/// A rule that takes no time, before a node alone.
fn quick() -> Value {
    rule("quick", json!({"jobSpec": job("true")}))
}

fn plain() -> Value {
    run_of(&["quick"], json!({}))
}

fn plain_canary() -> Value {
    run_of(&["quick"], canary())
}

/// What a run says of its rules.
fn of_rules() -> Vec<Slip> {
    let of = |reason, what, broken: Value| Slip::new(reason, what, vec![broken], vec![quick()]);
    let no_containers = json!({"template": {"spec": {"restartPolicy": "Never", "containers": []}}});
    vec![
        Slip::of_run(
            Reason::RuleNotFound,
            "",
            &plain(),
            json!({"mutexRules": [{"name": "quick"}, {"name": "nowhere"}]}),
        ),
        of(
            Reason::RuleInvalid,
            "its Job cannot be",
            rule("quick", json!({"jobSpec": no_containers})),
        ),
        of(
            Reason::RuleInvalid,
            "nobody has invited numo there",
            rule(
                "quick",
                json!({"jobSpec": job("true"), "jobNamespace": "nowhere"}),
            ),
        ),
        of(
            Reason::FieldNotServed,
            "",
            rule(
                "quick",
                json!({"jobSpec": job("true"), "phases": ["BeforeUncordon"]}),
            ),
        ),
    ]
}

/// What a run says of its targets, and its own fields.
fn of_fields() -> Vec<Slip> {
    let of_target = |reason, what, pools: &[&str]| {
        let mended = vec![target("workers", &["worker"])];
        Slip::new(reason, what, vec![target("workers", pools)], mended)
    };
    vec![
        Slip::of_run(
            Reason::TargetNotFound,
            "one of two",
            &plain(),
            json!({"mutexTargets": [{"name": "workers"}, {"name": "nowhere"}]}),
        ),
        of_target(Reason::PoolNotFound, "one of two", &["worker", "nowhere"]),
        of_target(Reason::ControlPlanePool, "one of two", &["worker", "master"]),
        Slip::of_run(
            Reason::InvalidField,
            "maxUnavailable",
            &plain(),
            json!({"maxUnavailable": "lots"}),
        ),
        Slip::of_run(Reason::InvalidField, "hold", &plain(), json!({"hold": "Always"})),
    ]
}

/// What the cluster is.
fn of_cluster() -> Vec<Slip> {
    let os_config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineOSConfig",
        "metadata": {"name": "layered"},
        "spec": {"machineConfigPool": {"name": "worker"}},
    });
    let master = |labels: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "master-0", "labels": labels}});
    let both = target("workers", &["worker", "infra"]);
    let mut other = run_of(
        &["quick"],
        json!({"suspend": true, "trigger": "AnyConfig", "hold": "Always"}),
    );
    other["metadata"]["name"] = json!("other");
    vec![
        Slip {
            deleted: Some(Deleted::OsConfig("layered")),
            ..Slip::new(Reason::LayeredPool, "", vec![os_config], Vec::new())
        },
        Slip::new(
            Reason::SelectorMatchesControlPlane,
            "one of two",
            vec![both, master(json!({"node-role.kubernetes.io/infra": ""}))],
            vec![master(json!({}))],
        ),
        Slip {
            version: Some("latest"),
            ..Slip::new(Reason::InvalidVersion, "", Vec::new(), Vec::new())
        },
        Slip {
            deleted: Some(Deleted::Run("other")),
            ..Slip::new(Reason::PoolHeldByRun, "", vec![other], Vec::new())
        },
    ]
}

/// What the canary pool is.
fn of_canary() -> Vec<Slip> {
    let of = |reason, what, name: &str| {
        Slip::of_run(reason, what, &plain_canary(), json!({"canary": {"name": name}}))
    };
    let pool = |paused: bool| {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "canary"}, "spec": {"paused": paused},
        })
    };
    vec![
        of(Reason::CanaryNotFound, "", "nowhere"),
        of(Reason::CanaryIsTarget, "", "worker"),
        of(Reason::CanaryPopulated, "", "full"),
        of(Reason::CanaryContentDiffers, "", "other"),
        Slip::new(Reason::CanaryPaused, "", vec![pool(true)], vec![pool(false)]),
        Slip::of_run(
            Reason::LabelTooLong,
            "",
            &plain_canary(),
            json!({"mutexRules": [{"name": "quick"}, {"name": LONG}]}),
        ),
    ]
}

/// A reason that the core refuses a run for, and that has no row here, fails this.
#[test]
fn every_reason_for_which_a_run_is_refused_has_a_row() {
    let all = [of_rules(), of_fields(), of_cluster(), of_canary()];
    let rows: BTreeSet<Reason> = all.iter().flatten().map(|slip| slip.reason).collect();
    let unreachable: BTreeSet<Reason> = UNREACHABLE.iter().map(|(reason, _)| *reason).collect();
    let both: Vec<_> = rows.intersection(&unreachable).collect();
    assert!(both.is_empty(), "{both:?} have a row and are said to have none");
    let known: BTreeSet<Reason> = rows.union(&unreachable).copied().collect();
    let refusals: BTreeSet<Reason> = gates::run::REFUSALS.iter().copied().collect();
    let missing: Vec<_> = refusals.difference(&known).collect();
    assert!(
        missing.is_empty(),
        "{missing:?} have no row: break a run by each of them"
    );
    let strange: Vec<_> = known.difference(&refusals).collect();
    assert!(strange.is_empty(), "no run is refused for {strange:?}");
}

/// Breaks, asks, looks, mends: for each slip at the first upgrade of a run and at its second.
async fn each(stage: &Stage, slips: &[Slip], base: &Value) -> Result<()> {
    let mut minor = 16;
    for slip in slips {
        let of = |when: &str| format!("{} {} {when}", slip.reason, slip.what);
        apply(stage, &[quick(), target("workers", &["worker"])]).await?;
        apply(stage, &slip.broken).await?;
        if !slip
            .broken
            .iter()
            .any(|object| object["metadata"]["name"] == "upgrade")
        {
            apply(stage, std::slice::from_ref(base)).await?;
        }
        minor += 1;
        breaks_and_mends(stage, slip, minor)
            .await
            .with_context(|| of("at the first upgrade"))?;
        apply(stage, &slip.broken).await?;
        minor += 1;
        breaks_and_mends(stage, slip, minor)
            .await
            .with_context(|| of("after a good upgrade"))?;
        delete_run(stage, "upgrade").await?;
    }
    Ok(())
}

/// The run is broken: the next version is asked for, and no node goes until it is mended.
async fn breaks_and_mends(stage: &Stage, slip: &Slip, minor: u32) -> Result<()> {
    let version = format!("4.{minor}.0");
    let asked = slip.version.unwrap_or(&version);
    if slip.version.is_none() {
        // Before the upgrade it is said already; and what was broken is known.
        stage
            .until(&format!("the run is refused for {}", slip.reason), 60, || async {
                let said = said(stage).await?;
                let held = stage.world.pool("worker").is_some_and(|pool| pool.spec.paused);
                // Another run holds its pool between upgrades, and this one waits for nothing yet.
                let waits = slip.is_of_other_run() && held;
                Ok((waits || said.0 == slip.reason.name()).then_some(()))
            })
            .await?;
    }
    stage.world.upgrade_to(asked).await?;
    held(stage, slip, asked).await?;
    assert!(moved(stage).is_empty(), "{:?} roll", moved(stage));
    apply(stage, &slip.mended).await?;
    match slip.deleted {
        None => {}
        Some(Deleted::Run(name)) => delete_run(stage, name).await?,
        Some(Deleted::OsConfig(name)) => {
            let api: Api<MachineOSConfig> = Api::all(stage.person.clone());
            api.delete(name, &DeleteParams::default()).await?;
            gone(stage, &api, name).await?;
        }
    }
    if slip.version.is_some() {
        stage.world.upgrade_to(&version).await?;
    }
    stage.upgraded("worker", &version).await?;
    stage
        .until(&format!("the run says that all run {version}"), 90, || async {
            let (reason, message) = said(stage).await?;
            Ok((reason == "Succeeded" && message.contains(&version)).then_some(()))
        })
        .await?;
    // Every node went by its rules, and not before.
    let judgement = Judgement {
        pre_rules: vec!["quick".to_owned()],
        at_version: Some(version),
        restored: false,
        // Once for each version.
        retries: true,
        ..Judgement::default()
    };
    stage.judge(&judgement).await
}

/// Reason and message of the run's condition Ready.
async fn said(stage: &Stage) -> Result<(String, String)> {
    let run = stage.run("upgrade").await?;
    let ready = crate::condition(&run, "Ready").cloned().unwrap_or_default();
    Ok((
        ready.reason.unwrap_or_default(),
        ready.message.unwrap_or_default(),
    ))
}

/// The target nodes that were given another configuration since the version was asked for. Pools that are no targets roll.
fn moved(stage: &Stage) -> Vec<String> {
    let mut nodes = released(&stage.world);
    nodes.retain(|node| node.starts_with("worker"));
    nodes
}

/// The upgrade has come as far as it can without the nodes, the pool is paused, and run and pool say why.
async fn held(stage: &Stage, slip: &Slip, version: &str) -> Result<()> {
    seen(
        stage,
        "the control plane is done, and the pool is rendered",
        |world| {
            let state = world.state();
            let rendered = state
                .pools
                .get("worker")
                .map(|pool| state.version_of(&pool.config));
            world.is_completed(version) && rendered == Some(version)
        },
    )
    .await?;
    let reason = slip.reason.name();
    let told = stage
        .until(
            &format!("the run says that it holds its pools: {reason}"),
            60,
            || async {
                let (found, message) = said(stage).await?;
                let holds = message.contains("paused and every node keeps")
                    && !message.contains("when an upgrade begins");
                Ok((found == reason && (holds || slip.is_of_other_run())).then_some(message))
            },
        )
        .await?;
    let pool = crate::pool(stage, "worker").await?;
    assert!(pool.spec.paused, "the pool is open: {told}");
    assert!(moved(stage).is_empty(), "{:?} roll: {told}", moved(stage));
    if slip.is_of_other_run() {
        return Ok(());
    }
    let run = stage.run("upgrade").await?;
    let stalled = crate::condition(&run, "Stalled").and_then(|stalled| stalled.reason.clone());
    assert_eq!(stalled.as_deref(), Some(reason), "{told}");
    let uid = run.metadata.uid.clone();
    stage
        .until(&format!("event UpgradeHeld for {reason}"), 60, || async {
            let events = stage.events().await?;
            Ok(events.into_iter().find(|event| {
                let about = event.regarding.clone().unwrap_or_default();
                about.uid == uid
                    && event.reason.as_deref() == Some("UpgradeHeld")
                    && event.note.as_deref().is_some_and(|note| note.contains(reason))
            }))
        })
        .await?;
    Ok(())
}

/// Every other row: the tests share the rows of a table, so that none takes minutes.
fn half(mut slips: Vec<Slip>, first: bool) -> Vec<Slip> {
    let mut number = 0;
    slips.retain(|_| {
        number += 1;
        (number % 2 == 1) == first
    });
    slips
}

async fn for_its_rules(first: bool) -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    // A rule names a namespace in which numo may not look.
    stage.may_lack_rights = true;
    each(&stage, &half(of_rules(), first), &plain()).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_for_its_rules_a_run_lets_no_node_go_until_it_is_mended() -> Result<()> {
    for_its_rules(true).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn refused_for_its_rules_a_run_lets_no_node_go_the_other_rows() -> Result<()> {
    for_its_rules(false).await
}

async fn for_its_fields(first: bool) -> Result<()> {
    let stage = set_with_slips(workers(2), Vec::new()).await?;
    each(&stage, &half(of_fields(), first), &plain()).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_for_its_fields_a_run_lets_no_node_go_until_it_is_mended() -> Result<()> {
    for_its_fields(true).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn refused_for_its_fields_a_run_lets_no_node_go_the_other_rows() -> Result<()> {
    for_its_fields(false).await
}

async fn for_the_cluster(first: bool) -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 0)],
        ..WorldSpec::default()
    };
    let stage = set(world, Vec::new()).await?;
    each(&stage, &half(of_cluster(), first), &plain()).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_for_the_cluster_a_run_lets_no_node_go_until_it_is_mended() -> Result<()> {
    for_the_cluster(true).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn refused_for_the_cluster_a_run_lets_no_node_go_the_other_rows() -> Result<()> {
    for_the_cluster(false).await
}

async fn for_its_canary(first: bool) -> Result<()> {
    let world = WorldSpec {
        pools: vec![
            PoolSpec::new("worker", 2),
            PoolSpec::new("full", 1),
            PoolSpec {
                own_config: true,
                ..PoolSpec::new("other", 0)
            },
        ],
        canary: true,
        ..WorldSpec::default()
    };
    let stage = set(world, Vec::new()).await?;
    apply(&stage, &[rule(LONG, json!({"jobSpec": job("true")}))]).await?;
    each(&stage, &half(of_canary(), first), &plain_canary()).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_for_its_canary_a_run_lets_no_node_go_until_it_is_mended() -> Result<()> {
    for_its_canary(true).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn refused_for_its_canary_a_run_lets_no_node_go_the_other_rows() -> Result<()> {
    for_its_canary(false).await
}
