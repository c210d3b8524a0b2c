//! Machines that are replaced on clouds: the whole numo with the provider of a cloud as a component, which signs with real credentials and speaks
//! TLS to a local server of the API. The test plays what boots, and counts requests and what nobody accounts for. One scene for all clouds; what
//! is tried of Google Cloud alone stands in `gcp.rs`.

use anyhow::{Result, ensure};
use numo_e2e::{
    Called, Numo, Stage,
    clouds::{Cloud, Hosted, Leaked, aws::Amazon, azure::Microsoft, gcp::Google, without_polls},
    machines::{Machines, without_nodes},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::{crashes::tell, kept};

/// The NodeVersion of all tests.
pub const VERSION: &str = "constellation-version";
/// The group of workers.
pub const WORKERS: &str = "workers";

/// A cluster on a cloud.
pub struct Scene<C> {
    /// The cluster, and numo.
    pub stage: Stage,
    /// Its machines as Nodes.
    pub machines: Machines,
    /// The cloud, and the way to it.
    pub hosted: Hosted<C>,
}

impl<C: Cloud> Scene<C> {
    /// With so many workers of the old image, a NodeVersion that asks for an image, and no numo yet.
    pub async fn set(cloud: C, workers: usize, image: &str) -> Result<Self> {
        Self::set_with(cloud, workers, json!({"image": image})).await
    }

    /// The same with the spec of the NodeVersion.
    pub async fn set_with(cloud: C, workers: usize, spec: Value) -> Result<Self> {
        cloud.add_group(WORKERS, false, workers);
        let scene = Self::open(Hosted::open(cloud).await?, Vec::new()).await?;
        scene.hosted.play(&scene.machines).await?;
        scene.machines.ask_for(VERSION, spec).await?;
        Ok(scene)
    }

    /// A cluster without nodes on a cloud, with further arguments of numo.
    pub async fn open(hosted: Hosted<C>, more: Vec<&'static str>) -> Result<Self> {
        // A pod keeps its name when its container is started again, and so its place as the leader.
        let mut numo = vec!["--identity", "numo-0"];
        numo.extend(more);
        numo.extend(hosted.arguments().await?.into_iter().map(kept));
        let (stage, machines) = without_nodes(numo).await?;
        Ok(Self {
            stage,
            machines,
            hosted,
        })
    }

    /// numo is started, or started again.
    pub fn start(&mut self) -> Result<()> {
        self.stage.start_numo_in(&[], &self.hosted.front.environment())
    }

    /// Time goes by; no machine is there that nobody accounts for.
    pub async fn play(&self) -> Result<()> {
        self.hosted.play(&self.machines).await?;
        let leaked = self.hosted.leaked(&self.machines).await?;
        ensure!(leaked == Leaked::default(), "leaked: {leaked:?}");
        Ok(())
    }

    /// Whether so many nodes are there, all of them of the image, and nothing is under way.
    pub async fn is_rolled(&self, nodes: usize, image: &str) -> Result<bool> {
        let shown = self.machines.shown().await?;
        let is_new = |found: &str| found.eq_ignore_ascii_case(image);
        let is_new = shown.len() == nodes && shown.values().all(|node| is_new(&node.image));
        Ok(is_new && self.machines.is_at_rest(VERSION).await? && self.hosted.there().len() == nodes)
    }

    /// Waits until it is so, and says what it was about if it never is.
    pub async fn rolled(&self, nodes: usize) -> Result<()> {
        let rolled = self
            .stage
            .until(
                "every node has the image, and nothing is under way",
                300,
                || async {
                    self.play().await?;
                    Ok(self.is_rolled(nodes, C::NEW).await?.then_some(()))
                },
            )
            .await;
        match rolled {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.picture().await?)),
        }
    }

    /// What the NodeVersion says of itself.
    pub async fn said(&self) -> Result<String> {
        let versions = self.machines.api("NodeVersion", "nodeversions");
        Ok(versions.get(VERSION).await?.data["status"].to_string())
    }

    /// What a person would look at first.
    pub async fn picture(&self) -> Result<String> {
        let called = self.hosted.front.called();
        let last = called.iter().rev().take(20).rev();
        let last: Vec<String> = last.map(|one| format!("{} {:?}", one.what, one.status)).collect();
        Ok(format!(
            "{}\nnodes {:#?}\nmachines {:?}\nlast calls {last:#?}",
            self.said().await?,
            self.machines.shown().await?,
            self.hosted.there(),
        ))
    }

    /// Waits until the cloud's words stand in the status, and `numo explain` has them.
    pub async fn told(&self, words: &[&str]) -> Result<()> {
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
        let whole: Vec<&str> = said.split_whitespace().collect();
        ensure!(has_all(&whole.join(" ")), "no {words:?} in\n{said}");
        Ok(())
    }

    /// Waits until an event has the words: the owner needs a person, for another reason than before.
    pub async fn announced(&self, words: &[&str]) -> Result<()> {
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

    /// Tells the requests by which so many nodes were replaced, and holds each of them to so many; questions that only wait are told and not
    /// counted.
    pub fn counted(&self, nodes: usize, most: usize) -> Result<()> {
        let called = self.hosted.called_for_machines()?;
        let counted = without_polls::<C>(&called);
        tell(&format!(
            "{}: {} requests for {nodes} replaced nodes, and {} questions whether something is over yet: {:#?}",
            C::PROVIDER,
            counted.len(),
            called.len() - counted.len(),
            kinds(&counted),
        ))?;
        ensure!(
            counted.len() <= nodes * most,
            "found {} requests for {nodes} nodes, wanted {most} for each at most: {:#?}",
            counted.len(),
            counted.iter().map(|one| &one.what).collect::<Vec<_>>()
        );
        Ok(())
    }

    /// No secret of the credentials stands in what numo writes.
    async fn is_hushed(&self) -> Result<()> {
        let log = self.stage.numo().map(Numo::log).unwrap_or_default();
        let events = self.stage.events().await?;
        let notes = events.into_iter().filter_map(|event| event.note);
        let written = format!("{log}\n{}\n{}", notes.collect::<String>(), self.said().await?);
        for secret in self.hosted.cloud.secrets()? {
            ensure!(!written.contains(&secret), "the secret {secret} is written");
        }
        Ok(())
    }

    /// numo ends, and all that it was given.
    pub async fn strike(self) -> Result<()> {
        let leaked = self.hosted.leaked(&self.machines).await?;
        ensure!(leaked == Leaked::default(), "leaked: {leaked:?}");
        self.is_hushed().await?;
        self.stage.strike().await
    }
}

