//! What a call of a provider may reach: its settings, the cloud and the cluster, behind traits. Nothing here does IO.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use serde_json::Value;

use super::grants::ProviderGrants;
use crate::{
    services::{FetchResponse, HostError},
    verdict::ObjectRef,
};

/// What one provider is lent in every call.
#[derive(Clone, Default)]
pub struct Lent {
    /// What it may reach of what follows.
    pub grants: Arc<ProviderGrants>,
    /// Its settings, a JSON object.
    pub config_json: Arc<str>,
    /// The cloud configuration file, without its secrets.
    pub cloud_config: Option<Arc<str>>,
    /// Calls the cloud; none: every call is unsupported.
    pub cloud: Option<Arc<dyn Cloud>>,
    /// Writes objects; none: every call is unsupported.
    pub writer: Option<Arc<dyn Writer>>,
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent")
            .field("grants", &self.grants)
            .finish_non_exhaustive()
    }
}

/// Sends a request of a provider. Grants were checked.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Signs it, sends it once, follows no redirect, and answers with any status.
    ///
    /// Errors: `denied` where it cannot be signed, `too-large` above `body_bytes`, `unavailable`.
    async fn send(&self, request: CloudRequest) -> Result<FetchResponse, HostError>;
}

/// A checked request.
#[derive(Clone, Debug)]
pub struct CloudRequest {
    /// What is done.
    pub method: Method,
    /// Absolute, without user and fragment.
    pub url: url::Url,
    /// The component's own.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What is sent.
    pub body: Vec<u8>,
    /// How it is signed, if it is.
    pub signing: Option<Signing>,
    /// The time, by the API server.
    pub now: Timestamp,
    /// For everything: token, name, connection, answer.
    pub timeout: Duration,
    /// Bytes of the answer's body at most.
    pub body_bytes: u64,
}

/// How a request is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// Name of the credential.
    pub credential: String,
    /// `bearer` or `aws-sigv4`.
    pub scheme: String,
    /// What the scheme needs: `service`, `region`.
    pub parameters: Vec<(String, String)>,
}

/// Writes Kubernetes objects. Grants were checked.
#[async_trait]
pub trait Writer: Send + Sync {
    /// Makes an object and answers how it is now.
    ///
    /// Errors: `forbidden`; `other` with the detail `http-status` for what the API server refuses.
    async fn create(&self, object: &ObjectRef, body: &Value) -> Result<Value, HostError>;

    /// Changes an object by a JSON patch and answers how it is now.
    ///
    /// Errors: as [`Self::create`].
    async fn patch(&self, object: &ObjectRef, patch: &Value) -> Result<Value, HostError>;

    /// Deletes an object if it has this uid; one that is gone is success.
    ///
    /// Errors: as [`Self::create`].
    async fn delete(&self, object: &ObjectRef, uid: &str) -> Result<(), HostError>;
}
