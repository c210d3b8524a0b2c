//! ConfigMaps of the one namespace that the settings name: reads and guarded writes. Decides nothing.

use crate::PART;
use numo_provider_sdk::{
    Failure, FailureCode, ObjectRef,
    failure::failure,
    host::{Freshness, Host, ListQuery},
    objects::{self, fields, of_object, status, token},
    serde_json::{Value, json},
    settings::Fields,
};

/// What is read of a ConfigMap.
const READ: [&str; 2] = ["/metadata/labels", "/data"];

/// The ConfigMaps.
pub struct Maps<'a, H> {
    host: &'a H,
    namespace: String,
}

impl<'a, H: Host> Maps<'a, H> {
    /// Those of the namespace in the settings.
    pub fn read(host: &'a H) -> Result<Self, Failure> {
        let namespace = Fields::read(host)?.required("namespace")?.to_owned();
        Ok(Self { host, namespace })
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn reference(&self, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: Some(self.namespace.clone()),
            name: name.to_owned(),
        }
    }

    /// One of them, or none.
    pub fn get(&self, name: &str) -> Result<Option<Value>, Failure> {
        objects::get(self.host, &self.reference(name), &fields(&READ, Freshness::Live))
    }

    /// Those of groups.
    pub fn groups(&self) -> Result<Vec<Value>, Failure> {
        let query = ListQuery {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: Some(self.namespace.clone()),
            label_selector: Some(format!("{PART}=group")),
            field_selector: None,
            projection: fields(&READ, Freshness::Live),
            limit: 0,
            continue_token: None,
        };
        objects::list(self.host, query)
    }

    /// Makes one; none if there is one of that name.
    pub fn create(&self, map: &Value) -> Result<Option<Value>, Failure> {
        match self.host.create_object(&map.to_string()) {
            // What was sent is what is there now.
            Ok(_) => Ok(Some(map.clone())),
            Err(error) if status(&error) == Some(409) => Ok(None),
            Err(error) => {
                let name = objects::text(map, "/metadata/name");
                Err(of_object(&error, &self.reference(name)))
            }
        }
    }

    /// Sets a value of one that is part of what is said; whether there is one.
    pub fn set(&self, name: &str, part: &str, key: &str, value: &str) -> Result<bool, Failure> {
        let label = format!("/metadata/labels/{}", token(PART));
        let patch = json!([
            {"op": "test", "path": label, "value": part},
            {"op": "add", "path": format!("/data/{}", token(key)), "value": value},
        ]);
        let reference = self.reference(name);
        match self.host.patch_object(&reference, &patch.to_string()) {
            Ok(_) => Ok(true),
            Err(error) => match status(&error) {
                Some(404) => Ok(false),
                Some(422) => Err(failure(
                    FailureCode::Invalid,
                    format!(
                        "{}: found no data or another label {PART}, wanted {part:?}",
                        objects::shown(&reference)
                    ),
                )),
                _ => Err(of_object(&error, &reference)),
            },
        }
    }
}
