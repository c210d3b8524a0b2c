//! A cluster on Google Cloud, as far as numo can tell: managed instance groups on loopback, whose instances this plays into the real API
//! server as Nodes, and a front through which the provider `gcp` reaches them with the key of a service account.

use crate::{
    Front,
    machines::{Booted, Machines, component},
};
use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
    core::DynamicObject,
};
use numo_clouds::gcp::Cloud;
use numo_plugin_tests::google::Account;
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};
use tempfile::TempDir;

/// The host of the API.
const HOST: &str = "compute.googleapis.com";
/// The token that the cloud takes.
const TOKEN: &str = "ya29.taken-by-the-cloud";
/// The uid of the cluster.
pub const UID: &str = "a1b2c3";
/// The image that machines have at first.
pub const OLD: &str = "projects/numo-test/global/images/node-1";
/// The image that they are to have.
pub const NEW: &str = "projects/numo-test/global/images/node-2";
/// An image that nobody has made.
pub const NONE: &str = "projects/numo-test/global/images/node-none";

/// The cloud, and the way to it.
#[derive(Debug)]
pub struct Google {
    /// What is in it.
    pub cloud: Cloud,
    /// The way to it.
    pub front: Front,
    key: String,
    folder: TempDir,
    /// Machines that became Nodes: a kubelet registers its Node once.
    booted: Mutex<BTreeSet<String>>,
}

/// A machine that nobody accounts for, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaked(pub Vec<String>);

impl Google {
    /// A cloud with both images, and no machine. The key of the service account lies where numo looks for it.
    pub async fn open() -> Result<Self> {
        let cloud = Cloud::start()?;
        {
            let mut state = cloud.lock();
            state.add_image("node-1");
            state.add_image("node-2");
            state.knobs.token = Some(TOKEN.to_owned());
        }
        let account = Account::new()?;
        let key = account.key().to_string();
        let front = Front::open(cloud.address(), HOST, account, TOKEN).await?;
        let folder = tempfile::tempdir()?;
        let google = Self {
            cloud,
            front,
            key,
            folder,
            booted: Mutex::default(),
        };
        google.give_key()?;
        Ok(google)
    }

    fn key_file(&self) -> PathBuf {
        self.folder.path().join("key.json")
    }

    /// An administrator puts the key where numo looks for it.
    pub fn give_key(&self) -> Result<()> {
        Ok(std::fs::write(self.key_file(), &self.key)?)
    }

    /// The key is not there.
    pub fn take_key(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.key_file())?)
    }

    /// Writes the configuration of the provider, and gives the arguments of `numo run` that name it.
    pub async fn arguments(&self) -> Result<Vec<String>> {
        let authority = self.folder.path().join("authority.pem");
        std::fs::write(&authority, self.front.authority())?;
        let config = json!({
            "uid": UID,
            "config": {"project": "numo-test", "uid": UID},
            "caFile": authority,
            "credentials": [{"name": "gcp", "googleServiceAccount": {"file": self.key_file()}}],
            "grants": {"cloud": [{"host": HOST, "methods": ["GET", "POST"], "credentials": ["gcp"]}]},
        });
        component(self.folder.path(), "provider-gcp", config).await
    }

    /// Adds a group of machines of the old image; its path.
    pub fn add_group(&self, name: &str, is_control_plane: bool, size: usize) -> String {
        let role = if is_control_plane {
            "control-plane"
        } else {
            "worker"
        };
        let labels =
            json!({"constellation-uid": UID, "constellation-role": role, "constellation-node-group": name});
        let mut state = self.cloud.lock();
        let template = state.add_template(&format!("{name}-1"), OLD, &labels);
        state.add_group("zones/zone-a", name, &template, size)
    }

    /// Plays the cloud once: time goes by, machines that run become Nodes, and every Node beats.
    pub async fn play(&self, machines: &Machines) -> Result<()> {
        for (name, is_control_plane) in self.running() {
            let is_new = self
                .booted
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name.clone());
            if !is_new {
                continue;
            }
            let provider_id = provider_id(&name);
            let booted = Booted {
                node: &name,
                provider_id: &provider_id,
                is_control_plane,
                address: None,
            };
            machines.boot(booted).await?;
        }
        machines.beat_all().await
    }

    /// The machines that run, and whether they are of the control plane.
    fn running(&self) -> Vec<(String, bool)> {
        let mut state = self.cloud.lock();
        state.tick += 1;
        state.go_on();
        let running = state
            .instances
            .iter()
            .filter(|(_, instance)| instance.status == "RUNNING");
        running
            .map(|(path, instance)| {
                let is_control_plane = instance.labels["constellation-role"] == "control-plane";
                (last(path).to_owned(), is_control_plane)
            })
            .collect()
    }

    /// Names of the machines that are there.
    pub fn there(&self) -> BTreeSet<String> {
        let state = self.cloud.lock();
        state.instances.keys().map(|path| last(path).to_owned()).collect()
    }

    /// Requests to the cloud so far.
    pub fn requests(&self) -> usize {
        self.front.called().len()
    }

    /// The machines that no Node and no PendingNode accounts for.
    pub async fn leaked(&self, machines: &Machines) -> Result<Leaked> {
        let before = self.there();
        let pending = machines.api("PendingNode", "pendingnodes");
        let pending = pending.list(&ListParams::default()).await?.items;
        let nodes = machines.nodes().list(&ListParams::default()).await?.items;
        let after = self.there();
        // One that went meanwhile was accounted for until then.
        let stays = before.intersection(&after);
        let is_lost = |name: &&String| {
            let id = provider_id(name);
            let is_node = nodes.iter().any(|node| id_of(node) == id);
            !is_node && !pending.iter().any(|one| is_of(one, name, &id))
        };
        Ok(Leaked(stays.filter(is_lost).cloned().collect()))
    }

    /// Deletes the Nodes whose machines are gone, as the cloud's controller does.
    pub async fn bury(&self, machines: &Machines) -> Result<()> {
        let nodes: Api<Node> = machines.nodes();
        let there = self.there();
        for node in nodes.list(&ListParams::default()).await?.items {
            let name = node.name_any();
            if id_of(&node).starts_with("gce://") && !there.contains(&name) {
                nodes.delete(&name, &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }
}

/// Whether a PendingNode is of a machine: it names it, or has asked for it.
fn is_of(pending: &DynamicObject, name: &str, id: &str) -> bool {
    let named = pending.data.pointer("/spec/providerID");
    let named = named.and_then(serde_json::Value::as_str);
    named.is_some_and(|named| named.eq_ignore_ascii_case(id)) || name.ends_with(&pending.name_any())
}

fn id_of(node: &Node) -> String {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.provider_id.clone()).unwrap_or_default()
}

/// The id of a machine.
fn provider_id(name: &str) -> String {
    format!("gce://numo-test/zone-a/{name}")
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
