//! Waves: nodes of a run begin once those of the wave before are done and have soaked, also under another process.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use numo_api::{NodeChange, Phase, Step, WaveStatus, node_maintenance::MEDIK8S_GROUP};
use numo_e2e::Stage;
use numo_world::Judgement;
use serde_json::json;
use std::collections::BTreeSet;

use crate::{
    Gate, NEW, apply, explained, finish, job, judgement, maintenance, prepare, released, rule, run_of, seen,
    set, target, verdicts, waits, workers,
};

/// How long the first wave soaks (seconds).
const SOAK: i64 = 4;

/// The wave under way, once it is as wanted.
async fn wave_is(stage: &Stage, what: &str, wanted: impl Fn(&WaveStatus) -> bool) -> Result<WaveStatus> {
    stage
        .until(what, 60, || async {
            let wave = stage.run("upgrade").await?.status.and_then(|status| status.wave);
            Ok(wave.filter(|wave| wanted(wave)))
        })
        .await
}

/// When the node of a journal came to this step first.
fn entered(changes: &[NodeChange], node: &str, step: Step) -> Result<Timestamp> {
    let mut of_node = changes.iter().filter(|change| change.spec.node_name == node);
    let status = of_node.next().and_then(|change| change.status.as_ref());
    let mut entries = status.context("a journal")?.entries.iter();
    let entry = entries.find(|entry| entry.step == step);
    Ok(entry
        .with_context(|| format!("{node} has no {step:?}"))?
        .at
        .parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_wave_by_wave_also_under_another_process() -> Result<()> {
    let mut stage = set(workers(4), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"cleanUpJobSpec": job(&gate.wait())}));
    let canary = json!({"metadata": {"labels": {"example.com/canary": "true"}}});
    stage.patch_node("worker-3", canary).await?;
    let waves = json!([
        {"name": "canary", "nodeSelector": {"matchLabels": {"example.com/canary": "true"}}, "soakSeconds": SOAK},
        {"name": "nobody", "nodeSelector": {"matchLabels": {"example.com/nobody": "true"}}},
        {"name": "again", "nodeSelector": {"matchLabels": {"example.com/canary": "true"}}},
        {"name": "one", "nodes": 1},
    ]);
    prepare(&stage, &[gated], json!({"maxUnavailable": 4, "waves": waves})).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    // The preview numbers and names the waves as the status will.
    let asked = ["preview", "mutexrunconfig/upgrade", "--to-version", NEW];
    let foreseen = stage.say(&asked).await?;
    for words in [
        "order   4 nodes in 3 batches",
        "wave 1 of 5 (canary): 1 node, begins ",
        "1 worker-3",
        "wave 4 of 5 (one): 1 node\n",
        "2 worker-0",
        "wave 5 of 5 (nodes of no wave): 2 nodes\n",
        "3 worker-1, worker-2",
    ] {
        assert!(foreseen.contains(words), "{words}: {foreseen}");
    }
    stage.world.upgrade_to(NEW).await?;
    // By name it would be the last; the others have room beside it, and wait for its rules after.
    seen(&stage, "the rule after of the canary", |w| {
        crate::rule_began(w, "gated", "worker-3")
    })
    .await?;
    let empty = "wave 2 (nobody) has no node, and nobody waits for it";
    let twice = "Node worker-3 is of wave 1 (canary) and of wave 3 (again), and goes with the first of them";
    let again = "wave 3 (again) has no node, and nobody waits for it";
    stage
        .until("each oddity of the waves is an event", 60, || async {
            let events = stage.events().await?;
            let odd = events
                .iter()
                .filter(|one| one.reason.as_deref() == Some("OddWave"));
            let notes: BTreeSet<&str> = odd.filter_map(|one| one.note.as_deref()).collect();
            Ok([empty, twice, again]
                .iter()
                .all(|wanted| notes.contains(wanted))
                .then_some(()))
        })
        .await?;
    let message = waits(&stage, "WaitsForWave").await?;
    assert!(message.contains("wave 1 (canary)"), "{message}");
    let said = "wave 4 of 5 (one) begins when wave 1 (canary) is done: worker-3 is not";
    explained(&stage, "worker-0", said, 30).await?;
    explained(&stage, "worker-2", "wave 5 of 5 (nodes of no wave) waits for", 30).await?;
    let wave = wave_is(&stage, "the first wave", |wave| wave.number == 1).await?;
    assert_eq!((wave.of, wave.nodes, wave.done), (5, 1, 0), "{wave:?}");
    assert_eq!(wave.notes, [twice, empty, again], "{wave:?}");
    for verb in [
        ["status", "-A"].as_slice(),
        &["explain", "mutexrunconfig/upgrade"],
    ] {
        let text = stage.say(verb).await?;
        assert!(text.contains("1 of 5 (canary): 0 of 1 node done"), "{text}");
        assert!(text.contains(empty), "{text}");
    }
    assert_eq!(released(&stage.world), ["worker-3"]);

    // Whoever leads next knows from what is there which node is of which wave.
    stage.kill_numo().await?;
    stage.start_numo()?;
    gate.open_for_all()?;
    finish(&stage).await?;
    let changes = stage.journals().await?;
    let soaked = entered(&changes, "worker-3", Step::Done)?.as_second() + SOAK;
    let next = entered(&changes, "worker-0", Step::PreRules)?;
    ensure!(
        next.as_second() >= soaked,
        "begun at {next}, the canary soaks until {soaked}"
    );
    let done = entered(&changes, "worker-0", Step::Done)?;
    for last in ["worker-1", "worker-2"] {
        let begun = entered(&changes, last, Step::PreRules)?;
        ensure!(begun >= done, "{last} begun at {begun}, worker-0 done at {done}");
    }
    let over = stage.run("upgrade").await?.status.and_then(|status| status.wave);
    assert_eq!(over, None, "no wave is under way");
    let expected = Judgement {
        max_in_flight: 4,
        ..judgement(&[], &["gated"])
    };
    stage.judge(&expected).await?;
    stage.strike().await
}

