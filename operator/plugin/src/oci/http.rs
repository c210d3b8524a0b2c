//! One HTTP request to a registry, its answer read frame by frame, and in the words of a pull why there is none. Where a
//! registry may be is judged here; the connection is the one way out's (`net/transport.rs`).

use std::{io, net::IpAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use rustls::pki_types::CertificateDer;
use tokio::time::timeout;

use crate::net::proxy::Proxies;
pub(super) use crate::net::{
    proxy::basic,
    transport::{Ask, host},
};
use crate::{
    address::{self, AddressRange, OF_CLUSTER, refusal},
    net::{
        SystemResolver,
        transport::{self, Guard},
    },
    text::clean,
};

/// Until a connection, with TLS, stands.
const CONNECT: Duration = Duration::from_secs(10);

/// How a place inside is opened: a registry, and also what it leads to.
const FOR_AN_ADMINISTRATOR: &str = "one inside is for an administrator to name (--registries)";

/// Why there is no answer, by what follows from it.
#[derive(Debug)]
pub(super) enum Failure {
    /// May go away by itself.
    Passing(String),
    /// The other side does not speak TLS.
    NotTls(String),
    /// Asking again cannot help: an authority that is not trusted.
    Lasting(String),
    /// numo will not.
    NotAllowed(String),
}

/// Makes connections.
pub(super) struct Transport {
    transport: transport::Transport,
    /// Longest silence within an answer.
    idle: Duration,
}

/// The head of an answer, and its body to come. The connection ends with it.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    rest: transport::Answer,
    idle: Duration,
}

/// Whether the host itself, as written, is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(address::is_loopback)
}

/// Where a registry may be.
///
/// References are written by people of one namespace; what they name must not make numo talk to its own machine's
/// metadata, or tell whether a Service of another namespace exists.
pub(super) struct Closed<'a> {
    /// Not in these ranges.
    pub(super) ranges: &'a [AddressRange],
    /// Whether the registry may be on this machine, by its own name.
    pub(super) loopback: bool,
}

impl Guard for Closed<'_> {
    fn refusal(&self, host: &str, address: IpAddr) -> Option<&'static str> {
        let itself = self.loopback && is_loopback(host) && address::is_loopback(address);
        refusal(address, self.ranges).filter(|_| !itself)
    }

    fn tells(&self) -> bool {
        self.ranges.is_empty()
    }
}

impl Transport {
    /// Trusts the system's authorities and `authorities`.
    pub(super) fn new(
        authorities: Vec<CertificateDer<'static>>,
        proxies: Proxies,
        idle: Duration,
    ) -> Result<Self, rustls::Error> {
        let resolver = std::sync::Arc::new(SystemResolver);
        Ok(Self {
            transport: transport::Transport::new(authorities, proxies, resolver)?,
            idle,
        })
    }

    /// Sends and waits for the head of the answer. It does not go where it is `closed`; behind a proxy, that is only known of
    /// a host that is written as an address.
    pub(super) async fn send(&self, ask: Ask, closed: Closed<'_>) -> Result<Answer, Failure> {
        let shown = clean(host(&ask.url), 253);
        let connected = timeout(CONNECT, self.transport.connect(&ask.url, &closed)).await;
        let connected = connected
            .map_err(|_| Failure::Passing(format!("no connection within {} s", CONNECT.as_secs())))?;
        let connected = connected.map_err(|failure| told(&shown, failure))?;
        let answer = timeout(self.idle, connected.send(ask)).await;
        let answer = answer
            .map_err(|_| Failure::Passing(format!("no answer within {} ms", self.idle.as_millis())))?
            .map_err(|failure| told(&shown, failure))?;
        Ok(Answer {
            status: answer.status,
            headers: answer.headers.clone(),
            rest: answer,
            idle: self.idle,
        })
    }
}

/// A failure in the words of a pull.
fn told(shown: &str, failure: transport::Failure) -> Failure {
    use transport::Failure as Of;
    match failure {
        Of::NotFound(why) => Failure::Passing(format!("the name {shown} is not found: {why}")),
        Of::Refused(Some(OF_CLUSTER)) => {
            Failure::NotAllowed(format!("{shown} leads to {OF_CLUSTER}; {FOR_AN_ADMINISTRATOR}"))
        }
        Of::Refused(Some(why)) => Failure::NotAllowed(format!("{shown} leads to {why}")),
        Of::Refused(None) => Failure::Passing(format!(
            "{shown} leads to no address outside the cluster; {FOR_AN_ADMINISTRATOR}"
        )),
        Of::Unconnected(Some(address), why) => Failure::Passing(format!("no connection to {address}: {why}")),
        Of::Unconnected(None, _) => Failure::Passing(format!("{shown} has no address")),
        Of::Proxy(why, _) => Failure::Passing(why),
        Of::NoServerName => Failure::NotAllowed(format!("{shown} is no server name")),
        Of::Tls(error) => tls_failure(&error),
        Of::Broken(why) => Failure::Passing(format!("the connection broke: {}", clean(&why, 256))),
        Of::Unwritable(why) => Failure::NotAllowed(format!("the request cannot be written: {why}")),
    }
}

