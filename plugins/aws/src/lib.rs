//! Provider of machines: auto scaling groups of AWS. It calls EC2 (2016-11-15) and Auto Scaling (2011-01-01) through the host, which signs;
//! it sees no secret, keeps nothing between calls, and never waits.
//!
//! How a machine is made exactly once is told in [`create`], what is deleted in [`delete`], how a group gets another image in [`image`].

pub mod call;
pub mod create;
pub mod delete;
pub mod group;
pub mod ids;
pub mod image;
pub mod launch;
pub mod machine;
pub mod network;
pub mod place;
pub mod settings;
pub mod token;
pub mod xml;

use crate::{launch::Asked, settings::Config};
use numo_provider_sdk::{
    CreatedNode, Creation, Description, Failure, FailureCode, NodeRole, NodeState, Pending, Provider,
    ScalingGroup, component,
    failure::failure,
    host::{Host, Level},
    names,
};

component!(Aws);

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct Aws;

impl Provider for Aws {
    fn describe() -> Description {
        Description {
            name: "aws".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: env!("CARGO_PKG_DESCRIPTION").to_owned(),
            hosts: vec![
                "ec2.REGION.amazonaws.com:443".to_owned(),
                "autoscaling.REGION.amazonaws.com:443".to_owned(),
            ],
            attributes: Vec::new(),
        }
    }

    fn node_image(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
        let machine = there(host, provider_id)?;
        if machine.image.is_empty() {
            let message = format!("instance {}: EC2 gives it no image", machine.id);
            return Err(failure(FailureCode::Other, message));
        }
        Ok(machine.image)
    }

    fn scaling_group_id(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
        let machine = there(host, provider_id)?;
        let group = machine.member_of.or(machine.made_for);
        group.ok_or_else(|| {
            let message = format!(
                "instance {}, tag aws:autoscaling:groupName: found none, wanted the name of an auto scaling group",
                machine.id
            );
            failure(FailureCode::NotFound, message)
        })
    }

    fn create_node(
        host: &impl Host,
        group_id: &str,
        request_id: &str,
        token: Option<&str>,
    ) -> Result<Creation, Failure> {
        let asked = asked(group_id, request_id)?;
        create::create(host, &Config::read(host)?, asked, token)
    }

    fn find_node(host: &impl Host, group_id: &str, request_id: &str) -> Result<Option<CreatedNode>, Failure> {
        let asked = asked(group_id, request_id)?;
        create::find(host, &Config::read(host)?, asked)
    }

    fn delete_node(host: &impl Host, provider_id: &str) -> Result<(), Failure> {
        let config = Config::read(host)?;
        let id = ids::instance(&config, provider_id)?;
        delete::delete(host, &config, &id)
    }

    fn node_state(host: &impl Host, provider_id: &str) -> Result<NodeState, Failure> {
        let config = Config::read(host)?;
        let id = ids::instance(&config, provider_id)?;
        if let Some(machine) = machine::by_id(host, &config, &id)? {
            return Ok(machine.node_state());
        }
        group::expect_any(host, &config, &id)?;
        Ok(NodeState::Terminated)
    }

    fn group_image(host: &impl Host, group_id: &str) -> Result<String, Failure> {
        image::of_group(host, &Config::read(host)?, group_id)
    }

    fn set_group_image(
        host: &impl Host,
        group_id: &str,
        image: &str,
        _: Option<&str>,
    ) -> Result<Option<Pending>, Failure> {
        image::set(host, &Config::read(host)?, group_id, image)
    }

    fn group_name(group_id: &str) -> Result<String, Failure> {
        Ok(ids::object_name(ids::group(group_id)?))
    }

    fn autoscaling_group_name(group_id: &str) -> Result<String, Failure> {
        Ok(ids::group(group_id)?.to_owned())
    }

    fn groups(host: &impl Host, uid: &str) -> Result<Vec<ScalingGroup>, Failure> {
        let config = Config::read(host)?;
        if uid.is_empty() {
            let message = format!(
                "uid of the cluster: found nothing, wanted the value of tag {}",
                config.uid_tag
            );
            return Err(failure(FailureCode::Invalid, message));
        }
        let mut groups = Vec::new();
        group::of_cluster(host, &config, Some(uid), &mut |group| {
            groups.extend(scaling_group(host, &config, &group));
            false
        })?;
        Ok(groups)
    }

    fn autoscaling_cloud_provider() -> String {
        "aws".to_owned()
    }
}

fn asked<'a>(group: &'a str, request: &'a str) -> Result<Asked<'a>, Failure> {
    Ok(Asked {
        group: ids::group(group)?,
        request: names::request(request)?,
    })
}

/// The machine with this providerID.
fn there(host: &impl Host, provider_id: &str) -> Result<machine::Machine, Failure> {
    let config = Config::read(host)?;
    let id = ids::instance(&config, provider_id)?;
    let found = machine::by_id(host, &config, &id)?;
    found.ok_or_else(|| {
        let message = format!("instance {id}: found none in region {}", config.region);
        failure(FailureCode::NotFound, message)
    })
}

/// A group as numo knows it. One that is being deleted, or whose role is none of numo's, is none.
fn scaling_group(host: &impl Host, config: &Config, group: &group::Group) -> Option<ScalingGroup> {
    let role = group
        .tag(&config.role_tag)
        .unwrap_or_default()
        .to_ascii_lowercase();
    let role = match role.as_str() {
        "worker" => NodeRole::Worker,
        "control-plane" | "controlplane" => NodeRole::ControlPlane,
        _ => {
            let line = format!(
                "auto scaling group {}, tag {}: found {:?}, wanted worker or control-plane; it is left out",
                group.name,
                config.role_tag,
                ids::shown(&role)
            );
            host.write(Level::Warn, &line);
            return None;
        }
    };
    if group.is_ending {
        return None;
    }
    let node_group = group.tag(&config.node_group_tag).filter(|name| !name.is_empty());
    Some(ScalingGroup {
        name: ids::object_name(&group.name),
        node_group_name: node_group.unwrap_or(&group.name).to_owned(),
        group_id: group.name.clone(),
        autoscaling_group_name: group.name.clone(),
        role,
        attributes: Vec::new(),
    })
}
