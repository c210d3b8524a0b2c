//! Deletes a machine through its group, which shrinks with it. Deletes nothing that is of no group, and nothing by the API of instances: the
//! group would make it anew.

use crate::{api::Api, group, ids::GroupId, ids::InstanceId, instance, operation, operation::Progress};
use numo_provider_sdk::{Failure, host::Host, serde_json::json};

/// Has the machine deleted. One that is gone, or on its way, is success.
pub fn delete<H: Host>(api: &Api<'_, H>, id: &InstanceId) -> Result<(), Failure> {
    match api.find(&id.path())? {
        Some(found) => from_group(api, &instance::group(id, &found)?, id),
        None => match group::promised(api, id)? {
            Some(member) if member.is_made() => from_group(api, &member.group, id),
            _ => Ok(()),
        },
    }
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
