//! Which addresses a name may lead to. A component chooses names; this keeps them from leading to the machine, its
//! metadata service, or the cluster's inside. It does not resolve.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
    sync::{Arc, PoisonError, RwLock},
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange(IpNet);

/// A text that is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address and no range like 10.0.0.0/8")]
pub struct NotARange(String);

impl FromStr for AddressRange {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let one = || text.parse::<IpAddr>().map(IpNet::from);
        let net = text.parse::<IpNet>().or_else(|_| one());
        let net = net.map_err(|_| NotARange(text.to_owned()))?;
        // IPv4 written as IPv6 is IPv4.
        let as_v4 = match net.addr().to_canonical() {
            base @ IpAddr::V4(_) if net.max_prefix_len() == 128 => net
                .prefix_len()
                .checked_sub(96)
                .and_then(|prefix| IpNet::new(base, prefix).ok()),
            _ => None,
        };
        Ok(Self(as_v4.unwrap_or(net)))
    }
}

impl TryFrom<String> for AddressRange {
    type Error = NotARange;

    fn try_from(text: String) -> Result<Self, NotARange> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> Self {
        range.to_string()
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl AddressRange {
    /// Whether `address` is in it, for what a range opens. Addresses of the two families are never in each other's ranges, but an
    /// IPv4 address written as IPv6 (`::ffff:10.0.0.1`) counts as what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.holds(address.to_canonical())
    }

    /// Whether `address` may end up in it, for what a range closes: as it is written, or as an IPv4 address that it has in it.
    fn closes(&self, address: IpAddr) -> bool {
        meanings(address).any(|one| self.holds(one))
    }

    fn holds(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

/// The ranges of a cluster's pods, services and nodes: those that were given, and those that were seen since. A cheap handle;
/// all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Networks(Arc<RwLock<Ranges>>);

#[derive(Debug, Default)]
struct Ranges {
    given: Vec<AddressRange>,
    nodes: Vec<AddressRange>,
    services: Vec<AddressRange>,
    /// Those of Services are to come: nothing is judged by what is not known yet.
    awaits_services: bool,
    all: Arc<[AddressRange]>,
}

impl Networks {
    /// Those that are given, for good.
    pub fn of(given: Vec<AddressRange>) -> Self {
        let ranges = Ranges {
            all: given.as_slice().into(),
            given,
            ..Ranges::default()
        };
        Self(Arc::new(RwLock::new(ranges)))
    }

    /// All that are known now.
    pub fn all(&self) -> Arc<[AddressRange]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).all.clone()
    }

    /// Somebody reads the addresses of Services: until they are seen these are not known.
    pub fn await_services(&self) {
        self.see(|known| known.awaits_services = true);
    }

    /// Whether it is known which addresses are the cluster's, as far as anybody will say.
    pub fn are_known(&self) -> bool {
        !self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .awaits_services
    }

    /// The addresses of Nodes and their pods, as they are now.
    pub fn see_nodes(&self, ranges: Vec<AddressRange>) {
        self.see(|known| known.nodes = ranges);
    }

    /// The addresses of Services, and of pods that the network of the cluster names, as they are now.
    pub fn see_services(&self, ranges: Vec<AddressRange>) {
        self.see(|known| {
            known.services = ranges;
            known.awaits_services = false;
        });
    }

    fn see(&self, put: impl FnOnce(&mut Ranges)) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        put(&mut known);
        let all = known.given.iter().chain(&known.nodes).chain(&known.services);
        known.all = all.copied().collect();
    }
}

/// An address as it is written, and every IPv4 address that it may end up at: IPv4 inside IPv6 (mapped, compatible, NAT64, 6to4,
/// SIIT, ISATAP). Which it is, only the network knows: what is closed is closed under each of them.
fn meanings(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let embedded = match address {
        IpAddr::V4(_) => [None, None],
        IpAddr::V6(v6) => [at_the_end(v6), at_the_front(v6)],
    };
    std::iter::once(address).chain(embedded.into_iter().flatten().map(IpAddr::V4))
}

