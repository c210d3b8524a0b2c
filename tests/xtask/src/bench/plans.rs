//! `plan_roll_200_*`: a Plan over 200 nodes, twenty at a time, which cordons: wall, CPU, memory and writes, and their
//! ratios to a rival controller's in the same run. `idle_requests_per_minute`: what ten Plans that wait for their window
//! cost with 1,000 nodes heartbeating.
//!
//! Containers run no command here, kubectl's neither: what is measured is the controller.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use numo_api::Plan;
use numo_cluster::AuditEvent;
use numo_e2e::{NAMESPACE, Stage, StageOptions, manifests};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::json;
use tokio::sync::OnceCell;

use super::{Measured, POOL};

/// Namespace of Plans.
const PLANS: &str = "system-upgrade";
const NODES: usize = 200;
const IN_TIME: Duration = Duration::from_mins(10);
/// Ticks of a second in `/proc/<pid>/stat` (`getconf CLK_TCK`, 100 on every Linux that is served).
const TICKS: f64 = 100.0;

/// What one roll cost its controller.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    wall_seconds: f64,
    cpu_seconds: f64,
    resident_mib: f64,
    writes_per_node: f64,
}

/// One of the numbers of a roll.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    Wall,
    Cpu,
    Resident,
    Writes,
}

impl Part {
    const fn of(self, cost: &Cost) -> f64 {
        match self {
            Self::Wall => cost.wall_seconds,
            Self::Cpu => cost.cpu_seconds,
            Self::Resident => cost.resident_mib,
            Self::Writes => cost.writes_per_node,
        }
    }
}

static NUMO: OnceCell<Cost> = OnceCell::const_new();
static RIVAL: OnceCell<Cost> = OnceCell::const_new();

/// A number of numo's roll.
pub async fn roll(part: Part) -> Result<Measured> {
    let cost = NUMO.get_or_try_init(|| rolled(None)).await?;
    Ok(Measured {
        value: part.of(cost),
        notes: vec![format!("{NODES} nodes, concurrency 20, cordon: {cost:?}")],
    })
}

/// The same as a ratio to the rival's.
pub async fn ratio(part: Part, rival: Option<&str>) -> Result<Measured> {
    let Some(command) = rival else {
        bail!("--rival COMMAND starts the controller to compare with");
    };
    let ours = NUMO.get_or_try_init(|| rolled(None)).await?;
    let theirs = RIVAL.get_or_try_init(|| rolled(Some(command))).await?;
    Ok(Measured {
        value: part.of(ours) / part.of(theirs),
        notes: vec![format!("numo {ours:?}"), format!("rival {theirs:?}")],
    })
}

async fn stage(workers: usize) -> Result<Stage> {
    let options = StageOptions {
        world: WorldSpec {
            pools: vec![PoolSpec::new(POOL, workers)],
            ..WorldSpec::default()
        },
        cluster: Some(numo_cluster::Options {
            scale: true,
            ..numo_cluster::Options::default()
        }),
        without_kubectl: true,
        ..StageOptions::default()
    };
    let stage = Stage::set(options).await?;
    let objects = manifests::kustomize(&manifests::root().join("deploy/kustomize/plans"))?;
    manifests::apply(&stage.client, &objects, PLANS).await?;
    Ok(stage)
}

/// The manifest that the measured rival was given: cordon, twenty at a time.
async fn plan(stage: &Stage, name: &str, more: serde_json::Value) -> Result<()> {
    let mut spec = json!({
        "concurrency": 20,
        "cordon": true,
        "nodeSelector": {"matchExpressions": [{"key": "node-role.kubernetes.io/worker", "operator": "Exists"}]},
        "version": "v1.0.0",
        "upgrade": {"image": "upgrade"},
    });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    let object = json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": {"name": name, "namespace": PLANS},
        "spec": spec,
    });
    stage.apply(&object.to_string()).await
}

async fn is_complete(stage: &Stage, name: &str) -> Result<bool> {
    let api: Api<Plan> = Api::namespaced(stage.client.clone(), PLANS);
    let status = api.get(name).await?.status.unwrap_or_default();
    let conditions = status.conditions.iter().flatten();
    Ok(conditions
        .into_iter()
        .any(|one| one.type_ == "Complete" && one.status == "True" && status.latest_hash.is_some()))
}

