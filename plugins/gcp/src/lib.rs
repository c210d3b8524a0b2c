//! Provider of machines: managed instance groups of Google Cloud (Compute Engine, REST v1). Maps the contract to the modules below; it may call
//! nothing but the Compute Engine API and the log, and keeps nothing between calls.

mod answer;
mod api;
mod config;
mod create;
mod delete;
mod discovery;
mod group;
mod ids;
mod instance;
mod names;
mod operation;
mod template;

use numo_provider_sdk::{
    CreatedNode, Creation, Description, Failure, NodeState, Pending, Provider, ScalingGroup, component,
    host::Host,
};

use api::Api;
use ids::{GroupId, InstanceId};

component!(Gcp);

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct Gcp;

impl Provider for Gcp {
    fn describe() -> Description {
        Description {
            name: "gcp".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: env!("CARGO_PKG_DESCRIPTION").to_owned(),
            hosts: vec![format!("{}:443", api::HOST)],
            attributes: Vec::new(),
        }
    }

    fn node_image(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
        let id = InstanceId::parse(provider_id)?;
        instance::image(&Api::new(host)?, &id)
    }

    fn scaling_group_id(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
        let id = InstanceId::parse(provider_id)?;
        let found = instance::required(&Api::new(host)?, &id)?;
        Ok(instance::group(&id, &found)?.path())
    }

    fn create_node(
        host: &impl Host,
        group_id: &str,
        request_id: &str,
        token: Option<&str>,
    ) -> Result<Creation, Failure> {
        let group = GroupId::parse(group_id)?;
        let request = numo_provider_sdk::names::request(request_id)?;
        create::create(&Api::new(host)?, &group, request, token)
    }

    fn find_node(host: &impl Host, group_id: &str, request_id: &str) -> Result<Option<CreatedNode>, Failure> {
        let group = GroupId::parse(group_id)?;
        let request = numo_provider_sdk::names::request(request_id)?;
        create::find(&Api::new(host)?, &group, request)
    }

    fn delete_node(host: &impl Host, provider_id: &str) -> Result<(), Failure> {
        let id = InstanceId::parse(provider_id)?;
        let owner = config::Owner::read(host)?;
        delete::delete(&Api::new(host)?, owner.as_ref(), &id)
    }

    fn node_state(host: &impl Host, provider_id: &str) -> Result<NodeState, Failure> {
        let id = InstanceId::parse(provider_id)?;
        instance::state(&Api::new(host)?, &id)
    }

    fn group_image(host: &impl Host, group_id: &str) -> Result<String, Failure> {
        let group = GroupId::parse(group_id)?;
        template::image(&Api::new(host)?, &group)
    }

    fn set_group_image(
        host: &impl Host,
        group_id: &str,
        image: &str,
        token: Option<&str>,
    ) -> Result<Option<Pending>, Failure> {
        let group = GroupId::parse(group_id)?;
        let image = ids::image(image)?;
        template::set_image(&Api::new(host)?, &group, &image, token)
    }

    fn group_name(group_id: &str) -> Result<String, Failure> {
        Ok(GroupId::parse(group_id)?.name)
    }

    fn autoscaling_group_name(group_id: &str) -> Result<String, Failure> {
        Ok(GroupId::parse(group_id)?.autoscaler_url())
    }

    fn groups(host: &impl Host, uid: &str) -> Result<Vec<ScalingGroup>, Failure> {
        let config = config::Discovery::read(host)?;
        discovery::groups(&Api::new(host)?, &config, uid)
    }

    fn autoscaling_cloud_provider() -> String {
        "gce".to_owned()
    }
}
