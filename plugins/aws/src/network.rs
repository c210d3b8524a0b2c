//! Network interfaces of a launch template, repeated in the call that makes an instance. Reads only; what it cannot repeat it refuses.

use crate::{
    call::{Query, Refusal, ask},
    launch::Recipe,
    settings::Config,
    xml,
};
use numo_provider_sdk::{Failure, failure::invalid, host::Cloud};
use roxmltree::Node;

/// Fields that are repeated as they are: as EC2 answers, and as it is asked.
const FIELDS: [(&str, &str); 11] = [
    ("deviceIndex", "DeviceIndex"),
    ("networkCardIndex", "NetworkCardIndex"),
    ("description", "Description"),
    ("deleteOnTermination", "DeleteOnTermination"),
    ("associatePublicIpAddress", "AssociatePublicIpAddress"),
    ("associateCarrierIpAddress", "AssociateCarrierIpAddress"),
    ("interfaceType", "InterfaceType"),
    ("ipv6AddressCount", "Ipv6AddressCount"),
    ("ipv4PrefixCount", "Ipv4PrefixCount"),
    ("ipv6PrefixCount", "Ipv6PrefixCount"),
    ("secondaryPrivateIpAddressCount", "SecondaryPrivateIpAddressCount"),
];

/// One interface: its parameters, and its security groups.
pub type Interface = (Vec<(&'static str, String)>, Vec<String>);

/// Reads the interfaces of the template that a group uses.
///
/// Errors: EC2 refuses, or an interface has a field that is not known here.
pub fn interfaces(host: &impl Cloud, config: &Config, recipe: &Recipe) -> Result<Vec<Interface>, Refusal> {
    let query = Query::ec2("DescribeLaunchTemplateVersions")
        .with("LaunchTemplateId", &recipe.template)
        .with("LaunchTemplateVersion.1", &recipe.version);
    let about = format!("launch template {}, version {}", recipe.template, recipe.version);
    ask(host, config, &about, &query, |root| {
        let version = xml::first(root, "launchTemplateVersionSet");
        let mut interfaces = Vec::new();
        if let Some(data) = version.and_then(|version| xml::child(version, "launchTemplateData")) {
            for item in xml::items(data, "networkInterfaceSet") {
                interfaces.push(interface(&about, item)?);
            }
        }
        Ok(interfaces)
    })
}

fn interface(about: &str, item: Node<'_, '_>) -> Result<Interface, Failure> {
    let mut fields = Vec::new();
    let mut groups = Vec::new();
    for field in item.children().filter(Node::is_element) {
        let name = field.tag_name().name();
        let value = field.text().unwrap_or_default().trim();
        let known = FIELDS.iter().find(|(answered, _)| *answered == name);
        match known {
            Some((_, asked)) => fields.push((*asked, value.to_owned())),
            // The group's subnets count.
            None if name == "subnetId" => {}
            None if name == "groupSet" => {
                let ids = field.children().filter(Node::is_element);
                groups.extend(ids.filter_map(|id| group_id(id)));
            }
            None if value.is_empty() && !field.children().any(|child| child.is_element()) => {}
            None => {
                return Err(invalid(format!(
                    "{about}, network interface: found the field {name}, wanted none that numo cannot repeat"
                )));
            }
        }
    }
    if !fields.iter().any(|(name, _)| *name == "DeviceIndex") {
        fields.push(("DeviceIndex", "0".to_owned()));
    }
    Ok((fields, groups))
}

/// A security group, as a list of texts or of elements has it.
fn group_id(item: Node<'_, '_>) -> Option<String> {
    let id = xml::text(item, "groupId").or_else(|| item.text().map(str::trim));
    id.filter(|id| !id.is_empty()).map(str::to_owned)
}

/// The parameters of all interfaces, in this subnet.
pub fn parameters(interfaces: &[Interface], subnet: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    for (at, (fields, groups)) in interfaces.iter().enumerate() {
        let of = |name: &str| format!("NetworkInterface.{}.{name}", at + 1);
        parameters.push((of("SubnetId"), subnet.to_owned()));
        for (name, value) in fields {
            parameters.push((of(name), value.clone()));
        }
        for (number, group) in groups.iter().enumerate() {
            parameters.push((of(&format!("SecurityGroupId.{}", number + 1)), group.clone()));
        }
    }
    parameters
}