/// IPv4 in the last 32 bits.
fn at_the_end(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let [.., high, low] = segments;
    let is_one = match segments {
        [0, 0, 0, 0, 0, 0, ..] => !address.is_loopback() && !address.is_unspecified(),
        // Mapped; NAT64; SIIT (RFC 7915); ISATAP (RFC 5214) with either bit of the interface.
        [0, 0, 0, 0, 0, 0xffff, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [.., 0 | 0x200, 0x5efe, _, _] => true,
        _ => false,
    };
    is_one.then(|| v4(high, low))
}

/// IPv4 behind the prefix of 6to4.
fn at_the_front(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

/// Why an address in a range of the cluster is refused: the one reason that an administrator may lift.
pub const OF_CLUSTER: &str = "an address of the cluster";

/// Why a component may not be connected to `address`, if it may not without a grant that names the address.
/// `cluster` are the ranges of pods, services and nodes as far as the operator knows them.
pub fn refusal(address: IpAddr, cluster: &[AddressRange]) -> Option<&'static str> {
    if cluster.iter().any(|range| range.closes(address)) {
        return Some(OF_CLUSTER);
    }
    of_machine(address)
}

/// Why nobody's rule may be connected to `address`, whatever a grant names: it is of this machine, of what runs it, or of no machine.
pub fn of_machine(address: IpAddr) -> Option<&'static str> {
    meanings(address).find_map(|one| match one {
        IpAddr::V4(v4) => refusal_v4(v4),
        IpAddr::V6(v6) => refusal_v6(v6),
    })
}

/// Why nobody at all is connected to `address`, whoever named it: as [`of_machine`], but for loopback, where an administrator may have a
/// server.
pub fn of_nobody(address: IpAddr) -> Option<&'static str> {
    of_machine(address).filter(|_| !is_loopback(address))
}

