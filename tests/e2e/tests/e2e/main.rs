//! numo against a real control plane and the simulated world, under the RBAC it ships with.
//!
//! Each test sets a stage of its own: a control plane, a world, and numo as a process. They wait for what
//! is to be seen, never for a time; where nothing may happen, what was seen over a bounded time is judged.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "specs are made where they are passed"
)]

mod actors;
mod approvals;
mod artifacts;
mod ask;
mod asked;
mod author;
mod bad_machines;
mod channels;
mod closed;
mod clouds;
mod cluster_api;
mod clusters;
mod commands;
mod configs;
mod contract;
mod cordons;
mod crashes;
mod dead;
mod doctor;
mod earlier;
mod edits;
mod escapes;
mod examples;
mod fields;
mod foreground;
mod gcp;
mod handed_over;
mod hold;
mod hours;
mod input;
mod jobs;
mod joiners;
mod leader;
mod leaving;
mod left;
mod maintenance;
mod mco;
mod measures;
mod metrics;
mod migration;
mod nodes;
mod notifiers;
mod olm;
mod page;
mod phases;
mod pipes;
mod places;
mod plans;
mod pools;
mod preview;
mod quiet;
mod refusals;
mod refused;
mod release;
mod replace;
mod restart;
mod rights;
mod rules;
mod run;
mod screen;
mod siege;
mod standoff;
mod stop;
mod takeover;
mod targets;
mod together;
mod tools;
mod topologies;
mod traces;
mod tutorials;
mod uninstall;
mod unleased;
mod versions;
mod wasm;
mod waves;
mod webhooks;
mod zones;

use std::{os::unix::fs::PermissionsExt, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::batch::v1::Job;
use kube::{Api, api::ListParams};
use numo_api::{MutexRunConfig, NodeChange, Outcome, Phase};
use numo_e2e::{NAMESPACE, Stage, StageOptions, manifests, rules::Rules};
use numo_world::{Event, Judgement, PoolSpec, World, WorldSpec};
use serde_json::{Value, json};

/// The version the cluster is at.
pub const OLD: &str = "4.16.4";
/// The version it goes to.
pub const NEW: &str = "4.17.0";

/// A world with so many workers in the pool `worker`.
pub fn workers(number: usize) -> WorldSpec {
    WorldSpec {
        pools: vec![PoolSpec::new("worker", number)],
        ..WorldSpec::default()
    }
}

/// The same with the page's canary pool.
pub fn with_canary(world: WorldSpec) -> WorldSpec {
    WorldSpec {
        canary: true,
        ..world
    }
}

/// What a run's spec says to send its nodes through that pool.
pub fn canary() -> Value {
    json!({"canary": {"name": "canary"}})
}

/// A spec with more laid over it.
pub fn with(mut spec: Value, more: Value) -> Value {
    lay(&mut spec, more);
    spec
}

/// A stage with this world and these arguments of `numo run`.
pub async fn set(world: WorldSpec, numo: Vec<&'static str>) -> Result<Stage> {
    Stage::set(StageOptions {
        world,
        numo,
        ..StageOptions::default()
    })
    .await
}

/// An argument of numo, for as long as the process lives: the stage keeps it.
pub fn kept(argument: String) -> &'static str {
    argument.leak()
}

/// The same, where the API server takes what numo's definitions refuse: it was stored before they did.
pub async fn set_with_slips(world: WorldSpec, numo: Vec<&'static str>) -> Result<Stage> {
    Stage::set(StageOptions {
        world,
        numo,
        without_validation: true,
        ..StageOptions::default()
    })
    .await
}

/// A JobSpec that runs a shell command once.
pub fn job(command: &str) -> Value {
    json!({
        "backoffLimit": 0,
        "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "check", "image": "tools", "command": ["/bin/sh", "-c", command]}],
        }},
    })
}

