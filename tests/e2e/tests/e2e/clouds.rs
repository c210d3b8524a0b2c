//! Machines that are replaced on Google Cloud: the whole numo with the provider `gcp` as a component, which signs with the key of a service
//! account and speaks TLS to a local server of the API. The test plays what boots, and counts what nobody accounts for.

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use numo_e2e::{
    Called, Cut, Stage,
    gcp::{Google, Leaked, NEW, NONE, OLD},
    machines::{Machines, without_nodes},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{crashes::tell, kept};

/// The NodeVersion of all tests.
const VERSION: &str = "constellation-version";
/// How many cloud calls numo lives through before it is killed, where not every one is tried.
const LIVES_THROUGH: usize = 5;
/// How often numo is killed there.
const CRASHES: usize = 6;

/// A cluster on Google Cloud.
struct Scene {
    stage: Stage,
    machines: Machines,
    google: Google,
    group: String,
}

impl Scene {
    /// With so many workers of the old image, a NodeVersion that asks for an image, and no numo yet.
    async fn set(workers: usize, image: &str) -> Result<Self> {
        Self::set_with(workers, json!({"image": image})).await
    }

    /// The same with the spec of the NodeVersion.
    async fn set_with(workers: usize, spec: Value) -> Result<Self> {
        let google = Google::open().await?;
        // A pod keeps its name when its container is started again, and so its place as the leader.
        let mut numo = vec!["--identity", "numo-0"];
        numo.extend(google.arguments().await?.into_iter().map(kept));
        let (stage, machines) = without_nodes(numo).await?;
        let group = google.add_group("workers", false, workers);
        google.play(&machines).await?;
        machines.ask_for(VERSION, spec).await?;
        Ok(Self {
            stage,
            machines,
            google,
            group,
        })
    }

    /// numo is started, or started again.
    fn start(&mut self) -> Result<()> {
        self.stage.start_numo_in(&[], &self.google.front.environment())
    }

    /// Time goes by; no machine is there that nobody accounts for.
    async fn play(&self) -> Result<()> {
        self.google.play(&self.machines).await?;
        let leaked = self.google.leaked(&self.machines).await?;
        ensure!(leaked == Leaked::default(), "leaked: {leaked:?}");
        Ok(())
    }

    /// Whether so many nodes are there, all of them of the image, and nothing is under way.
    async fn is_rolled(&self, nodes: usize, image: &str) -> Result<bool> {
        let shown = self.machines.shown().await?;
        let is_new = shown.len() == nodes && shown.values().all(|node| node.image == image);
        Ok(is_new && self.machines.is_at_rest(VERSION).await? && self.google.there().len() == nodes)
    }

    /// Waits until it is so, and says what it was about if it never is.
    async fn rolled(&self, nodes: usize) -> Result<()> {
        let rolled = self
            .stage
            .until(
                "every node has the image, and nothing is under way",
                300,
                || async {
                    self.play().await?;
                    Ok(self.is_rolled(nodes, NEW).await?.then_some(()))
                },
            )
            .await;
        match rolled {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.picture().await?)),
        }
    }

    /// What the NodeVersion says of itself.
    async fn said(&self) -> Result<String> {
        let versions = self.machines.api("NodeVersion", "nodeversions");
        Ok(versions.get(VERSION).await?.data["status"].to_string())
    }

    /// What a person would look at first.
    async fn picture(&self) -> Result<String> {
        let called = self.google.front.called();
        let last = called.iter().rev().take(20).rev();
        let last: Vec<String> = last.map(|one| format!("{} {:?}", one.what, one.status)).collect();
        Ok(format!(
            "{}\nnodes {:#?}\nmachines {:?}\nlast calls {last:#?}",
            self.said().await?,
            self.machines.shown().await?,
            self.google.there(),
        ))
    }

    /// Waits until the cloud's words stand in the status, and `numo explain` has them.
    async fn told(&self, words: &[&str]) -> Result<()> {
        let has_all = |text: &str| words.iter().all(|word| text.contains(word));
        let told = self
            .stage
            .until(&format!("{words:?} is told"), 120, || async {
                self.play().await?;
                let condition = self.said().await?;
                ensure!(has_all(&condition), "no {words:?} in the status {condition}");
                Ok(Some(()))
            })
            .await;
        if let Err(error) = told {
            return Err(error.context(self.picture().await?));
        }
        let object = format!("nodeversion/{VERSION}");
        let said = self.stage.say(&["explain", &object]).await?;
        ensure!(has_all(&said), "no {words:?} in\n{said}");
        Ok(())
    }

    /// Waits until an event has the words: the owner needs a person, for another reason than before.
    async fn announced(&self, words: &[&str]) -> Result<()> {
        let what = format!("an event with {words:?}");
        self.stage
            .until(&what, 30, || async {
                let events = self.stage.events().await?;
                let mut notes = events.into_iter().filter_map(|event| event.note);
                Ok(notes
                    .any(|note| words.iter().all(|word| note.contains(word)))
                    .then_some(()))
            })
            .await
    }

    /// numo ends, and all that it was given.
    async fn strike(self) -> Result<()> {
        let leaked = self.google.leaked(&self.machines).await?;
        ensure!(leaked == Leaked::default(), "leaked: {leaked:?}");
        self.stage.strike().await
    }
}

