//! Provider of machines: machines and groups that are ConfigMaps of one namespace, for demos and tests. Whoever plays the machines reads
//! them, makes Nodes, and takes away what is being deleted. It may read and write ConfigMaps of that namespace, and nothing else.
//!
//! The name of the ConfigMap of a machine is the id of the request that made it: asked twice it is made once. What a machine is stands in
//! the label [`PART`], and every patch tests it: a stranger's ConfigMap of that name stays as it is.
//!
//! Keys of `data`: of a machine `image`, `group`, `node` and `state`; of a group `image`, `role`, `autoscaler` and `name`.

mod maps;

use maps::Maps;
use numo_provider_sdk::{
    CreatedNode, Creation, Description, Failure, FailureCode, NodeRole, NodeState, Pending, Provider,
    ScalingGroup, component,
    failure::{failure, invalid},
    host::Host,
    names,
    objects::text,
    serde_json::{Value, json},
};

component!(Sim);

/// Label of the ConfigMaps: `machine` or `group`.
pub const PART: &str = "numo.openshift-optional.skrzypek.io/sim";
/// What ids of machines begin with.
pub const MACHINE: &str = "sim:///";

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct Sim;

/// Name of the ConfigMap of a machine. The prefix is compared without regard to case, as all ids are.
fn machine(provider_id: &str) -> Result<String, Failure> {
    let lower = provider_id.to_ascii_lowercase();
    let name = lower.strip_prefix(MACHINE).filter(|name| is_name(name));
    name.map(ToOwned::to_owned).ok_or_else(|| {
        invalid(format!(
            "found machine {provider_id:?}, wanted {MACHINE} and the name of a ConfigMap"
        ))
    })
}

/// Name of the ConfigMap of a group.
fn group(group_id: &str) -> Result<String, Failure> {
    let lower = group_id.to_ascii_lowercase();
    if is_name(&lower) {
        return Ok(lower);
    }
    Err(invalid(format!(
        "found group {group_id:?}, wanted the name of a ConfigMap"
    )))
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !name.is_empty() && name.len() <= 253 && name.bytes().all(fits)
}

fn data<'a>(map: &'a Value, key: &str) -> &'a str {
    text(map, &format!("/data/{key}"))
}

fn made(map: &Value) -> CreatedNode {
    CreatedNode {
        node_name: data(map, "node").to_owned(),
        provider_id: format!("{MACHINE}{}", text(map, "/metadata/name")),
        attributes: Vec::new(),
    }
}

fn found_machine(maps: &Maps<'_, impl Host>, provider_id: &str) -> Result<Value, Failure> {
    let found = maps.get(&machine(provider_id)?)?;
    found.ok_or_else(|| {
        failure(
            FailureCode::NotFound,
            format!("there is no machine {provider_id}"),
        )
    })
}

fn no_group(group_id: &str) -> Failure {
    failure(FailureCode::NotFound, format!("there is no group {group_id}"))
}

fn found_group(maps: &Maps<'_, impl Host>, group_id: &str) -> Result<Value, Failure> {
    maps.get(&group(group_id)?)?.ok_or_else(|| no_group(group_id))
}

fn state(word: &str) -> NodeState {
    match word {
        "Creating" => NodeState::Creating,
        "Ready" => NodeState::Ready,
        "Stopped" => NodeState::Stopped,
        "Terminating" => NodeState::Terminating,
        "Terminated" => NodeState::Terminated,
        "Failed" => NodeState::Failed,
        _ => NodeState::Unknown,
    }
}

/// The ConfigMap of a new machine.
fn new_machine(maps: &Maps<'_, impl Host>, group: &Value, request: &str) -> Value {
    let group_id = text(group, "/metadata/name");
    let end: String = request.chars().rev().take(6).collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": request, "namespace": maps.namespace(), "labels": {PART: "machine"}},
        "data": {
            "image": data(group, "image"), "group": group_id,
            "node": format!("{group_id}-{end}"), "state": "Creating",
        },
    })
}

fn listed(map: &Value) -> ScalingGroup {
    let name = text(map, "/metadata/name").to_owned();
    let role = match data(map, "role") {
        "ControlPlane" => NodeRole::ControlPlane,
        _ => NodeRole::Worker,
    };
    ScalingGroup {
        group_id: name.clone(),
        name,
        node_group_name: data(map, "name").to_owned(),
        autoscaling_group_name: data(map, "autoscaler").to_owned(),
        role,
        attributes: Vec::new(),
    }
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

    fn node_image(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
        let found = found_machine(&Maps::read(host)?, provider_id)?;
        Ok(data(&found, "image").to_owned())
    }

    fn scaling_group_id(host: &impl Host, provider_id: &str) -> Result<String, Failure> {
        let found = found_machine(&Maps::read(host)?, provider_id)?;
        Ok(data(&found, "group").to_owned())
    }

    fn create_node(
        host: &impl Host,
        group_id: &str,
        request_id: &str,
        _: Option<&str>,
    ) -> Result<Creation, Failure> {
        let (maps, request) = (Maps::read(host)?, names::request(request_id)?);
        if let Some(found) = maps.get(request)? {
            return Ok(Creation::Created(made(&found)));
        }
        let group = found_group(&maps, group_id)?;
        let new = new_machine(&maps, &group, request);
        if let Some(map) = maps.create(&new)? {
            return Ok(Creation::Created(made(&map)));
        }
        // Whoever was asked before has made it.
        let found = maps.get(request)?.ok_or_else(|| {
            failure(
                FailureCode::Other,
                format!("machine {request} was made and is gone"),
            )
        })?;
        Ok(Creation::Created(made(&found)))
    }

    fn find_node(host: &impl Host, _: &str, request_id: &str) -> Result<Option<CreatedNode>, Failure> {
        let (maps, request) = (Maps::read(host)?, names::request(request_id)?);
        Ok(maps.get(request)?.map(|found| made(&found)))
    }

    fn delete_node(host: &impl Host, provider_id: &str) -> Result<(), Failure> {
        let maps = Maps::read(host)?;
        // One that is gone is success.
        maps.set(&machine(provider_id)?, "machine", "state", "Terminating")?;
        Ok(())
    }

    fn node_state(host: &impl Host, provider_id: &str) -> Result<NodeState, Failure> {
        let found = Maps::read(host)?.get(&machine(provider_id)?)?;
        Ok(found.map_or(NodeState::Terminated, |map| state(data(&map, "state"))))
    }

    fn group_image(host: &impl Host, group_id: &str) -> Result<String, Failure> {
        let found = found_group(&Maps::read(host)?, group_id)?;
        Ok(data(&found, "image").to_owned())
    }

    fn set_group_image(
        host: &impl Host,
        group_id: &str,
        image: &str,
        _: Option<&str>,
    ) -> Result<Option<Pending>, Failure> {
        let is_there = Maps::read(host)?.set(&group(group_id)?, "group", "image", image)?;
        if is_there {
            Ok(None)
        } else {
            Err(no_group(group_id))
        }
    }

    fn group_name(group_id: &str) -> Result<String, Failure> {
        group(group_id)
    }

    fn autoscaling_group_name(group_id: &str) -> Result<String, Failure> {
        group(group_id)
    }

    fn groups(host: &impl Host, _: &str) -> Result<Vec<ScalingGroup>, Failure> {
        Ok(Maps::read(host)?.groups()?.iter().map(listed).collect())
    }

    fn autoscaling_cloud_provider() -> String {
        "sim".to_owned()
    }
}
