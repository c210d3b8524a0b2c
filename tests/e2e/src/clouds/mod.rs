//! A cluster on a cloud, as far as numo can tell: machines on loopback, which this plays into the real API server as Nodes, and a front through
//! which the provider of that cloud reaches them with real credentials. What a cloud has of its own stands in its file.

pub mod aws;
pub mod azure;
pub mod gcp;

use crate::{
    Called, Front,
    front::Tokens,
    machines::{Booted, Machines, component},
};
use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
    core::DynamicObject,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tempfile::TempDir;

/// The uid of the cluster.
pub const UID: &str = "a1b2c3";
/// How soon numo asks the cloud again (seconds).
const POLL_SECONDS: u32 = 2;

/// A machine of a cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name of the Node that it becomes.
    pub node: String,
    /// Its id.
    pub provider_id: String,
    /// Whether it is of the control plane.
    pub is_control_plane: bool,
    /// Whether it runs.
    pub runs: bool,
    /// Ids of the requests that it may have been made for.
    pub requests: Vec<String>,
}

/// A local server of a cloud, with what is peculiar to that cloud.
pub trait Cloud {
    /// Its provider, as it ships.
    const PROVIDER: &'static str;
    /// Its hosts.
    const HOSTS: &'static [&'static str];
    /// The image that machines have at first.
    const OLD: &'static str;
    /// The image that they are to have.
    const NEW: &'static str;
    /// What it says once it is told to deny.
    const DENIED: &'static [&'static str];
    /// Name of the file with which numo proves who it is.
    const KEY: &'static str;
    /// Requests before the one that makes a machine: what the provider looks at first.
    const LOOKS: usize;

    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// Who gives tokens for it.
    fn tokens(&self) -> Option<Tokens>;

    /// What stands in the file with which numo proves who it is.
    fn key(&self) -> String;

    /// What of it nobody is to read anywhere.
    fn secrets(&self) -> Result<Vec<String>>;

    /// The source of the credential, from that file.
    fn source(&self, file: &Path) -> Value;

    /// Settings of the provider.
    fn settings(&self) -> Value;

    /// Adds a group of running machines of the old image; its id.
    fn add_group(&self, name: &str, is_control_plane: bool, size: usize) -> String;

    /// Time goes by; the machines that are there then.
    fn machines(&self) -> Vec<Machine>;

    /// How many machines were ever there.
    fn made(&self) -> usize;

    /// Whether it denies what has machines made.
    fn deny(&self, is_denied: bool);

    /// Whether a request is the one that makes a machine.
    fn makes(called: &Called) -> bool;

    /// Whether the answer of a request is that something takes its time yet.
    fn goes_on(called: &Called) -> bool;
}

/// A cloud, and the way to it.
#[derive(Debug)]
pub struct Hosted<C> {
    /// What is in it.
    pub cloud: C,
    /// The way to it.
    pub front: Front,
    key: String,
    folder: TempDir,
    /// Machines that became Nodes: a kubelet registers its Node once.
    booted: Mutex<BTreeSet<String>>,
    /// InternalIPs by the names of Nodes; the others get one of nobody's.
    addresses: Mutex<BTreeMap<String, String>>,
}

/// Ids of machines that nobody accounts for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaked(pub Vec<String>);

impl<C: Cloud> Hosted<C> {
    /// Opens the way to a cloud. The credential lies where numo looks for it.
    pub async fn open(cloud: C) -> Result<Self> {
        let front = Front::open(cloud.address(), C::HOSTS, cloud.tokens()).await?;
        let hosted = Self {
            key: cloud.key(),
            cloud,
            front,
            folder: tempfile::tempdir()?,
            booted: Mutex::default(),
            addresses: Mutex::default(),
        };
        hosted.give_key()?;
        Ok(hosted)
    }

    fn key_file(&self) -> PathBuf {
        self.folder.path().join(C::KEY)
    }

    /// An administrator puts the credential where numo looks for it.
    pub fn give_key(&self) -> Result<()> {
        Ok(std::fs::write(self.key_file(), &self.key)?)
    }

