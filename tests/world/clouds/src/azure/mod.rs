//! Azure Resource Manager: virtual machine scale sets with uniform orchestration, as far as the provider calls them. Written from the public
//! documentation of the API; none of it was compared with the real cloud.
//!
//! Time passes by requests: with each one machines boot, leave, and operations go on. A test sets up [`State`], serves it, and looks at it
//! while it is served.

mod http;
mod sets;

use crate::Served;
use numo_provider_sdk::serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The subscription.
pub const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000001";
/// The resource group.
pub const RESOURCE_GROUP: &str = "cluster-rg";
/// The only host that answers.
pub const HOST: &str = "management.azure.com";
/// The image that scale sets have at first.
pub const OLD_IMAGE: &str = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/images/providers/Microsoft.Compute/images/node-1";

/// A server that ends when this is dropped, and what it has.
#[derive(Clone, Debug)]
pub struct Azure {
    served: Arc<Served>,
    state: Arc<Mutex<State>>,
}

impl Azure {
    /// Serves a state.
    ///
    /// Errors: there is no port, or no thread.
    pub fn start(state: State) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(state));
        let served = Arc::new(Served::start(http::router(state.clone()))?);
        Ok(Self { served, state })
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.served.address()
    }

    /// What it has now.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer in place of the real one.
#[derive(Clone, Debug)]
pub struct Raw {
    /// What the request's line must hold.
    pub line: String,
    /// Status.
    pub status: u16,
    /// Body, whatever it is.
    pub body: Vec<u8>,
}

/// All that the server has, and its moods.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "moods are independent of one another"
)]
pub struct State {
    /// Scale sets by name in lower case.
    pub sets: BTreeMap<String, Set>,
    /// Images that there are, in lower case.
    pub images: BTreeSet<String>,
    /// Operations by number.
    pub operations: Vec<Operation>,
    /// Lines of the requests that came, `GET /path`, without the query.
    pub log: Vec<String>,
    /// Items on a page.
    pub page: usize,
    /// So many requests are throttled.
    pub throttled: u32,
    /// The only access token that is taken; none: every request that says how it is signed is.
    pub token: Option<String>,
    /// Methods that the caller has no permission for.
    pub denied: Option<&'static str>,
    /// Largest capacity that the quota allows.
    pub quota: u64,
    /// So many times there is no room for new machines: the capacity is raised, and none comes.
    pub without_room: u32,
    /// So many lists do not show a new machine.
    pub unseen: u32,
    /// Requests that it takes a machine to boot or to leave.
    pub boot: u32,
    /// Numbers of machines that are gone are used again, the lowest first.
    pub numbers_again: bool,
    /// Machines say when they were made.
    pub times: bool,
    /// Changes are answered by 202, a `Location` and no body.
    pub accepted: bool,
    /// Answers in place of the real ones.
    pub raw: Option<Raw>,
    /// Requests so far: the clock.
    pub tick: u64,
    /// Machines so far.
    pub made: u64,
}

/// A scale set.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its name as it was given.
    pub name: String,
    /// How many machines it is to have.
    pub capacity: u64,
    /// Its tags.
    pub tags: Map<String, Value>,
    /// `imageReference` of new machines.
    pub image: Value,
    /// `upgradePolicy`.
    pub upgrade_policy: Value,
    /// Whether it makes more machines than asked for.
    pub overprovision: bool,
    /// `Uniform` or `Flexible`.
    pub orchestration: String,
    /// Its version.
    pub etag: u64,
    /// Whether it says its version.
    pub says_etag: bool,
    /// Whether the last change failed.
    pub failed: bool,
    /// Requests until it is no longer being updated.
    pub busy: u32,
    /// Number of the next machine.
    pub next: u64,
    /// Its machines.
    pub machines: Vec<Machine>,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its number.
    pub instance: u64,
    /// What is its own for ever.
    pub vm_id: String,
    /// When it was made; empty if it does not say.
    pub created: String,
    /// `imageReference`.
    pub image: Value,
    /// The scale set's tags of then: it has none of its own.
    pub tags: Map<String, Value>,
    /// `Creating`, `Succeeded`, `Failed`, `Deleting`.
    pub provisioning: &'static str,
    /// Requests until that changes.
    pub ticks: u32,
    /// Lists that do not show it.
    pub unseen: u32,
}

/// A long operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Scale set that it works on, in lower case.
    pub set: String,
    /// Code and words of its failure.
    pub failure: Option<(String, String)>,
    /// A newer one has taken its place.
    pub preempted: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            sets: BTreeMap::new(),
            images: BTreeSet::from([OLD_IMAGE.to_lowercase()]),
            operations: Vec::new(),
            log: Vec::new(),
            page: 2,
            throttled: 0,
            token: None,
            denied: None,
            quota: 100,
            without_room: 0,
            unseen: 0,
            boot: 3,
            numbers_again: false,
            times: true,
            accepted: false,
            raw: None,
            tick: 0,
            made: 0,
        }
    }
}
