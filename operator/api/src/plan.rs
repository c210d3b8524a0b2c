//! Plan: upgrades the nodes it selects, each by one Job on the node itself. Names of fields, printer columns, defaults
//! and condition types are those of system-upgrade-controller, the old forms that manifests still use included
//! (`spec/system-upgrade-controller.md` §1). Data only; what a Plan means is decided in `numo-core`'s plan.

use crate::mutex_settings::MutexSettings;
use k8s_openapi::{
    api::core::v1::{EnvFromSource, EnvVar, LocalObjectReference, SecurityContext, Toleration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// API group.
pub const PLAN_GROUP: &str = "upgrade.cattle.io";
/// The one version.
pub const PLAN_VERSION: &str = "v1";

/// Upgrades the nodes it selects, each by one Job on the node itself.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "upgrade.cattle.io",
    version = "v1",
    kind = "Plan",
    plural = "plans",
    namespaced,
    status = "PlanStatus",
    category = "upgrade",
    category = "numo",
    printcolumn = r#"{"name":"Image","type":"string","description":"Image that upgrades.","jsonPath":".spec.upgrade.image"}"#,
    printcolumn = r#"{"name":"Channel","type":"string","description":"URL that names the version.","jsonPath":".spec.channel"}"#,
    printcolumn = r#"{"name":"Version","type":"string","description":"Version asked for.","jsonPath":".spec.version"}"#,
    printcolumn = r#"{"name":"Complete","type":"string","description":"Whether every selected node is at the version.","jsonPath":".status.conditions[?(@.type=='Complete')].status"}"#,
    printcolumn = r#"{"name":"Message","type":"string","description":"First message of a condition.","jsonPath":".status.conditions[?(@.message!='')].message"}"#,
    printcolumn = r#"{"name":"Applying","type":"string","description":"Host names of the nodes that are being upgraded.","jsonPath":".status.applying","priority":10}"#,
    printcolumn = r#"{"name":"Reason","type":"string","description":"What it waits for.","jsonPath":".status.conditions[?(@.type=='Ready')].reason","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","description":"Time since creation","jsonPath":".metadata.creationTimestamp"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "Upgrades the nodes it selects, each by one Job on the node itself."
)]
#[serde(rename_all = "camelCase")]
pub struct PlanSpec {
    /// How many nodes may be upgraded at once. 0, as when it is absent, selects no node: the Plan is complete at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i64>,
    /// How long a Job may take, in seconds: absent or below 0 as the controller is told, 0 without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_active_deadline_secs: Option<i64>,
    /// The nodes; absent selects none, `{}` all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// ServiceAccount of the Jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// URL that answers with a redirect to the newest version, asked every 15 minutes. Ignored if `version` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Secrets that are mounted into every container; a change of one is a new hash, and a new round over all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Vec<PlanSecret>>,
    /// Tolerations of the Jobs, beside that of unschedulable nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Toleration>>")]
    pub tolerations: Option<Vec<Value>>,
    /// Whether no other exclusive Plan may run on the node at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    /// When new nodes may be begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<PlanWindow>,
    /// What runs before the node is cordoned or drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<PlanContainer>,
    /// Whether the node is cordoned. Ignored if `drain` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordon: Option<bool>,
    /// How the node is drained; absent does not drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<PlanDrain>,
    /// What upgrades the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<PlanContainer>,
    /// Pull secrets of the Jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<LocalObjectReference>>")]
    pub image_pull_secrets: Option<Vec<Value>>,
    /// How long after its Job a node counts as done, as a duration such as `30s` or `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_complete_delay: Option<String>,
    /// Labels that a node gets when it is done; `$(LATEST_HASH)` and `$(LATEST_VERSION)` are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_complete_labels: Option<BTreeMap<String, String>>,
    /// Priority class of the Jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Rules, limits and order of the nodes; system-upgrade-controller does not know it. Where its own CRD is installed
    /// it is lost: use a MutexBinding there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutex: Option<MutexSettings>,
}

