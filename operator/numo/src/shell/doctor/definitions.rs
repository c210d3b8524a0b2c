//! Checks the version of the API server, and that the definitions that are installed are those of this numo.

use super::finding::{Findings, counted};
use crate::shell::client::{Connection, is_too_old};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::{Api, ResourceExt};
use std::collections::BTreeSet;

/// Fields of numo's own on kinds that other operators define too.
const OWN_FIELDS: [&str; 3] = ["spec.mutex", "spec.mutexRules", "spec.drain"];

pub(super) async fn version(connection: &Connection, found: &mut Findings) {
    match connection.read.apiserver_version().await {
        Ok(version) => {
            if is_too_old(&version) {
                let message = format!("Kubernetes {} is too old", version.git_version);
                found.wrong(message, "numo needs 1.31 or later (OpenShift 4.18 or later)");
            } else {
                found.ok(format!("Kubernetes {}", version.git_version));
            }
        }
        Err(error) => found.unknown("the version of the API server", &error),
    }
}

/// Paths of the properties of a schema; those of list items are their list's.
fn paths(schema: &JSONSchemaProps, at: &str, out: &mut BTreeSet<String>) {
    for (name, property) in schema.properties.iter().flatten() {
        let path = if at.is_empty() {
            name.clone()
        } else {
            format!("{at}.{name}")
        };
        paths(property, &path, out);
        out.insert(path);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        paths(items, at, out);
    }
}

/// What a definition has: the paths of the version, and whether it is served.
fn fields(crd: &CustomResourceDefinition, version: &str) -> Option<BTreeSet<String>> {
    let mut versions = crd.spec.versions.iter();
    let served = versions.find(|one| one.name == version && one.served)?;
    let mut out = BTreeSet::new();
    let schema = served.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    paths(schema, "", &mut out);
    Some(out)
}

pub(super) async fn definitions(connection: &Connection, found: &mut Findings) {
    let api: Api<CustomResourceDefinition> = Api::all(connection.read.clone());
    let before = found.all.len();
    let mut number = 0;
    let mut missing = Vec::new();
    for wanted in numo_api::crds::all() {
        let name = wanted.name_any();
        let kind = &wanted.spec.names.kind;
        let is_others = matches!(kind.as_str(), "NodeMaintenance" | "Plan");
        match api.get_opt(&name).await {
            Err(error) => found.unknown(&format!("CustomResourceDefinition {name}"), &error),
            Ok(None) if is_others => found.note(
                format!("CustomResourceDefinition {name} is not there: numo serves no {kind}"),
                "install it with numo, if such objects are to be served",
            ),
            Ok(None) => missing.push(name),
            Ok(Some(crd)) => {
                number += 1;
                compare(&wanted, &crd, is_others, found);
            }
        }
    }
    if !missing.is_empty() {
        found.wrong(
            format!("{} CustomResourceDefinitions are not there: {}", missing.len(), missing.join(", ")),
            "install numo's definitions: kubectl apply -k deploy/kustomize/all/self-managed (all/kubernetes where a provider runs the \
             control plane, all/openshift on OpenShift), or crds.install=true with Helm",
        );
    }
    if found.all.len() == before {
        found.ok(format!(
            "all {number} definitions are there, with every field of this numo"
        ));
    }
}

/// The command that installs this definition, and no other one.
fn remedy(name: &str) -> String {
    format!(
        "install the definition of this numo: numo crds {name} | kubectl apply --server-side --force-conflicts -f -"
    )
}

/// Whether a definition serves every field of numo's own. Of another operator's only the fields count that gate objects.
fn compare(
    wanted: &CustomResourceDefinition,
    crd: &CustomResourceDefinition,
    is_others: bool,
    found: &mut Findings,
) {
    let name = wanted.name_any();
    let own = &wanted.spec.versions[0].name;
    let Some(has) = fields(crd, own) else {
        let message = format!("CustomResourceDefinition {name} does not serve version {own}");
        found.wrong(message, remedy(&name));
        return;
    };
    let lacks: Vec<String> = fields(wanted, own)
        .unwrap_or_default()
        .difference(&has)
        .cloned()
        .collect();
    let gates: Vec<&str> = OWN_FIELDS
        .into_iter()
        .filter(|field| lacks.iter().any(|one| one == field))
        .collect();
    if is_others && !gates.is_empty() {
        found.note(
            format!(
                "CustomResourceDefinition {name} is another operator's and drops {}",
                gates.join(" and ")
            ),
            "gate such objects by a MutexBinding, or install numo's definition",
        );
    } else if !is_others && !lacks.is_empty() {
        let first = lacks.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let message = format!(
            "CustomResourceDefinition {name} lacks {} of this numo: {first}",
            counted(lacks.len(), "field")
        );
        found.wrong(message, format!("{}; Helm and OLM do so too", remedy(&name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_definition_lacks_is_found_by_its_path() {
        let plan = numo_api::crds::all()
            .into_iter()
            .find(|crd| crd.spec.names.kind == "Plan")
            .unwrap();
        let all = fields(&plan, "v1").unwrap();
        assert!(
            OWN_FIELDS[..1].iter().all(|field| all.contains(*field)),
            "{all:?}"
        );
        assert!(all.contains("spec.upgrade.envs.name"));
        assert_eq!(fields(&plan, "v2"), None);
    }
}
