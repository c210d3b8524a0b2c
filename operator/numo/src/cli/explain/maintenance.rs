//! What a NodeMaintenance waits for.

use super::{
    explanation::{Explanation, NAMED},
    gates::also,
    journal::journal,
    owner::waves,
    surroundings::around,
};
use crate::{
    cli::{
        live::{self, Look},
        maintained,
        named::Named,
        remarked::Remark,
        remedy,
    },
    shell::project::Kind,
};
use numo_api::{
    Reason,
    conditions::{Actor, types},
    marks,
};
use numo_core::observed::MaintenanceView;

/// What a maintenance of the node waits for, and who can end it.
pub(super) fn maintenance(look: &Look, view: &MaintenanceView) -> Explanation {
    let status = &view.status;
    let mut one = Explanation {
        phase: Some(format!(
            "maintenance {}",
            status.phase.as_deref().unwrap_or("not begun")
        )),
        owner: Some(Named::owner(&view.owner)),
        purpose: view.spec.reason.clone(),
        directives: Remark::kept(view.annotations.get(marks::SAID)),
        ..Explanation::of(
            Named::of_cluster(Kind::Node, &view.spec.node_name),
            live::maintenance_words(look, view),
        )
    };
    // Stalled beside others' turns: none of those ends by itself.
    let mut conditions = status.conditions.iter();
    let stalled = conditions.any(|one| one.type_ == types::STALLED && one.status == "True");
    let is_a_persons = stalled && one.reason.map(Reason::who) == Some(Actor::OtherNode);
    if is_a_persons {
        one.ends_by = Some(Actor::ClusterAdmin.phrase());
    }
    let decided = maintained::decision(look, &view.owner).report;
    if let Some(reason) = one.reason.filter(|_| one.ends_by.is_some()) {
        let wait = remedy::Wait {
            look,
            owner: &view.owner,
            report: Some(&decided),
            node: Some(&view.spec.node_name),
            reason,
            who: if is_a_persons {
                Actor::ClusterAdmin
            } else {
                reason.who()
            },
            message: &one.message,
        };
        one.commands = wait.commands();
    }
    if let Some(reason) = one.reason {
        one.also = also(look, &view.owner, &view.spec.node_name, reason);
    }
    if status.phase.as_deref() != Some("Succeeded") {
        waves(&mut one, &decided);
    }
    drained(&mut one, view);
    if let Some(seen) = look.store.observed.nodes.get(&view.spec.node_name)
        && status.phase.as_deref() != Some("Succeeded")
    {
        around(&mut one, look, seen, Some(&view.owner));
    }
    let mut changes = look.store.observed.changes.values();
    one.journal = changes
        .find(|change| change.spec.owner_ref.uid == view.uid)
        .map(journal);
    one
}

/// How far its drain is, and pods that are left.
fn drained(one: &mut Explanation, view: &MaintenanceView) {
    let status = &view.status;
    let total = status.eviction_pods.unwrap_or(0);
    if total > 0 {
        let done = status.drain_progress.unwrap_or(0);
        one.link("drained", format!("{done}% of {total} pods"));
    }
    let pods = status.pending_pods_refs.as_deref().unwrap_or_default();
    for pod in pods.iter().take(NAMED) {
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        one.link("left", format!("Pod {namespace}/{}", pod.name));
    }
    if pods.len() > NAMED {
        one.link("left", format!("and {} more", pods.len() - NAMED));
    }
}
