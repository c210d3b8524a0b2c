//! What an administrator lends a provider of machines: servers of the cloud, and objects of named kinds. Only compares.

use serde::{Deserialize, Serialize};

use crate::{
    grants::{Grants, KubernetesGrant},
    verdict::ObjectRef,
};

/// `grants` of the provider's configuration. Nothing is granted that is not named here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProviderGrants {
    /// Servers of the cloud.
    pub cloud: Vec<CloudGrant>,
    /// Objects of the cluster.
    pub kubernetes: Vec<ObjectGrant>,
}

/// One server of the cloud, spoken to with TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloudGrant {
    /// A name or an address, exactly; no patterns.
    pub host: String,
    /// None: 443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// `GET`, `POST` and so on. Empty: every method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Names of the credentials that requests may be signed with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
}

/// What may be written of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Write {
    /// Make objects.
    Create,
    /// Change them by a JSON patch.
    Patch,
    /// Delete them.
    Delete,
}

impl Write {
    /// As it is written in a grant.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// Objects of one kind: they may be read, and written as far as `write` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectGrant {
    /// `cluster.x-k8s.io/v1beta1`.
    pub api_version: String,
    /// `MachineDeployment`.
    pub kind: String,
    /// Only in these; at least one for what is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// What may be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<Write>,
}

/// API groups whose objects no provider writes, and those below them: numo decides over them, or other operators do.
const NOT_WRITTEN: [&str; 7] = [
    numo_api::GROUP,
    numo_api::machines::UPDATE_GROUP,
    "upgrade.cattle.io",
    "nodemaintenance.medik8s.io",
    "nodemaintenance.kubevirt.io",
    "openshift.io",
    "k8s.io",
];
/// Groups below `k8s.io` that belong to projects, as Cluster API's do.
const OF_PROJECTS: &str = ".x-k8s.io";
/// Kinds of `v1` that providers may write: `sim` plays machines with ConfigMaps.
const WRITTEN_OF_CORE: [&str; 1] = ["ConfigMap"];

/// Whether objects of a group may be written. One without a dot is Kubernetes' own: `apps`, `batch`.
fn is_written(group: &str) -> bool {
    let is_below = |one: &str| group == one || group.ends_with(&format!(".{one}"));
    let is_refused = NOT_WRITTEN.iter().any(|one| is_below(one));
    group.contains('.') && (!is_refused || group.ends_with(OF_PROJECTS))
}

impl ObjectGrant {
    /// What is wrong with it, if anything.
    pub fn fault(&self) -> Option<String> {
        let about = format!("grants.kubernetes of {} {}", self.api_version, self.kind);
        if self.api_version == "v1" && self.kind == "Secret" {
            return Some(format!("{about}: providers read and write no Secrets"));
        }
        if self.write.is_empty() {
            return None;
        }
        if self.namespaces.is_empty() {
            return Some(format!(
                "{about}, namespaces: found none, wanted at least one for what is written"
            ));
        }
        let group = self.api_version.split_once('/').map(|(group, _)| group);
        let is_refused = match group {
            None => !WRITTEN_OF_CORE.contains(&self.kind.as_str()),
            Some(group) => !is_written(group),
        };
        is_refused.then(|| format!("{about}, write: no provider writes objects of this kind"))
    }

    fn covers(&self, object: &ObjectRef, write: Write) -> bool {
        self.api_version == object.api_version
            && self.kind == object.kind
            && self.write.contains(&write)
            && object
                .namespace
                .as_ref()
                .is_some_and(|namespace| self.namespaces.contains(namespace))
    }
}

impl CloudGrant {
    /// Its port.
    pub fn effective_port(&self) -> u16 {
        self.port.unwrap_or(443)
    }

    /// Whether the method may be used.
    pub fn has_method(&self, method: &str) -> bool {
        let mut methods = self.methods.iter();
        self.methods.is_empty() || methods.any(|one| one.eq_ignore_ascii_case(method))
    }
}

impl ProviderGrants {
    /// The grant for this server.
    pub fn cloud_for(&self, host: &str, port: u16) -> Option<&CloudGrant> {
        let mut grants = self.cloud.iter();
        grants.find(|grant| grant.host.eq_ignore_ascii_case(host) && grant.effective_port() == port)
    }

    /// Whether an object may be written so.
    pub fn cover_write(&self, object: &ObjectRef, write: Write) -> bool {
        self.kubernetes.iter().any(|grant| grant.covers(object, write))
    }

    /// What may be read, in the form that rules have it in.
    pub fn reads(&self) -> Grants {
        let grant = |one: &ObjectGrant| KubernetesGrant {
            api_version: one.api_version.clone(),
            kind: one.kind.clone(),
            namespaces: one.namespaces.clone(),
            names: Vec::new(),
        };
        Grants {
            kubernetes: self.kubernetes.iter().map(grant).collect(),
            ..Grants::default()
        }
    }

    /// The first fault, if any.
    pub fn fault(&self) -> Option<String> {
        self.kubernetes.iter().find_map(ObjectGrant::fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(api_version: &str, kind: &str, write: &[Write]) -> ObjectGrant {
        ObjectGrant {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespaces: vec!["capi".to_owned()],
            write: write.to_vec(),
        }
    }

    #[test]
    fn what_numo_decides_over_is_never_a_providers_to_write() {
        let patch = [Write::Patch];
        for (api_version, kind) in [
            ("v1", "Node"),
            ("v1", "Pod"),
            ("v1", "Secret"),
            ("update.edgeless.systems/v1alpha1", "PendingNode"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("authorization.openshift.io/v1", "RoleBinding"),
            ("machineconfiguration.openshift.io/v1", "MachineConfigPool"),
            ("numo.openshift-optional.skrzypek.io/v1alpha1", "NodeChange"),
            ("nodemaintenance.kubevirt.io/v1beta1", "NodeMaintenance"),
            ("coordination.k8s.io/v1", "Lease"),
            ("apps/v1", "Deployment"),
        ] {
            assert!(grant(api_version, kind, &patch).fault().is_some(), "{kind}");
        }
        assert_eq!(grant("v1", "Node", &[]).fault(), None, "reading is harmless");
        assert!(grant("v1", "Secret", &[]).fault().is_some());
        assert_eq!(grant("cluster.x-k8s.io/v1beta1", "Machine", &patch).fault(), None);
        let mut anywhere = grant("cluster.x-k8s.io/v1beta1", "Machine", &patch);
        anywhere.namespaces.clear();
        assert!(anywhere.fault().is_some_and(|fault| fault.contains("namespaces")));
    }

    #[test]
    fn a_write_needs_kind_namespace_and_verb() {
        let grants = ProviderGrants {
            kubernetes: vec![grant("cluster.x-k8s.io/v1beta1", "Machine", &[Write::Patch])],
            ..ProviderGrants::default()
        };
        let machine = |namespace: Option<&str>| ObjectRef {
            api_version: "cluster.x-k8s.io/v1beta1".to_owned(),
            kind: "Machine".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "m".to_owned(),
        };
        assert!(grants.cover_write(&machine(Some("capi")), Write::Patch));
        assert!(!grants.cover_write(&machine(Some("capi")), Write::Delete));
        assert!(!grants.cover_write(&machine(Some("kube-system")), Write::Patch));
        assert!(!grants.cover_write(&machine(None), Write::Patch));
    }
}
