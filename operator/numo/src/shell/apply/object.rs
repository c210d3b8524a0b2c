//! Creates, patches and deletes one object, and puts the answer into the store. It does not know what is in the object.

use super::{
    error::{ApplyError, is_not_found},
    patch::patch,
};
use crate::shell::{kind::Kind, project, store::Store, watch, watched};
use kube::{
    Api, Client,
    api::{DeleteParams, PatchParams, PostParams, Preconditions},
    core::DynamicObject,
};
use numo_api::marks::{self, FIELD_MANAGER};
use numo_core::{observed::Key, text};
use serde_json::Value;

/// Most characters of the id of a group that are shown.
const ID_MAX: usize = 200;

pub(super) fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

pub(super) fn post() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

pub(super) fn dynamic(body: Value, about: &str) -> Result<DynamicObject, ApplyError> {
    serde_json::from_value(body).map_err(|error| ApplyError::Refused {
        about: about.to_owned(),
        code: 0,
        message: format!("it cannot be rendered: {error}"),
    })
}

pub(super) fn keep(store: &mut Store, kind: Kind, object: &DynamicObject) {
    let number = project::version(&object.metadata);
    if let Some(object) = watched::object(kind, object) {
        store.own(kind, number, object);
    }
}

/// Why a write failed to an object that was there; one that is gone, and known by our own write alone, is forgotten.
pub(super) fn failed(
    store: &mut Store,
    (kind, key): (Kind, &Key),
    error: kube::Error,
    about: &str,
) -> ApplyError {
    if is_not_found(&error, &key.name) {
        store.own_is_gone(kind, key);
    }
    ApplyError::of(error, about)
}

pub(super) async fn json_patch(
    client: &Client,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    operations: Vec<Value>,
) -> Result<(), ApplyError> {
    let about = format!("{} {key}", kind.resource().2);
    let patch = patch(operations, &about)?;
    let api = watch::api(client, kind, &key.namespace);
    let answer = api.patch(&key.name, &params(), &patch).await;
    let answer = answer.map_err(|error| failed(store, (kind, key), error, &about))?;
    if answer.metadata.deletion_timestamp.is_some()
        && answer.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
    {
        store.own_deletion(kind, key);
    } else {
        keep(store, kind, &answer);
    }
    Ok(())
}

/// Creates an object; one that exists already under this name is adopted, because names are
/// deterministic.
pub(super) async fn create(
    client: &Client,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    body: Value,
) -> Result<(), ApplyError> {
    let about = format!("{} {key}", kind.resource().2);
    let object = dynamic(body, &about)?;
    let api = watch::api(client, kind, &key.namespace);
    let answer = match api.create(&post(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
            let found = api
                .get(&key.name)
                .await
                .map_err(|error| ApplyError::of(error, &about))?;
            adoptable(&object, &found, &about)?;
            Ok(found)
        }
        // What does not exist yet cannot be gone: its kind is not served, or there is no such namespace.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(ApplyError::Refused {
                about,
                code: status.code,
                message: status.message,
            });
        }
        other => other,
    };
    keep(
        store,
        kind,
        &answer.map_err(|error| ApplyError::of(error, &about))?,
    );
    Ok(())
}

/// What exists under our name is adopted only if it is what we would have made, and stays.
fn adoptable(wanted: &DynamicObject, found: &DynamicObject, about: &str) -> Result<(), ApplyError> {
    if found.metadata.deletion_timestamp.is_some() {
        return Err(ApplyError::Stale {
            about: about.to_owned(),
            message: "an object of this name is being deleted".to_owned(),
        });
    }
    let labels = |object: &DynamicObject| object.metadata.labels.clone().unwrap_or_default();
    let rule = |object: &DynamicObject| {
        let annotations = object.metadata.annotations.as_ref();
        annotations
            .and_then(|annotations| annotations.get(marks::JOB_RULE))
            .cloned()
    };
    let theirs = labels(found);
    let same = labels(wanted)
        .iter()
        .all(|(key, value)| theirs.get(key) == Some(value));
    let refused = |message: String| ApplyError::Refused {
        about: about.to_owned(),
        code: 409,
        message,
    };
    if !same || rule(wanted) != rule(found) {
        let message = "found an object of this name that numo did not make, wanted none; delete it";
        return Err(refused(message.to_owned()));
    }
    // Two groups of machines may ask for one name, and the object of one says nothing of the other.
    match (group_id(wanted), group_id(found)) {
        (Some(wanted), found) if found.is_none_or(|found| !found.eq_ignore_ascii_case(wanted)) => {
            let found = found.map_or_else(|| "none".to_owned(), |found| text::clip(found, ID_MAX));
            let wanted = text::clip(wanted, ID_MAX);
            Err(refused(format!(
                "found {found} in spec.groupId of the object of this name, wanted {wanted}"
            )))
        }
        _ => Ok(()),
    }
}

/// The group of machines that a ScalingGroup or a PendingNode is of.
fn group_id(object: &DynamicObject) -> Option<&str> {
    object.data.pointer("/spec/groupId")?.as_str()
}

/// Deletes nothing but the object with this uid: a namesake stays.
pub(super) fn by_uid(uid: &str, resource_version: Option<&String>) -> DeleteParams {
    DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: resource_version.cloned(),
    })
}

/// Deletes an object that finalizers may keep for a while: until it is gone it is there, being deleted.
pub(super) async fn delete_kept(
    api: &Api<DynamicObject>,
    store: &mut Store,
    kind: Kind,
    (key, uid): (&Key, &str),
    about: &str,
) -> Result<(), ApplyError> {
    let left = match api.delete(&key.name, &by_uid(uid, None)).await {
        Ok(answer) => answer.left(),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => return Err(ApplyError::of(error, about)),
    };
    match left.filter(|left| left.metadata.deletion_timestamp.is_some()) {
        Some(object) => keep(store, kind, &object),
        None => store.own_deletion(kind, key),
    }
    Ok(())
}

pub(super) async fn delete(
    api: &Api<DynamicObject>,
    store: &mut Store,
    kind: Kind,
    key: &Key,
    uid: &str,
    resource_version: Option<&String>,
) -> Result<(), ApplyError> {
    match api.delete(&key.name, &by_uid(uid, resource_version)).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(ApplyError::of(error, &key.to_string())),
    }
    store.own_deletion(kind, key);
    Ok(())
}
