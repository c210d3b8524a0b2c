//! numo killed at each of its writes on a real API server: of every owner kind one run without a fault, and then one for each
//! write of it, before or after which numo dies and is started again. What is there at the end is what is there without a
//! crash; every Job was made once; nothing is left.
//!
//! A spread sample by default; `NUMO_E2E_EVERY_WRITE=all` is every write, before and after
//! (`cargo xtask test --every-write`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Write as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{batch::v1::Job, coordination::v1::Lease, core::v1::Node};
use kube::{Api, ResourceExt, api::ListParams, core::DynamicObject};
use numo_api::{Condition, MutexRunConfig, NodeChange, Plan, marks, node_maintenance::MEDIK8S_GROUP};
use numo_e2e::{
    Cut, Numo, Proxy, Stage, StageOptions,
    machines::{Group, Machines, without_nodes},
};
use numo_world::{Change, Timings, WorldSpec, openshift::MachineConfigPool};
use serde_json::json;

use crate::{
    NEW, apply, finish, judgement,
    maintenance::{delete, deployment, leases, maintain, on, phase, running},
    plans, prepare, quick,
    replace::VERSION,
    rule, workers,
};

/// How many writes of a kind are tried where not every one is.
const SAMPLE: usize = 6;
/// After so many runs that end otherwise, the cause is plain.
const ENOUGH: usize = 3;
/// Taints that the node controller puts on and takes off by itself.
const OF_NODE_CONTROLLER: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// numo has come to rest when it wrote nothing for so long.
const REST: Duration = Duration::from_millis(1500);

/// Whose run it is.
#[derive(Clone, Copy, Debug)]
pub enum Owner {
    Run,
    Plan,
    Maintenance,
    NodeVersion,
}

impl Owner {
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Run => "MutexRunConfig",
            Self::Plan => "Plan",
            Self::Maintenance => "NodeMaintenance",
            Self::NodeVersion => "NodeVersion",
        }
    }

    /// The nodes that go through it.
    pub const fn nodes(self) -> &'static [&'static str] {
        match self {
            Self::Run | Self::Plan => &["worker-0", "worker-1"],
            Self::Maintenance => &["worker-0"],
            Self::NodeVersion => &["old-0", "old-1"],
        }
    }

    /// Two workers, and no numo yet.
    async fn stage(self) -> Result<Stage> {
        if let Self::NodeVersion = self {
            return replaced(self.nodes()).await;
        }
        let world = WorldSpec {
            // numo is back before the pools would roll: a pause that comes too late is another matter (NodesUngated).
            timings: Timings {
                control_plane: 1200.0,
                ..Timings::default()
            },
            ..workers(2)
        };
        let stage = Stage::set(StageOptions {
            world,
            // A pod keeps its name when its container is started again, and so its place as the leader.
            numo: vec!["--identity", "numo-0"],
            without_numo: true,
            ..StageOptions::default()
        })
        .await?;
        plans::open(&stage).await?;
        Ok(stage)
    }

    /// All that a person does, from the first object to the end, and all that they would wait for.
    async fn course(self, stage: &Stage) -> Result<()> {
        match self {
            Self::Run => {
                prepare(stage, &[quick()], json!({})).await?;
                stage.world.upgrade_to(NEW).await?;
                finish(stage).await?;
            }
            Self::Plan => {
                let spec = json!({"serviceAccountName": "default", "drain": {}});
                apply(stage, &[quick(), binding(), web()]).await?;
                running(stage, "web", "worker-0", 1).await?;
                apply(stage, &[plans::plan("k3s", "true", spec)]).await?;
                plans::complete(stage, "k3s").await?;
            }
            Self::Maintenance => {
                apply(stage, &[quick(), web()]).await?;
                running(stage, "web", "worker-0", 1).await?;
                let rules = json!({"mutexRules": [{"name": "quick"}]});
                maintain(stage, "nm", "worker-0", rules).await?;
                phase(stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
                delete(stage, MEDIK8S_GROUP, "nm").await?;
            }
            Self::NodeVersion => roll(stage).await?,
        }
        nothing_is_left(stage).await?;
        if let Self::Run = self {
            stage.judge(&judgement(&["quick"], &["quick"])).await?;
        }
        Ok(())
    }
}

