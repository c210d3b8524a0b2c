//! Machines and MachineHealthChecks of OpenShift and of Cluster API. Whoever has a namespace may write those of Cluster API.

use super::{
    entry::{
        Kept, Missing, PAGE_OF_MADE, PAGE_OF_SMALL, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched,
        needed_by_nobody,
    },
    object::Object,
};
use crate::shell::{
    item::{self, weight_of_map as map},
    kind::Kind,
    project::{NAME_LETTERS, SELECTOR_WEIGHT, bounded, kept, key, text},
    store::{Store, replace},
    weigh,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use numo_api::marks;
use numo_core::observed::{Annotated, Key, MachineApi, MachineView};
use std::collections::{BTreeMap, BTreeSet};

/// How OpenShift's Machines are watched.
pub const OPENSHIFT_MACHINE: Watched = Watched {
    resource: ("machine.openshift.io", "v1beta1", "Machine", "machines"),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Seldom,
    reading: Reading::Whole,
    project: |object| Some(machine_of(MachineApi::OpenShift, object)),
    kept: Kept::Counted(|_, _| true),
    remove: |store, key| remove_of(&mut store.observed.machines, MachineApi::OpenShift, key),
};

/// How OpenShift's MachineHealthChecks are watched.
pub const OPENSHIFT_HEALTH_CHECK: Watched = Watched {
    resource: (
        "machine.openshift.io",
        "v1beta1",
        "MachineHealthCheck",
        "machinehealthchecks",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Seldom,
    reading: Reading::Whole,
    project: |object| Some(health_check_of(MachineApi::OpenShift, object)),
    kept: Kept::Counted(|_, _| true),
    remove: |store, key| remove_of(&mut store.observed.health_checks, MachineApi::OpenShift, key),
};

/// How Cluster API's Machines are watched.
pub const CLUSTER_API_MACHINE: Watched = Watched {
    resource: ("cluster.x-k8s.io", "v1beta1", "Machine", "machines"),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_MADE,
    missing: Missing::Seldom,
    reading: Reading::Whole,
    project: |object| Some(machine_of(MachineApi::ClusterApi, object)),
    kept: Kept::Counted(is_of_a_node),
    remove: |store, key| remove_of(&mut store.observed.machines, MachineApi::ClusterApi, key),
};

/// How Cluster API's MachineHealthChecks are watched.
pub const CLUSTER_API_HEALTH_CHECK: Watched = Watched {
    resource: (
        "cluster.x-k8s.io",
        "v1beta1",
        "MachineHealthCheck",
        "machinehealthchecks",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_WRITTEN,
    missing: Missing::Seldom,
    reading: Reading::Whole,
    project: |object| Some(health_check_of(MachineApi::ClusterApi, object)),
    kept: Kept::Counted(needed_by_nobody),
    remove: |store, key| remove_of(&mut store.observed.health_checks, MachineApi::ClusterApi, key),
};

fn machine_of(api: MachineApi, object: &DynamicObject) -> Object {
    Object::Machine((api, key(&object.metadata)), Box::new(machine(object)))
}

fn health_check_of(api: MachineApi, object: &DynamicObject) -> Object {
    Object::HealthCheck((api, key(&object.metadata)), health_check(object))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put_machine(store: &mut Store, place: (MachineApi, Key), machine: MachineView) -> bool {
    replace(&mut store.observed.machines, place, machine)
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put_health_check(store: &mut Store, place: (MachineApi, Key), check: Annotated) -> bool {
    replace(&mut store.observed.health_checks, place, check)
}

fn remove_of<V>(map: &mut BTreeMap<(MachineApi, Key), V>, api: MachineApi, key: &Key) -> bool {
    map.remove(&(api, key.clone())).is_some()
}

/// What a Machine takes of memory (bytes).
pub fn weight_of_machine(machine: &MachineView) -> usize {
    weigh::all([map(&machine.object.labels), map(&machine.object.annotations)])
}

/// What a health check takes of memory (bytes).
pub fn weight_of_health_check(check: &Annotated) -> usize {
    weigh::all([weigh::value(&check.selector), map(&check.annotations)])
}

/// Whether a Machine of Cluster API is that of a Node.
fn is_of_a_node(store: &Store, key: &Key) -> bool {
    // Only where not everything is kept it is worth a look at all Nodes.
    store.is_turned_away(Kind::ClusterApiMachine, &key.namespace) && {
        let place = (MachineApi::ClusterApi, key.clone());
        let observed = &store.observed;
        let mut nodes = observed.nodes.keys();
        nodes.any(|node| observed.is_machine_of(&place, node))
    }
}

/// Machines of Cluster API that Nodes name and that are not kept.
pub fn missed(store: &Store) -> BTreeSet<Key> {
    let nodes = store.observed.nodes.values();
    let named = nodes.filter_map(|node| {
        let key = Key::new(
            node.annotation(marks::CLUSTER_API_NAMESPACE),
            node.annotation(marks::CLUSTER_API_MACHINE),
        );
        let place = (MachineApi::ClusterApi, key);
        let is_missed = !place.1.name.is_empty() && !store.observed.machines.contains_key(&place);
        is_missed.then_some(place.1)
    });
    named.collect()
}

fn machine(object: &DynamicObject) -> MachineView {
    let meta = &object.metadata;
    MachineView {
        object: Annotated {
            // No health check selects one that has more labels than any Machine needs.
            labels: bounded(meta.labels.as_ref()),
            ..annotated(meta)
        },
        node: numo_core::rules::clip(&text(&object.data, "/status/nodeRef/name"), NAME_LETTERS),
        deleting: meta.deletion_timestamp.is_some(),
        deleting_since: meta.deletion_timestamp.as_ref().map(|at| at.0),
    }
}

fn annotated(meta: &ObjectMeta) -> Annotated {
    Annotated {
        uid: meta.uid.clone().unwrap_or_default(),
        annotations: kept(meta.annotations.clone().unwrap_or_default()),
        has_annotations: meta.annotations.is_some(),
        ..Annotated::default()
    }
}

fn health_check(object: &DynamicObject) -> Annotated {
    let selector = object.data.pointer("/spec/selector").cloned();
    // One that nobody wrote by hand selects nothing.
    let selector = selector.filter(|selector| item::weight(&selector.to_string()) <= SELECTOR_WEIGHT);
    Annotated {
        selector: selector.unwrap_or_default(),
        ..annotated(&object.metadata)
    }
}
