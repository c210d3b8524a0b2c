//! A gate that breaks stays shut: what is wrong with a run, a rule or a budget lets no node go, says so loudly, and once it
//! is mended all goes on by itself.

use anyhow::Result;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use numo_api::{MutexBudget, MutexTarget, Phase, Step};
use numo_e2e::{Answers, NAMESPACE, Sink, Stage};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, explained, finish, job, judgement, notifiers::notifier, pool, prepare, quick, released,
    released_after_a_while, rule, rule_began, run_of, seen, set, set_with_slips, target, waits, workers,
};

/// The pool is held for this reason, no node has moved, and run and pool say so.
async fn held(stage: &Stage, version: &str, reason: &str) -> Result<()> {
    seen(stage, "the control plane is done", |w| w.is_completed(version)).await?;
    let why = stage.condition("upgrade", "Ready", "False", reason).await?;
    assert!(why.contains("until this is fixed"), "{why}");
    let run = stage.run("upgrade").await?;
    let stalled = crate::condition(&run, "Stalled").and_then(|stalled| stalled.reason.clone());
    assert_eq!(stalled.as_deref(), Some(reason));
    assert!(pool(stage, "worker").await?.spec.paused);
    assert!(released_after_a_while(stage).await.is_empty(), "a node rolls");
    stage.event("MutexRunConfig", "upgrade", "UpgradeHeld").await?;
    let event = stage.event("MachineConfigPool", "worker", "UpgradeHeld").await?;
    assert!(event.note.unwrap_or_default().contains(reason));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_broken_at_its_first_upgrade_holds_its_pools() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    apply(
        &stage,
        &[
            target("workers", &["worker", "storage"]),
            run_of(&["nowhere"], json!({})),
        ],
    )
    .await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "RuleNotFound")
        .await?;
    assert!(why.contains("when an upgrade begins"), "{why}");
    // Before the upgrade the command line says what would become of the pools.
    let object = ["mutexrunconfig/upgrade", "-n", NAMESPACE];
    for verb in [
        vec!["status"],
        [&["explain"][..], &object].concat(),
        [&["preview"][..], &object].concat(),
    ] {
        let said = stage.call(&verb).await?;
        let words = format!("{}{}", said.out, said.err);
        assert!(
            words.contains("RuleNotFound") && words.contains("MachineConfigPool worker is paused"),
            "{verb:?}: {said:?}"
        );
    }
    for (on_refusal, words) in [
        ("Roll", "MachineConfigPool worker rolls WITHOUT rules"),
        ("Hold", "MachineConfigPool worker is paused"),
    ] {
        let spec = json!({"spec": {"onRefusal": on_refusal}});
        stage.patch_run("upgrade", spec).await?;
        stage
            .until(&format!("doctor says: {words}"), 60, || async {
                let said = stage.call(&["doctor", "-o", "json"]).await?;
                Ok((said.out.contains("RuleNotFound") && said.out.contains(words)).then_some(()))
            })
            .await?;
    }
    stage.world.upgrade_to(NEW).await?;
    held(&stage, NEW, "RuleNotFound").await?;
    // One thing is mended, and the next holds.
    apply(&stage, &[quick()]).await?;
    stage
        .patch_run("upgrade", json!({"spec": {"mutexRules": [{"name": "quick"}]}}))
        .await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "PoolNotFound")
        .await?;
    assert!(why.contains("storage"), "{why}");
    assert!(released_after_a_while(&stage).await.is_empty());
    apply(&stage, &[target("workers", &["worker"])]).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_breaks_between_two_upgrades_holds_its_pools() -> Result<()> {
    const NEXT: &str = "4.18.0";
    let pools = vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 1)];
    let world = WorldSpec { pools, ..workers(2) };
    let stage = set(world, Vec::new()).await?;
    let both = target("workers", &["worker", "infra"]);
    apply(&stage, &[quick(), both.clone(), run_of(&["quick"], json!({}))]).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.remember().await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    // Nobody knows any more which pools it was about, but numo.
    let targets: Api<MutexTarget> = Api::namespaced(stage.person.clone(), NAMESPACE);
    targets.delete("workers", &DeleteParams::default()).await?;
    stage
        .condition("upgrade", "Ready", "False", "TargetNotFound")
        .await?;
    stage.world.upgrade_to(NEXT).await?;
    held(&stage, NEXT, "TargetNotFound").await?;
    assert!(pool(&stage, "infra").await?.spec.paused);
    let event = stage.event("MachineConfigPool", "infra", "UpgradeHeld").await?;
    assert!(event.note.unwrap_or_default().contains("TargetNotFound"));
    apply(&stage, &[both]).await?;
    stage.upgraded("worker", NEXT).await?;
    stage.upgraded("infra", NEXT).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    stage.strike().await
}

