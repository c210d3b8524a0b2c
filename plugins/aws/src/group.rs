//! Auto scaling groups: looked up by name or by the tags of a cluster. Changes nothing.

use crate::{
    call::{Query, Refusal, pages, unreadable},
    ids,
    settings::Config,
    xml,
};
use numo_provider_sdk::{Failure, FailureCode, failure::failure, host::Cloud};
use roxmltree::Node;

/// A launch template as a group names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Its id.
    pub id: String,
    /// `$Default`, `$Latest` or a number.
    pub version: String,
}

/// A tag of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Whether instances that the group makes get it, too.
    pub propagated: bool,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its instance.
    pub id: String,
    /// Its availability zone.
    pub zone: String,
    /// `InService`, `Terminating:Wait` and so on.
    pub lifecycle: String,
}

impl Member {
    /// Whether it is on its way out.
    pub fn is_ending(&self) -> bool {
        self.lifecycle.starts_with("Terminat")
    }
}

/// A type of instance that a mixed instances policy allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// The type; none where attributes choose it.
    pub instance_type: Option<String>,
    /// Whether it counts for more than one machine.
    pub is_weighted: bool,
    /// Whether it has a launch template of its own.
    pub has_template: bool,
}

/// A group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// MinSize.
    pub min: i64,
    /// MaxSize.
    pub max: i64,
    /// DesiredCapacity.
    pub desired: i64,
    /// Subnets of VPCZoneIdentifier.
    pub subnets: Vec<String>,
    /// Its launch template, its own or that of its mixed instances policy.
    pub template: Option<Template>,
    /// Types of its mixed instances policy; none if it has no policy.
    pub overrides: Option<Vec<Override>>,
    /// Its placement group.
    pub placement_group: Option<String>,
    /// What its sizes count, if not machines.
    pub unit: Option<String>,
    /// Whether it is being deleted.
    pub is_ending: bool,
    /// Its members.
    pub members: Vec<Member>,
    /// Its tags.
    pub tags: Vec<Tag>,
}

impl Group {
    fn read(member: Node<'_, '_>) -> Option<Self> {
        let of = |name| xml::text(member, name);
        let size = |name| of(name).and_then(|text| text.parse().ok());
        let mixed =
            xml::child(member, "MixedInstancesPolicy").and_then(|node| xml::child(node, "LaunchTemplate"));
        let template = match mixed {
            Some(mixed) => xml::child(mixed, "LaunchTemplateSpecification"),
            None => xml::child(member, "LaunchTemplate"),
        };
        Some(Self {
            name: of("AutoScalingGroupName")?.to_owned(),
            min: size("MinSize")?,
            max: size("MaxSize")?,
            desired: size("DesiredCapacity")?,
            subnets: subnets(of("VPCZoneIdentifier").unwrap_or_default()),
            template: template.and_then(read_template),
            overrides: match mixed {
                None => None,
                Some(mixed) => Some(xml::read_all(mixed, "Overrides", |node| {
                    Some(read_override(node))
                })?),
            },
            placement_group: of("PlacementGroup").map(str::to_owned),
            unit: of("DesiredCapacityType")
                .filter(|unit| *unit != "units")
                .map(str::to_owned),
            is_ending: of("Status").is_some_and(|status| status.starts_with("Delete")),
            members: xml::read_all(member, "Instances", read_member)?,
            tags: xml::read_all(member, "Tags", read_tag)?,
        })
    }

    /// The value of a tag.
    pub fn tag(&self, key: &str) -> Option<&str> {
        let mut tags = self.tags.iter();
        tags.find(|tag| tag.key == key).map(|tag| tag.value.as_str())
    }
}

