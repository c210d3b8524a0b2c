//! Bad input ends in a condition, an event and a message that names object, field, found and wanted;
//! nothing paused, labelled or leased is left behind.

use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::api::{batch::v1::Job, coordination::v1::Lease, core::v1::Namespace};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use numo_api::{
    Condition, MutexRule, MutexRunConfig, MutexTarget, MutexWindow, NodeChange, conditions::types, marks,
};
use numo_cluster::AuditEvent;
use numo_e2e::{NAMESPACE, Stage};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{NEW, apply, gone, job, object, quick, rule, run_of, set_with_slips, target};

const LONG: &str = "a-rule-whose-name-is-long-enough-to-be-too-long-for-a-label";

/// A run, the reason it ends in, and words its message must have.
type Case = (&'static str, Value, &'static str, &'static [&'static str]);

fn cases() -> Vec<Case> {
    let canary = |name: &str| json!({"name": name});
    let targets = |name: &str| json!([{"name": name}]);
    vec![
        (
            "no-rule",
            json!({"mutexRules": [{"name": "quick"}, {"name": "nowhere"}]}),
            "RuleNotFound",
            &["spec.mutexRules[1]", "MutexRule", "nowhere"],
        ),
        (
            "no-target",
            json!({"mutexTargets": targets("nowhere")}),
            "TargetNotFound",
            &["spec.mutexTargets[0]", "MutexTarget", "nowhere"],
        ),
        (
            "no-targets",
            json!({"mutexTargets": []}),
            "TargetNotFound",
            &["spec.mutexTargets"],
        ),
        (
            "hollow-target",
            json!({"mutexTargets": targets("hollow")}),
            "TargetNotFound",
            &["hollow", "spec.machineConfigPools"],
        ),
        (
            "no-pool",
            json!({"mutexTargets": targets("lost")}),
            "PoolNotFound",
            &["MutexTarget", "lost", "spec.machineConfigPools", "nowhere"],
        ),
        (
            "no-canary",
            json!({"canary": canary("nowhere")}),
            "CanaryNotFound",
            &["spec.canary.name", "nowhere"],
        ),
        (
            "empty-canary",
            json!({"canary": {}}),
            "CanaryNotFound",
            &["spec.canary.name"],
        ),
        (
            "canary-is-target",
            json!({"canary": canary("infra"), "mutexTargets": targets("infras")}),
            "CanaryIsTarget",
            &["spec.canary.name", "infra"],
        ),
        (
            "canary-is-worker",
            json!({"canary": canary("worker"), "mutexTargets": targets("infras")}),
            "CanaryIsTarget",
            &["spec.canary.name", "worker"],
        ),
        (
            "canary-paused",
            json!({"canary": canary("canary-paused")}),
            "CanaryPaused",
            &["spec.canary.name", "canary-paused", "is paused"],
        ),
        (
            "canary-full",
            json!({"canary": canary("full")}),
            "CanaryPopulated",
            &["spec.canary.name", "full-0"],
        ),
        (
            "canary-other",
            json!({"canary": canary("other")}),
            "CanaryContentDiffers",
            &["spec.canary.name", "other", "rendered-other-"],
        ),
        (
            "master",
            json!({"mutexTargets": targets("masters")}),
            "ControlPlanePool",
            &["MutexTarget", "masters", "master"],
        ),
        (
            "mixed",
            json!({"mutexTargets": targets("mixed")}),
            "SelectorMatchesControlPlane",
            &["MachineConfigPool mixed", "spec.nodeSelector", "master-0"],
        ),
        (
            "layered",
            json!({"mutexTargets": targets("layered")}),
            "LayeredPool",
            &["layered-0", "MachineOSConfig"],
        ),
        (
            "layered-soon",
            json!({"mutexTargets": targets("building")}),
            "LayeredPool",
            &["MachineOSConfig building", "MachineConfigPool building"],
        ),
        (
            "long-label",
            json!({"canary": canary("canary"), "mutexRules": [{"name": LONG}]}),
            "LabelTooLong",
            &["spec.mutexRules[0]", LONG, "63"],
        ),
        (
            "bad-rule",
            json!({"mutexRules": [{"name": "no-containers"}]}),
            "RuleInvalid",
            &["spec.mutexRules[0]", "no-containers", "containers"],
        ),
        (
            "bad-limit",
            json!({"maxUnavailable": "lots"}),
            "InvalidField",
            &["spec.maxUnavailable", "lots", "25%"],
        ),
        (
            "always",
            json!({"hold": "Always"}),
            "InvalidField",
            &["spec.hold", "Always", "spec.trigger: AnyConfig"],
        ),
    ]
}

