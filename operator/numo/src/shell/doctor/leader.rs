//! Checks who leads, and what the one that leads says it does not keep.

use super::finding::Findings;
use crate::shell::{
    client::Connection,
    leader::{LEADER_LEASE, age_seconds, holder, is_alive, leases},
    notice::Notice,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;

pub(super) async fn leader(connection: &Connection, namespace: &str, found: &mut Findings) {
    let leases = match leases(&connection.read, LEADER_LEASE).await {
        Ok(leases) => leases,
        Err(error) => return found.unknown(&format!("Leases {LEADER_LEASE}"), &error),
    };
    let now = connection.clock.now();
    let is_alive = |lease: &&Lease| is_alive(lease, now);
    match leases
        .iter()
        .find(|one| one.namespace().as_deref() == Some(namespace))
    {
        Some(lease) if is_alive(&lease) => {
            found.ok(format!("{} leads in namespace {namespace}", holder(lease)));
        }
        Some(lease) => found.wrong(
            format!(
                "nobody leads in namespace {namespace}: Lease {LEADER_LEASE} was renewed {} s ago",
                age_seconds(lease, now).unwrap_or_default()
            ),
            format!("look at the pods: kubectl -n {namespace} logs -l app.kubernetes.io/name=numo"),
        ),
        None => found.wrong(
            format!("numo has never run in namespace {namespace}: there is no Lease {LEADER_LEASE}"),
            "start it, or name its namespace with --operator-namespace",
        ),
    }
    for other in leases
        .iter()
        .filter(|one| one.namespace().as_deref() != Some(namespace))
        .filter(is_alive)
    {
        found.wrong(
            format!(
                "a second numo runs: {} leads in namespace {}",
                holder(other),
                other.namespace().unwrap_or_default()
            ),
            "stop one of them: both would change the same nodes",
        );
    }
}

/// Namespaces in which strangers have written more than numo keeps, as the one that leads says.
pub(super) async fn turned_away(connection: &Connection, namespace: &str, found: &mut Findings) {
    let all = match leases(&connection.read, LEADER_LEASE).await {
        Ok(all) => all,
        Err(error) => return found.unknown("what the numo that leads says", &error),
    };
    let mut own = all
        .iter()
        .filter(|lease| lease.namespace().as_deref() == Some(namespace));
    let notice = own.find_map(Notice::of).unwrap_or_default();
    for words in &notice.not_kept {
        found.wrong(
            format!(
                "numo does not keep all {words}: there are too many of them, or they are too large, in namespaces that numo does not watch"
            ),
            "look who writes them there; those that an owner of another namespace refers to are kept",
        );
    }
    if notice.not_kept.is_empty() {
        found.ok("numo keeps every object that it watches");
    }
}