/// What a request is about, without the names in it.
fn kind(called: &Called) -> String {
    let (method, path) = called.what.split_once(' ').unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    let end = parts.last().copied().unwrap_or_default();
    let collection = parts.iter().rev().nth(1).copied().unwrap_or_default();
    if ["instanceGroupManagers", "instanceTemplates"].contains(&end) {
        return format!("{method} list of {end}");
    }
    if end.ends_with("Instances") || end == "setInstanceTemplate" {
        return format!("{method} {end}");
    }
    format!("{method} one of {collection}")
}

fn kinds(called: &[Called]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for one in called {
        *kinds.entry(kind(one)).or_default() += 1;
    }
    kinds
}

/// A group rolls, though an autoscaler of the cloud makes one more machine of the old image meanwhile; and what that cost is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_on_google_cloud_rolls_to_a_new_image() -> Result<()> {
    let mut scene = Scene::set(2, NEW).await?;
    scene.start()?;
    scene.rolled(2).await?;
    let called = scene.google.front.called();
    let first = called
        .iter()
        .position(|one| one.what.ends_with("/createInstances"));
    let first = first.context("a machine was made")?;
    // Before that it reads the group and looks for the machine.
    let of_nodes = &called[first.saturating_sub(2)..];
    tell(&format!(
        "requests to the cloud: {} in all, {} for two replaced nodes (the least that the API allows is 10 for each)\nin all {:#?}\nof nodes {:#?}",
        called.len(),
        of_nodes.len(),
        kinds(&called),
        kinds(of_nodes),
    ))?;
    assert!(of_nodes.len() <= 2 * MOST_REQUESTS, "{:#?}", kinds(of_nodes));
    assert_eq!(
        scene.google.cloud.lock().made.len(),
        4,
        "each machine was made once"
    );

    // Someone else makes one of the old image: it is replaced like the others.
    {
        let mut state = scene.google.cloud.lock();
        let template = state.groups[&scene.group].template.clone();
        let older = template.replace("workers-2", "workers-1");
        ensure!(older != template, "found {template}, wanted the next template");
        let group = state.groups.get_mut(&scene.group).context("the group")?;
        group.template.clone_from(&older);
        state.add_machine(&scene.group, "workers-of-an-autoscaler");
        let group = state.groups.get_mut(&scene.group).context("the group")?;
        group.template = template;
    }
    scene.rolled(3).await?;
    // Another NodeVersion has no group: it replaces nothing, and stands in nobody's way.
    let made = scene.google.cloud.lock().made.len();
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
    assert_eq!(scene.google.cloud.lock().made.len(), made);
    scene.strike().await
}

/// Requests of one replaced node at most: twelve of the provider, and questions about machines that take their time to boot and to go.
const MOST_REQUESTS: usize = 20;

/// What a cloud has against it is told in its words, wherever a person looks; and once it has nothing against it any more, all goes on.
#[tokio::test(flavor = "multi_thread")]
async fn what_google_cloud_has_against_it_is_told_in_its_words() -> Result<()> {
    let mut scene = Scene::set(1, NONE).await?;
    scene.google.take_key()?;
    scene.start()?;
    scene.told(&["Denied", "key.json"]).await?;
    scene.announced(&["Denied", "key.json"]).await?;
    assert_eq!(scene.google.requests(), 0, "nothing is sent that is not signed");

    scene.google.give_key()?;
    scene.told(&["NotFound", "node-none"]).await?;

    let update = "compute.instanceGroupManagers.update";
    scene.google.cloud.lock().knobs.denied.insert(update.to_owned());
    // The NodeVersion is edited in mid-roll.
    scene.machines.ask_for(VERSION, json!({"image": NEW})).await?;
    scene.told(&["Denied", update]).await?;

    {
        let knobs = &mut scene.google.cloud.lock().knobs;
        knobs.denied.clear();
        knobs.quota = 1;
    }
    scene.told(&["Exhausted", "Quota 'CPUS' exceeded"]).await?;
    scene.announced(&["Exhausted", "Quota 'CPUS' exceeded"]).await?;
    assert_eq!(scene.google.there().len(), 1, "the old machine stays");

    scene.google.cloud.lock().knobs.quota = 100;
    scene.rolled(1).await?;
    scene.strike().await
}

