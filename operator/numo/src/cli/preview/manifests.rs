//! Manifests that are taken for applied. The API server judges them by dry run, where there is one.

use crate::{
    cli::error::{self, CliError},
    shell::{client::Connection, kind::Kind, project, store::Store, watch, watched},
};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    core::DynamicObject,
};
use numo_core::{Owner, OwnerKind, observed::Key};
use std::path::PathBuf;

/// All objects of a file.
pub(super) fn manifests(path: &PathBuf) -> Result<Vec<DynamicObject>, CliError> {
    let wrong = |words: String| CliError::Usage(format!("-f {}: {words}", path.display()));
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin()).map_err(|error| wrong(error.to_string()))?
    } else {
        std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?
    };
    let values: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| wrong(error.to_string()))?;
    // As `kubectl get -o yaml` writes several.
    let unfolded = |value: serde_json::Value| match value["items"].as_array() {
        Some(items) if value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
        _ => vec![value],
    };
    let objects = values
        .into_iter()
        .filter(|value| !value.is_null())
        .flat_map(unfolded)
        .map(serde_json::from_value);
    objects
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(format!("found no Kubernetes object: {error}")))
}

/// Takes manifests for applied: judged by the API server's dry run, where there is one. Returns the owners among them.
pub(super) async fn take_in(
    connection: Option<&Connection>,
    store: &mut Store,
    objects: Vec<DynamicObject>,
    namespace: &str,
    now: Timestamp,
) -> Result<Vec<Owner>, CliError> {
    const OURS: [Kind; 9] = [
        Kind::MutexRule,
        Kind::MutexTarget,
        Kind::MutexRunConfig,
        Kind::MutexBudget,
        Kind::MutexBinding,
        Kind::NodeMaintenance,
        Kind::KubeVirtMaintenance,
        Kind::Plan,
        Kind::Namespace,
    ];
    let mut owners = Vec::new();
    for mut object in objects {
        let types = object.types.clone().unwrap_or_default();
        let known = OURS.into_iter().find(|kind| {
            let (group, _, name, _) = kind.resource();
            let given = types.api_version.split_once('/').map_or("", |(group, _)| group);
            name == types.kind && given == group
        });
        let name = object.name_any();
        let about = format!("{} {name}", types.kind);
        let Some(kind) = known else {
            eprintln!("numo: {about} is passed over: no decision reads it");
            continue;
        };
        let is_namespaced = matches!(
            kind,
            Kind::MutexRule | Kind::MutexTarget | Kind::MutexRunConfig | Kind::Plan
        );
        if is_namespaced {
            object
                .metadata
                .namespace
                .get_or_insert_with(|| namespace.to_owned());
        }
        let place = object.metadata.namespace.clone().unwrap_or_default();
        if let Some(connection) = connection {
            let params = PatchParams {
                dry_run: true,
                force: true,
                field_manager: Some("numo-preview".to_owned()),
                ..PatchParams::default()
            };
            let api = watch::api(&connection.write, kind, if is_namespaced { &place } else { "" });
            object =
                api.patch(&name, &params, &Patch::Apply(&object))
                    .await
                    .map_err(|error| match error {
                        // The manifest is the caller's.
                        kube::Error::Api(status) if matches!(status.code, 400 | 422) => {
                            CliError::Usage(format!("{about}: {}", status.message))
                        }
                        error => error::api(about.as_str())(error),
                    })?;
        } else {
            let metadata = &mut object.metadata;
            metadata.uid.get_or_insert_with(|| format!("imagined-{name}"));
            metadata.generation.get_or_insert(1);
        }
        // What waits for what may be applied with it has waited.
        let earlier = now - jiff::SignedDuration::from_mins(1);
        object.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(earlier));
        let key = Key::new(if is_namespaced { place.as_str() } else { "" }, name.as_str());
        owners.extend(match kind {
            Kind::MutexRunConfig => Some(Owner::run(key)),
            Kind::Plan => Some(Owner::plan(key)),
            Kind::NodeMaintenance | Kind::KubeVirtMaintenance => Some(Owner {
                kind: OwnerKind::NodeMaintenance(if kind == Kind::NodeMaintenance {
                    numo_core::MaintenanceGroup::Medik8s
                } else {
                    numo_core::MaintenanceGroup::KubeVirt
                }),
                key,
            }),
            _ => None,
        });
        let number = project::version(&object.metadata).max(1);
        let Some(object) = watched::object(kind, &object) else {
            return Err(CliError::Usage(format!("{} {name} cannot be read", types.kind)));
        };
        // Over what the cluster has, whatever its number.
        store.own(kind, number.saturating_add(1_000_000_000), object);
    }
    Ok(owners)
}
