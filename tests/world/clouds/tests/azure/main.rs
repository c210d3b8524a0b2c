//! The provider of Azure's scale sets against a local server of that API. Nothing here was run against the real cloud.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod crashes;
mod faults;
mod groups;
mod hostile;
mod making;
mod together;

use numo_clouds::{
    azure::{Azure, RESOURCE_GROUP, SUBSCRIPTION, State},
    native,
};
use numo_provider_sdk::{
    CreatedNode, Creation, Error, ErrorCode, Failure, Provider, fake::World, host::Request,
};
use provider_azure::Azure as Cloud;
use std::{cell::Cell, rc::Rc};

/// The scale set of most tests, with a capital in its name.
const POOL: &str = "Pool_A";
const UID: &str = "uid-1";

fn started(state: State) -> Azure {
    Azure::start(state).unwrap()
}

/// Three running machines.
fn pool() -> State {
    State::default().with_set(POOL, UID, "worker", 3)
}

fn group() -> String {
    State::group_id(POOL)
}

fn config() -> String {
    format!(r#"{{"subscription":"{SUBSCRIPTION}","resourceGroup":"{RESOURCE_GROUP}"}}"#)
}

fn world(azure: &Azure) -> World {
    World {
        cloud: Some(Box::new(native(azure.address()))),
        config_json: config(),
        ..World::default()
    }
}

/// A host that does something before the n-th request (from 0), whatever it is.
fn world_that(azure: &Azure, before: usize, act: impl Fn() + 'static) -> World {
    let sends = native(azure.address());
    let count = Cell::new(0);
    World {
        cloud: Some(Box::new(move |request: &Request| {
            if count.replace(count.get() + 1) == before {
                act();
            }
            sends(request)
        })),
        ..world(azure)
    }
}

/// A host on which numo dies with the n-th request (from 0): the cloud has heard it, and numo has not heard the answer. All later ones are
/// not sent.
fn world_that_dies(azure: &Azure, with: usize) -> (World, Rc<Cell<usize>>) {
    let sends = native(azure.address());
    let count = Rc::new(Cell::new(0));
    let sent = count.clone();
    let cloud = move |request: &Request| {
        let number = sent.replace(sent.get() + 1);
        let answer = if number <= with {
            Some(sends(request))
        } else {
            None
        };
        answer.filter(|_| number < with).unwrap_or_else(|| {
            Err(Error {
                code: ErrorCode::Unavailable,
                message: "no answer".to_owned(),
                details: Vec::new(),
            })
        })
    };
    let world = World {
        cloud: Some(Box::new(cloud)),
        ..world(azure)
    };
    (world, count)
}

/// Calls as numo does until the machine is there, with the token of the call before and the time that it is to let pass.
fn made(world: &mut World, request: &str) -> Result<CreatedNode, Failure> {
    made_of(world, &group(), request)
}

fn made_of(world: &mut World, group: &str, request: &str) -> Result<CreatedNode, Failure> {
    let mut token = None;
    for _ in 0..60 {
        match Cloud::create_node(world, group, request, token.as_deref())? {
            Creation::Created(node) => return Ok(node),
            Creation::Pending(pending) => {
                assert!(
                    pending.retry_after_seconds > 0
                        && pending.token.len() <= 4096
                        && !pending.message.is_empty()
                );
                world.now += u64::from(pending.retry_after_seconds);
                token = Some(pending.token);
            }
        }
    }
    panic!("not made after 60 calls: {:?}", world.lines);
}

/// How often the log has a request that begins so and ends so.
fn counted(azure: &Azure, method: &str, end: &str) -> usize {
    let log = azure.state().log.clone();
    log.iter()
        .filter(|line| line.starts_with(method) && line.to_lowercase().ends_with(&end.to_lowercase()))
        .count()
}

/// Numbers of the machines that are there and stay.
fn staying(azure: &Azure, set: &str) -> Vec<u64> {
    azure.state().staying(set)
}

/// How many machines there are to be.
fn capacity(azure: &Azure) -> u64 {
    azure.state().set(POOL).capacity
}

/// Lines of all requests.
fn logged(azure: &Azure) -> Vec<String> {
    azure.state().log.clone()
}

/// The number of a machine in its provider id.
fn number(node: &CreatedNode) -> u64 {
    node.provider_id.rsplit('/').next().unwrap().parse().unwrap()
}