/// When and in what order: what an older definition has let in, or no definition can judge.
fn cases_of_hours() -> Vec<Case> {
    let backwards = json!([{"name": "audit", "from": "2026-12-20T00:00:00Z", "to": "2026-12-19T00:00:00Z"}]);
    vec![
        (
            "bad-zone",
            json!({"window": {"timeZone": "Mars/Base", "openings": [{"days": ["mon"]}]}}),
            "InvalidField",
            &["spec.window.timeZone", "Mars/Base", "Europe/Warsaw"],
        ),
        (
            "bad-freeze",
            json!({"window": {"freezes": backwards}}),
            "InvalidField",
            &["spec.window.freezes[0].to", "2026-12-19", "after from"],
        ),
        (
            "bad-wave",
            json!({"waves": [{"nodes": "101%"}]}),
            "InvalidField",
            &["spec.waves[0].nodes", "101%"],
        ),
        (
            "bad-wave-limit",
            json!({"waves": [{"nodes": 1, "maxUnavailable": "101%"}]}),
            "InvalidField",
            &["spec.waves[0].maxUnavailable", "101%"],
        ),
        (
            "bad-domain",
            json!({"domains": {"key": ""}}),
            "InvalidField",
            &["spec.domains.key"],
        ),
    ]
}

/// Rules that the API server admits and that no Job can be made of: name, spec, words of the message.
fn bad_rules() -> Vec<(&'static str, Value, &'static [&'static str])> {
    let pod = |spec: Value| json!({"template": {"spec": spec}});
    let container = json!([{"name": "x", "image": "y"}]);
    vec![
        (
            "no-job",
            json!({"jobNamespace": NAMESPACE}),
            &["spec.jobSpec", "nothing", "JobSpec"],
        ),
        (
            "no-template",
            json!({"jobSpec": {}}),
            &["spec.jobSpec.template", "wanted"],
        ),
        (
            "text-template",
            json!({"jobSpec": {"template": "sleep"}}),
            &["spec.jobSpec.template", "sleep", "wanted"],
        ),
        (
            "no-containers",
            json!({"jobSpec": pod(json!({"restartPolicy": "Never", "containers": []}))}),
            &["spec.jobSpec", "containers"],
        ),
        (
            "always-restarts",
            json!({"jobSpec": pod(json!({"restartPolicy": "Always", "containers": container}))}),
            &["spec.jobSpec", "restartPolicy"],
        ),
        (
            "text-containers",
            json!({"jobSpec": pod(json!({"restartPolicy": "Never", "containers": "sleep"}))}),
            &["spec.jobSpec", "containers"],
        ),
        (
            "bad-clean-up",
            json!({"jobSpec": job("true"), "cleanUpJobSpec": {"template": 3}}),
            &["spec.cleanUpJobSpec.template", "3", "wanted"],
        ),
        (
            "bad-name",
            json!({"jobName": "No Name", "jobSpec": job("true")}),
            &["No Name"],
        ),
        (
            "no-namespace",
            json!({"jobNamespace": "nowhere", "jobSpec": job("true")}),
            &["spec.jobNamespace", "found no namespace nowhere"],
        ),
        (
            "odd-phase",
            json!({"phases": ["Admit"], "jobSpec": job("true")}),
            &["spec.phases", "Admit", "wanted"],
        ),
    ]
}

/// What numo may write for input that it refuses.
fn is_harmless(request: &AuditEvent) -> bool {
    let dry = request.uri.contains("dryRun=All");
    request.subresource == "status" && request.resource.starts_with("mutex")
        || request.resource == "events"
        || (request.resource == "leases" && (request.name == "numo-leader" || request.name.is_empty()))
        || (request.resource == "jobs" && dry)
        || request.subresource == "eviction"
        // The mark of its gate, which is missed if it is dropped; `ends_in` sees that there is no finalizer.
        || (request.resource == "mutexrunconfigs" && request.verb == "patch" && request.subresource.is_empty())
}

async fn nothing_is_left(stage: &Stage) -> Result<()> {
    let requests = stage.requests()?;
    let writes: BTreeSet<String> = requests
        .iter()
        .filter(|request| request.is_write() && !is_harmless(request))
        .map(|request| format!("{} {}", request.verb, request.uri))
        .collect();
    assert!(writes.is_empty(), "written for bad input: {writes:?}");
    let state = stage.world.state();
    for (name, pool) in &state.pools {
        assert!(pool.marks.is_empty(), "pool {name} has marks {:?}", pool.marks);
    }
    for (name, node) in &state.nodes {
        assert!(node.marks.is_empty(), "node {name} has marks {:?}", node.marks);
    }
    let all = ListParams::default();
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), marks::LEASE_NAMESPACE);
    assert!(leases.list(&all).await?.items.is_empty());
    assert!(
        Api::<NodeChange>::all(stage.client.clone())
            .list(&all)
            .await?
            .items
            .is_empty()
    );
    assert!(
        Api::<Job>::all(stage.client.clone())
            .list(&all)
            .await?
            .items
            .is_empty()
    );
    Ok(())
}

