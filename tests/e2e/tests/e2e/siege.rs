//! numo under siege: everything hostile at once, as rules of a namespace that no owner refers to and as clients of its ports, while an
//! upgrade passes beside it. Nothing of it may end numo, hold it up, keep it from starting again, or take more memory than its container
//! has.

use crate::{
    NEW, apply, finish, judgement,
    maintenance::{install_webhook, object, refused},
    prepare, quick, run_of, set, target, workers,
};
use anyhow::{Context, Result};
use kube::{Api, api::PostParams};
use numo_api::{MutexRuleStatus, NodeMaintenance, conditions::types, node_maintenance::MEDIK8S_GROUP};
use numo_e2e::{
    Numo, Proxy, Slow, Stage, StageOptions,
    memory::{self, Fence},
    siege::{Crowd, Ends, Hostile, TEAM, besiege, fill, heavy, peak_mib, strangers},
};
use numo_world::WorldSpec;
use serde_json::json;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// As the Deployment has it with the webhook: three ports.
const PORTS: [&str; 6] = [
    "--webhook-certs",
    "self",
    "--webhook-address",
    "127.0.0.1:0",
    "--probe-address",
    "127.0.0.1:0",
];
/// What numo itself may take at most beside all of it (MiB): loaded components have 256 together, and what strangers wrote the rest. How
/// much it is on a machine that has time is for the benchmark (`siege_peak_mib`).
const PEAK_MIB: u64 = 512;
/// Clients on each of them: more than places.
const SILENT: usize = 80;

/// The status of a rule, whatever its spec is.
async fn status(stage: &Stage, name: &str) -> Result<MutexRuleStatus> {
    #[derive(serde::Deserialize)]
    struct Only {
        #[serde(default)]
        status: MutexRuleStatus,
    }
    let path = format!("/apis/{}/v1alpha1/namespaces/{TEAM}/mutexrules", numo_api::GROUP);
    let request = kube::core::Request::new(path).get(name, &kube::api::GetParams::default())?;
    let text = stage.client.request_text(request).await?;
    Ok(serde_json::from_str::<Only>(&text)?.status)
}

/// Waits until each rule says what becomes of it.
async fn are_judged(stage: &Stage, rules: &[Hostile]) -> Result<()> {
    for Hostile { rule, ends } in rules {
        stage
            .until(&format!("MutexRule {rule}: {ends:?}"), 120, || async {
                let status = status(stage, rule).await?;
                let ready = status
                    .conditions
                    .into_iter()
                    .find(|one| one.type_ == types::READY);
                let ready = ready.context("not judged yet")?;
                let (reason, message) = (
                    ready.reason.unwrap_or_default(),
                    ready.message.unwrap_or_default(),
                );
                let is = match ends {
                    Ends::Says(words) => message.contains(words),
                    Ends::For(reasons) => reasons.contains(&reason),
                };
                anyhow::ensure!(is, "{reason}: {message}");
                Ok(Some(()))
            })
            .await?;
    }
    Ok(())
}

