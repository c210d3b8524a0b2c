//! Groups: MachineDeployments and MachinePools. Their ids, what is read of one, and whether it may be changed. Writes nothing but what
//! [`Loaded::patch`] is given.
//!
//! The id of a group is `machinedeployment/NAMESPACE/NAME` or `machinepool/NAMESPACE/NAME`.

use crate::{
    config::Config,
    ledger::{LEDGER, Ledger},
};
use numo_provider_sdk::{
    Failure, FailureCode, ObjectRef,
    failure::{failure, invalid},
    host::{Freshness, Host},
    objects::{self, fields, of_object, status, text, token},
    serde_json::{Value, json},
};

/// Keeps Cluster API from acting on an object.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";
/// An object that a ClusterClass makes and changes.
const TOPOLOGY: &str = "topology.cluster.x-k8s.io/owned";
/// Who else says how many replicas a MachinePool has.
const REPLICAS_MANAGED: &str = "cluster.x-k8s.io/replicas-managed-by";
/// Bytes of a name: Cluster API writes longer ones into labels in another form.
const NAME: usize = 63;
/// What is read of a group.
pub const READ: [&str; 6] = [
    "/metadata/labels",
    "/metadata/annotations",
    "/metadata/deletionTimestamp",
    "/metadata/generation",
    "/metadata/resourceVersion",
    "/spec",
];
/// The same with its status.
const READ_ALL: [&str; 7] = [READ[0], READ[1], READ[2], READ[3], READ[4], READ[5], "/status"];

/// What a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A MachineDeployment.
    Deployment,
    /// A MachinePool.
    Pool,
}

impl Kind {
    /// Its kind in Kubernetes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deployment => "MachineDeployment",
            Self::Pool => "MachinePool",
        }
    }
}

/// A group by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What it is.
    pub kind: Kind,
    /// Where.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Whether it may be the name of an object.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !name.is_empty() && name.len() <= 253 && name.bytes().all(fits)
}

impl Group {
    /// Reads an id, without regard to case.
    ///
    /// Errors: it has another form.
    pub fn parse(id: &str) -> Result<Self, Failure> {
        let lower = id.to_ascii_lowercase();
        let mut parts = lower.split('/');
        let parts = (parts.next(), parts.next(), parts.next(), parts.next());
        let (kind, namespace, name) = match parts {
            (Some("machinedeployment"), Some(space), Some(name), None) => (Kind::Deployment, space, name),
            (Some("machinepool"), Some(space), Some(name), None) => (Kind::Pool, space, name),
            _ => return Err(unknown_form(id)),
        };
        if !is_name(namespace) || namespace.contains('.') || !is_name(name) || name.len() > NAME {
            return Err(unknown_form(id));
        }
        Ok(Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The id.
    pub fn id(&self) -> String {
        let kind = self.kind.name().to_ascii_lowercase();
        format!("{kind}/{}/{}", self.namespace, self.name)
    }

    /// Name for an object of numo: dots part it, which neither kind nor namespace can have.
    pub fn object_name(&self) -> String {
        self.id().replace('/', ".")
    }

    /// How cluster-autoscaler knows it.
    pub fn autoscaler_name(&self) -> String {
        format!("{}/{}/{}", self.kind.name(), self.namespace, self.name)
    }

    /// `MachineDeployment ns/name`.
    pub fn shown(&self) -> String {
        format!("{} {}/{}", self.kind.name(), self.namespace, self.name)
    }

    /// Points at it.
    pub fn reference(&self, config: &Config) -> ObjectRef {
        config.reference(self.kind.name(), &self.namespace, &self.name)
    }

    /// Reads it.
    ///
    /// Errors: it does not exist, or is not of the cluster.
    pub fn load(self, host: &impl Host, config: &Config) -> Result<Loaded, Failure> {
        if !config.namespaces.contains(&self.namespace) {
            return Err(invalid(format!(
                "group {}: found namespace {}, wanted {}",
                self.id(),
                self.namespace,
                config.namespaces.join(", ")
            )));
        }
        let projection = fields(&READ_ALL, Freshness::Live);
        let found = objects::get(host, &self.reference(config), &projection)?;
        let value = found
            .ok_or_else(|| failure(FailureCode::NotFound, format!("{} does not exist", self.shown())))?;
        Loaded::of(self, value, config)
    }
}

fn unknown_form(id: &str) -> Failure {
    invalid(format!(
        "found group {:?}, wanted machinedeployment/NAMESPACE/NAME or machinepool/NAMESPACE/NAME, the name up to {NAME} characters",
        id.chars().take(200).collect::<String>()
    ))
}

/// A group as it was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Which.
    pub group: Group,
    /// The object.
    pub value: Value,
    /// What was done to it.
    pub ledger: Ledger,
}

impl Loaded {
    /// A group that was read.
    ///
    /// Errors: it is not of the cluster, or its annotation is not numo's.
    pub fn of(group: Group, value: Value, config: &Config) -> Result<Self, Failure> {
        let cluster = text(&value, "/spec/clusterName");
        if cluster != config.cluster {
            return Err(invalid(format!(
                "{}, spec.clusterName: found {cluster:?}, wanted {:?}",
                group.shown(),
                config.cluster
            )));
        }
        let written = value.pointer(&format!("/metadata/annotations/{}", token(LEDGER)));
        let ledger = Ledger::parse(
            written.map(|text| text.as_str().unwrap_or_default()),
            &group.shown(),
        )?;
        Ok(Self { group, value, ledger })
    }

