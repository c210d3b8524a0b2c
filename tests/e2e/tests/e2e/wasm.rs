//! Rules of type wasm: components gate nodes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use anyhow::{Context, Result};
use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use kube::api::{PatchParams, PostParams};
use numo_api::{MutexRule, Outcome, Phase, RuleWait};
use numo_e2e::{Stage, manifests, rules::Rules};
use numo_world::Judgement;
use serde_json::{Value, json};

use crate::artifacts::invitation;
use crate::{
    NEW, apply, condition, explained, finish, jobs, judgement, object, prepare, released_after_a_while, rule,
    run_of, set, target, verdicts, waits, workers,
};

/// A component of `plugins/`.
pub async fn component(name: &str) -> Result<Vec<u8>> {
    let path = numo_e2e::rules::components(&[name])
        .await?
        .join(format!("{name}.wasm"));
    std::fs::read(&path).with_context(|| path.display().to_string())
}

/// A ConfigMap that holds a component.
pub async fn store(stage: &Stage, name: &str, bytes: Vec<u8>) -> Result<()> {
    let map = ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        binary_data: Some([("rule.wasm".to_owned(), ByteString(bytes))].into()),
        ..Default::default()
    };
    stage
        .api::<ConfigMap>()
        .create(&PostParams::default(), &map)
        .await?;
    Ok(())
}

/// A MutexRule of type wasm; `wasm` is laid over the ConfigMap it is in.
pub fn wasm_rule(name: &str, map: &str, mut wasm: Value) -> Value {
    wasm["configMap"] = json!({"name": map, "key": "rule.wasm"});
    object(
        "MutexRule",
        name,
        json!({"type": "wasm", "timeoutSeconds": 600, "wasm": wasm}),
    )
}

/// Waits until a condition of a rule has this status and reason; its message.
pub async fn rule_says(stage: &Stage, name: &str, type_: &str, status: &str, reason: &str) -> Result<String> {
    rule_of_says(stage, numo_e2e::NAMESPACE, name, (type_, status, reason)).await
}

/// The same of a rule of any namespace.
pub async fn rule_of_says(
    stage: &Stage,
    namespace: &str,
    name: &str,
    (type_, status, reason): (&str, &str, &str),
) -> Result<String> {
    let what = format!("MutexRule {namespace}/{name} has {type_}={status} {reason}");
    let rules: kube::Api<MutexRule> = kube::Api::namespaced(stage.client.clone(), namespace);
    stage
        .until(&what, 90, || async {
            let rule = rules.get(name).await?;
            let conditions = rule.status.map(|status| status.conditions).unwrap_or_default();
            Ok(conditions
                .into_iter()
                .find(|c| c.type_ == type_ && c.status == status && c.reason.as_deref() == Some(reason))
                .map(|c| c.message.unwrap_or_default()))
        })
        .await
}

/// Its node has to have a label.
pub fn wants_disk() -> Value {
    json!({"config": {
        "labels": [{"key": "example.com/disk", "operator": "In", "values": ["checked"]}],
        "retryAfterSeconds": 5,
    }})
}

