//! What is known of one machine: its state, its group, its image. Reads only.

use crate::{
    answer::{odd, text},
    api::Api,
    group,
    ids::{self, GroupId, InstanceId},
};
use numo_provider_sdk::{Failure, FailureCode, NodeState, failure::failure, host::Host, serde_json::Value};

/// Key of the metadata that a group marks its machines with.
const CREATED_BY: &str = "created-by";

/// A machine that must be there.
pub fn required<H: Host>(api: &Api<'_, H>, id: &InstanceId) -> Result<Value, Failure> {
    Ok(api.get(&id.path())?)
}

/// The group that made a machine. The cloud writes the number of the project there; the id is that of the machine.
pub fn group(id: &InstanceId, instance: &Value) -> Result<GroupId, Failure> {
    let items = instance.pointer("/metadata/items").and_then(Value::as_array);
    let mut items = items.into_iter().flatten();
    let item = items.find(|item| text(item, "key") == CREATED_BY);
    let value = item.map(|item| text(item, "value")).unwrap_or_default();
    if value.is_empty() {
        return Err(failure(
            FailureCode::Other,
            format!(
                "instance {}, metadata {CREATED_BY}: found nothing, wanted a managed instance group: it is of none",
                id.path()
            ),
        ));
    }
    let named = |problem: Failure| Failure {
        message: format!(
            "instance {}, metadata {CREATED_BY}: {}",
            id.path(),
            problem.message
        ),
        ..problem
    };
    let group = GroupId::parse(value).map_err(named)?;
    if group.zone != id.zone {
        return Err(failure(
            FailureCode::Other,
            format!(
                "instance {}, metadata {CREATED_BY}: found zone {}, wanted {}",
                id.path(),
                group.zone,
                id.zone
            ),
        ));
    }
    Ok(GroupId {
        project: id.project.clone(),
        ..group
    })
}

/// Image that the boot disk was made of.
pub fn image<H: Host>(api: &Api<'_, H>, id: &InstanceId) -> Result<String, Failure> {
    let instance = required(api, id)?;
    let source = boot_disk(&instance)
        .map(|disk| text(disk, "source"))
        .unwrap_or_default();
    let path = ids::resource(source, "disks")
        .ok_or_else(|| odd(&id.path(), &format!("the boot disk {}", ids::shown(source))))?;
    let disk = api.get(&path)?;
    let image = ids::path_of(text(&disk, "sourceImage"));
    if image.is_empty() {
        return Err(failure(
            FailureCode::Other,
            format!("{path}, sourceImage: found nothing, wanted an image: the disk was made of none"),
        ));
    }
    Ok(image.to_owned())
}

/// The disk that a machine or a template boots from: the one that says so, or else the first.
pub fn boot_disk(properties: &Value) -> Option<&Value> {
    let disks = properties.get("disks")?.as_array()?;
    let boots = |disk: &&Value| disk.get("boot").and_then(Value::as_bool) == Some(true);
    disks.iter().find(boots).or_else(|| disks.first())
}

/// State of a machine. One that a group is still making or making anew is no instance of the cloud, and yet not gone.
pub fn state<H: Host>(api: &Api<'_, H>, id: &InstanceId) -> Result<NodeState, Failure> {
    if let Some(instance) = api.find(&id.path())? {
        return Ok(state_of(text(&instance, "status")));
    }
    let promised = group::promised(api, id)?;
    Ok(match promised {
        Some(member) if member.is_made() => NodeState::Creating,
        _ => NodeState::Terminated,
    })
}

/// The cloud's words for the state of an instance.
fn state_of(status: &str) -> NodeState {
    match status {
        "PENDING" | "PROVISIONING" | "STAGING" => NodeState::Creating,
        "RUNNING" => NodeState::Ready,
        "PENDING_STOP" | "STOPPING" | "DEPROVISIONING" => NodeState::Terminating,
        "SUSPENDING" | "SUSPENDED" | "TERMINATED" => NodeState::Stopped,
        _ => NodeState::Unknown,
    }
}