/// A MutexRule; `spec` is laid over the defaults of the tests.
pub fn rule(name: &str, spec: Value) -> Value {
    let mut all =
        json!({"jobName": name, "jobNamespace": NAMESPACE, "type": "kubernetes", "timeoutSeconds": 120});
    lay(&mut all, spec);
    object("MutexRule", name, all)
}

/// A rule that takes no time, before and after.
pub fn quick() -> Value {
    rule(
        "quick",
        json!({"jobSpec": job("true"), "cleanUpJobSpec": job("true")}),
    )
}

/// A MutexTarget.
pub fn target(name: &str, pools: &[&str]) -> Value {
    object("MutexTarget", name, json!({"machineConfigPools": pools}))
}

/// The MutexRunConfig `upgrade` over the target `workers`, nodes in the order of their names.
pub fn run_of(rules: &[&str], spec: Value) -> Value {
    let rules: Vec<Value> = rules.iter().map(|name| json!({"name": name})).collect();
    let mut all = json!({"mutexRules": rules, "mutexTargets": [{"name": "workers"}], "order": "Name"});
    lay(&mut all, spec);
    object("MutexRunConfig", "upgrade", all)
}

/// An object of one of the reference's kinds.
pub fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "openshift-optional.skrzypek.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    })
}

fn lay(over: &mut Value, more: Value) {
    if let (Value::Object(over), Value::Object(more)) = (over, more) {
        over.extend(more);
    }
}

/// Applies objects, JSON being YAML.
pub async fn apply(stage: &Stage, objects: &[Value]) -> Result<()> {
    for object in objects {
        stage.apply(&object.to_string()).await?;
    }
    Ok(())
}

/// A rule that is a component from a registry, which lives as long as the first part is kept; it passes.
pub async fn with_component(stage: &Stage) -> Result<(Rules, Value)> {
    let published = Rules::publish(&["node-requirement"]).await?;
    manifests::apply(&stage.client, &published.pull_secret(), NAMESPACE).await?;
    let wasm = json!({"type": "wasm", "phases": ["Pre"], "wasm": {
        "image": "registry.example.com/numo/rules/node-requirement:0.1.0",
        "config": {"annotations": [{"key": "ops.example.com/hold", "operator": "DoesNotExist"}]},
    }});
    let mut component = [rule("component", wasm)];
    published.point(&mut component);
    let [component] = component;
    Ok((published, component))
}

/// Applies rules, the target `workers` of the pool `worker`, and the run; returns once the run says that
/// there is nothing to do.
pub async fn prepare(stage: &Stage, rules: &[Value], spec: Value) -> Result<()> {
    apply(stage, rules).await?;
    let names: Vec<&str> = rules
        .iter()
        .filter_map(|rule| rule["metadata"]["name"].as_str())
        .collect();
    apply(stage, &[target("workers", &["worker"]), run_of(&names, spec)]).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    Ok(())
}

/// The same with one rule, `gated`, whose Job ends once the gate is open.
pub async fn prepare_gated(stage: &Stage) -> Result<Gate> {
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(stage, &[gated], json!({})).await?;
    Ok(gate)
}

/// What is expected of an upgrade with these rules before and after.
pub fn judgement(pre: &[&str], post: &[&str]) -> Judgement {
    let names = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect();
    Judgement {
        pre_rules: names(pre),
        post_rules: names(post),
        at_version: Some(NEW.to_owned()),
        ..Judgement::default()
    }
}

/// Waits until all workers are at the new version and the run has Succeeded.
pub async fn finish(stage: &Stage) -> Result<()> {
    stage.upgraded("worker", NEW).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    Ok(())
}

/// Waits until the run is over, well or with nodes that the MCO took first: that is a race, and said.
pub async fn ended(stage: &Stage) -> Result<()> {
    stage
        .until("the run is over", 90, || async {
            let run = stage.run("upgrade").await?;
            let ungated = run
                .status
                .as_ref()
                .and_then(|status| status.run.as_ref())
                .is_some_and(|run| !run.ungated.is_empty());
            let wanted = if ungated { "NodesUngated" } else { "Succeeded" };
            let ready = condition(&run, "Ready").and_then(|ready| ready.reason.clone());
            Ok((ready.as_deref() == Some(wanted)).then_some(()))
        })
        .await
}