/// Rolls all nodes by numo, or by the rival's command.
async fn rolled(rival: Option<&str>) -> Result<Cost> {
    let mut stage = stage(NODES).await?;
    let mut child = None;
    let (pid, user) = match rival {
        None => {
            let pid = stage
                .numo()
                .and_then(numo_e2e::Numo::pid)
                .context("numo has ended")?;
            (pid, format!("system:serviceaccount:{NAMESPACE}:numo"))
        }
        Some(command) => {
            stage.stop_numo().await?;
            let kubeconfig = rivals_kubeconfig(&stage).await?;
            let started = tokio::process::Command::new("/bin/sh")
                .args(["-c", &format!("exec {command}")])
                .env("KUBECONFIG", kubeconfig)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()?;
            let pid = started.id().context("the rival has ended")?;
            child = Some(started);
            // It lists what there is before it is asked for anything.
            tokio::time::sleep(Duration::from_secs(5)).await;
            (pid, format!("system:serviceaccount:{PLANS}:rival"))
        }
    };
    let before = cpu_seconds(pid)?;
    let asked = stage.cluster.audit()?.len();
    let began = Instant::now();
    plan(&stage, "roll", json!({})).await?;
    while !is_complete(&stage, "roll").await? {
        ensure!(
            began.elapsed() < IN_TIME,
            "not complete within {IN_TIME:?}\n{}",
            stage.picture().await
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let wall_seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = cpu_seconds(pid)? - before;
    let resident_mib = peak_mib(pid)?;
    let requests: Vec<AuditEvent> = stage.cluster.audit()?.split_off(asked);
    let requests: Vec<&AuditEvent> = requests.iter().filter(|event| event.user == user).collect();
    let writes = requests
        .iter()
        .filter(|event| {
            event.is_write() && !(event.resource == "leases" && event.name.starts_with("numo-leader"))
        })
        .count();
    drop(child);
    stage.strike().await?;
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let writes_per_node = writes as f64 / NODES as f64;
    Ok(Cost {
        wall_seconds,
        cpu_seconds,
        resident_mib,
        writes_per_node,
    })
}

/// A kubeconfig of a ServiceAccount of its own, which may do everything.
async fn rivals_kubeconfig(stage: &Stage) -> Result<std::path::PathBuf> {
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "rival", "namespace": PLANS}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "rival"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "rival", "namespace": PLANS}],
        }),
    ] {
        stage.apply(&object.to_string()).await?;
    }
    stage.cluster.service_account_kubeconfig(PLANS, "rival").await
}

/// CPU seconds of a process so far, in user and kernel.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    ticks(&text)
        .map(|ticks| ticks / TICKS)
        .context("no times in the process's stat")
}

fn ticks(stat: &str) -> Option<f64> {
    // The name of the program may have spaces and parentheses.
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn peak_mib(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(super::memory::peak_kib(&text).context("no VmHWM in the process's status")? / 1024.0)
}

/// Nodes that heartbeat in the idle measurement, and how often each does.
const IDLE_NODES: usize = 1000;
const HEARTBEAT: Duration = Duration::from_secs(20);
/// How long nothing happens.
const IDLE: Duration = Duration::from_mins(2);

/// Requests a minute with 1,000 nodes heartbeating and ten Plans waiting for their window.
pub async fn idle() -> Result<Measured> {
    let stage = stage(1).await?;
    let api: Api<Node> = Api::all(stage.client.clone());
    for index in 0..IDLE_NODES {
        let node = serde_json::from_value(json!({
            "metadata": {"name": format!("idle-{index:04}"), "labels": {
                "kubernetes.io/hostname": format!("idle-{index:04}"), "node-role.kubernetes.io/worker": ""}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastHeartbeatTime": jiff::Timestamp::now(), "lastTransitionTime": jiff::Timestamp::now()}]},
        }))?;
        api.create(&PostParams::default(), &node).await?;
    }
    let client = stage.client.clone();
    let beats = tokio::spawn(async move {
        let api: Api<Node> = Api::all(client);
        let pause = HEARTBEAT / u32::try_from(IDLE_NODES).unwrap_or(1);
        let mut ticks = tokio::time::interval(pause);
        for index in (0..IDLE_NODES).cycle() {
            ticks.tick().await;
            let patch = json!({"status": {"conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": jiff::Timestamp::now()}]}});
            let name = format!("idle-{index:04}");
            let params = PatchParams::default();
            if api
                .patch_status(&name, &params, &Patch::Strategic(patch))
                .await
                .is_err()
            {
                return;
            }
        }
    });
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).weekday();
    let far = (i64::from(today.to_sunday_zero_offset()) + 3) % 7;
    for index in 0..10 {
        let window = json!({"days": [far.to_string()], "startTime": "00:00", "endTime": "23:59:59"});
        plan(&stage, &format!("waits-{index}"), json!({"window": window})).await?;
    }
    // Every node is known, and every status is written.
    tokio::time::sleep(HEARTBEAT * 2).await;
    let pid = stage
        .numo()
        .and_then(numo_e2e::Numo::pid)
        .context("numo has ended")?;
    let before = cpu_seconds(pid)?;
    let asked = stage.cluster.audit()?.len();
    tokio::time::sleep(IDLE).await;
    let cpu = (cpu_seconds(pid)? - before) / IDLE.as_secs_f64() * 100.0;
    let user = format!("system:serviceaccount:{NAMESPACE}:numo");
    let events = stage.cluster.audit()?.split_off(asked);
    let of_numo: Vec<&AuditEvent> = events.iter().filter(|event| event.user == user).collect();
    let leader = |event: &&&AuditEvent| event.resource == "leases" && event.namespace == NAMESPACE;
    let leading = of_numo.iter().filter(leader).count();
    let nodes = api.list_metadata(&ListParams::default()).await?.items.len();
    beats.abort();
    stage.strike().await?;
    #[allow(clippy::cast_precision_loss, reason = "some hundreds")]
    let per_minute = |count: usize| count as f64 / IDLE.as_secs_f64() * 60.0;
    Ok(Measured {
        value: per_minute(of_numo.len() - leading),
        notes: vec![
            format!("{nodes} nodes, each heartbeating every {HEARTBEAT:?}; numo takes {cpu:.2} % of a core"),
            format!(
                "beside {:.1} requests a minute for the leader's own lease",
                per_minute(leading)
            ),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn times_are_read_past_the_name_of_the_program() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 100 1 1";
        assert_eq!(ticks(stat), Some(300.0));
        assert_eq!(ticks("7 (a"), None);
    }
}
