//! Provider of machines: machines that are ConfigMaps, for demos and tests.

use numo_provider_sdk::{
    CreatedNode, Creation, Description, Failure, FailureCode, NodeState, Pending, Provider, ScalingGroup,
    component, failure::failure, host::Host,
};

component!(Sim);

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct Sim;

fn later<T>() -> Result<T, Failure> {
    Err(failure(FailureCode::Other, "not written yet"))
}

impl Provider for Sim {
    fn describe() -> Description {
        Description {
            name: "sim".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: env!("CARGO_PKG_DESCRIPTION").to_owned(),
            hosts: Vec::new(),
            attributes: Vec::new(),
        }
    }

    fn node_image(_: &impl Host, _: &str) -> Result<String, Failure> {
        later()
    }

    fn scaling_group_id(_: &impl Host, _: &str) -> Result<String, Failure> {
        later()
    }

    fn create_node(_: &impl Host, _: &str, _: &str, _: Option<&str>) -> Result<Creation, Failure> {
        later()
    }

    fn find_node(_: &impl Host, _: &str, _: &str) -> Result<Option<CreatedNode>, Failure> {
        later()
    }

    fn delete_node(_: &impl Host, _: &str) -> Result<(), Failure> {
        later()
    }

    fn node_state(_: &impl Host, _: &str) -> Result<NodeState, Failure> {
        later()
    }

    fn group_image(_: &impl Host, _: &str) -> Result<String, Failure> {
        later()
    }

    fn set_group_image(_: &impl Host, _: &str, _: &str, _: Option<&str>) -> Result<Option<Pending>, Failure> {
        later()
    }

    fn group_name(_: &str) -> Result<String, Failure> {
        later()
    }

    fn autoscaling_group_name(_: &str) -> Result<String, Failure> {
        later()
    }

    fn groups(_: &impl Host, _: &str) -> Result<Vec<ScalingGroup>, Failure> {
        later()
    }

    fn autoscaling_cloud_provider() -> String {
        "sim".to_owned()
    }
}
