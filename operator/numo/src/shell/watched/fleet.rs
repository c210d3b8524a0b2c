//! The kinds of machines that are replaced, and the Deployments of cluster autoscalers that AutoscalingStrategies name. They are watched only
//! where there is a provider of machines.

use super::{
    entry::{Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched, left_as_it_was},
    object::{Object, OfFleet},
};
use crate::{
    frontends,
    shell::{
        item::Size,
        kind::Kind,
        project::{created, kept, key, misread, typed},
        store::{Store, replace},
    },
};
use kube::core::DynamicObject;
use numo_api::{
    machines::{
        AutoscalingStrategy, JoiningNode, NodeVersion, PendingNode, ScalingGroup, UPDATE_GROUP,
        UPDATE_VERSION,
    },
    marks,
};
use numo_core::observed::{
    AutoscalerView, JoiningNodeView, Key, NodeVersionView, PendingNodeView, ScalingGroupView, StrategyView,
};
use serde_json::Value;

/// The kinds of machines that are replaced. The operator watches them only where there is a provider of machines.
pub const FLEET_KINDS: [Kind; 5] = [
    Kind::NodeVersion,
    Kind::ScalingGroup,
    Kind::PendingNode,
    Kind::JoiningNode,
    Kind::AutoscalingStrategy,
];

const fn watched(
    (kind, plural): (&'static str, &'static str),
    misread: fn(&DynamicObject) -> Option<String>,
    project: fn(&DynamicObject) -> Option<Object>,
    remove: fn(&mut Store, &Key) -> bool,
) -> Watched {
    Watched {
        resource: (UPDATE_GROUP, UPDATE_VERSION, kind, plural),
        place: Place::Named,
        select: Selection::all,
        page: PAGE_OF_WRITTEN,
        missing: Missing::EmptyIfUnserved,
        reading: Reading::Ours {
            size: Size::Written,
            misread,
            left: left_as_it_was,
            known_as: plural,
        },
        project,
        kept: Kept::All,
        remove,
    }
}

fn object(found: OfFleet) -> Object {
    Object::Fleet(Box::new(found))
}

/// How NodeVersions are watched.
pub const NODE_VERSION: Watched = watched(
    ("NodeVersion", "nodeversions"),
    misread::<NodeVersion>,
    |found| {
        let view = frontends::node_version::view(typed(found)?);
        Some(object(OfFleet::NodeVersion(Box::new(view))))
    },
    |store, key| store.observed.fleet.versions.remove(&key.name).is_some(),
);

/// How ScalingGroups are watched.
pub const SCALING_GROUP: Watched = watched(
    ("ScalingGroup", "scalinggroups"),
    misread::<ScalingGroup>,
    |found| {
        let found: ScalingGroup = typed(found)?;
        Some(object(OfFleet::ScalingGroup(ScalingGroupView {
            name: found.metadata.name.unwrap_or_default(),
            uid: found.metadata.uid.unwrap_or_default(),
            spec: found.spec,
            status: found.status.unwrap_or_default(),
        })))
    },
    |store, key| store.observed.fleet.groups.remove(&key.name).is_some(),
);

/// How PendingNodes are watched.
pub const PENDING_NODE: Watched = watched(
    ("PendingNode", "pendingnodes"),
    misread::<PendingNode>,
    |found| {
        let found: PendingNode = typed(found)?;
        let meta = found.metadata;
        let noted = meta.annotations.as_ref();
        let noted = noted.and_then(|all| all.get(marks::PENDING_OF).cloned());
        // As the replaced operator says it.
        let mut owners = meta.owner_references.iter().flatten();
        let owner = owners.find(|one| one.controller == Some(true));
        let owned = owner.map(|one| one.uid.clone());
        Some(object(OfFleet::PendingNode(PendingNodeView {
            is_owned: owned.is_some() && meta.owner_references.as_ref().is_some_and(|all| all.len() == 1),
            owner_uid: noted.or(owned).unwrap_or_default(),
            created: created(&meta),
            deleting: meta.deletion_timestamp.is_some(),
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            resource_version: meta.resource_version.unwrap_or_default(),
            annotations: kept(meta.annotations.unwrap_or_default()),
            spec: found.spec,
            status: found.status.unwrap_or_default(),
        })))
    },
    |store, key| store.observed.fleet.pending.remove(&key.name).is_some(),
);

