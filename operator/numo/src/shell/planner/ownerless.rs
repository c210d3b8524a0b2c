//! NodeChanges whose owner is gone are deleted, beside the decisions. What was not seen may be there all the same: each owner is asked for
//! first, by a list at the API server, which is what numo has a right to. Where it may not ask, or the kind is not served, they stay.

use super::context::Context;
use crate::shell::{apply, client::Connection, kind::kind_of, watch};
use kube::api::ListParams;
use numo_core::{Owner, observed::Key, ownerless};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::{task::JoinHandle, time::Instant};

/// How often NodeChanges are looked at though no owner was seen to go.
const AGAIN: Duration = Duration::from_mins(1);
/// Most owners that are asked for in one go: whoever writes NodeChanges of many costs no more.
const AT_ONCE: usize = 32;

/// Which NodeChanges are looked at next.
#[derive(Debug, Default)]
pub struct Ownerless {
    /// By uid of the owner that was not seen: when it was asked for last.
    asked: BTreeMap<String, Instant>,
    looked: Option<Instant>,
    under_way: Option<JoinHandle<()>>,
}

impl Ownerless {
    /// An owner was seen to go.
    pub const fn look_soon(&mut self) {
        self.looked = None;
    }

    /// Begins to delete NodeChanges whose owner is gone.
    pub fn sweep(&mut self, context: &Context) {
        let now = Instant::now();
        let is_due = self.looked.is_none_or(|at| at + AGAIN <= now);
        let is_under_way = self.under_way.as_ref().is_some_and(|task| !task.is_finished());
        if !is_due || is_under_way || !context.fence.holds() {
            return;
        }
        self.looked = Some(now);
        let found = ownerless::unowned(&context.store.observed);
        let uids: BTreeSet<&str> = found.keys().map(|(_, uid)| *uid).collect();
        self.asked.retain(|uid, _| uids.contains(uid.as_str()));
        let mut due: Vec<_> = found.into_iter().collect();
        due.sort_by_key(|((_, uid), _)| self.asked.get(*uid).copied());
        due.truncate(AT_ONCE);
        let mut owners = Vec::new();
        for ((owner, uid), changes) in due {
            self.asked.insert(uid.to_owned(), now);
            let changes = changes.iter();
            let changes = changes.map(|change| (change.key.clone(), change.uid.clone()));
            owners.push((owner, uid.to_owned(), changes.collect()));
        }
        if !owners.is_empty() {
            let connection = context.connection.clone();
            self.under_way = Some(tokio::spawn(delete_all(connection, owners)));
        }
    }
}

/// The NodeChanges of an owner that was not seen, and its uid.
type Unowned = (Owner, String, Vec<(Key, String)>);

async fn delete_all(connection: Connection, owners: Vec<Unowned>) {
    for owner in owners {
        delete_if_gone(&connection, owner).await;
    }
}

async fn delete_if_gone(connection: &Connection, (owner, uid, changes): Unowned) {
    match is_gone(connection, &owner, &uid).await {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => {
            tracing::debug!(%owner, %error, "whether the owner of NodeChanges is gone is not known");
            return;
        }
    }
    tracing::info!(%owner, uid, count = changes.len(), "the NodeChanges of an owner that is gone are deleted");
    for (key, uid) in changes {
        if let Err(error) = apply::delete_unowned(&connection.write, &key, &uid).await {
            tracing::warn!(change = %key, %error, "a NodeChange whose owner is gone cannot be deleted");
            return;
        }
    }
}

/// Whether there is no owner of this name, or another one.
async fn is_gone(connection: &Connection, owner: &Owner, uid: &str) -> Result<bool, kube::Error> {
    let one = ListParams::default().fields(&format!("metadata.name={}", owner.key.name));
    let api = watch::api(&connection.read, kind_of(owner), &owner.key.namespace);
    let found = api.list_metadata(&one).await?;
    let mut uids = found.items.iter().map(|one| one.metadata.uid.as_deref());
    Ok(!uids.any(|found| found == Some(uid)))
}
