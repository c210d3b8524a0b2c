//! Leader election, and the end of the process.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ServiceAccount, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use nix::sys::signal::Signal;
use numo_e2e::{NAMESPACE, Numo, Proxy, Slow, Stage, StageOptions};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    Gate, NEW, finish, job, judgement, prepare, quick, released, rule, rule_began, seen, set, workers,
};

async fn leader(stage: &Stage) -> Result<String> {
    let lease = stage.api::<Lease>().get("numo-leader").await?;
    Ok(lease
        .spec
        .and_then(|spec| spec.holder_identity)
        .unwrap_or_default())
}

/// Binds what numo is bound to, to another ServiceAccount too: the audit log tells the two apart.
async fn twin(stage: &Stage) -> Result<std::path::PathBuf> {
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "numo-twin"}}))?;
    stage
        .api::<ServiceAccount>()
        .create(&PostParams::default(), &account)
        .await?;
    for mut object in numo_e2e::manifests::numo()? {
        if object["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("RoleBinding"))
        {
            let name = format!("{}-twin", object["metadata"]["name"].as_str().unwrap_or_default());
            object["metadata"]["name"] = json!(name);
            object["subjects"][0]["name"] = json!("numo-twin");
            crate::apply(stage, &[object]).await?;
        }
    }
    stage
        .cluster
        .service_account_kubeconfig(NAMESPACE, "numo-twin")
        .await
}

async fn leads(stage: &Stage, numo: &Numo, within: u64) -> Result<()> {
    stage
        .until("another numo leads", within, || async {
            Ok(numo.leads().then_some(()))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_slept_past_its_lease_writes_nothing_and_one_that_dies_is_replaced() -> Result<()> {
    let mut stage = set(workers(3), Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule(
        "gated",
        json!({"jobSpec": job(&gate.wait()), "cleanUpJobSpec": job("true")}),
    )];
    prepare(&stage, &rules, json!({})).await?;
    let twin_config = twin(&stage).await?;
    let second = stage.numo_of(&twin_config, &["--identity", "numo-twin"])?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;

    // The leader stands still, with a rule of its under way, for longer than its lease.
    stage.numo().context("numo")?.signal(Signal::SIGSTOP)?;
    leads(&stage, &second, 40).await?;
    assert_eq!(leader(&stage).await?, "numo-twin");
    gate.open("worker-0")?;
    seen(&stage, "worker-0 is let go by the other", |w| {
        released(w) == ["worker-0"]
    })
    .await?;
    let woken = Timestamp::now();
    let mut first = stage.take_numo().context("numo")?;
    first.signal(Signal::SIGCONT)?;
    let code = first.ended(Duration::from_secs(20)).await?;
    assert!(
        code.is_some_and(|code| code != 0),
        "a leader that lost its lease ends with an error: {code:?}"
    );
    assert!(first.log().contains("lease"), "{}", first.log());
    let written: Vec<String> = stage
        .requests()?
        .iter()
        .filter(|request| request.time >= woken && request.is_write() && request.code < 300)
        .map(|request| format!("{} {} {}", request.verb, request.uri, request.code))
        .collect();
    assert!(written.is_empty(), "written by a replaced leader: {written:?}");

    // The leader dies; another one takes over as soon as the lease has run out.
    let third = stage.another_numo()?;
    stage
        .until("the third one waits", 30, || async {
            Ok(third.log().contains("another numo leads").then_some(()))
        })
        .await?;
    second.kill().await?;
    let died = Instant::now();
    leads(&stage, &third, 40).await?;
    let took = died.elapsed();
    assert!(took < Duration::from_secs(25), "{took:?}");
    gate.open_for_all()?;
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &["gated"])).await?;
    assert_eq!(third.stop().await?, Some(0));
    stage.strike().await
}

/// A leader whose renewal takes long may write nothing until it is done. It leads on then, as nobody took the lease meanwhile, and
/// nothing tells it again of what it saw in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_renewal_comes_late_goes_on_with_what_it_saw_meanwhile() -> Result<()> {
    let stage = Stage::set(StageOptions {
        world: workers(2),
        without_numo: true,
        ..StageOptions::default()
    })
    .await?;
    let proxy = Proxy::open(stage.numo_kubeconfig(), None).await?;
    let numo = stage.numo_of(&proxy.kubeconfig(), &[])?;
    let gate = Gate::new()?;
    let rules = [rule("gated", json!({"jobSpec": job(&gate.wait())}))];
    prepare(&stage, &rules, json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let mut in_between = 0;
    for soak in 1..=9 {
        proxy.slow(Some(LATE));
        let renewed = is_unsure(&stage).await?;
        stage
            .patch_run("upgrade", json!({"spec": {"soakSeconds": soak}}))
            .await?;
        in_between += u8::from(renewal(&stage).await? == renewed);
        proxy.slow(None);
        stage
            .until("the run is decided anew", 60, || async {
                let run = stage.run("upgrade").await?;
                let observed = run.status.and_then(|status| status.observed_generation);
                Ok((observed == run.metadata.generation).then_some(()))
            })
            .await?;
        if in_between == 2 {
            break;
        }
    }
    assert_eq!(
        in_between, 2,
        "the run was changed while numo could write nothing"
    );
    gate.open_for_all()?;
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &[])).await?;
    assert_eq!(numo.stop().await?, Some(0));
    stage.strike().await
}