/// How JoiningNodes are watched.
pub const JOINING_NODE: Watched = watched(
    ("JoiningNode", "joiningnodes"),
    misread::<JoiningNode>,
    |found| {
        let found: JoiningNode = typed(found)?;
        Some(object(OfFleet::JoiningNode(JoiningNodeView {
            name: found.metadata.name.unwrap_or_default(),
            uid: found.metadata.uid.unwrap_or_default(),
            spec: found.spec,
        })))
    },
    |store, key| store.observed.fleet.joining.remove(&key.name).is_some(),
);

/// How AutoscalingStrategies are watched.
pub const AUTOSCALING_STRATEGY: Watched = watched(
    ("AutoscalingStrategy", "autoscalingstrategies"),
    misread::<AutoscalingStrategy>,
    |found| {
        let found: AutoscalingStrategy = typed(found)?;
        Some(object(OfFleet::AutoscalingStrategy(StrategyView {
            name: found.metadata.name.unwrap_or_default(),
            uid: found.metadata.uid.unwrap_or_default(),
            spec: found.spec,
            status: found.status.unwrap_or_default(),
        })))
    },
    |store, key| store.observed.fleet.strategies.remove(&key.name).is_some(),
);

/// One Deployment: the scope of its watch is its namespace and its name, with a slash between.
fn one_deployment(scope: &str) -> Selection {
    let (namespace, name) = scope.split_once('/').unwrap_or_default();
    Selection::all(namespace).with_fields(&format!("metadata.name={name}"))
}

/// How the Deployment of a cluster autoscaler is watched, each by itself.
pub const AUTOSCALER: Watched = Watched {
    resource: ("apps", "v1", "Deployment", "deployments"),
    place: Place::Named,
    select: one_deployment,
    page: PAGE_OF_WRITTEN,
    missing: Missing::Awaited,
    reading: Reading::Whole,
    project: |found| {
        let replicas = found
            .data
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .unwrap_or(1);
        let command = found.data.pointer("/spec/template/spec/containers/0/command");
        let command = command.and_then(Value::as_array).into_iter().flatten();
        let view = AutoscalerView {
            annotations: found.metadata.annotations.clone().unwrap_or_default(),
            uid: found.metadata.uid.clone().unwrap_or_default(),
            replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
            command: command.filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        Some(object(OfFleet::Autoscaler(key(&found.metadata), view)))
    },
    kept: Kept::All,
    remove: |store, key| store.observed.fleet.autoscalers.remove(key).is_some(),
};

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, found: OfFleet) -> bool {
    if let OfFleet::PendingNode(view) = &found {
        store.read_provider_words(view);
    }
    let fleet = &mut store.observed.fleet;
    match found {
        OfFleet::NodeVersion(view) => replace(&mut fleet.versions, view.name.clone(), *view),
        OfFleet::ScalingGroup(view) => replace(&mut fleet.groups, view.name.clone(), view),
        OfFleet::PendingNode(view) => replace(&mut fleet.pending, view.name.clone(), view),
        OfFleet::JoiningNode(view) => replace(&mut fleet.joining, view.name.clone(), view),
        OfFleet::AutoscalingStrategy(view) => replace(&mut fleet.strategies, view.name.clone(), view),
        OfFleet::Autoscaler(key, view) => replace(&mut fleet.autoscalers, key, view),
    }
}

/// Whether a NodeVersion differs from what is known of it by more than its status. Statuses of the other kinds are read by decisions.
pub fn has_news(store: &Store, found: &OfFleet) -> bool {
    let OfFleet::NodeVersion(view) = found else {
        return true;
    };
    store
        .observed
        .fleet
        .versions
        .get(&view.name)
        .is_some_and(|known| {
            let known = NodeVersionView {
                status: view.status.clone(),
                ..known.clone()
            };
            known != **view
        })
}
