//! What is tried of Google Cloud alone: what it has against a request, how often it is asked, and where numo dies. The scene is that of all clouds.

use anyhow::{Context, Error, Result, ensure};
use kube::api::ListParams;
use numo_cluster::Members;
use numo_e2e::{
    Called, Cut,
    clouds::{
        Cloud as _, Hosted,
        gcp::{Google, NONE, UPDATE},
    },
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    clouds::{Scene, VERSION, WORKERS},
    crashes::tell,
    kept,
};

const NEW: &str = Google::NEW;
const OLD: &str = Google::OLD;
/// How many cloud calls numo lives through before it is killed, where not every one is tried.
const LIVES_THROUGH: usize = 5;
/// How often numo is killed there.
const CRASHES: usize = 6;

/// A group rolls, though an autoscaler of the cloud makes one more machine of the old image meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_rolls_though_an_autoscaler_adds_to_it() -> Result<()> {
    let mut scene = Scene::set(Google::start()?, 2, NEW).await?;
    scene.start()?;
    scene
        .stage
        .until("a machine is made", 120, || async {
            scene.play().await?;
            Ok((scene.hosted.cloud.made() > 2).then_some(()))
        })
        .await?;
    {
        let path = format!("projects/numo-test/zones/zone-a/instanceGroupManagers/{WORKERS}");
        let mut state = scene.hosted.cloud.lock();
        let template = state.groups[&path].template.clone();
        let older = template.replace("workers-2", "workers-1");
        ensure!(older != template, "found {template}, wanted the next template");
        let group = state.groups.get_mut(&path).context("the group")?;
        group.template.clone_from(&older);
        state.add_machine(&path, "workers-of-an-autoscaler");
        let group = state.groups.get_mut(&path).context("the group")?;
        group.template = template;
    }
    scene.rolled(3).await?;
    // Another NodeVersion has no group: it replaces nothing, and stands in nobody's way.
    let made = scene.hosted.cloud.lock().made.len();
    scene.machines.ask_for("another", json!({"image": OLD})).await?;
    let versions = scene.machines.api("NodeVersion", "nodeversions");
    scene
        .stage
        .until("the other one has a status", 60, || async {
            scene.play().await?;
            let other = versions.get("another").await?;
            Ok(other.data.pointer("/status/conditions/0").is_some().then_some(()))
        })
        .await?;
    ensure!(scene.is_rolled(3, NEW).await?, "{}", scene.picture().await?);
    assert_eq!(scene.hosted.cloud.lock().made.len(), made);
    scene.strike().await
}

/// What a cloud has against it is told in its words, wherever a person looks; and once it has nothing against it any more, all goes on.
#[tokio::test(flavor = "multi_thread")]
async fn what_google_cloud_has_against_it_is_told_in_its_words() -> Result<()> {
    let mut scene = Scene::set(Google::start()?, 1, NONE).await?;
    scene.hosted.take_key()?;
    scene.start()?;
    scene.told(&["Denied", "key.json"]).await?;
    scene.announced(&["Denied", "key.json"]).await?;
    assert_eq!(scene.hosted.requests(), 0, "nothing is sent that is not signed");

    scene.hosted.give_key()?;
    scene.told(&["NotFound", "node-none"]).await?;
    scene.announced(&["NotFound", "node-none"]).await?;

    scene.hosted.cloud.deny(true);
    // The NodeVersion is edited in mid-roll.
    scene.machines.ask_for(VERSION, json!({"image": NEW})).await?;
    scene.told(&["Denied", UPDATE]).await?;

    {
        let knobs = &mut scene.hosted.cloud.lock().knobs;
        knobs.denied.clear();
        knobs.quota = 1;
    }
    scene.told(&["Exhausted", "Quota 'CPUS' exceeded"]).await?;
    scene.announced(&["Exhausted", "Quota 'CPUS' exceeded"]).await?;
    assert_eq!(scene.hosted.there().len(), 1, "the old machine stays");

    scene.hosted.cloud.lock().knobs.quota = 100;
    scene.rolled(1).await?;
    scene.strike().await
}

/// A cloud that throttles says when it wants to be asked again, and is not asked before.
#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_throttles_is_asked_again_when_it_has_said() -> Result<()> {
    const SECONDS: u32 = 40;
    let mut scene = Scene::set(Google::start()?, 1, NEW).await?;
    scene.hosted.cloud.lock().knobs.throttle = (1, SECONDS);
    scene.start()?;
    scene.rolled(1).await?;
    let called = scene.hosted.front.called();
    let throttled = called.iter().find(|one| one.status == Some(429));
    let throttled = throttled.context("one was throttled")?;
    let again = called
        .iter()
        .find(|one| one.at > throttled.at && one.what == throttled.what);
    let again = again.context("it was asked again")?;
    let pause = again.at - throttled.at;
    assert!(
        pause >= Duration::from_secs(u64::from(SECONDS) - 1),
        "{} again after {pause:?}",
        again.what
    );
    scene.strike().await
}

