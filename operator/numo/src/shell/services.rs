//! The ranges of the cluster's Services, read from its ServiceCIDRs: no rule reaches them unless its namespace may. A cluster
//! that serves none (before Kubernetes 1.33) has those that numo was given. It closes addresses and opens none.

use super::client::Connection;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::{Api, api::ListParams};
use numo_plugin::address::{AddressRange, Networks};
use std::time::Duration;

/// How often they are read again: they change when an administrator adds one.
const AGAIN: Duration = Duration::from_mins(10);
/// Most that are read.
const MOST: u32 = 64;

/// Reads them again and again, until the process ends.
pub async fn keep(connection: Connection, networks: Networks) {
    let api: Api<ServiceCIDR> = Api::all(connection.read.clone());
    loop {
        match api.list(&ListParams::default().limit(MOST)).await {
            Ok(found) => {
                let ranges = found.items.into_iter().filter_map(|one| one.spec);
                let ranges = ranges.flat_map(|spec| spec.cidrs.unwrap_or_default());
                let ranges: Vec<AddressRange> = ranges.filter_map(|range| range.parse().ok()).collect();
                networks.see_services(ranges);
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                tracing::debug!(code = status.code, "ServiceCIDRs cannot be listed");
            }
            Err(error) => tracing::warn!(%error, "ServiceCIDRs were not listed"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}