/// What a probe is told.
fn probed(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: numo\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Where numo serves all that it serves: metrics, probes and the webhook.
async fn listeners(stage: &Stage) -> Result<Vec<(String, String)>> {
    stage
        .until("numo serves three ports", 60, || async {
            let listeners = stage.numo().map(Numo::listeners).unwrap_or_default();
            Ok((listeners.len() == 3).then_some(listeners))
        })
        .await
}

/// So many workers, and a control plane as slow as a real one: its minutes take seconds in the world, and numo is no faster for that.
fn slow_control_plane(number: usize) -> WorldSpec {
    let mut world = workers(number);
    world.timings.control_plane = 4500.0;
    world
}

/// Starts numo with all ports and the memory of its container.
fn start(stage: &mut Stage) -> Result<(Fence, Option<u32>)> {
    stage.start_numo_with(&PORTS)?;
    let pid = stage.numo().and_then(Numo::pid);
    let fence = Fence::around(pid.context("numo has ended")?, memory::limit()?)?;
    Ok((fence, pid))
}

/// That the webhook looks at the control plane, by a dry run: it admits a master, or says that etcd needs it. A NodeChange that nobody can
/// read is a stranger's matter.
async fn looks_at_masters(stage: &Stage) -> Result<()> {
    let maintenances: Api<NodeMaintenance> = Api::all(stage.person.clone());
    let wanted = serde_json::from_value(object(MEDIK8S_GROUP, "master", "master-0", json!({})))?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    if let Err(error) = maintenances.create(&params, &wanted).await {
        let why = error.to_string();
        anyhow::ensure!(why.contains("will violate etcd quorum"), "{why}");
    }
    Ok(())
}

/// Waits until every port answers in the midst of the crowd, as a kubelet, a scraper and the API server ask it.
async fn answers(stage: &Stage, listeners: &[(String, String)]) -> Result<()> {
    for (what, address) in listeners {
        let is_webhook = what.contains("webhook");
        stage
            .until(&format!("numo answers: {what}"), 60, || async {
                if is_webhook {
                    // The API server asks it.
                    let why = refused(stage, object(MEDIK8S_GROUP, "bad", "worker-9", json!({}))).await;
                    anyhow::ensure!(why.contains("no node with name worker-9 found"), "{why}");
                    looks_at_masters(stage).await?;
                } else {
                    let address = address.clone();
                    let answer = tokio::task::spawn_blocking(move || probed(&address)).await??;
                    anyhow::ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                }
                Ok(Some(()))
            })
            .await?;
    }
    Ok(())
}

/// That numo runs as it was begun, and what it took.
fn is_unharmed(stage: &Stage, fence: &Fence, pid: Option<u32>) -> Result<()> {
    let now = stage.numo().and_then(Numo::pid);
    assert_eq!(now, pid, "it was never started again");
    memory::within(fence, memory::limit()?)?;
    let peak = peak_mib(stage)?;
    assert!(peak < PEAK_MIB, "numo had {peak} MiB");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_passes_beside_everything_hostile_at_once() -> Result<()> {
    let mut stage = set(slow_control_plane(6), Vec::new()).await?;
    stage.stop_numo().await?;
    // The rights first: numo makes its certificate when it starts.
    install_webhook(&stage, "127.0.0.1:1").await?;
    let (fence, pid) = start(&mut stage)?;
    prepare(&stage, &[quick()], json!({})).await?;
    let ports = listeners(&stage).await?;
    let webhook = ports.iter().find(|(what, _)| what.contains("webhook"));
    install_webhook(&stage, &webhook.context("a webhook")?.1).await?;
    let hostile = besiege(&stage).await?;
    let crowd = Crowd::sit(stage.numo().context("numo runs")?, SILENT)?;
    stage.world.upgrade_to(NEW).await?;
    answers(&stage, &ports).await?;
    are_judged(&stage, &hostile).await?;
    finish(&stage).await?;
    drop(crowd);
    is_unharmed(&stage, &fence, pid)?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.stop_numo().await?;
    drop(fence);
    starts_among_them(&mut stage).await?;
    stage.strike().await
}

/// All of it is there from the start for the next numo.
async fn starts_among_them(stage: &mut Stage) -> Result<()> {
    let (fence, pid) = start(stage)?;
    listeners(stage).await?;
    let crowd = Crowd::sit(stage.numo().context("numo runs")?, SILENT)?;
    // Pools are held from the moment that it has listed all of it.
    stage
        .patch_run("upgrade", json!({"spec": {"maxUnavailable": 1}}))
        .await?;
    stage
        .until("the run is decided anew", 60, || async {
            let run = stage.run("upgrade").await?;
            let observed = run.status.and_then(|status| status.observed_generation);
            Ok((observed == run.metadata.generation).then_some(()))
        })
        .await?;
    stage.world.upgrade_to("4.18.0").await?;
    stage.upgraded("worker", "4.18.0").await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    drop(crowd);
    // Quotes are escaped in it.
    let log = stage.numo().context("numo runs")?.log().replace('\\', "");
    for key in ["a", "f:a"] {
        let content = format!("\"{key}\":{{\"{key}\":{{\"{key}\"");
        assert!(!log.contains(&content), "nobody's content is in the log");
    }
    assert!(
        log.contains("objects are not kept"),
        "there are more owners of strangers than places"
    );
    is_unharmed(stage, &fence, pid)?;
    stage.stop_numo().await?;
    Ok(())
}

/// The API server takes minutes for each write in a namespace of strangers, as it takes half of one for a large object of theirs. An
/// upgrade that begins meanwhile finds its pools paused.
#[tokio::test(flavor = "multi_thread")]
async fn slow_writes_for_strangers_hold_up_no_pause() -> Result<()> {
    let stage = Stage::set(StageOptions {
        world: slow_control_plane(2),
        without_numo: true,
        ..StageOptions::default()
    })
    .await?;
    let proxy = Proxy::open(stage.numo_kubeconfig(), None).await?;
    proxy.slow(Some(Slow {
        method: "PATCH",
        path: "/namespaces/team/",
        longer: Duration::from_mins(5),
    }));
    let numo = stage.numo_of(&proxy.kubeconfig(), &[])?;
    strangers(&stage, 10).await?;
    let sent = |kind: &str| {
        let writes = proxy.writes();
        let of_strangers = writes.iter().filter(|write| write.contains("/namespaces/team/"));
        of_strangers.filter(|write| write.contains(kind)).count()
    };
    stage
        .until("statuses of strangers are under way", 60, || async {
            Ok((sent("/mutexrules/") > 0 && sent("/mutexrunconfigs/") > 0).then_some(()))
        })
        .await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    assert_eq!(numo.stop().await?, Some(0), "it waits for none of them");
    stage.strike().await
}

/// The API server takes a minute for the list of all MutexRules, as it takes half of one for many large ones of strangers. An upgrade
/// that begins meanwhile, while the next numo comes up, finds its pools paused.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_list_of_rules_holds_up_no_pause() -> Result<()> {
    let stage = set(slow_control_plane(2), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    let mut stage = stage;
    stage.stop_numo().await?;
    let proxy = Proxy::open(stage.numo_kubeconfig(), None).await?;
    proxy.slow(Some(Slow {
        method: "GET",
        // Not that of one namespace, which a rule is read by that an owner names.
        path: "/v1alpha1/mutexrules",
        longer: Duration::from_mins(1),
    }));
    let numo = stage.numo_of(&proxy.kubeconfig(), &[])?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    assert_eq!(numo.stop().await?, Some(0));
    stage.strike().await
}

/// A rule is judged while the API server still takes the status that says so: what it came to is said next, though nothing else happens.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_rule_came_to_is_said_after_a_slow_write() -> Result<()> {
    let stage = Stage::set(StageOptions {
        world: workers(1),
        without_numo: true,
        ..StageOptions::default()
    })
    .await?;
    let proxy = Proxy::open(stage.numo_kubeconfig(), None).await?;
    proxy.slow(Some(Slow {
        method: "PATCH",
        path: "/mutexrules/quick/status",
        longer: Duration::from_secs(5),
    }));
    let numo = stage.numo_of(&proxy.kubeconfig(), &[])?;
    apply(&stage, &[quick()]).await?;
    let rules = stage.api::<numo_api::MutexRule>();
    stage
        .until("MutexRule quick is Ready", 60, || async {
            let status = rules.get("quick").await?.status.unwrap_or_default();
            let mut conditions = status.conditions.into_iter();
            let ready = conditions.find(|one| one.type_ == types::READY);
            let ready = ready.context("not judged yet")?;
            anyhow::ensure!(ready.status == "True", "{ready:?}");
            Ok(Some(()))
        })
        .await?;
    assert_eq!(numo.stop().await?, Some(0));
    stage.strike().await
}

/// Rules of other namespaces were there first, and take all the memory there is for rules.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_an_owner_refers_to_has_room_among_rules_that_take_all_of_it() -> Result<()> {
    let mut stage = set(slow_control_plane(2), Vec::new()).await?;
    fill(&stage).await?;
    let gate = json!({
        "apiVersion": format!("{}/v1alpha1", numo_api::GROUP), "kind": "MutexRule",
        "metadata": {"name": "gate", "namespace": TEAM},
        "spec": {"type": "cel", "timeoutSeconds": 600, "cel": {"config": heavy(), "validations": [{"expression": "size(config.a) > 0"}]}},
    });
    apply(&stage, &[gate]).await?;
    let gate = || Hostile {
        rule: "gate".to_owned(),
        ends: Ends::For(vec![numo_api::Reason::NoRoom.name().to_owned()]),
    };
    are_judged(&stage, &[gate()]).await?;
    let run = run_of(&[], json!({"mutexRules": [{"name": "gate", "namespace": TEAM}]}));
    apply(&stage, &[target("workers", &["worker"]), run]).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    let valid = Hostile {
        ends: Ends::For(vec!["ValidConfig".to_owned()]),
        ..gate()
    };
    are_judged(&stage, std::slice::from_ref(&valid)).await?;
    // The next numo lists them in an order of its own.
    stage.stop_numo().await?;
    stage.start_numo()?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    are_judged(&stage, &[valid]).await?;
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}