/// A place where rules wait until the test lets them go on, node by node.
pub struct Gate(tempfile::TempDir);

impl Gate {
    /// Closed for all.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("numo-gate-").tempdir()?;
        // The world's containers are nobody.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        Ok(Self(folder))
    }

    /// A shell command that ends when the gate is open for its node.
    pub fn wait(&self) -> String {
        self.wait_for("$NODE_NAME")
    }

    /// A shell command that ends when the gate is open for this name.
    pub fn wait_for(&self, name: &str) -> String {
        format!("until {}; do sleep 0.1; done", self.is_open(name))
    }

    /// A shell condition: whether the gate is open for this name.
    pub fn is_open(&self, name: &str) -> String {
        let folder = self.0.path().display();
        format!("{{ [ -e {folder}/{name} ] || [ -e {folder}/all ]; }}")
    }

    /// Opens it for a node.
    pub fn open(&self, node: &str) -> Result<()> {
        std::fs::write(self.0.path().join(node), "")?;
        Ok(())
    }

    /// Opens it for every node.
    pub fn open_for_all(&self) -> Result<()> {
        self.open("all")
    }
}

/// Whether something happened to a subject of the world.
pub fn happened(world: &World, subject: &str, is: impl Fn(&Event) -> bool) -> bool {
    world.log().iter().any(|e| e.subject == subject && is(&e.event))
}

/// Whether a pod of a rule's Job about this node has begun to run; a rule of the run is about no node.
pub fn rule_began(world: &World, rule: &str, node: &str) -> bool {
    world.log().iter().any(|entry| {
        matches!(&entry.event, Event::JobPodStarted { env, .. }
            if env.get("MUTEX_RULE").is_some_and(|name| name == rule)
                && env.get("NODE_NAME").map_or("", String::as_str) == node)
    })
}

/// Waits for something of the world.
pub async fn seen(stage: &Stage, what: &str, is: impl Fn(&World) -> bool) -> Result<()> {
    match stage.world.until(what, Duration::from_secs(90), is).await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(stage.picture().await)),
    }
}

/// Names of the workers that were given a new configuration since the upgrade was asked for, in order.
pub fn released(world: &World) -> Vec<String> {
    let log = world.log();
    let asked = log
        .iter()
        .rev()
        .find(|e| matches!(e.event, Event::VersionDesired { .. }))
        .map_or(0, |e| e.revision);
    let mut nodes = Vec::new();
    for entry in log.iter().filter(|e| e.revision > asked) {
        let real = matches!(entry.event, Event::DesiredConfigSet { zero_diff: false, .. });
        if real && !entry.subject.starts_with("master") && !nodes.contains(&entry.subject) {
            nodes.push(entry.subject.clone());
        }
    }
    nodes
}

/// Lets a bounded time pass, in which the world's controllers sync hundreds of times, and returns the nodes
/// released by then.
pub async fn released_after_a_while(stage: &Stage) -> Vec<String> {
    tokio::time::sleep(Duration::from_secs(3)).await;
    released(&stage.world)
}

/// A condition of a run as it is now.
pub fn condition<'a>(run: &'a MutexRunConfig, type_: &str) -> Option<&'a numo_api::Condition> {
    run.status.as_ref()?.conditions.iter().find(|c| c.type_ == type_)
}

/// Waits until the run `upgrade` says that nodes wait for this reason; the message.
pub async fn waits(stage: &Stage, reason: &str) -> Result<String> {
    waits_in(stage, "upgrade", reason).await
}

