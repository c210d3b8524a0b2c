//! The Deployment of numo, as other checks read it. It finds nothing wrong.

use crate::shell::client::Connection;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::ListParams};

/// Label of its Deployment, and of its pods.
pub(super) const OWN_PODS: &str = "app.kubernetes.io/name=numo";

/// The Deployment of numo in its namespace, if there is one.
pub(super) async fn own_deployment(
    connection: &Connection,
    namespace: &str,
) -> Result<Option<Deployment>, kube::Error> {
    let api: Api<Deployment> = Api::namespaced(connection.read.clone(), namespace);
    let params = ListParams::default().labels("app.kubernetes.io/name=numo");
    Ok(api.list(&params).await?.items.into_iter().next())
}