/// A cloud that throttles says when it wants to be asked again, and is not asked before.
#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_throttles_is_asked_again_when_it_has_said() -> Result<()> {
    const SECONDS: u32 = 40;
    let mut scene = Scene::set(1, NEW).await?;
    scene.google.cloud.lock().knobs.throttle = (1, SECONDS);
    scene.start()?;
    scene.rolled(1).await?;
    let called = scene.google.front.called();
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
    let mut scene = Scene::set_with(2, spec).await?;
    scene.start()?;
    scene
        .stage
        .until("a machine is made", 120, || async {
            scene.play().await?;
            Ok((scene.google.cloud.lock().made.len() > 2).then_some(()))
        })
        .await?;
    {
        let mut state = scene.google.cloud.lock();
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
                scene.google.bury(&scene.machines).await?;
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
    assert!(scene.google.there().is_empty(), "no machine is made in its place");
    scene.strike().await
}

/// Asked to stop while the cloud makes a machine, numo hears what came of it before it ends.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_asked_to_stop_awaits_what_the_cloud_is_doing() -> Result<()> {
    let mut scene = Scene::set(1, NEW).await?;
    scene.start()?;
    let is_begun = |called: &[Called]| {
        let mut called = called.iter();
        called.any(|one| one.what.ends_with("/setInstanceTemplate"))
    };
    let is_making = |called: &[Called]| {
        let mut called = called.iter();
        called.any(|one| one.what.ends_with("/createInstances") && one.status.is_none())
    };
    scene
        .stage
        .until("the image is set", 120, || async {
            scene.play().await?;
            Ok(is_begun(&scene.google.front.called()).then_some(()))
        })
        .await?;
    scene.google.cloud.lock().knobs.latency = Duration::from_secs(2);
    scene
        .stage
        .until("a machine is being made", 120, || async {
            scene.play().await?;
            Ok(is_making(&scene.google.front.called()).then_some(()))
        })
        .await?;
    let begun = Instant::now();
    let code = scene.stage.stop_numo().await?;
    assert_eq!(code, Some(0));
    let called = scene.google.front.called();
    assert!(
        !is_making(&called),
        "it stopped after {:?}, and did not wait for the machine",
        begun.elapsed()
    );
    scene.google.cloud.lock().knobs.latency = Duration::ZERO;
    scene.start()?;
    scene.rolled(1).await?;
    assert_eq!(
        scene.google.cloud.lock().made.len(),
        2,
        "no machine is made twice"
    );
    scene.strike().await
}

/// Rolls a group while numo dies at requests to the cloud: the first at this number, and the next so many later, before and after them in
/// turn. How often it died.
async fn rolls_with_crashes(workers: usize, first: Cut, later: Option<(usize, usize)>) -> Result<usize> {
    let mut scene = Scene::set(workers, NEW).await?;
    scene.google.front.cut(Some(first));
    scene.start()?;
    let (mut cut, mut died) = (first, 0);
    loop {
        let is_cut = tokio::select! {
            rolled = scene.rolled(workers) => { rolled.with_context(|| format!("{cut:?}"))?; false }
            () = scene.google.front.is_cut() => true,
        };
        if !is_cut {
            break;
        }
        scene.stage.kill_numo().await?;
        died += 1;
        let next = later.filter(|(_, most)| died < *most);
        let next = next.map(|(pause, _)| match cut {
            Cut::Before(_) => Cut::After(scene.google.requests() + pause),
            Cut::After(_) => Cut::Before(scene.google.requests() + pause),
        });
        scene.google.front.cut(next);
        cut = next.unwrap_or(cut);
        scene.start()?;
    }
    let made = scene.google.cloud.lock().made.len();
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
