//! Makes an instance as a group would: from its launch template, with its tags, in one of its subnets. One call makes at most one, however
//! often it is made, because of its client token.

use crate::{
    call::{Query, Refusal, ask, unreadable},
    group::Group,
    ids::order,
    machine::{self, GROUP_TAG, Machine, REQUEST_TAG},
    network,
    settings::Config,
};
use numo_provider_sdk::{
    Failure,
    failure::invalid,
    host::Cloud,
    serde_json::{Value, json},
};

/// How a group makes a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// Launch template.
    pub template: String,
    /// Its version, as the group names it.
    pub version: String,
    /// Type of the instance, where it is not the template's.
    pub instance_type: Option<String>,
    /// Placement group.
    pub placement_group: Option<String>,
    /// Tags.
    pub tags: Vec<(String, String)>,
}

impl Recipe {
    /// How this group makes a machine.
    ///
    /// Errors: it does so in a way that one `RunInstances` cannot repeat.
    pub fn of(group: &Group) -> Result<Self, Failure> {
        let refuse = |field: &str, found: &str, wanted: &str| {
            invalid(format!(
                "auto scaling group {}, {field}: found {found}, wanted {wanted}",
                group.name
            ))
        };
        let template = group.template.as_ref();
        let template = template.ok_or_else(|| refuse("LaunchTemplate", "none", "a launch template"))?;
        if let Some(unit) = &group.unit {
            return Err(refuse("DesiredCapacityType", unit, "units"));
        }
        let mut tags: Vec<(String, String)> = Vec::new();
        for tag in &group.tags {
            if tag.propagated && !tag.key.starts_with("aws:") {
                tags.push((tag.key.clone(), tag.value.clone()));
            }
        }
        // The same in each repetition, in whatever order Auto Scaling lists them.
        order(&mut tags, |a, b| a < b);
        let field = "MixedInstancesPolicy.LaunchTemplate.Overrides";
        let overrides = group.overrides.as_deref().unwrap_or_default();
        if overrides.iter().any(|one| one.is_weighted) {
            return Err(refuse(
                field,
                "a WeightedCapacity",
                "types that count as one machine each",
            ));
        }
        let instance_type = match overrides.first() {
            None => None,
            Some(first) if first.has_template => {
                let found = "a launch template of its own";
                return Err(refuse(field, found, "one launch template for all types"));
            }
            Some(first) => match &first.instance_type {
                Some(first) => Some(first.clone()),
                None => return Err(refuse(field, "InstanceRequirements", "an InstanceType")),
            },
        };
        Ok(Self {
            template: template.id.clone(),
            version: template.version.clone(),
            instance_type,
            placement_group: group.placement_group.clone(),
            tags,
        })
    }

    /// As JSON.
    pub fn value(&self) -> Value {
        json!([
            self.template,
            self.version,
            self.instance_type,
            self.placement_group,
            self.tags
        ])
    }

    /// From JSON.
    pub fn parse(value: &Value) -> Option<Self> {
        let [template, version, instance_type, placement_group, tags] = value.as_array()?.as_slice() else {
            return None;
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut read = Vec::new();
        for tag in tags.as_array()? {
            let [key, value] = tag.as_array()?.as_slice() else {
                return None;
            };
            read.push((text(key)?, text(value)?));
        }
        Some(Self {
            template: text(template)?,
            version: text(version)?,
            instance_type: text(instance_type),
            placement_group: text(placement_group),
            tags: read,
        })
    }
}

/// Who asks for a machine.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The group.
    pub group: &'a str,
    /// The request.
    pub request: &'a str,
}

impl Asked<'_> {
    /// The request, for people.
    pub fn about(&self) -> String {
        format!("auto scaling group {}, request {}", self.group, self.request)
    }
}

/// Makes the machine of a request in a subnet. Where the template describes network interfaces, the subnet must be said of these: EC2 refuses
/// the first form of the call then, having made nothing, and the template is read.
///
/// Errors: EC2 refuses, or does not answer.
pub fn run(
    host: &impl Cloud,
    config: &Config,
    asked: Asked<'_>,
    recipe: &Recipe,
    subnet: &str,
) -> Result<Machine, Refusal> {
    let base = base(asked, recipe);
    let plain = base.clone().with("SubnetId", subnet);
    match start(host, config, asked, &plain) {
        Err(refusal) if is_about_interfaces(&refusal) => {
            let interfaces = network::interfaces(host, config, recipe)?;
            if interfaces.is_empty() {
                // Without them nothing says the subnet: EC2 would take one of its own choice.
                return Err(refusal);
            }
            let mut query = base;
            for (name, value) in network::parameters(&interfaces, subnet) {
                query = query.with(&name, &value);
            }
            start(host, config, asked, &query)
        }
        other => other,
    }
}

fn is_about_interfaces(refusal: &Refusal) -> bool {
    refusal.is(&["InvalidParameterCombination"]) && refusal.says("network interface")
}

fn start(host: &impl Cloud, config: &Config, asked: Asked<'_>, query: &Query) -> Result<Machine, Refusal> {
    let about = asked.about();
    ask(host, config, &about, query, |root| {
        machine::started(root).ok_or_else(|| unreadable(query, &about))
    })
}

fn base(asked: Asked<'_>, recipe: &Recipe) -> Query {
    let mut query = Query::ec2("RunInstances")
        .with("MinCount", "1")
        .with("MaxCount", "1")
        .with("ClientToken", &format!("numo-{}", asked.request))
        .with("LaunchTemplate.LaunchTemplateId", &recipe.template)
        .with("LaunchTemplate.Version", &recipe.version)
        .with("TagSpecification.1.ResourceType", "instance");
    if let Some(kind) = &recipe.instance_type {
        query = query.with("InstanceType", kind);
    }
    if let Some(group) = &recipe.placement_group {
        query = query.with("Placement.GroupName", group);
    }
    let ours = [(REQUEST_TAG, asked.request), (GROUP_TAG, asked.group)];
    let theirs = recipe
        .tags
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    let theirs = theirs.filter(|(key, _)| *key != REQUEST_TAG && *key != GROUP_TAG);
    for (at, (key, value)) in ours.into_iter().chain(theirs).enumerate() {
        let tag = format!("TagSpecification.1.Tag.{}", at + 1);
        query = query
            .with(&format!("{tag}.Key"), key)
            .with(&format!("{tag}.Value"), value);
    }
    query
}
