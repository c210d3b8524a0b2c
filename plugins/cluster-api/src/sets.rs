//! MachineSets of a MachineDeployment: which of them Cluster API shrinks when the MachineDeployment does. Writes nothing.
//!
//! Cluster API takes a Machine that is marked for deletion first, but only among those of the MachineSet that it shrinks; which one that is
//! "may bypass" the mark, as its documentation has it. With the strategy OnDelete it is the first of the older MachineSets.

use crate::{
    config::Config,
    group::Loaded,
    machine::{CLUSTER, DEPLOYMENT},
};
use numo_provider_sdk::{
    Failure,
    host::Host,
    objects::{self, text, token},
    serde_json::Value,
};

/// What the revision of a MachineSet is in.
const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
/// What is read of a MachineSet.
pub const READ: [&str; 4] = [
    "/metadata/annotations",
    "/metadata/ownerReferences",
    "/spec/replicas",
    "/spec/template/spec/infrastructureRef",
];

/// A MachineSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// `spec.replicas`.
    pub replicas: i64,
    /// The highest is that of the newest.
    revision: i64,
}

impl Set {
    fn of(value: &Value) -> Self {
        let revision = text(value, &format!("/metadata/annotations/{}", token(REVISION)));
        Self {
            name: text(value, "/metadata/name").to_owned(),
            uid: text(value, "/metadata/uid").to_owned(),
            replicas: replicas(value),
            revision: revision.parse().unwrap_or_default(),
        }
    }
}

/// `spec.replicas` of a MachineSet; -1 if it has none.
pub fn replicas(set: &Value) -> i64 {
    let found = set.pointer("/spec/replicas").and_then(Value::as_i64);
    found.unwrap_or(-1)
}

fn is_owned(set: &Value, uid: &str) -> bool {
    let owners = set.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    !uid.is_empty() && owners.any(|owner| text(owner, "/uid") == uid)
}

/// Those of a MachineDeployment.
pub fn of(host: &impl Host, config: &Config, loaded: &Loaded) -> Result<Vec<Set>, Failure> {
    let group = &loaded.group;
    let labels = format!("{CLUSTER}={},{DEPLOYMENT}={}", config.cluster, group.name);
    let found = objects::list(host, config.query("MachineSet", &group.namespace, labels, &READ))?;
    let own = found
        .iter()
        .filter(|set| is_owned(set, loaded.text("/metadata/uid")));
    Ok(own.map(Set::of).collect())
}

/// Machines that all of them are to have together.
pub fn sum(sets: &[Set]) -> i64 {
    let wanted = sets.iter().map(|set| set.replicas.max(0));
    wanted.fold(0, i64::saturating_add)
}

/// Whether Cluster API shrinks this one, and no other, when the MachineDeployment loses a replica.
pub fn is_next(loaded: &Loaded, sets: &[Set], own: &Set) -> bool {
    let mut others = sets.iter().filter(|set| set.replicas > 0 && set.uid != own.uid);
    if others.clone().next().is_none() {
        return true;
    }
    // A newer MachineSet may be due that is not there yet.
    if !loaded.is_on_delete() || !loaded.is_observed() {
        return false;
    }
    let newest = sets.iter().map(|set| set.revision).max().unwrap_or_default();
    own.revision < newest && others.all(|set| set.revision == newest)
}