/// Two nodes with a machine each, and no numo yet. What numo asks of their provider is among its writes: machines are objects.
async fn replaced(nodes: &[&str]) -> Result<Stage> {
    let numo = vec!["--identity", "numo-0", "--machine-provider", "sim"];
    let (stage, machines) = without_nodes(numo).await?;
    let addresses = ["198.18.255.1".to_owned(), "198.18.255.2".to_owned()];
    let group = Group {
        name: "red",
        nodes,
        addresses: &addresses,
        ..Group::default()
    };
    machines.group(group).await?;
    Ok(stage)
}

/// Both machines are replaced, behind a rule.
async fn roll(stage: &Stage) -> Result<()> {
    let machines = Machines::of(stage.client.clone());
    let gate = json!({"type": "cel", "cel": {"validations": [{"expression": "true"}]}});
    let bound = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
        "metadata": {"name": "versions"},
        "spec": {"ownerSelector": {"kind": "NodeVersion"}, "rules": [{"name": "quick"}]},
    });
    apply(stage, &[rule("quick", gate), bound]).await?;
    machines.ask_for(VERSION, json!({"image": "img2"})).await?;
    stage
        .until("both machines are replaced", 200, || async {
            machines.play().await?;
            let found = machines.shown().await?;
            let is_new = found.len() == 2 && found.values().all(|node| node.image == "img2");
            Ok((is_new && machines.is_at_rest(VERSION).await?).then_some(()))
        })
        .await
}

/// A pod that has to leave worker-0, and comes back.
pub fn web() -> serde_json::Value {
    deployment("web", 1, on("worker-0"))
}

/// Plans are gated by the rule `quick`, drained by numo, and their nodes taken in the order of their names.
pub fn binding() -> serde_json::Value {
    json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
        "metadata": {"name": "plans"},
        "spec": {
            "ownerSelector": {"kind": "Plan"}, "drainBy": "Numo", "order": "Name",
            "rules": [{"name": "quick"}],
        },
    })
}

/// One run from the first object to the end.
pub struct Life {
    /// What numo wrote until the line was cut, or at all.
    pub writes: Vec<String>,
    /// What is there at the end, one line an object; and each Job there ever was.
    pub end: Vec<String>,
}

/// The program that runs until the cut, and the one that is started after that.
#[derive(Clone, Debug)]
pub struct Programs {
    pub before: PathBuf,
    pub after: PathBuf,
    /// Whether the one records a Pass without the edition of its rule, which the other asks for once more.
    pub asks_again: bool,
}

impl Programs {
    fn same() -> Result<Self> {
        let binary = numo_e2e::binary()?;
        Ok(Self {
            before: binary.clone(),
            after: binary,
            asks_again: false,
        })
    }
}

/// Lives through it once. With a cut, numo is killed there and started again; then all ends as in `wanted`.
async fn live(owner: Owner, cut: Option<Cut>, wanted: &[String]) -> Result<Life> {
    live_by(&Programs::same()?, owner, cut, wanted).await
}

/// The same with one program until the cut, and another one after it.
pub async fn live_by(programs: &Programs, owner: Owner, cut: Option<Cut>, wanted: &[String]) -> Result<Life> {
    let stage = owner.stage().await?;
    let proxy = Proxy::open(stage.numo_kubeconfig(), cut).await?;
    let mut numo = stage.numo_by(&programs.before, &proxy.kubeconfig())?;
    let ended = {
        let mut course = Box::pin(owner.course(&stage));
        loop {
            tokio::select! {
                ended = &mut course => break ended,
                () = proxy.is_cut() => {
                    numo.kill().await?;
                    numo = stage.numo_by(&programs.after, stage.numo_kubeconfig())?;
                }
            }
        }
    };
    let ended = match ended {
        Ok(()) if wanted.is_empty() => at_rest(&stage, &proxy).await,
        Ok(()) => as_wanted(&stage, wanted, programs.asks_again).await,
        Err(error) => Err(error),
    };
    let writes = proxy.writes();
    ended.with_context(|| last_words(&numo, &writes))?;
    let life = Life {
        writes,
        end: end(&stage).await?,
    };
    made_once(&stage, if programs.asks_again { 2 } else { 1 })?;
    let code = numo.stop().await?;
    ensure!(code == Some(0), "numo ended with {code:?}");
    stage.strike().await?;
    Ok(life)
}