/// Since when rules make worker-0 wait, as its journal has it.
async fn waiting(stage: &Stage) -> Result<Vec<RuleWait>> {
    let status = stage.change("worker-0").await?.context("a journal")?.status;
    Ok(status.map(|status| status.rule_waits).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_makes_a_node_wait_with_its_own_words_until_it_passes() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    store(&stage, "node-requirement", component("node-requirement").await?).await?;
    let disk = wasm_rule("disk", "node-requirement", wants_disk());
    prepare(&stage, &[disk], json!({})).await?;
    rule_says(&stage, "disk", "Fetched", "True", "Fetched").await?;
    rule_says(&stage, "disk", "Compiled", "True", "Compiled").await?;
    rule_says(&stage, "disk", "ValidConfig", "True", "ValidConfig").await?;
    let status = stage.api::<MutexRule>().get("disk").await?.status;
    let about = status.and_then(|status| status.wasm).unwrap_or_default();
    assert!(about.digest.is_some_and(|digest| digest.starts_with("sha256:")));
    assert_eq!(about.contract_version.as_deref(), Some("1.0.0"));
    assert!(about.size.is_some_and(|size| size > 1000));

    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "RuleWaits").await?;
    assert!(why.contains("disk") && why.contains("example.com/disk"), "{why}");
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "nothing is released"
    );
    let text = stage.say(&["explain", "worker-0"]).await?;
    for words in [
        "PreRules",
        "RuleWaits",
        "example.com/disk",
        "the owners of the rule's namespace",
    ] {
        assert!(text.contains(words), "explain says nothing of {words}: {text}");
    }
    let run = stage.run("upgrade").await?;
    assert!(
        condition(&run, "Stalled").is_none(),
        "a wait that a rule asks for is no stall"
    );

    // Its time counts on under another leader.
    let since = waiting(&stage).await?;
    assert_eq!(since.len(), 1, "{since:?}");
    assert!(
        since[0].rule.ends_with("/disk") && since[0].phase == Phase::Pre,
        "{since:?}"
    );
    stage.kill_numo().await?;
    stage.start_numo()?;
    waits(&stage, "RuleWaits").await?;
    assert_eq!(waiting(&stage).await?, since);

    for node in ["worker-0", "worker-1"] {
        let label = json!({"metadata": {"labels": {"example.com/disk": "checked"}}});
        stage.patch_node(node, label).await?;
    }
    finish(&stage).await?;
    assert_eq!(waiting(&stage).await?, []);
    let change = stage.change("worker-0").await?.context("a journal")?;
    assert_eq!(verdicts(&change, "disk", Phase::Pre), [(1, Outcome::Pass, None)]);
    assert!(jobs(&stage).await?.is_empty(), "no Job was made");
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_component_needs_and_is_not_lent_is_said_before_any_node_waits() -> Result<()> {
    let stage = set(workers(1), Vec::new()).await?;
    let missing = wasm_rule("pdb", "pdb-headroom", json!({}));
    apply(&stage, &[missing]).await?;
    let why = rule_says(&stage, "pdb", "Fetched", "False", "ConfigMapNotFound").await?;
    assert!(why.contains("pdb-headroom"), "{why}");

    // It comes without an edit of the rule.
    store(&stage, "pdb-headroom", component("pdb-headroom").await?).await?;
    let why = rule_says(&stage, "pdb", "ValidConfig", "False", "GrantMissing").await?;
    assert!(why.contains("policy/v1/PodDisruptionBudget"), "{why}");
    rule_says(&stage, "pdb", "Compiled", "True", "Compiled").await?;
    let status = stage.api::<MutexRule>().get("pdb").await?.status;
    let about = status.and_then(|status| status.wasm).unwrap_or_default();
    assert!(
        about.missing_grants.iter().any(|want| want.target == "v1/Pod"),
        "{about:?}"
    );

    apply(
        &stage,
        &[target("workers", &["worker"]), run_of(&["pdb"], json!({}))],
    )
    .await?;
    stage.world.upgrade_to(NEW).await?;
    let why = stage
        .until("the run refuses the rule", 90, || async {
            let run = stage.run("upgrade").await?;
            let validated = condition(&run, "ConfigValidated").filter(|c| c.status == "False");
            Ok(validated.and_then(|c| c.message.clone()))
        })
        .await?;
    assert!(
        why.contains("pdb") && why.contains("PodDisruptionBudget"),
        "{why}"
    );
    assert!(stage.changes().await?.is_empty(), "no node has its turn");

    // What the schema lets through and the component does not.
    store(&stage, "node-requirement", component("node-requirement").await?).await?;
    let bad = json!({"config": {"labels": [{"key": "a b", "operator": "Exists"}]}});
    let phases = wasm_rule("phase", "node-requirement", wants_disk());
    let phases = {
        let mut phases = phases;
        phases["spec"]["phases"] = json!(["PreRun"]);
        phases
    };
    apply(&stage, &[wasm_rule("config", "node-requirement", bad), phases]).await?;
    let why = rule_says(&stage, "config", "ValidConfig", "False", "InvalidConfig").await?;
    assert!(why.contains("spec.wasm.config/labels/0/key"), "{why}");
    let why = rule_says(&stage, "phase", "ValidConfig", "False", "PhaseUnsupported").await?;
    assert!(why.contains("PreRun") && why.contains("pre-release"), "{why}");
    // A rule of Jobs beside them is judged as ever.
    apply(&stage, &[rule("quick", json!({"jobSpec": crate::job("true")}))]).await?;
    rule_says(&stage, "quick", "ValidConfig", "True", "ValidConfig").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_reads_in_post_what_it_remembered_in_pre() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let rules = Rules::publish(&["workloads-ready"]).await?;
    let path = manifests::root().join("examples/rule-workloads-ready.yaml");
    let mut objects = manifests::parse(&std::fs::read_to_string(path)?)?;
    rules.point(&mut objects);
    apply(&stage, &rules.pull_secret()).await?;
    apply(&stage, &objects).await?;
    let web = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "tools", "command": ["sleep", "1000"]}]},
            },
        },
    });
    apply(&stage, &[web]).await?;
    let run = run_of(&["workloads-ready"], json!({}));
    apply(&stage, &[target("workers", &["worker"]), run]).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    for node in ["worker-0", "worker-1"] {
        let change = stage.change(node).await?.context("a journal")?;
        for phase in [Phase::Pre, Phase::Post] {
            let all = verdicts(&change, "workloads-ready", phase);
            assert!(
                all.last()
                    .is_some_and(|(_, outcome, _)| *outcome == Outcome::Pass),
                "{all:?}"
            );
        }
        let verdicts = change.status.map(|status| status.verdicts).unwrap_or_default();
        assert!(
            verdicts
                .iter()
                .any(|verdict| verdict.rule.contains('/') && verdict.data.is_some()),
            "{verdicts:?}"
        );
    }
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

