//! A machine and its Node: heartbeats, booting, rebooting. Simulates what the kubelet says of its
//! node (spec 4.6, 4.11) and what a cloud does to machines.
//!
//! May not decide anything: when to reboot is the daemon's to say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PostParams};
use rand::Rng;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::content::{kubelet_version, os_image, os_version};
use crate::context::{Context, MADE_BY, lock, manager, write};
use crate::fault::Fault;
use crate::openshift::{
    ARBITER, CURRENT_CONFIG, DESIRED_CONFIG, DESIRED_DRAIN, FIRST_PIVOT_CONFIG, KUBELET, LAST_APPLIED_DRAIN,
    MASTER, OS, POST_CONFIG_ACTION, REASON, STATE, WORKER, ZONE,
};

/// Heartbeats follow the wall clock, not the world's: the real controller-manager waits for them.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// In place of a pool, for nodes the MCO leaves alone. Their names begin with it.
pub(crate) const WINDOWS: &str = "windows";

/// A machine that runs, or will again.
#[derive(Debug)]
pub(crate) struct Machine {
    pub name: String,
    pub uid: String,
    /// Pool and zone it was made for: its replacement is made for the same.
    pub pool: String,
    pub zone: Option<usize>,
    /// Whether the kubelet runs. Pods live and die with it.
    pub up: watch::Sender<bool>,
    /// Counts boots; a container of an earlier one is dead.
    pub boots: watch::Sender<u64>,
    pub tasks: std::sync::Mutex<Vec<AbortHandle>>,
}

impl Machine {
    fn new(plan: &NodePlan, uid: String) -> Arc<Self> {
        Arc::new(Self {
            name: plan.name.clone(),
            uid,
            pool: plan.pool.clone(),
            zone: plan.zone,
            up: watch::Sender::new(plan.ready),
            boots: watch::Sender::new(1),
            tasks: std::sync::Mutex::default(),
        })
    }

    /// Ends all that acts for this machine; its containers die.
    pub(crate) fn destroy(&self) {
        self.up.send_replace(false);
        self.boots.send_modify(|b| *b += 1);
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
    }
}

/// A Node to make.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub name: String,
    /// Its pool; `windows` for a Windows node, which has none.
    pub pool: String,
    pub zone: Option<usize>,
    pub labels: BTreeMap<String, String>,
    /// Rendered config it boots with, and that config's operating system; no config on Windows.
    pub config: String,
    pub os_image: String,
    pub ready: bool,
}

/// Labels of a node by its pool and zone, or of a Windows node.
pub(crate) fn labels(ctx: &Context, name: &str, pool: &str, zone: Option<usize>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from(
        [
            ("kubernetes.io/hostname", name),
            (OS, if pool == WINDOWS { "windows" } else { "linux" }),
            ("kubernetes.io/arch", "amd64"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned())),
    );
    let mut role = |key: &str| {
        labels.insert(key.to_owned(), String::new());
    };
    match pool {
        "master" => {
            role(MASTER);
            role("node-role.kubernetes.io/control-plane");
            if ctx.spec.masters_are_workers() {
                role(WORKER);
            }
        }
        "arbiter" => role(ARBITER),
        "worker" | WINDOWS => role(WORKER),
        custom => {
            role(WORKER);
            role(&format!("node-role.kubernetes.io/{custom}"));
        }
    }
    if let Some(zone) = zone {
        let letter = char::from(b'a' + u8::try_from(zone % 26).unwrap_or_default());
        labels.insert(ZONE.into(), format!("zone-{letter}"));
    }
    labels
}

/// Creates the Node and starts its machine.
pub(crate) async fn join(ctx: &Arc<Context>, plan: &NodePlan) -> Result<()> {
    let node: Node = serde_json::from_value(render(ctx, plan))?;
    let api: Api<Node> = Api::all(ctx.client.clone());
    let params = PostParams {
        field_manager: Some(KUBELET.into()),
        ..PostParams::default()
    };
    let created = write(|| async { api.create(&params, &node).await })
        .await
        .with_context(|| format!("creating node {}", plan.name))?
        .context("the API server cannot create nodes")?;
    let machine = Machine::new(plan, crate::cache::uid(&created));
    lock(&ctx.machines).insert(plan.name.clone(), machine.clone());
    ctx.nodes.learn(created);
    let mut tasks = lock(&machine.tasks);
    tasks.push(ctx.spawn(heartbeats(ctx.clone(), machine.clone())));
    if plan.pool == WINDOWS {
        return Ok(());
    }
    tasks.push(ctx.spawn(crate::daemon::run(ctx.clone(), machine.clone())));
    tasks.push(ctx.spawn(crate::drain::run(ctx.clone(), machine.clone())));
    Ok(())
}

