//! All CRDs, as `deploy/crds` holds them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// Every CRD numo defines, in the order in which they are installed.
pub fn all() -> Vec<CustomResourceDefinition> {
    let [medik8s, kubevirt] = crate::node_maintenance::crds();
    vec![
        without_required_spec(crate::MutexRule::crd()),
        without_required_spec(crate::MutexTarget::crd()),
        without_required_spec(crate::MutexRunConfig::crd()),
        crate::NodeChange::crd(),
        crate::MutexBudget::crd(),
        crate::MutexBinding::crd(),
        medik8s,
        kubevirt,
        crate::plan::crd(),
    ]
}

/// The replaced operator's schemas require nothing, not even a spec: what they admitted stays admitted.
fn without_required_spec(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema {
            schema.required = None;
        }
    }
    crd
}
