//! The statuses of rules and targets. There may be many of them, each may be of a large object, and an API server may take half a minute
//! for one of those. So they stand in a line, a few at a time are under way, and nothing waits for them: whoever writes many rules holds up
//! nobody.

use super::announce::{Changed, Refused};
use crate::{
    frontends,
    shell::{item::Item, kind::Kind, planner::context::Context, status, store::Store},
};
use jiff::Timestamp;
use numo_api::{Condition, MutexRuleStatus, MutexTargetStatus};
use numo_core::{
    observed::Key,
    referred::{self, Referral},
    rules::inline,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeSet, VecDeque},
    future,
};
use tokio::task::JoinSet;

/// Statuses that are under way at once: each may be of an object of 1.5 MiB.
const UNDER_WAY: usize = 4;

/// The rules and targets whose status is to be written. One that cannot be written stands behind the others, once.
#[derive(Debug, Default)]
pub struct Line {
    order: VecDeque<(Kind, Key)>,
    /// Those that stand in the line, and those whose status is under way.
    known: BTreeSet<(Kind, Key)>,
    under_way: JoinSet<Sent>,
}

/// A status that was sent, and what the API server answered.
#[derive(Debug)]
pub struct Sent {
    kind: Kind,
    key: Key,
    uid: String,
    /// The conditions as they were, and as they were sent.
    conditions: (Vec<Condition>, Vec<Condition>),
    answer: Result<Item, kube::Error>,
}

impl Line {
    /// Whether there is a status that can be sent now.
    pub fn can_send(&self) -> bool {
        !self.order.is_empty() && self.under_way.len() < UNDER_WAY
    }

    /// Puts every rule and target whose status differs at the end; a rule that a watched owner refers to at the front.
    pub fn line_up(&mut self, context: &Context) {
        let (store, now) = (&context.store, context.now());
        // What is said of a rule that stands in a run is in the run's status.
        let own = store.rules().filter(|(key, _)| !inline::is_inline(key));
        let due: Vec<&Key> = own
            .map(|(key, _)| key)
            .filter(|key| rule_due(store, key, now).is_some())
            .collect();
        if !due.is_empty() {
            let referred = referred::rules(&store.observed);
            for key in due {
                let is_first = referred.get(key) == Some(&Referral::Watched);
                self.add(Kind::MutexRule, key, is_first);
            }
        }
        for key in store.observed.targets.keys() {
            if target_due(store, key, now).is_some() {
                self.add(Kind::MutexTarget, key, false);
            }
        }
    }

    /// Sends the status of the first few.
    pub fn send(&mut self, context: &Context) {
        while self.under_way.len() < UNDER_WAY
            && let Some((kind, key)) = self.order.pop_front()
        {
            let (store, now) = (&context.store, context.now());
            let sends = if kind == Kind::MutexTarget {
                target_due(store, &key, now)
                    .map(|due| self.send_one(context, (kind, &key), due, |status| &status.conditions))
            } else {
                rule_due(store, &key, now)
                    .map(|due| self.send_one(context, (kind, &key), due, |status| &status.conditions))
            };
            if sends.is_none() {
                // It does not differ any more.
                self.known.remove(&(kind, key));
            }
        }
    }

    fn send_one<S: Serialize + DeserializeOwned + Send + Sync + 'static>(
        &mut self,
        context: &Context,
        (kind, key): (Kind, &Key),
        (uid, before, status): (String, Vec<Condition>, S),
        conditions: impl FnOnce(&S) -> &Vec<Condition>,
    ) {
        let after = conditions(&status).clone();
        let (client, key) = (context.connection.write.clone(), key.clone());
        self.under_way.spawn(async move {
            let answer = status::sent(status::put(&client, kind, &key, &uid, &status)).await;
            Sent {
                kind,
                key,
                uid,
                conditions: (before, after),
                answer,
            }
        });
    }

    /// The next status that the API server has answered; never, while none is under way. Nothing is lost if it is not waited for to the end.
    pub async fn answered(&mut self) -> Sent {
        loop {
            match self.under_way.join_next().await {
                Some(Ok(sent)) => return sent,
                // Which one it was nobody knows: those that stand in the line are known.
                Some(Err(_)) => self.known = self.order.iter().cloned().collect(),
                None => future::pending().await,
            }
        }
    }

    /// Puts the answer into the store, and tells what came of it. What is to be said by now is sent next, if it is something else.
    pub fn take_in(&mut self, context: &mut Context, refused: &mut Refused, sent: Sent) {
        let Sent { kind, key, uid, .. } = sent;
        let written = status::keep(&mut context.store, kind, sent.answer);
        let is_written = written.is_ok();
        let (before, after) = sent.conditions;
        let changed = Changed {
            kind,
            key: &key,
            uid: &uid,
            before: &before,
            after: &after,
        };
        refused.tell(&context.events, &changed, written);
        self.known.remove(&(kind, key.clone()));
        // What the API server keeps otherwise than it was sent is no reason to send it again.
        let due = conditions_due(&context.store, kind, &key, context.now());
        if is_written && due.is_some_and(|due| due != after) {
            self.add(kind, &key, true);
        }
    }

    fn add(&mut self, kind: Kind, key: &Key, is_first: bool) {
        let one = (kind, key.clone());
        if !self.known.insert(one.clone()) {
            return;
        }
        if is_first {
            self.order.push_front(one);
        } else {
            self.order.push_back(one);
        }
    }
}

/// The conditions of a rule or target, if its status differs from the one that is there.
fn conditions_due(store: &Store, kind: Kind, key: &Key, now: Timestamp) -> Option<Vec<Condition>> {
    if kind == Kind::MutexTarget {
        return Some(target_due(store, key, now)?.2.conditions);
    }
    Some(rule_due(store, key, now)?.2.conditions)
}

/// The status of a rule, with its uid and the conditions before, if it differs from the one that is there.
fn rule_due(store: &Store, key: &Key, now: Timestamp) -> Option<(String, Vec<Condition>, MutexRuleStatus)> {
    let rule = store.rule(key)?;
    let view = store.observed.rules.get(key)?;
    let status = frontends::mutex_rule::status(rule, view, store.examined(key), now);
    if rule.status.as_ref() == Some(&status) {
        return None;
    }
    let before = rule.status.as_ref().map(|status| status.conditions.clone());
    Some((view.uid.clone(), before.unwrap_or_default(), status))
}

/// The status of a target, with its uid and the conditions before, if it differs from the one that is there.
fn target_due(
    store: &Store,
    key: &Key,
    now: Timestamp,
) -> Option<(String, Vec<Condition>, MutexTargetStatus)> {
    let target = store.observed.targets.get(key)?;
    let status = frontends::mutex_target::status(target, &store.observed, now);
    let before = target.status.conditions.clone();
    (target.status != status).then(|| (target.uid.clone(), before, status))
}
