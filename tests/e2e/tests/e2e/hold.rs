//! What a person does with one node by hand: `numo hold`, and `numo maintain`.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use numo_api::Step;
use numo_e2e::{Stage, process::binary};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

use crate::{
    Gate, NEW, apply, finish, job,
    maintenance::{budget, deployment, is_cordoned, node, on, running},
    plans, prepare, released, rule, rule_began, seen, set, workers,
};

/// A verb that goes on, with what it says on standard error.
struct Going {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
}

impl Going {
    fn begin(stage: &Stage, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(binary()?)
            .args(arguments)
            .env("NUMO_KUBECONFIG", stage.terminal()?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let said = child.stderr.take().context("a standard error")?;
        Ok(Self {
            child,
            said: BufReader::new(said).lines(),
        })
    }

    /// Reads on until a line has these words.
    async fn until(&mut self, words: &str) -> Result<String> {
        let read = async {
            let mut all = Vec::new();
            while let Some(line) = self.said.next_line().await? {
                if line.contains(words) {
                    return Ok(line);
                }
                all.push(line);
            }
            anyhow::bail!("never {words:?}: {all:?}")
        };
        tokio::time::timeout(std::time::Duration::from_mins(2), read)
            .await
            .with_context(|| format!("never {words:?}"))?
    }

    async fn ended(self) -> Result<(Option<i32>, String)> {
        let Self { child, said } = self;
        // What it still says must have somewhere to go.
        let rest = tokio::spawn(async move {
            let mut said = said;
            while let Ok(Some(_)) = said.next_line().await {}
        });
        let output =
            tokio::time::timeout(std::time::Duration::from_mins(2), child.wait_with_output()).await??;
        rest.await?;
        Ok((
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        ))
    }
}

/// A node is held before its turn, and one while its rule runs; the others go on, and each goes on once that is taken back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_a_person_holds_stays_until_that_is_taken_back() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let gate = Gate::new()?;
    prepare(
        &stage,
        &[rule("gated", json!({"jobSpec": job(&gate.wait())}))],
        json!({"order": "Name", "maxUnavailable": 2}),
    )
    .await?;
    let none = stage.call(&["hold", "worker-1"]).await?;
    assert_eq!(none.code, Some(2), "nothing is under way: {none:?}");
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;

    // Nothing is written by a dry run; what would be is told field by field.
    let dry = stage
        .say(&[
            "hold",
            "worker-2",
            "--dry-run=server",
            "-o",
            "json",
            "--reason",
            "a customer debugs",
        ])
        .await?;
    let dry: Value = serde_json::from_str(&dry)?;
    assert_eq!(dry[0]["dryRun"], "server", "{dry:#}");
    assert_eq!(dry[0]["changes"][0]["old"], Value::Null, "{dry:#}");
    assert_eq!(
        dry[0]["changes"][0]["new"]["directive"]["action"], "Hold",
        "{dry:#}"
    );
    assert!(stage.change("worker-2").await?.is_none(), "it was a dry run");

    let said = stage
        .say(&["hold", "worker-2", "--reason", "a customer debugs"])
        .await?;
    assert!(said.contains("has not had its turn"), "{said}");
    let said = stage
        .say(&[
            "hold",
            "worker-0",
            "-o",
            "jsonpath={[0].directive.verb} {[0].changes[0].path}",
        ])
        .await?;
    assert!(said.starts_with("hold /spec/directive"), "{said}");
    gate.open_for_all()?;
    stage.step("worker-1", Step::Done).await?;
    let text = stage
        .until("numo says who holds it", 60, || async {
            let text = stage.say(&["explain", "worker-2"]).await?;
            Ok(text.contains("HeldByPerson").then_some(text))
        })
        .await?;
    assert!(text.contains("a customer debugs"), "{text}");
    assert_eq!(crate::released_after_a_while(&stage).await, ["worker-1"]);

    // Taken back once, and not twice.
    for held in ["worker-0", "worker-2"] {
        stage.say(&["hold", held, "--undo"]).await?;
        let again = stage.call(&["hold", held, "--undo"]).await?;
        assert_eq!(again.code, Some(2), "{again:?}");
    }
    finish(&stage).await?;
    assert_eq!(released(&stage.world).len(), 3);

    // What came of it is told once it is over, with the time that a person took of it.
    let text = stage.say(&["explain", "-A", "mutexrunconfig/upgrade"]).await?;
    let took: Vec<&str> = text.lines().filter(|line| line.contains(" took ")).collect();
    assert_eq!(took.len(), 4, "{text}");
    assert!(took[0].contains("3 turns from 20"), "{text}");
    assert!(
        took[1..].iter().all(|line| line.contains(": Done after ")),
        "{text}"
    );
    stage.strike().await
}