/// A Secret of a Plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanSecret {
    /// Name, in the Plan's namespace.
    pub name: String,
    /// Where it is mounted; relative to `/run/system-upgrade/secrets`, empty is its name there.
    pub path: String,
    /// Whether it need not exist, and a change of it is no new hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_updates: Option<bool>,
    /// Mode of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<i32>,
}

/// When nodes may be begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanWindow {
    /// Days of the week; none is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "days")]
    pub days: Option<Vec<String>>,
    /// Time of day, for example `22:00` or `10pm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// Time of day, that second included. Before `startTime` it is of the next morning, whose day must be in `days` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<String>,
    /// Time zone by its name, for example `Europe/Warsaw`; absent is UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// Names of the days of a week as a window takes them: by number, short, three letters, whole.
pub const DAYS: [[&str; 4]; 7] = [
    ["0", "su", "sun", "sunday"],
    ["1", "mo", "mon", "monday"],
    ["2", "tu", "tue", "tuesday"],
    ["3", "we", "wed", "wednesday"],
    ["4", "th", "thu", "thursday"],
    ["5", "fr", "fri", "friday"],
    ["6", "sa", "sat", "saturday"],
];

fn days(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = DAYS.iter().flatten().copied().collect();
    json_schema!({
        "type": "array",
        "nullable": true,
        "minItems": 1,
        "items": {"type": "string", "enum": names},
    })
}

/// A container of a Plan's Jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanContainer {
    /// Image; without a tag or digest it gets the version as its tag.
    pub image: String,
    /// Command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<EnvVar>>")]
    pub envs: Option<Vec<Value>>,
    /// Environment from ConfigMaps and Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<EnvFromSource>>")]
    pub env_from: Option<Vec<Value>>,
    /// Folders of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<PlanVolume>>,
    /// Security context; without one that of `upgrade` is privileged with CAP_SYS_BOOT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SecurityContext>")]
    pub security_context: Option<Value>,
}

/// A folder of the host in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanVolume {
    /// Name.
    pub name: String,
    /// Path on the host.
    pub source: String,
    /// Path in the container.
    pub destination: String,
}

/// How a Plan drains, as options of `kubectl drain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDrain {
    /// How long the drain may take: a duration such as `5m`, or nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_string")]
    pub timeout: Option<Value>,
    /// How long a pod has to end, in seconds; below 0 as long as the pod itself says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<i32>,
    /// Older name of `deleteEmptydirData`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_local_data: Option<bool>,
    /// Whether pods with an emptyDir volume are evicted. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_emptydir_data: Option<bool>,
    /// Whether pods of a DaemonSet are left where they are. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_daemon_sets: Option<bool>,
    /// Whether pods without a controller are evicted. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Whether pods are deleted, past their PodDisruptionBudgets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_eviction: Option<bool>,
    /// A pod that has been ending for longer than this many seconds is not waited for; 0 waits for every pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_wait_for_delete_timeout: Option<i64>,
    /// Only these pods are evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
}

/// What became of a Plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// LatestResolved, Validated and Complete, as system-upgrade-controller has them; Ready, and Reconciling or Stalled
    /// while true, say what the Plan waits for and who can end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<PlanCondition>>,
    /// The version, every `+` in it as `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_version: Option<String>,
    /// What a node is labelled with that is done: stands for the version and all that a change of begins a new round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_hash: Option<String>,
    /// Host names (label `kubernetes.io/hostname`) of the nodes that are being upgraded. Upgrade images read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applying: Option<Vec<String>>,
    /// What waits for a MutexApproval; absent while nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<crate::approval::ApprovalStatus>,
}

/// A condition of a Plan. All are plain strings, as its users' tools read them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    #[serde(default)]
    pub status: String,
    /// When status or message last changed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    /// When the status last changed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Stable CamelCase reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The CRD, which requires what the reference's does: nothing but `upgrade`, where there is a spec at all.
pub fn crd() -> CustomResourceDefinition {
    let mut crd = Plan::crd();
    for version in &mut crd.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        let Some(schema) = schema else { continue };
        schema.required = None;
        let properties = schema.properties.as_mut();
        if let Some(spec) = properties.and_then(|properties| properties.get_mut("spec")) {
            spec.required = Some(vec!["upgrade".to_owned()]);
            let upgrade = spec
                .properties
                .as_mut()
                .and_then(|fields| fields.get_mut("upgrade"));
            if let Some(upgrade) = upgrade {
                upgrade.nullable = None;
            }
        }
        complete("", schema);
    }
    crd
}

