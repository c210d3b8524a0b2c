//! Provider of machines: MachineDeployments and MachinePools of Cluster API, in the cluster that numo runs in. It may read Cluster API's kinds
//! and their infrastructure, and may change MachineDeployments, MachinePools, MachineSets and Machines; it calls no cloud and makes no object.
//!
//! How a machine is made once is in `create`, how one is deleted once in `delete`, and where Cluster API would choose another in `hold`.

mod config;
mod create;
mod delete;
mod discover;
mod group;
mod hold;
mod image;
mod ledger;
mod machine;
mod pool;
mod sets;

use config::Config;
use group::Group;
pub use ledger::LEDGER;
use numo_provider_sdk::{
    CreatedNode, Creation, Description, Failure, NodeState, Pending, Provider, ScalingGroup, component,
    host::Host,
};

component!(ClusterApi);

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct ClusterApi;

impl Provider for ClusterApi {
    fn describe() -> Description {
        Description {
            name: "cluster-api".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: env!("CARGO_PKG_DESCRIPTION").to_owned(),
            hosts: Vec::new(),
            attributes: Vec::new(),
        }
    }

    fn node_image(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
        image::of_machine(host, provider_id)
    }

    fn scaling_group_id(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
        let config = Config::read(host)?;
        Ok(image::known(host, &config, provider_id)?.group()?.id())
    }

    fn create_node(
        host: &impl Host,
        group_id: &str,
        request_id: &str,
        token: Option<&str>,
    ) -> Result<Creation, Failure> {
        create::create(host, group_id, request_id, token)
    }

    fn find_node(host: &impl Host, group_id: &str, request_id: &str) -> Result<Option<CreatedNode>, Failure> {
        create::find(host, group_id, request_id)
    }

    fn delete_node(host: &impl Host, provider_id: &str) -> Result<(), Failure> {
        delete::delete(host, provider_id)
    }

    fn node_state(host: &impl Host, provider_id: &str) -> Result<NodeState, Failure> {
        let found = machine::by_id(host, &Config::read(host)?, provider_id)?;
        Ok(found.map_or(NodeState::Terminated, |machine| machine.state()))
    }

    fn group_image(host: &impl Host, group_id: &str) -> Result<String, Failure> {
        image::of_group(host, group_id)
    }

    fn set_group_image(
        host: &impl Host,
        group_id: &str,
        image: &str,
        _: Option<&str>,
    ) -> Result<Option<Pending>, Failure> {
        image::set(host, group_id, image)
    }

    fn group_name(group_id: &str) -> Result<String, Failure> {
        Ok(Group::parse(group_id)?.object_name())
    }

    fn autoscaling_group_name(group_id: &str) -> Result<String, Failure> {
        Ok(Group::parse(group_id)?.autoscaler_name())
    }

    fn groups(host: &impl Host, uid: &str) -> Result<Vec<ScalingGroup>, Failure> {
        discover::groups(host, uid)
    }

    fn autoscaling_cloud_provider() -> String {
        "clusterapi".to_owned()
    }
}
