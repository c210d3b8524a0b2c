//! The provider gcp against a local Compute Engine. Each test sets up a cloud of its own; nothing here reaches beyond loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step of a test is its failure"
)]

mod bad;
mod crash;
mod faults;
mod hostile;
mod image;
mod owned;
mod replace;

use numo_clouds::{gcp::Cloud, native};
use numo_provider_sdk::{
    CreatedNode, Creation, Error, ErrorCode, Failure, Provider, fake::World, host::Request, serde_json::json,
};
use provider_gcp::Gcp;
use std::{cell::Cell, rc::Rc};

/// The cluster of all tests.
const UID: &str = "abc123";

/// A cloud with a cluster: two workers and a node of the control plane, of image `node-1`; `node-2` is there, too.
struct Fixture {
    cloud: Cloud,
    workers: String,
    control: String,
    old_image: String,
    new_image: String,
}

impl Fixture {
    fn new() -> Self {
        let cloud = Cloud::start().unwrap();
        let mut state = cloud.lock();
        let old_image = state.add_image("node-1");
        let new_image = state.add_image("node-2");
        let labels = |role: &str| json!({"constellation-uid": UID, "constellation-role": role, "constellation-node-group": format!("{role}_default")});
        let template = state.add_template("worker-3", &old_image, &labels("worker"));
        let workers = state.add_group("zones/zone-a", "workers", &template, 2);
        let template = state.add_template("control", &old_image, &labels("control-plane"));
        let control = state.add_group("zones/zone-b", "control", &template, 1);
        drop(state);
        Self {
            cloud,
            workers,
            control,
            old_image,
            new_image,
        }
    }

    /// A host that reaches it.
    fn world(&self) -> World {
        World {
            cloud: Some(Box::new(native(self.cloud.address()))),
            config_json: r#"{"project": "numo-test"}"#.to_owned(),
            ..World::default()
        }
    }

    /// A host whose request number `lost` (from 1) is served, and its answer lost; and how many requests there were.
    fn losing(&self, lost: usize) -> (World, Rc<Cell<usize>>) {
        let send = native(self.cloud.address());
        let count = Rc::new(Cell::new(0));
        let counted = Rc::clone(&count);
        let world = World {
            cloud: Some(Box::new(move |request: &Request| {
                counted.set(counted.get() + 1);
                let answer = send(request);
                if counted.get() == lost {
                    return Err(Error {
                        code: ErrorCode::Unavailable,
                        message: "the connection broke".to_owned(),
                        details: Vec::new(),
                    });
                }
                answer
            })),
            ..self.world()
        };
        (world, count)
    }

    /// How many requests it served.
    fn calls(&self) -> usize {
        self.cloud.lock().log.len()
    }

    /// Time goes by without the provider.
    fn wait(&self, ticks: u64) {
        let mut state = self.cloud.lock();
        for _ in 0..ticks {
            state.tick += 1;
            state.go_on();
        }
    }

    /// Instances that were made since the cloud has this many.
    fn made_since(&self, before: usize) -> Vec<String> {
        self.cloud.lock().made[before..].to_vec()
    }

    fn made(&self) -> usize {
        self.cloud.lock().made.len()
    }

    fn size(&self, group: &str) -> usize {
        self.cloud.lock().size(group)
    }

    fn target(&self, group: &str) -> i64 {
        self.cloud.lock().groups[group].target
    }
}

/// Asks until the machine is made, with the token of the answer before.
fn until_created(world: &World, group: &str, request: &str) -> CreatedNode {
    match try_until_created(world, group, request) {
        Ok(node) => node,
        Err(failure) => panic!("{failure:?}"),
    }
}

fn try_until_created(world: &World, group: &str, request: &str) -> Result<CreatedNode, Failure> {
    let mut token: Option<String> = None;
    for _ in 0..60 {
        match Gcp::create_node(world, group, request, token.as_deref())? {
            Creation::Created(node) => return Ok(node),
            Creation::Pending(pending) => {
                assert!(
                    pending.token.len() <= 4096 && pending.retry_after_seconds > 0,
                    "{pending:?}"
                );
                token = Some(pending.token);
            }
        }
    }
    panic!("no machine after 60 calls");
}

/// Asks until the image is set.
fn until_set(world: &World, group: &str, image: &str) -> Result<(), Failure> {
    let mut token: Option<String> = None;
    for _ in 0..60 {
        match Gcp::set_group_image(world, group, image, token.as_deref())? {
            None => return Ok(()),
            Some(pending) => token = Some(pending.token),
        }
    }
    panic!("no image after 60 calls");
}

/// The providerID of a machine of a group.
fn provider_id(group: &str, name: &str) -> String {
    let parts: Vec<&str> = group.split('/').collect();
    format!("gce://{}/{}/{name}", parts[1], parts[3])
}