/// A server on loopback that answers 200 to who brings the token, and 401 to all others.
fn guarded(token: &'static str) -> Result<u16> {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0_u8; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).to_lowercase();
            let known = head.contains(&format!("authorization: bearer {token}\r\n"));
            let status = if known { "200 OK" } else { "401 Unauthorized" };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
    });
    Ok(port)
}

/// A component has a Secret attached that it never sees, and only where the Secret's owner says.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_attached_to_the_servers_that_it_names_and_no_others() -> Result<()> {
    let mut stage = set(workers(1), vec!["--rules-reach-loopback"]).await?;
    // It asks for the Secret before anybody has invited it.
    stage.may_lack_rights = true;
    let port = guarded("sesame")?;
    store(&stage, "http-check", component("http-check").await?).await?;
    apply(&stage, &[crate::asked::network()]).await?;
    let check = wasm_rule(
        "status",
        "http-check",
        json!({
            "config": {"url": format!("http://127.0.0.1:{port}/"), "credential": "door", "retryAfterSeconds": 5},
            "grants": {"http": [{
                "scheme": "http", "host": "127.0.0.1", "port": port, "addresses": ["127.0.0.0/8"], "credentials": ["door"],
            }]},
        }),
    );
    prepare(&stage, &[check], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let says = |words: &'static str| explained(&stage, "worker-0", words, 90);
    says("numo may not read it").await?;
    apply(&stage, &[invitation()]).await?;
    says("found none").await?;
    let secret = |hosts: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "door", "annotations": {"numo.openshift-optional.skrzypek.io/rule-hosts": hosts}},
            "stringData": {"token": "sesame"},
        })
    };
    apply(&stage, &[secret("elsewhere.example.com")]).await?;
    says("does not name http://127.0.0.1").await?;
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "nothing is released"
    );
    apply(&stage, &[secret("127.0.0.1, http://127.0.0.1")]).await?;
    finish(&stage).await?;
    let change = stage.change("worker-0").await?.context("a journal")?;
    assert_eq!(
        verdicts(&change, "status", Phase::Pre),
        [(1, Outcome::Pass, None)]
    );
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

/// A server on loopback that lets whoever asks wait until it opens.
#[derive(Clone, Default)]
struct Door {
    /// Who asked so far.
    asked: Arc<AtomicUsize>,
    /// Who waits now.
    waiting: Arc<AtomicUsize>,
    open: Arc<AtomicBool>,
}

