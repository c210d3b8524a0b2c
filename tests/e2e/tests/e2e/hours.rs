//! When nodes begin: openings and freezes of runs, Plans and NodeMaintenances, by the clock of the API server.

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use numo_api::{MutexWindow, MutexWindowStatus};
use numo_e2e::{NAMESPACE, Stage};
use numo_world::WorldSpec;
use serde_json::{Value, json};

use crate::{
    NEW, apply, explained, finish, judgement, maintenance, plans, prepare, preview::preview, quick, run_of,
    set, waits, workers,
};

/// A freeze from the day before until then.
fn freeze(until: Timestamp) -> Value {
    let from = Timestamp::now() - SignedDuration::from_hours(24);
    json!({"freezes": [{
        "name": "closing", "from": from.to_string(), "to": until.to_string(), "reason": "the books are being closed",
    }]})
}

fn in_seconds(seconds: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_secs(seconds)
}

/// A window of one hour, on the day of the week that is farthest away.
fn far() -> Value {
    let day = Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).weekday();
    let day = (i64::from(day.to_sunday_zero_offset()) + 3) % 7;
    json!({"openings": [{"days": [day.to_string()], "startTime": "12:00", "endTime": "13:00"}], "timeZone": "Europe/Warsaw"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_the_end_of_a_freeze_and_goes_on_by_itself() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let frozen = json!({"window": freeze(in_seconds(3600))});
    prepare(&stage, &[quick()], frozen).await?;
    stage.world.upgrade_to(NEW).await?;
    let message = waits(&stage, "Frozen").await?;
    assert!(
        message.starts_with("spec.window has freeze closing (the books are being closed) until"),
        "{message}"
    );
    let pool = crate::pool(&stage, "worker").await?;
    assert!(pool.spec.paused, "no node rolls by itself meanwhile");
    let text = explained(&stage, "worker-0", "Frozen", 60).await?;
    assert!(text.contains("the window opens"), "{text}");
    let status = stage.say(&["status"]).await?;
    assert!(status.contains("nodes begin again in"), "{status}");
    assert_eq!(stage.journals().await?.len(), 0, "nothing has begun");

    // Nobody but the clock ends it.
    let until = in_seconds(8);
    let ends = run_of(&["quick"], json!({"window": freeze(until)}));
    apply(&stage, &[ends]).await?;
    finish(&stage).await?;
    for change in stage.journals().await? {
        let begun = change.status.and_then(|status| status.entries.into_iter().next());
        let begun = begun.map(|entry| entry.at.parse::<Timestamp>()).transpose()?;
        ensure!(
            begun.is_some_and(|begun| begun.as_second() >= until.as_second()),
            "begun at {begun:?}, before {until}"
        );
    }
    stage.judge(&judgement(&["quick"], &[])).await?;
    stage.strike().await
}

/// What a run took is what the next one is foreseen by: when each of its waves begins, and is done.
#[tokio::test(flavor = "multi_thread")]
async fn hours_say_until_when_they_are_open_and_a_preview_when_each_wave_is_done() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let ends = in_seconds(6 * 3600);
    let freeze = json!({"name": "audit", "from": ends.to_string(), "to": in_seconds(9 * 3600).to_string()});
    let window = json!({"window": {"timeZone": "Europe/Warsaw", "freezes": [freeze]}});
    prepare(&stage, &[quick()], window).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;

    let text = stage
        .say(&["explain", "mutexrunconfig/upgrade", "-n", NAMESPACE])
        .await?;
    assert!(text.contains("hours   spec.window: open until "), "{text}");
    assert!(text.contains("Europe/Warsaw"), "{text}");

    let asked = [
        "mutexrunconfig/upgrade",
        "-n",
        NAMESPACE,
        "--to-version",
        "4.18.0",
    ];
    let (found, code) = preview(&stage, &asked).await?;
    assert_eq!(code, Some(0), "{found:#}");
    assert_eq!(found["forecast"]["earlier"], true, "{found:#}");
    assert_eq!(found["forecast"]["nodes"], 2, "{found:#}");
    let times = found["batches"].as_array().cloned().unwrap_or_default();
    assert_eq!(times.len(), 2, "{found:#}");
    let time = |place: usize, field: &str| -> Result<Timestamp> {
        Ok(times[place][field].as_str().unwrap_or_default().parse()?)
    };
    let takes = found["forecast"]["medianSeconds"].as_i64().unwrap_or_default();
    ensure!(takes > 0, "{found:#}");
    for place in [0, 1] {
        let (begins, done) = (time(place, "begins")?, time(place, "doneBy")?);
        assert_eq!(done.as_second() - begins.as_second(), takes, "{found:#}");
    }
    assert_eq!(time(0, "doneBy")?, time(1, "begins")?, "{found:#}");
    let said = stage.call(&[&["preview"], &asked[..]].concat()).await?;
    for words in [
        "done by ",
        " Europe/Warsaw (",
        " ± ",
        "median of 2 nodes of earlier runs",
    ] {
        assert!(
            said.out.contains(words),
            "preview says nothing of {words}: {said:?}"
        );
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_keeps_plans_and_maintenances_to_its_hours() -> Result<()> {
    let stage = plans::stage(2, Vec::new()).await?;
    let binding = |kind: &str, window: Value| {
        json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
            "metadata": {"name": format!("nights-{}", kind.to_lowercase())},
            "spec": {"ownerSelector": {"kind": kind}, "window": window},
        })
    };
    for kind in ["Plan", "NodeMaintenance"] {
        apply(&stage, &[binding(kind, far())]).await?;
    }
    apply(&stage, &[plans::plan("k3s", "true", json!({"cordon": true}))]).await?;
    maintenance::maintain(&stage, "nm", "worker-1", json!({})).await?;
    let message = plans::waits(&stage, "k3s", "OutsideWindow").await?;
    assert!(
        message.contains("MutexBinding nights-plan spec.window is closed"),
        "{message}"
    );
    let message = maintenance::waits(&stage, "nm", "OutsideWindow").await?;
    assert!(message.contains("12:00–13:00 Europe/Warsaw"), "{message}");
    assert_eq!(plans::jobs(&stage).await?.len(), 0);
    // What is to come is seen before it does: hours that open are no refusal.
    let (found, code) = preview(&stage, &["plan/k3s", "-n", "system-upgrade"]).await?;
    assert_eq!(found["begins"]["reason"], "OutsideWindow", "{found:#}");
    let opens = found["begins"]["at"].as_str().unwrap_or_default();
    assert!(opens.parse::<Timestamp>()? > Timestamp::now(), "{found:#}");
    assert_eq!(found["batches"].as_array().map(Vec::len), Some(2), "{found:#}");
    assert_eq!(code, Some(0), "{found:#}");

    for kind in ["NodeMaintenance", "Plan"] {
        apply(
            &stage,
            &[binding(
                kind,
                json!({"openings": [{"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}]}),
            )],
        )
        .await?;
    }
    maintenance::phase(&stage, "nodemaintenance.medik8s.io", "nm", "Succeeded").await?;
    maintenance::delete(&stage, "nodemaintenance.medik8s.io", "nm").await?;
    plans::complete(&stage, "k3s").await?;
    plans::is_restored(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn hours_that_cannot_be_read_shut_a_run_and_name_the_field() -> Result<()> {
    let stage = set(WorldSpec::default(), Vec::new()).await?;
    apply(&stage, &[quick(), crate::target("workers", &["worker"])]).await?;
    let wrong = json!({"window": {"timeZone": "Mars/Base", "openings": [{"days": ["mon"]}]}});
    apply(&stage, &[run_of(&["quick"], wrong)]).await?;
    let condition = stage
        .condition("upgrade", "Ready", "False", "InvalidField")
        .await?;
    let wanted = "spec.window.timeZone: found \"Mars/Base\", wanted a time zone such as Europe/Warsaw";
    assert!(condition.contains(wanted), "{condition}");
    let event = stage.event("MutexRunConfig", "upgrade", "InvalidField").await?;
    let note = event.note.unwrap_or_default();
    assert!(note.contains(wanted), "{note}");
    stage.strike().await
}

fn mutex_window(name: &str, mut spec: Value) -> Value {
    if spec.get("nodeSelector").is_none() {
        spec["nodeSelector"] = json!({});
    }
    json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexWindow", "metadata": {"name": name}, "spec": spec,
    })
}

/// The status of a MutexWindow, once it is as wanted.
async fn window_is(
    stage: &Stage,
    name: &str,
    wanted: impl Fn(&MutexWindowStatus) -> bool,
) -> Result<MutexWindowStatus> {
    let windows: Api<MutexWindow> = Api::all(stage.person.clone());
    stage
        .until(&format!("MutexWindow {name}"), 60, || async {
            let status = windows.get(name).await?.status.unwrap_or_default();
            Ok(wanted(&status).then_some(status))
        })
        .await
}

/// A MutexWindow holds for every kind of owner that changes one of its nodes, whatever their own hours are.
#[tokio::test(flavor = "multi_thread")]
async fn a_window_keeps_every_owner_from_its_nodes() -> Result<()> {
    let stage = plans::stage(2, Vec::new()).await?;
    let label = json!({"metadata": {"labels": {"rack": "a"}}});
    let nodes: Api<Node> = Api::all(stage.person.clone());
    nodes
        .patch("worker-1", &PatchParams::default(), &Patch::Merge(label))
        .await?;
    let racks = json!({"nodeSelector": {"matchLabels": {"rack": "a"}}, "freezes": freeze(in_seconds(3600))["freezes"]});
    apply(&stage, &[mutex_window("racks", racks)]).await?;
    let said = window_is(&stage, "racks", |status| status.nodes == Some(1)).await?;
    assert_eq!(
        (said.open, said.freeze.as_deref()),
        (Some(false), Some("closing")),
        "{said:?}"
    );
    assert!(said.opens_at.is_some(), "{said:?}");

    apply(
        &stage,
        &[plans::plan(
            "k3s",
            "true",
            json!({"cordon": true, "concurrency": 2}),
        )],
    )
    .await?;
    // The node beside it is none of the window's.
    plans::waits(&stage, "k3s", "Frozen").await?;
    stage
        .until("the Job of worker-0", 60, || async {
            let jobs = plans::jobs(&stage).await?;
            Ok((jobs.len() == 1).then_some(()))
        })
        .await?;
    maintenance::maintain(&stage, "nm", "worker-1", json!({})).await?;
    let message = maintenance::waits(&stage, "nm", "Frozen").await?;
    assert!(
        message.starts_with("MutexWindow racks has freeze closing (the books are being closed) until"),
        "{message}"
    );
    let text = explained(&stage, "worker-1", "Frozen", 60).await?;
    assert!(
        text.contains("MutexWindow racks: freeze closing, opens"),
        "{text}"
    );
    let text = stage.say(&["explain", "mutexwindow/racks"]).await?;
    assert!(text.contains("1 node: worker-1"), "{text}");
    let status = stage.say(&["status", "-A"]).await?;
    assert!(status.contains("WINDOW") && status.contains("racks"), "{status}");

    // An opening of another window opens nothing that a freeze holds, and nothing but the clock ends the freeze.
    let always = json!({"openings": [{"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}]});
    let ends =
        json!({"nodeSelector": {"matchLabels": {"rack": "a"}}, "freezes": freeze(in_seconds(8))["freezes"]});
    apply(
        &stage,
        &[mutex_window("always", always), mutex_window("racks", ends)],
    )
    .await?;
    maintenance::phase(&stage, "nodemaintenance.medik8s.io", "nm", "Succeeded").await?;
    window_is(&stage, "racks", |status| status.open == Some(true)).await?;
    maintenance::delete(&stage, "nodemaintenance.medik8s.io", "nm").await?;
    plans::complete(&stage, "k3s").await?;
    plans::is_restored(&stage, "k3s").await?;
    stage.strike().await
}

/// A window that cannot be understood lets no node begin that it selects, and says which field is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_cannot_be_read_shuts_its_nodes_and_a_run_waits_for_it() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let mars = json!({"timeZone": "Mars/Base", "openings": [{"days": ["mon"]}]});
    // The API server refuses what it sees that never comes; a range of months it does not look into.
    let never = json!({"openings": [{"cron": "0 0 30 2-2 *", "durationSeconds": 3600}]});
    apply(
        &stage,
        &[mutex_window("mars", mars), mutex_window("never", never)],
    )
    .await?;
    for (name, reason, words) in [
        ("mars", "InvalidField", "spec.timeZone: found \"Mars/Base\""),
        ("never", "NeverOpens", "no opening ahead"),
    ] {
        let said = window_is(&stage, name, |status| !status.conditions.is_empty()).await?;
        let ready = said.conditions.iter().find(|one| one.type_ == "Ready");
        assert!(
            ready.is_some_and(|one| one.status == "False" && one.reason.as_deref() == Some(reason)),
            "{said:?}"
        );
        let event = stage.event("MutexWindow", name, "InvalidConfig").await?;
        let note = event.note.unwrap_or_default();
        assert!(note.contains(words), "{name}: {note}");
        assert_eq!(event.type_.as_deref(), Some("Warning"), "{name}");
    }
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let message = waits(&stage, "InvalidField").await?;
    assert!(
        message.contains(
            "MutexWindow mars spec.timeZone: found \"Mars/Base\", wanted a time zone such as Europe/Warsaw"
        ),
        "{message}"
    );
    let text = explained(&stage, "worker-0", "InvalidField", 60).await?;
    assert!(text.contains("kubectl edit mutexwindow mars"), "{text}");
    let said = stage.call(&["doctor"]).await?.out;
    assert!(said.contains("MutexWindow mars"), "{said}");
    stage.event("MutexRunConfig", "upgrade", "InvalidField").await?;
    assert_eq!(stage.journals().await?.len(), 0, "nothing has begun");

    let windows: Api<MutexWindow> = Api::all(stage.person.clone());
    windows.delete("mars", &DeleteParams::default()).await?;
    let message = waits(&stage, "NeverOpens").await?;
    assert!(message.contains("MutexWindow never"), "{message}");
    stage.event("MutexRunConfig", "upgrade", "NeverOpens").await?;
    assert_eq!(stage.journals().await?.len(), 0, "nothing has begun");

    // Who takes the windows away lets the nodes begin.
    windows.delete("never", &DeleteParams::default()).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &[])).await?;
    stage.strike().await
}