/// A group is deleted in mid-roll, with its machines: numo makes none in its place. Whether a machine was made of which it heard nothing is not
/// known any more: it says so, and forgets nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_deleted_in_mid_roll_leaves_nothing() -> Result<()> {
    let spec = json!({"image": NEW, "joinTimeoutSeconds": 60});
    let mut scene = Scene::set_with(Google::start()?, 2, spec).await?;
    scene.start()?;
    scene
        .stage
        .until("a machine is made", 120, || async {
            scene.play().await?;
            Ok((scene.hosted.cloud.lock().made.len() > 2).then_some(()))
        })
        .await?;
    {
        let mut state = scene.hosted.cloud.lock();
        state.groups.clear();
        state.instances.clear();
        state.disks.clear();
    }
    let pending = scene.machines.api("PendingNode", "pendingnodes");
    let ended = scene
        .stage
        .until(
            "nothing is under way, or what is missing is named",
            200,
            || async {
                scene.play().await?;
                scene.hosted.bury(&scene.machines).await?;
                let pending = pending.list(&ListParams::default()).await?.items;
                let is_known =
                    pending.is_empty() || scene.said().await?.contains("instanceGroupManagers/workers");
                let nodes = scene.machines.shown().await?;
                Ok((is_known && nodes.is_empty()).then_some(()))
            },
        )
        .await;
    if let Err(error) = ended {
        return Err(error.context(scene.picture().await?));
    }
    tell(&format!(
        "of a group that was deleted it says: {}",
        scene.said().await?
    ))?;
    assert!(scene.hosted.there().is_empty(), "no machine is made in its place");
    scene.strike().await
}

/// Asked to stop while the cloud makes a machine, numo hears what came of it before it ends.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_asked_to_stop_awaits_what_the_cloud_is_doing() -> Result<()> {
    let mut scene = Scene::set(Google::start()?, 1, NEW).await?;
    {
        let mut cloud = scene.hosted.cloud.lock();
        cloud.knobs.slow = "/createInstances";
        // Shorter than numo waits for an answer when it is asked to stop.
        cloud.knobs.latency = Duration::from_secs(3);
    }
    scene.start()?;
    let is_making = |called: &[Called]| {
        let mut called = called.iter();
        called.any(|one| one.what.ends_with("/createInstances") && one.status.is_none())
    };
    scene
        .stage
        .until("a machine is being made", 120, || async {
            if !is_making(&scene.hosted.front.called()) {
                scene.play().await?;
            }
            Ok(is_making(&scene.hosted.front.called()).then_some(()))
        })
        .await?;
    let begun = Instant::now();
    let code = scene.stage.stop_numo().await?;
    assert_eq!(code, Some(0));
    let called = scene.hosted.front.called();
    assert!(
        !is_making(&called),
        "it stopped after {:?}, and did not wait for the machine",
        begun.elapsed()
    );
    scene.hosted.cloud.lock().knobs.latency = Duration::ZERO;
    scene.start()?;
    scene.rolled(1).await?;
    assert_eq!(
        scene.hosted.cloud.lock().made.len(),
        2,
        "no machine is made twice"
    );
    scene.strike().await
}

