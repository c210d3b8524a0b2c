//! Cluster API: machines are objects of the cluster, which the host reads and writes. What is asked of it is compared call by call.

use crate::{
    denied,
    replacement::{Plan, Talk, ask_natively, replace},
    sandbox::{Sandbox, load},
};
use async_trait::async_trait;
use numo_clouds::objects::{CLUSTER, Cluster, NAMESPACE, deployment, text};
use numo_plugin::{
    ObjectRef,
    provider::{Ask, Failed, FailureCode, MachineProvider, Writer},
    services::{ErrorCode, HostError, ListQuery, Object, ObjectPage, Reader},
};
use numo_provider_sdk::{
    self as sdk,
    host::{Freshness, Kubernetes as _, Objects as _, Projection},
};
use provider_cluster_api::ClusterApi;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::OnceCell;

const GROUP: &str = "machinedeployment/capi/workers";
const REQUEST: &str = "numo-0123456789abcdefghij";

async fn provider() -> &'static MachineProvider {
    static LOADED: OnceCell<MachineProvider> = OnceCell::const_new();
    LOADED.get_or_init(|| load("provider-cluster-api")).await
}

/// The objects as the operator lends them: whole, of which the host gives the component what it has asked for.
struct Lender(Cluster);

fn reference(object: &ObjectRef) -> sdk::ObjectRef {
    sdk::ObjectRef {
        api_version: object.api_version.clone(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

fn whole() -> Projection {
    Projection {
        fields: Vec::new(),
        freshness: Freshness::Live,
    }
}

fn refused(error: sdk::Error) -> HostError {
    let code = match error.code {
        sdk::ErrorCode::Denied | sdk::ErrorCode::Forbidden => ErrorCode::Forbidden,
        sdk::ErrorCode::Invalid => ErrorCode::Invalid,
        sdk::ErrorCode::Unsupported => ErrorCode::Unsupported,
        sdk::ErrorCode::Expired => ErrorCode::Expired,
        sdk::ErrorCode::TooLarge => ErrorCode::TooLarge,
        sdk::ErrorCode::OverBudget => ErrorCode::OverBudget,
        sdk::ErrorCode::Unavailable => ErrorCode::Unavailable,
        sdk::ErrorCode::Other => ErrorCode::Other,
    };
    let mut refused = HostError::new(code, error.message);
    refused.details = error.details;
    refused
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

fn object(json: &str) -> Object {
    Object::from(&value(json))
}

#[async_trait]
impl Reader for Lender {
    async fn get(&self, asked: &ObjectRef, _: bool) -> Result<Option<Object>, HostError> {
        let found = self.0.get_object(&reference(asked), &whole());
        Ok(found.map_err(refused)?.as_deref().map(object))
    }

    async fn list(&self, query: &ListQuery) -> Result<ObjectPage, HostError> {
        let query = sdk::host::ListQuery {
            api_version: query.api_version.clone(),
            kind: query.kind.clone(),
            namespace: query.namespace.clone(),
            label_selector: query.label_selector.clone(),
            field_selector: query.field_selector.clone(),
            projection: whole(),
            limit: query.limit,
            continue_token: query.continue_token.clone(),
        };
        let page = self.0.list_objects(&query).map_err(refused)?;
        Ok(ObjectPage {
            items: page.items.iter().map(|item| object(item)).collect(),
            continue_token: page.continue_token,
        })
    }
}

#[async_trait]
impl Writer for Lender {
    async fn create(&self, _: &ObjectRef, body: &Value) -> Result<Value, HostError> {
        let made = self.0.create_object(&body.to_string());
        Ok(value(&made.map_err(refused)?))
    }

    async fn patch(&self, object: &ObjectRef, patch: &Value) -> Result<Value, HostError> {
        let patched = self.0.patch_object(&reference(object), &patch.to_string());
        Ok(value(&patched.map_err(refused)?))
    }

    async fn delete(&self, object: &ObjectRef, uid: &str) -> Result<(), HostError> {
        self.0.delete_object(&reference(object), uid).map_err(refused)
    }
}

/// Two workers that run, the template of another image, and controllers that act after every call.
fn cluster() -> Cluster {
    let cluster = Cluster::new();
    for name in ["image-1", "image-2"] {
        cluster.state().put(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerMachineTemplate",
            "metadata": {"name": name, "namespace": NAMESPACE},
        }));
    }
    let workers = deployment("workers", 2, ("image-1", "v1beta1", "OnDelete"));
    cluster.state().put(workers);
    cluster.steps(6);
    cluster.state().forget_calls();
    cluster.state().eager = true;
    cluster
}

fn plan(cluster: &Cluster) -> Plan {
    let machines = cluster.state().all("Machine");
    Plan {
        uid: "u1",
        group: GROUP.to_owned(),
        image: "image-2".to_owned(),
        old: text(&machines[0], "/spec/providerID").to_owned(),
        request: REQUEST,
    }
}

fn config() -> Value {
    json!({"clusterName": CLUSTER, "namespace": NAMESPACE})
}

/// Those of the example, `examples/machines/cluster-api/provider.yaml`.
fn grants() -> Value {
    let api = |kind: &str, write: &[&str]| json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind, "namespaces": [NAMESPACE], "write": write});
    let infrastructure = |kind: &str| json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind, "namespaces": [NAMESPACE]});
    json!({"kubernetes": [
        api("MachineDeployment", &["patch"]),
        api("MachineSet", &["patch"]),
        api("Machine", &["patch", "delete"]),
        infrastructure("DockerMachineTemplate"),
        infrastructure("DockerMachine"),
    ]})
}