/// Waits until numo writes nothing more: what is there then is the end.
async fn at_rest(stage: &Stage, proxy: &Proxy) -> Result<()> {
    let mut last = (0, Instant::now());
    while last.1.elapsed() < REST {
        let number = proxy.writes().len();
        if number != last.0 {
            last = (number, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    nothing_is_left(stage).await
}

/// Waits until all is as it is without a crash.
async fn as_wanted(stage: &Stage, wanted: &[String], asks_again: bool) -> Result<()> {
    let what = "all is as it is without a crash";
    let same = stage
        .until(what, 30, || async {
            let mut found = end(stage).await?;
            if asks_again {
                let again = r#", "node-upgrade-mutex-operator/quick Pre 2 Pass""#;
                for line in &mut found {
                    *line = line.replace(again, "");
                }
            }
            Ok((found == wanted).then_some(()))
        })
        .await;
    match same {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(difference(wanted, &end(stage).await?))),
    }
}

fn difference(wanted: &[String], found: &[String]) -> String {
    let mut text = String::from("it ends otherwise than without a crash");
    for line in wanted.iter().filter(|line| !found.contains(line)) {
        let _ = write!(text, "\n  without: {line}");
    }
    for line in found.iter().filter(|line| !wanted.contains(line)) {
        let _ = write!(text, "\n  with:    {line}");
    }
    text
}

/// What a person would look at first.
fn last_words(numo: &Numo, writes: &[String]) -> String {
    let log = numo.log();
    let lines: Vec<&str> = log.lines().collect();
    format!(
        "the last write before the crash: {:?}\n--- numo's log\n{}",
        writes.last(),
        lines[lines.len().saturating_sub(30)..].join("\n")
    )
}

/// Every Job that was ever there: what it was for, and the uids it had.
pub fn jobs_ever(stage: &Stage) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for record in stage.world.records() {
        let Change::Job(key, Some(job)) = record.change else {
            continue;
        };
        let of = |labels: &BTreeMap<String, String>, key: &str| labels.get(key).cloned().unwrap_or_default();
        let what = if let Some(rule) = job.annotations.get(marks::JOB_RULE) {
            let phase = of(&job.labels, marks::JOB_PHASE);
            format!("{rule} {phase} {}", of(&job.annotations, marks::JOB_NODE_NAME))
        } else {
            // `namespace/apply-k3s-on-…`
            let name = key.rsplit('/').next().unwrap_or_default();
            let verb = name.split('-').next().unwrap_or_default();
            format!("{verb} {}", of(&job.labels, marks::PLAN_NODE))
        };
        all.entry(what).or_default().insert(job.uid.clone());
    }
    all
}

/// Fails if a Job was made twice, and one of a rule more often than `rules`.
fn made_once(stage: &Stage, rules: usize) -> Result<()> {
    for (what, uids) in jobs_ever(stage) {
        let most = if what.contains("/quick Pre ") { rules } else { 1 };
        ensure!(uids.len() <= most, "Job {what} was made {} times", uids.len());
    }
    Ok(())
}

/// Waits until there is nothing of numo's that ends with a turn.
pub async fn nothing_is_left(stage: &Stage) -> Result<()> {
    let gone = stage
        .until("nothing of numo is left", 60, || async {
            Ok(left(stage).await?.is_empty().then_some(()))
        })
        .await;
    match gone {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(format!("left: {:#?}", left(stage).await?))),
    }
}