/// Rolls a group while numo dies at requests to the cloud: the first at this number, and the next so many later, before and after them in
/// turn. How often it died.
async fn rolls_with_crashes(workers: usize, first: Cut, later: Option<(usize, usize)>) -> Result<usize> {
    let mut scene = Scene::set(Google::start()?, workers, NEW).await?;
    scene.hosted.front.cut(Some(first));
    scene.start()?;
    let (mut cut, mut died) = (first, 0);
    loop {
        let is_cut = tokio::select! {
            rolled = scene.rolled(workers) => { rolled.with_context(|| format!("{cut:?}"))?; false }
            () = scene.hosted.front.is_cut() => true,
        };
        if !is_cut {
            break;
        }
        scene.stage.kill_numo().await?;
        died += 1;
        let next = later.filter(|(_, most)| died < *most);
        let next = next.map(|(pause, _)| match cut {
            Cut::Before(_) => Cut::After(scene.hosted.requests() + pause),
            Cut::After(_) => Cut::Before(scene.hosted.requests() + pause),
        });
        scene.hosted.front.cut(next);
        cut = next.unwrap_or(cut);
        scene.start()?;
    }
    let made = scene.hosted.cloud.lock().made.len();
    ensure!(
        made == 2 * workers,
        "{cut:?}: found {made} machines made, wanted {}",
        2 * workers
    );
    scene.strike().await?;
    Ok(died)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_its_calls_of_the_cloud_it_makes_each_machine_once() -> Result<()> {
    let died = rolls_with_crashes(2, Cut::Before(2), Some((LIVES_THROUGH, CRASHES))).await?;
    tell(&format!(
        "killed at {died} requests to the cloud: each machine was made once, nothing is left"
    ))?;
    assert!(died > 2, "it died {died} times");
    Ok(())
}

/// The same at every request, each in a roll of its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn killed_at_every_call_of_the_cloud_it_makes_each_machine_once() -> Result<()> {
    let mut number = 0;
    loop {
        number += 1;
        let before = rolls_with_crashes(1, Cut::Before(number), None).await?;
        let after = rolls_with_crashes(1, Cut::After(number), None).await?;
        if before + after == 0 {
            break;
        }
    }
    tell(&format!(
        "killed before and after each of {number} requests to the cloud"
    ))?;
    assert!(number > 10, "a roll has more than {number} requests");
    Ok(())
}

/// A control plane of which one node has the old image, and a worker. The node of the control plane is replaced first, beside a real etcd of
/// three members: its member is gone before its machine is, and no other member is.
#[tokio::test(flavor = "multi_thread")]
async fn the_control_plane_goes_first_and_a_member_of_etcd_before_its_machine() -> Result<()> {
    let names = ["control-0000", "control-0001", "control-0002"];
    let mut members = Members::start(&names).await?;
    let cloud = Google::start()?;
    cloud.add_group("control", true, names.len());
    cloud.add_group(WORKERS, false, 1);
    for name in &names[1..] {
        cloud.renew(name)?;
    }
    let hosted = Hosted::open(cloud).await?;
    for name in names {
        hosted.place(name, members.address(name)?);
    }
    let numo = vec![
        "--etcd-certs",
        kept(members.certs().display().to_string()),
        "--etcd-endpoints",
        kept(members.endpoints().join(",")),
    ];
    let mut scene = Scene::open(hosted, numo).await?;
    scene.hosted.play(&scene.machines).await?;
    scene.machines.place_next(members.spare());
    scene.machines.ask_for(VERSION, json!({"image": NEW})).await?;
    scene.start()?;
    let joins = scene
        .stage
        .until("the new node of the control plane joins", 300, || async {
            scene.play().await?;
            let mut shown = scene.machines.shown().await?.into_keys();
            Ok(shown.find(|name| name.starts_with("control-") && !names.contains(&name.as_str())))
        });
    let new = match joins.await {
        Ok(new) => new,
        Err(error) => return Err(error.context(scene.picture().await?)),
    };
    members.join(&new).await?;
    let replaced = scene
        .stage
        .until("the old node of the control plane is replaced", 300, || async {
            scene.play().await?;
            // Only numo has a machine deleted: one that is gone has no member by now.
            let there = scene.hosted.there();
            let is_there = there.contains(names[0]);
            let has_member = members.names().await?.contains(names[0]);
            let is_new = |name: &&String| name.starts_with(WORKERS) && *name != "workers-0000";
            let worker = there.iter().find(is_new);
            if !is_there && has_member {
                return Ok(Some(Some("its machine went before its member".to_owned())));
            }
            if let Some(worker) = worker.filter(|_| is_there) {
                return Ok(Some(Some(format!("{worker} was made before it went"))));
            }
            let is_gone = !scene.machines.shown().await?.contains_key(names[0]);
            Ok((is_gone && !is_there).then_some(None))
        })
        .await;
    match replaced {
        Ok(None) => {}
        Ok(Some(wrong)) => return Err(Error::msg(wrong).context(scene.picture().await?)),
        Err(error) => return Err(error.context(scene.picture().await?)),
    }
    scene.rolled(names.len() + 1).await?;
    let left = names[1..].iter().copied().chain([new.as_str()]);
    let left: BTreeSet<String> = left.map(str::to_owned).collect();
    assert_eq!(members.names().await?, left);
    assert_eq!(
        scene.hosted.cloud.made(),
        names.len() + 3,
        "one machine of each group was made"
    );
    scene.strike().await
}
