//! The contract of runners: whatever a rule is made of, it gates a node in the same way. Each scenario is run with a Job,
//! a component, expressions and a query.

use anyhow::{Context, Result};
use numo_api::{NodeChange, Outcome, Phase, Step};
use numo_e2e::{Numo, Stage};
use numo_plugin_tests::prometheus::Running;
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, finish, job, judgement, object, released_after_a_while, run_of, set, target, verdicts,
    workers,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Job,
    Wasm,
    Cel,
    Prometheus,
}

/// A stage with one way to make rules, and to open them.
struct Scene {
    stage: Stage,
    runner: Runner,
    gate: Gate,
    server: Option<Running>,
}

/// The label and the gauge that open what is no Job.
const LABEL: &str = "example.com/open";
const GAUGE: &str = "example_open";

impl Scene {
    async fn set(runner: Runner) -> Result<Self> {
        let server = match runner {
            Runner::Prometheus => {
                let server = tokio::task::spawn_blocking(|| Running::start(&[])).await??;
                server.set(GAUGE, 0.0);
                Some(server)
            }
            _ => None,
        };
        let numo: Vec<&'static str> = match &server {
            Some(server) => vec!["--prometheus-url", server.url().leak()],
            None => Vec::new(),
        };
        let stage = set(workers(2), numo).await?;
        if runner == Runner::Prometheus {
            apply(&stage, &[crate::asked::network()]).await?;
        }
        if runner == Runner::Wasm {
            let bytes = crate::wasm::component("node-requirement").await?;
            crate::wasm::store(&stage, "node-requirement", bytes).await?;
        }
        Ok(Self {
            stage,
            runner,
            gate: Gate::new()?,
            server,
        })
    }

    /// A rule `gate` that passes once it is open; until then it waits, or fails each attempt.
    fn rule(&self, fails: bool, more: Value) -> Value {
        let unmet = if fails { "Block" } else { "Wait" };
        let spec = match self.runner {
            Runner::Job if fails => json!({"jobSpec": job(&self.gate.is_open("all"))}),
            Runner::Job => json!({"jobSpec": job(&self.gate.wait())}),
            Runner::Wasm => json!({"type": "wasm", "wasm": {
                "configMap": {"name": "node-requirement", "key": "rule.wasm"},
                "config": {"labels": [{"key": LABEL, "operator": "Exists"}], "unmet": unmet, "retryAfterSeconds": 5},
            }}),
            Runner::Cel => json!({"type": "cel", "cel": {"validations": [{
                "expression": format!("'{LABEL}' in node.metadata.labels"), "otherwise": unmet, "retryAfterSeconds": 5,
            }]}}),
            Runner::Prometheus => json!({"type": "prometheus", "prometheus": {
                "query": GAUGE, "operator": "Equal", "threshold": 1, "unmet": unmet, "retryAfterSeconds": 5,
            }}),
        };
        object("MutexRule", "gate", crate::with(spec, more))
    }

    async fn open(&self) -> Result<()> {
        self.gate.open_for_all()?;
        if let Some(server) = &self.server {
            server.set(GAUGE, 1.0);
        }
        for node in ["worker-0", "worker-1"] {
            let label = json!({"metadata": {"labels": {LABEL: ""}}});
            self.stage.patch_node(node, label).await?;
        }
        Ok(())
    }

    async fn begin(&self, rule: Value) -> Result<()> {
        let run = run_of(&["gate"], json!({}));
        apply(&self.stage, &[rule, target("workers", &["worker"]), run]).await?;
        self.stage
            .condition("upgrade", "Ready", "True", "UpToDate")
            .await?;
        if let Some(server) = &self.server {
            // One that nobody has scraped yet is no data.
            server.answers(GAUGE, 0.0).await?;
        }
        self.stage.world.upgrade_to(NEW).await?;
        Ok(())
    }

    async fn change(&self, node: &str) -> Result<NodeChange> {
        self.stage.change(node).await?.context("a journal")
    }
}

