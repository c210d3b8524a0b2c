//! MutexNotifiers: what a run comes to is told with ids that outlive a process, a sink that hangs holds up nobody, and a real Alertmanager
//! has an alert for as long as a node is held, and a silence for as long as a node is out of service.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::Api;
use numo_api::{MutexNotifier, MutexNotifierStatus, Step, conditions::types};
use numo_e2e::{Answers, NAMESPACE, Sink, Stage};
use numo_plugin_tests::programs;
use numo_world::Judgement;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

use crate::{Gate, NEW, apply, finish, job, judgement, prepare, rule, set, workers};

/// A MutexNotifier.
pub fn notifier(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier", "metadata": {"name": name}, "spec": spec,
    })
}

/// The status of a notifier, once its condition Ready has this reason.
async fn stands(stage: &Stage, name: &str, reason: &str) -> Result<MutexNotifierStatus> {
    let api: Api<MutexNotifier> = Api::all(stage.person.clone());
    stage
        .until(&format!("MutexNotifier {name} is {reason}"), 60, || async {
            let status = api.get(name).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.iter();
            let ready = conditions.find(|one| one.type_ == types::READY);
            let is_it = ready.is_some_and(|ready| ready.reason.as_deref() == Some(reason));
            Ok(is_it.then_some(status))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_told_with_ids_that_outlive_a_process_and_a_sink_that_hangs_holds_up_nobody() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    // The Secret of one of them was not granted: it says so.
    stage.may_lack_rights = true;
    let (sink, url) = Sink::serve(Answers::Takes).await?;
    let (hangs, nowhere) = Sink::serve(Answers::Hangs).await?;
    let (down, broken) = Sink::serve(Answers::Fails).await?;
    let objects = [
        notifier("down", json!({"cloudEvents": {"url": broken}})),
        notifier("events", json!({"cloudEvents": {"url": url}})),
        notifier("hangs", json!({"cloudEvents": {"url": nowhere}})),
        notifier(
            "held",
            json!({"cloudEvents": {"url": url}, "namespaces": ["elsewhere"]}),
        ),
        notifier("lost", json!({"slack": {}, "secretRef": {"name": "nowhere"}})),
    ];
    apply(&stage, &objects).await?;
    stands(&stage, "events", "ValidConfig").await?;
    stands(&stage, "lost", "SecretsForbidden").await?;
    let gate = Gate::new()?;
    let fails = rule("fails", json!({"jobSpec": job(&gate.is_open("$NODE_NAME"))}));
    prepare(&stage, &[fails], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let began = sink.until(&stage, "RunBegan", "upgrade").await?;
    assert_eq!(
        began["source"],
        format!(
            "/apis/openshift-optional.skrzypek.io/v1alpha1/namespaces/{NAMESPACE}/mutexrunconfigs/upgrade"
        )
    );
    assert_eq!(
        began["data"]["explanation"]["object"],
        json!({"apiGroup": numo_api::GROUP, "kind": "MutexRunConfig", "namespace": NAMESPACE, "name": "upgrade"})
    );
    let event = stage.event("MutexNotifier", "down", "SinkFails").await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"), "{event:?}");
    let note = event.note.unwrap_or_default();
    assert!(note.contains("500"), "{note}");
    let held = sink.until(&stage, "Held", "worker-0").await?;
    assert_eq!(held["data"]["reason"], "RuleFailed", "{held:#}");
    let text = held["data"]["text"].as_str().unwrap_or_default();
    assert!(
        text.contains("a node waits for a person: Node worker-0: "),
        "{text}"
    );

    // Whoever leads next tells nothing that was told by another id, and nothing of what goes on is lost.
    stage.kill_numo().await?;
    gate.open_for_all()?;
    stage.start_numo()?;
    stage.say(&["retry", "worker-0", "--reason", "mended"]).await?;
    finish(&stage).await?;
    let over = sink.until(&stage, "Finished", "upgrade").await?;
    assert_eq!(over["data"]["reason"], "Succeeded", "{over:#}");
    let ids = sink.ids();
    for what in ["RunBegan upgrade", "Finished upgrade", "Held worker-0"] {
        let of = ids.get(what).with_context(|| format!("{what} in {ids:?}"))?;
        assert_eq!(of.len(), 1, "{what}: {ids:?}");
    }
    ensure!(
        ids.keys().all(|what| !what.starts_with("Failed")),
        "nothing failed: {ids:?}"
    );
    // Nobody waited for the sink that hangs.
    ensure!(!hangs.events().is_empty(), "it was asked");
    let status = stands(&stage, "hangs", "SinkFails").await?;
    assert_eq!(status.sent, Some(0), "{status:?}");
    // An episode is told once by each process at most, and once that it is over: what waited came with its ids.
    down.answer(Answers::Takes);
    let event = stage.event("MutexNotifier", "down", "SinkReached").await?;
    assert_eq!(event.type_.as_deref(), Some("Normal"), "{event:?}");
    let over = down.until(&stage, "Finished", "upgrade").await?;
    assert_eq!(over["data"]["reason"], "Succeeded", "{over:#}");
    ensure!(down.ids().values().all(|ids| ids.len() == 1), "{:?}", down.ids());
    let events = stage.events().await?;
    let of_down = events.iter().filter(|event| {
        let about = event.regarding.clone().unwrap_or_default();
        about.kind.as_deref() == Some("MutexNotifier") && about.name.as_deref() == Some("down")
    });
    let mut told: Vec<&str> = of_down.filter_map(|event| event.reason.as_deref()).collect();
    // Who is killed before the status is written has told it, and the next one does not know.
    told.dedup();
    assert_eq!(told, ["SinkFails", "SinkReached"]);
    let told = stands(&stage, "events", "ValidConfig").await?;
    assert_eq!(told.sink.as_deref(), Some("CloudEvents"));
    let said = stage.say(&["explain", "mutexnotifier/lost"]).await?;
    assert!(
        said.contains("SecretsForbidden: Secret node-upgrade-mutex-operator/nowhere"),
        "{said}"
    );
    let doctor = stage.call(&["doctor"]).await?;
    assert!(
        doctor
            .out
            .contains("MutexNotifier lost is not Ready (SecretsForbidden)"),
        "{doctor:?}"
    );
    // What the sink was told it was told once, or by the same id again.
    let log = json!(told.recent);
    ensure!(
        log.as_array().is_some_and(|ids| !ids.is_empty()),
        "the status has the ids: {told:?}"
    );
    let expected = Judgement {
        retries: true,
        ..judgement(&["fails"], &[])
    };
    stage.judge(&expected).await?;
    stage.strike().await
}

/// Debian's Alertmanager. It wants its templates where its package has them: what is only unpacked is laid there for it alone.
fn alertmanager() -> Result<Command> {
    let program = programs::debian("prometheus-alertmanager")?;
    let folder = programs::folder_of(&program)?;
    if folder.starts_with("/usr") {
        return Ok(Command::new(program));
    }
    let shared = folder.join("../share");
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "--", "/bin/sh", "-c"])
        .arg("mount --bind \"$0\" /usr/share && exec \"$@\"")
        .args([shared, program]);
    Ok(command)
}

/// A real Alertmanager that tells nobody anything. It ends with this.
struct Alertmanager {
    at: String,
    _folder: tempfile::TempDir,
    _process: Child,
}

impl Alertmanager {
    async fn start(stage: &Stage) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("alertmanager.yml");
        std::fs::write(
            &config,
            "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n",
        )?;
        let at = {
            let free = TcpListener::bind("127.0.0.1:0").await?;
            free.local_addr()?.to_string()
        };
        let process = tokio::task::spawn_blocking(alertmanager)
            .await??
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.path={}", folder.path().display()))
            .arg(format!("--web.listen-address={at}"))
            .arg("--cluster.listen-address=")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let one = Self {
            at,
            _folder: folder,
            _process: process,
        };
        stage
            .until("Alertmanager is ready", 60, || async {
                Ok(one.asked("GET", "/-/ready", "").await.ok())
            })
            .await?;
        Ok(one)
    }

    fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    /// What it answers.
    async fn asked(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let (at, length) = (&self.at, body.len());
        let mut stream = TcpStream::connect(at).await?;
        let request = format!(
            "{method} {path} HTTP/1.0\r\nhost: {at}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
        ensure!(head.contains(" 200 "), "{head}: {body}");
        Ok(body.to_owned())
    }

    /// Its alerts or silences.
    async fn list(&self, what: &str) -> Result<Vec<Value>> {
        let text = self.asked("GET", &format!("/api/v2/{what}"), "").await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The alert of this name for `worker-0`.
    async fn alert(&self, name: &str) -> Result<Value> {
        let mut all = self.list("alerts").await?.into_iter();
        let is_it = |one: &Value| one["labels"]["alertname"] == name && one["labels"]["node"] == "worker-0";
        all.find(is_it).with_context(|| format!("no alert {name}"))
    }

    /// The alert, once it is in this state.
    async fn until(&self, stage: &Stage, name: &str, state: &str) -> Result<Value> {
        let is_it = || async {
            let alert = self.alert(name).await?;
            Ok((alert["status"]["state"] == state).then_some(alert))
        };
        stage.until(&format!("alert {name} is {state}"), 60, is_it).await
    }

    /// The silences that are not over, by who made them.
    async fn silences(&self, by: &str) -> Result<Vec<Value>> {
        let all = self.list("silences").await?.into_iter();
        let is_it = |one: &Value| one["createdBy"] == by && one["status"]["state"] == "active";
        Ok(all.filter(is_it).collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_alertmanager_has_an_alert_while_a_node_is_held() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let real = Alertmanager::start(&stage).await?;
    let spec = json!({"alertmanager": {"url": real.url()}, "transitions": ["Held"]});
    apply(&stage, &[notifier("alertmanager", spec)]).await?;
    let gate = Gate::new()?;
    let fails = rule("fails", json!({"jobSpec": job(&gate.is_open("$NODE_NAME"))}));
    prepare(&stage, &[fails], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-0", Step::Held).await?;
    let alerts = || real.list("alerts");
    let alert = stage
        .until("the alert", 60, || async {
            let all = alerts().await?;
            Ok(all
                .into_iter()
                .find(|one| one["labels"]["alertname"] == "NumoHeld"))
        })
        .await?;
    assert_eq!(alert["labels"]["node"], "worker-0", "{alert:#}");
    assert_eq!(alert["labels"]["name"], "upgrade", "{alert:#}");
    assert_eq!(alert["status"]["state"], "active", "{alert:#}");
    let explained: Value =
        serde_json::from_str(alert["annotations"]["explanation"].as_str().unwrap_or_default())?;
    assert_eq!(explained["object"]["name"], "upgrade");

    gate.open_for_all()?;
    stage.say(&["retry", "worker-0", "--reason", "mended"]).await?;
    stage
        .until("the alert is over", 300, || async {
            Ok(alerts().await?.is_empty().then_some(()))
        })
        .await?;
    finish(&stage).await?;
    let expected = Judgement {
        retries: true,
        ..judgement(&["fails"], &[])
    };
    stage.judge(&expected).await?;
    stage.strike().await
}

/// An alert that goes on, as Prometheus sends it.
fn alert(name: &str) -> Value {
    json!({"labels": {"alertname": name, "node": "worker-0"}, "endsAt": "2099-01-01T00:00:00Z"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_alertmanager_silences_a_node_while_it_is_out_of_service() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    let real = Alertmanager::start(&stage).await?;
    let alerts = json!([alert("NodeDown"), alert("NumoNodeStuck")]).to_string();
    real.asked("POST", "/api/v2/alerts", &alerts).await?;
    let matchers = json!([{"name": "node", "value": "worker-1", "isRegex": false, "isEqual": true}]);
    let strangers = json!({"matchers": matchers, "startsAt": "2020-01-01T00:00:00Z", "endsAt": "2099-01-01T00:00:00Z",
        "createdBy": "ada", "comment": "mine"});
    real.asked("POST", "/api/v2/silences", &strangers.to_string())
        .await?;
    let silences = json!({"alertmanager": {"url": real.url(), "silences": {"durationSeconds": 120}}, "transitions": ["Held"]});
    let mut elsewhere = silences.clone();
    elsewhere["namespaces"] = json!(["elsewhere"]);
    apply(
        &stage,
        &[notifier("silences", silences), notifier("elsewhere", elsewhere)],
    )
    .await?;
    let gate = Gate::new()?;
    let after = rule(
        "after",
        json!({"cleanUpJobSpec": job(&gate.wait()), "timeoutSeconds": 900}),
    );
    prepare(&stage, &[after], json!({})).await?;
    ensure!(real.silences("numo").await?.is_empty(), "no node has its turn");
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-0", Step::PostRules).await?;
    let silenced = real.until(&stage, "NodeDown", "suppressed").await?;
    assert_eq!(real.alert("NumoNodeStuck").await?["status"]["state"], "active");
    let [first] = &real.silences("numo").await?[..] else {
        anyhow::bail!("{:#?}", real.silences("numo").await?);
    };
    assert_eq!(silenced["status"]["silencedBy"], json!([first["id"]]));
    let comment = first["comment"].as_str().unwrap_or_default();
    ensure!(
        comment.starts_with(&format!(
            "MutexRunConfig {NAMESPACE}/upgrade has taken Node worker-0"
        )),
        "{comment}"
    );
    let ends = |one: &Value| -> Result<Timestamp> { Ok(one["endsAt"].as_str().context("an end")?.parse()?) };
    let lasts = ends(first)?.duration_since(Timestamp::now()).as_secs();
    ensure!(lasts <= 125, "it ends soon after numo does: {lasts} s");

    // Whoever leads next takes it up: the same silence is renewed, and there is no other.
    stage.kill_numo().await?;
    stage.start_numo()?;
    stage
        .until("the silence is renewed", 150, || async {
            let all = real.silences("numo").await?;
            ensure!(all.len() <= 1, "a twin: {all:#?}");
            let is_renewed = |one: &&Value| one["id"] == first["id"] && ends(one).ok() > ends(first).ok();
            Ok(all.iter().find(is_renewed).map(|_| ()))
        })
        .await?;
    // While numo is down the silence ends by itself, and whoever comes up makes another.
    stage.kill_numo().await?;
    real.until(&stage, "NodeDown", "active").await?;
    stage.start_numo()?;
    real.until(&stage, "NodeDown", "suppressed").await?;
    gate.open_for_all()?;
    finish(&stage).await?;
    stage
        .until("the silences are ended", 60, || async {
            Ok(real.silences("numo").await?.is_empty().then_some(()))
        })
        .await?;
    real.until(&stage, "NodeDown", "active").await?;
    assert_eq!(real.silences("ada").await?.len(), 1, "a stranger's stays");
    let api: Api<MutexNotifier> = Api::all(stage.person.clone());
    stage
        .until("the status says that none is left", 60, || async {
            let status = api.get("silences").await?.status.unwrap_or_default();
            Ok((status.silences == Some(0)).then_some(()))
        })
        .await?;
    stands(&stage, "silences", "ValidConfig").await?;
    stage.judge(&judgement(&[], &["after"])).await?;
    stage.strike().await
}
