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
type Zones = Vec<(String, String)>;

fn sorted(group: &Group, subnets: &[String], zones: &Zones, request: &str) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Member;

    fn member(zone: &str, lifecycle: &str) -> Member {
        Member {
            id: "i-0".to_owned(),
            zone: zone.to_owned(),
            lifecycle: lifecycle.to_owned(),
        }
    }

    #[test]
    fn the_zone_with_the_fewest_members_goes_first_and_each_zone_before_one_twice() {
        let group = Group {
            members: vec![
                member("a", "InService"),
                member("a", "InService"),
                member("b", "InService"),
                member("c", "Terminating"),
                member("c", "Terminating:Wait"),
            ],
            ..Group::default()
        };
        let subnets = ["s-a", "s-a2", "s-b", "s-c"].map(str::to_owned);
        let zones = [("s-a", "a"), ("s-a2", "a"), ("s-b", "b"), ("s-c", "c")];
        let zones = zones
            .map(|(subnet, zone)| (subnet.to_owned(), zone.to_owned()))
            .into();
        let order = sorted(&group, &subnets, &zones, "r");
        assert_eq!(order.first().map(String::as_str), Some("s-c"));
        assert_eq!(order.get(1).map(String::as_str), Some("s-b"));
        assert_eq!(order.len(), 4);
        assert_eq!(order, sorted(&group, &subnets, &zones, "r"), "the same again");
    }

    #[test]
    fn equal_zones_are_not_always_tried_in_the_same_order() {
        let subnets = ["s-a", "s-b", "s-c"].map(str::to_owned);
        let zones = [("s-a", "a"), ("s-b", "b"), ("s-c", "c")];
        let zones: Zones = zones.map(|(s, z)| (s.to_owned(), z.to_owned())).to_vec();
        let first =
            |n: usize| sorted(&Group::default(), &subnets, &zones, &format!("request-{n}")).swap_remove(0);
        let firsts: std::collections::BTreeSet<String> = (0..30).map(first).collect();
        assert_eq!(firsts.len(), 3, "{firsts:?}");
    }
}