async fn patch<K>(stage: &Stage, name: &str, patch: Value) -> Result<()>
where
    K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(stage.person.clone());
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Waits for the run's reason, and checks condition, event and message.
async fn ends_in(
    stage: &Stage,
    run: &str,
    reason: &str,
    words: &[&str],
    wrong: &mut Vec<String>,
) -> Result<()> {
    let message = match stage.condition(run, "Ready", "False", reason).await {
        Ok(message) => message,
        Err(error) => {
            let found = stage.run(run).await?;
            let ready = crate::condition(&found, "Ready").cloned();
            wrong.push(format!(
                "{run}: wanted {reason}, found {ready:?} ({})",
                first_line(&error)
            ));
            return Ok(());
        }
    };
    for word in words {
        if !message.contains(word) {
            wrong.push(format!("{run}: no {word} in: {message}"));
        }
    }
    let found = stage.run(run).await?;
    let stalled = crate::condition(&found, types::STALLED);
    if stalled.is_none_or(|stalled| stalled.reason.as_deref() != Some(reason)) {
        wrong.push(format!("{run}: is not Stalled for {reason}: {stalled:?}"));
    }
    if found.metadata.finalizers.is_some() {
        wrong.push(format!("{run}: has finalizers"));
    }
    match stage.event("MutexRunConfig", run, reason).await {
        Ok(event) if event.type_.as_deref() == Some("Warning") => {}
        other => wrong.push(format!(
            "{run}: event {reason}: {:?}",
            other.map(|event| event.type_)
        )),
    }
    Ok(())
}

/// A MutexWindow whose freeze ends before it begins, of no node of these.
async fn backwards_is_told(stage: &Stage, wrong: &mut Vec<String>) -> Result<()> {
    let window = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexWindow", "metadata": {"name": "backwards"},
        "spec": {
            "nodeSelector": {"matchLabels": {"example.com/nobody": "true"}},
            "freezes": [{"name": "audit", "from": "2026-12-20T00:00:00Z", "to": "2026-12-19T00:00:00Z"}],
        },
    });
    apply(stage, &[window]).await?;
    let event = stage.event("MutexWindow", "backwards", "InvalidConfig").await?;
    let note = event.note.unwrap_or_default();
    let api: Api<MutexWindow> = Api::all(stage.person.clone());
    let status = api.get("backwards").await?.status.unwrap_or_default();
    let ready = find(&status.conditions, types::READY)
        .cloned()
        .unwrap_or_default();
    let message = ready.message.clone().unwrap_or_default();
    for words in [&note, &message] {
        if !words.contains("spec.freezes[0].to: found 2026-12-19") {
            wrong.push(format!("window backwards: {words}"));
        }
    }
    if ready.status != "False" || ready.reason.as_deref() != Some("InvalidField") {
        wrong.push(format!("window backwards: {ready:?}"));
    }
    Ok(())
}

