//! Which marks on Machines and MachineHealthChecks are believed. Who may write such objects in a namespace of his own can put a
//! mark on them, with the uid of an owner that he read on a Node: what he marks is given back by nobody, and nobody waits for it.

use crate::{
    mark,
    observed::{Annotated, ChangeView, Key, MachineApi, MachineView, Map, Observed},
};
use numo_api::marks;
use std::{cell::OnceCell, collections::BTreeSet};

/// Where OpenShift has all its Machines: only administrators of the cluster write there.
const OPENSHIFT_MACHINES: &str = "openshift-machine-api";

/// Where a Machine or MachineHealthCheck is.
type Place = (MachineApi, Key);

/// What is believed of marks; looked up as it is asked for.
#[derive(Debug)]
pub struct Believed<'a> {
    observed: &'a Observed,
    /// Nodes that went in their turn, by the uid of its owner.
    gone: OnceCell<BTreeSet<(&'a str, &'a str)>>,
    /// Where the Machines are that Nodes name.
    places: OnceCell<BTreeSet<(MachineApi, &'a str)>>,
}

impl<'a> Believed<'a> {
    /// Nothing is looked up yet.
    pub const fn of(observed: &'a Observed) -> Self {
        Self {
            observed,
            gone: OnceCell::new(),
            places: OnceCell::new(),
        }
    }

    /// The Machines that carry a mark of this owner's that is believed.
    pub fn machines<'s>(&'s self, owner: &'s str) -> impl Iterator<Item = (&'a Place, &'a MachineView)> {
        let marked = self.observed.machines.iter();
        let marked = marked.filter(move |(_, machine)| is_marked(&machine.object.annotations, owner));
        marked.filter(move |(place, machine)| self.is_machine(owner, place, machine))
    }

    /// The MachineHealthChecks that carry a mark of this owner's that is believed.
    pub fn checks<'s>(&'s self, owner: &'s str) -> impl Iterator<Item = (&'a Place, &'a Annotated)> {
        let marked = self.observed.health_checks.iter();
        let marked = marked.filter(move |(_, check)| is_marked(&check.annotations, owner));
        marked.filter(|(place, _)| self.is_check(place))
    }

    /// Whether anything carries a mark of this owner's that is believed.
    pub fn has_marks(&self, owner: &str) -> bool {
        self.machines(owner).next().is_some() || self.checks(owner).next().is_some()
    }

    /// Whether a mark of this owner's on the Machine is believed: a Node names the Machine, or it is OpenShift's. One of Cluster
    /// API whose Node went in mid-turn is known by the journal of that turn.
    pub fn is_machine(&self, owner: &str, place: &Place, machine: &MachineView) -> bool {
        is_openshifts(place)
            || self.observed.is_machine_of(place, &machine.node)
            || (place.0 == MachineApi::ClusterApi && self.gone().contains(&(owner, machine.node.as_str())))
    }

    /// Whether the MachineHealthCheck can see a Machine of this cluster: it is OpenShift's, or stands where Nodes have their
    /// Machines. None sees another namespace.
    pub fn is_check(&self, place: &Place) -> bool {
        is_openshifts(place) || self.places().contains(&(place.0, place.1.namespace.as_str()))
    }

    fn gone(&self) -> &BTreeSet<(&'a str, &'a str)> {
        let is_there = |change: &ChangeView| self.observed.node_of(change).is_some();
        self.gone.get_or_init(|| {
            let changes = self.observed.changes.values();
            let gone = changes.filter(|change| !is_there(change) && self.observed.is_trusted(change));
            gone.map(|change| (change.spec.owner_ref.uid.as_str(), change.spec.node_name.as_str()))
                .collect()
        })
    }

    fn places(&self) -> &BTreeSet<(MachineApi, &'a str)> {
        self.places.get_or_init(|| {
            let places = self.observed.nodes.values().flat_map(|node| {
                let (openshift, _) = node
                    .annotation(marks::OPENSHIFT_MACHINE)
                    .split_once('/')
                    .unwrap_or_default();
                [
                    (MachineApi::OpenShift, openshift),
                    (
                        MachineApi::ClusterApi,
                        node.annotation(marks::CLUSTER_API_NAMESPACE),
                    ),
                ]
            });
            places.filter(|(_, namespace)| !namespace.is_empty()).collect()
        })
    }
}

fn is_openshifts((api, key): &Place) -> bool {
    *api == MachineApi::OpenShift && key.namespace == OPENSHIFT_MACHINES
}

/// Whether the annotations carry a mark of this owner.
pub(crate) fn is_marked(annotations: &Map, owner: &str) -> bool {
    mark::shielded_by(annotations).is_some_and(|mark| mark.owner == owner)
}
