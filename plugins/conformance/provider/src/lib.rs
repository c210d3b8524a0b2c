//! A provider of machines that misbehaves in whatever way its configuration says. Never shipped, never a template.

use numo_provider_sdk::{
    CreatedNode, Creation, Description, Error, Failure, FailureCode, NodeRole, NodeState, ObjectRef, Pending, Provider,
    ScalingGroup, component,
    failure::{failure, of_host},
    host::{Authorization, Freshness, Host, Method, Projection, Request},
    serde_json::{self, Value},
};

component!(Conformance);

struct Conformance;

fn config(host: &impl Host) -> Value {
    serde_json::from_str(&host.config_json()).unwrap()
}

fn text(config: &Value, field: &str) -> String {
    config[field].as_str().unwrap_or_default().to_owned()
}

fn told(error: Error) -> Failure {
    let mut told = of_host(&error);
    let details: Vec<_> = error.details.iter().map(|(key, value)| format!("{key}={value}")).collect();
    told.message = format!("{:?} {} [{}]", error.code, error.message, details.join(" "));
    told
}

/// What its settings say it asks the cloud.
fn request(config: &Value) -> Request {
    let headers = config["headers"].as_object().cloned().unwrap_or_default();
    let parameters = config["parameters"].as_object().cloned().unwrap_or_default();
    let pairs = |map: serde_json::Map<String, Value>| {
        let pair = |(key, value): (String, Value)| (key, value.as_str().unwrap_or_default().to_owned());
        map.into_iter().map(pair).collect::<Vec<_>>()
    };
    Request {
        method: match config["method"].as_str() {
            Some("POST") => Method::Post,
            Some("DELETE") => Method::Delete,
            _ => Method::Get,
        },
        url: text(config, "url"),
        headers: pairs(headers),
        body: text(config, "body").into_bytes(),
        authorization: config["credential"].as_str().map(|credential| Authorization {
            credential: credential.to_owned(),
            scheme: config["scheme"].as_str().unwrap_or("bearer").to_owned(),
            parameters: pairs(parameters),
        }),
    }
}

fn object(config: &Value) -> ObjectRef {
    ObjectRef {
        api_version: text(config, "apiVersion"),
        kind: text(config, "kind"),
        namespace: config["namespace"].as_str().map(str::to_owned),
        name: text(config, "name"),
    }
}

fn recurse(depth: u64) -> u64 {
    1 + recurse(std::hint::black_box(depth + 1))
}

fn misbehave(host: &impl Host) -> Result<String, Failure> {
    let config = config(host);
    match text(&config, "do").as_str() {
        "send" => {
            let sent = host.send(&request(&config)).map_err(told)?;
            Ok(format!("{} {}", sent.status, String::from_utf8_lossy(&sent.body)))
        }
        "create" => host.create_object(&text(&config, "body")).map_err(told),
        "patch" => host.patch_object(&object(&config), &text(&config, "body")).map_err(told),
        "delete" => {
            host.delete_object(&object(&config), &text(&config, "uid")).map_err(told)?;
            Ok("gone".to_owned())
        }
        "get" => {
            let whole = Projection { fields: Vec::new(), freshness: Freshness::Live };
            let found = host.get_object(&object(&config), &whole).map_err(told)?;
            Ok(found.unwrap_or_else(|| "none".to_owned()))
        }
        "settings" => Ok(format!("{config} {:?}", host.cloud_config())),
        "flood" => loop {
            host.send(&request(&config)).map_err(told)?;
        },
        "loop" => loop {
            std::hint::black_box(());
        },
        "allocate" => {
            let mut kept = Vec::new();
            loop {
                kept.push(vec![1_u8; 1 << 20]);
                std::hint::black_box(&kept);
            }
        }
        "recurse" => Ok(std::hint::black_box(recurse(1)).to_string()),
        "panic" => panic!("on purpose"),
        "big" => Ok("x".repeat(1 << 20)),
        "line-end" => Ok("a\nb".to_owned()),
        "empty" => Ok(String::new()),
        "fail" => Err(failure(FailureCode::Exhausted, "found no room\nin the zone")),
        other => Ok(other.to_owned()),
    }
}

fn made(config: &Value) -> CreatedNode {
    CreatedNode {
        node_name: text(config, "node"),
        provider_id: text(config, "id"),
        attributes: Vec::new(),
    }
}

impl Provider for Conformance {
    fn describe() -> Description {
        Description {
            name: "conformance".to_owned(),
            version: "1.0.0".to_owned(),
            summary: "misbehaves".to_owned(),
            hosts: vec!["127.0.0.1:443".to_owned()],
            attributes: Vec::new(),
        }
    }

    fn node_image(host: &impl Host, _: &str) -> Result<String, Failure> {
        misbehave(host)
    }

    fn scaling_group_id(_: &impl Host, id: &str) -> Result<String, Failure> {
        Ok(format!("group of {id}"))
    }

    fn create_node(host: &impl Host, _: &str, request: &str, token: Option<&str>) -> Result<Creation, Failure> {
        let config = config(host);
        if text(&config, "do") != "pending" {
            return Ok(Creation::Created(made(&config)));
        }
        let long = config["long"].as_u64().unwrap_or_default();
        Ok(Creation::Pending(Pending {
            token: format!("{request} after {token:?}{}", "x".repeat(long as usize)),
            retry_after_seconds: 0,
            message: "awaits".to_owned(),
        }))
    }

    fn find_node(host: &impl Host, _: &str, _: &str) -> Result<Option<CreatedNode>, Failure> {
        let config = config(host);
        Ok((text(&config, "do") == "find").then(|| made(&config)))
    }

    fn delete_node(_: &impl Host, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn node_state(_: &impl Host, _: &str) -> Result<NodeState, Failure> {
        Ok(NodeState::Ready)
    }

    fn group_image(_: &impl Host, group: &str) -> Result<String, Failure> {
        Ok(format!("image of {group}"))
    }

    fn set_group_image(_: &impl Host, _: &str, _: &str, _: Option<&str>) -> Result<Option<Pending>, Failure> {
        Ok(None)
    }

    fn group_name(group: &str) -> Result<String, Failure> {
        Ok(group.to_owned())
    }

    fn autoscaling_group_name(group: &str) -> Result<String, Failure> {
        Ok(group.to_owned())
    }

    fn groups(host: &impl Host, uid: &str) -> Result<Vec<ScalingGroup>, Failure> {
        let number = config(host)["groups"].as_u64().unwrap_or(1);
        let group = |index: u64| ScalingGroup {
            name: format!("{uid}-{index}"),
            node_group_name: "a".to_owned(),
            group_id: format!("g{index}"),
            autoscaling_group_name: "a".to_owned(),
            role: NodeRole::Worker,
            attributes: Vec::new(),
        };
        Ok((0..number).map(group).collect())
    }

    fn autoscaling_cloud_provider() -> String {
        "none".to_owned()
    }
}
