//! Pods and their processes.

use anyhow::Result;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::wait::conditions::is_pod_running;
use kube::{Api, Client, ResourceExt};
use numo_cluster::User;
use numo_world::World;
use serde_json::{Value, json};

use super::{NEW, SOON, happened, start, stop, workers};

pub(crate) async fn run_job(client: &Client, name: &str, spec: Value) -> Result<()> {
    let jobs: Api<Job> = Api::namespaced(client.clone(), "default");
    let job = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": {
        "backoffLimit": 0,
        "template": { "spec": spec },
    }}))?;
    jobs.create(&PostParams::default(), &job).await?;
    Ok(())
}

pub(crate) async fn pod_of(client: &Client, job: &str) -> Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let found = pods
        .list(&ListParams::default().labels(&format!("job-name={job}")))
        .await?;
    Ok(found.items.into_iter().next().unwrap())
}

pub(crate) fn finished(world: &World, name: &str) -> bool {
    world
        .state()
        .jobs
        .get(&format!("default/{name}"))
        .is_some_and(|j| j.complete || j.failed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_real_exit_code_and_log_are_seen() -> Result<()> {
    let (cluster, world) = start(workers(2)).await?;
    let client = cluster.client(User::Person).await?;
    let script = "id -u; echo to $(TARGET); seq 3; echo because >/dev/termination-log; exit 7";
    run_job(
        &client,
        "fails",
        json!({
            "restartPolicy": "Never",
            "containers": [{
                "name": "c", "image": "any", "command": ["sh", "-c", script],
                "env": [{ "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
                        { "name": "TARGET", "value": "the $(NODE)" }],
            }],
        }),
    )
    .await?;
    run_job(
        &client,
        "passes",
        json!({
            "restartPolicy": "Never",
            "initContainers": [{ "name": "first", "image": "any", "command": ["true"] }],
            "containers": [{ "name": "c", "image": "any", "command": ["sh"], "args": ["-c", "echo hello"] }],
        }),
    )
    .await?;
    run_job(
        &client,
        "unknown-program",
        json!({
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "any", "command": ["no-such-program"] }],
        }),
    )
    .await?;
    run_job(
        &client,
        "no-image",
        json!({
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "does-not-exist/x:1", "command": ["true"] }],
        }),
    )
    .await?;
    world
        .until("jobs end", SOON, |w| {
            ["fails", "passes", "unknown-program"]
                .iter()
                .all(|j| finished(w, j))
        })
        .await?;

    let state = world.state();
    assert!(state.jobs["default/fails"].failed && state.jobs["default/passes"].complete);
    let pod = pod_of(&client, "fails").await?;
    let ended = terminated(&pod);
    assert_eq!((ended.exit_code, ended.reason.as_deref()), (7, Some("Error")));
    assert_eq!(ended.message.as_deref(), Some("because\n"));
    let node = pod.spec.clone().unwrap().node_name.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let log = pods.logs(&pod.name_any(), &LogParams::default()).await?;
    assert_eq!(log, format!("65534\nto the {node}\n1\n2\n3\n"));
    let tail = pods
        .logs(
            &pod.name_any(),
            &LogParams {
                tail_lines: Some(2),
                ..LogParams::default()
            },
        )
        .await?;
    assert_eq!(tail, "2\n3\n");
    let unknown = terminated(&pod_of(&client, "unknown-program").await?);
    assert_eq!(
        (unknown.exit_code, unknown.reason.as_deref()),
        (128, Some("StartError"))
    );
    let waiting = pod_of(&client, "no-image")
        .await?
        .status
        .unwrap()
        .container_statuses
        .unwrap();
    let reason = waiting[0].state.clone().unwrap().waiting.unwrap().reason.unwrap();
    assert!(reason.contains("ImagePull"), "{reason}");
    stop(cluster, world).await;
    Ok(())
}

