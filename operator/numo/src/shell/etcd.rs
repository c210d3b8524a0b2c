//! Members of etcd, by its JSON gateway (`/v3/cluster/member/…`): that of a node of the control plane is taken out before its machine goes.
//! Whether the node may go decides the core, and etcd itself refuses to lose its quorum. Here a member is taken out only if it is certain
//! that it is the node's, and none counts as gone in an etcd that is not this cluster's.

#[cfg(test)]
mod tests;

use http::{HeaderValue, header};
use numo_api::text;
use numo_core::{observed::Observed, quorum};
use numo_plugin::{
    fetch::{Direct, authorities},
    services::{Addresses, FetchRequest, FetchResponse},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{net::IpAddr, path::PathBuf, time::Duration};
use url::Url;

/// Where members are listed, and taken out.
const LIST: &str = "/v3/cluster/member/list";
const REMOVE: &str = "/v3/cluster/member/remove";
/// Port of a member for clients, where no endpoints are named.
const CLIENT_PORT: u16 = 2379;
/// Endpoints that are asked, one after another, until one answers.
const TRIED: usize = 3;
/// How long each may take to list the members, and to take one out: in all less than a call of a provider may take.
const LIST_WITHIN: Duration = Duration::from_secs(2);
const REMOVE_WITHIN: Duration = Duration::from_secs(3);
/// How much of an answer is read (bytes).
const ANSWER: u64 = 64 << 10;
/// How much of the words of a refusal is told (characters).
const WORDS: usize = 300;

/// How etcd is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Folder with `ca.crt`, `tls.crt` and `tls.key`, read anew for each member that goes.
    pub certs: PathBuf,
    /// Where members are asked; empty: port 2379 of the other nodes of the control plane.
    pub endpoints: Vec<Url>,
}

/// A node whose member is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaver {
    /// Its name.
    pub node: String,
    /// Its address of type InternalIP.
    pub address: String,
    /// The same of the other nodes of the control plane, of those that are Ready first.
    pub others: Vec<String>,
    /// The names of these nodes.
    pub names: Vec<String>,
    /// The node that takes its place, and the same address of it: it must have a member, or each node that is replaced costs one.
    pub heir: Option<(String, String)>,
}

impl Leaver {
    /// A node among those that are seen.
    pub fn of(observed: &Observed, (node, address): (&str, &str), heir: Option<&str>) -> Self {
        let others = observed.nodes.values().filter(|other| other.name != node);
        let mut others: Vec<_> = others.filter(|other| quorum::is_control_plane(other)).collect();
        others.sort_by_key(|other| !other.ready);
        let hosts = &observed.fleet.hosts;
        let addresses = others.iter().filter_map(|other| hosts.get(&other.name));
        let addresses = addresses.map(|host| host.address.clone());
        let heir = heir.map(|heir| {
            let host = hosts.get(heir);
            (
                heir.to_owned(),
                host.map(|host| host.address.clone()).unwrap_or_default(),
            )
        });
        Self {
            heir,
            node: node.to_owned(),
            address: address.to_owned(),
            others: addresses.filter(|address| !address.is_empty()).collect(),
            names: others.iter().map(|other| other.name.clone()).collect(),
        }
    }
}

/// The etcd of the cluster's API servers.
#[derive(Clone, Debug)]
pub struct Etcd {
    options: EtcdOptions,
}

/// A member, as etcd lists it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Member {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    #[serde(rename = "peerURLs")]
    peer_urls: Vec<String>,
    #[serde(rename = "isLearner")]
    is_learner: bool,
}

impl Member {
    /// Whether its peers call it at this address.
    fn is_at(&self, address: &str) -> bool {
        self.peer_urls.iter().any(|url| is_at(url, address))
    }
}

#[derive(Debug, Deserialize)]
struct Members {
    #[serde(default)]
    members: Vec<Member>,
}

/// What etcd says instead of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Refusal {
    message: String,
}

impl Etcd {
    /// Reached with these options.
    ///
    /// Errors: the folder does not have what it should; what an administrator gave wrong is said at once.
    pub fn new(options: EtcdOptions) -> Result<Self, String> {
        let etcd = Self { options };
        etcd.direct()?;
        Ok(etcd)
    }