async fn list<K>(api: Api<K>) -> Result<Vec<K>>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Ok(api.list(&ListParams::default()).await?.items)
}

/// The same of a kind that not every cluster has.
async fn list_served(api: Api<DynamicObject>) -> Result<Vec<DynamicObject>> {
    match api.list(&ListParams::default()).await {
        Err(kube::Error::Api(error)) if error.code == 404 => Ok(Vec::new()),
        listed => Ok(listed?.items),
    }
}

/// Marks, shields, cordons, pauses, leases, finalizers, and Jobs that have not ended.
async fn left(stage: &Stage) -> Result<Vec<String>> {
    let client = || stage.client.clone();
    let mut left = Vec::new();
    let is_ours = |key: &&String| key.starts_with(marks::PREFIX) || *key == marks::EXCLUDE_FROM_REMEDIATION;
    for node in list(Api::<Node>::all(client())).await? {
        let keys = node.annotations().keys().chain(node.labels().keys());
        let mut of_node: Vec<String> = keys.filter(is_ours).cloned().collect();
        let spec = node.spec.clone().unwrap_or_default();
        if spec.unschedulable == Some(true) {
            of_node.push("cordon".to_owned());
        }
        let taints = spec.taints.into_iter().flatten().map(|taint| taint.key);
        of_node.extend(taints.filter(|key| {
            key.starts_with(marks::PREFIX)
                || [marks::MEDIK8S_DRAIN, marks::UNSCHEDULABLE].contains(&key.as_str())
        }));
        left.extend(
            of_node
                .iter()
                .map(|mark| format!("Node {}: {mark}", node.name_any())),
        );
    }
    for pool in list(Api::<MachineConfigPool>::all(client())).await? {
        let marks = pool.annotations().keys().filter(is_ours).cloned();
        let paused = pool.spec.paused.then(|| "paused".to_owned());
        left.extend(
            marks
                .chain(paused)
                .map(|mark| format!("pool {}: {mark}", pool.name_any())),
        );
    }
    let held: Vec<Lease> = list(leases(stage)).await?;
    left.extend(held.iter().map(|lease| format!("Lease {}", lease.name_any())));
    for job in list(Api::<Job>::all(client())).await? {
        let active = job.status.as_ref().and_then(|status| status.active).unwrap_or(0);
        if active > 0 {
            left.push(format!("Job {} runs", job.name_any()));
        }
    }
    left.extend(requests(stage).await?);
    for run in list(Api::<MutexRunConfig>::all(client())).await? {
        left.extend(run.finalizers().iter().map(|one| format!("run: finalizer {one}")));
    }
    for plan in list(Api::<Plan>::all(client())).await? {
        left.extend(
            plan.finalizers()
                .iter()
                .map(|one| format!("Plan: finalizer {one}")),
        );
    }
    Ok(left)
}

/// What a NodeVersion asked for and has not taken back. Most clusters do not have its kinds.
async fn requests(stage: &Stage) -> Result<Vec<String>> {
    let machines = Machines::of(stage.client.clone());
    let mut found = Vec::new();
    for (kind, plural) in [("PendingNode", "pendingnodes"), ("JoiningNode", "joiningnodes")] {
        let api = machines.api(kind, plural);
        let objects = list_served(api).await?;
        found.extend(objects.iter().map(|one| format!("{kind} {}", one.name_any())));
    }
    Ok(found)
}

/// The NodeVersion and its machines, without the names that numo gives.
async fn machines(stage: &Stage) -> Result<Vec<String>> {
    let machines = Machines::of(stage.client.clone());
    let mut lines = Vec::new();
    for map in machines.made().await? {
        let of = |key| map.data.as_ref().and_then(|data| data.get(key)).cloned();
        let [group, image, state] = ["group", "image", "state"].map(of);
        lines.push(format!("machine of {group:?} with {image:?} {state:?}"));
    }
    for version in list_served(machines.api("NodeVersion", "nodeversions")).await? {
        let said = version.data.pointer("/status/conditions").cloned();
        let said: Vec<Condition> = serde_json::from_value(said.unwrap_or_else(|| json!([])))?;
        let finalizers = version.finalizers();
        lines.push(format!(
            "NodeVersion {:?} finalizers {finalizers:?}",
            conditions(&said)
        ));
    }
    Ok(lines)
}

