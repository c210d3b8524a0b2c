//! `spec.wasm` and `status.wasm` of a MutexRule: the component, its configuration, and what it is granted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A component that is evaluated for a verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WasmRule {
    /// The component as an OCI artifact, such as registry.example.com/team/rule@sha256:…. A tag is resolved once for
    /// each generation of the rule; `status.wasm.image` says to what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// The component in a ConfigMap. It is read once for each generation of the rule: to bring a new component,
    /// name another ConfigMap or key. numo needs the right to read it, by a RoleBinding to the ClusterRole
    /// `numo-rule-components` in the namespace of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapKey>,
    /// Secret of type kubernetes.io/dockerconfigjson in the namespace of the rule, to fetch `image` with. numo needs
    /// the right to read it, by a RoleBinding to the ClusterRole `numo-rule-pull-secrets` in the namespace of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = "^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$"))]
    pub pull_secret_name: Option<String>,
    /// Who must have signed `image`. The operator may ask for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<SignaturePolicy>,
    /// What the component is told with each question; it says itself what it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub config: Option<serde_json::Value>,
    /// ServiceAccount in the namespace of the rule; the component reads no more of the cluster than it may.
    /// Default: default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = "^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$"))]
    pub service_account_name: Option<String>,
    /// What the component is granted. Nothing that is not named here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants: Option<RuleGrants>,
    /// What one evaluation may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<RuleLimits>,
}

/// A key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKey {
    /// Name of a ConfigMap in the namespace of the rule.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Key in its `binaryData`, or in its `data`.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Who must have signed a component. One signature by one of the keys or identities is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignaturePolicy {
    /// Public keys, ECDSA P-256 or Ed25519, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 16),
        inner(length(max = 4096), regex(pattern = "-----BEGIN PUBLIC KEY-----"))
    )]
    pub keys: Option<Vec<String>>,
    /// Keyless signers, in Sigstore bundles, checked against the trust root that numo was given
    /// (--sigstore-trusted-root); without one they are never met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub identities: Option<Vec<KeylessIdentity>>,
    /// The repository that the signature itself must name, letter by letter, such as registry.example.com/team/rule: the
    /// docker-reference of a `.sig` signature, the name of the subject of a bundle. cosign's bundles name none and do not
    /// count where this is set; those of `numo plugin sign` do. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub repository: Option<String>,
    /// What annotations of the signature itself must say (`cosign sign -a key=value`), each exactly. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::annotations")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Enforce: what nobody of them signed is not run. Warn: it is run, and the condition Verified says so.
    /// Default: Enforce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SignatureMode>,
}

/// A keyless signer. Both are compared exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeylessIdentity {
    /// Who vouched for it, such as https://token.actions.githubusercontent.com.
    #[schemars(length(min = 1, max = 512))]
    pub issuer: String,
    /// A mail address or URI.
    #[schemars(length(min = 1, max = 512))]
    pub subject: String,
}

/// What follows from a component that nobody named has signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum SignatureMode {
    #[default]
    Enforce,
    Warn,
}

/// What a component is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleGrants {
    /// Objects that it may read, as far as its ServiceAccount and numo may read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub kubernetes: Option<Vec<KubernetesGrant>>,
    /// Servers that it may query, by GET and HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub http: Option<Vec<HttpGrant>>,
    /// Queries to the Prometheus that numo was told of. The namespace needs the label
    /// `numo.openshift-optional.skrzypek.io/rule-network: cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusGrant>,
}

/// Objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesGrant {
    /// Such as v1 or policy/v1.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// Such as PodDisruptionBudget. Secrets are granted only where numo runs with --rules-read-secrets.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Only in these namespaces. Default: in all, and objects without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Only these. Default: every name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub names: Option<Vec<String>>,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpGrant {
    /// A name or an address, exactly.
    #[schemars(length(min = 1, max = 253))]
    pub host: String,
    /// Default: 443 for https, 80 for http.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,
    /// Default: https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Addresses or ranges that the name may lead to although they are private, of the cluster, loopback or
    /// link-local. The namespace needs the label `numo.openshift-optional.skrzypek.io/rule-network: cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(max = 64)))]
    pub addresses: Option<Vec<String>>,
    /// Names of Secrets in the namespace of the rule that may be attached, unseen by the component: with key `token`,
    /// with `username` and `password`, or with `header` and `value`; its annotation
    /// `numo.openshift-optional.skrzypek.io/rule-hosts` names the hosts. numo needs the right to read them, by a RoleBinding
    /// to the ClusterRole `numo-rule-pull-secrets`, or a Role with resourceNames, in the namespace of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 8),
        inner(length(max = 63), regex(pattern = "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))
    )]
    pub credentials: Option<Vec<String>>,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Scheme {
    #[default]
    Https,
    Http,
}

/// Instant queries to numo's Prometheus. It has no parts yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrometheusGrant {}

/// What one evaluation may use, within what the operator allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleLimits {
    /// Seconds that one evaluation may take. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60))]
    pub evaluation_seconds: Option<i32>,
    /// Memory, at most 256Mi. Default: 64Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[1-9][0-9]{0,11}(Ki|Mi|Gi)?$"))]
    pub memory: Option<String>,
    /// Calls of granted host functions. Default: 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5000))]
    pub host_calls: Option<i32>,
    /// Bytes that the host hands over, at most 128Mi. Default: 16Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[1-9][0-9]{0,11}(Ki|Mi|Gi)?$"))]
    pub host_bytes: Option<String>,
}

/// What a component is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WasmStatus {
    /// The artifact that it is from, by digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub image: Option<String>,
    /// Version of the component, as its author annotated it (org.opencontainers.image.version).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// The highest version that this rule had from that repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<SeenVersion>,
    /// Who has signed the component, of the keys and identities that `spec.wasm.signature` and the operator ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub signer: Option<String>,
    /// Digest of the component, `sha256:` and hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub digest: Option<String>,
    /// Bytes of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Version of the contract that it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub contract_version: Option<String>,
    /// The interfaces that it imports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 256)))]
    pub imports: Vec<String>,
    /// What it wants to be granted, and what for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub wants: Vec<Want>,
    /// What of that `spec.wasm.grants` does not grant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub missing_grants: Vec<Want>,
}

/// A version that a rule's component had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenVersion {
    /// Where it was from, such as registry.example.com/team/rule.
    #[schemars(length(max = 512))]
    pub repository: String,
    /// Such as 1.2.0.
    #[schemars(length(max = 128))]
    pub version: String,
}

/// Something that a component wants to be granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Want {
    /// Such as numo:host/kubernetes.
    #[schemars(length(max = 256))]
    pub capability: String,
    /// Such as policy/v1/PodDisruptionBudget or status.example.com:443; empty for any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub target: String,
    /// What it says it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub purpose: String,
    /// Whether it comes to a verdict without.
    #[serde(default)]
    pub optional: bool,
}
