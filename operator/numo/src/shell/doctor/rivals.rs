//! Checks for operators that numo replaces, and for what has their name and not their rights.

use super::finding::{AT_ONCE, Findings};
use crate::shell::{
    client::Connection,
    kind::Kind,
    probe, rival, watch,
    watched::{self, Deployed, Object, Place},
};
use kube::{Api, api::ListParams};
use numo_api::{NodeChange, Reason, Step};
use numo_core::observed::Key;

pub(super) async fn others(connection: &Connection, found: &mut Findings) {
    let before = found.all.len();
    for kind in watched::at(Place::Replaced) {
        let params = kind.select("").list();
        match watch::api(&connection.read, kind, "").list(&params).await {
            Err(error) => return found.unknown("Deployments of other operators", &error),
            Ok(list) => {
                for one in list.items {
                    if let Some(Object::Foreign(key, of)) = watched::object(kind, &one) {
                        other(connection, &key, &of, found).await;
                    }
                }
            }
        }
    }
    impostors(connection, found).await;
    stood_still(connection, found).await;
    if found.all.len() == before {
        found.ok("no operator that numo replaces runs");
    }
}

/// DaemonSets by the name of kured whose locks nobody has to heed.
async fn impostors(connection: &Connection, found: &mut Findings) {
    let params = Kind::Kured.select("").list();
    let list = match watch::items(&connection.read, Kind::Kured, "")
        .list(&params)
        .await
    {
        Ok(list) => list.items,
        Err(error) => return found.unknown("DaemonSets by the name of kured", &error),
    };
    for item in list.iter().take(AT_ONCE) {
        let Some(Object::RebootLocks(key, account, locks)) = watched::item(Kind::Kured, item) else {
            continue;
        };
        let may = probe::may_reboot(&connection.read, &key.namespace, &account).await;
        if may == Some(false) {
            let holds = locks.iter().map(|lock| lock.node.as_str()).take(3);
            let holds = holds.collect::<Vec<_>>().join(", ");
            found.note(
                format!(
                    "DaemonSet {key} has the name of kured, and its ServiceAccount {account} may not patch Nodes: numo does not \
                     believe its reboot lock ({})",
                    if holds.is_empty() { "free" } else { &holds }
                ),
                "ask who made it; nothing to do if it is no kured",
            );
        }
    }
}

/// A Deployment with the name of an operator that numo replaces.
async fn other(connection: &Connection, key: &Key, of: &Deployed, found: &mut Findings) {
    let kind = of.what.kind();
    let now = connection.clock.now();
    let lingers = if of.runs {
        None
    } else {
        rival::left(&connection.read, key, of, now).await.flatten()
    };
    if !of.runs && lingers.is_none() {
        return;
    }
    let may = probe::may_do_work(&connection.read, &key.namespace, &of.account, of.what).await;
    if may == Some(false) {
        return found.note(
            format!(
                "Deployment {key} has the name of an operator that numo replaces, and its \
                 ServiceAccount may not write {kind} objects: numo does not stand off"
            ),
            "nothing to do if it is not meant to work on them",
        );
    }
    match lingers {
        Some(words) => found.wrong(
            format!("Deployment {key} is at 0, but {words}: numo begins nothing for {kind} objects (ForeignController)"),
            "numo takes over by itself once that is gone",
        ),
        None => found.wrong(
            format!("Deployment {key} runs: numo begins nothing for {kind} objects (ForeignController)"),
            format!(
                "hand over when it suits you: kubectl -n {} scale deployment {} --replicas 0",
                key.namespace, key.name
            ),
        ),
    }
}

/// Nodes that numo had in hand when the operator came back that it replaces.
async fn stood_still(connection: &Connection, found: &mut Findings) {
    let api: Api<NodeChange> = Api::all(connection.read.clone());
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list,
        Err(error) => return found.unknown("NodeChanges", &error),
    };
    let stands = list.items.iter().filter_map(|change| {
        let status = change.status.as_ref()?;
        let is_rival = status.reason.as_deref() == Some(Reason::ForeignController.name());
        let flies = status
            .step
            .is_some_and(|step| step != Step::Selected && !step.is_terminal());
        (is_rival && flies).then_some((&change.spec, status))
    });
    for (spec, status) in stands.take(AT_ONCE) {
        let of = &spec.owner_ref;
        found.wrong(
            format!(
                "Node {} stands still in its turn of {} {}: {}",
                spec.node_name,
                of.kind,
                of.name,
                status.message.as_deref().unwrap_or_default()
            ),
            format!(
                "it continues once that operator is gone; to take back what numo did: numo skip {}",
                spec.node_name
            ),
        );
    }
}