pub(crate) fn terminated(pod: &Pod) -> ContainerStateTerminated {
    let statuses = pod.status.clone().unwrap().container_statuses.unwrap();
    statuses[0].state.clone().unwrap().terminated.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_is_asked_to_end_and_then_made_to() -> Result<()> {
    let (cluster, world) = start(workers(1)).await?;
    let client = cluster.client(User::Person).await?;
    let obeys = "trap 'exit 3' TERM; while :; do sleep 0.05; done";
    let refuses = "trap '' TERM; while :; do sleep 0.05; done";
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    for (name, script) in [("obeys", obeys), ("refuses", refuses)] {
        let pod = serde_json::from_value(json!({
            "metadata": { "name": name, "finalizers": ["test/seen"] },
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 100,
                "containers": [{ "name": "c", "image": "any", "command": ["sh", "-c", script] }],
            },
        }))?;
        pods.create(&PostParams::default(), &pod).await?;
    }
    for name in ["obeys", "refuses"] {
        let running = is_pod_running();
        tokio::time::timeout(SOON, await_condition(pods.clone(), name, running)).await??;
        pods.delete(name, &DeleteParams::default()).await?;
    }
    for (name, code) in [("obeys", 3), ("refuses", 137)] {
        let ended = |p: Option<&Pod>| {
            p.and_then(|p| p.status.as_ref()).and_then(|s| s.phase.as_deref()) == Some("Failed")
        };
        tokio::time::timeout(SOON, await_condition(pods.clone(), name, ended)).await??;
        assert_eq!(terminated(&pods.get(name).await?).exit_code, code, "{name}");
        let free = json!({ "metadata": { "finalizers": null } });
        pods.patch(name, &PatchParams::default(), &Patch::Merge(&free))
            .await?;
        let gone = |p: Option<&Pod>| p.is_none();
        tokio::time::timeout(SOON, await_condition(pods.clone(), name, gone)).await??;
    }
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_respects_a_budget_and_spares_daemons() -> Result<()> {
    let (cluster, world) = start(workers(1)).await?;
    let client = cluster.client(User::Person).await?;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), "default");
    let budget = serde_json::from_value(json!({
        "metadata": { "name": "guard" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } },
    }))?;
    budgets.create(&PostParams::default(), &budget).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let guarded = serde_json::from_value(json!({
        "metadata": { "name": "guarded", "labels": { "app": "guarded" } },
        "spec": { "containers": [{ "name": "c", "image": "any" }] },
    }))?;
    pods.create(&PostParams::default(), &guarded).await?;
    let daemons: Api<k8s_openapi::api::apps::v1::DaemonSet> = Api::namespaced(client.clone(), "default");
    let daemon = serde_json::from_value(json!({
        "metadata": { "name": "daemon" },
        "spec": {
            "selector": { "matchLabels": { "app": "daemon" } },
            "template": {
                "metadata": { "labels": { "app": "daemon" } },
                "spec": { "containers": [{ "name": "c", "image": "any" }] },
            },
        },
    }))?;
    daemons.create(&PostParams::default(), &daemon).await?;
    let running = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
    tokio::time::timeout(SOON, await_condition(pods.clone(), "guarded", is_pod_running())).await??;
    let of_daemon = ListParams::default().labels("app=daemon");
    let daemon_pod = loop {
        let found = pods.list(&of_daemon).await?.items;
        if let Some(pod) = found.into_iter().find(running) {
            break pod;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };

    world.upgrade_to(NEW).await?;
    let draining = |w: &World| happened(w, "worker-0", |e| *e == numo_world::Event::DrainStarted);
    world.until("the drain begins", SOON, draining).await?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert!(!happened(&world, "worker-0", |e| *e == numo_world::Event::Drained));
    assert!(running(&pods.get("guarded").await?));

    budgets.delete("guard", &DeleteParams::default()).await?;
    world
        .until("the worker is updated", SOON, |w| w.is_updated("worker", NEW))
        .await?;
    assert!(pods.get_opt("guarded").await?.is_none());
    let after = pods.get(&daemon_pod.name_any()).await?;
    assert_eq!(
        after.metadata.uid, daemon_pod.metadata.uid,
        "a drain leaves a DaemonSet's pod"
    );
    stop(cluster, world).await;
    Ok(())
}