/// The shortest way to lose a gate: one letter in the target, between two upgrades.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_pool_that_is_misspelt_between_two_upgrades_is_held() -> Result<()> {
    const NEXT: &str = "4.18.0";
    let stage = set(workers(2), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    apply(&stage, &[target("workers", &["wroker"])]).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "PoolNotFound")
        .await?;
    assert!(
        why.contains("wroker") && why.contains("when an upgrade begins, MachineConfigPool worker"),
        "{why}"
    );
    stage.world.upgrade_to(NEXT).await?;
    held(&stage, NEXT, "PoolNotFound").await?;
    apply(&stage, &[target("workers", &["worker"])]).await?;
    stage.upgraded("worker", NEXT).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    stage.strike().await
}

/// An upgrade is asked for, and everything stopped while the rule `gated` runs for worker-0; its journal once that has passed.
async fn passed_in_a_stop(stage: &Stage, gate: &Gate) -> Result<numo_api::NodeChange> {
    stage.world.upgrade_to(NEW).await?;
    seen(stage, "the rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    stage.say(&["stop", "--reason", "a weekend"]).await?;
    gate.open_for_all()?;
    stage
        .until("the Pass is written down", 60, || async {
            let change = stage.change("worker-0").await?;
            Ok(change.filter(|change| !crate::verdicts(change, "gated", Phase::Pre).is_empty()))
        })
        .await
}

/// The same rule and the same words; only time has gone by.
#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_grew_old_in_a_stop_is_asked_for_again() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"passSeconds": 10, "jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({})).await?;
    let passed = passed_in_a_stop(&stage, &gate).await?;
    let ended = |change: &numo_api::NodeChange| {
        let status = change.status.clone().unwrap_or_default();
        status
            .verdicts
            .iter()
            .filter_map(|verdict| verdict.ended_at.clone())
            .max()
    };
    let first = ended(&passed);
    // By the API server's clock, as it stamps what is written.
    stage
        .until("the Pass is older than it may be", 60, || async {
            let first: jiff::Timestamp = first.clone().unwrap_or_default().parse()?;
            let now = jiff::Timestamp::now();
            Ok((now.duration_since(first).as_secs() > 11).then_some(()))
        })
        .await?;
    stage.say(&["start"]).await?;
    finish(&stage).await?;
    let change = stage.change("worker-0").await?;
    let last = change.as_ref().and_then(ended);
    assert!(
        last > first,
        "it was let go on the Pass of before the stop: {first:?}"
    );
    stage.strike().await
}

/// The last node that is behind is dead: nobody is told to wait for nodes in flight, and a command ends it.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_node_that_is_not_ready_is_stalled_and_can_be_skipped() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.inject(numo_world::Fault::NotReady {
        node: "worker-2".to_owned(),
    });
    stage.world.upgrade_to(NEW).await?;
    for node in ["worker-0", "worker-1"] {
        stage.step(node, Step::Done).await?;
    }
    let said = stalled(&stage, "NodeNotReady").await?;
    assert!(said.contains("worker-2"), "{said}");
    let text = explained(&stage, "worker-2", "NodeNotReady", 60).await?;
    assert!(
        text.contains("numo skip worker-2") && !text.contains("nodes in flight"),
        "{text}"
    );
    stage.say(&["skip", "worker-2", "--reason", "it is gone"]).await?;
    let why = stage.condition("upgrade", "Ready", "False", "PoolHeld").await?;
    assert!(why.contains("worker"), "{why}");
    stage
        .until("an event names the node that was left out", 60, || async {
            let all = stage.events().await?;
            let notes = all.into_iter().filter_map(|event| event.note);
            Ok(notes.into_iter().find(|note| note.contains("left out: worker-2")))
        })
        .await?;
    stage.strike().await
}