/// Type, status and reason: their messages and times are of one run.
fn conditions(all: &[Condition]) -> Vec<String> {
    let mut said: Vec<String> = all
        .iter()
        .map(|one| {
            format!(
                "{}={}/{}",
                one.type_,
                one.status,
                one.reason.as_deref().unwrap_or_default()
            )
        })
        .collect();
    said.sort();
    said
}

/// What is there at the end without what is of one run only (uids, times, names with hashes of uids), one line an object, in
/// order; and each Job there ever was.
async fn end(stage: &Stage) -> Result<Vec<String>> {
    let client = || stage.client.clone();
    let mut lines = Vec::new();
    for node in list(Api::<Node>::all(client())).await? {
        let keys: Vec<&String> = node.annotations().keys().collect();
        let spec = node.spec.clone().unwrap_or_default();
        // How soon after a reboot the node controller sees that a node is Ready is not numo's doing.
        let taints = spec.taints.into_iter().flatten();
        let taints: Vec<String> = taints
            .filter(|taint| !OF_NODE_CONTROLLER.contains(&taint.key.as_str()))
            .map(|taint| format!("{}:{}", taint.key, taint.effect))
            .collect();
        if spec.provider_id.is_some() {
            // Its name is one of numo's.
            let labels: Vec<&String> = node.labels().keys().collect();
            lines.push(format!(
                "Node of a machine unschedulable {:?} taints {taints:?} labels {labels:?} annotations {keys:?}",
                spec.unschedulable,
            ));
            continue;
        }
        lines.push(format!(
            "Node {} at {} unschedulable {:?} taints {taints:?} labels {:?} annotations {keys:?}",
            node.name_any(),
            stage.world.version_of(&node.name_any()),
            spec.unschedulable,
            node.labels(),
        ));
    }
    for pool in list(Api::<MachineConfigPool>::all(client())).await? {
        let keys: Vec<&String> = pool.annotations().keys().collect();
        lines.push(format!(
            "MachineConfigPool {} paused {} selector {:?} annotations {keys:?}",
            pool.name_any(),
            pool.spec.paused,
            pool.spec.node_selector,
        ));
    }
    for run in list(Api::<MutexRunConfig>::all(client())).await? {
        let said = conditions(&run.status.unwrap_or_default().conditions);
        lines.push(format!("MutexRunConfig {said:?}"));
    }
    for plan in list(Api::<Plan>::all(client())).await? {
        let status = plan.status.unwrap_or_default();
        let mut said: Vec<String> = status
            .conditions
            .iter()
            .flatten()
            .map(|one| format!("{}={}/{:?}", one.type_, one.status, one.reason))
            .collect();
        said.sort();
        lines.push(format!(
            "Plan at {:?} applies {:?} {said:?}",
            status.latest_version, status.applying
        ));
    }
    lines.extend(machines(stage).await?);
    // That of a maintenance goes with it, and that of a node that was replaced with the node, sooner or later.
    let journals = stage.journals().await?;
    let journals = journals
        .iter()
        .filter(|one| !["NodeMaintenance", "NodeVersion"].contains(&one.spec.owner_ref.kind.as_str()));
    lines.extend(journals.map(journal));
    lines.extend(jobs_ever(stage).into_keys().map(|what| format!("Job {what}")));
    lines.sort();
    Ok(lines)
}

