//! Rules that fail.

use anyhow::Result;
use numo_api::{Outcome, Phase, Step};
use numo_e2e::NAMESPACE;
use numo_world::WorldSpec;
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, canary, condition, finish, job, jobs, judgement, prepare, released,
    released_after_a_while, rule, rule_began, seen, set, verdicts, waits, with_canary, workers,
};

/// More than the journal keeps, with what must not get into it, and the reason last.
const SICK: &str = r#"i=0; while [ $i -lt 200 ]; do echo "line $i of a long talk about disks"; i=$((i+1)); done
printf '\033[31mthe disk\007 is sick\033[0m\n'; exit 3"#;

async fn failed_and_retried(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let disks = |command: &str| rule("disks", json!({"jobSpec": job(command)}));
    prepare(&stage, &[disks(SICK)], spec).await?;
    stage.world.upgrade_to(NEW).await?;

    let held = stage.step("worker-0", Step::Held).await?;
    let status = held.status.clone().unwrap_or_default();
    assert_eq!(status.reason.as_deref(), Some("RuleFailed"));
    assert_eq!(
        verdicts(&held, "disks", Phase::Pre),
        [(1, Outcome::Failure, Some(3))],
        "exit code in the journal, and nothing ran twice"
    );
    let log = status.log_tail.unwrap_or_default();
    assert!(log.len() <= 2048, "{}", log.len());
    assert!(
        log.contains("line 199") && !log.contains("line 0 of"),
        "the end of it: {log}"
    );
    assert!(log.contains("the disk is sick"), "{log}");
    assert!(!log.chars().any(|c| c.is_control() && c != '\n'), "{log:?}");

    let event = stage.event("Node", "worker-0", "RuleFailed").await?;
    let note = event.note.clone().unwrap_or_default();
    assert!(
        note.contains("exit code 3") && note.contains("the disk is sick"),
        "{note}"
    );
    assert!(!note.contains('\n') && note.len() <= 600, "a short line: {note}");
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let related = event.related.unwrap_or_default();
    assert_eq!(
        (
            related.kind.as_deref(),
            related.name.as_deref(),
            related.namespace.as_deref()
        ),
        (Some("MutexRunConfig"), Some("upgrade"), Some(NAMESPACE))
    );

    let why = stage
        .condition("upgrade", "Ready", "False", "FailureBudgetSpent")
        .await?;
    assert!(
        why.contains("worker-0") && why.contains("spec.failureBudget"),
        "{why}"
    );
    stage
        .condition("upgrade", "Stalled", "True", "FailureBudgetSpent")
        .await?;
    stage
        .event("MutexRunConfig", "upgrade", "FailureBudgetSpent")
        .await?;
    let job_run = stage
        .condition("upgrade", "JobRun", "False", "JobRunFailed")
        .await?;
    assert!(job_run.contains("worker-0"), "{job_run}");
    let why = waits(&stage, "RuleFailed").await?;
    assert!(why.contains("disks") && why.contains("exit code 3"), "{why}");
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "nothing is released"
    );

    // The command line says the same, for each node and for the run.
    let text = stage.say(&["explain", "worker-0"]).await?;
    for words in [
        "Held",
        "RuleFailed",
        "exit code 3",
        "the disk is sick",
        "retry",
        "NodeChange",
    ] {
        assert!(
            text.contains(words),
            "explain worker-0 says nothing of {words}: {text}"
        );
    }
    let text = stage.say(&["explain", "node/worker-1"]).await?;
    for words in [
        "Selected",
        "FailureBudgetSpent",
        "worker-0",
        "cluster administrator",
    ] {
        assert!(
            text.contains(words),
            "explain worker-1 says nothing of {words}: {text}"
        );
    }
    let text = stage.say(&["explain", "mutexrunconfig/upgrade"]).await?;
    assert!(
        text.contains("FailureBudgetSpent") && text.contains("worker-0"),
        "{text}"
    );
    let text = stage.say(&["explain", "mutexrule/disks"]).await?;
    assert!(text.contains("valid"), "{text}");
    let text = stage.say(&["status"]).await?;
    for words in [
        "upgrade",
        "0/2",
        NEW,
        "worker",
        "by numo",
        "worker-0",
        "Held",
        "RuleFailed",
        "worker-1",
    ] {
        assert!(text.contains(words), "status says nothing of {words}: {text}");
    }
    let said = stage.call(&["explain", "worker-9"]).await?;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("worker-9"), "{said:?}");

    // The same rule fails again; retrying is no way round it.
    stage.say(&["retry", "worker-0"]).await?;
    stage
        .until("the second attempt fails too", 90, || async {
            let change = stage.change("worker-0").await?;
            let held = change.filter(|change| {
                let step = change.status.as_ref().and_then(|status| status.step);
                step == Some(Step::Held) && verdicts(change, "disks", Phase::Pre).len() == 2
            });
            Ok(held)
        })
        .await?;
    assert!(released(&stage.world).is_empty());

    apply(&stage, &[disks("true")]).await?;
    stage
        .say(&["retry", "node/worker-0", "--reason", "the disk was replaced"])
        .await?;
    finish(&stage).await?;
    let mut expected = judgement(&["disks"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    let done = stage.step("worker-0", Step::Done).await?;
    assert_eq!(
        verdicts(&done, "disks", Phase::Pre).last(),
        Some(&(3, Outcome::Pass, Some(0)))
    );
    let directive = done.spec.directive.unwrap();
    assert_eq!(directive.reason.as_deref(), Some("the disk was replaced"));
    assert_eq!(directive.by.as_deref(), Some("admin"));
    let other = stage.step("worker-1", Step::Done).await?;
    assert_eq!(
        verdicts(&other, "disks", Phase::Pre),
        [(1, Outcome::Pass, Some(0))]
    );
    let run = stage.run("upgrade").await?;
    assert!(condition(&run, "Stalled").is_none());
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_rule_holds_its_node_and_the_run_until_a_person_retries() -> Result<()> {
    failed_and_retried(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_failed_rule_holds_its_node_and_the_canary_run_until_a_person_retries() -> Result<()> {
    failed_and_retried(with_canary(workers(2)), canary()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_come_by_themselves_and_policies_decide_what_a_failure_means() -> Result<()> {
    policies(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn policies_decide_what_a_failure_in_a_canary_run_means() -> Result<()> {
    policies(with_canary(workers(3)), json!({"canary": {"name": "canary"}})).await
}

async fn policies(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let rules = [
        rule(
            "flaky",
            json!({"jobSpec": job("test $ATTEMPT = 2"), "retries": 1}),
        ),
        // Leaves its node out.
        rule(
            "picky",
            json!({"jobSpec": job("test $NODE_NAME != worker-1"), "failurePolicy": "Skip"}),
        ),
        // Is recorded, and holds nothing, because the node has changed already.
        rule(
            "sour",
            json!({"cleanUpJobSpec": job("exit 9"), "failurePolicy": "Continue"}),
        ),
    ];
    prepare(&stage, &rules, spec).await?;
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-2", Step::Done).await?;
    stage
        .until("the run ends", 90, || async {
            let run = stage.run("upgrade").await?;
            let last = run.status.and_then(|status| status.run).unwrap_or_default();
            Ok(last.finished_at.map(|_| last.result))
        })
        .await?;
    let run = stage.run("upgrade").await?;
    let last = run
        .status
        .clone()
        .and_then(|status| status.run)
        .unwrap_or_default();
    assert_eq!(last.result, Some(numo_api::RunResult::SucceededWithSkips));
    for node in ["worker-0", "worker-2"] {
        let change = stage.change(node).await?.unwrap();
        assert_eq!(
            verdicts(&change, "flaky", Phase::Pre),
            [(1, Outcome::Failure, Some(1)), (2, Outcome::Pass, Some(0))],
            "{node}"
        );
        assert_eq!(
            verdicts(&change, "sour", Phase::Post),
            [(1, Outcome::ContinuedAfterFailure, Some(9))],
            "{node}"
        );
    }
    let skipped = stage.step("worker-1", Step::Skipped).await?;
    assert_eq!(
        skipped.status.unwrap_or_default().reason.as_deref(),
        Some("SkippedByPolicy")
    );
    assert_eq!(released(&stage.world), ["worker-0", "worker-2"]);
    // The skipped node would roll without rules: its pool stays paused, and says so.
    let held = stage.condition("upgrade", "PoolHeld", "True", "PoolHeld").await?;
    assert!(held.contains("1 of 3"), "{held}");
    let mut expected = judgement(&["flaky", "picky"], &[]);
    expected.retries = true;
    expected.held = vec!["worker".to_owned()];
    expected.excused = vec!["worker-1".to_owned()];
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_run_in_their_phases_and_those_of_the_run_once() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [
        rule(
            "opening",
            json!({"jobSpec": job(&gate.wait_for("opening")), "phases": ["PreRun"]}),
        ),
        rule("before", json!({"jobSpec": job("true")})),
        rule("last", json!({"jobSpec": job("true"), "phases": ["PreRelease"]})),
        rule("both", json!({"jobSpec": job("true"), "phases": ["Pre", "Post"]})),
        rule(
            "closing",
            json!({"jobSpec": job(&gate.wait_for("closing")), "phases": ["PostRun"]}),
        ),
    ];
    prepare(&stage, &rules, json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "the rule of the run runs", |w| {
        rule_began(w, "opening", "")
    })
    .await?;
    let why = waits(&stage, "RuleRunning").await?;
    assert!(why.contains("opening") && why.contains("PreRun"), "{why}");
    assert!(released_after_a_while(&stage).await.is_empty());
    assert!(stage.changes().await?.is_empty(), "no node has its turn before");
    gate.open("opening")?;

    seen(&stage, "the last rule of the run runs", |w| {
        rule_began(w, "closing", "")
    })
    .await?;
    for node in ["worker-0", "worker-1"] {
        assert_eq!(stage.world.version_of(node), NEW, "after the last node");
    }
    assert!(
        crate::pool(&stage, "worker").await?.spec.paused,
        "the pool is given back when all is over"
    );
    gate.open("closing")?;
    finish(&stage).await?;
    stage.judge(&judgement(&["before", "both"], &["both"])).await?;
    let run = stage.run("upgrade").await?;
    let last = run.status.and_then(|status| status.run).unwrap_or_default();
    let said: Vec<(Phase, Outcome)> = last.verdicts.iter().map(|v| (v.phase, v.outcome)).collect();
    assert_eq!(
        said,
        [(Phase::PreRun, Outcome::Pass), (Phase::PostRun, Outcome::Pass)]
    );
    assert_eq!(jobs(&stage).await?.len(), 2 + 2 * 4);
    for node in ["worker-0", "worker-1"] {
        let change = stage.step(node, Step::Done).await?;
        let order: Vec<(String, Phase)> = change
            .status
            .iter()
            .flat_map(|status| &status.verdicts)
            .map(|v| (v.rule.rsplit('/').next().unwrap_or_default().to_owned(), v.phase))
            .collect();
        let expected = [
            ("before", Phase::Pre),
            ("both", Phase::Pre),
            ("workloads-ready", Phase::Pre),
            ("last", Phase::PreRelease),
            ("both", Phase::Post),
            ("workloads-ready", Phase::Post),
        ];
        assert_eq!(
            order,
            expected.map(|(rule, phase)| (rule.to_owned(), phase)),
            "{node}"
        );
    }
    stage.strike().await
}
