//! Machines of Cluster API: how one is found, whose it is, how it stands. Writes nothing.
//!
//! The id of a machine is `spec.providerID` of its Machine, as its Node has it too. A Machine whose cloud has not answered yet has none:
//! its id is `capi://NAMESPACE/NAME`, which is good for all calls, then and later; but by it nothing is deleted that has a Node (`delete`).

use crate::{
    config::Config,
    group::{Group, Kind, is_name},
};
use numo_provider_sdk::{
    Failure, FailureCode, NodeState, ObjectRef,
    failure::{failure, invalid},
    host::{Freshness, Host},
    objects::{self, fields, text, token},
    serde_json::Value,
};

/// The request that a Machine was claimed for.
pub const REQUEST: &str = "numo.openshift-optional.skrzypek.io/machine-request";
/// A Machine that is to go: Cluster API takes it first of its MachineSet.
pub const DELETE: &str = "cluster.x-k8s.io/delete-machine";
/// What numo marks such a one with.
pub const MARK: &str = "numo";
/// The MachineDeployment of a Machine.
pub const DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
/// The MachinePool of a Machine.
pub const POOL: &str = "cluster.x-k8s.io/pool-name";
/// The Cluster of an object.
pub const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
/// What ids of Machines without a providerID begin with.
const CAPI: &str = "capi://";
/// What is read of a Machine.
pub const READ: [&str; 10] = [
    "/metadata/labels",
    "/metadata/annotations",
    "/metadata/deletionTimestamp",
    "/metadata/creationTimestamp",
    "/metadata/resourceVersion",
    "/metadata/ownerReferences",
    "/spec/clusterName",
    "/spec/providerID",
    "/spec/infrastructureRef",
    "/status",
];

/// A Machine as it was read.
#[derive(Clone, Debug)]
pub struct Machine(Value);

impl Machine {
    /// Name.
    pub fn name(&self) -> &str {
        text(&self.0, "/metadata/name")
    }

    /// Namespace.
    pub fn namespace(&self) -> &str {
        text(&self.0, "/metadata/namespace")
    }

    /// Uid.
    pub fn uid(&self) -> &str {
        text(&self.0, "/metadata/uid")
    }

    /// When it was made, as Kubernetes writes it: comparable as text.
    pub fn created(&self) -> &str {
        text(&self.0, "/metadata/creationTimestamp")
    }

    /// The object as it was read.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// An annotation; empty if there is none.
    pub fn annotation(&self, key: &str) -> &str {
        text(&self.0, &format!("/metadata/annotations/{}", token(key)))
    }

    fn label(&self, key: &str) -> &str {
        text(&self.0, &format!("/metadata/labels/{}", token(key)))
    }

    /// Whether it is marked for deletion, by whomever.
    pub fn is_marked(&self) -> bool {
        let label = format!("/metadata/labels/{}", token(DELETE));
        self.mark().is_some() || self.0.pointer(&label).is_some()
    }

    /// What it is marked for deletion with; none if it is not.
    pub fn mark(&self) -> Option<&str> {
        let found = self
            .0
            .pointer(&format!("/metadata/annotations/{}", token(DELETE)))?;
        Some(found.as_str().unwrap_or_default())
    }

    /// Whether it is being deleted.
    pub fn is_going(&self) -> bool {
        !text(&self.0, "/metadata/deletionTimestamp").is_empty()
    }

    /// The id that numo has for it.
    pub fn id(&self) -> String {
        match text(&self.0, "/spec/providerID") {
            "" => format!("{CAPI}{}/{}", self.namespace(), self.name()),
            id => id.to_owned(),
        }
    }

    /// Its Node, once Cluster API knows it.
    pub fn node(&self) -> Option<&str> {
        let is_known = !text(&self.0, "/spec/providerID").is_empty();
        let node = text(&self.0, "/status/nodeRef/name");
        Some(node).filter(|node| is_known && !node.is_empty())
    }

    /// The owner of a kind: uid and name.
    pub fn owner(&self, kind: &str) -> Option<(&str, &str)> {
        let owners = self.0.pointer("/metadata/ownerReferences")?.as_array()?;
        let owner = owners.iter().find(|owner| text(owner, "/kind") == kind)?;
        Some((text(owner, "/uid"), text(owner, "/name")))
    }

    /// Its group.
    ///
    /// Errors: it has none that is managed.
    pub fn group(&self) -> Result<Group, Failure> {
        let (kind, name) = match (self.label(DEPLOYMENT), self.label(POOL)) {
            ("", "") => {
                return Err(invalid(format!(
                    "Machine {}/{}: found no label {DEPLOYMENT} or {POOL}, wanted one; machines of a control plane are not managed",
                    self.namespace(),
                    self.name()
                )));
            }
            ("", pool) => (Kind::Pool, pool),
            (deployment, _) => (Kind::Deployment, deployment),
        };
        Ok(Group {
            kind,
            namespace: self.namespace().to_owned(),
            name: name.to_owned(),
        })
    }

    /// State, by `status.phase`.
    pub fn state(&self) -> NodeState {
        if self.is_going() {
            return NodeState::Terminating;
        }
        match text(&self.0, "/status/phase") {
            "" | "Pending" | "Provisioning" | "Provisioned" => NodeState::Creating,
            "Running" | "Updating" => NodeState::Ready,
            "Deleting" => NodeState::Terminating,
            "Deleted" => NodeState::Terminated,
            "Failed" => NodeState::Failed,
            _ => NodeState::Unknown,
        }
    }

