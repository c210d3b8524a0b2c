//! The statuses of owners in namespaces that no administrator has let in. There may be many of them, each may be large, and an API server
//! may take long for one of those. A few at a time are under way, and nothing waits for them: numo changes no node for such an owner, so no
//! decision is made on what its status says.

use super::{plan, run};
use crate::shell::{events::Published, item::Item, kind::Kind, planner::context::Context, status};
use numo_api::{MutexRunConfigStatus, PlanStatus};
use numo_core::{Decision, Owner, OwnerKind};
use std::{collections::BTreeMap, future};
use tokio::task::JoinSet;

/// Statuses that are under way at once.
const UNDER_WAY: usize = 4;

/// The statuses that are under way.
#[derive(Debug, Default)]
pub struct Unwatched {
    under_way: JoinSet<Sent>,
    /// Whose they are, each with whether something else was decided of it since.
    owners: BTreeMap<Owner, bool>,
}

/// A status that was sent, and what the API server answered.
#[derive(Debug)]
pub struct Sent {
    /// Whose it is.
    pub owner: Owner,
    /// The decision that it tells.
    pub decision: Decision,
    /// What is told once it is written.
    pub events: Vec<Published>,
    /// The object as the API server has it then.
    pub answer: Result<Item, kube::Error>,
    /// Whether the owner was decided again since.
    pub is_old: bool,
}

/// What came of an owner's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// There is nothing to write, or it is under way.
    Done,
    /// It waits: too many are under way, or nothing may be written now.
    Waits,
}

/// A status that differs.
enum Due {
    Run(Box<MutexRunConfigStatus>),
    Plan(Box<PlanStatus>),
}

impl Unwatched {
    /// Sends the status of an owner if it differs. While one is under way, the next is for when the API server has answered.
    pub fn send(&mut self, context: &Context, owner: &Owner, uid: &str, decision: &Decision) -> Sends {
        if let Some(is_old) = self.owners.get_mut(owner) {
            *is_old = true;
            return Sends::Done;
        }
        let Some((due, events)) = due(context, owner, decision) else {
            return Sends::Done;
        };
        if self.under_way.len() >= UNDER_WAY || !context.fence.holds() {
            return Sends::Waits;
        }
        self.owners.insert(owner.clone(), false);
        let client = context.connection.write.clone();
        let (owner, uid, decision) = (owner.clone(), uid.to_owned(), decision.clone());
        self.under_way.spawn(async move {
            let key = &owner.key;
            let answer = match due {
                Due::Run(status) => {
                    status::sent(status::put(&client, Kind::MutexRunConfig, key, &uid, &*status)).await
                }
                Due::Plan(status) => status::sent(status::put_plan(&client, key, &uid, &status)).await,
            };
            Sent {
                owner,
                decision,
                events,
                answer,
                is_old: false,
            }
        });
        Sends::Done
    }

    /// The next status that the API server has answered; never, while none is under way. Nothing is lost if it is not waited for to the end.
    pub async fn answered(&mut self) -> Sent {
        loop {
            match self.under_way.join_next().await {
                Some(Ok(sent)) => {
                    let is_old = self.owners.remove(&sent.owner).unwrap_or(false);
                    return Sent { is_old, ..sent };
                }
                // Which one it was nobody knows: each may be sent again.
                Some(Err(_)) => self.owners.clear(),
                None => future::pending().await,
            }
        }
    }
}

/// The status of an owner if it differs from the one that is there, and what is told of it.
fn due(context: &Context, owner: &Owner, decision: &Decision) -> Option<(Due, Vec<Published>)> {
    match owner.kind {
        OwnerKind::Plan => {
            let (view, status) = plan::due(context, owner, decision)?;
            let events = plan::events(context, owner, &view, &status);
            Some((Due::Plan(Box::new(status)), events))
        }
        OwnerKind::MutexRunConfig => {
            let (view, status) = run::due(context, owner, decision)?;
            let events = run::events(context, owner, (&view, &status), decision);
            Some((Due::Run(Box::new(status)), events))
        }
        OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion => None,
    }
}
