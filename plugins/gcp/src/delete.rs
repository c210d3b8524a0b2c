//! Deletes a machine through its group, which shrinks with it. Deletes nothing that is of no group, and nothing by the API of instances: the
//! group would make it anew. Where the settings name a cluster, nothing is deleted that is of another.

use crate::{
    answer::{odd, text},
    api::Api,
    config::Owner,
    discovery, group,
    ids::{GroupId, InstanceId, shown},
    instance, operation,
    operation::Progress,
};
use numo_provider_sdk::{
    Failure,
    failure::invalid,
    host::Host,
    serde_json::{Value, json},
};

/// Has the machine deleted. One that is gone, or on its way, is success.
pub fn delete<H: Host>(api: &Api<'_, H>, owner: Option<&Owner>, id: &InstanceId) -> Result<(), Failure> {
    let found = api.find(&id.path())?;
    let group = match &found {
        Some(found) => instance::group(id, found)?,
        None => match group::promised(api, id)? {
            Some(member) if member.is_made() => member.group,
            _ => return Ok(()),
        },
    };
    if let Some(owner) = owner {
        of_cluster(api, owner, &group, id, found.as_ref())?;
    }
    from_group(api, &group, id)
}

/// Whether the machine is of the cluster. A group gives the labels of its template to its machines, so the machine tells without a request
/// more; one that does not, or is not there yet, is looked for in its group.
///
/// Errors: it is not, or the cloud does not answer, or refuses.
fn of_cluster<H: Host>(
    api: &Api<'_, H>,
    owner: &Owner,
    group: &GroupId,
    id: &InstanceId,
    found: Option<&Value>,
) -> Result<(), Failure> {
    let labels = found.and_then(|found| found.get("labels"));
    let own = labels.map(|labels| text(labels, &owner.label));
    let (what, value) = if let Some(own) = own.filter(|own| !own.is_empty()) {
        (format!("instance {}", id.path()), own.to_owned())
    } else {
        let template = group::any_template(&group::required(api, group)?);
        let template = template.ok_or_else(|| odd(&group.path(), "no template"))?;
        let labels = discovery::own_labels(api, &template)?;
        let value = labels.get(&owner.label).cloned().unwrap_or_default();
        (format!("template {template} of {}", group.path()), value)
    };
    if value.eq_ignore_ascii_case(&owner.uid) {
        return Ok(());
    }
    Err(invalid(format!(
        "{what}, label {}: found {}, wanted {}, uid of the settings: instance {} is not deleted",
        owner.label,
        shown(&value),
        shown(&owner.uid),
        id.name
    )))
}

fn from_group<H: Host>(api: &Api<'_, H>, group: &GroupId, id: &InstanceId) -> Result<(), Failure> {
    let body = json!({
        "instances": [format!("zones/{}/instances/{}", id.zone, id.name)],
        // One that is being deleted is no error. One that is of another group is left alone by the cloud.
        "skipInstancesOnValidationError": true,
    });
    let path = format!("{}/deleteInstances", group.path());
    let begun = api.post(&path, &body)?;
    match operation::progress(&path, &begun) {
        Progress::Failed(refusal) => Err(refusal.into()),
        Progress::Running | Progress::Done => Ok(()),
    }
}
