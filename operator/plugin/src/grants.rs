//! What a MutexRule lends its rule, and what a rule's wants need of it. Only compares; who may grant what to whom is
//! the operator's question, and so is what the rule's ServiceAccount may read.

use serde::{Deserialize, Serialize};

use crate::{
    address::AddressRange,
    description::{Description, Want},
    inspect::Inspection,
    verdict::ObjectRef,
};

/// `spec.wasm.grants`. Nothing is granted that is not named here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Grants {
    /// Objects that may be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubernetes: Vec<KubernetesGrant>,
    /// Servers that may be asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpGrant>,
    /// The operator's Prometheus, if it may be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusGrant>,
}

/// Objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubernetesGrant {
    /// `v1`, `policy/v1`.
    pub api_version: String,
    /// `PodDisruptionBudget`. `Secret` of `v1` also needs a flag of the operator.
    pub kind: String,
    /// Only in these. Empty: in every namespace, and objects without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Only these. Empty: every name. With names, a list is only allowed with the field selector
    /// `metadata.name=<one of them>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpGrant {
    /// A name or an address, exactly; no patterns.
    pub host: String,
    /// None: 443 for `https`, 80 for `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// `https` unless said otherwise.
    #[serde(default)]
    pub scheme: Scheme,
    /// Addresses that the name may lead to although they are loopback, link-local or the cluster's: `10.0.0.0/8`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressRange>,
    /// Names of the credentials that the component may have attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// With TLS, the server's certificate checked.
    #[default]
    Https,
    /// Without.
    Http,
}

impl Scheme {
    /// As in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    /// Its port where a URL or a grant names none.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

impl HttpGrant {
    /// Its port, or the scheme's.
    pub fn effective_port(&self) -> u16 {
        self.port.unwrap_or(self.scheme.default_port())
    }
}

/// Instant queries to the operator's Prometheus. It has no parts yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrometheusGrant {}

impl Grants {
    /// Whether this one object may be read.
    pub fn cover_object(&self, object: &ObjectRef) -> bool {
        self.kubernetes.iter().any(|grant| {
            grant.is_of(&object.api_version, &object.kind)
                && grant.reaches(object.namespace.as_deref())
                && (grant.names.is_empty() || grant.names.contains(&object.name))
        })
    }

    /// Whether everything that a list could answer may be read: one grant has to cover it whole.
    pub fn cover_list(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> bool {
        self.kubernetes.iter().any(|grant| {
            grant.is_of(api_version, kind)
                && grant.reaches(namespace)
                && (grant.names.is_empty()
                    || name.is_some_and(|name| grant.names.iter().any(|one| one == name)))
        })
    }

    /// The grant for this server.
    pub fn http_for(&self, scheme: Scheme, host: &str, port: u16) -> Option<&HttpGrant> {
        self.http.iter().find(|grant| {
            grant.scheme == scheme && grant.host.eq_ignore_ascii_case(host) && grant.effective_port() == port
        })
    }

    /// What the rule wants and these grants lack; the required first. A rule is asked nothing while one that is not
    /// optional is missing.
    pub(crate) fn missing(&self, description: &Description, inspection: &Inspection) -> Vec<MissingGrant> {
        let mut missing: Vec<_> = description
            .wants
            .iter()
            .filter(|want| !self.satisfy(&want.capability, &want.target))
            .map(MissingGrant::from_want)
            .collect();
        for interface in inspection.host_interfaces() {
            let capability = format!("numo:host/{}", interface.name);
            let named = description.wants.iter().any(|want| want.capability == capability);
            if interface.needs_grant() && !named && !self.satisfy(&capability, "") {
                let purpose = "the component calls it and does not say what for".to_owned();
                missing.push(MissingGrant {
                    capability,
                    target: String::new(),
                    purpose,
                    optional: false,
                });
            }
        }
        missing.sort_by_key(|missing| missing.optional);
        missing
    }

    fn satisfy(&self, capability: &str, target: &str) -> bool {
        match capability {
            "numo:host/kubernetes" => match target.rsplit_once('/') {
                None => !self.kubernetes.is_empty(),
                Some((api_version, kind)) => {
                    self.kubernetes.iter().any(|grant| grant.is_of(api_version, kind))
                }
            },
            "numo:host/http" => match target.rsplit_once(':') {
                None => !self.http.is_empty(),
                Some((host, port)) => self.http.iter().any(|grant| {
                    grant.host.eq_ignore_ascii_case(host) && grant.effective_port().to_string() == port
                }),
            },
            "numo:host/prometheus" => self.prometheus.is_some(),
            "numo:host/log" | "numo:host/clock" | "numo:host/history" | "numo:host/types" => true,
            // A capability of a later numo: nothing here can grant it.
            _ => false,
        }
    }
}

impl KubernetesGrant {
    fn is_of(&self, api_version: &str, kind: &str) -> bool {
        self.api_version == api_version && self.kind == kind
    }