/// The Node as the kubelet registers it and as the first daemon run leaves it.
fn render(ctx: &Context, plan: &NodePlan) -> Value {
    let is_windows = plan.pool == WINDOWS;
    let taints = match plan.pool.as_str() {
        "master" if !plan.labels.contains_key(WORKER) => json!([{ "key": MASTER, "effect": "NoSchedule" }]),
        "arbiter" => json!([{ "key": ARBITER, "effect": "NoSchedule" }]),
        WINDOWS => json!([{ "key": "os", "value": "Windows", "effect": "NoSchedule" }]),
        _ => json!([]),
    };
    let annotations = if is_windows {
        json!({ MADE_BY: ctx.id })
    } else {
        annotations(ctx, plan)
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": plan.name,
            "labels": plan.labels,
            "annotations": annotations,
        },
        "spec": { "taints": taints, "providerID": format!("world://{}/{}", ctx.id, plan.name) },
        "status": {
            "capacity": { "cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi" },
            "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi" },
            "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }, { "type": "Hostname", "address": plan.name }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": ctx.kubelet_port } },
            "conditions": conditions(ctx.clock(&plan.name), if plan.ready { "True" } else { "False" }),
            "nodeInfo": if is_windows { windows_info(ctx) } else { node_info(ctx, &plan.os_image) },
        },
    })
}

/// What the first daemon run writes. The config of the first boot is only known of who joins later.
fn annotations(ctx: &Context, plan: &NodePlan) -> Value {
    let uncordon = format!("uncordon-{}", plan.config);
    let mut annotations = json!({
        MADE_BY: ctx.id,
        CURRENT_CONFIG: plan.config, DESIRED_CONFIG: plan.config, STATE: "Done", REASON: "",
        DESIRED_DRAIN: uncordon, LAST_APPLIED_DRAIN: uncordon,
        "machineconfiguration.openshift.io/controlPlaneTopology": ctx.spec.topology,
        POST_CONFIG_ACTION: "",
    });
    if !plan.ready {
        annotations[FIRST_PIVOT_CONFIG] = json!(plan.config);
    }
    annotations
}

fn conditions(now: Timestamp, ready: &str) -> Value {
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let others = if ready == "Unknown" { "Unknown" } else { "False" };
    let reason = match ready {
        "True" => "KubeletReady",
        "False" => "KubeletNotReady",
        _ => "NodeStatusUnknown",
    };
    json!([
        condition("MemoryPressure", others, "KubeletHasSufficientMemory"),
        condition("DiskPressure", others, "KubeletHasNoDiskPressure"),
        condition("PIDPressure", others, "KubeletHasSufficientPID"),
        condition("Ready", ready, reason),
    ])
}

fn node_info(ctx: &Context, os_image: &str) -> Value {
    let version = os_version(os_image);
    json!({
        "architecture": "amd64",
        "operatingSystem": "linux",
        "bootID": uuid(ctx),
        "machineID": uuid(ctx).replace('-', ""),
        "systemUUID": uuid(ctx),
        "containerRuntimeVersion": "cri-o://1.29.0",
        "kernelVersion": "5.14.0-427.el9.x86_64",
        "kubeProxyVersion": kubelet_version(version),
        "kubeletVersion": kubelet_version(version),
        "osImage": format!("Red Hat Enterprise Linux CoreOS {version}"),
    })
}

fn windows_info(ctx: &Context) -> Value {
    let mut info = node_info(ctx, &os_image(&ctx.spec.version));
    info["operatingSystem"] = json!("windows");
    info["osImage"] = json!("Windows Server 2022 Datacenter");
    info["kernelVersion"] = json!("10.0.20348.2700");
    info["containerRuntimeVersion"] = json!("containerd://1.7.0");
    info
}

