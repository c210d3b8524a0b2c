//! `writes_per_node`: what numo writes for one node-upgrade, by the API server's audit log.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use numo_cluster::AuditEvent;
use numo_e2e::NAMESPACE;
use numo_world::{PoolSpec, WorldSpec};

use super::{Measured, POOL, RUN, TO, stage};

const NODES: u16 = 20;

/// Upgrades twenty nodes, five at a time.
pub async fn measure() -> Result<Measured> {
    let mut pool = PoolSpec::new(POOL, usize::from(NODES));
    pool.max_unavailable = Some(IntOrString::Int(5));
    let world = WorldSpec {
        pools: vec![pool],
        ..WorldSpec::default()
    };
    let stage = stage(world, "  maxUnavailable: 5\n").await?;
    let began = Timestamp::now();
    stage.world.upgrade_to(TO).await?;
    stage.upgraded(POOL, TO).await?;
    stage.condition(RUN, "Ready", "True", "Succeeded").await?;
    let events = stage.cluster.audit()?;
    stage.strike().await?;
    let user = format!("system:serviceaccount:{NAMESPACE}:numo");
    let counted: Vec<&AuditEvent> = events
        .iter()
        .filter(|event| event.user == user && event.time >= began && counts(event))
        .collect();
    Ok(Measured {
        value: per_node(counted.len()),
        notes: by_kind(&counted),
    })
}

/// Whether a request of numo counts: all that were meant to change something, but neither evictions nor
/// dry runs, nor the leader's own lease, nor questions that are asked by creating an object.
fn counts(event: &AuditEvent) -> bool {
    event.is_write()
        && event.subresource != "eviction"
        && !event.uri.contains("dryRun=")
        && !(event.resource == "leases" && event.namespace == NAMESPACE)
        && !matches!(
            event.group.as_str(),
            "authorization.k8s.io" | "authentication.k8s.io"
        )
}

#[allow(clippy::cast_precision_loss, reason = "some hundreds")]
fn per_node(count: usize) -> f64 {
    count as f64 / f64::from(NODES)
}

/// How many of what, per node, the most frequent first.
fn by_kind(events: &[&AuditEvent]) -> Vec<String> {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        let mut kind = format!("{} {}", event.verb, event.resource);
        if !event.subresource.is_empty() {
            kind = format!("{kind}/{}", event.subresource);
        }
        if event.code >= 400 {
            kind = format!("{kind}, refused with {}", event.code);
        }
        *kinds.entry(kind).or_default() += 1;
    }
    let mut kinds: Vec<(String, usize)> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    kinds
        .into_iter()
        .map(|(kind, count)| format!("{:>6.2} {kind}", per_node(count)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(verb: &str, resource: &str, change: impl FnOnce(&mut AuditEvent)) -> AuditEvent {
        let mut event = AuditEvent {
            user: "numo".into(),
            user_agent: "numo".into(),
            verb: verb.into(),
            group: String::new(),
            resource: resource.into(),
            subresource: String::new(),
            namespace: "medik8s-leases".into(),
            name: "a".into(),
            uri: "/a".into(),
            code: 200,
            allowed: true,
            time: Timestamp::UNIX_EPOCH,
        };
        change(&mut event);
        event
    }

    #[test]
    fn writes_count_but_not_what_changes_nothing_of_a_node() {
        let cases = [
            (true, event("patch", "nodes", |_| {})),
            (true, event("create", "events", |_| {})),
            (true, event("create", "leases", |_| {})),
            (true, event("update", "nodes", |e| e.code = 409)),
            (false, event("get", "nodes", |_| {})),
            (
                false,
                event("update", "leases", |e| e.namespace = NAMESPACE.into()),
            ),
            (
                false,
                event("create", "pods", |e| e.subresource = "eviction".into()),
            ),
            (
                false,
                event("create", "jobs", |e| e.uri = "/jobs?dryRun=All".into()),
            ),
            (
                false,
                event("create", "subjectaccessreviews", |e| {
                    e.group = "authorization.k8s.io".into();
                }),
            ),
        ];
        for (expected, event) in cases {
            assert_eq!(counts(&event), expected, "{event:?}");
        }
    }

    #[test]
    fn kinds_are_listed_by_how_often_they_come() {
        let events = [
            event("create", "events", |_| {}),
            event("patch", "nodes", |_| {}),
            event("patch", "nodes", |_| {}),
        ];
        let events: Vec<&AuditEvent> = events.iter().collect();
        assert_eq!(by_kind(&events), ["  0.10 patch nodes", "  0.05 create events"]);
    }
}
