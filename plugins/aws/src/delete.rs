//! Deletes the machine of a managed group, and lowers the group's size with it. What is in no such group is left alone, unless numo made it and
//! never came to attach it.
//!
//! Auto Scaling, not EC2, is asked which group has the machine and whether it is on its way out: a second `TerminateInstanceInAutoScalingGroup`
//! could lower the size a second time, and the group would then end another node.

use crate::{
    call::{Query, ask},
    group::{self, Group, Member},
    machine,
    settings::Config,
};
use numo_provider_sdk::{Failure, FailureCode, failure::failure, host::Cloud};

/// Deletes a machine. One that is gone, or going, is success.
///
/// Errors: it is not there and neither is a group of the cluster, it is in no managed group, the group may not become smaller, or AWS refuses or does not answer.
pub fn delete(host: &impl Cloud, config: &Config, id: &str) -> Result<(), Failure> {
    let mut found: Option<(Group, Member)> = None;
    let mut is_here = false;
    group::of_cluster(host, config, config.uid.as_deref(), &mut |group| {
        is_here = true;
        let mut members = group.members.iter();
        let member = members.find(|member| member.id.eq_ignore_ascii_case(id)).cloned();
        found = member.map(|member| (group, member));
        found.is_some()
    })?;
    match found {
        Some((group, member)) => from_group(host, config, &group, &member),
        None => alone(host, config, id, is_here),
    }
}

fn from_group(host: &impl Cloud, config: &Config, group: &Group, member: &Member) -> Result<(), Failure> {
    let id = &member.id;
    if member.is_ending() {
        return Ok(());
    }
    if member.lifecycle.starts_with("Detach") {
        let message = format!(
            "instance {id} of auto scaling group {}: found lifecycle state {}, wanted a member",
            group.name, member.lifecycle
        );
        return Err(failure(FailureCode::Unavailable, message));
    }
    let small = || {
        let message = format!(
            "auto scaling group {}, MinSize: found {}, wanted less than DesiredCapacity {}, to delete instance {id}",
            group.name, group.min, group.desired
        );
        failure(FailureCode::Exhausted, message)
    };
    if group.desired <= group.min {
        return Err(small());
    }
    let query = Query::autoscaling("TerminateInstanceInAutoScalingGroup")
        .with("InstanceId", id)
        .with("ShouldDecrementDesiredCapacity", "true");
    let about = format!("instance {id} of auto scaling group {}", group.name);
    match ask(host, config, &about, &query, |_| Ok(())) {
        Ok(()) => Ok(()),
        Err(refusal) if refusal.is(&["ValidationError"]) && refusal.says("minsize") => Err(small()),
        // It left the group just now: the next call sees where to.
        Err(refusal) if refusal.is(&["ValidationError"]) && refusal.says("not found") => {
            Err(failure(FailureCode::Unavailable, refusal.failure.message))
        }
        Err(refusal) => Err(refusal.failure),
    }
}

/// A machine that no managed group has; whether a group of the cluster is there.
fn alone(host: &impl Cloud, config: &Config, id: &str, is_here: bool) -> Result<(), Failure> {
    let Some(found) = machine::by_id(host, config, id)? else {
        return if is_here {
            Ok(())
        } else {
            Err(group::elsewhere(config, id))
        };
    };
    if found.is_ending() {
        return Ok(());
    }
    match (&found.member_of, &found.request) {
        (None, Some(_)) => machine::terminate(host, config, &found.id),
        (Some(group), Some(_)) => Err(failure(
            FailureCode::Unavailable,
            format!(
                "instance {id}: found in auto scaling group {group} by its tag, and not among the members of a group with tag {}; it is looked for again",
                config.uid_tag
            ),
        )),
        (Some(group), None) => Err(failure(
            FailureCode::Invalid,
            format!(
                "instance {id}: found in auto scaling group {group}, wanted one with tag {}{}; nothing is deleted",
                config.uid_tag,
                config
                    .uid
                    .as_ref()
                    .map(|uid| format!("={uid}"))
                    .unwrap_or_default()
            ),
        )),
        (None, None) => Err(failure(
            FailureCode::Invalid,
            format!(
                "instance {id}: found in no auto scaling group and without tag {}, wanted a machine of a managed group; nothing is deleted",
                machine::REQUEST_TAG
            ),
        )),
    }
}