    /// A text of it.
    pub fn text(&self, pointer: &str) -> &str {
        text(&self.value, pointer)
    }

    /// An annotation or, if there is none, a label.
    pub fn note(&self, key: &str) -> &str {
        match self.text(&format!("/metadata/annotations/{}", token(key))) {
            "" => self.text(&format!("/metadata/labels/{}", token(key))),
            found => found,
        }
    }

    /// Name of the template of its machines' infrastructure; of a MachinePool the name of its infrastructure.
    pub fn template(&self) -> &str {
        self.text("/spec/template/spec/infrastructureRef/name")
    }

    /// `spec.replicas`.
    ///
    /// Errors: it has none.
    pub fn replicas(&self) -> Result<i64, Failure> {
        let found = self.value.pointer("/spec/replicas").and_then(Value::as_i64);
        found.filter(|&replicas| replicas >= 0).ok_or_else(|| {
            let shown = self.group.shown();
            failure(
                FailureCode::Other,
                format!("{shown}, spec.replicas: found none, wanted a number"),
            )
        })
    }

    fn whole(&self, pointer: &str) -> Option<i64> {
        self.value.pointer(pointer).and_then(Value::as_i64)
    }

    /// Whether Cluster API has seen it as it is.
    pub fn is_observed(&self) -> bool {
        let generation = self.whole("/metadata/generation");
        generation.is_some() && generation == self.whole("/status/observedGeneration")
    }

    /// Whether Cluster API has seen it as it is, and there are as many Machines as it wants.
    pub fn is_settled(&self) -> bool {
        self.is_observed()
            && self.whole("/status/replicas").unwrap_or_default()
                == self.whole("/spec/replicas").unwrap_or(-1)
    }

    /// Whether Cluster API makes no machine anew when the template changes, but only when one is deleted.
    pub fn is_on_delete(&self) -> bool {
        self.strategy() == "OnDelete"
    }

    /// The strategy, where either version of the API has it.
    pub fn strategy(&self) -> &str {
        match self.text("/spec/rollout/strategy/type") {
            "" => self.text("/spec/strategy/type"),
            found => found,
        }
    }

    /// Whether numo may change it.
    ///
    /// Errors: somebody else says what it is, or it is paused, or goes.
    pub fn changeable(&self) -> Result<(), Failure> {
        let shown = self.group.shown();
        let has = |part: &str, key: &str| {
            let at = format!("/metadata/{part}/{}", token(key));
            self.value.pointer(&at).is_some()
        };
        if !self.text("/metadata/deletionTimestamp").is_empty() {
            return Err(failure(
                FailureCode::NotFound,
                format!("{shown} is being deleted"),
            ));
        }
        if has("labels", TOPOLOGY) {
            let words = format!(
                "{shown}, label {TOPOLOGY}: found it, wanted none; the topology of Cluster {} would undo what numo writes",
                self.text("/spec/clusterName")
            );
            return Err(failure(FailureCode::Other, words));
        }
        if has("annotations", REPLICAS_MANAGED) {
            let words = format!("{shown}, annotation {REPLICAS_MANAGED}: found it, wanted none");
            return Err(failure(FailureCode::Other, words));
        }
        let is_paused =
            has("annotations", PAUSED) || self.value.pointer("/spec/paused") == Some(&Value::Bool(true));
        if is_paused && self.ledger.hold.is_none() {
            let mut failed = failure(
                FailureCode::Unavailable,
                format!("{shown} is paused by somebody, and Cluster API does nothing with it"),
            );
            failed.retry_after_seconds = Some(60);
            return Err(failed);
        }
        Ok(())
    }