/// Left out by the policy of the run, a dead node keeps nothing going: once the pool is unpaused numo is at rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_leaves_out_a_dead_node_comes_to_rest() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let spec = json!({"notReadyPolicy": "LeaveOutAfter", "leaveOutAfterSeconds": 1, "onExit": "Unpause"});
    prepare(&stage, &[quick()], spec).await?;
    stage.world.inject(numo_world::Fault::NotReady {
        node: "worker-2".to_owned(),
    });
    stage.world.upgrade_to(NEW).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "NodesLeftOut")
        .await?;
    assert!(why.contains("worker-2"), "{why}");
    let writes = || -> Result<Vec<String>> {
        let mut all = stage.requests()?;
        all.retain(|one| !["get", "list", "watch"].contains(&one.verb.as_str()) && one.name != "numo-leader");
        Ok(all
            .into_iter()
            .map(|one| format!("{} {}", one.verb, one.uri))
            .collect())
    };
    stage
        .until("the pool is unpaused", 60, || async {
            Ok((!pool(&stage, "worker").await?.spec.paused).then_some(()))
        })
        .await?;
    released_after_a_while(&stage).await;
    let before = writes()?.len();
    released_after_a_while(&stage).await;
    let after = writes()?;
    assert!(after.len() <= before + 2, "{:#?}", &after[before..]);
    assert!(
        !pool(&stage, "worker").await?.spec.paused,
        "nobody pauses it again"
    );
    // Of an open pool the MCO may take the node before numo has paused it again: that is what `onExit: Unpause` asks for.
    stage.world.heal("worker-2");
    stage.upgraded("worker", NEW).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_rolled_while_nobody_looked_are_no_success() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage
        .until("the status remembers the version of all nodes", 60, || async {
            Ok(stage
                .run("upgrade")
                .await?
                .status
                .and_then(|status| status.settled))
        })
        .await?;
    stage.stop_numo().await?;
    stage.world.upgrade_to(NEW).await?;
    stage.upgraded("worker", NEW).await?;
    stage.start_numo()?;
    let why = stage
        .condition("upgrade", "Ready", "False", "NodesUngated")
        .await?;
    assert!(why.contains("worker-0") && why.contains("worker-1"), "{why}");
    stage.event("MutexRunConfig", "upgrade", "UpgradeUngated").await?;
    let run = stage.run("upgrade").await?;
    let incomplete = crate::condition(&run, "Incomplete").cloned().unwrap_or_default();
    assert_eq!(incomplete.reason.as_deref(), Some("NodesUngated"));
    let last = run.status.and_then(|status| status.run).unwrap_or_default();
    assert_eq!(last.ungated, ["worker-0", "worker-1"]);
    // A person has seen it, and says so by the command that `explain` names.
    let text = stage
        .say(&["explain", "mutexrunconfig/upgrade", "-n", NAMESPACE])
        .await?;
    let command = format!("numo acknowledge mutexrunconfig/upgrade -n {NAMESPACE}");
    assert!(text.contains(&command), "{text}");
    let mut words: Vec<&str> = command.split(' ').skip(1).collect();
    words.extend(["--reason", "both were drained by hand"]);
    let said = stage.say(&words).await?;
    assert!(
        said.contains("acknowledged: ") && said.contains("worker-1"),
        "{said}"
    );
    let why = stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    assert!(why.contains("acknowledged") && why.contains("worker-0"), "{why}");
    let event = cli_event(&stage, "Acknowledged").await?;
    assert!(event.contains("both were drained by hand"), "{event}");
    let again = stage.call(&words).await?;
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.err.contains("acknowledged already"), "{again:?}");
    // It can be taken back, and be said anew.
    words.push("--undo");
    stage.say(&words).await?;
    stage
        .condition("upgrade", "Ready", "False", "NodesUngated")
        .await?;
    let vain = stage.call(&words).await?;
    assert_eq!(vain.code, Some(2), "{vain:?}");
    words.pop();
    stage.say(&words).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    stage.strike().await
}