/// Whether `address` is a loopback address, as IPv4 written as IPv6 too. A tunnel that may end at one is none.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [127, ..] => Some("a loopback address"),
        // 100.100.100.200 and 168.63.129.16 answer inside clouds as 169.254.169.254 does elsewhere.
        [169, 254, ..] => Some("a link-local address"),
        [100, 100, 100, 200] | [168, 63, 129, 16] => Some("a metadata address"),
        [0, ..] => Some("an unspecified address"),
        // IETF protocol assignments: DS-Lite, NAT64 discovery.
        [192, 0, 0, _] => Some("a reserved address"),
        [224..=255, ..] => Some("a multicast or reserved address"),
        _ => None,
    }
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    let first = address.segments()[0];
    if address.is_loopback() {
        Some("a loopback address")
    } else if address.is_unspecified() {
        Some("an unspecified address")
    } else if first & 0xffc0 == 0xfe80 {
        Some("a link-local address")
    } else if first & 0xffc0 == 0xfec0 {
        Some("a site-local address")
    } else if matches!(address.segments(), [0x2001, 0, ..] | [0x64, 0xff9b, 1, ..]) {
        // Teredo, and the local prefix of translators (RFC 8215): where they end nobody can tell from them.
        Some("an address of a tunnel or translator")
    } else if first & 0xff00 == 0xff00 {
        Some("a multicast or reserved address")
    } else if matches!(
        address.segments(),
        // The metadata and credential services of AWS, Google, Oracle and Scaleway. Of the last only the one address: no grant opens
        // what is refused here, and people give fd00:42:: to their own networks.
        [0xfd00, 0xec2, ..]
            | [0xfd20, 0xce, ..]
            | [0xfd00, 0xc1, .., 0xa9fe, 0xa9fe]
            | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42]
    ) {
        Some("a metadata address")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_later_is_closed_later_and_open_once_it_is_gone() {
        let networks = Networks::of(vec!["10.0.0.0/8".parse().unwrap()]);
        let closed = |address: &str| refusal(address.parse().unwrap(), &networks.all()).is_some();
        assert!(closed("10.1.1.1") && !closed("198.51.100.7") && !closed("2001:db8::1"));
        networks.see_nodes(vec![
            "198.51.100.7".parse().unwrap(),
            "2001:db8::/64".parse().unwrap(),
        ]);
        networks.see_services(vec!["203.0.113.0/24".parse().unwrap()]);
        assert!(closed("198.51.100.7") && closed("2001:db8::1") && closed("203.0.113.9"));
        networks.see_nodes(Vec::new());
        assert!(closed("10.1.1.1") && !closed("198.51.100.7") && closed("203.0.113.9"));
    }

    #[test]
    fn what_somebody_reads_is_known_once_it_is_seen() {
        let networks = Networks::of(Vec::new());
        assert!(networks.are_known(), "nobody reads more");
        networks.await_services();
        networks.see_nodes(Vec::new());
        assert!(!networks.clone().are_known());
        networks.see_services(Vec::new());
        assert!(networks.are_known());
    }

    #[test]
    fn the_machine_its_metadata_and_the_cluster_are_refused_however_written() {
        let cluster = [
            "10.128.0.0/14".parse().unwrap(),
            "fd01::/48".parse().unwrap(),
            "2002:c000:204::/48".parse().unwrap(),
            "::ffff:172.16.0.0/108".parse().unwrap(),
        ];
        let check = |address: &str, expect: bool| {
            let refused = refusal(address.parse().unwrap(), &cluster);
            assert_eq!(refused.is_some(), expect, "{address}: {refused:?}");
        };
        for bad in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "10.128.3.4",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd01::5",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "::ffff:10.128.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "::ffff:0:7f00:1",
            "2001:db8::5efe:169.254.169.254",
            "2001:db8::200:5efe:127.0.0.1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "64:ff9b:1::a9fe:a9fe",
            "fec0::1",
            "192.0.0.170",
            "fd00:42::42",
            // What they are as written counts too, whatever IPv4 address they have in them.
            "fd01::5efe:808:808",
            "fd01::200:5efe:808:808",
            "fe80::5efe:808:808",
            "fec0::5efe:808:808",
            "ff02::5efe:808:808",
            "fd00:ec2::5efe:808:808",
            "fd20:ce::5efe:808:808",
            "2001::5efe:808:808",
            "64:ff9b:1::5efe:808:808",
            "2002:c000:204::1",
            // One that has two of them.
            "2002:7f00:1::5efe:808:808",
            "2002:808:808::5efe:a80:304",
            "::ffff:172.16.0.1",
            "172.16.0.1",
            "64:ff9b::a80:304",
        ] {
            check(bad, true);
        }
        for good in [
            "93.184.216.34",
            "10.0.0.1",
            "192.168.1.1",
            "2606:2800:220:1::1",
            "fd02::1",
            "172.32.0.1",
            "fd00:42::43",
            // A public address behind a translator, a tunnel or a costume stays one.
            "64:ff9b::808:808",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
            "2001:db8::5efe:8.8.8.8",
        ] {
            check(good, false);
        }
    }

    #[test]
    fn what_is_opened_is_opened_as_it_is_written() {
        let opened = |range: &str, address: &str| {
            let range: AddressRange = range.parse().unwrap();
            range.contains(address.parse().unwrap())
        };
        for (range, address) in [
            ("10.0.0.0/8", "10.1.2.3"),
            ("10.0.0.0/8", "::ffff:10.1.2.3"),
            ("::ffff:10.0.0.0/104", "10.1.2.3"),
            ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3"),
            ("fd01::/48", "fd01::5efe:808:808"),
        ] {
            assert!(opened(range, address), "{range} {address}");
        }
        for (range, address) in [
            ("10.0.0.0/8", "64:ff9b::a01:203"),
            ("10.0.0.0/8", "2002:a01:203::1"),
            ("10.0.0.0/8", "fd01::5efe:a01:203"),
            ("10.0.0.0/8", "::10.1.2.3"),
            ("127.0.0.0/8", "2002:7f00:1::1"),
        ] {
            assert!(!opened(range, address), "{range} {address}");
        }
        assert!(is_loopback("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!is_loopback("2002:7f00:1::1".parse().unwrap()));
        // Where an administrator's server may be is no tunnel into this machine.
        assert!(of_nobody("64:ff9b::7f00:1".parse().unwrap()).is_some());
    }

    #[test]
    fn who_may_go_anywhere_goes_to_this_machine_and_nowhere_that_nothing_opens() {
        let closed = |address: &str| of_nobody(address.parse().unwrap());
        for (bad, why) in [
            ("169.254.169.254", "a link-local address"),
            ("100.100.100.200", "a metadata address"),
            ("168.63.129.16", "a metadata address"),
            ("0.0.0.0", "an unspecified address"),
            ("224.0.0.1", "a multicast or reserved address"),
            ("fe80::1", "a link-local address"),
            ("fd00:ec2::254", "a metadata address"),
            ("::", "an unspecified address"),
            ("ff02::1", "a multicast or reserved address"),
            ("::ffff:169.254.169.254", "a link-local address"),
            ("::169.254.169.254", "a link-local address"),
            ("64:ff9b::a9fe:a9fe", "a link-local address"),
            ("2002:a9fe:a9fe::", "a link-local address"),
            ("::ffff:0:a9fe:a9fe", "a link-local address"),
            ("2001:db8::5efe:169.254.169.254", "a link-local address"),
            ("::ffff:0.0.0.0", "an unspecified address"),
            ("64:ff9b:1::a9fe:a9fe", "an address of a tunnel or translator"),
        ] {
            assert_eq!(closed(bad), Some(why), "{bad}");
        }
        for good in [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "10.0.0.1",
            "fd01::5",
            "93.184.216.34",
        ] {
            assert_eq!(closed(good), None, "{good}");
        }
    }

    #[test]
    fn ranges_are_read_and_written() {
        let range: AddressRange = "10.1.0.0/16".parse().unwrap();
        assert!(
            range.contains("10.1.255.1".parse().unwrap()) && !range.contains("10.2.0.1".parse().unwrap())
        );
        assert!(
            "0.0.0.0/0"
                .parse::<AddressRange>()
                .unwrap()
                .contains("8.8.8.8".parse().unwrap())
        );
        assert_eq!("::1".parse::<AddressRange>().unwrap().to_string(), "::1/128");
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "host"] {
            assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
        }
    }
}