async fn sandboxed(cluster: &Cluster, grants: &Value) -> Talk {
    let lender = Arc::new(Lender(cluster.clone()));
    Talk::sandboxed(Sandbox::among(provider().await, &config(), grants, lender))
}

#[tokio::test]
async fn a_node_is_replaced_as_natively() {
    let (native, real) = (cluster(), cluster());
    let mut natively = Talk::among(ask_natively::<ClusterApi>, native.clone(), &config());
    let made = replace(&mut natively, &plan(&native)).await;
    let mut talk = sandboxed(&real, &grants()).await;
    assert_eq!(replace(&mut talk, &plan(&real)).await, made);
    assert_eq!(talk.said, natively.said, "answer by answer");
    assert_eq!(real.state().calls, native.state().calls, "call by call");
    assert_eq!(real.state().names("Machine").len(), 2, "nothing is left over");
}

#[tokio::test]
async fn nothing_is_written_without_a_grant() {
    let cluster = cluster();
    let plan = plan(&cluster);
    let delete = Ask::Delete {
        provider_id: plan.old.clone(),
    };
    let read_only = grants().to_string().replace("\"patch\"", "");
    let read_only = value(&read_only.replace("[,\"delete\"]", "[\"delete\"]"));
    for (grants, wanted) in [
        (json!({}), "list of Machine in capi: no grant covers"),
        (read_only, "no grant of the provider covers patch of"),
    ] {
        let mut talk = sandboxed(&cluster, &grants).await;
        let failed = talk.ask(delete.clone()).await.unwrap_err();
        let words = denied(&failed);
        assert!(words.contains(wanted), "{grants}: {words}");
    }
    assert_eq!(cluster.state().count("patch"), 0);
    assert_eq!(cluster.state().names("Machine").len(), 2);
}

#[tokio::test]
async fn what_the_api_server_refuses_is_denied_with_the_object() {
    let cluster = cluster();
    let plan = plan(&cluster);
    cluster.state().denied.insert("patch Machine".to_owned());
    let mut talk = sandboxed(&cluster, &grants()).await;
    let delete = Ask::Delete {
        provider_id: plan.old.clone(),
    };
    let failed = talk.ask(delete).await.unwrap_err();
    let words = denied(&failed);
    assert!(words.contains("Machine capi/workers-"), "{words}");
    assert_eq!(cluster.state().names("Machine").len(), 2);
}

/// A definition that went, or another version of it, is no end of the machines.
#[tokio::test]
async fn a_machine_of_a_kind_that_is_not_served_is_not_gone() {
    let cluster = cluster();
    let plan = plan(&cluster);
    cluster.state().unserved.insert("Machine".to_owned());
    let mut talk = sandboxed(&cluster, &grants()).await;
    for ask in [
        Ask::State {
            provider_id: plan.old.clone(),
        },
        Ask::Delete {
            provider_id: plan.old.clone(),
        },
        Ask::Find {
            group_id: plan.group.clone(),
            request_id: REQUEST.to_owned(),
        },
    ] {
        let failed = talk.ask(ask.clone()).await.unwrap_err();
        let Failed::Said(failure) = failed else {
            panic!("{ask:?}: {failed}")
        };
        assert_eq!(failure.code, FailureCode::Unavailable, "{ask:?}: {failure:?}");
        assert!(
            failure.message.contains("does not serve Machine"),
            "{ask:?}: {failure:?}"
        );
    }
}