/// A rule of a wave is asked about the nodes of that wave. While it is missing no node of the run begins.
#[tokio::test(flavor = "multi_thread")]
async fn only_nodes_of_a_wave_pass_its_rules() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let canary = json!({"metadata": {"labels": {"example.com/canary": "true"}}});
    stage.patch_node("worker-1", canary).await?;
    let waves = json!([{
        "name": "canary",
        "nodeSelector": {"matchLabels": {"example.com/canary": "true"}},
        "rules": [{"name": "smoke"}],
    }]);
    apply(&stage, &[crate::quick(), target("workers", &["worker"])]).await?;
    apply(&stage, &[run_of(&["quick"], json!({"waves": waves}))]).await?;
    stage
        .condition("upgrade", "Ready", "False", "RuleNotFound")
        .await?;
    let said = stage.say(&["explain", "mutexrunconfig/upgrade"]).await?;
    let named = "spec.waves[0].rules[0]: there is no MutexRule";
    ensure!(said.contains(named), "{said}");
    let smoke = json!({"jobSpec": job("true"), "cleanUpJobSpec": job("true")});
    apply(&stage, &[rule("smoke", smoke)]).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    let changes = stage.journals().await?;
    for (node, asked) in [("worker-1", 1), ("worker-0", 0)] {
        let change = changes.iter().find(|change| change.spec.node_name == node);
        let change = change.with_context(|| format!("{node} has a journal"))?;
        for phase in [Phase::Pre, Phase::Post] {
            assert_eq!(verdicts(change, "smoke", phase).len(), asked, "{node} {phase:?}");
            assert_eq!(verdicts(change, "quick", phase).len(), 1, "{node} {phase:?}");
        }
    }
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