fn tls_failure(error: &io::Error) -> Failure {
    let told = format!("TLS: {}", clean(&error.to_string(), 256));
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(rustls::Error::InvalidMessage(_)) => Failure::NotTls(told),
        Some(_) => Failure::Lasting(told),
        None => Failure::Passing(told),
    }
}

impl Answer {
    /// The next bytes of the body, nothing at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let more = timeout(self.idle, self.rest.next()).await;
        let more = more.map_err(|_| {
            Failure::Passing(format!("the answer stood still for {} ms", self.idle.as_millis()))
        })?;
        more.map_err(|failure| told("", failure))
    }

    /// What it says its length is.
    pub(super) fn declared(&self) -> Option<u64> {
        self.text(header::CONTENT_LENGTH.as_str())?.parse().ok()
    }

    /// A header, if it is text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The first bytes of an answer that is an error, as one line for people.
    pub(super) async fn words(mut self) -> String {
        let mut bytes = Vec::new();
        while bytes.len() < 1024 {
            match self.next().await {
                Ok(Some(more)) => bytes.extend_from_slice(&more),
                _ => break,
            }
        }
        bytes.truncate(1024);
        let text = String::from_utf8_lossy(&bytes);
        let said = serde_json::from_slice::<serde_json::Value>(&bytes)
            .ok()
            .and_then(|value| {
                let first = &value["errors"][0];
                Some(format!(
                    "{} {}",
                    first["code"].as_str()?,
                    first["message"].as_str().unwrap_or_default()
                ))
            });
        let status = self.status.as_u16();
        let said = clean(said.as_deref().unwrap_or(&text).trim(), 160);
        if said.is_empty() {
            format!("answer {status}")
        } else {
            format!("answer {status}: {said}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_by_its_own_name_and_by_no_other() {
        let cluster: [AddressRange; 1] = ["10.0.0.0/8".parse().unwrap()];
        let refused = |host: &str, address: &str, ranges: &[AddressRange], loopback| {
            let closed = Closed { ranges, loopback };
            closed.refusal(host, address.parse().unwrap())
        };
        let check = |host: &str, address: &str, closed: &[AddressRange], expect: bool| {
            let refused = refused(host, address, closed, true);
            assert_eq!(refused.is_some(), expect, "{host} {address}: {refused:?}");
        };
        // Whoever writes a rule names no port of this machine.
        for (host, address) in [
            ("localhost", "127.0.0.1"),
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ] {
            assert!(refused(host, address, &[], false).is_some(), "{host}");
        }
        check("localhost", "127.0.0.1", &cluster, false);
        check("::ffff:127.0.0.1", "::ffff:127.0.0.1", &cluster, false);
        check("localhost", "10.1.2.3", &cluster, true);
        check("localhost", "169.254.169.254", &[], true);
        check("r.example", "127.0.0.1", &[], true);
        check("r.example", "192.0.2.1", &cluster, false);
        // Named by an administrator, all but the machine's own.
        check("shop.other.svc", "10.1.2.3", &[], false);
        check("shop.other.svc", "169.254.169.254", &[], true);
    }

    #[test]
    fn who_names_a_registry_learns_nothing_of_the_cluster() {
        let words = |failure| match told("shop.other.svc", failure) {
            Failure::Passing(why) => format!("passing: {why}"),
            Failure::NotAllowed(why) => format!("not allowed: {why}"),
            other => panic!("{other:?}"),
        };
        let hidden = words(transport::Failure::Refused(None));
        assert!(
            hidden.starts_with("passing: shop.other.svc leads to no address outside"),
            "{hidden}"
        );
        assert_eq!(
            words(transport::Failure::Refused(Some("an address of the cluster"))),
            "not allowed: shop.other.svc leads to an address of the cluster; one inside is for an administrator to name (--registries)"
        );
    }
}
