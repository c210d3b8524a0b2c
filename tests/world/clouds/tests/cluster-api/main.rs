//! The provider `cluster-api` against objects in memory and the controllers of Cluster API.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step of a test is its failure"
)]

mod crashes;
mod elsewhere;
mod faults;
mod late;
mod others;
mod pools;
mod replace;
mod seeds;

use numo_clouds::objects::{CLUSTER, Cluster, NAMESPACE, deployment, number, text};
use numo_provider_sdk::{
    CreatedNode, Creation, Failure, FailureCode, NodeState, Provider,
    fake::World,
    serde_json::{Value, json},
};
use provider_cluster_api::ClusterApi;

/// The group of most tests.
const GROUP: &str = "machinedeployment/capi/workers";
/// Keeps Cluster API from acting.
const PAUSED: &str = "/metadata/annotations/cluster.x-k8s.io~1paused";
/// The request of a Machine.
const REQUEST: &str = "/metadata/annotations/numo.openshift-optional.skrzypek.io~1machine-request";

fn template(name: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerMachineTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
    })
}

/// Three machines of the template image-1 that run, and the template image-2.
fn cluster_of(version: &str, strategy: &str) -> Cluster {
    let cluster = Cluster::new();
    cluster.state().put(template("image-1"));
    cluster.state().put(template("image-2"));
    let workers = deployment("workers", 3, ("image-1", version, strategy));
    cluster.state().put(workers);
    cluster.steps(6);
    cluster
}

fn cluster() -> Cluster {
    cluster_of("v1beta1", "OnDelete")
}

/// The same, and new machines get image-2.
fn outdated() -> Cluster {
    let cluster = cluster();
    cluster.state().change(
        "MachineDeployment",
        "workers",
        &["spec", "template", "spec", "infrastructureRef", "name"],
        json!("image-2"),
    );
    cluster.steps(2);
    cluster
}

/// The same; numo has written into the group before, or has not.
fn outdated_by(has_ledger: bool) -> Cluster {
    let cluster = outdated();
    if has_ledger {
        let ledger = ["metadata", "annotations", provider_cluster_api::LEDGER];
        let mut state = cluster.state();
        state.change("MachineDeployment", "workers", &ledger, json!("{}"));
    }
    cluster.step();
    cluster
}

fn world_with(cluster: &Cluster, config: &Value) -> World {
    World {
        objects: Some(Box::new(cluster.clone())),
        config_json: config.to_string(),
        ..World::default()
    }
}

fn config() -> Value {
    json!({"clusterName": CLUSTER, "namespace": NAMESPACE})
}

fn world(cluster: &Cluster) -> World {
    world_with(cluster, &config())
}

fn create(cluster: &Cluster, request: &str, token: Option<&str>) -> Result<Creation, Failure> {
    ClusterApi::create_node(&world(cluster), GROUP, request, token)
}

/// Asks until the machine is there, as numo does; controllers act between.
fn made(cluster: &Cluster, request: &str) -> CreatedNode {
    let mut token: Option<String> = None;
    for _ in 0..20 {
        match create(cluster, request, token.as_deref()).unwrap() {
            Creation::Created(made) => return made,
            Creation::Pending(pending) => {
                token = Some(pending.token).filter(|token| !token.is_empty());
            }
        }
        cluster.step();
    }
    panic!(
        "no machine after 20 steps: {:?}",
        cluster.state().names("Machine")
    );
}

/// Deletes until the machine goes, as numo does.
fn deleted(cluster: &Cluster, id: &str) {
    let world = world(cluster);
    for _ in 0..20 {
        match ClusterApi::node_state(&world, id).unwrap() {
            NodeState::Terminated => return,
            NodeState::Terminating => {}
            _ => match ClusterApi::delete_node(&world, id) {
                Err(failed) if failed.code != FailureCode::Unavailable => panic!("{failed:?}"),
                _ => {}
            },
        }
        cluster.step();
    }
    panic!("{id} is still there");
}

fn replicas(cluster: &Cluster) -> i64 {
    let state = cluster.state();
    number(
        state.get("MachineDeployment", "workers").unwrap(),
        "/spec/replicas",
    )
}

fn machines(cluster: &Cluster) -> Vec<String> {
    cluster.state().names("Machine")
}

fn id_of(cluster: &Cluster, machine: &str) -> String {
    let state = cluster.state();
    text(state.get("Machine", machine).unwrap(), "/spec/providerID").to_owned()
}

/// Machines that a request has.
fn claimed(cluster: &Cluster, request: &str) -> Vec<String> {
    let machines = cluster.state().all("Machine");
    let claimed = machines
        .iter()
        .filter(|machine| text(machine, REQUEST) == request);
    claimed
        .map(|machine| text(machine, "/metadata/name").to_owned())
        .collect()
}

fn is_paused(cluster: &Cluster) -> bool {
    let state = cluster.state();
    let workers = state.get("MachineDeployment", "workers").unwrap();
    workers.pointer(PAUSED).is_some()
}

/// Nothing of these has gone, and nobody has begun to delete one.
fn assert_untouched(cluster: &Cluster, machines: &[String], what: &str) {
    for machine in machines {
        let state = cluster.state();
        let found = state.get("Machine", machine);
        let found = found.unwrap_or_else(|| panic!("{what}: {machine} has gone"));
        assert_eq!(
            text(found, "/metadata/deletionTimestamp"),
            "",
            "{what}: {machine} goes"
        );
    }
}
