//! Provider of machines: VM scale sets of Azure, with uniform orchestration.
//!
//! It speaks to Azure Resource Manager and to nothing else, and keeps nothing: whatever it must know in the next call stands in the tags of
//! the scale set.
//!
//! # How one request makes one machine
//!
//! A scale set is only told how many machines it is to have; which one it makes, it says afterwards, and a tag cannot be put on one machine of
//! a scale set with uniform orchestration: Azure answers 200 and drops it. So all that is known of requests is in the tags of the scale set,
//! one tag for each, and every change names the version (`If-Match`) that was read. Of two writers one is refused (412), reads again, and
//! decides again.
//!
//! 1. *Look.* Read the scale set, then its machines. A tag `made` with a machine that is there (number and vmId): that is the answer.
//! 2. *Raise.* No tag: one change writes the tag `wanted`, with the machines that are there, and the capacity plus one. Both or neither: a
//!    call that died leaves no raised capacity without a tag, and a tag means that the capacity was raised.
//! 3. *Wait.* Azure's operation is asked after, if the call before left its URL; else the state of the scale set tells.
//! 4. *Take.* A machine that was not there when the capacity was raised, and that no other request has, becomes the request's: one change
//!    replaces `wanted` by `made`.
//!
//! | what may happen | why there is still one machine |
//! |---|---|
//! | an answer is lost, numo dies between any two calls | the tag says how far it got; whoever reads it goes on there |
//! | two requests at once | each has a tag of its own, and each raises by one; machines are alike, so which gets which does not matter |
//! | the same request twice at once | the second writer is refused, and sees the tag |
//! | the autoscaler or a person adds machines meanwhile | the request takes one of the new ones, another is theirs; capacity and machines still agree |
//! | the list misses a machine that is there, because it lags or machines go between its pages | what was made more than 5 s before is never taken; of younger ones it may be, and its place is then that of the one to come |
//! | a number is used again | machines are told apart by vmId, and new ones by the time they were made, which is Azure's own clock |
//! | Azure has no room | the capacity stays raised, and is written again (the same number) with each try; the words go to people |
//! | the new machine is taken away before it is the request's | all machines that are to be there are there for 90 s, none is the request's: then, and only then, it is raised again |
//! | machines made for one request are needed by a later one | a request takes first what the fewest others may take |
//!
//! The capacity is never lowered here: Azure would choose which machine goes. Only deleting a machine by its number lowers it.
//!
//! A tag `made` that is ten minutes old is forgotten once its machine is gone, and one that is an hour old when more than 24 are remembered. A request of which
//! numo has not heard the answer by then would make a second machine. So would one whose tag a person, or a tool that sets all tags, deleted
//! while numo was dead.

mod arm;
mod config;
mod create;
mod group;
mod ids;
mod image;
mod ledger;
mod machine;
mod model;
mod time;
mod token;

use config::Config;
use create::Making;
use ids::{GroupId, MachineId};
use numo_provider_sdk::{
    CreatedNode, Creation, Description, Failure, NodeState, Pending, Provider, ScalingGroup, component,
    host::Host, names,
};

component!(Azure);

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct Azure;

impl Provider for Azure {
    fn describe() -> Description {
        Description {
            name: "azure".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: env!("CARGO_PKG_DESCRIPTION").to_owned(),
            hosts: vec![format!("{}:443", config::PUBLIC_HOST)],
            attributes: Vec::new(),
        }
    }

    fn node_image(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
        let id = MachineId::read(provider_id)?;
        machine::image(host, &Config::read(host)?, &id)
    }

    fn scaling_group_id(_: &impl Host, provider_id: &str) -> Result<String, Failure> {
        Ok(MachineId::read(provider_id)?.group.id())
    }

    fn create_node(
        host: &impl Host,
        group_id: &str,
        request_id: &str,
        token: Option<&str>,
    ) -> Result<Creation, Failure> {
        let (group, request) = (GroupId::read(group_id)?, names::request(request_id)?);
        Making::new(host, &Config::read(host)?, &group, request).create(token)
    }

    fn find_node(host: &impl Host, group_id: &str, request_id: &str) -> Result<Option<CreatedNode>, Failure> {
        let (group, request) = (GroupId::read(group_id)?, names::request(request_id)?);
        Making::new(host, &Config::read(host)?, &group, request).find()
    }

    fn delete_node(host: &impl Host, provider_id: &str) -> Result<(), Failure> {
        let id = MachineId::read(provider_id)?;
        machine::delete(host, &Config::read(host)?, &id)
    }

    fn node_state(host: &impl Host, provider_id: &str) -> Result<NodeState, Failure> {
        let id = MachineId::read(provider_id)?;
        machine::node_state(host, &Config::read(host)?, &id)
    }

    fn group_image(host: &impl Host, group_id: &str) -> Result<String, Failure> {
        let group = GroupId::read(group_id)?;
        group::image(host, &Config::read(host)?, &group)
    }

    fn set_group_image(
        host: &impl Host,
        group_id: &str,
        image: &str,
        token: Option<&str>,
    ) -> Result<Option<Pending>, Failure> {
        let group = GroupId::read(group_id)?;
        group::set_image(host, &Config::read(host)?, &group, image, token)
    }

    fn group_name(group_id: &str) -> Result<String, Failure> {
        Ok(GroupId::read(group_id)?.object_name())
    }

    fn autoscaling_group_name(group_id: &str) -> Result<String, Failure> {
        Ok(GroupId::read(group_id)?.name().to_owned())
    }

    fn groups(host: &impl Host, uid: &str) -> Result<Vec<ScalingGroup>, Failure> {
        group::list(host, &Config::read(host)?, uid)
    }

    fn autoscaling_cloud_provider() -> String {
        "azure".to_owned()
    }
}