fn first_line(error: &anyhow::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_ends_in_a_condition_and_an_event_and_leaves_nothing_behind() -> Result<()> {
    // Their owners hold these pools, so that the upgrade stays available while all is looked at.
    let paused = |name: &str, workers: usize| PoolSpec {
        paused: true,
        ..PoolSpec::new(name, workers)
    };
    let world = WorldSpec {
        pools: vec![
            paused("worker", 1),
            paused("infra", 1),
            paused("layered", 1),
            paused("building", 1),
            paused("full", 1),
            paused("mixed", 1),
            PoolSpec {
                own_config: true,
                ..PoolSpec::new("other", 0)
            },
        ],
        canary: true,
        ..WorldSpec::default()
    };
    let mut stage = set_with_slips(world, vec!["--run-namespaces", "leaving"]).await?;
    patch::<numo_world::openshift::MachineConfigPool>(&stage, "full", json!({"spec": {"paused": false}}))
        .await?;
    let image = "machineconfiguration.openshift.io/currentImage";
    let layered = json!({"metadata": {"annotations": {image: "quay.io/layered@sha256:1"}}});
    stage.patch_node("layered-0", layered).await?;
    let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/mixed": ""}}});
    stage.patch_node("master-0", label).await?;
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": "canary-paused"},
        "spec": {
            "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}},
            "nodeSelector": {"matchExpressions": [{"key": "isCanary", "operator": "Exists"}]},
            "paused": true,
        },
    });
    for name in ["stranger", "leaving"] {
        let namespaces: Api<Namespace> = Api::all(stage.client.clone());
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    apply(
        &stage,
        &[
            pool,
            quick(),
            rule(LONG, json!({"jobSpec": job("true")})),
            target("workers", &["worker"]),
            target("hollow", &[]),
            target("lost", &["nowhere"]),
            target("infras", &["infra"]),
            target("masters", &["master"]),
            target("mixed", &["mixed"]),
            target("layered", &["layered"]),
            target("building", &["building"]),
            json!({
                "apiVersion": "machineconfiguration.openshift.io/v1",
                "kind": "MachineOSConfig",
                "metadata": {"name": "building"},
                "spec": {"machineConfigPool": {"name": "building"}},
            }),
        ],
    )
    .await?;
    for (name, spec, _) in bad_rules() {
        apply(&stage, &[object("MutexRule", name, spec)]).await?;
    }
    stage.world.remember().await?;
    let base = |name: &str, spec: &Value| {
        let mut run = run_of(&["quick"], json!({"adoptPaused": true, "onRefusal": "Roll"}));
        run["metadata"]["name"] = json!(name);
        for (field, value) in spec.as_object().unwrap() {
            run["spec"][field] = value.clone();
        }
        run
    };
    for (name, spec, ..) in cases().into_iter().chain(cases_of_hours()) {
        apply(&stage, &[base(name, &spec)]).await?;
    }
    let mut foreign = base("foreign", &json!({}));
    foreign["metadata"]["namespace"] = json!("stranger");
    let mut leaving = base("leaving", &json!({}));
    leaving["metadata"]["namespace"] = json!("leaving");
    leaving["metadata"]["finalizers"] = json!(["someone.example/else"]);
    leaving["spec"]["mutexTargets"] = json!([{"name": "nowhere"}]);
    apply(&stage, &[foreign, leaving]).await?;
    stage.world.upgrade_to(NEW).await?;
    crate::seen(&stage, "the control plane is done", |w| w.is_completed(NEW)).await?;

    let mut wrong = Vec::new();
    for (name, _, reason, words) in cases().into_iter().chain(cases_of_hours()) {
        ends_in(&stage, name, reason, words, &mut wrong).await?;
    }
    backwards_is_told(&stage, &mut wrong).await?;
    // In a namespace that is not watched.
    let strangers: Api<MutexRunConfig> = Api::namespaced(stage.client.clone(), "stranger");
    let run = strangers.get("foreign").await?;
    let ready = crate::condition(&run, "Ready").cloned().unwrap_or_default();
    let message = ready.message.clone().unwrap_or_default();
    let named = [
        "stranger/foreign",
        "found namespace stranger",
        NAMESPACE,
        "--run-namespaces",
    ];
    if ready.reason.as_deref() != Some("NamespaceNotAllowed")
        || !named.iter().all(|word| message.contains(word))
    {
        wrong.push(format!("foreign: {ready:?}"));
    }
    stage
        .event("MutexRunConfig", "foreign", "NamespaceNotAllowed")
        .await?;

    // In a namespace that is being deleted. No event can be created there any more.
    let namespaces: Api<Namespace> = Api::all(stage.person.clone());
    namespaces.delete("leaving", &DeleteParams::default()).await?;
    let api: Api<MutexRunConfig> = Api::namespaced(stage.client.clone(), "leaving");
    let said = stage
        .until(
            "the run in a namespace that is being deleted says so",
            60,
            || async {
                let run = api.get("leaving").await?;
                let ready = crate::condition(&run, "Ready").cloned().unwrap_or_default();
                let reason = ready.reason.clone().unwrap_or_default();
                Ok(["Deleting", "NamespaceTerminating"]
                    .contains(&reason.as_str())
                    .then_some(ready))
            },
        )
        .await?;
    if !said.message.clone().unwrap_or_default().contains("leaving") {
        wrong.push(format!("leaving: {said:?}"));
    }
    let release = json!({"metadata": {"finalizers": null}});
    api.patch("leaving", &PatchParams::default(), &Patch::Merge(release))
        .await?;
    gone(&stage, &namespaces, "leaving").await?;

    // The rules and targets themselves.
    for (name, _, words) in bad_rules() {
        let found = stage
            .api::<MutexRule>()
            .get(name)
            .await?
            .status
            .unwrap_or_default();
        let valid = find(&found.conditions, types::VALID_CONFIG)
            .cloned()
            .unwrap_or_default();
        let message = valid.message.clone().unwrap_or_default();
        if valid.status != "False" || valid.reason.as_deref() != Some("InvalidConfig") {
            wrong.push(format!("rule {name}: {valid:?}"));
        }
        for word in words {
            if !message.contains(word) {
                wrong.push(format!("rule {name}: no {word} in: {message}"));
            }
        }
        if find(&found.conditions, types::STALLED).is_none() {
            wrong.push(format!("rule {name} is not Stalled"));
        }
        if stage.event("MutexRule", name, "InvalidConfig").await.is_err() {
            wrong.push(format!("rule {name} has no event"));
        }
    }
    let found = stage
        .api::<MutexTarget>()
        .get("lost")
        .await?
        .status
        .unwrap_or_default();
    for type_ in [types::VALID_CONFIG, types::NODE_LIST_GATHERED] {
        let condition = find(&found.conditions, type_).cloned().unwrap_or_default();
        let message = condition.message.clone().unwrap_or_default();
        if condition.status != "False"
            || condition.reason.as_deref() != Some("MachineConfigPoolFetchFailed")
            || !message.contains("nowhere")
        {
            wrong.push(format!("target lost {type_}: {condition:?}"));
        }
    }
    assert_eq!(found.nodes.as_deref(), Some(&[][..]));
    stage.event("MutexTarget", "lost", "InvalidConfig").await?;

    // No version at all. The cluster-version operator takes what it is given.
    stage.world.upgrade_to("latest").await?;
    apply(&stage, &[base("good", &json!({}))]).await?;
    let message = stage
        .condition("good", "UpgradeChecked", "False", "CheckFailed")
        .await?;
    for word in ["ClusterVersion", "latest", "wanted"] {
        if !message.contains(word) {
            wrong.push(format!("version: no {word} in: {message}"));
        }
    }
    ends_in(
        &stage,
        "good",
        "InvalidVersion",
        &["ClusterVersion", "latest"],
        &mut wrong,
    )
    .await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    nothing_is_left(&stage).await?;
    stage.may_lack_rights = true;
    stage.strike().await
}
