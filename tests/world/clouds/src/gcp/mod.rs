//! Compute Engine: instances, instance templates, managed instance groups and operations, as far as the provider calls them. Written from the public
//! documentation, and not compared with the real cloud. Time goes by one tick with each request.

mod answers;
mod routes;
mod state;
mod writes;

pub use state::{Call, Group, Image, Instance, Knobs, Member, State};

use crate::Served;
use axum::Router;
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A cloud on loopback, for as long as it is held.
#[derive(Debug)]
pub struct Cloud {
    state: Arc<Mutex<State>>,
    served: Served,
}

impl Cloud {
    /// Starts one with nothing in it.
    ///
    /// Errors: there is no port, or no thread.
    pub fn start() -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State::new()));
        let router = Router::new()
            .fallback(routes::serve)
            .with_state(Arc::clone(&state));
        let served = Served::start(router)?;
        Ok(Self { state, served })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.served.address()
    }

    /// What is in it, to look at and to change.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