/// A random uuid from the world's seed.
pub(crate) fn uuid(ctx: &Context) -> String {
    let n: u128 = lock(&ctx.random).random();
    let hex = format!("{n:032x}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// Renews the node's lease while the kubelet runs, and lets it fall silent by a fault.
async fn heartbeats(ctx: Arc<Context>, machine: Arc<Machine>) {
    let first = { lock(&ctx.random).random_range(0.0..1.0) };
    let mut wait = HEARTBEAT.mul_f64(first);
    let mut faults = ctx.faults.changes();
    let mut clock_off = 0;
    let silent = |ctx: &Context| {
        ctx.faults
            .any(|f| matches!(f, Fault::NotReady { node } if *node == machine.name))
    };
    loop {
        if silent(&ctx) {
            machine.up.send_replace(false);
            report(&ctx, &machine.name, "Unknown", None).await;
            ctx.faults
                .until_none(|f| matches!(f, Fault::NotReady { node } if *node == machine.name))
                .await;
            report(&ctx, &machine.name, "True", None).await;
            machine.up.send_replace(true);
        }
        let off = ctx.faults.clock_off(&machine.name);
        if *machine.up.borrow() && off != clock_off {
            beat(&ctx, &machine.name).await;
            clock_off = off;
        }
        if *machine.up.borrow()
            && let Err(error) = renew(&ctx, &machine).await
        {
            tracing::debug!(
                error = format!("{error:#}"),
                node = machine.name,
                "heartbeat failed"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = faults.changed() => {}
        }
        wait = HEARTBEAT;
    }
}

async fn renew(ctx: &Context, machine: &Machine) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(ctx.client.clone(), "kube-node-lease");
    let name = &machine.name;
    let now = format!("{:.6}", ctx.clock(name));
    let patch = json!({ "spec": { "renewTime": now, "holderIdentity": name } });
    let renewed =
        write(|| async { leases.patch(name, &manager(KUBELET), &Patch::Merge(&patch)).await }).await?;
    if renewed.is_some() {
        return Ok(());
    }
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": machine.uid }],
        },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now },
    }))?;
    leases.create(&PostParams::default(), &lease).await?;
    Ok(())
}

/// Says when it was last seen, and nothing new.
async fn beat(ctx: &Context, node: &str) {
    let now = ctx.clock(node);
    let types = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];
    let conditions = types.map(|t| json!({ "type": t, "lastHeartbeatTime": now }));
    let patch = json!({ "status": { "conditions": conditions } });
    if let Err(error) = ctx.patch_node_status(node, patch).await {
        tracing::debug!(error = format!("{error:#}"), node, "heartbeat not written");
    }
}

/// Says Ready or not, and after a boot also what booted.
async fn report(ctx: &Context, node: &str, ready: &str, os_image: Option<&str>) {
    let mut status = json!({ "conditions": conditions(ctx.clock(node), ready) });
    if let Some(image) = os_image {
        status["nodeInfo"] = node_info(ctx, image);
    }
    if let Err(error) = ctx.patch_node_status(node, json!({ "status": status })).await {
        tracing::warn!(error = format!("{error:#}"), node, "node status not written");
    }
}

/// Takes the machine down and brings it back with an operating system.
pub(crate) async fn reboot(ctx: &Context, machine: &Machine, os_image: &str) {
    let name = &machine.name;
    machine.up.send_replace(false);
    machine.boots.send_modify(|b| *b += 1);
    report(ctx, name, "False", None).await;
    let timings = ctx.timings();
    let seconds = { lock(&ctx.random).random_range(timings.reboot_min..=timings.reboot_max) };
    ctx.pass(seconds * ctx.faults.slowness(name)).await;
    let never_back = |f: &Fault| matches!(f, Fault::NeverBack { node } if node == name);
    if ctx.faults.any(never_back) {
        report(ctx, name, "Unknown", None).await;
        ctx.faults.until_none(never_back).await;
    }
    report(ctx, name, "True", Some(os_image)).await;
    machine.up.send_replace(true);
}

/// Brings up a machine that joined not ready.
pub(crate) async fn boot(ctx: &Context, machine: &Machine) {
    ctx.pass(ctx.timings().boot).await;
    report(ctx, &machine.name, "True", None).await;
    machine.up.send_replace(true);
}