fn subnets(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn read_template(node: Node<'_, '_>) -> Option<Template> {
    Some(Template {
        id: xml::text(node, "LaunchTemplateId")?.to_owned(),
        version: xml::text(node, "Version").unwrap_or("$Default").to_owned(),
    })
}

fn read_override(node: Node<'_, '_>) -> Override {
    Override {
        instance_type: xml::text(node, "InstanceType").map(str::to_owned),
        is_weighted: xml::text(node, "WeightedCapacity").is_some_and(|weight| weight != "1"),
        has_template: xml::child(node, "LaunchTemplateSpecification").is_some(),
    }
}

fn read_member(node: Node<'_, '_>) -> Option<Member> {
    Some(Member {
        id: xml::text(node, "InstanceId")?.to_owned(),
        zone: xml::text(node, "AvailabilityZone").unwrap_or_default().to_owned(),
        lifecycle: xml::text(node, "LifecycleState").unwrap_or_default().to_owned(),
    })
}

fn read_tag(node: Node<'_, '_>) -> Option<Tag> {
    Some(Tag {
        key: xml::text(node, "Key")?.to_owned(),
        value: xml::text(node, "Value").unwrap_or_default().to_owned(),
        propagated: xml::text(node, "PropagateAtLaunch") == Some("true"),
    })
}

fn read_groups(list: Node<'_, '_>) -> Option<Vec<Group>> {
    xml::child(list, "AutoScalingGroups")?;
    xml::read_all(list, "AutoScalingGroups", Group::read)
}

/// The group with this name.
///
/// Errors: there is none, it is being deleted, or Auto Scaling does not answer or refuses.
pub fn by_name(host: &impl Cloud, config: &Config, name: &str) -> Result<Group, Failure> {
    let name = ids::group(name)?;
    let query = Query::autoscaling("DescribeAutoScalingGroups").with("AutoScalingGroupNames.member.1", name);
    let about = format!("auto scaling group {name}");
    let mut found = None;
    pages(host, config, &about, &query, &mut |list| {
        found = read_groups(list)
            .ok_or_else(|| unreadable(&query, &about))?
            .into_iter()
            .find(|group| group.name.eq_ignore_ascii_case(name));
        Ok(found.is_some())
    })?;
    let missing = |what: &str| {
        let message = format!(
            "{about}: found {what} in region {}, wanted a group",
            config.region
        );
        failure(FailureCode::NotFound, message)
    };
    let group = found.ok_or_else(|| missing("none"))?;
    if group.is_ending {
        return Err(missing("one that is being deleted"));
    }
    Ok(group)
}

/// All groups that have the tag of a cluster, until one is what was looked for. Without a uid: those of any cluster.
///
/// Errors: Auto Scaling does not answer, or refuses.
pub fn of_cluster(
    host: &impl Cloud,
    config: &Config,
    uid: Option<&str>,
    see: &mut dyn FnMut(Group) -> bool,
) -> Result<(), Refusal> {
    let filter = match uid {
        Some(_) => format!("tag:{}", config.uid_tag),
        None => "tag-key".to_owned(),
    };
    let query = Query::autoscaling("DescribeAutoScalingGroups")
        .with("Filters.member.1.Name", &filter)
        .with("Filters.member.1.Values.member.1", uid.unwrap_or(&config.uid_tag));
    let about = format!("auto scaling groups with tag {}", config.uid_tag);
    pages(host, config, &about, &query, &mut |list| {
        // What the filter means is checked: a machine is deleted on its word.
        for group in read_groups(list).ok_or_else(|| unreadable(&query, &about))? {
            let value = group.tag(&config.uid_tag);
            let is_managed = value.is_some() && (uid.is_none() || value == uid);
            if is_managed && see(group) {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

/// Makes sure that a machine which EC2 does not know is looked for where the cluster is: with the keys of another account, or in another region,
/// every machine would be gone.
///
/// Errors: no group of the cluster is there, or Auto Scaling does not answer, or refuses.
pub fn expect_any(host: &impl Cloud, config: &Config, id: &str) -> Result<(), Failure> {
    let mut is_here = false;
    of_cluster(host, config, config.uid.as_deref(), &mut |_| {
        is_here = true;
        true
    })?;
    if is_here {
        Ok(())
    } else {
        Err(elsewhere(config, id))
    }
}

/// A machine that is not there, and no group of the cluster either.
pub fn elsewhere(config: &Config, id: &str) -> Failure {
    let uid = config.uid.as_ref().map(|uid| format!("={uid}"));
    let message = format!(
        "instance {id}: found neither it nor an auto scaling group with tag {}{} in region {} with credential {}, wanted one of them; it may run in another account or region, and does not count as gone",
        config.uid_tag,
        uid.unwrap_or_default(),
        config.region,
        config.credential
    );
    failure(FailureCode::Unavailable, message)
}
