//! Instances, subnets and images.

use crate::aws::{
    answer::{Parameters, Refused, ec2, element, page, wrapped},
    state::{Instance, State},
};

/// Parameters of a launch that both forms of it have.
const RUN: [&str; 9] = [
    "MinCount",
    "MaxCount",
    "ClientToken",
    "LaunchTemplate.",
    "TagSpecification.",
    "InstanceType",
    "SubnetId",
    "NetworkInterface.",
    "Placement.",
];

fn instance_xml(instance: &Instance) -> String {
    let mut tags = String::new();
    let own = instance
        .tags
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    let group = instance.group.as_deref().filter(|_| instance.untagged == 0);
    let group = group.map(|group| ("aws:autoscaling:groupName", group));
    for (key, value) in own.chain(group) {
        let inner = element("key", key) + &element("value", value);
        tags += &wrapped("item", &inner);
    }
    let dns = match instance.state.as_str() {
        "terminated" => String::new(),
        _ => format!("ip-10-0-0-{}.ec2.internal", instance.id.trim_start_matches("i-")),
    };
    [
        element("instanceId", &instance.id),
        element("imageId", &instance.image),
        format!(
            "<instanceState><code>16</code>{}</instanceState>",
            element("name", &instance.state)
        ),
        element("privateDnsName", dns),
        element("instanceType", &instance.kind),
        format!(
            "<placement>{}<groupName/></placement>",
            element("availabilityZone", &instance.zone)
        ),
        element("subnetId", &instance.subnet),
        format!("<tagSet>{tags}</tagSet>"),
        element("clientToken", instance.token.as_deref().unwrap_or_default()),
    ]
    .concat()
}

/// Everything that a launch says, to compare a repetition with the first.
fn said(asked: &Parameters) -> String {
    let own: Vec<String> = asked
        .own()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    own.join("&")
}

/// The subnet of a launch. A template with interfaces must be given it there.
fn subnet(asked: &Parameters, has_interface: bool) -> Result<String, Refused> {
    let plain = asked.get("SubnetId");
    let own = asked.get("NetworkInterface.1.SubnetId");
    match (plain, own) {
        (Some(_), Some(_)) => Err(combination()),
        (Some(_), None) if has_interface => Err(combination()),
        (Some(subnet), None) | (None, Some(subnet)) => Ok(subnet.to_owned()),
        (None, None) => Err(Refused::new(
            400,
            "MissingInput",
            "No subnets found for the default VPC. Please specify a subnet.",
        )),
    }
}

fn combination() -> Refused {
    let words = "Network interfaces and an instance-level subnet ID may not be specified on the same request";
    Refused::new(400, "InvalidParameterCombination", words)
}

/// `RunInstances`: for one client token and one zone, one instance.
pub fn run(state: &mut State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&RUN)?;
    if asked.need("MinCount")? != "1" || asked.need("MaxCount")? != "1" {
        return Err(Refused::new(
            400,
            "InvalidParameterValue",
            "one instance at a time here",
        ));
    }
    let template = asked.need("LaunchTemplate.LaunchTemplateId")?;
    let wanted = asked.need("LaunchTemplate.Version")?;
    let version = state
        .version(template, wanted)
        .map(|(_, version)| version.clone());
    let version = version.ok_or_else(|| {
        let words = "Could not find the specified version for the launch template.";
        Refused::new(400, "InvalidLaunchTemplateId.VersionNotFound", words)
    })?;
    let subnet = subnet(asked, version.interface.is_some())?;
    let zone = state
        .subnets
        .get(&subnet)
        .cloned()
        .ok_or_else(|| no_subnet(&subnet))?;
    let token = asked.get("ClientToken").map(str::to_owned);
    let made_by = said(asked);
    if let Some(before) = repeated(state, token.as_deref(), &zone) {
        if before.made_by != made_by {
            let words = "The request uses the same client token as a previous, but non-identical request.";
            return Err(Refused::new(400, "IdempotentParameterMismatch", words));
        }
        return Ok(started(before));
    }
    let image = version.image.unwrap_or_default();
    has_room(state, &image, &subnet)?;
    let instance = Instance {
        id: state.id("i-"),
        state: "pending".to_owned(),
        kind: asked
            .get("InstanceType")
            .map(str::to_owned)
            .or(version.kind)
            .unwrap_or_default(),
        tags: tags(asked)?,
        security_groups: asked
            .list("NetworkInterface.1.SecurityGroupId")
            .into_iter()
            .map(str::to_owned)
            .collect(),
        unseen: state.unseen,
        boots: state.boots,
        subnet,
        zone,
        image,
        token,
        made_by,
        ..Instance::default()
    };
    let xml = started(&instance);
    state.instances.push(instance);
    Ok(xml)
}

