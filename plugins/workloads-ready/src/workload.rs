//! Finds the workloads behind a node's pods, and reads how they are. It decides nothing.

use crate::Config;
use numo_rule_sdk::{
    ObjectRef, RuleError,
    host::{Freshness, Kubernetes},
    object::{
        self, Kind, POD_FIELDS, controller, is_finished, is_terminating, number, stays_in_a_drain, text,
    },
    serde_json::Value,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Up to so many objects of one namespace are read one by one, more by a list of the namespace.
const SINGLE_READS: usize = 2;
/// Up to so many namespaces are read one by one, more by one list of the cluster.
const NAMESPACE_READS: usize = 20;

const PODS: Kind = Kind {
    api_version: "v1",
    kind: "Pod",
    fields: &POD_FIELDS,
};

macro_rules! state_fields {
    ($($more:literal),*) => {
        &[
            "/metadata/generation",
            "/metadata/deletionTimestamp",
            "/spec/replicas",
            "/status/observedGeneration",
            "/status/readyReplicas",
            $($more),*
        ]
    };
}

const DEPLOYMENTS: Kind = Kind {
    api_version: "apps/v1",
    kind: "Deployment",
    fields: state_fields!(),
};
const STATEFUL_SETS: Kind = Kind {
    api_version: "apps/v1",
    kind: "StatefulSet",
    fields: state_fields!(),
};
const REPLICA_SETS: Kind = Kind {
    api_version: "apps/v1",
    kind: "ReplicaSet",
    fields: state_fields!("/metadata/ownerReferences"),
};

/// A kind whose readiness is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Also what is behind most ReplicaSets.
    Deployment,
    /// Its pods keep their names.
    StatefulSet,
    /// One that no Deployment controls.
    ReplicaSet,
}

impl Watched {
    const ALL: [Watched; 3] = [Watched::Deployment, Watched::StatefulSet, Watched::ReplicaSet];

    /// The kind's name.
    pub fn word(self) -> &'static str {
        self.kind().kind
    }

    /// The kind of a name.
    pub fn named(word: &str) -> Option<Watched> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    fn kind(self) -> &'static Kind {
        match self {
            Watched::Deployment => &DEPLOYMENTS,
            Watched::StatefulSet => &STATEFUL_SETS,
            Watched::ReplicaSet => &REPLICA_SETS,
        }
    }

    /// The watched kind of an owner reference.
    fn of(owner: &Value) -> Option<Watched> {
        let is_apps = text(owner, "/apiVersion").starts_with("apps/");
        Self::named(text(owner, "/kind")).filter(|_| is_apps)
    }
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// What it is.
    pub kind: Watched,
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Id {
    /// Points at it.
    pub fn object(&self) -> ObjectRef {
        self.kind.kind().object(Some(&self.namespace), &self.name)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}/{}", self.kind.word(), self.namespace, self.name)
    }
}

/// How a workload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// `spec.replicas`, 1 if absent.
    pub desired: i64,
    /// `status.readyReplicas`.
    pub ready: i64,
    /// Whether the status speaks of the newest specification.
    pub observed: bool,
}

impl State {
    fn parse(object: &Value) -> State {
        State {
            desired: object
                .pointer("/spec/replicas")
                .and_then(Value::as_i64)
                .unwrap_or(1),
            ready: number(object, "/status/readyReplicas"),
            observed: object::is_observed(object),
        }
    }

    /// Whether all wanted replicas are ready. A status that speaks of an older specification proves nothing.
    pub fn is_ready(&self) -> bool {
        self.observed && self.ready >= self.desired
    }

    /// In words.
    pub fn told(&self) -> String {
        if !self.observed {
            return "its controller has not seen its newest specification".into();
        }
        format!("{} of {} replicas are ready", self.ready, self.desired)
    }
}

/// What is on a node.
#[derive(Debug, Default)]
pub struct Found {
    /// The watched workloads.
    pub workloads: BTreeSet<Id>,
    /// How many pods are controlled by a kind that is not watched.
    pub not_watched: BTreeMap<String, usize>,
    /// How many pods have no controller.
    pub alone: usize,
}

