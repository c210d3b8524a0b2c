//! When nodes begin: openings and freezes of runs, Plans and NodeMaintenances, by the clock of the API server.

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
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
    assert_eq!(found["waves"].as_array().map(Vec::len), Some(2), "{found:#}");
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
    plans::is_given_back(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
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
    stage.strike().await
}