fn started(instance: &Instance) -> String {
    ec2("RunInstances", &reservation(&instance_xml(instance)))
}

fn reservation(item: &str) -> String {
    element("reservationId", "r-0")
        + &element("ownerId", "1")
        + "<groupSet/>"
        + &wrapped("instancesSet", &wrapped("item", item))
}

fn repeated<'a>(state: &'a State, token: Option<&str>, zone: &str) -> Option<&'a Instance> {
    let token = token?;
    let mut all = state.instances.iter();
    all.find(|instance| instance.token.as_deref() == Some(token) && instance.zone == zone)
}

fn has_room(state: &State, image: &str, subnet: &str) -> Result<(), Refused> {
    if state.images.get(image).map(String::as_str) != Some("available") {
        let words = format!("The image id '[{image}]' does not exist");
        return Err(Refused::new(400, "InvalidAMIID.NotFound", &words));
    }
    let living = state.instances.iter().filter(|instance| instance.lives()).count();
    if state.quota.is_some_and(|quota| living >= quota) {
        let words = "You have requested more vCPU capacity than your current vCPU limit of 8 allows for the instance bucket.";
        return Err(Refused::new(400, "VcpuLimitExceeded", words));
    }
    if state.full_subnets.contains(subnet) {
        let words =
            "We currently do not have sufficient m5.large capacity in the Availability Zone you requested.";
        return Err(Refused::new(500, "InsufficientInstanceCapacity", words));
    }
    Ok(())
}

fn tags(asked: &Parameters) -> Result<std::collections::BTreeMap<String, String>, Refused> {
    let mut tags = std::collections::BTreeMap::new();
    if asked.get("TagSpecification.1.ResourceType") != Some("instance") {
        return Ok(tags);
    }
    for at in 1..=50 {
        let name = format!("TagSpecification.1.Tag.{at}");
        let Some(key) = asked.get(&format!("{name}.Key")) else {
            break;
        };
        if key.starts_with("aws:") {
            let words = format!("Tag keys starting with 'aws:' are reserved for internal use: {key}");
            return Err(Refused::new(400, "InvalidParameterValue", &words));
        }
        let value = asked.get(&format!("{name}.Value")).unwrap_or_default();
        tags.insert(key.to_owned(), value.to_owned());
    }
    Ok(tags)
}

fn no_instance(id: &str) -> Refused {
    let words = format!("The instance ID '{id}' does not exist");
    Refused::new(400, "InvalidInstanceID.NotFound", &words)
}

fn no_subnet(id: &str) -> Refused {
    let words = format!("The subnet ID '{id}' does not exist");
    Refused::new(400, "InvalidSubnetID.NotFound", &words)
}

