//! The host's interfaces as traits, so that a rule's logic also runs natively. No logic lives here.
//!
//! One trait for each interface, and static dispatch: what a rule does not call is not imported.

use crate::Error;
use crate::bindings::numo::host::{clock, history, http, kubernetes, prometheus};
pub use crate::bindings::numo::host::{
    clock::Instant,
    history::Entry,
    http::{Method, Request, Response},
    kubernetes::{Freshness, ListQuery, ObjectRef, Page, Projection},
    prometheus::{Answer, Sample},
};

/// Reads Kubernetes objects.
pub trait Kubernetes {
    /// One object as JSON, or none if it does not exist.
    fn get_object(&self, object: &ObjectRef, projection: &Projection) -> Result<Option<String>, Error>;
    /// One page of objects.
    fn list_objects(&self, query: &ListQuery) -> Result<Page, Error>;
}

/// Asks an HTTP server.
pub trait Http {
    /// Sends one request.
    fn fetch(&self, request: &Request) -> Result<Response, Error>;
}

/// Asks Prometheus.
pub trait Prometheus {
    /// Evaluates an instant query.
    fn query(&self, promql: &str) -> Result<Answer, Error>;
}

/// The time of the evaluation.
pub trait Clock {
    /// When this evaluation began.
    fn now(&self) -> Instant;
}

/// What this rule said before.
pub trait History {
    /// The newest first, at most `limit`; 0 asks for all that are kept.
    fn entries(&self, limit: u32) -> Result<Vec<Entry>, Error>;
}

/// The host that a component runs in. Calling it outside of one panics.
#[derive(Clone, Copy, Debug)]
pub struct Host;

impl Kubernetes for Host {
    fn get_object(&self, object: &ObjectRef, projection: &Projection) -> Result<Option<String>, Error> {
        kubernetes::get_object(object, projection)
    }

    fn list_objects(&self, query: &ListQuery) -> Result<Page, Error> {
        kubernetes::list_objects(query)
    }
}

impl Http for Host {
    fn fetch(&self, request: &Request) -> Result<Response, Error> {
        http::fetch(request)
    }
}

impl Prometheus for Host {
    fn query(&self, promql: &str) -> Result<Answer, Error> {
        prometheus::query(promql)
    }
}

impl Clock for Host {
    fn now(&self) -> Instant {
        clock::now()
    }
}

impl History for Host {
    fn entries(&self, limit: u32) -> Result<Vec<Entry>, Error> {
        history::entries(limit)
    }
}
