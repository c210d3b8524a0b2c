//! The host's interfaces as traits, so that a provider's logic also runs natively. No logic lives here.
//!
//! One trait for each interface, and static dispatch: what a provider does not call is not imported.

use crate::Error;
use crate::bindings::numo::{
    host::{clock, kubernetes, log},
    provider::{cloud_api, objects, settings},
};
pub use crate::bindings::numo::{
    host::{
        clock::Instant,
        kubernetes::{Freshness, ListQuery, ObjectRef, Page, Projection},
        log::Level,
    },
    provider::cloud_api::{Authorization, Method, Request, Response},
};

/// Calls the cloud's API.
pub trait Cloud {
    /// Sends one request, once. Any status is a response.
    fn send(&self, request: &Request) -> Result<Response, Error>;
}

/// Reads Kubernetes objects.
pub trait Kubernetes {
    /// One object as JSON, or none if it does not exist.
    fn get_object(&self, object: &ObjectRef, projection: &Projection) -> Result<Option<String>, Error>;
    /// One page of objects.
    fn list_objects(&self, query: &ListQuery) -> Result<Page, Error>;
}

/// Writes Kubernetes objects.
pub trait Objects {
    /// Makes an object and answers how it is now.
    fn create_object(&self, object_json: &str) -> Result<String, Error>;
    /// Changes an object by a JSON patch and answers how it is now.
    fn patch_object(&self, object: &ObjectRef, patch_json: &str) -> Result<String, Error>;
    /// Deletes an object if it still has this uid.
    fn delete_object(&self, object: &ObjectRef, uid: &str) -> Result<(), Error>;
}

/// The provider's own settings.
pub trait Settings {
    /// A JSON object.
    fn config_json(&self) -> String;
    /// The text of the cloud configuration file, without its secrets.
    fn cloud_config(&self) -> Option<String>;
}

/// The time of the call.
pub trait Clock {
    /// When this call began.
    fn now(&self) -> Instant;
    /// Reads a timestamp as RFC 3339 has it.
    fn parse_rfc3339(&self, text: &str) -> Option<Instant>;
}

/// Lines for the operator's log.
pub trait Log {
    /// Writes one line.
    fn write(&self, level: Level, message: &str);
}

/// All of it.
pub trait Host: Cloud + Kubernetes + Objects + Settings + Clock + Log {}

impl<T: Cloud + Kubernetes + Objects + Settings + Clock + Log> Host for T {}

/// The host that a component runs in. Calling it outside of one panics.
#[derive(Clone, Copy, Debug)]
pub struct Component;

impl Cloud for Component {
    fn send(&self, request: &Request) -> Result<Response, Error> {
        cloud_api::send(request)
    }
}

impl Kubernetes for Component {
    fn get_object(&self, object: &ObjectRef, projection: &Projection) -> Result<Option<String>, Error> {
        kubernetes::get_object(object, projection)
    }

    fn list_objects(&self, query: &ListQuery) -> Result<Page, Error> {
        kubernetes::list_objects(query)
    }
}

impl Objects for Component {
    fn create_object(&self, object_json: &str) -> Result<String, Error> {
        objects::create_object(object_json)
    }

    fn patch_object(&self, object: &ObjectRef, patch_json: &str) -> Result<String, Error> {
        objects::patch_object(object, patch_json)
    }

    fn delete_object(&self, object: &ObjectRef, uid: &str) -> Result<(), Error> {
        objects::delete_object(object, uid)
    }
}

impl Settings for Component {
    fn config_json(&self) -> String {
        settings::config_json()
    }

    fn cloud_config(&self) -> Option<String> {
        settings::cloud_config()
    }
}

impl Clock for Component {
    fn now(&self) -> Instant {
        clock::now()
    }

    fn parse_rfc3339(&self, text: &str) -> Option<Instant> {
        clock::parse_rfc3339(text)
    }
}

impl Log for Component {
    fn write(&self, level: Level, message: &str) {
        log::write(level, message, &[]);
    }
}
