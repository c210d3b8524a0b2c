//! The ranges of the cluster's Services, read from its ServiceCIDRs, and those of Services and pods that OpenShift's Network names, as
//! its Nodes say none of their pods: no rule reaches them unless its namespace may. A cluster that serves neither (before Kubernetes
//! 1.33) has those that numo was given. It closes addresses and opens none.

use super::{client::Connection, item::Item};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, GroupVersionKind},
};
use numo_plugin::address::{AddressRange, Networks};
use serde::Deserialize;
use std::time::Duration;

/// How often they are read again: they change when an administrator adds one.
const AGAIN: Duration = Duration::from_mins(10);
/// How soon after somebody gave no answer, at first and in the end: until all have answered once no rule reaches out.
const SOON: Duration = Duration::from_secs(5);
const LATER: Duration = Duration::from_mins(1);
/// Longest that one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// ServiceCIDRs that are asked for at once, and ranges that are taken of all.
const PAGE: u32 = 100;
const MOST: usize = 1000;
/// OpenShift's Network: there is one.
const NETWORK: &str = "cluster";

/// Reads them again and again, until the process ends. From this call on they count as not known, until all have answered once.
pub fn keep(connection: Connection, networks: Networks) -> impl Future<Output = ()> + Send {
    networks.await_services();
    async move {
        let mut sources = Sources::default();
        let mut failures = 0;
        loop {
            let have_answered = sources.ask(&connection.read, &networks).await;
            failures = if have_answered { 0 } else { failures + 1 };
            tokio::time::sleep(pause(failures)).await;
        }
    }
}

/// Until they are read again, after so many times without an answer.
fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => AGAIN,
        Some(more) => SOON.saturating_mul(2_u32.saturating_pow(more)).min(LATER),
    }
}

/// What the API server says of one source of ranges.
pub enum Said {
    /// These ranges.
    Ranges(Vec<AddressRange>),
    /// It is not served, or not there.
    NotServed,
    /// It may not be read; why not.
    Forbidden(String),
}

/// What each source said last; none before its first answer.
#[derive(Default)]
struct Sources {
    services: Option<Vec<AddressRange>>,
    network: Option<Vec<AddressRange>>,
}

impl Sources {
    /// Asks both; whether both have answered. That there is nothing to read is an answer: what was read before stays closed.
    async fn ask(&mut self, client: &Client, networks: &Networks) -> bool {
        let (services, network) = tokio::join!(service_cidrs(client), network(client));
        let mut have_answered = true;
        for (what, said, last) in [
            ("all ServiceCIDRs", services, &mut self.services),
            ("Network cluster of OpenShift", network, &mut self.network),
        ] {
            match said {
                Ok(Said::Ranges(ranges)) => *last = Some(ranges),
                Ok(Said::NotServed) => {
                    last.get_or_insert_default();
                }
                Ok(Said::Forbidden(message)) => {
                    tracing::debug!(what, words = message, "ranges of the cluster cannot be read");
                    last.get_or_insert_default();
                }
                Err(error) => {
                    tracing::warn!(what, error, "ranges of the cluster were not read");
                    have_answered = false;
                }
            }
        }
        if let (Some(services), Some(network)) = (&self.services, &self.network) {
            networks.see_services(services.iter().chain(network).copied().collect());
        }
        have_answered
    }
}

/// The ranges of Services, at most [`MOST`].
///
/// Errors: no answer, in words.
pub async fn service_cidrs(client: &Client) -> Result<Said, String> {
    let api: Api<ServiceCIDR> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut ranges: Vec<AddressRange> = Vec::new();
    loop {
        let page = match in_time(api.list(&params)).await? {
            Ok(page) => page,
            Err(said) => return Ok(said),
        };
        let found = page.items.into_iter().filter_map(|one| one.spec);
        let found = found.flat_map(|spec| spec.cidrs.unwrap_or_default());
        ranges.extend(found.filter_map(|range| range.parse::<AddressRange>().ok()));
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        if ranges.len() > MOST || (ranges.len() == MOST && next.is_some()) {
            tracing::warn!(
                most = MOST,
                "there are more ranges of Services than are closed to rules"
            );
            ranges.truncate(MOST);
            return Ok(Said::Ranges(ranges));
        }
        if next.is_none() {
            return Ok(Said::Ranges(ranges));
        }
        params.continue_token = next;
    }
}