/// Objects that one writer owns whole: with server-side apply the selector of a second writer replaces the first's and is
/// not mixed with it. They are those of the reference's CRD.
const ATOMIC: [&str; 10] = [
    "nodeSelector",
    "podSelector",
    "first",
    "configMapKeyRef",
    "secretKeyRef",
    "fieldRef",
    "resourceFieldRef",
    "fileKeyRef",
    "configMapRef",
    "secretRef",
];

/// Makes a schema whole where the types it was derived from are older than the reference's, or have no words for it.
fn complete(name: &str, schema: &mut JSONSchemaProps) {
    if name == "valueFrom"
        && let Some(properties) = &mut schema.properties
    {
        properties.insert("fileKeyRef".to_owned(), file_key_ref());
    }
    if ATOMIC.contains(&name) {
        schema.x_kubernetes_map_type = Some("atomic".to_owned());
    }
    for (name, inner) in schema.properties.iter_mut().flatten() {
        complete(name, inner);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        if name == "imagePullSecrets" {
            items.x_kubernetes_map_type = Some("atomic".to_owned());
        }
        complete("", items);
    }
}

/// `valueFrom.fileKeyRef` of Kubernetes 1.34: a variable from a file that an init container wrote.
fn file_key_ref() -> JSONSchemaProps {
    let text = |description: &str| JSONSchemaProps {
        description: Some(description.to_owned()),
        type_: Some("string".to_owned()),
        ..JSONSchemaProps::default()
    };
    let optional = JSONSchemaProps {
        description: Some("Whether the file or its key need not exist.".to_owned()),
        type_: Some("boolean".to_owned()),
        nullable: Some(true),
        ..JSONSchemaProps::default()
    };
    let properties = [
        ("key", text("The key in the file.")),
        ("optional", optional),
        ("path", text("Path of the file in the volume, relative.")),
        ("volumeName", text("Name of the volume that has the file.")),
    ];
    JSONSchemaProps {
        description: Some(
            "Selects a key of a file in a volume, in the form of environment files.".to_owned(),
        ),
        type_: Some("object".to_owned()),
        nullable: Some(true),
        required: Some(["key", "path", "volumeName"].map(str::to_owned).to_vec()),
        properties: Some(
            properties
                .into_iter()
                .map(|(name, schema)| (name.to_owned(), schema))
                .collect(),
        ),
        ..JSONSchemaProps::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crd_has_the_references_fields_and_owners_of_whole_objects() {
        let schema = serde_json::to_value(crd()).unwrap();
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let at = |path: &str| {
            schema
                .pointer(&format!("{spec}/{path}"))
                .cloned()
                .unwrap_or_default()
        };
        for container in ["prepare", "upgrade"] {
            let envs = format!("{container}/properties/envs/items/properties/valueFrom/properties");
            let file = at(&format!("{envs}/fileKeyRef"));
            assert_eq!(file["required"], serde_json::json!(["key", "path", "volumeName"]));
            for of in [
                "fileKeyRef",
                "configMapKeyRef",
                "secretKeyRef",
                "fieldRef",
                "resourceFieldRef",
            ] {
                assert_eq!(
                    at(&format!("{envs}/{of}/x-kubernetes-map-type")),
                    "atomic",
                    "{of}"
                );
            }
            for of in ["configMapRef", "secretRef"] {
                let path = format!("{container}/properties/envFrom/items/properties/{of}");
                assert_eq!(at(&format!("{path}/x-kubernetes-map-type")), "atomic", "{of}");
            }
        }
        for path in [
            "nodeSelector",
            "drain/properties/podSelector",
            "imagePullSecrets/items",
        ] {
            assert_eq!(at(&format!("{path}/x-kubernetes-map-type")), "atomic", "{path}");
            assert_eq!(at(&format!("{path}/type")), "object", "{path}");
        }
    }
}