    /// What it waits for, in the words of Cluster API and of the cloud.
    pub fn words(&self) -> String {
        let failure = text(&self.0, "/status/failureMessage");
        let conditions = self.0.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let unmet = conditions
            .find(|one| text(one, "/status") == "False" && !text(one, "/message").is_empty())
            .map(|one| text(one, "/message"));
        let words = Some(failure).filter(|words| !words.is_empty()).or(unmet);
        match (words, text(&self.0, "/status/phase")) {
            (Some(words), _) => words.chars().take(500).collect(),
            (None, "") => "no phase yet".to_owned(),
            (None, phase) => format!("phase {}", phase.chars().take(40).collect::<String>()),
        }
    }

    /// Points at it.
    pub fn reference(&self, config: &Config) -> ObjectRef {
        config.reference("Machine", self.namespace(), self.name())
    }

    /// `Machine ns/name`.
    pub fn shown(&self) -> String {
        format!("Machine {}/{}", self.namespace(), self.name())
    }
}

/// One Machine by its name, if it is the cluster's.
pub fn by_name(
    host: &impl Host,
    config: &Config,
    namespace: &str,
    name: &str,
) -> Result<Option<Machine>, Failure> {
    let reference = config.reference("Machine", namespace, name);
    let found = objects::get(host, &reference, &fields(&READ, Freshness::Live))?;
    Ok(found
        .map(Machine)
        .filter(|machine| is_of_cluster(machine, config)))
}

/// The Machines of a group.
pub fn of_group(host: &impl Host, config: &Config, group: &Group) -> Result<Vec<Machine>, Failure> {
    let key = match group.kind {
        Kind::Deployment => DEPLOYMENT,
        Kind::Pool => POOL,
    };
    let labels = format!("{CLUSTER}={},{key}={}", config.cluster, group.name);
    let found = objects::list(host, config.query("Machine", &group.namespace, labels, &READ))?;
    Ok(found.into_iter().map(Machine).collect())
}

/// Whether an id is the one that a Machine has until it has a providerID.
pub fn is_early(id: &str) -> bool {
    id.to_ascii_lowercase().starts_with(CAPI)
}

/// The Machine with an id, or none: then the Cluster has others, so it is looked for in the right place.
///
/// Errors: the id has another form, two Machines have it, or there is no Machine of the Cluster at all.
pub fn by_id(host: &impl Host, config: &Config, id: &str) -> Result<Option<Machine>, Failure> {
    let lower = id.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix(CAPI) {
        let named = rest
            .split_once('/')
            .filter(|(_, name)| is_name(name))
            .filter(|(namespace, _)| config.namespaces.iter().any(|one| one == namespace));
        let (namespace, name) = named.ok_or_else(|| unknown_form(config, id))?;
        return by_early_name(host, config, namespace, name);
    }
    let has_form = lower.split_once("://");
    if !has_form.is_some_and(|(cloud, rest)| !cloud.is_empty() && !rest.is_empty()) {
        return Err(unknown_form(config, id));
    }
    let mut found: Option<Machine> = None;
    let mut is_here = false;
    for namespace in &config.namespaces {
        for machine in of_cluster(host, config, namespace)? {
            is_here = true;
            if !text(&machine.0, "/spec/providerID").eq_ignore_ascii_case(id) {
                continue;
            }
            if let Some(other) = &found {
                let (one, two) = (other.shown(), machine.shown());
                let message = format!(
                    "spec.providerID {id}: found {one} and {two}, wanted one; nothing is done to either"
                );
                return Err(failure(FailureCode::Other, message));
            }
            found = Some(machine);
        }
    }
    if is_here {
        Ok(found)
    } else {
        Err(elsewhere(config, id))
    }
}

/// The Machine of an id from before its providerID.
fn by_early_name(
    host: &impl Host,
    config: &Config,
    namespace: &str,
    name: &str,
) -> Result<Option<Machine>, Failure> {
    let reference = config.reference("Machine", namespace, name);
    if let Some(found) = objects::get(host, &reference, &fields(&READ, Freshness::Live))? {
        let machine = Machine(found);
        if is_of_cluster(&machine, config) {
            return Ok(Some(machine));
        }
        let message = format!(
            "{}, spec.clusterName: found {:?}, wanted {:?}, clusterName of the settings; it does not count as gone",
            machine.shown(),
            text(&machine.0, "/spec/clusterName"),
            config.cluster
        );
        return Err(failure(FailureCode::Unavailable, message));
    }
    for namespace in &config.namespaces {
        if !of_cluster(host, config, namespace)?.is_empty() {
            return Ok(None);
        }
    }
    Err(elsewhere(config, &format!("{CAPI}{namespace}/{name}")))
}

/// The Machines of the Cluster in a namespace, those of its control plane, too.
fn of_cluster(host: &impl Host, config: &Config, namespace: &str) -> Result<Vec<Machine>, Failure> {
    let labels = format!("{CLUSTER}={}", config.cluster);
    let found = objects::list(host, config.query("Machine", namespace, labels, &READ))?;
    Ok(found.into_iter().map(Machine).collect())
}

/// A machine that is not there, nor any other of the Cluster: with other settings every machine would be gone.
fn elsewhere(config: &Config, id: &str) -> Failure {
    let message = format!(
        "machine {id}: found no Machine with label {CLUSTER}={} in {}, wanted at least one; clusterName or namespaces of the settings may be wrong, so it does not count as gone",
        config.cluster,
        config.namespaces.join(", ")
    );
    failure(FailureCode::Unavailable, message)
}

fn is_of_cluster(machine: &Machine, config: &Config) -> bool {
    text(&machine.0, "/spec/clusterName") == config.cluster
}

fn unknown_form(config: &Config, id: &str) -> Failure {
    invalid(format!(
        "found machine {:?}, wanted spec.providerID of a Machine (CLOUD://...), or {CAPI}NAMESPACE/MACHINE in {}",
        id.chars().take(200).collect::<String>(),
        config.namespaces.join(", ")
    ))
}