/// It holds the node back over a restart of numo, is asked in each of its phases, and its verdict is journaled once.
async fn gates(runner: Runner) -> Result<()> {
    let mut scene = Scene::set(runner).await?;
    let rule = scene.rule(false, json!({"phases": ["Pre", "Post"], "timeoutSeconds": 600}));
    scene.begin(rule).await?;
    let change = scene.stage.step("worker-0", Step::PreRules).await?;
    assert_eq!(change.spec.node_name, "worker-0");
    assert!(
        released_after_a_while(&scene.stage).await.is_empty(),
        "{runner:?} lets go"
    );
    let text = scene.stage.say(&["explain", "worker-0"]).await?;
    assert!(text.contains("gate") && text.contains("PreRules"), "{text}");
    scene.stage.kill_numo().await?;
    scene.stage.start_numo()?;
    scene
        .stage
        .until("the other numo leads", 60, || async {
            Ok(scene.stage.numo().is_some_and(Numo::leads).then_some(()))
        })
        .await?;
    assert!(
        released_after_a_while(&scene.stage).await.is_empty(),
        "{runner:?} lets go"
    );
    scene.open().await?;
    finish(&scene.stage).await?;
    for node in ["worker-0", "worker-1"] {
        let change = scene.change(node).await?;
        for phase in [Phase::Pre, Phase::Post] {
            let all = verdicts(&change, "gate", phase);
            assert!(
                matches!(all.as_slice(), [(1, Outcome::Pass, _)]),
                "{runner:?} {node} {phase:?}: {all:?}"
            );
        }
    }
    let rules: &[&str] = if runner == Runner::Job { &["gate"] } else { &[] };
    scene.stage.judge(&judgement(rules, rules)).await?;
    scene.stage.strike().await
}

/// It fails as often as `retries` says, holds its node, and passes when a person has it tried again.
async fn fails(runner: Runner) -> Result<()> {
    let scene = Scene::set(runner).await?;
    let rule = scene.rule(true, json!({"retries": 1, "timeoutSeconds": 600}));
    scene.begin(rule).await?;
    let held = scene.stage.step("worker-0", Step::Held).await?;
    let all = verdicts(&held, "gate", Phase::Pre);
    assert!(
        matches!(
            all.as_slice(),
            [(1, Outcome::Failure, _), (2, Outcome::Failure, _)]
        ),
        "{runner:?}: {all:?}"
    );
    let text = scene.stage.say(&["explain", "worker-0"]).await?;
    assert!(text.contains("RuleFailed") && text.contains("gate"), "{text}");
    assert!(
        released_after_a_while(&scene.stage).await.is_empty(),
        "{runner:?} lets go"
    );
    scene.open().await?;
    if let Some(server) = &scene.server {
        server.answers(GAUGE, 1.0).await?;
    }
    scene.stage.say(&["retry", "worker-0"]).await?;
    finish(&scene.stage).await?;
    let all = verdicts(&scene.change("worker-0").await?, "gate", Phase::Pre);
    assert!(
        matches!(all.last(), Some((_, Outcome::Pass, _))),
        "{runner:?}: {all:?}"
    );
    scene.stage.strike().await
}

/// Its time is over before it passes: it has failed, and its policy decides.
async fn times_out(runner: Runner) -> Result<()> {
    let scene = Scene::set(runner).await?;
    let more = json!({"retries": 0, "timeoutSeconds": 10, "failurePolicy": "Skip"});
    scene.begin(scene.rule(false, more)).await?;
    let skipped = scene.stage.step("worker-0", Step::Skipped).await?;
    let all = verdicts(&skipped, "gate", Phase::Pre);
    assert!(
        matches!(all.as_slice(), [(1, Outcome::Failure, _)]),
        "{runner:?}: {all:?}"
    );
    let status = skipped.status.unwrap_or_default();
    let words = status.message.unwrap_or_default();
    assert!(words.contains("gate"), "{runner:?}: {words}");
    assert!(status.rule_waits.is_empty(), "{:?}", status.rule_waits);
    assert!(
        released_after_a_while(&scene.stage).await.is_empty(),
        "{runner:?} lets go"
    );
    scene.stage.strike().await
}

macro_rules! contract {
    ($($runner:ident: $gates:ident, $fails:ident, $times_out:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $gates() -> Result<()> {
            gates(Runner::$runner).await
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $fails() -> Result<()> {
            fails(Runner::$runner).await
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $times_out() -> Result<()> {
            times_out(Runner::$runner).await
        }
    )*};
}

contract! {
    Job: a_job_gates, a_job_fails, a_job_times_out;
    Wasm: a_component_gates, a_component_fails, a_component_times_out;
    Cel: expressions_gate, expressions_fail, expressions_time_out;
    Prometheus: a_query_gates, a_query_fails, a_query_times_out;
}
