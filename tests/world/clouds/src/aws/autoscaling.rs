//! Auto scaling groups and their members.

use crate::aws::{
    answer::{Parameters, Refused, autoscaling, element, page, wrapped},
    state::{Group, State},
};

fn group_xml(state: &State, name: &str, group: &Group) -> String {
    let mut xml = element("AutoScalingGroupName", name)
        + &element("MinSize", group.min)
        + &element("MaxSize", group.max)
        + &element("DesiredCapacity", group.desired)
        + &element("VPCZoneIdentifier", &group.subnets);
    let template = group.template.as_ref().map(|(id, version)| {
        element("LaunchTemplateId", id)
            + &element("LaunchTemplateName", "nodes")
            + &element("Version", version)
    });
    let template = match (template, &group.overrides) {
        (None, _) => element("LaunchConfigurationName", "old"),
        (Some(template), None) => wrapped("LaunchTemplate", &template),
        (Some(template), Some(overrides)) => {
            let inner = wrapped("LaunchTemplateSpecification", &template) + &wrapped("Overrides", overrides);
            wrapped("MixedInstancesPolicy", &wrapped("LaunchTemplate", &inner))
        }
    };
    xml += &template;
    if group.is_ending {
        xml += &element("Status", "Delete in progress");
    }
    let mut members = String::new();
    let all = state.instances.iter();
    for instance in all.filter(|instance| instance.group.as_deref() == Some(name)) {
        let inner = element("InstanceId", &instance.id)
            + &element("AvailabilityZone", &instance.zone)
            + &element("LifecycleState", &instance.lifecycle)
            + &element("HealthStatus", "Healthy");
        members += &wrapped("member", &inner);
    }
    let mut tags = String::new();
    for (key, value, propagated) in &group.tags {
        let inner = element("ResourceId", name)
            + &element("ResourceType", "auto-scaling-group")
            + &element("Key", key)
            + &element("Value", value)
            + &element("PropagateAtLaunch", propagated);
        tags += &wrapped("member", &inner);
    }
    format!("{xml}<Instances>{members}</Instances><Tags>{tags}</Tags>")
}

/// `DescribeAutoScalingGroups`, by names or by filters of tags.
pub fn describe(state: &State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&["AutoScalingGroupNames.", "Filters.", "NextToken", "MaxRecords"])?;
    let names = asked.list("AutoScalingGroupNames.member");
    let all = state.groups.iter();
    let found: Vec<(&String, &Group)> = all
        .filter(|(name, _)| names.is_empty() || names.contains(&name.as_str()))
        .filter(|(_, group)| fits(group, asked))
        .collect();
    let size = if state.page == 0 { usize::MAX } else { state.page };
    let (items, next) = page(&found, size, asked.get("NextToken"))?;
    let items: String = items
        .iter()
        .map(|(name, group)| wrapped("member", &group_xml(state, name, group)))
        .collect();
    let next = next.map(|token| element("NextToken", token)).unwrap_or_default();
    Ok(autoscaling(
        "DescribeAutoScalingGroups",
        &format!("<AutoScalingGroups>{items}</AutoScalingGroups>{next}"),
    ))
}

fn fits(group: &Group, asked: &Parameters) -> bool {
    let Some(name) = asked.get("Filters.member.1.Name") else {
        return true;
    };
    let values = asked.list("Filters.member.1.Values.member");
    let mut tags = group.tags.iter();
    match name.strip_prefix("tag:") {
        Some(key) => tags.any(|(found, value, _)| found == key && values.contains(&value.as_str())),
        None => tags.any(|(found, _, _)| name == "tag-key" && values.contains(&found.as_str())),
    }
}

fn no_group(name: &str) -> Refused {
    Refused::validation(&format!(
        "AutoScalingGroup name not found - AutoScalingGroup: {name} not found"
    ))
}

