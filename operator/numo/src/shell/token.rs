//! Whether the API server limits numo's token to what numo writes: the numo that leads says so in its log and in a metric, as no way to
//! install can make sure of it. OLM bundles hold no ValidatingAdmissionPolicies.

use super::{client::Connection, metrics::Metrics, policies};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{Api, api::ListParams};
use std::time::Duration;

/// How often it looks again: an administrator applies them, or takes one away.
const AGAIN: Duration = Duration::from_hours(1);
/// How long after something was amiss at first: whoever installs numo installs the policies in the same moment.
const SURE: Duration = Duration::from_secs(20);

/// Looks again and again, until it is dropped.
pub async fn keep(connection: Connection, metrics: Metrics) {
    let mut told = Vec::new();
    let mut was_amiss = false;
    loop {
        let found = match look(&connection).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "the policies that limit numo's token cannot be listed");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        if !found.is_empty() && !was_amiss {
            was_amiss = true;
            tokio::time::sleep(SURE).await;
            continue;
        }
        was_amiss = !found.is_empty();
        metrics
            .token_faults
            .set(i64::try_from(found.len()).unwrap_or(i64::MAX));
        if was_amiss && found != told {
            tracing::warn!(
                faults = found.join("; "),
                mends = policies::command(),
                "numo's token may write more than numo does"
            );
        }
        told = found;
        tokio::time::sleep(AGAIN).await;
    }
}

async fn look(connection: &Connection) -> Result<Vec<String>, kube::Error> {
    let params = ListParams::default();
    let installed = Api::<ValidatingAdmissionPolicy>::all(connection.read.clone())
        .list(&params)
        .await?;
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(connection.read.clone())
        .list(&params)
        .await?;
    Ok(policies::faults(&installed.items, &bindings.items))
}
