//! All CRDs, as `deploy/crds` holds them.

use crate::{machines, shape, validations};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube_core::CustomResourceExt;
use std::collections::BTreeMap;

/// The greatest length of a list that no request reaches: no bound, for who writes one.
pub const NO_BOUND: i64 = shape::MOST_OF_A_REQUEST;

/// Every CRD that numo installs by itself, in the order in which they are installed.
pub fn all() -> Vec<CustomResourceDefinition> {
    let [medik8s, kubevirt] = crate::node_maintenance::crds();
    let derived = [
        without_required_spec(crate::MutexRule::crd()),
        without_required_spec(crate::MutexTarget::crd()),
        without_required_spec(crate::MutexRunConfig::crd()),
        crate::NodeChange::crd(),
        crate::MutexBudget::crd(),
        crate::MutexWindow::crd(),
        crate::MutexBinding::crd(),
        crate::MutexNotifier::crd(),
        crate::MutexApproval::crd(),
        medik8s,
        kubevirt,
        without_required_referents(crate::plan::crd()),
    ];
    let shaped = derived.into_iter().map(shape::shaped);
    shaped.map(validations::validated).collect()
}

/// The CRDs of machines that are replaced, which are installed where they are asked for.
pub fn machines() -> Vec<CustomResourceDefinition> {
    let derived = [
        without_required_spec(machines::NodeVersion::crd()),
        without_required_spec(machines::ScalingGroup::crd()),
        without_required_spec(machines::PendingNode::crd()),
        without_required_spec(machines::JoiningNode::crd()),
        without_required_spec(machines::AutoscalingStrategy::crd()),
    ];
    let shaped = derived.into_iter().map(shape::shaped);
    shaped.map(validations::validated).collect()
}

/// Kubernetes lets the names of references be empty, and so does the schema of the replaced operator.
fn without_required_referents(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    fn walk(schema: &mut JSONSchemaProps) {
        let is_reference = |properties: &BTreeMap<String, JSONSchemaProps>| {
            let name = properties
                .get("name")
                .and_then(|name| name.description.as_deref());
            name.is_some_and(|words| words.starts_with("Name of the referent"))
        };
        if schema.properties.as_ref().is_some_and(is_reference)
            && let Some(required) = &mut schema.required
        {
            required.retain(|field| field != "name");
        }
        schema.required.take_if(|required| required.is_empty());
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
            walk(items);
        }
        schema
            .properties
            .iter_mut()
            .flat_map(BTreeMap::values_mut)
            .for_each(walk);
    }
    let schemas = crd
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut());
    schemas
        .filter_map(|schema| schema.open_api_v3_schema.as_mut())
        .for_each(walk);
    crd
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