/// A node is drained past a budget that opens late, which is named meanwhile, and put back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_taken_out_of_service_and_put_back_from_the_command_line() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    apply(
        &stage,
        &[deployment("web", 2, on("worker-0")), budget("web", json!(0))],
    )
    .await?;
    running(&stage, "web", "worker-0", 2).await?;
    let wrong = stage.call(&["maintain", "worker-9"]).await?;
    assert!(
        wrong.code == Some(2) && wrong.err.contains("worker-9"),
        "{wrong:?}"
    );
    let wrong = stage.call(&["maintain", "worker-0", "--end"]).await?;
    assert!(
        wrong.code == Some(2) && wrong.err.contains("no NodeMaintenance"),
        "{wrong:?}"
    );
    let dry = stage.say(&["maintain", "worker-0", "--dry-run"]).await?;
    assert!(dry.contains("(dry run)"), "{dry}");
    assert!(!is_cordoned(&node(&stage, "worker-0").await?));

    let begin = ["maintain", "worker-0", "--reason", "replace a fan", "-o", "json"];
    let mut going = Going::begin(&stage, &begin)?;
    let blocked = going.until("default/web").await?;
    assert!(
        blocked.contains("EvictionBlocked") && blocked.contains("2 pods left"),
        "{blocked}"
    );
    // It says so as well where nobody has waited long enough.
    let late = stage.call(&["maintain", "worker-0", "--timeout", "1"]).await?;
    assert!(
        late.code == Some(3) && late.err.contains("in maintenance already") && late.err.contains("goes on"),
        "{late:?}"
    );
    let text = stage.say(&["explain", "worker-0"]).await?;
    assert!(text.contains("replace a fan"), "{text}");
    apply(&stage, &[budget("web", json!("100%"))]).await?;
    let (code, out) = going.ended().await?;
    assert_eq!(code, Some(0), "{out}");
    let made: Value = serde_json::from_str(&out)?;
    assert_eq!(made[0]["name"], "worker-0", "{made:#}");
    assert_eq!(
        made[0]["changes"][0]["new"]["reason"], "replace a fan",
        "{made:#}"
    );
    assert!(is_cordoned(&node(&stage, "worker-0").await?));

    // Whoever holds it is told what ends the hold beside them.
    let held = stage.say(&["hold", "worker-0"]).await?;
    assert!(
        held.contains("or until NodeMaintenance worker-0 is deleted"),
        "{held}"
    );
    let ended = stage.call(&["maintain", "worker-0", "--end"]).await?;
    assert!(
        ended.code == Some(0)
            && ended.err.contains("that hold ends with the maintenance")
            && ended.err.contains("put back as it was"),
        "{ended:?}"
    );
    crate::maintenance::is_restored(&stage, "worker-0").await?;

    // A cordon of somebody else outlives the maintenance: who ends that is not told that the node is open.
    stage.cordon("worker-0", true).await?;
    for wait in ["--wait", "--wait=false"] {
        stage.say(&["maintain", "worker-0"]).await?;
        let ended = stage.call(&["maintain", "worker-0", "--end", wait]).await?;
        assert!(
            ended.err.contains("stays cordoned: somebody else") && !ended.err.contains("put back"),
            "{ended:?}"
        );
    }
    stage.strike().await
}

/// A word on a node of a Plan whose status nobody has written yet is found by whoever says another.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_before_the_first_status_of_a_plan_can_be_taken_back() -> Result<()> {
    let mut stage = plans::stage(1, Vec::new()).await?;
    stage.stop_numo().await?;
    apply(&stage, &[plans::plan("new", "true", json!({}))]).await?;
    for call in [
        &["hold", "worker-0"][..],
        &["hold", "worker-0", "--undo"],
        &["skip", "worker-0"],
        &["retry", "worker-0"],
    ] {
        let said = stage.call(call).await?;
        assert_eq!(said.code, Some(0), "{call:?}: {said:?}");
    }
    let said = stage.call(&["hold", "worker-0", "--undo"]).await?;
    assert!(
        said.code == Some(2) && said.err.contains("is not held"),
        "{said:?}"
    );
    stage.strike().await
}

/// A Plan whose selector matches nobody is Complete, as system-upgrade-controller has it; in numo's own words it selects no node.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_selects_nobody_is_not_said_to_be_up_to_date() -> Result<()> {
    let stage = plans::stage(1, Vec::new()).await?;
    let typo = json!({"nodeSelector": {"matchLabels": {"node-role.kubernetes.io/wroker": ""}}});
    apply(&stage, &[plans::plan("typo", "true", typo)]).await?;
    plans::complete(&stage, "typo").await?;
    for verb in [
        &["status", "-A"][..],
        &["explain", "plan/typo", "-n", plans::PLANS],
        &["doctor"],
    ] {
        // While it is new, bindings that are made together with it are waited for.
        let said = stage
            .until("the Plan selects no node", 60, || async {
                let said = stage.call(verb).await?;
                Ok(said.out.contains("selects no node").then_some(said))
            })
            .await?;
        assert!(!said.out.contains("UpToDate"), "{verb:?}: {said:?}");
    }
    // Objects of another namespace are named with the flag that finds them.
    let elsewhere = stage.call(&["explain", "plan/typo"]).await?;
    let wanted = format!("there is one by -n {}", plans::PLANS);
    assert!(
        elsewhere.code == Some(2) && elsewhere.err.contains(&wanted),
        "{elsewhere:?}"
    );
    let here = stage.call(&["status", "-n", "default"]).await?;
    assert!(
        here.code == Some(0) && here.err.contains(&format!("-n {}", plans::PLANS)),
        "{here:?}"
    );
    let none = stage
        .say(&["status", "-A", "-l", "team=nobody", "-o", "name"])
        .await?;
    assert_eq!(none, "");
    stage.strike().await
}
