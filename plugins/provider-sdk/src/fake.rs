//! A host in memory, for native tests of providers. What a test does not set up answers as a host without grants does. Never part of a
//! component.

use crate::{
    Error, ErrorCode, ObjectRef,
    host::{
        Clock, Cloud, Instant, Kubernetes, Level, ListQuery, Log, Objects, Page, Projection, Request,
        Response, Settings,
    },
};
use std::cell::RefCell;

/// The moment at which every fake call begins unless a test moves it.
pub const NOW: u64 = 1_800_000_000;

/// Answers requests to the cloud.
type Sends = Box<dyn Fn(&Request) -> Result<Response, Error>>;

/// A host whose parts a test sets up.
pub struct World {
    /// Answers requests to the cloud; none: every one is denied.
    pub cloud: Option<Sends>,
    /// Reads and writes objects; none: every call is denied.
    pub objects: Option<Box<dyn Store>>,
    /// The settings.
    pub config_json: String,
    /// The cloud configuration file.
    pub cloud_config: Option<String>,
    /// Seconds of the clock.
    pub now: u64,
    /// Lines that were written.
    pub lines: RefCell<Vec<String>>,
}

/// Objects of a cluster.
pub trait Store: Kubernetes + Objects {}

impl<T: Kubernetes + Objects> Store for T {}

impl Default for World {
    fn default() -> Self {
        Self {
            cloud: None,
            objects: None,
            config_json: "{}".to_owned(),
            cloud_config: None,
            now: NOW,
            lines: RefCell::default(),
        }
    }
}

fn denied(what: &str) -> Error {
    Error {
        code: ErrorCode::Denied,
        message: format!("no grant covers {what}"),
        details: vec![("grant".to_owned(), what.to_owned())],
    }
}

impl World {
    fn store(&self) -> Result<&dyn Store, Error> {
        self.objects.as_deref().ok_or_else(|| denied("kubernetes"))
    }
}

impl Cloud for World {
    fn send(&self, request: &Request) -> Result<Response, Error> {
        let send = self.cloud.as_ref().ok_or_else(|| denied(&request.url))?;
        send(request)
    }
}

impl Kubernetes for World {
    fn get_object(&self, object: &ObjectRef, projection: &Projection) -> Result<Option<String>, Error> {
        self.store()?.get_object(object, projection)
    }

    fn list_objects(&self, query: &ListQuery) -> Result<Page, Error> {
        self.store()?.list_objects(query)
    }
}

impl Objects for World {
    fn create_object(&self, object_json: &str) -> Result<String, Error> {
        self.store()?.create_object(object_json)
    }

    fn patch_object(&self, object: &ObjectRef, patch_json: &str) -> Result<String, Error> {
        self.store()?.patch_object(object, patch_json)
    }

    fn delete_object(&self, object: &ObjectRef, uid: &str) -> Result<(), Error> {
        self.store()?.delete_object(object, uid)
    }
}

impl Settings for World {
    fn config_json(&self) -> String {
        self.config_json.clone()
    }

    fn cloud_config(&self) -> Option<String> {
        self.cloud_config.clone()
    }
}

impl Clock for World {
    fn now(&self) -> Instant {
        Instant {
            seconds: self.now,
            nanoseconds: 0,
        }
    }

    fn parse_rfc3339(&self, _: &str) -> Option<Instant> {
        None
    }
}

impl Log for World {
    fn write(&self, _: Level, message: &str) {
        self.lines.borrow_mut().push(message.to_owned());
    }
}