/// The ranges of pods and Services of OpenShift's network, as they are and as they are wanted.
///
/// Errors: no answer, in words.
pub async fn network(client: &Client) -> Result<Said, String> {
    #[derive(Deserialize)]
    struct Pods {
        cidr: String,
    }
    let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", "Network");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "networks");
    let api: Api<Item> = Api::all_with(client.clone(), &resource);
    let found = match in_time(api.get(NETWORK)).await? {
        Ok(found) => found,
        Err(said) => return Ok(said),
    };
    let of = |part: &str| {
        let pods: Vec<Pods> = found.at(&[part, "clusterNetwork"]).unwrap_or_default();
        let services: Vec<String> = found.at(&[part, "serviceNetwork"]).unwrap_or_default();
        pods.into_iter().map(|pods| pods.cidr).chain(services)
    };
    let mut ranges: Vec<AddressRange> = Vec::new();
    for range in of("status")
        .chain(of("spec"))
        .filter_map(|range| range.parse().ok())
    {
        if ranges.len() < MOST && !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    Ok(Said::Ranges(ranges))
}

/// What was found, or that there is nothing to be found.
///
/// Errors: no answer, in words.
async fn in_time<T>(asked: impl Future<Output = kube::Result<T>>) -> Result<Result<T, Said>, String> {
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    match answer.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))? {
        Ok(found) => Ok(Ok(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(Said::NotServed)),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Ok(Err(Said::Forbidden(status.message.clone())))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// An API server that answers so; no connection is made.
    fn server(answer: impl Fn(&http::Uri) -> (u16, Value) + Send + Sync + 'static) -> Connection {
        let answer = Arc::new(answer);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (code, body) = answer(request.uri());
            let response = http::Response::builder()
                .status(code)
                .body(Body::from(body.to_string().into_bytes()));
            std::future::ready(response)
        });
        let client = Client::new(service, "default");
        Connection {
            read: client.clone(),
            write: client,
            clock: super::super::clock::ServerClock::default(),
            requests: super::super::requests::Requests::default(),
        }
    }

    fn fault(code: u16) -> (u16, Value) {
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code});
        (code, status)
    }

    fn cidrs(ranges: &[&str], next: &str) -> (u16, Value) {
        let item = json!({"metadata": {"name": "a"}, "spec": {"cidrs": ranges}});
        let list = json!({
            "kind": "ServiceCIDRList", "apiVersion": "networking.k8s.io/v1",
            "metadata": {"continue": next}, "items": [item],
        });
        (200, list)
    }

    fn is_of_network(uri: &http::Uri) -> bool {
        uri.path() == "/apis/config.openshift.io/v1/networks/cluster"
    }

    fn closed(networks: &Networks) -> Vec<String> {
        networks.all().iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn openshift_says_its_ranges_where_nodes_and_service_cidrs_do_not() {
        let connection = server(|uri| {
            if !is_of_network(uri) {
                return fault(404);
            }
            let network = json!({
                "apiVersion": "config.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"},
                "spec": {"clusterNetwork": [{"cidr": "198.51.100.0/24", "hostPrefix": 26}], "serviceNetwork": ["203.0.113.0/24", "of nobody"]},
                "status": {"clusterNetwork": [{"cidr": "2001:db8::/48"}], "serviceNetwork": ["203.0.113.0/24"]},
            });
            (200, network)
        });
        let networks = Networks::default();
        assert!(Sources::default().ask(&connection.read, &networks).await);
        let wanted = ["2001:db8::/48", "203.0.113.0/24", "198.51.100.0/24"];
        assert_eq!(closed(&networks), wanted);
    }

    #[tokio::test]
    async fn every_page_is_read_and_no_more_than_are_taken() {
        let pages = |uri: &http::Uri| match uri.query().unwrap_or_default() {
            _ if is_of_network(uri) => fault(403),
            query if query.contains("continue=second") => cidrs(&["2001:db8::/112"], ""),
            _ => cidrs(&["203.0.113.0/24"], "second"),
        };
        let networks = Networks::default();
        assert!(Sources::default().ask(&server(pages).read, &networks).await);
        assert_eq!(closed(&networks), ["203.0.113.0/24", "2001:db8::/112"]);
        let endless = |uri: &http::Uri| match uri.path() {
            _ if is_of_network(uri) => fault(404),
            _ => cidrs(&["203.0.113.0/24"; 64], "more"),
        };
        assert!(Sources::default().ask(&server(endless).read, &networks).await);
        assert_eq!(closed(&networks).len(), MOST);
    }

    #[tokio::test]
    async fn what_was_closed_stays_so_when_it_may_no_longer_be_read() {
        let networks = Networks::default();
        let mut sources = Sources::default();
        let served = server(|uri| {
            if is_of_network(uri) {
                fault(404)
            } else {
                cidrs(&["203.0.113.0/24"], "")
            }
        });
        assert!(sources.ask(&served.read, &networks).await);
        for code in [403, 404] {
            assert!(sources.ask(&server(move |_| fault(code)).read, &networks).await);
            assert_eq!(closed(&networks), ["203.0.113.0/24"]);
        }
        assert!(!sources.ask(&server(|_| fault(500)).read, &networks).await);
        assert_eq!(closed(&networks), ["203.0.113.0/24"]);
    }

    #[tokio::test]
    async fn nothing_is_known_before_all_have_answered() {
        let networks = Networks::default();
        assert!(networks.are_known(), "nobody reads them");
        drop(keep(server(|_| fault(500)), networks.clone()));
        assert!(
            !networks.are_known(),
            "from the call on, and not from when it is first run"
        );
        let mut sources = Sources::default();
        assert!(!sources.ask(&server(|_| fault(500)).read, &networks).await);
        let only_services = |uri: &http::Uri| {
            if is_of_network(uri) {
                fault(503)
            } else {
                cidrs(&["203.0.113.0/24"], "")
            }
        };
        assert!(!sources.ask(&server(only_services).read, &networks).await);
        assert!(!networks.are_known());
        let only_network = |uri: &http::Uri| {
            if is_of_network(uri) {
                fault(403)
            } else {
                fault(500)
            }
        };
        assert!(!sources.ask(&server(only_network).read, &networks).await);
        assert!(networks.are_known(), "each has answered once");
        assert_eq!(closed(&networks), ["203.0.113.0/24"]);
    }

    #[test]
    fn who_gave_no_answer_is_asked_again_soon() {
        let seconds = [1, 2, 3, 4, 5, 50].map(|failures| pause(failures).as_secs());
        assert_eq!(seconds, [5, 10, 20, 40, 60, 60]);
        assert_eq!(pause(0), AGAIN);
    }
}