/// Finds what a drain of the node would move: no mirrors, no DaemonSets, nothing that has ended or is ending.
pub fn on_node(
    host: &impl Kubernetes,
    node: &str,
    config: &Config,
    freshness: Freshness,
) -> Result<Found, RuleError> {
    let mut found = Found::default();
    let mut replica_sets = BTreeSet::new();
    for pod in pods_on(host, node, config, freshness)? {
        if stays_in_a_drain(&pod) || is_finished(&pod) || is_terminating(&pod) {
            continue;
        }
        let Some(owner) = controller(&pod) else {
            found.alone += 1;
            continue;
        };
        let Some(kind) = Watched::of(owner) else {
            *found
                .not_watched
                .entry(text(owner, "/kind").to_owned())
                .or_default() += 1;
            continue;
        };
        let id = Id {
            kind,
            namespace: object::namespace(&pod).into(),
            name: text(owner, "/name").into(),
        };
        match kind {
            Watched::ReplicaSet => replica_sets.insert(id),
            Watched::Deployment | Watched::StatefulSet => found.workloads.insert(id),
        };
    }
    for (id, replica_set) in read(host, &replica_sets, config, freshness)? {
        let Some(replica_set) = replica_set else { continue };
        let deployment =
            controller(&replica_set).filter(|owner| Watched::of(owner) == Some(Watched::Deployment));
        found.workloads.insert(match deployment {
            Some(owner) => Id {
                kind: Watched::Deployment,
                name: text(owner, "/name").into(),
                ..id
            },
            None => id,
        });
    }
    Ok(found)
}

fn pods_on(
    host: &impl Kubernetes,
    node: &str,
    config: &Config,
    freshness: Freshness,
) -> Result<Vec<Value>, RuleError> {
    let on_node = format!("spec.nodeName={node}");
    let mut pods = Vec::new();
    if config.namespaces.is_empty() {
        pods = object::list(host, &PODS, None, Some(&on_node), freshness)?;
    }
    for namespace in config.namespaces.iter().collect::<BTreeSet<_>>() {
        pods.extend(object::list(
            host,
            &PODS,
            Some(namespace),
            Some(&on_node),
            freshness,
        )?);
    }
    pods.retain(|pod| config.looks_at(object::namespace(pod)));
    Ok(pods)
}

/// How the workloads are; none for one that is gone or going.
pub fn states(
    host: &impl Kubernetes,
    ids: &BTreeSet<Id>,
    config: &Config,
    freshness: Freshness,
) -> Result<BTreeMap<Id, Option<State>>, RuleError> {
    let objects = read(host, ids, config, freshness)?;
    let state = |object: Option<Value>| {
        object
            .filter(|object| !is_terminating(object))
            .map(|object| State::parse(&object))
    };
    Ok(objects
        .into_iter()
        .map(|(id, object)| (id, state(object)))
        .collect())
}

/// Reads objects with few calls: one by one, by namespace or all of a kind, as their number suggests.
fn read(
    host: &impl Kubernetes,
    ids: &BTreeSet<Id>,
    config: &Config,
    freshness: Freshness,
) -> Result<BTreeMap<Id, Option<Value>>, RuleError> {
    let mut objects: BTreeMap<Id, Option<Value>> = ids.iter().map(|id| (id.clone(), None)).collect();
    for watched in Watched::ALL {
        let mut by_namespace: BTreeMap<&str, Vec<&Id>> = BTreeMap::new();
        for id in ids.iter().filter(|id| id.kind == watched) {
            by_namespace.entry(&id.namespace).or_default().push(id);
        }
        let kind = watched.kind();
        let mut keep = |listed: Vec<Value>| {
            for object in listed {
                let namespace = object::namespace(&object).to_owned();
                let id = Id {
                    kind: watched,
                    namespace,
                    name: object::name(&object).into(),
                };
                if let Some(place) = objects.get_mut(&id) {
                    *place = Some(object);
                }
            }
        };
        if config.namespaces.is_empty() && by_namespace.len() > NAMESPACE_READS {
            keep(object::list(host, kind, None, None, freshness)?);
            continue;
        }
        for (namespace, ids) in by_namespace {
            if ids.len() > SINGLE_READS {
                keep(object::list(host, kind, Some(namespace), None, freshness)?);
                continue;
            }
            for id in ids {
                keep(
                    object::get(host, kind, Some(namespace), &id.name, freshness)?
                        .into_iter()
                        .collect(),
                );
            }
        }
    }
    Ok(objects)
}
