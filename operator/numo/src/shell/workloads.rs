//! numo's own check, workloads-ready: reads which controllers have pods on a node, and how ready they are, with numo's
//! own rights. It judges nothing.

use super::{
    asked::{Inner, PATIENCE, unavailable},
    reader::RuleReader,
    stir::Mark,
};
use crate::runners::{
    wasm::Fault,
    workloads::{self, State, Workload},
};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, ObjectMeta},
    core::{GroupVersionKind, PartialObjectMeta},
};
use numo_api::Phase;
use numo_core::{action::EvaluationRequest, observed::RuleAnswer};
use serde_json::Value;
use std::collections::BTreeSet;

/// Reads at once.
const TOGETHER: usize = 8;

impl Inner {
    /// Remembers before the release, compares after the change.
    pub(super) async fn ask_workloads(
        &self,
        request: &EvaluationRequest,
        reader: &RuleReader,
    ) -> Result<RuleAnswer, Fault> {
        reader.begin();
        let work = async {
            if request.phase == Phase::Post {
                let states = |found: &[Found]| -> Vec<(Workload, State)> {
                    found.iter().map(|one| (one.0.clone(), one.1)).collect()
                };
                // While one of those is not ready that were not ready last time, no other needs to be read.
                let mut found = self.states(workloads::unready_before(request), true).await?;
                let mut said = workloads::compare(request, &states(&found));
                if !matches!(said.0, RuleAnswer::Wait(..)) {
                    found = self.states(workloads::remembered(request), true).await?;
                    said = workloads::compare(request, &states(&found));
                }
                let (answer, unready) = said;
                note(reader, &unready, &found);
                return Ok(answer);
            }
            let wanted = self.on_node(&request.node).await?;
            let found = self.states(wanted, false).await?;
            let found: Vec<_> = found
                .into_iter()
                .map(|(workload, state, _)| (workload, state))
                .collect();
            Ok(workloads::remember(&found))
        };
        let read = tokio::time::timeout(PATIENCE, work).await;
        read.map_err(|_| {
            unavailable(format!(
                "the workloads of Node {} were not read in time",
                request.node
            ))
        })?
    }

    /// The controllers that have pods on a node; a ReplicaSet stands for its Deployment.
    async fn on_node(&self, node: &str) -> Result<Vec<Workload>, Fault> {
        let pods: Api<Pod> = Api::all(self.connection.read.clone());
        let running = "status.phase!=Succeeded,status.phase!=Failed";
        let params = ListParams::default().fields(&format!("spec.nodeName={node},{running}"));
        let found = pods
            .list_metadata(&params)
            .await
            .map_err(|error| unavailable(format!("the pods of Node {node} cannot be listed: {error}")))?;
        let controllers: BTreeSet<Workload> = found.items.iter().filter_map(controller).collect();
        let found: Vec<Result<Workload, Fault>> = stream::iter(controllers)
            .map(|workload| self.stands_for(workload))
            .buffered(TOGETHER)
            .collect()
            .await;
        let found: BTreeSet<Workload> = found.into_iter().collect::<Result<_, _>>()?;
        Ok(found.into_iter().collect())
    }

    async fn stands_for(&self, workload: Workload) -> Result<Workload, Fault> {
        if workload.kind != "ReplicaSet" {
            return Ok(workload);
        }
        let found = self.read(&workload).await?;
        let owner = found.as_ref().and_then(|set| owner(&set.metadata, "Deployment"));
        Ok(match owner {
            Some(name) => Workload {
                kind: "Deployment".to_owned(),
                name,
                ..workload
            },
            None => workload,
        })
    }

    /// How these are, and at which version, without those that are gone. `settled`: what its controller has not seen
    /// yet is not ready.
    async fn states(&self, wanted: Vec<Workload>, settled: bool) -> Result<Vec<Found>, Fault> {
        let found: Vec<Result<Option<Found>, Fault>> = stream::iter(wanted)
            .map(|workload| async move {
                let found = self.read(&workload).await?;
                Ok(found.map(|found| {
                    let state = state(&found, settled);
                    (workload, state, found.metadata.resource_version)
                }))
            })
            .buffered(TOGETHER)
            .collect()
            .await;
        found.into_iter().filter_map(Result::transpose).collect()
    }

    async fn read(&self, workload: &Workload) -> Result<Option<DynamicObject>, Fault> {
        let resource = resource(&workload.kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.connection.read.clone(), &workload.namespace, &resource);
        let found = api.get_opt(&workload.name).await;
        found.map_err(|error| unavailable(format!("{workload} cannot be read: {error}")))
    }
}

/// A workload, how it is, and at which version.
type Found = (Workload, State, Option<String>);

/// Has those watched that are waited for, but for ReplicaSets: numo may not watch them, of which there are too many.
fn note(reader: &RuleReader, unready: &[Workload], found: &[Found]) {
    let waited_for = found
        .iter()
        .filter(|(workload, ..)| workload.kind != "ReplicaSet" && unready.contains(workload));
    for (workload, _, version) in waited_for {
        let (resource, namespace) = (resource(&workload.kind), Some(workload.namespace.as_str()));
        reader.note(Mark::object(
            &resource,
            namespace,
            &workload.name,
            version.as_deref(),
        ));
    }
}

fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind))
}

/// The controller of a pod, if it is one that has replicas.
fn controller(pod: &PartialObjectMeta<Pod>) -> Option<Workload> {
    let namespace = pod.metadata.namespace.clone()?;
    let of = |kind: &str| {
        let name = owner(&pod.metadata, kind)?;
        Some(Workload {
            kind: kind.to_owned(),
            namespace: namespace.clone(),
            name,
        })
    };
    of("ReplicaSet").or_else(|| of("StatefulSet"))
}

/// The name of the controller of this kind of apps.
fn owner(meta: &ObjectMeta, kind: &str) -> Option<String> {
    let mut owners = meta.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let is_of_apps = owner.api_version.starts_with("apps/") && owner.kind == kind;
    is_of_apps.then(|| owner.name.clone())
}

fn state(found: &DynamicObject, settled: bool) -> State {
    let number = |pointer: &str| found.data.pointer(pointer).and_then(Value::as_i64);
    let seen = number("/status/observedGeneration") >= found.metadata.generation;
    State {
        wanted: number("/spec/replicas").unwrap_or(1),
        ready: number("/status/readyReplicas")
            .filter(|_| seen || !settled)
            .unwrap_or(0),
    }
}