/// Waits for an event that the command line has written about the run; its note.
async fn cli_event(stage: &Stage, reason: &str) -> Result<String> {
    let events: Api<k8s_openapi::api::events::v1::Event> = stage.api();
    stage
        .until(&format!("event {reason} by the command line"), 30, || async {
            let all = events.list(&kube::api::ListParams::default()).await?.items;
            let found = all
                .into_iter()
                .find(|event| event.reason.as_deref() == Some(reason));
            Ok(found.map(|event| event.note.unwrap_or_default()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_needs_to_acknowledge_is_refused() -> Result<()> {
    let stage = set(workers(1), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    for (object, words) in [
        ("upgrade", "no run that is over"),
        ("plan/upgrade", "upgrade"),
        ("nm/upgrade", "nothing to acknowledge"),
    ] {
        let said = stage.call(&["acknowledge", object, "-n", NAMESPACE]).await?;
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains(words), "{said:?}");
    }
    let run = stage.run("upgrade").await?;
    let annotations = run.metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key(numo_api::marks::ACKNOWLEDGED));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_of_before_a_stop_and_an_edit_lets_no_node_go() -> Result<()> {
    // Its rule Jobs keep off the node they are about.
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = |command: &str| rule("gated", json!({"jobSpec": job(command)}));
    prepare(&stage, &[gated(&gate.wait())], json!({})).await?;
    let passed = passed_in_a_stop(&stage, &gate).await?;
    let edition = |change: &numo_api::NodeChange| {
        let status = change.status.clone().unwrap_or_default();
        status.verdicts.last().and_then(|verdict| verdict.edition.clone())
    };
    let first = edition(&passed);
    assert!(first.is_some(), "a verdict says of which rule it is");
    // The rule says something else by now, and fails.
    apply(&stage, &[gated("false")]).await?;
    stage.say(&["start"]).await?;
    stage.step("worker-0", Step::Held).await?;
    assert!(
        released(&stage.world).is_empty(),
        "it went on the Pass of the old rule"
    );
    apply(&stage, &[gated("true")]).await?;
    stage.say(&["retry", "worker-0"]).await?;
    finish(&stage).await?;
    let change = stage
        .change("worker-0")
        .await?
        .unwrap_or_else(|| panic!("a journal"));
    assert_ne!(edition(&change), first);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_suspended_gives_its_place_back() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let first = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[first, quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "the rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": true}}))
        .await?;
    gate.open_for_all()?;
    stage
        .until("the turn is given back", 120, || async {
            let change = stage.change("worker-0").await?;
            let status = change.and_then(|change| change.status).unwrap_or_default();
            Ok((status.step == Some(Step::Selected) && status.attempt == 2).then_some(()))
        })
        .await?;
    stage.event("Node", "worker-0", "TurnEnded").await?;
    stage
        .until("nothing is held of it", 60, || async {
            let state = stage.world.state();
            Ok(state
                .nodes
                .values()
                .all(|node| node.marks.is_empty())
                .then_some(()))
        })
        .await?;
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": false}}))
        .await?;
    // Who stood back stands behind the others.
    finish(&stage).await?;
    assert_eq!(released(&stage.world), ["worker-1", "worker-0"]);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_only_a_person_can_free_is_stalled() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let budget = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": "none"},
        "spec": {"nodeSelector": {}, "maxUnavailable": 0},
    });
    let (sink, url) = Sink::serve(Answers::Takes).await?;
    let events = notifier("events", json!({"cloudEvents": {"url": url}}));
    apply(&stage, &[budget, events]).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let said = stalled(&stage, "BudgetExhausted").await?;
    sink.until(&stage, "Stalled", "upgrade").await?;
    assert!(
        said.contains("MutexBudget none spec.maxUnavailable is 0"),
        "{said}"
    );
    let text = explained(&stage, "worker-1", "BudgetExhausted", 60).await?;
    assert!(
        text.contains("a cluster administrator") && !text.contains("nodes in flight"),
        "{text}"
    );
    // Room for one, and that one is cordoned by a person.
    stage.cordon("worker-2", true).await?;
    let budgets: Api<MutexBudget> = Api::all(stage.person.clone());
    let one = json!({"spec": {"maxUnavailable": 1}});
    budgets
        .patch("none", &PatchParams::default(), &Patch::Merge(&one))
        .await?;
    waits(&stage, "BudgetExhausted").await?;
    stage
        .until("the budget says who fills it", 60, || async {
            let said = stalled(&stage, "BudgetExhausted").await?;
            let both = said.contains("worker-2 (cordoned)") && said.contains("allows 1");
            Ok(both.then_some(said))
        })
        .await?;
    // Nobody is told to wait for nodes in flight where none is: not of the budget, the run or the time it takes.
    for asked in [
        &["explain", "mutexbudget/none"][..],
        &["explain", "mutexrunconfig/upgrade"],
        &["status"],
    ] {
        let text = stage.say(asked).await?;
        assert!(text.contains("a cluster administrator"), "{asked:?}: {text}");
        assert!(!text.contains("nodes in flight"), "{asked:?}: {text}");
    }
    stage.cordon("worker-2", false).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

/// A MutexBudget whose limit nobody can read, or that is 0, lets no node go: `explain` of it says which of the two it is,
/// who ends it and by which command, and nothing of the kind once it is mended.
#[tokio::test(flavor = "multi_thread")]
async fn explain_of_a_budget_that_lets_no_node_go_says_what_ends_it() -> Result<()> {
    let stage = set_with_slips(workers(2), Vec::new()).await?;
    let budget = |limit: Value| {
        json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
            "metadata": {"name": "odd"},
            "spec": {
                "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}}, "maxUnavailable": limit,
            },
        })
    };
    apply(&stage, &[budget(json!("many"))]).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let explain = ["explain", "mutexbudget/odd", "--exit-code"];
    for (limit, of_run, reason, of_budget) in [
        (
            json!("many"),
            "spec.maxUnavailable: found \"many\"",
            "InvalidField",
            "spec.maxUnavailable: found \"many\", wanted a whole number such as 2 or a percentage such as \"25%\"; until \
             that is fixed no further node of it may become unavailable",
        ),
        (
            json!(0),
            "spec.maxUnavailable is 0",
            "BudgetExhausted",
            "MutexBudget odd spec.maxUnavailable is 0, which lets no node begin; whoever owns the object raises it",
        ),
    ] {
        apply(&stage, &[budget(limit)]).await?;
        stage
            .until("the run says what is wrong with the budget", 60, || async {
                let said = stalled(&stage, "BudgetExhausted").await?;
                Ok((said.contains("MutexBudget odd") && said.contains(of_run)).then_some(()))
            })
            .await?;
        let said = stage.call(&explain).await?;
        assert_eq!(said.code, Some(3), "{said:?}");
        for words in [
            reason,
            of_budget,
            "by a cluster administrator",
            "kubectl edit mutexbudget odd",
        ] {
            assert!(said.out.contains(words), "no {words} in: {said:?}");
        }
    }
    assert!(released_after_a_while(&stage).await.is_empty(), "a node rolls");
    apply(&stage, &[budget(json!(1))]).await?;
    finish(&stage).await?;
    let said = stage.call(&explain).await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.out.contains("it lets further nodes become unavailable"),
        "{said:?}"
    );
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