    /// The credential is not there.
    pub fn take_key(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.key_file())?)
    }

    /// Writes the configuration of the provider, and gives the arguments of `numo run` that name it.
    pub async fn arguments(&self) -> Result<Vec<String>> {
        let authority = self.folder.path().join("authority.pem");
        std::fs::write(&authority, self.front.authority())?;
        let mut credential = self.cloud.source(&self.key_file());
        credential["name"] = json!("cloud");
        let mut settings = self.cloud.settings();
        settings["credential"] = json!("cloud");
        settings["uid"] = json!(UID);
        let grants: Vec<Value> = C::HOSTS
            .iter()
            .map(|host| json!({"host": host, "methods": ["GET", "POST", "PATCH"], "credentials": ["cloud"]}))
            .collect();
        let config = json!({
            "uid": UID,
            "pollSeconds": POLL_SECONDS,
            "config": settings,
            "caFile": authority,
            "credentials": [credential],
            "grants": {"cloud": grants},
        });
        component(self.folder.path(), C::PROVIDER, config).await
    }

    fn addresses(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Node of this name will have this InternalIP.
    pub fn place(&self, node: &str, address: String) {
        self.addresses().insert(node.to_owned(), address);
    }

    /// Plays the cloud once: time goes by, machines that run become Nodes, and every Node beats.
    pub async fn play(&self, machines: &Machines) -> Result<()> {
        for machine in self.cloud.machines() {
            let is_new = machine.runs
                && self
                    .booted
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(machine.provider_id.clone());
            if !is_new {
                continue;
            }
            let address = self.addresses().get(&machine.node).cloned();
            let booted = Booted {
                node: &machine.node,
                provider_id: &machine.provider_id,
                is_control_plane: machine.is_control_plane,
                address: address.as_deref(),
            };
            machines.boot(booted).await?;
        }
        machines.beat_all().await
    }

    /// Names of the Nodes whose machines are there.
    pub fn there(&self) -> BTreeSet<String> {
        let machines = self.cloud.machines().into_iter();
        machines.map(|machine| machine.node).collect()
    }

    /// Requests to the cloud so far.
    pub fn requests(&self) -> usize {
        self.front.called().len()
    }

    /// The machines that no Node and no PendingNode accounts for.
    pub async fn leaked(&self, machines: &Machines) -> Result<Leaked> {
        let before = self.cloud.machines();
        let pending = machines.api("PendingNode", "pendingnodes");
        let pending = pending.list(&ListParams::default()).await?.items;
        let nodes = machines.nodes().list(&ListParams::default()).await?.items;
        let after = self.cloud.machines();
        // One that went meanwhile was accounted for until then.
        let stays = |machine: &&Machine| after.iter().any(|one| one.provider_id == machine.provider_id);
        let is_lost = |machine: &&Machine| {
            let is_node = nodes.iter().any(|node| is_same(&id_of(node), machine));
            !is_node && !pending.iter().any(|one| is_of(one, machine))
        };
        let lost = before.iter().filter(stays).filter(is_lost);
        Ok(Leaked(lost.map(|machine| machine.provider_id.clone()).collect()))
    }

    /// Deletes the Nodes whose machines are gone, as the cloud's controller does.
    pub async fn bury(&self, machines: &Machines) -> Result<()> {
        let nodes: Api<Node> = machines.nodes();
        let there = self.cloud.machines();
        for node in nodes.list(&ListParams::default()).await?.items {
            let id = id_of(&node);
            if !id.is_empty() && !there.iter().any(|machine| is_same(&id, machine)) {
                nodes.delete(&node.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    /// The requests from the first on by which a machine was made, with those before it in which the provider looked.
    pub fn called_for_machines(&self) -> Result<Vec<Called>> {
        let called = self.front.called();
        let is_first = |one: &Called| C::makes(one) && one.status.is_some_and(|status| status < 300);
        let first = called.iter().position(is_first).context("a machine was made")?;
        let before = first.saturating_sub(C::LOOKS);
        Ok(called.into_iter().skip(before).collect())
    }
}

/// The requests without those that were only made because something takes its time: their answer says so, or the same was asked twice before
/// and the answer was the same.
pub fn without_polls<C: Cloud>(called: &[Called]) -> Vec<Called> {
    let mut asked: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let mut others = Vec::new();
    for one in called {
        let same = (one.what.as_str(), one.body.as_str(), one.answer.as_str());
        let times = asked.entry(same).or_default();
        *times += 1;
        if *times <= 2 && !C::goes_on(one) {
            others.push(one.clone());
        }
    }
    others
}

fn is_same(id: &str, machine: &Machine) -> bool {
    id.eq_ignore_ascii_case(&machine.provider_id)
}

/// Whether a PendingNode is of a machine: it names it, or has asked for it.
fn is_of(pending: &DynamicObject, machine: &Machine) -> bool {
    let named = pending.data.pointer("/spec/providerID").and_then(Value::as_str);
    named.is_some_and(|named| is_same(named, machine)) || machine.requests.contains(&pending.name_any())
}

fn id_of(node: &Node) -> String {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.provider_id.clone()).unwrap_or_default()
}

/// The role of a group as clouds have it in a label or tag.
fn role(is_control_plane: bool) -> &'static str {
    if is_control_plane {
        "control-plane"
    } else {
        "worker"
    }
}
