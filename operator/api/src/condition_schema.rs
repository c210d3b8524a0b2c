//! The schema of a condition as Kubernetes has it (`metav1.Condition`), for every kind whose conditions only numo, or an operator that
//! has the same, has ever written. So `kubectl wait`, kstatus and Argo CD read them as they read those of Deployments, and no writer can
//! leave one without status, reason or time.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSON, JSONSchemaProps};
use serde_json::json;

/// A CamelCase word; what Kubernetes takes for one.
const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// A word, and a DNS name with a slash before it or none.
const TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// Every field but `observedGeneration`.
const REQUIRED: [&str; 5] = ["lastTransitionTime", "message", "reason", "status", "type"];

/// Bounds the fields of a condition. Their greatest lengths and the format of the time stand there already.
pub(crate) fn bound(condition: &mut JSONSchemaProps) {
    condition.required = Some(REQUIRED.map(str::to_owned).to_vec());
    for (name, field) in condition.properties.iter_mut().flatten() {
        match name.as_str() {
            "type" => field.pattern = Some(TYPE.to_owned()),
            "status" => {
                field.enum_ = Some(["True", "False", "Unknown"].map(|one| JSON(json!(one))).to_vec());
                field.default = None;
                field.max_length = None;
            }
            "reason" => {
                field.min_length = Some(1);
                field.pattern = Some(REASON.to_owned());
            }
            "observedGeneration" => field.minimum = Some(0.0),
            // The format bounds it.
            "lastTransitionTime" => field.max_length = None,
            _ => {}
        }
    }
}