/// Waits until the run is Stalled for this reason; the message.
async fn stalled(stage: &Stage, reason: &str) -> Result<String> {
    stage
        .until(&format!("the run is Stalled for {reason}"), 90, || async {
            let run = stage.run("upgrade").await?;
            let stalled = crate::condition(&run, "Stalled").cloned();
            let stalled = stalled.filter(|stalled| stalled.reason.as_deref() == Some(reason));
            Ok(stalled.map(|stalled| stalled.message.unwrap_or_default()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_node_that_stays_away_can_be_left_out() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    stage.world.inject(numo_world::Fault::NeverBack {
        node: "worker-0".to_owned(),
    });
    prepare(&stage, &[quick()], json!({"changeTimeoutSeconds": 20})).await?;
    stage.world.upgrade_to(NEW).await?;
    let text = explained(&stage, "worker-0", "ChangeTimeout", 120).await?;
    assert!(text.contains("numo skip worker-0"), "{text}");
    stage
        .say(&["skip", "worker-0", "--reason", "its disk is dead"])
        .await?;
    stage.step("worker-0", Step::Skipped).await?;
    for node in ["worker-1", "worker-2"] {
        stage.step(node, Step::Done).await?;
    }
    let why = stage.condition("upgrade", "Ready", "False", "PoolHeld").await?;
    assert!(why.contains("worker"), "{why}");
    let run = stage.run("upgrade").await?;
    let incomplete = crate::condition(&run, "Incomplete").cloned().unwrap_or_default();
    let words = incomplete.message.unwrap_or_default();
    assert!(
        words.contains("worker-0") && words.contains("its disk is dead"),
        "{words}"
    );
    stage.strike().await
}
