//! numo's own check, workloads-ready: reads which controllers have pods on a node, and how ready they are, with numo's
//! own rights. It judges nothing.

use super::{
    evaluator::{Inner, PATIENCE, unavailable},
    item::Item,
    kind::Kind,
    reader::RuleReader,
    stir::Mark,
    watch, wire,
};
use crate::runners::{
    wasm::Fault,
    workloads::{self, State, Workload},
};
use futures::{StreamExt as _, stream};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, ObjectMeta},
    core::{GroupVersionKind, Selector},
};
use numo_api::{AwaitedWorkloads, Phase};
use numo_core::{action::EvaluationRequest, observed::RuleAnswer};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Reads at once.
const TOGETHER: usize = 8;
/// Pods of one page of a list.
const PAGE: u32 = 50;

/// A pod, as far as it says whether its workload is awaited.
#[derive(Clone, Debug, Deserialize)]
struct BriefPod {
    #[serde(deserialize_with = "wire::slim_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: BriefSpec,
    status: Option<BriefStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct BriefSpec {
    priority: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct BriefStatus {
    #[serde(default)]
    conditions: Vec<BriefCondition>,
}

#[derive(Clone, Debug, Deserialize)]
struct BriefCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

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
            let awaited = self
                .awaited(request)
                .ok_or_else(|| unavailable(format!("{} is gone", request.owner)))?;
            let wanted = self.on_node(&request.node, &awaited).await?;
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

    /// The selected controllers that have ready pods on a node; a ReplicaSet stands for its Deployment.
    async fn on_node(&self, node: &str, awaited: &AwaitedWorkloads) -> Result<Vec<Workload>, Fault> {
        let namespaces = self.namespaces(awaited).await?;
        let mut controllers: BTreeSet<Workload> = BTreeSet::new();
        let pods = watch::items(&self.connection.read, Kind::NodePod, "");
        let mut params = ListParams::default()
            .fields(&format!("spec.nodeName={node},status.phase=Running"))
            .limit(PAGE);
        if let Some(selector) = &awaited.pod_selector {
            params = params.labels_from(&selector_of(selector)?);
        }
        loop {
            let page = pods.list(&params).await;
            let page = page
                .map_err(|error| unavailable(format!("the pods of Node {node} cannot be listed: {error}")))?;
            // Anybody who runs pods may write deep ones: each is read by itself.
            let read = page.items.iter().filter_map(Item::part::<BriefPod>);
            let chosen = read.filter(|pod| is_awaited(pod, awaited));
            controllers.extend(
                chosen
                    .filter_map(|pod| controller(&pod.metadata))
                    .filter(|workload| {
                        let mut among = namespaces.iter();
                        among.all(|namespaces| namespaces.contains(&workload.namespace))
                    }),
            );
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        let found: Vec<Result<Workload, Fault>> = stream::iter(controllers)
            .map(|workload| self.stands_for(workload))
            .buffered(TOGETHER)
            .collect()
            .await;
        let found: BTreeSet<Workload> = found.into_iter().collect::<Result<_, _>>()?;
        Ok(found.into_iter().collect())
    }

    /// The namespaces whose workloads are awaited; none stands for every namespace.
    async fn namespaces(&self, awaited: &AwaitedWorkloads) -> Result<Option<BTreeSet<String>>, Fault> {
        let Some(selector) = &awaited.namespace_selector else {
            return Ok(None);
        };
        let namespaces: Api<Namespace> = Api::all(self.connection.read.clone());
        let params = ListParams::default().labels_from(&selector_of(selector)?);
        let found = namespaces.list_metadata(&params).await;
        let found = found.map_err(|error| unavailable(format!("namespaces cannot be listed: {error}")))?;
        Ok(Some(
            found
                .items
                .into_iter()
                .filter_map(|one| one.metadata.name)
                .collect(),
        ))
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

/// Whether a pod is ready, and of a priority whose workloads are awaited. Labels and namespace are the API server's to
/// select.
fn is_awaited(pod: &BriefPod, awaited: &AwaitedWorkloads) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let ready = |condition: &BriefCondition| condition.kind == "Ready" && condition.status == "True";
    conditions.into_iter().any(ready)
        && awaited
            .min_priority
            .is_none_or(|least| pod.spec.priority.unwrap_or(0) >= least)
}

fn selector_of(selector: &LabelSelector) -> Result<Selector, Fault> {
    let parsed = Selector::try_from(selector.clone());
    parsed.map_err(|error| unavailable(format!("spec.awaitedWorkloads: {error}")))
}

/// The controller of a pod, if it is one that has replicas.
fn controller(pod: &ObjectMeta) -> Option<Workload> {
    let namespace = pod.namespace.clone()?;
    let of = |kind: &str| {
        let name = owner(pod, kind)?;
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