    /// Takes the member of a node out. One that is gone is no failure.
    pub async fn remove(&self, leaver: &Leaver) -> Result<(), String> {
        let direct = self.direct()?;
        let mut problem =
            "no other node of the control plane has an InternalIP, and --etcd-endpoints names none"
                .to_owned();
        for endpoint in self.endpoints(leaver).iter().take(TRIED) {
            match list(&direct, endpoint).await {
                Ok(members) => return take_out(&direct, endpoint, leaver, &members).await,
                Err(words) => problem = words,
            }
        }
        Err(problem)
    }

    /// Where to ask: the member itself last, as it may be what is broken.
    fn endpoints(&self, leaver: &Leaver) -> Vec<Url> {
        if self.options.endpoints.is_empty() {
            let others = leaver.others.iter();
            return others.filter_map(|address| endpoint_at(address)).collect();
        }
        let mut endpoints = self.options.endpoints.clone();
        endpoints.sort_by_key(|endpoint| is_at(endpoint.as_str(), &leaver.address));
        endpoints
    }

    /// Connects with the certificate as it is now.
    fn direct(&self) -> Result<Direct, String> {
        let read = |name: &str| {
            let path = self.options.certs.join(name);
            let wrong = |problem: String| format!("--etcd-certs {}: {problem}", path.display());
            std::fs::read(&path).map_err(|error| wrong(error.to_string()))
        };
        let wrong = |name: &str, problem: String| {
            format!(
                "--etcd-certs {}: {problem}",
                self.options.certs.join(name).display()
            )
        };
        let trusted = authorities(&read("ca.crt")?).map_err(|error| wrong("ca.crt", error))?;
        let chain = authorities(&read("tls.crt")?).map_err(|error| wrong("tls.crt", error))?;
        let key = PrivateKeyDer::from_pem_slice(&read("tls.key")?);
        // What is in the file is no word for a log.
        let key = key.map_err(|_| wrong("tls.key", "found no private key, wanted PEM".to_owned()))?;
        let direct = Direct::with_certificate(trusted, chain, key);
        direct.map_err(|error| format!("--etcd-certs {}: {error}", self.options.certs.display()))
    }
}

/// The members, as a majority of them has it.
async fn list(direct: &Direct, endpoint: &Url) -> Result<Vec<Member>, String> {
    let answer = ask(
        direct,
        endpoint,
        LIST,
        &json!({"linearizable": true}),
        LIST_WITHIN,
    )
    .await?;
    if answer.status != 200 {
        return Err(refused(endpoint, &answer));
    }
    let members: Members = serde_json::from_slice(&answer.body).map_err(|_| {
        format!(
            "etcd at {endpoint}: its answer of {} bytes is no list of members",
            answer.body.len()
        )
    })?;
    Ok(members.members)
}

/// Takes the member of a node out of those that are listed.
async fn take_out(
    direct: &Direct,
    endpoint: &Url,
    leaver: &Leaver,
    members: &[Member],
) -> Result<(), String> {
    let found = member_of(leaver, members).map_err(|words| format!("etcd at {endpoint}: {words}"))?;
    let Some(member) = found else {
        return Ok(());
    };
    if let Some(words) = no_heir(leaver, members) {
        return Err(format!("etcd at {endpoint}: {words}"));
    }
    tracing::info!(
        node = leaver.node,
        member = member.id,
        "taking the member out of etcd"
    );
    let answer = ask(direct, endpoint, REMOVE, &json!({"ID": member.id}), REMOVE_WITHIN).await?;
    if answer.status == 200 {
        return Ok(());
    }
    // One that somebody else has taken out meanwhile is not in the next list.
    Err(refused(endpoint, &answer))
}

/// Why the node that takes the place of another has no member that votes, if so.
fn no_heir(leaver: &Leaver, members: &[Member]) -> Option<String> {
    let (heir, address) = leaver.heir.as_ref()?;
    let mut votes = members.iter().filter(|member| !member.is_learner);
    let has_member = votes.any(|member| member.is_at(address));
    (!has_member).then(|| {
        format!(
            "found no voting member at {}, the InternalIP of Node {heir}, wanted one before that of Node {} goes",
            if address.is_empty() { "no address" } else { address },
            leaver.node
        )
    })
}