/// `DescribeInstances`: each answer is a moment later than the one before. Pages are cut before filters are applied, so that a page may be empty.
pub fn describe(state: &mut State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&["InstanceId.", "Filter.", "NextToken", "MaxResults"])?;
    let ids = asked.list("InstanceId");
    let is_malformed = |id: &&&str| {
        let digits = id.strip_prefix("i-").unwrap_or_default();
        digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if let Some(id) = ids.iter().find(is_malformed) {
        let words = format!("Invalid id: \"{id}\"");
        return Err(Refused::new(400, "InvalidInstanceID.Malformed", &words));
    }
    let seen = seen(state);
    for id in &ids {
        if !seen.iter().any(|instance| instance.id == *id) {
            return Err(no_instance(id));
        }
    }
    let size = if state.page == 0 || !ids.is_empty() {
        usize::MAX
    } else {
        state.page
    };
    let (mut items, next) = page(&seen, size, asked.get("NextToken"))?;
    items.retain(|instance| ids.is_empty() || ids.contains(&instance.id.as_str()));
    items.retain(|instance| fits(instance, asked));
    let items = items.iter().map(instance_xml);
    let items: String = items.map(|item| wrapped("item", &reservation(&item))).collect();
    let next = next.map(|token| element("nextToken", token)).unwrap_or_default();
    Ok(ec2(
        "DescribeInstances",
        &format!("<reservationSet>{items}</reservationSet>{next}"),
    ))
}

fn fits(instance: &Instance, asked: &Parameters) -> bool {
    let Some(name) = asked.get("Filter.1.Name") else {
        return true;
    };
    let values = asked.list("Filter.1.Value");
    let value = name.strip_prefix("tag:").and_then(|key| instance.tags.get(key));
    value.is_some_and(|value| values.contains(&value.as_str()))
}

/// What a list shows. A moment passes with it.
fn seen(state: &mut State) -> Vec<Instance> {
    let mut seen = Vec::new();
    for instance in &mut state.instances {
        if instance.unseen > 0 {
            instance.unseen -= 1;
            continue;
        }
        match (instance.state.as_str(), instance.boots) {
            ("pending", 0) => "running".clone_into(&mut instance.state),
            ("shutting-down", 0) => {
                "terminated".clone_into(&mut instance.state);
                instance.group = None;
            }
            ("pending" | "shutting-down", _) => instance.boots -= 1,
            _ => {}
        }
        seen.push(instance.clone());
        instance.untagged = instance.untagged.saturating_sub(1);
    }
    seen
}

/// `TerminateInstances`. What is a member is replaced by its group.
pub fn terminate(state: &mut State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&["InstanceId."])?;
    let mut items = String::new();
    for id in asked.list("InstanceId") {
        let instance = state.instance_mut(id).ok_or_else(|| no_instance(id))?;
        if instance.lives() {
            instance.end();
        }
        items += &wrapped("item", &element("instanceId", id));
        if let Some(group) = instance.group.clone() {
            state.reconcile(&group);
        }
    }
    Ok(ec2(
        "TerminateInstances",
        &format!("<instancesSet>{items}</instancesSet>"),
    ))
}

/// `DescribeSubnets`.
pub fn subnets(state: &State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&["SubnetId."])?;
    let mut items = String::new();
    for id in asked.list("SubnetId") {
        let zone = state.subnets.get(id).ok_or_else(|| no_subnet(id))?;
        let inner = element("subnetId", id) + &element("availabilityZone", zone);
        items += &wrapped("item", &inner);
    }
    Ok(ec2("DescribeSubnets", &format!("<subnetSet>{items}</subnetSet>")))
}

/// `DescribeImages`.
pub fn images(state: &State, asked: &Parameters) -> Result<String, Refused> {
    asked.only(&["ImageId."])?;
    let mut items = String::new();
    for id in asked.list("ImageId") {
        let Some(image) = state.images.get(id) else {
            let words = format!("The image id '[{id}]' does not exist");
            return Err(Refused::new(400, "InvalidAMIID.NotFound", &words));
        };
        let inner = element("imageId", id) + &element("imageState", image);
        items += &wrapped("item", &inner);
    }
    Ok(ec2("DescribeImages", &format!("<imagesSet>{items}</imagesSet>")))
}