    /// Changes it together with its ledger, if neither is otherwise by now. Whether it was changed.
    ///
    /// What is tested: the uid, `spec.replicas`, and the ledger; where there is none yet the resource version instead.
    pub fn patch(
        &self,
        host: &impl Host,
        config: &Config,
        ledger: Option<&Ledger>,
        changes: Vec<Value>,
    ) -> Result<bool, Failure> {
        Ok(self.write(host, config, ledger, changes)?.is_some())
    }

    /// The same, and how it is then; none if it was not changed.
    pub fn patched(
        &self,
        host: &impl Host,
        config: &Config,
        ledger: &Ledger,
        changes: Vec<Value>,
    ) -> Result<Option<Self>, Failure> {
        let Some(json) = self.write(host, config, Some(ledger), changes)? else {
            return Ok(None);
        };
        let value = objects::parse(&json, self.group.kind.name())?;
        Self::of(self.group.clone(), value, config).map(Some)
    }

    /// Writes the patch: the object as it is then; none if it was not changed.
    fn write(
        &self,
        host: &impl Host,
        config: &Config,
        ledger: Option<&Ledger>,
        mut changes: Vec<Value>,
    ) -> Result<Option<String>, Failure> {
        let at = format!("/metadata/annotations/{}", token(LEDGER));
        let test =
            |pointer: &str| json!({"op": "test", "path": pointer, "value": self.value.pointer(pointer)});
        let mut patch = vec![test("/metadata/uid"), test("/spec/replicas")];
        if self.value.pointer(&at).is_some() {
            patch.push(test(&at));
        } else {
            patch.push(test("/metadata/resourceVersion"));
            if self.value.pointer("/metadata/annotations").is_none() {
                patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
            }
        }
        patch.append(&mut changes);
        if let Some(ledger) = ledger {
            patch.push(json!({"op": "add", "path": at, "value": ledger.write()?}));
        }
        let reference = self.group.reference(config);
        match host.patch_object(&reference, &Value::Array(patch).to_string()) {
            Ok(json) => Ok(Some(json)),
            Err(error) if status(&error) == Some(422) => Ok(None),
            Err(error) => Err(of_object(&error, &reference)),
        }
    }
}

/// Somebody else writes a group or Machine again and again.
pub fn contended(what: &str) -> Failure {
    let mut failed = failure(
        FailureCode::Unavailable,
        format!("{what}: others wrote it meanwhile, each time numo tried"),
    );
    failed.retry_after_seconds = Some(2);
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_without_regard_to_case() {
        let group = Group::parse("MachineDeployment/Ns/Workers.1").unwrap();
        assert_eq!(group.id(), "machinedeployment/ns/workers.1");
        assert_eq!(group.object_name(), "machinedeployment.ns.workers.1");
        assert_eq!(group.autoscaler_name(), "MachineDeployment/ns/workers.1");
        assert_eq!(Group::parse("machinepool/a/b").unwrap().kind, Kind::Pool);
        let long = format!("machinedeployment/a/{}", "b".repeat(64));
        for wrong in [
            "",
            "machinedeployment",
            "machinedeployment/a",
            "machinedeployment/a/b/c",
            "kubeadmcontrolplane/a/b",
            "machinedeployment/a.b/c",
            "machinedeployment//b",
            "machinedeployment/a/",
            "machinedeployment/a/b?x",
            &long,
        ] {
            let failed = Group::parse(wrong).unwrap_err();
            assert_eq!(failed.code, FailureCode::Invalid, "{wrong}");
        }
    }
}
