//! The provider's settings, read and checked. Calls nothing but the host's own settings.

use numo_provider_sdk::{Failure, failure::invalid, host::Settings, settings::Fields};

/// How a Node is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeNames {
    /// By the id of its instance.
    InstanceId,
    /// By the private DNS name of its instance.
    PrivateDns,
}

/// The settings of a call.
#[derive(Clone, Debug)]
pub struct Config {
    /// Region of all groups.
    pub region: String,
    /// Credential that the host signs with.
    pub credential: String,
    /// Where EC2 is.
    pub ec2_host: String,
    /// Where Auto Scaling is.
    pub autoscaling_host: String,
    /// How a Node is called.
    pub node_names: NodeNames,
    /// Tag of a group whose value is the uid of its cluster.
    pub uid_tag: String,
    /// Tag of a group that says what its nodes are.
    pub role_tag: String,
    /// Tag of a group with the name of its node group.
    pub node_group_tag: String,
    /// Uid of the cluster: machines are deleted from its groups only.
    pub uid: Option<String>,
}

/// Longest key of a tag.
const TAG_KEY: usize = 128;

impl Config {
    /// Reads them.
    ///
    /// Errors: one is missing or has another form.
    pub fn read(host: &impl Settings) -> Result<Self, Failure> {
        let fields = Fields::read(host)?;
        let region = region(&fields)?;
        let suffix = match region.split('-').next() {
            Some("cn") => "amazonaws.com.cn",
            _ => "amazonaws.com",
        };
        Ok(Self {
            ec2_host: address(&fields, "ec2Host", format!("ec2.{region}.{suffix}"))?,
            autoscaling_host: address(
                &fields,
                "autoscalingHost",
                format!("autoscaling.{region}.{suffix}"),
            )?,
            region,
            credential: fields.text("credential")?.unwrap_or("aws").to_owned(),
            node_names: node_names(&fields)?,
            uid_tag: tag(&fields, "uidTag", "constellation-uid")?,
            role_tag: tag(&fields, "roleTag", "constellation-role")?,
            node_group_tag: tag(&fields, "nodeGroupTag", "constellation-node-group")?,
            uid: fields.text("uid")?.map(str::to_owned),
        })
    }
}

fn wrong(name: &str, found: &str, wanted: &str) -> Failure {
    let found: String = found.chars().take(64).collect();
    invalid(format!(
        "config of the provider, {name}: found {found:?}, wanted {wanted}"
    ))
}

fn region(fields: &Fields) -> Result<String, Failure> {
    let region = fields.required("region")?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if region.len() > 32 || !region.contains('-') || !region.bytes().all(fits) {
        return Err(wrong("region", region, "a region such as eu-central-1"));
    }
    Ok(region.to_owned())
}

fn address(fields: &Fields, name: &str, usual: String) -> Result<String, Failure> {
    let Some(host) = fields.text(name)? else {
        return Ok(usual);
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    if host.len() > 253 || !host.bytes().all(fits) {
        return Err(wrong(name, host, "the name of a host, without scheme and port"));
    }
    Ok(host.to_owned())
}

fn node_names(fields: &Fields) -> Result<NodeNames, Failure> {
    match fields.text("nodeName")? {
        None | Some("instance-id") => Ok(NodeNames::InstanceId),
        Some("private-dns") => Ok(NodeNames::PrivateDns),
        Some(other) => Err(wrong("nodeName", other, "instance-id or private-dns")),
    }
}

fn tag(fields: &Fields, name: &str, usual: &str) -> Result<String, Failure> {
    let key = fields.text(name)?.unwrap_or(usual);
    if key.len() > TAG_KEY || key.chars().any(char::is_control) || key.contains('*') {
        return Err(wrong(name, key, "the key of a tag, without wildcards"));
    }
    Ok(key.to_owned())
}