/// `AttachInstances`: raises the desired capacity, tags the instance and registers it.
pub fn attach(state: &mut State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&["AutoScalingGroupName", "InstanceIds."])?;
    let name = asked.need("AutoScalingGroupName")?;
    let untagged = state.untagged;
    for id in asked.list("InstanceIds.member") {
        let group = state.groups.get(name).cloned().ok_or_else(|| no_group(name))?;
        let zones: Vec<&String> = group
            .subnets
            .split(',')
            .filter_map(|id| state.subnets.get(id))
            .collect();
        let found = state.instance(id);
        let instance = found
            .ok_or_else(|| Refused::validation(&format!("Invalid Instance ID(s): [{id}] specified.")))?;
        if let Some(other) = &instance.group {
            let words = format!("Instance {id} is already part of AutoScalingGroup:{other}");
            return Err(Refused::validation(&words));
        }
        if instance.state != "running" {
            let words =
                format!("Instance {id} is not in correct state. Instance(s) must be in 'running' state.");
            return Err(Refused::validation(&words));
        }
        if !zones.contains(&&instance.zone) {
            return Err(Refused::validation(
                "The availability zone of the instance is not in the group",
            ));
        }
        if group.desired + 1 > group.max {
            let words = format!(
                "AutoScalingGroup {name} has min-size={}, max-size={}, and desired-size={}. To attach 1 more, please update the AutoScalingGroup sizes appropriately.",
                group.min, group.max, group.desired
            );
            return Err(Refused::validation(&words));
        }
        if let Some(group) = state.groups.get_mut(name) {
            group.desired += 1;
            group.registered.push(id.to_owned());
        }
        if let Some(instance) = state.instance_mut(id) {
            instance.group = Some(name.to_owned());
            "InService".clone_into(&mut instance.lifecycle);
            instance.untagged = untagged;
            let propagated = group.tags.iter().filter(|(_, _, propagated)| *propagated);
            instance
                .tags
                .extend(propagated.map(|(key, value, _)| (key.clone(), value.clone())));
        }
    }
    state.reconcile(name);
    Ok(autoscaling("AttachInstances", ""))
}

/// `TerminateInstanceInAutoScalingGroup`. A second one for the same instance lowers the size a second time, as the autoscaler's people found.
pub fn terminate(state: &mut State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&["InstanceId", "ShouldDecrementDesiredCapacity"])?;
    let id = asked.need("InstanceId")?;
    let lowers = asked.need("ShouldDecrementDesiredCapacity")? == "true";
    let name = state.instance(id).and_then(|instance| instance.group.clone());
    let name = name.ok_or_else(|| {
        let words = format!("Instance Id not found - No managed instance found for instance ID: {id}");
        Refused::validation(&words)
    })?;
    let group = state.groups.get_mut(&name).ok_or_else(|| no_group(&name))?;
    if lowers && group.desired <= group.min {
        let words = format!(
            "Currently, desiredSize equals minSize ({}). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.",
            group.min
        );
        return Err(Refused::validation(&words));
    }
    if lowers {
        group.desired -= 1;
    }
    group.registered.retain(|registered| registered != id);
    if let Some(instance) = state.instance_mut(id) {
        instance.end();
    }
    state.reconcile(&name);
    let activity = element("AutoScalingGroupName", &name) + &element("StatusCode", "InProgress");
    Ok(autoscaling(
        "TerminateInstanceInAutoScalingGroup",
        &format!("<Activity>{activity}</Activity>"),
    ))
}

/// `UpdateAutoScalingGroup`, as far as the launch template goes.
pub fn update(state: &mut State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&[
        "AutoScalingGroupName",
        "LaunchTemplate.LaunchTemplateId",
        "LaunchTemplate.Version",
    ])?;
    let name = asked.need("AutoScalingGroupName")?;
    let template = asked.need("LaunchTemplate.LaunchTemplateId")?;
    let version = asked.need("LaunchTemplate.Version")?;
    if state.version(template, version).is_none() {
        return Err(Refused::validation(
            "You must use a valid fully-formed launch template.",
        ));
    }
    let group = state.groups.get_mut(name).ok_or_else(|| no_group(name))?;
    group.template = Some((template.to_owned(), version.to_owned()));
    Ok("<UpdateAutoScalingGroupResponse xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></UpdateAutoScalingGroupResponse>".to_owned())
}
