//! Manifests that are taken for applied. The API server judges them by dry run, where there is one.

use crate::{
    cli::error::{self, CliError},
    shell::{client::Connection, kind::Kind, project, store::Store, watch, watched},
};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    core::{DynamicObject, TypeMeta},
};
use numo_core::{MaintenanceGroup, Owner, OwnerKind, observed::Key};
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

/// Kinds that decisions read.
const OURS: [Kind; 12] = [
    Kind::MutexRule,
    Kind::MutexTarget,
    Kind::MutexRunConfig,
    Kind::MutexBudget,
    Kind::MutexWindow,
    Kind::MutexBinding,
    Kind::NodeMaintenance,
    Kind::KubeVirtMaintenance,
    Kind::Plan,
    Kind::NodeVersion,
    Kind::ScalingGroup,
    Kind::Namespace,
];

/// Takes manifests for applied: judged by the API server's dry run, where there is one. Returns the owners among them.
pub(super) async fn take_in(
    connection: Option<&Connection>,
    store: &mut Store,
    objects: Vec<DynamicObject>,
    namespace: &str,
    now: Timestamp,
) -> Result<Vec<Owner>, CliError> {
    let mut owners = Vec::new();
    for mut object in objects {
        let types = object.types.clone().unwrap_or_default();
        let about = format!("{} {}", types.kind, object.name_any());
        let Some(kind) = kind_of(&types) else {
            eprintln!("numo: {about} is passed over: no decision reads it");
            continue;
        };
        if is_namespaced(kind) {
            object
                .metadata
                .namespace
                .get_or_insert_with(|| namespace.to_owned());
        }
        owners.extend(owner(kind, &object));
        if let Some(connection) = connection {
            object = judged(connection, kind, &object, &about).await?;
        } else {
            let imagined = format!("imagined-{}", object.name_any());
            let metadata = &mut object.metadata;
            metadata.uid.get_or_insert(imagined);
            metadata.generation.get_or_insert(1);
        }
        // What waits for what may be applied with it has waited.
        let earlier = now - jiff::SignedDuration::from_mins(1);
        object.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(earlier));
        let number = project::version(&object.metadata).max(1);
        let Some(object) = watched::object(kind, &object) else {
            return Err(CliError::Usage(format!("{about} cannot be read")));
        };
        // Over what the cluster has, whatever its number.
        store.own(kind, number.saturating_add(1_000_000_000), object);
    }
    Ok(owners)
}

fn kind_of(types: &TypeMeta) -> Option<Kind> {
    OURS.into_iter().find(|kind| {
        let (group, _, name, _) = kind.resource();
        let given = types.api_version.split_once('/').map_or("", |(group, _)| group);
        name == types.kind && given == group
    })
}

fn is_namespaced(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MutexRule | Kind::MutexTarget | Kind::MutexRunConfig | Kind::Plan
    )
}

/// The object as the API server would have it.
async fn judged(
    connection: &Connection,
    kind: Kind,
    object: &DynamicObject,
    about: &str,
) -> Result<DynamicObject, CliError> {
    let params = PatchParams {
        dry_run: true,
        force: true,
        field_manager: Some("numo-preview".to_owned()),
        ..PatchParams::default()
    };
    let place = object
        .metadata
        .namespace
        .as_deref()
        .filter(|_| is_namespaced(kind));
    let api = watch::api(&connection.write, kind, place.unwrap_or_default());
    let judged = api
        .patch(&object.name_any(), &params, &Patch::Apply(object))
        .await;
    judged.map_err(|error| match error {
        // The manifest is the caller's.
        kube::Error::Api(status) if matches!(status.code, 400 | 422) => {
            CliError::Usage(format!("{about}: {}", status.message))
        }
        error => error::api(about)(error),
    })
}

/// The owner that an object is, if it is one.
fn owner(kind: Kind, object: &DynamicObject) -> Option<Owner> {
    let place = object
        .metadata
        .namespace
        .as_deref()
        .filter(|_| is_namespaced(kind));
    let key = Key::new(place.unwrap_or_default(), object.name_any());
    let group = match kind {
        Kind::MutexRunConfig => return Some(Owner::run(key)),
        Kind::Plan => return Some(Owner::plan(key)),
        Kind::NodeVersion => return Some(Owner::node_version(key.name)),
        Kind::NodeMaintenance => MaintenanceGroup::Medik8s,
        Kind::KubeVirtMaintenance => MaintenanceGroup::KubeVirt,
        _ => return None,
    };
    Some(Owner {
        kind: OwnerKind::NodeMaintenance(group),
        key,
    })
}
