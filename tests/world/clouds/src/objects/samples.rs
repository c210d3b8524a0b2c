//! Objects that tests begin with.

use numo_provider_sdk::serde_json::{Value, json};

/// Name of the Cluster.
pub const CLUSTER: &str = "prod";
/// Where its objects are.
pub const NAMESPACE: &str = "capi";

/// A ConfigMap of the provider `sim`.
pub fn map(name: &str, part: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": {"numo.openshift-optional.skrzypek.io/sim": part},
        },
        "data": data,
    })
}

fn template(name: &str, version: &str) -> Value {
    let mut reference = json!({"kind": "DockerMachineTemplate", "name": name});
    if version == "v1beta2" {
        super::set(
            &mut reference,
            &["apiGroup"],
            json!("infrastructure.cluster.x-k8s.io"),
        );
    } else {
        super::set(
            &mut reference,
            &["apiVersion"],
            json!("infrastructure.cluster.x-k8s.io/v1beta1"),
        );
    }
    json!({"spec": {"clusterName": CLUSTER, "version": "v1.34.0", "infrastructureRef": reference}})
}

/// A MachineDeployment of a template, in a version of the API, with its strategy.
pub fn deployment(name: &str, replicas: i64, (image, version, strategy): (&str, &str, &str)) -> Value {
    let mut object = json!({
        "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "MachineDeployment",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER, "constellation-uid": "u1"},
        },
        "spec": {"clusterName": CLUSTER, "replicas": replicas, "template": template(image, version)},
    });
    let strategy = json!({"type": strategy});
    if version == "v1beta2" {
        super::set(&mut object, &["spec", "rollout", "strategy"], strategy);
    } else {
        super::set(&mut object, &["spec", "strategy"], strategy);
    }
    object
}

/// A MachinePool, and its infrastructure of a kind of machines; empty: without Machines.
pub fn pool(name: &str, replicas: i64, kind: &str) -> [Value; 2] {
    let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
    [
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachinePool",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "spec": {"clusterName": CLUSTER, "replicas": replicas, "template": {"spec": {"clusterName": CLUSTER,
                "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "DockerMachinePool", "name": name}}}},
        }),
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerMachinePool",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "status": {"infrastructureMachineKind": kind},
        }),
    ]
}
