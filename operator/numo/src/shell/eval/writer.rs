//! What a provider of machines writes: objects of the kinds that its grants name, in its words. The grants were checked by the host; what
//! numo's own token may is the API server's word. What is written is not decided here.

use super::reader::{Access, OBJECT_BYTES, parsed, whole};
use crate::shell::item::Item;
use async_trait::async_trait;
use kube::{
    Resource as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
    discovery::ApiResource,
};
use numo_api::marks::FIELD_MANAGER;
use numo_plugin::{
    ObjectRef,
    provider::Writer,
    services::{ErrorCode, HostError},
};
use serde_json::Value;
use std::sync::Arc;

/// Writes with numo's own rights.
pub struct ObjectWriter(Arc<Access>);

impl ObjectWriter {
    /// Through this client.
    pub fn new(access: Arc<Access>) -> Self {
        Self(access)
    }

    async fn request(&self, object: &ObjectRef) -> Result<(Request, ApiResource), HostError> {
        let (resource, is_namespaced) = self.0.kind(&object.api_version, &object.kind).await?;
        let namespace = object.namespace.as_deref();
        if is_namespaced != namespace.is_some() {
            let wanted = if is_namespaced { "a namespace" } else { "none" };
            let found = namespace.unwrap_or("no namespace");
            return Err(invalid(format!("{object}: found {found}, wanted {wanted}")));
        }
        Ok((Request::new(Item::url_path(&resource, namespace)), resource))
    }

    /// The object as it is after a request.
    async fn written(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        (object, resource): (&ObjectRef, &ApiResource),
    ) -> Result<Value, HostError> {
        let text = self.0.answer(request, resource, OBJECT_BYTES).await?;
        let text = text.ok_or_else(|| {
            HostError::new(ErrorCode::Other, format!("there is no {object}")).detail("http-status", "404")
        })?;
        let item: Item = parsed(&text, resource)?;
        let value = whole(&item, resource)?.value();
        value
            .map_err(|error| HostError::new(ErrorCode::TooLarge, format!("{object} cannot be read: {error}")))
    }
}

fn invalid(message: String) -> HostError {
    HostError::new(ErrorCode::Invalid, message)
}

#[async_trait]
impl Writer for ObjectWriter {
    async fn create(&self, object: &ObjectRef, body: &Value) -> Result<Value, HostError> {
        let (request, resource) = self.request(object).await?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let request = request.create(&params, body.to_string().into_bytes());
        self.written(request, (object, &resource)).await
    }

    async fn patch(&self, object: &ObjectRef, patch: &Value) -> Result<Value, HostError> {
        let (request, resource) = self.request(object).await?;
        let patch = serde_json::from_value(patch.clone());
        let patch = patch.map_err(|error| invalid(format!("the patch of {object}: {error}")))?;
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let request = request.patch(&object.name, &params, &Patch::Json::<()>(patch));
        self.written(request, (object, &resource)).await
    }

    async fn delete(&self, object: &ObjectRef, uid: &str) -> Result<(), HostError> {
        let (request, resource) = self.request(object).await?;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        let request = request.delete(&object.name, &params);
        // One that is gone is no failure; a kind that is not served is.
        let deleted = self.0.answer(request, &resource, OBJECT_BYTES).await;
        deleted.map(|_| ())
    }
}
