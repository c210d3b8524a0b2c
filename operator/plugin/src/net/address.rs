//! Which addresses a name may lead to. A component chooses names; this keeps them from leading to the machine, its
//! metadata service, or the cluster's inside. It does not resolve.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
    sync::{Arc, PoisonError, RwLock},
};

use serde::{Deserialize, Serialize};

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    base: IpAddr,
    prefix: u8,
}

/// A text that is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address and no range like 10.0.0.0/8")]
pub struct NotARange(String);

impl FromStr for AddressRange {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let wrong = || NotARange(text.to_owned());
        let (base, prefix) = match text.split_once('/') {
            Some((base, prefix)) => (base, Some(prefix)),
            None => (text, None),
        };
        let base: IpAddr = base.parse().map_err(|_| wrong())?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|prefix| *prefix <= most)
                .ok_or_else(wrong)?,
            None => most,
        };
        Ok(Self { base, prefix })
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
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl AddressRange {
    /// Whether `address` is in it. Addresses of the two families are never in each other's ranges, but an IPv4 address
    /// written as IPv6 (`::ffff:10.0.0.1`) counts as what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, canonical(address)) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                u32::from(base) & mask == u32::from(address) & mask
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                u128::from(base) & mask == u128::from(address) & mask
            }
            _ => false,
        }
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

    /// The addresses of Nodes and their pods, as they are now.
    pub fn see_nodes(&self, ranges: Vec<AddressRange>) {
        self.see(|known| known.nodes = ranges);
    }

    /// The addresses of Services, as they are now.
    pub fn see_services(&self, ranges: Vec<AddressRange>) {
        self.see(|known| known.services = ranges);
    }

    fn see(&self, put: impl FnOnce(&mut Ranges)) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        put(&mut known);
        let all = known.given.iter().chain(&known.nodes).chain(&known.services);
        known.all = all.copied().collect();
    }
}

/// What an address stands for: IPv4 inside IPv6 (mapped, NAT64, 6to4, SIIT, ISATAP) is the IPv4 address it ends up at.
fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let segments = v6.segments();
    let [.., high, low] = segments;
    match segments {
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..]
            if !v6.is_loopback() && !v6.is_unspecified() =>
        {
            IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        // SIIT (RFC 7915), and ISATAP (RFC 5214) with either bit of the interface.
        [0, 0, 0, 0, 0xffff, 0, ..] | [.., 0 | 0x200, 0x5efe, _, _] => {
            IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        [0x2002, high, low, ..] => IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        _ => address,
    }
}

/// Why a component may not be connected to `address`, if it may not without a grant that names the address.
/// `cluster` are the ranges of pods, services and nodes as far as the operator knows them.
pub fn refusal(address: IpAddr, cluster: &[AddressRange]) -> Option<&'static str> {
    if cluster.iter().any(|range| range.contains(address)) {
        return Some("an address of the cluster");
    }
    of_machine(address)
}

/// Why nobody's rule may be connected to `address`, whatever a grant names: it is of this machine, of what runs it, or of no machine.
pub fn of_machine(address: IpAddr) -> Option<&'static str> {
    match canonical(address) {
        IpAddr::V4(v4) => refusal_v4(v4),
        IpAddr::V6(v6) => refusal_v6(v6),
    }
}

/// Why nobody at all is connected to `address`, whoever named it: as [`of_machine`], but for loopback, where an administrator may have a
/// server.
pub fn of_nobody(address: IpAddr) -> Option<&'static str> {
    of_machine(address).filter(|_| !is_loopback(address))
}

/// Whether `address` is a loopback address, however it is written.
pub fn is_loopback(address: IpAddr) -> bool {
    canonical(address).is_loopback()
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
        // The metadata and credential services of AWS, Google and Oracle.
        [0xfd00, 0xec2, ..] | [0xfd20, 0xce, ..] | [0xfd00, 0xc1, .., 0xa9fe, 0xa9fe]
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
    fn the_machine_its_metadata_and_the_cluster_are_refused_however_written() {
        let cluster = ["10.128.0.0/14".parse().unwrap(), "fd01::/48".parse().unwrap()];
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
        ] {
            check(bad, true);
        }
        for good in [
            "93.184.216.34",
            "10.0.0.1",
            "192.168.1.1",
            "2606:2800:220:1::1",
            "fd02::1",
        ] {
            check(good, false);
        }
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