/// What a request is about, without the names in it.
fn kind(called: &Called) -> String {
    let (method, path) = called.what.split_once(' ').unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    let end = parts.last().copied().unwrap_or_default();
    let collection = parts.iter().rev().nth(1).copied().unwrap_or_default();
    let lists = ["instanceGroupManagers", "instanceTemplates", "virtualMachines"];
    if lists.contains(&end) {
        return format!("{method} list of {end}");
    }
    let actions = ["setInstanceTemplate", "instanceView", "delete"];
    if collection.is_empty() || end.ends_with("Instances") || actions.contains(&end) {
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

/// A cloud refuses for want of a permission, and its words are told wherever a person looks; nothing is made. Then two workers are replaced, with
/// so many requests for each at most: two more than the least that its API allows.
async fn rolls<C: Cloud>(cloud: C, most: usize) -> Result<()> {
    let mut scene = Scene::set(cloud, 2, C::NEW).await?;
    scene.hosted.cloud.deny(true);
    scene.start()?;
    scene.told(C::DENIED).await?;
    scene.announced(C::DENIED).await?;
    assert_eq!(scene.hosted.cloud.made(), 2, "none is made");
    scene.hosted.cloud.deny(false);
    scene.rolled(2).await?;
    assert_eq!(scene.hosted.cloud.made(), 4, "each machine was made once");
    scene.counted(2, most)?;
    scene.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_on_google_cloud_are_replaced() -> Result<()> {
    // Two more than the least: the group, the machine, making and seeing it, its state, group and image (4), its end, and that it is gone.
    rolls(Google::start()?, 10 + 2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_on_aws_are_replaced() -> Result<()> {
    // The least: the group, the machine, that it runs, its group again; its state, group and image; its end, and that it is gone.
    rolls(Amazon::start()?, 9 + 2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_on_azure_are_replaced() -> Result<()> {
    // The least: the scale set, its machines, the change, both again; the state and image; the end, and that it is gone.
    rolls(Microsoft::start()?, 9 + 2).await
}