/// A MutexBinding orders NodeMaintenances among each other: the canary is back before the others go, and each of those by a person's word.
#[tokio::test(flavor = "multi_thread")]
async fn maintenances_go_wave_by_wave_and_by_a_word() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let labels = Patch::Merge(json!({"metadata": {"labels": {"canary": "yes"}}}));
    nodes.patch("worker-2", &PatchParams::default(), &labels).await?;
    let binding = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding", "metadata": {"name": "repairs"},
        "spec": {
            "ownerSelector": {"kind": "NodeMaintenance"},
            "waves": [
                {"name": "canary", "nodeSelector": {"matchLabels": {"canary": "yes"}}},
                {"name": "others", "nodeSelector": {}, "maxUnavailable": 1, "approval": "Manual"},
            ],
        },
    });
    apply(&stage, &[binding]).await?;
    maintenance::maintain(&stage, "canary", "worker-2", json!({})).await?;
    maintenance::phase(&stage, MEDIK8S_GROUP, "canary", "Succeeded").await?;
    maintenance::maintain(&stage, "other", "worker-0", json!({})).await?;
    let waits = maintenance::waits(&stage, "other", "WaitsForWave").await?;
    assert!(
        waits.contains("wave 2 of 2 (others) begins when wave 1 (canary) is done: worker-2 is not"),
        "{waits}"
    );
    let explained = stage.say(&["explain", "nodemaintenance/other"]).await?;
    assert!(
        explained.contains("1 of 2 (canary): 0 of 1 node done"),
        "{explained}"
    );
    let status = || stage.say(&["status", "nodemaintenance/other"]);
    let said = status().await?;
    assert!(
        said.contains("wave    1 of 2 (canary): 0 of 1 node done"),
        "{said}"
    );
    maintenance::delete(&stage, MEDIK8S_GROUP, "canary").await?;

    let waits = maintenance::waits(&stage, "other", "WaitsForApproval").await?;
    let said = status().await?;
    assert!(said.contains("waits   for approval of wave 2"), "{said}");
    assert!(
        waits.contains("numo approve nodemaintenance/other --wave 2"),
        "{waits}"
    );
    let status = maintenance::status(&stage, MEDIK8S_GROUP, "other").await?;
    let digest = status.approval.map(|waits| waits.digest);
    let listed = stage.say(&["approve", "--list"]).await?;
    assert!(
        listed.contains("NodeMaintenance other: WaitsForApproval"),
        "{listed}"
    );
    assert!(!maintenance::is_cordoned(
        &maintenance::node(&stage, "worker-0").await?
    ));
    stage
        .say(&[
            "approve",
            "nodemaintenance/other",
            "--digest",
            &digest.unwrap_or_default(),
            "--reason",
            "CHG-1",
        ])
        .await?;
    maintenance::phase(&stage, MEDIK8S_GROUP, "other", "Succeeded").await?;
    let status = maintenance::status(&stage, MEDIK8S_GROUP, "other").await?;
    assert_eq!(status.approval, None, "what was approved waits no more");

    // The word was for that one only; and its wave has room for one.
    maintenance::maintain(&stage, "third", "worker-1", json!({})).await?;
    maintenance::waits(&stage, "third", "WaitsForApproval").await?;
    stage
        .say(&["approve", "nodemaintenance/third", "--reason", "CHG-2"])
        .await?;
    let waits = maintenance::waits(&stage, "third", "WaitingForTurn").await?;
    assert!(
        waits.contains("spec.waves[1].maxUnavailable allows 1: worker-0"),
        "{waits}"
    );
    maintenance::delete(&stage, MEDIK8S_GROUP, "other").await?;
    maintenance::phase(&stage, MEDIK8S_GROUP, "third", "Succeeded").await?;
    maintenance::delete(&stage, MEDIK8S_GROUP, "third").await?;
    stage.strike().await
}
