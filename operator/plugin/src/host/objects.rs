//! `numo:provider/objects`: writes Kubernetes objects of kinds that a grant names. Grants are checked here, before anyone is asked; what the
//! API server lets numo do is its own word.

use serde_json::Value;

use super::sandbox::{Sandbox, types};
use crate::{
    provider::{bindings::numo::provider::objects as wit, grants::Write, lent::Writer},
    request::{check_kind, check_name},
    services::{ErrorCode, HostError},
    text::clean,
    verdict::ObjectRef,
};
use std::sync::Arc;

/// Bytes of an object or a patch.
const OBJECT_BYTES: usize = 256 * 1024;
/// Bytes of a uid.
const UID_BYTES: usize = 128;

impl wit::Host for Sandbox {
    async fn create_object(&mut self, object_json: String) -> wasmtime::Result<Result<String, types::Error>> {
        self.budget.count(&self.limits)?;
        Ok(self.create_one(&object_json).await.map_err(Into::into))
    }

    async fn patch_object(
        &mut self,
        object: types::ObjectRef,
        patch_json: String,
    ) -> wasmtime::Result<Result<String, types::Error>> {
        self.budget.count(&self.limits)?;
        let patched = self.patch_one(&object.into(), &patch_json).await;
        Ok(patched.map_err(Into::into))
    }

    async fn delete_object(
        &mut self,
        object: types::ObjectRef,
        uid: String,
    ) -> wasmtime::Result<Result<(), types::Error>> {
        self.budget.count(&self.limits)?;
        Ok(self.delete_one(&object.into(), &uid).await.map_err(Into::into))
    }
}

fn invalid(message: impl Into<String>) -> HostError {
    HostError::new(ErrorCode::Invalid, message)
}

/// Bounded before it is parsed.
fn json(what: &str, text: &str) -> Result<Value, HostError> {
    if text.len() > OBJECT_BYTES {
        let message = format!("{what} has {} bytes, the limit is {OBJECT_BYTES}", text.len());
        return Err(invalid(message));
    }
    serde_json::from_str(text).map_err(|error| invalid(format!("{what} is no JSON: {error}")))
}

/// The object that a body is of.
fn named(body: &Value) -> Result<ObjectRef, HostError> {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let wanted = |pointer: &str| text(pointer).ok_or_else(|| invalid(format!("the object has no {pointer}")));
    Ok(ObjectRef {
        api_version: wanted("/apiVersion")?,
        kind: wanted("/kind")?,
        namespace: text("/metadata/namespace"),
        name: wanted("/metadata/name")?,
    })
}

impl Sandbox {
    /// Who writes, if a grant covers that.
    fn writer(&mut self, object: &ObjectRef, write: Write) -> Result<Arc<dyn Writer>, HostError> {
        self.granted("objects")?;
        let lent = self.lent("objects")?;
        check_kind(&object.api_version, &object.kind)?;
        check_name("name", &object.name)?;
        if let Some(namespace) = &object.namespace {
            check_name("namespace", namespace)?;
        }
        if !lent.grants.cover_write(object, write) {
            let message = format!("no grant of the provider covers {} of {object}", write.as_str());
            let grant = format!(
                "kubernetes {} {} write {}",
                object.api_version,
                object.kind,
                write.as_str()
            );
            return Err(
                HostError::new(ErrorCode::Denied, clean(&message, 512)).detail("grant", clean(&grant, 512))
            );
        }
        lent.writer.ok_or_else(|| {
            HostError::new(
                ErrorCode::Unsupported,
                "this installation writes no objects for providers",
            )
        })
    }

    fn answer(&mut self, object: &Value) -> Result<String, HostError> {
        let text = object.to_string();
        if text.len() as u64 > self.limits.answer_bytes {
            let message = format!(
                "the object has {} bytes, the limit is {}",
                text.len(),
                self.limits.answer_bytes
            );
            return Err(HostError::new(ErrorCode::TooLarge, message).detail("limit", "answerBytes"));
        }
        self.budget.spend_bytes(text.len(), &self.limits)?;
        Ok(text)
    }

    async fn create_one(&mut self, text: &str) -> Result<String, HostError> {
        let body = json("the object", text)?;
        let object = named(&body)?;
        let writer = self.writer(&object, Write::Create)?;
        let made = writer.create(&object, &body).await?;
        self.answer(&made)
    }

    async fn patch_one(&mut self, object: &ObjectRef, text: &str) -> Result<String, HostError> {
        let writer = self.writer(object, Write::Patch)?;
        let patch = json("the patch", text)?;
        if !patch.is_array() {
            return Err(invalid("the patch is no list of operations (RFC 6902)"));
        }
        let patched = writer.patch(object, &patch).await?;
        self.answer(&patched)
    }

    async fn delete_one(&mut self, object: &ObjectRef, uid: &str) -> Result<(), HostError> {
        let writer = self.writer(object, Write::Delete)?;
        if uid.is_empty() || uid.len() > UID_BYTES {
            return Err(invalid("a uid has 1 to 128 bytes"));
        }
        writer.delete(object, uid).await
    }
}