/// A renewal takes nearly as long as a leader waits for it: the one before is too old before it is done.
const LATE: Slow = Slow {
    method: "PUT",
    path: "/leases/numo-leader",
    longer: Duration::from_millis(9600),
};

/// When the lease was renewed.
async fn renewal(stage: &Stage) -> Result<Timestamp> {
    let lease = stage.api::<Lease>().get("numo-leader").await?;
    let renewed = lease.spec.and_then(|spec| spec.renew_time);
    Ok(renewed.context("a time")?.0)
}

/// Waits until the leader may write nothing, as its last renewal is too old. When that was.
async fn is_unsure(stage: &Stage) -> Result<Timestamp> {
    stage
        .until("the lease is not sure", 60, || async {
            let renewed = renewal(stage).await?;
            let age = Timestamp::now().duration_since(renewed);
            Ok((age > SignedDuration::from_millis(10_200)).then_some(renewed))
        })
        .await
}

/// Status line and body of a GET.
async fn get(address: &str, path: &str) -> Result<(String, String)> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: numo\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
    Ok((
        head.lines().next().unwrap_or_default().to_owned(),
        body.to_owned(),
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_numo_gives_its_lease_back_and_its_probes_and_metrics_are_served_until_then() -> Result<()>
{
    let mut stage = set(workers(2), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    let address = stage
        .numo()
        .and_then(Numo::address)
        .context("the log says where it serves")?;
    let (status, body) = get(&address, "/healthz").await?;
    assert!(status.contains("200") && body.contains("ok"), "{status} {body}");
    let (status, _) = get(&address, "/readyz").await?;
    assert!(status.contains("200"), "{status}");
    let (status, _) = get(&address, "/nothing").await?;
    assert!(status.contains("404"), "{status}");
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    let (status, body) = get(&address, "/metrics").await?;
    assert!(status.contains("200"), "{status}");
    let mut names = std::collections::BTreeSet::new();
    for line in body
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains(' '))
    {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        assert!(name.starts_with("numo_"), "one prefix: {line}");
        assert!(
            !line.contains("worker-0"),
            "no label grows with the cluster: {line}"
        );
        names.insert(name.to_owned());
    }
    for name in [
        "numo_build_info",
        "numo_leader",
        "numo_nodes",
        "numo_passes_total",
        "numo_writes_total",
        "numo_decide_seconds_count",
        "numo_invariant_breaches_total",
    ] {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
    assert!(body.contains("numo_leader 1"), "{body}");
    assert!(body.contains("numo_invariant_breaches_total 0"), "{body}");
    assert!(body.trim_end().ends_with("# EOF"), "OpenMetrics");

    let numo = stage.numo().context("numo")?;
    let holder = leader(&stage).await?;
    assert!(!holder.is_empty());
    for line in numo.log().lines() {
        let line: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        assert!(
            line["timestamp"].is_string() && line["level"].is_string(),
            "{line}"
        );
    }
    let began = Instant::now();
    assert_eq!(stage.stop_numo().await?, Some(0), "SIGTERM ends it well");
    assert!(began.elapsed() < Duration::from_secs(10), "and soon");
    assert_eq!(leader(&stage).await?, "", "the lease is given back");
    let next = stage.another_numo()?;
    leads(&stage, &next, 10)
        .await
        .context("so the next need not wait for it to run out")?;
    assert_eq!(next.stop().await?, Some(0));
    stage.strike().await
}

/// Asks a numo again and again whether it is ready, and ends with the first answer that is no yes. Counts the others.
async fn flaps(address: &str, answers: &AtomicUsize) -> Result<()> {
    loop {
        let (status, body) = get(address, "/readyz").await?;
        anyhow::ensure!(status.contains("200"), "{status} {body}");
        answers.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A replica is ready before it leads, while it takes over, and when it leads: a rollout that waits for it never sees it
/// waver.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_ready_before_while_and_after_it_becomes_the_leader() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    let standby = stage.another_numo()?;
    let address = stage
        .until("the standby is ready", 30, || async {
            let Some(address) = standby.address() else {
                return Ok(None);
            };
            let (status, _) = get(&address, "/readyz").await?;
            let waits = standby.log().contains("another numo leads");
            Ok((waits && status.contains("200")).then_some(address))
        })
        .await?;
    assert!(!standby.leads());
    let answers = AtomicUsize::new(0);
    let change = async {
        stage
            .until("it was asked before", 10, || async {
                Ok((answers.load(Ordering::Relaxed) > 10).then_some(()))
            })
            .await?;
        stage.kill_numo().await?;
        leads(&stage, &standby, 40).await?;
        let before = answers.load(Ordering::Relaxed);
        // It lists everything anew, and works.
        stage.world.upgrade_to(NEW).await?;
        finish(&stage).await?;
        anyhow::ensure!(answers.load(Ordering::Relaxed) > before, "it was not asked after");
        anyhow::Ok(())
    };
    tokio::select! {
        flap = flaps(&address, &answers) => flap.context("/readyz of the standby")?,
        changed = change => changed?,
    }
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    assert_eq!(standby.stop().await?, Some(0));
    stage.strike().await
}

/// A leader that may not list a kind holds no pool. It says so in every way there is, stays ready for those who ask it something, and goes
/// on once it may.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_cannot_list_a_kind_says_which() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    stage.may_lack_rights = true;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.stop_numo().await?;
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    let whole = roles.get("numo").await?;
    let mut less = whole.clone();
    for rule in less.rules.iter_mut().flatten() {
        if let Some(resources) = &mut rule.resources {
            resources.retain(|resource| resource != "mutexrules");
        }
    }
    if let Some(rules) = &mut less.rules {
        rules.retain(|rule| rule.resources.as_ref().is_none_or(|all| !all.is_empty()));
    }
    let patch = |role: &ClusterRole| Patch::Merge(json!({"rules": role.rules}));
    roles
        .patch("numo", &PatchParams::default(), &patch(&less))
        .await?;
    stage.start_numo()?;
    let address = stage
        .until("all else is listed", 60, || async {
            let Some(address) = stage.numo().and_then(Numo::address) else {
                return Ok(None);
            };
            let (_, body) = get(&address, "/healthz").await?;
            Ok((body == "ok\nnot listed yet: mutexrules\n").then_some(address))
        })
        .await?;
    let (status, body) = get(&address, "/readyz").await?;
    assert!(
        status.contains("200") && body.contains("not listed yet: mutexrules"),
        "{status} {body}"
    );
    let shown = "numo_not_listed{resource=\"mutexrules\"} 1";
    let (_, body) = get(&address, "/metrics").await?;
    assert!(body.contains(shown), "{body}");
    roles
        .patch("numo", &PatchParams::default(), &patch(&whole))
        .await?;
    stage
        .until("everything is listed", 60, || async {
            let (_, body) = get(&address, "/healthz").await?;
            Ok((body == "ok\n").then_some(()))
        })
        .await?;
    let (_, body) = get(&address, "/metrics").await?;
    assert!(!body.contains("numo_not_listed{"), "{body}");
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}