    /// None asks for all namespaces, or for a cluster-scoped kind.
    fn reaches(&self, namespace: Option<&str>) -> bool {
        self.namespaces.is_empty()
            || namespace.is_some_and(|asked| self.namespaces.iter().any(|one| one == asked))
    }
}

/// A want that no grant covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingGrant {
    /// `numo:host/kubernetes`.
    pub capability: String,
    /// `policy/v1/PodDisruptionBudget`, `status.example.com:443`, or empty: any.
    pub target: String,
    /// What the rule says it is for.
    pub purpose: String,
    /// The rule comes to a verdict without it too.
    pub optional: bool,
}

impl MissingGrant {
    fn from_want(want: &Want) -> Self {
        Self {
            capability: want.capability.clone(),
            target: want.target.clone(),
            purpose: want.purpose.clone(),
            optional: want.optional,
        }
    }
}

impl std::fmt::Display for MissingGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = self
            .capability
            .strip_prefix("numo:host/")
            .unwrap_or(&self.capability);
        write!(f, "grants.{short}")?;
        if !self.target.is_empty() {
            write!(f, " {}", self.target)?;
        }
        write!(f, " ({})", self.purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(namespaces: &[&str], names: &[&str]) -> Grants {
        let strings = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        let grant = KubernetesGrant {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespaces: strings(namespaces),
            names: strings(names),
        };
        Grants {
            kubernetes: vec![grant],
            ..Grants::default()
        }
    }

    #[test]
    fn a_list_must_be_covered_whole() {
        let check = |grants: &Grants, namespace, name, expect| {
            assert_eq!(
                grants.cover_list("v1", "Pod", namespace, name),
                expect,
                "{grants:?} {namespace:?} {name:?}"
            );
        };
        check(&pods(&[], &[]), None, None, true);
        check(&pods(&[], &[]), Some("a"), None, true);
        check(&pods(&["a"], &[]), Some("a"), None, true);
        check(&pods(&["a"], &[]), Some("b"), None, false);
        check(&pods(&["a"], &[]), None, None, false);
        check(&pods(&["a"], &["x"]), Some("a"), None, false);
        check(&pods(&["a"], &["x"]), Some("a"), Some("x"), true);
        check(&pods(&["a"], &["x"]), Some("a"), Some("y"), false);
        assert!(!pods(&[], &[]).cover_list("v1", "Secret", None, None));
        assert!(!pods(&[], &[]).cover_list("apps/v1", "Pod", None, None));
    }

    #[test]
    fn an_object_needs_kind_namespace_and_name() {
        let pod = |namespace: &str, name: &str| ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some(namespace.into()),
            name: name.into(),
        };
        assert!(pods(&["a"], &["x"]).cover_object(&pod("a", "x")));
        assert!(!pods(&["a"], &["x"]).cover_object(&pod("a", "y")));
        assert!(!pods(&["a"], &["x"]).cover_object(&pod("b", "x")));
        assert!(!Grants::default().cover_object(&pod("a", "x")));
    }

    #[test]
    fn grants_are_read_as_they_are_written_in_a_mutex_rule() {
        let grants: Grants = serde_json::from_value(serde_json::json!({
            "kubernetes": [{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}],
            "http": [{"host": "status.example.com", "addresses": ["10.0.0.0/8"]}],
            "prometheus": {},
        }))
        .unwrap();
        assert_eq!(grants.http[0].effective_port(), 443);
        assert!(grants.satisfy("numo:host/kubernetes", "policy/v1/PodDisruptionBudget"));
        assert!(!grants.satisfy("numo:host/kubernetes", "v1/Pod"));
        assert!(grants.satisfy("numo:host/http", "status.example.com:443"));
        assert!(!grants.satisfy("numo:host/http", "status.example.com:8443"));
        assert!(!grants.satisfy("numo:host/teleport", ""));
    }
}