impl Door {
    fn stand(&self) -> Result<u16> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let door = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let door = door.clone();
                std::thread::spawn(move || {
                    door.waiting.fetch_add(1, Relaxed);
                    door.asked.fetch_add(1, Relaxed);
                    door.keep(stream);
                    door.waiting.fetch_sub(1, Relaxed);
                });
            }
        });
        Ok(port)
    }

    /// Until it opens, or who asks goes.
    fn keep(&self, mut stream: std::net::TcpStream) {
        use std::io::{Read as _, Write as _};
        let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(50)));
        while !self.open.load(Relaxed) {
            if matches!(stream.read(&mut [0; 4096]), Ok(0)) {
                return;
            }
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
}

/// A namespace whose registry never answers holds up the rules of no other.
#[tokio::test(flavor = "multi_thread")]
async fn registries_that_never_answer_hold_up_their_own_namespace() -> Result<()> {
    let stage = set(workers(1), vec!["--rules-reach-loopback"]).await?;
    let door = Door::default();
    let port = door.stand()?;
    store(&stage, "node-requirement", component("node-requirement").await?).await?;
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let slow = |number: usize| {
        let image = format!("127.0.0.1:{port}/team/slow:{number}");
        let mut rule = object(
            "MutexRule",
            &format!("slow-{number}"),
            json!({"type": "wasm", "wasm": {"image": image}}),
        );
        rule["metadata"]["namespace"] = json!("team");
        rule
    };
    let all: Vec<_> = std::iter::once(team).chain((0..12).map(slow)).collect();
    apply(&stage, &all).await?;
    stage
        .until("the registry is asked", 60, || async {
            Ok((door.asked.load(Relaxed) > 0).then_some(()))
        })
        .await?;
    apply(&stage, &[wasm_rule("disk", "node-requirement", wants_disk())]).await?;
    rule_says(&stage, "disk", "ValidConfig", "True", "ValidConfig").await?;
    stage.strike().await
}

/// A rule that is asked about two nodes and does not come to an end holds up neither the other node's question nor
/// anything else that numo does.
#[tokio::test(flavor = "multi_thread")]
async fn slow_evaluations_run_beside_one_another_and_hold_up_nothing_else() -> Result<()> {
    let stage = set(workers(3), vec!["--rules-reach-loopback"]).await?;
    let door = Door::default();
    let port = door.stand()?;
    store(&stage, "http-check", component("http-check").await?).await?;
    apply(&stage, &[crate::asked::network()]).await?;
    let check = wasm_rule(
        "status",
        "http-check",
        json!({
            "config": {"url": format!("http://127.0.0.1:{port}/"), "retryAfterSeconds": 5},
            "grants": {"http": [{"scheme": "http", "host": "127.0.0.1", "port": port, "addresses": ["127.0.0.0/8"]}]},
        }),
    );
    let pools: kube::Api<numo_world::openshift::MachineConfigPool> = kube::Api::all(stage.person.clone());
    let two = kube::api::Patch::Merge(json!({"spec": {"maxUnavailable": 2}}));
    pools.patch("worker", &PatchParams::default(), &two).await?;
    stage.world.remember().await?;
    let quick = rule("quick", json!({"jobSpec": crate::job("true")}));
    prepare(&stage, &[check, quick], json!({"maxUnavailable": 2})).await?;
    stage.world.upgrade_to(NEW).await?;
    // A request is given up after seconds: it counts what was done while the same two waited.
    let rules = stage.api::<MutexRule>();
    for timeout in 100.. {
        assert!(timeout < 110, "whatever is done, it waits for evaluations");
        let asked = stage
            .until("two nodes are asked about at once", 60, || async {
                let asked = door.asked.load(Relaxed);
                Ok((door.waiting.load(Relaxed) == 2).then_some(asked))
            })
            .await?;
        let edit = kube::api::Patch::Merge(json!({"spec": {"timeoutSeconds": timeout}}));
        let edited = rules.patch("quick", &PatchParams::default(), &edit).await?;
        stage
            .until("an edited rule is judged", 60, || async {
                let status = rules.get("quick").await?.status;
                let judged = status.and_then(|status| status.observed_generation);
                Ok((judged == edited.metadata.generation).then_some(()))
            })
            .await?;
        if door.waiting.load(Relaxed) == 2 && door.asked.load(Relaxed) == asked {
            break;
        }
    }
    door.open.store(true, Relaxed);
    finish(&stage).await?;
    let expected = Judgement {
        max_in_flight: 2,
        ..judgement(&["quick"], &[])
    };
    stage.judge(&expected).await?;
    stage.strike().await
}