/// A journal as one line. numo's own check, which is in no namespace, may be asked again.
fn journal(change: &NodeChange) -> String {
    let status = change.status.clone().unwrap_or_default();
    let verdicts: Vec<String> = status
        .verdicts
        .iter()
        .filter(|one| one.rule.contains('/'))
        .map(|one| format!("{} {:?} {} {:?}", one.rule, one.phase, one.attempt, one.outcome))
        .collect();
    format!(
        "NodeChange of {} for {} {} step {:?} reason {:?} attempt {} {verdicts:?} {:?}",
        change.spec.node_name,
        change.spec.owner_ref.kind,
        change.spec.owner_ref.name,
        status.step,
        status.reason,
        status.attempt,
        conditions(&status.conditions),
    )
}

/// Where numo is killed in turn.
pub fn cuts(writes: usize) -> Vec<Cut> {
    if std::env::var_os("NUMO_E2E_EVERY_WRITE").is_some() {
        let both = |number| [Cut::Before(number), Cut::After(number)];
        return (1..=writes).flat_map(both).collect();
    }
    let steps = SAMPLE - 1;
    let at = |step: usize| 1 + step * writes.saturating_sub(1) / steps;
    (0..SAMPLE)
        .map(|step| match step % 2 {
            0 => Cut::After(at(step)),
            _ => Cut::Before(at(step)),
        })
        .collect()
}

/// Tells it whether or not the test passes: cargo keeps what `println!` says of one that does.
pub fn tell(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

async fn killed_at_its_writes(owner: Owner) -> Result<()> {
    let whole = live(owner, None, &[]).await?;
    let asked = match owner {
        // Its rule is an expression.
        Owner::NodeVersion => &[],
        _ => owner.nodes(),
    };
    for node in asked {
        let ran = whole.end.iter().any(|line| {
            line.starts_with("Job ") && line.contains("/quick ") && line.ends_with(&format!(" {node}"))
        });
        assert!(ran, "no rule ran for {node}: {:#?}", whole.end);
    }
    let cuts = cuts(whole.writes.len());
    let (mut failures, mut missed, mut tried) = (Vec::new(), 0, 0);
    for cut in &cuts {
        tried += 1;
        match live(owner, Some(*cut), &whole.end).await {
            // It did with fewer writes this time.
            Ok(life) if life.writes.len() < cut.number() => missed += 1,
            Ok(_) => {}
            Err(error) => failures.push(format!("killed {cut:?}: {error:?}")),
        }
        if failures.len() == ENOUGH {
            break;
        }
    }
    let result = match failures.len() {
        0 => "same objects, each Job once, nothing left".to_owned(),
        number => format!("{number} FAILED"),
    };
    tell(&format!(
        "{:<16} {:>6} {:>7} {:>11}  {}\n{:<16} {:>6} {tried:>7} {missed:>11}  {result}",
        "crashes of",
        "writes",
        "crashes",
        "not reached",
        "result",
        owner.kind(),
        whole.writes.len(),
    ))?;
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(
        missed <= 1 + cuts.len() / 10,
        "{missed} of {} were not reached",
        cuts.len()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_the_same_whichever_write_numo_dies_at() -> Result<()> {
    killed_at_its_writes(Owner::Run).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_ends_the_same_whichever_write_numo_dies_at() -> Result<()> {
    killed_at_its_writes(Owner::Plan).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_ends_the_same_whichever_write_numo_dies_at() -> Result<()> {
    killed_at_its_writes(Owner::Maintenance).await
}

/// Each call of the provider is a write here, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_version_ends_the_same_whichever_write_numo_dies_at() -> Result<()> {
    killed_at_its_writes(Owner::NodeVersion).await
}

/// The sample has the first write and the last, and both ways to die.
#[test]
fn the_sample_is_spread_over_all_writes() {
    if std::env::var_os("NUMO_E2E_EVERY_WRITE").is_some() {
        return;
    }
    let all = cuts(41);
    let numbers: Vec<usize> = all.iter().map(|cut| cut.number()).collect();
    assert_eq!(numbers, [1, 9, 17, 25, 33, 41]);
    let before = all.iter().filter(|cut| matches!(cut, Cut::Before(_))).count();
    assert_eq!(before, 3);
}
