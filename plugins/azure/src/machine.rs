//! One machine: its image, its state, and its end. It deletes none but of a scale set that has the cluster's tag.

use crate::{
    arm::{Arm, Change, Refusal},
    config::Config,
    ids::MachineId,
    image,
    model::{Machine, ScaleSet, state},
};
use numo_provider_sdk::{
    Failure, FailureCode, NodeState,
    failure::{failure, invalid},
    host::{Cloud, Method},
    serde_json::json,
};

/// The image that it was made from.
pub fn image<H: Cloud>(host: &H, config: &Config, id: &MachineId) -> Result<String, Failure> {
    let what = format!("machine {} of scale set {}", id.instance, id.group.name());
    let Some((_, body)) = Machine::get(&Arm::new(host, config), id)? else {
        return Err(failure(FailureCode::NotFound, format!("{what}: Azure has none")));
    };
    let reference = body.pointer("/properties/storageProfile/imageReference");
    reference.and_then(image::of_reference).ok_or_else(|| {
        failure(
            FailureCode::Other,
            format!("{what}, imageReference: found no image, wanted one"),
        )
    })
}

/// Its state; one that Azure does not have is terminated.
pub fn node_state<H: Cloud>(host: &H, config: &Config, id: &MachineId) -> Result<NodeState, Failure> {
    let what = format!("machine {} of scale set {}", id.instance, id.group.name());
    match Arm::new(host, config).get(&format!("{}/instanceView", id.path()), &what) {
        Ok(view) => Ok(state(&view)),
        Err(Refusal::Gone(_)) => Ok(NodeState::Terminated),
        Err(refusal) => Err(refusal.into()),
    }
}

/// Deletes it; Azure lowers the capacity with it. Not awaited.
pub fn delete<H: Cloud>(host: &H, config: &Config, id: &MachineId) -> Result<(), Failure> {
    let arm = Arm::new(host, config);
    let set = match ScaleSet::get(&arm, &id.group) {
        Ok(set) => set,
        Err(Refusal::Gone(_)) => return Ok(()),
        Err(refusal) => return Err(refusal.into()),
    };
    let found = set.tag(&config.uid_tag).unwrap_or_default();
    let is_ours = !found.is_empty() && config.uid.as_deref().is_none_or(|uid| uid == found);
    if !is_ours {
        let found: String = found.chars().take(64).collect();
        return Err(invalid(format!(
            "scale set {}, tag {}: found {found:?}, wanted {}: machine {} is not deleted",
            id.group.name(),
            config.uid_tag,
            config.uid.as_deref().unwrap_or("the uid of a cluster"),
            id.instance
        )));
    }
    let what = format!(
        "deletion of machine {} of scale set {}",
        id.instance,
        id.group.name()
    );
    let path = format!("{}/delete", id.group.path());
    let change = Change {
        method: Method::Post,
        path: &path,
        what: &what,
        body: &json!({ "instanceIds": [id.instance] }),
        etag: None,
    };
    match arm.change(&change) {
        Ok(_) | Err(Refusal::Gone(_)) => Ok(()),
        Err(refusal) => {
            let failure = Failure::from(refusal);
            // How Azure says that a scale set has no machine of this number.
            let gone = failure.code == FailureCode::Invalid
                && failure
                    .message
                    .contains("is not an active Virtual Machine Scale Set VM");
            if gone { Ok(()) } else { Err(failure) }
        }
    }
}