/// Waits until a run says that nodes wait for this reason; the message.
pub async fn waits_in(stage: &Stage, run: &str, reason: &str) -> Result<String> {
    stage
        .until(&format!("a node of run {run} waits for {reason}"), 90, || async {
            let run = stage.run(run).await?;
            let waiting = run.status.and_then(|status| status.run).map(|run| run.waiting);
            Ok(waiting
                .into_iter()
                .flatten()
                .find(|wait| wait.reason == reason)
                .map(|wait| wait.message))
        })
        .await
}

/// All Jobs of numo's namespace.
pub async fn jobs(stage: &Stage) -> Result<Vec<Job>> {
    Ok(stage.api::<Job>().list(&ListParams::default()).await?.items)
}

/// Waits so many seconds until `numo explain` says this of a node; all that it says.
pub async fn explained(stage: &Stage, node: &str, words: &str, seconds: u64) -> Result<String> {
    let what = format!("explain of {node} says {words}");
    let text = stage
        .until(&what, seconds, || async {
            let text = stage.say(&["explain", node]).await?;
            Ok(text.contains(words).then_some(text))
        })
        .await?;
    stage.compare_node_without_leases(node).await?;
    Ok(text)
}

/// The verdicts of a rule in a node's journal, oldest first: attempt, outcome, exit code. numo's own check is in no
/// namespace.
pub fn verdicts(change: &NodeChange, rule: &str, phase: Phase) -> Vec<(i32, Outcome, Option<i32>)> {
    let name = format!("{NAMESPACE}/{rule}");
    change
        .status
        .iter()
        .flat_map(|status| &status.verdicts)
        .filter(|verdict| (verdict.rule == name || verdict.rule == rule) && verdict.phase == phase)
        .map(|verdict| (verdict.attempt, verdict.outcome, verdict.exit_code))
        .collect()
}

/// The MachineConfigPool as the API server has it now.
pub async fn pool(stage: &Stage, name: &str) -> Result<numo_world::openshift::MachineConfigPool> {
    let api: Api<numo_world::openshift::MachineConfigPool> = Api::all(stage.client.clone());
    Ok(api.get(name).await?)
}

/// numo's mark on a pool, if there is one.
pub async fn mark(stage: &Stage, name: &str, key: &str) -> Result<Option<Value>> {
    let pool = pool(stage, name).await?;
    let text = pool.metadata.annotations.and_then(|all| all.get(key).cloned());
    text.map(|text| serde_json::from_str(&text).with_context(|| format!("mark {text}")))
        .transpose()
}

/// Deletes a run and waits until it is gone.
pub async fn delete_run(stage: &Stage, name: &str) -> Result<()> {
    let api: Api<MutexRunConfig> = Api::namespaced(stage.person.clone(), NAMESPACE);
    api.delete(name, &kube::api::DeleteParams::default()).await?;
    gone(stage, &api, name).await
}

/// Waits until an object is gone.
pub async fn gone<K>(stage: &Stage, api: &Api<K>, name: &str) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let what = format!("{name} is gone");
    stage
        .until(&what, 120, || async {
            Ok(api.get_opt(name).await?.is_none().then_some(()))
        })
        .await
}

/// Deletes a pool but not its rendered configs, as a person must (`--cascade=orphan`): the garbage collector
/// would take the config that nodes of the pool run, and the MCO could change none of them any more.
pub async fn delete_pool(stage: &Stage, name: &str) -> Result<()> {
    let configs: Api<numo_world::openshift::MachineConfig> = Api::all(stage.person.clone());
    let orphan = kube::api::Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    for config in configs.list_metadata(&ListParams::default()).await?.items {
        let config = config.metadata.name.unwrap_or_default();
        if config.starts_with(&format!("rendered-{name}-")) {
            configs
                .patch(&config, &kube::api::PatchParams::default(), &orphan)
                .await?;
        }
    }
    let pools: Api<numo_world::openshift::MachineConfigPool> = Api::all(stage.person.clone());
    pools.delete(name, &kube::api::DeleteParams::default()).await?;
    gone(stage, &pools, name).await
}
