//! In which subnet of its group a new machine is made. At most one call; changes nothing.

use crate::{
    call::{Query, ask, unreadable},
    group::Group,
    ids::{hash, order as order_list},
    settings::Config,
    xml,
};
use numo_provider_sdk::{Failure, failure::invalid, host::Cloud};

/// Subnets that are tried for one request.
const MOST_SUBNETS: usize = 16;

/// The subnets in the order in which they are tried: first one of each zone, those with the fewest members first as Auto Scaling has it,
/// then the others. Equals are ordered by the request, so that requests at once do not all take the same.
///
/// Errors: the group has no subnets, or EC2 does not answer or refuses.
pub fn order(
    host: &impl Cloud,
    config: &Config,
    group: &Group,
    request: &str,
) -> Result<Vec<String>, Failure> {
    let subnets = match group.subnets.as_slice() {
        [] => {
            return Err(invalid(format!(
                "auto scaling group {}, VPCZoneIdentifier: found nothing, wanted subnets",
                group.name
            )));
        }
        [only] => return Ok(vec![only.clone()]),
        several => several,
    };
    let zones = zones(host, config, group, subnets)?;
    Ok(sorted(group, subnets, &zones, request))
}

fn zones(host: &impl Cloud, config: &Config, group: &Group, subnets: &[String]) -> Result<Zones, Failure> {
    let mut query = Query::ec2("DescribeSubnets");
    for (at, subnet) in subnets.iter().enumerate() {
        query = query.with(&format!("SubnetId.{}", at + 1), subnet);
    }
    let about = format!("subnets of auto scaling group {}", group.name);
    let zones = ask(host, config, &about, &query, |root| {
        let zones = xml::read_all(root, "subnetSet", |item| {
            let zone = xml::text(item, "availabilityZone")?;
            Some((xml::text(item, "subnetId")?.to_owned(), zone.to_owned()))
        });
        let all = |zones: &Zones| {
            subnets
                .iter()
                .all(|subnet| zones.iter().any(|(id, _)| id == subnet))
        };
        zones.filter(all).ok_or_else(|| unreadable(&query, &about))
    })?;
    Ok(zones)
}

/// Subnet and zone.
pub type Zones = Vec<(String, String)>;

/// The same where the zones are known.
pub fn sorted(group: &Group, subnets: &[String], zones: &Zones, request: &str) -> Vec<String> {
    let zone = |subnet: &str| {
        let mut zones = zones.iter();
        let found = zones.find(|(id, _)| id == subnet);
        found.map_or("", |(_, zone)| zone.as_str())
    };
    let members = |zone: &str| {
        let members = group.members.iter();
        let living = members.filter(|member| !member.is_ending() && member.zone == zone);
        living.count()
    };
    let mut ordered: Vec<(u64, &String)> = Vec::new();
    for subnet in subnets {
        ordered.push((hash(&[request, subnet.as_str()]), subnet));
    }
    order_list(&mut ordered, |a, b| a < b);
    // How many of its zone go before it, and how many members that has.
    let mut ranked: Vec<(usize, usize, &String)> = Vec::new();
    for (_, subnet) in ordered {
        let zone_of_this = zone(subnet);
        let before = ranked.iter().filter(|(_, _, other)| zone(other) == zone_of_this);
        ranked.push((before.count(), members(zone_of_this), subnet));
    }
    // Equals stay as the request has them.
    order_list(&mut ranked, |a, b| (a.0, a.1) < (b.0, b.1));
    let chosen = ranked.into_iter().take(MOST_SUBNETS);
    chosen.map(|(_, _, subnet)| subnet.clone()).collect()
}
