//! numo's own check, workloads-ready: reads which controllers have pods on a node, and how ready they are, with numo's
//! own rights. It judges nothing.

use super::{
    invalidate::Mark,
    reader::RuleReader,
    state::{Inner, PATIENCE, unavailable},
};
use crate::{
    runners::{
        wasm::Fault,
        workloads::{self, State, Workload},
    },
    shell::{item::Item, kind::Kind, project, watch},
};
use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    Api,
    api::{ApiResource, ListParams, ObjectMeta},
    core::{GroupVersionKind, Selector},
};
use numo_api::{AwaitedWorkloads, Phase};
use numo_core::{action::EvaluationRequest, observed::RuleAnswer};
use serde::Deserialize;
use std::collections::BTreeSet;

/// Reads at once.
const TOGETHER: usize = 8;
/// Pods of one page of a list.
const PAGE: u32 = 50;

/// A pod, as far as it says whether its workload is awaited.
#[derive(Clone, Debug, Deserialize)]
struct BriefPod {
    #[serde(deserialize_with = "project::slim_meta")]
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

/// A workload, as far as it says whose it is and how ready: whoever owns it may write the rest as deep as the API server takes it.
#[derive(Clone, Debug, Deserialize)]
struct BriefWorkload {
    #[serde(deserialize_with = "project::slim_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: BriefScale,
    #[serde(default)]
    status: BriefReady,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct BriefScale {
    replicas: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BriefReady {
    observed_generation: Option<i64>,
    ready_replicas: Option<i64>,
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
                // While one of those is not ready that were not ready last time, no other needs to be read.
                let mut found = self.states(workloads::unready_before(request), true).await?;
                let mut said = workloads::compare(request, &readable(&found));
                if !matches!(said.0, RuleAnswer::Wait(..)) {
                    found = self.states(workloads::remembered(request), true).await?;
                    said = workloads::compare(request, &readable(&found));
                }
                // Nobody knows whether one that cannot be read is ready; the others are compared all the same.
                if !matches!(said.0, RuleAnswer::Wait(..))
                    && let Some((workload, ..)) = found.iter().find(|one| one.1.is_none())
                {
                    return Err(unavailable(format!("{workload} cannot be read")));
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
            // One that cannot be read is not awaited: whoever wrote it so keeps no node.
            Ok(workloads::remember(&readable(&found)))
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
        let namespaces = watch::items(&self.connection.read, Kind::Namespace, "");
        let params = ListParams::default().labels_from(&selector_of(selector)?);
        let found = namespaces.list(&params).await;
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
        let found = found.as_ref().and_then(Item::part::<BriefWorkload>);
        let owner = found.and_then(|set| owner(&set.metadata, "Deployment"));
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
                    if state.is_none() {
                        tracing::warn!(%workload, "a workload cannot be read, and is passed over");
                    }
                    (workload, state, found.metadata.resource_version)
                }))
            })
            .buffered(TOGETHER)
            .collect()
            .await;
        found.into_iter().filter_map(Result::transpose).collect()
    }

    async fn read(&self, workload: &Workload) -> Result<Option<Item>, Fault> {
        let resource = resource(&workload.kind);
        let api: Api<Item> =
            Api::namespaced_with(self.connection.read.clone(), &workload.namespace, &resource);
        let found = api.get_opt(&workload.name).await;
        found.map_err(|error| unavailable(format!("{workload} cannot be read: {error}")))
    }
}

/// A workload, how it is, and at which version; of one that cannot be read it is not known how it is.
type Found = (Workload, Option<State>, Option<String>);

/// How those are that can be read.
fn readable(found: &[Found]) -> Vec<(Workload, State)> {
    let states = found
        .iter()
        .filter_map(|(workload, state, _)| Some((workload.clone(), (*state)?)));
    states.collect()
}

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

fn state(found: &Item, settled: bool) -> Option<State> {
    let BriefWorkload { spec, status, .. } = found.part()?;
    let seen = status.observed_generation >= found.metadata.generation;
    Some(State {
        wanted: spec.replicas.unwrap_or(1),
        ready: status.ready_replicas.filter(|_| seen || !settled).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(text: &str) -> Item {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_workload_is_read_however_deep_its_managed_fields_are() {
        let fields = format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300));
        let set = |observed: i64| {
            item(&format!(
                r#"{{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {{
                    "name": "web-1", "namespace": "shop", "generation": 3, "resourceVersion": "7",
                    "ownerReferences": [{{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true}}],
                    "managedFields": [{{"manager": "them", "fieldsType": "FieldsV1", "fieldsV1": {fields}}}]}},
                 "spec": {{"replicas": 2, "template": {fields}}},
                 "status": {{"observedGeneration": {observed}, "replicas": 2, "readyReplicas": 2}}}}"#
            ))
        };
        let is = |ready| Some(State { wanted: 2, ready });
        assert_eq!(state(&set(3), true), is(2));
        assert_eq!(state(&set(2), true), is(0), "its controller has not seen it");
        assert_eq!(state(&set(2), false), is(2));
        let brief: BriefWorkload = set(3).part().unwrap();
        assert_eq!(owner(&brief.metadata, "Deployment").as_deref(), Some("web"));
        // What is not said is as the API has it.
        let bare = item(r#"{"metadata": {"name": "web", "namespace": "shop"}}"#);
        assert_eq!(state(&bare, true), Some(State { wanted: 1, ready: 0 }));
    }

    #[test]
    fn a_workload_that_cannot_be_read_is_passed_over() {
        let odd = item(r#"{"metadata": {"name": "odd", "namespace": "shop"}, "spec": {"replicas": {}}}"#);
        assert_eq!(state(&odd, true), None);
        let of = |name: &str| Workload {
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        };
        let good = State { wanted: 1, ready: 1 };
        let found = [(of("odd"), None, None), (of("web"), Some(good), None)];
        assert_eq!(readable(&found), [(of("web"), good)]);
    }
}