/// The member of a node; none if it is certain that there is none.
fn member_of<'m>(leaver: &Leaver, members: &'m [Member]) -> Result<Option<&'m Member>, String> {
    let Leaver {
        node,
        address,
        others,
        names,
        ..
    } = leaver;
    if others.iter().any(|other| is_same(other, address)) {
        return Err(format!(
            "another node of the control plane has the InternalIP {address} of Node {node}, too"
        ));
    }
    let mut here = members.iter().filter(|member| member.is_at(address));
    match (here.next(), here.next()) {
        (Some(_), Some(_)) => return Err(format!("found two members at {address}, wanted one")),
        (Some(member), None) if names.contains(&member.name) => {
            return Err(format!(
                "member {} is at {address}, the InternalIP of Node {node}, and has the name of another node of the control plane",
                shown(std::slice::from_ref(&member.name))
            ));
        }
        (Some(member), None) => return Ok(Some(member)),
        _ => {}
    }
    if let Some(member) = members.iter().find(|member| member.name == *node) {
        return Err(format!(
            "member {node} has peerURLs {}, wanted {address}, the InternalIP of Node {node}",
            shown(&member.peer_urls)
        ));
    }
    // A name may lead to the node.
    if let Some(member) = members
        .iter()
        .find(|member| !member.peer_urls.iter().any(|url| ip(url).is_some()))
    {
        return Err(format!(
            "member {} has peerURLs {}, wanted addresses: it cannot be told whether it is at {address}",
            shown(std::slice::from_ref(&member.name)),
            shown(&member.peer_urls)
        ));
    }
    let is_known = others
        .iter()
        .any(|other| members.iter().any(|member| member.is_at(other)));
    if is_known {
        return Ok(None);
    }
    Err(format!(
        "found no member at a node of this cluster's control plane, wanted one at {address} or {}",
        shown(others)
    ))
}

/// Sends one request; what is no connection is told with the endpoint.
async fn ask(
    direct: &Direct,
    endpoint: &Url,
    path: &str,
    body: &Value,
    timeout: Duration,
) -> Result<FetchResponse, String> {
    let wrong = |problem: &str| format!("etcd at {endpoint}: {problem}");
    let url = endpoint.join(path).map_err(|error| wrong(&error.to_string()))?;
    let request = FetchRequest {
        head: false,
        url,
        headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        // An administrator names it. Link-local and metadata addresses are refused all the same.
        addresses: Addresses::Anywhere,
        timeout,
        body_bytes: ANSWER,
    };
    let answer = direct.post(request, body.to_string().into_bytes()).await;
    answer.map_err(|error| wrong(&error.message))
}

/// The words of a refusal.
fn refused(endpoint: &Url, answer: &FetchResponse) -> String {
    let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
    let words: String = text::line(&refusal.message).chars().take(WORDS).collect();
    let said = if words.is_empty() { "no words" } else { &words };
    format!("etcd at {endpoint}: {said} (status {})", answer.status)
}

/// Some texts of a stranger, in one line.
fn shown(texts: &[String]) -> String {
    let all = texts.join(", ");
    let line: String = text::line(&all).chars().take(WORDS).collect();
    if line.is_empty() { "none".to_owned() } else { line }
}

/// Where a member at an address is asked.
fn endpoint_at(address: &str) -> Option<Url> {
    let address: IpAddr = address.parse().ok()?;
    let host = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    Url::parse(&format!("https://{host}:{CLIENT_PORT}")).ok()
}

/// Whether two texts are one address, however it is written.
fn is_same(one: &str, other: &str) -> bool {
    one == other || canonical(one).is_some_and(|one| canonical(other) == Some(one))
}

/// An address, read; none if it is a name.
fn canonical(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    Some(address.to_canonical())
}

/// Whether a URL is at an address.
fn is_at(url: &str, address: &str) -> bool {
    canonical(address).is_some_and(|address| ip(url) == Some(address))
}

/// The address that a URL has; none if it has a name.
fn ip(url: &str) -> Option<IpAddr> {
    let url = Url::parse(url).ok()?;
    canonical(url.host_str()?.trim_matches(['[', ']']))
}
